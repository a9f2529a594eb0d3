//! Q4_0: 32 values in 18 bytes, 4.5 bits per weight; one scale.
//!
//! ```text
//! 0      2                                      18
//! | d    | levels, 4 bits each, 16               |
//!   f16    byte i: value i in the low half, value 16 + i in the high half
//!
//! value = d * (level - 8)
//! ```
//!
//! Rules: `block_q4_0` in `ggml-common.h`; `dequantize_row_q4_0`, `quantize_row_q4_0_ref` (without a matrix) and
//! `quantize_row_q4_0_impl` (with one) in `ggml-quants.c`. The code is that of `small.rs`.

use super::small;

/// Q4_0.
pub(super) type Block = small::Block<4, false, 18>;
