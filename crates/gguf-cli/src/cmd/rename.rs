//! `gguf rename`: renames keys and tensors.

use std::path::PathBuf;

use gguf_edit::Edit;
use gguf_format::Head;

use crate::cmd::set::{How, pair};
use crate::failure::Outcome;
use crate::ui::Ui;

/// Rename metadata keys and tensors in place.
///
/// Each name is looked up among the keys and the tensors. Values and data stay unchanged, in position. For in-place
/// editing, see `gguf help set`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf rename model.gguf general.nmae=general.name
  gguf rename model.gguf model.norm.weight=output_norm.weight --dry-run")]
pub struct Args {
    /// GGUF file; the shard that contains the names
    file: PathBuf,

    /// Old and new name
    #[arg(required = true, value_name = "OLD=NEW", value_parser = pair)]
    names: Vec<(String, String)>,

    /// Rename keys only
    #[arg(long, conflicts_with = "tensors")]
    keys: bool,

    /// Rename tensors only
    #[arg(long)]
    tensors: bool,

    #[command(flatten)]
    how: How,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let opened = self.how.open(ui, &self.file)?;
        let mut head = Head::from_gguf(opened.gguf());
        let mut edits = Vec::new();
        for (from, to) in &self.names {
            let (from, to) = (from.clone(), to.clone());
            let edit = match (self.keys, self.tensors) {
                (true, _) => Edit::RenameKey { from, to },
                (_, true) => Edit::RenameTensor { from, to },
                _ => gguf_edit::rename(&head, &from, &to).map_err(|e| e.at(&self.file))?,
            };
            // Apply each edit at once, because it may free a name for a later one.
            gguf_edit::apply(&mut head, std::slice::from_ref(&edit)).map_err(|e| e.at(&self.file))?;
            edits.push(edit);
        }
        drop(head);
        self.how.run(ui, opened, &edits, None)
    }
}
