//! Rewriting models: byte order, version, order, tensors removed, added and grafted, and export to other formats.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Layout, bytes, layouts, write};
use gguf_edit::extract::{Format, Values, extract};
use gguf_edit::rewrite::{Graft, NewTensor, Order, add_tensors, graft, names, remove_tensors, reorder, swap, upgrade};
use gguf_edit::{DiffOptions, Error, diff, stats};
use gguf_format::{ByteOrder, GgmlType, Gguf, Head, Str, TYPES, TensorInfo, Version};
use gguf_io::Model;
use gguf_pipeline::{Event, Plan, RunOptions};
use gguf_test::files::folder;

fn run(plan: &Plan, out: &Path) {
    plan.run(out, &RunOptions::default(), &()).unwrap();
}

fn same(a: &Path, b: &Path) -> bool {
    diff(a, b, &DiffOptions::default(), &()).unwrap().is_same()
}

/// Patterns of these tests: a name, or the start of one.
fn matches(pattern: &str, name: Str<'_>) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.as_bytes().starts_with(start.as_bytes()),
        None => name == *pattern,
    }
}

fn patterns(list: &[&str]) -> Vec<String> {
    list.iter().map(|pattern| (*pattern).to_owned()).collect()
}

/// A model with a tensor of every type with a known block layout.
fn every_type(path: &Path) -> usize {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("numbers", vec![1u64, u64::MAX]);
    head.set("texts", ["a", "bc"]);
    let whole = |ty: &&gguf_format::TypeInfo| !(ty.removed && ty.fields.is_empty());
    let types: Vec<_> = TYPES.iter().filter(whole).collect();
    head.tensors =
        types.iter().map(|ty| TensorInfo::new(ty.name, [u64::from(ty.block_len) * 3, 2], GgmlType(ty.id))).collect();
    let mut state = 7u32;
    let data: Vec<Vec<u8>> = head
        .tensors
        .iter()
        .map(|t| {
            let next = |_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            };
            (0..t.n_bytes().unwrap()).map(next).collect()
        })
        .collect();
    fs::write(path, gguf_io::Writer::write(Vec::new(), &head, data).unwrap()).unwrap();
    types.len()
}

#[test]
fn the_byte_order_of_every_type_changes_and_changes_back() {
    let dir = folder();
    let (model, big, back) = (dir.path().join("a.gguf"), dir.path().join("b.gguf"), dir.path().join("c.gguf"));
    assert!(every_type(&model) > 30);
    run(&swap(&model, None).unwrap(), &big);
    assert_eq!(Model::open(&big).unwrap().gguf().dialect().order, ByteOrder::Big);
    run(&swap(&big, None).unwrap(), &back);
    assert!(fs::read(&model).unwrap() == fs::read(&back).unwrap());
    assert!(fs::read(&model).unwrap() != fs::read(&big).unwrap());
    assert!(same(&model, &big));
    // To the current order: a copy.
    fs::remove_file(&back).unwrap();
    run(&swap(&big, Some(ByteOrder::Big)).unwrap(), &back);
    assert!(fs::read(&big).unwrap() == fs::read(&back).unwrap());
}

#[test]
fn the_small_model_in_big_endian_order_is_what_was_written_so() {
    let dir = folder();
    let little = write(dir.path(), "little.gguf", &Layout::default());
    let big = Layout { order: ByteOrder::Big, ..Layout::default() };
    let out = dir.path().join("out.gguf");
    run(&swap(&little, None).unwrap(), &out);
    assert!(fs::read(&out).unwrap() == bytes(&big));
}

#[test]
fn old_versions_become_version_3() {
    let dir = folder();
    for (name, layout) in layouts() {
        let model = write(dir.path(), "model.gguf", &layout);
        let out = dir.path().join(format!("{name}.gguf"));
        let (plan, version) = upgrade(&model).unwrap();
        assert_eq!(version.number(), layout.version);
        run(&plan, &out);
        let new = Model::open(&out).unwrap();
        let dialect = new.gguf().dialect();
        assert_eq!((dialect.version, dialect.order), (Version::V3, layout.order), "{name}");
        assert!(same(&model, &out), "{name}");
        if ["plain", "version 1", "version 2", "gaps", "backwards", "not padded", "trailing zeros"].contains(&name) {
            assert!(fs::read(&out).unwrap() == bytes(&Layout::default()), "{name}");
        }
    }
}

