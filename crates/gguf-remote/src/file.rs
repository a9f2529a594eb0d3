//! A file on a web server, as a source of bytes.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use gguf_io::ReadAt;
use ureq::http::header;

use crate::attempts::{Attempts, Failed, Retry};
use crate::budget::lock;
use crate::client::{Answer, Client, Request};
use crate::error::{Error, Problem};
use crate::identity::{Identity, changed_length, shown, unknown_version};
use crate::location::Url;
use crate::ranged::{Fetch, PREFERRED, Ranged};

/// A file on a web server. It is read in ranges, with few requests: reads that follow each other are fetched in growing windows, long ones in
/// several requests at once, and [`Client::ahead`] fetches planned ones before they are read.
///
/// The first response fixes the length and the ETag of the file. Later responses must have the same, and the requested range; otherwise the
/// read fails, with an [`Error`] as the cause of the [`io::Error`].
///
/// Failed requests are repeated, see [`Settings`](crate::Settings). Links that a server redirects to are kept, and renewed when they expire.
#[derive(Clone)]
pub struct HttpFile(Arc<Ranged<HttpRanges>>);

/// Requests ranges of a file.
struct HttpRanges {
    client: Client,
    url: Url,
    /// What the first response said.
    identity: OnceLock<Identity>,
    /// The length that a listing says, before the first response.
    stated: Option<u64>,
    /// The target of redirects.
    link: Mutex<Option<Url>>,
    /// The response that [`HttpFile::open`] got: the whole file, unless it is dropped.
    first: Mutex<Option<Answer>>,
}

impl HttpFile {
    /// Opens a file with one request, whose response is the start of the [stream](ReadAt::stream) of all bytes. It ends if something else is
    /// read first.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(client: &Client, url: &Url) -> Result<HttpFile, Error> {
        let file = HttpFile::new(client, url, Path::new(&url.to_string()), None, None);
        let mut attempts = Attempts::default();
        let answer = loop {
            match file.0.ranges.request(0, None) {
                Ok((answer, _)) => break answer,
                Err(failed) => attempts.failed(client.settings(), failed)?,
            }
        };
        *lock(&file.0.ranges.first) = Some(answer);
        Ok(file)
    }

    /// Requests the first byte, so that the length and the ETag are known.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) fn identified(self) -> Result<HttpFile, Error> {
        self.0.identify()?;
        Ok(self)
    }

    /// A file of known length, and perhaps SHA-256, in hexadecimal. Nothing is requested before the first read. `name` is its name for
    /// [`Client::ahead`].
    pub(crate) fn new(
        client: &Client,
        url: &Url,
        name: &Path,
        stated: Option<u64>,
        sha256: Option<String>,
    ) -> HttpFile {
        let ranges = HttpRanges {
            client: client.clone(),
            url: url.clone(),
            identity: OnceLock::new(),
            stated,
            link: Mutex::default(),
            first: Mutex::default(),
        };
        HttpFile(Ranged::new(client.budget(), name, sha256, ranges))
    }
}

impl HttpRanges {
    /// Requests the bytes from `start` to `end`, or to the end of the file, and checks the headers of the response. Returns it, and the
    /// number of bytes of its body.
    fn request(&self, start: u64, end: Option<u64>) -> Result<(Answer, u64), Failed> {
        let link = lock(&self.link).clone();
        let range = Some((start, end.map(|end| end - 1)));
        let strong = self.identity.get().and_then(|identity| identity.etag.as_deref());
        let if_match = strong.filter(|etag| etag.starts_with('"'));
        let request = Request { url: link.as_ref().unwrap_or(&self.url), range, if_match };
        let answer = self.client.send(request).map_err(|failed| match failed.error.problem {
            // The link has expired.
            Problem::Status { status: 400 | 401 | 403 | 404 | 410, .. } if link.is_some() => {
                *lock(&self.link) = None;
                Failed { retry: Retry::Now, ..failed }
            }
            _ => failed,
        })?;
        let body = self.check(&answer, start, end).map_err(|e| Failed::new(&answer.url, range, e))?;
        if answer.url != self.url {
            *lock(&self.link) = Some(answer.url.clone());
        }
        Ok((answer, body))
    }

