//! LoRA adapters merged into their base model: an edit of its plan.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use gguf_format::check::shown;
use gguf_format::keys::{GENERAL_ARCHITECTURE, GENERAL_TYPE};
use gguf_format::{GgmlType, Str};
use gguf_pipeline::plan::{Draft, Input, LowRank, Op, Term};
use gguf_pipeline::{Stage, TensorPlan};

/// A draft of an adapter, and the scale to apply it with.
///
/// The draft is that of an adapter in GGUF ([`Draft::copy_of`]), or of the conversion of one in the format of PEFT ([`plan`](fn@crate::plan)).
#[derive(Debug, Clone)]
pub struct LoraAdapter {
    /// The adapter.
    pub draft: Draft,
    /// The number by which its changes are multiplied, besides its own scale: that of `--lora-scaled` in llama.cpp.
    pub scale: f32,
}

/// The type of merged tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergedType {
    /// The type of the tensor in the base model.
    OfBase,
    /// Single precision, from which the draft can be quantized.
    Single,
}

/// A base model with merged adapters.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoraMerge {
    /// The draft of the merged model.
    pub draft: Draft,
    /// Number of tensors that the adapters change.
    pub n_merged: usize,
    /// The tensors of adapters that are ignored, as by llama.cpp: norms.
    pub ignored: Vec<String>,
}

/// Why an adapter cannot be merged.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum LoraError {
    /// The file is not a LoRA adapter.
    NotAnAdapter {
        /// The file or folder.
        path: PathBuf,
        /// The key that shows it, and its value.
        key: &'static str,
        /// The value; `None` if it is missing.
        found: Option<String>,
    },
    /// The base is an adapter.
    BaseIsAdapter {
        /// The file or folder.
        path: PathBuf,
    },
    /// The adapter is for another architecture.
    Architecture {
        /// The adapter.
        path: PathBuf,
        /// The architecture of the adapter.
        found: String,
        /// The architecture of the base model.
        expected: String,
    },
    /// The base model does not have a tensor that the adapter changes.
    NoTensor {
        /// The adapter.
        path: PathBuf,
        /// The tensor of the base model.
        tensor: String,
    },
    /// One of the two factors of a tensor is missing.
    Unpaired {
        /// The adapter.
        path: PathBuf,
        /// The factor that is missing.
        missing: String,
    },
    /// The adapter has a tensor that is neither a factor nor a norm.
    Unexpected {
        /// The adapter.
        path: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// The product of the factors does not have the shape of the tensor.
    Shape {
        /// The adapter.
        path: PathBuf,
        /// The tensor of the base model.
        tensor: String,
        /// Its shape.
        base: Vec<u64>,
        /// The shapes of `lora_a` and `lora_b`.
        factors: [Vec<u64>; 2],
    },
    /// A number is not finite.
    Scale {
        /// The adapter.
        path: PathBuf,
        /// The number.
        scale: f32,
    },
}

impl std::error::Error for LoraError {}

impl fmt::Display for LoraError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoraError::NotAnAdapter { path, key, found } => {
                let found = found.as_ref().map_or("nothing".to_owned(), |found| format!("{found:?}"));
                let expected = if *key == GENERAL_TYPE { "adapter" } else { "lora" };
                write!(f, "{}: is not a LoRA adapter: {key} is {found}, expected {expected:?}", path.display())
            }
            LoraError::BaseIsAdapter { path } => {
                write!(f, "{}: is an adapter; expected the base model", path.display())
            }
            LoraError::Architecture { path, found, expected } => write!(
                f,
                "{}: is an adapter for the architecture {found:?}, and the base model has {expected:?}",
                path.display()
            ),
            LoraError::NoTensor { path, tensor } => write!(
                f,
                "{}: changes {tensor}, which the base model does not have; the adapter is for another model",
                path.display()
            ),
            LoraError::Unpaired { path, missing } => write!(f, "{}: {missing} is missing", path.display()),
            LoraError::Unexpected { path, tensor } => write!(
                f,
                "{}: {tensor} is not a factor of a matrix; expected names that end with .lora_a and .lora_b",
                path.display()
            ),
            LoraError::Shape { path, tensor, base, factors: [a, b] } => write!(
                f,
                "{}: the factors of {tensor} have the shapes {a:?} and {b:?}, whose product does not have the shape {base:?} of the base model; the adapter is for another model",
                path.display()
            ),
            LoraError::Scale { path, scale } => {
                write!(f, "{}: the scale {scale} is not a finite number", path.display())
            }
        }
    }
}

