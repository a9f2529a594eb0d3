//! Files written by runs: one, or several of one group.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gguf_io::Output;

use crate::error::Error;
use crate::execute::{Overflow, Part, Run};
use crate::journal::{Identity, Journal, group_of};
use crate::options::RunOptions;
use crate::plan::{Draft, FilePlan, Plan, TensorPlan};
use crate::progress::{Event, Progress};

/// A file to write.
#[derive(Clone, Copy)]
struct NewFile<'a> {
    /// The path.
    path: &'a Path,
    /// The contents of the file.
    plan: &'a FilePlan,
    /// Index of its plan.
    number: usize,
    /// The draft of its plan.
    draft: &'a Draft,
    /// The real paths of the input files, which must not be replaced.
    inputs: &'a [PathBuf],
    /// The tensors in the file.
    tensors: &'a [TensorPlan],
}

/// How files are written.
#[derive(Clone, Copy)]
struct Writing<'a> {
    run: &'a Run<'a>,
    /// The hash of all files of the run.
    group: &'a str,
    /// Replaces an existing file.
    force: bool,
    /// Keeps finished work if the run is interrupted, and continues an interrupted run.
    resume: bool,
}

/// The files of a plan, and their paths.
pub(crate) struct Files<'a> {
    plan: &'a Plan,
    /// The paths of the files.
    pub(crate) paths: Vec<PathBuf>,
    /// The real paths of files that must not be replaced.
    inputs: Vec<PathBuf>,
}

