//! Small files of every container and architecture: identified, whole or truncated, and migrated.

use std::path::Path;
use std::sync::Arc;

use gguf_format::{Dialect, GgmlType, Gguf, Head, TensorInfo, Version};
use gguf_io::{ModelFile, Writer};
use gguf_legacy::{Answers, Error, Input, LegacyFile, Options, Topic, Treatment, recognise_source};
use gguf_test::legacy::{self, Legacy};
use sha2::{Digest, Sha256};

fn open(file: &Legacy) -> Result<LegacyFile, Error> {
    LegacyFile::from_source(Path::new("model.bin"), Box::new(file.bytes.clone()), None, none)
}

fn none(path: &Path) -> Result<gguf_legacy::Bytes, Error> {
    panic!("{} was looked for", path.display())
}

fn accept() -> Answers {
    let mut answers = Answers::default();
    answers.accept = true;
    answers
}

/// The migrated file.
fn migrate(file: &Legacy) -> Vec<u8> {
    let input = Input::Legacy(Box::new(open(file).unwrap_or_else(|e| panic!("{}: {e}", file.name))));
    let options = Options::default();
    let migration = gguf_legacy::plan(input, &accept(), &options, &()).unwrap_or_else(|e| panic!("{}: {e}", file.name));
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.gguf");
    migration.plan.run(&out, &Default::default(), &()).unwrap_or_else(|e| panic!("{}: {e}", file.name));
    std::fs::read(out).unwrap()
}

#[test]
fn every_kind_is_recognised_by_its_bytes() {
    for file in legacy::all() {
        let found = recognise_source(&file.bytes).unwrap().unwrap_or_else(|| panic!("{}", file.name));
        assert_eq!(found.problem, None, "{}", file.name);
        let names: Vec<&str> = found.families.iter().map(|family| family.name()).collect();
        assert_eq!(names, [file.family], "{}: {found}", file.name);
        assert_eq!(open(&file).unwrap().family().name(), file.family);
    }
}

#[test]
fn what_is_cut_short_is_recognised_as_far_as_it_goes() {
    for file in legacy::all() {
        let start = file.tensors[0];
        // After the first tensor's header the architecture is certain; StarCoder is identified by its tokens.
        let first_end = *file.tensors.get(1).unwrap();
        // In the header of each tensor, and at some places in the data.
        let cuts = (4..start.min(600)).step_by(7).chain((start..file.bytes.len()).step_by(file.bytes.len() / 41));
        for n in cuts.chain(file.tensors.iter().flat_map(|&at| [at + 3, at + 9, at + 20])) {
            if file.tensors.contains(&n) {
                continue;
            }
            let cut = file.bytes[..n].to_vec();
            let Some(found) = recognise_source(&cut).unwrap() else {
                // Even the version is missing.
                assert!(n < 8, "{} {n}", file.name);
                continue;
            };
            let problem = found.problem.clone().unwrap_or_else(|| panic!("{} {n}: {found}", file.name));
            assert!(problem.is_truncated(), "{} {n}: {found}", file.name);
            let names: Vec<&str> = found.families.iter().map(|family| family.name()).collect();
            if n >= first_end {
                assert_eq!(names, [file.family], "{} {n}", file.name);
                assert!(found.n_tensors >= 1, "{} {n}", file.name);
            } else if n >= start {
                assert!(names.contains(&file.family), "{} {n}: {names:?}", file.name);
            }
            let error = open(&Legacy { bytes: cut, ..file.clone() }).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains("byte "), "{} {n}: {error}", file.name);
        }
    }
}

#[test]
fn every_kind_migrates_to_a_sound_file() {
    for file in legacy::all() {
        let bytes = migrate(&file);
        let gguf = Gguf::parse(&bytes).unwrap();
        let report = gguf_format::check::structure(&bytes, bytes.len() as u64);
        assert!(report.is_safe(), "{}: {:?}", file.name, report.codes().collect::<Vec<_>>());
        let report = gguf_model::check::model(&[&gguf], None);
        let errors: Vec<String> = report
            .findings()
            .filter(|f| f.severity == gguf_format::check::Severity::Error)
            .map(|f| f.to_string())
            .collect();
        // rwkv.cpp stores its vocabulary separately.
        let expected = usize::from(file.family == "rwkv");
        assert_eq!(errors.len(), expected, "{}: {errors:?}", file.name);
    }
}

/// The migrated file, and the conversion of its tensors.
fn migrate_file(name: &str, answers: &Answers) -> (Vec<u8>, gguf_legacy::Migration) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let input = Input::open(&path, None).unwrap_or_else(|e| panic!("{e}"));
    let migration = gguf_legacy::plan(input, answers, &Options::default(), &()).unwrap_or_else(|e| panic!("{e}"));
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.gguf");
    migration.plan.run(&out, &Default::default(), &()).unwrap();
    (std::fs::read(out).unwrap(), migration)
}

