//! Output paths and shards of the commands that write models.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use gguf_edit::{Limit, SplitOptions};
use gguf_model::naming::{NewName, new_name};
use gguf_pipeline::Plan;

use super::size::parse_limit;
use crate::failure::Failure;
use crate::ui::{Ui, shown_path};

/// Options that split an output.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = "Shards")]
pub struct Shards {
    /// Write shards of at most this much tensor data, such as 4GB; OUT is the prefix of their names
    #[arg(long, value_name = "SIZE", value_parser = parse_limit)]
    split_max_size: Option<NonZeroU64>,

    /// Write shards of at most N tensors; OUT is the prefix of their names
    #[arg(long, value_name = "N", value_parser = crate::cmd::at_least_one::<NonZeroU64>)]
    split_max_tensors: Option<NonZeroU64>,
}

impl Shards {
    /// Whether an option requests shards.
    pub fn are_given(self) -> bool {
        self.split_max_size.is_some() || self.split_max_tensors.is_some()
    }

    /// Splits the output of a plan if an option requests it.
    ///
    /// # Errors
    /// If both options are given, or if the output has no tensors or cannot be split.
    pub fn apply(self, ui: &mut Ui, plan: Plan) -> Result<Plan, Failure> {
        let limit = match (self.split_max_size, self.split_max_tensors) {
            (Some(_), Some(_)) => {
                let problem = "--split-max-size and --split-max-tensors are combined only by `gguf convert`, for the types that \
                               convert_hf_to_gguf.py writes; use one of them";
                return Err(Failure::CouldNotRun(problem.to_owned()));
            }
            (Some(bytes), None) => Limit::DataBytes(bytes),
            (None, Some(n)) => Limit::Tensors(n),
            (None, None) => return Ok(plan),
        };
        if plan.tensors().is_empty() {
            let problem = "the output has no tensors and cannot be split";
            return Err(Failure::CouldNotRun(format!("{}: {problem}", plan.path().display())));
        }
        let (plan, too_large) = gguf_edit::split_plan(plan, &SplitOptions::new(limit))?;
        warn_too_large(ui, &too_large);
        Ok(plan)
    }

    /// Splits the output of a conversion as llama.cpp's converter does, if an option requests it.
    ///
    /// # Errors
    /// If the shards cannot be written.
    pub fn apply_to_conversion(self, ui: &mut Ui, plan: Plan) -> Result<Plan, Failure> {
        if !self.are_given() {
            return Ok(plan);
        }
        let (plan, too_large) = gguf_edit::split_converted(plan, self.split_max_tensors, self.split_max_size)?;
        warn_too_large(ui, &too_large);
        Ok(plan)
    }
}

/// Warns about tensors that are larger than the shard size.
pub fn warn_too_large(ui: &mut Ui, too_large: &[String]) {
    if let [first, more @ ..] = too_large {
        let others = match more.len() {
            0 => String::new(),
            n => format!(", and {n} more"),
        };
        ui.warning(&format!("{first}{others}: larger than the shard size; placed in a separate shard"));
    }
}

/// Placeholders in output names, and the metadata keys that replace them.
const PLACEHOLDERS: [(&str, &str); 6] = [
    ("{ftype}", "general.file_type"),
    ("{outtype}", "general.file_type"),
    ("{FTYPE}", "general.file_type"),
    ("{OUTTYPE}", "general.file_type"),
    ("{name}", "general.basename and general.name"),
    ("{size}", "general.size_label"),
];

/// Whether an output path ends with a separator, so that it can only be a folder.
pub fn is_folder(out: &Path) -> bool {
    out.to_string_lossy().ends_with(std::path::is_separator)
}

/// Whether missing folders of an output are created: one that a separator at the end names, and those with placeholders in their names.
pub fn names_folders(out: &Path) -> bool {
    is_folder(out) || out.parent().is_some_and(|folder| has_placeholder(&folder.to_string_lossy()))
}

