//! Image encoders: the tensors that are converted, and rejected checkpoints.

use std::fs;
use std::path::Path;

use gguf_hf::{Options, OutType, OutputKind, plan};
use gguf_io::ModelFile;
use gguf_pipeline::RunOptions;
use gguf_pipeline::plan::{BatchNorm, Op};
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

const BOTH: &str = r#"{"architectures": ["Qwen3OmniMoeForConditionalGeneration"], "model_type": "unheard", "thinker_config": {
    "text_config": {"hidden_size": 6}, "vision_config": {"hidden_size": 4, "intermediate_size": 8, "depth": 1, "num_heads": 2,
    "patch_size": 2, "num_position_embeddings": 4, "deepstack_visual_indexes": [0]},
    "audio_config": {"d_model": 6, "encoder_ffn_dim": 10, "encoder_layers": 2, "encoder_attention_heads": 2, "num_mel_bins": 8}}}"#;

/// The tensors of Qwen3-Omni's encoders: one block for images, two for sound.
fn tensors_of_both() -> Vec<(String, Vec<u64>)> {
    let mut list = vec![
        ("thinker.visual.patch_embed.proj.weight".to_owned(), vec![4, 3, 2, 2, 2]),
        ("thinker.visual.pos_embed.weight".to_owned(), vec![4, 4]),
        ("thinker.audio_tower.conv_out.weight".to_owned(), vec![6, 4]),
    ];
    let mut add = |name: &str, shape: &[u64]| {
        list.push((format!("thinker.{name}.weight"), shape.to_vec()));
        list.push((format!("thinker.{name}.bias"), shape[..1].to_vec()));
    };
    for (name, shape) in [
        ("norm1", &[4][..]),
        ("norm2", &[4]),
        ("attn.qkv", &[12, 4]),
        ("attn.proj", &[4, 4]),
        ("mlp.linear_fc1", &[8, 4]),
        ("mlp.linear_fc2", &[4, 8]),
    ] {
        add(&format!("visual.blocks.0.{name}"), shape);
    }
    for (merger, norm) in [("merger", 4), ("merger_list.0", 16)] {
        add(&format!("visual.{merger}.ln_q"), &[norm]);
        add(&format!("visual.{merger}.mlp.0"), &[16, 16]);
        add(&format!("visual.{merger}.mlp.2"), &[6, 16]);
    }
    for block in 0..2 {
        for (name, shape) in [
            ("fc1", &[10, 6][..]),
            ("fc2", &[6, 10]),
            ("final_layer_norm", &[6]),
            ("self_attn_layer_norm", &[6]),
            ("self_attn.q_proj", &[6, 6]),
            ("self_attn.k_proj", &[6, 6]),
            ("self_attn.v_proj", &[6, 6]),
            ("self_attn.out_proj", &[6, 6]),
        ] {
            add(&format!("audio_tower.layers.{block}.{name}"), shape);
        }
    }
    for (name, shape) in [("conv2d1", &[2, 1, 3, 3][..]), ("conv2d2", &[2, 2, 3, 3]), ("conv2d3", &[2, 2, 3, 3])] {
        add(&format!("audio_tower.{name}"), shape);
    }
    for (name, shape) in [("ln_post", &[6][..]), ("proj1", &[6, 6]), ("proj2", &[6, 6])] {
        add(&format!("audio_tower.{name}"), shape);
    }
    list
}

