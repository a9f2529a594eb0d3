//! What is done to a chunk of tensor data between reading and writing it. Bytes in, bytes out.

use gguf_format::GgmlType;
use gguf_quants::float;

use crate::plan::Map;

/// A conversion from one float type to another, little-endian on both sides, by the rules of the reference converter.
#[derive(Debug, Clone, Copy)]
pub struct Cast {
    from: &'static Plain,
    to: &'static Plain,
    encode: Encode,
    /// Equal types whose every value, NaNs too, survives unchanged.
    copies: bool,
}

/// Values to little-endian bytes.
type Encode = fn(&[f32], &mut [u8]);

/// Little-endian bytes to values.
pub(crate) type Decode = fn(&[u8], &mut [f32]);

/// How the reference converter reads and writes a float type; it differs from ggml for NaNs.
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

/// How values of a float type are decoded; `None` for other types.
pub(crate) fn decoder(ty: GgmlType) -> Option<Decode> {
    PLAIN.iter().find(|plain| plain.ty == ty).map(|plain| plain.decode)
}

/// Counts the finite values that become infinite in a type; `None` for types in which none do.
pub(crate) fn overflow_counter(ty: GgmlType) -> Option<fn(&[f32]) -> u64> {
    PLAIN.iter().find(|plain| plain.ty == ty)?.overflows
}

/// Values that are converted at once; their `f32` form stays in the first-level cache.
const RUN: usize = 2048;

impl Cast {
    /// The conversion between these types; `None` when one of them is not a float type that is read, or written.
    pub fn new(from: GgmlType, to: GgmlType) -> Option<Cast> {
        let plain = |ty| PLAIN.iter().find(|p| p.ty == ty);
        let (from, to) = (plain(from)?, plain(to)?);
        // bfloat16 is left out: its encoder makes NaNs quiet, as the reference does.
        let copies = from.ty == to.ty && (from.ty == GgmlType::F32 || from.ty == GgmlType::F16);
        Some(Cast { from, to, encode: to.encode?, copies })
    }

    /// Converts as many values as both sides hold; returns how many finite ones became infinite.
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

/// Applies functions to the values of a plain type, one after the other. `mapped` becomes values of half precision where
/// the source is in half precision, otherwise of single precision; see [`Map`]. `first` is the place of the first value in the output.
///
/// `None` for types that are not plain, and for functions that only tables have.
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
                Map::Add(addend) => values.iter_mut().for_each(|v| *v += addend),
                Map::Scale(factor) => values.iter_mut().for_each(|v| *v *= factor),
                // The double's power, rounded, is the single's correctly rounded except for a vanishing chance.
                Map::NegExp => values.iter_mut().for_each(|v| *v = -(f64::from(*v).exp() as f32)),
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
                Map::ScaleBy(_) | Map::ScaleRowsBy(_) | Map::PadRowsTo(_) | Map::ZeroRows(_) | Map::Values(_) => {
                    return None;
                }
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
