//! The run of plans, from their options to their summaries.

use std::path::{Path, PathBuf};

use gguf_io::DiskSpace;

use crate::chunk::Lane;
use crate::error::Error;
use crate::execute::{Overflow, Part, Run};
use crate::options::{RunOptions, RunSummary};
use crate::plan::{Draft, Plan, TensorPlan};
use crate::progress::{Event, Progress};
use crate::reads::ReadAhead;
use crate::report::Errors;
use crate::sink::{NewOutput, Sink};
use crate::write::Files;

impl Plan {
    /// Reads, transforms and writes everything, to the [files](Plan::output_paths) for `out`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("copy.gguf");
    /// # let bytes = gguf_io::Writer::write(Vec::new(), &gguf_format::Head::default(), [[0u8; 0]; 0])?;
    /// # let model = gguf_io::Model::from_source(bytes, "model in memory")?;
    /// use gguf_pipeline::{Draft, Error, RunOptions};
    ///
    /// let plan = Draft::copy_of(model)?.lay_out()?;
    /// let summary = plan.run(&path, &RunOptions::default(), &())?;
    /// assert_eq!(summary.paths, [path.clone()]);
    /// // An existing file is replaced only on request.
    /// assert!(matches!(plan.run(&path, &RunOptions::default(), &()), Err(Error::Output(_))));
    /// plan.run(&path, &RunOptions::default().force(true), &())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error`]. No output is left then, and existing files are untouched. [`Error::Kept`] names the files kept for resuming.
    pub fn run(
        &self,
        out: impl AsRef<Path>,
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<RunSummary, Error> {
        Ok(only(run_all(&[(self, out.as_ref())], options, progress)?))
    }

    /// As [`run`](Plan::run), to a [`Sink`]: memory, or a type of the caller. The options for files have no effect on it.
    ///
    /// # Errors
    /// [`Error`]. The outputs are [aborted](Sink::abort) then.
    pub fn run_to(
        &self,
        sink: &mut dyn Sink,
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<RunSummary, Error> {
        Ok(only(run_all_to(&[self], sink, options, progress)?))
    }
}

/// The summary of a run of one plan.
fn only(mut summaries: Vec<RunSummary>) -> RunSummary {
    summaries.pop().unwrap_or(RunSummary { paths: Vec::new(), overflows: Vec::new(), report: None })
}

/// Runs several plans over one source: each part of a tensor is read and decoded once, then encoded and written for each plan. The files
/// are the same as those of separate runs, byte for byte. They get their names when all of them are complete.
///
/// The plans must come from clones of one [`Draft`](crate::Draft), such as those of [`Plan::to_draft`]: they make the same tensors of the
/// same data, and may differ in types, the order of tensors, key-values and the split. Opening a model or a checkpoint twice gives different sources.
///
/// ```
/// use gguf_pipeline::{Draft, RunOptions, run_all};
/// # let mut head = gguf_format::Head::default();
/// # head.tensors.push(gguf_format::TensorInfo::new("output.weight", [4], gguf_format::GgmlType::F32));
/// # let bytes = gguf_io::Writer::write(Vec::new(), &head, [[0u8; 16]])?;
/// # let model = gguf_io::Model::from_source(bytes, "model in memory")?;
/// # let folder = tempfile::tempdir()?;
/// # let (first, second) = (folder.path().join("f32.gguf"), folder.path().join("f16.gguf"));
///
/// let f32 = Draft::copy_of(model)?.lay_out()?;
/// let mut draft = f32.to_draft();
/// for tensor in &mut draft.tensors {
///     tensor.ty = gguf_format::GgmlType::F16;
/// }
/// let f16 = draft.lay_out()?;
/// let summaries = run_all(&[(&f32, &first), (&f16, &second)], &RunOptions::default(), &())?;
/// assert_eq!(summaries[1].paths, [second]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Apart`] for other plans; otherwise as [`Plan::run`].
pub fn run_all(
    plans: &[(&Plan, &Path)],
    options: &RunOptions,
    progress: &dyn Progress,
) -> Result<Vec<RunSummary>, Error> {
    let mut files = Files::new(plans, options);
    let alone: Vec<&Plan> = plans.iter().map(|(plan, _)| *plan).collect();
    let summaries = run_all_to(&alone, &mut files, options, progress)?;
    let named =
        |((plan, out), summary): (&(&Plan, &Path), RunSummary)| RunSummary { paths: plan.output_paths(out), ..summary };
    Ok(plans.iter().zip(summaries).map(named).collect())
}

/// As [`run_all`], to one [`Sink`], which gets the outputs of all plans in order.
///
/// ```
/// # let bytes = gguf_io::Writer::write(Vec::new(), &gguf_format::Head::default(), [[0u8; 0]; 0])?;
/// # let model = gguf_io::Model::from_source(bytes, "model in memory")?;
/// use gguf_io::Model;
/// use gguf_pipeline::{Draft, MemorySink, RunOptions, run_all_to};
///
/// let copy = Draft::copy_of(model)?;
/// let mut named = copy.clone();
/// named.head.set("general.name", "A copy");
/// let mut sink = MemorySink::new();
/// run_all_to(&[&copy.lay_out()?, &named.lay_out()?], &mut sink, &RunOptions::default(), &())?;
///
/// let [_, named] = sink.into_outputs().try_into().expect("one output for each plan");
/// assert_eq!(Model::from_source(named, "named")?.gguf().get_as::<&str>("general.name")?, "A copy");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Apart`] for plans of different sources; otherwise as [`Plan::run_to`].
pub fn run_all_to(
    plans: &[&Plan],
    sink: &mut dyn Sink,
    options: &RunOptions,
    progress: &dyn Progress,
) -> Result<Vec<RunSummary>, Error> {
    let Some(first) = plans.first() else { return Ok(Vec::new()) };
    let lanes = plans.iter().map(|plan| {
        Lane::beside(&first.draft, &plan.draft).ok_or_else(|| Error::Apart { path: plan.draft.path.clone() })
    });
    let lanes = lanes.collect::<Result<Vec<_>, Error>>()?;
    let errors: Vec<Errors> = match options.measure {
        true => plans.iter().map(|plan| Errors::of(plan.tensors())).collect(),
        false => Vec::new(),
    };
    let run = Run { lanes: &lanes, threads: options.threads, errors: &errors };
    let overflows = write_outputs(plans, &run, sink, options.read_ahead.as_deref(), progress)?;
    let mut errors = errors.into_iter();
    let summaries = overflows.into_iter().map(|overflows| RunSummary {
        paths: Vec::new(),
        overflows,
        report: errors.next().map(|errors| errors.into_report()),
    });
    Ok(summaries.collect())
}

/// Writes the outputs of each plan, with consecutive tensors. None is completed before the data of all is written.
fn write_outputs(
    plans: &[&Plan],
    run: &Run<'_>,
    sink: &mut dyn Sink,
    read_ahead: Option<&dyn ReadAhead>,
    progress: &dyn Progress,
) -> Result<Vec<Vec<Overflow>>, Error> {
    let mut outputs: Vec<NewOutput<'_>> = Vec::new();
    let mut parts: Vec<Vec<Part<'_>>> = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        let first = outputs.len();
        let new = |(output, file)| NewOutput { run, draft: &plan.draft, file, plan: number, output };
        outputs.extend((first..).zip(&plan.files).map(new));
        parts.push((first..).zip(&plan.files).map(|(output, plan)| Part { plan, output }).collect());
    }
    sink.create(&outputs, progress)?;
    let n_tensors = run.lanes.first().map_or(0, |lane| lane.draft.tensors.len());
    let bytes = run.lanes.iter().flat_map(|lane| &lane.draft.tensors).map(TensorPlan::n_bytes);
    progress.event(Event::Started { n_tensors, bytes: bytes.fold(0, u64::saturating_add) });
    let written = fill(&parts, run, sink, read_ahead, progress).and_then(|overflows| {
        sink.commit(progress)?;
        Ok(overflows)
    });
    match written {
        Ok(overflows) => {
            progress.event(Event::Finished);
            Ok(overflows)
        }
        Err(why) => Err(sink.abort(why)),
    }
}

/// Executes the run, and makes all data durable.
fn fill(
    parts: &[Vec<Part<'_>>],
    run: &Run<'_>,
    sink: &dyn Sink,
    read_ahead: Option<&dyn ReadAhead>,
    progress: &dyn Progress,
) -> Result<Vec<Vec<Overflow>>, Error> {
    let overflows = run.execute_ahead(run.chunks(0), parts, sink, read_ahead, progress)?;
    progress.event(Event::Written);
    sink.flush()?;
    progress.event(Event::Synced);
    for lane in run.lanes {
        lane.draft.source.check_unchanged()?;
    }
    Ok(overflows)
}

/// Checks the paths of the outputs as [`run_all`] does before its work, and creates nothing.
///
/// # Errors
/// If two outputs have the same path, an output would replace an input, an output exists and may not be replaced, or its folder is missing.
pub fn check_outputs(plans: &[(&Plan, &Path)], options: &RunOptions) -> Result<(), Error> {
    Files::new(plans, options).check()
}

/// Checks the paths of files that are written for a draft, such as a plan of its work, together with those of its outputs, as [`check_outputs`] does.
///
/// # Errors
/// As for [`check_outputs`].
pub fn check_paths(draft: &Draft, paths: Vec<PathBuf>, options: &RunOptions) -> Result<(), Error> {
    Files::at(paths, vec![draft.inputs.clone()], options).check()
}

/// The free space of the disks of the outputs, and how much of it they take; see [`gguf_io::disk_space`]. A run checks it before its work.
pub fn disk_space(plans: &[(&Plan, &Path)]) -> Vec<DiskSpace> {
    let files = |(plan, out): &(&Plan, &Path)| {
        let lengths: Vec<u64> = plan.files().iter().map(|file| file.file_bytes()).collect();
        plan.output_paths(out).into_iter().zip(lengths)
    };
    let files: Vec<(PathBuf, u64)> = plans.iter().flat_map(files).collect();
    gguf_io::disk_space(files.iter().map(|(path, bytes)| (path.as_path(), *bytes)))
}
