//! `gguf imatrix show`: a summary of a matrix, and statistics of its entries.

use std::cell::Cell;
use std::io::Write;
use std::path::{Path, PathBuf};

use gguf_format::Str;
use gguf_format::sort::CompactSort as _;
use gguf_quantize::imatrix::{EntryInfo, Error, Format, ImatrixFile, Statistics, in_previous_block};
use gguf_quantize::mix::processing_order;
use serde::Serialize;

use crate::cmd::get::matches;
use crate::failure::{Failure, Outcome, Verdict};
use crate::json::{self, List, Text};
use crate::open;
use crate::ui::{Column, Style, Table, Ui, digits, grouped, number, share, size};

/// Number of indented JSON levels: each field of an entry has its own line.
const LEVELS: usize = 3;

/// Show a summary and statistics of an importance matrix.
///
/// A column's activity is its sum of squared activations divided by the number of tokens; quantizing uses it as the
/// weight of the column. The statistics are those of llama-imatrix --show-statistics. Low ENTROPY (few columns stand
/// out) and low COSINE (the block differs from the previous one) indicate tensors that are sensitive to quantization
/// and may need a larger type.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Statistics of each entry, over the columns of all experts that were activated:
  SUM, MIN, MAX,  of the columns' activities
  MEAN, STDDEV
  ACTIVE          share of columns with an activity above 0.00001
  ENTROPY         -Σ p log2 p, where p is a column's share in SUM; in percent of
                  log2 of the number of columns: 100 % when all are equal
  ZD              share of columns with an activity above MEAN + STDDEV
  COSINE          cosine similarity of the sums with those of the same weight
                  one block before
Narrow terminals show fewer columns; --json prints all of them.

Examples:
  gguf imatrix show imatrix.gguf
  gguf imatrix show imatrix.gguf '*.ffn_down.weight'
  gguf imatrix show imatrix.gguf --json | jq '.entries[] | select(.n_unseen > 0).name'")]
pub struct Args {
    /// Importance matrix (GGUF or .dat)
    file: PathBuf,

    /// Entries to show; by default all; * matches any characters and ? one character
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The printed properties of an entry.
#[derive(Serialize)]
struct Entry<'m> {
    name: Text<'m>,
    n_columns: u64,
    n_experts: u64,
    n_unseen: u64,
    counts: &'m [i64],
    statistics: Option<Measures>,
    /// Cosine similarity to the same weight in the previous block.
    cosine_similarity: Option<f64>,
    /// The reason for missing statistics.
    error: Option<String>,
}

#[derive(Serialize)]
struct Measures {
    sum: f64,
    min: f64,
    max: f64,
    mean: f64,
    standard_deviation: f64,
    active: f64,
    entropy: f64,
    entropy_share: f64,
    zd: f64,
}

impl From<Statistics> for Measures {
    fn from(s: Statistics) -> Measures {
        Measures {
            sum: s.sum,
            min: s.min,
            max: s.max,
            mean: s.mean,
            standard_deviation: s.deviation,
            active: s.active,
            entropy: s.entropy,
            entropy_share: s.evenness(),
            zd: s.zd,
        }
    }
}

