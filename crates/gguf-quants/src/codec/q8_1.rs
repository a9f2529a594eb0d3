//! Q8_1: 32 values in 36 bytes; the other operand of ggml's products with Q4_1 and Q5_1. Read-only here.
//!
//! ```text
//! 0      2      4                                36
//! | d    | s    | levels, signed bytes, 32       |
//!   f16    f16    byte i: value i over d
//! ```
//!
//! `s` is the sum of the values, used only by ggml's products. Rules: `block_q8_1` in `ggml-common.h`, `quantize_row_q8_1_ref` in
//! `ggml-quants.c`. ggml has no decoder; this one is equivalent to that of Q8_0.

use super::block::DecodeBlock;
use crate::float::f16_to_f32_ggml;
use crate::lanes::{Floats, Ints, Lanes};

const LEN: usize = 32;
const BYTES: usize = 36;

/// Q8_1.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
        for (value, level) in values.iter_mut().zip(&block[4..]) {
            *value = f32::from(*level as i8) * d;
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let ([d0, d1, _, _], levels) = block.split_first_chunk().unwrap();
        let d = lanes.splat_half(u16::from_le_bytes([*d0, *d1]));
        for i in (0..LEN).step_by(L::N) {
            (lanes.load_i8(&levels[i..]).to_f() * d).store(&mut values[i..]);
        }
    }
}
