//! Proxies for `https`.

use std::fmt;

use crate::location::Url;

/// A proxy for `https` URLs, which makes connections by the method `CONNECT`: it sees the names of hosts, but nothing that is sent.
#[derive(Clone)]
pub struct Proxy {
    pub(crate) through: ureq::Proxy,
    /// Hosts without a proxy, in lower case and without a leading dot.
    except: Vec<String>,
}

impl Proxy {
    /// A proxy such as `http://proxy.example.org:3128`, perhaps with `USER:PASSWORD@` before its host, and the hosts that are connected to
    /// without it: names separated by commas, which stand for all names below them, too, or `*`. `None` if the text is not such a URL.
    pub fn new(url: &str, no_proxy: &str) -> Option<Proxy> {
        let through = ureq::Proxy::new(url.trim()).ok()?;
        let is_http = matches!(through.protocol(), ureq::ProxyProtocol::Http | ureq::ProxyProtocol::Https);
        let names = no_proxy.split(',').map(|name| name.trim().trim_start_matches("*.").trim_start_matches('.'));
        let except = names.filter(|name| !name.is_empty()).map(str::to_ascii_lowercase).collect();
        is_http.then_some(Proxy { through, except })
    }

    /// Whether a URL is requested through the proxy.
    pub(crate) fn is_for(&self, url: &Url) -> bool {
        let host = url.host().to_ascii_lowercase();
        let is_below = |name: &str| host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        url.is_https() && !self.except.iter().any(|name| name == "*" || is_below(name))
    }
}

/// Without user and password.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Proxy { through, except } = self;
        f.debug_struct("Proxy")
            .field("host", &through.host())
            .field("port", &through.port())
            .field("except", except)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_without_a_proxy() {
        let is_for = |no_proxy: &str, url: &str| {
            Proxy::new("http://user:secret@proxy:3128", no_proxy).unwrap().is_for(&Url::parse(url).unwrap())
        };
        assert!(is_for("", "https://example.org/x"));
        assert!(!is_for("", "http://example.org/x"));
        for no_proxy in ["example.org", " a.org, .example.org", "*.Example.org", "*", "org"] {
            assert!(!is_for(no_proxy, "https://www.EXAMPLE.org:8443/x"), "{no_proxy}");
        }
        assert!(is_for("ample.org,www.example.org", "https://example.org/x"));
        assert!(!is_for("127.0.0.1", "https://127.0.0.1/x"));
    }

    #[test]
    fn invalid_proxies() {
        for url in ["", "socks5://host:1", "http://", "no url"] {
            assert!(Proxy::new(url, "").is_none(), "{url}");
        }
        let shown = format!("{:?}", Proxy::new("http://user:secret@proxy:3128", "").unwrap());
        assert!(!shown.contains("secret"), "{shown}");
    }
}
