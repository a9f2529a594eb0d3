//! `gguf kld`: how far models diverge from the model that they were made from.

use std::fs::File;
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use gguf_engine::base::{BaseFile, StoredRows};
use gguf_engine::{
    About, BaseRow, Child, Comparison, Engine as _, Estimate, Loaded, Observe, Scores, Statistics, Windows, median,
    percentile,
};
use gguf_pipeline::Progress as _;
use serde_json::{Map, Value, json};

use super::evaluation::{
    Checked, Library, WindowArgs, estimate_json, library_json, library_text, scored_text, text_of, windows_of,
};
use crate::failure::{Failure, Outcome, Verdict};
use crate::json;
use crate::ui::{Column, Style, Table, Ui, grouped, shown_path};
use crate::watch::Watch;

/// Measure how far quantized models diverge from their original on a text.
///
/// For each scored token of the text, the probabilities of a model are compared with those of the original: the
/// Kullback-Leibler divergence (KLD, in nats), the perplexities, and the probability of the right token. All models are
/// evaluated side by side and are in memory at once; nothing is written. With --base, the probabilities of the original
/// come from a file of llama-perplexity --kl-divergence-base, which has the text as well. Such files raise
/// probabilities that are very small, so their perplexities are too low; the statistics are then those of
/// llama-perplexity --kl-divergence. Uncertainties are one standard error. With --max-kld, the exit code is 1 if the
/// mean divergence of a model is larger. `gguf engine` shows the library that is used.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf kld model-BF16.gguf model-Q4_K_M.gguf text.txt
  gguf kld model-BF16.gguf model-Q3_K_M.gguf model-Q4_K_M.gguf text.txt --chunks 40
  gguf kld --base base.kld model-Q4_K_M.gguf
  gguf kld model-BF16.gguf model-Q4_K_M.gguf text.txt --max-kld 0.05
  gguf kld model-BF16.gguf model-Q4_K_M.gguf text.txt --json | jq '.models[0].kld.mean'")]
pub struct Args {
    /// The original model, the models to compare, and the text; with --base, only the models to compare
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// File of the original's probabilities, of llama-perplexity or gguf perplexity --save-base
    #[arg(long, alias = "kl-divergence-base", value_name = "FILE", conflicts_with = "ctx")]
    base: Option<PathBuf>,

    /// Exit with 1 if the mean divergence of a model is larger
    #[arg(long, value_name = "NATS", value_parser = nats)]
    max_kld: Option<f64>,

    #[command(flatten)]
    windows: WindowArgs,

    #[command(flatten)]
    library: Library,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print no progress
    #[arg(short, long)]
    quiet: bool,
}

fn nats(text: &str) -> Result<f64, String> {
    let nats = text.parse::<f64>().ok().filter(|x| x.is_finite() && *x >= 0.0);
    nats.ok_or_else(|| "expected a number, such as 0.05".to_owned())
}

/// A compared model.
struct Compared<'a> {
    path: &'a Path,
    engine: Child,
    loaded: Loaded,
    comparison: Comparison,
}

/// The probabilities of the original.
enum Base {
    /// The original is evaluated, too. The logits are those of the current window.
    Model { engine: Child, loaded: Loaded, scores: Scores, logits: Vec<f32> },
    /// A file has the probabilities. The rows are those of the current window.
    File { path: PathBuf, file: BaseFile<File>, rows: StoredRows },
}

impl Base {
    fn n_vocab(&self) -> usize {
        match self {
            Base::Model { loaded, .. } => loaded.n_vocab,
            Base::File { file, .. } => file.n_vocab(),
        }
    }

    /// Evaluates a group of windows.
    fn evaluate(&mut self, windows: &Windows, group: Range<usize>) -> Result<(), Failure> {
        if let Base::Model { engine, scores, .. } = self {
            *scores = windows.evaluate(engine, group, false)?;
        }
        Ok(())
    }

    /// Goes to the next window, whose number in its group is given.
    fn next(&mut self, windows: &Windows, in_group: usize) -> Result<(), Failure> {
        match self {
            Base::Model { engine, scores, logits, .. } => *logits = windows.logits(engine, scores, in_group)?,
            Base::File { path, file, rows } => {
                file.read_window(windows).map_err(|e| of_file(path, &e))?;
                *rows = file.rows();
            }
        }
        Ok(())
    }

