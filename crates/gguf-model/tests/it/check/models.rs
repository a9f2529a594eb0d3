//! Models that break no rule, and what is needed to change them.

use super::*;

pub(super) fn strings(texts: &[&str]) -> Value {
    Value::Array(texts.iter().copied().collect())
}

pub(super) fn array<T>(elements: impl IntoIterator<Item = T>) -> Value
where
    Array: FromIterator<T>,
{
    Value::Array(elements.into_iter().collect())
}

pub(super) fn ints(numbers: &[i32]) -> Value {
    Value::Array(numbers.iter().copied().collect())
}

pub(super) fn floats(numbers: &[f32]) -> Value {
    Value::Array(numbers.iter().copied().collect())
}

/// A complete llama of two blocks: 4 heads of length 8, 2 key-value heads, feed-forward width 96, 5 tokens.
pub(super) fn llama() -> Head {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("general.type", "model");
    head.set("general.name", "a name");
    head.set("general.file_type", 0u32);
    head.set("llama.context_length", 64u32);
    head.set("llama.embedding_length", 32u32);
    head.set("llama.block_count", 2u32);
    head.set("llama.feed_forward_length", 96u32);
    head.set("llama.attention.head_count", 4u32);
    head.set("llama.attention.head_count_kv", 2u32);
    head.set("llama.attention.layer_norm_rms_epsilon", 1e-5f32);
    head.set("llama.rope.dimension_count", 8u32);
    head.set("llama.vocab_size", 5u32);
    head.set("tokenizer.ggml.model", "gpt2");
    head.set("tokenizer.ggml.pre", "default");
    head.set("tokenizer.ggml.tokens", strings(&["<s>", "a", "b", "ab", "Ġ"]));
    head.set("tokenizer.ggml.token_type", ints(&[3, 1, 1, 1, 1]));
    head.set("tokenizer.ggml.scores", floats(&[0.0, -1.0, -2.0, -3.0, -4.0]));
    head.set("tokenizer.ggml.merges", strings(&["a b"]));
    head.set("tokenizer.ggml.bos_token_id", 0u32);
    add(&mut head, "token_embd.weight", &[32, 5]);
    add(&mut head, "output_norm.weight", &[32]);
    for i in 0..2 {
        let rows: [(&str, &[u64]); 9] = [
            ("attn_norm", &[32]),
            ("attn_q", &[32, 32]),
            ("attn_k", &[32, 16]),
            ("attn_v", &[32, 16]),
            ("attn_output", &[32, 32]),
            ("ffn_norm", &[32]),
            ("ffn_gate", &[32, 96]),
            ("ffn_up", &[32, 96]),
            ("ffn_down", &[96, 32]),
        ];
        for (name, shape) in rows {
            add(&mut head, &format!("blk.{i}.{name}.weight"), shape);
        }
    }
    head
}

/// The llama with 4 experts, 2 of them used per token.
pub(super) fn mixture() -> Head {
    let mut head = llama();
    head.set("llama.expert_count", 4u32);
    head.set("llama.expert_used_count", 2u32);
    head.tensors.retain(|t| !t.name.windows(4).any(|w| w == b"ffn_") || t.name.ends_with(b"ffn_norm.weight"));
    for i in 0..2 {
        add(&mut head, &format!("blk.{i}.ffn_gate_inp.weight"), &[32, 4]);
        add(&mut head, &format!("blk.{i}.ffn_gate_exps.weight"), &[32, 96, 4]);
        add(&mut head, &format!("blk.{i}.ffn_up_exps.weight"), &[32, 96, 4]);
        add(&mut head, &format!("blk.{i}.ffn_down_exps.weight"), &[96, 32, 4]);
    }
    head
}

/// The llama under the name and keys of another architecture.
pub(super) fn renamed(arch: &str) -> Head {
    let mut head = llama();
    for kv in &mut head.kvs {
        let key = String::from_utf8(kv.key.clone()).unwrap();
        kv.key = key.replace("llama.", &format!("{arch}.")).into_bytes();
    }
    head.set("general.architecture", arch);
    head
}

