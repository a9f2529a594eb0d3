//! Output of findings as text and JSON, and of the tables of rules.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use gguf_format::check::{Finding, Place, Report, Rule, Severity};
use gguf_format::sort::CompactSort as _;
use ggufkit::{Check, CheckOptions, HeadOf, Model, ModelFile};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use crate::failure::{Failure, Outcome, Verdict};
use crate::hints;
use crate::json::{self, List};
use crate::ui::{Column, Style, Table, Ui, grouped, shown_path, wrap};

/// The heading of findings that concern the whole model instead of a single shard.
const ALL_SHARDS: &str = "all shards together";

/// Number of indented JSON levels, down to the fields of findings.
const LEVELS: usize = 5;

/// The findings of one file, or of all shards together.
pub struct Section {
    /// The path of the file, or of all shards.
    pub paths: Vec<PathBuf>,
    /// The findings.
    pub report: Report,
}

impl Section {
    /// The path, if the section is about one file.
    fn path(&self) -> Option<&Path> {
        match self.paths.as_slice() {
            [path] => Some(path),
            _ => None,
        }
    }
}

/// A checked file: its findings, or the error that prevented the check.
pub enum Judged {
    /// The findings.
    Section(Section),
    /// The file could not be opened.
    Unopened(PathBuf, Failure),
}

/// Which findings are errors, and which are shown.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Treat warnings as errors
    #[arg(long)]
    pub strict: bool,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// Print nothing; set only the exit code
    #[arg(short, long, conflicts_with = "json")]
    pub quiet: bool,

    /// List all rules and their sources
    #[arg(long, conflicts_with_all = ["strict", "quiet"])]
    pub rules: bool,
}

/// The verdict for findings: bad if there are errors or, with `strict`, warnings.
pub fn verdict(sections: &[Section], strict: bool) -> Verdict {
    let limit = if strict { Severity::Warning } else { Severity::Error };
    let is_bad = sections.iter().any(|s| s.report.worst().is_some_and(|worst| worst >= limit));
    if is_bad { Verdict::Bad } else { Verdict::Good }
}

/// Prints a line with the verdict for `subject`, then its findings: the form for several files. Notes that are in `noted` were printed for
/// another file, and are only counted.
///
/// # Errors
/// If standard output cannot be written.
pub fn print_of_several(
    ui: &mut Ui,
    subject: &str,
    sections: &[Section],
    verdict: Verdict,
    noted: &mut HashSet<(&'static str, String)>,
) -> Result<(), Failure> {
    print_verdict(ui, subject, sections, verdict)?;
    let is_new = |f: &Finding| f.severity != Severity::Note || !noted.contains(&(f.code, f.message.to_string()));
    let mut new = Vec::new();
    for section in sections {
        let mut findings: Vec<Cow<'_, Finding>> = section.report.findings().collect();
        findings.retain(|f| is_new(f));
        if !findings.is_empty() && sections.len() > 1 {
            ui.title(section.path().unwrap_or(Path::new(ALL_SHARDS)))?;
        }
        new.extend(findings.iter().map(|f| (f.code, f.message.to_string())));
        print_findings(ui, &section.report, findings)?;
    }
    noted.extend(new);
    ui.flush()
}

/// Prints all findings, then a line with the verdict for `subject`.
///
/// # Errors
/// If standard output cannot be written.
pub fn print(ui: &mut Ui, subject: &str, sections: &[Section], verdict: Verdict) -> Result<(), Failure> {
    for section in sections.iter().filter(|s| !s.report.is_empty()) {
        if sections.len() > 1 {
            ui.title(section.path().unwrap_or(Path::new(ALL_SHARDS)))?;
        }
        print_findings(ui, &section.report, section.report.findings().collect())?;
        writeln!(ui.out)?;
    }
    print_verdict(ui, subject, sections, verdict)
}

/// Prints the line with the verdict.
fn print_verdict(ui: &mut Ui, subject: &str, sections: &[Section], verdict: Verdict) -> Result<(), Failure> {
    let (label, style) = match verdict {
        Verdict::Good => ("good", Style::Green),
        _ => ("bad", Style::Red),
    };
    let count = |severity| sections.iter().map(|s| s.report.count(severity)).fold(0, u64::saturating_add);
    let counts = [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")];
    let counts: Vec<String> = counts
        .into_iter()
        .map(|(severity, name)| (count(severity), name))
        .filter(|(n, _)| *n > 0)
        .map(|(n, name)| format!("{} {name}{}", grouped(n), if n == 1 { "" } else { "s" }))
        .collect();
    let counts = if counts.is_empty() { "no findings".to_owned() } else { counts.join(", ") };
    let label = ui.paint(label, style);
    writeln!(ui.out, "{subject}: {label}, {counts}")?;
    ui.flush()
}

/// Prints the findings as one JSON object, with additional members from the command.
///
/// # Errors
/// If standard output cannot be written.
pub fn print_json(ui: &mut Ui, verdict: Verdict, files: &[Judged], more: &[(&str, Value)]) -> Result<(), Failure> {
    let document = Document { good: verdict == Verdict::Good, files, more };
    Ok(json::print(ui, LEVELS, &document)?)
}

/// The answer of [`print_json`] as a document.
pub fn document<'a>(verdict: Verdict, files: &'a [Judged]) -> impl Serialize + use<'a> {
    Document { good: verdict == Verdict::Good, files, more: &[] }
}

