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
