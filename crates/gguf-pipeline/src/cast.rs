//! Conversions of values of plain types: bytes in, bytes out.

use gguf_format::GgmlType;
use gguf_quants::float;

/// A conversion from one float type to another, little-endian on both sides, by the rules of the reference converter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cast {
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
pub(crate) const RUN: usize = 2048;

impl Cast {
    /// The conversion between these types; `None` if one of them is not a float type that can be read or written.
    pub(crate) fn new(from: GgmlType, to: GgmlType) -> Option<Cast> {
        let plain = |ty| PLAIN.iter().find(|p| p.ty == ty);
        let (from, to) = (plain(from)?, plain(to)?);
        // bfloat16 is excluded: its encoder makes NaNs quiet, as in the reference.
        let copies = from.ty == to.ty && (from.ty == GgmlType::F32 || from.ty == GgmlType::F16);
        Some(Cast { from, to, encode: to.encode?, copies })
    }

    /// Converts as many values as fit both buffers; returns the number of finite values that became infinite.
    pub(crate) fn apply(&self, packed: &[u8], out: &mut [u8]) -> u64 {
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
pub(crate) fn rounded_to_half(value: f32) -> f32 {
    let (mut packed, mut rounded) = ([0; 2], [value]);
    float::encode_f16(&rounded, &mut packed);
    float::decode_f16(&packed, &mut rounded);
    let [rounded] = rounded;
    rounded
}

/// Replaces values of a plain type by a function of them, which gets a run of values and the index of the first. `out` receives values of
/// half precision if the source is in half precision, otherwise of single precision. `first` is the index of the first value.
///
/// `None` for types that are not plain, and if the function returns it.
pub(crate) fn transform(
    ty: GgmlType,
    first: u64,
    packed: &[u8],
    out: &mut [u8],
    mut with: impl FnMut(&mut [f32], u64) -> Option<()>,
) -> Option<()> {
    let decode = decoder(ty)?;
    let halves = ty == GgmlType::F16;
    let (from_bytes, to_bytes) = (width(ty), if halves { 2 } else { 4 });
    let mut values = [0f32; RUN];
    let mut index = first;
    for (packed, out) in packed.chunks(RUN * from_bytes).zip(out.chunks_mut(RUN * to_bytes)) {
        let n = (packed.len() / from_bytes).min(out.len() / to_bytes);
        let values = values.get_mut(..n)?;
        decode(packed, values);
        with(values, index)?;
        index += n as u64;
        if halves { float::encode_f16(values, out) } else { float::encode_f32(values, out) }
    }
    Some(())
}

/// Replaces results of single precision by a function of them and of values of a plain type; `None` for other types.
pub(crate) fn combine(ty: GgmlType, packed: &[u8], results: &mut [u8], with: impl Fn(f32, f32) -> f32) -> Option<()> {
    let decode = decoder(ty)?;
    let (mut operands, mut values) = ([0f32; RUN], [0f32; RUN]);
    for (packed, results) in packed.chunks(RUN * width(ty)).zip(results.chunks_mut(RUN * 4)) {
        let n = results.len() / 4;
        let (operands, values) = (operands.get_mut(..n)?, values.get_mut(..n)?);
        decode(packed, operands);
        float::decode_f32(results, values);
        values.iter_mut().zip(operands).for_each(|(value, operand)| *value = with(*value, *operand));
        float::encode_f32(values, results);
    }
    Some(())
}

/// The values of a plain type; `None` for other types.
pub(crate) fn floats(ty: GgmlType, packed: &[u8]) -> Option<Vec<f32>> {
    let mut values = vec![0f32; packed.len() / width(ty)];
    decoder(ty)?(packed, &mut values);
    Some(values)
}

/// Bytes of one value of a plain type; never 0.
pub(crate) fn width(ty: GgmlType) -> usize {
    ty.info().map_or(1, |info| info.block_bytes.max(1) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

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
