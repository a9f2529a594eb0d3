//! Inputs by path or URL: models, checkpoints and other files.
//!
//! Commands open their inputs here, so that a URL may stand wherever a path may. Remote files are read by one client, which is made when the
//! first URL is opened; its settings come from the environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gguf_hf::{Conversion, Folder};
use gguf_io::{Model, ModelFile, ReadAt};
use gguf_pipeline::fleet::{FilesPlace, Place};
use gguf_pipeline::{Plan, Progress, RunOptions, RunSummary};
use gguf_quantize::imatrix::ImatrixFile;
use gguf_remote::{Location, RepoModel};

use crate::failure::{Failure, Verdict};

#[cfg(feature = "http")]
mod network;
#[cfg_attr(not(feature = "http"), path = "open/no_remote.rs")]
mod remote;

/// Whether an argument is a URL rather than a path.
pub fn is_url(path: &Path) -> bool {
    Location::of_path(path).is_some()
}

/// Whether an argument is a URL, or the path of something that exists.
pub fn exists(path: &Path) -> bool {
    is_url(path) || path.exists()
}

/// URLs with queries, by what is shown of them. A query may be a signature, which nothing shows.
static WITH_QUERY: Mutex<BTreeMap<PathBuf, Location>> = Mutex::new(BTreeMap::new());

/// A URL as it is shown in place of an argument: without its query. It can be opened all the same.
///
/// # Errors
/// If the argument is an invalid URL.
pub fn without_query(path: &Path) -> Result<PathBuf, Failure> {
    let Some(location) = location(path)? else { return Ok(path.to_owned()) };
    let text = location.to_string();
    let mut known = WITH_QUERY.lock().unwrap_or_else(PoisonError::into_inner);
    // Several URLs may differ in their queries only.
    let numbered = (2..).map(|n| PathBuf::from(format!("{text}#{n}")));
    let mut names = std::iter::once(PathBuf::from(&text)).chain(numbered);
    let is_free = |name: &PathBuf| known.get(name).is_none_or(|other| *other == location);
    let name = names.find(is_free).unwrap_or_else(|| PathBuf::from(&text));
    known.insert(name.clone(), location);
    Ok(name)
}

/// The place that an argument names, if it is a URL.
fn location(path: &Path) -> Result<Option<Location>, Failure> {
    if let Some(known) = WITH_QUERY.lock().unwrap_or_else(PoisonError::into_inner).get(path) {
        return Ok(Some(known.clone()));
    }
    let Some(location) = Location::of_path(path) else { return Ok(None) };
    let location = location.map_err(|e| {
        // Without a user name, a password, or a query.
        let text = path.to_string_lossy();
        let (scheme, rest) = text.split_once("://").unwrap_or(("", &text));
        let host = rest.split(['/', '?', '#']).next().and_then(|host| host.rsplit('@').next()).unwrap_or_default();
        let shown = if scheme.is_empty() { text.clone().into_owned() } else { format!("{scheme}://{host}/...") };
        Failure::of_file(Verdict::CouldNotRun, "bad_url", Path::new(&shown), format!("{shown}: {e}"))
    })?;
    Ok(Some(location))
}

/// Opens a model, with all its shards.
///
/// # Errors
/// If a file cannot be opened or read, or a shard is missing.
pub fn model(path: &Path) -> Result<Model, Failure> {
    match location(path)? {
        Some(location) => remote::model(&location),
        None => Ok(Model::open(path)?),
    }
}

/// Opens one GGUF file, which starts at byte `at`.
///
/// # Errors
/// If the file cannot be opened or read.
pub fn file(path: &Path, at: u64) -> Result<ModelFile, Failure> {
    match location(path)? {
        Some(location) => remote::file(&location, at),
        None => Ok(ModelFile::open_at(path, at)?),
    }
}

/// Opens the files of a model: the one with the returned path, and others beside it.
pub type Opener = Box<dyn Fn(&Path) -> Result<Arc<dyn ReadAt>, gguf_io::Error>>;

