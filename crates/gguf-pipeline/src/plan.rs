//! The plan: the complete description of the output, made before a single weight is read.
//!
//! A [`Draft`] can be edited: a conversion makes one from a checkpoint, [`Draft::copy_of`] makes one that copies a GGUF, and types, names,
//! key-values and the split can then be changed. A [`Plan`] is a draft that has been laid out: every offset and the length of every file
//! are known, and it is immutable. It can be printed and compared, and is cheap to make. [`Plan::run`](crate::Plan::run) executes it.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_format::shard::{SPLIT_COUNT, SPLIT_NO, SPLIT_TENSORS_COUNT, ShardName, ShardNumber};
use gguf_format::{ByteOrder, GgmlType, Gguf, Head, Kv, Layout, NewTensor, Places, Str, Value, n_elements};

use crate::error::Error;
use crate::importance::Importance;
use crate::source::Source;

mod reason;

pub use crate::limits::MAX_PADDING;
pub use crate::op::{
    BatchNorm, Elementwise, Gather, Input, InputName, Inverse, Invertible, LowRank, Narrow, Op, Product, Resize,
    Restored, RestoredPart, RoundToMean, Sum, Term,
};
pub use crate::shape::Shape;
pub use reason::{Keep, MixtureRow, Reason};

/// The place of a tensor in the input files, which orders the tensors if a split is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct SourcePlace {
    /// Index of the file.
    pub file: u32,
    /// Offset of the data in the file, or index of the tensor in it.
    pub offset: u64,
}

/// A tensor of a draft or plan: its [origin](TensorOrigin), to which it dereferences, and the type in the output.
///
/// ```
/// # let bytes = gguf_io::Writer::write(Vec::new(), &gguf_format::Head::default(), [[0u8; 0]; 0])?;
/// # let model = gguf_io::Model::from_source(bytes, "model in memory")?;
/// use gguf_format::GgmlType;
/// use gguf_pipeline::plan::{Op, Reason};
/// use gguf_pipeline::{Draft, TensorPlan};
///
/// let mut draft = Draft::copy_of(model)?;
/// let factors = Op::Computed(vec![1.0, 1.0, 8.0, 8.0]);
/// draft.tensors.push(TensorPlan::new("rope_freqs.weight", vec![4], GgmlType::F32, Reason::Float, factors));
/// let plan = draft.lay_out()?;
/// assert_eq!((plan.n_elements(), plan.tensors()[0].n_bytes()), (4, 16));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TensorPlan {
    // Shared by clones: the plans of several outputs usually differ in types only.
    origin: Arc<TensorOrigin>,
    /// The type in the output.
    pub ty: GgmlType,
    /// The reason for the type.
    pub reason: Reason,
    /// Whether llama.cpp refuses to quantize the tensor to `ty` without an importance matrix.
    pub needs_importance: bool,
    /// The entry of the [`Importance`] that weights the errors of its columns; `None` for equal weights.
    pub importance: Option<Box<Entry>>,
    /// Index of the output file; the tensors of one file are consecutive.
    pub file: u32,
}

/// The name of an entry of an [`Importance`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry(pub Box<[u8]>);

/// What is known about an output tensor before its type is chosen.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq)]
pub struct TensorOrigin {
    /// GGUF name.
    pub name: Box<[u8]>,
    /// Dimensions.
    pub shape: Shape,
    /// The type of the values before they are encoded. In a quantized conversion, the type of the tensor in an unquantized conversion.
    pub from: GgmlType,
    /// The origin of the data.
    pub op: Op,
    /// The place in the source.
    pub place: SourcePlace,
}

impl Deref for TensorPlan {
    type Target = TensorOrigin;

    fn deref(&self) -> &TensorOrigin {
        &self.origin
    }
}

impl TensorPlan {
    /// A tensor of type `ty`, in the first file.
    pub fn new(name: impl Into<Vec<u8>>, shape: impl Into<Shape>, ty: GgmlType, reason: Reason, op: Op) -> TensorPlan {
        let (name, shape, from) = (name.into().into_boxed_slice(), shape.into(), op.value_type());
        TensorPlan {
            origin: Arc::new(TensorOrigin { name, shape, from, op, place: SourcePlace::default() }),
            ty,
            reason,
            needs_importance: false,
            importance: None,
            file: 0,
        }
    }

    /// The tensor with another place in the source.
    pub fn at(mut self, place: SourcePlace) -> TensorPlan {
        self.origin_mut().place = place;
        self
    }

    /// The origin, to change it. Clones of this tensor keep theirs.
    pub fn origin_mut(&mut self) -> &mut TensorOrigin {
        Arc::make_mut(&mut self.origin)
    }

