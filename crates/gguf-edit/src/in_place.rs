//! Edits the head of a file, in place if possible.
//!
//! The tensor data begins at a multiple of the alignment, so a head can grow into the padding before it. For more space, a file can have a
//! padding key: [`PAD_KEY`], a string of blanks. An edit shrinks or extends it to compensate for the change of the rest of the head.
//! Readers ignore it as an unknown key.
//!
//! When this space is used up, bytes are inserted before the data, if the file system supports it (ext4, XFS); the padding key fills the
//! rest. Otherwise the file is rewritten, sharing the data blocks if the file system supports it (Btrfs, XFS), or copying them. After any
//! interruption, either the old file or the new one exists; see [`gguf_io::in_place`].

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use gguf_format::check::{self, Finding, Severity};
use gguf_format::shard::ShardKeys;
use gguf_format::{ALIGNMENT_KEY, Gguf, Head, Kv, KvRef, Value, ValueRef, Version, align_up};
use gguf_io::in_place::{EditLock, EditStep, space};
use gguf_io::{ModelFile, Output};
use gguf_pipeline::{Event, Progress};

use crate::edits::{Change, Edit, apply};
use crate::{EditError, copy};

/// The key that reserves space for later edits: a string of blanks.
pub const PAD_KEY: &str = "ggufkit.pad";

/// The maximum unit for extending a file in place: beyond it, a file with an extreme alignment would grow by gigabytes.
const MAX_UNIT: u64 = 1 << 20;

/// The maximum reserved space.
pub const MAX_RESERVE: u64 = 64 << 20;

/// Options of an edit.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct EditOptions {
    /// Minimum space for later edits in the resulting head, in bytes; at most [`MAX_RESERVE`].
    pub reserve: u64,
    /// Whether to fail instead of rewriting the file.
    pub only_in_place: bool,
    /// Whether to rewrite the file in any case.
    pub rewrite: bool,
}

impl EditOptions {
    /// Sets the minimum space for later edits in the resulting head, in bytes.
    pub fn reserve(mut self, bytes: u64) -> EditOptions {
        self.reserve = bytes;
        self
    }

    /// Sets whether to fail instead of rewriting the file.
    pub fn only_in_place(mut self, only: bool) -> EditOptions {
        self.only_in_place = only;
        self
    }

    /// Sets whether to rewrite the file in any case.
    pub fn rewrite(mut self, rewrite: bool) -> EditOptions {
        self.rewrite = rewrite;
        self
    }
}

/// How a file is edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditMethod {
    /// Nothing changes.
    Nothing,
    /// In place, within the existing space.
    Reserved,
    /// In place, with this many bytes inserted before the data.
    Insert {
        /// The number of bytes.
        bytes: u64,
    },
    /// A new file replaces the old one and shares the blocks of its data.
    Share,
    /// A new file replaces the old one, and all data is copied.
    Copy {
        /// The reason.
        why: &'static str,
    },
}

impl EditMethod {
    /// Whether the file itself is changed instead of being replaced.
    pub fn is_in_place(self) -> bool {
        matches!(self, EditMethod::Nothing | EditMethod::Reserved | EditMethod::Insert { .. })
    }
}

/// Planned edits of a file. Nothing is written before [`run`](EditPlan::run), which fails if the file has changed since it was opened. To
/// exclude other edits from the start, lock the file first and use [`run_locked`](EditPlan::run_locked).
///
/// ```
/// # fn main() -> Result<(), gguf_edit::EditError> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("model.gguf");
/// # let mut head = gguf_format::Head::default();
/// # head.set("general.name", "Old");
/// # std::fs::write(&path, gguf_io::Writer::write(Vec::new(), &head, [[0u8; 0]; 0]).unwrap()).unwrap();
/// use gguf_edit::{Edit, EditOptions, EditPlan};
///
/// let edits = [Edit::Set { key: "general.name".into(), value: "New".into() }];
/// let plan = EditPlan::new(&path, &edits, &EditOptions::default())?;
/// println!("{:?}", plan.method());
/// plan.run(&())?;
/// # let file = gguf_io::ModelFile::open(&path)?;
/// # assert_eq!(file.gguf().get_as::<&str>("general.name"), Ok("New"));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct EditPlan {
    file: ModelFile,
    /// The path of the file itself, not of a link to it.
    real: PathBuf,
    changes: Vec<Change>,
    /// The new key-values and tensors, without padding.
    head: Head,
    /// The index and length of the current padding key, if any.
    pad: Option<(usize, u64)>,
    new: NewStart,
    method: EditMethod,
    reserve: u64,
    /// Whether a new file has no more space than is reserved.
    compact: bool,
}

