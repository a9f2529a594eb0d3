//! Files: atomic output, embedded models, shards opened from any of them.

use std::fs;
use std::path::Path;

use gguf_format::{GgmlType, Head, TensorInfo, shard};
use gguf_io::{Error, Model, ModelFile, Output, Writer};

fn names(folder: &Path) -> Vec<String> {
    let mut names =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>();
    names.sort();
    names
}

#[test]
fn an_output_appears_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");

    let out = Output::create(&path, false).unwrap();
    out.set_len(8).unwrap();
    out.write_at(4, b"data").unwrap();
    assert!(!path.exists());
    drop(out);
    assert_eq!(names(dir.path()), [""; 0], "a dropped output leaves nothing");

    let out = Output::create(&path, false).unwrap();
    out.write_at(0, b"first").unwrap();
    out.commit().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"first");

    assert!(matches!(Output::create(&path, false), Err(Error::Exists(_))));
    let out = Output::create(&path, true).unwrap();
    out.write_at(0, b"second").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"first");
    out.commit().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"second");
    assert_eq!(names(dir.path()), ["m.gguf"]);
}

#[test]
fn a_file_that_appears_meanwhile_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");
    let out = Output::create(&path, false).unwrap();
    out.write_at(0, b"ours").unwrap();
    fs::write(&path, b"theirs").unwrap();
    assert!(matches!(out.commit(), Err(Error::Exists(_))));
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
    assert_eq!(names(dir.path()), ["m.gguf"]);
}

#[test]
fn outputs_that_cannot_be() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Output::create(dir.path(), true), Err(Error::NotAFile(_))));
    let error = Output::create(dir.path().join("no/such/m.gguf"), true).unwrap_err().to_string();
    let missing = dir.path().join("no/such");
    let said = format!("m.gguf: cannot create a file there: there is no folder {}", missing.display());
    assert!(error.ends_with(&said), "{error}");
    // The longest name that file systems allow.
    let longest = dir.path().join("x".repeat(255));
    Output::create(&longest, false).unwrap().commit().unwrap();
    assert!(longest.is_file());
}

fn shard_bytes(no: u16, count: u16, total: i32, tensors: &[&str]) -> Vec<u8> {
    let mut head = Head::default();
    if no == 0 {
        head.set("general.architecture", "test");
    }
    head.set(shard::SPLIT_NO, no);
    head.set(shard::SPLIT_COUNT, count);
    head.set(shard::SPLIT_TENSORS_COUNT, total);
    head.tensors = tensors.iter().map(|n| TensorInfo::new(*n, [4], GgmlType::F32)).collect();
    let data = tensors.iter().map(|n| n.as_bytes().repeat(16)[..16].to_vec());
    Writer::write(Vec::new(), &head, data).unwrap()
}

#[test]
fn shards_open_from_any_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let at = |i: u16| dir.path().join(format!("m-{:05}-of-00003.gguf", i + 1));
    let tensors: [&[&str]; 3] = [&["a", "b"], &["c"], &["d"]];
    for (i, t) in (0..).zip(tensors) {
        fs::write(at(i), shard_bytes(i, 3, 4, t)).unwrap();
    }
    for i in 0..3 {
        let model = Model::open(at(i)).unwrap();
        assert_eq!(model.gguf().get_as::<&str>("general.architecture"), Ok("test"));
        let names = model.tensors().map(|t| t.name().to_string()).collect::<String>();
        assert_eq!(names, "abcd");
        let d = model.tensors().last().unwrap();
        assert_eq!(d.read().unwrap(), b"dddddddddddddddd");
    }

    fs::write(at(1), shard_bytes(2, 3, 4, &["c"])).unwrap();
    let error = Model::open(at(0)).unwrap_err().to_string();
    assert!(error.contains("split.no"), "{error}");
    fs::remove_file(at(1)).unwrap();
    let error = Model::open(at(2)).unwrap_err().to_string();
    assert!(error.contains("shard 2 of 3 is missing"), "{error}");
    fs::rename(at(0), dir.path().join("m.gguf")).unwrap();
    let error = Model::open(dir.path().join("m.gguf")).unwrap_err().to_string();
    assert!(error.contains("one of 3 shards"), "{error}");
}

#[test]
fn a_model_inside_another_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("blob");
    let model = shard_bytes(0, 1, 1, &["t"]);
    fs::write(&path, [b"seven b".as_slice(), &model].concat()).unwrap();
    let file = ModelFile::open_at(&path, 7).unwrap();
    let t = file.tensor("t").unwrap();
    assert_eq!(t.read().unwrap(), [b't'; 16]);
    let mut buf = [0; 16];
    file.read_at(t.byte_range().unwrap().start, &mut buf).unwrap();
    assert_eq!(buf, [b't'; 16]);
    assert!(matches!(ModelFile::open(&path), Err(Error::Head { .. })));
    assert!(matches!(ModelFile::open_at(&path, 1 << 40), Err(Error::Head { .. })));
}

