//! The journal of a resumable run.
//!
//! It is beside the output (`out.gguf.journal`, with the data so far in `out.gguf.partial`). Its first line identifies the inputs and the
//! output: an [`Identity`] and its hash. Each finished chunk adds a line with a hash of its bytes. Lines are only appended, with one write
//! each, so an interruption can only truncate the last one or lose some. Nothing in it is trusted: a chunk is finished only if the bytes of
//! the partial file match the hash, which also covers the rest of the line; so neither file has to reach the disk before the other. A first
//! line that does not match its hash is damaged, and the work starts over.
//!
//! The journal is locked while it is open, which also protects the partial file.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use gguf_io::{Output, create_locked};
use serde::{Deserialize, Serialize};
// Not cryptographic, but as fast as memory, and without dependencies: the hash only detects lost writes and bad disks.
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128_with_seed};

use crate::error::{Difference, Error};
use crate::plan::TensorPlan;
use crate::sink::NewOutput;
use crate::source::SourceVersion;

/// The maximum length of a journal: enough for some 4 TB of data. Chunks beyond it are written again.
const MAX_BYTES: u64 = 64 << 20;

/// The version of the journal's format.
const VERSION: u32 = 3;

/// The start of a journal of any version.
const START: &[u8] = b"{\"gguf_journal\":";

/// Everything that determines the bytes of an output.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Version of the journal's format: [`VERSION`]. The first field: see [`START`].
    gguf_journal: u32,
    /// The program: another version may choose other chunks or encode differently.
    program: String,
    /// Hash of the head.
    head: String,
    /// Hash of the planned tensors: inputs, operations and outputs.
    tensors: String,
    /// Hash of the tensors with weights of importance, and of the entries.
    importance: String,
    /// Length of the output.
    file_bytes: u64,
    /// The input files.
    inputs: Vec<InputFile>,
    /// Hash of all output files of the run. The bytes of this file do not depend on it: any run that writes the file can continue it.
    group: String,
}

impl PartialEq for Identity {
    fn eq(&self, other: &Identity) -> bool {
        let Identity { gguf_journal, program, head, tensors, importance, file_bytes, inputs, group: _ } = self;
        let is = (gguf_journal, program, head, tensors, importance, file_bytes, inputs);
        let o = other;
        is == (&o.gguf_journal, &o.program, &o.head, &o.tensors, &o.importance, &o.file_bytes, &o.inputs)
    }
}

/// The hash of all output files of a run, from their paths and heads.
///
/// # Errors
/// If a head cannot be encoded.
pub(crate) fn group_of<'a>(files: impl Iterator<Item = (&'a NewOutput<'a>, &'a PathBuf)>) -> Result<String, Error> {
    let files = files.map(|(file, path)| Ok((path, hash_of(&file.head()?), file.n_bytes())));
    Ok(hash_of_debug(&files.collect::<Result<Vec<_>, Error>>()?))
}

/// An input file, identified without reading all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct InputFile {
    path: String,
    bytes: u64,
    /// Time of the last change, in nanoseconds since 1970.
    modified: Option<u64>,
    /// The version of a file that is not local.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

impl NewOutput<'_> {
    /// A hash of everything that determines the bytes of the output: the inputs with their lengths and versions, the tensors with their types and
    /// operations, the head, and the version of this library. A sink that keeps work continues it only if the hash is the same.
    ///
    /// # Errors
    /// [`Error::Layout`]; errors of the system for an input.
    pub fn identity(&self) -> Result<String, Error> {
        Ok(hash_of_debug(&Identity::of(self, &self.head()?, &self.draft.inputs, "")?))
    }
}

impl Identity {
    /// The identity of a file with that head; `inputs` are the input files, `group` is the hash of all files of the run.
    ///
    /// # Errors
    /// If the system does not report the state of an input.
    pub(crate) fn of(file: &NewOutput<'_>, head: &[u8], inputs: &[PathBuf], group: &str) -> Result<Identity, Error> {
        let draft = file.draft;
        let input = |path: &PathBuf| {
            let metadata = fs::metadata(path).map_err(|e| Error::io("read", path, e))?;
            let since = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            Ok(InputFile {
                path: path.to_string_lossy().into_owned(),
                bytes: metadata.len(),
                modified: since.and_then(|since| u64::try_from(since.as_nanos()).ok()),
                version: None,
            })
        };
        let remote = draft.source.versions().into_iter().map(|SourceVersion { path, bytes, version }| InputFile {
            path: path.to_string_lossy().into_owned(),
            bytes,
            modified: None,
            version: Some(version),
        });
        let entries: Vec<_> = draft.tensors.iter().filter_map(|t| Some((&t.name, t.importance.as_ref()?))).collect();
        Ok(Identity {
            gguf_journal: VERSION,
            program: concat!("ggufkit ", env!("CARGO_PKG_VERSION")).to_owned(),
            head: hash_of(head),
            // The debug form has every field, including future ones.
            tensors: hash_of_debug(&(draft.rounding, draft.head.dialect.order, WithoutImportance(&draft.tensors))),
            importance: hash_of_debug(&entries),
            file_bytes: file.n_bytes(),
            inputs: inputs.iter().map(input).chain(remote.map(Ok)).collect::<Result<_, Error>>()?,
            group: group.to_owned(),
        })
    }

