//! `gguf lora merge`: merges adapters into their base model.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use gguf_format::keys::{FileType, GENERAL_FILE_TYPE};
use gguf_hf::lora::{LoraAdapter, MergedType, merge};
use gguf_hf::{Options, OutType};
use gguf_pipeline::{Draft, Plan, RunOptions};
use gguf_quantize::mix::Target;

use crate::cmd::output::{self, Shards};
use crate::cmd::planned::{Answer, JsonPlan, Planned, Shown};
use crate::cmd::quantize;
use crate::cmd::writing::{HashOption, tensors};
use crate::failure::{Failure, Outcome};
use crate::open;
use crate::ui::Ui;

/// Merge LoRA adapters into their base model.
///
/// BASE is a model in GGUF or a checkpoint folder, each ADAPTER a GGUF adapter or a folder in the format of PEFT. Each matrix
/// becomes base + scale * alpha / rank * (B * A), for one adapter after the other, computed in single precision as by
/// llama-export-lora, and is written in its type of the base model or in that of --type, in one pass. Matrices that are
/// quantized in the base model are decoded first. Norms of adapters are ignored, as by llama.cpp.
///
/// The output appears under its final name once it is complete and synced to disk. Its path goes to standard output;
/// progress, warnings and errors go to standard error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf lora merge model.gguf my-lora.gguf -o merged.gguf
  gguf lora merge model-bf16.gguf my-lora.gguf -o merged.gguf --type Q4_K_M --imatrix imatrix.gguf
  gguf lora merge my-model/ my-lora/ -o merged.gguf --type Q8_0        a checkpoint and an adapter of PEFT
  gguf lora merge model.gguf one.gguf two.gguf -o merged.gguf --scale 0.7,0.3")]
pub struct Args {
    /// GGUF model, any shard of a split one, or a checkpoint folder
    base: PathBuf,

    /// LoRA adapters: GGUF files, or folders with adapter_config.json
    #[arg(required = true, value_name = "ADAPTER")]
    adapters: Vec<PathBuf>,

    /// Output file, or a folder for the standard file name; {ftype}, {name} and {size} are replaced by the file type,
    /// the model name and the size label
    #[arg(short, long, value_name = "OUT", required_unless_present = "dry_run")]
    output: Option<PathBuf>,

    /// Scale of each adapter, or one for all: that of --lora-scaled in llama.cpp, by which alpha / rank is multiplied
    #[arg(long, value_name = "SCALE", value_delimiter = ',', default_value = "1", allow_negative_numbers = true)]
    scale: Vec<f32>,

    /// File type of the output, such as F16 or Q4_K_M; by default, every tensor has its type in the base model
    #[arg(long = "type", value_name = "TYPE", value_parser = Target::parse)]
    ty: Option<Target>,

    /// Folder with the config.json of the base model, for adapters in the format of PEFT; by default BASE if it is a
    /// checkpoint, otherwise the adapter's own folder
    #[arg(long, value_name = "DIR")]
    base_config: Option<PathBuf>,

    /// With --type, allow tensors that are already quantized and that no adapter changes
    #[arg(long, requires = "ty")]
    allow_requantize: bool,

    /// Number of threads; by default, one per processor
    #[arg(short = 'j', long, value_name = "N", value_parser = crate::cmd::at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,

    /// Print the plan without writing anything
    #[arg(short = 'n', long, conflicts_with = "hash")]
    dry_run: bool,

    /// Keep finished work in OUT.partial and OUT.journal if the run is interrupted, and continue an interrupted run
    #[arg(long, conflicts_with = "dry_run")]
    resume: bool,

    /// Overwrite existing output; with --resume, also discard the kept work of another run
    #[arg(short, long)]
    force: bool,

    /// Print one JSON object: the plan with --dry-run, or the written files
    #[arg(long)]
    json: bool,

    /// Print no progress and no summary
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    hash: HashOption,

    // Last, because the options after it would appear under its heading in the help.
    #[command(flatten)]
    quantization: quantize::Options,

