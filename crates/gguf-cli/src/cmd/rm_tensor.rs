//! `gguf rm-tensor`: removes tensors from a model.

use std::path::PathBuf;

use gguf_edit::rewrite::remove_tensors;

use super::get::matches;
use super::writing::{WritingModel, tensors};
use crate::failure::{Outcome, Verdict};
use crate::open;
use crate::ui::Ui;

/// Copy a model without some of its tensors.
///
/// Metadata is not adjusted: run `gguf check` on the result. To remove whole blocks and renumber the rest, use `gguf
/// quantize --prune-layers`. A split model becomes one file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf rm-tensor model.gguf out.gguf rope_freqs.weight
  gguf rm-tensor model.gguf out.gguf 'blk.61.*' 'v.*'")]
pub struct Args {
    /// GGUF model; any shard of a split model
    input: PathBuf,

    /// Output file
    out: PathBuf,

    /// Tensor names; * matches any characters and ? one character
    #[arg(required = true, value_name = "TENSOR")]
    tensors: Vec<String>,

    #[command(flatten)]
    writing: WritingModel,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        super::not_stdout("OUT", &self.out)?;
        let (plan, removed) = remove_tensors(open::model(&self.input)?, &self.tensors, matches)?;
        let done = format!("{} removed", tensors(removed.len() as u64));
        self.writing.run(ui, plan, &self.out, &done, &[])?;
        Ok(Verdict::Good)
    }
}
