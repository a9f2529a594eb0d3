//! GGUF files back to checkpoints: the tables of architectures, read backwards.
//!
//! 1. The classes of checkpoints that are converted to the file's architecture are candidates. For each, the formulas of the table are solved for
//!    the fields of `config.json` (`solve.rs`, `config.rs`).
//! 2. Each tensor of the file names its sources, and patterns give their shapes (`sources.rs`).
//! 3. With the tokenizer's files (`tokenizer.rs`) and the model card (`card.rs`), this is a folder without values. Its conversion is planned, which
//!    shows what differs from the file, and how each tensor of the file is made. The candidate with the fewest differences is taken.
//! 4. These operations are inverted, and become the operations of the tensors of the new folder, which the pipeline runs (`restore.rs`).
//!
//! Encoders of images and sound are models whose classes are those of their tables. Adapters take the names of their modules from the base model
//! (`adapter.rs`).

mod adapter;
mod card;
mod config;
mod fields;
mod files;
mod folder;
mod key_values;
mod losses;
mod parameters;
pub(crate) mod problem;
mod restore;
mod solve;
mod sources;
mod tokenizer;
mod values;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_format::{GgmlType, Gguf, ValueRef};
use gguf_io::IntoModel;
use gguf_model::arch::{Architecture, Checkpoint, Reader, RowOp};
use gguf_pipeline::plan::Op;
use gguf_pipeline::{GgufSource, Plan, Progress, RunOptions, RunSummary, TensorPlan};
use serde_json::{Value as Json, json};

use self::config::{Candidate, TensorFacts, candidates};
use self::files::{grouped, shards};
use self::folder::PlannedFolder;
pub use self::problem::{ExportProblem, ExportWarning};
use self::restore::{Contents, Stored};
use self::sources::{FileTensor, is_computed, name_in_block, sources};
use crate::conversion::Conversion;
use crate::convert::plan_folder;
use crate::dtype::Dtype;
use crate::error::Error;
use crate::facts::Fact;
use crate::folder::Folder;
use crate::model_plan::{Mtp, OutType};
use crate::options::Options;

/// The tensor of the divisors of rotary frequencies.
const ROPE_FREQS: &str = "rope_freqs.weight";

/// The tensors of the divisors for long and short texts, and their fields.
const ROPE_FACTORS: [(&str, &str); 2] =
    [("rope_factors_long.weight", "long_factor"), ("rope_factors_short.weight", "short_factor")];

/// The special tokens: the kind in configurations, and the name in keys.
const TOKEN_IDS: [(&str, &str); 6] =
    [("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("sep", "seperator"), ("pad", "padding"), ("mask", "mask")];

/// The file of the configuration.
const CONFIG: &str = "config.json";

/// Export options.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExportOptions {
    /// The type of all tensors of numbers: F32, F16 or BF16; `None` for that of each tensor, and BF16 for quantized ones.
    pub ty: Option<GgmlType>,
    /// The size in bytes beyond which tensors are divided among several files.
    pub max_file_bytes: u64,
    /// The name of the new folder, which names a model without another name.
    pub folder: PathBuf,
    /// For an adapter, the folder of its base model, of which no values of tensors are read; see [`folder`] for one that is a GGUF file.
    pub base: Option<Arc<dyn Folder>>,
}

impl Default for ExportOptions {
    fn default() -> ExportOptions {
        ExportOptions { ty: None, max_file_bytes: 5_000_000_000, folder: PathBuf::from("model"), base: None }
    }
}

impl ExportOptions {
    /// Sets the type of all tensors.
    pub fn ty(mut self, ty: Option<GgmlType>) -> ExportOptions {
        self.ty = ty;
        self
    }

    /// Sets the size beyond which tensors are divided among several files.
    pub fn max_file_bytes(mut self, bytes: u64) -> ExportOptions {
        self.max_file_bytes = bytes;
        self
    }

    /// Sets the folder of an adapter's base model.
    pub fn base(mut self, base: Option<impl Folder + 'static>) -> ExportOptions {
        self.base = base.map(|base| Arc::new(base) as _);
        self
    }

    /// Sets the name of the new folder.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> ExportOptions {
        self.folder = folder.into();
        self
    }
}

