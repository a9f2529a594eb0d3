//! One tensor of a file: its metadata, and its data in several forms.

use std::borrow::Cow;
use std::ops::Range;

use gguf_format::sort::CompactSort as _;
use gguf_format::{ByteOrder, Dims, GgmlType, Str, TensorInfoRef, swap_blocks};

use crate::plain::view;
#[cfg(feature = "quants")]
use crate::read_at::DEFAULT_READ;
use crate::{Error, ModelFile, Plain, TensorProblem};

/// A tensor of an open file, or some [rows](Tensor::rows) of it. Data is read on demand:
///
/// | method | data | byte order |
/// |---|---|---|
/// | [`read`](Tensor::read), [`read_into`](Tensor::read_into) | as it is stored, copied | the file's |
/// | [`as_bytes`](Tensor::as_bytes) | as it is stored, borrowed from a source in memory | the file's |
/// | [`as_slice`](Tensor::as_slice) | numbers, borrowed from a source in memory | the machine's |
/// | [`bytes`](Tensor::bytes) | the input of a codec, borrowed or copied | little-endian |
/// | [`to_f32`](Tensor::to_f32), [`decode_into`](Tensor::decode_into) | decoded values | the machine's |
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use gguf_format::{GgmlType, Head, TensorInfo};
/// # let mut head = Head::default();
/// # head.tensors = vec![TensorInfo::new("token_embd.weight", [32, 100], GgmlType::F16)];
/// # let bytes = gguf_io::Writer::write(Vec::new(), &head, [vec![0u8; 6400]])?;
/// # let file = gguf_io::ModelFile::from_source(bytes, "model")?;
/// let embeddings = file.tensor("token_embd.weight")?;
/// assert_eq!((embeddings.row_len(), embeddings.n_rows()), (32, 100));
/// let some = embeddings.rows(10..20)?.to_f32()?;
/// assert_eq!(some.len(), 10 * 32);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Tensor<'a> {
    file: &'a ModelFile,
    info: TensorInfoRef<'a>,
    /// The rows of the view; all of them if `None`.
    rows: Option<Range<u64>>,
}