    /// The first line of a journal: the identity, a space, and the hash of the text before it.
    fn to_line(&self) -> serde_json::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        let hash = hash_of(&line);
        line.push(b' ');
        line.extend_from_slice(hash.as_bytes());
        Ok(line)
    }

    /// Parses a first line, without its end; `None` if it is damaged.
    fn parse(line: &[u8]) -> Option<Identity> {
        let (json, hash) = line.split_at_checked(line.len().checked_sub(HASH_LEN)?)?;
        let json = json.strip_suffix(b" ")?;
        (hash_of(json).as_bytes() == hash).then_some(())?;
        serde_json::from_slice(json).ok()
    }

    /// The differences from the identity in a journal.
    fn differences(&self, other: &Identity) -> Vec<Difference> {
        // Hashes of other versions are not comparable.
        if (self.gguf_journal, &self.program) != (other.gguf_journal, &other.program) {
            return vec![Difference::Program { was: other.program.clone(), is: self.program.clone() }];
        }
        let mut found = Vec::new();
        for was in &other.inputs {
            match self.inputs.iter().find(|now| now.path == was.path) {
                Some(now) if now == was => {}
                Some(_) => found.push(Difference::InputChanged(was.path.clone())),
                None => found.push(Difference::InputGone(was.path.clone())),
            }
        }
        let is_new = |now: &&InputFile| other.inputs.iter().all(|was| was.path != now.path);
        found.extend(self.inputs.iter().filter(is_new).map(|now| Difference::InputNew(now.path.clone())));
        if self.tensors != other.tensors {
            found.push(Difference::Tensors);
        }
        if self.importance != other.importance {
            found.push(Difference::Importance);
        }
        if found.is_empty() {
            found.push(Difference::Metadata);
        }
        found
    }
}

/// The debug form of tensors without their entries of importance.
struct WithoutImportance<'a>(&'a [TensorPlan]);

impl fmt::Debug for WithoutImportance<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let without = |tensor: &TensorPlan| {
            let mut tensor = tensor.clone();
            tensor.importance = None;
            tensor
        };
        f.debug_list().entries(self.0.iter().map(without)).finish()
    }
}

/// Digits of a hash.
const HASH_LEN: usize = 32;

fn hash_of(bytes: &[u8]) -> String {
    let mut hash = Xxh3::new();
    hash.update(bytes);
    format!("{:032x}", hash.digest128())
}

fn hash_of_debug(value: &impl fmt::Debug) -> String {
    struct Hashing(Xxh3);
    impl fmt::Write for Hashing {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.update(text.as_bytes());
            Ok(())
        }
    }
    let mut hash = Hashing(Xxh3::new());
    // Writing into a hash cannot fail.
    let _ = write!(hash, "{value:?}");
    format!("{:032x}", hash.0.digest128())
}

/// A finished chunk: a run of elements of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finished {
    /// The index of the tensor in the plan.
    pub(crate) tensor: usize,
    /// The first element.
    pub(crate) first: u64,
    /// Number of elements.
    pub(crate) n_elements: u64,
    /// The number of finite values that became infinite.
    pub(crate) overflows: u64,
}

impl Finished {
    /// Hash of the chunk and its bytes.
    fn hash(&self, bytes: &[u8]) -> u128 {
        let fields = [self.tensor as u64, self.first, self.n_elements, self.overflows];
        let fields: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
        xxh3_128_with_seed(bytes, xxh3_64(&fields))
    }

    /// Parses a line, without its end.
    fn parse(line: &[u8]) -> Option<(Finished, u128)> {
        let mut words = std::str::from_utf8(line).ok()?.split(' ');
        let mut number = || words.next()?.parse().ok();
        let (tensor, first, n_elements, overflows) = (number()?, number()?, number()?, number()?);
        // This rejects very short lines, of which there could be many.
        let hash = words.next().filter(|hash| hash.len() == HASH_LEN)?;
        let hash = u128::from_str_radix(hash, 16).ok()?;
        let tensor = usize::try_from(tensor).ok()?;
        words.next().is_none().then_some((Finished { tensor, first, n_elements, overflows }, hash))
    }
}

