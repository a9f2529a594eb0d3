//! CogVLM, its language part: two sets of weights in each block, one for text and one for images.
//!
//! Rules: `load_arch_tensors` in `src/models/cogvlm.cpp` of llama.cpp, `CogVLMModel` in `conversion/cogvlm.py`. The
//! reference mistakes the image weights for a vision tower and omits them, so llama.cpp cannot load its files; this
//! table keeps them.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["cogvlm"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[EMBEDDINGS, FREQS],
    block: &[NORMS, BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["CogVLMForCausalLM"],
        names: &TensorNames {
            rename: &[("vision_expert_", "visual_expert_"), ("vision_mlp.", "visual_mlp.")],
            ..TensorNames::TEXT
        },
        keys: &[GENERIC, VOCAB_SIZE, ROPE_WHOLE_HEAD],
        tokenizer: &Tokenizer { vocab: Vocab::LLAMA, ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const FREQS: &[Row] = rows! {
    "rope_freqs.weight"      [HalfRot]  Optional Always;
};

const BLOCK: &[Row] = rows! {
    "attn_qkv.weight"        [Embd ThriceQ] Required Always <- "self_attn.language_expert_query_key_value";
    "attn_output.weight"     [Q Embd]   Required Always <- "self_attn.language_expert_dense";
    "vis_attn_qkv.weight"    [Embd ThriceQ] Required Always <- "self_attn.visual_expert_query_key_value";
    "vis_attn_output.weight" [Q Embd]   Required Always <- "self_attn.visual_expert_dense";
    "ffn_gate.weight"        [Embd Ff]  Required Always <- "mlp.language_mlp.gate_proj";
    "ffn_up.weight"          [Embd Ff]  Required Always <- "mlp.language_mlp.up_proj";
    "ffn_down.weight"        [Ff Embd]  Required Always <- "mlp.language_mlp.down_proj";
    "vis_gate.weight"        [Embd Ff]  Required Always <- "mlp.visual_mlp.gate_proj";
    "vis_up.weight"          [Embd Ff]  Required Always <- "mlp.visual_mlp.up_proj";
    "vis_down.weight"        [Ff Embd]  Required Always <- "mlp.visual_mlp.down_proj";
};
