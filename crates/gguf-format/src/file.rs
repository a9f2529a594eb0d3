//! A view of a complete head: [`Gguf`].

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, Range};

use crate::cursor::Cursor;
use crate::error::{AlignmentError, Error, Field, Problem};
use crate::header::align_up;
use crate::header::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT, DRAFT_ALIGNMENT, Dialect};
use crate::keys;
use crate::scan::{HeadScan, ScanState};
use crate::tensor::{Dims, TensorInfoRef};
use crate::types::{GgmlType, SizeError};
use crate::value::{FromValue, Str, ValueError, ValueRef, ValueType, read_value};

/// The bytes of a head, borrowed or owned.
#[derive(Clone)]
#[non_exhaustive]
pub enum HeadBytes<'a> {
    /// Borrowed bytes.
    Borrowed(&'a [u8]),
    /// Bytes on the heap.
    Owned(Vec<u8>),
    /// Bytes in other memory of this process, which must not change.
    Shared(Arc<dyn AsRef<[u8]> + Send + Sync>),
}

impl Deref for HeadBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            HeadBytes::Borrowed(bytes) => bytes,
            HeadBytes::Owned(bytes) => bytes,
            HeadBytes::Shared(bytes) => (**bytes).as_ref(),
        }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for HeadBytes<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        HeadBytes::Borrowed(bytes)
    }
}

impl<'a> From<&'a [u8]> for HeadBytes<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        HeadBytes::Borrowed(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for HeadBytes<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        HeadBytes::Borrowed(bytes)
    }
}

impl From<Vec<u8>> for HeadBytes<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        HeadBytes::Owned(bytes)
    }
}

impl<'a> From<Cow<'a, [u8]>> for HeadBytes<'a> {
    fn from(bytes: Cow<'a, [u8]>) -> Self {
        match bytes {
            Cow::Borrowed(bytes) => HeadBytes::Borrowed(bytes),
            Cow::Owned(bytes) => HeadBytes::Owned(bytes),
        }
    }
}

/// The head of a GGUF file: header, key-values and tensor infos, as a view of its bytes.
///
/// Items are decoded on demand; besides the bytes, 8 bytes per key-value pair and per tensor are stored. The data section is not needed.
///
/// ```
/// # let mut head = gguf_format::Head::default();
/// # head.set("general.architecture", "llama");
/// # let bytes = head.encode()?;
/// let gguf = gguf_format::Gguf::parse(&bytes)?;
/// assert_eq!(gguf.get_as::<&str>("general.architecture")?, "llama");
/// assert_eq!(gguf.n_tensors(), 0);
/// for kv in &gguf {
///     println!("{}: {:?}", kv.key, kv.value);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Gguf<'a> {
    head: HeadBytes<'a>,
    dialect: Dialect,
    /// The offset of each key-value pair, and the end of the last one.
    kv_starts: Vec<u64>,
    /// The offset of each tensor info.
    tensor_starts: Vec<u64>,
    head_bytes: u64,
    alignment: u64,
}

