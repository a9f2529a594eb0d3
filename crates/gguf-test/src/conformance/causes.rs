//! Why llama.cpp's outcome for a file is another than ours.

use super::judge::{Report, Value};
use super::{File, Observed};
use crate::corpus::bytes::ARRAY;

/// A cause, and the files that it explains.
pub struct Cause {
    pub id: &'static str,
    pub text: &'static str,
    explains: fn(&File) -> bool,
}

#[rustfmt::skip]
pub const CAUSES: &[Cause] = &[
    Cause { id: "byte-order", text: "gguf.cpp reads files in the byte order of the machine only.", explains: |f| touches(f, "big-endian") },
    Cause { id: "reversed-magic", text: "gguf.cpp compares the magic byte by byte.", explains: |f| touches(f, "magic-reversed") },
    Cause { id: "draft", text: "gguf.cpp does not read version 1, nor its draft.", explains: |f| touches(f, "draft") },
    Cause { id: "version-1", text: "gguf.cpp says that GGUFv1 is no longer supported.", explains: |f| touches(f, "version-1") },
    Cause { id: "nested-arrays", text: "gguf.cpp rejects arrays of arrays, which the specification allows.", explains: |f| report(f, |r| r.pairs.iter().any(|p| matches!(p.value, Value::List(ARRAY, _)))) },
    Cause { id: "power-of-two", text: "gguf.cpp asks for an alignment that is a power of two, the specification for a multiple of 8.", explains: |f| report(f, |r| !r.alignment.is_power_of_two()) },
    Cause { id: "name-of-64-bytes", text: "GGML_MAX_NAME is 64 with the NUL, so that a name of 64 bytes is too long for ggml; the specification allows it.", explains: |f| report(f, |r| r.tensors.iter().any(|t| t.name.len() >= 64)) },
    Cause { id: "order-of-data", text: "gguf.cpp asks that the data of the tensors follow each other in the order of the infos, without gaps and shared ranges.", explains: |f| report(f, is_out_of_order) },
    Cause { id: "bool", text: "gguf.cpp takes every byte but 0 as true.", explains: |f| touches(f, "bool") },
    Cause { id: "long-keys", text: "gguf.cpp limits the length of a key only as that of other strings.", explains: |f| touches(f, "key-length") },
    Cause { id: "wrapping-size", text: "One dimension of this shape is 0, or the number of elements wraps to 0, so that this version of ggml takes the tensor as empty. ggufkit rejects shapes if the product of the dimensions other than 0 needs more than 63 bits. Newer sources of gguf.cpp reject numbers of elements that wrap.", explains: |f| touches(f, "size") || touches(f, "size-empty") },
    Cause { id: "equal-up-to-nul", text: "ggufkit rejects keys that are equal up to a NUL, because C programs cannot tell them apart; gguf.cpp compares whole keys, and returns the parts before the NUL.", explains: |f| touches(f, "key-up-to-nul") },
    Cause { id: "empty-key-with-nul", text: "ggufkit removes the NUL that every string counts, which leaves an empty key; gguf.cpp keeps it.", explains: |f| f.without_nul.as_ref().is_some_and(|r| r.pairs.iter().any(|p| p.key.is_empty())) },
    Cause { id: "c-strings", text: "gguf.h returns strings that end at the first NUL.", explains: |f| report(f, has_nul) },
    Cause { id: "memory", text: "The string is as long as the limit of memory. ggufkit returns an error, and gguf.cpp ends with std::bad_alloc in its reader.", explains: |f| touches(f, "large") },
];

fn touches(file: &File, rule: &str) -> bool {
    file.judgement.touches.iter().any(|t| t.rule == rule)
}

fn report(file: &File, is: impl Fn(&Report) -> bool) -> bool {
    file.judgement.report.as_ref().is_some_and(is)
}

/// Whether a tensor starts elsewhere than at the next multiple of the alignment after the one before.
fn is_out_of_order(report: &Report) -> bool {
    let mut end = Some(0u64);
    report.tensors.iter().any(|t| {
        let is_next = end == Some(t.offset);
        end = t.bytes.and_then(|n| t.offset.checked_add(n)?.checked_next_multiple_of(report.alignment));
        !is_next
    })
}

fn has_nul(report: &Report) -> bool {
    fn in_value(value: &Value) -> bool {
        match value {
            Value::Text(text) => text.contains(&0),
            Value::List(_, items) => items.iter().any(in_value),
            _ => false,
        }
    }
    report.pairs.iter().any(|p| p.key.contains(&0) || in_value(&p.value))
        || report.tensors.iter().any(|t| t.name.contains(&0))
}

/// The cause of the difference between our outcome and llama.cpp's, if they differ.
pub fn cause(file: &File, observed: &Observed) -> Option<&'static Cause> {
    let path = file.path();
    let (ours, theirs) = (observed.outcome(&path, "ggufkit")?, observed.outcome(&path, "llama.cpp")?);
    if ours == theirs {
        return None;
    }
    CAUSES.iter().find(|cause| (cause.explains)(file))
}
