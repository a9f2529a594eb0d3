//! A small HTTP server with faults, and a Hub.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A request: the method, the target, the headers that matter, and the body.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub method: String,
    pub target: String,
    pub range: Option<String>,
    pub if_match: Option<String>,
    pub authorization: Option<String>,
    pub body: Vec<u8>,
}

/// A response.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The number of bytes of the body after which the connection is closed.
    pub cut: usize,
    /// Whether the connection stays open after `cut` bytes, without any more.
    pub stalls: bool,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Reply {
        let body = body.into();
        let headers = vec![("Content-Length".to_owned(), body.len().to_string())];
        Reply { status, headers, body, cut: usize::MAX, stalls: false }
    }

    pub fn redirect(to: &str) -> Reply {
        Reply::new(302, "").with("Location", to)
    }

    /// Sets a header; an empty value removes it.
    pub fn with(mut self, name: &str, value: &str) -> Reply {
        self.headers.retain(|(n, _)| n != name);
        if !value.is_empty() {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    pub fn cut(self, cut: usize) -> Reply {
        Reply { cut, ..self }
    }
}

/// What a web server with ranges and ETags answers for a file.
pub fn file(request: &Request, bytes: &[u8], etag: &str) -> Reply {
    if request.if_match.as_deref().is_some_and(|asked| asked != etag) {
        return Reply::new(412, "").with("ETag", etag);
    }
    let Some(range) = request.range.as_deref().and_then(|range| range.strip_prefix("bytes=")) else {
        return Reply::new(200, bytes).with("ETag", etag);
    };
    let (first, last) = range.split_once('-').unwrap();
    let first: usize = first.parse().unwrap();
    let end = last.parse::<usize>().map_or(bytes.len(), |last| bytes.len().min(last + 1));
    if first >= end {
        return Reply::new(416, "").with("Content-Range", &format!("bytes */{}", bytes.len()));
    }
    let range = format!("bytes {first}-{}/{}", end - 1, bytes.len());
    Reply::new(206, &bytes[first..end]).with("Content-Range", &range).with("ETag", etag)
}

/// A server on a port of its own, until the end of the test program.
pub struct Server {
    pub address: String,
    log: Arc<Mutex<Vec<Request>>>,
    sent: Arc<AtomicU64>,
    at_once: Arc<AtomicUsize>,
}

impl Server {
    /// Starts a server. The handler gets the number of the request, from 0.
    pub fn start(handler: impl Fn(usize, &Request) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (log, sent, at_once) = (Arc::<Mutex<Vec<Request>>>::default(), Arc::default(), Arc::default());
        let server = Server { address, log, sent, at_once };
        let (log, sent, handler) = (server.log.clone(), server.sent.clone(), Arc::new(handler));
        let (most, now) = (server.at_once.clone(), Arc::new(AtomicUsize::new(0)));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Otherwise the body waits until the client acknowledges the head, for 40 ms.
                stream.set_nodelay(true).unwrap();
                let (log, sent, handler) = (log.clone(), sent.clone(), handler.clone());
                let (most, now) = (most.clone(), now.clone());
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    while let Some(request) = read_request(&mut reader) {
                        let number = {
                            let mut log = log.lock().unwrap();
                            log.push(Request { body: Vec::new(), ..request.clone() });
                            log.len() - 1
                        };
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        let mut reply = handler(number, &request);
                        if request.method == "HEAD" {
                            reply.body.clear();
                        }
                        let is_open = write_reply(&stream, &reply, &sent).is_some();
                        now.fetch_sub(1, Ordering::SeqCst);
                        if !is_open {
                            break;
                        }
                    }
                    let _ = stream.shutdown(std::net::Shutdown::Both);
                });
            }
        });
        server
    }

    /// A server of one file.
    pub fn of_file(bytes: Vec<u8>) -> Server {
        Server::start(move |_, request| file(request, &bytes, "\"one\""))
    }

    pub fn requests(&self) -> Vec<Request> {
        self.log.lock().unwrap().clone()
    }

    pub fn n_requests(&self) -> usize {
        self.log.lock().unwrap().len()
    }

    /// Bytes of bodies.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    /// The most requests that were answered at the same time.
    pub fn most_at_once(&self) -> usize {
        self.at_once.load(Ordering::SeqCst)
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
    let mut words = line.split(' ').map(str::to_owned);
    let mut request = Request { method: words.next()?, target: words.next()?, ..Request::default() };
    let mut body = 0;
    loop {
        line.clear();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            request.body.resize(body, 0);
            reader.read_exact(&mut request.body).ok()?;
            return Some(request);
        };
        let value = Some(value.to_owned());
        match name.to_ascii_lowercase().as_str() {
            "range" => request.range = value,
            "if-match" => request.if_match = value,
            "content-length" => body = value?.parse().ok()?,
            "authorization" => request.authorization = value,
            "accept-encoding" => assert_eq!(value.as_deref(), Some("identity")),
            _ => {}
        }
    }
}

/// Writes a response. `None` if the connection cannot be used again.
fn write_reply(mut stream: &TcpStream, reply: &Reply, sent: &AtomicU64) -> Option<()> {
    let mut head = format!("HTTP/1.1 {} Status\r\n", reply.status);
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all((head + "\r\n").as_bytes()).ok()?;
    let body = &reply.body[..reply.cut.min(reply.body.len())];
    for piece in body.chunks(64 << 10) {
        // First, because the client may ask for the number as soon as it has the bytes.
        sent.fetch_add(piece.len() as u64, Ordering::SeqCst);
        stream.write_all(piece).ok()?;
    }
    if reply.stalls {
        // Until the client gives up.
        let _ = stream.read(&mut [0]);
    }
    (body.len() == reply.body.len() && !reply.stalls).then_some(())
}

/// Files by name.
pub type Files = Vec<(String, Vec<u8>)>;

/// A server of files.
pub fn of_files(files: Files) -> Server {
    Server::start(move |_, request| match files.iter().find(|(name, _)| request.target[1..] == *name) {
        Some((name, bytes)) => file(request, bytes, &format!("\"{name}\"")),
        None => Reply::new(404, ""),
    })
}

/// The commit of the repository of [`hub_of_files`].
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A Hub with one public repository, whose files it sends itself.
pub fn hub_of_files(repo: &'static str, files: Files) -> Server {
    let listed = |(name, bytes): &(String, Vec<u8>)| {
        format!(r#"{{"type": "file", "oid": "x", "path": "{name}", "size": {}}}"#, bytes.len())
    };
    let tree = format!("[{}]", files.iter().map(listed).collect::<Vec<_>>().join(", "));
    Server::start(move |_, request| {
        let target = request.target.as_str();
        if target == format!("/api/models/{repo}/revision/main") {
            return Reply::new(200, format!(r#"{{"sha": "{COMMIT}"}}"#));
        }
        if target == format!("/api/models/{repo}/tree/{COMMIT}?recursive=true") {
            return Reply::new(200, tree.clone());
        }
        let path = target.strip_prefix(&format!("/{repo}/resolve/{COMMIT}/")).unwrap_or_default();
        match files.iter().find(|(name, _)| name == path) {
            Some((name, bytes)) => file(request, bytes, &format!("\"{name}\"")),
            None => Reply::new(404, ""),
        }
    })
}
