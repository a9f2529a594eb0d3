//! Locations of models: paths, and URLs, which one client reads with the settings of the environment.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ggufkit::hf::{Conversion, Folder, Options};
use ggufkit::pipeline::{Error as PipelineError, ReadAhead, RunSummary, SourceRead};
use ggufkit::remote::{Client, Location, Proxy, Repo, Secret, Settings};
use ggufkit::{Model, Plan, Progress, RunOptions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::raise;

/// Where a model is.
#[derive(Clone)]
pub enum ModelPath {
    Local(PathBuf),
    Remote(&'static Client, Location),
}

/// A path or URL as Python gets it: a `pathlib.Path`, or for a URL, of which a `Path` would lose a slash, a `str`.
pub struct Place(pub PathBuf);

impl<'py> IntoPyObject<'py> for Place {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match Location::of_path(&self.0) {
            Some(_) => Ok(self.0.as_os_str().into_pyobject(py)?.into_any()),
            None => self.0.into_pyobject(py),
        }
    }
}

static CLIENT: OnceLock<Client> = OnceLock::new();

/// The place that a path or URL names.
pub fn locate(py: Python<'_>, path: PathBuf) -> PyResult<ModelPath> {
    match Location::of_path(&path) {
        None => Ok(ModelPath::Local(path)),
        Some(location) => Ok(ModelPath::Remote(client(py)?, location.map_err(raise)?)),
    }
}

/// The client, made by the first call. Its settings are those of the environment, from `ggufkit._settings`, and the certificates of the system.
fn client(py: Python<'_>) -> PyResult<&'static Client> {
    if let Some(client) = CLIENT.get() {
        return Ok(client);
    }
    let module = py.import("ggufkit._settings")?;
    let (endpoint, token, cache, offline): (Option<String>, Option<String>, PathBuf, bool) =
        module.call_method0("hub")?.extract()?;
    let mut settings = Settings::default();
    if let Some((url, no_proxy)) = module.call_method0("proxy")?.extract::<Option<(String, String)>>()? {
        // The URL may have a password.
        let wrong = || PyValueError::new_err("https_proxy: this is not the URL of a proxy; expected http://HOST:PORT");
        settings.proxy = Some(Proxy::new(&url, &no_proxy).ok_or_else(wrong)?);
    }
    #[cfg(feature = "cloud")]
    for (name, value) in module.call_method0("environment")?.extract::<Vec<(String, String)>>()? {
        settings.store_options.insert(&name, value);
    }
    // Without certificates, those of the web apply.
    let certificates = rustls_native_certs::load_native_certs().certs;
    settings.certificates = certificates.iter().map(|certificate| certificate.to_vec()).collect();
    if let Some(endpoint) = endpoint {
        settings.endpoint = endpoint;
    }
    settings.token = token.and_then(|token| Secret::new(&token));
    settings.cache = Some(cache);
    settings.offline = offline;
    let client = Client::new(settings).map_err(raise)?;
    Ok(CLIENT.get_or_init(|| client))
}

/// Opens a model with all its shards. A repository stands for its only model.
pub fn model(place: &ModelPath) -> Result<Model, ggufkit::Error> {
    match place {
        ModelPath::Local(path) => Ok(Model::open(path)?),
        ModelPath::Remote(client, location) => Ok(client.open_model(&client.only_model(location)?)?),
    }
}

/// The folder of a checkpoint.
pub fn model_folder(place: &ModelPath) -> Result<Box<dyn Folder>, ggufkit::Error> {
    match place {
        ModelPath::Local(path) => Ok(Box::new(ggufkit::hf::model_folder(path)?)),
        ModelPath::Remote(client, location) => folder(client, location),
    }
}

/// Plans the conversion of a checkpoint.
pub fn conversion(place: &ModelPath, options: &Options) -> Result<Conversion, ggufkit::Error> {
    Ok(match place {
        ModelPath::Local(path) => ggufkit::hf::plan(path, options)?,
        ModelPath::Remote(client, location) => ggufkit::hf::plan_folder(&*folder(client, location)?, options)?,
    })
}

/// The folder of a checkpoint in a repository of the Hub, or in an object store.
pub fn folder(client: &Client, location: &Location) -> Result<Box<dyn Folder>, ggufkit::Error> {
    match location {
        Location::Hub { repo, revision, path } => {
            Ok(Box::new(Repo::open(client, repo, revision.as_deref())?.into_folder(path.trim_end_matches('/'))))
        }
        #[cfg(feature = "cloud")]
        Location::Store { .. } => Ok(Box::new(ggufkit::remote::StoreFolder::open(client, location)?)),
        _ => {
            let source = std::io::Error::other("a web server does not list folders; expected hf:ORG/REPO or a path");
            Err(ggufkit::io::Error::Io { path: location.to_string().into(), action: "list", source }.into())
        }
    }
}

/// Where outputs are written: files, or objects of a store.
#[derive(Debug, Clone, Copy)]
pub enum Outputs {
    Files,
    Objects(&'static Client),
}

impl Outputs {
    /// The kind of an output.
    pub fn of(py: Python<'_>, path: &Path) -> PyResult<Outputs> {
        match locate(py, path.to_owned())? {
            ModelPath::Local(_) => Ok(Outputs::Files),
            ModelPath::Remote(client, Location::Store { .. }) if cfg!(feature = "cloud") => {
                Ok(Outputs::Objects(client))
            }
            ModelPath::Remote(_, location) => {
                let known = if cfg!(feature = "cloud") { "a path, or s3://, gs:// or az://" } else { "a path" };
                Err(PyValueError::new_err(format!("{location}: this URL cannot be written; expected {known}")))
            }
        }
    }

    /// Runs a plan.
    pub fn run(
        self,
        plan: &Plan,
        out: &Path,
        options: RunOptions,
        progress: &dyn Progress,
    ) -> Result<RunSummary, PipelineError> {
        let ahead = CLIENT.get().map(|client| Arc::new(Ahead(client)) as Arc<dyn ReadAhead>);
        let options = options.read_ahead(ahead);
        match self {
            Outputs::Files => plan.run(out, &options, progress),
            Outputs::Objects(client) => upload(client, plan, out, &options, progress),
        }
    }
}

/// Runs a plan whose files are objects of a store.
#[cfg(feature = "cloud")]
fn upload(
    client: &Client,
    plan: &Plan,
    out: &Path,
    options: &RunOptions,
    progress: &dyn Progress,
) -> Result<RunSummary, PipelineError> {
    let paths = plan.output_paths(out);
    let locations = paths.iter().filter_map(|path| Location::of_path(path)?.ok()).collect();
    let mut sink = ggufkit::remote::StoreSink::new(client, locations, options.force).resume(options.resume);
    let mut done = plan.run_to(&mut sink, options, progress)?;
    done.paths = paths;
    Ok(done)
}

/// Without the feature, `Outputs::of` rejects these outputs.
#[cfg(not(feature = "cloud"))]
fn upload(_: &Client, _: &Plan, out: &Path, _: &RunOptions, _: &dyn Progress) -> Result<RunSummary, PipelineError> {
    Err(PipelineError::io("write", out, std::io::ErrorKind::Unsupported.into()))
}

/// Fetches the data of remote files before a run reads it.
#[derive(Debug)]
struct Ahead(&'static Client);

impl ReadAhead for Ahead {
    fn run(&self, reads: &mut (dyn Iterator<Item = SourceRead> + Send), work: &mut dyn FnMut()) {
        self.0.ahead(reads.map(|read| (read.path, read.range)), work);
    }
}