/// The start of the edited file.
#[derive(Debug)]
struct NewStart {
    /// The new bytes, which replace the same number of old ones, not counting inserted ones.
    bytes: Vec<u8>,
    /// Length of the padding, if any.
    pad: Option<u64>,
    /// The start of the data.
    data_offset: u64,
}

impl EditPlan {
    /// Plans edits of a file, and determines how it can be edited.
    ///
    /// # Errors
    /// If the file cannot be read, an edit cannot be made, the new head would be invalid, or the file would have to be rewritten but must
    /// not be.
    pub fn new(path: impl AsRef<Path>, edits: &[Edit], options: &EditOptions) -> Result<EditPlan, EditError> {
        EditPlan::of(ModelFile::open(path)?, edits, options)
    }

    /// Plans edits of an open file.
    ///
    /// # Errors
    /// See [`new`](EditPlan::new). A model that is not a file of the disk can only be written to another one.
    pub fn of(file: ModelFile, edits: &[Edit], options: &EditOptions) -> Result<EditPlan, EditError> {
        let path = file.path().to_owned();
        EditPlan::plan(file, edits, options).map_err(|e| e.at(&path))
    }

    fn plan(file: ModelFile, edits: &[Edit], options: &EditOptions) -> Result<EditPlan, EditError> {
        let gguf = file.gguf();
        if gguf.dialect().version == Version::Draft {
            return Err(EditError::Draft);
        }
        if options.reserve > MAX_RESERVE {
            return Err(EditError::Asked { problem: format!("at most {MAX_RESERVE} bytes can be reserved") });
        }
        gguf_pipeline::check_memory(file.path(), std::iter::once(gguf))?;
        let mut head = Head::from_gguf(gguf);
        let changes = apply(&mut head, edits)?;
        if let (Some(no @ 1..), true) = (ShardKeys::of(gguf).no, changes.iter().any(is_of_model)) {
            return Err(EditError::NotFirstShard { number: no + 1 });
        }
        let is_pad_key = |kv: &Kv| kv.key == PAD_KEY.as_bytes();
        let is_pad = |kv: &Kv| is_pad_key(kv) && matches!(kv.value, Value::String(_));
        // A value that is not a string is not padding. It can only be removed.
        let is_foreign =
            |change: &&Change| matches!(change, Change::Removed { before, .. } if before.as_ref().as_str().is_none());
        let mut of_pad = changes.iter().filter(|change| change.is_about(PAD_KEY)).peekable();
        if of_pad.peek().is_some() && !of_pad.any(|change| is_foreign(&change)) {
            return Err(EditError::PadKey);
        }
        if head.kvs.iter().any(|kv| is_pad_key(kv) && !is_pad(kv)) {
            return Err(EditError::NotPadding);
        }
        let pad = head.kvs.iter().position(is_pad).map(|at| (at, reserved_bytes(gguf)));
        head.kvs.retain(|kv| !is_pad_key(kv));
        let real = match file.as_file() {
            None => file.path().to_owned(),
            Some(_) => file.path().canonicalize().map_err(|source| gguf_io::Error::Io {
                path: file.path().to_owned(),
                action: "open",
                source,
            })?,
        };
        let mut plan = EditPlan {
            new: NewStart { bytes: Vec::new(), pad: pad.map(|(_, len)| len), data_offset: gguf.data_offset() },
            file,
            real,
            changes,
            head,
            pad,
            method: EditMethod::Nothing,
            reserve: options.reserve,
            compact: options.rewrite,
        };
        let has_reserve = plan.new.pad.unwrap_or(0) >= options.reserve;
        if plan.changes.is_empty() && has_reserve && !options.rewrite {
            return Ok(plan);
        }
        if plan.changes.iter().any(|change| change.is_about(ALIGNMENT_KEY)) {
            return Err(EditError::Alignment);
        }
        plan.choose(options)?;
        Ok(plan)
    }

