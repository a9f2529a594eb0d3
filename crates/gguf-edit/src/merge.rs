//! Merges the shards of a model into one file, which is verified before any shard is removed.

use std::fs;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};

use gguf_format::shard::ShardKeys;
use gguf_format::sort::CompactSort as _;
use gguf_format::{Dialect, Head, Layout, Version};
use gguf_io::{IntoModel, Model};
use gguf_pipeline::{Draft, GgufSource, Plan, Progress, Source, check_memory};

use crate::equal::first_differences;
use crate::error::Error;
use crate::split::{SPLIT_KEYS, noted, packed, stray_bytes};

/// A planned merge.
#[derive(Debug)]
#[non_exhaustive]
pub struct Merge {
    /// The plan of the output.
    pub plan: Plan,
    /// The shards.
    pub shards: Vec<PathBuf>,
    /// Whether the file has the layout recorded in the first shard.
    pub restores_layout: bool,
    /// Non-zero ranges of shards outside of all tensors. They are omitted.
    pub lost: Vec<(PathBuf, Range<u64>)>,
    /// Keys of shards other than the first, besides those of the split, safe to print. They are omitted.
    pub lost_keys: Vec<(PathBuf, String)>,
}

/// Plans the merge of an open model, or of the one that a path belongs to, which can be that of any shard.
///
/// The output has the byte order of the first shard. For a model from [`split`](crate::split()), it is identical to the original file.
///
/// ```
/// # use std::num::NonZero;
/// # use gguf_edit::{Limit, SplitOptions, split};
/// # use gguf_format::{GgmlType, Head, TensorInfo};
/// # let folder = tempfile::tempdir()?;
/// # let mut head = Head::default();
/// # head.tensors = ["a", "b", "c"].map(|name| TensorInfo::new(name, [8], GgmlType::F32)).to_vec();
/// # let original = gguf_io::Writer::write(Vec::new(), &head, [[0u8; 32]; 3])?;
/// # let model = gguf_io::Model::from_source(original.clone(), "model in memory")?;
/// # let options = SplitOptions::new(Limit::Tensors(NonZero::new(2).expect("not zero")));
/// # let split = split(model, &options)?.plan;
/// # split.run(folder.path().join("model.gguf"), &Default::default(), &())?;
/// let merge = gguf_edit::merge(folder.path().join("model-00001-of-00002.gguf"))?;
/// assert_eq!(merge.shards.len(), 2);
/// let out = folder.path().join("merged.gguf");
/// merge.plan.run(&out, &Default::default(), &())?;
/// # assert_eq!(std::fs::read(out)?, original);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If a shard is missing or cannot be read, [`Error::NotSplit`], or if the output cannot be written.
pub fn merge(model: impl IntoModel) -> Result<Merge, Error> {
    let source = GgufSource::open(model)?;
    let (model, path) = (source.model(), source.model().path());
    if model.files().len() == 1 && ShardKeys::of(model.gguf()).count != Some(1) {
        return Err(Error::NotSplit { path: path.to_owned() });
    }
    check_memory(path, model.files().iter().map(gguf_io::ModelFile::gguf))?;
    let shards: Vec<PathBuf> = model.files().iter().map(|file| file.path().to_owned()).collect();
    let order = model.gguf().dialect().order;
    let noted = noted(model).and_then(|noted| {
        let layout = Layout::of_file(&noted.head, noted.file_bytes).ok()?;
        Some((Head::from_gguf(&noted.head), layout))
    });
    let layout = match noted {
        Some((head, layout)) if is_sound(&layout, &source)? => Some((head, layout)),
        _ => None,
    };
    let (mut lost, mut lost_keys) = (Vec::new(), Vec::new());
    for (i, file) in source.model().files().iter().enumerate() {
        lost.extend(stray_bytes(file)?.into_iter().map(|range| (file.path().to_owned(), range)));
        let others = file.gguf().kvs().filter(|kv| i > 0 && SPLIT_KEYS.iter().all(|key| kv.key != **key));
        lost_keys.extend(others.map(|kv| (file.path().to_owned(), gguf_format::check::shown(kv.key))));
    }
    let mut draft = Draft::copy_of_source(source)?;
    draft.head.dialect = Dialect::new(Version::V3).with_order(order);
    for key in SPLIT_KEYS {
        draft.head.remove(key);
    }
    let restores_layout = layout.is_some();
    let plan = match layout {
        Some((head, layout)) => {
            draft.head = head;
            draft.lay_out_as(layout)?
        }
        None => draft.lay_out()?,
    };
    Ok(Merge { plan, shards, restores_layout, lost, lost_keys })
}

