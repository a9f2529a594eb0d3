//! The text part of Qwen 3 VL MoE: Qwen 3 MoE; if the experts are stacked in one tensor, they are transposed.
//!
//! Rules: `load_arch_tensors` in `src/models/qwen3vlmoe.cpp` of llama.cpp, `Qwen3VLMoeTextModel` in `conversion/qwen3vl.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["qwen3vlmoe"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, &[keys::ROPE_DIMENSION_SECTIONS]],
    optional: &[keys::EXPERT_FEED_FORWARD_LENGTH, keys::N_DEEPSTACK_LAYERS],
    outside: &[EMBEDDINGS],
    block: &[NORMS, QKV_OF_VALUES, OUTPUT, QK_NORMS, EXPERTS],
    checkpoints: &[
        Checkpoint {
            classes: &["Qwen3VLMoeForConditionalGeneration"],
            names: &TensorNames { rename: &[("thinker.", "")], ..TensorNames::TEXT },
            keys: &[GENERIC, EXPERT_WIDTHS, DEEPSTACK],
            ..Checkpoint::TEXT
        },
        Checkpoint {
            classes: &["Qwen3OmniMoeForConditionalGeneration"],
            names: &TensorNames { rename: &[("thinker.", "")], ..TensorNames::TEXT },
            keys: &[GENERIC, EXPERT_WIDTHS, super::qwen3::NO_DEEPSTACK],
            tokenizer: &Tokenizer { keys: &[super::qwen3::END_OF_MESSAGE], ..Tokenizer::BPE },
            ..Checkpoint::TEXT
        },
    ],
};

const DEEPSTACK: &[Key] = keys! {
    "n_deepstack_layers" U32 = "len(vision_config.deepstack_visual_indexes ?? [])";
};

const EXPERTS: &[Row] = rows! {
    "ffn_gate_inp.weight"  [Embd Experts]            Required Always <- "mlp.gate";
    "ffn_down_exps.weight" [UsedFf Embd Experts]     Required Always <- "mlp.experts.{x}.down_proj";
    "ffn_gate_exps.weight" [Embd UsedFf Experts]     Required Always <- "mlp.experts.{x}.gate_proj";
    "ffn_up_exps.weight"   [Embd UsedFf Experts]     Required Always <- "mlp.experts.{x}.up_proj";
    "ffn_down_exps.weight" [UsedFf Embd Experts]     Required Always <- "mlp.experts.down_proj" : "x f e -> x e f";
    "ffn_gate_exps.weight" [Embd UsedFf Experts]     Required Always <- "mlp.experts.gate_up_proj" : "x e (two[0] f) -> x f e";
    "ffn_up_exps.weight"   [Embd UsedFf Experts]     Required Always <- "mlp.experts.gate_up_proj" : "x e (two[1] f) -> x f e";
};
