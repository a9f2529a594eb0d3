//! `gguf sensitivity`: how much a model loses by quantizing each of its tensors.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_engine::{About, Child, Engine as _, Error, ErrorKind, Original, Perplexity, Windows};
use gguf_format::Str;
use gguf_format::check::shown;
use gguf_format::keys::FileType;
use gguf_io::Output;
use gguf_pipeline::Progress as _;
use gguf_quantize::mix::Target;
use gguf_quantize::sensitivity::Scratch;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::evaluation::{
    Checked, Library, WindowArgs, beside, expect_other, identity, library_json, text_of, windows_of,
};
use super::quantize::{Document, Measured};
use crate::failure::{Failure, Outcome, Verdict};
use crate::json;
use crate::open;
use crate::ui::{Ui, duration, number};
use crate::watch::Watch;

/// Number of windows, unless an option sets another.
const WINDOWS: usize = 16;

/// Number of tensors in the summary.
const NAMED: usize = 3;

/// Measure how much a model loses by quantizing each tensor, for gguf quantize --sensitivity.
///
/// For each tensor the divergence from the model is measured on a text when only this tensor is quantized, to one low
/// type: the decoded values of one tensor after the other are written into a copy of the model while it is loaded. It
/// takes as many evaluations of the text as there are tensors, so the time is estimated first. By default, 16 windows of
/// the text are used. The copy and the original's probabilities take space in the folder of OUT meanwhile; on Linux
/// these files have no names. `gguf engine` shows the library that is used.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf sensitivity model-BF16.gguf text.txt -o sensitivity.json
  gguf sensitivity model-BF16.gguf text.txt -o sensitivity.json --imatrix imatrix.gguf --chunks 8 --resume
  gguf quantize model-BF16.gguf model.gguf --target-size 4.2GiB --sensitivity sensitivity.json")]
pub struct Args {
    /// GGUF model in a float type; any shard of a split model
    model: PathBuf,

    /// Text file; - for standard input
    text: PathBuf,

    /// Output file
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    /// The low type, by the name of a file type; all tensors get its default type
    #[arg(long, value_name = "TYPE", default_value = "Q3_K_S", value_parser = low_type)]
    r#type: FileType,

    /// Importance matrix that weights the columns of each tensor, as with gguf quantize
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,

    #[command(flatten)]
    windows: WindowArgs,

    /// Keep finished measurements in OUT.partial, and continue from those of an interrupted run
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

fn low_type(text: &str) -> Result<FileType, String> {
    match Target::parse(text).map_err(|e| e.to_string())? {
        Target::FileType(ty) => Ok(ty),
        Target::Copy => Err("expected a quantized type, such as Q3_K_S".to_owned()),
    }
}

/// The first line of a file of kept measurements; each further line has the measurement of a tensor.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    identity: String,
}

/// Finished measurements, in a file if they are kept.
struct Journal {
    file: Option<File>,
    path: PathBuf,
    done: Vec<Measured>,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        super::not_stdout("OUT", &self.output)?;
        if !self.force && self.output.symlink_metadata().is_ok() {
            return Err(Failure::exists(&self.output));
        }
        let inputs = [&self.model, &self.text].into_iter().chain(&self.imatrix);
        expect_other(&self.output, &inputs.map(PathBuf::as_path).collect::<Vec<_>>())?;
        let watch = Watch::new(self.quiet);
        let checked = Checked::new(&self.model)?;
        let text = text_of(std::slice::from_ref(&self.text))?;
        let matrix = self.imatrix.as_deref().map(open::matrix).transpose()?.map(Arc::new);
        let mut copy = Output::unnamed(&self.output, self.force)?;
        let shared = copy.share()?;
        let mut engine = self.library.start(&watch)?;
        // A model that the library refuses, or a short text, is an error before the copy is made.
        let loaded = checked.load(&mut engine)?;
        let mut options = self.windows.options();
        options.chunks.get_or_insert(WINDOWS);
        let windows = windows_of(&mut engine, &loaded, &text, options)?;

