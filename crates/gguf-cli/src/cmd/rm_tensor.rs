//! `gguf rm-tensor`: removes tensors from a model.

use std::path::{Path, PathBuf};

use gguf_edit::rewrite::remove_tensors;

use super::get::matches;
use super::writing::{OutOption, WritingModel, tensors};
use crate::failure::{Outcome, Verdict};
use crate::open;
use crate::ui::Ui;

/// Copy a model without some of its tensors.
///
/// Metadata is not adjusted: run `gguf check` on the result. To remove whole blocks and renumber the rest, use `gguf
/// quantize --prune-layers`. A split model becomes one file.
#[derive(Debug, clap::Args)]
#[command(override_usage = "\
gguf rm-tensor [OPTIONS] <INPUT> <OUT> <TENSOR>...
       gguf rm-tensor [OPTIONS] <INPUT> --output <OUT> <TENSOR>...")]
#[command(after_help = "\
Examples:
  gguf rm-tensor model.gguf out.gguf rope_freqs.weight
  gguf rm-tensor model.gguf out.gguf 'blk.61.*' 'v.*'")]
pub struct Args {
    /// GGUF model; any shard of a split model
    input: PathBuf,

    /// Output file; or use --output
    out: String,

    /// Tensor names; * matches any characters and ? one character
    #[arg(required_unless_present = "output", value_name = "TENSOR")]
    tensors: Vec<String>,

    #[command(flatten)]
    option: OutOption,

    #[command(flatten)]
    writing: WritingModel,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let mut names = self.tensors.clone();
        // With the option, all arguments after the input are names.
        let out = match self.option.path() {
            Some(out) => {
                names.insert(0, self.out.clone());
                out
            }
            None => Path::new(&self.out),
        };
        super::not_stdout("OUT", out)?;
        let (plan, removed) = remove_tensors(open::model(&self.input)?, &names, matches)?;
        let done = format!("{} removed", tensors(removed.len() as u64));
        self.writing.run(ui, plan, out, &done, &[])?;
        Ok(Verdict::Good)
    }
}
