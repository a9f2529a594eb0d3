//! `gguf rm-tensor`: a model without some of its tensors.

use std::path::PathBuf;

use gguf_edit::rewrite::remove_tensors;

use super::get::matches;
use super::writing::{WritingModel, tensors};
use crate::failure::{Outcome, Verdict};
use crate::ui::Ui;

/// Write a model without some of its tensors.
///
/// Metadata stays as it is: `gguf check` says what the architecture then lacks. To leave out whole blocks, `gguf quantize --prune-layers` also
/// numbers the rest anew. Shards become one file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf rm-tensor model.gguf out.gguf rope_freqs.weight
  gguf rm-tensor model.gguf out.gguf 'blk.61.*' 'v.*'")]
pub struct Args {
    /// The model in GGUF; of a split one, any shard
    input: PathBuf,

    /// The file to write
    out: PathBuf,

    /// Names of tensors; * stands for any characters and ? for one
    #[arg(required = true, value_name = "TENSOR")]
    tensors: Vec<String>,

    #[command(flatten)]
    writing: WritingModel,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        super::not_stdout("OUT", &self.out)?;
        let (plan, removed) = remove_tensors(&self.input, &self.tensors, matches)?;
        let done = format!("{} left out, written", tensors(removed.len() as u64));
        self.writing.run(ui, plan, &self.out, &done, &[])?;
        Ok(Verdict::Good)
    }
}
