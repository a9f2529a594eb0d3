//! Verification of a GGUF file against the checkpoint from which it should have been made.

use std::collections::HashMap;
use std::sync::Arc;

use gguf_edit::KeyDiff;
use gguf_edit::diff::diff_keys;
use gguf_format::keys::{
    FileType, GENERAL_ALIGNMENT, GENERAL_ARCHITECTURE, GENERAL_FILE_TYPE, GENERAL_QUANTIZATION_VERSION, GENERAL_TYPE,
};
use gguf_format::{GgmlType, Gguf, Head, KvRef, Str, ValueRef};
use gguf_hf::{Options, OutType};
use gguf_io::Model;
use gguf_pipeline::plan::{Draft, Elementwise, Input, Op, Plan, Rounding, Shape, TensorPlan};
use gguf_pipeline::verify::{Compared, Explained, Pair, compare, explain};
use gguf_pipeline::{GgufSource, Progress, RunOptions, Stage};
use gguf_quantize::imatrix::ImatrixFile;
use gguf_quantize::mix::Target;
use gguf_quantize::{QuantizeOptions, plan};
use gguf_quants::codec::{Matrix, codec};

use self::causes::Comparison;
use crate::Error;

mod causes;
mod words;

/// The comparison of a file with the plan of its conversion. Feature `quantize` with `hf`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Verification {
    /// The key-values that differ: those of the plan in order, then those that only the file has. [`Verification::values`] returns the
    /// values.
    pub keys: Vec<KeyDiff>,
    /// Number of equal key-values.
    pub n_same_keys: usize,
    /// The tensors: those of the plan in order, then those that only the file has.
    pub tensors: Vec<VerifiedTensor>,
    /// How the file was made, as far as its bytes show it.
    pub made: Made,
    planned: Gguf<'static>,
    file: GgufSource,
}

/// A tensor of the plan or of the file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct VerifiedTensor {
    /// The name, safe to print.
    pub name: String,
    /// The type in the file; `None` if the file lacks the tensor.
    pub ty: Option<GgmlType>,
    /// The result.
    pub state: State,
    /// What explains the difference of a tensor that [differs](State::Different), if anything does.
    pub cause: Option<Cause>,
}

/// What explains the difference of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// It has the data of another planned tensor.
    Other(String),
    /// Its values are in the order of the checkpoint: the program that made the file did not rearrange the rows of queries and keys, or other
    /// parts, as the architecture requires.
    NotRearranged,
    /// All differences are in these matrices of a stack, such as those of experts, counted from 0.
    Matrices {
        /// The first.
        first: u64,
        /// The last.
        last: u64,
        /// Whether all values that differ are zero in the file.
        are_zero: bool,
    },
    /// All values that differ are zero in the file.
    Zeros,
}

/// Whether a tensor of a file has the planned data.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum State {
    /// The values are equal to the last bit, in the type of the plan or one that has all its values.
    Identical,
    /// The values are equal to the last bit after they are rounded to the float type of the file.
    Rounded,
    /// The bytes are those that this program and llama.cpp write in the quantized type of the file.
    Encoded(Encoding),
    /// The bytes differ from those, but the type explains every error; see [the bounds](gguf_pipeline::verify::bound).
    Within(Explained),
    /// The data differs.
    Different(Difference),
    /// Only the plan has the tensor.
    Missing,
    /// Only the file has the tensor.
    Extra,
}

/// How values were encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Encoding {
    /// The float type to which the values were rounded before they were quantized, as in a file between a conversion and a quantization;
    /// `None` if they were not rounded, or if rounding changes nothing.
    pub rounded_to: Option<GgmlType>,
    /// Whether the errors were weighted by the given importance matrix.
    pub is_weighted: bool,
}

/// How a tensor differs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Difference {
    /// The shapes differ: that of the plan, and that of the file.
    Shape(Vec<u64>, Vec<u64>),
    /// The values cannot be compared in the type of the file.
    Type {
        /// The type of the planned values.
        planned: GgmlType,
    },
    /// Some bytes differ from those of the closest encoding.
    Bytes(Compared),
    /// Errors are larger than the type explains.
    Errors(Explained),
}

/// How a file was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Made {
    /// The file type in its metadata.
    pub file_type: Option<FileType>,
    /// The program that its keys and their order show.
    pub program: Option<Program>,
    /// The importance matrix that its metadata names.
    pub imatrix: Option<String>,
}

/// A program that writes GGUF files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Program {
    /// `convert_hf_to_gguf.py` of llama.cpp, or this program, which writes the same bytes: exactly the planned keys and tensors, in order.
    Converter,
    /// `llama-quantize` of llama.cpp, or this program: the planned keys in order, and after them the two that quantizing sets.
    Quantizer,
}

