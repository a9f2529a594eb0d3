//! Splits a model into shards, by number of tensors or by size.
//!
//! The shards are identical to those of `llama-gguf-split`, for every file that it reads and lays out correctly: the model's key-values in
//! the first shard, `split.no`, `split.tensors.count` and `split.count` at the end of each, tensors packed in order. Shards keep the byte
//! order of the model, and trailing dimensions of 1, which ggml drops when it reads a file; every shard has the alignment in its own
//! metadata, which is 32 for all except the first. A model without tensors is one shard.
//!
//! A file whose layout is not packed in version 3 (gaps, another order of the data, an older version, keys of a split) is recorded in a key
//! of the first shard, [`UNSPLIT_HEAD`], from which [`merge`](mod@crate::merge) restores exactly the same file.

use std::num::NonZeroU64;
use std::ops::Range;
use std::path::PathBuf;

use gguf_format::shard::{SPLIT_COUNT, SPLIT_NO, SPLIT_TENSORS_COUNT, ShardKeys};
use gguf_format::sort::CompactSort as _;
use gguf_format::{Dialect, Gguf, Head, Layout, TensorInfo, Value, Version, align_up};
use gguf_io::{IntoModel, Model, ModelFile};
use gguf_pipeline::plan::TensorPlan;
use gguf_pipeline::{Draft, GgufSource, Plan, UNSPLIT_HEAD, check_memory};

use crate::error::Error;

/// The keys of a split.
pub(crate) const SPLIT_KEYS: [&str; 4] = [SPLIT_NO, SPLIT_COUNT, SPLIT_TENSORS_COUNT, UNSPLIT_HEAD];

/// Unit in which `llama-gguf-split` counts tensor sizes, independent of the alignment.
const COUNTED_ALIGNMENT: u64 = 32;

/// The limit of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// Number of tensors.
    Tensors(NonZeroU64),
    /// Bytes of tensor data, as counted by `llama-gguf-split`: each tensor padded to 32 bytes, without metadata. A larger tensor gets a
    /// separate shard.
    DataBytes(NonZeroU64),
    /// Bytes of the whole file, never exceeded: if a tensor and its head do not fit, splitting fails with [`Error::ShardTooSmall`].
    FileBytes(NonZeroU64),
}

/// Options of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SplitOptions {
    /// The limit of a shard.
    pub limit: Limit,
    /// Whether the first shard has no tensors, so that metadata can be fetched and edited separately.
    pub no_tensor_first: bool,
}

impl SplitOptions {
    /// A split with that limit, with tensors in the first shard.
    pub fn new(limit: Limit) -> SplitOptions {
        SplitOptions { limit, no_tensor_first: false }
    }

    /// Sets whether the first shard has no tensors.
    pub fn no_tensor_first(mut self, yes: bool) -> SplitOptions {
        self.no_tensor_first = yes;
        self
    }
}

/// A planned split.
#[derive(Debug)]
#[non_exhaustive]
pub struct Split {
    /// The plan of the output.
    pub plan: Plan,
    /// The files of the model.
    pub inputs: Vec<PathBuf>,
    /// Whether the layout of the model is recorded in the first shard, so that merging restores the same file.
    pub notes_layout: bool,
    /// Non-zero ranges outside of all tensors, from the start of the file. They are omitted, and not restored by merging.
    pub lost: Vec<Range<u64>>,
    /// Tensors that exceed [`Limit::DataBytes`] on their own, safe to print; each is in a shard of its own.
    pub too_large: Vec<String>,
}

