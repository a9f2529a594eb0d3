//! Legacy files with wrong counts, lengths, types and dimensions, and truncated ones. Each gives a clear error or a plan that can be read
//! to its end, in memory that does not grow with the claims of the file.
//!
//! A program of its own because of its counting allocator.

use std::path::Path;

use gguf_format::GgmlType;
use gguf_legacy::{Answers, Bytes, Error, Input, LegacyFile, Options, recognise_source};
use gguf_test::counting::{self, Counting};
use gguf_test::legacy::{self, Legacy};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn none(path: &Path) -> Result<Bytes, Error> {
    let source = std::io::Error::from(std::io::ErrorKind::NotFound);
    Err(Error::Io { action: "open", path: path.to_owned(), source })
}

fn open(bytes: &[u8]) -> Result<LegacyFile, Error> {
    LegacyFile::from_source(Path::new("model.bin"), Box::new(bytes.to_vec()), None, none)
}

/// Performs all operations on a file except writing: reads every byte of every tensor.
fn exercise(bytes: &[u8]) -> Result<(), Error> {
    let recognised = recognise_source(&bytes.to_vec()).unwrap().map(|found| found.to_string());
    assert!(recognised.is_none_or(|said| !said.contains(char::is_control)));
    let input = Input::Legacy(Box::new(open(bytes)?));
    let mut answers = Answers::default();
    gguf_legacy::questions(&input, &answers)?;
    answers.accept = true;
    let migration = gguf_legacy::plan(input, &answers, &Options::default(), &())?;
    assert_eq!(migration.tensors.len(), migration.plan.tensors().len());
    let draft = migration.plan.into_draft();
    let mut buffer = vec![0; 1 << 16];
    for tensor in &draft.tensors {
        for input in tensor.op.inputs() {
            let total = input.ty.tensor_bytes(tensor.shape.iter().copied()).unwrap();
            let block = input.ty.info().map_or(1, |info| u64::from(info.block_bytes));
            let step = buffer.len() as u64 / block * block;
            let mut at = 0;
            while at < total {
                let n = step.min(total - at);
                draft.source.read(input.index(), at, &mut buffer[..n as usize]).unwrap_or_else(|e| panic!("{e}"));
                at += n;
            }
            assert!(draft.source.read(input.index(), total, &mut [0; 4]).is_err(), "{}", tensor.shown());
        }
    }
    Ok(())
}

/// Replacements for a number.
const NUMBERS: [u32; 9] = [0, 1, 3, 33, 65_537, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x0001_0001];

fn check(label: &str, bytes: &[u8]) -> bool {
    let mut result = Ok(());
    counting::law(4 << 20, || result = exercise(bytes)).unwrap_or_else(|e| panic!("{label}: {e}"));
    match result {
        Ok(()) => true,
        Err(e) => {
            let said = e.to_string();
            assert!(said.starts_with("model.bin"), "{label}: {said}");
            assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{label}: {said}");
            assert!(said.len() < 2000, "{label}: {said}");
            false
        }
    }
}

/// A single test, so that nothing else allocates meanwhile.
#[test]
fn hostile_files_give_errors_in_bounded_memory() {
    let (mut n, mut n_read) = (0, 0);
    for file in legacy::all() {
        assert!(check(file.name, &file.bytes), "{} is sound", file.name);
        // The header, the first tokens, the first two tensors and the last one.
        let (first, last) = (file.numbers.iter().take(24), file.numbers.iter().rev().take(5));
        for &at in first.chain(last) {
            for number in NUMBERS {
                n += 1;
                n_read += usize::from(check(&format!("{} {at}: {number:#x}", file.name), &file.with(at, number)));
            }
        }
        for cut in (0..file.bytes.len()).step_by(file.bytes.len() / 23) {
            n += 1;
            let is_whole = check(&format!("{} cut at {cut}", file.name), &file.bytes[..cut]);
            assert!(!is_whole || file.tensors.contains(&cut), "{} cut at {cut}", file.name);
        }
        // Bytes after the end are parsed as another tensor.
        for rest in [&[0][..], &[1, 0, 0, 0], &[0xff; 40]] {
            n += 1;
            assert!(!check(file.name, &[&file.bytes, rest].concat()), "{} with {rest:?}", file.name);
        }
    }
    assert!(n >= 3000 && n_read < n / 3, "{n} cases, {n_read} of them are read");
    special();
}

