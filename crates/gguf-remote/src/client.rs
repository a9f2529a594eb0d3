//! One client for all requests: connections, redirects, the token, and attempts.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ureq::BodyReader;
use ureq::http::header::{self, HeaderMap, HeaderName};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::attempts::{Failed, Retry, wait_of};
use crate::budget::Budget;
use crate::error::{Error, Problem};
use crate::hub::files::Resolved;
use crate::location::Url;
use crate::settings::{Event, Settings};

/// The most redirects that are followed.
const REDIRECTS: u32 = 10;

/// Sends requests. Clones share connections, and the memory for data that is read ahead.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    agent: ureq::Agent,
    /// The agent for URLs that are requested through the proxy.
    through_proxy: Option<ureq::Agent>,
    settings: Arc<Settings>,
    endpoint: Url,
    budget: Arc<Budget>,
    resolved: Resolved,
    #[cfg(feature = "cloud")]
    buckets: crate::store::Buckets,
    /// Whether any server has answered.
    is_connected: AtomicBool,
}

/// A request for a file, or a range of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) url: &'a Url,
    /// The first byte, and the last if there is one.
    pub(crate) range: Option<(u64, Option<u64>)>,
    pub(crate) if_match: Option<&'a str>,
}

/// A response with a status of success, or one that the caller must judge.
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: HeaderMap,
    /// The URL that answered: after redirects, the last.
    pub(crate) url: Url,
    body: BodyReader<'static>,
    client: Client,
}

impl Client {
    /// A client with these settings. No connection is opened yet.
    ///
    /// # Errors
    /// If the endpoint of the settings is not a URL.
    pub fn new(settings: Settings) -> Result<Client, Error> {
        let endpoint = Url::parse(settings.endpoint.trim_end_matches('/'));
        let endpoint = endpoint.map_err(|e| Error::new("the endpoint of the Hub", Problem::Location(e)))?;
        let own = settings.certificates.iter().map(|der| Certificate::from_der(der).to_owned());
        let roots = if settings.certificates.is_empty() { RootCerts::WebPki } else { own.into() };
        let agent = |proxy: Option<ureq::Proxy>| {
            ureq::Agent::config_builder()
                .tls_config(TlsConfig::builder().root_certs(roots.clone()).build())
                .http_status_as_error(false)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .proxy(proxy)
                .user_agent(settings.user_agent.as_str())
                .accept_encoding("identity")
                .timeout_connect(Some(settings.connect_timeout))
                .timeout_per_read(Some(settings.read_timeout))
                .timeout_per_write(Some(settings.read_timeout))
                .timeout_recv_response(Some(settings.read_timeout))
                .max_idle_connections(32)
                .max_idle_connections_per_host(16)
                .build()
                .into()
        };
        let through_proxy = settings.proxy.as_ref().map(|proxy| agent(Some(proxy.through.clone())));
        let agent: ureq::Agent = agent(None);
        let settings = Arc::new(settings);
        Ok(Client(Arc::new(Inner {
            agent,
            through_proxy,
            endpoint,
            budget: Arc::default(),
            resolved: Resolved::default(),
            #[cfg(feature = "cloud")]
            buckets: crate::store::Buckets::new(&settings),
            settings,
            is_connected: AtomicBool::new(false),
        })))
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    #[cfg(feature = "cloud")]
    pub(crate) fn buckets(&self) -> &crate::store::Buckets {
        &self.0.buckets
    }

    pub(crate) fn endpoint(&self) -> &Url {
        &self.0.endpoint
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.0.budget
    }

    pub(crate) fn resolved(&self) -> &Resolved {
        &self.0.resolved
    }

    pub(crate) fn event(&self, event: Event<'_>) {
        self.settings().observer.event(event);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.settings().observer.is_cancelled()
    }

    /// Whether the token may be sent to a URL: to the origin of the endpoint, over `https` or to this machine.
    fn is_trusted(&self, url: &Url) -> bool {
        url.origin() == self.0.endpoint.origin() && (url.is_https() || url.is_loopback())
    }

    /// Sends a request once, and follows redirects. Responses with the status 200, 206, 412 or 416 are returned, others are errors.
    pub(crate) fn send(&self, request: Request<'_>) -> Result<Answer, Failed> {
        let failed = |url: &Url, problem, retry| Failed::new(url, request.range, (problem, retry));
        let (mut url, mut may_have_token) = (request.url.clone(), true);
        for _ in 0..=REDIRECTS {
            if self.is_cancelled() {
                return Err(failed(&url, Problem::Cancelled, Retry::Never));
            }
            // A redirect to elsewhere and back does not get the token either.
            may_have_token &= self.is_trusted(&url);
            self.event(Event::Request { url: &url.to_string(), range: request.range });
            let response = match self.get(&url, request, may_have_token) {
                Ok(response) => response,
                Err(e) => {
                    let (problem, retry) = self.problem_of(&e);
                    return Err(failed(&url, problem, retry));
                }
            };
            self.0.is_connected.store(true, Ordering::Relaxed);
            let status = response.status().as_u16();
            let (parts, body) = response.into_parts();
            let body = body.into_with_config().limit(u64::MAX).reader();
            let answer = Answer { status, headers: parts.headers, url: url.clone(), body, client: self.clone() };
            match status {
                200 | 206 | 412 | 416 => return Ok(answer),
                301 | 302 | 303 | 307 | 308 => {}
                _ => return Err(self.refused(&answer, request)),
            }
            let found = answer.header(header::LOCATION).unwrap_or_default();
            let next = url.join(found).map_err(|e| failed(&url, Problem::RedirectTo(e.to_string()), Retry::Never))?;
            if url.is_https() && !next.is_https() {
                return Err(failed(&url, Problem::Downgrade, Retry::Never));
            }
            url = next;
        }
        Err(failed(request.url, Problem::Redirects(REDIRECTS), Retry::Never))
    }

    fn get(
        &self,
        url: &Url,
        request: Request<'_>,
        with_token: bool,
    ) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        let proxy = self.settings().proxy.as_ref().filter(|proxy| proxy.is_for(url));
        let agent = proxy.and(self.0.through_proxy.as_ref()).unwrap_or(&self.0.agent);
        let mut get = agent.get(url.whole());
        match request.range {
            Some((first, Some(last))) => get = get.header(header::RANGE, format!("bytes={first}-{last}")),
            Some((first, None)) => get = get.header(header::RANGE, format!("bytes={first}-")),
            None => {}
        }
        if let Some(etag) = request.if_match {
            get = get.header(header::IF_MATCH, etag);
        }
        if let Some(token) = self.settings().token.as_ref().filter(|_| with_token) {
            get = get.header(header::AUTHORIZATION, format!("Bearer {}", token.reveal()));
        }
        get.call()
    }

