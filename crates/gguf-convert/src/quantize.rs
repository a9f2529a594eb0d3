//! Quantizing: a model, in GGUF or on its way there, becomes one of another file type.
//!
//! As in a conversion, [`plan`] decides everything from the heads, and [`QuantizePlan::run`] streams the tensors. The tensor data
//! and their types are what `llama_model_quantize` of llama.cpp gives, to the byte, whatever the number of threads. The head
//! differs from llama.cpp's where that is at fault: data is aligned as `general.alignment` says, which llama.cpp keeps but does
//! not follow; and what is said of each block goes with the blocks that are left out.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use gguf_arch::mix::recipe::idle_rules;
use gguf_arch::mix::{self, Decision, MixOptions, ModelFacts, Target, TensorFacts};
use gguf_arch::plan::{Input, Op, PlannedTensor, Reason};
use gguf_format::check::{Place, Severity};
use gguf_format::keys::GENERAL_TYPE;
use gguf_format::shard::{SPLIT_COUNT, SPLIT_NO, SPLIT_TENSORS_COUNT, ShardName, ShardNumber};
use gguf_format::{Dialect, GgmlType, Head, Layout, Str, TensorInfo, Value, Version};
use gguf_quants::codec::{Matrix, codec};

use crate::error::Error;
use crate::imatrix::{self, ImatrixFile, Use};
use crate::progress::Progress;
use crate::report::{Errors, Report};
use crate::run::{Importance, Rules, Run};
use crate::source::Source;
use crate::source::gguf::GgufSource;
use crate::write::{NewFile, Writing, write_files};
use crate::{ConversionPlan, QUANTIZATION_VERSION};

pub mod budget;
mod prune;

pub use prune::PruneError;
use prune::prune;

/// What can be chosen about quantizing.
#[derive(Debug, Clone)]
pub struct QuantizeOptions {
    /// What the file becomes.
    pub target: Target,
    /// The choices about tensors. Whether there is an importance matrix is filled in.
    pub mix: MixOptions,
    /// Takes tensors that are quantized already, which loses more than quantizing once.
    pub allow_requantize: bool,
    /// Numbers of blocks that are left out, as the original counts them.
    pub prune_layers: Vec<u64>,
    /// Writes as many shards as the model has, each with the tensors that it has.
    pub keep_split: bool,
    /// Key-values that are set at the end, in order.
    pub overrides: Vec<(String, Value)>,
    /// What the output says about its making, above all about the importance matrix; see
    /// [`provenance`](crate::imatrix::provenance).
    pub provenance: Vec<(&'static str, Value)>,
    /// Other files that were read to make these options, which no output may replace.
    pub also_read: Vec<PathBuf>,
    /// Number of threads; `None` for as many as the machine has processors.
    pub threads: Option<NonZeroUsize>,
    /// Replaces the output if there is one.
    pub force: bool,
    /// Keeps what is done when the run ends early, in `OUT.partial` and `OUT.journal`, and goes on with what an earlier one kept.
    pub resume: bool,
}

impl QuantizeOptions {
    /// Everything as it is by default.
    pub fn new(target: Target) -> QuantizeOptions {
        QuantizeOptions {
            target,
            mix: MixOptions::default(),
            allow_requantize: false,
            prune_layers: Vec::new(),
            keep_split: false,
            overrides: Vec::new(),
            provenance: Vec::new(),
            also_read: Vec::new(),
            threads: None,
            force: false,
            resume: false,
        }
    }
}

/// What is quantized: a head as it stands, and where the data of its tensors comes from.
///
/// The head of a [`conversion`](Original::conversion) stands nowhere but in memory, so a checkpoint becomes a quantized file in
/// one pass.
#[derive(Debug)]
pub struct Original {
    /// The file or folder, for messages.
    path: PathBuf,
    head: Head,
    /// How the data of each tensor of the head comes about.
    ops: Vec<Op>,
    /// The shard that each tensor is in, from 0, and something that orders it there.
    places: Vec<(usize, u64)>,
    source: Box<dyn Source>,
    rules: Rules,
    /// The real paths of the files that are read, which no output may replace.
    inputs: Vec<PathBuf>,
    /// Length of the model's files.
    file_bytes: u64,
    warnings: Vec<String>,
}

impl Original {
    /// The model in GGUF that `path` belongs to, with all its shards.
    ///
    /// # Errors
    /// When a file cannot be read or is no sound GGUF, when a shard is missing, and when the data of a tensor is not whole.
    pub fn open(path: &Path) -> Result<Original, Error> {
        let source = GgufSource::open(path)?;
        let mut head = Head::from_gguf(source.model().gguf());
        head.dialect = Dialect::new(Version::V3);
        head.tensors = source.tensors().to_vec();
        let input = |(index, t): (usize, &TensorInfo)| Input { index, name: shown(&t.name), ty: t.ty };
        Ok(Original {
            path: path.to_owned(),
            head,
            ops: source.tensors().iter().enumerate().map(|t| Op::Copy(input(t))).collect(),
            inputs: source.paths().collect(),
            file_bytes: source.model().files().iter().map(gguf_io::ModelFile::file_bytes).sum(),
            places: source.places().collect(),
            source: Box::new(source),
            rules: Rules::Ggml,
            warnings: Vec::new(),
        })
    }

