//! Data that several tensors share.

use std::fs;

use gguf_format::{GgmlType, Head, TensorInfo};
use gguf_pipeline::Draft;
use gguf_quantize::mix::Target;
use gguf_quantize::{QuantizeOptions, Warning};

#[test]
fn data_that_is_shared_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.gguf");
    let warnings = |offsets: [u64; 2]| {
        let mut head = Head::default();
        head.set("general.architecture", "llama");
        let info = |(i, offset)| TensorInfo {
            offset,
            ..TensorInfo::new(format!("blk.{i}.attn_q.weight"), [32, 64], GgmlType::F32)
        };
        head.tensors = (0..2).zip(offsets).map(info).collect();
        let mut bytes = head.encode_as_read().unwrap();
        bytes.resize(bytes.len().next_multiple_of(32) + 8192 + offsets[1] as usize, 0);
        fs::write(&input, bytes).unwrap();
        let target = Target::parse("Q8_0").unwrap();
        let draft = Draft::copy_of(&input).unwrap();
        gguf_quantize::plan(draft, None, &QuantizeOptions::default(), &target).unwrap().warnings
    };
    assert!(warnings([0, 8192]).is_empty());
    let found = warnings([0, 0]);
    let [Warning::Shared { tensor_bytes: 16384, input_bytes, .. }] = found[..] else { panic!("{found:?}") };
    assert!(input_bytes < 16384);
    assert!(found[0].to_string().starts_with("tensors share data: 16,384 bytes in a model of "), "{}", found[0]);
}