impl State {
    /// The name of the state in reports: `identical`, `rounded`, `encoded`, `within`, `different`, `missing` or `extra`.
    pub fn name(&self) -> &'static str {
        match self {
            State::Identical => "identical",
            State::Rounded => "rounded",
            State::Encoded(_) => "encoded",
            State::Within(_) => "within",
            State::Different(_) => "different",
            State::Missing => "missing",
            State::Extra => "extra",
        }
    }

    /// Whether the tensor is what the checkpoint makes of it: identical, identical after rounding, encoded from it, or within the errors
    /// that its type explains.
    pub fn is_good(&self) -> bool {
        matches!(self, State::Identical | State::Rounded | State::Encoded(_) | State::Within(_))
    }
}

impl Verification {
    /// The name of a key, its value in the plan and its value in the file.
    pub fn values(&self, key: &KeyDiff) -> (Str<'_>, [Option<ValueRef<'_>>; 2]) {
        let planned = key.a.and_then(|index| self.planned.kv_by_index(index));
        let stored = key.b.and_then(|index| self.file.model().gguf().kv_by_index(index));
        let name = planned.or(stored).map_or(Str(b""), |kv| kv.key);
        (name, [planned, stored].map(|kv| kv.map(|kv| kv.value)))
    }

    /// Whether a key describes the file rather than the model: nothing that a model computes depends on it.
    pub fn is_description(&self, key: &KeyDiff) -> bool {
        is_description(self.values(key).0.as_bytes())
    }

    /// Whether the file was made from the checkpoint: every tensor [is good](State::is_good), and no key differs but descriptions.
    pub fn is_good(&self) -> bool {
        self.tensors.iter().all(|tensor| tensor.state.is_good()) && self.keys.iter().all(|key| self.is_description(key))
    }

    /// The tensors that are within the errors of their types, but have other bytes than any encoding that was tried.
    pub fn n_within(&self) -> usize {
        self.tensors.iter().filter(|tensor| matches!(tensor.state, State::Within(_))).count()
    }
}

/// Whether a key describes a file rather than its model.
fn is_description(key: &[u8]) -> bool {
    const OF_MODEL: [&str; 3] = [GENERAL_ARCHITECTURE, GENERAL_ALIGNMENT, GENERAL_TYPE];
    is_of_run(key) || key.starts_with(b"general.") && OF_MODEL.iter().all(|of_model| key != of_model.as_bytes())
}

/// Whether a key depends on the types and the split of a file, or was added by a quantization.
fn is_of_run(key: &[u8]) -> bool {
    [GENERAL_FILE_TYPE, GENERAL_QUANTIZATION_VERSION].iter().any(|known| key == known.as_bytes())
        || [&b"quantize."[..], b"split.", b"ggufkit."].iter().any(|prefix| key.starts_with(prefix))
}

/// The options of the conversion that makes a file like this one: its type, byte order and kind, and everything else from `options`.
pub fn options_for(file: &Model, options: Options) -> Options {
    let gguf = file.gguf();
    let text = |key: &str| gguf.get_as::<&str>(key).ok();
    let ty =
        match gguf.get_as::<u32>(GENERAL_FILE_TYPE).ok().and_then(|ty| FileType(ty).info()).map(|info| info.label()) {
            Some("F32") => OutType::F32,
            Some("F16") => OutType::F16,
            Some("BF16") => OutType::BF16,
            Some("Q8_0") => OutType::Q8_0,
            Some("TQ1_0") => OutType::TQ1_0,
            Some("TQ2_0") => OutType::TQ2_0,
            _ => OutType::Lossless,
        };
    let is_projector = text(GENERAL_ARCHITECTURE) == Some("clip") || text(GENERAL_TYPE) == Some("mmproj");
    let is_vocab_only = file.tensors().next().is_none();
    options.ty(ty).order(gguf.dialect().order).projector(is_projector).vocab_only(is_vocab_only)
}

