//! Places of remote files, as users write them.

use std::fmt;
use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// A place that is not on the disk: what an argument such as `https://example.org/model.gguf`,
/// `hf:org/model@main/model.gguf` or `s3://bucket/model.gguf` means.
///
/// ```
/// use gguf_remote::Location;
///
/// let location = Location::parse("hf:org/model@v1.0/model.gguf").expect("a remote place")?;
/// let Location::Hub { repo, revision, path } = &location else { panic!() };
/// assert_eq!((repo.as_str(), revision.as_deref(), path.as_str()), ("org/model", Some("v1.0"), "model.gguf"));
/// assert!(Location::parse("models/model.gguf").is_none());
/// # Ok::<(), gguf_remote::LocationError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location {
    /// A file of a web server: `https://` or `http://`.
    Web(Url),
    /// A repository of the Hugging Face Hub, or a file or folder in it: `hf:ORG/REPO[@REVISION][/PATH]`.
    Hub {
        /// The repository, `ORG/REPO`.
        repo: String,
        /// The branch, tag or commit, if given. `%2F` stands for a slash in it.
        revision: Option<String>,
        /// The file or folder in the repository; empty for the repository itself.
        path: String,
    },
    /// An object of a store, or a prefix of objects: `s3://BUCKET/KEY`, `gs://BUCKET/KEY` or `az://CONTAINER/KEY`. Keys are as stored: nothing
    /// is percent-decoded.
    Store {
        /// The store.
        store: Store,
        /// The bucket. For Azure, the container, perhaps with an account: `CONTAINER@ACCOUNT.dfs.core.windows.net`.
        bucket: String,
        /// The key of an object, or a prefix without the slash at its end; empty for the whole bucket.
        key: String,
    },
}

/// A kind of object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Store {
    /// Amazon S3, and stores with its protocol: `s3://` or `s3a://`.
    S3,
    /// Google Cloud Storage: `gs://`.
    Gcs,
    /// Azure Blob Storage: `az://`, `azure://`, `adl://`, `abfs://` or `abfss://`.
    Azure,
}

impl Store {
    /// The store of a scheme.
    fn of_scheme(scheme: &str) -> Option<Store> {
        match scheme {
            "s3" | "s3a" => Some(Store::S3),
            "gs" => Some(Store::Gcs),
            "az" | "azure" | "adl" | "abfs" | "abfss" => Some(Store::Azure),
            _ => None,
        }
    }

    /// The usual scheme, such as `s3`.
    pub fn scheme(self) -> &'static str {
        match self {
            Store::S3 => "s3",
            Store::Gcs => "gs",
            Store::Azure => "az",
        }
    }
}

/// Why a text that has the scheme of a remote place is not one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LocationError {
    /// The scheme is not read.
    Scheme(String),
    /// The URL has no host, or one with invalid characters.
    Host,
    /// The URL has a user name or password.
    Credentials,
    /// The URL has a character that must be percent-encoded.
    Character(char),
    /// It does not name a repository of the Hub.
    Repository(String),
    /// It names a path in a repository with an empty part, or with `.` or `..`.
    Path(String),
    /// It does not name a bucket of a store.
    Bucket(String),
    /// It names an object with an empty part, with `.` or `..`, or with control characters.
    Key(String),
}

impl fmt::Display for LocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LocationError::Scheme(scheme) => {
                write!(
                    f,
                    "URLs with {scheme}: are not supported; expected https://, http://, hf:, s3://, gs:// or az://"
                )
            }
            LocationError::Host => f.write_str("the URL has no valid host; expected https://HOST/PATH"),
            LocationError::Credentials => f.write_str("a URL with a user name or password is not supported"),
            LocationError::Character(c) => write!(f, "the URL has the character {c:?}, which must be percent-encoded"),
            LocationError::Repository(found) => {
                write!(f, "expected hf:ORG/REPO[@REVISION][/PATH], found {found:?} as ORG/REPO")
            }
            LocationError::Path(path) => write!(f, "{path:?} is not a path in a repository"),
            LocationError::Bucket(found) => write!(f, "{found:?} is not the name of a bucket or container"),
            LocationError::Key(key) => {
                write!(f, "{key:?} is not a supported key of an object; expected parts separated by single slashes")
            }
        }
    }
}

