//! LFM2: short convolutions instead of attention in most blocks, with or without experts.
//!
//! Rules: `load_arch_tensors` in `src/models/lfm2.cpp` of llama.cpp, `LFM2Model`, `LFM2MoeModel` and
//! `LFM25AudioTokenizer` in `conversion/lfm2.py`. The norm before the output is named like a norm after the
//! embeddings.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["lfm2"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, &[keys::SHORTCONV_L_CACHE]],
    optional: &[keys::ATTENTION_SLIDING_WINDOW],
    outside: &[OUTSIDE],
    block: &[BLOCK, GATED_FFN_W],
    checkpoints: &[
        Checkpoint {
            classes: &["Lfm2ForCausalLM", "LFM2ForCausalLM"],
            names: &TensorNames { skip: AUDIO, rename: &[("lfm.", "model.")], ..TensorNames::TEXT },
            keys: &[FIELDS, GENERIC, KEYS],
            ..Checkpoint::TEXT
        },
        Checkpoint {
            classes: &["Lfm2Model", "Lfm2BidirectionalModel"],
            names: &TensorNames { skip: AUDIO, rename: &[("lfm.", "model.")], ..TensorNames::TEXT },
            dense: &[("1_Dense/model.safetensors", "linear.", "dense_2.")],
            tensor_keys: &[DENSE_WIDTH],
            keys: &[FIELDS, GENERIC, KEYS, NO_CAUSE, POOLING],
            ..Checkpoint::TEXT
        },
        Checkpoint {
            classes: &["Lfm25AudioTokenizer"],
            names: &TensorNames {
                skip: &[("istft.window", ""), ("emb.emb*", "")],
                rename: &[("lfm.", "model.")],
                ..TensorNames::TEXT
            },
            keys: &[FIELDS, GENERIC, KEYS, AUDIO_OUTPUT],
            tokenizer: &Tokenizer { vocab: Vocab::NONE, ..Tokenizer::BPE },
            ..Checkpoint::TEXT
        },
    ],
};

/// The decoder of LFM2.5 Audio, which generates audio from the model's output.
const AUDIO_OUTPUT: &[Key] = keys! {
    "attention.sliding_window" U32 = "sliding_window";
    "embedding_length_out" U32 = "output_size";
};

/// Output width of the layer after the pooling.
const DENSE_WIDTH: &[Key] = keys! {
    "embedding_length_out" U32? = "@dense_rows";
};

const NO_CAUSE: &[Key] = keys! {
    "attention.causal" Bool? = "false if architectures[0] == 'Lfm2BidirectionalModel' else null";
};

/// The architecture of LFM2 with experts.
pub(super) const WITH_EXPERTS: Architecture = Architecture {
    names: &["lfm2moe"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        &[keys::SHORTCONV_L_CACHE, keys::EXPERT_FEED_FORWARD_LENGTH, keys::EXPERT_GATING_FUNC],
    ],
    optional: &[keys::LEADING_DENSE_BLOCK_COUNT],
    block: &[BLOCK, GATED_FFN_W, EXPERTS_W],
    checkpoints: &[Checkpoint {
        classes: &["Lfm2MoeForCausalLM"],
        keys: &[EXPERT_FIELDS, GENERIC, EXPERT_KEYS],
        ..Checkpoint::TEXT
    }],
    ..ARCHITECTURE
};

/// Audio encoder and decoder.
const AUDIO: &[(&str, &str)] = &[
    ("*audio*", ""),
    ("*codebook*", ""),
    ("*conformer*", ""),
    ("*depth_embedding*", ""),
    ("*depthformer*", ""),
    ("*depth_linear*", ""),
];

/// Blocks without attention have a key-value head count of 0.
const FIELDS: &[Key] = keys! {
    let num_key_value_heads = "[num_key_value_heads if t != 'conv' else 0 for t in layer_types]";
};

const KEYS: &[Key] = keys! {
    "vocab_size" U32 = "vocab_size";
    "shortconv.l_cache" U32 = "conv_L_cache";
    "attention.layer_norm_rms_epsilon" F32 = "norm_eps";
    let width = "required(block_ff_dim|intermediate_size)";
    let two_thirds = "int(2 * width / 3)";
    let scaled = "two_thirds if block_ffn_dim_multiplier == null else int(block_ffn_dim_multiplier * two_thirds)";
    "feed_forward_length" U32 = "block_multiple_of * ((scaled + block_multiple_of - 1) // block_multiple_of)
        if block_auto_adjust_ff_dim else width";
};

const EXPERT_FIELDS: &[Key] = keys! {
    let num_key_value_heads = "[num_key_value_heads if t == 'full_attention' else 0 for t in layer_types]";
};

const EXPERT_KEYS: &[Key] = keys! {
    "expert_feed_forward_length" U32 = "moe_intermediate_size";
    "leading_dense_block_count" U32 = "num_dense_layers";
    "expert_gating_func" U32 = "2";
    "vocab_size" U32 = "vocab_size";
    "shortconv.l_cache" U32 = "conv_L_cache";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"         [Embd Vocab]             Required Always <- "embed_tokens";
    "token_embd_norm.weight"    [Embd]                   Required Always <- "embedding_norm";
    "output.weight"             [Embd Vocab]             Optional Always <- "lm_head";
    "dense_2.weight"            [Embd EmbdOut]           Optional Always + Optional <- "dense_2 | lin";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"          [Embd]                   Required Always <- "operator_norm";
    "ffn_norm.weight"           [Embd]                   Required Always <- "ffn_norm";
    "attn_q_norm.weight"        [HeadK]                  Required Attention <- "self_attn.q_layernorm";
    "attn_k_norm.weight"        [HeadK]                  Required Attention <- "self_attn.k_layernorm";
    "attn_qkv.weight"           [Embd "embedding_length + attention.head_count_kv * (attention.key_length + attention.value_length)"]               Optional Attention + Optional;
    "attn_q.weight"             [Embd Embd]                 UnlessFused Attention + Optional <- "self_attn.q_proj";
    "attn_k.weight"             [Embd K]                 UnlessFused Attention + Optional <- "self_attn.k_proj";
    "attn_v.weight"             [Embd V]                 UnlessFused Attention + Optional <- "self_attn.v_proj";
    "attn_output.weight"        [Embd Embd]                 Required Attention <- "self_attn.out_proj";
    "shortconv.conv.weight"     ["shortconv.l_cache" Embd]         Required Recurrent <- "conv.conv" : "c 1 k -> c k";
    "shortconv.in_proj.weight"  [Embd ThriceEmbd]        Required Recurrent <- "conv.in_proj";
    "shortconv.out_proj.weight" [Embd Embd]              Required Recurrent <- "conv.out_proj";
};

const EXPERTS_W: &[Row] = rows! {
    "ffn_gate_inp.weight"       [Embd Experts]           Required Experts <- "feed_forward.gate";
    "exp_probs_b.bias"          [Experts]                Required Experts <- "feed_forward.expert_bias";
    "ffn_gate_exps.weight"      [Embd ExpertFf Experts]  Required Experts <- "feed_forward.experts.{x}.w1";
    "ffn_down_exps.weight"      [ExpertFf Embd Experts]  Required Experts <- "feed_forward.experts.{x}.w2";
    "ffn_up_exps.weight"        [Embd ExpertFf Experts]  Required Experts <- "feed_forward.experts.{x}.w3";
};
