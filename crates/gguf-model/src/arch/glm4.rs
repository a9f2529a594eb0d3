//! GLM-4 of 2025: additional norms after attention and feed-forward part, fused gate and up projections, half of each
//! head rotated.
//!
//! Rules: `load_arch_tensors` in `src/models/glm4.cpp` of llama.cpp, `Glm4Model` in `conversion/glm.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["glm4"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS],
    optional: &[keys::ROPE_DIMENSION_SECTIONS],
    outside: &[EMBEDDINGS],
    block: &[BLOCK, UNROTATED_ATTENTION, MTP],
    checkpoints: &[
        Checkpoint { classes: &["Glm4ForCausalLM", "Glm4vForConditionalGeneration"], keys: &[GENERIC, KEYS], ..GLM4 },
        Checkpoint {
            classes: &["GlmOcrForConditionalGeneration"],
            keys: &[MTP_FIELDS, GENERIC, KEYS, MTP_KEYS],
            ..GLM4
        },
    ],
};

const GLM4: Checkpoint = Checkpoint {
    refuse: &[(
        "rope_all.mrope_section != null
            and int((head_dim ?? hidden_size // num_attention_heads) * (rope_all.partial_rotary_factor|0.5)) % 2 != 0",
        "an odd number of rotated elements (partial_rotary_factor)",
    )],
    tokenizer: &Tokenizer {
        special_tokens: &[("eos", END), ("eot", "<|user|>"), ("unk", END), ("bos", END)],
        ..Tokenizer::BPE
    },
    ..Checkpoint::TEXT
};

const END: &str = "<|endoftext|>";

/// Rotated pairs are adjacent in checkpoints; for multi-section positions, llama.cpp expects them half a head apart.
const APART: &str =
    "each h: (i two) ... -> (i[:mrope.pairs] two[0]) ... + (i[:mrope.pairs] two[1]) ... + (i[mrope.pairs:] two) ...";

const APART_KV: &str =
    "each kv: (i two) ... -> (i[:mrope.pairs] two[0]) ... + (i[:mrope.pairs] two[1]) ... + (i[mrope.pairs:] two) ...";

const UNROTATED_ATTENTION: &[Row] = rows! {
    "attn_qkv.weight"            [Embd Qkv]      Optional    Always + Optional;
    "attn_q.weight"              [Embd Q]        UnlessFused Always + Optional <- "self_attn.q_proj" : APART;
    "attn_k.weight"              [Embd K]        UnlessFused Always + Optional <- "self_attn.k_proj" : APART_KV;
    "attn_v.weight"              [Embd V]        UnlessFused Always + Optional <- "self_attn.v_proj";
    "attn_output.weight"         [Q Embd]        Required    Always <- "self_attn.o_proj";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"           [Embd]          Required Always <- "input_layernorm";
    "post_attention_norm.weight" [Embd]          Required Always <- "post_self_attn_layernorm";
    "ffn_norm.weight"            [Embd]          Required Always <- "post_attention_layernorm";
    "ffn_up.weight"              [Embd TwiceFf]  Required Always <- "mlp.gate_up_proj";
    "ffn_down.weight"            [Ff Embd]       Required Always <- "mlp.down_proj";
    "post_ffw_norm.weight"       [Embd]          Required Always <- "post_mlp_layernorm";
};

const KEYS: &[Key] = keys! {
    let rotated = "int((head_dim ?? hidden_size // num_attention_heads) * (rope_all.partial_rotary_factor|0.5))";
    let mrope = "{'pairs': rotated // 2 if rope_all.mrope_section != null else 0}";
    "rope.dimension_count" U32
        = "int((head_dim ?? hidden_size // num_attention_heads) * (rope_all.partial_rotary_factor|0.5))";
};
