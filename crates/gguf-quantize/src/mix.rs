//! The types of the tensors for each file type: the decisions of `llama-quantize`, as tables and pure functions.
//!
//! [`decide`] iterates over the tensors of a model in llama.cpp's order of quantization and makes a [`Decision`] for each: the type, and
//! why. The rules are in four tables: [`KEPT`] (tensors that are never quantized), [`RULES`] (the mixtures), [`FALLBACKS`] (rows that are
//! not whole blocks), and the names of file types.
//!
//! Decisions are those of `llama-quant.cpp`, except where llama.cpp aborts or fails:
//! * NVFP4 can be chosen as a file type, using the general rows of the table. Rows that are not whole blocks of NVFP4 become IQ4_NL.
//! * A type chosen for the output or the token embeddings whose blocks do not fit the rows is an error; llama.cpp aborts in the middle of
//!   the work.
//! * With experts, the number of the block is only required if a row needs it; llama.cpp aborts at every feed-forward tensor without such a
//!   number.
//! * A tensor that already has its target type needs no importance matrix.
//! * In patterns, `\D`, `\W`, `\S` and `\B` have their usual meaning; `llama-quantize` converts them to lower case.
//! * Projectors of images and audio have no heads here; llama.cpp aborts when it looks them up.
//! * A name of five letters does not match the suffix `weight`.

use core::cmp::Ordering;
use core::fmt;

use gguf_format::keys::{self, FileType};
use gguf_format::{GgmlType, Str, ValueRef};

mod fallback;
mod image;
mod keep;
mod pattern;
pub mod recipe;
mod rules;
mod target;

pub use fallback::FALLBACKS;
pub use gguf_pipeline::plan::{Keep, Reason};
pub use image::{IMAGE_RULES, ImageRule};
pub use keep::{KEPT, Kept};
pub use pattern::{Pattern, PatternError};
pub use rules::{Category, RULES, Rule, Scope, When};
pub use target::{ALIASES, Target, UnknownName, is_tensor_target, parse_tensor_type};

/// The hyperparameters that the mixtures use (`llama_hparams` in `llama-hparams.h`, read by `load_hparams` in `llama-model.cpp`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelFacts {
    /// `general.architecture`.
    pub architecture: String,
    /// Number of blocks, including those of multi-token prediction.
    pub n_layer: u64,
    /// Number of blocks of multi-token prediction.
    pub n_layer_nextn: u64,
    /// Attention heads of the first block.
    pub n_head: u64,
    /// Key-value heads of the first block.
    pub n_head_kv: u64,
    /// Number of experts.
    pub n_expert: u64,
}

impl ModelFacts {
    /// Reads the facts from the keys of a model, looked up by `get`: those of a file, or of a planned head. As in `llama_model_quantize`,
    /// overrides apply.
    ///
    /// Missing values and values of a wrong type are 0.
    pub fn of<'v>(get: impl Fn(&str) -> Option<ValueRef<'v>>) -> ModelFacts {
        let text = get(keys::GENERAL_ARCHITECTURE).and_then(|v| v.as_str()).and_then(|s| s.to_str().ok());
        let text = text.filter(|text| text.len() <= MAX_NAME);
        let architecture = text.unwrap_or_default().to_owned();
        let value = |key: &str| get(&keys::for_arch(key, &architecture));
        // A number for all blocks, or one for each.
        let first = |key: &str| match value(key)? {
            ValueRef::Array(all) => all.get(0)?.get::<u64>().ok(),
            one => one.get().ok(),
        };
        let n_head = first(keys::ATTENTION_HEAD_COUNT).unwrap_or(0);
        let n_head_kv = first(keys::ATTENTION_HEAD_COUNT_KV).unwrap_or(n_head);
        let int = |key| value(key).and_then(|v| v.get::<u64>().ok()).unwrap_or(0);
        let (mut n_layer, mut n_expert) = (int(keys::BLOCK_COUNT), int(keys::EXPERT_COUNT));
        let mut n_layer_nextn = int(keys::NEXTN_PREDICT_LAYERS);
        // Special cases of some architectures in `src/models`.
        match architecture.as_str() {
            "hunyuan_vl" | "hunyuan-dense" if n_expert <= 1 => n_expert = 0,
            // Repeated blocks are counted once per repetition.
            "nanbeige" => {
                let n_loops = value(keys::NUM_LOOPS).and_then(|v| v.get::<u64>().ok()).unwrap_or(1);
                if n_loops > 1 {
                    n_layer = n_layer.saturating_sub(n_layer_nextn).saturating_mul(n_loops);
                }
            }
            // A separate block selects the adapters.
            "graniteswitch" => {
                n_layer = n_layer.saturating_sub(n_layer_nextn).saturating_add(1);
                n_layer_nextn = 1;
            }
            _ => {}
        }
        ModelFacts { architecture, n_layer, n_layer_nextn, n_head, n_head_kv, n_expert }
    }

    /// The number of query heads per key-value head (`n_gqa` in `llama-hparams.cpp`).
    fn n_shared(&self) -> u64 {
        self.n_head.checked_div(self.n_head_kv).unwrap_or(0)
    }

    /// Whether llama.cpp classifies the model as one of 70 billion parameters (`LLM_TYPE_70B` in `src/models`).
    pub fn is_70b(&self) -> bool {
        let n_layer = self.n_layer.saturating_sub(self.n_layer_nextn);
        match self.architecture.as_str() {
            "llama" | "llama-embed" => n_layer == 80 && self.n_head != self.n_head_kv && self.n_expert != 8,
            "qwen2" | "deci" | "olmo" => n_layer == 80,
            "jais2" => n_layer == 68,
            _ => false,
        }
    }
}