/// The files left by an earlier run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Nothing.
    Nothing,
    /// Unusable files.
    Unusable,
    /// The partial file and its journal entries.
    Partial,
    /// Possibly the finished output: the run ended between renaming it and removing the journal.
    Output,
}

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: Mutex<File>,
    left: Left,
    /// Whether the earlier run wrote exactly the same files.
    is_same_group: bool,
    /// The finished chunks of an earlier run, by tensor and first element.
    found: HashMap<(usize, u64), (Finished, u128)>,
}

impl Journal {
    /// The name of the journal of an output: `out.gguf.journal` for `out.gguf`.
    pub(crate) fn path_for(out: &Path) -> PathBuf {
        let mut name = out.as_os_str().to_owned();
        name.push(".journal");
        name.into()
    }

    /// Whether there is an output, and a journal but no partial file: a run may have ended just before it removed the journal.
    pub(crate) fn may_be_done(out: &Path) -> bool {
        let is_file = |path: &Path| path.symlink_metadata().is_ok_and(|there| there.is_file());
        is_file(out) && is_file(&Journal::path_for(out)) && Output::partial_path(out).symlink_metadata().is_err()
    }

    /// Opens the journal of the output `out`, or starts a new one if there is none to continue; the caller [reopens](Output::reopen) the
    /// partial file. With `force`, starts over if the existing journal belongs to another plan.
    ///
    /// # Errors
    /// If another process has locked it; if it belongs to another plan; if the existing files are not a journal and its partial file; if
    /// the output exists, and does not belong to the journal.
    pub(crate) fn open(out: &Path, force: bool, identity: &Identity) -> Result<Journal, Error> {
        let path = Journal::path_for(out);
        let (file, is_new) = create_locked(&path)?;
        let same = file.try_clone().map_err(|e| Error::io("open", &path, e))?;
        let opened = Journal::go_on(same, out, force, identity);
        if is_new && opened.is_err() {
            Journal::remove_file(&path, file);
        }
        opened
    }

    fn go_on(mut file: File, out: &Path, force: bool, identity: &Identity) -> Result<Journal, Error> {
        let (path, partial) = (Journal::path_for(out), Output::partial_path(out));
        let text = read(&mut file).map_err(|e| Error::io("read", &path, e))?;
        let has_partial = partial.symlink_metadata().is_ok();
        let may_be_done = Journal::may_be_done(out);
        if !may_be_done {
            Output::may_write(out, force)?;
        }
        let mut left = Left::Nothing;
        let mut is_same_group = false;
        let mut notes: &[u8] = &[];
        if text.is_empty() {
            // The journal is always created and synced before the partial file, so this one is not ours.
            if has_partial && !force {
                return Err(Error::NotOurs { path: partial });
            }
        } else if starts_as_ours(&text) {
            let (first, rest) = split_line(&text).unwrap_or((&text, &[]));
            match Identity::parse(first) {
                Some(other) if other == *identity => {
                    left = match (has_partial, may_be_done) {
                        (true, _) => Left::Partial,
                        (false, true) => Left::Output,
                        (false, false) if rest.is_empty() => Left::Nothing,
                        (false, false) => Left::Unusable,
                    };
                    notes = rest;
                    is_same_group = other.group == identity.group;
                }
                Some(other) if !force && !may_be_done => {
                    return Err(Error::OtherPlan { partial, journal: path, differences: identity.differences(&other) });
                }
                // Discarded, as requested.
                Some(_) => {}
                // The first line is damaged, so the rest is not trusted.
                None => left = Left::Unusable,
            }
        } else if !force {
            return Err(Error::NotOurs { path });
        }
        let mut journal = Journal { path, file: Mutex::new(file), left, is_same_group, found: HashMap::new() };
        match left {
            Left::Partial | Left::Output => {
                let unread = journal.read_notes(notes);
                // An appended line would otherwise continue the truncated one.
                let whole = text.len() - unread;
                let file = journal.file.get_mut().unwrap_or_else(PoisonError::into_inner);
                let cut = file.set_len(whole as u64).and_then(|()| file.seek(SeekFrom::End(0)));
                cut.map_err(|e| Error::io("write", &journal.path, e))?;
            }
            Left::Nothing | Left::Unusable => {
                Output::may_write(out, force)?;
                journal.start(out, identity)?;
            }
        }
        Ok(journal)
    }

