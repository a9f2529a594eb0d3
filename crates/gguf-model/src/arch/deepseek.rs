//! DeepSeek (the first, with experts): Llama's attention, small experts, and shared experts.
//!
//! Rules: `load_arch_tensors` in `src/models/deepseek.cpp` of llama.cpp, `DeepseekModel` in `conversion/deepseek.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["deepseek"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, &[keys::EXPERT_FEED_FORWARD_LENGTH, keys::EXPERT_SHARED_COUNT]],
    optional: &[keys::EXPERT_WEIGHTS_SCALE, keys::LEADING_DENSE_BLOCK_COUNT],
    outside: &[EMBEDDINGS],
    block: &[NORMS, PERMUTED_EMBD_QKV, EMBD_OUTPUT, GATED_FFN, EXPERTS, SHARED_EXPERTS],
    checkpoints: &[Checkpoint {
        classes: &["DeepseekForCausalLM"],
        keys: &[GENERIC, ROPE_WHOLE_HEAD, NO_ROPE_SCALING, KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE_OR_BPE, ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "leading_dense_block_count" U32 = "first_k_dense_replace";
    "vocab_size" U32 = "vocab_size";
    "expert_feed_forward_length" U32 = "moe_intermediate_size";
    "expert_weights_scale" F32 = "1.0";
    "expert_count" U32 = "n_routed_experts";
    "expert_shared_count" U32 = "n_shared_experts";
};
