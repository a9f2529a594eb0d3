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
//! that many tables share, and `list.rs` the list of all tables.

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
mod list;
mod names;
mod tensor;
mod vocab;

mod afmoe;
mod apertus;
mod arcee;
mod arctic;
mod baichuan;
mod bailingmoe;
mod bailingmoe2;
mod bailingmoe3;
mod bert;
mod bitnet;
mod bloom;
mod chameleon;
mod chatglm;
mod codeshell;
mod cogvlm;
mod cohere2;
mod cohere2moe;
mod command_r;
mod dbrx;
mod deci;
mod deepseek;
mod deepseek2;
mod deepseek2ocr;
mod deepseek32;
mod deepseek4;
mod dflash;
mod dots1;
mod dots3note;
mod dream;
mod eagle3;
mod ernie4_5;
mod eurobert;
mod exaone;
mod exaone4;
mod exaone_moe;
mod falcon;
mod falcon_h1;
mod gemma;
mod gemma2;
mod gemma3;
mod gemma3n;
mod gemma4;
mod glm4;
mod glm4moe;
mod glm5_next;
mod gpt2;
mod gpt_oss;
mod gptj;
mod gptneox;
mod granite;
mod granite_hybrid;
mod granite_swa;
mod granite_switch;
mod grok;
pub(crate) mod groups;
mod grovemoe;
mod hrm_text;
mod hunyuan;
mod hunyuan_moe;
mod hy_v3;
mod hy_v4;
mod internlm2;
mod jais;
mod jais2;
mod jamba;
mod jina_bert;
mod kimi_k3;
mod kimi_linear;
mod laguna;
mod lfm2;
mod llada;
mod llada_moe;
mod llama;
mod llama4;
mod maincoder;
mod mamba;
mod mamba2;
mod maple;
mod mellum;
mod mimo2;
mod minicpm;
mod minicpm3;
mod minimax_01;
mod minimax_m2;
mod minimax_m3;
mod modern_bert;
mod mpt;
mod muse_glimmer;
mod nanbeige;
mod nemotron;
mod nemotron_h;
mod neo_bert;
mod nomic_bert;
mod olmo;
mod olmo2;
mod olmoe;
mod openelm;
mod orion;
mod pangu;
mod phi2;
mod phi3;
mod phimoe;
mod plamo;
mod plamo2;
mod plamo3;
mod plm;
mod qwen;
mod qwen2;
mod qwen2moe;
mod qwen3;
mod qwen3moe;
mod qwen3next;
mod qwen3vlmoe;
mod qwen4exp;
mod refact;
mod rwkv;
mod rwkv6;
mod rwkv7;
mod seed_oss;
mod smallthinker;
mod smollm3;
mod spark2_5;
mod stablelm;
mod starcoder;
mod starcoder2;
mod step35;
mod t5;
mod talkie;
mod towers;
mod unlisted;
mod unsupported;
mod wavtokenizer;
mod whisper;
mod xverse;

pub use checkpoint::{Checkpoint, Computed, StoredTypes, TensorFacts, TensorNames, Tokenizer};
pub use dim::Dim;
pub use expr::Expr;
pub use key::{FormulaType, Key};
pub use list::ARCHITECTURES;
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

/// The keys that llama.cpp requires of this architecture, except `general` and `tokenizer` keys; empty for
/// architectures that it does not load.
///
/// ```
/// let mut keys = gguf_model::arch::required_keys("llama");
/// assert!(keys.any(|info| info.pattern == gguf_format::keys::BLOCK_COUNT));
/// ```
pub fn required_keys(name: &str) -> impl Iterator<Item = &'static KeyInfo> {
    let listed = of(name).map(|architecture| architecture.required);
    let keys = listed.unwrap_or_else(|| unlisted::required(name));
    keys.iter().copied().flatten().filter_map(|key| keys::info(key))
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
