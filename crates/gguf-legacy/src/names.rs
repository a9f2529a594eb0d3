//! Names of tensors in legacy files, and the GGUF names of the same tensors.
//!
//! Legacy programs that kept the names of the checkpoint use the table of the architecture in `gguf_model::arch`. The other names are here.

use gguf_model::arch::{self, Architecture, Checkpoint};

use crate::layout::Family;

/// The GGUF name of a legacy tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Name {
    Output(Named),
    /// Not written, with the reason.
    LeftOut(&'static str),
    Unknown,
}

/// A GGUF name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// The whole name.
    pub(crate) name: String,
    /// The name without the prefix of the block and the suffix `.weight` or `.bias`.
    pub(crate) stem: &'static str,
    pub(crate) block: Option<u64>,
}

/// Names outside of blocks, and in each run of blocks: the text before and after its number, and its GGUF name.
struct Table {
    outside: Pairs,
    blocks: &'static [(&'static str, &'static str, &'static str, Pairs)],
    left_out: Pairs,
}

/// Legacy names, each with the GGUF name or the reason for its omission.
type Pairs = &'static [(&'static str, &'static str)];

const LLAMA: Table = Table {
    outside: &[("tok_embeddings", "token_embd"), ("norm", "output_norm"), ("output", "output")],
    blocks: &[(
        "layers.",
        ".",
        "blk.",
        &[
            ("attention_norm", "attn_norm"),
            ("attention.wq", "attn_q"),
            ("attention.wk", "attn_k"),
            ("attention.wv", "attn_v"),
            ("attention.wo", "attn_output"),
            ("ffn_norm", "ffn_norm"),
            // The first is the gate.
            ("feed_forward.w1", "ffn_gate"),
            ("feed_forward.w2", "ffn_down"),
            ("feed_forward.w3", "ffn_up"),
        ],
    )],
    left_out: &[("rope.freqs", "computed when the model runs")],
};

const BLOOM: Table = Table {
    outside: &[
        ("tok_embeddings", "token_embd"),
        ("norm", "token_embd_norm"),
        ("output_norm", "output_norm"),
        ("output", "output"),
    ],
    blocks: &[(
        "layers.",
        ".",
        "blk.",
        &[
            ("attention_norm", "attn_norm"),
            ("attention.query_key_value", "attn_qkv"),
            ("attention.wo", "attn_output"),
            ("ffn_norm", "ffn_norm"),
            ("feed_forward.w1", "ffn_up"),
            ("feed_forward.w2", "ffn_down"),
        ],
    )],
    left_out: &[],
};

const GPT2: Table = Table {
    outside: &[
        ("model/wte", "token_embd"),
        ("model/wpe", "position_embd"),
        ("model/ln_f", "output_norm"),
        ("model/lm_head", "output"),
    ],
    blocks: &[(
        "model/h",
        "/",
        "blk.",
        &[
            ("ln_1", "attn_norm"),
            ("attn/c_attn", "attn_qkv"),
            ("attn/c_proj", "attn_output"),
            ("ln_2", "ffn_norm"),
            ("mlp/c_fc", "ffn_up"),
            ("mlp/c_proj", "ffn_down"),
        ],
    )],
    left_out: &[],
};

/// Replit until June 18, 2023; later files have the names of MPT.
const REPLIT: Table = Table {
    outside: &[("transformer.ln_f", "output_norm")],
    blocks: &[(
        "transformer.blocks.",
        ".",
        "blk.",
        &[("ln_1", "attn_norm"), ("ln_2", "ffn_norm"), ("mlp.mlp_up", "ffn_up"), ("mlp.mlp_down", "ffn_down")],
    )],
    left_out: &[],
};

