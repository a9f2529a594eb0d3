//! Remote files, opened by the client.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_hf::Folder;
use gguf_io::{Model, ModelFile, ReadAt};
use gguf_pipeline::fleet::Place;
use gguf_pipeline::{Plan, Progress, RunOptions, RunSummary};
use gguf_remote::{Location, Problem, Repo, RepoModel};

use super::Opener;
use super::network::client;
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

/// The bytes of a file of which ranges are read.
pub fn ranges(location: &Location) -> Result<Arc<dyn ReadAt>, Failure> {
    Ok(client()?.opener(location)?.ranges(Path::new(&location.to_string()))?)
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
pub fn models_in(location: &Location) -> Result<Option<Vec<RepoModel>>, Failure> {
    client()?.models(location).map_err(failed)
}

/// The file that a place names: that of a repository is its only model.
fn the_file(location: &Location) -> Result<Location, Failure> {
    client()?.only_model(location).map_err(|e| {
        let (kind, help) = match &e.problem {
            Problem::NoModel => ("not_found", format!("if it is a checkpoint: gguf convert {location} -o model.gguf")),
            Problem::SeveralModels(models) => {
                let listed = models.iter().take(MOST_LISTED);
                let listed = listed.map(|model| format!("\n  {} ({})", model.location, size(model.bytes)));
                let more = models.len().checked_sub(MOST_LISTED + 1).map_or("", |_| "\n  ...");
                ("several", format!("name one of them:{}{more}", listed.collect::<String>()))
            }
            _ => return failed(e),
        };
        let failure = Failure::of_file(Verdict::CouldNotRun, kind, Path::new(&e.url), e.to_string());
        failure.with_help(Some(help))
    })
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
