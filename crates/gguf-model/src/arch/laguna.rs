//! Laguna: numbers of heads per block, gates after the attention, routed and shared experts after the first blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/laguna.cpp` of llama.cpp, `LagunaModel` in `conversion/laguna.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["laguna"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, &[keys::LEADING_DENSE_BLOCK_COUNT, keys::EXPERT_FEED_FORWARD_LENGTH]],
    optional: &[keys::ATTENTION_SLIDING_WINDOW, keys::EXPERT_GATING_FUNC, keys::EXPERT_SHARED_COUNT, keys::EXPERT_SHARED_FEED_FORWARD_LENGTH, keys::EXPERT_WEIGHTS_NORM, keys::EXPERT_WEIGHTS_SCALE],
    outside: &[EMBEDDINGS],
    block: &[NORMS, QKV, OUTPUT, QK_NORMS, GATED_FFN, ROUTER, EXPERTS_IN_ORDER, SHARED],
    checkpoints: &[Checkpoint {
        classes: &["LagunaForCausalLM"],
        refuse: &[
            (
                "num_attention_heads_per_layer and len(num_attention_heads_per_layer) != num_hidden_layers",
                "a num_attention_heads_per_layer of another length than num_hidden_layers",
            ),
            (
                "gating_types and len(gating_types) != num_hidden_layers",
                "a gating_types of another length than num_hidden_layers",
            ),
            (
                "not all([t in ['per-element', 'per_element', 'per-head', 'per_head'] for t in gating_types]) if gating_types
                    else not (gating in ['per-element', 'per_element', 'per-head', 'per_head', true])",
                "attention gates other than \"per-element\" and \"per-head\" (gating, gating_types)",
            ),
            (
                "any([t in ['per-element', 'per_element'] for t in (gating_types or [])])
                    and not (gating in ['per-element', 'per_element'])",
                "gating_types that are per-element where gating is not, because other programs read only gating",
            ),
        ],
        keys: &[GENERIC, VOCAB_SIZE, KEYS],
        tokenizer: &Tokenizer {
            keys: &[END_OF_TURN],
            template_file_first: true,
            ..Tokenizer::BPE
        },
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    let gates = "gating_types or [gating]";
    let n_per_element = "sum([1 if t in ['per-element', 'per_element'] else 0 for t in gates])";
    let gate = "{'width': 1} if n_per_element == 0 else {'width': head_dim} if n_per_element == len(gates) else {}";
    "attention.head_count" U32 = "num_attention_heads_per_layer or [num_attention_heads] * num_hidden_layers";
    "attention.sliding_window" U32? = "sliding_window or null";
    "expert_feed_forward_length" U32 = "moe_intermediate_size";
    "expert_shared_feed_forward_length" U32 = "shared_expert_intermediate_size";
    "expert_weights_norm" Bool = "true";
    "expert_weights_scale" F32 = "float(moe_routed_scaling_factor)";
    "expert_gating_func" U32 = "2";
    "leading_dense_block_count" U32 = "n_leading(mlp_layer_types, 'dense')";
    "rope.dimension_count" U32 = "int(head_dim * float(rope.partial_rotary_factor|1.0))";
    "rope.dimension_count_swa" U32? = "null if rope_all.sliding_attention == null
        else int(head_dim * float(rope_all.sliding_attention.partial_rotary_factor|1.0))";
};

/// If there are several EOS tokens, the first that differs from the BOS token is the end-of-turn token.
const END_OF_TURN: &[Key] = keys! {
    let ends = "eos_token_id if is_list(eos_token_id ?? 0) else []";
    "tokenizer.ggml.eot_token_id" U32? = "null if len(ends) == 0 else ends[0] if ends[0] != bos_token_id
        else ends[1] if len(ends) > 1 else null";
};

/// The gate has one value per head, or per element of a head.
const ROUTER: &[Row] = rows! {
    "attn_gate.weight"      [Embd "attention.head_count, or attention.head_count * attention.key_length"] Required Always  <- "self_attn.g_proj" : "(h gate.width) e -> (h gate.width) e";
    "ffn_gate_inp.weight"   [Embd Experts]  Required Experts <- "mlp.gate";
    "exp_probs_b.bias"      [Experts]       Required Experts <- "mlp.experts.e_score_correction.bias";
};

const SHARED: &[Row] = rows! {
    "ffn_gate_shexp.weight" [Embd SharedFf] Required Experts <- "mlp.shared_expert.gate_proj";
    "ffn_up_shexp.weight"   [Embd SharedFf] Required Experts <- "mlp.shared_expert.up_proj";
    "ffn_down_shexp.weight" [SharedFf Embd] Required Experts <- "mlp.shared_expert.down_proj";
};
