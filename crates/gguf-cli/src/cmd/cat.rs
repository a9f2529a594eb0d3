//! `gguf cat`: statistics, a histogram and the values of a tensor.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;

use gguf_edit::stats::Stats;
use gguf_format::{GgmlType, ValueRef};
use gguf_io::Tensor;
use serde::Serialize;

use crate::failure::{Failure, Outcome, Verdict};
use crate::json;
use crate::open;
use crate::text::shape;
use crate::ui::{Style, Ui, digits, grouped, percent, rounded, size};
use crate::watch::Watch;

/// Width of the longest bar if standard output is not a terminal.
const PLAIN_BAR: usize = 50;

/// Number of values of a row decoded at once.
const ROWS_AT_ONCE: u64 = 1 << 16;

/// Show statistics and a histogram of a tensor, or its values.
///
/// Quantized values are decoded to the same bits as by ggml. NaN and infinite values are counted and excluded from all
/// other statistics. With --values, each row of the tensor is one line, and each value has the fewest digits that read
/// back as the same number.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf cat model.gguf output_norm.weight
  gguf cat model.gguf token_embd.weight --values --rows 0..10 > rows.txt
  gguf cat model.gguf blk.0.ffn_down.weight --json")]
pub struct Args {
    /// GGUF model; any shard of a split model
    model: PathBuf,

    /// Tensor name
    tensor: String,

    /// Print the values instead of statistics
    #[arg(long)]
    values: bool,

    /// With --values, print rows A to B - 1, counted from 0
    #[arg(long, value_name = "A..B", value_parser = parse_rows, requires = "values")]
    rows: Option<Range<u64>>,

    /// Number of histogram bars
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u16).range(1..=1000))]
    bins: u16,

    /// Print JSON
    #[arg(long, conflicts_with = "values")]
    json: bool,

    /// Number of threads; by default, one per processor
    #[arg(short = 'j', long, value_name = "N", value_parser = crate::cmd::at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,
}

/// Parses `3..7`, `3..`, `..7`, or `3` for one row.
fn parse_rows(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str, default| match text {
        "" => Ok(default),
        text => text.parse::<u64>().map_err(|_| "expected A..B, as in 0..10".to_owned()),
    };
    match text.split_once("..") {
        Some((a, b)) => Ok(number(a, 0)?..number(b, u64::MAX)?),
        None => {
            let row = text.parse::<u64>().map_err(|_| "expected A..B, as in 0..10".to_owned())?;
            Ok(row..row.saturating_add(1))
        }
    }
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        if self.values {
            return self.print_values(ui);
        }
        let (model, watch) = (open::model(&self.model)?, Watch::new(false));
        let stats = gguf_edit::stats(model, &self.tensor, self.bins.into(), self.threads, &watch);
        watch.clear();
        let stats = stats?;
        if self.json {
            self.print_json(ui, &stats)?
        } else {
            self.print(ui, &stats)?
        }
        Ok(Verdict::Good)
    }

    fn print_values(&self, ui: &mut Ui) -> Outcome {
        let model = open::model(&self.model)?;
        let tensor = model.tensor(&self.tensor)?;
        let n_rows = tensor.n_rows();
        let rows = match &self.rows {
            Some(rows)
                if rows.start > n_rows || (rows.end != u64::MAX && rows.end > n_rows) || rows.start > rows.end =>
            {
                let (a, b) = (rows.start, rows.end);
                return Err(Failure::Bad(format!(
                    "{}: tensor {} has {} rows; rows {a} to {b} are out of range",
                    self.model.display(),
                    tensor.name(),
                    grouped(n_rows),
                )));
            }
            Some(rows) => rows.start..rows.end.min(n_rows),
            None => 0..n_rows,
        };
        let step = (ROWS_AT_ONCE / tensor.row_len().max(1)).max(1);
        let mut at = rows.start;
        while at < rows.end {
            let until = at.saturating_add(step).min(rows.end);
            print_rows(ui, &tensor.rows(at..until)?)?;
            at = until;
        }
        Ok(Verdict::Good)
    }

    fn print(&self, ui: &mut Ui, stats: &Stats) -> io::Result<()> {
        ui.title(self.tensor.as_ref())?;
        let bytes = stats.ty.tensor_bytes(stats.shape.iter().copied()).unwrap_or(0);
        let number = |x: Option<f64>| x.map_or("-".to_owned(), digits);
        let mut fields = vec![
            ("Shape", shape(stats.shape.iter().copied())),
            ("Type", format!("{}, {}", stats.ty, size(bytes))),
            ("Values", grouped(stats.n)),
            ("Range", format!("{} to {}", number(stats.min.map(f64::from)), number(stats.max.map(f64::from)))),
            ("Mean", number(stats.mean)),
            ("Deviation", number(stats.stddev)),
            ("RMS", number(stats.rms)),
            ("Zeros", format!("{} ({})", grouped(stats.zeros), percent(stats.zeros, stats.n))),
            ("Outliers", format!("{} (magnitude above 6 RMS)", grouped(stats.outliers))),
        ];
        if stats.nan + stats.infinite > 0 {
            let not = format!("{} not a number, {} infinite", grouped(stats.nan), grouped(stats.infinite));
            fields.push(("Not finite", not));
        }
        for (label, value) in fields {
            ui.field(&format!("  {label:12}"), Style::Dim, &value)?;
        }
        let (Some(min), Some(max)) = (stats.min.map(f64::from), stats.max.map(f64::from)) else { return Ok(()) };
        writeln!(ui.out)?;
        let n_bins = stats.histogram.len();
        let most = stats.histogram.iter().copied().max().unwrap_or(0).max(1);
        let width = (max - min) / n_bins.max(1) as f64;
        let labels: Vec<String> = (0..n_bins).map(|i| digits(min + width * i as f64)).collect();
        let counts: Vec<String> = stats.histogram.iter().map(|&n| grouped(n)).collect();
        let widest = |texts: &[String]| texts.iter().map(String::len).max().unwrap_or(0);
        let (label_width, count_width) = (widest(&labels), widest(&counts));
        let columns = ui.width.map_or(PLAIN_BAR, |w| w.saturating_sub(label_width + count_width + 6).max(1));
        for ((label, count), &n) in labels.iter().zip(&counts).zip(&stats.histogram) {
            write!(ui.out, "  {label:>label_width$}  {count:>count_width$}")?;
            if n > 0 {
                let bar = ui.paint(bar(n, most, columns), Style::Cyan);
                write!(ui.out, "  {bar}")?;
            }
            writeln!(ui.out)?;
        }
        Ok(())
    }

    fn print_json(&self, ui: &mut Ui, stats: &Stats) -> io::Result<()> {
        let document = JsonStats {
            model: json::path(&self.model),
            tensor: &self.tensor,
            r#type: stats.ty.to_string(),
            shape: &stats.shape,
            n: stats.n,
            nan: stats.nan,
            infinite: stats.infinite,
            zeros: stats.zeros,
            min: stats.min.map(|v| json::Shown { value: ValueRef::F32(v), full: true }),
            max: stats.max.map(|v| json::Shown { value: ValueRef::F32(v), full: true }),
            mean: stats.mean,
            stddev: stats.stddev,
            rms: stats.rms,
            outliers: stats.outliers,
            histogram: &stats.histogram,
        };
        json::print(ui, 1, &document)
    }
}

