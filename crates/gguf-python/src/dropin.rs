//! What the drop-in for the package `gguf` does in Rust: the scan of key-values, and the codecs.
//!
//! Everything else of the drop-in is Python, because programs reach into it. See `docs/python-dropin.md`.

use std::num::NonZeroUsize;
use std::thread;

use gguf_format::{GgmlType, MAX_NESTING, ValueType};
use gguf_quants::{Codec, CodecError, Matrix, codec};
use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::{PyNotImplementedError, PyValueError};
use pyo3::prelude::*;

/// The longest string and the longest array that llama.cpp reads.
const MAX_LEN: u64 = 1 << 30;

/// The number of values that justifies another thread.
const VALUES_FOR_A_THREAD: usize = 1 << 16;

/// The functions of the drop-in.
#[pymodule]
pub mod dropin {
    #[pymodule_export]
    use super::{decode, encode, encoders, scan_fields};
}

/// A key-value pair: the offsets of the pair and of its value, the length of the key, the type, and for arrays the type and the number of
/// their elements and, for strings, the offset of each.
type Row<'py> = (u64, u64, u64, u32, Option<u32>, u64, Option<Bound<'py, PyArray1<u64>>>);

/// Finds the key-values of a head.
///
/// `head` is the start of a file, or all of it (`whole`). `offset` is that of the first pair. Returns the pairs and the offset of their end,
/// or, if the head is too short, the number of bytes that it needs at least.
#[pyfunction]
#[pyo3(signature = (head, offset, count, *, big_endian, whole))]
fn scan_fields<'py>(
    py: Python<'py>,
    head: &[u8],
    offset: u64,
    count: u64,
    big_endian: bool,
    whole: bool,
) -> PyResult<(Option<Vec<Row<'py>>>, u64)> {
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
                field.strings.map(|offsets| offsets.into_pyarray(py)),
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
                format!("The file ends at {head_len} inside a key-value pair, which needs the bytes up to {need}; is the file truncated?")
            }
            Stop::TooLong { what, len, offset } => format!("{what} length {len} exceeds maximum {MAX_LEN} at offset {offset}"),
            Stop::UnknownType { ty, offset } => format!("{ty} is not a valid GGUFValueType, at offset {offset}"),
            Stop::TooDeep { offset } => format!("Arrays are nested deeper than {MAX_NESTING} levels at offset {offset}"),
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
                let mut offsets = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
                for _ in 0..len {
                    offsets.push(self.at);
                    self.string()?;
                }
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
    gguf_quants::codecs().iter().filter(|codec| codec.can_encode() && codec.matrix != Matrix::Required).map(|codec| codec.ty.0).collect()
}

/// Encodes rows of `row_len` values, on all cores.
#[pyfunction]
fn encode<'py>(py: Python<'py>, values: PyReadonlyArray1<'py, f32>, ty: u32, row_len: usize) -> PyResult<Bound<'py, PyArray1<u8>>> {
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

fn decode_blocks(codec: &Codec, packed: &[u8], values: &mut [f32], block_len: usize, block_bytes: usize) -> Result<(), CodecError> {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(values.len() / VALUES_FOR_A_THREAD);
    if threads < 2 {
        return codec.decode(packed, values);
    }
    let blocks = (values.len() / block_len).div_ceil(threads);
    thread::scope(|scope| {
        let parts = packed.chunks(blocks * block_bytes).zip(values.chunks_mut(blocks * block_len));
        let running: Vec<_> = parts.map(|(packed, values)| scope.spawn(|| codec.decode(packed, values))).collect();
        running.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn error(error: CodecError) -> PyErr {
    match error {
        CodecError::NoCodec(_) | CodecError::DecodeOnly(_) | CodecError::NeedsMatrix(_) => PyNotImplementedError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}
