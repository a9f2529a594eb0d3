//! TQ2_0: 256 values in 66 bytes, 2.06 bits per weight; a scale and the levels -1, 0 and 1 in two bits each.
//!
//! ```text
//! 0                               64     66
//! | levels, 2 bits each, 64       | d    |
//!   byte 32 h + i, bits 2 n:        f16
//!   value 128 h + 32 n + i over d, plus 1
//! ```
//!
//! Rules: `block_tq2_0` in `ggml-common.h`; `quantize_row_tq2_0_ref` and `dequantize_row_tq2_0` in `ggml-quants.c`. An importance matrix is
//! ignored.

use super::block::{DecodeBlock, EncodeBlock, Lost};
use super::blocks::{self, Scales};
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::lanes::{Floats, Ints, Lanes};
use crate::rows::Tile;

const LEN: usize = 256;
const BYTES: usize = 66;
const TOP: f32 = 1.0;

/// TQ2_0.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[64], block[65]]));
        for (i, value) in values.iter_mut().enumerate() {
            let (half, n) = (i / 128, i / 32 % 4);
            let level = block[32 * half + i % 32] >> (2 * n) & 3;
            *value = (f32::from(level) - 1.0) * d;
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let (levels, tail) = block.split_first_chunk::<64>().unwrap();
        let d = lanes.half(u16::from_le_bytes([tail[0], tail[1]]));
        let table = lanes.table4(&blocks::ternary(d));
        for (values, levels) in values.as_chunks_mut::<128>().0.iter_mut().zip(levels.as_chunks::<32>().0) {
            for i in (0..32).step_by(L::N) {
                // The lookup uses only the lowest two bits.
                let byte = lanes.load_u8(&levels[i..]);
                lanes.lookup4(table, byte).store(&mut values[i..]);
                lanes.lookup4(table, byte.shr::<2>()).store(&mut values[32 + i..]);
                lanes.lookup4(table, byte.shr::<4>()).store(&mut values[64 + i..]);
                lanes.lookup4(table, byte.shr::<6>()).store(&mut values[96 + i..]);
            }
        }
    }
}

/// The nearest integer, ties away from zero, truncated to 32 bits (`int xi = lroundf(x)`): 0 if it does not fit in 64.
pub(super) fn lround(x: f32) -> i32 {
    let x = x.round();
    if (-9223372036854775808.0..9223372036854775808.0).contains(&x) { x as i64 as i32 } else { 0 }
}

#[inline(never)]
fn reference(x: &[f32; LEN]) -> [u8; BYTES] {
    let (d, inverse) = blocks::scale(blocks::largest_or_last(x), TOP);
    let mut out = [0; BYTES];
    out[64..].copy_from_slice(&f32_to_f16_ggml(d).to_le_bytes());
    for (i, x) in x.iter().enumerate() {
        let (half, n) = (i / 128, i / 32 % 4);
        let level = lround(x * inverse).wrapping_add(1) & 3;
        out[32 * half + i % 32] |= (level as u8) << (2 * n);
    }
    out
}

impl EncodeBlock<LEN, BYTES> for Block {
    fn plain(x: &[f32; LEN], _: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
        Ok(reference(x))
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
        let one = lanes.splat_i(1);
        let scales = Scales::new(lanes, blocks::largest(lanes, tile.blocks), TOP);
        for (i, out) in out.iter_mut().enumerate() {
            let x = &tile.blocks[i];
            let (levels, tail) = out.split_first_chunk_mut::<64>().unwrap();
            tail.copy_from_slice(&scales.half[i].to_le_bytes());
            let inverse = lanes.splat(scales.inverse[i]);
            for (x, out) in x.as_chunks::<128>().0.iter().zip(levels.as_chunks_mut::<32>().0) {
                for j in (0..32).step_by(L::N) {
                    let mut level = [one; 4];
                    for n in 0..4 {
                        level[n] = blocks::round(lanes, lanes.load(&x[32 * n + j..]) * inverse) + one;
                    }
                    let byte = level[0] | level[1].shl::<2>() | level[2].shl::<4>() | level[3].shl::<6>();
                    byte.store_u8(&mut out[j..]);
                }
            }
        }
        scales.valid
    }
}