    #[command(flatten)]
    shards: Shards,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let out = self.output.as_deref();
        out.map_or(Ok(()), |out| crate::cmd::not_stdout("--output", out))?;
        if self.ty.is_none() && self.quantization.are_given() {
            let problem = "quantization options require --type, such as Q4_K_M";
            return Err(Failure::CouldNotRun(problem.to_owned()));
        }
        let base = self.base(ui)?;
        let adapters = self.adapters()?;
        let ty = if self.ty.is_some() { MergedType::Single } else { MergedType::OfBase };
        let merged = merge(base, &adapters, ty).map_err(|e| Failure::Bad(e.to_string()))?;
        for tensor in &merged.ignored {
            ui.warning(&format!("{tensor}: the adapter replaces a norm, which llama.cpp and this merge ignore"));
        }
        let plan = self.plan(ui, merged.draft)?;
        let options = RunOptions::default().threads(self.threads).force(self.force).resume(self.resume);
        let options = options.protect(self.quantization.files());
        let out = out.map(|out| output::path_of(out, &plan)).transpose()?;
        let file_type = file_type(&plan);
        let planned = Planned::new(&plan, &file_type);
        match &out {
            Some(out) if !self.dry_run => {
                let answer =
                    Answer { shown: Shown::Path, quiet: self.quiet, hashing: self.hash.how(self.threads, self.quiet) };
                let note = format!("{} merged", tensors(merged.n_merged as u64));
                planned.write(ui, out, &options, answer, &[note])
            }
            out => planned.dry_run(ui, |disks| JsonPlan::of(&plan, &file_type).on(disks), out.as_deref(), &options),
        }
    }

    /// The base model.
    fn base(&self, ui: &mut Ui) -> Result<Draft, Failure> {
        crate::cmd::expect_input(&self.base, "expected a GGUF model or a checkpoint folder")?;
        if is_gguf(&self.base) {
            return Ok(Draft::copy_of(open::model(&self.base)?)?);
        }
        let ty = if self.ty.is_some() { OutType::Lossless } else { OutType::Auto };
        let conversion = open::conversion(&self.base, &Options::default().ty(ty))?;
        for warning in &conversion.warnings {
            ui.warning(&warning.to_string());
        }
        Ok(conversion.plan.into_draft())
    }

    /// The adapters with their scales.
    fn adapters(&self) -> Result<Vec<LoraAdapter>, Failure> {
        let n = self.adapters.len();
        let scales: Vec<f32> = match self.scale.as_slice() {
            [scale] => vec![*scale; n],
            scales if scales.len() == n => scales.to_vec(),
            scales => {
                let or = if n > 1 { format!(", or {n}: one for each adapter") } else { String::new() };
                return Err(Failure::CouldNotRun(format!("--scale: expected 1 number{or}; found {}", scales.len())));
            }
        };
        let adapter = |(path, scale): (&PathBuf, f32)| Ok(LoraAdapter { draft: self.adapter(path)?, scale });
        self.adapters.iter().zip(scales).map(adapter).collect()
    }

    fn adapter(&self, path: &Path) -> Result<Draft, Failure> {
        crate::cmd::expect_input(path, "expected a GGUF adapter or a folder with adapter_config.json")?;
        if is_gguf(path) {
            return Ok(Draft::copy_of(open::model(path)?)?);
        }
        let config = self.base_config.as_deref().or(Some(&*self.base).filter(|base| !is_gguf(base)));
        let base = config.map(open::model_folder).transpose()?;
        let conversion = open::conversion(path, &Options::default().ty(OutType::F32).base(base))?;
        Ok(conversion.plan.into_draft())
    }

    /// The plan of the output, in its file type.
    fn plan(&self, ui: &mut Ui, draft: Draft) -> Result<Plan, Failure> {
        let Some(target) = &self.ty else { return self.shards.apply(ui, draft.lay_out()?) };
        let matrix = self.quantization.matrix()?;
        let mut options = self.quantization.with(&self.base, target, matrix.as_deref())?;
        options.allow_requantize = self.allow_requantize;
        let planned = gguf_quantize::plan(draft, matrix, &options, target)?;
        for warning in &planned.warnings {
            ui.warning(&warning.to_string());
        }
        self.shards.apply(ui, planned.plan)
    }
}

/// Whether an argument is a GGUF file rather than a folder.
fn is_gguf(path: &Path) -> bool {
    match open::is_url(path) {
        true => path.extension().is_some_and(|extension| extension == "gguf"),
        false => path.is_file() && path.extension().is_none_or(|extension| extension != "safetensors"),
    }
}

/// The file type recorded in the output, or what it is if none is.
fn file_type(plan: &Plan) -> String {
    let id = plan.head().get(GENERAL_FILE_TYPE).and_then(|value| value.get::<u32>().ok());
    id.map_or("merged".to_owned(), |id| FileType(id).to_string())
}
