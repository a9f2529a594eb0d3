//! Checkpoints in folders that are not on the disk.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use gguf_hf::{Error, Folder, FolderError, FolderFile, MemoryFolder, Options, OutType, plan, plan_folder};
use gguf_pipeline::{MemorySink, RunOptions};
use gguf_test::checkpoint::{write_llama, write_small_files};
use gguf_test::files::glossary;

use crate::counting::Counting;

/// A folder in memory with all files of one on the disk.
fn in_memory(dir: &Path) -> MemoryFolder {
    fn add(folder: &mut MemoryFolder, dir: &Path, prefix: &str) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            match entry.path().is_dir() {
                true => add(folder, &entry.path(), &format!("{name}/")),
                false => folder.insert(name, fs::read(entry.path()).unwrap()),
            }
        }
    }
    let mut folder = MemoryFolder::new(dir);
    add(&mut folder, dir, "");
    folder
}

/// Converts both ways; returns the bytes.
fn both(dir: &Path, folder: &dyn Folder, options: &Options) -> [Vec<u8>; 2] {
    let of = |conversion: gguf_hf::Conversion| {
        let mut sink = MemorySink::new();
        conversion.plan.run_to(&mut sink, &RunOptions::default(), &()).unwrap();
        (sink.into_outputs().remove(0), conversion.warnings.iter().map(|w| w.to_string()).collect::<Vec<_>>())
    };
    let (disk, memory) = (of(plan(dir, options).unwrap()), of(plan_folder(folder, options).unwrap()));
    assert_eq!(disk.1, memory.1);
    [disk.0, memory.0]
}

#[test]
fn a_folder_in_memory_gives_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    write_llama(dir.path());
    fs::create_dir(dir.path().join("additional_chat_templates")).unwrap();
    fs::write(dir.path().join("additional_chat_templates/tool_use.jinja"), "{{ tools }}").unwrap();
    fs::write(dir.path().join("chat_template.jinja"), "{{ messages }}").unwrap();
    for (dir, ty) in [(glossary(), OutType::BF16), (dir.path().to_owned(), OutType::Q8_0)] {
        let folder = in_memory(&dir);
        let [disk, memory] = both(&dir, &folder, &Options::default().ty(ty));
        assert!(disk == memory, "{}", dir.display());
        let conversion = plan_folder(&folder, &Options::default()).unwrap();
        // No file on the disk is an input.
        assert!(conversion.plan.into_draft().inputs.is_empty());
        assert!(!plan(&dir, &Options::default()).unwrap().plan.into_draft().inputs.is_empty());
    }
}

#[test]
fn a_folder_in_memory_has_the_same_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model");
    fs::create_dir(&path).unwrap();
    let message = |options: &Options| {
        let disk = plan(&path, options).unwrap_err().to_string();
        assert_eq!(plan_folder(&in_memory(&path), options).unwrap_err().to_string(), disk);
        disk
    };
    assert!(message(&Options::default()).contains("config.json"));
    write_small_files(&path);
    message(&Options::default());
    fs::write(path.join("model-00001-of-00002.safetensors"), "").unwrap();
    assert!(message(&Options::default()).contains("model-00002-of-00002.safetensors"));
    fs::write(path.join("model-00002-of-00002.safetensors"), "short").unwrap();
    message(&Options::default());
    fs::write(path.join("model.safetensors.index.json"), r#"{"weight_map": {"a": "../a"}}"#).unwrap();
    assert!(message(&Options::default()).contains("../a"));
    fs::write(path.join("tokenizer.json"), b"\xff").unwrap();
    message(&Options::default().vocab_only(true));
}

#[test]
fn files_are_opened_and_read_once() {
    let dir = tempfile::tempdir().unwrap();
    write_llama(dir.path());
    fs::write(dir.path().join("chat_template.jinja"), "{{ messages }}").unwrap();
    fs::write(dir.path().join("generation_config.json"), r#"{"top_k": 7, "suppress_tokens": [1]}"#).unwrap();
    for dir in [&glossary(), dir.path()] {
        let folder = Counting::of(dir);
        plan_folder(&folder, &Options::default()).unwrap();
        assert_eq!(folder.repeated(), [""; 0], "{}", dir.display());
        for name in ["config.json", "generation_config.json"] {
            assert!(folder.read().iter().any(|read| read == name), "{name}: {:?}", folder.read());
        }
    }
}

/// A folder that fails for one file, and records the names that are opened.
#[derive(Debug)]
struct Failing {
    inner: MemoryFolder,
    fails: &'static str,
    opened: Mutex<Vec<String>>,
}

impl Folder for Failing {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn names(&self, within: &str) -> io::Result<Vec<String>> {
        match self.fails {
            "list" => Err(io::Error::other("no answer")),
            _ => self.inner.names(within),
        }
    }

    fn open(&self, name: &str) -> Result<Option<FolderFile>, FolderError> {
        self.opened.lock().unwrap().push(name.to_owned());
        match name == self.fails {
            true => Err(FolderError::Read { file: self.path().join(name), source: io::Error::other("no answer") }),
            false => self.inner.open(name),
        }
    }
}

#[test]
fn errors_of_a_folder_are_reported() {
    let inner = in_memory(&glossary());
    let of = |fails| {
        let folder = Failing { inner: inner.clone(), fails, opened: Mutex::default() };
        (plan_folder(&folder, &Options::default()), folder.opened.into_inner().unwrap())
    };
    let (whole, opened) = of("");
    whole.unwrap();
    for name in ["config.json", "tokenizer.model", "generation_config.json", "model.safetensors"] {
        assert!(opened.iter().any(|opened| opened == name), "{name}: {opened:?}");
    }
    for fails in ["config.json", "tokenizer.model", "tokenizer_config.json", "model.safetensors", "README.md"] {
        match of(fails).0 {
            Err(e @ Error::Io { .. }) => {
                assert!(e.to_string().contains(fails) && e.to_string().contains("no answer"), "{e}");
            }
            other => panic!("{fails}: {other:?}"),
        }
    }
    let e = of("list").0.unwrap_err().to_string();
    assert!(e.contains("cannot list: no answer"), "{e}");
}