    /// The probabilities after a scored token of the window.
    fn row(&self, i: usize) -> BaseRow<'_> {
        match self {
            Base::Model { logits, loaded: Loaded { n_vocab, .. }, .. } => {
                BaseRow::Logits(logits.get(i * n_vocab..(i + 1) * n_vocab).unwrap_or_default())
            }
            Base::File { rows, .. } => rows.row(i),
        }
    }
}

/// The failure of a file of probabilities.
fn of_file(path: &Path, e: &gguf_engine::Error) -> Failure {
    Failure::Bad(format!("{}: {e}", path.display())).with_help(crate::hints::for_engine(e.kind()))
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let watch = Watch::new(self.quiet);
        let (windows, compared) = match (&self.base, self.files.as_slice()) {
            (Some(base), models) => self.with_file(&watch, base, models)?,
            (None, [base, models @ .., text]) if !models.is_empty() => self.side_by_side(&watch, base, models, text)?,
            _ => {
                let problem = "expected the original model, a model to compare, and a text";
                let help = "with --base, the text and the original's probabilities come from a file".to_owned();
                return Err(Failure::CouldNotRun(problem.to_owned()).with_help(Some(help)));
            }
        };
        watch.clear();
        let all: Vec<(&Path, Statistics)> = compared.iter().map(|c| (c.path, c.comparison.statistics())).collect();
        if let Some(first) = compared.first() {
            self.print(ui, first.engine.about(), &windows, &all)?;
        }
        let is_over = |s: &Statistics| self.max_kld.is_some_and(|max| s.kld.value > max);
        let over: Vec<&(&Path, Statistics)> = all.iter().filter(|(_, s)| is_over(s)).collect();
        for (path, s) in &over {
            let max = self.max_kld.unwrap_or_default();
            ui.warning(&format!("{}: the mean divergence is {:.6}, above {max}", shown_path(path), s.kld.value));
        }
        Ok(if over.is_empty() { Verdict::Good } else { Verdict::Bad })
    }

    /// Loads the models to compare.
    fn loaded<'a>(
        &self,
        watch: &Watch,
        models: &'a [PathBuf],
        checked: &[Checked],
        n_vocab: usize,
    ) -> Result<Vec<Compared<'a>>, Failure> {
        let mut compared = Vec::new();
        for (path, checked) in models.iter().zip(checked) {
            let mut engine = self.library.start(watch)?;
            let loaded = checked.load(&mut engine)?;
            if loaded.n_vocab != n_vocab {
                let message = format!(
                    "{}: the vocabulary has {} tokens; expected {}, as in the original",
                    path.display(),
                    grouped(loaded.n_vocab as u64),
                    grouped(n_vocab as u64)
                );
                return Err(Failure::Bad(message));
            }
            compared.push(Compared { path, engine, loaded, comparison: Comparison::default() });
        }
        Ok(compared)
    }

    fn side_by_side<'a>(
        &self,
        watch: &Watch,
        base: &Path,
        models: &'a [PathBuf],
        text: &PathBuf,
    ) -> Result<(Windows, Vec<Compared<'a>>), Failure> {
        let base = Checked::new(base)?;
        let checked = models.iter().map(|path| Checked::new(path)).collect::<Result<Vec<_>, _>>()?;
        let text = text_of(std::slice::from_ref(text))?;
        let mut engine = self.library.start(watch)?;
        let loaded = base.load(&mut engine)?;
        let windows = windows_of(&mut engine, &loaded, &text, self.windows.options())?;
        engine.prepare(&windows.context(Observe::Nothing))?;
        let base = Base::Model { engine, loaded, scores: Scores::InEngine, logits: Vec::new() };
        let mut compared = self.loaded(watch, models, &checked, base.n_vocab())?;
        compare(watch, &windows, base, &mut compared)?;
        Ok((windows, compared))
    }

    fn with_file<'a>(
        &self,
        watch: &Watch,
        path: &Path,
        models: &'a [PathBuf],
    ) -> Result<(Windows, Vec<Compared<'a>>), Failure> {
        let file = gguf_io::open_regular(path)?;
        let bytes = file.metadata().map_or(0, |data| data.len());
        let file = BaseFile::new(file, bytes).map_err(|e| of_file(path, &e))?;
        let checked = models.iter().map(|path| Checked::new(path)).collect::<Result<Vec<_>, _>>()?;
        let mut compared = self.loaded(watch, models, &checked, file.n_vocab())?;
        let loaded = compared.first().map(|c| c.loaded.clone()).unwrap_or_default();
        let windows = file.windows(&loaded, self.windows.options()).map_err(|e| of_file(path, &e))?;
        let rows = file.rows();
        compare(watch, &windows, Base::File { path: path.to_owned(), file, rows }, &mut compared)?;
        Ok((windows, compared))
    }

    fn source(&self) -> (&Path, Option<&Path>) {
        match (&self.base, self.files.as_slice()) {
            (Some(base), _) => (base, None),
            (None, [base, .., text]) => (base, Some(text)),
            (None, _) => (Path::new(""), None),
        }
    }

    fn print(&self, ui: &mut Ui, about: &About, windows: &Windows, all: &[(&Path, Statistics)]) -> std::io::Result<()> {
        let (base, text) = self.source();
        let n_scored = all.first().map_or(0, |(_, s)| s.count as u64);
        if self.json {
            let models: Vec<Value> = all.iter().map(|(path, s)| json_of(path, s)).collect();
            let document = json!({
                "base": json::path(base),
                "text": text.map(json::path),
                "library": library_json(about),
                "n_ctx": windows.n_ctx(),
                "windows": windows.len(),
                "tokens": n_scored,
                "max_kld": self.max_kld,
                "models": models,
            });
            return json::print(ui, 3, &document);
        }
        ui.field("  Original  ", Style::Dim, &shown_path(base))?;
        ui.field("  Text      ", Style::Dim, &scored_text(text, windows, n_scored))?;
        ui.field("  Library   ", Style::Dim, &library_text(about))?;
        writeln!(ui.out)?;
        let mut columns = vec![Column::left("STATISTIC")];
        columns.extend(all.iter().map(|_| Column::right("")));
        let mut table = Table::new(columns);
        table.row(
            std::iter::once("model".to_owned()).chain(all.iter().map(|(path, _)| name_of(path))).collect::<Vec<_>>(),
        );
        let rows: Vec<Vec<(&str, String)>> = all.iter().map(|(_, s)| rows_of(s)).collect();
        for (i, (label, _)) in rows.first().into_iter().flatten().enumerate() {
            let values = rows.iter().filter_map(|rows| rows.get(i)).map(|(_, value)| value.clone());
            table.row(std::iter::once((*label).to_owned()).chain(values).collect::<Vec<_>>());
        }
        table.print(ui, 2)
    }
}