impl<'a> Gguf<'a> {
    /// Parses the head at the start of `file`: the whole file, or any prefix of it that holds the head.
    ///
    /// # Errors
    /// [`Error`], with the field, the offset and the found value. If the bytes end too early, [`Error::need`] returns the required length:
    /// read more and call again.
    pub fn parse(file: impl Into<HeadBytes<'a>>) -> Result<Gguf<'a>, Error> {
        Gguf::parse_within(file, None)
    }

    /// As [`parse`](Gguf::parse), with the length of the whole file: counts and lengths that exceed it are rejected as [`Problem::PastEnd`]
    /// instead of requesting more bytes.
    ///
    /// # Errors
    /// See [`parse`](Gguf::parse).
    pub fn parse_within(head: impl Into<HeadBytes<'a>>, file_bytes: Option<u64>) -> Result<Gguf<'a>, Error> {
        Gguf::from_scan(head, &HeadScan::new(file_bytes))
    }

    /// The head scanned by `scan`, at least in part; `head` begins with the scanned bytes.
    ///
    /// # Errors
    /// See [`parse`](Gguf::parse).
    pub fn from_scan(head: impl Into<HeadBytes<'a>>, scan: &HeadScan) -> Result<Gguf<'a>, Error> {
        let head = head.into();
        let mut scan = scan.clone();
        if let ScanState::Need(need) = scan.advance(&head)? {
            // A file of version 1 may end before the bytes that identify its variant; these may be all the bytes, unless the file is known
            // to be longer.
            let is_prefix = scan.total().is_some();
            let problem = Problem::Truncated { need };
            match scan.end(&head) {
                Ok(()) if !is_prefix => {}
                Ok(()) => return Err(Error { field: Field::Key(0), offset: 0, name: None, problem }),
                Err(e) => return Err(Error { problem, ..e }),
            }
        }
        let (gguf, alignment) = Gguf::index(head, &scan);
        match alignment {
            Ok(()) => Ok(gguf),
            Err((kv, error)) => Err(Error {
                field: Field::Value(kv.index),
                offset: kv.offset,
                name: Some(ALIGNMENT_KEY.into()),
                problem: Problem::Alignment(error),
            }),
        }
    }

    /// The valid part of a head according to `scan`, for reporting on a broken file. An invalid alignment is replaced by the default one.
    pub fn partial(head: impl Into<HeadBytes<'a>>, scan: &HeadScan) -> Gguf<'a> {
        Gguf::index(head.into(), scan).0
    }

    fn index(head: HeadBytes<'a>, scan: &HeadScan) -> (Gguf<'a>, Result<(), (BadAlignment, AlignmentError)>) {
        let mut gguf = Gguf {
            head,
            dialect: scan.dialect,
            kv_starts: Vec::new(),
            tensor_starts: Vec::new(),
            head_bytes: scan.head_bytes(),
            alignment: DEFAULT_ALIGNMENT,
        };
        // Both counts were scanned, so they are bounded by the existing bytes.
        gguf.kv_starts.reserve_exact(usize::try_from(scan.kvs_done).unwrap_or(0) + 1);
        gguf.tensor_starts.reserve_exact(usize::try_from(scan.tensors_done).unwrap_or(0));
        let mut c =
            Cursor::new(&gguf.head, usize::try_from(scan.dialect.header_bytes()).unwrap_or(usize::MAX), scan.dialect);
        let mut large = scan.large.iter();
        let mut next_large = large.next();
        for _ in 0..scan.kvs_done {
            gguf.kv_starts.push(c.pos() as u64);
            let Some((_, ty)) = kv_header(&mut c) else { break };
            if let Some(jump) = next_large.filter(|l| l.start == c.pos() as u64) {
                c = Cursor::new(&gguf.head, usize::try_from(jump.end).unwrap_or(usize::MAX), scan.dialect);
                next_large = large.next();
            } else if crate::value::skip_value(&mut c, ty).is_none() {
                break;
            }
        }
        gguf.kv_starts.push(scan.kvs_end);
        c = Cursor::new(&gguf.head, usize::try_from(scan.infos_start).unwrap_or(usize::MAX), scan.dialect);
        for i in 0..scan.tensors_done {
            gguf.tensor_starts.push(c.pos() as u64);
            if read_tensor_info(&mut c, i).is_none() {
                break;
            }
        }
        let alignment = gguf.set_alignment();
        (gguf, alignment)
    }

    fn set_alignment(&mut self) -> Result<(), (BadAlignment, AlignmentError)> {
        if self.dialect.is_draft() {
            self.alignment = DRAFT_ALIGNMENT;
            return Ok(());
        }
        let Some(kv) = self.kv(ALIGNMENT_KEY) else { return Ok(()) };
        let at = BadAlignment { index: kv.index, offset: kv.offset };
        self.alignment = alignment_of(kv.value).map_err(|e| (at, e))?;
        Ok(())
    }

    /// Version, byte order and other properties of the encoding.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Number of key-value pairs.
    pub fn n_kv(&self) -> u64 {
        self.kv_starts.len().saturating_sub(1) as u64
    }

    /// Number of tensors.
    pub fn n_tensors(&self) -> u64 {
        self.tensor_starts.len() as u64
    }

    /// Alignment of the data section and of every tensor in it: `general.alignment`, or 32.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// Bytes from the start of the file to the end of the last tensor info.
    pub fn head_bytes(&self) -> u64 {
        self.head_bytes
    }

    /// The start of the data section: [`head_bytes`](Gguf::head_bytes) rounded up to the alignment.
    pub fn data_offset(&self) -> u64 {
        align_up(self.head_bytes, self.alignment).unwrap_or(u64::MAX)
    }

    /// The key-value pairs in file order, duplicates included.
    pub fn kvs(&self) -> Kvs<'_> {
        Kvs { gguf: self, range: 0..self.kv_starts.len().saturating_sub(1) }
    }

    /// The first key-value pair with that key.
    pub fn kv(&self, key: &str) -> Option<KvRef<'_>> {
        self.kvs().find(|kv| kv.key == *key)
    }

    /// The value of that key.
    pub fn get(&self, key: &str) -> Option<ValueRef<'_>> {
        self.kv(key).map(|kv| kv.value)
    }

    /// The value of that key as `T`; see [`FromValue`] for what converts. With `Option<T>` a missing key is `None`.
    ///
    /// # Errors
    /// If the key is missing, or its value is not a `T`.
    pub fn get_as<'g, T: FromValue<'g>>(&'g self, key: &str) -> Result<T, GetError> {
        let Some(value) = self.get(key) else {
            return T::from_missing().ok_or_else(|| GetError { key: key.into(), found: None });
        };
        value.get().map_err(|e| GetError { key: key.into(), found: Some(e) })
    }

    /// The value of a key of the model's architecture, like [`get_as`](Gguf::get_as): `{arch}` in `pattern` is replaced by the value of
    /// `general.architecture`. The patterns of [`keys`](crate::keys) have constants.
    ///
    /// ```
    /// # let mut head = gguf_format::Head::default();
    /// # head.set("general.architecture", "llama");
    /// # head.set("llama.block_count", 2u32);
    /// # let bytes = head.encode()?;
    /// use gguf_format::{Gguf, keys};
    ///
    /// let gguf = Gguf::parse(&bytes)?;
    /// let blocks: u32 = gguf.get_for_arch(keys::BLOCK_COUNT)?; // llama.block_count
    /// let base: Option<f32> = gguf.get_for_arch("{arch}.rope.freq_base")?;
    /// assert_eq!((blocks, base), (2, None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If `general.architecture` or the key is missing, or its value is not a `T`.
    pub fn get_for_arch<'g, T: FromValue<'g>>(&'g self, pattern: &str) -> Result<T, GetError> {
        let arch: &str = self.get_as(keys::GENERAL_ARCHITECTURE)?;
        self.get_as(&keys::for_arch(pattern, arch))
    }

    /// The tensor infos in file order, duplicates included.
    pub fn tensors(&self) -> Tensors<'_> {
        Tensors { gguf: self, range: 0..self.tensor_starts.len() }
    }

