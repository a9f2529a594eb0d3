//! Heads to write: what goes in ([`Head`]), where everything lands ([`Layout`]), and the bytes of the head.
//!
//! A layout is computed before anything is written, so every offset and the size of the file are known first. That makes
//! all three ways to write possible: the file in one pass; the head first and the tensors as they come; the tensors
//! first, behind reserved space, and the head last.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::encode::{self, Count, Out, TooWide};
use crate::error::AlignmentError;
use crate::file::{Gguf, alignment_of};
use crate::header::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT, DRAFT_ALIGNMENT, Dialect, Version, align_up};
use crate::tensor::TensorInfo;
use crate::types::SizeError;
use crate::value::{Str, Value, ValueRef};

/// The longest tensor name that ggml reads (`GGML_MAX_NAME` counts a NUL).
pub const MAX_TENSOR_NAME: usize = 63;

/// The longest key of the specification.
pub const MAX_KEY: usize = 65_535;

/// The most dimensions a tensor has.
pub const MAX_DIMS: usize = 4;

/// A key and its value, to write.
#[derive(Debug, Clone, PartialEq)]
pub struct Kv {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Value,
}

/// A head to write: key-values and tensors in file order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Head {
    /// How to encode it; version 3 in little-endian order unless set otherwise.
    pub dialect: Dialect,
    /// The key-value pairs, in file order.
    pub kvs: Vec<Kv>,
    /// The tensors, in file order.
    pub tensors: Vec<TensorInfo>,
}

impl Head {
    /// A copy of a parsed head. Encoded again without a change it gives the same bytes.
    pub fn from_gguf(gguf: &Gguf<'_>) -> Head {
        Head {
            dialect: gguf.dialect(),
            kvs: gguf.kvs().map(|kv| Kv { key: kv.key.as_bytes().to_owned(), value: kv.value.to_owned() }).collect(),
            tensors: gguf.tensors().map(|t| t.to_owned()).collect(),
        }
    }

    /// Sets a key: in place when it is there already, at the end otherwise.
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

    /// Removes every pair of that key; says whether there was one.
    pub fn remove(&mut self, key: &str) -> bool {
        let before = self.kvs.len();
        self.kvs.retain(|kv| kv.key != key.as_bytes());
        self.kvs.len() != before
    }

    /// The alignment that the key-values set, 32 if they set none (64 for the draft of version 1).
    ///
    /// # Errors
    /// When `general.alignment` is no power of two of type u32: only that is read by every reader.
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

    /// Where everything lands: tensors packed in order, each at the next multiple of the alignment.
    ///
    /// # Errors
    /// [`LayoutError`] for whatever some reader would refuse: see its variants.
    pub fn layout(&self) -> Result<Layout, LayoutError> {
        self.refuse_unreadable()?;
        let alignment = self.alignment()?;
        let mut size = Count::default();
        // Offsets are of fixed width, so the head is as long with any of them.
        self.encode_into(&mut size, |t| t.offset)?;
        let data_offset = align_up(size.0, alignment).ok_or(LayoutError::TooLarge)?;
        let mut end = if self.dialect.version == Version::Draft { data_offset } else { 0 };
        let mut offsets = Vec::with_capacity(self.tensors.len());
        for t in &self.tensors {
            offsets.push(end);
            let bytes = t.n_bytes().map_err(|e| LayoutError::TensorSize(printable(&t.name), e))?;
            end = end.checked_add(bytes).and_then(|e| align_up(e, alignment)).ok_or(LayoutError::TooLarge)?;
        }
        let file_bytes = match self.dialect.version {
            Version::Draft => Some(end),
            _ => data_offset.checked_add(end),
        };
        let file_bytes = file_bytes.filter(|&n| i64::try_from(n).is_ok()).ok_or(LayoutError::TooLarge)?;
        Ok(Layout { dialect: self.dialect, alignment, head_bytes: size.0, data_offset, offsets, file_bytes })
    }

    /// The bytes from the start of the file to the data section, padding included: exactly
    /// [`Layout::data_offset`] of them.
    ///
    /// # Errors
    /// [`LayoutError::Changed`] when the head is no longer the one that was laid out.
    pub fn encode(&self, layout: &Layout) -> Result<Vec<u8>, LayoutError> {
        if layout.offsets.len() != self.tensors.len() || layout.dialect != self.dialect {
            return Err(LayoutError::Changed);
        }
        let mut out = Vec::with_capacity(usize::try_from(layout.data_offset).map_err(|_| LayoutError::TooLarge)?);
        let mut offsets = layout.offsets.iter();
        self.encode_into(&mut out, |t| offsets.next().copied().unwrap_or(t.offset))?;
        if out.len() as u64 != layout.head_bytes {
            return Err(LayoutError::Changed);
        }
        out.resize(usize::try_from(layout.data_offset).map_err(|_| LayoutError::TooLarge)?, 0);
        Ok(out)
    }

    /// The bytes from the start of the file to the end of the last tensor info, with the offsets that the tensors carry
    /// and without refusing anything: what stood in the file that [`from_gguf`](Head::from_gguf) copied.
    ///
    /// # Errors
    /// When a length does not fit the version.
    pub fn encode_as_read(&self) -> Result<Vec<u8>, LayoutError> {
        let mut out = Vec::new();
        self.encode_into(&mut out, |t| t.offset)?;
        Ok(out)
    }

