//! Tables of architectures, one file each: the tensors, their shapes as functions of the keys (`load_arch_tensors` in
//! llama.cpp's `src/models`), and the conversion of Hugging Face checkpoints (`conversion/` of llama.cpp).
//!
//! An [`Architecture`] lists all its tensors, so that missing and unexpected tensors are detected, and names the
//! source tensor of each in a checkpoint. A [`Checkpoint`] describes a set of model classes: their names, the
//! key-values and their derivation from `config.json`, and the kind of tokenizer. Tables hold no functions; `gguf-hf`
//! interprets them. For architectures without a table, [`COMMON`] lists tensors that have the same meaning everywhere;
//! they are checked if present.
//!
//! The types of tables have a file each: `row.rs` for the rows of tensors, with sizes (`dim.rs`) and
//! conditions (`when.rs`), which are expressions (`expr.rs`) over the names in `names.rs`; `tensor.rs` for a
//! weight or bias of a row; `key.rs` for key-values; `checkpoint.rs` for checkpoints, with their tokenizers (`vocab.rs`). `groups.rs` has the rows
//! that many tables share.

use gguf_format::keys::{self, KeyInfo};

pub use crate::stack::Stack;

// Macros of tables must precede the tables.
#[macro_use]
mod dim;
#[macro_use]
mod key;
#[macro_use]
mod row;
#[macro_use]
mod when;

mod checkpoint;
mod expr;
mod formulas;
pub(crate) mod groups;
mod names;
mod tensor;
mod towers;
mod unlisted;
mod unsupported;
mod vocab;

// Declares the files of tables, and lists the tables as `TABLES`. A line has a file and the tables in it. `cargo fmt` does not find these files: see `.ci/run`.
macro_rules! architectures {
    ($(mod $file:ident; use $($table:ident),+;)+) => {
        $(mod $file;)+

        const TABLES: &[Architecture] = &[$($($file::$table),+),+];
    };
}
use architectures;

