//! Locations of models: paths, and URLs, which one client reads with the settings of the environment.

use std::path::PathBuf;
use std::sync::OnceLock;

use ggufkit::Model;
use ggufkit::hf::{Conversion, Folder, Options};
use ggufkit::remote::{Client, Location, Repo, RepoFolder, Secret, Settings};
use pyo3::prelude::*;

use crate::error::raise;

/// Where a model is.
#[derive(Clone)]
pub enum ModelPath {
    Local(PathBuf),
    Remote(&'static Client, Location),
}

static CLIENT: OnceLock<Client> = OnceLock::new();

/// The place that a path or URL names.
pub fn locate(py: Python<'_>, path: PathBuf) -> PyResult<ModelPath> {
    match Location::of_path(&path) {
        None => Ok(ModelPath::Local(path)),
        Some(location) => Ok(ModelPath::Remote(client(py)?, location.map_err(raise)?)),
    }
}

/// The client, made by the first call. Its settings are those of Hugging Face's own package, from `ggufkit._settings`.
fn client(py: Python<'_>) -> PyResult<&'static Client> {
    if let Some(client) = CLIENT.get() {
        return Ok(client);
    }
    let of = py.import("ggufkit._settings")?.call_method0("hub")?;
    let (endpoint, token, cache, offline): (Option<String>, Option<String>, PathBuf, bool) = of.extract()?;
    let mut settings = Settings::default();
    if let Some(endpoint) = endpoint {
        settings.endpoint = endpoint;
    }
    settings.token = token.and_then(|token| Secret::new(&token));
    settings.cache = Some(cache);
    settings.offline = offline;
    let client = Client::new(settings).map_err(raise)?;
    Ok(CLIENT.get_or_init(|| client))
}

/// Opens a model with all its shards.
pub fn model(place: &ModelPath) -> Result<Model, ggufkit::Error> {
    match place {
        ModelPath::Local(path) => Ok(Model::open(path)?),
        ModelPath::Remote(client, location) => Ok(client.open_model(location)?),
    }
}

/// The folder of a checkpoint.
pub fn model_folder(place: &ModelPath) -> Result<Box<dyn Folder>, ggufkit::Error> {
    match place {
        ModelPath::Local(path) => Ok(Box::new(ggufkit::hf::model_folder(path)?)),
        ModelPath::Remote(client, location) => Ok(Box::new(folder(client, location)?)),
    }
}

/// Plans the conversion of a checkpoint.
pub fn conversion(place: &ModelPath, options: &Options) -> Result<Conversion, ggufkit::Error> {
    Ok(match place {
        ModelPath::Local(path) => ggufkit::hf::plan(path, options)?,
        ModelPath::Remote(client, location) => ggufkit::hf::plan_folder(&folder(client, location)?, options)?,
    })
}

/// The folder of a checkpoint in a repository of the Hub.
pub fn folder(client: &Client, location: &Location) -> Result<RepoFolder, ggufkit::Error> {
    let Location::Hub { repo, revision, path } = location else {
        let source = std::io::Error::other("a web server does not list folders; expected hf:ORG/REPO or a path");
        return Err(ggufkit::io::Error::Io { path: location.to_string().into(), action: "list", source }.into());
    };
    Ok(Repo::open(client, repo, revision.as_deref())?.into_folder(path.trim_end_matches('/')))
}