fn sha256(values: &[f32]) -> String {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// Names of tensors, each with the hash of its values.
type Sums = &'static [(&'static str, &'static str)];

/// Files written by the programs of 2023, and the values decoded by their own libraries (SHA-256 of f32). Random weights; `interop/files.rs`
/// tests all of them.
const GENUINE: &[(&str, Treatment, Sums)] = &[
    (
        "mpt.ggml.q4_0.bin",
        Treatment::Copied,
        &[
            ("token_embd.weight", "ad503dcf7dd5be6e066bec33932e95c6519984c11046217c48c936b13abb5541"),
            ("blk.0.attn_norm.weight", "26d69a2b11fcd0b709b7cf3f08fc7eebbbc18bca3e31cc256886f7993923d0e0"),
            ("blk.0.attn_qkv.weight", "19bde14b84ece474daa80b752088fc589533018afe6716b78f3a97175cbfd8e3"),
            ("blk.0.ffn_down.weight", "53a73987b3967e3ef26a60ac7d782c343104ec47ce90fce3ff39afd3b47c13d5"),
        ],
    ),
    (
        "gptneox.ggml.q5_1.bin",
        Treatment::Rearranged,
        &[
            ("token_embd.weight", "051ede7f4c4d86ec0f62217ebe6957ea6dc7da2598b90498c91ccc71765a31e6"),
            ("blk.0.attn_output.weight", "344130fbd7e587d0223460c9cae3f0c3e1e3be1edf817afe45fc23fb16fbacaf"),
            ("blk.0.ffn_norm.bias", "b411621caec1179515de937ef9c68d3825abfaa1cfb1f4bfca5507ba9a7155c2"),
        ],
    ),
    (
        "bloom.ggml.q4_0.bin",
        Treatment::Rounded,
        &[("token_embd_norm.weight", "954ea4c4db506b46f2d5b56eed13e69bdcdd1ad895ce917ec2a9fd76f8848e1f")],
    ),
    (
        "draft.gguf",
        Treatment::Copied,
        &[("output_norm.weight", "2637fa072c72f49cf820f05ac06cbb82165beab25ddcba9dc6d3c3cff971e946")],
    ),
];

#[test]
fn genuine_files_keep_their_values() {
    for (file, treatment, tensors) in GENUINE {
        let (bytes, migration) = migrate_file(file, &accept());
        let embeddings = migration.plan.tensors().iter().position(|t| *t.name == *b"token_embd.weight").unwrap();
        assert_eq!(migration.tensors[embeddings].treatment, *treatment, "{file}");
        let model = ModelFile::from_source(bytes, "out.gguf").unwrap();
        for (name, expected) in *tensors {
            let tensor = model.tensor(name).unwrap();
            let values = gguf_quants::dequantize(tensor.ty(), &tensor.read().unwrap()).unwrap();
            assert_eq!(sha256(&values), *expected, "{file} {name}");
        }
    }
}

/// Planar rows give the same output as the same rows in blocks.
#[test]
fn rows_in_planes_become_blocks() {
    for code in [2, 3] {
        let parts = legacy::llama(legacy::GGML, code, 2);
        let blocks = parts.write("blocks", "llama");
        let mut planes = blocks.clone();
        let block_bytes = if code == 3 { 24 } else { 20 };
        for (i, (name, ty, shape)) in parts.tensors.iter().enumerate().filter(|(_, (_, ty, _))| *ty == code) {
            let start = planes.tensors[i] + 12 + 4 * shape.len() + name.len();
            let row = shape[0] as usize / 32 * block_bytes;
            for row in planes.bytes[start..start + row * shape[1] as usize].chunks_mut(row) {
                let old: Vec<[Vec<u8>; 3]> = row
                    .chunks(block_bytes)
                    .map(|b| [b[..4].to_vec(), b[4..block_bytes - 16].to_vec(), b[block_bytes - 16..].to_vec()])
                    .collect();
                // All minima, all scales, all levels.
                let plane = |n: usize| old.iter().flat_map(move |block| block[n].clone());
                let new: Vec<u8> = plane(1).chain(plane(0)).chain(plane(2)).collect();
                row.copy_from_slice(&new);
            }
            assert_eq!(*ty, code);
        }
        assert!(planes.bytes != blocks.bytes);
        assert!(migrate(&planes) == migrate(&blocks), "type {code}");
    }
}

/// A model with transposed matrices gives the same output as the regular one.
#[test]
fn matrices_are_transposed() {
    let sideways = legacy::gpt2_on_its_side();
    let parts = legacy::gpt2_parts();
    let mut upright = parts.write("upright", "gpt2");
    for (i, (name, code, shape)) in parts.tensors.iter().enumerate() {
        if !["attn/c_attn/w", "attn/c_proj/w", "mlp/c_fc/w"].iter().any(|end| name.ends_with(end)) {
            continue;
        }
        let start = upright.tensors[i] + 12 + 4 * shape.len() + name.len();
        let (columns, rows) = (shape[0] as usize, shape[1] as usize);
        let reversed: Vec<u32> = shape.iter().rev().copied().collect();
        let old = legacy::GGML.data(*code, &reversed);
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            let (to, from) = (start + 2 * (row * columns + column), 2 * (column * rows + row));
            upright.bytes[to..to + 2].copy_from_slice(&old[from..from + 2]);
        }
    }
    assert!(migrate(&sideways) == migrate(&upright));
}