#[test]
fn tensors_are_reordered() {
    let dir = folder();
    let model = write(dir.path(), "model.gguf", &Layout { n_tensors: 12, ..Layout::default() });
    let of = |order: &Order, name: &str| {
        let out = dir.path().join(name);
        run(&reorder(&model, order).unwrap(), &out);
        assert!(same(&model, &out), "{order:?}");
        (names(&out).unwrap(), out)
    };
    let name = |i: usize| format!("blk.{i}.weight").into_bytes();
    let up: Vec<Vec<u8>> = (0..12).map(name).collect();
    let down: Vec<Vec<u8>> = up.iter().rev().cloned().collect();
    assert_eq!(of(&Order::Sizes, "sizes").0, down);
    let like = Order::Like(vec![name(3), b"other".to_vec(), name(1)]);
    let (found, shuffled) = of(&like, "like");
    assert_eq!(&found[..3], [name(3), name(1), name(0)]);
    for order in [Order::Layers, Order::Names, Order::Like(up.clone())] {
        let out = dir.path().join("again.gguf");
        reorder(&shuffled, &order).unwrap().run(&out, &RunOptions::default().force(true), &()).unwrap();
        assert!(fs::read(&out).unwrap() == fs::read(&model).unwrap(), "{order:?}");
    }
}

#[test]
fn tensors_are_removed_and_grafted_back() {
    let dir = folder();
    let model = write(dir.path(), "model.gguf", &Layout::default());
    let less = dir.path().join("less.gguf");
    let (plan, removed) = remove_tensors(&model, &patterns(&["blk.7*", "blk.8.weight"]), matches).unwrap();
    assert_eq!(removed, ["blk.7.weight", "blk.8.weight"]);
    run(&plan, &less);
    assert_eq!(names(&less).unwrap().len(), 7);
    match remove_tensors(&model, &patterns(&["blk.7*", "blk.9.weight"]), matches) {
        Err(Error::NoTensor { name, nearest, .. }) => {
            assert_eq!(name, "blk.9.weight");
            assert!(!nearest.is_empty());
        }
        other => panic!("{:?}", other.map(|(_, names)| names)),
    }
    let whole = dir.path().join("whole.gguf");
    let mut what = Graft::default();
    what.tensors = patterns(&["blk.7*", "blk.8*"]);
    let (plan, taken, n_keys) = graft(&less, &model, &what, matches).unwrap();
    assert_eq!((taken.len(), n_keys), (2, 0));
    run(&plan, &whole);
    assert!(fs::read(&whole).unwrap() == fs::read(&model).unwrap());
    // An existing tensor is replaced on request only, in its place.
    what.tensors = patterns(&["blk.1*"]);
    assert!(matches!(graft(&less, &model, &what, matches), Err(Error::TensorExists { .. })));
    what.replace = true;
    what.keys = patterns(&["general.*"]);
    let (plan, _, n_keys) = graft(&less, &model, &what, matches).unwrap();
    assert_eq!(n_keys, 2);
    let again = dir.path().join("again.gguf");
    run(&plan, &again);
    assert!(fs::read(&again).unwrap() == fs::read(&less).unwrap());
    what.keys = patterns(&["absent*"]);
    assert!(matches!(graft(&less, &model, &what, matches), Err(Error::NoKey { .. })));
    // Neither of the models can be the output.
    for path in [&less, &model] {
        assert!(plan.run(path, &RunOptions::default().force(true), &()).is_err());
    }
}

fn npy(dir: &Path, name: &str, header: &str, data: &[u8]) -> PathBuf {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    let path = dir.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn arrays_become_tensors() {
    let dir = folder();
    let model = write(dir.path(), "model.gguf", &Layout::default());
    let values: Vec<f32> = (0..64).map(|i| i as f32 / 8.0).collect();
    let little: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let big: Vec<u8> = values.iter().flat_map(|v| v.to_be_bytes()).collect();
    let header = |descr: &str| format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2, 32), }}\n");
    let a = npy(dir.path(), "a.npy", &header("<f4"), &little);
    let b = npy(dir.path(), "b.npy", &header(">f4"), &big);
    let out = dir.path().join("out.gguf");
    let new = [
        NewTensor::new("a", &a),
        NewTensor::new("b", &b),
        NewTensor::new("q", &b).ty(Some(GgmlType::Q8_0)),
        NewTensor::new("blk.0.weight", &a).replace(true),
    ];
    run(&add_tensors(&model, &new).unwrap(), &out);
    let written = Model::open(&out).unwrap();
    let tensor = |name: &str| written.tensor(name).unwrap();
    assert_eq!(tensor("a").shape().collect::<Vec<_>>(), [32, 2]);
    for name in ["a", "b", "blk.0.weight"] {
        assert_eq!(tensor(name).to_f32().unwrap(), values, "{name}");
    }
    let codec = gguf_quants::codec::codec(GgmlType::Q8_0).unwrap();
    let mut packed = vec![0; 68];
    codec.encode(gguf_quants::Rows::new(&values, 32, None).unwrap(), &mut packed).unwrap();
    assert_eq!(tensor("q").read().unwrap(), packed);
    assert_eq!(written.tensors().next().unwrap().name(), *"blk.0.weight");
    assert_eq!(written.tensors().count(), 12);

    assert!(matches!(add_tensors(&model, &[NewTensor::new("blk.0.weight", &a)]), Err(Error::TensorExists { .. })));
    let odd = NewTensor::new("x", &a).ty(Some(GgmlType::I32));
    assert!(matches!(add_tensors(&model, &[odd]), Err(Error::NotEncodable { .. })));
    // Rows that are not whole blocks.
    let odd = NewTensor::new("x", &a).ty(Some(GgmlType::Q4_K));
    assert!(add_tensors(&model, &[odd]).is_err());
    let good = fs::read(&a).unwrap();
    for (i, (offset, bad)) in [
        (0, b"NUMPY".to_vec()),
        (0, [b"\x93NUMPX", &good[6..]].concat()),
        (6, [&good[..6], &[4], &good[7..]].concat()),
        (10, good[..10].iter().chain(b"{'descr': '<u4'}").copied().collect::<Vec<u8>>()),
        (71, good[..good.len() - 1].to_vec()),
        (71, [&good[..], b"x"].concat()),
        (30, good[..30].to_vec()),
    ]
    .into_iter()
    .enumerate()
    {
        let path = dir.path().join("bad.npy");
        fs::write(&path, bad).unwrap();
        match add_tensors(&model, &[NewTensor::new("x", &path)]) {
            Err(Error::Array { offset: found, .. }) if i != 0 && i != 3 && i != 6 => assert_eq!(found, offset, "{i}"),
            Err(Error::Array { .. }) => {}
            other => panic!("{i}: {:?}", other.map(|_| ())),
        }
    }
}

