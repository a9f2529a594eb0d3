//! Comparing models: differences, and figures over all tensors.

use std::fs;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};

use crate::common::{Layout, layouts, write};
use gguf_edit::diff::{DataDiff, Diff, DiffOptions, Elements, diff};
use gguf_edit::{Limit, SplitOptions, split};
use gguf_format::{GgmlType, Gguf, Head, TensorInfo, Value};
use gguf_pipeline::RunOptions;
use gguf_test::files::folder;

fn compare(a: &Path, b: &Path) -> Diff {
    diff(a, b, &DiffOptions::default(), &()).unwrap()
}

/// A copy with changes.
fn changed(path: &Path, name: &str, change: impl FnOnce(&mut Head, &mut Vec<Vec<u8>>)) -> PathBuf {
    let bytes = fs::read(path).unwrap();
    let gguf = Gguf::parse(&bytes).unwrap();
    let mut head = Head::from(&gguf);
    let ranges = gguf.tensors().map(|t| gguf.tensor_range(&t).unwrap());
    let mut data: Vec<Vec<u8>> = ranges.map(|r| bytes[r.start as usize..r.end as usize].to_vec()).collect();
    change(&mut head, &mut data);
    let path = path.with_file_name(name);
    fs::write(&path, gguf_io::Writer::write(Vec::new(), &head, data).unwrap()).unwrap();
    path
}

#[test]
fn layouts_make_no_difference() {
    let dir = folder();
    let plain = write(dir.path(), "plain.gguf", &Layout::default());
    for (name, layout) in layouts() {
        let model = write(dir.path(), "model.gguf", &layout);
        let differs = ["aligned to 64", "aligned to 8", "was merged", "dimensions of 1", "shared data", "no tensors"]
            .contains(&name);
        assert_eq!(compare(&plain, &model).is_same(), !differs, "{name}");
        let options = SplitOptions::new(Limit::Tensors(NonZeroU64::new(2).unwrap()));
        let plan = split(&model, &options).unwrap().plan;
        let shards = plan.run(dir.path().join(name), &RunOptions::default(), &()).unwrap().paths;
        assert!(compare(&model, &shards[0]).is_same(), "{name}");
    }
}

#[test]
fn every_difference_is_found() {
    let dir = folder();
    let a = write(dir.path(), "a.gguf", &Layout::default());
    let b = changed(&a, "b.gguf", |head, data| {
        head.set("general.name", 7u32);
        head.set("odd.numbers", vec![1u32, 3, 70_000, 5]);
        head.remove("odd.nan");
        head.set("new.key", true);
        head.kvs.reverse();
        head.tensors[0].name = b"other.weight".to_vec();
        head.tensors[1].shape.reverse();
        head.tensors[2].ty = GgmlType::I32;
        data[3][4..8].copy_from_slice(&f32::NAN.to_le_bytes());
        data[4][0..4].copy_from_slice(&(1.0f32 + 0.5).to_le_bytes());
    });
    let found = compare(&a, &b);
    let keys: Vec<(&[u8], bool, bool)> =
        found.keys.iter().map(|k| (found.values(k).0.as_bytes(), k.a.is_some(), k.b.is_some())).collect();
    let expected: [(&[u8], bool, bool); 4] = [
        (b"general.name", true, true),
        (b"odd.numbers", true, true),
        (b"odd.nan", true, false),
        (b"new.key", false, true),
    ];
    assert_eq!(keys, expected);
    assert_eq!(found.n_same_keys, 1);
    let elements = |key: usize| {
        let (_, [a, b]) = found.values(&found.keys[key]);
        Elements::of(a?, b?)
    };
    let second = elements(1).unwrap();
    assert_eq!((second.lens, second.n_different, second.first), ([3, 4], 1, Some(1)));
    assert!(elements(0).is_none());

    let data = |name: &str| &found.tensors.iter().find(|t| found.infos(t).0 == *name).unwrap().data;
    let differ: Vec<String> =
        found.tensors.iter().filter(|t| !t.is_same()).map(|t| found.infos(t).0.to_string()).collect();
    assert_eq!(
        differ,
        ["blk.0.weight", "blk.1.weight", "blk.2.weight", "blk.3.weight", "blk.4.weight", "other.weight"]
    );
    assert!(matches!(data("blk.1.weight"), DataDiff::NotCompared));
    assert!(matches!(data("blk.2.weight"), DataDiff::Numbers(_)));
    let DataDiff::Numbers(error) = data("blk.3.weight") else { panic!() };
    assert_eq!((error.not_finite(), error.figures().rmse), (1, 0.0));
    let DataDiff::Numbers(error) = data("blk.4.weight") else { panic!() };
    let figures = error.figures();
    let largest = figures.largest.unwrap();
    assert_eq!((largest.error, largest.row, largest.column), (2.5, 0, 0));
    assert!(matches!(data("blk.5.weight"), DataDiff::Same));
    let alone = diff(&a, &b, &DiffOptions::default().no_data(true), &()).unwrap();
    assert_eq!(alone.tensors.iter().filter(|t| !t.is_same()).count(), 4);
}

