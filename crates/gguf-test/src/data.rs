//! Rows to encode and blocks to decode, identical on every machine.
//!
//! Everything is derived from random integers; floats are computed from them exactly, or rounded according to IEEE 754. No mathematical
//! library functions are used, because they differ between machines. The tests of the codecs and the comparisons with ggml in `benches/`
//! share this data.

use gguf_format::{FieldKind, GgmlType, TypeInfo};
use gguf_quants::codec::{Codec, Matrix};

use crate::random::{Random, power_of_two};

pub mod vectors;

/// A kind of numbers to encode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Approximately normally distributed, like weights.
    Normal,
    /// Normal, with a few values many times as large as the rest.
    HeavyTailed,
    /// Runs of one value.
    Constant,
    /// Mostly zeros.
    Sparse,
    /// Around 1e-30, where squares underflow.
    Tiny,
    /// Below the smallest normal number.
    Denormal,
    /// From about a thousand to about 1e9: scales in half precision overflow.
    Large,
    /// Up to the largest number. Encoding may yield NaN, whose sign differs between machines.
    Huge,
    /// Chosen to hit ties, limits and special cases of the encoders.
    Adversarial,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 9] = [
        Kind::Normal,
        Kind::HeavyTailed,
        Kind::Constant,
        Kind::Sparse,
        Kind::Tiny,
        Kind::Denormal,
        Kind::Large,
        Kind::Huge,
        Kind::Adversarial,
    ];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Normal => "normal",
            Kind::HeavyTailed => "heavy-tailed",
            Kind::Constant => "constant",
            Kind::Sparse => "sparse",
            Kind::Tiny => "tiny",
            Kind::Denormal => "denormal",
            Kind::Large => "large",
            Kind::Huge => "huge",
            Kind::Adversarial => "adversarial",
        }
    }

    /// Numbers of this kind that ggml can encode as the type without aborting.
    pub fn values(self, ty: GgmlType, random: &mut Random, n: usize) -> Vec<f32> {
        let mut values = Vec::with_capacity(n + 256);
        while values.len() < n {
            match self {
                Kind::Normal => values.push(random.normal()),
                Kind::HeavyTailed => {
                    let exponent = random.bits().trailing_zeros().min(9) as i32 - 3;
                    values.push(random.normal() * power_of_two(exponent));
                }
                Kind::Constant => {
                    let (value, run) = (random.normal(), *random.choose(&[16, 32, 64, 128, 256]));
                    values.extend((0..run).map(|_| value));
                }
                Kind::Sparse => values.push(match random.below(16) {
                    0 => random.normal(),
                    1 => -0.0,
                    _ => 0.0,
                }),
                Kind::Tiny => {
                    let scale = power_of_two(random.between(-104, -92));
                    values.extend((0..32).map(|_| random.normal() * scale));
                }
                Kind::Denormal => values.push(denormal(random)),
                Kind::Large => {
                    let scale = power_of_two(random.between(14, 34));
                    values.extend((0..32).map(|_| random.normal() * scale));
                }
                Kind::Huge => huge(random, largest_exponent(ty), &mut values),
                Kind::Adversarial => adversarial(random, &mut values),
            }
        }
        values.truncate(n);
        values
    }
}

/// The power of two from which numbers are not passed to ggml's encoder: the sums of the codebook types (IQ1, IQ2, IQ3) overflow, and then
/// it aborts.
pub fn largest_exponent(ty: GgmlType) -> i32 {
    let codebook = ty.info().is_some_and(|t| ["iq1", "iq2", "iq3"].iter().any(|p| t.name.starts_with(p)));
    if codebook { 40 } else { 128 }
}

fn denormal(random: &mut Random) -> f32 {
    let shift = 41 + random.below(23);
    let magnitude = f32::from_bits((random.bits() >> shift) as u32);
    random.sign() * magnitude
}

fn huge(random: &mut Random, largest: i32, values: &mut Vec<f32>) {
    let low = 34;
    // Values reach a factor of 2^-3 at most.
    let exponent = random.between(low, largest);
    let at_limit = largest == 128 && random.one_in(16);
    for _ in 0..*random.choose(&[32, 64, 256]) {
        // Two steps, because 2^128 is not a float.
        let value = random.normal() * power_of_two(exponent - 4) * 16.0;
        values.push(if at_limit && random.one_in(8) { random.sign() * f32::MAX } else { value });
    }
}

