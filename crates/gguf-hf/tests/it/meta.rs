//! Llama in Meta's layout: the same model as from the checkpoint of transformers.

use std::fs;
use std::path::Path;

use gguf_hf::{Options, OutType, plan};
use gguf_pipeline::RunOptions;
use gguf_test::checkpoint::{Tensor, f32_data, safetensors, write_small_files};
use gguf_test::torch::{self, Saved, state_dict};

const WIDTH: usize = 16;
const HEADS: usize = 4;
const HEAD: usize = WIDTH / HEADS;
const KV_HEADS: usize = 2;
const WIDE: usize = 24;
const VOCAB: usize = 8;
const BLOCKS: usize = 2;

/// The name in Meta's layout, the name in transformers, rows, columns (0 for a vector), and how it is split: by rows, by columns, not at
/// all.
type Row = (String, String, usize, usize, Cut);

#[derive(Clone, Copy, PartialEq)]
enum Cut {
    Rows,
    Columns,
    Not,
}

fn rows(embeddings: Cut) -> Vec<Row> {
    let row = |a: &str, b: &str, rows, columns, cut| (format!("{a}.weight"), format!("{b}.weight"), rows, columns, cut);
    let mut all = vec![
        row("tok_embeddings", "model.embed_tokens", VOCAB, WIDTH, embeddings),
        row("norm", "model.norm", WIDTH, 0, Cut::Not),
        row("output", "lm_head", VOCAB, WIDTH, Cut::Rows),
    ];
    for b in 0..BLOCKS {
        for (a, c, rows, columns, cut) in [
            ("attention.wq", "self_attn.q_proj", WIDTH, WIDTH, Cut::Rows),
            ("attention.wk", "self_attn.k_proj", KV_HEADS * HEAD, WIDTH, Cut::Rows),
            ("attention.wv", "self_attn.v_proj", KV_HEADS * HEAD, WIDTH, Cut::Rows),
            ("attention.wo", "self_attn.o_proj", WIDTH, WIDTH, Cut::Columns),
            ("feed_forward.w1", "mlp.gate_proj", WIDE, WIDTH, Cut::Rows),
            ("feed_forward.w2", "mlp.down_proj", WIDTH, WIDE, Cut::Columns),
            ("feed_forward.w3", "mlp.up_proj", WIDE, WIDTH, Cut::Rows),
            ("attention_norm", "input_layernorm", WIDTH, 0, Cut::Not),
            ("ffn_norm", "post_attention_layernorm", WIDTH, 0, Cut::Not),
        ] {
            all.push(row(&format!("layers.{b}.{a}"), &format!("model.layers.{b}.{c}"), rows, columns, cut));
        }
    }
    all
}

/// The data of an unsplit tensor.
fn data(i: usize, rows: usize, columns: usize) -> Vec<u8> {
    f32_data(i as u32, (rows * columns.max(1)) as u64)
}

/// Writes the checkpoint as a number of files; `edit` may change the content of a file.
fn write_meta(dir: &Path, n: usize, embeddings: Cut, edit: impl Fn(usize, &mut Vec<(String, Vec<i64>, Vec<u8>)>)) {
    for shard in 0..n {
        let mut tensors = vec![("rope.freqs".to_owned(), vec![2], vec![0; 8])];
        for (i, (name, _, rows, columns, cut)) in rows(embeddings).into_iter().enumerate() {
            let whole = data(i, rows, columns);
            let (shape, bytes) = match cut {
                Cut::Not => (vec![rows], whole),
                Cut::Rows => {
                    let part = whole.len() / n;
                    (vec![rows / n, columns], whole[shard * part..][..part].to_vec())
                }
                Cut::Columns => {
                    let part = columns / n * 4;
                    let cut = whole.chunks(columns * 4).flat_map(|row| &row[shard * part..][..part]).copied();
                    (vec![rows, columns / n], cut.collect())
                }
            };
            tensors.push((name, shape.iter().map(|n| *n as i64).collect(), bytes));
        }
        edit(shard, &mut tensors);
        let keys: Vec<String> = (0..tensors.len()).map(|i| i.to_string()).collect();
        let strides: Vec<Vec<i64>> = tensors
            .iter()
            .map(|(_, shape, _)| (1..=shape.len()).map(|i| shape[i..].iter().product()).collect())
            .collect();
        let saved = tensors.iter().zip(&keys).zip(&strides).map(|(((name, shape, bytes), key), strides)| Saved {
            name,
            class: "FloatStorage",
            key,
            elements: (bytes.len() / 4) as i64,
            offset: 0,
            shape,
            strides,
        });
        let pickle = state_dict(&saved.collect::<Vec<_>>());
        let storages: Vec<(&str, Vec<u8>)> =
            keys.iter().zip(&tensors).map(|(key, (.., bytes))| (key.as_str(), bytes.clone())).collect();
        fs::write(dir.join(format!("consolidated.{shard:02}.pth")), torch::file(&pickle, &storages)).unwrap();
    }
    let params = format!(
        r#"{{"dim":{WIDTH},"n_layers":{BLOCKS},"n_heads":{HEADS},"n_kv_heads":{KV_HEADS},"vocab_size":-1,"multiple_of":8,"norm_eps":1e-05}}"#
    );
    fs::write(dir.join("params.json"), params).unwrap();
    write_small_files(dir);
    fs::remove_file(dir.join("config.json")).unwrap();
}

