//! IQ2_XXS: 256 values in 66 bytes, 2.0625 bits per weight; eight sub-blocks of 32, points of eight from a codebook of 256.
//!
//! ```text
//! 0      2                                                              66
//! | d    | eight sub-blocks of two words: index, 4 bytes; scale and signs |
//!   f16      byte k of the first: values 8 k..8 k + 8; the second: their signs in bits 7 k..7 k + 7,
//!            the scale in the top 4 bits
//!
//! value = d * (1/2 + scale) / 4 * magnitude, with an even number of minus signs in eight values
//! ```
//!
//! Rules: `block_iq2_xxs` and `iq2xxs_grid` in `ggml-common.h`; `dequantize_row_iq2_xxs` and `quantize_row_iq2_xxs_impl` in
//! `ggml-quants.c`.

use super::block::{DecodeBlock, EncodeBlock, Lost, Pairs};
use super::iq_grid::{self, Again, EVEN_SIGNS, Found, Grids, LEN, MAGNITUDES_2, MAX_SUBS, Rule};
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::grids;
use crate::lanes::Lanes;
use crate::rows::Tile;

const BYTES: usize = 66;

/// The magnitudes of the points.
static POINTS: [[u8; 8]; 256] = grids::magnitudes(&grids::codes::IQ2_XXS, &MAGNITUDES_2);

fn pack(found: &[Found; MAX_SUBS]) -> [u8; BYTES] {
    let mut packed = [0; BYTES];
    let Some((d, scales)) = iq_grid::scales(&found[..8]) else { return packed };
    packed[..2].copy_from_slice(&f32_to_f16_ggml(d).to_le_bytes());
    for (s, out) in packed[2..].as_chunks_mut::<8>().0.iter_mut().enumerate() {
        for (out, index) in out[..4].iter_mut().zip(found[s].index) {
            *out = index as u8;
        }
        out[4..].copy_from_slice(&iq_grid::word(found[s].signs, scales[s]).to_le_bytes());
    }
    packed
}

/// IQ2_XXS.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
        for (s, words) in block[2..].as_chunks::<8>().0.iter().enumerate() {
            let word = u32::from_le_bytes([words[4], words[5], words[6], words[7]]);
            let scale = d * (0.5 + (word >> 28) as f32) * 0.25;
            for i in 0..32 {
                let code = grids::codes::IQ2_XXS[usize::from(words[i / 8])];
                let magnitude = MAGNITUDES_2[usize::from(code >> (2 * (i % 8)) & 3)];
                let sign = grids::signs((word >> (7 * (i / 8))) as u8) >> (i % 8) & 1;
                values[32 * s + i] = iq_grid::signed(scale, magnitude, sign == 1);
            }
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = lanes.half(u16::from_le_bytes([block[0], block[1]]));
        let values = values.as_chunks_mut::<8>().0;
        for (words, values) in block[2..].as_chunks::<8>().0.iter().zip(values.as_chunks_mut::<4>().0) {
            let word = u32::from_le_bytes([words[4], words[5], words[6], words[7]]);
            let scale = d * (0.5 + (word >> 28) as f32) * 0.25;
            for k in 0..4 {
                let signs = &EVEN_SIGNS[(word >> (7 * k) & 127) as usize];
                iq_grid::put_eight(&mut values[k], scale, POINTS[usize::from(words[k])], signs);
            }
        }
    }
}

impl Grids for Block {
    const RULE: Rule = Rule {
        grid: grids::iq2_xxs,
        top: 2,
        spread: 1.0,
        plain_share: None,
        even_signs: true,
        empty_below: 1e-15,
        reach: 6,
        step: 0.1,
        fitted: true,
        again: Again::All,
    };
}

impl EncodeBlock<LEN, BYTES> for Block {
    const PAIRS: Pairs = iq_grid::PAIRS;

    fn plain(x: &[f32; LEN], weights: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
        Ok(pack(&iq_grid::search::<32, 8>(&Self::RULE, x, weights)?))
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
        iq_grid::encode_tile::<L, Self, 32, 8, BYTES>(lanes, tile, pack, out)
    }
}