impl std::error::Error for LocationError {}

/// Schemes of other services, which would otherwise be taken for names of files.
const OTHER_SCHEMES: [&str; 5] = ["gcs", "wasb", "ftp", "sftp", "file"];

impl Location {
    /// Parses an argument. `None` if it has no scheme of a remote place, so that it is a path.
    pub fn parse(text: &str) -> Option<Result<Location, LocationError>> {
        if let Some(rest) = text.strip_prefix("hf:") {
            return Some(hub(rest.strip_prefix("//").unwrap_or(rest)));
        }
        let (scheme, rest) = text.split_once("://")?;
        let lower = scheme.to_ascii_lowercase();
        if let Some(store) = Store::of_scheme(&lower) {
            return Some(object(store, rest));
        }
        match lower.as_str() {
            "http" | "https" => Some(Url::parse(text).map(Location::Web)),
            other if OTHER_SCHEMES.contains(&other) => Some(Err(LocationError::Scheme(scheme.to_owned()))),
            _ => None,
        }
    }

    /// As [`parse`](Location::parse), for an argument that is a path or a URL.
    pub fn of_path(path: &Path) -> Option<Result<Location, LocationError>> {
        Location::parse(path.to_str()?)
    }

    /// The last component of the path, percent-decoded if it is a URL; that of the repository or bucket if there is no path.
    pub fn file_name(&self) -> String {
        match self {
            Location::Web(url) => decoded(url.path().rsplit('/').next().unwrap_or_default()),
            Location::Hub { repo, path, .. } => {
                let whole = if path.is_empty() { repo } else { path };
                whole.rsplit('/').next().unwrap_or_default().to_owned()
            }
            Location::Store { bucket, key, .. } => {
                let whole = if key.is_empty() { bucket } else { key };
                whole.rsplit('/').next().unwrap_or_default().to_owned()
            }
        }
    }

    /// The place of another file in the same folder, with the same query.
    #[must_use]
    pub fn with_file_name(&self, name: &str) -> Location {
        match self {
            Location::Web(url) => {
                let folder = url.path().rsplit_once('/').map_or("", |(folder, _)| folder);
                Location::Web(url.with_path(&format!("{folder}/{}", encoded(name))))
            }
            Location::Hub { repo, revision, path } => {
                let path = beside(path, name);
                Location::Hub { repo: repo.clone(), revision: revision.clone(), path }
            }
            Location::Store { store, bucket, key } => {
                Location::Store { store: *store, bucket: bucket.clone(), key: beside(key, name) }
            }
        }
    }
}

/// The form that users write, without the query of a URL, which may contain a signature.
/// A model in a repository: a GGUF file, or all shards of one. Listed by `Repo::models`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepoModel {
    /// The file, or the first of the shards.
    pub location: Location,
    /// The number of files.
    pub n_files: usize,
    /// The size of all of them, in bytes.
    pub bytes: u64,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Web(url) => write!(f, "{url}"),
            Location::Hub { repo, revision, path } => {
                write!(f, "hf:{repo}")?;
                if let Some(revision) = revision {
                    write!(f, "@{}", revision.replace('/', "%2F"))?;
                }
                if path.is_empty() { Ok(()) } else { write!(f, "/{path}") }
            }
            Location::Store { store, bucket, key } => {
                let slash = if key.is_empty() { "" } else { "/" };
                // An account is not in the usual form.
                let scheme = if bucket.contains('@') { "abfs" } else { store.scheme() };
                write!(f, "{scheme}://{bucket}{slash}{key}")
            }
        }
    }
}

#[cfg(feature = "cloud")]
impl Location {
    /// The place of a name in a prefix.
    pub(crate) fn within(&self, name: &str) -> Location {
        match self {
            Location::Store { store, bucket, key } => {
                let key = if key.is_empty() { name.to_owned() } else { format!("{key}/{name}") };
                Location::Store { store: *store, bucket: bucket.clone(), key }
            }
            other => other.with_file_name(name),
        }
    }
}

