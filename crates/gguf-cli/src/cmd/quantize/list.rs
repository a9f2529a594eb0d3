//! The table of file types, with the size of a model in each.

use std::io::Write;
use std::path::Path;

use clap::builder::{PossibleValue, TypedValueParser};
use gguf_format::keys::{FILE_TYPES, FileType};
use gguf_quantize::Offer;
use serde::Serialize;

use super::Sizes;
use crate::failure::{Outcome, Verdict};
use crate::json;
use crate::ui::{Column, Style, Table, Ui, bits_per_weight, shown_path};

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

/// Prints the size of a model for each file type.
pub fn print(ui: &mut Ui, input: &Path, offers: &[Offer], as_json: bool) -> Outcome {
    let bits = |offer: &Offer| offer.plan.as_ref().ok().map(|plan| Sizes::of(plan).bits_per_weight());
    if as_json {
        let offer = |offer: &Offer| JsonOffer {
            file_type: offer.file_type.to_string(),
            id: offer.file_type.0,
            bits_per_weight: bits(offer),
            file_bytes: offer.plan.as_ref().ok().map(gguf_pipeline::Plan::file_bytes),
            needs_imatrix: offer.needs_matrix,
            error: offer.plan.as_ref().err().map(ToString::to_string),
        };
        let document = JsonList { path: json::path(input), file_types: offers.iter().map(offer).collect() };
        json::print(ui, 3, &document)?;
        return Ok(Verdict::Good);
    }
    let mut table = Table::new([
        Column::name("TYPE").styled(Style::Cyan),
        Column::right("BITS/WEIGHT"),
        Column::right("BYTES"),
        Column::left("MATRIX"),
    ]);
    let mut sorted: Vec<&Offer> = offers.iter().filter(|offer| offer.plan.is_ok()).collect();
    sorted.sort_by_key(|offer| (offer.plan.as_ref().map_or(0, gguf_pipeline::Plan::file_bytes), offer.file_type));
    for offer in sorted {
        let Ok(plan) = &offer.plan else { continue };
        let bits = bits_per_weight(Sizes::of(plan).bits_per_weight()).to_string();
        let matrix = if offer.needs_matrix { "required" } else { "" };
        table.row([offer.file_type.to_string(), bits, ui.bytes(plan.file_bytes()), matrix.to_owned()]);
    }
    table.print(ui, 0)?;
    for offer in offers {
        if let Err(e) = &offer.plan {
            writeln!(ui.out, "\n{}: not for {}: {e}", offer.file_type, shown_path(input))?;
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
            let help = format!("{}, {} bits per weight", row.tensor_type, bits_per_weight(bits));
            PossibleValue::new(FileType(row.id).info().map_or(row.name, |info| info.label())).help(help)
        });
        let more = self.more.iter().map(|(name, help)| PossibleValue::new(*name).help(*help));
        Some(Box::new(more.chain(types)))
    }
}