#[test]
fn two_encoders_have_their_own_sizes() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), BOTH, &tensors_of_both());
    let conversion = plan(dir.path(), &options()).unwrap();
    let found: Vec<String> = conversion.plan.tensors().iter().map(|t| format!("{} {:?}", t.shown(), t.shape)).collect();
    for expected in [
        "a.position_embd.weight [6, 1500]",
        "a.blk.1.ffn_up.weight [6, 10]",
        "a.conv2d.3.bias [1, 1, 2]",
        "v.blk.0.ffn_up.weight [4, 8]",
        "v.deepstack.0.norm.weight [16]",
        "mm.a.mlp.2.weight [6, 6]",
    ] {
        assert!(found.iter().any(|tensor| tensor == expected), "{expected}: {found:?}");
    }
    // A tensor has two sources; the positions of sound have none.
    assert_eq!(found.len(), tensors_of_both().len() + 2);
    let without =
        |part: &str| tensors_of_both().into_iter().filter(|(name, _)| !name.contains(part)).collect::<Vec<_>>();
    let with = |name: &str| [tensors_of_both(), vec![(name.to_owned(), vec![6])]].concat();
    let cases = [
        (
            without("audio_tower.layers.1.fc1"),
            BOTH.to_owned(),
            "layers.1.fc1.weight\", which becomes a.blk.1.ffn_up.weight, is missing",
        ),
        (
            without("visual.blocks.0.norm1"),
            BOTH.to_owned(),
            "blocks.0.norm1.weight\", which becomes v.blk.0.ln1.weight",
        ),
        (
            with("thinker.visual.blocks.1.norm1.weight"),
            BOTH.to_owned(),
            "\"thinker.visual.blocks.1.norm1.weight\" has no place",
        ),
        (
            with("thinker.audio_tower.layers.2.fc1.bias"),
            BOTH.to_owned(),
            "\"thinker.audio_tower.layers.2.fc1.bias\" has no place",
        ),
        (
            tensors_of_both(),
            BOTH.replace("\"encoder_ffn_dim\": 10", "\"encoder_ffn_dim\": 11"),
            "expected 11 (feed_forward_length)",
        ),
        (tensors_of_both(), BOTH.replace("\"d_model\": 6", "\"d_model\": 7"), "an even number from 4 to 16384"),
        (tensors_of_both(), BOTH.replace("audio_config", "other"), "audio_config"),
    ];
    for (tensors, config, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &config, &tensors);
        let error = plan(dir.path(), &options()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\nexpected: {expected}");
    }
}

/// Adds a weight and a bias with the same number of rows for each name.
fn add_linear(list: &mut Vec<(String, Vec<u64>)>, prefix: &str, names: &[(&str, &[u64])]) {
    for (name, shape) in names {
        list.push((format!("{prefix}{name}.weight"), shape.to_vec()));
        list.push((format!("{prefix}{name}.bias"), shape[..1].to_vec()));
    }
}

fn add_query_block(list: &mut Vec<(String, Vec<u64>)>, prefix: &str) {
    for attention in ["attention.", "crossattention."] {
        let names = ["attention.query", "attention.key", "attention.value", "output.dense"];
        add_linear(list, &format!("{prefix}{attention}"), &names.map(|name| (name, &[4, 4][..])));
        add_linear(list, &format!("{prefix}{attention}"), &[("output.LayerNorm", &[4])]);
    }
    let rest: &[(&str, &[u64])] =
        &[("intermediate_query.dense", &[8, 4]), ("output_query.dense", &[4, 8]), ("output_query.LayerNorm", &[4])];
    add_linear(list, prefix, rest);
}