/// An architecture whose tensors are not listed.
pub(super) fn unlisted() -> Head {
    let mut head = renamed("jina-bert-v3");
    head.remove("jina-bert-v3.attention.layer_norm_rms_epsilon");
    head.set("jina-bert-v3.attention.layer_norm_epsilon", 1e-5f32);
    head.set("tokenizer.ggml.token_type_count", 1u32);
    head
}

/// An encoder of one block and a decoder of two, width 8.
pub(super) fn whisper() -> Head {
    let mut head = renamed("whisper");
    head.kvs.retain(|kv| !kv.key.starts_with(b"whisper."));
    head.tensors.clear();
    for (half, n_blocks, context) in [("encoder", 1u32, 10u32), ("decoder", 2, 6)] {
        head.set(&format!("whisper.{half}.context_length"), context);
        head.set(&format!("whisper.{half}.embedding_length"), 8u32);
        head.set(&format!("whisper.{half}.block_count"), n_blocks);
        head.set(&format!("whisper.{half}.attention.head_count"), 2u32);
    }
    head.set("whisper.encoder.mels_count", 4u32);
    let mut h = Hparams::default();
    (h.encoder_embd, h.encoder_context, h.mels) = (Some(8), Some(10), Some(4));
    (h.embd, h.context, h.vocab) = (Some(8), Some(6), Some(5));
    let shape = |tensor: &Tensor| tensor.shape().iter().map(|dim| dim.of(&h, 0).unwrap_or(16)).collect::<Vec<_>>();
    let architecture = arch::of("whisper").unwrap();
    for tensor in architecture.outside() {
        add(&mut head, &tensor.name_in(None), &shape(&tensor));
    }
    for tensor in architecture.block() {
        for block in 0..if tensor.row.stack() == Stack::Encoder { 1 } else { 2 } {
            add(&mut head, &tensor.name_in(Some(block)), &shape(&tensor));
        }
    }
    head
}

pub(super) fn add(head: &mut Head, name: &str, shape: &[u64]) {
    head.tensors.push(TensorInfo::new(name, shape, F32));
}

pub(super) fn tensor<'h>(head: &'h mut Head, name: &str) -> &'h mut TensorInfo {
    head.tensors.iter_mut().find(|t| t.name == name.as_bytes()).unwrap()
}

pub(super) fn drop_tensor(head: &mut Head, name: &str) {
    let n = head.tensors.len();
    head.tensors.retain(|t| t.name != name.as_bytes());
    assert!(head.tensors.len() < n, "{name}");
}

pub(super) fn adapter() -> Head {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("general.type", "adapter");
    head.set("adapter.type", "lora");
    head.set("adapter.lora.alpha", 16f32);
    add(&mut head, "blk.0.attn_q.weight.lora_a", &[32, 4]);
    add(&mut head, "blk.0.attn_q.weight.lora_b", &[4, 32]);
    head
}

pub(super) fn imatrix() -> Head {
    let mut head = Head::default();
    head.set("general.type", "imatrix");
    head.set("imatrix.datasets", strings(&["text"]));
    head.set("imatrix.chunk_count", 1u32);
    head.set("imatrix.chunk_size", 512u32);
    add(&mut head, "blk.0.attn_q.weight.in_sum2", &[32, 1]);
    add(&mut head, "blk.0.attn_q.weight.counts", &[1, 1]);
    head
}

/// Shard `no` of two: the llama's tensors before number 5, or from number 5 on.
pub(super) fn shard(no: u16) -> Head {
    let mut head = if no == 0 { llama() } else { Head::default() };
    let mut tensors = llama().tensors;
    let n = tensors.len() as i32;
    let second = tensors.split_off(5);
    head.tensors = if no == 0 { tensors } else { second };
    head.set("split.no", no);
    head.set("split.count", 2u16);
    head.set("split.tensors.count", n);
    head
}
