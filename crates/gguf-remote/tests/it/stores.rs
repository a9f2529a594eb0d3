//! A store on this machine with the protocol of S3, and its faults: a clear error or the right bytes, in bounded time.

use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use gguf_io::ReadAt;
use gguf_remote::{Client, Error, Location, Problem, Settings, StoreFile};

use crate::server::{Reply, Request, SHORT, Server, asked_after, file, pattern};

const LEN: usize = 3_000_000;
const ONE: &str = "\"one\"";
pub const TIME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// Settings for a store, with credentials that must not be shown.
pub fn settings(server: &Server) -> Settings {
    let (mut settings, _) = crate::server::settings("https://hub.invalid");
    for (name, value) in [
        ("AWS_ENDPOINT_URL", server.address.as_str()),
        ("AWS_ACCESS_KEY_ID", "secret-name"),
        ("AWS_SECRET_ACCESS_KEY", "secret-key"),
        ("AWS_SESSION_TOKEN", "secret-token"),
        ("GOOGLE_BASE_URL", server.address.as_str()),
        ("GOOGLE_BEARER_TOKEN", "secret-token"),
        ("AZURE_STORAGE_ENDPOINT", server.address.as_str()),
        ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
        ("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=secret-signature"),
    ] {
        assert!(settings.store_options.insert(name, value));
    }
    settings
}

pub fn location(text: &str) -> Location {
    Location::parse(text).unwrap().unwrap()
}

/// Reads all bytes: the first half as a stream, the second as ranges.
fn read(server: &Server) -> Result<Vec<u8>, Error> {
    let mut settings = settings(server);
    settings.read_timeout = SHORT;
    let client = Client::new(settings).unwrap();
    let result = StoreFile::open(&client, &location("s3://bucket/folder/model.gguf")).and_then(|file| {
        let mut bytes = vec![0; file.size().unwrap() as usize];
        let half = bytes.len() / 2;
        let inner = |e: std::io::Error| e.downcast::<Error>().unwrap();
        let mut stream = file.stream(0).unwrap();
        stream.read_exact(&mut bytes[..half]).map_err(inner)?;
        drop(stream);
        let rest = bytes.len() - half;
        for at in [half, half + rest / 3, half + rest / 3 * 2] {
            let end = (at + rest / 3 + 2).min(bytes.len());
            file.read_exact_at(at as u64, &mut bytes[at..end]).map_err(inner)?;
        }
        Ok(bytes)
    });
    if let Err(e) = &result {
        let shown = format!("{e} {e:?} {client:?}");
        assert!(!shown.contains("secret"), "{shown}");
    }
    result
}

fn problem(handler: impl Fn(usize, &Request, &[u8]) -> Reply + Send + Sync + 'static) -> (Problem, Server) {
    let bytes = pattern(LEN);
    let server = Server::start(move |n, request| handler(n, request, &bytes));
    let started = Instant::now();
    let e = read(&server).expect_err("a fault");
    assert!(started.elapsed() < Duration::from_secs(10), "{e}");
    (e.problem, server)
}

/// Reads in spite of faults; the number of requests.
fn good(handler: impl Fn(usize, &Request, &[u8]) -> Reply + Send + Sync + 'static) -> usize {
    let bytes = pattern(LEN);
    let server = Server::start(move |n, request| handler(n, request, &bytes));
    assert!(read(&server).unwrap() == pattern(LEN));
    server.n_requests()
}

#[test]
fn no_fault() {
    let requests = good(|n, request, bytes| {
        assert_eq!(request.target, "/bucket/folder/model.gguf");
        assert_eq!(request.if_match.as_deref(), (n > 0).then_some(ONE));
        assert!(request.authorization.as_deref().is_some_and(|a| a.starts_with("AWS4-HMAC-SHA256 ")));
        file(request, bytes, ONE)
    });
    assert_eq!(requests, 4);
    // Weak ETags are compared, but not sent: they never match.
    good(|_, request, bytes| {
        assert_eq!(request.if_match, None);
        file(request, bytes, "W/\"one\"")
    });
    assert_eq!(good(|_, request, bytes| file(request, bytes, ONE).with("ETag", "")), 4);
}

#[test]
fn other_stores() {
    for (name, target, authorization) in [
        ("gs://bucket/a b/x.gguf", "/bucket/a%20b%2Fx%2Egguf", Some("Bearer secret-token")),
        ("az://bucket/a b/x.gguf", "/bucket/a%20b/x.gguf?sv=1&sig=secret-signature", None),
    ] {
        let bytes = pattern(LEN);
        // Both require the time.
        let server = Server::start(move |_, request| file(request, &bytes, ONE).with("Last-Modified", TIME));
        let client = Client::new(settings(&server)).unwrap();
        let file = StoreFile::open(&client, &location(name)).unwrap();
        let mut read = vec![0; LEN];
        file.read_exact_at(0, &mut read).unwrap();
        assert!(read == pattern(LEN));
        for request in server.requests() {
            assert_eq!((request.target.as_str(), request.authorization.as_deref()), (target, authorization), "{name}");
        }
        assert!(!format!("{client:?} {file:?}").contains("secret"));
    }
}

