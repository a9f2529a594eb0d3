//! `gguf migrate`: converts legacy model files and earlier GGUF versions to current GGUF.

use std::io::{BufRead, IsTerminal};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use gguf_format::GgmlType;
use gguf_format::check::Severity;
use gguf_legacy::{Answers, Family, Migration, Question, Treatment};
use gguf_pipeline::RunOptions;
use gguf_pipeline::plan::TensorPlan;
use serde::Serialize;

use super::output::{self, Shards};
use super::planned::{Answer, JsonPlan, Planned, Shown};
use super::preflight::JsonDisk;
use super::quantize::{self, Goal};
use super::templates::ChatTemplates;
use super::writing::{HashOption, tensors};
use crate::failure::{Failure, Outcome, Verdict};
use crate::hints;
use crate::open;
use crate::ui::{Ui, grouped, percent, wrap};
use crate::watch::Watch;

mod metadata;

/// Migrate legacy model files and older GGUF versions to current GGUF.
///
/// Reads GGML, GGMF and GGJT files from llama.cpp, ggml's examples, ggllm.cpp, bloomz.cpp, rwkv.cpp, bert.cpp and whisper.cpp, models in
/// several parts (model.bin, model.bin.1), LoRA adapters (GGLA), GGUF versions 1 and 2, the GGUF draft, and big-endian GGUF. The format
/// is detected from the file's content.
///
/// Tensors are copied if their layout is still current, rearranged if only the order within blocks has changed, and decoded and
/// re-encoded otherwise; --dry-run lists them. Legacy files lack some metadata. On a terminal, gguf asks for it and proposes a value with
/// a reason; otherwise pass the options, the original model's folder with --config, or --yes.
///
/// The output appears under its name once it is complete and on disk. Its path goes to standard output, everything else to
/// standard error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf migrate nous-hermes-13b.ggmlv3.q5_1.bin            ask for missing metadata
  gguf migrate model.ggmlv3.q4_0.bin --yes                accept all proposed values
  gguf migrate model.bin --context-length 2048 --eps 1e-6
  gguf migrate model.bin --config original-model/         use metadata and tokenizer of the original model
  gguf migrate model.bin -o new.gguf --type Q4_K_M        requantize in the same pass
  gguf migrate model.bin --dry-run                        list the tensors")]
pub struct Args {
    /// Input file; the first file of a model in several parts
    file: PathBuf,

    /// Output file; by default, the input name with the extension .gguf
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,

    /// Requantize to a file type such as Q4_K_M
    #[arg(long = "type", value_name = "TYPE", value_parser = Goal::parse_option)]
    ty: Option<Goal>,

    /// Type of tensors whose layout no longer exists
    #[arg(long, value_name = "TYPE", default_value = "q8_0", value_parser = recoded)]
    recode_as: GgmlType,

    /// Number of threads; by default, one per processor
    #[arg(short = 'j', long, value_name = "N", value_parser = crate::cmd::at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,

    /// Print the plan without writing anything; reads only the scales that lose precision
    #[arg(short = 'n', long, conflicts_with = "hash")]
    dry_run: bool,

    /// Print one JSON object: the plan with --dry-run, or the written files
    #[arg(long)]
    json: bool,

    /// Keep finished work in OUT.partial and OUT.journal if the run is interrupted, and continue an interrupted run
    #[arg(long, conflicts_with = "dry_run")]
    resume: bool,

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

    // Last, because the options after it would appear under its heading in the help.
    #[command(flatten)]
    answers: metadata::MetadataOptions,

    #[command(flatten)]
    quantization: quantize::Options,

    #[command(flatten)]
    shards: Shards,
}

