//! `Writer`: a new file from arrays.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ggufkit::edit::split_converted;
use ggufkit::pipeline::Importance;
use ggufkit::pipeline::plan::{Entry, Input, Op, Reason, Rounding, TensorPlan};
use ggufkit::{Draft, Head, RunOptions};
use numpy::PyReadonlyArray1;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::arrays::{Arrays, Bytes};
use crate::codec::{tensor_type, threads, type_name};
use crate::error::raise;
use crate::metadata::Metadata;
use crate::plan::bytes_of_size;
use crate::progress;
use crate::remote::{Outputs, Place};
use crate::value::{object, text, value};

/// Writes a new GGUF file: metadata as a mapping, and tensors from arrays.
///
/// The file is written when `close` is called, or at the end of a `with` block that no exception leaves, and appears when it is complete.
/// Tensors are encoded then, on all cores. With `max_shard`, the output is split into files of at most as many bytes of tensor data.
#[pyclass(frozen, mapping, module = "ggufkit")]
pub struct Writer {
    path: PathBuf,
    outputs: Outputs,
    max_shard: Option<NonZeroU64>,
    force: bool,
    /// None when the file is written, or the writer discarded.
    state: Mutex<Option<State>>,
}

#[derive(Default)]
struct State {
    head: Head,
    tensors: Vec<TensorPlan>,
    names: HashMap<String, usize>,
    arrays: Vec<(String, Bytes)>,
    importance: HashMap<Vec<u8>, Vec<f32>>,
}

/// The importance of columns, by the name of the tensor.
#[derive(Debug)]
struct Columns(HashMap<Vec<u8>, Vec<f32>>);

impl Importance for Columns {
    fn weights(&self, entry: &[u8], columns: Range<u64>) -> Result<Option<Vec<f32>>, ggufkit::pipeline::Error> {
        let range = usize::try_from(columns.start).ok().zip(usize::try_from(columns.end).ok());
        let all = self.0.get(entry).zip(range);
        // All matrices of a tensor have the same importance.
        Ok(all.and_then(|(all, (start, end))| {
            let start = start % all.len().max(1);
            Some(all.get(start..start.checked_add(end.checked_sub(columns.start.try_into().ok()?)?)?)?.to_vec())
        }))
    }
}

