//! The report of a run: the quantization error of each tensor.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::PathBuf;

use gguf_format::{Str, ValueRef};
use gguf_pipeline::plan::{Plan, TensorPlan};
use gguf_pipeline::report::{Figures, Measured, Report, TensorError, TensorReport};
use serde::{Serialize, Serializer};

use crate::cmd::writing::{Hashing, WrittenFile, print_written, tensors};
use crate::failure::Failure;
use crate::json;
use crate::ui::{Column, Style, Table, Ui, bits_per_weight, count, rounded, wrap};

/// The content of standard output after a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// The path of the file, or the paths of its shards.
    Path,
    /// The report as a table, followed by the paths.
    Report,
    /// The report as JSON, including the paths.
    Json,
}

impl Shown {
    /// The content that `--report` and `--json` request.
    pub fn of(report: bool, json: bool) -> Shown {
        match (report, json) {
            (false, _) => Shown::Path,
            (true, false) => Shown::Report,
            (true, true) => Shown::Json,
        }
    }

    /// Prints the report of a plan's run and the paths.
    ///
    /// # Errors
    /// If standard output cannot be written, or if a file to hash cannot be read back.
    pub fn print(
        self,
        ui: &mut Ui,
        plan: &Plan,
        report: &Report,
        paths: &[PathBuf],
        hashing: Hashing,
    ) -> Result<(), Failure> {
        match self {
            Shown::Path => {}
            Shown::Report => print(ui, plan, report)?,
            Shown::Json => return Ok(json::print(ui, 3, &json_report(plan, report, hashing.files(paths)?))?),
        }
        print_written(ui, paths, hashing)
    }
}

/// Prints a table of all changed tensors, and the totals.
fn print(ui: &mut Ui, plan: &Plan, report: &Report) -> io::Result<()> {
    let weighted = report.tensors.iter().any(|t| t.error.weighted().is_some());
    let mut columns = vec![
        Column::name("TENSOR").styled(Style::Cyan),
        Column::left("FROM").left_out(3),
        Column::left("TO"),
        Column::right("RMSE").left_out(5),
        Column::right("RELATIVE"),
        Column::right("COSINE").left_out(4),
        Column::right("LARGEST").left_out(2),
        Column::left("AT").left_out(1),
    ];
    if weighted {
        columns.extend([Column::right("WEIGHTED"), Column::right("COSINE").left_out(4)]);
    }
    let mut table = Table::new(columns);
    for (tensor, TensorReport { error, .. }) in reported(plan, report) {
        let figures = error.figures();
        let (largest, at) = match figures.largest {
            Some(l) => (number(l.error), format!("row {}, column {}", l.row, l.column)),
            None => (number(0.0), String::new()),
        };
        let name = Str(&tensor.name).to_string();
        let mut row = vec![name, tensor.from.to_string(), tensor.ty.to_string()];
        row.extend([number(figures.rmse), relative(figures.relative), cosine(figures.cosine), largest, at]);
        if weighted {
            let figures = error.weighted();
            row.push(figures.map_or(String::new(), |f| relative(f.relative)));
            row.push(figures.map_or(String::new(), |f| cosine(f.cosine)));
        }
        table.row(row);
    }
    table.print(ui, 0)?;
    writeln!(ui.out)?;
    for line in sums(plan, report) {
        for line in wrap(&line, ui.width.unwrap_or(usize::MAX)) {
            writeln!(ui.out, "{line}")?;
        }
    }
    Ok(())
}

/// The tensors of a report, with their plans.
fn reported<'a>(plan: &'a Plan, report: &'a Report) -> impl Iterator<Item = (&'a TensorPlan, &'a TensorReport)> {
    report.tensors.iter().filter_map(|reported| Some((plan.tensors().get(reported.index)?, reported)))
}

/// The number of weights of all tensors of a report, and their bytes.
fn size_of(plan: &Plan, report: &Report) -> (u64, u64) {
    reported(plan, report).fold((0, 0), |(n, b), (t, _)| (n + t.n_elements(), b + t.n_bytes()))
}

/// A summary of all tensors in up to three sentences.
fn sums(plan: &Plan, report: &Report) -> Vec<String> {
    let (n_weights, bytes) = size_of(plan, report);
    if n_weights == 0 {
        return vec!["no tensor changed its type".to_owned()];
    }
    let shown =
        |f: Figures| format!("RMSE {}, relative {}, cosine {}", number(f.rmse), relative(f.relative), cosine(f.cosine));
    let mut lines = vec![format!(
        "{} changed, {} weights, {} bits each: {}",
        tensors(report.tensors.len() as u64),
        count(n_weights),
        bits_per_weight(bytes as f64 * 8.0 / n_weights as f64),
        shown(report.total().figures()),
    )];
    let n = report.tensors.iter().filter(|t| t.error.weighted().is_some()).count();
    if let Some(figures) = report.total_weighted().weighted() {
        lines.push(format!("weighted by importance, the {} in the matrix: {}", tensors(n as u64), shown(figures)));
    }
    let worst = reported(plan, report).max_by(|(_, a), (_, b)| {
        let relative = |e: &Measured| e.weighted().unwrap_or_else(|| e.figures()).relative;
        relative(&a.error).total_cmp(&relative(&b.error))
    });
    if let Some((worst, TensorReport { error, .. })) = worst {
        let (figures, how) = match error.weighted() {
            Some(figures) => (figures, "weighted"),
            None => (error.figures(), "relative"),
        };
        let name = Str(&worst.name);
        lines.push(format!("worst: {name}, {}, {how} error {}", worst.ty, relative(figures.relative)));
    }
    lines
}