/// Parses a tensor type that needs no further information, such as an importance matrix, to encode values.
fn recoded(text: &str) -> Result<GgmlType, String> {
    let ty: GgmlType = text.parse().map_err(|e: gguf_format::UnknownTypeName| e.to_string())?;
    let allowed = [
        GgmlType::F32,
        GgmlType::F16,
        GgmlType::BF16,
        GgmlType::Q8_0,
        GgmlType::Q5_0,
        GgmlType::Q5_1,
        GgmlType::Q4_0,
        GgmlType::Q4_1,
        GgmlType::Q6_K,
        GgmlType::Q5_K,
        GgmlType::Q4_K,
    ];
    match allowed.contains(&ty) {
        true => Ok(ty),
        false => Err("expected f32, f16, bf16, q8_0, q5_0, q5_1, q4_0, q4_1, q6_K, q5_K or q4_K".to_owned()),
    }
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        if self.ty.is_none() && self.quantization.are_given() {
            let problem = "quantization options require a quantized --type, such as Q4_K_M";
            return Err(Failure::CouldNotRun(problem.to_owned()));
        }
        let out = self.output()?;
        self.templates.read()?;
        let input = open::legacy(&self.file, self.answers.family())?;
        let mut answers = self.answers.read(&input)?;
        let asked = gguf_legacy::questions(&input, &answers)?;
        if !asked.is_empty() {
            if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
                return Err(unanswered(&self.file, &asked));
            }
            ask(ui, &asked, &mut answers)?;
        }
        let watch = Watch::new(self.quiet);
        let options = gguf_legacy::Options::default().recoded(self.recode_as).threads(self.threads);
        let planned = gguf_legacy::plan(input, &answers, &options, &watch);
        watch.clear();
        let mut migration = planned?;
        migration.plan = self.templates.applied(migration.plan)?;
        for guess in &migration.guesses {
            ui.note(&format!("guessed {guess}"));
        }
        for warning in &migration.warnings {
            ui.warning(&warning.to_string());
        }
        if self.ty.is_none() {
            migration.plan = self.shards.apply(ui, migration.plan)?;
        }
        match &self.ty {
            Some(goal) => self.quantize(ui, migration, goal, out),
            None => self.finish(ui, &migration, out),
        }
    }

    /// The output path; a dry run may have none.
    fn output(&self) -> Result<Option<PathBuf>, Failure> {
        if let Some(out) = &self.output {
            super::not_stdout("--output", out)?;
            return Ok(Some(out.clone()));
        }
        if self.file.extension().is_some_and(|extension| extension == "gguf") {
            let problem = "the input already ends in .gguf; pass the output file with -o OUT";
            return match self.dry_run {
                true => Ok(None),
                false => Err(Failure::CouldNotRun(format!("{}: {problem}", self.file.display()))),
            };
        }
        let is_number = |e: &std::ffi::OsStr| e.to_str().is_some_and(|e| e.bytes().all(|b| b.is_ascii_digit()));
        let of_first = match self.file.extension() {
            Some(extension) if is_number(extension) && self.file.with_extension("").is_file() => {
                self.file.with_extension("")
            }
            _ => self.file.clone(),
        };
        Ok(Some(match of_first.extension() {
            Some(extension) if ["bin", "ggml", "ggjt", "pth", "pt", "gguf"].iter().any(|e| extension == *e) => {
                of_first.with_extension("gguf")
            }
            _ => {
                let mut name = of_first.into_os_string();
                name.push(".gguf");
                name.into()
            }
        }))
    }

    fn answer(&self) -> Answer {
        Answer { shown: Shown::Path, quiet: self.quiet, hashing: self.hash.how(self.threads, self.quiet) }
    }

    fn run_options(&self) -> RunOptions {
        let options = RunOptions::default().threads(self.threads).force(self.force).resume(self.resume);
        let files = self.quantization.files().chain(self.templates.files().map(Path::to_owned));
        options
            .create_folders(self.output.as_deref().is_some_and(output::names_folders))
            .protect(files.chain(self.ty.as_ref().and_then(Goal::file)))
    }

    /// Quantizes the planned migration without writing the intermediate file.
    fn quantize(&self, ui: &mut Ui, migration: Migration, goal: &Goal, out: Option<PathBuf>) -> Outcome {
        let matrix = self.quantization.matrix()?;
        let mut options = self.quantization.with(&self.file, goal, matrix.as_deref())?;
        goal.apply(&mut options);
        // Migrated tensors may be quantized already, and --type requests requantization.
        options.allow_requantize = true;
        let (known, what) = (errors_of(&migration), what(&migration));
        let planned = gguf_quantize::plan(migration.plan.into_draft(), matrix, &options, &goal.target)?;
        for warning in &planned.warnings {
            ui.warning(&warning.to_string());
        }
        let plan = self.shards.apply(ui, planned.plan)?;
        let planned = Planned::new(&plan, format!("{what}, {goal}"));
        let out = out.map(|out| output::path_of(&out, &plan)).transpose()?;
        match &out {
            Some(out) if !self.dry_run => {
                let verdict = planned.write(ui, out, &self.run_options(), self.answer(), &[])?;
                Ok(verdict.max(check(ui, plan.output_paths(out).first(), &known)?))
            }
            out => {
                planned.dry_run(ui, |disks| JsonPlan::of(&plan, goal).on(disks), out.as_deref(), &self.run_options())
            }
        }
    }

    /// Writes the planned migration, or prints the plan.
    fn finish(&self, ui: &mut Ui, migration: &Migration, out: Option<PathBuf>) -> Outcome {
        let plan = &migration.plan;
        let out = out.map(|out| output::path_of(&out, plan)).transpose()?;
        let planned = Planned {
            left_out: migration.left_out.iter().map(|(name, reason)| (name.as_str(), *reason)).collect(),
            column: migration.tensors.iter().any(|t| t.rounding.is_some()).then(|| rounded(migration)),
            ..Planned::new(plan, what(migration))
        };
        match &out {
            Some(out) if !self.dry_run => {
                let verdict = planned.write(ui, out, &self.run_options(), self.answer(), &treatments(migration))?;
                Ok(verdict.max(check(ui, plan.output_paths(out).first(), &errors_of(migration))?))
            }
            out => planned.dry_run(ui, |disks| document(migration, disks), out.as_deref(), &self.run_options()),
        }
    }
}

