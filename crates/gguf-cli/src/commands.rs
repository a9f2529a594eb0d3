//! The list of subcommands. Adding one is a line here and a file in `cmd/`.

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::cmd;
use crate::failure::Outcome;
use crate::ui::{Ui, safe};

/// Said at the end of every long help.
const EXIT_CODES: &str = "\
Exit codes:
  0  all is well
  1  a file is bad, or what was asked for is not in it
  2  the command is wrong or could not run";

/// Look into, check and make GGUF model files.
#[derive(Debug, Parser)]
#[command(name = "gguf", version, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  gguf show model.gguf                   what a model is, on one screen
  gguf check model.gguf                  everything that is wrong with it
  gguf convert my-model/ -o model.gguf   from a Hugging Face folder
  gguf quantize model.gguf small.gguf Q4_K_M

gguf help COMMAND says more about each command.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    command: Command,
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
    Migrate migrate
    Quantize quantize
    Imatrix imatrix
    Recipe recipe
    Split split
    Merge merge
    Diff diff
    Hash hash
    Card card
    Extract extract
    Cat cat
    Reorder reorder
    Swap swap
    Upgrade upgrade
    RmTensor rm_tensor
    AddTensor add_tensor
    Graft graft
    Set set
    Unset unset
    Rename rename
    Edit edit
    Repair repair
    Estimate estimate
    Completions completions
    Man man
}

/// Reads the command line.
///
/// # Errors
/// What is wrong with it; asking for help is an error too.
pub fn parse() -> Result<Command, clap::Error> {
    let matches = with_exit_codes(Cli::command()).try_get_matches().map_err(with_tip)?;
    Ok(Cli::from_arg_matches(&matches)?.command)
}

/// Words that people try, and the command that they mean.
const MEANT: &[(&str, &str)] = &[
    ("dump", "show"),
    ("info", "show"),
    ("inspect", "show"),
    ("ls", "show"),
    ("list", "show"),
    ("view", "show"),
    ("lint", "check"),
    ("validate", "check"),
    ("verify", "check"),
    ("read", "get"),
    ("quantise", "quantize"),
    ("requantize", "quantize"),
    ("q", "quantize"),
];

/// Adds what was probably meant by something that is no command.
fn with_tip(mut e: clap::Error) -> clap::Error {
    let Some(ContextValue::String(word)) = e.get(ContextKind::InvalidSubcommand) else { return e };
    let known = |name: &str| Cli::command().get_subcommands().any(|command| command.get_name() == name);
    let command = MEANT.iter().find(|(other, name)| other.eq_ignore_ascii_case(word) && known(name));
    let tip = match command {
        Some((_, name)) => format!("that is gguf {name}"),
        None if std::path::Path::new(word).is_dir() => {
            format!("to convert a checkpoint folder: gguf convert {word} -o model.gguf")
        }
        None if std::path::Path::new(word).exists() => format!("to see what a file is: gguf show {word}"),
        None => return e,
    };
    e.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![safe(&tip).into()]));
    e
}

/// The whole command line as data, for completions and man pages.
pub fn definition() -> clap::Command {
    let mut definition = with_exit_codes(Cli::command());
    definition.build();
    definition
}

/// Every long help ends with the examples and the exit codes.
fn with_exit_codes(command: clap::Command) -> clap::Command {
    let examples = command.get_after_help().map_or(String::new(), |examples| format!("{examples}\n\n"));
    command.after_long_help(examples + EXIT_CODES).mut_subcommands(with_exit_codes)
}
