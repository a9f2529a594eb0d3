//! Compares codecs with the real ggml, on a sample of the data of `cargo bench -p gguf-benches --bench exact`: every codec, every
//! instruction set of this machine, every kind of numbers and of matrix.
//!
//! `GGUF_PEERS` is the directory of the peers; without it the tests are ignored.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use gguf_benches::compare::{self, Sample, Source, Tally};
use gguf_benches::{Ggml, Isolated, real_rows};
use gguf_test::data::{IMPOSSIBLE, Kind, Scales, Weights, blocks, impossible, matrices};
use gguf_test::peers;
use gguf_test::random::Random;

use gguf_format::{ByteOrder, GgmlType, TYPES, scan_data};
use gguf_quants::codec::{Codec, CodecError, Matrix, codec, codecs};
use gguf_quants::{Isa, Rows};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Debug builds are slow.
const PIECE: usize = if cfg!(debug_assertions) { 2048 } else { 8192 };

fn ggml() -> Ggml {
    Ggml::load(&peers::peers()).expect("the peers' libggml-base.so")
}

/// Compares every codec on two threads.
fn each_codec(compare: impl Fn(&'static Codec) -> Tally + Sync) -> Tally {
    let (next, sum) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(codec) = codecs().get(next.fetch_add(1, Ordering::Relaxed)) {
                    let tally = compare(codec);
                    *sum.lock().unwrap() += tally;
                }
            });
        }
    });
    sum.into_inner().unwrap()
}

#[track_caller]
fn assert_clean(tally: &Tally) {
    let Tally { different_blocks, different_weights, examples, .. } = tally;
    assert!(
        tally.is_clean(),
        "{different_blocks} blocks encoded differently, {different_weights} weights decoded differently:\n{}",
        examples.join("\n")
    );
}

fn every_encoder_gives_the_bytes_of_ggml() {
    let ggml = ggml();
    let isas: Vec<Isa> = Isa::available().collect();
    let tally = each_codec(|codec| {
        let mut tally = Tally::default();
        let mut number = 0;
        for (kind, weights) in Kind::ALL.into_iter().flat_map(|k| matrices(codec).iter().map(move |w| (k, w))) {
            // The lengths of rows occur in all combinations with the other parameters.
            number += 1;
            let sample = Sample::new(codec, Source::Made(kind), *weights, 1_000_000 + number, PIECE);
            if codec.can_encode() {
                tally += compare::sample(&ggml, codec, &isas, &sample, &[]).unwrap();
            }
        }
        tally
    });
    assert_clean(&tally);
    assert!(tally.encoded > 0 && tally.scalar == tally.encoded);
}

fn real_rows_have_the_bytes_of_ggml() {
    let ggml = ggml();
    let real = real_rows(&peers::data("glossary-bf16.gguf")).unwrap();
    assert!(real.len() > 2_000_000);
    let isas: Vec<Isa> = Isa::available().collect();
    let tally = each_codec(|codec| {
        let mut tally = Tally::default();
        for (i, weights) in matrices(codec).iter().enumerate() {
            // Distant places of the model.
            let sample = Sample::new(codec, Source::Real, *weights, 25 * i as u64, 2 * PIECE);
            if codec.can_encode() {
                tally += compare::sample(&ggml, codec, &isas, &sample, &real).unwrap();
            }
        }
        tally
    });
    assert_clean(&tally);
}

/// From one block to more than the widest kernels process at once, starting at any row.
fn any_number_of_blocks() {
    let ggml = ggml();
    let most = if cfg!(debug_assertions) { 34 } else { 70 };
    let tally = each_codec(|codec| {
        let mut tally = Tally::default();
        if !codec.can_encode() {
            return tally;
        }
        let t = codec.ty.info().unwrap();
        let (block_len, block_bytes) = (t.block_len as usize, t.block_bytes as usize);
        for &matrix in &[Weights::None, Weights::Positive] {
            if !matrices(codec).contains(&matrix) {
                continue;
            }
            let mut random = Random::new("any number of blocks", 0);
            let values = Kind::Adversarial.values(codec.ty, &mut random, most * block_len);
            let weights = matrix.columns(&mut random, block_len);
            let mut theirs = vec![0; most * block_bytes];
            ggml.quantize(codec.ty, &values, block_len, weights.as_deref(), &mut theirs).unwrap();
            for isa in Isa::available() {
                for n in 1..=most {
                    // The scalar reference processes one block after the other anyway.
                    if isa == Isa::Scalar && n % 16 != 0 {
                        continue;
                    }
                    let first = (most - n) / 2;
                    let rows = &values[first * block_len..(first + n) * block_len];
                    let rows = Rows::new(rows, block_len, weights.as_deref()).unwrap();
                    let theirs = &theirs[first * block_bytes..(first + n) * block_bytes];
                    let what = format!("{}, {n} blocks from block {first} on, matrix: {}", codec.ty, matrix.name());
                    tally += compare::encoded(codec, &[isa], rows, theirs, &what);
                    tally += compare::decoded(&ggml, codec, &[isa], theirs, &what).unwrap();
                }
            }
        }
        tally
    });
    assert_clean(&tally);
}

