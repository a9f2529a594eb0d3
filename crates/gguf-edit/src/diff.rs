//! The differences between two models: key-values, tensors, and errors of the data.
//!
//! Models are compared by content, not layout: shards, the order of keys and tensors, versions and byte orders are ignored. Tensors of
//! different types are compared as numbers, with the same figures as in the report of a quantization.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use gguf_format::{GgmlType, Gguf, Str, Value, ValueRef};
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
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Diff {
    /// Different key-values: those of `a` in order, then those that only `b` has.
    pub keys: Vec<KeyDiff>,
    /// Number of equal key-values.
    pub n_same_keys: usize,
    /// All tensors: those of `a` in order, then those that only `b` has.
    pub tensors: Vec<TensorDiff>,
}

/// A key whose values differ, or that only one model has.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct KeyDiff {
    /// The key.
    pub key: Vec<u8>,
    /// Its value in the first model.
    pub a: Option<Value>,
    /// Its value in the second model.
    pub b: Option<Value>,
}

/// A tensor of either model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TensorDiff {
    /// The name.
    pub name: Vec<u8>,
    /// The shape and type in the first model.
    pub a: Option<Side>,
    /// The shape and type in the second model.
    pub b: Option<Side>,
    /// The result of the data comparison.
    pub data: DataDiff,
}

/// A tensor in one of the models.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Side {
    /// The index among the model's tensors.
    pub index: usize,
    /// The dimensions, the contiguous one first.
    pub shape: Vec<u64>,
    /// The type.
    pub ty: GgmlType,
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
    /// Different types or bytes, without decoded values. For equal types, the offset of the first difference.
    Bytes(Option<u64>),
}

impl TensorDiff {
    /// Whether both models have the same tensor, as far as it was compared.
    pub fn is_same(&self) -> bool {
        let sides = self.a.as_ref().zip(self.b.as_ref());
        let infos = sides.is_some_and(|(a, b)| (&a.shape, a.ty) == (&b.shape, b.ty));
        infos && matches!(self.data, DataDiff::Same | DataDiff::NotCompared)
    }
}

