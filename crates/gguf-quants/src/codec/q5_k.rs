//! Q5_K: 256 values in 176 bytes, 5.5 bits a weight; eight groups of 32 with a scale and a minimum each.
//!
//! ```text
//! 0      2      4             16                    48                                     176
//! | d    | dmin | scales, 12  | fifth bits, 32      | low four bits, 128                   |
//!   f16    f16    see k_min     byte i, bit g:        byte 32 p + i: value 64 p + i in the low half,
//!                               value 32 g + i                       value 64 p + 32 + i in the high half
//! ```
//!
//! Rules: `block_q5_K` in `ggml-common.h`; `dequantize_row_q5_K`, `quantize_row_q5_K_ref` (without a matrix) and
//! `quantize_row_q5_K_impl` (with one) in `ggml-quants.c`.

use super::Refused;
use super::k_min::{self, GROUP, LEN, word};
use crate::dispatch::{Isa, Kernel};
use crate::float::f16_to_f32_ggml;
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks};
use crate::rows::Rows;
use crate::search::MinSearch;

const BYTES: usize = 176;

const PLAIN: MinSearch = MinSearch { levels: 31, first: -0.5, step: 0.1, last: 15, absolute: false };
const WEIGHTED: MinSearch = MinSearch { levels: 31, first: -0.9, step: 0.05, last: 36, absolute: false };

fn search(rows: Rows<'_>) -> MinSearch {
    if rows.weights().is_some() { WEIGHTED } else { PLAIN }
}

/// Blocks to values.
pub(super) fn decode(isa: Isa, packed: &[u8], values: &mut [f32]) {
    if isa == Isa::Scalar {
        for (block, values) in packed.as_chunks().0.iter().zip(values.as_chunks_mut().0) {
            decode_block(block, values);
        }
    } else {
        isa.run(Decode { packed, values });
    }
}

struct Decode<'a> {
    packed: &'a [u8],
    values: &'a mut [f32],
}

impl Kernel for Decode<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        for (block, values) in self.packed.as_chunks::<BYTES>().0.iter().zip(self.values.as_chunks_mut::<LEN>().0) {
            let (head, levels) = block.split_first_chunk().unwrap();
            let (d, min) = k_min::products(lanes, head);
            let (fifth, levels) = levels.split_first_chunk::<32>().unwrap();
            let mut fifths = [lanes.splat_i(0); 8];
            for i in (0..32).step_by(L::N) {
                fifths[i / L::N] = lanes.load_u8(&fifth[i..]);
            }
            for pair in 0..4 {
                let levels = &levels.as_chunks::<32>().0[pair];
                let values = &mut values.as_chunks_mut::<64>().0[pair];
                let (d0, m0) = (lanes.splat(d[2 * pair]), lanes.splat(min[2 * pair]));
                let (d1, m1) = (lanes.splat(d[2 * pair + 1]), lanes.splat(min[2 * pair + 1]));
                for i in (0..32).step_by(L::N) {
                    let bytes = lanes.load_u8(&levels[i..]);
                    let fifth = fifths[i / L::N];
                    let low = bytes & lanes.splat_i(15) | (fifth & lanes.splat_i(1)).shl::<4>();
                    let high = bytes.shr::<4>() | (fifth & lanes.splat_i(2)).shl::<3>();
                    fifths[i / L::N] = fifth.shr::<2>();
                    (d0 * low.to_f() - m0).store(&mut values[i..]);
                    (d1 * high.to_f() - m1).store(&mut values[32 + i..]);
                }
            }
        }
    }
}

/// One block, value by value.
fn decode_block(block: &[u8; BYTES], values: &mut [f32; LEN]) {
    let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
    let dmin = f16_to_f32_ggml(u16::from_le_bytes([block[2], block[3]]));
    let scales: &[u8; 12] = block[4..].first_chunk().unwrap();
    let fifth: &[u8; 32] = block[16..].first_chunk().unwrap();
    let levels: &[u8; 128] = block[48..].first_chunk().unwrap();
    for (p, (values, levels)) in values.as_chunks_mut::<64>().0.iter_mut().zip(levels.as_chunks::<32>().0).enumerate() {
        let ((s0, m0), (s1, m1)) = (k_min::scale_and_min(scales, 2 * p), k_min::scale_and_min(scales, 2 * p + 1));
        let (d0, m0) = (d * f32::from(s0), dmin * f32::from(m0));
        let (d1, m1) = (d * f32::from(s1), dmin * f32::from(m1));
        for i in 0..32 {
            let high = (fifth[i] >> (2 * p) & 1) << 4;
            values[i] = d0 * f32::from(levels[i] & 15 | high) - m0;
        }
        for i in 0..32 {
            let high = (fifth[i] >> (2 * p + 1) & 1) << 4;
            values[32 + i] = d1 * f32::from(levels[i] >> 4 | high) - m1;
        }
    }
}

