//! Runs and prints the edits of all editing commands.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gguf_edit::tokens::token_type_name;
use gguf_edit::typed::{kind_of_value, kind_text};
use gguf_edit::{Change, Edit, EditMethod, EditOptions, EditPlan, ElementChange};
use gguf_format::check::{Finding, Severity};
use gguf_format::keys::{TOKENIZER_GGML_SCORES, TOKENIZER_GGML_TOKEN_TYPE, TOKENIZER_GGML_TOKENS};
use gguf_format::{Gguf, Str, Value as Kv, ValueRef};
use gguf_io::ModelFile;
use gguf_io::in_place::EditLock;
use serde_json::{Value, json};

use crate::cmd::size::parse_size;
use crate::failure::{Failure, Outcome, Verdict};
use crate::json::{self, Shown};
use crate::open;
use crate::text;
use crate::ui::{Column, Style, Table, Ui, grouped, shown_path, size, wrap};
use crate::watch::Watch;

/// Maximum width of a value in a message.
const VALUE: usize = 48;

/// Maximum number of printed findings of one rule.
const MAX_OF_RULE: usize = 3;

/// Number of indented JSON levels.
const LEVELS: usize = 3;

/// Maximum number of printed elements of a changed array.
const MAX_ELEMENTS: usize = 10;

/// The option that saves the old values.
#[derive(Debug, clap::Args)]
pub struct Backup {
    /// Before the edit, write the old values of the changed keys to this new file, as JSON for `gguf set --from`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "dry_run"])]
    backup: Option<PathBuf>,
}

impl Backup {
    /// Writes the old values, those of removed keys with their indexes. Keys that the edit adds are null, which removes them.
    fn write(&self, changes: &[Change], gguf: &Gguf<'_>) -> Result<Option<&Path>, Failure> {
        let Some(path) = self.backup.as_deref().filter(|_| !changes.is_empty()) else { return Ok(None) };
        let mut old = serde_json::Map::new();
        for change in changes {
            let (key, value) = match change {
                Change::Added { key, .. } => (key, Value::Null),
                Change::Changed { key, before, .. } | Change::Removed { key, before } => {
                    let value = serde_json::to_value(Shown { value: before.as_ref(), full: true }).unwrap_or_default();
                    let mut old = json!({ "type": kind_text(kind_of_value(before.as_ref())), "value": value });
                    if let (Change::Removed { .. }, Some(fields)) = (change, old.as_object_mut()) {
                        let mut keys = gguf.kvs().filter(|kv| kv.key != gguf_edit::PAD_KEY);
                        fields.insert(
                            "index".to_owned(),
                            keys.position(|kv| kv.key == **key || kv.key.to_string() == *key).into(),
                        );
                    }
                    (key, old)
                }
                _ => continue,
            };
            // If a key is changed twice, the first change has the value of the file.
            if !old.contains_key(key) {
                old.insert(key.clone(), value);
            }
        }
        let fail = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::AlreadyExists => {
                Failure::exists(path).with_help(Some("choose another name".to_owned()))
            }
            _ => Failure::CouldNotRun(format!("{}: cannot write: {e}", path.display())),
        };
        let mut file = std::fs::File::create_new(path).map_err(fail)?;
        writeln!(file, "{:#}", Value::Object(old)).and_then(|()| file.sync_all()).map_err(fail)?;
        Ok(Some(path))
    }
}

/// How a file is edited.
#[derive(Debug, clap::Args)]
pub struct How {
    /// Write an edited copy to this file; the input stays unchanged
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["in_place", "rewrite"])]
    output: Option<PathBuf>,

    /// Overwrite an existing --output file
    #[arg(short, long, requires = "output")]
    force: bool,

    /// Fail if the file cannot be edited in place
    #[arg(long)]
    in_place: bool,

    /// Always write a new file, without reserved space
    #[arg(long, conflicts_with = "in_place")]
    rewrite: bool,

    /// Reserve at least this much space for later edits, such as 64K, as the key ggufkit.pad
    #[arg(long, value_name = "SIZE", value_parser = parse_reserve)]
    reserve: Option<u64>,

    /// Print the changes and how they would be written, without applying them
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Make the edit even if it adds errors that `gguf check` finds, so that llama.cpp rejects the file
    #[arg(long)]
    allow_invalid: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print no progress and no summary
    #[arg(short, long)]
    quiet: bool,
}

impl How {
    /// Whether the options require work even without an edit.
    pub fn has_work(&self) -> bool {
        self.output.is_some() || self.rewrite || self.reserve.is_some()
    }

