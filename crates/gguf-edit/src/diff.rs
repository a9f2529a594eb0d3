//! The differences between two models: key-values, tensors, and errors of the data.
//!
//! Models are compared by content, not layout: shards, the order of keys and tensors, versions and byte orders are ignored. Tensors of
//! different types are compared as numbers, with the same figures as in the report of a quantization.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use gguf_format::sort::CompactSort as _;
use gguf_format::{GgmlType, Gguf, Str, TensorInfoRef, ValueRef};
use gguf_io::IntoModel;
use gguf_pipeline::report::{TensorError, compare_rows};
use gguf_pipeline::{Event, GgufSource, Progress, Source, workers};
use gguf_quants::codec::codec;

use crate::equal::first_differences;
use crate::error::Error;
use crate::split::SPLIT_KEYS;

/// Approximate number of bytes of rows to compare at a time, on each side.
const CHUNK: u64 = 512 << 10;

/// Options of a comparison.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct DiffOptions {
    /// Compares only metadata, names, shapes and types, without reading data.
    pub no_data: bool,
    /// Number of threads; `None` for the parallelism of the machine.
    pub threads: Option<NonZeroUsize>,
}

impl DiffOptions {
    /// Sets whether data is skipped.
    pub fn no_data(mut self, yes: bool) -> DiffOptions {
        self.no_data = yes;
        self
    }

    /// Sets the number of threads; `None` for the parallelism of the machine.
    pub fn threads(mut self, threads: Option<NonZeroUsize>) -> DiffOptions {
        self.threads = threads;
        self
    }
}

/// The differences between two models, `a` and `b`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Diff {
    /// Different key-values: those of `a` in order, then those that only `b` has.
    pub keys: Vec<KeyDiff>,
    /// Number of equal key-values.
    pub n_same_keys: usize,
    /// All tensors, including equal ones ([`TensorDiff::is_same`]): those of `a` in order, then those that only `b` has.
    pub tensors: Vec<TensorDiff>,
    models: [GgufSource; 2],
}

/// A key whose values differ, or that only one model has. [`Diff::values`] returns its name and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyDiff {
    /// Its index in the head of the first model.
    pub a: Option<u64>,
    /// Its index in the head of the second model.
    pub b: Option<u64>,
}

/// A tensor of either model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TensorDiff {
    /// The index among the tensors of the first model.
    pub a: Option<usize>,
    /// The index among the tensors of the second model.
    pub b: Option<usize>,
    /// The result of the data comparison.
    pub data: DataDiff,
    /// The offset of the first different byte in the data of tensors of equal types.
    pub first_different: Option<u64>,
    /// Whether both models have it, with the same shape and type.
    is_alike: bool,
}

/// The result of comparing a tensor's data.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum DataDiff {
    /// Not compared: one side is missing, shapes differ, or data was skipped.
    NotCompared,
    /// Equal type and bytes.
    Same,
    /// Different types or bytes, with the error of the second model's values.
    Numbers(Box<TensorError>),
    /// Different types or bytes, without decoded values.
    Bytes,
}

impl TensorDiff {
    /// Whether both models have the same tensor, as far as it was compared.
    pub fn is_same(&self) -> bool {
        self.is_alike && matches!(self.data, DataDiff::Same | DataDiff::NotCompared)
    }
}

impl Diff {
    /// Whether the models are equal, as far as they were compared.
    pub fn is_same(&self) -> bool {
        self.keys.is_empty() && self.tensors.iter().all(TensorDiff::is_same)
    }

