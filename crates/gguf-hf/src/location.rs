//! The location of a checkpoint: the folder and file that a user's path refers to.

use std::path::{Path, PathBuf};

use gguf_format::FileKind;
use gguf_format::sort::CompactSort as _;
use gguf_io::ReadAt;

use crate::error::{Error, Names};
use crate::files::{self, is_plain_file_name};
use crate::folder::Folder;

/// A checkpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Location<'a> {
    /// The folder with the configuration and the tokenizer.
    pub(crate) dir: &'a dyn Folder,
    /// The single tensor file to read; `None` to read the folder's tensor files.
    pub(crate) file: Option<&'a str>,
    /// The model's name, if it differs from the folder's name.
    pub(crate) name: Option<&'a str>,
}

/// A checkpoint on the disk.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) dir: PathBuf,
    file: Option<String>,
    name: Option<String>,
}

impl Found {
    /// The location.
    pub(crate) fn location(&self) -> Location<'_> {
        Location { dir: &self.dir, file: self.file.as_deref(), name: self.name.as_deref() }
    }

    /// Locates the checkpoint at a path: a folder, a model's folder in the Hugging Face cache, or a tensor file.
    ///
    /// # Errors
    /// If there is no checkpoint, or if a model in the cache has several revisions and none is current.
    pub(crate) fn at(path: &Path) -> Result<Found, Error> {
        if path.is_dir() {
            return Found::of_folder(path);
        }
        let unreadable = |e: gguf_io::Error| match e {
            gguf_io::Error::Io { source, .. } => Error::io("open", path, source),
            _ => Error::NotACheckpoint { path: path.to_owned(), kind: None },
        };
        let file = gguf_io::open_regular(path).map_err(unreadable)?;
        let mut start = [0; 512];
        let file_bytes = file.metadata().map_err(|e| Error::io("read", path, e))?.len();
        let n = usize::try_from(file_bytes).unwrap_or(usize::MAX).min(start.len());
        let start = start.get_mut(..n).unwrap_or_default();
        file.read_exact_at(0, start).map_err(|e| Error::io("read", path, e))?;
        if start.starts_with(b"GGUF") {
            return Err(Error::Gguf { path: path.to_owned() });
        }
        let is_named =
            ["safetensors", "bin", "pt", "pth", "ckpt"].iter().any(|e| path.extension().is_some_and(|x| x == *e));
        let name = path.file_name().and_then(|name| name.to_str()).filter(|name| is_plain_file_name(name));
        let (true, Some(name)) = (is_named, name) else {
            return Err(Error::NotACheckpoint { path: path.to_owned(), kind: Some(FileKind::of(start)) });
        };
        let dir = match path.parent() {
            Some(dir) if dir != Path::new("") => dir.to_owned(),
            _ => PathBuf::from("."),
        };
        Ok(Found { dir, file: Some(name.to_owned()), name: None })
    }

    fn of_folder(path: &Path) -> Result<Found, Error> {
        let folder = |dir: PathBuf, name| Found { dir, file: None, name };
        let called = path.canonicalize().map_err(|e| Error::io("open", path, e))?;
        let called = called.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let snapshots = path.join("snapshots");
        // `models--ORGANIZATION--NAME`; the organization is optional.
        let Some(model) = called.strip_prefix("models--").filter(|_| snapshots.is_dir()) else {
            return Ok(folder(path.to_owned(), None));
        };
        let name = model.rsplit("--").next().unwrap_or(model).to_owned();
        let current = files::read_start(256, &path.to_owned(), "refs/main")?.unwrap_or_default();
        let current = String::from_utf8_lossy(&current).trim().to_owned();
        if is_plain_file_name(&current) && snapshots.join(&current).is_dir() {
            return Ok(folder(snapshots.join(current), Some(name)));
        }
        let mut revisions = Vec::new();
        for entry in std::fs::read_dir(&snapshots).map_err(|e| Error::io("list", &snapshots, e))? {
            let entry = entry.map_err(|e| Error::io("list", &snapshots, e))?;
            revisions.extend(entry.path().is_dir().then(|| entry.file_name().to_string_lossy().into_owned()));
        }
        revisions.compact_sort_by(Ord::cmp);
        match revisions.as_slice() {
            [only] => Ok(folder(snapshots.join(only), Some(name))),
            _ => Err(Error::Revisions { dir: snapshots, revisions: Names(revisions) }),
        }
    }
}
