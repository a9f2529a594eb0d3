//! The server of `gguf view`: the page, the list of models, and ranges of their files, over HTTP/1.1 on the loopback interface.
//!
//! It answers only below a secret path, and only to requests whose `Host` is this machine, so that neither other users nor pages of other sites (by
//! names that resolve to this machine) can read the files.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use gguf_io::ReadAt;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::json;

/// The page, compressed: `web/dist/served.html.gz`.
const PAGE: &[u8] = include_bytes!(env!(
    "GGUF_VIEWER_PAGE",
    "the feature `view` needs the web viewer: build it with `npm run build` in web/, and set GGUF_VIEWER_PAGE to the full path of web/dist/served.html.gz"
));

/// Most bytes of the head of a request.
const HEAD: u64 = 16 << 10;
/// Bytes that are read from a file at once.
const PIECE: usize = 256 << 10;
/// Most connections at once. A browser opens six.
const CONNECTIONS: usize = 64;
/// An idle connection is closed after this time.
const IDLE: Duration = Duration::from_secs(120);
/// How often an open page is sent a byte, by which a broken connection is noticed.
const BEAT: Duration = Duration::from_secs(2);
/// A closed page may come back within this time: it is perhaps loaded again.
const GRACE: Duration = Duration::from_secs(8);

/// A model of the command line.
pub struct Model {
    /// The files, the named one first.
    pub files: Vec<Served>,
}

/// A file.
pub struct Served {
    pub name: String,
    pub source: Arc<dyn ReadAt>,
    pub bytes: u64,
}

pub struct Server {
    path: String,
    models: Vec<Model>,
    connections: AtomicUsize,
    pages: Mutex<Pages>,
}

/// The open pages.
#[derive(Default)]
struct Pages {
    n: usize,
    /// When the last one was closed.
    closed: Option<Instant>,
}

/// A request: its method, the path below the secret one, and its range of bytes.
struct Request {
    is_head: bool,
    path: String,
    range: Option<(u64, Option<u64>)>,
}

/// Why a request is not answered.
enum Refused {
    /// The connection is closed, or fails.
    Closed,
    /// The status.
    Status(&'static str),
}

impl From<io::Error> for Refused {
    fn from(_: io::Error) -> Refused {
        Refused::Closed
    }
}

impl Server {
    pub fn new(path: String, models: Vec<Model>) -> Server {
        Server { path, models, connections: AtomicUsize::new(0), pages: Mutex::default() }
    }

    /// Whether the page was open, and is closed now.
    pub fn is_left(&self) -> bool {
        let pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.n == 0 && pages.closed.is_some_and(|closed| closed.elapsed() > GRACE)
    }

    /// Answers each connection on a thread of its own.
    pub fn accept(self: &Arc<Server>, listener: &TcpListener) {
        for stream in listener.incoming().flatten() {
            if self.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
                self.connections.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let server = Arc::clone(self);
            drop(thread::spawn(move || {
                // The other side sees a failure as a closed connection.
                let _ = server.converse(stream);
                server.connections.fetch_sub(1, Ordering::Relaxed);
            }));
        }
    }

    fn converse(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(IDLE))?;
        stream.set_write_timeout(Some(IDLE))?;
        let mut reader = BufReader::new(stream.try_clone()?);
        loop {
            match self.read(&mut reader) {
                Ok(request) => self.answer(&mut stream, &request)?,
                Err(Refused::Closed) => return Ok(()),
                Err(Refused::Status(status)) => {
                    return write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                }
            }
        }
    }

    /// Reads a request.
    fn read(&self, reader: &mut BufReader<TcpStream>) -> Result<Request, Refused> {
        let mut lines = Vec::new();
        let mut limited = reader.take(HEAD);
        loop {
            let mut line = Vec::new();
            limited.read_until(b'\n', &mut line)?;
            if !line.ends_with(b"\n") {
                return Err(if limited.limit() == 0 {
                    Refused::Status("431 Request Header Fields Too Large")
                } else {
                    Refused::Closed
                });
            }
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        let mut words = lines.first().map(String::as_str).unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some("HTTP/1.1")) = (words.next(), words.next(), words.next()) else {
            return Err(Refused::Status("400 Bad Request"));
        };
        let header = |name: &str| {
            let headers = lines.iter().skip(1).filter_map(|line| line.split_once(':'));
            headers.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
        };
        if !header("host").is_some_and(is_this_machine) {
            return Err(Refused::Status("421 Misdirected Request"));
        }
        let is_head = match method {
            "GET" => false,
            "HEAD" => true,
            _ => return Err(Refused::Status("405 Method Not Allowed")),
        };
        let path = target.strip_prefix('/').and_then(|rest| rest.strip_prefix(self.path.as_str()));
        let path = path.and_then(|rest| rest.strip_prefix('/')).ok_or(Refused::Status("404 Not Found"))?;
        Ok(Request { is_head, path: decoded(path), range: header("range").and_then(range) })
    }