    /// The name of a key, and its values in both models.
    ///
    /// ```
    /// use gguf_edit::{DiffOptions, diff};
    /// # let model = |name: &str| {
    /// #     let mut head = gguf_format::Head::default();
    /// #     head.set("general.name", name);
    /// #     let bytes = gguf_io::Writer::write(Vec::new(), &head, [[0u8; 0]; 0]).unwrap();
    /// #     gguf_io::Model::from_source(bytes, "model in memory").unwrap()
    /// # };
    /// # let (first, second) = (model("First"), model("Second"));
    ///
    /// let diff = diff(first, second, &DiffOptions::default().no_data(true), &())?;
    /// for key in &diff.keys {
    ///     match diff.values(key) {
    ///         (name, [Some(a), Some(b)]) => println!("{name}: {a} and {b}"),
    ///         (name, [Some(a), None]) => println!("{name}: {a}, only in the first"),
    ///         (name, [_, b]) => println!("{name}: {b:?}, only in the second"),
    ///     }
    /// }
    /// assert_eq!(diff.values(&diff.keys[0]).0.to_str()?, "general.name");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn values(&self, key: &KeyDiff) -> (Str<'_>, [Option<ValueRef<'_>>; 2]) {
        let [first, second] = &self.models;
        let a = key.a.and_then(|index| first.model().gguf().kv_by_index(index));
        let b = key.b.and_then(|index| second.model().gguf().kv_by_index(index));
        let name = a.or(b).map_or(Str(b""), |kv| kv.key);
        (name, [a, b].map(|kv| kv.map(|kv| kv.value)))
    }

    /// The name of a tensor, and its head's entries in both models.
    pub fn infos(&self, tensor: &TensorDiff) -> (Str<'_>, [Option<TensorInfoRef<'_>>; 2]) {
        let [first, second] = &self.models;
        let a = tensor.a.and_then(|index| first.tensor(index)).map(|tensor| tensor.info());
        let b = tensor.b.and_then(|index| second.tensor(index)).map(|tensor| tensor.info());
        (a.or(b).map_or(Str(b""), |info| info.name), [a, b])
    }

    /// The error of all tensors that were compared as numbers. Its row and column have no meaning.
    pub fn total(&self) -> TensorError {
        let mut total = TensorError::new();
        for tensor in &self.tensors {
            if let DataDiff::Numbers(error) = &tensor.data {
                total.merge(error);
            }
        }
        total
    }
}

/// Compares two models, open ones or those of paths, each with all its shards.
///
/// ```
/// use gguf_edit::{DataDiff, DiffOptions, diff};
/// # let (first, second) = ("../ggufkit/examples/tiny.gguf", "../ggufkit/examples/tiny.gguf");
///
/// let diff = diff(first, second, &DiffOptions::default(), &())?;
/// for tensor in diff.tensors.iter().filter(|tensor| !tensor.is_same()) {
///     let (name, infos) = diff.infos(tensor);
///     match &tensor.data {
///         DataDiff::Numbers(error) => println!("{name}: relative error {}", error.figures().relative),
///         _ => println!("{name}: {:?}", infos.map(|info| info.map(|info| info.ty))),
///     }
/// }
/// assert!(diff.is_same());
/// # Ok::<(), gguf_edit::Error>(())
/// ```
///
/// # Errors
/// If a file cannot be read, or the work is cancelled.
pub fn diff(
    a: impl IntoModel,
    b: impl IntoModel,
    options: &DiffOptions,
    progress: &dyn Progress,
) -> Result<Diff, Error> {
    let (a, b) = (GgufSource::open(a)?, GgufSource::open(b)?);
    let (keys, n_same_keys) = diff_keys(a.model().gguf(), b.model().gguf());
    let mut tensors = pair_tensors(&a, &b);
    if !options.no_data {
        compare_data(&a, &b, &mut tensors, options.threads, progress)?;
        a.check_unchanged()?;
        b.check_unchanged()?;
    }
    Ok(Diff { keys, n_same_keys, tensors, models: [a, b] })
}

/// The different key-values, and the number of equal ones.
pub fn diff_keys(a: &Gguf<'_>, b: &Gguf<'_>) -> (Vec<KeyDiff>, usize) {
    let counted = |gguf: &Gguf<'_>| -> Vec<u64> {
        let kvs = gguf.kvs().zip(0..).filter(|(kv, _)| SPLIT_KEYS.iter().all(|split| kv.key != **split));
        kvs.map(|(_, index)| index).collect()
    };
    let pairs =
        pair(counted(a), counted(b), |i| a.kv_by_index(i).map(|kv| kv.key), |i| b.kv_by_index(i).map(|kv| kv.key));
    let n_pairs = pairs.len();
    let differs = |(x, y): &(Option<u64>, Option<u64>)| {
        let values = x.and_then(|x| a.kv_by_index(x)).zip(y.and_then(|y| b.kv_by_index(y)));
        values.is_none_or(|(x, y)| !same_value(x.value, y.value))
    };
    let keys: Vec<KeyDiff> = pairs.into_iter().filter(differs).map(|(a, b)| KeyDiff { a, b }).collect();
    let n_same = n_pairs - keys.len();
    (keys, n_same)
}

