//! Heads to write: their content ([`Head`]), all offsets ([`Layout`]), and the bytes of the head.
//!
//! A layout is computed before anything is written, so all offsets and the size of the file are known first. That allows three ways to
//! write: the file in one pass; the head first and the tensors one by one; the tensors first, after reserved space, and the head last.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::encode::{self, Count, Out, TooWide};
use crate::error::AlignmentError;
use crate::file::{Gguf, alignment_of};
use crate::header::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT, DRAFT_ALIGNMENT, Dialect, Version, align_up};
use crate::keys::{GENERAL_ARCHITECTURE, is_image_architecture};
use crate::limits::{MAX_DIMS, MAX_IMAGE_TENSOR_NAME, MAX_KEY, MAX_TENSOR_NAME};
use crate::sort::CompactSort as _;
use crate::tensor::{NewTensor, TensorInfo};
use crate::types::SizeError;
use crate::value::{MAX_NESTING, Str, Value, ValueRef, ValueType};

/// A key and its value to write.
#[derive(Debug, Clone, PartialEq)]
pub struct Kv {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Value,
}

/// A head to write: key-values and tensors in file order.
///
/// ```
/// use gguf_format::{GgmlType, Gguf, Head, TensorInfo};
///
/// let mut head = Head::default();
/// head.set("general.architecture", "llama");
/// head.set("llama.rope.freq_base", 10_000f32);
/// head.tensors.push(TensorInfo::new("output_norm.weight", [64], GgmlType::F32));
/// let file = head.encode()?;
///
/// // A copy of a parsed head, to change and write again.
/// let gguf = Gguf::parse(&file)?;
/// let mut copy = Head::from(&gguf);
/// assert_eq!(copy.encode()?, file);
/// copy.set("general.name", "Copy");
/// assert!(copy.remove("llama.rope.freq_base"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Head {
    /// The encoding; version 3 in little-endian order by default.
    pub dialect: Dialect,
    /// The key-value pairs, in file order.
    pub kvs: Vec<Kv>,
    /// The tensors, in file order.
    pub tensors: Vec<TensorInfo>,
}

impl Head {
    /// A copy of a parsed head. Encoding it without a change results in the same bytes.
    pub fn from_gguf(gguf: &Gguf<'_>) -> Head {
        Head { tensors: gguf.tensors().map(|t| t.to_owned()).collect(), ..Head::without_tensors(gguf) }
    }

    /// A copy of the dialect and the key-values of a parsed head.
    pub fn without_tensors(gguf: &Gguf<'_>) -> Head {
        let kvs = gguf.kvs().map(|kv| Kv { key: kv.key.as_bytes().to_owned(), value: kv.value.to_owned() });
        Head { dialect: gguf.dialect(), kvs: kvs.collect(), tensors: Vec::new() }
    }

    /// Sets a key: in place if it exists, at the end otherwise.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        let value = value.into();
        match self.kvs.iter_mut().find(|kv| kv.key == key.as_bytes()) {
            Some(kv) => kv.value = value,
            None => self.kvs.push(Kv { key: key.as_bytes().to_owned(), value }),
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<ValueRef<'_>> {
        self.kvs.iter().find(|kv| kv.key == key.as_bytes()).map(|kv| kv.value.as_ref())
    }

    /// Removes every pair with this key; returns whether there was one.
    pub fn remove(&mut self, key: &str) -> bool {
        let before = self.kvs.len();
        self.kvs.retain(|kv| kv.key != key.as_bytes());
        self.kvs.len() != before
    }

