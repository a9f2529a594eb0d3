//! DeepSeek 3.2 and GLM-5: sparse latent attention with an indexer, and MTP blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/deepseek32.cpp` and `glm-dsa.cpp` of llama.cpp, `DeepseekV32Model` in
//! `conversion/deepseek.py`, `GlmMoeDsaModel` in `conversion/glm.py`.

use super::deepseek2::{LATENT_FIELDS, LATENT_KEYS};
use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["deepseek32"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, INDEXER_KEYS, &[keys::EXPERT_GATING_FUNC]],
    optional: &[
        keys::ATTENTION_KEY_LENGTH_MLA,
        keys::ATTENTION_VALUE_LENGTH_MLA,
        keys::EXPERT_WEIGHTS_NORM,
        keys::EXPERT_WEIGHTS_SCALE,
        keys::LEADING_DENSE_BLOCK_COUNT,
        keys::ROPE_DIMENSION_SECTIONS,
        keys::ROPE_SCALING_YARN_LOG_MULTIPLIER,
    ],
    outside: &[EMBEDDINGS],
    block: &[NORMS, LATENT_ATTENTION, INDEXER_OF_ALL, GATED_FFN, EXPERTS, SELECTION_BIAS, SHARED_EXPERTS, MTP],
    checkpoints: &[Checkpoint {
        classes: &["DeepseekV32ForCausalLM"],
        keys: &[MTP_FIELDS, LATENT_FIELDS, GENERIC, LATENT_KEYS, MTP_KEYS, KEYS],
        tokenizer: &Tokenizer { keys: &[BEGINS], ..*SPARSE.tokenizer },
        ..SPARSE
    }],
};

/// The tokenizer adds a BOS token: Llama's does by default.
const BEGINS: &[Key] = keys! {
    let add_bos_token = "@tokenizer_config.add_bos_token ?? ('Llama' in (@tokenizer_config.tokenizer_class ?? ''))";
    let checked = "one_of(str(add_bos_token), {'true': 1})";
};

/// GLM-5.
pub(super) const GLM: Architecture = Architecture {
    names: &["glm-dsa"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, INDEXER_KEYS],
    optional: &[
        keys::ATTENTION_INDEXER_TYPES,
        keys::ATTENTION_KEY_LENGTH_MLA,
        keys::ATTENTION_VALUE_LENGTH_MLA,
        keys::EXPERT_GATING_FUNC,
        keys::EXPERT_WEIGHTS_NORM,
        keys::EXPERT_WEIGHTS_SCALE,
        keys::LEADING_DENSE_BLOCK_COUNT,
        keys::ROPE_DIMENSION_SECTIONS,
    ],
    block: &[NORMS, LATENT_ATTENTION, INDEXER, GATED_FFN, EXPERTS, SELECTION_BIAS, SHARED_EXPERTS, MTP],
    checkpoints: &[Checkpoint {
        classes: &["GlmMoeDsaForCausalLM"],
        keys: &[MTP_FIELDS, LATENT_FIELDS, GENERIC, LATENT_KEYS, GLM_ROPE, MTP_KEYS, KEYS, GLM_KEYS],
        tokenizer: &Tokenizer { special_tokens: GLM_TOKENS, ..*SPARSE.tokenizer },
        ..SPARSE
    }],
    ..ARCHITECTURE
};

const SPARSE: Checkpoint = Checkpoint {
    names: &TensorNames {
        skip: &[("lm_head.weight", "tie_word_embeddings"), ("*sam_model*", ""), ("*qwen2_model*", "")],
        ..TensorNames::TEXT
    },
    separates_mtp: true,
    ..Checkpoint::TEXT
};

const INDEXER_KEYS: &[&str] = &[
    keys::EXPERT_FEED_FORWARD_LENGTH,
    keys::EXPERT_SHARED_COUNT,
    keys::ATTENTION_Q_LORA_RANK,
    keys::ATTENTION_KV_LORA_RANK,
    keys::ATTENTION_INDEXER_HEAD_COUNT,
    keys::ATTENTION_INDEXER_KEY_LENGTH,
    keys::ATTENTION_INDEXER_TOP_K,
];

const KEYS: &[Key] = keys! {
    "attention.indexer.head_count" U32 = "index_n_heads";
    "attention.indexer.key_length" U32 = "index_head_dim";
    "attention.indexer.top_k" U32 = "index_topk";
};

const GLM_ROPE: &[Key] = keys! {
    "rope.dimension_count" U32 = "int(qk_rope_head_dim * (rope_all.partial_rotary_factor|1.0))";
};

const GLM_KEYS: &[Key] = keys! {
    "attention.indexer.types" Bool? = "null if indexer_types == null else [t == 'full' for t in indexer_types]";
};

/// Blocks with an indexer of their own, according to the list in a key.
const WITH_INDEXER: When = when!("has_indexer");

/// The indexer, which selects positions.
pub(super) const INDEXER: &[Row] = rows! {
    "indexer.attn_q_b.weight" [QLora IndexerQ]    Optional Always <- "self_attn.indexer.wq_b";
    "indexer.attn_k.weight"   [Embd IndexerKey]   Optional Always <- "self_attn.indexer.wk";
    "indexer.k_norm.weight"   [IndexerKey]        Optional Always + Optional <- "self_attn.indexer.k_norm";
    "indexer.proj.weight"     [Embd IndexerHeads] Optional Always <- "self_attn.indexer.weights_proj";
};

/// The indexer, in the blocks that have one of their own; the others use that of an earlier block.
pub(super) const OWN_INDEXER: &[Row] = rows! {
    "indexer.attn_q_b.weight" [QLora IndexerQ]    Required WITH_INDEXER <- "self_attn.indexer.wq_b";
    "indexer.attn_k.weight"   [Embd IndexerKey]   Required WITH_INDEXER <- "self_attn.indexer.wk";
    "indexer.k_norm.weight"   [IndexerKey]        Required WITH_INDEXER + Required <- "self_attn.indexer.k_norm";
    "indexer.proj.weight"     [Embd IndexerHeads] Required WITH_INDEXER <- "self_attn.indexer.weights_proj";
};

/// The indexer of all blocks.
const INDEXER_OF_ALL: &[Row] = rows! {
    "indexer.attn_q_b.weight" [QLora IndexerQ]    Required Always <- "self_attn.indexer.wq_b";
    "indexer.attn_k.weight"   [Embd IndexerKey]   Required Always <- "self_attn.indexer.wk";
    "indexer.k_norm.weight"   [IndexerKey]        Required Always + Required <- "self_attn.indexer.k_norm";
    "indexer.proj.weight"     [Embd IndexerHeads] Required Always <- "self_attn.indexer.weights_proj";
};
