//! Image encoders: the tensors that are converted, and rejected checkpoints.

use std::fs;
use std::path::Path;

use gguf_hf::{Options, OutType, OutputKind, plan};
use gguf_io::ModelFile;
use gguf_pipeline::RunOptions;
use gguf_test::checkpoint::{Tensor, f32_data, safetensors};

const CONFIG: &str = r#"{"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "unheard", "text_config": {"hidden_size": 6},
    "vision_config": {"hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 4,
    "patch_size": 2}}"#;

/// The tensors of an encoder with one block, of its projector, and one tensor of the language model.
fn tensors() -> Vec<(String, Vec<u64>)> {
    let block = "vision_tower.vision_model.encoder.layers.0.";
    let mut list = vec![
        ("language_model.model.norm.weight".to_owned(), vec![6]),
        ("vision_tower.vision_model.embeddings.patch_embedding.weight".to_owned(), vec![4, 3, 2, 2]),
        ("vision_tower.vision_model.embeddings.patch_embedding.bias".to_owned(), vec![4]),
        ("vision_tower.vision_model.embeddings.position_embedding.weight".to_owned(), vec![4, 4]),
        ("multi_modal_projector.mm_input_projection_weight".to_owned(), vec![4, 6]),
        ("multi_modal_projector.mm_soft_emb_norm.weight".to_owned(), vec![4]),
    ];
    for (name, shape) in [("mlp.fc1", [8, 4]), ("mlp.fc2", [4, 8])] {
        list.push((format!("{block}{name}.weight"), shape.to_vec()));
    }
    for name in ["q_proj", "k_proj", "v_proj", "out_proj"] {
        list.push((format!("{block}self_attn.{name}.weight"), vec![4, 4]));
    }
    for name in ["layer_norm1", "layer_norm2"] {
        list.extend(["weight", "bias"].map(|kind| (format!("{block}{name}.{kind}"), vec![4])));
    }
    list
}

fn write(dir: &Path, config: &str, tensors: &[(String, Vec<u64>)]) {
    let data = |shape: &[u64]| f32_data(1, shape.iter().product());
    let tensors: Vec<Tensor<'_>> = tensors.iter().map(|(n, s)| (n.as_str(), "F32", s.as_slice(), data(s))).collect();
    fs::write(dir.join("model.safetensors"), safetensors(&tensors)).unwrap();
    fs::write(dir.join("config.json"), config).unwrap();
    let preprocessor = r#"{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.25, 0.5, 0.5]}"#;
    fs::write(dir.join("preprocessor_config.json"), preprocessor).unwrap();
}

fn options() -> Options {
    Options::default().projector(true).ty(OutType::BF16)
}

#[test]
fn the_encoder_alone_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), CONFIG, &tensors());
    let conversion = plan(dir.path(), &options()).unwrap();
    assert_eq!((conversion.architecture, conversion.kind), ("clip", OutputKind::Projector));
    let found: Vec<String> = conversion.plan.tensors().iter().map(|t| format!("{} {}", t.shown(), t.ty)).collect();
    for expected in [
        "mm.input_projection.weight f16",
        "mm.soft_emb_norm.weight f32",
        "v.patch_embd.weight f32",
        "v.position_embd.weight f32",
        "v.blk.0.attn_q.weight bf16",
        "v.blk.0.ln1.bias f32",
    ] {
        assert!(found.iter().any(|tensor| tensor == expected), "{expected}: {found:?}");
    }
    assert_eq!(found.len(), tensors().len() - 1);
    let left_out: Vec<_> = conversion.skipped.iter().map(|skipped| skipped.name.as_str()).collect();
    assert_eq!(left_out, ["language_model.model.norm.weight"]);
    let name = conversion.output_path(dir.path());
    assert!(name.file_name().unwrap().to_str().unwrap().starts_with("mmproj-"), "{}", name.display());
}

#[test]
fn encoders_that_are_refused() {
    let without = |part: &str| tensors().into_iter().filter(|(name, _)| !name.contains(part)).collect::<Vec<_>>();
    let mut wide = tensors();
    for (name, shape) in &mut wide {
        if name.ends_with("mlp.fc1.weight") {
            *shape = vec![7, 4];
        }
    }
    let more = [tensors(), vec![("vision_tower.vision_model.other.weight".to_owned(), vec![1])]].concat();
    let cases = [
        (
            CONFIG.to_owned(),
            vec![tensors()[0].clone()],
            "the checkpoint has no tensors of an encoder of images or sound",
        ),
        (
            CONFIG.to_owned(),
            without("self_attn.k_proj"),
            "k_proj.weight\", which becomes v.blk.0.attn_k.weight, is missing",
        ),
        (CONFIG.to_owned(), wide, "makes dimension 1 of the output 7, expected 8 (feed_forward_length)"),
        (CONFIG.to_owned(), more, "\"vision_tower.vision_model.other.weight\" has no place"),
        (
            CONFIG.replace("Gemma3For", "GemmaOther"),
            tensors(),
            "no encoder of images or sound is supported for the architecture",
        ),
        (CONFIG.replace("\"image_size\"", "\"other\""), tensors(), "vision_config.image_size"),
        (CONFIG.replace("\"num_hidden_layers\": 1", "\"num_hidden_layers\": 99999"), tensors(), "at most 65536 blocks"),
    ];
    for (config, tensors, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &config, &tensors);
        let error = plan(dir.path(), &options()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\nexpected: {expected}");
    }
}

