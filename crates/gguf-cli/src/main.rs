//! `gguf`: the command line of the toolkit.
//!
//! A surface and nothing more: options in, calls into the libraries, text out. [`commands`] is the list of subcommands,
//! each a file in `cmd/`; [`ui`] is everything about the terminal; [`json`] is how metadata looks in JSON.
//!
//! Standard output is data, standard error is talk. The exit code is 0 when all is well, 1 when a file is bad, and 2 when
//! the command is wrong or could not run.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use failure::{Failure, Verdict};

mod cmd;
mod commands;
mod failure;
mod findings;
mod hints;
mod inputs;
mod json;
mod ollama;
mod stdin;
mod text;
mod ui;
mod watch;

fn main() -> ExitCode {
    watch::catch_file_size_signal();
    let request = match commands::parse() {
        Ok(request) => request,
        Err(e) if e.use_stderr() => {
            // Whatever goes wrong is said in the program's name. There is nowhere to complain when that fails.
            if e.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
                let _ = write!(io::stderr(), "gguf: ");
            }
            let _ = e.print();
            return Verdict::CouldNotRun.into();
        }
        Err(help) => {
            return match help.print().and_then(|()| io::stdout().flush()).map_err(Failure::from) {
                Ok(()) => Verdict::Good.into(),
                Err(failure) => {
                    ui::Ui::new().error(&failure);
                    failure.verdict().into()
                }
            };
        }
    };
    let mut ui = ui::Ui::new();
    ui.schema.clone_from(&request.schema);
    let result =
        request.command(&mut ui).and_then(|command| command.run(&mut ui)).and_then(|verdict| match ui.flush() {
            // The verdict stands, whether or not anybody reads to the end.
            Ok(()) | Err(Failure::PipeClosed) => Ok(verdict),
            Err(failure) => Err(failure),
        });
    match result {
        Ok(verdict) => verdict.into(),
        Err(failure) => {
            ui.error(&failure);
            // The exit code tells, whether or not anybody reads this.
            let _ = json::print_failure(&mut ui, &failure);
            let _ = ui.flush();
            watch::end_by_signal();
            failure.verdict().into()
        }
    }
}
