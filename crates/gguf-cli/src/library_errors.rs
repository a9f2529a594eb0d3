//! Errors of the libraries as failures of the program: the verdict, the kind for scripts, and the hint.

use std::io;
use std::path::Path;

use gguf_format::Problem;
use gguf_hf::{FolderError, PlanError};
use gguf_io::TensorProblem;
use gguf_quantize::imatrix;

use crate::failure::{Details, Failure, Verdict, system_kind};
use crate::hints;

impl From<gguf_io::Error> for Failure {
    fn from(e: gguf_io::Error) -> Failure {
        match e {
            gguf_io::Error::Exists(path) => Failure::exists(&path),
            e => Failure::Detailed(Box::new(Details {
                verdict: if e.is_bad_file() || ends_early(&e) { Verdict::Bad } else { Verdict::CouldNotRun },
                kind: kind(&e),
                path: Some(e.path().to_owned()),
                offset: offset(&e),
                tensors: Vec::new(),
                message: not_gguf(&e).unwrap_or_else(|| e.to_string()),
                help: hints::for_reading(&e),
            })),
        }
    }
}

/// The message for a legacy model in place of GGUF.
fn not_gguf(e: &gguf_io::Error) -> Option<String> {
    let gguf_io::Error::Head { path, source } = e else { return None };
    let is_other = matches!(source.problem, Problem::NotGguf(_));
    let found = is_other.then(|| hints::legacy(path)).flatten()?;
    Some(format!("{}: {}, not GGUF", path.display(), found.what))
}

/// The kind of a failure to read a file. The names are stable.
fn kind(e: &gguf_io::Error) -> &'static str {
    match e {
        gguf_io::Error::Io { source, .. } => system_kind(source.kind()),
        gguf_io::Error::Head { source, .. } => match source.problem {
            Problem::NotGguf(_) => "not_gguf",
            Problem::Truncated { .. } | Problem::PastEnd { .. } => "truncated",
            Problem::OverLimit { .. } => "over_limit",
            _ => "invalid_head",
        },
        gguf_io::Error::NotAFile(_) => "not_a_file",
        gguf_io::Error::NoTensor { .. } => "no_tensor",
        gguf_io::Error::Tensor { problem: TensorProblem::Truncated { .. } | TensorProblem::Shrunk { .. }, .. } => {
            "truncated"
        }
        gguf_io::Error::Tensor { .. } => "bad_tensor",
        gguf_io::Error::Shards { .. } => "shards",
        gguf_io::Error::Busy(_) => "busy",
        gguf_io::Error::Changed(_) => "changed",
        gguf_io::Error::Unfinished { .. } | gguf_io::Error::OtherJournal { .. } => "unfinished_edit",
        _ => "io",
    }
}

/// The byte offset of an error in a file.
fn offset(e: &gguf_io::Error) -> Option<u64> {
    match e {
        gguf_io::Error::Head { source, .. } => Some(source.offset),
        gguf_io::Error::Tensor { problem: TensorProblem::Truncated { file_bytes, .. }, .. } => Some(*file_bytes),
        _ => None,
    }
}

/// A failure of a library.
fn failed(is_bad_input: bool, message: String) -> Failure {
    if is_bad_input { Failure::Bad(message) } else { Failure::CouldNotRun(message) }
}

/// An operating system error for a path, with the library's message.
fn system(path: &Path, source: &io::Error, message: String) -> Failure {
    Failure::of_file(Verdict::CouldNotRun, system_kind(source.kind()), path, message)
}

/// Whether the data ends before its expected size.
fn ends_early(e: &gguf_io::Error) -> bool {
    matches!(e, gguf_io::Error::Io { source, .. } if source.kind() == io::ErrorKind::UnexpectedEof)
}

impl From<gguf_pipeline::Error> for Failure {
    fn from(e: gguf_pipeline::Error) -> Failure {
        match e {
            gguf_pipeline::Error::Output(e) | gguf_pipeline::Error::Input(e) => (*e).into(),
            gguf_pipeline::Error::Io { ref path, ref source, .. } => system(path, source, e.to_string()),
            e => failed(e.is_bad_input(), e.to_string()).with_help(hints::for_run(&e)),
        }
    }
}