/// One key and value head is kept if all copies are equal, otherwise all of them.
#[test]
fn shared_keys_are_kept_once() {
    let heads = |file: &Legacy| {
        let bytes = migrate(file);
        let gguf = Gguf::parse(&bytes).unwrap();
        let shape: Vec<u64> = gguf.tensor("blk.0.attn_qkv.weight").unwrap().dims.collect();
        (gguf.get_as::<u32>("starcoder.attention.head_count_kv").unwrap(), shape[1])
    };
    for code in [1, 2] {
        let shared = legacy::starcoder(code);
        assert_eq!(heads(&shared), (1, 32 + 2 * 16));
        let mut other = shared.clone();
        // The last byte of the last head's values in the last block's matrix.
        let at = other.tensors[shared.tensors.len() - 7] - 1;
        other.bytes[at] ^= 1;
        assert_eq!(heads(&other), (2, 96), "type {code}");
    }
}

/// Q8_0 was type 6 on two days of April 2023; only sizes reveal it.
#[test]
fn an_early_number_of_a_type_is_told_by_sizes() {
    let parts = legacy::llama(legacy::GGJT1, 8, 2);
    let usual = parts.write("usual", "llama");
    let mut early = usual.clone();
    for (i, (_, code, _)) in parts.tensors.iter().enumerate().filter(|(_, (_, code, _))| *code == 8) {
        early.bytes = early.with(early.tensors[i] + 8, 6);
        assert_eq!(*code, 8);
    }
    assert!(migrate(&early) == migrate(&usual));
}

/// K-quants in blocks of 64 are identified by sizes, and become a current type.
#[test]
fn small_blocks_are_told_by_sizes() {
    let form = legacy::Form { is_small: true, ..legacy::GGJT3 };
    let file = legacy::llama(form, 12, 2).write("small", "llama");
    let found = recognise_source(&file.bytes).unwrap().unwrap();
    assert_eq!(found.problem, None);
    let bytes = migrate(&file);
    let model = ModelFile::from_source(bytes, "out.gguf").unwrap();
    assert_eq!(model.tensor("blk.0.attn_q.weight").unwrap().ty().to_string(), "q8_0");
}

#[test]
fn blocks_without_a_version_are_asked_for_unless_sizes_tell() {
    let topics = |parts: &legacy::Parts| -> Vec<Topic> {
        let input = Input::Legacy(Box::new(open(&parts.write("bert", "bert")).unwrap()));
        gguf_legacy::questions(&input, &Answers::default()).unwrap().iter().map(|q| q.topic).collect()
    };
    // Blocks with wide scales may be of the first or the second generation.
    assert_eq!(topics(&legacy::bert(legacy::GGML, 2)), [Topic::Pooling, Topic::Generation]);
    // Current blocks are shorter.
    assert_eq!(topics(&legacy::bert(legacy::GGML_QNT2, 2)), [Topic::Pooling]);
    assert_eq!(topics(&legacy::bert(legacy::GGML, 1)), [Topic::Pooling]);
    // The answer determines the order of levels.
    let migrate = |text: &str| {
        let input = Input::Legacy(Box::new(open(&legacy::bert(legacy::GGML, 2).write("bert", "bert")).unwrap()));
        let mut answers = accept();
        answers.set(Topic::Generation, text).unwrap();
        let draft = gguf_legacy::plan(input, &answers, &Options::default(), &()).unwrap().plan.into_draft();
        let mut block = [0; 18];
        draft.source.read(0, 0, &mut block).unwrap();
        block
    };
    let (first, second) = (migrate("first"), migrate("second"));
    assert_eq!(first[..2], second[..2]);
    assert_ne!(first, second);
}

