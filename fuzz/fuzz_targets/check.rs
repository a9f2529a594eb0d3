//! Checking arbitrary bytes terminates with bounded memory, and only readable files are safe: each of the tensors is aligned, inside the
//! file and disjoint from the others. The last two bytes are the additional length of the file.
#![no_main]

use gguf_format::{Gguf, check};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [data @ .., a, b] = data else { return };
    let file_bytes = data.len() as u64 + u64::from(u16::from_le_bytes([*a, *b]));
    let structure = check::structure(data, file_bytes);
    let format = check::format(data, file_bytes);
    for finding in structure.findings().chain(format.findings()) {
        assert!(!finding.to_string().contains(char::is_control), "{finding:?}");
        assert!(finding.message.len() < 1000, "{finding:?}");
    }
    assert!(structure.findings().count() as u64 <= check::RULES.len() as u64 * (check::KEPT + 1));
    assert_eq!(structure.is_safe(), format.is_safe());
    assert_eq!(structure.is_safe(), structure.findings().all(|f| f.code == "tensor.shared"));
    if !structure.is_safe() {
        return;
    }
    let gguf = Gguf::parse_within(data, Some(file_bytes)).expect("a safe file can be read");
    let mut ranges = vec![];
    for t in gguf.tensors() {
        let range = gguf.tensor_range(&t).expect("a size");
        assert!(range.is_empty() || range.end <= file_bytes);
        assert!(range.is_empty() || range.start >= gguf.head_bytes());
        assert!(t.offset.is_multiple_of(gguf.alignment()));
        assert!(t.dims.len() <= 4 && t.name.as_bytes().len() <= 64);
        if !range.is_empty() {
            ranges.push((range.start, range.end));
        }
    }
    ranges.sort_unstable();
    ranges.dedup();
    assert!(ranges.windows(2).all(|w| w[0].1 <= w[1].0), "tensors overlap in part");
    let mut names: Vec<_> = gguf.tensors().map(|t| t.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|w| w[0] != w[1]), "duplicate tensor");
    let mut keys: Vec<_> = gguf.kvs().map(|kv| kv.key).collect();
    keys.sort_unstable();
    assert!(keys.windows(2).all(|w| w[0] != w[1]), "duplicate key");
    let padding = check::padding(&gguf, file_bytes, |at, buf| {
        let start = usize::try_from(at).unwrap_or(usize::MAX);
        match start.checked_add(buf.len()).and_then(|end| data.get(start..end)) {
            Some(bytes) => {
                buf.copy_from_slice(bytes);
                true
            }
            None => false,
        }
    });
    assert!(padding.findings().count() as u64 <= check::KEPT + 1);
});