/// The values of IQ4_NL's levels (`kvalues_iq4nl` in `ggml-common.h`).
const IQ4_NL: [i32; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
/// Twice the values of FP4's levels (`kvalues_mxfp4` in `ggml-common.h`).
const FP4: [i32; 8] = [0, 1, 2, 3, 4, 6, 8, 12];

/// Groups of 16 or 32 values with one pattern each, up to 256 values: neighbouring groups differ, so that a block mixes several patterns.
/// Sometimes the signs are randomized or the order is shuffled; all values share a random scale.
fn adversarial(random: &mut Random, values: &mut Vec<f32>) {
    let start = values.len();
    let len = *random.choose(&[16, 32]);
    // One pattern for the whole super-block, or one for each group.
    let only = if random.one_in(3) { Some(random.below(PATTERNS)) } else { None };
    let scale = scale(random);
    let apart = random.one_in(4);
    while values.len() < start + 256 {
        let from = values.len();
        let pattern = only.unwrap_or_else(|| random.below(PATTERNS));
        pattern_of(pattern, random, len, values);
        let group = &mut values[from..];
        if random.one_in(8) {
            group.iter_mut().for_each(|v| *v = v.abs() * random.sign());
        }
        if random.one_in(16) {
            group.iter_mut().for_each(|v| *v = -v.abs());
        }
        if random.one_in(4) {
            for i in (1..group.len()).rev() {
                group.swap(i, random.below(i + 1));
            }
        }
        let apart = if apart { power_of_two(random.between(-12, 12)) } else { 1.0 };
        group.iter_mut().for_each(|v| *v *= apart * scale);
    }
    values.truncate(start + 256);
}

fn scale(random: &mut Random) -> f32 {
    match random.below(8) {
        // A power of two preserves ties.
        0..=3 => power_of_two(random.between(-14, 6)),
        4 => power_of_two(random.between(-60, -15)),
        5 => 1.0,
        _ => random.unit() * power_of_two(random.between(-8, 2)),
    }
}

const PATTERNS: usize = 24;

fn pattern_of(pattern: usize, random: &mut Random, len: usize, values: &mut Vec<f32>) {
    let start = values.len();
    match pattern {
        // All zero, of either sign.
        0 => values.extend((0..len).map(|_| 0.0)),
        1 => values.extend((0..len).map(|_| random.sign() * 0.0)),
        // Equal values; equal magnitudes.
        2 => {
            let value = random.normal();
            values.extend((0..len).map(|_| value));
        }
        3 => {
            let value = random.normal();
            values.extend((0..len).map(|_| random.sign() * value));
        }
        // All negative; all positive.
        4 => values.extend((0..len).map(|_| -random.unit())),
        5 => values.extend((0..len).map(|_| random.unit())),
        // Ascending and descending ramps, from below zero or from zero.
        6 => values.extend((0..len).map(|i| i as f32)),
        7 => values.extend((0..len).map(|i| (len / 2) as f32 - i as f32)),
        // Half levels below a largest value that makes the step 1: exact ties.
        8..=10 => {
            let levels = *random.choose(&[1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 127, 128]);
            values.extend((0..len).map(|_| random.between(-2 * levels, 2 * levels) as f32 * 0.5));
            let at = start + random.below(len);
            values[at] = levels as f32 * random.sign();
        }
        // The same, never negative, with the smallest and the largest present.
        11 | 12 => {
            let levels = *random.choose(&[1, 3, 7, 15, 31, 63, 255]);
            values.extend((0..len).map(|_| random.between(0, 2 * levels) as f32 * 0.5));
            values[start] = 0.0;
            values[start + len - 1] = levels as f32;
            let offset = random.between(-2 * levels, levels) as f32;
            values[start..].iter_mut().for_each(|v| *v += offset);
        }
        // One outlier among small ones.
        13 => {
            values.extend((0..len).map(|_| random.normal() * power_of_two(-6)));
            let at = start + random.below(len);
            values[at] = random.sign() * random.unit() * power_of_two(random.between(0, 12));
        }
        // Powers of two, and their neighbours.
        14 => values.extend((0..len).map(|_| {
            let bits = power_of_two(random.between(-6, 6)).to_bits();
            random.sign() * f32::from_bits(bits.wrapping_add_signed(random.between(-1, 1)))
        })),
        // All below a largest value that is a power of two, or its neighbour.
        15 => {
            values.extend((0..len).map(|_| random.normal() * 4.0));
            let at = start + random.below(len);
            let bits = power_of_two(random.between(0, 3)).to_bits();
            values[at] = random.sign() * f32::from_bits(bits.wrapping_add_signed(random.between(-2, 2)));
        }
        // The largest several times, with both signs, and its neighbours.
        16 => {
            let largest = random.unit() + 0.25;
            values.extend((0..len).map(|_| match random.below(4) {
                0 => random.sign() * largest,
                1 => random.sign() * f32::from_bits(largest.to_bits().wrapping_add_signed(random.between(-1, 0))),
                _ => random.normal(),
            }));
        }
        // Halfway between the levels of IQ4_NL, or on them, or one step off.
        17 => {
            values.extend((0..len).map(|_| {
                let i = random.below(15);
                let twice = *random.choose(&[2 * IQ4_NL[i], IQ4_NL[i] + IQ4_NL[i + 1]]);
                let bits = (twice as f32 * 0.5).to_bits();
                f32::from_bits(bits.wrapping_add_signed(random.between(-1, 1)))
            }));
            let at = start + random.below(len);
            values[at] = -127.0;
        }
        // Halfway between the levels of FP4, or on them.
        18 => values.extend((0..len).map(|_| {
            let i = random.below(7);
            let twice = *random.choose(&[2 * FP4[i], FP4[i] + FP4[i + 1]]);
            random.sign() * twice as f32 * 0.25
        })),
        // Three values, and the midpoints between them.
        19 => values.extend((0..len).map(|_| random.between(-2, 2) as f32 * 0.5)),
        // Odd numbers, as in the codebooks, and even ones between them.
        20 => values.extend((0..len).map(|_| random.sign() * random.between(0, 16) as f32)),
        // Ties of half precision and of bfloat16, and their neighbours.
        21 => values.extend((0..len).map(|_| {
            let bits = random.normal().to_bits();
            let tie = *random.choose(&[bits & !0x1fff | 0x1000, bits & !0xffff | 0x8000]);
            f32::from_bits(tie.wrapping_add_signed(random.between(-1, 1)))
        })),
        // Around the thresholds for empty groups (1e-15, 1e-8, 1e-7 and the like).
        22 => {
            let limit = *random.choose(&[1e-15f32, 1e-10, 1e-8, 1e-7, 1e-30]);
            let bits = limit.to_bits().wrapping_add_signed(random.between(-1, 1));
            values.extend((0..len).map(|_| random.normal() * limit));
            let at = start + random.below(len);
            values[at] = random.sign() * f32::from_bits(bits);
        }
        // Ordinary numbers, for blocks that mix patterns.
        _ => values.extend((0..len).map(|_| random.normal())),
    }
}

/// A kind of importance matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    /// No matrix.
    None,
    /// Uniformly distributed, above zero.
    Positive,
    /// Half of them zero, including whole groups.
    SomeZeros,
    /// All zeros.
    Zeros,
    /// Over many powers of two.
    Varied,
    /// Around 1e-30.
    Tiny,
    /// Zeros except for one column.
    OneColumn,
}