/// A path with another last component.
fn beside(path: &str, name: &str) -> String {
    match path.rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/{name}"),
        None => name.to_owned(),
    }
}

/// Parses `BUCKET[/KEY]`.
fn object(store: Store, text: &str) -> Result<Location, LocationError> {
    let (bucket, key) = text.split_once('/').unwrap_or((text, ""));
    let (name, account) = bucket.split_once('@').unwrap_or((bucket, ""));
    let is_name = |name: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-$".contains(c);
        name.chars().all(allowed) && !name.starts_with('.')
    };
    let has_account = bucket.contains('@');
    let may_have_account = store == Store::Azure && account.contains('.');
    if name.is_empty() || !is_name(name) || !is_name(account) || has_account && !may_have_account {
        return Err(LocationError::Bucket(bucket.split(':').next().unwrap_or_default().to_owned()));
    }
    let key = key.strip_suffix('/').unwrap_or(key);
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    if !key.is_empty() && !key.split('/').all(is_part) || key.chars().any(char::is_control) {
        return Err(LocationError::Key(key.to_owned()));
    }
    Ok(Location::Store { store, bucket: bucket.to_owned(), key: key.to_owned() })
}

/// Parses `ORG/REPO[@REVISION][/PATH]`.
fn hub(text: &str) -> Result<Location, LocationError> {
    let mut parts = text.splitn(3, '/');
    let (org, named, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next());
    let (name, revision) = match named.split_once('@') {
        Some((name, revision)) => (name, Some(decoded(revision))),
        None => (named, None),
    };
    let is_name = |name: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        !name.is_empty() && name.len() <= 96 && name.chars().all(allowed) && !name.starts_with(['.', '-'])
    };
    if !is_name(org) || !is_name(name) {
        return Err(LocationError::Repository(format!("{org}/{name}")));
    }
    let is_revision = |revision: &String| is_path(revision) && !revision.contains(|c: char| c.is_control());
    if let Some(revision) = revision.as_ref().filter(|revision| !is_revision(revision)) {
        return Err(LocationError::Repository(format!("{org}/{name}@{revision}")));
    }
    let path = path.unwrap_or_default().trim_end_matches('/');
    if !path.is_empty() && !is_path(path) {
        return Err(LocationError::Path(path.to_owned()));
    }
    Ok(Location::Hub { repo: format!("{org}/{name}"), revision, path: path.to_owned() })
}

/// Whether a path is relative, with slashes, and stays where it is.
pub(crate) fn is_path(path: &str) -> bool {
    path.split('/').all(|part| !matches!(part, "" | "." | "..")) && !path.contains(['\\', ':', '\0'])
}

/// A URL with the scheme `http` or `https`. Its display form has no query, which may contain a signature.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    text: String,
    /// The end of the scheme, before `://`.
    scheme: usize,
    /// The end of host and port.
    origin: usize,
    /// The end of the path.
    path: usize,
}

impl Url {
    /// Parses an absolute URL. A fragment is removed.
    ///
    /// # Errors
    /// See [`LocationError`].
    pub fn parse(text: &str) -> Result<Url, LocationError> {
        let text = text.split('#').next().unwrap_or_default();
        if let Some(c) = text.chars().find(|c| !c.is_ascii_graphic() || "\"<>\\^`{|}".contains(*c)) {
            return Err(LocationError::Character(c));
        }
        let (scheme, rest) = text.split_once("://").ok_or(LocationError::Host)?;
        let scheme = scheme.to_ascii_lowercase();
        if scheme != "http" && scheme != "https" {
            return Err(LocationError::Scheme(scheme));
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, after) = rest.split_at(end);
        if authority.contains('@') {
            return Err(LocationError::Credentials);
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port),
            _ => (authority, ""),
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-._~%[]:".contains(c);
        if host.is_empty() || !host.chars().all(is_host) || !port.is_empty() && port.parse::<u16>().is_err() {
            return Err(LocationError::Host);
        }
        let default = if scheme == "https" { "443" } else { "80" };
        let origin = match port {
            port if port.is_empty() || port == default => format!("{scheme}://{}", host.to_ascii_lowercase()),
            port => format!("{scheme}://{}:{port}", host.to_ascii_lowercase()),
        };
        let (path, query) = after.find('?').map_or((after, ""), |at| after.split_at(at));
        let path = if path.is_empty() { "/" } else { path };
        let text = format!("{origin}{path}{query}");
        Ok(Url { text, scheme: scheme.len(), origin: origin.len(), path: origin.len() + path.len() })
    }

