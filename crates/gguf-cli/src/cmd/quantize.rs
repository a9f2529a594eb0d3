//! `gguf quantize`: converts a GGUF model to another file type.

use std::ffi::OsString;
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::builder::OsStringValueParser;
use gguf_format::keys::{FileType, GENERAL_FILE_TYPE as FILE_TYPE};
use gguf_pipeline::RunOptions;
use gguf_pipeline::fleet::Samples;
use gguf_pipeline::plan::{Draft, Plan};
use gguf_quantize::budget::{Budget, Survey};
use gguf_quantize::imatrix::ImatrixFile;
use gguf_quantize::mix::Target;
use gguf_quantize::{ChooseTypes, Quantization, QuantizeOptions};

use crate::cmd::fleet::{Asked, Dividing};
use crate::cmd::output::{self, Shards};
use crate::cmd::planned::{Answer, JsonPlan, Planned, Shown};
use crate::cmd::set::parse_reserve;
use crate::cmd::templates::ChatTemplates;
use crate::cmd::writing::{HashOption, OutOption};
use crate::failure::{Failure, Outcome};
use crate::findings;
use crate::open;
use crate::ui::Ui;
use crate::watch::Watch;

pub mod budget;
mod goal;
mod list;
mod options;
mod sensitivities;
mod several;

use budget::Within;
pub use goal::Goal;
pub use list::Names;
pub use options::{Options, read_text};
#[cfg(feature = "engine")]
pub use sensitivities::{Document, Measured};
pub use several::{Written, each_once, plan_all, warn_once, write_all};

/// Quantize a model: by file type, by rules, or to a target size.
///
/// Tensors get the same types and the same bytes as with llama.cpp's quantizer. The output appears under its final name
/// once it is complete and synced to disk. Its path goes to standard output, after the report if there is one;
/// progress, warnings and errors go to standard error.
///
/// --resume continues an interrupted run. Finished work is kept in OUT.partial and OUT.journal, whether the
/// interruption is a signal, a full disk or a power failure; of an output in a store, in its upload and OUT.upload.json.
/// On resume, every finished piece of a file is read again and its hash verified; mismatches are redone. The number of
/// threads may change between runs.
#[derive(Debug, clap::Args)]
#[command(override_usage = "\
gguf quantize [OPTIONS] <INPUT> <OUT> <TYPE>...
       gguf quantize [OPTIONS] <INPUT> <OUT> --target-size <SIZE>
       gguf quantize [OPTIONS] <INPUT> --output <OUT> <TYPE>...
       gguf quantize [OPTIONS] <INPUT> <TYPE>... --dry-run
       gguf quantize [OPTIONS] <INPUT> --list")]
#[command(after_help = "\
Examples:
  gguf quantize model-f16.gguf model-q4.gguf Q4_K_M
  gguf quantize model-f16.gguf 'model-{ftype}.gguf' Q4_K_M Q6_K     several types from one read
  gguf quantize model-f16.gguf 'out/{FTYPE}/' Q4_K_M Q4_K_L UD-Q4_K_XL=ud.recipe     recipes, each file in a folder
  gguf quantize model-f16.gguf --list                  list file types with their sizes
  gguf quantize in.gguf out.gguf Q5_K_M --tensor-type 'ffn_down=q6_K' --dry-run
  gguf quantize in.gguf out.gguf --target-size 4.2GiB --imatrix imatrix.gguf
  gguf quantize in.gguf out.gguf Q4_K_M --html report.html     the error of each tensor and layer as a page")]
pub struct Args {
    /// GGUF model; any shard of a split model
    input: PathBuf,

    /// Output file, or a folder for the standard file name; {ftype} or {FTYPE}, {name} and {size} are replaced by the file
    /// type, the model name and the size label. A folder that ends in / or has such a name is created. Optional with --dry-run
    #[arg(required_unless_present_any = ["limit", "list", "output"])]
    out: Option<OsString>,

    /// File type, by name such as Q4_K_M or by llama.cpp number; or a recipe, NAME=FILE or NAME.recipe. Several types are
    /// written from one read of the input
    #[arg(value_name = "TYPE", value_parser = Names { parser: OsStringValueParser::new(), more: &[("COPY", "keep the type of every tensor")] })]
    types: Vec<OsString>,

    /// List the file types with the bits per weight and the file size of this model, without writing anything
    #[arg(long, group = "shown", conflicts_with_all = ["limit", "out", "output", "dry_run", "report", "resume", "hash", "html"])]
    list: bool,

