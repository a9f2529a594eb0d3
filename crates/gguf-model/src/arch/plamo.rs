//! PLaMo 1: parallel attention and feed-forward part after one norm. Adjacent query heads use different key-value
//! heads in checkpoints and the same one in llama.cpp.
//!
//! Rules: `load_arch_tensors` in `src/models/plamo.cpp` of llama.cpp, `PlamoModel` in `conversion/plamo.py`. The
//! number of key-value heads in the configuration is wrong; the reference hard-codes the number of the only published
//! size.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["plamo"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[FUSED_EMBD_QKV, BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["PlamoForCausalLM"],
        names: &TensorNames { layers: &["layers.layers.{}."], ..TensorNames::TEXT },
        keys: &[KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE, ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "context_length" U32 = "4096";
    "embedding_length" U32 = "hidden_size";
    "feed_forward_length" U32 = "intermediate_size";
    "block_count" U32 = "block_count";
    "attention.head_count" U32 = "num_attention_heads";
    "attention.head_count_kv" U32 = "num_attention_heads // n_shared_head|8";
    "attention.layer_norm_rms_epsilon" F32 = "rms_norm_eps";
    "general.file_type" U32 = "@file_type";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required    Always <- "embed_tokens";
    "output_norm.weight" [Embd]       Required    Always <- "norm";
    "output.weight"      [Embd Vocab] Required    Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]       Required    Always <- "norm";
    "attn_q.weight"      [Embd Embd]     UnlessFused Always + Optional <- "self_attn.q_proj" : "(g kv d) ... -> (kv g d) ...";
    "attn_k.weight"      [Embd V]     UnlessFused Always + Optional <- "self_attn.k_proj";
    "attn_v.weight"      [Embd V]     UnlessFused Always + Optional <- "self_attn.v_proj";
    "attn_output.weight" [Embd Embd]  Required    Always <- "self_attn.o_proj" : "e (g kv d) -> e (kv g d)";
    "ffn_gate.weight"    [Embd Ff]    Required    Always <- "mlp.gate_proj";
    "ffn_up.weight"      [Embd Ff]    Required    Always <- "mlp.up_proj";
    "ffn_down.weight"    [Ff Embd]    Required    Always <- "mlp.down_proj";
};
