//! Layouts: rejected heads, and stable offsets.

use gguf_format::{Array, GgmlType, Gguf, Head, Kv, LayoutError, MAX_NESTING, TensorInfo, Value, ValueType};

fn head() -> Head {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("general.alignment", 64u32);
    head.tensors = vec![TensorInfo::new("a", [3], GgmlType::F32), TensorInfo::new("b", [2, 2], GgmlType::F16)];
    head
}

#[test]
fn a_layout_is_what_its_own_head_says() {
    let mut head = head();
    let layout = head.layout().unwrap();
    // Changes that would move every tensor.
    head.set("general.alignment", 4096u32);
    head.tensors[0].shape = vec![4096];
    let bytes = layout.padded_head().unwrap();
    assert_eq!(bytes.len() as u64, layout.data_offset());
    assert_eq!(layout.head(), &bytes[..layout.head_bytes() as usize]);
    let gguf = Gguf::parse(&bytes).unwrap();
    assert_eq!(
        (gguf.alignment(), gguf.data_offset(), gguf.head_bytes()),
        (64, layout.data_offset(), layout.head_bytes())
    );
    for (i, t) in gguf.tensors().enumerate() {
        assert_eq!(t.offset, layout.offsets()[i]);
        assert_eq!(Some(gguf.tensor_range(&t).unwrap()), layout.tensor_range(i));
        assert_eq!(layout.tensor_range(i).map(|r| r.start), layout.file_offset(i));
    }
    assert_eq!(layout.tensor_range(2), None);
    assert_eq!(layout.file_bytes(), layout.data_offset() + 128);

    let after = head.layout().unwrap();
    assert!(!layout.is_interchangeable_with(&after));
    assert!(layout.is_interchangeable_with(&layout.clone()));
    assert_eq!(head.encode().unwrap(), after.into_padded_head().unwrap());
}

#[test]
fn heads_that_fit_the_same_space() {
    let layout = head().layout().unwrap();
    let same = |change: &dyn Fn(&mut Head)| {
        let mut head = head();
        change(&mut head);
        head.layout().unwrap().is_interchangeable_with(&layout)
    };
    assert!(same(&|h| h.set("general.architecture", "gemma")));
    assert!(!same(&|h| h.set("general.architecture", "gpt2")));
    // The same size, but other data.
    assert!(!same(&|h| h.tensors[0].shape = vec![4]));
    assert!(!same(&|h| h.set("general.alignment", 32u32)));
}

#[test]
fn what_some_reader_refuses_is_refused() {
    let key = |key: &[u8], value: Value| {
        let mut head = head();
        head.kvs.push(Kv { key: key.to_vec(), value });
        head.layout().map(drop)
    };
    let bools: Value = Array::from_iter([[true].into_iter().collect::<Array>()]).into();
    assert_eq!(key(b"bools", bools), Ok(()));
    let mut bad = Array::new(ValueType::BOOL);
    bad.push(gguf_format::ValueRef::Bool(7)).unwrap();
    let text = String::from;
    let cases = [
        (key(b"", 1u8.into()), LayoutError::KeyLength(0)),
        (key(&[b'k'; 65_536], 1u8.into()), LayoutError::KeyLength(65_536)),
        (key(b"k\0a", 1u8.into()), LayoutError::KeyNul(text("k\\u{0}a"))),
        (key(b"k\xff", 1u8.into()), LayoutError::KeyNotUtf8(text("k\\xff"))),
        (key(b"general.architecture", 1u8.into()), LayoutError::DuplicateKey(text("general.architecture"))),
        (key(b"b", Value::Bool(2)), LayoutError::Bool(text("b"), 2)),
        (key(b"b", bad.clone().into()), LayoutError::Bool(text("b"), 7)),
        (key(b"b", [bad].into()), LayoutError::Bool(text("b"), 7)),
        (key(b"e", Array::new(ValueType(77)).into()), LayoutError::ElementType(text("e"), ValueType(77))),
    ];
    for (got, expected) in cases {
        assert_eq!(got, Err(expected));
    }
    let tensor = |name: &[u8], shape: &[u64]| {
        let mut head = head();
        head.tensors.push(TensorInfo::new(name, shape, GgmlType::F32));
        head.layout().map(drop)
    };
    assert_eq!(tensor(&[b't'; 63], &[1, 1, 1, 1]), Ok(()));
    let cases = [
        (tensor(&[b't'; 64], &[1]), LayoutError::TensorName { name: "t".repeat(64), bytes: 64, max: 63 }),
        (tensor(b"t\0", &[1]), LayoutError::TensorNameNul(text("t\\u{0}"))),
        (tensor(b"\xfft", &[1]), LayoutError::TensorNameNotUtf8(text("\\xfft"))),
        (tensor(b"a", &[1]), LayoutError::DuplicateTensor(text("a"))),
        (tensor(b"t", &[1; 5]), LayoutError::TensorDims(text("t"), 5)),
    ];
    for (got, expected) in cases {
        assert_eq!(got, Err(expected));
    }
}

#[test]
fn arrays_are_laid_out_as_deep_as_they_are_read() {
    let nested = |depth: usize| {
        let mut array: Array = [1u8].into_iter().collect();
        for _ in 1..depth {
            array = [array].into_iter().collect();
        }
        let mut head = head();
        head.set("nested", array);
        head
    };
    let deepest = nested(MAX_NESTING).encode().unwrap();
    assert!(Gguf::parse(&deepest).is_ok());
    for depth in [MAX_NESTING + 1, MAX_NESTING + 2, 3 * MAX_NESTING] {
        let head = nested(depth);
        assert_eq!(head.layout().map(drop), Err(LayoutError::TooDeep("nested".into())), "{depth}");
        assert!(Gguf::parse(head.encode_as_read().unwrap()).is_err());
    }
}

#[test]
fn names_of_models_of_images_are_longer() {
    for (architecture, longest) in [("llama", 63), ("hyvid", 127)] {
        let encode = |bytes: usize| {
            let mut head = Head::default();
            head.set("general.architecture", architecture);
            head.tensors.push(TensorInfo::new("t".repeat(bytes), [1], GgmlType::F32));
            head.encode().map(|_| ())
        };
        assert_eq!(encode(longest), Ok(()));
        let too_long = LayoutError::TensorName { name: "t".repeat(longest + 1), bytes: longest + 1, max: longest };
        assert_eq!(encode(longest + 1), Err(too_long));
    }
}
