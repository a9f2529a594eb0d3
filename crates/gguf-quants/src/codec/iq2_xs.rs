//! IQ2_XS: 256 values in 74 bytes, 2.3125 bits per weight; sixteen sub-blocks of 16, points of eight from a codebook of 512.
//!
//! ```text
//! 0      2                              66                      74
//! | d    | index and signs, 32 halves   | scales, 4 bits each, 8 |
//!   f16    half i: values 8 i..8 i + 8,    sub-block 2 b in the low half of byte b,
//!          index in the low 9 bits,        2 b + 1 in the high half
//!          signs in the other 7
//!
//! value = d * (1/2 + scale) / 4 * magnitude, with an even number of minus signs in eight values
//! ```
//!
//! Rules: `block_iq2_xs` and `iq2xs_grid` in `ggml-common.h`; `dequantize_row_iq2_xs` and `quantize_row_iq2_xs_impl` in
//! `ggml-quants.c`.

use super::block::{DecodeBlock, EncodeBlock, Lost, Pairs};
use super::iq_grid::{self, Again, EVEN_SIGNS, Found, Grids, LEN, MAGNITUDES_2, MAX_SUBS, Rule};
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::grids;
use crate::lanes::Lanes;
use crate::rows::Tile;

const BYTES: usize = 74;

/// The magnitudes of the points.
static POINTS: [[u8; 8]; 512] = grids::magnitudes(&grids::codes::IQ2_XS, &MAGNITUDES_2);

fn pack(found: &[Found; MAX_SUBS]) -> [u8; BYTES] {
    let mut packed = [0; BYTES];
    let Some((d, scales)) = iq_grid::scales(found) else { return packed };
    packed[..2].copy_from_slice(&f32_to_f16_ggml(d).to_le_bytes());
    let (halves, packed_scales) = packed[2..].split_at_mut(64);
    for (i, out) in halves.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        let found = &found[i / 2];
        *out = (found.index[i % 2] | u16::from(found.signs[i % 2]) << 9).to_le_bytes();
    }
    for (b, out) in packed_scales.iter_mut().enumerate() {
        *out = scales[2 * b] | scales[2 * b + 1] << 4;
    }
    packed
}

/// IQ2_XS.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
        for k in 0..32 {
            let half = u16::from_le_bytes([block[2 + 2 * k], block[3 + 2 * k]]);
            let scale = d * (0.5 + f32::from(block[66 + k / 4] >> (4 * (k / 2 % 2)) & 15)) * 0.25;
            let code = grids::codes::IQ2_XS[usize::from(half & 511)];
            let signs = grids::signs((half >> 9) as u8);
            for i in 0..8 {
                let magnitude = MAGNITUDES_2[usize::from(code >> (2 * i) & 3)];
                values[8 * k + i] = iq_grid::signed(scale, magnitude, signs >> i & 1 == 1);
            }
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = lanes.half(u16::from_le_bytes([block[0], block[1]]));
        let values = values.as_chunks_mut::<8>().0;
        let (halves, scales) = block[2..].split_at(64);
        let halves = halves.as_chunks::<2>().0;
        for k in 0..32 {
            let half = u16::from_le_bytes(halves[k]);
            let scale = d * (0.5 + f32::from(scales[k / 4] >> (4 * (k / 2 % 2)) & 15)) * 0.25;
            let signs = &EVEN_SIGNS[usize::from(half >> 9)];
            iq_grid::put_eight(&mut values[k], scale, POINTS[usize::from(half & 511)], signs);
        }
    }
}

impl Grids for Block {
    const RULE: Rule = Rule {
        grid: grids::iq2_xs,
        top: 2,
        spread: 1.0,
        plain_share: None,
        even_signs: true,
        empty_below: 1e-15,
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