/// Pairs the items of two lists by name, in order: of equal names, the first of one list with the first of the other, and so on. Those of
/// the first list come first, then those that only the second has.
fn pair<'n, I: Copy + Ord>(
    a: Vec<I>,
    b: Vec<I>,
    name_in_a: impl Fn(I) -> Option<Str<'n>>,
    name_in_b: impl Fn(I) -> Option<Str<'n>>,
) -> Vec<(Option<I>, Option<I>)> {
    let mut by_name: Vec<usize> = (0..a.len()).collect();
    let mut pairs: Vec<(Option<I>, Option<I>)> = a.into_iter().map(|i| (Some(i), None)).collect();
    let in_a =
        |pairs: &[(Option<I>, Option<I>)], place: usize| name_in_a(pairs.get(place)?.0?).map(|name| name.as_bytes());
    by_name.compact_sort_by(|&i, &j| in_a(&pairs, i).cmp(&in_a(&pairs, j)));
    let mut others = b;
    others.compact_sort_by(|&i, &j| {
        let name = |i| name_in_b(i).map(|name| name.as_bytes());
        name(i).cmp(&name(j))
    });
    let mut left = by_name.into_iter().peekable();
    others.retain(|&j| {
        let name = name_in_b(j).map(|name| name.as_bytes());
        while left.next_if(|&place| in_a(&pairs, place) < name).is_some() {}
        let found = left.next_if(|&place| in_a(&pairs, place) == name).and_then(|place| pairs.get_mut(place));
        found.map(|pair| pair.1 = Some(j)).is_none()
    });
    others.sort_unstable();
    pairs.extend(others.into_iter().map(|j| (None, Some(j))));
    pairs
}

/// Whether values have the same type and are equal; NaNs are compared by their bits.
pub fn same_value(a: ValueRef<'_>, b: ValueRef<'_>) -> bool {
    match (a, b) {
        (ValueRef::F32(a), ValueRef::F32(b)) => a.to_bits() == b.to_bits(),
        (ValueRef::F64(a), ValueRef::F64(b)) => a.to_bits() == b.to_bits(),
        (ValueRef::Array(a), ValueRef::Array(b)) => {
            let same_head = a.elem_type() == b.elem_type() && a.len() == b.len();
            same_head && a.iter().zip(b.iter()).all(|(a, b)| same_value(a, b))
        }
        (a, b) => a == b,
    }
}

/// All tensors, paired by name.
fn pair_tensors(a: &GgufSource, b: &GgufSource) -> Vec<TensorDiff> {
    let all = |source: &GgufSource| (0..source.n_tensors()).collect();
    let pairs = pair(all(a), all(b), |i| Some(a.tensor(i)?.name()), |j| Some(b.tensor(j)?.name()));
    let tensor = |(i, j): (Option<usize>, Option<usize>)| {
        let both = i.and_then(|i| a.tensor(i)).zip(j.and_then(|j| b.tensor(j)));
        let is_alike = both.is_some_and(|(x, y)| x.ty() == y.ty() && x.shape().eq(y.shape()));
        TensorDiff { a: i, b: j, data: DataDiff::NotCompared, first_different: None, is_alike }
    };
    pairs.into_iter().map(tensor).collect()
}

/// Compares the data of tensors of equal shapes.
fn compare_data(
    a: &GgufSource,
    b: &GgufSource,
    tensors: &mut [TensorDiff],
    threads: Option<NonZeroUsize>,
    progress: &dyn Progress,
) -> Result<(), Error> {
    let both = |t: &TensorDiff| Some((t.a?, t.b?));
    let alike = |tensors: &[TensorDiff]| -> Vec<usize> {
        tensors.iter().enumerate().filter(|(_, t)| t.is_alike).map(|(i, _)| i).collect()
    };
    let pairs: Vec<(usize, usize)> = tensors.iter().filter(|t| t.is_alike).filter_map(both).collect();
    let found = first_differences([a, b], &pairs, threads, progress)?;
    drop(pairs);
    for (i, at) in alike(tensors).into_iter().zip(found) {
        if let Some(tensor) = tensors.get_mut(i) {
            tensor.data = at.map_or(DataDiff::Same, |_| DataDiff::Bytes);
            tensor.first_different = at;
        }
    }
    let mut work = Vec::new();
    for (i, tensor) in tensors.iter_mut().enumerate() {
        let sides = tensor.a.and_then(|i| a.tensor(i)).zip(tensor.b.and_then(|j| b.tensor(j)));
        let Some((x, y)) = sides.filter(|(x, y)| x.shape().eq(y.shape())) else { continue };
        match tensor.data {
            DataDiff::Same => {}
            _ if codec(x.ty()).is_some() && codec(y.ty()).is_some() => work.push(i),
            _ if x.ty() != y.ty() => tensor.data = DataDiff::Bytes,
            _ => {}
        }
    }
    let pairs = &*tensors;
    let rows_of = |i: usize| {
        let (i, j) = both(pairs.get(i)?)?;
        Some(Rows::of((i, a.tensor(i)?.info()), (j, b.tensor(j)?.info())))
    };
    let all_rows = || work.iter().filter_map(|&i| Some((i, rows_of(i)?)));
    let bytes = all_rows().map(|(_, rows)| rows.bytes()).fold(0, u64::saturating_add);
    progress.event(Event::Started { n_tensors: work.len(), bytes });
    let errors: Mutex<BTreeMap<usize, TensorError>> = Mutex::default();
    let chunks = all_rows().flat_map(|(i, rows)| rows.chunks().map(move |(first, n)| (i, rows, first, n)));
    workers::for_each(threads, chunks, progress, <[Vec<u8>; 2]>::default, |buffers, (i, rows, first, n)| {
        let name = rows.name.to_string();
        if first == 0 {
            progress.event(Event::Tensor { index: i, name: &name });
        }
        let [x, y] = buffers;
        let of = |index: usize, row_bytes: u64, source: &GgufSource, buffer: &mut Vec<u8>| {
            let bytes = n.saturating_mul(row_bytes);
            let refused = || Error::OutOfMemory { what: name.clone(), bytes };
            let len = usize::try_from(bytes).map_err(|_| refused())?;
            buffer.try_reserve(len.saturating_sub(buffer.len())).map_err(|_| refused())?;
            buffer.resize(len, 0);
            source.read(index, first.saturating_mul(row_bytes), buffer).map_err(Error::from)
        };
        of(rows.a.0, rows.a.2, a, x)?;
        of(rows.b.0, rows.b.2, b, y)?;
        let error = compare_rows(&name, (rows.a.1, x), (rows.b.1, y), (first, 0), rows.row_len, None)?;
        errors.lock().unwrap_or_else(PoisonError::into_inner).entry(i).or_default().merge(&error);
        progress.event(Event::Advanced { bytes: n.saturating_mul(rows.a.2) });
        Ok::<_, Error>(())
    })?;
    progress.event(Event::Finished);
    let empty: Vec<usize> = all_rows().filter(|(_, rows)| rows.n_rows == 0).map(|(i, _)| i).collect();
    for (i, error) in errors.into_inner().unwrap_or_else(PoisonError::into_inner) {
        if let Some(tensor) = tensors.get_mut(i) {
            tensor.data = DataDiff::Numbers(Box::new(error));
        }
    }
    // Empty tensors are equal.
    for i in empty {
        if let Some(tensor) = tensors.get_mut(i) {
            tensor.data = DataDiff::Numbers(Box::default());
        }
    }
    Ok(())
}

