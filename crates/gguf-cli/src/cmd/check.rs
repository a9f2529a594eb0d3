//! `gguf check`: everything that is wrong with files, as findings of the format's and the model's rules.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use gguf_format::check::{At, Finding, Report, Rule, Severity};
use gguf_format::shard::ShardName;
use gguf_format::{Gguf, check as format};
use gguf_io::ModelFile;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use crate::cmd::{offset, within};
use crate::failure::{Failure, Outcome, Verdict};
use crate::json::{self, List};
use crate::ui::{Column, ProgressLine, Style, Table, Ui, grouped, shown_path, wrap};

mod data;

/// What the findings stand under that no single shard has.
const ALL_SHARDS: &str = "all shards together";

/// Levels of JSON that are indented: down to the fields of findings.
const LEVELS: usize = 5;

gguf_format::rules! {
    /// Rules about what lies beside the head: the other files and the data.
    RULES:
    DATA_FINITE "data.finite" Error
        "numbers that are finite" "the weights are damaged, or were converted to a type with too small a range"
        "llama-model-loader.cpp, check_tensors";
    DATA_NOT_SCANNED "data.not_scanned" Note
        "data that can be scanned" "mend the other findings first"
        "this program";
    SPLIT_FILE "split.file" Warning
        "all shards of a model, side by side" "fetch the missing shards, or check the file with --structure"
        "llama-model-loader.cpp: shards are looked for beside the first";
}

/// Find everything that is wrong with GGUF files.
///
/// Every finding names its rule, the place, what was found, what is right and what to do. Errors make a file bad;
/// warnings are likely mistakes or what some readers refuse; notes are worth knowing. The files need not be readable as
/// GGUF: what they are instead, and how far they go, is told. Of a model in several shards, all are checked together.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf check model.gguf
  gguf check model.gguf --data             also look for NaN and infinity in the weights
  gguf check upload.bin --structure -q     is it safe to read? the exit code tells
  gguf check *.gguf --json | jq '.files[] | select(.errors > 0).path'")]
pub struct Args {
    /// Files to check
    #[arg(required_unless_present = "rules", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Read the tensor data too, and look for NaN and infinity in numbers and block scales
    #[arg(short, long)]
    data: bool,

    /// Judge only what any reader needs to read each file safely
    #[arg(short, long, conflicts_with = "data")]
    structure: bool,

    /// Count warnings as errors
    #[arg(long)]
    strict: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Print nothing; the exit code tells
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,

    /// List all rules, with where they come from
    #[arg(long, conflicts_with_all = ["files", "data", "structure", "strict", "quiet"])]
    rules: bool,

    /// The GGUF starts at this byte of the file (0x for hexadecimal)
    #[arg(long, value_name = "OFFSET", default_value = "0", hide_default_value = true, value_parser = offset)]
    at: u64,
}

/// What was found in one file, or in all shards taken together.
struct Section {
    /// `None` for all shards together.
    path: Option<PathBuf>,
    report: Report,
}

