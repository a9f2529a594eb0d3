//! MiniMax-M3: sparse attention with an indexer, kept in single precision, and norm weights stored minus 1.
//!
//! Rules: `load_arch_tensors` in `src/models/minimax-m3.cpp` of llama.cpp, `MiniMaxM3Model` in `conversion/minimax.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["minimax-m3"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        &[
            keys::EXPERT_FEED_FORWARD_LENGTH,
            keys::EXPERT_SHARED_COUNT,
            keys::EXPERT_GATING_FUNC,
            keys::ATTENTION_INDEXER_HEAD_COUNT,
            keys::ATTENTION_INDEXER_KEY_LENGTH,
            keys::ATTENTION_INDEXER_TOP_K,
            keys::ATTENTION_INDEXER_BLOCK_SIZE,
            keys::ATTENTION_INDEXER_LOCAL_BLOCKS,
        ],
    ],
    optional: &[keys::EXPERT_WEIGHTS_NORM, keys::EXPERT_WEIGHTS_SCALE, keys::LEADING_DENSE_BLOCK_COUNT],
    outside: &[OUTSIDE],
    block: &[BLOCK, QKV_OF_VALUES, OUTPUT, GATED_FFN, EXPERTS_W],
    checkpoints: &[Checkpoint {
        classes: &["MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration"],
        keys: &[GENERIC, KEYS],
        types: &StoredTypes { precise: &["*.indexer.*"], ..StoredTypes::ASKED },
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "expert_feed_forward_length" U32 = "intermediate_size";
    "rope.dimension_count" U32 = "rotary_dim";
    "expert_shared_count" U32 = "n_shared_experts";
    "expert_weights_scale" F32 = "routed_scaling_factor";
    "expert_weights_norm" Bool = "true";
    "attention.indexer.head_count" U32 = "sparse_attention_config.sparse_num_index_heads";
    "attention.indexer.key_length" U32 = "sparse_attention_config.sparse_index_dim";
    "attention.indexer.top_k" U32 = "sparse_attention_config.sparse_topk_blocks";
    "attention.indexer.block_size" U32 = "sparse_attention_config.sparse_block_size";
    "attention.indexer.local_blocks" U32 = "sparse_attention_config.sparse_local_block";
    "leading_dense_block_count" U32 = "n_leading(moe_layer_freq, 0)";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"     [Embd Vocab]            Required Always <- "embed_tokens";
    "output_norm.weight"    [Embd]                  Required Always <- "norm", Map::Add(1.0);
    "output.weight"         [Embd Vocab]            Required Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"      [Embd]                  Required Always <- "input_layernorm", Map::Add(1.0);
    "ffn_norm.weight"       [Embd]                  Required Always <- "post_attention_layernorm", Map::Add(1.0);
    "attn_q_norm.weight"    [HeadK]                 Required Always <- "self_attn.q_norm", Map::Add(1.0);
    "attn_k_norm.weight"    [HeadK]                 Required Always <- "self_attn.k_norm", Map::Add(1.0);
    "indexer.q_proj.weight" [Embd IndexerQ]         Required Experts <- "self_attn.index_q_proj";
    "indexer.k_proj.weight" [Embd IndexerKey]       Required Experts <- "self_attn.index_k_proj";
    "indexer.q_norm.weight" [IndexerKey]            Required Experts <- "self_attn.index_q_norm", Map::Add(1.0);
    "indexer.k_norm.weight" [IndexerKey]            Required Experts <- "self_attn.index_k_norm", Map::Add(1.0);
};

const EXPERTS_W: &[Row] = rows! {
    "ffn_gate_inp.weight"   [Embd Experts]          Required Experts <- "block_sparse_moe.gate";
    "exp_probs_b.bias"      [Experts]               Required Experts <- "block_sparse_moe.e_score_correction.bias";
    "ffn_gate_exps.weight"  [Embd ExpertFf Experts] Required Experts <- "block_sparse_moe.experts.{x}.w1";
    "ffn_down_exps.weight"  [ExpertFf Embd Experts] Required Experts <- "block_sparse_moe.experts.{x}.w2";
    "ffn_up_exps.weight"    [Embd ExpertFf Experts] Required Experts <- "block_sparse_moe.experts.{x}.w3";
    "ffn_gate_shexp.weight" [Embd SharedExpertsFf]  Required Experts <- "block_sparse_moe.shared_experts.gate_proj";
    "ffn_up_shexp.weight"   [Embd SharedExpertsFf]  Required Experts <- "block_sparse_moe.shared_experts.up_proj";
    "ffn_down_shexp.weight" [SharedExpertsFf Embd]  Required Experts <- "block_sparse_moe.shared_experts.down_proj";
};
