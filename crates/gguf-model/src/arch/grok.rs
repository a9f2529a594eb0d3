//! Grok 1 and 2, under the names of transformers: norms before and after each part, logit soft-capping, experts.
//!
//! Rules: `load_arch_tensors` in `src/models/grok.cpp` of llama.cpp, `GrokModel` in `conversion/grok.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["grok"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS],
    optional: &[
        keys::ATTENTION_OUTPUT_SCALE,
        keys::ATTENTION_TEMPERATURE_LENGTH,
        keys::ATTN_LOGIT_SOFTCAPPING,
        keys::EMBEDDING_SCALE,
        keys::EXPERT_FEED_FORWARD_LENGTH,
        keys::FINAL_LOGIT_SOFTCAPPING,
        keys::LOGIT_SCALE,
        keys::ROPE_SCALING_YARN_ATTN_FACTOR,
        keys::ROPE_SCALING_YARN_BETA_FAST,
        keys::ROPE_SCALING_YARN_BETA_SLOW,
        keys::ROPE_SCALING_YARN_EXT_FACTOR,
        keys::ROUTER_LOGIT_SOFTCAPPING,
    ],
    outside: &[EMBEDDINGS],
    block: &[BLOCK, EMBD_QKV, EMBD_OUTPUT],
    checkpoints: &[Checkpoint {
        classes: &["GrokForCausalLM", "Grok1ForCausalLM"],
        keys: &[GENERIC, KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE_OR_BPE, ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    let stretched = "rope_type in ['yarn', 'original']";
    "attn_logit_softcapping" F32 = "attn_logit_softcapping|30.0";
    "router_logit_softcapping" F32 = "router_logit_softcapping|30.0";
    "final_logit_softcapping" F32? = "final_logit_softcapping or null";
    "expert_feed_forward_length" U32? = "moe_intermediate_size";
    "rope.scaling.type" Str? = "'yarn' if stretched else null";
    "rope.scaling.factor" F32? = "required(scaling_factor) if stretched else null";
    "rope.scaling.original_context_length" U32? = "required(original_max_position_embeddings) if stretched else null";
    "rope.scaling.yarn_ext_factor" F32? = "required(extrapolation_factor) if stretched else null";
    "rope.scaling.yarn_attn_factor" F32? = "required(attn_factor) if stretched else null";
    "rope.scaling.yarn_beta_fast" F32? = "required(beta_fast) if stretched else null";
    "rope.scaling.yarn_beta_slow" F32? = "required(beta_slow) if stretched else null";
    "attention.temperature_length" U32? = "attn_temperature_len or null";
    "attention.output_scale" F32 = "(head_dim ?? hidden_size // num_attention_heads) ** -0.5
        if attn_output_multiplier == null else attn_output_multiplier";
    "embedding_scale" F32 = "embedding_multiplier_scale";
    "logit_scale" F32 = "output_multiplier_scale";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"        [Embd]                  Required Always <- "pre_attn_norm";
    "attn_output_norm.weight" [Embd]                  Required Always <- "post_attn_norm";
    "ffn_norm.weight"         [Embd]                  Required Always <- "pre_moe_norm";
    "post_ffw_norm.weight"    [Embd]                  Optional Always <- "post_moe_norm";
    "layer_output_norm.weight" [Embd]                 Optional Always;
    "ffn_gate.weight"         [Embd Ff]               Optional Always <- "mlp.gate_proj";
    "ffn_up.weight"           [Embd Ff]               Optional Always <- "mlp.up_proj";
    "ffn_down.weight"         [Ff Embd]               Optional Always <- "mlp.down_proj";
    "ffn_gate_inp.weight"     [Embd Experts]          Required Always <- "block_sparse_moe.gate";
    "ffn_gate_exps.weight"    [Embd ExpertFf Experts] Optional Always <- "block_sparse_moe.experts.{x}.w1";
    "ffn_down_exps.weight"    [ExpertFf Embd Experts] Required Always <- "block_sparse_moe.experts.{x}.w2";
    "ffn_up_exps.weight"      [Embd ExpertFf Experts] Required Always <- "block_sparse_moe.experts.{x}.w3";
};
