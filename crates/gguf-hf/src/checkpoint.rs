//! Checkpoints: folders with a configuration and tensors in one file or several.
//!
//! A [`Checkpoint`] knows every tensor's name, format, shape and place after reading the heads of the files. Data is read
//! when it is asked for, by position, into the caller's buffer: many threads can read at once, memory stays what the
//! caller makes it, and a file that shrinks meanwhile is an error instead of a crash.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

use gguf_io::ReadAt;
use gguf_pipeline::{Error as PipelineError, Source};
use serde::Deserialize;

use crate::dtype::SourceTensor;
use crate::error::{Error, IndexProblem, Names};
use crate::files::{self, INDEX, read_at_most};
use crate::safetensors::{self, UniqueMap};

/// The longest index that is read; those of the largest checkpoints take a few MB.
const MAX_INDEX: u64 = 100_000_000;

/// The tensors of a checkpoint folder, open for reading.
#[derive(Debug)]
pub struct Checkpoint {
    parts: Vec<Part>,
    tensors: Vec<SourceTensor>,
    places: Vec<Place>,
}

/// One file of a checkpoint.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    file: File,
}

/// Where a tensor's data lies.
#[derive(Debug, Clone, Copy)]
struct Place {
    part: usize,
    offset: u64,
    bytes: u64,
}

impl Checkpoint {
    /// Opens the tensor files of a folder: those that `model.safetensors.index.json` names, else all that are called
    /// `model*.safetensors`. Tensors are ordered by the name of their file, then by their own, both by code point.
    ///
    /// # Errors
    /// When there are no tensor files, when one is missing or leads out of the folder, when a head is not sound, and when
    /// the index and the files do not list the same tensors.
    pub fn open(dir: &Path) -> Result<Checkpoint, Error> {
        let index = read_index(dir)?;
        let names = match &index {
            Some(pairs) => pairs.iter().map(|(_, part)| part.clone()).collect::<BTreeSet<_>>(),
            None => list_parts(dir)?,
        };
        if names.is_empty() {
            return Err(Error::NoWeights { dir: dir.to_owned(), found: other_weights(dir) });
        }
        let mut checkpoint = Checkpoint { parts: Vec::new(), tensors: Vec::new(), places: Vec::new() };
        let mut missing = Vec::new();
        for name in &names {
            match files::open(dir, name)? {
                Some((file, path)) => checkpoint.add_part(file, path)?,
                None => missing.push(name.clone()),
            }
        }
        if !missing.is_empty() {
            return Err(Error::MissingParts { dir: dir.to_owned(), parts: Names(missing) });
        }
        checkpoint.refuse_duplicates()?;
        if let Some(pairs) = index {
            checkpoint.compare_with_index(dir.join(INDEX), &pairs)?;
        }
        Ok(checkpoint)
    }

    /// Opens one file of tensors; `None` when the folder does not have it. They are in the order of their data.
    ///
    /// # Errors
    /// When its head is not sound.
    pub(crate) fn open_file(dir: &Path, name: &str) -> Result<Option<Checkpoint>, Error> {
        let Some((file, path)) = files::open(dir, name)? else { return Ok(None) };
        let mut checkpoint = Checkpoint::empty();
        checkpoint.add_part(file, path)?;
        checkpoint.refuse_duplicates()?;
        let Checkpoint { tensors, places, .. } = &mut checkpoint;
        let mut both: Vec<_> = places.drain(..).zip(tensors.drain(..)).collect();
        both.sort_by_key(|(place, _)| place.offset);
        (*places, *tensors) = both.into_iter().unzip();
        Ok(Some(checkpoint))
    }

    /// A checkpoint without tensors, for what only needs the tokenizer.
    pub fn empty() -> Checkpoint {
        Checkpoint { parts: Vec::new(), tensors: Vec::new(), places: Vec::new() }
    }

    /// Adds the tensors of a file, if the folder has it, before all others. What their names begin with is replaced.
    ///
    /// # Errors
    /// When the head of the file is not sound, or has a tensor of the same name as another file.
    pub(crate) fn add_first(&mut self, dir: &Path, path: &str, before: &str, usual: &str) -> Result<(), Error> {
        let Some((file, path)) = crate::files::open(dir, path)? else { return Ok(()) };
        let n = self.tensors.len();
        self.add_part(file, path)?;
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

    /// The tensors, in the order in which they are converted.
    pub fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    /// The real paths of the tensor files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().map(|part| part.path.as_path())
    }

