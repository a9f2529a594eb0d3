//! Reading parts of packed tensors: numbers as `f32`, words and bytes.

use std::io;

use gguf_pipeline::{Error, Source};
use gguf_quants::float;
use gguf_quants::float8::Float8;

use crate::checkpoint::TensorFiles;
use crate::dtype::{Dtype, SourceTensor};
use crate::number::to_index;

/// A number format whose values are all exact in `f32`, or nearly so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    F32,
    F16,
    BF16,
    I8,
    F8(Float8),
}

impl Number {
    /// The format of a tensor; `None` if unsupported.
    pub(super) fn of(dtype: Dtype) -> Option<Number> {
        Some(match dtype.name {
            "F32" => Number::F32,
            "F16" => Number::F16,
            "BF16" => Number::BF16,
            "I8" => Number::I8,
            "F8_E4M3" => Number::F8(Float8::E4M3),
            "F8_E5M2" => Number::F8(Float8::E5M2),
            "F8_E4M3FNUZ" => Number::F8(Float8::E4M3Fnuz),
            "F8_E5M2FNUZ" => Number::F8(Float8::E5M2Fnuz),
            "F8_E8M0" => Number::F8(Float8::E8M0),
            _ => return None,
        })
    }

    /// Whether the format is valid for scales.
    pub(super) fn is_of_scales(self) -> bool {
        matches!(self, Number::F32 | Number::F16 | Number::BF16 | Number::F8(Float8::E8M0))
    }

    /// Rounds values to the nearest value of the format; 8-bit formats leave them unchanged.
    pub(super) fn round(self, values: &mut [f32]) {
        match self {
            Number::F16 => values.iter_mut().for_each(|v| *v = float::f16_to_f32(float::f32_to_f16(*v))),
            Number::BF16 => values.iter_mut().for_each(|v| *v = float::bf16_to_f32(float::f32_to_bf16(*v))),
            Number::F32 | Number::I8 | Number::F8(_) => {}
        }
    }

    fn width(self) -> u64 {
        match self {
            Number::F32 => 4,
            Number::F16 | Number::BF16 => 2,
            Number::I8 | Number::F8(_) => 1,
        }
    }

    fn decode(self, packed: &[u8], values: &mut [f32]) {
        match self {
            Number::F32 => float::decode_f32(packed, values),
            Number::F16 => float::decode_f16(packed, values),
            Number::BF16 => float::decode_bf16(packed, values),
            Number::I8 => values.iter_mut().zip(packed).for_each(|(v, &b)| *v = f32::from(b as i8)),
            Number::F8(format) => format.decode(packed, values),
        }
    }
}

/// A tensor of numbers: its index in the checkpoint and its format.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    pub(super) index: usize,
    pub(super) number: Number,
}

/// The data of a checkpoint, read to decode one of its packed tensors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Data<'a> {
    pub(super) checkpoint: &'a TensorFiles,
    pub(super) tensor: &'a SourceTensor,
}

impl Data<'_> {
    /// Reads bytes of a tensor, starting at an offset.
    pub(super) fn bytes(&self, index: usize, offset: u64, n: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = self.buffer(n, 0u8)?;
        self.checkpoint.read(index, offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads numbers of a tensor, starting at index `first`.
    pub(super) fn numbers(&self, at: Numbers, first: u64, n: u64) -> Result<Vec<f32>, Error> {
        let width = at.number.width();
        let packed = self.bytes(at.index, first.saturating_mul(width), n.saturating_mul(width))?;
        let mut values = self.buffer(n, 0f32)?;
        at.number.decode(&packed, &mut values);
        Ok(values)
    }

    /// Fills `values` with numbers of a tensor, starting at index `first`.
    pub(super) fn numbers_into(&self, at: Numbers, first: u64, values: &mut [f32]) -> Result<(), Error> {
        let width = at.number.width();
        let n = values.len() as u64;
        let packed = self.bytes(at.index, first.saturating_mul(width), n.saturating_mul(width))?;
        at.number.decode(&packed, values);
        Ok(())
    }

    /// Reads 32-bit words in a rectangle of a tensor with `row_words` words per row: a range of rows and a range of words within them.
    pub(super) fn words(
        &self,
        index: usize,
        row_words: u64,
        rows: core::ops::Range<u64>,
        columns: core::ops::Range<u64>,
    ) -> Result<Vec<u32>, Error> {
        let (n_rows, n_columns) = (rows.end.saturating_sub(rows.start), columns.end.saturating_sub(columns.start));
        let row_bytes = n_columns.saturating_mul(4);
        let mut bytes = self.buffer(n_rows.saturating_mul(row_bytes), 0u8)?;
        let offset = |row: u64| row.saturating_mul(row_words).saturating_add(columns.start).saturating_mul(4);
        if n_columns == row_words {
            self.checkpoint.read(index, offset(rows.start), &mut bytes)?;
        } else if row_bytes > 0 {
            for (row, part) in rows.zip(bytes.chunks_exact_mut(to_index(row_bytes))) {
                self.checkpoint.read(index, offset(row), part)?;
            }
        }
        let mut words = self.buffer(n_rows.saturating_mul(n_columns), 0u32)?;
        let (quads, _) = bytes.as_chunks::<4>();
        words.iter_mut().zip(quads).for_each(|(word, quad)| *word = u32::from_le_bytes(*quad));
        Ok(words)
    }

    /// Allocates memory, or returns an error.
    pub(super) fn buffer<T: Clone>(&self, n: u64, zero: T) -> Result<Vec<T>, Error> {
        let bytes = n.saturating_mul(size_of::<T>() as u64);
        let refused = || Error::OutOfMemory { tensor: self.tensor.name.clone(), bytes };
        let len = usize::try_from(n).map_err(|_| refused())?;
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(len).map_err(|_| refused())?;
        buffer.resize(len, zero);
        Ok(buffer)
    }

    /// The error for data that no longer match the planned conversion.
    pub(super) fn changed(&self, index: usize, problem: &str) -> Error {
        let name = self.checkpoint.tensors().get(index).map_or("", |tensor| tensor.name.as_str());
        let path = self.checkpoint.path_of(name).unwrap_or(std::path::Path::new(""));
        let message = format!("the tensor {name:?}: {problem}");
        Error::io("read", path, io::Error::new(io::ErrorKind::InvalidData, message))
    }
}
