//! Allocations of a computed size are fallible, or the size has a documented bound. All others grow with the data that is read.

use std::fs;
use std::path::{Path, PathBuf};

/// Expressions that allocate a given size, and abort if memory is exhausted.
const INFALLIBLE: &[&str] =
    &["with_capacity(", ".reserve(", ".reserve_exact(", ".resize(", ".resize_with(", ".repeat(", "vec![", "from_elem("];

/// The number of places in each file, and their bounds. Only `vec![` with a length is searched.
const KNOWN: &[(&str, usize, &str)] = &[
    ("gguf-format/src/check.rs", 1, "digits of a number"),
    ("gguf-format/src/check/repeats.rs", 1, "names in the head that share a hash"),
    ("gguf-format/src/check/tensors.rs", 1, "tensors of a head that was walked"),
    ("gguf-format/src/file.rs", 2, "key-values and tensors of a head that was walked"),
    ("gguf-format/src/layout.rs", 4, "tensors of the head; what is padded is reserved before"),
    ("gguf-format/src/value.rs", 1, "elements of an array that was walked"),
    ("gguf-hf/src/arch.rs", 1, "tensors of a plan"),
    ("gguf-hf/src/arch/table_formulas.rs", 4, "a test; depths up to 66"),
    ("gguf-hf/src/arch/tables.rs", 2, "moves of a table, in its tests"),
    ("gguf-hf/src/arch/computed.rs", 1, "MAX_HEAD_DIM"),
    ("gguf-hf/src/arch/effort.rs", 4, "BYTES, in its tests"),
    ("gguf-hf/src/arch/slot.rs", 2, "tensors of a plan; MAX_VALUES"),
    ("gguf-hf/src/arch/tensors.rs", 1, "tensors of a plan"),
    (
        "gguf-hf/src/checkpoint.rs",
        4,
        "a piece; a head that is reserved before; tensors of heads that were read; a file that was reserved before",
    ),
    ("gguf-hf/src/draft_model.rs", 1, "MAX_IDS"),
    ("gguf-hf/src/export.rs", 1, "tensors of a plan"),
    ("gguf-hf/src/export/adapter.rs", 1, "PIECE"),
    ("gguf-hf/src/export/files.rs", 2, "tensors of a plan; a head that was made"),
    ("gguf-hf/src/export/parameters.rs", 1, "MAX_IDS"),
    ("gguf-hf/src/export/restore.rs", 2, "MAX_VALUES; MAX_ONES"),
    ("gguf-hf/src/export/solve.rs", 5, "elements of an array that was walked; N_FACTORS; MAX_BLOCKS"),
    ("gguf-hf/src/export/sources.rs", 1, "sources of a table's row"),
    ("gguf-hf/src/export/tokenizer/json.rs", 1, "bytes that were read"),
    ("gguf-hf/src/export/values.rs", 2, "the blocks of a chunk"),
    ("gguf-hf/src/files.rs", 2, "reserved before; a file that was read"),
    ("gguf-hf/src/fuse.rs", 3, "parts of a table; sources and axes of a plan"),
    ("gguf-hf/src/metadata/name.rs", 1, "a word of an id"),
    ("gguf-hf/src/packed/data.rs", 1, "reserved before"),
    ("gguf-hf/src/packed/nvfp4.rs", 2, "tensors of a plan"),
    ("gguf-hf/src/peek.rs", 4, "MAX_ELEMENTS; a piece of a row"),
    ("gguf-hf/src/safetensors.rs", 1, "tensors of a head that was read"),
    ("gguf-hf/src/tokenizer/base64.rs", 1, "digits that were read"),
    ("gguf-hf/src/tokenizer/bert.rs", 1, "a text that was read"),
    ("gguf-hf/src/tokenizer/bpe.rs", 1, "merges that were read"),
    ("gguf-hf/src/tokenizer/rwkv.rs", 2, "a token that was read"),
    ("gguf-hf/src/tokenizer/tekken.rs", 4, "MAX_VOCAB"),
    ("gguf-hf/src/tokenizer/tests/kinds.rs", 1, "a text of its tests"),
    ("gguf-hf/src/tokenizer/tiktoken.rs", 1, "tokens that were read"),
    ("gguf-hf/src/torch/bytes.rs", 1, "PIECE"),
    ("gguf-hf/src/torch/zip.rs", 1, "reserved before"),
    ("gguf-hf/src/tokenizer/vocab.rs", 1, "MAX_VOCAB"),
    ("gguf-io/src/buffer.rs", 1, "reserved before"),
    ("gguf-io/src/copy.rs", 1, "reserved before"),
    ("gguf-io/src/in_place.rs", 1, "reserved before"),
    ("gguf-io/src/in_place/space.rs", 1, "PIECE"),
    ("gguf-io/src/pieces.rs", 1, "PIECE"),
    ("gguf-io/src/read_at.rs", 1, "a number from the source, of its implementation"),
    ("gguf-io/src/tensor.rs", 5, "reserved before, by a function of that name; a piece"),
    ("gguf-model/src/check/tensors.rs", 2, "rows of the architecture's table; numbers that names of tensors take up"),
    ("gguf-model/src/check/tokenizer.rs", 1, "tokens of the head"),
    ("gguf-model/src/tokenizer/encoder.rs", 3, "tokens and merges of arrays that were walked; a token of the head"),
    ("gguf-model/src/tokenizer/pre.rs", 1, "words of a text that was read"),
    ("gguf-model/src/tokenizer/special.rs", 1, "the number of bytes that a text can begin with"),
    ("gguf-pipeline/src/buffers.rs", 2, "reserved before"),
    ("gguf-pipeline/src/cast.rs", 1, "values of a chunk that was read"),
    ("gguf-pipeline/src/execute.rs", 1, "plans of a run"),
    ("gguf-pipeline/src/fleet/files.rs", 1, "PIECE"),
    ("gguf-pipeline/src/fleet/make.rs", 1, "reserved before"),
    ("gguf-pipeline/src/gguf.rs", 1, "tensors of heads that were read"),
    ("gguf-pipeline/src/moves.rs", 2, "MAX_READ or a chunk; axes of a move"),
    ("gguf-pipeline/src/op/batch_norm.rs", 1, "operands of a table's function"),
    ("gguf-pipeline/src/op/inverse.rs", 1, "sources of a plan"),
    ("gguf-pipeline/src/plan.rs", 1, "files of a plan"),
    ("gguf-pipeline/src/range.rs", 5, "plans of a run; AT_ONCE; a block"),
    ("gguf-pipeline/src/report.rs", 2, "a span of a chunk; tensors of the plan"),
    ("gguf-pipeline/src/scan.rs", 2, "PIECE; tensors of a head that was read"),
    ("gguf-pipeline/src/sink.rs", 1, "reserved before"),
    ("gguf-pipeline/src/write.rs", 2, "PIECE; files of the plan"),
    ("gguf-quantize/src/budget.rs", 6, "tensors; the sample, or MAX_ROW"),
    ("gguf-quantize/src/budget/allocate.rs", 1, "tensors and their types"),
    ("gguf-quantize/src/imatrix/merge.rs", 2, "reserved before; MAX_COUNTS"),
    ("gguf-quantize/src/imatrix/read.rs", 1, "reserved before"),
    ("gguf-quantize/src/imatrix/write.rs", 1, "BUFFER"),
    ("gguf-quantize/src/mix/pattern.rs", 3, "MAX_STEPS times MAX_NAME; a repetition of the grammar"),
    ("gguf-quantize/src/sensitivity.rs", 1, "PIECE"),
    ("ggufkit/src/check/data.rs", 1, "files"),
    ("ggufkit/src/verify/causes.rs", 1, "SAMPLE"),
];

