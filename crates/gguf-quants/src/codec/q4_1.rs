//! Q4_1: 32 values in 20 bytes, 5 bits a weight; one scale and one minimum.
//!
//! ```text
//! 0      2      4                                      20
//! | d    | min  | levels, 4 bits each, 16               |
//!   f16    f16    byte i: value i in the low half, value 16 + i in the high half
//!
//! value = d * level + min
//! ```
//!
//! Rules: `block_q4_1` in `ggml-common.h`; `dequantize_row_q4_1`, `quantize_row_q4_1_ref` (without a matrix) and
//! `quantize_row_q4_1_impl` (with one) in `ggml-quants.c`. The code is that of `small.rs`.

use super::{Refused, small};
use crate::dispatch::Isa;
use crate::rows::Rows;

const BITS: u32 = 4;
const MIN: bool = true;
const BYTES: usize = 20;

/// Blocks to values.
pub(super) fn decode(isa: Isa, packed: &[u8], values: &mut [f32]) {
    small::decode::<BITS, MIN, BYTES>(isa, packed, values);
}

/// Values to blocks.
pub(super) fn encode(isa: Isa, rows: Rows<'_>, packed: &mut [u8]) -> Result<(), Refused> {
    small::encode::<BITS, MIN, BYTES>(isa, rows, packed)
}
