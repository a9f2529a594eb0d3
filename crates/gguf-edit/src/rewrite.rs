//! Copies of a model with another byte order, version or order of tensors, and with tensors removed, added or taken from another model.
//!
//! Each function returns a plan; running it copies data inside the kernel if possible. Shards become one file.

use std::collections::HashMap;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_format::sort::CompactSort as _;
use gguf_format::{ByteOrder, GgmlType, Str, Version};
use gguf_io::IntoModel;
use gguf_pipeline::plan::{Input, Keep, Op, Reason};
use gguf_pipeline::{Draft, GgufSource, Plan, TensorPlan};
use gguf_quants::codec::codec;

use crate::compose::Composed;
use crate::error::Error;
use crate::npy::NpyFile;

/// Changes the byte order of a model: of all numbers in its head and, by the layout of each type's blocks, in its data. `None` chooses the
/// opposite of the current order.
///
/// # Errors
/// If the model cannot be read or written; the byte order of removed types with interleaved blocks cannot be changed.
pub fn swap(model: impl IntoModel, to: Option<ByteOrder>) -> Result<Plan, Error> {
    let (mut draft, from) = copy(model)?;
    draft.head.dialect.order = to.unwrap_or(match from {
        ByteOrder::Little => ByteOrder::Big,
        ByteOrder::Big => ByteOrder::Little,
    });
    Ok(draft.lay_out()?)
}

/// Converts a model to version 3 of the format, packed, in its current byte order. Also returns the original version.
///
/// # Errors
/// If the model cannot be read or written.
pub fn upgrade(model: impl IntoModel) -> Result<(Plan, Version), Error> {
    let source = GgufSource::open(model)?;
    let dialect = source.model().gguf().dialect();
    let mut draft = Draft::copy_of_source(source)?;
    draft.head.dialect.order = dialect.order;
    Ok((draft.lay_out()?, dialect.version))
}

/// An order of tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Tensors before the blocks, the blocks by number, then the final tensors, starting with `output`. Within a block, the order of the
    /// model is kept.
    Layers,
    /// By name; numbers in names are compared as numbers.
    Names,
    /// The largest first.
    Sizes,
    /// The order of these names; other tensors follow in the order of the model.
    Like(Vec<Vec<u8>>),
}

/// Writes the tensors of a model in another order.
///
/// ```
/// # use gguf_format::{GgmlType, Head, TensorInfo};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.gguf");
/// # let mut head = Head::default();
/// # head.tensors = ["blk.10.a", "blk.9.a"].map(|name| TensorInfo::new(name, [8], GgmlType::F32)).to_vec();
/// # std::fs::write(&path, gguf_io::Writer::write(Vec::new(), &head, [[0u8; 32]; 2])?)?;
/// use gguf_edit::rewrite::{Order, reorder};
///
/// let plan = reorder(&path, &Order::Names)?;
/// let names: Vec<String> = plan.tensors().iter().map(|tensor| tensor.shown()).collect();
/// assert_eq!(names, ["blk.9.a", "blk.10.a"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the model cannot be read or written.
pub fn reorder(model: impl IntoModel, order: &Order) -> Result<Plan, Error> {
    let (mut draft, from) = copy(model)?;
    draft.head.dialect.order = from;
    match order {
        Order::Layers => draft.tensors.compact_sort_by_key(|t| layer(&t.name)),
        Order::Names => draft.tensors.compact_sort_by_cached_key(|t| natural(&t.name)),
        Order::Sizes => draft.tensors.compact_sort_by_key(|t| std::cmp::Reverse(t.n_bytes())),
        Order::Like(names) => {
            let places: HashMap<&[u8], usize> =
                names.iter().enumerate().map(|(i, name)| (name.as_slice(), i)).collect();
            draft.tensors.compact_sort_by_key(|t| places.get(&*t.name).copied().unwrap_or(usize::MAX));
        }
    }
    Ok(draft.lay_out()?)
}

