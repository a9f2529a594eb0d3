//! A GGUF source: one file, or all shards of one; and the draft that copies it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_format::shard::{SPLIT_COUNT, SPLIT_NO, SPLIT_TENSORS_COUNT};
use gguf_format::{ByteOrder, Dialect, Gguf, Head, TensorInfo, Version, swap_blocks};
use gguf_io::Model;

use crate::error::Error;
use crate::plan::{Draft, Input, Keep, Op, Place, Reason, Rounding, TensorPlan};
use crate::source::{Source, Stored};

/// A key in the first shard of a model whose single file had an unusual layout: the length of that file as 8 little-endian bytes, then its
/// head. Merging the shards restores that exact file. The key is removed together with the keys of a split.
pub const UNSPLIT_HEAD: &str = "ggufkit.split.head";

/// The tensors of a model in GGUF, open for reading.
#[derive(Debug)]
pub struct GgufSource {
    model: Model,
    tensors: Vec<TensorInfo>,
    places: Vec<Range>,
}

/// The place of a tensor's data.
#[derive(Debug, Clone, Copy)]
struct Range {
    file: usize,
    offset: u64,
    bytes: u64,
}

impl GgufSource {
    /// Opens the model that `path` belongs to, with all its shards.
    ///
    /// # Errors
    /// If a file cannot be read or is not a valid GGUF file, a shard is missing, or the data of a tensor is incomplete.
    pub fn open(path: &Path) -> Result<GgufSource, Error> {
        let model = Model::open(path).map_err(Error::input)?;
        let (mut tensors, mut places) = (Vec::new(), Vec::new());
        for (file, opened) in model.files().iter().enumerate() {
            for tensor in opened.tensors() {
                let range = tensor.byte_range().map_err(Error::input)?;
                places.push(Range { file, offset: range.start, bytes: range.end - range.start });
                tensors.push(tensor.info().to_owned());
            }
        }
        Ok(GgufSource { model, tensors, places })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The tensors of all files, in order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The index of the file that contains each tensor, and the offset of its data.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        self.places.iter().map(|range| Place { file: range.file, offset: range.offset })
    }

    /// The real paths of the files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.model.files().iter().filter_map(|f| f.path().canonicalize().ok())
    }
}

impl Source for GgufSource {
    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let place = self.places.get(index).copied();
        let whole = place.filter(|p| offset.checked_add(buffer.len() as u64).is_some_and(|end| end <= p.bytes));
        let found = whole.and_then(|p| Some((p, self.model.files().get(p.file)?, self.tensors.get(index)?)));
        let Some((place, file, tensor)) = found else {
            let tensor = self.tensors.get(index).map(|t| String::from_utf8_lossy(&t.name).into_owned());
            let bytes = place.map_or(0, |p| p.bytes);
            return Err(Error::OutOfTensor { tensor: tensor.unwrap_or_else(|| format!("number {index}")), bytes });
        };
        file.read_at(place.offset + offset, buffer).map_err(Error::input)?;
        if file.gguf().dialect().order == ByteOrder::Big {
            let unknown = |_| Error::NoCodec { tensor: String::from_utf8_lossy(&tensor.name).into_owned() };
            swap_blocks(tensor.ty, buffer).map_err(unknown)?;
        }
        Ok(())
    }

    fn stored(&self, index: usize) -> Option<Stored<'_>> {
        let range = self.places.get(index)?;
        Some(Stored { file: self.model.files().get(range.file)?, start: range.offset, bytes: range.bytes })
    }
}

/// The maximum number of tensors of a model. Models in use have some thousands.
pub const MAX_TENSORS: u64 = 1 << 18;

/// Checks that there is memory for the copies of heads made by an edit or a plan: the values, and their encoded form. `path` names the
/// model in the error.
///
/// # Errors
/// [`Error::HeadTooLarge`], and [`Error::TooManyTensors`] for more than [`MAX_TENSORS`].
pub fn check_memory<'a>(path: &Path, heads: impl Iterator<Item = &'a Gguf<'static>>) -> Result<(), Error> {
    // The values, the new head and its encoded form, and those of shards; text for an editor has up to six bytes for each byte, in a buffer
    // that doubles.
    const COPIES: u64 = 16;
    const BYTES_OF_TENSOR: u64 = 1024;
    let (bytes, n_tensors) = heads.fold((0u64, 0u64), |(bytes, n), gguf| {
        (bytes.saturating_add(gguf.head_bytes()), n.saturating_add(gguf.n_tensors()))
    });
    if n_tensors > MAX_TENSORS {
        return Err(Error::TooManyTensors { path: path.to_owned(), n_tensors });
    }
    let needed = bytes.saturating_mul(COPIES).saturating_add(n_tensors.saturating_mul(BYTES_OF_TENSOR));
    let mut probe: Vec<u8> = Vec::new();
    match usize::try_from(needed).map(|needed| probe.try_reserve_exact(needed)) {
        Ok(Ok(())) => Ok(()),
        _ => Err(Error::HeadTooLarge { path: path.to_owned(), bytes }),
    }
}

impl Draft {
    /// A draft that copies the model that `path` belongs to, with all its shards, into one file of version 3 in little-endian order. The
    /// keys of a split are removed.
    ///
    /// # Errors
    /// If a file cannot be read or is not a valid GGUF file, a shard is missing, or the data of a tensor is incomplete.
    pub fn copy_of(path: impl AsRef<Path>) -> Result<Draft, Error> {
        let path = path.as_ref();
        let source = GgufSource::open(path)?;
        Draft::from_source(source, path)
    }

    /// A draft that copies an open model; `path` names it in messages.
    ///
    /// # Errors
    /// Those of [`check_memory`].
    pub fn from_source(source: GgufSource, path: impl Into<PathBuf>) -> Result<Draft, Error> {
        let path = path.into();
        check_memory(&path, source.model().files().iter().map(gguf_io::ModelFile::gguf))?;
        let mut head = Head::from_gguf(source.model().gguf());
        head.dialect = Dialect::new(Version::V3);
        head.tensors = Vec::new();
        if source.model().files().len() > 1 {
            for key in [SPLIT_NO, SPLIT_COUNT, SPLIT_TENSORS_COUNT, UNSPLIT_HEAD] {
                head.remove(key);
            }
        }
        let tensor = |(index, (t, place)): (usize, (&TensorInfo, Place))| {
            let op = Op::Copy(Input { index, name: String::from_utf8_lossy(&t.name).into_owned(), ty: t.ty });
            let kept = Reason::Kept(Keep::Copy);
            TensorPlan { place, ..TensorPlan::new(t.name.clone(), t.shape.clone(), t.ty, kept, op) }
        };
        Ok(Draft {
            path,
            head,
            tensors: source.tensors().iter().zip(source.places()).enumerate().map(tensor).collect(),
            inputs: source.paths().collect(),
            input_bytes: Some(source.model().file_bytes()),
            source: Arc::new(source),
            rounding: Rounding::Ggml,
            importance: None,
            is_split: false,
            is_vocab_only: false,
        })
    }
}
