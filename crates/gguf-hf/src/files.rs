//! Reads the files of a checkpoint folder, which are untrusted: they must have a bounded size, and, if they are text, be valid UTF-8.
//!
//! A conversion reads all files of a checkpoint through a [`Folder`], including the weights.

use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use gguf_format::sort::CompactSort as _;
use gguf_io::ReadAt;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::folder::Folder;
use crate::folder_error::FolderError;
use crate::json;

/// The maximum size in bytes of a small file. The largest tokenizers in use take about 35 MB.
const LIMIT: u64 = 100_000_000;

/// The maximum size in bytes, and the maximum number of values, of a JSON document without a fixed schema. The largest in use list about
/// ten thousand tokens with seven values each.
const JSON_LIMIT: u64 = 32 << 20;
const JSON_VALUES: usize = 500_000;

/// The maximum size in bytes, and the maximum number of values, of a configuration, of which a conversion makes several copies. The largest
/// in use name some twenty thousand classes and their numbers.
const CONFIG_LIMIT: u64 = 4 << 20;
const CONFIG_VALUES: usize = 65_536;

/// The index that maps tensors to parts.
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// The index of PyTorch files.
pub(crate) const TORCH_INDEX: &str = "pytorch_model.bin.index.json";

/// The folder of named chat templates.
pub(crate) const TEMPLATES: &str = "additional_chat_templates";

/// The small files of a checkpoint folder that a conversion reads, except for [`TEMPLATES`].
const SMALL_FILES: [&str; 26] = [
    "preprocessor_config.json",
    "processor_config.json",
    "config.json",
    "adapter_config.json",
    "generation_config.json",
    "README.md",
    INDEX,
    TORCH_INDEX,
    "params.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "tekken.json",
    "qwen.tiktoken",
    "hy.tiktoken",
    "tiktoken.model",
    "rwkv_vocab_v20230424.txt",
    "tokenizer.jsonl",
    "vocab.txt",
];

/// The real paths of the small files of a folder that a conversion may read.
pub(crate) fn small_files(dir: &dyn Folder) -> Vec<PathBuf> {
    let names = SMALL_FILES.iter().map(|name| (*name).to_owned()).chain(named_templates(dir));
    names.filter_map(|name| dir.open(&name).ok()??.real).collect()
}

/// The names of the templates in [`TEMPLATES`], with that folder before them, in order.
pub(crate) fn named_templates(dir: &dyn Folder) -> Vec<String> {
    let mut names = dir.names(TEMPLATES).unwrap_or_default();
    names.retain(|name| Path::new(name).extension().is_some_and(|e| e == "jinja"));
    names.compact_sort_by(Ord::cmp);
    names.into_iter().map(|name| format!("{TEMPLATES}/{name}")).collect()
}

/// The bytes of a file of the folder; `None` if it does not exist.
pub(crate) fn read_bytes(dir: &dyn Folder, name: &str) -> Result<Option<Vec<u8>>, FolderError> {
    read_at_most(LIMIT, dir, name)
}

/// The bytes of a file of the folder, up to a limit; `None` if it does not exist.
pub(crate) fn read_at_most(limit: u64, dir: &dyn Folder, name: &str) -> Result<Option<Vec<u8>>, FolderError> {
    let Some(opened) = dir.open(name)? else { return Ok(None) };
    read_up_to(limit, &*opened.source, dir.path().join(name)).map(Some)
}

/// The first bytes of a file of the folder, at most `most`; `None` if it does not exist.
pub(crate) fn read_start(most: u64, dir: &dyn Folder, name: &str) -> Result<Option<Vec<u8>>, FolderError> {
    let Some(opened) = dir.open(name)? else { return Ok(None) };
    let read = opened.source.size().and_then(|size| bytes_of(&*opened.source, size.min(most)));
    read.map(Some).map_err(|source| FolderError::Read { file: dir.path().join(name), source })
}

/// Whether the folder contains a file.
pub(crate) fn has(dir: &dyn Folder, name: &str) -> Result<bool, FolderError> {
    Ok(dir.open(name)?.is_some())
}

/// Whether a name denotes a file directly inside a folder on every system: no separators, drives or streams.
pub(crate) fn is_plain_file_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let plain = matches!((components.next(), components.next()), (Some(Component::Normal(_)), None));
    plain && !name.contains(['/', '\\', ':']) && !name.contains(char::is_control)
}

/// The bytes of an open file; errors name it `file`.
fn read_up_to(limit: u64, opened: &dyn ReadAt, file: PathBuf) -> Result<Vec<u8>, FolderError> {
    let read = opened.size().and_then(|size| if size > limit { Ok(None) } else { bytes_of(opened, size).map(Some) });
    match read {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(FolderError::TooLarge { file, limit }),
        Err(source) => Err(FolderError::Read { file, source }),
    }
}

