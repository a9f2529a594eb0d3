//! Tensor infos: the description of each tensor in the head.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

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

    /// The bytes of some rows, relative to the start of the tensor's data. A row is the first dimension; the other dimensions count rows.
    /// `None` if the tensor does not have the rows, or its size is unknown.
    ///
    /// ```
    /// # use gguf_format::{Gguf, GgmlType, Head, TensorInfo};
    /// # let mut head = Head::default();
    /// # head.tensors = vec![TensorInfo::new("token_embd.weight", [64, 100], GgmlType::Q8_0)];
    /// # let layout = head.layout()?;
    /// # let gguf = Gguf::parse(layout.head())?;
    /// let embeddings = gguf.tensor("token_embd.weight").unwrap();
    /// assert_eq!(embeddings.row_range(10..12), Some(10 * 68..12 * 68));
    /// assert_eq!(embeddings.row_range(99..101), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn row_range(&self, rows: Range<u64>) -> Option<Range<u64>> {
        let end = self.n_bytes().ok()?;
        let row_bytes = self.ty.tensor_bytes([self.dims.dim(0)]).ok()?;
        let at = |row: u64| row.checked_mul(row_bytes).filter(|at| *at <= end);
        let n_rows = self.dims.skip(1).try_fold(1, u64::checked_mul)?;
        (rows.start <= rows.end && rows.end <= n_rows).then_some(at(rows.start)?..at(rows.end)?)
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

    /// The width of a stored dimension.
    fn dim_bytes(&self) -> usize {
        if self.dialect.version.is_wide() { 8 } else { 4 }
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
        let n = self.bytes.len() / self.dim_bytes();
        (n, Some(n))
    }
}

impl ExactSizeIterator for Dims<'_> {}

impl DoubleEndedIterator for Dims<'_> {
    fn next_back(&mut self) -> Option<u64> {
        let (rest, last) = self.bytes.split_at_checked(self.bytes.len().checked_sub(self.dim_bytes())?)?;
        self.bytes = rest;
        Cursor::new(last, 0, self.dialect).len().ok()
    }
}

impl Dims<'_> {
    fn write_product(self, out: &mut impl fmt::Write) -> fmt::Result {
        for (i, dim) in self.enumerate() {
            write!(out, "{}{dim}", if i == 0 { "" } else { " x " })?;
        }
        Ok(())
    }
}

impl fmt::Display for Dims<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.width().is_none() && f.precision().is_none() {
            return self.write_product(f);
        }
        let mut text = String::new();
        self.write_product(&mut text)?;
        f.pad(&text)
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

/// A tensor to lay out: what a [`TensorInfo`] has without an offset, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewTensor<'a> {
    /// Name.
    pub name: &'a [u8],
    /// Dimensions, the contiguous one first.
    pub shape: &'a [u64],
    /// Element type.
    pub ty: GgmlType,
}

impl TensorInfo {
    /// The tensor, borrowed, without its offset.
    pub fn as_new(&self) -> NewTensor<'_> {
        NewTensor { name: &self.name, shape: &self.shape, ty: self.ty }
    }

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
