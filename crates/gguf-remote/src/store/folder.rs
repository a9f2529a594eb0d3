//! A prefix of a bucket, as the folder of a checkpoint.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gguf_hf::{Folder, FolderError, FolderFile};
use object_store::path::Path as Key;

use super::{Bucket, StoreFile};
use crate::budget::lock;
use crate::client::Client;
use crate::error::{Error, Problem};
use crate::location::{Location, is_path};

/// A prefix of a bucket, with the files of a checkpoint. What is directly in it is listed once, and so is each folder in it that is read.
pub struct StoreFolder {
    client: Client,
    bucket: Arc<Bucket>,
    location: Location,
    prefix: String,
    path: PathBuf,
    /// The names in folders, and their lengths.
    listed: Mutex<HashMap<String, HashMap<String, u64>>>,
    /// The files that were opened: each is one source, however often it is opened.
    opened: Mutex<HashMap<String, FolderFile>>,
}

impl StoreFolder {
    /// Opens a prefix, and lists the objects directly in it.
    ///
    /// # Errors
    /// [`Error`]; with status 404 if there are no objects.
    pub fn open(client: &Client, location: &Location) -> Result<StoreFolder, Error> {
        let (bucket, key) = client.buckets().open(location)?;
        let folder = StoreFolder {
            client: client.clone(),
            bucket,
            location: location.clone(),
            prefix: key.to_string(),
            path: PathBuf::from(location.to_string()),
            listed: Mutex::default(),
            opened: Mutex::default(),
        };
        let is_empty = folder.list("", HashMap::is_empty)?;
        match is_empty {
            true => {
                let text = Some("there are no objects with this prefix".to_owned());
                Err(Error::new(location, Problem::Status { status: 404, text }))
            }
            false => Ok(folder),
        }
    }

    /// The key of a name in the folder.
    fn key(&self, name: &str) -> String {
        match (self.prefix.as_str(), name) {
            ("", name) => name.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, name) => format!("{prefix}/{name}"),
        }
    }

    /// What is directly in a folder: names and lengths.
    fn list<T>(&self, within: &str, use_list: impl FnOnce(&HashMap<String, u64>) -> T) -> Result<T, Error> {
        let mut listed = lock(&self.listed);
        if let Some(names) = listed.get(within) {
            return Ok(use_list(names));
        }
        let wrong = |_| Error::new(&self.location, Problem::NotInRepository);
        let prefix = Key::parse(self.key(within)).map_err(wrong)?;
        let objects = self.bucket.list(&self.location.to_string(), &prefix)?;
        let named =
            objects.into_iter().filter_map(|object| Some((object.location.filename()?.to_owned(), object.size)));
        Ok(use_list(listed.entry(within.to_owned()).or_insert(named.collect())))
    }

    /// The error of a name in the folder.
    fn failed(&self, name: &str, e: Error) -> FolderError {
        FolderError::Read { file: self.path.join(name), source: e.into() }
    }
}

impl Folder for StoreFolder {
    fn path(&self) -> &Path {
        &self.path
    }

    fn names(&self, within: &str) -> io::Result<Vec<String>> {
        if !within.is_empty() && !is_path(within) {
            return Ok(Vec::new());
        }
        Ok(self.list(within, |names| names.keys().cloned().collect())?)
    }

    fn open(&self, name: &str) -> Result<Option<FolderFile>, FolderError> {
        if !is_path(name) {
            return Ok(None);
        }
        let (within, last) = name.rsplit_once('/').unwrap_or(("", name));
        let len = self.list(within, |names| names.get(last).copied()).map_err(|e| self.failed(name, e))?;
        let Some(len) = len else { return Ok(None) };
        let mut opened = lock(&self.opened);
        if let Some(file) = opened.get(name) {
            return Ok(Some(file.clone()));
        }
        let (key, location) = (self.key(name), self.location.within(name));
        let Ok(key) = Key::parse(key) else { return Ok(None) };
        let file = StoreFile::new(&self.client, &location, Arc::clone(&self.bucket), key, Some(len));
        let file = FolderFile::from_source(file);
        opened.insert(name.to_owned(), file.clone());
        Ok(Some(file))
    }
}

impl fmt::Debug for StoreFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreFolder({})", self.location)
    }
}
