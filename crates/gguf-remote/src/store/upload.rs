//! The upload of an object: its parts, and the manifest of one that is kept.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use object_store::MultipartId;
use object_store::multipart::PartId;
use object_store::path::Path as Key;

use super::Bucket;
use super::manifest::{Manifest, PieceKey};
use super::sink::Limits;
use crate::budget::lock;
use crate::error::{Error, Problem};

/// The most parts of an object.
const PARTS: u64 = 10_000;

/// The length of the parts of an object. It is whole mebibytes, unless a test has shorter parts.
pub(super) fn part_len(length: u64, limits: Limits) -> u64 {
    length.div_ceil(PARTS).next_multiple_of(limits.shortest.min(1 << 20)).max(limits.shortest)
}

/// The upload of an object.
pub(super) struct Upload {
    pub(super) object: Arc<Object>,
    pub(super) length: u64,
    /// The length of all parts but the last.
    pub(super) part: u64,
    /// Bytes that are not written.
    pub(super) padding: Vec<Range<u64>>,
    /// Parts that lack bytes.
    pub(super) begun: Mutex<BTreeMap<u64, Part>>,
    /// The ETag of the object that is to be replaced.
    pub(super) replaced: Option<Option<String>>,
    /// The object has its name.
    pub(super) is_complete: bool,
    /// If the upload can be resumed.
    pub(super) kept: Option<KeptUpload>,
}

/// An upload that can be resumed.
pub(super) struct KeptUpload {
    pub(super) manifest: Key,
    /// Without the parts of this run.
    pub(super) earlier: Manifest,
    /// Whether an earlier run began it.
    pub(super) is_resumed: bool,
    /// What this run adds to the manifest.
    pub(super) overflows: Mutex<BTreeMap<PieceKey, u64>>,
    pub(super) saved: Mutex<Instant>,
}

/// The time between two manifests of an upload.
pub(super) const SAVE: Duration = Duration::from_secs(2);

/// Where an upload goes.
pub(super) struct Object {
    pub(super) bucket: Arc<Bucket>,
    pub(super) key: Key,
    pub(super) url: String,
    pub(super) id: MultipartId,
}

/// A part that is being filled.
pub(super) struct Part {
    pub(super) bytes: Vec<u8>,
    pub(super) missing: u64,
}

impl Upload {
    /// Whether an earlier run has sent the part.
    pub(super) fn has(&self, index: u64) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.earlier.parts.contains_key(&index))
    }

    /// The manifest, with the parts of this run.
    pub(super) fn manifest(&self, kept: &KeptUpload, parts: &BTreeMap<u64, String>) -> Manifest {
        let mut manifest = kept.earlier.clone();
        manifest.parts.extend(parts.iter().map(|(index, id)| (*index, id.clone())));
        manifest.overflows.extend(lock(&kept.overflows).iter().map(|(piece, values)| (*piece, *values)));
        manifest
    }

    /// Writes the manifest, if the upload is kept.
    pub(super) fn save(&self, parts: &BTreeMap<u64, String>) -> Result<(), Error> {
        let Some(kept) = &self.kept else { return Ok(()) };
        let manifest = self.manifest(kept, parts);
        let Object { bucket, url, .. } = &*self.object;
        bucket.run(url, None, manifest.put(bucket, &kept.manifest))
    }

    pub(super) fn is_resumed(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.is_resumed)
    }

    /// The bytes of a part.
    pub(super) fn range(&self, index: u64) -> Range<u64> {
        let start = index.saturating_mul(self.part);
        start..start.saturating_add(self.part).min(self.length)
    }

    /// The number of bytes in a range that will be written.
    pub(super) fn missing(&self, range: &Range<u64>) -> u64 {
        let first = self.padding.partition_point(|gap| gap.end <= range.start);
        let gaps = self.padding.iter().skip(first).take_while(|gap| gap.start < range.end);
        let padding: u64 = gaps.map(|gap| gap.end.min(range.end) - gap.start.max(range.start)).sum();
        range.end - range.start - padding
    }

    /// Makes an object of the parts, and compares its length.
    pub(super) fn complete(&self, parts: Vec<PartId>) -> Result<(), Error> {
        let Object { bucket, key, url, id } = &*self.object;
        let done = bucket.run(url, None, async { Ok(bucket.uploads.complete_multipart(key, id, parts).await?) });
        let found = bucket.find(url, key);
        let is_new = |found: &Option<_>| match found {
            Some(object_store::ObjectMeta { size, e_tag, .. }) => {
                *size == self.length && self.replaced.as_ref().is_none_or(|before| before != e_tag)
            }
            None => false,
        };
        match (done, found) {
            (Ok(_), Ok(Some(found))) if found.size == self.length => Ok(()),
            (Ok(_), Ok(found)) => {
                let found = found.map_or(0, |found| found.size);
                Err(Error::new(url, Problem::Uploaded { expected: self.length, found }))
            }
            // The answer to the first attempt was lost, and the store does not know the upload any more.
            (Err(e), Ok(found)) if e.attempts > 1 && is_new(&found) => Ok(()),
            (Err(e), _) | (Ok(_), Err(e)) => Err(e),
        }
    }
}

impl Part {
    pub(super) fn fill(&mut self, at: u64, bytes: &[u8]) {
        let place = usize::try_from(at).ok().and_then(|at| self.bytes.get_mut(at..)?.get_mut(..bytes.len()));
        if let Some(place) = place {
            place.copy_from_slice(bytes);
            self.missing = self.missing.saturating_sub(bytes.len() as u64);
        }
    }
}
