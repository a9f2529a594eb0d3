//! GLM-4 of 2025: norms behind attention and feed-forward part too, the gate and what it gates in one matrix, half of each head
//! rotated.
//!
//! Rules: `load_arch_tensors` in `src/models/glm4.cpp` of llama.cpp, `Glm4Model` in `conversion/glm.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["glm4"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS],
    outside: &[EMBEDDINGS],
    block: &[BLOCK, ATTENTION, NEXT_TOKENS],
    checkpoints: &[
        Checkpoint { classes: &["Glm4ForCausalLM", "Glm4vForConditionalGeneration"], keys: &[GENERIC, KEYS], ..GLM4 },
        Checkpoint {
            classes: &["GlmOcrForConditionalGeneration"],
            keys: &[NEXT_TOKENS_FIELDS, GENERIC, KEYS, NEXT_TOKENS_KEYS],
            ..GLM4
        },
    ],
};

const GLM4: Checkpoint = Checkpoint {
    special_tokens: &[("eos", END), ("eot", "<|user|>"), ("unk", END), ("bos", END)],
    ..Checkpoint::TEXT
};

const END: &str = "<|endoftext|>";

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"           [Embd]          Required Always <- "input_layernorm";
    "post_attention_norm.weight" [Embd]          Required Always <- "post_self_attn_layernorm";
    "ffn_norm.weight"            [Embd]          Required Always <- "post_attention_layernorm";
    "ffn_up.weight"              [Embd TwiceFf]  Required Always <- "mlp.gate_up_proj";
    "ffn_down.weight"            [Ff Embd]       Required Always <- "mlp.down_proj";
    "post_ffw_norm.weight"       [Embd]          Required Always <- "post_mlp_layernorm";
};

const KEYS: &[Key] = keys! {
    "rope.dimension_count" U32
        = "int((head_dim ?? hidden_size // num_attention_heads) * (rope_all.partial_rotary_factor|0.5))";
};
