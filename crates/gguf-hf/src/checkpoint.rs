//! Checkpoints: folders with a configuration and one or more tensor files.
//!
//! A [`TensorFiles`] holds the name, format, shape and location of every tensor after reading the file headers. Data is read on demand, by
//! position, into the caller's buffer. Several threads can read at once, the caller controls memory use, and a file that shrinks during
//! reading causes an error instead of a crash.

pub(crate) mod index;
pub(crate) mod meta;
pub(crate) mod mistral;

use gguf_format::sort::CompactSort as _;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_io::ReadAt;
use gguf_pipeline::moves::{self, Axis, Move};
use gguf_pipeline::{Error as PipelineError, FilePlace, Source, SourceRead, SourceVersion};

use crate::dtype::SourceTensor;
use crate::error::{Error, Names};
use crate::files::{self, INDEX, TORCH_INDEX, read_at_most};
use crate::folder::{Folder, FolderFile};
use crate::number::to_index;
use crate::safetensors;
use crate::torch;

/// The maximum length of an index; the indices of the largest checkpoints take a few MB.
const MAX_INDEX: u64 = 100_000_000;

/// The tensors of a checkpoint folder, open for reading.
///
/// ```
/// use gguf_hf::checkpoint::TensorFiles;
/// use gguf_hf::{Dtype, MemoryFolder};
///
/// let header = br#"{"norm.weight":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}"#;
/// let length = (header.len() as u64).to_le_bytes();
/// let mut folder = MemoryFolder::new("my-model");
/// folder.insert("model.safetensors", [&length[..], header, &[0; 4]].concat());
/// let checkpoint = TensorFiles::open(&folder)?;
/// let tensor = &checkpoint.tensors()[0];
/// assert_eq!((tensor.name.as_str(), tensor.dtype, tensor.shape.as_slice()), ("norm.weight", Dtype::F16, &[2][..]));
/// # Ok::<(), gguf_hf::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct TensorFiles {
    parts: Vec<Part>,
    tensors: Vec<SourceTensor>,
    places: Vec<DataPlace>,
    views: Vec<View>,
}

/// The file names of a checkpoint format: the index, and the prefix and suffix of the parts.
struct Files {
    index: &'static str,
    prefix: &'static str,
    suffix: &'static str,
}

/// The checkpoint formats, in order of precedence (`ModelBase.index_tensors` in `conversion/base.py`).
const FILES: [Files; 2] = [
    Files { index: INDEX, prefix: "model", suffix: ".safetensors" },
    Files { index: TORCH_INDEX, prefix: "pytorch_model", suffix: ".bin" },
];

/// The file names that diffusers uses for an image model.
const IMAGES: Files = Files {
    index: "diffusion_pytorch_model.safetensors.index.json",
    prefix: "diffusion_pytorch_model",
    suffix: ".safetensors",
};

/// One file of a checkpoint.
#[derive(Debug)]
struct Part {
    /// Its path within the folder.
    path: PathBuf,
    /// The resolved path, if it is on the disk.
    real: Option<PathBuf>,
    source: Arc<dyn ReadAt>,
}

/// The location of a tensor's data.
#[derive(Debug, Clone, Copy)]
struct DataPlace {
    part: usize,
    offset: u64,
    bytes: u64,
    /// The index of the tensor's view; `None` if its elements are contiguous.
    view: Option<usize>,
}

/// Elements that the files store in an order other than the tensor's.
#[derive(Debug)]
struct View {
    /// The size of an element in bytes.
    width: usize,
    /// The part and start offset of each input of the moves.
    inputs: Vec<(usize, u64)>,
    moves: Vec<Move>,
}