    /// Checks the headers of a response, and returns the number of bytes of its body.
    fn check(&self, answer: &Answer, start: u64, end: Option<u64>) -> Result<u64, (Problem, Retry)> {
        let never = |problem| (problem, Retry::Never);
        let text = |name| answer.header(name).map(str::to_owned);
        let known = self.identity.get();
        let (etag, modified) = (text(header::ETAG), text(header::LAST_MODIFIED));
        if answer.status == 412 {
            let before = known.and_then(|known| known.etag.clone()).unwrap_or_default();
            let after = etag.unwrap_or_else(|| "another".to_owned());
            return Err(never(Problem::Changed { what: "ETag", before, after }));
        }
        match text(header::CONTENT_ENCODING) {
            Some(encoding) if encoding != "identity" => return Err(never(Problem::Encoding(encoding))),
            _ => {}
        }
        let content = answer.header(header::CONTENT_LENGTH).and_then(|text| text.trim().parse::<u64>().ok());
        let (length, body) = match answer.status {
            206 => {
                let found = answer.header(header::CONTENT_RANGE).unwrap_or_default();
                let wrong = || never(Problem::ContentRange { found: shown(found) });
                let (first, last, total) = content_range(found).ok_or_else(wrong)?;
                let total = total.or(self.length()).ok_or_else(wrong)?;
                let expected = end.unwrap_or(total).min(total);
                if first != start || last.checked_add(1) != Some(expected) || last < first {
                    return Err(wrong());
                }
                let body = expected - start;
                if content.is_some_and(|content| content != body) {
                    let found = format!("Content-Length is {content:?}, Content-Range {}", shown(found));
                    return Err(never(Problem::Length { found }));
                }
                (total, body)
            }
            // An empty file has no ranges.
            416 if start == 0 && answer.header(header::CONTENT_RANGE) == Some("bytes */0") => (0, 0),
            416 => {
                let now = answer
                    .header(header::CONTENT_RANGE)
                    .and_then(|text| text.strip_prefix("bytes */")?.parse::<u64>().ok());
                return Err(never(match (self.length(), now) {
                    (Some(before), Some(after)) if before != after => changed_length(before, after),
                    _ => Problem::Status { status: 416, text: None },
                }));
            }
            // The whole file is what was requested.
            _ if start == 0 && content.is_some_and(|content| end.is_none_or(|end| end >= content)) => {
                let content = content.unwrap_or_default();
                (content, content)
            }
            _ if start == 0 && end.is_none() => {
                return Err(never(Problem::Length { found: "there is no Content-Length".to_owned() }));
            }
            _ => return Err(never(Problem::NoRanges)),
        };
        let found = Identity { length, etag, modified };
        found.check_stated(self.stated).map_err(never)?;
        self.identity.get_or_init(|| found.clone()).check(&found).map_err(never)?;
        Ok(body)
    }
}

impl Fetch for HttpRanges {
    fn length(&self) -> Option<u64> {
        self.identity.get().map(|identity| identity.length).or(self.stated)
    }

    fn fetch(&self, start: u64, buf: &mut [u8]) -> Result<(), Error> {
        let mut attempts = Attempts::default();
        let mut filled = 0;
        let end = start + buf.len() as u64;
        while let Some(rest @ [_, ..]) = buf.get_mut(filled..) {
            let at = start + filled as u64;
            let failed = match self.request(at, Some(end)) {
                Ok((answer, body)) => {
                    let (n, failed) = read_body(answer, rest, at, body);
                    filled += n;
                    attempts.advance(n as u64);
                    failed
                }
                Err(failed) => Some(failed),
            };
            if let Some(failed) = failed {
                attempts.failed(self.client.settings(), failed)?;
            }
        }
        Ok(())
    }

    fn url(&self) -> String {
        self.url.to_string()
    }
}