/// The first bytes of an open file.
fn bytes_of(opened: &dyn ReadAt, n_bytes: u64) -> io::Result<Vec<u8>> {
    let len = usize::try_from(n_bytes).map_err(|_| ErrorKind::OutOfMemory)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| ErrorKind::OutOfMemory)?;
    bytes.resize(len, 0);
    opened.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}

/// The JSON value of a file of the folder; `None` if it does not exist. The parser limits nesting.
pub(crate) fn read_json(dir: &dyn Folder, name: &str) -> Result<Option<Json>, FolderError> {
    let (most_bytes, most_values) =
        if name == "config.json" { (CONFIG_LIMIT, CONFIG_VALUES) } else { (JSON_LIMIT, JSON_VALUES) };
    let Some(bytes) = read_at_most(most_bytes, dir, name)? else { return Ok(None) };
    parse_json(&bytes, dir.path().join(name), |bytes| json::parse(bytes, most_values)).map(Some)
}

/// The requested part of a JSON file of the folder; other content is skipped. `None` if the file does not exist.
pub(crate) fn read_json_as<T: DeserializeOwned>(dir: &dyn Folder, name: &str) -> Result<Option<T>, FolderError> {
    let Some(bytes) = read_at_most(JSON_LIMIT, dir, name)? else { return Ok(None) };
    parse_json(&bytes, dir.path().join(name), |bytes| serde_json::from_slice(bytes)).map(Some)
}

/// The JSON value of a file that the user names, in any location; `None` if it does not exist.
pub(crate) fn read_json_anywhere(file: &Path) -> Result<Option<Json>, FolderError> {
    let parse = |bytes: &[u8]| json::parse(bytes, JSON_VALUES);
    match gguf_io::open_regular(file) {
        Ok(opened) => parse_json(&read_up_to(JSON_LIMIT, &opened, file.to_owned())?, file.to_owned(), parse).map(Some),
        Err(gguf_io::Error::Io { source, .. }) => match source.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(None),
            _ => Err(FolderError::Read { file: file.to_owned(), source }),
        },
        Err(_) => Err(FolderError::NotAFile { file: file.to_owned() }),
    }
}

fn parse_json<T>(
    bytes: &[u8],
    file: PathBuf,
    parse: impl Fn(&[u8]) -> serde_json::Result<T>,
) -> Result<T, FolderError> {
    let parsed = parse(bytes).or_else(|error| match without_special_floats(bytes) {
        Some(json) => parse(&json),
        None => Err(error),
    });
    parsed.map_err(|source| FolderError::Json { file, source })
}

/// Replaces the non-standard numbers that Python writes (`NaN`, `Infinity` and `-Infinity`) by null; the configurations of Mamba models
/// contain them, for example. Returns `None` if there are none.
fn without_special_floats(json: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(json.len());
    let (mut rest, mut in_string, mut found) = (json, false, false);
    while let [first, tail @ ..] = rest {
        let special = [&b"NaN"[..], b"Infinity", b"-Infinity"].into_iter().find(|s| !in_string && rest.starts_with(s));
        if let Some(after) = special.and_then(|s| rest.strip_prefix(s)) {
            out.extend(b"null");
            (rest, found) = (after, true);
            continue;
        }
        out.push(*first);
        rest = tail;
        match (first, in_string, tail) {
            // An escaped character does not end the string.
            (b'\\', true, [escaped, after @ ..]) => {
                out.push(*escaped);
                rest = after;
            }
            (b'"', ..) => in_string = !in_string,
            _ => {}
        }
    }
    found.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_stay_in_the_folder() {
        for name in ["model.safetensors", "model-00001-of-00002.safetensors", "..model", "a b"] {
            assert!(is_plain_file_name(name), "{name}");
        }
        let bad = [
            "",
            ".",
            "..",
            "/etc/passwd",
            "../x",
            "a/b",
            "a/",
            "./a",
            "a\\b",
            "..\\x",
            "C:x",
            "C:\\x",
            "\\\\host\\x",
            "a:b",
            "a\0b",
            "a\nb",
        ];
        for name in bad {
            assert!(!is_plain_file_name(name), "{name:?}");
        }
    }

    #[test]
    fn pythons_numbers_become_null() {
        let json = br#"{"a": NaN, "b": [0.0, Infinity, -Infinity], "NaN \" NaN \\": "Infinity"}"#;
        let fixed = br#"{"a": null, "b": [0.0, null, null], "NaN \" NaN \\": "Infinity"}"#;
        assert_eq!(without_special_floats(json).as_deref(), Some(&fixed[..]));
        assert_eq!(without_special_floats(br#"{"a": "NaN", "b": nan}"#), None);
        assert_eq!(without_special_floats(b"\"\\"), None);
    }
}
