//! The plan: what will be written, decided before a single weight is read.
//!
//! A [`Draft`] can be edited: a conversion makes one from a checkpoint, [`Draft::copy_of`] makes one that copies a GGUF, and whoever
//! changes types, names, key-values or the split edits it. A [`Plan`] is a draft that has been laid out: every offset and
//! the length of every file are known, and nothing changes any more. It can be printed and compared, and making one costs
//! next to nothing. [`Plan::run`](crate::Plan::run) executes it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_format::shard::{SPLIT_COUNT, SPLIT_NO, SPLIT_TENSORS_COUNT, ShardName, ShardNumber};
use gguf_format::{ByteOrder, GgmlType, Head, Layout, Str, TensorInfo, n_elements};

use crate::error::Error;
use crate::importance::Importance;
use crate::moves::Move;
use crate::source::Source;

mod reason;

pub use gguf_model::arch::Map;
pub use reason::{Keep, Reason};

/// How the data of an output tensor comes about.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Op {
    /// The source's elements in their order.
    Copy(Input),
    /// Elements that change places, or values.
    Gather(Gather),
    /// The products of the elements of source tensors of plain types, all of the same length, in single precision.
    Product(Vec<Input>),
    /// The source's whole numbers of 64 bits, less their upper halves.
    Narrow(Input),
    /// Values that the plan computed itself.
    Computed(Vec<f32>),
}

/// Elements of source tensors, moved to their places in the output and mapped to other values.
#[derive(Debug, Clone, PartialEq)]
pub struct Gather {
    /// The source tensors, at least one, all of the same type: a plain one, or MXFP4, whose blocks are the elements that moves count.
    pub inputs: Vec<Input>,
    /// Which elements go where. Together they fill the output.
    pub moves: Vec<Move>,
    /// What is done to each value, in this order.
    pub maps: Vec<Map>,
}

/// How much of its sources can be restored from the output of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Inverse {
    /// Everything, to the bit: each element of the sources has a distinct place and its value.
    Exact,
    /// Everything, except for the rounding of computed values.
    Rounded,
    /// Not everything: some elements of the sources are left out.
    Lost,
}

impl Gather {
    /// How much of the sources [`Move::inverse`](crate::moves::Move::inverse) gives back. `n_elements` is the length of an input.
    pub fn inverse(&self, n_elements: impl Fn(&Input) -> u64) -> Inverse {
        let mut left: Vec<u64> = self.inputs.iter().map(n_elements).collect();
        for item in &self.moves {
            // No two moves take the same element, but where one repeats elements.
            if let Some(left) = left.get_mut(item.input) {
                *left = left.saturating_sub(item.n_elements());
            }
        }
        let repeats = self.moves.iter().flat_map(|item| &item.axes).any(|axis| axis.from == 0 && axis.count > 1);
        match (repeats || left.iter().any(|n| *n > 0), self.maps.is_empty()) {
            (true, _) => Inverse::Lost,
            (false, true) => Inverse::Exact,
            (false, false) => Inverse::Rounded,
        }
    }
}

impl Op {
    /// The source tensor whose elements are taken in their order, if that is the operation.
    pub fn copied(&self) -> Option<&Input> {
        match self {
            Op::Copy(input) => Some(input),
            Op::Gather(_) | Op::Product(_) | Op::Narrow(_) | Op::Computed(_) => None,
        }
    }

    /// The source tensors that are read.
    pub fn inputs(&self) -> &[Input] {
        match self {
            Op::Copy(input) | Op::Narrow(input) => std::slice::from_ref(input),
            Op::Gather(gather) => &gather.inputs,
            Op::Product(inputs) => inputs,
            Op::Computed(_) => &[],
        }
    }

    /// The type of the values before they are encoded.
    pub fn value_type(&self) -> GgmlType {
        match self {
            Op::Copy(input) => input.ty,
            Op::Gather(gather) => match gather.inputs.first().map_or(GgmlType::F32, |input| input.ty) {
                ty if gather.maps.is_empty() || ty == GgmlType::F16 => ty,
                _ => GgmlType::F32,
            },
            Op::Narrow(_) => GgmlType::I32,
            Op::Product(_) | Op::Computed(_) => GgmlType::F32,
        }
    }
}

