//! `gguf engine`: the library that evaluates models. This program is also the process that runs the library, under a name that is not listed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gguf_engine::Engine as _;
use serde_json::json;

use super::evaluation::Library;
use crate::failure::{Outcome, Verdict};
use crate::json;
use crate::ui::{Style, Ui, shown_path};
use crate::watch::Watch;

/// The word that makes this program the process of the library.
pub const SERVE: &str = "serve-engine";

/// Show the library that evaluates models: its path, its version and its devices.
///
/// gguf perplexity, kld, run, sensitivity and imatrix compute use the installed libllama. The program searches the folder of
/// --llama or GGUF_LLAMA; without one, the library path of the system, then the usual folders of package
/// managers. It runs in a process of its own, which cannot open connections or write to files where the system allows
/// such restrictions.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf engine
  gguf engine --llama ~/llama.cpp/build/bin
  GGUF_LLAMA=/opt/llama.cpp/lib gguf engine --json")]
pub struct Args {
    #[command(flatten)]
    library: Library,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let engine = self.library.start(&Watch::new(true))?;
        let about = engine.about();
        if self.json {
            let devices: Vec<_> =
                about.devices.iter().map(|(name, text)| json!({ "name": name, "description": text })).collect();
            let document = json!({
                "name": about.name,
                "version": about.version,
                "path": json::path(&about.path),
                "devices": devices,
                "denied": about.denied,
            });
            json::print(ui, 2, &document)?;
            return Ok(Verdict::Good);
        }
        ui.field("  Library  ", Style::Dim, &about.name)?;
        ui.field("  Version  ", Style::Dim, about.version.as_deref().unwrap_or("unknown"))?;
        ui.field("  Path     ", Style::Dim, &shown_path(&about.path))?;
        for (name, description) in &about.devices {
            let text = if description.is_empty() { name.clone() } else { format!("{name}, {}", description.trim()) };
            ui.field("  Device   ", Style::Dim, &text)?;
        }
        let denied = match about.denied.is_empty() {
            true => "nothing on this system".to_owned(),
            false => about.denied.join(", "),
        };
        ui.field("  Denied   ", Style::Dim, &denied)?;
        Ok(Verdict::Good)
    }
}

/// Whether this process is started for the library, and its folder.
pub fn served(mut args: impl Iterator<Item = OsString>) -> Option<Option<PathBuf>> {
    (args.nth(1)? == SERVE).then(|| args.next().map(PathBuf::from))
}

/// Is the process of the library.
pub fn serve(folder: Option<&Path>) -> ExitCode {
    match gguf_engine::serve(folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
