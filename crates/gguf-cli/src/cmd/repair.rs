//! `gguf repair`: diagnoses and repairs a damaged file.

use std::io::Write;
use std::path::{Path, PathBuf};

use gguf_edit::repair::{Comparison, DataState, Diagnosis, TensorState};
use gguf_format::Str;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use crate::failure::{Failure, Outcome, Verdict};
use crate::hints;
use crate::json;
use crate::text::shape;
use crate::ui::{Column, Style, Table, Ui, grouped, safe, size, wrap};
use crate::watch::Watch;

/// Number of indented JSON levels.
const LEVELS: usize = 3;

/// Maximum number of printed table rows.
const ROWS: usize = 40;

/// Diagnose and repair a damaged file.
///
/// Without options, reports the damage and changes nothing. --mend restores fields that follow from the rest of the
/// file: magic, version, counts, offsets that the file length determines, and padding at the end. --output saves the
/// key-values and all intact tensors to a new file. --from compares the file with an intact copy and copies only ranges
/// that differ or are missing, in place; the copy may have other key-values, which are reported, or be split. Ranges are
/// multiples of 4096 bytes. Data that is missing cannot be compared: verify first that the copy is of the same model, with
/// a published hash or gguf verify. With --exact, the file becomes the same as the copy. An interrupted repair can be run
/// again. The exit code is 0 if the file is intact or has been repaired.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf repair model.gguf                         report the damage
  gguf repair model.gguf --from copy.gguf --dry-run
  gguf repair model.gguf --from copy.gguf
  gguf repair model.gguf --mend
  gguf repair model.gguf --output saved.gguf     save the intact tensors")]
pub struct Args {
    /// Damaged file
    file: PathBuf,

    /// Copy differing and missing ranges from this intact copy; any shard of a split copy
    #[arg(long, value_name = "COPY", group = "action")]
    from: Option<PathBuf>,

    /// Restore fields that follow from the rest of the file
    #[arg(long, group = "action")]
    mend: bool,

    /// Save the key-values and the intact tensors to this file
    #[arg(short, long, value_name = "FILE", group = "action")]
    output: Option<PathBuf>,

    /// Overwrite an existing --output file
    #[arg(short, long, requires = "output")]
    force: bool,

    /// With --from, also restore keys, values and names: the file becomes the same as the copy, byte for byte
    #[arg(long, requires = "from")]
    exact: bool,

