//! Work divided among machines: a plan as a value, parts of its outputs, and their completion.
//!
//! A [`FleetPlan`] is a [`Plan`] in JSON. It names the files of the source with their lengths and versions, and has all that
//! determines the bytes of the outputs, except the heads, which are kept beside the outputs because they may be large. Any number of workers
//! make its parts, in any order; a commit completes the outputs.
//!
//! A part is a range of bytes of an output. All parts of an output have the same length, except the last, and are cut regardless of tensors.
//! The smallest piece that is encoded is a row, or a part of a row of more than a million values: both neighbours of a cut encode the
//! row that is cut. So a worker reads what its rows are made of, and nothing else.
//!
//! Outputs are [`Place`]s, files or objects of a store. A part is done when its [`Manifest`] is there, which is written after its bytes. Each step
//! may be repeated, by several machines at once and after each has died: a part has the same bytes each time.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_format::{ByteOrder, GgmlType, Head, Places};
use gguf_io::ReadAt;
use serde::{Deserialize, Serialize};

use crate::importance::Importance;
use crate::plan::{Draft, Entry, FilePlan, Op, Plan, Reason, Rounding, TensorPlan};

mod commit;
mod error;
mod files;
mod json;
mod make;
mod memory;
mod place;
mod source;

pub use commit::Status;
pub use error::{FleetError, Listed, PlanProblem};
pub use files::FilesPlace;
pub(crate) use json::{Type, bits};
pub use make::{Made, Worker};
pub use memory::MemoryPlace;
pub use place::{Manifest, PartWriter, Place, sha256};
use source::Placed;
pub use source::{OpenSource, SourceFile};

/// The version of the JSON.
const VERSION: u32 = 1;

/// The most parts of an output: that of stores.
pub const MAX_PARTS: u64 = 10_000;

/// The program in a plan: another version may encode differently.
pub(crate) const PROGRAM: &str = concat!("ggufkit ", env!("CARGO_PKG_VERSION"));

/// A plan that many machines execute. Its JSON is an object with these members:
///
/// | member | content |
/// |---|---|
/// | `gguf_plan` | the version of this format: 1 |
/// | `program` | the library and its version; other versions refuse the plan |
/// | `part_bytes` | the length of all parts but the last of each output |
/// | `rounding` | `ggml` or `converter`: the rules for float types |
/// | `big_endian` | whether outputs are in big-endian byte order |
/// | `sources` | the files of the source: `path`, `bytes`, and `version` (an ETag or similar) or `modified` (nanoseconds since 1970) |
/// | `matrix` | the importance matrix, if any: `file` as in `sources`, and the parts of names that select entries, `include` and `exclude` |
/// | `inputs` | the tensors of the source: index of the file, offset, bytes, and the type if the file is in big-endian byte order |
/// | `tensors` | the output tensors: `name`, `shape`, `type`, `op`, `file` (index of the output), `start` (offset in the file), `entry` of the matrix |
/// | `report` | whether workers measure the errors of tensors, for a report |
/// | `samples` | in a plan of samples, the number of parts and, for each tensor whose type is to be chosen, the index in `tensors` and the types to try |
/// | `files` | the outputs: `path`, `bytes`, `head_bytes`, `head_sha256`, `replace`, and the identifier of the `upload`, empty for a file |
///
/// An operation is that of [`Op`]. An input of an operation is the index in `inputs` and the type, a [move](crate::moves::Move) is a list of its
/// fields, and a float is the integer with its bits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FleetPlan {
    gguf_plan: u32,
    program: String,
    part_bytes: u64,
    rounding: RoundingName,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    big_endian: bool,
    sources: Vec<SourceFile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    matrix: Option<MatrixFile>,
    inputs: Vec<InputPlace>,
    tensors: Vec<TensorEntry>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    report: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    samples: Option<Samples>,
    files: Vec<OutputFile>,
    /// The SHA-256 of the JSON.
    #[serde(skip)]
    hash: String,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RoundingName {
    Converter,
    Ggml,
}