/// A tensor to compare row by row.
#[derive(Clone, Copy)]
struct Rows<'a> {
    name: Str<'a>,
    row_len: u64,
    n_rows: u64,
    /// Index in the model, type, and bytes of a row.
    a: (usize, GgmlType, u64),
    b: (usize, GgmlType, u64),
}

impl<'a> Rows<'a> {
    fn of((i, a): (usize, TensorInfoRef<'a>), (j, b): (usize, TensorInfoRef<'_>)) -> Rows<'a> {
        let row_len = a.dims.dim(0);
        let n_elements = a.n_elements().unwrap_or(0);
        // The sizes of both tensors were validated when the files were opened.
        let row_bytes = |ty: GgmlType| ty.tensor_bytes([row_len]).unwrap_or(0);
        Rows {
            name: a.name,
            row_len,
            n_rows: n_elements.checked_div(row_len).unwrap_or(0),
            a: (i, a.ty, row_bytes(a.ty)),
            b: (j, b.ty, row_bytes(b.ty)),
        }
    }

    fn bytes(&self) -> u64 {
        self.n_rows.saturating_mul(self.a.2)
    }

    /// First rows and numbers of rows.
    fn chunks(&self) -> impl Iterator<Item = (u64, u64)> + Clone + use<> {
        let (n_rows, step) = (self.n_rows, (CHUNK / self.a.2.max(self.b.2).max(1)).max(1));
        (0..n_rows.div_ceil(step)).map(move |n| (n * step, step.min(n_rows - n * step)))
    }
}

/// The differences between two arrays, by element.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Elements {
    /// The lengths of both.
    pub lens: [u64; 2],
    /// The number of different elements up to the shorter length.
    pub n_different: u64,
    /// The index of the first difference; the shorter length if one array is a prefix.
    pub first: Option<u64>,
}

impl Elements {
    /// The differences between the elements of two values, if both are arrays of one type.
    pub fn of(a: ValueRef<'_>, b: ValueRef<'_>) -> Option<Elements> {
        let (a, b) = (a.as_array()?, b.as_array()?);
        if a.elem_type() != b.elem_type() {
            return None;
        }
        let mut elements = Elements { lens: [a.len(), b.len()], n_different: 0, first: None };
        for (i, (x, y)) in a.iter().zip(b.iter()).enumerate() {
            if !same_value(x, y) {
                elements.n_different += 1;
                elements.first.get_or_insert(i as u64);
            }
        }
        if a.len() != b.len() {
            elements.first.get_or_insert(a.len().min(b.len()));
        }
        Some(elements)
    }
}