impl TensorFiles {
    /// Opens the tensor files of a folder: the files that `model.safetensors.index.json` names, otherwise all `model*.safetensors`; if
    /// there are none, the files that `pytorch_model.bin.index.json` names, otherwise all `pytorch_model*.bin`. Tensors are ordered by file
    /// name, then by tensor name in a safetensors file (both by code point), or in stored order in a PyTorch file.
    ///
    /// # Errors
    /// If there are no tensor files, if one is missing or resolves to a path outside the folder, if a header is invalid, or if the index
    /// and the files list different tensors.
    pub fn open(dir: &dyn Folder) -> Result<TensorFiles, Error> {
        for files in &FILES {
            if let Some(checkpoint) = TensorFiles::open_files(dir, files)? {
                return Ok(checkpoint);
            }
        }
        Err(Error::NoWeights { dir: dir.path().to_owned(), found: other_weights(dir) })
    }

    /// Opens the tensor files that diffusers writes for an image model; `None` if the folder has none or holds another kind of model.
    ///
    /// # Errors
    /// As for [`open`](TensorFiles::open).
    pub(crate) fn open_images(dir: &dyn Folder) -> Result<Option<TensorFiles>, Error> {
        if has_model(dir)? { Ok(None) } else { TensorFiles::open_files(dir, &IMAGES) }
    }

    fn open_files(dir: &dyn Folder, files: &Files) -> Result<Option<TensorFiles>, Error> {
        let index = read_index(dir, files.index)?;
        let names = match &index {
            Some(pairs) => pairs.iter().map(|(_, part)| part.clone()).collect::<BTreeSet<_>>(),
            None => list_parts(dir, files)?,
        };
        if index.is_none() && names.is_empty() {
            return Ok(None);
        }
        let checkpoint = TensorFiles::open_parts(dir, &names)?;
        if let Some(pairs) = index {
            checkpoint.compare_with_index(dir.path().join(files.index), &pairs)?;
        }
        Ok(Some(checkpoint))
    }

    /// Opens one tensor file of a folder, or all parts if its name marks it as one of several parts.
    ///
    /// # Errors
    /// As for [`open`](TensorFiles::open).
    pub fn open_file(dir: &dyn Folder, name: &str) -> Result<TensorFiles, Error> {
        for files in FILES.iter().chain([&IMAGES]) {
            match numbered_part(name, files.suffix) {
                Some((stem, count)) if count > 1 && stem == files.prefix => {
                    if let Some(checkpoint) = TensorFiles::open_files(dir, files)? {
                        return Ok(checkpoint);
                    }
                }
                Some((stem, count)) if count > 1 && FILES.iter().all(|files| stem != files.prefix) => {
                    let all = (1..=count).map(|i| format!("{stem}-{i:05}-of-{count:05}{}", files.suffix));
                    return TensorFiles::open_parts(dir, &all.collect());
                }
                _ => {}
            }
        }
        TensorFiles::open_parts(dir, &BTreeSet::from([name.to_owned()]))
    }

    fn open_parts(dir: &dyn Folder, names: &BTreeSet<String>) -> Result<TensorFiles, Error> {
        let mut checkpoint = TensorFiles::empty();
        let mut missing = Vec::new();
        for name in names {
            match dir.open(name)? {
                Some(file) => checkpoint.add_part(Part::new(dir, name, file))?,
                None => missing.push(name.clone()),
            }
        }
        if !missing.is_empty() {
            return Err(Error::MissingParts { dir: dir.path().to_owned(), parts: Names(missing) });
        }
        checkpoint.refuse_duplicates()?;
        Ok(checkpoint)
    }

    /// Whether all tensors are in safetensors files.
    pub(crate) fn is_safetensors(&self) -> bool {
        self.parts.iter().all(|part| part.path.extension().is_some_and(|extension| extension == "safetensors"))
    }

    /// Sorts the tensors by the position of their data.
    pub(crate) fn sort_by_data(&mut self) {
        let TensorFiles { tensors, places, .. } = self;
        let mut both: Vec<_> = places.drain(..).zip(tensors.drain(..)).collect();
        both.compact_sort_by_key(|(place, _)| (place.part, place.offset));
        (*places, *tensors) = both.into_iter().unzip();
    }

