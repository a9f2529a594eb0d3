//! Makes a part.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::FleetError;
use super::place::{HEAD, Manifest, Place, sha256};
use super::source::Placed;
use super::{FleetPlan, Opener, OutputFile, Part};
use crate::chunk::Chunks;
use crate::chunk::Lane;
use crate::error::Error;
use crate::execute::{self, Run};
use crate::importance::Importance;
use crate::options::RunOptions;
use crate::plan::Plan;
use crate::progress::{Event, Progress};
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

/// For tensors, by index, the number of finite values that became infinite.
type Counts = Vec<(usize, u64)>;

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
        let n_parts = self.plan.n_parts();
        let part = self.plan.part(index).ok_or(FleetError::NoPart { index, n_parts })?;
        let found = self.plan.files.get(part.file).zip(places.get(part.file));
        let (file, place) = found.ok_or(FleetError::NoPart { index, n_parts })?;
        let place = &**place;
        if Manifest::read(self.plan, &part, place)?.is_some() || file.is_complete(place)? {
            return Ok(Made::Before);
        }
        let (bytes, overflows) = self.bytes(&part, file, place, options, progress)?;
        let sha256 = sha256(&bytes);
        let n_bytes = bytes.len() as u64;
        let id = match place.put(&file.upload, &part, bytes) {
            // Another worker was faster, and all is done.
            Err(FleetError::NotBegun { .. }) if file.is_complete(place)? => return Ok(Made::Before),
            id => id?,
        };
        // Another worker may have made it meanwhile. A store has the bytes that came last.
        let before = Manifest::read(self.plan, &part, place)?;
        let manifest = Manifest {
            gguf_part: 1,
            again: before.is_some_and(|before| before.again || before.id != id),
            plan: self.plan.hash.clone(),
            part: index,
            offset: part.range.start,
            bytes: n_bytes,
            sha256,
            id,
            overflows,
        };
        let json =
            serde_json::to_vec(&manifest).map_err(|e| FleetError::Manifest { part: index, what: e.to_string() })?;
        match place.put_note(&Manifest::name(&part), &json) {
            Err(FleetError::NotBegun { .. }) if file.is_complete(place)? => Ok(Made::Before),
            noted => noted.map(|()| Made::Now),
        }
    }

    /// The bytes of a part, and the tensors with values that became infinite. A value in a row that is cut is counted where the row begins.
    fn bytes(
        &self,
        part: &Part,
        file: &OutputFile,
        place: &dyn Place,
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<(Vec<u8>, Counts), FleetError> {
        let len = usize::try_from(part.range.end - part.range.start).unwrap_or(usize::MAX);
        let mut bytes = buffer(len)?;
        if part.range.start < file.head_bytes {
            let head = place.note(HEAD)?.filter(|head| sha256(head) == file.head_sha256);
            let head = head.ok_or_else(|| FleetError::Head { output: PathBuf::from(&file.path) })?;
            let (start, end) = (to_index(part.range.start), to_index(part.range.end.min(file.head_bytes)));
            if let (Some(to), Some(from)) = (bytes.get_mut(..end - start), head.get(start..end)) {
                to.copy_from_slice(from);
            }
        }
        let first = self.run.files.get(part.file).map_or(0, |file| file.tensors().start);
        let sink =
            RangeSink { first, range: part.range.clone(), bytes: Mutex::new(bytes), overflows: Mutex::default() };
        self.run.fill_range(part.file, &part.range, &sink, options, progress)?;
        self.source.check()?;
        let bytes = sink.bytes.into_inner().unwrap_or_else(PoisonError::into_inner);
        let overflows = sink.overflows.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((bytes, overflows.into_iter().collect()))
    }
}

impl OutputFile {
    /// Whether the output is complete.
    pub(super) fn is_complete(&self, place: &dyn Place) -> Result<bool, FleetError> {
        place.is_complete(&self.upload, self.bytes, self.head_bytes, &self.head_sha256)
    }
}

impl Plan {
    /// Writes the tensor data in the bytes `range` of a file to a sink.
    fn fill_range(
        &self,
        file: usize,
        range: &Range<u64>,
        sink: &dyn Sink,
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        let Some((file, lane)) = self.files.get(file).zip(Lane::beside(&self.draft, &self.draft)) else {
            return Ok(());
        };
        let lanes = [lane];
        let run = Run { lanes: &lanes, threads: options.threads, errors: &[] };
        let chunks = Chunks::of_bytes(&lanes, file.tensors(), range, |index| file.start_of(index));
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

fn to_index(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// The bytes of a part. Pieces that are cut are written as far as they are in it.
struct RangeSink {
    /// The number of tensors in the outputs before.
    first: usize,
    range: Range<u64>,
    bytes: Mutex<Vec<u8>>,
    overflows: Mutex<BTreeMap<usize, u64>>,
}

impl Sink for RangeSink {
    fn create(&mut self, _: &[NewOutput<'_>], _: &dyn Progress) -> Result<(), Error> {
        Ok(())
    }

    fn write_at(&self, _: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let (start, end) = (offset.max(self.range.start), (offset + bytes.len() as u64).min(self.range.end));
        if start >= end {
            return Ok(());
        }
        let mut all = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let to = all.get_mut(to_index(start - self.range.start)..to_index(end - self.range.start));
        if let Some((to, from)) = to.zip(bytes.get(to_index(start - offset)..to_index(end - offset))) {
            to.copy_from_slice(from);
        }
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
