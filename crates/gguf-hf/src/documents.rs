//! The files of a folder, each of which a conversion opens, reads and parses once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::files;
use crate::folder::{Folder, FolderFile};
use crate::folder_error::FolderError;
use crate::tokenizer::hf::TokenizerJson;

/// A folder that remembers what it has opened, read and parsed. Errors are not remembered.
#[derive(Debug)]
pub(crate) struct Documents<'a> {
    folder: &'a dyn Folder,
    /// The files by name; `None` if there is no such file.
    opened: Mutex<HashMap<String, Option<FolderFile>>>,
    bytes: Mutex<HashMap<String, Arc<[u8]>>>,
    json: Mutex<HashMap<String, Arc<Json>>>,
    tokenizer: OnceLock<Arc<TokenizerJson>>,
}

impl<'a> Documents<'a> {
    /// The files of a folder.
    pub(crate) fn new(folder: &'a dyn Folder) -> Documents<'a> {
        Documents {
            folder,
            opened: Mutex::default(),
            bytes: Mutex::default(),
            json: Mutex::default(),
            tokenizer: OnceLock::new(),
        }
    }

    /// The path of the folder.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Whether the folder contains a file.
    pub(crate) fn has(&self, name: &str) -> Result<bool, FolderError> {
        files::has(self, name)
    }

    /// The bytes of a file; `None` if it does not exist.
    pub(crate) fn bytes(&self, name: &str) -> Result<Option<Arc<[u8]>>, FolderError> {
        if let Some(bytes) = locked(&self.bytes).get(name) {
            return Ok(Some(Arc::clone(bytes)));
        }
        let Some(bytes) = files::read_bytes(self, name)? else { return Ok(None) };
        let bytes: Arc<[u8]> = bytes.into();
        locked(&self.bytes).insert(name.to_owned(), Arc::clone(&bytes));
        Ok(Some(bytes))
    }

    /// The first bytes of a file, at most `most`; `None` if it does not exist.
    pub(crate) fn start(&self, most: usize, name: &str) -> Result<Option<Vec<u8>>, FolderError> {
        match locked(&self.bytes).get(name) {
            Some(bytes) => Ok(Some(bytes.get(..most).unwrap_or(bytes).to_vec())),
            None => files::read_start(most as u64, self, name),
        }
    }

    /// The text of a file, with every line ending converted to `\n` as in Python's text mode; `None` if it does not exist.
    pub(crate) fn lines(&self, name: &str) -> Result<Option<String>, FolderError> {
        let Some(bytes) = self.bytes(name)? else { return Ok(None) };
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(Some(with_plain_line_endings(text).into_owned())),
            Err(e) => Err(FolderError::NotUtf8 { file: self.path().join(name), at: e.valid_up_to() }),
        }
    }

    /// The value of a JSON file; `None` if it does not exist. Its length, its number of values and its nesting are limited.
    pub(crate) fn json(&self, name: &str) -> Result<Option<Arc<Json>>, FolderError> {
        if let Some(value) = locked(&self.json).get(name) {
            return Ok(Some(Arc::clone(value)));
        }
        let Some(value) = files::read_json(self, name)? else { return Ok(None) };
        let value = Arc::new(value);
        locked(&self.json).insert(name.to_owned(), Arc::clone(&value));
        Ok(Some(value))
    }

    /// The value of a JSON file; null if it does not exist.
    pub(crate) fn json_or_null(&self, name: &str) -> Result<Arc<Json>, FolderError> {
        Ok(self.json(name)?.unwrap_or_default())
    }

    /// The requested part of a JSON file, for its only reader; other content is skipped. `None` if the file does not exist.
    pub(crate) fn json_as<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, FolderError> {
        files::read_json_as(self, name)
    }

    /// `tokenizer.json`; `None` if it does not exist.
    pub(crate) fn tokenizer(&self) -> Result<Option<Arc<TokenizerJson>>, FolderError> {
        const NAME: &str = "tokenizer.json";
        if let Some(tokenizer) = self.tokenizer.get() {
            return Ok(Some(Arc::clone(tokenizer)));
        }
        let Some(bytes) = files::read_bytes(self, NAME)? else { return Ok(None) };
        let invalid = |source| FolderError::Json { file: self.path().join(NAME), source };
        let tokenizer = Arc::new(serde_json::from_slice(&bytes).map_err(invalid)?);
        Ok(Some(Arc::clone(self.tokenizer.get_or_init(|| tokenizer))))
    }
}

impl Folder for Documents<'_> {
    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn names(&self, within: &str) -> io::Result<Vec<String>> {
        self.folder.names(within)
    }

    fn open(&self, name: &str) -> Result<Option<FolderFile>, FolderError> {
        if let Some(file) = locked(&self.opened).get(name) {
            return Ok(file.clone());
        }
        let file = self.folder.open(name)?;
        locked(&self.opened).insert(name.to_owned(), file.clone());
        Ok(file)
    }

    fn real_name(&self) -> Option<String> {
        self.folder.real_name()
    }
}

/// The content of a lock. Nothing that holds one of these panics.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A text with every line ending converted to `\n`.
fn with_plain_line_endings(text: &str) -> Cow<'_, str> {
    match text.contains('\r') {
        true => text.replace("\r\n", "\n").replace('\r', "\n").into(),
        false => text.into(),
    }
}