const BERT: Table = Table {
    outside: &[
        ("embeddings.word_embeddings", "token_embd"),
        ("embeddings.position_embeddings", "position_embd"),
        ("embeddings.token_type_embeddings", "token_types"),
        ("embeddings.LayerNorm", "token_embd_norm"),
    ],
    blocks: &[(
        "encoder.layer.",
        ".",
        "blk.",
        &[
            ("attention.self.query", "attn_q"),
            ("attention.self.key", "attn_k"),
            ("attention.self.value", "attn_v"),
            ("attention.output.dense", "attn_output"),
            ("attention.output.LayerNorm", "attn_output_norm"),
            ("intermediate.dense", "ffn_up"),
            ("output.dense", "ffn_down"),
            ("output.LayerNorm", "layer_output_norm"),
        ],
    )],
    left_out: &[("pooler.dense", "llama.cpp pools without it"), ("embeddings.position_ids", "counts from 0")],
};

const RWKV: Table = Table {
    outside: &[
        ("emb", "token_embd"),
        ("blocks.0.ln0", "token_embd_norm"),
        ("ln_out", "output_norm"),
        ("head", "output"),
    ],
    blocks: &[(
        "blocks.",
        ".",
        "blk.",
        &[
            ("ln1", "attn_norm"),
            ("ln2", "attn_norm_2"),
            ("att.time_first", "time_mix_first"),
            ("att.time_decay", "time_mix_decay"),
            ("att.time_mix_k", "time_mix_lerp_k"),
            ("att.time_mix_v", "time_mix_lerp_v"),
            ("att.time_mix_r", "time_mix_lerp_r"),
            ("att.key", "time_mix_key"),
            ("att.value", "time_mix_value"),
            ("att.receptance", "time_mix_receptance"),
            ("att.output", "time_mix_output"),
            ("ffn.time_mix_k", "channel_mix_lerp_k"),
            ("ffn.time_mix_r", "channel_mix_lerp_r"),
            ("ffn.key", "channel_mix_key"),
            ("ffn.value", "channel_mix_value"),
            ("ffn.receptance", "channel_mix_receptance"),
        ],
    )],
    left_out: &[],
};

const WHISPER: Table = Table {
    outside: &[
        ("encoder.conv1", "enc.conv1d.1"),
        ("encoder.conv2", "enc.conv1d.2"),
        ("encoder.positional_embedding", "enc.position_embd"),
        ("encoder.ln_post", "enc.output_norm"),
        ("decoder.positional_embedding", "position_embd"),
        ("decoder.token_embedding", "token_embd"),
        ("decoder.ln", "dec.output_norm"),
    ],
    blocks: &[
        (
            "encoder.blocks.",
            ".",
            "enc.blk.",
            &[
                ("attn_ln", "attn_norm"),
                ("attn.query", "attn_q"),
                ("attn.key", "attn_k"),
                ("attn.value", "attn_v"),
                ("attn.out", "attn_o"),
                ("mlp_ln", "ffn_norm"),
                ("mlp.0", "ffn_up"),
                ("mlp.2", "ffn_down"),
            ],
        ),
        (
            "decoder.blocks.",
            ".",
            "dec.blk.",
            &[
                ("attn_ln", "attn_norm"),
                ("attn.query", "attn_q"),
                ("attn.key", "attn_k"),
                ("attn.value", "attn_v"),
                ("attn.out", "attn_o"),
                ("cross_attn_ln", "cross_attn_norm"),
                ("cross_attn.query", "cross_attn_q"),
                ("cross_attn.key", "cross_attn_k"),
                ("cross_attn.value", "cross_attn_v"),
                ("cross_attn.out", "cross_attn_o"),
                ("mlp_ln", "ffn_norm"),
                ("mlp.0", "ffn_up"),
                ("mlp.2", "ffn_down"),
            ],
        ),
    ],
    left_out: &[],
};

