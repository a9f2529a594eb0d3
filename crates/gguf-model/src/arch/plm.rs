//! PLM: low-rank keys and values, as in MiniCPM 3; a feed-forward part without a gate; tied embeddings.
//!
//! Rules: `load_arch_tensors` in `src/models/plm.cpp` of llama.cpp, `PLMModel` in `conversion/plm.py`. A copy of the
//! embeddings as output matrix, which some checkpoints carry, is omitted: llama.cpp does not support it.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["plm"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::ATTENTION_KV_LORA_RANK]],
    optional: &[],
    outside: &[TIED_EMBEDDINGS],
    block: &[NORMS, LATENT_ATTENTION, UNGATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["PLMForCausalLM"],
        names: &TensorNames { skip: &[("lm_head.weight", "tie_word_embeddings|true")], ..TensorNames::TEXT },
        keys: &[GENERIC, VOCAB_SIZE, KEYS],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "attention.kv_lora_rank" U32 = "kv_lora_rank";
    "attention.key_length" U32 = "qk_nope_head_dim + qk_rope_head_dim";
    "attention.value_length" U32 = "v_head_dim";
    "rope.dimension_count" U32 = "qk_rope_head_dim";
};

const TIED_EMBEDDINGS: &[Row] = rows! {
    "token_embd.weight"     [Embd Vocab]      Required Always <- "embed_tokens";
    "output_norm.weight"    [Embd]            Required Always <- "norm";
};

const LATENT_ATTENTION: &[Row] = rows! {
    "attn_q.weight"         [Embd Q]          Required Always <- "self_attn.q_proj";
    "attn_kv_a_mqa.weight"  [Embd KvLoraRot]  Required Always <- "self_attn.kv_a_proj_with_mqa";
    "attn_kv_a_norm.weight" [KvLora]          Required Always <- "self_attn.kv_a_layernorm";
    "attn_kv_b.weight"      [KvLora LatentKv] Required Always <- "self_attn.kv_b_proj";
    "attn_output.weight"    [HeadsV Embd]     Required Always <- "self_attn.o_proj";
};