/// Merges adapters into a base model: each matrix becomes `base + scale * alpha / rank * (lora_b * lora_a)`, for one adapter after the other,
/// in single precision, as in llama.cpp's `llama-export-lora`. Without `adapter.lora.alpha`, or if it is 0, the product is multiplied by
/// `scale` alone. Several adapters may change different tensors.
///
/// The base is the draft of a model in GGUF or of a checkpoint. Its quantized tensors are decoded where an adapter changes them. Nothing is
/// read here; the run of the result reads every tensor once.
///
/// ```no_run
/// use gguf_hf::lora::{LoraAdapter, MergedType, merge};
/// use gguf_pipeline::{Draft, RunOptions};
///
/// let adapter = LoraAdapter { draft: Draft::copy_of("adapter.gguf")?, scale: 1.0 };
/// let merged = merge(Draft::copy_of("model.gguf")?, &[adapter], MergedType::OfBase)?;
/// merged.draft.lay_out()?.run("merged.gguf", &RunOptions::default(), &())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`LoraError`], which names the adapter and the tensor.
pub fn merge(base: Draft, adapters: &[LoraAdapter], ty: MergedType) -> Result<LoraMerge, LoraError> {
    let architecture = text(&base, GENERAL_ARCHITECTURE).unwrap_or_default();
    if text(&base, GENERAL_TYPE).as_deref() == Some("adapter") {
        return Err(LoraError::BaseIsAdapter { path: base.path });
    }
    let mut changes: BTreeMap<usize, Change> = BTreeMap::new();
    let mut ignored = Vec::new();
    let mut first = base.tensors.len();
    for adapter in adapters {
        expect_adapter(adapter, &architecture)?;
        for (index, pair) in pairs_of(adapter, &base, &mut ignored)? {
            let Some(tensor) = base.tensors.get(index) else { continue };
            let (term, inputs) = term(adapter, tensor, pair, first)?;
            let change = changes.entry(index).or_default();
            change.terms.push(term);
            change.factors.extend(inputs);
        }
        first += adapter.draft.tensors.len();
    }
    let n_merged = changes.len();
    Ok(LoraMerge { draft: merged(base, adapters, changes, ty), n_merged, ignored })
}

/// The change of a tensor.
#[derive(Default)]
struct Change {
    terms: Vec<Term>,
    /// Two for each term.
    factors: Vec<Input>,
}

/// The base model with the changes.
fn merged(base: Draft, adapters: &[LoraAdapter], mut changes: BTreeMap<usize, Change>, ty: MergedType) -> Draft {
    let mut values = base.clone();
    let mut draft = base;
    for (index, (value, tensor)) in values.tensors.iter_mut().zip(&mut draft.tensors).enumerate() {
        value.ty = value.op.value_type();
        let base = Input::new(index, "", value.ty);
        let origin = tensor.origin_mut();
        origin.op = match changes.remove(&index) {
            None => Op::Copy(base),
            Some(Change { terms, factors }) => {
                let dim = |i: usize| origin.shape.get(i).copied().unwrap_or(1);
                let (n_columns, n_rows) = (dim(0), dim(1));
                let inputs = std::iter::once(base).chain(factors).collect();
                origin.from = GgmlType::F32;
                Op::LowRank(Box::new(LowRank { inputs, terms: terms.into(), n_columns, n_rows }))
            }
        };
        if ty == MergedType::Single && matches!(tensor.op, Op::LowRank(_)) {
            tensor.ty = GgmlType::F32;
        }
    }
    draft.inputs.extend(adapters.iter().flat_map(|adapter| adapter.draft.inputs.clone()));
    let drafts = adapters.iter().map(|adapter| adapter.draft.clone());
    draft.source = Stage::new(std::iter::once(values).chain(drafts)).shared();
    draft
}

fn text(draft: &Draft, key: &str) -> Option<String> {
    draft.head.get(key)?.as_str().map(shown)
}

/// Checks that a draft is that of a LoRA adapter for an architecture.
fn expect_adapter(adapter: &LoraAdapter, architecture: &str) -> Result<(), LoraError> {
    let path = || adapter.draft.path.clone();
    for (key, expected) in [(GENERAL_TYPE, "adapter"), ("adapter.type", "lora")] {
        let found = text(&adapter.draft, key);
        if found.as_deref() != Some(expected) {
            return Err(LoraError::NotAnAdapter { path: path(), key, found });
        }
    }
    let found = text(&adapter.draft, GENERAL_ARCHITECTURE).unwrap_or_default();
    if found != architecture {
        return Err(LoraError::Architecture { path: path(), found, expected: architecture.to_owned() });
    }
    match adapter.scale.is_finite() && alpha_of(&adapter.draft).is_finite() {
        true => Ok(()),
        false if adapter.scale.is_finite() => Err(LoraError::Scale { path: path(), scale: alpha_of(&adapter.draft) }),
        false => Err(LoraError::Scale { path: path(), scale: adapter.scale }),
    }
}

