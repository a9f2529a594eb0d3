//! Compares the tables with the real ones, and re-encodes real models. `GGUF_PEERS` is the directory of the peers (llama.cpp's sources and
//! gguf-py), `GGUF_SHARED` that of the reference data; without them the tests are ignored.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gguf_format::{GgmlType, TYPES, keys};
use gguf_test::{corpus::rewrite, parallel, peers};

/// The output of a Python program that uses llama.cpp's own gguf-py.
fn gguf_py(program: &str) -> String {
    let peers = peers::peers();
    let output = Command::new(peers.join("venv/bin/python"))
        .env("PYTHONPATH", peers.join("llama.cpp/gguf-py"))
        .args(["-c", program])
        .output()
        .expect("the peers' Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn every_key_of_llama_cpp_is_known() {
    let program = "
from gguf.constants import Keys
def walk(c):
    for name, v in vars(c).items():
        if isinstance(v, type): walk(v)
        elif isinstance(v, str) and not name.startswith('_'): print(v)
walk(Keys)";
    let theirs = gguf_py(program);
    let theirs = theirs.lines().collect::<BTreeSet<_>>();
    let ours = keys::KEYS.iter().map(|k| k.pattern).collect::<BTreeSet<_>>();
    let missing = theirs.difference(&ours).collect::<Vec<_>>();
    assert!(missing.is_empty(), "unknown to us: {missing:?}");
    assert!(theirs.len() > 300, "only {} keys found", theirs.len());
}

fn every_architecture_of_llama_cpp_is_known() {
    let theirs = gguf_py("from gguf.constants import MODEL_ARCH_NAMES\nprint('\\n'.join(MODEL_ARCH_NAMES.values()))");
    let missing = theirs.lines().filter(|a| !keys::is_architecture(a)).collect::<Vec<_>>();
    assert!(missing.is_empty(), "unknown to us: {missing:?}");
    assert!(theirs.lines().count() > 100);
}

fn the_type_table_is_that_of_llama_cpp() {
    let program = "
from gguf.constants import GGMLQuantizationType, GGML_QUANT_SIZES
for t in GGMLQuantizationType: print(int(t), t.name, *GGML_QUANT_SIZES[t])";
    let theirs = gguf_py(program);
    let mut n = 0;
    for line in theirs.lines() {
        let [id, name, len, bytes] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let ty = GgmlType(id.parse().unwrap());
        let info = ty.info().unwrap_or_else(|| panic!("{line} is unknown to us"));
        assert!(info.name.eq_ignore_ascii_case(name), "{line} is {} to us", info.name);
        assert_eq!([info.block_len.to_string(), info.block_bytes.to_string()], [len, bytes], "{line}");
        assert!(!info.removed, "{line}");
        n += 1;
    }
    assert_eq!(n, TYPES.iter().filter(|t| !t.removed).count());
}

/// All files in a directory tree whose names end in `.gguf`.
fn models(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry of the folder").path();
        if path.is_dir() {
            models(&path, into);
        } else if path.extension().is_some_and(|e| e == "gguf") {
            into.push(path);
        }
    }
}

/// Every model of the shared data, and the vocabularies of llama.cpp: reading and writing gives the same file.
fn real_models_are_read_and_written_without_a_change() {
    for folder in [peers::data(""), peers::peers().join("llama.cpp/models")] {
        let mut paths = vec![];
        models(&folder, &mut paths);
        assert!(!paths.is_empty(), "no models in {}", folder.display());
        parallel::map(&paths, |path| {
            let file = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            rewrite::same_bytes(&path.display().to_string(), &file);
        });
    }
}

gguf_test::tests! {
    [Peers] every_key_of_llama_cpp_is_known,
        every_architecture_of_llama_cpp_is_known,
        the_type_table_is_that_of_llama_cpp;
    [Peers, Shared] real_models_are_read_and_written_without_a_change;
}