/// Prints several tables of rules as one table.
///
/// # Errors
/// If standard output cannot be written.
pub fn print_rules(ui: &mut Ui, tables: &[&[Rule]], as_json: bool) -> Outcome {
    let all: Vec<&Rule> = tables.iter().copied().flatten().collect();
    if as_json {
        let rule = |r: &&Rule| {
            json!({
                "code": r.code, "severity": r.severity.to_string(), "structural": r.structural,
                "expected": r.expected, "hint": hints::for_finding(r.code, r.hint), "source": r.source,
            })
        };
        json::print(ui, LEVELS, &json!({ "rules": all.iter().map(rule).collect::<Vec<_>>() }))?;
        return Ok(Verdict::Good);
    }
    let mut columns = vec![
        Column::name("RULE").styled(Style::Cyan),
        Column::left("SEVERITY").left_out(1),
        Column::text("WHAT IS RIGHT"),
        Column::text("SOURCE").styled(Style::Dim),
    ];
    // A truncated source is useless, so narrow terminals get no sources.
    if ui.width.is_some_and(|width| width < 140) {
        columns.pop();
    }
    let n_columns = columns.len();
    let mut table = Table::new(columns);
    let is_narrow = ui.width.is_some_and(|width| width < 60);
    for r in all {
        let structural = if r.structural && !is_narrow { ", structural" } else { "" };
        let severity = format!("{}{structural}", r.severity);
        let mut cells = vec![r.code.to_owned(), severity, r.expected.to_owned(), r.source.to_owned()];
        cells.truncate(n_columns);
        table.row(cells);
    }
    table.print(ui, 0)?;
    Ok(Verdict::Good)
}

/// `tensor output.weight (byte 45706): `; empty for the whole file.
pub fn subject(place: &Place) -> String {
    match place {
        Place::File => String::new(),
        Place::Key { offset: Some(at), .. } | Place::Tensor { offset: Some(at), .. } => {
            format!("{place} (byte {at}): ")
        }
        place => format!("{place}: "),
    }
}

/// Groups findings by rule, the most severe first; the expected value and the hint are printed once per rule.
fn print_findings(ui: &mut Ui, report: &Report, mut findings: Vec<Cow<'_, Finding>>) -> std::io::Result<()> {
    // Within a severity, rules are ordered by their first finding.
    let first_of = |code: &str| report.findings().position(|f| f.code == code).unwrap_or(0);
    let mut order: Vec<(&'static str, usize)> = report.codes().map(|code| (code, first_of(code))).collect();
    order.compact_sort_by_key(|(_, first)| *first);
    let place_of = |f: &Finding| order.iter().position(|(code, _)| *code == f.code).unwrap_or(0);
    // Among findings of equal severity, those about the whole file come first.
    let is_local = |f: &Finding| {
        let of_file = |f: &Finding| matches!(f.place, Place::File | Place::Offset(_));
        !report.findings().find(|first| first.code == f.code).is_some_and(|first| of_file(&first))
    };
    findings.compact_sort_by_cached_key(|f| (std::cmp::Reverse(f.severity), is_local(f), place_of(f)));
    let mut i = 0;
    while let Some(first) = findings.get(i) {
        let same = |f: &Finding| f.code == first.code && f.expected == first.expected && f.hint == first.hint;
        let n = findings.iter().skip(i).take_while(|f| same(f)).count();
        let style = match first.severity {
            Severity::Error => Style::Red,
            Severity::Warning => Style::Yellow,
            _ => Style::Cyan,
        };
        let severity = ui.paint(first.severity, style);
        let code = ui.paint(first.code, Style::Bold);
        writeln!(ui.out, "{severity} {code}")?;
        for finding in findings.iter().skip(i).take(n) {
            let place = subject(&finding.place);
            indented(ui, "  ", &format!("{place}{}", finding.message), Style::Plain)?;
        }
        indented(ui, "    expected: ", &first.expected, Style::Dim)?;
        indented(ui, "    hint: ", &hints::for_finding(first.code, &first.hint), Style::Dim)?;
        i += n;
    }
    Ok(())
}

/// Prints a text after a label, wrapped on a terminal.
fn indented(ui: &mut Ui, label: &str, text: &str, style: Style) -> std::io::Result<()> {
    let columns = ui.width.map_or(usize::MAX, |w| w.saturating_sub(label.len()));
    for (i, line) in wrap(text, columns).iter().enumerate() {
        let label = if i == 0 { label.to_owned() } else { " ".repeat(label.len()) };
        let line = ui.paint(format!("{label}{line}"), style);
        writeln!(ui.out, "{line}")?;
    }
    Ok(())
}

/// The object of `--json`. Its findings are generated during serialization.
struct Document<'a> {
    good: bool,
    files: &'a [Judged],
    more: &'a [(&'a str, Value)],
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("good", &self.good)?;
        object.serialize_entry("files", self.files)?;
        for (name, value) in self.more {
            object.serialize_entry(name, value)?;
        }
        object.end()
    }
}

