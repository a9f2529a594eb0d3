//! Pseudo-random numbers, the same on every machine, and the hash of numbers.

/// A stream of pseudo-random integers (SplitMix64).
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// The stream for a name and a number: streams of different names are independent.
    pub fn new(name: &str, number: u64) -> Random {
        let mut hash = Hash::default();
        hash.add(name.as_bytes());
        hash.add(&number.to_le_bytes());
        Random(hash.0)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// An integer below `n`, which must not be 0.
    pub fn below(&mut self, n: usize) -> usize {
        (((self.bits() >> 32) * n as u64) >> 32) as usize
    }

    /// An integer from `low` to `high`, inclusive.
    pub fn between(&mut self, low: i32, high: i32) -> i32 {
        low + self.below((high - low + 1) as usize) as i32
    }

    /// True once in `n` times on average.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// 1 or -1.
    pub fn sign(&mut self) -> f32 {
        if self.bits() >> 63 == 0 { 1.0 } else { -1.0 }
    }

    /// An element of the list.
    pub fn choose<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// Random bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..n.div_ceil(8)).flat_map(|_| self.bits().to_le_bytes()).collect();
        bytes.truncate(n);
        bytes
    }

    /// Approximately normally distributed around 0, with a deviation of about 0.04; a sum of four uniform numbers.
    pub fn normal(&mut self) -> f32 {
        let sum: i32 = (0..4).map(|_| (self.bits() >> 42) as i32).sum();
        (sum - (1 << 23)) as f32 * power_of_two(-26)
    }

    /// Uniformly distributed from `2^-23` to 1.
    pub fn unit(&mut self) -> f32 {
        ((self.bits() >> 41) as i32 + 1) as f32 * power_of_two(-23)
    }
}

/// `2^exponent`, exactly; from -149 to 127.
pub fn power_of_two(exponent: i32) -> f32 {
    if exponent < -126 {
        f32::from_bits(1 << (exponent + 149))
    } else {
        f32::from_bits(((exponent + 127) as u32) << 23)
    }
}

/// FNV-1a of 64 bits.
#[derive(Debug, Clone, Copy)]
pub struct Hash(pub u64);

impl Default for Hash {
    fn default() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = (self.0 ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The hash of the bits of numbers, in little-endian order.
    pub fn of(values: &[f32]) -> u64 {
        let mut hash = Hash::default();
        values.iter().for_each(|v| hash.add(&v.to_bits().to_le_bytes()));
        hash.0
    }
}