/// `adapter.lora.alpha`; 0 if it is missing.
fn alpha_of(draft: &Draft) -> f32 {
    draft.head.get("adapter.lora.alpha").and_then(|alpha| alpha.get::<f32>().ok()).unwrap_or(0.0)
}

/// The factors of each tensor that an adapter changes: the index of the tensor in the base model, and those of `lora_a` and `lora_b` in the
/// adapter.
fn pairs_of(
    adapter: &LoraAdapter,
    base: &Draft,
    ignored: &mut Vec<String>,
) -> Result<BTreeMap<usize, [usize; 2]>, LoraError> {
    let path = |draft: &Draft| draft.path.clone();
    let by_name: BTreeMap<&[u8], usize> = base.tensors.iter().zip(0..).map(|(tensor, i)| (&*tensor.name, i)).collect();
    let mut found: BTreeMap<&[u8], [Option<usize>; 2]> = BTreeMap::new();
    for (index, tensor) in adapter.draft.tensors.iter().enumerate() {
        let factor = |suffix: &[u8]| tensor.name.strip_suffix(suffix);
        let (name, place) = match (factor(b".lora_a"), factor(b".lora_b")) {
            (Some(name), _) => (name, 0),
            (_, Some(name)) => (name, 1),
            _ if tensor.name.ends_with(b"_norm.weight") => {
                ignored.push(tensor.shown());
                continue;
            }
            _ => return Err(LoraError::Unexpected { path: path(&adapter.draft), tensor: tensor.shown() }),
        };
        if let Some(slot) = found.entry(name).or_default().get_mut(place) {
            *slot = Some(index);
        }
    }
    let pair = |(name, pair): (&[u8], [Option<usize>; 2])| {
        let missing = |suffix| LoraError::Unpaired {
            path: path(&adapter.draft),
            missing: format!("{}{suffix}", shown(Str(name))),
        };
        let [a, b] = pair;
        let pair = [a.ok_or_else(|| missing(".lora_a"))?, b.ok_or_else(|| missing(".lora_b"))?];
        let index = by_name.get(name).copied();
        let index =
            index.ok_or_else(|| LoraError::NoTensor { path: path(&adapter.draft), tensor: shown(Str(name)) })?;
        Ok((index, pair))
    };
    found.into_iter().map(pair).collect()
}

/// The term that an adapter adds to a tensor, and its factors: first the one with the columns of the tensor, then the one with its rows.
/// `first` is the index of the adapter's first tensor in the source.
///
/// The factors of token embeddings are exchanged, because llama.cpp looks up rows of `lora_a`.
fn term(
    adapter: &LoraAdapter,
    tensor: &TensorPlan,
    [a, b]: [usize; 2],
    first: usize,
) -> Result<(Term, [Input; 2]), LoraError> {
    let shape_of = |index: usize| adapter.draft.tensors.get(index).map_or(&[][..], |factor| &factor.shape);
    let is_transposed = tensor.name.starts_with(b"token_embd");
    let dims = |shape: &[u64]| [0, 1, 2, 3].map(|i| shape.get(i).copied().unwrap_or(1));
    let [[a0, a1, a2, a3], [b0, b1, b2, b3], [columns, rows, matrices, more]] =
        [dims(shape_of(a)), dims(shape_of(b)), dims(&tensor.shape)];
    let fits = match is_transposed {
        true => [a0, a1, b1] == [b0, rows, columns],
        false => [a0, a1, b1] == [columns, b0, rows],
    };
    if !fits || b0 == 0 || [a2, a3, b2, b3, more] != [matrices, 1, matrices, 1, 1] {
        return Err(LoraError::Shape {
            path: adapter.draft.path.clone(),
            tensor: tensor.shown(),
            base: tensor.shape.to_vec(),
            factors: [a, b].map(|factor| shape_of(factor).to_vec()),
        });
    }
    let alpha = alpha_of(&adapter.draft);
    let scale = if alpha == 0.0 { adapter.scale } else { adapter.scale * alpha / b0 as f32 };
    let input = |index: usize| {
        let ty = adapter.draft.tensors.get(index).map_or(GgmlType::F32, |factor| factor.ty);
        Input::new(first + index, "", ty)
    };
    let inputs = if is_transposed { [input(b), input(a)] } else { [input(a), input(b)] };
    Ok((Term { rank: b0, scale, is_transposed }, inputs))
}
