//! An output that many machines upload: the parts of a multipart upload, and notes in small objects.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_pipeline::Error as RunError;
use gguf_pipeline::fleet::{FleetError, Part, Place, sha256};
use object_store::multipart::PartId;
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStoreExt, PutPayload};
use serde_json::{Value, json};

use super::Bucket;
use crate::client::Client;
use crate::error::{Error, Problem};
use crate::location::Location;

/// The longest note: a head.
const LONGEST: u64 = 1 << 30;

/// The name of the note about the upload. It is removed last.
const UPLOAD: &str = "upload";

/// An object of a store that [many machines](gguf_pipeline::fleet) write. Its parts are those of a multipart upload, which any machine with the
/// credentials may add to; notes are objects whose keys begin with that of the object and `.parts/`.
pub struct StorePlace {
    bucket: Arc<Bucket>,
    key: Key,
    url: String,
}

impl StorePlace {
    /// The object at a location.
    ///
    /// # Errors
    /// If it is not an object of a store, or the store's options are invalid.
    pub fn open(client: &Client, location: &Location) -> Result<StorePlace, Error> {
        let (bucket, key) = client.buckets().open(location)?;
        Ok(StorePlace { bucket, key, url: location.to_string() })
    }

    fn note_key(&self, name: &str) -> Result<Key, FleetError> {
        let key = Key::parse(format!("{}.parts/{name}", self.key));
        key.map_err(|e| self.failed(Error::new("", Problem::Answer(e.to_string()))))
    }

    fn failed(&self, e: Error) -> FleetError {
        let url = PathBuf::from(&self.url);
        RunError::io("write", &url, Error { url: String::new(), ..e }.into()).into()
    }

    fn found(&self) -> Result<Option<ObjectMeta>, FleetError> {
        self.bucket.find(&self.url, &self.key).map_err(|e| self.failed(e))
    }

    fn not_begun(&self, part: Option<usize>) -> FleetError {
        FleetError::NotBegun { output: PathBuf::from(&self.url), part }
    }

    /// The bytes of an object, if it exists.
    fn read(&self, key: &Key, longest: u64) -> Result<Option<Vec<u8>>, FleetError> {
        let read = self.bucket.run(&self.url, None, async {
            let found = self.bucket.objects.get(key).await?;
            match found.meta.size {
                size if size <= longest => Ok(found.bytes().await?),
                size => Err(Problem::Answer(format!("{key} has {size} bytes, too many for a note")).into()),
            }
        });
        match read {
            Ok(bytes) => Ok(Some(bytes.to_vec())),
            Err(Error { problem: Problem::Status { status: 404, .. }, .. }) => Ok(None),
            Err(e) => Err(self.failed(e)),
        }
    }
}

/// What identifies the object that has the name of an output when it is begun.
fn identity(found: &ObjectMeta) -> Value {
    json!([found.e_tag, found.last_modified.timestamp_millis()])
}

/// Whether the store says that a part is not the one with that identifier.
fn is_stale(e: &Error) -> bool {
    matches!(&e.problem, Problem::Status { status: 400, text: Some(text) } if text.contains("InvalidPart"))
        || matches!(&e.problem, Problem::Status { status: 400, text: Some(text) } if text.contains("InvalidBlockList"))
}

impl Place for StorePlace {
    fn begin(&self, _: u64, replace: bool) -> Result<String, FleetError> {
        let found = self.found()?;
        if found.is_some() && !replace {
            return Err(self.failed(Error::new("", Problem::Exists)));
        }
        if let Some(note) = self.note(UPLOAD)? {
            if !replace {
                let found = PathBuf::from(format!("{}.parts/{UPLOAD}", self.url));
                return Err(FleetError::Begun { output: PathBuf::from(&self.url), found });
            }
            let note: Value = serde_json::from_slice(&note).unwrap_or_default();
            self.abort(note.get("id").and_then(Value::as_str).unwrap_or_default())?;
        }
        let Bucket { uploads, .. } = &*self.bucket;
        let begun = self.bucket.run(&self.url, None, async { Ok(uploads.create_multipart(&self.key).await?) });
        let id = begun.map_err(|e| self.failed(e))?;
        let note = json!({ "id": id, "replaced": found.as_ref().map(identity) });
        self.put_note(UPLOAD, note.to_string().as_bytes())?;
        Ok(id)
    }

    fn put(&self, upload: &str, part: &Part, bytes: Vec<u8>) -> Result<String, FleetError> {
        let (payload, id) = (PutPayload::from(bytes), upload.to_owned());
        let uploads = &self.bucket.uploads;
        let put = self
            .bucket
            .run(&self.url, None, async { Ok(uploads.put_part(&self.key, &id, part.number, payload).await?) });
        match put {
            Ok(id) => Ok(id.content_id),
            Err(Error { problem: Problem::Status { status: 404, .. }, .. }) => Err(self.not_begun(Some(part.index))),
            // Some servers answer to an unknown upload with other errors.
            Err(_) if self.note(UPLOAD)?.is_none() => Err(self.not_begun(Some(part.index))),
            Err(e) => Err(self.failed(e)),
        }
    }

