//! `gguf card`: the tables and the front matter of a model card.

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use gguf_edit::card::{Card, CardOptions, Field, Row, RowKind, card};
use gguf_format::Gguf;
use gguf_io::{Model, ModelFile};
use gguf_model::summary::summary;
use serde::Serialize;

use super::text_file::read_text_of;
use crate::failure::{Failure, Outcome, Verdict};
use crate::json;
use crate::open;
use crate::ui::{Ui, grouped, safe, shown_path};
use crate::watch::Watch;

/// Maximum size of a README.
const MAX_README: u64 = 16 << 20;

/// Print the tables of files for a model card, or check a README against the files.
///
/// Each model is one row with its file type, bits per weight, size, a phrase on quality, SHA-256, number of shards,
/// importance matrix, and tensor types by share of bytes; the largest is first. All shards of a model are one row.
/// Encoders of images and sound, adapters and importance matrices have tables of their own.
///
/// The front matter contains the license, languages and tags from the metadata of the first model. The base model in the
/// metadata of a fine-tune is the model that it was tuned from, but that of a quantization is the fine-tune; name it with
/// --base-model.
///
/// With --check, the tables and the front matter of a README are compared with the files, and with --repo the links, too.
/// A license file that the front matter names must be beside the README. Phrases on quality, and additional columns,
/// fields and tags, are ignored. The exit code is 1 if there are differences.
///
/// A template for --template is any text. {{front_matter}}, {{table}}, {{name}}, {{base_model}}, {{quantized_by}} and
/// {{repo}} in it are replaced.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf card *.gguf > model-card.md
  gguf card *.gguf --base-model Qwen/Qwen3-8B --repo me/Qwen3-8B-GGUF > model-card.md
  gguf card *.gguf --table            print only the tables
  gguf kld model-BF16.gguf model-Q*.gguf text.txt --json > kld.json; gguf card *.gguf --kld kld.json
  gguf card *.gguf --check model-card.md")]
pub struct Args {
    /// GGUF files; any shard or all shards of split models
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<PathBuf>,

    /// Name the model that was quantized, a repository on the Hub
    #[arg(long, value_name = "ORG/NAME", value_parser = repository)]
    base_model: Option<String>,

    /// Link to the files in this repository on the Hub; the common folder of the files is its root
    #[arg(long, value_name = "ORG/NAME", value_parser = repository)]
    repo: Option<String>,

    /// Name who quantized the model; by default, general.quantized_by, or the owner of --repo
    #[arg(long, value_name = "NAME")]
    quantized_by: Option<String>,

    /// Fill the placeholders of this text, instead of printing the front matter and the tables
    #[arg(long, value_name = "FILE", conflicts_with_all = ["check", "table", "json"])]
    template: Option<PathBuf>,

    /// Add a column with the divergence of the models, from the output of gguf kld --json; repeatable
    #[arg(long, value_name = "FILE")]
    kld: Vec<PathBuf>,

    /// Compare the files with the tables and the front matter of this README
    #[arg(long, value_name = "README")]
    check: Option<PathBuf>,

    /// Print the tables without the front matter
    #[arg(long, conflicts_with = "check")]
    table: bool,

    /// Omit the SHA-256 of the files, and read only metadata
    #[arg(long)]
    no_hash: bool,

    /// Print one JSON object
    #[arg(long, conflicts_with = "table")]
    json: bool,

