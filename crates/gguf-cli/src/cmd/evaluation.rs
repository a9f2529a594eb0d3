//! What commands that evaluate models share: the library in a process of its own, checked models, texts in windows.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gguf_engine::{About, Child, Engine, Estimate, Loaded, Specials, WindowOptions, Windows};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::engine::SERVE;
use super::text_file::append;
use crate::failure::{Failure, Verdict};
use crate::findings;
use crate::json;
use crate::open;
use crate::ui::{grouped, shown_path};
use crate::watch::Watch;

/// Maximum size of a text, in bytes: libllama counts them with 31 bits.
const MAX_TEXT: u64 = (1 << 31) - 1;

/// Time for the library to end what it computes, after a signal. Then its process is ended.
const GRACE: Duration = Duration::from_millis(1500);

/// The options of the library.
#[derive(Debug, clap::Args)]
pub struct Library {
    /// Folder of libllama; by default, GGUF_LLAMA, otherwise where the system looks for libraries
    #[arg(long, value_name = "DIR")]
    llama: Option<PathBuf>,
}

impl Library {
    /// The folder of the library, if one is named.
    fn folder(&self) -> Result<Option<PathBuf>, Failure> {
        let variable = std::env::var_os("GGUF_LLAMA").filter(|value| !value.is_empty());
        let Some(folder) = self.llama.clone().or(variable.map(PathBuf::from)) else { return Ok(None) };
        super::expect_folder(&folder, "expected the folder of libllama")?;
        let absolute = std::path::absolute(&folder);
        absolute.map(Some).map_err(|e| Failure::CouldNotRun(format!("{}: {e}", folder.display())))
    }

