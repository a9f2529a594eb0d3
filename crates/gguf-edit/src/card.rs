//! Model cards: a Markdown table of files with matching front matter, made from models, and compared with a README.
//!
//! Each row is a model: one file, or all its shards. All data comes from the files; hashes are the SHA-256 of whole files, as shown by the
//! Hub and computed by `sha256sum`.

use std::fmt;
use std::path::PathBuf;

use gguf_format::{Gguf, keys};
use gguf_io::{IntoModel, Model, ModelFile};
use gguf_model::summary::{Summary, summary};
use gguf_pipeline::Progress;

use crate::error::Error;
use crate::file_hash::sha256;

/// The maximum length of metadata text in a card, in bytes.
const LONGEST: usize = 1000;

/// The table and the front matter of a model card.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Card {
    /// The models, in the given order.
    pub rows: Vec<Row>,
    /// The fields of the front matter.
    pub fields: Vec<(&'static str, Field)>,
}

/// A model of the table.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Row {
    /// The files, the first shard first.
    pub files: Vec<FileRow>,
    /// The label of the file type, such as `Q4_K_M`.
    pub file_type: Option<String>,
    /// Bits per weight.
    pub bits_per_weight: Option<f64>,
    /// Bytes of all files.
    pub bytes: u64,
    /// The file name of the importance matrix used for the quantization.
    pub matrix: Option<String>,
    /// The composition: types of tensors with their share of the bytes.
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

/// A difference between a README and a card.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CardDifference {
    /// The README has no table of files.
    NoTable,
    /// The table lacks a model.
    MissingRow {
        /// The file of the model.
        file: String,
    },
    /// The table lists a file that is not in the card.
    ExtraRow {
        /// The line of the README, from 1.
        line: usize,
        /// The file.
        file: String,
    },
    /// A cell differs.
    Cell {
        /// The line of the README, from 1.
        line: usize,
        /// The file of the row.
        file: String,
        /// The column.
        column: &'static str,
        /// The text in the README; `None` if the column is missing.
        found: Option<String>,
        /// The expected text.
        expected: String,
    },
    /// A field of the front matter differs.
    Field {
        /// The key.
        key: &'static str,
        /// The value in the README; `None` if the field is missing.
        found: Option<String>,
        /// The expected value; of a list, the missing items.
        expected: String,
    },
}

impl fmt::Display for CardDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CardDifference::NoTable => f.write_str("no table with a column File"),
            CardDifference::MissingRow { file } => write!(f, "the table lacks {file}"),
            CardDifference::ExtraRow { line, file } => write!(f, "line {line}: {file} is listed but was not given"),
            CardDifference::Cell { line, file, column, found: Some(found), expected } => {
                write!(f, "line {line}: {file}: {column} is {found:?}, expected {expected:?}")
            }
            CardDifference::Cell { line, file, column, found: None, expected } => {
                write!(f, "line {line}: {file}: no column {column}, expected {expected:?}")
            }
            CardDifference::Field { key, found: Some(found), expected } => {
                write!(f, "front matter: {key} is {found:?}, expected {expected:?}")
            }
            CardDifference::Field { key, found: None, expected } => {
                write!(f, "front matter: {key} is missing, expected {expected:?}")
            }
        }
    }
}

