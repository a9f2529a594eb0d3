//! The Hub's cache on this machine: `models--ORG--REPO/{refs/REVISION, snapshots/COMMIT/PATH, blobs/HASH}`. It is only read.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::{RepoFile, is_commit, is_sha256};
use crate::error::{Error, Problem};
use crate::location::is_path;
use crate::settings::Settings;

/// The most folders in folders of a snapshot.
const MAX_LEVELS: usize = 16;

/// The folder of a repository.
fn folder(settings: &Settings, name: &str) -> Option<PathBuf> {
    let folder = settings.cache.as_ref()?.join(format!("models--{}", name.replace('/', "--")));
    folder.is_dir().then_some(folder)
}

/// Opens a file of a commit, if it is there.
pub(super) fn open(settings: &Settings, name: &str, commit: &str, path: &str) -> Option<File> {
    let file = folder(settings, name)?.join("snapshots").join(commit).join(path);
    gguf_io::open_regular(file).ok()
}

/// The commit of a revision, and its files that are in the cache.
///
/// # Errors
/// [`Problem::Offline`] if there are none.
pub(super) fn list(settings: &Settings, name: &str, revision: &str) -> Result<(String, Vec<RepoFile>), Error> {
    let missing = || {
        let what = format!("revision {revision}");
        Error::new(format!("hf:{name}"), Problem::Offline(what))
    };
    let folder = folder(settings, name).ok_or_else(missing)?;
    let commit = match is_commit(revision) {
        true => revision.to_owned(),
        false if is_path(revision) => fs::read_to_string(folder.join("refs").join(revision)).map_err(|_| missing())?,
        false => return Err(missing()),
    };
    let commit = commit.trim().to_owned();
    let snapshot = folder.join("snapshots").join(&commit);
    if !is_commit(&commit) || !snapshot.is_dir() {
        return Err(missing());
    }
    let mut files = Vec::new();
    add(&snapshot, "", 0, &mut files);
    Ok((commit, files))
}

/// Adds the files in a folder, and in those in it.
fn add(folder: &Path, before: &str, level: usize, files: &mut Vec<RepoFile>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let (path, place) = (format!("{before}{name}"), entry.path());
        // Of the target, because files are links.
        let Ok(there) = fs::metadata(&place) else { continue };
        if there.is_dir() && level < MAX_LEVELS && !place.is_symlink() {
            add(&place, &format!("{path}/"), level + 1, files);
        } else if there.is_file() && is_path(&path) {
            // Blobs of large files are named after their hash.
            let blob = fs::read_link(&place).ok().and_then(|blob| Some(blob.file_name()?.to_str()?.to_owned()));
            files.push(RepoFile { path, bytes: there.len(), sha256: blob.filter(|blob| is_sha256(blob)) });
        }
    }
}
