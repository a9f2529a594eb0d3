//! Makes a part.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

use super::error::FleetError;
use super::place::{HEAD, Manifest, PartWriter, Place, sha256, xxh3};
use super::source::Placed;
use super::{FleetPlan, Opener, OutputFile, Part, TensorEntry};
use crate::chunk::Chunks;
use crate::chunk::Lane;
use crate::error::Error;
use crate::execute::{self, Run};
use crate::importance::Importance;
use crate::options::RunOptions;
use crate::plan::{Draft, Plan};
use crate::progress::{Event, Progress};
use crate::report::{Errors, ErrorsOfTensors};
use crate::sink::{NewOutput, Piece, Sink};

/// What a worker has done with a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Made {
    /// It was made.
    Now,
    /// It was done before.
    Before,
}

/// What is known about the bytes of a part.
struct Facts {
    xxh3: String,
    /// For tensors, by index, the number of finite values that became infinite.
    overflows: Vec<(usize, u64)>,
    errors: ErrorsOfTensors,
}

/// A worker: a plan that is open for making parts.
pub struct Worker<'a> {
    plan: &'a FleetPlan,
    run: Plan,
    source: Arc<Placed>,
}

impl FleetPlan {
    /// Opens the plan for making parts. Files of the source are opened when a part needs them.
    pub fn worker(&self, open: Arc<Opener>, importance: Option<Arc<dyn Importance>>) -> Worker<'_> {
        let source = Arc::new(Placed::new(&self.sources, &self.inputs, open));
        Worker { plan: self, run: self.to_plan(Arc::clone(&source), importance), source }
    }
}

