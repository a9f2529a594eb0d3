//! `check`: all findings about a model.

use std::path::PathBuf;

use ggufkit::{CheckOptions, Severity};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::error::raise;
use crate::remote::{self, Place};

/// A finding about a model.
#[pyclass(frozen, get_all, module = "ggufkit")]
#[derive(Clone)]
pub struct Finding {
    /// The code of the rule: `tensor.overlap`.
    pub code: String,
    /// `error`, `warning` or `note`.
    pub severity: String,
    /// The problem.
    pub message: String,
    /// What was expected.
    pub expected: String,
    /// What to do.
    pub hint: String,
    /// The file.
    pub path: PathBuf,
    /// The key or tensor; None for the file as a whole.
    pub field: Option<String>,
    /// The byte offset, from the start of the GGUF; None if the finding has none.
    pub offset: Option<u64>,
}

#[pymethods]
impl Finding {
    fn __str__(&self) -> String {
        let place = self.field.clone().or_else(|| Some(format!("byte {}", self.offset?)));
        let place = place.map(|place| format!(" {place}:")).unwrap_or_default();
        format!("{}[{}]{place} {}; expected {}; {}", self.severity, self.code, self.message, self.expected, self.hint)
    }

    fn __repr__(&self) -> String {
        format!("<Finding {self}>", self = self.__str__())
    }
}

/// The findings about a model: a sequence of `Finding`.
#[pyclass(frozen, sequence, module = "ggufkit")]
pub struct Check {
    findings: Vec<Finding>,
    is_sound: bool,
    is_safe: bool,
}

#[pymethods]
impl Check {
    /// Whether there are no errors.
    #[getter]
    fn ok(&self) -> bool {
        self.is_sound
    }

    /// Whether any reader can read the files safely: every length and offset in them is valid.
    #[getter]
    fn safe(&self) -> bool {
        self.is_safe
    }

    fn __len__(&self) -> usize {
        self.findings.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.list(py)?.try_iter()?.into_any())
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.list(py)?.as_any().get_item(index)
    }

    fn __bool__(&self) -> bool {
        self.is_sound
    }

    fn __repr__(&self) -> String {
        let count = |severity: &str| self.findings.iter().filter(|finding| finding.severity == severity).count();
        let (errors, warnings, notes) = (count("error"), count("warning"), count("note"));
        format!("<Check errors={errors} warnings={warnings} notes={notes}>")
    }
}

impl Check {
    fn list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(
            py,
            self.findings.iter().cloned().map(|finding| Bound::new(py, finding)).collect::<PyResult<Vec<_>>>()?,
        )
    }
}

/// Checks a model with all its shards by all rules. A damaged file is not an error: the findings say what is wrong with it.
///
/// `data` also reads all tensor data and looks for NaN, infinity and missing parts. `structure` applies only the rules required for
/// reading a file safely.
#[pyfunction]
#[pyo3(signature = (path, *, data = false, structure = false))]
#[allow(clippy::needless_pass_by_value, reason = "arguments of Python")]
pub fn check(py: Python<'_>, path: PathBuf, data: bool, structure: bool) -> PyResult<Check> {
    let options = CheckOptions::default().structure(structure);
    let place = remote::place(py, path)?;
    let check = match (place, data) {
        (Place::Local(path), false) => py.detach(|| ggufkit::check_with(path, &options)).map_err(raise)?,
        (Place::Local(path), true) => {
            crate::progress::run(py, None, |progress| ggufkit::check_data(&path, &options, progress))?
        }
        (Place::Remote(client, location), false) => {
            let opener = py.detach(|| client.opener(&location)).map_err(raise)?;
            let open = |path: &std::path::Path| opener.source(path);
            py.detach(|| ggufkit::check_by(location.to_string(), &open, &options)).map_err(raise)?
        }
        (Place::Remote(client, location), true) => {
            let opener = py.detach(|| client.opener(&location)).map_err(raise)?;
            let open = |path: &std::path::Path| opener.source(path);
            crate::progress::run(py, None, |progress| {
                ggufkit::check_data_by(location.to_string(), &open, &options, progress)
            })?
        }
    };
    let finding = |(path, finding): (&std::path::Path, std::borrow::Cow<'_, ggufkit::Finding>)| Finding {
        code: finding.code.to_owned(),
        severity: severity(finding.severity).to_owned(),
        message: finding.message.clone(),
        expected: finding.expected.to_string(),
        hint: finding.hint.to_string(),
        path: path.to_owned(),
        field: finding.place.name().map(str::to_owned),
        offset: finding.place.offset(),
    };
    let (is_sound, is_safe) = (check.is_sound(), check.is_safe());
    Ok(Check { findings: check.findings().map(finding).collect(), is_sound, is_safe })
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        _ => "note",
    }
}
