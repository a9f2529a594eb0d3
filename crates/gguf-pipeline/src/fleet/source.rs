//! The files of a source: how a plan identifies them, and how a worker reads them.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::UNIX_EPOCH;

use gguf_format::{ByteOrder, GgmlType, swap_blocks};
use gguf_io::ReadAt;
use serde::{Deserialize, Serialize};

use super::error::FleetError;
use super::{InputPlace, Opener, Type};
use crate::error::Error;
use crate::plan::{Input, TensorPlan};
use crate::source::{FilePlace, Source, SourceRead, SourceVersion};

/// A file of a source, identified without reading it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// The path or URL.
    pub path: String,
    /// The length.
    pub bytes: u64,
    /// The version of a file that is not local, such as an ETag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Time of the last change of a local file, in nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<u64>,
}

/// A file of a source that is open, and is the one in the plan.
pub type OpenSource = Arc<dyn ReadAt>;

fn modified(metadata: &fs::Metadata) -> Option<u64> {
    let since = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

impl SourceFile {
    /// An open file.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn of(path: &Path, source: &dyn ReadAt) -> io::Result<SourceFile> {
        let version = source.version();
        let modified = match (&version, source.as_file()) {
            (None, Some(file)) => modified(&file.metadata()?),
            _ => None,
        };
        let path = if version.is_some() { path.to_owned() } else { real(path) };
        Ok(SourceFile { path: path.to_string_lossy().into_owned(), bytes: source.size()?, version, modified })
    }

    /// Opens the file, and checks that it is the one in the plan.
    ///
    /// # Errors
    /// [`FleetError::Changed`]; errors of `open`.
    pub fn open(&self, open: &Opener) -> Result<OpenSource, FleetError> {
        let path = Path::new(&self.path);
        let source = open(path).map_err(|e| Error::io("open", path, e))?;
        self.check(&*source)?;
        Ok(source)
    }

    /// Checks that an open file is the one in the plan.
    fn check(&self, source: &dyn ReadAt) -> Result<(), FleetError> {
        let path = Path::new(&self.path);
        let found = SourceFile::of(path, source).map_err(|e| Error::io("read", path, e))?;
        let text = |number: Option<u64>| number.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
        let or = |version: &Option<String>| version.clone().unwrap_or_else(|| "none".to_owned());
        let (what, planned, now) = if found.bytes != self.bytes {
            ("length", self.bytes.to_string(), found.bytes.to_string())
        } else if found.version != self.version {
            ("version", or(&self.version), or(&found.version))
        } else if found.modified != self.modified {
            ("time of the last change", text(self.modified), text(found.modified))
        } else {
            return Ok(());
        };
        Err(FleetError::Changed { path: path.to_owned(), what, planned, found: now })
    }
}

/// The real path of a local file, so that workers find it from other folders.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The files and the tensors of a source that a plan uses, as they are found.
pub(super) struct Sources {
    versions: HashMap<PathBuf, SourceVersion>,
    files: Vec<SourceFile>,
    numbers: HashMap<PathBuf, u32>,
    inputs: Vec<InputPlace>,
    known: HashMap<usize, usize>,
}

impl Sources {
    pub(super) fn of(source: &dyn Source) -> Sources {
        let versions = source.versions().into_iter().map(|version| (version.path.clone(), version)).collect();
        Sources { versions, files: Vec::new(), numbers: HashMap::new(), inputs: Vec::new(), known: HashMap::new() }
    }

    /// The index of the place of a source tensor, which `tensor` is made of.
    pub(super) fn place_of(
        &mut self,
        source: &dyn Source,
        input: &Input,
        tensor: &TensorPlan,
    ) -> Result<usize, FleetError> {
        let index = input.index();
        if let Some(known) = self.known.get(&index) {
            return Ok(*known);
        }
        let place = source.place(index).ok_or_else(|| FleetError::Source { tensor: tensor.shown() })?;
        let FilePlace { path, range, order } = place;
        let file = match self.numbers.get(&path) {
            Some(file) => *file,
            None => {
                let number = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
                self.files.push(self.file(&path)?);
                self.numbers.insert(path, number);
                number
            }
        };
        let swapped = (order == ByteOrder::Big).then_some(Type(input.ty));
        self.inputs.push(InputPlace(file, range.start, range.end - range.start, swapped));
        self.known.insert(index, self.inputs.len() - 1);
        Ok(self.inputs.len() - 1)
    }

    fn file(&self, path: &Path) -> Result<SourceFile, FleetError> {
        if let Some(SourceVersion { path, bytes, version, .. }) = self.versions.get(path) {
            let (path, version) = (path.to_string_lossy().into_owned(), Some(version.clone()));
            return Ok(SourceFile { path, bytes: *bytes, version, modified: None });
        }
        let path = real(path);
        let metadata = fs::metadata(&path).map_err(|e| Error::io("read", &path, e))?;
        let (bytes, modified) = (metadata.len(), modified(&metadata));
        Ok(SourceFile { path: path.to_string_lossy().into_owned(), bytes, version: None, modified })
    }