    fn encode_into<O: Out + Position>(
        &self,
        out: &mut O,
        mut offset_of: impl FnMut(&TensorInfo) -> u64,
    ) -> Result<(), TooWide> {
        let d = self.dialect;
        encode::header(out, self.tensors.len() as u64, self.kvs.len() as u64, d)?;
        for kv in &self.kvs {
            encode::kv(out, &kv.key, kv.value.as_ref(), d)?;
        }
        if d.version == Version::Draft {
            let pos = out.position();
            let mut pad = (DRAFT_ALIGNMENT - pos % DRAFT_ALIGNMENT) % DRAFT_ALIGNMENT;
            if pad == 0 && d.draft.full_padding {
                pad = DRAFT_ALIGNMENT;
            }
            out.bytes([0; DRAFT_ALIGNMENT as usize].get(..pad as usize).unwrap_or_default());
        }
        for t in &self.tensors {
            encode::string(out, &t.name, d)?;
            encode::u32(out, u32::try_from(t.shape.len()).map_err(|_| TooWide(t.shape.len() as u64))?, d);
            for &dim in &t.shape {
                encode::len(out, dim, d)?;
            }
            if d.version == Version::Draft {
                let n = crate::types::n_elements(t.shape.iter().copied()).unwrap_or(u64::MAX);
                encode::u32(out, u32::try_from(n).map_err(|_| TooWide(n))?, d);
            }
            encode::u32(out, t.ty.0, d);
            encode::u64(out, offset_of(t), d);
        }
        Ok(())
    }

    /// Writers are strict where readers are lenient.
    fn refuse_unreadable(&self) -> Result<(), LayoutError> {
        let mut seen = BTreeMap::new();
        for kv in &self.kvs {
            if kv.key.is_empty() || kv.key.len() > MAX_KEY {
                return Err(LayoutError::KeyLength(kv.key.len()));
            }
            if seen.insert(kv.key.as_slice(), ()).is_some() {
                return Err(LayoutError::DuplicateKey(printable(&kv.key)));
            }
            if let Value::Bool(b @ 2..) = kv.value {
                return Err(LayoutError::Bool(printable(&kv.key), b));
            }
        }
        seen.clear();
        for t in &self.tensors {
            if t.name.len() > MAX_TENSOR_NAME {
                return Err(LayoutError::TensorName(printable(&t.name), t.name.len()));
            }
            if seen.insert(t.name.as_slice(), ()).is_some() {
                return Err(LayoutError::DuplicateTensor(printable(&t.name)));
            }
            if t.shape.len() > MAX_DIMS {
                return Err(LayoutError::TensorDims(printable(&t.name), t.shape.len()));
            }
        }
        Ok(())
    }
}

/// An output that knows how much it has taken.
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

/// Where everything of a file lands; see [`Head::layout`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    dialect: Dialect,
    alignment: u64,
    /// Bytes of the head, without padding.
    pub head_bytes: u64,
    /// Where the data section starts: the head, padded.
    pub data_offset: u64,
    /// Offset of each tensor as it is written into the file, in the order of the head.
    pub offsets: Vec<u64>,
    /// Bytes of the whole file; the last tensor is padded too, as gguf.h's writer does.
    pub file_bytes: u64,
}

impl Layout {
    /// The alignment used.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// Where tensor `i` starts, from the start of the file.
    pub fn file_offset(&self, i: usize) -> Option<u64> {
        let base = if self.dialect.version == Version::Draft { 0 } else { self.data_offset };
        base.checked_add(*self.offsets.get(i)?)
    }
}

/// Why a head cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayoutError {
    /// A key that is empty or longer than [`MAX_KEY`] bytes.
    KeyLength(usize),
    /// A key that is there twice.
    DuplicateKey(String),
    /// A bool that is neither 0 nor 1.
    Bool(String, u8),
    /// `general.alignment` is not a power of two of type u32.
    Alignment(AlignmentError),
    /// A tensor name longer than [`MAX_TENSOR_NAME`] bytes.
    TensorName(String, usize),
    /// A tensor name that is there twice.
    DuplicateTensor(String),
    /// A tensor with more than [`MAX_DIMS`] dimensions.
    TensorDims(String, usize),
    /// A tensor whose size is not known.
    TensorSize(String, SizeError),
    /// A count or length that format version 1 cannot hold.
    TooWide(TooWide),
    /// The file would be longer than 63 bits can say.
    TooLarge,
    /// The head is not the one that was laid out.
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
            LayoutError::DuplicateKey(k) => write!(f, "the key {k} is there twice"),
            LayoutError::Bool(k, b) => write!(f, "{k} is a bool with the byte {b}, not 0 or 1"),
            LayoutError::Alignment(e) => write!(f, "{ALIGNMENT_KEY} {e}; write a power of two of type u32"),
            LayoutError::TensorName(t, n) => {
                write!(f, "the tensor name {t} has {n} bytes; ggml reads at most {MAX_TENSOR_NAME}")
            }
            LayoutError::DuplicateTensor(t) => write!(f, "the tensor {t} is there twice"),
            LayoutError::TensorDims(t, n) => {
                write!(f, "the tensor {t} has {n} dimensions; at most {MAX_DIMS} are read")
            }
            LayoutError::TensorSize(t, e) => write!(f, "the tensor {t}: {e}"),
            LayoutError::TooWide(e) => write!(f, "{e}"),
            LayoutError::TooLarge => f.write_str("the file would be longer than 2^63 bytes"),
            LayoutError::Changed => f.write_str("the head was changed after it was laid out; lay it out again"),
        }
    }
}

impl core::error::Error for LayoutError {}
