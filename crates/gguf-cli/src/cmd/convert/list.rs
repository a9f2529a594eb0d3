//! `gguf convert --list`: the supported architectures, encoders and image models.

use std::io::Write;

use gguf_format::sort::CompactSort as _;
use gguf_hf::export::Fidelity;
use gguf_model::arch::{TOWERS, UNSUPPORTED_ENCODERS};
use gguf_model::image::IMAGE_MODELS;
use serde_json::{Map, Value, json};

use crate::failure::{Failure, Outcome, Verdict};
use crate::json;
use crate::ui::{Column, Style, Table, Ui, wrap};

/// Prints the supported architectures; with `all`, also the classes that are not supported.
pub fn print(ui: &mut Ui, all: bool) -> Outcome {
    let mut rows: Vec<(&str, Vec<&str>)> = Vec::new();
    for (architecture, checkpoint) in gguf_hf::arch::supported() {
        let name = checkpoint.architecture(architecture);
        match rows.iter_mut().find(|(other, _)| *other == name) {
            // A class may map to the architecture in several ways.
            Some((_, classes)) => {
                let new: Vec<&str> =
                    checkpoint.classes.iter().copied().filter(|class| !classes.contains(class)).collect();
                classes.extend(new);
            }
            None => rows.push((name, checkpoint.classes.to_vec())),
        }
    }
    rows.compact_sort_by(Ord::cmp);
    if ui.schema.is_some() {
        let architecture = |(name, classes): &(&str, Vec<&str>)| json!({ "name": name, "classes": classes });
        let architectures: Vec<Value> = rows.iter().map(architecture).collect();
        let mut listed = Map::new();
        listed.insert("architectures".to_owned(), architectures.into());
        if all {
            let class = |(name, reason): (&str, &str)| json!({ "name": name, "reason": reason });
            let encoders = UNSUPPORTED_ENCODERS.iter().copied().map(class).collect();
            let exports = exports().into_iter().map(|(name, architecture, fidelity)| {
                let (word, obstacle) = word(fidelity);
                json!({ "class": name, "architecture": architecture, "fidelity": word, "obstacle": obstacle })
            });
            listed.insert("exports".to_owned(), exports.collect());
            listed.insert("unsupported".to_owned(), unsupported().map(class).collect());
            listed.insert("unsupported_encoders".to_owned(), encoders);
        }
        json::print(ui, 3, &listed)?;
        return Ok(Verdict::Good);
    }
    let mut table =
        Table::new([Column::name("ARCHITECTURE").styled(Style::Cyan), Column::whole("CLASSES IN CONFIG.JSON")]);
    let widest = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let columns = ui.width.map_or(usize::MAX, |width| width.saturating_sub(widest + 2));
    for (name, classes) in rows {
        for (i, line) in lines_of(&classes, columns).into_iter().enumerate() {
            table.row([if i == 0 { name.to_owned() } else { String::new() }, line]);
        }
    }
    table.print(ui, 0)?;
    if all {
        print_exports(ui)?;
    }
    let mut towers: Vec<(String, String)> = gguf_hf::arch::supported_towers()
        .map(|checkpoint| (gguf_hf::arch::projector_type(checkpoint), checkpoint.classes.join(", ")))
        .collect();
    towers.compact_sort_by(Ord::cmp);
    let mut table =
        Table::new([Column::name("PROJECTOR").styled(Style::Cyan), Column::text("CLASSES OF ENCODERS, FOR --MMPROJ")]);
    for (projector, classes) in towers {
        table.row([projector, classes]);
    }
    writeln!(ui.out)?;
    table.print(ui, 0)?;
    let mut images: Vec<(&str, &str)> = IMAGE_MODELS.iter().map(|model| (model.name, model.title)).collect();
    images.compact_sort_by(Ord::cmp);
    let mut table =
        Table::new([Column::name("IMAGE MODEL").styled(Style::Cyan), Column::text("RECOGNIZED BY ITS TENSORS")]);
    for (name, title) in images {
        table.row([name.to_owned(), title.to_owned()]);
    }
    writeln!(ui.out)?;
    table.print(ui, 0)?;
    if all {
        let encoders: Vec<_> = UNSUPPORTED_ENCODERS.to_vec();
        for (title, classes) in [("UNSUPPORTED CLASS", unsupported().collect()), ("UNSUPPORTED ENCODER", encoders)] {
            let mut table = Table::new([Column::name(title).styled(Style::Cyan), Column::text("REASON")]);
            for (name, reason) in classes {
                table.row([name.to_owned(), reason.to_owned()]);
            }
            writeln!(ui.out)?;
            table.print(ui, 0)?;
        }
    }
    Ok(Verdict::Good)
}

