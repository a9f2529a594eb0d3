//! Files for tests: the project's example, and generated models.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_format::{GgmlType, Head, TensorInfo, Value};
use gguf_io::Writer;

pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The project's example checkpoint.
pub fn glossary() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/glossary")
}

/// The files of a folder, by name.
pub fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The head of a model, with the keys that the tests need.
pub fn head(tensors: &[(&str, &[u64], GgmlType)]) -> Head {
    let mut head = Head::default();
    let list = |n: usize| -> Value { Value::Array((0..n).map(|i| format!("token {i}")).collect()) };
    for (key, value) in [
        ("general.architecture", "llama".into()),
        ("general.name", "Small".into()),
        ("llama.context_length", 128u32.into()),
        ("llama.embedding_length", 32u32.into()),
        ("llama.big", u64::MAX.into()),
        ("llama.rope.freq_base", 1e-5f32.into()),
        ("tokenizer.ggml.model", "llama".into()),
        ("tokenizer.ggml.tokens", list(1000)),
    ] {
        head.set(key, value);
    }
    head.tensors = tensors.iter().map(|(name, shape, ty)| TensorInfo::new(*name, *shape, *ty)).collect();
    head
}

/// Writes a file whose tensors are all zero, except for the bytes given at the start of each.
pub fn write(path: &Path, head: &Head, starts: &[&[u8]]) {
    let data = head.tensors.iter().enumerate().map(|(i, t)| {
        let mut data = vec![0u8; t.n_bytes().unwrap() as usize];
        let start = starts.get(i).copied().unwrap_or_default();
        data[..start.len()].copy_from_slice(start);
        data
    });
    fs::write(path, Writer::write(Vec::new(), head, data).unwrap()).unwrap();
}

/// A small valid file.
pub fn small(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    let head = head(&[("token_embd.weight", &[32, 1000], GgmlType::F16), ("output_norm.weight", &[32], GgmlType::F32)]);
    write(&path, &head, &[]);
    path
}

/// Text with terminal control sequences, in every field of a file that contains text.
pub fn hostile(dir: &Path) -> PathBuf {
    let evil = "\x1b[31mred\x07\u{202e}\r\u{9b}2J\x1b]0;title\x07";
    let mut head = head(&[(&format!("blk\x1b[1m{}", "\u{9b}1m"), &[32], GgmlType::F32)]);
    for key in ["general.name", "general.architecture", "tokenizer.ggml.pre", "general.size_label", "general.license"] {
        head.set(key, evil);
    }
    head.set(&format!("llama.{evil}"), evil);
    head.set("general.tags", Value::Array([evil, "b"].into_iter().collect()));
    let path = dir.join("hostile.gguf");
    write(&path, &head, &[]);
    path
}
