//! A model: one file, or all shards of one, opened from any of them.

use std::path::Path;

use gguf_format::shard::{self, ShardKeys, ShardName};
use gguf_format::{Gguf, TensorInfoRef};

use crate::{Error, ModelFile};

/// The files of a model, in the order of their shards.
#[derive(Debug)]
pub struct Model {
    files: Vec<ModelFile>,
}

/// A tensor of a model, and the file it is in.
#[derive(Debug, Clone, Copy)]
pub struct ModelTensor<'a> {
    /// The file.
    pub file: &'a ModelFile,
    /// What the file's head says of it.
    pub info: TensorInfoRef<'a>,
}

impl Model {
    /// Opens the model that `path` belongs to. A file that says it is one of several (`split.count`) brings the others
    /// with it, found by their names (`<prefix>-00001-of-00003.gguf`).
    ///
    /// # Errors
    /// [`Error::Shards`] when a shard is missing or they do not belong together; otherwise see [`ModelFile::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Model, Error> {
        let path = path.as_ref();
        let first = ModelFile::open(path)?;
        let Some(count @ 2..) = ShardKeys::of(first.gguf()).count else { return Ok(Model { files: vec![first] }) };
        let bad = |problem: String| Error::Shards { path: path.to_owned(), problem };
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let name = ShardName::parse(name).filter(|n| u64::from(n.number.count()) == count).ok_or_else(|| {
            bad(format!(
                "it says it is one of {count} shards, but is not named like one; the others cannot be found without a \
                 name that ends in -00001-of-{count:05}.gguf"
            ))
        })?;
        let mut opened = Some(first);
        let mut files = Vec::new();
        for (i, sibling) in name.siblings().enumerate() {
            let file = match opened.take_if(|_| u64::from(name.number.index()) == i as u64) {
                Some(file) => file,
                None => {
                    let sibling = path.with_file_name(&sibling);
                    if !sibling.exists() {
                        return Err(bad(format!("shard {} of {count} is missing: {}", i + 1, sibling.display())));
                    }
                    ModelFile::open(sibling)?
                }
            };
            files.push(file);
        }
        let keys = files.iter().map(|f| ShardKeys::of(f.gguf())).collect::<Vec<_>>();
        if let Some(problem) = shard::problems(&keys).into_iter().next() {
            return Err(bad(problem.to_string()));
        }
        Ok(Model { files })
    }

    /// The files, in the order of their shards.
    pub fn files(&self) -> &[ModelFile] {
        &self.files
    }

    /// The head that carries the model's key-values: the first shard's.
    pub fn gguf(&self) -> &Gguf<'static> {
        // There is always a first file; `open` makes no model without one.
        self.files[0].gguf()
    }

    /// The tensors of all files, in order.
    pub fn tensors(&self) -> impl Iterator<Item = ModelTensor<'_>> {
        self.files.iter().flat_map(|file| file.gguf().tensors().map(move |info| ModelTensor { file, info }))
    }

    /// Bytes of all files together.
    pub fn file_bytes(&self) -> u64 {
        self.files.iter().map(ModelFile::file_bytes).sum()
    }
}
