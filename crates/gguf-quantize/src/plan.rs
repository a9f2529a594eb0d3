//! Plans quantizations.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use gguf_format::check::Severity;
use gguf_format::keys::{
    self, FILE_TYPES, FileType, GENERAL_ARCHITECTURE, GENERAL_FILE_TYPE, GENERAL_QUANTIZATION_VERSION, GENERAL_TYPE,
    GGUFKIT_MIXTURE, KeyType,
};
use gguf_format::shard::{SPLIT_COUNT, SPLIT_NO, SPLIT_TENSORS_COUNT};
use gguf_format::sort::CompactSort as _;
use gguf_format::{GgmlType, Head, Str, Value, ValueRef};
use gguf_pipeline::plan::{Draft, Entry, Plan, TensorPlan};
use gguf_quants::codec::{Matrix, codec};

use crate::error::{Error, NothingToQuantize};
use crate::imatrix::{self, ImatrixFile, Use};
use crate::mix::recipe::idle_rules;
use crate::mix::{self, Decision, MixOptions, ModelFacts, Target, TensorFacts};
use crate::prune::prune;
use crate::warning::Warning;

/// `general.quantization_version`: the generation of ggml's quantized types (`GGML_QNT_VERSION` in `ggml.h`).
const QUANTIZATION_VERSION: u32 = 2;

/// The options of a quantization, for all ways to choose types.
///
/// ```
/// # use gguf_format::{GgmlType, Head, TensorInfo};
/// # let mut head = Head::default();
/// # head.set("general.architecture", "llama");
/// # head.tensors.push(TensorInfo::new("blk.0.ffn_down.weight", [256, 4], GgmlType::F32));
/// # let bytes = gguf_io::Writer::write(Vec::new(), &head, [vec![0u8; 4096]])?;
/// # let draft = gguf_pipeline::Draft::copy_of(gguf_io::Model::from_source(bytes, "model in memory")?)?;
/// use gguf_quantize::QuantizeOptions;
/// use gguf_quantize::mix::{Target, TensorTypeRule};
///
/// let mut options = QuantizeOptions::default();
/// options.mix.tensor_types.push(TensorTypeRule::parse("ffn_down=q8_0")?);
/// options.overrides.push(("general.name".into(), "Quantized".into()));
/// let plan = gguf_quantize::plan(draft, None, &options, &Target::parse("Q4_K_M")?)?.plan;
/// assert_eq!(plan.tensors()[0].ty, GgmlType::Q8_0);
/// let name = plan.head().get("general.name").and_then(|value| value.get::<&str>().ok());
/// assert_eq!(name, Some("Quantized"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct QuantizeOptions {
    /// The options for single tensors. Whether there is an importance matrix is set automatically.
    pub mix: MixOptions,
    /// Accepts tensors that are already quantized, which loses more precision than quantizing once.
    pub allow_requantize: bool,
    /// The numbers of the blocks to remove, in the original numbering.
    pub prune_layers: Vec<u64>,
    /// Keeps the shards of the model, each with its tensors.
    pub keep_split: bool,
    /// Key-values to set at the end, in order.
    pub overrides: Vec<(String, Value)>,
    /// Allows values of types that are not valid for their keys.
    pub allow_other_types: bool,
    /// The name of the mixture for [`GGUFKIT_MIXTURE`], if it is not that of the file type, such as that of a
    /// [recipe](crate::mix::recipe). The mixture of a [budget](crate::budget) is called `mixed` by default.
    pub mixture: Option<String>,
    /// Keys about the origin of the output, especially the importance matrix; see [`provenance`](imatrix::provenance). Overrides of the same
    /// keys take precedence.
    pub provenance: Vec<(&'static str, Value)>,
}

/// A planned quantization.
#[derive(Debug)]
#[non_exhaustive]
pub struct Quantization {
    /// The plan of the output.
    pub plan: Plan,
    /// Warnings for the user.
    pub warnings: Vec<Warning>,
}

