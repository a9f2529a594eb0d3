//! The key-values of a model: `Metadata`, a mapping, and `Array`, a sequence that is read on demand.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use ggufkit::format::ArrayRef;
use ggufkit::{ByteOrder, Gguf, KvRef, Model, Str, ValueRef};
use pyo3::exceptions::{PyIndexError, PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyString, PyTuple};

use crate::value::{dtype, list, object, text, type_name};

/// Elements in a representation.
const SHOWN: u64 = 5;

/// The metadata of a model: a read-only mapping from keys to values.
///
/// Numbers, strings and booleans are Python's; an array is an `Array`, whose elements are read on demand. Strings that are not UTF-8 have
/// surrogates (`surrogateescape`). If a key is in the file several times, its value is that of the first.
#[pyclass(frozen, mapping, module = "ggufkit")]
pub struct Metadata {
    pub model: Arc<Model>,
}

impl Metadata {
    fn gguf(&self) -> &Gguf<'static> {
        self.model.gguf()
    }

    fn value<'py>(&self, py: Python<'py>, kv: KvRef<'_>) -> PyResult<Bound<'py, PyAny>> {
        match kv.value {
            ValueRef::Array(_) => {
                let array = Array { model: Arc::clone(&self.model), index: kv.index, strings: OnceLock::new() };
                Ok(Bound::new(py, array)?.into_any())
            }
            value => object(py, value),
        }
    }

    fn found(&self, key: &Bound<'_, PyAny>) -> Option<KvRef<'_>> {
        let key = key.cast::<PyString>().ok()?;
        self.gguf().kv(key.to_str().ok()?)
    }
}

#[pymethods]
impl Metadata {
    fn __len__(&self) -> usize {
        usize::try_from(self.gguf().n_kv()).unwrap_or(usize::MAX)
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> bool {
        self.found(key).is_some()
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self.found(key) {
            Some(kv) => self.value(key.py(), kv),
            None => {
                let name = key.str()?;
                let near = ggufkit::io::nearest(name.to_str().unwrap_or_default(), self.gguf().kvs().map(|kv| kv.key));
                let advice =
                    if near.is_empty() { String::new() } else { format!("; similar keys: {}", near.join(", ")) };
                Err(PyKeyError::new_err(format!("{name}{advice}")))
            }
        }
    }

    /// The value of a key, or `default` if the model does not have it.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(&self, key: &Bound<'py, PyAny>, default: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        match self.found(key) {
            Some(kv) => self.value(key.py(), kv),
            None => Ok(default.unwrap_or_else(|| key.py().None().into_bound(key.py()))),
        }
    }

    /// The value of a key of the model's architecture: `for_arch("context_length")` is that of `llama.context_length` in a Llama. `default` if
    /// the model does not have it.
    #[pyo3(signature = (key, default = None))]
    fn for_arch<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arch = self.gguf().get_as::<&str>("general.architecture").unwrap_or_default();
        match self.gguf().kv(&format!("{arch}.{key}")) {
            Some(kv) => self.value(py, kv),
            None => Ok(default.unwrap_or_else(|| py.None().into_bound(py))),
        }
    }

    /// The type of a key's value: `u32`, `string`, `[f32]`.
    fn type_of(&self, key: &Bound<'_, PyAny>) -> PyResult<String> {
        let kv = self.found(key).ok_or_else(|| PyKeyError::new_err(key.to_string()))?;
        Ok(type_name(kv.value))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.keys(py)?.try_iter()?.into_any())
    }

    /// The keys, in the order of the file.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for kv in self.gguf().kvs() {
            list.append(text(py, kv.key)?)?;
        }
        Ok(list)
    }

    /// The values, in the order of the file.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for kv in self.gguf().kvs() {
            list.append(self.value(py, kv)?)?;
        }
        Ok(list)
    }

    /// The keys with their values, in the order of the file.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for kv in self.gguf().kvs() {
            list.append((text(py, kv.key)?, self.value(py, kv)?))?;
        }
        Ok(list)
    }

    fn _repr_html_<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("ggufkit._html")?.call_method1("metadata", (this,))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let mut shown = String::from("Metadata({");
        for (i, kv) in self.gguf().kvs().enumerate() {
            let sep = if i == 0 { "\n  " } else { ",\n  " };
            shown += &format!("{sep}{}: {}", text(py, kv.key)?.repr()?, shown_value(py, kv.value)?);
        }
        shown += "\n})";
        Ok(shown)
    }
}