/// The proposals for a Llama, by the name of its file.
#[test]
fn proposals_follow_from_names_and_sizes() {
    let propose = |name: &str, kv: u32| -> Vec<String> {
        let file = legacy::llama(legacy::GGJT3, 2, kv).write("", "");
        let file = LegacyFile::from_source(Path::new(name), Box::new(file.bytes), None, none).unwrap();
        let input = Input::Legacy(Box::new(file));
        gguf_legacy::questions(&input, &Answers::default()).unwrap().into_iter().map(|q| q.proposal).collect()
    };
    for (name, kv, expected) in [
        ("alpaca.bin", 2, &["2048", "1e-6"][..]),
        ("llama-2-7b-chat.ggmlv3.q4_0.bin", 2, &["4096", "1e-5"]),
        ("Llama2-chat.bin", 2, &["4096", "1e-5"]),
        ("codellama-7b.ggmlv3.q4_0.bin", 2, &["16384", "1e-5", "1000000"]),
        ("vicuna-superhot-8k.bin", 2, &["8192", "1e-6", "10000"]),
        ("unknown.bin", 1, &["4096", "1e-5"]),
    ] {
        assert_eq!(propose(name, kv), expected, "{name}");
    }
}

/// A draft without a required key is rejected with the name of the key.
#[test]
fn drafts_need_their_sizes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/draft.gguf");
    let bytes = std::fs::read(path).unwrap();
    for (key, other, expected) in [
        ("llama.hidden_size", "llama.hidden_sizE", "key llama.hidden_size: is missing"),
        ("llama.num_layers", "llama.num_layerS", "key llama.num_layers: is missing"),
        ("llama.attention.num_heads", "llama.attention.num_headS", "key llama.attention.num_heads: is missing"),
    ] {
        let at = bytes.windows(key.len()).position(|w| w == key.as_bytes()).unwrap();
        let mut changed = bytes.clone();
        changed[at..at + key.len()].copy_from_slice(other.as_bytes());
        let error = Input::from_source(Path::new("draft"), Arc::new(changed), None, none).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Types removed from GGUF: interleaved rows are deinterleaved, others are encoded again; from earlier versions everything else is copied.
#[test]
fn removed_types_of_gguf_become_types_of_today() {
    // Two chunks: the first ends inside a group of rows.
    let (row_len, n_rows) = (160u64, 8 * 8000u64);
    let n_blocks = (row_len / 32 * n_rows) as usize;
    let interleaved: Vec<u8> = (0..n_blocks * 18).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    // Plausible levels and scales.
    let q4_2: Vec<u8> = (0..4u8).flat_map(|i| [0x00, 0x2c + i].into_iter().chain([0x5a; 8])).collect();
    let norm: Vec<u8> = (0..96u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    for version in [Version::V1, Version::V2, Version::V3] {
        let mut head = Head { dialect: Dialect::new(version), ..Head::default() };
        head.set("general.architecture", "llama");
        head.tensors = vec![
            TensorInfo::new("blk.0.ffn_up.weight", [row_len, n_rows], GgmlType::Q4_0_8_8),
            TensorInfo::new("blk.0.ffn_gate.weight", [32, 2], GgmlType::Q4_2),
            TensorInfo::new("blk.0.ffn_norm.weight", [96], GgmlType::F32),
        ];
        let bytes = Writer::write(Vec::new(), &head, [&interleaved, &q4_2, &norm]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (path, out) = (folder.path().join("old.gguf"), folder.path().join("new.gguf"));
        std::fs::write(&path, bytes).unwrap();
        let input = Input::open(&path, None).unwrap();
        let migration = gguf_legacy::plan(input, &Answers::default(), &Options::default(), &()).unwrap();
        let treatments: Vec<Treatment> = migration.tensors.iter().map(|t| t.treatment).collect();
        assert_eq!(treatments, [Treatment::Rearranged, Treatment::Recoded, Treatment::Copied]);
        migration.plan.run(&out, &Default::default(), &()).unwrap();
        let model = ModelFile::open(&out).unwrap();
        assert_eq!(model.gguf().dialect(), Dialect::new(Version::V3));
        let up = model.tensor("blk.0.ffn_up.weight").unwrap();
        let mut expected = vec![0; interleaved.len()];
        let how = gguf_quants::codec::removed::interleaved(GgmlType::Q4_0_8_8).unwrap();
        how.take_apart(row_len as usize, &interleaved, &mut expected).unwrap();
        assert_eq!(up.ty(), GgmlType::Q4_0);
        assert!(up.read().unwrap() == expected, "version {version}");
        let gate = model.tensor("blk.0.ffn_gate.weight").unwrap();
        let values = gguf_quants::dequantize(GgmlType::Q4_2, &q4_2).unwrap();
        assert_eq!(gate.read().unwrap(), gguf_quants::quantize(GgmlType::Q8_0, &values, 32, None, None).unwrap());
        assert_eq!(model.tensor("blk.0.ffn_norm.weight").unwrap().read().unwrap(), norm);
        assert!(matches!(Input::open(&out, None), Err(Error::UpToDate { .. })));
    }
}
