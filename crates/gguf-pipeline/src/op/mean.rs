//! The mean of the absolute values of a tensor, as torch computes it.
//!
//! A sum of floats depends on its order. The order here is that of `Tensor.abs().mean()` of 8 or more contiguous values in single precision on
//! one thread (`cascade_sum` in `aten/src/ATen/native/cpu/SumKernel.cpp` of PyTorch): 32 running sums, each of every 32nd value, in levels, so
//! that long sums stay accurate. With several threads, torch divides tensors of 32,768 values or more among them, and the last bit can differ.

/// Lanes of one vector of torch's kernel, on every CPU with AVX2 or more.
const LANES: usize = 8;

/// Running sums: four vectors.
const SUMS: usize = 4 * LANES;

/// Levels of sums; each but the last is added to the next when it is full.
const LEVELS: u8 = 4;

/// A mean of absolute values, of which the values come in pieces.
#[derive(Debug)]
pub(crate) struct MeanOfAbs {
    n: u64,
    /// Groups of as many values as there are running sums.
    n_groups: u64,
    /// A level is full after 2 to the power of this many sums of the level below.
    power: u32,
    group: u64,
    levels: [[f32; SUMS]; LEVELS as usize],
    /// The values behind the last whole group.
    rest: Vec<f32>,
}

impl MeanOfAbs {
    /// The mean of `n` values, none of which is added yet.
    pub(crate) fn new(n: u64) -> MeanOfAbs {
        let n_groups = n / SUMS as u64;
        let log = n_groups.max(2).next_power_of_two().ilog2();
        let power = (log / u32::from(LEVELS)).max(4);
        MeanOfAbs { n, n_groups, power, group: 0, levels: [[0.0; SUMS]; LEVELS as usize], rest: Vec::new() }
    }

    /// Adds the next values. All pieces but the last have to be multiples of 32 values.
    pub(crate) fn add(&mut self, values: &[f32]) {
        let (groups, rest) = values.as_chunks::<SUMS>();
        for group in groups {
            let [first, ..] = &mut self.levels;
            first.iter_mut().zip(group).for_each(|(sum, value)| *sum += value.abs());
            self.group += 1;
            if self.group.is_multiple_of(1 << self.power) {
                self.carry();
            }
        }
        self.rest.extend(rest.iter().map(|value| value.abs()));
    }

    /// Adds full levels to the next ones.
    fn carry(&mut self) {
        let mask = (1u64 << self.power) - 1;
        for level in 1..LEVELS {
            let (below, above) = self.levels.split_at_mut(usize::from(level));
            let (Some(below), Some(above)) = (below.last_mut(), above.first_mut()) else { return };
            above.iter_mut().zip(below.iter()).for_each(|(above, below)| *above += below);
            below.fill(0.0);
            if self.group & mask << (u32::from(level) * self.power) != 0 {
                return;
            }
        }
    }

    /// The mean of all values.
    pub(crate) fn finish(self) -> f32 {
        debug_assert_eq!(self.group, self.n_groups);
        let [mut sums, rest @ ..] = self.levels;
        for level in rest {
            sums.iter_mut().zip(level).for_each(|(sum, more)| *sum += more);
        }
        let (vectors, tail) = self.rest.as_chunks::<LANES>();
        let (of_vectors, _) = sums.as_chunks::<LANES>();
        let mut lanes = [0.0; LANES];
        // The vectors behind the last group come before the sums of the other three.
        for (n, vector) in of_vectors.iter().take(1).chain(vectors).chain(of_vectors.iter().skip(1)).enumerate() {
            match n {
                0 => lanes = *vector,
                _ => lanes.iter_mut().zip(vector).for_each(|(sum, value)| *sum += value),
            }
        }
        let sum = tail.iter().chain(&lanes).fold(0.0, |sum, value| sum + value);
        sum / self.n as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of the sequence `(a · 1103515245 + 12345) mod 2^31`, from 1 on, as shares of 2^30 less 1.
    fn numbers(n: usize) -> Vec<f32> {
        let mut state = 1u64;
        let mut next = || {
            state = (state * 1_103_515_245 + 12345) % (1 << 31);
            state as f32 / (1 << 30) as f32 - 1.0
        };
        (0..n).map(|_| next()).collect()
    }

    /// `torch.tensor(numbers).abs().mean()` with one thread, PyTorch 2.11 on x86-64.
    #[test]
    fn sums_have_the_order_of_torch() {
        const RECORDED: &[(usize, u32)] = &[
            (1, 0x3ce3_3f40),
            (15, 0x3ef3_1591),
            (31, 0x3ee8_e1c5),
            (33, 0x3ef1_9eb8),
            (63, 0x3efc_f0a7),
            (100, 0x3ef6_84e5),
            (4096, 0x3efe_bf0c),
            (5003, 0x3f00_3588),
            (100_003, 0x3eff_d2ae),
            (2_560_017, 0x3eff_e118),
        ];
        for &(n, expected) in RECORDED {
            let mut mean = MeanOfAbs::new(n as u64);
            numbers(n).chunks(1 << 15).for_each(|piece| mean.add(piece));
            assert_eq!(mean.finish().to_bits(), expected, "{n}");
        }
    }
}
