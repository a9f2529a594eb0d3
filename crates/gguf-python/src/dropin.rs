//! What the drop-in for the package `gguf` does in Rust: the scan of key-values, and the codecs.
//!
//! Everything else of the drop-in is Python, because programs reach into it. See `docs/python-dropin.md`.

use std::num::NonZeroUsize;
use std::thread;

use gguf_format::{GgmlType, MAX_NESTING, ValueType};
use gguf_quants::{Codec, CodecError, Matrix, codec};
use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::{PyIndexError, PyNotImplementedError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice};

/// The longest string and the longest array that llama.cpp reads.
const MAX_LEN: u64 = 1 << 30;

/// The number of values that justifies another thread.
const VALUES_FOR_A_THREAD: usize = 1 << 16;

/// The functions of the drop-in.
#[pymodule]
pub mod dropin {
    #[pymodule_export]
    use super::{Parts, Strings, decode, encode, encoders, scan_fields};
}

/// A key-value pair: the offset of the pair, the length of the key, the offset of the value, the type, and for arrays the type and the number
/// of their elements and, for strings, the places of all.
type Row = (u64, u64, u64, u32, Option<u32>, u64, Option<Strings>);

/// The places of the strings of an array.
#[pyclass(frozen)]
pub struct Strings {
    /// The offsets of the strings in the file, each of which starts with its length in eight bytes, and the end of the last one.
    offsets: Vec<u64>,
}

/// The parts of an array in the file: a few that are given, then those of the elements, which are made when they are asked for.
///
/// A number is one part, a string is two: its length and its bytes.
#[pyclass(frozen, subclass)]
pub struct Parts {
    head: Vec<Py<PyAny>>,
    elements: Elements,
}

enum Elements {
    /// The numbers as an array.
    Numbers { values: Py<PyAny>, n: usize },
    /// The bytes of the file as an array, and the type of the lengths.
    Strings { file: Py<PyAny>, strings: Py<Strings>, length: Py<PyAny> },
}

#[pymethods]
impl Parts {
    /// Numbers in an array, or strings in the bytes of a file.
    #[new]
    #[pyo3(signature = (head, array, strings=None, length=None))]
    fn new(
        head: Vec<Py<PyAny>>,
        array: Bound<'_, PyAny>,
        strings: Option<Py<Strings>>,
        length: Option<Py<PyAny>>,
    ) -> PyResult<Parts> {
        let elements = match strings.zip(length) {
            Some((strings, length)) => Elements::Strings { file: array.unbind(), strings, length },
            None => Elements::Numbers { n: array.len()?, values: array.unbind() },
        };
        Ok(Parts { head, elements })
    }

    /// The array of numbers, or `None` for strings.
    #[getter]
    fn values(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        match &self.elements {
            Elements::Numbers { values, .. } => Some(values.clone_ref(py)),
            Elements::Strings { .. } => None,
        }
    }

    fn __len__(&self) -> usize {
        self.head.len()
            + match &self.elements {
                Elements::Numbers { n, .. } => *n,
                Elements::Strings { strings, .. } => 2 * (strings.get().offsets.len() - 1),
            }
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let n = self.__len__() as isize;
        if let Ok(slice) = index.cast::<PySlice>() {
            let range = slice.indices(n)?;
            let parts = (0..range.slicelength as isize).map(|i| self.part(py, (range.start + i * range.step) as usize));
            return Ok(PyList::new(py, parts.collect::<PyResult<Vec<_>>>()?)?.into_any());
        }
        let index: isize = index.extract()?;
        let i = if index < 0 { index + n } else { index };
        if !(0..n).contains(&i) {
            return Err(PyIndexError::new_err(format!("index {index} of a list of {n} parts")));
        }
        self.part(py, i as usize)
    }
}

impl Parts {
    fn part<'py>(&self, py: Python<'py>, i: usize) -> PyResult<Bound<'py, PyAny>> {
        let Some(element) = i.checked_sub(self.head.len()) else {
            return Ok(self.head[i].bind(py).clone());
        };
        let slice = |array: &Py<PyAny>, start: u64, end: u64| {
            array.bind(py).get_item(PySlice::new(py, start as isize, end as isize, 1))
        };
        match &self.elements {
            Elements::Numbers { values, .. } => slice(values, element as u64, element as u64 + 1),
            Elements::Strings { file, strings, length } => {
                let offsets = &strings.get().offsets;
                let start = offsets[element / 2];
                if element % 2 == 1 {
                    return slice(file, start + 8, offsets[element / 2 + 1]);
                }
                slice(file, start, start + 8)?.call_method1("view", (length,))
            }
        }
    }
}

