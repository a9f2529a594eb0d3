//! Model cards: Markdown tables of files with matching front matter, made from models, and compared with a README.
//!
//! Each row is a model: one file, or all its shards. All data comes from the files; hashes are the SHA-256 of whole files, as shown by the
//! Hub and computed by `sha256sum`.

use std::num::NonZeroUsize;
use std::path::{Component, Path, PathBuf};

use gguf_format::{Gguf, keys};
use gguf_io::{IntoModel, Model, ModelFile};
use gguf_model::summary::{Summary, summary};
use gguf_pipeline::Progress;

mod quality;
mod readme;

pub use readme::CardDifference;

use crate::error::Error;
use crate::file_hash::sha256;

/// The maximum length of metadata text in a card, in bytes.
const LONGEST: usize = 1000;

/// The site whose repositories are base models.
const HUB: &str = "https://huggingface.co/";

/// What to put into a card besides the data of the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CardOptions {
    /// Whether to compute the SHA-256 of the files.
    pub hash: bool,
    /// The number of threads that compute hashes; by default the parallelism of the machine.
    pub threads: Option<NonZeroUsize>,
    /// The repository on the Hub of the model that was quantized, as `ORG/NAME`. By default, it is read from `general.source.repo_url`.
    pub base_model: Option<String>,
    /// Who quantized the model. By default, `general.quantized_by`, or the owner of `repo`.
    pub quantized_by: Option<String>,
    /// The repository on the Hub that the files are published in, as `ORG/NAME`, for links to the files.
    pub repo: Option<String>,
}

/// The tables and the front matter of a model card.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Card {
    /// The files: models first, of each kind the largest first.
    pub rows: Vec<Row>,
    /// The fields of the front matter.
    pub fields: Vec<(&'static str, Field)>,
    /// The base models in the metadata of the first model: those from which it was fine-tuned or merged, not the model that was quantized.
    pub parents: Vec<String>,
}

/// A kind of files, each of which has a table of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RowKind {
    /// A language model, or any other complete model.
    Model,
    /// An encoder of images or sound: `mmproj`.
    Encoder,
    /// A LoRA adapter or a control vector.
    Adapter,
    /// An importance matrix.
    Matrix,
}

impl RowKind {
    /// The kind of a file with this summary.
    fn of(s: &Summary) -> RowKind {
        match (s.kind.as_deref(), s.architecture.as_deref()) {
            (Some("imatrix"), _) => RowKind::Matrix,
            (Some("adapter"), _) | (_, Some("controlvector")) => RowKind::Adapter,
            (Some("mmproj"), _) | (_, Some("clip")) => RowKind::Encoder,
            _ => RowKind::Model,
        }
    }

    /// The name of the kind: `model`, or the value of `general.type`.
    pub fn name(self) -> &'static str {
        match self {
            RowKind::Model => "model",
            RowKind::Encoder => "mmproj",
            RowKind::Adapter => "adapter",
            RowKind::Matrix => "imatrix",
        }
    }

    /// The heading above the table; models are the subject of the card and have none.
    fn heading(self) -> Option<&'static str> {
        match self {
            RowKind::Model => None,
            RowKind::Encoder => Some("Image and audio encoders"),
            RowKind::Adapter => Some("Adapters"),
            RowKind::Matrix => Some("Importance matrices"),
        }
    }

    /// The columns of the table.
    fn columns(self) -> &'static [Column] {
        use Column::*;
        match self {
            RowKind::Model => &[File, Type, Bits, Size, Quality, Divergence, Sha256, Split, Matrix, Description],
            RowKind::Encoder | RowKind::Adapter => &[File, Type, Size, Sha256, Description],
            RowKind::Matrix => &[File, Size, Sha256, Description],
        }
    }
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    File,
    Type,
    Bits,
    Size,
    Quality,
    Divergence,
    Sha256,
    Split,
    Matrix,
    Description,
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Column::File => "File",
            Column::Type => "Type",
            Column::Bits => "Bits per weight",
            Column::Size => "Size",
            Column::Quality => "Quality",
            Column::Divergence => "KLD",
            Column::Sha256 => "SHA-256",
            Column::Split => "Split",
            Column::Matrix => "Matrix",
            Column::Description => "Description",
        }
    }
}

