//! `Tensor`: its description, and its data as arrays.

use std::path::PathBuf;
use std::sync::Arc;

use ggufkit::io::{Tensor as View, TensorPlace};
use ggufkit::{ByteOrder, GgmlType};
use numpy::IntoPyArray;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice, PyTuple};

use crate::codec::{decode_into, threads, type_name};
use crate::error::raise;
use crate::model::Opened;
use crate::remote::Place;
use crate::value::text;

/// A tensor of a model. Its data is read when it is asked for.
///
/// `shape` is in the order of NumPy: the last dimension is the contiguous one. The file states the dimensions in the opposite order.
#[pyclass(frozen, module = "ggufkit")]
pub struct Tensor {
    opened: Arc<Opened>,
    place: TensorPlace,
}

/// The type of NumPy with the same values as a tensor type, without its byte order.
fn plain(ty: GgmlType) -> Option<&'static str> {
    Some(match ty {
        GgmlType::F32 => "f4",
        GgmlType::F16 => "f2",
        GgmlType::F64 => "f8",
        GgmlType::I8 => "i1",
        GgmlType::I16 => "i2",
        GgmlType::I32 => "i4",
        GgmlType::I64 => "i8",
        _ => return None,
    })
}

/// A part of the first dimension.
enum Part {
    All,
    Slice { first: u64, n: u64 },
    One(u64),
}

impl Tensor {
    pub fn new(opened: Arc<Opened>, place: TensorPlace) -> PyResult<Tensor> {
        match opened.model.tensor_at(place) {
            Some(_) => Ok(Tensor { opened, place }),
            None => Err(PyIndexError::new_err("no tensor with this index")),
        }
    }

    #[expect(clippy::expect_used, reason = "the place was found in the model, which is immutable")]
    fn view(&self) -> View<'_> {
        self.opened.model.tensor_at(self.place).expect("a tensor of the model")
    }

    fn dims(&self) -> Vec<u64> {
        self.view().shape().collect()
    }

    /// The rows and the shape of a part.
    fn part(&self, part: &Part) -> PyResult<(View<'_>, Vec<u64>)> {
        let mut shape: Vec<u64> = self.dims().into_iter().rev().collect();
        let view = self.view();
        if let Part::All = part {
            return Ok((view, shape));
        }
        if shape.len() < 2 {
            return Err(PyIndexError::new_err("a tensor of one dimension has one row; slice its array instead"));
        }
        // Rows of the last dimension in one element of the first.
        let inner: u64 = shape.iter().rev().skip(1).take(shape.len() - 2).product();
        let (first, n) = match part {
            Part::One(first) => {
                shape.remove(0);
                (*first, 1)
            }
            Part::Slice { first, n } => {
                if let Some(outer) = shape.first_mut() {
                    *outer = *n;
                }
                (*first, *n)
            }
            Part::All => (0, 0),
        };
        let rows =
            view.rows(first.saturating_mul(inner)..first.saturating_add(n).saturating_mul(inner)).map_err(raise)?;
        Ok((rows, shape))
    }

    /// The part that `rows` names: None, an index, or a slice with a step of 1.
    fn part_of(&self, rows: Option<&Bound<'_, PyAny>>) -> PyResult<Part> {
        let Some(rows) = rows.filter(|rows| !rows.is_none()) else { return Ok(Part::All) };
        let outer = if self.dims().len() > 1 { self.dims().last().copied().unwrap_or(1) } else { 1 };
        if let Ok(slice) = rows.cast::<PySlice>() {
            let slice = slice.indices(isize::try_from(outer).unwrap_or(isize::MAX))?;
            if slice.step != 1 {
                return Err(PyValueError::new_err("rows must be consecutive: a slice with a step of 1"));
            }
            return Ok(Part::Slice { first: slice.start.unsigned_abs() as u64, n: slice.slicelength as u64 });
        }
        let index: i64 = rows.extract()?;
        let at = if index < 0 { u64::try_from(index.saturating_add_unsigned(outer)) } else { u64::try_from(index) };
        let at = at.ok().filter(|at| *at < outer);
        at.map(Part::One).ok_or_else(|| PyIndexError::new_err(format!("row {index} of {outer}")))
    }

    /// The stored bytes of rows, in one dimension: a view of the mapped file, or a copy of a remote one.
    fn stored<'py>(&self, py: Python<'py>, rows: &View<'_>) -> PyResult<Bound<'py, PyAny>> {
        let range = rows.byte_range().map_err(raise)?;
        let start = rows.file().start();
        match self.opened.map(py, self.place.file)? {
            Some(map) => map.get_item(PySlice::new(
                py,
                isize::try_from(start + range.start)?,
                isize::try_from(start + range.end)?,
                1,
            )),
            None => Ok(py.detach(|| rows.read()).map_err(raise)?.into_pyarray(py).into_any()),
        }
    }
}