/// The classes, the architectures that they are converted to, and how their checkpoints come back from an export.
fn exports() -> Vec<(&'static str, &'static str, Fidelity)> {
    let towers = TOWERS.iter().flat_map(|arch| arch.checkpoints.iter().map(move |checkpoint| (arch, checkpoint)));
    let mut classes: Vec<(&str, &str, Fidelity)> = Vec::new();
    for (architecture, checkpoint) in gguf_hf::arch::supported().chain(towers) {
        let name = checkpoint.architecture(architecture);
        let of = |class: &str| gguf_hf::export::fidelity(architecture, checkpoint, class);
        classes.extend(checkpoint.classes.iter().map(|class| (*class, name, of(class))));
    }
    classes.compact_sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    classes.dedup_by_key(|(class, name, _)| (*class, *name));
    classes
}

/// A word for scripts, and what does not come back.
fn word(fidelity: Fidelity) -> (&'static str, Option<&'static str>) {
    match fidelity {
        Fidelity::Except(which) => ("except", Some(which)),
        Fidelity::Lossy(what) => ("lossy", Some(what)),
        Fidelity::None(why) => ("none", Some(why)),
        _ => ("exact", None),
    }
}

/// Prints whether `gguf export` restores the checkpoints of each class, or why not.
fn print_exports(ui: &mut Ui) -> Result<(), Failure> {
    let columns = [Column::name("CLASS").styled(Style::Cyan), Column::left("ARCHITECTURE"), Column::whole("EXPORT")];
    let mut table = Table::new(columns);
    let exports = exports();
    let widest = |name: fn(&(&'static str, &'static str, Fidelity)) -> &'static str| {
        exports.iter().map(|row| name(row).len()).max().unwrap_or(0)
    };
    let names = widest(|row| row.0) + widest(|row| row.1) + 4;
    let width = ui.width.map_or(usize::MAX, |width| width.saturating_sub(names).max(MIN_REASON));
    for (class, name, fidelity) in exports {
        let text = match fidelity {
            Fidelity::Except(which) => format!("yes, except {which}"),
            Fidelity::Lossy(what) => format!("lossy: {what}"),
            Fidelity::None(why) => format!("no: {why}"),
            _ => "yes".to_owned(),
        };
        let (mut class, mut name) = (class, name);
        for line in wrap(&text, width) {
            table.row([core::mem::take(&mut class).to_owned(), core::mem::take(&mut name).to_owned(), line]);
        }
    }
    writeln!(ui.out)?;
    table.print(ui, 0)?;
    Ok(())
}

/// The narrowest column of reasons.
const MIN_REASON: usize = 24;

/// Classes supported only by llama.cpp's converter, and the reasons.
fn unsupported() -> impl Iterator<Item = (&'static str, &'static str)> {
    gguf_model::arch::UNSUPPORTED.iter().copied().filter(|(name, _)| gguf_model::arch::of_class(name).is_none())
}

/// Breaks a list of names into lines of at most `columns` columns. Names are never cut.
fn lines_of(names: &[&str], columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for name in names {
        match lines.last_mut() {
            Some(line) if line.len() + 2 + name.len() < columns => *line = format!("{line}, {name}"),
            Some(line) => {
                line.push(',');
                lines.push((*name).to_owned());
            }
            None => lines.push((*name).to_owned()),
        }
    }
    lines
}