    pub(super) fn into_parts(self) -> (Vec<SourceFile>, Vec<InputPlace>) {
        (self.files, self.inputs)
    }
}

/// The source of a worker: places in files, which are opened when they are needed.
pub(super) struct Placed {
    files: Vec<(SourceFile, OnceLock<OpenSource>)>,
    inputs: Vec<InputPlace>,
    open: Arc<Opener>,
    /// Held while a file is opened: threads that need it, too, wait.
    opening: Mutex<()>,
}

impl Placed {
    pub(super) fn new(files: &[SourceFile], inputs: &[InputPlace], open: Arc<Opener>) -> Placed {
        let files = files.iter().map(|file| (file.clone(), OnceLock::new())).collect();
        Placed { files, inputs: inputs.to_vec(), open, opening: Mutex::default() }
    }

    /// Checks that the files that were read are still those of the plan.
    pub(super) fn check(&self) -> Result<(), FleetError> {
        let opened = self.files.iter().filter_map(|(file, source)| Some((file, source.get()?)));
        opened.into_iter().try_for_each(|(file, source)| match source.as_file() {
            // The name may have got another file.
            Some(_) => file.open(&*self.open).map(drop),
            None => file.check(source),
        })
    }

    /// Opens the files of tensors: what is read ahead must be open.
    pub(super) fn open(&self, inputs: impl Iterator<Item = usize>) -> Result<(), Error> {
        for place in inputs.filter_map(|index| self.inputs.get(index)) {
            if let Some((file, source)) = self.files.get(place.0 as usize) {
                self.opened(file, source)?;
            }
        }
        Ok(())
    }

    fn outside(&self, index: usize) -> Error {
        let bytes = self.inputs.get(index).map_or(0, |place| place.2);
        Error::OutOfTensor { tensor: format!("number {index}"), bytes }
    }

    /// The file with some bytes of a tensor, and their place in it.
    fn find(&self, index: usize, range: &Range<u64>) -> Result<(&SourceFile, &OnceLock<OpenSource>, u64), Error> {
        let place = self.inputs.get(index).filter(|place| range.end <= place.2);
        let found =
            place.and_then(|place| Some((self.files.get(place.0 as usize)?, place.1.checked_add(range.start)?)));
        let ((file, source), at) = found.ok_or_else(|| self.outside(index))?;
        Ok((file, source, at))
    }

    fn opened<'a>(&self, file: &SourceFile, source: &'a OnceLock<OpenSource>) -> Result<&'a OpenSource, Error> {
        if let Some(source) = source.get() {
            return Ok(source);
        }
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = source.get() {
            return Ok(source);
        }
        let opened = file.open(&*self.open).map_err(FleetError::into_run)?;
        Ok(source.get_or_init(|| opened))
    }
}

impl fmt::Debug for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Placed").field("files", &self.files.len()).finish_non_exhaustive()
    }
}

impl Placed {
    /// Reads bytes of a tensor with `read`; returns the type whose blocks are then swapped, if any.
    fn read_with(
        &self,
        index: usize,
        range: &Range<u64>,
        read: impl FnOnce(&OpenSource, u64) -> io::Result<()>,
    ) -> Result<Option<GgmlType>, Error> {
        let (file, source, at) = self.find(index, range)?;
        let source = self.opened(file, source)?;
        read(source, at).map_err(|e| Error::io("read", Path::new(&file.path), e))?;
        Ok(self.inputs.get(index).and_then(|place| place.3).map(|ty| ty.0))
    }

    /// Turns bytes of a tensor into little-endian order.
    fn swap(ty: Option<GgmlType>, buffer: &mut [u8]) -> Result<(), Error> {
        let Some(ty) = ty else { return Ok(()) };
        swap_blocks(ty, buffer).map_err(|_| Error::NoCodec { tensor: ty.to_string() })
    }
}

impl Source for Placed {
    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let range = offset..offset.saturating_add(buffer.len() as u64);
        let ty = self.read_with(index, &range, |source, at| source.read_exact_at(at, buffer))?;
        Placed::swap(ty, buffer)
    }

    fn read_vec(&self, index: usize, offset: u64, buffer: &mut Vec<u8>) -> Result<(), Error> {
        let range = offset..offset.saturating_add(buffer.len() as u64);
        let ty = self.read_with(index, &range, |source, at| source.read_vec_at(at, buffer))?;
        Placed::swap(ty, buffer)
    }

    fn reads(&self, index: usize, range: Range<u64>) -> Vec<SourceRead> {
        let found = self.find(index, &range);
        let read =
            found.map(|(file, _, at)| SourceRead::new(&file.path, at..at.saturating_add(range.end - range.start)));
        read.into_iter().collect()
    }
}