/// The properties of a tensor that determine its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorFacts<'a> {
    /// The name in the output.
    pub name: Str<'a>,
    /// The dimensions, the contiguous one first.
    pub shape: &'a [u64],
    /// The current type.
    pub ty: GgmlType,
}

impl TensorFacts<'_> {
    fn row(&self) -> u64 {
        self.shape.first().copied().unwrap_or(1)
    }
}

/// The type of the tensors whose name matches a pattern.
///
/// ```
/// use gguf_format::GgmlType;
/// use gguf_quantize::mix::TensorTypeRule;
///
/// let rule = TensorTypeRule::parse(r"blk\.[01]\.ffn_down=q6_K")?;
/// assert_eq!(rule.ty, GgmlType::Q6_K);
/// assert!(rule.pattern.finds(b"blk.1.ffn_down.weight"));
/// assert!(!rule.pattern.finds(b"blk.2.ffn_down.weight"));
/// # Ok::<(), gguf_quantize::mix::TensorTypeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorTypeRule {
    /// The pattern; it matches anywhere in the name.
    pub pattern: Pattern,
    /// The type.
    pub ty: GgmlType,
}

impl TensorTypeRule {
    /// Parses `PATTERN=TYPE` (`parse_tensor_type` in `tools/quantize/quantize.cpp`): a regular expression, converted to lower case, and the
    /// name of a tensor type.
    ///
    /// # Errors
    /// If a part is missing, the type is unknown, or the regular expression is invalid.
    pub fn parse(text: &str) -> Result<TensorTypeRule, TensorTypeError> {
        let Some((pattern, ty)) = text.rsplit_once('=') else { return Err(TensorTypeError::NoType(cut(text))) };
        if pattern.is_empty() {
            return Err(TensorTypeError::NoPattern(cut(text)));
        }
        if ty.is_empty() {
            return Err(TensorTypeError::NoType(cut(text)));
        }
        let ty = parse_tensor_type(ty).map_err(TensorTypeError::Type)?;
        let pattern = Pattern::new(pattern).map_err(TensorTypeError::Pattern)?;
        Ok(TensorTypeRule { pattern, ty })
    }

    /// Parses a list of rules, separated by white space.
    ///
    /// # Errors
    /// The error of the first invalid rule.
    pub fn parse_list(text: &str) -> Result<Vec<TensorTypeRule>, TensorTypeError> {
        text.split_ascii_whitespace().map(TensorTypeRule::parse).collect()
    }
}

impl fmt::Display for TensorTypeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.pattern, self.ty)
    }
}

/// Truncates a text for an error message.
fn cut(text: &str) -> String {
    text.chars().take(96).collect()
}

/// An error in a `PATTERN=TYPE`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorTypeError {
    /// There is no type after an equals sign.
    NoType(String),
    /// There is no pattern before the equals sign.
    NoPattern(String),
    /// The type is unknown, or not a valid target.
    Type(UnknownName),
    /// The pattern is not a regular expression.
    Pattern(PatternError),
}

