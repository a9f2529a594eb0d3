//! Whole tensors in one call: the results of the codecs, with any number of threads.

use std::num::NonZeroUsize;

use gguf_format::GgmlType;
use gguf_quants::{CodecError, Rows, RowsError, codec, dequantize, quantize};
use gguf_test::data::Kind;
use gguf_test::random::Random;

fn threads(n: usize) -> Option<NonZeroUsize> {
    NonZeroUsize::new(n)
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    if !cfg!(feature = "encode") {
        return;
    }
    let (row_len, n_rows) = (256, 611);
    let mut random = Random::new("threads", 0);
    let weights: Vec<f32> = (0..row_len).map(|_| random.unit()).collect();
    // With a matrix, Q4_0 depends on the mean square of the row.
    for ty in [GgmlType::Q4_0, GgmlType::Q8_0, GgmlType::F16] {
        let values = Kind::Normal.values(ty, &mut random, row_len * n_rows);
        let codec = codec(ty).unwrap();
        let mut expected = vec![0; codec.packed_bytes(values.len()).unwrap()];
        codec.encode(Rows::new(&values, row_len, Some(&weights)).unwrap(), &mut expected).unwrap();
        for n in [0, 1, 2, 3, 7, 100] {
            let packed = quantize(ty, &values, row_len, Some(&weights), threads(n)).unwrap();
            assert!(packed == expected, "{ty}, {n} threads");
        }
        let mut values = vec![0.0; values.len()];
        codec.decode(&expected, &mut values).unwrap();
        assert!(dequantize(ty, &expected).unwrap() == values, "{ty}");
    }
}

/// The first refused block is reported, regardless of the threads' parts.
#[test]
fn the_refused_block_is_the_same_for_any_number_of_threads() {
    if !cfg!(feature = "iq") {
        return;
    }
    let (row_len, n_rows) = (512, 300);
    let mut values = vec![0.01; row_len * n_rows];
    for row in [137, 211, 299] {
        values[row * row_len + 256..(row + 1) * row_len].fill(f32::NAN);
    }
    let expected = CodecError::Refused { ty: GgmlType::IQ3_S, block: 2 * 137 + 1 };
    for n in [1, 2, 5] {
        assert_eq!(quantize(GgmlType::IQ3_S, &values, row_len, None, threads(n)), Err(expected), "{n} threads");
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let values = [0.5; 64];
    let none = GgmlType(99);
    assert_eq!(quantize(none, &values, 32, None, None), Err(CodecError::NoCodec(none)));
    assert_eq!(dequantize(none, &[]), Err(CodecError::NoCodec(none)));
    assert_eq!(CodecError::NoCodec(none).to_string(), "type 99 can be neither read nor written");

    let rows = RowsError::PartialRow { values: 64, row_len: 48 };
    assert_eq!(quantize(GgmlType::Q8_0, &values, 48, None, None), Err(CodecError::Rows(rows)));
    assert_eq!(CodecError::Rows(rows).to_string(), rows.to_string());
    let weights = RowsError::Weights { weights: 3, row_len: 32 };
    assert_eq!(quantize(GgmlType::Q8_0, &values, 32, Some(&[1.0; 3]), None), Err(CodecError::Rows(weights)));
    let partial = CodecError::PartialBlock { ty: GgmlType::Q8_0, row_len: 16 };
    assert_eq!(quantize(GgmlType::Q8_0, &values, 16, None, None), Err(partial));
    assert_eq!(quantize(GgmlType::Q8_1, &values, 32, None, None), Err(CodecError::DecodeOnly(GgmlType::Q8_1)));

    let size = CodecError::Size { ty: GgmlType::Q8_0, needed: 34, given: 35 };
    assert_eq!(dequantize(GgmlType::Q8_0, &[0; 35]), Err(size));
    assert_eq!(dequantize(GgmlType::Q8_0, &[]), Ok(vec![]));
}

#[test]
fn nothing_is_packed_as_nothing() {
    let left_out = Err(CodecError::LeftOut { ty: GgmlType::Q8_0, feature: "encode" });
    let expected = if cfg!(feature = "encode") { Ok(vec![]) } else { left_out };
    for row_len in [0, 32] {
        assert_eq!(quantize(GgmlType::Q8_0, &[], row_len, None, threads(3)), expected);
    }
}

/// Every encoder of ggml is here, or its absence is explained by a feature.
#[test]
fn an_encoder_that_is_left_out_names_its_feature() {
    let weights = [1.0; 256];
    for codec in gguf_quants::codecs() {
        let ty = codec.ty;
        let result = quantize(ty, &[0.5; 256], 256, Some(&weights), None);
        let feature = if ty.to_string().starts_with("iq") { "iq" } else { "encode" };
        let on = [("iq", cfg!(feature = "iq")), ("encode", cfg!(feature = "encode"))].contains(&(feature, true));
        match result {
            Ok(packed) => assert!(on && codec.can_encode() && dequantize(ty, &packed).unwrap().len() == 256, "{ty}"),
            Err(CodecError::DecodeOnly(_)) => assert!(!codec.can_encode(), "{ty}"),
            Err(error) => {
                assert!(!on && !codec.can_encode(), "{ty}");
                assert_eq!(error, CodecError::LeftOut { ty, feature });
                let text = format!("{ty} cannot be written: gguf-quants was compiled without the feature {feature}");
                assert_eq!(error.to_string(), text);
            }
        }
    }
}