impl Weights {
    /// All kinds, no matrix first.
    pub const ALL: [Weights; 7] = [
        Weights::None,
        Weights::Positive,
        Weights::SomeZeros,
        Weights::Zeros,
        Weights::Varied,
        Weights::Tiny,
        Weights::OneColumn,
    ];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Weights::None => "none",
            Weights::Positive => "positive",
            Weights::SomeZeros => "some zeros",
            Weights::Zeros => "zeros",
            Weights::Varied => "varied",
            Weights::Tiny => "tiny",
            Weights::OneColumn => "one column",
        }
    }

    /// A matrix for a row's columns.
    pub fn columns(self, random: &mut Random, row_len: usize) -> Option<Vec<f32>> {
        if self == Weights::None {
            return None;
        }
        let mut weights = vec![0.0; row_len];
        for group in weights.chunks_mut(32) {
            let zeros = random.one_in(8);
            for w in group {
                *w = match self {
                    Weights::Positive => random.unit() * random.unit() * 4.0,
                    Weights::SomeZeros if zeros || random.one_in(2) => 0.0,
                    Weights::SomeZeros => random.unit(),
                    Weights::Varied => random.unit() * power_of_two(random.between(-24, 16)),
                    Weights::Tiny => random.unit() * power_of_two(-100),
                    Weights::None | Weights::Zeros | Weights::OneColumn => 0.0,
                };
            }
        }
        if self == Weights::OneColumn {
            weights[random.below(row_len)] = random.unit();
        }
        Some(weights)
    }
}

