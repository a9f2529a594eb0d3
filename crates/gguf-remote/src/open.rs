//! Models in remote places.

use std::io;
use std::path::Path;
use std::sync::Arc;

use gguf_io::{Error as IoError, Model, ModelFile, ReadAt};

use crate::client::Client;
use crate::error::{Error, Problem};
use crate::file::HttpFile;
use crate::hub::Repo;
use crate::location::{Location, decoded};

impl Client {
    /// Opens one GGUF file. Its head is read with one request that ends when the head is complete.
    ///
    /// # Errors
    /// [`gguf_io::Error`]; that of the requests, an [`Error`], is in [`gguf_io::Error::Io`].
    pub fn open_file(&self, location: &Location) -> Result<ModelFile, IoError> {
        self.opener(location)?.file(Path::new(&location.to_string()))
    }

    /// Opens a model. If the file is one of several shards, the others are found by their names beside it.
    ///
    /// # Errors
    /// As for [`open_file`](Client::open_file); [`gguf_io::Error::Shards`].
    pub fn open_model(&self, location: &Location) -> Result<Model, IoError> {
        let opener = self.opener(location)?;
        Model::open_by(Path::new(&location.to_string()), |path| opener.file(path))
    }

    /// Opens files beside each other: a file, and the other shards of its model.
    ///
    /// # Errors
    /// As for [`open_file`](Client::open_file), if the repository cannot be listed.
    pub fn opener(&self, location: &Location) -> Result<Opener, IoError> {
        let files = match location {
            Location::Web(_) => Files::Web(self.clone()),
            Location::Hub { repo, revision, .. } => {
                let repo = Repo::open(self, repo, revision.as_deref());
                Files::Repo(repo.map_err(|e| failed(location, e))?)
            }
            #[cfg(feature = "cloud")]
            Location::Store { .. } => Files::Store(self.clone()),
            #[cfg(not(feature = "cloud"))]
            Location::Store { .. } => return Err(failed(location, Error::new(location, Problem::NoStores))),
        };
        Ok(Opener { files, first: location.clone() })
    }
}

/// Opens the files of one folder of a web server or store, or of one commit of a repository; from [`Client::opener`].
#[derive(Debug)]
pub struct Opener {
    files: Files,
    first: Location,
}

#[derive(Debug)]
enum Files {
    Web(Client),
    Repo(Repo),
    #[cfg(feature = "cloud")]
    Store(Client),
}

impl Opener {
    /// The place of a file, as a path: that of the opener, or its path with another file name.
    fn location(&self, path: &Path) -> Location {
        let name = path.file_name().and_then(|name| name.to_str());
        match (name.filter(|_| path != Path::new(&self.first.to_string())), &self.first) {
            (Some(name), Location::Web(_)) => self.first.with_file_name(&decoded(name)),
            (Some(name), _) => self.first.with_file_name(name),
            (None, _) => self.first.clone(),
        }
    }

    /// Opens a GGUF file.
    ///
    /// # Errors
    /// As for [`Client::open_file`].
    pub fn file(&self, path: &Path) -> Result<ModelFile, IoError> {
        ModelFile::from_source(self.source(path)?, path)
    }

    /// Opens a file of any kind.
    ///
    /// # Errors
    /// [`gguf_io::Error::Io`], with an [`Error`] as its source.
    pub fn source(&self, path: &Path) -> Result<Arc<dyn ReadAt>, IoError> {
        let location = self.location(path);
        let source: Result<Arc<dyn ReadAt>, Error> = match (&self.files, &location) {
            (Files::Web(client), Location::Web(url)) => HttpFile::open(client, url).map(|file| Arc::new(file) as _),
            (Files::Repo(repo), Location::Hub { path, .. }) => repo.open_file(path).map(Arc::from),
            #[cfg(feature = "cloud")]
            (Files::Store(client), _) => crate::StoreFile::open(client, &location).map(|file| Arc::new(file) as _),
            _ => Err(Error::new(&location, Problem::NotInRepository)),
        };
        source.map_err(|e| failed(&location, e))
    }

    /// Opens a file of which ranges are read. Its length and its [version](ReadAt::version) are known: they are those of its first byte, and
    /// nothing else is requested.
    ///
    /// # Errors
    /// As for [`source`](Opener::source); an empty file is an error.
    pub fn ranges(&self, path: &Path) -> Result<Arc<dyn ReadAt>, IoError> {
        let location = self.location(path);
        let source: Result<Arc<dyn ReadAt>, Error> = match (&self.files, &location) {
            (Files::Web(client), Location::Web(url)) => {
                let file = HttpFile::new(client, url, Path::new(&url.to_string()), None, None);
                file.identified().map(|file| Arc::new(file) as _)
            }
            (Files::Repo(repo), Location::Hub { path, .. }) => repo.open_ranges(path).map(Arc::from),
            #[cfg(feature = "cloud")]
            (Files::Store(client), _) => {
                crate::StoreFile::open_ranges(client, &location).map(|file| Arc::new(file) as _)
            }
            _ => Err(Error::new(&location, Problem::NotInRepository)),
        };
        source.map_err(|e| failed(&location, e))
    }
}

/// The error of opening a place, which it names.
pub(crate) fn failed(location: &Location, e: Error) -> IoError {
    let path = location.to_string();
    let e = if e.url == path { Error { url: String::new(), ..e } } else { e };
    IoError::Io { path: path.into(), action: "open", source: io::Error::from(e) }
}
