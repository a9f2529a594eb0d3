//! `gguf add-tensor`: adds a tensor to a model.

use std::path::{Path, PathBuf};

use gguf_edit::rewrite::{NewTensor, add_tensors};
use gguf_format::GgmlType;
use gguf_quantize::mix::parse_tensor_type;

use super::writing::{OutOption, WritingModel, two_outputs};
use crate::failure::{Failure, Outcome, Verdict};
use crate::open;
use crate::ui::Ui;

/// Add a tensor from a NumPy file to a copy of a model.
///
/// The array's dimensions are reversed: an array of 32000 rows and 4096 columns becomes a tensor of 4096 x 32000,
/// because GGUF lists the contiguous dimension first. With --type, values are converted as by `gguf quantize`. A split
/// model becomes one file.
#[derive(Debug, clap::Args)]
#[command(override_usage = "\
gguf add-tensor [OPTIONS] <INPUT> <OUT> <TENSOR> <VALUES>
       gguf add-tensor [OPTIONS] <INPUT> --output <OUT> <TENSOR> <VALUES>")]
#[command(after_help = "\
Examples:
  gguf add-tensor model.gguf out.gguf rope_freqs.weight freqs.npy
  gguf add-tensor model.gguf out.gguf output.weight output.npy --type q8_0 --replace")]
pub struct Args {
    /// GGUF model; any shard of a split model
    input: PathBuf,

    /// Output file; or use --output
    out: String,

    /// Name of the new tensor
    tensor: String,

    /// NumPy file (.npy) with the values
    #[arg(required_unless_present = "output")]
    values: Option<PathBuf>,

    #[command(flatten)]
    option: OutOption,

    /// Tensor type; by default, the type of the array
    #[arg(long = "type", value_name = "TYPE", value_parser = parse_tensor_type)]
    ty: Option<GgmlType>,

    /// Replace an existing tensor of the same name
    #[arg(long)]
    replace: bool,

    #[command(flatten)]
    writing: WritingModel,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        // With the option, the name and the values are the first two arguments after the input.
        let (out, tensor, values) = match (self.option.path(), &self.values) {
            (Some(out), None) => (out, &self.out, Path::new(&self.tensor)),
            (None, Some(values)) => (Path::new(&self.out), &self.tensor, values.as_path()),
            (Some(out), Some(_)) => return Err(two_outputs(Path::new(&self.out), out)),
            (None, None) => return Err(Failure::CouldNotRun("expected a file with the values".to_owned())),
        };
        super::not_stdout("OUT", out)?;
        let new = NewTensor::new(tensor, values).ty(self.ty).replace(self.replace);
        let plan = add_tensors(open::model(&self.input)?, &[new])?;
        self.writing.run(ui, plan, out, "written", &[])?;
        Ok(Verdict::Good)
    }
}
