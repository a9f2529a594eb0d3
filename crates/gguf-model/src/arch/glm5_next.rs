//! GLM 5.3: delta attention in most blocks, sparse latent attention with an indexer and without rotation in the
//! others, hyper-connections, and MTP blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/glm5-next.cpp` of llama.cpp, `Glm5NextModel` in `conversion/glm.py`.

use super::deepseek32::INDEXER;
use super::kimi_linear::{DELTA_ATTENTION, DELTA_GATES};
use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["glm5-next"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        &[
            keys::ATTENTION_KEY_LENGTH_MLA,
            keys::ATTENTION_VALUE_LENGTH_MLA,
            keys::ATTENTION_Q_LORA_RANK,
            keys::ATTENTION_KV_LORA_RANK,
            keys::SSM_CONV_KERNEL,
            keys::KDA_HEAD_DIM,
            keys::EXPERT_FEED_FORWARD_LENGTH,
            keys::EXPERT_SHARED_COUNT,
            keys::ATTENTION_INDEXER_HEAD_COUNT,
            keys::ATTENTION_INDEXER_KEY_LENGTH,
            keys::ATTENTION_INDEXER_TOP_K,
            keys::ATTENTION_INDEXER_KPOOL,
            keys::HYPER_CONNECTION_COUNT,
            keys::HYPER_CONNECTION_SINKHORN_ITERATIONS,
            keys::HYPER_CONNECTION_EPSILON,
        ],
    ],
    optional: &[
        keys::ATTENTION_INDEXER_KPOOL_SELECT_TAIL,
        keys::ATTENTION_INDEXER_TYPES,
        keys::ATTENTION_LAYER_NORM_EPSILON,
        keys::EXPERT_GATING_FUNC,
        keys::EXPERT_WEIGHTS_NORM,
        keys::EXPERT_WEIGHTS_SCALE,
        keys::KDA_GATE_LOWER_BOUND,
        keys::LEADING_DENSE_BLOCK_COUNT,
        keys::SWIGLU_CLAMP_EXP,
        keys::SWIGLU_CLAMP_SHEXP,
    ],
    outside: &[UNTIED_EMBEDDINGS],
    block: &[
        NORMS,
        DELTA_ATTENTION,
        DELTA_GATES,
        BLOCK,
        INDEXER,
        GATED_FFN,
        EXPERTS,
        SELECTION_BIAS,
        SHARED_EXPERTS,
        MTP,
    ],
    checkpoints: &[Checkpoint {
        classes: &["Glm5NextForConditionalGeneration"],
        separates_mtp: true,
        keeps_main_blocks: true,
        names: &TensorNames { skip: &[("lm_head.weight", "tie_word_embeddings")], ..TensorNames::TEXT },
        refuse: &[
            ("len(layer_types) != num_hidden_layers", "layer_types of another length than num_hidden_layers"),
            ("not mla_use_nope or qk_rope_head_dim != 0", "rotated latent attention"),
            ("linear_attn_config.num_heads != num_attention_heads", "another number of heads in delta attention"),
            ("not (mhc|true)", "a model without mixed hidden states (mhc is false)"),
        ],
        keys: &[FIELDS, GENERIC, KEYS],
        tokenizer: &Tokenizer { special_tokens: GLM_TOKENS, ..Tokenizer::BPE },
        types: &StoredTypes {
            precise: &["blk.*hc_attn_*", "blk.*hc_ffn_*", "blk.*indexer_compressor_*"],
            ..StoredTypes::ASKED
        },
        ..Checkpoint::TEXT
    }],
};

const FIELDS: &[Key] = keys! {
    let num_nextn_predict_layers = "null if @mtp == 'left_out' else num_nextn_predict_layers or null";
    let block_count = "num_hidden_layers + (num_nextn_predict_layers or 0)";
    let head_dim = "null";
};

