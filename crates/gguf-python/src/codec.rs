//! `quantize` and `dequantize`: arrays of NumPy, on all cores.

use std::num::NonZeroUsize;

use ggufkit::GgmlType;
use ggufkit::quants;
use numpy::{IntoPyArray, PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::raise;

/// The type with a name such as `Q4_K`, in any case.
pub fn tensor_type(name: &str) -> PyResult<GgmlType> {
    GgmlType::from_name(&name.to_ascii_lowercase()).ok_or_else(|| {
        PyValueError::new_err(format!("{name:?} is not a tensor type; expected one of ggufkit.tensor_types()"))
    })
}

/// A type's name as it is written in Python: `Q4_K`.
pub fn type_name(ty: GgmlType) -> String {
    ty.to_string().to_ascii_uppercase()
}

/// Threads to use, from an argument.
pub fn threads(n: Option<usize>) -> PyResult<Option<NonZeroUsize>> {
    match n {
        None => Ok(None),
        Some(n) => NonZeroUsize::new(n).map(Some).ok_or_else(|| PyValueError::new_err("threads must be at least 1")),
    }
}

/// A contiguous array of `f32` in one dimension, copied only if it is not one, with its shape.
fn floats<'py>(array: &Bound<'py, PyAny>) -> PyResult<(PyReadonlyArray1<'py, f32>, Vec<usize>)> {
    let numpy = array.py().import("numpy")?;
    let array = numpy.call_method1("ascontiguousarray", (array, "f4"))?;
    let shape = array.cast::<PyArrayDyn<f32>>()?.shape().to_vec();
    let flat: PyReadonlyArray1<'_, f32> = array.call_method1("reshape", (-1,))?.extract()?;
    Ok((flat, shape))
}

/// A contiguous array of bytes in one dimension, with its shape.
fn bytes<'py>(array: &Bound<'py, PyAny>) -> PyResult<(PyReadonlyArray1<'py, u8>, Vec<usize>)> {
    let numpy = array.py().import("numpy")?;
    let array = numpy.call_method1("ascontiguousarray", (array,))?;
    if array.getattr("dtype")?.getattr("itemsize")?.extract::<usize>()? != 1 {
        let found = array.getattr("dtype")?;
        return Err(PyTypeError::new_err(format!("encoded values are an array of uint8, not of {found}")));
    }
    let array = array.call_method1("view", ("u1",))?;
    let shape = array.cast::<PyArrayDyn<u8>>()?.shape().to_vec();
    let flat: PyReadonlyArray1<'_, u8> = array.call_method1("reshape", (-1,))?.extract()?;
    Ok((flat, shape))
}

/// Encodes values as ggml does, byte for byte.
///
/// `x` is an array of any shape (..., n), converted to float32; each of its rows of n values becomes whole blocks. The result is uint8 of
/// shape (..., bytes of a row). `imatrix` has n numbers, the importance of the columns, which some types require. `threads` are all cores
/// by default; the bytes do not depend on it.
///
/// Raises ValueError for an unknown type, rows that are not whole blocks, or a missing `imatrix`.
#[pyfunction]
#[pyo3(signature = (x, r#type, *, imatrix = None, threads = None))]
pub fn quantize<'py>(
    py: Python<'py>,
    x: Bound<'py, PyAny>,
    r#type: &str,
    imatrix: Option<Bound<'py, PyAny>>,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let (ty, threads) = (tensor_type(r#type)?, self::threads(threads)?);
    let (values, mut shape) = floats(&x)?;
    let weights = imatrix.as_ref().map(floats).transpose()?.map(|(weights, _)| weights);
    let row_len = shape.last().copied().unwrap_or(1);
    let (values, weights) = (values.as_slice()?, weights.as_ref().map(|w| w.as_slice()).transpose()?);
    let packed = py.detach(|| quants::quantize(ty, values, row_len, weights, threads)).map_err(raise)?;
    let n_rows: usize = shape.iter().rev().skip(1).product();
    match shape.last_mut() {
        Some(last) => *last = packed.len().checked_div(n_rows).unwrap_or(0),
        None => shape.push(packed.len()),
    }
    packed.into_pyarray(py).call_method1("reshape", (shape,))
}