#[pymethods]
impl Tensor {
    /// The name.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyString>> {
        text(py, self.view().name())
    }

    /// The type: `F32`, `Q4_K`.
    #[getter]
    fn r#type(&self) -> String {
        type_name(self.view().ty())
    }

    /// The dimensions in the order of NumPy: the last one is contiguous.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.dims().into_iter().rev())
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> u64 {
        self.dims().iter().fold(1, |n, dim| n.saturating_mul(*dim))
    }

    /// Bytes of the stored data.
    #[getter]
    fn nbytes(&self) -> PyResult<u64> {
        self.view().n_bytes().map_err(raise)
    }

    /// The offset of the data in its file.
    #[getter]
    fn offset(&self) -> PyResult<u64> {
        let view = self.view();
        Ok(view.file().start() + view.byte_range().map_err(raise)?.start)
    }

    /// The file with the data.
    #[getter]
    fn file(&self) -> Place {
        Place(self.view().file().path().to_owned())
    }

    /// The stored bytes: an array of uint8, of shape (..., bytes of a row). It is a read-only view of the mapped file; a copy if the model is
    /// remote. `rows` is an index or a slice of the first dimension.
    #[pyo3(signature = (rows = None))]
    fn raw<'py>(&self, py: Python<'py>, rows: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let (view, mut shape) = self.part(&self.part_of(rows.as_ref())?)?;
        let stored = self.stored(py, &view)?;
        let n_rows: u64 = shape.iter().rev().skip(1).product();
        let n_bytes = view.n_bytes().map_err(raise)?;
        match shape.last_mut() {
            Some(last) => *last = n_bytes.checked_div(n_rows).unwrap_or(0),
            None => shape.push(n_bytes),
        }
        stored.call_method1("reshape", (shape,))
    }

    /// The values.
    ///
    /// F32, F16, F64 and integers are a read-only view of the mapped file, in their own type; a copy if the model is remote. All other types are
    /// decoded to float32, with the bits of ggml. `rows` is an index or a slice of the first dimension: only these rows are read. `dtype`
    /// converts the result. `out` is a contiguous array of float32 with as many elements, which is filled and returned.
    #[pyo3(signature = (rows = None, *, dtype = None, out = None, threads = None))]
    fn numpy<'py>(
        &self,
        py: Python<'py>,
        rows: Option<Bound<'py, PyAny>>,
        dtype: Option<Bound<'py, PyAny>>,
        out: Option<Bound<'py, PyAny>>,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let threads = self::threads(threads)?;
        let (view, shape) = self.part(&self.part_of(rows.as_ref())?)?;
        let is_big = view.file().gguf().dialect().order == ByteOrder::Big;
        let shape = shape.into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>()?;
        if let Some(code) = plain(view.ty()).filter(|_| out.is_none()) {
            let order = if is_big { ">" } else { "<" };
            let values = self.stored(py, &view)?.call_method1("view", (format!("{order}{code}"),))?;
            let values = values.call_method1("reshape", (shape,))?;
            return match dtype {
                None => Ok(values),
                Some(dtype) => values.call_method1("astype", (dtype,)),
            };
        }
        if is_big {
            let packed = py.detach(|| view.bytes()).map_err(raise)?;
            return decode_into(py, view.ty(), &packed, &shape, dtype, out, threads);
        }
        let stored = self.stored(py, &view)?;
        let packed: numpy::PyReadonlyArray1<'_, u8> = stored.extract()?;
        decode_into(py, view.ty(), packed.as_slice()?, &shape, dtype, out, threads)
    }

    /// The values as a tensor of PyTorch: `numpy()`, without a copy where it is a view; BF16 stays bfloat16. `dtype` is a type of PyTorch or
    /// its name.
    #[pyo3(signature = (dtype = None, *, rows = None))]
    fn torch<'py>(
        this: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        rows: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("ggufkit._torch")?.call_method1("tensor", (this, dtype, rows))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, rows: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.numpy(py, Some(rows), None, None, None)
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(usize::try_from(self.dims().last().copied().unwrap_or(1))?)
    }

    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) && plain(self.view().ty()).is_none() {
            return Err(PyValueError::new_err("the values must be decoded, which copies them"));
        }
        let values = self.numpy(py, None, dtype, None, None)?;
        if copy == Some(true) { values.call_method0("copy") } else { Ok(values) }
    }

    /// The values for other libraries of arrays, as `numpy()` returns them; copied if they are a view of the file, which is read-only.
    #[pyo3(signature = (**options))]
    fn __dlpack__<'py>(&self, py: Python<'py>, options: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        let values = self.numpy(py, None, None, None, None)?;
        let is_view = !values.getattr("flags")?.getattr("writeable")?.is_truthy()?;
        let values = if is_view { values.call_method0("copy")? } else { values };
        values.call_method("__dlpack__", (), options)
    }

    /// The CPU.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (1, 0)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Place, usize, u64))> {
        let again = py.import("ggufkit")?.getattr("_native")?.getattr("tensor_of")?;
        Ok((again, (Place(self.opened.path.clone()), self.place.file, self.place.index)))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<Tensor {}: {} {}>", self.name(py)?, self.r#type(), self.shape(py)?.repr()?))
    }
}

/// Opens the tensor of a pickle.
#[pyfunction]
pub fn tensor_of(py: Python<'_>, path: PathBuf, file: usize, index: u64) -> PyResult<Tensor> {
    crate::model::open(py, path)?.at(TensorPlace { file, index })
}