impl Quantization {
    /// The number of converted tensors that are weighted by importance, and the number of converted tensors.
    pub fn coverage(&self) -> (usize, usize) {
        let changing = self.plan.tensors().iter().filter(|t| t.ty != t.from);
        changing.fold((0, 0), |(covered, n), t| (covered + usize::from(t.importance.is_some()), n + 1))
    }
}

/// A way to choose types: the mixture of a file type, or a target size.
pub trait ChooseTypes {
    /// The file type for the output's metadata, unless the choice determines another; `None` to keep the original.
    fn file_type(&self) -> Option<FileType>;

    /// The name of the mixture, unless [`QuantizeOptions::mixture`] has another; `None` if it is that of the file type.
    fn mixture(&self) -> Option<&'static str> {
        None
    }

    /// Chooses a type for each tensor.
    ///
    /// # Errors
    /// [`Error`], which names the tensor.
    fn choose(&self, model: &Undecided<'_>) -> Result<Chosen, Error>;
}

/// The result of [`ChooseTypes::choose`].
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The type of each tensor, with its reason.
    pub decisions: Vec<Decision>,
    /// The file type determined by the choice, if it was not known before.
    pub file_type: Option<FileType>,
    /// Whether the size limit was not reached although every tensor has its best candidate type.
    pub is_best: bool,
}

impl ChooseTypes for Target {
    fn file_type(&self) -> Option<FileType> {
        match self {
            Target::Copy => None,
            Target::FileType(ty) => Some(*ty),
        }
    }

    fn choose(&self, model: &Undecided<'_>) -> Result<Chosen, Error> {
        Ok(Chosen { decisions: model.mixture(*self)?, file_type: None, is_best: false })
    }
}

/// A model whose tensors have their final names and order, but still their original types.
#[derive(Debug)]
pub struct Undecided<'a> {
    draft: &'a Draft,
    model: ModelFacts,
    options: &'a MixOptions,
    allow_requantize: bool,
    matrix: Option<&'a ImatrixFile>,
    /// The names in the importance matrix: those before blocks were removed; empty if none were.
    old_names: &'a [Vec<u8>],
    /// The removed tensors.
    pruned: &'a [TensorPlan],
}

impl Undecided<'_> {
    /// The plan so far.
    pub fn draft(&self) -> &Draft {
        self.draft
    }

    /// Whether there is an importance matrix.
    pub fn has_imatrix(&self) -> bool {
        self.matrix.is_some()
    }

    /// The decisions of llama.cpp's quantizer for a file type, including the options.
    ///
    /// # Errors
    /// [`Error::Mix`].
    pub fn mixture(&self, target: Target) -> Result<Vec<Decision>, Error> {
        mix::decide_each(&self.model, self.draft.tensors.iter().map(facts_of), target, self.options)
            .map_err(|source| Error::Mix { path: self.draft.path.clone(), source })
    }

    /// Checks decisions: whether the importance matrix matches them, and whether the tensors can be quantized this way.
    ///
    /// # Errors
    /// Problems that prevent the quantization; all others are warnings.
    pub fn check_decisions(&self, decisions: &[Decision]) -> Result<Vec<Warning>, Error> {
        let path = &self.draft.path;
        let rules = &self.options.tensor_types;
        let idle = idle_rules(rules.len(), decisions);
        let mut warnings: Vec<Warning> =
            idle.into_iter().filter_map(|i| Some(Warning::IdleRule(rules.get(i)?.to_string()))).collect();
        let both = || self.draft.tensors.iter().zip(decisions);
        if let Some(matrix) = self.matrix {
            // The matrix was measured on the model before blocks were removed.
            let uses = both().enumerate().map(|(i, (t, decision))| Use {
                name: Str(self.old_names.get(i).map_or(&*t.name, Vec::as_slice)),
                ..Use::of(&facts_of(t), decision)
            });
            let pruned =
                self.pruned.iter().map(|t| Use { name: Str(&t.name), shape: &t.shape, ty: None, needs_imatrix: false });
            warnings.extend(matrix_warnings(matrix, path, &uses.chain(pruned).collect::<Vec<_>>())?);
        }
        let mut replaced = BTreeMap::new();
        for (t, decision) in both() {
            let changes = decision.ty != t.ty;
            if changes && t.ty.is_quantized() && !self.allow_requantize {
                return Err(Error::Requantize { path: path.clone(), tensor: t.shown(), from: t.ty });
            }
            // llama.cpp does not check this for the embeddings and the output, and aborts in the middle of the work.
            let needs = decision.needs_imatrix || needs_weights(decision.ty);
            if t.importance.is_none() && changes && needs {
                let (path, given) = (path.clone(), self.matrix.is_some());
                return Err(Error::NeedsMatrix { path, tensor: t.shown(), ty: decision.ty, given });
            }
            if let Some(wanted) = decision.instead_of {
                let row = t.shape.first().copied().unwrap_or(1);
                replaced.entry((wanted.0, decision.ty.0, row)).or_insert((t, wanted, decision.ty, 0u64)).3 += 1;
            }
        }
        warnings.extend(replaced.into_iter().map(|((_, _, row), (first, wanted, ty, n))| Warning::Fallback {
            first: first.shown(),
            n_more: n.saturating_sub(1),
            wanted,
            ty,
            row,
        }));
        Ok(warnings)
    }
}

