//! Outputs in memory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Part;
use super::error::FleetError;
use super::place::Place;

/// An output in memory, for workers in one process. Clones are the same output.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let bytes = gguf_io::Writer::write(Vec::new(), &gguf_format::Head::default(), [[0u8; 0]; 0])?;
/// # let model = gguf_io::Model::from_source(bytes, "model in memory")?;
/// use std::sync::Arc;
/// use gguf_pipeline::fleet::{FleetOptions, FleetPlan, MemoryPlace, Place};
/// use gguf_pipeline::{Draft, RunOptions};
///
/// let plan = Draft::copy_of(model)?.lay_out()?;
/// let place = MemoryPlace::default();
/// let places: [Box<dyn Place>; 1] = [Box::new(place.clone())];
/// let new = FleetPlan::divide(&plan, &["out.gguf".into()], FleetOptions::default())?;
/// let json = new.begin(&places)?.to_json()?;
///
/// // On any machine, for any part:
/// let plan = FleetPlan::parse(&json)?;
/// let open = |path: &std::path::Path| Ok(Arc::new(std::fs::File::open(path)?) as _);
/// let worker = plan.worker(Arc::new(open), None);
/// for index in 0..plan.n_parts() {
///     worker.make(index, &places, &RunOptions::default(), &())?;
/// }
/// plan.commit(&places, None, &())?;
/// assert_eq!(place.into_output().map(|bytes| bytes.len() as u64), Some(plan.file_bytes()));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct MemoryPlace(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The length, once the output is begun.
    bytes: Option<u64>,
    parts: BTreeMap<u64, Vec<u8>>,
    notes: BTreeMap<String, Vec<u8>>,
    complete: Option<Vec<u8>>,
}

impl MemoryPlace {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of the output, if it is complete.
    pub fn into_output(self) -> Option<Vec<u8>> {
        self.state().complete.take()
    }

    /// The bytes of the part that begins at an offset, if it was made, and is not taken yet.
    pub fn take_part(&self, offset: u64) -> Option<Vec<u8>> {
        self.state().parts.remove(&offset)
    }

    fn not_begun(part: Option<usize>) -> FleetError {
        FleetError::NotBegun { output: PathBuf::from("memory"), part }
    }
}

impl Place for MemoryPlace {
    fn begin(&self, bytes: u64, _: bool) -> Result<String, FleetError> {
        *self.state() = State { bytes: Some(bytes), ..State::default() };
        Ok(String::new())
    }

    fn put(&self, _: &str, part: &Part, bytes: Vec<u8>) -> Result<String, FleetError> {
        let mut state = self.state();
        if state.bytes.is_none() {
            return Err(MemoryPlace::not_begun(Some(part.index)));
        }
        state.parts.insert(part.range.start, bytes);
        Ok(String::new())
    }

    fn read_back(&self, part: &Part) -> Result<Option<String>, FleetError> {
        let state = self.state();
        let bytes = state.parts.get(&part.range.start);
        Ok(bytes.map(|bytes| format!("{:032x}", xxhash_rust::xxh3::xxh3_128(bytes))))
    }

    fn output(&self, longest: u64) -> Result<Option<Vec<u8>>, FleetError> {
        Ok(self.state().complete.clone().filter(|bytes| bytes.len() as u64 <= longest))
    }

    fn complete(&self, _: &str, _: Vec<String>, bytes: u64, _: bool) -> Result<(), FleetError> {
        let mut state = self.state();
        if state.complete.is_none() {
            let whole: Vec<u8> = std::mem::take(&mut state.parts).into_values().flatten().collect();
            let (output, found) = (PathBuf::from("memory"), whole.len() as u64);
            if found != bytes {
                return Err(FleetError::Length { output, expected: bytes, found });
            }
            state.complete = Some(whole);
        }
        state.bytes = None;
        Ok(())
    }

    fn is_complete(&self, _: &str, _: u64, _: u64, _: &str) -> Result<bool, FleetError> {
        Ok(self.state().complete.is_some())
    }

    fn abort(&self, _: &str) -> Result<(), FleetError> {
        *self.state() = State::default();
        Ok(())
    }

    fn put_note(&self, name: &str, bytes: &[u8]) -> Result<(), FleetError> {
        let mut state = self.state();
        if state.bytes.is_none() {
            return Err(MemoryPlace::not_begun(None));
        }
        state.notes.insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, FleetError> {
        Ok(self.state().notes.get(name).cloned())
    }

    fn notes(&self) -> Result<Vec<String>, FleetError> {
        Ok(self.state().notes.keys().cloned().collect())
    }

    fn remove_note(&self, name: &str) -> Result<(), FleetError> {
        self.state().notes.remove(name);
        Ok(())
    }

    fn remove_notes(&self) -> Result<(), FleetError> {
        self.state().notes.clear();
        Ok(())
    }
}
