//! Options of a run, and its results.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use crate::execute::Overflow;
use crate::reads::ReadAhead;
use crate::report::Report;

/// Options of a run. They do not change the bytes.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("copy.gguf");
/// # let bytes = gguf_io::Writer::write(Vec::new(), &gguf_format::Head::default(), [[0u8; 0]; 0])?;
/// # let model = gguf_io::Model::from_source(bytes, "model in memory")?;
/// use std::num::NonZero;
/// use gguf_pipeline::{Draft, RunOptions};
///
/// // After an interruption, the next run with these options continues the work.
/// let options = RunOptions::default().resume(true).threads(NonZero::new(2));
/// Draft::copy_of(model)?.lay_out()?.run(&path, &options, &())?;
/// assert!(path.exists() && !folder.path().join("copy.gguf.journal").exists());
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
    /// Creates missing folders of the outputs, and removes them again if the run fails; for files.
    pub create_folders: bool,
    /// Fetches data before it is read; `None` to read it when it is needed.
    pub read_ahead: Option<Arc<dyn ReadAhead>>,
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

    /// Whether missing folders of the outputs are created.
    pub fn create_folders(mut self, create_folders: bool) -> RunOptions {
        self.create_folders = create_folders;
        self
    }

    /// Sets what fetches data before it is read.
    pub fn read_ahead(mut self, read_ahead: Option<Arc<dyn ReadAhead>>) -> RunOptions {
        self.read_ahead = read_ahead;
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