impl<'m> Entry<'m> {
    /// Reads an entry and computes its statistics.
    fn of(matrix: &ImatrixFile, info: EntryInfo<'m>) -> Entry<'m> {
        let similarity = || match in_previous_block(info.name) {
            Some(previous) => matrix.similarity(info.name, &previous),
            None => Ok(None),
        };
        let measured = matrix.statistics(info.name).and_then(|statistics| Ok((statistics, similarity()?)));
        let (statistics, cosine_similarity, error) = match measured {
            Ok((statistics, similarity)) => (statistics, similarity, None),
            Err(Error { problem, .. }) => (None, None, Some(problem.to_string())),
        };
        Entry {
            name: Text(Str(info.name)),
            n_columns: info.n_columns(),
            n_experts: info.counts.len() as u64,
            n_unseen: info.n_unseen() as u64,
            counts: info.counts,
            statistics: statistics.map(Measures::from),
            cosine_similarity,
            error,
        }
    }

    /// The counts as one number, or as the smallest and the largest.
    fn counts(&self) -> String {
        let text = |n: &i64| u64::try_from(*n).map_or_else(|_| n.to_string(), grouped);
        match (self.counts.iter().min(), self.counts.iter().max()) {
            (Some(least), Some(most)) if least != most => format!("{}..{}", text(least), text(most)),
            (_, most) => most.map(text).unwrap_or_default(),
        }
    }

    fn measure(&self, text: fn(&Measures) -> String) -> String {
        self.statistics.as_ref().map_or("-".to_owned(), text)
    }
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let matrix = open::matrix(&self.file)?;
        let mut infos: Vec<EntryInfo<'_>> = matrix.entries().filter(|e| self.is_wanted(e.name)).collect();
        infos.compact_sort_by(|a, b| processing_order(a.name, b.name));
        let mut verdict = Verdict::Good;
        for name in &self.names {
            if !infos.iter().any(|e| matches(name, Str(e.name))) {
                let name = Str(name.as_bytes());
                ui.error(&Failure::Bad(format!("{}: there is no entry {name}", self.file.display())));
                verdict = Verdict::Bad;
            }
        }
        if self.json {
            let is_bad = Cell::new(false);
            json::print(ui, LEVELS, &Document::of(&self.file, &matrix, &infos, &is_bad))?;
            return Ok(if is_bad.get() { Verdict::Bad } else { verdict });
        }
        print_summary(ui, &self.file, &matrix)?;
        if infos.is_empty() {
            return Ok(verdict);
        }
        let entries: Vec<Entry<'_>> = infos.iter().map(|info| Entry::of(&matrix, *info)).collect();
        writeln!(ui.out)?;
        print_entries(ui, &entries, matrix.format())?;
        for entry in &entries {
            if let Some(error) = &entry.error {
                let name = gguf_format::check::shown(entry.name.0);
                ui.error(&Failure::Bad(format!("{}: the entry {name}: {error}", self.file.display())));
                verdict = Verdict::Bad;
            }
        }
        Ok(verdict)
    }

    fn is_wanted(&self, name: &[u8]) -> bool {
        self.names.is_empty() || self.names.iter().any(|pattern| matches(pattern, Str(name)))
    }
}

fn print_summary(ui: &mut Ui, path: &Path, matrix: &ImatrixFile) -> std::io::Result<()> {
    let format = match matrix.format() {
        Format::Gguf => "GGUF: sums of squares, and tokens",
        Format::Legacy => "dat, the old format: mean squares times chunks",
    };
    let texts: Vec<String> = matrix.datasets().iter().map(|text| Str(text).to_string()).collect();
    let chunks = match (matrix.chunk_count(), matrix.chunk_size()) {
        (0, _) => "unknown".to_owned(),
        (n, 0) => format!("{}, of unknown size", grouped(n.into())),
        (n, size) => format!("{} of {} tokens", grouped(n.into()), grouped(size.into())),
    };
    let columns: u64 = matrix.entries().map(|e| e.n_values).fold(0, u64::saturating_add);
    let entries = number(matrix.n_entries() as u64, "entry", "entries");
    let bytes = size(columns.saturating_mul(4));
    let mut lines = vec![
        ("Format", format.to_owned()),
        ("Texts", if texts.is_empty() { "unknown".to_owned() } else { texts.join(", ") }),
        ("Chunks", chunks),
        ("Contents", format!("{entries}, {}, {bytes}", number(columns, "column", "columns"))),
    ];
    let most = matrix.entries().map(|e| e.counts.len() as u64).max().unwrap_or(0);
    if most > 1 {
        lines.push(("Experts", format!("{} at most", grouped(most))));
    }
    let (whole, part): (Vec<_>, Vec<_>) =
        matrix.entries().filter(|e| e.n_unseen() > 0).partition(|e| e.n_unseen() == e.counts.len());
    let unseen = [("", whole.len() as u64), ("experts of ", part.len() as u64)];
    let unseen = unseen.into_iter().filter(|(_, n)| *n > 0);
    let unseen: Vec<String> = unseen.map(|(of, n)| of.to_owned() + &number(n, "entry", "entries")).collect();
    if !unseen.is_empty() {
        lines.push(("Unseen", unseen.join(", ")));
    }
    ui.title(path)?;
    for (label, text) in lines {
        ui.field(&format!("  {label:<10}"), Style::Cyan, &text)?;
    }
    Ok(())
}

