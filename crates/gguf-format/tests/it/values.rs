//! Conversions between Rust's types and values, and back.

use gguf_format::{
    Array, ArrayRef, Dialect, FromValue, GetError, GgmlType, Gguf, Head, Str, TensorInfo, Value, ValueError, ValueRef,
    ValueType, Version,
};

/// The value as it is read back from a file.
fn written(value: impl Into<Value>) -> Value {
    let mut head = Head::default();
    head.set("key", value);
    let bytes = head.encode().unwrap();
    Gguf::parse(&bytes).unwrap().get("key").unwrap().into()
}

fn read<T>(value: impl Into<Value>) -> Result<T, ValueError>
where
    T: for<'a> FromValue<'a>,
{
    written(value).as_ref().get()
}

#[test]
fn every_element_type_as_vector_slice_and_array() {
    macro_rules! check {
        ($($ty:ty, $konst:ident, $values:expr;)*) => { $(
            let values: [$ty; 3] = $values;
            for value in [Value::from(values.clone()), values.as_slice().into(), (&values).into(), values.to_vec().into()] {
                let value = written(value);
                let array = value.as_ref().as_array().unwrap();
                assert_eq!((array.elem_type(), array.len()), (ValueType::$konst, 3), stringify!($ty));
                assert_eq!(value.as_ref().get::<Vec<$ty>>().unwrap(), values);
                assert_eq!(Vec::<$ty>::try_from(value.as_ref()).unwrap(), values);
            }
            let none: Vec<$ty> = vec![];
            assert_eq!(written(none).as_ref().as_array().unwrap().elem_type(), ValueType::$konst, "empty");
        )* };
    }
    check! {
        u8, U8, [0, 1, u8::MAX]; i8, I8, [i8::MIN, 0, 1]; u16, U16, [0, 1, u16::MAX]; i16, I16, [i16::MIN, 0, 1];
        u32, U32, [0, 1, u32::MAX]; i32, I32, [i32::MIN, 0, 1]; u64, U64, [0, 1, u64::MAX]; i64, I64, [i64::MIN, 0, 1];
        f32, F32, [-0.0, 1.5, f32::INFINITY]; f64, F64, [-0.0, 1e300, f64::MIN]; bool, BOOL, [true, false, true];
        String, STRING, ["", "a", "ü"].map(String::from);
    }
    assert_eq!(written(["x", "y"]), written(vec!["x".to_owned(), "y".to_owned()]));
    assert_eq!(written(["x", "y"]), written([Str(b"x"), Str(b"y")]));
    let nested = written([[1u8, 2].into_iter().collect::<Array>(), Array::new(ValueType::F32)]);
    assert_eq!(nested.as_ref().as_array().unwrap().elem_type(), ValueType::ARRAY);
    assert_eq!(nested.as_ref().as_array().unwrap().get(0).unwrap().get::<Vec<u64>>(), Ok(vec![1, 2]));
}

#[test]
fn what_does_not_convert_says_why() {
    assert_eq!(read::<Vec<u8>>([1i32, 300]).unwrap_err().to_string(), "element 1 is 300, which does not fit u8");
    assert_eq!(
        read::<Vec<u8>>([1i32, -1]),
        Err(ValueError::Element { index: 1, problem: Box::new(ValueError::OutOfRange { asked: "u8", found: -1 }) })
    );
    assert_eq!(read::<Vec<u8>>(1u8), Err(ValueError::WrongType { asked: "array", found: ValueType::U8 }));
    assert_eq!(read::<String>(1u8), Err(ValueError::WrongType { asked: "string", found: ValueType::U8 }));
    assert_eq!(read::<String>(Value::String(b"a\xff".to_vec())), Err(ValueError::NotUtf8(1)));
    assert_eq!(u8::try_from(ValueRef::from(256u32)), Err(ValueError::OutOfRange { asked: "u8", found: 256 }));
    assert_eq!(u8::try_from(ValueRef::from(255u64)), Ok(255));
    assert_eq!(<&str>::try_from(ValueRef::from("text")), Ok("text"));
    assert_eq!(bool::try_from(ValueRef::from(true)), Ok(true));
    assert!(ArrayRef::try_from(ValueRef::from(true)).is_err());
}

#[test]
fn a_missing_key_is_an_error_or_none() {
    let mut head = Head::default();
    head.set("there", 7u32);
    let bytes = head.encode().unwrap();
    let gguf = Gguf::parse(&bytes).unwrap();
    assert_eq!(gguf.get_as::<Option<u8>>("there"), Ok(Some(7)));
    assert_eq!(gguf.get_as::<Option<u8>>("missing"), Ok(None));
    assert_eq!(gguf.get_as::<Option<Vec<String>>>("missing"), Ok(None));
    let wrong: GetError = gguf.get_as::<Option<String>>("there").unwrap_err();
    assert_eq!(wrong.to_string(), "there is of type u32, not string");
    assert_eq!(gguf.get_as::<u8>("missing").unwrap_err().to_string(), "the key missing is missing");
}

