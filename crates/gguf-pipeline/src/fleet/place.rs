//! Where the parts of an output go.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::Xxh3;

use super::error::FleetError;
use super::make::{buffer, to_index};
use super::{FleetPlan, Part};

/// The name of the note with the head of an output.
pub(super) const HEAD: &str = "head";

/// An output that many machines write: a file on a shared file system, or an object of a store. Beside it are notes, which are small files or
/// objects with names of their own.
///
/// Every method may be called by several machines at once, and again after it has failed or the machine has died.
pub trait Place: Send + Sync {
    /// Begins the output, which will have `bytes` bytes, and returns an identifier. `replace` allows for an existing output, which stays until
    /// the new one is complete, and discards one that was begun earlier.
    ///
    /// # Errors
    /// If the output exists or was begun, unless it may be replaced; errors of the system.
    fn begin(&self, bytes: u64, replace: bool) -> Result<String, FleetError>;

    /// Makes the bytes of a part durable; returns an identifier of them.
    ///
    /// # Errors
    /// [`FleetError::NotBegun`] if the output is complete or aborted; errors of the system.
    fn put(&self, upload: &str, part: &Part, bytes: Vec<u8>) -> Result<String, FleetError>;

    /// Begins a part whose bytes come in pieces. By default they are collected in memory, and [put](Place::put).
    ///
    /// # Errors
    /// As for [`put`](Place::put).
    fn writer<'a>(&'a self, upload: &'a str, part: &'a Part) -> Result<Box<dyn PartWriter + 'a>, FleetError> {
        let bytes = Mutex::new(buffer(to_index(part.range.end - part.range.start))?);
        Ok(Box::new(Collected { place: self, upload, part, bytes }))
    }

    /// The XXH3 of the bytes of a part, 128 bits in hexadecimal, if they can be read before the output is complete.
    ///
    /// # Errors
    /// Errors of the system.
    fn read_back(&self, part: &Part) -> Result<Option<String>, FleetError>;

    /// The bytes of the complete output, if it exists and is not longer than `longest`.
    ///
    /// # Errors
    /// Errors of the system.
    fn output(&self, longest: u64) -> Result<Option<Vec<u8>>, FleetError>;

    /// Completes the output from the identifiers of all parts, and checks its length. An output that is complete stays as it is.
    ///
    /// # Errors
    /// If a file has got the name of the output that must not be replaced; [`FleetError::StaleParts`]; errors of the system.
    fn complete(&self, upload: &str, ids: Vec<String>, bytes: u64, replace: bool) -> Result<(), FleetError>;

    /// Whether the output is complete: its length and the first bytes are these.
    ///
    /// # Errors
    /// Errors of the system.
    fn is_complete(&self, upload: &str, bytes: u64, head_bytes: u64, head_sha256: &str) -> Result<bool, FleetError>;

    /// Discards the output that was begun, with its notes. A complete output stays.
    ///
    /// # Errors
    /// Errors of the system.
    fn abort(&self, upload: &str) -> Result<(), FleetError>;

    /// Writes a note, whole or not at all.
    ///
    /// # Errors
    /// [`FleetError::NotBegun`]; errors of the system.
    fn put_note(&self, name: &str, bytes: &[u8]) -> Result<(), FleetError>;

    /// A note, if it exists.
    ///
    /// # Errors
    /// Errors of the system.
    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, FleetError>;

    /// The names of all notes.
    ///
    /// # Errors
    /// Errors of the system.
    fn notes(&self) -> Result<Vec<String>, FleetError>;

    /// Removes a note, if it exists.
    ///
    /// # Errors
    /// Errors of the system.
    fn remove_note(&self, name: &str) -> Result<(), FleetError>;

    /// Removes all notes.
    ///
    /// # Errors
    /// Errors of the system.
    fn remove_notes(&self) -> Result<(), FleetError>;
}

/// A part on its way to an output. Several threads may write pieces of it at once.
pub trait PartWriter: Sync {
    /// Writes bytes of the part at an offset in the output.
    ///
    /// # Errors
    /// Errors of the system.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), FleetError>;

    /// Makes the part durable, once all its bytes are written; returns an identifier of them.
    ///
    /// # Errors
    /// As for [`Place::put`].
    fn finish(self: Box<Self>) -> Result<String, FleetError>;
}

/// A part in memory.
struct Collected<'a, P: ?Sized> {
    place: &'a P,
    upload: &'a str,
    part: &'a Part,
    bytes: Mutex<Vec<u8>>,
}

impl<P: Place + ?Sized> PartWriter for Collected<'_, P> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), FleetError> {
        let start = to_index(offset.saturating_sub(self.part.range.start));
        let mut all = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(to) = all.get_mut(start..start.saturating_add(bytes.len())) {
            to.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<String, FleetError> {
        let bytes = self.bytes.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.place.put(self.upload, self.part, bytes)
    }
}

/// What says that a part is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    /// The version of the format: 1.
    pub gguf_part: u32,
    /// The SHA-256 of the plan in JSON.
    pub plan: String,
    /// The index of the part in the plan.
    pub part: usize,
    /// The first byte in the output.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// The XXH3 of the bytes, 128 bits in hexadecimal; empty for results of samples.
    pub xxh3: String,
    /// The identifier of the bytes in the store; empty for a file.
    pub id: String,
    /// Whether the part was done before, with other bytes or by a store that identifies the same bytes differently.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// For tensors with finite values that became infinite, the index in the plan and the number of values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overflows: Vec<(usize, u64)>,
    /// For a plan with a report, the indexes of tensors and the [errors](gguf_quants::measure::TensorError::to_words) of the rows that begin in the part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<(usize, Vec<u64>)>,
    /// For a plan of samples, what was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<Value>,
}

impl Manifest {
    /// The name of the note for a part.
    pub(super) fn name(part: &Part) -> String {
        format!("part-{:05}.json", part.number)
    }

    /// Reads the manifest of a part, if it is there.
    pub(super) fn read(plan: &FleetPlan, part: &Part, place: &dyn Place) -> Result<Option<Manifest>, FleetError> {
        let Some(json) = place.note(&Manifest::name(part))? else { return Ok(None) };
        let wrong = |what: String| FleetError::Manifest { part: part.index, what };
        let manifest: Manifest = serde_json::from_slice(&json).map_err(|e| wrong(e.to_string()))?;
        let bytes = part.range.end - part.range.start;
        let facts = [
            ("version", manifest.gguf_part.to_string(), "1".to_owned()),
            ("plan", manifest.plan.clone(), plan.hash.clone()),
            ("part", manifest.part.to_string(), part.index.to_string()),
            ("offset", manifest.offset.to_string(), part.range.start.to_string()),
            ("bytes", manifest.bytes.to_string(), bytes.to_string()),
        ];
        match facts.into_iter().find(|(_, found, expected)| found != expected) {
            Some((what, found, expected)) => Err(wrong(format!("{what} is {found}; expected {expected}"))),
            None => Ok(Some(manifest)),
        }
    }
}

/// The SHA-256 of bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A finished XXH3, 128 bits in hexadecimal.
pub(super) fn xxh3(hash: &Xxh3) -> String {
    format!("{:032x}", hash.digest128())
}
