//! `gguf diff`: compares two models.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use gguf_edit::diff::{DataDiff, Diff, DiffOptions, KeyDiff, Side, TensorDiff};
use gguf_format::{Str, Value, ValueRef};
use gguf_pipeline::report::TensorError;

use super::quantize::{cosine, number, relative};
use super::writing::tensors;
use crate::failure::{Outcome, Verdict};
use crate::text;
use crate::ui::{Column, Style, Table, Ui, grouped, visible, wrap};
use crate::watch::Watch;

mod json;

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
  gguf diff a.gguf b-00001-of-00003.gguf -q && echo same")]
pub struct Args {
    /// Reference model; any shard of a split model
    a: PathBuf,

    /// Model to compare with A
    b: PathBuf,

    /// Compare only keys, names, shapes and types; read no tensor data
    #[arg(short, long)]
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

    /// Number of threads; by default, one per processor
    #[arg(short = 'j', long, value_name = "N")]
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
        let watch = Watch::new(self.quiet);
        let options = DiffOptions::default().no_data(self.metadata).threads(self.threads);
        let diff = gguf_edit::diff(&self.a, &self.b, &options, &watch);
        watch.clear();
        let mut diff = diff?;
        self.sort(&mut diff.tensors);
        if self.json {
            json::print(ui, &self.a, &self.b, &diff)?;
        } else if !self.quiet {
            self.print(ui, &diff)?;
        }
        Ok(if diff.is_same() { Verdict::Good } else { Verdict::Bad })
    }

    fn sort(&self, tensors: &mut [TensorDiff]) {
        match self.sort {
            Sort::File => {}
            Sort::Name => tensors.sort_by(|a, b| a.name.cmp(&b.name)),
            Sort::Error => {
                // Differences without a numeric error come first.
                let error = |t: &TensorDiff| match &t.data {
                    DataDiff::Numbers(error) => error.figures().relative,
                    _ if t.is_same() => -1.0,
                    _ => f64::INFINITY,
                };
                tensors.sort_by(|a, b| error(b).total_cmp(&error(a)));
            }
        }
    }

    fn print(&self, ui: &mut Ui, diff: &Diff) -> io::Result<()> {
        if !diff.keys.is_empty() {
            self.print_keys(ui, &diff.keys)?;
            writeln!(ui.out)?;
        }
        let listed: Vec<&TensorDiff> = diff.tensors.iter().filter(|t| self.all || !t.is_same()).collect();
        if !listed.is_empty() {
            print_tensors(ui, &listed)?;
            writeln!(ui.out)?;
        }
        for line in sums(diff, self.metadata) {
            for line in wrap(&line, ui.width.unwrap_or(usize::MAX)) {
                writeln!(ui.out, "{line}")?;
            }
        }
        Ok(())
    }

    /// Prints keys with both values, then the differences of multi-line texts and of arrays.
    fn print_keys(&self, ui: &mut Ui, keys: &[KeyDiff]) -> io::Result<()> {
        let limit = match (self.full, ui.width) {
            (true, _) => None,
            (false, Some(width)) => Some(width.saturating_sub(8).max(20)),
            (false, None) => Some(PLAIN_LIMIT),
        };
        let shown = |value: &Option<Value>| value.as_ref().map(|v| text::value(v.as_ref(), limit)).unwrap_or_default();
        let ty = |value: &Option<Value>| value.as_ref().map(|v| text::type_name(v.as_ref()));
        let mut table = Table::new([
            Column::whole(""),
            Column::name("KEY").styled(Style::Cyan),
            Column::left("TYPE"),
            Column::text("A"),
            Column::text("B"),
        ]);
        for key in keys {
            let types = match (ty(&key.a), ty(&key.b)) {
                (Some(a), Some(b)) if a != b => format!("{a}, {b}"),
                (a, b) => a.or(b).unwrap_or_default(),
            };
            let sign = match (&key.a, &key.b) {
                (Some(_), None) => "-",
                (None, _) => "+",
                _ => "~",
            };
            let name = Str(&key.key).to_string();
            table.row([sign.to_owned(), name, types, shown(&key.a), shown(&key.b)]);
        }
        table.print(ui, 0)?;
        for key in keys {
            self.print_details(ui, key)?;
        }
        Ok(())
    }

    fn print_details(&self, ui: &mut Ui, key: &KeyDiff) -> io::Result<()> {
        if let Some(elements) = key.elements() {
            let at = elements.first.unwrap_or(0);
            let element = |value: &Option<Value>| {
                let array = value.as_ref().and_then(|v| v.as_ref().as_array());
                array
                    .and_then(|array| array.get(at))
                    .map_or("nothing".to_owned(), |v| text::value(v, Some(PLAIN_LIMIT)))
            };
            let (a, b) = (element(&key.a), element(&key.b));
            let [n, m] = elements.lens.map(grouped);
            let lens = if n == m { format!("{n} elements") } else { format!("{n} and {m} elements") };
            return writeln!(
                ui.out,
                "\n{}: {lens}, {} different; the first at {at}: {a} and {b}",
                Str(&key.key),
                grouped(elements.n_different),
            );
        }
        let lines = |value: &Option<Value>| match value {
            Some(Value::String(text)) if text.len() <= MAX_TEXT => Some(visible(text)),
            _ => None,
        };
        let (Some(a), Some(b)) = (lines(&key.a), lines(&key.b)) else { return Ok(()) };
        if !a.contains('\n') && !b.contains('\n') {
            return Ok(());
        }
        let title = ui.paint(Str(&key.key).to_string(), Style::Bold);
        writeln!(ui.out, "\n{title}")?;
        let diff = similar::TextDiff::from_lines(&a, &b);
        for (i, group) in diff.grouped_ops(3).iter().enumerate() {
            if i > 0 {
                writeln!(ui.out, "  ...")?;
            }
            for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                let (sign, style) = match change.tag() {
                    similar::ChangeTag::Delete => ("-", Style::Red),
                    similar::ChangeTag::Insert => ("+", Style::Green),
                    similar::ChangeTag::Equal => (" ", Style::Plain),
                };
                let line = format!("{sign} {}", change.value().trim_end_matches('\n'));
                let line = ui.paint(line, style);
                writeln!(ui.out, "{line}")?;
            }
        }
        Ok(())
    }
}

/// Prints the tensors and their figures. The last figures are omitted if they do not fit.
fn print_tensors(ui: &mut Ui, listed: &[&TensorDiff]) -> io::Result<()> {
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
        let shapes_differ = tensor.a.as_ref().zip(tensor.b.as_ref()).is_none_or(|(a, b)| a.shape != b.shape);
        let side = |side: &Option<Side>| match side {
            Some(side) if shapes_differ => format!("{} {}", side.ty, text::shape(side.shape.iter().copied())),
            Some(side) => side.ty.to_string(),
            None => String::new(),
        };
        let mut row = vec![sign.to_owned(), Str(&tensor.name).to_string(), side(&tensor.a), side(&tensor.b)];
        row.extend(match &tensor.data {
            DataDiff::Numbers(error) => figures(error),
            DataDiff::Bytes(Some(at)) => {
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

/// The JSON form of a value.
fn shown(value: ValueRef<'_>) -> crate::json::Shown<'_> {
    crate::json::Shown { value, full: true }
}
