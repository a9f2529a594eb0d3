//! IQ2_S: 256 values in 82 bytes, 2.5625 bits per weight; sixteen sub-blocks of 16, points of eight from a codebook of 1024.
//!
//! ```text
//! 0      2                 34               66            74            82
//! | d    | index, 32 bytes | signs, 32      | high, 8     | scales, 8   |
//!   f16    low 8 bits:       bit i of         bits 2 i      sub-block 2 b in the low half of byte b,
//!          byte k: values    byte k: value    and 2 i + 1   2 b + 1 in the high half
//!          8 k..8 k + 8      8 k + i < 0      of byte b:
//!                                             top bits of index 4 b + i
//!
//! value = d * (1/2 + scale) / 4 * magnitude
//! ```
//!
//! Rules: `block_iq2_s` and `iq2s_grid` in `ggml-common.h`; `dequantize_row_iq2_s` and `quantize_row_iq2_s_impl` in
//! `ggml-quants.c`.

use super::block::{DecodeBlock, EncodeBlock, Lost, Pairs};
use super::iq_grid::{self, Again, Found, Grids, LEN, MAGNITUDES_2, MAX_SUBS, Rule, SIGNS};
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::grids;
use crate::lanes::Lanes;
use crate::rows::Tile;

const BYTES: usize = 82;

/// The magnitudes of the points.
static POINTS: [[u8; 8]; 1024] = grids::magnitudes(&grids::codes::IQ2_S, &MAGNITUDES_2);

fn pack(found: &[Found; MAX_SUBS]) -> [u8; BYTES] {
    let mut packed = [0; BYTES];
    // Points and signs are written even where all scales are zero.
    for k in 0..32 {
        let (index, signs) = (found[k / 2].index[k % 2], found[k / 2].signs[k % 2]);
        packed[2 + k] = index as u8;
        packed[34 + k] = signs;
        packed[66 + k / 4] |= ((index >> 8) as u8) << (2 * (k % 4));
    }
    let Some((d, scales)) = iq_grid::scales(found) else { return packed };
    // The factor is ggml's; it slightly improves the result.
    packed[..2].copy_from_slice(&f32_to_f16_ggml(d * 0.9875).to_le_bytes());
    for b in 0..8 {
        packed[74 + b] = scales[2 * b] | scales[2 * b + 1] << 4;
    }
    packed
}

/// IQ2_S.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
        for k in 0..32 {
            let high = block[66 + k / 4] >> (2 * (k % 4)) & 3;
            let code = grids::codes::IQ2_S[usize::from(block[2 + k]) | usize::from(high) << 8];
            let scale = d * (0.5 + f32::from(block[74 + k / 4] >> (4 * (k / 2 % 2)) & 15)) * 0.25;
            for i in 0..8 {
                let magnitude = MAGNITUDES_2[usize::from(code >> (2 * i) & 3)];
                let sign = block[34 + k] >> i & 1;
                values[8 * k + i] = iq_grid::signed(scale, magnitude, sign == 1);
            }
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = lanes.half(u16::from_le_bytes([block[0], block[1]]));
        let values = values.as_chunks_mut::<8>().0;
        for k in 0..32 {
            let high = usize::from(block[66 + k / 4] >> (2 * (k % 4)) & 3);
            let scale = d * (0.5 + f32::from(block[74 + k / 4] >> (4 * (k / 2 % 2)) & 15)) * 0.25;
            let signs = &SIGNS[usize::from(block[34 + k])];
            iq_grid::put_eight(&mut values[k], scale, POINTS[usize::from(block[2 + k]) | high << 8], signs);
        }
    }
}

impl Grids for Block {
    const RULE: Rule = Rule {
        grid: grids::iq2_s,
        top: 2,
        spread: 2.0,
        plain_share: Some(0.25),
        even_signs: false,
        empty_below: 1e-8,
        reach: 9,
        step: 0.1,
        fitted: false,
        again: Again::Replaced,
    };
}

impl EncodeBlock<LEN, BYTES> for Block {
    const PAIRS: Pairs = iq_grid::PAIRS;

    fn plain(x: &[f32; LEN], weights: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
        Ok(pack(&iq_grid::search::<16, 8>(&Self::RULE, x, weights)?))
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
        iq_grid::encode_tile::<L, Self, 16, 8, BYTES>(lanes, tile, pack, out)
    }
}