    /// Number of threads; by default, one per processor
    #[arg(short = 'j', long, value_name = "N", value_parser = crate::cmd::at_least_one::<NonZeroUsize>)]
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
        let template = match &self.template {
            Some(path) => Some((path.as_path(), read_text_of(path, MAX_README, "a template")?)),
            None => None,
        };
        let models = self.models.iter().map(|path| open::model(path)).collect::<Result<Vec<_>, _>>()?;
        let mut options = CardOptions::default();
        options.hash = !self.no_hash;
        options.threads = self.threads;
        options.base_model.clone_from(&self.base_model);
        options.repo.clone_from(&self.repo);
        options.quantized_by.clone_from(&self.quantized_by);
        let name = name_of(&models);
        let watch = Watch::new(self.quiet);
        let made = card(models, &options, &watch);
        watch.clear();
        let mut made = made?;
        for path in &self.kld {
            add_divergences(&mut made, path)?;
        }
        self.warn_of_parents(ui, &made);
        if let Some((path, readme)) = readme {
            return self.compare(ui, &made, path, &readme);
        }
        if self.json {
            json::print(ui, 4, &JsonCard::of(&made))?;
            return Ok(Verdict::Good);
        }
        if let Some((path, template)) = template {
            let text =
                self.fill(&template, &made, name).map_err(|e| Failure::Bad(format!("{}: {e}", path.display())))?;
            write!(ui.out, "{text}")?;
            return Ok(Verdict::Good);
        }
        if !self.table {
            writeln!(ui.out, "{}", made.front_matter())?;
        }
        write!(ui.out, "{}", made.table())?;
        Ok(Verdict::Good)
    }

    /// Warns if only the base models of the quantized model are known.
    fn warn_of_parents(&self, ui: &mut Ui, made: &Card) {
        if self.check.is_some() || made.parents.is_empty() || made.field("base_model").is_some() {
            return;
        }
        let parents = made.parents.join(", ");
        ui.warning(&format!(
            "no base_model: the metadata names {parents}, which the quantized model is derived from; name the quantized \
             model with --base-model ORG/NAME"
        ));
    }

    /// Fills the placeholders of a template.
    fn fill(&self, template: &str, made: &Card, name: Option<String>) -> Result<String, String> {
        let field = |key| made.field(key).map(str::to_owned);
        let values = [
            ("front_matter", Some(made.front_matter().trim_end().to_owned()), ""),
            ("table", Some(made.table().trim_end().to_owned()), ""),
            ("name", name, "the first model has no general.name"),
            ("base_model", field("base_model"), "use --base-model"),
            ("quantized_by", field("quantized_by"), "use --quantized-by"),
            ("repo", self.repo.clone(), "use --repo"),
        ];
        let mut text = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once("{{") {
            let line = || {
                1 + template
                    .len()
                    .checked_sub(after.len())
                    .and_then(|at| template.get(..at))
                    .map_or(0, |t| t.matches('\n').count())
            };
            let (placeholder, after) =
                after.split_once("}}").ok_or_else(|| format!("line {}: {{{{ without }}}}", line()))?;
            let placeholder = placeholder.trim();
            let Some((_, value, hint)) = values.iter().find(|(known, ..)| *known == placeholder) else {
                let known: Vec<&str> = values.iter().map(|(known, ..)| *known).collect();
                let found = safe(placeholder);
                return Err(format!(
                    "line {}: unknown placeholder {{{{{found}}}}}, expected one of {}",
                    line(),
                    known.join(", ")
                ));
            };
            let value =
                value.as_ref().ok_or_else(|| format!("line {}: no value for {{{{{placeholder}}}}}: {hint}", line()))?;
            text.push_str(before);
            text.push_str(value);
            rest = after;
        }
        text.push_str(rest);
        Ok(text)
    }

    fn compare(&self, ui: &mut Ui, made: &Card, path: &Path, readme: &str) -> Outcome {
        let front_matter = gguf_hf::metadata::front_matter_fields(readme)
            .map_err(|e| Failure::Bad(format!("{}: {e}", path.display())))?;
        let mut differences: Vec<String> =
            made.differences(readme, &front_matter).iter().map(ToString::to_string).collect();
        let license = front_matter.iter().find(|(key, _)| key == "license_link").and_then(|(_, links)| links.first());
        if let Some(file) = license.filter(|link| !link.contains("://") && !path.with_file_name(link).exists()) {
            differences.push(format!("front matter: license_link is {file:?}, but no such file is beside the README"));
        }
        if self.json {
            let document =
                JsonCheck { readme: json::path(path), good: differences.is_empty(), differences: &differences };
            json::print(ui, 2, &document)?;
        } else {
            for difference in &differences {
                writeln!(ui.out, "{difference}")?;
            }
            if !self.quiet {
                let files = made.rows.len() as u64;
                let is_model = made.rows.iter().all(|row| row.kind == RowKind::Model);
                let (models, s) = (
                    format!("{} {}", grouped(files), if is_model { "model" } else { "file" }),
                    if files == 1 { "" } else { "s" },
                );
                ui.note(&match differences.len() {
                    0 => format!("{}: good: {models}{s}", shown_path(path)),
                    1 => format!("{}: bad: {models}{s}, 1 difference", shown_path(path)),
                    n => format!("{}: bad: {models}{s}, {} differences", shown_path(path), grouped(n as u64)),
                });
            }
        }
        Ok(if differences.is_empty() { Verdict::Good } else { Verdict::Bad })
    }
}

/// Maximum size of the output of `gguf kld --json`.
const MAX_KLD: u64 = 16 << 20;

