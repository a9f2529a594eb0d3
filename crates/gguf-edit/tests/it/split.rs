//! Splitting and merging: any file is restored, and shards respect their size.

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use crate::common::{Layout, bytes, layouts, write};
use gguf_edit::{Error, Limit, SplitOptions, merge, split};
use gguf_format::{Gguf, Head};
use gguf_pipeline::{RunOptions, UNSPLIT_HEAD};
use gguf_test::files::{folder, names};

fn limit(of: fn(NonZeroU64) -> Limit, n: u64) -> Limit {
    of(NonZeroU64::new(n).unwrap())
}

fn limits() -> Vec<SplitOptions> {
    let mut all = Vec::new();
    for limit in [
        limit(Limit::Tensors, 1),
        limit(Limit::Tensors, 4),
        limit(Limit::Tensors, 100),
        limit(Limit::DataBytes, 1),
        limit(Limit::DataBytes, 700),
        limit(Limit::FileBytes, 3000),
        limit(Limit::FileBytes, 1 << 20),
    ] {
        all.extend([false, true].map(|first| SplitOptions::new(limit).no_tensor_first(first)));
    }
    all
}

fn split_to(model: &Path, prefix: &Path, options: &SplitOptions) -> Vec<PathBuf> {
    split(model, options).unwrap().plan.run(prefix, &RunOptions::default(), &()).unwrap().paths
}

fn merge_to(shard: &Path, out: &Path) -> bool {
    let merge = merge(shard).unwrap();
    merge.plan.run(out, &RunOptions::default().force(true), &()).unwrap();
    merge.restores_layout
}

#[test]
fn merging_what_was_split_gives_the_same_file() {
    for (name, layout) in layouts() {
        let dir = folder();
        let model = write(dir.path(), "model.gguf", &layout);
        for (i, options) in limits().iter().enumerate() {
            let shards = split_to(&model, &dir.path().join(format!("s{i}")), options);
            let out = dir.path().join("out.gguf");
            let restored = merge_to(shards.last().unwrap(), &out);
            assert!(fs::read(&out).unwrap() == bytes(&layout), "{name} {options:?}");
            // A packed layout is not recorded.
            let is_packed = ["plain", "big-endian", "aligned to 64", "aligned to 8", "dimensions of 1", "no tensors"]
                .contains(&name);
            assert_eq!(restored, !is_packed, "{name}");
            let head = fs::read(&shards[0]).unwrap();
            assert_eq!(Gguf::parse(&head).unwrap().get(UNSPLIT_HEAD).is_some(), !is_packed, "{name}");
            gguf_edit::merge::verify(&model, &out, None, &()).unwrap();
            gguf_edit::merge::verify(&model, &shards[0], None, &()).unwrap();
            // Split again, from shards to shards.
            let again = SplitOptions::new(limit(Limit::Tensors, 2));
            let others = split_to(&shards[0], &dir.path().join(format!("again{i}")), &again);
            merge_to(&others[0], &out);
            assert!(fs::read(&out).unwrap() == bytes(&layout), "{name} {options:?}");
        }
    }
}

#[test]
fn no_shard_exceeds_its_size() {
    for layout in [Layout::default(), Layout { ones: true, ..Layout::default() }] {
        no_shard_exceeds(&layout);
    }
}

fn no_shard_exceeds(layout: &Layout) {
    let dir = folder();
    let model = write(dir.path(), "model.gguf", layout);
    let whole = fs::metadata(&model).unwrap().len();
    let mut n_refused = 0;
    for size in (64..whole + 300).step_by(61) {
        for first in [false, true] {
            let options = SplitOptions::new(limit(Limit::FileBytes, size)).no_tensor_first(first);
            match split(&model, &options) {
                Ok(split) => {
                    let files: Vec<u64> = split.plan.files().iter().map(|f| f.file_bytes()).collect();
                    assert!(files.iter().all(|&bytes| bytes <= size), "{size}: {files:?}");
                    // No two neighbouring shards would fit together, except for an empty first one.
                    let n: usize = split.plan.files().iter().map(|f| f.tensors().len()).sum();
                    assert_eq!(n, 9);
                    let empty = split.plan.files().iter().filter(|f| f.tensors().is_empty()).count();
                    assert!(empty <= 1, "{size}");
                }
                Err(Error::ShardTooSmall { needed, limit, .. }) => {
                    n_refused += 1;
                    assert!(needed > limit && limit == size);
                }
                Err(e) => panic!("{size}: {e}"),
            }
        }
    }
    assert!(n_refused > 4);
    // The smallest possible limit.
    let options = |size| SplitOptions::new(limit(Limit::FileBytes, size));
    let Err(Error::ShardTooSmall { mut needed, .. }) = split(&model, &options(64)) else { panic!() };
    while let Err(Error::ShardTooSmall { needed: more, .. }) = split(&model, &options(needed)) {
        assert!(more > needed);
        needed = more;
    }
    assert!(split(&model, &options(needed)).is_ok() && split(&model, &options(needed - 1)).is_err());
}