/// The kinds of matrix that a type's encoder accepts.
pub fn matrices(codec: &Codec) -> &'static [Weights] {
    match codec.matrix {
        Matrix::Ignored => &Weights::ALL[..1],
        Matrix::Used => &Weights::ALL,
        Matrix::Required => &Weights::ALL[1..],
    }
}

/// Values of an invalid block, on some of which ggml aborts: NaN, infinities, sums that overflow.
pub fn impossible(case: usize, random: &mut Random, len: usize) -> Vec<f32> {
    let mut values: Vec<f32> = (0..len).map(|_| random.normal()).collect();
    let at = random.below(len);
    match case {
        0 => values[at] = f32::NAN,
        1 => values[at] = -f32::NAN,
        2 => values[at] = f32::INFINITY,
        3 => values[at] = f32::NEG_INFINITY,
        4 => values.iter_mut().for_each(|v| *v *= power_of_two(120)),
        5 => values.iter_mut().for_each(|v| *v *= power_of_two(64)),
        6 => values.fill(f32::INFINITY),
        _ => values.fill(f32::NAN),
    }
    values
}

/// Number of cases of [`impossible`].
pub const IMPOSSIBLE: usize = 8;

/// The kind of numbers in the scales of random blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scales {
    /// Of moderate size: all values decode to finite numbers.
    Finite,
    /// Any bits, often NaN, infinite, zero or subnormal.
    Any,
}

/// Random blocks of a type.
pub fn blocks(ty: GgmlType, scales: Scales, random: &mut Random, n_blocks: usize) -> Vec<u8> {
    let Some(info) = ty.info() else { return vec![] };
    let mut packed = random.bytes(n_blocks * info.block_bytes as usize);
    for block in packed.chunks_mut(info.block_bytes as usize) {
        set_scales(info, scales, random, block);
    }
    packed
}

fn set_scales(info: &TypeInfo, scales: Scales, random: &mut Random, block: &mut [u8]) {
    for field in info.fields {
        for i in 0..usize::from(field.count) {
            let width = field.kind.width();
            let at = &mut block[usize::from(field.offset) + i * width..][..width];
            let (exponent_bits, fraction_bits) = match field.kind {
                FieldKind::F16 => (5, 10),
                FieldKind::BF16 => (8, 7),
                FieldKind::F32 => (8, 23),
                FieldKind::F64 => (11, 52),
                FieldKind::E8M0 => {
                    match scales {
                        Scales::Finite => at[0] = 110 + at[0] % 30,
                        Scales::Any if random.one_in(4) => at[0] = *random.choose(&[0, 1, 2, 253, 254, 255]),
                        Scales::Any => {}
                    }
                    continue;
                }
                FieldKind::UE4M3 => {
                    match scales {
                        Scales::Finite => at[0] %= 127,
                        Scales::Any if random.one_in(4) => at[0] = *random.choose(&[0, 1, 8, 126, 127, 128, 255]),
                        Scales::Any => {}
                    }
                    continue;
                }
                FieldKind::SplitF16 => {
                    // The top nibble of the last word has the sign and most of the exponent.
                    if i == 3 {
                        match scales {
                            Scales::Finite => at[1] = at[1] & 0x8f | 0x30,
                            Scales::Any if random.one_in(4) => at[1] |= 0x70,
                            Scales::Any => {}
                        }
                    } else if i == 2 && scales == Scales::Any && random.one_in(2) {
                        at[1] |= 0xc0;
                    }
                    continue;
                }
                FieldKind::U16 | FieldKind::U32 | FieldKind::U64 => continue,
                kind => unreachable!("no scales are made for {kind:?}"),
            };
            let all_ones = (1u64 << exponent_bits) - 1;
            let exponent = match scales {
                Scales::Finite => (all_ones >> 1).wrapping_add_signed(i64::from(random.between(-8, 4))),
                Scales::Any => match random.below(8) {
                    0 => all_ones,
                    1 => 0,
                    _ => random.bits() & all_ones,
                },
            };
            let fraction = match (scales, random.below(8)) {
                (Scales::Any, 0..=1) => 0,
                (Scales::Any, 2) => 1,
                _ => random.bits() & ((1 << fraction_bits) - 1),
            };
            let sign = random.bits() >> 63;
            let bits = sign << (exponent_bits + fraction_bits) | exponent << fraction_bits | fraction;
            at.copy_from_slice(&bits.to_le_bytes()[..width]);
        }
    }
}
