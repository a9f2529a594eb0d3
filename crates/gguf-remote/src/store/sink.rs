//! The outputs of a run as objects of a store, uploaded in parts.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gguf_pipeline::{Error as RunError, Event, Kept, NewOutput, Piece, Progress, Sink};
use object_store::multipart::PartId;
use object_store::{ObjectStoreExt, PutPayload};
use tokio::task::JoinHandle;

use super::manifest::{Manifest, PieceKey};
use super::run;
use super::upload::{KeptUpload, Object, Part, SAVE, Upload, part_len};
use crate::budget::lock;
use crate::client::Client;
use crate::error::{Error, Problem};
use crate::location::Location;
use crate::settings::Settings;

/// The parts in memory, if they are long.
const AT_ONCE: u64 = 3;

/// A sink that uploads its outputs to a store. Each of them is an object, which appears when all data of all outputs is uploaded.
///
/// An object is uploaded in parts of equal length: 5 MiB, or more for one of more than 48 GiB, because a store takes 10,000 parts. A part is sent
/// when all its bytes are written. A run writes in nearly ascending order, so few parts are in memory at a time: one more than the machine
/// has threads. Writers wait while there is no room, unless nothing is being sent.
///
/// After an error, or if the sink is dropped, the uploads are aborted. S3 and Google Cloud Storage keep, and charge for, the parts of uploads that
/// were not aborted because the program was killed; a rule of the bucket can remove them. Azure removes them after a week in any case.
///
/// Objects get their names one after the other. If one fails, those that are complete are deleted again, except where they have replaced others.
///
/// A sink that [resumes](StoreSink::resume) keeps uploads for a later run. It has a manifest beside each object, `model.gguf.upload.json` for
/// `model.gguf`, with the identifiers of the parts that have arrived. It is written every two seconds while there are new parts, and at the end
/// of a run; it is removed when the object is complete.
pub struct StoreSink {
    client: Client,
    locations: Vec<Location>,
    replace: bool,
    resume: bool,
    uploads: Vec<Upload>,
    progress: Arc<Uploading>,
    limits: Limits,
}

/// Lengths that tests make smaller.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The shortest part. Stores require 5 MiB.
    pub(super) shortest: u64,
    /// The memory for parts that are being filled or sent, if they are short.
    pub(super) memory: u64,
}

impl Limits {
    /// A part more than there are threads, at least three.
    pub(super) fn usual() -> Limits {
        const PART: u64 = 5 << 20;
        let threads = std::thread::available_parallelism().map_or(2, |n| n.get() as u64);
        Limits { shortest: PART, memory: (threads.max(2) + 1) * PART }
    }
}

/// The parts of all uploads that are in memory.
#[derive(Default)]
struct Uploading {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    in_memory: u64,
    in_flight: usize,
    failed: Option<Error>,
    tasks: Vec<JoinHandle<()>>,
    /// Parts that arrived, by the index of the upload and theirs.
    done: BTreeMap<(usize, u64), PartId>,
}

impl StoreSink {
    /// A sink for one run with an output for each location, in their order. An object that exists is an error when the run begins, unless `replace`
    /// is set.
    pub fn new(client: &Client, locations: Vec<Location>, replace: bool) -> StoreSink {
        StoreSink::with_limits(client, locations, replace, Limits::usual())
    }

    pub(super) fn with_limits(client: &Client, locations: Vec<Location>, replace: bool, limits: Limits) -> StoreSink {
        let (client, uploads, progress) = (client.clone(), Vec::new(), Arc::default());
        StoreSink { client, locations, replace, resume: false, uploads, progress, limits }
    }

    /// Keeps uploads if the run ends early, and continues those that an earlier run has kept.
    #[must_use]
    pub fn resume(mut self, yes: bool) -> StoreSink {
        self.resume = yes;
        self
    }