const MUSE: &str = r#"{"architectures": ["MuseGlimmerForConditionalGeneration"], "model_type": "unheard", "hidden_size": 6,
    "vision_config": {"hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 0, "num_attention_heads": 2, "patch_size": 2,
    "patch_temporal": 2, "pos_emb_height": 2, "merge_size": 2, "layer_norm_eps": 1e-5}}"#;

#[test]
fn convolutions_over_frames_are_added() {
    let list: [(&str, &[u64]); 7] = [
        ("vision_tower.patch_embedder.patch_embedding", &[4, 24]),
        ("vision_tower.patch_embedder.position_embedding_table", &[4, 4]),
        ("vision_tower.ln_pre", &[4]),
        ("vision_tower.ln_post", &[4]),
        ("vision_adapter.fc1", &[8, 16]),
        ("vision_adapter.fc2", &[8, 8]),
        ("vision_projection", &[6, 8]),
    ];
    let tensors: Vec<_> = list.iter().map(|(name, shape)| (format!("model.{name}.weight"), shape.to_vec())).collect();
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), MUSE, &tensors);
    let out = dir.path().join("out.gguf");
    plan(dir.path(), &options()).unwrap().plan.run(&out, &RunOptions::default(), &()).unwrap();
    let model = ModelFile::open(&out).unwrap();
    let tensor = model.tensor("v.patch_embd.weight").unwrap();
    assert_eq!(tensor.shape().collect::<Vec<_>>(), [2, 2, 3, 4]);
    let values: Vec<f32> = f32_data(1, 96).as_chunks::<4>().0.iter().map(|v| f32::from_le_bytes(*v)).collect();
    let rows = values.chunks(24).map(|row| row.split_at(12));
    let expected: Vec<u8> = rows.flat_map(|(a, b)| a.iter().zip(b).flat_map(|(a, b)| (a + b).to_le_bytes())).collect();
    assert_eq!(tensor.read().unwrap(), expected);
}

#[test]
fn grids_and_patches_of_wrong_sizes_are_refused() {
    let config = |class: &str, more: &str| {
        format!(r#"{{"architectures": ["{class}"], "model_type": "unheard", "hidden_size": 6, {more}}}"#)
    };
    let phi = config("Phi4ForCausalLMV", r#""vision_config": {"hidden_size": 4, "num_hidden_layers": 2}"#);
    let phi_positions =
        |n| vec![("vision_tower.vision_model.embeddings.position_embedding.weight".to_owned(), vec![n, 4])];
    let radio = config("NemotronH_Nano_VL_V2", r#""force_image_size": 32, "vision_config": {"patch_size": 16}"#);
    let radio_positions =
        |shape: &[u64]| vec![("vision_model.radio_model.model.patch_generator.pos_embed".to_owned(), shape.to_vec())];
    let muse_patches = vec![("model.vision_tower.patch_embedder.patch_embedding.weight".to_owned(), vec![4, 23])];
    let cases = [
        (phi.clone(), phi_positions(5), "a grid of positions that is not square"),
        (phi, phi_positions(9), "preprocessor.patch_size"),
        (radio.clone(), radio_positions(&[1, 5, 4]), "expected a square number of vectors, found 5"),
        (radio.clone(), radio_positions(&[4]), "expected 2 dimensions"),
        (radio.replace(": 32", ": 8"), radio_positions(&[1, 9, 4]), "a number of vectors up to 65536"),
        (
            radio.replace("\"force", "\"sound_config\": {}, \"force"),
            radio_positions(&[1, 9, 4]),
            "also has an encoder of sound",
        ),
        (
            MUSE.to_owned(),
            muse_patches,
            "expected a multiple of 24 (patch.frames × three × patch.rows × patch.columns)",
        ),
    ];
    for (config, tensors, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &config, &tensors);
        let error = plan(dir.path(), &options()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\nexpected: {expected}");
    }
}
