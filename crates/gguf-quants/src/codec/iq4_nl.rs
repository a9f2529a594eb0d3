//! IQ4_NL: 32 values in 18 bytes, 4.5 bits per weight; one scale, and levels that select from sixteen uneven values.
//!
//! ```text
//! 0      2                       18
//! | d    | levels, 4 bits each, 16 |
//!   f16    see iq4
//! ```
//!
//! Rules: `block_iq4_nl` in `ggml-common.h`; `dequantize_row_iq4_nl` and `quantize_iq4_nl` in `ggml-quants.c`.

use super::block::{DecodeBlock, EncodeBlock, Lost};
use super::iq4::{self, GROUP, Nearest};
use super::words::put;
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::lanes::{Floats, Lanes, MAX_LANES, Masks};
use crate::rows::Tile;

/// Values in a block.
const LEN: usize = GROUP;
const BYTES: usize = 18;

/// IQ4_NL.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
        for (i, value) in values.iter_mut().enumerate() {
            *value = d * iq4::value(&block[2..], i);
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = lanes.half(u16::from_le_bytes([block[0], block[1]]));
        iq4::decode_group(lanes, d, block[2..].first_chunk().unwrap(), values);
    }
}

/// One block, scalar reference.
#[inline(never)]
fn reference(x: &[f32; LEN], matrix: Option<&[f32; LEN]>) -> [u8; BYTES] {
    let scale = iq4::fit(x, &iq4::weights(x, matrix, iq4::sigma2(x)));
    let inverse = if scale != 0.0 { 1.0 / scale } else { 0.0 };
    let mut out = [0; BYTES];
    out[..2].copy_from_slice(&f32_to_f16_ggml(scale).to_le_bytes());
    out[2..].copy_from_slice(&iq4::pack(&x.map(|x| iq4::nearest(inverse * x))));
    out
}

impl EncodeBlock<LEN, BYTES> for Block {
    fn plain(x: &[f32; LEN], weights: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
        Ok(reference(x, weights))
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
        let matrix = tile.weights();
        let (zero, one) = (lanes.splat(0.0), lanes.splat(1.0));
        let near = Nearest::new(lanes);
        let x = lanes.columns_apart::<LEN, LEN>(&tile.values(), 0);
        let weights = match &matrix {
            Some(matrix) => {
                let mut sum = zero;
                for i in 0..LEN {
                    sum = sum + x[i] * x[i];
                }
                let sigma2 = sum * lanes.splat(2.0 / LEN as f32);
                iq4::weights_lanes::<L>(&x, Some(&lanes.columns_apart::<LEN, LEN>(matrix, 0)), sigma2)
            }
            None => iq4::weights_lanes::<L>(&x, None, zero),
        };
        let (scale, valid) = iq4::fit_lanes(lanes, &near, &x, &weights);
        let inverse = scale.equal(zero).select(zero, one / scale);
        let packed = iq4::pack_lanes(lanes, &near, inverse, &x);

        let mut scales = [0.0; MAX_LANES];
        scale.store(&mut scales);
        for (i, out) in out.iter_mut().enumerate() {
            out[..2].copy_from_slice(&f32_to_f16_ggml(scales[i]).to_le_bytes());
        }
        put::<L, BYTES, 4>(out, 2, &packed);
        valid.to_bits()
    }
}
