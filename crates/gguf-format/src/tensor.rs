//! Tensor infos: the description of each tensor in the head.

use alloc::borrow::ToOwned;
use alloc::vec::Vec;
use core::fmt;

use crate::cursor::Cursor;
use crate::header::Dialect;
use crate::types::{GgmlType, SizeError, n_elements};
use crate::value::Str;

/// A tensor info, viewed in place.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct TensorInfoRef<'a> {
    /// Index of the tensor in the head.
    pub index: u64,
    /// Name of the tensor.
    pub name: Str<'a>,
    /// Dimensions, the contiguous one first.
    pub dims: Dims<'a>,
    /// Element type.
    pub ty: GgmlType,
    /// Stored offset of the data: from the start of the data section (in the draft of version 1, from the start of the file).
    /// [`Gguf::tensor_range`](crate::Gguf::tensor_range) returns it from the start of the file.
    pub offset: u64,
    /// Byte offset of the info itself from the start of the GGUF.
    pub info_offset: u64,
}

impl TensorInfoRef<'_> {
    /// Number of elements; `None` if it does not fit in 63 bits.
    pub fn n_elements(&self) -> Option<u64> {
        n_elements(self.dims)
    }

    /// Bytes of the data, without padding.
    ///
    /// # Errors
    /// See [`GgmlType::tensor_bytes`].
    pub fn n_bytes(&self) -> Result<u64, SizeError> {
        self.ty.tensor_bytes(self.dims)
    }

    /// An owned copy.
    pub fn to_owned(&self) -> TensorInfo {
        TensorInfo {
            name: self.name.as_bytes().to_owned(),
            shape: self.dims.collect(),
            ty: self.ty,
            offset: self.offset,
        }
    }
}

/// The dimensions of a tensor; an iterator over them, the contiguous one first. `Display` writes them as
/// `4096 x 32000`, `Debug` as a list.
#[derive(Clone, Copy)]
pub struct Dims<'a> {
    bytes: &'a [u8],
    dialect: Dialect,
}

impl<'a> Dims<'a> {
    pub(crate) fn new(bytes: &'a [u8], dialect: Dialect) -> Dims<'a> {
        Dims { bytes, dialect }
    }

    /// The dimension at `i`; 1 beyond the last, as in ggml.
    pub fn dim(mut self, i: usize) -> u64 {
        self.nth(i).unwrap_or(1)
    }
}

impl Iterator for Dims<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let mut c = Cursor::new(self.bytes, 0, self.dialect);
        let d = c.len().ok()?;
        self.bytes = self.bytes.get(c.pos()..)?;
        Some(d)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = self.bytes.len() / if self.dialect.version.is_wide() { 8 } else { 4 };
        (n, Some(n))
    }
}

impl ExactSizeIterator for Dims<'_> {}

impl fmt::Display for Dims<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, dim) in self.enumerate() {
            write!(f, "{}{dim}", if i == 0 { "" } else { " x " })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Dims<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

impl PartialEq for Dims<'_> {
    fn eq(&self, other: &Self) -> bool {
        Iterator::eq(*self, *other)
    }
}

/// A tensor to write.
///
/// ```
/// use gguf_format::{GgmlType, TensorInfo};
///
/// let tensor = TensorInfo::new("blk.0.attn_q.weight", [4096, 4096], GgmlType::Q4_K);
/// assert_eq!(tensor.n_bytes(), Ok(4096 * 16 * 144));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name; at most 63 bytes for ggml.
    pub name: Vec<u8>,
    /// Dimensions, the contiguous one first.
    pub shape: Vec<u64>,
    /// Element type.
    pub ty: GgmlType,
    /// Stored offset. [`Head::layout`](crate::Head::layout) assigns new ones and ignores this one.
    pub offset: u64,
}

impl TensorInfo {
    /// A tensor without an offset.
    pub fn new(name: impl Into<Vec<u8>>, shape: impl Into<Vec<u64>>, ty: GgmlType) -> TensorInfo {
        TensorInfo { name: name.into(), shape: shape.into(), ty, offset: 0 }
    }

    /// Bytes of the data, without padding.
    ///
    /// # Errors
    /// See [`GgmlType::tensor_bytes`].
    pub fn n_bytes(&self) -> Result<u64, SizeError> {
        self.ty.tensor_bytes(self.shape.iter().copied())
    }
}