    /// The whole URL, with its query.
    #[cfg(feature = "http")]
    pub(crate) fn whole(&self) -> &str {
        &self.text
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> &str {
        self.text.get(..self.origin).unwrap_or_default()
    }

    /// The path, which begins with a slash, percent-encoded.
    pub fn path(&self) -> &str {
        self.text.get(self.origin..self.path).unwrap_or_default()
    }

    /// Whether the scheme is `https`.
    #[cfg(feature = "http")]
    pub(crate) fn is_https(&self) -> bool {
        self.text.get(..self.scheme) == Some("https")
    }

    /// The host, without the brackets of an address.
    #[cfg(feature = "http")]
    pub(crate) fn host(&self) -> &str {
        let authority = self.origin().get(self.scheme + 3..).unwrap_or_default();
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => host,
            _ => authority,
        };
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Whether the host is this machine, by an address of the loopback network or the name `localhost`.
    #[cfg(feature = "http")]
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.host();
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// The URL with another path, and the same query.
    fn with_path(&self, path: &str) -> Url {
        let query = self.text.get(self.path..).unwrap_or_default();
        let text = format!("{}{path}{query}", self.origin());
        Url { text, path: self.origin + path.len(), ..*self }
    }

    /// The URL that a `Location` or `Link` header of a response from this URL means.
    ///
    /// # Errors
    /// If it is not a URL that is read.
    #[cfg(feature = "http")]
    pub(crate) fn join(&self, reference: &str) -> Result<Url, LocationError> {
        if let Some(rest) = reference.strip_prefix("//") {
            let scheme = if self.is_https() { "https" } else { "http" };
            return Url::parse(&format!("{scheme}://{rest}"));
        }
        let is_absolute = reference.split(['/', '?', '#']).next().is_some_and(|start| start.contains(':'));
        if is_absolute {
            return Url::parse(reference);
        }
        if reference.starts_with('/') {
            return Url::parse(&format!("{}{reference}", self.origin()));
        }
        if reference.starts_with('?') {
            return Url::parse(&format!("{}{}{reference}", self.origin(), self.path()));
        }
        let mut folder: Vec<&str> = self.path().split('/').collect();
        folder.pop();
        let (path, query) = reference.find('?').map_or((reference, ""), |at| reference.split_at(at));
        for part in path.split('/') {
            match part {
                "." => {}
                ".." if folder.len() > 1 => _ = folder.pop(),
                ".." => {}
                part => folder.push(part),
            }
        }
        Url::parse(&format!("{}{}{query}", self.origin(), folder.join("/")))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.get(..self.path).unwrap_or_default())
    }
}

/// The display form, without the query.
impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({self})")
    }
}

/// Percent-encodes a component of a path.
pub(crate) fn encoded(part: &str) -> String {
    const OTHERS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(part, OTHERS).to_string()
}