/// A planned export.
#[derive(Debug)]
#[non_exhaustive]
pub struct Export {
    /// The plan of all files; its path is the folder.
    pub plan: Plan,
    /// The architecture of the file.
    pub architecture: String,
    /// The class of the checkpoint, the first of `architectures` in `config.json`.
    pub class: String,
    /// What a conversion of the folder gives otherwise than the file, and what is missing.
    pub warnings: Vec<ExportWarning>,
}

impl Export {
    /// Writes the folder, which is created if it is missing.
    ///
    /// # Errors
    /// [`Error`]. No file is left then, and existing files are unchanged.
    pub fn run(&self, out: &Path, options: &RunOptions, progress: &dyn Progress) -> Result<RunSummary, Error> {
        if out.exists() {
            self.check_folder(out)?;
        }
        Ok(self.plan.run(out, &options.clone().create_folders(true), progress)?)
    }

    /// Checks that no other tensor files are in the folder, which readers would take for a part of the model.
    fn check_folder(&self, out: &Path) -> Result<(), Error> {
        let entries = std::fs::read_dir(out).map_err(|source| Error::io("list", out, source))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let is_other = |name: &String| {
            let is_tensors = name.ends_with(".safetensors") || name.ends_with(".bin") || name.ends_with(".index.json");
            is_tensors && !self.plan.files().iter().any(|file| file.name() == Some(name))
        };
        let mut others: Vec<String> = names.filter(is_other).collect();
        others.sort();
        match others.into_iter().next() {
            None => Ok(()),
            Some(file) => {
                Err(Error::Export { path: out.to_owned(), problem: Box::new(ExportProblem::OtherFile { file }) })
            }
        }
    }
}

/// Plans the export of a model to a folder that transformers loads, and that converts to the same file. Encoders of images and sound
/// become a folder with nothing else, and an adapter one that PEFT loads.
///
/// ```
/// # let bytes = gguf_io::Writer::write(Vec::new(), &gguf_format::Head::default(), [[0u8; 0]; 0])?;
/// # let model = gguf_io::Model::from_source(bytes, "model.gguf")?;
/// use gguf_hf::export::{self, ExportOptions, ExportProblem};
/// use gguf_hf::Error;
///
/// let error = export::plan(model, &ExportOptions::default().folder("my-model")).unwrap_err();
/// // A file without metadata is not a model.
/// assert!(matches!(error, Error::Export { problem, .. } if *problem == ExportProblem::NoArchitecture));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Export`] if no checkpoint is known that converts to such a file; errors of reading the model.
pub fn plan(model: impl IntoModel, options: &ExportOptions) -> Result<Export, Error> {
    let stored = Stored::new(GgufSource::open(model).map_err(Error::Pipeline)?);
    planned(&stored, options).map_err(|e| stored.error(e))
}

/// The folder that the export of a model has, without the values of its tensors: the base model of an adapter, for [`ExportOptions::base`].
///
/// # Errors
/// As for [`plan`].
pub fn folder(model: impl IntoModel, options: &ExportOptions) -> Result<Box<dyn Folder>, Error> {
    let stored = Stored::new(GgufSource::open(model).map_err(Error::Pipeline)?);
    Ok(Box::new(Attempt::best(&stored, options).map_err(|e| stored.error(e.into()))?.folder))
}

fn planned(stored: &Stored, options: &ExportOptions) -> Result<Export, Failed> {
    let gguf = stored.source.model().gguf();
    match gguf.get_as::<&str>("general.type") {
        Ok("adapter") => adapter::plan(stored, architecture_of(gguf)?, options),
        Ok("model" | "mmproj") | Err(_) => {
            if options.base.is_some() {
                return Err(ExportProblem::NotAnAdapter.into());
            }
            Attempt::best(stored, options)?.planned(stored, architecture_of(gguf)?)
        }
        Ok(kind) => Err(ExportProblem::Kind { kind: kind.to_owned() }.into()),
    }
}

fn architecture_of(gguf: &Gguf<'_>) -> Result<String, ExportProblem> {
    gguf.get_as::<&str>("general.architecture").map(str::to_owned).map_err(|_| ExportProblem::NoArchitecture)
}

