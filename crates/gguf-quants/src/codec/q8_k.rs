//! Q8_K: 256 values in 292 bytes; what the K types multiply with. It is only read here.
//!
//! ```text
//! 0      4                                 260                                       292
//! | d    | levels, signed bytes, 256       | sums of 16 levels each, 16 words signed |
//!   f32    byte i: value i over d
//! ```
//!
//! The sums are for ggml's products; a decoder does not need them. Rules: `block_q8_K` in `ggml-common.h`;
//! `dequantize_row_q8_K` in `ggml-quants.c`.

use super::blocks;
use crate::dispatch::{Isa, Kernel};
use crate::lanes::{Floats, Ints, Lanes};

const LEN: usize = 256;
const BYTES: usize = 292;

/// Blocks to values.
pub(super) fn decode(isa: Isa, packed: &[u8], values: &mut [f32]) {
    match isa {
        Isa::Scalar => blocks::decode_each(packed, values, decode_reference),
        _ => isa.run(Decode { packed, values }),
    }
}

fn decode_reference(block: &[u8; BYTES], values: &mut [f32; LEN]) {
    let (d, levels) = block.split_first_chunk().unwrap();
    let d = f32::from_le_bytes(*d);
    for (value, level) in values.iter_mut().zip(levels) {
        *value = d * f32::from(*level as i8);
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
            let (d, levels) = block.split_first_chunk().unwrap();
            let d = lanes.splat(f32::from_le_bytes(*d));
            for i in (0..LEN).step_by(L::N) {
                (d * lanes.load_i8(&levels[i..]).to_f()).store(&mut values[i..]);
            }
        }
    }
}
