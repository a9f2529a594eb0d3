//! Rows of tables: a tensor, whether and where it is required, and how its values are made of those in a checkpoint.

use super::dim::Dim;
use super::when::When;
use crate::stack::Stack;

/// Tensors, one row each, terminated by a semicolon:
///
/// ```text
/// "attn_q.weight" [Embd Q] UnlessFused Always + Optional <- "self_attn.q_proj" : ROPE;
/// ```
///
/// In order: the GGUF name without `blk.N.`; the dimensions, the contiguous one first; whether the tensor is required,
/// and in which models and blocks; after `+`, whether the bias is required; after `<-`, the names in a checkpoint
/// ([`Row::source`]); after `:`, the [pattern](Row::pattern); then the [functions](Map) of its values, each after a
/// comma, or after `=>` another [operation](RowOp). A dimension and a condition are a name of [`Dim`] or [`When`], a constant of the file, or
/// an [expression](super::Expr) in quotes.
macro_rules! rows {
    ($($name:literal [$($dim:tt)*] $need:ident $when:tt $(+ $bias:ident)?
       $(<- $source:literal $(: $pattern:expr)? $(, $map:expr)* $(=> $op:expr)?)?;)*) => {
        &[$(Row::new($name, const { &[$(dim!($dim)),*] }, Need::$need, when!($when))
            $(.with_bias(Need::$bias))?
            $(.from($source)$(.by($pattern))?.mapped(&[$($map),*])$(.made($op))?)?),*]
    };
}

/// Whether a tensor is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Need {
    /// Must be present.
    Required,
    /// May be absent.
    Optional,
    /// Required, unless the fused matrix ([`Row::fused`]) of queries, keys and values, of keys and values of latent attention, of linear
    /// attention and its gate, or of gate and up of all experts, is present.
    UnlessFused,
}

