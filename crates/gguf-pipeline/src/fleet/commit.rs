//! Completes the outputs of a plan.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::error::FleetError;
use super::place::{Manifest, Place};
use super::{FleetPlan, Part};
use crate::execute::Overflow;
use crate::progress::{Cancelled, Event, Progress};
use crate::workers;

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
        let own = self.files.get(file);
        (0..own.map_or(0, |own| self.parts_of(own))).filter_map(move |number| self.part_in(file, number, before))
    }

    /// How far the parts are. Manifests are counted, not read.
    ///
    /// # Errors
    /// Errors of the places.
    pub fn status(&self, places: &[Box<dyn Place>]) -> Result<Status, FleetError> {
        let mut status = Status { n_parts: self.n_parts(), missing: Vec::new(), bytes: 0, is_complete: true };
        for (number, (file, place)) in self.files.iter().zip(places).enumerate() {
            let is_complete = file.is_complete(&**place)?;
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

    /// Completes all outputs, if all parts are done; returns the tensors with values that became infinite. Bytes that can be read back are
    /// compared with their manifests.
    ///
    /// # Errors
    /// [`FleetError::Missing`] for parts that are not done, and [`FleetError::StaleParts`] for parts that are to be made again; [`FleetError`].
    pub fn commit(
        &self,
        places: &[Box<dyn Place>],
        threads: Option<NonZeroUsize>,
        progress: &dyn Progress,
    ) -> Result<Vec<Overflow>, FleetError> {
        let (mut done, mut missing, mut stale) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (file, place)) in self.files.iter().zip(places).enumerate() {
            if file.is_complete(&**place)? {
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
        if !missing.is_empty() {
            return Err(FleetError::Missing { parts: missing });
        }
        progress.event(Event::Started { n_tensors: self.tensors.len(), bytes: self.file_bytes() });
        for (manifests, place) in done.iter().zip(places) {
            stale.extend(verify(manifests.as_deref().unwrap_or_default(), &**place, threads, progress)?);
        }
        if !stale.is_empty() {
            return Err(self.make_again(stale, places));
        }
        let mut overflows = std::collections::BTreeMap::new();
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
            for (tensor, values) in manifests.iter().flat_map(|(_, manifest)| &manifest.overflows) {
                *overflows.entry(*tensor).or_insert(0) += values;
            }
        }
        for (file, place) in self.files.iter().zip(places) {
            if !file.is_complete(&**place)? {
                return Err(FleetError::NotBegun { output: PathBuf::from(&file.path), part: None });
            }
            place.remove_notes()?;
        }
        let named =
            |(tensor, values): (usize, u64)| Some(Overflow { tensor: self.tensors.get(tensor)?.name.clone(), values });
        Ok(overflows.into_iter().filter_map(named).collect())
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
            match file.is_complete(&**place)? {
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
            if found.is_some_and(|found| found != manifest.sha256) {
                stale.lock().unwrap_or_else(PoisonError::into_inner).push(part.index);
            }
            Ok::<(), FleetError>(())
        },
    )?;
    let mut stale = stale.into_inner().unwrap_or_else(PoisonError::into_inner);
    stale.sort_unstable();
    Ok(stale)
}