/// Writes the checkpoint in the layout of transformers: rows of queries and keys that are rotated together are half a head apart (`permute`
/// in `convert_llama_weights_to_hf.py`).
fn write_transformers(dir: &Path) {
    let rows = rows(Cut::Rows);
    let mut tensors: Vec<(String, Vec<u64>, Vec<u8>)> = Vec::new();
    for (i, (_, name, n, columns, _)) in rows.into_iter().enumerate() {
        let mut bytes = data(i, n, columns);
        if name.contains("q_proj") || name.contains("k_proj") {
            let whole = bytes.clone();
            let lines: Vec<&[u8]> = whole.chunks(columns * 4).collect();
            let order = (0..n).map(|row| (row / HEAD, row % HEAD / (HEAD / 2), row % (HEAD / 2)));
            bytes = order.flat_map(|(head, half, pair)| lines[head * HEAD + pair * 2 + half]).copied().collect();
        }
        let shape = [n, columns].iter().filter(|n| **n > 0).map(|n| *n as u64).collect();
        tensors.push((name, shape, bytes));
    }
    let list: Vec<Tensor<'_>> =
        tensors.iter().map(|(name, shape, bytes)| (name.as_str(), "F32", shape.as_slice(), bytes.clone())).collect();
    write_small_files(dir);
    fs::write(dir.join("model.safetensors"), safetensors(&list)).unwrap();
    let config = format!(
        r#"{{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":{WIDTH},"num_attention_heads":{HEADS},
        "num_key_value_heads":{KV_HEADS},"num_hidden_layers":{BLOCKS},"intermediate_size":{WIDE},"vocab_size":{VOCAB},"rms_norm_eps":1e-05,
        "max_position_embeddings":4096}}"#
    );
    fs::write(dir.join("config.json"), config).unwrap();
}

/// The key-values, and the tensor names and data, of the converted model.
type Model = (Vec<String>, Vec<(String, String, Vec<u8>)>);

fn converted(dir: &Path) -> Model {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("out.gguf");
    let options = Options::default().ty(OutType::F32).name(Some("Same".to_owned()));
    plan(dir, &options).unwrap().plan.run(&file, &RunOptions::default(), &()).unwrap();
    let model = gguf_io::ModelFile::open(&file).unwrap();
    let keys = model.gguf().kvs().map(|kv| format!("{} {:?}", kv.key, kv.value)).collect();
    let mut tensors: Vec<_> =
        model.tensors().map(|t| (t.name().to_string(), format!("{:?}", t.shape()), t.read().unwrap())).collect();
    tensors.sort();
    (keys, tensors)
}

#[test]
fn it_is_the_model_that_transformers_has() {
    // The folders have the same name, because it becomes part of the metadata.
    let folder = |dir: &tempfile::TempDir| {
        let folder = dir.path().join("tiny");
        fs::create_dir(&folder).unwrap();
        folder
    };
    let temporary = tempfile::tempdir().unwrap();
    let reference = folder(&temporary);
    write_transformers(&reference);
    let expected = converted(&reference);
    for (n, embeddings) in [(1, Cut::Rows), (2, Cut::Rows), (2, Cut::Columns), (1, Cut::Columns)] {
        let temporary = tempfile::tempdir().unwrap();
        let dir = folder(&temporary);
        write_meta(&dir, n, embeddings, |_, _| ());
        for path in [dir.clone(), dir.join("consolidated.00.pth")] {
            let (mut keys, tensors) = converted(&path);
            let key = "llama.tensor_data_layout";
            let layout = keys.iter().position(|k| k.starts_with(key)).expect(key);
            assert!(keys.remove(layout).contains("Meta AI original pth"));
            assert_eq!(keys, expected.0, "{n} files");
            assert_eq!(tensors.len(), expected.1.len());
            for (found, expected) in tensors.iter().zip(&expected.1) {
                assert!(found == expected, "{n} files: {} {} {}", found.0, found.1, expected.1);
            }
            // Queries stay in Meta's order, so they equal the written data.
            let wq = tensors.iter().find(|(name, ..)| name == "blk.0.attn_q.weight").unwrap();
            assert!(wq.2 == data(3, WIDTH, WIDTH));
        }
    }
}