impl<'a> Tensor<'a> {
    pub(crate) fn new(file: &'a ModelFile, info: TensorInfoRef<'a>) -> Tensor<'a> {
        Tensor { file, info, rows: None }
    }

    /// The file that contains the tensor.
    pub fn file(&self) -> &'a ModelFile {
        self.file
    }

    /// The head's entry for the tensor.
    pub fn info(&self) -> TensorInfoRef<'a> {
        self.info
    }

    /// The name.
    pub fn name(&self) -> Str<'a> {
        self.info.name
    }

    /// The type of the data.
    pub fn ty(&self) -> GgmlType {
        self.info.ty
    }

    /// The dimensions of the whole tensor; the first is the contiguous one.
    pub fn shape(&self) -> Dims<'a> {
        self.info.dims
    }

    /// Elements in a row: the first dimension, 1 for a scalar.
    pub fn row_len(&self) -> u64 {
        self.info.dims.dim(0)
    }

    /// Number of rows: the product of the dimensions after the first, or the number of [chosen rows](Tensor::rows). [`u64::MAX`] if the
    /// product is larger; such a tensor has no data.
    pub fn n_rows(&self) -> u64 {
        match &self.rows {
            Some(rows) => rows.end - rows.start,
            None => self.info.dims.skip(1).fold(1, u64::saturating_mul),
        }
    }

    /// The given rows, relative to the first row of this view.
    ///
    /// # Errors
    /// [`TensorProblem::Rows`] if they are out of range.
    pub fn rows(&self, rows: Range<u64>) -> Result<Tensor<'a>, Error> {
        let n_rows = self.n_rows();
        if rows.start > rows.end || rows.end > n_rows {
            return Err(self.error(TensorProblem::Rows { asked: rows, n_rows }));
        }
        let first = self.rows.as_ref().map_or(0, |r| r.start);
        Ok(Tensor { rows: Some(first + rows.start..first + rows.end), ..self.clone() })
    }

    /// The range of the data, in bytes from the start of the GGUF.
    ///
    /// # Errors
    /// [`TensorProblem::Size`] if the size is unknown, [`TensorProblem::Truncated`] if the file ends inside the data.
    pub fn byte_range(&self) -> Result<Range<u64>, Error> {
        let size = |e| self.error(TensorProblem::Size(e));
        let whole = self.file.gguf().tensor_range(&self.info).map_err(size)?;
        let range = match &self.rows {
            None => whole,
            Some(rows) => {
                // The view has only rows of the tensor.
                let part = self.info.row_range(rows.clone()).unwrap_or_default();
                whole.start + part.start..whole.start + part.end
            }
        };
        let file_bytes = self.file.file_bytes();
        if range.end > file_bytes {
            return Err(self.error(TensorProblem::Truncated { end: range.end, file_bytes }));
        }
        Ok(range)
    }

    /// Bytes of the data. The number of its elements is [`row_len`](Tensor::row_len) times [`n_rows`](Tensor::n_rows).
    ///
    /// # Errors
    /// See [`byte_range`](Tensor::byte_range).
    pub fn n_bytes(&self) -> Result<u64, Error> {
        self.byte_range().map(|range| range.end - range.start)
    }

    /// Reads the stored data, in the byte order of the file.
    ///
    /// # Errors
    /// See [`byte_range`](Tensor::byte_range); also [`Error::Io`] from the source and [`TensorProblem::OutOfMemory`].
    pub fn read(&self) -> Result<Vec<u8>, Error> {
        let range = self.byte_range()?;
        let n = range.end - range.start;
        let mut bytes = Vec::new();
        let len = self.reserve(&mut bytes, Some(n))?;
        bytes.resize(len, 0);
        self.read_part(range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads the stored data into `buf`, which must have the same size.
    ///
    /// # Errors
    /// See [`byte_range`](Tensor::byte_range); also [`Error::Io`] from the source, and [`TensorProblem::Buffer`] for a buffer of another
    /// size.
    pub fn read_into(&self, buf: &mut [u8]) -> Result<(), Error> {
        let range = self.byte_range()?;
        let (needed, given) = (range.end - range.start, buf.len() as u64);
        if needed != given {
            return Err(self.error(TensorProblem::Buffer { needed, given }));
        }
        self.read_part(range.start, buf)
    }

    /// The stored data, if the source is in memory or mapped; `None` otherwise.
    ///
    /// # Errors
    /// See [`byte_range`](Tensor::byte_range).
    pub fn as_bytes(&self) -> Result<Option<&'a [u8]>, Error> {
        let range = self.byte_range()?;
        Ok(self.file.bytes_at(range.start, range.end - range.start))
    }

    /// The data as numbers, if it can be borrowed: the source is in memory or mapped, the data is aligned, it has the byte order of this
    /// machine, and the tensor's type [holds](Plain::holds) such numbers. `None` otherwise.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use gguf_format::{GgmlType, Head, TensorInfo};
    /// # let mut head = Head::default();
    /// # head.tensors = vec![TensorInfo::new("ids", [4], GgmlType::I32)];
    /// # let bytes = gguf_io::Writer::write(Vec::new(), &head, [vec![0u8; 16]])?;
    /// # let file = gguf_io::ModelFile::from_source(bytes, "model")?;
    /// let tensor = file.tensor("ids")?;
    /// match tensor.as_slice::<i32>()? {
    ///     Some(ids) => println!("{ids:?}"),
    ///     None => println!("{} bytes to copy", tensor.bytes()?.len()),
    /// }
    /// assert_eq!(tensor.as_slice::<f32>()?, None);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// See [`byte_range`](Tensor::byte_range).
    pub fn as_slice<T: Plain>(&self) -> Result<Option<&'a [T]>, Error> {
        let native = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
        let is_native = self.order() == native || size_of::<T>() == 1;
        let bytes = self.as_bytes()?.filter(|_| is_native && T::holds(self.info.ty));
        Ok(bytes.and_then(view))
    }

    /// The data in little-endian order, regardless of the byte order of the file: the input of ggml's kernels and of `gguf-quants`.
    /// Borrowed if the source is in memory and the file is little-endian.
    ///
    /// # Errors
    /// See [`read`](Tensor::read); also [`TensorProblem::Swap`] if the byte order of a type's blocks cannot be changed.
    pub fn bytes(&self) -> Result<Cow<'a, [u8]>, Error> {
        if self.order() == ByteOrder::Little
            && let Some(bytes) = self.as_bytes()?
        {
            return Ok(Cow::Borrowed(bytes));
        }
        let mut bytes = self.read()?;
        self.to_little(&mut bytes)?;
        Ok(Cow::Owned(bytes))
    }

    fn order(&self) -> ByteOrder {
        self.file.gguf().dialect().order
    }

    fn to_little(&self, blocks: &mut [u8]) -> Result<(), Error> {
        match self.order() {
            ByteOrder::Little => Ok(()),
            ByteOrder::Big => swap_blocks(self.info.ty, blocks).map_err(|e| self.error(TensorProblem::Swap(e))),
        }
    }

    /// Reads a part of a range that [`byte_range`](Tensor::byte_range) has validated.
    fn read_part(&self, start: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.file.read_at(start, buf).map_err(|e| match e {
            Error::Io { source, .. } if source.kind() == std::io::ErrorKind::UnexpectedEof => {
                self.error(TensorProblem::Shrunk { range: start..start.saturating_add(buf.len() as u64) })
            }
            e => e,
        })
    }

    /// Reserves memory for `n` elements and returns `n`.
    fn reserve<T>(&self, out: &mut Vec<T>, n: Option<u64>) -> Result<usize, Error> {
        let reserved = n.and_then(|n| usize::try_from(n).ok()).and_then(|n| out.try_reserve_exact(n).ok().map(|()| n));
        let bytes = n.unwrap_or(u64::MAX).saturating_mul(size_of::<T>() as u64);
        reserved.ok_or_else(|| self.error(TensorProblem::OutOfMemory { bytes }))
    }

    fn error(&self, problem: TensorProblem) -> Error {
        Error::Tensor { path: self.file.path().to_owned(), name: self.info.name.to_string(), problem }
    }
}

