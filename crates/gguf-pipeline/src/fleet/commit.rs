//! Completes the outputs of a plan.

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use gguf_quants::measure::TensorError;
use serde_json::Value;

use super::error::FleetError;
use super::place::{Manifest, Place};
use super::{FleetPlan, Part};
use crate::execute::Overflow;
use crate::options::RunSummary;
use crate::progress::{Cancelled, Event, Progress};
use crate::report::{ErrorsOfTensors, Report};
use crate::workers;

/// The parts of an output, with their manifests.
type Manifests = Vec<(Part, Manifest)>;

/// How far the parts of a plan are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The number of parts.
    pub n_parts: usize,
    /// The indexes of the parts that are not done.
    pub missing: Vec<usize>,
    /// The number of bytes of the parts that are done.
    pub bytes: u64,
    /// Whether all outputs are complete.
    pub is_complete: bool,
}

impl From<Cancelled> for FleetError {
    fn from(e: Cancelled) -> FleetError {
        FleetError::Run(e.into())
    }
}

impl FleetPlan {
    /// The parts of an output.
    fn parts_in(&self, file: usize) -> impl Iterator<Item = Part> {
        let before = self.files.iter().take(file).map(|file| self.parts_of(file)).sum();
        let n_parts = self.files.get(file).map_or(0, |own| self.parts_of(own));
        (0..n_parts).filter_map(move |number| self.part_in(file, number, before))
    }

    /// How far the parts are. Manifests are counted, not read.
    ///
    /// # Errors
    /// Errors of the places.
    pub fn status(&self, places: &[Box<dyn Place>]) -> Result<Status, FleetError> {
        let mut status = Status { n_parts: self.n_parts(), missing: Vec::new(), bytes: 0, is_complete: true };
        for (number, (file, place)) in self.files.iter().zip(places).enumerate() {
            let is_complete = self.is_complete(file, &**place)?;
            status.is_complete &= is_complete;
            let notes: HashSet<String> =
                if is_complete { HashSet::new() } else { place.notes()?.into_iter().collect() };
            for part in self.parts_in(number) {
                match is_complete || notes.contains(&Manifest::name(&part)) {
                    true => status.bytes += part.range.end - part.range.start,
                    false => status.missing.push(part.index),
                }
            }
        }
        Ok(status)
    }

    /// Completes all outputs, if all parts are done. Bytes that can be read back are compared with their manifests. The report and the tensors with
    /// values that became infinite are those of the outputs that this call completes.
    ///
    /// # Errors
    /// [`FleetError::Missing`] for parts that are not done, and [`FleetError::StaleParts`] for parts that are to be made again; [`FleetError`].
    pub fn commit(
        &self,
        places: &[Box<dyn Place>],
        threads: Option<NonZeroUsize>,
        progress: &dyn Progress,
    ) -> Result<RunSummary, FleetError> {
        let mut before = 0;
        loop {
            // Another commit may complete an output at any moment, and remove what this one reads.
            let done = self.commit_once(places, threads, progress);
            if !matches!(done, Err(FleetError::NotBegun { .. } | FleetError::Missing { .. })) {
                return done;
            }
            match self.n_complete(places)? {
                now if now > before => before = now,
                _ => return done,
            }
        }
    }

    /// The number of outputs that are complete.
    fn n_complete(&self, places: &[Box<dyn Place>]) -> Result<usize, FleetError> {
        let mut n = 0;
        for (file, place) in self.files.iter().zip(places) {
            n += usize::from(self.is_complete(file, &**place)?);
        }
        Ok(n)
    }

    fn commit_once(
        &self,
        places: &[Box<dyn Place>],
        threads: Option<NonZeroUsize>,
        progress: &dyn Progress,
    ) -> Result<RunSummary, FleetError> {
        let (done, mut stale) = (self.manifests(places)?, Vec::new());
        progress.event(Event::Started { n_tensors: self.tensors.len(), bytes: self.file_bytes() });
        for (manifests, place) in done.iter().zip(places) {
            stale.extend(verify(manifests.as_deref().unwrap_or_default(), &**place, threads, progress)?);
        }
        if !stale.is_empty() {
            return Err(self.make_again(stale, places));
        }
        let (mut overflows, mut errors) = (BTreeMap::new(), ErrorsOfTensors::new());
        for ((file, manifests), place) in self.files.iter().zip(done).zip(places) {
            let Some(manifests) = manifests else { continue };
            let ids = manifests.iter().map(|(_, manifest)| manifest.id.clone()).collect();
            match place.complete(&file.upload, ids, file.bytes, file.replace) {
                Err(FleetError::StaleParts { .. }) => {
                    // Those that were made twice are suspected, or all.
                    let is_suspect = |again: bool| again || manifests.iter().all(|(_, manifest)| !manifest.again);
                    let suspects = manifests.iter().filter(|(_, manifest)| is_suspect(manifest.again));
                    return Err(self.make_again(suspects.map(|(part, _)| part.index).collect(), places));
                }
                completed => completed?,
            }
            for (part, manifest) in &manifests {
                for (tensor, values) in &manifest.overflows {
                    let all: &mut u64 = overflows.entry(*tensor).or_default();
                    *all = all.saturating_add(*values);
                }
                for (tensor, words) in &manifest.errors {
                    let what =
                        || FleetError::Manifest { part: part.index, what: "its errors are no errors".to_owned() };
                    errors.entry(*tensor).or_default().merge(&TensorError::from_words(words).ok_or_else(what)?);
                }
            }
        }
        for (file, place) in self.files.iter().zip(places) {
            if !self.is_complete(file, &**place)? {
                return Err(FleetError::NotBegun { output: PathBuf::from(&file.path), part: None });
            }
            place.remove_notes()?;
        }
        let named =
            |(tensor, values): (usize, u64)| Some(Overflow { tensor: self.tensors.get(tensor)?.name.clone(), values });
        Ok(RunSummary {
            paths: self.outputs().map(Path::to_owned).collect(),
            overflows: overflows.into_iter().filter_map(named).collect(),
            report: self.report.then(|| Report::of(&errors)),
        })
    }