    /// Reads the lines after the first; returns the length of an incomplete line at the end.
    fn read_notes(&mut self, mut rest: &[u8]) -> usize {
        while let Some((line, after)) = split_line(rest) {
            // The chunk of a damaged line is written again.
            if let Some((finished, hash)) = Finished::parse(line)
                && self.found.try_reserve(1).is_ok()
            {
                self.found.insert((finished.tensor, finished.first), (finished, hash));
            }
            rest = after;
        }
        rest.len()
    }

    /// Starts over.
    fn start(&mut self, out: &Path, identity: &Identity) -> Result<(), Error> {
        // The partial file is useless, including its padding.
        let partial = Output::partial_path(out);
        if partial.symlink_metadata().is_ok() {
            fs::remove_file(&partial).map_err(|e| Error::io("remove", &partial, e))?;
        }
        self.found.clear();
        let write = |e| Error::io("write", &self.path, e);
        let mut line = identity.to_line().map_err(|e| write(e.into()))?;
        line.push(b'\n');
        let file = self.file.get_mut().unwrap_or_else(PoisonError::into_inner);
        file.set_len(0).and_then(|()| file.rewind()).map_err(write)?;
        file.write_all(&line).and_then(|()| file.sync_all()).map_err(write)
    }

    /// Discards an output with its final name that does not match the journal.
    ///
    /// # Errors
    /// If the output may not be replaced; errors of the operating system.
    pub(crate) fn give_up_output(&mut self, out: &Path, force: bool, identity: &Identity) -> Result<(), Error> {
        Output::may_write(out, force)?;
        // Without a record it is an older file that the run was to replace.
        self.left = if self.found.is_empty() { Left::Nothing } else { Left::Unusable };
        self.start(out, identity)
    }

    /// Whether the output may already have its final name; it is accepted if all of it matches the journal.
    pub(crate) fn has_output(&self) -> bool {
        self.left == Left::Output
    }

    /// Whether the earlier run wrote exactly the same files.
    pub(crate) fn is_same_group(&self) -> bool {
        self.is_same_group
    }

    /// Whether the partial file of an earlier run is continued, with any content.
    pub(crate) fn has_partial(&self) -> bool {
        self.left == Left::Partial
    }

    /// Whether an earlier run has left unusable files.
    pub(crate) fn is_unusable(&self) -> bool {
        self.left == Left::Unusable
    }

    /// Whether an earlier run has left work that may be usable.
    pub(crate) fn is_resumed(&self) -> bool {
        !self.found.is_empty()
    }

    /// The record of an earlier run for the chunk, if it has finished it.
    pub(crate) fn finished(&self, tensor: usize, first: u64, n_elements: u64) -> Option<&(Finished, u128)> {
        self.found.get(&(tensor, first)).filter(|(finished, _)| finished.n_elements == n_elements)
    }

    /// Whether the bytes match the record of a chunk.
    pub(crate) fn verify((finished, hash): &(Finished, u128), bytes: &[u8]) -> bool {
        finished.hash(bytes) == *hash
    }

    /// Records a chunk as finished, after its bytes were written.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub(crate) fn add(&self, finished: Finished, bytes: &[u8]) -> Result<(), Error> {
        let Finished { tensor, first, n_elements, overflows } = finished;
        let line = format!("{tensor} {first} {n_elements} {overflows} {:032x}\n", finished.hash(bytes));
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes()).map_err(|e| Error::io("write", &self.path, e))
    }

    /// Removes the journal: the output is complete, or discarded.
    pub(crate) fn remove(self) {
        let Journal { path, file, .. } = self;
        Journal::remove_file(&path, file.into_inner().unwrap_or_else(PoisonError::into_inner));
    }

    fn remove_file(path: &Path, file: File) {
        // On Unix the name is removed while the file is locked, which prevents races. Elsewhere a locked file cannot be removed.
        if cfg!(not(unix)) {
            drop(file);
        }
        let _ = fs::remove_file(path);
    }
}

/// The whole file, up to [`MAX_BYTES`].
fn read(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.rewind()?;
    file.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

/// Whether a file starts like a journal, except for a damaged byte.
fn starts_as_ours(text: &[u8]) -> bool {
    let start = text.get(..START.len());
    start.is_some_and(|start| start.iter().zip(START).filter(|(a, b)| a != b).count() <= 1)
}

/// The first line without its end, and the rest; `None` if no line is complete.
fn split_line(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|&b| b == b'\n')?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}