fn facts_of(tensor: &TensorPlan) -> TensorFacts<'_> {
    TensorFacts { name: Str(&tensor.name), shape: &tensor.shape, ty: tensor.ty }
}

/// Plans the quantization of a draft's output; of its weights, at most a sample is read. All problems with an importance matrix, and with
/// its match with the model, are found here.
///
/// ```
/// # use gguf_format::{GgmlType, Head, TensorInfo};
/// # let mut head = Head::default();
/// # head.set("general.architecture", "llama");
/// # head.tensors.push(TensorInfo::new("output.weight", [256, 4], GgmlType::F32));
/// # let bytes = gguf_io::Writer::write(Vec::new(), &head, [vec![0u8; 4096]])?;
/// # let model = gguf_io::Model::from_source(bytes, "model in memory")?;
/// use gguf_pipeline::Draft;
/// use gguf_quantize::{QuantizeOptions, mix::Target, plan};
///
/// let draft = Draft::copy_of(model)?;
/// let quantized = plan(draft, None, &QuantizeOptions::default(), &Target::parse("Q4_K_M")?)?;
/// for warning in &quantized.warnings {
///     eprintln!("{warning}");
/// }
/// let output = &quantized.plan.tensors()[0];
/// assert_eq!((output.from, output.ty), (GgmlType::F32, GgmlType::Q6_K));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error`], which names the file or tensor.
pub fn plan(
    mut draft: Draft,
    matrix: Option<Arc<ImatrixFile>>,
    options: &QuantizeOptions,
    types: &dyn ChooseTypes,
) -> Result<Quantization, Error> {
    let kind = draft.head.get(GENERAL_TYPE).and_then(|v| v.as_str()).map(|kind| kind.to_string());
    let is_copy = types.file_type().is_none();
    let nothing = match kind.as_deref() {
        Some("imatrix") => Some(NothingToQuantize::Matrix),
        Some("adapter") if !is_copy => Some(NothingToQuantize::Adapter),
        _ if draft.tensors.is_empty() && !is_copy => Some(NothingToQuantize::NoTensors),
        _ => None,
    };
    if let Some(what) = nothing {
        return Err(Error::NotAModel { path: draft.path, what });
    }
    check_overrides(&draft, options)?;
    set_keys(&mut draft, options, types);
    // llama.cpp decides by the number of blocks before any are removed.
    let model = ModelFacts::of(|key| draft.head.get(key));
    let (old_names, pruned) = arrange(&mut draft, options)?;
    if let Some(matrix) = &matrix {
        for (i, tensor) in draft.tensors.iter_mut().enumerate() {
            let name = old_names.get(i).map_or(&*tensor.name, Vec::as_slice);
            let entry = matrix.entry(name).filter(|entry| entry.n_values == columns(tensor));
            tensor.importance = entry.map(|_| Box::new(Entry(name.into())));
        }
    }
    draft.importance = matrix.as_ref().map(|matrix| Arc::clone(matrix) as _);
    draft.inputs.extend(matrix.as_ref().and_then(|matrix| matrix.path()?.canonicalize().ok()));

    let mix_options = MixOptions { has_imatrix: matrix.is_some(), ..options.mix.clone() };
    let undecided = Undecided {
        draft: &draft,
        model,
        options: &mix_options,
        allow_requantize: options.allow_requantize,
        matrix: matrix.as_deref(),
        old_names: &old_names,
        pruned: &pruned,
    };
    let Chosen { decisions, file_type, is_best } = types.choose(&undecided)?;
    let mut warnings = undecided.check_decisions(&decisions)?;
    for (tensor, decision) in draft.tensors.iter_mut().zip(decisions) {
        // As in llama.cpp (`gguf_add_tensor` uses `ggml_n_dims`), except for copies and image models, whose shapes are kept.
        if !is_copy && !is_image(&draft.head) && tensor.shape.without_ones().len() < tensor.shape.len() {
            let shape = tensor.shape.without_ones().to_vec();
            tensor.origin_mut().shape = shape.into();
        }
        set_type(tensor, decision.ty);
        tensor.reason = decision.why;
        tensor.needs_importance = decision.needs_imatrix;
    }
    let is_overridden = options.overrides.iter().any(|(key, _)| key == GENERAL_FILE_TYPE);
    if let Some(ty) = file_type.filter(|_| !is_overridden) {
        draft.head.set(GENERAL_FILE_TYPE, ty.0);
    }
    // Unless tensors share data, the file is longer than the data of its tensors.
    let read = |t: &TensorPlan| t.op.copied().map(|_| t.from_bytes());
    let tensor_bytes = draft.tensors.iter().filter_map(read).fold(0, u64::saturating_add);
    let shared = draft.input_bytes.filter(|&input_bytes| tensor_bytes > input_bytes);
    let plan = draft.lay_out()?;
    if let Some(input_bytes) = shared {
        warnings.push(Warning::Shared { input_bytes, tensor_bytes, file_bytes: plan.file_bytes() });
    }
    if is_best {
        let n_bytes: u64 = plan.tensors().iter().map(TensorPlan::n_bytes).sum();
        let bits_per_weight = n_bytes as f64 * 8.0 / plan.n_elements().max(1) as f64;
        warnings.push(Warning::BestTypes { file_bytes: plan.file_bytes(), bits_per_weight });
    }
    Ok(Quantization { plan, warnings })
}