    /// For each output its manifests, or `None` if it is complete.
    fn manifests(&self, places: &[Box<dyn Place>]) -> Result<Vec<Option<Manifests>>, FleetError> {
        let (mut done, mut missing) = (Vec::new(), Vec::new());
        for (number, (file, place)) in self.files.iter().zip(places).enumerate() {
            if self.is_complete(file, &**place)? {
                done.push(None);
                continue;
            }
            let mut manifests = Vec::new();
            for part in self.parts_in(number) {
                match Manifest::read(self, &part, &**place)? {
                    Some(manifest) => manifests.push((part, manifest)),
                    None => missing.push(part.index),
                }
            }
            done.push(Some(manifests));
        }
        match missing.is_empty() {
            true => Ok(done),
            false => Err(FleetError::Missing { parts: missing }),
        }
    }

    /// The results of all parts of a plan of [samples](super::Samples), in order; `None` if the output is complete.
    ///
    /// # Errors
    /// [`FleetError::Missing`] for parts that are not done; [`FleetError`].
    pub fn results(&self, places: &[Box<dyn Place>]) -> Result<Option<Vec<Value>>, FleetError> {
        let manifests = match self.manifests(places) {
            // Another commit was faster.
            Err(FleetError::Missing { .. }) if self.n_complete(places)? > 0 => return Ok(None),
            manifests => manifests?,
        };
        let Some(Some(manifests)) = manifests.into_iter().next() else { return Ok(None) };
        let result = |(part, manifest): (Part, Manifest)| {
            let what = || FleetError::Manifest { part: part.index, what: "it has no results".to_owned() };
            manifest.results.ok_or_else(what)
        };
        manifests.into_iter().map(result).collect::<Result<_, _>>().map(Some)
    }

    /// Completes the output of a plan of samples, whose JSON must have the [hash](FleetPlan::hash) of the plan as the member `plan`; or tidies, if it
    /// is complete.
    ///
    /// # Errors
    /// Errors of the place.
    pub fn commit_results(&self, places: &[Box<dyn Place>], json: Option<Vec<u8>>) -> Result<(), FleetError> {
        let Some((file, place)) = self.files.first().zip(places.first()) else { return Ok(()) };
        if let Some(json) = json {
            let bytes = json.len() as u64;
            let part = Part { index: 0, file: 0, number: 0, range: 0..bytes };
            let put = place.put(&file.upload, &part, json);
            match put.and_then(|id| place.complete(&file.upload, vec![id], bytes, file.replace)) {
                Err(FleetError::NotBegun { .. }) if self.is_complete(file, &**place)? => {}
                done => done?,
            }
        }
        place.remove_notes()
    }

    /// Marks parts as not done.
    fn make_again(&self, parts: Vec<usize>, places: &[Box<dyn Place>]) -> FleetError {
        for part in parts.iter().filter_map(|index| self.part(*index)) {
            if let Some(place) = places.get(part.file)
                && let Err(e) = place.remove_note(&Manifest::name(&part))
            {
                return e;
            }
        }
        FleetError::StaleParts { parts }
    }

    /// Discards all parts, and what was begun.
    ///
    /// # Errors
    /// [`FleetError::Complete`] if the outputs are complete; errors of the places.
    pub fn abort(&self, places: &[Box<dyn Place>]) -> Result<(), FleetError> {
        for (file, place) in self.files.iter().zip(places) {
            match self.is_complete(file, &**place)? {
                true => return Err(FleetError::Complete { output: PathBuf::from(&file.path) }),
                false => place.abort(&file.upload)?,
            }
        }
        Ok(())
    }
}

/// The parts whose bytes are not those of their manifests.
fn verify(
    manifests: &[(Part, Manifest)],
    place: &dyn Place,
    threads: Option<NonZeroUsize>,
    progress: &dyn Progress,
) -> Result<Vec<usize>, FleetError> {
    let stale = Mutex::new(Vec::new());
    workers::for_each(
        threads,
        manifests.iter(),
        progress,
        || (),
        |(), (part, manifest)| {
            let found = place.read_back(part)?;
            progress.event(Event::Advanced { bytes: manifest.bytes });
            if found.is_some_and(|found| found != manifest.xxh3) {
                stale.lock().unwrap_or_else(PoisonError::into_inner).push(part.index);
            }
            Ok::<(), FleetError>(())
        },
    )?;
    let mut stale = stale.into_inner().unwrap_or_else(PoisonError::into_inner);
    stale.sort_unstable();
    Ok(stale)
}
