//! The run of a plan, from its options to its summary.

use std::path::Path;

use crate::error::Error;
use crate::execute::Run;
use crate::options::{RunOptions, RunSummary};
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::Errors;
use crate::write::write_files;

impl Plan {
    /// Reads, transforms and writes everything, to the [files](Plan::output_paths) that `out` names.
    ///
    /// # Errors
    /// [`Error`]. No output is left then, and a file that had the name before is untouched. [`Error::Kept`] names what is kept to
    /// be resumed.
    pub fn run(
        &self,
        out: impl AsRef<Path>,
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<RunSummary, Error> {
        let errors = options.measure.then(Errors::default);
        let run = Run { draft: &self.draft, threads: options.threads, errors: errors.as_ref() };
        let paths = self.output_paths(out.as_ref());
        let overflows = write_files(&self.files, &paths, &run, options, progress)?;
        Ok(RunSummary { paths, overflows, report: errors.map(|errors| errors.into_report(self.tensors())) })
    }
}