/// Evaluates the models window after window, and compares them with the original.
fn compare(watch: &Watch, windows: &Windows, mut base: Base, compared: &mut [Compared<'_>]) -> Result<(), Failure> {
    compared.iter_mut().try_for_each(|c| c.engine.prepare(&windows.context(Observe::Nothing)))?;
    for group in windows.groups(0) {
        base.evaluate(windows, group.clone())?;
        let mut scores = Vec::new();
        for c in &mut *compared {
            scores.push(windows.evaluate(&mut c.engine, group.clone(), false)?);
        }
        for (i, window) in group.enumerate() {
            base.next(windows, i)?;
            for (c, scores) in compared.iter_mut().zip(&mut scores) {
                let logits = windows.logits(&mut c.engine, scores, i)?;
                c.comparison.add(windows, window, &logits, |i| base.row(i))?;
            }
            progress(watch, windows, window, compared)?;
        }
    }
    Ok(())
}

/// Shows progress, or ends the work if it was interrupted.
fn progress(watch: &Watch, windows: &Windows, window: usize, compared: &[Compared<'_>]) -> Result<(), Failure> {
    let means: Vec<String> = compared.iter().map(|c| format!("{:.5}", c.comparison.mean())).collect();
    watch.step(window + 1, windows.len(), &format!("windows, mean divergence {}", means.join(" ")));
    match watch.is_cancelled() {
        true => Err(gguf_engine::Error::new(gguf_engine::ErrorKind::Cancelled, "cancelled").into()),
        false => Ok(()),
    }
}

/// The file name of a model without its extension.
fn name_of(path: &Path) -> String {
    path.file_stem().map_or_else(|| shown_path(path), |stem| shown_path(Path::new(stem)))
}

/// Names of percentiles of the divergence, from large to small.
const OF_KLD: &[(&str, &str, f32)] = &[
    ("KLD 99.9 %", "p99_9", 0.999),
    ("KLD 99 %", "p99", 0.990),
    ("KLD 95 %", "p95", 0.950),
    ("KLD 90 %", "p90", 0.900),
    ("KLD median", "median", 0.5),
    ("KLD 10 %", "p10", 0.100),
    ("KLD 5 %", "p5", 0.050),
    ("KLD 1 %", "p1", 0.010),
    ("KLD 0.1 %", "p0_1", 0.001),
];

/// Names of percentiles of the difference in probability.
const OF_DIFFERENCE: &[(&str, &str, f32)] = &[
    ("Δp 99.9 %", "p99_9", 0.999),
    ("Δp 99 %", "p99", 0.990),
    ("Δp 95 %", "p95", 0.950),
    ("Δp 90 %", "p90", 0.900),
    ("Δp 75 %", "p75", 0.750),
    ("Δp median", "median", 0.5),
    ("Δp 25 %", "p25", 0.250),
    ("Δp 10 %", "p10", 0.100),
    ("Δp 5 %", "p5", 0.050),
    ("Δp 1 %", "p1", 0.010),
    ("Δp 0.1 %", "p0_1", 0.001),
];

/// A percentile by its name; the median is the mean of the two values in the middle.
fn of(sorted: &[f32], name: &str, fraction: f32) -> f32 {
    if name == "median" { median(sorted) } else { percentile(sorted, fraction) }
}

/// The statistics as text, with the digits of llama-perplexity.
fn rows_of(s: &Statistics) -> Vec<(&'static str, String)> {
    let six = |e: Estimate| format!("{:.6} ± {:.6}", e.value, e.error);
    let percent = |e: Estimate| format!("{:.3} ± {:.3} %", 100.0 * e.value, 100.0 * e.error);
    let share = |value: f32| format!("{:.3} %", 100.0 * value);
    let last = |values: &[f32]| values.last().copied().unwrap_or(f32::NAN);
    let first = |values: &[f32]| values.first().copied().unwrap_or(f32::NAN);
    let mut rows = vec![
        ("PPL", six(s.perplexity)),
        ("PPL of the original", six(s.base_perplexity)),
        ("correlation of ln PPL", format!("{:.2} %", 100.0 * s.correlation)),
        ("ln of the PPL ratio", six(s.log_ratio)),
        ("PPL ratio", six(s.ratio)),
        ("PPL difference", six(s.difference)),
        ("KLD mean", six(s.kld)),
        ("KLD maximum", format!("{:.6}", last(&s.klds))),
    ];
    rows.extend(OF_KLD.iter().map(|(label, name, f)| (*label, format!("{:.6}", of(&s.klds, name, *f)))));
    rows.push(("KLD minimum", format!("{:.6}", first(&s.klds))));
    rows.push(("Δp mean", percent(s.p_diff)));
    rows.push(("Δp maximum", share(last(&s.p_diffs))));
    rows.extend(OF_DIFFERENCE.iter().map(|(label, name, f)| (*label, share(of(&s.p_diffs, name, *f)))));
    rows.push(("Δp minimum", share(first(&s.p_diffs))));
    rows.push(("Δp RMS", percent(s.p_diff_rms)));
    rows.push(("same top token", percent(s.same_top)));
    rows
}

fn json_of(path: &Path, s: &Statistics) -> Value {
    let mut kld = Map::new();
    kld.insert("mean".to_owned(), estimate_json(s.kld));
    kld.insert("maximum".to_owned(), s.klds.last().copied().into());
    kld.extend(OF_KLD.iter().map(|(_, name, f)| ((*name).to_owned(), of(&s.klds, name, *f).into())));
    kld.insert("minimum".to_owned(), s.klds.first().copied().into());
    let mut p_diff = Map::new();
    p_diff.insert("mean".to_owned(), estimate_json(s.p_diff));
    p_diff.insert("maximum".to_owned(), s.p_diffs.last().copied().into());
    p_diff.extend(OF_DIFFERENCE.iter().map(|(_, name, f)| ((*name).to_owned(), of(&s.p_diffs, name, *f).into())));
    p_diff.insert("minimum".to_owned(), s.p_diffs.first().copied().into());
    p_diff.insert("rms".to_owned(), estimate_json(s.p_diff_rms));
    json!({
        "path": json::path(path),
        "perplexity": estimate_json(s.perplexity),
        "base_perplexity": estimate_json(s.base_perplexity),
        "correlation": s.correlation,
        "ln_ratio": estimate_json(s.log_ratio),
        "ratio": estimate_json(s.ratio),
        "difference": estimate_json(s.difference),
        "kld": kld,
        "p_diff": p_diff,
        "same_top": estimate_json(s.same_top),
    })
}
