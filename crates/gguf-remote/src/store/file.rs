//! An object of a store, as a source of bytes.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use gguf_io::ReadAt;
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta};

use super::Bucket;
use super::run::Trouble;
use crate::attempts::PROGRESS;
use crate::budget::lock;
use crate::client::Client;
use crate::error::{Error, Problem};
use crate::identity::{Identity, unknown_version};
use crate::location::Location;
use crate::ranged::{Fetch, PREFERRED, Ranged};
use crate::settings::Event;

/// An object of a store. It is read in ranges, with few requests: reads that follow each other are fetched in growing windows, long ones in
/// several requests at once, and [`Client::ahead`] fetches planned ones before they are read.
///
/// The first response fixes the length and the ETag of the object. Later requests ask for the same ETag, and later responses must have it, the
/// same length and the requested range; otherwise the read fails, with an [`Error`] as the cause of the [`io::Error`].
///
/// Failed requests are repeated, see [`Settings`](crate::Settings): after connections that failed, and for the status 408, 429 and 500 to 599, with
/// growing waits, and not before the time in `Retry-After`.
#[derive(Clone)]
pub struct StoreFile(Arc<Ranged<StoreRanges>>);

/// Chunks of a body.
type Body = BoxStream<'static, object_store::Result<bytes::Bytes>>;

/// Requests ranges of an object.
struct StoreRanges {
    client: Client,
    url: String,
    bucket: Arc<Bucket>,
    key: Key,
    /// What the first response said.
    identity: OnceLock<Identity>,
    /// The length that a listing says, before the first response.
    stated: Option<u64>,
    /// The response that [`StoreFile::open`] got: the whole object, unless it is dropped.
    first: Mutex<Option<Body>>,
}

impl StoreFile {
    /// Opens an object with one request, whose response is the start of the [stream](ReadAt::stream) of all bytes. It ends if something else is
    /// read first.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(client: &Client, location: &Location) -> Result<StoreFile, Error> {
        let (bucket, key) = client.buckets().open(location)?;
        let file = StoreFile::new(client, location, bucket, key, None);
        let body = file.0.ranges.body(0)?;
        *lock(&file.0.ranges.first) = Some(body);
        Ok(file)
    }

    /// Opens an object with a request for one byte, whose response has length and ETag.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) fn open_ranges(client: &Client, location: &Location) -> Result<StoreFile, Error> {
        let (bucket, key) = client.buckets().open(location)?;
        let file = StoreFile::new(client, location, bucket, key, None);
        file.0.identify()?;
        Ok(file)
    }

    /// An object that may be of known length. Nothing is requested before the first read.
    pub(super) fn new(
        client: &Client,
        location: &Location,
        bucket: Arc<Bucket>,
        key: Key,
        stated: Option<u64>,
    ) -> StoreFile {
        let url = location.to_string();
        let (client, identity, first) = (client.clone(), OnceLock::new(), Mutex::default());
        let ranges = StoreRanges { client, url: url.clone(), bucket, key, identity, stated, first };
        let budget = Arc::clone(ranges.client.budget());
        StoreFile(Ranged::new(&budget, Path::new(&url), None, ranges))
    }
}

impl StoreRanges {
    /// Requests a range and checks the headers of the response; the whole object without one.
    async fn request(&self, range: Option<GetRange>) -> Result<GetResult, Trouble> {
        let etag = self.identity.get().and_then(|identity| identity.etag.clone());
        let if_match = etag.clone().filter(|etag| !etag.starts_with("W/"));
        let options = GetOptions { range, if_match, ..GetOptions::default() };
        let found = self.bucket.objects.get_opts(&self.key, options).await.map_err(|e| match (e, etag) {
            (object_store::Error::Precondition { .. }, Some(before)) => {
                Trouble::Problem(Problem::Changed { what: "ETag", before, after: "another".to_owned() })
            }
            (e, _) => Trouble::Store(e),
        })?;
        self.check(&found.meta)?;
        Ok(found)
    }

    fn check(&self, found: &ObjectMeta) -> Result<(), Problem> {
        let modified = Some(found.last_modified.to_string());
        let found = Identity { length: found.size, etag: found.e_tag.clone(), modified };
        found.check_stated(self.stated)?;
        self.identity.get_or_init(|| found.clone()).check(&found)
    }

    /// Opens the body from a position to the end of the object.
    fn body(&self, at: u64) -> Result<Body, Error> {
        let request = async {
            // An empty object has no ranges.
            let found = self.request((at > 0).then_some(GetRange::Offset(at))).await?;
            Ok(found.into_stream())
        };
        self.bucket.run(&self.url, Some((at, None)), request)
    }