    /// The real path of the file that holds a tensor.
    pub(crate) fn path_of(&self, name: &str) -> Option<&Path> {
        let index = self.tensors.iter().position(|tensor| tensor.name == name)?;
        Some(self.parts.get(self.places.get(index)?.part)?.path.as_path())
    }

    /// Whether all elements of a tensor of floats are zero.
    pub(crate) fn is_zero(&self, index: usize) -> Result<bool, Error> {
        const CHUNK: u64 = 1 << 20;
        let n: u64 = self.tensors.get(index).map_or(0, |tensor| tensor.shape.iter().product());
        let bytes = self.places.get(index).map_or(0, |place| place.bytes);
        let width = bytes.checked_div(n).unwrap_or(1).max(1) as usize;
        let mut buffer = Vec::new();
        let mut offset = 0;
        while offset < bytes {
            buffer.resize(CHUNK.min(bytes - offset) as usize, 0);
            self.read(index, offset, &mut buffer)?;
            // The sign is the highest bit of the last byte.
            let is_zero = |(i, byte): (usize, &u8)| *byte & if i % width == width - 1 { 0x7f } else { 0xff } == 0;
            if !buffer.iter().enumerate().all(is_zero) {
                return Ok(false);
            }
            offset += buffer.len() as u64;
        }
        Ok(true)
    }

    fn add_part(&mut self, file: File, path: PathBuf) -> Result<(), Error> {
        let fail = |source| Error::Safetensors { file: path.clone(), source: Box::new(source) };
        let metadata = file.metadata().map_err(|e| Error::io("read", &path, e))?;
        let file_bytes = metadata.len();
        if file_bytes < safetensors::PREFIX {
            return Err(fail(safetensors::HeaderError::TooShort { file_bytes }));
        }
        let mut prefix = [0; 8];
        file.read_exact_at(0, &mut prefix).map_err(|e| Error::io("read", &path, e))?;
        let header_bytes = safetensors::header_bytes(prefix, file_bytes).map_err(fail)?;
        // Bounded by the length of the file and by `MAX_HEADER`.
        let mut json = Vec::new();
        let len = usize::try_from(header_bytes).unwrap_or(usize::MAX);
        json.try_reserve_exact(len).map_err(|_| Error::io("read", &path, io::ErrorKind::OutOfMemory.into()))?;
        json.resize(len, 0);
        file.read_exact_at(safetensors::PREFIX, &mut json).map_err(|e| Error::io("read", &path, e))?;
        let data_offset = safetensors::PREFIX + header_bytes;
        for entry in safetensors::parse_header(&json, file_bytes - data_offset).map_err(fail)? {
            self.places.push(Place { part: self.parts.len(), offset: data_offset + entry.offset, bytes: entry.bytes });
            self.tensors.push(SourceTensor { name: entry.name, dtype: entry.dtype, shape: entry.shape });
        }
        self.parts.push(Part { path, file });
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

impl Source for Checkpoint {
    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), PipelineError> {
        let place = self.places.get(index).copied().unwrap_or(Place { part: usize::MAX, offset: 0, bytes: 0 });
        let part = self.parts.get(place.part);
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= place.bytes);
        let (Some(part), Some(_)) = (part, end) else {
            let tensor = self.tensors.get(index).map_or_else(|| format!("number {index}"), |t| t.name.clone());
            return Err(PipelineError::OutOfTensor { tensor, bytes: place.bytes });
        };
        part.file.read_exact_at(place.offset + offset, buffer).map_err(|e| PipelineError::io("read", &part.path, e))
    }
}

#[derive(Deserialize)]
struct IndexFile {
    weight_map: UniqueMap,
}