/// Reads a body of `body` bytes into `buf`, which is as long. Returns how many arrived, and what failed.
fn read_body(mut answer: Answer, buf: &mut [u8], at: u64, body: u64) -> (usize, Option<Failed>) {
    let range = Some((at, (at + body).checked_sub(1)));
    let failed = |url: &Url, e| Failed::new(url, range, e);
    let mut filled = 0;
    let expected = usize::try_from(body).unwrap_or(usize::MAX).min(buf.len());
    while let Some(rest @ [_, ..]) = buf.get_mut(filled..expected) {
        match answer.read(rest) {
            Ok(0) => {
                let problem = Problem::Body { expected: body, found: filled as u64 };
                return (filled, Some(failed(&answer.url, (problem, Retry::Later))));
            }
            Ok(n) => filled += n,
            Err(e) => return (filled, Some(failed(&answer.url, e))),
        }
    }
    if filled < buf.len() {
        let problem = Problem::Body { expected: buf.len() as u64, found: filled as u64 };
        return (filled, Some(failed(&answer.url, (problem, Retry::Later))));
    }
    // The end of the body is read, so that the connection can be used again.
    match answer.read(&mut [0]) {
        Ok(0) | Err(_) => (filled, None),
        Ok(_) => {
            let problem = Problem::Body { expected: body, found: body + 1 };
            (filled, Some(failed(&answer.url, (problem, Retry::Never))))
        }
    }
}

impl ReadAt for HttpFile {
    fn size(&self) -> io::Result<u64> {
        self.0.ranges.length().ok_or_else(|| io::Error::other("nothing was read yet"))
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        drop(lock(&self.0.ranges.first).take());
        self.0.read_exact_at(offset, buf, self.size()?)
    }

    fn read_vec_at(&self, offset: u64, buf: &mut Vec<u8>) -> io::Result<()> {
        drop(lock(&self.0.ranges.first).take());
        self.0.read_vec_at(offset, buf, self.size()?)
    }

    /// One request, or the response of [`HttpFile::open`]. It is repeated from the current position if it fails, and ends when the stream is
    /// dropped.
    fn stream(&self, offset: u64) -> io::Result<Box<dyn Read + '_>> {
        let length = self.size()?;
        let first = lock(&self.0.ranges.first).take().filter(|_| offset == 0);
        Ok(Box::new(Stream { file: &self.0, at: offset, length, answer: first, attempts: Attempts::default() }))
    }

    fn preferred_read(&self) -> usize {
        PREFERRED
    }

    fn version(&self) -> Option<String> {
        Some(self.0.ranges.identity.get().map_or_else(unknown_version, Identity::version))
    }
}

/// Reads a file from a position to its end.
struct Stream<'a> {
    file: &'a Ranged<HttpRanges>,
    at: u64,
    length: u64,
    answer: Option<Answer>,
    attempts: Attempts,
}

impl Stream<'_> {
    /// Reads once; `None` after a failure that may be repeated.
    fn try_read(&mut self, buf: &mut [u8]) -> Result<usize, Failed> {
        let answer = match &mut self.answer {
            Some(answer) => answer,
            none => none.insert(self.file.ranges.request(self.at, None)?.0),
        };
        let failed = |url: &Url, e| Failed::new(url, Some((self.at, None)), e);
        match answer.read(buf) {
            Ok(0) => {
                let problem = Problem::Body { expected: self.length - self.at, found: 0 };
                Err(failed(&answer.url, (problem, Retry::Later)))
            }
            Ok(n) => Ok(n),
            Err(e) => Err(failed(&answer.url, e)),
        }
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.length.saturating_sub(self.at)).unwrap_or(usize::MAX).min(buf.len());
        let buf = buf.get_mut(..most).unwrap_or_default();
        if buf.is_empty() {
            return Ok(0);
        }
        loop {
            match self.try_read(buf) {
                Ok(n) => {
                    let bytes = buf.get(..n).unwrap_or_default();
                    self.file.add_to_sum(|sum| sum.add(self.at, bytes)).map_err(|e| self.file.io(e))?;
                    self.at += n as u64;
                    self.attempts.advance(n as u64);
                    return Ok(n);
                }
                Err(failed) => {
                    self.answer = None;
                    self.attempts.failed(self.file.ranges.client.settings(), failed).map_err(|e| self.file.io(e))?;
                }
            }
        }
    }
}

impl fmt::Debug for HttpFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpFile")
            .field("url", &self.0.ranges.url)
            .field("length", &self.0.ranges.length())
            .finish_non_exhaustive()
    }
}

/// First byte, last byte and length of `bytes 0-9/100`; no length for `*`.
fn content_range(text: &str) -> Option<(u64, u64, Option<u64>)> {
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let total = if total == "*" { None } else { Some(total.parse().ok()?) };
    Some((first.parse().ok()?, last.parse().ok()?, total))
}
