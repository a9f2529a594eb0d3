//! `gguf swap`: converts a model to the other byte order.

use std::path::PathBuf;

use gguf_format::ByteOrder;

use super::writing::{Out, WritingModel};
use crate::failure::{Outcome, Verdict};
use crate::open;
use crate::ui::Ui;

/// Convert a model to the other byte order.
///
/// All numbers are swapped, in the head and in the blocks of every tensor type. llama.cpp reads big-endian files on
/// big-endian machines such as IBM Z, and little-endian files on all others. Swapping twice restores the model. A split
/// model becomes one file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf swap model.gguf model-be.gguf
  gguf swap model.gguf model-le.gguf --to little     a little-endian copy of any model")]
pub struct Args {
    /// GGUF model; any shard of a split model
    input: PathBuf,

    #[command(flatten)]
    out: Out,

    /// Byte order of the output; by default, the opposite of the input
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
        let out = self.out.path()?;
        let to = self.to.map(|to| match to {
            To::Little => ByteOrder::Little,
            To::Big => ByteOrder::Big,
        });
        let plan = gguf_edit::rewrite::swap(open::model(&self.input)?, to)?;
        let done = plan.order().to_string();
        self.writing.run(ui, plan, out, &done, &[])?;
        Ok(Verdict::Good)
    }
}
