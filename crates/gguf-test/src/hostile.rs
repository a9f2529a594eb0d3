//! Files that need far more memory or time than their size suggests, if their claims are trusted. Large ones are sparse: they use a few
//! pages of the disk.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use gguf_format::{GgmlType, Head, TensorInfo, Value};

/// A file of the given length that starts with these bytes; zeros follow.
fn sparse(path: &Path, start: &[u8], len: u64) {
    let mut file = File::create(path).unwrap();
    file.write_all(start).unwrap();
    file.set_len(len).unwrap();
}

fn tensor(name: &str, shape: &[u64], ty: u32, offset: u64) -> TensorInfo {
    TensorInfo { offset, ..TensorInfo::new(name, shape, GgmlType(ty)) }
}

/// The head, padded to 32 bytes, followed by a number of bytes of data.
fn model(path: &Path, head: &Head, data_bytes: u64) {
    let mut bytes = head.encode_as_read().unwrap();
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    let len = bytes.len() as u64 + data_bytes;
    sparse(path, &bytes, len);
}

fn llama() -> Head {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head
}

/// The start of a head: the magic, version 3, and the counts.
fn counts(n_tensors: u64, n_kv: u64) -> Vec<u8> {
    [&b"GGUF"[..], &3u32.to_le_bytes(), &n_tensors.to_le_bytes(), &n_kv.to_le_bytes()].concat()
}

fn string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text].concat()
}

/// Writes GGUF files and importance matrices into the directory; returns their names.
pub fn write(dir: &Path) -> Vec<&'static str> {
    let mut names = Vec::new();
    let mut path = |name: &'static str| {
        names.push(name);
        dir.join(name)
    };

    // Padding of two billion times the content.
    let mut head = llama();
    head.set("general.file_type", 1u32);
    head.set("general.alignment", 1u32 << 31);
    model(&path("alignment-2g.gguf"), &head, 0);

    // Importance matrices that claim sums, or counts of experts, of 256 GiB.
    let n = 1 << 36;
    let mut head = Head::default();
    head.set("general.type", "imatrix");
    head.set("imatrix.datasets", Value::Array(["x"].into_iter().map(str::to_owned).collect()));
    head.set("imatrix.chunk_count", 1u32);
    head.set("imatrix.chunk_size", 512u32);
    head.tensors = vec![tensor("b.in_sum2", &[n, 1], 0, 0), tensor("b.counts", &[1, 1], 0, n * 4)];
    model(&path("imatrix-sums.gguf"), &head, n * 4 + 32);
    head.tensors = vec![tensor("b.in_sum2", &[1, n], 0, 0), tensor("b.counts", &[1, n], 0, n * 4)];
    model(&path("imatrix-counts.gguf"), &head, n * 8);
    // Just below the limits of a single entry.
    let n = 1 << 28;
    head.tensors = vec![tensor("b.in_sum2", &[n, 1], 0, 0), tensor("b.counts", &[1, 1], 0, n * 4)];
    model(&path("imatrix-large.gguf"), &head, n * 4 + 32);
    // An old one that claims the largest possible number of values.
    let old = [&[1, 0, 0, 0, 1, 0, 0, 0][..], b"b", &1i32.to_le_bytes(), &i32::MAX.to_le_bytes()].concat();
    sparse(&path("imatrix-values.dat"), &old, 1 << 34);
    let old = [&[1, 0, 0, 0][..], &i32::MAX.to_le_bytes(), b"b"].concat();
    sparse(&path("imatrix-name.dat"), &old, 1 << 34);
    let texts =
        [&string(b"imatrix.datasets")[..], &9u32.to_le_bytes(), &8u32.to_le_bytes(), &(1u64 << 24).to_le_bytes()];
    sparse(&path("imatrix-texts.gguf"), &[counts(0, 1), texts.concat()].concat(), (8 << 24) + 4096);

    // Rows of a hundred million weights.
    let mut head = llama();
    let m = 1 << 27;
    head.tensors = vec![tensor("blk.0.attn_q.weight", &[m, 2], 34, 0)];
    model(&path("long-rows.gguf"), &head, m / 256 * 54 * 2);
    // Tensors with the same data.
    head.tensors = (0..5000).map(|i| tensor(&format!("blk.{i}.attn_q.weight"), &[256, 512], 0, 0)).collect();
    model(&path("shared-data.gguf"), &head, 256 * 512 * 4);

    // Dimensions whose product is zero, or nearly 2^63.
    let tensors = vec![tensor("t", &[1 << 62, 1 << 62, 1 << 62, 0], 0, 0)];
    let mut head = Head { tensors, ..Head::default() };
    model(&path("empty-dims.gguf"), &head, 0);
    head.tensors = vec![tensor("t", &[1 << 31, (1 << 32) - 1], 1, 0)];
    model(&path("near-max-dims.gguf"), &head, 0);

    // Zeros are valid as unnamed tensors, key-value pairs with empty keys, and empty strings.
    for (name, n_tensors, n_kv, each) in
        [("tensors-8m.gguf", 1 << 23, 0, 24), ("keys-16m.gguf", 0, 1 << 24, 13), ("tensors-20k.gguf", 20_000, 0, 24)]
    {
        sparse(&path(name), &counts(n_tensors, n_kv), 24 + (n_tensors + n_kv) * each + 4096);
    }
    let tokens = |n: u64| {
        [&string(b"tokenizer.ggml.tokens")[..], &9u32.to_le_bytes(), &8u32.to_le_bytes(), &n.to_le_bytes()].concat()
    };
    let n = 1 << 20;
    sparse(&path("empty-strings.gguf"), &[counts(0, 1), tokens(n)].concat(), 8 * n + 4096);

    // A name of a gigabyte, and one that fits in memory, but not several times.
    for (name, key, n) in [
        ("name-1g.gguf", "general.name", 1u64 << 30),
        ("name-64m.gguf", "general.name", 64 << 20),
        ("architecture-64m.gguf", "general.architecture", 64 << 20),
    ] {
        let value = [&string(key.as_bytes())[..], &8u32.to_le_bytes(), &n.to_le_bytes()].concat();
        sparse(&path(name), &[counts(0, 1), value].concat(), n + 4096);
    }

    // Three alternating types, so that a recipe needs many numbers, or many names.
    for (name, n, prefix, suffix) in
        [("names-3000.gguf", 3000, "n", "x.weight"), ("blocks-20k.gguf", 20_000, "blk.", ".attn_q.weight")]
    {
        let mut head = llama();
        let (types, mut end) = ([(12, 288), (8, 544), (2, 288)], 0);
        for i in 0..n {
            let (ty, bytes) = types[i % 3];
            head.tensors.push(tensor(&format!("{prefix}{i}{suffix}"), &[256, 2], ty, end));
            end += bytes;
        }
        model(&path(name), &head, end);
    }
    names
}