/// Compares a file with the plan of its conversion: every tensor, and every key-value. The types of the plan do not matter, because the
/// values are compared in those of the file. [`options_for`] has the options for the plan, so that its key-values are those of the file.
///
/// The values of a quantized tensor are encoded as llama.cpp does, with the importance matrix `matrix` or without one, directly or rounded
/// to half precision first. If no encoding has the bytes of the file, the file is decoded, and the errors are compared with
/// [the bound of the type](gguf_pipeline::verify::bound). A tensor of which most blocks are equal to an encoding has been altered in the others.
///
/// ```
/// use ggufkit::{Model, RunOptions, hf, verify};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("model.gguf");
/// # ggufkit::convert("../../examples/glossary", &path)?;
/// let file = Model::open(path)?;
/// let conversion = hf::plan("../../examples/glossary", &verify::options_for(&file, hf::Options::default()))?;
/// let verification = verify::verify(file, &conversion.plan, None, &RunOptions::default(), &())?;
/// assert!(verification.is_good());
/// # Ok::<(), ggufkit::Error>(())
/// ```
///
/// # Errors
/// If the checkpoint or the file cannot be read, the importance matrix does not belong to the model, or the work is cancelled.
pub fn verify(
    file: Model,
    planned: &Plan,
    matrix: Option<Arc<ImatrixFile>>,
    options: &RunOptions,
    progress: &dyn Progress,
) -> Result<Verification, Error> {
    let file = GgufSource::open(file)?;
    let layout = Head { tensors: Vec::new(), ..planned.head().clone() }.layout();
    let head = layout.map_err(|source| gguf_pipeline::Error::Layout { path: planned.path().to_owned(), source })?;
    let head = Gguf::parse(head.head().to_vec())?;
    let (keys, n_same_keys) = diff_keys(&head, file.model().gguf());
    let (mut tensors, pairs) = pair(planned, &file);
    let draft = planned.to_draft();
    let comparison = Comparison { draft: &draft, matrix, file: &file, options, progress };
    comparison.compare_data(&draft, &pairs, &mut tensors)?;
    comparison.find_causes(&pairs, &mut tensors)?;
    let made = Made {
        file_type: file.model().gguf().get_as::<u32>(GENERAL_FILE_TYPE).ok().map(FileType),
        program: program(&head, planned, &file),
        imatrix: file.model().gguf().get_as::<&str>(gguf_format::keys::QUANTIZE_IMATRIX_FILE).ok().map(str::to_owned),
    };
    Ok(Verification { keys, n_same_keys, tensors, made, planned: head, file })
}

/// All tensors, with what shows without their data; and the pairs whose data is to be compared, each with its place in the list.
fn pair(planned: &Plan, file: &GgufSource) -> (Vec<VerifiedTensor>, Vec<(usize, Pair)>) {
    let mut by_name: HashMap<Vec<u8>, usize> =
        file.tensors().enumerate().map(|(i, tensor)| (tensor.name().as_bytes().to_vec(), i)).collect();
    let (mut tensors, mut pairs) = (Vec::new(), Vec::new());
    for (i, tensor) in planned.tensors().iter().enumerate() {
        let found = by_name.remove(&*tensor.name).and_then(|stored| Some((stored, file.tensor(stored)?)));
        let Some((stored, found)) = found else {
            tensors.push(VerifiedTensor::new(tensor.shown(), None, State::Missing));
            continue;
        };
        let shape: Shape = found.shape().collect();
        let state = if shape.without_ones() != tensor.shape.without_ones() {
            State::Different(Difference::Shape(tensor.shape.to_vec(), shape.to_vec()))
        } else if !is_comparable(tensor.op.value_type(), found.ty()) {
            State::Different(Difference::Type { planned: tensor.op.value_type() })
        } else {
            pairs.push((tensors.len(), Pair { planned: i, stored }));
            State::Identical
        };
        tensors.push(VerifiedTensor::new(tensor.shown(), Some(found.ty()), state));
    }
    let mut extra: Vec<usize> = by_name.into_values().collect();
    extra.sort_unstable();
    for tensor in extra.into_iter().filter_map(|i| file.tensor(i)) {
        let name = gguf_format::check::shown(tensor.name());
        tensors.push(VerifiedTensor::new(name, Some(tensor.ty()), State::Extra));
    }
    (tensors, pairs)
}

/// Whether values of one type can be compared in another.
fn is_comparable(planned: GgmlType, stored: GgmlType) -> bool {
    let can_encode = || codec(stored).is_some_and(|codec| codec.can_encode());
    planned == stored || codec(planned).is_some() && can_encode()
}

/// Whether a type has all values of another.
fn has_all_values(wide: GgmlType, narrow: GgmlType) -> bool {
    wide == narrow || wide == GgmlType::F32 && matches!(narrow, GgmlType::F16 | GgmlType::BF16)
}

/// The ways to encode values that are tried, in order.
struct Encodings {
    plain: Draft,
    drafts: Vec<(Encoding, Draft)>,
}

