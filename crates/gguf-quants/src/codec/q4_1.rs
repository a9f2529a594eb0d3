//! Q4_1: 32 values in 20 bytes, 5 bits per weight; one scale and one minimum.
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

use super::small;

/// Q4_1.
pub(super) type Block = small::Block<4, true, 20>;
