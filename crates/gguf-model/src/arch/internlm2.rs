//! InternLM 2: Llama with interleaved queries, keys and values in one matrix: for each key-value head its query heads,
//! the key, the value.
//!
//! Rules: `load_arch_tensors` in `src/models/internlm2.cpp` of llama.cpp, `InternLM2Model` in `conversion/internlm.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["internlm2"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["InternLM2ForCausalLM"],
        tokenizer: &Tokenizer {
            vocab: Vocab { readers: &[Reader::ChangedSentencePiece(Changes::InternLm2)], quirks: &[Quirk::InternLm2] },
            ..Tokenizer::BPE
        },
        ..Checkpoint::TEXT
    }],
};

const Q: &str = "(kv g two HalfHead) ... -> (kv g[:-2] HalfHead two) ...";
const K: &str = "(kv g two HalfHead) ... -> (kv g[-2] HalfHead two) ...";
const V: &str = "(kv g d) ... -> (kv g[-1] d) ...";

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required    Always <- "tok_embeddings";
    "output_norm.weight" [Embd]       Required    Always <- "norm";
    "output.weight"      [Embd Vocab] Required    Always <- "output";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]       Required    Always <- "attention_norm";
    "attn_qkv.weight"    [Embd EmbdQkv]   Optional    Always + Optional;
    "attn_q.weight"      [Embd Embd]     UnlessFused Always + Optional <- "attention.wqkv" : Q;
    "attn_k.weight"      [Embd V]     UnlessFused Always + Optional <- "attention.wqkv" : K;
    "attn_v.weight"      [Embd V]     UnlessFused Always + Optional <- "attention.wqkv" : V;
    "attn_output.weight" [Embd Embd]     Required    Always <- "attention.wo";
    "ffn_norm.weight"    [Embd]       Required    Always <- "ffn_norm";
    "ffn_gate.weight"    [Embd Ff]    Required    Always <- "feed_forward.w1";
    "ffn_up.weight"      [Embd Ff]    Required    Always <- "feed_forward.w3";
    "ffn_down.weight"    [Ff Embd]    Required    Always <- "feed_forward.w2";
};
