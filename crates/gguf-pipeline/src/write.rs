//! The sink of files: one, or several of one group. They are temporary until all of them are complete, and can be resumed.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use gguf_io::Output;

use crate::buffers::resize;
use crate::error::Error;
use crate::journal::{Finished, Identity, Journal, group_of};
use crate::options::RunOptions;
use crate::plan::Plan;
use crate::progress::{Event, Progress};
use crate::sink::{Kept, NewOutput, Piece, Sink};
use crate::source::Stored;

/// The files of a run. No file is renamed before the data of all is on the disk, and none keeps its final name if another cannot get one.
pub(crate) struct Files {
    /// The paths of the outputs.
    paths: Vec<PathBuf>,
    /// For each plan, the real paths of files that must not be replaced.
    inputs: Vec<Vec<PathBuf>>,
    /// Other files that no output may replace, such as recipes. A run does not depend on them: their content is in the plans.
    protected: Vec<PathBuf>,
    /// Replaces an existing file.
    force: bool,
    /// Keeps finished work if the run is interrupted, and continues an interrupted run.
    resume: bool,
    /// Creates missing folders.
    create_folders: bool,
    /// The folders that this run has created, each before those in it.
    created: Vec<PathBuf>,
    /// The open outputs.
    begun: Vec<Begun>,
}

/// The folder of a file, if there is nothing of that name.
fn missing_folder(path: &Path) -> Option<&Path> {
    path.parent().filter(|folder| !folder.as_os_str().is_empty() && folder.symlink_metadata().is_err())
}

impl Files {
    /// The files of plans, for their output paths.
    pub(crate) fn new(plans: &[(&Plan, &Path)], options: &RunOptions) -> Files {
        let paths = plans.iter().flat_map(|(plan, out)| plan.output_paths(out)).collect();
        Files::at(paths, plans.iter().map(|(plan, _)| plan.draft.inputs.clone()).collect(), options)
    }

    /// Files with these paths, which must not replace the inputs.
    pub(crate) fn at(paths: Vec<PathBuf>, inputs: Vec<Vec<PathBuf>>, options: &RunOptions) -> Files {
        Files {
            paths,
            inputs,
            protected: options.protect.iter().filter_map(|path| path.canonicalize().ok()).collect(),
            force: options.force,
            resume: options.resume,
            create_folders: options.create_folders,
            created: Vec::new(),
            begun: Vec::new(),
        }
    }

