//! Baichuan: Llama whose checkpoints have queries, keys and values in one matrix. The 13B models have ALiBi in place of rotary
//! positions, which llama.cpp tells from the number of blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/baichuan.cpp` of llama.cpp, `BaichuanModel` in `conversion/baichuan.py`. The reference
//! calls itself without end and converts none of them; what it means to do is done here. Like it, this leaves the output matrix of
//! Baichuan 2 as it is, whose rows the model normalizes when it runs.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["baichuan"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    outside: &[OUTSIDE],
    block: &[NORMS, FUSED_QKV, BLOCK, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["BaichuanForCausalLM", "BaiChuanForCausalLM"],
        keys: &[GENERIC, KEYS],
        vocab: Vocab::SentencePiece,
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "tensor_data_layout" Str = "'Meta AI original pth'";
    "rope.dimension_count" U32 = "hidden_size // num_attention_heads";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required    Always <- "embed_tokens";
    "output_norm.weight" [Embd]       Required    Always <- "norm";
    "output.weight"      [Embd Vocab] Required    Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_q.weight"      [Embd Q]     UnlessFused Always + Optional <- "self_attn.W_pack" : "(three[0] h two i) ... -> (h i two) ...";
    "attn_k.weight"      [Embd K]     UnlessFused Always + Optional <- "self_attn.W_pack" : "(three[1] h two i) ... -> (h i two) ...";
    "attn_v.weight"      [Embd V]     UnlessFused Always + Optional <- "self_attn.W_pack" : "(three[2] r) ... -> r ...";
    "attn_output.weight" [Embd Embd]  Required    Always <- "self_attn.o_proj";
};
