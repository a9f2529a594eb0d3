//! Real llama.cpp, and the reference data, located by environment variables.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable with the directory of llama.cpp's libraries, bindings and sources.
pub const PEERS: &str = "GGUF_PEERS";
/// The variable with the directory of the reference data and its tools.
pub const SHARED: &str = "GGUF_SHARED";
/// The variable that names the folder that `.ci/packages` fills.
pub const PACKAGES: &str = "GGUF_PACKAGES";
/// The variable that names the folder of `.ci/servers`.
pub const STORES: &str = "GGUF_STORES";

/// The directory in a variable, if it is set.
pub fn folder(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// The directory of llama.cpp. Panics if it is not set: tests declare the requirement in [`tests!`](crate::tests).
pub fn peers() -> PathBuf {
    folder(PEERS).expect("GGUF_PEERS is set")
}

/// A file of the reference data. Panics without the data, like [`peers`].
pub fn data(name: &str) -> PathBuf {
    folder(SHARED).expect("GGUF_SHARED is set").join("data").join(name)
}

/// Whether the Python of llama.cpp's directory has PyTorch.
pub fn has_torch() -> bool {
    let find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";
    let python = folder(PEERS).map(|peers| peers.join("venv/bin/python"));
    let found = python.map(|python| Command::new(python).args(["-c", find]).output());
    found.is_some_and(|output| output.is_ok_and(|output| output.status.success()))
}

/// The directory with the sources of programs that load image models, if it exists.
pub fn image_loaders() -> Option<PathBuf> {
    folder(PEERS).map(|peers| peers.join("image-loaders")).filter(|loaders| loaders.is_dir())
}

/// The folder of the packages that define formats of packed weights, if it is set.
pub fn packages() -> Option<PathBuf> {
    folder(PACKAGES)
}

/// The folder with the addresses of object stores, if it is set.
pub fn stores() -> Option<PathBuf> {
    folder(STORES)
}

/// A program of llama.cpp in source form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// `llama-gguf-split`
    Split,
    /// `llama-gguf-hash`
    Hash,
    /// `llama-completion`, for models without an encoder.
    Completion,
    /// `llama-imatrix`
    Imatrix,
    /// `llama-perplexity`: perplexity and divergence.
    Perplexity,
}

/// The batches that llama.cpp's programs fill, with the functions that the prebuilt libraries have. And the end of their log: a thread writes it, and
/// without a pause the last words are lost with it (`common_log_main`).
const OURS: &str = r#"
#include "common.h"
#include "log.h"
#include <cstdlib>
static const int written = atexit([] { common_log_pause(common_log_main()); });
struct llama_batch_ext { std::vector<common_batch::token> tokens; };
extern "C" llama_batch_ext * llama_batch_ext_init(llama_context *) { return new llama_batch_ext; }
extern "C" void llama_batch_ext_free(llama_batch_ext * batch) { delete batch; }
common_batch common_batch_get_one(llama_context *, const std::vector<llama_token> &) { abort(); }
common_batch::common_batch(llama_context * ctx) : batch(llama_batch_ext_init(ctx)) {}
void common_batch::clear() { tokens.clear(); }
bool common_batch::add_seq(int32_t, llama_seq_id) { abort(); }
bool common_batch::set_output(int32_t, bool) { abort(); }
int32_t common_batch::add(llama_token, llama_pos, const std::vector<llama_seq_id> &, bool) { abort(); }
int32_t common_batch::add(llama_token id, llama_pos pos, llama_seq_id seq, bool output) {
    token t = {};
    t.id = id;
    t.pos[0] = pos;
    t.seq_id = seq;
    t.output = output;
    tokens.push_back(t);
    return size() - 1;
}
llama_batch_ext * common_batch::get_sub_batch(int32_t start, int32_t n) {
    batch->tokens.assign(tokens.begin() + start, tokens.begin() + start + n);
    return batch.get();
}
extern "C" int32_t llama_process(llama_context * ctx, llama_process_type type, llama_batch_ext * from) {
    if (type != LLAMA_PROCESS_TYPE_DECODE) abort();
    llama_batch batch = llama_batch_init(from->tokens.size(), 0, 1);
    for (const auto & t : from->tokens) {
        const int i = batch.n_tokens++;
        batch.token[i] = t.id;
        batch.pos[i] = t.pos[0];
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = t.seq_id;
        batch.logits[i] = t.output;
    }
    const int32_t result = llama_decode(ctx, batch);
    llama_batch_free(batch);
    return result;
}
"#;

/// The directories of llama.cpp and of the reference data.
pub struct Peers {
    peers: PathBuf,
    shared: PathBuf,
}

impl Peers {
    /// Panics if a directory is not set.
    pub fn get() -> Peers {
        Peers { peers: peers(), shared: folder(SHARED).expect("GGUF_SHARED is set") }
    }

    /// A file of the reference data.
    pub fn data(&self, name: &str) -> PathBuf {
        self.shared.join("data").join(name)
    }

    /// Builds one of llama.cpp's programs into a directory, linked to its libraries. Needs a C++ compiler.
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
        let (source, evaluates) = match program {
            Program::Split => ("tools/gguf-split/gguf-split.cpp", false),
            Program::Hash => ("examples/gguf-hash/gguf-hash.cpp", false),
            Program::Completion => ("tools/completion/completion.cpp", true),
            Program::Imatrix => ("tools/imatrix/imatrix.cpp", true),
            Program::Perplexity => ("tools/perplexity/perplexity.cpp", true),
        };
        let libraries: &[&str] = match program {
            Program::Hash => &["-lggml-base"],
            _ => &["-lllama-common", "-lllama", "-lggml", "-lggml-base"],
        };
        let source = sources.join(source);
        let mut files = vec![source.clone()];
        if evaluates {
            let ours = dir.join("ours.cpp");
            std::fs::write(&ours, OURS).unwrap();
            let main = source.with_file_name("main.cpp");
            files.extend([ours].into_iter().chain(main.exists().then_some(main)));
            // Backends are looked for beside the program.
            #[cfg(unix)]
            for entry in std::fs::read_dir(&lib).unwrap().flatten() {
                let _ = std::os::unix::fs::symlink(entry.path(), dir.join(entry.file_name()));
            }
        }
        if program == Program::Hash {
            for (name, language) in [("sha1/sha1", "c++"), ("sha256/sha256", "c"), ("xxhash/xxhash", "c")] {
                let object = dir.join(format!("{}.o", name.replace('/', "-")));
                compile(&["-x", language, "-c"], &[sources.join(format!("vendor/hash/{name}.c"))], &object);
                files.push(object);
            }
        }
        let out = dir.join(source.file_stem().unwrap_or_default());
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

    /// llama.cpp's answer, as JSON text.
    pub fn ask(&self, args: &[&str]) -> String {
        let output = self.python(&self.shared.join("tools/llama-oracle.py")).args(args).output();
        let output = output.expect("the peers' Python runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{args:?}: {text} {}", String::from_utf8_lossy(&output.stderr));
        text
    }
}