#[test]
fn the_context_is_that_of_the_generation() {
    let dir = tempfile::tempdir().unwrap();
    write_meta(dir.path(), 1, Cut::Rows, |_, _| ());
    for (more, expected) in [
        (r#""norm_eps":1e-06"#, 2048),
        (r#""norm_eps":1e-05"#, 4096),
        (r#""norm_eps":1e-05,"rope_theta":1000000"#, 16384),
        (r#""norm_eps":1e-05,"rope_theta":500000.0"#, 8192),
        (r#""norm_eps":1e-05,"rope_theta":500000.0,"use_scaled_rope":true"#, 131_072),
        (r#""norm_eps":1e-05,"max_seq_len":77"#, 77),
    ] {
        let params =
            format!(r#"{{"dim":{WIDTH},"n_layers":{BLOCKS},"n_heads":{HEADS},"n_kv_heads":{KV_HEADS},{more}}}"#);
        fs::write(dir.path().join("params.json"), params).unwrap();
        let (keys, tensors) = converted(dir.path());
        let context = keys.iter().find(|key| key.starts_with("llama.context_length")).unwrap();
        assert!(context.contains(&expected.to_string()), "{more}: {context}");
        // Scaled frequencies are stored in a tensor.
        assert_eq!(tensors.iter().any(|(name, ..)| name == "rope_freqs.weight"), more.contains("use_scaled"), "{more}");
    }
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    type Edit<'a> = &'a dyn Fn(usize, &mut Vec<(String, Vec<i64>, Vec<u8>)>);
    let find = |t: &mut Vec<(String, Vec<i64>, Vec<u8>)>, name: &str| t.iter().position(|(n, ..)| n == name).unwrap();
    let wq = "layers.0.attention.wq.weight";
    let cases: &[(&str, Edit<'_>, &str)] = &[
        (
            "a missing part",
            &|i, t| {
                if i == 1 {
                    t.retain(|(name, ..)| name != wq);
                }
            },
            "layers.0.attention.wq.weight",
        ),
        ("an unknown tensor", &|_, t| t.push(("layers.0.bias".to_owned(), vec![1], vec![0; 4])), "layers.0.bias"),
        (
            "part of a head",
            &|i, t| {
                let at = find(t, wq);
                if i == 1 {
                    t[at].1 = vec![7, WIDTH as i64];
                    t[at].2.truncate(7 * WIDTH * 4);
                }
            },
            "expected whole heads of an even number of rows; a head has 4",
        ),
        (
            "another width",
            &|i, t| {
                let at = find(t, "layers.1.feed_forward.w1.weight");
                if i == 1 {
                    t[at].1 = vec![WIDTH as i64, 12];
                }
            },
            "has the shape [12, 16] in the first file",
        ),
        (
            "another norm",
            &|i, t| {
                let at = find(t, "norm.weight");
                if i == 1 {
                    t[at].1 = vec![8];
                    t[at].2.truncate(32);
                }
            },
            "expected the same tensor in each file",
        ),
        (
            "a vector for a matrix",
            &|_, t| {
                let at = find(t, "output.weight");
                t[at].1 = vec![(VOCAB * WIDTH / 2) as i64];
            },
            "expected a matrix",
        ),
        (
            "one dimension more",
            &|i, t| {
                let at = find(t, "output.weight");
                if i == 1 {
                    t[at].1 = vec![(VOCAB * WIDTH / 2) as i64];
                }
            },
            "output.weight",
        ),
    ];
    for (case, edit, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        write_meta(dir.path(), 2, Cut::Rows, edit);
        let message = plan(dir.path(), &Options::default()).unwrap_err().to_string();
        assert!(message.contains(expected), "{case}: {message}");
    }
    let dir = tempfile::tempdir().unwrap();
    write_meta(dir.path(), 2, Cut::Rows, |_, _| ());
    let refusal = || plan(dir.path(), &Options::default()).unwrap_err().to_string();
    for (params, expected) in [
        ("[]", "the document is []"),
        ("{}", "dim is null, expected a whole number above 0"),
        (r#"{"dim":0,"n_heads":1,"n_layers":1}"#, "dim is 0"),
        (r#"{"dim":16,"n_heads":-4,"n_layers":1}"#, "n_heads is -4"),
        (r#"{"dim":16,"n_heads":32,"n_layers":1}"#, "n_heads is 32, expected at most dim"),
        (r#"{"dim":16,"n_heads":4,"n_layers":"2"}"#, "n_layers is \"2\""),
        (r#"{"dim":16,"n_heads":4,"n_layers":2,"head_dim":3}"#, "a head has 3"),
        (r#"{"dim":16,"n_heads":4,"n_layers":99999999999}"#, "n_layers is 99999999999"),
    ] {
        fs::write(dir.path().join("params.json"), params).unwrap();
        let message = refusal();
        assert!(message.contains(expected), "{params}: {message}");
    }
    fs::rename(dir.path().join("consolidated.01.pth"), dir.path().join("consolidated.02.pth")).unwrap();
    fs::write(dir.path().join("params.json"), r#"{"dim":16,"n_heads":4,"n_layers":2}"#).unwrap();
    assert!(refusal().contains("missing: \"consolidated.01.pth\""), "{}", refusal());
    fs::remove_file(dir.path().join("params.json")).unwrap();
    assert!(refusal().contains("no config.json"), "{}", refusal());
}
