//! Options of a run, and its results.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use crate::execute::Overflow;
use crate::report::Report;

/// Options of a run. They do not change the bytes.
///
/// ```
/// # let mut head = gguf_format::Head::default();
/// # head.tensors.push(gguf_format::TensorInfo::new("output.weight", [4], gguf_format::GgmlType::F16));
/// # let bytes = gguf_io::Writer::write(Vec::new(), &head, [[0u8; 8]])?;
/// # let model = gguf_io::Model::from_source(bytes, "model in memory")?;
/// use gguf_format::GgmlType;
/// use gguf_pipeline::{Draft, MemorySink, RunOptions};
///
/// let mut draft = Draft::copy_of_model(model)?;
/// draft.tensors[0].ty = GgmlType::F32;
/// let options = RunOptions::default().measure(true).threads(std::num::NonZero::new(2));
/// let summary = draft.lay_out()?.run_to(&mut MemorySink::new(), &options, &())?;
/// let report = summary.report.expect("errors were to be measured");
/// // Single precision holds all values of half precision.
/// assert_eq!((report.total().n(), report.total().figures().relative), (4, 0.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RunOptions {
    /// Number of threads; `None` for the parallelism of the machine.
    pub threads: Option<NonZeroUsize>,
    /// Replaces the output if it exists; for files.
    pub force: bool,
    /// Keeps completed work if the run ends early, in `OUT.partial` and `OUT.journal`, and continues the work kept by an earlier run; for
    /// files.
    pub resume: bool,
    /// Measures the errors of the written values.
    pub measure: bool,
    /// Files besides those of the plan that no output file may replace.
    pub protect: Vec<PathBuf>,
}

impl RunOptions {
    /// Sets the number of threads; `None` for the parallelism of the machine.
    pub fn threads(mut self, threads: Option<NonZeroUsize>) -> RunOptions {
        self.threads = threads;
        self
    }

    /// Whether an existing output is replaced.
    pub fn force(mut self, force: bool) -> RunOptions {
        self.force = force;
        self
    }

    /// Whether completed work is kept if the run ends early, and continued.
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

/// The results of a run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunSummary {
    /// The files; empty for other [sinks](crate::Sink).
    pub paths: Vec<PathBuf>,
    /// Tensors with finite values that became infinite, in the order of the output.
    pub overflows: Vec<Overflow>,
    /// The errors of the written values, if requested.
    pub report: Option<Report>,
}
