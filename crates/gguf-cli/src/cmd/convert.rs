//! `gguf convert`: converts a Hugging Face checkpoint to GGUF.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::builder::{StringValueParser, TypedValueParser};
use gguf_format::ByteOrder;
use gguf_hf::{Conversion, Mtp, Options, OutType, OutputKind, Skipped};
use gguf_io::{DiskSpace, Output};
use gguf_pipeline::{Plan, RunOptions};

use super::fleet::{Asked, Dividing};
use super::output::{self, Shards};
use super::planned::{Answer, JsonPlan, Planned, Shown, print_left_out};
use super::preflight::{self, Checked, Range, RangeCheck};
use super::quantize::{self, Goal, Names, Written, each_once, plan_all, warn_once, write_all};
use super::set::parse_reserve;
use super::templates::ChatTemplates;
use super::writing::HashOption;
use crate::failure::{Failure, Outcome, Verdict};
use crate::open;
use crate::ui::Ui;

mod file_type;
mod list;

use file_type::{AUTO, FileType};

/// Convert a Hugging Face checkpoint or LoRA adapter to GGUF.
///
/// Reads config.json, the tokenizer files, the model card and model*.safetensors or pytorch_model*.bin, and writes the same
/// bytes as llama.cpp's convert_hf_to_gguf.py. For a file type such as Q4_K_M, the result is the same as converting
/// without rounding and then running `gguf quantize`, without the intermediate file. A folder with adapter_config.json
/// instead of a model is a LoRA adapter, and is converted to the same bytes as by convert_lora_to_gguf.py. --mmproj converts
/// the encoders of images and sound. An image model or video, such as FLUX or Wan, is one file of tensors, which keep their
/// names, as ComfyUI-GGUF expects them.
///
/// The output appears under its final name once it is complete and synced to disk. Its path goes to standard output;
/// progress, warnings and errors go to standard error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf convert my-model/ -o my-model.gguf
  gguf convert my-model/ -o . --type Q4_K_M --imatrix imatrix.gguf
  gguf convert my-model/ --dry-run              print the planned tensors
  gguf convert my-lora/ --base my-model/ -o my-lora.gguf
  gguf convert flux1-dev.safetensors -o flux1-dev-Q4_K_S.gguf --type Q4_K_S
  gguf convert --list                           list the supported architectures")]
pub struct Args {
    /// Checkpoint folder, its folder in the Hugging Face hub cache, or a single tensor file
    #[arg(required_unless_present = "list", value_name = "CHECKPOINT")]
    dir: Option<PathBuf>,

    /// Output file, or a folder for the standard file name; {ftype} or {FTYPE}, {name} and {size} are replaced by the file
    /// type, the model name and the size label. A folder that ends in / or has such a name is created
    #[arg(short, long, alias = "outfile", value_name = "OUT", required_unless_present_any = ["dry_run", "list"])]
    output: Option<PathBuf>,