    /// With --from, print the ranges to copy without copying them
    #[arg(short = 'n', long, requires = "from")]
    dry_run: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print no progress and no summary
    #[arg(short, long)]
    quiet: bool,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        if let Some(out) = &self.output {
            super::not_stdout("--output", out)?;
        }
        let diagnosis = Diagnosis::of(&self.file)?;
        if let Some(found) = hints::legacy(&self.file).filter(|_| !diagnosis.has_head()) {
            let message = format!("{}: nothing to repair: {}; {}", self.file.display(), found.what, found.remedy);
            return Err(Failure::of_file(Verdict::Bad, "legacy", &self.file, message));
        }
        let mut report = Report::new();
        let verdict = match (&self.from, &self.output) {
            (Some(other), _) => self.copy(ui, &diagnosis, other, &mut report)?,
            (_, Some(out)) => self.save(ui, &diagnosis, out, &mut report)?,
            _ if self.mend => self.mend(ui, &diagnosis, &mut report)?,
            _ => {
                if !self.json {
                    print(ui, &diagnosis)?;
                }
                if diagnosis.is_whole() { Verdict::Good } else { Verdict::Bad }
            }
        };
        if self.json {
            json::print(ui, LEVELS, &Answer { diagnosis: &diagnosis, report })?;
        }
        Ok(verdict)
    }

    fn note(&self, ui: &mut Ui, text: &str) {
        if !self.quiet {
            ui.note(text);
        }
    }

    fn mend(&self, ui: &mut Ui, diagnosis: &Diagnosis, report: &mut Report) -> Outcome {
        diagnosis.mend()?;
        for mend in diagnosis.mends() {
            self.note(ui, &format!("repaired: {mend}"));
        }
        let after = Diagnosis::of(&self.file)?;
        report.insert("whole_after".into(), after.is_whole().into());
        let whole = after.is_whole();
        if diagnosis.mends().is_empty() {
            self.note(ui, "nothing can be repaired without an intact copy");
        }
        if !self.json {
            if !whole {
                print(ui, &after)?;
            }
            ui.print_path(&self.file)?;
        }
        Ok(if whole { Verdict::Good } else { Verdict::Bad })
    }

    fn save(&self, ui: &mut Ui, diagnosis: &Diagnosis, out: &Path, report: &mut Report) -> Outcome {
        let watch = Watch::new(self.quiet);
        let saved = diagnosis.save(out, self.force, &watch);
        watch.clear();
        let bytes = saved?;
        let (n, whole) = counts(diagnosis);
        let lost = || diagnosis.tensors().filter(|tensor| !tensor.is_whole()).map(|tensor| tensor.shown());
        self.note(ui, &format!("{whole} of {n} tensors saved, {}", size(bytes)));
        if whole < n && !self.quiet {
            ui.warning(&format!("not saved: {}", listed(lost(), n - whole)));
        }
        report.insert("saved".into(), json!({ "path": json::path(out), "tensors": whole, "file_bytes": bytes }));
        if !self.json {
            ui.print_path(out)?;
        }
        Ok(Verdict::Good)
    }

    fn copy(&self, ui: &mut Ui, diagnosis: &Diagnosis, other: &Path, report: &mut Report) -> Outcome {
        let watch = Watch::new(self.quiet);
        let compare = if self.exact { Comparison::exact } else { Comparison::new };
        let comparison = compare(diagnosis, other, &watch);
        watch.clear();
        let comparison = comparison?;
        let is_same = comparison.is_same();
        let differences: Vec<String> = comparison.differences().iter().map(ToString::to_string).collect();
        let whole = is_same && differences.is_empty();
        report.insert("whole".into(), (diagnosis.is_whole() && whole).into());
        report.insert("copied_from".into(), json!(json::path(other)));
        report.insert("bad_bytes".into(), comparison.bad_bytes().into());
        report.insert("dry_run".into(), self.dry_run.into());
        let ranges = comparison.bad().iter().map(|bad| {
            let tensor = bad.tensor.as_ref().map(|name| String::from_utf8_lossy(name).into_owned());
            json!({ "offset": bad.at, "bytes": bad.len, "tensor": tensor })
        });
        report.insert("bad_ranges".into(), ranges.collect());
        let names = comparison.names().iter().map(|names| {
            let [found, right] = names.each_ref().map(|name| String::from_utf8_lossy(name).into_owned());
            json!({ "found": found, "right": right })
        });
        report.insert("bad_names".into(), names.collect());
        report.insert("cut_bytes".into(), comparison.cut_bytes().into());
        report.insert("differences".into(), json!(differences));
        if self.dry_run && !self.json {
            print_ranges(ui, &comparison)?;
        }
        if !self.dry_run && !is_same {
            let done = comparison.repair(&watch);
            watch.clear();
            done?;
        }
        if !self.dry_run {
            report.insert("whole_after".into(), differences.is_empty().into());
        }
        self.say(ui, diagnosis, &comparison);
        if !self.json && !self.dry_run {
            ui.print_path(&self.file)?;
        }
        let is_good = differences.is_empty() && (is_same || !self.dry_run);
        Ok(if is_good { Verdict::Good } else { Verdict::Bad })
    }

    /// Reports what was copied, or would be, and the remaining differences.
    fn say(&self, ui: &mut Ui, diagnosis: &Diagnosis, comparison: &Comparison) {
        let done = |what: &str, done: &str| match self.dry_run {
            true => format!("{what} would be {done}"),
            false => format!("{what} {done}"),
        };
        for mend in diagnosis.mends() {
            self.note(ui, &done(&mend.to_string(), "repaired"));
        }
        for [found, right] in comparison.names() {
            let name = |name: &[u8]| gguf_format::check::shown(Str(name));
            self.note(ui, &done(&format!("the name {}", name(found)), &format!("corrected to {}", name(right))));
        }
        if comparison.cut_bytes() > 0 {
            let bytes = format!("{} bytes after the end of the copy", grouped(comparison.cut_bytes()));
            self.note(ui, &done(&bytes, "removed"));
        }
        let (n, bytes) = (comparison.bad().len() as u64, size(comparison.bad_bytes()));
        let ranges = format!("{} range{}", grouped(n), if n == 1 { "" } else { "s" });
        match n {
            0 => {}
            _ if self.dry_run => self.note(ui, &done(&format!("{bytes} in {ranges}"), "copied")),
            _ => self.note(ui, &format!("{bytes} in {ranges} copied; all tensors match the copy")),
        }
        let differences = comparison.differences();
        if differences.is_empty() && comparison.is_same() {
            self.note(ui, "no differences from the copy");
        }
        for difference in differences.iter().take(ROWS) {
            ui.warning(&format!("not changed: {difference}"));
        }
        if differences.len() > ROWS {
            ui.warning(&format!("not changed: {} more", grouped((differences.len() - ROWS) as u64)));
        }
        if !differences.is_empty() {
            self.note(ui, "if these differences are damage, --exact restores them, too");
        }
    }
}

