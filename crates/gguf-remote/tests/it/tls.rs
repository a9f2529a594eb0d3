//! `https` with a certificate of the tests, directly and through a proxy.

use std::io::{BufRead, BufReader, Read, Write, copy};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use gguf_io::ReadAt;
use gguf_remote::{Client, Error, HttpFile, Problem, Proxy, Url};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::server::{TOKEN, settings};

/// A certificate for `tls.test` and `127.0.0.1`, until 2126, and its key, which is not secret.
const CERTIFICATE: &[u8] = include_bytes!("tls/cert.der");
const KEY: &[u8] = include_bytes!("tls/key.der");

const FILE: &[u8] = b"over TLS";

/// Runs a function for each connection, in a thread; returns the port.
fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(stream.unwrap()));
        }
    });
    port
}

/// The lines of the head of a request.
fn head(stream: &mut impl Read) -> Vec<String> {
    let lines = BufReader::with_capacity(1, stream).lines().map_while(Result::ok);
    lines.take_while(|line| !line.is_empty()).collect()
}

/// A server of one file.
fn server() -> u16 {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let certificates = vec![CertificateDer::from(CERTIFICATE)];
    let config = config.with_no_client_auth().with_single_cert(certificates, PrivateKeyDer::try_from(KEY).unwrap());
    let config = Arc::new(config.unwrap());
    listen(move |stream| {
        let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
        loop {
            let asked = head(&mut stream);
            if asked.is_empty() {
                break;
            }
            let n = FILE.len();
            let (status, range) = match asked.iter().any(|line| line.to_ascii_lowercase().starts_with("range:")) {
                true => (206, format!("Content-Range: bytes 0-{}/{n}\r\n", n - 1)),
                false => (200, String::new()),
            };
            let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {n}\r\nETag: \"1\"\r\n{range}\r\n");
            let _ = stream.write_all(&[head.as_bytes(), FILE].concat());
            let _ = stream.flush();
        }
    })
}

/// A proxy that connects to a port whatever the host is, if the user is right; and the heads of its requests.
fn proxy(to: u16) -> (u16, Arc<Mutex<Vec<String>>>) {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let port = listen(move |mut stream| {
        let lines = head(&mut stream);
        // `user:secret` in base 64.
        let is_user = lines.iter().any(|line| line.eq_ignore_ascii_case("proxy-authorization: Basic dXNlcjpzZWNyZXQ="));
        seen.lock().unwrap().extend(lines);
        if !is_user {
            let _ = stream.write_all(b"HTTP/1.1 407 x\r\nContent-Length: 0\r\n\r\n");
            return;
        }
        let server = TcpStream::connect(("127.0.0.1", to)).unwrap();
        stream.write_all(b"HTTP/1.1 200 x\r\n\r\n").unwrap();
        let (mut from, mut back) = (stream.try_clone().unwrap(), server.try_clone().unwrap());
        thread::spawn(move || {
            let _ = copy(&mut back, &mut stream);
            let _ = stream.shutdown(Shutdown::Both);
        });
        let _ = copy(&mut from, &mut &server);
        let _ = server.shutdown(Shutdown::Both);
    });
    (port, heads)
}

