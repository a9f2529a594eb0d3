//! `gguf verify`: what it accepts and what it finds.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_format::{GgmlType, Gguf, Head, TensorInfo, Value};
use gguf_io::Writer;
use gguf_test::checkpoint::{Tensor, f32_data, safetensors};
use gguf_test::files::{folder, glossary, text};
use gguf_test::program::{Run, gguf};

fn matrix() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/imatrix.gguf")
}

fn verify(file: &Path, more: &[&str]) -> Run {
    let checkpoint = glossary();
    gguf(["verify", text(file), "--against", text(&checkpoint)].iter().chain(more))
}

/// A conversion of the checkpoint.
fn converted(dir: &Path, ty: &str, more: &[&str]) -> PathBuf {
    let (out, checkpoint) = (dir.join(format!("{ty}.gguf")), glossary());
    gguf(["convert", text(&checkpoint), "-o", text(&out), "-q", "--type", ty].iter().chain(more)).exits(0);
    out
}

/// A file with other bytes.
fn changed(file: &Path, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let mut bytes = fs::read(file).unwrap();
    change(&mut bytes);
    let out = file.with_extension("changed.gguf");
    fs::write(&out, bytes).unwrap();
    out
}

/// A file with another head, and data that a function chooses by the index of the tensor.
fn rewritten(file: &Path, change: impl FnOnce(&mut Head, &mut Vec<Vec<u8>>)) -> PathBuf {
    let bytes = fs::read(file).unwrap();
    let gguf = Gguf::parse(bytes.as_slice()).unwrap();
    let mut head = Head::from_gguf(&gguf);
    let mut data: Vec<Vec<u8>> = gguf
        .tensors()
        .map(|tensor| {
            let range = gguf.tensor_range(&tensor).unwrap();
            bytes[range.start as usize..range.end as usize].to_vec()
        })
        .collect();
    change(&mut head, &mut data);
    let out = file.with_extension("rewritten.gguf");
    fs::write(&out, Writer::write(Vec::new(), &head, data).unwrap()).unwrap();
    out
}

/// The range of a tensor's data in a file.
fn range_of(file: &Path, tensor: &str) -> std::ops::Range<usize> {
    let bytes = fs::read(file).unwrap();
    let gguf = Gguf::parse(bytes.as_slice()).unwrap();
    let range = gguf.tensor_range(&gguf.tensor(tensor).unwrap()).unwrap();
    range.start as usize..range.end as usize
}

fn index_of(head: &Head, tensor: &str) -> usize {
    head.tensors.iter().position(|t| t.name == tensor.as_bytes()).unwrap()
}

#[test]
fn conversions_and_quantizations_are_made_of_their_checkpoint() {
    let dir = folder();
    let matrix = matrix();
    for ty in ["f32", "f16", "q8_0", "Q4_K_M", "Q2_K", "IQ4_XS"] {
        let run = verify(&converted(dir.path(), ty, &[]), &["--exact"]).exits(0).silently();
        run.prints(&["The file was made from the checkpoint\n"]);
    }
    verify(&converted(dir.path(), "bf16", &["--big-endian"]), &["--exact"]).exits(0);
    let weighted = converted(dir.path(), "IQ2_XXS", &["--imatrix", text(&matrix)]);
    let run = verify(&weighted, &["--imatrix", text(&matrix)]).exits(0).silently();
    run.prints(&["the bytes of llama.cpp's encoder with the matrix", "names the matrix imatrix.gguf"]);
    // Without the matrix, the errors are those of the type.
    let run = verify(&weighted, &[]).exits(0).silently();
    run.prints(&["within", "as far as the types of", "--imatrix compares with it"]);
    verify(&weighted, &["--exact"]).exits(1).prints(&["not encoded as by llama.cpp"]);
    // From half precision, a name, and shards.
    let halves = converted(dir.path(), "f16", &["--name", "Other", "--force"]);
    let quantized = dir.path().join("of-halves.gguf");
    gguf(["quantize", text(&halves), text(&quantized), "Q5_K_M", "-q"]).exits(0);
    verify(&quantized, &["--exact"]).exits(0).prints(&["descriptions that differ"]);
    gguf(["split", text(&quantized), text(&dir.path().join("part")), "--max-tensors", "9"]).exits(0);
    verify(&dir.path().join("part-00001-of-00004.gguf"), &["--exact"]).exits(0);
}