type Report = serde_json::Map<String, Value>;

/// The number of tensors, and of the complete ones.
fn counts(diagnosis: &Diagnosis) -> (usize, usize) {
    (diagnosis.tensors().count(), diagnosis.tensors().filter(TensorState::is_whole).count())
}

/// A limited number of `n` names, and the number of the others.
fn listed(names: impl Iterator<Item = String>, n: usize) -> String {
    let first = names.take(5).collect::<Vec<_>>().join(", ");
    match n.saturating_sub(5) {
        0 => first,
        more => format!("{first} and {} more", grouped(more as u64)),
    }
}

fn state(state: DataState) -> String {
    match state {
        DataState::Whole => "whole".to_owned(),
        DataState::Cut { missing } => format!("{} missing", size(missing)),
        DataState::Missing => "missing".to_owned(),
        DataState::Unsized(e) => e.to_string(),
        DataState::Unplaced => "at an impossible offset, or overlapped by such a tensor".to_owned(),
        _ => String::new(),
    }
}

fn print(ui: &mut Ui, diagnosis: &Diagnosis) -> std::io::Result<()> {
    ui.title(diagnosis.path())?;
    let (n, whole) = counts(diagnosis);
    let length = match diagnosis.whole_bytes() {
        Some(bytes) if bytes > diagnosis.file_bytes() => format!(
            "{} of {} bytes; {} missing",
            grouped(diagnosis.file_bytes()),
            grouped(bytes),
            size(bytes - diagnosis.file_bytes())
        ),
        _ => format!("{} bytes", grouped(diagnosis.file_bytes())),
    };
    ui.field("  Length   ", Style::Cyan, &length)?;
    let head = match (diagnosis.problem(), diagnosis.has_head()) {
        (None, _) => "sound".to_owned(),
        (Some(problem), true) => format!("damaged, can be repaired: {}", safe(problem)),
        (Some(problem), false) => format!("damaged: {}", safe(problem)),
    };
    ui.field("  Head     ", Style::Cyan, &head)?;
    if diagnosis.has_head() {
        ui.field("  Tensors  ", Style::Cyan, &format!("{} of {} intact", grouped(whole as u64), grouped(n as u64)))?;
    }
    for mend in diagnosis.mends().iter().take(ROWS) {
        ui.field("  Repairs  ", Style::Yellow, &mend.to_string())?;
    }
    let bad = || diagnosis.tensors().filter(|tensor| !tensor.is_whole());
    if whole < n {
        writeln!(ui.out)?;
        let mut table = Table::new([
            Column::name("TENSOR").styled(Style::Cyan),
            Column::left("SHAPE"),
            Column::left("TYPE"),
            Column::right("OFFSET"),
            Column::text("DATA"),
        ]);
        for tensor in bad().take(ROWS) {
            let shape = shape(tensor.shape);
            let at = tensor.range.start.to_string();
            table.row([tensor.shown(), shape, tensor.ty.to_string(), at, state(tensor.state)]);
        }
        table.print(ui, 2)?;
        if n - whole > ROWS {
            writeln!(ui.out, "  and {} more", grouped((n - whole - ROWS) as u64))?;
        }
    }
    let advice = match (diagnosis.is_whole(), diagnosis.mends().is_empty(), diagnosis.has_head()) {
        (true, ..) => "structure intact; names, keys and weights were not checked",
        (_, false, _) => {
            "--mend repairs the items listed under Repairs; --from COPY copies the rest from an intact copy"
        }
        (_, true, true) => {
            "--from COPY copies missing data from an intact copy; --output FILE saves the intact tensors"
        }
        (_, true, false) => "--from COPY copies damaged ranges from an intact copy",
    };
    writeln!(ui.out)?;
    for line in wrap(advice, ui.width.unwrap_or(usize::MAX)) {
        writeln!(ui.out, "{line}")?;
    }
    Ok(())
}

