//! Q8_0: 32 values in 34 bytes, 8.5 bits per weight; a scale and signed bytes.
//!
//! ```text
//! 0      2                                34
//! | d    | levels, signed bytes, 32       |
//!   f16    byte i: value i over d
//! ```
//!
//! Rules: `block_q8_0` in `ggml-common.h`; `quantize_row_q8_0_ref` and `dequantize_row_q8_0` in `ggml-quants.c`. An importance matrix is
//! ignored.

use super::block::{DecodeBlock, EncodeBlock, Lost};
use super::blocks::{self, Scales};
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::lanes::{Floats, Ints, Lanes, trunc};
use crate::rows::Tile;

const LEN: usize = 32;
const BYTES: usize = 34;
const TOP: f32 = 127.0;

/// Q8_0.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
        for (value, level) in values.iter_mut().zip(&block[2..]) {
            *value = f32::from(*level as i8) * d;
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let (head, levels) = block.split_first_chunk().unwrap();
        let d = lanes.splat_half(u16::from_le_bytes(*head));
        for i in (0..LEN).step_by(L::N) {
            (lanes.load_i8(&levels[i..]).to_f() * d).store(&mut values[i..]);
        }
    }
}

#[inline(never)]
fn reference(x: &[f32; LEN]) -> [u8; BYTES] {
    let (d, inverse) = blocks::scale(blocks::largest_or_last(x), TOP);
    let mut out = [0; BYTES];
    out[..2].copy_from_slice(&f32_to_f16_ggml(d).to_le_bytes());
    for (out, x) in out[2..].iter_mut().zip(x) {
        *out = trunc((x * inverse).round()) as u8;
    }
    out
}

impl EncodeBlock<LEN, BYTES> for Block {
    fn plain(x: &[f32; LEN], _: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
        Ok(reference(x))
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
        let scales = Scales::new(lanes, blocks::largest(lanes, tile.blocks), TOP);
        for (i, out) in out.iter_mut().enumerate() {
            let x = &tile.blocks[i];
            let (head, levels) = out.split_first_chunk_mut().unwrap();
            *head = scales.half[i].to_le_bytes();
            let inverse = lanes.splat(scales.inverse[i]);
            for j in (0..LEN).step_by(L::N) {
                blocks::round(lanes, lanes.load(&x[j..]) * inverse).store_u8(&mut levels[j..]);
            }
        }
        scales.valid
    }
}
