//! Qwen 3 and the text part of Qwen 3 VL and Step 3 VL: norms of queries and keys.
//!
//! Rules: `load_arch_tensors` in `src/models/qwen3.cpp` and `qwen3vl.cpp` of llama.cpp, `Qwen3Model` in `conversion/qwen.py`,
//! `Qwen3VLTextModel` in `conversion/qwen3vl.py`, `Step3VLTextModel` in `conversion/step3.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["qwen3"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    outside: &[EMBEDDINGS, CLASSIFIER],
    block: &[NORMS, ATTENTION, QK_NORMS, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["Qwen3ForCausalLM", "Qwen3Model", "StepVLForConditionalGeneration"],
        keys: &[GENERIC, POOLING],
        vocab: Vocab::SentencePieceOrBpe,
        ..Checkpoint::TEXT
    }],
};

/// The text part of the model with vision.
pub(super) const WITH_VISION: Architecture = Architecture {
    names: &["qwen3vl"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::ROPE_DIMENSION_SECTIONS]],
    checkpoints: &[Checkpoint {
        classes: &["Qwen3VLForConditionalGeneration"],
        rename: &[("thinker.", "")],
        keys: &[GENERIC, POOLING, DEEPSTACK],
        vocab: Vocab::SentencePieceOrBpe,
        ..Checkpoint::TEXT
    }],
    ..ARCHITECTURE
};

const CLASSIFIER: &[Row] = rows! {
    "cls.output.weight"    []           Optional Always;
};

const DEEPSTACK: &[Key] = keys! {
    let vision = "thinker_config.vision_config if thinker_config else vision_config";
    "n_deepstack_layers" U32 = "len(vision.deepstack_visual_indexes ?? [])";
};
