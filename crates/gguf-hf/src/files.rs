//! Reads the files of a checkpoint folder, which are untrusted: they must be regular files of this folder, have a bounded size, and, if
//! they are text, be valid UTF-8.
//!
//! A conversion reads all files through [`open`], including the weights: a checkpoint must not expose other files of the machine through
//! links that leave its folder, or block the program with pipes.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::folder_error::FolderError;
use crate::json;

/// The maximum size in bytes of a small file. The largest tokenizers in use take about 35 MB.
const LIMIT: u64 = 100_000_000;

/// The maximum size in bytes, and the maximum number of values, of a JSON document without a fixed schema. The largest in use list about
/// ten thousand tokens with seven values each.
const JSON_LIMIT: u64 = 32 << 20;
const JSON_VALUES: usize = 500_000;

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

/// Opens the file `name` in the folder `dir` and returns it with its real path; `None` if it does not exist.
///
/// A name may be a symbolic link, as in the Hugging Face cache, but only to a file of the same folder or of that cache's blob store for
/// this model. The target is resolved after the file is opened, and the open file is compared with the target, so that no other file can be
/// substituted in between.
///
/// # Errors
/// If the name resolves to a path outside these folders, if it is not a regular file, or if a system call fails.
pub(crate) fn open(dir: &Path, name: impl AsRef<Path>) -> Result<Option<(File, PathBuf)>, FolderError> {
    let file = dir.join(name);
    let failed = |source| FolderError::Read { file: file.clone(), source };
    let opened = match gguf_io::open_regular(&file) {
        Ok(opened) => opened,
        Err(gguf_io::Error::Io { source, .. }) => match source.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => return Ok(None),
            _ => return Err(failed(source)),
        },
        // The link target is reported only for files that may be read.
        Err(_) => return real_path(dir, &file).and_then(|_| Err(FolderError::NotAFile { file })),
    };
    let Some(real) = real_path(dir, &file)? else { return Ok(None) };
    match is_same(&opened, &real).map_err(failed)? {
        true => Ok(Some((opened, real))),
        false => Err(FolderError::Replaced { file }),
    }
}

/// The resolved path of a file in the folder `dir`; `None` if it no longer exists.
fn real_path(dir: &Path, file: &Path) -> Result<Option<PathBuf>, FolderError> {
    let real = match file.canonicalize() {
        Ok(real) => real,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(source) => return Err(FolderError::Read { file: file.to_owned(), source }),
    };
    let folder = dir.canonicalize().map_err(|source| FolderError::Read { file: dir.to_owned(), source })?;
    let store = hub_store(&folder);
    match real.starts_with(&folder) || store.is_some_and(|store| real.starts_with(store)) {
        true => Ok(Some(real)),
        false => Err(FolderError::LeadsOut { file: file.to_owned(), target: real }),
    }
}

/// Whether an open file is the one that a path currently refers to, without following a link at its end.
#[cfg(unix)]
fn is_same(opened: &File, path: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let (a, b) = (opened.metadata()?, std::fs::symlink_metadata(path)?);
    Ok((a.dev(), a.ino()) == (b.dev(), b.ino()))
}

/// Whether an open file is still the file at a path, as far as the system can determine.
#[cfg(not(unix))]
fn is_same(_: &File, path: &Path) -> std::io::Result<bool> {
    Ok(std::fs::symlink_metadata(path)?.is_file())
}

/// The folder `blobs` beside `snapshots`, for a folder `snapshots/REVISION`.
fn hub_store(folder: &Path) -> Option<PathBuf> {
    let snapshots = folder.parent()?;
    (snapshots.file_name()? == "snapshots").then_some(())?;
    Some(snapshots.parent()?.join("blobs"))
}

/// The real paths of the small files of a folder that a conversion may read.
pub(crate) fn small_files(dir: &Path) -> Vec<PathBuf> {
    let names = SMALL_FILES.iter().map(PathBuf::from).chain(named_templates(dir));
    names.filter_map(|name| Some(open(dir, name).ok()??.1)).collect()
}

/// The names of the templates in [`TEMPLATES`], with that folder before them, in order.
pub(crate) fn named_templates(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir.join(TEMPLATES)).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|e| Path::new(TEMPLATES).join(e.file_name())).collect();
    names.retain(|name| name.extension().is_some_and(|e| e == "jinja"));
    names.sort();
    names
}

/// The bytes of a file of the folder; `None` if it does not exist.
pub(crate) fn read_bytes(dir: &Path, name: impl AsRef<Path>) -> Result<Option<Vec<u8>>, FolderError> {
    read_at_most(LIMIT, dir, name)
}

