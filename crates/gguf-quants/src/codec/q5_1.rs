//! Q5_1: 32 values in 24 bytes, 6 bits per weight; one scale and one minimum.
//!
//! ```text
//! 0      2      4              8                                      24
//! | d    | min  | fifth bits   | low four bits, 16                     |
//!   f16    f16    bit i: value i byte i: value i in the low half, value 16 + i in the high half
//!
//! value = d * level + min
//! ```
//!
//! Rules: `block_q5_1` in `ggml-common.h`; `dequantize_row_q5_1`, `quantize_row_q5_1_ref` (without a matrix) and
//! `quantize_row_q5_1_impl` (with one) in `ggml-quants.c`. The code is that of `small.rs`.

use super::small;

/// Q5_1.
pub(super) type Block = small::Block<5, true, 24>;
