//! `open` and `Model`.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use ggufkit::io::TensorPlace;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::codec::type_name;
use crate::error::raise;
use crate::metadata::Metadata;
use crate::remote::{self, ModelPath, Place};
use crate::tensor::Tensor;
use crate::value::text;

/// An open model, and its files as arrays.
#[derive(Debug)]
pub struct Opened {
    pub model: Arc<ggufkit::Model>,
    /// The path or URL that it was opened by.
    pub path: PathBuf,
    pub is_local: bool,
    /// Each file as an array of bytes that is mapped into memory, made when a tensor of it is asked for.
    maps: Vec<OnceLock<Py<PyAny>>>,
}

impl Opened {
    /// A local file as a read-only array of bytes, mapped into memory.
    pub fn map<'py>(&self, py: Python<'py>, file: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (Some(map), Some(opened)) = (self.maps.get(file), self.model.files().get(file)) else { return Ok(None) };
        if !self.is_local {
            return Ok(None);
        }
        if let Some(map) = map.get() {
            return Ok(Some(map.bind(py).clone()));
        }
        let numpy = py.import("numpy")?;
        let arguments = PyDict::new(py);
        arguments.set_item("dtype", "u1")?;
        arguments.set_item("mode", "r")?;
        let mapped = numpy.getattr("memmap")?.call((opened.path(),), Some(&arguments))?;
        // A plain array: slices of it take a tenth of the time of those of a memmap.
        let plain = mapped.call_method1("view", (numpy.getattr("ndarray")?,))?;
        Ok(Some(map.get_or_init(|| plain.unbind()).bind(py).clone()))
    }
}

/// Opens a model with all its shards: by its path, that of its first shard, or a URL (`https://`, `hf:org/repo/file.gguf`,
/// and `s3://`, `gs://` or `az://` for objects of stores). `hf:org/repo`, or a folder in it, stands for the only model that it has.
///
/// Only the head is read; data of tensors is read when it is asked for. Raises `FormatError` for a file that cannot be read as GGUF.
#[pyfunction]
#[pyo3(signature = (path))]
pub fn open(py: Python<'_>, path: PathBuf) -> PyResult<Model> {
    let place = remote::locate(py, path.clone())?;
    let model = py.detach(|| remote::model(&place)).map_err(raise)?;
    let is_local = matches!(place, ModelPath::Local(_));
    let maps = model.files().iter().map(|_| OnceLock::new()).collect();
    Ok(Model { opened: RwLock::new(Some(Arc::new(Opened { model: Arc::new(model), path, is_local, maps }))) })
}

/// A model: its metadata, and its tensors by name.
///
/// It is a mapping from names to `Tensor`, and a context manager. Threads can share it. Pickling and copying open the model again.
#[pyclass(frozen, mapping, module = "ggufkit")]
pub struct Model {
    opened: RwLock<Option<Arc<Opened>>>,
}

impl Model {
    fn opened(&self) -> PyResult<Arc<Opened>> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        opened.clone().ok_or_else(|| PyValueError::new_err("the model is closed"))
    }

    /// The tensor at a place.
    pub fn at(&self, place: TensorPlace) -> PyResult<Tensor> {
        Tensor::new(self.opened()?, place)
    }
}

#[pymethods]
impl Model {
    /// The path or URL that the model was opened by.
    #[getter]
    fn path(&self) -> PyResult<Place> {
        Ok(Place(self.opened()?.path.clone()))
    }

    /// The files, in the order of their shards.
    #[getter]
    fn files(&self) -> PyResult<Vec<Place>> {
        Ok(self.opened()?.model.files().iter().map(|file| Place(file.path().to_owned())).collect())
    }

    /// The size of all files, in bytes.
    #[getter]
    fn file_bytes(&self) -> PyResult<u64> {
        Ok(self.opened()?.model.file_bytes())
    }