impl Encodings {
    fn of(plain: Draft, matrix: Option<Arc<ImatrixFile>>) -> Result<Encodings, Error> {
        let weighted = match matrix {
            Some(matrix) => {
                let options = QuantizeOptions::default();
                let copy = plan(plain.clone(), Some(matrix), &options, &Target::Copy)?.plan.into_draft();
                Some(Draft { tensors: in_order_of(&plain, &copy), ..copy })
            }
            None => None,
        };
        let mut drafts = Vec::new();
        for rounded_to in [None, Some(GgmlType::F16), Some(GgmlType::BF16)] {
            for (is_weighted, draft) in [(true, weighted.as_ref()), (false, Some(&plain))] {
                let Some(draft) = draft else { continue };
                let draft = rounded_to.map_or_else(|| draft.clone(), |ty| rounded(draft, ty));
                drafts.push((Encoding { rounded_to, is_weighted }, draft));
            }
        }
        Ok(Encodings { plain, drafts })
    }

    /// Compares the data of pairs.
    fn compare_data(
        &self,
        file: &GgufSource,
        pairs: &[(usize, Pair)],
        tensors: &mut [VerifiedTensor],
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        let first = &self.plain;
        // The pairs that no encoding explains so far, and the closest one.
        let mut left: Vec<(usize, Pair, Option<Compared>)> = pairs.iter().map(|(i, pair)| (*i, *pair, None)).collect();
        for (encoding, draft) in &self.drafts {
            let is_tried = |(_, pair, _): &(usize, Pair, Option<Compared>)| {
                let plain = first.tensors.get(pair.planned).zip(file.tensor(pair.stored));
                let has_weights = draft.tensors.get(pair.planned).is_some_and(|tensor| tensor.importance.is_some());
                plain.is_some_and(|(plain, stored)| is_applicable(*encoding, plain, has_weights, stored.ty()))
            };
            let (tried, others): (Vec<_>, Vec<_>) = left.into_iter().partition(is_tried);
            left = others;
            let pairs: Vec<Pair> = tried.iter().map(|(_, pair, _)| *pair).collect();
            let found = match compare(draft, &pairs, file, options, progress) {
                // Values may exceed the range of half precision, which only shows that this encoding was not used.
                Err(gguf_pipeline::Error::NotFinite { .. }) if encoding.rounded_to.is_some() => {
                    left.extend(tried);
                    continue;
                }
                found => found?,
            };
            for ((i, pair, closest), found) in tried.into_iter().zip(found) {
                match tensors.get_mut(i) {
                    Some(tensor) if found.is_equal() => tensor.state = equal(*encoding, first, pair, tensor.ty),
                    _ => {
                        let is_closer = closest.is_none_or(|closest: Compared| closeness(&found) > closeness(&closest));
                        left.push((i, pair, if is_closer { Some(found) } else { closest }));
                    }
                }
            }
            left.sort_unstable_by_key(|(i, ..)| *i);
        }
        self.explain(first, file, left, tensors, options, progress)
    }

    /// Judges the tensors that no encoding explains.
    fn explain(
        &self,
        draft: &Draft,
        file: &GgufSource,
        left: Vec<(usize, Pair, Option<Compared>)>,
        tensors: &mut [VerifiedTensor],
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        let is_quantized = |pair: &Pair| file.tensor(pair.stored).is_some_and(|tensor| tensor.ty().is_quantized());
        let is_computed = |pair: &Pair| draft.tensors.get(pair.planned).is_some_and(|tensor| is_computed(&tensor.op));
        let mut unexplained = Vec::new();
        for (i, pair, closest) in left {
            let is_altered = match is_quantized(&pair) {
                true => closest.is_some_and(|closest| closest.is_altered()),
                false => !is_computed(&pair),
            };
            match (tensors.get_mut(i), closest) {
                (Some(tensor), Some(closest)) if is_altered => {
                    tensor.state = State::Different(Difference::Bytes(closest));
                }
                _ => unexplained.push((i, pair)),
            }
        }
        let pairs: Vec<Pair> = unexplained.iter().map(|(_, pair)| *pair).collect();
        let found = explain(draft, &pairs, file, options, progress)?;
        for ((i, _), explained) in unexplained.into_iter().zip(found) {
            let Some(tensor) = tensors.get_mut(i) else { continue };
            tensor.state = match explained.n_outside {
                0 => State::Within(explained),
                _ => State::Different(Difference::Errors(explained)),
            };
        }
        Ok(())
    }
}

/// Whether values are those of functions that libraries compute with different last places.
fn is_computed(op: &Op) -> bool {
    let computes = |map: &Elementwise| matches!(map, Elementwise::NegExp | Elementwise::Softplus);
    matches!(op, Op::Gather(gather) if gather.maps.iter().any(computes))
}

