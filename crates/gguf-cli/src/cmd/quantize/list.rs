//! The table of file types, with the size of a model in each.

use std::io::Write;
use std::path::Path;

use clap::builder::{PossibleValue, TypedValueParser};
use gguf_format::keys::{FILE_TYPES, FileType};
use gguf_format::sort::CompactSort as _;
use gguf_pipeline::Plan;
use gguf_quantize::Offer;
use gguf_quantize::mix::recipe::LARGER;
use serde::Serialize;

use crate::cmd::planned::Sizes;
use crate::failure::{Outcome, Verdict};
use crate::json;
use crate::ui::{Column, Style, Table, Ui, bits_per_weight};

#[derive(Serialize)]
struct JsonList<'a> {
    path: json::Text<'a>,
    file_types: Vec<JsonOffer>,
}

#[derive(Serialize)]
struct JsonOffer {
    file_type: String,
    id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    bits_per_weight: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_bytes: Option<u64>,
    needs_imatrix: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A file type, and the size of the model in it or the reason why it is not possible.
struct Row {
    file_type: FileType,
    size: Result<Size, String>,
    needs_matrix: bool,
}

#[derive(Clone, Copy)]
struct Size {
    bits_per_weight: f64,
    file_bytes: u64,
}

impl Row {
    fn of(offer: &Offer) -> Row {
        let size =
            |plan: &Plan| Size { bits_per_weight: Sizes::of(plan).bits_per_weight(), file_bytes: plan.file_bytes() };
        let size = offer.plan.as_ref().map(size).map_err(ToString::to_string);
        Row { file_type: offer.file_type, size, needs_matrix: offer.needs_matrix }
    }
}

/// Prints the size of a model for each file type.
pub fn print(
    ui: &mut Ui,
    input: &Path,
    offers: impl Iterator<Item = Result<Offer, gguf_quantize::Error>>,
    as_json: bool,
) -> Outcome {
    let mut rows = offers.map(|offer| Ok(Row::of(&offer?))).collect::<Result<Vec<_>, gguf_quantize::Error>>()?;
    if as_json {
        let offer = |row: Row| JsonOffer {
            file_type: row.file_type.to_string(),
            id: row.file_type.0,
            bits_per_weight: row.size.as_ref().ok().map(|size| size.bits_per_weight),
            file_bytes: row.size.as_ref().ok().map(|size| size.file_bytes),
            needs_imatrix: row.needs_matrix,
            error: row.size.err(),
        };
        let document = JsonList { path: json::path(input), file_types: rows.into_iter().map(offer).collect() };
        json::print(ui, 3, &document)?;
        return Ok(Verdict::Good);
    }
    let mut table = Table::new([
        Column::name("TYPE").styled(Style::Cyan),
        Column::right("BITS/WEIGHT"),
        Column::right("BYTES"),
        Column::left("MATRIX"),
    ]);
    rows.compact_sort_by_key(|row| (row.size.as_ref().map_or(0, |size| size.file_bytes), row.file_type));
    for row in &rows {
        let Ok(Size { bits_per_weight: bits, file_bytes }) = row.size else { continue };
        let matrix = if row.needs_matrix { "required" } else { "" };
        table.row([
            row.file_type.to_string(),
            bits_per_weight(bits).to_string(),
            ui.bytes(file_bytes),
            matrix.to_owned(),
        ]);
    }
    table.print(ui, 0)?;
    for row in &rows {
        if let Err(e) = &row.size {
            writeln!(ui.out, "\nnot {}: {e}", row.file_type)?;
        }
    }
    Ok(Verdict::Good)
}

/// Wraps a parser of file types, and lists the file types and `more` as possible values in help texts and completions.
#[derive(Clone)]
pub struct Names<P> {
    pub parser: P,
    pub more: &'static [(&'static str, &'static str)],
}

impl<P: TypedValueParser> TypedValueParser for Names<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<Self::Value, clap::Error> {
        self.parser.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let types = FILE_TYPES.iter().filter(|row| !row.removed).map(|row| {
            let bits =
                row.tensor_type.info().map_or(0.0, |ty| f64::from(ty.block_bytes) * 8.0 / f64::from(ty.block_len));
            let help = format!("base type {}, {} bits per weight", row.tensor_type, bits_per_weight(bits));
            PossibleValue::new(FileType(row.id).info().map_or(row.name, |info| info.label())).help(help)
        });
        let more = self.more.iter().map(|(name, help)| PossibleValue::new(*name).help(*help));
        let larger = LARGER
            .iter()
            .map(|(name, base)| PossibleValue::new(*name).help(format!("{base} with embeddings and output in q8_0")));
        Some(Box::new(more.chain(types).chain(larger)))
    }
}
