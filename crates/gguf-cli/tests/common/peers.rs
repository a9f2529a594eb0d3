//! Real llama.cpp, and the reference data.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders of llama.cpp (its libraries and bindings) and of the shared data and tools.
pub struct Peers {
    peers: PathBuf,
    shared: PathBuf,
}

impl Peers {
    /// The folders that `GGUF_PEERS` and `GGUF_SHARED` name; without them, says that the test is skipped.
    pub fn find() -> Option<Peers> {
        let var = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let found = var("GGUF_PEERS").zip(var("GGUF_SHARED"));
        if found.is_none() {
            eprintln!("skipped: GGUF_PEERS and GGUF_SHARED are not set");
        }
        found.map(|(peers, shared)| Peers { peers, shared })
    }

    /// A file of the reference data.
    pub fn data(&self, name: &str) -> PathBuf {
        self.shared.join("data").join(name)
    }

    /// Runs a script with llama.cpp's bindings.
    pub fn python(&self, script: &Path) -> Command {
        let lib = self.peers.join("lib");
        let mut command = Command::new(self.peers.join("venv/bin/python"));
        command.arg(script);
        command.envs([("LLAMA_CPP_LIB_PATH", &lib), ("LD_LIBRARY_PATH", &lib), ("PYTHONPATH", &self.peers)]);
        command
    }

    /// What llama.cpp answers, as JSON text.
    pub fn ask(&self, args: &[&str]) -> String {
        let output = self.python(&self.shared.join("tools/llama-oracle.py")).args(args).output();
        let output = output.expect("the peers' Python runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{args:?}: {text} {}", String::from_utf8_lossy(&output.stderr));
        text
    }
}
