//! Q5_K: 256 values in 176 bytes, 5.5 bits per weight; eight groups of 32 with a scale and a minimum each.
//!
//! ```text
//! 0      2      4             16                    48                                     176
//! | d    | dmin | scales, 12  | fifth bits, 32      | low four bits, 128                   |
//!   f16    f16    see k_min     byte i, bit g:        byte 32 p + i: value 64 p + i in the low half,
//!                               value 32 g + i                       value 64 p + 32 + i in the high half
//! ```
//!
//! Rules: `block_q5_K` in `ggml-common.h`; `dequantize_row_q5_K`, `quantize_row_q5_K_ref` (without a matrix) and
//! `quantize_row_q5_K_impl` (with one) in `ggml-quants.c`. The code is that of `k_min.rs`.

use super::k_min;

/// Q5_K.
pub(super) type Block = k_min::Block<5, 176>;
