//! Files of `torch.save`: the names, shapes and locations of their tensors.
//!
//! Two formats are supported. Since 2020 a file is a zip archive: a pickle describes the tensors, and each storage is an uncompressed
//! member (`torch/serialization.py`, `_save`). The older format is a stream: magic number, version and system information, each a pickle;
//! then the pickle of the tensors; then a list of keys and the storages in its order (`_legacy_save`).
//!
//! A pickle is a program, and files are untrusted: pickles are parsed as data with a list of allowed names, and no code is executed. A
//! tensor is a view of its storage with an offset and strides, which are checked against the storage bounds.

mod allowed;
mod bytes;
mod error;
mod pickle;
mod zip;

use std::collections::HashMap;

use gguf_format::FileKind;
use gguf_io::ReadAt;

pub use error::{PickleError, PickleProblem, TorchError, ZipProblem};

use crate::dtype::Dtype;
use bytes::Bytes;
use pickle::{Id, Pickle, Value, View};

/// The magic number in the first pickle of a file in the old format, as `torch.save` writes it.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

/// The maximum number of opcodes in each small pickle at the start of a file in the old format.
const MAX_HEADER_OPS: u64 = 1000;

/// The version of the old format.
const VERSION: i64 = 1001;

/// The keys under which training programs store the tensors of a model, among other data.
const NESTED: [&str; 5] = ["state_dict", "model_state_dict", "model", "module", "weights"];

/// The maximum nesting depth of [`NESTED`].
const MAX_NESTED: usize = 2;

/// The maximum number of keys in a message.
const MAX_SHOWN: usize = 8;

/// The maximum number of elements of a tensor that repeats elements of its storage.
const MAX_EXPANDED: u64 = 1 << 20;

/// A tensor of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its number format.
    pub dtype: Dtype,
    /// Its dimensions; in a contiguous tensor, the last is contiguous.
    pub shape: Vec<u64>,
    /// The stride of each dimension, in elements.
    pub strides: Vec<u64>,
    /// The offset of its first element in bytes from the start of the file.
    pub offset: u64,
    /// The number of bytes from the first element to the end of its storage.
    pub storage_bytes: u64,
}

impl Entry {
    /// Whether its elements are contiguous.
    pub fn is_contiguous(&self) -> bool {
        let mut next = 1u64;
        self.shape.iter().zip(&self.strides).rev().all(|(&n, &stride)| {
            let fits = n == 1 || stride == next;
            next = next.saturating_mul(n);
            fits
        }) || self.shape.contains(&0)
    }
}

/// Lists the tensors of a file in dictionary order. Their data is within the file.
///
/// The names are the keys of a dictionary: one that a training program stores among other data (`state_dict`, `model_state_dict`, `model`,
/// `module`, `weights`), otherwise the outermost. Values that are not tensors are ignored.
///
/// # Errors
/// [`TorchError`]; see the variants.
pub fn tensors(source: &dyn ReadAt) -> Result<Vec<Entry>, TorchError> {
    let file_bytes = source.size().map_err(TorchError::Io)?;
    let mut start = [0; 512];
    let n = usize::try_from(file_bytes).unwrap_or(usize::MAX).min(start.len());
    let start = start.get_mut(..n).unwrap_or_default();
    source.read_exact_at(0, start).map_err(TorchError::Io)?;
    match FileKind::of(start) {
        FileKind::Zip => from_zip(source, file_bytes),
        FileKind::Pickle => from_stream(source, file_bytes),
        kind => Err(TorchError::NotTorch(kind)),
    }
}

/// The location of a storage's data.
#[derive(Debug, Clone, Copy)]
struct Data {
    offset: u64,
    bytes: u64,
}

