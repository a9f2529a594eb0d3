//! Hashes: recorded results of llama-gguf-hash, independence of the number of threads, and the scope of the content digest.

use std::fs;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::Path;

use crate::common::{Layout, layouts, write};
use gguf_edit::hash::{Algorithm, HashOptions, Hashes, hash};
use gguf_edit::{Limit, SplitOptions, split};
use gguf_format::{GgmlType, Gguf, Head, TensorInfo};
use gguf_io::Model;
use gguf_pipeline::{Event, Progress, RunOptions};
use gguf_test::files::folder;

fn hashes(path: &Path, algorithms: &[Algorithm], threads: usize) -> Hashes {
    let model = Model::open(path).unwrap();
    let options = HashOptions::new(algorithms).threads(NonZeroUsize::new(threads));
    hash(model.files(), &options, &()).unwrap()
}

fn content(path: &Path) -> [String; 2] {
    let model = hashes(path, &[Algorithm::Content], 2).model;
    let [(Algorithm::Content, content), (Algorithm::Metadata, metadata)] = model.as_slice() else {
        panic!("{model:?}")
    };
    [content.clone(), metadata.clone()]
}

/// The output of `llama-gguf-hash --all --uuid` for the small model.
const RECORDED: &str = "\
xxh64 bd87f3d745476c78 blk.0.weight
sha1 692485958101577cd5b35c2a924f5731a1bc72d9 blk.0.weight
sha256 06405a11f74da93a288e76e02337c73fc86129a590211a4a63d128303be8ec02 blk.0.weight
xxh64 a42afe9a27532052 blk.1.weight
sha1 d1793364a972eb36589812e3e02b1778f0fb0def blk.1.weight
sha256 6aaa3b33eaddbf1c42ea1cc5f362f561ed2a66edd3ad8a2498ab81a14b680d3f blk.1.weight
xxh64 60aefff013aef1d2
sha1 686a4f497fb01e1e096e2ce9f3a1adaf65a2da4b
sha256 3c0838ed12ae3b86e75d0d919105a396ff294c9c6317b1fca45b02e38f083d20
uuid a75e5805-3077-59bc-b58d-9adb3919768e
";

#[test]
fn hashes_are_those_of_llama_gguf_hash() {
    let dir = folder();
    let model = write(dir.path(), "model.gguf", &Layout::default());
    let all = [Algorithm::Xxh64, Algorithm::Sha1, Algorithm::Sha256, Algorithm::Uuid];
    let hashes = hashes(&model, &all, 3);
    let mut lines = String::new();
    for tensor in hashes.tensors().take(2) {
        for (algorithm, hash) in &tensor.hashes {
            lines += &format!("{algorithm} {hash} {}\n", String::from_utf8_lossy(tensor.name));
        }
    }
    for (algorithm, hash) in &hashes.model {
        lines += &format!("{algorithm} {hash}\n");
    }
    assert_eq!(lines, RECORDED);
}

/// A model with tensors of about the size of the hashed chunks.
fn large(path: &Path) {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    let sizes = [3u64, 0, 1 << 18, (1 << 18) + 1, 5, 9 << 18, 7, 8 << 16, (1 << 18) - 1];
    head.tensors =
        sizes.iter().enumerate().map(|(i, &n)| TensorInfo::new(format!("t{i}"), [n], GgmlType::F32)).collect();
    let mut state = 1u64;
    let data = sizes.iter().map(|&n| {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        (0..n).flat_map(|_| next().to_le_bytes()).collect::<Vec<u8>>()
    });
    fs::write(path, gguf_io::Writer::write(Vec::new(), &head, data.collect::<Vec<_>>()).unwrap()).unwrap();
}

#[test]
fn hashes_do_not_depend_on_the_number_of_threads() {
    let dir = folder();
    let path = dir.path().join("large.gguf");
    large(&path);
    let expected = hashes(&path, &Algorithm::ALL, 1);
    for threads in [2, 3, 8] {
        assert_eq!(hashes(&path, &Algorithm::ALL, threads), expected, "{threads}");
    }
    // Each algorithm gives the same alone and with others; so do tensors without the model, and the model without tensors.
    for algorithm in Algorithm::ALL {
        let alone = hashes(&path, &[algorithm], 2);
        let of = |list: &[(Algorithm, String)]| list.iter().find(|(a, _)| *a == algorithm).cloned();
        if algorithm != Algorithm::Metadata {
            assert_eq!(of(&alone.model), of(&expected.model), "{algorithm}");
        }
        for (a, b) in alone.tensors().zip(expected.tensors()) {
            assert_eq!(of(&a.hashes), of(&b.hashes), "{algorithm}");
        }
    }
    let model = Model::open(&path).unwrap();
    let options = HashOptions::new(Algorithm::ALL);
    assert_eq!(hash(model.files(), &options.clone().no_tensors(true), &()).unwrap().model, expected.model);
    assert!(hash(model.files(), &options.no_model(true), &()).unwrap().tensors().eq(expected.tensors()));
}