    /// The alignment set by the key-values, 32 by default (64 for the draft of version 1).
    ///
    /// # Errors
    /// If `general.alignment` is not a power of two of type u32, the only values that all readers accept.
    pub fn alignment(&self) -> Result<u64, LayoutError> {
        if self.dialect.version == Version::Draft {
            return Ok(DRAFT_ALIGNMENT);
        }
        let Some(value) = self.get(ALIGNMENT_KEY) else { return Ok(DEFAULT_ALIGNMENT) };
        let v = alignment_of(value).map_err(LayoutError::Alignment)?;
        match value {
            ValueRef::U32(_) if v.is_power_of_two() => Ok(v),
            ValueRef::U32(_) => Err(LayoutError::Alignment(AlignmentError::Value(v))),
            _ => Err(LayoutError::Alignment(AlignmentError::Type(crate::value::ValueError::WrongType {
                asked: "u32",
                found: value.value_type(),
            }))),
        }
    }

    /// The maximum length of a tensor name: [`MAX_TENSOR_NAME`] bytes, or [`MAX_IMAGE_TENSOR_NAME`] if `general.architecture` is one of the
    /// [`IMAGE_ARCHITECTURES`](crate::keys::IMAGE_ARCHITECTURES).
    pub fn max_tensor_name(&self) -> usize {
        max_tensor_name(self.get(GENERAL_ARCHITECTURE))
    }

    /// Lays out the file: tensors packed in order, each at the next multiple of the alignment. The layout owns the encoded head, so offsets
    /// and bytes always match; later changes of this `Head` do not affect it.
    ///
    /// Files with a layout can be read by this crate, llama.cpp and gguf-py, with the exceptions below. Rejected are:
    ///
    /// * keys that are empty, longer than [`MAX_KEY`] bytes, not UTF-8, with a NUL byte, or duplicate;
    /// * a bool whose byte is neither 0 nor 1, also in an array; an array of an unknown element type; arrays nested deeper
    ///   than [`MAX_NESTING`];
    /// * a [`ALIGNMENT_KEY`] that is not a power of two of type u32;
    /// * tensor names that are longer than [`max_tensor_name`](Head::max_tensor_name) allows, not UTF-8, with a NUL byte, or duplicate;
    /// * tensors with more than [`MAX_DIMS`] dimensions, of an unknown type, with a row that is not a whole number of
    ///   blocks, or of a size over 63 bits;
    /// * counts and lengths that do not fit the version, and files over 63 bits.
    ///
    /// The following are accepted, because the specification allows them or a caller requests them: arrays of arrays, strings over 1 GiB
    /// and arrays over 2³⁰ elements, removed tensor types, version 1, and big-endian order on a little-endian machine (llama.cpp cannot
    /// read any of these); strings that are not UTF-8 or have NUL bytes (C programs see the part before the NUL); keys with the names of
    /// gguf-py's own fields, such as `GGUF.version`. [`check::format`](fn@crate::check::format) reports them.
    ///
    /// # Errors
    /// [`LayoutError`] if the head is rejected.
    pub fn layout(&self) -> Result<Layout, LayoutError> {
        self.layout_with(self.tensors.iter().map(TensorInfo::as_new))
    }

