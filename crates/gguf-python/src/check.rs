//! `check`: all findings about a model.

use std::path::PathBuf;

use ggufkit::{CheckOptions, Severity};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::raise;
use crate::remote::{self, ModelPath};

/// A finding about a model.
#[pyclass(frozen, get_all, module = "ggufkit")]
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
    findings: Py<PyTuple>,
    /// Errors, warnings and notes.
    counts: [usize; 3],
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
        self.counts.iter().sum()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.findings.bind(py).try_iter()?.into_any())
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.findings.bind(py).as_any().get_item(index)
    }

    fn __bool__(&self) -> bool {
        self.is_sound
    }

    fn __repr__(&self) -> String {
        let [errors, warnings, notes] = self.counts;
        format!("<Check errors={errors} warnings={warnings} notes={notes}>")
    }
}

/// Checks a model with all its shards by all rules. A damaged file is not an error: the findings say what is wrong with it.
///
/// `data` also reads all tensor data and looks for NaN, infinity and missing parts. `structure` applies only the rules required for
/// reading a file safely.
#[pyfunction]
#[pyo3(signature = (path, *, data = false, structure = false))]
pub fn check(py: Python<'_>, path: PathBuf, data: bool, structure: bool) -> PyResult<Check> {
    let options = CheckOptions::default().structure(structure);
    let place = remote::locate(py, path)?;
    let check = match (place, data) {
        (ModelPath::Local(path), false) => py.detach(|| ggufkit::check_with(path, &options)).map_err(raise)?,
        (ModelPath::Local(path), true) => {
            crate::progress::run(py, None, |progress| ggufkit::check_data(&path, &options, progress))?
        }
        (ModelPath::Remote(client, location), data) => {
            let opened = || -> Result<_, ggufkit::Error> {
                let location = client.only_model(&location)?;
                Ok((client.opener(&location)?, location.to_string()))
            };
            let (opener, first) = py.detach(opened).map_err(raise)?;
            let open = |path: &std::path::Path| opener.source(path);
            match data {
                false => py.detach(|| ggufkit::check_by(first, &open, &options)).map_err(raise)?,
                true => {
                    crate::progress::run(py, None, |progress| ggufkit::check_data_by(first, &open, &options, progress))?
                }
            }
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
    let findings = check.findings().map(|found| Bound::new(py, finding(found))).collect::<PyResult<Vec<_>>>()?;
    let findings = PyTuple::new(py, findings)?.unbind();
    let count = |severity| check.findings().filter(|(_, finding)| finding.severity == severity).count();
    let counts = [Severity::Error, Severity::Warning, Severity::Note].map(count);
    Ok(Check { findings, counts, is_sound: check.is_sound(), is_safe: check.is_safe() })
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        _ => "note",
    }
}