fn read(url: &str, certificates: &[&[u8]], proxy: Option<Proxy>) -> Result<Vec<u8>, Error> {
    let (mut settings, _) = settings("https://hub.test");
    settings.certificates = certificates.iter().map(|der| der.to_vec()).collect();
    settings.proxy = proxy;
    settings.attempts = 2;
    let client = Client::new(settings).unwrap();
    let file = HttpFile::open(&client, &Url::parse(url).unwrap())?;
    let mut bytes = vec![0; file.size().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    Ok(bytes)
}

fn connection(e: &Error) -> &str {
    match &e.problem {
        Problem::Connection(what) => what,
        problem => panic!("{problem:?}"),
    }
}

#[test]
fn certificates_are_those_of_the_settings() {
    let port = server();
    let url = format!("https://127.0.0.1:{port}/x");
    assert_eq!(read(&url, &[CERTIFICATE], None).unwrap(), FILE);
    let unknown = read(&url, &[], None).unwrap_err();
    assert!(connection(&unknown).contains("UnknownIssuer"), "{unknown}");
    assert_eq!(unknown.attempts, 1, "it would not change");
    let another_name = read(&format!("https://localhost:{port}/x"), &[CERTIFICATE], None).unwrap_err();
    assert!(connection(&another_name).contains("not valid for name"), "{another_name}");
}

#[test]
fn https_through_a_proxy() {
    let port = server();
    let (through, heads) = proxy(port);
    let with = |user: &str, no_proxy: &str| Proxy::new(&format!("http://{user}127.0.0.1:{through}"), no_proxy);
    // A name that the proxy alone knows.
    let url = "https://tls.test/x?signature=secret";
    assert_eq!(read(url, &[CERTIFICATE], with("user:secret@", "")).unwrap(), FILE);
    let seen = std::mem::take(&mut *heads.lock().unwrap());
    assert_eq!(seen[0], "CONNECT tls.test:443 HTTP/1.1");
    assert!(!seen.iter().any(|line| line.contains(TOKEN) || line.contains("signature")), "{seen:?}");

    let refused = read(url, &[CERTIFICATE], with("user:secret2@", "")).unwrap_err();
    assert!(!format!("{refused} {refused:?}").contains("secret"), "{refused:?}");
    assert!(connection(&refused).contains("407"), "{refused}");

    heads.lock().unwrap().clear();
    let direct = format!("https://127.0.0.1:{port}/x");
    assert_eq!(read(&direct, &[CERTIFICATE], with("user:secret@", "localhost, 127.0.0.1")).unwrap(), FILE);
    assert!(heads.lock().unwrap().is_empty());
}

/// Stores have the certificates and the proxy of `https`.
#[cfg(feature = "cloud")]
#[test]
fn stores_through_a_proxy() {
    let (through, heads) = proxy(server());
    let read = |certificates: &[&[u8]], user: &str, no_proxy: &str| {
        let (mut settings, _) = settings("https://hub.test");
        for (name, value) in [
            ("AWS_ENDPOINT_URL", "https://tls.test"),
            ("AWS_ACCESS_KEY_ID", "secret-name"),
            ("AWS_SECRET_ACCESS_KEY", "secret-key"),
        ] {
            assert!(settings.store_options.insert(name, value));
        }
        settings.certificates = certificates.iter().map(|der| der.to_vec()).collect();
        settings.proxy = Proxy::new(&format!("http://{user}127.0.0.1:{through}"), no_proxy);
        settings.attempts = 2;
        let location = gguf_remote::Location::parse("s3://bucket/x").unwrap().unwrap();
        let file = gguf_remote::StoreFile::open(&Client::new(settings).unwrap(), &location)?;
        let mut bytes = Vec::new();
        file.stream(0).unwrap().read_to_end(&mut bytes).unwrap();
        Ok::<_, Error>(bytes)
    };
    assert_eq!(read(&[CERTIFICATE], "user:secret@", "").unwrap(), FILE);
    let seen = std::mem::take(&mut *heads.lock().unwrap());
    assert_eq!(seen[0], "CONNECT tls.test:443 HTTP/1.1");
    let is_secret = |line: &String| line.contains("secret") || line.contains("AWS4-HMAC");
    assert!(!seen.iter().any(is_secret), "{seen:?}");

    let refused = read(&[CERTIFICATE], "user:secret2@", "").unwrap_err();
    assert!(!format!("{refused} {refused:?}").contains("secret"), "{refused:?}");
    connection(&refused);
    let unknown = read(&[], "user:secret@", "").unwrap_err();
    assert!(connection(&unknown).contains("UnknownIssuer"), "{unknown}");

    heads.lock().unwrap().clear();
    // Nobody else knows that name.
    connection(&read(&[CERTIFICATE], "user:secret@", "tls.test").unwrap_err());
    assert!(heads.lock().unwrap().is_empty());
}
