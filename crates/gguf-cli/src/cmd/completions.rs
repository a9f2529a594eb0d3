//! `gguf completions`: shell completion scripts.

use clap_complete::{Shell, generate};

use crate::commands::definition;
use crate::failure::{Outcome, Verdict};
use crate::ui::Ui;

/// Print a shell completion script.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf completions bash > ~/.local/share/bash-completion/completions/gguf
  gguf completions zsh > ~/.zfunc/_gguf
  gguf completions fish > ~/.config/fish/completions/gguf.fish")]
pub struct Args {
    /// Shell
    shell: Shell,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        // The generator panics if its output is closed early, so it writes to memory first.
        let mut script = Vec::new();
        generate(self.shell, &mut definition(), "gguf", &mut script);
        std::io::Write::write_all(&mut ui.out, &script)?;
        Ok(Verdict::Good)
    }
}
