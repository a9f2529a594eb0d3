//! Settings of a client. Nothing is read from the environment here.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::proxy::Proxy;

/// Settings of a [`Client`](crate::Client).
#[derive(Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The token of the Hub. It is sent to the [endpoint](Settings::endpoint) only, over `https` or to this machine.
    pub token: Option<Secret>,
    /// The address of the Hub: `https://huggingface.co` by default.
    pub endpoint: String,
    /// The folder of the Hub's cache, whose files take precedence over requests; `None` to ignore it. Nothing is written to it.
    pub cache: Option<PathBuf>,
    /// Whether only the cache is read.
    pub offline: bool,
    /// Credentials, endpoints and other options of object stores.
    #[cfg(feature = "cloud")]
    pub store_options: crate::StoreOptions,
    /// Root certificates in DER, with which the certificates of `https` servers are verified: for example, those of the system. If there are none, those of the web
    /// apply.
    pub certificates: Vec<Vec<u8>>,
    /// The proxy for `https` URLs, and for stores whose endpoints are such.
    pub proxy: Option<Proxy>,
    /// The text that identifies the program to servers.
    pub user_agent: String,
    /// The limit of the time to open a connection.
    pub connect_timeout: Duration,
    /// The limit of the time without a byte of a response.
    pub read_timeout: Duration,
    /// The number of failures of a request after which it is given up. Progress of a megabyte resets the count.
    pub attempts: u32,
    /// The time before the first retry. It doubles with each one, up to 10 s.
    pub backoff: Duration,
    /// The longest time that a server may make us wait (`Retry-After`, `RateLimit`). If it asks for more, the request fails.
    pub longest_wait: Duration,
    /// Receives events.
    pub observer: Arc<dyn Observer>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            token: None,
            endpoint: "https://huggingface.co".to_owned(),
            cache: None,
            offline: false,
            #[cfg(feature = "cloud")]
            store_options: crate::StoreOptions::default(),
            certificates: Vec::new(),
            proxy: None,
            user_agent: concat!("ggufkit/", env!("CARGO_PKG_VERSION")).to_owned(),
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(20),
            attempts: 6,
            backoff: Duration::from_millis(250),
            longest_wait: Duration::from_secs(300),
            observer: Arc::new(()),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { token, endpoint, cache, offline, proxy, attempts, .. } = self;
        let mut shown = f.debug_struct("Settings");
        #[cfg(feature = "cloud")]
        shown.field("store_options", &self.store_options);
        shown
            .field("token", token)
            .field("endpoint", endpoint)
            .field("cache", cache)
            .field("offline", offline)
            .field("proxy", proxy)
            .field("attempts", attempts)
            .finish_non_exhaustive()
    }
}

/// A text that is never shown.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// A secret; `None` if the text is empty or has characters that a header cannot have. White space around it is removed.
    pub fn new(text: &str) -> Option<Secret> {
        let text = text.trim();
        (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Secret(text.to_owned()))
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// An event of a client. URLs are without query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A request is sent.
    Request {
        /// Its URL.
        url: &'a str,
        /// The first byte, and the last if there is one; `None` for a request without a range.
        range: Option<(u64, Option<u64>)>,
    },
    /// Bytes of a body arrived.
    Received {
        /// How many.
        bytes: u64,
    },
    /// A request failed, and is sent again.
    Retry {
        /// Its URL.
        url: &'a str,
        /// What happened.
        reason: &'a str,
        /// The time before the next attempt.
        wait: Duration,
    },
}

/// A receiver of events, which come from several threads. `()` ignores them.
pub trait Observer: Send + Sync {
    /// Receives an event.
    fn event(&self, event: Event<'_>);

    /// Whether to give up: asked before a request, and while waiting for the next attempt.
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl Observer for () {
    fn event(&self, _: Event<'_>) {}
}

impl<F: Fn(Event<'_>) + Send + Sync> Observer for F {
    fn event(&self, event: Event<'_>) {
        self(event);
    }
}