    /// Whether both tensors have the same values: the same origin, regardless of the place.
    pub(crate) fn has_values_of(&self, other: &TensorPlan) -> bool {
        Arc::ptr_eq(&self.origin, &other.origin)
            || self.shape.without_ones() == other.shape.without_ones() && self.op == other.op
    }

    /// The name of the entry with the importance of its columns.
    pub fn entry(&self) -> Option<&[u8]> {
        self.importance.as_ref().map(|entry| &*entry.0)
    }

    /// The name, safe to print.
    pub fn shown(&self) -> String {
        gguf_format::check::shown(Str(&self.name))
    }

    /// Number of elements; 0 if it does not fit in 63 bits, which no layout allows.
    pub fn n_elements(&self) -> u64 {
        n_elements(self.shape.iter().copied()).unwrap_or(0)
    }

    /// Bytes in the output; 0 if the size is unknown, which no layout allows.
    pub fn n_bytes(&self) -> u64 {
        self.ty.tensor_bytes(self.shape.iter().copied()).unwrap_or(0)
    }

    /// Bytes of the values in the source type.
    pub fn from_bytes(&self) -> u64 {
        self.from.tensor_bytes(self.shape.iter().copied()).unwrap_or(0)
    }

    fn as_new(&self) -> NewTensor<'_> {
        NewTensor { name: &self.name, shape: &self.shape, ty: self.ty }
    }
}

/// The rules for conversions between float types, which differ in the treatment of NaNs.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// The rules of llama.cpp's converter. Block types always follow ggml.
    Converter,
    /// The rules of ggml.
    Ggml,
}

/// An editable plan. Clones share the source: drafts that start as clones can be [run together](crate::run_all).
///
/// ```
/// # let mut head = gguf_format::Head::default();
/// # let names = ["token_embd.weight", "output.weight"];
/// # head.tensors = names.map(|name| gguf_format::TensorInfo::new(name, [4], gguf_format::GgmlType::F32)).to_vec();
/// # let bytes = gguf_io::Writer::write(Vec::new(), &head, [[0u8; 16]; 2])?;
/// # let model = gguf_io::Model::from_source(bytes, "model in memory")?;
/// use gguf_format::GgmlType;
/// use gguf_pipeline::Draft;
///
/// let mut draft = Draft::copy_of(model)?;
/// draft.tensors.retain(|tensor| *tensor.name != *b"output.weight");
/// for tensor in &mut draft.tensors {
///     tensor.ty = GgmlType::F16;
/// }
/// let plan = draft.lay_out()?;
/// assert_eq!(plan.tensors().len(), 1);
/// assert_eq!(plan.tensors()[0].n_bytes(), 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Draft {
    /// The source file or directory, for messages.
    pub path: PathBuf,
    /// The output's key-values and dialect. It has no tensors: those of the output are `tensors`.
    pub head: Head,
    /// The output tensors in file order.
    pub tensors: Vec<TensorPlan>,
    /// The source of the data.
    pub source: Arc<dyn Source>,
    /// The rounding of floats.
    pub rounding: Rounding,
    /// The weights of columns, with the entries in [`TensorPlan::importance`].
    pub importance: Option<Arc<dyn Importance>>,
    /// The real paths of the input files, which no output may replace.
    pub inputs: Vec<PathBuf>,
    /// Size of the input files; `None` if they have another format, so that comparisons use the size of the output before the plan was
    /// edited.
    pub input_bytes: Option<u64>,
    /// Whether the output is split into the files in [`TensorPlan::file`].
    pub is_split: bool,
    /// Whether the output has no data section: it then ends with the head, without padding.
    pub is_vocab_only: bool,
}

impl Draft {
    /// Lays out the output.
    ///
    /// # Errors
    /// [`Error::Layout`] for a head or tensors that cannot be written, [`Error::TooManyShards`], and [`Error::Padding`] for a file with
    /// more padding than content and more than [`MAX_PADDING`] bytes of it.
    pub fn lay_out(self) -> Result<Plan, Error> {
        Ok(Plan { files: self.files()?, draft: self })
    }

