//! Ollama's store of models: names, manifests and blobs.
//!
//! A store is a folder with `manifests/HOST/NAMESPACE/MODEL/TAG`, JSON files that list the layers of a model, and `blobs/sha256-…`, the
//! layers, named after their digests. The layer of type `application/vnd.ollama.image.model` is the GGUF.

use std::io::Read;
use std::path::{Path, PathBuf};

use gguf_pipeline::{Event, Progress};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::failure::{Failure, Verdict};
use crate::watch::Watch;

/// The prefix of model names.
const SCHEME: &str = "ollama://";

/// Maximum size of a manifest; real ones have about a thousand bytes.
const MAX_MANIFEST: u64 = 1 << 20;

/// The prefix of layer types.
const LAYER: &str = "application/vnd.ollama.image.";

/// A model in a store.
#[derive(Debug)]
pub struct Entry {
    /// The path of the model file.
    pub model: PathBuf,
    /// The SHA-256 of the model file, in hexadecimal.
    digest: String,
    /// Kinds and files of the other layers: `template`, `params` and so on.
    pub layers: Vec<(String, PathBuf)>,
}

/// Whether an argument is a model name such as `ollama://model:tag`.
pub fn is_name(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.starts_with(SCHEME))
}

/// Resolves a name, a manifest or a blob to a model; `None` for other files.
///
/// # Errors
/// If the model does not exist, its manifest is invalid, or its file is missing or has the wrong size.
pub fn find(path: &Path) -> Result<Option<Entry>, Failure> {
    if let Some(name) = path.to_str().and_then(|text| text.strip_prefix(SCHEME)) {
        let store = store()?;
        let manifest = manifest_of(&store, path, name)?;
        return match read_manifest(&manifest)? {
            Some(json) => of_manifest(&manifest, &store, &json).map(Some),
            None => Err(bad("invalid_manifest", &manifest, "is not a manifest of Ollama")),
        };
    }
    if let Some(digest) = digest_of_blob(path) {
        let entry = Entry { model: path.to_owned(), digest, layers: Vec::new() };
        return Ok(path.is_file().then_some(entry));
    }
    let Some(json) = read_manifest(path)? else { return Ok(None) };
    let store = path.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "manifests"));
    match store.and_then(Path::parent) {
        Some(store) => of_manifest(path, store, &json).map(Some),
        // Opening the file reports its kind, with a hint.
        None => Ok(None),
    }
}

/// The folder of the store: `OLLAMA_MODELS`, or the default.
fn store() -> Result<PathBuf, Failure> {
    if let Some(folder) = std::env::var_os("OLLAMA_MODELS").filter(|folder| !folder.is_empty()) {
        return Ok(folder.into());
    }
    let home = std::env::home_dir().map(|home| home.join(".ollama/models"));
    // If Ollama runs as a service on Linux, it has a separate home folder.
    let folders = home.clone().into_iter().chain([PathBuf::from("/usr/share/ollama/.ollama/models")]);
    folders.into_iter().find(|folder| folder.is_dir()).or(home).ok_or_else(|| {
        Failure::CouldNotRun("cannot find Ollama's models without a home folder; set OLLAMA_MODELS".to_owned())
    })
}

/// The path of the manifest of `[[HOST/]NAMESPACE/]MODEL[:TAG]`.
fn manifest_of(store: &Path, given: &Path, name: &str) -> Result<PathBuf, Failure> {
    let (name, tag) = match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (name, "latest"),
    };
    let parts: Vec<&str> = name.split('/').collect();
    let (host, namespace, model) = match parts.as_slice() {
        [model] => ("registry.ollama.ai", "library", *model),
        [namespace, model] => ("registry.ollama.ai", *namespace, *model),
        [host, namespace, model] => (*host, *namespace, *model),
        _ => ("", "", ""),
    };
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-:".contains(c))
    };
    if ![host, namespace, model, tag].into_iter().all(is_part) {
        let problem = "expected ollama://MODEL:TAG, as in ollama://llama3.2:1b";
        return Err(Failure::CouldNotRun(format!("{}: {problem}", given.display())));
    }
    let manifest = store.join("manifests").join(host).join(namespace).join(model).join(tag);
    if manifest.is_file() {
        return Ok(manifest);
    }
    let problem = format!(
        "no such model in {}; run `ollama pull {name}:{tag}`, or set OLLAMA_MODELS to another folder",
        store.display()
    );
    Err(Failure::of_file(Verdict::CouldNotRun, "not_found", given, format!("{}: {problem}", given.display())))
}