/// The names of a model's tensors, in order.
///
/// # Errors
/// If the model cannot be read.
pub fn names(model: impl IntoModel) -> Result<Vec<Vec<u8>>, Error> {
    let source = GgufSource::open(model)?;
    Ok(source.tensors().map(|t| t.name().as_bytes().to_vec()).collect())
}

/// Removes the tensors that match one of the patterns. Also returns their names, safe to print.
///
/// # Errors
/// [`Error::NoTensor`] for a pattern without a match; or if the model cannot be read or written.
pub fn remove_tensors(
    model: impl IntoModel,
    patterns: &[String],
    matches: impl Fn(&str, Str<'_>) -> bool,
) -> Result<(Plan, Vec<String>), Error> {
    let (mut draft, from) = copy(model)?;
    draft.head.dialect.order = from;
    let chosen = choose(&draft, patterns, matches)?;
    let mut removed = Vec::new();
    let mut chosen = chosen.into_iter();
    draft.tensors.retain(|tensor| {
        let goes = chosen.next() == Some(true);
        if goes {
            removed.push(tensor.shown());
        }
        !goes
    });
    Ok((draft.lay_out()?, removed))
}

/// A tensor to add.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NewTensor {
    /// The name.
    pub name: String,
    /// The NumPy file with the values.
    pub file: PathBuf,
    /// The target type; `None` for that of the file.
    pub ty: Option<GgmlType>,
    /// Whether to replace an existing tensor with that name, in its place.
    pub replace: bool,
}

impl NewTensor {
    /// A tensor with the values and the type of a NumPy file.
    pub fn new(name: impl Into<String>, file: impl Into<PathBuf>) -> NewTensor {
        NewTensor { name: name.into(), file: file.into(), ty: None, replace: false }
    }

    /// Sets the target type; `None` for that of the file. Another type requires its encoder, a feature of `gguf-quants`.
    pub fn ty(mut self, ty: Option<GgmlType>) -> NewTensor {
        self.ty = ty;
        self
    }

    /// Sets whether an existing tensor with that name is replaced.
    pub fn replace(mut self, yes: bool) -> NewTensor {
        self.replace = yes;
        self
    }
}

/// Adds tensors to a model, at the end.
///
/// # Errors
/// [`Error::TensorExists`], [`Error::Array`], [`Error::NotEncodable`]; or if the model cannot be read or written.
pub fn add_tensors(model: impl IntoModel, new: &[NewTensor]) -> Result<Plan, Error> {
    let (mut draft, from) = copy(model)?;
    draft.head.dialect.order = from;
    let mut composed = Composed::of(&mut draft);
    let mut tensors = Vec::with_capacity(new.len());
    for new in new {
        let file = NpyFile::open(&new.file)?;
        let ty = new.ty.unwrap_or(file.ty);
        let mut tensor = TensorPlan::new(
            new.name.as_bytes(),
            file.shape.clone(),
            file.ty,
            Reason::Kept(Keep::Copy),
            Op::Copy(Input::new(0, &new.name, file.ty)),
        );
        let can = ty == file.ty || codec(file.ty).is_some() && codec(ty).is_some_and(|codec| codec.can_encode());
        if !can {
            let (path, tensor) = (new.file.clone(), tensor.shown());
            return Err(Error::NotEncodable { path, tensor, from: file.ty, to: ty });
        }
        tensor.ty = ty;
        draft.inputs.extend(new.file.canonicalize());
        composed.add(Arc::new(file), std::slice::from_mut(&mut tensor));
        tensors.push(tensor);
    }
    place(&mut draft, tensors, |i| new.get(i).is_some_and(|new| new.replace))?;
    draft.source = Arc::new(composed);
    Ok(draft.lay_out()?)
}

/// The parts to take from another model.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Graft {
    /// Patterns for names of tensors.
    pub tensors: Vec<String>,
    /// Patterns for keys.
    pub keys: Vec<String>,
    /// Whether to replace tensors with the same names, in their places.
    pub replace: bool,
}

