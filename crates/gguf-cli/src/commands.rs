//! The list of subcommands. A new subcommand needs a line here and a file in `cmd/`.

use std::ffi::OsString;

use clap::builder::{PathBufValueParser, StyledStr, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::cmd;
use crate::failure::{Failure, Outcome};
use crate::inputs::{self, Replaced};
use crate::open;
use crate::ui::{Ui, safe};

/// The text that ends every long help.
const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    bad content: a file is invalid or truncated, models differ, or a requested item is missing
  2    wrong usage, or a failure: a file does not exist, or cannot be read or written
  75   only of gguf part and gguf commit: not done, and trying again may help
  130  interrupted (Ctrl-C); 143 on a termination signal";

/// Inspect, validate, convert and quantize GGUF model files.
#[derive(Debug, Parser)]
#[command(name = "gguf", bin_name = "gguf", version, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  gguf show model.gguf                         print a summary of a model
  gguf check model.gguf                        report every problem of a file
  gguf convert my-model/ -o model.gguf         convert a Hugging Face checkpoint
  gguf quantize model.gguf small.gguf Q4_K_M   quantize a model

Run gguf help COMMAND for the details of a command, and gguf help TOPIC for a topic:
  types         file types and tensor types
  json          format of the JSON output
  exit-codes    meaning of the exit codes
  environment   environment variables")]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    command: Command,

    /// Report each request for a URL, and what the requests have transferred
    #[arg(long, global = true)]
    verbose: bool,
}

