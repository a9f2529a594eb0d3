//! Checkpoint folders: accepted and rejected files.

use std::fs;
use std::path::Path;

use gguf_hf::checkpoint::TensorFiles;
#[cfg(unix)]
use gguf_hf::{Options, plan};
use gguf_pipeline::Source;
#[cfg(unix)]
use gguf_test::checkpoint::write_llama;
use gguf_test::checkpoint::{Tensor, f32_data, safetensors};

fn tensor(name: &str) -> Tensor<'_> {
    (name, "F32", &[2, 2], f32_data(name.len() as u32, 4))
}

fn write(dir: &Path, file: &str, names: &[&str]) {
    let tensors: Vec<_> = names.iter().map(|n| tensor(n)).collect();
    fs::write(dir.join(file), safetensors(&tensors)).unwrap();
}

fn write_index(dir: &Path, pairs: &[(&str, &str)]) {
    let pairs: Vec<_> = pairs.iter().map(|(n, f)| format!("{n:?}:{f:?}")).collect();
    let json = format!(r#"{{"metadata":{{"total_size":1}},"weight_map":{{{}}}}}"#, pairs.join(","));
    fs::write(dir.join("model.safetensors.index.json"), json).unwrap();
}

fn names(dir: &Path) -> Vec<String> {
    TensorFiles::open(&dir.to_owned()).unwrap().tensors().iter().map(|t| t.name.clone()).collect()
}

/// The error message.
fn refusal(dir: &Path) -> String {
    match TensorFiles::open(&dir.to_owned()) {
        Ok(_) => panic!("was accepted"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn tensors_are_ordered_by_file_then_by_name() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "model-00002-of-00002.safetensors", &["a"]);
    write(dir.path(), "model-00001-of-00002.safetensors", &["z.2", "z.10"]);
    write(dir.path(), "other.safetensors", &["unread"]);
    assert_eq!(names(dir.path()), ["z.10", "z.2", "a"]);
    // An index may use any file names, and then only those files are read.
    write(dir.path(), "x.safetensors", &["b"]);
    write_index(dir.path(), &[("b", "x.safetensors"), ("a", "model-00002-of-00002.safetensors")]);
    assert_eq!(names(dir.path()), ["a", "b"]);
}

#[test]
fn data_is_read_by_position() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "model.safetensors", &["one", "three"]);
    let checkpoint = TensorFiles::open(&dir.path().to_owned()).unwrap();
    let expected = f32_data(5, 4);
    let mut buffer = [0; 7];
    checkpoint.read(1, 9, &mut buffer).unwrap();
    assert_eq!(buffer, expected[9..16]);
    assert!(checkpoint.read(1, 10, &mut buffer).unwrap_err().to_string().contains("\"three\" has 16 bytes"));
    assert!(checkpoint.read(1, u64::MAX, &mut buffer).is_err());
    assert!(checkpoint.read(2, 0, &mut buffer).is_err());
    // A file that shrinks during reading causes an error.
    fs::OpenOptions::new().write(true).open(dir.path().join("model.safetensors")).unwrap().set_len(20).unwrap();
    assert!(checkpoint.read(1, 0, &mut buffer).unwrap_err().to_string().contains("cannot read"));
}