/// A source tensor that an operation reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Its number in the [`Source`].
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Its type: the GGUF type with the same elements.
    pub ty: GgmlType,
}

/// Where a tensor lies in the files that are read, which orders the tensors when a split is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// Number of the file, from 0.
    pub file: usize,
    /// Where in the file its data starts, or its number in it.
    pub offset: u64,
}

/// An output tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorPlan {
    /// GGUF name.
    pub name: Vec<u8>,
    /// Dimensions in GGUF's order: the first is the contiguous one.
    pub shape: Vec<u64>,
    /// The type of the values before they are encoded. In a quantized conversion, the type that the tensor would have in a conversion
    /// without rounding.
    pub from: GgmlType,
    /// The type that is written.
    pub ty: GgmlType,
    /// Why it has that type.
    pub reason: Reason,
    /// The type that `reason` asks for, where the rows are not whole blocks of it.
    pub instead_of: Option<GgmlType>,
    /// Whether llama.cpp refuses to quantize the tensor to `ty` without an importance matrix.
    pub needs_importance: bool,
    /// The entry of the [`Importance`] that weights the errors of its columns; `None` to weight all of them alike.
    pub importance: Option<Vec<u8>>,
    /// How its data comes about.
    pub op: Op,
    /// Where the source keeps it.
    pub place: Place,
    /// Number of the output file, from 0; the tensors of one file follow each other.
    pub file: usize,
}

impl TensorPlan {
    /// A tensor of type `ty`, from data of that type, in the first file.
    pub fn new(name: impl Into<Vec<u8>>, shape: Vec<u64>, ty: GgmlType, reason: Reason, op: Op) -> TensorPlan {
        TensorPlan {
            name: name.into(),
            shape,
            from: ty,
            ty,
            reason,
            instead_of: None,
            needs_importance: false,
            importance: None,
            op,
            place: Place::default(),
            file: 0,
        }
    }

    /// The name, safe to print.
    pub fn shown(&self) -> String {
        gguf_format::check::shown(Str(&self.name))
    }

    /// Number of elements; 0 when it does not fit 63 bits, which no layout allows.
    pub fn n_elements(&self) -> u64 {
        n_elements(self.shape.iter().copied()).unwrap_or(0)
    }

    /// Bytes in the output; 0 when its size is not known, which no layout allows.
    pub fn n_bytes(&self) -> u64 {
        self.ty.tensor_bytes(self.shape.iter().copied()).unwrap_or(0)
    }

    /// Bytes of the values in the type that they are read in.
    pub fn from_bytes(&self) -> u64 {
        self.from.tensor_bytes(self.shape.iter().copied()).unwrap_or(0)
    }

    fn info(&self) -> TensorInfo {
        TensorInfo { name: self.name.clone(), shape: self.shape.clone(), ty: self.ty, offset: 0 }
    }
}

/// Whose rules hold where a value becomes one of another float type; they differ in what becomes of NaNs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// Those of llama.cpp's converter. Types that hold blocks follow ggml in any case.
    Converter,
    /// ggml's.
    Ggml,
}

/// The most bytes of padding in a file that has less content than padding. The alignment is a number in the metadata, and every
/// tensor is padded to a multiple of it: files in use have 32, up to a huge page of 2 MiB.
pub const MAX_PADDING: u64 = 256 << 20;

