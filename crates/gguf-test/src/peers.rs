//! Real llama.cpp, and the reference data: where the environment says they are.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names the folder of llama.cpp's libraries, bindings and sources.
pub const PEERS: &str = "GGUF_PEERS";
/// The variable that names the folder of the reference data and the tools that go with it.
pub const SHARED: &str = "GGUF_SHARED";

/// The folder that a variable names, if it is set.
pub fn folder(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// The folder of llama.cpp. Panics without one: a test that needs it is listed with that need in [`tests!`](crate::tests).
pub fn peers() -> PathBuf {
    folder(PEERS).expect("GGUF_PEERS is set")
}

/// A file of the reference data. Panics without the data, as [`peers`] does.
pub fn data(name: &str) -> PathBuf {
    folder(SHARED).expect("GGUF_SHARED is set").join("data").join(name)
}

/// The folders of llama.cpp and of the reference data.
pub struct Peers {
    peers: PathBuf,
    shared: PathBuf,
}

impl Peers {
    /// Panics where a folder is not known.
    pub fn get() -> Peers {
        Peers { peers: peers(), shared: folder(SHARED).expect("GGUF_SHARED is set") }
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