#[cfg(feature = "quants")]
mod decode {
    use gguf_format::TypeInfo;
    use gguf_quants::codec::{Codec, codec};

    use super::*;

    impl Tensor<'_> {
        /// Decodes the data; the values are bit-identical to those of `to_float` in ggml's type traits, on every machine.
        ///
        /// # Errors
        /// See [`bytes`](Tensor::bytes); also [`TensorProblem::NotDecodable`] for types without a decoder.
        pub fn to_f32(&self) -> Result<Vec<f32>, Error> {
            let (codec, _) = self.codec()?;
            self.byte_range()?;
            let mut values = Vec::new();
            self.reserve(&mut values, self.n_elements())?;
            self.each_piece(|packed, n| {
                let start = values.len();
                values.resize(start + n, 0.0);
                codec.decode(packed, values.get_mut(start..).unwrap_or_default()).is_ok()
            })?;
            Ok(values)
        }

        /// Decodes the data into `values`, which has one element for each element of the tensor.
        ///
        /// # Errors
        /// See [`to_f32`](Tensor::to_f32); also [`TensorProblem::Values`] for another length.
        pub fn decode_into(&self, mut values: &mut [f32]) -> Result<(), Error> {
            let (codec, _) = self.codec()?;
            self.byte_range()?;
            let (needed, given) = (self.n_elements().unwrap_or(u64::MAX), values.len() as u64);
            if needed != given {
                return Err(self.error(TensorProblem::Values { needed, given }));
            }
            self.each_piece(|packed, n| {
                let (now, later) = std::mem::take(&mut values).split_at_mut(n);
                values = later;
                codec.decode(packed, now).is_ok()
            })
        }

        fn n_elements(&self) -> Option<u64> {
            self.row_len().checked_mul(self.n_rows())
        }

        fn codec(&self) -> Result<(&'static Codec, &'static TypeInfo), Error> {
            let found = codec(self.info.ty).zip(self.info.ty.info());
            found.ok_or_else(|| self.error(TensorProblem::NotDecodable(self.info.ty)))
        }

        /// Calls `decode` for each piece with its little-endian blocks and number of elements.
        fn each_piece(&self, mut decode: impl FnMut(&[u8], usize) -> bool) -> Result<(), Error> {
            let (_, info) = self.codec()?;
            let (block_bytes, block_len) = (info.block_bytes as usize, info.block_len as usize);
            let blocks_of = |bytes: usize| (bytes / block_bytes).max(1) * block_bytes;
            let step = blocks_of(DEFAULT_READ);
            let read_step = blocks_of(self.file.source().preferred_read().max(DEFAULT_READ));
            let mut decode = |packed: &[u8]| match decode(packed, packed.len() / block_bytes * block_len) {
                true => Ok(()),
                false => Err(self.error(TensorProblem::NotDecodable(self.info.ty))),
            };
            if self.order() == ByteOrder::Little
                && let Some(packed) = self.as_bytes()?
            {
                return packed.chunks(step).try_for_each(decode);
            }
            let mut range = self.byte_range()?;
            let mut piece = Vec::new();
            while !range.is_empty() {
                piece.resize(usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(read_step), 0);
                self.read_part(range.start, &mut piece)?;
                self.to_little(&mut piece)?;
                piece.chunks(step).try_for_each(&mut decode)?;
                range.start += piece.len() as u64;
            }
            Ok(())
        }
    }
}

/// The names that are similar to `name`, safe to print: at most three, the nearest first. A name of which only the start or the end is given
/// is the nearest; otherwise, one letter in five may be inserted, removed, changed or swapped, and three in total.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = Str<'a>>) -> Vec<String> {
    /// Maximum number of tensors and name length to compare: a head can have millions of them.
    const LOOKED_AT: usize = 20_000;
    const LONGEST: usize = 128;
    if name.len() > LONGEST {
        return Vec::new();
    }
    let most = (name.len() / 5).max(usize::from(name.len() > 2)).min(3);
    let distance = |other: &str| {
        let is_start = other.strip_prefix(name).is_some_and(|rest| rest.starts_with(['.', '_']));
        if is_start || other.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')) {
            return 0;
        }
        let distance = strsim::osa_distance(name, other);
        // Of a name with a part too many, the rest is near.
        let is_longer = name.strip_prefix(other).is_some_and(|rest| rest.starts_with('.'));
        if is_longer { distance.min(most) } else { distance }
    };
    let mut near: Vec<(usize, &str)> = names
        .take(LOOKED_AT)
        .filter_map(|other| other.to_str().ok().filter(|other| other.len() <= LONGEST))
        .map(|other| (distance(other), other))
        .filter(|(distance, _)| *distance <= most)
        .collect();
    // A stable sort: equal distances keep the file's order.
    near.compact_sort_by_key(|(distance, _)| *distance);
    // What begins many names is close to none of them.
    if near.get(3).is_some_and(|(distance, _)| *distance == 0) {
        return Vec::new();
    }
    near.iter().take(3).map(|(_, other)| Str(other.as_bytes()).to_string()).collect()
}
