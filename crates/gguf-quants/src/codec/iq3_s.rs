//! IQ3_S: 256 values in 110 bytes, 3.4375 bits per weight; eight sub-blocks of 32, points of four from a codebook of 512.
//!
//! ```text
//! 0      2                 66            74               106            110
//! | d    | index, 64 bytes | high, 8     | signs, 32      | scales, 4    |
//!   f16    low 8 bits:       bit i of      bit i of         sub-block 2 b in the low half of byte b,
//!          byte i: values    byte b: 9th   byte b: value    2 b + 1 in the high half
//!          4 i..4 i + 4      bit of index  8 b + i < 0
//!                            8 b + i
//!
//! value = d * (1 + 2 * scale) * magnitude
//! ```
//!
//! Rules: `block_iq3_s` and `iq3s_grid` in `ggml-common.h`; `dequantize_row_iq3_s` and `quantize_row_iq3_s_impl` in
//! `ggml-quants.c`.

use super::block::{DecodeBlock, EncodeBlock, Lost, Pairs};
use super::iq_grid::{self, Again, Found, Grids, LEN, MAX_SUBS, Rule, SIGNS, both};
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::grids;
use crate::lanes::Lanes;
use crate::rows::Tile;

const BYTES: usize = 110;

/// The magnitudes of the points.
static POINTS: [[u8; 4]; 512] = grids::magnitudes(&grids::codes::IQ3_S, &[1, 3, 5, 7, 9, 11, 13, 15]);

fn pack(found: &[Found; MAX_SUBS]) -> [u8; BYTES] {
    let mut packed = [0; BYTES];
    // Points and signs are written even where all scales are zero. As in ggml, an empty sub-block takes no space in the indexes and signs:
    // the following ones move up, but not their high bits and scales, and decode as other values.
    let full = found[..8].iter().enumerate().filter(|(_, found)| found.any);
    for (place, (s, found)) in full.enumerate() {
        for (k, index) in found.index.into_iter().enumerate() {
            packed[2 + 8 * place + k] = index as u8;
            packed[66 + s] |= ((index >> 8) as u8) << k;
        }
        packed[74 + 4 * place..78 + 4 * place].copy_from_slice(&found.signs);
    }
    let Some((d, scales)) = iq_grid::scales(&found[..8]) else { return packed };
    // The factor is ggml's; it slightly improves the result.
    packed[..2].copy_from_slice(&f32_to_f16_ggml(d * 1.033).to_le_bytes());
    for b in 0..4 {
        packed[106 + b] = scales[2 * b] | scales[2 * b + 1] << 4;
    }
    packed
}

/// IQ3_S.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
        for s in 0..8 {
            let scale = d * f32::from(1 + 2 * (block[106 + s / 2] >> (4 * (s % 2)) & 15));
            for i in 0..32 {
                let high = block[66 + s] >> (i / 4) & 1;
                let index = usize::from(block[2 + 8 * s + i / 4]) | usize::from(high) << 8;
                let magnitude = 2 * (grids::codes::IQ3_S[index] >> (3 * (i % 4)) & 7) as u8 + 1;
                let sign = block[74 + 4 * s + i / 8] >> (i % 8) & 1;
                values[32 * s + i] = iq_grid::signed(scale, magnitude, sign == 1);
            }
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = lanes.half(u16::from_le_bytes([block[0], block[1]]));
        let values = values.as_chunks_mut::<8>().0;
        for s in 0..8 {
            let scale = d * f32::from(1 + 2 * (block[106 + s / 2] >> (4 * (s % 2)) & 15));
            let high = usize::from(block[66 + s]);
            for k in 0..4 {
                let a = usize::from(block[2 + 8 * s + 2 * k]) | high << (8 - 2 * k) & 256;
                let b = usize::from(block[3 + 8 * s + 2 * k]) | high << (7 - 2 * k) & 256;
                let signs = &SIGNS[usize::from(block[74 + 4 * s + k])];
                iq_grid::put_eight(&mut values[4 * s + k], scale, both(POINTS[a], POINTS[b]), signs);
            }
        }
    }
}

impl Grids for Block {
    const RULE: Rule = Rule {
        grid: grids::iq3_s,
        top: 7,
        spread: 2.0,
        plain_share: None,
        even_signs: false,
        // Only all zeros are empty.
        empty_below: f32::from_bits(1),
        reach: 9,
        step: 0.2,
        fitted: false,
        again: Again::AllIfReplaced,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::block;
    use crate::{Isa, Rows};

    /// ggml writes no indexes and signs for an empty sub-block before a full one: those of the full one take their place, while its ninth
    /// bits and its scale stay in their own.
    #[test]
    fn an_empty_sub_block_takes_no_place() {
        let (mut late, mut early) = ([0.0; LEN], [0.0; LEN]);
        for i in 0..32 {
            early[i] = (i as f32 - 11.5) * 0.37;
            late[32 + i] = early[i];
        }
        for isa in Isa::available() {
            let encode_block = |values: &[f32; LEN]| {
                let mut packed = [0; BYTES];
                // The weights are squares: they do not depend on the rest of the super-block.
                let rows = Rows::new(values, LEN, None).unwrap();
                block::encode::<Block, _, _>(isa, rows, &mut packed).unwrap();
                packed
            };
            let (late, early) = (encode_block(&late), encode_block(&early));
            assert!(early[2..10].iter().any(|&b| b != 0) && early[66] != 0, "{isa}");
            assert_eq!(late[..66], early[..66], "{isa}");
            assert_eq!(late[74..106], early[74..106], "{isa}");
            assert_eq!((late[66], late[67]), (0, early[66]), "{isa}");
            assert_eq!(late[106], early[106] << 4, "{isa}");
        }
    }
}