#[test]
fn one_flipped_bit_is_found_in_every_type() {
    let dir = folder();
    for (ty, tensor) in [
        ("bf16", "blk.1.attn_k.weight"),
        ("f16", "output_norm.weight"),
        ("Q4_K_M", "blk.1.ffn_up.weight"),
        ("IQ3_S", "blk.0.attn_q.weight"),
    ] {
        let file = converted(dir.path(), ty, &[]);
        let range = range_of(&file, tensor);
        for at in [range.start, (range.start + range.end) / 2 + 3, range.end - 1] {
            let flipped = changed(&file, |bytes| bytes[at] ^= 1);
            let run = verify(&flipped, &[]).exits(1).silently();
            let offset = format!("the first at byte {}\n", at - range.start);
            run.prints(&[tensor, "different", "1 of ", "blocks differs; ", &offset, "1 different"]);
        }
    }
}

#[test]
fn swapped_tensors_and_unpermuted_rows_are_found() {
    let dir = folder();
    for ty in ["bf16", "Q4_K_M", "IQ4_XS", "Q2_K"] {
        let file = converted(dir.path(), ty, &[]);
        let (a, b) = ("blk.0.attn_q.weight", "blk.1.attn_q.weight");
        let swapped = rewritten(&file, |head, data| {
            let (a, b) = (index_of(head, a), index_of(head, b));
            data.swap(a, b);
        });
        let run = verify(&swapped, &[]).exits(1);
        run.prints(&[&format!("has the data of {a}"), &format!("has the data of {b}"), "2 different"]);
        let json = verify(&swapped, &["--json"]).exits(1).json();
        let found = json["tensors"].as_array().unwrap().iter().find(|tensor| tensor["name"] == a).unwrap();
        assert_eq!(found["cause"]["has_data_of"], b);
        // The converter exchanges the halves of each head's rows; this file has the rows of the checkpoint.
        let unpermuted = rewritten(&file, |head, data| {
            let index = index_of(head, a);
            let row = data[index].len() / 256;
            let rows: Vec<&[u8]> = data[index].chunks(row).collect();
            let per_head = 256 / head.get("llama.attention.head_count").unwrap().get::<u32>().unwrap() as usize;
            let from = |i: usize| {
                let (head, within) = (i / per_head, i % per_head);
                head * per_head + within % (per_head / 2) * 2 + within / (per_head / 2)
            };
            data[index] = (0..256).flat_map(|i| rows[from(i)].to_vec()).collect();
        });
        verify(&unpermuted, &[]).exits(1).prints(&[a, "has the order of the checkpoint", "1 different"]);
    }
}

const N_EXPERTS: usize = 4;

