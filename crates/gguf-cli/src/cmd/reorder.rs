//! `gguf reorder`: the tensors of a model in another order.

use std::path::PathBuf;

use gguf_edit::rewrite::{Order, names, reorder};

use super::writing::WritingModel;
use crate::failure::{Outcome, Verdict};
use crate::ui::Ui;

/// Write the tensors of a model in another order.
///
/// Readers find tensors by name, so the order changes nothing but where the data lies: what is read together can stand together, and files
/// that come from different tools become comparable byte for byte. Shards become one file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf reorder model.gguf ordered.gguf                      block after block
  gguf reorder model.gguf ordered.gguf --like other.gguf
  gguf reorder model.gguf ordered.gguf --by size            the largest first")]
pub struct Args {
    /// The model in GGUF; of a split one, any shard
    input: PathBuf,

    /// The file to write
    out: PathBuf,

    /// The order
    #[arg(long, value_name = "ORDER", value_enum, default_value = "layer", conflicts_with = "like")]
    by: By,

    /// The order of the tensors in this model; those that it does not have come last
    #[arg(long, value_name = "MODEL")]
    like: Option<PathBuf>,

    #[command(flatten)]
    writing: WritingModel,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum By {
    /// Embeddings and the like, block after block, then the output
    Layer,
    /// By name; numbers in names count as numbers
    Name,
    /// The largest first
    Size,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        super::not_stdout("OUT", &self.out)?;
        let order = match (&self.like, self.by) {
            (Some(model), _) => Order::Like(names(model)?),
            (None, By::Layer) => Order::Layers,
            (None, By::Name) => Order::Names,
            (None, By::Size) => Order::Sizes,
        };
        let plan = reorder(&self.input, &order)?;
        let protect: Vec<PathBuf> = self.like.iter().cloned().collect();
        self.writing.run(ui, plan, &self.out, "reordered", &protect)?;
        Ok(Verdict::Good)
    }
}