/// Values to blocks.
pub(super) fn encode(isa: Isa, rows: Rows<'_>, packed: &mut [u8]) -> Result<(), Refused> {
    match isa {
        Isa::Scalar => k_min::each_block(rows, packed, reference(rows)),
        _ => isa.run_twice(Encode { rows, packed }),
    }
    Ok(())
}

fn reference(rows: Rows<'_>) -> fn(&[f32; LEN], Option<&[f32; LEN]>) -> [u8; BYTES] {
    if rows.weights().is_some() {
        |x, matrix| pack(&k_min::reference(WEIGHTED, x, matrix))
    } else {
        |x, matrix| pack(&k_min::reference(PLAIN, x, matrix))
    }
}

fn pack(block: &k_min::Plain) -> [u8; BYTES] {
    let mut out = [0; BYTES];
    put_head(&mut out, &block.head);
    for (g, levels) in block.levels.as_chunks::<32>().0.iter().enumerate() {
        for i in 0..32 {
            out[16 + i] |= levels[i] >> 4 << g;
            out[48 + g / 2 * 32 + i] |= (levels[i] & 15) << (4 * (g % 2));
        }
    }
    out
}

fn put_head(out: &mut [u8; BYTES], head: &k_min::Head) {
    out[..2].copy_from_slice(&head.d.to_le_bytes());
    out[2..4].copy_from_slice(&head.dmin.to_le_bytes());
    out[4..16].copy_from_slice(&head.scales);
}

struct Encode<'a> {
    rows: Rows<'a>,
    packed: &'a mut [u8],
}

impl Kernel for Encode<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let search = search(self.rows);
        let low_half = lanes.splat_i(0x0f0f_0f0f);
        let lowest_bits = lanes.splat_i(0x0101_0101);
        let blocks = self.packed.as_chunks_mut::<BYTES>().0;
        for first in (0..blocks.len()).step_by(L::N) {
            let tile = self.rows.tile::<LEN>(first, L::N);
            let out = &mut blocks[first..first + tile.len];
            let lane = k_min::heads(lanes, search, &tile);
            let mut valid = lane.valid;
            let mut fifth = [lanes.splat_i(0); GROUP / 4];
            let mut words = [[0i32; MAX_LANES]; GROUP / 4];
            for pair in 0..4 {
                let (low, valid_low) = lane.levels(lanes, search.levels, &tile, 2 * pair);
                let (high, valid_high) = lane.levels(lanes, search.levels, &tile, 2 * pair + 1);
                valid = valid & valid_low & valid_high;
                for w in 0..GROUP / 4 {
                    let low = word::<L>([low[4 * w], low[4 * w + 1], low[4 * w + 2], low[4 * w + 3]]);
                    let high = word::<L>([high[4 * w], high[4 * w + 1], high[4 * w + 2], high[4 * w + 3]]);
                    (low & low_half | (high & low_half).shl::<4>()).store(&mut words[w]);
                    // The bits of a pair come in from above, so the first pair ends lowest.
                    let bits = (low.shr::<4>() & lowest_bits).shl::<6>() | (high.shr::<4>() & lowest_bits).shl::<7>();
                    fifth[w] = (fifth[w].shr::<2>() & lanes.splat_i(0x3f3f_3f3f)) | bits;
                }
                for (i, out) in out.iter_mut().enumerate() {
                    for w in 0..GROUP / 4 {
                        let at = 48 + 32 * pair + 4 * w;
                        out[at..at + 4].copy_from_slice(&words[w][i].to_le_bytes());
                    }
                }
            }
            for w in 0..GROUP / 4 {
                fifth[w].store(&mut words[w]);
            }
            let valid = valid.to_bits();
            for (i, out) in out.iter_mut().enumerate() {
                put_head(out, &lane.heads[i]);
                for w in 0..GROUP / 4 {
                    let at = 16 + 4 * w;
                    out[at..at + 4].copy_from_slice(&words[w][i].to_le_bytes());
                }
                if valid >> i & 1 == 0 {
                    let block = first + i;
                    *out = reference(self.rows)(self.rows.block(block), self.rows.block_weights(block));
                }
            }
        }
    }
}
