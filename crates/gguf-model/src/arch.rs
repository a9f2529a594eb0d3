//! Architectures: which tensors each has, and what shapes follow from its keys (`load_arch_tensors` of the files in llama.cpp's
//! `src/models`), as rows.
//!
//! An [`Architecture`] lists all its tensors, so that missing and unexpected ones are found. For all other architectures there is
//! a list of tensors that mean the same wherever they are ([`COMMON`]), looked at if present.

use gguf_format::Dims;
use gguf_format::keys::KeyInfo;

use crate::hparams::Hparams;

/// Name, dimensions from the contiguous one on, whether it is needed, and in which models.
macro_rules! rows {
    ($($name:literal [$($dim:ident)*] $need:ident $when:ident)*) => {
        &[$(Row { name: $name, shape: &[$(Dim::$dim),*], need: Need::$need, when: When::$when }),*]
    };
}

mod gemma;
mod llama;
mod qwen2;
mod qwen3;

/// What a file of this folder is written with.
mod prelude {
    pub(super) use super::{Architecture, Dim, Need, Row, When};
}

/// A dimension, by what it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dim {
    /// Elements of a hidden state.
    Embd,
    /// Tokens.
    Vocab,
    /// Width of the feed-forward part.
    Ff,
    /// Width of the feed-forward part of the shared expert.
    SharedFf,
    /// Elements of the queries of all heads.
    Q,
    /// Elements of the keys of all heads.
    K,
    /// Elements of the values of all heads.
    V,
    /// Queries, keys and values behind each other.
    Qkv,
    /// Elements of the key of one head.
    HeadK,
    /// Half of the rotated elements of a head.
    HalfRot,
    /// Experts.
    Experts,
}

impl Dim {
    /// The number, in block `block`; `None` when the keys do not say it.
    pub fn of(self, h: &Hparams<'_>, block: u64) -> Option<u64> {
        match self {
            Dim::Embd => h.embd,
            Dim::Vocab => h.vocab,
            Dim::Ff => h.ff?.get(block),
            Dim::SharedFf => h.shared_ff,
            Dim::Q => h.q(block),
            Dim::K => h.k(block),
            Dim::V => h.v(block),
            Dim::Qkv => h.q(block)?.checked_add(h.k(block)?)?.checked_add(h.v(block)?),
            Dim::HeadK => h.head_k,
            Dim::HalfRot => h.rot.map(|n| n / 2),
            Dim::Experts => Some(h.experts),
        }
    }
}

/// Whether a tensor has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Need {
    /// It has to be there.
    Required,
    /// It may be there.
    Optional,
    /// Required, unless queries, keys and values are in one matrix.
    UnlessFused,
}

/// For which models a row counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum When {
    /// All models.
    Always,
    /// Without experts.
    Dense,
    /// With experts.
    Experts,
    /// With experts, one of which is shared.
    SharedExpert,
}

impl When {
    /// Whether a row with it counts for a model of these sizes.
    pub fn holds(self, h: &Hparams<'_>) -> bool {
        match self {
            When::Always => true,
            When::Dense => h.experts == 0,
            When::Experts => h.experts > 0,
            When::SharedExpert => h.experts > 0 && h.shared_ff.is_some(),
        }
    }
}

/// One tensor.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its name, without `blk.N.`.
    pub name: &'static str,
    /// Its dimensions, the contiguous one first; empty when they are not known.
    pub shape: &'static [Dim],
    /// Whether it has to be there.
    pub need: Need,
    /// For which models the row counts.
    pub when: When,
}

/// An architecture, or several with the same tensors.
#[derive(Debug, Clone, Copy)]
pub struct Architecture {
    /// The names in `general.architecture` that mean it.
    pub names: &'static [&'static str],
    /// Tensors outside the blocks.
    pub outside: &'static [Row],
    /// Tensors of each block; at most 64.
    pub block: &'static [Row],
}

/// Fused matrix whose presence makes [`Need::UnlessFused`] rows optional.
pub const FUSED: &str = "attn_qkv.weight";

/// The architectures whose tensors are listed here, whole. Adding one is a file and a line.
pub const ARCHITECTURES: &[Architecture] =
    &[llama::ARCHITECTURE, qwen2::ARCHITECTURE, qwen3::ARCHITECTURE, gemma::ARCHITECTURE];

/// Outside the blocks, in every architecture but [`ODD`] ones.
pub const COMMON_OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Optional Always
    "output_norm.weight" [Embd]       Optional Always
    "output.weight"      [Embd Vocab] Optional Always
};

/// In blocks, in every architecture but [`ODD`] ones.
pub const COMMON: &[Row] = rows! {
    "attn_norm.weight"   [Embd]       Optional Always
    "ffn_norm.weight"    [Embd]       Optional Always
};

/// Architectures whose tensors have such names and other shapes: parts of several models in one file, codecs, and heads
/// that sit on another model.
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

/// The architecture of that name; `None` for those whose tensors are not listed.
pub fn of(name: &str) -> Option<&'static Architecture> {
    ARCHITECTURES.iter().find(|architecture| architecture.names.contains(&name))
}

/// The keys without which llama.cpp refuses to load a model of that architecture.
pub fn required_keys(name: &str) -> impl Iterator<Item = &'static KeyInfo> {
    gguf_format::keys::required(name)
}

impl Row {
    /// Whether a tensor has the row's shape. Dimensions of 1 at the end do not matter, and a dimension that the keys do not say is
    /// not compared.
    pub fn fits(&self, dims: Dims<'_>, h: &Hparams<'_>, block: u64) -> bool {
        if self.shape.is_empty() {
            return true;
        }
        let same = self.shape.iter().enumerate().all(|(i, dim)| dim.of(h, block).is_none_or(|n| n == dims.dim(i)));
        same && dims.skip(self.shape.len()).all(|n| n == 1)
    }

    /// The shape that the row asks for, as text; `?` for what the keys do not say.
    pub fn expected(&self, h: &Hparams<'_>, block: u64) -> String {
        let dims = self.shape.iter().map(|dim| dim.of(h, block).map_or_else(|| "?".to_owned(), |n| n.to_string()));
        format!("[{}]", dims.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fit_a_word_of_bits() {
        for family in ARCHITECTURES {
            assert!(family.block.len() <= 64 && family.outside.len() <= 64);
            assert!(family.block.iter().any(|row| row.name == FUSED));
        }
        assert!(ODD.is_sorted());
    }
}
