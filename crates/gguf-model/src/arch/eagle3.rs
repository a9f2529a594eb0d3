//! EAGLE-3: a draft of one block that reads hidden states of the target model, usually with a smaller vocabulary.
//!
//! Rules: `load_arch_tensors` in `src/models/eagle3.cpp` of llama.cpp, `LlamaModel` in `conversion/llama.py`.
//! Checkpoints of any Llama-like class may be such drafts.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["eagle3"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::TARGET_HIDDEN_SIZE, keys::TARGET_LAYERS]],
    optional: &[keys::NORM_BEFORE_FC, keys::NORM_BEFORE_RESIDUAL],
    outside: &[OUTSIDE],
    block: &[BLOCK, GATED_FFN],
    checkpoints: &[
        Checkpoint {
            classes: &["LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM", "Eagle3Speculator", "Eagle3DraftModel"],
            ..EAGLE3
        },
        Checkpoint {
            classes: &["LlamaForCausalLM"],
            when: "draft_vocab_size != null and num_hidden_layers == 1",
            ..EAGLE3
        },
    ],
};

const EAGLE3: Checkpoint = Checkpoint {
    refuse: &[(
        "@config.eagle_aux_hidden_state_layer_ids and len(@config.eagle_aux_hidden_state_layer_ids) != 3",
        "a number of eagle_aux_hidden_state_layer_ids other than 3",
    )],
    is_draft: true,
    names: &TensorNames { rename: &[("midlayer.", "layers.0.")], skip: &[("t2d", "")], ..TensorNames::TEXT },
    facts: &TensorFacts { ids: "d2t", ..TensorFacts::NONE },
    early_keys: &[EARLY],
    keys: &[PERMUTED_HEADS, GENERIC, VOCAB_SIZE, ROPE_WHOLE_HEAD],
    tokenizer: &Tokenizer { vocab: Vocab::LLAMA, ..Tokenizer::BPE },
    computed: &[Computed::Llama3Freqs],
    ..Checkpoint::TEXT
};

/// The hidden states of `target` that the draft reads.
const EARLY: &[Key] = keys! {
    "target_layers" I32 = "@config.eagle_aux_hidden_state_layer_ids
        or [2, @target.num_hidden_layers // 2, @target.num_hidden_layers - 3]";
    "target_hidden_size" U32 = "@config.target_hidden_size ?? @target.hidden_size";
    "norm_before_residual" Bool = "@config.norm_before_residual|false";
    "norm_before_fc" Bool = "@config.norm_before_fc|false";
};

/// Hidden states of the blocks of the target that a draft reads.
const TARGET_EMBD: Dim = dim!("target_hidden_size * the number of target_layers");

const OUTSIDE: &[Row] = rows! {
    "rope_freqs.weight"      [HalfRot] Optional Always;
    "token_embd.weight"      [Embd Any] Optional Always <- "embed_tokens";
    "fc.weight"              [TARGET_EMBD Embd] Required Always <- "fc";
    "enc.output_norm.weight" [TARGET_EMBD] Required "norm_before_fc" <- "input_norm";
    "output_norm.weight"     [Embd]    Required Always <- "norm";
    "output.weight"          [Embd DraftVocab] Optional Always <- "lm_head";
    "d2t"                    [DraftVocab] Optional Always;
};

/// Queries, keys and values are projected from two hidden states.
const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]        Required Always <- "input_layernorm";
    "attn_norm_2.weight" [Embd]        Required Always <- "hidden_norm";
    "attn_q.weight"      [TwiceEmbd Q] Required Always <- "self_attn.q_proj" : ROPE_Q;
    "attn_k.weight"      [TwiceEmbd K] Required Always <- "self_attn.k_proj" : ROPE_K;
    "attn_v.weight"      [TwiceEmbd V] Required Always <- "self_attn.v_proj";
    "attn_output.weight" [Q Embd]      Required Always <- "self_attn.o_proj";
    "ffn_norm.weight"    [Embd]        Required Always <- "post_attention_layernorm";
};
