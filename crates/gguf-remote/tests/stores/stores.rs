//! Reading from and writing to servers with the protocols of S3 and Azure.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gguf_format::{GgmlType, Head, TensorInfo};
use gguf_hf::Folder as _;
use gguf_io::{Model, ReadAt, Writer};
use gguf_pipeline::{Draft, Event, MemorySink, Plan, Progress, RunOptions};
use gguf_remote::{Client, Error, Location, Problem, Settings, StoreFile, StoreFolder, StoreSink};

gguf_test::tests! {
    [Stores]
        models_are_read_as_they_were_written,
        runs_read_from_and_write_to_stores,
        aborted_uploads_leave_nothing,
        objects_that_change_are_errors,
        parts_of_many_machines,
        missing_and_refused;
}

/// The key of Azurite, which is in its documentation. It must not be shown.
const AZURITE: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A valid key that is not Azurite's.
const WRONG: &str = "b3RoZXIgc2VjcmV0IG90aGVyIHNlY3JldCBvdGhlciBzZWNyZXQgb3RoZXIgc2VjcmV0IG90aGVyIHNlYw==";

const ID: &str = "AKIAHIDDENHIDDEN";
const SECRET: &str = "hidden/secret+of/the+tests";

fn address(server: &str) -> String {
    let folder = gguf_test::peers::stores().expect("GGUF_STORES is set");
    fs::read_to_string(folder.join(server)).unwrap().trim().to_owned()
}

/// Fails if a text has a secret.
fn assert_open(text: &str) {
    for secret in [AZURITE, WRONG, ID, SECRET, "hidden", "Signature=", "sig="] {
        assert!(!text.contains(secret), "{text}");
    }
}

