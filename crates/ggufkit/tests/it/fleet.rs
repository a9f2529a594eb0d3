//! A model of a trillion weights, divided among machines: parts agree with rows that are encoded alone.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gguf_format::GgmlType;
use gguf_hf::{Options, OutType};
use gguf_io::ReadAt;
use gguf_pipeline::RunOptions;
use gguf_pipeline::fleet::{FleetOptions, FleetPlan, MemoryPlace, Place};
use gguf_quantize::QuantizeOptions;
use gguf_quantize::mix::Target;
use gguf_test::files::{folder, glossary};

const LAYERS: usize = 61;
const EXPERTS: u64 = 384;
const HIDDEN: u64 = 7168;
const WIDE: u64 = 2048;
const HEADS: u64 = 56;
const KV_HEADS: u64 = 8;
const HEAD: u64 = 128;
const VOCAB: u64 = 2048;

/// The place of each tensor: the file, the offset of its data, and its columns.
type PlacesOfTensors = HashMap<String, (usize, u64, u64)>;

/// Writes a checkpoint of which the files have heads and holes.
fn write(dir: &Path) -> PlacesOfTensors {
    fs::create_dir(dir).unwrap();
    for name in ["tokenizer.model", "tokenizer_config.json"] {
        fs::copy(glossary().join(name), dir.join(name)).unwrap();
    }
    let config = format!(
        r#"{{"architectures":["MixtralForCausalLM"],"model_type":"mixtral","hidden_size":{HIDDEN},"intermediate_size":{WIDE},
        "num_hidden_layers":{LAYERS},"num_attention_heads":{HEADS},"num_key_value_heads":{KV_HEADS},"head_dim":{HEAD},
        "num_local_experts":{EXPERTS},"num_experts_per_tok":8,"vocab_size":{VOCAB},"max_position_embeddings":4096,
        "rms_norm_eps":1e-5,"rope_theta":1000000.0,"torch_dtype":"bfloat16","tie_word_embeddings":false}}"#
    );
    fs::write(dir.join("config.json"), config).unwrap();
    let mut places = HashMap::new();
    let mut index = String::new();
    for file in 0..=LAYERS {
        let mut tensors: Vec<(String, Vec<u64>)> = Vec::new();
        if file == LAYERS {
            tensors.push(("model.embed_tokens.weight".into(), vec![VOCAB, HIDDEN]));
            tensors.push(("lm_head.weight".into(), vec![VOCAB, HIDDEN]));
            tensors.push(("model.norm.weight".into(), vec![HIDDEN]));
        } else {
            let name = |rest: &str| format!("model.layers.{file}.{rest}.weight");
            for (rest, shape) in [
                ("input_layernorm", vec![HIDDEN]),
                ("post_attention_layernorm", vec![HIDDEN]),
                ("self_attn.q_proj", vec![HEADS * HEAD, HIDDEN]),
                ("self_attn.k_proj", vec![KV_HEADS * HEAD, HIDDEN]),
                ("self_attn.v_proj", vec![KV_HEADS * HEAD, HIDDEN]),
                ("self_attn.o_proj", vec![HIDDEN, HEADS * HEAD]),
                ("block_sparse_moe.gate", vec![EXPERTS, HIDDEN]),
            ] {
                tensors.push((name(rest), shape));
            }
            for expert in 0..EXPERTS {
                for (w, shape) in [("w1", [WIDE, HIDDEN]), ("w2", [HIDDEN, WIDE]), ("w3", [WIDE, HIDDEN])] {
                    tensors.push((name(&format!("block_sparse_moe.experts.{expert}.{w}")), shape.to_vec()));
                }
            }
        }
        let path = format!("model-{:05}-of-{:05}.safetensors", file + 1, LAYERS + 1);
        let (mut head, mut at) = (String::from("{"), 0);
        for (name, shape) in &tensors {
            let end = at + 2 * shape.iter().product::<u64>();
            let comma = if at == 0 { "" } else { "," };
            write!(head, r#"{comma}"{name}":{{"dtype":"BF16","shape":{shape:?},"data_offsets":[{at},{end}]}}"#)
                .unwrap();
            write!(index, r#","{name}":"{path}""#).unwrap();
            places.insert(name.clone(), (file, at, *shape.last().unwrap()));
            at = end;
        }
        head.push('}');
        let start = 8 + head.len() as u64;
        for (name, _) in tensors {
            places.get_mut(&name).unwrap().1 += start;
        }
        fs::write(dir.join(&path), [&(head.len() as u64).to_le_bytes()[..], head.as_bytes()].concat()).unwrap();
        fs::File::options().write(true).open(dir.join(&path)).unwrap().set_len(start + at).unwrap();
    }
    let index = format!(r#"{{"metadata":{{}},"weight_map":{{{}}}}}"#, &index[1..]);
    fs::write(dir.join("model.safetensors.index.json"), index).unwrap();
    places
}

/// The two bytes of a weight: small numbers of both signs.
fn weight(file: usize, offset: u64) -> [u8; 2] {
    let mixed = (offset / 2 + ((file as u64) << 44)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (((mixed >> 40) as u16 & 0x80ff) | 0x3c00).to_le_bytes()
}

/// A file with weights in place of the holes, which counts what is read.
#[derive(Debug)]
struct Filled {
    file: fs::File,
    number: usize,
    n_read: Arc<AtomicU64>,
}

impl ReadAt for Filled {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        assert!(buffer.len().is_multiple_of(2), "weights are even");
        self.n_read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        let (pairs, _) = buffer.as_chunks_mut::<2>();
        for (i, pair) in pairs.iter_mut().enumerate() {
            *pair = weight(self.number, offset + 2 * i as u64);
        }
        Ok(())
    }
    fn as_file(&self) -> Option<&fs::File> {
        Some(&self.file)
    }
}

fn open(path: &Path, n_read: &Arc<AtomicU64>) -> io::Result<Arc<dyn ReadAt>> {
    let name = path.file_name().unwrap().to_str().unwrap();
    let number = name["model-".len()..][..5].parse::<usize>().unwrap() - 1;
    Ok(Arc::new(Filled { file: fs::File::open(path)?, number, n_read: Arc::clone(n_read) }))
}

/// A row of an output tensor, encoded alone: the tensor and the row of the checkpoint by the rules of the converter.
fn row(places: &PlacesOfTensors, name: &str, row: u64, ty: GgmlType) -> Vec<u8> {
    let mut words = name.split('.');
    let (layer, what) = match words.next() {
        Some("blk") => (words.next().unwrap(), words.next().unwrap()),
        other => ("", other.unwrap()),
    };
    // The rows of a head: pairs in place of halves.
    let unpermuted = |row: u64| {
        let (head, within) = (row / HEAD, row % HEAD);
        head * HEAD + within % 2 * (HEAD / 2) + within / 2
    };
    let moe = |w: &str, rows: u64| (format!("block_sparse_moe.experts.{}.{w}", row / rows), row % rows);
    let (rest, row) = match what {
        "attn_q" => ("self_attn.q_proj".to_owned(), unpermuted(row)),
        "attn_k" => ("self_attn.k_proj".to_owned(), unpermuted(row)),
        "attn_v" => ("self_attn.v_proj".to_owned(), row),
        "attn_output" => ("self_attn.o_proj".to_owned(), row),
        "ffn_gate_inp" => ("block_sparse_moe.gate".to_owned(), row),
        "ffn_gate_exps" => moe("w1", WIDE),
        "ffn_down_exps" => moe("w2", HIDDEN),
        "ffn_up_exps" => moe("w3", WIDE),
        "attn_norm" => ("input_layernorm".to_owned(), row),
        "ffn_norm" => ("post_attention_layernorm".to_owned(), row),
        other => (other.to_owned(), row),
    };
    let source = match what {
        "token_embd" => "model.embed_tokens.weight".to_owned(),
        "output" => "lm_head.weight".to_owned(),
        "output_norm" => "model.norm.weight".to_owned(),
        _ => format!("model.layers.{layer}.{rest}.weight"),
    };
    let (file, offset, columns) = places[&source];
    let value = |column: u64| {
        let [low, high] = weight(file, offset + 2 * (row * columns + column));
        f32::from_le_bytes([0, 0, low, high])
    };
    let values: Vec<f32> = (0..columns).map(value).collect();
    gguf_quants::quantize(ty, &values, columns as usize, None, None).unwrap()
}

/// `GGUF_PARTS` sets the number of parts that are made; each takes some seconds.
#[test]
fn parts_of_a_trillion_weights_are_the_rows_of_the_source() {
    let dir = folder();
    let from: PathBuf = dir.path().join("model");
    let places_of = write(&from);
    let converted = gguf_hf::plan(&from, &Options::default().ty(OutType::Lossless)).unwrap().plan;
    let target = Target::parse("Q4_K_M").unwrap();
    let plan = gguf_quantize::plan(converted.into_draft(), None, &QuantizeOptions::default(), &target).unwrap().plan;
    assert!(plan.n_elements() > 1_000_000_000_000, "{}", plan.n_elements());
    let place = MemoryPlace::default();
    let places: [Box<dyn Place>; 1] = [Box::new(place.clone())];
    let mut options = FleetOptions::default();
    options.part_bytes = Some(64 << 20);
    let json =
        FleetPlan::divide(&plan, &["out.gguf".into()], options).unwrap().begin(&places).unwrap().to_json().unwrap();
    assert!(json.len() < 10_000_000, "{} bytes", json.len());
    let divided = FleetPlan::parse(&json).unwrap();
    assert!(divided.n_parts() > 9_000 && divided.n_parts() <= 10_000, "{}", divided.n_parts());

    let n_read = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&n_read);
    let worker = divided.worker(Arc::new(move |path: &Path| open(path, &counted)), None);
    let head = plan.heads().unwrap().remove(0);
    let starts: Vec<u64> = head.tensors().map(|tensor| head.tensor_range(&tensor).unwrap().start).collect();
    let n = std::env::var("GGUF_PARTS").map_or(2, |n| n.parse().unwrap());
    let mut state = 7u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut n_rows = 0;
    for _ in 0..n {
        let part = divided.part(random(divided.n_parts() as u64) as usize).unwrap();
        n_read.store(0, Ordering::Relaxed);
        let mut needed = 0.0;
        worker.make(part.index, &places, &RunOptions::default(), &()).unwrap();
        let bytes = place.take_part(part.range.start).unwrap();
        assert_eq!(bytes.len() as u64, part.range.end - part.range.start);
        for (tensor, start) in plan.tensors().iter().zip(&starts) {
            let row_bytes = tensor.ty.tensor_bytes([tensor.shape[0]]).unwrap();
            let within = |at: u64| at.clamp(*start, start + tensor.n_bytes()) - start;
            let own = within(part.range.end) - within(part.range.start);
            needed += own as f64 / row_bytes as f64 * (2 * tensor.shape[0]) as f64;
            let (first, end) = (within(part.range.start) / row_bytes, within(part.range.end).div_ceil(row_bytes));
            if first >= end {
                continue;
            }
            // Rows that are cut, and some between them.
            let rows = [first, end - 1].into_iter().chain((0..20).map(|_| first + random(end - first)));
            for number in rows {
                let expected = row(&places_of, &tensor.shown(), number, tensor.ty);
                let at = start + number * row_bytes;
                let shared = at.max(part.range.start)..(at + row_bytes).min(part.range.end);
                let found =
                    &bytes[(shared.start - part.range.start) as usize..(shared.end - part.range.start) as usize];
                let expected = &expected[(shared.start - at) as usize..(shared.end - at) as usize];
                assert!(found == expected, "part {}, {} row {number}", part.index, tensor.shown());
                n_rows += 1;
            }
        }
        let read = n_read.load(Ordering::Relaxed) as f64;
        assert!(read >= needed && read <= needed * 1.02, "part {}: {read} bytes read, {needed} needed", part.index);
    }
    assert!(n_rows >= 20 * n, "only {n_rows} rows");
}
