//! Remote files, opened by the client.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_format::shard::ShardName;
use gguf_hf::Folder;
use gguf_io::{Model, ModelFile, ReadAt};
use gguf_pipeline::fleet::Place;
use gguf_pipeline::{Plan, Progress, RunOptions, RunSummary};
use gguf_remote::{Location, Repo, RepoFile};

use super::network::client;
use super::{ListedModel, Opener};
use crate::failure::{Failure, Verdict, system_kind};
use crate::ui::size;

/// The most files that a message lists.
const MOST_LISTED: usize = 20;

/// Opens a model, with all its shards. A repository stands for its only model.
pub fn model(location: &Location) -> Result<Model, Failure> {
    Ok(client()?.open_model(&the_file(location)?)?)
}

/// Opens one GGUF file, which starts at byte `at`.
pub fn file(location: &Location, at: u64) -> Result<ModelFile, Failure> {
    let location = the_file(location)?;
    match at {
        0 => Ok(client()?.open_file(&location)?),
        _ => Ok(ModelFile::from_source_at(source(&location)?, at, location.to_string())?),
    }
}

/// What opens the files of a model, and the path of the first.
pub fn opener(location: &Location) -> Result<(PathBuf, Opener), Failure> {
    let location = the_file(location)?;
    let opener = client()?.opener(&location)?;
    Ok((PathBuf::from(location.to_string()), Box::new(move |path| opener.source(path))))
}

/// The bytes of a file.
pub fn source(location: &Location) -> Result<Arc<dyn ReadAt>, Failure> {
    Ok(client()?.opener(location)?.source(Path::new(&location.to_string()))?)
}

/// The folder of a checkpoint.
pub fn folder(location: &Location) -> Result<Box<dyn Folder>, Failure> {
    match location {
        Location::Hub { repo, revision, path } => {
            Ok(Box::new(open_repo(repo, revision.as_deref())?.into_folder(path.trim_end_matches('/'))))
        }
        #[cfg(feature = "cloud")]
        Location::Store { .. } => Ok(Box::new(gguf_remote::StoreFolder::open(client()?, location).map_err(failed)?)),
        _ => {
            let problem =
                "a checkpoint is a folder, and a web server does not list folders; expected hf:ORG/REPO or a path";
            Err(Failure::CouldNotRun(format!("{location}: {problem}")))
        }
    }
}

/// The models of a repository, or of a folder in it; `None` for a file.
pub fn models_in(location: &Location) -> Result<Option<Vec<ListedModel>>, Failure> {
    let Location::Hub { repo, revision, path } = location else { return Ok(None) };
    if is_gguf(path) {
        return Ok(None);
    }
    let repo = open_repo(repo, revision.as_deref())?;
    if repo.file(path).is_some() {
        return Ok(None);
    }
    let within = if path.is_empty() { String::new() } else { format!("{}/", path.trim_end_matches('/')) };
    Ok(Some(models(&repo, &within)))
}

/// The models of a repository whose paths begin with `within`.
fn models(repo: &Repo, within: &str) -> Vec<ListedModel> {
    let mut models: Vec<ListedModel> = Vec::new();
    let mut sets: Vec<((String, u32), usize)> = Vec::new();
    for RepoFile { path, bytes, .. } in repo.files().iter().filter(|file| file.path.starts_with(within)) {
        if !is_gguf(path) {
            continue;
        }
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let set = ShardName::parse(name).filter(|name| name.number.count() > 1);
        let set = set.map(|name| (format!("{folder}/{}", name.prefix), name.number.count()));
        let known = set.as_ref().and_then(|set| sets.iter().find(|(known, _)| known == set));
        match known.and_then(|(_, at)| models.get_mut(*at)) {
            Some(model) => {
                (model.n_files, model.bytes) = (model.n_files + 1, model.bytes.saturating_add(*bytes));
            }
            None => {
                sets.extend(set.map(|set| (set, models.len())));
                models.push(ListedModel { location: repo.location(path), n_files: 1, bytes: *bytes });
            }
        }
    }
    models
}

