//! Connections to stores: every request of `object_store` passes here, so that it is reported, cancelled, and waits as its server asks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use super::run::{SEEN, http};
use crate::attempts::wait_of;
use crate::error::{Error, Problem};
use crate::location::Url;
use crate::settings::{Event, Settings};

/// The slowest upload that is waited for, in bytes per second.
const SLOWEST: u64 = 64 << 10;

/// The time to complete an upload, for which a store may copy all its parts.
const COMPLETE: Duration = Duration::from_secs(300);

/// The longest explanation of a server.
const MAX_TEXT: usize = 200;

/// Makes the clients of a store.
#[derive(Debug)]
pub(super) struct Connector(pub(super) Arc<Settings>);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let option = |key| options.get_config_value(&key);
        let may_be_plain = option(ClientConfigKey::AllowHttp).as_deref() == Some("true");
        // Another value is that for services of the machine, such as those of credentials, which may not exist.
        let usual = ClientOptions::new().get_config_value(&ClientConfigKey::ConnectTimeout);
        let is_identity = option(ClientConfigKey::ConnectTimeout) != usual;
        let connect_timeout = if is_identity { Duration::from_secs(1) } else { self.0.connect_timeout };
        let tls = tls(&self.0)?;
        let builder = || {
            let builder = reqwest::Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .user_agent(self.0.user_agent.as_str())
                .connect_timeout(connect_timeout)
                .https_only(!may_be_plain)
                .no_proxy()
                .http1_only();
            match self.proxy() {
                Some(proxy) => builder.proxy(proxy),
                None => builder,
            }
        };
        let build = |builder: reqwest::ClientBuilder| match builder.build() {
            Ok(client) => Ok(HttpClient::new(client)),
            Err(e) => Err(object_store::Error::Generic { store: "HTTP", source: Box::new(e) }),
        };
        let read = build(builder().read_timeout(self.0.read_timeout))?;
        let write = build(builder())?;
        Ok(HttpClient::new(Service { read, write, is_identity, settings: Arc::clone(&self.0) }))
    }
}

impl Connector {
    /// The proxy of the settings, for the URLs that `https://` files are requested through it.
    fn proxy(&self) -> Option<reqwest::Proxy> {
        let proxy = self.0.proxy.clone()?;
        let address = proxy.through.uri().to_string();
        let is_for = move |url: &str| Url::parse(url).is_ok_and(|url| proxy.is_for(&url));
        Some(reqwest::Proxy::custom(move |url| is_for(url.as_str()).then(|| address.clone())))
    }
}

/// The configuration of TLS, with the root certificates that `https://` files have.
fn tls(settings: &Settings) -> object_store::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(settings.certificates.iter().map(|der| CertificateDer::from(der.as_slice())));
    if settings.certificates.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|e| object_store::Error::Generic { store: "HTTP", source: Box::new(e) })?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Sends requests.
#[derive(Debug)]
struct Service {
    read: HttpClient,
    /// Without a limit between bytes of the response: it arrives after the body of the request is sent.
    write: HttpClient,
    /// Whether it asks the machine for credentials.
    is_identity: bool,
    settings: Arc<Settings>,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let url = request.uri().to_string();
        let url = url.split('?').next().unwrap_or_default();
        self.report(&request, url);
        // Not while the remains of an operation are removed.
        let may_be_cancelled = SEEN.try_with(|_| ()).is_ok();
        if may_be_cancelled && self.settings.observer.is_cancelled() {
            return Err(self.give_up(Problem::Cancelled));
        }
        let response = match request.body().content_length() {
            0 => self.read.execute(request).await,
            len => {
                let usual = if request.method().as_str() == "POST" { COMPLETE } else { self.settings.read_timeout * 3 };
                let limit = usual + Duration::from_secs(len as u64 / SLOWEST);
                let timed_out =
                    |_| Err(HttpError::new(HttpErrorKind::Timeout, Error::new("", Problem::TimedOut(limit))));
                tokio::time::timeout(limit, self.write.execute(request)).await.unwrap_or_else(timed_out)
            }
        };
        match response {
            Ok(response) if response.status().is_success() => {
                let _ = SEEN.try_with(|seen| seen.borrow_mut().last = None);
                Ok(response)
            }
            Ok(response) => self.refused(response).await,
            Err(e) => {
                self.note(http(&self.settings, &e));
                Err(e)
            }
        }
    }
}