    /// Lays the output out as one file with the offsets of `layout`, which may have gaps.
    ///
    /// # Errors
    /// [`Error::OtherLayout`] if the layout is not one of these tensors.
    pub fn lay_out_as(self, layout: Layout) -> Result<Plan, Error> {
        let sizes = self.tensors.iter().map(TensorPlan::n_bytes);
        let is_whole = |(i, bytes)| {
            let range = layout.tensor_range(i);
            range.is_some_and(|r| {
                r.end - r.start == bytes && r.start >= layout.head_bytes() && r.end <= layout.file_bytes()
            })
        };
        if layout.offsets().len() != self.tensors.len() || !sizes.enumerate().all(is_whole) {
            return Err(Error::OtherLayout { path: self.path });
        }
        let (file_bytes, tensors) = (layout.file_bytes(), 0..self.tensors.len());
        let (head, places) = layout.into_parts();
        let file = FilePlan { name: None, shard: Shard::WHOLE, given: Some(head), places, tensors, file_bytes };
        Ok(Plan { files: vec![file], draft: Draft { is_split: false, is_vocab_only: false, ..self } })
    }

    /// Lays the output out as files of another format than GGUF, in one folder: each is a head and the next tensors, one behind the other.
    /// [`Plan::run`] then takes the path of the folder.
    ///
    /// # Errors
    /// [`Error::OtherLayout`] if the files do not have all tensors, or are too large.
    pub fn lay_out_as_files(self, files: Vec<OtherFile>) -> Result<Plan, Error> {
        let (mut first, mut plans) = (0usize, Vec::with_capacity(files.len()));
        let wrong = |path: &Path| Error::OtherLayout { path: path.to_owned() };
        for OtherFile { name, head, n_tensors } in files {
            let tensors = first..first.saturating_add(n_tensors);
            let own = self.tensors.get(tensors.clone()).ok_or_else(|| wrong(&self.path))?;
            let places = Places::packed(head.len() as u64, own.iter().map(TensorPlan::n_bytes));
            let places = places.ok_or_else(|| wrong(&self.path))?;
            first = tensors.end;
            let (shard, given, file_bytes) = (Shard::WHOLE, Some(head), places.file_bytes);
            plans.push(FilePlan { name: Some(name), shard, given, places, tensors, file_bytes });
        }
        match first == self.tensors.len() {
            true => Ok(Plan { files: plans, draft: Draft { is_split: false, is_vocab_only: false, ..self } }),
            false => Err(wrong(&self.path)),
        }
    }

    /// Lays out the output as the shards in [`TensorPlan::file`], each with the keys of a split, in the order of `llama-gguf-split`; a
    /// single file has the keys too.
    ///
    /// # Errors
    /// As [`lay_out`](Draft::lay_out).
    pub fn lay_out_as_shards(mut self) -> Result<Plan, Error> {
        for key in SPLIT_KEYS {
            self.head.remove(key);
        }
        let files = self.split(&[SPLIT_NO, SPLIT_TENSORS_COUNT, SPLIT_COUNT])?;
        Ok(Plan { files, draft: Draft { is_split: true, is_vocab_only: false, ..self } })
    }

    /// The total size of all files in the current layout.
    ///
    /// # Errors
    /// As [`lay_out`](Draft::lay_out).
    pub fn file_bytes(&self) -> Result<u64, Error> {
        Ok(self.files()?.iter().map(|file| file.file_bytes).fold(0, u64::saturating_add))
    }

    fn files(&self) -> Result<Vec<FilePlan>, Error> {
        if self.is_split {
            let is_single = self.tensors.last().is_none_or(|last| last.file == 0);
            return self.split(if is_single { &[] } else { &SPLIT_KEYS });
        }
        let mut file = self.file(0..self.tensors.len(), Shard::WHOLE)?;
        if self.is_vocab_only {
            file.file_bytes = file.places.head_bytes;
        }
        Ok(vec![file])
    }

