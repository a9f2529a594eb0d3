//! IQ4_NL: 32 values in 18 bytes, 4.5 bits a weight; one scale, and levels that choose from sixteen uneven values.
//!
//! ```text
//! 0      2                       18
//! | d    | levels, 4 bits each, 16 |
//!   f16    see iq4
//! ```
//!
//! Rules: `block_iq4_nl` in `ggml-common.h`; `dequantize_row_iq4_nl` and `quantize_iq4_nl` in `ggml-quants.c`.

use super::Refused;
use super::iq4::{self, GROUP, Nearest};
use crate::dispatch::{Isa, Kernel};
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks};
use crate::rows::Rows;

/// Values in a block.
const LEN: usize = GROUP;
const BYTES: usize = 18;

/// Blocks to values.
pub(super) fn decode(isa: Isa, packed: &[u8], values: &mut [f32]) {
    match isa {
        Isa::Scalar => decode_reference(packed, values),
        _ => isa.run(Decode { packed, values }),
    }
}

/// One value after the other.
fn decode_reference(packed: &[u8], values: &mut [f32]) {
    for (block, values) in packed.as_chunks::<BYTES>().0.iter().zip(values.as_chunks_mut::<LEN>().0) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
        for (i, value) in values.iter_mut().enumerate() {
            *value = d * iq4::value(&block[2..], i);
        }
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
            let d = lanes.half(u16::from_le_bytes([block[0], block[1]]));
            iq4::decode_group(lanes, d, block[2..].first_chunk().unwrap(), values);
        }
    }
}

/// Values to blocks.
pub(super) fn encode(isa: Isa, rows: Rows<'_>, packed: &mut [u8]) -> Result<(), Refused> {
    match isa {
        Isa::Scalar => {
            for (i, out) in packed.as_chunks_mut::<BYTES>().0.iter_mut().enumerate() {
                *out = reference(rows.block(i), rows.block_weights(i));
            }
        }
        _ => isa.run(Encode { rows, packed }),
    }
    Ok(())
}

/// One block in plain steps.
#[inline(never)]
fn reference(x: &[f32; LEN], matrix: Option<&[f32; LEN]>) -> [u8; BYTES] {
    let scale = iq4::fit(x, &iq4::weights(x, matrix, iq4::sigma2(x)));
    let inverse = if scale != 0.0 { 1.0 / scale } else { 0.0 };
    let mut out = [0; BYTES];
    out[..2].copy_from_slice(&f32_to_f16_ggml(scale).to_le_bytes());
    out[2..].copy_from_slice(&iq4::pack(&x.map(|x| iq4::nearest(inverse * x))));
    out
}

struct Encode<'a> {
    rows: Rows<'a>,
    packed: &'a mut [u8],
}

impl Kernel for Encode<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let (zero, one) = (lanes.splat(0.0), lanes.splat(1.0));
        let near = Nearest::new(lanes);
        let blocks = self.packed.as_chunks_mut::<BYTES>().0;
        for first in (0..blocks.len()).step_by(L::N) {
            let tile = self.rows.tile::<LEN>(first, L::N);
            let out = &mut blocks[first..first + tile.len];
            let x = lanes.columns(&tile.values);
            let weights = match &tile.weights {
                Some(matrix) => {
                    let mut sum = zero;
                    for i in 0..LEN {
                        sum = sum + x[i] * x[i];
                    }
                    let sigma2 = sum * lanes.splat(2.0 / LEN as f32);
                    iq4::weights_lanes::<L>(&x, Some(&lanes.columns(matrix)), sigma2)
                }
                None => iq4::weights_lanes::<L>(&x, None, zero),
            };
            let (scale, valid) = iq4::fit_lanes(lanes, &near, &x, &weights);
            let inverse = scale.equal(zero).select(zero, one / scale);
            let packed = iq4::pack_lanes(lanes, &near, inverse, &x);

            let mut scales = [0.0; MAX_LANES];
            scale.store(&mut scales);
            let mut words = [[0; MAX_LANES]; 4];
            for w in 0..4 {
                packed[w].store(&mut words[w]);
            }
            let valid = valid.to_bits();
            for (i, out) in out.iter_mut().enumerate() {
                if valid >> i & 1 == 0 {
                    *out = reference(self.rows.block(first + i), self.rows.block_weights(first + i));
                    continue;
                }
                out[..2].copy_from_slice(&f32_to_f16_ggml(scales[i]).to_le_bytes());
                for w in 0..4 {
                    out[2 + 4 * w..6 + 4 * w].copy_from_slice(&words[w][i].to_le_bytes());
                }
            }
        }
    }
}