impl Worker<'_> {
    /// Makes a part, unless it is done. `places` are those of the outputs, in order. The options for files have no effect.
    ///
    /// # Errors
    /// [`FleetError`]; [`FleetError::is_temporary`] says whether the part may be tried again.
    pub fn make(
        &self,
        index: usize,
        places: &[Box<dyn Place>],
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<Made, FleetError> {
        let (part, file, place) = self.find(index, places)?;
        if self.is_done(index, places)? {
            return Ok(Made::Before);
        }
        let writer = match place.writer(&file.upload, &part) {
            Err(FleetError::NotBegun { .. }) if self.plan.is_complete(file, place)? => return Ok(Made::Before),
            writer => writer?,
        };
        let facts = self.write(&part, file, place, &*writer, options, progress)?;
        let id = match writer.finish() {
            // Another worker was faster, and all is done.
            Err(FleetError::NotBegun { .. }) if self.plan.is_complete(file, place)? => return Ok(Made::Before),
            id => id?,
        };
        self.put_manifest(&part, file, place, id, facts, None)
    }

    /// The part with an index, its output and the place of it.
    fn find<'b>(
        &self,
        index: usize,
        places: &'b [Box<dyn Place>],
    ) -> Result<(Part, &OutputFile, &'b dyn Place), FleetError> {
        let no_part = || FleetError::NoPart { index, n_parts: self.plan.n_parts() };
        let part = self.plan.part(index).ok_or_else(no_part)?;
        let (file, place) = self.plan.files.get(part.file).zip(places.get(part.file)).ok_or_else(no_part)?;
        Ok((part, file, &**place))
    }

    /// Whether a part is done.
    ///
    /// # Errors
    /// As for [`make`](Worker::make).
    pub fn is_done(&self, index: usize, places: &[Box<dyn Place>]) -> Result<bool, FleetError> {
        let (part, file, place) = self.find(index, places)?;
        Ok(Manifest::read(self.plan, &part, place)?.is_some() || self.plan.is_complete(file, place)?)
    }

    /// The model of the plan, with a source that reads the files of the plan.
    pub fn draft(&self) -> &Draft {
        &self.run.draft
    }

    /// Notes the results of a part of a plan of [samples](super::Samples), so that it is done.
    ///
    /// # Errors
    /// As for [`make`](Worker::make).
    pub fn put_results(&self, index: usize, places: &[Box<dyn Place>], results: Value) -> Result<Made, FleetError> {
        self.source.check()?;
        let (part, file, place) = self.find(index, places)?;
        let facts = Facts { xxh3: String::new(), overflows: Vec::new(), errors: ErrorsOfTensors::new() };
        self.put_manifest(&part, file, place, String::new(), facts, Some(results))
    }

    fn put_manifest(
        &self,
        part: &Part,
        file: &OutputFile,
        place: &dyn Place,
        id: String,
        facts: Facts,
        results: Option<Value>,
    ) -> Result<Made, FleetError> {
        // Another worker may have made it meanwhile. A store has the bytes that came last.
        let before = Manifest::read(self.plan, part, place)?;
        let manifest = Manifest {
            gguf_part: 1,
            again: before.is_some_and(|before| before.again || before.id != id),
            plan: self.plan.hash.clone(),
            part: part.index,
            offset: part.range.start,
            bytes: part.range.end - part.range.start,
            xxh3: facts.xxh3,
            id,
            overflows: facts.overflows,
            errors: facts.errors.iter().map(|(index, error)| (*index, error.to_words())).collect(),
            results,
        };
        let json = serde_json::to_vec(&manifest)
            .map_err(|e| FleetError::Manifest { part: part.index, what: e.to_string() })?;
        match place.put_note(&Manifest::name(part), &json) {
            Err(FleetError::NotBegun { .. }) if self.plan.is_complete(file, place)? => Ok(Made::Before),
            noted => noted.map(|()| Made::Now),
        }
    }

    /// Writes the bytes of a part. A value in a row that is cut is counted where the row begins.
    fn write(
        &self,
        part: &Part,
        file: &OutputFile,
        place: &dyn Place,
        writer: &dyn PartWriter,
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<Facts, FleetError> {
        let range = part.range.clone();
        let first = self.run.files.get(part.file).map_or(0, |file| file.tensors().start);
        let hash = PartHash { next: range.start, early: BTreeMap::new(), hash: Xxh3::new() };
        let sink =
            PartSink { first, range: range.clone(), writer, hash: Mutex::new(hash), overflows: Mutex::default() };
        if range.start < file.head_bytes {
            let head = place.note(HEAD)?.filter(|head| sha256(head) == file.head_sha256);
            let head = head.ok_or_else(|| FleetError::Head { output: PathBuf::from(&file.path) })?;
            sink.write_at(0, 0, &head)?;
        }
        self.source.open(self.plan.inputs_of(part))?;
        let errors = self.plan.report.then(|| Errors::of_part(range.start));
        self.run.fill_range(part.file, &range, &sink, errors.as_slice(), options, progress)?;
        self.source.check()?;
        let hash = sink.hash.into_inner().unwrap_or_else(PoisonError::into_inner);
        if hash.next != range.end {
            let (output, expected) = (PathBuf::from(&file.path), range.end - range.start);
            return Err(FleetError::Length { output, expected, found: hash.next - range.start });
        }
        Ok(Facts {
            xxh3: xxh3(&hash.hash),
            overflows: sink.overflows.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect(),
            errors: errors.map(Errors::into_errors).unwrap_or_default(),
        })
    }
}

impl FleetPlan {
    /// The inputs of the tensors in a part.
    fn inputs_of(&self, part: &Part) -> impl Iterator<Item = usize> {
        let is_in = |tensor: &&TensorEntry| {
            let bytes = tensor.ty.0.tensor_bytes(tensor.shape.iter().copied()).unwrap_or(u64::MAX);
            let end = tensor.start.saturating_add(bytes);
            tensor.file as usize == part.file && tensor.start < part.range.end && end > part.range.start
        };
        let inputs = self.tensors.iter().filter(is_in).flat_map(|tensor| tensor.op.inputs());
        inputs.map(|input| input.index())
    }

    /// Whether an output is complete.
    pub(super) fn is_complete(&self, file: &OutputFile, place: &dyn Place) -> Result<bool, FleetError> {
        if self.samples.is_none() {
            return place.is_complete(&file.upload, file.bytes, file.head_bytes, &file.head_sha256);
        }
        // The results of samples name the plan.
        let found: Option<Value> = place.output(MAX_RESULTS)?.and_then(|json| serde_json::from_slice(&json).ok());
        Ok(found.is_some_and(|found| found.get("plan").and_then(Value::as_str) == Some(&self.hash)))
    }
}

