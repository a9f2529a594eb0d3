//! Checkpoints to GGUF: sources, tokenizers, metadata and the run that streams tensors.
//!
//! A conversion has two steps. [`plan`] reads the small files of a checkpoint folder and the heads of its tensor files
//! and decides everything: a [`ConversionPlan`] holds the whole head of the output and where each tensor comes from. It
//! can be shown and compared. [`ConversionPlan::run`] then reads, converts and writes the tensors. [`convert`] is both.
//!
//! The output is byte for byte what llama.cpp's `convert_hf_to_gguf.py` writes for the same folder.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use gguf_arch::config::{self, Config};
use gguf_arch::plan::Plan;
use gguf_format::check::{Finding, Severity};
use gguf_format::{ByteOrder, Dialect, GgmlType, Gguf, Head, Layout, TensorInfo, Version};

mod error;
mod files;
pub mod imatrix;
mod journal;
pub mod metadata;
pub mod ops;
mod progress;
pub mod quantize;
pub mod report;
mod run;
mod scan;
pub mod source;
pub mod tokenizer;
mod write;

pub use error::{Error, Names};
pub use gguf_arch::plan::{Op, OutType, PlannedTensor, Reason, Skipped};
pub use progress::{Event, Progress};
pub use run::Overflow;
pub use scan::{TensorScan, scan_tensors};

use metadata::{MetadataOptions, ModelMetadata, ParameterCounts};
use run::{Rules, Run};
use source::Checkpoint;
use tokenizer::TokenizerOptions;
use write::{NewFile, Writing, write_files};

/// `general.quantization_version`: the generation of ggml's quantized types (`GGML_QNT_VERSION` in `ggml.h`).
const QUANTIZATION_VERSION: u32 = 2;

/// The most findings about the planned head that become warnings, one each.
const MAX_DOUBTS: usize = 10;

/// What can be chosen about a conversion.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Type of the matrices.
    pub ty: OutType,
    /// The model's name, in place of the one that the folder's files give.
    pub name: Option<String>,
    /// A JSON file of metadata that comes before the folder's own; see [`MetadataOptions::metadata`].
    pub metadata: Option<PathBuf>,
    /// Name of the pre-tokenizer of a BPE vocabulary; `None` to find it out.
    pub pre: Option<String>,
    /// Byte order of the output.
    pub order: ByteOrder,
    /// Writes metadata and tokenizer, but no tensors.
    pub vocab_only: bool,
    /// Number of threads; `None` for as many as the machine has processors.
    pub threads: Option<NonZeroUsize>,
    /// Replaces the output if there is one.
    pub force: bool,
    /// Keeps what is done when the run ends early, in `OUT.partial` and `OUT.journal`, and goes on with what an earlier one kept.
    pub resume: bool,
}

/// Everything about a conversion but the data: what [`plan`] decides.
#[derive(Debug)]
pub struct ConversionPlan {
    dir: PathBuf,
    arch: Plan,
    head: Head,
    layout: Layout,
    warnings: Vec<String>,
    metadata: ModelMetadata,
    checkpoint: Checkpoint,
    options: Options,
    /// The real paths of the files that are read, which no output may replace.
    inputs: Vec<PathBuf>,
}

/// What a conversion has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The file.
    pub path: PathBuf,
    /// Its length.
    pub file_bytes: u64,
    /// Number of tensors in it.
    pub n_tensors: usize,
    /// Number of elements in all tensors.
    pub n_parameters: u64,
    /// GGUF's name of the architecture.
    pub architecture: &'static str,
    /// Type of the matrices.
    pub ty: GgmlType,
    /// Tensors in which finite values became infinite.
    pub overflows: Vec<Overflow>,
    /// What the user should know, a sentence each.
    pub warnings: Vec<String>,
}