impl fmt::Display for TensorTypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = "expected PATTERN=TYPE, as in ffn_down=q6_K";
        match self {
            TensorTypeError::NoType(text) => write!(f, "missing type in `{}`; {form}", text.escape_debug()),
            TensorTypeError::NoPattern(text) => write!(f, "missing pattern in `{}`; {form}", text.escape_debug()),
            TensorTypeError::Type(e) => write!(f, "{e}"),
            TensorTypeError::Pattern(e) => write!(f, "{e}"),
        }
    }
}

impl core::error::Error for TensorTypeError {}

/// Options besides the file type (the fields of `llama_model_quantize_params`).
#[derive(Debug, Clone, Default)]
pub struct MixOptions {
    /// Whether all tensors get the default type of the file type, without a mixture.
    pub pure: bool,
    /// Whether `output.weight` is kept.
    pub leave_output_tensor: bool,
    /// The type of `output.weight`, or of the token embeddings if the model has no such tensor and
    /// [`token_embedding_type`](MixOptions::token_embedding_type) is not set.
    pub output_tensor_type: Option<GgmlType>,
    /// The type of the token embeddings.
    pub token_embedding_type: Option<GgmlType>,
    /// Types by name; the first matching rule is used. Ignored for plain float file types.
    pub tensor_types: Vec<TensorTypeRule>,
    /// Whether there is an importance matrix.
    pub has_imatrix: bool,
}

/// The decision for one tensor.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The target type.
    pub ty: GgmlType,
    /// The reason.
    pub why: Reason,
    /// The type that was chosen first, but whose blocks do not fit the rows.
    pub instead_of: Option<GgmlType>,
    /// Whether the type requires an importance matrix (`tensor_requires_imatrix` in `llama-quant.cpp`).
    pub needs_imatrix: bool,
}

impl fmt::Display for Decision {
    /// The reason, and whether the rows prevented another type.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.why)?;
        match self.instead_of.and_then(GgmlType::info) {
            Some(wanted) => write!(f, "; rows are not whole blocks of {}, as {} needs", wanted.block_len, wanted.name),
            None => Ok(()),
        }
    }
}

/// Reasons why no decision is possible.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MixError {
    /// A file type that is not a valid target.
    FileType(FileType),
    /// A type in the options that is not a valid target for tensors.
    TensorType(GgmlType),
    /// The name of a tensor is too long for a file.
    Name {
        /// The length.
        bytes: usize,
    },
    /// The blocks of a type chosen for the tensor do not fit its rows.
    PartialBlock {
        /// The tensor.
        tensor: String,
        /// The option: [`Reason::TokenEmbeddingType`] or [`Reason::OutputTensorType`].
        choice: Reason,
        /// The type.
        ty: GgmlType,
        /// Length of the rows.
        row: u64,
    },
    /// The type's blocks do not fit the rows, and there is no fallback for it.
    NoFallback {
        /// The tensor.
        tensor: String,
        /// The type.
        ty: GgmlType,
        /// Length of the rows.
        row: u64,
    },
    /// The rules are too many or too long for the number of tensors.
    Work {
        /// Number of rules.
        n_rules: usize,
        /// Number of tensors.
        n_tensors: usize,
    },
    /// The block of the tensor cannot be determined from its name.
    NoBlock {
        /// The tensor.
        tensor: String,
        /// Number of blocks.
        n_layer: u64,
    },
}

impl fmt::Display for MixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let block = |ty: &GgmlType| ty.info().map_or(0, |info| info.block_len);
        match self {
            MixError::FileType(ty) => write!(f, "the file type {ty} is obsolete; choose another one"),
            MixError::TensorType(ty) => {
                write!(f, "tensors cannot be quantized to {ty}; choose one of the types that models are stored in")
            }
            MixError::Name { bytes } => write!(f, "a tensor name has {bytes} bytes; at most {MAX_NAME} are allowed"),
            MixError::PartialBlock { tensor, ty, row, .. } => write!(
                f,
                "the tensor {tensor} has rows of {row} elements, and {ty}, which was chosen for it, has blocks of {}; \
                 choose a type whose blocks divide {row}",
                block(ty)
            ),
            MixError::NoFallback { tensor, ty, row } => write!(
                f,
                "the tensor {tensor} has rows of {row} elements, not whole blocks of {} as {ty} needs; choose another \
                 type for it",
                block(ty)
            ),
            MixError::Work { n_rules, n_tensors } => write!(
                f,
                "{n_rules} rules are too many or too long for {n_tensors} tensors: steps of all patterns times bytes of \
                 all names exceed {MAX_WORK}"
            ),
            MixError::NoBlock { tensor, n_layer } => write!(
                f,
                "the tensor {tensor} should be in one of the blocks blk.0 to blk.{}, but its name does not match; \
                 choose a type for it",
                n_layer.saturating_sub(1)
            ),
        }
    }
}