    /// Chooses how to edit, and encodes the new start.
    fn choose(&mut self, options: &EditOptions) -> Result<(), EditError> {
        let file_bytes = self.file.file_bytes();
        let old_offset = self.file.gguf().data_offset();
        let why = match self.file.as_file().map(n_links) {
            None => Some("the model is not a file of this machine"),
            _ if options.rewrite => Some("a rewrite was requested"),
            // The edit would be visible under the other names, but not the journal.
            Some(2..) => Some("the file has several names (hard links)"),
            _ if file_bytes <= old_offset => Some("the file has no data"),
            _ => None,
        };
        if why.is_none() {
            if let Some(new) = self.fit()? {
                self.method = EditMethod::Reserved;
                self.new = new;
                return self.verify();
            }
            let unit = space::block_bytes(&self.real).ok().and_then(|block| self.unit(block));
            if let Some(unit) = unit.filter(|_| space::can_insert(&self.real)) {
                let new = self.grown(unit)?;
                self.method = EditMethod::Insert { bytes: new.data_offset.saturating_sub(old_offset) };
                self.new = new;
                return self.verify();
            }
        }
        if options.only_in_place {
            let why = why.unwrap_or(NO_INSERT);
            return Err(EditError::NotInPlace { why });
        }
        self.choose_new_file(&self.real.clone(), why.unwrap_or(NO_INSERT))
    }

    /// Encodes the start of a rewritten file at `path`.
    fn choose_new_file(&mut self, path: &Path, why: &'static str) -> Result<(), EditError> {
        let shares = self.file.as_file().is_some_and(|file| space::can_share(file, path));
        let block = space::block_bytes(path).ok().filter(|_| shares);
        (self.method, self.new) = match block.filter(|_| !self.compact).and_then(|block| self.unit(block)) {
            Some(unit) => (EditMethod::Share, self.same_or_grown(unit)?),
            None => (EditMethod::Copy { why }, self.anew()?),
        };
        self.verify()
    }

    /// The smallest shift of the data that is a multiple of both the file system's block size and the alignment.
    fn unit(&self, block: u64) -> Option<u64> {
        let alignment = self.file.gguf().alignment();
        let (mut a, mut b) = (alignment, block);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        (alignment / a.max(1)).checked_mul(block).filter(|unit| (1..=MAX_UNIT).contains(unit))
    }

    /// The head with padding of that length, in its current place or at the end.
    fn encoded(&mut self, pad: Option<u64>) -> Result<Vec<u8>, EditError> {
        let Some(len) = pad else { return Ok(self.head.encode_as_read()?) };
        let len = usize::try_from(len).map_err(|_| gguf_format::LayoutError::TooLarge)?;
        let kvs = &mut self.head.kvs;
        let at = self.pad.map_or(kvs.len(), |(at, _)| at.min(kvs.len()));
        kvs.insert(at, Kv { key: PAD_KEY.as_bytes().to_owned(), value: " ".repeat(len).into() });
        let encoded = self.head.encode_as_read();
        self.head.kvs.remove(at);
        Ok(encoded?)
    }

    /// The length of the head without padding, and with an empty padding key.
    fn lengths(&mut self) -> Result<(u64, u64), EditError> {
        let bare = self.encoded(None)?.len() as u64;
        let mut empty = Head { dialect: self.head.dialect, ..Head::default() };
        let nothing = empty.encode_as_read()?.len();
        empty.set(PAD_KEY, "");
        Ok((bare, bare + (empty.encode_as_read()?.len() - nothing) as u64))
    }

    /// The head in the existing space, if it fits.
    fn fit(&mut self) -> Result<Option<NewStart>, EditError> {
        let gguf = self.file.gguf();
        let (old, data_offset, alignment) = (gguf.head_bytes(), gguf.data_offset(), gguf.alignment());
        let (bare, padded) = self.lengths()?;
        let lands = |len: u64| align_up(len, alignment) == Some(data_offset);
        let pad = match self.pad {
            None if lands(bare) => None,
            _ if padded <= old => Some(old - padded),
            _ if padded <= data_offset && lands(padded) => Some(0),
            _ if lands(bare) => None,
            _ => return Ok(None),
        };
        if pad.unwrap_or(0) < self.reserve {
            return Ok(None);
        }
        let mut bytes = self.encoded(pad)?;
        if !lands(bytes.len() as u64) {
            return Ok(None);
        }
        // The rest of a longer old head becomes padding.
        bytes.resize(bytes.len().max(usize::try_from(old).unwrap_or(0)), 0);
        Ok(Some(NewStart { bytes, pad, data_offset }))
    }

