//! Re-encodes heads: unchanged, with every array rebuilt, and in other dialects.

use gguf_format::{Array, ByteOrder, Dialect, DraftVersionReading, Gguf, Head, Problem, Value, ValueRef, Version};

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

/// Encodes a head in another dialect, parses that, and encodes it in its own again.
///
/// `None` if the dialect cannot represent the head (version 1 has narrower numbers), would be misidentified (a counted NUL is only
/// recognised if every string has one, a draft by a key in the usual spelling), or the head has features of a draft (a fixed alignment).
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

/// The dialects that preserve any head.
pub fn plain_dialects() -> [Dialect; 2] {
    [Dialect::new(Version::V3), Dialect::new(Version::V3).with_order(ByteOrder::Big)]
}

/// Parses a file, re-encodes its head in every way, and compares, including the bytes after the head.
pub fn same_bytes(name: &str, file: &[u8]) -> usize {
    let gguf = Gguf::parse(file).unwrap_or_else(|e| panic!("{name}: {e}"));
    let (read, rest) = file.split_at(gguf.head_bytes() as usize);
    let head = super::accessors::round_trip(&gguf);
    let again = [&head.encode_as_read().expect(name), rest].concat();
    assert!(again == file, "{name} differs");
    assert!(rebuilt(&head).encode_as_read().expect(name) == read, "{name} differs with its arrays built anew");
    let mut ways = 0;
    for dialect in dialects() {
        let back = through(&head, dialect);
        ways += usize::from(back.is_some());
        assert!(back.is_none_or(|back| back == read), "{name} differs by way of {dialect:?}");
    }
    ways
}

/// Every dialect for encoding a head.
fn dialects() -> Vec<Dialect> {
    let mut out = plain_dialects().to_vec();
    for order in [ByteOrder::Little, ByteOrder::Big] {
        for version in [Version::V1, Version::V2] {
            let plain = Dialect::new(version).with_order(order);
            let mut counted = plain;
            counted.nul_strings = true;
            out.extend([plain, counted]);
        }
    }
    let mut reversed = Dialect::new(Version::V3).with_order(ByteOrder::Big);
    reversed.reversed_magic = true;
    out.push(reversed);
    for i in 0..8 {
        let (value_len_is_inclusive, array_type_first, full_padding) = (i & 1 != 0, i & 2 != 0, i & 4 != 0);
        let draft = DraftVersionReading { value_len_is_inclusive, array_type_first, full_padding };
        let mut dialect = Dialect::new(Version::Draft);
        dialect.draft = draft;
        out.push(dialect);
    }
    out
}
