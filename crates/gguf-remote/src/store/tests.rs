//! Tests with a store in memory.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use gguf_format::{GgmlType, TensorInfo};
use gguf_hf::Folder as _;
use gguf_io::ReadAt;
use gguf_pipeline::{Error as RunError, NewOutput, Progress, RunOptions, Sink};
use object_store::memory::InMemory;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path as Key;
use object_store::{MultipartId, ObjectStoreExt, PutPayload};

use super::sink::Limits;
use super::{StoreFile, StoreFolder, StoreSink};
use crate::client::Client;
use crate::error::Problem;
use crate::location::{Location, Store};
use crate::settings::Settings;

/// A client with the bucket `s3://b` in memory.
fn client() -> (Client, Arc<InMemory>) {
    let client = Client::new(Settings::default()).unwrap();
    let memory = Arc::new(InMemory::new());
    client.buckets().insert(Store::S3, "b", memory.clone(), memory.clone());
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

/// A plan of a model with some tensors, and the bytes that it writes.
fn plan(alignment: u32) -> (gguf_pipeline::Plan, Vec<u8>) {
    use gguf_pipeline::{Draft, MemorySink};
    let mut head = gguf_format::Head::default();
    head.set("general.architecture", "llama");
    head.set("general.alignment", alignment);
    let sizes = [37u64, 4001, 1, 90_000, 12, 30_000];
    let tensor = |(i, n): (usize, &u64)| TensorInfo::new(format!("t{i}"), [*n], GgmlType::F32);
    head.tensors = sizes.iter().enumerate().map(tensor).collect();
    let data = sizes.iter().map(|n| (0..n * 4).map(|i| ((i * 31) >> 3) as u8 | 1).collect::<Vec<u8>>());
    let bytes = gguf_io::Writer::write(Vec::new(), &head, data).unwrap();
    let model = gguf_io::Model::from_source(bytes, "m").unwrap();
    let plan = Draft::copy_of(model).unwrap().lay_out().unwrap();
    let mut memory = MemorySink::new();
    plan.run_to(&mut memory, &RunOptions::default(), &()).unwrap();
    (plan, memory.into_outputs().remove(0))
}

fn sink(client: &Client, names: &[&str], replace: bool, shortest: u64) -> StoreSink {
    let locations = names.iter().map(|name| location(&format!("s3://b/{name}"))).collect();
    StoreSink::with_limits(client, locations, replace, Limits { shortest, memory: shortest * 3 })
}

fn get(memory: &InMemory, key: &str) -> Option<Vec<u8>> {
    let key = Key::parse(key).unwrap();
    super::run::runtime()
        .unwrap()
        .block_on(async { Some(memory.get(&key).await.ok()?.bytes().await.unwrap().to_vec()) })
}

#[test]
fn uploads_have_the_bytes_of_files() {
    let (client, memory) = client();
    for alignment in [32, 1 << 15] {
        let (plan, expected) = plan(alignment);
        for (shortest, threads) in [(1, 1), (100, 1), (4096, 3), (100_000, 2), (1 << 30, 2)] {
            // Parts of one byte would be too many.
            let name = format!("{alignment}-{shortest}");
            let mut sink = sink(&client, &[&name], false, shortest);
            let options = RunOptions::default().threads(NonZero::new(threads));
            plan.run_to(&mut sink, &options, &()).unwrap();
            assert!(get(&memory, &name).unwrap() == expected, "{name}");
        }
    }
}

#[test]
fn pieces_in_any_order() {
    let (plan, expected) = plan(32);
    /// Writes the pieces of a run in the opposite order at its end.
    struct Reversed(StoreSink, Mutex<Vec<(usize, u64, Vec<u8>)>>);
    impl Sink for Reversed {
        fn create(&mut self, outputs: &[NewOutput<'_>], progress: &dyn Progress) -> Result<(), RunError> {
            self.0.create(outputs, progress)
        }
        fn write_at(&self, output: usize, offset: u64, bytes: &[u8]) -> Result<(), RunError> {
            self.1.lock().unwrap().push((output, offset, bytes.to_vec()));
            Ok(())
        }
        fn flush(&self) -> Result<(), RunError> {
            let mut pieces = self.1.lock().unwrap();
            while let Some((output, offset, bytes)) = pieces.pop() {
                let (first, second) = bytes.split_at(bytes.len() / 2);
                self.0.write_at(output, offset + first.len() as u64, second)?;
                self.0.write_at(output, offset, first)?;
            }
            self.0.flush()
        }
        fn commit(&mut self, progress: &dyn Progress) -> Result<(), RunError> {
            self.0.commit(progress)
        }
        fn abort(&mut self, why: RunError) -> RunError {
            self.0.abort(why)
        }
    }
    let (client, memory) = client();
    let mut reversed = Reversed(sink(&client, &["x"], false, 5000), Mutex::default());
    plan.run_to(&mut reversed, &RunOptions::default(), &()).unwrap();
    assert!(get(&memory, "x").unwrap() == expected);
}

#[test]
fn nothing_appears_before_the_end() {
    struct Stop(Arc<InMemory>, AtomicUsize);
    impl Progress for Stop {
        fn event(&self, event: gguf_pipeline::Event<'_>) {
            if let gguf_pipeline::Event::Advanced { .. } = event {
                assert_eq!(get(&self.0, "x"), None);
                self.1.fetch_sub(1, Ordering::Relaxed);
            }
        }
        fn is_cancelled(&self) -> bool {
            self.1.load(Ordering::Relaxed) == 0
        }
    }
    let (client, memory) = client();
    let (plan, expected) = plan(32);
    let mut cancelled = sink(&client, &["x"], false, 10_000);
    let e =
        plan.run_to(&mut cancelled, &RunOptions::default(), &Stop(memory.clone(), AtomicUsize::new(3))).unwrap_err();
    assert!(matches!(e, RunError::Cancelled), "{e}");
    assert_eq!(get(&memory, "x"), None);
    assert!(cancelled.is_idle());
    // A sink can be used again.
    plan.run_to(&mut cancelled, &RunOptions::default(), &Stop(memory.clone(), AtomicUsize::new(99))).unwrap();
    assert!(get(&memory, "x").unwrap() == expected);

    // An object that exists is replaced only on request.
    put(&memory, "x", "old");
    let mut again = sink(&client, &["x"], false, 10_000);
    let e = plan.run_to(&mut again, &RunOptions::default(), &()).unwrap_err();
    assert_eq!(e.to_string(), "s3://b/x: cannot write: the object exists already");
    assert_eq!(get(&memory, "x").as_deref(), Some(&b"old"[..]));
    let mut again = sink(&client, &["x"], true, 10_000);
    plan.run_to(&mut again, &RunOptions::default(), &()).unwrap();
    assert!(get(&memory, "x").unwrap() == expected);

    let e = plan.run_to(&mut sink(&client, &["x", "y"], true, 10_000), &RunOptions::default(), &()).unwrap_err();
    assert!(e.to_string().contains("2 places for 1 outputs"), "{e}");
}

#[test]
fn all_objects_or_none() {
    /// Makes the second object when the first has its name.
    struct Other(Arc<InMemory>);
    impl Progress for Other {
        fn event(&self, event: gguf_pipeline::Event<'_>) {
            if let gguf_pipeline::Event::Named { path } = event {
                assert_eq!(path, std::path::Path::new("s3://b/one"));
                put(&self.0, "two", "other");
            }
        }
    }
    let (client, memory) = client();
    let (plan, expected) = plan(32);
    let both = [&plan, &plan];
    let mut two = sink(&client, &["one", "two"], false, 10_000);
    let e = gguf_pipeline::run_all_to(&both, &mut two, &RunOptions::default(), &Other(memory.clone())).unwrap_err();
    assert_eq!(e.to_string(), "s3://b/two: cannot write: the object exists already");
    assert_eq!((get(&memory, "one"), get(&memory, "two").as_deref()), (None, Some(&b"other"[..])));
    let mut two = sink(&client, &["one", "two"], true, 10_000);
    gguf_pipeline::run_all_to(&both, &mut two, &RunOptions::default(), &()).unwrap();
    assert!(get(&memory, "one").unwrap() == expected && get(&memory, "two").unwrap() == expected);
}

/// A store of which uploads are slow or fail.
#[derive(Debug)]
struct Faulty {
    memory: Arc<InMemory>,
    /// The part that fails.
    fails: usize,
    in_memory: AtomicUsize,
    most: AtomicUsize,
    aborted: AtomicUsize,
    n_sent: AtomicUsize,
}

#[async_trait::async_trait]
impl MultipartStore for Faulty {
    async fn create_multipart(&self, path: &Key) -> object_store::Result<MultipartId> {
        self.memory.create_multipart(path).await
    }
    async fn put_part(&self, path: &Key, id: &MultipartId, i: usize, data: PutPayload) -> object_store::Result<PartId> {
        let now = self.in_memory.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        self.in_memory.fetch_sub(1, Ordering::SeqCst);
        if i == self.fails {
            return Err(object_store::Error::Generic { store: "test", source: "a fault".into() });
        }
        self.n_sent.fetch_add(1, Ordering::SeqCst);
        self.memory.put_part(path, id, i, data).await
    }
    async fn complete_multipart(
        &self,
        path: &Key,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> object_store::Result<object_store::PutResult> {
        self.memory.complete_multipart(path, id, parts).await
    }
    async fn abort_multipart(&self, path: &Key, id: &MultipartId) -> object_store::Result<()> {
        self.aborted.fetch_add(1, Ordering::SeqCst);
        self.memory.abort_multipart(path, id).await
    }
}

#[test]
fn slow_and_failing_uploads() {
    let (plan, expected) = plan(32);
    for fails in [usize::MAX, 0, 7] {
        let (client, memory) = client();
        let (in_memory, most, aborted, n_sent) = Default::default();
        let faulty = Arc::new(Faulty { memory: memory.clone(), fails, in_memory, most, aborted, n_sent });
        client.buckets().insert(Store::S3, "b", memory.clone(), faulty.clone());
        let mut slow = sink(&client, &["x"], false, 4096);
        let result = plan.run_to(&mut slow, &RunOptions::default().threads(NonZero::new(3)), &());
        // Three parts, or four if these are more.
        let most = faulty.most.load(Ordering::SeqCst);
        assert!((2..=4).contains(&most), "{most}");
        let aborted = faulty.aborted.load(Ordering::SeqCst);
        if fails == usize::MAX {
            result.unwrap();
            assert!(get(&memory, "x").unwrap() == expected);
            assert_eq!(aborted, 0);
        } else {
            let e = result.unwrap_err().to_string();
            assert_eq!(e, "s3://b/x: cannot write: unexpected response: a fault");
            assert_eq!((get(&memory, "x"), aborted), (None, 1));
        }
        assert!(slow.is_idle());
    }
}

/// Cancels a run after a number of pieces, and takes the manifest in the middle and at the end.
struct Interrupt {
    memory: Arc<InMemory>,
    left: AtomicUsize,
    seen: Mutex<Vec<Vec<u8>>>,
}

impl Interrupt {
    fn after(memory: &Arc<InMemory>, pieces: usize) -> Interrupt {
        Interrupt { memory: memory.clone(), left: AtomicUsize::new(pieces), seen: Mutex::default() }
    }

    fn note(&self) {
        self.seen.lock().unwrap().extend(get(&self.memory, MANIFEST));
    }
}

impl Progress for Interrupt {
    fn event(&self, event: gguf_pipeline::Event<'_>) {
        match event {
            gguf_pipeline::Event::Advanced { .. } => {
                assert_eq!(get(&self.memory, "x"), None);
                self.note();
                self.left.fetch_sub(1, Ordering::Relaxed);
            }
            gguf_pipeline::Event::Named { .. } => self.note(),
            _ => {}
        }
    }
    fn is_cancelled(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

const MANIFEST: &str = "x.upload.json";

#[test]
fn interrupted_uploads_are_continued() {
    let (plan, expected) = plan(32);
    let options = RunOptions::default().threads(NonZero::new(1));
    let n_parts = expected.len().div_ceil(10_000);
    for pieces in 1..6 {
        for is_killed in [false, true] {
            let (client, memory) = client();
            let (in_memory, most, aborted) = Default::default();
            let n_sent = AtomicUsize::new(0);
            let faulty = Faulty { memory: memory.clone(), fails: usize::MAX, in_memory, most, aborted, n_sent };
            let faulty = Arc::new(faulty);
            client.buckets().insert(Store::S3, "b", memory.clone(), faulty.clone());
            let resumable = || sink(&client, &["x"], false, 10_000).resume(true);
            let interrupt = Interrupt::after(&memory, pieces);
            let e = plan.run_to(&mut resumable(), &options, &interrupt).unwrap_err();
            assert!(matches!(&e, RunError::Kept { why, .. } if matches!(**why, RunError::Cancelled)), "{e}");
            assert_eq!(e.to_string(), "interrupted; finished work is kept in the upload of s3://b/x and x.upload.json");
            assert_eq!((get(&memory, "x"), faulty.aborted.load(Ordering::SeqCst)), (None, 0));
            if is_killed {
                // The last manifest that a killed program has written.
                put(&memory, MANIFEST, interrupt.seen.lock().unwrap().pop().unwrap());
            }
            let before = faulty.n_sent.swap(0, Ordering::SeqCst);
            plan.run_to(&mut resumable(), &options, &()).unwrap();
            let sent = faulty.n_sent.load(Ordering::SeqCst);
            assert!(get(&memory, "x").unwrap() == expected, "{pieces}");
            assert_eq!(get(&memory, MANIFEST), None);
            match is_killed {
                false => assert_eq!(before + sent, n_parts, "{pieces}"),
                true => assert!(sent <= n_parts),
            }
        }
    }
}

#[test]
fn uploads_of_other_runs_are_not_continued() {
    let options = RunOptions::default().threads(NonZero::new(1));
    let ((one, _), (two, expected)) = (plan(32), plan(1 << 15));
    let (client, memory) = client();
    let resumable = |replace| sink(&client, &["x"], replace, 10_000).resume(true);
    one.run_to(&mut resumable(false), &options, &Interrupt::after(&memory, 3)).unwrap_err();
    let manifest = get(&memory, MANIFEST);
    let e = two.run_to(&mut resumable(false), &options, &()).unwrap_err();
    assert!(e.to_string().contains("an interrupted upload of this name is kept"), "{e}");
    assert_eq!((get(&memory, "x"), get(&memory, MANIFEST)), (None, manifest));
    two.run_to(&mut resumable(true), &options, &()).unwrap();
    assert!(get(&memory, "x").unwrap() == expected);
    assert_eq!(get(&memory, MANIFEST), None);
}

#[test]
fn complete_objects_with_a_manifest_are_complete() {
    let options = RunOptions::default().threads(NonZero::new(1));
    let (plan, expected) = plan(32);
    let (client, memory) = client();
    let resumable = |replace| sink(&client, &["x"], replace, 10_000).resume(true);
    let progress = Interrupt::after(&memory, 99);
    plan.run_to(&mut resumable(false), &options, &progress).unwrap();
    // The program was killed before the manifest was removed.
    put(&memory, MANIFEST, progress.seen.lock().unwrap().pop().unwrap());
    let written = get(&memory, "x");
    plan.run_to(&mut resumable(false), &options, &()).unwrap();
    assert!(get(&memory, "x") == written && written.unwrap() == expected);
    assert_eq!(get(&memory, MANIFEST), None);
    // Without a manifest, an object is another one.
    let e = plan.run_to(&mut resumable(false), &options, &()).unwrap_err();
    assert!(e.to_string().contains("the object exists already"), "{e}");
}

#[test]
fn parts_of_long_objects() {
    // 2 TB and less: at most 10,000 parts, all of whole mebibytes.
    for (length, expected) in
        [(1, 5 << 20), (160 << 30, 17 << 20), (2_000_000_000_000, 191 << 20), (5 << 40, 525 << 20)]
    {
        let part = super::upload::part_len(length, super::sink::Limits::usual());
        assert_eq!(part, expected, "{length}");
        assert!(u64::div_ceil(length, part) <= 10_000);
    }
}