/// The importance matrix of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixFile {
    /// The file.
    pub file: SourceFile,
    /// Only entries whose names contain one of these are used, if there are any.
    pub include: Vec<String>,
    /// Entries whose names contain one of these are not used.
    pub exclude: Vec<String>,
}

/// The place of a tensor of the source: the file, the offset in it, the length, and the type if its byte order is big-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct InputPlace(u32, u64, u64, #[serde(default, skip_serializing_if = "Option::is_none")] Option<Type>);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct TensorEntry {
    name: String,
    shape: Vec<u64>,
    #[serde(rename = "type")]
    ty: Type,
    op: Op,
    /// The type of an unquantized conversion, if it is not that of the values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<Type>,
    #[serde(default, skip_serializing_if = "is_zero")]
    file: u32,
    start: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entry: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde expects")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// An output of a plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OutputFile {
    path: String,
    bytes: u64,
    head_bytes: u64,
    head_sha256: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    replace: bool,
    upload: String,
}

/// A plan whose outputs are not begun, and their heads.
#[derive(Debug)]
pub struct NewFleetPlan {
    plan: FleetPlan,
    heads: Vec<Vec<u8>>,
}

/// How a plan is divided.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct FleetOptions {
    /// The length of a part; `None` for [`part_bytes`].
    pub part_bytes: Option<u64>,
    /// Whether existing outputs, and the parts of another plan for them, are replaced.
    pub replace: bool,
    /// The importance matrix of the plan, if it has one.
    pub matrix: Option<MatrixFile>,
    /// Whether workers measure the errors of the tensors, for the [report](crate::RunSummary::report) of the commit.
    pub report: bool,
    /// Samples to measure in place of making tensors. The output is then the results in JSON, and the only one.
    pub samples: Option<Samples>,
}

/// Samples of tensors, which workers encode as several types: the first phase of choosing types by measured error. What is sampled, and what the
/// results are, is up to the caller: a part has every n-th tensor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Samples {
    n_parts: usize,
    tensors: Vec<(usize, Vec<Type>)>,
}

impl Samples {
    /// In `n_parts` parts, or one for each tensor if these are fewer. A tensor is given by its index in the plan and the types to try.
    pub fn new(n_parts: usize, tensors: impl IntoIterator<Item = (usize, Vec<GgmlType>)>) -> Samples {
        let typed = |(index, types): (usize, Vec<GgmlType>)| (index, types.into_iter().map(Type).collect());
        let tensors: Vec<_> = tensors.into_iter().map(typed).collect();
        Samples { n_parts: n_parts.clamp(1, tensors.len().max(1)), tensors }
    }

    /// The tensors of a part.
    fn of(&self, part: usize) -> impl Iterator<Item = (usize, Vec<GgmlType>)> {
        let own = self.tensors.iter().skip(part).step_by(self.n_parts.max(1));
        own.map(|(index, types)| (*index, types.iter().map(|ty| ty.0).collect()))
    }
}

/// The usual length of the parts of an output: 64 MiB, 256 MiB for more than 100 GB, or more if there would be more than [`MAX_PARTS`].
pub fn part_bytes(file_bytes: u64) -> u64 {
    let usual = if file_bytes > 100_000_000_000 { 256 << 20 } else { 64 << 20 };
    file_bytes.div_ceil(MAX_PARTS).next_multiple_of(1 << 20).max(usual)
}

/// A part of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The index in the plan.
    pub index: usize,
    /// The index of the output.
    pub file: usize,
    /// The index in the output.
    pub number: usize,
    /// The bytes of the output.
    pub range: Range<u64>,
}