        let target = Target::FileType(self.r#type);
        let scratch = Scratch::new(open::model(&self.model)?, matrix, target, copy, &watch);
        let mut scratch = scratch.map_err(|e| match e {
            // The hint of quantization is an option that this command does not have.
            gguf_quantize::Error::Requantize { .. } => Failure::Bad(e.to_string()),
            e => e.into(),
        })?;
        watch.clear();
        for warning in scratch.warnings() {
            ui.warning(&warning.to_string());
        }
        if scratch.trials().is_empty() {
            let problem = format!("{}: no tensor can be quantized to {}", self.model.display(), self.r#type);
            return Err(Failure::Bad(problem));
        }
        engine.load(&shared)?;
        let mut journal = self.journal(&engine.about().path, &text, &windows)?;
        let perplexity =
            self.measure(ui, &watch, &mut engine, (&mut scratch, &shared), (&windows, loaded.n_vocab, &mut journal))?;
        watch.clear();
        self.write(engine.about(), &windows, &perplexity, &journal.done)?;
        if self.resume {
            let _ = fs::remove_file(&journal.path);
        }
        self.report(ui, engine.about(), &windows, &journal.done)
    }

    /// Measures the tensors that the journal does not have.
    fn measure(
        &self,
        ui: &mut Ui,
        watch: &Watch,
        engine: &mut Child,
        (scratch, copy): (&mut Scratch, &Path),
        (windows, n_vocab, journal): (&Windows, usize, &mut Journal),
    ) -> Result<Perplexity, Failure> {
        let is_done = |name: &[u8]| journal.done.iter().any(|done| done.name.as_bytes() == name);
        let trials: Vec<_> = scratch.trials().iter().filter(|trial| !is_done(&trial.name)).cloned().collect();
        if !journal.done.is_empty() {
            ui.note(&format!(
                "resumed: {} reused",
                number(journal.done.len() as u64, "measurement is", "measurements are")
            ));
        }
        let total = (trials.len() + 1) * windows.len();
        let started = watch.elapsed();
        let logits = Output::unnamed(&self.output, self.force)?;
        logits.set_len((windows.len() * windows.n_scored() * n_vocab) as u64 * 4)?;
        let mut original = Original::new(engine, windows, n_vocab, logits.file(), |done| {
            watch.step(done, total, "windows, the original");
            !watch.is_cancelled()
        })?;
        if !self.quiet {
            let n = u32::try_from(trials.len()).unwrap_or(u32::MAX);
            let time = duration(watch.elapsed().saturating_sub(started).saturating_mul(n));
            let windows = number(windows.len() as u64, "window", "windows");
            let tensors = number(trials.len() as u64, "tensor", "tensors");
            watch.clear();
            ui.note(&format!("{tensors} on {windows}: about {time}"));
        }
        for (i, trial) in trials.iter().enumerate() {
            let relative_error = scratch.degrade(trial, &Quiet(watch))?;
            let name = shown(Str(&trial.name));
            let divergence = original.divergence(engine, windows, copy, |done| {
                watch.step((i + 1) * windows.len() + done, total, &format!("windows, {name}"));
                !watch.is_cancelled()
            })?;
            scratch.restore(trial)?;
            let measured = Measured {
                name: String::from_utf8_lossy(&trial.name).into_owned(),
                r#type: trial.ty.to_string(),
                // Below zero only by rounding.
                divergence: divergence.value.max(0.0),
                divergence_error: divergence.error,
                relative_error,
            };
            journal.add(measured)?;
            if watch.is_cancelled() {
                return Err(Error::new(ErrorKind::Cancelled, "cancelled").into());
            }
        }
        Ok(*original.perplexity())
    }

    /// The kept measurements of an interrupted run, if they are asked for.
    fn journal(&self, library: &Path, text: &[u8], windows: &Windows) -> Result<Journal, Failure> {
        let path = beside(&self.output, ".partial");
        if !self.resume {
            return Ok(Journal { file: None, path, done: Vec::new() });
        }
        let model = open::model(&self.model)?;
        let files = model.files().iter().map(|file| file.path()).chain([library]).chain(self.imatrix.as_deref());
        let mut options = *windows.options();
        options.n_threads = 0;
        let identity = identity(files, &[text, format!("{options:?} {}", self.r#type).as_bytes()])?;
        Journal::open(path, identity)
    }

    fn about(&self, about: &About, windows: &Windows, perplexity: &Perplexity) -> Value {
        json!({
            "model": self.model.file_name().map(Path::new).map(json::path),
            "text": self.text.file_name().map(Path::new).map(json::path),
            "imatrix": self.imatrix.as_deref().and_then(Path::file_name).map(Path::new).map(json::path),
            "library": { "name": about.name, "version": about.version },
            "type": self.r#type.to_string(),
            "n_ctx": windows.n_ctx(),
            "windows": windows.len(),
            "tokens": perplexity.count,
            "perplexity": perplexity.value(),
        })
    }

    fn write(
        &self,
        about: &About,
        windows: &Windows,
        perplexity: &Perplexity,
        done: &[Measured],
    ) -> Result<(), Failure> {
        let document = Document::new(self.about(about, windows, perplexity), self.imatrix.is_some(), done.to_vec());
        let fail =
            |e: &dyn std::fmt::Display| Failure::CouldNotRun(format!("{}: cannot write: {e}", self.output.display()));
        let output = Output::unnamed(&self.output, self.force)?;
        let mut text = serde_json::to_string_pretty(&document).map_err(|e| fail(&e))?;
        text.push('\n');
        output.file().write_all(text.as_bytes()).map_err(|e| fail(&e))?;
        Ok(output.commit()?)
    }

    fn report(&self, ui: &mut Ui, about: &About, windows: &Windows, done: &[Measured]) -> Outcome {
        if self.json {
            let document = json!({
                "model": json::path(&self.model),
                "path": json::path(&self.output),
                "library": library_json(about),
                "n_ctx": windows.n_ctx(),
                "windows": windows.len(),
                "tensors": done,
            });
            json::print(ui, 2, &document)?;
            return Ok(Verdict::Good);
        }
        if !self.quiet {
            let mut all: Vec<&Measured> = done.iter().collect();
            all.sort_by(|a, b| b.divergence.total_cmp(&a.divergence));
            let largest: Vec<String> = all
                .iter()
                .take(NAMED)
                .map(|t| format!("{} {:.5}", shown(Str(t.name.as_bytes())), t.divergence))
                .collect();
            let tensors = number(done.len() as u64, "tensor", "tensors");
            ui.note(&format!("{tensors}; the largest divergences: {}", largest.join(", ")));
        }
        ui.print_path(&self.output)?;
        Ok(Verdict::Good)
    }
}

/// Passes only cancellation on: the line shows windows, not bytes.
struct Quiet<'a>(&'a Watch);

impl gguf_pipeline::Progress for Quiet<'_> {
    fn event(&self, _: gguf_pipeline::Event<'_>) {}

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

impl Journal {
    /// Opens or creates a file of kept measurements, which other runs of the same output must not use.
    fn open(path: PathBuf, identity: String) -> Result<Journal, Failure> {
        let fail = |what: &str| Failure::CouldNotRun(format!("{}: {what}", path.display()));
        let file = File::options().read(true).append(true).create(true).open(&path);
        let mut file = file.map_err(|e| fail(&format!("cannot open: {e}")))?;
        file.try_lock().map_err(|_| fail("another run is writing this output"))?;
        let other = || {
            let message = "kept by a run with another model, text or options, or damaged";
            fail(message).with_help(Some("remove it to start over".to_owned()))
        };
        let mut lines = BufReader::new(&file).lines();
        let mut done = Vec::new();
        // Where the last whole line ends: a killed run may have left a part of one.
        let mut end = 0;
        match lines.next().transpose().map_err(|_| other())? {
            None => {
                let line = serde_json::to_string(&Kept { identity }).map_err(|e| fail(&e.to_string()))?;
                file.write_all(format!("{line}\n").as_bytes()).map_err(|e| fail(&format!("cannot write: {e}")))?;
                return Ok(Journal { file: Some(file), path, done });
            }
            Some(line) => {
                let kept: Kept = serde_json::from_str(&line).map_err(|_| other())?;
                if kept.identity != identity {
                    return Err(other());
                }
                end += line.len() as u64 + 1;
            }
        }
        for line in lines {
            let Ok(Ok(measured)) = line.as_ref().map(|line| serde_json::from_str::<Measured>(line)) else { break };
            end += line.map_or(0, |line| line.len() as u64 + 1);
            done.push(measured);
        }
        file.set_len(end)
            .and_then(|()| file.seek(SeekFrom::End(0)))
            .map_err(|e| fail(&format!("cannot write: {e}")))?;
        Ok(Journal { file: Some(file), path, done })
    }

    /// Adds a measurement.
    fn add(&mut self, measured: Measured) -> Result<(), Failure> {
        if let Some(file) = &mut self.file {
            let fail =
                |e: &dyn std::fmt::Display| Failure::CouldNotRun(format!("{}: cannot write: {e}", self.path.display()));
            let line = serde_json::to_string(&measured).map_err(|e| fail(&e))?;
            file.write_all(format!("{line}\n").as_bytes()).map_err(|e| fail(&e))?;
        }
        self.done.push(measured);
        Ok(())
    }
}
