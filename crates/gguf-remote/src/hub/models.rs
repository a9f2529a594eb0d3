//! The models of a repository: which files belong together, and the only one.

use gguf_format::shard::ShardName;

use super::{Repo, RepoFile};
use crate::client::Client;
use crate::error::{Error, Problem};
use crate::location::{Location, RepoModel};

impl Repo {
    /// The models of a folder and of the folders in it, in the order of their paths; an empty path for all of the repository. `None` if the path is that of
    /// a file.
    pub fn models(&self, path: &str) -> Option<Vec<RepoModel>> {
        if self.file(path).is_some() {
            return None;
        }
        let within = if path.is_empty() { String::new() } else { format!("{}/", path.trim_end_matches('/')) };
        let mut models: Vec<RepoModel> = Vec::new();
        let mut sets: Vec<((String, u32), usize)> = Vec::new();
        for RepoFile { path, bytes, .. } in self.files().iter().filter(|file| file.path.starts_with(&within)) {
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
                    models.push(RepoModel { location: self.location(path), n_files: 1, bytes: *bytes });
                }
            }
        }
        Some(models)
    }
}

impl Client {
    /// The models of a repository or of a folder in it, see [`Repo::models`]; `None` for any other place.
    ///
    /// # Errors
    /// [`Error`], if the repository cannot be listed.
    pub fn models(&self, location: &Location) -> Result<Option<Vec<RepoModel>>, Error> {
        match location {
            // A name with that extension is a file, whether it exists or not.
            Location::Hub { repo, revision, path } if !is_gguf(path) => {
                Ok(Repo::open(self, repo, revision.as_deref())?.models(path))
            }
            _ => Ok(None),
        }
    }

    /// The place of a file: for a repository or a folder in it, that of its only model; any other place is returned as it is.
    ///
    /// # Errors
    /// [`Problem::NoModel`] and [`Problem::SeveralModels`]; other [`Error`]s if the repository cannot be listed.
    pub fn only_model(&self, location: &Location) -> Result<Location, Error> {
        let Some(mut models) = self.models(location)? else { return Ok(location.clone()) };
        match models.len() {
            0 => Err(Error::new(location, Problem::NoModel)),
            1 => Ok(models.remove(0).location),
            _ => Err(Error::new(location, Problem::SeveralModels(models))),
        }
    }
}

fn is_gguf(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, extension)| extension.eq_ignore_ascii_case("gguf"))
}
