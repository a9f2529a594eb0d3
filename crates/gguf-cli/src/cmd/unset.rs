//! `gguf unset`: removes metadata keys.

use std::path::PathBuf;

use gguf_edit::Edit;

use crate::cmd::get::matches;
use crate::cmd::set::{Backup, How};
use crate::failure::{Failure, Outcome};
use crate::ui::Ui;

/// Remove metadata keys in place.
///
/// The space of the removed keys is reserved for later edits, so no data moves. If a key is missing, nothing is
/// changed. For in-place editing, see `gguf help set`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf unset model.gguf tokenizer.chat_template
  gguf unset model.gguf 'general.base_model.*' --dry-run
  gguf unset model.gguf quantize.imatrix.file --output copy.gguf")]
pub struct Args {
    /// GGUF file; the first shard of a split model
    file: PathBuf,

    /// Keys to remove; * matches any characters and ? one character
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,

    #[command(flatten)]
    backup: Backup,

    #[command(flatten)]
    how: How,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let opened = self.how.open(ui, &self.file)?;
        let mut keys: Vec<String> = Vec::new();
        for key in &self.keys {
            if !key.contains(['*', '?']) {
                keys.push(key.clone());
                continue;
            }
            let before = keys.len();
            let found = opened.gguf().kvs().filter(|kv| matches(key, kv.key) && kv.key != gguf_edit::PAD_KEY);
            keys.extend(found.map(|kv| kv.key.to_string()));
            if keys.len() == before {
                let path = self.file.display();
                return Err(Failure::Bad(format!("{path}: no key matches {key}; `gguf show --kv` lists all keys")));
            }
        }
        let mut seen = std::collections::HashSet::new();
        keys.retain(|key| seen.insert(key.clone()));
        let edits: Vec<Edit> = keys.into_iter().map(|key| Edit::Unset { key }).collect();
        self.how.run(ui, opened, &edits, Some(&self.backup))
    }
}
