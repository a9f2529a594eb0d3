//! Parsing arbitrary bytes as an importance matrix terminates with bounded memory. A valid matrix can be checked, measured, merged and
//! written in both formats, and written matrices round-trip.
#![no_main]

use gguf_quantize::imatrix::{Format, Imatrix, ImatrixFile, Merge, check, in_previous_block};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(matrix) = ImatrixFile::from_bytes(data.to_vec()) else { return };
    let report = check(&matrix, &[]);
    for finding in report.findings() {
        assert!(!finding.to_string().contains(char::is_control), "{finding:?}");
    }
    for entry in matrix.entries() {
        assert!(!entry.counts.is_empty());
        let _ = matrix.statistics(entry.name);
        if let Some(previous) = in_previous_block(entry.name) {
            let _ = matrix.similarity(entry.name, &previous);
        }
        if let Ok(weights) = matrix.weights(entry.name) {
            assert_eq!(weights.expect("an entry").len() as u64, entry.n_values);
        }
    }
    again(&matrix.load().expect("values inside the file"));
    let mut merge = Merge::new(512).expect("a size");
    if merge.add(&matrix).and_then(|()| merge.add(&matrix)).is_err() {
        return;
    }
    let sum = merge.finish();
    again(&sum);
    if let Ok((old, _)) = sum.into_legacy() {
        again(&old);
    }
});

/// Writes a matrix and reads it back. Names that no file can contain are rejected.
fn again(matrix: &Imatrix) {
    let Ok(bytes) = matrix.write(Vec::new()) else { return };
    let names_are_cut = matrix.format == Format::Legacy
        && (matrix.entries.keys().chain(&matrix.datasets).any(|name| name.contains(&0) || name.is_empty())
            || matrix.entries.values().any(|e| e.counts != [i64::from(e.counts[0] as i32)]));
    if names_are_cut {
        return;
    }
    let read = ImatrixFile::from_bytes(bytes).and_then(|file| file.load()).expect("what was written can be read");
    assert_eq!(read.format, matrix.format);
    assert!(read.entries.keys().eq(matrix.entries.keys()));
    for (name, entry) in &matrix.entries {
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&read.entries[name].sums), bits(&entry.sums));
    }
}