/// A file of a table, or the shards of a model.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Row {
    /// What the file is.
    pub kind: RowKind,
    /// The files, the first shard first.
    pub files: Vec<FileRow>,
    /// The label of the file type, such as `Q4_K_M`, or the name of the mixture, such as `mixed`.
    pub file_type: Option<String>,
    /// Bits per weight.
    pub bits_per_weight: Option<f64>,
    /// Bytes of all files.
    pub bytes: u64,
    /// A phrase on the quality of the file type of a model; mixtures have none, except those that many publishers offer.
    pub quality: Option<&'static str>,
    /// The mean Kullback-Leibler divergence from the original, in nats, if it is [known](Card::set_divergence).
    pub divergence: Option<f64>,
    /// The file name of the importance matrix used for the quantization.
    pub matrix: Option<String>,
    /// The composition: types of tensors with their share of the bytes; of a matrix, the data that it was measured on.
    pub description: String,
}

/// A file of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileRow {
    /// The path.
    pub path: PathBuf,
    /// The name.
    pub name: String,
    /// The length.
    pub bytes: u64,
    /// The SHA-256 of all its bytes, in hexadecimal digits; `None` if it was not computed.
    pub sha256: Option<String>,
    /// The address in the repository, if the repository was given.
    pub url: Option<String>,
}

/// A value of the front matter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Field {
    /// A text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
}

/// Makes the card of models, open ones or those of paths. Several shards of one model are one row. The front matter is that of the first
/// complete model.
///
/// # Errors
/// If a file cannot be read, or the work is cancelled.
pub fn card<M: IntoModel>(
    models: impl IntoIterator<Item = M>,
    options: &CardOptions,
    progress: &dyn Progress,
) -> Result<Card, Error> {
    let real = |model: &Model| model.path().canonicalize().unwrap_or_else(|_| model.path().to_owned());
    let (mut distinct, mut known): (Vec<Model>, Vec<PathBuf>) = Default::default();
    for model in models {
        let model = model.into_model()?;
        let path = real(&model);
        if known.contains(&path) {
            continue;
        }
        // A truncated file must not be published.
        for tensor in model.tensors() {
            tensor.byte_range()?;
        }
        distinct.push(model);
        known.push(path);
    }
    let models = distinct;
    let files: Vec<&ModelFile> = models.iter().flat_map(Model::files).collect();
    let hashes: Vec<Option<String>> = match options.hash {
        true => {
            let read = |file: &&ModelFile, at, piece: &mut [u8]| file.read_at(at, piece);
            let hashes = sha256(&files, |file| file.file_bytes(), read, options.threads, progress)?;
            hashes.into_iter().map(Some).collect()
        }
        false => files.iter().map(|_| None).collect(),
    };
    let mut urls = match &options.repo {
        Some(repo) => addresses(repo, &files.iter().map(|file| file.path()).collect::<Vec<_>>()),
        None => Vec::new(),
    }
    .into_iter();
    let mut hashes = hashes.into_iter();
    let mut rows = Vec::new();
    for model in &models {
        let heads: Vec<&Gguf<'_>> = model.files().iter().map(ModelFile::gguf).collect();
        let s = summary(&heads);
        let file = |file: &ModelFile| FileRow {
            path: file.path().to_owned(),
            name: file.path().file_name().map_or(String::new(), |name| safe(&name.to_string_lossy())),
            bytes: file.file_bytes(),
            sha256: hashes.next().flatten(),
            url: urls.next(),
        };
        let files: Vec<FileRow> = model.files().iter().map(file).collect();
        let kind = RowKind::of(&s);
        rows.push(Row {
            kind,
            bytes: files.iter().map(|file| file.bytes).sum(),
            files,
            file_type: s.type_name().map(safe),
            bits_per_weight: s.bits_per_weight(),
            quality: match (kind, &s.mixture) {
                (RowKind::Model, None) => s.file_type.and_then(quality::of),
                (RowKind::Model, Some(mixture)) => quality::of_mixture(mixture),
                _ => None,
            },
            divergence: None,
            matrix: s.imatrix.as_deref().map(|path| safe(file_name(path))),
            description: if kind == RowKind::Matrix { measured(model.gguf()) } else { shares(&s) },
        });
    }
    let first = rows.iter().position(|row| row.kind == RowKind::Model).unwrap_or(0);
    let (mut fields, parents) = match models.get(first) {
        Some(model) => (fields_of(model.gguf(), options), base_models(model.gguf())),
        None => Default::default(),
    };
    if rows.iter().any(|row| row.matrix.is_some())
        && let Some((_, Field::List(tags))) = fields.iter_mut().find(|(key, _)| *key == "tags")
        && !tags.iter().any(|tag| tag == "imatrix")
    {
        tags.push("imatrix".to_owned());
    }
    rows.sort_by_key(|row| (row.kind, std::cmp::Reverse(row.bytes)));
    Ok(Card { rows, fields, parents })
}