#[test]
fn strings_of_a_file_and_text() {
    let s = Str::from("text");
    assert_eq!(<&str>::try_from(s), Ok("text"));
    assert_eq!(s, "text");
    assert_eq!("text", s);
    assert_eq!(*"text", s);
    assert!(s != "texts" && "tex" != s);
    assert_eq!(<&str>::try_from(Str(b"ab\xff")).unwrap_err().valid_up_to(), 2);
    assert_eq!(Value::from(s), Value::from("text"));
}

#[test]
fn an_index_of_strings_agrees_with_the_walk() {
    let texts: Vec<String> = (0..1000).map(|i| "x".repeat(i % 300)).collect();
    let mut nuls = Dialect::new(Version::V2);
    nuls.nul_strings = true;
    for dialect in [Dialect::default(), Dialect::new(Version::V1), nuls] {
        let mut head = Head { dialect, ..Head::default() };
        head.set("texts", &texts[..]);
        let bytes = head.encode().unwrap();
        let gguf = Gguf::parse(&bytes).unwrap();
        let array: ArrayRef<'_> = gguf.get_as("texts").unwrap();
        let index = array.index_strings().unwrap();
        assert_eq!((index.len(), index.is_empty()), (texts.len(), false));
        for i in [0, 1, 299, 300, 500, 999] {
            assert_eq!(index.get(i).unwrap(), texts[i].as_str(), "{i}");
        }
        assert_eq!(index.get(1000), None);
        assert!(index.iter().eq(array.strings().unwrap()) && (&index).into_iter().count() == 1000);
    }
    assert!(Array::new(ValueType::STRING).as_ref().index_strings().unwrap().is_empty());
    assert!(Array::new(ValueType::U8).as_ref().index_strings().is_none());
}

#[test]
fn iterators_know_their_length() {
    let array: Array = ["a", "bc", ""].into_iter().collect();
    let (mut values, mut strings) = (array.as_ref().iter(), array.as_ref().strings().unwrap());
    for left in (0..3).rev() {
        assert!(values.next().is_some() && strings.next().is_some());
        assert_eq!((values.len(), strings.len()), (left, left));
    }
    assert!(values.next().is_none() && strings.next().is_none());

    let mut head = Head::default();
    (0..4u8).for_each(|i| head.set(&format!("k{i}"), i));
    let bytes = head.encode().unwrap();
    let gguf = Gguf::parse(&bytes).unwrap();
    let mut kvs = (&gguf).into_iter();
    assert_eq!(kvs.len(), 4);
    assert!(kvs.next().unwrap().key == "k0" && kvs.nth(1).unwrap().key == "k2" && kvs.next_back().unwrap().key == "k3");
    assert!(kvs.next().is_none());
    assert_eq!(Head::from(&gguf), head);
}

#[test]
fn values_and_shapes_are_displayed_plainly() {
    let shown = |value: Value| value.as_ref().to_string();
    assert_eq!(shown(7u8.into()), "7");
    assert_eq!(shown((-7i64).into()), "-7");
    assert_eq!(shown(1e-5f32.into()), "0.00001");
    assert_eq!(shown(true.into()), "true");
    assert_eq!(shown(Value::Bool(2)), "bool 2");
    assert_eq!(shown("a\nb\u{1b}[31m".into()), "a\\nb\\u{1b}[31m");
    assert_eq!(shown(["a", "b"].into()), "[string; 2]");

    let tensors = vec![TensorInfo::new("a", [32, 3, 2], GgmlType::F32), TensorInfo::new("b", [], GgmlType::F32)];
    let bytes = Head { tensors, ..Head::default() }.encode().unwrap();
    let gguf = Gguf::parse(&bytes).unwrap();
    let [a, b] = ["a", "b"].map(|name| gguf.tensor(name).unwrap().dims);
    assert_eq!((a.to_string().as_str(), b.to_string().as_str()), ("32 x 3 x 2", ""));
    assert_eq!(format!("{a:<12}|{a:>12}|{b:3}|"), "32 x 3 x 2  |  32 x 3 x 2|   |");
    assert_eq!(format!("{:<6}|{:>6}|{:.1}|", Str(b"a\n"), Str(b"\xff"), Str(b"abc")), "a\\n   |  \\xff|a|");
    assert_eq!(format!("{a:?} {b:?}"), "[32, 3, 2] []");
}