/// A file that was looked at, and its head as far as it can be used.
struct Checked {
    path: PathBuf,
    report: Report,
    file: Option<ModelFile>,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        if self.rules {
            return self.list_rules(ui);
        }
        let mut verdict = Verdict::Good;
        let mut all = Vec::new();
        let mut seen: Vec<(PathBuf, u32)> = Vec::new();
        let mut is_first = true;
        for path in &self.files {
            // Of a set of shards that is given as a whole, the first one stands for all.
            if let Some(set) = self.shard_name(path).map(|n| (path.with_file_name(n.prefix), n.number.count())) {
                if seen.contains(&set) {
                    continue;
                }
                seen.push(set);
            }
            match self.check(path) {
                Ok(sections) => {
                    verdict = verdict.max(self.judge(&sections));
                    if self.json {
                        all.extend(sections);
                    } else if !self.quiet {
                        let printed = if is_first { Ok(()) } else { writeln!(ui.out).map_err(Failure::from) };
                        is_first = false;
                        match printed.and_then(|()| self.print(ui, path, &sections)) {
                            // The verdict counts even if nobody reads the reasons.
                            Ok(()) | Err(Failure::PipeClosed) => {}
                            Err(failure) => return Err(failure),
                        }
                    }
                }
                Err(failure) => {
                    ui.error(&failure);
                    verdict = verdict.max(failure.verdict());
                }
            }
        }
        if self.json {
            let all = AllSections { good: verdict == Verdict::Good, sections: &all };
            match json::print(&mut ui.out, LEVELS, &all).map_err(Failure::from) {
                Ok(()) | Err(Failure::PipeClosed) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(verdict)
    }

    /// The name of a file that is a shard of several, unless files are judged one by one.
    fn shard_name<'p>(&self, path: &'p Path) -> Option<ShardName<'p>> {
        let name = ShardName::parse(path.file_name()?.to_str()?)?;
        (name.number.count() > 1 && !self.structure && self.at == 0).then_some(name)
    }

    fn check(&self, path: &Path) -> Result<Vec<Section>, Failure> {
        let mut missing = Report::new();
        let mut paths = vec![path.to_owned()];
        if let Some(name) = self.shard_name(path) {
            let siblings = name.siblings().map(|sibling| path.with_file_name(sibling));
            let (there, lacking): (Vec<_>, Vec<_>) = siblings.partition(|p| p.exists());
            // The file itself may be the only one that is not there, and that is for opening it to say.
            if there.iter().any(|p| p == path) {
                paths = there;
                for path in lacking {
                    missing.add(&SPLIT_FILE, At::File, format_args!("there is no {}", shown_path(&path)));
                }
            }
        }
        let mut checked = paths.into_iter().map(|path| self.head(path)).collect::<Result<Vec<_>, _>>()?;
        if self.data {
            data::scan(&mut checked, &ProgressLine::new(self.quiet))?;
        }
        let mut model = Report::new();
        if !self.structure {
            let heads: Vec<&Gguf<'_>> = checked.iter().filter_map(|c| c.file.as_ref()).map(ModelFile::gguf).collect();
            // What a set of shards lacks cannot be told when one of them cannot be read.
            if heads.len() == checked.len() {
                let first = checked.first().map_or(path, |c| c.path.as_path());
                let name = first.file_name().and_then(|name| name.to_str());
                model = gguf_arch::check::model(&heads, name);
            }
            model.append(missing);
        }
        if let [only] = checked.as_mut_slice() {
            only.report.append(std::mem::take(&mut model));
        }
        let mut sections: Vec<Section> =
            checked.into_iter().map(|c| Section { path: Some(c.path), report: c.report }).collect();
        if sections.len() > 1 {
            sections.push(Section { path: None, report: model });
        }
        Ok(sections)
    }

    /// Judges what one file says of itself. What is no GGUF, or not a whole one, is judged as far as it goes.
    fn head(&self, path: PathBuf) -> Result<Checked, Failure> {
        within(&path, self.at)?;
        let judge = if self.structure { format::structure } else { format::format };
        let file = match ModelFile::open_at(&path, self.at) {
            Ok(file) => file,
            Err(gguf_io::Error::Head { .. }) => {
                let report = broken_head(&path, self.at, judge)
                    .map_err(|e| Failure::CouldNotRun(format!("{}: cannot read: {e}", path.display())))?;
                return Ok(Checked { path, report, file: None });
            }
            Err(e) => return Err(e.into()),
        };
        let mut report = judge(file.gguf().bytes(), file.file_bytes());
        if !self.structure {
            let read = |at, buf: &mut [u8]| file.read_at(at, buf).is_ok();
            report.append(format::padding(file.gguf(), file.file_bytes(), read));
        }
        Ok(Checked { path, report, file: Some(file) })
    }

    fn judge(&self, sections: &[Section]) -> Verdict {
        let limit = if self.strict { Severity::Warning } else { Severity::Error };
        let is_bad = sections.iter().any(|s| s.report.worst().is_some_and(|worst| worst >= limit));
        if is_bad { Verdict::Bad } else { Verdict::Good }
    }

    fn print(&self, ui: &mut Ui, path: &Path, sections: &[Section]) -> Result<(), Failure> {
        for section in sections.iter().filter(|s| !s.report.is_empty()) {
            if sections.len() > 1 {
                ui.title(section.path.as_deref().unwrap_or(Path::new(ALL_SHARDS)))?;
            }
            print_findings(ui, &section.report)?;
            writeln!(ui.out)?;
        }
        let (label, style) = match self.judge(sections) {
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
        let shards = match sections.len() {
            0 | 1 => String::new(),
            n => format!(" ({} shards)", n - 1),
        };
        let label = ui.paint(label, style);
        writeln!(ui.out, "{}{shards}: {label}, {counts}", shown_path(path))?;
        ui.flush()
    }

    fn list_rules(&self, ui: &mut Ui) -> Outcome {
        let all: Vec<&Rule> = [format::RULES, gguf_arch::check::RULES, RULES].into_iter().flatten().collect();
        if self.json {
            let rule = |r: &&Rule| {
                json!({
                    "code": r.code, "severity": r.severity.to_string(), "structural": r.structural,
                    "expected": r.expected, "hint": r.hint, "source": r.source,
                })
            };
            json::print(&mut ui.out, LEVELS, &List(|| all.iter().map(rule)))?;
            return Ok(Verdict::Good);
        }
        let mut columns = vec![
            Column::left("RULE").styled(Style::Cyan),
            Column::left("SEVERITY"),
            Column::text("WHAT IS RIGHT"),
            Column::text("SOURCE").styled(Style::Dim),
        ];
        // Half a source helps nobody.
        if ui.width.is_some_and(|width| width < 140) {
            columns.pop();
        }
        let mut table = Table::new(columns);
        let is_narrow = ui.width.is_some_and(|width| width < 60);
        for r in all {
            let structural = if r.structural && !is_narrow { ", structural" } else { "" };
            let severity = format!("{}{structural}", r.severity);
            table.row([r.code.to_owned(), severity, r.expected.to_owned(), r.source.to_owned()]);
        }
        table.print(ui, 0)?;
        Ok(Verdict::Good)
    }
}