    /// Begins the upload of an output, without data, or continues it. `identity` is that of the output, if the upload is kept.
    fn begin(&self, location: &Location, output: &NewOutput<'_>, identity: Option<String>) -> Result<Upload, Error> {
        let (bucket, key) = self.client.buckets().open(location)?;
        let url = location.to_string();
        let (length, found) = (output.n_bytes(), bucket.find(&url, &key)?);
        let part = part_len(length, self.limits);
        let manifest = Manifest::key(&key).map_err(|problem| Error::new(&url, problem))?;
        let earlier = match identity.is_some() {
            true => Manifest::read(&bucket, &url, &manifest)?,
            false => None,
        };
        let (earlier, other) = match earlier {
            Some(earlier) if Some(&earlier.identity) == identity.as_ref() && earlier.part == part => {
                (Some(earlier), None)
            }
            other => (None, other),
        };
        if let Some(other) = other {
            if !self.replace {
                return Err(Error::new(&url, Problem::OtherUpload));
            }
            run::finish(async { Ok(bucket.uploads.abort_multipart(&key, &other.id).await?) });
        }
        // A run may have ended between the completion of the object and the removal of the manifest.
        let is_complete = earlier.as_ref().is_some_and(|earlier| {
            let is_new = |found: &object_store::ObjectMeta| {
                found.size == length && earlier.replaced.as_ref().is_none_or(|before| *before != found.e_tag)
            };
            earlier.parts.len() as u64 == length.div_ceil(part) && found.as_ref().is_some_and(is_new)
        });
        let replaced = found.map(|found| found.e_tag);
        if replaced.is_some() && !self.replace && !is_complete {
            return Err(Error::new(&url, Problem::Exists));
        }
        let id = match &earlier {
            Some(earlier) => earlier.id.clone(),
            None => bucket.run(&url, None, async { Ok(bucket.uploads.create_multipart(&key).await?) })?,
        };
        let is_resumed = earlier.is_some();
        let kept = identity.map(|identity| KeptUpload {
            manifest,
            earlier: earlier.unwrap_or_else(|| Manifest {
                identity,
                id: id.clone(),
                part,
                replaced: replaced.clone(),
                parts: BTreeMap::new(),
                overflows: BTreeMap::new(),
            }),
            is_resumed,
            overflows: Mutex::default(),
            saved: Mutex::new(Instant::now()),
        });
        let padding = output.padding();
        let object = Arc::new(Object { bucket, key, url, id });
        let upload = Upload { object, length, part, padding, begun: Mutex::default(), replaced, is_complete, kept };
        if !is_resumed {
            // A run that is killed leaves no upload that nobody knows.
            upload.save(&BTreeMap::new())?;
        }
        Ok(upload)
    }

    /// The parts of an output that have arrived in this run.
    fn arrived(&self, output: usize) -> BTreeMap<u64, String> {
        let state = lock(&self.progress.state);
        let of = state.done.range((output, 0)..=(output, u64::MAX));
        of.map(|((_, index), id)| (*index, id.content_id.clone())).collect()
    }

    /// Waits for memory for a part.
    fn take(&self, bytes: u64, part: u64) -> Result<(), Error> {
        let limit = self.limits.memory.max(part.saturating_mul(AT_ONCE));
        let mut state = lock(&self.progress.state);
        loop {
            if let Some(e) = &state.failed {
                return Err(e.clone());
            }
            // If nothing is being sent, the writers that wait have the bytes that parts lack.
            if state.in_flight == 0 || state.in_memory.saturating_add(bytes) <= limit {
                state.in_memory += bytes;
                return Ok(());
            }
            if self.client.is_cancelled() {
                return Err(Error::new("", Problem::Cancelled));
            }
            state = self.progress.wait(state);
        }
    }

    /// Writes bytes, and sends the parts that they complete.
    fn write(&self, output: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let end = offset.checked_add(bytes.len() as u64);
        let upload = self.uploads.get(output).filter(|upload| end.is_some_and(|end| end <= upload.length));
        let Some(upload) = upload else {
            return Err(Error::new(
                "",
                Problem::Answer(format!("there are no bytes from {offset} in output {output}")),
            ));
        };
        let (mut at, mut bytes) = (offset, bytes);
        while !bytes.is_empty() {
            let index = at / upload.part;
            let range = upload.range(index);
            let n = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(bytes.len());
            let (now, later) = bytes.split_at(n);
            if upload.has(index) {
                (at, bytes) = (at + n as u64, later);
                continue;
            }
            let full = loop {
                let mut begun = lock(&upload.begun);
                match begun.get_mut(&index) {
                    Some(part) => {
                        part.fill(at - range.start, now);
                        break if part.missing == 0 { begun.remove(&index) } else { None };
                    }
                    None => {
                        drop(begun);
                        self.begin_part(upload, index)?;
                    }
                }
            };
            if let Some(part) = full {
                self.send(output, upload, index, part.bytes)?;
            }
            (at, bytes) = (at + n as u64, later);
        }
        Ok(())
    }

