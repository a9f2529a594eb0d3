//! Folders of checkpoints: on the disk, in memory, or of the caller.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_io::ReadAt;

use crate::folder_error::FolderError;

/// A folder with the files of a checkpoint, which [`plan_folder`](crate::plan_folder) reads: a [`PathBuf`] is one on the disk, a
/// [`MemoryFolder`] one in memory; a type of the caller can be one on the Hub or in an object store.
///
/// Files are named relative to the folder, with `/` before those of a folder in it, such as `1_Pooling/config.json`.
///
/// ```
/// use std::path::Path;
/// use gguf_hf::{Folder, FolderError, FolderFile};
///
/// /// A folder with nothing but a configuration.
/// #[derive(Debug)]
/// struct OnlyConfig;
///
/// impl Folder for OnlyConfig {
///     fn path(&self) -> &Path {
///         "my-model".as_ref()
///     }
///     fn names(&self, within: &str) -> std::io::Result<Vec<String>> {
///         Ok(if within.is_empty() { vec!["config.json".into()] } else { Vec::new() })
///     }
///     fn open(&self, name: &str) -> Result<Option<FolderFile>, FolderError> {
///         let bytes = br#"{"architectures": ["LlamaForCausalLM"]}"#;
///         Ok((name == "config.json").then(|| FolderFile::from_source(bytes.to_vec())))
///     }
/// }
/// let error = gguf_hf::plan_folder(&OnlyConfig, &Default::default()).unwrap_err();
/// assert!(matches!(error, gguf_hf::Error::NoWeights { .. }));
/// ```
pub trait Folder: Send + Sync + fmt::Debug {
    /// The path of the folder; elsewhere than on the disk, what names it in messages. Its last component names a model without another
    /// name.
    fn path(&self) -> &Path;

    /// The names of the files that are directly in the folder `within`, without its name; those of this folder for an empty name. Nothing
    /// for a missing folder in it. The order does not matter, and other entries may be included.
    ///
    /// # Errors
    /// If the folder cannot be listed.
    fn names(&self, within: &str) -> io::Result<Vec<String>>;

    /// Opens a file; `None` if it does not exist. Names come from a checkpoint, too: one such as `../x` or `/x` must not lead elsewhere.
    ///
    /// # Errors
    /// [`FolderError::Read`] if it cannot be opened, and the reasons why a file is refused.
    fn open(&self, name: &str) -> Result<Option<FolderFile>, FolderError>;

    /// The name of the folder itself, if its path is a link or relative; by default, that in its path.
    fn real_name(&self) -> Option<String> {
        Some(self.path().file_name()?.to_string_lossy().into_owned())
    }
}

impl<F: Folder + ?Sized> Folder for Box<F> {
    fn path(&self) -> &Path {
        (**self).path()
    }

    fn names(&self, within: &str) -> io::Result<Vec<String>> {
        (**self).names(within)
    }

    fn open(&self, name: &str) -> Result<Option<FolderFile>, FolderError> {
        (**self).open(name)
    }

    fn real_name(&self) -> Option<String> {
        (**self).real_name()
    }
}

/// An open file of a [`Folder`].
#[derive(Debug, Clone)]
pub struct FolderFile {
    pub(crate) source: Arc<dyn ReadAt>,
    pub(crate) real: Option<PathBuf>,
}

impl FolderFile {
    /// A file with the bytes of `source`.
    pub fn from_source(source: impl ReadAt + 'static) -> FolderFile {
        FolderFile { source: Arc::new(source), real: None }
    }

    /// Sets the real path of a file on the disk, which no output may replace.
    pub fn with_real_path(mut self, path: PathBuf) -> FolderFile {
        self.real = Some(path);
        self
    }
}

/// A folder on the disk. A checkpoint is untrusted: it must not expose other files of the machine through links that leave its folder, or
/// block the program with pipes.
///
/// A name may be a symbolic link, as in the Hugging Face cache, but only to a file of the same folder or of that cache's blob store for
/// this model. The target is resolved after the file is opened, and the open file is compared with the target, so that no other file can be
/// substituted in between.
impl Folder for PathBuf {
    fn path(&self) -> &Path {
        self
    }

    fn names(&self, within: &str) -> io::Result<Vec<String>> {
        let folder = if within.is_empty() { self.clone() } else { self.join(within) };
        let entries = match std::fs::read_dir(folder) {
            Err(e) if !within.is_empty() && e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let names = entries.filter_map(|entry| entry.map(|entry| entry.file_name().into_string().ok()).transpose());
        names.collect()
    }

    fn open(&self, name: &str) -> Result<Option<FolderFile>, FolderError> {
        let file = self.join(name);
        let failed = |source| FolderError::Read { file: file.clone(), source };
        let opened = match gguf_io::open_regular(&file) {
            Ok(opened) => opened,
            Err(gguf_io::Error::Io { source, .. }) => match source.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => return Ok(None),
                _ => return Err(failed(source)),
            },
            // The link target is reported only for files that may be read.
            Err(_) => return real_path(self, &file).and_then(|_| Err(FolderError::NotAFile { file })),
        };
        let Some(real) = real_path(self, &file)? else { return Ok(None) };
        match is_same(&opened, &real).map_err(failed)? {
            true => Ok(Some(FolderFile::from_source(opened).with_real_path(real))),
            false => Err(FolderError::Replaced { file }),
        }
    }