    /// Fills a buffer as far as possible; `filled` is what arrived, also after an error.
    async fn get(&self, start: u64, buf: &mut [u8], filled: &mut usize) -> Result<(), Trouble> {
        let asked = GetRange::Bounded(start..start + buf.len() as u64);
        // `object_store` checks the range, but cuts one that ends beyond the end; this one does not, because the length is known.
        let found = self.request(Some(asked)).await?;
        let mut body = found.into_stream();
        while let Some(chunk) = body.next().await.transpose()? {
            self.client.event(Event::Received { bytes: chunk.len() as u64 });
            let rest = buf.get_mut(*filled..).unwrap_or_default();
            match rest.get_mut(..chunk.len()) {
                Some(place) => place.copy_from_slice(&chunk),
                None => {
                    let (expected, found) = (buf.len() as u64, (*filled + chunk.len()) as u64);
                    return Err(Problem::Body { expected, found }.into());
                }
            }
            *filled += chunk.len();
        }
        match *filled == buf.len() {
            true => Ok(()),
            false => Err(Problem::Body { expected: buf.len() as u64, found: *filled as u64 }.into()),
        }
    }
}

/// Whether the rest of a response may be requested again. The requests were repeated already, so this is only useful after progress.
fn may_continue(problem: &Problem, progress: u64) -> bool {
    progress >= PROGRESS
        && matches!(problem, Problem::Connection(_) | Problem::TimedOut(_) | Problem::Status { status: 500.., .. })
}

impl Fetch for StoreRanges {
    fn length(&self) -> Option<u64> {
        self.identity.get().map(|identity| identity.length).or(self.stated)
    }

    fn fetch(&self, start: u64, buf: &mut [u8]) -> Result<(), Error> {
        let (mut done, end) = (0, start + buf.len() as u64);
        while let Some(rest @ [_, ..]) = buf.get_mut(done..) {
            let (at, mut filled) = (start + done as u64, 0);
            let range = Some((at, Some(end - 1)));
            let got = self.bucket.run(&self.url, range, self.get(at, rest, &mut filled));
            match got {
                Err(e) if !may_continue(&e.problem, filled as u64) => return Err(e),
                _ => done += filled,
            }
        }
        Ok(())
    }

    fn url(&self) -> String {
        self.url.clone()
    }
}

impl ReadAt for StoreFile {
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

    /// One request, or the response of [`StoreFile::open`]. It is repeated from the current position if it fails, and ends when the stream is
    /// dropped.
    fn stream(&self, offset: u64) -> io::Result<Box<dyn Read + '_>> {
        let length = self.size()?;
        let body = lock(&self.0.ranges.first).take().filter(|_| offset == 0);
        Ok(Box::new(Stream { file: &self.0, at: offset, length, body, chunk: bytes::Bytes::new(), progress: 0 }))
    }

    fn preferred_read(&self) -> usize {
        PREFERRED
    }

    fn version(&self) -> Option<String> {
        Some(self.0.ranges.identity.get().map_or_else(unknown_version, Identity::version))
    }
}

/// Reads an object from a position to its end.
struct Stream<'a> {
    file: &'a Ranged<StoreRanges>,
    at: u64,
    length: u64,
    body: Option<Body>,
    /// What arrived and was not read yet.
    chunk: bytes::Bytes,
    /// Bytes since the last failure.
    progress: u64,
}

impl Stream<'_> {
    /// Waits for bytes.
    fn next_chunk(&mut self) -> Result<(), Error> {
        let ranges = &self.file.ranges;
        let body = match &mut self.body {
            Some(body) => body,
            none => none.insert(ranges.body(self.at)?),
        };
        let left = self.length - self.at;
        let chunk = ranges.bucket.run(&ranges.url, Some((self.at, None)), async {
            match body.next().await.transpose()? {
                Some(chunk) if chunk.len() as u64 > left => {
                    Err(Problem::Body { expected: left, found: chunk.len() as u64 }.into())
                }
                Some(chunk) => Ok(chunk),
                None => Err(Problem::Body { expected: left, found: 0 }.into()),
            }
        });
        match chunk {
            Ok(chunk) => {
                ranges.client.event(Event::Received { bytes: chunk.len() as u64 });
                self.progress += chunk.len() as u64;
                self.chunk = chunk;
                Ok(())
            }
            Err(e) if may_continue(&e.problem, self.progress) => {
                (self.body, self.progress) = (None, 0);
                Ok(())
            }
            Err(e) => Err(e),
        }
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() || self.at >= self.length {
            return Ok(0);
        }
        while self.chunk.is_empty() {
            self.next_chunk().map_err(|e| self.file.io(e))?;
        }
        let bytes = self.chunk.split_to(buf.len().min(self.chunk.len()));
        buf.get_mut(..bytes.len()).unwrap_or_default().copy_from_slice(&bytes);
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }
}

impl fmt::Debug for StoreFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StoreRanges { url, .. } = &self.0.ranges;
        f.debug_struct("StoreFile").field("url", url).field("length", &self.0.ranges.length()).finish_non_exhaustive()
    }
}