#[test]
fn extracted_arrays_come_back_as_the_same_tensors() {
    let dir = folder();
    let model = dir.path().join("model.gguf");
    every_type(&model);
    let opened = Model::open(&model).unwrap();
    for name in ["f16", "f32", "f64", "i8", "i16", "i32", "i64", "bf16", "q4_0", "q6_K", "iq2_xxs"] {
        let npy = dir.path().join(format!("{name}.npy"));
        let extraction = extract(&model, &patterns(&[name]), matches, Format::Npy, Values::AsStored).unwrap();
        extraction.run(&npy, false, None, &()).unwrap();
        assert_eq!(fs::metadata(&npy).unwrap().len(), extraction.file_bytes());
        let out = dir.path().join(format!("{name}.gguf"));
        run(&add_tensors(&model, &[NewTensor::new("again", &npy)]).unwrap(), &out);
        let again = Model::open(&out).unwrap();
        let (old, new) = (opened.tensor(name).unwrap(), again.tensor("again").unwrap());
        assert_eq!(old.shape().collect::<Vec<_>>(), new.shape().collect::<Vec<_>>());
        if old.ty() == new.ty() {
            assert_eq!(old.read().unwrap(), new.read().unwrap(), "{name}");
        } else {
            assert_eq!(new.ty(), GgmlType::F32);
            let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            assert_eq!(bits(old.to_f32().unwrap()), bits(new.to_f32().unwrap()), "{name}");
        }
        assert!(extraction.run(&model, true, None, &()).is_err());
    }
    let two = patterns(&["f16", "f32"]);
    assert!(matches!(
        extract(&model, &two, matches, Format::Npy, Values::AsStored),
        Err(Error::OneTensor { n: 2, .. })
    ));
    let as_half = Values::As(GgmlType::F16);
    let halves = extract(&model, &patterns(&["i32"]), matches, Format::Npy, as_half).unwrap();
    assert_eq!(halves.tensors()[0].to, GgmlType::F16);
    let bf16 = extract(&model, &patterns(&["f32"]), matches, Format::Npy, Values::As(GgmlType::BF16));
    assert!(matches!(bf16, Err(Error::NotEncodable { .. })));
}

#[test]
fn safetensors_have_a_head_that_covers_the_data() {
    let dir = folder();
    let model = dir.path().join("model.gguf");
    every_type(&model);
    let out = dir.path().join("out.safetensors");
    let chosen = patterns(&["f*", "bf16", "i8", "i64", "q4_0"]);
    let extraction = extract(&model, &chosen, matches, Format::Safetensors, Values::AsStored).unwrap();
    extraction.run(&out, false, None, &()).unwrap();
    let bytes = fs::read(&out).unwrap();
    let (len, rest) = bytes.split_first_chunk::<8>().unwrap();
    let (head, data) = rest.split_at(u64::from_le_bytes(*len) as usize);
    let head: serde_json::Value = serde_json::from_slice(head).unwrap();
    assert_eq!(head.as_object().unwrap().len(), 1 + 7);
    assert_eq!(head["f16"]["dtype"], "F16");
    assert_eq!(head["q4_0"]["dtype"], "F32");
    assert_eq!(head["q4_0"]["shape"], serde_json::json!([2, 96]));
    let opened = Model::open(&model).unwrap();
    let range = |name: &str| {
        let at = |i: usize| head[name]["data_offsets"][i].as_u64().unwrap() as usize;
        &data[at(0)..at(1)]
    };
    for name in ["f16", "f32", "f64", "bf16", "i8", "i64"] {
        assert_eq!(range(name), opened.tensor(name).unwrap().read().unwrap(), "{name}");
    }
    let mut ends: Vec<u64> = head.as_object().unwrap().values().filter_map(|t| t["data_offsets"][1].as_u64()).collect();
    ends.sort_unstable();
    assert_eq!(ends.last(), Some(&(data.len() as u64)));
}

