//! `gguf name`: checks file names against the naming convention, and suggests names from the metadata.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use gguf_format::name::{FileName, NameProblem};
use gguf_format::shard::{ShardKeys, ShardName};
use gguf_format::{Gguf, Str};
use gguf_model::naming::{file_name, problems};
use serde_json::{Map, Value, json};

use crate::cmd::set::lock;
use crate::cmd::{Shards, open_model};
use crate::failure::{Failure, Outcome, Verdict};
use crate::json;
use crate::ui::{Style, Ui, safe};

/// Number of indented JSON levels: the list, its objects, and their members.
const LEVELS: usize = 4;

/// Check file names against the GGUF naming convention, and suggest names.
///
/// The convention is BaseName-SizeLabel-FineTune-Version-Encoding-Type-Shard.gguf, where fine-tune, version, encoding,
/// type and shard are optional. The names that `gguf convert` and `gguf quantize` choose follow it, and it does not apply
/// to importance matrices. Dots in numbers, as in Llama-3.1-8B, are only noted.
///
/// Suggestions are derived from the metadata, and from the current name where the metadata lacks a part. Files are
/// renamed only with --rename; the shards of a model are renamed together. The exit code is 1 if a name does not follow
/// the convention.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf name model.gguf
  gguf name *.gguf --json
  gguf name model.gguf --rename")]
pub struct Args {
    /// GGUF files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Print JSON with one object per file
    #[arg(long)]
    json: bool,

    /// Rename files that do not follow the convention to the suggested name
    #[arg(long)]
    rename: bool,

    /// Overwrite an existing file of the suggested name
    #[arg(short, long, requires = "rename")]
    force: bool,
}

/// The result for one file.
struct CheckedName<'p> {
    path: &'p Path,
    name: &'p str,
    problems: Vec<String>,
    notes: Vec<String>,
    suggestion: Option<String>,
    renamed: Option<PathBuf>,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let mut verdict = Verdict::Good;
        let mut all = Vec::new();
        let mut renamed = Vec::new();
        for (i, path) in self.files.iter().enumerate() {
            if renamed.contains(path) {
                continue;
            }
            let checked = match self.check(ui, path, &mut renamed) {
                Ok(checked) => checked,
                Err(failure) => {
                    ui.error(&failure);
                    verdict = verdict.max(failure.verdict());
                    all.push(json!(json::Unopened::of(path, &failure)));
                    continue;
                }
            };
            if !checked.problems.is_empty() && checked.renamed.is_none() {
                verdict = verdict.max(Verdict::Bad);
            }
            if self.json {
                all.push(as_json(&checked));
            } else {
                if i > 0 {
                    writeln!(ui.out)?;
                }
                print(ui, &checked)?;
            }
        }
        if self.json {
            json::print(ui, LEVELS, &json!({ "files": all }))?;
        }
        Ok(verdict)
    }

    /// Compares the name of a file with the suggested one. `done` collects the old paths of renamed files.
    fn check<'p>(&self, ui: &mut Ui, path: &'p Path, done: &mut Vec<PathBuf>) -> Result<CheckedName<'p>, Failure> {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or_else(|| Failure::CouldNotRun(format!("{}: the file name is not valid UTF-8", path.display())))?;
        let shards = open_model(ui, path, 0)?;
        let heads: Vec<&Gguf<'_>> = shards.files().iter().map(gguf_io::ModelFile::gguf).collect();
        let (notes, problems): (Vec<NameProblem>, Vec<NameProblem>) =
            problems(name, &heads).into_iter().partition(NameProblem::is_note);
        let [problems, notes] =
            [problems, notes].map(|found| found.iter().map(ToString::to_string).collect::<Vec<_>>());
        // A name that needs no change gets no other one.
        let suggestion = if problems.is_empty() { Some(name.to_owned()) } else { file_name(name, &heads) };
        let mut renamed = None;
        if self.rename && !problems.is_empty() {
            let to = suggestion.as_ref().ok_or_else(|| {
                Failure::Bad(format!(
                    "{}: cannot suggest a name: the metadata and the current name lack required parts",
                    path.display()
                ))
            })?;
            let to = path.with_file_name(to);
            let _locks =
                shards.files().iter().map(|file| lock(ui, file.path(), false)).collect::<Result<Vec<_>, _>>()?;
            rename_all(path, &to, &shards, self.force)?;
            done.extend(shards.files().iter().map(|file| file.path().to_owned()));
            renamed = Some(to);
        }
        Ok(CheckedName { path, name, problems, notes, suggestion, renamed })
    }
}