    /// As [`layout`](Head::layout), with these tensors in place of [`tensors`](Head::tensors), which need no copies then.
    ///
    /// # Errors
    /// See [`layout`](Head::layout).
    pub fn layout_with<'t>(
        &self,
        tensors: impl ExactSizeIterator<Item = NewTensor<'t>> + Clone,
    ) -> Result<Layout, LayoutError> {
        let places = self.places_of(&[], tensors.clone())?;
        let sizes = tensors.clone().map(|t| size_of(&t)).collect::<Result<_, _>>()?;
        let head = self.encode_with(&[], tensors, &places)?;
        Ok(Layout { dialect: self.dialect, head, places, sizes })
    }

    /// The places of these tensors in a file, as in [`layout`](Head::layout), without the encoded head. The file has the keys of `more` after
    /// those of this head, which alone determines the alignment and the maximum length of names.
    ///
    /// # Errors
    /// See [`layout`](Head::layout).
    pub fn places_of<'t>(
        &self,
        more: &[Kv],
        tensors: impl ExactSizeIterator<Item = NewTensor<'t>> + Clone,
    ) -> Result<Places, LayoutError> {
        self.refuse_unreadable(more, tensors.clone())?;
        let alignment = self.alignment()?;
        let is_draft = self.dialect.version == Version::Draft;
        let mut size = Count::default();
        // Offsets have a fixed width, so the length of the head does not depend on them.
        self.encode_into(&mut size, more, tensors.clone().map(|t| (t, 0)))?;
        let data_offset = align_up(size.0, alignment).ok_or(LayoutError::TooLarge)?;
        let mut end = if is_draft { data_offset } else { 0 };
        let mut offsets = Vec::with_capacity(tensors.len());
        for t in tensors {
            offsets.push(end);
            end = end.checked_add(size_of(&t)?).and_then(|e| align_up(e, alignment)).ok_or(LayoutError::TooLarge)?;
        }
        let file_bytes = if is_draft { Some(end) } else { data_offset.checked_add(end) };
        let file_bytes = file_bytes.filter(|&n| i64::try_from(n).is_ok()).ok_or(LayoutError::TooLarge)?;
        let base = if is_draft { 0 } else { data_offset };
        Ok(Places { alignment, head_bytes: size.0, data_offset, base, offsets, file_bytes })
    }

    /// The encoded head, without padding, of a file with exactly the keys and tensors that `places` are [of](Head::places_of).
    ///
    /// # Errors
    /// [`LayoutError::TooLarge`].
    pub fn encode_with<'t>(
        &self,
        more: &[Kv],
        tensors: impl ExactSizeIterator<Item = NewTensor<'t>>,
        places: &Places,
    ) -> Result<Vec<u8>, LayoutError> {
        debug_assert_eq!(tensors.len(), places.offsets.len());
        let mut head = Vec::with_capacity(usize::try_from(places.head_bytes).map_err(|_| LayoutError::TooLarge)?);
        self.encode_into(&mut head, more, tensors.zip(places.offsets.iter().copied()))?;
        Ok(head)
    }

    /// The bytes from the start of the file to the data section, padding included: those of [`layout`](Head::layout).
    ///
    /// # Errors
    /// See [`layout`](Head::layout).
    pub fn encode(&self) -> Result<Vec<u8>, LayoutError> {
        self.layout()?.into_padded_head()
    }

    /// The bytes from the start of the file to the end of the last tensor info, with the stored offsets of the tensors and without
    /// validation: the bytes of the file that [`from_gguf`](Head::from_gguf) copied.
    ///
    /// # Errors
    /// If a length does not fit the version.
    pub fn encode_as_read(&self) -> Result<Vec<u8>, LayoutError> {
        let mut out = Vec::new();
        self.encode_into(&mut out, &[], self.tensors.iter().map(|t| (t.as_new(), t.offset)))?;
        Ok(out)
    }

    fn encode_into<'t, O: Out + Position>(
        &self,
        out: &mut O,
        more: &[Kv],
        tensors: impl ExactSizeIterator<Item = (NewTensor<'t>, u64)>,
    ) -> Result<(), TooWide> {
        let d = self.dialect;
        encode::header(out, tensors.len() as u64, (self.kvs.len() + more.len()) as u64, d)?;
        for kv in self.kvs.iter().chain(more) {
            encode::kv(out, &kv.key, kv.value.as_ref(), d)?;
        }
        if d.version == Version::Draft {
            let pos = out.position();
            let mut pad = (DRAFT_ALIGNMENT - pos % DRAFT_ALIGNMENT) % DRAFT_ALIGNMENT;
            if pad == 0 && d.draft.full_padding {
                pad = DRAFT_ALIGNMENT;
            }
            (0..pad).for_each(|_| out.bytes(&[0]));
        }
        for (t, offset) in tensors {
            encode::string(out, t.name, d)?;
            encode::u32(out, u32::try_from(t.shape.len()).map_err(|_| TooWide(t.shape.len() as u64))?, d);
            for &dim in t.shape {
                encode::len(out, dim, d)?;
            }
            if d.version == Version::Draft {
                let n = crate::types::n_elements(t.shape.iter().copied()).unwrap_or(u64::MAX);
                encode::u32(out, u32::try_from(n).map_err(|_| TooWide(n))?, d);
            }
            encode::u32(out, t.ty.0, d);
            encode::u64(out, offset, d);
        }
        Ok(())
    }

    /// Writers are strict where readers are lenient.
    fn refuse_unreadable<'t>(
        &self,
        more: &[Kv],
        tensors: impl Iterator<Item = NewTensor<'t>> + Clone,
    ) -> Result<(), LayoutError> {
        let mut seen = BTreeSet::new();
        for kv in self.kvs.iter().chain(more) {
            if kv.key.is_empty() || kv.key.len() > MAX_KEY {
                return Err(LayoutError::KeyLength(kv.key.len()));
            }
            // Without NULs no two keys are equal up to one.
            if kv.key.contains(&0) {
                return Err(LayoutError::KeyNul(printable(&kv.key)));
            }
            if core::str::from_utf8(&kv.key).is_err() {
                return Err(LayoutError::KeyNotUtf8(printable(&kv.key)));
            }
            if !seen.insert(kv.key.as_slice()) {
                return Err(LayoutError::DuplicateKey(printable(&kv.key)));
            }
            refuse_value(&kv.key, kv.value.as_ref(), 0)?;
        }
        let max = self.max_tensor_name();
        for t in tensors.clone() {
            if t.name.len() > max {
                return Err(LayoutError::TensorName { name: printable(t.name), bytes: t.name.len(), max });
            }
            if t.name.contains(&0) {
                return Err(LayoutError::TensorNameNul(printable(t.name)));
            }
            if core::str::from_utf8(t.name).is_err() {
                return Err(LayoutError::TensorNameNotUtf8(printable(t.name)));
            }
            if t.shape.len() > MAX_DIMS {
                return Err(LayoutError::TensorDims(printable(t.name), t.shape.len()));
            }
        }
        // A head may have very many tensors: a sorted list takes less memory than a set.
        let mut names: Vec<&[u8]> = tensors.clone().map(|t| t.name).collect();
        names.compact_sort_by(Ord::cmp);
        if names.windows(2).all(|pair| pair.first() != pair.last()) {
            return Ok(());
        }
        let mut seen = BTreeSet::new();
        let first = tensors.map(|t| t.name).find(|name| !seen.insert(*name));
        Err(LayoutError::DuplicateTensor(first.map_or(String::new(), printable)))
    }
}