    /// The first tensor with that name, found by a linear search; for many look-ups, collect the infos into a map once.
    pub fn tensor(&self, name: &str) -> Option<TensorInfoRef<'_>> {
        self.tensors().find(|t| t.name == *name)
    }

    /// The start of a tensor's data, from the start of the GGUF; known even if its size is not. `None` if it exceeds 64 bits.
    pub fn tensor_start(&self, tensor: &TensorInfoRef<'_>) -> Option<u64> {
        let base = if self.dialect.is_draft() { 0 } else { self.data_offset() };
        base.checked_add(tensor.offset)
    }

    /// The range of a tensor's data, from the start of the GGUF. The file may end earlier.
    ///
    /// # Errors
    /// If the size is unknown or the range exceeds 64 bits.
    pub fn tensor_range(&self, tensor: &TensorInfoRef<'_>) -> Result<Range<u64>, SizeError> {
        let start = self.tensor_start(tensor).ok_or(SizeError::Overflow)?;
        let end = start.checked_add(tensor.n_bytes()?).ok_or(SizeError::Overflow)?;
        Ok(start..end)
    }

    /// The parsed bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.head
    }

    /// The same head with owned bytes.
    pub fn into_owned(self) -> Gguf<'static> {
        Gguf { head: HeadBytes::Owned(self.head.to_vec()), ..self }
    }

    /// The key-value pair with that index, in constant time.
    pub fn kv_by_index(&self, index: u64) -> Option<KvRef<'_>> {
        self.kv_at(usize::try_from(index).ok()?)
    }

    fn kv_at(&self, i: usize) -> Option<KvRef<'_>> {
        let (start, end) = (*self.kv_starts.get(i)?, *self.kv_starts.get(i + 1)?);
        let bytes = self.head.get(..usize::try_from(end).ok()?)?;
        let mut c = Cursor::new(bytes, usize::try_from(start).ok()?, self.dialect);
        let (key, ty) = kv_header(&mut c)?;
        let left = end.checked_sub(c.pos() as u64)?;
        let value_offset = c.pos() as u64;
        let value = read_value(&mut c, ty, left).ok()??;
        Some(KvRef { index: i as u64, key, value, offset: start, value_offset })
    }

    /// The tensor info with that index, in constant time.
    pub fn tensor_by_index(&self, index: u64) -> Option<TensorInfoRef<'_>> {
        self.tensor_at(usize::try_from(index).ok()?)
    }

    fn tensor_at(&self, i: usize) -> Option<TensorInfoRef<'_>> {
        let start = usize::try_from(*self.tensor_starts.get(i)?).ok()?;
        read_tensor_info(&mut Cursor::new(&self.head, start, self.dialect), i as u64)
    }
}

