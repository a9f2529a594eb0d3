//! Our tables against the real ones. Runs when `GGUF_PEERS` names the folder of the peers (llama.cpp's sources and
//! gguf-py); without it there is nothing to compare with and the tests say so.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use gguf_format::{GgmlType, TYPES, keys};

/// What a Python program prints that has llama.cpp's own gguf-py at hand; `None` without the peers.
fn gguf_py(program: &str) -> Option<String> {
    let Some(peers) = std::env::var_os("GGUF_PEERS").map(PathBuf::from) else {
        eprintln!("skipped: GGUF_PEERS is not set");
        return None;
    };
    let output = Command::new(peers.join("venv/bin/python"))
        .env("PYTHONPATH", peers.join("llama.cpp/gguf-py"))
        .args(["-c", program])
        .output()
        .expect("the peers' Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).expect("UTF-8"))
}

#[test]
fn every_key_of_llama_cpp_is_known() {
    let program = "
from gguf.constants import Keys
def walk(c):
    for name, v in vars(c).items():
        if isinstance(v, type): walk(v)
        elif isinstance(v, str) and not name.startswith('_'): print(v)
walk(Keys)";
    let Some(theirs) = gguf_py(program) else { return };
    let theirs = theirs.lines().collect::<BTreeSet<_>>();
    let ours = keys::KEYS.iter().map(|k| k.pattern).collect::<BTreeSet<_>>();
    let missing = theirs.difference(&ours).collect::<Vec<_>>();
    assert!(missing.is_empty(), "unknown to us: {missing:?}");
    assert!(theirs.len() > 300, "only {} keys found", theirs.len());
}

#[test]
fn every_architecture_of_llama_cpp_is_known() {
    let Some(theirs) =
        gguf_py("from gguf.constants import MODEL_ARCH_NAMES\nprint('\\n'.join(MODEL_ARCH_NAMES.values()))")
    else {
        return;
    };
    let missing = theirs.lines().filter(|a| !keys::is_architecture(a)).collect::<Vec<_>>();
    assert!(missing.is_empty(), "unknown to us: {missing:?}");
    assert!(theirs.lines().count() > 100);
}

#[test]
fn the_type_table_is_that_of_llama_cpp() {
    let program = "
from gguf.constants import GGMLQuantizationType, GGML_QUANT_SIZES
for t in GGMLQuantizationType: print(int(t), t.name, *GGML_QUANT_SIZES[t])";
    let Some(theirs) = gguf_py(program) else { return };
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
