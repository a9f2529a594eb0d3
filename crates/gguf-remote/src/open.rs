//! Models in remote places.

use std::io;
use std::path::Path;

use gguf_io::{Error as IoError, Model, ModelFile};

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
        Opener::of(self, location)?.open(location)
    }

    /// Opens a model. If the file is one of several shards, the others are found by their names beside it.
    ///
    /// # Errors
    /// As for [`open_file`](Client::open_file); [`gguf_io::Error::Shards`].
    pub fn open_model(&self, location: &Location) -> Result<Model, IoError> {
        let (opener, first) = (Opener::of(self, location)?, location.to_string());
        Model::open_by(Path::new(&first), |path| {
            let name = path.file_name().and_then(|name| name.to_str()).filter(|_| path != Path::new(&first));
            match (name, location) {
                (Some(name), Location::Web(_)) => opener.open(&location.with_file_name(&decoded(name))),
                (Some(name), _) => opener.open(&location.with_file_name(name)),
                (None, _) => opener.open(location),
            }
        })
    }
}

/// Opens the files of one model.
enum Opener<'a> {
    Web(&'a Client),
    Repo(Repo),
}

impl<'a> Opener<'a> {
    fn of(client: &'a Client, location: &Location) -> Result<Opener<'a>, IoError> {
        match location {
            Location::Web(_) => Ok(Opener::Web(client)),
            Location::Hub { repo, revision, .. } => {
                let repo = Repo::open(client, repo, revision.as_deref());
                repo.map(Opener::Repo).map_err(|e| failed(location, e))
            }
        }
    }

    fn open(&self, location: &Location) -> Result<ModelFile, IoError> {
        let name = location.to_string();
        match (self, location) {
            (Opener::Web(client), Location::Web(url)) => {
                let file = HttpFile::open(client, url).map_err(|e| failed(location, e))?;
                ModelFile::from_source(file, name)
            }
            (Opener::Repo(repo), Location::Hub { path, .. }) => {
                let file = repo.open_file(path).map_err(|e| failed(location, e))?;
                ModelFile::from_source(file, name)
            }
            _ => Err(failed(location, Error::new(location, Problem::NotInRepository))),
        }
    }
}

/// The error of opening a place, which it names.
pub(crate) fn failed(location: &Location, e: Error) -> IoError {
    let path = location.to_string();
    let e = if e.url == path { Error { url: String::new(), ..e } } else { e };
    IoError::Io { path: path.into(), action: "open", source: io::Error::from(e) }
}
