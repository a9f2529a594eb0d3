//! Encoders and recurrent models, whose tables use special features of the engine.

use gguf_pipeline::plan::Elementwise;

use super::*;

/// Names, shapes and value operations.
fn outputs(c: &Config, sources: &[(&str, &[u64])]) -> Vec<(String, Vec<u64>, Vec<Elementwise>)> {
    let sources: Vec<_> = sources.iter().map(|(name, shape)| source(name, Dtype::BF16, shape)).collect();
    let plan = draft(c, &sources, OutType::Auto).unwrap();
    let maps = |op: &Op| match op {
        Op::Gather(gather) => gather.maps.clone(),
        _ => vec![],
    };
    plan.tensors.iter().map(|t| (t.shown(), t.shape.to_vec(), maps(&t.op))).collect()
}

fn nomic(extra: Json) -> Result<ModelPlan, PlanError> {
    let mut all = json!({"architectures": ["NomicBertModel"], "model_type": "nomic_bert", "activation_function": "swiglu",
        "n_positions": 8192, "causal": false, "prenorm": false, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": false,
        "qkv_proj_bias": false, "mlp_fc1_bias": false, "mlp_fc2_bias": false, "layer_norm_epsilon": 1e-12});
    for (name, value) in extra.as_object().unwrap() {
        all[name] = value.clone();
    }
    draft(&config(all), &[], OutType::Auto)
}

#[test]
fn a_condition_chooses_among_architectures() {
    let experts = json!({"moe_every_n_layers": 2, "moe_top_k": 1, "num_experts": 4, "activation_function": "gelu",
        "n_positions": 2048, "qkv_proj_bias": true, "mlp_fc1_bias": true, "mlp_fc2_bias": true});
    for (extra, architecture, context) in [
        (json!({}), "nomic-bert", 2048u32),
        (json!({"moe_every_n_layers": 0}), "nomic-bert", 2048),
        (experts, "nomic-bert-moe", 512),
    ] {
        let plan = nomic(extra.clone()).unwrap();
        assert_eq!(plan.architecture, architecture, "{extra}");
        let key = format!("{architecture}.context_length");
        let found = plan.parameters.iter().find(|(name, _)| *name == key);
        assert_eq!(found.map(|(_, value)| value), Some(&Value::from(context)), "{extra}");
    }
    for (extra, expected) in [
        (json!({"n_positions": 4096}), "4096 of 2048"),
        (json!({"causal": true}), "true"),
        (json!({"qkv_proj_bias": true}), "true"),
        (json!({"rotary_emb_scale_base": 512}), "512"),
        (json!({"activation_function": "relu"}), "relu"),
    ] {
        let error = nomic(extra.clone()).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("that llama.cpp knows"), "{extra}: {error}");
    }
}

#[test]
fn positions_begin_behind_that_of_the_padding() {
    for (class, pad, first) in
        [("RobertaModel", json!(1), 2), ("RobertaModel", Json::Null, 0), ("BertModel", json!(1), 0)]
    {
        let model_type = if class == "BertModel" { "bert" } else { "roberta" };
        let c = config(json!({"architectures": [class], "model_type": model_type, "pad_token_id": pad,
            "max_position_embeddings": 12}));
        let sources = [source("embeddings.position_embeddings.weight", Dtype::BF16, &[12, 64])];
        let plan = draft(&c, &sources, OutType::Auto).unwrap();
        let expected = [("position_embd.weight".to_owned(), vec![64, 12 - first], first * 64)];
        assert_eq!(sliced_outputs(&plan), expected, "{class}");
        let context = plan.parameters.iter().find(|(key, _)| key == "bert.context_length").unwrap();
        assert_eq!(context.1, Value::from(12 - first as u32));
    }
}

