//! Baichuan: Llama whose checkpoints fuse queries, keys and values. The 13B models have ALiBi instead of rotary
//! positions; llama.cpp detects them by the number of blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/baichuan.cpp` of llama.cpp, `BaichuanModel` in `conversion/baichuan.py`.
//! The reference recurses endlessly and converts none of these models; this table implements what it intends. Like the
//! reference, it does not normalize the rows of Baichuan 2's output matrix; the model does so at run time.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["baichuan"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[NORMS, FUSED_EMBD_QKV, BLOCK, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["BaichuanForCausalLM", "BaiChuanForCausalLM"],
        keys: &[GENERIC, KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE, ..Tokenizer::BPE },
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
    "attn_q.weight"      [Embd Embd]     UnlessFused Always + Optional <- "self_attn.W_pack" : "(three[0] h two i) ... -> (h i two) ...";
    "attn_k.weight"      [Embd V]     UnlessFused Always + Optional <- "self_attn.W_pack" : "(three[1] h two i) ... -> (h i two) ...";
    "attn_v.weight"      [Embd V]     UnlessFused Always + Optional <- "self_attn.W_pack" : "(three[2] r) ... -> r ...";
    "attn_output.weight" [Embd Embd]  Required    Always <- "self_attn.o_proj";
};
