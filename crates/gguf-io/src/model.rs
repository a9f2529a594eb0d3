//! A model: one file, or all shards of one, opened from any of them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

#[cfg(feature = "fs")]
impl Model {
    /// Opens the model that `path` belongs to. If the file is one of several shards (`split.count`), the others are found by their names
    /// (`<prefix>-00001-of-00003.gguf`).
    ///
    /// # Errors
    /// [`Error::Shards`] if a shard is missing or they do not belong together; otherwise see [`ModelFile::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Model, Error> {
        Model::open_by(path.as_ref(), |path| ModelFile::open(path))
    }

    /// As [`open`](Model::open), with the tensor data of all files mapped into memory. An `Arc` of the model shares the maps among threads and
    /// [handles](Model::handle).
    ///
    /// # Errors
    /// See [`open`](Model::open); also when the system cannot map a file.
    ///
    /// # Safety
    /// As for [`Map::new`](crate::Map::new) for every file of the model: while it is open here, nothing may write to it or truncate it.
    #[allow(unsafe_code, reason = "passes the contract of a map on")]
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<Model, Error> {
        // SAFETY: guaranteed by the caller for all files of the model.
        Model::open_by(path.as_ref(), |path| unsafe { ModelFile::map(path) })
    }
}

impl Model {
    /// As [`open`](Model::open), with a function that opens the files, for files that are not on the disk. It gets `path`, and the paths of the
    /// other shards beside it.
    ///
    /// # Errors
    /// The errors of `open`; [`Error::Shards`] if the shards do not belong together. A shard is missing if opening it is an [`Error::Io`] of the kind [`NotFound`](io::ErrorKind::NotFound).
    pub fn open_by(path: &Path, open: impl Fn(&Path) -> Result<ModelFile, Error>) -> Result<Model, Error> {
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
                    match open(&sibling) {
                        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                            return Err(bad(ShardsProblem::Missing { number: i as u64 + 1, count, path: sibling }));
                        }
                        opened => opened?,
                    }
                }
            };
            files.push(file);
        }
        Model::of_shards(files, path)
    }

    /// Opens a model in a single source of bytes: memory, a [`Map`](crate::Map), a remote object. `name` identifies it in messages.
    ///
    /// # Errors
    /// See [`ModelFile::from_source`]; [`Error::Shards`] if it is one of several shards.
    pub fn from_source(source: impl ReadAt + 'static, name: impl Into<PathBuf>) -> Result<Model, Error> {
        Model::from_files(vec![ModelFile::from_source(source, name)?])
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

    /// The path of the first file, or its given name.
    pub fn path(&self) -> &Path {
        self.first().path()
    }

    /// The files, in the order of their shards.
    pub fn files(&self) -> &[ModelFile] {
        &self.files
    }

    /// The head with the model's key-values: the first shard's.
    pub fn gguf(&self) -> &Gguf<'static> {
        self.first().gguf()
    }

    #[expect(clippy::indexing_slicing, reason = "every model has at least one file")]
    fn first(&self) -> &ModelFile {
        &self.files[0]
    }

    /// The first tensor with that name. The first look-up sorts the names.
    ///
    /// # Errors
    /// [`Error::NoTensor`], with similar tensor names.
    pub fn tensor(&self, name: &str) -> Result<Tensor<'_>, Error> {
        let found = self.locate(name).and_then(|place| self.tensor_at(place));
        found.ok_or_else(|| Error::NoTensor {
            path: self.path().to_owned(),
            name: name.to_owned(),
            nearest: nearest(name, self.tensors().map(|t| t.name())),
        })
    }

    /// The place of the first tensor with that name.
    pub fn locate(&self, name: &str) -> Option<TensorPlace> {
        let mut files = self.files.iter().enumerate();
        files.find_map(|(file, opened)| Some(TensorPlace { file, index: opened.index_of(name)? }))
    }

    /// The tensor at a place.
    pub fn tensor_at(&self, place: TensorPlace) -> Option<Tensor<'_>> {
        self.files.get(place.file)?.tensor_by_index(place.index)
    }

    /// The tensor at a place, as a value that keeps the model open: without a lifetime, for structs, threads and bindings to other
    /// languages.
    ///
    /// ```
    /// # fn main() -> Result<(), gguf_io::Error> {
    /// # let mut head = gguf_format::Head::default();
    /// # head.tensors = vec![gguf_format::TensorInfo::new("norm", [2], gguf_format::GgmlType::F32)];
    /// # let bytes = gguf_io::Writer::write(Vec::new(), &head, [[0u8; 8]]).unwrap();
    /// use std::sync::Arc;
    /// use gguf_io::Model;
    ///
    /// let model = Arc::new(Model::from_source(bytes, "model in memory")?);
    /// let norm = model.locate("norm").and_then(|place| model.handle(place)).unwrap();
    /// drop(model);
    /// let values = std::thread::spawn(move || norm.tensor().to_f32()).join().unwrap()?;
    /// assert_eq!(values, [0.0; 2]);
    /// # Ok(()) }
    /// ```
    pub fn handle(self: &Arc<Model>, place: TensorPlace) -> Option<TensorHandle> {
        self.tensor_at(place).is_some().then(|| TensorHandle { model: Arc::clone(self), place })
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

/// A model, or the path of one of its files: what the functions take that need a whole model.
///
/// ```
/// # fn main() -> Result<(), gguf_io::Error> {
/// # let bytes = gguf_io::Writer::write(Vec::new(), &gguf_format::Head::default(), [[0u8; 0]; 0]).unwrap();
/// use gguf_io::{IntoModel, Model};
///
/// fn n_tensors(model: impl IntoModel) -> Result<usize, gguf_io::Error> {
///     Ok(model.into_model()?.tensors().count())
/// }
///
/// let in_memory = Model::from_source(bytes, "model in memory")?;
/// assert_eq!(n_tensors(in_memory)?, 0);
/// assert!(n_tensors("missing.gguf").is_err());
/// # Ok(()) }
/// ```
pub trait IntoModel {
    /// The open model.
    ///
    /// # Errors
    /// A path is opened with [`Model::open`], which can fail; a model cannot.
    fn into_model(self) -> Result<Model, Error>;
}

impl IntoModel for Model {
    fn into_model(self) -> Result<Model, Error> {
        Ok(self)
    }
}

#[cfg(feature = "fs")]
impl<P: AsRef<Path>> IntoModel for P {
    fn into_model(self) -> Result<Model, Error> {
        Model::open(self)
    }
}

/// The place of a tensor in a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorPlace {
    /// Index of the file in [`Model::files`].
    pub file: usize,
    /// Index of the tensor in the head of the file.
    pub index: u64,
}

/// A tensor that keeps its model open; from [`Model::handle`].
#[derive(Debug, Clone)]
pub struct TensorHandle {
    model: Arc<Model>,
    place: TensorPlace,
}

impl TensorHandle {
    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The place of the tensor in the model.
    pub fn place(&self) -> TensorPlace {
        self.place
    }

    /// The tensor.
    #[allow(clippy::missing_panics_doc, reason = "the place was found in the model, which is immutable")]
    pub fn tensor(&self) -> Tensor<'_> {
        self.model.tensor_at(self.place).expect("a tensor of the model")
    }
}
