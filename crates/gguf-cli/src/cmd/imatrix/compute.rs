//! `gguf imatrix compute`: measures an importance matrix.

use std::fs;
use std::io::{BufRead, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gguf_engine::matrix::{Measurement, counts_of, experts_below, matrix_of, observed_of};
use gguf_engine::{About, Engine as _, Error, ErrorKind, Observe, Observed, Perplexity, Specials, Windows};
use gguf_format::check::shown;
use gguf_format::{Str, TensorInfo};
use gguf_io::Output;
use gguf_pipeline::Progress as _;
use gguf_quantize::imatrix::{self, Format, Imatrix, ImatrixFile, Merge, Use};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::combine::{format, format_of, old_format};
use crate::cmd::evaluation::{Checked, Library, WindowArgs, beside, estimate_json, identity, library_json, text_of};
use crate::cmd::get::chat;
use crate::cmd::text_file::read_text_of;
use crate::failure::{Failure, Outcome, Verdict};
use crate::findings;
use crate::json;
use crate::open;
use crate::ui::{Ui, grouped, number, shown_path};
use crate::watch::Watch;

/// Maximum size of a file of conversations.
const MAX_CHATS: u64 = 1 << 30;

/// Maximum number of experts that a message names.
const NAMED: usize = 8;

/// Time between two copies of the sums, with --resume.
const KEEP_EVERY: Duration = Duration::from_secs(30);

/// Measure the importance matrix of a model on texts.
///
/// The model is evaluated on windows of the texts, which are read as one, and the squared inputs of each weight are added
/// up per column, as by llama-imatrix: with the same library and options the output is the same, except for the names of
/// the texts, which are file names here. For models with experts, the coverage of the experts is reported.
/// `gguf engine` shows the library that is used.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf imatrix compute model.gguf text.txt -o imatrix.gguf
  gguf imatrix compute model.gguf text.txt code.txt -o imatrix.gguf --chunks 200
  gguf imatrix compute model.gguf more.txt -o both.gguf --continue imatrix.gguf
  gguf imatrix compute model.gguf chats.jsonl -o imatrix.gguf --chat
  gguf imatrix compute moe.gguf text.txt -o imatrix.gguf --chunks 100 --min-expert-tokens 200")]
pub struct Args {
    /// GGUF model; any shard of a split model
    model: PathBuf,

    /// Text files; - for standard input
    #[arg(required = true, value_name = "TEXT")]
    texts: Vec<PathBuf>,

    /// Output file
    #[arg(short, long, alias = "output-file", value_name = "OUT")]
    output: PathBuf,

    /// Output format; by default, from the extension of the output: .gguf or .dat
    #[arg(long, alias = "output-format", value_name = "FORMAT", value_parser = format())]
    format: Option<Format>,

    #[command(flatten)]
    windows: WindowArgs,

    /// Skip this many windows at the start
    #[arg(long, value_name = "N", alias = "chunk", default_value = "0", hide_default_value = true)]
    skip: usize,

    /// Also measure the output weight, or the token embedding if it is used as the output
    #[arg(long)]
    process_output: bool,

    /// Parse special tokens in the texts, such as <s>; by default, they are plain text
    #[arg(long)]
    parse_special: bool,

    /// Read one conversation per line, as JSON, and render it with the model's chat template
    #[arg(long, conflicts_with = "parse_special")]
    chat: bool,

    /// Add to the sums of this matrix; repeatable
    #[arg(long, value_name = "FROM", alias = "in-file")]
    r#continue: Vec<PathBuf>,

    /// After --chunks, continue until each expert has this many tokens or the texts end; list the experts with fewer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    min_expert_tokens: Option<i64>,

    /// Also write the matrix to OUT.at_WINDOWS about every N windows, at the end of a batch
    #[arg(long, value_name = "N", alias = "save-frequency", value_parser = crate::cmd::at_least_one::<usize>)]
    snapshots: Option<usize>,

    /// Keep the sums of finished windows in OUT.partial, and continue from those of an interrupted run
    #[arg(long)]
    resume: bool,

    #[command(flatten)]
    library: Library,

    /// Overwrite existing output
    #[arg(short, long)]
    force: bool,

    /// Print one JSON object with the written file
    #[arg(long)]
    json: bool,

    /// Print no progress and no summary
    #[arg(short, long)]
    quiet: bool,
}

/// The first line of a file of kept sums; a matrix follows.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// The model, the texts, and the options.
    identity: String,
    n_windows: usize,
    count: u64,
    nll: f64,
    nll2: f64,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let format = format_of(self.format, &self.output)?;
        if !self.force && self.output.symlink_metadata().is_ok() {
            return Err(Failure::exists(&self.output));
        }
        let watch = Watch::new(self.quiet);
        let checked = Checked::new(&self.model)?;
        let text = self.text()?;
        let before = self.before()?;
        let mut datasets = before.datasets.clone();
        datasets.extend(self.texts.iter().map(|text| file_name(text)));

        let mut engine = self.library.start(&watch)?;
        let loaded = checked.load(&mut engine)?;
        let specials = Specials { add: !self.chat, parse: self.chat || self.parse_special };
        let tokens = engine.tokenize(&text, specials)?;
        let mut options = self.windows.options();
        options.skip = self.skip;
        // With a minimum for experts, the text is the limit.
        let wanted = options.chunks;
        if self.min_expert_tokens.is_some() {
            options.chunks = None;
        }
        let windows = Windows::new(tokens, &loaded, options)?;
        let observe = if self.process_output { Observe::BlocksAndOutput } else { Observe::Blocks };

        let identity = self.identity(&engine.about().path, &text, &windows)?;
        let partial = beside(&self.output, ".partial");
        let (first, sums, so_far) = match self.resume.then(|| read_kept(&partial, &identity)).transpose()?.flatten() {
            Some((kept, sums)) => {
                let n = number(kept.n_windows as u64, "window", "windows");
                ui.note(&format!("resumed: the sums of {n} are reused"));
                (kept.n_windows, sums, Perplexity { count: kept.count, nll: kept.nll, nll2: kept.nll2 })
            }
            None => (0, observed_of(&before), Perplexity::default()),
        };
        let least = wanted.unwrap_or(usize::MAX).min(windows.len());
        let total = if self.min_expert_tokens.is_some() { windows.len() } else { least };
        let mut kept_at = watch.elapsed();
        let mut run = Measurement::new(&mut engine, &windows, observe, first, sums, so_far)?;
        loop {
            let start = run.done();
            let next = run.next_group(|done, perplexity| {
                watch.step(done, total, &format!("windows, perplexity {:.4}", perplexity.value()));
            });
            // The sums of finished windows are kept.
            let is_more = match next {
                Err(e) if e.kind() != ErrorKind::Cancelled => return Err(e.into()),
                next => next.unwrap_or(true),
            };
            let done = run.done();
            if self.snapshots.is_some_and(|every| done / every > start / every) {
                let path = beside(&self.output, &format!(".at_{done}"));
                self.write(ui, &run.sums()?, &datasets, format, &path, &watch)?;
            }
            // Without a finished window, there is nothing to keep.
            if self.resume && done > 0 && (watch.is_cancelled() || watch.elapsed() >= kept_at + KEEP_EVERY) {
                kept_at = watch.elapsed();
                let Perplexity { count, nll, nll2 } = *run.perplexity();
                let kept = Kept { identity: identity.clone(), n_windows: done, count, nll, nll2 };
                write_kept(&partial, &kept, &run.sums()?, self.windows.ctx)?;
            }
            if watch.is_cancelled() {
                let help = self.resume.then(|| "repeat the command to continue".to_owned());
                return Err(Failure::from(Error::new(ErrorKind::Cancelled, "cancelled")).with_help(help));
            }
            let is_enough = match self.min_expert_tokens {
                Some(minimum) if done >= least => experts_below(&run.counts()?, minimum).is_empty(),
                _ => false,
            };
            if !is_more || is_enough {
                break;
            }
        }
        let (done, perplexity, sums) = (run.done(), *run.perplexity(), run.sums()?);
        watch.clear();
        self.write(ui, &sums, &datasets, format, &self.output, &watch)?;
        if self.resume {
            let _ = fs::remove_file(&partial);
        }
        self.report(ui, engine.about(), &sums, &perplexity, done)
    }

    /// The sums of the matrices that are continued. Those of another model would be mixed with the sums of this one.
    fn before(&self) -> Result<Imatrix, Failure> {
        let mut merge = Merge::new(self.windows.ctx)?;
        let model = open::model(&self.model)?;
        let infos: Vec<TensorInfo> = model.tensors().map(|tensor| tensor.info().to_owned()).collect();
        let tensors =
            infos.iter().map(|info| Use { name: Str(&info.name), shape: &info.shape, ty: None, needs_imatrix: false });
        let tensors: Vec<Use<'_>> = tensors.collect();
        for path in &self.r#continue {
            let matrix = open::matrix(path)?;
            merge.add(&matrix)?;
            if let Some(error) = findings::first_error_of(&imatrix::check(&matrix, &tensors)) {
                let message = format!("{}: {error}", shown_path(path));
                let help =
                    format!("`gguf imatrix check {} {}` lists all problems", shown_path(path), shown_path(&self.model));
                return Err(Failure::of_file(Verdict::Bad, "bad_input", path, message).with_help(Some(help)));
            }
        }
        Ok(merge.finish())
    }

    /// The texts, or the prompts of their conversations.
    fn text(&self) -> Result<Vec<u8>, Failure> {
        if !self.chat {
            return text_of(&self.texts);
        }
        let model = open::model(&self.model)?;
        let mut all = String::new();
        for path in &self.texts {
            let lines = read_text_of(path, MAX_CHATS, "conversations, one per line")?;
            for (i, line) in lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
                let from = format!("{}: line {}", path.display(), i + 1);
                all += &chat::rendered(&self.model, model.gguf(), None, &from, line, false)?;
            }
        }
        Ok(all.into_bytes())
    }

    /// What must be the same in a run that is continued.
    fn identity(&self, library: &Path, text: &[u8], windows: &Windows) -> Result<String, Failure> {
        let model = open::model(&self.model)?;
        let files = model.files().iter().map(|file| file.path()).chain([library]);
        let mut options = *windows.options();
        // More windows of the same text, or other threads, continue the same sums.
        (options.chunks, options.n_threads) = (None, 0);
        let flags = (self.process_output, self.parse_special, self.chat);
        let options = format!("{options:?} {flags:?}");
        identity(files.chain(self.r#continue.iter().map(|p| &**p)), &[text, options.as_bytes()])
    }

    fn write(
        &self,
        ui: &mut Ui,
        sums: &Observed,
        datasets: &[Vec<u8>],
        format: Format,
        path: &Path,
        watch: &Watch,
    ) -> Result<(), Failure> {
        let mut matrix = matrix_of(sums, datasets.to_vec(), self.windows.ctx);
        if format == Format::Legacy {
            watch.clear();
            matrix = old_format(ui, matrix)?;
        }
        let is_final = path == self.output;
        let inputs: Vec<&Path> =
            [&self.model].into_iter().chain(&self.texts).chain(&self.r#continue).map(PathBuf::as_path).collect();
        Ok(matrix.write_file(path, &inputs, self.force || !is_final, &())?)
    }

    fn report(&self, ui: &mut Ui, about: &About, sums: &Observed, perplexity: &Perplexity, done: usize) -> Outcome {
        let below = experts_below(&counts_of(sums), self.min_expert_tokens.unwrap_or(1));
        let of_experts: Vec<&gguf_engine::Sums> = sums.values().filter(|sums| sums.counts.len() > 1).collect();
        let fewest = of_experts.iter().flat_map(|sums| &sums.counts).copied().min();
        if !below.is_empty() {
            let names: Vec<String> = below
                .iter()
                .take(NAMED)
                .map(|e| format!("{} expert {} ({})", shown(Str(&e.name)), e.expert, tokens(e.tokens)))
                .collect();
            let more = match below.len().saturating_sub(NAMED) {
                0 => String::new(),
                n => format!(" and {} more", grouped(n as u64)),
            };
            let least = tokens(self.min_expert_tokens.unwrap_or(1));
            ui.warning(&format!("experts with fewer than {least}: {}{more}; use a longer text", names.join(", ")));
        }
        let estimate = perplexity.estimate();
        if self.json {
            let below: Vec<_> = below
                .iter()
                .map(|e| json!({ "entry": json::Text(Str(&e.name)), "expert": e.expert, "tokens": e.tokens }))
                .collect();
            let document = json!({
                "model": json::path(&self.model),
                "path": json::path(&self.output),
                "library": library_json(about),
                "n_ctx": self.windows.ctx,
                "windows": done,
                "perplexity": estimate_json(estimate),
                "entries": sums.len(),
                "expert_entries": of_experts.len(),
                "fewest_expert_tokens": fewest,
                "experts_below": below,
            });
            json::print(ui, 2, &document)?;
            return Ok(Verdict::Good);
        }
        if !self.quiet {
            let entries = number(sums.len() as u64, "entry", "entries");
            let windows = number(done as u64, "window", "windows");
            ui.note(&format!("{entries} from {windows}, perplexity {:.4} ± {:.5}", estimate.value, estimate.error));
            if let Some(fewest) = fewest {
                let weights = number(of_experts.len() as u64, "weight has", "weights have");
                ui.note(&format!("{weights} experts; each expert has at least {}", tokens(fewest)));
            }
        }
        ui.print_path(&self.output)?;
        Ok(Verdict::Good)
    }
}

/// `1 token`, `2,000 tokens`
fn tokens(n: i64) -> String {
    number(n.unsigned_abs(), "token", "tokens")
}

/// The file name of a text: folders are private, and matrices are published.
fn file_name(path: &Path) -> Vec<u8> {
    path.file_name().unwrap_or(path.as_os_str()).as_encoded_bytes().to_vec()
}

/// Reads the sums that an interrupted run has kept; `None` if it has kept none.
///
/// # Errors
/// If they are those of another run, or damaged.
fn read_kept(path: &Path, identity: &str) -> Result<Option<(Kept, Observed)>, Failure> {
    let Ok(file) = fs::File::open(path) else { return Ok(None) };
    let mut file = BufReader::new(file);
    let mut line = String::new();
    let other = || {
        let message = format!("{}: kept by a run with another model, text or options, or damaged", path.display());
        Failure::CouldNotRun(message).with_help(Some("remove it to start over".to_owned()))
    };
    (&mut file).take(1 << 16).read_line(&mut line).map_err(|_| other())?;
    let kept: Kept = serde_json::from_str(&line).map_err(|_| other())?;
    if kept.identity != identity {
        return Err(other());
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|_| other())?;
    let matrix = ImatrixFile::from_bytes(bytes)?.load()?;
    Ok(Some((kept, observed_of(&matrix))))
}

/// Keeps sums, in place of earlier ones. The file is whole at any time.
fn write_kept(path: &Path, kept: &Kept, sums: &Observed, chunk_size: u32) -> Result<(), Failure> {
    let fail = |e: &dyn std::fmt::Display| Failure::CouldNotRun(format!("{}: cannot write: {e}", path.display()));
    let output = Output::unnamed(path, true)?;
    let mut out = BufWriter::new(output.file());
    serde_json::to_writer(&mut out, kept).map_err(|e| fail(&e))?;
    out.write_all(b"\n").map_err(|e| fail(&e))?;
    matrix_of(sums, Vec::new(), chunk_size).write(out)?;
    Ok(output.commit()?)
}
