//! The three ways to write give the same bytes, and none finishes early.

use std::io::{self, Cursor, Read, Write};

use gguf_format::{Dialect, GgmlType, Gguf, Head, LayoutError, TensorInfo, Version};
use gguf_io::{WriteError, Writer};

fn head() -> Head {
    let mut head = Head::default();
    head.set("general.architecture", "test");
    head.set("general.alignment", 64u32);
    head.tensors = vec![
        TensorInfo::new("a", [3], GgmlType::F32),
        TensorInfo::new("none", [0], GgmlType::F32),
        TensorInfo::new("b", [32, 2], GgmlType::Q8_0),
        TensorInfo::new("c", [64], GgmlType::I8),
    ];
    head
}

fn data() -> Vec<Vec<u8>> {
    let mut byte = 0u8;
    let mut bytes = |n: usize| {
        (0..n)
            .map(|_| {
                byte = byte.wrapping_add(37);
                byte
            })
            .collect::<Vec<u8>>()
    };
    vec![bytes(12), bytes(0), bytes(68), bytes(64)]
}

#[test]
fn all_ways_give_the_same_bytes() {
    for dialect in [Dialect::default(), Dialect::new(Version::V2), Dialect::new(Version::V1)] {
        let head = Head { dialect, ..head() };
        let whole = Writer::write(Vec::new(), &head, data()).unwrap();
        let layout = head.layout().unwrap();
        assert_eq!(whole.len() as u64, layout.file_bytes());

        let gguf = Gguf::parse(&whole).unwrap();
        for (t, data) in gguf.tensors().zip(data()) {
            let range = gguf.tensor_range(&t).unwrap();
            assert_eq!(whole[range.start as usize..range.end as usize], data);
            assert_eq!(range.start % 64, 0);
        }

        for step in [1, 5, 67, 100] {
            let mut w = Writer::new(Vec::new(), &head).unwrap();
            assert_eq!(w.file_bytes(), layout.file_bytes());
            put(&mut w, step);
            assert_eq!(w.finish().unwrap(), whole, "head first, pieces of {step}");

            let mut w = Writer::data_first(Cursor::new(Vec::new()), head.clone()).unwrap();
            put(&mut w, step);
            assert_eq!(w.finish().unwrap().into_inner(), whole, "data first, pieces of {step}");
        }
        let mut w = Writer::new(Vec::new(), &head).unwrap();
        for (name, data) in NAMES.into_iter().zip(data()) {
            // The reader has more than the tensor needs.
            let mut reader = data.chain(b"more".as_slice());
            w.tensor_from(name, &mut reader).unwrap();
            let mut rest = Vec::new();
            reader.read_to_end(&mut rest).unwrap();
            assert_eq!(rest, b"more");
        }
        assert_eq!(w.finish().unwrap(), whole, "from readers");
    }
}

const NAMES: [&str; 4] = ["a", "none", "b", "c"];

/// Writes all tensors, in pieces.
fn put<W: Write>(w: &mut Writer<W>, step: usize) {
    for (name, data) in NAMES.into_iter().zip(data()) {
        let mut tensor = w.begin(name).unwrap();
        assert_eq!(tensor.left(), data.len() as u64);
        data.chunks(step).for_each(|piece| tensor.write_all(piece).unwrap());
        tensor.end().unwrap();
    }
}

#[test]
fn a_head_without_tensors_is_whole_at_once() {
    let mut head = Head::default();
    head.set("general.type", "vocab");
    let bytes = Writer::new(Vec::new(), &head).unwrap().finish().unwrap();
    assert_eq!(bytes.len() as u64, head.layout().unwrap().file_bytes());
}