fn every_decoder_gives_the_bits_of_ggml() {
    let ggml = ggml();
    let isas: Vec<Isa> = Isa::available().collect();
    let tally = each_codec(|codec| {
        let mut tally = Tally::default();
        for number in 0..24 {
            tally += compare::random_blocks(&ggml, codec, &isas, number, 2 * PIECE).unwrap();
        }
        tally
    });
    assert_clean(&tally);
    assert!(tally.decoded > 0);
}

/// If the table says that a matrix is ignored, it changes nothing here and in ggml.
fn a_matrix_is_ignored_where_the_table_says_so() {
    let ggml = ggml();
    let isas: Vec<Isa> = Isa::available().collect();
    let tally = each_codec(|codec| {
        let mut tally = Tally::default();
        if codec.can_encode() && codec.matrix == Matrix::Ignored {
            let sample = Sample::new(codec, Source::Made(Kind::Normal), Weights::Varied, 0, PIECE);
            tally += compare::sample(&ggml, codec, &isas, &sample, &[]).unwrap();
        }
        tally
    });
    assert_clean(&tally);
}

/// Conversions between all types are equal to ggml's `to_float` followed by `ggml_quantize_chunk`.
fn requantizing_gives_the_bytes_of_ggml() {
    let ggml = ggml();
    let isas = [Isa::best()];
    let tally = each_codec(|from| {
        let mut tally = Tally::default();
        let t = from.ty.info().unwrap();
        let row_len = 512;
        let n_blocks = 2 * row_len / t.block_len as usize;
        let packed = blocks(from.ty, Scales::Finite, &mut Random::new("requantizing", t.id.into()), n_blocks);
        let mut theirs = vec![0.0; 2 * row_len];
        if t.removed || !ggml.to_float(from.ty, &packed, &mut theirs).unwrap() {
            return tally;
        }
        let mut ours = theirs.clone();
        ours.fill(0.0);
        from.decode_with(isas[0], &packed, &mut ours).unwrap();
        for to in codecs().iter().filter(|to| to.can_encode()) {
            for matrix in [Weights::None, Weights::Positive] {
                if !matrices(to).contains(&matrix) {
                    continue;
                }
                let weights = matrix.columns(&mut Random::new("matrix", 0), row_len);
                let mut expected = vec![0; to.packed_bytes(theirs.len()).unwrap()];
                ggml.quantize(to.ty, &theirs, row_len, weights.as_deref(), &mut expected).unwrap();
                let rows = Rows::new(&ours, row_len, weights.as_deref()).unwrap();
                let what = format!("{} to {}, matrix: {}", from.ty, to.ty, matrix.name());
                tally += compare::encoded(to, &isas, rows, &expected, &what);
            }
        }
        tally
    });
    assert_clean(&tally);
}