/// A plan that can still be edited. Its clones read the same source: drafts that begin as clones can be [run together](crate::run_all).
#[derive(Debug, Clone)]
pub struct Draft {
    /// The file or folder that is read, for messages.
    pub path: PathBuf,
    /// The output's key-values and dialect. Its tensors are made from `tensors`.
    pub head: Head,
    /// The output tensors in file order.
    pub tensors: Vec<TensorPlan>,
    /// Where the data comes from.
    pub source: Arc<dyn Source>,
    /// How floats are rounded.
    pub rounding: Rounding,
    /// The weights of columns that [`TensorPlan::importance`] names.
    pub importance: Option<Arc<dyn Importance>>,
    /// The real paths of the files that are read, which no output may replace.
    pub inputs: Vec<PathBuf>,
    /// Length of the files that are read; `None` where they are of another format, so that the output would rather be compared with
    /// what it was before the plan was edited.
    pub input_bytes: Option<u64>,
    /// Whether the output is split into the files that [`TensorPlan::file`] numbers.
    pub is_split: bool,
    /// Whether the output has no data section at all: it then ends with the head, without padding.
    pub is_vocab_only: bool,
}

impl Draft {
    /// Lays everything out.
    ///
    /// # Errors
    /// [`Error::Layout`] for what cannot be written, [`Error::TooManyShards`], and [`Error::Padding`] for a file that would be
    /// padding for the most part: of more than [`MAX_PADDING`] bytes, half at most.
    pub fn lay_out(mut self) -> Result<Plan, Error> {
        self.head.tensors = self.tensors.iter().map(TensorPlan::info).collect();
        Ok(Plan { files: self.files(&self.head)?, draft: self })
    }

    /// Lays the output out as one file with the offsets of `layout`, which may have gaps.
    ///
    /// # Errors
    /// [`Error::OtherLayout`] when the layout is not one of these tensors.
    pub fn lay_out_as(mut self, layout: Layout) -> Result<Plan, Error> {
        self.head.tensors = self.tensors.iter().map(TensorPlan::info).collect();
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
        let file = FilePlan { tensors: 0..self.tensors.len(), file_bytes: layout.file_bytes(), layout };
        Ok(Plan { files: vec![file], draft: Draft { is_split: false, is_vocab_only: false, ..self } })
    }

    /// Lays the output out as the shards that [`TensorPlan::file`] numbers, each with the keys of a split, in the order that
    /// `llama-gguf-split` gives them; a model in one file has them too.
    ///
    /// # Errors
    /// As [`lay_out`](Draft::lay_out).
    pub fn lay_out_as_shards(mut self) -> Result<Plan, Error> {
        self.head.tensors = self.tensors.iter().map(TensorPlan::info).collect();
        for key in SPLIT_KEYS {
            self.head.remove(key);
        }
        let files = self.split(&self.head, &[SPLIT_NO, SPLIT_TENSORS_COUNT, SPLIT_COUNT])?;
        Ok(Plan { files, draft: Draft { is_split: true, is_vocab_only: false, ..self } })
    }

    /// The length of all files together, were they laid out now.
    ///
    /// # Errors
    /// As [`lay_out`](Draft::lay_out).
    pub fn file_bytes(&self) -> Result<u64, Error> {
        let head = Head { tensors: self.tensors.iter().map(TensorPlan::info).collect(), ..self.head.clone() };
        Ok(self.files(&head)?.iter().map(|file| file.file_bytes).sum())
    }

    /// The files of the head that has all tensors.
    fn files(&self, head: &Head) -> Result<Vec<FilePlan>, Error> {
        if self.is_split {
            let is_single = self.tensors.last().is_none_or(|last| last.file == 0);
            return self.split(head, if is_single { &[] } else { &SPLIT_KEYS });
        }
        let mut file = self.file(head, 0..self.tensors.len())?;
        if self.is_vocab_only {
            file.file_bytes = file.layout.head_bytes();
        }
        Ok(vec![file])
    }

