//! Llama, Mistral, Mixtral, and what shares their tensors: rotary attention, RMS norms, a gated feed-forward part that may have
//! experts.
//!
//! Rules: `load_arch_tensors` in `src/models/llama.cpp` of llama.cpp, `LlamaModel` in `conversion/llama.py`. A sliding window is
//! not written: llama.cpp's `llama` has none.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["llama", "llama-embed", "mistral3"],
    outside: &[EMBEDDINGS, ROPE_FACTORS],
    block: &[NORMS, PERMUTED_ATTENTION, FFN],
    checkpoints: &[
        INTERNLM3,
        Checkpoint {
            classes: &[
                "LLaMAForCausalLM",
                "LlamaForCausalLM",
                "MistralForCausalLM",
                "MixtralForCausalLM",
                "LlamaModel",
            ],
            rename: &[("text_model.", "")],
            keys: &[GENERIC, KEYS],
            vocab: Vocab::Llama,
            computed: &[Computed::Llama3Freqs],
            ..Checkpoint::TEXT
        },
    ],
};

/// `InternLM3Model` in `conversion/internlm.py`.
const INTERNLM3: Checkpoint = Checkpoint {
    classes: &["InternLM3ForCausalLM"],
    keys: &[GENERIC, KEYS],
    vocab: Vocab::InternLm3,
    ..Checkpoint::TEXT
};

const KEYS: &[Key] = keys! {
    "vocab_size" U32 = "vocab_size";
    "rope.dimension_count" U32 = "head_dim ?? hidden_size // num_attention_heads";
};

const FFN: &[Row] = rows! {
    "ffn_gate.weight"       [Embd Ff]         Required Dense + Optional <- "mlp.gate_proj";
    "ffn_up.weight"         [Embd Ff]         Required Dense + Optional <- "mlp.up_proj";
    "ffn_down.weight"       [Ff Embd]         Required Dense + Optional <- "mlp.down_proj";
    "ffn_gate_inp.weight"   [Embd Experts]    Required Experts <- "block_sparse_moe.gate";
    "ffn_gate_exps.weight"  [Embd Ff Experts] Optional Experts <- "block_sparse_moe.experts.{x}.w1";
    "ffn_down_exps.weight"  [Ff Embd Experts] Required Experts <- "block_sparse_moe.experts.{x}.w2";
    "ffn_up_exps.weight"    [Embd Ff Experts] Required Experts <- "block_sparse_moe.experts.{x}.w3";
    "ffn_gate_shexp.weight" [Embd SharedFf]   Required SharedExpert;
    "ffn_up_shexp.weight"   [Embd SharedFf]   Required SharedExpert;
    "ffn_down_shexp.weight" [SharedFf Embd]   Required SharedExpert;
    "rope_freqs.weight"     [HalfRot]         Optional Always;
};