impl core::error::Error for MixError {}

/// The maximum length of a name; formats allow far less.
const MAX_NAME: usize = 1024;

/// The maximum of total pattern steps times total name bytes, which bounds the time of matching.
const MAX_WORK: u64 = 1 << 33;

/// The number after `blk.`, parsed like `blk.%d.` in `sscanf`: after optional white space, with an optional sign.
#[expect(clippy::cast_possible_truncation, reason = "there, a number that is too large loses its upper bits")]
fn block_number(name: &[u8]) -> Option<i32> {
    let rest = name.strip_prefix(b"blk.")?;
    let rest = rest.trim_ascii_start();
    let (negative, digits) = match rest {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let mut number = None;
    for digit in digits.iter().take_while(|b| b.is_ascii_digit()) {
        number = Some(number.unwrap_or(0i64).saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    }
    let number = number?;
    Some(if negative { number.saturating_neg() } else { number } as i32)
}

/// llama.cpp's order of quantizing and writing tensors (`weight_name_comparer` in `llama-model-loader.h`): by block, then by name; tensors
/// outside of blocks come first. Decisions depend on the order, because some rules count blocks.
///
/// Two exceptions: if the split is kept the order is that of the shards, and if blocks are pruned that of the original names.
///
/// ```
/// use gguf_quantize::mix::processing_order;
///
/// let mut names = ["blk.10.attn_q.weight", "output.weight", "blk.2.attn_q.weight"];
/// names.sort_by(|a, b| processing_order(a.as_bytes(), b.as_bytes()));
/// assert_eq!(names, ["output.weight", "blk.2.attn_q.weight", "blk.10.attn_q.weight"]);
/// ```
pub fn processing_order(a: &[u8], b: &[u8]) -> Ordering {
    let block = |name| block_number(name).unwrap_or(-1);
    block(a).cmp(&block(b)).then_with(|| a.cmp(b))
}

/// Decides the types of all tensors of a model, given in [`processing_order`]; for image models, in the order of the file.
///
/// ```
/// use gguf_format::{GgmlType, Str};
/// use gguf_quantize::mix::{MixOptions, ModelFacts, Target, TensorFacts, decide};
///
/// let model = ModelFacts { architecture: "llama".into(), n_layer: 1, ..ModelFacts::default() };
/// let fact = |name: &'static str, shape| TensorFacts { name: Str(name.as_bytes()), shape, ty: GgmlType::F16 };
/// let tensors = [fact("output.weight", &[4096, 32_000]), fact("blk.0.attn_q.weight", &[4096, 4096])];
/// let decisions = decide(&model, &tensors, Target::parse("Q4_K_M")?, &MixOptions::default())?;
/// assert_eq!(decisions.iter().map(|d| d.ty).collect::<Vec<_>>(), [GgmlType::Q6_K, GgmlType::Q4_K]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`MixError`], for the first tensor without a fitting type, or for a type that is not a valid target.
pub fn decide(
    model: &ModelFacts,
    tensors: &[TensorFacts<'_>],
    target: Target,
    options: &MixOptions,
) -> Result<Vec<Decision>, MixError> {
    decide_each(model, tensors.iter().copied(), target, options)
}

/// As [`decide`], for tensors that are not in a slice.
pub(crate) fn decide_each<'a>(
    model: &ModelFacts,
    tensors: impl Iterator<Item = TensorFacts<'a>> + Clone,
    target: Target,
    options: &MixOptions,
) -> Result<Vec<Decision>, MixError> {
    match target {
        Target::Copy => Ok(tensors.map(|t| kept(&t, Keep::Copy)).collect()),
        Target::FileType(ty) => {
            let known = Known::of(model, tensors.clone(), options.leave_output_tensor)?;
            let found = known.find_rules(tensors.clone(), &options.tensor_types)?;
            known.decide(model, tensors, ty, options, &found)
        }
    }
}

/// Properties of tensors derived from their names and shapes.
pub(crate) struct Known {
    categories: Vec<Category>,
    /// The reasons why they are never quantized.
    kept: Vec<Option<Keep>>,
}

impl Known {
    /// Derives the properties of a model's tensors.
    ///
    /// # Errors
    /// [`MixError::Name`].
    pub(crate) fn of<'a>(
        model: &ModelFacts,
        tensors: impl Iterator<Item = TensorFacts<'a>> + Clone,
        leave_output: bool,
    ) -> Result<Known, MixError> {
        if let Some(bytes) = tensors.clone().map(|t| t.name.as_bytes().len()).find(|&n| n > MAX_NAME) {
            return Err(MixError::Name { bytes });
        }
        let keep = |t: TensorFacts<'_>| keep::keep(&model.architecture, t.name.as_bytes(), t.shape, leave_output);
        Ok(Known {
            categories: tensors.clone().map(|t| Category::of(t.name.as_bytes())).collect(),
            kept: tensors.map(keep).collect(),
        })
    }

    /// The first matching rule for the name of each tensor that can be quantized; empty if there are no rules.
    ///
    /// # Errors
    /// [`MixError::Work`].
    pub(crate) fn find_rules<'a>(
        &self,
        tensors: impl Iterator<Item = TensorFacts<'a>> + Clone,
        rules: &[TensorTypeRule],
    ) -> Result<Vec<Option<usize>>, MixError> {
        if rules.is_empty() {
            return Ok(Vec::new());
        }
        let steps = rules.iter().map(|rule| rule.pattern.n_steps()).fold(0, u64::saturating_add);
        let bytes = tensors.clone().map(|t| t.name.as_bytes().len() as u64 + 1).fold(0, u64::saturating_add);
        if steps.saturating_mul(bytes) > MAX_WORK {
            return Err(MixError::Work { n_rules: rules.len(), n_tensors: tensors.count() });
        }
        let found = |t: TensorFacts<'_>| rules.iter().position(|rule| rule.pattern.finds(t.name.as_bytes()));
        Ok(tensors.zip(&self.kept).map(|(t, kept)| found(t).filter(|_| kept.is_none())).collect())
    }

    /// Decides the types of all tensors; `found` are the rules from [`find_rules`](Known::find_rules).
    ///
    /// # Errors
    /// [`MixError`].
    pub(crate) fn decide<'a>(
        &self,
        model: &ModelFacts,
        tensors: impl Iterator<Item = TensorFacts<'a>>,
        file_type: FileType,
        options: &MixOptions,
        found: &[Option<usize>],
    ) -> Result<Vec<Decision>, MixError> {
        let info = file_type.info().filter(|_| target::is_target(file_type)).ok_or(MixError::FileType(file_type))?;
        let asked = [options.output_tensor_type, options.token_embedding_type];
        let asked = asked.into_iter().flatten().chain(options.tensor_types.iter().map(|rule| rule.ty));
        if let Some(ty) = asked.into_iter().find(|&ty| !is_tensor_target(ty)) {
            return Err(MixError::TensorType(ty));
        }
        let categories = &self.categories;
        let mut mix = Mix {
            model,
            file_type,
            own: info.tensor_type,
            options,
            tied: !categories.contains(&Category::Output),
            n_values: categories.iter().filter(|c| c.has_values()).count() as u64,
            seen_values: 0,
            seen_down: 0,
            seen_gate: 0,
            seen_up: 0,
        };
        let rules = found.iter().copied().chain(std::iter::repeat(None));
        let known = categories.iter().zip(&self.kept).zip(rules);
        tensors.zip(known).map(|(t, ((&category, kept), rule))| mix.decide(&t, category, *kept, rule)).collect()
    }
}