impl Service {
    /// Reports a request, and that it repeats a failed one.
    fn report(&self, request: &HttpRequest, url: &str) {
        let event = |event: Event<'_>| self.settings.observer.event(event);
        let failed = SEEN.try_with(|seen| seen.borrow().last.clone()).ok().flatten();
        if let Some((problem, at)) = failed {
            event(Event::Retry { url, reason: &problem.to_string(), wait: at.elapsed() });
        }
        let range = request.headers().get("range").and_then(|range| {
            let (first, last) = range.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
            Some((first.parse().ok()?, last.parse().ok()))
        });
        event(Event::Request { url, range });
    }

    /// An error that is not repeated.
    fn give_up(&self, problem: Problem) -> HttpError {
        let e = HttpError::new(HttpErrorKind::Unknown, Error::new("", problem.clone()));
        self.note(problem);
        e
    }

    /// Notes a response without success, and waits as it asks. `object_store` then judges it.
    async fn refused(&self, response: HttpResponse) -> Result<HttpResponse, HttpError> {
        let (parts, body) = response.into_parts();
        let status = parts.status.as_u16();
        let wait = wait_of(|name| parts.headers.get(name)?.to_str().ok());
        let bytes = body.bytes().await?;
        let text = explanation(&bytes).map(|text| self.settings.store_options.redacted(&text));
        let limit = self.settings.longest_wait;
        match wait.filter(|_| matches!(status, 408 | 429 | 500 | 502..=504)) {
            Some(wait) if wait > limit => return Err(self.give_up(Problem::Wait { status, wait, limit })),
            Some(wait) => {
                self.note(Problem::Status { status, text });
                tokio::time::sleep(wait).await;
            }
            None => self.note(Problem::Status { status, text }),
        }
        Ok(HttpResponse::from_parts(parts, bytes.into()))
    }

    /// Notes a failed request for the message of its operation.
    fn note(&self, problem: Problem) {
        let problem = match problem {
            problem if self.is_identity && problem != Problem::Cancelled => Problem::Identity(problem.to_string()),
            problem => problem,
        };
        let _ = SEEN.try_with(|seen| {
            let mut seen = seen.borrow_mut();
            seen.failures += 1;
            seen.last = Some((problem, Instant::now()));
        });
    }
}

/// Code and message of an error in XML.
fn explanation(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let element = |name: &str| {
        let (_, after) = text.split_once(&format!("<{name}>"))?;
        let line = after.split_once(&format!("</{name}>"))?.0.trim().lines().next()?;
        (!line.is_empty()).then(|| line.to_owned())
    };
    let text = match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (code, message) => code.or(message)?,
    };
    Some(text.chars().take(MAX_TEXT).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanations_of_servers() {
        let explained = |text: &str| explanation(text.as_bytes());
        let s3 =
            "<?xml version='1.0'?><Error><Code>NoSuchKey</Code><Message>There is none.</Message><Key>x</Key></Error>";
        assert_eq!(explained(s3).as_deref(), Some("NoSuchKey: There is none."));
        let azure = "<Error><Code>AuthenticationFailed</Code><Message>Failed.\nRequestId:1\nTime:2</Message></Error>";
        assert_eq!(explained(azure).as_deref(), Some("AuthenticationFailed: Failed."));
        assert_eq!(explained("<Error><Message>m</Message><Code></Code></Error>").as_deref(), Some("m"));
        assert_eq!(explained("<html>"), None);
        assert_eq!(explanation(b"\xff"), None);
    }
}
