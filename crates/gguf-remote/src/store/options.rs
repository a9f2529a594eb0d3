//! Options of object stores: credentials, endpoints, regions. They are handed in by the caller, and never shown.

use std::fmt;

use object_store::ClientConfigKey;
use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;

/// Options of object stores, by the names of the environment variables of the crate `object_store`: `AWS_*`, `GOOGLE_*`, `AZURE_*`. Nothing is
/// read from the environment; a program hands in the variables that [are options](StoreOptions::has):
///
/// ```
/// use gguf_remote::{Settings, StoreOptions};
///
/// let mut settings = Settings::default();
/// for (name, value) in std::env::vars_os() {
///     if let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) {
///         settings.store_options.insert(&name, value);
///     }
/// }
/// assert!(StoreOptions::has("AWS_ACCESS_KEY_ID") && !StoreOptions::has("AWS_PROFILE"));
/// ```
///
/// | option | meaning |
/// |---|---|
/// | `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN` | keys; without them, the identity of the container or machine |
/// | `AWS_REGION` | the region; `us-east-1` by default |
/// | `AWS_ENDPOINT_URL` | another server with the protocol of S3 |
/// | `GOOGLE_APPLICATION_CREDENTIALS` | the file of a service account |
/// | `AZURE_STORAGE_ACCOUNT_NAME` | the account; required, unless URLs have it, and no other may then be in them |
/// | `AZURE_STORAGE_ACCOUNT_KEY`, `AZURE_STORAGE_SAS_TOKEN` | its key, or a signature |
/// | `AWS_SKIP_SIGNATURE`, `GOOGLE_SKIP_SIGNATURE`, `AZURE_SKIP_SIGNATURE` | `true` for public buckets: requests without credentials |
/// | `AWS_ALLOW_HTTP`, `GOOGLE_ALLOW_HTTP`, `AZURE_ALLOW_HTTP` | `true` to allow endpoints with `http://` on other machines than this one |
///
/// Its documentation has [all others](https://docs.rs/object_store). Times, the proxy and certificates are not options: those of
/// [`Settings`](crate::Settings) apply. Profiles in `~/.aws` are not read. The identity of a machine is determined by `object_store`, which may read
/// variables of its services.
///
/// The debug form has only names.
#[derive(Clone, Default)]
pub struct StoreOptions(Vec<(String, String)>);

/// The option of a store.
pub(super) enum StoreOption {
    S3(AmazonS3ConfigKey),
    Gcs(GoogleConfigKey),
    Azure(AzureConfigKey),
}

/// The option with a name.
fn option(name: &str) -> Option<StoreOption> {
    let lower = name.to_ascii_lowercase();
    let is_client = |key: &ClientConfigKey| !matches!(key, ClientConfigKey::AllowHttp);
    match name.split('_').next()? {
        "AWS" => {
            let key = lower.parse().ok()?;
            let is_other = matches!(&key, AmazonS3ConfigKey::Client(key) if is_client(key));
            (!is_other && !matches!(key, AmazonS3ConfigKey::Bucket)).then_some(StoreOption::S3(key))
        }
        "GOOGLE" => {
            let key = lower.parse().ok()?;
            let is_other = matches!(&key, GoogleConfigKey::Client(key) if is_client(key));
            (!is_other && !matches!(key, GoogleConfigKey::Bucket)).then_some(StoreOption::Gcs(key))
        }
        "AZURE" => {
            let key = lower.parse().ok()?;
            let is_other = matches!(&key, AzureConfigKey::Client(key) if is_client(key));
            (!is_other && !matches!(key, AzureConfigKey::ContainerName)).then_some(StoreOption::Azure(key))
        }
        "SERVICE" if name == "SERVICE_ACCOUNT" => Some(StoreOption::Gcs(GoogleConfigKey::ServiceAccount)),
        "IDENTITY" if name == "IDENTITY_ENDPOINT" => Some(StoreOption::Azure(AzureConfigKey::MsiEndpoint)),
        _ => None,
    }
}

impl StoreOptions {
    /// Whether a variable is an option of a store.
    pub fn has(name: &str) -> bool {
        option(name).is_some()
    }

    /// Sets an option; returns whether it is one. Other names are ignored.
    pub fn insert(&mut self, name: &str, value: impl Into<String>) -> bool {
        let is_option = StoreOptions::has(name);
        if is_option {
            self.0.retain(|(known, _)| known != name);
            self.0.push((name.to_owned(), value.into()));
        }
        is_option
    }

    /// The options, and their names and values.
    pub(super) fn all(&self) -> impl Iterator<Item = (StoreOption, &str)> {
        self.0.iter().filter_map(|(name, value)| Some((option(name)?, value.as_str())))
    }

    /// A text without values of options that may be secret, and without the queries of URLs.
    pub(super) fn redacted(&self, text: &str) -> String {
        let is_secret =
            |name: &str| ["KEY", "SECRET", "TOKEN", "SAS", "CREDENTIAL"].iter().any(|part| name.contains(part));
        let mut text = text.to_owned();
        for (_, value) in self.0.iter().filter(|(name, value)| is_secret(name) && value.len() >= 4) {
            text = text.replace(value.as_str(), "***");
        }
        let words = text.split(' ').map(|word| match word.contains("://") {
            true => word.split('?').next().unwrap_or_default(),
            false => word,
        });
        let words: Vec<&str> = words.collect();
        words.join(" ").chars().filter(|c| !c.is_control()).take(300).collect()
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_options() {
        for name in [
            "AWS_ACCESS_KEY_ID",
            "AWS_ENDPOINT_URL",
            "AWS_ALLOW_HTTP",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GOOGLE_ALLOW_HTTP",
            "SERVICE_ACCOUNT",
            "AZURE_STORAGE_ACCOUNT_NAME",
            "AZURE_CLIENT_SECRET",
            "IDENTITY_ENDPOINT",
        ] {
            assert!(StoreOptions::has(name), "{name}");
        }
        for name in [
            "AWS_PROFILE",
            "AWS_BUCKET",
            "AWS_PROXY_URL",
            "GOOGLE_BUCKET",
            "AZURE_TIMEOUT",
            "HOME",
            "",
            "AWS",
            "REGION",
        ] {
            assert!(!StoreOptions::has(name), "{name}");
        }
    }

    #[test]
    fn values_are_not_shown() {
        let mut options = StoreOptions::default();
        assert!(options.insert("AWS_SECRET_ACCESS_KEY", "first"));
        assert!(options.insert("AWS_SECRET_ACCESS_KEY", "hidden"));
        assert!(options.insert("AWS_REGION", "here"));
        assert!(!options.insert("AWS_PROFILE", "hidden"));
        assert_eq!(format!("{options:?}"), r#"{"AWS_SECRET_ACCESS_KEY", "AWS_REGION"}"#);
        let text = "here is hidden: https://h/x?sig=1 (GET https://h/y?z) a?b";
        assert_eq!(options.redacted(text), "here is ***: https://h/x (GET https://h/y a?b");
    }
}
