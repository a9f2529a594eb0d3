//! Object stores: S3, Google Cloud Storage and Azure, by the crate `object_store`.
//!
//! Its futures run on one runtime of two threads. Our threads wait for them with [`Bucket::run`], which also observes cancellation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use object_store::multipart::MultipartStore;
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use crate::budget::lock;
use crate::error::{Error, Problem};
use crate::location::{Location, LocationError, Store};
use crate::settings::Settings;

mod build;
mod connect;
mod file;
mod folder;
mod manifest;
mod options;
mod place;
mod run;
mod sink;
#[cfg(test)]
mod tests;
mod upload;

pub use file::StoreFile;
pub use folder::StoreFolder;
pub use options::StoreOptions;
pub use place::StorePlace;
use run::Trouble;
pub use sink::StoreSink;

/// The open buckets of a client. All objects of a bucket share its connections.
pub(crate) struct Buckets {
    settings: Arc<Settings>,
    open: Mutex<HashMap<(Store, String), Arc<Bucket>>>,
}

/// A bucket or container.
pub(crate) struct Bucket {
    objects: Arc<dyn ObjectStore>,
    uploads: Arc<dyn MultipartStore>,
    settings: Arc<Settings>,
}

impl Buckets {
    pub(crate) fn new(settings: &Arc<Settings>) -> Buckets {
        Buckets { settings: Arc::clone(settings), open: Mutex::default() }
    }

    /// The bucket of a location, and the key in it.
    fn open(&self, location: &Location) -> Result<(Arc<Bucket>, Key), Error> {
        let Location::Store { store, bucket, key } = location else {
            let e = LocationError::Scheme(location.to_string());
            return Err(Error::new(location, Problem::Location(e)));
        };
        let wrong = || Error::new(location, Problem::Location(LocationError::Key(key.clone())));
        // Unlike `Path::from`, this does not encode any characters.
        let path = Key::parse(key).map_err(|_| wrong())?;
        let mut buckets = lock(&self.open);
        let name = (*store, bucket.clone());
        let opened = match buckets.get(&name) {
            Some(opened) => Arc::clone(opened),
            None => {
                let (objects, uploads) = build::build(&self.settings, *store, bucket)?;
                let opened = Arc::new(Bucket { objects, uploads, settings: Arc::clone(&self.settings) });
                buckets.insert(name, Arc::clone(&opened));
                opened
            }
        };
        Ok((opened, path))
    }

    /// Adds a bucket.
    #[cfg(test)]
    fn insert(&self, store: Store, name: &str, objects: Arc<dyn ObjectStore>, uploads: Arc<dyn MultipartStore>) {
        let bucket = Bucket { objects, uploads, settings: Arc::clone(&self.settings) };
        lock(&self.open).insert((store, name.to_owned()), Arc::new(bucket));
    }
}

impl Bucket {
    /// Length and ETag of an object, if it exists.
    fn find(&self, url: &str, key: &Key) -> Result<Option<ObjectMeta>, Error> {
        match self.run(url, None, async { Ok(self.objects.head(key).await?) }) {
            Ok(found) => Ok(Some(found)),
            Err(Error { problem: Problem::Status { status: 404, .. }, .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The objects directly in a prefix.
    fn list(&self, url: &str, prefix: &Key) -> Result<Vec<ObjectMeta>, Error> {
        self.run(url, None, async { Ok(self.objects.list_with_delimiter(Some(prefix)).await?.objects) })
    }

    /// Waits for an operation on the object or prefix `url`.
    fn run<T: Send>(
        &self,
        url: &str,
        range: Option<(u64, Option<u64>)>,
        operation: impl Future<Output = Result<T, Trouble>> + Send,
    ) -> Result<T, Error> {
        run::run(&self.settings, operation).map_err(|(problem, attempts)| Error {
            url: url.to_owned(),
            range,
            attempts,
            problem,
        })
    }
}