#[test]
fn folders_that_are_refused() {
    type Case<'a> = (&'a str, &'a dyn Fn(&Path), &'a str);
    let whole = safetensors(&[tensor("a")]);
    let cases: &[Case<'_>] = &[
        ("empty", &|_| (), "no model*.safetensors and no pytorch_model*.bin in the folder; is it a checkpoint?"),
        (
            "pickle",
            &|d| fs::write(d.join("pytorch_model.bin"), "x").unwrap(),
            "pytorch_model.bin: not a PyTorch file but a file of unknown kind",
        ),
        ("empty file", &|d| fs::write(d.join("model.safetensors"), "").unwrap(), "0 bytes"),
        ("short", &|d| fs::write(d.join("model.safetensors"), "1234567").unwrap(), "7 bytes"),
        ("huge head", &|d| fs::write(d.join("model.safetensors"), [255; 64]).unwrap(), "at most 100000000"),
        (
            "git-lfs",
            &|d| fs::write(d.join("model.safetensors"), "version https://git-lfs.github.com/spec/v1\n").unwrap(),
            "git lfs pull",
        ),
        ("cut off", &|d| fs::write(d.join("model.safetensors"), &whole[..whole.len() - 1]).unwrap(), "fetch it again"),
        (
            "trailing bytes",
            &|d| fs::write(d.join("model.safetensors"), [&whole[..], b"x"].concat()).unwrap(),
            "1 bytes after the last tensor",
        ),
        ("folder", &|d| fs::create_dir(d.join("model.safetensors")).unwrap(), "not a regular file"),
        (
            "missing parts",
            &|d| write(d, "model-00002-of-00003.safetensors", &["a"]),
            "missing: \"model-00001-of-00003.safetensors\", \"model-00003-of-00003.safetensors\"; fetch",
        ),
        (
            "twice",
            &|d| {
                write(d, "model-a.safetensors", &["a"]);
                write(d, "model.safetensors", &["a"]);
            },
            "duplicate tensor \"a\", in ",
        ),
        ("missing file", &|d| write_index(d, &[("a", "gone.safetensors")]), "missing: \"gone.safetensors\""),
        (
            "missing tensor",
            &|d| {
                write(d, "model.safetensors", &["a"]);
                write_index(d, &[("a", "model.safetensors"), ("b", "model.safetensors")]);
            },
            "in no file: \"b\"; fetch",
        ),
        (
            "unlisted tensor",
            &|d| {
                write(d, "model.safetensors", &["a", "b"]);
                write_index(d, &[("a", "model.safetensors")]);
            },
            "not in the index: \"b\"",
        ),
        ("index without map", &|d| fs::write(d.join("model.safetensors.index.json"), "{}").unwrap(), "weight_map"),
        (
            "index with a number",
            &|d| fs::write(d.join("model.safetensors.index.json"), r#"{"weight_map":{"a":1}}"#).unwrap(),
            "expected a string",
        ),
        (
            "index with a key twice",
            &|d| fs::write(d.join("model.safetensors.index.json"), r#"{"weight_map":{"a":"x","a":"y"}}"#).unwrap(),
            "duplicate name \"a\"",
        ),
        ("index that is not JSON", &|d| fs::write(d.join("model.safetensors.index.json"), "{").unwrap(), "EOF"),
    ];
    for (name, prepare, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        prepare(dir.path());
        let message = refusal(dir.path());
        assert!(message.contains(expected), "{name}: {message}");
        assert!(message.starts_with(dir.path().to_str().unwrap()) || *name == "twice", "{name}: {message}");
    }
}

#[test]
fn an_index_leads_nowhere_else() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("model");
    fs::create_dir(&dir).unwrap();
    fs::create_dir(dir.join("sub")).unwrap();
    write(outer.path(), "secret.safetensors", &["a"]);
    write(&dir, "sub/x.safetensors", &["a"]);
    let absolute = outer.path().join("secret.safetensors");
    let absolute = absolute.to_str().unwrap();
    for name in
        ["../secret.safetensors", absolute, "sub/x.safetensors", "sub\\x.safetensors", "..", ".", "", "C:x", "\\\\h\\x"]
    {
        write_index(&dir, &[("a", name)]);
        let message = refusal(&dir);
        assert!(message.contains("expected the name of a file in the folder"), "{name:?}: {message}");
    }
}

#[cfg(unix)]
#[test]
fn links_lead_nowhere_else() {
    use std::os::unix::fs::symlink;
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("model");
    fs::create_dir(&dir).unwrap();
    write(outer.path(), "secret.safetensors", &["a"]);
    let link = dir.join("model.safetensors");

    symlink("../secret.safetensors", &link).unwrap();
    assert!(refusal(&dir).contains("a link that leaves the checkpoint folder"));
    write_index(&dir, &[("a", "model.safetensors")]);
    assert!(refusal(&dir).contains("a link that leaves the checkpoint folder"));
    fs::remove_file(dir.join("model.safetensors.index.json")).unwrap();

    // Links within the folder are accepted, and the folder itself may be a link.
    fs::remove_file(&link).unwrap();
    write(&dir, "real", &["a"]);
    symlink("real", &link).unwrap();
    assert_eq!(names(&dir), ["a"]);
    symlink(&dir, outer.path().join("alias")).unwrap();
    assert_eq!(names(&outer.path().join("alias")), ["a"]);

    // A dangling link and a device.
    fs::remove_file(&link).unwrap();
    symlink("nothing", &link).unwrap();
    assert!(refusal(&dir).contains("missing"));
    fs::remove_file(&link).unwrap();
    symlink("/dev/zero", &link).unwrap();
    assert!(refusal(&dir).contains("a link that leaves"));
}