#[test]
fn embeddings_under_several_names_are_taken_once() {
    let c =
        config(json!({"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "d_model": 64, "d_kv": 16,
        "d_ff": 96, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4, "decoder_start_token_id": 0}));
    let sources = [
        source("decoder.block.2.layer.0.SelfAttention.q.weight", Dtype::F32, &[64, 64]),
        source("encoder.embed_tokens.weight", Dtype::F32, &[8, 64]),
        source("shared.weight", Dtype::F32, &[9, 64]),
    ];
    let plan = draft(&c, &sources, OutType::F32).unwrap();
    let found: Vec<_> = plan.tensors.iter().map(|t| (t.shown(), t.shape.to_vec())).collect();
    let expected = [("dec.blk.2.attn_q.weight", vec![64, 64]), ("token_embd.weight", vec![64, 8])];
    assert_eq!(found, expected.map(|(name, shape)| (name.to_owned(), shape)));
    assert_eq!(plan.skipped.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["shared.weight"]);
}

#[test]
fn weights_of_later_blocks_are_halved() {
    let rwkv = |rescale_every: u32| {
        config(
            json!({"architectures": ["Rwkv6ForCausalLM"], "model_type": "rwkv6", "head_size": 16, "layer_norm_epsilon": 1e-5,
            "num_hidden_layers": 6, "rescale_every": rescale_every}),
        )
    };
    let sources: &[(&str, &[u64])] = &[
        ("rwkv.blocks.1.attention.output.weight", &[64, 64]),
        ("rwkv.blocks.2.attention.output.weight", &[64, 64]),
        ("rwkv.blocks.5.feed_forward.value.weight", &[64, 96]),
        ("rwkv.blocks.5.attention.key.weight", &[64, 64]),
    ];
    for (every, expected) in [(2, [None, Some(0.5), Some(0.25), None]), (0, [None; 4])] {
        let found: Vec<_> = outputs(&rwkv(every), sources).into_iter().map(|(.., maps)| maps).collect();
        assert_eq!(
            found,
            expected.map(|scale| scale.into_iter().map(Elementwise::Scale).collect::<Vec<_>>()),
            "{every}"
        );
    }
}

#[test]
fn the_first_block_of_rwkv_7_has_some_tensors_twice() {
    let c =
        config(json!({"architectures": ["RWKV7ForCausalLM"], "model_type": "rwkv7", "head_dim": 16, "norm_eps": 1e-5,
        "decay_low_rank_dim": 8, "a_low_rank_dim": 8, "v_low_rank_dim": 4, "gate_low_rank_dim": null}));
    let found = outputs(
        &c,
        &[
            ("model.layers.0.attn.a0", &[1, 1, 64]),
            ("model.layers.0.attn.v0", &[1, 1, 64]),
            ("model.layers.0.attn.a_lora.lora.0.weight", &[8, 64]),
            ("model.layers.1.attn.a0", &[64]),
            ("model.layers.1.attn.v_lora.lora.2.bias", &[64]),
            ("model.layers.1.attn.v1", &[64, 4]),
            ("model.layers.1.attn.r_k", &[4, 16]),
        ],
    );
    let found: Vec<_> = found.iter().map(|(name, shape, _)| (name.as_str(), shape.as_slice())).collect();
    let expected: &[(&str, &[u64])] = &[
        ("blk.0.time_mix_v0.weight", &[64]),
        ("blk.0.time_mix_a0.weight", &[64]),
        ("blk.0.time_mix_v1.weight", &[64, 8]),
        ("blk.0.time_mix_a1.weight", &[64, 8]),
        ("blk.1.time_mix_a0.weight", &[64]),
        ("blk.1.time_mix_v0.weight", &[64]),
        ("blk.1.time_mix_v1.weight", &[64, 4]),
        ("blk.1.time_mix_r_k.weight", &[64]),
    ];
    assert_eq!(found, expected);
    // round(64 ** 0.8 * 0.6 / 32) is 1.
    let plan = draft(&c, &[], OutType::Auto).unwrap();
    let gate = plan.parameters.iter().find(|(key, _)| key == "rwkv7.attention.gate_lora_rank").unwrap();
    assert_eq!(gate.1, Value::from(32u32));
}