/// Plans the split of an open model, or of the one that a path belongs to. Existing shards are split again.
///
/// Nothing is written until the plan is run; `model.gguf` as its output stands for `model-00001-of-00003.gguf` and so on, see
/// [`Plan::output_paths`].
///
/// ```
/// use std::num::NonZeroU64;
/// use gguf_edit::{Limit, SplitOptions, split};
/// use gguf_pipeline::RunOptions;
/// # let model = "../ggufkit/examples/tiny.gguf";
/// # let dir = tempfile::tempdir().unwrap();
/// # let out = dir.path().join("tiny.gguf");
///
/// let limit = Limit::Tensors(NonZeroU64::new(8).unwrap());
/// let split = split(model, &SplitOptions::new(limit))?;
/// for (path, file) in split.plan.output_paths(&out).iter().zip(split.plan.files()) {
///     println!("{}: {} bytes", path.display(), file.file_bytes());
/// }
/// let written = split.plan.run(&out, &RunOptions::default(), &())?;
/// assert!(written.paths[0].ends_with("tiny-00001-of-00002.gguf"));
/// # Ok::<(), gguf_edit::Error>(())
/// ```
///
/// # Errors
/// If the model cannot be read or written, and [`Error::ShardTooSmall`].
pub fn split(model: impl IntoModel, options: &SplitOptions) -> Result<Split, Error> {
    let source = GgufSource::open(model)?;
    let order = source.model().gguf().dialect().order;
    check_memory(source.model().path(), source.model().files().iter().map(ModelFile::gguf))?;
    let noted = note(source.model());
    let inputs = source.model().files().iter().map(|file| file.path().to_owned()).collect();
    let lost = match source.model().files() {
        [file] => stray_bytes(file)?,
        _ => Vec::new(),
    };
    let mut draft = Draft::copy_of_source(source)?;
    draft.head.dialect = Dialect::new(Version::V3).with_order(order);
    for key in SPLIT_KEYS {
        draft.head.remove(key);
    }
    let notes_layout = noted.is_some();
    if let Some(noted) = noted {
        draft.head.set(UNSPLIT_HEAD, noted);
    }
    let too_large = number_files(&mut draft, options)?;
    Ok(Split { plan: draft.lay_out_as_shards()?, inputs, notes_layout, lost, too_large })
}

/// Splits the output of a plan: the shards are identical to those of [`split`] for the plan's output file. Also returns the tensors that
/// exceed the limit on their own, safe to print.
///
/// # Errors
/// If the shards cannot be written, and [`Error::ShardTooSmall`].
pub fn split_plan(plan: Plan, options: &SplitOptions) -> Result<(Plan, Vec<String>), Error> {
    let mut draft = plan.into_draft();
    for key in SPLIT_KEYS {
        draft.head.remove(key);
    }
    let too_large = number_files(&mut draft, options)?;
    Ok((draft.lay_out_as_shards()?, too_large))
}

/// Splits the output of a plan as llama.cpp's converter does: a shard ends before the tensor that would exceed one of the limits. Data is
/// counted without padding. An output that fits one file, or has no tensors, is not split. Also returns the tensors that exceed
/// `max_bytes` on their own, safe to print.
///
/// # Errors
/// If the shards cannot be written.
pub fn split_converted(
    plan: Plan,
    max_tensors: Option<NonZeroU64>,
    max_bytes: Option<NonZeroU64>,
) -> Result<(Plan, Vec<String>), Error> {
    let mut draft = plan.into_draft();
    let (mut file, mut n_held, mut held) = (0, 0u64, 0u64);
    let mut too_large = Vec::new();
    for tensor in &mut draft.tensors {
        let bytes = tensor.n_bytes();
        let is_full = max_tensors.is_some_and(|most| n_held >= most.get());
        let exceeds = |bytes: u64| max_bytes.is_some_and(|most| bytes > most.get());
        if n_held > 0 && (is_full || exceeds(held.saturating_add(bytes))) {
            file += 1;
            (n_held, held) = (0, 0);
        }
        if exceeds(bytes) {
            too_large.push(tensor.shown());
        }
        n_held += 1;
        held = held.saturating_add(bytes);
        tensor.file = file;
    }
    draft.is_split = file > 0;
    Ok((draft.lay_out()?, too_large))
}