#[test]
fn a_truncated_file_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");
    let mut bytes = shard_bytes(0, 1, 1, &["t"]);
    bytes.truncate(bytes.len() - 16 - 5);
    fs::write(&path, bytes).unwrap();
    let file = ModelFile::open(&path).unwrap();
    let error = file.tensor("t").unwrap().read().unwrap_err().to_string();
    assert!(error.contains("5 bytes are missing"), "{error}");
}

#[test]
fn a_large_head_is_read_as_it_stands() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");
    for n in [1_000_000, 1_048_000, 1_048_576, 1_100_000, 5_000_000] {
        let mut head = Head::default();
        head.set("x", (0..n).map(|i| i as u8).collect::<gguf_format::Array>());
        head.set("y", "end");
        let bytes = Writer::write(Vec::new(), &head, [[0u8; 0]; 0]).unwrap();
        fs::write(&path, &bytes).unwrap();
        let file = ModelFile::open(&path).unwrap();
        assert_eq!(file.gguf().bytes(), &bytes[..file.gguf().head_bytes() as usize]);
        assert_eq!(file.gguf().get_as::<&str>("y"), Ok("end"));
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let error = ModelFile::open(&path).unwrap_err().to_string();
        assert!(error.contains("the file ends at byte"), "{error}");
    }
}

#[test]
fn a_stream_that_ends_where_more_would_tell_the_version() {
    // Version 1, no tensors, one pair: the key `a` and the byte 7. A draft would have four more bytes here.
    let file = b"GGUF\x01\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0a\0\0\0\0\x07";
    for total in [None, Some(file.len() as u64)] {
        let head = gguf_io::read_head(&mut file.as_slice(), total).unwrap();
        let gguf = head.into_gguf().unwrap();
        assert_eq!(gguf.get_as::<u8>("a"), Ok(7));
        assert_eq!(gguf.dialect().version, gguf_format::Version::V1);
    }
}

/// An endless stream with an endless head: the callback for pieces can stop it.
#[test]
fn a_head_is_refused_while_it_is_read() {
    use std::io::Read;
    let start = b"GGUF\x03\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0";
    let mut stream = start.chain(std::io::repeat(0));
    let scan = gguf_format::HeadScan::new(Some(1 << 60));
    let mut seen = 0;
    let refused = gguf_io::read_head_with(&mut stream, scan, |bytes, scan| {
        assert!(bytes.starts_with(b"GGUF") && scan.head_bytes() <= bytes.len() as u64 && bytes.len() > seen);
        seen = bytes.len();
        if seen < 3 << 20 { Ok(()) } else { Err(std::io::Error::other("enough")) }
    });
    assert_eq!(refused.unwrap_err().to_string(), "enough");
    assert!(seen < 4 << 20, "{seen}");
}

#[cfg(unix)]
#[test]
fn pipes_are_neither_waited_for_nor_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(matches!(ModelFile::open(&pipe), Err(Error::NotAFile(_))));
    assert!(matches!(Output::create(&pipe, true), Err(Error::NotAFile(_))));
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&pipe, &link).unwrap();
    assert!(matches!(ModelFile::open(&link), Err(Error::NotAFile(_))));
    assert!(matches!(Output::create(&link, true), Err(Error::NotAFile(_))));
}

/// Links such as `/dev/stdout` to a terminal, or through `/proc` to a file.
#[cfg(unix)]
#[test]
fn links_to_files_are_replaced_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "file").unwrap();
    let missing = dir.path().join("missing");
    let link = dir.path().join("link");
    for (to, may) in [
        (file.as_path(), true),
        (&missing, true),
        (dir.path(), false),
        (Path::new("/dev/null"), false),
        (Path::new("/proc/self/exe"), false),
    ] {
        std::os::unix::fs::symlink(to, &link).unwrap();
        assert!(matches!(Output::may_write(&link, false), Err(Error::Exists(_))));
        match Output::may_write(&link, true) {
            Ok(()) => assert!(may, "{to:?}"),
            Err(e) => assert!(!may && matches!(e, Error::NotAFile(_)), "{to:?}: {e}"),
        }
        fs::remove_file(&link).unwrap();
    }
    std::os::unix::fs::symlink(&file, &link).unwrap();
    Output::create(&link, true).unwrap().commit().unwrap();
    assert!(!link.is_symlink());
    assert_eq!(fs::read(&file).unwrap(), b"file");
}