/// Whether no tensors overlap, except those with the same place and the same data.
fn is_sound(layout: &Layout, source: &GgufSource) -> Result<bool, Error> {
    let range = |i| Some((layout.tensor_range(i)?, i));
    let mut ranges: Vec<_> = (0..layout.offsets().len()).filter_map(range).collect();
    ranges.retain(|(range, _)| !range.is_empty());
    ranges.compact_sort_by_key(|(range, i)| (range.start, *i));
    let mut shared = Vec::new();
    for pair in ranges.windows(2) {
        let [(a, i), (b, j)] = pair else { continue };
        let ty = |i: usize| source.tensor(i).map(|t| t.ty());
        match a.end <= b.start {
            true => {}
            false if a == b && ty(*i) == ty(*j) => shared.push((*i, *j)),
            false => return Ok(false),
        }
    }
    if shared.is_empty() {
        return Ok(true);
    }
    let found = first_differences([source, source], &shared, None, &())?;
    Ok(found.iter().all(Option::is_none))
}

/// Checks that paths, of which the first is that of the model, all belong to its files.
///
/// # Errors
/// [`Error::Foreign`].
pub fn belong_together(model: &Model, paths: &[PathBuf]) -> Result<(), Error> {
    let [first, others @ ..] = paths else { return Ok(()) };
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let files: Vec<PathBuf> = model.files().iter().map(|file| real(file.path())).collect();
    match others.iter().find(|path| !files.contains(&real(path))) {
        Some(path) => Err(Error::Foreign { path: path.clone(), model: first.clone() }),
        None => Ok(()),
    }
}

/// Compares two models: key-values, except those of a split, and tensors in order, to the byte. Byte orders may differ.
///
/// # Errors
/// [`Error::NotVerified`], with the difference in `copy`; also if a file cannot be read.
pub fn verify(
    original: impl IntoModel,
    copy: impl IntoModel,
    threads: Option<NonZeroUsize>,
    progress: &dyn Progress,
) -> Result<(), Error> {
    let (a, b) = (GgufSource::open(original)?, GgufSource::open(copy)?);
    let wrong = |what: String| Error::NotVerified { path: b.model().path().to_owned(), what };
    let keys = |source: &GgufSource| {
        let head = packed(source.model().gguf());
        Head { dialect: Dialect::default(), tensors: Vec::new(), ..head }.encode_as_read().ok()
    };
    if keys(&a) != keys(&b) {
        return Err(wrong("the metadata".to_owned()));
    }
    if a.n_tensors() != b.n_tensors() {
        return Err(wrong(format!("it has {} tensors, not {}", b.n_tensors(), a.n_tensors())));
    }
    let shown = gguf_format::check::shown;
    for (x, y) in a.tensors().zip(b.tensors()) {
        if (x.name(), x.ty()) != (y.name(), y.ty()) || !x.shape().eq(y.shape()) {
            return Err(wrong(format!("the tensor {}", shown(y.name()))));
        }
    }
    let pairs: Vec<(usize, usize)> = (0..a.n_tensors()).map(|i| (i, i)).collect();
    let found = first_differences([&a, &b], &pairs, threads, progress)?;
    a.check_unchanged()?;
    b.check_unchanged()?;
    match found.iter().zip(b.tensors()).find_map(|(at, tensor)| Some(((*at)?, tensor))) {
        None => Ok(()),
        Some((at, tensor)) => Err(wrong(format!("byte {at} of the tensor {}", shown(tensor.name())))),
    }
}

/// Removes files.
///
/// # Errors
/// [`Error::Remove`]; the files after it are kept.
pub fn remove(paths: &[PathBuf]) -> Result<(), Error> {
    for path in paths {
        fs::remove_file(path).map_err(|source| Error::Remove { path: path.clone(), source })?;
    }
    Ok(())
}