#[cfg(unix)]
#[test]
fn the_cache_of_the_hub_is_read_through_its_links() {
    use std::os::unix::fs::symlink;
    let outer = tempfile::tempdir().unwrap();
    let (blobs, snapshot) = (outer.path().join("blobs"), outer.path().join("snapshots/0123"));
    fs::create_dir(&blobs).unwrap();
    fs::create_dir_all(&snapshot).unwrap();
    write(&blobs, "abcdef", &["a"]);
    symlink("../../blobs/abcdef", snapshot.join("model.safetensors")).unwrap();
    assert_eq!(names(&snapshot), ["a"]);
}

/// The small files that are read in addition to a SentencePiece model.
#[cfg(unix)]
const SMALL: [&str; 11] = [
    "config.json",
    "generation_config.json",
    "README.md",
    "model.safetensors.index.json",
    "tokenizer.model",
    "tokenizer.json",
    "tokenizer_config.json",
    "added_tokens.json",
    "tekken.json",
    "chat_template.jinja",
    "additional_chat_templates/tool.jinja",
];

/// Writes a complete checkpoint without the file `name` into the folder `model`.
#[cfg(unix)]
fn checkpoint_without(outer: &Path, name: &str) -> std::path::PathBuf {
    let dir = outer.join("model");
    fs::create_dir_all(dir.join("additional_chat_templates")).unwrap();
    write_llama(&dir);
    fs::write(dir.join("tokenizer_config.json"), r#"{"a": 1}"#).unwrap();
    if name.starts_with("additional") {
        fs::write(dir.join("chat_template.jinja"), "x").unwrap();
    }
    let _ = fs::remove_file(dir.join(name));
    dir
}

#[cfg(unix)]
#[test]
fn links_of_small_files_lead_nowhere_else() {
    for name in SMALL.into_iter().chain(["chat_template.json"]) {
        let outer = tempfile::tempdir().unwrap();
        let dir = checkpoint_without(outer.path(), name);
        let secret = outer.path().join("secret");
        fs::write(&secret, "{}").unwrap();
        std::os::unix::fs::symlink(&secret, dir.join(name)).unwrap();
        let message = plan(&dir, &Options::default()).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(
            message.contains(name) && message.contains("a link that leaves the checkpoint folder"),
            "{name}: {message}"
        );
    }
}

#[cfg(unix)]
#[test]
fn pipes_are_refused_and_not_waited_for() {
    for name in SMALL {
        let outer = tempfile::tempdir().unwrap();
        let dir = checkpoint_without(outer.path(), name);
        let made = std::process::Command::new("mkfifo").arg(dir.join(name)).status().unwrap();
        assert!(made.success());
        let message = plan(&dir, &Options::default()).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(message.contains(name) && message.contains("not a regular file"), "{name}: {message}");
    }
}

#[cfg(unix)]
#[test]
fn small_files_are_read_through_the_links_of_the_hub() {
    let outer = tempfile::tempdir().unwrap();
    let (blobs, snapshot) = (outer.path().join("blobs"), outer.path().join("snapshots/0123"));
    fs::create_dir(&blobs).unwrap();
    fs::create_dir_all(&snapshot).unwrap();
    write_llama(&blobs);
    fs::write(blobs.join("tokenizer_config.json"), r#"{"a": 1}"#).unwrap();
    fs::write(blobs.join("chat_template.jinja"), "template").unwrap();
    for entry in fs::read_dir(&blobs).unwrap() {
        let name = entry.unwrap().file_name();
        std::os::unix::fs::symlink(Path::new("../../blobs").join(&name), snapshot.join(&name)).unwrap();
    }
    let planned = plan(&snapshot, &Options::default()).unwrap();
    assert_eq!(planned.plan.head().get("tokenizer.chat_template").and_then(|v| v.as_str()).unwrap(), "template");
}