/// Granite 4 Vision with one block in the encoder and two projectors.
const WITH_PROJECTORS: &str = r#"{"architectures": ["Granite4VisionForConditionalGeneration"], "model_type": "unheard",
    "text_config": {"hidden_size": 6, "num_hidden_layers": 4}, "downsample_rate": "1/2", "deepstack_layer_map": [[-1, -1]],
    "spatial_target_layers": [1], "vision_config": {"hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 2, "image_size": 4, "patch_size": 2}}"#;

fn with_projectors(projectors: &[&str]) -> Vec<(String, Vec<u64>)> {
    let tower = tensors().into_iter().filter(|(name, _)| name.starts_with("vision_tower"));
    let mut list: Vec<_> = tower.map(|(name, shape)| (format!("model.{name}"), shape)).collect();
    list.push(("model.image_newline".to_owned(), vec![6]));
    for projector in projectors {
        let prefix = format!("model.{projector}.");
        list.push((format!("{prefix}query"), vec![1, 1, 4]));
        list.push((format!("{prefix}image_positions"), vec![1, 4, 4]));
        add_linear(&mut list, &prefix, &[("out_linear", &[6, 4]), ("norm", &[4]), ("qformer.layernorm", &[4])]);
        add_query_block(&mut list, &format!("{prefix}qformer.encoder.layer.0."));
    }
    list
}

#[test]
fn projectors_have_the_order_of_the_blocks_that_take_their_outputs() {
    let dir = tempfile::tempdir().unwrap();
    let list = with_projectors(&["layerwise_projectors.0", "spatial_projectors.0"]);
    write(dir.path(), WITH_PROJECTORS, &list);
    let conversion = plan(dir.path(), &options()).unwrap();
    let tensors = conversion.plan.tensors();
    for (name, expected) in [
        ("v.proj_blk.0.query", "model.spatial_projectors.0.query"),
        ("v.proj_blk.1.query", "model.layerwise_projectors.0.query"),
        (
            "v.proj_blk.1.cross_attn_k.bias",
            "model.layerwise_projectors.0.qformer.encoder.layer.0.crossattention.attention.key.bias",
        ),
    ] {
        let tensor = tensors.iter().find(|tensor| tensor.shown() == name).unwrap();
        assert_eq!(&*tensor.op.inputs()[0].name, expected);
    }
    assert_eq!(tensors.len(), list.len());
    for (projectors, expected) in [
        (&["layerwise_projectors.0"][..], "which becomes v.proj_blk.0.img_pos, is missing"),
        (&["layerwise_projectors.0", "spatial_projectors.0", "spatial_projectors.1"], "\"model.spatial_projectors.1."),
    ] {
        write(dir.path(), WITH_PROJECTORS, &with_projectors(projectors));
        let error = plan(dir.path(), &options()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\nexpected: {expected}");
    }
}

/// Granite Speech with one block.
const SPEECH: &str = r#"{"architectures": ["GraniteSpeechForConditionalGeneration"], "model_type": "unheard", "text_config": {"hidden_size": 6},
    "encoder_config": {"hidden_dim": 4, "feedforward_mult": 2, "num_heads": 2, "num_layers": 1, "input_dim": 8, "context_size": 4,
    "conv_kernel_size": 3, "max_pos_emb": 4}, "projector_config": {"num_attention_heads": 2}, "window_size": 3, "downsample_rate": 1}"#;

fn speech() -> Vec<(String, Vec<u64>)> {
    let block = "encoder.layers.0.";
    let mut list = vec![
        ("projector.query".to_owned(), vec![1, 3, 4]),
        (format!("{block}attn.to_q.weight"), vec![4, 4]),
        (format!("{block}attn.to_kv.weight"), vec![8, 4]),
        (format!("{block}attn.rel_pos_emb.weight"), vec![9, 2]),
        (format!("{block}conv.depth_conv.conv.weight"), vec![8, 1, 3]),
        (format!("{block}conv.batch_norm.running_mean"), vec![4]),
        (format!("{block}conv.batch_norm.running_var"), vec![4]),
    ];
    add_linear(&mut list, "encoder.", &[("input_linear", &[4, 8]), ("out", &[5, 4]), ("out_mid", &[4, 5])]);
    add_linear(&mut list, "projector.", &[("linear", &[6, 4]), ("qformer.layernorm", &[4])]);
    for half in ["ff1.", "ff2."] {
        let names: &[(&str, &[u64])] = &[("pre_norm", &[4]), ("up_proj", &[8, 4]), ("down_proj", &[4, 8])];
        add_linear(&mut list, &format!("{block}{half}"), names);
    }
    let names: &[(&str, &[u64])] = &[
        ("attn.pre_norm", &[4]),
        ("attn.to_out", &[4, 4]),
        ("post_norm", &[4]),
        ("conv.norm", &[4]),
        ("conv.up_conv", &[16, 4, 1]),
        ("conv.down_conv", &[4, 8, 1]),
        ("conv.batch_norm", &[4]),
    ];
    add_linear(&mut list, block, names);
    for n in 0..2 {
        add_query_block(&mut list, &format!("projector.qformer.encoder.layer.{n}."));
    }
    list
}

#[test]
fn batch_norms_are_folded() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), SPEECH, &speech());
    let conversion = plan(dir.path(), &options()).unwrap();
    for (name, expected) in [
        ("a.blk.0.conv_norm.weight", &["weight", "running_var"][..]),
        ("a.blk.0.conv_norm.bias", &["weight", "running_var", "bias", "running_mean"]),
    ] {
        let tensor = conversion.plan.tensors().iter().find(|tensor| tensor.shown() == name).unwrap();
        let Op::BatchNorm(norm) = &tensor.op else { panic!("{:?}", tensor.op) };
        let BatchNorm { inputs, eps } = &**norm;
        let found: Vec<&str> = inputs.iter().map(|input| input.name.rsplit('.').next().unwrap()).collect();
        assert_eq!((found.as_slice(), *eps, &*tensor.shape), (expected, 1e-5, &[4][..]));
    }
    let mut long = speech();
    for (name, shape) in &mut long {
        if name.ends_with("running_mean") {
            *shape = vec![5];
        }
    }
    let without = speech().into_iter().filter(|(name, _)| !name.ends_with("running_var")).collect();
    for (list, expected) in [(long, "running_mean"), (without, "a.blk.0.conv_norm.weight")] {
        write(dir.path(), SPEECH, &list);
        let error = plan(dir.path(), &options()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\nexpected: {expected}");
    }
}