/// Converts the checkpoint in `dir` to a GGUF file at `out`; see [`ConversionPlan::output_path`] for names of folders and
/// templates.
///
/// # Errors
/// [`Error`]. No output is left then, and a file that had the name before is untouched.
pub fn convert(dir: &Path, out: &Path, options: &Options, progress: &dyn Progress) -> Result<Summary, Error> {
    plan(dir, options)?.run(out, progress)
}

/// Decides everything about the conversion of the checkpoint in `dir`, without reading its weights.
///
/// # Errors
/// [`Error`], which names the file and the field or tensor.
pub fn plan(dir: &Path, options: &Options) -> Result<ConversionPlan, Error> {
    let config = read_config(dir)?;
    let checkpoint = match Checkpoint::open(dir) {
        Err(Error::NoWeights { .. }) if options.vocab_only => Checkpoint::empty(),
        opened => opened?,
    };
    let plan_of = |source| Error::Plan { dir: dir.to_owned(), source };
    let mut arch = gguf_arch::plan::plan(&config, checkpoint.tensors(), options.ty).map_err(plan_of)?;
    if options.vocab_only {
        arch.tensors.clear();
    }

    let total = arch.n_parameters().and_then(|n| i64::try_from(n).ok()).unwrap_or(i64::MAX);
    let counts = ParameterCounts { total, shared: total.unsigned_abs(), ..ParameterCounts::default() };
    let overrides = MetadataOptions { model_name: options.name.clone(), metadata: options.metadata.clone() };
    let metadata = metadata::key_values(dir, &overrides, &counts)?;
    let tokenizer_options = TokenizerOptions { pre: options.pre.clone() };
    let tokenizer = tokenizer::key_values(dir, config.hparams(), &tokenizer_options)?;

    let mut head = Head { dialect: Dialect::new(Version::V3).with_order(options.order), ..Head::default() };
    head.set("general.architecture", arch.architecture);
    let parameters = arch.parameters.iter().cloned();
    let version = ("general.quantization_version".to_owned(), QUANTIZATION_VERSION.into());
    let all = metadata.kvs.iter().cloned().chain(parameters).chain([version]).chain(tokenizer.kvs);
    for (key, value) in all {
        head.set(&key, value);
    }
    let info = |t: &gguf_arch::plan::PlannedTensor| TensorInfo {
        name: t.name.clone().into_bytes(),
        shape: t.shape.clone(),
        ty: t.ty,
        offset: 0,
    };
    head.tensors = arch.tensors.iter().map(info).collect();
    let layout = head.layout()?;
    let mut warnings: Vec<String> =
        [&arch.warnings, &metadata.warnings, &tokenizer.warnings].into_iter().flatten().cloned().collect();
    warnings.extend(doubts(&head, &layout)?);
    let mut inputs = files::small_files(dir);
    inputs.extend(checkpoint.paths().map(Path::to_owned));
    inputs.extend(options.metadata.as_ref().and_then(|file| file.canonicalize().ok()));
    let (dir, options) = (dir.to_owned(), options.clone());
    Ok(ConversionPlan { dir, arch, head, layout, warnings, metadata, checkpoint, options, inputs })
}

/// What the check of models says against the planned head: a sentence for each error, and for each warning about keys,
/// values and tensors, as far as [`MAX_DOUBTS`].
///
/// The bytes stay those of the reference, which writes such files too; but nobody should learn of it only when the model
/// does not load.
fn doubts(head: &Head, layout: &Layout) -> Result<Vec<String>, Error> {
    let bytes = head.encode(layout)?;
    let Ok(gguf) = Gguf::parse(bytes) else { return Ok(Vec::new()) };
    let report = gguf_arch::check::model(&[&gguf], None);
    let counts = |f: &Finding| match f.severity {
        Severity::Error => true,
        Severity::Warning => ["key.", "value.", "tensor."].iter().any(|kind| f.code.starts_with(kind)),
        _ => false,
    };
    let found: Vec<_> = report.findings().filter(|f| counts(f)).collect();
    let sentence = |f: &Cow<'_, Finding>| {
        format!("the output will be at fault: {}: {} ({}); expected {}", f.place, f.message, f.code, f.expected)
    };
    let mut doubts: Vec<String> = found.iter().take(MAX_DOUBTS).map(sentence).collect();
    match found.len().saturating_sub(MAX_DOUBTS) {
        0 => {}
        more => doubts.push(format!("the output will be at fault in {more} more ways; check it to see them all")),
    }
    Ok(doubts)
}

