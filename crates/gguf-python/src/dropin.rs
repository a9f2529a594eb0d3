//! What the drop-in for the package `gguf` needs of Rust besides the codecs: the scan of key-values, and the parts of arrays.
//!
//! Everything else of the drop-in is Python, because programs reach into it. See `docs/python-dropin.md`.

use ggufkit::format::{MAX_NESTING, ValueType};
use ggufkit::quants::{Matrix, codecs};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice};

/// The longest string and the longest array that llama.cpp reads.
const MAX_LEN: u64 = 1 << 30;

/// The functions of the drop-in.
#[pymodule]
pub mod dropin {
    #[pymodule_export]
    use super::{Parts, Strings, coded_types, scan_fields};
}

/// A key-value pair: the offset of the pair, the length of the key, the offset of the value, the type, and for arrays the type and the number
/// of their elements and, for strings, the places of all.
type Row = (usize, u64, usize, u32, Option<u32>, u64, Option<Strings>);

/// The places of the strings of an array.
#[pyclass(frozen)]
pub struct Strings {
    /// The offsets of the strings in the file, each of which starts with its length in eight bytes, and the end of the last one.
    offsets: Vec<usize>,
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
        let of_elements = match &self.elements {
            Elements::Numbers { n, .. } => *n,
            Elements::Strings { strings, .. } => 2 * strings.get().len(),
        };
        self.head.len() + of_elements
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let n = self.__len__() as isize;
        if let Ok(slice) = index.cast::<PySlice>() {
            let range = slice.indices(n)?;
            let places = (0..range.slicelength.cast_signed()).map(|i| range.start + i * range.step);
            let parts = places.map(|i| self.part(py, i.cast_unsigned())).collect::<PyResult<Vec<_>>>()?;
            return Ok(PyList::new(py, parts)?.into_any());
        }
        let index: isize = index.extract()?;
        self.part(py, (if index < 0 { index + n } else { index }).cast_unsigned())
    }
}

impl Parts {
    fn part<'py>(&self, py: Python<'py>, i: usize) -> PyResult<Bound<'py, PyAny>> {
        if let Some(part) = self.head.get(i) {
            return Ok(part.bind(py).clone());
        }
        let n = self.__len__();
        let none = || PyIndexError::new_err(format!("index out of range: there are {n} parts"));
        let element = i.checked_sub(self.head.len()).ok_or_else(none)?;
        let slice = |array: &Py<PyAny>, start: usize, end: usize| {
            array.bind(py).get_item(PySlice::new(py, start.cast_signed(), end.cast_signed(), 1))
        };
        match &self.elements {
            Elements::Numbers { values, n } if element < *n => slice(values, element, element + 1),
            Elements::Numbers { .. } => Err(none()),
            Elements::Strings { file, strings, length } => {
                let (start, end) = strings.get().place(element / 2).ok_or_else(none)?;
                if element % 2 == 1 {
                    slice(file, start + 8, end)
                } else {
                    slice(file, start, start + 8)?.call_method1("view", (length,))
                }
            }
        }
    }
}

impl Strings {
    fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The start of a string's length, and the end of the string.
    fn place(&self, i: usize) -> Option<(usize, usize)> {
        Some((*self.offsets.get(i)?, *self.offsets.get(i + 1)?))
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
    offset: usize,
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
    Ok((Some(rows), cursor.at as u64))
}

struct Field {
    offset: usize,
    key_len: u64,
    value: usize,
    ty: ValueType,
    items: Option<(ValueType, u64)>,
    strings: Option<Vec<usize>>,
}

/// Why a scan stops.
enum Stop {
    /// The head ends before this offset.
    Need(u64),
    TooLong {
        what: &'static str,
        len: u64,
        offset: usize,
    },
    UnknownType {
        ty: u32,
        offset: usize,
    },
    TooDeep {
        offset: usize,
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
    at: usize,
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
                let end = self.end(len.saturating_mul(8))?;
                let mut offsets = Vec::with_capacity(end.saturating_sub(self.at) / 8 + 1);
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
        self.end(len.saturating_mul(8))?;
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
        let bytes = self.head.get(self.at..).and_then(|rest| rest.first_chunk::<N>());
        let bytes = *bytes.ok_or(Stop::Need((self.at + N) as u64))?;
        self.at += N;
        Ok(bytes)
    }

    fn skip(&mut self, len: u64) -> Result<(), Stop> {
        self.at = self.end(len)?;
        Ok(())
    }

    /// The end of the next bytes, which must be in the head.
    fn end(&self, len: u64) -> Result<usize, Stop> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len));
        end.filter(|&end| end <= self.head.len()).ok_or(Stop::Need((self.at as u64).saturating_add(len)))
    }
}

/// The types that can be encoded without an importance matrix, and those that can be decoded.
#[pyfunction]
fn coded_types() -> (Vec<u32>, Vec<u32>) {
    let encoders = codecs().iter().filter(|codec| codec.can_encode() && codec.matrix != Matrix::Required);
    (encoders.map(|codec| codec.ty.0).collect(), codecs().iter().map(|codec| codec.ty.0).collect())
}
