//! Q8_0: 32 values in 34 bytes, 8.5 bits a weight; a scale and signed bytes.
//!
//! ```text
//! 0      2                                34
//! | d    | levels, signed bytes, 32       |
//!   f16    byte i: value i over d
//! ```
//!
//! Rules: `block_q8_0` in `ggml-common.h`; `quantize_row_q8_0_ref` and `dequantize_row_q8_0` in `ggml-quants.c`. An importance
//! matrix changes nothing.

use super::Refused;
use super::blocks::{self, Scales};
use crate::dispatch::{Isa, Kernel};
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::lanes::arrays::trunc;
use crate::lanes::{Floats, Ints, Lanes};
use crate::rows::Rows;

const LEN: usize = 32;
const BYTES: usize = 34;
const TOP: f32 = 127.0;

/// Blocks to values.
pub(super) fn decode(isa: Isa, packed: &[u8], values: &mut [f32]) {
    match isa {
        Isa::Scalar => blocks::decode_each(packed, values, decode_reference),
        _ => isa.run(Decode { packed, values }),
    }
}

fn decode_reference(block: &[u8; BYTES], values: &mut [f32; LEN]) {
    let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
    for (value, level) in values.iter_mut().zip(&block[2..]) {
        *value = f32::from(*level as i8) * d;
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
            let d = lanes.splat_half(u16::from_le_bytes(*head));
            for i in (0..LEN).step_by(L::N) {
                (lanes.load_i8(&levels[i..]).to_f() * d).store(&mut values[i..]);
            }
        }
    }
}

/// Values to blocks.
pub(super) fn encode(isa: Isa, rows: Rows<'_>, packed: &mut [u8]) -> Result<(), Refused> {
    match isa {
        Isa::Scalar => blocks::encode_each(rows, packed, reference),
        _ => isa.run(Encode { rows, packed }),
    }
    Ok(())
}

#[inline(never)]
fn reference(x: &[f32; LEN]) -> [u8; BYTES] {
    let (d, inverse) = blocks::scale(blocks::largest_or_last(x), TOP);
    let mut out = [0; BYTES];
    out[..2].copy_from_slice(&f32_to_f16_ggml(d).to_le_bytes());
    for (out, x) in out[2..].iter_mut().zip(x) {
        *out = trunc((x * inverse).round()) as u8;
    }
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
        let blocks = self.packed.as_chunks_mut::<BYTES>().0;
        for first in (0..blocks.len()).step_by(L::N) {
            let tile = self.rows.tile::<LEN>(first, L::N);
            let scales = Scales::new(lanes, blocks::largest(lanes, &tile.values), TOP);
            for (i, out) in blocks[first..first + tile.len].iter_mut().enumerate() {
                let x = tile.values[i];
                if scales.valid >> i & 1 == 0 {
                    *out = reference(x);
                    continue;
                }
                let (head, levels) = out.split_first_chunk_mut().unwrap();
                *head = scales.half[i].to_le_bytes();
                let inverse = lanes.splat(scales.inverse[i]);
                for j in (0..LEN).step_by(L::N) {
                    blocks::round(lanes, lanes.load(&x[j..]) * inverse).store_u8(&mut levels[j..]);
                }
            }
        }
    }
}