    /// Opens the file for an edit, and excludes all other edits until the returned value is dropped. Completes an interrupted edit first, and
    /// prints a note about it.
    ///
    /// # Errors
    /// If the file cannot be read, or another process is editing it.
    pub fn open(&self, ui: &mut Ui, path: &Path) -> Result<Opened, Failure> {
        expect_model(path)?;
        self.finish(ui, path)?;
        let lock = match path.is_file() && !self.dry_run && self.output.is_none() {
            true => match lock(ui, path, self.quiet) {
                // An edit that changes nothing needs no lock; any other reports the error.
                Err(gguf_io::Error::Io { .. }) => None,
                lock => Some(lock?),
            },
            false => None,
        };
        Ok(Opened { file: open(path)?, lock })
    }

    /// Opens the file to read it; see [`How::open`].
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open_unlocked(&self, ui: &mut Ui, path: &Path) -> Result<ModelFile, Failure> {
        expect_model(path)?;
        self.finish(ui, path)?;
        open(path)
    }

    fn finish(&self, ui: &mut Ui, path: &Path) -> Result<(), Failure> {
        if path.is_file() && gguf_io::in_place::finish(path)? && !self.quiet {
            ui.note(&format!("gguf: {}: completed an interrupted edit", path.display()));
        }
        Ok(())
    }

    /// Applies the edits, or prints the plan. Before, the old values are saved if requested.
    pub fn run(&self, ui: &mut Ui, opened: Opened, edits: &[Edit], backup: Option<&Backup>) -> Outcome {
        if let Some(output) = &self.output {
            crate::cmd::not_stdout("--output", output)?;
        }
        let options = EditOptions::default()
            .reserve(self.reserve.unwrap_or(0))
            .only_in_place(self.in_place)
            .rewrite(self.rewrite);
        let path = opened.file.path().to_owned();
        let plan = EditPlan::of(opened.file, edits, &options)?;
        let findings = plan.new_findings();
        warn(ui, &findings);
        let invalid = self.invalid(&path, &findings);
        if self.dry_run {
            let shown = self.show(ui, &plan, &findings)?;
            return Ok(invalid.map_or(shown, |invalid| {
                ui.error(&invalid);
                shown.max(invalid.verdict())
            }));
        }
        if let Some(invalid) = invalid {
            return Err(invalid);
        }
        let summary = Summary::of(&plan);
        let (changes, reserved) = (plan.changes().to_vec(), plan.reserved_bytes());
        let lines: Vec<String> = changes.iter().flat_map(|change| lines(change, plan.gguf())).collect();
        let saved = backup.map_or(Ok(None), |backup| backup.write(&changes, plan.gguf()))?;
        let watch = Watch::new(self.quiet);
        let method = match (&self.output, opened.lock) {
            (Some(output), _) => plan.write_to(output, self.force, &watch),
            (None, Some(lock)) => plan.run_locked(lock, &watch),
            (None, None) => plan.run(&watch),
        };
        watch.clear();
        let method = method.inspect_err(|_| {
            // Without the edit there is nothing to undo.
            if let Some(saved) = saved {
                let _ = std::fs::remove_file(saved);
            }
        })?;
        let path = self.output.as_deref().unwrap_or(&path);
        if !self.quiet {
            for line in lines {
                ui.note(&format!("  {line}"));
            }
            ui.note(&summary.done(method, &changes, reserved, self.output.is_some()));
            if let Some(saved) = saved {
                ui.note(&format!("to undo: gguf set {} --from {}", shell_word(path), shell_word(saved)));
            }
        }
        match self.json {
            true => json::print(ui, LEVELS, &summary.json(path, method, &changes, reserved, &findings, false))?,
            false => ui.print_path(path)?,
        }
        Ok(Verdict::Good)
    }

    /// The error for an edit that adds errors.
    fn invalid(&self, path: &Path, findings: &[Finding]) -> Option<Failure> {
        let errors = match findings.iter().filter(|finding| finding.severity == Severity::Error).count() {
            0 => return None,
            1 => "an error".to_owned(),
            n => format!("{} errors", grouped(n as u64)),
        };
        let problem = format!(
            "the edit would add {errors}, and llama.cpp would reject the file; correct the edit, or use --allow-invalid"
        );
        (!self.allow_invalid).then(|| Failure::Bad(format!("{}: {problem}", path.display())))
    }

