//! Generates checkpoints from recipes: names, formats, shapes and kinds of values, with the same bytes on every machine.
//!
//! A tensor's values come from numpy's generator PCG64, seeded with a hash of the recipe's and the tensor's name, and are converted to
//! numbers by exact single-precision operations. So a recipe of two kilobytes describes a checkpoint for which llama.cpp's conversion is
//! recorded.

use crate::checkpoint::{Tensor, safetensors};

/// `PCG64` of numpy: the 128-bit generator PCG XSL RR, seeded by `SeedSequence`.
struct Pcg64 {
    state: u128,
    increment: u128,
}

impl Pcg64 {
    fn new(seed: u128) -> Pcg64 {
        let words = seed_words(seed);
        let [state, sequence] = [0, 2].map(|i| u128::from(words[i]) << 64 | u128::from(words[i + 1]));
        let mut rng = Pcg64 { state: 0, increment: sequence << 1 | 1 };
        rng.step();
        rng.state = rng.state.wrapping_add(state);
        rng.step();
        rng
    }

    fn step(&mut self) {
        const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    fn next(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }
}

/// The four words of `SeedSequence` for a number.
fn seed_words(seed: u128) -> [u64; 4] {
    fn hash(value: u32, constant: &mut u32, multiplier: u32) -> u32 {
        let mixed = value ^ *constant;
        *constant = constant.wrapping_mul(multiplier);
        let mixed = mixed.wrapping_mul(*constant);
        mixed ^ mixed >> 16
    }
    let mut constant = 0x43b0_d7e5;
    let mut pool = [0, 1, 2, 3].map(|i| hash((seed >> (32 * i)) as u32, &mut constant, 0x931e_8875));
    for from in 0..4 {
        for to in (0..4).filter(|to| *to != from) {
            let other = hash(pool[from], &mut constant, 0x931e_8875);
            let mixed = 0xca01_f9dd_u32.wrapping_mul(pool[to]).wrapping_sub(0x4973_f715_u32.wrapping_mul(other));
            pool[to] = mixed ^ mixed >> 16;
        }
    }
    let mut constant = 0x8b51_f9dd;
    let mut half = |i: usize| u64::from(hash(pool[i % 4], &mut constant, 0x58f3_8ded));
    [0, 2, 4, 6].map(|i| half(i) | half(i + 1) << 32)
}

/// Numbers whose exponentials all libraries round equally, in units of 1/4096.
const LOGS: [u16; 37] = [
    268, 320, 344, 388, 430, 508, 620, 696, 840, 940, 1024, 1144, 1376, 1512, 1664, 1840, 2176, 2464, 2864, 2976, 3184,
    3424, 3712, 4080, 4320, 5056, 5376, 5632, 6016, 6816, 7328, 7968, 8640, 9408, 10176, 10944, 11456,
];

/// The bytes of a tensor: `digest` is the SHA-256 of `recipe/tensor`.
fn values(digest: &[u8], dtype: &str, n: u64, kind: &str) -> Vec<u8> {
    let seed: [u8; 16] = digest[..16].try_into().unwrap_or_default();
    let mut rng = Pcg64::new(u128::from_le_bytes(seed));
    let mut half: Option<u32> = None;
    let mut uniform = || {
        let word = half.take().unwrap_or_else(|| {
            let both = rng.next();
            half = Some((both >> 32) as u32);
            both as u32
        });
        (word >> 8) as f32 * (1.0 / (1 << 24) as f32)
    };
    let mut value = || match kind {
        "zero" => 0.0,
        "one" => 1.0,
        "alog" => f32::from(LOGS[(uniform() * LOGS.len() as f32) as usize]) / 4096.0,
        "norm" => (uniform() - 0.5) * 0.25 + 1.0,
        "bias" => (uniform() - 0.5) * 0.04,
        "pos" => uniform() + 0.01,
        "w" => (uniform() - 0.5) * 0.1,
        other => panic!("unknown kind of values {other:?}"),
    };
    let mut out = Vec::new();
    for _ in 0..n {
        let bits = value().to_bits();
        match dtype {
            "F32" => out.extend(bits.to_le_bytes()),
            "BF16" => out.extend(((bits + 0x7fff + (bits >> 16 & 1)) >> 16).to_le_bytes()[..2].iter()),
            other => panic!("unknown format {other:?}"),
        }
    }
    out
}

/// Expands a pattern to names: one for each number of a range such as `{0..3}`.
fn expand(pattern: &str) -> Vec<String> {
    let range = pattern.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    let Some((before, (range, after))) = range else { return vec![pattern.to_owned()] };
    let (first, last) = range.split_once("..").expect("a range");
    let (first, last): (u32, u32) = (first.parse().expect("a number"), last.parse().expect("a number"));
    let rest = expand(after);
    (first..=last).flat_map(|i| rest.iter().map(move |rest| format!("{before}{i}{rest}"))).collect()
}

/// The safetensors file of a recipe's tensors: names, possibly with ranges, with format, dimensions and kind of values.
pub fn weights(recipe: &str, tensors: &[(String, String)], sha256: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut list: Vec<(String, String, Vec<u64>, Vec<u8>)> = Vec::new();
    for (pattern, spec) in tensors {
        let words: Vec<&str> = spec.split_whitespace().collect();
        let (dtype, rest) = words.split_first().expect("a format");
        let shape: Vec<u64> = rest.iter().map_while(|word| word.parse().ok()).collect();
        let kind = rest.get(shape.len()).copied().unwrap_or("w");
        for name in expand(pattern) {
            let digest = sha256(format!("{recipe}/{name}").as_bytes());
            let data = values(&digest, dtype, shape.iter().product(), kind);
            list.push((name, (*dtype).to_owned(), shape.clone(), data));
        }
    }
    let tensors: Vec<Tensor<'_>> = list
        .iter()
        .map(|(name, dtype, shape, data)| (name.as_str(), dtype.as_str(), &shape[..], data.clone()))
        .collect();
    safetensors(&tensors)
}
