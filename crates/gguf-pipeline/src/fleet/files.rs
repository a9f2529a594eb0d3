//! Outputs on a file system that all machines share.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use gguf_io::{Output, ReadAt as _, create_locked};
use xxhash_rust::xxh3::Xxh3;

use super::Part;
use super::error::FleetError;
use super::place::{PartWriter, Place, sha256, xxh3};
use crate::error::Error;

/// The name of the note with the identifier of an output.
const UPLOAD: &str = "upload";

/// An output on a shared file system. Parts are written in place in `OUT.partial`, and notes are files in the folder `OUT.parts`.
#[derive(Debug)]
pub struct FilesPlace {
    out: PathBuf,
    folder: PathBuf,
}

impl FilesPlace {
    /// The output with a path.
    pub fn new(out: impl Into<PathBuf>) -> FilesPlace {
        let out = out.into();
        let mut folder = out.as_os_str().to_owned();
        folder.push(".parts");
        FilesPlace { out, folder: folder.into() }
    }

    fn partial(&self, part: &Part) -> Result<Output, FleetError> {
        let found = Output::present(&self.out, true)?;
        found.ok_or_else(|| FleetError::NotBegun { output: self.out.clone(), part: Some(part.index) })
    }

    /// Checks that the output is still the one that a plan has begun.
    fn check_upload(&self, upload: &str, part: &Part) -> Result<(), FleetError> {
        match self.note(UPLOAD)?.as_deref() == Some(upload.as_bytes()) {
            true => Ok(()),
            false => Err(FleetError::NotBegun { output: self.out.clone(), part: Some(part.index) }),
        }
    }
}

/// A part that is written in place.
struct InPlace<'a> {
    place: &'a FilesPlace,
    upload: &'a str,
    part: &'a Part,
    output: Output,
}

impl PartWriter for InPlace<'_> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), FleetError> {
        Ok(self.output.write_at(offset, bytes)?)
    }

    fn finish(self: Box<Self>) -> Result<String, FleetError> {
        self.output.sync()?;
        self.place.check_upload(self.upload, self.part)?;
        Ok(String::new())
    }
}

/// The result of a file operation, with `None` in place of the error for a missing file.
fn if_found<T>(path: &Path, action: &'static str, result: io::Result<T>) -> Result<Option<T>, FleetError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(action, path, e).into()),
    }
}

impl Place for FilesPlace {
    fn begin(&self, bytes: u64, replace: bool) -> Result<String, FleetError> {
        Output::may_write(&self.out, replace)?;
        let partial = Output::partial_path(&self.out);
        if let Some(path) = [&partial, &self.folder].into_iter().find(|path| path.symlink_metadata().is_ok()) {
            if !replace {
                return Err(FleetError::Begun { output: self.out.clone(), found: path.clone() });
            }
            self.abort("")?;
        }
        fs::create_dir(&self.folder).map_err(|e| Error::io("create", &self.folder, e))?;
        // Random: the workers of a plan that was replaced must not write to this output.
        let upload = format!("{:016x}", RandomState::new().hash_one(&self.out));
        let filled = Output::reopen(&self.out, replace).and_then(|output| output.set_len(bytes));
        let begun = filled.map_err(FleetError::from).and_then(|()| self.put_note(UPLOAD, upload.as_bytes()));
        if let Err(e) = begun {
            // Nothing is written yet.
            let _ = self.abort("");
            return Err(e);
        }
        Ok(upload)
    }

    fn put(&self, upload: &str, part: &Part, bytes: Vec<u8>) -> Result<String, FleetError> {
        let writer = self.writer(upload, part)?;
        writer.write_at(part.range.start, &bytes)?;
        writer.finish()
    }

