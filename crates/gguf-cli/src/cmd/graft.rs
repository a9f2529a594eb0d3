//! `gguf graft`: copies tensors and keys from one model to another.

use std::path::PathBuf;

use gguf_edit::rewrite::{Graft, graft};

use super::get::matches;
use super::writing::{Out, WritingModel, tensors};
use crate::failure::{Failure, Outcome, Verdict};
use crate::open;
use crate::ui::{Ui, grouped};

/// Copy tensors and keys of another model into a copy of a model.
///
/// Tensors are copied unchanged, in their own types. Existing tensors are replaced in position with --replace; new
/// tensors are appended. Keys replace existing keys of the same name. Related metadata, such as the block count, is not
/// adjusted: run `gguf check` on the result. A split model becomes one file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf graft model.gguf out.gguf --from donor.gguf --tensors 'blk.61.*'
  gguf graft model-q4.gguf out.gguf --from model-q8.gguf --tensors output.weight --replace
  gguf graft model.gguf out.gguf --from instruct.gguf --keys 'tokenizer.*'")]
pub struct Args {
    /// GGUF model; any shard of a split model
    input: PathBuf,

    #[command(flatten)]
    out: Out,

    /// Model to copy from
    #[arg(long, value_name = "MODEL")]
    from: PathBuf,

    /// Names of the tensors to copy; * matches any characters and ? one character
    #[arg(short, long, value_name = "TENSOR", num_args = 1..)]
    tensors: Vec<String>,

    /// Keys to copy, with the same patterns
    #[arg(long, value_name = "KEY", num_args = 1..)]
    keys: Vec<String>,

    /// Replace existing tensors of the same name
    #[arg(long)]
    replace: bool,

    #[command(flatten)]
    writing: WritingModel,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let out = self.out.path()?;
        if self.tensors.is_empty() && self.keys.is_empty() {
            return Err(Failure::CouldNotRun("nothing to copy: pass --tensors or --keys".to_owned()));
        }
        let mut what = Graft::default();
        (what.tensors, what.keys, what.replace) = (self.tensors.clone(), self.keys.clone(), self.replace);
        let (plan, taken, n_keys) = graft(open::model(&self.input)?, open::model(&self.from)?, &what, matches)?;
        let keys = match n_keys {
            0 => String::new(),
            1 => " and 1 key".to_owned(),
            n => format!(" and {} keys", grouped(n as u64)),
        };
        let done = format!("{}{keys} copied", tensors(taken.len() as u64));
        self.writing.run(ui, plan, out, &done, &[])?;
        Ok(Verdict::Good)
    }
}
