//! IQ3_XXS: 256 values in 98 bytes, 3.0625 bits per weight; eight sub-blocks of 32, points of four from a codebook of 256.
//!
//! ```text
//! 0      2                 66                           98
//! | d    | index, 64 bytes | scale and signs, 8 words   |
//!   f16    byte i: values    word s: signs of values 32 s + 8 k.. in bits 7 k..7 k + 7,
//!          4 i..4 i + 4              the scale of sub-block s in the top 4 bits
//!
//! value = d * (1/2 + scale) / 2 * magnitude, with an even number of minus signs in eight values
//! ```
//!
//! Rules: `block_iq3_xxs` and `iq3xxs_grid` in `ggml-common.h`; `dequantize_row_iq3_xxs` and `quantize_row_iq3_xxs_impl` in
//! `ggml-quants.c`.

use super::block::{DecodeBlock, EncodeBlock, Lost, Pairs};
use super::iq_grid::{self, Again, EVEN_SIGNS, Found, Grids, LEN, MAX_SUBS, Rule, both};
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::grids;
use crate::lanes::Lanes;
use crate::rows::Tile;

const BYTES: usize = 98;

/// The magnitudes of the levels, for decoding; the top one breaks the pattern.
const MAGNITUDES: [u8; 8] = [4, 12, 20, 28, 36, 44, 52, 62];

/// The magnitudes of the points.
static POINTS: [[u8; 4]; 256] = grids::magnitudes(&grids::codes::IQ3_XXS, &MAGNITUDES);

fn pack(found: &[Found; MAX_SUBS]) -> [u8; BYTES] {
    let mut packed = [0; BYTES];
    let Some((d, scales)) = iq_grid::scales(&found[..8]) else { return packed };
    // The factor is ggml's; it slightly improves the result.
    packed[..2].copy_from_slice(&f32_to_f16_ggml(d * 1.0125).to_le_bytes());
    let (index, words) = packed[2..].split_at_mut(64);
    for (s, found) in found[..8].iter().enumerate() {
        for (out, index) in index[8 * s..].iter_mut().zip(found.index) {
            *out = index as u8;
        }
        words[4 * s..4 * s + 4].copy_from_slice(&iq_grid::word(found.signs, scales[s]).to_le_bytes());
    }
    packed
}

/// IQ3_XXS.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
        for s in 0..8 {
            let word = u32::from_le_bytes(*block[66..].as_chunks().0[s..].first().unwrap());
            let scale = d * (0.5 + (word >> 28) as f32) * 0.5;
            for i in 0..32 {
                let code = grids::codes::IQ3_XXS[usize::from(block[2 + 8 * s + i / 4])];
                let magnitude = MAGNITUDES[usize::from(code >> (3 * (i % 4)) & 7)];
                let sign = grids::signs((word >> (7 * (i / 8))) as u8) >> (i % 8) & 1;
                values[32 * s + i] = iq_grid::signed(scale, magnitude, sign == 1);
            }
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = lanes.half(u16::from_le_bytes([block[0], block[1]]));
        let values = values.as_chunks_mut::<8>().0;
        let (index, words) = block[2..].split_at(64);
        let (index, words) = (index.as_chunks::<8>().0, words.as_chunks::<4>().0);
        for s in 0..8 {
            let word = u32::from_le_bytes(words[s]);
            let scale = d * (0.5 + (word >> 28) as f32) * 0.5;
            for k in 0..4 {
                let (a, b) = (POINTS[usize::from(index[s][2 * k])], POINTS[usize::from(index[s][2 * k + 1])]);
                let signs = &EVEN_SIGNS[(word >> (7 * k) & 127) as usize];
                iq_grid::put_eight(&mut values[4 * s + k], scale, both(a, b), signs);
            }
        }
    }
}

impl Grids for Block {
    const RULE: Rule = Rule {
        grid: grids::iq3_xxs,
        top: 7,
        spread: 2.0,
        plain_share: None,
        even_signs: true,
        empty_below: 1e-8,
        reach: 15,
        step: 0.2,
        fitted: false,
        again: Again::Replaced,
    };
}

impl EncodeBlock<LEN, BYTES> for Block {
    const PAIRS: Pairs = iq_grid::PAIRS;

    fn plain(x: &[f32; LEN], weights: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
        Ok(pack(&iq_grid::search::<32, 4>(&Self::RULE, x, weights)?))
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
        iq_grid::encode_tile::<L, Self, 32, 4, BYTES>(lanes, tile, pack, out)
    }
}