/// A checkpoint with experts, whose tokenizer is that of the example.
fn experts(dir: &Path) -> PathBuf {
    let checkpoint = dir.join("experts");
    fs::create_dir(&checkpoint).unwrap();
    for name in ["tokenizer.model", "tokenizer_config.json"] {
        fs::copy(glossary().join(name), checkpoint.join(name)).unwrap();
    }
    let config = r#"{"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 256, "num_attention_heads": 4,
        "num_key_value_heads": 4, "num_hidden_layers": 1, "intermediate_size": 256, "vocab_size": 2048, "num_local_experts": 4,
        "num_experts_per_tok": 2, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 64}"#;
    fs::write(checkpoint.join("config.json"), config).unwrap();
    let mut list: Vec<(String, Vec<u64>)> = [
        ("model.embed_tokens", vec![2048, 256]),
        ("lm_head", vec![2048, 256]),
        ("model.norm", vec![256]),
        ("model.layers.0.input_layernorm", vec![256]),
        ("model.layers.0.post_attention_layernorm", vec![256]),
        ("model.layers.0.block_sparse_moe.gate", vec![N_EXPERTS as u64, 256]),
    ]
    .map(|(name, shape)| (name.to_owned(), shape))
    .to_vec();
    list.extend(["q", "k", "v", "o"].map(|part| (format!("model.layers.0.self_attn.{part}_proj"), vec![256, 256])));
    for expert in 0..N_EXPERTS {
        let name = |part: &str| format!("model.layers.0.block_sparse_moe.experts.{expert}.{part}");
        list.extend(["w1", "w2", "w3"].map(|part| (name(part), vec![256, 256])));
    }
    let names: Vec<String> = list.iter().map(|(name, _)| format!("{name}.weight")).collect();
    let data = |i: usize, shape: &[u64]| f32_data(i as u32, shape.iter().product());
    let tensors = names.iter().zip(&list).enumerate();
    let tensors: Vec<Tensor<'_>> =
        tensors.map(|(i, (name, (_, shape)))| (&**name, "F32", &**shape, data(i, shape))).collect();
    fs::write(checkpoint.join("model.safetensors"), safetensors(&tensors)).unwrap();
    checkpoint
}

#[test]
fn experts_that_are_zero_missing_or_exchanged_are_found() {
    let dir = folder();
    let checkpoint = experts(dir.path());
    let name = "blk.0.ffn_up_exps.weight";
    for ty in ["bf16", "Q4_K_M", "IQ4_XS"] {
        let file = dir.path().join(format!("{ty}.gguf"));
        gguf(["convert", text(&checkpoint), "-o", text(&file), "-q", "--type", ty]).exits(0);
        let verify = |file: &Path| gguf(["verify", text(file), "--against", text(&checkpoint)]);
        verify(&file).exits(0);
        for expert in [0, 2, 3] {
            let zeroed = rewritten(&file, |head, data| {
                let data = &mut data[index_of(head, name)];
                let bytes = data.len() / N_EXPERTS;
                data[expert * bytes..][..bytes].fill(0);
            });
            verify(&zeroed).exits(1).prints(&[name, &format!("all in expert {expert}, where the file has zeros")]);
        }
        let missing = rewritten(&file, |head, data| {
            let index = index_of(head, name);
            head.tensors[index].shape[2] -= 1;
            let bytes = data[index].len() / N_EXPERTS;
            data[index].truncate((N_EXPERTS - 1) * bytes);
        });
        verify(&missing).exits(1).prints(&["shape 256 x 256 x 3, expected 256 x 256 x 4; 1 expert is missing"]);
        let exchanged = rewritten(&file, |head, data| {
            let data = &mut data[index_of(head, name)];
            let bytes = data.len() / N_EXPERTS;
            data.copy_within(2 * bytes..3 * bytes, bytes);
        });
        verify(&exchanged).exits(1).prints(&[name, "all in expert 1"]);
    }
}

#[test]
fn keys_and_tokens_that_differ_are_found() {
    let dir = folder();
    let file = converted(dir.path(), "Q4_K_M", &[]);
    let base = rewritten(&file, |head, _| head.set("llama.rope.freq_base", 500_000.0f32));
    verify(&base, &[]).exits(1).silently().prints(&[
        "~  llama.rope.freq_base",
        "1 different",
        "differs from the checkpoint",
    ]);
    let token = rewritten(&file, |head, _| {
        let key = "tokenizer.ggml.token_type";
        let mut types = head.get(key).unwrap().get::<Vec<i32>>().unwrap();
        types[1000] = 4;
        head.set(key, types);
    });
    verify(&token, &[])
        .exits(1)
        .prints(&["tokenizer.ggml.token_type: 2,048 elements, 1 different; the first at 1000: 1 and 4"]);
    let missing = rewritten(&file, |head, _| assert!(head.remove("llama.rope.dimension_count")));
    let json = verify(&missing, &["--json"]).exits(1).json();
    let keys = json["keys"].as_array().unwrap();
    let key = keys.iter().find(|key| key["key"] == "llama.rope.dimension_count").unwrap();
    assert_eq!((&key["checkpoint"]["value"], &key["file"]), (&32.into(), &serde_json::Value::Null));
    assert_eq!((&key["description"], &json["same"]), (&false.into(), &false.into()));
    // Descriptions do not count, and are listed on request.
    let name = rewritten(&file, |head, _| head.set("general.name", "Other"));
    let run = verify(&name, &[]).exits(0).silently();
    assert!(!run.out.contains("general.name"), "{}", run.out);
    verify(&name, &["--all"]).exits(0).prints(&["~  general.name"]);
}