const KEYS: &[Key] = keys! {
    "attention.head_count_kv" U32 = "[0 if t == 'linear_attention' else 1 for t in pad(layer_types, block_count, '')]";
    "vocab_size" U32 = "vocab_size";
    "attention.layer_norm_epsilon" F32 = "1e-6";
    "nextn_predict_layers" U32? = "num_nextn_predict_layers";
    "ssm.conv_kernel" U32 = "linear_attn_config.short_conv_kernel_size";
    "kda.head_dim" U32 = "linear_attn_config.head_dim";
    "kda.gate_lower_bound" F32? = "linear_attn_config.gate_lower_bound";
    "attention.q_lora_rank" U32 = "q_lora_rank";
    "attention.kv_lora_rank" U32 = "kv_lora_rank";
    "rope.dimension_count" U32 = "qk_rope_head_dim";
    "attention.key_length" U32 = "kv_lora_rank + qk_rope_head_dim";
    "attention.value_length" U32 = "kv_lora_rank";
    "attention.key_length_mla" U32 = "qk_nope_head_dim + qk_rope_head_dim";
    "attention.value_length_mla" U32 = "v_head_dim";
    "attention.indexer.head_count" U32 = "index_n_heads";
    "attention.indexer.key_length" U32 = "index_head_dim";
    "attention.indexer.top_k" U32 = "index_topk";
    "attention.indexer.kpool" U32 = "index_kpool";
    "attention.indexer.kpool_select_tail" Bool = "index_kpool_always_select_tail|true";
    "attention.indexer.types" Bool? = "null if indexer_types == null else [t == 'full' for t in indexer_types]";
    "hyper_connection.count" U32 = "hc_mult";
    "hyper_connection.sinkhorn_iterations" U32 = "hc_sinkhorn_iters";
    "hyper_connection.epsilon" F32 = "hc_eps";
    "leading_dense_block_count" U32 = "first_k_dense_replace";
    "expert_feed_forward_length" U32 = "moe_intermediate_size";
    "expert_shared_count" U32 = "n_shared_experts";
    "expert_weights_scale" F32 = "routed_scaling_factor";
    "expert_weights_norm" Bool = "norm_topk_prob";
    "swiglu_clamp_exp" F32? = "null if swiglu_limit == null else [float(swiglu_limit) for i]";
    "swiglu_clamp_shexp" F32? = "null if swiglu_limit == null else [float(swiglu_limit) for i]";
};

/// Blocks other than MTP blocks.
const MAIN: When = when!("not is_mtp");

const BLOCK: &[Row] = rows! {
    "ssm_a"                 [Heads]           Required Recurrent <- "self_attn.A_log" : "1 1 h 1 -> h", Map::NegExp;
    "attn_q_a.weight"       [Embd QLora]      Required Attention <- "self_attn.q_a_proj";
    "attn_q_a_norm.weight"  [QLora]           Required Attention <- "self_attn.q_a_layernorm";
    "attn_q_b.weight"       [QLora MlaQ]      Required Attention <- "self_attn.q_b_proj";
    "attn_kv_a_mqa.weight"  [Embd KvLoraRot]  Required Attention <- "self_attn.kv_a_proj_with_mqa";
    "attn_kv_a_norm.weight" [KvLora]          Required Attention <- "self_attn.kv_a_layernorm";
    "attn_k_b.weight"       [MlaNope KvLora Heads] Required Attention <- "self_attn.kv_b_proj" : "(h s[:MlaNope]) e -> h e s";
    "attn_v_b.weight"       [KvLora MlaHeadV Heads] Required Attention <- "self_attn.kv_b_proj" : "(h s[MlaNope:]) e -> h s e";
    "attn_output.weight"    [MlaV Embd]       Required Attention <- "self_attn.o_proj";
    "indexer_compressor_gate.weight" [Embd IndexerKey] Optional Attention <- "self_attn.indexer.index_kpool_compress_gate";
    "indexer_compressor_ape.weight"  []       Optional Attention <- "self_attn.indexer.index_kpool_compress_ape";
    "hc_attn_fn.weight"     [HyperEmbd HyperMix] Required MAIN <- "hc_attn_fn";
    "hc_attn_base.weight"   [HyperMix]        Required MAIN <- "hc_attn_base";
    "hc_attn_scale.weight"  ["3"]           Required MAIN <- "hc_attn_scale";
    "hc_ffn_fn.weight"      [HyperEmbd HyperMix] Required MAIN <- "hc_ffn_fn";
    "hc_ffn_base.weight"    [HyperMix]        Required MAIN <- "hc_ffn_base";
    "hc_ffn_scale.weight"   ["3"]           Required MAIN <- "hc_ffn_scale";
};
