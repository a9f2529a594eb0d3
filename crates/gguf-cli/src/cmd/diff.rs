//! `gguf diff`: compares two models.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use gguf_edit::diff::{DataDiff, Diff, DiffOptions, Elements, KeyDiff, TensorDiff};
use gguf_format::sort::CompactSort as _;
use gguf_format::{Str, TensorInfoRef, ValueRef};
use gguf_pipeline::report::TensorError;

use super::html::HtmlOptions;
use super::planned::{cosine, number, relative};
use super::writing::tensors;
use crate::failure::{Outcome, Verdict};
use crate::open;
use crate::text;
use crate::ui::{Column, Style, Table, Ui, grouped, visible, wrap};
use crate::watch::Watch;

mod json;
mod lines;

pub use json::JsonKey;

/// Maximum width of a value if standard output is not a terminal.
const PLAIN_LIMIT: usize = 60;

/// Maximum length of texts that are compared line by line.
const MAX_TEXT: usize = 1 << 20;

/// Compare the metadata, tensors and values of two models.
///
/// Shards, the order of keys and tensors, format versions and byte orders are ignored. Tensors of different types are
/// decoded and compared as numbers, with A as the reference, in the figures of `gguf quantize --report`. Multi-line
/// strings such as chat templates are compared line by line. The exit code is 0 if the models are the same, 1 if they
/// differ and 2 if they cannot be compared.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf diff model.gguf other.gguf
  gguf diff model-f16.gguf model-q4.gguf --sort error     quantization errors, largest first
  gguf diff a.gguf b.gguf --metadata                      compare no tensor data
  gguf diff a.gguf b.gguf --html diff.html                pictures of the types and errors of each layer
  gguf diff a.gguf b-00001-of-00003.gguf -q && echo same")]
pub struct Args {
    /// Reference model; any shard of a split model
    a: PathBuf,

    /// Model to compare with A
    b: PathBuf,

    /// Compare only keys, names, shapes and types; read no tensor data
    #[arg(long)]
    metadata: bool,

    /// Order of the tensors
    #[arg(long, value_name = "ORDER", value_enum, default_value = "file")]
    sort: Sort,

    /// Also list identical tensors
    #[arg(short, long)]
    all: bool,

    /// Do not truncate values
    #[arg(long)]
    full: bool,

    /// Print JSON with all details
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    html: HtmlOptions,

    /// Number of threads; by default, one per processor
    #[arg(short = 'j', long, value_name = "N", value_parser = crate::cmd::at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,

    /// Print nothing; set only the exit code
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Sort {
    /// Order of the models
    File,
    /// Relative error, largest first
    Error,
    /// Name
    Name,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let (a, b) = (open::model(&self.a)?, open::model(&self.b)?);
        let inputs: Vec<PathBuf> = a.files().iter().chain(b.files()).map(|file| file.path().to_owned()).collect();
        self.html.check(&inputs)?;
        let watch = Watch::new(self.quiet);
        let options = DiffOptions::default().no_data(self.metadata).threads(self.threads);
        let diff = gguf_edit::diff(a, b, &options, &watch);
        watch.clear();
        let mut diff = diff?;
        self.sort(&mut diff);
        self.html.write(&inputs, "gguf.diff/1", &json::document(&self.a, &self.b, &diff, false))?;
        if self.json {
            crate::json::print(ui, 3, &json::document(&self.a, &self.b, &diff, true))?;
        } else if !self.quiet {
            self.print(ui, &diff)?;
        }
        Ok(if diff.is_same() { Verdict::Good } else { Verdict::Bad })
    }

    fn sort(&self, diff: &mut Diff) {
        let mut tensors = std::mem::take(&mut diff.tensors);
        match self.sort {
            Sort::File => {}
            Sort::Name => tensors.compact_sort_by(|a, b| diff.infos(a).0.as_bytes().cmp(diff.infos(b).0.as_bytes())),
            Sort::Error => {
                // Differences without a numeric error come first.
                let error = |t: &TensorDiff| match &t.data {
                    DataDiff::Numbers(error) => error.figures().relative,
                    _ if t.is_same() => -1.0,
                    _ => f64::INFINITY,
                };
                tensors.compact_sort_by(|a, b| error(b).total_cmp(&error(a)));
            }
        }
        diff.tensors = tensors;
    }