/// How checkpoints of a class come back from files of an architecture.
pub fn fidelity(architecture: &Architecture, checkpoint: &Checkpoint, class: &str) -> Fidelity {
    let name = checkpoint.architecture(architecture);
    let known = losses::LOSSES.iter().find(|(known, of, _)| *known == class && *of == name);
    known.map_or_else(|| fidelity_of_table(architecture, checkpoint), |(.., fidelity)| *fidelity)
}

/// How checkpoints come back, by the rows of an architecture.
fn fidelity_of_table(architecture: &Architecture, checkpoint: &Checkpoint) -> Fidelity {
    let rows = architecture.outside().chain(architecture.block()).map(|tensor| tensor.row);
    for row in rows.filter(|row| !row.source.is_empty()) {
        match row.op {
            RowOp::RoundToMean => return Fidelity::Lossy("weights are rounded to three values"),
            RowOp::SumParts => return Fidelity::None("tensors are added up"),
            RowOp::BatchNorm(_) => return Fidelity::None("batch normalizations are folded into weights"),
            RowOp::ResizeGrid(_) => return Fidelity::None("grids of positions are resized"),
            _ => {}
        }
    }
    let is_written = |reader: &Reader| {
        matches!(
            reader,
            Reader::Bpe
                | Reader::Gpt2
                | Reader::SentencePiece
                | Reader::ChangedSentencePiece(_)
                | Reader::WordPiece
                | Reader::JinaBert
                | Reader::XlmRoberta
                | Reader::NomicXlmRoberta
                | Reader::T5
                | Reader::Gemma4
                | Reader::Tiktoken { .. }
                | Reader::RwkvWorld
                | Reader::Plamo { .. }
                | Reader::Entries
        )
    };
    let readers = checkpoint.tokenizer.vocab.readers;
    match readers.is_empty() || readers.iter().any(is_written) {
        true => Fidelity::Exact,
        false => Fidelity::None("no files of its tokenizer are written"),
    }
}