#[test]
fn a_tensor_that_is_too_large_stands_alone() {
    let dir = folder();
    let model = write(dir.path(), "model.gguf", &Layout::default());
    let split = split(&model, &SplitOptions::new(limit(Limit::DataBytes, 400))).unwrap();
    // Tensors of 40, 96, 152, 208, ... bytes, each padded to 32.
    let counts: Vec<usize> = split.plan.files().iter().map(|f| f.tensors().len()).collect();
    assert_eq!(counts, [3, 1, 1, 1, 1, 1, 1]);
    assert_eq!(split.too_large, ["blk.7.weight", "blk.8.weight"]);
    // With an empty first shard too: no other shard is left without tensors.
    for first in [false, true] {
        let options = SplitOptions::new(limit(Limit::DataBytes, 1)).no_tensor_first(first);
        let split = gguf_edit::split(&model, &options).unwrap();
        let counts: Vec<usize> = split.plan.files().iter().map(|f| f.tensors().len()).collect();
        assert_eq!(counts[usize::from(first)..], [1; 9]);
    }
}

#[test]
fn what_no_tensor_owns_is_reported() {
    let dir = folder();
    let layout = Layout { gaps: 2, trailing: 40, ..Layout::default() };
    let path = write(dir.path(), "model.gguf", &layout);
    let options = SplitOptions::new(limit(Limit::Tensors, 4));
    assert!(split(&path, &options).unwrap().lost.is_empty());
    let mut bytes = bytes(&layout);
    let len = bytes.len();
    bytes[len - 1] = 1;
    let start = Gguf::parse(&bytes).unwrap().data_offset() as usize;
    bytes[start + 3] = 1;
    fs::write(&path, &bytes).unwrap();
    let lost = split(&path, &options).unwrap().lost;
    assert_eq!(lost.len(), 2, "{lost:?}");
    assert!(lost[0].contains(&(start as u64 + 3)) && lost[1].contains(&(len as u64 - 1)));
}

/// Changes the head of a file without space for more.
fn edit(path: &Path, change: impl Fn(&mut Head)) {
    let bytes = fs::read(path).unwrap();
    let gguf = Gguf::parse(&bytes).unwrap();
    let mut head = Head::from(&gguf);
    change(&mut head);
    let data = gguf.tensors().map(|t| {
        let range = gguf.tensor_range(&t).unwrap();
        &bytes[range.start as usize..range.end as usize]
    });
    let new = gguf_io::Writer::write(Vec::new(), &head, data).unwrap();
    fs::write(path, new).unwrap();
}

#[test]
fn a_note_that_is_not_true_any_more_is_left_out() {
    let dir = folder();
    let layout = Layout { gaps: 3, ..Layout::default() };
    let model = write(dir.path(), "model.gguf", &layout);
    let options = SplitOptions::new(limit(Limit::Tensors, 4));
    type Change = fn(&mut Head);
    let changes: &[Change] = &[
        |head| head.set("general.name", "Another"),
        |head| head.set("new.key", 1u8),
        |head| head.tensors[1].name = b"renamed".to_vec(),
        |head| head.set(UNSPLIT_HEAD, vec![1u8; 5]),
        |head| head.set(UNSPLIT_HEAD, vec![1u32; 50]),
        |head| head.set(UNSPLIT_HEAD, "text"),
    ];
    for (i, change) in changes.iter().enumerate() {
        let shards = split_to(&model, &dir.path().join(format!("s{i}")), &options);
        edit(&shards[0], change);
        let out = dir.path().join(format!("out{i}.gguf"));
        assert!(!merge_to(&shards[0], &out), "{i}");
        let merged = fs::read(&out).unwrap();
        let gguf = Gguf::parse(&merged).unwrap();
        assert!(gguf.get(UNSPLIT_HEAD).is_none() && gguf.get("split.no").is_none(), "{i}");
        assert_eq!(gguf.n_tensors(), 9, "{i}");
    }
}

