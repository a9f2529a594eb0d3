//! A Hub on this machine: revisions, listings in pages, files behind redirects to another server, and the cache.

use std::fs;
use std::sync::Arc;

use gguf_hf::Folder as _;
use gguf_remote::{Client, Location, Problem, Repo};
use sha2::{Digest, Sha256};

use crate::server::{Reply, Server, client, file, pattern, settings};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A Hub with the repository `org/tiny`, and the server of its large files.
struct Hub {
    hub: Server,
    cdn: Server,
}

/// Starts a Hub. The entries of its listing are changed by `list`.
fn start_with(files: Vec<(&'static str, Vec<u8>)>, list: impl Fn(String) -> String + Send + Sync + 'static) -> Hub {
    let files = Arc::new(files);
    let large = files.clone();
    let cdn = Server::start(move |_, request| {
        assert_eq!(request.authorization, None, "the token is not for this server");
        let (number, signature) = request.target[1..].split_once('?').unwrap();
        assert!(signature.starts_with("signature=secret"));
        file(request, &large[number.parse::<usize>().unwrap()].1, &format!("\"{number}\""))
    });
    let to = cdn.address.clone();
    let hub = Server::start(move |_, request| {
        assert_eq!(request.authorization.as_deref(), Some("Bearer hf_secret"));
        let target = request.target.as_str();
        if target == "/api/models/org/tiny/revision/main" || target == "/api/models/org/tiny/revision/refs%2Fpr%2F1" {
            return Reply::new(200, format!(r#"{{"sha": "{COMMIT}", "siblings": []}}"#));
        }
        let tree = format!("/api/models/org/tiny/tree/{COMMIT}?recursive=true");
        if let Some(after) = target.strip_prefix(&tree) {
            // One file on each page.
            let at: usize = after.strip_prefix("&cursor=").map_or(0, |at| at.parse().unwrap());
            let (path, bytes) = &files[at];
            let lfs = match bytes.len() {
                1000.. => format!(r#", "lfs": {{"oid": "{}", "size": {}}}"#, sha256(bytes), bytes.len()),
                _ => String::new(),
            };
            let entry =
                list(format!(r#"{{"type": "file", "oid": "x", "path": "{path}", "size": {}{lfs}}}"#, bytes.len()));
            let reply = Reply::new(200, format!(r#"[{{"type": "directory", "path": "sub"}}, {entry}]"#));
            return match at + 1 < files.len() {
                true => reply.with("Link", &format!("<{tree}&cursor={}>; rel=\"next\"", at + 1)),
                false => reply,
            };
        }
        let path = target.strip_prefix(&format!("/org/tiny/resolve/{COMMIT}/")).unwrap_or_default();
        match files.iter().position(|(name, _)| *name == path) {
            Some(number) if files[number].1.len() >= 1000 => {
                Reply::redirect(&format!("{to}/{number}?signature=secret{number}"))
            }
            Some(number) => file(request, &files[number].1, "\"small\""),
            None => Reply::new(404, "").with("X-Error-Message", "Repository not found"),
        }
    });
    Hub { hub, cdn }
}

fn model() -> Vec<u8> {
    let mut head = gguf_format::Head::default();
    head.set("general.architecture", "llama");
    head.tensors = vec![gguf_format::TensorInfo::new("t", [500_000], gguf_format::GgmlType::F32)];
    gguf_io::Writer::write(Vec::new(), &head, [pattern(2_000_000)]).unwrap()
}

fn start() -> Hub {
    let files = vec![("model.gguf", model()), ("config.json", b"{}".to_vec()), ("sub/x.txt", b"x".to_vec())];
    start_with(files, |entry| entry)
}

fn open(client: &Client, place: &str) -> Result<gguf_io::Model, gguf_io::Error> {
    client.open_model(&Location::parse(place).unwrap().unwrap())
}

#[test]
fn a_model_of_a_repository() {
    let hub = start();
    let (client, _) = client(&hub.hub.address);
    let model = open(&client, "hf:org/tiny/model.gguf").unwrap();
    assert_eq!(model.path(), std::path::Path::new("hf:org/tiny/model.gguf"));
    assert!(model.tensor("t").unwrap().read().unwrap() == pattern(2_000_000));
    // One revision, three pages, one redirect.
    assert_eq!((hub.hub.n_requests(), hub.cdn.n_requests()), (5, 2));
    assert!(open(&client, "hf:org/tiny@refs%2Fpr%2F1/model.gguf").is_ok());
    assert!(open(&client, &format!("hf:org/tiny@{COMMIT}/model.gguf")).is_ok());
    for (place, expected) in [
        ("hf:org/tiny/other.gguf", "hf:org/tiny/other.gguf: cannot open: the repository has no such file"),
        ("hf:org/other/x.gguf", "status 404: Repository not found"),
    ] {
        let e = open(&client, place).unwrap_err();
        let gguf_io::Error::Io { source, .. } = &e else { panic!("{e}") };
        assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
        assert!(e.to_string().contains(expected), "{e}");
    }
}

#[test]
fn listings_and_folders() {
    let hub = start();
    let (client, _) = client(&hub.hub.address);
    let repo = Repo::open(&client, "org/tiny", Some("main")).unwrap();
    assert_eq!(repo.commit(), COMMIT);
    let files: Vec<_> =
        repo.files().iter().map(|file| (file.path.as_str(), file.bytes, file.sha256.is_some())).collect();
    assert_eq!(files[0], ("config.json", 2, false));
    assert_eq!((files[1].0, files[1].2), ("model.gguf", true));
    let folder = repo.into_folder("");
    assert_eq!(folder.path(), std::path::Path::new("hf:org/tiny@main"));
    assert_eq!(folder.real_name().as_deref(), Some("tiny"));
    assert_eq!(folder.names("").unwrap(), ["config.json", "model.gguf"]);
    assert_eq!(folder.names("sub").unwrap(), ["x.txt"]);
    assert!(folder.open("sub/x.txt").unwrap().is_some());
    for name in ["../tiny/config.json", "/config.json", "sub", "", "./config.json"] {
        assert!(folder.open(name).unwrap().is_none(), "{name}");
    }
    assert_eq!(hub.cdn.n_requests(), 0);
    let sub = Repo::open(&client, "org/tiny", None).unwrap().into_folder("sub");
    assert_eq!((sub.path().to_str(), sub.names("").unwrap()), (Some("hf:org/tiny/sub"), vec!["x.txt".to_owned()]));
}

#[test]
fn a_repository_stands_for_its_only_model() {
    let place = |text: &str| Location::parse(text).unwrap().unwrap();
    let hub = start();
    let (client, _) = client(&hub.hub.address);
    for text in ["hf:org/tiny", "hf:org/tiny/model.gguf"] {
        assert_eq!(client.only_model(&place(text)), Ok(place("hf:org/tiny/model.gguf")));
    }
    // A name with that extension is not looked up.
    assert_eq!(client.only_model(&place("hf:org/none/x.GGUF")), Ok(place("hf:org/none/x.GGUF")));
    let none = client.only_model(&place("hf:org/tiny/sub")).unwrap_err();
    assert_eq!(none.to_string(), "hf:org/tiny/sub: there is no GGUF file");
    assert_eq!((none.problem, none.attempts), (Problem::NoModel, 1));
    // A file of another kind is a file.
    assert_eq!(client.only_model(&place("hf:org/tiny/config.json")), Ok(place("hf:org/tiny/config.json")));

    let shards = ["a/x-00001-of-00002.gguf", "a/x-00002-of-00002.gguf", "b/x-00001-of-00002.gguf", "b/y.GGUF"];
    let hub = start_with(shards.iter().map(|name| (*name, vec![0; 10])).collect(), |entry| entry);
    let (client, _) = self::client(&hub.hub.address);
    assert_eq!(client.only_model(&place("hf:org/tiny/a/")), Ok(place("hf:org/tiny/a/x-00001-of-00002.gguf")));
    let several = client.only_model(&place("hf:org/tiny")).unwrap_err();
    assert_eq!(several.to_string(), "hf:org/tiny: there are 3 models, expected one");
    let Problem::SeveralModels(models) = several.problem else { panic!("{:?}", several.problem) };
    let listed: Vec<_> = models.iter().map(|model| (model.location.to_string(), model.n_files, model.bytes)).collect();
    let expected = [(shards[0], 2, 20), (shards[2], 1, 10), (shards[3], 1, 10)];
    assert_eq!(listed, expected.map(|(name, n_files, bytes)| (format!("hf:org/tiny/{name}"), n_files, bytes)));
}

#[test]
fn bad_listings_are_errors() {
    type Change = fn(String) -> String;
    let changes: [(Change, &str); 4] = [
        (|entry| entry.replace("model.gguf", "../model.gguf"), "without a valid `path`"),
        (|entry| entry.replace("\"size\"", "\"length\""), "without a `size`"),
        (|_| "nonsense".to_owned(), "not JSON"),
        (|entry| entry.replace("\"file\", ", "\"file\", \"lfs\": 5, "), ""),
    ];
    for (change, expected) in changes {
        let hub = start_with(vec![("model.gguf", model())], change);
        let (client, _) = client(&hub.hub.address);
        match Repo::open(&client, "org/tiny", None) {
            Err(e) => assert!(!expected.is_empty() && e.to_string().contains(expected), "{e}"),
            Ok(_) => assert_eq!(expected, ""),
        }
    }
}

#[test]
fn hashes_are_compared() {
    // The last digit of the hash is another one.
    let bytes = model();
    let right = sha256(&bytes);
    let digit = if right.ends_with('0') { '1' } else { '0' };
    let other = format!("{}{digit}", &right[..63]);
    let change = move |entry: String| entry.replace(&right, &other);
    let hub = start_with(vec![("model.gguf", bytes)], change);
    let (client, _) = client(&hub.hub.address);
    let model = open(&client, "hf:org/tiny/model.gguf").unwrap();
    let e = model.tensor("t").unwrap().read().unwrap_err();
    assert!(e.to_string().contains("the SHA-256 is"), "{e}");
}

#[test]
fn a_listed_size_must_be_right() {
    let hub = start_with(vec![("model.gguf", model())], |entry| entry.replace("\"size\": 2000", "\"size\": 3000"));
    let (client, _) = client(&hub.hub.address);
    let e = open(&client, "hf:org/tiny/model.gguf").unwrap_err();
    assert!(e.to_string().contains("its length was 3000"), "{e}");
}

#[test]
fn the_cache_comes_first() {
    let hub = start();
    let cache = tempfile::tempdir().unwrap();
    let repo = cache.path().join("models--org--tiny");
    let snapshot = repo.join("snapshots").join(COMMIT);
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(repo.join("refs")).unwrap();
    fs::write(repo.join("refs/main"), COMMIT).unwrap();
    fs::write(snapshot.join("model.gguf"), model()).unwrap();
    let client = |offline| {
        let (mut settings, _) = settings(&hub.hub.address);
        settings.cache = Some(cache.path().to_owned());
        settings.offline = offline;
        Client::new(settings).unwrap()
    };
    let online = client(false);
    open(&online, "hf:org/tiny/model.gguf").unwrap().tensor("t").unwrap().read().unwrap();
    assert_eq!(hub.cdn.n_requests(), 0);

    let (offline, n) = (client(true), hub.hub.n_requests());
    open(&offline, "hf:org/tiny/model.gguf").unwrap().tensor("t").unwrap().read().unwrap();
    assert_eq!(Repo::open(&offline, "org/tiny", None).unwrap().files().len(), 1);
    let e = open(&offline, "hf:org/tiny/config.json").unwrap_err();
    assert!(e.to_string().contains("no such file"), "{e}");
    let e = Repo::open(&offline, "org/tiny", Some("v2")).unwrap_err();
    assert!(matches!(e.problem, Problem::Offline(_)), "{e}");
    assert!(Repo::open(&offline, "org/other", None).is_err());
    assert_eq!(hub.hub.n_requests(), n, "no requests");

    // A file that is too short is fetched.
    fs::write(snapshot.join("model.gguf"), &model()[..1_000_000]).unwrap();
    open(&online, "hf:org/tiny/model.gguf").unwrap();
    assert_eq!(hub.cdn.n_requests(), 1);
}