    /// The shards, each with the keys `keys` of a split.
    fn split(&self, keys: &'static [&'static str]) -> Result<Vec<FilePlan>, Error> {
        let n_files = self.tensors.last().map_or(1, |last| (last.file as usize).saturating_add(1));
        let count = u16::try_from(n_files).map_err(|_| Error::TooManyShards { n_shards: n_files })?;
        let mut first = 0;
        let file = |no: u16| {
            let n = self.tensors.iter().skip(first).take_while(|t| t.file <= u32::from(no)).count();
            let tensors = first..first + n;
            first += n;
            self.file(tensors, Shard { no, count, keys })
        };
        (0..count).map(file).collect()
    }

    /// The file with some of the tensors.
    fn file(&self, tensors: Range<usize>, shard: Shard) -> Result<FilePlan, Error> {
        let own = self.tensors.get(tensors.clone()).unwrap_or_default();
        let (head, more) = self.head_with(shard);
        let places = head.places_of(&more, own.iter().map(TensorPlan::as_new));
        let places = places.map_err(|source| Error::Layout { path: self.path.clone(), source })?;
        let content = own.iter().map(TensorPlan::n_bytes).fold(places.head_bytes, u64::saturating_add);
        let padding = places.file_bytes.saturating_sub(content);
        if !self.is_vocab_only && padding > MAX_PADDING && padding > content {
            let (path, alignment) = (self.path.clone(), places.alignment);
            return Err(Error::Padding { path, alignment, padding, content });
        }
        Ok(FilePlan { name: None, shard, given: None, file_bytes: places.file_bytes, places, tensors })
    }

    /// The key-values of a file, and more after them: as in `llama_model_quantize_impl` of llama.cpp, all keys are in the first file, and
    /// those of the split come last, with llama.cpp's types.
    fn head_with(&self, Shard { no, count, keys }: Shard) -> (Cow<'_, Head>, Vec<Kv>) {
        let value = |key: &str| match key {
            SPLIT_NO => Value::from(no),
            SPLIT_COUNT => Value::from(count),
            _ => Value::from(i32::try_from(self.tensors.len()).unwrap_or(i32::MAX)),
        };
        let more = keys.iter().map(|key| Kv { key: key.as_bytes().to_owned(), value: value(key) }).collect();
        match no {
            // A model in one shard may have such keys, which keep their places.
            0 if keys.iter().any(|key| self.head.get(key).is_some()) => {
                let mut head = self.head.clone();
                keys.iter().for_each(|key| head.set(key, value(key)));
                (Cow::Owned(head), Vec::new())
            }
            0 => (Cow::Borrowed(&self.head), more),
            _ => (Cow::Owned(Head { dialect: self.head.dialect, ..Head::default() }), more),
        }
    }

    /// The encoded head of a file, without padding. Plans do not store it: it may be as large as the rest of them, and be needed only once.
    pub(crate) fn head_of<'a>(&self, file: &'a FilePlan) -> Result<Cow<'a, [u8]>, Error> {
        if let Some(head) = &file.given {
            return Ok(Cow::Borrowed(head));
        }
        let own = self.tensors.get(file.tensors()).unwrap_or_default().iter().map(TensorPlan::as_new);
        let (head, more) = self.head_with(file.shard);
        let head = head.encode_with(&more, own, &file.places);
        head.map(Cow::Owned).map_err(|source| Error::Layout { path: self.path.clone(), source })
    }
}

/// The keys of a split in the order of llama.cpp's quantizer.
const SPLIT_KEYS: [&str; 3] = [SPLIT_NO, SPLIT_COUNT, SPLIT_TENSORS_COUNT];

/// The place of a file among those of a plan.
#[derive(Debug, Clone, Copy)]
struct Shard {
    no: u16,
    count: u16,
    /// The keys of a split that it has, in their order.
    keys: &'static [&'static str],
}

impl Shard {
    /// A single file.
    const WHOLE: Shard = Shard { no: 0, count: 1, keys: &[] };
}

/// A file of another format than GGUF; see [`Draft::lay_out_as_files`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherFile {
    /// The name in the folder.
    pub name: String,
    /// The bytes before the tensors; the whole file if it has none.
    pub head: Vec<u8>,
    /// The number of tensors, which follow those of the files before.
    pub n_tensors: usize,
}

/// One file of a plan.
pub struct FilePlan {
    /// The name in the folder of the output, if the output is a folder.
    name: Option<String>,
    shard: Shard,
    /// The encoded head, if it is not that of the draft.
    given: Option<Vec<u8>>,
    places: Places,
    tensors: Range<usize>,
    file_bytes: u64,
}

impl fmt::Debug for FilePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("FilePlan");
        shown.field("shard", &self.shard).field("tensors", &self.tensors).field("file_bytes", &self.file_bytes);
        shown.finish_non_exhaustive()
    }
}

impl FilePlan {
    /// A file with tensors at given places, whose head is elsewhere.
    pub(crate) fn placed(tensors: Range<usize>, places: Places) -> FilePlan {
        let (given, file_bytes) = (Some(Vec::new()), places.file_bytes);
        FilePlan { name: None, shard: Shard::WHOLE, given, file_bytes, places, tensors }
    }

    /// The name in the folder of the output, if the output is a folder.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Length of the head, without padding.
    pub fn head_bytes(&self) -> u64 {
        self.places.head_bytes
    }

    /// The indexes of the file's tensors in the plan.
    pub fn tensors(&self) -> Range<usize> {
        self.tensors.clone()
    }

    /// Length of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The offset of the data of the plan's tensor `index`, from the start of the file.
    pub fn start_of(&self, index: usize) -> Option<u64> {
        self.places.file_offset(index.checked_sub(self.tensors.start)?)
    }
}