fn kept(tensor: &TensorFacts<'_>, why: Keep) -> Decision {
    Decision { ty: tensor.ty, why: Reason::Kept(why), instead_of: None, needs_imatrix: false }
}

/// The state of an iteration over the tensors (`quantize_state_impl` in `llama-quant.cpp`).
struct Mix<'m> {
    model: &'m ModelFacts,
    file_type: FileType,
    /// The default type of the file type.
    own: GgmlType,
    options: &'m MixOptions,
    /// Whether the embeddings are also the output.
    tied: bool,
    n_values: u64,
    // The number of tensors so far to which the rows of each scope were applied.
    seen_values: u64,
    seen_down: u64,
    seen_gate: u64,
    seen_up: u64,
}

impl Mix<'_> {
    /// `keep` is the reason why the tensor is never quantized, `rule` the first rule that matches its name.
    fn decide(
        &mut self,
        tensor: &TensorFacts<'_>,
        category: Category,
        keep: Option<Keep>,
        rule: Option<usize>,
    ) -> Result<Decision, MixError> {
        if let Some(why) = keep {
            return Ok(kept(tensor, why));
        }
        let (wanted, why) = self.wanted(tensor, category, rule)?;
        let row = tensor.row();
        let is_chosen =
            why == Reason::TokenEmbeddingType || why == Reason::OutputTensorType && category == Category::Output;
        let ty = match is_chosen {
            false if self.is_image() && !fallback::divides(wanted, row) => GgmlType::F16,
            true if fallback::divides(wanted, row) => wanted,
            true => return Err(MixError::PartialBlock { tensor: shown(tensor), choice: why, ty: wanted, row }),
            false => fallback::fallback(wanted, row).ok_or_else(|| MixError::NoFallback {
                tensor: shown(tensor),
                ty: wanted,
                row,
            })?,
        };
        let needs_imatrix = ty != tensor.ty && self.needs_imatrix(category, ty);
        Ok(Decision { ty, why, instead_of: (ty != wanted).then_some(wanted), needs_imatrix })
    }

    /// The type before the row length is checked (`llama_tensor_get_type`).
    fn wanted(
        &mut self,
        tensor: &TensorFacts<'_>,
        category: Category,
        found: Option<usize>,
    ) -> Result<(GgmlType, Reason), MixError> {
        let name = tensor.name.as_bytes();
        if let Some(ty) = self.options.token_embedding_type
            && category == Category::TokenEmbd
            // The per-layer embeddings are large and follow a pattern that names them.
            && !(name == b"per_layer_token_embd.weight" && found.is_some())
        {
            return Ok((ty, Reason::TokenEmbeddingType));
        }
        if let Some(ty) = self.options.output_tensor_type
            && category == Category::Output
        {
            return Ok((ty, Reason::OutputTensorType));
        }
        if !self.own.is_quantized() {
            return Ok((self.own, Reason::Float));
        }
        if let Some((i, rule)) = found.and_then(|i| Some((i, self.options.tensor_types.get(i)?))) {
            return Ok((rule.ty, Reason::TensorType(i)));
        }
        if self.options.pure {
            return Ok((self.own, Reason::Pure));
        }
        self.mixed(tensor, category)
    }

    /// The type from the rows of the table (`llama_tensor_get_type_impl`).
    fn mixed(&mut self, tensor: &TensorFacts<'_>, category: Category) -> Result<(GgmlType, Reason), MixError> {
        if self.is_image() {
            return Ok(self.mixed_image(tensor));
        }
        let scope = Scope::of(category, self.tied);
        if let Some(ty) = self.options.output_tensor_type
            && scope == Scope::Output
        {
            // Embeddings that are also the output; `output.weight` itself was decided before.
            return Ok((ty, Reason::OutputTensorType));
        }
        let mut chosen = (self.own, Reason::Own);
        for (rule, row) in RULES.iter().zip(&*rules::ROWS) {
            if (rule.scope == Scope::Any || rule.scope == scope)
                && (rule.file_types.is_empty() || rule.file_types.contains(&self.file_type))
                && self.holds_all(rule.when, tensor, scope)?
            {
                chosen = (rule.ty, Reason::Rule(row));
                break;
            }
        }
        let is_low = rules::LOW.contains(&self.file_type);
        if scope == Scope::Values
            && !is_low
            && self.model.is_70b()
            && [GgmlType::Q3_K, GgmlType::Q4_K].contains(&chosen.0)
        {
            chosen = (GgmlType::Q5_K, Reason::Raised70B);
        }
        match scope {
            Scope::Values => self.seen_values += 1,
            Scope::FfnDown => self.seen_down += 1,
            Scope::FfnGate => self.seen_gate += 1,
            Scope::FfnUp => self.seen_up += 1,
            _ => {}
        }
        Ok(chosen)
    }

    /// Whether the model is an image or video model.
    fn is_image(&self) -> bool {
        keys::is_image_architecture(&self.model.architecture)
    }

    /// The type from the rows for image models.
    fn mixed_image(&mut self, tensor: &TensorFacts<'_>) -> (GgmlType, Reason) {
        let category = image::category(tensor.name.as_bytes());
        let rule = image::rule(category, self.file_type, self.seen_values);
        self.seen_values += u64::from(category == Category::AttnV);
        rule.map_or((self.own, Reason::Own), |(rule, row)| (rule.ty, Reason::Rule(row)))
    }

    fn holds_all(&self, all: &[When], tensor: &TensorFacts<'_>, scope: Scope) -> Result<bool, MixError> {
        for when in all {
            if !self.holds(*when, tensor, scope)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn holds(&self, when: When, tensor: &TensorFacts<'_>, scope: Scope) -> Result<bool, MixError> {
        let arch = self.model.architecture.as_str();
        let n_layer = self.model.n_layer;
        Ok(match when {
            When::Arch(name) => arch == name,
            When::NotArch(name) => arch != name,
            When::Named(parts) => parts.iter().any(|part| keep::contains(tensor.name.as_bytes(), part)),
            When::PartialBlock => !fallback::divides(self.own, tensor.row()),
            When::Stack => tensor.shape.get(2).is_some_and(|&n| n > 1),
            When::SharedBy4 => self.model.n_shared() >= 4,
            When::SharedBy4OrExperts4 => self.model.n_shared() >= 4 || self.model.n_expert >= 4,
            When::Experts8 => self.model.n_expert == 8,
            When::NotExperts8 => self.model.n_expert != 8,
            When::Imatrix => self.options.has_imatrix,
            When::NoImatrix => !self.options.has_imatrix,
            When::First(parts) => self.block(tensor, scope)? < n_layer / parts.max(1),
            When::FirstCounted(parts) => self.seen(scope) < n_layer / parts.max(1),
            When::Middle => {
                let block = self.block(tensor, scope)?;
                n_layer / 8 <= block && block < n_layer.saturating_mul(7) / 8
            }
            When::MoreBits if scope == Scope::Values => more_bits(self.seen_values, self.n_values),
            When::MoreBits => more_bits(self.block(tensor, scope)?, n_layer),
            When::Before(n) => self.seen(scope) < n,
        })
    }

    /// The number of earlier tensors of the scope.
    fn seen(&self, scope: Scope) -> u64 {
        match scope {
            Scope::Values => self.seen_values,
            Scope::FfnDown => self.seen_down,
            Scope::FfnGate => self.seen_gate,
            Scope::FfnUp => self.seen_up,
            _ => 0,
        }
    }

    /// The block of a feed-forward tensor: counted if there are no experts, otherwise from its name, because a block may have several
    /// tensors of a scope.
    fn block(&self, tensor: &TensorFacts<'_>, scope: Scope) -> Result<u64, MixError> {
        if self.model.n_expert <= 1 {
            return Ok(self.seen(scope));
        }
        let n_layer = self.model.n_layer;
        block_number(tensor.name.as_bytes())
            .and_then(|n| u64::try_from(n).ok())
            .filter(|&n| n < n_layer)
            .ok_or_else(|| MixError::NoBlock { tensor: shown(tensor), n_layer })
    }

    fn needs_imatrix(&self, category: Category, ty: GgmlType) -> bool {
        let spared = matches!(category, Category::Output | Category::TokenEmbd);
        !spared && (NEED_IMATRIX.contains(&ty) || (ty == GgmlType::Q2_K && self.file_type == rules::Q2_K_S))
    }
}

/// Low-bit types that are useless without an importance matrix (`tensor_requires_imatrix` in `llama-quant.cpp`).
pub const NEED_IMATRIX: &[GgmlType] =
    &[GgmlType::IQ3_XXS, GgmlType::IQ2_XXS, GgmlType::IQ2_XS, GgmlType::IQ2_S, GgmlType::IQ1_M, GgmlType::IQ1_S];

/// The blocks that get more bits: the first and last eighth, and every third between (`use_more_bits`).
fn more_bits(i: u64, n: u64) -> bool {
    let eighth = n / 8;
    i < eighth || i >= n.saturating_mul(7) / 8 || (i - eighth) % 3 == 2
}

fn shown(tensor: &TensorFacts<'_>) -> String {
    gguf_format::check::shown(tensor.name)
}
