//! Model arguments, which may be names in Ollama's store or URLs instead of paths.
//!
//! If there are such names, the command line is parsed twice: first to find them, then with the names replaced by file paths. URLs lose their
//! query, which may be a signature that must not be shown. The commands therefore handle only paths, and URLs that can be shown.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ArgMatches;

use crate::failure::Failure;
use crate::ollama::{self, Entry};
use crate::open;
use crate::ui::{Ui, shown_path};

/// The model arguments of a command, and whether the command reads all of their data. If it does, the digest of a model in a store is
/// verified first.
struct Reads {
    /// The full name of the command, such as `recipe.show`.
    command: &'static str,
    arguments: &'static [&'static str],
    all_data: bool,
}

const fn head(command: &'static str, arguments: &'static [&'static str]) -> Reads {
    Reads { command, arguments, all_data: false }
}

const fn data(command: &'static str, arguments: &'static [&'static str]) -> Reads {
    Reads { command, arguments, all_data: true }
}

const COMMANDS: &[Reads] = &[
    head("show", &["files"]),
    head("check", &["files"]),
    head("get", &["file"]),
    head("estimate", &["model"]),
    head("recipe.show", &["model"]),
    head("imatrix.check", &["model"]),
    head("cat", &["model"]),
    data("recipe.apply", &["input"]),
    data("quantize", &["input"]),
    data("split", &["input"]),
    data("diff", &["a", "b"]),
    data("export", &["model"]),
    data("verify", &["file"]),
    data("lora.merge", &["base"]),
    data("hash", &["model"]),
    data("extract", &["model"]),
    data("reorder", &["input"]),
    data("swap", &["input"]),
    data("upgrade", &["input"]),
    data("rm-tensor", &["input"]),
    data("add-tensor", &["input"]),
    data("graft", &["input", "from"]),
    #[cfg(feature = "engine")]
    data("perplexity", &["model"]),
    #[cfg(feature = "engine")]
    data("kld", &["files"]),
    #[cfg(feature = "engine")]
    data("run", &["model"]),
    #[cfg(feature = "engine")]
    data("sensitivity", &["model"]),
    #[cfg(feature = "engine")]
    data("imatrix.compute", &["model"]),
];

/// Other arguments that may be URLs, besides the model arguments.
const URLS: &[(&str, &[&str])] = &[
    ("name", &["files"]),
    ("card", &["models"]),
    ("convert", &["dir", "base", "target", "imatrix"]),
    ("export", &["base"]),
    ("lora.merge", &["adapters", "base_config", "imatrix"]),
    ("verify", &["against", "base", "target", "imatrix"]),
    ("quantize", &["imatrix"]),
    ("recipe.apply", &["imatrix"]),
    ("migrate", &["file"]),
    ("merge", &["inputs"]),
    ("reorder", &["like"]),
    ("imatrix.show", &["file"]),
    ("imatrix.check", &["file"]),
    ("imatrix.merge", &["files"]),
    ("imatrix.convert", &["input"]),
    ("part", &["plan"]),
    ("commit", &["plan"]),
    #[cfg(feature = "engine")]
    ("sensitivity", &["imatrix"]),
    #[cfg(feature = "engine")]
    ("imatrix.compute", &["continue"]),
];

/// Outputs that may be objects of a store.
const UPLOADS: &[(&str, &[&str])] = &[
    ("convert", &["output"]),
    ("lora.merge", &["output"]),
    ("migrate", &["output"]),
    ("quantize", &["out"]),
    ("recipe.apply", &["out"]),
    ("split", &["prefix"]),
    ("merge", &["output"]),
    ("reorder", &["out"]),
    ("swap", &["out"]),
    ("upgrade", &["out"]),
    ("rm-tensor", &["out"]),
    ("add-tensor", &["out"]),
    ("graft", &["out"]),
];

/// Options that need an output on this machine.
const NOT_FOR_UPLOADS: &[(&str, &str)] = &[
    ("hash", "uploaded files are not read back"),
    ("verify", "uploaded files are not read back"),
    ("delete_input", "uploaded files are not read back"),
];

/// Arguments to replace in a command line.
#[derive(Debug)]
pub struct Replaced {
    /// Ids of the arguments.
    pub arguments: Vec<String>,
    /// The given arguments, and the paths that replace them.
    pub paths: HashMap<PathBuf, PathBuf>,
}

/// Commands that edit the input in place unless an output is given. `repair` is not listed, because it restores the content that the name
/// of a damaged blob stands for.
const IN_PLACE: &[&str] = &["set", "unset", "rename", "edit"];

/// Finds names of stored models among the arguments and resolves them to files. Digests are verified if the command reads all data.
///
/// # Errors
/// If the model does not exist, or its file does not match the manifest.
pub fn resolve(ui: &mut Ui, command: &str, matches: &ArgMatches) -> Result<Replaced, Failure> {
    let mut replaced = Replaced { arguments: Vec::new(), paths: HashMap::new() };
    let reads = COMMANDS.iter().find(|reads| reads.command == command);
    let flag = |name| matches!(matches.try_get_one::<bool>(name), Ok(Some(true)));
    let edits = IN_PLACE.contains(&command) && paths(matches, "output").is_empty() || flag("rename");
    let edits_copy = IN_PLACE.contains(&command) && !edits;
    for id in matches.ids().map(clap::Id::as_str) {
        let is_model = reads.is_some_and(|reads| reads.arguments.contains(&id));
        for path in paths(matches, id) {
            if open::is_url(path) {
                let shown = open::without_query(path)?;
                check_url(command, id, &shown, is_model || edits_copy && id == "file")?;
                let is_upload = UPLOADS.iter().any(|(name, ids)| *name == command && ids.contains(&id));
                if let Some((option, why)) = NOT_FOR_UPLOADS.iter().find(|(option, _)| is_upload && flag(option)) {
                    let option = option.replace('_', "-");
                    return Err(Failure::CouldNotRun(format!("{}: omit --{option}: {why}", shown_path(&shown))));
                }
                if shown != path {
                    replaced.arguments.push(id.to_owned());
                    replaced.paths.insert(path.to_owned(), shown);
                }
                continue;
            }
            if !is_model {
                if ollama::is_name(path) || edits && ollama::is_blob(path) {
                    let problem = "models in Ollama's store cannot be written; copy the file first";
                    return Err(Failure::CouldNotRun(format!("{}: {problem}", shown_path(path))));
                }
                continue;
            }
            let Some(entry) = ollama::find(path)? else { continue };
            if command == "show" {
                introduce(ui, path, &entry);
            }
            let reads_all = reads.is_some_and(|reads| reads.all_data) || flag("data");
            if reads_all && !flag("dry_run") {
                ollama::verify(&entry, flag("quiet"))?;
            }
            replaced.arguments.push(id.to_owned());
            replaced.paths.insert(path.to_owned(), entry.model);
        }
    }
    Ok(replaced)
}

/// Checks that a URL may stand for an argument.
fn check_url(command: &str, id: &str, url: &Path, is_model: bool) -> Result<(), Failure> {
    let is_in = |list: &[(&str, &[&str])]| list.iter().any(|(name, ids)| *name == command && ids.contains(&id));
    if is_model || is_in(URLS) {
        return Ok(());
    }
    if is_in(UPLOADS) {
        return open::expect_upload(url);
    }
    let problem = match id {
        "out" | "output" | "prefix" => "a URL cannot be written; expected a path",
        _ if IN_PLACE.contains(&command) => "a URL cannot be edited; write a copy with -o",
        _ => "expected a path, found a URL",
    };
    Err(Failure::CouldNotRun(format!("{}: {problem}", shown_path(url))))
}

/// The paths given for an argument.
fn paths<'m>(matches: &'m ArgMatches, id: &str) -> Vec<&'m Path> {
    if let Ok(Some(paths)) = matches.try_get_many::<PathBuf>(id) {
        return paths.map(PathBuf::as_path).collect();
    }
    let words = matches.try_get_many::<OsString>(id).ok().flatten();
    words.map(|words| words.map(Path::new).collect()).unwrap_or_default()
}

/// Prints the files of a stored model.
fn introduce(ui: &mut Ui, path: &Path, entry: &Entry) {
    if entry.layers.is_empty() {
        return;
    }
    ui.note(&format!("{}: the model is {}", shown_path(path), shown_path(&entry.model)));
    for (kind, file) in &entry.layers {
        ui.note(&format!("  {kind}: {}", shown_path(file)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Detects renamed commands and arguments, which the compiler does not check.
    #[test]
    fn commands_and_arguments_exist() {
        let definition = crate::commands::definition();
        let listed = COMMANDS.iter().map(|reads| (&reads.command, &reads.arguments));
        for (command, arguments) in
            listed.chain(URLS.iter().chain(UPLOADS).map(|(command, arguments)| (command, arguments)))
        {
            let found = command.split('.').try_fold(&definition, |inner, name| inner.find_subcommand(name));
            let found = found.unwrap_or_else(|| panic!("{command}"));
            for id in *arguments {
                assert!(found.get_arguments().any(|argument| argument.get_id() == *id), "{command}: {id}");
            }
        }
    }
}
