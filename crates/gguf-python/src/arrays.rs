//! Arrays of NumPy as a source of tensor data.
#![allow(unsafe_code, reason = "reads the memory of arrays from threads that are detached from the interpreter")]

use std::fmt;
use std::slice;

use ggufkit::pipeline::{Error, Source};
use numpy::{PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The bytes of a contiguous array, which is kept alive.
pub struct Bytes {
    start: *const u8,
    len: usize,
    /// Owns the memory.
    _array: Py<PyArray1<u8>>,
}

// SAFETY: the memory belongs to the array, which any thread may keep alive and release; it is only read.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// The bytes of an array of uint8 in one dimension.
    pub fn of(array: &Bound<'_, PyAny>) -> PyResult<Bytes> {
        let array = array.cast::<PyArray1<u8>>()?;
        if !array.is_contiguous() {
            return Err(PyValueError::new_err("the array is not contiguous"));
        }
        Ok(Bytes { start: array.data(), len: array.len(), _array: array.clone().unbind() })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    fn copy_to(&self, offset: u64, buffer: &mut [u8]) -> Option<()> {
        if self.len == 0 {
            return buffer.is_empty().then_some(());
        }
        // SAFETY: `start` is the first of `len` bytes of a contiguous array, which `_array` keeps alive and NumPy does not move. `Writer.add`
        // states that the array must not change until the file is written; if it does, the values are undefined but stay bytes.
        let all = unsafe { slice::from_raw_parts(self.start, self.len) };
        let start = usize::try_from(offset).ok()?;
        buffer.copy_from_slice(all.get(start..start.checked_add(buffer.len())?)?);
        Some(())
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

/// The arrays of a file, each with the name of its tensor.
#[derive(Debug)]
pub struct Arrays(pub Vec<(String, Bytes)>);

impl Source for Arrays {
    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let found = self.0.get(index);
        let done = found.and_then(|(_, bytes)| bytes.copy_to(offset, buffer));
        done.ok_or_else(|| Error::OutOfTensor {
            tensor: found.map_or_else(|| format!("number {index}"), |(name, _)| name.clone()),
            bytes: found.map_or(0, |(_, bytes)| bytes.len() as u64),
        })
    }
}