    /// Checks that all outputs have separate paths, replace no input, and may be written.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(path) = same_path(&self.paths) {
            return Err(Error::SameOutput { path: path.to_owned() });
        }
        for path in &self.paths {
            let sides = self.resume.then(|| [Journal::path_for(path), Output::partial_path(path)]);
            for path in sides.iter().flatten().map(PathBuf::as_path).chain([path.as_path()]) {
                let is_input =
                    |real: PathBuf| self.inputs.iter().chain([&self.protected]).any(|files| files.contains(&real));
                if path.canonicalize().is_ok_and(is_input) {
                    return Err(Error::OverwritesInput { path: path.to_owned() });
                }
            }
        }
        // Journals are removed when all files have their names, that of the first at the end: a file without one is complete if the first
        // is, and there is no partial file.
        let may_be_done = |path: &PathBuf| self.resume && Journal::may_be_done(path);
        let first_may_be_done = self.paths.first().is_some_and(may_be_done);
        for path in &self.paths {
            let is_there = may_be_done(path) || first_may_be_done && is_lone(path);
            let is_new = || self.create_folders && missing_folder(path).is_some();
            if !is_there && !is_new() {
                Output::may_write(path, self.force)?;
            }
        }
        Ok(())
    }

    /// Creates a folder, and those above it.
    fn create_folder(&mut self, folder: &Path) -> Result<(), Error> {
        if let Some(above) = missing_folder(folder) {
            self.create_folder(above)?;
        }
        std::fs::create_dir(folder).map_err(|e| Error::io("create", folder, e))?;
        self.created.push(folder.to_owned());
        Ok(())
    }

    /// Opens an output, sets its length and writes its head; or finds the state left by an earlier run.
    fn begin(&self, file: &NewOutput<'_>, path: &Path, group: &str, progress: &dyn Progress) -> Result<Begun, Error> {
        let head = file.head()?;
        if self.begun.first().is_some_and(Begun::is_whole_group) && is_lone(path) {
            let output = Output::finished(path)?;
            if has_frame(file, &head, &output) {
                return Ok(Begun { output, journal: None });
            }
        }
        let begun = match self.resume {
            true => {
                let inputs = self.inputs.get(file.plan).map(Vec::as_slice).unwrap_or_default();
                let identity = Identity::of(file, &head, inputs, group)?;
                let mut journal = Journal::open(path, self.force, &identity)?;
                if journal.has_output() {
                    let output = Output::finished(path)?;
                    if has_frame(file, &head, &output) && has_all(file, &output, &journal)? {
                        return Ok(Begun { output, journal: Some(journal) });
                    }
                    drop(output);
                    journal.give_up_output(path, self.force, &identity)?;
                }
                match Output::reopen(path, self.force) {
                    Ok(output) => Begun { output, journal: Some(journal) },
                    Err(e) => {
                        if !journal.is_resumed() {
                            journal.remove();
                        }
                        return Err(e.into());
                    }
                }
            }
            false => Begun { output: Output::create(path, self.force)?, journal: None },
        };
        progress.event(Event::Opened { path });
        let filled = begun.output.set_len(file.n_bytes()).and_then(|()| {
            begun.output.write_at(0, &head)?;
            match begun.journal.as_ref().is_some_and(Journal::has_partial) {
                true => clear_padding(file, &begun.output),
                false => Ok(()),
            }
        });
        match filled {
            Ok(()) => Ok(begun),
            Err(e) if begun.is_resumed() => Err(self.keep(e.into(), path, 0)),
            // Nothing is written yet.
            Err(e) => {
                discard([begun]);
                Err(e.into())
            }
        }
    }

    /// The error, with the files kept for resuming if requested: those of the output `first`, and of `n_others`.
    fn keep(&self, why: Error, first: &Path, n_others: usize) -> Error {
        match self.resume {
            true => Error::Kept {
                why: Box::new(why),
                partial: Output::partial_path(first),
                journal: Journal::path_for(first),
                n_others,
            },
            false => why,
        }
    }

    /// As [`keep`](Files::keep), for all outputs.
    fn keep_all(&self, why: Error) -> Error {
        match self.paths.as_slice() {
            [first, others @ ..] => self.keep(why, first, others.len()),
            [] => why,
        }
    }

    /// The open file with that index.
    fn begun(&self, output: usize) -> Result<&Begun, Error> {
        let missing = || Error::io("write", Path::new(""), std::io::ErrorKind::NotFound.into());
        self.begun.get(output).ok_or_else(missing)
    }
}

impl Sink for Files {
    fn create(&mut self, outputs: &[NewOutput<'_>], progress: &dyn Progress) -> Result<(), Error> {
        self.check()?;
        let paths = self.paths.clone();
        if self.create_folders {
            for path in &paths {
                if let Some(folder) = missing_folder(path) {
                    self.create_folder(folder)?;
                }
            }
        }
        let files = || outputs.iter().zip(&paths);
        let group = if self.resume { group_of(files())? } else { String::new() };
        for (file, path) in files() {
            match self.begin(file, path, &group, progress) {
                Ok(new) => self.begun.push(new),
                Err(e) => {
                    // Nothing was written in this run. The work of an earlier one is kept.
                    discard(self.begun.drain(..).filter(|new| !new.is_resumed()));
                    return Err(e);
                }
            }
        }
        // Each file was checked separately.
        let sizes = self.begun.iter().zip(outputs).map(|(new, file)| (&new.output, file.n_bytes()));
        if let Err(e) = gguf_io::check_disk_space(sizes.filter(|(output, _)| !output.is_finished())) {
            if self.begun.iter().any(Begun::is_resumed) {
                self.begun.clear();
                return Err(self.keep_all(e.into()));
            }
            discard(self.begun.drain(..));
            return Err(e.into());
        }
        for _ in self.begun.iter().filter(|new| new.journal.as_ref().is_some_and(Journal::is_unusable)) {
            progress.event(Event::Unusable);
        }
        Ok(())
    }

    fn write_at(&self, output: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.begun(output)?.output.write_at(offset, bytes)?)
    }

