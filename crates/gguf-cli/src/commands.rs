//! The list of subcommands. Adding one is a line here and a file in `cmd/`.

use clap::{CommandFactory, Parser, Subcommand};

use crate::cmd;
use crate::failure::Outcome;
use crate::ui::Ui;

/// Said at the end of every long help.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  all is well
  1  a file is bad, or what was asked for is not in it
  2  the command is wrong or could not run";

/// Look into, check and make GGUF model files.
#[derive(Debug, Parser)]
#[command(name = "gguf", version, propagate_version = true, arg_required_else_help = true, after_long_help = EXIT_CODES)]
#[command(after_help = "\
Examples:
  gguf show model.gguf                   what a model is, on one screen
  gguf check model.gguf                  everything that is wrong with it
  gguf convert my-model/ -o model.gguf   from a Hugging Face folder

gguf help COMMAND says more about each command.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

macro_rules! commands {
    ($($variant:ident $module:ident)*) => {
        /// Everything the program can do.
        #[derive(Debug, Subcommand)]
        #[allow(missing_docs, reason = "the help texts stand at the arguments of each command")]
        pub enum Command {
            $($variant(cmd::$module::Args),)*
        }

        impl Command {
            /// Does it.
            pub fn run(&self, ui: &mut Ui) -> Outcome {
                match self {
                    $(Command::$variant(args) => args.run(ui),)*
                }
            }
        }
    };
}

commands! {
    Show show
    Check check
    Get get
    Name name
    Convert convert
    Completions completions
    Man man
}

/// The whole command line as data, for completions and man pages.
pub fn definition() -> clap::Command {
    let mut definition = Cli::command();
    definition.build();
    definition
}