architectures! {
    mod afmoe; use ARCHITECTURE;
    mod apertus; use ARCHITECTURE;
    mod arcee; use ARCHITECTURE;
    mod arctic; use ARCHITECTURE;
    mod baichuan; use ARCHITECTURE;
    mod bailingmoe; use ARCHITECTURE;
    mod bailingmoe2; use ARCHITECTURE;
    mod bailingmoe3; use ARCHITECTURE;
    mod bert; use ARCHITECTURE;
    mod bitnet; use ARCHITECTURE;
    mod bloom; use ARCHITECTURE;
    mod chameleon; use ARCHITECTURE;
    mod chatglm; use ARCHITECTURE;
    mod codeshell; use ARCHITECTURE;
    mod cogvlm; use ARCHITECTURE;
    mod cohere2; use ARCHITECTURE;
    mod cohere2moe; use ARCHITECTURE;
    mod command_r; use ARCHITECTURE;
    mod dbrx; use ARCHITECTURE;
    mod deci; use ARCHITECTURE;
    mod deepseek; use ARCHITECTURE;
    mod deepseek2; use ARCHITECTURE;
    mod deepseek2ocr; use ARCHITECTURE;
    mod deepseek32; use ARCHITECTURE, GLM;
    mod deepseek4; use ARCHITECTURE;
    mod dflash; use ARCHITECTURE;
    mod dots1; use ARCHITECTURE;
    mod dots3note; use ARCHITECTURE;
    mod dream; use ARCHITECTURE;
    mod eagle3; use ARCHITECTURE;
    mod ernie4_5; use ARCHITECTURE, WITH_EXPERTS;
    mod eurobert; use ARCHITECTURE;
    mod exaone; use ARCHITECTURE;
    mod exaone4; use ARCHITECTURE;
    mod exaone_moe; use ARCHITECTURE;
    mod falcon; use ARCHITECTURE;
    mod falcon_h1; use ARCHITECTURE;
    mod gemma; use ARCHITECTURE;
    mod gemma2; use ARCHITECTURE;
    mod gemma3; use ARCHITECTURE, EMBEDDING;
    mod gemma3n; use ARCHITECTURE;
    mod gemma4; use ARCHITECTURE, ASSISTANT;
    mod glm4; use ARCHITECTURE;
    mod glm4moe; use ARCHITECTURE;
    mod glm5_next; use ARCHITECTURE;
    mod gpt2; use ARCHITECTURE;
    mod gpt_oss; use ARCHITECTURE;
    mod gptj; use ARCHITECTURE;
    mod gptneox; use ARCHITECTURE;
    mod granite; use ARCHITECTURE;
    mod granite_hybrid; use ARCHITECTURE;
    mod granite_swa; use ARCHITECTURE;
    mod granite_switch; use ARCHITECTURE;
    mod grok; use ARCHITECTURE;
    mod grovemoe; use ARCHITECTURE;
    mod hrm_text; use ARCHITECTURE;
    mod hunyuan; use ARCHITECTURE;
    mod hunyuan_moe; use ARCHITECTURE;
    mod hy_v3; use ARCHITECTURE;
    mod hy_v4; use ARCHITECTURE;
    mod internlm2; use ARCHITECTURE;
    mod jais; use ARCHITECTURE;
    mod jais2; use ARCHITECTURE;
    mod jamba; use ARCHITECTURE;
    mod jina_bert; use V2;
    mod kimi_k3; use ARCHITECTURE;
    mod kimi_linear; use ARCHITECTURE;
    mod laguna; use ARCHITECTURE;
    mod lfm2; use ARCHITECTURE, WITH_EXPERTS;
    mod llada; use ARCHITECTURE;
    mod llada_moe; use ARCHITECTURE;
    mod llama; use ARCHITECTURE, MISTRAL3;
    mod llama4; use ARCHITECTURE;
    mod maincoder; use ARCHITECTURE;
    mod mamba; use ARCHITECTURE;
    mod mamba2; use ARCHITECTURE;
    mod maple; use ARCHITECTURE;
    mod mellum; use ARCHITECTURE;
    mod mimo2; use ARCHITECTURE;
    mod minicpm; use ARCHITECTURE;
    mod minicpm3; use ARCHITECTURE;
    mod minimax_01; use ARCHITECTURE;
    mod minimax_m2; use ARCHITECTURE;
    mod minimax_m3; use ARCHITECTURE;
    mod modern_bert; use ARCHITECTURE;
    mod mpt; use ARCHITECTURE;
    mod muse_glimmer; use ARCHITECTURE;
    mod nanbeige; use ARCHITECTURE;
    mod nemotron; use ARCHITECTURE;
    mod nemotron_h; use ARCHITECTURE;
    mod neo_bert; use ARCHITECTURE;
    mod nomic_bert; use ARCHITECTURE, WITH_EXPERTS;
    mod olmo; use ARCHITECTURE;
    mod olmo2; use ARCHITECTURE;
    mod olmoe; use ARCHITECTURE;
    mod openelm; use ARCHITECTURE;
    mod orion; use ARCHITECTURE;
    mod pangu; use ARCHITECTURE;
    mod phi2; use ARCHITECTURE;
    mod phi3; use ARCHITECTURE;
    mod phimoe; use ARCHITECTURE;
    mod plamo; use ARCHITECTURE;
    mod plamo2; use ARCHITECTURE;
    mod plamo3; use ARCHITECTURE;
    mod plm; use ARCHITECTURE;
    mod qwen; use ARCHITECTURE;
    mod qwen2; use ARCHITECTURE, WITH_VISION;
    mod qwen2moe; use ARCHITECTURE;
    mod qwen3; use ARCHITECTURE, WITH_VISION;
    mod qwen3moe; use ARCHITECTURE;
    mod qwen3next; use ARCHITECTURE, QWEN35, QWEN35_MOE;
    mod qwen3vlmoe; use ARCHITECTURE;
    mod qwen4exp; use ARCHITECTURE;
    mod refact; use ARCHITECTURE;
    mod rwkv; use ARCHITECTURE;
    mod rwkv6; use ARCHITECTURE, WITH_QWEN;
    mod rwkv7; use ARCHITECTURE, WITH_QWEN;
    mod seed_oss; use ARCHITECTURE;
    mod smallthinker; use ARCHITECTURE;
    mod smollm3; use ARCHITECTURE;
    mod spark2_5; use ARCHITECTURE;
    mod stablelm; use ARCHITECTURE;
    mod starcoder; use ARCHITECTURE;
    mod starcoder2; use ARCHITECTURE;
    mod step35; use ARCHITECTURE;
    mod t5; use ARCHITECTURE, ENCODER;
    mod talkie; use ARCHITECTURE;
    mod wavtokenizer; use ARCHITECTURE;
    mod whisper; use ARCHITECTURE;
    mod xverse; use ARCHITECTURE;
}

