//! Phi-3 and the dense Phi-4: fused queries, keys and values, fused gate and up projections; two lists of divisors of
//! the rotary frequencies, for short and long texts.
//!
//! Rules: `load_arch_tensors` in `src/models/phi3.cpp` of llama.cpp, `Phi3MiniModel` in `conversion/phi.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["phi3"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[keys::ATTENTION_SLIDING_WINDOW],
    outside: &[EMBEDDINGS, LONG_ROPE],
    block: &[NORMS, BLOCK],
    checkpoints: &[Checkpoint { classes: &["Phi3ForCausalLM", "Phi4ForCausalLMV"], ..CHECKPOINT }],
};

/// Defaults shared with Phi-3.5-MoE.
pub(super) const CHECKPOINT: Checkpoint = Checkpoint {
    names: &TensorNames { skip: &[("mm_projector.*", "")], ..TensorNames::TEXT },
    early_keys: &[ORIGINAL],
    tensor_keys: &[ATTENTION_FACTOR],
    refuse: &[(
        "rope_all.long_factor and (rope_all.short_factor == null or len(rope_all.long_factor) != len(rope_all.short_factor)
            or len(rope_all.long_factor) * 2
                != int((rope_all.partial_rotary_factor|1.0) * (hidden_size|n_embd)) // (num_attention_heads|n_head))",
        UNEVEN_FACTORS,
    )],
    keys: &[KEYS],
    tokenizer: &Tokenizer { vocab: Vocab::read_by(&[Reader::Gpt2, Reader::ChangedSentencePiece(Changes::Phi3)]), ..Tokenizer::BPE },
    computed: &[Computed::LongRopeFactors],
    ..Checkpoint::TEXT
};

/// The two lists of divisors.
pub(super) const LONG_ROPE: &[Row] = rows! {
    "rope_factors_long.weight"  [HalfRot]       Optional Always;
    "rope_factors_short.weight" [HalfRot]       Optional Always;
};

const BLOCK: &[Row] = rows! {
    "attn_qkv.weight"           [Embd EmbdQkv]      Optional Always + Optional <- "self_attn.qkv_proj";
    "attn_q.weight"             [Embd Embd]        UnlessFused Always + Optional <- "self_attn.q_proj";
    "attn_k.weight"             [Embd V]        UnlessFused Always + Optional <- "self_attn.k_proj";
    "attn_v.weight"             [Embd V]        UnlessFused Always + Optional <- "self_attn.v_proj";
    "attn_output.weight"        [Embd Embd]        Required Always <- "self_attn.o_proj";
    "ffn_up.weight"             [Embd TwiceFf]  Required Always <- "mlp.gate_up_proj";
    "ffn_down.weight"           [Ff Embd]       Required Always <- "mlp.down_proj";
};

/// The context of the model before it is stretched.
const ORIGINAL: &[Key] = keys! {
    let original = "required(rope_all.original_max_position_embeddings)";
};

/// The attention factor for texts longer than the original context.
const ATTENTION_FACTOR: &[Key] = keys! {
    let stretch = "required(n_positions|max_position_embeddings) / original";
    let log_scaled = "sqrt(1 + log(stretch) / log(original)) if stretch > 1.0 else 1.0";
    let linear_in_log = "0.1 * log(stretch) + 1.0 if stretch > 1.0 else 1.0";
    "rope.scaling.attn_factor" F32? = "one_of(lower(required(rope_all.rope_type)),
        {'su': log_scaled, 'longrope': log_scaled, 'yarn': linear_in_log}) if rope_all.long_factor else null";
};

pub(super) const KEYS: &[Key] = keys! {
    let width = "hidden_size|n_embd";
    let heads = "num_attention_heads|n_head";
    "context_length" U32 = "n_positions|max_position_embeddings";
    "rope.scaling.original_context_length" U32 = "original";
    "embedding_length" U32 = "width";
    "feed_forward_length" U32 = "intermediate_size";
    "block_count" U32 = "block_count";
    "attention.head_count" U32 = "heads";
    "attention.head_count_kv" U32 = "num_key_value_heads|n_head_kv";
    "attention.layer_norm_rms_epsilon" F32 = "rms_norm_eps";
    "rope.dimension_count" U32 = "int((rope_all.partial_rotary_factor|1.0) * width) // heads";
    "rope.freq_base" F32 = "rope.rope_theta";
    "general.file_type" U32 = "@file_type";
    "attention.sliding_window" U32 = "sliding_window ?? 0";
};
