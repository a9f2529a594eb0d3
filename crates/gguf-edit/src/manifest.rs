//! Manifests of hashes in the format of `llama-gguf-hash`: each line has an algorithm, the hash, and the file or `file:tensor`.
//!
//! A name with the end of a line in it is written as by `sha256sum`: the line begins with a backslash, and `\n`, `\r` and `\\` stand for
//! line feeds, carriage returns and backslashes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use crate::error::Error;
use crate::hash::{Algorithm, Hashes};

/// A line of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The hash.
    pub hash: String,
    /// The file, optionally followed by a colon and the tensor.
    pub label: String,
    /// The line, from 1.
    pub line: u64,
}

/// The expected hashes of a model.
///
/// ```
/// use gguf_edit::Manifest;
/// use gguf_edit::hash::Algorithm;
///
/// let text = "xxh64     5a54d3aad816f302  m.gguf:output.weight\n";
/// let manifest = Manifest::parse(text, "m.gguf.manifest".as_ref())?;
/// assert_eq!(manifest.entries[0].label, "m.gguf:output.weight");
/// assert!(manifest.algorithms().contains(&Algorithm::Xxh64));
/// # Ok::<(), gguf_edit::Error>(())
/// ```
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    /// The lines with known algorithms, in order.
    pub entries: Vec<Entry>,
}

/// The result of comparing a hash with a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// Equal.
    Ok,
    /// Different.
    Mismatch,
    /// The manifest has no such hash for this item.
    NotListed,
    /// The model does not have the tensor.
    NotInModel,
}

/// A hash with the result of its comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compared {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The hash of the model; that of the manifest if the model does not have the tensor.
    pub hash: String,
    /// The tensor, or `None` for the model.
    pub tensor: Option<Vec<u8>>,
    /// The result.
    pub status: Status,
}

/// A line of a manifest, without its end. `label` is the file, optionally followed by a colon and the tensor.
///
/// ```
/// use gguf_edit::hash::Algorithm;
/// use gguf_edit::manifest::line;
///
/// assert_eq!(line(Algorithm::Xxh64, "5a54d3aad816f302", b"m.gguf"), b"xxh64     5a54d3aad816f302  m.gguf");
/// assert_eq!(line(Algorithm::Xxh64, "5a54d3aad816f302", b"a\nb"), b"\\xxh64     5a54d3aad816f302  a\\nb");
/// ```
pub fn line(algorithm: Algorithm, hash: &str, label: &[u8]) -> Vec<u8> {
    let text = format!("{algorithm:8}  {hash}  ");
    if !label.iter().any(|byte| ESCAPES.iter().any(|(raw, _)| raw == byte && *raw != b'\\')) {
        return [text.as_bytes(), label].concat();
    }
    let mut line = [b"\\", text.as_bytes()].concat();
    for byte in label {
        match ESCAPES.iter().find(|(raw, _)| raw == byte) {
            Some((_, letter)) => line.extend([b'\\', *letter]),
            None => line.push(*byte),
        }
    }
    line
}

/// The bytes that are escaped in a line with a backslash, and the letters for them.
const ESCAPES: [(u8, u8); 3] = [(b'\n', b'n'), (b'\r', b'r'), (b'\\', b'\\')];

/// The name that an escaped one stands for; `None` for an unknown escape.
fn unescaped(label: &str) -> Option<String> {
    let mut name = String::new();
    let mut rest = label.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            name.push(c);
            continue;
        }
        let letter = rest.next()?;
        let (raw, _) = ESCAPES.iter().find(|(_, known)| char::from(*known) == letter)?;
        name.push(char::from(*raw));
    }
    Some(name)
}

impl Manifest {
    /// Parses a manifest; `path` names it in messages. Other lines are skipped, including those that `llama-gguf-hash` and this library
    /// print during a check.
    ///
    /// # Errors
    /// [`Error::Manifest`] for a hash of the wrong length, or if there is no hash with a known algorithm.
    pub fn parse(text: &str, path: &Path) -> Result<Manifest, Error> {
        let mut entries = Vec::new();
        for (n, line) in text.lines().enumerate() {
            let line_number = n as u64 + 1;
            let line = line.trim_start();
            let (line, is_escaped) = line.strip_prefix('\\').map_or((line, false), |line| (line, true));
            let mut words = line.splitn(2, char::is_whitespace);
            let Some(algorithm) = words.next().and_then(Algorithm::from_name) else { continue };
            let rest = words.next().unwrap_or_default().trim_start();
            let (hash, label) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let is_hash = hash.len() == algorithm.text_len()
                && hash.bytes().all(|b| b.is_ascii_hexdigit() || (b == b'-' && algorithm == Algorithm::Uuid));
            let label = label.trim();
            if !is_hash || label.is_empty() {
                let problem = format!(
                    "expected a {algorithm} hash of {} characters and the name of a file, found {}",
                    algorithm.text_len(),
                    gguf_format::Str(rest.as_bytes()),
                );
                return Err(Error::Manifest { path: path.to_owned(), line: line_number, problem });
            }
            // The output of a check ends in its result.
            let label = [" -  Ok", " -  Mismatch", " -  Not Found"]
                .iter()
                .fold(label, |l, end| l.strip_suffix(end).unwrap_or(l));
            let label = label.trim_end();
            let label = if is_escaped { unescaped(label) } else { Some(label.to_owned()) };
            let Some(label) = label else {
                let problem = "after a backslash, expected n, r or another backslash".to_owned();
                return Err(Error::Manifest { path: path.to_owned(), line: line_number, problem });
            };
            let hash = hash.to_ascii_lowercase();
            entries.push(Entry { algorithm, hash, label, line: line_number });
        }
        if entries.is_empty() {
            let problem = "no line with a known hash, such as: sha256  c0510d38...  model.gguf".to_owned();
            return Err(Error::Manifest { path: path.to_owned(), line: 0, problem });
        }
        Ok(Manifest { entries })
    }

