//! The probable size of a head, from its first part.

use gguf_format::{GgmlType, Head, HeadScan, TensorInfo};

/// A vocabulary of 30,000 tokens that become longer, in the order of llama.cpp's converters.
fn head(model: &str) -> Vec<u8> {
    let text = |i: usize| format!("{:0width$}", i, width = (i + 2).ilog2() as usize / 2);
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("tokenizer.ggml.model", model);
    head.set("tokenizer.ggml.tokens", (0..30_000).map(text).collect::<Vec<_>>());
    if model == "llama" {
        head.set("tokenizer.ggml.scores", vec![0.0f32; 30_000]);
    }
    head.set("tokenizer.ggml.token_type", vec![1i32; 30_000]);
    if model == "gpt2" {
        head.set(
            "tokenizer.ggml.merges",
            (0..60_000).map(|i| format!("{} {}", text(i / 2), i % 10)).collect::<Vec<_>>(),
        );
    }
    head.set("tokenizer.ggml.bos_token_id", 1u32);
    head.tensors =
        (0..300).map(|i| TensorInfo::new(format!("blk.{i}.attn_output.weight"), [32, 32], GgmlType::F16)).collect();
    head.encode().unwrap()
}

fn likely(head: &[u8]) -> u64 {
    let mut scan = HeadScan::new(None);
    scan.advance(head).unwrap();
    scan.likely_bytes(head)
}

#[test]
fn a_part_of_a_vocabulary_predicts_the_rest() {
    for model in ["llama", "gpt2", "bert"] {
        let head = head(model);
        let share = |bytes: usize| likely(&head[..bytes]) as f64 / head.len() as f64;
        // The padding is not counted.
        assert!(head.len() as u64 - likely(&head) < 32, "{model}");
        let first = share(64 << 10);
        assert!((0.5..1.05).contains(&first), "{model}: {first}");
        for percent in [70, 80, 90, 99] {
            let now = share(head.len() * percent / 100);
            assert!((0.97..1.03).contains(&now), "{model}, {percent} %: {now}");
        }
    }
}

#[test]
fn what_is_needed_is_likely() {
    let head = head("gpt2");
    for bytes in (0..head.len()).step_by(9973) {
        assert!(likely(&head[..bytes]) > bytes as u64, "{bytes}");
    }
    // Counts of any size.
    let mut hostile = b"GGUF\x03\0\0\0".to_vec();
    hostile.extend([0xff; 16]);
    assert_eq!(likely(&hostile), u64::MAX);
}