/// The bytes of a file of the folder, up to a limit; `None` if it does not exist.
pub(crate) fn read_at_most(limit: u64, dir: &Path, name: impl AsRef<Path>) -> Result<Option<Vec<u8>>, FolderError> {
    let name = name.as_ref();
    let Some((opened, _)) = open(dir, name)? else { return Ok(None) };
    read_up_to(limit, opened, dir.join(name)).map(Some)
}

/// The first bytes of a file of the folder, at most `most`; `None` if it does not exist.
pub(crate) fn read_start(most: u64, dir: &Path, name: &str) -> Result<Option<Vec<u8>>, FolderError> {
    let Some((opened, _)) = open(dir, name)? else { return Ok(None) };
    let mut bytes = Vec::new();
    match opened.take(most).read_to_end(&mut bytes) {
        Ok(_) => Ok(Some(bytes)),
        Err(source) => Err(FolderError::Read { file: dir.join(name), source }),
    }
}

/// Whether the folder contains a file.
pub(crate) fn has(dir: &Path, name: &str) -> Result<bool, FolderError> {
    Ok(open(dir, name)?.is_some())
}

/// The bytes of an open file; errors name it `file`.
pub(crate) fn read_up_to(limit: u64, opened: File, file: PathBuf) -> Result<Vec<u8>, FolderError> {
    let too_large = || FolderError::TooLarge { file: file.clone(), limit };
    // A file whose reported size exceeds the limit is rejected without being read.
    if opened.metadata().is_ok_and(|data| data.len() > limit) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    match opened.take(limit.saturating_add(1)).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() as u64 <= limit => Ok(bytes),
        Ok(_) => Err(too_large()),
        Err(source) => Err(FolderError::Read { file, source }),
    }
}

/// The text of a file of the folder, with every line ending converted to `\n` as in Python's text mode; `None` if it does not exist.
pub(crate) fn read_lines(dir: &Path, name: impl AsRef<Path>) -> Result<Option<String>, FolderError> {
    let name = name.as_ref();
    let Some(bytes) = read_bytes(dir, name)? else { return Ok(None) };
    match String::from_utf8(bytes) {
        Ok(text) if text.contains('\r') => Ok(Some(text.replace("\r\n", "\n").replace('\r', "\n"))),
        Ok(text) => Ok(Some(text)),
        Err(e) => Err(FolderError::NotUtf8 { file: dir.join(name), at: e.utf8_error().valid_up_to() }),
    }
}

/// The JSON value of a file of the folder; `None` if it does not exist. The parser limits nesting.
pub(crate) fn read_json(dir: &Path, name: &str) -> Result<Option<Json>, FolderError> {
    let Some(bytes) = read_at_most(JSON_LIMIT, dir, name)? else { return Ok(None) };
    parse_json(&bytes, dir.join(name), |bytes| json::parse(bytes, JSON_VALUES)).map(Some)
}

/// The requested part of a JSON file of the folder; other content is skipped. `None` if the file does not exist.
pub(crate) fn read_json_as<T: DeserializeOwned>(dir: &Path, name: &str) -> Result<Option<T>, FolderError> {
    let Some(bytes) = read_at_most(JSON_LIMIT, dir, name)? else { return Ok(None) };
    parse_json(&bytes, dir.join(name), |bytes| serde_json::from_slice(bytes)).map(Some)
}

/// The JSON value of a file that the user names, in any location; `None` if it does not exist.
pub(crate) fn read_json_anywhere(file: &Path) -> Result<Option<Json>, FolderError> {
    let parse = |bytes: &[u8]| json::parse(bytes, JSON_VALUES);
    match gguf_io::open_regular(file) {
        Ok(opened) => parse_json(&read_up_to(JSON_LIMIT, opened, file.to_owned())?, file.to_owned(), parse).map(Some),
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
    fn pythons_numbers_become_null() {
        let json = br#"{"a": NaN, "b": [0.0, Infinity, -Infinity], "NaN \" NaN \\": "Infinity"}"#;
        let fixed = br#"{"a": null, "b": [0.0, null, null], "NaN \" NaN \\": "Infinity"}"#;
        assert_eq!(without_special_floats(json).as_deref(), Some(&fixed[..]));
        assert_eq!(without_special_floats(br#"{"a": "NaN", "b": nan}"#), None);
        assert_eq!(without_special_floats(b"\"\\"), None);
    }

    #[test]
    fn the_store_of_the_hub() {
        let store = hub_store(Path::new("/c/models--o--m/snapshots/abc"));
        assert_eq!(store.as_deref(), Some(Path::new("/c/models--o--m/blobs")));
        assert_eq!(hub_store(Path::new("/c/models--o--m/other/abc")), None);
    }
}