/// The result of a file type for a model.
#[derive(Debug)]
#[non_exhaustive]
pub struct Offer {
    /// The file type.
    pub file_type: FileType,
    /// The plan, or the reason why the model cannot be quantized this way. A plan that requires a missing matrix cannot be run.
    pub plan: Result<Plan, Error>,
    /// Whether a tensor requires an importance matrix for this file type.
    pub needs_matrix: bool,
}

/// The result of each file type for a draft, or an error if the model cannot be quantized at all. If a type needs an importance matrix and
/// none is given, the plan assumes one.
///
/// Each plan is made on demand: all of them together would take many times the memory of one.
///
/// ```
/// # use gguf_format::{GgmlType, Head, TensorInfo};
/// # let mut head = Head::default();
/// # head.set("general.architecture", "llama");
/// # head.tensors.push(TensorInfo::new("output.weight", [256, 4], GgmlType::F32));
/// # let bytes = gguf_io::Writer::write(Vec::new(), &head, [vec![0u8; 4096]])?;
/// # let draft = gguf_pipeline::Draft::copy_of(gguf_io::Model::from_source(bytes, "model in memory")?)?;
/// use gguf_quantize::{QuantizeOptions, offers};
///
/// let mut sizes = Vec::new();
/// for offer in offers(&draft, None, &QuantizeOptions::default()) {
///     let offer = offer?;
///     if let Ok(plan) = &offer.plan {
///         sizes.push((offer.file_type.to_string(), plan.file_bytes()));
///     }
/// }
/// sizes.sort_by_key(|(_, bytes)| *bytes);
/// assert_eq!(sizes.last().map(|(name, _)| name.as_str()), Some("F32"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn offers<'a>(
    draft: &'a Draft,
    matrix: Option<&'a Arc<ImatrixFile>>,
    options: &'a QuantizeOptions,
) -> impl Iterator<Item = Result<Offer, Error>> + 'a {
    let types = FILE_TYPES.iter().filter(|row| !row.removed).map(|row| FileType(row.id));
    types.map(move |file_type| offer(draft, matrix, options, file_type))
}