    #[command(flatten)]
    option: OutOption,

    #[command(flatten)]
    how: How,

    #[command(flatten, next_help_heading = "Types for a size")]
    budget: budget::BudgetOptions,
}

/// How a GGUF model is quantized, for every way to choose types.
#[derive(Debug, clap::Args)]
pub struct How {
    /// Allow tensors that are already quantized as input
    #[arg(long)]
    allow_requantize: bool,

    /// Write one output shard per input shard; OUT is the prefix of their names, PREFIX in PREFIX-00001-of-00003.gguf
    #[arg(long, conflicts_with_all = ["split_max_size", "split_max_tensors"])]
    keep_split: bool,

    /// Number of threads; by default, one per processor
    #[arg(short = 'j', long, value_name = "N", value_parser = crate::cmd::at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,

    /// Print the plan without writing anything; reads no weights, or only a sample of them for a target size
    #[arg(short = 'n', long, group = "shown", conflicts_with = "hash")]
    pub dry_run: bool,

    /// Report the quantization error of each tensor; excludes --resume, because kept tensors are not measured again
    #[arg(long, group = "shown", conflicts_with = "resume")]
    report: bool,

    /// Write the report as a page with tables and pictures, in one file that loads nothing; with --force, it may replace another page
    #[arg(long, value_name = "OUT", conflicts_with_all = ["dry_run", "plan_only", "resume"])]
    html: Option<PathBuf>,

    /// Print one JSON object: the plan, the report, the list, or the written files
    #[arg(long)]
    json: bool,

    /// Keep finished work in OUT.partial and OUT.journal if the run is interrupted, and continue an interrupted run
    #[arg(long, conflicts_with = "dry_run")]
    resume: bool,

    /// Reserve this much space in the head for later in-place edits, such as 64K, as the key ggufkit.pad
    #[arg(long, value_name = "SIZE", value_parser = parse_reserve)]
    reserve: Option<u64>,

    /// Overwrite existing output; with --resume, also discard the kept work of another run
    #[arg(short, long)]
    force: bool,

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
    options: Options,

    #[command(flatten)]
    shards: Shards,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        if self.input.is_dir() {
            let (dir, example) = (self.input.display(), "-o OUT --type Q4_K_M");
            let problem =
                format!("{dir}: is a folder; `gguf convert {dir} {example}` quantizes a checkpoint in one pass");
            return Err(Failure::CouldNotRun(problem));
        }
        if let Some(budget) = self.budget.budget(ui, self.how.options.has_matrix())? {
            return self.run_within(ui, budget);
        }
        if self.list {
            return self.how.list(ui, &self.input);
        }
        let rest: Vec<&OsString> = self.out.iter().chain(&self.types).collect();
        let is_type = |text: &OsString| text.to_string_lossy().split(',').all(|name| Goal::is_one(name.trim()));
        let (out, types) = match rest.as_slice() {
            types if self.option.path().is_some() => (self.option.path(), types),
            [] => (None, &[][..]),
            types @ [first, ..] if self.how.dry_run && (types.len() == 1 || is_type(first)) => (None, types),
            [out, types @ ..] => (Some(Path::new(out)), types),
        };
        if types.is_empty() {
            let problem = "expected an output file and a file type, as in `gguf quantize in.gguf out.gguf Q4_K_M`";
            return Err(Failure::CouldNotRun(problem.to_owned()));
        }
        let mut goals = Vec::new();
        for ty in types {
            for name in ty.to_string_lossy().split(',') {
                goals.push(Goal::parse(name.trim()).map_err(|e| {
                    let is_swapped = out.is_some_and(|out| is_type(&out.as_os_str().to_owned()));
                    let help = is_swapped.then(|| "the file type comes last, after the output file".to_owned());
                    e.with_help(help)
                })?);
            }
        }
        match each_once(goals)?.as_slice() {
            [goal] => self.how.run(ui, &self.input, out, goal),
            goals => self.how.run_several(ui, &self.input, out, goals),
        }
    }

    /// Chooses the tensor types for a target size.
    fn run_within(&self, ui: &mut Ui, budget: Budget<'_>) -> Outcome {
        let fail = |problem: &str| Err(Failure::CouldNotRun(problem.to_owned()));
        let how = &self.how;
        let rest: Vec<&OsString> = self.out.iter().chain(&self.types).collect();
        let out = match rest.as_slice() {
            [] if self.option.path().is_some() => self.option.path(),
            [out]
                if self.option.path().is_none()
                    && (Target::parse(&out.to_string_lossy()).is_err() || Path::new(out).exists()) =>
            {
                Some(Path::new(out))
            }
            [] if how.dry_run => None,
            [] => return fail("expected an output file, as in `gguf quantize in.gguf out.gguf --target-size 4.2GiB`"),
            _ => return fail("the target size replaces the file type; omit the type"),
        };
        how.check_out(out)?;
        let within = Within(budget.limit);
        let watch = Watch::new(how.quiet);
        let budget = Budget { threads: how.threads, progress: &watch, ..budget };
        if let Some(n_parts) = self.budget.measure {
            let survey = Survey::new(self.budget.candidates());
            let planned = how.plan(how.draft(ui, &self.input)?, &self.input, &within, &survey, None)?.plan;
            let samples = Samples::new(n_parts, survey.into_samples(&planned));
            let options = how.run_options(Shown::Path, None).protect(self.budget.files());
            let asked = Asked { matrix: how.options.matrix_file()?, samples: Some(samples), run: &options };
            return how.dividing.write(ui, &planned, out, asked, how.quiet);
        }
        let draft = how.draft(ui, &self.input)?;
        let measured = match self.budget.measured.as_slice() {
            [] => None,
            paths => Some(budget::read_measured(paths, &draft, how.options.matrix_file()?.as_ref())?),
        };
        let budget = Budget { measured: measured.as_ref(), ..budget };
        let planned = how.plan(draft, &self.input, &within, &budget, None);
        watch.clear();
        let planned = planned?;
        let file_type = file_type(&planned.plan);
        how.finish(ui, planned, out, &within, &file_type, self.budget.files())
    }
}