macro_rules! commands {
    ($($(#[$meta:meta])* $variant:ident $module:ident)*) => {
        /// The subcommands.
        #[derive(Debug, Subcommand)]
        #[allow(missing_docs, reason = "the help texts stand at the arguments of each command")]
        pub enum Command {
            $($(#[$meta])* $variant(cmd::$module::Args),)*
        }

        impl Command {
            /// Runs the command.
            pub fn run(&self, ui: &mut Ui) -> Outcome {
                match self {
                    $($(#[$meta])* Command::$variant(args) => args.run(ui),)*
                }
            }
        }
    };
}

commands! {
    Show show
    #[cfg(feature = "view")] View view
    Check check
    Get get
    Name name
    Convert convert
    Export export
    Migrate migrate
    Quantize quantize
    Part part
    Commit commit
    Imatrix imatrix
    Lora lora
    Recipe recipe
    Split split
    Merge merge
    Diff diff
    Verify verify
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
    #[cfg(feature = "engine")] Engine engine
    #[cfg(feature = "engine")] Perplexity perplexity
    #[cfg(feature = "engine")] Kld kld
    #[cfg(feature = "engine")] Run run
    #[cfg(feature = "engine")] Sensitivity sensitivity
    Completions completions
    Man man
}

/// A parsed command line.
pub struct Request {
    matches: ArgMatches,
    /// The JSON schema of the answer, if JSON is requested.
    pub schema: Option<String>,
}

/// Parses the command line.
///
/// # Errors
/// If the arguments are invalid. clap also returns requests for help as errors.
pub fn parse() -> Result<Request, clap::Error> {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    let short = match args.get(1).and_then(|command| command.to_str()) {
        Some("estimate") => cmd::estimate::SHORT,
        #[cfg(feature = "engine")]
        Some("perplexity" | "kld" | "sensitivity" | "imatrix") => cmd::evaluation::SHORT,
        _ => &[],
    };
    for arg in &mut args {
        if let Some((_, long)) = short.iter().find(|(short, _)| arg == short) {
            *arg = long.into();
        }
    }
    let matches = with_exit_codes(Cli::command()).try_get_matches_from(args).map_err(with_tip)?;
    let (name, inner) = leaf(&matches);
    let json = inner.try_get_one::<bool>("json");
    let schema = matches!(json, Ok(Some(true))).then(|| schema_of(&name));
    Ok(Request { schema, matches })
}

/// The name and version of the JSON schema of a command, such as `gguf.imatrix.show/1`. The version changes if a member is removed or
/// changes its meaning.
fn schema_of(command: &str) -> String {
    format!("gguf.{command}/1")
}

/// The full name of the subcommand, such as `imatrix.show`, and its arguments.
fn leaf(matches: &ArgMatches) -> (String, &ArgMatches) {
    let (mut name, mut inner) = (String::new(), matches);
    while let Some((command, arguments)) = inner.subcommand() {
        name = if name.is_empty() { command.to_owned() } else { format!("{name}.{command}") };
        inner = arguments;
    }
    (name, inner)
}

impl Request {
    /// Returns the command, with names of models in Ollama's store replaced by paths.
    ///
    /// # Errors
    /// If the model does not exist, or its file does not match the manifest.
    pub fn command(self, ui: &mut Ui) -> Result<Command, Failure> {
        let (name, arguments) = leaf(&self.matches);
        open::set_verbose(arguments.get_flag("verbose"));
        let replaced = inputs::resolve(ui, &name, arguments)?;
        let matches = match replaced.paths.is_empty() {
            true => self.matches,
            false => {
                let names: Vec<&str> = name.split('.').collect();
                with_replaced(Cli::command(), &names, &replaced).get_matches()
            }
        };
        let cli = Cli::from_arg_matches(&matches);
        Ok(cli.map_err(|e| Failure::CouldNotRun(e.to_string()))?.command)
    }
}

/// The definition of the command line, with a value parser that replaces paths.
fn with_replaced(command: clap::Command, names: &[&str], replaced: &Replaced) -> clap::Command {
    match names {
        [name, inner @ ..] => command.mut_subcommand(name, |command| with_replaced(command, inner, replaced)),
        // Modify the arguments in place, because positional arguments depend on their order.
        [] => command.mut_args(|argument| {
            if !replaced.arguments.iter().any(|id| argument.get_id() == id) {
                return argument;
            }
            let paths = replaced.paths.clone();
            let parser = PathBufValueParser::new().map(move |path| paths.get(&path).cloned().unwrap_or(path));
            argument.value_parser(parser)
        }),
    }
}

/// Common names of commands, and the corresponding commands of this program.
const MEANT: &[(&str, &str)] = &[
    ("dump", "show"),
    ("info", "show"),
    ("inspect", "show"),
    ("ls", "show"),
    ("list", "show"),
    ("view", "show"),
    ("lint", "check"),
    ("validate", "check"),
    ("read", "get"),
    ("quantise", "quantize"),
    ("requantize", "quantize"),
    ("q", "quantize"),
];

/// Letters of llama.cpp's tools that have no such meaning here, and what to use instead.
const MEANT_OPTIONS: &[(&str, &str)] = &[
    ("-m", "the model is an argument without an option"),
    ("-n", "the number of tokens is --tokens"),
    ("-t", "the number of threads is --threads, or -j"),
];

/// Adds a suggestion to the error about an unknown command.
fn with_tip(mut e: clap::Error) -> clap::Error {
    if let (clap::error::ErrorKind::UnknownArgument, Some(ContextValue::String(option))) =
        (e.kind(), e.get(ContextKind::InvalidArg))
        && let Some((_, tip)) = MEANT_OPTIONS.iter().find(|(letter, _)| letter == option)
    {
        let tip: StyledStr = (*tip).into();
        e.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
        return e;
    }
    let Some(ContextValue::String(word)) = e.get(ContextKind::InvalidSubcommand) else { return e };
    let known = |name: &str| Cli::command().get_subcommands().any(|command| command.get_name() == name);
    let command = MEANT.iter().find(|(other, name)| other.eq_ignore_ascii_case(word) && known(name));
    let tip = match command {
        Some((_, name)) => format!("the command is gguf {name}"),
        None if std::path::Path::new(word).is_dir() => {
            format!("to convert a checkpoint folder: gguf convert {word} -o model.gguf")
        }
        None if std::path::Path::new(word).exists() => format!("to see what a file is: gguf show {word}"),
        None => return e,
    };
    e.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![safe(&tip).into()]));
    // One suggestion is enough.
    e.remove(ContextKind::SuggestedSubcommand);
    e
}

/// The definition of the command line, for completions and man pages.
pub fn definition() -> clap::Command {
    let mut definition = with_exit_codes(Cli::command());
    definition.build();
    definition
}

/// Adds the examples and the exit codes to the end of every long help.
fn with_exit_codes(command: clap::Command) -> clap::Command {
    let examples = command.get_after_help().map_or(String::new(), |examples| format!("{examples}\n\n"));
    command.after_long_help(examples + EXIT_CODES).mut_subcommands(with_exit_codes)
}
