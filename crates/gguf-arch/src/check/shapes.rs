//! What tensors an architecture has and what shapes follow from its keys: `load_arch_tensors` of the files in llama.cpp's
//! `src/models`, as rows.
//!
//! A [`Family`] lists all tensors of its architectures, so that missing and unexpected ones are found. For all other
//! architectures there is a list of tensors that mean the same wherever they are ([`COMMON`]), looked at if present.

use gguf_format::Dims;

use super::hparams::Hparams;

/// A dimension, by what it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dim {
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
    pub(super) fn of(self, h: &Hparams<'_>, block: u64) -> Option<u64> {
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
pub(super) enum Need {
    Required,
    Optional,
    /// Required, unless queries, keys and values are in one matrix.
    UnlessFused,
}

/// For which models a row counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Always,
    /// Without experts.
    Dense,
    /// With experts.
    Experts,
    /// With experts, one of which is shared.
    SharedExpert,
}

impl When {
    pub(super) fn holds(self, h: &Hparams<'_>) -> bool {
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
pub(super) struct Row {
    /// Its name, without `blk.N.`.
    pub(super) name: &'static str,
    pub(super) shape: &'static [Dim],
    pub(super) need: Need,
    pub(super) when: When,
}

/// Name, dimensions from the contiguous one on, whether it is needed, and in which models.
macro_rules! rows {
    ($($name:literal [$($dim:ident)*] $need:ident $when:ident)*) => {
        &[$(Row { name: $name, shape: &[$(Dim::$dim),*], need: Need::$need, when: When::$when }),*]
    };
}

/// Architectures with the same tensors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Family {
    pub(super) archs: &'static [&'static str],
    /// Tensors outside the blocks.
    pub(super) outside: &'static [Row],
    /// Tensors of each block; at most 64.
    pub(super) block: &'static [Row],
}

/// Fused matrix whose presence makes [`Need::UnlessFused`] rows optional.
pub(super) const FUSED: &str = "attn_qkv.weight";