    /// As in `llama_model_quantize_impl` of llama.cpp, all keys are in the first file, and `keys`, those of the split, come last, with the
    /// types that they have there.
    fn split(&self, whole: &Head, keys: &[&str]) -> Result<Vec<FilePlan>, Error> {
        let n_files = self.tensors.last().map_or(1, |last| last.file.saturating_add(1));
        let count = u16::try_from(n_files).map_err(|_| Error::TooManyShards { n_shards: n_files })?;
        let n_tensors = i32::try_from(self.tensors.len()).unwrap_or(i32::MAX);
        let mut first = 0;
        let file = |no: u16| {
            let n = self.tensors.iter().skip(first).take_while(|t| t.file <= usize::from(no)).count();
            let tensors = first..first + n;
            first += n;
            let kvs = if no == 0 { whole.kvs.clone() } else { Vec::new() };
            let infos = whole.tensors.get(tensors.clone()).unwrap_or_default().to_vec();
            let mut head = Head { dialect: whole.dialect, kvs, tensors: infos };
            for &key in keys {
                match key {
                    SPLIT_NO => head.set(key, no),
                    SPLIT_COUNT => head.set(key, count),
                    _ => head.set(key, n_tensors),
                }
            }
            self.file(&head, tensors)
        };
        (0..count).map(file).collect()
    }

    /// The file that has a head with some of the tensors.
    fn file(&self, head: &Head, tensors: Range<usize>) -> Result<FilePlan, Error> {
        let layout = head.layout().map_err(|source| Error::Layout { path: self.path.clone(), source })?;
        let data = self.tensors.get(tensors.clone()).unwrap_or_default().iter().map(TensorPlan::n_bytes);
        let content = data.fold(layout.head_bytes(), u64::saturating_add);
        let padding = layout.file_bytes().saturating_sub(content);
        if !self.is_vocab_only && padding > MAX_PADDING && padding > content {
            let (path, alignment) = (self.path.clone(), layout.alignment());
            return Err(Error::Padding { path, alignment, padding, content });
        }
        Ok(FilePlan { file_bytes: layout.file_bytes(), layout, tensors })
    }
}

/// The keys of a split in the order in which llama.cpp's quantizer writes them.
const SPLIT_KEYS: [&str; 3] = [SPLIT_NO, SPLIT_COUNT, SPLIT_TENSORS_COUNT];

/// One file of a plan.
#[derive(Debug)]
pub struct FilePlan {
    layout: Layout,
    tensors: Range<usize>,
    file_bytes: u64,
}

impl FilePlan {
    /// The encoded head, without padding.
    pub fn head(&self) -> &[u8] {
        self.layout.head()
    }

    /// The plan's tensors that are in the file.
    pub fn tensors(&self) -> Range<usize> {
        self.tensors.clone()
    }

    /// Length of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Where the data of the plan's tensor `index` starts, from the start of the file.
    pub(crate) fn start_of(&self, index: usize) -> Option<u64> {
        self.layout.file_offset(index.checked_sub(self.tensors.start)?)
    }
}

/// Everything about a run but the data.
#[derive(Debug)]
pub struct Plan {
    pub(crate) draft: Draft,
    pub(crate) files: Vec<FilePlan>,
}

impl Plan {
    /// The file or folder that is read.
    pub fn path(&self) -> &Path {
        &self.draft.path
    }

    /// The head of the output, as if it were one file.
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

    /// Length of all files that are written.
    pub fn file_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.file_bytes).sum()
    }

    /// Length of what the output is compared with; see [`Draft::input_bytes`].
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

    /// The draft, to be edited and laid out again. The length of this output is what the next one is compared with, unless something
    /// else was before.
    pub fn into_draft(self) -> Draft {
        let input_bytes = Some(self.input_bytes());
        Draft { input_bytes, ..self.draft }
    }

    /// A copy of the draft, as from [`into_draft`](Plan::into_draft).
    pub fn to_draft(&self) -> Draft {
        Draft { input_bytes: Some(self.input_bytes()), ..self.draft.clone() }
    }

    /// The files that [`run`](Plan::run) writes when it is given `out`: `out` itself, or for a split model the shards whose names
    /// begin with it, less `.gguf` or the number of a shard at its end.
    pub fn output_paths(&self, out: impl AsRef<Path>) -> Vec<PathBuf> {
        let out = out.as_ref();
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
