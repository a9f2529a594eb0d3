//! `gguf`: the command line of the toolkit.
//!
//! This crate parses options, calls the libraries, and prints the results. [`commands`] is the list of subcommands,
//! each a file in `cmd/`; [`ui`] handles the terminal; [`json`] represents metadata in JSON.
//!
//! Results go to standard output; progress, warnings and errors go to standard error. The exit code is 0 for success, 1 for an invalid
//! file or a missing item, and 2 for wrong usage or a failure.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::too_many_lines, clippy::unwrap_used)
)]

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
mod jinja;
mod json;
mod library_errors;
mod ollama;
mod open;
mod stdin;
mod text;
mod topics;
mod ui;
mod watch;

fn main() -> ExitCode {
    watch::catch_file_size_signal();
    if let Some(text) = topics::requested(std::env::args_os()) {
        return printed(io::stdout().write_all(text.as_bytes()));
    }
    #[cfg(feature = "engine")]
    if let Some(folder) = cmd::engine::served(std::env::args_os()) {
        return cmd::engine::serve(folder.as_deref());
    }
    let request = match commands::parse() {
        Ok(request) => request,
        Err(e) if e.use_stderr() => {
            // A failure to write to standard error cannot be reported.
            if e.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
                let _ = write!(io::stderr(), "gguf: ");
            }
            let _ = e.print();
            return Verdict::CouldNotRun.into();
        }
        Err(help) => return printed(help.print()),
    };
    let mut ui = ui::Ui::new();
    ui.schema.clone_from(&request.schema);
    let result =
        request.command(&mut ui).and_then(|command| command.run(&mut ui)).and_then(|verdict| match ui.flush() {
            // A closed pipe does not change the verdict.
            Ok(()) | Err(Failure::PipeClosed) => Ok(verdict),
            Err(failure) => Err(failure),
        });
    if let Some(summary) = open::summary() {
        ui.note(&summary);
    }
    match result {
        Ok(verdict) => verdict.into(),
        Err(failure) => {
            ui.error(&failure);
            // The exit code is the same whether or not this is read.
            let _ = json::print_failure(&mut ui, &failure);
            let _ = ui.flush();
            watch::end_by_signal();
            failure.verdict().into()
        }
    }
}

/// The exit code after printing a text.
fn printed(result: io::Result<()>) -> ExitCode {
    match result.and_then(|()| io::stdout().flush()).map_err(Failure::from) {
        Ok(()) => Verdict::Good.into(),
        Err(failure) => {
            ui::Ui::new().error(&failure);
            failure.verdict().into()
        }
    }
}