/// A complete description of a run, except for the data.
///
/// ```
/// # let mut head = gguf_format::Head::default();
/// # head.tensors.push(gguf_format::TensorInfo::new("output.weight", [4], gguf_format::GgmlType::F32));
/// # let bytes = gguf_io::Writer::write(Vec::new(), &head, [[0u8; 16]])?;
/// # let model = gguf_io::Model::from_source(bytes, "model in memory")?;
/// use gguf_pipeline::{Draft, MemorySink, RunOptions};
///
/// let plan = Draft::copy_of(model)?.lay_out()?;
/// for tensor in plan.tensors() {
///     println!("{} {:?} {} -> {}: {}", tensor.shown(), tensor.shape, tensor.from, tensor.ty, tensor.reason);
/// }
/// let mut sink = MemorySink::new();
/// plan.run_to(&mut sink, &RunOptions::default(), &())?;
/// assert_eq!(sink.into_outputs()[0].len() as u64, plan.file_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Plan {
    pub(crate) draft: Draft,
    pub(crate) files: Vec<FilePlan>,
}

impl Plan {
    /// The source file or directory.
    pub fn path(&self) -> &Path {
        &self.draft.path
    }

    /// The key-values and the dialect of the output, as a single file. It has no tensors: they are [`tensors`](Plan::tensors).
    pub fn head(&self) -> &Head {
        &self.draft.head
    }

    /// The output tensors in order.
    pub fn tensors(&self) -> &[TensorPlan] {
        &self.draft.tensors
    }

    /// The files to write.
    pub fn files(&self) -> &[FilePlan] {
        &self.files
    }

    /// The heads of the files, encoded and parsed, to [check](fn@gguf_model::check::model) them. Those that exceed the limits of the parser
    /// are omitted.
    ///
    /// # Errors
    /// [`Error::Layout`].
    pub fn heads(&self) -> Result<Vec<Gguf<'static>>, Error> {
        let heads = self.files.iter().map(|file| Ok(self.draft.head_of(file)?.into_owned()));
        heads.filter_map(|head| head.map(|head| Gguf::parse(head).ok()).transpose()).collect()
    }

    /// Total size of the output files.
    pub fn file_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.file_bytes).fold(0, u64::saturating_add)
    }

    /// The size for comparisons with the output; see [`Draft::input_bytes`].
    pub fn input_bytes(&self) -> u64 {
        self.draft.input_bytes.unwrap_or(self.file_bytes())
    }

    /// Number of elements of all tensors.
    pub fn n_elements(&self) -> u64 {
        self.tensors().iter().map(TensorPlan::n_elements).fold(0, u64::saturating_add)
    }

    /// Byte order of the output.
    pub fn order(&self) -> ByteOrder {
        self.draft.head.dialect.order
    }

    /// The draft that is laid out.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    /// The draft, to be edited and laid out again. Comparisons of the next output use the size of this one, unless another size is set.
    pub fn into_draft(self) -> Draft {
        let input_bytes = Some(self.input_bytes());
        Draft { input_bytes, ..self.draft }
    }

    /// A copy of the draft, as from [`into_draft`](Plan::into_draft).
    pub fn to_draft(&self) -> Draft {
        Draft { input_bytes: Some(self.input_bytes()), ..self.draft.clone() }
    }

    /// The files that [`run`](Plan::run) writes for `out`: those in the folder `out` if the plan is one of
    /// [files of another format](Draft::lay_out_as_files), otherwise `out` itself, or for a split model the shards, whose names begin with `out`
    /// without `.gguf` or the number of a shard at its end.
    pub fn output_paths(&self, out: impl AsRef<Path>) -> Vec<PathBuf> {
        let out = out.as_ref();
        let in_folder: Vec<PathBuf> =
            self.files.iter().filter_map(|file| Some(out.join(file.name.as_ref()?))).collect();
        if !in_folder.is_empty() {
            return in_folder;
        }
        if !self.draft.is_split {
            return vec![out.to_owned()];
        }
        let prefix = match out.to_str().and_then(ShardName::parse) {
            Some(name) => PathBuf::from(name.prefix),
            None if out.extension().is_some_and(|extension| extension == "gguf") => out.with_extension(""),
            None => out.to_owned(),
        };
        let count = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        let path = |number: ShardNumber| {
            let mut path = prefix.clone().into_os_string();
            path.push(format!("-{number}.gguf"));
            PathBuf::from(path)
        };
        (1..=count).filter_map(|no| ShardNumber::new(no, count)).map(path).collect()
    }
}