impl How {
    /// Quantizes the input, or prints the plan. The options take precedence over the rules of the recipe.
    pub fn run(&self, ui: &mut Ui, input: &Path, out: Option<&Path>, goal: &Goal) -> Outcome {
        self.check_out(out)?;
        let planned = self.plan(self.draft(ui, input)?, input, goal, &goal.target, Some(goal))?;
        self.finish(ui, planned, out, goal, goal, goal.file().into_iter().collect())
    }

    /// Quantizes to several file types from one read, or prints the plan.
    fn run_several(&self, ui: &mut Ui, input: &Path, out: Option<&Path>, goals: &[Goal]) -> Outcome {
        self.check_out(out)?;
        if self.dividing.plan_only.is_some() {
            let problem = "--plan-only: a plan has one file type; make a plan for each";
            return Err(Failure::CouldNotRun(problem.to_owned()));
        }
        if self.html.is_some() {
            let problem = "--html: a page has the report of one file type; write one type at a time";
            return Err(Failure::CouldNotRun(problem.to_owned()));
        }
        out.map_or(Ok(()), output::check_several)?;
        let draft = self.draft(ui, input)?;
        let matrix = self.options.matrix()?;
        let (mut outputs, mut printed) = (Vec::new(), Vec::new());
        // The last target takes the draft itself.
        let drafts = std::iter::repeat_n(draft, goals.len());
        for (goal, draft) in goals.iter().zip(drafts) {
            let mut options = self.quantize_options(input, goal, matrix.as_deref())?;
            goal.apply(&mut options);
            let planned = gguf_quantize::plan(draft, matrix.clone(), &options, &goal.target)?;
            warn_once(ui, &mut printed, planned.warnings.iter().map(ToString::to_string));
            let plan = self.shards.apply(ui, planned.plan)?;
            let path = out.map_or(Ok(PathBuf::new()), |out| output::path_of(out, &plan))?;
            outputs.push(Written { target: goal.to_string(), plan, out: path, checked: None });
        }
        let answer = self.answer();
        let options = self.run_options(answer.shown, out).protect(goals.iter().filter_map(Goal::file));
        if self.dry_run {
            return plan_all(ui, &outputs, &options);
        }
        write_all(ui, &outputs, &options, answer)
    }

    /// Prints the size of the model for each file type.
    fn list(&self, ui: &mut Ui, input: &Path) -> Outcome {
        let matrix = self.options.matrix()?;
        let options = self.quantize_options(input, &Target::Copy, matrix.as_deref())?;
        let draft = self.draft(ui, input)?;
        list::print(ui, input, gguf_quantize::offers(&draft, matrix.as_ref(), &options), self.json)
    }