    fn show(&self, ui: &mut Ui, plan: &EditPlan, findings: &[Finding]) -> Outcome {
        let summary = Summary::of(plan);
        if self.json {
            let path = self.output.as_deref().unwrap_or(plan.path());
            let report = summary.json(path, plan.method(), plan.changes(), plan.reserved_bytes(), findings, true);
            json::print(ui, LEVELS, &report)?;
            return Ok(Verdict::Good);
        }
        if !plan.changes().is_empty() {
            let is_rename =
                |change: &Change| matches!(change, Change::RenamedKey { .. } | Change::RenamedTensor { .. });
            let renames = plan.changes().iter().any(is_rename);
            let after = if renames { Column::name("AFTER") } else { Column::text("AFTER") };
            let mut table = Table::new([Column::name("NAME").styled(Style::Cyan), Column::text("BEFORE"), after]);
            for change in plan.changes() {
                for row in cells(change, plan.gguf()) {
                    table.row(row);
                }
            }
            table.print(ui, 0)?;
            writeln!(ui.out)?;
        }
        let text = match &self.output {
            Some(output) => format!("would be written to {}, including all data", output.display()),
            None => summary.planned(plan.method(), plan.reserved_bytes()),
        };
        for line in wrap(&text, ui.width.unwrap_or(usize::MAX)) {
            writeln!(ui.out, "{}", crate::ui::safe(&line))?;
        }
        Ok(Verdict::Good)
    }
}

/// Prints findings about the edited file as warnings, the first few of each rule.
fn warn(ui: &mut Ui, findings: &[Finding]) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in findings {
        let n = counts.entry(finding.code).or_default();
        *n += 1;
        if *n <= MAX_OF_RULE {
            let what = match finding.severity {
                Severity::Error => "this edit makes the model unloadable",
                _ => "after the edit",
            };
            let Finding { place, message, expected, .. } = finding;
            ui.warning(&format!("{what}: {place}: {message}; expected {expected}"));
        }
    }
    for (code, n) in counts.into_iter().filter(|(_, n)| *n > MAX_OF_RULE) {
        let more = match n - MAX_OF_RULE {
            1 => "1 more finding".to_owned(),
            more => format!("{} more findings", grouped(more as u64)),
        };
        ui.warning(&format!("after the edit: {more} of the rule {code}; --json lists all"));
    }
}

/// A file that is open for an edit.
pub struct Opened {
    file: ModelFile,
    /// Excludes other edits; `None` if the file itself is not written.
    lock: Option<EditLock>,
}

impl Opened {
    /// The head.
    pub fn gguf(&self) -> &Gguf<'static> {
        self.file.gguf()
    }
}

fn open(path: &Path) -> Result<ModelFile, Failure> {
    let file = open::file(path, 0)?;
    gguf_pipeline::check_memory(path, std::iter::once(file.gguf()))?;
    Ok(file)
}

/// Time to wait for another process that is editing the file.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time between two attempts to lock a file.
const PAUSE: Duration = Duration::from_millis(5);

/// Excludes edits of a file by other processes. Waits for one in progress, with a note.
///
/// # Errors
/// If the other process is still editing the file after a while, or has left an edit that cannot be completed, or if the system does not
/// permit a lock.
pub fn lock(ui: &mut Ui, path: &Path, quiet: bool) -> Result<EditLock, gguf_io::Error> {
    let end = Instant::now() + PATIENCE;
    let mut is_noted = quiet;
    loop {
        match EditLock::new(path) {
            Err(gguf_io::Error::Busy(_)) if Instant::now() < end => {
                if !is_noted {
                    ui.note(&format!("gguf: {}: waiting for another process that is editing the file", path.display()));
                    is_noted = true;
                }
                std::thread::sleep(PAUSE);
            }
            lock => return lock,
        }
    }
}

/// Checks that the input is not a folder, such as a checkpoint.
///
/// # Errors
/// If it is a folder.
fn expect_model(path: &Path) -> Result<(), Failure> {
    match path.is_dir() {
        true => Err(Failure::CouldNotRun(format!("{}: expected a GGUF file, found a folder", path.display()))),
        false => Ok(()),
    }
}

/// A value, shortened.
fn short(value: &Kv) -> String {
    text::value(value.as_ref(), Some(VALUE))
}

