//! `gguf lora`: applies LoRA adapters to models.

use crate::failure::Outcome;
use crate::ui::Ui;

mod merge;

/// Merge LoRA adapters into a model.
///
/// An adapter in the format of PEFT is converted to GGUF by `gguf convert`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf lora merge model.gguf my-lora.gguf -o merged.gguf
  gguf lora merge my-model/ my-lora/ -o merged.gguf --type Q4_K_M")]
pub struct Args {
    /// What to do with adapters.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Merge(merge::Args),
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        match &self.command {
            Command::Merge(args) => args.run(ui),
        }
    }
}
