//! Python exceptions from errors of the libraries.
//!
//! Errors of the system are the classes derived from `OSError`; all others are `GgufError` and the classes derived from it, which
//! `ggufkit._errors` defines in Python, because they have several bases.

use std::io;
use std::path::Path;

use ggufkit::edit::{EditError, Error as EditModelError};
use ggufkit::io::Error as IoError;
use ggufkit::pipeline::Error as PipelineError;
use ggufkit::remote::Problem;
use ggufkit::{CheckOptions, Severity};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

/// The most models that a hint lists.
const MOST_LISTED: usize = 20;

/// The exception for an error of the libraries.
pub fn raise(error: impl Into<ggufkit::Error>) -> PyErr {
    let error = error.into();
    let (error, message) = (&error, error.to_string());
    Python::attach(|py| match cause(error) {
        Cause::Io(IoError::Head { path, source }) => format_error(py, path, source, message),
        Cause::Io(IoError::NoTensor { path, .. }) => {
            new(py, "TensorNotFoundError", message, |e| e.set_item("path", path))
        }
        Cause::Io(IoError::Tensor { path, name, .. }) => new(py, "FormatError", message, |e| {
            e.set_item("path", path)?;
            e.set_item("field", name)
        }),
        Cause::Io(IoError::Shards { path, .. }) => new(py, "FormatError", message, |e| e.set_item("path", path)),
        Cause::Io(IoError::Exists(path)) => os_error(
            py,
            io::ErrorKind::AlreadyExists,
            None,
            path,
            "already exists; allow overwriting it, or choose another name",
        ),
        Cause::Io(IoError::Io { path, action, source }) => {
            os_error(py, source.kind(), source.raw_os_error(), path, &format!("cannot {action}: {source}"))
        }
        Cause::System(path, source) => os_error(py, source.kind(), source.raw_os_error(), path, &source.to_string()),
        Cause::Io(IoError::NotAFile(path)) if path.is_dir() => {
            os_error(py, io::ErrorKind::IsADirectory, None, path, "is a folder; expected a file")
        }
        Cause::Remote(e) => remote_error(py, e, message),
        Cause::Io(_) | Cause::Other => new(py, "GgufError", message, |_| Ok(())),
        Cause::Key => new(py, "KeyNotFoundError", message, |_| Ok(())),
        Cause::Value => PyValueError::new_err(message),
    })
}

/// What an error comes from.
enum Cause<'e> {
    Io(&'e IoError),
    System(&'e Path, &'e io::Error),
    Remote(&'e ggufkit::remote::Error),
    /// A key that does not exist.
    Key,
    /// An argument.
    Value,
    Other,
}

fn cause(error: &ggufkit::Error) -> Cause<'_> {
    use ggufkit::Error;
    match error {
        Error::Io(e) => Cause::Io(e),
        Error::Pipeline(e) => cause_of_run(e),
        Error::Edit(e) => match &**e {
            EditModelError::Pipeline(e) => cause_of_run(e),
            EditModelError::Io(e) => Cause::Io(e),
            _ => Cause::Other,
        },
        Error::EditHead(e) => cause_of_edit(e),
        Error::Quantize(e) => match &**e {
            ggufkit::quantize::Error::Pipeline(e) => cause_of_run(e),
            _ => Cause::Other,
        },
        Error::Convert(e) => match &**e {
            ggufkit::hf::Error::Pipeline(e) => cause_of_run(e),
            ggufkit::hf::Error::Io { path, source, .. } => Cause::System(path, source),
            _ => Cause::Other,
        },
        Error::Importance(e) => match (&e.path, &e.problem) {
            (Some(path), ggufkit::quantize::imatrix::Problem::Io(source)) => Cause::System(path, source),
            _ => Cause::Other,
        },
        Error::Remote(e) => Cause::Remote(e),
        Error::Codec(_)
        | Error::Rows(_)
        | Error::TypeName(_)
        | Error::FileType(_)
        | Error::TensorType(_)
        | Error::Pattern(_)
        | Error::Location(_) => Cause::Value,
        _ => Cause::Other,
    }
}

fn cause_of_run(error: &PipelineError) -> Cause<'_> {
    match error {
        PipelineError::Input(e) | PipelineError::Output(e) => Cause::Io(e),
        PipelineError::Kept { why, .. } => cause_of_run(why),
        PipelineError::Io { path, source, .. } => Cause::System(path, source),
        _ => Cause::Other,
    }
}

