//! The table of codecs: the conversion functions of each tensor type that this crate supports.
//!
//! A type that is not in the table cannot be decoded or encoded; lookups return `None`.

use core::fmt;

use crate::dispatch::Isa;
use crate::float;
use crate::rows::{Rows, RowsError};
use block::Refused;
use gguf_format::GgmlType;

mod block;
mod blocks;
pub mod fp4;
pub mod iq1;
pub mod iq1_m;
pub mod iq1_s;
pub mod iq2_s;
pub mod iq2_xs;
pub mod iq2_xxs;
pub mod iq3_s;
pub mod iq3_xxs;
pub mod iq4;
pub mod iq4_nl;
pub mod iq4_xs;
pub mod iq_grid;
pub mod k_min;
mod least;
pub mod mxfp4;
pub mod nvfp4;
pub mod plain;
pub mod q1_0;
pub mod q2_0;
pub mod q2_k;
pub mod q3_k;
pub mod q4_0;
pub mod q4_1;
pub mod q4_k;
pub mod q5_0;
pub mod q5_1;
pub mod q5_k;
pub mod q6_k;
pub mod q8_0;
pub mod q8_1;
pub mod q8_k;
pub mod removed;
mod sixteen;
pub mod small;
pub mod tq1_0;
pub mod tq2_0;
mod words;

/// Packed little-endian blocks to values, as many blocks as both sides hold.
pub(crate) type Decode = fn(isa: Isa, packed: &[u8], values: &mut [f32]);
/// Rows to packed little-endian blocks; `packed` has the right size.
pub(crate) type Encode = fn(isa: Isa, rows: Rows<'_>, packed: &mut [u8]) -> Result<(), Refused>;

/// The encoder of a type, if it has one.
#[derive(Debug, Clone, Copy)]
enum Encoder {
    Compiled(Encode),
    /// Compiled with this feature of the crate.
    #[cfg_attr(
        all(feature = "encode", feature = "iq"),
        expect(dead_code, reason = "with all features, every encoder is compiled")
    )]
    LeftOut(&'static str),
    /// ggml does not encode the type.
    None,
}

/// How an encoder uses an importance matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matrix {
    /// The matrix is ignored.
    Ignored,
    /// The matrix weights the error.
    Used,
    /// The matrix is required (`ggml_quantize_requires_imatrix` in `ggml.c`).
    Required,
}

/// The conversions of one tensor type.
///
/// ```
/// use gguf_format::GgmlType;
/// use gguf_quants::{Rows, codec};
///
/// let codec = codec(GgmlType::Q5_K).unwrap();
/// let values = [0.25; 2 * 256];
/// // Memory belongs to the caller: here for two rows of one block each.
/// let mut packed = vec![0; codec.packed_bytes(values.len()).unwrap()];
/// codec.encode(Rows::new(&values, 256, None)?, &mut packed)?;
/// // Any range of whole blocks can be decoded separately.
/// let mut second = [0.0; 256];
/// codec.decode(&packed[176..], &mut second)?;
/// assert!(second.iter().all(|x| (x - 0.25).abs() < 0.001));
/// # Ok::<(), gguf_quants::CodecError>(())
/// ```
#[non_exhaustive]
#[derive(Debug, Clone, Copy)]
pub struct Codec {
    /// The type.
    pub ty: GgmlType,
    /// How the encoder uses an importance matrix.
    pub matrix: Matrix,
    /// The number of finite values of a row that become infinite when encoded; `None` if the type has no such values.
    pub overflows: Option<fn(values: &[f32]) -> u64>,
    /// Whether the encoder reads whole rows when there is an importance matrix.
    by_row: bool,
    decode: Decode,
    encode: Encoder,
}

