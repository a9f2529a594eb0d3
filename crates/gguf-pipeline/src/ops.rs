//! Operations on a chunk of tensor data between reading and writing it: bytes in, bytes out.

use gguf_format::GgmlType;
use gguf_quants::float;

use crate::plan::Map;

/// A conversion from one float type to another, little-endian on both sides, by the rules of the reference converter.
#[derive(Debug, Clone, Copy)]
pub struct Cast {
    from: &'static Plain,
    to: &'static Plain,
    encode: Encode,
    /// Whether the types are equal and all values, including NaNs, are unchanged.
    copies: bool,
}

/// Encodes values to little-endian bytes.
type Encode = fn(&[f32], &mut [u8]);

/// Decodes little-endian bytes.
pub(crate) type Decode = fn(&[u8], &mut [f32]);

/// The reference converter's decoder and encoder of a float type; it differs from ggml for NaNs.
#[derive(Debug)]
struct Plain {
    ty: GgmlType,
    decode: Decode,
    encode: Option<Encode>,
    /// Counts the finite values that become infinite.
    overflows: Option<fn(&[f32]) -> u64>,
}

const PLAIN: &[Plain] = &[
    Plain { ty: GgmlType::F32, decode: float::decode_f32, encode: Some(float::encode_f32), overflows: None },
    Plain {
        ty: GgmlType::F16,
        decode: float::decode_f16,
        encode: Some(float::encode_f16),
        overflows: Some(float::count_f16_overflows),
    },
    Plain {
        ty: GgmlType::BF16,
        decode: float::decode_bf16,
        encode: Some(float::encode_bf16),
        overflows: Some(float::count_bf16_overflows),
    },
    Plain { ty: GgmlType::F64, decode: float::decode_f64, encode: None, overflows: None },
];

/// The decoder of a float type; `None` for other types.
pub(crate) fn decoder(ty: GgmlType) -> Option<Decode> {
    PLAIN.iter().find(|plain| plain.ty == ty).map(|plain| plain.decode)
}

/// Counts the finite values that become infinite in a type; `None` for types in which none do.
pub(crate) fn overflow_counter(ty: GgmlType) -> Option<fn(&[f32]) -> u64> {
    PLAIN.iter().find(|plain| plain.ty == ty)?.overflows
}

/// Values to convert at once; their `f32` form stays in the first-level cache.
const RUN: usize = 2048;

impl Cast {
    /// The conversion between these types; `None` if one of them is not a float type that can be read or written.
    pub fn new(from: GgmlType, to: GgmlType) -> Option<Cast> {
        let plain = |ty| PLAIN.iter().find(|p| p.ty == ty);
        let (from, to) = (plain(from)?, plain(to)?);
        // bfloat16 is excluded: its encoder makes NaNs quiet, as in the reference.
        let copies = from.ty == to.ty && (from.ty == GgmlType::F32 || from.ty == GgmlType::F16);
        Some(Cast { from, to, encode: to.encode?, copies })
    }

    /// Converts as many values as fit both buffers; returns the number of finite values that became infinite.
    pub fn apply(&self, packed: &[u8], out: &mut [u8]) -> u64 {
        if self.copies {
            let n = packed.len().min(out.len());
            if let (Some(to), Some(from)) = (out.get_mut(..n), packed.get(..n)) {
                to.copy_from_slice(from);
            }
            return 0;
        }
        let (from_bytes, to_bytes) = (width(self.from.ty), width(self.to.ty));
        let mut values = [0f32; RUN];
        let mut overflows = 0;
        for (packed, out) in packed.chunks(RUN * from_bytes).zip(out.chunks_mut(RUN * to_bytes)) {
            let n = (packed.len() / from_bytes).min(out.len() / to_bytes);
            let values = values.get_mut(..n).unwrap_or_default();
            (self.from.decode)(packed, values);
            (self.encode)(values, out);
            overflows += self.to.overflows.map_or(0, |count| count(values));
        }
        overflows
    }
}

/// The nearest value in half precision.
fn rounded_to_half(value: f32) -> f32 {
    let (mut packed, mut rounded) = ([0; 2], [value]);
    float::encode_f16(&rounded, &mut packed);
    float::decode_f16(&packed, &mut rounded);
    let [rounded] = rounded;
    rounded
}

