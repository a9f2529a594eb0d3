//! `gguf upgrade`: a model in version 3 of the format.

use std::path::PathBuf;

use gguf_format::Version;

use super::writing::WritingModel;
use crate::failure::{Outcome, Verdict};
use crate::ui::Ui;

/// Write a model in version 3 of the format.
///
/// Reads versions 1 and 2 and the draft of version 1. llama.cpp reads versions 2 and 3. Metadata, tensors and the byte order stay; shards
/// become one file. Files from before GGUF, and types of tensors that ggml has removed, are another matter.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf upgrade old.gguf model.gguf
  gguf upgrade old.gguf model.gguf --force     in place of a file that is there already")]
pub struct Args {
    /// The model in GGUF
    input: PathBuf,

    /// The file to write
    out: PathBuf,

    #[command(flatten)]
    writing: WritingModel,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        super::not_stdout("OUT", &self.out)?;
        let (plan, version) = gguf_edit::rewrite::upgrade(&self.input)?;
        let done = match version {
            Version::V3 => "version 3 already, copied".to_owned(),
            version => format!("version {version} to 3"),
        };
        self.writing.run(ui, plan, &self.out, &done, &[])?;
        Ok(Verdict::Good)
    }
}