    fn flush(&self) -> Result<(), Error> {
        self.begun.iter().try_for_each(|Begun { output, .. }| Ok(output.sync()?))
    }

    fn commit(&mut self, progress: &dyn Progress) -> Result<(), Error> {
        let (outputs, journals): (Vec<_>, Vec<_>) = self.begun.drain(..).map(|new| (new.output, new.journal)).unzip();
        gguf_io::commit_all(outputs, &mut |path| progress.event(Event::Named { path }))?;
        for journal in journals.into_iter().flatten().rev() {
            journal.remove();
        }
        self.created.clear();
        Ok(())
    }

    fn abort(&mut self, why: Error) -> Error {
        if why.recurs() {
            discard(self.begun.drain(..));
            return why;
        }
        // Files with temporary names are removed, others are kept.
        self.begun.clear();
        self.keep_all(why)
    }

    fn kept(&self, piece: &Piece<'_>, buffer: &mut Vec<u8>) -> Result<Kept, Error> {
        let Begun { output, journal } = self.begun(piece.output)?;
        let record = journal.as_ref().and_then(|journal| record(journal, piece));
        let overflows = record.map_or(0, |(finished, _)| finished.overflows);
        Ok(match record {
            // A file with its final name was verified before the run.
            _ if output.is_finished() => Kept::Intact { overflows },
            Some(record) if is_right(output, record, piece, buffer)? => Kept::Intact { overflows },
            Some(_) => Kept::Damaged,
            None if journal.as_ref().is_some_and(Journal::is_resumed) => Kept::Missing,
            None => Kept::Nothing,
        })
    }

    fn is_kept(&self, piece: &Piece<'_>) -> bool {
        self.begun(piece.output).is_ok_and(|Begun { output, journal }| {
            output.is_finished() || journal.as_ref().is_some_and(|journal| record(journal, piece).is_some())
        })
    }

    fn written(&self, piece: &Piece<'_>, bytes: &[u8], overflows: u64) -> Result<(), Error> {
        let Some(journal) = &self.begun(piece.output)?.journal else { return Ok(()) };
        let Piece { index, first, n_elements, .. } = *piece;
        journal.add(Finished { tensor: index, first, n_elements, overflows }, bytes)
    }

    fn copy(&self, piece: &Piece<'_>, from: &Stored<'_>, range: Range<u64>) -> Result<bool, Error> {
        let Begun { output, journal } = self.begun(piece.output)?;
        // A journal needs the bytes in memory.
        if journal.is_some() {
            return Ok(false);
        }
        copy(output, piece, from, range).map(|()| true)
    }
}

/// Copies a piece from a file.
fn copy(output: &Output, piece: &Piece<'_>, from: &Stored<'_>, range: Range<u64>) -> Result<(), Error> {
    let copied = from.file.copy_to(range, output, piece.offset);
    copied.map_err(|e| if e.path() == output.path() { e.into() } else { Error::input(e) })
}

/// A run of one output, to a file that the caller has begun: the caller gives it its name, or discards it. The data is not synced.
#[derive(Debug)]
pub struct OutputSink<'a>(&'a Output);

impl<'a> OutputSink<'a> {
    /// A sink for one run.
    pub fn new(output: &'a Output) -> OutputSink<'a> {
        OutputSink(output)
    }
}

impl Sink for OutputSink<'_> {
    fn create(&mut self, outputs: &[NewOutput<'_>], _: &dyn Progress) -> Result<(), Error> {
        let [output] = outputs else {
            return Err(Error::io("write several files to", self.0.path(), std::io::ErrorKind::Unsupported.into()));
        };
        self.0.set_len(output.n_bytes())?;
        Ok(self.0.write_at(0, &output.head()?)?)
    }

    fn write_at(&self, _: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.0.write_at(offset, bytes)?)
    }