#[test]
fn parts_of_a_matrix_are_joined_in_the_order_of_their_numbers() {
    let c = |parts: u32, more: Json| {
        let mut all = json!({"architectures": ["Qwen4ExpForCausalLM"], "model_type": "qwen4_exp_text", "hidden_size": 4,
            "head_dim": 4, "num_hidden_layers": 2, "num_attention_heads": 1, "vocab_size": 8, "rms_norm_eps": 1e-5,
            "linear_num_key_heads": 1, "linear_num_value_heads": 1, "linear_key_head_dim": 4, "linear_value_head_dim": 4,
            "linear_conv_kernel_dim": 4, "hc_count": 2, "hc_lowrank": 2, "indexer_n_heads": 1, "indexer_head_dim": 4,
            "indexer_budget": 8, "indexer_compress_ratio": 4, "layer_types": ["linear_attention", "full_attention"],
            "ple_layer_ids": [1], "ngram_size": 2, "heads_per_ngram": 1, "ple_conv_kernel_size": 4, "eos_token_id": [3, 7],
            "split_ngram_parts": parts});
        for (name, value) in more.as_object().unwrap() {
            all[name] = value.clone();
        }
        let mut config = Config::new(all).unwrap();
        config.facts_mut().set_named("ngram_multipliers", vec![35184372088833u64, 3]);
        config.facts_mut().set_named("ngram_offsets", [0]);
        config.facts_mut().set_named("ngram_sizes", [5]);
        config
    };
    let name = |part: u32| format!("model.layers.0.ple.ple_embedding.ngram_embedding.shard_{part}.weight");
    let sources = [
        source(&name(1), Dtype::BF16, &[3, 8]),
        source("model.mtp.fc.weight", Dtype::BF16, &[4, 8]),
        source("model.layers.0.ple.ple_embedding.layer_multipliers", Dtype::from_name("I64").unwrap(), &[2]),
        source("model.layers.0.ple.value_proj.weight", Dtype::BF16, &[4, 4]),
        source(&name(0), Dtype::BF16, &[2, 8]),
    ];
    let plan = draft(&c(2, json!({})), &sources, OutType::Auto).unwrap();
    let found: Vec<_> = plan.tensors.iter().map(|t| (t.shown(), t.shape.to_vec())).collect();
    let expected = [("blk.0.ple_value.weight", vec![4, 4]), ("per_layer_token_embd.weight", vec![8, 5])];
    assert_eq!(found, expected.map(|(name, shape)| (name.to_owned(), shape)));
    let Op::Gather(gather) = &plan.tensors[1].op else { panic!("{:?}", plan.tensors[1].op) };
    assert_eq!(gather.inputs.iter().map(|input| input.index()).collect::<Vec<_>>(), [4, 0]);
    assert_eq!(gather.moves.iter().map(|item| (item.input, item.to)).collect::<Vec<_>>(), [(0, 0), (1, 16)]);
    let skipped: Vec<_> = plan.skipped.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(skipped, ["model.mtp.fc.weight", "model.layers.0.ple.ple_embedding.layer_multipliers"]);
    for (key, value) in [
        ("embedding_length_per_layer_input", 8u32.into()),
        ("ple.layers", vec![0i32].into()),
        ("ple.eos_token_id", 7u32.into()),
        ("ple.layer_multipliers", Value::from(vec![35184372088833u64, 3])),
    ] {
        let found = plan.parameters.iter().find(|(name, _)| name.strip_prefix("qwen4exp.") == Some(key));
        assert_eq!(found.map(|(_, found)| found), Some(&value), "{key}");
    }

    let error = draft(&c(3, json!({})), &sources, OutType::Auto).unwrap_err().to_string();
    assert!(error.contains("shard_2"), "{error}");
    let error = draft(&c(2, json!({"ple_layer_ids": [1, 2]})), &sources, OutType::Auto).unwrap_err().to_string();
    assert!(error.contains("more than one block"), "{error}");
    let wide = [source(&name(1), Dtype::BF16, &[3, 4]), source(&name(0), Dtype::BF16, &[2, 8])];
    let error = draft(&c(2, json!({})), &wide, OutType::Auto).unwrap_err().to_string();
    assert!(error.contains("shard_1"), "{error}");
}

