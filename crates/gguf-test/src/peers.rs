//! Real llama.cpp, and the reference data: where the environment says they are.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names the folder of llama.cpp's libraries, bindings and sources.
pub const PEERS: &str = "GGUF_PEERS";
/// The variable that names the folder of the reference data and the tools that go with it.
pub const SHARED: &str = "GGUF_SHARED";
/// The variable that names the folder that `.ci/packages` fills.
pub const PACKAGES: &str = "GGUF_PACKAGES";

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

/// Whether the Python of llama.cpp's folder has PyTorch.
pub fn has_torch() -> bool {
    let find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";
    let python = folder(PEERS).map(|peers| peers.join("venv/bin/python"));
    let found = python.map(|python| Command::new(python).args(["-c", find]).output());
    found.is_some_and(|output| output.is_ok_and(|output| output.status.success()))
}

/// The folder with the sources of programs that load image models, if it is there.
pub fn image_loaders() -> Option<PathBuf> {
    folder(PEERS).map(|peers| peers.join("image-loaders")).filter(|loaders| loaders.is_dir())
}

/// The folder of the packages that define formats of packed weights, if it is known.
pub fn packages() -> Option<PathBuf> {
    folder(PACKAGES)
}

/// A program of llama.cpp's that comes as source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// `llama-gguf-split`
    Split,
    /// `llama-gguf-hash`
    Hash,
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

    /// Builds one of llama.cpp's programs from its sources, against its libraries, into a folder. Needs a C++ compiler.
    pub fn build(&self, program: Program, dir: &Path) -> PathBuf {
        let (sources, lib) = (self.peers.join("llama.cpp"), self.peers.join("lib"));
        let compile = |args: &[&str], files: &[PathBuf], out: &Path| {
            let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
            let mut command = Command::new(compiler);
            command.args(["-O1", "-w", "-fpermissive"]).args(args).args(files).arg("-o").arg(out);
            for folder in ["include", "ggml/include", "common", "vendor", "vendor/hash"] {
                command.arg("-I").arg(sources.join(folder));
            }
            let output = command.output().expect("a C++ compiler");
            assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        let (source, libraries): (&str, &[&str]) = match program {
            Program::Split => {
                ("tools/gguf-split/gguf-split.cpp", &["-lllama-common", "-lllama", "-lggml", "-lggml-base"])
            }
            Program::Hash => ("examples/gguf-hash/gguf-hash.cpp", &["-lggml-base"]),
        };
        let mut files = vec![sources.join(source)];
        if program == Program::Hash {
            for (name, language) in [("sha1/sha1", "c++"), ("sha256/sha256", "c"), ("xxhash/xxhash", "c")] {
                let object = dir.join(format!("{}.o", name.replace('/', "-")));
                compile(&["-x", language, "-c"], &[sources.join(format!("vendor/hash/{name}.c"))], &object);
                files.push(object);
            }
        }
        let out = dir.join(source.rsplit('/').next().unwrap_or_default().trim_end_matches(".cpp"));
        files.push(format!("-L{}", lib.display()).into());
        files.extend(libraries.iter().map(PathBuf::from));
        files.push(format!("-Wl,-rpath,{}", lib.display()).into());
        files.push("-Wl,--allow-shlib-undefined".into());
        compile(&["-std=c++17"], &files, &out);
        out
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