/// Makes the card of models, open ones or those of paths. Several shards of one model are one row. If `hash` is set, hashes are computed
/// by `threads` threads, by default the parallelism of the machine.
///
/// # Errors
/// If a file cannot be read, or the work is cancelled.
pub fn card<M: IntoModel>(
    models: impl IntoIterator<Item = M>,
    hash: bool,
    threads: Option<std::num::NonZeroUsize>,
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
    let hashes: Vec<Option<String>> = match hash {
        true => {
            let read = |file: &&ModelFile, at, piece: &mut [u8]| file.read_at(at, piece);
            let hashes = sha256(&files, |file| file.file_bytes(), read, threads, progress)?;
            hashes.into_iter().map(Some).collect()
        }
        false => files.iter().map(|_| None).collect(),
    };
    let mut hashes = hashes.into_iter();
    let mut fields = None;
    let mut rows = Vec::new();
    for model in &models {
        let heads: Vec<&Gguf<'_>> = model.files().iter().map(ModelFile::gguf).collect();
        let s = summary(&heads);
        let file = |file: &ModelFile| FileRow {
            path: file.path().to_owned(),
            name: file.path().file_name().map_or(String::new(), |name| safe(&name.to_string_lossy())),
            bytes: file.file_bytes(),
            sha256: hashes.next().flatten(),
        };
        let files: Vec<FileRow> = model.files().iter().map(file).collect();
        fields.get_or_insert_with(|| fields_of(model.gguf()));
        rows.push(Row {
            bytes: files.iter().map(|file| file.bytes).sum(),
            files,
            file_type: s.file_type.and_then(|ty| ty.info()).map(|info| info.label().to_owned()),
            bits_per_weight: s.bits_per_weight(),
            matrix: s.imatrix.as_deref().map(|path| safe(path.rsplit(['/', '\\']).next().unwrap_or(path))),
            description: shares(&s),
        });
    }
    let mut fields = fields.unwrap_or_default();
    if rows.iter().any(|row| row.matrix.is_some())
        && let Some((_, Field::List(tags))) = fields.iter_mut().find(|(key, _)| *key == "tags")
        && !tags.iter().any(|tag| tag == "imatrix")
    {
        tags.push("imatrix".to_owned());
    }
    Ok(Card { rows, fields })
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

/// The front matter from the metadata.
fn fields_of(gguf: &Gguf<'_>) -> Vec<(&'static str, Field)> {
    let text = |key: &str| {
        let text = gguf.get_as::<&str>(key).ok().filter(|text| !text.trim().is_empty())?;
        Some(safe(text.trim()))
    };
    let list = |key: &str| -> Vec<String> {
        let array = gguf.get(key).and_then(|value| value.as_array());
        let texts = array.into_iter().flat_map(|array| array.iter().take(LONGEST));
        texts.filter_map(|value| value.as_str().and_then(|text| text.to_str().ok()).map(safe)).collect()
    };
    let mut fields = Vec::new();
    let count = gguf.get(keys::GENERAL_BASE_MODEL_COUNT).and_then(|value| value.get::<u32>().ok()).unwrap_or(0);
    let base = (0..count).take(LONGEST).filter_map(|i| {
        let url = text(&format!("general.base_model.{i}.repo_url"))?;
        Some(url.strip_prefix("https://huggingface.co/").unwrap_or(&url).to_owned())
    });
    let base: Vec<String> = base.collect();
    if !base.is_empty() {
        fields.push(("base_model", Field::List(base)));
        fields.push(("base_model_relation", Field::Text("quantized".to_owned())));
    }
    for (key, of) in [
        ("license", keys::GENERAL_LICENSE),
        ("license_name", keys::GENERAL_LICENSE_NAME),
        ("license_link", keys::GENERAL_LICENSE_LINK),
        ("quantized_by", keys::GENERAL_QUANTIZED_BY),
    ] {
        fields.extend(text(of).map(|text| (key, Field::Text(text))));
    }
    let languages = list(keys::GENERAL_LANGUAGES);
    if !languages.is_empty() {
        fields.push(("language", Field::List(languages)));
    }
    let mut tags = list(keys::GENERAL_TAGS);
    if !tags.iter().any(|tag| tag == "gguf") {
        tags.push("gguf".to_owned());
    }
    fields.push(("tags", Field::List(tags)));
    fields
}

/// The columns of the table.
const COLUMNS: [&str; 8] = ["File", "Type", "Bits per weight", "Size", "SHA-256", "Split", "Matrix", "Description"];

impl Row {
    /// The cells of the row. A missing value is an empty cell.
    fn cells(&self) -> [String; 8] {
        let size = |bytes: u64| match bytes {
            0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
            1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
            _ => format!("{:.2} GB", bytes as f64 / 1e9),
        };
        let hashes: Vec<String> =
            self.files.iter().filter_map(|file| Some(format!("`{}`", file.sha256.as_ref()?))).collect();
        [
            self.file_cell(),
            self.file_type.clone().unwrap_or_default(),
            self.bits_per_weight.map_or(String::new(), |bits| format!("{bits:.2}")),
            size(self.bytes),
            hashes.join("<br>"),
            if self.files.len() > 1 { format!("{} files", self.files.len()) } else { "no".to_owned() },
            self.matrix.clone().unwrap_or_else(|| "no".to_owned()),
            self.description.clone(),
        ]
        .map(|cell| cell.replace('|', "\\|"))
    }

    /// The name of the file, or of the first shard.
    fn file_cell(&self) -> String {
        self.files.first().map_or(String::new(), |file| file.name.clone())
    }
}

impl Card {
    /// The table in Markdown, a line for each model.
    pub fn table(&self) -> String {
        let mut lines = vec![line(&COLUMNS.map(str::to_owned)), line(&COLUMNS.map(|_| "---".to_owned()))];
        lines.extend(self.rows.iter().map(|row| line(&row.cells())));
        lines.join("\n") + "\n"
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

    /// The differences between a README and the card; `front_matter` are the fields of the README. Cells without a computed value are not
    /// compared, additional columns and fields are ignored, and a list may have additional items.
    pub fn differences(&self, readme: &str, front_matter: &[(String, Vec<String>)]) -> Vec<CardDifference> {
        let mut found = Vec::new();
        for (key, field) in &self.fields {
            let there = front_matter.iter().find(|(other, _)| other == key).map(|(_, texts)| texts);
            let shown = there.map(|texts| texts.join(", "));
            let lacking = |texts: &[String]| -> Vec<String> {
                let has = |text: &&String| there.is_some_and(|there| there.contains(text));
                texts.iter().filter(|text| !has(text)).cloned().collect()
            };
            let expected = match field {
                Field::Text(text) if there.is_none_or(|there| there != std::slice::from_ref(text)) => text.clone(),
                Field::List(texts) if !lacking(texts).is_empty() => lacking(texts).join(", "),
                _ => continue,
            };
            found.push(CardDifference::Field { key, found: shown, expected });
        }
        let Some(table) = Table::find(readme) else {
            found.push(CardDifference::NoTable);
            return found;
        };
        for row in &self.rows {
            let file = row.file_cell();
            let Some((line, cells)) = table.rows.iter().find(|(_, cells)| table.file(cells) == file) else {
                found.push(CardDifference::MissingRow { file });
                continue;
            };
            for (column, expected) in COLUMNS.iter().zip(row.cells()).skip(1) {
                let expected = plain(&expected);
                if *column == "SHA-256" && expected.is_empty() {
                    continue;
                }
                let cell = table.columns.iter().position(|name| name.eq_ignore_ascii_case(column));
                let cell = cell.map(|at| cells.get(at).map_or(String::new(), |cell| plain(cell)));
                if cell.as_ref() != Some(&expected) {
                    let (line, file) = (*line, file.clone());
                    found.push(CardDifference::Cell { line, file, column, found: cell, expected });
                }
            }
        }
        for (line, cells) in &table.rows {
            let file = table.file(cells);
            let is_known = |row: &Row| row.files.iter().any(|known| known.name == file);
            if file.ends_with(".gguf") && !self.rows.iter().any(is_known) {
                found.push(CardDifference::ExtraRow { line: *line, file });
            }
        }
        found
    }
}

/// `| a | b |`
fn line(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
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

/// The text of a cell without Markdown markup: code, emphasis and links.
fn plain(cell: &str) -> String {
    let mut text = cell.trim().replace("\\|", "|").replace(['`', '*'], "");
    while let Some(start) = text.find('[')
        && let Some(middle) = text[start..].find("](").map(|at| start + at)
        && let Some(end) = text[middle..].find(')').map(|at| middle + at)
    {
        let label = text[start + 1..middle].to_owned();
        text.replace_range(start..=end, &label);
    }
    text.split("<br>").map(str::trim).collect::<Vec<_>>().join(" ")
}

/// A table of a README.
struct Table {
    columns: Vec<String>,
    /// The rows with their line numbers, from 1.
    rows: Vec<(usize, Vec<String>)>,
}

impl Table {
    /// The first table with a File column.
    fn find(readme: &str) -> Option<Table> {
        let mut lines = (1..).zip(readme.lines()).peekable();
        while let Some((_, text)) = lines.next() {
            let Some(columns) = cells(text).filter(|columns| columns.iter().any(|c| is_file(c))) else { continue };
            let is_rule = |text: &str| text.contains('-') && text.chars().all(|c| matches!(c, '|' | '-' | ':' | ' '));
            if !lines.peek().is_some_and(|(_, text)| is_rule(text.trim())) {
                continue;
            }
            lines.next();
            let rows = lines.map_while(|(number, text)| Some((number, cells(text)?))).collect();
            return Some(Table { columns: columns.iter().map(|column| plain(column)).collect(), rows });
        }
        None
    }

    /// The file of a row.
    fn file(&self, cells: &[String]) -> String {
        let at = self.columns.iter().position(|column| is_file(column));
        at.and_then(|at| cells.get(at)).map_or(String::new(), |cell| plain(cell))
    }
}

fn is_file(column: &str) -> bool {
    let column = plain(column);
    column.eq_ignore_ascii_case("File") || column.eq_ignore_ascii_case("Filename")
}

/// The cells of a table row; `None` for other lines.
fn cells(text: &str) -> Option<Vec<String>> {
    let text = text.trim();
    if !text.contains('|') {
        return None;
    }
    let text = text.strip_prefix('|').unwrap_or(text);
    let text = text.strip_suffix('|').filter(|text| !text.ends_with('\\')).unwrap_or(text);
    let mut cells = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        match c {
            '|' if !escaped => cells.push(String::new()),
            c => cells.last_mut()?.push(c),
        }
        escaped = c == '\\' && !escaped;
    }
    Some(cells.iter().map(|cell| cell.trim().to_owned()).collect())
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
        };
        let row = |files: Vec<FileRow>| Row {
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
            "| File | Type | Bits per weight | Size | SHA-256 | Split | Matrix | Description |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- |\n\
             | a.gguf | Q4_K_M | 4.86 | 1.5 MB | `01` | no | no | q4_K 80 %, q6_K 20 % |\n\
             | b-1.gguf | Q4_K_M | 4.86 | 3.0 MB | `02`<br>`03` | 2 files | no | q4_K 80 %, q6_K 20 % |\n"
        );
        assert_eq!(card.front_matter(), "---\nlicense: \"no\"\ntags:\n- \"a b\"\n- gguf\n---\n");
        for (text, yaml) in [("apache-2.0", "apache-2.0"), ("2024", "\"2024\""), ("a: b", "\"a: b\""), ("", "\"\"")] {
            assert_eq!(scalar(text), yaml);
        }
    }

    #[test]
    fn readmes_are_compared() {
        let card = example();
        let good = format!("# Title\n\n| a | b |\n|---|---|\n| c | d |\n\n{}\nText | more\n", card.table());
        assert_eq!(card.differences(&good, &front()), []);
        // Links, emphasis, additional columns and the order of rows do not matter.
        let linked =
            good.replace("| a.gguf |", "| [**a.gguf**](https://x/a.gguf) |").replace("File |", "File | More |");
        let linked = linked.replace("a.gguf) |", "a.gguf) | 1 |").replace("| b-1.gguf |", "| b-1.gguf | 2 |");
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