#[test]
fn other_ranges() {
    let (ignored, _) = problem(|_, _, bytes| Reply::new(200, bytes).with("ETag", ONE));
    assert!(matches!(&ignored, Problem::Answer(text) if text.contains("range requested")), "{ignored:?}");
    for range in ["bytes 1-1000001/3000000", "bytes 1500000-1500005/3000000", "x", ""] {
        let (wrong, server) = problem(move |n, request, bytes| match n {
            0 => file(request, bytes, ONE),
            _ => file(request, bytes, ONE).with("Content-Range", range),
        });
        assert!(matches!(wrong, Problem::Answer(_)), "{range}: {wrong:?}");
        assert_eq!(server.n_requests(), 2, "it is not tried again");
    }
}

#[test]
fn changed_objects() {
    let changed = |n| if n < 2 { ONE } else { "\"two\"" };
    let (with, _) = problem(move |n, request, bytes| file(request, bytes, changed(n)));
    assert_eq!(with, Problem::Changed { what: "ETag", before: ONE.into(), after: "another".into() });
    // Without support of If-Match.
    let (without, _) =
        problem(move |n, request, bytes| file(&Request { if_match: None, ..request.clone() }, bytes, changed(n)));
    assert_eq!(without, Problem::Changed { what: "ETag", before: ONE.into(), after: "\"two\"".into() });
    let (shorter, _) = problem(|n, request, bytes| file(request, if n == 0 { bytes } else { &bytes[..LEN - 1] }, ONE));
    assert_eq!(shorter, Problem::Changed { what: "its length", before: "3000000".into(), after: "2999999".into() });
    // A range that was cut because the object ended.
    let (cut, _) = problem(|n, request, bytes| match n {
        0 => file(request, bytes, ONE),
        _ => file(request, &bytes[..1_600_000], ONE),
    });
    assert!(matches!(cut, Problem::Changed { what: "its length", .. }), "{cut:?}");
}

#[test]
fn broken_bodies() {
    let requests = good(|n, request, bytes| {
        let reply = file(request, bytes, ONE);
        if n % 3 == 2 { reply } else { reply.cut(n * 29_711 % 200_000) }
    });
    assert!(requests > 6);
    // Progress of a megabyte excuses all failures before it.
    assert!(good(|_, request, bytes| file(request, bytes, ONE).cut(200_000)) > 12);
    let (cut, server) = problem(|_, request, bytes| file(request, bytes, ONE).cut(0));
    assert!(matches!(cut, Problem::Connection(_) | Problem::Body { .. }), "{cut:?}");
    assert_eq!(server.n_requests(), 6, "the limit of attempts");
}

#[test]
fn stalls() {
    let requests = good(|n, request, bytes| {
        let reply = file(request, bytes, ONE);
        if n % 2 == 0 { Reply { stalls: true, ..reply.cut(70_000) } } else { reply }
    });
    assert!(requests > 4);
    let (stalled, _) = problem(|_, request, bytes| Reply { stalls: true, ..file(request, bytes, ONE).cut(0) });
    assert_eq!(stalled, Problem::TimedOut(SHORT));
}

#[test]
fn unavailable() {
    let started = Instant::now();
    let requests = good(|n, request, bytes| match n {
        1 => Reply::new(429, "").with("Retry-After", "1"),
        2 => Reply::new(503, "<Error><Code>SlowDown</Code></Error>"),
        _ => file(request, bytes, ONE),
    });
    assert_eq!(requests, 6);
    assert!(started.elapsed() >= Duration::from_secs(1), "it is waited for");
    let (wait, server) = problem(|_, _, _| Reply::new(429, "").with("Retry-After", "9999"));
    let expected = Problem::Wait { status: 429, wait: Duration::from_secs(9999), limit: Duration::from_secs(300) };
    assert_eq!((wait, server.n_requests()), (expected, 1));
    let (down, server) = problem(|_, _, _| Reply::new(503, "<Error><Code>SlowDown</Code></Error>"));
    assert_eq!(down, Problem::Status { status: 503, text: Some("SlowDown".into()) });
    assert_eq!(server.n_requests(), 6);
}

#[test]
fn refused_and_missing() {
    for (status, kind) in [
        (401, std::io::ErrorKind::PermissionDenied),
        (403, std::io::ErrorKind::PermissionDenied),
        (404, std::io::ErrorKind::NotFound),
        (400, std::io::ErrorKind::Other),
    ] {
        // A server that repeats what it was sent.
        let body = "<Error><Code>Refused</Code><Message>key secret-key of secret-name</Message></Error>";
        let server = Server::start(move |_, _| Reply::new(status, body));
        let e = read(&server).unwrap_err();
        let text = Some("Refused: key *** of ***".to_owned());
        assert_eq!((&e.problem, e.kind()), (&Problem::Status { status, text }, kind));
        assert_eq!(e.url, "s3://bucket/folder/model.gguf");
        assert_eq!(server.n_requests(), 1);
    }
}

