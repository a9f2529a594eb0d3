//! Outputs whose padding would be much larger than their contents.

use std::fs;

use gguf_format::{GgmlType, Head, TensorInfo};
use gguf_io::Writer;
use gguf_pipeline::{Draft, Error, RunOptions};

#[test]
fn a_file_of_padding_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in.gguf"), dir.path().join("out.gguf"));
    let small = |alignment: u32, n: usize| {
        let mut head = Head::default();
        head.set("general.architecture", "llama");
        head.set("general.alignment", alignment);
        let mut bytes = head.encode_as_read().unwrap();
        head.tensors = (0..n).map(|i| TensorInfo::new(format!("t{i}"), [8], GgmlType::F32)).collect();
        if n > 0 {
            let data = vec![vec![0; 32]; n];
            bytes = Writer::write(Vec::new(), &head, &data).unwrap();
        }
        fs::write(&input, bytes).unwrap();
        let draft = Draft::copy_of(&input).unwrap();
        draft.lay_out().and_then(|plan| plan.run(&out, &RunOptions::default().force(true), &()).map(|_| ()))
    };
    for alignment in [1 << 29, 1 << 31] {
        let error = small(alignment, 0).unwrap_err();
        assert!(matches!(error, Error::Padding { alignment: found, .. } if found == u64::from(alignment)), "{error}");
        assert!(error.is_bad_input() && error.to_string().contains("general.alignment is "), "{error}");
        assert!(!out.exists());
    }
    // Huge pages, and small amounts of padding.
    for (alignment, n) in [(32, 3), (4096, 3), (2 << 20, 20), (64 << 20, 0)] {
        small(alignment, n).unwrap();
        fs::remove_file(&out).unwrap();
    }
    // Each tensor is padded.
    assert!(matches!(small(2 << 20, 200), Err(Error::Padding { .. })));
}
