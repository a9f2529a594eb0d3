//! HRM-Text: two stacks of blocks with weightless norms, each run several times.
//!
//! Rules: `load_arch_tensors` in `src/models/hrm-text.cpp` of llama.cpp, `HrmTextModel` in `conversion/hrm_text.py`. The number of blocks
//! in the file counts every run of a block; the lower stack comes first.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["hrm_text"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        FEED_FORWARD_KEYS,
        &[keys::HRM_LAYERS_PER_STACK, keys::HRM_H_CYCLES, keys::HRM_L_CYCLES],
    ],
    optional: &[keys::EMBEDDING_SCALE, keys::HRM_PREFIX_LM],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["HrmTextForCausalLM"],
        names: &TensorNames {
            layers: &["L_module.layers.{}.", "H_module.layers.{}."],
            renumbered: &[("H_module.layers.", "[layers_per_stack + i for i]")],
            ..TensorNames::TEXT
        },
        keys: &[FIELDS, GENERIC, KEYS],
        ..Checkpoint::TEXT
    }],
};

const FIELDS: &[Key] = keys! {
    let layers_per_stack = "num_layers_per_stack or num_hidden_layers";
    let block_count = "layers_per_stack * H_cycles * (L_cycles + 1)";
};

const KEYS: &[Key] = keys! {
    "rope.dimension_count" U32 = "head_dim or hidden_size // num_attention_heads";
    "embedding_scale" F32 = "embedding_scale";
    "hrm.layers_per_stack" U32 = "layers_per_stack";
    "hrm.h_cycles" U32 = "H_cycles";
    "hrm.l_cycles" U32 = "L_cycles";
    "hrm.prefix_lm" Bool = "true if prefix_lm else false";
};

/// Blocks with weights, in models whose blocks run several times.
const STACKED: When = when!("has_weights");

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required Always <- "embed_tokens";
    "output.weight"      [Embd Vocab] Optional Always <- "lm_head";
    "hrm.z_l_init"       [Embd]       Required Always <- "z_L_init";
};

const BLOCK: &[Row] = rows! {
    "attn_gate.weight"   [Embd Q]     Required STACKED <- "attn.gqkv_proj" : "(4[0] r) ... -> r ...";
    "attn_q.weight"      [Embd Q]     Required STACKED + Optional <- "attn.gqkv_proj" : "(4[1] r) ... -> r ...";
    "attn_k.weight"      [Embd K]     Required STACKED + Optional <- "attn.gqkv_proj" : "(4[2] r) ... -> r ...";
    "attn_v.weight"      [Embd V]     Required STACKED + Optional <- "attn.gqkv_proj" : "(4[3] r) ... -> r ...";
    "attn_output.weight" [Q Embd]     Required STACKED <- "attn.o_proj";
    "ffn_gate.weight"    [Embd Ff]    Required STACKED <- "mlp.gate_up_proj" : "(two[0] f) ... -> f ...";
    "ffn_up.weight"      [Embd Ff]    Required STACKED <- "mlp.gate_up_proj" : "(two[1] f) ... -> f ...";
    "ffn_down.weight"    [Ff Embd]    Required STACKED <- "mlp.down_proj";
};