    fn real_name(&self) -> Option<String> {
        Some(self.canonicalize().ok()?.file_name()?.to_string_lossy().into_owned())
    }
}

/// The resolved path of a file in the folder `dir`; `None` if it no longer exists.
fn real_path(dir: &Path, file: &Path) -> Result<Option<PathBuf>, FolderError> {
    let real = match file.canonicalize() {
        Ok(real) => real,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(source) => return Err(FolderError::Read { file: file.to_owned(), source }),
    };
    let folder = dir.canonicalize().map_err(|source| FolderError::Read { file: dir.to_owned(), source })?;
    let store = hub_store(&folder);
    match real.starts_with(&folder) || store.is_some_and(|store| real.starts_with(store)) {
        true => Ok(Some(real)),
        false => Err(FolderError::LeadsOut { file: file.to_owned(), target: real }),
    }
}

/// Whether an open file is the one that a path currently refers to, without following a link at its end.
#[cfg(unix)]
fn is_same(opened: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let (a, b) = (opened.metadata()?, std::fs::symlink_metadata(path)?);
    Ok((a.dev(), a.ino()) == (b.dev(), b.ino()))
}

/// Whether an open file is still the file at a path, as far as the system can determine.
#[cfg(not(unix))]
fn is_same(_: &File, path: &Path) -> io::Result<bool> {
    Ok(std::fs::symlink_metadata(path)?.is_file())
}

/// The folder `blobs` beside `snapshots`, for a folder `snapshots/REVISION`.
fn hub_store(folder: &Path) -> Option<PathBuf> {
    let snapshots = folder.parent()?;
    (snapshots.file_name()? == "snapshots").then_some(())?;
    Some(snapshots.parent()?.join("blobs"))
}

/// A folder in memory.
///
/// ```
/// use gguf_hf::{Error, MemoryFolder, Options, plan_folder};
///
/// let mut folder = MemoryFolder::new("my-model");
/// folder.insert("config.json", r#"{"architectures": ["LlamaForCausalLM"]}"#);
/// // The tokenizer and the tensors are missing.
/// assert!(matches!(plan_folder(&folder, &Options::default()), Err(Error::NoWeights { .. })));
/// ```
#[derive(Clone, Default)]
pub struct MemoryFolder {
    name: PathBuf,
    files: BTreeMap<String, Arc<[u8]>>,
}

impl MemoryFolder {
    /// An empty folder. `name` is its [path](Folder::path), and the name of a model without another one.
    pub fn new(name: impl Into<PathBuf>) -> MemoryFolder {
        MemoryFolder { name: name.into(), files: BTreeMap::new() }
    }

    /// Adds a file, or replaces it. `/` in its name separates a folder from the names in it.
    pub fn insert(&mut self, name: impl Into<String>, bytes: impl AsRef<[u8]>) {
        self.files.insert(name.into(), bytes.as_ref().into());
    }
}

impl fmt::Debug for MemoryFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.files.iter().map(|(name, bytes)| (name, bytes.len()));
        write!(f, "MemoryFolder({:?}, ", self.name)?;
        f.debug_map().entries(files).finish()?;
        f.write_str(")")
    }
}

/// The names of the files in a folder `within` the one that has these files; the name of that folder itself is empty.
pub(crate) fn names_within<'a>(files: impl Iterator<Item = &'a String>, within: &str) -> Vec<String> {
    let inside = |name: &String| match within {
        "" => Some(name.clone()),
        within => Some(name.strip_prefix(within)?.strip_prefix('/')?.to_owned()),
    };
    files.filter_map(inside).filter(|name| !name.contains('/')).collect()
}

impl Folder for MemoryFolder {
    fn path(&self) -> &Path {
        &self.name
    }

    fn names(&self, within: &str) -> io::Result<Vec<String>> {
        Ok(names_within(self.files.keys(), within))
    }

    fn open(&self, name: &str) -> Result<Option<FolderFile>, FolderError> {
        Ok(self.files.get(name).map(|bytes| FolderFile::from_source(Arc::clone(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_of_the_hub() {
        let store = hub_store(Path::new("/c/models--o--m/snapshots/abc"));
        assert_eq!(store.as_deref(), Some(Path::new("/c/models--o--m/blobs")));
        assert_eq!(hub_store(Path::new("/c/models--o--m/other/abc")), None);
    }

    #[test]
    fn names_in_memory() {
        let mut folder = MemoryFolder::new("m");
        for name in ["config.json", "a/x", "a/b/y", "ab/z"] {
            folder.insert(name, name);
        }
        assert_eq!(folder.names("").unwrap(), ["config.json"]);
        assert_eq!(folder.names("a").unwrap(), ["x"]);
        assert_eq!(folder.names("a/b").unwrap(), ["y"]);
        assert_eq!(folder.names("b").unwrap(), [""; 0]);
        assert_eq!(folder.open("a/x").unwrap().unwrap().source.as_bytes(), Some(&b"a/x"[..]));
        for name in ["a", "./config.json", "../m/config.json", "/config.json", ""] {
            assert!(folder.open(name).unwrap().is_none(), "{name}");
        }
        assert_eq!(folder.real_name().as_deref(), Some("m"));
        assert_eq!(format!("{folder:?}"), r#"MemoryFolder("m", {"a/b/y": 5, "a/x": 3, "ab/z": 4, "config.json": 11})"#);
    }
}
