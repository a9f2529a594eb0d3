//! A GGUF source: one file, or all shards of one; and the draft that copies it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_format::shard::{SPLIT_COUNT, SPLIT_NO, SPLIT_TENSORS_COUNT};
use gguf_format::{ByteOrder, Dialect, Gguf, Head, Version, swap_blocks};
use gguf_io::{IntoModel, Model, Tensor};

use crate::error::Error;
use crate::limits::MAX_TENSORS;
use crate::plan::{Draft, Input, Keep, Op, Reason, Rounding, Shape, SourcePlace, TensorPlan};
use crate::source::{Source, SourceVersion, Stored};

/// A key in the first shard of a model whose single file had an unusual layout: the length of that file as 8 little-endian bytes, then its
/// head. Merging the shards restores that exact file. The key is removed together with the keys of a split.
pub const UNSPLIT_HEAD: &str = "ggufkit.split.head";

/// The tensors of a model in GGUF, open for reading.
#[derive(Debug)]
pub struct GgufSource {
    model: Model,
    /// The number of tensors in the files before each file.
    firsts: Vec<usize>,
}

impl GgufSource {
    /// The tensors of an open model, or of the one that a path belongs to, with all its shards.
    ///
    /// # Errors
    /// If a file cannot be read or is not a valid GGUF file, a shard is missing, or the data of a tensor is incomplete.
    pub fn open(model: impl IntoModel) -> Result<GgufSource, Error> {
        GgufSource::of(model.into_model().map_err(Error::input)?)
    }

    fn of(model: Model) -> Result<GgufSource, Error> {
        let (mut firsts, mut n) = (Vec::new(), 0);
        for file in model.files() {
            firsts.push(n);
            n += file.tensors().len();
        }
        model.tensors().try_for_each(|tensor| tensor.byte_range().map(drop)).map_err(Error::input)?;
        Ok(GgufSource { model, firsts })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The tensors of all files, in order.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<'_>> {
        self.model.tensors()
    }

    /// The number of tensors of all files.
    pub fn n_tensors(&self) -> usize {
        let last = self.model.files().last().map_or(0, |file| file.tensors().len());
        self.firsts.last().map_or(0, |first| first + last)
    }

    /// The tensor with that index among those of all files.
    pub fn tensor(&self, index: usize) -> Option<Tensor<'_>> {
        let file = self.firsts.partition_point(|first| *first <= index).checked_sub(1)?;
        let within = index - self.firsts.get(file)?;
        self.model.files().get(file)?.tensor_by_index(within as u64)
    }

    /// The real paths of the files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.model.files().iter().filter_map(|f| f.path().canonicalize().ok())
    }
}

/// A range of a tensor's data.
struct Found<'a> {
    tensor: Tensor<'a>,
    /// The offset in the tensor's file.
    at: u64,
}

impl Found<'_> {
    /// Turns the data into little-endian byte order, after it was read.
    fn finish(&self, buffer: &mut [u8]) -> Result<(), Error> {
        if self.tensor.file().gguf().dialect().order == ByteOrder::Big {
            let refused = |_| Error::NoCodec { tensor: self.tensor.name().to_string() };
            swap_blocks(self.tensor.ty(), buffer).map_err(refused)?;
        }
        Ok(())
    }
}

impl GgufSource {
    /// The bytes of a tensor from `offset`.
    fn find(&self, index: usize, offset: u64, len: usize) -> Result<Found<'_>, Error> {
        let tensor = self.tensor(index);
        let stored = self.stored(index);
        let whole = stored.filter(|s| offset.checked_add(len as u64).is_some_and(|end| end <= s.bytes));
        match (whole, tensor) {
            (Some(stored), Some(tensor)) => Ok(Found { tensor, at: stored.start + offset }),
            (_, tensor) => {
                let name = tensor.map_or_else(|| format!("number {index}"), |tensor| tensor.name().to_string());
                Err(Error::OutOfTensor { tensor: name, bytes: stored.map_or(0, |s| s.bytes) })
            }
        }
    }
}

impl Source for GgufSource {
    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let found = self.find(index, offset, buffer.len())?;
        found.tensor.file().read_at(found.at, buffer).map_err(Error::input)?;
        found.finish(buffer)
    }

    fn read_vec(&self, index: usize, offset: u64, buffer: &mut Vec<u8>) -> Result<(), Error> {
        let found = self.find(index, offset, buffer.len())?;
        found.tensor.file().read_vec_at(found.at, buffer).map_err(Error::input)?;
        found.finish(buffer)
    }

    fn stored(&self, index: usize) -> Option<Stored<'_>> {
        let tensor = self.tensor(index)?;
        let range = tensor.byte_range().ok()?;
        Some(Stored { file: tensor.file(), start: range.start, bytes: range.end - range.start })
    }

    fn check_unchanged(&self) -> Result<(), Error> {
        self.model.files().iter().try_for_each(|file| file.check_unchanged().map_err(Error::input))
    }

    fn versions(&self) -> Vec<SourceVersion> {
        let files = self.model.files().iter();
        files.filter_map(|file| Some(SourceVersion::new(file.path(), file.file_bytes(), file.version()?))).collect()
    }
}

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
    /// A draft that copies an open model, or the one that a path belongs to, with all its shards, into one file of version 3 in little-endian
    /// order. The keys of a split are removed.
    ///
    /// # Errors
    /// If a file cannot be read or is not a valid GGUF file, a shard is missing, or the data of a tensor is incomplete; those of
    /// [`check_memory`].
    pub fn copy_of(model: impl IntoModel) -> Result<Draft, Error> {
        Draft::copy_of_source(GgufSource::open(model)?)
    }

    /// As [`copy_of`](Draft::copy_of), for the source of a model.
    ///
    /// # Errors
    /// [`Error::HeadTooLarge`] and [`Error::TooManyTensors`], as [`check_memory`] returns them.
    pub fn copy_of_source(source: GgufSource) -> Result<Draft, Error> {
        let path = source.model().path().to_owned();
        check_memory(&path, source.model().files().iter().map(gguf_io::ModelFile::gguf))?;
        let mut head = Head { dialect: Dialect::new(Version::V3), ..Head::without_tensors(source.model().gguf()) };
        if source.model().files().len() > 1 {
            for key in [SPLIT_NO, SPLIT_COUNT, SPLIT_TENSORS_COUNT, UNSPLIT_HEAD] {
                head.remove(key);
            }
        }
        let mut tensors = Vec::with_capacity(source.n_tensors());
        for (file, opened) in (0..).zip(source.model().files()) {
            for tensor in opened.tensors() {
                let offset = tensor.byte_range().map_err(Error::input)?.start;
                let op = Op::Copy(Input::new(tensors.len(), "", tensor.ty()));
                let shape: Shape = tensor.shape().collect();
                let copy = TensorPlan::new(tensor.name().as_bytes(), shape, tensor.ty(), Reason::Kept(Keep::Copy), op);
                tensors.push(copy.at(SourcePlace { file, offset }));
            }
        }
        Ok(Draft {
            path,
            head,
            tensors,
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
