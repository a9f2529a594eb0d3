//! LLaDA: a diffusion model with Llama's blocks under different names.
//!
//! Rules: `load_arch_tensors` in `src/models/llada.cpp` of llama.cpp, `LLaDAModel` in `conversion/llada.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["llada"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["LLaDAModelLM"],
        names: &TensorNames { roots: &["model.transformer."], layers: &["blocks.{}."], ..TensorNames::TEXT },
        keys: &[GENERIC, POOLING, KEYS, NOT_CAUSAL, SHIFT],
        tokenizer: &Tokenizer { vocab: Vocab::MARKED_BPE, keys: &[TOKENIZER], ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required    Always <- "wte";
    "output_norm.weight" [Embd]       Required    Always <- "ln_f";
    "output.weight"      [Embd Vocab] Optional    Always <- "ff_out";
    "rope_freqs.weight"  [HalfRot]    Optional    Always;
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]       Required    Always <- "attn_norm";
    "attn_qkv.weight"    [Embd Qkv]   Optional    Always + Optional;
    "attn_q.weight"      [Embd Q]     UnlessFused Always + Optional <- "q_proj" : ROPE_Q;
    "attn_k.weight"      [Embd K]     UnlessFused Always + Optional <- "k_proj" : ROPE_K;
    "attn_v.weight"      [Embd V]     UnlessFused Always + Optional <- "v_proj";
    "attn_output.weight" [Q Embd]     Required    Always + Optional <- "attn_out";
    "ffn_norm.weight"    [Embd]       Required    Always <- "ff_norm";
    "ffn_gate.weight"    [Embd Ff]    Required    Always + Optional <- "ff_proj";
    "ffn_up.weight"      [Embd Ff]    Required    Always + Optional <- "up_proj";
    "ffn_down.weight"    [Ff Embd]    Required    Always + Optional <- "ff_out";
};

const KEYS: &[Key] = keys! {
    "vocab_size" U32 = "vocab_size";
    "rope.dimension_count" U32 = "head_dim ?? (hidden_size|d_model) // (num_attention_heads|n_heads)";
    "context_length" U32 = "max_sequence_length|4096";
    "embedding_length" U32 = "d_model|4096";
    "feed_forward_length" U32 = "mlp_hidden_size|12288";
};

const SHIFT: &[Key] = keys! {
    "diffusion.shift_logits" Bool = "false";
};

const TOKENIZER: &[Key] = keys! {
    "tokenizer.ggml.add_bos_token" Bool = "true";
};