/// A column of the table: its layout, and a function that returns its text.
type Field = (Column, fn(&Entry<'_>) -> String);

fn print_entries(ui: &mut Ui, entries: &[Entry<'_>], format: Format) -> std::io::Result<()> {
    let counts = match format {
        Format::Gguf => "TOKENS",
        Format::Legacy => "CHUNKS",
    };
    let mut fields: Vec<Field> = vec![
        (Column::name("ENTRY").styled(Style::Cyan), |e| e.name.0.to_string()),
        (Column::right("COLUMNS").left_out(5), |e| e.n_columns.to_string()),
        (Column::right(counts), |e| e.counts()),
        (Column::right("SUM").left_out(1), |e| e.measure(|m| digits(m.sum))),
        (Column::right("MIN").left_out(2), |e| e.measure(|m| digits(m.min))),
        (Column::right("MAX").left_out(4), |e| e.measure(|m| digits(m.max))),
        (Column::right("MEAN").left_out(8), |e| e.measure(|m| digits(m.mean))),
        (Column::right("STDDEV").left_out(3), |e| e.measure(|m| digits(m.standard_deviation))),
        (Column::right("ACTIVE").left_out(7), |e| e.measure(|m| share(m.active))),
        (Column::right("ENTROPY"), |e| e.measure(|m| share(m.entropy_share))),
        (Column::right("ZD").left_out(9), |e| e.measure(|m| share(m.zd))),
        (Column::right("COSINE"), |e| e.cosine_similarity.map_or("-".to_owned(), |c| format!("{c:.3}"))),
    ];
    if entries.iter().any(|e| e.n_unseen > 0) {
        fields.insert(2, (Column::right("UNSEEN").left_out(10), |e| e.n_unseen.to_string()));
    }
    if entries.iter().any(|e| e.n_experts > 1) {
        fields.insert(2, (Column::right("EXPERTS").left_out(6), |e| e.n_experts.to_string()));
    }
    let mut table = Table::new(fields.iter().map(|(column, _)| *column).collect::<Vec<_>>());
    for entry in entries {
        table.row(fields.iter().map(|(_, text)| text(entry)).collect::<Vec<_>>());
    }
    table.print(ui, 0)
}

/// The object of `--json`. Statistics are computed during serialization.
#[derive(Serialize)]
struct Document<'m, L> {
    path: Text<'m>,
    format: String,
    datasets: Vec<Text<'m>>,
    chunk_count: u32,
    chunk_size: u32,
    n_entries: usize,
    entries: L,
}

impl Document<'_, ()> {
    /// During serialization, sets `is_bad` if the values of an entry allow no statistics.
    fn of<'m>(
        path: &'m Path,
        matrix: &'m ImatrixFile,
        infos: &'m [EntryInfo<'m>],
        is_bad: &'m Cell<bool>,
    ) -> impl Serialize {
        let entry = |info: &EntryInfo<'m>| {
            let entry = Entry::of(matrix, *info);
            is_bad.set(is_bad.get() || entry.error.is_some());
            entry
        };
        Document {
            path: json::path(path),
            format: matrix.format().to_string(),
            datasets: matrix.datasets().iter().map(|text| Text(Str(text))).collect(),
            chunk_count: matrix.chunk_count(),
            chunk_size: matrix.chunk_size(),
            n_entries: matrix.n_entries(),
            entries: List(move || infos.iter().map(entry)),
        }
    }
}