/// The GGUF name of a tensor.
pub(crate) fn name(family: Family, legacy: &str) -> Name {
    let of_table = |table: &Table| of_table(table, legacy);
    let of_class = |class: &str| of_class(class, legacy);
    match family {
        Family::Llama => of_table(&LLAMA),
        Family::Bloom => of_table(&BLOOM),
        Family::Gpt2 | Family::StarCoder => of_table(&GPT2),
        Family::Bert => of_table(&BERT),
        Family::Rwkv => of_table(&RWKV),
        Family::Whisper => of_table(&WHISPER),
        Family::GptJ => of_class("GPTJForCausalLM"),
        Family::GptNeox => of_class("GPTNeoXForCausalLM"),
        Family::Falcon => of_class("FalconForCausalLM"),
        Family::Mpt => of_class("MPTForCausalLM"),
        Family::Replit => match of_class("MPTForCausalLM") {
            Name::Unknown => of_table(&REPLIT),
            known => known,
        },
    }
}

fn of_table(table: &Table, legacy: &str) -> Name {
    let (stem, suffix) = split_suffix(legacy);
    if let Some((_, reason)) = table.left_out.iter().find(|(name, _)| stem == *name || stem.ends_with(name)) {
        return Name::LeftOut(reason);
    }
    let in_rows = |rows: &'static [(&'static str, &'static str)], stem: &str| {
        rows.iter().find(|(old, _)| *old == stem).map(|row| row.1)
    };
    if let Some(stem) = in_rows(table.outside, stem) {
        return Name::Output(Named { name: format!("{stem}{suffix}"), stem, block: None });
    }
    for (before, after, new, rows) in table.blocks {
        let found = stem.strip_prefix(before).and_then(number).and_then(|(block, rest)| {
            let stem = in_rows(rows, rest.strip_prefix(after)?)?;
            Some(Named { name: format!("{new}{block}.{stem}{suffix}"), stem, block: Some(block) })
        });
        if let Some(named) = found {
            return Name::Output(named);
        }
    }
    Name::Unknown
}

/// The name from the architecture's table for a class of checkpoints.
fn of_class(class: &str, legacy: &str) -> Name {
    let Some((architecture, checkpoint)) = arch::of_class(class) else { return Name::Unknown };
    let root = checkpoint.names.roots.iter().find_map(|root| legacy.strip_prefix(root)).unwrap_or(legacy);
    let (stem, suffix) = split_suffix(root);
    if is_left_out(checkpoint, root) {
        return Name::LeftOut("computed when the model runs");
    }
    let layers = checkpoint.names.layers.iter().filter_map(|layers| layers.split_once("{}"));
    let in_block = layers.into_iter().find_map(|(before, after)| {
        let (block, rest) = number(stem.strip_prefix(before)?)?;
        Some((block, rest.strip_prefix(after)?))
    });
    let found = match in_block {
        Some((block, stem)) => find_row(architecture, stem, true).map(|stem| Named {
            name: format!("blk.{block}.{stem}{suffix}"),
            stem,
            block: Some(block),
        }),
        None => {
            find_row(architecture, stem, false).map(|stem| Named { name: format!("{stem}{suffix}"), stem, block: None })
        }
    };
    found.map_or(Name::Unknown, Name::Output)
}