/// A record may come from anyone: offsets outside of the file, in the head, or overlapping tensors are rejected.
#[test]
fn a_note_with_impossible_places_is_left_out_or_refused() {
    let dir = folder();
    let layout = Layout { gaps: 3, ..Layout::default() };
    let model = write(dir.path(), "model.gguf", &layout);
    let options = SplitOptions::new(limit(Limit::Tensors, 4));
    let head_bytes = Gguf::parse(bytes(&layout)).unwrap().head_bytes() as usize;
    // The last eight bytes of a head are the offset of its last tensor.
    for (i, (file_bytes, offset)) in [
        (None, Some(96u64)),
        (None, Some(1 << 40)),
        (None, Some(u64::MAX - 31)),
        (Some(100u64), None),
        (Some(u64::MAX), None),
    ]
    .into_iter()
    .enumerate()
    {
        let shards = split_to(&model, &dir.path().join(format!("s{i}")), &options);
        edit(&shards[0], |head| {
            let array = head.get(UNSPLIT_HEAD).unwrap().as_array().unwrap();
            let mut note = array.encoded_bytes().to_vec();
            assert_eq!(note.len(), 8 + head_bytes);
            if let Some(n) = file_bytes {
                note[..8].copy_from_slice(&n.to_le_bytes());
            }
            if let Some(n) = offset {
                note[head_bytes..].copy_from_slice(&n.to_le_bytes());
            }
            head.set(UNSPLIT_HEAD, note);
        });
        let out = dir.path().join(format!("out{i}.gguf"));
        match merge(&shards[0]) {
            Ok(merge) => match merge.plan.run(&out, &RunOptions::default(), &()) {
                Ok(_) => assert!(!merge.restores_layout, "{i}"),
                Err(_) => assert!(!out.exists(), "{i}"),
            },
            Err(Error::Pipeline(_)) => {}
            Err(e) => panic!("{i}: {e}"),
        }
    }
}

#[test]
fn an_input_is_never_an_output_and_nothing_is_overwritten() {
    let dir = folder();
    let model = write(dir.path(), "model.gguf", &Layout::default());
    let options = SplitOptions::new(limit(Limit::Tensors, 4));
    let shards = split_to(&model, &dir.path().join("s"), &options);
    let before: Vec<Vec<u8>> = shards.iter().map(|path| fs::read(path).unwrap()).collect();
    let force = RunOptions::default().force(true);
    // Other shards under the same names.
    let again = split(&shards[1], &options).unwrap();
    for options in [RunOptions::default(), force.clone()] {
        let e = again.plan.run(dir.path().join("s"), &options, &()).unwrap_err();
        assert!(matches!(e, gguf_pipeline::Error::OverwritesInput { .. }), "{e}");
    }
    let merged = merge(&shards[0]).unwrap();
    let e = merged.plan.run(&shards[2], &force, &()).unwrap_err();
    assert!(matches!(e, gguf_pipeline::Error::OverwritesInput { .. }), "{e}");
    let other = dir.path().join("other.gguf");
    fs::write(&other, "precious").unwrap();
    assert!(merged.plan.run(&other, &RunOptions::default(), &()).is_err());
    assert_eq!(fs::read(&other).unwrap(), b"precious");
    assert_eq!(shards.iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>(), before);
    assert_eq!(names(dir.path()).len(), 5);
}

#[test]
fn a_copy_that_differs_is_told() {
    let dir = folder();
    let model = write(dir.path(), "model.gguf", &Layout::default());
    let good = bytes(&Layout::default());
    let copy = dir.path().join("copy.gguf");
    let verify = || gguf_edit::merge::verify(&model, &copy, None, &());
    fs::write(&copy, &good).unwrap();
    verify().unwrap();
    let n = good.len();
    let name = good.windows(3).position(|w| w == b"Odd").unwrap();
    for (at, what) in [(n - 40, "byte "), (name, "the metadata")] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&copy, &bad).unwrap();
        match verify() {
            Err(Error::NotVerified { what: found, .. }) => assert!(found.contains(what), "{found}"),
            other => panic!("{other:?}"),
        }
    }
    write(dir.path(), "copy.gguf", &Layout { n_tensors: 8, ..Layout::default() });
    assert!(matches!(verify(), Err(Error::NotVerified { .. })));
}

#[test]
fn a_model_in_one_file_is_not_merged() {
    let dir = folder();
    let model = write(dir.path(), "model.gguf", &Layout::default());
    assert!(matches!(merge(&model), Err(Error::NotSplit { .. })));
}