    /// A checkpoint without tensors, for uses that need only the tokenizer.
    pub fn empty() -> TensorFiles {
        TensorFiles::default()
    }

    /// Inserts the tensors of a file, if it exists, before all others. The name prefix `before` is replaced by `usual`.
    ///
    /// # Errors
    /// If the header of the file is invalid, or if another file has a tensor of the same name.
    pub(crate) fn add_first(&mut self, dir: &dyn Folder, path: &str, before: &str, usual: &str) -> Result<(), Error> {
        let Some(file) = dir.open(path)? else { return Ok(()) };
        let n = self.tensors.len();
        self.add_part(Part::new(dir, path, file))?;
        for tensor in self.tensors.iter_mut().skip(n) {
            if let Some(rest) = tensor.name.strip_prefix(before) {
                tensor.name = format!("{usual}{rest}");
            }
        }
        let added = self.tensors.len() - n;
        self.tensors.rotate_right(added);
        self.places.rotate_right(added);
        self.refuse_duplicates()
    }

    /// The tensors, in conversion order.
    pub fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    /// The real paths of the tensor files on the disk.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().filter_map(|part| part.real.as_deref())
    }

    /// The path of the file that holds a tensor.
    pub(crate) fn path_of(&self, name: &str) -> Option<&Path> {
        let index = self.tensors.iter().position(|tensor| tensor.name == name)?;
        Some(self.parts.get(self.places.get(index)?.part)?.path.as_path())
    }

    /// Whether all elements of a float tensor are zero.
    pub(crate) fn is_zero(&self, index: usize) -> Result<bool, Error> {
        const CHUNK: usize = 1 << 20;
        let n: u64 = self.tensors.get(index).map_or(0, |tensor| tensor.shape.iter().product());
        let bytes = self.places.get(index).map_or(0, |place| place.bytes);
        let width = to_index(bytes.checked_div(n).unwrap_or(1).max(1));
        let mut buffer = Vec::new();
        let mut offset = 0;
        while offset < bytes {
            buffer.resize(CHUNK.min(to_index(bytes - offset)), 0);
            self.read(index, offset, &mut buffer)?;
            // The sign is the most significant bit of the last byte.
            let is_zero = |(i, byte): (usize, &u8)| *byte & if i % width == width - 1 { 0x7f } else { 0xff } == 0;
            if !buffer.iter().enumerate().all(is_zero) {
                return Ok(false);
            }
            offset += buffer.len() as u64;
        }
        Ok(true)
    }

    /// Adds the tensors of a file; the file name determines the format.
    fn add_part(&mut self, part: Part) -> Result<(), Error> {
        match part.path.extension().and_then(|extension| extension.to_str()) {
            Some("bin" | "pt" | "pth" | "ckpt") => self.add_torch_part(part),
            _ => self.add_safetensors_part(part),
        }
    }

    fn add_torch_part(&mut self, part: Part) -> Result<(), Error> {
        let (index, path) = (self.parts.len(), &part.path);
        let entries = torch::tensors(&*part.source).map_err(|source| match source {
            torch::TorchError::Io(e) => Error::io("read", path, e),
            source => Error::Torch { file: path.clone(), source: Box::new(source) },
        })?;
        for entry in entries {
            let bytes = entry.dtype.tensor_bytes(&entry.shape).unwrap_or(0);
            let view = (!entry.is_contiguous()).then_some(self.views.len());
            if view.is_some() {
                let width = (entry.dtype.bits / 8).max(1) as usize;
                let moves = vec![Move { input: 0, from: 0, to: 0, axes: axes(&entry) }];
                self.views.push(View { width, inputs: vec![(index, entry.offset)], moves });
            }
            self.places.push(DataPlace { part: index, offset: entry.offset, bytes, view });
            self.tensors.push(SourceTensor { name: entry.name, dtype: entry.dtype, shape: entry.shape });
        }
        self.parts.push(part);
        Ok(())
    }

    fn add_safetensors_part(&mut self, part: Part) -> Result<(), Error> {
        let (index, file, path) = (self.parts.len(), &part.source, &part.path);
        let fail = |source| Error::Safetensors { file: path.clone(), source: Box::new(source) };
        let file_bytes = file.size().map_err(|e| Error::io("read", path, e))?;
        if file_bytes < safetensors::PREFIX {
            return Err(fail(safetensors::HeaderError::TooShort { file_bytes }));
        }
        let mut prefix = [0; 8];
        file.read_exact_at(0, &mut prefix).map_err(|e| Error::io("read", path, e))?;
        let header_bytes = safetensors::header_bytes(prefix, file_bytes).map_err(fail)?;
        // Bounded by the length of the file and by `MAX_HEADER`.
        let mut json = Vec::new();
        let len = usize::try_from(header_bytes).unwrap_or(usize::MAX);
        json.try_reserve_exact(len).map_err(|_| Error::io("read", path, io::ErrorKind::OutOfMemory.into()))?;
        json.resize(len, 0);
        file.read_exact_at(safetensors::PREFIX, &mut json).map_err(|e| Error::io("read", path, e))?;
        let data_offset = safetensors::PREFIX + header_bytes;
        for entry in safetensors::parse_header(&json, file_bytes - data_offset).map_err(fail)? {
            let offset = data_offset + entry.offset;
            self.places.push(DataPlace { part: index, offset, bytes: entry.bytes, view: None });
            self.tensors.push(SourceTensor { name: entry.name, dtype: entry.dtype, shape: entry.shape });
        }
        self.parts.push(part);
        Ok(())
    }

    fn refuse_duplicates(&self) -> Result<(), Error> {
        let mut seen = HashMap::with_capacity(self.tensors.len());
        for (tensor, place) in self.tensors.iter().zip(&self.places) {
            if let Some(first) = seen.insert(tensor.name.as_str(), place.part) {
                let path = |part: usize| self.parts.get(part).map(|p| p.path.clone()).unwrap_or_default();
                let (first, second) = (path(first), path(place.part));
                return Err(Error::DuplicateTensor { tensor: tensor.name.clone(), first, second });
            }
        }
        Ok(())
    }

    fn compare_with_index(&self, index: PathBuf, pairs: &[(String, String)]) -> Result<(), Error> {
        let found: BTreeSet<&str> = self.tensors.iter().map(|t| t.name.as_str()).collect();
        let listed: BTreeSet<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
        let names = |a: &BTreeSet<&str>, b| Names(a.difference(b).map(|s| (*s).to_owned()).collect());
        let (missing, extra) = (names(&listed, &found), names(&found, &listed));
        if missing.0.is_empty() && extra.0.is_empty() {
            return Ok(());
        }
        Err(Error::IndexMismatch { index, missing, extra })
    }
}

