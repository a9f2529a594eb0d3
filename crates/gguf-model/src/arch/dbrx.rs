//! DBRX: experts in every block, fused queries, keys and values, and a norm between attention and experts.
//!
//! Rules: `load_arch_tensors` in `src/models/dbrx.cpp` of llama.cpp, `DbrxModel` in `conversion/dbrx.py`. Checkpoints
//! concatenate the experts of a block in one matrix. The router is stored in the same type as the other matrices.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["dbrx"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::ATTENTION_CLAMP_KQV]],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["DbrxForCausalLM"],
        names: &TensorNames { roots: &["transformer."], layers: &["blocks.{}."], ..TensorNames::TEXT },
        keys: &[KEYS],
        types: &StoredTypes { forces_type: true, ..StoredTypes::ASKED },
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "block_count" U32 = "block_count";
    "context_length" U32 = "max_seq_len";
    "embedding_length" U32 = "d_model";
    "feed_forward_length" U32 = "ffn_config.ffn_hidden_size";
    "attention.head_count" U32 = "n_heads";
    "attention.head_count_kv" U32 = "attn_config.kv_n_heads";
    "rope.freq_base" F32 = "attn_config.rope_theta";
    "attention.clamp_kqv" F32 = "attn_config.clip_qkv";
    "expert_count" U32 = "ffn_config.moe_num_experts";
    "expert_used_count" U32 = "ffn_config.moe_top_k";
    "attention.layer_norm_epsilon" F32 = "1e-5";
    "general.file_type" U32 = "@file_type";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"       [Embd Vocab]      Required Always <- "wte";
    "output_norm.weight"      [Embd]            Required Always <- "norm_f";
    "output.weight"           [Embd Vocab]      Required Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"        [Embd]            Required Always <- "norm_attn_norm.norm_1";
    "attn_qkv.weight"         [Embd EmbdQkv]        Required Always <- "norm_attn_norm.attn.Wqkv";
    "attn_output.weight"      [Embd Embd]       Required Always <- "norm_attn_norm.attn.out_proj";
    "attn_output_norm.weight" [Embd]            Required Always <- "norm_attn_norm.norm_2";
    "ffn_gate_inp.weight"     [Embd Experts]    Required Always <- "ffn.router.layer";
    "ffn_gate_exps.weight"    [Embd Ff Experts] Required Always <- "ffn.experts.mlp.w1" : "(x f) e -> x f e";
    "ffn_down_exps.weight"    [Ff Embd Experts] Required Always <- "ffn.experts.mlp.w2" : "(x f) e -> x e f";
    "ffn_up_exps.weight"      [Embd Ff Experts] Required Always <- "ffn.experts.mlp.v1" : "(x f) e -> x f e";
};