/// Applies functions to the values of a plain type, one after the other. `mapped` receives values of half precision if the source is in
/// half precision, otherwise of single precision; see [`Map`]. `first` is the position of the first value in the output.
///
/// `None` for types that are not plain, and for functions that only occur in tables or plans.
pub fn apply_maps(maps: &[Map], ty: GgmlType, first: u64, packed: &[u8], mapped: &mut [u8]) -> Option<()> {
    let plain = PLAIN.iter().find(|plain| plain.ty == ty)?;
    let halves = ty == GgmlType::F16;
    let (from_bytes, to_bytes) = (width(ty), if halves { 2 } else { 4 });
    let mut values = [0f32; RUN];
    let mut rounded = [0; RUN * 2];
    let mut place = first;
    for (packed, mapped) in packed.chunks(RUN * from_bytes).zip(mapped.chunks_mut(RUN * to_bytes)) {
        let n = (packed.len() / from_bytes).min(mapped.len() / to_bytes);
        let values = values.get_mut(..n)?;
        (plain.decode)(packed, values);
        for map in maps {
            match *map {
                Map::Add(addend) => {
                    // PyTorch rounds the addend, too.
                    let addend = if halves { rounded_to_half(addend) } else { addend };
                    values.iter_mut().for_each(|v| *v += addend);
                }
                Map::Scale(factor) => values.iter_mut().for_each(|v| *v *= factor),
                // The power in double precision, rounded, almost always equals the correctly rounded single-precision power.
                Map::NegExp => values.iter_mut().for_each(|v| *v = -(f64::from(*v).exp() as f32)),
                Map::Softplus => values.iter_mut().for_each(|v| *v = softplus(*v)),
                Map::ScalePart { period, from, to, factor } => {
                    for (v, place) in values.iter_mut().zip(place..) {
                        let place = place.checked_rem(period)?;
                        if from <= place && place < to {
                            *v *= factor;
                        }
                    }
                }
                Map::ZeroFrom(from) => {
                    values.iter_mut().zip(place..).filter(|(_, p)| *p >= from).for_each(|(v, _)| *v = 0.0)
                }
                Map::ZeroBefore(to) => {
                    values.iter_mut().zip(place..).filter(|(_, p)| *p < to).for_each(|(v, _)| *v = 0.0)
                }
                Map::RoundToThree(level) => round_to_three(level, values),
                Map::ScaleBy(_)
                | Map::ScaleRowsBy(_)
                | Map::PadRowsTo(_)
                | Map::ZeroRows(_)
                | Map::Values(_)
                | Map::RoundToMean
                | Map::Whole
                | Map::BatchNorm(_)
                | Map::AddParts
                | Map::ResizeGrid(_) => return None,
            }
            if halves {
                float::encode_f16(values, &mut rounded);
                float::decode_f16(&rounded, values);
            }
        }
        place += n as u64;
        if halves { float::encode_f16(values, mapped) } else { float::encode_f32(values, mapped) }
    }
    Some(())
}

/// [`Map::Softplus`] in double precision, rounded.
fn softplus(x: f32) -> f32 {
    const LINEAR_FROM: f32 = 20.0;
    if x > LINEAR_FROM { x } else { f64::from(x).exp().ln_1p() as f32 }
}

/// [`Map::RoundToThree`], in the steps of the reference, which divides by the reciprocal (`BitnetModel.weight_quant` in
/// `conversion/bitnet.py`).
fn round_to_three(level: f32, values: &mut [f32]) {
    const SMALLEST: f32 = 1e-5;
    let inverse = 1.0 / if level < SMALLEST { SMALLEST } else { level };
    values.iter_mut().for_each(|v| *v = (*v * inverse).round_ties_even().clamp(-1.0, 1.0) / inverse);
}

/// Multiplies products of single precision by values of a plain type; the first factor is the product itself.
///
/// `None` for types that are not plain.
pub fn multiply(ty: GgmlType, packed: &[u8], is_first: bool, products: &mut [u8]) -> Option<()> {
    combine(ty, packed, products, |product, factor| if is_first { factor } else { product * factor })
}

/// Adds values of a plain type to sums of single precision. The first sum is that of zero and the value, as in torch, so that it is never
/// a negative zero.
///
/// `None` for types that are not plain.
pub fn add(ty: GgmlType, packed: &[u8], is_first: bool, sums: &mut [u8]) -> Option<()> {
    combine(ty, packed, sums, |sum, value| if is_first { 0.0 + value } else { sum + value })
}

