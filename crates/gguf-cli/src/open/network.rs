//! The client of the program: its settings, and what it has transferred.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gguf_pipeline::{ReadAhead, SourceRead};
use gguf_remote::{Client, Event, Observer, Proxy, Secret, Settings};

use crate::failure::Failure;
use crate::ui::{duration, grouped, safe, size};
use crate::watch;

static CLIENT: OnceLock<Client> = OnceLock::new();

static IS_VERBOSE: AtomicBool = AtomicBool::new(false);

/// What all requests have transferred.
struct Totals {
    requests: AtomicU64,
    retries: AtomicU64,
    bytes: AtomicU64,
}

static TOTALS: Totals = Totals { requests: AtomicU64::new(0), retries: AtomicU64::new(0), bytes: AtomicU64::new(0) };

/// The client, made by the first call.
///
/// # Errors
/// If the environment has an invalid setting.
pub fn client() -> Result<&'static Client, Failure> {
    if let Some(client) = CLIENT.get() {
        return Ok(client);
    }
    let client = Client::new(settings()?).map_err(|e| Failure::CouldNotRun(format!("HF_ENDPOINT: {}", e.problem)))?;
    Ok(CLIENT.get_or_init(|| client))
}

/// The client, if a URL was opened.
pub fn started() -> Option<&'static Client> {
    CLIENT.get()
}

/// What fetches the data of a run before it is read. A worker opens its sources when the run begins, so the client is not asked for before.
pub fn read_ahead() -> Arc<dyn ReadAhead> {
    Arc::new(Ahead)
}

#[derive(Debug)]
struct Ahead;

impl ReadAhead for Ahead {
    fn run(&self, reads: &mut (dyn Iterator<Item = SourceRead> + Send), work: &mut dyn FnMut()) {
        match started() {
            Some(client) => client.ahead(reads.map(|read| (read.path, read.range)), work),
            None => work(),
        }
    }
}

/// Sets whether each request is reported.
pub fn set_verbose(yes: bool) {
    IS_VERBOSE.store(yes, Ordering::Relaxed);
}

/// The bytes received so far, if a URL was opened.
pub fn received() -> Option<u64> {
    started().map(|_| TOTALS.bytes.load(Ordering::Relaxed))
}

/// `12 requests, 1 retry, 8.1 MB received`, if each request is reported and there were any.
pub fn summary() -> Option<String> {
    let load = |n: &AtomicU64| n.load(Ordering::Relaxed);
    let (requests, retries, bytes) = (load(&TOTALS.requests), load(&TOTALS.retries), load(&TOTALS.bytes));
    let counted = |n: u64, one: &str, many: &str| format!("{} {}", grouped(n), if n == 1 { one } else { many });
    (requests > 0 && load_flag()).then(|| {
        let (requests, retries) = (counted(requests, "request", "requests"), counted(retries, "retry", "retries"));
        format!("network: {requests}, {retries}, {} received", size(bytes))
    })
}

fn load_flag() -> bool {
    IS_VERBOSE.load(Ordering::Relaxed)
}

/// The settings of the environment: those of Hugging Face's own programs, the proxy, and the certificates of the system.
///
/// # Errors
/// If the URL of the proxy is invalid.
fn settings() -> Result<Settings, Failure> {
    let text = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let home = env::home_dir();
    let caches = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| Some(home.as_ref()?.join(".cache")));
    let hub = env::var_os("HF_HOME").map(PathBuf::from).or_else(|| Some(caches?.join("huggingface")));
    let mut settings = Settings::default();
    if let Some(endpoint) = text("HF_ENDPOINT") {
        settings.endpoint = endpoint;
    }
    let token_file = env::var_os("HF_TOKEN_PATH").map(PathBuf::from).or_else(|| Some(hub.as_ref()?.join("token")));
    let token = text("HF_TOKEN").or_else(|| small_text(&token_file?));
    settings.token = token.and_then(|token| Secret::new(&token));
    settings.cache = env::var_os("HF_HUB_CACHE").map(PathBuf::from).or_else(|| Some(hub?.join("hub")));
    let is_set = |value: String| matches!(value.to_ascii_uppercase().as_str(), "1" | "ON" | "YES" | "TRUE");
    settings.offline = text("HF_HUB_OFFLINE").is_some_and(is_set);
    #[cfg(feature = "cloud")]
    for (name, value) in env::vars_os() {
        if let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) {
            settings.store_options.insert(&name, value);
        }
    }
    if let Some((name, url)) = ["https_proxy", "HTTPS_PROXY"].into_iter().find_map(|name| Some((name, text(name)?))) {
        let no_proxy = text("no_proxy").or_else(|| text("NO_PROXY")).unwrap_or_default();
        // The URL may have a password.
        let wrong =
            || Failure::CouldNotRun(format!("{name}: this is not the URL of a proxy; expected http://HOST:PORT"));
        settings.proxy = Some(Proxy::new(&url, &no_proxy).ok_or_else(wrong)?);
    }
    // Without certificates, those of the web apply.
    let certificates = rustls_native_certs::load_native_certs().certs;
    settings.certificates = certificates.iter().map(|certificate| certificate.to_vec()).collect();
    settings.observer = Arc::new(Reporter);
    Ok(settings)
}

/// The text of a file with a token.
fn small_text(path: &Path) -> Option<String> {
    let mut text = String::new();
    io::Read::read_to_string(&mut io::Read::take(gguf_io::open_regular(path).ok()?, 10_000), &mut text).ok()?;
    Some(text)
}

/// Counts what is transferred, and reports it if requested.
struct Reporter;

impl Observer for Reporter {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Request { url, range } => {
                TOTALS.requests.fetch_add(1, Ordering::Relaxed);
                let range = match range {
                    Some((first, Some(last))) => format!(", bytes {first} to {last}"),
                    Some((0, None)) | None => String::new(),
                    Some((first, None)) => format!(", bytes from {first}"),
                };
                say(|| format!("GET {}{range}", safe(url)));
            }
            Event::Received { bytes } => _ = TOTALS.bytes.fetch_add(bytes, Ordering::Relaxed),
            Event::Retry { url, reason, wait } => {
                TOTALS.retries.fetch_add(1, Ordering::Relaxed);
                let when =
                    if wait < Duration::from_millis(50) { "now".into() } else { format!("in {}", duration(wait)) };
                say(|| format!("{}: {}; trying again {when}", safe(url), safe(reason)));
            }
            _ => {}
        }
    }

    fn is_cancelled(&self) -> bool {
        watch::is_interrupted()
    }
}

/// Prints a line to standard error, if each request is reported.
fn say(line: impl Fn() -> String) {
    if load_flag() {
        let erase = if io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
        // Nothing can be done about a failure.
        let _ = writeln!(io::stderr(), "{erase}gguf: {}", line());
    }
}