/// A function of single values, applied to those of a row's source. Formulas are evaluated over the fields of the
/// configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Map {
    /// Adds a number.
    Add(f32),
    /// Multiplies by a number.
    Scale(f32),
    /// Multiplies by the value of a formula.
    ScaleBy(&'static str),
    /// Multiplies rows by the value of a formula, a list of `[rows, factor]` for consecutive rows. The list repeats
    /// until all rows are covered.
    ScaleRowsBy(&'static str),
    /// The negated exponential, -exp(x).
    NegExp,
    /// ln(1 + exp(x)), and x above 20 (`torch.nn.functional.softplus`).
    Softplus,
    /// Sets this number of rows, from the first on, to zero.
    ZeroRows(u64),
    /// Appends rows of zeros up to the number of rows that a formula gives.
    PadRowsTo(&'static str),
}

/// How the values of a row's tensor are made of the source's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RowOp {
    /// Functions of single values, applied in this order; with none, the values are those of the source.
    Map(&'static [Map]),
    /// The values of a formula instead of those of the source: one number for all, a list, or a list with one list
    /// per block.
    Values(&'static str),
    /// The values as 32-bit integers.
    Integers,
    /// The nearest of `-x`, 0 and `x`, where `x` is the mean absolute value of the tensor.
    RoundToMean,
    /// The sums of all elements along the outermost dimension, which is removed.
    SumParts,
    /// A batch normalization with running statistics, folded into a vector, given the number that is added to the
    /// variances. The operands are the weight and the variance for the factors, or the weight, the variance, the bias
    /// and the mean for the summands.
    BatchNorm(f32),
    /// A square grid of vectors, the rows of the tensor, resized with bilinear interpolation to the number of vectors
    /// along each side that a formula gives.
    ResizeGrid(&'static str),
}

/// A tensor, and its bias if it can have one. Several rows with the same name are alternatives.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The name, without `blk.N.`; in models with an encoder and a decoder, it includes `enc.blk.{}.` or
    /// `dec.blk.{}.`.
    pub name: &'static str,
    /// The dimensions, the contiguous one first; empty if unknown.
    pub shape: &'static [Dim],
    /// Whether it is required.
    pub need: Need,
    /// The models and blocks to which the row applies.
    pub when: When,
    /// Whether the bias is required; `None` if the tensor has no bias. The name of a bias ends in `.bias` instead of
    /// `.weight`. Its shape is that of the weight, without the first dimension if the weight is a matrix.
    pub bias: Option<Need>,
    /// The name in a checkpoint, without `.weight` or `.bias` and without the prefix of the block. Empty for tensors
    /// that conversion does not produce.
    ///
    /// `a | b` lists alternative spellings; a checkpoint has one of them. `{x}` stands for the number of an expert,
    /// `{h}` of a head, `{kv}` of a key-value head: these tensors are stacked along a new outermost dimension. `a + b`
    /// concatenates tensors along their outermost dimension; so does `{+n}`, which stands for the numbers of `n`
    /// parts. `a * b` multiplies tensors element-wise in single precision and yields a vector. `a, b` lists the operands
    /// of a function of several tensors ([`RowOp::BatchNorm`]). `{n}` stands for a number that the name of the output has,
    /// too, in place of its own `{n}`; such a row is optional.
    pub source: &'static str,
    /// The permutation of elements; empty for none. See the `pattern` module of `gguf-hf` for the notation.
    pub pattern: &'static str,
    /// How the values are made of the source's.
    pub op: RowOp,
}

impl Row {
    pub(super) const fn new(name: &'static str, shape: &'static [Dim], need: Need, when: When) -> Row {
        Row { name, shape, need, when, bias: None, source: "", pattern: "", op: RowOp::Map(&[]) }
    }

    pub(super) const fn with_bias(self, need: Need) -> Row {
        Row { bias: Some(need), ..self }
    }

    pub(super) const fn from(self, source: &'static str) -> Row {
        Row { source, ..self }
    }

    pub(super) const fn by(self, pattern: &'static str) -> Row {
        Row { pattern, ..self }
    }

    pub(super) const fn mapped(self, maps: &'static [Map]) -> Row {
        self.made(RowOp::Map(maps))
    }

    pub(super) const fn made(self, op: RowOp) -> Row {
        Row { op, ..self }
    }

    /// The name without the prefix of the block and without `.weight` or `.bias`.
    pub fn stem(&self) -> &'static str {
        let name = self.own_name();
        name.strip_suffix(".weight").or_else(|| name.strip_suffix(".bias")).unwrap_or(name)
    }

    /// The run of blocks that the tensor belongs to.
    pub fn stack(&self) -> Stack {
        self.place().0
    }

    /// The name without the prefix of the block.
    pub fn own_name(&self) -> &'static str {
        self.place().1
    }

    /// The matrix whose presence makes a row with [`Need::UnlessFused`] optional.
    pub fn fused(&self) -> &'static str {
        match self.stem() {
            "attn_k_b" | "attn_v_b" => FUSED_LATENT,
            "attn_qkv" | "attn_gate" => FUSED_LINEAR,
            stem if stem.starts_with("ffn_") => FUSED_EXPERTS,
            _ => FUSED,
        }
    }

    /// Whether the tensor belongs to an audio encoder or its projector, which have their own keys of sizes
    /// (`clip.audio`).
    pub fn is_of_sound(&self) -> bool {
        self.name.starts_with("a.") || self.name.starts_with("mm.a.")
    }

    fn place(&self) -> (Stack, &'static str) {
        let own = |stack: Stack| Some((stack, self.name.strip_prefix(stack.prefix())?.strip_prefix("{}.")?));
        const NAMED: [Stack; 9] = [
            Stack::Encoder,
            Stack::Decoder,
            Stack::ConvNext,
            Stack::Vision,
            Stack::DeepStack,
            Stack::Audio,
            Stack::Sam,
            Stack::ImageProjector,
            Stack::AudioProjector,
        ];
        NAMED.into_iter().find_map(own).unwrap_or((Stack::Only, self.name))
    }
}

/// Matrix of queries, keys and values.
pub const FUSED: &str = "attn_qkv.weight";

/// Matrix of keys and values of latent attention.
pub const FUSED_LATENT: &str = "attn_kv_b.weight";

/// Matrix of queries, keys, values and gates of linear attention.
pub const FUSED_LINEAR: &str = "ssm_in.weight";

/// Matrices of gate and up of all experts.
pub const FUSED_EXPERTS: &str = "ffn_gate_up_exps.weight";
