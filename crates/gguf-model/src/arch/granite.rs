//! Granite, dense and with experts: Llama with scales of embeddings, residuals, attention and logits.
//!
//! Rules: `load_arch_tensors` in `src/models/granite.cpp` and `granite-moe.cpp` of llama.cpp, `GraniteModel` and
//! `GraniteMoeModel` in `conversion/granite.py`. Checkpoints with experts fuse gate and up. In models without routed
//! experts, the shared expert is the whole feed-forward part; the reference intends to convert those and fails,
//! because its list of tensors lacks them. The head length in `config.json` is ignored.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["granite", "granitemoe"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, &[keys::LOGIT_SCALE]],
    optional: &[
        keys::ATTENTION_SCALE,
        keys::EMBEDDING_SCALE,
        keys::EXPERT_SHARED_FEED_FORWARD_LENGTH,
        keys::RESIDUAL_SCALE,
    ],
    outside: &[EMBEDDINGS, ROPE_FACTORS],
    block: &[NORMS, PERMUTED_QKV, OUTPUT_WITH_BIAS, FFN],
    checkpoints: &[
        Checkpoint {
            classes: &["GraniteForCausalLM"],
            names: &TensorNames { skip: GRANITE_SKIP, ..TensorNames::TEXT },
            keys: &[GRANITE_FIELDS, GENERIC, GRANITE_KEYS],
            tokenizer: &Tokenizer { vocab: Vocab::LLAMA, ..Tokenizer::BPE },
            computed: &[Computed::Llama3Freqs],
            ..Checkpoint::TEXT
        },
        Checkpoint {
            classes: &["GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"],
            name: "granitemoe",
            names: &TensorNames { skip: GRANITE_SKIP, ..TensorNames::TEXT },
            keys: &[GRANITE_FIELDS, GENERIC, GRANITE_KEYS, GRANITE_SHARED],
            tokenizer: &Tokenizer { vocab: Vocab::LLAMA, ..Tokenizer::BPE },
            computed: &[Computed::Llama3Freqs],
            ..Checkpoint::TEXT
        },
        super::granite_hybrid::ONLY_ATTENTION,
        super::granite_hybrid::ONLY_ATTENTION_EXPERTS,
    ],
};

const FFN: &[Row] = rows! {
    "ffn_gate.weight"       [Embd Ff]         Required Dense + Optional <- "mlp.gate_proj";
    "ffn_up.weight"         [Embd Ff]         Required Dense + Optional <- "mlp.up_proj";
    "ffn_down.weight"       [Ff Embd]         Required Dense + Optional <- "mlp.down_proj";
    "ffn_gate.weight"       [Embd Ff]         Required Dense <- "shared_mlp.input_linear" : "(two[0] f) e -> f e";
    "ffn_up.weight"         [Embd Ff]         Required Dense <- "shared_mlp.input_linear" : "(two[1] f) e -> f e";
    "ffn_down.weight"       [Ff Embd]         Required Dense <- "shared_mlp.output_linear";
    "ffn_gate_inp.weight"   [Embd Experts]    Required Experts <- "block_sparse_moe.router.layer";
    "ffn_gate_exps.weight"  [Embd Ff Experts] Optional Experts <- "block_sparse_moe.input_linear" : "x (two[0] f) e -> x f e";
    "ffn_up_exps.weight"    [Embd Ff Experts] Required Experts <- "block_sparse_moe.input_linear" : "x (two[1] f) e -> x f e";
    "ffn_down_exps.weight"  [Ff Embd Experts] Required Experts <- "block_sparse_moe.output_linear";
    "ffn_gate_shexp.weight" [Embd SharedFf]   Required SharedExpert <- "shared_mlp.input_linear" : "(two[0] f) e -> f e";
    "ffn_up_shexp.weight"   [Embd SharedFf]   Required SharedExpert <- "shared_mlp.input_linear" : "(two[1] f) e -> f e";
    "ffn_down_shexp.weight" [SharedFf Embd]   Required SharedExpert <- "shared_mlp.output_linear";
};
