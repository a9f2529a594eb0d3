//! Uploads to a store on this machine with the protocol of S3, and its faults: the right object, or none and a clear error.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{Arc, Mutex, OnceLock};

use gguf_format::{GgmlType, Head, TensorInfo};
use gguf_io::{Model, Writer};
use gguf_pipeline::{Draft, Error, RunOptions};
use gguf_remote::{Client, Problem, StoreSink};

use crate::server::{Reply, Request, Server};
use crate::stores::{TIME, location, settings};

const NAME: &str = "s3://bucket/model.gguf";
const GOOGLE: &str = "gs://bucket/model.gguf";
const PART: usize = 5 << 20;

/// An object, its parts, and whether its upload was aborted.
#[derive(Default)]
struct Bucket {
    parts: Mutex<BTreeMap<usize, Vec<u8>>>,
    object: Mutex<Option<Vec<u8>>>,
    is_aborted: Mutex<bool>,
}

impl Bucket {
    fn reply(&self, request: &Request) -> Reply {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        assert_eq!(path.replace("%2E", "."), "/bucket/model.gguf");
        let missing = || Reply::new(404, "<Error><Code>NoSuchUpload</Code></Error>");
        let xml = |name: &str, inner: &str| Reply::new(200, format!("<{name}>{inner}</{name}>"));
        let parameter = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        match (request.method.as_str(), parameter("uploadId")) {
            ("HEAD", _) => match &*self.object.lock().unwrap() {
                Some(object) => Reply::new(200, object.clone()).with("ETag", "\"new\"").with("Last-Modified", TIME),
                None => Reply::new(404, ""),
            },
            ("POST", None) => {
                let inner = "<Bucket>bucket</Bucket><Key>model.gguf</Key><UploadId>7</UploadId>";
                xml("InitiateMultipartUploadResult", inner)
            }
            ("PUT", Some("7")) => {
                let number = parameter("partNumber").unwrap().parse().unwrap();
                self.parts.lock().unwrap().insert(number, request.body.clone());
                Reply::new(200, "").with("ETag", &format!("\"part {number}\""))
            }
            ("POST", Some("7")) => {
                let parts = std::mem::take(&mut *self.parts.lock().unwrap());
                if parts.is_empty() {
                    return missing();
                }
                let listed = String::from_utf8_lossy(&request.body).matches("<PartNumber>").count();
                assert_eq!(listed, parts.len());
                *self.object.lock().unwrap() = Some(parts.into_values().flatten().collect());
                let inner = "<Location>x</Location><Bucket>bucket</Bucket><Key>model.gguf</Key><ETag>\"new\"</ETag>";
                xml("CompleteMultipartUploadResult", inner)
            }
            ("DELETE", Some("7")) => {
                *self.is_aborted.lock().unwrap() = true;
                self.parts.lock().unwrap().clear();
                Reply::new(204, "").with("Content-Length", "")
            }
            _ => panic!("{} {}", request.method, request.target),
        }
    }
}

/// The bytes of a model of three parts.
fn model() -> &'static [u8] {
    static MODEL: OnceLock<Vec<u8>> = OnceLock::new();
    MODEL.get_or_init(|| {
        let mut head = Head::default();
        head.set("general.architecture", "llama");
        let sizes = [5usize, 3_000_000, 17, 4_000_001, 1_500_000];
        let tensor = |(i, n): (usize, &usize)| TensorInfo::new(format!("t{i}"), [*n as u64], GgmlType::F32);
        head.tensors = sizes.iter().enumerate().map(tensor).collect();
        Writer::write(Vec::new(), &head, sizes.map(|n| vec![n as u8; n * 4])).unwrap()
    })
}

/// Uploads the model to a bucket of S3. `fault` may answer instead; it gets the number of the request and the bucket.
fn upload(
    replace: bool,
    bucket: &Arc<Bucket>,
    fault: impl Fn(usize, &Request, &Bucket) -> Option<Reply> + Send + Sync + 'static,
) -> (Result<(), Error>, Server) {
    upload_to(NAME, replace, bucket, fault)
}

/// Uploads to the object with that name, on a server with faults.
fn upload_to(
    name: &str,
    replace: bool,
    bucket: &Arc<Bucket>,
    fault: impl Fn(usize, &Request, &Bucket) -> Option<Reply> + Send + Sync + 'static,
) -> (Result<(), Error>, Server) {
    let plan = Draft::copy_of(Model::from_source(model(), "m").unwrap()).unwrap().lay_out().unwrap();
    let served = Arc::clone(bucket);
    let server = Server::start(move |n, request| fault(n, request, &served).unwrap_or_else(|| served.reply(request)));
    let client = Client::new(settings(&server)).unwrap();
    let mut sink = StoreSink::new(&client, vec![location(name)], replace);
    let options = RunOptions::default().threads(NonZero::new(2));
    let done = plan.run_to(&mut sink, &options, &()).map(|_| ());
    if let Err(e) = &done {
        assert!(!format!("{e} {e:?} {sink:?}").contains("secret"), "{e}");
    }
    (done, server)
}

