//! Damaged files: diagnosis, repair, saving intact tensors, and restoring from a copy.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_edit::EditError;
use gguf_edit::repair::{Comparison, DataState, Diagnosis, Mend};
use gguf_format::{ByteOrder, Dialect, GgmlType, Gguf, Head, TensorInfo, Version};
use gguf_io::{ModelFile, Writer};

fn head() -> Head {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("general.name", "A name");
    head.set("tokenizer.ggml.tokens", (0..300).map(|i| format!("token {i}")).collect::<Vec<String>>());
    head.tensors = vec![
        TensorInfo::new("token_embd.weight", [32, 1000], GgmlType::Q8_0),
        TensorInfo::new("blk.0.attn_q.weight", [64, 300], GgmlType::F16),
        TensorInfo::new("output_norm.weight", [33], GgmlType::F32),
    ];
    head
}

fn bytes_of(head: &Head) -> Vec<u8> {
    let data = head.tensors.iter().enumerate().map(|(i, tensor)| {
        (0..tensor.n_bytes().unwrap())
            .map(|at| (at as usize * 31 + at as usize / 253 + i * 7 + 1) as u8)
            .collect::<Vec<u8>>()
    });
    Writer::write(Vec::new(), head, data).unwrap()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

fn states(diagnosis: &Diagnosis) -> Vec<DataState> {
    diagnosis.tensors().map(|tensor| tensor.state).collect()
}

#[test]
fn a_whole_file_is_whole() {
    let dir = Folder::new();
    for (version, order) in [
        (Version::V1, ByteOrder::Little),
        (Version::V2, ByteOrder::Little),
        (Version::V3, ByteOrder::Little),
        (Version::V3, ByteOrder::Big),
    ] {
        let mut head = head();
        head.dialect = Dialect::new(version).with_order(order);
        let path = dir.write("m.gguf", &bytes_of(&head));
        let diagnosis = Diagnosis::of(&path).unwrap();
        assert!(diagnosis.is_whole(), "{diagnosis:?}");
        let before = fs::read(&path).unwrap();
        diagnosis.mend().unwrap();
        assert!(fs::read(&path).unwrap() == before);
    }
}

#[test]
fn a_cut_file_says_what_it_lacks_and_the_rest_is_saved() {
    let dir = Folder::new();
    let whole = bytes_of(&head());
    let gguf = Gguf::parse(whole.as_slice()).unwrap();
    let range = |i: u64| gguf.tensor_range(&gguf.tensor_by_index(i).unwrap()).unwrap();
    let cases = [
        (range(2).end, [DataState::Whole, DataState::Whole, DataState::Whole]),
        (range(2).end - 1, [DataState::Whole, DataState::Whole, DataState::Cut { missing: 1 }]),
        (range(2).start, [DataState::Whole, DataState::Whole, DataState::Missing]),
        (range(1).start + 100, [DataState::Whole, DataState::Cut { missing: 38_300 }, DataState::Missing]),
        (range(0).start, [DataState::Missing; 3]),
    ];
    for (len, expected) in cases {
        let path = dir.write("m.gguf", &whole[..len as usize]);
        let diagnosis = Diagnosis::of(&path).unwrap();
        assert_eq!(states(&diagnosis), expected, "{len}");
        assert_eq!(diagnosis.whole_bytes(), Some(whole.len() as u64));
        assert!(diagnosis.problem().is_none() && !diagnosis.is_whole());
        let out = dir.0.path().join("saved.gguf");
        let saved = diagnosis.save(&out, true, &());
        if expected == [DataState::Missing; 3] {
            assert!(matches!(saved.unwrap_err().problem(), EditError::NothingWhole));
            continue;
        }
        assert_eq!(saved.unwrap(), fs::metadata(&out).unwrap().len());
        let there = fs::read(&out).unwrap();
        let saved = Gguf::parse(there.as_slice()).unwrap();
        assert_eq!(saved.n_kv(), 3);
        let n = expected.iter().take_while(|state| **state == DataState::Whole).count() as u64;
        assert_eq!(saved.n_tensors(), n);
        for i in 0..n {
            let now = saved.tensor_range(&saved.tensor_by_index(i).unwrap()).unwrap();
            assert!(
                there[now.start as usize..now.end as usize] == whole[range(i).start as usize..range(i).end as usize]
            );
        }
    }
    // Only padding is missing.
    let path = dir.write("m.gguf", &whole[..range(2).end as usize]);
    let diagnosis = Diagnosis::of(&path).unwrap();
    assert_eq!(diagnosis.mends(), [Mend::Padding { missing: whole.len() as u64 - range(2).end }]);
    diagnosis.mend().unwrap();
    assert!(fs::read(&path).unwrap() == whole);
}

#[test]
fn a_damaged_start_is_mended() {
    let dir = Folder::new();
    for (version, order) in
        [(Version::V2, ByteOrder::Little), (Version::V3, ByteOrder::Little), (Version::V3, ByteOrder::Big)]
    {
        let mut head = head();
        head.dialect = Dialect::new(version).with_order(order);
        let whole = bytes_of(&head);
        for at in 0..24 {
            for bit in [0, 3, 7] {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                let path = dir.write("m.gguf", &damaged);
                let diagnosis = Diagnosis::of(&path).unwrap();
                if diagnosis.is_whole() {
                    // Versions 2 and 3 differ in one bit, and both are possible.
                    assert!(bit == 0 && at == if order == ByteOrder::Big { 7 } else { 4 }, "{at} {bit}");
                    continue;
                }
                assert!(
                    diagnosis.problem().is_some() && !diagnosis.mends().is_empty(),
                    "byte {at} bit {bit}: {diagnosis:?}"
                );
                diagnosis.mend().unwrap();
                let mut mended = fs::read(&path).unwrap();
                if version == Version::V2 {
                    // Version 3 in little-endian order differs only in its number.
                    mended[4] = 2;
                }
                assert!(mended == whole, "byte {at} bit {bit}");
            }
        }
        // All damage at once.
        let mut damaged = whole.clone();
        damaged[..24].fill(0xff);
        let path = dir.write("m.gguf", &damaged);
        let diagnosis = Diagnosis::of(&path).unwrap();
        assert_eq!(diagnosis.mends().len(), 2, "{diagnosis:?}");
        diagnosis.mend().unwrap();
        assert!(Diagnosis::of(&path).unwrap().is_whole());
        assert!(fs::read(&path).unwrap()[8..] == whole[8..]);
    }
}

#[test]
fn offsets_are_mended_where_the_length_determines_them() {
    let dir = Folder::new();
    let whole = bytes_of(&head());
    let gguf = Gguf::parse(whole.as_slice()).unwrap();
    let last = gguf.tensor_by_index(2).unwrap();
    let info = last.info_offset as usize;
    let at = info + 8 + last.name.as_bytes().len() + 4 + 8 + 4;
    assert_eq!(whole[at..at + 8], last.offset.to_le_bytes());
    for wrong in [0u64, 1, last.offset + 32, u64::MAX] {
        let mut damaged = whole.clone();
        damaged[at..at + 8].copy_from_slice(&wrong.to_le_bytes());
        let path = dir.write("m.gguf", &damaged);
        let diagnosis = Diagnosis::of(&path).unwrap();
        let expected = Mend::Offset { tensor: "output_norm.weight".into(), found: wrong, right: last.offset };
        assert_eq!(diagnosis.mends(), [expected], "{wrong}");
        diagnosis.mend().unwrap();
        assert!(fs::read(&path).unwrap() == whole, "{wrong}");
        // In a file of another length, the counts and offsets are not determined.
        let path = dir.write("m.gguf", &[damaged.as_slice(), &[0; 64]].concat());
        assert!(!Diagnosis::of(&path).unwrap().mends().iter().any(|mend| matches!(mend, Mend::Offset { .. })));
    }
    // Tensors in another order, and gaps, are not damage.
    let mut moved = whole.clone();
    let first = gguf.tensor_by_index(0).unwrap().info_offset as usize + 8 + "token_embd.weight".len() + 4 + 16 + 4;
    let far = whole.len().next_multiple_of(32) as u64 - gguf.data_offset();
    moved[first..first + 8].copy_from_slice(&far.to_le_bytes());
    let data = moved[gguf.data_offset() as usize..][..34_000].to_vec();
    moved.extend(data);
    moved.resize(moved.len().next_multiple_of(32), 0);
    let path = dir.write("m.gguf", &moved);
    assert!(Diagnosis::of(&path).unwrap().is_whole());
}

/// The place of a tensor's offset in the head.
fn offset_at(bytes: &[u8], index: u64) -> usize {
    let gguf = Gguf::parse(bytes).unwrap();
    let tensor = gguf.tensor_by_index(index).unwrap();
    tensor.info_offset as usize + 8 + tensor.name.as_bytes().len() + 4 + 8 * tensor.dims.count() + 4
}

fn offset(bytes: &[u8], index: u64) -> u64 {
    Gguf::parse(bytes).unwrap().tensor_by_index(index).unwrap().offset
}

fn set_offset(bytes: &mut [u8], index: u64, offset: u64) {
    let at = offset_at(bytes, index);
    bytes[at..at + 8].copy_from_slice(&offset.to_le_bytes());
}

/// A file whose head lists the second and the third tensor, which have equal sizes, in the other order than their data.
fn with_swapped_data() -> Vec<u8> {
    let mut head = head();
    head.tensors.insert(1, TensorInfo::new("blk.0.attn_k.weight", [64, 300], GgmlType::F16));
    let mut bytes = bytes_of(&head);
    let [k, q] = [1, 2].map(|index| offset(&bytes, index));
    set_offset(&mut bytes, 1, q);
    set_offset(&mut bytes, 2, k);
    bytes
}

#[test]
fn offsets_that_may_be_right_are_kept() {
    let dir = Folder::new();
    for whole in [with_swapped_data(), bytes_of(&head())] {
        assert!(Diagnosis::of(dir.write("m.gguf", &whole)).unwrap().is_whole());
        let last = Gguf::parse(whole.as_slice()).unwrap().n_tensors() - 1;
        let right = offset(&whole, last);
        // Not aligned; outside of the file; at the start of another tensor, and inside of one.
        for wrong in [1, right + 32, u64::MAX, 0, offset(&whole, 1) + 4096] {
            let mut damaged = whole.clone();
            set_offset(&mut damaged, last, wrong);
            let path = dir.write("m.gguf", &damaged);
            let diagnosis = Diagnosis::of(&path).unwrap();
            let expected = Mend::Offset { tensor: "output_norm.weight".into(), found: wrong, right };
            assert_eq!(diagnosis.mends(), [expected], "{wrong}");
            diagnosis.mend().unwrap();
            assert!(fs::read(&path).unwrap() == whole, "{wrong}");
        }
    }
}

#[test]
fn offsets_that_have_two_solutions_are_not_mended() {
    let dir = Folder::new();
    let mut tensors = head();
    tensors.tensors.insert(1, TensorInfo::new("blk.0.attn_k.weight", [64, 300], GgmlType::F16));
    for whole in [with_swapped_data(), bytes_of(&tensors)] {
        let copy = dir.write("copy.gguf", &whole);
        // Two tensors of the same size in one place, and two without a place.
        for wrong in [[offset(&whole, 1); 2], [offset(&whole, 2); 2], [u64::MAX; 2], [u64::MAX, 1]] {
            let mut damaged = whole.clone();
            set_offset(&mut damaged, 1, wrong[0]);
            set_offset(&mut damaged, 2, wrong[1]);
            let path = dir.write("m.gguf", &damaged);
            let diagnosis = Diagnosis::of(&path).unwrap();
            assert_eq!(diagnosis.mends(), [], "{wrong:?}");
            assert!(!diagnosis.is_whole(), "{wrong:?}");
            let unplaced = [DataState::Whole, DataState::Unplaced, DataState::Unplaced, DataState::Whole];
            assert_eq!(states(&diagnosis), unplaced, "{wrong:?}");
            diagnosis.mend().unwrap();
            assert!(fs::read(&path).unwrap() == damaged, "{wrong:?}");
            // The others are saved, and a copy determines the rest.
            let out = dir.0.path().join("out.gguf");
            diagnosis.save(&out, true, &()).unwrap();
            assert_eq!(ModelFile::open(&out).unwrap().gguf().n_tensors(), 2);
            repaired(&path, &copy).unwrap();
            assert!(fs::read(&path).unwrap() == whole, "{wrong:?}");
        }
        // The last tensor at the start of the one before it: both orders fill the file.
        let before = offset(&whole, 1).max(offset(&whole, 2));
        let mut damaged = whole.clone();
        set_offset(&mut damaged, 3, before);
        let path = dir.write("m.gguf", &damaged);
        let diagnosis = Diagnosis::of(&path).unwrap();
        assert_eq!(diagnosis.mends(), []);
        assert_eq!(states(&diagnosis).iter().filter(|state| **state == DataState::Unplaced).count(), 2);
        repaired(&path, &copy).unwrap();
        assert!(fs::read(&path).unwrap() == whole);
    }
}

#[test]
fn what_is_not_determined_is_said() {
    let dir = Folder::new();
    let whole = bytes_of(&head());
    // The length of a key in the middle of the head.
    let at = whole.windows(12).position(|w| w == b"general.name").unwrap() - 8;
    let mut damaged = whole.clone();
    damaged[at..at + 8].fill(0xff);
    for bytes in [damaged.as_slice(), b"<!DOCTYPE html>", &whole[..20], &whole[..1000], &[]] {
        let path = dir.write("m.gguf", bytes);
        let diagnosis = Diagnosis::of(&path).unwrap();
        assert!(!diagnosis.has_head() && diagnosis.problem().is_some(), "{diagnosis:?}");
        let error = diagnosis.mend().unwrap_err();
        assert!(matches!(error.problem(), EditError::NotDetermined { .. }), "{error}");
        let error = diagnosis.save(&dir.0.path().join("out.gguf"), false, &()).unwrap_err();
        assert!(error.to_string().contains("an intact copy is needed"), "{error}");
        assert!(fs::read(&path).unwrap() == bytes);
    }
    assert!(Diagnosis::of(dir.0.path()).is_err() && Diagnosis::of(dir.0.path().join("none")).is_err());
}

fn repaired(path: &Path, other: &Path) -> Result<(u64, usize), EditError> {
    let diagnosis = Diagnosis::of(path)?;
    let comparison = Comparison::new(&diagnosis, other, &())?;
    comparison.repair(&())?;
    Ok((comparison.bad_bytes(), comparison.bad().len()))
}

#[test]
fn bad_ranges_are_copied_from_a_whole_copy() {
    let dir = Folder::new();
    let whole = bytes_of(&head());
    let copy = dir.write("copy.gguf", &whole);
    let gguf = Gguf::parse(whole.as_slice()).unwrap();
    let data = gguf.data_offset() as usize;
    // Bytes of one tensor; only the affected units are copied.
    let mut damaged = whole.clone();
    damaged[data + 20_000] ^= 1;
    let path = dir.write("m.gguf", &damaged);
    let diagnosis = Diagnosis::of(&path).unwrap();
    let comparison = Comparison::new(&diagnosis, &copy, &()).unwrap();
    assert_eq!((comparison.bad().len(), comparison.bad_bytes()), (1, 4096));
    assert_eq!(comparison.bad()[0].tensor.as_deref(), Some(&b"token_embd.weight"[..]));
    assert!(!comparison.is_same());
    comparison.repair(&()).unwrap();
    assert!(fs::read(&path).unwrap() == whole);
    let diagnosis = Diagnosis::of(&path).unwrap();
    assert!(Comparison::new(&diagnosis, &copy, &()).unwrap().is_same());
    // Various lengths of an interrupted download, and a hole.
    for len in [0, 10, 24, 500, data, data + 1, data + 40_000, whole.len() - 1] {
        let path = dir.write("m.gguf", &whole[..len]);
        repaired(&path, &copy).unwrap();
        assert!(fs::read(&path).unwrap() == whole, "{len}");
    }
    // A lost head: the repaired file is identical.
    let mut damaged = whole.clone();
    damaged[100..300].fill(0xff);
    damaged.truncate(data + 50_000);
    let path = dir.write("m.gguf", &damaged);
    assert!(!Diagnosis::of(&path).unwrap().has_head());
    repaired(&path, &copy).unwrap();
    assert!(fs::read(&path).unwrap() == whole);
    // A head that can be repaired, and data that cannot.
    let mut damaged = whole.clone();
    damaged[0] = 0;
    damaged[data + 5] ^= 1;
    let path = dir.write("m.gguf", &damaged);
    repaired(&path, &copy).unwrap();
    assert!(fs::read(&path).unwrap() == whole);
}

#[test]
fn the_copy_may_have_other_keys_and_shards() {
    let dir = Folder::new();
    let whole = bytes_of(&head());
    let mut other = head();
    other.set("general.name", "Another name, of another length");
    other.set("general.alignment", 64u32);
    let copy = dir.write("copy.gguf", &bytes_of(&other));
    let data = Gguf::parse(whole.as_slice()).unwrap().data_offset() as usize;
    let mut damaged = whole.clone();
    damaged[data..data + 10_000].fill(0);
    damaged.truncate(whole.len() - 5000);
    let path = dir.write("m.gguf", &damaged);
    repaired(&path, &copy).unwrap();
    assert!(fs::read(&path).unwrap() == whole);
    assert_eq!(ModelFile::open(&path).unwrap().gguf().get_as::<&str>("general.name"), Ok("A name"));
    // The same in two shards, each with some of the tensors.
    let parsed = Gguf::parse(whole.as_slice()).unwrap();
    for (no, tensors) in [(0u16, 0..2u64), (1, 2..3)] {
        let mut shard = Head::default();
        shard.set("split.no", no);
        shard.set("split.count", 2u16);
        shard.set("split.tensors.count", 3i32);
        shard.tensors = tensors.clone().map(|i| parsed.tensor_by_index(i).unwrap().to_owned()).collect();
        let data = tensors.map(|i| {
            let range = parsed.tensor_range(&parsed.tensor_by_index(i).unwrap()).unwrap();
            &whole[range.start as usize..range.end as usize]
        });
        let name = format!("s-{:05}-of-00002.gguf", no + 1);
        dir.write(&name, &Writer::write(Vec::new(), &shard, data).unwrap());
    }
    let path = dir.write("m.gguf", &damaged);
    repaired(&path, &dir.0.path().join("s-00002-of-00002.gguf")).unwrap();
    assert!(fs::read(&path).unwrap() == whole);
}

#[test]
fn what_is_no_whole_copy_is_refused() {
    let dir = Folder::new();
    let whole = bytes_of(&head());
    let damaged = &whole[..whole.len() - 30_000];
    let path = dir.write("m.gguf", damaged);
    let assert = |other: &[u8], message: &str| {
        let other = dir.write("other.gguf", other);
        let error = repaired(&path, &other).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        assert!(fs::read(&path).unwrap() == damaged);
    };
    assert(damaged, "other.gguf is damaged as well: the data of blk.0.attn_q.weight is incomplete");
    assert(b"GGUF", "other.gguf is damaged as well: ");
    let mut other = head();
    other.tensors[1].name = b"blk.0.attn_k.weight".to_vec();
    assert(&bytes_of(&other), "is not a copy of this file: it has no tensor blk.0.attn_q.weight");
    let mut other = head();
    other.tensors[1].shape = vec![300, 64];
    assert(&bytes_of(&other), "blk.0.attn_q.weight has a different type or shape in the copy");
    let data = Gguf::parse(whole.as_slice()).unwrap().data_offset() as usize;
    let different: Vec<u8> = whole.iter().enumerate().map(|(i, b)| if i > data { b ^ 0x11 } else { *b }).collect();
    assert(&different, " bytes differ");
    let error = repaired(&path, &path).unwrap_err();
    assert!(matches!(error.problem(), EditError::SameFile), "{error}");
}
