//! Checks of an importance matrix against a model, before it is used.

use std::collections::BTreeMap;

use gguf_format::check::{At, Report};
use gguf_format::keys::IMATRIX_CHUNK_SIZE as CHUNK_SIZE;
use gguf_format::{GgmlType, Str};

use crate::mix::{Decision, TensorFacts};

use super::{Error, Format, ImatrixFile, Problem, Values};

gguf_format::rules! {
    /// Every rule that [`check`](fn@check) applies.
    pub RULES:

    IMATRIX_KEYS "imatrix.keys" Error
        "imatrix.datasets, imatrix.chunk_count and imatrix.chunk_size"
        "llama-quantize rejects the file; merging it alone writes the keys"
        "quantize.cpp, load_imatrix";
    IMATRIX_CHUNK_SIZE "imatrix.chunk_size" Warning
        "a chunk of at least one token"
        "the weights are unaffected, but the .dat format needs the chunk size; specify it when converting the matrix"
        "imatrix.cpp, save_imatrix_legacy: ncall by chunk size";
    IMATRIX_TRAILING "imatrix.trailing" Warning
        "no bytes after the name of the dataset"
        "llama.cpp does not read them; fetch the file again, or convert it to remove them"
        "imatrix-loader.cpp, common_imatrix_load_legacy";
    IMATRIX_READ "imatrix.read" Error
        "values that can be read" "fetch the file or create it again"
        "imatrix-loader.cpp";
    IMATRIX_FINITE "imatrix.finite" Error
        "finite values" "measure the matrix again, or ignore the entry"
        "llama-quant.cpp, llama_model_quantize_impl: imatrix contains non-finite value";
    IMATRIX_NEGATIVE "imatrix.negative" Error
        "sums of squares and counts, which are never negative"
        "the file is damaged; fetch it or measure the matrix again"
        "imatrix.cpp, collect_imatrix: acc[j] += x[j] * x[j]";
    IMATRIX_ZERO "imatrix.zero" Warning
        "an entry with some column that is not 0"
        "the quantizers cannot tell its columns apart; measure the matrix again"
        "imatrix.cpp, compute_statistics";
    IMATRIX_SIZE "imatrix.size" Error
        "a value for each column of each expert, and one count or one for each expert"
        "use a matrix measured on this model"
        "llama-quant.cpp, llama_model_quantize_impl: imatrix size is different from tensor size";
    IMATRIX_SIZE_EMBD "imatrix.size.token_embd" Note
        "a value for each column" "no action needed: the embeddings are quantized without it"
        "llama-quant.cpp, llama_model_quantize_impl: tensor_name_match_token_embd";
    IMATRIX_NEEDED "imatrix.needed" Error
        "an entry for each tensor that gets a type of very few bits"
        "measure the matrix with more text, or choose another type for the tensor"
        "llama-quant.cpp, tensor_requires_imatrix";
    IMATRIX_UNCOVERED "imatrix.uncovered" Warning
        "an entry for each tensor that is quantized with one"
        "the tensor is quantized without weights; measure the matrix on this model, with more text"
        "llama-quant.cpp, llama_model_quantize_impl: did not find weights";
    IMATRIX_OUTPUT "imatrix.uncovered.output" Note
        "an entry for the output, which is measured only on request"
        "no action needed; llama-imatrix measures the output only on request"
        "imatrix.cpp, collect_imatrix: process_output";
    IMATRIX_FOREIGN "imatrix.foreign" Error
        "entries for tensors of the model"
        "use a matrix measured on this model, and select some of its entries"
        "llama-quant.cpp, llama_model_quantize_impl: did not find weights";
    IMATRIX_UNMATCHED "imatrix.unmatched" Warning
        "entries for tensors of the model" "use a matrix measured on this model"
        "llama-quant.cpp, llama_model_quantize_impl";
    IMATRIX_UNSEEN "imatrix.unseen" Warning
        "entries that were measured" "all columns are weighted equally; measure the matrix with more text"
        "imatrix.cpp, save_imatrix: partial data";
    IMATRIX_UNCOUNTED "imatrix.uncounted" Warning
        "a number of chunks with each entry"
        "the values are used, but ignored when the matrix is merged; measure the matrix again"
        "quantize.cpp, load_imatrix: ncall";
    IMATRIX_EXPERTS "imatrix.experts" Warning
        "every expert used by the text"
        "columns of the other experts are weighted equally; measure the matrix with more text"
        "imatrix.cpp, save_imatrix: partial data";
    IMATRIX_ROUNDED "imatrix.rounded" Note
        "counts below 16,777,216, which are stored exactly" "no action needed"
        "imatrix.cpp, save_imatrix: counts as floats";
    IMATRIX_OTHER "imatrix.other" Warning
        "tensors named NAME.in_sum2 and NAME.counts" "names longer than 63 bytes are truncated when they are written"
        "imatrix.cpp, save_imatrix: ggml_format_name";
}

