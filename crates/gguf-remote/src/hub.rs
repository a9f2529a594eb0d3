//! Repositories of the Hugging Face Hub: revisions, listings, files, and the local cache of all of them.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gguf_hf::{Folder, FolderError, FolderFile};
use gguf_io::ReadAt;
use serde_json::Value;
use ureq::http::HeaderMap;
use ureq::http::header;

use crate::attempts::Attempts;
use crate::budget::lock;
use crate::client::{Client, Request};
use crate::error::{Error, Problem};
use crate::file::HttpFile;
use crate::location::{Location, Url, encoded, is_path};

mod cache;
pub(crate) mod files;
mod models;

pub use files::RepoFile;

/// The most bytes of one answer of the Hub, and the most pages of a listing.
const MAX_ANSWER: usize = 16 << 20;
const MAX_PAGES: usize = 1000;

/// A repository at one commit.
#[derive(Debug)]
pub struct Repo {
    client: Client,
    name: String,
    revision: Option<String>,
    commit: String,
    /// In the order of their paths.
    files: Arc<[RepoFile]>,
}

impl Repo {
    /// Resolves a revision (a branch, tag or commit; `main` by default) to a commit, and lists its files. Offline, both come from the cache. A
    /// client resolves a revision once.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(client: &Client, name: &str, revision: Option<&str>) -> Result<Repo, Error> {
        let asked = revision.unwrap_or("main");
        let repo = |commit, files| {
            let revision = revision.map(str::to_owned);
            Repo { client: client.clone(), name: name.to_owned(), revision, commit, files }
        };
        let key = (name.to_owned(), asked.to_owned());
        if let Some((commit, files)) = lock(client.resolved()).get(&key).cloned() {
            return Ok(repo(commit, files));
        }
        let (commit, mut files) = if client.settings().offline {
            cache::list(client.settings(), name, asked)?
        } else {
            let commit = if is_commit(asked) { asked.to_owned() } else { resolve(client, name, asked)? };
            let files = tree(client, name, &commit)?;
            (commit, files)
        };
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let files: Arc<[RepoFile]> = files.into();
        lock(client.resolved()).insert(key, (commit.clone(), Arc::clone(&files)));
        Ok(repo(commit, files))
    }

    /// The commit of the revision.
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// All files, in the order of their paths.
    pub fn files(&self) -> &[RepoFile] {
        &self.files
    }

    /// The file with that path.
    pub fn file(&self, path: &str) -> Option<&RepoFile> {
        let at = self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        self.files.get(at)
    }

    /// The place of a path in the repository.
    pub fn location(&self, path: &str) -> Location {
        Location::Hub { repo: self.name.clone(), revision: self.revision.clone(), path: path.to_owned() }
    }

    /// Opens a file: in the cache, if it is there. Otherwise nothing is requested before the first read. The SHA-256 is compared when all
    /// bytes were read in order.
    ///
    /// # Errors
    /// [`Problem::NotInRepository`] if there is no such file, and [`Problem::Offline`] if the cache lacks it.
    pub fn open_file(&self, path: &str) -> Result<Box<dyn ReadAt>, Error> {
        self.open_by(path, |file| self.remote(file))
    }

    /// Opens a file whose length and ETag are known: those of its first byte, which is requested.
    ///
    /// # Errors
    /// As for [`open_file`](Repo::open_file); errors of the request.
    pub(crate) fn open_ranges(&self, path: &str) -> Result<Box<dyn ReadAt>, Error> {
        self.open_by(path, |file| self.remote(file)?.identified())
    }

    fn open_by(
        &self,
        path: &str,
        remote: impl FnOnce(&RepoFile) -> Result<HttpFile, Error>,
    ) -> Result<Box<dyn ReadAt>, Error> {
        let name = self.location(path).to_string();
        let Some(file) = self.file(path) else { return Err(Error::new(name, Problem::NotInRepository)) };
        if let Some(cached) = self.cached(file) {
            return Ok(Box::new(cached));
        }
        if self.client.settings().offline {
            return Err(Error::new(name, Problem::Offline("the file".to_owned())));
        }
        Ok(Box::new(remote(file)?))
    }

    fn cached(&self, file: &RepoFile) -> Option<File> {
        let cached = cache::open(self.client.settings(), &self.name, &self.commit, &file.path)?;
        // A download that was interrupted has another name, but a disk can be full.
        cached.metadata().is_ok_and(|there| there.len() == file.bytes).then_some(cached)
    }

    fn remote(&self, file: &RepoFile) -> Result<HttpFile, Error> {
        let path: Vec<String> = file.path.split('/').map(encoded).collect();
        let url = format!("{}/{}/resolve/{}/{}", base(&self.client), self.name, self.commit, path.join("/"));
        let url = Url::parse(&url).map_err(|e| Error::new(&url, Problem::Location(e)))?;
        let name = self.location(&file.path).to_string();
        Ok(HttpFile::new(&self.client, &url, Path::new(&name), Some(file.bytes), file.sha256.clone()))
    }

    /// A folder of the repository as the folder of a checkpoint; an empty path for the repository itself.
    pub fn into_folder(self, within: &str) -> RepoFolder {
        let path = PathBuf::from(self.location(within).to_string());
        let within = if within.is_empty() { String::new() } else { format!("{within}/") };
        RepoFolder { repo: self, within, path, opened: Mutex::default() }
    }
}