macro_rules! items {
    ($(#[$doc:meta])* $name:ident $item:ident $at:ident $nothing:path) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name<'g> {
            gguf: &'g Gguf<'g>,
            range: Range<usize>,
        }

        impl<'g> $name<'g> {
            fn item(&self, i: usize) -> $item<'g> {
                self.gguf.$at(i).unwrap_or_else($nothing)
            }
        }

        impl<'g> Iterator for $name<'g> {
            type Item = $item<'g>;

            #[inline]
            fn next(&mut self) -> Option<$item<'g>> {
                self.range.next().map(|i| self.item(i))
            }

            fn nth(&mut self, n: usize) -> Option<$item<'g>> {
                self.range.nth(n).map(|i| self.item(i))
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.range.size_hint()
            }
        }

        impl DoubleEndedIterator for $name<'_> {
            fn next_back(&mut self) -> Option<Self::Item> {
                self.range.next_back().map(|i| self.item(i))
            }
        }

        impl ExactSizeIterator for $name<'_> {}
        impl core::iter::FusedIterator for $name<'_> {}
    };
}

items! {
    /// The key-value pairs of a head in file order; see [`Gguf::kvs`].
    Kvs KvRef kv_at KvRef::nothing
}
items! {
    /// The tensor infos of a head in file order; see [`Gguf::tensors`].
    Tensors TensorInfoRef tensor_at no_tensor
}

/// Iterates over the key-value pairs.
impl<'g> IntoIterator for &'g Gguf<'_> {
    type Item = KvRef<'g>;
    type IntoIter = Kvs<'g>;

    fn into_iter(self) -> Kvs<'g> {
        self.kvs()
    }
}

/// The offset of an invalid alignment.
struct BadAlignment {
    index: u64,
    offset: u64,
}

/// The alignment for a value of [`ALIGNMENT_KEY`]: powers of two and multiples of 8 are accepted.
pub(crate) fn alignment_of(value: ValueRef<'_>) -> Result<u64, AlignmentError> {
    let v = u64::from(value.get::<u32>().map_err(AlignmentError::Type)?);
    if v.is_power_of_two() || (v != 0 && v % 8 == 0) { Ok(v) } else { Err(AlignmentError::Value(v)) }
}

/// Key, then type; the draft's length between them is not needed.
pub(crate) fn kv_header<'h>(c: &mut Cursor<'h>) -> Option<(Str<'h>, ValueType)> {
    let key = Str::new(c.string().ok()?, c.dialect);
    if c.dialect.is_draft() {
        c.u32().ok()?;
    }
    Some((key, ValueType(c.u32().ok()?)))
}

fn read_tensor_info<'h>(c: &mut Cursor<'h>, index: u64) -> Option<TensorInfoRef<'h>> {
    let info_offset = c.pos() as u64;
    let name = Str::new(c.string().ok()?, c.dialect);
    let n_dims = c.u32().ok()?;
    let dims = Dims::new(c.take(u64::from(n_dims).saturating_mul(c.dialect.len_bytes())).ok()?, c.dialect);
    if c.dialect.is_draft() {
        c.u32().ok()?;
    }
    Some(TensorInfoRef { index, name, dims, ty: GgmlType(c.u32().ok()?), offset: c.u64().ok()?, info_offset })
}

/// Placeholder for an item that cannot be decoded, which parsing excludes.
fn no_tensor<'h>() -> TensorInfoRef<'h> {
    TensorInfoRef {
        index: u64::MAX,
        name: Str(&[]),
        dims: Dims::new(&[], Dialect::default()),
        ty: GgmlType(u32::MAX),
        offset: 0,
        info_offset: 0,
    }
}

impl fmt::Debug for Gguf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gguf")
            .field("dialect", &self.dialect)
            .field("n_kv", &self.n_kv())
            .field("n_tensors", &self.n_tensors())
            .field("head_bytes", &self.head_bytes)
            .finish_non_exhaustive()
    }
}

/// A key-value pair, viewed in place.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct KvRef<'a> {
    /// Index of the pair in the head.
    pub index: u64,
    /// The key.
    pub key: Str<'a>,
    /// The value.
    pub value: ValueRef<'a>,
    /// Byte offset of the pair from the start of the GGUF.
    pub offset: u64,
    /// Byte offset of the value, after its type, from the start of the GGUF.
    pub value_offset: u64,
}

impl KvRef<'_> {
    fn nothing<'h>() -> KvRef<'h> {
        KvRef { index: u64::MAX, key: Str(&[]), value: ValueRef::U8(0), offset: 0, value_offset: 0 }
    }
}

/// Why a key could not be read as the requested type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GetError {
    /// The key.
    pub key: alloc::string::String,
    /// The value that was found; `None` if the key is missing.
    pub found: Option<ValueError>,
}

impl fmt::Display for GetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.found {
            None => write!(f, "the key {} is missing", self.key),
            Some(e) => write!(f, "{} {e}", self.key),
        }
    }
}

impl core::error::Error for GetError {}