impl FleetPlan {
    /// Makes the plan of a run for outputs with these paths or URLs. Nothing is written.
    ///
    /// # Errors
    /// [`FleetError::Source`] if the data of a tensor is not in a file as it is read, such as packed weights; [`FleetError::TooManyParts`]; errors of
    /// the system for files of the source.
    pub fn divide(plan: &Plan, outputs: &[PathBuf], options: FleetOptions) -> Result<NewFleetPlan, FleetError> {
        let draft = &plan.draft;
        let mut sources = source::Sources::of(&*draft.source);
        let largest = plan.files.iter().map(FilePlan::file_bytes).max().unwrap_or(0);
        let part = options.part_bytes.unwrap_or_else(|| part_bytes(largest)).max(1);
        if largest.div_ceil(part) > MAX_PARTS {
            return Err(FleetError::TooManyParts { bytes: largest, part });
        }
        let mut tensors = Vec::new();
        for (number, file) in plan.files.iter().enumerate() {
            for index in file.tensors() {
                let Some((tensor, start)) = draft.tensors.get(index).zip(file.start_of(index)) else { continue };
                let mut op = tensor.op.clone();
                for input in op.inputs_mut() {
                    let place = sources.place_of(&*draft.source, input, tensor)?;
                    *input = crate::plan::Input::new(place, "", input.ty);
                }
                let entry = tensor.entry().map(|entry| String::from_utf8(entry.to_vec())).transpose();
                tensors.push(TensorEntry {
                    name: String::from_utf8_lossy(&tensor.name).into_owned(),
                    shape: tensor.shape.to_vec(),
                    ty: Type(tensor.ty),
                    from: (tensor.from != op.value_type()).then_some(Type(tensor.from)),
                    op,
                    file: u32::try_from(number).unwrap_or(u32::MAX),
                    start,
                    entry: entry.map_err(|_| FleetError::Entry { tensor: tensor.shown() })?,
                });
            }
        }
        let (mut files, mut heads) = (Vec::new(), Vec::new());
        for (file, path) in plan.files.iter().zip(outputs) {
            let head = if options.samples.is_some() { Vec::new() } else { draft.head_of(file)?.into_owned() };
            files.push(OutputFile {
                path: path.to_string_lossy().into_owned(),
                bytes: if options.samples.is_some() { 0 } else { file.file_bytes() },
                head_bytes: head.len() as u64,
                head_sha256: sha256(&head),
                replace: options.replace,
                upload: String::new(),
            });
            heads.push(head);
        }
        let (sources, inputs) = sources.into_parts();
        let rounding = match draft.rounding {
            Rounding::Converter => RoundingName::Converter,
            Rounding::Ggml => RoundingName::Ggml,
        };
        let plan = FleetPlan {
            gguf_plan: VERSION,
            program: PROGRAM.to_owned(),
            part_bytes: part,
            rounding,
            big_endian: draft.head.dialect.order == ByteOrder::Big,
            sources,
            matrix: options.matrix,
            inputs,
            tensors,
            report: options.report,
            samples: options.samples,
            files,
            hash: String::new(),
        };
        Ok(NewFleetPlan { plan, heads })
    }

