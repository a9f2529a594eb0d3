//! `gguf show` of a repository: a table with one line per model.

use gguf_format::name::FileName;
use gguf_remote::RepoModel;
use serde::Serialize;

use crate::failure::{Outcome, Verdict};
use crate::json;
use crate::ui::{Column, Style, Table, Ui, grouped, size};

/// Prints the table, or an object with the list `models`.
pub fn print(ui: &mut Ui, models: &[RepoModel], is_markdown: bool) -> Outcome {
    if ui.schema.is_some() {
        json::print(ui, 3, &Document { models: models.iter().map(JsonModel::of).collect() })?;
        return Ok(Verdict::Good);
    }
    let is_split = models.iter().any(|model| model.n_files > 1);
    let mut columns = vec![
        Column::name("FILE").styled(Style::Cyan),
        Column::whole("TYPE"),
        Column::right("SIZE"),
        Column::right("BYTES").left_out(1),
    ];
    columns.extend(is_split.then(|| Column::right("SHARDS")));
    let mut table = Table::new(columns);
    for model in models {
        let file_type = file_type(&model.location.file_name()).unwrap_or_else(|| "-".to_owned());
        let mut row = vec![model.location.to_string(), file_type, size(model.bytes), ui.bytes(model.bytes)];
        row.extend(is_split.then(|| grouped(model.n_files as u64)));
        table.row(row);
    }
    if is_markdown {
        table.print_markdown(&mut ui.out)?
    } else {
        table.print(ui, 0)?
    }
    Ok(Verdict::Good)
}

/// The file type in a file name.
fn file_type(name: &str) -> Option<String> {
    FileName::parse(name).encoding.map(str::to_owned)
}

#[derive(Serialize)]
struct Document {
    models: Vec<JsonModel>,
}

#[derive(Serialize)]
struct JsonModel {
    path: String,
    file_type: Option<String>,
    bytes: u64,
    shards: usize,
}

impl JsonModel {
    fn of(model: &RepoModel) -> JsonModel {
        let (path, file_type) = (model.location.to_string(), file_type(&model.location.file_name()));
        JsonModel { path, file_type, bytes: model.bytes, shards: model.n_files }
    }
}