    /// Adds a part of zeros, unless another thread does.
    fn begin_part(&self, upload: &Upload, index: u64) -> Result<(), Error> {
        let range = upload.range(index);
        let len = range.end - range.start;
        self.take(len, upload.part)?;
        let part = usize::try_from(len).ok().and_then(|len| {
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(len).ok()?;
            bytes.resize(len, 0);
            Some(Part { bytes, missing: upload.missing(&range) })
        });
        let Some(part) = part else {
            self.progress.release(len);
            return Err(Error::new(
                &upload.object.url,
                Problem::Answer(format!("no memory for a part of {len} bytes")),
            ));
        };
        let mut begun = lock(&upload.begun);
        if let std::collections::btree_map::Entry::Vacant(place) = begun.entry(index) {
            place.insert(part);
        } else {
            self.progress.release(len);
        }
        Ok(())
    }

    /// Sends a part, whose memory is released when it has arrived.
    fn send(&self, output: usize, upload: &Upload, index: u64, bytes: Vec<u8>) -> Result<(), Error> {
        let runtime = run::runtime().map_err(|problem| Error::new(&upload.object.url, problem))?;
        lock(&self.progress.state).in_flight += 1;
        let flight = Flight { uploading: Arc::clone(&self.progress), bytes: bytes.len() as u64 };
        let object = Arc::clone(&upload.object);
        let task = runtime.spawn(async move {
            let number = usize::try_from(index).unwrap_or(usize::MAX);
            let payload = PutPayload::from(bytes);
            let settings: &Settings = &object.bucket.settings;
            let put = async { Ok(object.bucket.uploads.put_part(&object.key, &object.id, number, payload).await?) };
            let put = run::observed(settings, put).await;
            let mut state = lock(&flight.uploading.state);
            match put {
                Ok(id) => _ = state.done.insert((output, index), id),
                Err((problem, attempts)) => {
                    let url = object.url.clone();
                    state.failed.get_or_insert(Error { url, range: None, attempts, problem });
                }
            }
        });
        let mut state = lock(&self.progress.state);
        state.tasks.retain(|task| !task.is_finished());
        state.tasks.push(task);
        drop(state);
        self.save_now_and_then(output, upload)
    }

    /// Writes the manifest of an upload, if the last one is old.
    fn save_now_and_then(&self, output: usize, upload: &Upload) -> Result<(), Error> {
        let Some(kept) = &upload.kept else { return Ok(()) };
        let mut saved = lock(&kept.saved);
        if saved.elapsed() < SAVE {
            return Ok(());
        }
        *saved = Instant::now();
        drop(saved);
        upload.save(&self.arrived(output))
    }

    /// Waits until all parts have arrived.
    fn wait(&self) -> Result<(), Error> {
        let mut state = lock(&self.progress.state);
        loop {
            match &state.failed {
                Some(e) => return Err(e.clone()),
                None if state.in_flight == 0 => return Ok(()),
                None => state = self.progress.wait(state),
            }
        }
    }

    /// Sends the parts that consist of padding, and takes the identifiers of all parts.
    fn all_parts(&self) -> Result<Vec<Vec<PartId>>, Error> {
        for (output, upload) in self.uploads.iter().enumerate() {
            let lacking = lock(&upload.begun).iter().map(|(index, part)| (*index, part.missing)).next();
            if let Some((index, missing)) = lacking {
                let what = format!("{missing} bytes of the part at {} were not written", index * upload.part);
                return Err(Error::new(&upload.object.url, Problem::Answer(what)));
            }
            for index in 0..upload.length.div_ceil(upload.part) {
                let range = upload.range(index);
                let is_sent = lock(&self.progress.state).done.contains_key(&(output, index));
                if is_sent || upload.has(index) {
                    continue;
                }
                if upload.missing(&range) > 0 {
                    let what = format!("the bytes {range:?} were not written");
                    return Err(Error::new(&upload.object.url, Problem::Answer(what)));
                }
                self.begin_part(upload, index)?;
                if let Some(part) = lock(&upload.begun).remove(&index) {
                    self.send(output, upload, index, part.bytes)?;
                }
            }
        }
        self.wait()?;
        let all = self.uploads.iter().enumerate().map(|(output, upload)| {
            let mut parts = self.arrived(output);
            upload.save(&parts)?;
            parts.extend(upload.kept.iter().flat_map(|kept| kept.earlier.parts.clone()));
            Ok(parts.into_values().map(|content_id| PartId { content_id }).collect())
        });
        all.collect()
    }