/// Assigns each tensor to a shard. Returns the tensors that are larger than the limit.
fn number_files(draft: &mut Draft, options: &SplitOptions) -> Result<Vec<String>, Error> {
    let mut file = u32::from(options.no_tensor_first);
    let mut too_large = Vec::new();
    match options.limit {
        Limit::Tensors(most) => {
            for (i, tensor) in draft.tensors.iter_mut().enumerate() {
                tensor.file = file.saturating_add(u32::try_from(i as u64 / most).unwrap_or(u32::MAX));
            }
        }
        Limit::DataBytes(most) => {
            let mut held = 0u64;
            let mut is_empty = true;
            for tensor in &mut draft.tensors {
                let bytes = align_up(tensor.n_bytes(), COUNTED_ALIGNMENT).unwrap_or(u64::MAX);
                held = held.saturating_add(bytes);
                if held > most.get() {
                    held = bytes;
                    // A shard without tensors would be useless; llama-gguf-split fails here.
                    file += u32::from(!is_empty);
                }
                if bytes > most.get() {
                    too_large.push(tensor.shown());
                }
                is_empty = false;
                tensor.file = file;
            }
        }
        Limit::FileBytes(most) => fill_files(draft, most.get(), options.no_tensor_first)?,
    }
    Ok(too_large)
}

/// A shard under construction.
struct Shard {
    head_bytes: u64,
    data_bytes: u64,
    alignment: u64,
}

impl Shard {
    /// A shard with these key-values and no tensors.
    fn empty(draft: &Draft, head: &Head) -> Result<Shard, Error> {
        let layout = head.layout();
        let layout = layout.map_err(|source| gguf_pipeline::Error::Layout { path: draft.path.clone(), source })?;
        Ok(Shard { head_bytes: layout.head_bytes(), data_bytes: 0, alignment: layout.alignment() })
    }

    /// The shard with another tensor.
    fn with(&self, tensor: &TensorPlan) -> Shard {
        let info = 8 + tensor.name.len() as u64 + 4 + 8 * tensor.shape.len() as u64 + 4 + 8;
        let data = align_up(tensor.n_bytes(), self.alignment).unwrap_or(u64::MAX);
        Shard {
            head_bytes: self.head_bytes.saturating_add(info),
            data_bytes: self.data_bytes.saturating_add(data),
            alignment: self.alignment,
        }
    }

    fn file_bytes(&self) -> u64 {
        align_up(self.head_bytes, self.alignment).unwrap_or(u64::MAX).saturating_add(self.data_bytes)
    }
}

/// Fills files up to a size, in order.
fn fill_files(draft: &mut Draft, most: u64, no_tensor_first: bool) -> Result<(), Error> {
    let with_split = |head: &Head| {
        let mut head = Head { tensors: Vec::new(), ..head.clone() };
        head.set(SPLIT_NO, 0u16);
        head.set(SPLIT_COUNT, 0u16);
        head.set(SPLIT_TENSORS_COUNT, 0i32);
        head
    };
    let too_small = |draft: &Draft, tensor: Option<&TensorPlan>, needed| Error::ShardTooSmall {
        path: draft.path.clone(),
        tensor: tensor.map(TensorPlan::shown),
        needed,
        limit: most,
    };
    let first = Shard::empty(draft, &with_split(&draft.head))?;
    let other = || Shard::empty(draft, &with_split(&Head { dialect: draft.head.dialect, ..Head::default() }));
    if first.file_bytes() > most {
        return Err(too_small(draft, None, first.file_bytes()));
    }
    let mut shard = if no_tensor_first { other()? } else { first };
    let mut file = u32::from(no_tensor_first);
    let mut is_empty = true;
    let mut files = Vec::with_capacity(draft.tensors.len());
    for tensor in &draft.tensors {
        let mut next = shard.with(tensor);
        if next.file_bytes() > most && (file == 0 || !is_empty) {
            next = other()?.with(tensor);
            file += 1;
        }
        if next.file_bytes() > most {
            return Err(too_small(draft, Some(tensor), next.file_bytes()));
        }
        shard = next;
        is_empty = false;
        files.push(file);
    }
    for (tensor, file) in draft.tensors.iter_mut().zip(files) {
        tensor.file = file;
    }
    Ok(())
}