#[test]
fn statistics_are_those_of_the_values() {
    let dir = folder();
    let path = dir.path().join("model.gguf");
    let tensors = vec![
        TensorInfo::new("w", [1000, 300], GgmlType::F32),
        TensorInfo::new("odd", [4], GgmlType::F32),
        TensorInfo::new("none", [0], GgmlType::F32),
        TensorInfo::new("ids", [64, 4], GgmlType::Q4_0_4_4),
    ];
    let head = Head { tensors, ..Head::default() };
    let values: Vec<f32> = (0..300_000).map(|i| (i % 1000) as f32 / 4.0 - 100.0).collect();
    let odd = [f32::NAN, f32::NEG_INFINITY, 2.0, 2.0];
    let encode = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let data = [encode(&values), encode(&odd), Vec::new(), vec![0; 144]];
    fs::write(&path, gguf_io::Writer::write(Vec::new(), &head, data).unwrap()).unwrap();
    let of = |name: &str, threads| stats(&path, name, 10, std::num::NonZeroUsize::new(threads), &());
    let w = of("w", 1).unwrap();
    assert_eq!((w.n, w.nan, w.zeros, w.min, w.max), (300_000, 0, 300, Some(-100.0), Some(149.75)));
    assert_eq!(w.mean, Some(24.875));
    let variance = (0..1000).map(|i| (f64::from(i) / 4.0 - 100.0 - 24.875).powi(2)).sum::<f64>() / 1000.0;
    assert!((w.stddev.unwrap() - variance.sqrt()).abs() < 1e-9);
    assert_eq!(w.histogram, [30_000; 10]);
    assert_eq!(of("w", 4).unwrap(), w);
    let odd = of("odd", 2).unwrap();
    assert_eq!((odd.n, odd.nan, odd.infinite, odd.mean, odd.stddev), (4, 1, 1, Some(2.0), Some(0.0)));
    assert_eq!(odd.histogram, [2, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let none = of("none", 2).unwrap();
    assert_eq!((none.n, none.mean, none.min), (0, None, None));
    assert!(matches!(of("ids", 1), Err(Error::NotDecodable { .. })));
    let npy = extract(&path, &patterns(&["ids"]), matches, Format::Npy, Values::AsStored);
    assert!(matches!(npy, Err(Error::NotDecodable { .. })));
    assert!(matches!(of("wx", 1), Err(Error::NoTensor { .. })));
    let gguf = fs::read(&path).unwrap();
    assert_eq!(Gguf::parse(&gguf).unwrap().n_tensors(), 4);
}

/// Edits the inputs while their data is copied.
#[test]
fn an_output_of_an_input_that_has_changed_is_an_error() {
    let dir = folder();
    let [a, b, out] = ["a.gguf", "b.gguf", "out.gguf"].map(|name| dir.path().join(name));
    let mut what = Graft::default();
    (what.keys, what.tensors, what.replace) = (patterns(&["numbers"]), patterns(&["f32"]), true);
    type Case<'a> = (&'a Path, fn(&Path, &Path, &Graft) -> Plan);
    let plans: [Case<'_>; 3] = [
        (&a, |a, _, _| swap(a, None).unwrap()),
        (&a, |a, b, what| graft(a, b, what, matches).unwrap().0),
        (&b, |a, b, what| graft(a, b, what, matches).unwrap().0),
    ];
    for (edited, plan) in plans {
        every_type(&a);
        every_type(&b);
        let plan = plan(&a, &b, &what);
        let edit = gguf_edit::Edit::Set { key: "texts".into(), value: "another".into() };
        let meanwhile = |event: Event<'_>| {
            if matches!(event, Event::Started { .. }) {
                let edit = gguf_edit::EditPlan::new(edited, std::slice::from_ref(&edit), &Default::default()).unwrap();
                assert!(edit.method().is_in_place(), "{:?}", edit.method());
                edit.run(&()).unwrap();
            }
        };
        let error = plan.run(&out, &RunOptions::default(), &meanwhile).unwrap_err().to_string();
        assert!(error.contains("has changed since it was read; nothing was written"), "{error}");
        assert!(!out.exists());
    }
}