/// Whether a revision is a commit, which stays what it is.
fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The answer of the Hub at a URL.
fn ask(client: &Client, url: &Url) -> Result<(Value, HeaderMap), Error> {
    let mut attempts = Attempts::default();
    let (bytes, headers) = loop {
        let answer = client.send(Request { url, range: None, if_match: None });
        match answer.and_then(|answer| answer.text(MAX_ANSWER)) {
            Ok(text) => break text,
            Err(failed) => attempts.failed(client.settings(), failed)?,
        }
    };
    let value =
        serde_json::from_slice(&bytes).map_err(|e| Error::new(url, Problem::Answer(format!("not JSON: {e}"))))?;
    Ok((value, headers))
}

/// The endpoint without a slash at its end.
fn base(client: &Client) -> String {
    client.endpoint().to_string().trim_end_matches('/').to_owned()
}

fn api(client: &Client, name: &str, kind: &str, revision: &str, query: &str) -> Result<Url, Error> {
    let url = format!("{}/api/models/{name}/{kind}/{}{query}", base(client), encoded(revision));
    Url::parse(&url).map_err(|e| Error::new(&url, Problem::Location(e)))
}

/// The commit of a revision.
fn resolve(client: &Client, name: &str, revision: &str) -> Result<String, Error> {
    let url = api(client, name, "revision", revision, "")?;
    let (answer, _) = ask(client, &url)?;
    let commit = answer.get("sha").and_then(Value::as_str).filter(|commit| is_commit(commit));
    let missing = || Error::new(&url, Problem::Answer("there is no commit in `sha`".to_owned()));
    commit.map(str::to_owned).ok_or_else(missing)
}

/// The files of a commit.
fn tree(client: &Client, name: &str, commit: &str) -> Result<Vec<RepoFile>, Error> {
    let mut url = api(client, name, "tree", commit, "?recursive=true")?;
    let mut files = Vec::new();
    for _ in 0..MAX_PAGES {
        let (page, headers) = ask(client, &url)?;
        let wrong = |what: &str| Error::new(&url, Problem::Answer(what.to_owned()));
        for entry in page.as_array().ok_or_else(|| wrong("expected a list of files"))? {
            let text = |value: &Value, name| value.get(name).and_then(Value::as_str).map(str::to_owned);
            if text(entry, "type").as_deref() != Some("file") {
                continue;
            }
            let path = text(entry, "path").filter(|path| is_path(path));
            let path = path.ok_or_else(|| wrong("a file without a valid `path`"))?;
            let bytes = entry.get("size").and_then(Value::as_u64);
            let bytes = bytes.ok_or_else(|| wrong(&format!("the file {path} without a `size`")))?;
            let sha256 = entry.get("lfs").and_then(|lfs| text(lfs, "oid")).filter(|oid| is_sha256(oid));
            files.push(RepoFile { path, bytes, sha256 });
        }
        let next = headers.get(header::LINK).and_then(|link| next_page(link.to_str().ok()?));
        let Some(next) = next else { return Ok(files) };
        url = url.join(&next).map_err(|e| wrong(&format!("the next page: {e}")))?;
    }
    Err(Error::new(&url, Problem::Answer(format!("more than {MAX_PAGES} pages"))))
}

fn is_sha256(oid: &str) -> bool {
    oid.len() == 64 && oid.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The target of `rel="next"` in a `Link` header.
fn next_page(link: &str) -> Option<String> {
    link.split(',').find_map(|link| {
        let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = parameters.split(';').any(|p| matches!(p.trim(), "rel=\"next\"" | "rel=next"));
        is_next.then(|| target.to_owned())
    })
}

/// A folder of a repository, with the files of a checkpoint.
#[derive(Debug)]
pub struct RepoFolder {
    repo: Repo,
    /// The folder in the repository, with a slash at its end; empty for the repository itself.
    within: String,
    path: PathBuf,
    /// The files that were opened: each is one source, however often it is opened.
    opened: Mutex<HashMap<String, FolderFile>>,
}

impl Folder for RepoFolder {
    fn path(&self) -> &Path {
        &self.path
    }

    fn names(&self, within: &str) -> io::Result<Vec<String>> {
        let before = if within.is_empty() { self.within.clone() } else { format!("{}{within}/", self.within) };
        let names = self.repo.files.iter().filter_map(|file| file.path.strip_prefix(&before));
        Ok(names.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    fn open(&self, name: &str) -> Result<Option<FolderFile>, FolderError> {
        let path = format!("{}{name}", self.within);
        if self.repo.file(&path).is_none() {
            return Ok(None);
        }
        let mut opened = lock(&self.opened);
        if let Some(file) = opened.get(name) {
            return Ok(Some(file.clone()));
        }
        let failed = |e: Error| FolderError::Read { file: self.path.join(name), source: e.into() };
        let file = FolderFile::from_source(self.repo.open_file(&path).map_err(failed)?);
        opened.insert(name.to_owned(), file.clone());
        Ok(Some(file))
    }

    /// The name of the repository, or of the folder in it, without the revision.
    fn real_name(&self) -> Option<String> {
        let whole = if self.within.is_empty() { self.repo.name.as_str() } else { self.within.trim_end_matches('/') };
        whole.rsplit('/').next().map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages() {
        assert_eq!(next_page(r#"<https://h/x?cursor=a>; rel="next""#).as_deref(), Some("https://h/x?cursor=a"));
        assert_eq!(next_page(r#"<a>; rel="prev", <b>; rel=next"#).as_deref(), Some("b"));
        assert_eq!(next_page(r#"<a>; rel="prev""#), None);
        assert_eq!(next_page("next"), None);
    }
}