#[test]
fn numbers_that_are_not_numbers_are_compared_by_their_bits() {
    let dir = folder();
    let a = write(dir.path(), "a.gguf", &Layout::default());
    let b = changed(&a, "b.gguf", |head, _| head.set("odd.nan", f32::from_bits(0x7fc0_0001)));
    assert!(compare(&a, &b).is_same());
    let b = changed(&a, "b.gguf", |head, _| head.set("odd.nan", f32::from_bits(0x7fc0_0002)));
    assert!(!compare(&a, &b).is_same());
    let nan = |bits: u32| vec![1.0, f32::from_bits(bits)];
    let a = changed(&a, "a2.gguf", |head, _| head.set("array", nan(0x7fc0_0001)));
    let b = changed(&a, "b.gguf", |head, _| head.set("array", nan(0x7fc0_0001)));
    assert!(compare(&a, &b).is_same());
    let b = changed(&a, "b.gguf", |head, _| head.set("array", Value::from(nan(0x7fc0_0001)[..1].to_vec())));
    assert!(!compare(&a, &b).is_same());
}

#[test]
fn types_without_numbers_are_compared_byte_by_byte() {
    let dir = folder();
    let write = |name: &str, ty: GgmlType, byte: u8| {
        let head = Head { tensors: vec![TensorInfo::new("w", [64, 4], ty)], ..Head::default() };
        let mut data = vec![0; head.tensors[0].n_bytes().unwrap() as usize];
        data[100] = byte;
        let path = dir.path().join(name);
        fs::write(&path, gguf_io::Writer::write(Vec::new(), &head, [data]).unwrap()).unwrap();
        path
    };
    let a = write("a.gguf", GgmlType::Q4_0_4_4, 0);
    let data = |b: &Path| {
        let diff = compare(&a, b);
        (diff.tensors[0].data.clone(), diff.tensors[0].first_different)
    };
    assert!(matches!(data(&write("b.gguf", GgmlType::Q4_0_4_4, 0)), (DataDiff::Same, None)));
    assert!(matches!(data(&write("b.gguf", GgmlType::Q4_0_4_4, 1)), (DataDiff::Bytes, Some(100))));
    assert!(matches!(data(&write("b.gguf", GgmlType::F32, 1)), (DataDiff::Bytes, None)));
    // Also of numbers.
    let a = write("a.gguf", GgmlType::F32, 0);
    let diff = compare(&a, &write("b.gguf", GgmlType::F32, 1));
    assert!(matches!(diff.tensors[0].data, DataDiff::Numbers(_)));
    assert_eq!(diff.tensors[0].first_different, Some(100));
}

/// A tensor of many rows, compared between types.
#[test]
fn figures_do_not_depend_on_the_number_of_threads() {
    let dir = folder();
    let write = |name: &str, ty: GgmlType| {
        let tensors = vec![TensorInfo::new("w", [256, 12_000], ty), TensorInfo::new("empty", [0, 3], ty)];
        let head = Head { tensors, ..Head::default() };
        let values: Vec<f32> =
            (0..256 * 12_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 1e6).collect();
        let codec = gguf_quants::codec::codec(ty).unwrap();
        let mut packed = vec![0; codec.packed_bytes(values.len()).unwrap()];
        codec.encode(gguf_quants::Rows::new(&values, 256, None).unwrap(), &mut packed).unwrap();
        let path = dir.path().join(name);
        fs::write(&path, gguf_io::Writer::write(Vec::new(), &head, [packed, Vec::new()]).unwrap()).unwrap();
        path
    };
    let (a, b) = (write("a.gguf", GgmlType::F32), write("b.gguf", GgmlType::Q8_0));
    let of = |threads| {
        let options = DiffOptions::default().threads(NonZeroUsize::new(threads));
        let diff = diff(&a, &b, &options, &()).unwrap();
        let DataDiff::Numbers(error) = &diff.tensors[0].data else { panic!() };
        assert!(matches!(&diff.tensors[1].data, DataDiff::Numbers(e) if e.n() == 0));
        error.figures()
    };
    let one = of(1);
    assert!(one.relative > 0.0 && one.relative < 0.01);
    assert_eq!((of(2), of(5)), (one, one));
}