    /// The head with as many additional units before the data as it needs; the padding fills the rest.
    fn grown(&mut self, unit: u64) -> Result<NewStart, EditError> {
        let old_offset = self.file.gguf().data_offset();
        let (_, padded) = self.lengths()?;
        let needed = padded.saturating_add(self.reserve).saturating_sub(old_offset).max(1);
        let data_offset = needed.div_ceil(unit).checked_mul(unit).and_then(|more| more.checked_add(old_offset));
        let data_offset = data_offset.ok_or(gguf_format::LayoutError::TooLarge)?;
        let pad = Some(data_offset.saturating_sub(padded));
        Ok(NewStart { bytes: self.encoded(pad)?, pad, data_offset })
    }

    /// The head before data whose blocks keep their alignment to those of the file system.
    fn same_or_grown(&mut self, unit: u64) -> Result<NewStart, EditError> {
        match self.fit()? {
            Some(new) => Ok(new),
            None => self.grown(unit),
        }
    }

    /// The head of a rewritten file, with its current or requested padding.
    fn anew(&mut self) -> Result<NewStart, EditError> {
        let kept = self.pad.filter(|_| !self.compact).map(|(_, len)| len);
        let pad = kept.into_iter().chain((self.reserve > 0).then_some(self.reserve)).max();
        let bytes = self.encoded(pad)?;
        let data_offset = align_up(bytes.len() as u64, self.file.gguf().alignment());
        Ok(NewStart { data_offset: data_offset.ok_or(gguf_format::LayoutError::TooLarge)?, bytes, pad })
    }

    /// Parses the new start, and verifies its content.
    fn verify(&self) -> Result<(), EditError> {
        let gguf = self.parsed()?;
        let n = |n: usize| n as u64;
        let is_pad = |kv: &KvRef<'_>| self.new.pad.is_some() && kv.key == PAD_KEY && kv.value.as_str().is_some();
        let kvs = gguf.kvs().filter(|kv| !is_pad(kv));
        let keys = kvs.map(|kv| (kv.key.as_bytes(), kv.value.value_type()));
        let n_kv = n(self.head.kvs.len()) + u64::from(self.new.pad.is_some());
        let is_same = gguf.n_kv() == n_kv
            && gguf.n_tensors() == n(self.head.tensors.len())
            && gguf.data_offset() == self.new.data_offset
            && keys.eq(self.head.kvs.iter().map(|kv| (kv.key.as_slice(), kv.value.as_ref().value_type())));
        if is_same { Ok(()) } else { Err(gguf_format::LayoutError::Changed.into()) }
    }