fn print_rows(ui: &mut Ui, rows: &Tensor<'_>) -> Result<(), Failure> {
    let row_len = usize::try_from(rows.row_len()).unwrap_or(usize::MAX).max(1);
    // Single precision does not represent all values of these types, so they are printed from their bytes.
    let width = match rows.ty() {
        GgmlType::I32 => 4,
        GgmlType::I64 | GgmlType::F64 => 8,
        _ => {
            for row in rows.to_f32()?.chunks(row_len) {
                print_row(ui, row.iter().map(|value| format!("{value:?}")))?;
            }
            return Ok(());
        }
    };
    let bytes = rows.bytes()?;
    for row in bytes.chunks(row_len.saturating_mul(width)) {
        let values = row.chunks_exact(width).map(|bytes| match (rows.ty(), bytes.first_chunk(), bytes.first_chunk()) {
            (GgmlType::I32, Some(four), _) => i32::from_le_bytes(*four).to_string(),
            (GgmlType::I64, _, Some(eight)) => i64::from_le_bytes(*eight).to_string(),
            (_, _, Some(eight)) => format!("{:?}", f64::from_le_bytes(*eight)),
            _ => String::new(),
        });
        print_row(ui, values)?;
    }
    Ok(())
}

/// Prints values separated by spaces.
fn print_row(ui: &mut Ui, values: impl Iterator<Item = String>) -> io::Result<()> {
    for (i, value) in values.enumerate() {
        write!(ui.out, "{}{value}", if i == 0 { "" } else { " " })?;
    }
    writeln!(ui.out)
}

/// A bar proportional to `n / most`; any `n` above 0 gets a visible bar.
fn bar(n: u64, most: u64, columns: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = rounded(n as f64 / most as f64 * columns as f64 * 8.0);
    let eighths = if n > 0 { eighths.max(1) } else { 0 };
    "█".repeat(eighths / 8) + EIGHTHS.get(eighths % 8).copied().unwrap_or_default()
}

#[derive(Serialize)]
struct JsonStats<'a> {
    model: json::Text<'a>,
    tensor: &'a str,
    r#type: String,
    shape: &'a [u64],
    n: u64,
    nan: u64,
    infinite: u64,
    zeros: u64,
    min: Option<json::Shown<'static>>,
    max: Option<json::Shown<'static>>,
    mean: Option<f64>,
    stddev: Option<f64>,
    rms: Option<f64>,
    /// Number of finite values with a magnitude above six times `rms`.
    outliers: u64,
    /// Number of values in each of the equal intervals from `min` to `max`.
    histogram: &'a [u64],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_ranges() {
        for (text, rows) in [
            ("0..10", Some(0..10)),
            ("3..", Some(3..u64::MAX)),
            ("..7", Some(0..7)),
            ("5", Some(5..6)),
            ("", None),
            ("a..b", None),
            ("-1", None),
        ] {
            assert_eq!(parse_rows(text).ok(), rows, "{text}");
        }
    }

    #[test]
    fn bars_show_all_there_is() {
        assert_eq!(bar(0, 10, 4), "");
        assert_eq!(bar(1, 1_000_000, 4), "▏");
        assert_eq!(bar(10, 10, 4), "████");
        assert_eq!(bar(5, 10, 3), "█▌");
    }
}