#[test]
fn missing_extra_and_misshapen_tensors_are_found() {
    let dir = folder();
    let file = converted(dir.path(), "Q4_K_M", &[]);
    let other = rewritten(&file, |head, data| {
        let index = index_of(head, "blk.2.attn_v.weight");
        head.tensors.remove(index);
        data.remove(index);
        head.tensors.push(TensorInfo::new("blk.9.attn_v.weight", [1], GgmlType::F32));
        data.push(vec![0; 4]);
        let norm = index_of(head, "output_norm.weight");
        head.tensors[norm].shape = vec![128, 2];
    });
    let run = verify(&other, &[]).exits(1).silently();
    run.prints(&["only in the checkpoint", "only in the file", "shape 128 x 2, expected 256", "1 missing, 1 extra"]);
    let json = verify(&other, &["--json"]).exits(1).json();
    let state =
        |name: &str| json["tensors"].as_array().unwrap().iter().find(|t| t["name"] == name).unwrap()["state"].clone();
    let names = ["blk.2.attn_v.weight", "blk.9.attn_v.weight", "output_norm.weight", "blk.0.attn_q.weight"];
    assert_eq!(names.map(state), ["missing", "extra", "different", "encoded"]);
}

#[test]
fn another_matrix_is_found() {
    let dir = folder();
    let matrix = matrix();
    let other = rewritten(&matrix, |_, data| {
        for values in data {
            for value in values.chunks_exact_mut(4).step_by(3) {
                let number = f32::from_le_bytes(value.try_into().unwrap()) * 5.0;
                value.copy_from_slice(&number.to_le_bytes());
            }
        }
    });
    let other = {
        let to = dir.path().join("other.gguf");
        fs::rename(other, &to).unwrap();
        to
    };
    let file = converted(dir.path(), "Q4_K_M", &["--imatrix", text(&other)]);
    verify(&file, &["--imatrix", text(&other)]).exits(0);
    let run = verify(&file, &["--imatrix", text(&matrix)]).exits(1).silently();
    run.prints(&["within", "may have been made from the checkpoint", "are not encoded with that matrix"]);
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let dir = folder();
    let file = converted(dir.path(), "bf16", &[]);
    gguf(["verify", text(&file), "--against", "missing"]).exits(2).says(&["missing"]);
    gguf(["verify", "missing.gguf", "--against", text(&glossary())]).exits(2).says(&["missing.gguf"]);
    gguf(["verify", text(&file)]).exits(2).says(&["--against"]);
    let cut = changed(&file, |bytes| bytes.truncate(bytes.len() - 5000));
    verify(&cut, &[]).exits(1).says(&["bf16.changed.gguf"]);
    // Not a number of the right type: reported, not trusted.
    let odd = rewritten(&file, |head, _| head.set("general.file_type", Value::from("Q4_K_M")));
    verify(&odd, &[]).exits(0);
    // A type that is unknown, and blocks that are not finite.
    let q8 = converted(dir.path(), "q8_0", &[]);
    let range = range_of(&q8, "blk.0.ffn_up.weight");
    let infinite = changed(&q8, |bytes| {
        for block in bytes[range].chunks_mut(34) {
            block[..2].copy_from_slice(&[0, 0x7c]);
        }
    });
    verify(&infinite, &[]).exits(1).prints(&["blk.0.ffn_up.weight", "exceed the error of the type"]);
}
