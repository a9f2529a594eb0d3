//! Q5_0: 32 values in 22 bytes, 5.5 bits per weight; one scale.
//!
//! ```text
//! 0      2              6                                      22
//! | d    | fifth bits   | low four bits, 16                     |
//!   f16    bit i: value i byte i: value i in the low half, value 16 + i in the high half
//!
//! value = d * (level - 16)
//! ```
//!
//! Rules: `block_q5_0` in `ggml-common.h`; `dequantize_row_q5_0`, `quantize_row_q5_0_ref` (without a matrix) and
//! `quantize_row_q5_0_impl` (with one) in `ggml-quants.c`. The code is that of `small.rs`.

use super::small;

/// Q5_0.
pub(super) type Block = small::Block<5, false, 22>;
