//! `gguf man`: manual pages, made from the same definitions as the help.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use clap_mangen::Man;
use gguf_io::{Output, commit_all};

use crate::commands::definition;
use crate::failure::{Failure, Outcome, Verdict};
use crate::ui::Ui;

/// Print the manual page, or write the manual pages of all commands to a folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf man | man -l -
  gguf man ~/.local/share/man/man1")]
pub struct Args {
    /// Folder for gguf.1, gguf-show.1 and so on; created if missing
    dir: Option<PathBuf>,

    /// Overwrite existing pages
    #[arg(short, long, requires = "dir")]
    force: bool,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let definition = definition();
        let Some(dir) = &self.dir else {
            ui.out.write_all(&page(&definition)?)?;
            return Ok(Verdict::Good);
        };
        fs::create_dir_all(dir)
            .map_err(|e| Failure::CouldNotRun(format!("{}: cannot create the folder: {e}", dir.display())))?;
        let mut outputs = Vec::new();
        for command in with_subcommands(&definition) {
            // The display name of a subcommand, such as `gguf-show`, is also the name of its page.
            let name = command.get_display_name().unwrap_or(command.get_name());
            let path = dir.join(format!("{name}.1"));
            let output = Output::create(&path, self.force)?;
            output.write_at(0, &page(command)?)?;
            outputs.push(output);
        }
        let paths: Vec<PathBuf> = outputs.iter().map(|output| output.path().to_owned()).collect();
        commit_all(outputs, &mut |_| ())?;
        for path in paths {
            ui.print_path(&path)?;
        }
        Ok(Verdict::Good)
    }
}

/// A command and all commands below it.
fn with_subcommands(command: &clap::Command) -> Vec<&clap::Command> {
    let below = command.get_subcommands().filter(|c| c.get_name() != "help").flat_map(with_subcommands);
    std::iter::once(command).chain(below).collect()
}

fn page(command: &clap::Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}