/// The maximum length of a tensor name for that value of `general.architecture`.
pub(crate) fn max_tensor_name(architecture: Option<ValueRef<'_>>) -> usize {
    let name = architecture.and_then(|value| value.as_str()).and_then(|name| name.to_str().ok());
    if name.is_some_and(is_image_architecture) { MAX_IMAGE_TENSOR_NAME } else { MAX_TENSOR_NAME }
}

/// Rejects a value that readers cannot parse; `depth` arrays enclose it.
fn refuse_value(key: &[u8], value: ValueRef<'_>, depth: usize) -> Result<(), LayoutError> {
    let bad_bool = |byte| Err(LayoutError::Bool(printable(key), byte));
    let array = match value {
        ValueRef::Bool(byte @ 2..) => return bad_bool(byte),
        ValueRef::Array(array) => array,
        _ => return Ok(()),
    };
    match array.elem_type() {
        _ if depth == MAX_NESTING => return Err(LayoutError::TooDeep(printable(key))),
        elem if !elem.is_known() => return Err(LayoutError::ElementType(printable(key), elem)),
        ValueType::BOOL => {
            if let Some(&byte) = array.encoded_bytes().iter().find(|&&byte| byte > 1) {
                return bad_bool(byte);
            }
        }
        ValueType::ARRAY => {
            let mut walked = 0;
            for inner in array {
                refuse_value(key, inner, depth + 1)?;
                walked += 1;
            }
            // Iteration ends early in arrays that are nested too deeply.
            if walked < array.len() {
                return Err(LayoutError::TooDeep(printable(key)));
            }
        }
        _ => {}
    }
    Ok(())
}

