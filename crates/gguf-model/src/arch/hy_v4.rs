//! Hy4 of Hunyuan: gated latent attention with a sink, sparse in all or some blocks, and hyper-connections.
//!
//! Rules: `load_arch_tensors` in `src/models/hy-v4.cpp` of llama.cpp, `HYV4Model` in `conversion/hy_v4.py`. MTP blocks
//! are omitted.

use super::deepseek2::{LATENT_FIELDS, LATENT_KEYS};
use super::deepseek32::OWN_INDEXER;
use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["hy_v4"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        &[
            keys::ATTENTION_Q_LORA_RANK,
            keys::ATTENTION_KV_LORA_RANK,
            keys::ATTENTION_KEY_LENGTH_MLA,
            keys::ATTENTION_VALUE_LENGTH_MLA,
            keys::EXPERT_FEED_FORWARD_LENGTH,
            keys::EXPERT_SHARED_COUNT,
            keys::HYPER_CONNECTION_COUNT,
            keys::HYPER_CONNECTION_EPSILON,
            keys::HYPER_CONNECTION_MAGNITUDE,
        ],
    ],
    optional: &[
        keys::ATTENTION_INDEXER_HEAD_COUNT,
        keys::ATTENTION_INDEXER_KEY_LENGTH,
        keys::ATTENTION_INDEXER_TOP_K,
        keys::EXPERT_GATING_FUNC,
        keys::EXPERT_WEIGHTS_NORM,
        keys::EXPERT_WEIGHTS_SCALE,
        keys::LEADING_DENSE_BLOCK_COUNT,
        keys::SWIGLU_CLAMP_EXP,
    ],
    outside: &[UNTIED_EMBEDDINGS, OUTSIDE],
    block: &[NORMS, LATENT_ATTENTION, OWN_INDEXER, BLOCK, GATED_FFN, EXPERTS, SELECTION_BIAS, SHARED_EXPERTS],
    checkpoints: &[
        Checkpoint {
            when: "enable_lm_head_fp32",
            types: &StoredTypes {
                precise: &["blk.*.hc_attn_fn.weight", "blk.*.hc_ffn_fn.weight", "output_hc_fn.weight", "output.weight"],
                ..*HY_V4.types
            },
            ..HY_V4
        },
        HY_V4,
    ],
};

const HY_V4: Checkpoint = Checkpoint {
    classes: &["HYV4ForCausalLM"],
    names: &TensorNames {
        skip: &[
            ("lm_head.weight", "tie_word_embeddings"),
            ("*sam_model*", ""),
            ("*qwen2_model*", ""),
            ("mtp_layers.*", ""),
        ],
        ..TensorNames::TEXT
    },
    drops_further_blocks: true,
    refuse: &[
        (
            "first_k_dense_replace != null and mlp_layer_types != null
                and first_k_dense_replace != n_leading(mlp_layer_types, 'dense')",
            "first_k_dense_replace that contradicts mlp_layer_types",
        ),
        (
            "mlp_layer_types != null
                and sum([1 if t == 'dense' else 0 for t in mlp_layer_types]) != n_leading(mlp_layer_types, 'dense')",
            "dense blocks after blocks with experts (mlp_layer_types)",
        ),
        (
            "indexer_types == null and any([t in ['sparse_attention', 'deepseek_sparse_attention'] for t in layer_types ?? []])
                and len(layer_types) < num_hidden_layers",
            "layer_types shorter than num_hidden_layers",
        ),
        (
            "indexer_types != null and len(indexer_types) < num_hidden_layers",
            "indexer_types shorter than num_hidden_layers",
        ),
        (
            "indexer_types != null and not all([t in ['full', 'shared'] for t in pad(indexer_types, num_hidden_layers, 'full')])",
            "indexer_types other than \"full\" and \"shared\"",
        ),
        ("indexer_types and indexer_types[0] != 'full'", "a first block without an indexer of its own (indexer_types)"),
        ("first_k_dense_replace == null and mlp_layer_types == null", "a model without first_k_dense_replace"),
    ],
    keys: &[FIELDS, LATENT_FIELDS, GENERIC, LATENT_KEYS, KEYS],
    types: &StoredTypes {
        precise: &["blk.*.hc_attn_fn.weight", "blk.*.hc_ffn_fn.weight", "output_hc_fn.weight"],
        ..StoredTypes::ASKED
    },
    ..Checkpoint::TEXT
};

const FIELDS: &[Key] = keys! {
    let has_groups = "not (n_group == 1 and topk_group == 1)";
    let n_group = "(n_group|null) if has_groups else null";
    let topk_group = "(topk_group|null) if has_groups else null";
    let first_k_dense_replace = "first_k_dense_replace ?? n_leading(mlp_layer_types, 'dense')";
};

const KEYS: &[Key] = keys! {
    "expert_gating_func" U32 = "2";
    "swiglu_clamp_exp" F32? = "[float(swiglu_limit) for i] if (swiglu_limit ?? 0.0) > 0.0 else null";
    "hyper_connection.count" U32 = "hc_mult";
    "hyper_connection.epsilon" F32 = "hc_eps";
    "hyper_connection.magnitude" F32 = "hc_magnitude";
    let sparse = "[t in ['sparse_attention', 'deepseek_sparse_attention'] for t in pad(layer_types ?? [], block_count, '')]";
    let indexed = "[t == 'full' for t in pad(indexer_types, block_count, 'shared')] if indexer_types != null
        else sparse if any(sparse) else null";
    "attention.indexer.head_count" U32? = "null if indexed == null else required(index_n_heads)";
    "attention.indexer.key_length" U32? = "null if indexed == null else required(index_head_dim)";
    "attention.indexer.top_k" U32? = "null if indexed == null else required(index_topk)";
    "attention.indexer.types" Bool? = "indexed";
};

/// Two values per parallel hidden state of hyper-connections.
const TWICE_HYPER: Dim = dim!("2 * hyper_connection.count");

const OUTSIDE: &[Row] = rows! {
    "output_hc_fn.weight"    [HyperEmbd Hyper] Required Always <- "hc_head.hc_head_fn";
    "output_hc_base.weight"  [Hyper]      Required Always <- "hc_head.hc_head_base";
    "output_hc_scale.weight" ["1"]        Required Always <- "hc_head.hc_head_scale";
};

const BLOCK: &[Row] = rows! {
    "attn_sinks.weight"      [Heads]      Required Always <- "self_attn.learnable_sink_param";
    "attn_gate.weight"       [Embd MlaV]  Required Always <- "self_attn.gate_proj";
    "hc_attn_fn.weight"      [HyperEmbd TWICE_HYPER] Required Always <- "hc_attn_layer.hc_pre.hc_fn";
    "hc_attn_base.weight"    [TWICE_HYPER] Required Always <- "hc_attn_layer.hc_pre.hc_base";
    "hc_attn_scale.weight"   ["2"]        Required Always <- "hc_attn_layer.hc_pre.hc_scale";
    "hc_ffn_fn.weight"       [HyperEmbd TWICE_HYPER] Required Always <- "hc_mlp_layer.hc_pre.hc_fn";
    "hc_ffn_base.weight"     [TWICE_HYPER] Required Always <- "hc_mlp_layer.hc_pre.hc_base";
    "hc_ffn_scale.weight"    ["2"]        Required Always <- "hc_mlp_layer.hc_pre.hc_scale";
};
