//! Gemma 3n: several streams of hidden states, low-rank parts beside the attention, and embeddings for each block.
//!
//! Rules: `load_arch_tensors` in `src/models/gemma3n.cpp` of llama.cpp, `Gemma3NModel` in `conversion/gemma.py`. The
//! embeddings are padded with zeros for image and audio tokens.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["gemma3n"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::ATTENTION_SLIDING_WINDOW]],
    optional: &[keys::ATTENTION_SLIDING_WINDOW_PATTERN, keys::ROPE_FREQ_BASE_SWA],
    outside: &[OUTSIDE],
    block: &[BLOCK, QKV, OUTPUT, QK_NORMS, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["Gemma3nForCausalLM", "Gemma3nForConditionalGeneration"],
        refuse: &[("altup_num_inputs != 4", "an altup_num_inputs other than 4")],
        keys: &[GENERIC, super::gemma3::KEYS, KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE_OR_BPE, keys: &[super::gemma3::SPACE], ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "altup.active_idx" U32 = "altup_active_idx";
    "altup.num_inputs" U32 = "altup_num_inputs";
    "embedding_length_per_layer_input" U32 = "hidden_size_per_layer_input";
    "attention.shared_kv_layers" U32 = "num_kv_shared_layers";
    "activation_sparsity_scale" F32 = "[icdf(share) for share in activation_sparsity_pattern]";
    "attention.sliding_window_pattern" Bool = "[t == 'sliding_attention' for t in layer_types]";
    let vocab_size_per_layer_input = "vocab_size";
};

const ALL_TOKENS: Map = Map::PadRowsTo("vocab_size|262400");

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"           [Embd Vocab]     Required Always <- "embed_tokens", ALL_TOKENS;
    "per_layer_token_embd.weight" ["256 * block_count" Vocab] Required Always <- "embed_tokens_per_layer", ALL_TOKENS;
    "altup_proj.weight"           [Embd Embd "3"] Required Always <- "altup_projections.{Three}";
    "altup_unembd_proj.weight"    [Embd Embd "3"] Required Always <- "altup_unembed_projections.{Three}";
    "per_layer_model_proj.weight" [Embd "256 * block_count"]  Required Always <- "per_layer_model_projection";
    "per_layer_proj_norm.weight"  ["256"]      Required Always <- "per_layer_projection_norm";
    "output_norm.weight"          [Embd]           Required Always <- "norm";
    "output.weight"               [Embd Vocab]     Optional Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"            [Embd]           Required Always <- "input_layernorm";
    "post_attention_norm.weight"  [Embd]           Required Always <- "post_attention_layernorm";
    "ffn_norm.weight"             [Embd]           Required Always <- "pre_feedforward_layernorm";
    "post_ffw_norm.weight"        [Embd]           Required Always <- "post_feedforward_layernorm";
    "inp_gate.weight"             [Embd "256"] Required Always <- "per_layer_input_gate";
    "proj.weight"                 ["256" Embd] Required Always <- "per_layer_projection";
    "post_norm.weight"            [Embd]           Required Always <- "post_per_layer_input_norm";
    "altup_correct_coef.weight"   ["4" "4"]      Required Always <- "altup.correction_coefs";
    "altup_correct_scale.weight"  [Embd]           Required Always <- "altup.correct_output_scale";
    "altup_predict_coef.weight"   ["4" "16"]   Required Always <- "altup.prediction_coefs";
    "altup_router.weight"         [Embd "4"]      Required Always <- "altup.modality_router";
    "altup_router_norm.weight"    [Embd]           Required Always <- "altup.router_norm";
    "laurel_l.weight"             [Embd "64"]    Required Always <- "laurel.linear_left";
    "laurel_r.weight"             ["64" Embd]    Required Always <- "laurel.linear_right";
    "laurel_post_norm.weight"     [Embd]           Required Always <- "laurel.post_laurel_norm";
};