    fn print(&self, ui: &mut Ui, diff: &Diff) -> io::Result<()> {
        if !diff.keys.is_empty() {
            print_keys(ui, self.full, ["A", "B"], diff.keys.iter().map(|key| diff.values(key)))?;
            writeln!(ui.out)?;
        }
        let listed: Vec<&TensorDiff> = diff.tensors.iter().filter(|t| self.all || !t.is_same()).collect();
        if !listed.is_empty() {
            print_tensors(ui, diff, &listed)?;
            writeln!(ui.out)?;
        }
        for line in sums(diff, self.metadata) {
            for line in wrap(&line, ui.width.unwrap_or(usize::MAX)) {
                writeln!(ui.out, "{line}")?;
            }
        }
        Ok(())
    }
}

/// Prints keys with the values of both sides, which `titles` name, then the differences of multi-line texts and of arrays. Values are
/// truncated unless `full`.
pub fn print_keys<'a>(
    ui: &mut Ui,
    full: bool,
    titles: [&'static str; 2],
    keys: impl Iterator<Item = (Str<'a>, [Option<ValueRef<'a>>; 2])> + Clone,
) -> io::Result<()> {
    let limit = match (full, ui.width) {
        (true, _) => None,
        (false, Some(width)) => Some(width.saturating_sub(8).max(20)),
        (false, None) => Some(PLAIN_LIMIT),
    };
    let shown = |value: Option<ValueRef<'_>>| value.map(|v| text::value(v, limit)).unwrap_or_default();
    let ty = |value: Option<ValueRef<'_>>| value.map(text::type_name);
    let [first, second] = titles;
    let mut table = Table::new([
        Column::whole(""),
        Column::name("KEY").styled(Style::Cyan),
        Column::left("TYPE"),
        Column::text(first),
        Column::text(second),
    ]);
    for (name, [a, b]) in keys.clone() {
        let types = match (ty(a), ty(b)) {
            (Some(a), Some(b)) if a != b => format!("{a}, {b}"),
            (a, b) => a.or(b).unwrap_or_default(),
        };
        let sign = match (a, b) {
            (Some(_), None) => "-",
            (None, _) => "+",
            _ => "~",
        };
        table.row([sign.to_owned(), name.to_string(), types, shown(a), shown(b)]);
    }
    table.print(ui, 0)?;
    for (name, values) in keys {
        if let [Some(a), Some(b)] = values {
            print_details(ui, name, a, b)?;
        }
    }
    Ok(())
}

/// Prints the differences of multi-line texts and of arrays.
fn print_details(ui: &mut Ui, name: Str<'_>, a: ValueRef<'_>, b: ValueRef<'_>) -> io::Result<()> {
    if let Some(elements) = Elements::of(a, b) {
        let at = elements.first.unwrap_or(0);
        let element = |value: ValueRef<'_>| {
            value
                .as_array()
                .and_then(|array| array.get(at))
                .map_or("nothing".to_owned(), |v| text::value(v, Some(PLAIN_LIMIT)))
        };
        let (a, b) = (element(a), element(b));
        let [n, m] = elements.lens.map(grouped);
        let lens = if n == m { format!("{n} elements") } else { format!("{n} and {m} elements") };
        return writeln!(
            ui.out,
            "\n{}: {lens}, {} different; the first at {at}: {a} and {b}",
            name,
            grouped(elements.n_different),
        );
    }
    let lines = |value: ValueRef<'_>| match value {
        ValueRef::String(text) if text.as_bytes().len() <= MAX_TEXT => Some(visible(text.as_bytes())),
        _ => None,
    };
    let (Some(a), Some(b)) = (lines(a), lines(b)) else { return Ok(()) };
    if !a.contains('\n') && !b.contains('\n') {
        return Ok(());
    }
    let title = ui.paint(name.to_string(), Style::Bold);
    writeln!(ui.out, "\n{title}")?;
    for (i, group) in lines::groups(&a, &b).into_iter().enumerate() {
        if i > 0 {
            writeln!(ui.out, "  ...")?;
        }
        for (side, line) in group {
            let (sign, style) = match side {
                lines::In::A => ("-", Style::Red),
                lines::In::B => ("+", Style::Green),
                lines::In::Both => (" ", Style::Plain),
            };
            let line = format!("{sign} {}", line.trim_end_matches('\n'));
            let line = ui.paint(line, style);
            writeln!(ui.out, "{line}")?;
        }
    }
    Ok(())
}