    fn writer<'a>(&'a self, upload: &'a str, part: &'a Part) -> Result<Box<dyn PartWriter + 'a>, FleetError> {
        // Opened before the check: a plan that replaces this one has another file.
        let output = self.partial(part)?;
        self.check_upload(upload, part)?;
        Ok(Box::new(InPlace { place: self, upload, part, output }))
    }

    fn read_back(&self, part: &Part) -> Result<Option<String>, FleetError> {
        const PIECE: u64 = 1 << 20;
        let output = self.partial(part)?;
        let (mut hash, mut at, mut piece) = (Xxh3::new(), part.range.start, Vec::new());
        while at < part.range.end {
            let n = PIECE.min(part.range.end - at);
            piece.resize(usize::try_from(n).unwrap_or(0), 0);
            output.read_at(at, &mut piece)?;
            hash.update(&piece);
            at += n;
        }
        Ok(Some(xxh3(&hash)))
    }

    fn output(&self, longest: u64) -> Result<Option<Vec<u8>>, FleetError> {
        if Output::partial_path(&self.out).symlink_metadata().is_ok() {
            return Ok(None);
        }
        let Some(file) = if_found(&self.out, "open", fs::File::open(&self.out))? else { return Ok(None) };
        let read = |e| Error::io("read", &self.out, e);
        let bytes = file.size().map_err(read)?;
        if bytes > longest {
            return Ok(None);
        }
        let mut all = super::make::buffer(super::make::to_index(bytes))?;
        file.read_exact_at(0, &mut all).map_err(read)?;
        Ok(Some(all))
    }

    fn complete(&self, _: &str, _: Vec<String>, bytes: u64, replace: bool) -> Result<(), FleetError> {
        // Two commits must not rename the file at once.
        let lock = create_locked(&self.folder.join("lock"));
        let _lock = match lock {
            Err(_) if self.folder.symlink_metadata().is_err() => return Ok(()),
            lock => lock?,
        };
        let Some(output) = Output::present(&self.out, replace)? else { return Ok(()) };
        let found = output.file().size().map_err(|e| Error::io("read", &self.out, e))?;
        if found != bytes {
            return Err(FleetError::Length { output: self.out.clone(), expected: bytes, found });
        }
        Ok(output.commit()?)
    }

    fn is_complete(&self, _: &str, bytes: u64, head_bytes: u64, head_sha256: &str) -> Result<bool, FleetError> {
        if Output::partial_path(&self.out).symlink_metadata().is_ok() {
            return Ok(false);
        }
        let opened = if_found(&self.out, "open", fs::File::open(&self.out))?;
        let Some(file) = opened else { return Ok(false) };
        let read = |e| Error::io("read", &self.out, e);
        if file.size().map_err(read)? != bytes || head_bytes > bytes {
            return Ok(false);
        }
        let mut head = super::make::buffer(usize::try_from(head_bytes).unwrap_or(usize::MAX))?;
        file.read_exact_at(0, &mut head).map_err(read)?;
        Ok(sha256(&head) == head_sha256)
    }

    fn abort(&self, _: &str) -> Result<(), FleetError> {
        let partial = Output::partial_path(&self.out);
        if_found(&partial, "remove", fs::remove_file(&partial))?;
        self.remove_notes()
    }

    fn put_note(&self, name: &str, bytes: &[u8]) -> Result<(), FleetError> {
        if self.folder.symlink_metadata().is_err() {
            return Err(FleetError::NotBegun { output: self.out.clone(), part: None });
        }
        let path = self.folder.join(name);
        let output = Output::create(&path, true)?;
        output.file().write_all(bytes).map_err(|e| Error::io("write", &path, e))?;
        Ok(output.commit()?)
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, FleetError> {
        let path = self.folder.join(name);
        if_found(&path, "read", fs::read(&path))
    }

    fn notes(&self) -> Result<Vec<String>, FleetError> {
        let Some(entries) = if_found(&self.folder, "list", fs::read_dir(&self.folder))? else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| Error::io("list", &self.folder, e))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    fn remove_note(&self, name: &str) -> Result<(), FleetError> {
        let path = self.folder.join(name);
        if_found(&path, "remove", fs::remove_file(&path)).map(drop)
    }

    fn remove_notes(&self) -> Result<(), FleetError> {
        // Workers that make a part a second time may still write their notes.
        let mut attempts = 0..10;
        loop {
            for name in self.notes()? {
                self.remove_note(&name)?;
            }
            match fs::remove_dir(&self.folder) {
                Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty && attempts.next().is_some() => {}
                removed => return if_found(&self.folder, "remove", removed).map(drop),
            }
        }
    }
}
