//! Heads written again: unchanged, with every array built anew, and in other dialects.

use gguf_format::{Array, ByteOrder, Dialect, Gguf, Head, Problem, Value, ValueRef, Version};

/// The same head, every array decoded and pushed element by element.
pub fn rebuilt(head: &Head) -> Head {
    let mut head = head.clone();
    for kv in &mut head.kvs {
        if let Value::Array(array) = &kv.value {
            let mut anew = Array::new(array.as_ref().elem_type());
            array.as_ref().iter().for_each(|v| anew.push(v).expect("an element of the array's type"));
            kv.value = Value::Array(anew);
        }
    }
    head
}

/// Writes a head in another dialect, reads that, and writes it in its own again.
///
/// Not every head can be written in every dialect (version 1 is narrow), would be taken for what it is (a counted NUL is
/// only recognised when every string has one, a draft by a key in the usual spelling), or says something that only a draft
/// may say (the draft has an alignment of its own): `None` then.
pub fn through(head: &Head, dialect: Dialect) -> Option<Vec<u8>> {
    let other = Head { dialect, ..head.clone() };
    let bytes = other.encode_as_read().ok()?;
    let gguf = match Gguf::parse(&bytes) {
        Ok(gguf) => gguf,
        Err(_) if dialect.version == Version::Draft => return None,
        Err(e) if matches!(e.problem, Problem::Alignment(_)) && head.dialect.version == Version::Draft => return None,
        Err(e) => panic!("a head that was written cannot be read: {e}"),
    };
    if gguf.dialect() != dialect {
        return None;
    }
    let same = |(a, b): (ValueRef<'_>, ValueRef<'_>)| format!("{a:?}") == format!("{b:?}");
    assert!(gguf.kvs().map(|kv| kv.value).zip(head.kvs.iter().map(|kv| kv.value.as_ref())).all(same));
    let back = Head { dialect: head.dialect, ..Head::from_gguf(&gguf) };
    Some(back.encode_as_read().expect("a head can be written as it was read"))
}

/// The dialects in which any head is read as what it is.
pub fn plain_dialects() -> [Dialect; 2] {
    [Dialect::new(Version::V3), Dialect::new(Version::V3).with_order(ByteOrder::Big)]
}