/// Mean divergences below this are not of models: rounding, and the probabilities that `gguf kld` leaves out, make them smaller by less.
const LEAST_KLD: f64 = -0.1;

/// Adds the divergences of models, which are recognized by their file names.
fn add_divergences(made: &mut Card, path: &Path) -> Result<(), Failure> {
    let text = read_text_of(path, MAX_KLD, "the output of gguf kld --json")?;
    let bad = |problem: &str| {
        let help = "`gguf kld ORIGINAL MODEL... TEXT --json` prints it".to_owned();
        Failure::Bad(format!("{}: {problem}", path.display())).with_help(Some(help))
    };
    let answer: serde_json::Value =
        serde_json::from_str(&text).map_err(|e| bad(&format!("not the output of gguf kld --json: {e}")))?;
    let models = answer.get("models").and_then(serde_json::Value::as_array);
    let models = models.ok_or_else(|| bad("not the output of gguf kld --json: it has no list of models"))?;
    let mut is_known = false;
    for (i, model) in models.iter().enumerate() {
        // A path that is not UTF-8 is an object.
        let path = model.get("path").filter(|path| path.is_string() || path.is_object());
        let path = path.ok_or_else(|| bad(&format!("models[{i}].path: expected a path")))?;
        let mean = model.pointer("/kld/mean/value").and_then(serde_json::Value::as_f64);
        let mean = mean.filter(|mean| *mean >= LEAST_KLD);
        let mean = mean.ok_or_else(|| bad(&format!("models[{i}].kld.mean.value: expected a divergence")))?;
        let Some(name) = path.as_str().map(Path::new).and_then(Path::file_name) else { continue };
        let name = name.to_string_lossy();
        let has_file = |row: &&Row| row.files.iter().any(|file| file.name == name);
        if made.rows.iter().find(has_file).is_some_and(|row| row.divergence.is_some()) {
            return Err(bad(&format!("models[{i}].path: a second divergence of {name:?}")));
        }
        is_known |= made.set_divergence(&name, mean);
    }
    match is_known {
        true => Ok(()),
        false => Err(bad("has the divergence of none of these models")),
    }
}

/// Parses the name of a repository on the Hub, also in a URL.
fn repository(text: &str) -> Result<String, String> {
    let name = ["https://huggingface.co/", "hf:"].iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
    let is_part = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    match name.split_once('/') {
        Some((owner, model)) if is_part(owner) && is_part(model) => Ok(name.to_owned()),
        _ => Err("expected ORG/NAME, such as Qwen/Qwen3-8B".to_owned()),
    }
}

/// The name in the metadata of the first complete model.
fn name_of(models: &[Model]) -> Option<String> {
    models.iter().find_map(|model| {
        let heads: Vec<&Gguf<'_>> = model.files().iter().map(ModelFile::gguf).collect();
        let summary = summary(&heads);
        summary.name.filter(|_| matches!(summary.kind.as_deref(), None | Some("model")))
    })
}

#[derive(Serialize)]
struct JsonCard<'a> {
    front_matter: serde_json::Map<String, serde_json::Value>,
    models: Vec<JsonModel<'a>>,
}

#[derive(Serialize)]
struct JsonModel<'a> {
    kind: &'a str,
    files: Vec<JsonFile<'a>>,
    file_type: Option<&'a str>,
    bits_per_weight: Option<f64>,
    bytes: u64,
    quality: Option<&'a str>,
    kld: Option<f64>,
    imatrix: Option<&'a str>,
    description: &'a str,
}

#[derive(Serialize)]
struct JsonFile<'a> {
    path: json::Text<'a>,
    bytes: u64,
    sha256: Option<&'a str>,
    url: Option<&'a str>,
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
            kind: row.kind.name(),
            files: row.files.iter().map(JsonFile::of).collect(),
            file_type: row.file_type.as_deref(),
            bits_per_weight: row.bits_per_weight,
            bytes: row.bytes,
            quality: row.quality,
            kld: row.divergence,
            imatrix: row.matrix.as_deref(),
            description: &row.description,
        };
        JsonCard { front_matter: fields.collect(), models: card.rows.iter().map(model).collect() }
    }
}

impl<'a> JsonFile<'a> {
    fn of(file: &'a gguf_edit::card::FileRow) -> JsonFile<'a> {
        JsonFile {
            path: json::path(&file.path),
            bytes: file.bytes,
            sha256: file.sha256.as_deref(),
            url: file.url.as_deref(),
        }
    }
}