impl From<gguf_edit::Error> for Failure {
    fn from(e: gguf_edit::Error) -> Failure {
        match e {
            gguf_edit::Error::Pipeline(e) => (*e).into(),
            gguf_edit::Error::Io(e) => (*e).into(),
            e => failed(e.is_bad_input(), e.to_string()).with_help(hints::for_edit(&e)),
        }
    }
}

impl From<ggufkit::Error> for Failure {
    fn from(e: ggufkit::Error) -> Failure {
        match e {
            ggufkit::Error::Io(e) => (*e).into(),
            ggufkit::Error::Pipeline(e) => (*e).into(),
            ggufkit::Error::Edit(e) => (*e).into(),
            e => Failure::CouldNotRun(e.to_string()),
        }
    }
}

impl From<gguf_quantize::Error> for Failure {
    fn from(mut e: gguf_quantize::Error) -> Failure {
        if let gguf_quantize::Error::MatrixAtFault { finding, .. } = &mut e {
            finding.hint = hints::for_finding(finding.code, &finding.hint).into_owned().into();
        }
        if let gguf_quantize::Error::Matrix(matrix) = &e
            && let (imatrix::Problem::Io(source), Some(path)) = (&matrix.problem, &matrix.path)
        {
            return system(path, source, e.to_string());
        }
        match e {
            gguf_quantize::Error::Pipeline(e) => e.into(),
            e => failed(e.is_bad_input(), e.to_string()).with_help(hints::for_quantizing(&e)),
        }
    }
}

impl From<gguf_quantize::imatrix::Error> for Failure {
    fn from(e: gguf_quantize::imatrix::Error) -> Failure {
        gguf_quantize::Error::from(e).into()
    }
}

impl From<gguf_hf::Error> for Failure {
    fn from(e: gguf_hf::Error) -> Failure {
        match e {
            gguf_hf::Error::Pipeline(e) => e.into(),
            gguf_hf::Error::Io { ref path, ref source, .. }
            | gguf_hf::Error::Folder(FolderError::Read { file: ref path, ref source }) => {
                system(path, source, e.to_string())
            }
            gguf_hf::Error::Plan { ref path, source: PlanError::Unmapped { ref tensors, .. } } => {
                let (path, tensors) = (Some(path.clone()), tensors.clone());
                let (verdict, message) = (Verdict::Bad, e.to_string());
                Failure::Detailed(Box::new(Details {
                    verdict,
                    kind: "bad_input",
                    path,
                    offset: None,
                    tensors,
                    message,
                    help: None,
                }))
            }
            e => failed(e.is_bad_input(), e.to_string()).with_help(hints::for_conversion(&e)),
        }
    }
}

impl From<gguf_legacy::Error> for Failure {
    fn from(e: gguf_legacy::Error) -> Failure {
        match e {
            gguf_legacy::Error::Pipeline(e) => e.into(),
            gguf_legacy::Error::Io { ref path, ref source, .. } => system(path, source, e.to_string()),
            e => failed(e.is_bad_input(), e.to_string()).with_help(hints::for_migration(&e)),
        }
    }
}

impl From<gguf_edit::EditError> for Failure {
    fn from(e: gguf_edit::EditError) -> Failure {
        match e {
            gguf_edit::EditError::Io(e) => (*e).into(),
            gguf_edit::EditError::Pipeline(e) => (*e).into(),
            e => failed(e.is_bad_input(), e.to_string()).with_help(hints::for_editing(&e)),
        }
    }
}

#[cfg(feature = "engine")]
impl From<gguf_engine::Error> for Failure {
    fn from(e: gguf_engine::Error) -> Failure {
        failed(e.is_bad_file(), e.to_string()).with_help(hints::for_engine(e.kind()))
    }
}