impl Serialize for Judged {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Judged::Section(section) => section.serialize(serializer),
            Judged::Unopened(path, failure) => json::Unopened::of(path, failure).serialize(serializer),
        }
    }
}

impl Serialize for Section {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let report = &self.report;
        let mut object = serializer.serialize_map(None)?;
        let paths = || self.paths.iter().map(|path| json::path(path));
        match self.path() {
            Some(path) => object.serialize_entry("path", &json::path(path))?,
            None => object.serialize_entry("shards", &List(paths))?,
        }
        object.serialize_entry("errors", &report.count(Severity::Error))?;
        object.serialize_entry("warnings", &report.count(Severity::Warning))?;
        object.serialize_entry("notes", &report.count(Severity::Note))?;
        object.serialize_entry("safe", &report.is_safe())?;
        object.serialize_entry("findings", &List(|| report.findings().map(|f| finding(&f))))?;
        object.end()
    }
}

fn finding(f: &Finding) -> Value {
    json!({
        "code": f.code,
        "severity": f.severity.to_string(),
        "structural": f.structural,
        "place": f.place.kind(),
        "name": f.place.name(),
        "offset": f.place.offset(),
        "message": f.message,
        "expected": f.expected,
        "hint": hints::for_finding(f.code, &f.hint),
    })
}

/// The first error of a check, in one line, with the number of all errors.
pub fn first_error(check: &Check) -> Option<String> {
    let (file, finding) = check.findings().find(|(_, finding)| finding.severity == Severity::Error)?;
    Some(format!("{}: {}", shown_path(file), in_one_line(&finding, check.count(Severity::Error))))
}

/// The first error of a report, as [`first_error`], without the name of the file.
#[cfg(feature = "engine")]
pub fn first_error_of(report: &Report) -> Option<String> {
    let finding = report.findings().find(|finding| finding.severity == Severity::Error)?;
    Some(in_one_line(&finding, report.count(Severity::Error)))
}

fn in_one_line(finding: &Finding, n_errors: u64) -> String {
    let more = match n_errors {
        1 => String::new(),
        n => format!("; {} errors in all", grouped(n)),
    };
    let expected = match finding.expected.is_empty() {
        true => String::new(),
        false => format!("; expected {}", finding.expected),
    };
    format!("{}{}{expected}{more}", subject(&finding.place), finding.message)
}

/// The command that describes all problems of a model.
pub fn described_by_check(path: &Path) -> String {
    format!("`gguf check {}` describes all problems", shown_path(path))
}

/// A warning about an open model that llama.cpp does not load, because what is made from it does not load, either. Only heads are checked.
pub fn warning_of_errors(path: &Path, model: &Model) -> Option<String> {
    let name = |file: &ModelFile| file.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names: Vec<String> = model.files().iter().map(name).collect();
    let heads: Vec<HeadOf<'_>> = model
        .files()
        .iter()
        .zip(&names)
        .map(|(file, name)| HeadOf { name, bytes: file.gguf().bytes(), file_bytes: file.file_bytes() })
        .collect();
    let error = first_error(&ggufkit::check_heads(&heads, &CheckOptions::default()))?;
    Some(format!("{error}; {}", described_by_check(path)))
}