/// The problem of a failed upload, which leaves no parts.
fn problem(
    replace: bool,
    bucket: &Arc<Bucket>,
    fault: impl Fn(usize, &Request, &Bucket) -> Option<Reply> + Send + Sync + 'static,
) -> Problem {
    let e = upload(replace, bucket, fault).0.expect_err("a fault");
    assert!(bucket.parts.lock().unwrap().is_empty());
    let Error::Io { source, path, .. } = e else { panic!("{e}") };
    assert_eq!(path, std::path::Path::new(NAME));
    source.downcast::<gguf_remote::Error>().unwrap().problem
}

fn is_part(request: &Request, number: usize) -> bool {
    request.method == "PUT" && request.target.contains(&format!("partNumber={number}&"))
}

fn is_commit(request: &Request) -> bool {
    request.method == "POST" && request.target.contains("uploadId=7")
}

#[test]
fn parts_of_equal_length() {
    for name in [NAME, GOOGLE] {
        let bucket = Arc::<Bucket>::default();
        let lengths = Arc::new(Mutex::new(BTreeMap::new()));
        let seen = Arc::clone(&lengths);
        let (done, server) = upload_to(name, false, &bucket, move |_, request, bucket| {
            assert!(bucket.object.lock().unwrap().is_none() || request.method == "HEAD", "nothing before the commit");
            if request.method == "PUT" {
                seen.lock().unwrap().insert(request.target.clone(), request.body.len());
            }
            None
        });
        done.unwrap();
        assert!(bucket.object.lock().unwrap().as_deref() == Some(model()));
        assert!(!*bucket.is_aborted.lock().unwrap());
        let lengths: Vec<usize> = lengths.lock().unwrap().values().copied().collect();
        let n_parts = model().len().div_ceil(PART);
        assert_eq!(lengths, [vec![PART; n_parts - 1], vec![model().len() - (n_parts - 1) * PART]].concat());
        // Whether it exists, twice; begin, the parts, complete, its length.
        let requests: Vec<String> = server.requests().iter().map(|r| format!("{} {}", r.method, r.target)).collect();
        assert_eq!(requests.len(), 5 + n_parts, "{requests:#?}");
    }
}

#[test]
fn failures_that_are_repeated() {
    let bucket = Arc::<Bucket>::default();
    let seen = Mutex::new(0);
    let (done, _) = upload(false, &bucket, move |_, request, _| {
        let mut seen = seen.lock().unwrap();
        *seen += usize::from(is_part(request, 2));
        match is_part(request, 2) {
            true if *seen == 1 => {
                Some(Reply::new(503, "<Error><Code>SlowDown</Code></Error>").with("Retry-After", "1"))
            }
            true if *seen == 2 => Some(Reply::new(500, "")),
            _ => None,
        }
    });
    done.unwrap();
    assert!(bucket.object.lock().unwrap().as_deref() == Some(model()));
}

#[test]
fn failed_parts() {
    let bucket = Arc::<Bucket>::default();
    let refused = |_, request: &Request, _: &Bucket| is_part(request, 2).then(|| Reply::new(403, "secret"));
    assert_eq!(problem(false, &bucket, refused), Problem::Status { status: 403, text: None });
    assert!(*bucket.is_aborted.lock().unwrap() && bucket.object.lock().unwrap().is_none());
}

#[test]
fn lost_answers_to_the_commit() {
    // The object is complete, but the answer is an error, and then the upload is not known any more.
    let bucket = Arc::<Bucket>::default();
    let seen = Mutex::new(0);
    let (done, _) = upload(false, &bucket, move |_, request, bucket| {
        let mut seen = seen.lock().unwrap();
        *seen += usize::from(is_commit(request));
        (is_commit(request) && *seen == 1).then(|| {
            bucket.reply(request);
            Reply::new(500, "")
        })
    });
    done.unwrap();
    assert!(bucket.object.lock().unwrap().as_deref() == Some(model()));

    // The object of the same length is the old one.
    let bucket = Arc::<Bucket>::default();
    *bucket.object.lock().unwrap() = Some(model().to_vec());
    let lost = |_, request: &Request, _: &Bucket| is_commit(request).then(|| Reply::new(500, ""));
    assert_eq!(problem(true, &bucket, lost), Problem::Status { status: 500, text: None });
    assert!(*bucket.is_aborted.lock().unwrap());
}

#[test]
fn objects_of_another_length() {
    let bucket = Arc::<Bucket>::default();
    let longer = |_, request: &Request, bucket: &Bucket| {
        let object = bucket.object.lock().unwrap();
        let found = object.as_ref().filter(|_| request.method == "HEAD")?;
        Some(Reply::new(200, "").with("Content-Length", &(found.len() + 1).to_string()))
    };
    let found = problem(true, &bucket, longer);
    let expected = model().len() as u64;
    assert_eq!(found, Problem::Uploaded { expected, found: expected + 1 });
}

#[test]
fn errors_in_successful_answers() {
    let bucket = Arc::<Bucket>::default();
    let failed = |_, request: &Request, _: &Bucket| {
        is_commit(request).then(|| Reply::new(200, "<Error><Code>InternalError</Code></Error>"))
    };
    let found = problem(false, &bucket, failed);
    assert!(matches!(found, Problem::Answer(_)), "{found:?}");
}