#[test]
fn plain_connections_to_other_machines() {
    let (mut settings, _) = crate::server::settings("https://hub.invalid");
    settings.store_options.insert("AWS_ENDPOINT_URL", "http://192.0.2.1:1");
    settings.store_options.insert("AWS_SKIP_SIGNATURE", "true");
    let client = Client::new(settings).unwrap();
    let e = StoreFile::open(&client, &location("s3://bucket/x")).unwrap_err();
    assert!(matches!(e.problem, Problem::Connection(_) | Problem::Answer(_)), "{e}");
    assert!(e.to_string().contains("scheme"), "{e}");
}

#[test]
fn options_are_checked() {
    let (mut settings, _) = crate::server::settings("https://hub.invalid");
    settings.store_options.insert("AZURE_STORAGE_ACCOUNT_KEY", "secret");
    let client = Client::new(settings).unwrap();
    let e = StoreFile::open(&client, &location("az://container/x")).unwrap_err();
    assert!(matches!(&e.problem, Problem::Options(what) if what.contains("Account")), "{e}");
    assert!(!e.to_string().contains("secret"), "{e}");

    let (mut settings, _) = crate::server::settings("https://hub.invalid");
    settings.store_options.insert("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0");
    settings.store_options.insert("AZURE_STORAGE_ACCOUNT_NAME", "mine");
    let client = Client::new(settings).unwrap();
    let open = |place: &str| StoreFile::open(&client, &location(place)).unwrap_err().to_string();
    let e = open("abfss://container@other.dfs.core.windows.net/x");
    assert!(e.contains("they are those of the account mine, not of other.dfs.core.windows.net"), "{e}");
    let e = open("abfss://container@mine.example.org/x");
    assert!(e.contains("the options of the store are not usable: "), "{e}");
}

#[test]
fn machines_without_an_identity() {
    let server = Server::start(|_, _| Reply::new(404, ""));
    let (mut settings, _) = crate::server::settings("https://hub.invalid");
    settings.store_options.insert("AWS_ENDPOINT_URL", server.address.clone());
    settings.store_options.insert("AWS_METADATA_ENDPOINT", server.address.clone());
    let e = StoreFile::open(&Client::new(settings).unwrap(), &location("s3://bucket/x")).unwrap_err();
    assert_eq!(e.problem, Problem::Identity("the server answered with status 404".into()));
    assert!(server.requests().iter().all(|request| request.target.starts_with("/latest/")));
}

#[test]
fn a_cancelled_client_stops() {
    struct Cancel(Instant);
    impl gguf_remote::Observer for Cancel {
        fn event(&self, _: gguf_remote::Event<'_>) {}
        fn is_cancelled(&self) -> bool {
            self.0.elapsed() > Duration::from_millis(300)
        }
    }
    let bytes = pattern(LEN);
    let server = Server::start(move |_, request| Reply { stalls: true, ..file(request, &bytes, ONE).cut(0) });
    let (mut settings, _) = crate::server::settings("https://hub.invalid");
    settings.store_options.insert("AWS_ENDPOINT_URL", server.address.clone());
    settings.store_options.insert("AWS_SKIP_SIGNATURE", "true");
    settings.observer = std::sync::Arc::new(Cancel(Instant::now()));
    let client = Client::new(settings).unwrap();
    let started = Instant::now();
    let e = StoreFile::open(&client, &location("s3://bucket/x")).and_then(|file| {
        let read = file.read_exact_at(5, &mut [0; 10]);
        read.map_err(|e| e.downcast::<Error>().unwrap())
    });
    assert_eq!(e.unwrap_err().problem, Problem::Cancelled);
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn planned_reads_are_fetched_at_the_same_time() {
    let bytes = pattern(24 << 20);
    let served = bytes.clone();
    let server = Server::start(move |_, request| {
        std::thread::sleep(Duration::from_millis(50));
        file(request, &served, ONE)
    });
    let client = Client::new(settings(&server)).unwrap();
    let name = "s3://bucket/x";
    let source = StoreFile::open(&client, &location(name)).unwrap();
    source.read_exact_at(bytes.len() as u64 - 1, &mut [0]).unwrap();
    let requests = server.n_requests();
    let tensors: Vec<_> = (0..20u64).map(|i| (i * 7 % 20) << 20).map(|at| at..at + (1 << 20) - 7).collect();
    let plan: Vec<_> = tensors.iter().map(|range| (PathBuf::from(name), range.clone())).collect();
    client.ahead(plan.into_iter(), || {
        for range in &tensors {
            let mut read = vec![0; (range.end - range.start) as usize];
            source.read_exact_at(range.start, &mut read).unwrap();
            assert!(read == bytes[range.start as usize..range.end as usize]);
        }
    });
    assert_eq!(asked_after(requests, &server), tensors.iter().map(|range| range.end - range.start).sum::<u64>());
    assert!(server.n_requests() - requests <= 20);
    assert!(server.most_at_once() >= 4, "{}", server.most_at_once());
}

#[test]
fn within_another_runtime() {
    let server = Server::of_file(pattern(LEN));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(runtime.block_on(async { read(&server) }).unwrap() == pattern(LEN));
}