/// The architectures with complete tables.
pub static ARCHITECTURES: &[Architecture] = TABLES;

pub use checkpoint::{Checkpoint, Computed, StoredTypes, TensorFacts, TensorNames, Tokenizer};
pub use dim::Dim;
pub use expr::Expr;
pub use key::{FormulaType, Key};
pub use row::{FUSED, FUSED_EXPERTS, FUSED_LATENT, FUSED_LINEAR, Map, Need, Row, RowOp};
pub use tensor::Tensor;
pub use vocab::{Changes, Quirk, Reader, Vocab};
pub use when::When;

/// Common imports of the files in this folder.
mod prelude {
    pub(super) use gguf_format::keys;

    pub(super) use super::groups::*;
    pub(super) use super::{
        Architecture, Changes, Checkpoint, Computed, Dim, Expr, FormulaType, Key, Map, Need, Quirk, Reader, Row, RowOp,
        StoredTypes, TensorFacts, TensorNames, Tokenizer, Vocab, When,
    };
}

/// An architecture, or several with the same tensors.
#[derive(Debug, Clone, Copy)]
pub struct Architecture {
    /// Its names in `general.architecture`.
    pub names: &'static [&'static str],
    /// The keys that llama.cpp requires to load a model (`load_hparams` and `load_arch_hparams`) or to determine
    /// tensor shapes. Keys that only some models need, and `general` and `tokenizer` keys, are not listed.
    pub required: &'static [&'static [&'static str]],
    /// The other keys that llama.cpp reads for this architecture (`load_arch_hparams`), as far as it reads them of all its models and
    /// in the same form as for others. Keys that every architecture has (`load_hparams`) are not listed.
    pub optional: &'static [&'static str],
    /// Tensors outside the blocks.
    pub outside: &'static [&'static [Row]],
    /// Tensors of each block.
    pub block: &'static [&'static [Row]],
    /// The checkpoints that are converted to it.
    pub checkpoints: &'static [Checkpoint],
}

impl Architecture {
    /// The tensors outside the blocks.
    pub fn outside(&self) -> impl Iterator<Item = Tensor> + use<> {
        tensors(self.outside)
    }

    /// The tensors of each block.
    pub fn block(&self) -> impl Iterator<Item = Tensor> + use<> {
        tensors(self.block)
    }
}

fn tensors(groups: &'static [&'static [Row]]) -> impl Iterator<Item = Tensor> {
    groups.iter().copied().flatten().flat_map(|row| {
        let bias = row.bias.map(|_| Tensor { row, is_bias: true });
        core::iter::once(Tensor { row, is_bias: false }).chain(bias)
    })
}

pub use unsupported::{UNSUPPORTED, UNSUPPORTED_ENCODERS};

/// The image and audio encoders, which are written to separate files beside the language model.
pub use towers::TOWERS;

/// Outside the blocks, in every architecture but [`ODD`] ones.
pub const COMMON_OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Optional Always;
    "output_norm.weight" [Embd]       Optional Always;
    "output.weight"      [Embd Vocab] Optional Always;
};

/// In blocks, in every architecture but [`ODD`] ones.
pub const COMMON: &[Row] = rows! {
    "attn_norm.weight"   [Embd]       Optional Always;
    "ffn_norm.weight"    [Embd]       Optional Always;
};

/// Architectures that use these names for tensors of other shapes: several models in one file, codecs, and heads on
/// top of another model.
pub const ODD: &[&str] = &[
    "cogvlm",
    "dflash",
    "eagle3",
    "gemma4-assistant",
    "hrm_text",
    "kimi-k3",
    "openelm",
    "pockettts",
    "qwen3tts",
    "talkie",
    "wavtokenizer-dec",
];

/// The architecture with this name; `None` if it has no table.
///
/// ```
/// let llama = gguf_model::arch::of("llama").expect("a known architecture");
/// let names: Vec<String> = llama.block().map(|tensor| tensor.name_in(Some(0))).collect();
/// assert!(names.iter().any(|name| name == "blk.0.attn_q.weight"));
/// assert!(gguf_model::arch::of("unknown").is_none());
/// ```
pub fn of(name: &str) -> Option<&'static Architecture> {
    ARCHITECTURES.iter().find(|architecture| architecture.names.contains(&name))
}