fn find_row(architecture: &'static Architecture, source: &str, in_block: bool) -> Option<&'static str> {
    let groups = if in_block { architecture.block } else { architecture.outside };
    let mut rows = groups.iter().copied().flatten();
    rows.find(|row| row.source.split('|').any(|name| name.trim() == source)).map(|row| row.stem())
}

fn is_left_out(checkpoint: &Checkpoint, name: &str) -> bool {
    let masks = [".attention.masked_bias", ".attention.bias", ".rotary_emb.inv_freq", ".attn.masked_bias"];
    let skipped = |pattern: &str| pattern.strip_prefix('*').is_some_and(|end| name.ends_with(end));
    masks.iter().any(|mask| name.ends_with(mask)) || checkpoint.names.skip.iter().any(|(pattern, _)| skipped(pattern))
}

/// Splits the suffix for weights or biases off a name, and returns GGUF's suffix.
fn split_suffix(name: &str) -> (&str, &'static str) {
    const SUFFIXES: [(&str, &str); 5] =
        [(".weight", ".weight"), (".bias", ".bias"), ("/w", ".weight"), ("/g", ".weight"), ("/b", ".bias")];
    let found = SUFFIXES.iter().find_map(|(old, new)| Some((name.strip_suffix(old)?, *new)));
    found.unwrap_or((name, ".weight"))
}

/// The decimal number at the start of a text, and the rest.
fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    let is_plain = digits == "0" || !digits.starts_with('0');
    is_plain.then(|| digits.parse().ok()).flatten().map(|n| (n, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_architecture() {
        for (family, legacy, expected) in [
            (Family::Llama, "tok_embeddings.weight", "token_embd.weight"),
            (Family::Llama, "norm.weight", "output_norm.weight"),
            (Family::Llama, "layers.31.feed_forward.w1.weight", "blk.31.ffn_gate.weight"),
            (Family::Llama, "layers.0.feed_forward.w3.weight", "blk.0.ffn_up.weight"),
            (Family::Bloom, "norm.bias", "token_embd_norm.bias"),
            (Family::Bloom, "layers.2.feed_forward.w1.bias", "blk.2.ffn_up.bias"),
            (Family::Gpt2, "model/wte", "token_embd.weight"),
            (Family::Gpt2, "model/ln_f/g", "output_norm.weight"),
            (Family::StarCoder, "model/h11/attn/c_attn/b", "blk.11.attn_qkv.bias"),
            (Family::GptJ, "transformer.h.3.mlp.fc_in.bias", "blk.3.ffn_up.bias"),
            (Family::GptJ, "lm_head.bias", "output.bias"),
            (Family::GptNeox, "gpt_neox.embed_in.weight", "token_embd.weight"),
            (Family::GptNeox, "embed_out.weight", "output.weight"),
            (Family::GptNeox, "gpt_neox.layers.1.attention.query_key_value.bias", "blk.1.attn_qkv.bias"),
            (Family::Mpt, "transformer.blocks.0.attn.Wqkv.weight", "blk.0.attn_qkv.weight"),
            (Family::Replit, "transformer.norm_f.weight", "output_norm.weight"),
            (Family::Replit, "transformer.blocks.0.mlp.mlp_up.weight", "blk.0.ffn_up.weight"),
            (Family::Falcon, "transformer.h.0.ln_attn.weight", "blk.0.attn_norm_2.weight"),
            (Family::Falcon, "transformer.h.0.self_attention.dense.weight", "blk.0.attn_output.weight"),
            (Family::Bert, "encoder.layer.4.output.LayerNorm.bias", "blk.4.layer_output_norm.bias"),
            (Family::Rwkv, "blocks.0.ln0.weight", "token_embd_norm.weight"),
            (Family::Rwkv, "blocks.0.att.time_decay", "blk.0.time_mix_decay.weight"),
            (Family::Whisper, "encoder.conv1.bias", "enc.conv1d.1.bias"),
            (Family::Whisper, "decoder.blocks.3.cross_attn.out.weight", "dec.blk.3.cross_attn_o.weight"),
        ] {
            let Name::Output(named) = name(family, legacy) else { panic!("{family} {legacy}") };
            assert_eq!(named.name, expected, "{family} {legacy}");
        }
        for (family, legacy) in [
            (Family::Llama, "layers.01.attention.wq.weight"),
            (Family::Llama, "layers.0.attention.query_key_value.weight"),
            (Family::Gpt2, "transformer.wte.weight"),
            (Family::Mpt, "transformer.blocks.x.attn.Wqkv.weight"),
            (Family::Bloom, "layers.0.feed_forward.w3.weight"),
        ] {
            assert_eq!(name(family, legacy), Name::Unknown, "{family} {legacy}");
        }
        let left_out = |family, legacy| matches!(name(family, legacy), Name::LeftOut(_));
        assert!(left_out(Family::Bert, "pooler.dense.weight"));
        assert!(left_out(Family::GptJ, "transformer.h.0.attn.bias"));
        assert!(left_out(Family::GptNeox, "gpt_neox.layers.0.attention.rotary_emb.inv_freq"));
    }
}