/// How the checkpoints of a class come back from an export: whether a conversion of the exported folder has the bytes of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fidelity {
    /// All of them, byte for byte.
    Exact,
    /// All but some, which are described.
    Except(&'static str),
    /// They are exported, but lose something.
    Lossy(&'static str),
    /// They are not exported. Holds the reason.
    None(&'static str),
}

/// The number of classes that are tried.
const MAX_CANDIDATES: usize = 8;

/// Why an attempt cannot be planned.
enum Failed {
    Problem(ExportProblem),
    Pipeline(gguf_pipeline::Error),
}

impl From<ExportProblem> for Failed {
    fn from(problem: ExportProblem) -> Failed {
        Failed::Problem(problem)
    }
}

/// Small files, by name.
type Documents = BTreeMap<String, Vec<u8>>;

/// The rotary scaling that tensors hold, as a field of `config.json`.
fn rope_scaling(stored: &Stored) -> Option<RopeScaling> {
    let values = |name: &str| stored.values(name);
    if let Some(factors) = values(ROPE_FREQS) {
        return Some(RopeScaling::Llama3(factors));
    }
    let lists: Option<Vec<(&str, Json)>> = ROPE_FACTORS
        .iter()
        .map(|(tensor, field)| Some((*field, values(tensor)?.into_iter().map(key_values::short).collect())))
        .collect();
    let mut object = serde_json::Map::new();
    object.insert("type".to_owned(), json!("longrope"));
    for (field, list) in lists? {
        object.insert(field.to_owned(), list);
    }
    Some(RopeScaling::Long(Json::Object(object)))
}

/// The rotary scaling that tensors hold.
#[derive(Debug, Clone)]
enum RopeScaling {
    /// The divisors that [`Computed::Llama3Freqs`](gguf_model::arch::Computed::Llama3Freqs) computes.
    Llama3(Vec<f32>),
    /// `rope_scaling` of `config.json`.
    Long(Json),
}

impl RopeScaling {
    /// `rope_scaling`, or the first guess.
    fn first(&self) -> Json {
        match self {
            RopeScaling::Llama3(divisors) => RopeScaling::llama3(divisors).next().unwrap_or_default(),
            RopeScaling::Long(scaling) => scaling.clone(),
        }
    }

    /// Scalings with the largest of the divisors as factor, and usual other numbers, those of Llama 3 first.
    fn llama3(divisors: &[f32]) -> impl Iterator<Item = Json> + use<> {
        const ORIGINAL: [u32; 11] = [8192, 4096, 2048, 1024, 512, 256, 128, 16384, 32768, 65536, 131_072];
        const RANGES: [(f64, f64); 5] = [(1.0, 4.0), (1.0, 2.0), (1.0, 8.0), (1.0, 32.0), (2.0, 4.0)];
        let factor = key_values::short(divisors.iter().copied().fold(1.0, f32::max));
        ORIGINAL.into_iter().flat_map(move |original| {
            let factor = factor.clone();
            RANGES.into_iter().map(move |(low, high)| {
                json!({
                    "rope_type": "llama3",
                    "factor": factor,
                    "low_freq_factor": low,
                    "high_freq_factor": high,
                    "original_max_position_embeddings": original,
                })
            })
        })
    }
}

/// A folder of one class, and what its conversion gives.
struct Attempt {
    candidate: Candidate,
    contents: Contents,
    /// The folder, without values.
    folder: PlannedFolder,
    conversion: Conversion,
    differences: Vec<ExportWarning>,
}

impl Attempt {
    /// The class whose conversion has the fewest differences from the file.
    fn best(stored: &Stored, options: &ExportOptions) -> Result<Attempt, ExportProblem> {
        let gguf = stored.source.model().gguf();
        let architecture = architecture_of(gguf)?;
        let n_rows = |name: &str| stored.get(name).and_then(|tensor| tensor.shape.first().copied());
        let listed = gguf.get("tokenizer.ggml.tokens").and_then(|value| value.as_array());
        let n_listed = listed.map(|list| list.len());
        let facts = TensorFacts {
            has: &|name| stored.get(name).is_some(),
            n_tokens: n_rows("token_embd.weight").or(n_listed),
            n_types: n_rows("token_types.weight"),
            rope: rope_scaling(stored),
            constant: &|name| stored.constant(name),
        };
        let (mut best, mut first): (Option<Attempt>, Option<ExportProblem>) = (None, None);
        for candidate in candidates(gguf, &facts).into_iter().take(MAX_CANDIDATES) {
            match Attempt::new(candidate, stored, options) {
                Ok(attempt) => {
                    let is_exact = attempt.differences.is_empty();
                    if best.as_ref().is_none_or(|best| attempt.differences.len() < best.differences.len()) {
                        best = Some(attempt);
                    }
                    if is_exact {
                        break;
                    }
                }
                Err(problem) => {
                    first.get_or_insert(problem);
                }
            }
        }
        best.ok_or_else(|| first.unwrap_or(ExportProblem::Architecture { name: architecture }))
    }

    fn new(candidate: Candidate, stored: &Stored, options: &ExportOptions) -> Result<Attempt, ExportProblem> {
        let (gguf, tensors) = (stored.source.model().gguf(), &stored.tensors);
        let new = sources(&candidate, gguf, tensors)?;
        let mut parameters = parameters::of(&candidate, stored);
        for parameter in &mut parameters {
            if let Some(name) = name_in_block(&candidate, &parameter.tensor.name, &new) {
                parameter.tensor.name = name;
            }
        }
        let mut typed = Vec::with_capacity(new.len());
        for tensor in new {
            let of = tensors.get(tensor.of).map_or(GgmlType::F32, |tensor| tensor.ty);
            let dtype = dtype_of(of, options.ty)
                .ok_or_else(|| ExportProblem::Type { tensor: tensor.name.clone(), ty: of.to_string() })?;
            typed.push((tensor, dtype));
        }
        let main = typed.iter().find(|(tensor, _)| tensor.shape.len() > 1).map_or(Dtype::F32, |(_, dtype)| *dtype);
        // The blocks of a quantized file do not come back, so neither need the places of its tensors.
        let groups = grouped(typed, options.max_file_bytes, !is_quantized(tensors));
        let (shards, index) = shards(&groups, &parameters);
        let mut documents = Documents::new();
        documents.extend(index.map(|index| ("model.safetensors.index.json".to_owned(), pretty(&index))));
        let mut document = candidate.document.clone();
        document.insert("torch_dtype".to_owned(), json!(torch_name(main)));
        let preprocessor = document.remove(config::PREPROCESSOR);
        documents.extend(preprocessor.map(|settings| ("preprocessor_config.json".to_owned(), pretty(&settings))));
        documents.insert(CONFIG.to_owned(), pretty(&Json::Object(document)));
        if !candidate.is_tower {
            let tokenizer = tokenizer::files(gguf, candidate.checkpoint);
            documents.extend(tokenizer.map_err(|reason| ExportProblem::Tokenizer { reason })?);
        } else if !candidate.added_tokens.is_empty() {
            let settings = tokenizer::only_added(&candidate.added_tokens);
            documents.insert("tokenizer_config.json".to_owned(), pretty(&settings));
        }
        documents.extend(card::files(gguf));
        let reads_pooling = |key: &gguf_model::arch::Key| crate::formula::reads(key.formula, Fact::SentencePooling);
        if candidate.checkpoint.keys.iter().copied().flatten().any(reads_pooling) {
            documents.extend(card::modules(gguf, candidate.checkpoint));
        }

        let mut folder = PlannedFolder::new(&options.folder);
        for (name, bytes) in &documents {
            folder.insert(name, bytes.clone(), bytes.len() as u64);
        }
        for shard in &shards {
            folder.insert(&shard.name, shard.head.clone(), shard.n_bytes);
        }
        let ty = gguf.get("general.file_type").and_then(|n| n.as_integer());
        let ty = match ty {
            Some(0) => OutType::F32,
            Some(1) => OutType::F16,
            Some(32) => OutType::BF16,
            Some(7) => OutType::Q8_0,
            _ => OutType::Auto,
        };
        let has_tensors = !tensors.is_empty();
        let order = gguf.dialect().order;
        let asked = Options::default().ty(ty).order(order).vocab_only(!has_tensors).projector(candidate.is_tower);
        let asked = asked.mtp(candidate.mtp);
        let asked = match candidate.checkpoint.is_draft {
            true => asked.target(Some(folder.clone())),
            false => asked,
        };
        let refused = |e: Error| ExportProblem::Refused { class: candidate.class.to_owned(), message: e.to_string() };
        let conversion = plan_folder(&folder, &asked).map_err(refused)?;
        let differences = differences_of(gguf, stored, &conversion)?;
        let contents = Contents { documents, groups, shards };
        Ok(Attempt { candidate, contents, folder, conversion, differences })
    }

    /// The plan: the operations of the conversion, inverted.
    fn planned(self, stored: &Stored, architecture: String) -> Result<Export, Failed> {
        let Attempt { candidate, contents, conversion, differences: mut warnings, .. } = self;
        if candidate.mtp != Mtp::Included {
            warnings.push(ExportWarning::Mtp { mtp: candidate.mtp });
        }
        if tokenizer::derives_merges(stored.source.model().gguf(), &contents.documents) {
            warnings.push(ExportWarning::Merges);
        }
        let plan = stored.planned(&conversion, contents, |name| is_computed(&candidate, name), &mut warnings)?;
        Ok(Export { plan, architecture, class: candidate.class.to_owned(), warnings })
    }
}

/// The format of a tensor in the checkpoint.
fn dtype_of(stored: GgmlType, asked: Option<GgmlType>) -> Option<Dtype> {
    let own = Dtype::ALL.iter().copied().find(|dtype| dtype.ggml == Some(stored));
    match own {
        Some(dtype) if matches!(dtype.name, "I8" | "I16" | "I32" | "I64") => Some(dtype),
        _ if !stored.is_quantized() && own.is_none() => None,
        _ => {
            let ty = asked.or(own.and_then(|dtype| dtype.ggml)).unwrap_or(GgmlType::BF16);
            Dtype::ALL.iter().copied().find(|dtype| dtype.ggml == Some(ty))
        }
    }
}

/// The name of a format in transformers.
fn torch_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::BF16 => "bfloat16",
        Dtype::F16 => "float16",
        _ => "float32",
    }
}

