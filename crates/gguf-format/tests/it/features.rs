//! The optional features.

#[cfg(feature = "serde")]
#[test]
fn values_tensors_and_findings_as_json() {
    use gguf_format::{Array, GgmlType, Gguf, Head, TensorInfo, Value, ValueRef, ValueType, check};
    use serde_json::json;

    let as_json = |v: Value| serde_json::to_value(v).unwrap();
    assert_eq!(as_json(u64::MAX.into()), json!(u64::MAX));
    assert_eq!(as_json((-1i8).into()), json!(-1));
    assert_eq!(as_json(1.5f32.into()), json!(1.5));
    assert_eq!(as_json(true.into()), json!(true));
    assert_eq!(as_json(Value::Bool(7)), json!(7));
    assert_eq!(as_json("ü".into()), json!("ü"));
    assert_eq!(as_json(Value::String(b"a\xff".to_vec())), json!([97, 255]));
    assert_eq!(as_json([["a", "b"].into_iter().collect::<Array>()].into()), json!([["a", "b"]]));
    assert_eq!(serde_json::to_value(ValueRef::from(3u8)).unwrap(), json!(3));
    assert_eq!(serde_json::to_value([GgmlType::Q4_K, GgmlType(99)]).unwrap(), json!(["q4_K", 99]));
    assert_eq!(serde_json::to_value([ValueType::F32, ValueType(99)]).unwrap(), json!(["f32", 99]));

    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.tensors = vec![TensorInfo::new("a", [32, 2], GgmlType::Q8_0)];
    let bytes = head.encode().unwrap();
    let gguf = Gguf::parse(&bytes).unwrap();
    let expected = json!({
        "version": 3,
        "byte_order": "little",
        "alignment": 32,
        "data_offset": 128,
        "key_values": [{ "key": "general.architecture", "type": "string", "value": "llama" }],
        "tensors": [{ "name": "a", "shape": [32, 2], "type": "q8_0", "offset": 0 }],
    });
    assert_eq!(serde_json::to_value(&gguf).unwrap(), expected);
    assert_eq!(serde_json::to_value(&head.kvs).unwrap(), expected["key_values"]);
    assert_eq!(serde_json::to_value(&head.tensors).unwrap(), expected["tensors"]);

    let report = check::format(&bytes, bytes.len() as u64);
    let first = report.findings().next().unwrap();
    let json = serde_json::to_value(&first).unwrap();
    assert_eq!(json["code"], "tensor.bounds");
    assert_eq!(json["severity"], "error");
    assert_eq!(json["place"], json!({ "kind": "tensor", "name": "a", "offset": 69 }));
}

#[cfg(feature = "bytemuck")]
#[test]
fn tensor_data_as_numbers() {
    use gguf_format::{ByteOrder, CastError, GgmlType, cast_elements};

    let (native, other) = match cfg!(target_endian = "big") {
        true => (ByteOrder::Big, ByteOrder::Little),
        false => (ByteOrder::Little, ByteOrder::Big),
    };
    let words = [0u64, 1, u64::MAX, 3];
    let bytes: &[u8] = bytemuck::cast_slice(&words);
    assert_eq!(cast_elements::<i64>(GgmlType::I64, native, bytes), Ok(&[0, 1, -1, 3][..]));
    assert_eq!(
        cast_elements::<i64>(GgmlType::F64, native, bytes),
        Err(CastError::Type { asked: GgmlType::I64, found: GgmlType::F64 })
    );
    assert_eq!(cast_elements::<i64>(GgmlType::I64, other, bytes), Err(CastError::ByteOrder(other)));
    assert_eq!(cast_elements::<i8>(GgmlType::I8, other, bytes).map(<[i8]>::len), Ok(32));
    assert_eq!(
        cast_elements::<i64>(GgmlType::I64, native, &bytes[1..9]),
        Err(CastError::Unaligned { alignment: align_of::<i64>() })
    );
    assert_eq!(
        cast_elements::<f32>(GgmlType::F32, native, &bytes[..6]),
        Err(CastError::PartialElement { bytes: 6, element_bytes: 4 })
    );
    #[cfg(feature = "half")]
    {
        let bits = [0x3c00u16, 0x4000];
        let bytes: &[u8] = bytemuck::cast_slice(&bits);
        let halves = cast_elements::<half::f16>(GgmlType::F16, native, bytes).unwrap();
        assert_eq!(halves.iter().map(|h| h.to_f32()).collect::<Vec<_>>(), [1.0, 2.0]);
        assert!(cast_elements::<half::bf16>(GgmlType::BF16, native, bytes).is_ok());
        assert!(cast_elements::<half::bf16>(GgmlType::F16, native, bytes).is_err());
    }
}