    /// The algorithms in the manifest.
    pub fn algorithms(&self) -> BTreeSet<Algorithm> {
        self.entries.iter().map(|entry| entry.algorithm).collect()
    }

    /// The entries for the file with that name: those with the same name, else those with the same last path component, else all entries if
    /// they belong to a single file.
    pub fn about<'a>(&'a self, file: &str, tensors: &HashSet<&[u8]>) -> Vec<(&'a Entry, Option<Vec<u8>>)> {
        let last = |name: &'a str| name.rsplit(['/', '\\']).next().unwrap_or(name);
        let split: Vec<(&Entry, &str, Option<&str>)> = self
            .entries
            .iter()
            .map(|entry| (entry, entry.label.as_str()))
            .map(|(e, label)| {
                let (file, tensor) = split_label(label, file, tensors);
                (e, file, tensor)
            })
            .collect();
        let files: BTreeSet<&str> = split.iter().map(|(_, file, _)| *file).collect();
        let of_file = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let named: Vec<&str> = if files.contains(file) {
            vec![file]
        } else {
            let alike: Vec<&str> = files.iter().copied().filter(|name| last(name) == of_file).collect();
            match (alike.len(), files.len()) {
                (1, _) => alike,
                (0, 1) => files.into_iter().collect(),
                _ => Vec::new(),
            }
        };
        let chosen = split.into_iter().filter(|(_, file, _)| named.contains(file));
        chosen.map(|(entry, _, tensor)| (entry, tensor.map(|t| t.as_bytes().to_vec()))).collect()
    }
}

/// The file and the tensor of a label. File and tensor names may contain colons, so known tensor names are preferred.
fn split_label<'a>(label: &'a str, file: &str, tensors: &HashSet<&[u8]>) -> (&'a str, Option<&'a str>) {
    if label == file {
        return (label, None);
    }
    let of_file = label.strip_prefix(file).and_then(|rest| rest.strip_prefix(':'));
    if let Some(tensor) = of_file {
        return (label.get(..file.len()).unwrap_or(label), Some(tensor));
    }
    for (at, _) in label.match_indices(':') {
        if let Some(tensor) = label.get(at + 1..).filter(|tensor| tensors.contains(tensor.as_bytes())) {
            return (label.get(..at).unwrap_or_default(), Some(tensor));
        }
    }
    // A colon after the end of a file name; otherwise it may be part of a path.
    match label.rsplit_once(".gguf:") {
        Some((before, tensor)) => (label.get(..before.len() + ".gguf".len()).unwrap_or(label), Some(tensor)),
        None => (label, None),
    }
}

