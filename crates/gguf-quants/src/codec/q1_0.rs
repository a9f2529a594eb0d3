//! Q1_0: 128 values in 18 bytes, 1.125 bits per weight; a scale and a sign each.
//!
//! ```text
//! 0      2                             18
//! | d    | signs, 1 bit each, 16       |
//!   f16    byte i, bit b: whether value 8 i + b is d (1) or -d (0)
//! ```
//!
//! The scale is the mean of the magnitudes, added sequentially; so the sum uses one block per lane.
//!
//! Rules: `block_q1_0` in `ggml-common.h`; `quantize_row_q1_0_ref` and `dequantize_row_q1_0` in `ggml-quants.c`. An importance matrix is
//! ignored.

use super::block::{DecodeBlock, EncodeBlock, Lost};
use super::blocks;
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::lanes::{Floats, Lanes, MAX_LANES, Masks, part};
use crate::rows::Tile;

const LEN: usize = 128;
const BYTES: usize = 18;

/// Q1_0.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
        for (i, value) in values.iter_mut().enumerate() {
            *value = if block[2 + i / 8] >> (i % 8) & 1 == 1 { d } else { -d };
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let (head, signs) = block.split_first_chunk().unwrap();
        let d = lanes.splat_half(u16::from_le_bytes(*head));
        for (values, signs) in values.as_chunks_mut::<16>().0.iter_mut().zip(signs.as_chunks().0) {
            let signs = u32::from(u16::from_le_bytes(*signs));
            for i in (0..16).step_by(L::N) {
                lanes.mask(signs >> i).select(d, -d).store(&mut values[i..]);
            }
        }
    }
}

#[inline(never)]
fn reference(x: &[f32; LEN]) -> [u8; BYTES] {
    let mut sum = 0.0;
    for x in x {
        sum += x.abs();
    }
    let mut out = [0; BYTES];
    out[..2].copy_from_slice(&f32_to_f16_ggml(sum / LEN as f32).to_le_bytes());
    for (i, x) in x.iter().enumerate() {
        out[2 + i / 8] |= u8::from(*x >= 0.0) << (i % 8);
    }
    out
}

impl EncodeBlock<LEN, BYTES> for Block {
    fn plain(x: &[f32; LEN], _: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
        Ok(reference(x))
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
        let values = tile.values();
        let zero = lanes.splat(0.0);
        let mut sum = zero;
        for p in 0..LEN / 16 {
            let columns = lanes.columns(&part::<LEN, 16>(&values, p));
            for column in columns {
                sum = sum + column.abs();
            }
        }
        let mut d = [0; MAX_LANES];
        blocks::halves(lanes, sum / lanes.splat(LEN as f32), &mut d);
        for (i, out) in out.iter_mut().enumerate() {
            let (head, signs) = out.split_first_chunk_mut().unwrap();
            *head = d[i].to_le_bytes();
            for (x, signs) in tile.blocks[i].as_chunks::<16>().0.iter().zip(signs.as_chunks_mut().0) {
                let mut bits = 0;
                for j in (0..16).step_by(L::N) {
                    bits |= lanes.load(&x[j..]).ge(zero).to_bits() << j;
                }
                *signs = (bits as u16).to_le_bytes();
            }
        }
        u32::MAX
    }
}