impl Diff {
    /// Whether the models are equal, as far as they were compared.
    pub fn is_same(&self) -> bool {
        self.keys.is_empty() && self.tensors.iter().all(TensorDiff::is_same)
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

/// Compares two models, each with all its shards.
///
/// # Errors
/// If a file cannot be read, or the work is cancelled.
pub fn diff(
    a: impl AsRef<Path>,
    b: impl AsRef<Path>,
    options: &DiffOptions,
    progress: &dyn Progress,
) -> Result<Diff, Error> {
    let (a, b) = (GgufSource::open(a.as_ref())?, GgufSource::open(b.as_ref())?);
    let (keys, n_same_keys) = diff_keys(a.model().gguf(), b.model().gguf());
    let mut tensors = pair_tensors(&a, &b);
    if !options.no_data {
        compare_data(&a, &b, &mut tensors, options.threads, progress)?;
    }
    Ok(Diff { keys, n_same_keys, tensors })
}

/// The different key-values, and the number of equal ones.
pub fn diff_keys(a: &Gguf<'_>, b: &Gguf<'_>) -> (Vec<KeyDiff>, usize) {
    let counts = |key: Str<'_>| SPLIT_KEYS.iter().all(|split| key != **split);
    let mut others: HashMap<(&[u8], usize), ValueRef<'_>> = HashMap::new();
    let mut order = Vec::new();
    let mut seen: HashMap<&[u8], usize> = HashMap::new();
    let nth = |key: &mut HashMap<_, usize>, name| {
        let n = key.entry(name).or_insert(0);
        *n += 1;
        (name, *n)
    };
    for kv in b.kvs().filter(|kv| counts(kv.key)) {
        let place = nth(&mut seen, kv.key.as_bytes());
        others.insert(place, kv.value);
        order.push(place);
    }
    let mut seen = HashMap::new();
    let (mut keys, mut n_same) = (Vec::new(), 0);
    for kv in a.kvs().filter(|kv| counts(kv.key)) {
        let other = others.remove(&nth(&mut seen, kv.key.as_bytes()));
        if other.is_some_and(|other| same_value(kv.value, other)) {
            n_same += 1;
            continue;
        }
        let (key, b) = (kv.key.as_bytes().to_vec(), other.map(|value| value.to_owned()));
        keys.push(KeyDiff { key, a: Some(kv.value.to_owned()), b });
    }
    for place in order {
        if let Some(value) = others.remove(&place) {
            keys.push(KeyDiff { key: place.0.to_vec(), a: None, b: Some(value.to_owned()) });
        }
    }
    (keys, n_same)
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

/// Pairs tensors by name. The first of duplicate names is paired with the first.
fn pair_tensors(a: &GgufSource, b: &GgufSource) -> Vec<TensorDiff> {
    let side = |source: &GgufSource, index: usize| {
        let info = source.tensors().get(index)?;
        Some(Side { index, shape: info.shape.clone(), ty: info.ty })
    };
    let mut others: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (i, tensor) in b.tensors().iter().enumerate().rev() {
        others.entry(&tensor.name).or_default().push(i);
    }
    let mut tensors = Vec::new();
    for (i, tensor) in a.tensors().iter().enumerate() {
        let other = others.get_mut(tensor.name.as_slice()).and_then(Vec::pop);
        let (name, data) = (tensor.name.clone(), DataDiff::NotCompared);
        tensors.push(TensorDiff { name, a: side(a, i), b: other.and_then(|j| side(b, j)), data });
    }
    let mut rest: Vec<usize> = others.into_values().flatten().collect();
    rest.sort_unstable();
    for j in rest {
        let name = b.tensors().get(j).map(|t| t.name.clone()).unwrap_or_default();
        tensors.push(TensorDiff { name, a: None, b: side(b, j), data: DataDiff::NotCompared });
    }
    tensors
}

/// Compares the data of tensors of equal shapes.
fn compare_data(
    a: &GgufSource,
    b: &GgufSource,
    tensors: &mut [TensorDiff],
    threads: Option<NonZeroUsize>,
    progress: &dyn Progress,
) -> Result<(), Error> {
    let both = |t: &TensorDiff| {
        t.a.as_ref().zip(t.b.as_ref()).filter(|(a, b)| a.shape == b.shape).map(|(a, b)| (a.clone(), b.clone()))
    };
    let mut alike = Vec::new();
    let mut numbers = Vec::new();
    for (i, (x, y)) in tensors.iter().enumerate().filter_map(|(i, t)| Some((i, both(t)?))) {
        if x.ty == y.ty { alike.push((i, (x.index, y.index))) } else { numbers.push(i) }
    }
    let pairs: Vec<(usize, usize)> = alike.iter().map(|(_, pair)| *pair).collect();
    let found = first_differences([a, b], &pairs, threads, progress)?;
    for ((i, _), at) in alike.into_iter().zip(found) {
        let Some(tensor) = tensors.get_mut(i) else { continue };
        tensor.data = match at {
            None => DataDiff::Same,
            Some(at) => {
                numbers.push(i);
                DataDiff::Bytes(Some(at))
            }
        };
    }
    numbers.sort_unstable();
    let mut work = Vec::new();
    for i in numbers {
        let Some((tensor, (x, y))) = tensors.get_mut(i).and_then(|t| both(t).map(|sides| (t, sides))) else { continue };
        if codec(x.ty).is_none() || codec(y.ty).is_none() {
            if x.ty != y.ty {
                tensor.data = DataDiff::Bytes(None);
            }
            continue;
        }
        work.push(Rows::of(i, &tensor.name, &x, &y));
    }
    let bytes = work.iter().map(|rows| rows.bytes()).fold(0, u64::saturating_add);
    progress.event(Event::Started { n_tensors: work.len(), bytes });
    let errors: Mutex<BTreeMap<usize, TensorError>> = Mutex::default();
    let chunks = work.iter().flat_map(|rows| rows.chunks().map(move |(first, n)| (rows, first, n)));
    workers::for_each(threads, chunks, progress, <[Vec<u8>; 2]>::default, |buffers, (rows, first, n)| {
        if first == 0 {
            progress.event(Event::Tensor { index: rows.tensor, name: &rows.name });
        }
        let [x, y] = buffers;
        let of = |index: usize, row_bytes: u64, source: &GgufSource, buffer: &mut Vec<u8>| {
            let bytes = n.saturating_mul(row_bytes);
            let refused = || Error::OutOfMemory { what: rows.name.clone(), bytes };
            let len = usize::try_from(bytes).map_err(|_| refused())?;
            buffer.try_reserve(len.saturating_sub(buffer.len())).map_err(|_| refused())?;
            buffer.resize(len, 0);
            source.read(index, first.saturating_mul(row_bytes), buffer).map_err(Error::from)
        };
        of(rows.a.0, rows.a.2, a, x)?;
        of(rows.b.0, rows.b.2, b, y)?;
        let error = compare_rows(&rows.name, (rows.a.1, x), (rows.b.1, y), (first, 0), rows.row_len, None)?;
        errors.lock().unwrap_or_else(PoisonError::into_inner).entry(rows.tensor).or_default().merge(&error);
        progress.event(Event::Advanced { bytes: n.saturating_mul(rows.a.2) });
        Ok::<_, Error>(())
    })?;
    progress.event(Event::Finished);
    for (i, error) in errors.into_inner().unwrap_or_else(PoisonError::into_inner) {
        if let Some(tensor) = tensors.get_mut(i) {
            tensor.data = DataDiff::Numbers(Box::new(error));
        }
    }
    // Empty tensors are equal.
    for rows in work.iter().filter(|rows| rows.n_rows == 0) {
        if let Some(tensor) = tensors.get_mut(rows.tensor) {
            tensor.data = DataDiff::Numbers(Box::default());
        }
    }
    Ok(())
}

/// A tensor to compare row by row.
struct Rows {
    tensor: usize,
    name: String,
    row_len: u64,
    n_rows: u64,
    /// Index in the model, type, and bytes of a row.
    a: (usize, GgmlType, u64),
    b: (usize, GgmlType, u64),
}

impl Rows {
    fn of(tensor: usize, name: &[u8], a: &Side, b: &Side) -> Rows {
        let row_len = a.shape.first().copied().unwrap_or(1);
        let n_elements = gguf_format::n_elements(a.shape.iter().copied()).unwrap_or(0);
        // The sizes of both tensors were validated when the files were opened.
        let row_bytes = |ty: GgmlType| ty.tensor_bytes([row_len]).unwrap_or(0);
        Rows {
            tensor,
            name: Str(name).to_string(),
            row_len,
            n_rows: n_elements.checked_div(row_len).unwrap_or(0),
            a: (a.index, a.ty, row_bytes(a.ty)),
            b: (b.index, b.ty, row_bytes(b.ty)),
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

impl KeyDiff {
    /// The differences between the elements, if both values are arrays of one type.
    pub fn elements(&self) -> Option<Elements> {
        let (a, b) = (self.a.as_ref()?.as_ref().as_array()?, self.b.as_ref()?.as_ref().as_array()?);
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
