//! The table of codecs: for each tensor type that this crate converts, the functions that do it.
//!
//! A type that is not in the table cannot be decoded or encoded here; absence is `None`, never a guess.

use core::fmt;

use crate::dispatch::Isa;
use crate::float;
use crate::rows::Rows;
use gguf_format::GgmlType;

pub mod blocks;
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
pub mod sixteen;
pub mod small;
pub mod tq1_0;
pub mod tq2_0;

/// Packed little-endian blocks to values, as many blocks as both sides hold.
pub(crate) type Decode = fn(isa: Isa, packed: &[u8], values: &mut [f32]);
/// Rows to packed little-endian blocks; `packed` has the right size.
pub(crate) type Encode = fn(isa: Isa, rows: Rows<'_>, packed: &mut [u8]) -> Result<(), Refused>;

/// What an encoder does with an importance matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matrix {
    /// Takes no notice of it.
    Ignored,
    /// Weighs the error by it.
    Used,
    /// Cannot do without it (`ggml_quantize_requires_imatrix` in `ggml.c`).
    Required,
}

/// What can be done with one tensor type.
#[derive(Debug, Clone, Copy)]
pub struct Codec {
    /// The type.
    pub ty: GgmlType,
    /// What its encoder does with an importance matrix.
    pub matrix: Matrix,
    /// How many finite values of a row become infinite when encoded; `None` where none can.
    pub overflows: Option<fn(values: &[f32]) -> u64>,
    decode: Decode,
    encode: Option<Encode>,
}

/// ggml aborts on a block, so there are no bytes that would be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The block, counted from the first one of the call.
    pub block: usize,
}

/// Why rows were not encoded or blocks not decoded. Nothing was written, but for [`CodecError::Refused`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodecError {
    /// The type is only read.
    DecodeOnly(GgmlType),
    /// A row is not a whole number of blocks.
    PartialBlock {
        /// The type.
        ty: GgmlType,
        /// Length of a row.
        row_len: usize,
    },
    /// The type cannot be encoded without an importance matrix.
    NeedsMatrix(GgmlType),
    /// The packed side does not have the size that the values need.
    Size {
        /// The type.
        ty: GgmlType,
        /// Bytes needed; 0 when the values are no whole number of blocks.
        needed: usize,
        /// Bytes given.
        given: usize,
    },
    /// The numbers of a block overflow in a way on which ggml aborts; what was written is not to be used.
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
            CodecError::DecodeOnly(ty) => write!(f, "{ty} can be read but not written"),
            CodecError::PartialBlock { ty, row_len } => {
                let block_len = ty.info().map_or(0, |t| t.block_len);
                write!(f, "a row of {row_len} values is not a whole number of {ty} blocks of {block_len}")
            }
            CodecError::NeedsMatrix(ty) => write!(f, "{ty} needs an importance matrix"),
            CodecError::Size { ty, needed, given } => {
                write!(f, "{given} bytes of {ty} where the values need {needed}")
            }
            CodecError::Refused { ty, block } => {
                write!(f, "block {block} cannot be encoded as {ty}: its numbers overflow")
            }
        }
    }
}

impl core::error::Error for CodecError {}

impl Codec {
    const fn both(ty: GgmlType, matrix: Matrix, decode: Decode, encode: Encode) -> Codec {
        Codec { ty, matrix, overflows: None, decode, encode: Some(encode) }
    }

    const fn read_only(ty: GgmlType, decode: Decode) -> Codec {
        Codec { ty, matrix: Matrix::Ignored, overflows: None, decode, encode: None }
    }

    const fn overflowing(mut self, count: fn(&[f32]) -> u64) -> Codec {
        self.overflows = Some(count);
        self
    }

    /// Whether values can be encoded as this type.
    pub fn can_encode(&self) -> bool {
        self.encode.is_some()
    }

    /// Bytes that so many values take; `None` when they are no whole number of blocks.
    pub fn packed_bytes(&self, values: usize) -> Option<usize> {
        usize::try_from(self.ty.tensor_bytes([values as u64]).ok()?).ok()
    }

    /// Decodes whole blocks, from any block of a row on: the values that `to_float` of ggml's type traits gives, to the bit.
    ///
    /// # Errors
    /// [`CodecError::Size`] when the bytes are not just those of the values.
    pub fn decode(&self, isa: Isa, packed: &[u8], values: &mut [f32]) -> Result<(), CodecError> {
        self.check_size(values.len(), packed.len())?;
        (self.decode)(isa, packed, values);
        Ok(())
    }

