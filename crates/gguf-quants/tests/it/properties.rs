//! Properties of every codec, tested without ggml: every instruction set agrees with the scalar reference, and invalid input is rejected
//! before anything is written.

use gguf_quants::codec::{Codec, CodecError, Matrix, codec, codecs};
use gguf_quants::{Isa, RowSquares, Rows, RowsError};
use gguf_test::data::{IMPOSSIBLE, Kind, Scales, Weights, blocks, impossible, matrices};
use gguf_test::random::Random;

fn block_len(codec: &Codec) -> usize {
    codec.ty.info().unwrap().block_len as usize
}

/// Encodes rows into a new buffer.
fn encode(codec: &Codec, isa: Isa, rows: Rows<'_>) -> Result<Vec<u8>, CodecError> {
    let mut packed = vec![0x55; codec.packed_bytes(rows.values().len()).unwrap()];
    codec.encode_with(isa, rows, &mut packed).map(|()| packed)
}

fn others() -> impl Iterator<Item = Isa> {
    Isa::available().filter(|isa| *isa != Isa::Scalar)
}

#[test]
fn every_instruction_set_encodes_alike() {
    for codec in codecs().iter().filter(|c| c.can_encode()) {
        let row_len = block_len(codec).max(32);
        for (k, kind) in Kind::ALL.into_iter().enumerate() {
            for (w, weights) in matrices(codec).iter().enumerate() {
                // Debug builds are slow, and test a third of the cases.
                if cfg!(debug_assertions) && (k + w) % 3 != 0 {
                    continue;
                }
                let mut random = Random::new("alike", codec.ty.0.into());
                let values = kind.values(codec.ty, &mut random, 5 * row_len);
                let matrix = weights.columns(&mut random, row_len);
                let rows = Rows::new(&values, row_len, matrix.as_deref()).unwrap();
                let plain = encode(codec, Isa::Scalar, rows);
                for isa in others() {
                    let (ty, kind, weights) = (codec.ty, kind.name(), weights.name());
                    assert!(encode(codec, isa, rows) == plain, "{ty} {isa}, {kind}, matrix: {weights}");
                }
            }
        }
    }
}

/// A group with one value is as good with any level for it, so nothing but the rounding of each score decides between them.
#[test]
fn single_values_encode_alike() {
    for name in ["iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_xs"] {
        let codec = codecs().iter().find(|codec| codec.ty.to_string() == name).unwrap();
        let len = block_len(codec);
        for weights in matrices(codec) {
            let mut random = Random::new("single values", codec.ty.0.into());
            let mut values = vec![0.0; 128 * len];
            for group in values.chunks_mut(16) {
                group[random.below(16)] = random.normal();
            }
            // Here the best score of IQ1_M becomes lower by rounding when one kind of shifts replaces another.
            values[..16].fill(0.0);
            values[13] = -0.071545064;
            let matrix = weights.columns(&mut random, len);
            let rows = Rows::new(&values, len, matrix.as_deref()).unwrap();
            let plain = encode(codec, Isa::Scalar, rows);
            for isa in others() {
                assert!(encode(codec, isa, rows) == plain, "{name} {isa}, matrix: {}", weights.name());
            }
        }
    }
}

#[test]
fn any_number_of_blocks_encodes_alike() {
    const MOST: usize = if cfg!(debug_assertions) { 34 } else { 70 };
    for codec in codecs().iter().filter(|c| c.can_encode()) {
        let (len, bytes) = (block_len(codec), codec.packed_bytes(block_len(codec)).unwrap());
        let mut random = Random::new("any number", codec.ty.0.into());
        let values = Kind::Adversarial.values(codec.ty, &mut random, MOST * len);
        let weights = if codec.matrix == Matrix::Ignored { Weights::None } else { Weights::Positive };
        let matrix = weights.columns(&mut random, len);
        let plain = encode(codec, Isa::Scalar, Rows::new(&values, len, matrix.as_deref()).unwrap()).unwrap();
        for isa in others() {
            for n in (1..=MOST).filter(|n| n % 16 < 3 || n % 8 == 7) {
                let first = (MOST - n) / 2;
                let rows = Rows::new(&values[first * len..][..n * len], len, matrix.as_deref()).unwrap();
                let expected = &plain[first * bytes..][..n * bytes];
                assert!(encode(codec, isa, rows).unwrap() == expected, "{} {isa}, {n} blocks", codec.ty);
            }
        }
    }
}