/// The column that says how many of a tensor's scales half precision cannot represent exactly.
fn rounded(migration: &Migration) -> (&'static str, Vec<String>) {
    let share = |tensor: &gguf_legacy::Migrated| match tensor.rounding {
        Some(rounding) if rounding.n_inexact == 0 => "none".to_owned(),
        rounding => rounding.map_or(String::new(), |r| percent(r.n_inexact, r.n_scales)),
    };
    ("SCALES ROUNDED", migration.tensors.iter().map(share).collect())
}

/// A description of the input, such as `GGJT version 3, llama`.
fn what(migration: &Migration) -> String {
    match migration.family {
        Some(family) => format!("{}, {family}", migration.container),
        None => migration.container.to_string(),
    }
}

/// The number of tensors per treatment, and the precision lost by scales.
fn treatments(migration: &Migration) -> Vec<String> {
    let mut lines = Vec::new();
    for treatment in [Treatment::Copied, Treatment::Rearranged, Treatment::Rounded, Treatment::Recoded] {
        let of_it: Vec<_> = migration.tensors.iter().filter(|t| t.treatment == treatment).collect();
        if of_it.is_empty() {
            continue;
        }
        let mut line = format!("{} {treatment}", tensors(of_it.len() as u64));
        let roundings = || of_it.iter().filter_map(|t| t.rounding);
        let (n, inexact): (u64, u64) =
            roundings().fold((0, 0), |(n, inexact), r| (n + r.n_scales, inexact + r.n_inexact));
        if n > 0 {
            line += &match inexact {
                0 => format!(": all {} scales are exact in half precision", grouped(n)),
                _ => format!(
                    ": {} of {} scales are not exact in half precision ({})",
                    grouped(inexact),
                    grouped(n),
                    percent(inexact, n)
                ),
            };
            let small: u64 = roundings().map(|r| r.n_small).sum();
            if small > 0 {
                line += &format!(", {} of them below 6.1e-5, where half precision loses bits", grouped(small));
            }
        }
        lines.push(line);
    }
    lines
}

/// The errors of the output that the plan already reported, such as those of an incomplete model.
fn errors_of(migration: &Migration) -> Vec<String> {
    let errors = migration.warnings.iter().filter_map(|warning| match warning {
        gguf_legacy::Warning::Output(finding) if finding.severity == Severity::Error => Some(finding.to_string()),
        _ => None,
    });
    errors.collect()
}

