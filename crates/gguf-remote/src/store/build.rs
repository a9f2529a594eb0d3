//! A bucket of the crate `object_store` from our settings.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::multipart::MultipartStore;
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, RetryConfig};

use super::connect::Connector;
use super::options::StoreOption;
use crate::attempts::LONGEST_BACKOFF;
use crate::error::{Error, Problem};
use crate::location::{Store, Url};
use crate::settings::Settings;

/// A store for objects, and the same for uploads.
pub(super) type Stores = (Arc<dyn ObjectStore>, Arc<dyn MultipartStore>);

/// Opens a bucket. Nothing is requested.
pub(super) fn build(settings: &Arc<Settings>, store: Store, bucket: &str) -> Result<Stores, Error> {
    let built = match store {
        Store::S3 => s3(settings, bucket).map(both),
        Store::Gcs => gcs(settings, bucket).map(both),
        Store::Azure => azure(settings, bucket).map(both),
    };
    built.map_err(|e| {
        let problem = Problem::Options(settings.store_options.redacted(&e.to_string()));
        Error::new(format!("{}://{bucket}", store.scheme()), problem)
    })
}

fn both<S: ObjectStore + MultipartStore>(store: S) -> Stores {
    let store = Arc::new(store);
    (store.clone(), store)
}

fn s3(settings: &Arc<Settings>, bucket: &str) -> object_store::Result<impl ObjectStore + MultipartStore + use<>> {
    let mut builder = AmazonS3Builder::new().with_bucket_name(bucket).with_retry(retry(settings));
    for (option, value) in settings.store_options.all() {
        if let StoreOption::S3(key) = option {
            builder = builder.with_config(key, value);
        }
    }
    let endpoints =
        [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint].map(|key| builder.get_config_value(&key));
    if endpoints.iter().flatten().next().is_some_and(|endpoint| is_here(endpoint)) {
        builder = builder.with_config(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp), "true");
    }
    builder.with_http_connector(Connector(Arc::clone(settings))).build()
}

fn gcs(settings: &Arc<Settings>, bucket: &str) -> object_store::Result<impl ObjectStore + MultipartStore + use<>> {
    let mut builder = GoogleCloudStorageBuilder::new().with_bucket_name(bucket).with_retry(retry(settings));
    for (option, value) in settings.store_options.all() {
        if let StoreOption::Gcs(key) = option {
            builder = builder.with_config(key, value);
        }
    }
    if builder.get_config_value(&GoogleConfigKey::BaseUrl).is_some_and(|endpoint| is_here(&endpoint)) {
        builder = builder.with_config(GoogleConfigKey::Client(ClientConfigKey::AllowHttp), "true");
    }
    builder.with_http_connector(Connector(Arc::clone(settings))).build()
}

fn azure(settings: &Arc<Settings>, bucket: &str) -> object_store::Result<impl ObjectStore + MultipartStore + use<>> {
    let mut builder = MicrosoftAzureBuilder::new().with_retry(retry(settings));
    for (option, value) in settings.store_options.all() {
        if let StoreOption::Azure(key) = option {
            builder = builder.with_config(key, value);
        }
    }
    builder = match bucket.split_once('@') {
        None => builder.with_container_name(bucket),
        Some((_, host)) => {
            // Credentials of one account are not sent to another.
            let own = builder.get_config_value(&AzureConfigKey::AccountName);
            if let Some(own) = own.filter(|own| host.split('.').next() != Some(own)) {
                let what = format!("they are those of the account {own}, not of {host}");
                return Err(object_store::Error::Generic { store: "Azure", source: what.into() });
            }
            builder.with_url(format!("abfss://{bucket}"))
        }
    };
    if builder.get_config_value(&AzureConfigKey::Endpoint).is_some_and(|endpoint| is_here(&endpoint)) {
        builder = builder.with_config(AzureConfigKey::Client(ClientConfigKey::AllowHttp), "true");
    }
    builder.with_http_connector(Connector(Arc::clone(settings))).build()
}

/// Whether an endpoint is on this machine, where connections need no encryption.
fn is_here(endpoint: &str) -> bool {
    Url::parse(endpoint).is_ok_and(|url| url.is_loopback())
}

/// When `object_store` repeats a failed request: after connections that failed, and status 408, 429 and 500 to 599.
fn retry(settings: &Settings) -> RetryConfig {
    let backoff = BackoffConfig { init_backoff: settings.backoff, max_backoff: LONGEST_BACKOFF, base: 2.0 };
    RetryConfig {
        backoff,
        max_retries: usize::try_from(settings.attempts.saturating_sub(1)).unwrap_or(usize::MAX),
        // Signatures are not renewed, and valid for 15 minutes.
        retry_timeout: (settings.longest_wait + Duration::from_secs(180)).min(Duration::from_secs(600)),
    }
}
