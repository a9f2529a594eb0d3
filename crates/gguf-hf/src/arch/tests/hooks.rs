//! Encoders, and models with recurrence: what their tables ask of the engine.

use gguf_model::arch::Map;

use super::*;

/// Names, shapes, and operations on values.
fn outputs(c: &Config, sources: &[(&str, &[u64])]) -> Vec<(String, Vec<u64>, Vec<Map>)> {
    let sources: Vec<_> = sources.iter().map(|(name, shape)| source(name, Dtype::BF16, shape)).collect();
    let plan = draft(c, &sources, OutType::Auto).unwrap();
    let maps = |op: &Op| match op {
        Op::Gather(gather) => gather.maps.clone(),
        _ => vec![],
    };
    plan.tensors.iter().map(|t| (t.shown(), t.shape.clone(), maps(&t.op))).collect()
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
    let found: Vec<_> = plan.tensors.iter().map(|t| (t.shown(), t.shape.clone())).collect();
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
        assert_eq!(found, expected.map(|scale| scale.into_iter().map(Map::Scale).collect::<Vec<_>>()), "{every}");
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
            "split_ngram_parts": parts, "ngram_multipliers": [35184372088833u64, 3], "ngram_offsets": [0], "ngram_sizes": [5]});
        for (name, value) in more.as_object().unwrap() {
            all[name] = value.clone();
        }
        Config::new(all).unwrap()
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
    let found: Vec<_> = plan.tensors.iter().map(|t| (t.shown(), t.shape.clone())).collect();
    let expected = [("blk.0.ple_value.weight", vec![4, 4]), ("per_layer_token_embd.weight", vec![8, 5])];
    assert_eq!(found, expected.map(|(name, shape)| (name.to_owned(), shape)));
    let Op::Gather(gather) = &plan.tensors[1].op else { panic!("{:?}", plan.tensors[1].op) };
    assert_eq!(gather.inputs.iter().map(|input| input.index).collect::<Vec<_>>(), [4, 0]);
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
    let found = outputs(
        &c,
        &[
            ("model.layers.1.self_attn.q_proj.weight", &[64, 64]),
            ("model.layers.1.self_attn.inner_attn_ln.weight", &[64]),
        ],
    );
    let expected = [
        ("blk.1.attn_q.weight", vec![64, 64], vec![Map::RoundToMean]),
        ("blk.1.attn_sub_norm.weight", vec![64], vec![]),
    ];
    assert_eq!(found, expected.map(|(name, shape, maps)| (name.to_owned(), shape, maps)));
    let other = [source("model.layers.0.mlp.ffn_sub_norm.weight", Dtype::BF16, &[96])];
    let error = draft(&c, &other, OutType::Auto).unwrap_err().to_string();
    assert!(error.contains("squared ReLU"), "{error}");
}
