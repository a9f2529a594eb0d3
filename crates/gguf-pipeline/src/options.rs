//! Options of a run, and its results.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use crate::execute::Overflow;
use crate::report::Report;

/// How a plan is run. The bytes do not depend on it.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RunOptions {
    /// Number of threads; `None` for as many as the machine has processors.
    pub threads: Option<NonZeroUsize>,
    /// Replaces the output if it exists.
    pub force: bool,
    /// Keeps finished work when the run ends early, in `OUT.partial` and `OUT.journal`, and continues from what an earlier run has kept.
    pub resume: bool,
    /// Measures how far the written values are from those that were read.
    pub measure: bool,
    /// Files besides those of the plan that no output may replace.
    pub protect: Vec<PathBuf>,
}

impl RunOptions {
    /// Sets the number of threads; `None` for as many as the machine has processors.
    pub fn threads(mut self, threads: Option<NonZeroUsize>) -> RunOptions {
        self.threads = threads;
        self
    }

    /// Whether an existing output is replaced.
    pub fn force(mut self, force: bool) -> RunOptions {
        self.force = force;
        self
    }

    /// Whether finished work is kept when the run ends early, and continued.
    pub fn resume(mut self, resume: bool) -> RunOptions {
        self.resume = resume;
        self
    }

    /// Whether the errors of the written values are measured.
    pub fn measure(mut self, measure: bool) -> RunOptions {
        self.measure = measure;
        self
    }

    /// Adds files that no output may replace.
    pub fn protect(mut self, files: impl IntoIterator<Item = PathBuf>) -> RunOptions {
        self.protect.extend(files);
        self
    }
}

/// What a run has written.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunSummary {
    /// The files.
    pub paths: Vec<PathBuf>,
    /// Tensors in which finite values became infinite, in the order of the output.
    pub overflows: Vec<Overflow>,
    /// The errors of the written values, if they were to be measured.
    pub report: Option<Report>,
}
