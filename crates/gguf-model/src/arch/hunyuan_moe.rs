//! Hunyuan with routed experts and a shared expert: query and key norms.
//!
//! Rules: `load_arch_tensors` in `src/models/hunyuan-moe.cpp` of llama.cpp, `HunYuanMoEModel` in
//! `conversion/hunyuan.py`, which rejects configurations that llama.cpp does not implement.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["hunyuan-moe"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::EXPERT_FEED_FORWARD_LENGTH]],
    optional: &[keys::EXPERT_SHARED_FEED_FORWARD_LENGTH],
    outside: &[EMBEDDINGS],
    block: &[NORMS, QKV, OUTPUT, BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["HunYuanMoEV1ForCausalLM"],
        names: &TensorNames { skip: &[("lm_head.weight", "tie_word_embeddings")], ..TensorNames::TEXT },
        refuse: &[
            (
                "not all([n == moe_intermediate_size[0] for n in moe_intermediate_size])",
                "different moe_intermediate_size",
            ),
            ("not all([n == moe_topk[0] for n in moe_topk])", "different moe_topk"),
            ("not all([n == num_shared_expert[0] for n in num_shared_expert])", "different num_shared_expert"),
        ],
        keys: &[GENERIC, KEYS],
        tokenizer: &Tokenizer {
            vocab: Vocab::read_by(&[Reader::Tiktoken { has_defaults: false }]),
            keys: &[TOKENIZER],
            ..Tokenizer::BPE
        },
        ..Checkpoint::TEXT
    }],
};

const BLOCK: &[Row] = rows! {
    "attn_q_norm.weight"    [HeadK]            Required Always <- "self_attn.query_layernorm";
    "attn_k_norm.weight"    [HeadK]            Required Always <- "self_attn.key_layernorm";
    "ffn_gate_inp.weight"   [Embd Experts]     Required Always <- "mlp.gate.wg";
    "ffn_down_exps.weight"  [Ff Embd Experts]  Required Always <- "mlp.experts.{x}.down_proj";
    "ffn_gate_exps.weight"  [Embd Ff Experts]  Required Always <- "mlp.experts.{x}.gate_proj";
    "ffn_up_exps.weight"    [Embd Ff Experts]  Required Always <- "mlp.experts.{x}.up_proj";
    "ffn_gate_shexp.weight" [Embd SharedOrFf]  Required Always <- "mlp.shared_mlp.gate_proj";
    "ffn_up_shexp.weight"   [Embd SharedOrFf]  Required Always <- "mlp.shared_mlp.up_proj";
    "ffn_down_shexp.weight" [SharedOrFf Embd]  Required Always <- "mlp.shared_mlp.down_proj";
};

/// Lists have one number per block; all must be equal. NTK-scaled rotation is defined for one set of parameters only.
const KEYS: &[Key] = keys! {
    let widths = "moe_intermediate_size";
    "expert_shared_feed_forward_length" U32 = "intermediate_size";
    "expert_feed_forward_length" U32 = "widths[0]";
    "expert_used_count" U32 = "moe_topk[0]";
    "expert_shared_count" U32 = "num_shared_expert[0]";
    let is_dynamic = "rope_all.rope_type == 'dynamic'";
    let width = "hidden_size // num_attention_heads";
    let base = "rope_all.rope_theta|10000.0";
    let alpha = "rope_all.alpha|1000";
    let rope_scaling_is_that_of_a13b = "str(alpha == 1000 and base == 10000.0 and width == 128
        and max_position_embeddings in [32768, 262144])";
    let known = "one_of(rope_scaling_is_that_of_a13b, {'true': 1}) if is_dynamic else 1";
    "rope.freq_base" F32? = "base * alpha ** (width / (width - 2)) if is_dynamic else null";
    "rope.scaling.type" Str? = "'none' if is_dynamic else null";
    "rope.scaling.factor" F32? = "1 if is_dynamic else null";
    "rope.scaling.original_context_length" U32? = "262144 if is_dynamic else null";
    "context_length" U32? = "262144 if is_dynamic else null";
};

/// The correct BOS token; configurations have a wrong one.
const TOKENIZER: &[Key] = keys! {
    "tokenizer.ggml.bos_token_id" U32 = "127959";
};
