//! dots3-note: two kinds of latent attention, sliding-window and sparse with an indexer, with different numbers and
//! lengths of heads, and an MTP block.
//!
//! Rules: `load_arch_tensors` in `src/models/dots3note.cpp` of llama.cpp, `Dots3NoteModel` in `conversion/dots3.py`.

use super::deepseek2::{LATENT_FIELDS, LATENT_KEYS};
use super::deepseek32::OWN_INDEXER;
use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["dots3note"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        &[
            keys::EXPERT_SHARED_COUNT,
            keys::EXPERT_FEED_FORWARD_LENGTH,
            keys::LEADING_DENSE_BLOCK_COUNT,
            keys::EXPERT_GATING_FUNC,
            keys::ATTENTION_Q_LORA_RANK,
            keys::ATTENTION_KV_LORA_RANK,
            keys::ATTENTION_KEY_LENGTH_MLA,
            keys::ATTENTION_VALUE_LENGTH_MLA,
            keys::ATTENTION_KV_LORA_RANK_SWA,
            keys::ATTENTION_KEY_LENGTH_MLA_SWA,
            keys::ATTENTION_VALUE_LENGTH_MLA_SWA,
            keys::ATTENTION_SLIDING_WINDOW,
            keys::ROPE_FREQ_BASE_SWA,
            keys::ATTENTION_SLIDING_WINDOW_PATTERN,
            keys::ATTENTION_INDEXER_HEAD_COUNT,
            keys::ATTENTION_INDEXER_KEY_LENGTH,
            keys::ATTENTION_INDEXER_TOP_K,
            keys::ATTENTION_INDEXER_TYPES,
        ],
    ],
    optional: &[keys::EXPERT_WEIGHTS_NORM, keys::EXPERT_WEIGHTS_SCALE],
    outside: &[EMBEDDINGS],
    block: &[NORMS, BLOCK, OWN_INDEXER, GATED_FFN, EXPERTS, REQUIRED_SELECTION_BIAS, SHARED_EXPERTS, MTP],
    checkpoints: &[Checkpoint {
        classes: &["Dots3NoteForCausalLM", "Dots3NoteForConditionalGeneration", "Dots3NoteTextForCausalLM"],
        names: &TensorNames {
            skip: &[
                ("lm_head.weight", "tie_word_embeddings"),
                ("*sam_model*", ""),
                ("*qwen2_model*", ""),
                ("vision_encoder.*", ""),
                ("audio_encoder.*", ""),
            ],
            appended: &[("mtp.embed_tokens.", "layers.{}.embed_tokens.")],
            ..TensorNames::TEXT
        },
        separates_mtp: true,
        keeps_main_blocks: true,
        refuse: &[
            ("(use_dsa|true) != true", "attention without an indexer (use_dsa is not true)"),
            ("len(layer_types) < num_hidden_layers", "layer_types shorter than num_hidden_layers"),
            (
                "(normalization|'RMSNorm') != 'RMSNorm' or (final_norm|'RMSNorm') != 'RMSNorm'",
                "norms other than RMSNorm (normalization, final_norm)",
            ),
            ("(k_rope_only_layernorm|true) != true", "keys without a norm of the rotated part (k_rope_only_layernorm)"),
            (
                "(topk_method|'noaux_tc') != 'noaux_tc' or scoring_func != 'sigmoid'",
                "routing other than topk_method \"noaux_tc\" with scoring_func \"sigmoid\"",
            ),
            ("(n_group|1) != 1 or (topk_group|1) != 1", "groups of experts (n_group, topk_group)"),
            ("use_dynamic_rsf or moe_gating_fp32", "use_dynamic_rsf and moe_gating_fp32"),
            (
                "(attention_gate_type|'headwise') != 'headwise' or (swa_attention_gate_type|'headwise') != 'headwise'",
                "attention gates that are not headwise (attention_gate_type, swa_attention_gate_type)",
            ),
            (
                "swa_qk_nope_head_dim + swa_qk_rope_head_dim != (swa_head_dim|256)",
                "a swa_head_dim other than swa_qk_nope_head_dim + swa_qk_rope_head_dim",
            ),
            ("swa_qk_rope_head_dim != qk_rope_head_dim", "another number of rotated elements in sliding windows"),
            ("swa_q_lora_rank != q_lora_rank", "another q_lora_rank in sliding windows"),
        ],
        keys: &[FIELDS, LATENT_FIELDS, GENERIC, LATENT_KEYS, KEYS],
        tokenizer: &Tokenizer { special_tokens: &[("eot", "<|endofassistant|>")], ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const FIELDS: &[Key] = keys! {
    let n_next = "0 if @mtp == 'left_out' else min(@appended_blocks, 1)";
    let block_count = "num_hidden_layers + n_next";
    let is_windowed = "[t == 'sliding_attention' for t in pad(layer_types, num_hidden_layers, '')]";
    let num_attention_heads = "[swa_num_attention_heads if w else num_attention_heads for w in pad(is_windowed, block_count, true)]";
    let head_dim = "null";
    let rescales = "apply_mla_qkv_lora_rescale|false";
    let q_rescale = "sqrt(hidden_size / q_lora_rank) if rescales else 1.0";
    let kv_rescale = "sqrt(hidden_size / kv_lora_rank) if rescales else 1.0";
    let swa_kv_rescale = "sqrt(hidden_size / swa_kv_lora_rank) if rescales else 1.0";
    let swa = "{'nope': swa_qk_nope_head_dim}";
};

const KEYS: &[Key] = keys! {
    "attention.sliding_window" U32 = "sliding_window_size";
    "attention.sliding_window_pattern" Bool = "is_windowed";
    "attention.kv_lora_rank_swa" U32 = "swa_kv_lora_rank";
    "attention.key_length_swa" U32 = "swa_kv_lora_rank + swa_qk_rope_head_dim";
    "attention.value_length_swa" U32 = "swa_kv_lora_rank";
    "attention.key_length_mla_swa" U32 = "swa_qk_nope_head_dim + swa_qk_rope_head_dim";
    "attention.value_length_mla_swa" U32 = "swa_v_head_dim";
    "nextn_predict_layers" U32? = "n_next or null";
    "attention.indexer.head_count" U32 = "index_n_heads";
    "attention.indexer.key_length" U32 = "index_head_dim";
    "attention.indexer.top_k" U32 = "index_topk";
    "attention.indexer.types" Bool = "[not w for w in is_windowed]";
};

/// Elements of the queries of all heads of a block, which depend on its window.
const WINDOW_Q: Dim = dim!(
    "attention.head_count * (attention.key_length_mla_swa if is_windowed else attention.key_length_mla or attention.key_length)"
);

/// Elements of the values of all heads of a block, which depend on its window.
const WINDOW_V: Dim = dim!(
    "attention.head_count * (attention.value_length_mla_swa if is_windowed else attention.value_length_mla or attention.value_length)"
);

/// Rank of the key and value projection of a block, which depends on its window, and the rotated elements.
const WINDOW_KV: Dim =
    dim!("(attention.kv_lora_rank_swa if is_windowed else attention.kv_lora_rank) + rope.dimension_count");

/// Rank of the key and value projection of a block with a window.
const KV_LORA_SWA: Dim = dim!("attention.kv_lora_rank_swa");

const BLOCK: &[Row] = rows! {
    "attn_q_a.weight"       [Embd QLora]  Required Always <- "self_attn.q_a_proj";
    "attn_q_a_norm.weight"  [QLora]       Required Always <- "self_attn.q_a_layernorm", Map::ScaleBy("q_rescale");
    "attn_q_b.weight"       [QLora WINDOW_Q] Required Always <- "self_attn.q_b_proj";
    "attn_kv_a_mqa.weight"  [Embd WINDOW_KV] Required Always <- "self_attn.kv_a_proj_with_mqa";
    "attn_kv_a_norm.weight" [KV_LORA_SWA] Required "is_windowed" <- "self_attn.kv_a_layernorm", Map::ScaleBy("swa_kv_rescale");
    "attn_kv_a_norm.weight" [KvLora]      Required "not is_windowed" <- "self_attn.kv_a_layernorm", Map::ScaleBy("kv_rescale");
    "attn_k_b.weight"       ["attention.key_length_mla_swa - rope.dimension_count" KV_LORA_SWA Heads] Required "is_windowed" <- "self_attn.kv_b_proj"
        : "(h s[:swa.nope]) e -> h e s";
    "attn_k_b.weight"       [MlaNope KvLora Heads] Required "not is_windowed" <- "self_attn.kv_b_proj" : "(h s[:MlaNope]) e -> h e s";
    "attn_v_b.weight"       [KV_LORA_SWA "attention.value_length_mla_swa" Heads] Required "is_windowed" <- "self_attn.kv_b_proj"
        : "(h s[swa.nope:]) e -> h s e";
    "attn_v_b.weight"       [KvLora MlaHeadV Heads] Required "not is_windowed" <- "self_attn.kv_b_proj" : "(h s[MlaNope:]) e -> h s e";
    "attn_k_norm.weight"    ["rope.dimension_count"]         Required Always <- "self_attn.k_layernorm";
    "attn_gate.weight"      [Embd Heads]  Required Always <- "self_attn.g_proj";
    "attn_output.weight"    [WINDOW_V Embd] Required Always <- "self_attn.o_proj";
};