#[test]
fn hashing_ends_when_it_is_cancelled_or_a_file_is_cut() {
    struct Stop;
    impl Progress for Stop {
        fn event(&self, _: Event<'_>) {}
        fn is_cancelled(&self) -> bool {
            true
        }
    }
    let dir = folder();
    let path = dir.path().join("large.gguf");
    large(&path);
    let model = Model::open(&path).unwrap();
    for threads in [1, 4] {
        let options = HashOptions::new(Algorithm::ALL).threads(NonZeroUsize::new(threads));
        assert!(hash(model.files(), &options, &Stop).unwrap_err().to_string().contains("interrupted"));
    }
    // Truncated while it is open: one thread reports the error, and the others do not wait for it.
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(6 << 20).unwrap();
    for options in [HashOptions::new(Algorithm::ALL), HashOptions::new(Algorithm::ALL).no_model(true)] {
        let e = hash(model.files(), &options.threads(NonZeroUsize::new(4)), &()).unwrap_err();
        assert!(e.to_string().contains("large.gguf: cannot read"), "{e}");
    }
}

#[test]
fn the_content_digest_does_not_depend_on_the_layout() {
    let dir = folder();
    let expected = content(&write(dir.path(), "plain.gguf", &Layout::default()));
    for (name, layout) in layouts() {
        let model = write(dir.path(), "model.gguf", &layout);
        let found = content(&model);
        // These have other content.
        let differs = ["aligned to 64", "aligned to 8", "was merged", "dimensions of 1", "shared data", "no tensors"]
            .contains(&name);
        assert_eq!(found != expected, differs, "{name}");
        let options = SplitOptions::new(Limit::Tensors(NonZeroU64::new(4).unwrap()));
        let plan = split(&model, &options).unwrap().plan;
        let shards = plan.run(dir.path().join(name), &RunOptions::default(), &()).unwrap().paths;
        assert_eq!(content(&shards[0]), found, "{name}");
        let plan = gguf_edit::rewrite::swap(&shards[0], None).unwrap();
        let swapped = dir.path().join(format!("{name} swapped.gguf"));
        plan.run(&swapped, &RunOptions::default(), &()).unwrap();
        assert_eq!(content(&swapped), found, "{name}");
        let plan = gguf_edit::rewrite::reorder(&model, &gguf_edit::rewrite::Order::Sizes).unwrap();
        let reordered = dir.path().join(format!("{name} reordered.gguf"));
        plan.run(&reordered, &RunOptions::default(), &()).unwrap();
        assert_eq!(content(&reordered), found, "{name}");
    }
}

#[test]
fn the_content_digest_covers_everything() {
    let dir = folder();
    let path = write(dir.path(), "plain.gguf", &Layout::default());
    let [expected, metadata] = content(&path);
    let bytes = fs::read(&path).unwrap();
    let gguf = Gguf::parse(&bytes).unwrap();
    let changed = |change: &dyn Fn(&mut Head, &mut Vec<Vec<u8>>)| {
        let mut head = Head::from(&gguf);
        let mut data: Vec<Vec<u8>> = gguf
            .tensors()
            .map(|t| gguf.tensor_range(&t).unwrap())
            .map(|r| bytes[r.start as usize..r.end as usize].to_vec())
            .collect();
        change(&mut head, &mut data);
        let path = dir.path().join("changed.gguf");
        fs::write(&path, gguf_io::Writer::write(Vec::new(), &head, data).unwrap()).unwrap();
        content(&path)
    };
    assert_eq!(changed(&|_, _| ()), [expected.clone(), metadata.clone()]);
    type Change = &'static dyn Fn(&mut Head, &mut Vec<Vec<u8>>);
    let changes: [(bool, Change); 7] = [
        (true, &|head, _| head.set("general.name", "odd")),
        (true, &|head, _| head.set("new", 1u8)),
        (true, &|head, _| head.kvs[2].key = b"odd.number".to_vec()),
        (false, &|head, _| head.tensors[3].name = b"blk.3.weights".to_vec()),
        (false, &|head, _| head.tensors[3].shape.reverse()),
        (false, &|head, _| head.tensors[3].ty = GgmlType::I32),
        (false, &|_, data| data[8][17] ^= 1),
    ];
    for (i, (of_metadata, change)) in changes.into_iter().enumerate() {
        let [new, new_metadata] = changed(change);
        assert_ne!(new, expected, "{i}");
        assert_eq!(new_metadata != metadata, of_metadata, "{i}");
    }
}