#[test]
fn matrices_of_bitnet_are_rounded_by_their_mean() {
    let c = config(json!({"architectures": ["BitNetForCausalLM"], "model_type": "bitnet", "rms_norm_eps": 1e-5}));
    let sources = [
        source("model.layers.1.self_attn.q_proj.weight", Dtype::BF16, &[64, 64]),
        source("model.layers.1.self_attn.inner_attn_ln.weight", Dtype::BF16, &[64]),
    ];
    let plan = draft(&c, &sources, OutType::Auto).unwrap();
    let [matrix, norm] = &plan.tensors[..] else { panic!("{:?}", plan.tensors) };
    assert_eq!((matrix.shown().as_str(), &*matrix.shape), ("blk.1.attn_q.weight", &[64, 64][..]));
    assert!(matches!(&matrix.op, Op::RoundToMean(op) if op.values.inputs[0].index() == 0));
    assert_eq!((norm.shown().as_str(), &*norm.shape), ("blk.1.attn_sub_norm.weight", &[64][..]));
    assert!(matches!(norm.op, Op::Copy(_)));
    let other = [source("model.layers.0.mlp.ffn_sub_norm.weight", Dtype::BF16, &[96])];
    let error = draft(&c, &other, OutType::Auto).unwrap_err().to_string();
    assert!(error.contains("squared ReLU"), "{error}");
}

fn kimi_k3() -> Config {
    config(json!({"architectures": ["KimiK3ForConditionalGeneration"], "model_type": "kimi_k3", "kv_lora_rank": 16,
        "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "mla_use_nope": true, "num_experts": 4,
        "moe_intermediate_size": 32, "num_shared_experts": 1, "first_k_dense_replace": 1, "routed_scaling_factor": 2.5,
        "moe_renormalize": true, "moe_router_activation_func": "sigmoid", "hidden_act": "situ", "activation_situ_beta": 1.0,
        "activation_situ_linear_beta": 2.0, "attn_res_block_size": 2,
        "linear_attn_config": {"full_attn_layers": [2], "head_dim": 8, "short_conv_kernel_size": 4}}))
}

#[test]
fn two_tensors_are_multiplied_to_a_vector() {
    let plan = |shape: &[u64]| {
        let norm = source("model.layers.0.mlp_res_norm.weight", Dtype::BF16, &[64]);
        draft(&kimi_k3(), &[norm, source("model.layers.0.mlp_res_proj.weight", Dtype::F32, shape)], OutType::F16)
    };
    let planned = plan(&[1, 64]).unwrap();
    let [tensor] = &planned.tensors[..] else { panic!("{:?}", planned.tensors) };
    assert_eq!((tensor.shown().as_str(), &*tensor.shape), ("blk.0.ffn_res_score.weight", &[64][..]));
    let Op::Product(product) = &tensor.op else { panic!("{:?}", tensor.op) };
    assert_eq!(
        product.inputs.iter().map(|i| (i.index(), i.ty)).collect::<Vec<_>>(),
        [(0, GgmlType::BF16), (1, GgmlType::F32)]
    );
    let error = plan(&[63]).unwrap_err().to_string();
    assert!(error.contains("mlp_res_proj") && error.contains("[63]"), "{error}");
    let one = [source("model.layers.0.mlp_res_norm.weight", Dtype::BF16, &[64])];
    let error = draft(&kimi_k3(), &one, OutType::F16).unwrap_err().to_string();
    assert!(error.contains("ffn_res_score") && error.contains('2'), "{error}");
}