/// Decodes values, with the same bits as ggml.
///
/// `q` is an array of uint8 of shape (..., bytes of a row), as `quantize` returns it. The result has shape (..., n) and `dtype` float32,
/// float16 or float64. `out` is a contiguous array of float32 with as many elements, which is filled and returned.
#[pyfunction]
#[pyo3(signature = (q, r#type, *, dtype = None, out = None, threads = None))]
pub fn dequantize<'py>(
    py: Python<'py>,
    q: Bound<'py, PyAny>,
    r#type: &str,
    dtype: Option<Bound<'py, PyAny>>,
    out: Option<Bound<'py, PyAny>>,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let (ty, threads) = (tensor_type(r#type)?, self::threads(threads)?);
    let (packed, mut shape) = bytes(&q)?;
    let info = ty.info().ok_or_else(|| PyValueError::new_err(format!("{ty} has no known size")))?;
    let row_bytes = shape.last().copied().unwrap_or(0);
    if row_bytes % info.block_bytes as usize != 0 {
        let message =
            format!("rows of {row_bytes} bytes are not whole blocks of {ty}, which have {} bytes", info.block_bytes);
        return Err(PyValueError::new_err(message));
    }
    if let Some(last) = shape.last_mut() {
        *last = row_bytes / info.block_bytes as usize * info.block_len as usize;
    }
    decode_into(py, ty, packed.as_slice()?, &shape, dtype, out, threads)
}

/// Decodes into `out`, or a new array.
pub fn decode_into<'py>(
    py: Python<'py>,
    ty: GgmlType,
    packed: &[u8],
    shape: &[usize],
    dtype: Option<Bound<'py, PyAny>>,
    out: Option<Bound<'py, PyAny>>,
    threads: Option<NonZeroUsize>,
) -> PyResult<Bound<'py, PyAny>> {
    let n: usize = shape.iter().product();
    if let Some(out) = out {
        fill(py, &out, n, |values| quants::dequantize_into(ty, packed, values, threads).map_err(raise))?;
        return Ok(out);
    }
    let array = PyArray1::<f32>::zeros(py, n, false);
    fill(py, &array, n, |values| quants::dequantize_into(ty, packed, values, threads).map_err(raise))?;
    let array = array.call_method1("reshape", (shape.to_vec(),))?;
    match dtype {
        None => Ok(array),
        Some(dtype) => array.call_method1("astype", (dtype,)),
    }
}

/// Fills a contiguous array of `f32` with `n` elements, detached from the interpreter.
fn fill(
    py: Python<'_>,
    out: &Bound<'_, PyAny>,
    n: usize,
    work: impl FnOnce(&mut [f32]) -> PyResult<()> + Send,
) -> PyResult<()> {
    let array = out.cast::<PyArrayDyn<f32>>().map_err(|_| PyTypeError::new_err("out must be an array of float32"))?;
    let mut array = array.try_readwrite()?;
    let values = array.as_slice_mut().map_err(|_| PyValueError::new_err("out must be contiguous"))?;
    if values.len() != n {
        return Err(PyValueError::new_err(format!("out has {} elements, {n} are needed", values.len())));
    }
    py.detach(|| work(values))
}

/// The tensor types: name to (values of a block, bytes of a block).
#[pyfunction]
pub fn tensor_types(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let types = PyDict::new(py);
    for info in ggufkit::format::TYPES.iter().filter(|info| !info.removed) {
        types.set_item(info.name.to_ascii_uppercase(), (info.block_len, info.block_bytes))?;
    }
    Ok(types)
}