impl Hashes {
    /// Compares with a manifest's entries for the file with that name and these algorithms. Hashes come in their order, then tensors that
    /// the model lacks.
    pub fn compare(&self, manifest: &Manifest, file: &str, algorithms: &[Algorithm]) -> Vec<Compared> {
        let names: HashSet<&[u8]> = self.tensors().map(|tensor| tensor.name).collect();
        let mut unmatched = BTreeMap::new();
        let listed = manifest.about(file, &names);
        for (entry, tensor) in &listed {
            // Of duplicate lines, the first takes precedence, as in llama-gguf-hash.
            unmatched.entry((entry.algorithm, tensor.clone())).or_insert(entry.hash.as_str());
        }
        let mut compared = Vec::new();
        let mut compare = |algorithm: Algorithm, hash: &str, tensor: Option<&[u8]>| {
            if !algorithms.contains(&algorithm) {
                return;
            }
            let status = match unmatched.remove(&(algorithm, tensor.map(<[u8]>::to_vec))) {
                Some(expected) if expected == hash => Status::Ok,
                Some(_) => Status::Mismatch,
                None => Status::NotListed,
            };
            let (hash, tensor) = (hash.to_owned(), tensor.map(<[u8]>::to_vec));
            compared.push(Compared { algorithm, hash, tensor, status });
        };
        for tensor in self.tensors() {
            for (algorithm, hash) in &tensor.hashes {
                compare(*algorithm, hash, Some(tensor.name));
            }
        }
        for (algorithm, hash) in &self.model {
            compare(*algorithm, hash, None);
        }
        for (entry, tensor) in listed {
            if tensor.is_some()
                && unmatched.remove(&(entry.algorithm, tensor.clone())).is_some()
                && algorithms.contains(&entry.algorithm)
            {
                let (algorithm, hash) = (entry.algorithm, entry.hash.clone());
                compared.push(Compared { algorithm, hash, tensor, status: Status::NotInModel });
            }
        }
        compared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
manifest  test.gguf.manifest  xxh64
xxh64     f66e9cd66a4396a0  dir/my test.gguf:tensor_0  -  Ok
xxh64     7d3a1f9ac04d0537  dir/my test.gguf:blk.0:odd
sha512    00  dir/my test.gguf
xxh64     5A54D3AAD816F302  dir/my test.gguf
xxh64     e83fddf559d7b6a6  dir/my test.gguf:gone
";

    fn hashes() -> Hashes {
        let model = vec![(Algorithm::Xxh64, "5a54d3aad816f302".to_owned())];
        let mut hashes = Hashes::new(vec![Algorithm::Xxh64], model);
        for (name, hash) in [("tensor_0", 0xf66e9cd66a4396a0u64), ("blk.0:odd", 0x7d3a1f9ac04d0538), ("new", 0)] {
            hashes.push(name.as_bytes(), &hash.to_be_bytes());
        }
        hashes
    }

    #[test]
    fn each_hash_is_compared_with_its_line() {
        let manifest = Manifest::parse(TEXT, Path::new("m")).unwrap();
        assert_eq!(manifest.entries.len(), 4);
        for file in ["dir/my test.gguf", "my test.gguf", "/elsewhere/my test.gguf", "renamed.gguf"] {
            let compared = hashes().compare(&manifest, file, &[Algorithm::Xxh64]);
            let found: Vec<_> = compared.iter().map(|c| (c.tensor.as_deref(), c.status)).collect();
            let expected: [(Option<&[u8]>, Status); 5] = [
                (Some(b"tensor_0"), Status::Ok),
                (Some(b"blk.0:odd"), Status::Mismatch),
                (Some(b"new"), Status::NotListed),
                (None, Status::Ok),
                (Some(b"gone"), Status::NotInModel),
            ];
            assert_eq!(found, expected, "{file}");
        }
        assert!(hashes().compare(&manifest, "x", &[Algorithm::Sha1]).is_empty());
    }

    #[test]
    fn lines_about_other_files_do_not_count() {
        let two = format!("{TEXT}xxh64     0123456789abcdef  other.gguf\n");
        let manifest = Manifest::parse(&two, Path::new("m")).unwrap();
        let statuses = |file: &str| -> Vec<Status> {
            hashes().compare(&manifest, file, &[Algorithm::Xxh64]).iter().map(|c| c.status).collect()
        };
        assert_eq!(statuses("third.gguf"), [Status::NotListed; 4]);
        assert_eq!(
            statuses("./other.gguf"),
            [Status::NotListed, Status::NotListed, Status::NotListed, Status::Mismatch]
        );
        assert_eq!(statuses("my test.gguf").len(), 5);
    }

    #[test]
    fn a_name_is_one_line() {
        let hash = "f66e9cd66a4396a0";
        for label in ["m.gguf:a\nxxh64  0123456789abcdef  m.gguf", "a\r\nb", "\\n\n", "C:\\m.gguf", "\\n", "a\\\\b"] {
            let line = String::from_utf8(line(Algorithm::Xxh64, hash, label.as_bytes())).unwrap();
            assert!(!line.contains(['\n', '\r']), "{line}");
            let manifest = Manifest::parse(&format!("{line}\n"), Path::new("m")).unwrap();
            let found: Vec<(&str, &str)> =
                manifest.entries.iter().map(|e| (e.hash.as_str(), e.label.as_str())).collect();
            assert_eq!(found, [(hash, label)]);
        }
        // Other names are written as llama-gguf-hash writes them.
        assert_eq!(line(Algorithm::Sha1, "00", b"C:\\m.gguf:a"), b"sha1      00  C:\\m.gguf:a");
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        for (text, line) in [
            ("", 0),
            ("hello\n", 0),
            ("sha512  00  x.gguf\n", 0),
            ("xxh64  f66e  x.gguf\n", 1),
            ("\nxxh64  f66e9cd66a4396a0\n", 2),
            ("xxh64  g66e9cd66a4396a0  x.gguf", 1),
            ("uuid  f66e9cd66a4396a0  x.gguf", 1),
            ("\\xxh64  f66e9cd66a4396a0  x\\t.gguf", 1),
            ("\\xxh64  f66e9cd66a4396a0  x.gguf\\", 1),
        ] {
            match Manifest::parse(text, Path::new("m")) {
                Err(Error::Manifest { line: found, .. }) => assert_eq!(found, line, "{text:?}"),
                other => panic!("{text:?}: {other:?}"),
            }
        }
    }
}
