//! The tables of architectures apply to models as llama.cpp loads them: conditions of rows, shapes, and tensors that
//! depend on keys and other tensors.

use super::*;

/// Outputs of `attn_q`, `attn_k` and `attn_v` and inputs of `attn_output`, by architecture, of models of width 32 with 4 heads of queries
/// and 2 of keys, where a key has 16 elements and a value 12. llama.cpp derives them from different keys in different architectures.
const ATTENTION_SHAPES: &[([u64; 4], &[&str])] = &[
    (
        [64, 32, 24, 64],
        &[
            "afmoe",
            "arcee",
            "exaone",
            "falcon-h1",
            "gemma",
            "gemma-embedding",
            "gemma2",
            "gemma3",
            "gemma3n",
            "glm4",
            "glm4moe",
            "granite",
            "granite_swa",
            "granitehybrid",
            "granitemoe",
            "hrm_text",
            "hunyuan-moe",
            "hunyuan_vl",
            "hy_v3",
            "jais2",
            "laguna",
            "llada",
            "llama",
            "llama4",
            "minicpm",
            "minimax-01",
            "mistral3",
            "muse-glimmer",
            "nanbeige",
            "nemotron_h",
            "pangu-embedded",
            "refact",
            "smollm3",
        ],
    ),
    (
        [64, 24, 24, 64],
        &[
            "apertus",
            "cohere2moe",
            "ernie4_5",
            "grovemoe",
            "maincoder",
            "mellum",
            "minimax-m2",
            "minimax-m3",
            "qwen3",
            "qwen3moe",
            "qwen3vl",
            "qwen3vlmoe",
            "rnd1",
            "smallthinker",
            "talkie",
        ],
    ),
    (
        [32, 24, 24, 32],
        &[
            "arctic",
            "baichuan",
            "bert",
            "chameleon",
            "codeshell",
            "cohere2",
            "command-r",
            "deepseek",
            "dream",
            "eurobert",
            "grok",
            "internlm2",
            "jamba",
            "jina-bert-v2",
            "llada-moe",
            "nemotron",
            "nomic-bert",
            "nomic-bert-moe",
            "olmo",
            "olmo2",
            "olmoe",
            "orion",
            "phi2",
            "phi3",
            "phimoe",
            "plamo",
            "qwen2",
            "qwen2moe",
            "qwen2vl",
            "stablelm",
            "starcoder2",
            "xverse",
        ],
    ),
    ([64, 32, 24, 32], &["chatglm", "exaone4"]),
    ([32, 32, 32, 32], &["deepseek2-ocr"]),
    ([64, 64, 64, 64], &["dots1"]),
    ([64, 32, 32, 64], &["exaone-moe", "maple", "seed_oss"]),
    ([32, 32, 24, 32], &["lfm2", "lfm2moe"]),
    ([64, 32, 24, 48], &["mimo2", "step35"]),
    ([128, 32, 24, 64], &["qwen35", "qwen35moe", "qwen3next", "qwen4exp"]),
];

#[test]
fn rows_apply_to_models_of_some_depth_and_with_embeddings_per_block() {
    let of = |blocks, per_layer_embd| {
        let mut h = Hparams::default();
        (h.blocks, h.per_layer_embd) = (Some(blocks), per_layer_embd);
        h
    };
    let holds = |arch: &str, name: &str, h: &Hparams<'_>| {
        let mut rows = arch::of(arch).unwrap().block.iter().copied().flatten().filter(|row| row.name == name);
        let row = rows.next().unwrap();
        assert!(row.need == Need::Required && rows.next().is_none(), "{arch} {name}");
        row.when.holds(h, 0)
    };
    for (blocks, expected) in [(63, false), (64, true)] {
        assert_eq!(holds("command-r", "attn_q_norm.weight", &of(blocks, None)), expected);
    }
    for (per_layer_embd, expected) in [(None, false), (Some(0), false), (Some(8), true)] {
        assert_eq!(holds("gemma4", "inp_gate.weight", &of(1, per_layer_embd)), expected);
    }
    let mut h = of(2, None);
    h.ff = Some(PerBlock::Same(8));
    assert!(!holds("nemotron_h_moe", "ffn_up_exps.weight", &h));
    h.experts = 4;
    assert!(holds("nemotron_h_moe", "ffn_up_exps.weight", &h));
    assert!(holds("glm4moe", "exp_probs_b.bias", &h));
}

