//! Q2_0: 64 values in 18 bytes, 2.25 bits per weight; a scale and two bits each.
//!
//! ```text
//! 0      2                              18
//! | d    | levels, 2 bits each, 16      |
//!   f16    byte i, bits 2 b: value 4 i + b over d, plus 1
//! ```
//!
//! The scale is the largest magnitude, so the encoder never writes the level of `2 d`.
//!
//! Rules: `block_q2_0` in `ggml-common.h`; `quantize_row_q2_0_ref` and `dequantize_row_q2_0` in `ggml-quants.c`. An importance matrix is
//! ignored.

use super::block::{DecodeBlock, EncodeBlock, Lost};
use super::blocks::{self, Scales};
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::lanes::{Floats, Ints, Lanes, trunc};
use crate::rows::Tile;

const LEN: usize = 64;
const BYTES: usize = 18;
const TOP: f32 = 1.0;

/// Q2_0.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
        for (i, value) in values.iter_mut().enumerate() {
            let level = block[2 + i / 4] >> (2 * (i % 4)) & 3;
            *value = (f32::from(level) - 1.0) * d;
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let (head, packed) = block.split_first_chunk().unwrap();
        let packed: &[u8; 16] = packed.first_chunk().unwrap();
        let d = lanes.splat_half(u16::from_le_bytes(*head));
        // A byte's four levels go to four bytes.
        let mut levels = [0; LEN];
        for i in 0..16 {
            let byte = u32::from(packed[i]);
            let spread = byte | byte << 6 | byte << 12 | byte << 18;
            levels[4 * i..4 * i + 4].copy_from_slice(&(spread & 0x0303_0303).to_le_bytes());
        }
        for i in (0..LEN).step_by(L::N) {
            ((lanes.load_u8(&levels[i..]).to_f() - lanes.splat(1.0)) * d).store(&mut values[i..]);
        }
    }
}

#[inline(never)]
fn reference(x: &[f32; LEN]) -> [u8; BYTES] {
    let (d, inverse) = blocks::scale(blocks::largest_number(x), TOP);
    let mut out = [0; BYTES];
    out[..2].copy_from_slice(&f32_to_f16_ggml(d).to_le_bytes());
    for (i, x) in x.iter().enumerate() {
        let level = trunc((x * inverse).round()).wrapping_add(1).clamp(0, 3);
        out[2 + i / 4] |= (level as u8) << (2 * (i % 4));
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
            let inverse = lanes.splat(scales.inverse[i]);
            let mut levels = [0; LEN];
            for j in (0..LEN).step_by(L::N) {
                let level = blocks::round(lanes, lanes.load(&x[j..]) * inverse) + lanes.splat_i(1);
                level.store_u8(&mut levels[j..]);
            }
            let (head, packed) = out.split_first_chunk_mut().unwrap();
            *head = scales.half[i].to_le_bytes();
            for (out, levels) in packed.iter_mut().zip(levels.as_chunks().0) {
                // The product shifts level b from bit 8 b to bit 24 + 2 b; its terms do not overlap.
                *out = (u32::from_le_bytes(*levels).wrapping_mul(0x0104_1040) >> 24) as u8;
            }
        }
        scales.valid
    }
}