fn from_zip(source: &dyn ReadAt, file_bytes: u64) -> Result<Vec<Entry>, TorchError> {
    let members = zip::members(source, file_bytes)?;
    // All members are in one folder, which is named after the file.
    let root = members.first().and_then(|member| member.name.split_once('/')).map_or("", |(root, _)| root);
    let inside = |name: &str| name.strip_prefix(root).and_then(|name| name.strip_prefix('/')).map(str::to_owned);
    let by_name: HashMap<String, &zip::Member> =
        members.iter().filter_map(|member| Some((inside(&member.name)?, member))).collect();
    if by_name.contains_key("constants.pkl") {
        return Err(ZipProblem::TorchScript.into());
    }
    let Some(member) = by_name.get("data.pkl") else {
        return Err(ZipProblem::Missing { name: "data.pkl" }.into());
    };
    if let Some(order) = by_name.get("byteorder") {
        match zip::read_member(source, order, 16)?.as_slice() {
            b"little" => {}
            b"big" => return Err(TorchError::BigEndian),
            other => return Err(TorchError::Version { found: String::from_utf8_lossy(other).into_owned() }),
        }
    }
    let mut bytes = Bytes::new(source, member.offset, member.offset + member.bytes);
    let pickle = pickle::read(&mut bytes, pickle::MAX_OPS)?;
    let mut data = HashMap::new();
    for storage in &pickle.storages {
        let key = pickle.text(storage.key).unwrap_or_default();
        let Some(member) = by_name.get(&format!("data/{key}")) else { continue };
        let expected = storage.elements.saturating_mul(storage.element_bytes());
        if member.bytes != expected {
            return Err(TorchError::StorageSize { key: key.to_owned(), found: member.bytes, expected });
        }
        data.insert(key, Data { offset: member.offset, bytes: member.bytes });
    }
    entries(&pickle, &data)
}

fn from_stream(source: &dyn ReadAt, file_bytes: u64) -> Result<Vec<Entry>, TorchError> {
    let mut bytes = Bytes::new(source, 0, file_bytes);
    let not_torch = || TorchError::NotTorch(FileKind::Pickle);
    let is_magic = |magic: &Pickle| matches!(magic.root(), Value::Long(number) if *magic.long(number) == MAGIC);
    let first = match pickle::read(&mut bytes, MAX_HEADER_OPS) {
        Err(TorchError::Pickle(_)) => return Err(not_torch()),
        first => first?,
    };
    if !is_magic(&first) {
        return Err(not_torch());
    }
    let version = pickle::read(&mut bytes, MAX_HEADER_OPS)?;
    match version.root() {
        Value::Int(VERSION) => {}
        Value::Int(found) => return Err(TorchError::Version { found: found.to_string() }),
        _ => return Err(TorchError::Version { found: "another value".to_owned() }),
    }
    // System information, which is otherwise unused.
    let at = bytes.at();
    let machine = pickle::read(&mut bytes, MAX_HEADER_OPS)?;
    if !matches!(machine.root(), Value::Dict(_)) {
        let problem = PickleProblem::Expected { expected: "a dictionary", found: "another value" };
        return Err(PickleError { at, problem }.into());
    }
    let tensors = pickle::read(&mut bytes, pickle::MAX_OPS)?;
    let keys_at = bytes.at();
    let keys = pickle::read(&mut bytes, pickle::MAX_OPS)?;
    let not_keys = || {
        let problem = PickleProblem::Expected { expected: "a list of keys", found: "another value" };
        TorchError::from(PickleError { at: keys_at, problem })
    };
    let Value::List(list) = keys.root() else { return Err(not_keys()) };
    let list = keys.list(list);
    let by_key: HashMap<&str, &pickle::Storage> =
        tensors.storages.iter().filter_map(|storage| Some((tensors.text(storage.key)?, storage))).collect();
    let mut data = HashMap::new();
    for key in list {
        let key = keys.text(*key).ok_or_else(not_keys)?;
        let Some((key, storage)) = by_key.get_key_value(key) else {
            return Err(TorchError::UnknownStorage { at: bytes.at(), key: key.to_owned() });
        };
        let found = u64::from_le_bytes(bytes.array()?);
        let expected = storage.elements.saturating_mul(storage.element_bytes());
        if found != storage.elements {
            let found = found.saturating_mul(storage.element_bytes());
            return Err(TorchError::StorageSize { key: (*key).to_owned(), found, expected });
        }
        if expected > bytes.left() {
            return Err(TorchError::StorageSize { key: (*key).to_owned(), found: bytes.left(), expected });
        }
        data.insert(*key, Data { offset: bytes.at(), bytes: expected });
        bytes.skip(expected)?;
    }
    entries(&tensors, &data)
}