fn offer(
    draft: &Draft,
    matrix: Option<&Arc<ImatrixFile>>,
    options: &QuantizeOptions,
    file_type: FileType,
) -> Result<Offer, Error> {
    let target = Target::FileType(file_type);
    let judged = plan(draft.clone(), matrix.cloned(), options, &target);
    let (plan, needs_matrix) = match judged {
        Ok(quantization) => (Ok(quantization.plan), None),
        Err(Error::NeedsMatrix { given: false, .. }) => (with_matrix(draft, options, target), Some(true)),
        Err(e @ Error::NotAModel { .. }) => return Err(e),
        Err(e) => (Err(e), None),
    };
    let needs = |plan: &Plan| {
        let changing = plan.tensors().iter().filter(|t| t.ty != t.from);
        changing.into_iter().any(|t| t.needs_importance || needs_weights(t.ty))
    };
    let needs_matrix = needs_matrix.unwrap_or_else(|| plan.as_ref().is_ok_and(needs));
    Ok(Offer { file_type, plan, needs_matrix })
}

/// The plan as if an importance matrix covered every tensor.
fn with_matrix(draft: &Draft, options: &QuantizeOptions, target: Target) -> Result<Plan, Error> {
    let mut draft = draft.clone();
    set_keys(&mut draft, options, &target);
    let model = ModelFacts::of(|key| draft.head.get(key));
    arrange(&mut draft, options)?;
    let mix_options = MixOptions { has_imatrix: true, ..options.mix.clone() };
    let decisions = mix::decide_each(&model, draft.tensors.iter().map(facts_of), target, &mix_options)
        .map_err(|source| Error::Mix { path: draft.path.clone(), source })?;
    for (tensor, decision) in draft.tensors.iter_mut().zip(decisions) {
        set_type(tensor, decision.ty);
    }
    Ok(draft.lay_out()?)
}

/// Checks that values have types that are valid for their keys: known keys by the table, other keys by the type of an existing array.
fn check_overrides(draft: &Draft, options: &QuantizeOptions) -> Result<(), Error> {
    if options.allow_other_types {
        return Ok(());
    }
    let arch = draft.head.get(GENERAL_ARCHITECTURE).and_then(|value| value.as_str());
    let arch = arch.and_then(|arch| arch.to_str().ok());
    for (key, value) in &options.overrides {
        let kind = |value: ValueRef<'_>| match value {
            ValueRef::Array(array) => KeyType::Array(array.elem_type()),
            value => KeyType::Scalar(value.value_type()),
        };
        let given = kind(value.as_ref());
        let present = draft.head.get(key).map(kind);
        let Some(expected) = keys::expected_instead(key, arch, given, present) else { continue };
        let (path, key) = (draft.path.clone(), Str(key.as_bytes()).to_string());
        return Err(Error::OverrideType { path, key, given: given.to_string(), expected });
    }
    Ok(())
}