impl Writer {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> PyResult<T>) -> PyResult<T> {
        work(self.lock().as_mut().ok_or_else(|| PyValueError::new_err("the writer is closed"))?)
    }

    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Writer {
    #[new]
    #[pyo3(signature = (path, arch = None, *, max_shard = None, force = false))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        arch: Option<&str>,
        max_shard: Option<Bound<'_, PyAny>>,
        force: bool,
    ) -> PyResult<Writer> {
        let outputs = Outputs::of(py, &path)?;
        if !force && max_shard.is_none() && path.exists() {
            return Err(raise(ggufkit::io::Error::Exists(path)));
        }
        let mut state = State::default();
        if let Some(arch) = arch {
            state.head.set("general.architecture", arch);
        }
        let max_shard = max_shard.map(|size| bytes_of_size(&size)).transpose()?;
        Ok(Writer { path, outputs, max_shard, force, state: Mutex::new(Some(state)) })
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        self.with(|state| object(py, state.head.get(key).ok_or_else(|| PyKeyError::new_err(key.to_owned()))?))
    }

    fn __contains__(&self, key: &str) -> PyResult<bool> {
        self.with(|state| Ok(state.head.get(key).is_some()))
    }

    fn __len__(&self) -> PyResult<usize> {
        self.with(|state| Ok(state.head.kvs.len()))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.keys(py)?.try_iter()?.into_any())
    }

    /// The keys.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        self.with(|state| state.head.kvs.iter().try_for_each(|kv| list.append(text(py, ggufkit::Str(&kv.key))?)))?;
        Ok(list)
    }

    fn __setitem__(&self, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(key, value, None)
    }

    fn __delitem__(&self, key: &str) -> PyResult<()> {
        self.with(|state| match state.head.remove(key) {
            true => Ok(()),
            false => Err(PyKeyError::new_err(key.to_owned())),
        })
    }

    /// Sets a key, to a value of the given type: `u32`, `f32`, `string`, `[string]`.
    ///
    /// Without one, the type is that of a NumPy scalar or array, else that of the table of known keys. Other keys need one, unless the value is
    /// a string, a boolean, or a list of them.
    #[pyo3(signature = (key, value, r#type = None))]
    fn set(&self, key: &str, value: &Bound<'_, PyAny>, r#type: Option<&str>) -> PyResult<()> {
        self.with(|state| {
            let value = self::value(key, value, r#type, &state.head)?;
            state.head.set(key, value);
            Ok(())
        })
    }

    /// Sets the keys of a mapping. Those of a model's metadata keep their types.
    fn update(&self, values: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(metadata) = values.cast::<Metadata>() {
            return self.with(|state| {
                for kv in metadata.get().model.gguf().kvs() {
                    let key = kv.key.to_str().map_err(|_| PyValueError::new_err(format!("{}: not UTF-8", kv.key)))?;
                    state.head.set(key, kv.value);
                }
                Ok(())
            });
        }
        for pair in values.call_method0("items")?.try_iter()? {
            let (key, value): (String, Bound<'_, PyAny>) = pair?.extract()?;
            self.set(&key, &value, None)?;
        }
        Ok(())
    }

    /// Adds a tensor.
    ///
    /// `array` is an array of NumPy or a tensor of PyTorch with float32, float16, bfloat16, float64 or integers; a `Tensor` of
    /// a model; or encoded bytes of uint8, as `quantize` and `Tensor.raw` return them, with their `type`. `type` is the type in the file, by default the array's own. `imatrix` has the
    /// importance of the columns. The array is not copied if it is contiguous: it must not change before the file is written.
    #[pyo3(signature = (name, array, r#type = None, *, imatrix = None))]
    fn add(
        &self,
        py: Python<'_>,
        name: &str,
        array: Bound<'_, PyAny>,
        r#type: Option<&str>,
        imatrix: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let ty = r#type.map(tensor_type).transpose()?;
        let prepared = py.import("ggufkit._arrays")?.call_method1("prepared", (array, ty.map(type_name)))?;
        let (bytes, shape, from, is_encoded): (Bound<'_, PyAny>, Vec<u64>, String, bool) = prepared.extract()?;
        let (bytes, from) = (Bytes::of(&bytes)?, tensor_type(&from)?);
        let ty = ty.unwrap_or(from);
        let mut dims: Vec<u64> = shape.into_iter().rev().collect();
        if is_encoded {
            // The shape is that of the encoded rows.
            let info = from.info().ok_or_else(|| PyValueError::new_err("the type has no known size"))?;
            let row = dims.first_mut().ok_or_else(|| PyValueError::new_err(format!("{name}: no dimensions")))?;
            if *row % u64::from(info.block_bytes) != 0 {
                let message = format!("{name}: rows of {row} bytes are not whole blocks of {from}");
                return Err(PyValueError::new_err(message));
            }
            *row = *row / u64::from(info.block_bytes) * u64::from(info.block_len);
        }
        let stored = from.tensor_bytes(dims.iter().copied()).map_err(raise)?;
        if stored != bytes.len() as u64 {
            return Err(PyValueError::new_err(format!("{name}: {} bytes, expected {stored}", bytes.len())));
        }
        ty.tensor_bytes(dims.iter().copied()).map_err(|e| PyValueError::new_err(format!("{name}: {e}")))?;
        let weights = match imatrix {
            None => None,
            Some(weights) => {
                let numpy = py.import("numpy")?;
                let weights: PyReadonlyArray1<'_, f32> =
                    numpy.call_method1("ascontiguousarray", (weights, "f4"))?.extract()?;
                let weights = weights.as_slice()?.to_vec();
                let columns = dims.first().copied().unwrap_or(1);
                if weights.len() as u64 != columns {
                    let message = format!("{name}: imatrix has {} numbers, expected {columns}", weights.len());
                    return Err(PyValueError::new_err(message));
                }
                Some(weights)
            }
        };
        self.with(|state| {
            if state.names.contains_key(name) {
                return Err(PyValueError::new_err(format!("{name}: there is already a tensor with this name")));
            }
            let index = state.arrays.len();
            let op = Op::Copy(Input::new(index, name, from));
            let mut tensor = TensorPlan::new(name.as_bytes(), dims, ty, Reason::Asked, op);
            if let Some(weights) = weights {
                tensor.importance = Some(Box::new(Entry(name.as_bytes().into())));
                state.importance.insert(name.as_bytes().to_vec(), weights);
            }
            state.names.insert(name.to_owned(), index);
            state.tensors.push(tensor);
            state.arrays.push((name.to_owned(), bytes));
            Ok(())
        })
    }

    /// Writes the file, and returns the paths of its shards. `progress` is as that of `Plan.run`.
    #[pyo3(signature = (*, progress = None, threads = None))]
    fn close(
        &self,
        py: Python<'_>,
        progress: Option<Bound<'_, PyAny>>,
        threads: Option<usize>,
    ) -> PyResult<Vec<Place>> {
        let options = RunOptions::default().threads(self::threads(threads)?).force(self.force);
        let Some(state) = self.lock().take() else { return Ok(Vec::new()) };
        let draft = Draft {
            path: self.path.clone(),
            head: state.head,
            tensors: state.tensors,
            source: Arc::new(Arrays(state.arrays)),
            rounding: Rounding::Ggml,
            importance: Some(Arc::new(Columns(state.importance))),
            inputs: Vec::new(),
            input_bytes: None,
            is_split: false,
            is_vocab_only: false,
        };
        progress::run(py, progress.as_ref(), |progress| {
            let mut plan = draft.lay_out()?;
            if let Some(bytes) = self.max_shard {
                plan = split_converted(plan, None, Some(bytes))?.0;
            }
            Ok(self.outputs.run(&plan, &self.path, options, progress)?.paths.into_iter().map(Place).collect())
        })
    }

    /// Discards everything; nothing is written.
    fn discard(&self) {
        let state = self.lock().take();
        drop(state);
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (class, *_exception))]
    fn __exit__(&self, py: Python<'_>, class: &Bound<'_, PyAny>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        if class.is_none() {
            return self.close(py, None, None).map(drop);
        }
        self.discard();
        Ok(())
    }

    fn __repr__(&self) -> String {
        let path = ggufkit::io::shown_path(&self.path);
        match &*self.lock() {
            Some(state) => format!("<Writer {path}: {} keys, {} tensors>", state.head.kvs.len(), state.tensors.len()),
            None => format!("<Writer {path}, closed>"),
        }
    }
}