#[test]
fn a_name_is_of_another_tensor_in_blocks_with_attention() {
    let sources = [
        source("model.layers.0.self_attn.g_proj.weight", Dtype::BF16, &[32, 64]),
        source("model.layers.1.self_attn.g_proj.weight", Dtype::BF16, &[64, 64]),
    ];
    let plan = draft(&kimi_k3(), &sources, OutType::F16).unwrap();
    let names: Vec<String> = plan.tensors.iter().map(|t| t.shown()).collect();
    assert_eq!(names, ["blk.0.ssm_g.weight", "blk.1.attn_gate.weight"]);
}

fn deepseek4(sources: &[SourceTensor], ty: OutType) -> Result<ModelPlan, PlanError> {
    let c = config(json!({"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "head_dim": 32,
        "qk_rope_head_dim": 16, "q_lora_rank": 32, "o_groups": 2, "o_lora_rank": 16, "sliding_window": 64,
        "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1,
        "routed_scaling_factor": 1.5, "norm_topk_prob": true, "scoring_func": "sqrtsoftplus", "swiglu_limit": 10.0,
        "index_n_heads": 4, "index_head_dim": 32, "index_topk": 64, "compress_ratios": [0, 4], "compress_rope_theta": 1e5,
        "hc_mult": 4, "hc_sinkhorn_iters": 20, "hc_eps": 1e-6, "num_hash_layers": 1}));
    draft(&c, sources, ty)
}

#[test]
fn matrices_keep_the_types_of_the_checkpoint() {
    let sources = [
        source("layers.0.attn.wq_a.weight", Dtype::BF16, &[32, 64]),
        source("layers.0.attn.wkv.weight", Dtype::SCALED_F8, &[32, 64]),
        source("layers.0.attn.wo_b.weight", Dtype::F16, &[64, 32]),
        source("layers.0.ffn.gate.weight", Dtype::F32, &[4, 64]),
        source("layers.0.attn_norm.weight", Dtype::BF16, &[64]),
    ];
    for (ty, expected) in [(OutType::F16, GgmlType::F16), (OutType::Q8_0, GgmlType::Q8_0)] {
        let plan = deepseek4(&sources, ty).unwrap();
        let types: Vec<GgmlType> = plan.tensors.iter().map(|t| t.ty).collect();
        assert_eq!(types, [GgmlType::BF16, GgmlType::Q8_0, expected, GgmlType::F32, GgmlType::F32]);
    }
}

#[test]
fn some_blocks_choose_experts_by_the_token() {
    let ids = |dtype: &str| source("layers.0.ffn.gate.tid2eid", Dtype::from_name(dtype).unwrap(), &[768, 2]);
    let bias = |block: u64| source(&format!("layers.{block}.ffn.gate.bias"), Dtype::F32, &[4]);
    let plan = deepseek4(&[ids("I64"), bias(0), bias(1)], OutType::F16).unwrap();
    let found: Vec<_> = plan.tensors.iter().map(|t| (t.shown(), t.ty)).collect();
    let expected = [("blk.0.ffn_gate_tid2eid.weight", GgmlType::I32), ("blk.1.exp_probs_b.bias", GgmlType::F32)];
    assert_eq!(found, expected.map(|(name, ty)| (name.to_owned(), ty)));
    assert!(matches!(plan.tensors[0].op, Op::Narrow(_)));
    assert_eq!(plan.skipped.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["layers.0.ffn.gate.bias"]);
    assert!(matches!(deepseek4(&[ids("I32")], OutType::F16).unwrap().tensors[0].op, Op::Copy(_)));
    let error = deepseek4(&[ids("F32")], OutType::F16).unwrap_err().to_string();
    assert!(error.contains("F32") && error.contains("I64"), "{error}");
}