/// The value of [`UNSPLIT_HEAD`] for a model that merging would not restore otherwise, including models that already have one.
fn note(model: &Model) -> Option<Value> {
    let is_shard = ShardKeys::of(model.gguf()).count.is_some_and(|count| count > 0);
    let ([file], false) = (model.files(), is_shard) else {
        return noted(model).and_then(|_| model.gguf().get(UNSPLIT_HEAD)).map(|value| value.to_owned());
    };
    let gguf = file.gguf();
    let is_packed = packed(gguf).layout().is_ok_and(|layout| {
        let as_it_is = Layout::of_file(gguf, file.file_bytes());
        as_it_is.is_ok_and(|as_it_is| layout.head() == as_it_is.head() && layout.is_interchangeable_with(&as_it_is))
    });
    if is_packed {
        return None;
    }
    let head = gguf.bytes().get(..usize::try_from(gguf.head_bytes()).unwrap_or(usize::MAX)).unwrap_or_default();
    Some(Value::Array(file.file_bytes().to_le_bytes().iter().chain(head).copied().collect()))
}

/// The head of a merged copy of a model with this head.
pub(crate) fn packed(gguf: &Gguf<'_>) -> Head {
    let mut head = Head::from_gguf(gguf);
    head.dialect = Dialect::new(Version::V3).with_order(gguf.dialect().order);
    for key in SPLIT_KEYS {
        head.remove(key);
    }
    head
}

/// The original single file of a model, as recorded in its first shard.
#[derive(Debug)]
pub(crate) struct Noted {
    pub head: Gguf<'static>,
    pub file_bytes: u64,
}

/// The record in the first shard of a model about its original file; `None` if there is none, or it does not match these shards.
pub(crate) fn noted(model: &Model) -> Option<Noted> {
    let bytes = model.gguf().get(UNSPLIT_HEAD)?.as_array()?;
    if bytes.elem_type() != gguf_format::ValueType::U8 {
        return None;
    }
    let (file_bytes, head) = bytes.encoded_bytes().split_first_chunk::<8>()?;
    let head = Gguf::parse(head.to_vec()).ok()?;
    let without = |head: Head| Head { dialect: Dialect::default(), tensors: Vec::new(), ..head };
    let (was, is) = (packed(&head), packed(model.gguf()));
    // Compared in encoded form, because NaNs are not equal to themselves.
    let same_keys = was.dialect.order == is.dialect.order
        && without(was).encode_as_read().ok()? == without(is).encode_as_read().ok()?;
    let infos: Vec<TensorInfo> = model.tensors().map(|t| t.info().to_owned()).collect();
    let same = |(a, b): (TensorInfo, TensorInfo)| (a.name, a.shape, a.ty) == (b.name, b.shape, b.ty);
    let same_tensors =
        head.n_tensors() == infos.len() as u64 && head.tensors().map(|t| t.to_owned()).zip(infos).all(same);
    (same_keys && same_tensors).then(|| Noted { head, file_bytes: u64::from_le_bytes(*file_bytes) })
}

/// Ranges of a file outside of its head and tensors that are not zero.
pub(crate) fn stray_bytes(file: &ModelFile) -> Result<Vec<Range<u64>>, Error> {
    let mut taken = Vec::new();
    for tensor in file.tensors() {
        taken.push(tensor.byte_range()?);
    }
    taken.compact_sort_by_key(|range| (range.start, range.end));
    let mut strays = Vec::new();
    let mut end = file.gguf().head_bytes();
    let mut buffer = vec![0; 1 << 16];
    for range in taken.into_iter().chain(std::iter::once(file.file_bytes()..file.file_bytes())) {
        let (mut at, until) = (end, range.start);
        while at < until {
            let len = usize::try_from(until - at).unwrap_or(usize::MAX).min(buffer.len());
            let piece = buffer.get_mut(..len).unwrap_or_default();
            file.read_at(at, piece)?;
            if piece.iter().any(|&byte| byte != 0) {
                strays.push(end..until);
                break;
            }
            at += len as u64;
        }
        end = end.max(range.end);
    }
    if !strays.is_empty() {
        // An edit in place moves the data: what is outside of a tensor then is not what the head was read with.
        file.check_unchanged()?;
    }
    Ok(strays)
}