    /// The files of the source of a draft, identified for other machines.
    ///
    /// # Errors
    /// As for [`divide`](FleetPlan::divide).
    pub fn sources_of(draft: &Draft) -> Result<Vec<SourceFile>, FleetError> {
        let mut sources = source::Sources::of(&*draft.source);
        for tensor in &draft.tensors {
            for input in tensor.op.inputs() {
                sources.place_of(&*draft.source, input, tensor)?;
            }
        }
        Ok(sources.into_parts().0)
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// [`FleetError::Plan`] if it is not one, or that of another version of this library.
    pub fn parse(json: &[u8]) -> Result<FleetPlan, FleetError> {
        #[derive(Deserialize)]
        struct Version {
            gguf_plan: u32,
            program: String,
        }
        let wrong = |e: serde_json::Error| FleetError::Plan(PlanProblem::Json(e.to_string()));
        let found: Version = serde_json::from_slice(json).map_err(wrong)?;
        if (found.gguf_plan, found.program.as_str()) != (VERSION, PROGRAM) {
            let problem = PlanProblem::Program { was: found.program, version: found.gguf_plan };
            return Err(FleetError::Plan(problem));
        }
        let mut plan: FleetPlan = serde_json::from_slice(json).map_err(wrong)?;
        plan.check().map_err(|what| FleetError::Plan(PlanProblem::Contradiction(what)))?;
        plan.hash = sha256(json);
        Ok(plan)
    }

    /// Checks that the numbers of a plan belong together.
    fn check(&self) -> Result<(), String> {
        let n_files = self.files.len();
        if let Some(samples) = &self.samples {
            let is_outside = |(index, _): &(usize, Vec<Type>)| *index >= self.tensors.len();
            if samples.n_parts == 0 || samples.n_parts as u64 > MAX_PARTS || samples.tensors.iter().any(is_outside) {
                return Err("the samples are not those of the tensors".to_owned());
            }
        }
        if self.part_bytes == 0 {
            return Err("part_bytes is 0".to_owned());
        }
        if let Some(file) = self.files.iter().find(|file| file.bytes.div_ceil(self.part_bytes) > MAX_PARTS) {
            return Err(format!("{} has more than {MAX_PARTS} parts", file.path));
        }
        if let Some(place) = self.inputs.iter().find(|place| place.0 as usize >= self.sources.len()) {
            return Err(format!("an input is in source {}, of {} sources", place.0, self.sources.len()));
        }
        let (mut file, mut end) = (0, 0);
        for tensor in &self.tensors {
            if tensor.file != file {
                (file, end) = (tensor.file, 0);
            }
            let bytes = tensor.ty.0.tensor_bytes(tensor.shape.iter().copied()).map_err(|e| e.to_string())?;
            if tensor.op.inputs().iter().any(|input| input.index() >= self.inputs.len()) {
                return Err(format!("the tensor {} has an input that is not listed", tensor.name));
            }
            if self.samples.is_some() {
                continue;
            }
            let place = self.files.get(file as usize).ok_or_else(|| format!("output {file} of {n_files}"))?;
            let after = tensor.start.checked_add(bytes).filter(|after| *after <= place.bytes);
            match after {
                Some(after) if tensor.start >= end.max(place.head_bytes) => end = after,
                _ => return Err(format!("the tensor {} is outside of its place", tensor.name)),
            }
        }
        if !self.tensors.is_sorted_by_key(|tensor| tensor.file) {
            return Err("the tensors are not in the order of their files".to_owned());
        }
        Ok(())
    }

    /// The plan in JSON.
    ///
    /// # Errors
    /// [`FleetError::Plan`].
    pub fn to_json(&self) -> Result<Vec<u8>, FleetError> {
        serde_json::to_vec(self).map_err(|e| FleetError::Plan(PlanProblem::Json(e.to_string())))
    }

    /// The paths or URLs of the outputs.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.files.iter().map(|file| Path::new(&file.path))
    }