    /// What a conversion would write. Its type is best [`OutType::Lossless`](crate::OutType::Lossless), so that nothing is rounded
    /// on the way.
    ///
    /// The result is what quantizing the converted file gives, to the byte.
    pub fn conversion(plan: ConversionPlan) -> Original {
        let file_bytes = plan.file_bytes();
        Original {
            path: plan.dir,
            places: (0..).map(|i| (0, i)).take(plan.head.tensors.len()).collect(),
            head: plan.head,
            ops: plan.arch.tensors.into_iter().map(|t| t.op).collect(),
            source: Box::new(plan.checkpoint),
            rules: Rules::Converter,
            inputs: plan.inputs,
            file_bytes,
            warnings: plan.warnings,
        }
    }
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Everything about a quantization but the data.
#[derive(Debug)]
pub struct QuantizePlan<'m> {
    original: Original,
    head: Head,
    layout: Layout,
    /// What is written in place of one file; none if it is one.
    shards: Vec<Shard>,
    tensors: Vec<PlannedTensor>,
    /// The types that the tensors have now.
    from: Vec<GgmlType>,
    decisions: Vec<Decision>,
    matrix: Option<&'m ImatrixFile>,
    /// Names of the matrix's entries, by the tensors' places in the output.
    entries: BTreeMap<usize, Vec<u8>>,
    warnings: Vec<String>,
    also_read: Vec<PathBuf>,
    threads: Option<NonZeroUsize>,
    force: bool,
    resume: bool,
}

/// How the data of a tensor comes about, and its place in the shards of the original.
type Origin<'a> = (&'a Op, (usize, u64));

/// One of several files.
#[derive(Debug)]
struct Shard {
    head: Head,
    layout: Layout,
}