/// A path as a word of a command.
fn shell_word(path: &Path) -> String {
    let text = shown_path(path);
    let is_plain = |c: char| c.is_alphanumeric() || "/\\.-_+,:@%".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// A changed element of an array: what it belongs to, and its values before and after.
struct Element {
    name: String,
    before: String,
    after: String,
}

/// The first changed elements of an array, and the number of the others. Those of lists with an element for each token are named by the token.
fn elements(change: &Change, gguf: &Gguf<'_>, width: usize) -> (Vec<Element>, usize) {
    let key = change.key().unwrap_or_default();
    let is_of_tokens = [TOKENIZER_GGML_TOKENS, TOKENIZER_GGML_SCORES, TOKENIZER_GGML_TOKEN_TYPE].contains(&key);
    let tokens = gguf.get(TOKENIZER_GGML_TOKENS).and_then(|value| value.as_array()).filter(|_| is_of_tokens);
    let shown = |value: ValueRef<'_>| {
        let ty = value.get::<i32>().ok().filter(|_| key == TOKENIZER_GGML_TOKEN_TYPE);
        ty.and_then(token_type_name).map_or_else(|| text::value(value, Some(width)), str::to_owned)
    };
    let mut changed = change.elements();
    let first: Vec<Element> = changed
        .by_ref()
        .take(MAX_ELEMENTS)
        .map(|element| {
            let token = tokens.and_then(|tokens| tokens.get(element.index)).filter(|_| key != TOKENIZER_GGML_TOKENS);
            let name = match (is_of_tokens, token) {
                (true, Some(token)) => format!("token {} {}", element.index, text::value(token, Some(VALUE))),
                (true, None) => format!("token {}", element.index),
                (false, _) => format!("element {}", element.index),
            };
            Element { name, before: shown(element.before), after: shown(element.after) }
        })
        .collect();
    (first, changed.count())
}

/// A name of a change, safe to print. The printed form of a key outside UTF-8, such as `\x8d`, is not escaped again.
fn shown(name: &str) -> String {
    Str(&gguf_edit::key_bytes(name)).to_string()
}

/// A change as the cells of table rows.
fn cells(change: &Change, gguf: &Gguf<'_>) -> Vec<Vec<String>> {
    let full = |value: &Kv| text::value(value.as_ref(), Some(200));
    let row = match change {
        Change::Added { key, value } => vec![shown(key), "-".to_owned(), full(value)],
        Change::Changed { key, before, after } => {
            let (first, others) = elements(change, gguf, 200);
            if first.is_empty() {
                return vec![vec![shown(key), full(before), full(after)]];
            }
            let row =
                |element: Element| vec![format!("{}, {}", shown(key), element.name), element.before, element.after];
            let others =
                (others > 0).then(|| vec![format!("{}, {}", shown(key), more(others)), String::new(), String::new()]);
            return first.into_iter().map(row).chain(others).collect();
        }
        Change::Removed { key, before } => vec![shown(key), full(before), "-".to_owned()],
        Change::RenamedKey { from, to } | Change::RenamedTensor { from, to } => {
            vec![shown(from), "(name)".to_owned(), shown(to)]
        }
        _ => Vec::new(),
    };
    vec![row]
}

/// `2 more elements`
fn more(n: usize) -> String {
    format!("{} more element{}", grouped(n as u64), if n == 1 { "" } else { "s" })
}

/// A change as lines: one, or one for each changed element of an array.
fn lines(change: &Change, gguf: &Gguf<'_>) -> Vec<String> {
    let line = match change {
        Change::Added { key, value } => format!("{}: {} (new)", shown(key), short(value)),
        Change::Changed { key, before, after } => {
            let (first, others) = elements(change, gguf, VALUE);
            if first.is_empty() {
                return vec![format!("{}: {} -> {}", shown(key), short(before), short(after))];
            }
            let line = |e: Element| format!("{}: {}: {} -> {}", shown(key), e.name, e.before, e.after);
            let others = (others > 0).then(|| format!("{}: {}", shown(key), more(others)));
            return first.into_iter().map(line).chain(others).collect();
        }
        Change::Removed { key, before } => format!("{}: {} (removed)", shown(key), short(before)),
        Change::RenamedKey { from, to } => format!("{} is now {}", shown(from), shown(to)),
        Change::RenamedTensor { from, to } => format!("tensor {} is now {}", shown(from), shown(to)),
        _ => String::new(),
    };
    vec![line]
}

/// Describes a plan, before and after it is run.
struct Summary {
    before: u64,
    after: u64,
    written: u64,
    n: usize,
}

impl Summary {
    fn of(plan: &EditPlan) -> Summary {
        let (before, after) = plan.file_bytes();
        Summary { before, after, written: plan.written_bytes(), n: plan.changes().len() }
    }