#[test]
fn finishing_short_is_an_error() {
    let mut w = Writer::new(Vec::new(), &head()).unwrap();
    w.tensor("a", &data()[0]).unwrap();
    w.tensor("none", &[]).unwrap();
    match w.finish() {
        Err(WriteError::Short { tensor, missing: 132 }) => assert_eq!(tensor, "b"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(Writer::write(Vec::new(), &head(), &data()[..3]), Err(WriteError::Short { missing: 64, .. })));
    let more = [data(), vec![vec![]]].concat();
    assert!(matches!(Writer::write(Vec::new(), &head(), more), Err(WriteError::TooMany { tensors: 4 })));
}

#[test]
fn a_tensor_of_another_size_is_an_error_at_once() {
    for change in [-1i32, 1] {
        let mut wrong = data();
        let given = (68 + change) as u64;
        wrong[2].resize(given as usize, 7);
        let is_right = |e: &WriteError| matches!(e, WriteError::Size { tensor, needed: 68, given: g } if tensor == "b" && *g == given);
        let error = Writer::write(Vec::new(), &head(), &wrong).unwrap_err();
        assert!(is_right(&error), "{error:?}");

        let mut w = Writer::new(Vec::new(), &head()).unwrap();
        w.tensor("a", &wrong[0]).unwrap();
        w.tensor("none", &[]).unwrap();
        let error = w.tensor("b", &wrong[2]).unwrap_err();
        assert!(is_right(&error), "{error:?}");
        // Nothing was written, so the right data can follow.
        w.tensor("b", &data()[2]).unwrap();
        w.tensor("c", &data()[3]).unwrap();
        assert_eq!(w.finish().unwrap(), Writer::write(Vec::new(), &head(), data()).unwrap());

        let mut w = Writer::new(Vec::new(), &head()).unwrap();
        w.tensor("a", &wrong[0]).unwrap();
        w.tensor("none", &[]).unwrap();
        let mut tensor = w.begin("b").unwrap();
        let error = match tensor.write_all(&wrong[2]) {
            Ok(()) => tensor.end().unwrap_err(),
            Err(e) => e.into(),
        };
        assert!(is_right(&error), "{error:?}");
        let next = w.tensor("c", &data()[3]).unwrap_err();
        let in_order = matches!(&next, WriteError::Order { .. });
        assert!(if change < 0 { matches!(next, WriteError::Short { missing: 1, .. }) } else { in_order }, "{next:?}");
    }
    let mut w = Writer::new(Vec::new(), &head()).unwrap();
    let error = w.tensor_from("a", &[1u8; 11][..]).unwrap_err();
    assert!(matches!(error, WriteError::Size { needed: 12, given: 11, .. }), "{error:?}");
    assert!(matches!(w.finish(), Err(WriteError::Short { .. })));
}

#[test]
fn tensors_come_in_order() {
    let mut w = Writer::new(Vec::new(), &head()).unwrap();
    match w.tensor("b", &data()[2]) {
        Err(WriteError::Order { expected: Some(expected), given }) => assert_eq!((&*expected, &*given), ("a", "b")),
        other => panic!("{other:?}"),
    }
    assert!(matches!(w.begin("x"), Err(WriteError::Order { .. })));
    put(&mut w, 100);
    assert!(matches!(w.tensor("c", &data()[3]), Err(WriteError::Order { expected: None, .. })));
    // The last byte ends a tensor, with or without a call of `end`.
    let mut w = Writer::new(Vec::new(), &head()).unwrap();
    for (name, data) in NAMES.into_iter().zip(data()) {
        w.begin(name).unwrap().write_all(&data).unwrap();
    }
    w.finish().unwrap();
}

#[test]
fn a_head_that_comes_last_may_change_in_its_values_only() {
    let start = || Writer::data_first(Cursor::new(Vec::new()), head()).unwrap();
    let mut other = head();
    other.set("general.architecture", "tset");
    let mut w = start();
    put(&mut w, 100);
    w.set("general.architecture", "tset").unwrap();
    assert!(matches!(w.set("x", "y".repeat(100)), Err(WriteError::Layout(LayoutError::Changed))));
    assert!(matches!(w.set("", 1u8), Err(WriteError::Layout(LayoutError::KeyLength(0)))));
    assert_eq!(w.finish().unwrap().into_inner(), Writer::write(Vec::new(), &other, data()).unwrap());

    let mut w = Writer::new(Vec::new(), &head()).unwrap();
    assert!(matches!(w.set("general.architecture", "tset"), Err(WriteError::HeadIsWritten)));
}

#[test]
fn what_readers_refuse_is_not_written() {
    type Case = (&'static str, fn(&mut Head));
    let cases: &[Case] = &[
        ("duplicate", |h| h.tensors.push(TensorInfo::new("a", [1], GgmlType::F32))),
        ("63", |h| h.tensors.push(TensorInfo::new("x".repeat(64), [1], GgmlType::F32))),
        ("block", |h| h.tensors.push(TensorInfo::new("x", [33], GgmlType::Q4_0))),
        ("type 99", |h| h.tensors.push(TensorInfo::new("x", [32], GgmlType(99)))),
        ("5 dimensions", |h| h.tensors.push(TensorInfo::new("x", [1; 5], GgmlType::F32))),
        ("63 bits", |h| h.tensors.push(TensorInfo::new("x", [1 << 61], GgmlType::F32))),
        ("general.alignment is 24", |h| h.set("general.alignment", 24u32)),
        ("general.alignment is of type i32", |h| h.set("general.alignment", 32i32)),
        ("byte 2", |h| h.set("x", gguf_format::Value::Bool(2))),
        ("a key of 0 bytes", |h| h.set("", 1u8)),
        ("a key of 65536 bytes", |h| h.set(&"k".repeat(65_536), 1u8)),
    ];
    for (word, spoil) in cases {
        let mut head = head();
        spoil(&mut head);
        let error = Writer::new(Vec::new(), &head).unwrap_err().to_string();
        assert!(error.contains(word), "{word}: {error}");
    }
}

/// A stream that is full after a number of bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = buf.len().min(self.0);
        self.0 -= n;
        if n == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(n) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_at_every_byte() {
    let head = head();
    let whole = Writer::write(Vec::new(), &head, data()).unwrap().len();
    for room in 0..whole {
        assert!(matches!(Writer::write(Full(room), &head, data()), Err(WriteError::Io(_))), "{room}");
    }
    assert!(Writer::write(Full(whole), &head, data()).is_ok());
}

#[test]
fn nothing_follows_what_a_stream_refused() {
    let whole = Writer::write(Vec::new(), &head(), data()).unwrap().len();
    let mut w = Writer::new(Full(whole - 1), &head()).unwrap();
    for (name, data) in NAMES.into_iter().zip(data()).take(3) {
        w.tensor(name, &data).unwrap();
    }
    assert!(matches!(w.tensor("c", &data()[3]), Err(WriteError::Io(_))));
    assert!(matches!(w.tensor("c", &data()[3]), Err(WriteError::Broken)));
    assert!(matches!(w.finish(), Err(WriteError::Broken)));
}