/// Prints the tensors and their figures. The last figures are omitted if they do not fit.
fn print_tensors(ui: &mut Ui, diff: &Diff, listed: &[&TensorDiff]) -> io::Result<()> {
    let columns = [
        Column::whole(""),
        Column::name("TENSOR").styled(Style::Cyan),
        Column::left("A"),
        Column::left("B"),
        Column::right("RMSE"),
        Column::right("RELATIVE"),
        Column::right("COSINE").left_out(3),
        Column::right("LARGEST").left_out(2),
        Column::text("AT").left_out(1),
    ];
    let mut table = Table::new(columns);
    for tensor in listed {
        let sign = match (&tensor.a, &tensor.b) {
            (Some(_), None) => "-",
            (None, _) => "+",
            _ if tensor.is_same() => "=",
            _ => "~",
        };
        let (name, [a, b]) = diff.infos(tensor);
        let shapes_differ = a.zip(b).is_none_or(|(a, b)| !a.dims.eq(b.dims));
        let side = |side: Option<TensorInfoRef<'_>>| match side {
            Some(side) if shapes_differ => format!("{} {}", side.ty, text::shape(side.dims)),
            Some(side) => side.ty.to_string(),
            None => String::new(),
        };
        let mut row = vec![sign.to_owned(), name.to_string(), side(a), side(b)];
        row.extend(match (&tensor.data, tensor.first_different) {
            (DataDiff::Numbers(error), _) => figures(error),
            (DataDiff::Bytes, Some(at)) => {
                let at = format!("byte {at}; not decoded");
                [String::new(), String::new(), String::new(), String::new(), at]
            }
            _ => Default::default(),
        });
        table.row(row);
    }
    table.print(ui, 0)
}

fn figures(error: &TensorError) -> [String; 5] {
    let figures = error.figures();
    let (largest, at) = match figures.largest {
        Some(l) => (number(l.error), format!("row {}, column {}", l.row, l.column)),
        None => (number(0.0), String::new()),
    };
    let at = match error.not_finite() {
        0 => at,
        n => format!("{at}{}{} not finite", if at.is_empty() { "" } else { "; " }, grouped(n)),
    };
    [number(figures.rmse), relative(figures.relative), cosine(figures.cosine), largest, at]
}

/// A summary in a few sentences.
fn sums(diff: &Diff, is_metadata: bool) -> Vec<String> {
    let count = |of: &dyn Fn(&TensorDiff) -> bool| diff.tensors.iter().filter(|t| of(t)).count() as u64;
    let only_a = count(&|t| t.b.is_none());
    let only_b = count(&|t| t.a.is_none());
    let same = count(&TensorDiff::is_same);
    let differ = diff.tensors.len() as u64 - only_a - only_b - same;
    let list = |same: u64, differ: u64, only_a: u64, only_b: u64| {
        let parts = [(same, "the same"), (differ, "different"), (only_a, "only in A"), (only_b, "only in B")];
        let parts: Vec<String> =
            parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", grouped(*n))).collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
    };
    let keys = |of: fn(&KeyDiff) -> bool| diff.keys.iter().filter(|k| of(k)).count() as u64;
    let (key_a, key_b) = (keys(|k| k.b.is_none()), keys(|k| k.a.is_none()));
    let mut lines = vec![
        format!("keys: {}", list(diff.n_same_keys as u64, diff.keys.len() as u64 - key_a - key_b, key_a, key_b)),
        format!(
            "tensors: {}{}",
            list(same, differ, only_a, only_b),
            if is_metadata { "; data not compared" } else { "" }
        ),
    ];
    let n = count(&|t| matches!(t.data, DataDiff::Numbers(_)));
    if n > 0 {
        let f = diff.total().figures();
        lines.push(format!(
            "{} compared as numbers: RMSE {}, relative {}, cosine {}",
            tensors(n),
            number(f.rmse),
            relative(f.relative),
            cosine(f.cosine)
        ));
    }
    lines
}