    /// List the supported architectures and their class names in config.json
    #[arg(long, conflicts_with_all = [
        "dir", "output", "ty", "name", "metadata", "base", "pre", "vocab_only", "mtp", "no_mtp", "fuse_qkv", "fuse_gate_up_exps", "fp8_as_q8",
        "sentence_transformers_dense_modules", "mistral_format", "disable_mistral_community_chat_template", "big_endian", "threads",
        "dry_run", "resume", "reserve", "chat_template_file", "force", "allow_invalid", "check_range", "quiet", "hash", "pure", "leave_output_tensor", "output_tensor_type",
        "token_embedding_type", "tensor_type", "tensor_type_file", "imatrix", "include_weights", "exclude_weights", "override_kv",
        "prune_layers", "provenance", "split_max_size", "split_max_tensors", "plan_only", "part_size",
    ])]
    list: bool,

    /// With --list, also list the classes that llama.cpp's converter supports and this program does not, and the reasons
    #[arg(long, requires = "list")]
    all: bool,

    /// Output type: auto (the 16-bit type of the checkpoint, otherwise f16; f32 for an adapter), f32, f16, bf16, q8_0,
    /// tq1_0, tq2_0, or a file type or recipe of `gguf quantize` such as Q4_K_M. Several types, as in Q4_K_M,Q8_0, are
    /// written from one read of the checkpoint
    #[arg(long = "type", alias = "outtype", value_name = "TYPE", default_value = "auto", value_delimiter = ',',
        value_parser = Names { parser: StringValueParser::new().try_map(|name: String| FileType::parse(&name)), more: AUTO })]
    ty: Vec<FileType>,

    /// Model name; overrides the name found in the checkpoint
    #[arg(long, alias = "model-name")]
    name: Option<String>,

    /// Pre-tokenizer name of a BPE vocabulary; overrides detection by hash
    #[arg(long)]
    pre: Option<String>,

    /// JSON file with metadata that overrides the checkpoint's own
    #[arg(long, value_name = "FILE")]
    metadata: Option<PathBuf>,

    /// Base model folder of a LoRA adapter, of which only config.json is read; by default, the adapter's own folder
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,

    /// Target model folder of a draft model (EAGLE-3, DFlash, DSpark), which uses its tokenizer
    #[arg(long, value_name = "DIR", alias = "target-model-dir", conflicts_with_all = ["base", "mmproj"])]
    target: Option<PathBuf>,

    /// Convert the encoders of images and sound (mmproj), in place of the language model; with =OUT both, the encoders to OUT
    #[arg(long, value_name = "OUT", num_args = 0..=1, require_equals = true, conflicts_with = "base")]
    mmproj: Option<Option<PathBuf>>,

    /// Write only metadata and tokenizer, no tensors
    #[arg(long)]
    vocab_only: bool,

    /// Write only the multi-token prediction (MTP) blocks, with the embeddings, the last norm and the output matrix
    #[arg(long, conflicts_with = "no_mtp")]
    mtp: bool,

    /// Omit the multi-token prediction (MTP) blocks
    #[arg(long)]
    no_mtp: bool,

    /// Write queries, keys and values as one tensor per block (attn_qkv), if llama.cpp loads it
    #[arg(long)]
    fuse_qkv: bool,

    /// Write the gate and up matrices of all experts as one tensor per block (ffn_gate_up_exps)
    #[arg(long)]
    fuse_gate_up_exps: bool,

    /// Write matrices that are stored as FP8 with scales as Q8_0, whatever the type of the other matrices
    #[arg(long)]
    fp8_as_q8: bool,

    /// Also write the dense layers after the pooling, which are modules of sentence-transformers (EmbeddingGemma)
    #[arg(long)]
    sentence_transformers_dense_modules: bool,

    /// Read Mistral's own layout (params.json and consolidated*.safetensors) even if there is a config.json
    #[arg(long)]
    mistral_format: bool,

    /// In Mistral's own layout, write no chat template except that of the folder
    #[arg(long)]
    disable_mistral_community_chat_template: bool,

    /// Write big-endian byte order
    #[arg(long, alias = "bigendian")]
    big_endian: bool,

    /// Number of threads; by default, one per processor
    #[arg(short = 'j', long, value_name = "N", value_parser = crate::cmd::at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,

    /// Print the plan without writing anything
    #[arg(short = 'n', long, conflicts_with = "hash")]
    dry_run: bool,

    /// Keep finished work in OUT.partial and OUT.journal if the run is interrupted, and continue an interrupted run
    #[arg(long, conflicts_with = "dry_run")]
    resume: bool,

    /// Reserve this much space in the head for later in-place edits, such as 64K, as the key ggufkit.pad
    #[arg(long, value_name = "SIZE", value_parser = parse_reserve)]
    reserve: Option<u64>,

    /// Overwrite existing output; with --resume, also discard the kept work of another run
    #[arg(short, long)]
    force: bool,

    /// Write the output even if the configuration and the tensors contradict each other, so that llama.cpp rejects it,
    /// or if --check-range finds values out of range
    #[arg(long)]
    allow_invalid: bool,

    /// Before anything is written, read all values and stop if some become infinite in their output type or are not
    /// finite. By default, tensors that become f16 from a type of larger range are sampled (at most 65,536 values each:
    /// 16 runs from the first to the last), and findings are warnings
    #[arg(long, conflicts_with = "vocab_only")]
    check_range: bool,

    /// Print one JSON object: the plan with --dry-run, the architectures with --list, or the written files
    #[arg(long)]
    json: bool,

    /// Print no progress and no summary
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    hash: HashOption,

    #[command(flatten)]
    templates: ChatTemplates,

    #[command(flatten)]
    dividing: Dividing,

    // Last, because the options after it would appear under its heading in the help.
    #[command(flatten)]
    quantization: quantize::Options,

    #[command(flatten)]
    shards: Shards,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let Some(dir) = self.dir.as_deref().filter(|_| !self.list) else { return list::print(ui, self.all) };
        super::expect_input(dir, "expected a checkpoint folder that contains config.json")?;
        if let Some(out) = &self.output {
            super::not_stdout("--output", out)?;
        }
        // llama.cpp's converter, which defines these types for other models, does not support image models.
        let is_either = self.ty.iter().any(|ty| matches!(ty, FileType::Either(..)));
        let is_quantized = self.quantization.are_given() || is_either && open::is_image_model(dir)?;
        let resolved = |ty: &FileType| match ty {
            FileType::Either(_, target) if is_quantized => FileType::Quantized((*target).into()),
            FileType::Either(ty, _) => FileType::Converted(*ty),
            other => other.clone(),
        };
        let types: Vec<FileType> = self.ty.iter().map(resolved).collect();
        if self.quantization.are_given() && !types.iter().any(|ty| matches!(ty, FileType::Quantized(_))) {
            let problem = "quantization options require a quantized --type, such as Q4_K_M";
            return Err(Failure::CouldNotRun(problem.to_owned()));
        }
        let types = each_once(types)?;
        self.templates.read()?;
        // The projector is planned before the model is written.
        let projector = self.projector(ui, dir, &types)?;
        let beside = projector.as_ref().map(|(projector, _, out)| (&projector.plan, out.as_path()));
        let checked = match &projector {
            Some((projector, _, out)) => Some(self.check_range(ui, dir, &[(&projector.plan, Some(out))])?),
            None => None,
        };
        let verdict = match types.as_slice() {
            [ty] => self.convert(ui, dir, ty, beside),
            types => self.convert_all(ui, dir, types, beside),
        }?;
        let Some(((projector, is_invalid, out), (ranges, in_range))) = projector.zip(checked) else {
            return Ok(verdict);
        };
        let Conversion { plan, architecture, ty, skipped, .. } = &projector;
        let planned = Planned { left_out: left_out(skipped), ..Planned::new(plan, format!("{architecture}, {ty}")) };
        let written = self.finish(ui, &planned, &ty.to_string(), skipped, ranges, Some(&out))?;
        Ok(verdict.max(written).max(in_range).max(if is_invalid { Verdict::Bad } else { Verdict::Good }))
    }

    /// Plans the projector beside the model. Returns its plan, its path, and whether llama.cpp would reject it.
    fn projector(
        &self,
        ui: &mut Ui,
        dir: &Path,
        types: &[FileType],
    ) -> Result<Option<(Conversion, bool, PathBuf)>, Failure> {
        let Some(Some(out)) = &self.mmproj else { return Ok(None) };
        super::not_stdout("--mmproj", out)?;
        if self.json {
            let problem = "--json supports only one output; use --mmproj without =OUT in a second run";
            return Err(Failure::CouldNotRun(problem.to_owned()));
        }
        let ty = match types {
            [_, _, ..] if output::names_file_type(out) => {
                let problem = "the projector is written once for all file types; omit the placeholder for the type";
                return Err(Failure::CouldNotRun(format!("--mmproj={}: {problem}", out.display())));
            }
            [FileType::Converted(ty), ..] => *ty,
            _ => OutType::Auto,
        };
        let (projector, is_invalid) = self.plan_checked(ui, dir, &FileType::Converted(ty), true)?;
        let path = output::path_of(&projector.output_path(out), &projector.plan)?;
        Ok(Some((projector, is_invalid, path)))
    }

    /// Checks, before the model is written, that the projector has a different path and that the disks have room for both.
    fn check_beside(&self, models: &[(&Plan, &Path)], projector: Option<(&Plan, &Path)>) -> Result<(), Failure> {
        let Some(projector) = projector else { return Ok(()) };
        let place = |path: &Path| Some((folder_of(path).canonicalize().ok()?, path.file_name()?.to_owned()));
        if models
            .iter()
            .any(|(_, model)| *model == projector.1 || place(model).is_some() && place(model) == place(projector.1))
        {
            let problem = "output path of both the model and the projector; use separate names";
            return Err(Failure::CouldNotRun(format!("{}: {problem}", projector.1.display())));
        }
        if !self.dry_run && !open::is_url(projector.1) {
            super::expect_folder(folder_of(projector.1), "create it for the output of --mmproj")?;
            for path in projector.0.output_paths(projector.1) {
                Output::may_write(&path, self.force)?;
            }
        }
        // A resumed run may have written part of the output already.
        if !self.dry_run && !self.resume {
            preflight::disk_space(&[models, &[projector]].concat()).iter().try_for_each(DiskSpace::check)?;
        }
        Ok(())
    }

    /// Plans one conversion, of the model or of its projector.
    fn plan(&self, dir: &Path, file_type: &FileType, projector: bool) -> Result<Conversion, Failure> {
        let ty = match file_type {
            FileType::Quantized(_) if self.vocab_only => {
                let problem = "--vocab-only writes no tensors to quantize; omit --type";
                return Err(Failure::CouldNotRun(problem.to_owned()));
            }
            FileType::Quantized(target) if self.fp8_as_q8 => {
                let problem =
                    format!("--fp8-as-q8 contradicts --type {target}, which chooses the types of all matrices");
                return Err(Failure::CouldNotRun(problem));
            }
            FileType::Converted(ty) | FileType::Either(ty, _) => *ty,
            FileType::Quantized(_) => OutType::Lossless,
        };
        let options = Options::default()
            .ty(ty)
            .name(self.name.clone())
            .metadata(self.metadata.clone())
            .pre(self.pre.clone())
            .order(if self.big_endian { ByteOrder::Big } else { ByteOrder::Little })
            .vocab_only(self.vocab_only)
            .base(self.base.as_deref().map(open::folder).transpose()?)
            .target(self.target.as_deref().map(open::model_folder).transpose()?)
            .projector(projector)
            .fuse_qkv(self.fuse_qkv)
            .fuse_gate_up_experts(self.fuse_gate_up_exps)
            .fp8_as_q8(self.fp8_as_q8)
            .dense_modules(self.sentence_transformers_dense_modules)
            .mistral_format(self.mistral_format)
            .no_community_template(self.disable_mistral_community_chat_template)
            .mtp(match (self.mtp, self.no_mtp) {
                (true, _) => Mtp::Only,
                (_, true) => Mtp::LeftOut,
                _ => Mtp::Included,
            });
        let mut conversion = open::conversion(dir, &options)?;
        if conversion.kind != OutputKind::Model {
            self.refuse_for_parts(conversion.kind, file_type)?;
        }
        if conversion.kind == OutputKind::Model {
            conversion.plan = self.templates.applied(conversion.plan)?;
        }
        if let Some(bytes) = self.reserve {
            let mut draft = conversion.plan.into_draft();
            gguf_edit::reserve(&mut draft.head, bytes);
            conversion.plan = draft.lay_out()?;
        }
        Ok(conversion)
    }

    /// Plans a conversion and prints its warnings. Returns whether llama.cpp would reject the output.
    fn plan_checked(
        &self,
        ui: &mut Ui,
        dir: &Path,
        file_type: &FileType,
        projector: bool,
    ) -> Result<(Conversion, bool), Failure> {
        let mut conversion = self.plan(dir, file_type, projector)?;
        for warning in &conversion.warnings {
            ui.warning(&warning.to_string());
        }
        if !self.quiet {
            conversion.unpacked.iter().for_each(|unpacked| ui.note(&unpacked.to_string()));
        }
        // llama.cpp reads projectors from one file.
        if !matches!(file_type, FileType::Quantized(_)) && !projector {
            conversion.plan = self.shards.apply_to_conversion(ui, conversion.plan)?;
        }
        let invalid = self.invalid(dir, conversion.n_errors);
        let is_invalid = invalid.is_some();
        match invalid {
            Some(invalid) if self.output.is_some() && !self.dry_run => return Err(invalid),
            Some(invalid) => ui.error(&invalid),
            None => {}
        }
        Ok((conversion, is_invalid))
    }

    /// Converts to several types from one read of the checkpoint.
    fn convert_all(&self, ui: &mut Ui, dir: &Path, types: &[FileType], beside: Option<(&Plan, &Path)>) -> Outcome {
        if self.dividing.plan_only.is_some() {
            let problem = "--plan-only: a plan has one type; make a plan for each";
            return Err(Failure::CouldNotRun(problem.to_owned()));
        }
        self.output.as_deref().map_or(Ok(()), output::check_several)?;
        let is_projector = matches!(self.mmproj, Some(None));
        let matrix = self.quantization.matrix()?;
        let mut source = None;
        let (mut lossless, mut outputs, mut printed) = (None, Vec::new(), Vec::new());
        let (mut skipped, mut verdict) = (Vec::new(), Verdict::Good);
        for ty in types {
            let converted = match ty {
                FileType::Quantized(_) => None,
                _ => Some(self.plan(dir, ty, is_projector)?),
            };
            let conversion = match &converted {
                Some(conversion) => conversion,
                None => match &mut lossless {
                    Some(conversion) => &*conversion,
                    none => none.insert(self.plan(dir, ty, is_projector)?),
                },
            };
            warn_once(ui, &mut printed, conversion.warnings.iter().map(ToString::to_string));
            match self.invalid(dir, conversion.n_errors) {
                Some(invalid) if !self.dry_run => return Err(invalid),
                Some(invalid) if verdict == Verdict::Good => {
                    ui.error(&invalid);
                    verdict = Verdict::Bad;
                }
                _ => {}
            }
            skipped.push(conversion.skipped.clone());
            let mut draft = conversion.plan.to_draft();
            // All conversions of a folder read the same tensors, so they share one source.
            draft.source = source.get_or_insert(draft.source).clone();
            let (target, plan) = match ty {
                FileType::Quantized(goal) => {
                    let mut options = self.quantization.with(dir, goal, matrix.as_deref())?;
                    goal.apply(&mut options);
                    let planned = gguf_quantize::plan(draft, matrix.clone(), &options, &goal.target)?;
                    warn_once(ui, &mut printed, planned.warnings.iter().map(ToString::to_string));
                    (goal.to_string(), planned.plan)
                }
                _ => (conversion.ty.to_string(), draft.lay_out()?),
            };
            let plan = match ty {
                FileType::Quantized(_) => self.shards.apply(ui, plan)?,
                _ => self.shards.apply_to_conversion(ui, plan)?,
            };
            let out = match &self.output {
                Some(out) => output::path_of(&output_path(conversion, out, &target), &plan)?,
                None => PathBuf::new(),
            };
            outputs.push(Written { target, plan, out, checked: None });
        }
        let out = |written: &Written| self.output.is_some().then(|| written.out.clone());
        let models: Vec<(&Plan, &Path)> = outputs.iter().map(|output| (&output.plan, output.out.as_path())).collect();
        self.check_beside(&models, beside)?;
        let outs: Vec<Option<PathBuf>> = outputs.iter().map(out).collect();
        let plans: Vec<_> = outputs.iter().zip(&outs).map(|(written, out)| (&written.plan, out.as_deref())).collect();
        let (ranges, in_range) = self.check_range(ui, dir, &plans)?;
        let options = self.run_options();
        if self.dry_run {
            for ((output, skipped), range) in outputs.iter_mut().zip(&skipped).zip(ranges) {
                output.checked = Some(Checked::new(skipped, range));
            }
            let planned = plan_all(ui, &outputs, &options)?;
            if !self.json {
                print_left_out(ui, &left_out(skipped.last().map_or(&[], Vec::as_slice)))?;
            }
            return Ok(verdict.max(planned).max(in_range));
        }
        write_all(ui, &outputs, &options, self.answer())
    }

    /// Converts to one type, or prints the plan.
    fn convert(&self, ui: &mut Ui, dir: &Path, file_type: &FileType, beside: Option<(&Plan, &Path)>) -> Outcome {
        let is_projector = matches!(self.mmproj, Some(None));
        let (conversion, is_invalid) = self.plan_checked(ui, dir, file_type, is_projector)?;
        let ty = match file_type {
            FileType::Quantized(goal) => goal.to_string(),
            _ => conversion.ty.to_string(),
        };
        let out = self.output.as_ref().map(|out| output_path(&conversion, out, &ty));
        let title = format!("{}, {ty}", conversion.architecture);
        let plan = match file_type {
            FileType::Quantized(goal) => self.quantized(ui, dir, conversion.plan, goal)?,
            _ => conversion.plan,
        };
        let out = out.map(|out| output::path_of(&out, &plan)).transpose()?;
        let model: Vec<(&Plan, &Path)> = out.iter().map(|out| (&plan, out.as_path())).collect();
        self.check_beside(&model, beside)?;
        let (ranges, in_range) = self.check_range(ui, dir, &[(&plan, out.as_deref())])?;
        let planned = Planned { left_out: left_out(&conversion.skipped), ..Planned::new(&plan, title) };
        let verdict = self.finish(ui, &planned, &ty, &conversion.skipped, ranges, out.as_deref())?;
        Ok(verdict.max(in_range).max(if is_invalid { Verdict::Bad } else { Verdict::Good }))
    }

    /// Writes a planned output, or prints the plan.
    fn finish(
        &self,
        ui: &mut Ui,
        planned: &Planned<'_>,
        ty: &str,
        skipped: &[Skipped],
        mut ranges: Vec<Range>,
        out: Option<&Path>,
    ) -> Outcome {
        if self.dividing.plan_only.is_some() {
            let matrix = self.quantization.matrix_file()?;
            let asked = Asked { matrix, samples: None, run: &self.run_options() };
            return self.dividing.write(ui, planned.plan, out, asked, self.quiet);
        }
        match out {
            Some(out) if !self.dry_run => planned.write(ui, out, &self.run_options(), self.answer(), &[]),
            out => {
                let checked = ranges.pop().map(|range| Checked::new(skipped, range));
                let document = |disks| JsonPlan::of(planned.plan, ty).checked(checked).on(disks);
                planned.dry_run(ui, document, out, &self.run_options())
            }
        }
    }

    /// Rejects options that do not apply to an adapter, a projector or an image model.
    fn refuse_for_parts(&self, kind: OutputKind, file_type: &FileType) -> Result<(), Failure> {
        let what = match kind {
            OutputKind::Adapter => "an adapter",
            OutputKind::Images => "an image model",
            _ => "a projector",
        };
        // If the projector is written beside a model, the options apply to the model.
        let is_alone = !matches!(self.mmproj, Some(Some(_)));
        let options = [
            ("--vocab-only", self.vocab_only),
            (
                "--split-max-size or --split-max-tensors",
                self.shards.are_given() && is_alone && kind == OutputKind::Projector,
            ),
            ("--mtp", self.mtp && is_alone),
            ("--no-mtp", self.no_mtp && is_alone),
            ("--fuse-qkv", self.fuse_qkv && is_alone),
            ("--fuse-gate-up-exps", self.fuse_gate_up_exps && is_alone),
            ("--fp8-as-q8", self.fp8_as_q8 && is_alone),
            ("--sentence-transformers-dense-modules", self.sentence_transformers_dense_modules && is_alone),
            ("--mistral-format", self.mistral_format && is_alone),
            ("--disable-mistral-community-chat-template", self.disable_mistral_community_chat_template && is_alone),
            ("--chat-template-file", !self.templates.is_empty() && is_alone),
            ("--pre", self.pre.is_some() && is_alone),
            ("--metadata", self.metadata.is_some() && kind == OutputKind::Images),
        ];
        let problem = match (options.iter().find(|(_, is_given)| *is_given), file_type) {
            (Some((option, _)), _) => format!("{option} does not apply to {what}"),
            (None, FileType::Quantized(target)) if kind != OutputKind::Images => {
                format!("{what} is not quantized to {target}; expected auto, f32, f16, bf16 or q8_0")
            }
            _ => return Ok(()),
        };
        Err(Failure::CouldNotRun(problem))
    }

    /// The error for an output that llama.cpp would not load.
    fn invalid(&self, dir: &Path, n_errors: usize) -> Option<Failure> {
        let errors = match n_errors {
            0 => return None,
            1 => "an error".to_owned(),
            n => format!("{n} errors"),
        };
        let problem = format!(
            "the output would have {errors}, and llama.cpp would reject it; correct the checkpoint, or use --allow-invalid"
        );
        (!self.allow_invalid).then(|| Failure::Bad(format!("{}: {problem}", dir.display())))
    }

    /// Checks, before the outputs are written, that the values of plans fit their types; see [`RangeCheck::run`].
    fn check_range(
        &self,
        ui: &mut Ui,
        dir: &Path,
        plans: &[(&Plan, Option<&Path>)],
    ) -> Result<(Vec<Range>, Verdict), Failure> {
        // Reading all values takes a while.
        if self.check_range && !self.dry_run && !self.resume {
            let outputs: Vec<(&Plan, &Path)> = plans.iter().filter_map(|(plan, out)| Some((*plan, (*out)?))).collect();
            let files = outputs.iter().filter(|(_, out)| !open::is_url(out));
            for path in files.flat_map(|(plan, out)| plan.output_paths(out)) {
                Output::may_write(&path, self.force)?;
            }
            preflight::disk_space(&outputs).iter().try_for_each(DiskSpace::check)?;
        }
        let (all, allow, dry_run) = (self.check_range, self.allow_invalid, self.dry_run);
        let check = RangeCheck { all, allow, dry_run, quiet: self.quiet, threads: self.threads };
        check.run(ui, dir, &plans.iter().map(|(plan, _)| *plan).collect::<Vec<_>>())
    }

    fn answer(&self) -> Answer {
        Answer { shown: Shown::Path, quiet: self.quiet, hashing: self.hash.how(self.threads, self.quiet) }
    }

    fn run_options(&self) -> RunOptions {
        let options = RunOptions::default().threads(self.threads).force(self.force).resume(self.resume);
        let recipe = |ty: &FileType| match ty {
            FileType::Quantized(goal) => goal.file(),
            _ => None,
        };
        let files = self.quantization.files().chain(self.templates.files().map(Path::to_owned));
        options
            .create_folders(self.output.as_deref().is_some_and(output::names_folders))
            .protect(files.chain(self.ty.iter().filter_map(recipe)))
    }

    /// Quantizes a planned conversion: a plan without the intermediate file.
    fn quantized(&self, ui: &mut Ui, dir: &Path, plan: Plan, goal: &Goal) -> Result<Plan, Failure> {
        let matrix = self.quantization.matrix()?;
        let mut options = self.quantization.with(dir, goal, matrix.as_deref())?;
        goal.apply(&mut options);
        let planned = gguf_quantize::plan(plan.into_draft(), matrix, &options, &goal.target)?;
        for warning in &planned.warnings {
            ui.warning(&warning.to_string());
        }
        self.shards.apply(ui, planned.plan)
    }
}

/// The tensors of a checkpoint that are not written, and the reasons.
fn left_out(skipped: &[Skipped]) -> Vec<(&str, &'static str)> {
    skipped.iter().map(|skipped| (skipped.name.as_str(), skipped.reason)).collect()
}

/// The folder of an output.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The output path for a type named `ty`; see [`Conversion::output_path_as`]. A folder with a placeholder in its name is named later.
fn output_path(conversion: &Conversion, out: &Path, ty: &str) -> PathBuf {
    match output::is_folder(out) && output::has_placeholder(&out.to_string_lossy()) && !out.is_dir() {
        true => out.to_owned(),
        false => conversion.output_path_as(out, ty),
    }
}