/// Writes checkpoint directories, each a small valid checkpoint with one hostile file; returns their names.
pub fn write_checkpoints(dir: &Path, sound: &Path) -> Vec<&'static str> {
    const MIB: usize = 1 << 20;
    let list = |n: usize| format!("[{}0]", "0,".repeat(n));
    let mut names = Vec::new();
    let mut checkpoint = |name: &'static str, file: &str, content: &[u8]| {
        let folder = dir.join(name);
        fs::create_dir(&folder).unwrap();
        for entry in fs::read_dir(sound).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
        }
        fs::write(folder.join(file), content).unwrap();
        names.push(name);
    };
    let card = |key: &str| {
        let lines: String = (0..90_000).map(|i| format!("- a/b{i}\n")).collect();
        format!("---\n{key}:\n{lines}---\n")
    };
    checkpoint("card-datasets", "README.md", card("datasets").as_bytes());
    checkpoint("card-base-model", "README.md", card("base_model").as_bytes());
    checkpoint("card-nested", "README.md", format!("---\n{}\n---\n", "[".repeat(MIB - 16)).as_bytes());
    checkpoint("card-long", "README.md", format!("---\na: {}", "b".repeat(40 * MIB)).as_bytes());
    checkpoint("card-name", "README.md", format!("---\nmodel_name: {}7b\n---\n", "7b-".repeat(300_000)).as_bytes());
    for (name, file) in [
        ("config-list", "config.json"),
        ("generation-config-list", "generation_config.json"),
        ("tokenizer-config-list", "tokenizer_config.json"),
        ("tokenizer-list", "tokenizer.json"),
        ("added-tokens-list", "added_tokens.json"),
        ("special-tokens-list", "special_tokens_map.json"),
        ("index-list", "model.safetensors.index.json"),
    ] {
        checkpoint(name, file, format!("{{\"a\":{}}}", list(14 * MIB)).as_bytes());
    }
    let pairs = |value: &str| (0..2 * MIB).map(|i| format!("\"{i:x}\":{value},")).collect::<String>();
    checkpoint(
        "vocabulary",
        "tokenizer.json",
        format!("{{\"model\":{{\"vocab\":{{{}\"a\":0}}}}}}", pairs("1")).as_bytes(),
    );
    let merges = "\"a b\",".repeat(4 * MIB);
    checkpoint("merges", "tokenizer.json", format!("{{\"model\":{{\"merges\":[{merges}\"a b\"]}}}}").as_bytes());
    let tokens = "{\"content\":\"\"},".repeat(2 * MIB);
    checkpoint("added", "tokenizer.json", format!("{{\"added_tokens\":[{tokens}null]}}").as_bytes());
    let index = format!("{{\"weight_map\":{{{}\"a\":\"model.safetensors\"}}}}", pairs("\"\""));
    checkpoint("index", "model.safetensors.index.json", index.as_bytes());
    checkpoint("pieces", "tokenizer.model", &[0x0a, 0].repeat(20 * MIB));
    let head = |json: String| [&(json.len() as u64).to_le_bytes()[..], json.as_bytes()].concat();
    let dims = format!(
        "{{\"a\":{{\"dtype\":\"F32\",\"shape\":{},\"data_offsets\":[0,4]}}}}",
        list(14 * MIB).replace('0', "1")
    );
    checkpoint("dimensions", "model.safetensors", &head(dims));
    let tensors: String =
        (0..MIB).map(|i| format!("\"{i:x}\":{{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,0]}},")).collect();
    checkpoint("tensors", "model.safetensors", &head(format!("{{{tensors}\"__metadata__\":{{}}}}")));
    names
}