    /// Whether no upload is begun and no memory is used.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        let state = lock(&self.progress.state);
        self.uploads.is_empty() && state.in_flight == 0 && state.in_memory == 0
    }

    /// Stops all uploads. Removes their parts, unless they are kept.
    fn stop(&mut self, keep: bool) {
        let mut state = lock(&self.progress.state);
        for task in state.tasks.drain(..) {
            task.abort();
        }
        // A part that arrives later would be kept.
        while state.in_flight > 0 {
            state = self.progress.wait(state);
        }
        drop(state);
        let arrived: Vec<_> = (0..self.uploads.len()).map(|output| self.arrived(output)).collect();
        *lock(&self.progress.state) = State::default();
        for (upload, parts) in self.uploads.drain(..).zip(arrived) {
            let Object { bucket, key, id, .. } = &*upload.object;
            if let Some(kept) = &upload.kept {
                if keep {
                    run::finish(async { upload.manifest(kept, &parts).put(bucket, &kept.manifest).await });
                    continue;
                }
                run::finish(async { Ok(bucket.objects.delete(&kept.manifest).await?) });
            }
            // The run has failed already, and its error is the one to report. A cancelled client does this as well.
            match (upload.is_complete, &upload.replaced) {
                (false, _) => run::finish(async { Ok(bucket.uploads.abort_multipart(key, id).await?) }),
                (true, None) => run::finish(async { Ok(bucket.objects.delete(key).await?) }),
                (true, Some(_)) => {}
            }
        }
    }
}

impl Uploading {
    fn release(&self, bytes: u64) {
        let mut state = lock(&self.state);
        state.in_memory = state.in_memory.saturating_sub(bytes);
        self.changed.notify_all();
    }

    /// Waits until something has changed, or for a moment.
    fn wait<'a>(&self, state: std::sync::MutexGuard<'a, State>) -> std::sync::MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, Duration::from_millis(100));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// A part that is being sent. It ends with its task, also if that is aborted.
struct Flight {
    uploading: Arc<Uploading>,
    bytes: u64,
}

impl Drop for Flight {
    fn drop(&mut self) {
        lock(&self.uploading.state).in_flight -= 1;
        self.uploading.release(self.bytes);
    }
}