/// The key-values of the output, except for those about blocks.
fn set_keys(draft: &mut Draft, options: &QuantizeOptions, types: &dyn ChooseTypes) {
    let head = &mut draft.head;
    if let Some(ty) = types.file_type() {
        head.remove(GGUFKIT_MIXTURE);
        for (key, value) in [(GENERAL_QUANTIZATION_VERSION, QUANTIZATION_VERSION), (GENERAL_FILE_TYPE, ty.0)] {
            head.remove(key);
            head.set(key, value);
        }
        if let Some(name) = options.mixture.as_deref().or(types.mixture()) {
            head.set(GGUFKIT_MIXTURE, name);
        }
    }
    for key in [SPLIT_NO, SPLIT_COUNT, SPLIT_TENSORS_COUNT] {
        head.remove(key);
    }
    let is_free = |key: &str| options.overrides.iter().all(|(other, _)| other != key);
    let provenance = options.provenance.iter().map(|(key, value)| (*key, value)).filter(|(key, _)| is_free(key));
    for (key, value) in options.overrides.iter().map(|(key, value)| (key.as_str(), value)).chain(provenance) {
        head.remove(key);
        head.set(key, value.clone());
    }
}

/// Removes blocks and puts the tensors into the order of the output. Returns the original names of the tensors if blocks are removed, and
/// the removed tensors.
fn arrange(draft: &mut Draft, options: &QuantizeOptions) -> Result<(Vec<Vec<u8>>, Vec<TensorPlan>), Error> {
    let blocks = prune(&mut draft.head, &options.prune_layers)
        .map_err(|source| Error::Prune { path: draft.path.clone(), source })?;
    let kept = &mut draft.tensors;
    let pruned: Vec<TensorPlan> = kept.extract_if(.., |t| blocks.removes(&t.name)).collect();
    draft.is_split = options.keep_split;
    match options.keep_split {
        true => kept.compact_sort_by_key(|tensor| tensor.place),
        false if is_image(&draft.head) => {}
        false => kept.compact_sort_by(|a, b| mix::processing_order(&a.name, &b.name)),
    }
    let mut old_names = Vec::new();
    for tensor in kept {
        tensor.file = if options.keep_split { tensor.place.file } else { 0 };
        if !blocks.is_empty() {
            let name = blocks.renamed(&tensor.name).into_boxed_slice();
            old_names.push(std::mem::replace(&mut tensor.origin_mut().name, name).into_vec());
        }
    }
    Ok((old_names, pruned))
}

/// Whether the head is that of an image or video model.
fn is_image(head: &Head) -> bool {
    let name = head.get(GENERAL_ARCHITECTURE).and_then(|value| value.as_str());
    name.and_then(|name| name.to_str().ok()).is_some_and(keys::is_image_architecture)
}

/// Sets the type of a tensor; the type so far becomes that of an unquantized conversion. If it is so already, as in a copy, the origin stays
/// shared with other plans.
fn set_type(tensor: &mut TensorPlan, ty: GgmlType) {
    if tensor.from != tensor.ty {
        tensor.origin_mut().from = tensor.ty;
    }
    tensor.ty = ty;
}

/// Warnings about a matrix.
///
/// # Errors
/// If the matrix cannot be used with the model.
fn matrix_warnings(matrix: &ImatrixFile, model: &Path, uses: &[Use<'_>]) -> Result<Vec<Warning>, Error> {
    let mut warnings = Vec::new();
    let report = imatrix::check(matrix, uses);
    for finding in report.findings() {
        match finding.severity {
            Severity::Error => {
                return Err(Error::MatrixAtFault {
                    path: matrix.path().map(Path::to_owned),
                    model: model.to_owned(),
                    finding: Box::new(finding.into_owned()),
                    n_more: report.count(Severity::Error).saturating_sub(1),
                });
            }
            Severity::Warning => warnings.push(Warning::Imatrix(finding.into_owned())),
            _ => {}
        }
    }
    Ok(warnings)
}

/// Whether a type cannot be encoded without weights of importance.
pub(crate) fn needs_weights(ty: gguf_format::GgmlType) -> bool {
    codec(ty).is_some_and(|c| c.matrix == Matrix::Required)
}

/// The number of weights in a matrix for a tensor: one per column, for each matrix of a stack.
fn columns(tensor: &TensorPlan) -> u64 {
    let dim = |i: usize| tensor.shape.get(i).copied().unwrap_or(1);
    dim(0).saturating_mul(dim(2))
}