    fn how(&self, method: EditMethod) -> String {
        match method {
            EditMethod::Nothing => "nothing to change".to_owned(),
            EditMethod::Reserved => "in place".to_owned(),
            EditMethod::Insert { bytes } => format!("in place, with {} bytes inserted before the data", grouped(bytes)),
            EditMethod::Share => "as a new file that shares its data with the old one".to_owned(),
            EditMethod::Copy { why } => {
                format!("as a new file of {} with all data copied, because {why}", size(self.after))
            }
            _ => String::new(),
        }
    }

    fn planned(&self, method: EditMethod, reserved: u64) -> String {
        match method {
            EditMethod::Nothing => "nothing would change".to_owned(),
            method => format!(
                "would be edited {}: at most {} written, {} for later edits",
                self.how(method),
                size(self.written),
                space_left(reserved)
            ),
        }
    }

    fn done(&self, method: EditMethod, changes: &[Change], reserved: u64, is_copy: bool) -> String {
        let n = match changes.len() {
            0 => "no changes".to_owned(),
            1 => "1 change".to_owned(),
            n => format!("{} changes", grouped(n as u64)),
        };
        match method {
            EditMethod::Nothing => "nothing to change".to_owned(),
            method if is_copy => {
                let shared = if method == EditMethod::Share { ", which shares the data" } else { "" };
                format!("{n}, in a copy{shared}")
            }
            EditMethod::Reserved if reserved > 0 => format!("{n}, in place"),
            method => format!("{n}, {}; {} for later edits", self.how(method), space_left(reserved)),
        }
    }

    fn json(
        &self,
        path: &Path,
        method: EditMethod,
        changes: &[Change],
        reserved: u64,
        findings: &[Finding],
        dry_run: bool,
    ) -> Value {
        let (name, why, inserted) = match method {
            EditMethod::Nothing => ("nothing", None, 0),
            EditMethod::Reserved => ("room", None, 0),
            EditMethod::Insert { bytes } => ("insert", None, bytes),
            EditMethod::Share => ("share", None, 0),
            EditMethod::Copy { why } => ("copy", Some(why), 0),
            _ => ("other", None, 0),
        };
        json!({
            "path": json::path(path),
            "dry_run": dry_run,
            "way": name,
            "in_place": method.is_in_place(),
            "why_not_in_place": why,
            "inserted_bytes": inserted,
            "written_bytes": self.written,
            "file_bytes_before": self.before,
            "file_bytes": self.after,
            "room_bytes": reserved,
            "n_changes": self.n,
            "changes": changes.iter().map(change_json).collect::<Vec<_>>(),
            "findings": findings.iter().map(|f| json!({
                "code": f.code, "severity": f.severity.to_string(), "message": f.message, "expected": f.expected, "hint": f.hint,
            })).collect::<Vec<_>>(),
        })
    }
}

fn space_left(reserved: u64) -> String {
    match reserved {
        0 => "no space left".to_owned(),
        reserved => format!("{} bytes of space left", grouped(reserved)),
    }
}

fn change_json(change: &Change) -> Value {
    let shown = |value: &Kv| serde_json::to_value(Shown { value: value.as_ref(), full: false }).unwrap_or_default();
    let ty = |value: &Kv| text::type_name(value.as_ref());
    match change {
        Change::Added { key, value } => {
            json!({ "change": "add", "key": key, "type": ty(value), "after": shown(value) })
        }
        Change::Changed { key, before, after } => {
            let element = |element: ElementChange<'_>| {
                let [before, after] = [element.before, element.after].map(|value| Shown { value, full: true });
                json!({ "index": element.index, "before": before, "after": after })
            };
            let mut change_json = json!({
                "change": "set", "key": key, "type_before": ty(before), "before": shown(before),
                "type": ty(after), "after": shown(after),
            });
            let elements: Vec<Value> = change.elements().map(element).collect();
            if let Some(fields) = change_json.as_object_mut().filter(|_| !elements.is_empty()) {
                fields.insert("elements".to_owned(), elements.into());
            }
            change_json
        }
        Change::Removed { key, before } => {
            json!({ "change": "remove", "key": key, "type_before": ty(before), "before": shown(before) })
        }
        Change::RenamedKey { from, to } => json!({ "change": "rename_key", "key": from, "to": to }),
        Change::RenamedTensor { from, to } => json!({ "change": "rename_tensor", "tensor": from, "to": to }),
        _ => Value::Null,
    }
}

/// Parses a size like [`parse_size`], up to the maximum reserved space.
///
/// # Errors
/// Returns a message if the text is not a size or the size is too large.
pub fn parse_reserve(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    match bytes <= gguf_edit::MAX_RESERVE {
        true => Ok(bytes),
        false => Err(format!("at most {} can be reserved", size(gguf_edit::MAX_RESERVE))),
    }
}