impl Sink for StoreSink {
    fn create(&mut self, outputs: &[NewOutput<'_>], progress: &dyn Progress) -> Result<(), RunError> {
        if outputs.len() != self.locations.len() {
            let what = format!("{} places for {} outputs", self.locations.len(), outputs.len());
            let e = io::Error::new(io::ErrorKind::InvalidInput, what);
            return Err(RunError::io("write", Path::new("objects"), e));
        }
        self.stop(self.resume);
        let begun = outputs.iter().enumerate().try_for_each(|(i, output)| {
            let Some(location) = self.locations.get(i) else { return Ok(()) };
            let head = output.head()?;
            let identity = self.resume.then(|| output.identity()).transpose()?;
            let upload = self.begin(location, output, identity).map_err(|e| failed(location, e))?;
            progress.event(Event::Opened { path: Path::new(&upload.object.url) });
            self.uploads.push(upload);
            self.write(i, 0, &head).map_err(|e| failed(location, e))
        });
        if begun.is_err() {
            // What earlier runs have kept stays.
            let (earlier, new): (Vec<_>, Vec<_>) = self.uploads.drain(..).partition(Upload::is_resumed);
            self.uploads = new;
            self.stop(false);
            self.uploads = earlier;
            self.stop(true);
        }
        begun
    }

    fn write_at(&self, output: usize, offset: u64, bytes: &[u8]) -> Result<(), RunError> {
        self.write(output, offset, bytes).map_err(|e| match self.locations.get(output) {
            Some(location) => failed(location, e),
            None => RunError::io("write", Path::new("objects"), e.into()),
        })
    }

    fn flush(&self) -> Result<(), RunError> {
        self.wait().map_err(failed_somewhere)
    }

    fn commit(&mut self, progress: &dyn Progress) -> Result<(), RunError> {
        let parts = self.all_parts().map_err(failed_somewhere)?;
        for (upload, parts) in self.uploads.iter_mut().zip(parts).filter(|(upload, _)| !upload.is_complete) {
            let Object { bucket, key, url, .. } = &*upload.object;
            // Nobody else may have made it since.
            if upload.replaced.is_none() && !self.replace && bucket.find(url, key).map_err(failed_somewhere)?.is_some()
            {
                return Err(failed_somewhere(Error::new(url, Problem::Exists)));
            }
            upload.complete(parts).map_err(failed_somewhere)?;
            upload.is_complete = true;
            progress.event(Event::Named { path: Path::new(url) });
        }
        for upload in self.uploads.drain(..) {
            if let Some(kept) = &upload.kept {
                let bucket = &upload.object.bucket;
                run::finish(async { Ok(bucket.objects.delete(&kept.manifest).await?) });
            }
        }
        *lock(&self.progress.state) = State::default();
        Ok(())
    }

    fn abort(&mut self, why: RunError) -> RunError {
        let is_gone = matches!(
            &lock(&self.progress.state).failed,
            Some(Error { problem: Problem::Status { status: 404, .. }, .. })
        );
        // A store may have removed an upload that was kept for long.
        let keep = self.resume && !why.recurs() && !is_gone;
        let kept = self.uploads.first().and_then(|upload| Some((&upload.object.url, &upload.kept.as_ref()?.manifest)));
        let why = match kept.filter(|_| keep) {
            Some((url, manifest)) => RunError::Kept {
                why: Box::new(why),
                partial: PathBuf::from(format!("the upload of {url}")),
                journal: PathBuf::from(manifest.as_ref()),
                n_others: self.uploads.len() - 1,
            },
            None => why,
        };
        self.stop(keep);
        why
    }

    fn kept(&self, piece: &Piece<'_>, _: &mut Vec<u8>) -> Result<Kept, RunError> {
        let Some(upload) = self.uploads.get(piece.output).filter(|upload| upload.is_resumed()) else {
            return Ok(Kept::Nothing);
        };
        let end = piece.offset.saturating_add(piece.n_bytes);
        let mut parts = piece.offset / upload.part..end.div_ceil(upload.part);
        let earlier = upload.kept.as_ref().map(|kept| &kept.earlier);
        let overflows = earlier.and_then(|earlier| earlier.overflows.get(&key_of(piece)).copied()).unwrap_or(0);
        match upload.is_complete || piece.n_bytes > 0 && parts.all(|index| upload.has(index)) {
            true => Ok(Kept::Intact { overflows }),
            false => Ok(Kept::Missing),
        }
    }

    fn is_kept(&self, piece: &Piece<'_>) -> bool {
        matches!(self.kept(piece, &mut Vec::new()), Ok(Kept::Intact { .. }))
    }

    fn written(&self, piece: &Piece<'_>, _: &[u8], overflows: u64) -> Result<(), RunError> {
        let kept = self.uploads.get(piece.output).and_then(|upload| upload.kept.as_ref());
        if let Some(kept) = kept.filter(|_| overflows > 0) {
            lock(&kept.overflows).insert(key_of(piece), overflows);
        }
        Ok(())
    }
}

fn key_of(piece: &Piece<'_>) -> PieceKey {
    (piece.index as u64, piece.first, piece.n_elements)
}

impl Drop for StoreSink {
    fn drop(&mut self) {
        if !self.uploads.is_empty() {
            self.stop(self.resume);
        }
    }
}

/// The error of a run, which names the object.
fn failed(location: &Location, e: Error) -> RunError {
    let url = location.to_string();
    let e = if e.url == url { Error { url: String::new(), ..e } } else { e };
    RunError::io("write", Path::new(&url), e.into())
}

/// The error of a run for one that names the object: its URL becomes the path.
fn failed_somewhere(e: Error) -> RunError {
    let url = e.url.clone();
    RunError::io("write", Path::new(&url), Error { url: String::new(), ..e }.into())
}

impl fmt::Debug for StoreSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StoreSink { locations, replace, .. } = self;
        f.debug_struct("StoreSink").field("locations", locations).field("replace", replace).finish_non_exhaustive()
    }
}