    fn copy(&self, piece: &Piece<'_>, from: &Stored<'_>, range: Range<u64>) -> Result<bool, Error> {
        copy(self.0, piece, from, range).map(|()| true)
    }

    fn commit(&mut self, _: &dyn Progress) -> Result<(), Error> {
        Ok(())
    }

    fn abort(&mut self, why: Error) -> Error {
        why
    }
}

/// Removes the folders that the run has created, unless it was committed or left files in them.
impl Drop for Files {
    fn drop(&mut self) {
        self.begun.clear();
        for folder in self.created.iter().rev() {
            let _ = std::fs::remove_dir(folder);
        }
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

/// The journal's record of a piece.
fn record<'a>(journal: &'a Journal, piece: &Piece<'_>) -> Option<&'a (Finished, u128)> {
    journal.finished(piece.index, piece.first, piece.n_elements)
}

/// Whether the bytes in the file match the record. Unreadable bytes do not match.
fn is_right(
    output: &Output,
    record: &(Finished, u128),
    piece: &Piece<'_>,
    buffer: &mut Vec<u8>,
) -> Result<bool, Error> {
    resize(buffer, piece.n_bytes, &piece.tensor.name)?;
    Ok(output.read_at(piece.offset, buffer).is_ok() && Journal::verify(record, buffer))
}

/// Whether a file contains all data recorded in its journal.
///
/// # Errors
/// If memory for a piece is not available.
fn has_all(file: &NewOutput<'_>, output: &Output, journal: &Journal) -> Result<bool, Error> {
    let mut buffer = Vec::new();
    for piece in file.pieces() {
        let piece = piece?;
        let Some(record) = record(journal, &piece) else { return Ok(false) };
        if !is_right(output, record, &piece, &mut buffer)? {
            return Ok(false);
        }
    }
    Ok(true)
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

/// Writes zeros between tensors, as in a new file: chunks do not cover these bytes, so no other check would notice.
fn clear_padding(file: &NewOutput<'_>, output: &Output) -> Result<(), gguf_io::Error> {
    let mut buffer = vec![0; PIECE];
    for (start, len) in file.padding().into_iter().flat_map(pieces) {
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
fn pieces(range: Range<u64>) -> impl Iterator<Item = (u64, usize)> {
    let (start, len, step) = (range.start, range.end - range.start, PIECE as u64);
    let len_from = move |done: u64| usize::try_from(len.saturating_sub(done)).map_or(PIECE, |left| left.min(PIECE));
    (0..len.div_ceil(step)).map(move |i| (start + i * step, len_from(i * step)))
}

/// Whether a file has the right length and head, and zeros between its tensors. An unreadable file does not.
fn has_frame(file: &NewOutput<'_>, head: &[u8], output: &Output) -> bool {
    let mut buffer = vec![0; PIECE];
    let mut holds = |start, expected: &[u8]| {
        let found = buffer.get_mut(..expected.len()).unwrap_or_default();
        output.read_at(start, found).is_ok() && found == expected
    };
    let zeros = [0; PIECE];
    let head = (0..).step_by(PIECE).zip(head.chunks(PIECE));
    output.file().metadata().is_ok_and(|there| there.len() == file.n_bytes())
        && head.into_iter().all(|(start, piece)| holds(start, piece))
        && file
            .padding()
            .into_iter()
            .flat_map(pieces)
            .all(|(start, len)| holds(start, zeros.get(..len).unwrap_or_default()))
}

/// A path shared by two files, as far as can be determined before they exist: by the real path of the directory.
fn same_path(paths: &[PathBuf]) -> Option<&Path> {
    let mut seen = BTreeSet::new();
    let real = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        path.file_name().map_or(folder.clone(), |name| folder.join(name))
    };
    paths.iter().map(PathBuf::as_path).find(|path| !seen.insert(real(path)))
}