/// The data of a tensor.
enum Data<'a> {
    /// Rearranged bytes.
    Viewed(&'a View),
    /// The bytes at an offset of a file.
    At(&'a Part, u64),
}

impl TensorFiles {
    /// The bytes of a tensor from `offset`.
    fn find(&self, index: usize, offset: u64, len: usize) -> Result<Data<'_>, PipelineError> {
        let place =
            self.places.get(index).copied().unwrap_or(DataPlace { part: usize::MAX, offset: 0, bytes: 0, view: None });
        let part = self.parts.get(place.part);
        let end = offset.checked_add(len as u64).filter(|end| *end <= place.bytes);
        let (Some(part), Some(_)) = (part, end) else {
            let tensor = self.tensors.get(index).map_or_else(|| format!("number {index}"), |t| t.name.clone());
            return Err(PipelineError::OutOfTensor { tensor, bytes: place.bytes });
        };
        Ok(match place.view.and_then(|view| self.views.get(view)) {
            Some(view) => Data::Viewed(view),
            None => Data::At(part, place.offset + offset),
        })
    }
}

impl Source for TensorFiles {
    fn versions(&self) -> Vec<SourceVersion> {
        self.parts.iter().filter_map(|part| SourceVersion::of(&part.path, &*part.source)).collect()
    }

    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), PipelineError> {
        match self.find(index, offset, buffer.len())? {
            Data::Viewed(view) => view.read(&self.parts, offset, buffer),
            Data::At(part, at) => part.read(at, buffer),
        }
    }

    fn read_vec(&self, index: usize, offset: u64, buffer: &mut Vec<u8>) -> Result<(), PipelineError> {
        match self.find(index, offset, buffer.len())? {
            Data::Viewed(view) => view.read(&self.parts, offset, buffer),
            Data::At(part, at) => {
                part.source.read_vec_at(at, buffer).map_err(|e| PipelineError::io("read", &part.path, e))
            }
        }
    }

    fn place(&self, index: usize) -> Option<FilePlace> {
        let place = self.places.get(index).filter(|place| place.view.is_none())?;
        let range = place.offset..place.offset.checked_add(place.bytes)?;
        Some(FilePlace::new(&self.parts.get(place.part)?.path, range))
    }

    fn reads(&self, index: usize, range: Range<u64>) -> Vec<SourceRead> {
        let Some(place) = self.places.get(index) else { return Vec::new() };
        match (place.view.and_then(|view| self.views.get(view)), self.parts.get(place.part)) {
            (Some(view), _) => view.reads(&self.parts, range),
            (None, Some(part)) => {
                let at = |offset: u64| place.offset.saturating_add(offset);
                vec![SourceRead::new(&part.path, at(range.start)..at(range.end))]
            }
            (None, None) => Vec::new(),
        }
    }
}

