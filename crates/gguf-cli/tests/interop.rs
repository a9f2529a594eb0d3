//! The program against real llama.cpp: what it converts is loaded and run there. Needs the folder of the peers in
//! `GGUF_PEERS` (llama.cpp's libraries and bindings) and the folder of shared data and tools in `GGUF_SHARED`; without
//! them the tests say that they are skipped.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Peers {
    peers: PathBuf,
    shared: PathBuf,
}

fn peers() -> Option<Peers> {
    let var = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let found = var("GGUF_PEERS").zip(var("GGUF_SHARED"));
    if found.is_none() {
        eprintln!("skipped: GGUF_PEERS and GGUF_SHARED are not set");
    }
    found.map(|(peers, shared)| Peers { peers, shared })
}

impl Peers {
    /// What llama.cpp answers, as JSON text.
    fn ask(&self, args: &[&str]) -> String {
        let lib = self.peers.join("lib");
        let output = Command::new(self.peers.join("venv/bin/python"))
            .arg(self.shared.join("tools/llama-oracle.py"))
            .args(args)
            .envs([("LLAMA_CPP_LIB_PATH", &lib), ("LD_LIBRARY_PATH", &lib), ("PYTHONPATH", &self.peers)])
            .output()
            .expect("the peers' Python runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{args:?}: {text} {}", String::from_utf8_lossy(&output.stderr));
        text
    }
}

fn gguf(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gguf")).args(args).output().expect("gguf runs")
}

fn example() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/glossary").to_str().expect("UTF-8").to_owned()
}

#[test]
fn the_converted_example_runs_in_llama_cpp() {
    let Some(peers) = peers() else { return };
    let dir = tempfile::tempdir().unwrap();
    let reference = peers.shared.join("data/glossary-bf16.gguf");
    let reference = reference.to_str().unwrap();
    for ty in ["auto", "bf16", "f16", "f32"] {
        let out = dir.path().join(format!("{ty}.gguf"));
        let out = out.to_str().unwrap();
        let run = gguf(&["convert", &example(), "-o", out, "--type", ty]);
        assert!(run.status.success(), "{ty}: {}", String::from_utf8_lossy(&run.stderr));
        if ["auto", "bf16"].contains(&ty) {
            assert!(
                std::fs::read(out).unwrap() == std::fs::read(reference).unwrap(),
                "{ty} differs from the reference"
            );
        }
        let check = gguf(&["check", out]);
        assert!(check.status.success(), "{ty}: {}", String::from_utf8_lossy(&check.stdout));
        for prompt in ["oak:", "music:", "river: a"] {
            let ours = peers.ask(&["generate", out, prompt, "-n", "24"]);
            let theirs = peers.ask(&["generate", reference, prompt, "-n", "24"]);
            assert_eq!(ours, theirs, "{ty} {prompt}");
            assert!(ours.contains("\"text\""), "{ours}");
        }
    }
}

#[test]
fn what_llama_cpp_wrote_has_no_errors() {
    let Some(peers) = peers() else { return };
    let mut seen = 0;
    let mut bad = Vec::new();
    for entry in std::fs::read_dir(peers.shared.join("data/hf/ref")).expect("reference files") {
        let path = entry.unwrap().path();
        // The converter leaves the halves of packed types unswapped in big-endian files.
        if path.extension().is_none_or(|e| e != "gguf") || path.to_string_lossy().contains("bigendian") {
            continue;
        }
        seen += 1;
        let check = gguf(&["check", "--data", "--quiet", path.to_str().unwrap()]);
        if !check.status.success() {
            bad.push(format!("{}: {}", path.display(), String::from_utf8_lossy(&check.stdout)));
        }
    }
    assert!(seen >= 50, "only {seen} reference files");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
