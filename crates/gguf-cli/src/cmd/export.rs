//! `gguf export`: writes the checkpoint that a GGUF model was converted from.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use gguf_hf::export::{Export, ExportOptions, ExportWarning};
use gguf_hf::{Folder, Mtp};

use super::float_type::FloatType;
use super::planned::{JsonPlan, Planned};
use super::writing::Writing;
use crate::failure::{Failure, Outcome, Verdict};
use crate::open;
use crate::ui::Ui;
use crate::watch::Watch;

/// Export a GGUF model to a Hugging Face folder.
///
/// Writes config.json, generation_config.json, the tokenizer's files, a model card and model*.safetensors with the original
/// names of the tensors, so that transformers, vLLM and trainers load the folder, and `gguf convert` makes the same file
/// of it. Fields that the file does not determine have the defaults of transformers. Quantized tensors are decoded with
/// the same bits as in llama.cpp.
///
/// Encoders of images and sound (mmproj) become a folder of their own. An adapter becomes a folder that PEFT loads; it needs its
/// base model, which names the modules.
///
/// The conversion of the folder is planned before anything is written, and what it would give otherwise than the file is
/// reported as a warning. All files appear under their final names once they are complete and synced to disk.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf export model.gguf -o my-model/
  gguf export model-Q4_K_M.gguf -o my-model/ --type f16
  gguf export lora.gguf -o my-lora/ --base model.gguf   a folder for PEFT
  gguf export model.gguf -o my-model/ --dry-run         print the files and tensors")]
pub struct Args {
    /// GGUF model, encoders or adapter; any shard of a split model
    model: PathBuf,

    /// Output folder, which is created if it is missing
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,

    /// Type of all tensors; by default, the type in the file, and bf16 for quantized tensors
    #[arg(long = "type", value_name = "TYPE", value_enum)]
    ty: Option<FloatType>,

    /// Base model of a LoRA adapter: a GGUF model, or the folder of its checkpoint. No values of its tensors are read
    #[arg(long, value_name = "MODEL")]
    base: Option<PathBuf>,

    /// Begin another file of tensors beyond this size, such as 2GB
    #[arg(long, value_name = "SIZE", default_value = "5GB", value_parser = super::size::parse_limit)]
    max_file_size: NonZeroU64,

    /// Print the planned files without writing anything
    #[arg(short = 'n', long, conflicts_with = "hash")]
    dry_run: bool,

    #[command(flatten)]
    writing: Writing,
}

/// The folder of the base model of an adapter.
fn base(path: &Path) -> Result<Box<dyn Folder>, Failure> {
    match path.extension().is_some_and(|extension| extension == "gguf") {
        true => {
            Ok(gguf_hf::export::folder(open::model(path)?, &ExportOptions::default().folder(path.with_extension("")))?)
        }
        false => open::model_folder(path),
    }
}

/// Prints warnings: of those that many tensors have, the first and the number of the others.
fn warn(ui: &mut Ui, warnings: &[ExportWarning]) {
    let mut said = Vec::new();
    for warning in warnings {
        let kind = std::mem::discriminant(warning);
        let is_shared = matches!(
            warning,
            ExportWarning::Rounded { .. }
                | ExportWarning::Lost { .. }
                | ExportWarning::Factor { .. }
                | ExportWarning::TensorType { .. }
        );
        if is_shared && said.contains(&kind) {
            continue;
        }
        said.push(kind);
        let n_same = warnings.iter().filter(|other| std::mem::discriminant(*other) == kind).count();
        let more = match (warning, n_same) {
            (ExportWarning::Mtp { mtp: Mtp::Only }, _) => "; pass --mtp to gguf convert".to_owned(),
            (ExportWarning::Mtp { .. }, _) => "; pass --no-mtp to gguf convert".to_owned(),
            (_, 2..) if is_shared => format!("; the same applies to {} other tensors", n_same - 1),
            _ => String::new(),
        };
        ui.warning(&format!("{warning}{more}"));
    }
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        super::not_stdout("--output", &self.output)?;
        let ty = self.ty.map(FloatType::ggml);
        let options = ExportOptions::default().ty(ty).max_file_bytes(self.max_file_size.get()).folder(&self.output);
        let options = options.base(self.base.as_deref().map(base).transpose()?);
        let export = gguf_hf::export::plan(open::model(&self.model)?, &options)?;
        warn(ui, &export.warnings);
        let run = open::reading().threads(self.writing.threads).force(self.writing.force);
        if self.dry_run {
            let Export { plan, class, .. } = &export;
            let document = |disks| JsonPlan::of(plan, class).on(disks);
            let planned = Planned::new(plan, class);
            return planned.dry_run(ui, document, None, &run);
        }
        let watch = Watch::new(self.writing.quiet);
        let summary = export.run(&self.output, &run, &watch);
        watch.clear();
        let paths = summary?.paths;
        self.writing.say(ui, &watch, export.plan.tensors().len() as u64, export.plan.file_bytes(), "exported");
        super::writing::print_written(ui, &paths, self.writing.hashing())?;
        Ok(Verdict::Good)
    }
}