/// What opens the files of a remote model, and the path of the first; `None` for a path.
///
/// # Errors
/// If the argument is an invalid URL, or the repository cannot be listed.
pub fn opener(path: &Path) -> Result<Option<(PathBuf, Opener)>, Failure> {
    location(path)?.map(|location| remote::opener(&location)).transpose()
}

/// The bytes of a remote file; `None` for a path.
///
/// # Errors
/// If the argument is an invalid URL, or the file cannot be opened.
pub fn source(path: &Path) -> Result<Option<Arc<dyn ReadAt>>, Failure> {
    location(path)?.map(|location| remote::source(&location)).transpose()
}

/// The bytes of a file of which ranges are read, by path or URL. Its length and version are known.
///
/// # Errors
/// If the file cannot be opened.
pub fn ranges(path: &Path) -> Result<Arc<dyn ReadAt>, Failure> {
    match location(path)? {
        Some(location) => remote::ranges(&location),
        None => Ok(Arc::new(gguf_io::open_regular(path)?)),
    }
}

/// The bytes of a file, by path or URL.
///
/// # Errors
/// If the file cannot be opened.
pub fn any(path: &Path) -> Result<Arc<dyn ReadAt>, Failure> {
    match source(path)? {
        Some(source) => Ok(source),
        None => Ok(Arc::new(gguf_io::open_regular(path)?)),
    }
}

/// Opens a file that is older than GGUF, or a GGUF of an earlier version.
///
/// # Errors
/// If the file cannot be read, or is a current GGUF.
pub fn legacy(path: &Path, family: Option<gguf_legacy::Family>) -> Result<gguf_legacy::Input, Failure> {
    let Some(source) = source(path)? else { return Ok(gguf_legacy::Input::open(path, family)?) };
    let part = |path: &Path| match any(path) {
        Ok(source) => Ok(Box::new(source) as gguf_legacy::Bytes),
        Err(failure) => Err(gguf_legacy::Error::Io {
            action: "open",
            path: path.to_owned(),
            source: std::io::Error::other(failure.to_string()),
        }),
    };
    Ok(gguf_legacy::Input::from_source(path, source, family, part)?)
}

/// The models of a repository, or of a folder in it; `None` for anything else.
///
/// # Errors
/// If the argument is an invalid URL, or the repository cannot be listed.
pub fn models_in(path: &Path) -> Result<Option<Vec<RepoModel>>, Failure> {
    Ok(location(path)?.map(|location| remote::models_in(&location)).transpose()?.flatten())
}

/// Plans the conversion of a checkpoint.
///
/// # Errors
/// If the checkpoint cannot be read or converted.
pub fn conversion(path: &Path, options: &gguf_hf::Options) -> Result<Conversion, Failure> {
    match location(path)? {
        Some(location) => Ok(gguf_hf::plan_folder(&*remote::folder(&location)?, options)?),
        None => Ok(gguf_hf::plan(path, options)?),
    }
}

/// A folder, such as that of the base model of an adapter.
///
/// # Errors
/// If the argument is an invalid URL, or the repository cannot be listed.
pub fn folder(path: &Path) -> Result<Box<dyn Folder>, Failure> {
    match location(path)? {
        Some(location) => remote::folder(&location),
        None => Ok(Box::new(path.to_owned())),
    }
}

/// As [`folder`], for the folder of a checkpoint, which may be in the Hugging Face cache.
///
/// # Errors
/// If the place cannot be read, or there is no checkpoint.
pub fn model_folder(path: &Path) -> Result<Box<dyn Folder>, Failure> {
    match is_url(path) {
        true => folder(path),
        false => Ok(Box::new(gguf_hf::model_folder(path)?)),
    }
}

/// Whether a checkpoint is an image model.
///
/// # Errors
/// If the checkpoint cannot be read.
pub fn is_image_model(path: &Path) -> Result<bool, Failure> {
    match location(path)? {
        Some(location) => Ok(gguf_hf::is_image_model_folder(&*remote::folder(&location)?)?),
        None => Ok(gguf_hf::is_image_model(path)?),
    }
}

