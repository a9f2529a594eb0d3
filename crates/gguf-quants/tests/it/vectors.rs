//! The codecs against recorded results of ggml; see `data/vectors.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use gguf_format::GgmlType;
use gguf_quants::codec::{codec, codecs};
use gguf_quants::{Isa, Rows};
use gguf_test::data;
use gguf_test::random::Hash;

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "vectors"].iter().collect()
}

#[test]
fn every_encoder_gives_the_recorded_bytes() {
    for codec in codecs().iter().filter(|c| c.can_encode()) {
        let ty = codec.ty;
        let file = folder().join(format!("{ty}.bin"));
        let recorded = fs::read(&file).unwrap_or_else(|e| panic!("{ty} has no vectors: {}: {e}", file.display()));
        let mut rest = &recorded[..];
        for case in data::vectors::cases(codec) {
            let (expected, more) = rest.split_at(codec.packed_bytes(case.values.len()).unwrap());
            rest = more;
            let rows = Rows::new(&case.values, case.row_len, case.matrix.as_deref()).unwrap();
            for isa in Isa::available() {
                let mut packed = vec![0x55; expected.len()];
                codec.encode_with(isa, rows, &mut packed).unwrap();
                let block_bytes = ty.info().unwrap().block_bytes as usize;
                let pairs = packed.chunks(block_bytes).zip(expected.chunks(block_bytes));
                if let Some((block, (ours, theirs))) = pairs.enumerate().find(|(_, (a, b))| a != b) {
                    let (kind, weights) = (case.kind.name(), case.weights.name());
                    panic!("{ty} {isa}, {kind}, matrix: {weights}, block {block}:\n{ours:02x?}\n{theirs:02x?}");
                }
            }
        }
        assert!(rest.is_empty(), "{ty}: more was recorded than is compared");
    }
}

/// Types without a decoder in ggml, for which there are no records.
fn is_not_decoded_by_ggml(ty: GgmlType) -> bool {
    let others = [GgmlType::F32, GgmlType::F64, GgmlType::Q8_1];
    ty.info().is_some_and(|t| t.removed || t.name.starts_with('i') && t.block_len == 1) || others.contains(&ty)
}

#[test]
fn every_decoder_gives_the_recorded_values() {
    let recorded = fs::read_to_string(folder().join("decoded.txt")).unwrap();
    let lines: BTreeMap<_, _> = recorded.lines().filter_map(|line| line.split_once(' ')).collect();
    for codec in codecs().iter().filter(|c| !is_not_decoded_by_ggml(c.ty)) {
        let name = codec.ty.to_string();
        let line = lines.get(&name[..]).unwrap_or_else(|| panic!("{name} has no vectors"));
        let numbers: Vec<u64> = line.split(' ').map(|n| u64::from_str_radix(n, 16).unwrap()).collect();
        let packed = data::vectors::packed(codec.ty);
        let t = codec.ty.info().unwrap();
        for isa in Isa::available() {
            let mut values = vec![1e33; packed.len() / t.block_bytes as usize * t.block_len as usize];
            codec.decode_with(isa, &packed, &mut values).unwrap();
            let first: Vec<u64> = values[..4].iter().map(|v| v.to_bits().into()).collect();
            assert_eq!(first, numbers[1..], "{name} {isa}: the first values");
            assert!(values.iter().all(|v| v.is_finite()), "{name} {isa}");
            assert_eq!(Hash::of(&values), numbers[0], "{name} {isa}");
        }
    }
    for name in lines.keys() {
        assert!(GgmlType::from_name(name).and_then(codec).is_some(), "{name} was recorded but has no codec");
    }
}
