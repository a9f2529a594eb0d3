//! Calls all accessors of a parsed head, like an untrusting program, and compares sizes with wide arithmetic.

use core::fmt::{self, Write};

use gguf_format::{ArrayRef, FromValue, Gguf, Head, Str, TensorInfoRef, ValueRef};

/// Discards text.
struct Sink(u64);

impl Write for Sink {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        assert!(!s.bytes().any(|b| b < 0x20 || b == 0x7f), "a control character reaches the terminal: {s:?}");
        self.0 += s.len() as u64;
        Ok(())
    }
}

/// Calls every accessor. Panics if one contradicts another.
pub fn exercise(gguf: &Gguf<'_>) {
    let mut sink = Sink(0);
    let text = &mut sink;
    write!(text, "{gguf:?} {} {}", gguf.dialect().version, gguf.dialect().order).unwrap();
    assert_eq!(gguf.kvs().len() as u64, gguf.n_kv());
    assert_eq!(gguf.tensors().len() as u64, gguf.n_tensors());
    assert!(gguf.head_bytes() <= gguf.bytes().len() as u64);
    assert!(gguf.data_offset() >= gguf.head_bytes());
    assert!(gguf.alignment() > 0 && gguf.data_offset().is_multiple_of(gguf.alignment()));

    let mut end = 0;
    for kv in gguf.kvs() {
        assert!(kv.offset >= end && kv.value_offset > kv.offset, "{} stands before {end}", kv.offset);
        end = kv.value_offset;
        write!(text, "{} {:?}", kv.key, kv.key.to_string_lossy()).unwrap_or(());
        value(kv.value, text);
    }
    assert!(end <= gguf.head_bytes());
    let first = gguf.kvs().next();
    if let Some(key) = first.and_then(|kv| kv.key.to_str().ok()) {
        assert_eq!(gguf.kv(key).map(|kv| kv.index), Some(0));
        assert_eq!(gguf.get(key).map(|v| v.value_type()), first.map(|kv| kv.value.value_type()));
        if let Err(e) = gguf.get_as::<bool>(key) {
            assert!(!e.to_string().is_empty());
        }
    }
    assert!(gguf.kvs().rev().count() as u64 == gguf.n_kv());
    for t in gguf.tensors() {
        tensor(gguf, &t, text);
    }
    assert!(gguf.tensor("no such tensor").is_none());
}

/// Encodes a head to the bytes from which it was parsed.
pub fn round_trip(gguf: &Gguf<'_>) -> Head {
    let head = Head::from_gguf(gguf);
    let again = head.encode_as_read().expect("a head that was read can be written");
    let read = &gguf.bytes()[..gguf.head_bytes() as usize];
    assert!(again == read, "the head differs from byte {:?} on", again.iter().zip(read).position(|(a, b)| a != b));
    match head.layout() {
        Ok(layout) => assert_eq!(layout.data_offset(), gguf.data_offset()),
        Err(e) => assert!(!e.to_string().is_empty()),
    }
    head
}

fn convert<'a, T: FromValue<'a> + fmt::Debug>(v: ValueRef<'a>, text: &mut Sink) {
    match v.get::<T>() {
        Ok(v) => drop(std::hint::black_box(v)),
        Err(e) => write!(text, "{e}").unwrap(),
    }
}

fn value(v: ValueRef<'_>, text: &mut Sink) {
    write!(text, "{} {v:?}", v.value_type()).unwrap();
    convert::<u8>(v, text);
    convert::<i8>(v, text);
    convert::<u32>(v, text);
    convert::<i64>(v, text);
    convert::<usize>(v, text);
    convert::<f32>(v, text);
    convert::<f64>(v, text);
    convert::<bool>(v, text);
    convert::<&str>(v, text);
    convert::<Str<'_>>(v, text);
    convert::<ArrayRef<'_>>(v, text);
    // Not by `==`: a NaN is not equal to itself.
    assert_eq!(format!("{:?}", v.to_owned().as_ref()), format!("{v:?}"));
    if let Some(a) = v.as_array() {
        array(a, text);
    }
}

fn array(a: ArrayRef<'_>, text: &mut Sink) {
    let mut n = 0u64;
    for v in a {
        n += 1;
        match v {
            ValueRef::Array(inner) => array(inner, text),
            ValueRef::String(s) => write!(text, "{s}").unwrap(),
            v => write!(text, "{}", v.value_type()).unwrap(),
        }
    }
    assert_eq!(n, a.len(), "an array has its claimed length");
    for i in [0, a.len() / 2, a.len().saturating_sub(1)] {
        let at = a.get(i).map(|v| v.value_type());
        assert_eq!(at, (a.len() > 0).then_some(a.elem_type()), "element {i} of {}", a.len());
    }
    for i in [a.len(), a.len().saturating_add(1), u64::MAX] {
        assert!(a.get(i).is_none());
    }
    if let Some(strings) = a.strings() {
        assert_eq!(strings.count() as u64, a.len());
    }
    let numbers = a.to_vec::<f64>();
    let strings = a.to_vec::<Str<'_>>();
    assert!(a.len() == 0 || numbers.is_err() || strings.is_err());
}

fn tensor(gguf: &Gguf<'_>, t: &TensorInfoRef<'_>, text: &mut Sink) {
    write!(text, "{} {} {:?}", t.name, t.ty, t.name).unwrap();
    let dims: Vec<u64> = t.dims.collect();
    assert_eq!(dims.len(), t.dims.len());
    for (i, dim) in dims.iter().enumerate() {
        assert_eq!(t.dims.dim(i), *dim);
    }
    assert_eq!(t.dims.dim(dims.len()), 1);
    let owned = t.to_owned();
    assert_eq!(owned.shape, dims);
    assert_eq!(owned.n_bytes(), t.n_bytes());

    // More than four dimensions only multiply until they exceed any file.
    let mut n = Some(1u128);
    for &dim in &dims {
        n = n.and_then(|n| n.checked_mul(dim.max(1).into())).filter(|&n| n <= i64::MAX as u128);
    }
    let n = n.map(|n| if dims.contains(&0) { 0 } else { n });
    assert_eq!(t.n_elements().map(u128::from), n);
    let size = t.ty.info().zip(n).map(|(ty, n)| (n * u128::from(ty.block_bytes)).div_ceil(ty.block_len.into()));
    match t.n_bytes() {
        Ok(bytes) => assert_eq!(Some(u128::from(bytes)), size),
        Err(e) => write!(text, "{e}").unwrap(),
    }
    let base = if gguf.dialect().version == gguf_format::Version::Draft { 0 } else { gguf.data_offset() };
    match gguf.tensor_range(t) {
        Ok(range) => {
            assert_eq!(u128::from(range.start), u128::from(base) + u128::from(t.offset));
            assert_eq!(Some(u128::from(range.end)), size.map(|n| u128::from(range.start) + n));
        }
        Err(e) => write!(text, "{e}").unwrap(),
    }
}