/// As [`Head::from_gguf`].
impl From<&Gguf<'_>> for Head {
    fn from(gguf: &Gguf<'_>) -> Head {
        Head::from_gguf(gguf)
    }
}

/// A destination that tracks its length.
trait Position {
    fn position(&self) -> u64;
}

impl Position for Vec<u8> {
    fn position(&self) -> u64 {
        self.len() as u64
    }
}

impl Position for Count {
    fn position(&self) -> u64 {
        self.0
    }
}

fn printable(name: &[u8]) -> String {
    Str(name).to_string()
}

fn size_of(tensor: &NewTensor<'_>) -> Result<u64, LayoutError> {
    let bytes = tensor.ty.tensor_bytes(tensor.shape.iter().copied());
    bytes.map_err(|e| LayoutError::TensorSize(printable(tensor.name), e))
}

/// The places of tensors in a file; see [`Head::places_of`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Places {
    /// The alignment of the data section and of every tensor in it.
    pub alignment: u64,
    /// Bytes of the head, without padding.
    pub head_bytes: u64,
    /// The start of the data section, from the start of the file.
    pub data_offset: u64,
    base: u64,
    /// Offset of each tensor as stored in the head, in the order of the head: from the start of the data section (in
    /// the draft of version 1, from the start of the file).
    pub offsets: Vec<u64>,
    /// Size of the whole file; the last tensor is padded, too.
    pub file_bytes: u64,
}

impl Places {
    /// The places of tensors of the given sizes in a file of another format: one behind the other, after a head of `head_bytes` bytes.
    /// `None` if the size of the file does not fit in 64 bits.
    pub fn packed(head_bytes: u64, sizes: impl IntoIterator<Item = u64>) -> Option<Places> {
        let (mut end, mut offsets) = (0u64, Vec::new());
        for size in sizes {
            offsets.push(end);
            end = end.checked_add(size)?;
        }
        let file_bytes = head_bytes.checked_add(end)?;
        Some(Places { alignment: 1, head_bytes, data_offset: head_bytes, base: head_bytes, offsets, file_bytes })
    }

    /// The places of tensors at given offsets from the start of a file. Nothing is checked.
    pub fn at(head_bytes: u64, offsets: Vec<u64>, file_bytes: u64) -> Places {
        Places { alignment: 1, head_bytes, data_offset: head_bytes, base: 0, offsets, file_bytes }
    }

    /// The start of tensor `i`, from the start of the file.
    pub fn file_offset(&self, i: usize) -> Option<u64> {
        self.base.checked_add(*self.offsets.get(i)?)
    }
}

/// The layout of a file, with its encoded head; see [`Head::layout`].
#[derive(Clone, PartialEq, Eq)]
pub struct Layout {
    dialect: Dialect,
    head: Vec<u8>,
    places: Places,
    sizes: Vec<u64>,
}