/// Replaces results of single precision by a function of them and of values of a plain type.
fn combine(ty: GgmlType, packed: &[u8], results: &mut [u8], with: impl Fn(f32, f32) -> f32) -> Option<()> {
    let plain = PLAIN.iter().find(|plain| plain.ty == ty)?;
    let (mut operands, mut values) = ([0f32; RUN], [0f32; RUN]);
    for (packed, results) in packed.chunks(RUN * width(ty)).zip(results.chunks_mut(RUN * 4)) {
        let n = results.len() / 4;
        let (operands, values) = (operands.get_mut(..n)?, values.get_mut(..n)?);
        (plain.decode)(packed, operands);
        float::decode_f32(results, values);
        values.iter_mut().zip(operands).for_each(|(value, operand)| *value = with(*value, *operand));
        float::encode_f32(values, results);
    }
    Some(())
}

/// The values of a plain type; `None` for other types.
pub fn floats(ty: GgmlType, packed: &[u8]) -> Option<Vec<f32>> {
    let mut values = vec![0f32; packed.len() / width(ty)];
    decoder(ty)?(packed, &mut values);
    Some(values)
}

/// [`Op::BatchNorm`](crate::plan::Op::BatchNorm), given the values of its sources, in the steps of the reference
/// (`ConformerAudioModel.modify_tensors` in `conversion/gemma.py`). `halves` rounds each step to half precision.
///
/// `None` if the number of sources is wrong.
pub fn fold_batch_norm(parts: &[Vec<f32>], eps: f32, halves: bool, out: &mut [u8]) -> Option<()> {
    let (weight, variance, shift) = match parts {
        [weight, variance] => (weight, variance, None),
        [weight, variance, bias, mean] => (weight, variance, Some(bias.iter().zip(mean))),
        _ => return None,
    };
    let rounded = |x: f32| match halves {
        true => {
            let (mut half, mut x) = ([0; 2], [x]);
            float::encode_f16(&x, &mut half);
            float::decode_f16(&half, &mut x);
            x[0]
        }
        false => x,
    };
    let factor = |(weight, variance): (&f32, &f32)| rounded(*weight / rounded(rounded(*variance + eps).sqrt()));
    let factors = weight.iter().zip(variance).map(factor);
    let values: Vec<f32> = match shift {
        None => factors.collect(),
        Some(shift) => {
            shift.zip(factors).map(|((bias, mean), factor)| rounded(*bias - rounded(*mean * factor))).collect()
        }
    };
    float::encode_f32(&values, out);
    Some(())
}

/// The lower halves of whole numbers of 64 bits, which are the numbers where they fit 32 bits.
pub fn narrow(wide: &[u8], out: &mut [u8]) {
    let (wide, _) = wide.as_chunks::<8>();
    let (out, _) = out.as_chunks_mut::<4>();
    for (out, [a, b, c, d, ..]) in out.iter_mut().zip(wide) {
        *out = [*a, *b, *c, *d];
    }
}