/// Takes tensors and key-values from another model. Also returns the names of the tensors and the number of keys.
///
/// # Errors
/// [`Error::NoTensor`] for a pattern without a match, [`Error::TensorExists`]; or if a model cannot be read or written.
pub fn graft(
    model: impl IntoModel,
    from: impl IntoModel,
    what: &Graft,
    matches: impl Fn(&str, Str<'_>) -> bool,
) -> Result<(Plan, Vec<String>, usize), Error> {
    let (mut draft, order) = copy(model)?;
    draft.head.dialect.order = order;
    let mut other = Draft::copy_of(from)?;
    let chosen = choose(&other, &what.tensors, &matches)?;
    let mut chosen = chosen.into_iter();
    other.tensors.retain(|_| chosen.next() == Some(true));
    let mut composed = Composed::of(&mut draft);
    composed.add(other.source, &mut other.tensors);
    draft.inputs.extend(other.inputs);
    let grafted = other.tensors.iter().map(TensorPlan::shown).collect();
    place(&mut draft, other.tensors, |_| what.replace)?;
    draft.source = Arc::new(composed);
    let mut n_keys = 0;
    let mut mine = places(draft.head.kvs.iter().map(|kv| kv.key.clone()));
    for pattern in &what.keys {
        let before = n_keys;
        for kv in other.head.kvs.iter().filter(|kv| matches(pattern, Str(&kv.key))) {
            n_keys += 1;
            match mine.get(&kv.key).and_then(|place| draft.head.kvs.get_mut(*place)) {
                Some(mine) => mine.value = kv.value.clone(),
                None => {
                    mine.insert(kv.key.clone(), draft.head.kvs.len());
                    draft.head.kvs.push(kv.clone());
                }
            }
        }
        if n_keys == before {
            return Err(Error::NoKey { path: other.path, pattern: pattern.clone() });
        }
    }
    Ok((draft.lay_out()?, grafted, n_keys))
}

/// A draft that copies a model, and the model's byte order.
fn copy(model: impl IntoModel) -> Result<(Draft, ByteOrder), Error> {
    let source = GgufSource::open(model)?;
    let order = source.model().gguf().dialect().order;
    Ok((Draft::copy_of_source(source)?, order))
}

/// Adds tensors at the end; those that say so, by their index, replace the tensor with the same name.
fn place(draft: &mut Draft, mut tensors: Vec<TensorPlan>, replaces: impl Fn(usize) -> bool) -> Result<(), Error> {
    let mut firsts: HashMap<&[u8], usize> = HashMap::with_capacity(tensors.len());
    let names = tensors.iter().map(|tensor| &*tensor.name).enumerate();
    // For each tensor, the first with the same name, and for each of these, that of the draft.
    let same: Vec<usize> = names.map(|(i, name)| *firsts.entry(name).or_insert(i)).collect();
    let mut places: Vec<Option<usize>> = vec![None; tensors.len()];
    for (place, tensor) in draft.tensors.iter().enumerate() {
        if let Some(first) = firsts.get(&*tensor.name).and_then(|first| places.get_mut(*first)) {
            first.get_or_insert(place);
        }
    }
    drop(firsts);
    let mut are_new = vec![true; tensors.len()];
    for (i, (&first, is_new)) in same.iter().zip(&mut are_new).enumerate() {
        let old = places.get(first).copied().flatten().and_then(|place| draft.tensors.get_mut(place));
        *is_new = first == i && old.is_none();
        match tensors.get_mut(i) {
            Some(tensor) if !*is_new && !replaces(i) => {
                return Err(Error::TensorExists { path: draft.path.clone(), name: tensor.shown() });
            }
            Some(tensor) => match old {
                Some(old) => mem::swap(old, tensor),
                None => tensors.swap(first, i),
            },
            None => {}
        }
    }
    let mut are_new = are_new.into_iter();
    tensors.retain(|_| are_new.next() == Some(true));
    // The longer list takes the other, because plans of many tensors are large.
    if draft.tensors.len() < tensors.len() {
        drop(tensors.splice(0..0, mem::take(&mut draft.tensors)));
        draft.tensors = tensors;
    } else {
        draft.tensors.append(&mut tensors);
    }
    Ok(())
}

/// The first place of each name.
fn places(names: impl ExactSizeIterator<Item = Vec<u8>>) -> HashMap<Vec<u8>, usize> {
    let mut places = HashMap::with_capacity(names.len());
    for (place, name) in names.enumerate() {
        places.entry(name).or_insert(place);
    }
    places
}

/// Which tensors of a copy match one of the patterns.
fn choose(draft: &Draft, patterns: &[String], matches: impl Fn(&str, Str<'_>) -> bool) -> Result<Vec<bool>, Error> {
    let names = || draft.tensors.iter().map(|tensor| Str(&tensor.name));
    let mut chosen = vec![false; draft.tensors.len()];
    for pattern in patterns {
        let mut is_found = false;
        for (name, chosen) in names().zip(&mut chosen) {
            let is_match = matches(pattern, name);
            is_found |= is_match;
            *chosen |= is_match;
        }
        if !is_found {
            return Err(no_tensor(&draft.path, pattern, names()));
        }
    }
    Ok(chosen)
}

/// The error for a missing tensor, with similar ones of these names.
pub(crate) fn no_tensor<'n>(path: &Path, name: &str, names: impl Iterator<Item = Str<'n>>) -> Error {
    Error::NoTensor { path: path.to_owned(), name: name.to_owned(), nearest: gguf_io::nearest(name, names) }
}

/// The position of a tensor in a model: before the blocks, in a block, or after them.
fn layer(name: &[u8]) -> (u8, u64) {
    let number = |rest: &[u8]| {
        let digits: Vec<u8> = rest.iter().copied().take_while(u8::is_ascii_digit).collect();
        String::from_utf8(digits).ok()?.parse::<u64>().ok()
    };
    if name.starts_with(b"output") {
        return (2, 0);
    }
    // Encoders, decoders and towers also number their blocks: enc.blk.0, v.blk.0.
    let at = name.windows(4).position(|window| window == b"blk.");
    match at.and_then(|at| number(name.get(at + 4..).unwrap_or_default())) {
        Some(n) => (1, n),
        None => (0, 0),
    }
}

/// A name divided into text and numbers, for natural order.
fn natural(name: &[u8]) -> Vec<(Vec<u8>, u128)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest.iter().take_while(|b| !b.is_ascii_digit()).count();
        let (text, after) = rest.split_at(text);
        let digits = after.iter().take_while(|b| b.is_ascii_digit()).count();
        let (digits, after) = after.split_at(digits);
        let number = digits.iter().fold(0u128, |n, d| n.saturating_mul(10).saturating_add(u128::from(d - b'0')));
        parts.push((text.to_vec(), number));
        rest = after;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_and_names_have_their_order() {
        let mut names = [
            "output.weight",
            "blk.10.a",
            "token_embd.weight",
            "blk.9.b",
            "rope_freqs.weight",
            "output_norm.weight",
            "blk.9.a",
        ];
        names.compact_sort_by_key(|name| layer(name.as_bytes()));
        let layers = [
            "token_embd.weight",
            "rope_freqs.weight",
            "blk.9.b",
            "blk.9.a",
            "blk.10.a",
            "output.weight",
            "output_norm.weight",
        ];
        assert_eq!(names, layers);
        names.compact_sort_by_cached_key(|name| natural(name.as_bytes()));
        let sorted = [
            "blk.9.a",
            "blk.9.b",
            "blk.10.a",
            "output.weight",
            "output_norm.weight",
            "rope_freqs.weight",
            "token_embd.weight",
        ];
        assert_eq!(names, sorted);
        assert!(natural(b"a99999999999999999999999999999999999999999999999") > natural(b"a2"));
    }
}