#[test]
fn attention_has_the_shapes_that_llama_cpp_expects() {
    let mut h = Hparams::default();
    (h.blocks, h.embd, h.attention_interval) = (Some(1), Some(32), Some(1));
    (h.heads, h.heads_kv) = (Some(PerBlock::Same(4)), Some(PerBlock::Same(2)));
    (h.head_k, h.head_v, h.rot) = (Some(16), Some(12), Some(16));
    let names = ["attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight"];
    let mut wrong = vec![];
    for (expected, list) in ATTENTION_SHAPES {
        for name in *list {
            let block: Vec<Tensor> = arch::of(name).unwrap_or_else(|| panic!("{name}")).block().collect();
            let of = |tensor: &str| block.iter().find(|t| t.is_named(tensor) && t.row.when.holds(&h, 0));
            let found = names.map(|tensor| {
                let axis = usize::from(tensor != "attn_output.weight");
                of(tensor).and_then(|t| t.shape().get(axis)?.of(&h, 0)).unwrap_or(0)
            });
            if found != *expected {
                wrong.push(format!("{name}: {found:?}, expected {expected:?}"));
            }
            if let Some(fused) = of("attn_qkv.weight").and_then(|t| t.shape().get(1)?.of(&h, 0))
                && fused != expected.iter().take(3).sum::<u64>()
            {
                wrong.push(format!("{name}: {fused} of fused queries, keys and values"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The hyperparameters of a model.
fn keys_of<'h>(head: &'h Head, name: &str) -> Hparams<'h> {
    Hparams::new(|pattern| head.get(&keys::for_arch(pattern, name)))
}

/// A model of the tensors that an architecture requires, with these keys; counts not given are 8, and there are 6 blocks of 4 heads.
fn of_table(name: &str, set: &[(&str, Value)]) -> Head {
    let mut head = llama();
    head.kvs.retain(|kv| !kv.key.starts_with(b"llama."));
    head.tensors.clear();
    head.set("general.architecture", name);
    for row in arch::required_keys(name) {
        head.set(
            &row.for_arch(name),
            match row.kinds[0] {
                KeyType::Scalar(ValueType::F32) => Value::F32(1e-5),
                KeyType::Scalar(ValueType::BOOL) => true.into(),
                KeyType::Array(_) => ints(&[1, 2, 3]),
                _ => Value::U32(8),
            },
        );
    }
    let usual =
        [("block_count", 6u32), ("embedding_length", 32), ("attention.head_count", 4), ("feed_forward_length", 96)];
    let usual = usual.map(|(key, n)| (key, Value::U32(n)));
    for (key, value) in usual.iter().chain(set) {
        head.set(&format!("{name}.{key}"), value.clone());
    }
    let keys = head.clone();
    let h = Hparams::new(|pattern| keys.get(&keys::for_arch(pattern, name)));
    let table = arch::of(name).unwrap();
    let shape =
        |tensor: &Tensor, block| tensor.shape().iter().map(|dim| dim.of(&h, block).unwrap_or(4)).collect::<Vec<_>>();
    for tensor in table.outside().filter(|t| t.need() != Need::Optional && t.row.when.holds(&h, 0)) {
        add(&mut head, &tensor.name_in(None), &shape(&tensor, 0));
    }
    for block in 0..h.blocks.unwrap() {
        for tensor in table.block().filter(|t| t.need() != Need::Optional && t.row.when.holds(&h, block)) {
            let name = tensor.name_in(Some(block));
            if !head.tensors.iter().any(|t| t.name == name.as_bytes()) {
                add(&mut head, &name, &shape(&tensor, block));
            }
        }
    }
    head
}

#[test]
fn tensors_depend_on_keys_and_other_tensors() {
    let n = |n: u32| Value::U32(n);
    let latent = |name: &str, more: &[(&str, Value)]| {
        let keys = [
            ("attention.kv_lora_rank", n(6)),
            ("attention.key_length_mla", n(12)),
            ("attention.value_length_mla", n(10)),
            ("rope.dimension_count", n(4)),
            ("expert_count", n(2)),
            ("expert_used_count", n(1)),
            ("leading_dense_block_count", n(1)),
        ];
        of_table(name, &[&keys[..], more].concat())
    };
    let sparse = || latent("glm-dsa", &[("attention.key_length", n(12)), ("attention.value_length", n(10))]);
    let low_rank = || latent("deepseek2", &[("attention.q_lora_rank", n(5))]);
    let whole = || latent("deepseek2", &[("attention.q_lora_rank", n(0))]);
    let next = || latent("deepseek2", &[("attention.q_lora_rank", n(5)), ("nextn_predict_layers", n(1))]);
    let small = || {
        let mut head = next();
        head.tensors.retain(|t| !t.name.starts_with(b"blk.5."));
        head
    };
    let mixed = || of_table("minimax-01", &[("full_attention_interval", n(3))]);
    let gated = |width: u64| {
        let mut head = of_table("laguna", &[("leading_dense_block_count", n(6))]);
        (0..6).for_each(|i| tensor(&mut head, &format!("blk.{i}.attn_gate.weight")).shape = vec![32, width]);
        head
    };
    let eagle = |layers: &[i32]| {
        of_table("eagle3", &[("block_count", n(1)), ("target_layers", ints(layers)), ("target_hidden_size", n(16))])
    };
    let flash = || {
        let keys = [
            ("target_layers", ints(&[1, 2])),
            ("conv_kernel_size", n(3)),
            ("conv_group_size", n(8)),
            ("selector_rank", n(6)),
            ("selector_top_k", n(2)),
            ("block_size", n(4)),
        ];
        of_table("dflash", &keys)
    };
    let kinds = || {
        let keys = [
            ("attention.head_count_kv", ints(&[0, 2, 0, 0, 2, 0])),
            ("feed_forward_length", ints(&[0, 0, 96, 0, 0, 96])),
        ];
        of_table("nemotron_h", &keys)
    };
    let grok = || of_table("grok", &[("expert_count", n(2)), ("expert_used_count", n(1))]);
    let norms = |name: &str| {
        let mut head = grok();
        (0..6).for_each(|i| add(&mut head, &format!("blk.{i}.{name}.weight"), &[32]));
        head
    };
    let gemma = || {
        let keys = [
            ("attention.sliding_window_pattern", array([false; 6])),
            ("embedding_length_per_layer_input", n(0)),
            ("expert_count", n(2)),
            ("expert_used_count", n(1)),
        ];
        let mut head = of_table("gemma4", &keys);
        add(&mut head, "rope_freqs.weight", &[4]);
        head
    };
    let routed = || {
        let mut head = gemma();
        add(&mut head, "blk.1.ffn_gate_inp.weight", &[32, 2]);
        add(&mut head, "blk.1.ffn_gate_inp.scale", &[32]);
        for name in ["pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"] {
            add(&mut head, &format!("blk.1.{name}.weight"), &[32]);
        }
        add(&mut head, "blk.1.ffn_gate_up_exps.weight", &[32, 192, 2]);
        add(&mut head, "blk.1.ffn_down_exps.weight", &[96, 32, 2]);
        head
    };
    let t5 = || of_table("t5", &[("block_count", n(2))]);
    let linear = |name: &str, more: &[(&str, Value)]| {
        let keys = [
            ("ssm.inner_size", n(64)),
            ("rope.dimension_sections", ints(&[1, 1, 2, 0])),
            ("full_attention_interval", n(3)),
            ("expert_count", n(2)),
            ("expert_used_count", n(1)),
            ("expert_feed_forward_length", n(8)),
            ("expert_shared_feed_forward_length", n(8)),
        ];
        of_table(name, &[&keys[..], more].concat())
    };
    let in_one_matrix = || {
        let mut head = linear("qwen3next", &[]);
        for i in [0, 1, 3, 4] {
            drop_tensor(&mut head, &format!("blk.{i}.attn_qkv.weight"));
            drop_tensor(&mut head, &format!("blk.{i}.attn_gate.weight"));
            add(&mut head, &format!("blk.{i}.ssm_in.weight"), &[32, 256]);
        }
        head
    };
    let next_recurrent = |last: bool| {
        let list = array([true, true, false, true, true, false]);
        let mut head = linear("qwen3next", &[("attention.recurrent_layers", list), ("nextn_predict_layers", n(1))]);
        head.set("qwen3next.attention.recurrent_layers", array([true, true, false, true, true, last]));
        head
    };
    let grams = |more: &[(&str, Value)]| {
        let keys = [
            ("ple.layers", ints(&[1])),
            ("ple.ngram_size", n(3)),
            ("ple.heads_per_ngram", n(2)),
            ("ple.conv_kernel", n(4)),
            ("ple.eos_token_id", n(1)),
            ("embedding_length_per_layer_input", n(6)),
            ("ple.layer_multipliers", array([1u64, 2, 3])),
            ("ple.head_offsets", array([0u64, 5, 10, 15])),
            ("ple.head_vocab_sizes", array([5u64, 5, 5, 5])),
        ];
        let mut head = linear("qwen4exp", &[&keys[..], more].concat());
        tensor(&mut head, "per_layer_token_embd.weight").shape[1] = 20;
        head
    };
    let mixture_of = |name: &str| {
        let keys = [
            ("expert_count", n(2)),
            ("expert_used_count", n(1)),
            ("expert_shared_count", n(1)),
            ("attention.sliding_window_pattern", ints(&[1, 1, 1, 0, 1, 1])),
        ];
        of_table(name, &keys)
    };
    let sharing = |blocks: u32| {
        let mut head = gemma();
        head.set("gemma4.attention.shared_kv_layers", blocks);
        head
    };
    let windowed = |positions: u32| of_table("gemma3", &[("attention.sliding_window", n(positions))]);
    let assistant = |out: u32| {
        let keys = [
            ("attention.sliding_window_pattern", array([false; 6])),
            ("embedding_length_out", n(out)),
            ("nextn_predict_layers", n(6)),
        ];
        of_table("gemma4-assistant", &keys)
    };
    let waves = || {
        let keys = [("posnet.block_count", n(6)), ("convnext.block_count", n(2)), ("vocab_size", n(5))];
        let mut head = of_table("wavtokenizer-dec", &keys);
        head.kvs.retain(|kv| !kv.key.starts_with(b"tokenizer."));
        head.set("tokenizer.ggml.model", "none");
        head.tensors.clear();
        let h = keys_of(&head, "wavtokenizer-dec");
        let table = arch::of("wavtokenizer-dec").unwrap();
        let shape = |t: &Tensor| t.shape().iter().map(|dim| dim.of(&h, 0).unwrap()).collect::<Vec<_>>();
        let outside = table.outside().map(|t| (t.name_in(None), shape(&t)));
        let blocks = (0..2).flat_map(|i| table.block().map(move |t| (t.name_in(Some(i)), t)));
        let all: Vec<_> = outside.chain(blocks.map(|(name, t)| (name, shape(&t)))).collect();
        all.iter().for_each(|(name, shape)| add(&mut head, name, shape));
        head
    };
    let unigrams = |replacements: &[u8]| {
        let mut head = t5();
        head.set("tokenizer.ggml.model", "t5");
        head.set("tokenizer.ggml.precompiled_charsmap", array(replacements.iter().copied()));
        head
    };
    let jamba = || {
        let keys = [
            ("attention.head_count_kv", ints(&[0, 4, 0, 4, 0, 4])),
            ("expert_count", n(2)),
            ("expert_used_count", n(1)),
        ];
        let mut head = of_table("jamba", &keys);
        for i in 0..6 {
            let experts: &[(&str, &[u64])] = &[
                ("gate_inp", &[32, 2]),
                ("gate_exps", &[32, 96, 2]),
                ("up_exps", &[32, 96, 2]),
                ("down_exps", &[96, 32, 2]),
            ];
            let matrices: &[(&str, &[u64])] = &[("gate", &[32, 96]), ("up", &[32, 96]), ("down", &[96, 32])];
            for (name, shape) in if i % 2 == 1 { experts } else { matrices } {
                add(&mut head, &format!("blk.{i}.ffn_{name}.weight"), shape);
            }
        }
        head
    };
    type Change = fn(&mut Head);
    let rejected: &[&str] = &["value.rejected"];
    let missing_key: &[&str] = &["key.missing"];
    let misshapen: &[&str] = &["tensor.shape"];
    let missing: &[&str] = &["tensor.missing"];
    let unexpected: &[&str] = &["tensor.unexpected"];
    let cases: &[(&str, Head, Change, &[&str])] = &[
        ("low-rank queries", low_rank(), |_| {}, &[]),
        ("without one", low_rank(), |h| drop_tensor(h, "blk.1.attn_q_a.weight"), missing),
        ("without merged keys", low_rank(), |h| drop_tensor(h, "blk.0.attn_k_b.weight"), missing),
        ("with whole queries, too", low_rank(), |h| add(h, "blk.0.attn_q.weight", &[32, 48]), unexpected),
        ("whole queries", whole(), |_| {}, &[]),
        ("without them", whole(), |h| drop_tensor(h, "blk.0.attn_q.weight"), missing),
        ("with a low-rank one", whole(), |h| add(h, "blk.0.attn_q_a.weight", &[32, 5]), unexpected),
        ("MTP blocks", next(), |_| {}, &[]),
        ("without a norm", next(), |h| drop_tensor(h, "blk.5.nextn.enorm.weight"), missing),
        ("in a main block", next(), |h| add(h, "blk.0.nextn.enorm.weight", &[32]), unexpected),
        ("in another file", small(), |_| {}, &[]),
        (
            "main blocks in another file",
            next(),
            |h| h.tensors.retain(|t| t.name.starts_with(b"blk.5.") || !t.name.starts_with(b"blk.")),
            &[],
        ),
        (
            "a main block missing",
            next(),
            |h| h.tensors.retain(|t| !t.name.starts_with(b"blk.2.")),
            &["tensor.block.missing"],
        ),
        ("lightning attention", mixed(), |_| {}, &[]),
        ("without its matrix", mixed(), |h| drop_tensor(h, "blk.0.attn_qkv.weight"), missing),
        ("queries in such a block", mixed(), |h| add(h, "blk.0.attn_q.weight", &[32, 32]), unexpected),
        ("no keys in others", mixed(), |h| drop_tensor(h, "blk.2.attn_k.weight"), missing),
        ("fused and separate", mixed(), |h| add(h, "blk.2.attn_qkv.weight", &[32, 96]), unexpected),
        ("a gate of heads", gated(4), |_| {}, &[]),
        ("a gate of elements", gated(32), |_| {}, &[]),
        ("another gate", gated(16), |_| {}, &["tensor.shape"]),
        ("no gate", gated(4), |h| drop_tensor(h, "blk.3.attn_gate.weight"), missing),
        ("EAGLE-3", eagle(&[1, 2, 3]), |h| add(h, "output.weight", &[32, 5]), &[]),
        ("too many layers of the target", eagle(&[1, 2, 3, 4]), |_| {}, &["value.rejected"]),
        ("output without d2t", eagle(&[1, 2, 3]), |h| add(h, "output.weight", &[32, 3]), &["tensor.shape"]),
        (
            "output with d2t",
            eagle(&[1, 2, 3]),
            |h| {
                add(h, "output.weight", &[32, 3]);
                add(h, "d2t", &[3]);
            },
            &[],
        ),
        ("a norm before fc", eagle(&[1, 2, 3]), |h| h.set("eagle3.norm_before_fc", true), missing),
        ("DFlash 2", flash(), |_| {}, &[]),
        (
            "a Markov head",
            flash(),
            |h| {
                add(h, "markov_w1.weight", &[3, 5]);
                add(h, "markov_w2.weight", &[3, 5]);
                add(h, "conf_proj.weight", &[35, 1]);
            },
            &[],
        ),
        ("half a Markov head", flash(), |h| add(h, "markov_w1.weight", &[3, 5]), missing),
        ("the other half", flash(), |h| add(h, "markov_w2.weight", &[3, 5]), unexpected),
        (
            "Markov matrices of two ranks",
            flash(),
            |h| {
                add(h, "markov_w1.weight", &[3, 5]);
                add(h, "markov_w2.weight", &[4, 5]);
            },
            &["tensor.shape"],
        ),
        (
            "a window without a list of blocks",
            flash(),
            |h| h.set("dflash.attention.sliding_window", 4u32),
            &["key.missing"],
        ),
        (
            "a window with one",
            flash(),
            |h| {
                h.set("dflash.attention.sliding_window", 4u32);
                h.set("dflash.attention.sliding_window_pattern", array([true; 6]));
            },
            &[],
        ),
        ("grok without a norm", grok(), |_| {}, missing),
        ("grok with one norm", norms("post_ffw_norm"), |_| {}, &[]),
        ("grok with the other", norms("layer_output_norm"), |_| {}, &[]),
        ("grok with both", norms("layer_output_norm"), |h| add(h, "blk.2.post_ffw_norm.weight", &[32]), unexpected),
        ("no router", gemma(), |_| {}, &[]),
        ("a norm without a router", gemma(), |h| add(h, "blk.0.pre_ffw_norm_2.weight", &[32]), unexpected),
        ("a router", routed(), |_| {}, &[]),
        ("a router without its scale", routed(), |h| drop_tensor(h, "blk.1.ffn_gate_inp.scale"), missing),
        ("a router without gates", routed(), |h| drop_tensor(h, "blk.1.ffn_gate_up_exps.weight"), missing),
        ("a router with gates twice", routed(), |h| add(h, "blk.1.ffn_gate_exps.weight", &[32, 96, 2]), unexpected),
        ("linear attention", linear("qwen35", &[]), |_| {}, &[]),
        ("of another inner size", linear("qwen35", &[]), |h| h.set("qwen35.ssm.inner_size", 7u32), &[]),
        ("of other heads", linear("qwen35", &[]), |h| h.set("qwen35.ssm.time_step_rank", 4u32), misshapen),
        ("in one matrix", in_one_matrix(), |_| {}, &[]),
        ("without it", in_one_matrix(), |h| drop_tensor(h, "blk.1.ssm_in.weight"), missing),
        ("the last block is an MTP block", next_recurrent(false), |_| {}, &[]),
        ("and is listed as recurrent", next_recurrent(true), |_| {}, rejected),
        ("n-grams", grams(&[]), |_| {}, &[]),
        ("norms of other dimensions", grams(&[]), |h| tensor(h, "blk.0.hc_attn_norm.weight").shape = vec![32, 8], &[]),
        (
            "norms of another size",
            grams(&[]),
            |h| tensor(h, "blk.0.hc_attn_norm.weight").shape = vec![32, 7],
            misshapen,
        ),
        ("no position is chosen", grams(&[("attention.indexer.top_k", n(0))]), |_| {}, rejected),
        ("n-grams in two blocks", grams(&[("ple.layers", ints(&[1, 3]))]), |_| {}, rejected),
        ("n-grams in a block with attention", grams(&[("ple.layers", ints(&[2]))]), |_| {}, rejected),
        ("n-grams of one token", grams(&[("ple.ngram_size", n(1))]), |_| {}, rejected),
        ("many heads", grams(&[("ple.heads_per_ngram", n(33))]), |_| {}, rejected),
        ("n-grams of no convolution", grams(&[("ple.conv_kernel", n(0))]), |_| {}, rejected),
        ("n-grams of no width", grams(&[("embedding_length_per_layer_input", n(0))]), |_| {}, rejected),
        ("few multipliers", grams(&[("ple.layer_multipliers", array([1u64, 2]))]), |_| {}, rejected),
        ("few offsets", grams(&[("ple.head_offsets", array([0u64, 5, 10]))]), |_| {}, rejected),
        ("few sizes", grams(&[("ple.head_vocab_sizes", array([5u64, 5, 5]))]), |_| {}, rejected),
        ("a head without rows", grams(&[("ple.head_vocab_sizes", array([5u64, 0, 5, 5]))]), |_| {}, rejected),
        ("more rows than there are", grams(&[("ple.head_vocab_sizes", array([5u64, 5, 5, 6]))]), |_| {}, rejected),
        (
            "n-grams without a width",
            grams(&[]),
            |h| assert!(h.remove("qwen4exp.embedding_length_per_layer_input")),
            missing_key,
        ),
        ("n-grams without an end", grams(&[]), |h| assert!(h.remove("qwen4exp.ple.eos_token_id")), missing_key),
        (
            "no width and no n-grams",
            linear("qwen4exp", &[]),
            |h| assert!(!h.remove("qwen4exp.embedding_length_per_layer_input")),
            &[],
        ),
        ("a shared expert", mixture_of("exaone-moe"), |_| {}, &[]),
        (
            "without the number of them",
            mixture_of("exaone-moe"),
            |h| assert!(h.remove("exaone-moe.expert_shared_count")),
            &[],
        ),
        (
            "without the shared expert",
            mixture_of("exaone-moe"),
            |h| drop_tensor(h, "blk.1.ffn_up_shexp.weight"),
            missing,
        ),
        ("as wide as others", mixture_of("hy_v3"), |h| add(h, "blk.0.ffn_gate_shexp.weight", &[32, 8]), &[]),
        ("as wide as no other", mixture_of("hy_v3"), |h| add(h, "blk.0.ffn_gate_shexp.weight", &[32, 7]), misshapen),
        ("a bias of queries", mixture_of("mimo2"), |h| add(h, "blk.0.attn_q.bias", &[32]), &[]),
        ("without queries", mixture_of("mimo2"), |h| drop_tensor(h, "blk.0.attn_q.weight"), missing),
        ("a last norm", mixture_of("mimo2"), |h| add(h, "blk.0.layer_output_norm.weight", &[32]), unexpected),
        ("a bias of the output", mixture_of("arctic"), |h| add(h, "blk.0.attn_output.bias", &[32]), unexpected),
        ("without embeddings", of_table("qwen3", &[]), |h| drop_tensor(h, "token_embd.weight"), missing),
        (
            "rotary factors of whole heads",
            of_table("phimoe", &[("expert_count", n(2)), ("expert_used_count", n(1)), ("rope.dimension_count", n(2))]),
            |h| add(h, "rope_factors_long.weight", &[4]),
            &[],
        ),
        ("no factors of blocks without a window", gemma(), |h| drop_tensor(h, "rope_freqs.weight"), missing),
        ("blocks share keys", sharing(1), |h| drop_tensor(h, "blk.5.attn_k.weight"), &[]),
        ("more blocks than there are", sharing(7), |h| drop_tensor(h, "blk.5.attn_k.weight"), missing),
        ("sparse latent attention", sparse(), |_| {}, &[]),
        ("without lengths of heads", sparse(), |h| assert!(h.remove("glm-dsa.attention.key_length_mla")), missing_key),
        ("heads of no length", sparse(), |h| h.set("glm-dsa.attention.key_length_mla", 0u32), rejected),
        ("an assistant", assistant(48), |_| {}, &[]),
        ("of a target as wide", assistant(32), |_| {}, rejected),
        ("with other values", assistant(48), |h| h.set("gemma4-assistant.attention.value_length_swa", 5u32), rejected),
        ("blocks with windows", windowed(4), |_| {}, &[]),
        ("as long keys in them", windowed(4), |h| h.set("gemma3.attention.key_length_swa", 8u32), &[]),
        ("longer keys in them", windowed(4), |h| h.set("gemma3.attention.key_length_swa", 16u32), rejected),
        ("longer values in them", windowed(4), |h| h.set("gemma3.attention.value_length_swa", 16u32), rejected),
        ("no blocks with windows", windowed(0), |h| h.set("gemma3.attention.key_length_swa", 16u32), &[]),
        ("loops", of_table("nanbeige", &[("num_loops", n(2))]), |_| {}, &[]),
        ("no loops", of_table("nanbeige", &[("num_loops", n(0))]), |_| {}, rejected),
        ("many loops", of_table("nanbeige", &[("num_loops", n(86))]), |_| {}, rejected),
        ("an activation", flash(), |h| h.set("dflash.hidden_activation", "gelu"), &[]),
        ("another activation", flash(), |h| h.set("dflash.hidden_activation", "relu"), rejected),
        ("an audio decoder", waves(), |_| {}, &[]),
        ("tokens without a tokenizer", waves(), |h| h.set("tokenizer.ggml.tokens", strings(&["a", "a"])), &[]),
        ("no heads outside PosNet", waves(), |h| h.set("wavtokenizer-dec.attention.head_count", 0u32), &[]),
        ("five blocks of PosNet", waves(), |h| h.set("wavtokenizer-dec.posnet.block_count", 5u32), rejected),
        ("fewer blocks than PosNet has", waves(), |h| h.set("wavtokenizer-dec.block_count", 5u32), rejected),
        ("PLaMo 2 with lengths", of_table("plamo2", &[]), |h| h.set("plamo2.attention.key_length", 8u32), &[]),
        (
            "PLaMo 2 with lengths of another type",
            of_table("plamo2", &[("attention.head_count", ints(&[0, 4, 0, 4, 0, 4])), ("attention.key_length", n(8))]),
            |h| h.set("plamo2.attention.key_length", 8u16),
            &["key.type"],
        ),
        ("replacements", unigrams(&[2, 0, 0, 0, 1, 1, 0]), |_| {}, &[]),
        ("no room for the trie", unigrams(&[3, 0, 0, 0, 1, 1, 0]), |_| {}, rejected),
        ("no room for its length", unigrams(&[0, 0, 0]), |_| {}, rejected),
        ("blocks with and without experts", jamba(), |_| {}, &[]),
        (
            "a matrix of experts without a router",
            jamba(),
            |h| add(h, "blk.0.ffn_up_exps.weight", &[32, 96, 2]),
            unexpected,
        ),
        ("a router without experts", jamba(), |h| drop_tensor(h, "blk.1.ffn_up_exps.weight"), missing),
        ("neither experts nor matrices", jamba(), |h| drop_tensor(h, "blk.0.ffn_up.weight"), missing),
        ("a matrix beside a router", jamba(), |h| add(h, "blk.1.ffn_up.weight", &[32, 96]), unexpected),
        ("many decoder blocks", t5(), |h| h.set("t5.decoder_block_count", 513u32), rejected),
        ("encoder and decoder", t5(), |_| {}, &[]),
        ("MTP blocks", t5(), |h| h.set("t5.nextn_predict_layers", 1u32), &["tensor.block.extra"]),
        ("blocks of one kind", kinds(), |_| {}, &[]),
        ("no values", kinds(), |h| drop_tensor(h, "blk.1.attn_v.weight"), missing),
        ("no state space", kinds(), |h| drop_tensor(h, "blk.0.ssm_a"), missing),
        ("a feed-forward part beside heads", kinds(), |h| add(h, "blk.1.ffn_up.weight", &[32, 96]), unexpected),
        ("without a convolution", flash(), |h| drop_tensor(h, "blk.1.ffn_conv_base"), missing),
        (
            "a convolution of another size",
            flash(),
            |h| tensor(h, "blk.1.attn_conv_base").shape = vec![32, 4, 2],
            &["tensor.shape"],
        ),
    ];
    let mut wrong = vec![];
    for (name, head, change, expected) in cases {
        let mut head = head.clone();
        change(&mut head);
        let report = judge(&[head], None);
        let errors = report.findings().filter(|f| f.severity == Severity::Error);
        let found: Vec<String> = errors.map(|f| f.to_string()).collect();
        let mut codes: Vec<&str> =
            report.findings().filter(|f| f.severity == Severity::Error).map(|f| f.code).collect();
        codes.dedup();
        if codes != *expected {
            wrong.push(format!("{name}: {expected:?} is due\n  {}", found.join("\n  ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