pub(super) const FAMILIES: &[Family] = &[
    Family {
        archs: &["llama", "llama-embed", "mistral3"],
        outside: rows! {
            "token_embd.weight"         [Embd Vocab]      Required    Always
            "output_norm.weight"        [Embd]            Required    Always
            "output.weight"             [Embd Vocab]      Optional    Always
            "rope_freqs.weight"         [HalfRot]         Optional    Always
            "rope_factors_long.weight"  [HalfRot]         Optional    Always
            "rope_factors_short.weight" [HalfRot]         Optional    Always
        },
        block: rows! {
            "attn_norm.weight"          [Embd]            Required    Always
            "attn_qkv.weight"           [Embd Qkv]        Optional    Always
            "attn_qkv.bias"             [Qkv]             Optional    Always
            "attn_q.weight"             [Embd Q]          UnlessFused Always
            "attn_k.weight"             [Embd K]          UnlessFused Always
            "attn_v.weight"             [Embd V]          UnlessFused Always
            "attn_q.bias"               [Q]               Optional    Always
            "attn_k.bias"               [K]               Optional    Always
            "attn_v.bias"               [V]               Optional    Always
            "attn_output.weight"        [Q Embd]          Required    Always
            "attn_output.bias"          [Embd]            Optional    Always
            "ffn_norm.weight"           [Embd]            Required    Always
            "ffn_gate.weight"           [Embd Ff]         Required    Dense
            "ffn_up.weight"             [Embd Ff]         Required    Dense
            "ffn_down.weight"           [Ff Embd]         Required    Dense
            "ffn_gate.bias"             [Ff]              Optional    Dense
            "ffn_up.bias"               [Ff]              Optional    Dense
            "ffn_down.bias"             [Embd]            Optional    Dense
            "ffn_gate_inp.weight"       [Embd Experts]    Required    Experts
            "ffn_gate_exps.weight"      [Embd Ff Experts] Optional    Experts
            "ffn_up_exps.weight"        [Embd Ff Experts] Required    Experts
            "ffn_down_exps.weight"      [Ff Embd Experts] Required    Experts
            "ffn_gate_shexp.weight"     [Embd SharedFf]   Required    SharedExpert
            "ffn_up_shexp.weight"       [Embd SharedFf]   Required    SharedExpert
            "ffn_down_shexp.weight"     [SharedFf Embd]   Required    SharedExpert
            "rope_freqs.weight"         [HalfRot]         Optional    Always
        },
    },
    Family {
        archs: &["qwen2"],
        outside: rows! {
            "token_embd.weight"         [Embd Vocab]      Required    Always
            "output_norm.weight"        [Embd]            Required    Always
            "output.weight"             [Embd Vocab]      Optional    Always
            "output.bias"               [Vocab]           Optional    Always
        },
        block: rows! {
            "attn_norm.weight"          [Embd]            Required    Always
            "attn_qkv.weight"           [Embd Qkv]        Optional    Always
            "attn_qkv.bias"             [Qkv]             Optional    Always
            "attn_q.weight"             [Embd Q]          UnlessFused Always
            "attn_k.weight"             [Embd K]          UnlessFused Always
            "attn_v.weight"             [Embd V]          UnlessFused Always
            "attn_q.bias"               [Q]               Optional    Always
            "attn_k.bias"               [K]               Optional    Always
            "attn_v.bias"               [V]               Optional    Always
            "attn_output.weight"        [Q Embd]          Required    Always
            "ffn_norm.weight"           [Embd]            Required    Always
            "ffn_gate.weight"           [Embd Ff]         Required    Always
            "ffn_up.weight"             [Embd Ff]         Required    Always
            "ffn_down.weight"           [Ff Embd]         Required    Always
        },
    },
    Family {
        archs: &["qwen3"],
        outside: rows! {
            "token_embd.weight"         [Embd Vocab]      Required    Always
            "output_norm.weight"        [Embd]            Required    Always
            "output.weight"             [Embd Vocab]      Optional    Always
            "cls.output.weight"         []                Optional    Always
        },
        block: rows! {
            "attn_norm.weight"          [Embd]            Required    Always
            "attn_qkv.weight"           [Embd Qkv]        Optional    Always
            "attn_qkv.bias"             [Qkv]             Optional    Always
            "attn_q.weight"             [Embd Q]          UnlessFused Always
            "attn_k.weight"             [Embd K]          UnlessFused Always
            "attn_v.weight"             [Embd V]          UnlessFused Always
            "attn_q.bias"               [Q]               Optional    Always
            "attn_k.bias"               [K]               Optional    Always
            "attn_v.bias"               [V]               Optional    Always
            "attn_q_norm.weight"        [HeadK]           Required    Always
            "attn_k_norm.weight"        [HeadK]           Required    Always
            "attn_output.weight"        [Q Embd]          Required    Always
            "ffn_norm.weight"           [Embd]            Required    Always
            "ffn_gate.weight"           [Embd Ff]         Required    Always
            "ffn_up.weight"             [Embd Ff]         Required    Always
            "ffn_down.weight"           [Ff Embd]         Required    Always
        },
    },
    Family {
        archs: &["gemma", "gemma2"],
        outside: rows! {
            "token_embd.weight"         [Embd Vocab]      Required    Always
            "output_norm.weight"        [Embd]            Required    Always
        },
        block: rows! {
            "attn_norm.weight"          [Embd]            Required    Always
            "attn_qkv.weight"           [Embd Qkv]        Optional    Always
            "attn_qkv.bias"             [Qkv]             Optional    Always
            "attn_q.weight"             [Embd Q]          UnlessFused Always
            "attn_k.weight"             [Embd K]          UnlessFused Always
            "attn_v.weight"             [Embd V]          UnlessFused Always
            "attn_q.bias"               [Q]               Optional    Always
            "attn_k.bias"               [K]               Optional    Always
            "attn_v.bias"               [V]               Optional    Always
            "attn_output.weight"        [Q Embd]          Required    Always
            "post_attention_norm.weight" [Embd]           Optional    Always
            "ffn_norm.weight"           [Embd]            Required    Always
            "ffn_gate.weight"           [Embd Ff]         Required    Always
            "ffn_up.weight"             [Embd Ff]         Required    Always
            "ffn_down.weight"           [Ff Embd]         Required    Always
            "post_ffw_norm.weight"      [Embd]            Optional    Always
        },
    },
];

/// Outside the blocks, in every architecture but [`ODD`] ones.
pub(super) const COMMON_OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Optional Always
    "output_norm.weight" [Embd]       Optional Always
    "output.weight"      [Embd Vocab] Optional Always
};

/// In blocks, in every architecture but [`ODD`] ones.
pub(super) const COMMON: &[Row] = rows! {
    "attn_norm.weight"   [Embd]       Optional Always
    "ffn_norm.weight"    [Embd]       Optional Always
};

/// Architectures whose tensors have such names and other shapes: parts of several models in one file, codecs, and heads
/// that sit on another model.
pub(super) const ODD: &[&str] = &[
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

/// The family of an architecture.
pub(super) fn family(arch: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.archs.contains(&arch))
}

/// Whether a tensor has a row's shape. Dimensions of 1 at the end count for nothing, and a dimension that the keys do not
/// say is not compared.
pub(super) fn fits(row: &Row, dims: Dims<'_>, h: &Hparams<'_>, block: u64) -> bool {
    if row.shape.is_empty() {
        return true;
    }
    let same = row.shape.iter().enumerate().all(|(i, dim)| dim.of(h, block).is_none_or(|n| n == dims.dim(i)));
    same && dims.skip(row.shape.len()).all(|n| n == 1)
}

/// The shape that a row asks for, as text; `?` for what the keys do not say.
pub(super) fn expected(row: &Row, h: &Hparams<'_>, block: u64) -> String {
    let dims = row.shape.iter().map(|dim| dim.of(h, block).map_or_else(|| "?".to_owned(), |n| n.to_string()));
    format!("[{}]", dims.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fit_a_word_of_bits() {
        for family in FAMILIES {
            assert!(family.block.len() <= 64 && family.outside.len() <= 64);
            assert!(family.block.iter().any(|row| row.name == FUSED));
        }
        assert!(ODD.is_sorted());
    }
}