/// `0.00123`, `1.23e-7`
pub fn number(x: f64) -> String {
    match x.abs() {
        0.0 => "0".to_owned(),
        1e-4..1e6 => {
            let digits = rounded(2.0 - x.abs().log10().floor());
            format!("{x:.digits$}")
        }
        _ => format!("{x:.2e}"),
    }
}

/// `6.21 %`
pub fn relative(x: f64) -> String {
    format!("{} %", number(x * 100.0))
}

/// Formats a cosine with its leading nines and up to two more digits; `1` if it differs from 1 only by rounding.
pub fn cosine(x: f64) -> String {
    let distance = 1.0 - x;
    if distance < 1e-12 {
        return "1".to_owned();
    }
    let nines = rounded((-distance.log10()).ceil().clamp(1.0, 12.0));
    format!("{x:.*}", nines + 1)
}

/// The report, for JSON.
#[derive(Serialize)]
pub struct JsonReport<'a> {
    files: Vec<WrittenFile<'a>>,
    tensors: JsonTensors<'a>,
    total: JsonTotal,
}

/// The tensors, which are written one by one: there may be very many.
struct JsonTensors<'a> {
    plan: &'a Plan,
    report: &'a Report,
}

impl Serialize for JsonTensors<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(reported(self.plan, self.report).map(|(t, TensorReport { error, .. })| JsonTensor {
            name: String::from_utf8_lossy(&t.name),
            shape: &t.shape,
            from: t.from.to_string(),
            to: t.ty.to_string(),
            n_weights: t.n_elements(),
            bytes: t.n_bytes(),
            error: JsonError::new(error.not_finite(), error.figures(), error.weighted()),
        }))
    }
}

#[derive(Serialize)]
struct JsonTensor<'a> {
    name: Cow<'a, str>,
    shape: &'a [u64],
    from: String,
    to: String,
    n_weights: u64,
    bytes: u64,
    #[serde(flatten)]
    error: JsonError,
}

#[derive(Serialize)]
struct JsonTotal {
    n_weights: u64,
    bytes: u64,
    #[serde(flatten)]
    error: JsonError,
}

/// The error figures, for JSON.
#[derive(Serialize)]
pub struct JsonError {
    /// Number of pairs excluded because a value is infinite or NaN.
    not_finite: u64,
    rmse: f64,
    relative: json::Shown<'static>,
    cosine: f64,
    largest: Option<JsonLargest>,
    /// Weighted by the importance of the columns.
    weighted: Option<JsonWeighted>,
}

#[derive(Serialize)]
struct JsonWeighted {
    rmse: f64,
    relative: json::Shown<'static>,
    cosine: f64,
    largest: Option<JsonLargest>,
}

#[derive(Serialize)]
struct JsonLargest {
    error: f64,
    row: u64,
    column: u64,
}

/// Infinity is written as a string.
fn shown(x: f64) -> json::Shown<'static> {
    json::Shown { value: ValueRef::F64(x), full: true }
}

impl JsonError {
    pub fn of(error: &TensorError, weighted: Option<Figures>) -> JsonError {
        JsonError::new(error.not_finite(), error.figures(), weighted)
    }

    fn new(not_finite: u64, f: Figures, weighted: Option<Figures>) -> JsonError {
        let largest = |f: Figures| f.largest.map(|l| JsonLargest { error: l.error, row: l.row, column: l.column });
        JsonError {
            not_finite,
            rmse: f.rmse,
            relative: shown(f.relative),
            cosine: f.cosine,
            largest: largest(f),
            weighted: weighted.map(|f| JsonWeighted {
                rmse: f.rmse,
                relative: shown(f.relative),
                cosine: f.cosine,
                largest: largest(f),
            }),
        }
    }
}

impl JsonError {
    /// Removes the position of the largest error, which is meaningless for the total of all tensors.
    pub fn without_place(&mut self) {
        self.largest = None;
    }
}

/// The complete report of a plan's run, for JSON.
pub fn json_report<'a>(plan: &'a Plan, report: &'a Report, files: Vec<WrittenFile<'a>>) -> JsonReport<'a> {
    let without_place = |figures: Option<Figures>| figures.map(|f| Figures { largest: None, ..f });
    let mut error = JsonError::of(report.total(), without_place(report.total_weighted().weighted()));
    error.without_place();
    let (n_weights, bytes) = size_of(plan, report);
    JsonReport { files, tensors: JsonTensors { plan, report }, total: JsonTotal { n_weights, bytes, error } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_are_as_long_as_they_must_be() {
        for (x, text) in [
            (1.0, "1"),
            (1.0 - 1e-14, "1"),
            (0.999_985_4, "0.999985"),
            (0.97, "0.970"),
            (0.5, "0.50"),
            (0.0, "0.00"),
            (-1.0, "-1.00"),
        ] {
            assert_eq!(cosine(x), text);
        }
    }
}