impl Layout {
    /// The actual layout of a file of `file_bytes` bytes: its unchanged head, and its tensors in their places, in any order and with any
    /// gaps. Nothing is validated.
    ///
    /// # Errors
    /// If the size of a tensor is unknown.
    pub fn of_file(gguf: &Gguf<'_>, file_bytes: u64) -> Result<Layout, LayoutError> {
        let (mut offsets, mut sizes) = (Vec::new(), Vec::new());
        for t in gguf.tensors() {
            let bytes = t.n_bytes().map_err(|e| LayoutError::TensorSize(printable(t.name.as_bytes()), e))?;
            offsets.push(t.offset);
            sizes.push(bytes);
        }
        let len = usize::try_from(gguf.head_bytes()).map_err(|_| LayoutError::TooLarge)?;
        let (head_bytes, data_offset) = (gguf.head_bytes(), gguf.data_offset());
        let base = if gguf.dialect().is_draft() { 0 } else { data_offset };
        Ok(Layout {
            dialect: gguf.dialect(),
            head: gguf.bytes().get(..len).unwrap_or_default().to_vec(),
            places: Places { alignment: gguf.alignment(), head_bytes, data_offset, base, offsets, file_bytes },
            sizes,
        })
    }

    /// The encoded head, from the start of the file to the end of the last tensor info. Zeros follow up to
    /// [`data_offset`](Layout::data_offset).
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Bytes of the head, without padding.
    pub fn head_bytes(&self) -> u64 {
        self.head.len() as u64
    }

    /// The encoded head without its padding, without a copy; see [`head`](Layout::head).
    pub fn into_head(self) -> Vec<u8> {
        self.head
    }

    /// A copy of the head with its padding: exactly [`data_offset`](Layout::data_offset) bytes.
    ///
    /// # Errors
    /// [`LayoutError::TooLarge`] if an extreme alignment makes it longer than memory can be.
    pub fn padded_head(&self) -> Result<Vec<u8>, LayoutError> {
        let len = usize::try_from(self.places.data_offset).map_err(|_| LayoutError::TooLarge)?;
        let mut padded = Vec::new();
        padded.try_reserve_exact(len).map_err(|_| LayoutError::TooLarge)?;
        padded.extend_from_slice(&self.head);
        padded.resize(len, 0);
        Ok(padded)
    }

    /// The head with its padding, without a copy; see [`padded_head`](Layout::padded_head).
    ///
    /// # Errors
    /// See [`padded_head`](Layout::padded_head).
    pub fn into_padded_head(mut self) -> Result<Vec<u8>, LayoutError> {
        let len = usize::try_from(self.places.data_offset).map_err(|_| LayoutError::TooLarge)?;
        let more = len.saturating_sub(self.head.len());
        self.head.try_reserve_exact(more).map_err(|_| LayoutError::TooLarge)?;
        self.head.resize(len, 0);
        Ok(self.head)
    }

    /// The start of the data section, from the start of the file: the padded head.
    pub fn data_offset(&self) -> u64 {
        self.places.data_offset
    }

    /// Offset of each tensor as stored in the head, in the order of the head: from the start of the data section (in
    /// the draft of version 1, from the start of the file).
    pub fn offsets(&self) -> &[u64] {
        &self.places.offsets
    }

    /// The start of tensor `i`, from the start of the file.
    pub fn file_offset(&self, i: usize) -> Option<u64> {
        self.places.file_offset(i)
    }

    /// The range of the data of tensor `i`, without padding, from the start of the file.
    pub fn tensor_range(&self, i: usize) -> Option<Range<u64>> {
        let start = self.file_offset(i)?;
        Some(start..start.checked_add(*self.sizes.get(i)?)?)
    }

    /// Size of the whole file; the last tensor is padded too, as by `gguf.h`'s writer.
    pub fn file_bytes(&self) -> u64 {
        self.places.file_bytes
    }

    /// The alignment of the data section and of every tensor in it.
    pub fn alignment(&self) -> u64 {
        self.places.alignment
    }

    /// The head and the places of the tensors, apart.
    pub fn into_parts(self) -> (Vec<u8>, Places) {
        (self.head, self.places)
    }

    /// Whether the heads have the same length and all tensor data has the same places, so that either head can precede the same data.
    pub fn is_interchangeable_with(&self, other: &Layout) -> bool {
        self.dialect == other.dialect && self.places == other.places && self.sizes == other.sizes
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layout").field("dialect", &self.dialect).field("places", &self.places).finish_non_exhaustive()
    }
}