    /// The error for a status without content.
    fn refused(&self, answer: &Answer, request: Request<'_>) -> Failed {
        let status = answer.status;
        let limit = self.settings().longest_wait;
        let wait = wait_of(|name| answer.header(HeaderName::from_static(name)));
        let text = answer
            .header(HeaderName::from_static("x-error-message"))
            .map(|text| text.chars().filter(|c| !c.is_control()).take(200).collect::<String>());
        let (problem, retry) = match (status, wait) {
            (408 | 429 | 500 | 502..=504, Some(wait)) if wait > limit => {
                (Problem::Wait { status, wait, limit }, Retry::Never)
            }
            (408 | 429 | 500 | 502..=504, Some(wait)) => (Problem::Status { status, text }, Retry::After(wait)),
            (408 | 429 | 500 | 502..=504, None) => (Problem::Status { status, text }, Retry::Later),
            _ => (Problem::Status { status, text }, Retry::Never),
        };
        Failed::new(&answer.url, request.range, (problem, retry))
    }

    /// What an error of the connection means.
    fn problem_of(&self, e: &ureq::Error) -> (Problem, Retry) {
        match e {
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
                (Problem::TimedOut(self.settings().connect_timeout), Retry::Later)
            }
            ureq::Error::Timeout(_) => (Problem::TimedOut(self.settings().read_timeout), Retry::Later),
            // The name is probably wrong, unless servers have answered before.
            ureq::Error::HostNotFound if !self.0.is_connected.load(Ordering::Relaxed) => {
                (Problem::Connection("there is no such host".to_owned()), Retry::Never)
            }
            ureq::Error::HostNotFound => (Problem::Connection("there is no such host".to_owned()), Retry::Later),
            // Their texts may have the whole URL.
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
                (Problem::Connection("the URL is invalid".to_owned()), Retry::Never)
            }
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::Pem(_) => {
                (Problem::Connection(e.to_string()), Retry::Never)
            }
            // An invalid certificate, or no TLS.
            ureq::Error::Io(e) if e.kind() == io::ErrorKind::InvalidData => {
                (Problem::Connection(e.to_string()), Retry::Never)
            }
            ureq::Error::Io(e) if e.kind() == io::ErrorKind::TimedOut => {
                (Problem::TimedOut(self.settings().read_timeout), Retry::Later)
            }
            ureq::Error::Io(e) => (Problem::Connection(e.to_string()), Retry::Later),
            e => (Problem::Connection(e.to_string()), Retry::Later),
        }
    }
}

impl Answer {
    /// The text of a header, if there is one.
    pub(crate) fn header(&self, name: impl header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Reads bytes of the body; 0 at its end.
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> Result<usize, (Problem, Retry)> {
        if self.client.is_cancelled() {
            return Err((Problem::Cancelled, Retry::Never));
        }
        let n = loop {
            match self.body.read(buf) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        match n {
            Ok(n) => {
                self.client.event(Event::Received { bytes: n as u64 });
                Ok(n)
            }
            Err(e) => Err(self.client.problem_of(&ureq::Error::from(e))),
        }
    }

    /// The whole body, if it has at most `most` bytes.
    pub(crate) fn text(mut self, most: usize) -> Result<(Vec<u8>, HeaderMap), Failed> {
        let mut bytes = Vec::new();
        loop {
            let start = bytes.len();
            bytes.resize(start + (64 << 10), 0);
            let n =
                self.read(bytes.get_mut(start..).unwrap_or_default()).map_err(|e| Failed::new(&self.url, None, e))?;
            bytes.truncate(start + n);
            match n {
                0 => return Ok((bytes, self.headers)),
                _ if bytes.len() > most => {
                    let problem = Problem::Answer(format!("it has more than {most} bytes"));
                    return Err(Failed::new(&self.url, None, (problem, Retry::Never)));
                }
                _ => {}
            }
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(self.settings()).finish()
    }
}