    fn read_back(&self, _: &Part) -> Result<Option<String>, FleetError> {
        Ok(None)
    }

    fn output(&self, longest: u64) -> Result<Option<Vec<u8>>, FleetError> {
        match self.found()?.is_some_and(|found| found.size <= longest) {
            true => self.read(&self.key, longest),
            false => Ok(None),
        }
    }

    fn complete(&self, upload: &str, ids: Vec<String>, bytes: u64, replace: bool) -> Result<(), FleetError> {
        let note: Value = self.note(UPLOAD)?.and_then(|note| serde_json::from_slice(&note).ok()).unwrap_or_default();
        if let Some(found) = self.found()? {
            let is_old = note.get("replaced") == Some(&identity(&found));
            if !replace && found.size != bytes {
                return Err(self.failed(Error::new("", Problem::Exists)));
            }
            if !is_old && found.size == bytes {
                // Another commit was faster.
                return Ok(());
            }
        }
        let (parts, id) = (ids.into_iter().map(|content_id| PartId { content_id }).collect(), upload.to_owned());
        let uploads = &self.bucket.uploads;
        let done =
            self.bucket.run(&self.url, None, async { Ok(uploads.complete_multipart(&self.key, &id, parts).await?) });
        let found = self.found()?.filter(|found| note.get("replaced") != Some(&identity(found)));
        match (done, found) {
            (_, Some(found)) if found.size == bytes => Ok(()),
            (Ok(_), found) => {
                let (output, found) = (PathBuf::from(&self.url), found.map_or(0, |found| found.size));
                Err(FleetError::Length { output, expected: bytes, found })
            }
            (Err(e), _) if is_stale(&e) => Err(FleetError::StaleParts { parts: Vec::new() }),
            (Err(e), _) => Err(self.failed(e)),
        }
    }

    fn is_complete(&self, _: &str, bytes: u64, head_bytes: u64, head_sha256: &str) -> Result<bool, FleetError> {
        let Some(found) = self.found()?.filter(|found| found.size == bytes && head_bytes <= bytes) else {
            return Ok(false);
        };
        let note: Option<Value> = self.note(UPLOAD)?.and_then(|note| serde_json::from_slice(&note).ok());
        if note.is_some_and(|note| note.get("replaced") == Some(&identity(&found))) {
            return Ok(false);
        }
        let head = self
            .bucket
            .run(&self.url, None, async { Ok(self.bucket.objects.get_range(&self.key, 0..head_bytes).await?) });
        Ok(sha256(&head.map_err(|e| self.failed(e))?) == head_sha256)
    }

    fn abort(&self, upload: &str) -> Result<(), FleetError> {
        let (uploads, id) = (&self.bucket.uploads, upload.to_owned());
        let aborted = self.bucket.run(&self.url, None, async { Ok(uploads.abort_multipart(&self.key, &id).await?) });
        match aborted {
            // An upload that the store does not know is gone.
            Ok(()) | Err(Error { problem: Problem::Status { .. }, .. }) => self.remove_notes(),
            Err(e) => Err(self.failed(e)),
        }
    }

    fn put_note(&self, name: &str, bytes: &[u8]) -> Result<(), FleetError> {
        if name != UPLOAD && self.note(UPLOAD)?.is_none() {
            return Err(self.not_begun(None));
        }
        let (key, payload) = (self.note_key(name)?, PutPayload::from(bytes.to_vec()));
        let put = self.bucket.run(&self.url, None, async { Ok(self.bucket.objects.put(&key, payload).await?) });
        put.map(drop).map_err(|e| self.failed(e))
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, FleetError> {
        self.read(&self.note_key(name)?, LONGEST)
    }

    fn notes(&self) -> Result<Vec<String>, FleetError> {
        let prefix = self.note_key("x")?;
        let folder = prefix.as_ref().rsplit_once('/').map(|(folder, _)| Key::parse(folder).unwrap_or_default());
        let found = self.bucket.list(&self.url, &folder.unwrap_or_default()).map_err(|e| self.failed(e))?;
        let names = found.iter().filter_map(|found| Path::new(found.location.as_ref()).file_name()?.to_str());
        Ok(names.map(str::to_owned).collect())
    }

    fn remove_note(&self, name: &str) -> Result<(), FleetError> {
        let key = self.note_key(name)?;
        let removed = self.bucket.run(&self.url, None, async { Ok(self.bucket.objects.delete(&key).await?) });
        match removed {
            Ok(()) | Err(Error { problem: Problem::Status { status: 404, .. }, .. }) => Ok(()),
            Err(e) => Err(self.failed(e)),
        }
    }

    fn remove_notes(&self) -> Result<(), FleetError> {
        let names = self.notes()?;
        names.iter().filter(|name| *name != UPLOAD).try_for_each(|name| self.remove_note(name))?;
        self.remove_note(UPLOAD)
    }
}

impl fmt::Debug for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorePlace").field("url", &self.url).finish_non_exhaustive()
    }
}
