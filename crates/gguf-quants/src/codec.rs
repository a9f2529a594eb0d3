//! The table of codecs: for each tensor type that this crate converts, the functions that do it.
//!
//! A type that is not in the table cannot be decoded or encoded here; absence is `None`, never a guess.

use crate::float;
use gguf_format::GgmlType;

/// Packed little-endian bytes to values; converts as many values as both sides hold.
pub type Decode = fn(packed: &[u8], values: &mut [f32]);
/// Values to packed little-endian bytes; converts as many values as both sides hold.
pub type Encode = fn(values: &[f32], packed: &mut [u8]);

/// What can be done with one tensor type.
#[derive(Debug, Clone, Copy)]
pub struct Codec {
    /// The type.
    pub ty: GgmlType,
    /// Its bytes to `f32`.
    pub decode: Decode,
    /// `f32` to its bytes; `None` for types that are only read.
    pub encode: Option<Encode>,
    /// How many finite values of a row become infinite when encoded; `None` where none can.
    pub overflows: Option<fn(values: &[f32]) -> u64>,
}

const CODECS: &[Codec] = &[
    Codec { ty: GgmlType::F32, decode: float::decode_f32, encode: Some(float::encode_f32), overflows: None },
    Codec {
        ty: GgmlType::F16,
        decode: float::decode_f16,
        encode: Some(float::encode_f16),
        overflows: Some(float::count_f16_overflows),
    },
    Codec {
        ty: GgmlType::BF16,
        decode: float::decode_bf16,
        encode: Some(float::encode_bf16),
        overflows: Some(float::count_bf16_overflows),
    },
    Codec { ty: GgmlType::F64, decode: float::decode_f64, encode: None, overflows: None },
];

/// The codec of a type, if there is one.
pub fn codec(ty: GgmlType) -> Option<&'static Codec> {
    CODECS.iter().find(|c| c.ty == ty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_reads_what_it_writes() {
        let values = [0.0f32, 1.0, -0.5, 96.0];
        for c in CODECS {
            let width = c.ty.tensor_bytes([4]).unwrap() as usize;
            let mut packed = vec![0; width];
            let Some(encode) = c.encode else { continue };
            encode(&values, &mut packed);
            let mut back = [f32::NAN; 4];
            (c.decode)(&packed, &mut back);
            assert_eq!(back, values, "{}", c.ty);
        }
        assert!(codec(GgmlType::F64).is_some_and(|c| c.encode.is_none()));
        assert!(codec(GgmlType::Q4_2).is_none());
    }
}