/// The refused block follows good ones, to test its number.
#[test]
fn impossible_values_encode_alike() {
    for codec in codecs().iter().filter(|c| c.can_encode()) {
        let len = block_len(codec).max(32);
        for case in 0..IMPOSSIBLE {
            for weights in [Weights::None, Weights::Positive] {
                if !matrices(codec).contains(&weights) {
                    continue;
                }
                let mut random = Random::new("impossible", case as u64);
                let mut values = Kind::Normal.values(codec.ty, &mut random, 4 * len);
                values[2 * len..3 * len].copy_from_slice(&impossible(case, &mut random, len));
                let matrix = weights.columns(&mut random, len);
                let rows = Rows::new(&values, len, matrix.as_deref()).unwrap();
                let plain = encode(codec, Isa::Scalar, rows);
                for isa in others() {
                    let ty = codec.ty;
                    assert!(encode(codec, isa, rows) == plain, "{ty} {isa}, case {case}, matrix: {}", weights.name());
                }
            }
        }
    }
}

#[test]
fn every_instruction_set_decodes_alike() {
    for codec in codecs() {
        let (len, bytes) = (block_len(codec), codec.ty.info().unwrap().block_bytes as usize);
        // Which of two NaNs a sum returns is up to the compiler. For the types that ggml decodes, its choice on x86-64 must match.
        let nans_count = cfg!(target_arch = "x86_64") && !codec.ty.info().unwrap().removed;
        let bits = |isa, packed: &[u8]| {
            let mut values = vec![1e33; packed.len() / bytes * len];
            codec.decode_with(isa, packed, &mut values).unwrap();
            let bits = |v: &f32| if v.is_nan() && !nans_count { f32::NAN.to_bits() } else { v.to_bits() };
            values.iter().map(bits).collect::<Vec<_>>()
        };
        for scales in [Scales::Finite, Scales::Any] {
            let packed = blocks(codec.ty, scales, &mut Random::new("decoded alike", codec.ty.0.into()), 67);
            let plain = bits(Isa::Scalar, &packed);
            for isa in others() {
                assert!(bits(isa, &packed) == plain, "{} {isa} {scales:?}", codec.ty);
                for n in [1, 2, 7, 16, 31, 33] {
                    let found = bits(isa, &packed[(67 - n) * bytes..]);
                    assert!(found == plain[(67 - n) * len..], "{} {isa} {scales:?}, {n} blocks", codec.ty);
                }
            }
        }
    }
}

#[test]
fn the_table_is_in_order() {
    assert!(codecs().windows(2).all(|w| w[0].ty < w[1].ty));
    for c in codecs() {
        assert!(c.ty.info().is_some());
        assert_eq!(codec(c.ty).map(|c| c.ty), Some(c.ty));
    }
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    for codec in codecs() {
        let (ty, len) = (codec.ty, block_len(codec));
        let bytes = codec.packed_bytes(len).unwrap();
        assert_eq!(codec.packed_bytes(0), Some(0));
        let values = vec![0.5; 3 * len];
        let weights = vec![1.0; len];
        let needs = (codec.matrix == Matrix::Required).then_some(&weights[..]);
        for isa in Isa::available() {
            let mut room = vec![7.0f32; 2 * len];
            for given in [0, 2 * bytes - 1, 2 * bytes + 1] {
                let error = codec.decode_with(isa, &vec![0; given], &mut room).unwrap_err();
                assert_eq!(error, CodecError::Size { ty, needed: 2 * bytes, given });
                assert_eq!(error.to_string(), format!("expected {} bytes of {ty}, found {given}", 2 * bytes));
            }
            if len > 1 {
                let error = codec.decode_with(isa, &vec![0; bytes], &mut room[..len - 1]).unwrap_err();
                assert_eq!(error, CodecError::Size { ty, needed: 0, given: bytes });
            }
            assert!(room.iter().all(|v| *v == 7.0));
            assert_eq!(codec.decode_with(isa, &[], &mut []), Ok(()));

            let mut packed = vec![7; 3 * bytes];
            let rows = Rows::new(&values, len, needs).unwrap();
            if !codec.can_encode() {
                let error = codec.encode_with(isa, rows, &mut packed).unwrap_err();
                // Encoders excluded by features are tested in whole.rs.
                if !matches!(error, CodecError::LeftOut { .. }) {
                    assert_eq!(error, CodecError::DecodeOnly(ty));
                    assert_eq!(error.to_string(), format!("{ty} can be read but not written"));
                }
                continue;
            }
            for given in [0, bytes, 3 * bytes - 1] {
                let error = codec.encode_with(isa, rows, &mut packed[..given]).unwrap_err();
                assert_eq!(error, CodecError::Size { ty, needed: 3 * bytes, given });
            }
            if len > 1 {
                // The values of three blocks, in rows that are not whole blocks.
                let row_len = 3 * len / 2;
                let row = vec![1.0; row_len];
                let rows = Rows::new(&values, row_len, needs.map(|_| &row[..])).unwrap();
                let error = codec.encode_with(isa, rows, &mut packed).unwrap_err();
                assert_eq!(error, CodecError::PartialBlock { ty, row_len });
                let text = format!("a row of {row_len} values is not a whole number of {ty} blocks of {len}");
                assert_eq!(error.to_string(), text);
            }
            if codec.matrix == Matrix::Required {
                let rows = Rows::new(&values, len, None).unwrap();
                let error = codec.encode_with(isa, rows, &mut packed).unwrap_err();
                assert_eq!(error, CodecError::NeedsMatrix(ty));
                assert_eq!(error.to_string(), format!("{ty} needs an importance matrix"));
            }
            assert!(packed.iter().all(|b| *b == 7), "{ty}: written in spite of an error");
            assert_eq!(codec.encode_with(isa, Rows::new(&[], len, needs).unwrap(), &mut []), Ok(()));
        }
    }
}