    /// Encodes rows: the bytes that `ggml_quantize_chunk` gives.
    ///
    /// # Errors
    /// [`CodecError`]; only after [`CodecError::Refused`] has anything been written.
    pub fn encode(&self, isa: Isa, rows: Rows<'_>, packed: &mut [u8]) -> Result<(), CodecError> {
        let ty = self.ty;
        let encode = self.encode.ok_or(CodecError::DecodeOnly(ty))?;
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

const CODECS: &[Codec] = &[
    Codec::both(GgmlType::F32, Matrix::Ignored, plain::decode_f32, plain::encode_f32),
    Codec::both(GgmlType::F16, Matrix::Ignored, plain::decode_f16, plain::encode_f16)
        .overflowing(float::count_f16_overflows),
    Codec::both(GgmlType::Q4_0, Matrix::Used, q4_0::decode, q4_0::encode),
    Codec::both(GgmlType::Q4_1, Matrix::Used, q4_1::decode, q4_1::encode),
    Codec::read_only(GgmlType::Q4_2, removed::decode_q4_2),
    Codec::read_only(GgmlType::Q4_3, removed::decode_q4_3),
    Codec::both(GgmlType::Q5_0, Matrix::Used, q5_0::decode, q5_0::encode),
    Codec::both(GgmlType::Q5_1, Matrix::Used, q5_1::decode, q5_1::encode),
    Codec::both(GgmlType::Q8_0, Matrix::Ignored, q8_0::decode, q8_0::encode),
    Codec::read_only(GgmlType::Q8_1, q8_1::decode),
    Codec::both(GgmlType::Q2_K, Matrix::Used, q2_k::decode, q2_k::encode),
    Codec::both(GgmlType::Q3_K, Matrix::Used, q3_k::decode, q3_k::encode),
    Codec::both(GgmlType::Q4_K, Matrix::Used, q4_k::decode, q4_k::encode),
    Codec::both(GgmlType::Q5_K, Matrix::Used, q5_k::decode, q5_k::encode),
    Codec::both(GgmlType::Q6_K, Matrix::Used, q6_k::decode, q6_k::encode),
    Codec::read_only(GgmlType::Q8_K, q8_k::decode),
    Codec::both(GgmlType::IQ2_XXS, Matrix::Required, iq2_xxs::decode, iq2_xxs::encode),
    Codec::both(GgmlType::IQ2_XS, Matrix::Required, iq2_xs::decode, iq2_xs::encode),
    Codec::both(GgmlType::IQ3_XXS, Matrix::Used, iq3_xxs::decode, iq3_xxs::encode),
    Codec::both(GgmlType::IQ1_S, Matrix::Required, iq1_s::decode, iq1_s::encode),
    Codec::both(GgmlType::IQ4_NL, Matrix::Used, iq4_nl::decode, iq4_nl::encode),
    Codec::both(GgmlType::IQ3_S, Matrix::Used, iq3_s::decode, iq3_s::encode),
    Codec::both(GgmlType::IQ2_S, Matrix::Used, iq2_s::decode, iq2_s::encode),
    Codec::both(GgmlType::IQ4_XS, Matrix::Used, iq4_xs::decode, iq4_xs::encode),
    Codec::read_only(GgmlType::I8, plain::decode_i8),
    Codec::read_only(GgmlType::I16, plain::decode_i16),
    Codec::read_only(GgmlType::I32, plain::decode_i32),
    Codec::read_only(GgmlType::I64, plain::decode_i64),
    Codec::read_only(GgmlType::F64, plain::decode_f64),
    Codec::both(GgmlType::IQ1_M, Matrix::Used, iq1_m::decode, iq1_m::encode),
    Codec::both(GgmlType::BF16, Matrix::Ignored, plain::decode_bf16, plain::encode_bf16)
        .overflowing(float::count_bf16_overflows),
    Codec::both(GgmlType::TQ1_0, Matrix::Ignored, tq1_0::decode, tq1_0::encode),
    Codec::both(GgmlType::TQ2_0, Matrix::Ignored, tq2_0::decode, tq2_0::encode),
    Codec::both(GgmlType::MXFP4, Matrix::Ignored, mxfp4::decode, mxfp4::encode),
    Codec::both(GgmlType::NVFP4, Matrix::Ignored, nvfp4::decode, nvfp4::encode),
    Codec::both(GgmlType::Q1_0, Matrix::Ignored, q1_0::decode, q1_0::encode),
    Codec::both(GgmlType::Q2_0, Matrix::Ignored, q2_0::decode, q2_0::encode),
];

/// The codec of a type, if there is one.
pub fn codec(ty: GgmlType) -> Option<&'static Codec> {
    CODECS.iter().find(|c| c.ty == ty)
}

/// Every codec, in the order of the types' ids.
pub fn codecs() -> &'static [Codec] {
    CODECS
}