fn read_config(dir: &Path) -> Result<Config, Error> {
    const FILE: &str = "config.json";
    let Some(document) = files::read_json(dir, FILE)? else {
        return Err(Error::NoConfig { dir: dir.to_owned() });
    };
    Config::new(document).map_err(|source: config::Error| Error::Config { file: dir.join(FILE), source })
}

impl ConversionPlan {
    /// The decisions of the architecture: tensors, types, reasons, what is left out.
    pub fn arch(&self) -> &Plan {
        &self.arch
    }

    /// The head of the output: all key-values and tensors.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Where everything lands.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What the user should know, a sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The file that [`run`](ConversionPlan::run) writes when it is given `out`: [`output_path_as`](Self::output_path_as) with the
    /// type of the matrices.
    pub fn output_path(&self, out: &Path) -> PathBuf {
        self.output_path_as(out, &self.arch.ty.to_string())
    }

    /// The file to write when `out` is asked for and the type is called `ty`: in a folder, the file's default name, made of the
    /// model's name, size, version and type; otherwise `out` itself, with `{ftype}` and `{FTYPE}` in its last part replaced by the
    /// type.
    pub fn output_path_as(&self, out: &Path, ty: &str) -> PathBuf {
        if out.is_dir() {
            return out.join(metadata::default_file_name(&self.metadata, (!self.options.vocab_only).then_some(ty)));
        }
        match out.file_name().and_then(|name| name.to_str()) {
            Some(name) if name.contains('{') => {
                let upper = ty.to_uppercase();
                let lower = ty.to_lowercase();
                let name = name.replace("{ftype}", &lower).replace("{outtype}", &lower);
                out.with_file_name(name.replace("{FTYPE}", &upper).replace("{OUTTYPE}", &upper))
            }
            _ => out.to_owned(),
        }
    }

    /// Length of the output. The reference ends a file without data section where the head ends, without padding.
    pub fn file_bytes(&self) -> u64 {
        if self.options.vocab_only { self.layout.head_bytes } else { self.layout.file_bytes }
    }

    /// Reads, converts and writes everything.
    ///
    /// # Errors
    /// [`Error`]. No output is left then, and a file that had the name before is untouched. What is kept to be resumed, if that
    /// was asked for, [`Error::Kept`] names.
    pub fn run(&self, out: &Path, progress: &dyn Progress) -> Result<Summary, Error> {
        let path = self.output_path(out);
        let run = Run {
            tensors: &self.arch.tensors,
            source: &self.checkpoint,
            rules: Rules::Converter,
            importance: None,
            order: self.options.order,
            threads: self.options.threads,
            errors: None,
        };
        let how = Writing { inputs: &self.inputs, force: self.options.force, resume: self.options.resume };
        let file_bytes = self.file_bytes();
        let file = NewFile { path: path.clone(), head: &self.head, layout: &self.layout, file_bytes, first: 0 };
        let overflows = write_files(&[file], &run, how, progress)?;
        Ok(Summary {
            path,
            file_bytes: self.file_bytes(),
            n_tensors: self.arch.tensors.len(),
            n_parameters: self.arch.n_parameters().unwrap_or(u64::MAX),
            architecture: self.arch.architecture,
            ty: self.arch.ty,
            overflows,
            warnings: self.warnings.clone(),
        })
    }
}

/// The examples of the README, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