#[test]
fn a_name_keeps_its_second_number() {
    let config = r#"{"architectures": ["Gemma3nForConditionalGeneration"], "model_type": "unheard", "text_config": {"hidden_size": 6},
        "vision_config": {"hidden_size": 4}, "audio_config": {"hidden_size": 4, "conf_num_hidden_layers": 0,
        "conf_num_attention_heads": 2, "input_feat_size": 8}}"#;
    let tower = "model.vision_tower.timm_model";
    let mut tensors =
        vec![("model.audio_tower.subsample_conv_projection.input_proj_linear.weight".to_owned(), vec![4, 4])];
    for (name, shape) in [
        ("conv_stem.conv", &[4, 3, 3, 3][..]),
        ("conv_stem.bn", &[4]),
        ("msfa.ffn.pw_exp.conv", &[8, 4, 1, 1]),
        ("msfa.ffn.pw_exp.bn", &[8]),
        ("msfa.ffn.pw_proj.conv", &[4, 8, 1, 1]),
        ("msfa.ffn.pw_proj.bn", &[4]),
        ("msfa.norm", &[4]),
        ("blocks.2.0.norm", &[4]),
        ("blocks.2.10.norm", &[4]),
    ] {
        tensors.push((format!("{tower}.{name}.weight"), shape.to_vec()));
    }
    tensors.push(("model.embed_vision.embedding_projection.weight".to_owned(), vec![6, 4]));
    tensors.push(("model.embed_vision.soft_embedding_norm.weight".to_owned(), vec![4]));
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), config, &tensors);
    let names: Vec<_> = plan(dir.path(), &options()).unwrap().plan.tensors().iter().map(|t| t.shown()).collect();
    assert!(names.iter().any(|name| name == "v.blk.2.0.norm.weight"), "{names:?}");
    assert!(names.iter().any(|name| name == "v.blk.2.10.norm.weight"), "{names:?}");
    tensors.push((format!("{tower}.blocks.2.01.norm.weight"), vec![4]));
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), config, &tensors);
    let error = plan(dir.path(), &options()).unwrap_err().to_string();
    assert!(error.contains("blocks.2.01.norm.weight\" has no place"), "{error}");
}
