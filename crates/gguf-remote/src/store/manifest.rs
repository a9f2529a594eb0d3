//! The manifest of an unfinished upload: an object beside the output, for a run that continues it.

use std::collections::BTreeMap;

use object_store::path::Path as Key;
use object_store::{MultipartId, ObjectStoreExt, PutPayload};
use serde_json::{Value, json};

use super::{Bucket, run};
use crate::error::{Error, Problem};

/// The version of the format.
const VERSION: u64 = 1;

/// The longest manifest: enough for 10,000 parts.
const LONGEST: u64 = 16 << 20;

/// What is known of an upload.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Manifest {
    /// What determines the bytes of the object; see [`NewOutput::identity`](gguf_pipeline::NewOutput::identity).
    pub(super) identity: String,
    pub(super) id: MultipartId,
    /// The length of all parts but the last.
    pub(super) part: u64,
    /// The ETag of the object that had the name when the upload began; `Some(None)` for one without.
    pub(super) replaced: Option<Option<String>>,
    /// The identifiers of the parts that have arrived.
    pub(super) parts: BTreeMap<u64, String>,
    /// For pieces with values that became infinite, their number.
    pub(super) overflows: BTreeMap<PieceKey, u64>,
}

/// A piece: the index of its tensor in the output, its first element, and the number of elements.
pub(super) type PieceKey = (u64, u64, u64);

impl Manifest {
    /// The key of the manifest for an object.
    pub(super) fn key(of: &Key) -> Result<Key, Problem> {
        Key::parse(format!("{of}.upload.json")).map_err(|e| Problem::Answer(e.to_string()))
    }

    fn to_json(&self) -> Value {
        let parts: BTreeMap<String, &str> =
            self.parts.iter().map(|(index, id)| (index.to_string(), id.as_str())).collect();
        let overflows: Vec<Value> =
            self.overflows.iter().map(|((tensor, first, n), values)| json!([tensor, first, n, values])).collect();
        json!({
            "gguf_upload": VERSION,
            "identity": self.identity,
            "id": self.id,
            "part": self.part,
            "replaced": self.replaced.as_ref().map(|etag| json!({ "etag": etag })),
            "parts": parts,
            "overflows": overflows,
        })
    }

    fn from_json(json: &Value) -> Option<Manifest> {
        let text = |name: &str| json.get(name)?.as_str().map(str::to_owned);
        (json.get("gguf_upload")?.as_u64()? == VERSION).then_some(())?;
        let part = |(index, id): (&String, &Value)| Some((index.parse().ok()?, id.as_str()?.to_owned()));
        let overflow = |entry: &Value| match entry.as_array()?.as_slice() {
            [tensor, first, n, values] => Some(((tensor.as_u64()?, first.as_u64()?, n.as_u64()?), values.as_u64()?)),
            _ => None,
        };
        let replaced = match json.get("replaced")? {
            Value::Null => None,
            replaced => Some(replaced.get("etag")?.as_str().map(str::to_owned)),
        };
        Some(Manifest {
            identity: text("identity")?,
            id: text("id")?,
            part: json.get("part")?.as_u64()?,
            replaced,
            parts: json.get("parts")?.as_object()?.iter().map(part).collect::<Option<_>>()?,
            overflows: json.get("overflows")?.as_array()?.iter().map(overflow).collect::<Option<_>>()?,
        })
    }

    /// Reads the manifest of an object; `None` if there is none, or if it is not one of this version.
    pub(super) fn read(bucket: &Bucket, url: &str, key: &Key) -> Result<Option<Manifest>, Error> {
        let bytes = bucket.run(url, None, async {
            let found = bucket.objects.get(key).await?;
            match found.meta.size {
                ..=LONGEST => Ok(found.bytes().await?),
                size => Err(Problem::Answer(format!("the manifest {key} has {size} bytes")).into()),
            }
        });
        match bytes {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok().and_then(|json| Manifest::from_json(&json))),
            Err(Error { problem: Problem::Status { status: 404, .. }, .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The request that writes it.
    pub(super) async fn put(&self, bucket: &Bucket, key: &Key) -> Result<(), run::Trouble> {
        bucket.objects.put(key, PutPayload::from(self.to_json().to_string())).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for replaced in [None, Some(None), Some(Some("\"etag\"".to_owned()))] {
            let manifest = Manifest {
                identity: "0123".to_owned(),
                id: "7".to_owned(),
                part: 5 << 20,
                replaced,
                parts: BTreeMap::from([(0, "a".to_owned()), (17, "\"b\"".to_owned())]),
                overflows: BTreeMap::from([((3, 0, 256), 2)]),
            };
            let text = manifest.to_json().to_string();
            assert_eq!(Manifest::from_json(&serde_json::from_str(&text).unwrap()), Some(manifest));
        }
        assert_eq!(Manifest::from_json(&json!({ "gguf_upload": 2 })), None);
    }
}
