//! Servers and files that are not as they should be: a clear error or the right bytes, in bounded time.

use std::io::Read;
use std::time::{Duration, Instant};

use gguf_io::ReadAt;
use gguf_remote::{Client, Error, HttpFile, Problem, Url};

use crate::server::{Reply, Request, SHORT, Server, client, file, pattern, settings};

const LEN: usize = 600_000;

fn url(server: &Server) -> Url {
    Url::parse(&server.url("/model.gguf?signature=secret")).unwrap()
}

/// Reads all bytes: the first half as a stream, the second as ranges.
fn read(server: &Server) -> Result<Vec<u8>, Error> {
    let (mut settings, _) = settings(&server.address);
    settings.read_timeout = SHORT;
    let client = Client::new(settings).unwrap();
    let result = HttpFile::open(&client, &url(server)).and_then(|file| {
        let len = file.size().unwrap() as usize;
        let mut bytes = vec![0; len.min(10_000_000)];
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
        let shown = format!("{e} {e:?}");
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

const ONE: &str = "\"one\"";

#[test]
fn no_fault() {
    assert_eq!(good(|_, request, bytes| file(request, bytes, ONE)), 4);
    // Weak ETags are compared, but not sent: they never match.
    assert_eq!(
        good(|_, request, bytes| {
            assert_eq!(request.if_match, None);
            file(request, bytes, "W/\"one\"")
        }),
        4
    );
    assert_eq!(good(|_, request, bytes| file(request, bytes, ONE).with("ETag", "")), 4);
}

#[test]
fn range_ignored() {
    let (problem, _) = problem(|_, _, bytes| Reply::new(200, bytes).with("ETag", ONE));
    assert_eq!(problem, Problem::NoRanges);
}

#[test]
fn wrong_content_range() {
    for range in ["bytes 1-599999/600000", "bytes 0-5/600000", "bytes 0-599999/7", "x", "bytes 5-1/600000", ""] {
        let (problem, server) =
            problem(move |_, request, bytes| file(request, bytes, ONE).with("Content-Range", range));
        assert!(matches!(problem, Problem::ContentRange { .. }), "{range}: {problem:?}");
        assert_eq!(server.n_requests(), 1, "it is not tried again");
    }
    // Of a later response.
    let (problem, _) = problem(|n, request, bytes| match n {
        0 => file(request, bytes, ONE),
        _ => file(request, bytes, ONE).with("Content-Range", "bytes 300001-400002/600000"),
    });
    assert!(matches!(problem, Problem::ContentRange { .. }), "{problem:?}");
}

#[test]
fn short_body() {
    let (problem, server) = problem(|_, request, bytes| file(request, bytes, ONE).cut(0));
    assert!(matches!(problem, Problem::Body { .. } | Problem::Connection(_)), "{problem:?}");
    assert_eq!(server.n_requests(), 6, "the limit of attempts");
}

#[test]
fn body_cut_at_a_hundred_places() {
    // Progress excuses failures, so that all of these are read.
    let requests = good(|n, request, bytes| {
        let reply = file(request, bytes, ONE);
        if n % 3 == 2 { reply } else { reply.cut(n * 2_971 % 200_000) }
    });
    assert!(requests > 8);
    for i in 0..100 {
        let at = i * LEN / 100;
        good(
            move |n, request, bytes| if n == 0 { file(request, bytes, ONE).cut(at) } else { file(request, bytes, ONE) },
        );
    }
}

#[test]
fn stall() {
    let requests = good(|n, request, bytes| {
        let reply = file(request, bytes, ONE);
        if n % 2 == 0 { Reply { stalls: true, ..reply.cut(70_000) } } else { reply }
    });
    assert!(requests > 4);
    let (problem, _) = problem(|_, request, bytes| Reply { stalls: true, ..file(request, bytes, ONE).cut(0) });
    assert_eq!(problem, Problem::TimedOut(SHORT));
}

#[test]
fn too_many_requests() {
    let started = Instant::now();
    let requests = good(|n, request, bytes| match n {
        1 => Reply::new(429, "").with("Retry-After", "1"),
        _ => file(request, bytes, ONE),
    });
    assert_eq!(requests, 5);
    assert!(started.elapsed() >= Duration::from_secs(1), "it is waited for");
    let (problem, server) = problem(|_, _, _| Reply::new(429, "").with("RateLimit", "\"api\";r=0;t=9999"));
    let wait = Problem::Wait { status: 429, wait: Duration::from_secs(9999), limit: Duration::from_secs(300) };
    assert_eq!((problem, server.n_requests()), (wait, 1));
}

#[test]
fn unavailable() {
    assert_eq!(good(|n, request, bytes| if n == 0 { Reply::new(503, "") } else { file(request, bytes, ONE) }), 5);
    let (problem, server) = problem(|_, _, _| Reply::new(503, "").with("X-Error-Message", "under repair"));
    assert_eq!(problem, Problem::Status { status: 503, text: Some("under repair".into()) });
    assert_eq!(server.n_requests(), 6);
}

#[test]
fn length_that_lies() {
    let (problem, _) = problem(|_, request, bytes| {
        let mut reply = file(request, bytes, ONE);
        reply.body.truncate(1000);
        reply
    });
    assert!(matches!(problem, Problem::Body { .. } | Problem::Connection(_) | Problem::TimedOut(_)), "{problem:?}");
    for length in ["5", "999999"] {
        let (problem, _) =
            crate::faults::problem(move |_, request, bytes| file(request, bytes, ONE).with("Content-Length", length));
        assert!(matches!(problem, Problem::Length { .. }), "{length}: {problem:?}");
    }
    let (problem, _) = crate::faults::problem(|n, request, bytes| match n {
        0 => file(request, bytes, ONE),
        _ => file(request, &bytes[..599_999], ONE),
    });
    assert!(
        matches!(problem, Problem::Changed { what: "its length", .. } | Problem::ContentRange { .. }),
        "{problem:?}"
    );
}

#[test]
fn etag_that_changes() {
    let changed = |n| if n < 2 { ONE } else { "\"two\"" };
    let expected = Problem::Changed { what: "ETag", before: ONE.into(), after: "\"two\"".into() };
    let (with, _) = problem(move |n, request, bytes| file(request, bytes, changed(n)));
    assert_eq!(with, expected);
    // Without support of If-Match.
    let (without, _) =
        problem(move |n, request, bytes| file(&Request { if_match: None, ..request.clone() }, bytes, changed(n)));
    assert_eq!(without, expected);
    let (modified, _) = problem(move |n, request, bytes| {
        file(request, bytes, "").with("ETag", "").with("Last-Modified", if n < 2 { "yesterday" } else { "today" })
    });
    assert!(matches!(modified, Problem::Changed { what: "Last-Modified", .. }), "{modified:?}");
}

#[test]
fn link_that_expires() {
    // Links work for two requests.
    let links = std::sync::atomic::AtomicUsize::new(0);
    let requests = good(move |n, request, bytes| {
        if request.target.starts_with("/model.gguf") {
            links.store(n, std::sync::atomic::Ordering::SeqCst);
            return Reply::redirect(&format!("/cdn?link={n}&signature=secret"));
        }
        let made = links.load(std::sync::atomic::Ordering::SeqCst);
        match request.target.contains(&format!("link={made}&")) && n <= made + 2 {
            true => file(request, bytes, ONE),
            false => Reply::new(403, ""),
        }
    });
    assert_eq!(requests, 7, "three links would be one too many");
    // A new link does not work either.
    let (problem, server) = problem(|n, request, bytes| match n {
        0 => Reply::redirect("/cdn"),
        1 => file(request, bytes, ONE),
        _ if request.target.starts_with("/model") => Reply::redirect("/cdn"),
        _ => Reply::new(401, ""),
    });
    assert_eq!(problem, Problem::Status { status: 401, text: None });
    assert!(server.n_requests() < 10);
}

#[test]
fn redirects() {
    let (problem, server) = problem(|_, _, _| Reply::redirect("/model.gguf?signature=secret"));
    assert_eq!((problem, server.n_requests()), (Problem::Redirects(10), 11));
    for to in ["", "ftp://x/", "http://user:secret@x/"] {
        let (problem, _) = crate::faults::problem(move |_, _, _| Reply::redirect(to));
        assert!(matches!(problem, Problem::RedirectTo(_) | Problem::Redirects(_)), "{to}: {problem:?}");
    }
}

#[test]
fn the_token_stays_at_home() {
    let elsewhere = Server::of_file(pattern(LEN));
    let target = elsewhere.url("/file");
    let home = Server::start(move |_, _| Reply::redirect(&target));
    assert!(read(&home).unwrap() == pattern(LEN));
    assert!(home.requests().iter().all(|request| request.authorization.as_deref() == Some("Bearer hf_secret")));
    assert_eq!(home.n_requests(), 1, "the link is kept");
    assert_eq!(elsewhere.n_requests(), 4);
    assert!(elsewhere.requests().iter().all(|request| request.authorization.is_none()));

    // Nor does it come back with a redirect from elsewhere.
    let home = Server::of_file(pattern(LEN));
    let target = home.url("/file");
    let elsewhere = Server::start(move |_, _| Reply::redirect(&target));
    let (client, _) = client(&home.address);
    HttpFile::open(&client, &Url::parse(&elsewhere.url("/x")).unwrap()).unwrap();
    assert!(home.requests()[0].authorization.is_none());
}

#[test]
fn refused_and_missing() {
    for (status, kind) in [
        (401, std::io::ErrorKind::PermissionDenied),
        (403, std::io::ErrorKind::PermissionDenied),
        (404, std::io::ErrorKind::NotFound),
        (400, std::io::ErrorKind::Other),
    ] {
        let server = Server::start(move |_, _| Reply::new(status, "secret"));
        let e = read(&server).unwrap_err();
        assert_eq!((&e.problem, e.kind()), (&Problem::Status { status, text: None }, kind));
        assert_eq!(server.n_requests(), 1);
    }
}

#[test]
fn ten_terabytes_claimed() {
    let (problem, _) = problem(|n, request, bytes| match n {
        0 => Reply::new(206, &bytes[..LEN / 2])
            .with("Content-Range", "bytes 0-9999999999999/10000000000000")
            .with("Content-Length", "10000000000000"),
        _ => file(request, bytes, ONE),
    });
    assert!(
        matches!(problem, Problem::Changed { what: "its length", .. } | Problem::ContentRange { .. }),
        "{problem:?}"
    );
    let (problem, _) = crate::faults::problem(|_, _, _| {
        Reply::new(206, "x")
            .with("Content-Range", "bytes 0-9999999999999999998/9999999999999999999")
            .with("Content-Length", "")
    });
    assert!(matches!(problem, Problem::Length { .. }), "{problem:?}");
}

#[test]
fn compressed() {
    let (problem, _) = problem(|_, request, bytes| file(request, bytes, ONE).with("Content-Encoding", "gzip"));
    assert_eq!(problem, Problem::Encoding("gzip".into()));
}

#[test]
fn no_server() {
    let (client, events) = client("http://127.0.0.1:1");
    let e = HttpFile::open(&client, &Url::parse("http://127.0.0.1:1/x").unwrap()).unwrap_err();
    assert!(matches!(e.problem, Problem::Connection(_)) && e.attempts == 6, "{e}");
    assert_eq!(events.lock().unwrap().iter().filter(|event| event.starts_with("Retry")).count(), 5);
}

#[test]
fn an_empty_file() {
    let server = Server::of_file(Vec::new());
    assert!(read(&server).unwrap().is_empty());
}
