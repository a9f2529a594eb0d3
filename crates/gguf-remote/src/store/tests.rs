//! Tests with a store in memory.

use std::sync::Arc;

use gguf_hf::Folder as _;
use gguf_io::ReadAt;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path as Key;

use super::{Bucket, StoreFile, StoreFolder};
use crate::client::Client;
use crate::error::Problem;
use crate::location::{Location, Store};
use crate::settings::Settings;

/// A client with the bucket `s3://b` in memory.
fn client() -> (Client, Arc<InMemory>) {
    let client = Client::new(Settings::default()).unwrap();
    let memory = Arc::new(InMemory::new());
    let settings = Arc::clone(client.shared_settings());
    client.buckets().insert(Store::S3, "b", Bucket { objects: memory.clone(), uploads: memory.clone(), settings });
    (client, memory)
}

fn location(text: &str) -> Location {
    Location::parse(text).unwrap().unwrap()
}

fn put(memory: &InMemory, key: &str, bytes: impl Into<Vec<u8>>) {
    let (key, bytes) = (Key::parse(key).unwrap(), bytes.into());
    super::run::runtime().unwrap().block_on(memory.put(&key, bytes.into())).unwrap();
}

fn model(name: &str) -> Vec<u8> {
    let mut head = gguf_format::Head::default();
    head.set("general.architecture", "llama");
    head.set("general.name", name);
    gguf_io::Writer::write(Vec::new(), &head, [[0u8; 0]; 0]).unwrap()
}

#[test]
fn objects_and_their_changes() {
    let (client, memory) = client();
    put(&memory, "a b/%20.bin", [7; 100]);
    let file = StoreFile::open(&client, &location("s3://b/a b/%20.bin")).unwrap();
    let mut bytes = [0; 60];
    file.read_exact_at(40, &mut bytes).unwrap();
    assert_eq!((file.size().unwrap(), bytes), (100, [7; 60]));
    assert_eq!(file.read_exact_at(41, &mut bytes).unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    put(&memory, "a b/%20.bin", [8; 100]);
    let e = file.read_exact_at(0, &mut [0; 5]).unwrap_err().to_string();
    assert!(e.contains("the file has changed since it was opened: ETag was"), "{e}");

    let e = StoreFile::open(&client, &location("s3://b/a b/ .bin")).unwrap_err();
    assert!(matches!(e.problem, Problem::Status { status: 404, .. }), "{e}");
    put(&memory, "empty", []);
    let empty = StoreFile::open(&client, &location("s3://b/empty")).unwrap();
    assert_eq!(std::io::Read::read(&mut empty.stream(0).unwrap(), &mut [0; 9]).unwrap(), 0);
}

#[test]
fn models_and_folders() {
    let (client, memory) = client();
    let config = r#"{"architectures": ["LlamaForCausalLM"]}"#;
    for (key, bytes) in [
        ("m/config.json", config.into()),
        ("m/sub/x.txt", b"x".to_vec()),
        ("mother/config.json", Vec::new()),
        ("m/model.gguf", model("one")),
    ] {
        put(&memory, key, bytes);
    }
    let opened = client.open_model(&location("s3://b/m/model.gguf")).unwrap();
    assert_eq!(opened.gguf().get_as::<&str>("general.name").unwrap(), "one");
    assert_eq!(opened.path(), std::path::Path::new("s3://b/m/model.gguf"));

    let folder = StoreFolder::open(&client, &location("s3://b/m/")).unwrap();
    let sorted = |within: &str| {
        let mut names = folder.names(within).unwrap();
        names.sort();
        names
    };
    assert_eq!(sorted(""), ["config.json", "model.gguf"]);
    assert_eq!((sorted("sub"), sorted("missing"), sorted("..")), (vec!["x.txt".to_owned()], vec![], vec![]));
    assert_eq!((folder.path().to_str(), folder.real_name().as_deref()), (Some("s3://b/m"), Some("m")));
    assert!(folder.open("sub/x.txt").unwrap().is_some());
    for name in ["../mother/config.json", "/config.json", "sub", "", "./config.json", "other"] {
        assert!(folder.open(name).unwrap().is_none(), "{name}");
    }
    // The configuration is read, and there are no tensors.
    let e = gguf_hf::plan_folder(&folder, &Default::default()).unwrap_err();
    assert!(matches!(e, gguf_hf::Error::NoWeights { .. }), "{e}");
    assert!(StoreFolder::open(&client, &location("s3://b")).is_err());
    let e = StoreFolder::open(&client, &location("s3://b/mo")).unwrap_err();
    assert!(e.to_string().contains("there are no objects with this prefix"), "{e}");
    // A listed length must be right.
    put(&memory, "m/config.json", "{}");
    let folder = StoreFolder::open(&client, &location("s3://b/m")).unwrap();
    let file = folder.open("config.json").unwrap().unwrap();
    put(&memory, "m/config.json", config);
    let e = gguf_hf::plan_folder(&folder, &Default::default()).unwrap_err().to_string();
    assert!(e.contains("its length was 2 and is 39"), "{e} {file:?}");
}