/// Judges a file whose head cannot be parsed.
fn broken_head(path: &Path, at: u64, judge: fn(&[u8], u64) -> Report) -> std::io::Result<Report> {
    let mut file = File::open(path)?;
    let file_bytes = file.metadata()?.len().saturating_sub(at);
    file.seek(SeekFrom::Start(at))?;
    let head = gguf_io::read_head(&mut file, Some(file_bytes))?;
    Ok(judge(head.bytes(), file_bytes))
}

/// Findings of one rule stand together, the gravest first; what is right and what to do is said once.
fn print_findings(ui: &mut Ui, report: &Report) -> std::io::Result<()> {
    let mut findings: Vec<_> = report.findings().collect();
    // The order within a severity is that in which the rules were first broken.
    let first_of = |code: &str| report.findings().position(|f| f.code == code).unwrap_or(0);
    let mut order: Vec<(&'static str, usize)> = report.codes().map(|code| (code, first_of(code))).collect();
    order.sort_by_key(|(_, first)| *first);
    let place_of = |f: &Finding| order.iter().position(|(code, _)| *code == f.code).unwrap_or(0);
    // Of what is equally grave, what concerns the whole file comes first.
    let is_local = |f: &Finding| {
        let of_file = |f: &Finding| matches!(f.place, format::Place::File | format::Place::Offset(_));
        !report.findings().find(|first| first.code == f.code).is_some_and(|first| of_file(&first))
    };
    findings.sort_by_cached_key(|f| (std::cmp::Reverse(f.severity), is_local(f), place_of(f)));
    let mut i = 0;
    while let Some(first) = findings.get(i) {
        let same = |f: &Finding| f.code == first.code && f.expected == first.expected && f.hint == first.hint;
        let n = findings.iter().skip(i).take_while(|f| same(f)).count();
        let style = match first.severity {
            Severity::Error => Style::Red,
            Severity::Warning => Style::Yellow,
            Severity::Note => Style::Cyan,
        };
        let severity = ui.paint(first.severity, style);
        let code = ui.paint(first.code, Style::Bold);
        writeln!(ui.out, "{severity} {code}")?;
        for finding in findings.iter().skip(i).take(n) {
            let place = match &finding.place {
                format::Place::File => String::new(),
                place @ (format::Place::Key { offset: Some(at), .. }
                | format::Place::Tensor { offset: Some(at), .. }) => {
                    format!("{place} (byte {at}): ")
                }
                place => format!("{place}: "),
            };
            indented(ui, "  ", &format!("{place}{}", finding.message), Style::Plain)?;
        }
        indented(ui, "    expected: ", &first.expected, Style::Dim)?;
        indented(ui, "    hint: ", &first.hint, Style::Dim)?;
        i += n;
    }
    Ok(())
}

/// A text behind a label, wrapped on a terminal.
fn indented(ui: &mut Ui, label: &str, text: &str, style: Style) -> std::io::Result<()> {
    let room = ui.width.map_or(usize::MAX, |w| w.saturating_sub(label.len()));
    for (i, line) in wrap(text, room).iter().enumerate() {
        let label = if i == 0 { label.to_owned() } else { " ".repeat(label.len()) };
        let line = ui.paint(format!("{label}{line}"), style);
        writeln!(ui.out, "{line}")?;
    }
    Ok(())
}

/// The object of `--json`; its findings are made while they are written.
struct AllSections<'a> {
    good: bool,
    sections: &'a [Section],
}

impl Serialize for AllSections<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("good", &self.good)?;
        object.serialize_entry("files", self.sections)?;
        object.end()
    }
}

impl Serialize for Section {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let report = &self.report;
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("path", &json::path(self.path.as_deref().unwrap_or(Path::new(ALL_SHARDS))))?;
        object.serialize_entry("errors", &report.count(Severity::Error))?;
        object.serialize_entry("warnings", &report.count(Severity::Warning))?;
        object.serialize_entry("notes", &report.count(Severity::Note))?;
        object.serialize_entry("safe", &report.is_safe())?;
        object.serialize_entry("findings", &List(|| report.findings().map(|f| finding(&f))))?;
        object.end()
    }
}

fn finding(f: &Finding) -> Value {
    let (place, name) = match &f.place {
        format::Place::File => ("file", None),
        format::Place::Offset(_) => ("offset", None),
        format::Place::Key { name, .. } => ("key", Some(name)),
        format::Place::Tensor { name, .. } => ("tensor", Some(name)),
    };
    json!({
        "code": f.code,
        "severity": f.severity.to_string(),
        "structural": f.structural,
        "place": place,
        "name": name,
        "offset": f.place.offset(),
        "message": f.message,
        "expected": f.expected,
        "hint": f.hint,
    })
}
