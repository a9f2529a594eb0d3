//! Checkpoints of an architecture: the classes, the names of their tensors, the key-values, the tokenizer, and other facts for the conversion.

use super::Architecture;
use super::groups;
use super::key::Key;
use super::vocab::Vocab;

/// A tensor that is computed from the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Computed {
    /// `rope_freqs.weight`, if the configuration selects rope scaling of type `llama3`.
    Llama3Freqs,
    /// As [`Llama3Freqs`](Computed::Llama3Freqs), with another default of the field `factor` than 8.
    Llama3FreqsBy(u32),
    /// As [`Llama3Freqs`](Computed::Llama3Freqs) for the `rotated` elements of a head, in double precision; 1 for the
    /// rest of the head.
    Llama3FreqsOfPart,
    /// A vector with this name and the values of a formula, unless they are `null`.
    Values(&'static str, &'static str),
    /// `rope_factors_long.weight` and `rope_factors_short.weight`, if the configuration has them.
    LongRopeFactors,
    /// A matrix with this name, and the sines and cosines of 1500 positions; a formula gives the length of its rows
    /// (`Qwen25AudioModel.generate_extra_tensors`).
    Sinusoids(&'static str, &'static str),
}

/// Classes of checkpoints that are converted to an architecture in the same way.
#[derive(Debug, Clone, Copy)]
pub struct Checkpoint {
    /// The classes: first entries of `architectures` in `config.json`.
    pub classes: &'static [&'static str],
    /// The condition for this entry, a formula; an empty one is always true. The first entry whose condition is true
    /// applies.
    pub when: &'static str,
    /// The name in `general.architecture`; if empty, the first name of the [`Architecture`].
    pub name: &'static str,
    /// The names of its tensors.
    pub names: &'static TensorNames,
    /// Rows whose values are divided by 2 once for every `rescale_every_n_layers` blocks before theirs.
    pub rescaled: &'static [&'static str],
    /// Whether tensors of blocks beyond the model's own are omitted.
    pub drops_further_blocks: bool,
    /// Whether the MTP blocks can be omitted, or written alone. The fact
    /// `@mtp` is then `left_out` or `only`.
    pub separates_mtp: bool,
    /// Whether llama.cpp does not load these blocks without the main blocks.
    pub keeps_main_blocks: bool,
    /// Additional tensor files, which come first: the path in the folder, the prefix of names, and its replacement.
    pub dense: &'static [(&'static str, &'static str, &'static str)],
    /// Whether dense layers after the pooling, which are modules of sentence-transformers, are written on request.
    pub dense_modules: bool,
    /// Unsupported configurations: a formula, and its description for the error.
    pub refuse: &'static [(&'static str, &'static str)],
    /// What formulas learn from its tensors.
    pub facts: &'static TensorFacts,
    /// Whether this is a draft model. The fact `@target` is then the configuration of the target model, whose folder has
    /// the tokenizer.
    pub is_draft: bool,
    /// The prefix of hyperparameter keys, if it is not the name of the architecture. Rows of an audio encoder
    /// ([`Row::is_of_sound`](super::Row::is_of_sound)) have `clip.audio`.
    pub sizes: &'static str,
    /// Key-values written before those of the model's name and origin.
    pub early_keys: &'static [&'static [Key]],
    /// Key-values written after these, which the reference derives as it converts tensors; a file without tensors has none of them.
    pub tensor_keys: &'static [&'static [Key]],
    /// Key-values in file order. One that is set again keeps its place and takes the new value.
    pub keys: &'static [&'static [Key]],
    /// Its tokenizer.
    pub tokenizer: &'static Tokenizer,
    /// Tensors that are computed.
    pub computed: &'static [Computed],
    /// Whether `config.json` is used without the defaults of its class.
    pub is_raw: bool,
    /// The types in which its tensors are stored.
    pub types: &'static StoredTypes,
}