/// Why a head cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// A key that is empty or longer than [`MAX_KEY`] bytes.
    KeyLength(usize),
    /// A key with a NUL byte: C programs read only the part before it.
    KeyNul(String),
    /// A key that is not UTF-8.
    KeyNotUtf8(String),
    /// A duplicate key.
    DuplicateKey(String),
    /// A key whose value is or contains a bool that is neither 0 nor 1.
    Bool(String, u8),
    /// A key whose arrays are nested deeper than [`MAX_NESTING`].
    TooDeep(String),
    /// A key with an array of an unknown element type.
    ElementType(String, ValueType),
    /// `general.alignment` is not a power of two of type u32.
    Alignment(AlignmentError),
    /// A tensor name that is too long.
    TensorName {
        /// The name.
        name: String,
        /// The length.
        bytes: usize,
        /// The maximum length in a model of its architecture; see [`Head::max_tensor_name`].
        max: usize,
    },
    /// A tensor name with a NUL byte: C programs read only the part before it.
    TensorNameNul(String),
    /// A tensor name that is not UTF-8.
    TensorNameNotUtf8(String),
    /// A duplicate tensor name.
    DuplicateTensor(String),
    /// A tensor with more than [`MAX_DIMS`] dimensions.
    TensorDims(String, usize),
    /// A tensor of unknown size.
    TensorSize(String, SizeError),
    /// A count or length that does not fit format version 1.
    TooWide(TooWide),
    /// The length of the file exceeds 63 bits.
    TooLarge,
    /// The head does not fit its reserved space: a size or a place differs.
    Changed,
}

impl From<TooWide> for LayoutError {
    fn from(e: TooWide) -> LayoutError {
        LayoutError::TooWide(e)
    }
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::KeyLength(n) => write!(f, "a key of {n} bytes; 1 to {MAX_KEY} are allowed"),
            LayoutError::KeyNul(k) => write!(f, "the key {k} has a NUL byte"),
            LayoutError::KeyNotUtf8(k) => write!(f, "the key {k} is not UTF-8"),
            LayoutError::DuplicateKey(k) => write!(f, "duplicate key {k}"),
            LayoutError::Bool(k, b) => write!(f, "{k} is a bool with the byte {b}, not 0 or 1"),
            LayoutError::TooDeep(k) => write!(f, "the arrays of {k} are nested deeper than {MAX_NESTING}"),
            LayoutError::ElementType(k, ty) => write!(f, "{k} is an array of {ty}, which is not a value type"),
            LayoutError::Alignment(e) => write!(f, "{ALIGNMENT_KEY} {e}; write a power of two of type u32"),
            LayoutError::TensorName { name, bytes, max: MAX_TENSOR_NAME } => {
                write!(f, "the tensor name {name} has {bytes} bytes; ggml reads at most {MAX_TENSOR_NAME}")
            }
            LayoutError::TensorName { name, bytes, max } => {
                write!(f, "the tensor name {name} has {bytes} bytes; at most {max} are written")
            }
            LayoutError::TensorNameNul(t) => write!(f, "the tensor name {t} has a NUL byte"),
            LayoutError::TensorNameNotUtf8(t) => write!(f, "the tensor name {t} is not UTF-8"),
            LayoutError::DuplicateTensor(t) => write!(f, "duplicate tensor {t}"),
            LayoutError::TensorDims(t, n) => {
                write!(f, "the tensor {t} has {n} dimensions; at most {MAX_DIMS} are read")
            }
            LayoutError::TensorSize(t, e) => write!(f, "the tensor {t}: {e}"),
            LayoutError::TooWide(e) => write!(f, "{e}"),
            LayoutError::TooLarge => f.write_str("the file would be longer than 2^63 bytes"),
            LayoutError::Changed => f.write_str("the head does not fit the space reserved for it"),
        }
    }
}

impl core::error::Error for LayoutError {}