/// A change of a file, and the expected error.
type Case = (&'static str, fn() -> Vec<u8>, &'static str);

fn llama() -> Legacy {
    legacy::llama(legacy::GGJT3, 2, 2).write("llama", "llama")
}

fn renamed(from: &str, to: &str) -> Vec<u8> {
    let mut parts = legacy::llama(legacy::GGJT3, 2, 2);
    parts.tensors.iter_mut().filter(|(name, ..)| name == from).for_each(|(name, ..)| *name = to.to_owned());
    parts.write("renamed", "llama").bytes
}

fn reshaped(name: &str, shape: &[u32]) -> Vec<u8> {
    let mut parts = legacy::llama(legacy::GGJT3, 2, 2);
    parts.tensors.iter_mut().filter(|(n, ..)| n == name).for_each(|(.., old)| *old = shape.to_vec());
    parts.write("reshaped", "llama").bytes
}

fn scale(form: legacy::Form, code: u32, scale: f32) -> Vec<u8> {
    let parts = legacy::llama(form, code, 2);
    let mut file = parts.write("scale", "llama");
    let at = file.tensors[2] + 12 + 8 + "output.weight".len();
    let at = if form.is_aligned { at.next_multiple_of(32) } else { at };
    file.bytes[at..at + 4].copy_from_slice(&scale.to_le_bytes());
    file.bytes
}

