//! What the tests share: the built program, and files made in code.
#![allow(dead_code, reason = "each test file uses a part")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gguf_format::{GgmlType, Head, TensorInfo, Value};
use gguf_io::Writer;

pub mod peers;

/// What a run of the program gave.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Run {
    /// Asserts the exit code, and shows everything when it is another.
    #[track_caller]
    pub fn exits(self, code: i32) -> Run {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// Asserts that each text is in standard output.
    #[track_caller]
    pub fn prints(self, texts: &[&str]) -> Run {
        for text in texts {
            assert!(self.out.contains(text), "no {text:?} in stdout:\n{}", self.out);
        }
        self
    }

    /// Asserts that each text is in standard error.
    #[track_caller]
    pub fn says(self, texts: &[&str]) -> Run {
        for text in texts {
            assert!(self.err.contains(text), "no {text:?} in stderr:\n{}", self.err);
        }
        self
    }

    /// Asserts that standard error is empty.
    #[track_caller]
    pub fn silently(self) -> Run {
        assert_eq!(self.err, "");
        self
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap()
    }
}

pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gguf"));
    command.stdin(Stdio::null()).env_remove("NO_COLOR");
    command
}

/// Runs the program to its end.
pub fn gguf<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Run {
    let output = program().args(args).output().unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The arguments of a line, split at spaces.
pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The checkpoint that comes with the project.
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

/// A head like that of a model, with no more than the tests look at.
pub fn head(tensors: &[(&str, &[u64], GgmlType)]) -> Head {
    let mut head = Head::default();
    let list = |n: usize| -> Value {
        Value::Array((0..n).map(|i| format!("token {i}").as_str().into()).collect::<ArrayOf>().0)
    };
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

/// Collects values into an array.
pub struct ArrayOf(pub gguf_format::Array);

impl FromIterator<Value> for ArrayOf {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> ArrayOf {
        ArrayOf(values.into_iter().collect())
    }
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

/// A sound small file.
pub fn small(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    let head = head(&[("token_embd.weight", &[32, 1000], GgmlType::F16), ("output_norm.weight", &[32], GgmlType::F32)]);
    write(&path, &head, &[]);
    path
}

/// Texts that would act on a terminal, in every place of a file that holds text.
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
