//! Granite with a sliding window in some blocks, rotation in some, and attention sinks in all; dense or with experts.
//!
//! Rules: `load_arch_tensors` in `src/models/granite-swa.cpp` of llama.cpp, `GraniteSWAModel` and `GraniteMoeSWAModel`
//! in `conversion/granite.py`. Gate and up projections of the experts stay fused.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["granite_swa"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        &[keys::LOGIT_SCALE, keys::ATTENTION_SLIDING_WINDOW_PATTERN, keys::ATTENTION_SLIDING_WINDOW],
    ],
    optional: &[
        keys::ATTENTION_ROPE_PATTERN,
        keys::ATTENTION_SCALE,
        keys::DEEPSTACK_MAPPING,
        keys::EMBEDDING_SCALE,
        keys::EXPERT_SHARED_FEED_FORWARD_LENGTH,
        keys::RESIDUAL_SCALE,
    ],
    outside: &[EMBEDDINGS, ROPE_FACTORS],
    block: &[NORMS, PERMUTED_QKV, OUTPUT_WITH_BIAS, BLOCK],
    checkpoints: &[
        Checkpoint {
            classes: &["GraniteSWAForCausalLM"],
            names: &TensorNames { skip: GRANITE_SKIP, ..TensorNames::TEXT },
            keys: &[GRANITE_FIELDS, GENERIC, GRANITE_KEYS, WINDOW],
            tokenizer: &Tokenizer { vocab: Vocab::LLAMA, ..Tokenizer::BPE },
            computed: &[Computed::Llama3Freqs],
            ..Checkpoint::TEXT
        },
        Checkpoint {
            classes: &["GraniteMoeSWAForCausalLM"],
            names: &TensorNames { skip: GRANITE_SKIP, ..TensorNames::TEXT },
            keys: &[GRANITE_FIELDS, GENERIC, GRANITE_KEYS, WINDOW, GRANITE_SHARED],
            tokenizer: &Tokenizer { vocab: Vocab::LLAMA, ..Tokenizer::BPE },
            computed: &[Computed::Llama3Freqs],
            ..Checkpoint::TEXT
        },
    ],
};

const WINDOW: &[Key] = keys! {
    "attention.sliding_window" U32 = "sliding_window|128";
    "attention.sliding_window_pattern" Bool
        = "[t == 'sliding_attention' for t in layer_types] if layer_types else [i % 4 != 0 for i]";
    "attention.rope_pattern" Bool? = "[true if x else false for x in no_rope_layers] if no_rope_layers else null";
};

const BLOCK: &[Row] = rows! {
    "attn_sinks.weight"       [Heads]                Required Always <- "self_attn.sinks";
    "ffn_gate.weight"         [Embd Ff]              Required Dense + Optional <- "mlp.gate_proj";
    "ffn_up.weight"           [Embd Ff]              Required Dense + Optional <- "mlp.up_proj";
    "ffn_down.weight"         [Ff Embd]              Required Dense + Optional <- "mlp.down_proj";
    "ffn_gate_inp.weight"     [Embd Experts]         Required Experts <- "block_sparse_moe.router.layer";
    "ffn_gate_up_exps.weight" [Embd TwiceFf Experts] Optional Experts
        <- "block_sparse_moe.input_linear | block_sparse_moe.experts.gate_up_proj";
    "ffn_gate_exps.weight"    [Embd Ff Experts]      UnlessFused Experts;
    "ffn_up_exps.weight"      [Embd Ff Experts]      UnlessFused Experts;
    "ffn_down_exps.weight"    [Ff Embd Experts]      Required Experts
        <- "block_sparse_moe.output_linear | block_sparse_moe.experts.down_proj";
    "ffn_up_shexp.weight"     [Embd "2 * expert_shared_feed_forward_length"]   Required SharedExpert <- "shared_mlp.input_linear";
    "ffn_down_shexp.weight"   [SharedFf Embd]        Required SharedExpert <- "shared_mlp.output_linear";
};