/// For impossible values, ggml's bytes are matched, and its aborts become errors.
fn impossible_values_are_refused_where_ggml_aborts() {
    let failures = Mutex::new(vec![]);
    let ggml = Mutex::new(Isolated::new(env!("CARGO_BIN_EXE_ggml-peer")));
    each_codec(|codec| {
        let block_len = codec.ty.info().unwrap().block_len as usize;
        for case in 0..IMPOSSIBLE {
            for matrix in [Weights::None, Weights::Positive] {
                if !codec.can_encode() || !matrices(codec).contains(&matrix) {
                    continue;
                }
                let mut random = Random::new("impossible", case as u64);
                let values = impossible(case, &mut random, block_len.max(32));
                let weights = matrix.columns(&mut random, values.len());
                let theirs = ggml.lock().unwrap().quantize(codec.ty, &values, values.len(), weights.as_deref());
                let theirs = theirs.unwrap();
                let rows = Rows::new(&values, values.len(), weights.as_deref()).unwrap();
                for isa in Isa::available() {
                    let mut ours = vec![0; codec.packed_bytes(values.len()).unwrap()];
                    let same = match (codec.encode_with(isa, rows, &mut ours), &theirs) {
                        (Ok(()), Some(theirs)) => ours == *theirs,
                        (Err(CodecError::Refused { .. }), None) => true,
                        _ => false,
                    };
                    if !same {
                        let (ty, matrix) = (codec.ty, matrix.name());
                        let theirs = if theirs.is_some() { "gives bytes" } else { "aborts" };
                        failures
                            .lock()
                            .unwrap()
                            .push(format!("{ty} {isa}, case {case}, matrix {matrix}: ggml {theirs}"));
                    }
                }
            }
        }
        Tally::default()
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}

/// The reason why a type's validity check differs from ggml's, if it does.
fn judged_otherwise(ty: GgmlType) -> Option<&'static str> {
    match ty {
        GgmlType::NVFP4 => Some("ggml takes every scale, also those that are NaN"),
        GgmlType::F64 => {
            Some("ggml looks at doubles after rounding them to single precision, where large ones are infinite")
        }
        GgmlType::Q8_1 => Some("ggml refuses to look at a type that files do not have"),
        _ => None,
    }
}

fn validity_is_judged_as_by_ggml() {
    let mut ggml = Isolated::new(env!("CARGO_BIN_EXE_ggml-peer"));
    let mut judged = [0; 2];
    for t in TYPES.iter().filter(|t| !t.removed) {
        let ty = GgmlType(t.id);
        let mut differ = 0;
        for number in 0..300 {
            let mut random = Random::new("validity", number);
            let scales = if number.is_multiple_of(2) { Scales::Any } else { Scales::Finite };
            let n_blocks = 1 + random.below(40);
            let mut packed = blocks(ty, Scales::Finite, &mut random, n_blocks);
            let one = blocks(ty, scales, &mut random, 1);
            packed[random.below(n_blocks) * one.len()..][..one.len()].copy_from_slice(&one);
            let theirs = ggml.validate(ty, &packed).unwrap();
            let ours = scan_data(ty, ByteOrder::Little, &packed, 0).unwrap().is_clean();
            judged[usize::from(theirs)] += 1;
            differ += usize::from(ours != theirs);
        }
        match judged_otherwise(ty) {
            None => assert_eq!(differ, 0, "{ty}"),
            Some(why) => assert!(differ > 0, "{ty} is judged as by ggml; not true any more: {why}"),
        }
    }
    assert!(judged.iter().all(|n| *n > 1000), "{judged:?}");
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// Removed types compared with the library of their time, on a file that it wrote.
fn q4_2_decodes_as_in_may_2023() {
    let path = peers::data("legacy/ggjt-v1/tiny-llama.ggjt-v1.q4_2.bin");
    let file = fs::read(&path).unwrap();
    let facts: Value = serde_json::from_slice(&fs::read(path.with_extension("bin.json")).unwrap()).unwrap();
    let mut n = 0;
    for tensor in facts["tensors"].as_array().unwrap().iter().filter(|t| t["type"] == "Q4_2") {
        let [at, len] = ["file_offset", "n_bytes"].map(|k| tensor[k].as_u64().unwrap() as usize);
        let packed = &file[at..at + len];
        assert_eq!(sha256(packed), tensor["raw_sha256"].as_str().unwrap());
        let codec = codec(GgmlType::Q4_2).unwrap();
        let decode = |isa| {
            let mut values = vec![0.0f32; len / 10 * 16];
            codec.decode_with(isa, packed, &mut values).unwrap();
            values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>()
        };
        let values = decode(Isa::Scalar);
        assert_eq!(sha256(&values), tensor["dequant_f32_sha256"].as_str().unwrap(), "{}", tensor["name"]);
        for isa in Isa::available() {
            assert!(decode(isa) == values, "{} {isa}", tensor["name"]);
        }
        n += 1;
    }
    assert!(n > 0, "no tensor of the type");
}

gguf_test::tests! {
    [Peers] every_encoder_gives_the_bytes_of_ggml,
        any_number_of_blocks,
        every_decoder_gives_the_bits_of_ggml,
        a_matrix_is_ignored_where_the_table_says_so,
        requantizing_gives_the_bytes_of_ggml,
        impossible_values_are_refused_where_ggml_aborts,
        validity_is_judged_as_by_ggml;
    [Peers, Shared] real_rows_have_the_bytes_of_ggml;
    [Shared] q4_2_decodes_as_in_may_2023;
}
