//! A planned migration, its options and its warnings.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use gguf_format::GgmlType;
use gguf_format::check::{Finding, Severity};
use gguf_pipeline::plan::Plan;

use crate::block::{Rounding, Treatment};
use crate::container::Container;
use crate::error::Error;
use crate::layout::Family;
use crate::question::Guess;

/// The options of a migration.
///
/// ```
/// use gguf_format::GgmlType;
/// use gguf_legacy::Options;
///
/// let options = Options::default().recoded(GgmlType::F16).threads(std::num::NonZero::new(2));
/// assert_eq!(options.recoded, GgmlType::F16);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The type for tensors whose layout no longer exists. Rows that are not whole blocks of it become half precision.
    pub recoded: GgmlType,
    /// Number of threads that examine scales; `None` for the parallelism of the machine.
    pub threads: Option<NonZeroUsize>,
}

impl Default for Options {
    fn default() -> Options {
        Options { recoded: GgmlType::Q8_0, threads: None }
    }
}

impl Options {
    /// Sets the type for tensors whose layout no longer exists.
    pub fn recoded(mut self, ty: GgmlType) -> Options {
        self.recoded = ty;
        self
    }

    /// Sets the number of threads.
    pub fn threads(mut self, threads: Option<NonZeroUsize>) -> Options {
        self.threads = threads;
        self
    }
}

/// A planned migration.
#[derive(Debug)]
#[non_exhaustive]
pub struct Migration {
    /// The plan of the output.
    pub plan: Plan,
    /// The container of the file.
    pub container: Container,
    /// The architecture; `None` for a GGUF.
    pub family: Option<Family>,
    /// The conversion of each tensor, in the order of the output.
    pub tensors: Vec<Migrated>,
    /// The omitted tensors of the file, and why.
    pub left_out: Vec<(String, &'static str)>,
    /// Decisions without evidence in the file.
    pub guesses: Vec<Guess>,
    /// Warnings for the user.
    pub warnings: Vec<Warning>,
}

/// The conversion of a tensor.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Migrated {
    /// The name in the file.
    pub from: String,
    /// The conversion of its data.
    pub treatment: Treatment,
    /// The loss of its scales, if they become f16.
    pub rounding: Option<Rounding>,
}

/// A problem that does not prevent a migration.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Warning {
    /// No known program runs such a model from GGUF.
    NoRuntime(Family),
    /// Some tokens are placeholders, because the file has lost their bytes.
    LostTokens(usize),
    /// The file has the mel filters of an audio encoder, which GGUF cannot store.
    MelFilters,
    /// A tensor has scales too large for its type, and is written in single precision.
    LargeScales {
        /// The tensor in the output.
        tensor: String,
        /// The number of scales.
        n: u64,
    },
    /// A finding of the check of the output.
    Output(Finding),
    /// The number of further findings about the output.
    MoreOutput(usize),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::NoRuntime(family) => {
                write!(
                    f,
                    "no program is known that runs {family} from GGUF; the file keeps the model for one that does"
                )
            }
            Warning::LostTokens(n) => write!(f, "{n} tokens are placeholders: the file has lost their bytes"),
            Warning::MelFilters => {
                f.write_str("the mel filters are left out: GGUF has no place for them, and they follow from n_mels")
            }
            Warning::LargeScales { tensor, n } => {
                write!(f, "{tensor}: {n} scales are too large for half precision; it is written in single precision")
            }
            Warning::Output(finding) => write!(f, "{finding}"),
            Warning::MoreOutput(n) => write!(f, "{n} more findings about the output"),
        }
    }
}

/// The maximum number of findings about the output that become separate warnings.
const MAX_FINDINGS: usize = 10;

/// The findings of the checks of models for the planned head. If `is_strict`, errors end the migration: a model with a missing or misshapen
/// tensor is not what the file should contain.
pub(crate) fn findings(plan: &Plan, path: PathBuf, is_strict: bool) -> Result<Vec<Warning>, Error> {
    let heads = plan.heads()?;
    let report = gguf_model::check::model(&heads.iter().collect::<Vec<_>>(), None);
    let mut errors = report.findings().filter(|f| is_strict && f.severity == Severity::Error);
    if let Some(first) = errors.next() {
        let n_more = errors.count();
        return Err(Error::Output { path, finding: Box::new(first.into_owned()), n_more });
    }
    let matters = |f: &Finding| {
        let is_about_model = ["key.", "value.", "tensor."].iter().any(|kind| f.code.starts_with(kind));
        f.severity == Severity::Error || f.severity == Severity::Warning && is_about_model
    };
    let found: Vec<Finding> = report.findings().filter(|f| matters(f)).map(|f| f.into_owned()).collect();
    let more = found.len().saturating_sub(MAX_FINDINGS);
    let mut warnings: Vec<Warning> = found.into_iter().take(MAX_FINDINGS).map(Warning::Output).collect();
    warnings.extend((more > 0).then_some(Warning::MoreOutput(more)));
    Ok(warnings)
}