/// A value on one line, shortened.
pub fn shown_value(py: Python<'_>, value: ValueRef<'_>) -> PyResult<String> {
    const LONGEST: usize = 72;
    let ValueRef::Array(array) = value else {
        let shown = object(py, value)?.repr()?.to_string_lossy().into_owned();
        return Ok(match shown.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", shown.get(..end).unwrap_or_default()),
            None => shown,
        });
    };
    let some = list(py, array.iter().take(usize::try_from(SHOWN).unwrap_or(0)))?;
    let mut items =
        some.iter().map(|item| Ok(item.repr()?.to_string_lossy().into_owned())).collect::<PyResult<Vec<_>>>()?;
    if array.len() > SHOWN {
        items.push("…".into());
    }
    Ok(format!("[{}] ({} of {})", items.join(", "), array.len(), array.elem_type()))
}

/// An array of the metadata: a read-only sequence whose elements are read on demand.
///
/// A slice is a list. `numpy()` is an array of NumPy. An element that is an array is a list.
#[pyclass(frozen, sequence, module = "ggufkit")]
pub struct Array {
    model: Arc<Model>,
    /// Index of the pair.
    index: u64,
    /// Where each string is in the encoded array; found for the first one that is asked for by its index.
    strings: OnceLock<Vec<Range<usize>>>,
}

impl Array {
    fn array(&self) -> PyResult<ArrayRef<'_>> {
        let kv = self.model.gguf().kv_by_index(self.index);
        let array = kv.and_then(|kv| match kv.value {
            ValueRef::Array(array) => Some(array),
            _ => None,
        });
        array.ok_or_else(|| PyTypeError::new_err("not an array"))
    }

    /// The element at an index.
    fn element<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let array = self.array()?;
        let missing = || PyIndexError::new_err("index out of range");
        let Some(strings) = array.strings() else {
            return object(py, array.get(index as u64).ok_or_else(missing)?);
        };
        let bytes = array.encoded_bytes();
        let place = |s: Str<'_>| {
            let start = (s.as_bytes().as_ptr() as usize).saturating_sub(bytes.as_ptr() as usize);
            start..start + s.as_bytes().len()
        };
        let range = self.strings.get_or_init(|| strings.map(place).collect()).get(index).ok_or_else(missing)?;
        Ok(text(py, Str(bytes.get(range.clone()).ok_or_else(missing)?))?.into_any())
    }
}

#[pymethods]
impl Array {
    fn __len__(&self) -> PyResult<usize> {
        Ok(usize::try_from(self.array()?.len()).unwrap_or(usize::MAX))
    }

    /// The type of the elements: `string`, `u32`.
    #[getter]
    fn type_name(&self) -> PyResult<String> {
        Ok(self.array()?.elem_type().to_string())
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let len = self.__len__()?;
        if let Ok(slice) = index.cast::<PySlice>() {
            let range = slice.indices(isize::try_from(len).unwrap_or(isize::MAX))?;
            let list = PyList::empty(py);
            let mut at = range.start;
            for _ in 0..range.slicelength {
                list.append(self.element(py, at.unsigned_abs())?)?;
                at += range.step;
            }
            return Ok(list.into_any());
        }
        let index: i64 = index.extract()?;
        let at = if index < 0 { index + i64::try_from(len).unwrap_or(i64::MAX) } else { index };
        let at = usize::try_from(at).ok().filter(|at| *at < len);
        self.element(py, at.ok_or_else(|| PyIndexError::new_err(format!("index {index} of an array of {len}")))?)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.tolist(py)?.try_iter()?.into_any())
    }

    /// All elements, as a list.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        list(py, self.array()?.iter())
    }

    /// The elements as an array of NumPy, of their own type; strings as objects.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (numpy, array) = (py.import("numpy")?, self.array()?);
        let Some(code) = dtype(array.elem_type()) else {
            let objects = numpy.call_method1("empty", (self.__len__()?, "O"))?;
            objects.set_item(PySlice::full(py), self.tolist(py)?)?;
            return Ok(objects);
        };
        let order = if self.model.gguf().dialect().order == ByteOrder::Big { ">" } else { "<" };
        let bytes = pyo3::types::PyBytes::new(py, array.encoded_bytes());
        let stored = numpy.call_method1("frombuffer", (bytes, format!("{order}{code}")))?;
        // A copy in the machine's order, which can be written to.
        stored.call_method1("astype", (code,))
    }

    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            return Err(pyo3::exceptions::PyValueError::new_err("the elements must be copied"));
        }
        let array = self.numpy(py)?;
        match dtype {
            Some(dtype) => array.call_method1("astype", (dtype,)),
            None => Ok(array),
        }
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let Ok(other) = other.cast::<Array>() {
            return self.tolist(py)?.eq(other.get().tolist(py)?);
        }
        let is_list = other.is_instance_of::<PyList>() || other.is_instance_of::<PyTuple>();
        Ok(is_list && self.tolist(py)?.eq(PyList::new(py, other.try_iter()?.collect::<PyResult<Vec<_>>>()?)?)?)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Array({})", shown_value(py, ValueRef::Array(self.array()?))?))
    }
}