/// The longest results of samples.
const MAX_RESULTS: u64 = 1 << 30;

impl Plan {
    /// Writes the tensor data and the padding in the bytes `range` of a file to a sink, with the errors of rows if there is a place for them.
    fn fill_range(
        &self,
        file: usize,
        range: &Range<u64>,
        sink: &dyn Sink,
        errors: &[Errors],
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        let Some((file, lane)) = self.files.get(file).zip(Lane::beside(&self.draft, &self.draft)) else {
            return Ok(());
        };
        let lanes = [lane];
        let run = Run { lanes: &lanes, threads: options.threads, errors };
        for gap in (NewOutput { run: &run, draft: &self.draft, file, plan: 0, output: 0 }).padding() {
            let (start, end) = (gap.start.max(range.start), gap.end.min(range.end));
            if start < end {
                sink.write_at(0, start, &buffer(to_index(end - start)).map_err(FleetError::into_run)?)?;
            }
        }
        let chunks = Chunks::of_bytes(&lanes, file.tensors(), range, !errors.is_empty(), |index| file.start_of(index));
        progress.event(Event::Started { n_tensors: file.tensors().len(), bytes: range.end - range.start });
        let parts = vec![vec![execute::Part { plan: file, output: 0 }]];
        run.execute_ahead(chunks, &parts, sink, options.read_ahead.as_deref(), progress)?;
        Ok(())
    }
}

/// A buffer of zeros. Memory that is not available is an error.
pub(super) fn buffer(len: usize) -> Result<Vec<u8>, FleetError> {
    let mut bytes: Vec<u8> = Vec::new();
    let out_of_memory = |_| Error::io("make", Path::new("a part"), std::io::ErrorKind::OutOfMemory.into());
    bytes.try_reserve_exact(len).map_err(out_of_memory)?;
    bytes.resize(len, 0);
    Ok(bytes)
}

pub(super) fn to_index(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// The hash of a part, whose pieces come nearly in order.
struct PartHash {
    /// The offset of the next byte to hash.
    next: u64,
    /// Pieces after it, by offset.
    early: BTreeMap<u64, Vec<u8>>,
    hash: Xxh3,
}

impl PartHash {
    fn add(&mut self, offset: u64, bytes: &[u8]) {
        if offset != self.next {
            self.early.insert(offset, bytes.to_vec());
            return;
        }
        self.append(bytes);
        while let Some(bytes) = self.early.remove(&self.next) {
            self.append(&bytes);
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.next += bytes.len() as u64;
    }
}

/// A part that is written and hashed. Pieces that are cut are written as far as they are in it.
struct PartSink<'a> {
    /// The number of tensors in the outputs before.
    first: usize,
    range: Range<u64>,
    writer: &'a dyn PartWriter,
    hash: Mutex<PartHash>,
    overflows: Mutex<BTreeMap<usize, u64>>,
}

impl Sink for PartSink<'_> {
    fn create(&mut self, _: &[NewOutput<'_>], _: &dyn Progress) -> Result<(), Error> {
        Ok(())
    }

    fn write_at(&self, _: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let (start, end) = (offset.max(self.range.start), (offset + bytes.len() as u64).min(self.range.end));
        if start >= end {
            return Ok(());
        }
        let within = bytes.get(to_index(start - offset)..to_index(end - offset)).unwrap_or_default();
        self.writer.write_at(start, within).map_err(FleetError::into_run)?;
        self.hash.lock().unwrap_or_else(PoisonError::into_inner).add(start, within);
        Ok(())
    }

    fn commit(&mut self, _: &dyn Progress) -> Result<(), Error> {
        Ok(())
    }

    fn abort(&mut self, why: Error) -> Error {
        why
    }

    fn written(&self, piece: &Piece<'_>, _: &[u8], overflows: u64) -> Result<(), Error> {
        if overflows > 0 && piece.offset >= self.range.start {
            let mut all = self.overflows.lock().unwrap_or_else(PoisonError::into_inner);
            *all.entry(self.first + piece.index).or_insert(0) += overflows;
        }
        Ok(())
    }
}