    /// Starts the process that evaluates. A signal cancels its evaluations.
    ///
    /// # Errors
    /// If there is no library, or it cannot be used.
    pub fn start(&self, watch: &Watch) -> Result<Child, Failure> {
        let folder = self.folder()?;
        let program = std::env::current_exe().map_err(|e| {
            Failure::CouldNotRun(format!("cannot find the path of this program, to start it as another process: {e}"))
        })?;
        let mut command = Command::new(program);
        command.arg(SERVE).args(&folder);
        let child = Child::start(command, folder.as_deref())?;
        let (canceller, interrupted) = (child.canceller(), watch.interrupted());
        std::thread::spawn(move || {
            while !canceller.is_over() {
                if interrupted.load(Ordering::Relaxed) {
                    canceller.cancel();
                    std::thread::sleep(GRACE);
                    return canceller.kill();
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Ok(child)
    }
}

/// The number of threads.
#[derive(Debug, clap::Args)]
pub struct Threads {
    /// Number of threads; by default, one per processor
    #[arg(short = 'j', long, value_name = "N", value_parser = crate::cmd::at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,
}

impl Threads {
    /// The number.
    pub fn number(&self) -> u32 {
        let all = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        u32::try_from(self.threads.map_or_else(all, NonZeroUsize::get)).unwrap_or(1)
    }
}

/// Short options of llama.cpp's tools with several letters, and the options of the commands that evaluate texts.
pub const SHORT: &[(&str, &str)] = &[("-ub", "--ubatch")];

/// The size of windows and batches.
#[derive(Debug, clap::Args)]
pub struct WindowArgs {
    /// Window size in tokens, such as 512 or 4k
    #[arg(short, long, value_name = "N", alias = "ctx-size", default_value = "512", value_parser = window)]
    pub ctx: u32,

    /// Maximum number of tokens per batch; windows that fit are evaluated together
    #[arg(short, long, value_name = "N", alias = "batch-size", default_value = "2048", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    batch: u32,

    /// Maximum number of tokens per compute step (physical batch)
    #[arg(short, long, value_name = "N", alias = "ubatch-size", default_value = "512", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    ubatch: u32,

    /// Evaluate at most this many windows
    #[arg(long, value_name = "N", value_parser = crate::cmd::at_least_one::<usize>)]
    pub chunks: Option<usize>,

    #[command(flatten)]
    threads: Threads,
}

/// Parses the size of a window.
fn window(text: &str) -> Result<u32, String> {
    let n = super::estimate::tokens(text)?;
    let n = u32::try_from(n).ok().filter(|n| (4..=1 << 24).contains(n));
    n.ok_or_else(|| "expected 4 to 16777216 tokens".to_owned())
}

impl WindowArgs {
    /// The options of the windows.
    pub fn options(&self) -> WindowOptions {
        let mut options = WindowOptions::default();
        (options.n_ctx, options.n_batch, options.n_ubatch) = (self.ctx, self.batch, self.ubatch);
        (options.chunks, options.n_threads) = (self.chunks, self.threads.number());
        options
    }
}

/// A model that was checked: libllama does not expect invalid files.
#[derive(Debug)]
pub struct Checked {
    /// The first file, without links.
    first: PathBuf,
}

impl Checked {
    /// Checks a model, before the library is started.
    ///
    /// # Errors
    /// If the model has errors, or is not a file of this machine.
    pub fn new(path: &Path) -> Result<Checked, Failure> {
        if open::is_url(path) {
            let problem = "expected a path, found a URL; libllama reads local files only";
            return Err(Failure::CouldNotRun(format!("{}: {problem}", path.display())));
        }
        let check = ggufkit::check(path)?;
        if let Some(message) = findings::first_error(&check) {
            let failure = Failure::of_file(Verdict::Bad, "bad_input", path, message);
            return Err(failure.with_help(Some(findings::described_by_check(path))));
        }
        let first = check.files().first().map_or(path, |(path, _)| path);
        let first = first.canonicalize().map_err(|e| Failure::CouldNotRun(format!("{}: {e}", path.display())))?;
        Ok(Checked { first })
    }

    /// Loads the model.
    ///
    /// # Errors
    /// If the library refuses it.
    pub fn load(&self, engine: &mut Child) -> Result<Loaded, Failure> {
        Ok(engine.load(&self.first)?)
    }
}

/// The bytes of texts one after the other, without one final line break, as llama.cpp's tools read them.
///
/// # Errors
/// If a text cannot be read, or is a model.
pub fn text_of(paths: &[PathBuf]) -> Result<Vec<u8>, Failure> {
    let mut all = Vec::new();
    for path in paths {
        append(path, MAX_TEXT.saturating_sub(all.len() as u64), &mut all, "a text")?;
        if all.len() as u64 > MAX_TEXT {
            return Err(Failure::CouldNotRun(format!("{}: the text is longer than 2 GiB", path.display())));
        }
    }
    if all.last() == Some(&b'\n') {
        all.pop();
    }
    Ok(all)
}

/// The windows of a text.
///
/// # Errors
/// If it is too short.
pub fn windows_of(
    engine: &mut Child,
    loaded: &Loaded,
    text: &[u8],
    options: WindowOptions,
) -> Result<Windows, Failure> {
    let tokens = engine.tokenize(text, Specials { add: true, parse: false })?;
    Ok(Windows::new(tokens, loaded, options)?)
}

/// The hash of what must be the same in a run that is continued: files, by path, size and time or version, and other values.
///
/// # Errors
/// If a file does not exist, or does not open.
pub fn identity<'a>(files: impl Iterator<Item = &'a Path>, values: &[&[u8]]) -> Result<String, Failure> {
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    for path in files {
        add(path.as_os_str().as_encoded_bytes());
        if let Some(remote) = open::source(path)? {
            add(format!("{:?} {:?}", remote.size(), remote.version()).as_bytes());
            continue;
        }
        let data = std::fs::metadata(path).map_err(|e| Failure::CouldNotRun(format!("{}: {e}", path.display())))?;
        let modified = data.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        add(format!("{} {modified:?}", data.len()).as_bytes());
    }
    values.iter().for_each(|value| add(value));
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Checks that an output is not one of the inputs.
///
/// # Errors
/// If it is.
pub fn expect_other(out: &Path, inputs: &[&Path]) -> Result<(), Failure> {
    let is_input = |real: PathBuf| inputs.iter().any(|input| input.canonicalize().is_ok_and(|input| input == real));
    match out.canonicalize().is_ok_and(is_input) {
        true => Err(gguf_pipeline::Error::OverwritesInput { path: out.to_owned() }.into()),
        false => Ok(()),
    }
}

/// A path with an ending.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// `text.txt, 4 windows of 512 tokens, 1,020 scored`
pub fn scored_text(text: Option<&Path>, windows: &Windows, n_scored: u64) -> String {
    let text = text.map_or(String::new(), |text| format!("{}, ", shown_path(text)));
    let [n, n_ctx] = [windows.len(), windows.n_ctx()].map(|n| grouped(n as u64));
    format!("{text}{n} windows of {n_ctx} tokens, {} scored", grouped(n_scored))
}

/// `libllama 0.5.0, /usr/lib/libllama.so`
pub fn library_text(about: &About) -> String {
    let version = about.version.as_ref().map_or(String::new(), |version| format!(" {version}"));
    format!("{}{version}, {}", about.name, shown_path(&about.path))
}

/// The library in JSON.
pub fn library_json(about: &About) -> Value {
    json!({ "name": about.name, "version": about.version, "path": json::path(&about.path) })
}

/// An estimate in JSON.
pub fn estimate_json(estimate: Estimate) -> Value {
    json!({ "value": estimate.value, "error": estimate.error })
}
