//! Tests of the rules for models: for each rule, a model that breaks it and the exact findings expected.

use gguf_format::check::{KEPT, Place, Report, Severity};
use gguf_format::keys::{self, Kind};
use gguf_format::{Array, GgmlType, Gguf, Head, TensorInfo, Value, ValueType};
use gguf_model::arch::{self, Need, Stack, Tensor, When};
use gguf_model::check::{self, RULES};
use gguf_model::{Hparams, PerBlock};

const F32: GgmlType = GgmlType::F32;

fn strings(texts: &[&str]) -> Value {
    Value::Array(texts.iter().copied().collect())
}

fn array<T>(elements: impl IntoIterator<Item = T>) -> Value
where
    Array: FromIterator<T>,
{
    Value::Array(elements.into_iter().collect())
}

fn ints(numbers: &[i32]) -> Value {
    Value::Array(numbers.iter().copied().collect())
}

fn floats(numbers: &[f32]) -> Value {
    Value::Array(numbers.iter().copied().collect())
}

/// A complete llama of two blocks: 4 heads of length 8, 2 key-value heads, feed-forward width 96, 5 tokens.
fn llama() -> Head {
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
fn mixture() -> Head {
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
fn renamed(arch: &str) -> Head {
    let mut head = llama();
    for kv in &mut head.kvs {
        let key = String::from_utf8(kv.key.clone()).unwrap();
        kv.key = key.replace("llama.", &format!("{arch}.")).into_bytes();
    }
    head.set("general.architecture", arch);
    head
}

/// An architecture whose tensors are not listed.
fn unlisted() -> Head {
    let mut head = renamed("jina-bert-v3");
    head.remove("jina-bert-v3.attention.layer_norm_rms_epsilon");
    head.set("jina-bert-v3.attention.layer_norm_epsilon", 1e-5f32);
    head.set("tokenizer.ggml.token_type_count", 1u32);
    head
}

/// An encoder of one block and a decoder of two, width 8.
fn whisper() -> Head {
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

fn add(head: &mut Head, name: &str, shape: &[u64]) {
    head.tensors.push(TensorInfo::new(name, shape, F32));
}

fn tensor<'h>(head: &'h mut Head, name: &str) -> &'h mut TensorInfo {
    head.tensors.iter_mut().find(|t| t.name == name.as_bytes()).unwrap()
}

fn drop_tensor(head: &mut Head, name: &str) {
    let n = head.tensors.len();
    head.tensors.retain(|t| t.name != name.as_bytes());
    assert!(head.tensors.len() < n, "{name}");
}

fn adapter() -> Head {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("general.type", "adapter");
    head.set("adapter.type", "lora");
    head.set("adapter.lora.alpha", 16f32);
    add(&mut head, "blk.0.attn_q.weight.lora_a", &[32, 4]);
    add(&mut head, "blk.0.attn_q.weight.lora_b", &[4, 32]);
    head
}

fn imatrix() -> Head {
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
fn shard(no: u16) -> Head {
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

fn judge(shards: &[Head], file_name: Option<&str>) -> Report {
    let bytes: Vec<Vec<u8>> = shards.iter().map(|head| head.encode_as_read().unwrap()).collect();
    let parsed: Vec<Gguf<'_>> = bytes.iter().map(|bytes| Gguf::parse(bytes).unwrap()).collect();
    check::model(&parsed.iter().collect::<Vec<_>>(), file_name)
}

fn codes(report: &Report) -> Vec<&'static str> {
    report.codes().collect()
}

struct Case {
    name: &'static str,
    shards: Vec<Head>,
    file_name: Option<&'static str>,
    codes: &'static [&'static str],
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = vec![];
    let mut case = |name, shards, codes| cases.push(Case { name, shards, file_name: None, codes });
    // A change to one of the valid models.
    let with = |base: fn() -> Head, change: &dyn Fn(&mut Head)| {
        let mut head = base();
        change(&mut head);
        vec![head]
    };
    let edit = |change: &dyn Fn(&mut Head)| with(llama, change);
    let set = |key: &str, value: Value| edit(&|h| h.set(key, value.clone()));
    let without = |key: &str| edit(&|h| assert!(h.remove(key), "{key}"));

    // Valid models.
    case("llama", vec![llama()], &[]);
    case("mixture", vec![mixture()], &[]);
    case("adapter", vec![adapter()], &[]);
    case("imatrix", vec![imatrix()], &[]);
    case("two shards", vec![shard(0), shard(1)], &[]);
    case("vocabulary alone", edit(&|h| h.tensors.clear()), &[]);
    // llama.cpp does not read the network of a vocabulary.
    case(
        "vocabulary of a network without blocks",
        edit(&|h| {
            h.tensors.clear();
            h.set("llama.block_count", 0u32);
        }),
        &[],
    );
    case("no shards", vec![], &[]);
    let halves = |change: &dyn Fn(&mut Head)| with(whisper, change);
    case(
        "a decoder's tensor missing",
        halves(&|h| drop_tensor(h, "dec.blk.1.attn_q.weight")),
        &["arch.unsupported", "tensor.missing"],
    );
    case(
        "an encoder's tensor missing",
        halves(&|h| drop_tensor(h, "enc.blk.0.attn_q.bias")),
        &["arch.unsupported", "tensor.missing"],
    );
    case(
        "an encoder's block too many",
        halves(&|h| add(h, "enc.blk.1.attn_q.weight", &[8, 8])),
        &["arch.unsupported", "tensor.block.extra"],
    );
    case(
        "a decoder's tensor in the encoder",
        halves(&|h| add(h, "enc.blk.0.cross_attn_q.weight", &[8, 8])),
        &["arch.unsupported", "tensor.unexpected", "tensor.unknown"],
    );
    case(
        "a decoder without its last block",
        halves(&|h| h.tensors.retain(|t| !t.name.starts_with(b"dec.blk.1."))),
        &["arch.unsupported", "tensor.block.missing"],
    );
    case("tied or not", edit(&|h| add(h, "output.weight", &[32, 5])), &[]);
    case(
        "fused",
        edit(&|h| {
            for i in 0..2 {
                for part in ["q", "k", "v"] {
                    drop_tensor(h, &format!("blk.{i}.attn_{part}.weight"));
                }
                add(h, &format!("blk.{i}.attn_qkv.weight"), &[32, 64]);
                add(h, &format!("blk.{i}.attn_q.bias"), &[32]);
            }
        }),
        &[],
    );
    case("a scale for a whole tensor", edit(&|h| add(h, "blk.0.attn_q.scale", &[1])), &[]);
    case(
        "heads by block",
        edit(&|h| {
            h.set("llama.attention.head_count_kv", ints(&[2, 4]));
            for part in ["k", "v"] {
                tensor(h, &format!("blk.1.attn_{part}.weight")).shape = vec![32, 32];
            }
        }),
        &[],
    );
    case(
        "heads of another length",
        edit(&|h| {
            h.set("llama.attention.key_length", 16u32);
            h.set("llama.attention.value_length", 16u32);
            h.set("llama.rope.dimension_count", 16u32);
            for i in 0..2 {
                tensor(h, &format!("blk.{i}.attn_q.weight")).shape = vec![32, 64];
                tensor(h, &format!("blk.{i}.attn_k.weight")).shape = vec![32, 32];
                tensor(h, &format!("blk.{i}.attn_v.weight")).shape = vec![32, 32];
                tensor(h, &format!("blk.{i}.attn_output.weight")).shape = vec![64, 32];
            }
        }),
        &[],
    );
    case("another architecture", vec![unlisted()], &[]);
    case(
        "a merged model",
        edit(&|h| {
            h.set("split.no", 0u16);
            h.set("split.count", 0u16);
            h.set("split.tensors.count", 20i32);
        }),
        &[],
    );
    case("shapes with ones", edit(&|h| tensor(h, "output_norm.weight").shape = vec![32, 1, 1]), &[]);
    case("own keys", set("acme.colour", "red".into()), &[]);
    case(
        "ids that stand for none",
        edit(&|h| {
            h.set("tokenizer.ggml.unknown_token_id", -1i32);
            h.set("tokenizer.ggml.padding_token_id", u32::MAX);
        }),
        &["key.type"],
    );
    case("empty array of another type", set("general.tags", Value::Array(Array::new(ValueType::I32))), &[]);
    case(
        "empty tokens may repeat",
        edit(&|h| {
            h.set("tokenizer.ggml.tokens", strings(&["<s>", "a", "b", "", ""]));
        }),
        &[],
    );

    // Keys.
    case("no architecture", without("general.architecture"), &["arch.missing"]);
    case("architecture of another type", set("general.architecture", 7u32.into()), &["arch.missing", "key.type"]);
    case("unknown architecture", set("general.architecture", "lama9".into()), &["arch.unknown", "key.other_arch"]);
    case("an architecture of other programs", with(whisper, &|_| {}), &["arch.unsupported"]);
    for key in [
        "llama.context_length",
        "llama.attention.layer_norm_rms_epsilon",
        "tokenizer.ggml.model",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.merges",
    ] {
        case("a key missing", without(key), &["key.missing"]);
    }
    case("block count missing", without("llama.block_count"), &["key.missing"]);
    case("adapter without a type", with(adapter, &|h| assert!(h.remove("adapter.type"))), &["key.missing"]);
    case("imatrix without datasets", with(imatrix, &|h| assert!(h.remove("imatrix.datasets"))), &["key.missing"]);
    case("text for a count", set("llama.context_length", "64".into()), &["key.type"]);
    case("array for a number", set("llama.context_length", ints(&[64])), &["key.type"]);
    case("a count in 64 bits", set("llama.context_length", 64u64.into()), &["key.type"]);
    case("a count in 64 bits that is not read", set("llama.tensor_data_layout", 1u8.into()), &["key.type.unread"]);
    case("a number of 64 bits that is not read", set("general.quantization_version", 2u64.into()), &["key.width"]);
    case("a count for each block", set("llama.attention.head_count", array([4u32, 4])), &[]);
    case("counts in 64 bits", set("llama.attention.head_count", array([4u64, 4])), &["key.type"]);
    case("a key of another family", set("llama.full_attention_interval", 1.5f32.into()), &["key.type.unread"]);
    case("no elements for the blocks", set("llama.attention.head_count", array([4u32; 0])), &["value.array_length"]);
    case(
        "factors of rotary frequencies in half precision",
        edit(&|h| h.tensors.push(TensorInfo::new("rope_freqs.weight", vec![4], GgmlType::F16))),
        &["tensor.type"],
    );
    case("a list of tensors without settings", set("general.tensor_extra.name", strings(&["a"])), &["key.missing"]);
    for (name, shape, codes) in [
        ("blk.0.attn_q.scale", vec![1], &[][..]),
        ("blk.1.ffn_down.input_scale", vec![1], &[]),
        ("blk.0.attn_q.scale", vec![2], &["tensor.shape"]),
        ("blk.0.attn_qkv.scale", vec![1], &["tensor.unexpected"]),
        ("blk.0.attn_norm.scale", vec![1], &["tensor.unexpected"]),
        ("output.scale", vec![1], &["tensor.unexpected"]),
    ] {
        case(name, edit(&|h| h.tensors.push(TensorInfo::new(name, shape.clone(), GgmlType::F32))), codes);
    }
    case("misspelt", set("general.licence", "mit".into()), &["key.misspelt"]);
    case("misspelt of the network", set("llama.atention.key_length", 8u32.into()), &["key.misspelt"]);
    case("not known", set("general.favourite_colour", "red".into()), &["key.unknown"]);
    case("an older name", set("tokenizer.ggml.prefix_token_id", 1u32.into()), &["key.renamed"]);
    case("of another architecture", set("qwen2.block_count", 2u32.into()), &["key.other_arch"]);

    // Values.
    case("kind", set("general.type", "modell".into()), &["value.choice"]);
    case("rope scaling", set("llama.rope.scaling.type", "cubic".into()), &["value.rejected"]);
    case("pooling", set("llama.pooling_type", 9u32.into()), &["value.choice"]);
    case("pre-tokenizer", set("tokenizer.ggml.pre", "mine".into()), &["value.rejected"]);
    for name in ["mine", "replit", ""] {
        case("tokenizer", set("tokenizer.ggml.model", name.into()), &["value.rejected"]);
    }
    let odd = Value::String(vec![0xff]);
    case("pre-tokenizer that is not text", set("tokenizer.ggml.pre", odd), &["value.rejected"]);
    case("no context", set("llama.context_length", 0u32.into()), &["value.unusual"]);
    case("no blocks", set("llama.block_count", 0u32.into()), &["tensor.block.extra", "value.range"]);
    case("too many blocks", set("llama.block_count", 513u32.into()), &["value.range"]);
    case(
        "no heads",
        edit(&|h| {
            h.set("llama.attention.head_count", 0u32);
        }),
        &["value.range"],
    );
    case("negative epsilon", set("llama.attention.layer_norm_rms_epsilon", (-1f32).into()), &["value.unusual"]);
    case("NaN", set("llama.attention.layer_norm_rms_epsilon", f32::NAN.into()), &["value.finite"]);
    case("array too short", set("llama.attention.head_count_kv", ints(&[2])), &["value.array_length"]);
    case("array too long", set("llama.feed_forward_length", ints(&[96, 96, 96])), &["value.array_length"]);
    case(
        "3 heads of keys",
        edit(&|h| {
            h.set("llama.attention.head_count_kv", 3u32);
        }),
        &["tensor.shape", "value.heads"],
    );
    case(
        "heads that do not share",
        edit(&|h| {
            h.set("llama.attention.head_count", 5u32);
            h.set("llama.attention.head_count_kv", 5u32);
            h.remove("llama.rope.dimension_count");
        }),
        &["tensor.shape", "value.heads"],
    );
    case("rope of a llama", set("llama.rope.dimension_count", 4u32.into()), &["value.rope.llama"]);
    case("rope of others", with(unlisted, &|h| h.set("jina-bert-v3.rope.dimension_count", 4u32)), &[]);
    case("too much rope", with(unlisted, &|h| h.set("jina-bert-v3.rope.dimension_count", 16u32)), &["value.rope"]);
    case("more experts than there are", with(mixture, &|h| h.set("llama.expert_used_count", 5u32)), &["value.experts"]);
    case("no expert used", with(mixture, &|h| h.set("llama.expert_used_count", 0u32)), &["value.experts"]);
    for (name, groups, used) in [
        ("groups of different sizes", 3u32, 1u32),
        ("as many groups as experts", 4, 1),
        ("no group used", 2, 0),
        ("all groups used", 2, 2),
    ] {
        let grouped = |h: &mut Head| {
            h.set("llama.expert_group_count", groups);
            h.set("llama.expert_group_used_count", used);
        };
        case(name, with(mixture, &grouped), &["value.expert_groups"]);
    }
    case(
        "half of the groups used",
        with(mixture, &|h| {
            h.set("llama.expert_group_count", 2u32);
            h.set("llama.expert_group_used_count", 1u32);
        }),
        &[],
    );
    case("groups without experts", set("llama.expert_group_count", 2u32.into()), &["value.expert_groups"]);

    // Tensors.
    case("embeddings missing", edit(&|h| drop_tensor(h, "token_embd.weight")), &["tensor.missing"]);
    case("one of a block missing", edit(&|h| drop_tensor(h, "blk.1.ffn_up.weight")), &["tensor.missing"]);
    case("keys missing", edit(&|h| drop_tensor(h, "blk.0.attn_k.weight")), &["tensor.missing"]);
    case("experts missing", with(mixture, &|h| drop_tensor(h, "blk.0.ffn_down_exps.weight")), &["tensor.missing"]);
    case("block beyond the count", edit(&|h| add(h, "blk.2.attn_norm.weight", &[32])), &["tensor.block.extra"]);
    case("block missing", edit(&|h| h.tensors.retain(|t| !t.name.starts_with(b"blk.1."))), &["tensor.block.missing"]);
    case(
        "block missing elsewhere",
        with(unlisted, &|h| h.tensors.retain(|t| !t.name.starts_with(b"blk.0."))),
        &["tensor.block.missing"],
    );
    case("of another architecture", edit(&|h| add(h, "blk.0.ssm_a", &[32])), &["tensor.unexpected"]);
    case("dense in a mixture", with(mixture, &|h| add(h, "blk.0.ffn_up.weight", &[32, 96])), &["tensor.unexpected"]);
    case(
        "unknown in a llama",
        edit(&|h| add(h, "blk.0.attn_z.weight", &[32])),
        &["tensor.unexpected", "tensor.unknown"],
    );
    case("unknown elsewhere", with(unlisted, &|h| add(h, "blk.0.attn_z.weight", &[32])), &["tensor.unknown"]);
    case("as many heads of keys unless said", without("llama.attention.head_count_kv"), &["tensor.shape"]);
    case("transposed", edit(&|h| tensor(h, "blk.0.ffn_down.weight").shape = vec![32, 96]), &["tensor.shape"]);
    case("more dimensions", edit(&|h| tensor(h, "output_norm.weight").shape = vec![32, 2]), &["tensor.shape"]);
    case(
        "fewer tokens in the embeddings",
        edit(&|h| tensor(h, "token_embd.weight").shape = vec![32, 4]),
        &["tensor.shape"],
    );
    case(
        "the same elsewhere",
        with(unlisted, &|h| tensor(h, "token_embd.weight").shape = vec![32, 4]),
        &["tensor.shape.unusual"],
    );
    case("half a pair", with(adapter, &|h| drop_tensor(h, "blk.0.attn_q.weight.lora_a")), &["tensor.pair"]);
    case("half a pair of sums", with(imatrix, &|h| drop_tensor(h, "blk.0.attn_q.weight.counts")), &["tensor.pair"]);
    case("ranks", with(adapter, &|h| tensor(h, "blk.0.attn_q.weight.lora_a").shape = vec![32, 8]), &["tensor.rank"]);

    // Types.
    case("file type 99", set("general.file_type", 99u32.into()), &["file_type.unknown"]);
    case("a guessed file type", set("general.file_type", 1024u32.into()), &["file_type.unknown"]);
    case(
        "rows too short for the file type",
        edit(&|h| {
            h.set("general.file_type", 15u32);
        }),
        &[],
    );
    case("another file type", set("general.file_type", 7u32.into()), &["file_type.mismatch"]);
    let quantize =
        |h: &mut Head| h.tensors.iter_mut().filter(|t| t.shape.len() > 1).for_each(|t| t.ty = GgmlType::Q8_0);
    case(
        "no quantization version",
        edit(&|h| {
            quantize(h);
            h.set("general.file_type", 7u32);
        }),
        &["quantization_version.missing"],
    );
    case(
        "quantization version 2",
        edit(&|h| {
            quantize(h);
            h.set("general.file_type", 7u32);
            h.set("general.quantization_version", 2u32);
        }),
        &[],
    );
    case(
        "quantization version 1",
        edit(&|h| {
            quantize(h);
            h.set("general.file_type", 7u32);
            h.set("general.quantization_version", 1u32);
        }),
        &["quantization_version.value"],
    );

    // Tokenizer.
    case("scores too few", set("tokenizer.ggml.scores", floats(&[0.0])), &["tokenizer.length"]);
    case("types too many", set("tokenizer.ggml.token_type", ints(&[1; 6])), &["tokenizer.excess"]);
    case("named like Phi 3", set("general.name", "My PHI-3 mini".into()), &["tokenizer.phi3"]);
    case(
        "named like Phi 3, with its tokens",
        edit(&|h| {
            h.set("general.name", "phi3");
            h.set("tokenizer.ggml.tokens", strings(&["<s>", "</s>", "<unk>", "<|endoftext|>", "a"]));
            h.set("tokenizer.ggml.merges", strings(&[]));
        }),
        &[],
    );
    case("token type 7", set("tokenizer.ggml.token_type", ints(&[3, 1, 1, 7, 0])), &["tokenizer.token_type"]);
    case("byte without digits", set("tokenizer.ggml.token_type", ints(&[3, 1, 6, 1, 1])), &["tokenizer.byte"]);
    case("score NaN", set("tokenizer.ggml.scores", floats(&[0.0, f32::NAN, 0.0, 0.0, 0.0])), &["tokenizer.score"]);
    case("id out of range", set("tokenizer.ggml.eos_token_id", 5u32.into()), &["tokenizer.id"]);
    case(
        "no tokens",
        edit(&|h| {
            h.set("tokenizer.ggml.tokens", Value::Array(Array::new(ValueType::STRING)));
        }),
        &["tensor.shape", "tokenizer.empty"],
    );
    case(
        "the same token twice",
        set("tokenizer.ggml.tokens", strings(&["<s>", "a", "b", "ab", "a"])),
        &["tokenizer.duplicate"],
    );
    case(
        "token that is not text",
        edit(&|h| {
            let mut tokens = Array::new(ValueType::STRING);
            for text in [&b"a"[..], b"b", b"\xff", b"ab", b"c"] {
                tokens.push(gguf_format::ValueRef::String(gguf_format::Str(text))).unwrap();
            }
            h.set("tokenizer.ggml.tokens", tokens);
        }),
        &["tokenizer.utf8"],
    );
    case("merge of an unknown token", set("tokenizer.ggml.merges", strings(&["a b", "a c"])), &["tokenizer.merge"]);
    case("merge without a space", set("tokenizer.ggml.merges", strings(&["ab"])), &["tokenizer.merge"]);
    case("no pre-tokenizer", without("tokenizer.ggml.pre"), &["tokenizer.pre"]);
    case("an empty pre-tokenizer", set("tokenizer.ggml.pre", "".into()), &["tokenizer.pre"]);
    case("vocab_size", set("llama.vocab_size", 6u32.into()), &["tokenizer.vocab_size"]);
    case("chat without a template", set("general.finetune", "Instruct".into()), &["template.missing"]);
    case(
        "chat with a template",
        edit(&|h| {
            h.set("general.finetune", "Instruct");
            h.set("tokenizer.chat_template", "{% for m in messages %}{{ m.content }}{% endfor %}");
        }),
        &[],
    );
    case("template without an end", set("tokenizer.chat_template", "{% if a %}".into()), &["template.syntax"]);
    case(
        "template that reaches out",
        set("tokenizer.chat_template", "{{ x.__class__.__mro__ }}".into()),
        &["template.suspicious"],
    );
    case(
        "named template that reaches out",
        set("tokenizer.chat_template.tool", "{{ lipsum.__globals__ }}".into()),
        &["template.suspicious"],
    );

    // Shards.
    case("first shard alone", vec![shard(0)], &["split.lone"]);
    case(
        "a shard without its number",
        with(|| shard(0), &|h| assert!(h.remove("split.no"))),
        &["split.keys", "split.lone"],
    );
    case("a count of shards alone", set("split.count", 3u16.into()), &["split.keys", "split.lone"]);
    case("one shard", set("split.count", 1u16.into()), &[]);
    case("second shard alone", vec![shard(1)], &["split.lone"]);
    case(
        "shards the wrong way round",
        vec![shard(0), shard(0)],
        &["split.duplicate", "split.keys", "tensor.block.missing", "tensor.missing"],
    );
    case("shard 2 of 2 counted from 0", with(|| shard(1), &|h| h.set("split.no", 2u16)), &["split.keys", "split.lone"]);
    case(
        "tensors miscounted",
        vec![shard(0), with(|| shard(1), &|h| h.set("split.tensors.count", 21i32)).remove(0)],
        &["split.keys"],
    );

    // File names.
    let mut named =
        |name, head, file_name, codes| cases.push(Case { name, shards: vec![head], file_name: Some(file_name), codes });
    named("by the convention", llama(), "Name-20K-v1.0-F32.gguf", &[]);
    named("against the convention", llama(), "name.gguf", &["name.convention"]);
    named("another encoding", llama(), "Name-20K-v1.0-Q8_0.gguf", &["name.encoding"]);
    named("another size", llama(), "Name-7B-v1.0-F32.gguf", &["name.size"]);
    named("another shard", shard(0), "Name-20K-v1.0-F32-00002-of-00002.gguf", &["name.shard", "split.lone"]);
    named("the right shard", shard(1), "Name-20K-v1.0-F32-00002-of-00002.gguf", &["split.lone"]);
    named("a shard that is none", llama(), "Name-20K-v1.0-F32-00001-of-00002.gguf", &["name.unsplit"]);
    cases
}

#[test]
fn every_case_has_its_findings_and_no_others() {
    let mut wrong = vec![];
    for case in cases() {
        let report = judge(&case.shards, case.file_name);
        if codes(&report) != case.codes {
            let found: Vec<String> = report.findings().map(|f| f.to_string()).collect();
            wrong.push(format!("{}: {:?} is due\n  {}", case.name, case.codes, found.join("\n  ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_has_a_case() {
    let all = cases();
    for rule in RULES {
        assert!(all.iter().any(|case| case.codes.contains(&rule.code)), "{} has no case", rule.code);
    }
}

#[test]
fn the_table_of_rules_is_sound() {
    let all: Vec<_> = gguf_format::check::RULES.iter().chain(RULES).collect();
    for (i, rule) in all.iter().enumerate() {
        assert!(all[..i].iter().all(|other| other.code != rule.code), "{} twice", rule.code);
        for text in [rule.expected, rule.hint, rule.source] {
            assert!(!text.is_empty() && !text.ends_with('.'), "{}: {text}", rule.code);
        }
    }
    assert!(RULES.iter().all(|rule| !rule.structural));
}

#[test]
fn places_messages_and_expectations() {
    let mut head = llama();
    tensor(&mut head, "blk.1.ffn_down.weight").shape = vec![32, 96];
    drop_tensor(&mut head, "blk.0.attn_v.weight");
    head.set("general.licence", "mit");
    let report = judge(&[head], None);
    let find = |code: &str| report.findings().find(|f| f.code == code).unwrap().into_owned();
    let shape = find("tensor.shape");
    assert!(matches!(&shape.place, Place::Tensor { name, offset: Some(_) } if name == "blk.1.ffn_down.weight"));
    assert_eq!((shape.message.as_str(), shape.expected.as_ref()), ("the shape is [32, 96]", "[96, 32]"));
    let missing = find("tensor.missing");
    assert_eq!(missing.place, Place::Tensor { name: "blk.0.attn_v.weight".into(), offset: None });
    assert_eq!(missing.expected, "a tensor of shape [32, 16]");
    assert_eq!(find("key.misspelt").message, "unknown key; did you mean general.license?");
    assert_eq!(report.worst(), Some(Severity::Error));
    assert!(report.is_safe(), "nothing of this endangers reading");
}

#[test]
fn many_unknown_keys_cost_little() {
    let mut head = llama();
    for i in 0..2000 {
        head.kvs.push(gguf_format::Kv { key: format!("general.zzz{i}").into_bytes(), value: 1u8.into() });
    }
    // Beyond this number, similar keys are no longer searched.
    head.set("general.licence", "mit");
    let report = judge(&[head], None);
    assert_eq!(report.count_of("key.unknown"), 2001);
    assert_eq!(report.findings().count() as u64, KEPT + 1);
    assert_eq!(report.count_of("key.misspelt"), 0);
}

/// Outputs of `attn_q`, `attn_k` and `attn_v` and inputs of `attn_output`, by architecture, of models of width 32 with 4 heads of queries
/// and 2 of keys, where a key has 16 elements and a value 12. llama.cpp derives them from different keys in different architectures.
const ATTENTION_SHAPES: &[([u64; 4], &[&str])] = &[
    (
        [64, 32, 24, 64],
        &[
            "afmoe",
            "arcee",
            "exaone",
            "falcon-h1",
            "gemma",
            "gemma-embedding",
            "gemma2",
            "gemma3",
            "gemma3n",
            "glm4",
            "glm4moe",
            "granite",
            "granite_swa",
            "granitehybrid",
            "granitemoe",
            "hrm_text",
            "hunyuan-moe",
            "hunyuan_vl",
            "hy_v3",
            "jais2",
            "laguna",
            "llada",
            "llama",
            "llama4",
            "minicpm",
            "minimax-01",
            "mistral3",
            "muse-glimmer",
            "nanbeige",
            "nemotron_h",
            "pangu-embedded",
            "refact",
            "smollm3",
        ],
    ),
    (
        [64, 24, 24, 64],
        &[
            "apertus",
            "cohere2moe",
            "ernie4_5",
            "grovemoe",
            "maincoder",
            "mellum",
            "minimax-m2",
            "minimax-m3",
            "qwen3",
            "qwen3moe",
            "qwen3vl",
            "qwen3vlmoe",
            "rnd1",
            "smallthinker",
            "talkie",
        ],
    ),
    (
        [32, 24, 24, 32],
        &[
            "arctic",
            "baichuan",
            "bert",
            "chameleon",
            "codeshell",
            "cohere2",
            "command-r",
            "deepseek",
            "dream",
            "eurobert",
            "grok",
            "internlm2",
            "jamba",
            "jina-bert-v2",
            "llada-moe",
            "nemotron",
            "nomic-bert",
            "nomic-bert-moe",
            "olmo",
            "olmo2",
            "olmoe",
            "orion",
            "phi2",
            "phi3",
            "phimoe",
            "plamo",
            "qwen2",
            "qwen2moe",
            "qwen2vl",
            "stablelm",
            "starcoder2",
            "xverse",
        ],
    ),
    ([64, 32, 24, 32], &["chatglm", "exaone4"]),
    ([32, 32, 32, 32], &["deepseek2-ocr"]),
    ([64, 64, 64, 64], &["dots1"]),
    ([64, 32, 32, 64], &["exaone-moe", "maple", "seed_oss"]),
    ([32, 32, 24, 32], &["lfm2", "lfm2moe"]),
    ([64, 32, 24, 48], &["mimo2", "step35"]),
    ([128, 32, 24, 64], &["qwen35", "qwen35moe", "qwen3next", "qwen4exp"]),
];

#[test]
fn rows_apply_to_models_of_some_depth_and_with_embeddings_per_block() {
    let of = |blocks, per_layer_embd| {
        let mut h = Hparams::default();
        (h.blocks, h.per_layer_embd) = (Some(blocks), per_layer_embd);
        h
    };
    assert!(!When::Deep.holds(&of(63, None), 0) && When::Deep.holds(&of(64, None), 0));
    assert!(!When::PerLayer.holds(&of(1, Some(0)), 0) && When::PerLayer.holds(&of(1, Some(8)), 0));
    let row = |arch: &str, name: &str| {
        let rows = arch::of(arch).unwrap().block.iter().copied().flatten();
        rows.filter(|row| row.name == name).map(|row| (row.need, row.when)).collect::<Vec<_>>()
    };
    assert_eq!(row("command-r", "attn_q_norm.weight"), [(Need::Required, When::Deep)]);
    assert_eq!(row("nemotron_h_moe", "ffn_up_exps.weight"), [(Need::Required, When::FfExperts)]);
    assert_eq!(row("gemma4", "inp_gate.weight"), [(Need::Required, When::PerLayer)]);
    assert_eq!(row("glm4moe", "exp_probs_b.bias"), [(Need::Required, When::Experts)]);
}

#[test]
fn attention_has_the_shapes_that_llama_cpp_expects() {
    let mut h = Hparams::default();
    (h.blocks, h.embd, h.attention_interval) = (Some(1), Some(32), Some(1));
    (h.heads, h.heads_kv) = (Some(PerBlock::Same(4)), Some(PerBlock::Same(2)));
    (h.head_k, h.head_v, h.rot) = (Some(16), Some(12), Some(16));
    let names = ["attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight"];
    let mut wrong = vec![];
    for (expected, list) in ATTENTION_SHAPES {
        for name in *list {
            let block: Vec<Tensor> = arch::of(name).unwrap_or_else(|| panic!("{name}")).block().collect();
            let of = |tensor: &str| block.iter().find(|t| t.is_named(tensor) && t.row.when.holds(&h, 0));
            let found = names.map(|tensor| {
                let axis = usize::from(tensor != "attn_output.weight");
                of(tensor).and_then(|t| t.shape().get(axis)?.of(&h, 0)).unwrap_or(0)
            });
            if found != *expected {
                wrong.push(format!("{name}: {found:?}, expected {expected:?}"));
            }
            if let Some(fused) = of("attn_qkv.weight").and_then(|t| t.shape().get(1)?.of(&h, 0))
                && fused != expected.iter().take(3).sum::<u64>()
            {
                wrong.push(format!("{name}: {fused} of fused queries, keys and values"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The hyperparameters of a model.
fn keys_of<'h>(head: &'h Head, name: &str) -> Hparams<'h> {
    Hparams::new(|pattern| head.get(&keys::for_arch(pattern, name)))
}

/// A model of the tensors that an architecture requires, with these keys; counts not given are 8, and there are 6 blocks of 4 heads.
fn of_table(name: &str, set: &[(&str, Value)]) -> Head {
    let mut head = llama();
    head.kvs.retain(|kv| !kv.key.starts_with(b"llama."));
    head.tensors.clear();
    head.set("general.architecture", name);
    for row in arch::required_keys(name) {
        head.set(
            &row.for_arch(name),
            match row.kinds[0] {
                Kind::Scalar(ValueType::F32) => Value::F32(1e-5),
                Kind::Scalar(ValueType::BOOL) => true.into(),
                Kind::Array(_) => ints(&[1, 2, 3]),
                _ => Value::U32(8),
            },
        );
    }
    let usual =
        [("block_count", 6u32), ("embedding_length", 32), ("attention.head_count", 4), ("feed_forward_length", 96)];
    let usual = usual.map(|(key, n)| (key, Value::U32(n)));
    for (key, value) in usual.iter().chain(set) {
        head.set(&format!("{name}.{key}"), value.clone());
    }
    let keys = head.clone();
    let h = Hparams::new(|pattern| keys.get(&keys::for_arch(pattern, name)));
    let table = arch::of(name).unwrap();
    let shape =
        |tensor: &Tensor, block| tensor.shape().iter().map(|dim| dim.of(&h, block).unwrap_or(4)).collect::<Vec<_>>();
    for tensor in table.outside().filter(|t| t.need() != Need::Optional && t.row.when.holds(&h, 0)) {
        add(&mut head, &tensor.name_in(None), &shape(&tensor, 0));
    }
    for block in 0..h.blocks.unwrap() {
        for tensor in table.block().filter(|t| t.need() != Need::Optional && t.row.when.holds(&h, block)) {
            let name = tensor.name_in(Some(block));
            if !head.tensors.iter().any(|t| t.name == name.as_bytes()) {
                add(&mut head, &name, &shape(&tensor, block));
            }
        }
    }
    head
}

#[test]
fn tensors_depend_on_keys_and_other_tensors() {
    let n = |n: u32| Value::U32(n);
    let latent = |name: &str, more: &[(&str, Value)]| {
        let keys = [
            ("attention.kv_lora_rank", n(6)),
            ("attention.key_length_mla", n(12)),
            ("attention.value_length_mla", n(10)),
            ("rope.dimension_count", n(4)),
            ("expert_count", n(2)),
            ("expert_used_count", n(1)),
            ("leading_dense_block_count", n(1)),
        ];
        of_table(name, &[&keys[..], more].concat())
    };
    let sparse = || latent("glm-dsa", &[("attention.key_length", n(12)), ("attention.value_length", n(10))]);
    let low_rank = || latent("deepseek2", &[("attention.q_lora_rank", n(5))]);
    let whole = || latent("deepseek2", &[("attention.q_lora_rank", n(0))]);
    let next = || latent("deepseek2", &[("attention.q_lora_rank", n(5)), ("nextn_predict_layers", n(1))]);
    let small = || {
        let mut head = next();
        head.tensors.retain(|t| !t.name.starts_with(b"blk.5."));
        head
    };
    let mixed = || of_table("minimax-01", &[("full_attention_interval", n(3))]);
    let gated = |width: u64| {
        let mut head = of_table("laguna", &[("leading_dense_block_count", n(6))]);
        (0..6).for_each(|i| tensor(&mut head, &format!("blk.{i}.attn_gate.weight")).shape = vec![32, width]);
        head
    };
    let eagle = |layers: &[i32]| {
        of_table("eagle3", &[("block_count", n(1)), ("target_layers", ints(layers)), ("target_hidden_size", n(16))])
    };
    let flash = || {
        let keys = [
            ("target_layers", ints(&[1, 2])),
            ("conv_kernel_size", n(3)),
            ("conv_group_size", n(8)),
            ("selector_rank", n(6)),
            ("selector_top_k", n(2)),
            ("block_size", n(4)),
        ];
        of_table("dflash", &keys)
    };
    let kinds = || {
        let keys = [
            ("attention.head_count_kv", ints(&[0, 2, 0, 0, 2, 0])),
            ("feed_forward_length", ints(&[0, 0, 96, 0, 0, 96])),
        ];
        of_table("nemotron_h", &keys)
    };
    let grok = || of_table("grok", &[("expert_count", n(2)), ("expert_used_count", n(1))]);
    let norms = |name: &str| {
        let mut head = grok();
        (0..6).for_each(|i| add(&mut head, &format!("blk.{i}.{name}.weight"), &[32]));
        head
    };
    let gemma = || {
        let keys = [
            ("attention.sliding_window_pattern", array([false; 6])),
            ("embedding_length_per_layer_input", n(0)),
            ("expert_count", n(2)),
            ("expert_used_count", n(1)),
        ];
        let mut head = of_table("gemma4", &keys);
        add(&mut head, "rope_freqs.weight", &[4]);
        head
    };
    let routed = || {
        let mut head = gemma();
        add(&mut head, "blk.1.ffn_gate_inp.weight", &[32, 2]);
        add(&mut head, "blk.1.ffn_gate_inp.scale", &[32]);
        for name in ["pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"] {
            add(&mut head, &format!("blk.1.{name}.weight"), &[32]);
        }
        add(&mut head, "blk.1.ffn_gate_up_exps.weight", &[32, 192, 2]);
        add(&mut head, "blk.1.ffn_down_exps.weight", &[96, 32, 2]);
        head
    };
    let t5 = || of_table("t5", &[("block_count", n(2))]);
    let linear = |name: &str, more: &[(&str, Value)]| {
        let keys = [
            ("ssm.inner_size", n(64)),
            ("rope.dimension_sections", ints(&[1, 1, 2, 0])),
            ("full_attention_interval", n(3)),
            ("expert_count", n(2)),
            ("expert_used_count", n(1)),
            ("expert_feed_forward_length", n(8)),
            ("expert_shared_feed_forward_length", n(8)),
        ];
        of_table(name, &[&keys[..], more].concat())
    };
    let in_one_matrix = || {
        let mut head = linear("qwen3next", &[]);
        for i in [0, 1, 3, 4] {
            drop_tensor(&mut head, &format!("blk.{i}.attn_qkv.weight"));
            drop_tensor(&mut head, &format!("blk.{i}.attn_gate.weight"));
            add(&mut head, &format!("blk.{i}.ssm_in.weight"), &[32, 256]);
        }
        head
    };
    let next_recurrent = |last: bool| {
        let list = array([true, true, false, true, true, false]);
        let mut head = linear("qwen3next", &[("attention.recurrent_layers", list), ("nextn_predict_layers", n(1))]);
        head.set("qwen3next.attention.recurrent_layers", array([true, true, false, true, true, last]));
        head
    };
    let grams = |more: &[(&str, Value)]| {
        let keys = [
            ("ple.layers", ints(&[1])),
            ("ple.ngram_size", n(3)),
            ("ple.heads_per_ngram", n(2)),
            ("ple.conv_kernel", n(4)),
            ("ple.eos_token_id", n(1)),
            ("embedding_length_per_layer_input", n(6)),
            ("ple.layer_multipliers", array([1u64, 2, 3])),
            ("ple.head_offsets", array([0u64, 5, 10, 15])),
            ("ple.head_vocab_sizes", array([5u64, 5, 5, 5])),
        ];
        let mut head = linear("qwen4exp", &[&keys[..], more].concat());
        tensor(&mut head, "per_layer_token_embd.weight").shape[1] = 20;
        head
    };
    let mixture_of = |name: &str| {
        let keys = [
            ("expert_count", n(2)),
            ("expert_used_count", n(1)),
            ("expert_shared_count", n(1)),
            ("attention.sliding_window_pattern", ints(&[1, 1, 1, 0, 1, 1])),
        ];
        of_table(name, &keys)
    };
    let sharing = |blocks: u32| {
        let mut head = gemma();
        head.set("gemma4.attention.shared_kv_layers", blocks);
        head
    };
    let windowed = |positions: u32| of_table("gemma3", &[("attention.sliding_window", n(positions))]);
    let assistant = |out: u32| {
        let keys = [
            ("attention.sliding_window_pattern", array([false; 6])),
            ("embedding_length_out", n(out)),
            ("nextn_predict_layers", n(6)),
        ];
        of_table("gemma4-assistant", &keys)
    };
    let waves = || {
        let keys = [("posnet.block_count", n(6)), ("convnext.block_count", n(2)), ("vocab_size", n(5))];
        let mut head = of_table("wavtokenizer-dec", &keys);
        head.kvs.retain(|kv| !kv.key.starts_with(b"tokenizer."));
        head.set("tokenizer.ggml.model", "none");
        head.tensors.clear();
        let h = keys_of(&head, "wavtokenizer-dec");
        let table = arch::of("wavtokenizer-dec").unwrap();
        let shape = |t: &Tensor| t.shape().iter().map(|dim| dim.of(&h, 0).unwrap()).collect::<Vec<_>>();
        let outside = table.outside().map(|t| (t.name_in(None), shape(&t)));
        let blocks = (0..2).flat_map(|i| table.block().map(move |t| (t.name_in(Some(i)), t)));
        let all: Vec<_> = outside.chain(blocks.map(|(name, t)| (name, shape(&t)))).collect();
        all.iter().for_each(|(name, shape)| add(&mut head, name, shape));
        head
    };
    let unigrams = |replacements: &[u8]| {
        let mut head = t5();
        head.set("tokenizer.ggml.model", "t5");
        head.set("tokenizer.ggml.precompiled_charsmap", array(replacements.iter().copied()));
        head
    };
    let jamba = || {
        let keys = [
            ("attention.head_count_kv", ints(&[0, 4, 0, 4, 0, 4])),
            ("expert_count", n(2)),
            ("expert_used_count", n(1)),
        ];
        let mut head = of_table("jamba", &keys);
        for i in 0..6 {
            let experts: &[(&str, &[u64])] = &[
                ("gate_inp", &[32, 2]),
                ("gate_exps", &[32, 96, 2]),
                ("up_exps", &[32, 96, 2]),
                ("down_exps", &[96, 32, 2]),
            ];
            let matrices: &[(&str, &[u64])] = &[("gate", &[32, 96]), ("up", &[32, 96]), ("down", &[96, 32])];
            for (name, shape) in if i % 2 == 1 { experts } else { matrices } {
                add(&mut head, &format!("blk.{i}.ffn_{name}.weight"), shape);
            }
        }
        head
    };
    type Change = fn(&mut Head);
    let rejected: &[&str] = &["value.rejected"];
    let missing_key: &[&str] = &["key.missing"];
    let misshapen: &[&str] = &["tensor.shape"];
    let missing: &[&str] = &["tensor.missing"];
    let unexpected: &[&str] = &["tensor.unexpected"];
    let cases: &[(&str, Head, Change, &[&str])] = &[
        ("low-rank queries", low_rank(), |_| {}, &[]),
        ("without one", low_rank(), |h| drop_tensor(h, "blk.1.attn_q_a.weight"), missing),
        ("without merged keys", low_rank(), |h| drop_tensor(h, "blk.0.attn_k_b.weight"), missing),
        ("with whole queries, too", low_rank(), |h| add(h, "blk.0.attn_q.weight", &[32, 48]), unexpected),
        ("whole queries", whole(), |_| {}, &[]),
        ("without them", whole(), |h| drop_tensor(h, "blk.0.attn_q.weight"), missing),
        ("with a low-rank one", whole(), |h| add(h, "blk.0.attn_q_a.weight", &[32, 5]), unexpected),
        ("further tokens", next(), |_| {}, &[]),
        ("without a norm", next(), |h| drop_tensor(h, "blk.5.nextn.enorm.weight"), missing),
        ("in a main block", next(), |h| add(h, "blk.0.nextn.enorm.weight", &[32]), unexpected),
        ("in another file", small(), |_| {}, &[]),
        (
            "main blocks in another file",
            next(),
            |h| h.tensors.retain(|t| t.name.starts_with(b"blk.5.") || !t.name.starts_with(b"blk.")),
            &[],
        ),
        (
            "a main block missing",
            next(),
            |h| h.tensors.retain(|t| !t.name.starts_with(b"blk.2.")),
            &["tensor.block.missing"],
        ),
        ("lightning attention", mixed(), |_| {}, &[]),
        ("without its matrix", mixed(), |h| drop_tensor(h, "blk.0.attn_qkv.weight"), missing),
        ("queries in such a block", mixed(), |h| add(h, "blk.0.attn_q.weight", &[32, 32]), unexpected),
        ("no keys in others", mixed(), |h| drop_tensor(h, "blk.2.attn_k.weight"), missing),
        ("fused and separate", mixed(), |h| add(h, "blk.2.attn_qkv.weight", &[32, 96]), unexpected),
        ("a gate of heads", gated(4), |_| {}, &[]),
        ("a gate of elements", gated(32), |_| {}, &[]),
        ("another gate", gated(16), |_| {}, &["tensor.shape"]),
        ("no gate", gated(4), |h| drop_tensor(h, "blk.3.attn_gate.weight"), missing),
        ("EAGLE-3", eagle(&[1, 2, 3]), |h| add(h, "output.weight", &[32, 5]), &[]),
        ("too many layers of the target", eagle(&[1, 2, 3, 4]), |_| {}, &["value.rejected"]),
        ("output without d2t", eagle(&[1, 2, 3]), |h| add(h, "output.weight", &[32, 3]), &["tensor.shape"]),
        (
            "output with d2t",
            eagle(&[1, 2, 3]),
            |h| {
                add(h, "output.weight", &[32, 3]);
                add(h, "d2t", &[3]);
            },
            &[],
        ),
        ("a norm before fc", eagle(&[1, 2, 3]), |h| h.set("eagle3.norm_before_fc", true), missing),
        ("DFlash 2", flash(), |_| {}, &[]),
        (
            "a Markov head",
            flash(),
            |h| {
                add(h, "markov_w1.weight", &[3, 5]);
                add(h, "markov_w2.weight", &[3, 5]);
                add(h, "conf_proj.weight", &[35, 1]);
            },
            &[],
        ),
        ("half a Markov head", flash(), |h| add(h, "markov_w1.weight", &[3, 5]), missing),
        ("the other half", flash(), |h| add(h, "markov_w2.weight", &[3, 5]), unexpected),
        (
            "Markov matrices of two ranks",
            flash(),
            |h| {
                add(h, "markov_w1.weight", &[3, 5]);
                add(h, "markov_w2.weight", &[4, 5]);
            },
            &["tensor.shape"],
        ),
        (
            "a window without a list of blocks",
            flash(),
            |h| h.set("dflash.attention.sliding_window", 4u32),
            &["key.missing"],
        ),
        (
            "a window with one",
            flash(),
            |h| {
                h.set("dflash.attention.sliding_window", 4u32);
                h.set("dflash.attention.sliding_window_pattern", array([true; 6]));
            },
            &[],
        ),
        ("grok without a norm", grok(), |_| {}, missing),
        ("grok with one norm", norms("post_ffw_norm"), |_| {}, &[]),
        ("grok with the other", norms("layer_output_norm"), |_| {}, &[]),
        ("grok with both", norms("layer_output_norm"), |h| add(h, "blk.2.post_ffw_norm.weight", &[32]), unexpected),
        ("no router", gemma(), |_| {}, &[]),
        ("a norm without a router", gemma(), |h| add(h, "blk.0.pre_ffw_norm_2.weight", &[32]), unexpected),
        ("a router", routed(), |_| {}, &[]),
        ("a router without its scale", routed(), |h| drop_tensor(h, "blk.1.ffn_gate_inp.scale"), missing),
        ("a router without gates", routed(), |h| drop_tensor(h, "blk.1.ffn_gate_up_exps.weight"), missing),
        ("a router with gates twice", routed(), |h| add(h, "blk.1.ffn_gate_exps.weight", &[32, 96, 2]), unexpected),
        ("linear attention", linear("qwen35", &[]), |_| {}, &[]),
        ("of another inner size", linear("qwen35", &[]), |h| h.set("qwen35.ssm.inner_size", 7u32), &[]),
        ("of other heads", linear("qwen35", &[]), |h| h.set("qwen35.ssm.time_step_rank", 4u32), misshapen),
        ("in one matrix", in_one_matrix(), |_| {}, &[]),
        ("without it", in_one_matrix(), |h| drop_tensor(h, "blk.1.ssm_in.weight"), missing),
        ("the last block predicts further tokens", next_recurrent(false), |_| {}, &[]),
        ("and is listed as recurrent", next_recurrent(true), |_| {}, rejected),
        ("n-grams", grams(&[]), |_| {}, &[]),
        ("norms of other dimensions", grams(&[]), |h| tensor(h, "blk.0.hc_attn_norm.weight").shape = vec![32, 8], &[]),
        (
            "norms of another size",
            grams(&[]),
            |h| tensor(h, "blk.0.hc_attn_norm.weight").shape = vec![32, 7],
            misshapen,
        ),
        ("no position is chosen", grams(&[("attention.indexer.top_k", n(0))]), |_| {}, rejected),
        ("n-grams in two blocks", grams(&[("ple.layers", ints(&[1, 3]))]), |_| {}, rejected),
        ("n-grams in a block with attention", grams(&[("ple.layers", ints(&[2]))]), |_| {}, rejected),
        ("n-grams of one token", grams(&[("ple.ngram_size", n(1))]), |_| {}, rejected),
        ("many heads", grams(&[("ple.heads_per_ngram", n(33))]), |_| {}, rejected),
        ("n-grams of no convolution", grams(&[("ple.conv_kernel", n(0))]), |_| {}, rejected),
        ("n-grams of no width", grams(&[("embedding_length_per_layer_input", n(0))]), |_| {}, rejected),
        ("few multipliers", grams(&[("ple.layer_multipliers", array([1u64, 2]))]), |_| {}, rejected),
        ("few offsets", grams(&[("ple.head_offsets", array([0u64, 5, 10]))]), |_| {}, rejected),
        ("few sizes", grams(&[("ple.head_vocab_sizes", array([5u64, 5, 5]))]), |_| {}, rejected),
        ("a head without rows", grams(&[("ple.head_vocab_sizes", array([5u64, 0, 5, 5]))]), |_| {}, rejected),
        ("more rows than there are", grams(&[("ple.head_vocab_sizes", array([5u64, 5, 5, 6]))]), |_| {}, rejected),
        (
            "n-grams without a width",
            grams(&[]),
            |h| assert!(h.remove("qwen4exp.embedding_length_per_layer_input")),
            missing_key,
        ),
        ("n-grams without an end", grams(&[]), |h| assert!(h.remove("qwen4exp.ple.eos_token_id")), missing_key),
        (
            "no width and no n-grams",
            linear("qwen4exp", &[]),
            |h| assert!(!h.remove("qwen4exp.embedding_length_per_layer_input")),
            &[],
        ),
        ("a shared expert", mixture_of("exaone-moe"), |_| {}, &[]),
        (
            "without the number of them",
            mixture_of("exaone-moe"),
            |h| assert!(h.remove("exaone-moe.expert_shared_count")),
            &[],
        ),
        (
            "without the shared expert",
            mixture_of("exaone-moe"),
            |h| drop_tensor(h, "blk.1.ffn_up_shexp.weight"),
            missing,
        ),
        ("as wide as others", mixture_of("hy_v3"), |h| add(h, "blk.0.ffn_gate_shexp.weight", &[32, 8]), &[]),
        ("as wide as no other", mixture_of("hy_v3"), |h| add(h, "blk.0.ffn_gate_shexp.weight", &[32, 7]), misshapen),
        ("a bias of queries", mixture_of("mimo2"), |h| add(h, "blk.0.attn_q.bias", &[32]), &[]),
        ("without queries", mixture_of("mimo2"), |h| drop_tensor(h, "blk.0.attn_q.weight"), missing),
        ("a last norm", mixture_of("mimo2"), |h| add(h, "blk.0.layer_output_norm.weight", &[32]), unexpected),
        ("a bias of the output", mixture_of("arctic"), |h| add(h, "blk.0.attn_output.bias", &[32]), unexpected),
        ("without embeddings", of_table("qwen3", &[]), |h| drop_tensor(h, "token_embd.weight"), missing),
        (
            "rotary factors of whole heads",
            of_table("phimoe", &[("expert_count", n(2)), ("expert_used_count", n(1)), ("rope.dimension_count", n(2))]),
            |h| add(h, "rope_factors_long.weight", &[4]),
            &[],
        ),
        ("no factors of blocks without a window", gemma(), |h| drop_tensor(h, "rope_freqs.weight"), missing),
        ("blocks share keys", sharing(1), |h| drop_tensor(h, "blk.5.attn_k.weight"), &[]),
        ("more blocks than there are", sharing(7), |h| drop_tensor(h, "blk.5.attn_k.weight"), missing),
        ("sparse latent attention", sparse(), |_| {}, &[]),
        ("without lengths of heads", sparse(), |h| assert!(h.remove("glm-dsa.attention.key_length_mla")), missing_key),
        ("heads of no length", sparse(), |h| h.set("glm-dsa.attention.key_length_mla", 0u32), rejected),
        ("an assistant", assistant(48), |_| {}, &[]),
        ("of a target as wide", assistant(32), |_| {}, rejected),
        ("with other values", assistant(48), |h| h.set("gemma4-assistant.attention.value_length_swa", 5u32), rejected),
        ("blocks with windows", windowed(4), |_| {}, &[]),
        ("as long keys in them", windowed(4), |h| h.set("gemma3.attention.key_length_swa", 8u32), &[]),
        ("longer keys in them", windowed(4), |h| h.set("gemma3.attention.key_length_swa", 16u32), rejected),
        ("longer values in them", windowed(4), |h| h.set("gemma3.attention.value_length_swa", 16u32), rejected),
        ("no blocks with windows", windowed(0), |h| h.set("gemma3.attention.key_length_swa", 16u32), &[]),
        ("loops", of_table("nanbeige", &[("num_loops", n(2))]), |_| {}, &[]),
        ("no loops", of_table("nanbeige", &[("num_loops", n(0))]), |_| {}, rejected),
        ("many loops", of_table("nanbeige", &[("num_loops", n(86))]), |_| {}, rejected),
        ("an activation", flash(), |h| h.set("dflash.hidden_activation", "gelu"), &[]),
        ("another activation", flash(), |h| h.set("dflash.hidden_activation", "relu"), rejected),
        ("an audio decoder", waves(), |_| {}, &[]),
        ("tokens without a tokenizer", waves(), |h| h.set("tokenizer.ggml.tokens", strings(&["a", "a"])), &[]),
        ("no heads outside PosNet", waves(), |h| h.set("wavtokenizer-dec.attention.head_count", 0u32), &[]),
        ("five blocks of PosNet", waves(), |h| h.set("wavtokenizer-dec.posnet.block_count", 5u32), rejected),
        ("fewer blocks than PosNet has", waves(), |h| h.set("wavtokenizer-dec.block_count", 5u32), rejected),
        ("PLaMo 2 with lengths", of_table("plamo2", &[]), |h| h.set("plamo2.attention.key_length", 8u32), &[]),
        (
            "PLaMo 2 with lengths of another type",
            of_table("plamo2", &[("attention.head_count", ints(&[0, 4, 0, 4, 0, 4])), ("attention.key_length", n(8))]),
            |h| h.set("plamo2.attention.key_length", 8u16),
            &["key.type"],
        ),
        ("replacements", unigrams(&[2, 0, 0, 0, 1, 1, 0]), |_| {}, &[]),
        ("no room for the trie", unigrams(&[3, 0, 0, 0, 1, 1, 0]), |_| {}, rejected),
        ("no room for its length", unigrams(&[0, 0, 0]), |_| {}, rejected),
        ("blocks with and without experts", jamba(), |_| {}, &[]),
        (
            "a matrix of experts without a router",
            jamba(),
            |h| add(h, "blk.0.ffn_up_exps.weight", &[32, 96, 2]),
            unexpected,
        ),
        ("a router without experts", jamba(), |h| drop_tensor(h, "blk.1.ffn_up_exps.weight"), missing),
        ("neither experts nor matrices", jamba(), |h| drop_tensor(h, "blk.0.ffn_up.weight"), missing),
        ("a matrix beside a router", jamba(), |h| add(h, "blk.1.ffn_up.weight", &[32, 96]), unexpected),
        ("many decoder blocks", t5(), |h| h.set("t5.decoder_block_count", 513u32), rejected),
        ("encoder and decoder", t5(), |_| {}, &[]),
        (
            "blocks that predict further tokens",
            t5(),
            |h| h.set("t5.nextn_predict_layers", 1u32),
            &["tensor.block.extra"],
        ),
        ("blocks of one kind", kinds(), |_| {}, &[]),
        ("no values", kinds(), |h| drop_tensor(h, "blk.1.attn_v.weight"), missing),
        ("no state space", kinds(), |h| drop_tensor(h, "blk.0.ssm_a"), missing),
        ("a feed-forward part beside heads", kinds(), |h| add(h, "blk.1.ffn_up.weight", &[32, 96]), unexpected),
        ("without a convolution", flash(), |h| drop_tensor(h, "blk.1.ffn_conv_base"), missing),
        (
            "a convolution of another size",
            flash(),
            |h| tensor(h, "blk.1.attn_conv_base").shape = vec![32, 4, 2],
            &["tensor.shape"],
        ),
    ];
    let mut wrong = vec![];
    for (name, head, change, expected) in cases {
        let mut head = head.clone();
        change(&mut head);
        let report = judge(&[head], None);
        let errors = report.findings().filter(|f| f.severity == Severity::Error);
        let found: Vec<String> = errors.map(|f| f.to_string()).collect();
        let mut codes: Vec<&str> =
            report.findings().filter(|f| f.severity == Severity::Error).map(|f| f.code).collect();
        codes.dedup();
        if codes != *expected {
            wrong.push(format!("{name}: {expected:?} is due\n  {}", found.join("\n  ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
