//! A model: one file, or all shards of one, opened from any of them.

use std::path::{Path, PathBuf};

use gguf_format::Gguf;
use gguf_format::shard::{self, ShardKeys, ShardName};

use crate::tensor::{Tensor, nearest};
use crate::{Error, ModelFile, ReadAt, ShardsProblem};

/// The files of a model, in the order of their shards.
///
/// ```no_run
/// # fn main() -> Result<(), gguf_io::Error> {
/// use gguf_io::Model;
///
/// // Any shard can be given; the others are found by their names.
/// let model = Model::open("big-00002-of-00003.gguf")?;
/// let architecture = model.gguf().get_as::<&str>("general.architecture");
/// let query = model.tensor("blk.0.attn_q.weight")?.rows(0..8)?.to_f32()?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Model {
    files: Vec<ModelFile>,
}

impl Model {
    /// Opens the model that `path` belongs to. If the file is one of several shards (`split.count`), the others are found by their names
    /// (`<prefix>-00001-of-00003.gguf`).
    ///
    /// # Errors
    /// [`Error::Shards`] if a shard is missing or they do not belong together; otherwise see [`ModelFile::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Model, Error> {
        Model::open_with(path.as_ref(), |path| ModelFile::open(path))
    }

    /// As [`open`](Model::open), with the tensor data of all files mapped into memory.
    ///
    /// # Errors
    /// See [`open`](Model::open); also when the system cannot map a file.
    ///
    /// # Safety
    /// As for [`Map::new`](crate::Map::new) for every file of the model: while it is open here, nothing may write to it or truncate it.
    #[allow(unsafe_code, reason = "passes the contract of a map on")]
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<Model, Error> {
        // SAFETY: guaranteed by the caller for all files of the model.
        Model::open_with(path.as_ref(), |path| unsafe { ModelFile::map(path) })
    }

    fn open_with(path: &Path, open: impl Fn(&Path) -> Result<ModelFile, Error>) -> Result<Model, Error> {
        let first = open(path)?;
        let Some(count @ 2..) = ShardKeys::of(first.gguf()).count else { return Ok(Model { files: vec![first] }) };
        let bad = |problem| Error::Shards { path: path.to_owned(), problem };
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let name = ShardName::parse(name).filter(|n| u64::from(n.number.count()) == count);
        let name = name.ok_or_else(|| bad(ShardsProblem::Name { count }))?;
        let mut opened = Some(first);
        let mut files = Vec::new();
        for (i, sibling) in name.siblings().enumerate() {
            let file = match opened.take_if(|_| u64::from(name.number.index()) == i as u64) {
                Some(file) => file,
                None => {
                    let sibling = path.with_file_name(&sibling);
                    if !sibling.exists() {
                        return Err(bad(ShardsProblem::Missing { number: i as u64 + 1, count, path: sibling }));
                    }
                    open(&sibling)?
                }
            };
            files.push(file);
        }
        Model::of_shards(files, path)
    }

    /// Opens a model in a single source of bytes: memory, a [`Map`](crate::Map), a remote object. `name` identifies it in messages.
    ///
    /// # Errors
    /// See [`ModelFile::from_reader`]; [`Error::Shards`] if it is one of several shards.
    pub fn from_reader(source: impl ReadAt + 'static, name: impl Into<PathBuf>) -> Result<Model, Error> {
        Model::from_files(vec![ModelFile::from_reader(source, name)?])
    }

    /// The model that consists of the given files: one file, or all shards in order.
    ///
    /// # Errors
    /// [`Error::Shards`] if there is no file, or the files do not belong together.
    pub fn from_files(files: Vec<ModelFile>) -> Result<Model, Error> {
        let path = files.first().map(|file| file.path().to_owned()).unwrap_or_default();
        Model::of_shards(files, &path)
    }

    fn of_shards(files: Vec<ModelFile>, path: &Path) -> Result<Model, Error> {
        let keys = files.iter().map(|f| ShardKeys::of(f.gguf())).collect::<Vec<_>>();
        let problem = match shard::problems(&keys).into_iter().next() {
            _ if files.is_empty() => ShardsProblem::NoFiles,
            Some(problem) => ShardsProblem::Keys(problem),
            None => return Ok(Model { files }),
        };
        Err(Error::Shards { path: path.to_owned(), problem })
    }

    /// The files, in the order of their shards.
    pub fn files(&self) -> &[ModelFile] {
        &self.files
    }

    /// The head with the model's key-values: the first shard's.
    pub fn gguf(&self) -> &Gguf<'static> {
        // Every model has at least one file.
        self.files[0].gguf()
    }

    /// The first tensor with that name, found by a linear search; for many look-ups, collect [`tensors`](Model::tensors) into a map once.
    ///
    /// # Errors
    /// [`Error::NoTensor`], with similar tensor names.
    pub fn tensor(&self, name: &str) -> Result<Tensor<'_>, Error> {
        let found = self.files.iter().find_map(|file| Some(Tensor::new(file, file.gguf().tensor(name)?)));
        found.ok_or_else(|| Error::NoTensor {
            path: self.files.first().map(|file| file.path().to_owned()).unwrap_or_default(),
            name: name.to_owned(),
            nearest: nearest(name, self.tensors().map(|t| t.name())),
        })
    }

    /// The tensors of all files, in order.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<'_>> {
        self.files.iter().flat_map(ModelFile::tensors)
    }

    /// Total size of all files.
    pub fn file_bytes(&self) -> u64 {
        self.files.iter().map(ModelFile::file_bytes).fold(0, u64::saturating_add)
    }
}
