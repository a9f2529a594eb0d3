//! `gguf reorder`: changes the order of the tensors of a model.

use std::path::PathBuf;

use gguf_edit::rewrite::{Order, names, reorder};

use super::writing::{Out, WritingModel};
use crate::failure::{Outcome, Verdict};
use crate::open;
use crate::ui::Ui;

/// Copy a model with its tensors in another order.
///
/// Readers find tensors by name, so only the position of the data changes: tensors that are read together can be stored
/// together, and files from different tools become comparable byte for byte. A split model becomes one file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf reorder model.gguf ordered.gguf                      by block
  gguf reorder model.gguf ordered.gguf --like other.gguf
  gguf reorder model.gguf ordered.gguf --by size            largest first")]
pub struct Args {
    /// GGUF model; any shard of a split model
    input: PathBuf,

    #[command(flatten)]
    out: Out,

    /// Order of the tensors
    #[arg(long, value_name = "ORDER", value_enum, default_value = "layer", conflicts_with = "like")]
    by: By,

    /// Use the order of this model; tensors missing from it come last
    #[arg(long, value_name = "MODEL")]
    like: Option<PathBuf>,

    #[command(flatten)]
    writing: WritingModel,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum By {
    /// Embeddings, then blocks in order, then the output
    Layer,
    /// Name, with numbers compared by value
    Name,
    /// Size, largest first
    Size,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let out = self.out.path()?;
        let order = match (&self.like, self.by) {
            (Some(model), _) => Order::Like(names(open::model(model)?)?),
            (None, By::Layer) => Order::Layers,
            (None, By::Name) => Order::Names,
            (None, By::Size) => Order::Sizes,
        };
        let plan = reorder(open::model(&self.input)?, &order)?;
        let protect: Vec<PathBuf> = self.like.iter().cloned().collect();
        self.writing.run(ui, plan, out, "reordered", &protect)?;
        Ok(Verdict::Good)
    }
}