    /// The size of all outputs.
    pub fn file_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add)
    }

    /// The length of all parts but the last of each output.
    pub fn part_bytes(&self) -> u64 {
        self.part_bytes
    }

    /// The files of the source.
    pub fn sources(&self) -> &[SourceFile] {
        &self.sources
    }

    /// The SHA-256 of the plan in JSON.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Whether workers measure the errors of the tensors.
    pub fn has_report(&self) -> bool {
        self.report
    }

    /// The samples that a part measures: the indexes of tensors and the types to try; `None` if it makes bytes of an output.
    pub fn samples(&self, part: usize) -> Option<Vec<(usize, Vec<GgmlType>)>> {
        self.samples.as_ref().map(|samples| samples.of(part).collect())
    }

    /// The run that the plan describes, to look at: its source opens no file.
    pub fn to_run(&self) -> Plan {
        let open = |_: &Path| Err(std::io::ErrorKind::Unsupported.into());
        self.to_plan(Arc::new(Placed::new(&self.sources, &self.inputs, Arc::new(open))), None)
    }

    /// The importance matrix, if the plan has one.
    pub fn matrix(&self) -> Option<&MatrixFile> {
        self.matrix.as_ref()
    }

    /// The number of parts.
    pub fn n_parts(&self) -> usize {
        self.files.iter().map(|file| self.parts_of(file)).sum()
    }

    fn parts_of(&self, file: &OutputFile) -> usize {
        if let Some(samples) = &self.samples {
            return samples.n_parts;
        }
        usize::try_from(file.bytes.div_ceil(self.part_bytes)).unwrap_or(usize::MAX)
    }

    /// The part with that index.
    pub fn part(&self, index: usize) -> Option<Part> {
        let mut before = 0;
        for (file, n_parts) in self.files.iter().map(|file| self.parts_of(file)).enumerate() {
            if index < before + n_parts {
                return self.part_in(file, index - before, before);
            }
            before += n_parts;
        }
        None
    }

    /// A part of an output, with the number of the parts of the outputs before it.
    fn part_in(&self, file: usize, number: usize, before: usize) -> Option<Part> {
        if self.samples.is_some() {
            return Some(Part { index: before + number, file, number, range: 0..0 });
        }
        let start = (number as u64).checked_mul(self.part_bytes)?;
        let range = start..self.files.get(file)?.bytes.min(start.checked_add(self.part_bytes)?);
        Some(Part { index: before + number, file, number, range })
    }

    /// The run that the plan describes, with its source and the weights of columns.
    fn to_plan(&self, source: Arc<Placed>, importance: Option<Arc<dyn Importance>>) -> Plan {
        let tensor = |entry: &TensorEntry| {
            let mut tensor = TensorPlan::new(
                entry.name.as_bytes(),
                entry.shape.clone(),
                entry.ty.0,
                Reason::Asked,
                entry.op.clone(),
            );
            tensor.file = entry.file;
            if let Some(from) = entry.from {
                tensor.origin_mut().from = from.0;
            }
            tensor.importance = entry.entry.as_ref().map(|entry| Box::new(Entry(entry.as_bytes().into())));
            tensor
        };
        let mut head = Head::default();
        head.dialect.order = if self.big_endian { ByteOrder::Big } else { ByteOrder::Little };
        let draft = Draft {
            path: self.sources.first().map(|file| PathBuf::from(&file.path)).unwrap_or_default(),
            head,
            tensors: self.tensors.iter().map(tensor).collect(),
            source,
            rounding: match self.rounding {
                RoundingName::Converter => Rounding::Converter,
                RoundingName::Ggml => Rounding::Ggml,
            },
            importance,
            inputs: Vec::new(),
            input_bytes: None,
            is_split: self.files.len() > 1,
            is_vocab_only: false,
        };
        let mut first = 0;
        let file = |(number, file): (usize, &OutputFile)| {
            let own: Vec<&TensorEntry> = self.tensors.iter().filter(|tensor| tensor.file as usize == number).collect();
            let tensors = first..first + own.len();
            first = tensors.end;
            let starts = own.iter().map(|tensor| tensor.start).collect();
            FilePlan::placed(tensors, Places::at(file.head_bytes, starts, file.bytes))
        };
        let files = self.files.iter().enumerate().map(file).collect();
        Plan { draft, files }
    }
}

impl NewFleetPlan {
    /// The plan, whose outputs are not begun.
    pub fn plan(&self) -> &FleetPlan {
        &self.plan
    }

    /// Begins the outputs, in the order of their paths, and leaves their heads beside them.
    ///
    /// # Errors
    /// If an output cannot be begun; none of them is then.
    pub fn begin(mut self, places: &[Box<dyn Place>]) -> Result<FleetPlan, FleetError> {
        let mut begun = 0;
        let files = self.plan.files.iter_mut().zip(&self.heads).zip(places);
        let done = files.into_iter().try_for_each(|((file, head), place)| {
            file.upload = place.begin(file.bytes, file.replace)?;
            begun += 1;
            place.put_note(place::HEAD, head)
        });
        if let Err(e) = done {
            for (file, place) in self.plan.files.iter().zip(places).take(begun) {
                // The error that is reported is the first.
                let _ = place.abort(&file.upload);
            }
            return Err(e);
        }
        self.plan.hash = sha256(&self.plan.to_json()?);
        Ok(self.plan)
    }
}

/// Opens a file of a source, by the path or URL in the plan.
pub type Opener = dyn Fn(&Path) -> std::io::Result<Arc<dyn ReadAt>> + Send + Sync;