/// The crates that read files.
const CRATES: &[&str] =
    &["gguf-format", "gguf-io", "gguf-model", "gguf-pipeline", "gguf-quantize", "gguf-hf", "ggufkit"];

#[test]
fn memory_is_not_reserved_by_the_numbers_of_files() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut wrong = Vec::new();
    let mut n_known = 0;
    for name in CRATES {
        for file in sources(&crates.join(name).join("src")) {
            let found = places(&fs::read_to_string(&file).unwrap());
            let relative = file.strip_prefix(crates).unwrap().to_string_lossy().replace('\\', "/");
            let known = KNOWN.iter().find(|(known, ..)| *known == relative);
            n_known += usize::from(known.is_some());
            if found.len() != known.map_or(0, |(_, n, _)| *n) {
                wrong.push(format!(
                    "{relative}: {} allocations of a given size. Use try_reserve or a growing collection, or if the size is bounded, \
                     document the bound in this test.\n{}",
                    found.len(),
                    found.join("\n")
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(n_known, KNOWN.len(), "a listed file no longer exists");
}

/// The lines with such expressions, without comments and tests.
fn places(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let is_number = |line: &str, what: &str| match what {
        // `vec![a; n]`, but not a list or a list of lists.
        "vec![" => line.split("vec![").skip(1).any(|rest| {
            let (mut depth, mut n) = (0, 0);
            for c in rest.chars() {
                match c {
                    '[' | '(' | '{' => depth += 1,
                    ']' if depth == 0 => break,
                    ']' | ')' | '}' => depth -= 1,
                    ';' if depth == 0 => n += 1,
                    _ => {}
                }
            }
            n > 0
        }),
        what => line.contains(what),
    };
    let lines = code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let found = lines.flat_map(|(i, line)| {
        let places = INFALLIBLE.iter().filter(move |what| is_number(line, what));
        places.map(move |_| format!("  {}: {}", i + 1, line.trim()))
    });
    found.collect()
}

/// All sources in a directory except separate test files.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match path.extension() {
            _ if path.is_dir() => out.extend(sources(&path)),
            Some(extension) if extension == "rs" && !path.ends_with("tests.rs") => out.push(path),
            _ => {}
        }
    }
    out
}

#[test]
fn places_are_found() {
    for (line, n) in [
        ("let x = vec![0; n];", 1),
        ("let x = vec![vec![1, 2], vec![3]];", 0),
        ("let x = vec![[0; 4], [1; 4]];", 0),
        ("// vec![0; n]", 0),
        ("let v = Vec::with_capacity(n); v.resize(n, 0);", 2),
        ("v.try_reserve_exact(n)?;", 0),
        ("f(vec![0u8; 3], vec![1; k])", 1),
    ] {
        assert_eq!(places(line).len(), n, "{line}");
    }
}