/// Beyond this number, not every integer has an F32.
const EXACT: i64 = 1 << 24;

/// Types whose quantizers do not need importance, or ignore it (`ggml_quantize_chunk` in `ggml.c`).
const WITHOUT: &[GgmlType] = &[
    GgmlType::F32,
    GgmlType::F16,
    GgmlType::BF16,
    GgmlType::Q8_0,
    GgmlType::TQ1_0,
    GgmlType::TQ2_0,
    GgmlType::MXFP4,
    GgmlType::NVFP4,
];

/// A tensor of the model, with its target type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use<'a> {
    /// The name in the matrix: that of the model it was measured on, before blocks were pruned.
    pub name: Str<'a>,
    /// Its dimensions, the contiguous one first.
    pub shape: &'a [u64],
    /// The target type if the tensor is quantized; `None` if it is copied or only examined.
    pub ty: Option<GgmlType>,
    /// Whether the target type requires importance.
    pub needs_imatrix: bool,
}

impl<'a> Use<'a> {
    /// The use of a tensor with a decision. If blocks were pruned, the caller must restore the original name.
    pub fn of(tensor: &TensorFacts<'a>, decision: &Decision) -> Use<'a> {
        let ty = (decision.ty != tensor.ty).then_some(decision.ty);
        Use { name: tensor.name, shape: tensor.shape, ty, needs_imatrix: decision.needs_imatrix }
    }

    /// Whether the target type's quantizer weights columns by their importance. Embeddings, which are never multiplied, do not need it,
    /// unless the type requires it.
    pub fn wants_importance(&self) -> bool {
        self.ty.is_some_and(|ty| !WITHOUT.contains(&ty)) && (self.needs_imatrix || !self.is_embedding())
    }

    /// Whether the matrix has an entry of the right size.
    pub fn is_covered(&self, matrix: &ImatrixFile) -> bool {
        matrix.entry(self.name.as_bytes()).is_some_and(|entry| self.n_values() == Some(entry.n_values))
    }

    /// The number of values required by the quantizer.
    fn n_values(&self) -> Option<u64> {
        self.shape.first().copied().unwrap_or(1).checked_mul(self.n_experts())
    }

    /// Matrices of the stack.
    fn n_experts(&self) -> u64 {
        self.shape.get(2).copied().unwrap_or(1)
    }

    fn is_embedding(&self) -> bool {
        [b"token_embd.weight".as_slice(), b"per_layer_token_embd.weight"].contains(&self.name.as_bytes())
    }
}

/// Checks a matrix with all its values, and its match with the tensors of a model. Without tensors, only the matrix is checked.
pub fn check(matrix: &ImatrixFile, tensors: &[Use<'_>]) -> Report {
    let mut report = Report::new();
    for key in matrix.missing_keys() {
        report.add(&IMATRIX_KEYS, At::no_key(key), format_args!("the key is missing"));
    }
    if matrix.format() == Format::Gguf && matrix.chunk_size() == 0 && !matrix.missing_keys().contains(&CHUNK_SIZE) {
        report.add(&IMATRIX_CHUNK_SIZE, At::no_key(CHUNK_SIZE), format_args!("it is 0"));
    }
    if matrix.n_trailing() > 0 {
        report.add(&IMATRIX_TRAILING, At::File, format_args!("{} bytes follow its end", matrix.n_trailing()));
    }
    for name in matrix.ignored() {
        report.add(&IMATRIX_OTHER, At::Tensor(Str(name), None), format_args!("it belongs to no entry"));
    }
    let by_name: BTreeMap<&[u8], &Use<'_>> = tensors.iter().map(|t| (t.name.as_bytes(), t)).collect();
    let is_foreign = !tensors.is_empty() && !matrix.entries().any(|entry| by_name.contains_key(entry.name));
    if is_foreign {
        let message = match matrix.n_entries() {
            0 => "it has no entries to use".to_owned(),
            1 => "its only entry is for no tensor of the model".to_owned(),
            n => format!("none of its {n} entries is for a tensor of the model"),
        };
        report.add(&IMATRIX_FOREIGN, At::File, format_args!("{message}"));
    }
    for entry in matrix.entries() {
        let at = At::Tensor(Str(entry.name), None);
        match matrix.check_values(entry.name) {
            Ok(Values { negative: Some((index, value)), .. }) => {
                report.add(&IMATRIX_NEGATIVE, at, format_args!("value {index} is {value}"));
            }
            Ok(Values { all_zero: true, .. }) => report.add(&IMATRIX_ZERO, at, format_args!("all columns are 0")),
            Ok(_) => {}
            Err(Error { problem: Problem::NotFinite { index, value }, .. }) => {
                report.add(&IMATRIX_FINITE, at, format_args!("value {index} is {value}"));
            }
            Err(e) => report.add(&IMATRIX_READ, at, format_args!("{}", e.problem)),
        }
        if let Some(count) = entry.counts.iter().find(|&&n| n < 0) {
            report.add(&IMATRIX_NEGATIVE, at, format_args!("its count is {count}"));
        }
        let (n_experts, n_unseen) = (entry.counts.len(), entry.n_unseen());
        if n_unseen == n_experts && matrix.format() == Format::Legacy {
            report.add(&IMATRIX_UNCOUNTED, at, format_args!("its chunk count is 0"));
        } else if n_unseen == n_experts {
            report.add(&IMATRIX_UNSEEN, at, format_args!("it has no measurements"));
        } else if n_unseen > 0 {
            report.add(&IMATRIX_EXPERTS, at, format_args!("{n_unseen} of {n_experts} experts were never used"));
        }
        if matrix.format() == Format::Gguf && entry.max_count() >= EXACT {
            report.add(&IMATRIX_ROUNDED, at, format_args!("its token count is {}", entry.max_count()));
        }
        match by_name.get(entry.name) {
            None if !tensors.is_empty() && !is_foreign => {
                report.add(&IMATRIX_UNMATCHED, at, format_args!("the model has no such tensor"));
            }
            Some(tensor) if tensor.n_values() != Some(entry.n_values) => {
                let rule = if tensor.is_embedding() { &IMATRIX_SIZE_EMBD } else { &IMATRIX_SIZE };
                let columns = tensor.n_values().map_or("too many".to_owned(), |n| n.to_string());
                let (n, of_experts) = (entry.n_values, if tensor.n_experts() > 1 { " in all experts" } else { "" });
                let message = format_args!("the matrix has {n} values, the tensor has {columns} columns{of_experts}");
                report.add(rule, at, message);
            }
            Some(tensor) if n_experts > 1 && n_experts as u64 != tensor.n_experts() => {
                let message = format_args!("{n_experts} counts for {} experts", tensor.n_experts());
                report.add(&IMATRIX_SIZE, at, message);
            }
            _ => {}
        }
    }
    for tensor in tensors {
        let Some(ty) = tensor.ty.filter(|_| tensor.wants_importance()) else { continue };
        // An entry of the wrong size cannot be used, and was already reported.
        if matrix.entry(tensor.name.as_bytes()).is_some() {
            continue;
        }
        let rule = match () {
            () if tensor.needs_imatrix => &IMATRIX_NEEDED,
            () if tensor.name == "output.weight" => &IMATRIX_OUTPUT,
            () => &IMATRIX_UNCOVERED,
        };
        report.add(rule, At::Tensor(tensor.name, None), format_args!("it gets {ty} and has no entry"));
    }
    report
}
