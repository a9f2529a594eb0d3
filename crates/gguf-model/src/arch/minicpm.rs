//! MiniCPM: Llama's tensors, with factors on embeddings, residuals and logits.
//!
//! Rules: `load_arch_tensors` in `src/models/minicpm.cpp` of llama.cpp, `MiniCPMModel` in `conversion/minicpm.py`.
//! That converter permutes the rows of the query and key matrices, but not their biases; this table does the same.

use super::llama::FFN;
use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["minicpm"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS],
    optional: &[keys::EMBEDDING_SCALE, keys::LOGIT_SCALE, keys::RESIDUAL_SCALE],
    outside: &[EMBEDDINGS, ROPE_FACTORS],
    block: &[NORMS, FUSED_QKV, UNEVEN_ATTENTION, FFN],
    checkpoints: &[Checkpoint {
        classes: &["MiniCPMForCausalLM"],
        refuse: &[(
            "(rope_all.long_factor or rope_all.short_factor) and (rope_all.long_factor == null or rope_all.short_factor == null
                or len(rope_all.long_factor) != len(rope_all.short_factor)
                or len(rope_all.long_factor) * 2 != hidden_size // num_attention_heads)",
            UNEVEN_FACTORS,
        )],
        keys: &[GENERIC, KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE, ..Tokenizer::BPE },
        computed: &[Computed::LongRopeFactors],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "embedding_scale" F32 = "float(scale_emb)";
    "residual_scale" F32 = "scale_depth / num_hidden_layers ** 0.5";
    "logit_scale" F32 = "hidden_size / dim_model_base";
};

const UNEVEN_ATTENTION: &[Row] = rows! {
    "attn_q.weight"      [Embd Q] UnlessFused Always <- "self_attn.q_proj" : ROPE_Q;
    "attn_k.weight"      [Embd K] UnlessFused Always <- "self_attn.k_proj" : ROPE_K;
    "attn_v.weight"      [Embd V] UnlessFused Always + Optional <- "self_attn.v_proj";
    "attn_q.bias"        [Q]      Optional    Always <- "self_attn.q_proj.bias";
    "attn_k.bias"        [K]      Optional    Always <- "self_attn.k_proj.bias";
    "attn_output.weight" [Q Embd] Required    Always + Optional <- "self_attn.o_proj";
};