    fn parsed(&self) -> Result<Gguf<'_>, EditError> {
        Gguf::parse(self.new.bytes.as_slice()).map_err(|source| {
            let path = self.file.path().to_owned();
            gguf_io::Error::Head { path, source: Box::new(source) }.into()
        })
    }

    /// The open file: the one that was planned for, even if its name is that of another one by now.
    fn source(&self) -> Result<&File, EditError> {
        let path = self.file.path();
        self.file.as_file().ok_or_else(|| gguf_io::Error::NotAFile(path.to_owned()).into())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The current head.
    pub fn gguf(&self) -> &Gguf<'static> {
        self.file.gguf()
    }

    /// The changes.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// How the file is edited.
    pub fn method(&self) -> EditMethod {
        self.method
    }

    /// Bytes reserved for later edits in the result, without the padding to the alignment.
    pub fn reserved_bytes(&self) -> u64 {
        self.new.pad.unwrap_or(0)
    }

    /// Length of the file before and after the edit.
    pub fn file_bytes(&self) -> (u64, u64) {
        let before = self.file.file_bytes();
        let moved = self.new.data_offset.saturating_sub(self.gguf().data_offset());
        match self.method {
            EditMethod::Nothing | EditMethod::Reserved => (before, before),
            _ => {
                (before, before.saturating_sub(self.gguf().data_offset().saturating_sub(self.new.data_offset)) + moved)
            }
        }
    }

    /// Bytes written to the file or to a new one, not including the journal.
    pub fn written_bytes(&self) -> u64 {
        match self.method {
            EditMethod::Nothing => 0,
            EditMethod::Reserved | EditMethod::Insert { .. } | EditMethod::Share => self.new.bytes.len() as u64,
            EditMethod::Copy { .. } => self.file_bytes().1,
        }
    }

    /// The start of the edited file: the head, and the padding up to the data.
    pub fn start(&self) -> Vec<u8> {
        let mut bytes = match self.method {
            EditMethod::Nothing => self.gguf().bytes().to_vec(),
            _ => self.new.bytes.clone(),
        };
        let data_offset = usize::try_from(self.new.data_offset).unwrap_or(0);
        bytes.resize(bytes.len().max(data_offset), 0);
        bytes
    }

    /// Findings about the edited head that the current one does not have: errors introduced by the edit. Empty for shards, which are only a
    /// part of the model.
    pub fn new_findings(&self) -> Vec<Finding> {
        let Ok(new) = self.parsed() else { return Vec::new() };
        if self.method == EditMethod::Nothing || ShardKeys::of(&new).count.is_some_and(|n| n > 1) {
            return Vec::new();
        }
        let findings = |gguf: &Gguf<'_>, file_bytes: u64| -> Vec<Finding> {
            let format = check::format(gguf.bytes(), file_bytes);
            let model = gguf_model::check::model(&[gguf], None);
            let all = format.findings().chain(model.findings()).map(|finding| finding.into_owned());
            all.filter(|finding| finding.severity != Severity::Note).collect()
        };
        let (before, after) = self.file_bytes();
        let mut known: HashMap<(&'static str, String), usize> = HashMap::new();
        for finding in findings(self.gguf(), before) {
            *known.entry((finding.code, finding.message.to_string())).or_default() += 1;
        }
        let is_new = |finding: &Finding| match known.get_mut(&(finding.code, finding.message.to_string())) {
            Some(n @ 1..) => {
                *n -= 1;
                false
            }
            _ => true,
        };
        findings(&new, after).into_iter().filter(is_new).collect()
    }

    /// Makes the edits as planned, and returns how. If the file system cannot insert bytes after all, the file is rewritten.
    ///
    /// # Errors
    /// [`gguf_io::Error::Busy`] if another process is editing the file, and [`gguf_io::Error::Changed`] if it has changed since it was
    /// opened. The file is unchanged after any error, except for [`gguf_io::Error::Unfinished`].
    pub fn run(self, progress: &dyn Progress) -> Result<EditMethod, EditError> {
        match self.method {
            EditMethod::Nothing => Ok(self.method),
            _ => {
                let lock = EditLock::new(&self.real)?;
                self.run_locked(lock, progress)
            }
        }
    }

    /// Like [`run`](EditPlan::run), with the lock of the file. A caller that locks the file before opening it excludes all other edits in
    /// between.
    ///
    /// # Errors
    /// See [`run`](EditPlan::run).
    pub fn run_locked(mut self, mut lock: EditLock, progress: &dyn Progress) -> Result<EditMethod, EditError> {
        lock.check(&self.file)?;
        match self.method {
            EditMethod::Nothing => return Ok(self.method),
            EditMethod::Reserved | EditMethod::Insert { .. } => {
                match self.replace(&mut lock, &|step| progress.event(Event::Edited { step })) {
                    Err(EditError::Io(e)) if self.may_write_anew(&e) => {
                        let real = self.real.clone();
                        self.choose_new_file(&real, NO_INSERT)?;
                    }
                    result => return result.map(|()| self.method),
                }
            }
            EditMethod::Share | EditMethod::Copy { .. } => {}
        }
        let output = Output::create(&self.real, true)?;
        self.write(&output, progress)?;
        keep_owner(self.source()?, output.file());
        progress.event(Event::Written);
        output.sync()?;
        progress.event(Event::Synced);
        lock.check(&self.file)?;
        let EditPlan { file, real, method, .. } = self;
        output.commit_over(file)?;
        progress.event(Event::Named { path: &real });
        progress.event(Event::Finished);
        Ok(method)
    }

    fn may_write_anew(&self, e: &gguf_io::Error) -> bool {
        let is_unsupported = matches!(e, gguf_io::Error::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput));
        is_unsupported && matches!(self.method, EditMethod::Insert { .. })
    }

    /// Edits the file in place.
    fn replace(&self, lock: &mut EditLock, on: &dyn Fn(EditStep)) -> Result<(), EditError> {
        let inserted = match self.method {
            EditMethod::Insert { bytes } => bytes,
            _ => 0,
        };
        let len = (self.new.bytes.len() as u64).saturating_sub(inserted);
        let mut old = vec![0; usize::try_from(len).map_err(|_| gguf_format::LayoutError::TooLarge)?];
        self.file.read_at(0, &mut old)?;
        // The edit was planned for the head read at first.
        let head = self.gguf().bytes();
        if old.get(..head.len()) != Some(head) {
            return Err(gguf_io::Error::Changed(self.file.path().to_owned()).into());
        }
        Ok(lock.replace_start(&old, &self.new.bytes, on)?)
    }

    /// Writes the edited file to another path, and leaves the original unchanged. Blocks are shared if the file system supports it.
    ///
    /// # Errors
    /// If the output exists and `replace` is false, is the edited file itself, or cannot be written; [`gguf_io::Error::Changed`] if the
    /// original changes in the meantime. No output is left then.
    pub fn write_to(mut self, out: &Path, replace: bool, progress: &dyn Progress) -> Result<EditMethod, EditError> {
        if out.canonicalize().is_ok_and(|out| out == self.real) {
            return Err(EditError::SameFile.at(out));
        }
        // A copy of a truncated file would look like an intact one.
        for tensor in self.file.tensors() {
            tensor.byte_range()?;
        }
        let output = Output::create(out, replace)?;
        self.choose_new_file(out, "a copy was requested")?;
        self.write(&output, progress)?;
        progress.event(Event::Written);
        output.sync()?;
        progress.event(Event::Synced);
        self.file.check_unchanged()?;
        output.commit()?;
        progress.event(Event::Named { path: out });
        progress.event(Event::Finished);
        Ok(self.method)
    }

    /// Writes the new file.
    fn write(&self, output: &Output, progress: &dyn Progress) -> Result<(), EditError> {
        let path = output.path();
        progress.event(Event::Opened { path });
        let (old_offset, file_bytes) = (self.gguf().data_offset(), self.file.file_bytes());
        let (new_offset, head) = (self.new.data_offset, &self.new.bytes);
        let n_data = file_bytes.saturating_sub(old_offset);
        // A file without data may end with its head.
        let whole = match file_bytes.checked_sub(old_offset) {
            Some(n) => new_offset.saturating_add(n),
            None => head.len() as u64,
        };
        if let EditMethod::Copy { .. } = self.method {
            output.set_len(whole)?;
        }
        progress.event(Event::Started { n_tensors: self.head.tensors.len(), bytes: n_data });
        // The block that contains the end of the head is copied with the data, then the head overwrites its part.
        let block = match self.method {
            EditMethod::Share => space::block_bytes(path).unwrap_or(1),
            _ => 1,
        };
        let back = old_offset % block.max(1);
        let back = if back <= new_offset && (new_offset - back) % block.max(1) == 0 { back } else { 0 };
        copy::copy(&self.file, old_offset - back, output, new_offset - back, n_data + back, progress)?;
        output.write_at(0, head)?;
        let pad = usize::try_from(new_offset.saturating_sub(head.len() as u64)).unwrap_or(0);
        if block > 1 && n_data > 0 {
            output.write_at(head.len() as u64, &vec![0; pad])?;
        }
        if output.file().metadata().is_ok_and(|there| there.len() < whole) {
            output.file().set_len(whole).map_err(|e| io_error(path, "write", e))?;
        }
        Ok(())
    }
}

