//! `gguf upgrade`: converts a model to version 3 of the format.

use std::path::PathBuf;

use gguf_format::Version;

use super::writing::{Out, WritingModel};
use crate::failure::{Outcome, Verdict};
use crate::open;
use crate::ui::Ui;

/// Convert older GGUF versions to version 3.
///
/// Reads versions 1 and 2 and the draft of version 1; llama.cpp reads versions 2 and 3. Metadata, tensors and byte
/// order stay the same. A split model becomes one file. For files older than GGUF, and for tensor types that ggml has
/// removed, use `gguf migrate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf upgrade old.gguf model.gguf
  gguf upgrade old.gguf model.gguf --force     overwrite an existing file")]
pub struct Args {
    /// GGUF model
    input: PathBuf,

    #[command(flatten)]
    out: Out,

    #[command(flatten)]
    writing: WritingModel,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let out = self.out.path()?;
        let (plan, version) = gguf_edit::rewrite::upgrade(open::model(&self.input)?)?;
        let done = match version {
            Version::V3 => "version 3 already, copied".to_owned(),
            version => format!("version {version} to 3"),
        };
        self.writing.run(ui, plan, out, &done, &[])?;
        Ok(Verdict::Good)
    }
}
