//! PLaMo 3: attention in every block, sliding windows in most blocks; norms before and after each part.
//!
//! Rules: `load_arch_tensors` in `src/models/plamo3.cpp` of llama.cpp, `Plamo3Model` in `conversion/plamo.py`.

use super::plamo2::{PLAMO_EMBEDDINGS, PLAMO_NORMS_AND_FFN};
use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["plamo3"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS],
    optional: &[keys::ATTENTION_SLIDING_WINDOW],
    outside: &[PLAMO_EMBEDDINGS],
    block: &[PLAMO_NORMS_AND_FFN, BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Plamo3ForCausalLM", "PLaMo3ForCausalLM"],
        names: &TensorNames { layers: &["layers.layers.{}."], ..TensorNames::TEXT },
        keys: &[STRETCHED, GENERIC, VOCAB_SIZE, WINDOWS],
        tokenizer: &Tokenizer { vocab: Vocab::read_by(&[Reader::Plamo { has_template: true }]), ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const BLOCK: &[Row] = rows! {
    "attn_qkv.weight"    [Embd Qkv]    Required Always <- "mixer.qkv_proj";
    "attn_q_norm.weight" [HeadK]       Required Always <- "mixer.q_norm", Map::Add(1.0);
    "attn_k_norm.weight" [HeadK]       Required Always <- "mixer.k_norm", Map::Add(1.0);
    "attn_output.weight" [HeadsV Embd] Required Always <- "mixer.o_proj";
};

/// Rotary scaling, which the configuration specifies in separate fields.
const STRETCHED: &[Key] = keys! {
    let is_stretched = "(rope_scaling_factor|1) != 1 and not 'rope_type' in rope_all";
    let rope = "{'rope_type': 'yarn', 'factor': float(rope_scaling_factor), 'rope_theta': rope.rope_theta,
        'original_max_position_embeddings': int(initial_context_length), 'beta_fast': 32.0, 'beta_slow': 1.0}
        if is_stretched else rope";
};

const WINDOWS: &[Key] = keys! {
    let window = "window_size ?? sliding_window";
    "attention.sliding_window" U32? = "window";
    "attention.sliding_window_pattern" U32? = "required(sliding_window_pattern) if window != null else null";
};