/// Renames a model: the file `from` becomes `to`, and the other shards get the corresponding names.
fn rename_all(from: &Path, to: &Path, model: &Shards, force: bool) -> Result<(), Failure> {
    let shard =
        |path: &Path| ShardName::parse(path.file_name()?.to_str()?).map(|name| name.siblings().collect::<Vec<_>>());
    let n_shards = model.files().first().and_then(|file| ShardKeys::of(file.gguf()).count).unwrap_or(1);
    if n_shards < 2 {
        return rename(from, to, force);
    }
    let names = shard(to).filter(|names| names.len() as u64 == n_shards && model.files().len() as u64 == n_shards);
    let Some(names) = names else {
        let problem = format!("shards are renamed together, and some of the {n_shards} shards are missing; fetch them");
        return Err(Failure::Bad(format!("{}: {problem}", from.display())));
    };
    let pairs: Vec<(&Path, PathBuf)> =
        model.files().iter().zip(&names).map(|(file, name)| (file.path(), to.with_file_name(name))).collect();
    for (i, (old, new)) in pairs.iter().enumerate() {
        if let Err(failure) = rename(old, new, force) {
            // Restore the old names, so that the shards stay together.
            for (old, new) in pairs.iter().take(i) {
                rename(new, old, false)?;
            }
            return Err(failure);
        }
    }
    Ok(())
}

/// Renames a file within its folder. Replaces an existing file only with `force`.
fn rename(from: &Path, to: &Path, force: bool) -> Result<(), Failure> {
    let failed = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::exists(to),
        _ => Failure::CouldNotRun(format!("{}: cannot rename to {}: {e}", from.display(), to.display())),
    };
    if force {
        return fs::rename(from, to).map_err(failed);
    }
    // Creating a hard link fails atomically if the name is taken.
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from).map_err(failed),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Err(failed(e)),
        // Some file systems do not support hard links.
        Err(_) if fs::symlink_metadata(to).is_err() => fs::rename(from, to).map_err(failed),
        Err(e) => Err(failed(e)),
    }
}

/// The parts of a name, labelled with the terms of the convention.
fn parts<'a>(name: &FileName<'a>) -> Vec<(&'static str, &'static str, std::borrow::Cow<'a, str>)> {
    let shard = name.shard.map(|shard| shard.to_string());
    [
        ("sidecar", "Sidecar", name.sidecar),
        ("base_name", "Base name", name.base_name),
        ("size_label", "Size label", name.size_label),
        ("fine_tune", "Fine-tune", name.fine_tune),
        ("version", "Version", name.version),
        ("encoding", "Encoding", name.encoding),
        ("type", "Type", name.kind),
    ]
    .into_iter()
    .filter_map(|(field, label, part)| Some((field, label, part?.into())))
    .chain(shard.map(|shard| ("shard", "Shard", shard.into())))
    .collect()
}

fn print(ui: &mut Ui, checked: &CheckedName<'_>) -> std::io::Result<()> {
    ui.title(checked.path)?;
    for (_, label, part) in parts(&FileName::parse(checked.name)) {
        ui.field(&format!("  {label:<12}"), Style::Cyan, &Str(part.as_bytes()).to_string())?;
    }
    let (style, text) = match checked.problems.as_slice() {
        [] => (Style::Green, "yes".to_owned()),
        problems => (Style::Red, format!("no: {}", safe(&problems.join("; ")))),
    };
    ui.field("  Standard    ", style, &text)?;
    for note in &checked.notes {
        ui.field("  Note        ", Style::Dim, &safe(note))?;
    }
    let by_metadata = checked.suggestion.as_deref().filter(|s| *s != checked.name);
    if let Some(to) = &checked.renamed {
        let label = ui.paint("  Renamed to  ", Style::Green);
        write!(ui.out, "{label}")?;
        ui.print_path(to)?;
    } else if let Some(suggestion) = by_metadata {
        ui.field("  Suggestion  ", Style::Green, suggestion)?;
    }
    Ok(())
}

fn as_json(checked: &CheckedName<'_>) -> Value {
    let parts = parts(&FileName::parse(checked.name)).into_iter();
    json!({
        "path": json::path(checked.path),
        "standard": checked.problems.is_empty(),
        "parts": parts.map(|(field, _, part)| (field.to_owned(), part.into_owned().into())).collect::<Map<_, _>>(),
        "problems": checked.problems,
        "notes": checked.notes,
        "suggestion": checked.suggestion,
        "renamed_to": checked.renamed.as_deref().map(json::path),
    })
}
