//! Errors of requests: where, which bytes, what was found, and what was expected. None has a token, or the query of a URL.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::{LocationError, RepoModel};

/// Why something remote could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// The URL, without its query; after a redirect, that of its target. Empty if an error around it names the file.
    pub url: String,
    /// The requested bytes: the first, and the last if there is one.
    pub range: Option<(u64, Option<u64>)>,
    /// The number of failed attempts, including the last.
    pub attempts: u32,
    /// What happened.
    pub problem: Problem,
}

/// What happened to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The URL is invalid.
    Location(LocationError),
    /// No connection, or it broke off.
    Connection(String),
    /// Nothing arrived for a while.
    TimedOut(Duration),
    /// A status that is not the expected one.
    Status {
        /// The status.
        status: u16,
        /// The server's explanation, if it has a short one.
        text: Option<String>,
    },
    /// The server asks to wait for longer than allowed.
    Wait {
        /// The status.
        status: u16,
        /// The time to wait.
        wait: Duration,
        /// The limit.
        limit: Duration,
    },
    /// The body is shorter or longer than its header says.
    Body {
        /// Bytes that were expected.
        expected: u64,
        /// Bytes that arrived.
        found: u64,
    },
    /// The server sends the whole file instead of the requested range.
    NoRanges,
    /// The range of the response is another one.
    ContentRange {
        /// The header.
        found: String,
    },
    /// The length of the file is missing, or too large.
    Length {
        /// The headers.
        found: String,
    },
    /// The body is compressed, although this was not allowed.
    Encoding(String),
    /// The file has changed since the first response.
    Changed {
        /// What has changed: `ETag`, length or similar.
        what: &'static str,
        /// The first value.
        before: String,
        /// The value now.
        after: String,
    },
    /// Too many redirects, or back to the same place.
    Redirects(u32),
    /// A redirect without a target that can be followed.
    RedirectTo(String),
    /// A redirect from `https` to `http`.
    Downgrade,
    /// The SHA-256 of the file is not that of the repository.
    Sha256 {
        /// The SHA-256 that the repository states.
        expected: String,
        /// The SHA-256 of the bytes.
        found: String,
    },
    /// An answer of the Hub is not as documented.
    Answer(String),
    /// A file or revision is not in the cache, and no requests are allowed.
    Offline(String),
    /// A repository does not have the file.
    NotInRepository,
    /// A repository, or a folder in it, has no GGUF file.
    NoModel,
    /// A repository, or a folder in it, has several models.
    SeveralModels(Vec<RepoModel>),
    /// An object that was to be created exists.
    Exists,
    /// A run with other inputs or options has kept an unfinished upload of the object.
    OtherUpload,
    /// An object has another length than what was uploaded.
    Uploaded {
        /// Bytes that were uploaded.
        expected: u64,
        /// The length of the object.
        found: u64,
    },
    /// The options of a store are invalid or incomplete.
    Options(String),
    /// The options of a store have no credentials, and the service of the machine gives none.
    Identity(String),
    /// Stores are not supported without the feature `cloud`.
    NoStores,
    /// The work was cancelled.
    Cancelled,
}

impl Error {
    pub(crate) fn new(url: impl fmt::Display, problem: Problem) -> Error {
        Error { url: url.to_string(), range: None, attempts: 1, problem }
    }

    /// The most similar kind of error of the system.
    pub fn kind(&self) -> io::ErrorKind {
        match &self.problem {
            Problem::Status { status: 404 | 410, .. }
            | Problem::NotInRepository
            | Problem::NoModel
            | Problem::Offline(_) => io::ErrorKind::NotFound,
            Problem::Status { status: 401 | 403, .. } | Problem::Identity(_) => io::ErrorKind::PermissionDenied,
            Problem::TimedOut(_) => io::ErrorKind::TimedOut,
            Problem::Location(_) | Problem::Options(_) | Problem::SeveralModels(_) => io::ErrorKind::InvalidInput,
            Problem::Exists | Problem::OtherUpload => io::ErrorKind::AlreadyExists,
            Problem::NoStores => io::ErrorKind::Unsupported,
            Problem::Connection(_) => io::ErrorKind::ConnectionAborted,
            // The same request would have the same answer.
            Problem::Changed { .. } | Problem::Sha256 { .. } => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::Other,
        }
    }
}

