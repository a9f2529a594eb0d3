//! A folder that is not written yet: its documents, and the heads of its tensor files.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_io::ReadAt;

use crate::folder::{Folder, FolderFile, names_within};
use crate::folder_error::FolderError;

/// The planned folder.
#[derive(Debug, Clone)]
pub(super) struct PlannedFolder {
    path: PathBuf,
    files: BTreeMap<String, Arc<Planned>>,
}

/// A planned file: its first bytes, and its length.
#[derive(Debug)]
struct Planned {
    head: Vec<u8>,
    n_bytes: u64,
}

impl PlannedFolder {
    pub(super) fn new(path: &Path) -> PlannedFolder {
        PlannedFolder { path: path.to_owned(), files: BTreeMap::new() }
    }

    /// Adds a file, whose bytes after the head read as zeros.
    pub(super) fn insert(&mut self, name: &str, head: Vec<u8>, n_bytes: u64) {
        self.files.insert(name.to_owned(), Arc::new(Planned { head, n_bytes }));
    }
}

impl ReadAt for Planned {
    fn size(&self) -> io::Result<u64> {
        Ok(self.n_bytes)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.n_bytes) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let there = self.head.get(start..).unwrap_or_default();
        buf.fill(0);
        buf.iter_mut().zip(there).for_each(|(to, from)| *to = *from);
        Ok(())
    }
}

impl Folder for PlannedFolder {
    fn path(&self) -> &Path {
        &self.path
    }

    fn names(&self, within: &str) -> io::Result<Vec<String>> {
        Ok(names_within(self.files.keys(), within))
    }

    fn open(&self, name: &str) -> Result<Option<FolderFile>, FolderError> {
        Ok(self.files.get(name).map(|file| FolderFile::from_source(Arc::clone(file))))
    }
}