impl Part {
    fn new(dir: &dyn Folder, name: &str, file: FolderFile) -> Part {
        Part { path: dir.path().join(name), real: file.real, source: file.source }
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), PipelineError> {
        self.source.read_exact_at(offset, buffer).map_err(|e| PipelineError::io("read", &self.path, e))
    }
}

impl View {
    /// The reads that [`read`](View::read) makes.
    fn reads(&self, parts: &[Part], range: Range<u64>) -> Vec<SourceRead> {
        let mut reads = Vec::new();
        let read = |input: usize, offset: u64, bytes: &mut [u8]| {
            let found = self.inputs.get(input).and_then(|(part, start)| Some((parts.get(*part)?, start)));
            reads.extend(found.map(|(part, start)| {
                let first = start.saturating_add(offset);
                SourceRead::new(&part.path, first..first.saturating_add(bytes.len() as u64))
            }));
            Ok(())
        };
        let mut bytes = Vec::new();
        let n = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        if bytes.try_reserve_exact(n).is_ok() {
            bytes.resize(n, 0);
            let listed = moves::gather(
                &self.moves,
                self.width,
                range.start / self.width as u64,
                &mut bytes,
                &mut Vec::new(),
                read,
            );
            debug_assert!(listed.is_ok());
        }
        reads
    }

    /// Reads bytes of the tensor, in the tensor's element order.
    fn read(&self, parts: &[Part], offset: u64, buffer: &mut [u8]) -> Result<(), PipelineError> {
        let read = |input: usize, offset: u64, bytes: &mut [u8]| match self.inputs.get(input) {
            Some((part, start)) => match parts.get(*part) {
                Some(part) => part.read(start.saturating_add(offset), bytes),
                None => Ok(()),
            },
            None => Ok(()),
        };
        moves::gather(&self.moves, self.width, offset / self.width as u64, buffer, &mut Vec::new(), read)
    }
}

/// The loops over the elements of a tensor with strides.
fn axes(entry: &torch::Entry) -> Vec<Axis> {
    let mut to = 1;
    let steps = entry.shape.iter().zip(&entry.strides).rev();
    let axes = steps.map(|(&count, &from)| {
        let axis = Axis { count, from, to };
        to *= count;
        axis
    });
    axes.collect()
}