/// Errors of encoding and decoding. Except for [`CodecError::Refused`], nothing has been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodecError {
    /// The type is not in the table of codecs.
    NoCodec(GgmlType),
    /// The type can only be decoded.
    DecodeOnly(GgmlType),
    /// The encoder was not compiled.
    LeftOut {
        /// The type.
        ty: GgmlType,
        /// The feature of this crate that includes it.
        feature: &'static str,
    },
    /// The lengths of values, rows and weights do not match.
    Rows(RowsError),
    /// A row is not a whole number of blocks.
    PartialBlock {
        /// The type.
        ty: GgmlType,
        /// Length of a row.
        row_len: usize,
    },
    /// The type cannot be encoded without an importance matrix.
    NeedsMatrix(GgmlType),
    /// The packed buffer has the wrong size for the values.
    Size {
        /// The type.
        ty: GgmlType,
        /// Bytes needed; 0 if the values are not a whole number of blocks.
        needed: usize,
        /// Bytes given.
        given: usize,
    },
    /// The values of a block overflow, and ggml aborts; the output is invalid.
    Refused {
        /// The type.
        ty: GgmlType,
        /// The block, counted from the first one of the call.
        block: usize,
    },
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodecError::NoCodec(ty) => write!(f, "{ty} can be neither read nor written"),
            CodecError::LeftOut { ty, feature } => {
                write!(f, "{ty} cannot be written: gguf-quants was compiled without the feature {feature}")
            }
            CodecError::Rows(e) => e.fmt(f),
            CodecError::DecodeOnly(ty) => write!(f, "{ty} can be read but not written"),
            CodecError::PartialBlock { ty, row_len } => {
                let block_len = ty.info().map_or(0, |t| t.block_len);
                write!(f, "a row of {row_len} values is not a whole number of {ty} blocks of {block_len}")
            }
            CodecError::NeedsMatrix(ty) => write!(f, "{ty} needs an importance matrix"),
            CodecError::Size { ty, needed, given } => {
                write!(f, "expected {needed} bytes of {ty}, found {given}")
            }
            CodecError::Refused { ty, block } => {
                write!(f, "block {block} cannot be encoded as {ty}: its numbers overflow")
            }
        }
    }
}

impl core::error::Error for CodecError {}

impl From<RowsError> for CodecError {
    fn from(error: RowsError) -> CodecError {
        CodecError::Rows(error)
    }
}

impl Codec {
    const fn new(ty: GgmlType, matrix: Matrix, decode: Decode, encode: Encoder) -> Codec {
        Codec { ty, matrix, overflows: None, by_row: false, decode, encode }
    }

    const fn overflowing(mut self, count: fn(&[f32]) -> u64) -> Codec {
        self.overflows = Some(count);
        self
    }

    const fn by_row(mut self) -> Codec {
        self.by_row = true;
        self
    }

    /// Whether the bytes of a block depend on the other blocks of its row, with or without an importance matrix. A part of such a row is
    /// encoded with the [squares](crate::RowSquares) of the whole row.
    pub fn looks_at_rows(&self, has_matrix: bool) -> bool {
        self.by_row && has_matrix
    }

    /// Whether values can be encoded as this type: ggml has an encoder, and its [feature](crate#features) is enabled.
    pub fn can_encode(&self) -> bool {
        matches!(self.encode, Encoder::Compiled(_))
    }

    /// The packed size of this many values; `None` if they are not a whole number of blocks.
    pub fn packed_bytes(&self, values: usize) -> Option<usize> {
        usize::try_from(self.ty.tensor_bytes([values as u64]).ok()?).ok()
    }

    /// Decodes whole blocks, starting at any block of a row. The values are bit-identical to those of `to_float` in ggml's type traits.
    ///
    /// # Errors
    /// [`CodecError::Size`] if the bytes do not match the number of values.
    pub fn decode(&self, packed: &[u8], values: &mut [f32]) -> Result<(), CodecError> {
        self.decode_with(Isa::best(), packed, values)
    }

    /// [`Codec::decode`] with a chosen instruction set; the values are the same.
    ///
    /// # Errors
    /// As for [`Codec::decode`].
    pub fn decode_with(&self, isa: Isa, packed: &[u8], values: &mut [f32]) -> Result<(), CodecError> {
        self.check_size(values.len(), packed.len())?;
        (self.decode)(isa, packed, values);
        Ok(())
    }

    /// Encodes rows to the same bytes as `ggml_quantize_chunk`.
    ///
    /// # Errors
    /// [`CodecError`]; only [`CodecError::Refused`] may leave partial output.
    pub fn encode(&self, rows: Rows<'_>, packed: &mut [u8]) -> Result<(), CodecError> {
        self.encode_with(Isa::best(), rows, packed)
    }

    /// [`Codec::encode`] with a chosen instruction set; the bytes are the same.
    ///
    /// # Errors
    /// As for [`Codec::encode`].
    pub fn encode_with(&self, isa: Isa, rows: Rows<'_>, packed: &mut [u8]) -> Result<(), CodecError> {
        let ty = self.ty;
        let encode = match self.encode {
            Encoder::Compiled(encode) => encode,
            Encoder::LeftOut(feature) => return Err(CodecError::LeftOut { ty, feature }),
            Encoder::None => return Err(CodecError::DecodeOnly(ty)),
        };
        if self.packed_bytes(rows.row_len()).is_none() {
            return Err(CodecError::PartialBlock { ty, row_len: rows.row_len() });
        }
        if self.matrix == Matrix::Required && rows.weights().is_none() {
            return Err(CodecError::NeedsMatrix(ty));
        }
        self.check_size(rows.values().len(), packed.len())?;
        if rows.values().is_empty() {
            return Ok(());
        }
        encode(isa, rows, packed).map_err(|r| CodecError::Refused { ty, block: r.block })
    }

