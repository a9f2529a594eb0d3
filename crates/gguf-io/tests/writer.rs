//! The three ways to write give the same bytes, and none finishes short.

use std::io::{self, Cursor, Write};

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
        assert_eq!(whole.len() as u64, layout.file_bytes);

        let gguf = Gguf::parse(&whole).unwrap();
        for (t, data) in gguf.tensors().zip(data()) {
            let range = gguf.tensor_range(&t).unwrap();
            assert_eq!(whole[range.start as usize..range.end as usize], data);
            assert_eq!(range.start % 64, 0);
        }

        let all = data().concat();
        for step in [1, 5, 67, all.len()] {
            let mut w = Writer::new(Vec::new(), &head).unwrap();
            all.chunks(step).for_each(|piece| w.append(piece).unwrap());
            assert_eq!(w.finish(&head).unwrap(), whole, "head first, pieces of {step}");

            let mut w = Writer::data_first(Cursor::new(Vec::new()), &head).unwrap();
            all.chunks(step).for_each(|piece| w.append(piece).unwrap());
            assert_eq!(w.finish_with_head(&head).unwrap().into_inner(), whole, "data first, pieces of {step}");
        }
    }
}

#[test]
fn a_head_without_tensors_is_whole_at_once() {
    let mut head = Head::default();
    head.set("general.type", "vocab");
    let bytes = Writer::new(Vec::new(), &head).unwrap().finish(&head).unwrap();
    assert_eq!(bytes.len() as u64, head.layout().unwrap().file_bytes);
}

#[test]
fn finishing_short_or_long_is_an_error() {
    let head = head();
    let mut w = Writer::new(Vec::new(), &head).unwrap();
    w.append(&data()[0]).unwrap();
    match w.finish(&head) {
        Err(WriteError::Short { tensor, missing: 132 }) => assert_eq!(tensor, "b"),
        other => panic!("{other:?}"),
    }
    let mut w = Writer::new(Vec::new(), &head).unwrap();
    w.append(&data().concat()).unwrap();
    assert!(matches!(w.append(&[0]), Err(WriteError::TooMuch)));
    let mut wrong = data();
    wrong[2].pop();
    assert!(matches!(Writer::write(Vec::new(), &head, wrong), Err(WriteError::Short { .. })));
    assert!(matches!(Writer::write(Vec::new(), &head, &data()[..3]), Err(WriteError::Short { .. })));
}

#[test]
fn a_head_that_comes_last_must_come_and_must_fit() {
    let head = head();
    let mut w = Writer::data_first(Cursor::new(Vec::new()), &head).unwrap();
    w.append(&data().concat()).unwrap();
    assert!(matches!(w.finish(&head), Err(WriteError::NoHead)));

    let mut longer = head.clone();
    longer.set("general.architecture", "longer");
    let mut w = Writer::data_first(Cursor::new(Vec::new()), &head).unwrap();
    w.append(&data().concat()).unwrap();
    assert!(matches!(w.finish_with_head(&longer), Err(WriteError::Layout(LayoutError::Changed))));
}

#[test]
fn what_readers_refuse_is_not_written() {
    type Case = (&'static str, fn(&mut Head));
    let cases: &[Case] = &[
        ("twice", |h| h.tensors.push(TensorInfo::new("a", [1], GgmlType::F32))),
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

/// A stream that is full after some bytes.
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