/// A JSON document with lines.
fn pretty(document: &Json) -> Vec<u8> {
    let mut text = serde_json::to_string_pretty(document).unwrap_or_default();
    text.push('\n');
    text.into_bytes()
}

/// Keys that say how the file was made, and nothing about the model.
fn is_about_file(key: &str) -> bool {
    const STARTS: [&str; 6] = [
        "split.",
        "quantize.",
        "ggufkit.",
        "general.file_type",
        "general.quantization_version",
        "general.quantized_by",
    ];
    STARTS.iter().any(|start| key.starts_with(start))
}

fn is_quantized(tensors: &[FileTensor]) -> bool {
    tensors.iter().any(|tensor| tensor.ty.is_quantized())
}

/// What a conversion gives otherwise than the file.
fn differences_of(
    gguf: &Gguf<'_>,
    stored: &Stored,
    conversion: &Conversion,
) -> Result<Vec<ExportWarning>, ExportProblem> {
    let tensors = &stored.tensors;
    let mut found = Vec::new();
    let made = conversion.plan.tensors();
    let names: HashMap<String, usize> = made.iter().enumerate().map(|(i, tensor)| (tensor.shown(), i)).collect();
    let is_quantized = is_quantized(tensors);
    let mut places = Vec::new();
    for tensor in tensors {
        let Some(&place) = names.get(&tensor.name) else {
            return Err(ExportProblem::OtherTensors { tensor: tensor.name.clone(), is_in_file: true });
        };
        places.push(place);
        let Some(new) = made.get(place) else { continue };
        let mut shape: Vec<u64> = new.shape.iter().copied().collect();
        shape.reverse();
        if shape != tensor.shape {
            return Err(ExportProblem::Shape { tensor: tensor.name.clone(), shape: tensor.shape.clone() });
        }
        if let Op::Computed(values) = &new.op
            && stored.values(&tensor.name).is_some_and(|own| own != *values)
        {
            found.push(ExportWarning::Values { tensor: tensor.name.clone() });
        }
        if !is_quantized && new.ty != tensor.ty {
            found.push(ExportWarning::TensorType { tensor: tensor.name.clone() });
        }
    }
    let has = |tensor: &&TensorPlan| tensors.iter().any(|own| own.name == tensor.shown());
    if let Some(tensor) = made.iter().find(|tensor| !has(tensor)) {
        return Err(ExportProblem::OtherTensors { tensor: tensor.shown(), is_in_file: false });
    }
    if !is_quantized && !places.is_sorted() {
        found.push(ExportWarning::Order { what: "tensors" });
    }
    let mut order = Vec::new();
    let kvs = &conversion.plan.head().kvs;
    for kv in gguf.kvs().filter(|kv| !is_about_file(&kv.key.to_string_lossy())) {
        let key = kv.key.to_string_lossy();
        match kvs.iter().position(|new| new.key == kv.key.as_bytes()) {
            None => found.push(ExportWarning::Key { key, found: None }),
            Some(place) => {
                order.push(place);
                let new = kvs.get(place).map(|new| new.value.as_ref());
                if new.is_some_and(|new| !is_same(new, kv.value)) {
                    found.push(ExportWarning::Key {
                        key,
                        found: new.map(|new| crate::config::shortened(&key_values::json_of(new)).to_string()),
                    });
                }
            }
        }
    }
    if !order.is_sorted() {
        found.push(ExportWarning::Order { what: "keys" });
    }
    for kv in kvs {
        let key = String::from_utf8_lossy(&kv.key).into_owned();
        if gguf.get(&key).is_none() && !is_about_file(&key) {
            found.push(ExportWarning::NewKey { key });
        }
    }
    Ok(found)
}

/// Whether two values are the same, with their types.
fn is_same(a: ValueRef<'_>, b: ValueRef<'_>) -> bool {
    a.value_type() == b.value_type()
        && match (a, b) {
            (ValueRef::Array(a), ValueRef::Array(b)) => {
                a.elem_type() == b.elem_type() && a.len() == b.len() && a.encoded_bytes() == b.encoded_bytes()
            }
            (ValueRef::F32(a), ValueRef::F32(b)) => a.to_bits() == b.to_bits(),
            (a, b) => key_values::json_of(a) == key_values::json_of(b),
        }
}
