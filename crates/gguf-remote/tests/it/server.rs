//! Clients for the tests, and what they read.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gguf_remote::{Client, Event, Secret, Settings};
pub use gguf_test::http::{Reply, Request, Server, file};

/// The token of all tests. It must be in no event and no error.
pub const TOKEN: &str = "hf_secret";

/// Events as text.
pub type Events = Arc<Mutex<Vec<String>>>;

/// Settings with short times between attempts, the token, and events.
pub fn settings(endpoint: &str) -> (Settings, Events) {
    let events = Events::default();
    let seen = events.clone();
    let mut settings = Settings::default();
    settings.token = Secret::new(TOKEN);
    settings.endpoint = endpoint.to_owned();
    settings.backoff = Duration::from_millis(2);
    settings.observer = Arc::new(move |event: Event<'_>| {
        let event = format!("{event:?}");
        assert!(!event.contains("secret"), "{event}");
        seen.lock().unwrap().push(event);
    });
    (settings, events)
}

/// The read timeout of tests with faults. In others, a busy machine must not look like one.
pub const SHORT: Duration = Duration::from_millis(300);

/// A client for a test.
pub fn client(endpoint: &str) -> (Client, Events) {
    let (settings, events) = settings(endpoint);
    (Client::new(settings).unwrap(), events)
}

/// The bytes that requests have asked for, after the first `n`. What a server has sent also counts the rest of earlier responses.
pub fn asked_after(n: usize, server: &Server) -> u64 {
    let requests = server.requests().into_iter().skip(n);
    let length = |request: Request| {
        let (first, last) = request.range.as_deref()?.strip_prefix("bytes=")?.split_once('-')?;
        Some(last.parse::<u64>().ok()? + 1 - first.parse::<u64>().ok()?)
    };
    requests.map(|request| length(request).expect("a range with an end")).sum()
}

/// Bytes that differ at every place.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}
