//! `gguf graft`: tensors and keys of one model in another.

use std::path::PathBuf;

use gguf_edit::rewrite::{Graft, graft};

use super::get::matches;
use super::writing::{WritingModel, tensors};
use crate::failure::{Failure, Outcome, Verdict};
use crate::ui::{Ui, grouped};

/// Write a model with tensors and keys of another one.
///
/// Tensors are copied as they are, in their own types. Those that the model has already are replaced at their places with --replace; others
/// come at the end. Keys replace those of the same name. What else has to fit, such as the number of blocks, is not touched: `gguf check`
/// says what does not. Shards become one file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf graft model.gguf out.gguf --from donor.gguf --tensors 'blk.61.*'
  gguf graft model-q4.gguf out.gguf --from model-q8.gguf --tensors output.weight --replace
  gguf graft model.gguf out.gguf --from instruct.gguf --keys 'tokenizer.*'")]
pub struct Args {
    /// The model in GGUF; of a split one, any shard
    input: PathBuf,

    /// The file to write
    out: PathBuf,

    /// The model to take from
    #[arg(long, value_name = "MODEL")]
    from: PathBuf,

    /// Names of tensors to take; * stands for any characters and ? for one
    #[arg(short, long, value_name = "TENSOR", num_args = 1..)]
    tensors: Vec<String>,

    /// Keys to take, in the same way
    #[arg(short, long, value_name = "KEY", num_args = 1..)]
    keys: Vec<String>,

    /// Replace tensors that the model has already
    #[arg(long)]
    replace: bool,

    #[command(flatten)]
    writing: WritingModel,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        super::not_stdout("OUT", &self.out)?;
        if self.tensors.is_empty() && self.keys.is_empty() {
            return Err(Failure::CouldNotRun("give --tensors or --keys to say what is taken".to_owned()));
        }
        let mut what = Graft::default();
        (what.tensors, what.keys, what.replace) = (self.tensors.clone(), self.keys.clone(), self.replace);
        let (plan, taken, n_keys) = graft(&self.input, &self.from, &what, matches)?;
        let keys = match n_keys {
            0 => String::new(),
            1 => " and 1 key".to_owned(),
            n => format!(" and {} keys", grouped(n as u64)),
        };
        let done = format!("{}{keys} taken, written", tensors(taken.len() as u64));
        self.writing.run(ui, plan, &self.out, &done, &[])?;
        Ok(Verdict::Good)
    }
}
