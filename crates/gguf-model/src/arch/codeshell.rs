//! CodeShell: the names of GPT-2, rotary positions, grouped queries.
//!
//! Rules: `load_arch_tensors` in `src/models/codeshell.cpp` of llama.cpp, `CodeShellModel` in `conversion/codeshell.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["codeshell"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["CodeShellForCausalLM"],
        names: &TensorNames { roots: &["transformer."], layers: &["h.{}."], skip: MASKS, ..TensorNames::TEXT },
        keys: &[KEYS],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "context_length" U32 = "n_positions";
    "embedding_length" U32 = "n_embd";
    "feed_forward_length" U32 = "4 * n_embd";
    "block_count" U32 = "block_count";
    "attention.head_count" U32 = "n_head";
    "attention.head_count_kv" U32 = "num_query_groups";
    "attention.layer_norm_epsilon" F32 = "layer_norm_epsilon";
    "general.file_type" U32 = "@file_type";
    "rope.freq_base" F32 = "10000.0";
    "rope.scaling.type" Str = "'linear'";
    "rope.scaling.factor" F32 = "1.0";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Optional    Always <- "wte";
    "output_norm.weight" [Embd]       Required    Always + Required <- "ln_f";
    "output.weight"      [Embd Vocab] Required    Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]       Required    Always + Required <- "ln_1";
    "attn_qkv.weight"    [Embd EmbdQkv]   Optional    Always + Optional <- "attn.c_attn";
    "attn_q.weight"      [Embd Embd]     UnlessFused Always + Optional;
    "attn_k.weight"      [Embd V]     UnlessFused Always + Optional;
    "attn_v.weight"      [Embd V]     UnlessFused Always + Optional;
    "attn_output.weight" [Embd Embd]  Required    Always + Required <- "attn.c_proj";
    "ffn_norm.weight"    [Embd]       Required    Always + Required <- "ln_2";
    "ffn_up.weight"      [Embd Ff]    Required    Always + Required <- "mlp.c_fc";
    "ffn_down.weight"    [Ff Embd]    Required    Always + Required <- "mlp.c_proj";
};