impl From<Error> for io::Error {
    fn from(e: Error) -> io::Error {
        io::Error::new(e.kind(), e)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.url.as_str() {
            "" => write!(f, "{}", self.problem)?,
            url => write!(f, "{url}: {}", self.problem)?,
        }
        match self.range {
            Some((first, Some(last))) => write!(f, " (bytes {first} to {last}")?,
            Some((first, None)) => write!(f, " (bytes from {first}")?,
            None if self.attempts > 1 => f.write_str(" (")?,
            None => return Ok(()),
        }
        match (self.attempts, self.range) {
            (..=1, _) => f.write_str(")"),
            (n, Some(_)) => write!(f, ", {n} attempts)"),
            (n, None) => write!(f, "{n} attempts)"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Location(e) => write!(f, "{e}"),
            Problem::Connection(what) => write!(f, "the connection failed: {what}"),
            Problem::TimedOut(limit) => write!(f, "no response for {} s", limit.as_secs_f32()),
            Problem::Status { status, text } => {
                write!(f, "the server answered with status {status}")?;
                match text {
                    Some(text) => write!(f, ": {text}"),
                    None => Ok(()),
                }
            }
            Problem::Wait { status, wait, limit } => write!(
                f,
                "the server answered with status {status} and asks to wait {} s, more than the limit of {} s",
                wait.as_secs(),
                limit.as_secs()
            ),
            Problem::Body { expected, found } => write!(f, "expected a body of {expected} bytes, received {found}"),
            Problem::NoRanges => f.write_str(
                "the server ignores the header Range and sends the whole file; download it, or use another server",
            ),
            Problem::ContentRange { found } => write!(f, "the response has another range: Content-Range is {found}"),
            Problem::Length { found } => write!(f, "the length of the file is unknown: {found}"),
            Problem::Encoding(found) => {
                write!(f, "the response has Content-Encoding {found}; expected the bytes of the file")
            }
            Problem::Changed { what, before, after } => {
                write!(f, "the file has changed since it was opened: {what} was {before} and is {after}; try again")
            }
            Problem::Redirects(limit) => write!(f, "more than {limit} redirects"),
            Problem::RedirectTo(found) => write!(f, "a redirect that cannot be followed: {found}"),
            Problem::Downgrade => f.write_str("a redirect from https to http, which is not followed"),
            Problem::Sha256 { expected, found } => {
                write!(f, "the SHA-256 is {found}; expected {expected}, that of the repository")
            }
            Problem::Answer(what) => write!(f, "unexpected response: {what}"),
            Problem::Offline(what) => write!(f, "{what} is not in the cache, and offline mode is set"),
            Problem::NotInRepository => f.write_str("the repository has no such file"),
            Problem::NoModel => f.write_str("there is no GGUF file"),
            Problem::SeveralModels(models) => write!(f, "there are {} models, expected one", models.len()),
            Problem::Exists => f.write_str("the object exists already"),
            Problem::OtherUpload => f.write_str(
                "an interrupted upload of this name is kept, but it was begun with other inputs, options or another version of the program",
            ),
            Problem::Uploaded { expected, found } => {
                write!(f, "uploaded {expected} bytes, but the object has {found}; another program may have written it")
            }
            Problem::Options(what) => write!(f, "the options of the store are not usable: {what}"),
            Problem::Identity(why) => {
                write!(f, "there are no credentials in the options of the store, and none from this machine: {why}")
            }
            Problem::NoStores => {
                f.write_str("object stores are not supported by this program: it was built without the feature `cloud`")
            }
            Problem::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl std::error::Error for Error {}