/// The reason for rewriting a file if no other applies.
const NO_INSERT: &str = "the head has no space for it, and the file system cannot insert any";

/// Whether a change affects the model, and not only the shard.
fn is_of_model(change: &Change) -> bool {
    change.key().is_some_and(|key| !key.starts_with("split.") && !key.starts_with("ggufkit."))
}

fn io_error(path: &Path, action: &'static str, source: io::Error) -> EditError {
    gguf_io::Error::Io { path: path.to_owned(), action, source }.into()
}

/// Reserves space for edits in the head of a new file, at most [`MAX_RESERVE`].
pub fn reserve(head: &mut Head, bytes: u64) {
    let len = usize::try_from(bytes.min(MAX_RESERVE)).unwrap_or(0);
    head.set(PAD_KEY, " ".repeat(len));
}

/// The space that a head reserves for edits, without the padding to the alignment.
pub fn reserved_bytes(gguf: &Gguf<'_>) -> u64 {
    match gguf.get(PAD_KEY) {
        Some(ValueRef::String(pad)) => pad.as_bytes().len() as u64,
        _ => 0,
    }
}

#[cfg(unix)]
fn n_links(file: &File) -> u64 {
    file.metadata().map_or(1, |there| std::os::unix::fs::MetadataExt::nlink(&there))
}

#[cfg(not(unix))]
fn n_links(_: &File) -> u64 {
    1
}

/// Gives a replacement file the permissions and, if permitted, the owner of the original.
fn keep_owner(from: &File, to: &File) {
    let Ok(there) = from.metadata() else { return };
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let _ = fchown(to, Some(there.uid()), Some(there.gid()));
    }
    let _ = to.set_permissions(there.permissions());
}