/// The pairs of tensor and part in an index; `None` if there is no index.
fn read_index(dir: &dyn Folder, name: &str) -> Result<Option<Vec<(String, String)>>, Error> {
    let Some(json) = read_at_most(MAX_INDEX, dir, name)? else { return Ok(None) };
    let pairs = index::parse(&json).map_err(|problem| Error::Index { index: dir.path().join(name), problem })?;
    Ok(Some(pairs))
}

/// Whether a folder contains model tensor files or an index.
pub(crate) fn has_model(dir: &dyn Folder) -> Result<bool, Error> {
    for files in &FILES {
        if files::has(dir, files.index)? || !list_parts(dir, files)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The names of the files in a folder.
fn names_in(dir: &dyn Folder) -> Result<Vec<String>, Error> {
    dir.names("").map_err(|e| Error::io("list", dir.path(), e))
}

/// The tensor files of a folder without an index. Numbered parts must be complete.
fn list_parts(dir: &dyn Folder, files: &Files) -> Result<BTreeSet<String>, Error> {
    let mut names = BTreeSet::new();
    let is_part = |name: &String| name.starts_with(files.prefix) && name.ends_with(files.suffix);
    names.extend(names_in(dir)?.into_iter().filter(is_part));
    let mut missing = BTreeSet::new();
    for name in &names {
        if let Some((stem, count)) = numbered_part(name, files.suffix) {
            let all = (1..=count).map(|i| format!("{stem}-{i:05}-of-{count:05}{}", files.suffix));
            missing.extend(all.filter(|part| !names.contains(part)).take(100));
        }
    }
    if !missing.is_empty() {
        return Err(Error::MissingParts { dir: dir.path().to_owned(), parts: Names(missing.into_iter().collect()) });
    }
    Ok(names)
}

/// Splits `model-00002-of-00003.safetensors` into `model` and 3.
fn numbered_part<'a>(name: &'a str, suffix: &str) -> Option<(&'a str, u32)> {
    let (rest, count) = name.strip_suffix(suffix)?.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let digits = |s: &str| s.len() == 5 && s.bytes().all(|b| b.is_ascii_digit());
    (digits(number) && digits(count)).then_some(())?;
    Some((stem, count.parse().ok()?))
}

/// Weight files in unsupported formats, so that the error can name one.
pub(crate) fn other_weights(dir: &dyn Folder) -> Option<String> {
    let names = dir.names("").ok()?.into_iter();
    names.filter(|n| [".bin", ".pt", ".pth", ".gguf", ".safetensors"].iter().any(|x| n.ends_with(x))).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_of_either_sign() {
        let dir = tempfile::tempdir().unwrap();
        let tensors = [
            ("a", "BF16", &[3][..], vec![0, 0, 0, 0x80, 0, 0]),
            ("b", "BF16", &[2], vec![0, 0, 0x80, 0]),
            ("c", "F32", &[2], vec![0, 0, 0, 0x80, 0, 0, 0, 0]),
            ("d", "F32", &[1], vec![0, 0x80, 0, 0]),
        ];
        std::fs::write(dir.path().join("model.safetensors"), gguf_test::checkpoint::safetensors(&tensors)).unwrap();
        let checkpoint = TensorFiles::open(&dir.path().to_owned()).unwrap();
        let found: Vec<bool> = (0..4).map(|index| checkpoint.is_zero(index).unwrap()).collect();
        assert_eq!(found, [true, false, true, false]);
    }

    #[test]
    fn parts_that_number_themselves() {
        assert_eq!(numbered_part("model-00002-of-00003.safetensors", ".safetensors"), Some(("model", 3)));
        for name in
            ["model.safetensors", "model-2-of-3.safetensors", "model-0000a-of-00003.safetensors", "of-.safetensors"]
        {
            assert_eq!(numbered_part(name, ".safetensors"), None, "{name}");
        }
    }
}