/// Whether the name is that of a known architecture: one of llama.cpp, of the specification, or with a table.
pub(crate) fn is_known(name: &str) -> bool {
    keys::is_architecture(name) || of(name).is_some()
}

/// The keys that llama.cpp requires of this architecture, except `general` and `tokenizer` keys; empty for
/// architectures that it does not load.
///
/// ```
/// let mut keys = gguf_model::arch::required_keys("llama");
/// assert!(keys.any(|info| info.pattern == gguf_format::keys::BLOCK_COUNT));
/// ```
pub fn required_keys(name: &str) -> impl Iterator<Item = &'static KeyInfo> {
    lists(name).0.iter().copied().flatten().filter_map(|key| keys::info(key))
}

/// The other keys that llama.cpp reads for this architecture; see [`Architecture::optional`].
pub(crate) fn optional_keys(name: &str) -> impl Iterator<Item = &'static str> {
    lists(name).1.iter().copied()
}

/// Whether an architecture lists a key as required or optional.
pub(crate) fn lists_key(name: &str, pattern: &str) -> bool {
    lists(name).0.iter().copied().flatten().copied().chain(optional_keys(name)).any(|key| key == pattern)
}

/// The required and the optional keys of an architecture.
fn lists(name: &str) -> unlisted::Keys {
    of(name).map_or_else(|| unlisted::keys_of(name), |architecture| (architecture.required, architecture.optional))
}

/// The architectures for checkpoints of a class, in the order in which their conditions are evaluated.
pub fn all_of_class(class: &str) -> impl Iterator<Item = (&'static Architecture, &'static Checkpoint)> {
    let all = ARCHITECTURES.iter().flat_map(|arch| arch.checkpoints.iter().map(move |checkpoint| (arch, checkpoint)));
    let found = all.filter(|(_, checkpoint)| checkpoint.classes.contains(&class));
    // The entry without a condition is the fallback.
    let (some, rest): (Vec<_>, Vec<_>) = found.partition(|(_, checkpoint)| !checkpoint.when.is_empty());
    some.into_iter().chain(rest)
}

/// The image and audio encoders in checkpoints of a class, in the order in which their conditions are evaluated.
pub fn towers_of_class(class: &str) -> impl Iterator<Item = (&'static Architecture, &'static Checkpoint)> {
    let all = TOWERS.iter().flat_map(|arch| arch.checkpoints.iter().map(move |checkpoint| (arch, checkpoint)));
    all.filter(move |(_, checkpoint)| checkpoint.classes.contains(&class))
}

/// The architecture for checkpoints of a class; the first one if it depends on their configuration.
///
/// ```
/// let (architecture, checkpoint) = gguf_model::arch::of_class("Qwen2ForCausalLM").expect("a known class");
/// assert_eq!(checkpoint.architecture(architecture), "qwen2");
/// ```
pub fn of_class(class: &str) -> Option<(&'static Architecture, &'static Checkpoint)> {
    all_of_class(class).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fit_a_word_of_bits() {
        for family in ARCHITECTURES {
            assert!(family.block().count() <= 128 && family.outside().count() <= 128, "{:?}", family.names);
        }
        assert!(ODD.is_sorted());
    }

    #[test]
    fn architectures_that_llama_cpp_loads_have_required_keys() {
        let required = |name: &str| required_keys(name).map(|row| row.pattern).collect::<Vec<_>>();
        for name in keys::ARCHITECTURES {
            let found = required(name);
            assert_eq!(found.is_empty(), ["clip", "gptj"].contains(name), "{name}");
            assert!(found.iter().all(|key| found.iter().filter(|k| *k == key).count() == 1), "{name} {found:?}");
            println!("{name} {}", found.join(","));
        }
        for architecture in ARCHITECTURES {
            let keys = architecture.required.iter().copied().flatten();
            assert!(keys.clone().all(|key| keys::info(key).is_some()), "{:?}", architecture.names);
        }
        let llama = [
            keys::CONTEXT_LENGTH,
            keys::EMBEDDING_LENGTH,
            keys::BLOCK_COUNT,
            keys::ATTENTION_HEAD_COUNT,
            keys::ATTENTION_LAYER_NORM_RMS_EPSILON,
            keys::FEED_FORWARD_LENGTH,
        ];
        assert_eq!(required("llama"), llama);
        assert!(required("unheard").is_empty());
    }
}