/// Finds the key-values of a head.
///
/// `head` is the start of a file, or all of it (`whole`). `offset` is that of the first pair. Returns the pairs and the offset of their end,
/// or, if the head is too short, the number of bytes that it needs at least.
#[pyfunction]
#[pyo3(signature = (head, offset, count, *, big_endian, whole))]
fn scan_fields(
    head: &[u8],
    offset: u64,
    count: u64,
    big_endian: bool,
    whole: bool,
) -> PyResult<(Option<Vec<Row>>, u64)> {
    let mut cursor = Cursor { head, at: offset, big_endian };
    let mut rows = Vec::new();
    for _ in 0..count {
        match cursor.field() {
            Ok(field) => rows.push((
                field.offset,
                field.key_len,
                field.value,
                field.ty.0,
                field.items.map(|(ty, _)| ty.0),
                field.items.map_or(1, |(_, len)| len),
                field.strings.map(|offsets| Strings { offsets }),
            )),
            Err(Stop::Need(need)) if !whole => return Ok((None, need)),
            Err(stop) => return Err(PyValueError::new_err(stop.message(head.len()))),
        }
    }
    Ok((Some(rows), cursor.at))
}

struct Field {
    offset: u64,
    key_len: u64,
    value: u64,
    ty: ValueType,
    items: Option<(ValueType, u64)>,
    strings: Option<Vec<u64>>,
}

/// Why a scan stops.
enum Stop {
    /// The head ends before this offset.
    Need(u64),
    TooLong {
        what: &'static str,
        len: u64,
        offset: u64,
    },
    UnknownType {
        ty: u32,
        offset: u64,
    },
    TooDeep {
        offset: u64,
    },
}

impl Stop {
    fn message(&self, head_len: usize) -> String {
        match self {
            Stop::Need(need) => {
                format!(
                    "The file ends at {head_len} inside a key-value pair, which needs the bytes up to {need}; is the file truncated?"
                )
            }
            Stop::TooLong { what, len, offset } => {
                format!("{what} length {len} exceeds maximum {MAX_LEN} at offset {offset}")
            }
            Stop::UnknownType { ty, offset } => format!("{ty} is not a valid GGUFValueType, at offset {offset}"),
            Stop::TooDeep { offset } => {
                format!("Arrays are nested deeper than {MAX_NESTING} levels at offset {offset}")
            }
        }
    }
}

struct Cursor<'a> {
    head: &'a [u8],
    at: u64,
    big_endian: bool,
}