/// The names of the tensors of a checkpoint, and those that are omitted.
#[derive(Debug, Clone, Copy)]
pub struct TensorNames {
    /// Prefixes (roots) that are removed from tensor names.
    pub roots: &'static [&'static str],
    /// The prefix of tensors in blocks, after the root; `{}` is the number of the block. In models with an encoder and
    /// a decoder, the prefix of the encoder, then that of the decoder. For encoders of images and sound with a second
    /// run of blocks, further prefixes are those of that run; the field `further_blocks` is the number of its blocks.
    /// In files with encoders of images and of sound, the prefix for sound is the last one.
    pub layers: &'static [&'static str],
    /// Tensors to omit, each with a condition (empty: always). In names, `*` matches any characters. A pattern that
    /// begins with `^` matches the name in the checkpoint, including the root. If the formula yields a list, the
    /// element for the tensor's block is the condition.
    pub skip: &'static [(&'static str, &'static str)],
    /// Tensors to omit, which must be all zeros. In names, `*` matches any characters.
    pub zero: &'static [&'static str],
    /// Alternative names of one tensor that a checkpoint may contain several times. The first one found is used, the
    /// others are omitted.
    pub first_of: &'static [&'static str],
    /// Prefixes of tensors in blocks that are numbered after the model's own, with the usual prefix: `{}` is the
    /// number of the block, `{0}` its number among these blocks. Tensors without a number belong to the first of these
    /// blocks.
    pub appended: &'static [(&'static str, &'static str)],
    /// Prefixes, within a block, of tensors that belong to the whole model, with the usual prefix: `{}` is the number
    /// of the block.
    pub outside_blocks: &'static [(&'static str, &'static str)],
    /// Substrings of names to replace before anything else.
    pub rename: &'static [(&'static str, &'static str)],
    /// The tensors of an encoder, by their names in the checkpoint; all others are omitted. `*` matches any
    /// characters. Empty for language models.
    pub takes: &'static [&'static str],
    /// Names whose number is an index into a list: the prefix before the number, and the formula of the list. The list
    /// element replaces the number.
    pub renumbered: &'static [(&'static str, &'static str)],
    /// Names to replace if the formula is true.
    pub rename_if: &'static [(&'static str, &'static str, &'static str)],
}

/// The types in which tensors are stored.
#[derive(Debug, Clone, Copy)]
pub struct StoredTypes {
    /// Tensors that are always stored in single precision, by their GGUF names. `*` matches any characters.
    pub precise: &'static [&'static str],
    /// Tensors that are stored in half precision whatever the requested type, by their GGUF names. `*` matches any
    /// characters.
    pub half: &'static [&'static str],
    /// Tensors that are stored in half precision if that is the requested type, else in single precision, by their
    /// GGUF names. `*` matches any characters.
    pub convolutions: &'static [&'static str],
    /// Whether all matrices are stored in the requested type, including those that most architectures keep in single
    /// precision.
    pub forces_type: bool,
    /// Whether the requested type is ignored: matrices in single precision and bfloat16 keep their type, and 8-bit
    /// floats with scales become Q8_0.
    pub keeps_types: bool,
}

/// The tokenizer of a checkpoint, and the key-values before and after its own.
#[derive(Debug, Clone, Copy)]
pub struct Tokenizer {
    /// Whether the file `chat_template.jinja` takes precedence over the template in `tokenizer_config.json`.
    pub template_file_first: bool,
    /// Whether embedding rows beyond the tokens of the tokenizer are cut off.
    pub trims_embeddings: bool,
    /// Whether the tokenizer is read according to the class of the target model.
    pub takes_target_class: bool,
    /// How the tokenizer is read.
    pub vocab: Vocab,
    /// Default special tokens, by kind and text, for kinds that the tokenizer's files do not set.
    pub special_tokens: &'static [(&'static str, &'static str)],
    /// Special tokens, by kind and text, whose keys follow those of the tokenizer.
    pub late_tokens: &'static [(&'static str, &'static str)],
    /// Key-values written before those of the tokenizer, which may override them.
    pub first_keys: &'static [&'static [Key]],
    /// Key-values written after those of the tokenizer. Formulas may use `tokenizer_config` and `generation_config`,
    /// the JSON files with these names.
    pub keys: &'static [&'static [Key]],
}

