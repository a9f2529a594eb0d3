//! `gguf imatrix`: computes, inspects, validates, merges and converts importance matrices.

use crate::failure::Outcome;
use crate::ui::Ui;

mod check;
mod combine;
#[cfg(feature = "engine")]
mod compute;
mod show;

/// Compute, inspect, validate, merge and convert importance matrices.
///
/// An importance matrix weights the quantization error of each column of a model's weights by its importance, as
/// measured on a text by this program or llama-imatrix. Both formats, GGUF and the older .dat, are accepted and detected by content.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf imatrix compute model.gguf text.txt -o imatrix.gguf
  gguf imatrix show imatrix.gguf
  gguf imatrix check imatrix.gguf model.gguf IQ3_XXS   check that it covers the model
  gguf imatrix merge one.gguf two.gguf -o both.gguf
  gguf imatrix convert imatrix.dat imatrix.gguf")]
pub struct Args {
    /// What to do with matrices.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    #[cfg(feature = "engine")]
    Compute(compute::Args),
    Show(show::Args),
    Check(check::Args),
    Merge(combine::MergeArgs),
    Convert(combine::ConvertArgs),
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        match &self.command {
            #[cfg(feature = "engine")]
            Command::Compute(args) => args.run(ui),
            Command::Show(args) => args.run(ui),
            Command::Check(args) => args.run(ui),
            Command::Merge(args) => args.run(ui),
            Command::Convert(args) => args.run(ui),
        }
    }
}