/// Decodes percent-encoding; invalid sequences remain, and bytes that are not UTF-8 are replaced.
pub(crate) fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match Location::parse(text) {
            None => "a path".to_owned(),
            Some(Ok(location)) => location.to_string(),
            Some(Err(e)) => format!("error: {e}"),
        }
    }

    #[test]
    fn places_and_paths() {
        for path in ["model.gguf", "a/b:c", "C:\\m.gguf", "ollama://llama3", "-", "", "hf/x"] {
            assert_eq!(shown(path), "a path", "{path}");
        }
        for (text, expected) in [
            ("https://Host.org:443/a%20b.gguf?sig=secret#x", "https://host.org/a%20b.gguf"),
            ("HTTP://h:8080", "http://h:8080/"),
            ("http://[::1]:80/x", "http://[::1]/x"),
            ("hf:org/name", "hf:org/name"),
            ("hf://org/name/", "hf:org/name"),
            ("hf:org/name@refs%2Fpr%2F1/sub/m.gguf", "hf:org/name@refs%2Fpr%2F1/sub/m.gguf"),
            ("s3://bucket/a b%20c/m.gguf", "s3://bucket/a b%20c/m.gguf"),
            ("hf:org/name@%+1%7/m.gguf", "hf:org/name@%+1%7/m.gguf"),
            ("S3A://my.bucket/x/", "s3://my.bucket/x"),
            ("gs://b", "gs://b"),
            ("azure://c/x:1", "az://c/x:1"),
            ("abfss://c@account.dfs.core.windows.net/x", "abfs://c@account.dfs.core.windows.net/x"),
        ] {
            assert_eq!(shown(text), expected);
        }
        for bad in [
            "https://",
            "https:///x",
            "https://user:secret@h/x",
            "https://h/a b",
            "https://h:99999/",
            "gcs://bucket/x",
            "file:///x",
            "s3://",
            "s3:///x",
            "s3://user:secret@bucket/x",
            "s3://key@host.org/x",
            "s3://bucket:1/x",
            "s3://bucket?x/y",
            "s3://bucket/a//b",
            "s3://bucket/a//",
            "s3://bucket//a",
            "s3://bucket/../a",
            "s3://bucket/a\n",
            "az://c@account/x",
            "hf:",
            "hf:org",
            "hf:org/",
            "hf:../name",
            "hf:org/..",
            "hf:org/name@",
            "hf:org/name@../x",
            "hf:org/name/../x",
            "hf:org/name/a//b",
            "hf:org/name/a\\b",
        ] {
            let shown = shown(bad);
            assert!(shown.starts_with("error: ") && !shown.contains("secret"), "{bad}: {shown}");
        }
    }

    #[test]
    fn files_beside() {
        for (text, name, beside) in [
            ("https://h/a/b%2B1.gguf?k=v", "b+1.gguf", "https://h/a/c%20d"),
            ("https://h", "", "https://h/c%20d"),
            ("hf:o/r/f/x.gguf", "x.gguf", "hf:o/r/f/c d"),
            ("hf:o/r", "r", "hf:o/r/c d"),
            ("gs://b/f/x%201.gguf", "x%201.gguf", "gs://b/f/c d"),
            ("s3://b", "b", "s3://b/c d"),
        ] {
            let location = Location::parse(text).unwrap().unwrap();
            assert_eq!(location.file_name(), name);
            assert_eq!(location.with_file_name("c d").to_string(), beside);
        }
        let Some(Ok(Location::Web(url))) = Location::parse("https://h/a/b?k=v") else { panic!() };
        assert_eq!(url.with_path("/z").text, "https://h/z?k=v");
        assert_eq!(format!("{url:?}"), "Url(https://h/a/b)");
    }

    #[cfg(feature = "http")]
    #[test]
    fn references_are_resolved() {
        let base = Url::parse("https://h:1/a/b/c?q").unwrap();
        for (reference, expected) in [
            ("http://x/y", "http://x/y"),
            ("//x/y", "https://x/y"),
            ("/y?z=1", "https://h:1/y?z=1"),
            ("y", "https://h:1/a/b/y"),
            ("../y", "https://h:1/a/y"),
            ("../../../y", "https://h:1/y"),
            ("?z", "https://h:1/a/b/c?z"),
        ] {
            assert_eq!(base.join(reference).unwrap().text, expected);
        }
        for bad in ["ftp://x/y", "javascript:alert(1)", "http://a@b/"] {
            assert!(base.join(bad).is_err(), "{bad}");
        }
        for (text, is_loopback) in [
            ("http://127.0.0.1:80/x", true),
            ("http://[::1]:9/", true),
            ("http://localhost/", true),
            ("http://10.0.0.1/", false),
        ] {
            assert_eq!(Url::parse(text).unwrap().is_loopback(), is_loopback, "{text}");
        }
    }
}