/// The pairs of tensor and part that an index lists; `None` when there is no index.
fn read_index(dir: &Path) -> Result<Option<Vec<(String, String)>>, Error> {
    let path = dir.join(INDEX);
    let Some(json) = read_at_most(MAX_INDEX, dir, INDEX)? else { return Ok(None) };
    let invalid = |problem| Error::Index { index: path.clone(), problem };
    let index: IndexFile = serde_json::from_slice(&json).map_err(|e| invalid(IndexProblem::Json(e)))?;
    let pairs = index.weight_map.0;
    match pairs.iter().find(|(_, part)| !is_plain_file_name(part)) {
        Some((tensor, part)) => {
            let (tensor, part) = (tensor.clone(), part.clone());
            Err(invalid(IndexProblem::Part { tensor, part }))
        }
        None => Ok(Some(pairs)),
    }
}

/// Whether a folder has tensor files of a model, or a list of them.
pub(crate) fn has_model(dir: &Path) -> Result<bool, Error> {
    Ok(files::has(dir, INDEX)? || !list_parts(dir)?.is_empty())
}

/// Whether a name is that of a file directly in a folder, on every system: no separators, drives or streams.
fn is_plain_file_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let plain = matches!((components.next(), components.next()), (Some(Component::Normal(_)), None));
    plain && !name.contains(['/', '\\', ':']) && !name.contains(char::is_control)
}

/// The tensor files of a folder without index. Parts that number themselves have to be complete.
fn list_parts(dir: &Path) -> Result<BTreeSet<String>, Error> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(dir).map_err(|e| Error::io("list", dir, e))? {
        let entry = entry.map_err(|e| Error::io("list", dir, e))?;
        if let Ok(name) = entry.file_name().into_string()
            && name.starts_with("model")
            && name.ends_with(".safetensors")
        {
            names.insert(name);
        }
    }
    let mut missing = BTreeSet::new();
    for name in &names {
        if let Some((stem, count)) = numbered_part(name) {
            let all = (1..=count).map(|i| format!("{stem}-{i:05}-of-{count:05}.safetensors"));
            missing.extend(all.filter(|part| !names.contains(part)).take(100));
        }
    }
    if !missing.is_empty() {
        return Err(Error::MissingParts { dir: dir.to_owned(), parts: Names(missing.into_iter().collect()) });
    }
    Ok(names)
}

/// Takes `model-00002-of-00003.safetensors` apart into `model` and 3.
fn numbered_part(name: &str) -> Option<(&str, u32)> {
    let (rest, count) = name.strip_suffix(".safetensors")?.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let digits = |s: &str| s.len() == 5 && s.bytes().all(|b| b.is_ascii_digit());
    (digits(number) && digits(count)).then_some(())?;
    Some((stem, count.parse().ok()?))
}

/// Weight files in a format that is not read, so that the error can name one.
pub(crate) fn other_weights(dir: &Path) -> Option<String> {
    let names = std::fs::read_dir(dir).ok()?.filter_map(|e| e.ok()?.file_name().into_string().ok());
    names.filter(|n| [".bin", ".pt", ".pth", ".gguf", ".safetensors"].iter().any(|x| n.ends_with(x))).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_stay_in_the_folder() {
        for name in ["model.safetensors", "model-00001-of-00002.safetensors", "..model", "a b"] {
            assert!(is_plain_file_name(name), "{name}");
        }
        let bad = [
            "",
            ".",
            "..",
            "/etc/passwd",
            "../x",
            "a/b",
            "a/",
            "./a",
            "a\\b",
            "..\\x",
            "C:x",
            "C:\\x",
            "\\\\host\\x",
            "a:b",
            "a\0b",
            "a\nb",
        ];
        for name in bad {
            assert!(!is_plain_file_name(name), "{name:?}");
        }
    }

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
        let checkpoint = Checkpoint::open(dir.path()).unwrap();
        let found: Vec<bool> = (0..4).map(|index| checkpoint.is_zero(index).unwrap()).collect();
        assert_eq!(found, [true, false, true, false]);
    }

    #[test]
    fn parts_that_number_themselves() {
        assert_eq!(numbered_part("model-00002-of-00003.safetensors"), Some(("model", 3)));
        for name in
            ["model.safetensors", "model-2-of-3.safetensors", "model-0000a-of-00003.safetensors", "of-.safetensors"]
        {
            assert_eq!(numbered_part(name), None, "{name}");
        }
    }
}
