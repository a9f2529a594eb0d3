//! `gguf swap`: a model in the other byte order.

use std::path::PathBuf;

use gguf_format::ByteOrder;

use super::writing::WritingModel;
use crate::failure::{Outcome, Verdict};
use crate::ui::Ui;

/// Write a model in the other byte order.
///
/// All numbers change: those of the head and those in the blocks of every type of tensor. Machines such as IBM Z read big-endian files; all
/// others that run llama.cpp read little-endian ones. Twice gives the same model. Shards become one file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf swap model.gguf model-be.gguf
  gguf swap model.gguf model-le.gguf --to little     whatever it is, a little-endian copy")]
pub struct Args {
    /// The model in GGUF; of a split one, any shard
    input: PathBuf,

    /// The file to write
    out: PathBuf,

    /// The byte order to write, in place of the one that the model does not have
    #[arg(long, value_name = "ORDER", value_enum)]
    to: Option<To>,

    #[command(flatten)]
    writing: WritingModel,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum To {
    Little,
    Big,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        super::not_stdout("OUT", &self.out)?;
        let to = self.to.map(|to| match to {
            To::Little => ByteOrder::Little,
            To::Big => ByteOrder::Big,
        });
        let plan = gguf_edit::rewrite::swap(&self.input, to)?;
        let done = plan.order().to_string();
        self.writing.run(ui, plan, &self.out, &done, &[])?;
        Ok(Verdict::Good)
    }
}
