//! Q4_K: 256 values in 144 bytes, 4.5 bits a weight; eight groups of 32 with a scale and a minimum each.
//!
//! ```text
//! 0      2      4             16                                     144
//! | d    | dmin | scales, 12  | levels, 4 bits each, 128             |
//!   f16    f16    see k_min     byte 32 p + i: value 64 p + i in the low half,
//!                                              value 64 p + 32 + i in the high half
//! ```
//!
//! Rules: `block_q4_K` in `ggml-common.h`; `dequantize_row_q4_K`, `quantize_row_q4_K_ref` (without a matrix) and
//! `quantize_row_q4_K_impl` (with one) in `ggml-quants.c`.

use super::Refused;
use super::k_min::{self, GROUP, LEN, word};
use crate::dispatch::{Isa, Kernel};
use crate::float::f16_to_f32_ggml;
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks};
use crate::rows::Rows;
use crate::search::MinSearch;

const BYTES: usize = 144;

const PLAIN: MinSearch = MinSearch { levels: 15, first: -1.0, step: 0.1, last: 20, absolute: false };
const WEIGHTED: MinSearch = MinSearch { levels: 15, first: -0.9, step: 0.05, last: 36, absolute: false };

fn search(rows: Rows<'_>) -> MinSearch {
    if rows.weights().is_some() { WEIGHTED } else { PLAIN }
}

/// Blocks to values.
pub(super) fn decode(isa: Isa, packed: &[u8], values: &mut [f32]) {
    match isa {
        Isa::Scalar => {
            for (block, values) in packed.as_chunks().0.iter().zip(values.as_chunks_mut().0) {
                decode_reference(block, values);
            }
        }
        _ => isa.run(Decode { packed, values }),
    }
}

fn decode_reference(block: &[u8; BYTES], values: &mut [f32; LEN]) {
    let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
    let dmin = f16_to_f32_ggml(u16::from_le_bytes([block[2], block[3]]));
    let scales = block[4..].first_chunk().unwrap();
    let levels: &[u8; 128] = block[16..].first_chunk().unwrap();
    for (i, value) in values.iter_mut().enumerate() {
        let (pair, at) = (i / 64, i % 64);
        let (scale, min) = k_min::scale_and_min(scales, i / GROUP);
        let level = levels[32 * pair + at % 32] >> (4 * (at / 32)) & 15;
        *value = d * f32::from(scale) * f32::from(level) - dmin * f32::from(min);
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
            for pair in 0..4 {
                let levels = &levels.as_chunks::<32>().0[pair];
                let values = &mut values.as_chunks_mut::<64>().0[pair];
                let (d0, m0) = (lanes.splat(d[2 * pair]), lanes.splat(min[2 * pair]));
                let (d1, m1) = (lanes.splat(d[2 * pair + 1]), lanes.splat(min[2 * pair + 1]));
                for i in (0..32).step_by(L::N) {
                    let bytes = lanes.load_u8(&levels[i..]);
                    let low = (bytes & lanes.splat_i(15)).to_f();
                    let high = bytes.shr::<4>().to_f();
                    (d0 * low - m0).store(&mut values[i..]);
                    (d1 * high - m1).store(&mut values[32 + i..]);
                }
            }
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
    for (out, levels) in out[16..].as_chunks_mut::<32>().0.iter_mut().zip(block.levels.as_chunks::<64>().0) {
        for i in 0..32 {
            out[i] = levels[i] | levels[32 + i] << 4;
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
        let blocks = self.packed.as_chunks_mut::<BYTES>().0;
        for first in (0..blocks.len()).step_by(L::N) {
            let tile = self.rows.tile::<LEN>(first, L::N);
            let out = &mut blocks[first..first + tile.len];
            let lane = k_min::heads(lanes, search, &tile);
            let mut valid = lane.valid;
            let mut words = [[0i32; MAX_LANES]; 8];
            for pair in 0..4 {
                let (low, valid_low) = lane.levels(lanes, search.levels, &tile, 2 * pair);
                let (high, valid_high) = lane.levels(lanes, search.levels, &tile, 2 * pair + 1);
                valid = valid & valid_low & valid_high;
                for w in 0..GROUP / 4 {
                    let mut bytes = [lanes.splat_i(0); 4];
                    for i in 0..4 {
                        bytes[i] = low[4 * w + i] | high[4 * w + i].shl::<4>();
                    }
                    word::<L>(bytes).store(&mut words[w]);
                }
                for (i, out) in out.iter_mut().enumerate() {
                    for w in 0..GROUP / 4 {
                        let at = 16 + 32 * pair + 4 * w;
                        out[at..at + 4].copy_from_slice(&words[w][i].to_le_bytes());
                    }
                }
            }
            let valid = valid.to_bits();
            for (i, out) in out.iter_mut().enumerate() {
                put_head(out, &lane.heads[i]);
                if valid >> i & 1 == 0 {
                    let block = first + i;
                    *out = reference(self.rows)(self.rows.block(block), self.rows.block_weights(block));
                }
            }
        }
    }
}