    fn check_size(&self, values: usize, given: usize) -> Result<(), CodecError> {
        match self.packed_bytes(values) {
            Some(needed) if needed == given => Ok(()),
            needed => Err(CodecError::Size { ty: self.ty, needed: needed.unwrap_or(0), given }),
        }
    }
}

/// An encoder behind a feature.
macro_rules! encoder {
    ($feature:literal, $encode:expr) => {{
        #[cfg(feature = $feature)]
        let encoder = Encoder::Compiled($encode);
        #[cfg(not(feature = $feature))]
        let encoder = Encoder::LeftOut($feature);
        encoder
    }};
}

/// The codec of a block type, read-only or with an encoder.
macro_rules! blocks {
    ($ty:ident, $module:ident :: $block:ident) => {
        Codec::new(GgmlType::$ty, Matrix::Ignored, block::decode::<$module::$block, _, _>, Encoder::None)
    };
    ($ty:ident, $matrix:ident, $module:ident, $feature:literal) => {
        Codec::new(
            GgmlType::$ty,
            Matrix::$matrix,
            block::decode::<$module::Block, _, _>,
            encoder!($feature, block::encode::<$module::Block, _, _>),
        )
    };
}

const CODECS: &[Codec] = &[
    Codec::new(GgmlType::F32, Matrix::Ignored, plain::decode_f32, encoder!("encode", plain::encode_f32)),
    Codec::new(GgmlType::F16, Matrix::Ignored, plain::decode_f16, encoder!("encode", plain::encode_f16))
        .overflowing(float::count_f16_overflows),
    blocks!(Q4_0, Used, q4_0, "encode").by_row(),
    blocks!(Q4_1, Used, q4_1, "encode").by_row(),
    blocks!(Q4_2, removed::Q4_2),
    blocks!(Q4_3, removed::Q4_3),
    blocks!(Q5_0, Used, q5_0, "encode").by_row(),
    blocks!(Q5_1, Used, q5_1, "encode").by_row(),
    blocks!(Q8_0, Ignored, q8_0, "encode"),
    blocks!(Q8_1, q8_1::Block),
    blocks!(Q2_K, Used, q2_k, "encode"),
    blocks!(Q3_K, Used, q3_k, "encode"),
    blocks!(Q4_K, Used, q4_k, "encode"),
    blocks!(Q5_K, Used, q5_k, "encode"),
    blocks!(Q6_K, Used, q6_k, "encode"),
    blocks!(Q8_K, q8_k::Block),
    blocks!(IQ2_XXS, Required, iq2_xxs, "iq"),
    blocks!(IQ2_XS, Required, iq2_xs, "iq"),
    blocks!(IQ3_XXS, Used, iq3_xxs, "iq"),
    blocks!(IQ1_S, Required, iq1_s, "iq"),
    blocks!(IQ4_NL, Used, iq4_nl, "iq"),
    blocks!(IQ3_S, Used, iq3_s, "iq"),
    blocks!(IQ2_S, Used, iq2_s, "iq"),
    blocks!(IQ4_XS, Used, iq4_xs, "iq"),
    Codec::new(GgmlType::I8, Matrix::Ignored, plain::decode_i8, Encoder::None),
    Codec::new(GgmlType::I16, Matrix::Ignored, plain::decode_i16, Encoder::None),
    Codec::new(GgmlType::I32, Matrix::Ignored, plain::decode_i32, Encoder::None),
    Codec::new(GgmlType::I64, Matrix::Ignored, plain::decode_i64, Encoder::None),
    Codec::new(GgmlType::F64, Matrix::Ignored, plain::decode_f64, Encoder::None),
    blocks!(IQ1_M, Used, iq1_m, "iq"),
    Codec::new(GgmlType::BF16, Matrix::Ignored, plain::decode_bf16, encoder!("encode", plain::encode_bf16))
        .overflowing(float::count_bf16_overflows),
    blocks!(TQ1_0, Ignored, tq1_0, "encode"),
    blocks!(TQ2_0, Ignored, tq2_0, "encode"),
    blocks!(MXFP4, Ignored, mxfp4, "encode"),
    blocks!(NVFP4, Ignored, nvfp4, "encode"),
    blocks!(Q1_0, Ignored, q1_0, "encode"),
    blocks!(Q2_0, Ignored, q2_0, "encode"),
];

/// The codec of a type, if there is one.
pub fn codec(ty: GgmlType) -> Option<&'static Codec> {
    CODECS.iter().find(|c| c.ty == ty)
}

/// Every codec, in the order of the types' ids.
pub fn codecs() -> &'static [Codec] {
    CODECS
}
