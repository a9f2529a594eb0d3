//! The comparison of a README with a card.

use std::fmt;

use super::{Card, Column, Field, Row};

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
    /// A row has no link to a file in the repository of the card.
    Link {
        /// The line of the README, from 1.
        line: usize,
        /// The file.
        file: String,
        /// The address of the file.
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
    /// The README calls the files quantizations of a model from which the quantized model was only derived.
    Parent {
        /// The base model of the quantized model.
        parent: String,
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
            CardDifference::Link { line, file, expected } => {
                write!(f, "line {line}: {file} has no link to {expected}")
            }
            CardDifference::Field { key, found: Some(found), expected } => {
                write!(f, "front matter: {key} is {found:?}, expected {expected:?}")
            }
            CardDifference::Field { key, found: None, expected } => {
                write!(f, "front matter: {key} is missing, expected {expected:?}")
            }
            CardDifference::Parent { parent } => {
                write!(
                    f,
                    "front matter: base_model is {parent:?}, the base model of the quantized model; expected the quantized model"
                )
            }
        }
    }
}

impl Card {
    /// The differences between a README and the card; `front_matter` are the fields of the README. Cells without a computed value and
    /// phrases on quality are not compared, nor links unless the repository is known; additional columns and fields are ignored, and a list
    /// may have additional items.
    pub fn differences(&self, readme: &str, front_matter: &[(String, Vec<String>)]) -> Vec<CardDifference> {
        let mut found = Vec::new();
        let there = |key: &str| front_matter.iter().find(|(other, _)| other == key).map(|(_, texts)| texts.as_slice());
        for (key, field) in &self.fields {
            let there = there(key);
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
        // A known base model is compared above.
        if self.field("base_model").is_none()
            && there("base_model_relation").is_some_and(|texts| texts.iter().any(|text| text == "quantized"))
        {
            let named = |parent: &&String| there("base_model").is_some_and(|texts| texts.contains(parent));
            found.extend(
                self.parents.iter().filter(named).map(|parent| CardDifference::Parent { parent: parent.clone() }),
            );
        }
        let tables = Table::all(readme);
        if tables.is_empty() {
            found.push(CardDifference::NoTable);
            return found;
        }
        let rows: Vec<(&Table, usize, &[String], String)> = tables
            .iter()
            .flat_map(|table| table.rows.iter().map(move |(line, cells)| (table, *line, &cells[..], table.file(cells))))
            .collect();
        for row in &self.rows {
            let file = row.file_name();
            let Some((table, line, cells, _)) = rows.iter().find(|(.., name)| *name == file) else {
                found.push(CardDifference::MissingRow { file });
                continue;
            };
            let has_link = |url: &String| cells.iter().any(|cell| cell.contains(&format!("]({url})")));
            for (file, url) in row.files.iter().filter_map(|file| Some((file, file.url.as_ref()?))) {
                if !has_link(url) {
                    let (line, file, expected) = (*line, file.name.clone(), url.clone());
                    found.push(CardDifference::Link { line, file, expected });
                }
            }
            for column in self.columns(row.kind).filter(|column| !matches!(column, Column::File | Column::Quality)) {
                let expected = plain(&row.cell(column));
                if column == Column::Sha256 && expected.is_empty() {
                    continue;
                }
                let column = column.title();
                let cell = table.columns.iter().position(|name| name.eq_ignore_ascii_case(column));
                let cell = cell.map(|at| cells.get(at).map_or(String::new(), |cell| plain(cell)));
                if cell.as_ref() != Some(&expected) {
                    let (line, file) = (*line, file.clone());
                    found.push(CardDifference::Cell { line, file, column, found: cell, expected });
                }
            }
        }
        for (_, line, _, file) in rows {
            let is_known = |row: &Row| row.files.iter().any(|known| known.name == file);
            if file.ends_with(".gguf") && !self.rows.iter().any(is_known) {
                found.push(CardDifference::ExtraRow { line, file });
            }
        }
        found
    }
}

impl Row {
    /// The name of the file, or of the first shard.
    fn file_name(&self) -> String {
        self.files.first().map_or(String::new(), |file| file.name.clone())
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
    /// The tables with a File column.
    fn all(readme: &str) -> Vec<Table> {
        let mut lines = (1..).zip(readme.lines()).peekable();
        let mut tables = Vec::new();
        while let Some((_, text)) = lines.next() {
            let Some(columns) = cells(text).filter(|columns| columns.iter().any(|c| is_file(c))) else { continue };
            let is_rule = |text: &str| text.contains('-') && text.chars().all(|c| matches!(c, '|' | '-' | ':' | ' '));
            if !lines.peek().is_some_and(|(_, text)| is_rule(text.trim())) {
                continue;
            }
            lines.next();
            let rows = std::iter::from_fn(|| {
                let (number, text) = *lines.peek()?;
                let cells = cells(text)?;
                lines.next();
                Some((number, cells))
            });
            let rows = rows.collect();
            tables.push(Table { columns: columns.iter().map(|column| plain(column)).collect(), rows });
        }
        tables
    }

    /// The file of a row, or the first of several shards.
    fn file(&self, cells: &[String]) -> String {
        let at = self.columns.iter().position(|column| is_file(column));
        let cell = at.and_then(|at| cells.get(at)).map_or("", |cell| cell.as_str());
        plain(cell.split("<br>").next().unwrap_or_default())
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
