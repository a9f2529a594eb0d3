//! `gguf show`: the summary, metadata and tensors of a file as text. The JSON output is in `show/json.rs`.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::path::PathBuf;

use gguf_edit::join::is_piece;
use gguf_format::Gguf;
use gguf_format::sort::CompactSort as _;
use gguf_io::ModelFile;
use gguf_model::summary::{Summary, summary};

use crate::cmd::get::matches;
use crate::cmd::{find_model, offset, open_model};
use crate::failure::{Failure, Outcome, Verdict};
use crate::hints;
use crate::open;
use crate::text;
use crate::ui::{
    Column, Style, Table, Ui, bits_per_weight, count, grouped, percent, shown_path, size, text_width, wrap,
};

mod json;
mod overview;
mod repository;

/// Maximum width of a value if standard output is not a terminal.
const PLAIN_LIMIT: usize = 160;

/// Minimum width of a value, even if its key must be cut.
const LEAST_VALUE: usize = 24;

/// Show a summary of a model, its metadata or its tensors.
///
/// For a split model, pass any shard; the other shards are found in the same folder. Several files are shown as a table
/// with one line per model.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf show model.gguf                         print a summary
  gguf show model.gguf --kv --full | less      print all metadata in full
  gguf show model.gguf --tensors='blk.0.*' --kv='*rope*'
  gguf show *.gguf                             print one line per model
  gguf show model.gguf --json | jq '.files[].summary'
  gguf show hf:ORG/REPO                        list the models of a repository")]
pub struct Args {
    /// GGUF files, or a repository of the Hub (hf:ORG/REPO), whose models are listed; - reads the head from standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// List the metadata; with =PATTERN, only matching keys, where * matches any characters and ? one character
    #[arg(short, long, value_name = "PATTERN", num_args = 0..=1, require_equals = true, default_missing_value = "*")]
    kv: Option<String>,

    /// List the tensors; with =PATTERN, only matching names
    #[arg(short, long, value_name = "PATTERN", num_args = 0..=1, require_equals = true, default_missing_value = "*")]
    tensors: Option<String>,

    /// Order of the tensors
    #[arg(long, value_name = "BY", requires = "tensors", default_value = "file", hide_default_value = true)]
    sort: Order,

    /// Print tables in Markdown
    #[arg(short, long, conflicts_with = "json")]
    markdown: bool,

    /// Print one JSON object with all information; long arrays are abbreviated to type, length and first elements
    #[arg(long, conflicts_with_all = ["kv", "tensors"])]
    json: bool,

    /// Do not truncate long strings and arrays
    #[arg(long)]
    full: bool,

    /// Byte offset at which the GGUF starts in the file (0x for hexadecimal)
    #[arg(long, value_name = "OFFSET", default_value = "0", hide_default_value = true, value_parser = offset)]
    at: u64,
}