fn print_ranges(ui: &mut Ui, comparison: &Comparison) -> std::io::Result<()> {
    let mut table =
        Table::new([Column::right("OFFSET"), Column::right("BYTES"), Column::name("TENSOR").styled(Style::Cyan)]);
    for bad in comparison.bad().iter().take(ROWS) {
        let name = bad.tensor.as_ref().map_or_else(|| "-".to_owned(), |name| Str(name).to_string());
        table.row([bad.at.to_string(), bad.len.to_string(), name]);
    }
    if !comparison.bad().is_empty() {
        table.print(ui, 0)?;
    }
    if comparison.bad().len() > ROWS {
        writeln!(ui.out, "and {} more", grouped((comparison.bad().len() - ROWS) as u64))?;
    }
    Ok(())
}

/// The diagnosis and what was done, as one JSON object.
struct Answer<'a> {
    diagnosis: &'a Diagnosis,
    /// The members about the repair. Its `whole` takes precedence over that of the diagnosis.
    report: Report,
}

impl Serialize for Answer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Answer { diagnosis, report } = self;
        let tensor = |tensor: TensorState<'_>| {
            json!({
                "name": tensor.name.to_string_lossy(), "type": tensor.ty.to_string(), "shape": tensor.shape.collect::<Vec<_>>(),
                "offset": tensor.range.start, "bytes": tensor.range.end - tensor.range.start,
                "whole": tensor.is_whole(), "data": state(tensor.state),
            })
        };
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("path", &json::path(diagnosis.path()))?;
        object.serialize_entry("whole", report.get("whole").unwrap_or(&diagnosis.is_whole().into()))?;
        object.serialize_entry("file_bytes", &diagnosis.file_bytes())?;
        object.serialize_entry("whole_bytes", &diagnosis.whole_bytes())?;
        object.serialize_entry("problem", &diagnosis.problem())?;
        object.serialize_entry("head", &diagnosis.has_head())?;
        object.serialize_entry("mends", &json::List(|| diagnosis.mends().iter().map(ToString::to_string)))?;
        object.serialize_entry("tensors", &json::List(|| diagnosis.tensors().map(tensor)))?;
        for (name, value) in report.iter().filter(|(name, _)| *name != "whole") {
            object.serialize_entry(name, value)?;
        }
        object.end()
    }
}