/// The dictionary with the model's tensors: an entry of [`NESTED`] that contains tensors, otherwise the dictionary itself if it contains
/// any.
fn dictionary<'a>(pickle: &'a Pickle, dict: &'a [(Id, Id)], depth: usize) -> Option<&'a [(Id, Id)]> {
    let nested = |name: &&str| {
        let (_, value) = dict.iter().rev().find(|(key, _)| pickle.text(*key) == Some(name))?;
        match pickle.value(*value) {
            Value::Dict(inner) => dictionary(pickle, pickle.dict(inner), depth.checked_sub(1)?),
            _ => None,
        }
    };
    let has_tensors = |dict: &[(Id, Id)]| {
        dict.iter().any(|(key, value)| matches!(pickle.value(*value), Value::Tensor(_)) && pickle.text(*key).is_some())
    };
    NESTED.iter().find_map(nested).or_else(|| has_tensors(dict).then_some(dict))
}

/// The tensors of a pickle, by their dictionary keys.
fn entries(pickle: &Pickle, data: &HashMap<&str, Data>) -> Result<Vec<Entry>, TorchError> {
    let Value::Dict(outer) = pickle.root() else { return Err(TorchError::NoTensors { keys: Vec::new() }) };
    let outer = pickle.dict(outer);
    let dict = dictionary(pickle, outer, MAX_NESTED).unwrap_or(outer);
    // A key that is set again keeps its position and gets the new value.
    let mut places = HashMap::new();
    let mut found: Vec<(&str, &View)> = Vec::new();
    for (key, value) in dict {
        let (Some(name), Value::Tensor(view)) = (pickle.text(*key), pickle.value(*value)) else { continue };
        if name.len() > pickle::MAX_NAME {
            let start = name.chars().take(100).collect();
            return Err(TorchError::LongName { start, max: pickle::MAX_NAME });
        }
        let Some(view) = pickle.views.get(view as usize) else { continue };
        match places.get(name).and_then(|place: &usize| found.get_mut(*place)) {
            Some(slot) => *slot = (name, view),
            None => {
                places.insert(name, found.len());
                found.push((name, view));
            }
        }
    }
    if found.is_empty() {
        let keys = dict.iter().filter_map(|(key, _)| pickle.text(*key)).filter(|key| key.len() <= pickle::MAX_NAME);
        return Err(TorchError::NoTensors { keys: keys.take(MAX_SHOWN).map(str::to_owned).collect() });
    }
    found.into_iter().map(|(name, view)| entry(name, view, pickle, data)).collect()
}

fn entry(name: &str, view: &View, pickle: &Pickle, data: &HashMap<&str, Data>) -> Result<Entry, TorchError> {
    let tensor = || name.to_owned();
    let storage = pickle.storages.get(view.storage as usize);
    let key = storage.and_then(|storage| pickle.text(storage.key)).unwrap_or_default();
    let Some(data) = data.get(key) else {
        return Err(TorchError::NoStorage { tensor: tensor(), key: key.to_owned() });
    };
    let size = || TorchError::Size { tensor: tensor(), shape: view.shape.clone() };
    view.dtype.tensor_bytes(&view.shape).ok_or_else(size)?;
    let n_elements: u64 = view.shape.iter().product();
    let width = u64::from(view.dtype.bits / 8);
    let stored = data.bytes.checked_div(width).unwrap_or(0);
    let steps = view.shape.iter().zip(&view.strides);
    let last =
        steps.map(|(n, stride)| n.saturating_sub(1).saturating_mul(*stride)).fold(view.offset, u64::saturating_add);
    // A tensor without elements accesses no bytes.
    if n_elements > 0 && last >= stored {
        return Err(TorchError::OutOfStorage { tensor: tensor(), key: key.to_owned(), last, elements: stored });
    }
    if n_elements > stored.max(MAX_EXPANDED) {
        return Err(TorchError::Expanded { tensor: tensor(), elements: n_elements, stored });
    }
    let skipped = if n_elements == 0 { 0 } else { view.offset * width };
    Ok(Entry {
        name: tensor(),
        dtype: view.dtype,
        shape: view.shape.clone(),
        strides: view.strides.clone(),
        offset: data.offset + skipped,
        storage_bytes: data.bytes - skipped,
    })
}
