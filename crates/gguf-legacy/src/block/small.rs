//! K-quants in blocks of 64 values, from programs compiled with `GGML_QKK_64`.
//!
//! ```text
//! Q2_K   0 scales, 4         4 levels, 16       20 d    22 minimum                      24 bytes
//! Q3_K   0 high bits, 8      8 levels, 16       24 scales, 2       26 d                 28 bytes
//! Q4_K   0 d    2 minimum    4 scales, 2        6 levels, 32                            38 bytes
//! Q5_K   0 d    2 scales, 4  6 high bits, 8     14 levels, 32                           46 bytes
//! Q6_K   0 levels, 32        32 high bits, 16   48 scales, 4       52 d                 54 bytes
//! ```
//!
//! Rules: the branches for `QK_K == 64` of `dequantize_row_q2_K` to `dequantize_row_q6_K` in llama.cpp's `k_quants.c`.

use gguf_format::GgmlType;
use gguf_quants::float::f16_to_f32_ggml;

/// Decodes a block to 64 values in single precision.
pub(super) fn decode(ty: GgmlType, block: &[u8], out: &mut [u8]) {
    for (i, out) in out.chunks_exact_mut(4).enumerate() {
        out.copy_from_slice(&value(ty, block, i).to_le_bytes());
    }
}

/// Value `i` of a block.
fn value(ty: GgmlType, block: &[u8], i: usize) -> f32 {
    let byte = |at: usize| block.get(at).copied().unwrap_or(0);
    let half = |at: usize| f16_to_f32_ggml(u16::from_le_bytes([byte(at), byte(at + 1)]));
    let signed = |at: usize| f32::from(byte(at) as i8);
    // Four levels of two bits in a byte, 16 values apart; two of four bits, 32 apart; eight of one bit, 8 apart.
    let of_two_bits = |at: usize| byte(at + i % 16) >> (2 * (i / 16)) & 3;
    let of_four_bits = |at: usize| byte(at + i % 32) >> (4 * (i / 32)) & 15;
    let high_bit = |at: usize| byte(at + i % 8) >> (i / 8) & 1;
    let group = i / 16;
    match ty {
        GgmlType::Q2_K => {
            let scale = byte(group);
            half(20) * f32::from(scale & 15) * f32::from(of_two_bits(4)) - half(22) * f32::from(scale >> 4)
        }
        GgmlType::Q3_K => {
            let scale = byte(24 + group / 2) >> (4 * (group % 2)) & 15;
            half(26) * (f32::from(scale) - 8.0) * (f32::from(of_two_bits(8)) - 4.0 * f32::from(1 - high_bit(0)))
        }
        GgmlType::Q4_K => {
            let scale = byte(4 + i / 32);
            half(0) * f32::from(scale & 15) * f32::from(of_four_bits(6)) - half(2) * f32::from(scale >> 4)
        }
        GgmlType::Q5_K => {
            half(0) * signed(2 + group) * (f32::from(of_four_bits(14)) - 16.0 * f32::from(1 - high_bit(6)))
        }
        _ => half(52) * signed(48 + group) * (f32::from(of_four_bits(0) | of_two_bits(32) << 4) - 32.0),
    }
}