/// Orders of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Order {
    /// Order of the file
    File,
    /// Name
    Name,
    /// Size, largest first
    Size,
    /// Type, then order of the file
    Type,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        self.check_patterns()?;
        if let [only] = self.files.as_slice()
            && let Some(models) = open::models_in(only)?
        {
            return repository::print(ui, &models, self.markdown);
        }
        if self.json {
            return self.print_json(ui);
        }
        if self.files.len() > 1 && self.kv.is_none() && self.tensors.is_none() {
            return overview::print(ui, &self.files, self.at, self.markdown);
        }
        let mut verdict = Verdict::Good;
        for (i, path) in self.files.iter().enumerate() {
            if i > 0 {
                writeln!(ui.out)?;
            }
            let shown = open_model(ui, path, self.at).and_then(|shards| self.show(ui, path, shards.files()));
            match shown {
                Ok(shown) => verdict = verdict.max(shown),
                Err(Failure::PipeClosed) => return Err(Failure::PipeClosed),
                Err(failure) => {
                    ui.error(&failure);
                    verdict = verdict.max(failure.verdict());
                }
            }
        }
        Ok(verdict)
    }

    /// Detects a pattern that is separated from its option by a space instead of `=`, and would be taken for a file.
    fn check_patterns(&self) -> Result<(), Failure> {
        let option = match (&self.tensors, &self.kv) {
            (Some(_), _) => "--tensors",
            (None, Some(_)) => "--kv",
            (None, None) => return Ok(()),
        };
        let is_pattern = |path: &&PathBuf| path.to_string_lossy().contains(['*', '?']) && !path.exists();
        match self.files.iter().find(is_pattern) {
            Some(pattern) => {
                let pattern = pattern.display();
                let problem =
                    format!("{pattern}: no such file; a pattern follows an equals sign, as in {option}='{pattern}'");
                Err(Failure::CouldNotRun(problem))
            }
            None => Ok(()),
        }
    }

    fn show(&self, ui: &mut Ui, path: &std::path::Path, shards: &[ModelFile]) -> Outcome {
        let ggufs: Vec<&Gguf<'_>> = shards.iter().map(ModelFile::gguf).collect();
        let verdict = if missing_bytes(shards) > 0 { Verdict::Bad } else { Verdict::Good };
        let several = self.files.len() > 1;
        match (&self.kv, &self.tensors) {
            (None, None) => {
                let summary = summary(&ggufs);
                if self.markdown {
                    markdown_summary(ui, shards, &summary)?;
                } else {
                    ui.title(path)?;
                    print_summary(ui, shards, &summary)?;
                }
                if let Some(width) = ui.width.filter(|_| !self.markdown) {
                    writeln!(ui.out)?;
                    let is_matrix = summary.kind.as_deref() == Some("imatrix");
                    let more = if is_matrix { "; gguf imatrix show FILE" } else { "" };
                    let hint =
                        format!("more: gguf show --kv, --tensors or --json; gguf get FILE KEY; gguf check FILE{more}");
                    for line in wrap(&hint, width) {
                        let line = ui.paint(line, Style::Dim);
                        writeln!(ui.out, "{line}")?;
                    }
                }
            }
            (kv, tensors) => {
                if several && self.markdown {
                    writeln!(ui.out, "## {}\n", shown_path(path))?;
                } else if several {
                    ui.title(path)?;
                }
                if let (Some(pattern), Some(first)) = (kv, ggufs.first()) {
                    let table = self.kvs(ui, first, pattern);
                    self.print(ui, &table)?;
                }
                if kv.is_some() && tensors.is_some() {
                    writeln!(ui.out)?;
                }
                if let Some(pattern) = tensors {
                    let table = tensor_table(ui, &ggufs, pattern, self.sort, self.markdown);
                    self.print(ui, &table)?;
                }
            }
        }
        // The summary already reports this.
        if self.kv.is_some() || self.tensors.is_some() {
            truncated(shards).iter().for_each(|failure| ui.error(failure));
        }
        Ok(verdict)
    }

    /// Prints the object of `--json`. Problems with files are also printed to standard error.
    fn print_json(&self, ui: &mut Ui) -> Outcome {
        let verdict = Cell::new(Verdict::Good);
        let (warnings, failures) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let fail = |failure: &Failure| {
            verdict.set(verdict.get().max(failure.verdict()));
            failures.borrow_mut().push(failure.to_string());
        };
        let open = |path| match find_model(path, self.at) {
            Ok((shards, warning)) => {
                warnings.borrow_mut().extend(warning);
                truncated(shards.files()).iter().for_each(fail);
                Ok(shards)
            }
            Err(failure) => {
                fail(&failure);
                Err(failure)
            }
        };
        json::print(ui, &self.files, open, self.full)?;
        warnings.borrow().iter().for_each(|warning| ui.warning(warning));
        failures.into_inner().into_iter().for_each(|message| ui.error(&Failure::Bad(message)));
        Ok(verdict.get())
    }

    fn print(&self, ui: &mut Ui, table: &Table) -> std::io::Result<()> {
        if self.markdown { table.print_markdown(&mut ui.out) } else { table.print(ui, 0) }
    }

    fn kvs(&self, ui: &Ui, gguf: &Gguf<'_>, pattern: &str) -> Table {
        let kvs = || gguf.kvs().filter(|kv| matches(pattern, kv.key));
        let columns = [
            Column::name("KEY").styled(Style::Cyan),
            Column::left("TYPE").styled(Style::Dim).left_out(1),
            if self.full { Column::whole("VALUE") } else { Column::text("VALUE") },
        ];
        let mut table = Table::new(columns);
        let rows = || kvs().map(|kv| (kv.key.to_string(), text::type_name(kv.value)));
        let widest = |of: fn(&(String, String)) -> &str| rows().map(|row| text_width(of(&row))).max().unwrap_or(0);
        let (keys, types) = (widest(|row| &row.0), widest(|row| &row.1));
        let limit = match (self.full, ui.width.filter(|_| !self.markdown)) {
            (true, _) => None,
            (false, None) => Some(PLAIN_LIMIT),
            (false, Some(width)) => Some(width.saturating_sub(keys + types + 4).max(LEAST_VALUE)),
        };
        for (kv, (key, ty)) in kvs().zip(rows()) {
            table.row([key, ty, text::value(kv.value, limit)]);
        }
        table
    }
}

