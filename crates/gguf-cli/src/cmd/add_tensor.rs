//! `gguf add-tensor`: a model with one more tensor.

use std::path::PathBuf;

use gguf_edit::rewrite::{NewTensor, add_tensors};
use gguf_format::GgmlType;
use gguf_quantize::mix::parse_tensor_type;

use super::writing::WritingModel;
use crate::failure::{Outcome, Verdict};
use crate::ui::Ui;

/// Write a model with one more tensor, from a NumPy file.
///
/// The array's last dimension becomes the first, contiguous one of the tensor: an array of 32000 rows and 4096 columns is a tensor of 4096 x
/// 32000. With --type, the values are converted as `gguf quantize` does. Shards become one file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf add-tensor model.gguf out.gguf rope_freqs.weight freqs.npy
  gguf add-tensor model.gguf out.gguf output.weight output.npy --type q8_0 --replace")]
pub struct Args {
    /// The model in GGUF; of a split one, any shard
    input: PathBuf,

    /// The file to write
    out: PathBuf,

    /// The name of the tensor
    tensor: String,

    /// The .npy file with its values
    values: PathBuf,

    /// The type of the tensor; that of the array if not given
    #[arg(long = "type", value_name = "TYPE", value_parser = parse_tensor_type)]
    ty: Option<GgmlType>,

    /// Replace a tensor of that name
    #[arg(long)]
    replace: bool,

    #[command(flatten)]
    writing: WritingModel,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        super::not_stdout("OUT", &self.out)?;
        let new = NewTensor::new(&self.tensor, &self.values).ty(self.ty).replace(self.replace);
        let plan = add_tensors(&self.input, &[new])?;
        self.writing.run(ui, plan, &self.out, "written", &[])?;
        Ok(Verdict::Good)
    }
}