    fn answer(&self, stream: &mut TcpStream, request: &Request) -> io::Result<()> {
        match request.path.as_str() {
            "" => whole(stream, request, "text/html; charset=utf-8", "Content-Encoding: gzip\r\n", PAGE),
            "models" => whole(stream, request, "application/json", "", self.list().as_bytes()),
            "alive" if !request.is_head => self.stay(stream),
            path => match self.file(path) {
                Some(file) => send(stream, request, file),
                None => status(stream, "404 Not Found", ""),
            },
        }
    }

    /// The models: the path of the first file of each, its name, and the bytes of all files.
    fn list(&self) -> String {
        let models = self.models.iter().enumerate().filter_map(|(i, model)| {
            let name = &model.files.first()?.name;
            let bytes: u64 = model.files.iter().map(|file| file.bytes).sum();
            Some(json!({ "path": format!("files/{i}/{}", encoded(name)), "name": name, "bytes": bytes }))
        });
        models.collect::<serde_json::Value>().to_string()
    }

    /// The file at `files/MODEL/NAME`.
    fn file(&self, path: &str) -> Option<&Served> {
        let (index, name) = path.strip_prefix("files/")?.split_once('/')?;
        let model = self.models.get(index.parse::<usize>().ok()?)?;
        model.files.iter().find(|file| file.name == name)
    }

    /// Answers without an end, as long as the page is open.
    fn stay(&self, stream: &mut TcpStream) -> io::Result<()> {
        let lock = || self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        lock().n += 1;
        let ended = hold(stream);
        let mut pages = lock();
        pages.n -= 1;
        pages.closed = Some(Instant::now());
        ended
    }
}

/// Sends a byte from time to time until the connection is closed.
fn hold(stream: &mut TcpStream) -> io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/plain\r\n{SAFE}\r\n")?;
    stream.set_read_timeout(Some(BEAT))?;
    loop {
        stream.write_all(b"1\r\n\n\r\n")?;
        match stream.read(&mut [0; 64]) {
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(e) => return Err(e),
            // Nothing else is expected on this connection.
            Ok(_) => return Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

/// Headers of all answers.
const SAFE: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\nX-Frame-Options: DENY\r\n";

fn status(stream: &mut TcpStream, status: &str, more: &str) -> io::Result<()> {
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n{more}{SAFE}\r\n")
}

fn whole(stream: &mut TcpStream, request: &Request, ty: &str, more: &str, bytes: &[u8]) -> io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: {ty}\r\nContent-Length: {}\r\n{more}{SAFE}\r\n", bytes.len())?;
    if request.is_head { Ok(()) } else { stream.write_all(bytes) }
}

/// Sends a file, or the part of it that is asked for.
fn send(stream: &mut TcpStream, request: &Request, file: &Served) -> io::Result<()> {
    let (start, end) = match request.range {
        None => (0, file.bytes),
        Some((start, last)) => (start, last.map_or(file.bytes, |last| last.saturating_add(1)).min(file.bytes)),
    };
    if request.range.is_some() && start >= end {
        return status(stream, "416 Range Not Satisfiable", &format!("Content-Range: bytes */{}\r\n", file.bytes));
    }
    let (code, range) = match request.range {
        None => ("200 OK", String::new()),
        Some(_) => ("206 Partial Content", format!("Content-Range: bytes {start}-{}/{}\r\n", end - 1, file.bytes)),
    };
    write!(
        stream,
        "HTTP/1.1 {code}\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n{range}Accept-Ranges: bytes\r\n{SAFE}\r\n",
        end - start
    )?;
    if request.is_head {
        return Ok(());
    }
    let mut buffer = vec![0; PIECE];
    let mut at = start;
    while at < end {
        let n = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
        let piece = buffer.get_mut(..n).unwrap_or_default();
        file.source.read_exact_at(at, piece)?;
        stream.write_all(piece)?;
        at += n as u64;
    }
    Ok(())
}

/// Whether a `Host` is this machine, at any port: that of an ssh tunnel is that of its other end.
fn is_this_machine(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name == "127.0.0.1" || name.eq_ignore_ascii_case("localhost")
}

/// The range of `bytes=0-99` or `bytes=100-`; other forms are ignored, which is allowed.
fn range(text: &str) -> Option<(u64, Option<u64>)> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let last = if last.is_empty() { None } else { Some(last.parse().ok()?) };
    Some((first.parse().ok()?, last))
}

/// A name as a component of a path.
fn encoded(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

/// A path without its query, decoded.
fn decoded(path: &str) -> String {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_addresses() {
        for name in ["a.gguf", "a b%41?#&é.gguf", "%", "%2", "%+1"] {
            assert_eq!(decoded(&encoded(name)), name);
        }
        assert_eq!(decoded("files/0/a%20b?x=1"), "files/0/a b");
    }

    #[test]
    fn only_this_machine_is_the_host() {
        for host in ["127.0.0.1", "127.0.0.1:80", "localhost:9", "LOCALHOST"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example:80",
            "localhost.evil.example",
            "[::1]:80",
            "evil.example:127.0.0.1",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    #[test]
    fn ranges_are_read() {
        assert_eq!(range("bytes=0-99"), Some((0, Some(99))));
        assert_eq!(range("bytes=5-"), Some((5, None)));
        for other in ["bytes=-5", "bytes=1-2,3-4", "items=0-1", "bytes=a-b", ""] {
            assert_eq!(range(other), None, "{other}");
        }
    }
}