fn cause_of_edit(error: &EditError) -> Cause<'_> {
    match error {
        EditError::Io(e) => Cause::Io(e),
        EditError::Pipeline(e) => cause_of_run(e),
        EditError::At { error, .. } => cause_of_edit(error),
        EditError::NoKey { .. } => Cause::Key,
        EditError::UnknownType { .. } | EditError::Value { .. } => Cause::Value,
        _ => Cause::Other,
    }
}

/// The exception for an answer of a server, or for a repository in which no model is the only one.
fn remote_error(py: Python<'_>, error: &ggufkit::remote::Error, message: String) -> PyErr {
    use io::ErrorKind::{AlreadyExists, ConnectionAborted, NotFound, PermissionDenied, TimedOut};
    match (error.kind(), &error.problem) {
        (kind @ (AlreadyExists | ConnectionAborted | NotFound | PermissionDenied | TimedOut), _) => {
            // The name of the file is a part of the exception.
            let mut of_file = error.clone();
            of_file.url.clear();
            os_error(py, kind, None, Path::new(&error.url), &of_file.to_string())
        }
        (_, Problem::SeveralModels(models)) => new(py, "GgufError", message, |e| {
            let names = models.iter().take(MOST_LISTED).map(|model| model.location.to_string());
            let more = if models.len() > MOST_LISTED { ", ..." } else { "" };
            e.set_item("path", &error.url)?;
            e.set_item("hint", format!("name one of them: {}{more}", names.collect::<Vec<_>>().join(", ")))
        }),
        _ => new(py, "GgufError", message, |e| e.set_item("path", &error.url)),
    }
}

/// The exception for a head that cannot be read. The check of the file says what was expected, and what to do.
fn format_error(py: Python<'_>, path: &Path, error: &ggufkit::format::Error, message: String) -> PyErr {
    let options = CheckOptions::default().structure(true);
    let check = py.detach(|| if path.is_file() { ggufkit::check_with(path, &options).ok() } else { None });
    let finding = check.as_ref().and_then(|check| {
        let error = check.findings().map(|(_, finding)| finding).find(|finding| finding.severity == Severity::Error);
        error.map(|finding| finding.into_owned())
    });
    new(py, "FormatError", message, |e| {
        e.set_item("path", path)?;
        e.set_item("offset", error.offset)?;
        let name = error.name.as_ref().map(|name| ggufkit::Str(name).to_string());
        e.set_item("field", name.unwrap_or_else(|| error.field.to_string()))?;
        let Some(finding) = finding else { return Ok(()) };
        e.set_item("found", finding.message)?;
        e.set_item("expected", &*finding.expected)?;
        e.set_item("hint", &*finding.hint)
    })
}

/// An exception of `ggufkit._errors`, with its attributes.
fn new(py: Python<'_>, class: &str, message: String, fill: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let attributes = PyDict::new(py);
        fill(&attributes)?;
        Ok(PyErr::from_value(errors(py, class)?.call((message,), Some(&attributes))?))
    };
    make().unwrap_or_else(|e| e)
}

fn errors<'py>(py: Python<'py>, class: &str) -> PyResult<Bound<'py, PyType>> {
    Ok(py.import("ggufkit._errors")?.getattr(class)?.cast_into()?)
}

/// The exception derived from `OSError` for an error of the system, or of a server.
fn os_error(py: Python<'_>, kind: io::ErrorKind, errno: Option<i32>, path: &Path, message: &str) -> PyErr {
    // Python chooses the class by the number, which errors of servers do not have.
    let name = match kind {
        io::ErrorKind::NotFound => "ENOENT",
        io::ErrorKind::PermissionDenied => "EACCES",
        io::ErrorKind::AlreadyExists => "EEXIST",
        io::ErrorKind::IsADirectory => "EISDIR",
        io::ErrorKind::TimedOut => "ETIMEDOUT",
        io::ErrorKind::ConnectionRefused => "ECONNREFUSED",
        io::ErrorKind::ConnectionReset => "ECONNRESET",
        io::ErrorKind::ConnectionAborted => "ECONNABORTED",
        _ => "EIO",
    };
    let make = || -> PyResult<PyErr> {
        let number = match errno {
            Some(number) => number,
            None => py.import("errno")?.getattr(name)?.extract()?,
        };
        Ok(PyErr::from_value(py.get_type::<PyOSError>().call1((number, message, path.as_os_str()))?))
    };
    make().unwrap_or_else(|e| e)
}
