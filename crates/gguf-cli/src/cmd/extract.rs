//! `gguf extract`: writes tensors to NumPy and safetensors files.

use std::path::PathBuf;

use gguf_edit::extract::{Format, Values, extract};

use super::float_type::FloatType;
use super::get::matches;
use super::writing::{Writing, print_written};
use crate::failure::{Failure, Outcome, Verdict};
use crate::open;
use crate::ui::Ui;
use crate::watch::Watch;

/// Extract tensors to a NumPy or safetensors file.
///
/// OUT must end in .npy for one tensor or in .safetensors for any number of tensors. Values keep their type if the
/// format supports it; quantized values, and bfloat16 in .npy, are decoded to single precision with the same bits as in
/// ggml. Dimensions are reversed: a tensor of 4096 x 32000 becomes an array of 32000 rows and 4096 columns.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf extract model.gguf token_embd.weight -o embeddings.npy
  gguf extract model.gguf 'blk.0.*' -o block.safetensors
  gguf extract model-q4.gguf '*' -o model.safetensors --type bf16")]
pub struct Args {
    /// GGUF model; any shard of a split model
    model: PathBuf,

    /// Tensor names; * matches any characters and ? one character
    #[arg(required = true, value_name = "TENSOR")]
    tensors: Vec<String>,

    /// Output file
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    /// Convert all values to this type
    #[arg(long = "type", value_name = "TYPE", value_enum)]
    ty: Option<FloatType>,

    #[command(flatten)]
    writing: Writing,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        super::not_stdout("-o", &self.output)?;
        let extension = self.output.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        let format = match extension.as_str() {
            "npy" => Format::Npy,
            "safetensors" => Format::Safetensors,
            _ => {
                let problem = "unknown output format; use the extension .npy or .safetensors";
                return Err(Failure::CouldNotRun(format!("{}: {problem}", self.output.display())));
            }
        };
        let values = match self.ty {
            None => Values::AsStored,
            Some(ty) => Values::As(ty.ggml()),
        };
        let extraction = extract(open::model(&self.model)?, &self.tensors, matches, format, values)?;
        let watch = Watch::new(self.writing.quiet);
        let result = extraction.run(&self.output, self.writing.force, self.writing.threads, &watch);
        watch.clear();
        result?;
        self.writing.say(ui, &watch, extraction.tensors().len() as u64, extraction.file_bytes(), "extracted");
        print_written(ui, std::slice::from_ref(&self.output), self.writing.hashing())?;
        Ok(Verdict::Good)
    }
}
