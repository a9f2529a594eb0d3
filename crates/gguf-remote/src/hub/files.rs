//! The files of repositories.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The commit and the files of each revision that a client has resolved, so that all of its work is done on one commit.
pub(crate) type Resolved = Mutex<HashMap<(String, String), (String, Arc<[RepoFile]>)>>;

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepoFile {
    /// The path in the repository, with slashes.
    pub path: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The SHA-256 in hexadecimal, which the Hub knows of large files.
    pub sha256: Option<String>,
}
