//! Q4_K: 256 values in 144 bytes, 4.5 bits per weight; eight groups of 32 with a scale and a minimum each.
//!
//! ```text
//! 0      2      4             16                                     144
//! | d    | dmin | scales, 12  | levels, 4 bits each, 128             |
//!   f16    f16    see k_min     byte 32 p + i: value 64 p + i in the low half,
//!                                              value 64 p + 32 + i in the high half
//! ```
//!
//! Rules: `block_q4_K` in `ggml-common.h`; `dequantize_row_q4_K`, `quantize_row_q4_K_ref` (without a matrix) and
//! `quantize_row_q4_K_impl` (with one) in `ggml-quants.c`. The code is that of `k_min.rs`.

use super::k_min;

/// Q4_K.
pub(super) type Block = k_min::Block<4, 144>;