/// Opens an importance matrix.
///
/// # Errors
/// If the file cannot be read, or is none.
pub fn matrix(path: &Path) -> Result<ImatrixFile, Failure> {
    match source(path)? {
        Some(source) => Ok(ImatrixFile::from_source(source, path)?),
        None => Ok(ImatrixFile::open(path)?),
    }
}

/// Sets whether each request is reported.
pub fn set_verbose(yes: bool) {
    #[cfg(feature = "http")]
    network::set_verbose(yes);
    let _ = yes;
}

/// What all requests have transferred, if each is reported and there were any.
pub fn summary() -> Option<String> {
    #[cfg(feature = "http")]
    return network::summary();
    #[cfg(not(feature = "http"))]
    None
}

/// The bytes received so far, if a URL was opened.
pub fn received() -> Option<u64> {
    #[cfg(feature = "http")]
    return network::received();
    #[cfg(not(feature = "http"))]
    None
}

/// Runs a plan, see [`Plan::run`]. Data of remote files is fetched before it is read.
///
/// # Errors
/// If an input cannot be read or decoded, or an output cannot be written.
pub fn run(
    plan: &Plan,
    out: &Path,
    options: &RunOptions,
    progress: &dyn Progress,
) -> Result<RunSummary, gguf_pipeline::Error> {
    let mut summaries = run_all(&[(plan, out)], options, progress)?;
    Ok(summaries.swap_remove(0))
}

/// Runs plans over one source, see [`gguf_pipeline::run_all`]. Data of remote files is fetched before it is read.
///
/// # Errors
/// If an input cannot be read or decoded, or an output cannot be written.
pub fn run_all(
    plans: &[(&Plan, &Path)],
    options: &RunOptions,
    progress: &dyn Progress,
) -> Result<Vec<RunSummary>, gguf_pipeline::Error> {
    let options = &options.clone().read_ahead(reading().read_ahead);
    match uploads(plans) {
        None => gguf_pipeline::run_all(plans, options, progress),
        Some(locations) => remote::upload_all(plans, locations, options, progress),
    }
}

/// The options of a run that fetches data of remote files before it is read.
pub fn reading() -> RunOptions {
    let options = RunOptions::default();
    #[cfg(feature = "http")]
    let options = options.read_ahead(Some(network::read_ahead()));
    options
}

/// The places of outputs that are objects of a store; `None` for files.
fn uploads(plans: &[(&Plan, &Path)]) -> Option<Vec<Location>> {
    let paths = plans.iter().flat_map(|(plan, out)| plan.output_paths(out));
    let locations: Vec<Location> = paths.map_while(|path| location(&path).ok().flatten()).collect();
    (!locations.is_empty()).then_some(locations)
}

/// Where the parts of an output go.
///
/// # Errors
/// If it is a URL that cannot be written.
pub fn place(path: &Path) -> Result<Box<dyn Place>, Failure> {
    expect_upload(path)?;
    match location(path)? {
        Some(location) => remote::place(&location),
        None => Ok(Box::new(FilesPlace::new(path))),
    }
}

/// Checks that a URL can be an output.
///
/// # Errors
/// If it is not an object of a store, or the program was built without the feature `cloud`.
pub fn expect_upload(path: &Path) -> Result<(), Failure> {
    match location(path)? {
        Some(Location::Store { .. }) if cfg!(feature = "cloud") => Ok(()),
        Some(Location::Store { .. }) => {
            let problem = "this program was built without the feature cloud, which reads and writes object stores";
            Err(Failure::of_file(Verdict::CouldNotRun, "no_feature", path, format!("{}: {problem}", path.display())))
        }
        Some(_) => {
            let problem = "this URL cannot be written; expected a path, or s3://, gs:// or az://";
            let failure = Failure::CouldNotRun(format!("{}: {problem}", path.display()));
            Err(failure.with_help(Some("to publish a file on the Hub, write it and use `hf upload`".to_owned())))
        }
        None => Ok(()),
    }
}