#[test]
fn rows_fit_their_lengths() {
    let values = [0.0; 12];
    for row_len in [1, 2, 3, 4, 6, 12] {
        let rows = Rows::new(&values, row_len, None).unwrap();
        assert_eq!((rows.values().len(), rows.row_len(), rows.weights()), (12, row_len, None));
    }
    for row_len in [0, 5, 13] {
        let error = Rows::new(&values, row_len, None).unwrap_err();
        assert_eq!(error, RowsError::PartialRow { values: 12, row_len });
        assert_eq!(error.to_string(), format!("12 values are not a whole number of rows of {row_len}"));
    }
    for n in [0, 3, 5] {
        let error = Rows::new(&values, 4, Some(&values[..n])).unwrap_err();
        assert_eq!(error, RowsError::Weights { weights: n, row_len: 4 });
        assert_eq!(error.to_string(), format!("expected 4 importance weights per row, found {n}"));
    }
    assert!(Rows::new(&[], 4, None).is_ok());
}

/// Parts of a row, cut at any block, have the same bytes as in the whole row.
#[test]
fn a_row_encodes_alike_in_parts() {
    for codec in codecs().iter().filter(|c| c.can_encode()) {
        let len = block_len(codec).max(32);
        let (row_len, row_bytes) = (7 * len, codec.packed_bytes(7 * len).unwrap());
        // Without a matrix, and with one.
        let mut looked = [false; 2];
        for weights in matrices(codec) {
            let mut random = Random::new("parts", codec.ty.0.into());
            let values = Kind::Adversarial.values(codec.ty, &mut random, row_len);
            let matrix = weights.columns(&mut random, row_len);
            let matrix = matrix.as_deref();
            let mut squares = RowSquares::default();
            values.chunks(3 * len).for_each(|part| squares.add(part));
            let whole = encode(codec, Isa::best(), Rows::new(&values, row_len, matrix).unwrap()).unwrap();
            for (from, to) in [(0, 7), (0, 1), (1, 2), (2, 7), (6, 7)] {
                let (part, columns) = (&values[from * len..to * len], matrix.map(|m| &m[from * len..to * len]));
                let expected = &whole[from * row_bytes / 7..to * row_bytes / 7];
                for isa in Isa::available() {
                    let found = encode(codec, isa, Rows::part_of_row(part, columns, squares).unwrap());
                    assert!(found.as_deref() == Ok(expected), "{} {isa}, blocks {from} to {to}", codec.ty);
                }
                let alone = encode(codec, Isa::best(), Rows::new(part, part.len(), columns).unwrap());
                looked[usize::from(matrix.is_some())] |= alone.as_deref() != Ok(expected);
            }
        }
        // Exactly the codecs that look at rows report it.
        assert_eq!(looked, [false, true].map(|has_matrix| codec.looks_at_rows(has_matrix)), "{}", codec.ty);
    }
    let squares = RowSquares::default();
    assert_eq!(
        Rows::part_of_row(&[0.0; 64], Some(&[1.0; 32]), squares).unwrap_err(),
        RowsError::Weights { weights: 32, row_len: 64 }
    );
}