/// The addresses of files in a repository, whose root is the deepest common folder of the files.
fn addresses(repo: &str, files: &[&Path]) -> Vec<String> {
    let absolute = |path: &&Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let files: Vec<PathBuf> = files.iter().map(absolute).collect();
    let mut root: &Path = files.first().and_then(|file| file.parent()).unwrap_or(Path::new(""));
    while !files.iter().all(|file| file.starts_with(root)) {
        let Some(parent) = root.parent() else { break };
        root = parent;
    }
    let address = |file: &PathBuf| {
        let names = file.strip_prefix(root).unwrap_or(file).components().filter_map(|part| match part {
            Component::Normal(name) => Some(percent_encoded(&name.to_string_lossy())),
            _ => None,
        });
        format!("{HUB}{repo}/resolve/main/{}", names.collect::<Vec<_>>().join("/"))
    };
    files.iter().map(address).collect()
}

/// A name as a part of a URL.
fn percent_encoded(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// The last component of a path with the separators of any system.
fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// A text for a table or a field: on one line, without terminal control characters or table delimiters.
fn safe(text: &str) -> String {
    let text: String = text.chars().take(LONGEST).collect();
    gguf_format::check::shown(gguf_format::Str(text.as_bytes()))
}

/// `q4_K 80 %, q6_K 19 %, f32 1 %`: the types of tensors with their share of the bytes.
#[expect(clippy::cast_possible_truncation, reason = "percentages are small; conversions of floats saturate")]
fn shares(s: &Summary) -> String {
    let percent = |bytes: u64| (bytes as f64 * 100.0 / s.tensor_bytes.max(1) as f64).round() as u64;
    let shares = s.types.iter().map(|share| match percent(share.bytes) {
        0 => format!("{} < 1 %", share.ty),
        n => format!("{} {n} %", share.ty),
    });
    shares.collect::<Vec<_>>().join(", ")
}

/// `125 chunks of wiki.txt`: what an importance matrix was measured on.
fn measured(gguf: &Gguf<'_>) -> String {
    let texts = texts(gguf, keys::IMATRIX_DATASETS);
    let names: Vec<&str> = texts.iter().map(|path| file_name(path)).collect();
    let chunks = gguf.get(keys::IMATRIX_CHUNK_COUNT).and_then(|value| value.get::<u64>().ok());
    let chunks = chunks.map(|n| format!("{n} chunk{}", if n == 1 { "" } else { "s" }));
    [chunks, (!names.is_empty()).then(|| names.join(", "))].into_iter().flatten().collect::<Vec<_>>().join(" of ")
}

/// The texts of an array of the metadata.
fn texts(gguf: &Gguf<'_>, key: &str) -> Vec<String> {
    let array = gguf.get(key).and_then(|value| value.as_array());
    let texts = array.into_iter().flat_map(|array| array.iter().take(LONGEST));
    texts.filter_map(|value| value.as_str().and_then(|text| text.to_str().ok()).map(safe)).collect()
}

/// A text of the metadata that is not blank.
fn text(gguf: &Gguf<'_>, key: &str) -> Option<String> {
    let text = gguf.get_as::<&str>(key).ok().filter(|text| !text.trim().is_empty())?;
    Some(safe(text.trim()))
}

/// `ORG/NAME` for an address of a repository on the Hub, and other addresses as they are.
fn repository(url: &str) -> String {
    url.strip_prefix(HUB).unwrap_or(url).trim_end_matches('/').to_owned()
}

/// The base models in the metadata.
fn base_models(gguf: &Gguf<'_>) -> Vec<String> {
    let count = gguf.get(keys::GENERAL_BASE_MODEL_COUNT).and_then(|value| value.get::<u32>().ok()).unwrap_or(0);
    let url = |i| text(gguf, &format!("general.base_model.{i}.repo_url"));
    (0..count).take(LONGEST).filter_map(|i| Some(repository(&url(i)?))).collect()
}

/// The front matter from the options and the metadata.
///
/// The base models in the metadata are not those of the card: a fine-tune names the model that it was tuned from, but the files of the card are
/// quantizations of the fine-tune.
fn fields_of(gguf: &Gguf<'_>, options: &CardOptions) -> Vec<(&'static str, Field)> {
    let text = |key: &str| text(gguf, key);
    let mut fields = Vec::new();
    let source = || {
        let source = text(keys::GENERAL_SOURCE_REPO_URL)?;
        // Some files name an owner without a model.
        Some(repository(&source)).filter(|name| name.split('/').filter(|part| !part.is_empty()).count() == 2)
    };
    let base_model = options.base_model.clone().or_else(source);
    if let Some(base_model) = base_model {
        fields.push(("base_model", Field::Text(base_model)));
        fields.push(("base_model_relation", Field::Text("quantized".to_owned())));
    }
    for (key, of) in [
        ("license", keys::GENERAL_LICENSE),
        ("license_name", keys::GENERAL_LICENSE_NAME),
        ("license_link", keys::GENERAL_LICENSE_LINK),
    ] {
        fields.extend(text(of).map(|text| (key, Field::Text(text))));
    }
    let owner = || Some(options.repo.as_ref()?.split('/').next()?.to_owned());
    let quantized_by = options.quantized_by.clone().or_else(|| text(keys::GENERAL_QUANTIZED_BY)).or_else(owner);
    fields.extend(quantized_by.map(|text| ("quantized_by", Field::Text(text))));
    let languages = texts(gguf, keys::GENERAL_LANGUAGES);
    if !languages.is_empty() {
        fields.push(("language", Field::List(languages)));
    }
    let mut tags = texts(gguf, keys::GENERAL_TAGS);
    if !tags.iter().any(|tag| tag == "gguf") {
        tags.push("gguf".to_owned());
    }
    fields.push(("tags", Field::List(tags)));
    fields
}

impl Row {
    /// The text of a cell. A missing value is an empty cell.
    fn cell(&self, column: Column) -> String {
        let size = |bytes: u64| match bytes {
            0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
            1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
            _ => format!("{:.2} GB", bytes as f64 / 1e9),
        };
        let lines = |lines: Vec<String>| lines.join("<br>");
        let cell = match column {
            Column::File => lines(self.files.iter().map(FileRow::link).collect()),
            Column::Type => self.file_type.clone().unwrap_or_default(),
            Column::Bits => self.bits_per_weight.map_or(String::new(), |bits| format!("{bits:.2}")),
            Column::Size => size(self.bytes),
            Column::Quality => self.quality.unwrap_or_default().to_owned(),
            Column::Divergence => self.divergence.map_or(String::new(), |kld| format!("{kld:.4}")),
            Column::Sha256 => {
                lines(self.files.iter().filter_map(|file| Some(format!("`{}`", file.sha256.as_ref()?))).collect())
            }
            Column::Split if self.files.len() > 1 => format!("{} files", self.files.len()),
            Column::Split => "no".to_owned(),
            Column::Matrix => self.matrix.clone().unwrap_or_else(|| "no".to_owned()),
            Column::Description => self.description.clone(),
        };
        cell.replace('|', "\\|")
    }
}

impl FileRow {
    /// The name, as a link if the address is known.
    fn link(&self) -> String {
        match &self.url {
            Some(url) => format!("[{}]({url})", self.name),
            None => self.name.clone(),
        }
    }
}

impl Card {
    /// Sets the divergence of the model that has a file with this name, and adds a column of divergences to the table. Returns whether there is
    /// such a model.
    pub fn set_divergence(&mut self, file: &str, kld: f64) -> bool {
        let has_file = |row: &&mut Row| row.kind == RowKind::Model && row.files.iter().any(|known| known.name == file);
        let row = self.rows.iter_mut().find(has_file);
        row.map(|row| row.divergence = Some(kld)).is_some()
    }

    /// The columns of the table of a kind.
    fn columns(&self, kind: RowKind) -> impl Iterator<Item = Column> {
        let is_known = self.rows.iter().any(|row| row.divergence.is_some());
        kind.columns().iter().copied().filter(move |column| *column != Column::Divergence || is_known)
    }

    /// The tables in Markdown: that of the models, and one with a heading for each other kind of file.
    pub fn table(&self) -> String {
        let mut sections = Vec::new();
        for rows in self.rows.chunk_by(|a, b| a.kind == b.kind) {
            let Some(kind) = rows.first().map(|row| row.kind) else { continue };
            let columns: Vec<Column> = self.columns(kind).collect();
            let mut lines: Vec<String> = kind.heading().map(|heading| format!("## {heading}\n")).into_iter().collect();
            lines.push(line(columns.iter().map(|column| column.title().to_owned())));
            lines.push(line(columns.iter().map(|_| "---".to_owned())));
            lines.extend(rows.iter().map(|row| line(columns.iter().map(|column| row.cell(*column)))));
            sections.push(lines.join("\n") + "\n");
        }
        sections.join("\n")
    }

    /// The front matter in YAML, between lines of dashes.
    pub fn front_matter(&self) -> String {
        let mut lines = vec!["---".to_owned()];
        for (key, field) in &self.fields {
            match field {
                Field::Text(text) => lines.push(format!("{key}: {}", scalar(text))),
                Field::List(texts) => {
                    lines.push(format!("{key}:"));
                    lines.extend(texts.iter().map(|text| format!("- {}", scalar(text))));
                }
            }
        }
        lines.push("---".to_owned());
        lines.join("\n") + "\n"
    }

    /// The text of a field of the front matter; `None` if it is missing or a list.
    pub fn field(&self, key: &str) -> Option<&str> {
        self.fields.iter().find_map(|(other, field)| match field {
            Field::Text(text) if *other == key => Some(text.as_str()),
            _ => None,
        })
    }
}

/// `| a | b |`
fn line(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
}

/// A text as YAML: plain if it is unambiguous, otherwise in double quotes.
fn scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let words = ["yes", "no", "true", "false", "on", "off", "null", "y", "n"];
    match starts && text.chars().all(is_plain) && !words.iter().any(|word| text.eq_ignore_ascii_case(word)) {
        true => text.to_owned(),
        false => serde_json::Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Card {
        let file = |name: &str, hash: &str| FileRow {
            path: PathBuf::from(name),
            name: name.to_owned(),
            bytes: 1_500_000,
            sha256: Some(hash.to_owned()),
            url: None,
        };
        let row = |files: Vec<FileRow>| Row {
            kind: RowKind::Model,
            quality: Some("Good."),
            divergence: None,
            bytes: files.iter().map(|file| file.bytes).sum(),
            files,
            file_type: Some("Q4_K_M".to_owned()),
            bits_per_weight: Some(4.856),
            matrix: None,
            description: "q4_K 80 %, q6_K 20 %".to_owned(),
        };
        Card {
            rows: vec![row(vec![file("a.gguf", "01")]), row(vec![file("b-1.gguf", "02"), file("b-2.gguf", "03")])],
            fields: vec![
                ("license", Field::Text("no".to_owned())),
                ("tags", Field::List(vec!["a b".to_owned(), "gguf".to_owned()])),
            ],
            parents: Vec::new(),
        }
    }

    fn front() -> Vec<(String, Vec<String>)> {
        let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        vec![("license".to_owned(), list(&["no"])), ("tags".to_owned(), list(&["x", "gguf", "a b"]))]
    }

    #[test]
    fn cards_are_written() {
        let card = example();
        assert_eq!(
            card.table(),
            "| File | Type | Bits per weight | Size | Quality | SHA-256 | Split | Matrix | Description |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n\
             | a.gguf | Q4_K_M | 4.86 | 1.5 MB | Good. | `01` | no | no | q4_K 80 %, q6_K 20 % |\n\
             | b-1.gguf<br>b-2.gguf | Q4_K_M | 4.86 | 3.0 MB | Good. | `02`<br>`03` | 2 files | no | q4_K 80 %, q6_K 20 % |\n"
        );
        assert_eq!(card.front_matter(), "---\nlicense: \"no\"\ntags:\n- \"a b\"\n- gguf\n---\n");
        for (text, yaml) in [("apache-2.0", "apache-2.0"), ("2024", "\"2024\""), ("a: b", "\"a: b\""), ("", "\"\"")] {
            assert_eq!(scalar(text), yaml);
        }
    }

    #[test]
    fn a_known_divergence_has_a_column() {
        let mut card = example();
        // The later value counts.
        assert!(card.set_divergence("b-2.gguf", 0.5) && card.set_divergence("b-2.gguf", 0.012_345));
        assert!(!card.set_divergence("c.gguf", 0.5));
        let table = card.table();
        assert!(table.starts_with("| File | Type | Bits per weight | Size | Quality | KLD | SHA-256 |"), "{table}");
        assert!(table.contains("| Good. |  | `01` |") && table.contains("| Good. | 0.0123 | `02`"), "{table}");
        // The check of a README compares it.
        let other = table.replace("0.0123", "0.0124");
        let found: Vec<String> = card.differences(&other, &front()).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["line 4: b-1.gguf: KLD is \"0.0124\", expected \"0.0123\""]);
    }

    #[test]
    fn readmes_are_compared() {
        let card = example();
        let good = format!("# Title\n\n| a | b |\n|---|---|\n| c | d |\n\n{}\nText | more\n", card.table());
        assert_eq!(card.differences(&good, &front()), []);
        // Links, emphasis, additional columns and the order of rows do not matter.
        let linked =
            good.replace("| a.gguf |", "| [**a.gguf**](https://x/a.gguf) |").replace("File |", "File | More |");
        let linked =
            linked.replace("a.gguf) |", "a.gguf) | 1 |").replace("| b-1.gguf<br>b-2.gguf |", "| b-1.gguf | 2 |");
        let linked = linked.replace("| --- | --- |", "| --- | --- | --- |");
        assert_eq!(card.differences(&linked, &front()), []);
        let first = |readme: &str| {
            let found = card.differences(readme, &front());
            assert_eq!(found.len(), 1, "{found:?}");
            found[0].to_string()
        };
        assert_eq!(first(&good.replace("`02`", "`04`")), "line 10: b-1.gguf: SHA-256 is \"04 03\", expected \"02 03\"");
        assert_eq!(first("# Nothing"), "no table with a column File");
        let cut: String =
            good.lines().filter(|line| !line.contains("a.gguf")).map(|line| format!("{line}\n")).collect();
        assert_eq!(first(&cut), "the table lacks a.gguf");
        let more = good.replace("\nText", "| c.gguf | Q8_0 |\nText");
        assert_eq!(first(&more), "line 11: c.gguf is listed but was not given");
        let mut front = front();
        front[0].1 = vec!["mit".to_owned()];
        front.pop();
        let found: Vec<String> = card.differences(&good, &front).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "front matter: license is \"mit\", expected \"no\"",
                "front matter: tags is missing, expected \"a b, gguf\""
            ]
        );
    }
}
