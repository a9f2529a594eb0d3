//! MiMo V2: different numbers of heads in blocks with a sliding window, attention sinks, and three MTP blocks.
//!
//!
//! Rules: `load_arch_tensors` in `src/models/mimo2.cpp` of llama.cpp, `MimoV2Model` in `conversion/mimo.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["mimo2"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        &[keys::EXPERT_FEED_FORWARD_LENGTH, keys::ATTENTION_SLIDING_WINDOW, keys::ATTENTION_SLIDING_WINDOW_PATTERN],
    ],
    optional: &[keys::ATTENTION_VALUE_SCALE, keys::ROPE_FREQ_BASE_SWA],
    outside: &[UNTIED_EMBEDDINGS],
    block: &[BLOCK, FFN, MTP],
    checkpoints: &[Checkpoint {
        classes: &["MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"],
        names: &TensorNames { appended: &[("mtp.layers.{}.", "layers.{}.")], ..TensorNames::TEXT },
        separates_mtp: true,
        keeps_main_blocks: true,
        refuse: &[
            (
                "swa_head_dim != head_dim or swa_v_head_dim != v_head_dim or swa_num_attention_heads != num_attention_heads",
                "other lengths of heads in blocks with a window",
            ),
            ("topk_method != 'noaux_tc'", "a topk_method other than \"noaux_tc\""),
        ],
        keys: &[FIELDS, GENERIC, KEYS],
        ..Checkpoint::TEXT
    }],
};

/// The configuration lacks the number of MTP blocks, which is three.
const FIELDS: &[Key] = keys! {
    let n_next = "0 if @mtp == 'left_out' else 3";
    let block_count = "num_hidden_layers + n_next";
    let windowed = "hybrid_layer_pattern + [1] * n_next";
};

const KEYS: &[Key] = keys! {
    "attention.head_count_kv" U32 = "[swa_num_key_value_heads if w == 1 else num_key_value_heads for w in windowed]";
    "attention.sliding_window" U32 = "sliding_window";
    "attention.sliding_window_pattern" I32 = "windowed";
    "attention.value_length" U32 = "v_head_dim";
    "expert_count" U32 = "n_routed_experts";
    "expert_feed_forward_length" U32 = "moe_intermediate_size";
    "rope.dimension_count" U32 = "int(head_dim * rope_all.partial_rotary_factor)";
    "attention.layer_norm_rms_epsilon" F32 = "layernorm_epsilon|1e-5";
    "attention.value_scale" F32? = "null if attention_value_scale == null else float(attention_value_scale)";
    "nextn_predict_layers" U32? = "n_next or null";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"         [Embd]                  Required Always <- "input_layernorm";
    "attn_qkv.weight"          [Embd Qkv]              Optional Always + Optional <- "self_attn.qkv_proj";
    "attn_q.weight"            [Embd Q]                UnlessFused Always + Optional <- "self_attn.q_proj";
    "attn_k.weight"            [Embd K]                UnlessFused Always + Optional <- "self_attn.k_proj";
    "attn_v.weight"            [Embd V]                UnlessFused Always + Optional <- "self_attn.v_proj";
    "attn_output.weight"       [HeadsV Embd]           Required Always <- "self_attn.o_proj";
    "attn_sinks.weight"        [Heads]                 Optional Always <- "self_attn.attention_sink_bias";
    "ffn_norm.weight"          [Embd]                  Required Always <- "post_attention_layernorm | pre_mlp_layernorm";
    "layer_output_norm.weight" [Embd]                  Optional Mtp <- "final_layernorm";
};

/// Blocks without experts are detected by their tensors in the checkpoint.
const FFN: &[Row] = rows! {
    "ffn_gate.weight"          [Embd Ff]               Optional Always <- "mlp.gate_proj";
    "ffn_up.weight"            [Embd Ff]               Optional Always <- "mlp.up_proj";
    "ffn_down.weight"          [Ff Embd]               Optional Always <- "mlp.down_proj";
    "ffn_gate_inp.weight"      [Embd Experts]          Optional Always <- "mlp.gate";
    "exp_probs_b.bias"         [Experts]               Optional Always <- "mlp.gate.e_score_correction.bias";
    "ffn_gate_exps.weight"     [Embd ExpertFf Experts] Optional Always <- "mlp.experts.{x}.gate_proj";
    "ffn_up_exps.weight"       [Embd ExpertFf Experts] Optional Always <- "mlp.experts.{x}.up_proj";
    "ffn_down_exps.weight"     [ExpertFf Embd Experts] Optional Always <- "mlp.experts.{x}.down_proj";
};
