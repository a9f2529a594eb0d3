//! `Edit`: changes of a file's metadata, made together.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ggufkit::edit::apply;
use ggufkit::{Edit as Change, EditOptions, EditPlan, Head, Model};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::error::raise;
use crate::progress;
use crate::value::{object, text, value};

/// Changes of the metadata of a file, as a mapping from keys to values.
///
/// The file changes when `apply` is called, or at the end of a `with` block that no exception leaves: in place if the new head fits, else by
/// a new file that replaces it. It is always the old one or the new one, whatever happens. With `out`, a new file is written and the old
/// one stays.
///
/// The type of a value is that of a NumPy scalar or array, else that of the table of known keys, else that of the current value; `set` takes
/// another one.
#[pyclass(frozen, mapping, module = "ggufkit", name = "Edit")]
pub struct Edit {
    path: PathBuf,
    out: Option<PathBuf>,
    force: bool,
    options: EditOptions,
    state: Mutex<State>,
}

struct State {
    /// The metadata with the changes.
    head: Head,
    changes: Vec<Change>,
    is_done: bool,
}

impl Edit {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: Change) -> PyResult<()> {
        let mut state = self.state();
        if state.is_done {
            return Err(PyValueError::new_err("the changes are already applied"));
        }
        apply(&mut state.head, std::slice::from_ref(&change)).map_err(raise)?;
        state.changes.push(change);
        Ok(())
    }
}

#[pymethods]
impl Edit {
    #[new]
    #[pyo3(signature = (path, *, out = None, force = false, reserve = 0))]
    fn new(py: Python<'_>, path: PathBuf, out: Option<PathBuf>, force: bool, reserve: u64) -> PyResult<Edit> {
        let model = py.detach(|| Model::open(&path)).map_err(raise)?;
        let head = Head::from_gguf(model.gguf());
        let options = EditOptions::default().reserve(reserve);
        Ok(Edit { path, out, force, options, state: Mutex::new(State { head, changes: Vec::new(), is_done: false }) })
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        let state = self.state();
        object(py, state.head.get(key).ok_or_else(|| PyKeyError::new_err(key.to_owned()))?)
    }

    fn __contains__(&self, key: &str) -> bool {
        self.state().head.get(key).is_some()
    }

    fn __len__(&self) -> usize {
        self.state().head.kvs.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.keys(py)?.try_iter()?.into_any())
    }

    /// The keys, with those that were added.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for kv in &self.state().head.kvs {
            list.append(text(py, ggufkit::Str(kv.key.as_ref()))?)?;
        }
        Ok(list)
    }

    fn __setitem__(&self, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(key, value, None)
    }

    fn __delitem__(&self, key: &str) -> PyResult<()> {
        self.change(Change::Unset { key: key.to_owned() })
    }

    /// Sets a key, to a value of the given type: `u32`, `f32`, `string`, `[string]`.
    #[pyo3(signature = (key, value, r#type = None))]
    fn set(&self, key: &str, value: &Bound<'_, PyAny>, r#type: Option<&str>) -> PyResult<()> {
        let value = self::value(key, value, r#type, &self.state().head)?;
        self.change(Change::Set { key: key.to_owned(), value })
    }

    /// Sets the keys of a mapping.
    fn update(&self, values: &Bound<'_, PyAny>) -> PyResult<()> {
        for pair in values.call_method0("items")?.try_iter()? {
            let (key, value): (String, Bound<'_, PyAny>) = pair?.extract()?;
            self.set(&key, &value, None)?;
        }
        Ok(())
    }

    /// Renames a key, in its place.
    fn rename(&self, old: &str, new: &str) -> PyResult<()> {
        self.change(Change::RenameKey { from: old.to_owned(), to: new.to_owned() })
    }

    /// Renames a tensor.
    fn rename_tensor(&self, old: &str, new: &str) -> PyResult<()> {
        self.change(Change::RenameTensor { from: old.to_owned(), to: new.to_owned() })
    }

    /// Makes the changes. Raises `GgufError` if the new head would be invalid; the file is unchanged then.
    #[pyo3(signature = (*, progress = None))]
    fn apply(&self, py: Python<'_>, progress: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let changes = {
            let mut state = self.state();
            if state.is_done {
                return Err(PyValueError::new_err("the changes are already applied"));
            }
            state.is_done = true;
            std::mem::take(&mut state.changes)
        };
        if changes.is_empty() && self.out.is_none() {
            return Ok(());
        }
        progress::run(py, progress.as_ref(), |progress| {
            let plan = EditPlan::new(&self.path, &changes, &self.options)?;
            match &self.out {
                None => plan.run(progress)?,
                Some(out) => plan.write_to(out, self.force, progress)?,
            };
            Ok(())
        })
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (class, *_exception))]
    fn __exit__(&self, py: Python<'_>, class: &Bound<'_, PyAny>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        match class.is_none() && !self.state().is_done {
            true => self.apply(py, None),
            false => Ok(()),
        }
    }

    fn __repr__(&self) -> String {
        let n = self.state().changes.len();
        format!("<Edit {}: {n} {}>", ggufkit::io::shown_path(&self.path), if n == 1 { "change" } else { "changes" })
    }
}