/// Whether a path is a blob of a store, whose name is the digest of its content.
pub fn is_blob(path: &Path) -> bool {
    digest_of_blob(path).is_some()
}

/// The digest in the name of a file in a folder `blobs`.
fn digest_of_blob(path: &Path) -> Option<String> {
    let is_in_blobs = path.parent()?.file_name()? == "blobs";
    let digest = path.file_name()?.to_str()?.strip_prefix("sha256")?.strip_prefix(['-', ':'])?;
    (is_in_blobs && is_digest(digest)).then(|| digest.to_owned())
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Reads a file as a manifest; `None` if it is not one. Opening the file reports read errors.
fn read_manifest(path: &Path) -> Result<Option<Value>, Failure> {
    let is_small = std::fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() <= MAX_MANIFEST);
    let Some(file) = is_small.then(|| gguf_io::open_regular(path).ok()).flatten() else { return Ok(None) };
    let mut bytes = Vec::new();
    let read = file.take(MAX_MANIFEST).read_to_end(&mut bytes);
    let looks_so = bytes.trim_ascii_start().starts_with(b"{") && bytes.windows(15).any(|w| w == b"\"schemaVersion\"");
    if read.is_err() || !looks_so {
        return Ok(None);
    }
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|e| bad("invalid_manifest", path, &format!("invalid manifest: {e}")))
}

/// The model of a manifest. Checks that the file has the size in the manifest.
fn of_manifest(path: &Path, store: &Path, json: &Value) -> Result<Entry, Failure> {
    let invalid = |problem: &str| bad("invalid_manifest", path, &format!("invalid manifest: {problem}"));
    let layers = json.get("layers").and_then(Value::as_array).ok_or_else(|| invalid("there is no list `layers`"))?;
    let mut model = None;
    let mut others = Vec::new();
    for layer in layers {
        let text = |name| layer.get(name).and_then(Value::as_str).unwrap_or_default();
        let digest = text("digest").strip_prefix("sha256:").filter(|digest| is_digest(digest));
        let digest = digest.ok_or_else(|| invalid("the digest of a layer is not sha256: and 64 hexadecimal digits"))?;
        let kind = text("mediaType").strip_prefix(LAYER).unwrap_or("layer");
        let file = store.join("blobs").join(format!("sha256-{digest}"));
        if kind == "model" && model.is_none() {
            model = Some((file, digest.to_owned(), layer.get("size").and_then(Value::as_u64)));
        } else {
            others.push((gguf_format::Str(kind.as_bytes()).to_string(), file));
        }
    }
    let (file, digest, stated) = model.ok_or_else(|| invalid("there is no layer of a model"))?;
    match (std::fs::metadata(&file), stated) {
        (Ok(data), Some(stated)) if data.len() != stated => {
            let problem = format!("has {} bytes, but its manifest states {stated}; pull the model again", data.len());
            Err(bad("truncated", &file, &problem))
        }
        (Ok(_), _) => Ok(Entry { model: file, digest, layers: others }),
        (Err(e), _) => Err(gguf_io::Error::Io { path: file, action: "open", source: e }.into()),
    }
}

/// Compares the SHA-256 of a model file with its digest.
///
/// # Errors
/// If the digest differs, the file cannot be read, or a signal interrupts the work.
pub fn verify(entry: &Entry, quiet: bool) -> Result<(), Failure> {
    let path = &entry.model;
    let failed = |source| Failure::from(gguf_io::Error::Io { path: path.clone(), action: "read", source });
    let mut file = gguf_io::open_regular(path)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let watch = Watch::new(quiet);
    watch.event(Event::Started { n_tensors: 1, bytes });
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        if watch.is_cancelled() {
            watch.clear();
            return Err(gguf_pipeline::Error::Cancelled.into());
        }
        let n = file.read(&mut buffer).map_err(failed)?;
        let Some(read) = buffer.get(..n).filter(|read| !read.is_empty()) else { break };
        hash.update(read);
        watch.event(Event::Advanced { bytes: n as u64 });
    }
    watch.clear();
    let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    match found == entry.digest {
        true => Ok(()),
        false => {
            Err(bad("digest", path, &format!("the SHA-256 is {found}; the file is damaged, pull the model again")))
        }
    }
}

/// A failure that concerns a store.
fn bad(kind: &'static str, path: &Path, problem: &str) -> Failure {
    Failure::of_file(Verdict::Bad, kind, path, format!("{}: {problem}", path.display()))
}