/// Bytes of one value of a plain type; never 0.
pub fn width(ty: GgmlType) -> usize {
    ty.info().map_or(1, |info| info.block_bytes.max(1) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_scaled_by_their_place_in_the_output() {
        let values: Vec<f32> = (1..=8).map(|i| i as f32).collect();
        let packed: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let apply = |maps: &[Map], first| {
            let mut out = vec![0; 32];
            apply_maps(maps, GgmlType::F32, first, &packed, &mut out)?;
            Some(out.chunks_exact(4).map(|v| f32::from_le_bytes(v.try_into().unwrap())).collect::<Vec<_>>())
        };
        let part = Map::ScalePart { period: 4, from: 1, to: 3, factor: -1.0 };
        assert_eq!(apply(&[part], 0), Some(vec![1.0, -2.0, -3.0, 4.0, 5.0, -6.0, -7.0, 8.0]));
        assert_eq!(apply(&[part], 6), Some(vec![-1.0, 2.0, 3.0, -4.0, -5.0, 6.0, 7.0, -8.0]));
        assert_eq!(apply(&[Map::ZeroFrom(9)], 4), Some(vec![1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 0.0, 0.0]));
        assert_eq!(apply(&[Map::ZeroBefore(6)], 4), Some(vec![0.0, 0.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]));
        assert_eq!(apply(&[Map::ScalePart { period: 0, from: 0, to: 1, factor: 2.0 }], 0), None);
        assert_eq!(apply(&[Map::ScaleBy("x")], 0), None);
    }

    #[test]
    fn softplus_is_rounded_once_and_linear_for_large_values() {
        for (x, expected) in
            [(0.0, std::f32::consts::LN_2), (25.0, 25.0), (-1.0, 0.313_261_7), (-110.0, 0.0), (20.0, 20.0)]
        {
            assert_eq!(softplus(x), expected, "{x}");
        }
    }

    /// The expected bits are those of the same steps in PyTorch 2.11.
    #[test]
    fn values_are_rounded_to_three() {
        const P: u32 = 0x3d8f_5c29;
        const N: u32 = 0xbd8f_5c29;
        const Z: u32 = 0x8000_0000;
        let values = [0.07f32, -0.07, 0.02, -0.02, 0.035, 0.0351, -3.0];
        let packed: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        for (level, expected) in [
            (0.07, [P, N, 0, Z, 0, P, N]),
            (0.3, [0, Z, 0, Z, 0, 0, 0xbe99_999a]),
            // Levels have a minimum.
            (1e-7, [0x3727_c5ac, 0xb727_c5ac, 0x3727_c5ac, 0xb727_c5ac, 0x3727_c5ac, 0x3727_c5ac, 0xb727_c5ac]),
        ] {
            let mut out = vec![0; packed.len()];
            apply_maps(&[Map::RoundToThree(level)], GgmlType::F32, 0, &packed, &mut out).unwrap();
            let expected: Vec<u8> = expected.iter().flat_map(|bits| bits.to_le_bytes()).collect();
            assert_eq!(out, expected, "{level}");
        }
        let mut halves = vec![0; packed.len() / 2];
        float::encode_f16(&values, &mut halves);
        let mut out = vec![0; halves.len()];
        apply_maps(&[Map::RoundToThree(0.07)], GgmlType::F16, 0, &halves, &mut out).unwrap();
        let expected: Vec<u8> =
            [11387u16, 44155, 0, 32768, 11387, 11387, 44155].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(out, expected);
        assert_eq!(apply_maps(&[Map::RoundToMean], GgmlType::F32, 0, &packed, &mut out), None);
    }

    /// The values of PyTorch: the addend, too, is rounded to half precision.
    #[test]
    fn sums_of_halves_have_halves_as_addends() {
        let values = [1.0f32, 0.3, -0.2, 0.0];
        let mut halves = vec![0; 8];
        float::encode_f16(&values, &mut halves);
        let mut out = vec![0; 8];
        apply_maps(&[Map::Add(0.2)], GgmlType::F16, 0, &halves, &mut out).unwrap();
        let mut sums = [0f32; 4];
        float::decode_f16(&out, &mut sums);
        // 0.2 is 0.199951171875 in half precision.
        assert_eq!(sums, [1.2001953, 0.5, 0.0, 0.199_951_17]);
    }

    #[test]
    fn products_are_of_all_factors_in_single_precision() {
        let n = RUN + 5;
        let (a, b): (Vec<f32>, Vec<f32>) = (0..n).map(|i| (i as f32 * 0.1 + 0.3, 7.0 - i as f32 * 0.25)).unzip();
        let (mut first, mut second, mut products) = (vec![0; n * 4], vec![0; n * 2], vec![0; n * 4]);
        float::encode_f32(&a, &mut first);
        float::encode_bf16(&b, &mut second);
        let mut rounded = vec![0f32; n];
        float::decode_bf16(&second, &mut rounded);
        multiply(GgmlType::F32, &first, true, &mut products).unwrap();
        multiply(GgmlType::BF16, &second, false, &mut products).unwrap();
        let mut found = vec![0f32; n];
        float::decode_f32(&products, &mut found);
        let expected: Vec<f32> = a.iter().zip(&rounded).map(|(a, b)| a * b).collect();
        assert_eq!(found, expected);
        assert_eq!(multiply(GgmlType::Q4_0, &first, true, &mut products), None);
    }

    /// The expected bits are those of the same steps in PyTorch 2.11.
    #[test]
    fn batch_norms_are_folded_in_the_type_of_their_sources() {
        let parts = [[0.75f32, -1.3125], [0.375, 2.125], [0.0625, 0.4375], [-0.875, 0.34375]].map(|part| part.to_vec());
        let folded = |n: usize, halves| {
            let mut out = [0; 8];
            fold_batch_norm(&parts[..n], 1e-5, halves, &mut out)?;
            Some(out.as_chunks::<4>().0.iter().map(|bits| u32::from_le_bytes(*bits)).collect::<Vec<_>>())
        };
        assert_eq!(folded(2, false), Some(vec![0x3f9c_c3e7, 0xbf66_7e5a]));
        assert_eq!(folded(4, false), Some(vec![0x3f91_2b6a, 0x3f3f_3b6f]));
        assert_eq!(folded(2, true), Some(vec![0x3f9c_c000, 0xbf66_8000]));
        assert_eq!(folded(4, true), Some(vec![0x3f91_2000, 0x3f3f_4000]));
        assert_eq!(folded(3, false), None);
    }

    #[test]
    fn sums_are_in_single_precision_and_start_with_zero() {
        let n = RUN + 5;
        let (a, b): (Vec<f32>, Vec<f32>) = (0..n).map(|i| (i as f32 * 0.1 - 0.3, 7.0 - i as f32 * 0.3)).unzip();
        let (mut first, mut second, mut sums) = (vec![0; n * 4], vec![0; n * 2], vec![0xff; n * 4]);
        float::encode_f32(&a, &mut first);
        float::encode_f16(&b, &mut second);
        let mut rounded = vec![0f32; n];
        float::decode_f16(&second, &mut rounded);
        add(GgmlType::F32, &first, true, &mut sums).unwrap();
        add(GgmlType::F16, &second, false, &mut sums).unwrap();
        let mut found = vec![0f32; n];
        float::decode_f32(&sums, &mut found);
        assert_eq!(found, a.iter().zip(&rounded).map(|(a, b)| a + b).collect::<Vec<f32>>());
        let mut zero = [0xff; 4];
        add(GgmlType::F32, &(-0.0f32).to_le_bytes(), true, &mut zero).unwrap();
        assert_eq!(zero, [0; 4]);
        assert_eq!(add(GgmlType::Q4_0, &first, true, &mut sums), None);
    }

    #[test]
    fn narrow_numbers_are_the_lower_halves() {
        let wide: Vec<u8> = [5i64, -1, (1 << 32) + 7].iter().flat_map(|n| n.to_le_bytes()).collect();
        let mut out = [0; 12];
        narrow(&wide, &mut out);
        assert_eq!(out.as_chunks::<4>().0.iter().map(|n| i32::from_le_bytes(*n)).collect::<Vec<_>>(), [5, -1, 7]);
    }

    #[test]
    fn casts_between_all_pairs_agree_with_single_values() {
        let values: Vec<f32> = (0..RUN + 37).map(|i| (i as f32 - 700.0) * 117.3).collect();
        for (from, encode) in [
            (GgmlType::F32, gguf_quants::float::encode_f32 as fn(&[f32], &mut [u8])),
            (GgmlType::F16, gguf_quants::float::encode_f16),
            (GgmlType::BF16, gguf_quants::float::encode_bf16),
        ] {
            let mut packed = vec![0; values.len() * width(from)];
            encode(&values, &mut packed);
            let mut exact = vec![0f32; values.len()];
            (Cast::new(from, from).unwrap().from.decode)(&packed, &mut exact);
            for to in [GgmlType::F32, GgmlType::F16, GgmlType::BF16] {
                let mut out = vec![0; values.len() * width(to)];
                let overflows = Cast::new(from, to).unwrap().apply(&packed, &mut out);
                let mut expected = vec![0; out.len()];
                (Cast::new(from, to).unwrap().encode)(&exact, &mut expected);
                assert_eq!(out, expected, "{from} {to}");
                let large = exact.iter().filter(|x| x.is_finite() && x.abs() >= 65520.0).count() as u64;
                assert_eq!(overflows, if to == GgmlType::F16 && from != to { large } else { 0 }, "{from} {to}");
            }
        }
        assert!(Cast::new(GgmlType::F32, GgmlType::F64).is_none());
        assert!(Cast::new(GgmlType::Q4_0, GgmlType::F32).is_none());
    }

    #[test]
    fn nans_of_bfloat_become_quiet_and_those_of_half_stay() {
        let apply = |ty, value: u16| {
            let mut out = [0; 2];
            Cast::new(ty, ty).unwrap().apply(&value.to_le_bytes(), &mut out);
            u16::from_le_bytes(out)
        };
        assert_eq!(apply(GgmlType::BF16, 0x7f81), 0x7fc1);
        assert_eq!(apply(GgmlType::F16, 0x7c01), 0x7c01);
    }
}
