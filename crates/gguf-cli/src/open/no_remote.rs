//! Remote files in a program without the feature `http`: each is an error that names it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_hf::Folder;
use gguf_io::{Model, ModelFile, ReadAt};
use gguf_pipeline::fleet::Place;
use gguf_pipeline::{Plan, Progress, RunOptions, RunSummary};
use gguf_remote::{Location, RepoModel};

use super::Opener;
use crate::failure::{Failure, Verdict};

pub fn model(location: &Location) -> Result<Model, Failure> {
    Err(no_feature(location))
}

pub fn file(location: &Location, _: u64) -> Result<ModelFile, Failure> {
    Err(no_feature(location))
}

pub fn opener(location: &Location) -> Result<(PathBuf, Opener), Failure> {
    Err(no_feature(location))
}

pub fn source(location: &Location) -> Result<Arc<dyn ReadAt>, Failure> {
    Err(no_feature(location))
}

pub fn ranges(location: &Location) -> Result<Arc<dyn ReadAt>, Failure> {
    Err(no_feature(location))
}

pub fn folder(location: &Location) -> Result<Box<dyn Folder>, Failure> {
    Err(no_feature(location))
}

pub fn models_in(location: &Location) -> Result<Option<Vec<RepoModel>>, Failure> {
    Err(no_feature(location))
}

pub fn upload_all(
    _: &[(&Plan, &Path)],
    locations: Vec<Location>,
    _: &RunOptions,
    _: &dyn Progress,
) -> Result<Vec<RunSummary>, gguf_pipeline::Error> {
    let location = locations.first().map(Location::to_string).unwrap_or_default();
    Err(gguf_pipeline::Error::io("write", Path::new(&location), std::io::ErrorKind::Unsupported.into()))
}

pub fn place(location: &Location) -> Result<Box<dyn Place>, Failure> {
    Err(no_feature(location))
}

fn no_feature(location: &Location) -> Failure {
    let message = format!("{location}: this program was built without the feature http, which reads URLs");
    let failure = Failure::of_file(Verdict::CouldNotRun, "no_feature", &PathBuf::from(location.to_string()), message);
    failure.with_help(Some("install the program with its default features".to_owned()))
}