    /// A draft that copies the input, with the requested chat templates and reserved space.
    fn draft(&self, ui: &mut Ui, input: &Path) -> Result<Draft, Failure> {
        let model = open::model(input)?;
        let warning = findings::warning_of_errors(input, &model);
        let mut draft = Draft::copy_of(model)?;
        warning.iter().for_each(|warning| ui.warning(warning));
        self.templates.apply(&mut draft.head)?;
        if let Some(bytes) = self.reserve {
            gguf_edit::reserve(&mut draft.head, bytes);
        }
        Ok(draft)
    }

    fn quantize_options(
        &self,
        input: &Path,
        target: &dyn Display,
        matrix: Option<&ImatrixFile>,
    ) -> Result<QuantizeOptions, Failure> {
        let mut options = self.options.with(input, target, matrix)?;
        options.allow_requantize = self.allow_requantize;
        options.keep_split = self.keep_split;
        Ok(options)
    }

    fn answer(&self) -> Answer {
        let hashing = self.hash.how(self.threads, self.quiet);
        Answer { shown: Shown::of(self.report, self.json), quiet: self.quiet, hashing }
    }

    fn run_options(&self, shown: Shown, out: Option<&Path>) -> RunOptions {
        RunOptions::default()
            .threads(self.threads)
            .force(self.force)
            .resume(self.resume)
            .measure(shown != Shown::Path || self.html.is_some())
            .create_folders(out.is_some_and(output::names_folders))
            .protect(self.options.files().chain(self.templates.files().map(Path::to_owned)))
    }

    /// Plans the output. The options take precedence over the rules of a recipe.
    fn plan(
        &self,
        draft: Draft,
        input: &Path,
        target: &dyn Display,
        types: &dyn ChooseTypes,
        goal: Option<&Goal>,
    ) -> Result<Quantization, Failure> {
        let matrix = self.options.matrix()?;
        let mut options = self.quantize_options(input, target, matrix.as_deref())?;
        if let Some(goal) = goal {
            goal.apply(&mut options);
        }
        Ok(gguf_quantize::plan(draft, matrix, &options, types)?)
    }

    /// Checks that the output path, if any, can be a file name or a prefix of shard names.
    fn check_out(&self, out: Option<&Path>) -> Result<(), Failure> {
        let Some(out) = out else { return Ok(()) };
        super::not_stdout("OUT", out)?;
        let text = out.to_string_lossy();
        let last = text.rsplit(std::path::is_separator).next();
        if self.keep_split && !out.is_dir() && matches!(last, None | Some("" | "." | "..")) {
            let problem = format!(
                "{text}: is a folder; --keep-split needs a prefix for the shard names, such as {}",
                out.join("model").display()
            );
            return Err(Failure::CouldNotRun(problem));
        }
        Ok(())
    }

    /// Runs a plan, or prints it. `target` is the requested type or size, and `file_type` is the resulting file type. The output must not
    /// replace the files in `protect`.
    fn finish(
        &self,
        ui: &mut Ui,
        planned: Quantization,
        out: Option<&Path>,
        target: &dyn Display,
        file_type: &dyn Display,
        protect: Vec<PathBuf>,
    ) -> Outcome {
        for warning in &planned.warnings {
            ui.warning(&warning.to_string());
        }
        let plan = self.shards.apply(ui, planned.plan)?;
        let answer = self.answer();
        let options = self.run_options(answer.shown, out).protect(protect);
        let out = out.map(|out| output::path_of(out, &plan)).transpose()?;
        if self.dividing.plan_only.is_some() {
            let asked = Asked { matrix: self.options.matrix_file()?, samples: None, run: &options };
            return self.dividing.write(ui, &plan, out.as_deref(), asked, self.quiet);
        }
        let html = self.html.as_deref().map(|page| (page, self.force));
        if let (Some(page), Some(out)) = (&self.html, &out) {
            let outputs = plan.output_paths(out).into_iter().filter(|path| !open::is_url(path));
            gguf_pipeline::check_paths(plan.draft(), outputs.chain([page.clone()]).collect(), &options)?;
        }
        let planned = Planned { html, ..Planned::new(&plan, target) };
        match &out {
            Some(out) if !self.dry_run => planned.write(ui, out, &options, answer, &[]),
            out => planned.dry_run(ui, |disks| JsonPlan::of(&plan, file_type).on(disks), out.as_deref(), &options),
        }
    }
}

/// The file type recorded in the output.
fn file_type(plan: &Plan) -> String {
    let id = plan.head().get(FILE_TYPE).and_then(|value| value.get::<u32>().ok());
    id.map_or(String::new(), |id| FileType(id).to_string())
}
