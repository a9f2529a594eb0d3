//! ERNIE 4.5, dense and with experts, and the text model of PaddleOCR-VL. Checkpoints may fuse queries, keys and
//! values, and the gate and up projections.
//!
//! Rules: `load_arch_tensors` in `src/models/ernie4-5.cpp` of llama.cpp, which all three share; `Ernie4_5Model`,
//! `Ernie4_5MoeModel` and `PaddleOCRModel` in `conversion/ernie.py`. The reference splits only weights; here biases
//! are split as well.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["ernie4_5", "paddleocr"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS],
    optional: &[keys::ROPE_DIMENSION_SECTIONS],
    outside: &[EMBEDDINGS],
    block: &[NORMS, QKV_OF_VALUES, OUTPUT_WITH_BIAS, SPLIT, GATED_FFN, ROUTER, EXPERTS_IN_ORDER, SHARED_EXPERT],
    checkpoints: &[
        Checkpoint { classes: &["Ernie4_5_ForCausalLM", "Ernie4_5ForCausalLM"], ..CHECKPOINT },
        Checkpoint { classes: &["PaddleOCRVLForConditionalGeneration"], name: "paddleocr", ..CHECKPOINT },
    ],
};

/// ERNIE 4.5 with experts.
pub(super) const WITH_EXPERTS: Architecture = Architecture {
    names: &["ernie4_5-moe"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, &[keys::EXPERT_FEED_FORWARD_LENGTH, keys::INTERLEAVE_MOE_LAYER_STEP]],
    optional: &[
        keys::EXPERT_SHARED_FEED_FORWARD_LENGTH,
        keys::LEADING_DENSE_BLOCK_COUNT,
        keys::ROPE_DIMENSION_SECTIONS,
    ],
    checkpoints: &[Checkpoint {
        classes: &["Ernie4_5_MoeForCausalLM"],
        names: &TensorNames {
            skip: &[("mtp_block.*", ""), ("mtp_emb_norm.*", ""), ("mtp_hidden_norm.*", ""), ("mtp_linear_proj.*", "")],
            ..*CHECKPOINT.names
        },
        keys: &[GENERIC, EXPERT_KEYS],
        ..CHECKPOINT
    }],
    ..ARCHITECTURE
};

const CHECKPOINT: Checkpoint = Checkpoint {
    names: &TensorNames { rename: &[("ernie.", "model.")], ..TensorNames::TEXT },
    tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE, keys: &[SPACE_PREFIX], ..Tokenizer::BPE },
    ..Checkpoint::TEXT
};

const SPLIT: &[Row] = rows! {
    "attn_q.weight"         [Embd Q]        UnlessFused Always + Optional <- "self_attn.qkv_proj" : "r ... -> r[:Q] ...";
    "attn_k.weight"         [Embd K]        UnlessFused Always + Optional <- "self_attn.qkv_proj" : "r ... -> r[Q:Q+K] ...";
    "attn_v.weight"         [Embd V]        UnlessFused Always + Optional <- "self_attn.qkv_proj" : "r ... -> r[Q+K:] ...";
    "ffn_gate.weight"       [Embd Ff]       Required Dense <- "mlp.up_gate_proj" : "(two[0] f) ... -> f ...";
    "ffn_up.weight"         [Embd Ff]       Required Dense <- "mlp.up_gate_proj" : "(two[1] f) ... -> f ...";
};

const ROUTER: &[Row] = rows! {
    "ffn_gate_inp.weight"   [Embd Experts]  Required Experts <- "mlp.gate";
    "exp_probs_b.bias"      [Experts]       Optional Experts <- "mlp.moe_statics.e_score_correction.bias";
};

const SHARED_EXPERT: &[Row] = rows! {
    "ffn_gate_shexp.weight" [Embd SharedFf] Required SharedExpert <- "mlp.shared_experts.gate_proj";
    "ffn_up_shexp.weight"   [Embd SharedFf] Required SharedExpert <- "mlp.shared_experts.up_proj";
    "ffn_down_shexp.weight" [SharedFf Embd] Required SharedExpert <- "mlp.shared_experts.down_proj";
};

const EXPERT_KEYS: &[Key] = keys! {
    "expert_count" U32 = "moe_num_experts";
    "expert_used_count" U32 = "moe_k";
    "interleave_moe_layer_step" U32 = "moe_layer_interval";
    "leading_dense_block_count" U32 = "moe_layer_start_index";
    "expert_feed_forward_length" U32? = "moe_intermediate_size";
    "expert_shared_count" U32? = "moe_num_shared_experts";
    "expert_shared_feed_forward_length" U32? = "intermediate_size // num_key_value_heads
        if moe_num_shared_experts and intermediate_size != null and num_key_value_heads != null else null";
};