impl<'a> Files<'a> {
    /// The files of `plan` for the output path `out`.
    pub(crate) fn new(plan: &'a Plan, out: &Path, options: &RunOptions) -> Files<'a> {
        let inputs = plan.draft.inputs.iter().chain(&options.protect).cloned().collect();
        Files { plan, paths: plan.output_paths(out), inputs }
    }
}

/// The files of all plans, in order.
fn new_files<'a>(outputs: &'a [Files<'_>]) -> Vec<NewFile<'a>> {
    let mut files = Vec::new();
    for (number, Files { plan, paths, inputs }) in outputs.iter().enumerate() {
        let draft = &plan.draft;
        for (plan, path) in plan.files.iter().zip(paths) {
            let tensors = draft.tensors.get(plan.tensors()).unwrap_or_default();
            files.push(NewFile { path, plan, number, draft, inputs, tensors });
        }
    }
    files
}

/// Checks that all outputs have separate paths, replace no input, and may be written.
pub(crate) fn check_outputs(outputs: &[Files<'_>], options: &RunOptions) -> Result<(), Error> {
    check(&new_files(outputs), options)
}

fn check(files: &[NewFile<'_>], options: &RunOptions) -> Result<(), Error> {
    if let Some(path) = same_path(files) {
        return Err(Error::SameOutput { path: path.to_owned() });
    }
    for file in files {
        let sides = options.resume.then(|| [Journal::path_for(file.path), Output::partial_path(file.path)]);
        for path in sides.iter().flatten().map(PathBuf::as_path).chain([file.path]) {
            let is_input = |real: PathBuf| files.iter().any(|file| file.inputs.contains(&real));
            if path.canonicalize().is_ok_and(is_input) {
                return Err(Error::OverwritesInput { path: path.to_owned() });
            }
        }
    }
    // Journals are removed when all files have their names, that of the first at the end: a file without one is complete if the first is,
    // and there is no partial file.
    let may_be_done = |file: &NewFile<'_>| options.resume && Journal::may_be_done(file.path);
    let first_may_be_done = files.first().is_some_and(may_be_done);
    for file in files {
        let is_there = may_be_done(file) || first_may_be_done && is_lone(file.path);
        if !is_there {
            Output::may_write(file.path, options.force)?;
        }
    }
    Ok(())
}

/// Writes the files of each plan of a run, with consecutive tensors. No file is renamed before the data of all is on the disk.
pub(crate) fn write_files(
    outputs: &[Files<'_>],
    run: &Run<'_>,
    options: &RunOptions,
    progress: &dyn Progress,
) -> Result<Vec<Vec<Overflow>>, Error> {
    let files = new_files(outputs);
    let files = files.as_slice();
    check(files, options)?;
    let group = group_of(files.iter().map(|file| (file.path, file.plan)));
    let how = Writing { run, group: &group, force: options.force, resume: options.resume };
    let mut begun: Vec<Begun> = Vec::new();
    for file in files {
        let is_first_done = begun.first().is_some_and(Begun::is_whole_group);
        match begin(file, how, is_first_done, progress) {
            Ok(new) => begun.push(new),
            Err(e) => {
                // Nothing was written in this run. The work of an earlier one is kept.
                discard(begun.into_iter().filter(|new| !new.is_resumed()));
                return Err(e);
            }
        }
    }
    // Each file was checked separately.
    let sizes = begun.iter().zip(files).map(|(new, file)| (&new.output, file.plan.file_bytes()));
    if let Err(e) = gguf_io::check_room(sizes.filter(|(output, _)| !output.is_finished())) {
        if begun.iter().any(Begun::is_resumed) {
            return Err(keep(e.into(), files, how));
        }
        discard(begun);
        return Err(e.into());
    }
    let n_tensors = run.lanes.first().map_or(0, |lane| lane.draft.tensors.len());
    let bytes = run.lanes.iter().flat_map(|lane| &lane.draft.tensors).map(TensorPlan::n_bytes).sum();
    progress.event(Event::Started { n_tensors, bytes });
    for _ in begun.iter().filter(|new| new.journal.as_ref().is_some_and(Journal::is_unusable)) {
        progress.event(Event::Unusable);
    }

    match fill(files, how, &begun, progress) {
        Ok(overflows) => {
            let mut journals = Vec::new();
            for (i, (file, new)) in files.iter().zip(begun).enumerate() {
                journals.extend(new.journal);
                let rest = files.get(i..).unwrap_or_default();
                new.output.commit().map_err(|e| keep(e.into(), rest, how))?;
                progress.event(Event::Named { path: file.path });
            }
            for journal in journals.into_iter().rev() {
                journal.remove();
            }
            progress.event(Event::Finished);
            Ok(overflows)
        }
        Err(e) if e.recurs() => {
            discard(begun);
            Err(e)
        }
        Err(e) => Err(keep(e, files, how)),
    }
}

/// Whether there is an output, without files of an unfinished run.
fn is_lone(out: &Path) -> bool {
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    out.is_file() && !is_there(&Journal::path_for(out)) && !is_there(&Output::partial_path(out))
}

/// A file that is being written, and its journal if the run is resumable.
struct Begun {
    output: Output,
    journal: Option<Journal>,
}

impl Begun {
    /// Whether an earlier run has left work that may be usable.
    fn is_resumed(&self) -> bool {
        self.output.is_finished() || self.journal.as_ref().is_some_and(Journal::is_resumed)
    }

    /// Whether it has its final name, and its journal belongs to a run of the same files; all of them have their names then.
    fn is_whole_group(&self) -> bool {
        self.output.is_finished() && self.journal.as_ref().is_some_and(Journal::is_same_group)
    }
}

/// Opens an output, sets its length and writes its head; or finds the state left by an earlier run.
fn begin(file: &NewFile<'_>, how: Writing<'_>, is_first_done: bool, progress: &dyn Progress) -> Result<Begun, Error> {
    if is_first_done && is_lone(file.path) {
        let output = Output::finished(file.path)?;
        if has_frame(file, &output) {
            return Ok(Begun { output, journal: None });
        }
    }
    let begun = match how.resume {
        true => {
            let identity = Identity::of(file.plan, file.draft, file.inputs, how.group)?;
            let mut journal = Journal::open(file.path, how.force, &identity)?;
            if journal.has_output() {
                let output = Output::finished(file.path)?;
                let part = Part { plan: file.plan, output: &output, journal: Some(&journal) };
                if has_frame(file, &output) && how.run.is_done(file.number, part)? {
                    return Ok(Begun { output, journal: Some(journal) });
                }
                drop(output);
                journal.give_up_output(file.path, how.force, &identity)?;
            }
            match Output::reopen(file.path, how.force) {
                Ok(output) => Begun { output, journal: Some(journal) },
                Err(e) => {
                    if !journal.is_resumed() {
                        journal.remove();
                    }
                    return Err(e.into());
                }
            }
        }
        false => Begun { output: Output::create(file.path, how.force)?, journal: None },
    };
    progress.event(Event::Opened { path: file.path });
    let filled = begun.output.set_len(file.plan.file_bytes()).and_then(|()| {
        begun.output.write_at(0, file.plan.head())?;
        match begun.journal.as_ref().is_some_and(Journal::has_partial) {
            true => clear_padding(file, &begun.output),
            false => Ok(()),
        }
    });
    match filled {
        Ok(()) => Ok(begun),
        Err(e) if begun.is_resumed() => Err(keep(e.into(), std::slice::from_ref(file), how)),
        // Nothing is written yet.
        Err(e) => {
            discard([begun]);
            Err(e.into())
        }
    }
}

/// Removes unfinished output, but no file under its final name.
fn discard(begun: impl IntoIterator<Item = Begun>) {
    for Begun { output, journal } in begun {
        output.discard();
        if let Some(journal) = journal {
            journal.remove();
        }
    }
}

/// The gaps after the head and after each tensor: their offsets and lengths.
fn padding(file: &NewFile<'_>) -> Vec<(u64, u64)> {
    let starts = || file.plan.tensors().filter_map(|index| file.plan.start_of(index));
    let ends = starts().zip(file.tensors).map(|(start, tensor)| start + tensor.n_bytes());
    let ends = [file.plan.head().len() as u64].into_iter().chain(ends);
    let nexts = starts().chain([file.plan.file_bytes()]);
    let gap = |(end, next): (u64, u64)| Some((end, next.checked_sub(end).filter(|len| *len > 0)?));
    ends.zip(nexts).filter_map(gap).collect()
}

/// Writes zeros between tensors, as in a new file: chunks do not cover these bytes, so no other check would notice.
fn clear_padding(file: &NewFile<'_>, output: &Output) -> Result<(), gguf_io::Error> {
    let mut buffer = vec![0; PIECE];
    for (start, len) in padding(file).into_iter().flat_map(pieces) {
        let piece = buffer.get_mut(..len).unwrap_or_default();
        output.read_at(start, piece)?;
        // Holes of the file are kept.
        if piece.iter().any(|&byte| byte != 0) {
            piece.fill(0);
            output.write_at(start, piece)?;
        }
    }
    Ok(())
}

/// Bytes of padding to read at once: it may be much longer than everything else.
const PIECE: usize = 1 << 16;

/// Divides a range into pieces.
fn pieces((start, len): (u64, u64)) -> impl Iterator<Item = (u64, usize)> {
    let step = PIECE as u64;
    (0..len.div_ceil(step)).map(move |i| (start + i * step, step.min(len - i * step) as usize))
}

/// Whether a file has the right length and head, and zeros between its tensors. An unreadable file does not.
fn has_frame(file: &NewFile<'_>, output: &Output) -> bool {
    let mut buffer = vec![0; PIECE];
    let mut holds = |start, expected: &[u8]| {
        let found = buffer.get_mut(..expected.len()).unwrap_or_default();
        output.read_at(start, found).is_ok() && found == expected
    };
    let zeros = [0; PIECE];
    let head = (0..).step_by(PIECE).zip(file.plan.head().chunks(PIECE));
    output.file().metadata().is_ok_and(|there| there.len() == file.plan.file_bytes())
        && head.into_iter().all(|(start, piece)| holds(start, piece))
        && padding(file)
            .into_iter()
            .flat_map(pieces)
            .all(|(start, len)| holds(start, zeros.get(..len).unwrap_or_default()))
}

/// A path shared by two files, as far as can be determined before they exist: by the real path of the directory.
fn same_path<'a>(files: &[NewFile<'a>]) -> Option<&'a Path> {
    let mut seen = BTreeSet::new();
    let real = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        path.file_name().map_or(folder.clone(), |name| folder.join(name))
    };
    files.iter().map(|file| file.path).find(|path| !seen.insert(real(path)))
}

/// Executes the run, and syncs all data.
fn fill(
    files: &[NewFile<'_>],
    how: Writing<'_>,
    begun: &[Begun],
    progress: &dyn Progress,
) -> Result<Vec<Vec<Overflow>>, Error> {
    let mut parts: Vec<Vec<Part<'_>>> = how.run.lanes.iter().map(|_| Vec::new()).collect();
    for (file, Begun { output, journal }) in files.iter().zip(begun) {
        if let Some(parts) = parts.get_mut(file.number) {
            parts.push(Part { plan: file.plan, output, journal: journal.as_ref() });
        }
    }
    let overflows = how.run.execute(&parts, progress)?;
    progress.event(Event::Written);
    for Begun { output, .. } in begun {
        output.sync()?;
    }
    progress.event(Event::Synced);
    Ok(overflows)
}

/// The error, with the files kept for resuming if requested.
fn keep(why: Error, files: &[NewFile<'_>], how: Writing<'_>) -> Error {
    match files {
        [first, others @ ..] if how.resume => Error::Kept {
            why: Box::new(why),
            partial: Output::partial_path(first.path),
            journal: Journal::path_for(first.path),
            n_others: others.len(),
        },
        _ => why,
    }
}
