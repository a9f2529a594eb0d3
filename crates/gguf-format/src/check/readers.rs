//! Valid files that known readers reject: llama.cpp (`gguf_init_from_reader` in `gguf.cpp`, and its model loader) and gguf-py
//! (`gguf_reader.py`).

use crate::check::rules::*;
use crate::check::tensors::Extents;
use crate::check::{At, Report};
use crate::file::Gguf;
use crate::header::{ALIGNMENT_KEY, ByteOrder, Version};
use crate::value::{ValueRef, ValueType};

/// The names of the header's counts in gguf-py's reader.
const GGUF_PY_OWN: [&str; 3] = ["GGUF.version", "GGUF.tensor_count", "GGUF.kv_count"];

pub(super) fn refusals(gguf: &Gguf<'_>, extents: &Extents<'_>, whole: bool, report: &mut Report) {
    let d = gguf.dialect();
    if d.version < Version::V2 {
        report.add(&READERS_VERSION, At::Offset(4), format_args!("version {}", d.version));
    }
    if d.order == ByteOrder::Big {
        report.add(&READERS_BYTE_ORDER, At::Offset(4), format_args!("big-endian byte order"));
    }
    for kv in gguf.kvs() {
        match kv.value {
            ValueRef::Array(a) if a.elem_type() == ValueType::ARRAY => {
                report.add(&READERS_NESTED, &kv, format_args!("an array of {} arrays", a.len()));
            }
            ValueRef::U32(v) if kv.key == *ALIGNMENT_KEY && v % 8 == 0 && v != 0 && !v.is_power_of_two() => {
                report.add(&READERS_ALIGNMENT, &kv, format_args!("the alignment is {v}"));
            }
            _ => {}
        }
        if GGUF_PY_OWN.iter().any(|own| kv.key == **own) || kv.key.to_str().is_err() {
            report.add(&READERS_KEY, &kv, format_args!("gguf-py cannot read the key"));
        }
    }
    if !whole {
        return;
    }
    if let Some((t, expected)) = extents.first_not_packed() {
        report.add(&READERS_OFFSETS, &t, format_args!("the offset is {}; llama.cpp expects {expected}", t.offset));
    }
    if extents.ends_before_data() {
        let at = At::Offset(gguf.head_bytes());
        report.add(&READERS_NO_DATA, at, format_args!("the data section would start at byte {}", gguf.data_offset()));
    }
}