fn is_gguf(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, extension)| extension.eq_ignore_ascii_case("gguf"))
}

/// The file that a place names: that of a repository is its only model.
fn the_file(location: &Location) -> Result<Location, Failure> {
    let Some(models) = models_in(location)? else { return Ok(location.clone()) };
    match models.as_slice() {
        [only] => Ok(only.location.clone()),
        [] => {
            let message = format!("{location}: there is no GGUF file");
            let help = format!("if it is a checkpoint: gguf convert {location} -o model.gguf");
            let failure =
                Failure::of_file(Verdict::CouldNotRun, "not_found", &PathBuf::from(location.to_string()), message);
            Err(failure.with_help(Some(help)))
        }
        several => {
            let message = format!("{location}: there are {} models, expected one", several.len());
            let listed =
                several.iter().take(MOST_LISTED).map(|model| format!("\n  {} ({})", model.location, size(model.bytes)));
            let more = several.len().checked_sub(MOST_LISTED + 1).map_or("", |_| "\n  ...");
            let help = format!("name one of them:{}{more}", listed.collect::<String>());
            let failure =
                Failure::of_file(Verdict::CouldNotRun, "several", &PathBuf::from(location.to_string()), message);
            Err(failure.with_help(Some(help)))
        }
    }
}

/// Runs plans over one source, and uploads their outputs.
#[cfg(feature = "cloud")]
pub fn upload_all(
    plans: &[(&Plan, &Path)],
    locations: Vec<Location>,
    options: &RunOptions,
    progress: &dyn Progress,
) -> Result<Vec<RunSummary>, gguf_pipeline::Error> {
    let client = client().map_err(|failure| {
        let path = locations.first().map(Location::to_string).unwrap_or_default();
        gguf_pipeline::Error::io("write", Path::new(&path), std::io::Error::other(failure.to_string()))
    })?;
    let mut sink = gguf_remote::StoreSink::new(client, locations, options.force).resume(options.resume);
    let alone: Vec<&Plan> = plans.iter().map(|(plan, _)| *plan).collect();
    let mut summaries = gguf_pipeline::run_all_to(&alone, &mut sink, options, progress)?;
    for ((plan, out), summary) in plans.iter().zip(&mut summaries) {
        summary.paths = plan.output_paths(out);
    }
    Ok(summaries)
}

/// Without the feature, outputs that are URLs are rejected earlier.
#[cfg(not(feature = "cloud"))]
pub fn upload_all(
    _: &[(&Plan, &Path)],
    locations: Vec<Location>,
    _: &RunOptions,
    _: &dyn Progress,
) -> Result<Vec<RunSummary>, gguf_pipeline::Error> {
    let location = locations.first().map(Location::to_string).unwrap_or_default();
    Err(gguf_pipeline::Error::io("write", Path::new(&location), std::io::ErrorKind::Unsupported.into()))
}

/// Where the parts of an object go.
#[cfg(feature = "cloud")]
pub fn place(location: &Location) -> Result<Box<dyn Place>, Failure> {
    Ok(Box::new(gguf_remote::StorePlace::open(client()?, location).map_err(failed)?))
}

/// Without the feature, outputs that are URLs are rejected earlier.
#[cfg(not(feature = "cloud"))]
pub fn place(location: &Location) -> Result<Box<dyn Place>, Failure> {
    Err(Failure::CouldNotRun(format!("{location}: this URL cannot be written")))
}

fn open_repo(repo: &str, revision: Option<&str>) -> Result<Repo, Failure> {
    Repo::open(client()?, repo, revision).map_err(failed)
}

/// The failure of a request.
fn failed(e: gguf_remote::Error) -> Failure {
    let path = PathBuf::from(&e.url);
    let source = std::io::Error::from(e);
    let message = source.to_string();
    let kind = system_kind(source.kind());
    Failure::of_file(Verdict::CouldNotRun, kind, &path, message)
}