/// Facts that formulas learn from the tensors of a checkpoint.
#[derive(Debug, Clone, Copy)]
pub struct TensorFacts {
    /// Small tensors whose values become facts: the name of the fact, and that of the tensor. If the name contains `{}`
    /// for the number of a block, the fact is a list with the values of each block. These tensors are not written unless
    /// a row names them.
    pub peeked: &'static [(&'static str, &'static str)],
    /// Whether the fact `@zero_rows` lists the all-zero embeddings among the tokens added after the tokenizer's model.
    pub lists_zero_rows: bool,
    /// A tensor of integers that, each plus its index, are token ids of the target model; they become the fact
    /// `@token_ids`. Empty for none.
    pub ids: &'static str,
    /// Facts that are true if the checkpoint has a tensor with a matching name.
    pub present: &'static [(&'static str, &'static str)],
    /// Facts set to the row length of the first tensor with a matching name; not for a file without tensors.
    pub row_lens: &'static [(&'static str, &'static str)],
    /// Facts set to the length of the outermost dimension of the first tensor with a matching name.
    pub row_counts: &'static [(&'static str, &'static str)],
}

impl Checkpoint {
    /// The tables of key-values, in the order in which they are evaluated; those of the tokenizer follow.
    pub fn key_tables(&self) -> impl Iterator<Item = &'static [Key]> {
        [self.early_keys, self.tensor_keys, self.keys].into_iter().flatten().copied()
    }

    /// Defaults that suit most checkpoints.
    pub(crate) const TEXT: Checkpoint = Checkpoint {
        classes: &[],
        when: "",
        name: "",
        names: &TensorNames::TEXT,
        rescaled: &[],
        drops_further_blocks: false,
        separates_mtp: false,
        keeps_main_blocks: false,
        dense: &[],
        dense_modules: false,
        refuse: &[],
        facts: &TensorFacts::NONE,
        is_draft: false,
        sizes: "",
        early_keys: &[],
        tensor_keys: &[],
        keys: &[groups::GENERIC],
        tokenizer: &Tokenizer::BPE,
        computed: &[],
        is_raw: false,
        types: &StoredTypes::ASKED,
    };

    /// The name in `general.architecture`.
    pub fn architecture(&self, of: &Architecture) -> &'static str {
        match self.name {
            "" => of.names.first().copied().unwrap_or_default(),
            name => name,
        }
    }
}

impl TensorNames {
    /// The names in checkpoints of most language models: `model.layers.{}.` before the tensors of a block.
    pub(crate) const TEXT: TensorNames = TensorNames {
        roots: &["model."],
        layers: &["layers.{}."],
        skip: &[],
        zero: &[],
        first_of: &[],
        appended: &[],
        outside_blocks: &[],
        rename: &[],
        takes: &[],
        renumbered: &[],
        rename_if: &[],
    };
}

impl StoredTypes {
    /// The requested type, and single precision for vectors.
    pub(crate) const ASKED: StoredTypes =
        StoredTypes { precise: &[], half: &[], convolutions: &[], forces_type: false, keeps_types: false };
}

impl Tokenizer {
    /// Byte-level BPE in `tokenizer.json`.
    pub(crate) const BPE: Tokenizer = Tokenizer {
        template_file_first: false,
        trims_embeddings: false,
        takes_target_class: false,
        vocab: Vocab::BPE,
        special_tokens: &[],
        late_tokens: &[],
        first_keys: &[],
        keys: &[],
    };
}

impl TensorFacts {
    /// None.
    pub(crate) const NONE: TensorFacts =
        TensorFacts { peeked: &[], lists_zero_rows: false, ids: "", present: &[], row_lens: &[], row_counts: &[] };
}