/// Whether a text contains a known placeholder.
pub fn has_placeholder(text: &str) -> bool {
    PLACEHOLDERS.iter().any(|(placeholder, _)| text.contains(placeholder))
}

/// Checks that an output path has no unknown placeholder, which is a word in braces.
fn check_placeholders(out: &Path, name: &str) -> Result<(), Failure> {
    for (start, _) in name.match_indices('{') {
        let Some(found) = name.get(start..).and_then(|rest| rest.find('}').and_then(|end| rest.get(..=end))) else {
            break;
        };
        let word = found.trim_matches(['{', '}']);
        let is_word = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
        if is_word && !PLACEHOLDERS.iter().any(|(known, _)| *known == found) {
            let known: Vec<&str> = PLACEHOLDERS.iter().map(|(known, _)| *known).collect();
            let problem = format!("unknown placeholder {found}; expected one of {}", known.join(", "));
            return Err(Failure::CouldNotRun(format!("{}: {problem}", out.display())));
        }
    }
    Ok(())
}

/// The output path of a plan. In each component, placeholders are replaced: `{ftype}` and `{FTYPE}` by the file type in lower or upper case,
/// `{name}` by the model name, and `{size}` by the size label. If the result is a folder, the standard file name is appended.
///
/// # Errors
/// If a placeholder is unknown or the metadata has no value for it.
pub fn path_of(out: &Path, plan: &Plan) -> Result<PathBuf, Failure> {
    let is_there = out.is_dir();
    let text = out.to_str().filter(|text| text.contains('{') && !is_there);
    if !is_there && !is_folder(out) && text.is_none() {
        return Ok(out.to_owned());
    }
    check_placeholders(out, text.unwrap_or_default())?;
    let heads = plan.heads()?;
    let name = plan.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let new = new_name(&name, &heads.iter().collect::<Vec<_>>());
    let path = match text {
        Some(text) => PathBuf::from(filled(out, text, &new)?),
        None => out.to_owned(),
    };
    Ok(if path.is_dir() || is_folder(&path) { path.join(new.file_name) } else { path })
}

/// A text with the values of its placeholders.
fn filled(out: &Path, text: &str, new: &NewName) -> Result<String, Failure> {
    let mut text = text.to_owned();
    for (placeholder, keys) in PLACEHOLDERS {
        if !text.contains(placeholder) {
            continue;
        }
        let value = match placeholder {
            "{name}" => new.name.clone(),
            "{size}" => new.size.clone(),
            "{FTYPE}" | "{OUTTYPE}" => new.file_type.as_ref().map(|ty| ty.to_uppercase()),
            _ => new.file_type.as_ref().map(|ty| ty.to_lowercase()),
        };
        let missing = || {
            let problem = format!("cannot replace {placeholder}: the model has no {keys}");
            Failure::CouldNotRun(format!("{}: {problem}", out.display()))
        };
        text = text.replace(placeholder, &value.ok_or_else(missing)?);
    }
    Ok(text)
}

/// Whether an output path has a placeholder for the file type.
pub fn names_file_type(out: &Path) -> bool {
    let text = out.to_string_lossy();
    PLACEHOLDERS.iter().any(|(placeholder, key)| *key == "general.file_type" && text.contains(placeholder))
}

/// Checks that several file types result in different paths.
///
/// # Errors
/// If `out` is not a folder and has no placeholder for the file type.
pub fn check_several(out: &Path) -> Result<(), Failure> {
    if out.is_dir() || names_file_type(out) || is_folder(out) {
        return Ok(());
    }
    check_placeholders(out, &out.to_string_lossy())?;
    let stem = out.with_extension("");
    Err(Failure::CouldNotRun(format!(
        "{}: several file types need separate names; use {{ftype}} in the name, as in {}-{{ftype}}.gguf, or pass a folder",
        shown_path(out),
        shown_path(&stem)
    )))
}
