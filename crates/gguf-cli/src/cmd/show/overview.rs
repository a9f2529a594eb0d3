//! `gguf show` of several files: a table with one line per model.

use std::io::Write;
use std::path::{Path, PathBuf};

use gguf_format::Gguf;
use gguf_format::shard::ShardName;
use gguf_io::ModelFile;
use gguf_model::summary::summary;

use super::missing_bytes;
use crate::cmd::open_model;
use crate::failure::{Outcome, Verdict};
use crate::ui::{Column, Style, Table, Ui, bits_per_weight, count, grouped, shown_path, size};

/// Placeholder for missing values.
const NONE: &str = "-";

/// Prints the table to standard output, then problems with files to standard error.
pub fn print(ui: &mut Ui, paths: &[PathBuf], at: u64, is_markdown: bool) -> Outcome {
    let columns = [
        Column::name("FILE").styled(Style::Cyan),
        Column::whole("ARCHITECTURE").left_out(3),
        Column::right("PARAMETERS").left_out(4),
        Column::whole("TYPE"),
        Column::right("BITS").left_out(2),
        Column::right("SIZE"),
        Column::right("CONTEXT").left_out(1),
    ];
    let mut table = Table::new(columns);
    let mut failures = Vec::new();
    let mut verdict = Verdict::Good;
    let mut seen: Vec<(PathBuf, u32)> = Vec::new();
    for path in paths {
        // Print one line for all shards of a model.
        if at == 0
            && let Some(set) = set_of(path)
        {
            if seen.contains(&set) {
                continue;
            }
            seen.push(set);
        }
        match open_model(ui, path, at) {
            Ok(shards) => {
                if missing_bytes(shards.files()) > 0 {
                    verdict = verdict.max(Verdict::Bad);
                    failures.extend(super::truncated(shards.files()));
                }
                table.row(row(path, shards.files()));
            }
            Err(failure) => {
                verdict = verdict.max(failure.verdict());
                failures.push(failure);
            }
        }
    }
    if is_markdown {
        table.print_markdown(&mut ui.out)?;
    } else {
        table.print(ui, 0)?;
    }
    ui.out.flush()?;
    failures.iter().for_each(|failure| ui.error(failure));
    Ok(verdict)
}

/// The path prefix and the number of shards, from the name of a shard.
fn set_of(path: &Path) -> Option<(PathBuf, u32)> {
    let name = ShardName::parse(path.file_name()?.to_str()?)?;
    (name.number.count() > 1).then(|| (path.with_file_name(name.prefix), name.number.count()))
}

fn row(path: &Path, shards: &[ModelFile]) -> [String; 7] {
    let ggufs: Vec<&Gguf<'_>> = shards.iter().map(ModelFile::gguf).collect();
    let s = summary(&ggufs);
    let known = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    // For files other than models, print the kind.
    let kind = s.kind.clone().filter(|kind| kind != "model");
    let bytes = shards.iter().map(ModelFile::file_bytes).fold(0, u64::saturating_add);
    [
        shown_path(path),
        known(s.architecture.clone()),
        known((s.n_params > 0).then(|| count(s.n_params))),
        known(kind.or_else(|| super::mixture(&s))),
        known(s.bits_per_weight().map(bits_per_weight)),
        size(bytes),
        known(s.context_length.map(grouped)),
    ]
}
