//! Q8_K: 256 values in 292 bytes; the other operand of ggml's products with the K types. Read-only here.
//!
//! ```text
//! 0      4                                 260                                       292
//! | d    | levels, signed bytes, 256       | sums of 16 levels each, 16 words signed |
//!   f32    byte i: value i over d
//! ```
//!
//! The sums are used only by ggml's products. Rules: `block_q8_K` in `ggml-common.h`; `dequantize_row_q8_K` in `ggml-quants.c`.

use super::block::DecodeBlock;
use crate::lanes::{Floats, Ints, Lanes};

const LEN: usize = 256;
const BYTES: usize = 292;

/// Q8_K.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let (d, levels) = block.split_first_chunk().unwrap();
        let d = f32::from_le_bytes(*d);
        for (value, level) in values.iter_mut().zip(levels) {
            *value = d * f32::from(*level as i8);
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let (d, levels) = block.split_first_chunk().unwrap();
        let d = lanes.splat(f32::from_le_bytes(*d));
        for i in (0..LEN).step_by(L::N) {
            (d * lanes.load_i8(&levels[i..]).to_f()).store(&mut values[i..]);
        }
    }
}
