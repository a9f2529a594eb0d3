//! Conversions are planned as the reference does.

use super::*;
use crate::dtype::Dtype;
use crate::model_plan::OutType;
use gguf_format::{GgmlType, Value};
use gguf_pipeline::moves::Axis;
use gguf_pipeline::plan::Op;
use serde_json::{Value as Json, json};

mod hooks;

fn config(extra: Json) -> Config {
    let mut document = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
        "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 768,
    });
    for (name, value) in extra.as_object().unwrap() {
        document[name] = value.clone();
    }
    Config::new(document).unwrap()
}

/// The plan for selected tensors of a checkpoint.
fn draft(config: &Config, sources: &[SourceTensor], ty: OutType) -> Result<ModelPlan, PlanError> {
    plan_parts(
        config,
        sources,
        super::Stored { asked: ty, ty: ty.resolve(sources), file_type: None, as_q8: &[] },
        Scope::Parts,
    )
}

fn source(name: &str, dtype: Dtype, shape: &[u64]) -> SourceTensor {
    SourceTensor { name: name.to_owned(), dtype, shape: shape.to_vec() }
}

fn keys(extra: Json) -> Vec<(String, Value)> {
    let plan = draft(&config(extra), &[], OutType::BF16).unwrap();
    plan.parameters
}

fn common() -> Vec<(&'static str, Value)> {
    vec![
        ("llama.block_count", 2u32.into()),
        ("llama.context_length", 2048u32.into()),
        ("llama.embedding_length", 64u32.into()),
        ("llama.feed_forward_length", 96u32.into()),
        ("llama.attention.head_count", 4u32.into()),
        ("llama.attention.head_count_kv", 2u32.into()),
        ("llama.rope.freq_base", 10000f32.into()),
        ("llama.attention.layer_norm_rms_epsilon", 1e-6f32.into()),
        ("llama.attention.key_length", 16u32.into()),
        ("llama.attention.value_length", 16u32.into()),
        ("general.file_type", 32u32.into()),
        ("llama.vocab_size", 768u32.into()),
        ("llama.rope.dimension_count", 16u32.into()),
    ]
}