/// Orders comparisons by the part of equal blocks.
fn closeness(compared: &Compared) -> (bool, u64) {
    (compared.is_whole, compared.n_blocks - compared.n_different.min(compared.n_blocks))
}

/// Whether an encoding is tried for a tensor: it can be done, and has other values or weights than those before. `plain` is the tensor of the
/// plan, `is_weighted` whether the draft of the encoding has weights for it.
fn is_applicable(encoding: Encoding, plain: &TensorPlan, has_weights: bool, stored: GgmlType) -> bool {
    let is_rounded = encoding.rounded_to.is_none_or(|ty| stored.is_quantized() && is_rounded_to(plain, ty));
    let Some(codec) = codec(stored) else { return encoding == Encoding { rounded_to: None, is_weighted: false } };
    is_rounded
        && encoding.is_weighted == (has_weights && codec.matrix != Matrix::Ignored)
        && (codec.matrix != Matrix::Required || encoding.is_weighted)
}

/// Whether a file of a float type, between a conversion and a quantization, has rounded values of a tensor.
fn is_rounded_to(tensor: &TensorPlan, ty: GgmlType) -> bool {
    let values = tensor.op.value_type();
    tensor.shape.len() > 1 && values != ty && matches!(values, GgmlType::F32 | GgmlType::BF16 | GgmlType::F16)
}

/// The state of a tensor whose bytes are those of an encoding.
fn equal(encoding: Encoding, draft: &Draft, pair: Pair, stored: Option<GgmlType>) -> State {
    let values = draft.tensors.get(pair.planned).map(|tensor| tensor.op.value_type());
    match stored.zip(values) {
        Some((stored, values)) if has_all_values(stored, values) => State::Identical,
        Some((stored, _)) if !stored.is_quantized() => State::Rounded,
        _ => State::Encoded(encoding),
    }
}

/// The tensors of a draft in the order of another one.
fn in_order_of(order: &Draft, draft: &Draft) -> Vec<TensorPlan> {
    let by_name: HashMap<&[u8], &TensorPlan> = draft.tensors.iter().map(|tensor| (&*tensor.name, tensor)).collect();
    order.tensors.iter().map(|tensor| (*by_name.get(&*tensor.name).unwrap_or(&tensor)).clone()).collect()
}

/// A draft whose matrices of floats are rounded to a type first, and which then follows the rules of ggml, as a quantization of a converted
/// file.
fn rounded(draft: &Draft, ty: GgmlType) -> Draft {
    let (mut between, mut rounded) = (draft.clone(), draft.clone());
    for (i, (first, second)) in between.tensors.iter_mut().zip(&mut rounded.tensors).enumerate() {
        first.ty = if is_rounded_to(first, ty) { ty } else { first.op.value_type() };
        second.origin_mut().op = Op::Copy(Input::new(i, "", first.ty));
    }
    rounded.source = Stage::new([between]).shared();
    rounded.rounding = Rounding::Ggml;
    rounded
}

/// The program that wrote a file, as far as its keys and their order show it.
fn program(planned: &Gguf<'_>, plan: &Plan, file: &GgufSource) -> Option<Program> {
    let of_model = |gguf: &Gguf<'_>| -> Vec<Vec<u8>> {
        let kvs = gguf.kvs().filter(|kv: &KvRef<'_>| !is_of_run(kv.key.as_bytes()));
        kvs.map(|kv| kv.key.as_bytes().to_vec()).collect()
    };
    let gguf = file.model().gguf();
    if of_model(planned) != of_model(gguf) {
        return None;
    }
    let place = |gguf: &Gguf<'_>, key: &str| gguf.kvs().position(|kv| kv.key == *key);
    let same_tensors =
        || plan.tensors().iter().map(|tensor| &*tensor.name).eq(file.tensors().map(|t| t.name().as_bytes()));
    if place(planned, GENERAL_FILE_TYPE) == place(gguf, GENERAL_FILE_TYPE) && same_tensors() {
        return Some(Program::Converter);
    }
    // `llama_model_quantize_impl` sets these two, which moves them behind all others, then the keys of the importance matrix.
    let last: Vec<Vec<u8>> =
        gguf.kvs().map(|kv| kv.key.as_bytes().to_vec()).filter(|key| !key.starts_with(b"split.")).collect();
    let mut last = last.iter().rev().skip_while(|key| key.starts_with(b"quantize."));
    let is_quantizer = last.next().is_some_and(|key| key == GENERAL_FILE_TYPE.as_bytes())
        && last.next().is_some_and(|key| key == GENERAL_QUANTIZATION_VERSION.as_bytes());
    is_quantizer.then_some(Program::Quantizer)
}