/// Checks the first file of the output, and reports errors that are not in `known`.
fn check(ui: &mut Ui, out: Option<&PathBuf>, known: &[String]) -> Outcome {
    let Some(out) = out else { return Ok(Verdict::Good) };
    let check = ggufkit::check(out)?;
    let mut verdict = Verdict::Good;
    for (_, finding) in check.findings().filter(|(_, finding)| finding.severity == Severity::Error) {
        let text = finding.to_string();
        if !known.contains(&text) {
            ui.warning(&format!("the output: {text}"));
            verdict = Verdict::Bad;
        }
    }
    Ok(verdict)
}

/// The failure that lists the options to pass.
fn unanswered(file: &Path, questions: &[Question]) -> Failure {
    let mut message = format!("{}: the file lacks metadata; pass", file.display());
    for question in questions {
        let option = hints::for_question(question.topic, &question.proposal);
        message += &format!("\n  {option}  ({}: {})", question.topic, question.reason);
    }
    message += "\nor --config DIR with the original model's folder, or --yes to accept these values";
    Failure::CouldNotRun(message)
}

/// Asks the questions on the terminal.
fn ask(ui: &mut Ui, questions: &[Question], answers: &mut Answers) -> Result<(), Failure> {
    ui.note("The file lacks metadata. Press Enter to accept the value in brackets.");
    let stdin = std::io::stdin();
    for question in questions {
        loop {
            let text = format!("{}: {}", question.topic, question.reason);
            for line in wrap(&text, ui.width.unwrap_or(80)) {
                ui.note(&line);
            }
            ui.prompt(&format!("{} [{}]: ", question.topic, question.proposal));
            let mut line = String::new();
            let n = stdin.lock().read_line(&mut line);
            if n.map_err(|e| Failure::CouldNotRun(format!("cannot read from the terminal: {e}")))? == 0 {
                return Err(Failure::CouldNotRun("no answer; nothing was written".to_owned()));
            }
            let answer = if line.trim().is_empty() { question.proposal.as_str() } else { line.trim() };
            match answers.set(question.topic, answer) {
                Ok(()) => break,
                Err(e) => ui.note(&e.to_string()),
            }
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct MigrationPlan {
    container: String,
    architecture: Option<&'static str>,
    file_bytes: u64,
    guesses: Vec<String>,
    warnings: Vec<String>,
    left_out: Vec<String>,
    tensors: Vec<JsonTensor>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    disks: Vec<JsonDisk>,
}

#[derive(Serialize)]
struct JsonTensor {
    name: String,
    source: String,
    shape: Vec<u64>,
    from: String,
    to: String,
    bytes: u64,
    treatment: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    n_scales: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n_scales_rounded: Option<u64>,
}

/// The plan, for JSON.
fn document(migration: &Migration, disks: Vec<JsonDisk>) -> MigrationPlan {
    let tensor = |(t, migrated): (&TensorPlan, &gguf_legacy::Migrated)| JsonTensor {
        name: String::from_utf8_lossy(&t.name).into_owned(),
        source: migrated.from.clone(),
        shape: t.shape.to_vec(),
        from: t.op.inputs().first().map_or(t.from, |input| input.ty).to_string(),
        to: t.ty.to_string(),
        bytes: t.n_bytes(),
        treatment: migrated.treatment.to_string(),
        n_scales: migrated.rounding.map(|r| r.n_scales),
        n_scales_rounded: migrated.rounding.map(|r| r.n_inexact),
    };
    MigrationPlan {
        container: migration.container.to_string(),
        architecture: migration.family.map(Family::architecture),
        file_bytes: migration.plan.file_bytes(),
        guesses: migration.guesses.iter().map(ToString::to_string).collect(),
        warnings: migration.warnings.iter().map(ToString::to_string).collect(),
        left_out: migration.left_out.iter().map(|(name, _)| name.clone()).collect(),
        tensors: migration.plan.tensors().iter().zip(&migration.tensors).map(tensor).collect(),
        disks,
    }
}