fn tensor_table(ui: &Ui, shards: &[&Gguf<'_>], pattern: &str, order: Order, is_markdown: bool) -> Table {
    let sharded = shards.len() > 1;
    let mut columns = vec![
        Column::name("TENSOR").styled(Style::Cyan),
        Column::left("SHAPE"),
        Column::left("TYPE"),
        Column::right("WEIGHTS").left_out(3),
        Column::right("BITS").left_out(2),
        Column::right("BYTES").left_out(5),
        Column::right("OFFSET").styled(Style::Dim).left_out(1),
    ];
    if sharded {
        columns.push(Column::right("SHARD").styled(Style::Dim).left_out(4));
    }
    let mut tensors = Vec::new();
    for (shard, gguf) in (1..).zip(shards) {
        let chosen = gguf.tensors().filter(|t| matches(pattern, t.name));
        tensors.extend(chosen.map(|t| (shard, t, gguf.tensor_start(&t))));
    }
    match order {
        Order::File => {}
        Order::Name => tensors.compact_sort_by_key(|(_, t, _)| t.name),
        Order::Size => tensors.compact_sort_by_key(|(_, t, _)| std::cmp::Reverse(t.n_bytes().unwrap_or(0))),
        Order::Type => tensors.compact_sort_by_key(|(_, t, _)| t.ty),
    }
    let known = |number: Option<String>| number.unwrap_or_else(|| "?".to_owned());
    let mut table = Table::new(columns);
    for (shard, t, start) in tensors {
        let (n, bytes) = (t.n_elements(), t.n_bytes().ok());
        let bits =
            n.zip(bytes).filter(|(n, _)| *n > 0).map(|(n, bytes)| bits_per_weight(bytes as f64 * 8.0 / n as f64));
        let (n, bytes) = (known(n.map(count)), known(bytes.map(|n| if is_markdown { size(n) } else { ui.bytes(n) })));
        let start = known(start.map(|n| n.to_string()));
        let mut row = vec![t.name.to_string(), text::shape(t.dims), t.ty.to_string(), n, known(bits), bytes, start];
        if sharded {
            row.push(u32::to_string(&shard));
        }
        table.row(row);
    }
    table
}

/// A failure for each file that lacks tensor data.
fn truncated(shards: &[ModelFile]) -> Vec<Failure> {
    let cut = shards.iter().filter(|file| missing_in(file) > 0);
    let failure = |file: &ModelFile| {
        let whole = file.file_bytes().saturating_add(missing_in(file));
        let (found, whole, path) = (grouped(file.file_bytes()), grouped(whole), file.path().display());
        let hint = match is_piece(file.path()) {
            true => format!("a piece of a file, which `{}` joins with the others", hints::merge_of(file.path())),
            false => "fetch it again".to_owned(),
        };
        Failure::Bad(format!("{path}: truncated: {found} of at least {whole} bytes; {hint}"))
    };
    cut.map(failure).collect()
}

/// The number of tensor data bytes missing at the end of a file.
fn missing_in(file: &ModelFile) -> u64 {
    let ends = file.gguf().tensors().filter_map(|t| Some(file.gguf().tensor_range(&t).ok()?.end));
    ends.max().unwrap_or(0).saturating_sub(file.file_bytes())
}

/// The sum of [`missing_in`] over all files.
fn missing_bytes(shards: &[ModelFile]) -> u64 {
    shards.iter().map(missing_in).fold(0, u64::saturating_add)
}

fn print_summary(ui: &mut Ui, shards: &[ModelFile], s: &Summary) -> std::io::Result<()> {
    for (label, value) in lines(shards, s) {
        ui.field(&format!("  {label:<15}"), Style::Cyan, &value)?;
    }
    let missing = missing_bytes(shards);
    if missing > 0 {
        let piece = shards.iter().map(ModelFile::path).find(|path| is_piece(path));
        let hint = piece.map_or("`gguf check` has the details".to_owned(), |piece| {
            format!("{} joins the pieces", hints::merge_of(piece))
        });
        let text = format!("{} of tensor data missing; {hint}", size(missing));
        ui.field("  Incomplete     ", Style::Red, &text)?;
    }
    let Some(table) = types(s) else { return Ok(()) };
    writeln!(ui.out)?;
    table.print(ui, 2)
}

/// Prints the summary as Markdown tables.
fn markdown_summary(ui: &mut Ui, shards: &[ModelFile], s: &Summary) -> std::io::Result<()> {
    let mut table = Table::new([Column::left(""), Column::left("")]);
    for (label, value) in lines(shards, s) {
        table.row([label.to_owned(), value]);
    }
    let missing = missing_bytes(shards);
    if missing > 0 {
        table.row(["Incomplete".to_owned(), format!("{} of tensor data missing", size(missing))]);
    }
    table.print_markdown(&mut ui.out)?;
    let Some(table) = types(s) else { return Ok(()) };
    writeln!(ui.out)?;
    table.print_markdown(&mut ui.out)
}

/// The table of tensor types, if there are tensors.
fn types(s: &Summary) -> Option<Table> {
    if s.types.is_empty() {
        return None;
    }
    let columns = [Column::left("TYPE"), Column::right("TENSORS"), Column::right("BYTES"), Column::right("SHARE")];
    let mut table = Table::new(columns);
    for t in &s.types {
        let share = percent(t.bytes, s.tensor_bytes);
        table.row([t.ty.to_string(), grouped(t.n_tensors), size(t.bytes), share]);
    }
    if s.n_unknown > 0 {
        table.row(["unknown".to_owned(), grouped(s.n_unknown), "?".to_owned(), String::new()]);
    }
    Some(table)
}

/// The name of the mixture, or of the file type.
fn mixture(s: &Summary) -> Option<String> {
    s.mixture.clone().or(s.file_type.map(|ty| ty.to_string()))
}

/// The lines of the summary. Unknown values are omitted.
fn lines(shards: &[ModelFile], s: &Summary) -> Vec<(&'static str, String)> {
    let mut lines: Vec<(&'static str, String)> = Vec::new();
    let mut add = |label, value: Option<String>| lines.extend(value.map(|value| (label, value)));
    let parts = |parts: &[Option<String>]| {
        let parts: Vec<&str> = parts.iter().flatten().map(String::as_str).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    };
    let n = |n: u64, one: &str, many: &str| format!("{} {}", grouped(n), if n == 1 { one } else { many });

    add("Name", s.name.clone());
    add("Kind", s.kind.clone().filter(|kind| kind != "model"));
    add("Architecture", s.architecture.clone());
    let label = s.size_label.as_ref().map(|label| format!("labelled {label}"));
    let parameters = (s.n_params > 0).then(|| format!("{} ({})", count(s.n_params), grouped(s.n_params)));
    add("Parameters", parts(&[parameters, label]));
    add(
        "Weights",
        parts(&[mixture(s), s.bits_per_weight().map(|b| format!("{} bits per weight", bits_per_weight(b)))]),
    );
    let bytes = shards.iter().map(ModelFile::file_bytes).fold(0, u64::saturating_add);
    let in_shards = match (s.n_shards as u64, s.n_shards_expected.unwrap_or(1)) {
        (1, 0 | 1) => None,
        (have, expected) if have == expected => Some(format!("in {have} shards")),
        (have, expected) => Some(format!("{have} of {expected} shards")),
    };
    add("Size", parts(&[Some(format!("{} ({} bytes)", size(bytes), grouped(bytes))), in_shards]));
    let scaling = s.rope_scaling.as_ref().map(|kind| match s.rope_scaling_factor {
        Some(factor) => format!("rope scaling {kind} by {factor}"),
        None => format!("rope scaling {kind}"),
    });
    #[allow(clippy::cast_possible_truncation, reason = "llama.cpp reads the base in single precision")]
    let base = s.rope_freq_base.map(|base| format!("rotary base {}", base as f32));
    let window = s.sliding_window.map(|w| format!("sliding window {}", grouped(w)));
    add("Context", parts(&[s.context_length.map(|l| n(l, "token", "tokens")), window, base, scaling]));
    let blocks = s.block_count.map(|b| n(b, "block", "blocks"));
    let embedding = s.embedding_length.map(|e| format!("embedding {e}"));
    add("Layers", parts(&[blocks, embedding, s.feed_forward_length.map(|f| format!("feed-forward {f}"))]));
    let heads = s.head_count.map(|h| format!("{h} heads"));
    add("Attention", parts(&[heads, s.head_count_kv.map(|h| format!("{h} for keys and values"))]));
    add("Experts", parts(&[s.expert_count.map(grouped), s.expert_used_count.map(|e| format!("{e} used per token"))]));
    let tokens = s.vocab_size.map(|v| n(v, "token", "tokens"));
    let model = s.tokenizer_model.as_ref().map(|m| format!("model {m}"));
    add("Vocabulary", parts(&[tokens, model, s.tokenizer_pre.as_ref().map(|p| format!("pre {p}"))]));
    let templates = match s.n_chat_templates {
        0 => "no".to_owned(),
        1 => "yes".to_owned(),
        many => format!("yes, {}", grouped(many)),
    };
    add("Chat template", s.tokenizer_model.as_ref().map(|_| templates));
    let rank = s.lora_rank.map(|rank| format!("rank {rank}"));
    add("LoRA", parts(&[rank, s.lora_alpha.map(|alpha| format!("alpha {alpha}"))]));
    add("Base model", s.base_model.clone());
    add("Quantized by", s.quantized_by.clone());
    add("Matrix", s.imatrix.clone());
    add("License", s.license.clone());
    if let Some(first) = shards.first().map(ModelFile::gguf) {
        let d = first.dialect();
        let format = format!("GGUF version {}, {}, alignment {}", d.version, d.order, first.alignment());
        add("Format", Some(format));
    }
    add("Contents", Some(format!("{}, {}", n(s.n_kv, "key", "keys"), n(s.n_tensors, "tensor", "tensors"))));
    lines
}