/// Decides everything about quantizing a model, without reading its weights. All that is wrong with an importance matrix, and how
/// it fits the model, is found here.
///
/// # Errors
/// [`Error`], which names the file or tensor.
pub fn plan<'m>(
    original: Original,
    matrix: Option<&'m ImatrixFile>,
    options: &QuantizeOptions,
) -> Result<QuantizePlan<'m>, Error> {
    if original.head.get(GENERAL_TYPE).and_then(|v| v.as_str()).is_some_and(|ty| ty.as_bytes() == b"imatrix") {
        return Err(Error::NotAModel { path: original.path });
    }
    let mut head = original.head.clone();
    if let Target::FileType(ty) = options.target {
        for (key, value) in [("general.quantization_version", QUANTIZATION_VERSION), ("general.file_type", ty.0)] {
            head.remove(key);
            head.set(key, value);
        }
    }
    for key in [SPLIT_NO, SPLIT_COUNT, SPLIT_TENSORS_COUNT] {
        head.remove(key);
    }
    let provenance = options.provenance.iter().map(|(key, value)| (*key, value));
    for (key, value) in options.overrides.iter().map(|(key, value)| (key.as_str(), value)).chain(provenance) {
        head.remove(key);
        head.set(key, value.clone());
    }
    // llama.cpp decides by the number of blocks before some are left out.
    let model = ModelFacts::of(|key| head.get(key));
    let names = prune(&mut head, &options.prune_layers)
        .map_err(|problem| Error::Prune { path: original.path.clone(), problem })?;

    let (mut kept, mut pruned) = (Vec::<(TensorInfo, Vec<u8>, Origin<'_>)>::new(), Vec::new());
    let origins = original.ops.iter().zip(original.places.iter().copied());
    for ((from, name), origin) in std::mem::take(&mut head.tensors).into_iter().zip(names).zip(origins) {
        match name {
            Some(name) => kept.push((from, name, origin)),
            None => pruned.push(from),
        }
    }
    match options.keep_split {
        true => kept.sort_by_key(|(.., (_, place))| *place),
        false => kept.sort_by(|(a, ..), (b, ..)| mix::processing_order(&a.name, &b.name)),
    }
    let facts: Vec<TensorFacts<'_>> =
        kept.iter().map(|(from, name, _)| TensorFacts { name: Str(name), shape: &from.shape, ty: from.ty }).collect();
    let mix_options = MixOptions { has_imatrix: matrix.is_some(), ..options.mix.clone() };
    let decisions = mix::decide(&model, &facts, options.target, &mix_options)
        .map_err(|source| Error::Mix { path: original.path.clone(), source })?;

    let mut warnings = original.warnings.clone();
    let rules = &mix_options.tensor_types;
    let idle = idle_rules(rules.len(), &decisions);
    warnings.extend(idle.into_iter().filter_map(|i| Some(format!("no tensor goes by the rule {}", rules.get(i)?))));
    if let Some(matrix) = matrix {
        // The matrix was measured on the model before blocks were left out.
        let uses = facts.iter().zip(&decisions).map(|(t, decision)| Use::of(t, decision));
        let uses = uses.zip(&kept).map(|(used, (from, ..))| Use { name: Str(&from.name), ..used });
        let pruned = pruned.iter().map(|t| Use { name: Str(&t.name), shape: &t.shape, ty: None, needs_imatrix: false });
        warnings.extend(doubts(matrix, &original.path, &uses.chain(pruned).collect::<Vec<_>>())?);
    }
    let (mut tensors, mut entries) = (Vec::new(), BTreeMap::new());
    let mut replaced = BTreeMap::new();
    for (i, ((from, name, (op, _)), decision)) in kept.iter().zip(&decisions).enumerate() {
        let changes = decision.ty != from.ty;
        if changes && from.ty.is_quantized() && !options.allow_requantize {
            return Err(Error::Requantize { path: original.path.clone(), tensor: shown(name), from: from.ty });
        }
        let entry = matrix.and_then(|m| m.entry(&from.name)).filter(|entry| entry.n_values == columns(from));
        match entry {
            Some(_) => {
                entries.insert(i, from.name.clone());
            }
            // llama.cpp does not ask for the embeddings and the output, and breaks off in the middle of the work.
            None if changes && (decision.needs_imatrix || needs_weights(decision.ty)) => {
                let (path, given) = (original.path.clone(), matrix.is_some());
                return Err(Error::NeedsMatrix { path, tensor: shown(name), ty: decision.ty, given });
            }
            _ => {}
        }
        if let Some(wanted) = decision.instead_of {
            let row = from.shape.first().copied().unwrap_or(1);
            let replaced = replaced.entry((wanted.0, decision.ty.0, row)).or_insert((name, 0u64));
            replaced.1 += 1;
        }
        let (op, shape) = ((*op).clone(), from.shape.clone());
        tensors.push(PlannedTensor { name: shown(name), shape, ty: decision.ty, reason: Reason::Asked, op });
    }
    for ((wanted, ty, row), (first, n)) in replaced {
        let others = match n {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        let (first, wanted, ty) = (Str(first), GgmlType(wanted), GgmlType(ty));
        warnings.push(format!("{first}{others}: {ty} in place of {wanted}, whose blocks do not fit rows of {row}"));
    }
    let from = kept.iter().map(|(from, ..)| from.ty).collect();
    let shard_numbers: Vec<usize> = kept.iter().map(|(.., (_, (shard, _)))| *shard).collect();
    let info = |((from, name, _), decision): ((TensorInfo, Vec<u8>, Origin<'_>), &Decision)| TensorInfo {
        name,
        ty: decision.ty,
        offset: 0,
        ..from
    };
    head.tensors = kept.into_iter().zip(&decisions).map(info).collect();
    let layout = head.layout()?;
    let shards = if options.keep_split { split(&head, &shard_numbers)? } else { Vec::new() };
    let also_read = options.also_read.clone();
    let (threads, force, resume) = (options.threads, options.force, options.resume);
    Ok(QuantizePlan {
        original,
        head,
        layout,
        shards,
        tensors,
        from,
        decisions,
        matrix,
        entries,
        warnings,
        also_read,
        threads,
        force,
        resume,
    })
}

/// What the user should know about a matrix, a sentence each.
///
/// # Errors
/// When it cannot be used.
fn doubts(matrix: &ImatrixFile, model: &Path, uses: &[Use<'_>]) -> Result<Vec<String>, Error> {
    let mut doubts = Vec::new();
    let report = imatrix::check(matrix, uses);
    for finding in report.findings() {
        let place = match finding.place {
            Place::File => String::new(),
            ref place => format!("{place}: "),
        };
        let said = format!("{place}{} ({}); expected {}", finding.message, finding.code, finding.expected);
        match finding.severity {
            Severity::Error => {
                return Err(Error::MatrixAtFault {
                    path: matrix.path().map(Path::to_owned),
                    model: model.to_owned(),
                    finding: said,
                    hint: finding.hint.to_string(),
                    n_more: report.count(Severity::Error).saturating_sub(1),
                });
            }
            Severity::Warning => doubts.push(format!("importance matrix: {said}")),
            _ => {}
        }
    }
    Ok(doubts)
}

/// Splits a head whose tensors are in the shards of these numbers, which rise from 0. As in `llama_model_quantize_impl` of
/// llama.cpp, all keys are in the first, and the keys of the split, with the types that they have there, come last; a single
/// shard has none.
fn split(head: &Head, shard_numbers: &[usize]) -> Result<Vec<Shard>, Error> {
    let n_shards = shard_numbers.last().map_or(1, |last| last.saturating_add(1));
    let too_many = |_| Error::TooManyShards { n_shards };
    let count = u16::try_from(n_shards).map_err(too_many)?;
    let n_tensors = i32::try_from(head.tensors.len()).unwrap_or(i32::MAX);
    let mut tensors = head.tensors.iter().zip(shard_numbers).peekable();
    let shard = |no: u16| {
        let kvs = if no == 0 { head.kvs.clone() } else { Vec::new() };
        let mut head = Head { dialect: head.dialect, kvs, tensors: Vec::new() };
        while let Some((tensor, _)) = tensors.next_if(|(_, shard)| **shard <= usize::from(no)) {
            head.tensors.push(tensor.clone());
        }
        if count > 1 {
            head.set(SPLIT_NO, no);
            head.set(SPLIT_COUNT, count);
            head.set(SPLIT_TENSORS_COUNT, n_tensors);
        }
        let layout = head.layout()?;
        Ok(Shard { head, layout })
    };
    (0..count).map(shard).collect()
}

/// Whether a type cannot be encoded without weights of importance.
fn needs_weights(ty: GgmlType) -> bool {
    codec(ty).is_some_and(|c| c.matrix == Matrix::Required)
}

/// Weights that a matrix has for a tensor: one a column, for each matrix of a stack.
fn columns(tensor: &TensorInfo) -> u64 {
    let dim = |i: usize| tensor.shape.get(i).copied().unwrap_or(1);
    dim(0).saturating_mul(dim(2))
}

impl QuantizePlan<'_> {
    /// The head of the output, as if it were one file.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Bytes of the files that are read, or that a conversion would write.
    pub fn original_bytes(&self) -> u64 {
        self.original.file_bytes
    }

    /// Bytes of all files that are written.
    pub fn file_bytes(&self) -> u64 {
        match self.shards.as_slice() {
            [] => self.layout.file_bytes,
            shards => shards.iter().map(|shard| shard.layout.file_bytes).sum(),
        }
    }

    /// The files that [`run`](QuantizePlan::run) writes when it is given `out`: itself, or when the shards are kept, those of which
    /// it is the prefix. `.gguf` at its end does not count then, nor does the number of a shard.
    pub fn output_paths(&self, out: &Path) -> Vec<PathBuf> {
        if self.shards.is_empty() {
            return vec![out.to_owned()];
        }
        let prefix = match out.to_str().and_then(ShardName::parse) {
            Some(name) => PathBuf::from(name.prefix),
            None if out.extension().is_some_and(|extension| extension == "gguf") => out.with_extension(""),
            None => out.to_owned(),
        };
        let count = u32::try_from(self.shards.len()).unwrap_or(u32::MAX);
        let path = |number: ShardNumber| {
            let mut path = prefix.clone().into_os_string();
            path.push(format!("-{number}.gguf"));
            PathBuf::from(path)
        };
        (1..=count).filter_map(|no| ShardNumber::new(no, count)).map(path).collect()
    }

    /// The output's tensors in order, each with the type it has now and the decision about it.
    pub fn tensors(&self) -> impl Iterator<Item = (&TensorInfo, GgmlType, &Decision)> {
        let both = self.head.tensors.iter().zip(&self.from);
        both.zip(&self.decisions).map(|((to, &from), decision)| (to, from, decision))
    }

    /// How many of the tensors that change their type have weights of importance, and how many there are.
    pub fn coverage(&self) -> (usize, usize) {
        let changing = self.tensors().enumerate().filter(|(_, (to, from, _))| to.ty != *from);
        changing.fold((0, 0), |(covered, n), (i, _)| (covered + usize::from(self.entries.contains_key(&i)), n + 1))
    }

    /// What the user should know, a sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Reads, quantizes and writes everything.
    ///
    /// # Errors
    /// [`Error`]. No output is left then, and a file that had the name before is untouched. What is kept to be resumed, if that
    /// was asked for, [`Error::Kept`] names.
    pub fn run(&self, out: &Path, progress: &dyn Progress) -> Result<(), Error> {
        self.write(out, progress, None)
    }

    /// The same, and measures how far what is written is from the source.
    ///
    /// # Errors
    /// As [`run`](QuantizePlan::run).
    pub fn run_measured(&self, out: &Path, progress: &dyn Progress) -> Result<Report, Error> {
        let errors = Errors::default();
        self.write(out, progress, Some(&errors))?;
        Ok(errors.into_report(&self.tensors, &self.from))
    }

    fn write(&self, out: &Path, progress: &dyn Progress, errors: Option<&Errors>) -> Result<(), Error> {
        let matrix = self.matrix.and_then(|matrix| matrix.path()?.canonicalize().ok());
        let inputs: Vec<PathBuf> =
            self.original.inputs.iter().cloned().chain(matrix).chain(self.also_read.iter().cloned()).collect();
        let run = Run {
            tensors: &self.tensors,
            source: &*self.original.source,
            rules: self.original.rules,
            importance: self.matrix.map(|matrix| Importance { matrix, entries: &self.entries }),
            order: self.head.dialect.order,
            threads: self.threads,
            errors,
        };
        let how = Writing { inputs: &inputs, force: self.force, resume: self.resume };
        let one = [(&self.head, &self.layout)];
        let heads = match self.shards.as_slice() {
            [] => one.to_vec(),
            shards => shards.iter().map(|shard| (&shard.head, &shard.layout)).collect(),
        };
        let (mut files, mut first) = (Vec::new(), 0);
        for (path, (head, layout)) in self.output_paths(out).into_iter().zip(heads) {
            files.push(NewFile { path, head, layout, file_bytes: layout.file_bytes, first });
            first += head.tensors.len();
        }
        write_files(&files, &run, how, progress).map(|_| ())
    }
}