    /// The value of the key `general.architecture`; None if the model does not have it.
    #[getter]
    fn architecture(&self) -> PyResult<Option<String>> {
        Ok(self.opened()?.model.gguf().get_as::<&str>("general.architecture").ok().map(str::to_owned))
    }

    /// The metadata: a mapping.
    #[getter]
    fn metadata(&self) -> PyResult<Metadata> {
        Ok(Metadata { model: Arc::clone(&self.opened()?.model) })
    }

    /// The number of elements of all tensors.
    #[getter]
    fn parameters(&self) -> PyResult<u64> {
        Ok(ggufkit::summary(&self.opened()?.model).n_params)
    }

    /// The version of GGUF.
    #[getter]
    fn version(&self) -> PyResult<u32> {
        Ok(self.opened()?.model.gguf().dialect().version.number())
    }

    /// The byte order: `little` or `big`, as `sys.byteorder`.
    #[getter]
    fn byteorder(&self) -> PyResult<&'static str> {
        Ok(match self.opened()?.model.gguf().dialect().order {
            ggufkit::ByteOrder::Little => "little",
            ggufkit::ByteOrder::Big => "big",
        })
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.opened()?.model.tensors().count())
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let opened = self.opened()?;
        let Ok(name) = name.cast::<PyString>() else { return Ok(false) };
        Ok(name.to_str().is_ok_and(|name| opened.model.locate(name).is_some()))
    }

    fn __getitem__(&self, name: &str) -> PyResult<Tensor> {
        let opened = self.opened()?;
        let Some(place) = opened.model.locate(name) else {
            let error = opened.model.tensor(name).err();
            return Err(error.map_or_else(|| PyValueError::new_err("no tensor"), raise));
        };
        Tensor::new(opened, place)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.keys(py)?.try_iter()?.into_any())
    }

    /// The names of the tensors, in the order of the files.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for tensor in self.opened()?.model.tensors() {
            list.append(text(py, tensor.name())?)?;
        }
        Ok(list)
    }

    /// The tensors, in the order of the files.
    fn values(&self) -> PyResult<Vec<Tensor>> {
        let opened = self.opened()?;
        let files = opened.model.files().iter().enumerate();
        let places =
            files.flat_map(|(file, f)| (0..f.gguf().n_tensors()).map(move |index| TensorPlace { file, index }));
        places.map(|place| Tensor::new(Arc::clone(&opened), place)).collect()
    }

    /// The names with their tensors, in the order of the files.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for (name, tensor) in self.keys(py)?.iter().zip(self.values()?) {
            list.append((name, tensor))?;
        }
        Ok(list)
    }

    /// The tensor with a name, or `default` if the model does not have it.
    #[pyo3(signature = (name, default = None))]
    fn get<'py>(&self, py: Python<'py>, name: &str, default: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let opened = self.opened()?;
        match opened.model.locate(name) {
            Some(place) => Ok(Bound::new(py, Tensor::new(opened, place)?)?.into_any()),
            None => Ok(default.unwrap_or_else(|| py.None().into_bound(py))),
        }
    }

    /// Closes the files. Tensors and arrays that were taken from the model remain valid, and keep their file open.
    fn close(&self) {
        let opened = self.opened.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(opened);
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.close();
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Place,))> {
        Ok((py.import("ggufkit")?.getattr("open")?, (Place(self.opened()?.path.clone()),)))
    }

    fn _repr_html_<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("ggufkit._html")?.call_method1("model", (this,))
    }

    fn __repr__(&self) -> String {
        let Ok(opened) = self.opened() else { return "<Model, closed>".into() };
        let summary = ggufkit::summary(&opened.model);
        let types: Vec<String> = summary.types.iter().take(3).map(|share| type_name(share.ty)).collect();
        let arch = summary.architecture.as_deref().unwrap_or("unknown architecture");
        let path = ggufkit::io::shown_path(&opened.path);
        format!(
            "<Model {path}: {arch}, {} tensors, {} parameters, {}>",
            summary.n_tensors,
            summary.n_params,
            types.join(" + ")
        )
    }
}