fn expect(extra: Json, changes: &[(usize, &'static str, Value)]) {
    let mut expected = common();
    for (at, key, value) in changes {
        expected.insert(*at, (key, value.clone()));
    }
    let expected: Vec<_> = expected.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    assert_eq!(keys(extra.clone()), expected, "{extra}");
}

#[test]
fn keys_and_their_order() {
    expect(json!({}), &[]);
    expect(
        json!({"rope_scaling": {"type": "linear", "factor": 4}}),
        &[(6, "llama.rope.scaling.type", "linear".into()), (7, "llama.rope.scaling.factor", 4f32.into())],
    );
    let yarn = json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512,
        "attention_factor": 1.2, "beta_fast": 32, "beta_slow": 1.0});
    expect(
        json!({ "rope_scaling": yarn }),
        &[
            (6, "llama.rope.scaling.type", "yarn".into()),
            (7, "llama.rope.scaling.factor", 4f32.into()),
            (8, "llama.rope.scaling.original_context_length", 512u32.into()),
            (9, "llama.rope.scaling.yarn_attn_factor", 1.2f32.into()),
            (10, "llama.rope.scaling.yarn_beta_fast", 32f32.into()),
            (11, "llama.rope.scaling.yarn_beta_slow", 1f32.into()),
        ],
    );
    // Without a factor nothing is scaled; other kinds have no keys.
    expect(json!({"rope_scaling": {"rope_type": "linear", "factor": null}}), &[]);
    let llama3 = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 512});
    expect(json!({ "rope_scaling": llama3 }), &[]);
    // The newer layout nests the base.
    expect(json!({"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "rope_theta": 5.0}), &[]);
    expect(json!({"is_causal": false}), &[(6, "llama.attention.causal", false.into())]);
}

#[test]
fn mistral_has_no_head_length_and_no_window() {
    let c = config(json!({"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 128}));
    let keys: Vec<_> = draft(&c, &[], OutType::F16).unwrap().parameters.into_iter().map(|(k, _)| k).collect();
    assert!(!keys.iter().any(|k| k.contains("key_length") || k.contains("sliding")), "{keys:?}");
    assert_eq!(keys.last().map(String::as_str), Some("llama.rope.dimension_count"));
}

#[test]
fn tensors_keep_their_order_and_get_name_type_and_operation() {
    let bf16 = Dtype::BF16;
    let sources = [
        source("lm_head.weight", bf16, &[768, 64]),
        source("model.layers.0.self_attn.rotary_emb.inv_freq", Dtype::F32, &[8]),
        source("model.layers.1.self_attn.k_proj.weight", bf16, &[32, 64]),
        source("model.layers.1.self_attn.q_proj.bias", Dtype::F32, &[64]),
        source("model.norm.weight", bf16, &[64]),
    ];
    let plan = draft(&config(json!({})), &sources, OutType::Auto).unwrap();
    let rows: Vec<_> = plan.tensors.iter().map(|t| (t.shown(), t.shape.to_vec(), t.ty)).collect();
    assert_eq!(
        rows,
        [
            ("output.weight".to_owned(), vec![64, 768], GgmlType::BF16),
            ("blk.1.attn_k.weight".to_owned(), vec![64, 32], GgmlType::BF16),
            ("blk.1.attn_q.bias".to_owned(), vec![64], GgmlType::F32),
            ("output_norm.weight".to_owned(), vec![64], GgmlType::F32),
        ]
    );
    // Heads of 16 rows: the rows of the two halves of 8 are interleaved.
    let Op::Gather(gather) = &plan.tensors[1].op else { panic!("{:?}", plan.tensors[1].op) };
    let axis = |count, from, to| Axis { count, from, to };
    assert_eq!(gather.moves.len(), 1);
    let row = 64;
    let axes = vec![axis(2, 16 * row, 16 * row), axis(8, row, 2 * row), axis(2, 8 * row, row), axis(64, 1, 1)];
    assert_eq!(gather.moves[0].axes, axes);
    assert_eq!(plan.skipped.len(), 1);
    assert_eq!(plan.tensors[1].op.inputs()[0].index(), 2);
}

#[test]
fn what_cannot_be_planned_is_named() {
    let f16 = Dtype::F16;
    let i32 = Dtype::from_name("I32").unwrap();
    let cases: &[(Json, &[SourceTensor], &str)] = &[
        (
            json!({"architectures": ["PersimmonForCausalLM"]}),
            &[],
            "\"PersimmonForCausalLM\" is not supported; the nearest supported are ",
        ),
        (json!({"architectures": []}), &[], "architectures is [], expected a list"),
        (json!({"vocab_size": null}), &[], "vocab_size"),
        (json!({"rope_scaling": {"rope_type": "yarn", "factor": 2}}), &[], "original_max_position_embeddings"),
        (json!({"rope_scaling": [1]}), &[], "rope_scaling is [1]"),
        (json!({"rope_scaling": {"type": 7}}), &[], "rope_scaling.type is 7, expected a string"),
        (json!({}), &[source("model.layers.2.mlp.up_proj.weight", f16, &[2, 2])], "model.layers.2.mlp.up_proj.weight"),
        (json!({}), &[source("model.embed.weight", f16, &[2, 2])], "no place in the architecture llama with 2 blocks"),
        (
            json!({}),
            &["model.layers.2.x.weight", "model.layers.3.x.weight", "y"].map(|name| source(name, f16, &[2, 2])),
            "3 tensors have no place in the architecture llama with 2 blocks: \"model.layers.*.x.weight\" (2 tensors), \"y\"; ",
        ),
        (json!({}), &[source("lm_head.weight", i32, &[2, 2])], "format I32"),
        (
            json!({}),
            &[source("model.layers.0.self_attn.q_proj.weight", f16, &[60, 64])],
            "a multiple of 8 (h × two × i) in dimension 0",
        ),
        (json!({}), &[source("lm_head.weight", f16, &[2]), source("lm_head.weight", f16, &[2])], "output.weight"),
    ];
    for (extra, sources, expected) in cases {
        let error = draft(&config(extra.clone()), sources, OutType::Auto).unwrap_err().to_string();
        assert!(error.contains(expected), "{extra}: {error}");
    }
}

#[test]
fn factors_of_llama_3() {
    // The reference's values: stretched by 32 with 16 elements per head and by 8 with 128, including the interpolation.
    let cases: &[(u32, f64, usize, &[u32])] = &[
        (16, 32.0, 4, &[0x4052_b46f]),
        (128, 8.0, 29, &[0x3f9a_8ed5, 0x3fc6_d64a, 0x4001_af1d, 0x402c_732e, 0x406b_cace, 0x40a8_3c06]),
    ];
    for &(head_dim, factor, n_short, passage) in cases {
        let rope = json!({"rope_type": "llama3", "factor": factor, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
            "original_max_position_embeddings": 8192});
        let c = config(json!({"rope_scaling": rope, "rope_theta": 500000.0, "head_dim": head_dim}));
        let plan = draft(&c, &[], OutType::Auto).unwrap();
        let first = &plan.tensors[0];
        assert_eq!((first.shown().as_str(), first.ty), ("rope_freqs.weight", GgmlType::F32));
        let Op::Computed(factors) = &first.op else { panic!("{first:?}") };
        let mut expected = vec![1f32.to_bits(); n_short];
        expected.extend(passage);
        expected.resize(head_dim as usize / 2, (factor as f32).to_bits());
        assert_eq!(factors.iter().map(|f| f.to_bits()).collect::<Vec<_>>(), expected, "{factors:?}");
    }
}

#[test]
fn the_default_factor_of_llama_3_depends_on_the_class() {
    let rope = json!({"rope_type": "llama3"});
    for (class, kind, expected) in [
        ("LlamaForCausalLM", "llama", 8f32),
        ("Exaone4ForCausalLM", "exaone4", 16.0),
        ("ExaoneMoEForCausalLM", "", 16.0),
    ] {
        let fields = json!({"architectures": [class], "model_type": kind, "rope_scaling": rope, "head_dim": 128,
            "moe_intermediate_size": 8, "num_shared_experts": 1, "routed_scaling_factor": 1.0, "norm_topk_prob": true,
            "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "max_position_embeddings": 64, "num_experts": 2,
            "num_experts_per_tok": 1});
        let plan = draft(&config(fields), &[], OutType::Auto).unwrap();
        let Op::Computed(factors) = &plan.tensors[0].op else { panic!("{:?}", plan.tensors[0]) };
        assert_eq!(factors.last(), Some(&expected), "{class}");
        let n_mtp = plan.parameters.iter().find(|(key, _)| key == "exaone-moe.nextn_predict_layers");
        assert_eq!(n_mtp.map(|(_, n)| n.clone()), kind.is_empty().then(|| Value::from(0u32)), "{class}");
    }
}

#[test]
fn mtp_blocks_of_exaone_that_the_configuration_does_not_have_are_omitted() {
    let sources = [
        source("mtp.fc.weight", Dtype::F16, &[64, 128]),
        source("mtp.layers.0.self_attn.q_norm.weight", Dtype::F16, &[16]),
        source("model.layers.0.self_attn.q_norm.weight", Dtype::F16, &[16]),
    ];
    let planned = |n: Json| {
        let fields = json!({"architectures": ["Exaone4_5_ForConditionalGeneration"], "model_type": "", "head_dim": 16,
            "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "max_position_embeddings": 64, "num_nextn_predict_layers": n});
        let plan = draft(&config(fields), &sources, OutType::Auto).unwrap();
        let skipped: Vec<String> = plan.skipped.iter().map(|skipped| skipped.name.clone()).collect();
        let blocks = plan.parameters.iter().find(|(key, _)| key == "exaone4.block_count").unwrap().1.clone();
        (plan.tensors.iter().map(|t| t.shown()).collect::<Vec<_>>(), skipped, blocks)
    };
    let (tensors, skipped, blocks) = planned(json!(0));
    assert_eq!(tensors, ["blk.0.attn_q_norm.weight"]);
    assert_eq!(skipped, ["mtp.fc.weight", "mtp.layers.0.self_attn.q_norm.weight"]);
    assert_eq!(blocks, Value::from(2u32));
    assert_eq!(planned(Json::Null), (tensors, skipped, blocks));

    let (tensors, skipped, blocks) = planned(json!(1));
    assert_eq!(tensors, ["blk.2.nextn.eh_proj.weight", "blk.2.attn_q_norm.weight", "blk.0.attn_q_norm.weight"]);
    assert_eq!((skipped, blocks), (vec![], Value::from(3u32)));
}

#[test]
fn unknown_scaling_is_warned_about() {
    let plan =
        draft(&config(json!({"rope_scaling": {"rope_type": "other", "factor": 2}})), &[], OutType::Auto).unwrap();
    assert!(plan.warnings[0].to_string().contains("\"other\""), "{:?}", plan.warnings);
    assert!(!plan.parameters.iter().any(|(k, _)| k.contains("scaling")));
}

#[test]
fn names_with_and_without_their_root_are_told_apart() {
    let c = config(json!({"architectures": ["Sarashina2VisionForCausalLM"], "model_type": "sarashina2_vision"}));
    let sources = [source("llm.model.norm.weight", Dtype::BF16, &[64]), source("norm.weight", Dtype::BF16, &[64])];
    let plan = draft(&c, &sources, OutType::Auto).unwrap();
    assert_eq!(plan.tensors.iter().map(|t| t.shown()).collect::<Vec<_>>(), ["output_norm.weight"]);
    assert_eq!(plan.skipped.len(), 1);
}

#[test]
fn latent_attention_has_the_shapes_of_its_keys() {
    let c = config(json!({"architectures": ["MiniCPM3ForCausalLM"], "model_type": "minicpm3", "q_lora_rank": 24,
        "kv_lora_rank": 40, "qk_nope_head_dim": 8, "qk_rope_head_dim": 16, "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5}));
    let attention =
        |name: &str, shape: &[u64]| source(&format!("model.layers.1.self_attn.{name}.weight"), Dtype::BF16, shape);
    // Heads have 8 + 16 elements in keys and 64 / 4 in values.
    for (name, good, bad) in [
        ("q_b_proj", [96, 24], [64, 24]),
        ("kv_a_proj_with_mqa", [56, 64], [40, 64]),
        ("kv_b_proj", [96, 40], [128, 40]),
        ("o_proj", [64, 64], [64, 96]),
    ] {
        assert_eq!(draft(&c, &[attention(name, &good)], OutType::Auto).unwrap().tensors.len(), 1, "{name}");
        let error = draft(&c, &[attention(name, &bad)], OutType::Auto).unwrap_err();
        assert!(matches!(error, PlanError::Shape { .. }), "{name}: {error}");
    }
}

#[test]
fn every_nth_block_has_experts() {
    let c = config(json!({"architectures": ["Llama4ForCausalLM"], "model_type": "llama4_text", "num_hidden_layers": 3,
        "intermediate_size": 32, "intermediate_size_mlp": 96, "interleave_moe_layer_step": 3, "num_local_experts": 2}));
    let error = plan(&c, &[], OutType::Auto).unwrap_err();
    assert!(matches!(error, PlanError::Missing { .. }), "{error}");
    let name = |block: u64, rest: &str| format!("model.layers.{block}.{rest}");
    let sources = [
        source(&name(2, "feed_forward.experts.gate_up_proj"), Dtype::BF16, &[2, 64, 64]),
        source(&name(2, "feed_forward.experts.down_proj"), Dtype::BF16, &[2, 32, 64]),
    ];
    let shapes: Vec<_> = draft(&c, &sources, OutType::Auto).unwrap().tensors;
    let shapes: Vec<_> = shapes.iter().map(|t| (t.shown(), t.shape.to_vec())).collect();
    let expected = [("gate", [64, 32, 2]), ("up", [64, 32, 2]), ("down", [32, 64, 2])];
    assert_eq!(shapes, expected.map(|(name, shape)| (format!("blk.2.ffn_{name}_exps.weight"), shape.to_vec())));
}

/// Names, shapes and types of the output tensors.
fn outputs(config: Json, sources: &[SourceTensor]) -> Vec<(String, Vec<u64>, GgmlType)> {
    let plan = draft(&Config::new(config).unwrap(), sources, OutType::F16).unwrap();
    plan.tensors.iter().map(|t| (t.shown(), t.shape.to_vec(), t.ty)).collect()
}

#[test]
fn what_a_matrix_becomes_depends_on_the_experts() {
    let config = |experts: u32| {
        json!({"architectures": ["GraniteMoeSharedForCausalLM"], "hidden_size": 8, "intermediate_size": 6,
            "shared_intermediate_size": 6, "num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 1,
            "num_local_experts": experts, "vocab_size": 16})
    };
    let sources = [
        source("model.layers.0.shared_mlp.input_linear.weight", Dtype::F16, &[12, 8]),
        source("model.layers.0.shared_mlp.output_linear.weight", Dtype::F16, &[8, 6]),
    ];
    for (experts, suffix) in [(0, ""), (4, "_shexp")] {
        let expected: Vec<_> = [("gate", [8, 6]), ("up", [8, 6]), ("down", [6, 8])]
            .map(|(name, shape)| (format!("blk.0.ffn_{name}{suffix}.weight"), shape.to_vec(), GgmlType::F16))
            .into();
        assert_eq!(outputs(config(experts), &sources), expected, "{experts} experts");
    }
}

#[test]
fn dbrx_has_no_precise_matrices() {
    let config = json!({"architectures": ["DbrxForCausalLM"], "d_model": 8, "n_heads": 2, "n_layers": 1, "max_seq_len": 16,
        "attn_config": {"kv_n_heads": 1, "rope_theta": 1e4, "clip_qkv": 8},
        "ffn_config": {"ffn_hidden_size": 4, "moe_num_experts": 3, "moe_top_k": 1}});
    let sources = [
        source("transformer.blocks.0.ffn.router.layer.weight", Dtype::BF16, &[3, 8]),
        source("transformer.blocks.0.ffn.experts.mlp.w2", Dtype::BF16, &[12, 8]),
        source("transformer.blocks.0.norm_attn_norm.norm_1.weight", Dtype::BF16, &[8]),
    ];
    let expected = [
        ("blk.0.ffn_gate_inp.weight".to_owned(), vec![8, 3], GgmlType::F16),
        ("blk.0.ffn_down_exps.weight".to_owned(), vec![4, 8, 3], GgmlType::F16),
        ("blk.0.attn_norm.weight".to_owned(), vec![8], GgmlType::F32),
    ];
    assert_eq!(outputs(config, &sources), expected);
}

#[test]
fn features_of_images_come_in_at_the_blocks_that_the_configuration_names() {
    let mut config = json!({"architectures": ["GraniteForCausalLM"], "hidden_size": 8, "num_attention_heads": 2,
        "num_hidden_layers": 6, "vocab_size": 16});
    let key = |config: &Json| {
        let plan = draft(&Config::new(config.clone()).unwrap(), &[], OutType::F16).unwrap();
        plan.parameters.into_iter().find(|(key, _)| key == "granite.deepstack_mapping").map(|(_, value)| value)
    };
    assert_eq!(key(&config), None);
    config["deepstack_layer_map"] = json!([[-2, 0], [1, -3]]);
    assert_eq!(key(&config), Some(vec![-1, -1, -1, 1, -1, -1].into()));
    config["spatial_target_layers"] = json!([1, 4]);
    assert_eq!(key(&config), Some(vec![-1, 1, -1, 2, 3, -1].into()));
}

#[test]
fn other_gates_of_spark_are_refused() {
    let config = |act: &str| {
        Config::new(json!({"architectures": ["Spark2_5ForCausalLM"], "hidden_size": 8, "head_dim": 4, "num_attention_heads": 2,
            "num_hidden_layers": 2, "vocab_size": 16, "sliding_window": 4, "hidden_act": act, "gate_attn_act_mode": "sigmoid",
            "headwise_attn_output_gate": true, "layer_types": ["sliding_attention", "full_attention"],
            "rope_parameters": {"full_attention": {"rope_theta": 1e6, "partial_rotary_factor": 0.5},
                "sliding_attention": {"rope_theta": 1e4, "partial_rotary_factor": 1.0}}}))
        .unwrap()
    };
    let plan = draft(&config("gelu"), &[], OutType::F16).unwrap();
    let last = plan.parameters[plan.parameters.len() - 3..].to_vec();
    assert_eq!(
        last,
        [
            ("spark2_5.attention.sliding_window_pattern".to_owned(), vec![true, false].into()),
            ("spark2_5.rope.dimension_count".to_owned(), 2u32.into()),
            ("spark2_5.rope.dimension_count_swa".to_owned(), 4u32.into()),
        ]
    );
    let error = draft(&config("silu"), &[], OutType::F16).unwrap_err().to_string();
    assert!(error.contains("hidden_act"), "{error}");
}

/// Name and shape of each output tensor, and the offset of its first element in its first source.
fn sliced_outputs(plan: &ModelPlan) -> Vec<(String, Vec<u64>, u64)> {
    let first = |op: &Op| match op {
        Op::Gather(gather) => gather.moves[0].from,
        _ => 0,
    };
    plan.tensors.iter().map(|t| (t.shown(), t.shape.to_vec(), first(&t.op))).collect()
}

#[test]
fn a_matrix_of_queries_keys_and_values_is_split() {
    let c =
        config(json!({"architectures": ["BaiChuanForCausalLM"], "model_type": "baichuan", "num_key_value_heads": 4}));
    let sources = [source("model.layers.1.self_attn.W_pack.weight", Dtype::BF16, &[192, 64])];
    let plan = draft(&c, &sources, OutType::Auto).unwrap();
    let part = |name: &str, row: u64| (format!("blk.1.{name}.weight"), vec![64, 64], row * 64);
    assert_eq!(sliced_outputs(&plan), [part("attn_q", 0), part("attn_k", 64), part("attn_v", 128)]);
    // Queries and keys have four heads of two halves; values are unchanged.
    let axes = |i: usize| match &plan.tensors[i].op {
        Op::Gather(gather) => gather.moves[0].axes.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(axes(0), axes(1));
    assert_eq!(axes(0).iter().map(|axis| axis.count).collect::<Vec<_>>(), [4, 8, 2, 64]);
    assert!(axes(2).iter().all(|axis| axis.from == axis.to));
}

#[test]
fn norms_of_heads_are_stacked() {
    let c = config(
        json!({"architectures": ["StableLmForCausalLM"], "model_type": "stablelm", "partial_rotary_factor": 0.5}),
    );
    let norm = |kind: &str, head: u64| {
        source(&format!("model.layers.0.self_attn.{kind}_layernorm.norms.{head}.weight"), Dtype::BF16, &[16])
    };
    let mut sources: Vec<_> = (0..4).rev().map(|head| norm("q", head)).collect();
    sources.extend((0..2).map(|head| norm("k", head)));
    let plan = draft(&c, &sources, OutType::Auto).unwrap();
    let shapes = [
        ("blk.0.attn_q_norm.weight".to_owned(), vec![16, 4], 0),
        ("blk.0.attn_k_norm.weight".to_owned(), vec![16, 2], 0),
    ];
    assert_eq!(sliced_outputs(&plan), shapes);
    assert_eq!(plan.tensors[0].op.inputs().iter().map(|input| input.index()).collect::<Vec<_>>(), [3, 2, 1, 0]);
    sources.remove(0);
    let error = draft(&c, &sources, OutType::Auto).unwrap_err().to_string();
    assert!(error.contains("attn_q_norm"), "{error}");
}

#[test]
fn heads_of_keys_in_falcon() {
    let cases = [
        (json!({"multi_query": true, "num_kv_heads": 4}), 1),
        (json!({"multi_query": true}), 1),
        (json!({"multi_query": true, "new_decoder_architecture": true, "num_kv_heads": 2}), 2),
        (json!({"multi_query": false, "num_kv_heads": 4}), 4),
        // Older names that transformers does not use.
        (json!({"model_type": "RefinedWeb", "num_attention_heads": null, "n_head": 4, "n_head_kv": 2}), 2),
        (json!({"model_type": "RefinedWebModel", "num_attention_heads": null, "n_head": 4, "multi_query": true}), 1),
    ];
    for (extra, expected) in cases {
        let mut all =
            json!({"architectures": ["FalconForCausalLM"], "model_type": "falcon", "layer_norm_epsilon": 1e-5});
        for (name, value) in extra.as_object().unwrap() {
            all[name] = value.clone();
        }
        let found = keys(all).into_iter().find(|(key, _)| key == "falcon.attention.head_count_kv");
        assert_eq!(found.map(|(_, n)| n), Some(Value::from(expected as u32)), "{extra}");
    }
}

#[test]
fn an_encoder_and_a_decoder_have_blocks_of_their_own() {
    let c = config(json!({
        "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 8, "hidden_size": 8, "encoder_layers": 1,
        "decoder_layers": 3, "num_hidden_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
        "max_source_positions": 10, "max_target_positions": 6, "num_mel_bins": 4,
    }));
    let f32 = Dtype::F32;
    let sources = [
        source("model.decoder.layers.2.encoder_attn.q_proj.weight", f32, &[8, 8]),
        source("model.decoder.layers.2.self_attn.q_proj.bias", f32, &[8]),
        source("model.encoder.conv1.weight", f32, &[8, 4, 3]),
        source("model.encoder.layers.0.self_attn.q_proj.weight", f32, &[8, 8]),
    ];
    let names: Vec<_> = draft(&c, &sources, OutType::F16).unwrap().tensors.iter().map(|t| t.shown()).collect();
    let expected =
        ["dec.blk.2.cross_attn_q.weight", "dec.blk.2.attn_q.bias", "enc.conv1d.1.weight", "enc.blk.0.attn_q.weight"];
    assert_eq!(names, expected);
    for (name, expected) in [
        ("model.encoder.layers.1.self_attn.q_proj.weight", "has no place"),
        ("model.decoder.layers.3.self_attn.q_proj.weight", "has no place"),
        ("model.encoder.layers.0.encoder_attn.q_proj.weight", "has no place"),
    ] {
        let error = draft(&c, &[source(name, f32, &[8, 8])], OutType::F16).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
}

/// Names and shapes of the outputs from tensors of block 1.
fn planned(c: &Config, sources: &[(&str, &[u64])]) -> Vec<(String, Vec<u64>)> {
    let sources: Vec<_> = sources.iter().map(|(name, shape)| source(name, Dtype::BF16, shape)).collect();
    let plan = draft(c, &sources, OutType::Auto).unwrap();
    plan.tensors.iter().map(|t| (t.shown(), t.shape.to_vec())).collect()
}

#[test]
fn matrices_in_one_are_taken_apart() {
    let c = config(json!({"architectures": ["Ernie4_5ForCausalLM"], "model_type": "ernie4_5", "head_dim": 8}));
    let found = planned(
        &c,
        &[
            ("ernie.layers.1.self_attn.qkv_proj.weight", &[64, 64]),
            ("ernie.layers.1.self_attn.qkv_proj.bias", &[64]),
            ("ernie.layers.1.mlp.up_gate_proj.weight", &[192, 64]),
        ],
    );
    let expected = [
        ("attn_q.weight", vec![64, 32]),
        ("attn_k.weight", vec![64, 16]),
        ("attn_v.weight", vec![64, 16]),
        ("attn_q.bias", vec![32]),
        ("attn_k.bias", vec![16]),
        ("attn_v.bias", vec![16]),
        ("ffn_gate.weight", vec![64, 96]),
        ("ffn_up.weight", vec![64, 96]),
    ];
    assert_eq!(found, expected.map(|(name, shape)| (format!("blk.1.{name}"), shape)));
}

#[test]
fn weights_for_images_in_the_blocks_are_kept() {
    let c = config(json!({"architectures": ["CogVLMForCausalLM"], "model_type": "cogvlm", "num_key_value_heads": 4,
        "max_position_embeddings": 512, "rms_norm_eps": 1e-5}));
    let found = planned(
        &c,
        &[
            ("model.layers.1.mlp.vision_mlp.up_proj.weight", &[96, 64]),
            ("model.layers.1.self_attn.vision_expert_dense.weight", &[64, 64]),
            ("model.vision.boi", &[1, 1, 8]),
        ],
    );
    let expected = [("vis_up", vec![64, 96]), ("vis_attn_output", vec![64, 64])];
    assert_eq!(found, expected.map(|(name, shape)| (format!("blk.1.{name}.weight"), shape)));
}

#[test]
fn a_classifier_has_its_name_from_its_labels() {
    for (labels, expected) in [
        (json!({"10": "c", "9": "b", "0": "a"}), "cls.output.weight"),
        (json!({"0": "LABEL_0", "1": "LABEL_1"}), "cls.weight"),
    ] {
        let n = labels.as_object().unwrap().len() as u64;
        let c = config(json!({"architectures": ["ModernBertForSequenceClassification"], "model_type": "modernbert",
            "id2label": labels, "hidden_size": n}));
        let found = planned(&c, &[("classifier.weight", &[n, n])]);
        assert_eq!(found, [(expected.to_owned(), vec![n, n])]);
        let parameters = draft(&c, &[], OutType::Auto).unwrap().parameters;
        let labels = parameters.iter().find(|(key, _)| key == "modern-bert.classifier.output_labels");
        let expected = (n == 3).then(|| Value::from(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]));
        assert_eq!(labels.map(|(_, value)| value), expected.as_ref());
    }
}

#[test]
fn what_has_to_be_zero_is_left_out() {
    let c = config(json!({"architectures": ["Cohere2ForCausalLM"], "model_type": "cohere2"}));
    let sources = [
        source("model.norm.bias", Dtype::BF16, &[64]),
        source("model.norm.weight", Dtype::BF16, &[64]),
        source("model.layers.1.input_layernorm.bias", Dtype::BF16, &[64]),
    ];
    let plan = draft(&c, &sources, OutType::Auto).unwrap();
    assert_eq!((plan.zero.as_slice(), plan.tensors.len()), (&[0, 2][..], 1));
}

#[test]
fn scaled_attention_comes_first() {
    let ones = [1.0; 8];
    let rope = json!({"type": "longrope", "long_factor": ones, "short_factor": ones});
    let c = config(
        json!({"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "rope_scaling": rope, "pad_token_id": 0,
        "max_position_embeddings": 2048, "original_max_position_embeddings": 512}),
    );
    let plan = draft(&c, &[], OutType::Auto).unwrap();
    // The square root of 1 + ln(4) / ln(512).
    let expected = [("phi3.rope.scaling.attn_factor".to_owned(), Value::from((11f64 / 9.0).sqrt() as f32))];
    assert_eq!(plan.early, expected);
    let names: Vec<_> = plan.tensors.iter().map(|t| t.shown()).collect();
    assert_eq!(names, ["rope_factors_long.weight", "rope_factors_short.weight"]);
    // The reference derives the factor with the lists, which a file without tensors does not have.
    let stored = Stored { asked: OutType::Auto, ty: GgmlType::F16, file_type: None, as_q8: &[] };
    let plan = plan_parts(&c, &[], stored, Scope::Keys).unwrap();
    assert_eq!((plan.early, plan.tensors), (Vec::new(), Vec::new()));
    let original = ("phi3.rope.scaling.original_context_length".to_owned(), Value::U32(512));
    assert!(plan.parameters.contains(&original));
}

#[test]
fn queries_keys_and_values_have_to_be_there_in_one_matrix_or_three() {
    let phi3 = json!({"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "rms_norm_eps": 1e-5,
        "num_hidden_layers": 1, "max_position_embeddings": 64, "original_max_position_embeddings": 64});
    let gptneox = json!({"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "num_hidden_layers": 1});
    let name = |rest: &str| source(&format!("model.layers.0.{rest}.weight"), Dtype::BF16, &[64]);
    let sources = ["input_layernorm", "post_attention_layernorm"].map(name);
    let error = plan(&config(phi3), &sources, OutType::Auto).unwrap_err();
    assert!(matches!(error, PlanError::Missing { .. }), "{error}");
    assert!(matches!(plan(&config(gptneox), &[], OutType::Auto), Err(PlanError::Missing { .. })));
}

#[test]
fn empty_text_is_no_number() {
    for field in ["rms_norm_eps", "rope_theta", "max_position_embeddings", "hidden_size"] {
        let c = config(
            json!({"architectures": ["MiniCPMForCausalLM"], "model_type": "else", "rms_norm_eps": 1e-5, field: ""}),
        );
        let error = draft(&c, &[], OutType::Auto).unwrap_err();
        assert!(matches!(error, PlanError::Config(_)), "{field}: {error}");
    }
}
