//! Shared code of the types with independent blocks: the largest magnitude of each block, the scale computed from it, and rounding.
//!
//! These types need no search. A block's scale is its largest magnitude divided by a constant, and its levels are the values divided by the
//! scale; the cost is in finding that magnitude without a chain of dependent operations. The kernels read each block once for it (vectors
//! along the block, as integers, for which the order does not matter), transpose the partial results of one block per lane, compute all
//! scales at once, and then read each block again from the cache.

use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks};

/// The largest magnitude of each lane's block, as bits; the bits of a NaN if the block has one.
///
/// The bits of magnitudes have the order of the magnitudes, with NaNs above infinity.
#[inline(always)]
pub(super) fn largest<L: Lanes, const LEN: usize>(lanes: L, blocks: &[[f32; LEN]]) -> L::I {
    const { assert!(LEN.is_multiple_of(16)) };
    let magnitude = lanes.splat_i(i32::MAX);
    let mut rest = [[0f32; 16]; MAX_LANES];
    for i in 0..L::N {
        for part in (0..16).step_by(L::N) {
            let mut most = lanes.load(&blocks[i][part..]).bits() & magnitude;
            for from in (16 + part..LEN).step_by(16) {
                most = most.max(lanes.load(&blocks[i][from..]).bits() & magnitude);
            }
            most.as_f().store(&mut rest[i][part..]);
        }
    }
    let mut rows = [&rest[0]; MAX_LANES];
    for i in 0..L::N {
        rows[i] = &rest[i];
    }
    let columns = lanes.columns(&rows);
    let mut most = columns[0].bits();
    for column in &columns[1..] {
        most = most.max(column.bits());
    }
    most
}

/// The bits of infinity: larger ones are NaNs.
pub(super) const INFINITY: i32 = 0x7f80_0000;

/// The scale of each lane's block.
pub(super) struct Scales {
    /// The scale in half precision.
    pub half: [u16; MAX_LANES],
    /// The reciprocal of the scale; zero if the scale is zero.
    pub inverse: [f32; MAX_LANES],
    /// Bit `i` is set if lane `i` has no NaN and its inverse is finite.
    pub valid: u32,
}

impl Scales {
    /// Computes the scales from the bits of the largest magnitudes, and the level of the largest magnitude.
    #[inline(always)]
    pub(super) fn new<L: Lanes>(lanes: L, largest: L::I, top: f32) -> Scales {
        let zero = lanes.splat(0.0);
        let d = largest.as_f() / lanes.splat(top);
        let inverse = d.equal(zero).select(zero, lanes.splat(1.0) / d);
        let valid = lanes.splat_i(INFINITY).gt(largest) & inverse.lt(lanes.splat(f32::INFINITY));
        let mut scales = Scales { half: [0; MAX_LANES], inverse: [0.0; MAX_LANES], valid: valid.to_bits() };
        inverse.store(&mut scales.inverse);
        halves(lanes, d, &mut scales.half);
        scales
    }
}

/// The nearest half-precision numbers, as their bits.
#[inline(always)]
pub(super) fn halves<L: Lanes>(lanes: L, x: L::F, to: &mut [u16; MAX_LANES]) {
    let mut bytes = [0; 2 * MAX_LANES];
    lanes.store_half(x, &mut bytes);
    for (to, bytes) in to.iter_mut().zip(bytes.as_chunks().0) {
        *to = u16::from_le_bytes(*bytes);
    }
}

/// The scale of a block and its reciprocal, as the references compute them: `top` is the level of the largest magnitude.
pub(super) fn scale(largest: f32, top: f32) -> (f32, f32) {
    let d = largest / top;
    (d, if d != 0.0 { 1.0 / d } else { 0.0 })
}

/// The values of the levels 0 to 3, which are -1 to 2: products with the scale. A NaN keeps its sign, as it does in a product.
#[inline(always)]
pub(super) fn ternary(d: f32) -> [f32; 4] {
    [if d.is_nan() { d } else { -d }, 0.0 * d, d, 2.0 * d]
}

/// The largest magnitude as `MAX(amax, fabsf(v))` computes it: a NaN becomes the maximum until the next value replaces it.
pub(super) fn largest_or_last(x: &[f32]) -> f32 {
    let mut largest = 0.0;
    for x in x {
        largest = if largest > x.abs() { largest } else { x.abs() };
    }
    largest
}

/// The largest magnitude as `if (amax < fabsf(v))` computes it: NaNs are ignored.
pub(super) fn largest_number(x: &[f32]) -> f32 {
    let mut largest = 0.0;
    for x in x {
        if largest < x.abs() {
            largest = x.abs();
        }
    }
    largest
}

/// The nearest integer, ties away from zero (`roundf`); for magnitudes below 2³¹.
///
/// Adds the largest number below one half: with one half itself, the number just below one half would become one.
#[inline(always)]
pub(super) fn round<L: Lanes>(lanes: L, x: L::F) -> L::I {
    let sign = x.bits() & lanes.splat_i(i32::MIN);
    (x + (sign | lanes.splat_i(0x3eff_ffff)).as_f()).trunc()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::{Isa, Kernel};
    use crate::lanes::arrays::Arrays;

    struct Round<'a>(&'a [f32]);
    impl Kernel for Round<'_> {
        type Output = Vec<i32>;
        fn plain(self) -> Vec<i32> {
            self.run(Arrays)
        }
        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> Vec<i32> {
            let mut out = Vec::new();
            for x in self.0 {
                let mut levels = [0; MAX_LANES];
                round(lanes, lanes.splat(*x)).store(&mut levels);
                out.push(levels[0]);
            }
            out
        }
    }

    #[test]
    fn rounding_goes_away_from_zero_in_the_middle() {
        let mut values = vec![0.0, 0.3, 0.7, 1e-40, 8388607.5, 8388609.0, 123456792.0, 2147483520.0];
        for half in 0..300 {
            let bits = (half as f32 / 2.0).to_bits();
            values.extend([bits.saturating_sub(1), bits, bits + 1].map(f32::from_bits));
        }
        values = values.iter().flat_map(|x| [*x, -x]).collect();
        let expected: Vec<i32> = values.iter().map(|x| x.round() as i32).collect();
        for isa in Isa::available() {
            assert_eq!(isa.run(Round(&values)), expected, "{isa}");
        }
    }

    struct LargestOf<'a>(&'a [f32; 64]);
    impl Kernel for LargestOf<'_> {
        type Output = u32;
        fn plain(self) -> u32 {
            self.run(Arrays)
        }
        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> u32 {
            let (mut blocks, mut out) = ([[0.0; 64]; MAX_LANES], [0; MAX_LANES]);
            blocks[L::N - 1] = *self.0;
            largest(lanes, &blocks).store(&mut out);
            assert!(out[..L::N - 1].iter().all(|b| *b == 0));
            out[L::N - 1] as u32
        }
    }

    #[test]
    fn the_largest_magnitude_is_found_wherever_it_is() {
        for isa in Isa::available() {
            for at in 0..64 {
                for x in [-3.0f32, f32::INFINITY, f32::NAN, -f32::NAN, 1e-45] {
                    let mut block = [0.0; 64];
                    block[63 - at] = -1e-45;
                    block[at] = x;
                    assert_eq!(isa.run(LargestOf(&block)), x.to_bits() & 0x7fff_ffff, "{isa} {at} {x}");
                }
            }
        }
    }
}
