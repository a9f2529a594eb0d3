//! Tests of the rules for models: for each rule, a model that breaks it and the exact findings expected.

use gguf_format::check::{KEPT, Place, Report, Severity};
use gguf_format::keys::{self, KeyType};
use gguf_format::{Array, GgmlType, Gguf, Head, TensorInfo, Value, ValueType};
use gguf_model::arch::{self, Need, Stack, Tensor};
use gguf_model::check::{self, RULES};
use gguf_model::{Hparams, PerBlock};

use models::*;

mod models;
mod tables;

const F32: GgmlType = GgmlType::F32;

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
