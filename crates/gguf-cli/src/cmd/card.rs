//! `gguf card`: the table and the front matter of a model card.

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use gguf_edit::card::{Card, Field, Row, card};
use serde::Serialize;

use super::quantize::read_text_of;
use crate::failure::{Failure, Outcome, Verdict};
use crate::json;
use crate::open;
use crate::ui::{Ui, grouped, shown_path};
use crate::watch::Watch;

/// Maximum size of a README.
const MAX_README: u64 = 16 << 20;

/// Print the table of files for a model card, or check a README against the files.
///
/// Each model is one row with its file type, bits per weight, size, SHA-256, number of shards, importance matrix, and
/// tensor types by share of bytes. All shards of a model are one row. The front matter contains the license, languages,
/// tags and base model from the metadata of the first model.
///
/// With --check, the table and the front matter of a README are compared with the files. Additional columns, fields and
/// tags are ignored. The exit code is 1 if there are differences.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf card *.gguf > model-card.md
  gguf card *.gguf --table            print only the table
  gguf card *.gguf --check model-card.md")]
pub struct Args {
    /// GGUF models; any shard or all shards of split models
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<PathBuf>,

    /// Compare the files with the table and the front matter of this README
    #[arg(long, value_name = "README")]
    check: Option<PathBuf>,

    /// Print the table without the front matter
    #[arg(long, conflicts_with = "check")]
    table: bool,

    /// Omit the SHA-256 of the files, and read only metadata
    #[arg(long)]
    no_hash: bool,

    /// Print one JSON object
    #[arg(long, conflicts_with = "table")]
    json: bool,

    /// Number of threads; by default, one per processor
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Print no progress; with --check, print only differences
    #[arg(short, long)]
    quiet: bool,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let readme = match &self.check {
            Some(path) => Some((path.as_path(), read_text_of(path, MAX_README, "a README")?)),
            None => None,
        };
        let models = self.models.iter().map(|path| open::model(path)).collect::<Result<Vec<_>, _>>()?;
        let watch = Watch::new(self.quiet);
        let made = card(models, !self.no_hash, self.threads, &watch);
        watch.clear();
        let made = made?;
        if let Some((path, readme)) = readme {
            return self.compare(ui, &made, path, &readme);
        }
        if self.json {
            json::print(ui, 4, &JsonCard::of(&made))?;
            return Ok(Verdict::Good);
        }
        if !self.table {
            writeln!(ui.out, "{}", made.front_matter())?;
        }
        write!(ui.out, "{}", made.table())?;
        Ok(Verdict::Good)
    }

    fn compare(&self, ui: &mut Ui, made: &Card, path: &Path, readme: &str) -> Outcome {
        let front_matter = gguf_hf::metadata::front_matter_fields(readme)
            .map_err(|e| Failure::Bad(format!("{}: {e}", path.display())))?;
        let differences: Vec<String> =
            made.differences(readme, &front_matter).iter().map(ToString::to_string).collect();
        if self.json {
            let document =
                JsonCheck { readme: json::path(path), good: differences.is_empty(), differences: &differences };
            json::print(ui, 2, &document)?;
        } else {
            for difference in &differences {
                writeln!(ui.out, "{difference}")?;
            }
            if !self.quiet {
                let models = made.rows.len() as u64;
                let (models, s) = (grouped(models), if models == 1 { "" } else { "s" });
                ui.note(&match differences.len() {
                    0 => format!("{}: good: {models} model{s}", shown_path(path)),
                    n => format!("{}: bad: {models} model{s}, {} differences", shown_path(path), grouped(n as u64)),
                });
            }
        }
        Ok(if differences.is_empty() { Verdict::Good } else { Verdict::Bad })
    }
}

#[derive(Serialize)]
struct JsonCard<'a> {
    front_matter: serde_json::Map<String, serde_json::Value>,
    models: Vec<JsonModel<'a>>,
}

#[derive(Serialize)]
struct JsonModel<'a> {
    files: Vec<JsonFile<'a>>,
    file_type: Option<&'a str>,
    bits_per_weight: Option<f64>,
    bytes: u64,
    imatrix: Option<&'a str>,
    description: &'a str,
}

#[derive(Serialize)]
struct JsonFile<'a> {
    path: json::Text<'a>,
    bytes: u64,
    sha256: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonCheck<'a> {
    readme: json::Text<'a>,
    good: bool,
    differences: &'a [String],
}

impl<'a> JsonCard<'a> {
    fn of(card: &'a Card) -> JsonCard<'a> {
        let field = |field: &Field| match field {
            Field::Text(text) => Some(text.as_str().into()),
            Field::List(texts) => Some(texts.as_slice().into()),
            _ => None,
        };
        let fields = card.fields.iter().filter_map(|(key, value)| Some(((*key).to_owned(), field(value)?)));
        let model = |row: &'a Row| JsonModel {
            files: row.files.iter().map(JsonFile::of).collect(),
            file_type: row.file_type.as_deref(),
            bits_per_weight: row.bits_per_weight,
            bytes: row.bytes,
            imatrix: row.matrix.as_deref(),
            description: &row.description,
        };
        JsonCard { front_matter: fields.collect(), models: card.rows.iter().map(model).collect() }
    }
}

impl<'a> JsonFile<'a> {
    fn of(file: &'a gguf_edit::card::FileRow) -> JsonFile<'a> {
        JsonFile { path: json::path(&file.path), bytes: file.bytes, sha256: file.sha256.as_deref() }
    }
}