impl Cursor<'_> {
    fn field(&mut self) -> Result<Field, Stop> {
        let offset = self.at;
        let key_len = self.string()?;
        let ty = ValueType(self.u32()?);
        let value = self.at;
        let mut field = Field { offset, key_len, value, ty, items: None, strings: None };
        if ty == ValueType::ARRAY {
            let (item, len) = self.array_head()?;
            field.items = Some((item, len));
            if item == ValueType::STRING {
                // Every string takes at least the eight bytes of its length.
                self.fits(len.saturating_mul(8))?;
                let mut offsets = Vec::with_capacity(usize::try_from(len).unwrap_or(0) + 1);
                for _ in 0..len {
                    offsets.push(self.at);
                    self.string()?;
                }
                offsets.push(self.at);
                field.strings = Some(offsets);
            } else {
                self.items(item, len, 1)?;
            }
        } else {
            self.items(ty, 1, 0)?;
        }
        Ok(field)
    }

    /// Passes over values of one type.
    fn items(&mut self, ty: ValueType, len: u64, depth: usize) -> Result<(), Stop> {
        if let Some(size) = ty.fixed_bytes() {
            return self.skip(len.saturating_mul(size));
        }
        if ty != ValueType::STRING && ty != ValueType::ARRAY {
            return Err(Stop::UnknownType { ty: ty.0, offset: self.at });
        }
        if depth > MAX_NESTING {
            return Err(Stop::TooDeep { offset: self.at });
        }
        self.fits(len.saturating_mul(8))?;
        for _ in 0..len {
            if ty == ValueType::STRING {
                self.string()?;
            } else {
                let (item, len) = self.array_head()?;
                self.items(item, len, depth + 1)?;
            }
        }
        Ok(())
    }

    fn array_head(&mut self) -> Result<(ValueType, u64), Stop> {
        let offset = self.at;
        let item = ValueType(self.u32()?);
        let len = self.u64()?;
        if len > MAX_LEN {
            return Err(Stop::TooLong { what: "Array", len, offset });
        }
        Ok((item, len))
    }

    fn string(&mut self) -> Result<u64, Stop> {
        let offset = self.at;
        let len = self.u64()?;
        if len > MAX_LEN {
            return Err(Stop::TooLong { what: "String", len, offset });
        }
        self.skip(len)?;
        Ok(len)
    }

    fn u32(&mut self) -> Result<u32, Stop> {
        let bytes = self.bytes::<4>()?;
        Ok(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    fn u64(&mut self) -> Result<u64, Stop> {
        let bytes = self.bytes::<8>()?;
        Ok(if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let start = usize::try_from(self.at).unwrap_or(usize::MAX);
        let bytes = self.head.get(start..).and_then(|rest| rest.first_chunk::<N>());
        let bytes = *bytes.ok_or(Stop::Need(self.at.saturating_add(N as u64)))?;
        self.at += N as u64;
        Ok(bytes)
    }

    fn skip(&mut self, len: u64) -> Result<(), Stop> {
        self.fits(len)?;
        self.at += len;
        Ok(())
    }

    fn fits(&self, len: u64) -> Result<(), Stop> {
        let end = self.at.saturating_add(len);
        if end > self.head.len() as u64 { Err(Stop::Need(end)) } else { Ok(()) }
    }
}

/// The types that can be encoded without an importance matrix.
#[pyfunction]
fn encoders() -> Vec<u32> {
    gguf_quants::codecs()
        .iter()
        .filter(|codec| codec.can_encode() && codec.matrix != Matrix::Required)
        .map(|codec| codec.ty.0)
        .collect()
}

/// Encodes rows of `row_len` values, on all cores.
#[pyfunction]
fn encode<'py>(
    py: Python<'py>,
    values: PyReadonlyArray1<'py, f32>,
    ty: u32,
    row_len: usize,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let values = values.as_slice()?;
    let packed = py.detach(|| gguf_quants::quantize(GgmlType(ty), values, row_len, None, None)).map_err(error)?;
    Ok(packed.into_pyarray(py))
}

/// Decodes whole blocks, on all cores.
#[pyfunction]
fn decode<'py>(py: Python<'py>, packed: PyReadonlyArray1<'py, u8>, ty: u32) -> PyResult<Bound<'py, PyArray1<f32>>> {
    let ty = GgmlType(ty);
    let packed = packed.as_slice()?;
    let (codec, info) = codec(ty).zip(ty.info()).ok_or(CodecError::NoCodec(ty)).map_err(error)?;
    let (block_len, block_bytes) = (info.block_len as usize, info.block_bytes as usize);
    let n_blocks = packed.len() / block_bytes;
    let values = PyArray1::<f32>::zeros(py, n_blocks * block_len, false);
    let mut target = values.readwrite();
    let target = target.as_slice_mut()?;
    py.detach(|| decode_blocks(codec, packed, target, block_len, block_bytes)).map_err(error)?;
    Ok(values)
}

fn decode_blocks(
    codec: &Codec,
    packed: &[u8],
    values: &mut [f32],
    block_len: usize,
    block_bytes: usize,
) -> Result<(), CodecError> {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(values.len() / VALUES_FOR_A_THREAD);
    if threads < 2 {
        return codec.decode(packed, values);
    }
    let blocks = (values.len() / block_len).div_ceil(threads);
    thread::scope(|scope| {
        let parts = packed.chunks(blocks * block_bytes).zip(values.chunks_mut(blocks * block_len));
        let running: Vec<_> = parts.map(|(packed, values)| scope.spawn(|| codec.decode(packed, values))).collect();
        running
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn error(error: CodecError) -> PyErr {
    match error {
        CodecError::NoCodec(_) | CodecError::DecodeOnly(_) | CodecError::NeedsMatrix(_) => {
            PyNotImplementedError::new_err(error.to_string())
        }
        _ => PyValueError::new_err(error.to_string()),
    }
}