fn client_of(options: &[(&str, &str)]) -> Client {
    let mut settings = Settings::default();
    for (name, value) in options {
        assert!(settings.store_options.insert(name, *value));
    }
    settings.observer = Arc::new(|event: gguf_remote::Event<'_>| assert_open(&format!("{event:?}")));
    let client = Client::new(settings).unwrap();
    assert_open(&format!("{client:?}"));
    client
}

fn s3(server: &str) -> Client {
    let options = [
        ("AWS_ENDPOINT_URL", address(server)),
        ("AWS_ACCESS_KEY_ID", ID.into()),
        ("AWS_SECRET_ACCESS_KEY", SECRET.into()),
    ];
    client_of(&options.each_ref().map(|(name, value)| (*name, value.as_str())))
}

fn azure(key: &str) -> Client {
    let endpoint = format!("{}/devstoreaccount1", address("azure"));
    client_of(&[
        ("AZURE_STORAGE_ENDPOINT", &endpoint),
        ("AZURE_STORAGE_ACCOUNT_NAME", "devstoreaccount1"),
        ("AZURE_STORAGE_ACCOUNT_KEY", key),
    ])
}

/// Both stores, with the start of places in a folder for the test.
fn stores(test: &str) -> [(Client, String); 2] {
    [(s3("s3"), format!("s3://models/{test}")), (azure(AZURITE), format!("az://models/{test}"))]
}

fn location(text: &str) -> Location {
    Location::parse(text).unwrap().unwrap()
}

/// A model of 40 MB, and its bytes.
fn model(seed: u64) -> (Plan, Vec<u8>) {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("general.name", format!("model {seed}"));
    let sizes = [5u64, 3_000_000, 17, 5_000_000, 2_000_001];
    let tensor = |(i, n): (usize, &u64)| TensorInfo::new(format!("t{i}"), [*n], GgmlType::F32);
    head.tensors = sizes.iter().enumerate().map(tensor).collect();
    let number = |i: u64| ((i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8;
    let data = sizes.map(|n| (0..n * 4).map(number).collect::<Vec<u8>>());
    let bytes = Writer::write(Vec::new(), &head, data).unwrap();
    let plan = Draft::copy_of(Model::from_source(bytes, "m").unwrap()).unwrap().lay_out().unwrap();
    let mut memory = MemorySink::new();
    plan.run_to(&mut memory, &RunOptions::default(), &()).unwrap();
    (plan, memory.into_outputs().remove(0))
}

fn options() -> RunOptions {
    RunOptions::default().threads(NonZero::new(3))
}

/// Uploads the output of a plan.
fn upload(client: &Client, plan: &Plan, to: &str, replace: bool) {
    let mut sink = StoreSink::new(client, vec![location(to)], replace);
    plan.run_to(&mut sink, &options(), &()).unwrap();
}

fn download(client: &Client, from: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    StoreFile::open(client, &location(from)).unwrap().stream(0).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

/// The list of unfinished uploads of the bucket.
fn unfinished() -> String {
    let address = address("s3");
    let mut stream = TcpStream::connect(address.trim_start_matches("http://")).unwrap();
    stream.write_all(b"GET /models?uploads HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("ListMultipartUploadsResult"), "{answer}");
    answer
}

fn models_are_read_as_they_were_written() {
    let (plan, bytes) = model(1);
    for (client, folder) in stores("written") {
        let name = format!("{folder}/a b+%20/model.gguf");
        upload(&client, &plan, &name, true);
        assert!(download(&client, &name) == bytes, "{name}");
        assert!(!unfinished().contains("written"));

        let opened = client.open_model(&location(&name)).unwrap();
        assert_eq!(opened.gguf().n_tensors(), 5);
        let ranges: Vec<_> = (0..40).map(|i| i * bytes.len() as u64 / 40..(i + 1) * bytes.len() as u64 / 40).collect();
        let plan: Vec<_> = ranges.iter().map(|range| (PathBuf::from(&name), range.clone())).collect();
        let source = StoreFile::open(&client, &location(&name)).unwrap();
        client.ahead(plan.into_iter(), || {
            for range in &ranges {
                let mut read = vec![0; (range.end - range.start) as usize];
                source.read_exact_at(range.start, &mut read).unwrap();
                assert!(read == bytes[range.start as usize..range.end as usize]);
            }
        });
        // In parts at the same time.
        let mut read = vec![0; bytes.len()];
        source.read_exact_at(0, &mut read).unwrap();
        assert!(read == bytes);

        let listed = StoreFolder::open(&client, &location(&format!("{folder}/a b+%20"))).unwrap();
        assert_eq!(listed.names("").unwrap(), ["model.gguf"]);
        assert!(listed.open("model.gguf").unwrap().is_some() && listed.open("other.gguf").unwrap().is_none());
    }
}

fn runs_read_from_and_write_to_stores() {
    let (plan, bytes) = model(2);
    for (client, folder) in stores("copied") {
        let (first, second) = (format!("{folder}/first.gguf"), format!("{folder}/second.gguf"));
        upload(&client, &plan, &first, true);
        let source = client.open_model(&location(&first)).unwrap();
        let copy = Draft::copy_of(source).unwrap().lay_out().unwrap();
        upload(&client, &copy, &second, true);
        assert!(download(&client, &second) == bytes);
        // Shards are found by their names.
        let mut draft = Draft::copy_of(client.open_model(&location(&first)).unwrap()).unwrap();
        draft.is_split = true;
        draft.tensors.iter_mut().skip(2).for_each(|tensor| tensor.file = 1);
        let shards = draft.lay_out_as_shards().unwrap();
        let names = [1, 2].map(|i| format!("{folder}/m-{i:05}-of-00002.gguf"));
        let mut sink = StoreSink::new(&client, names.iter().map(|name| location(name)).collect(), true);
        shards.run_to(&mut sink, &options(), &()).unwrap();
        let model = client.open_model(&location(&names[0])).unwrap();
        let expected = Model::from_source(bytes.clone(), "m").unwrap();
        for tensor in ["t0", "t1", "t2", "t3", "t4"] {
            let read = |model: &Model| model.tensor(tensor).unwrap().read().unwrap();
            assert!(read(&model) == read(&expected), "{tensor}");
        }
    }
}

/// Runs a function without printing the messages of its panics, which are expected.
fn without_messages<T>(run: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let found = run();
    std::panic::set_hook(hook);
    found
}

/// Cancels a run after some chunks.
struct Stop(AtomicUsize);

impl Progress for Stop {
    fn event(&self, event: Event<'_>) {
        if let Event::Advanced { .. } = event {
            // Several threads advance: it stays zero.
            let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(1)));
        }
    }
    fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

fn aborted_uploads_leave_nothing() {
    let (plan, _) = model(3);
    for (client, folder) in stores("aborted") {
        let name = format!("{folder}/model.gguf");
        for chunks in [1, 4, 8] {
            let mut sink = StoreSink::new(&client, vec![location(&name)], false);
            let e = plan.run_to(&mut sink, &options(), &Stop(AtomicUsize::new(chunks))).unwrap_err();
            assert!(matches!(e, gguf_pipeline::Error::Cancelled), "{e}");
            let e = StoreFile::open(&client, &location(&name)).unwrap_err();
            assert!(matches!(e.problem, Problem::Status { status: 404, .. }), "{e}");
            assert!(!unfinished().contains("aborted"));
        }
        // A sink that is dropped.
        struct Leave;
        impl Progress for Leave {
            fn event(&self, event: Event<'_>) {
                if let Event::Advanced { .. } = event {
                    panic!("the program leaves");
                }
            }
        }
        let mut sink = StoreSink::new(&client, vec![location(&name)], false);
        let run = std::panic::AssertUnwindSafe(|| plan.run_to(&mut sink, &options(), &Leave));
        assert!(without_messages(|| std::panic::catch_unwind(run)).is_err());
        if name.starts_with("s3") {
            assert!(unfinished().contains("aborted"));
        }
        drop(sink);
        assert!(!unfinished().contains("aborted"));
        assert!(StoreFile::open(&client, &location(&name)).is_err());
    }
}

fn objects_that_change_are_errors() {
    let ((one, _), (two, _)) = (model(4), model(5));
    for (client, folder) in stores("changed") {
        let name = format!("{folder}/model.gguf");
        upload(&client, &one, &name, true);
        let source = StoreFile::open(&client, &location(&name)).unwrap();
        let mut read = [0; 100];
        source.read_exact_at(1_000_000, &mut read).unwrap();
        // A new object of the same length.
        upload(&client, &two, &name, true);
        let e = source.read_exact_at(20_000_000, &mut read).unwrap_err();
        let problem = e.downcast::<Error>().unwrap().problem;
        assert!(matches!(problem, Problem::Changed { what: "ETag", .. }), "{problem:?}");
        let mut sink = StoreSink::new(&client, vec![location(&name)], false);
        let e = one.run_to(&mut sink, &options(), &()).unwrap_err().to_string();
        assert_eq!(e, format!("{name}: cannot write: the object exists already"));
    }
}

/// A plan in parts of 5 MiB: parts made twice, another identifier of a part, an object that is replaced, and an abort.
fn parts_of_many_machines() {
    use gguf_pipeline::fleet::{FleetError, FleetOptions, FleetPlan, Made, Manifest, Place};
    use gguf_remote::StorePlace;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.tensors = (0..4).map(|i| TensorInfo::new(format!("t{i}.weight"), [1024, 1024], GgmlType::F32)).collect();
    let data = (0..4u8).map(|i| (0..4u32 << 20).map(|n| (n >> 2) as u8 ^ i & 0x3f).collect::<Vec<u8>>());
    fs::write(&path, Writer::write(Vec::new(), &head, data).unwrap()).unwrap();
    let plan = Draft::copy_of(&path).unwrap().lay_out().unwrap();
    let expected = fs::read(&path).unwrap();
    for (client, folder) in stores("fleet") {
        let url = format!("{folder}/m.gguf");
        let places = || -> Vec<Box<dyn Place>> { vec![Box::new(StorePlace::open(&client, &location(&url)).unwrap())] };
        let begin = |replace| {
            let mut options = FleetOptions::default();
            (options.part_bytes, options.replace) = (Some(5 << 20), replace);
            let new = FleetPlan::divide(&plan, &[PathBuf::from(&url)], options)?;
            FleetPlan::parse(&new.begin(&places())?.to_json()?)
        };
        let make = |plan: &FleetPlan, index| {
            let open = |path: &Path| Ok(Arc::new(fs::File::open(path)?) as _);
            plan.worker(Arc::new(open), None).make(index, &places(), &options(), &())
        };
        let first = begin(false).unwrap();
        assert_eq!(first.n_parts(), 4);
        assert!(matches!(begin(false), Err(FleetError::Begun { .. })));
        for index in [2, 0, 3] {
            assert_eq!(make(&first, index).unwrap(), Made::Now);
            assert_eq!(make(&first, index).unwrap(), Made::Before);
        }
        assert!(matches!(first.commit(&places(), None, &()), Err(FleetError::Missing { parts }) if parts == [1]));
        make(&first, 1).unwrap();
        assert_eq!(first.status(&places()).unwrap().missing, [0usize; 0]);
        // A worker has uploaded the part again, and died before its manifest: the store identifies it in another way.
        let place = &places()[0];
        let mut manifest: Manifest = serde_json::from_slice(&place.note("part-00001.json").unwrap().unwrap()).unwrap();
        let right = manifest.id.clone();
        manifest.id = match url.starts_with("s3") {
            true => right.replace(|c: char| c.is_ascii_digit(), "0"),
            false => format!("{right}x"),
        };
        manifest.again = true;
        place.put_note("part-00001.json", &serde_json::to_vec(&manifest).unwrap()).unwrap();
        match first.commit(&places(), None, &()) {
            Err(FleetError::StaleParts { parts }) => assert_eq!(parts, [1], "{url}"),
            other => panic!("{url}: {other:?}"),
        }
        assert_eq!(first.status(&places()).unwrap().missing, [1]);
        assert_eq!(make(&first, 1).unwrap(), Made::Now);
        for _ in 0..2 {
            first.commit(&places(), None, &()).unwrap();
            assert!(download(&client, &url) == expected);
            assert_eq!(make(&first, 1).unwrap(), Made::Before);
        }
        assert_eq!(place.notes().unwrap(), [""; 0]);
        // An object that exists is replaced on request only, and stays until the commit.
        assert!(begin(false).unwrap_err().to_string().contains("the object exists already"));
        let second = begin(true).unwrap();
        assert!(!second.status(&places()).unwrap().is_complete);
        make(&second, 0).unwrap();
        second.abort(&places()).unwrap();
        // The old object has the bytes of this plan, too, so nothing is left to make.
        assert_eq!(make(&second, 1).unwrap(), Made::Before);
        assert!(download(&client, &url) == expected);
    }
}

fn missing_and_refused() {
    let status = |client: &Client, name: &str| {
        let e = StoreFile::open(client, &location(name)).unwrap_err();
        assert_open(&format!("{e} {e:?}"));
        assert_eq!(e.url, name);
        match e.problem {
            Problem::Status { status, text } => (status, text.unwrap_or_default()),
            _ => panic!("{e}"),
        }
    };
    let [(s3, _), (azure_client, _)] = stores("");
    assert_eq!(status(&s3, "s3://models/none").0, 404);
    assert_eq!(status(&s3, "s3://nothing/none").0, 404);
    assert_eq!(status(&azure_client, "az://models/none").0, 404);
    assert_eq!(status(&azure_client, "az://nothing/none").0, 404);
    let (code, text) = status(&self::s3("s3-closed"), "s3://models/none");
    assert_eq!(code, 403);
    assert!(text.starts_with("InvalidAccessKeyId"), "{text}");
    let (code, text) = status(&azure(WRONG), "az://models/none");
    assert_eq!(code, 403);
    assert!(text.starts_with("AuthorizationFailure") || text.starts_with("AuthenticationFailed"), "{text}");

    // Writing is refused before any data is read.
    let (plan, _) = model(6);
    for (client, name) in [(self::s3("s3-closed"), "s3://models/x"), (azure(WRONG), "az://models/x")] {
        let mut sink = StoreSink::new(&client, vec![location(name)], true);
        let e = plan.run_to(&mut sink, &options(), &()).unwrap_err();
        let gguf_pipeline::Error::Io { path, source, .. } = &e else { panic!("{e}") };
        assert_eq!((path.as_path(), source.kind()), (Path::new(name), std::io::ErrorKind::PermissionDenied));
        assert_open(&format!("{e} {e:?}"));
    }
}