const CASES: &[Case] = &[
    ("empty", Vec::new, "not a legacy model but an empty file"),
    ("magic alone", || b"tjgg".to_vec(), "byte 4: version: it extends to byte 8, but the file ends at byte 4"),
    ("session", || b"nsgg\x01\0\0\0".to_vec(), "the saved state of a chat"),
    ("version of GGJT", || llama().with(4, 4), "byte 4: version: is 4; expected 1, 2 or 3"),
    ("version of GGMF", || b"fmgg\x07\0\0\0".to_vec(), "expected 1, or 100 or 101 of rwkv.cpp"),
    ("version of GGCC", || b"ccgg\x09\0\0\0".to_vec(), "expected 10"),
    ("web page", || b"<!DOCTYPE html><html>".to_vec(), "an HTML page"),
    ("width without heads", || llama().with(20, 3), "n_head: is 3; expected a divisor of n_embd"),
    ("no tokens", || llama().with(8, 0), "n_vocab: is 0; expected a number of tokens from 8"),
    ("blocks without end", || llama().with(24, 513), "n_layer: is 513; expected a number of blocks from 1 to 512"),
    (
        "a negative length",
        || llama().with(36, 0xffff_ffff),
        "length of token 0: is -1; expected a length of at most 65536",
    ),
    (
        "a tensor of no dimensions",
        || llama().with(llama().tensors[1], 0),
        "number of dimensions of tensor 1: is 0; expected a number of dimensions from 1 to 4",
    ),
    ("a tensor without a name", || llama().with(llama().tensors[1] + 4, 0), "length of the name of tensor 1: is 0"),
    (
        "a type that was never written",
        || llama().with(llama().tensors[1] + 8, 9),
        "type of tensor 1: is 9; expected a type from 0 to 8",
    ),
    ("a dimension of 0", || llama().with(llama().tensors[1] + 12, 0), "dimensions of tensor 1: is 0"),
    (
        "half a block",
        || llama().with(llama().tensors[0] + 12, 33),
        "a row of 33 elements is not a whole number of blocks",
    ),
    (
        "dimensions that overflow",
        || {
            let mut parts = legacy::llama(legacy::GGJT3, 2, 2);
            let file = parts.write("", "");
            parts.tensors.truncate(1);
            let mut bytes = file.bytes[..file.tensors[1]].to_vec();
            for n in [4u32, 4, 0, 0x7fff_ffff, 0x7fff_ffff, 0x7fff_ffff, 0x7fff_ffff] {
                bytes.extend(n.to_le_bytes());
            }
            bytes.extend(b"norm");
            bytes
        },
        "dimensions of tensor 1: the size does not fit 63 bits",
    ),
    ("a tensor of another model", || renamed("norm.weight", "nrom.weight"), "llama has no tensor \"nrom.weight\""),
    ("a block too many", || renamed("layers.0.ffn_norm.weight", "layers.1.ffn_norm.weight"), "tensor.block.extra"),
    (
        "a tensor twice",
        || renamed("layers.0.ffn_norm.weight", "layers.0.attention_norm.weight"),
        "the file has two tensors of this name",
    ),
    ("keys of half a head", || reshaped("layers.0.attention.wk.weight", &[64, 33]), "whole heads of 32 rows"),
    ("a norm that is too long", || reshaped("norm.weight", &[65]), "tensor.shape"),
    ("a matrix that is too high", || reshaped("layers.0.feed_forward.w3.weight", &[64, 129]), "tensor.shape"),
    ("more rows than tokens", || reshaped("output.weight", &[64, 41]), "tensor.shape"),
    (
        "a part of the columns",
        || reshaped("tok_embeddings.weight", &[32, 40]),
        "in 2 parts, and model.bin.1 is missing",
    ),
    (
        "a missing tensor",
        || {
            let file = llama();
            file.bytes[..*file.tensors.last().unwrap()].to_vec()
        },
        "tensor.missing",
    ),
    ("a scale that is NaN", || scale(legacy::GGJT1, 2, f32::NAN), "\"output.weight\": scales are NaN or infinite"),
    ("an infinite scale", || scale(legacy::GGJT2, 8, f32::INFINITY), "scales are NaN or infinite"),
    ("scales in no order", || scale(legacy::GGML, 2, f32::NAN), "are invalid in every layout of that time"),
    (
        "a type that rwkv.cpp never had",
        || {
            let file = legacy::all().into_iter().find(|file| file.name == "rwkv100").unwrap();
            file.with(file.tensors[0] + 8, 10)
        },
        "a type from 0 to 9",
    ),
    (
        "an outlier that is infinite",
        || {
            let file = legacy::all().into_iter().find(|file| file.name == "rwkv100-q4_1_o").unwrap();
            // Header of the tensor, its two dimensions, its name, and the block up to the outlier.
            let outlier = file.tensors[0] + 12 + 8 + "emb.weight".len() + 6;
            let before = u32::from(u16::from_le_bytes([file.bytes[outlier - 2], file.bytes[outlier - 1]]));
            file.with(outlier - 2, before | 0x7c00 << 16)
        },
        "scales are NaN or infinite",
    ),
    ("a rank of 0", || legacy::adapter().with(8, 0), "hyperparameter r: is 0; expected a number from 1 to 65536"),
    ("another rank", || legacy::adapter().with(8, 5), "two dimensions, the first of them 5, the rank"),
    ("a quantized adapter", || legacy::adapter().with(legacy::adapter().tensors[0] + 8, 2), "type of tensor 0: is 2"),
    (
        "merges counted otherwise",
        || {
            let file = legacy::all().into_iter().find(|file| file.name == "ggcc-falcon").unwrap();
            file.with(36, 4)
        },
        "n_bpe_merges: is 3; expected the number of merges again",
    ),
];

fn special() {
    for (label, bytes, expected) in CASES {
        let error = exercise(&bytes()).expect_err(label).to_string();
        assert!(error.contains(expected), "{label}: {error}");
    }
    // Scales beyond half precision are kept in single precision.
    let bytes = scale(legacy::GGJT1, 2, 1e6);
    exercise(&bytes).unwrap();
    let mut answers = Answers::default();
    answers.accept = true;
    let input = Input::Legacy(Box::new(open(&bytes).unwrap()));
    let migration = gguf_legacy::plan(input, &answers, &Options::default(), &()).unwrap();
    let output = migration.plan.tensors().iter().find(|t| *t.name == *b"output.weight").unwrap();
    assert_eq!(output.ty, GgmlType::F32);
    assert!(migration.warnings.iter().any(|w| w.to_string().contains("1 scales are too large")));
}
