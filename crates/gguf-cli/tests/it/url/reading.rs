//! The comparison of URLs with paths, for servers of this crate and of other programs.

use std::fs;
use std::path::Path;

use gguf_test::files::folder;
use gguf_test::http::Files;
use gguf_test::program::{Run, program, words};

/// Runs the program with settings of its own.
pub fn gguf(args: &[String], hub: &str) -> Run {
    let mut command = program();
    for name in ["HF_TOKEN_PATH", "HF_HUB_OFFLINE", "HF_HUB_CACHE"] {
        command.env_remove(name);
    }
    command.env("HF_HOME", "/nonexistent").env("HF_ENDPOINT", hub).env("HF_TOKEN", "hf_secret");
    // The editor of `edit`, which changes nothing.
    command.env("VISUAL", "true");
    let output = command.args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let run = Run { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) };
    no_secret_in("the output", &[run.out.as_bytes(), run.err.as_bytes()].concat());
    run
}

/// Fails if a text has a secret of the tests. Each token, key, password and signature has this word.
pub fn no_secret_in(what: &str, bytes: &[u8]) {
    let is_found = bytes.windows(b"secret".len()).any(|part| part == b"secret");
    assert!(!is_found, "{what}: {}", String::from_utf8_lossy(bytes));
}

/// Files to serve: small models, whole, split and damaged, and what is none.
pub fn models() -> Files {
    let example = |name: &str| fs::read(Path::new("../ggufkit/examples").join(name)).unwrap();
    let mut files: Files = ["tiny.gguf", "tiny-00001-of-00002.gguf", "tiny-00002-of-00002.gguf"]
        .map(|name| (name.to_owned(), example(name)))
        .into();
    files.push(("lonely-00001-of-00002.gguf".to_owned(), example("tiny-00001-of-00002.gguf")));
    files.push(("cut.gguf".to_owned(), example("tiny.gguf")[..20_000].to_vec()));
    files.push(("cut-head.gguf".to_owned(), example("tiny.gguf")[..1_000].to_vec()));
    files.push(("text.gguf".to_owned(), b"This is not a model, but a text.".to_vec()));
    files.push(("empty.gguf".to_owned(), Vec::new()));
    for name in ["one.gguf", "one-two.dat"] {
        files.push((name.to_owned(), fs::read(Path::new("../gguf-quantize/tests/data/imatrix").join(name)).unwrap()));
    }
    files
}

/// The files below a folder, with their names in it.
pub fn files_below(folder: &Path) -> Files {
    let mut files = Files::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match path.is_dir() {
            true => {
                files.extend(files_below(&path).into_iter().map(|(below, bytes)| (format!("{name}/{below}"), bytes)));
            }
            false => files.push((name, fs::read(path).unwrap())),
        }
    }
    files.sort();
    files
}

/// Every command that reads models and prints what it finds, with the place of the file.
pub const READING: &[&str] = &[
    "show FILE",
    "show FILE --kv --tensors",
    "show FILE --json --full",
    "show FILE OTHER",
    "check FILE",
    "check FILE --json",
    "check FILE --data --quiet",
    "check FILE --structure",
    "check FILE --at 0x20",
    "get FILE general.architecture",
    "get FILE missing.key",
    "estimate FILE --ctx 128",
    "name FILE",
    "card FILE",
    "recipe show FILE",
    "hash FILE --all",
    "diff FILE OTHER",
    "cat FILE blk.0.attn_q.weight",
    "cat FILE blk.0.attn_q.weight --values --rows 0..2",
    "quantize FILE --list --json",
    "quantize FILE Q8_0 --dry-run --json",
    "imatrix show FILE",
    "imatrix check MATRIX FILE",
    "export FILE -o unwritten --dry-run",
    "split FILE unwritten --max-tensors 4 --dry-run",
    "verify FILE --against ../../examples/glossary",
];

/// Compares the output and the exit code of every command for files and for their URLs, which begin with `prefix`. `hub` is the address of
/// the Hub.
pub fn have_the_output_of_files(files: Files, prefix: &str, hub: &str) {
    let dir = folder();
    for (name, bytes) in &files {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    let local = |name: &str| dir.path().join(name).display().to_string();
    let url = |name: &str| format!("{prefix}/{name}");
    for (name, _) in &files {
        for line in READING {
            let of = |place: &dyn Fn(&str) -> String| -> Vec<String> {
                let word = |word: String| match word.as_str() {
                    "FILE" => place(name),
                    "OTHER" => place("tiny.gguf"),
                    "MATRIX" => place("one.gguf"),
                    _ => word,
                };
                words(line).into_iter().map(word).collect()
            };
            let (there, here) = (gguf(&of(&url), hub), gguf(&of(&local), ""));
            let as_local = |text: &str| {
                let text = text.replace(prefix, &dir.path().display().to_string());
                // The width of a column and a line below a title depend on the length of the path.
                text.split_whitespace().map(|word| word.trim_matches('-').to_owned()).collect::<Vec<_>>().join(" ")
            };
            assert_eq!(there.code, here.code, "{line} of {name}: {there:?}\n{here:?}");
            assert_eq!(as_local(&there.out), as_local(&here.out), "{line} of {name}");
            assert_eq!(as_local(&there.err), as_local(&here.err), "{line} of {name}");
        }
    }
}
