//! DFlash and DSpark: drafts of a few blocks that read hidden states of the target model and predict a block of tokens
//! at once. DSpark adds a Markov head. The draft for DeepSeek 4 has DeepSeek 4's blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/dflash.cpp` of llama.cpp, `DFlashModel` and `DSparkModel` in
//! `conversion/qwen.py`, `MuseGlimmerAssistantModel` in `conversion/muse_glimmer.py`, `Gemma4DSparkModel` in
//! `conversion/gemma.py`, `DeepseekV4DSparkModel` in `conversion/deepseek.py`. The tokenizer is the target model's.

use super::deepseek4;
use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["dflash"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::TARGET_LAYERS]],
    optional: &[
        keys::ATTENTION_SCALE,
        keys::ATTENTION_SLIDING_WINDOW,
        keys::ATTENTION_VALUE_SCALE,
        keys::BLOCK_SIZE,
        keys::CONV_GROUP_SIZE,
        keys::CONV_KERNEL_SIZE,
        keys::EMBEDDING_SCALE,
        keys::FINAL_LOGIT_SOFTCAPPING,
        keys::HIDDEN_ACTIVATION,
        keys::HYPER_CONNECTION_COUNT,
        keys::LOGIT_SCALE,
        keys::ROPE_DIMENSION_SECTIONS,
        keys::SELECTOR_RANK,
        keys::SELECTOR_TOP_K,
    ],
    outside: &[OUTSIDE],
    block: &[BLOCK, GATED_FFN, deepseek4::BLOCK, deepseek4::FEED_FORWARD, ROUTER],
    checkpoints: &[
        Checkpoint { when: INTERLEAVED, names: &TensorNames { rename: INTERLEAVED_NAMES, ..*PLAIN.names }, ..PLAIN },
        PLAIN,
        Checkpoint { when: INTERLEAVED, names: &TensorNames { rename: INTERLEAVED_NAMES, ..*SPARK.names }, ..SPARK },
        SPARK,
        Checkpoint {
            classes: &["MuseGlimmerAssistantModel"],
            keys: &[GENERIC, MUSE_KEYS],
            tokenizer: &Tokenizer { keys: &[MUSE_MASK], ..*DFLASH.tokenizer },
            ..DFLASH
        },
        Checkpoint {
            classes: &["Gemma4DSparkModel"],
            names: &TensorNames {
                rename: &[
                    ("post_attention_layernorm", "attention_post_norm"),
                    ("pre_feedforward_layernorm", "post_attention_layernorm"),
                    ("confidence_proj.", "confidence_head.proj."),
                ],
                skip: &[FREQUENCIES, ("embed_tokens.weight", "(has_embed_tokens|true) == false")],
                ..*DFLASH.names
            },
            refuse: GEMMA_REFUSE,
            facts: &TensorFacts {
                present: &[("has_confidence_head", "*confidence_*proj*"), ("has_output", "*lm_head.weight")],
                ..*DFLASH.facts
            },
            keys: &[GEMMA_FIELDS, FIELDS, GENERIC, POOLING, KEYS, GEMMA_KEYS],
            tokenizer: &Tokenizer { keys: &[GEMMA_MASK], ..*DFLASH.tokenizer },
            computed: &[Computed::Values("rope_freqs.weight", "frequencies")],
            ..DFLASH
        },
        deepseek4::DRAFT,
        Checkpoint {
            classes: &["DeepseekV4ForCausalLM"],
            when: "(@has_target|false) and dspark_block_size != null",
            ..deepseek4::DRAFT
        },
    ],
};

const PLAIN: Checkpoint = Checkpoint {
    classes: &["DFlashDraftModel", "DFlash2DraftModel"],
    names: &TensorNames {
        skip: &[FREQUENCIES, ("embed_tokens.weight", "(has_embed_tokens|true) == false")],
        ..*DFLASH.names
    },
    keys: &[FIELDS, GENERIC, POOLING, KEYS],
    ..DFLASH
};

const SPARK: Checkpoint = Checkpoint {
    classes: &["Qwen3DSparkModel", "DSparkDraftModel", "DSparkSpeculator", "Lfm2DSparkDraftModel", "LingDSparkModel"],
    names: &TensorNames {
        skip: &[
            FREQUENCIES,
            ("t2d", ""),
            ("embed_tokens.weight", "(has_embed_tokens|true) == false"),
            ("lm_head.weight", "(draft_vocab_size or vocab_size) == vocab_size"),
        ],
        ..*DFLASH.names
    },
    facts: &TensorFacts { ids: "d2t", present: &[("has_confidence_head", "*confidence_head.proj*")], ..*DFLASH.facts },
    refuse: &[
        ("(markov_head_type|'vanilla') != 'vanilla'", "Markov heads that are not vanilla (markov_head_type)"),
        ("(draft_vocab_size or vocab_size) > vocab_size", "a draft_vocab_size above vocab_size"),
        (
            "(draft_vocab_size or vocab_size) < vocab_size and @token_ids == null",
            "a draft_vocab_size below vocab_size without the tensor d2t",
        ),
        MASK,
    ],
    keys: &[SPARK_FIELDS, FIELDS, GENERIC, POOLING, KEYS, SPARK_KEYS],
    ..DFLASH
};

const DFLASH: Checkpoint = Checkpoint {
    is_draft: true,
    tokenizer: &Tokenizer { takes_target_class: true, keys: &[MASK_TOKEN], ..Tokenizer::BPE },
    refuse: &[MASK],
    ..Checkpoint::TEXT
};

/// Whether the elements of rotated pairs are adjacent in the checkpoint; they are half a head apart in llama.cpp.
const INTERLEAVED: &str = "not (rope_is_neox_style|true)";

/// The names of the rows for such checkpoints.
const INTERLEAVED_NAMES: &[(&str, &str)] = &[
    ("self_attn.q_proj.", "self_attn.interleaved_q_proj."),
    ("self_attn.k_proj.", "self_attn.interleaved_k_proj."),
    ("self_attn.q_norm.", "self_attn.interleaved_q_norm."),
    ("self_attn.k_norm.", "self_attn.interleaved_k_norm."),
];

/// Rotary frequencies, which the model computes.
const FREQUENCIES: (&str, &str) = ("rotary_emb.inv_freq", "");

const MASK: (&str, &str) = ("@has_mask_embedding", "an embedding of the mask token in mask_embedding.pt");

const GEMMA_REFUSE: &[(&str, &str)] = &[
    ("not attention_k_eq_v", "keys that are not the values as well (attention_k_eq_v)"),
    ("layer_types != ['full_attention' for i]", "attention that is not full in every block (layer_types)"),
    (
        "(hidden_activation|'gelu_pytorch_tanh') != 'gelu_pytorch_tanh'",
        "a hidden_activation other than gelu_pytorch_tanh",
    ),
    ("attention_bias or enable_moe_block", "biases of attention or experts"),
    ("(draft_vocab_size or vocab_size) != vocab_size", "a draft_vocab_size other than vocab_size"),
    ("not @has_output and tie_word_embeddings != true", "a checkpoint without lm_head.weight"),
    (
        "(dflash_config.markov_head_type|markov_head_type|'vanilla') != 'vanilla'",
        "Markov heads that are not vanilla (markov_head_type)",
    ),
    ("final_logit_softcapping", "softcapping of logits (final_logit_softcapping)"),
    (
        "dflash_config.use_swa and (dflash_config.swa_window_size ?? 0) <= 0",
        "a swa_window_size that is not positive",
    ),
    (
        "rope_parameters and rope.rope_type == 'proportional'
            and (not (0 < (rope.partial_rotary_factor|0.25) and (rope.partial_rotary_factor|0.25) <= 1)
                or global_head_dim * (rope.partial_rotary_factor|0.25) != 2 * int(global_head_dim * (rope.partial_rotary_factor|0.25) / 2))",
        "a number of rotated elements that is not positive and even (partial_rotary_factor)",
    ),
    (
        "rope_parameters and not (rope.rope_type in ['default', 'proportional'])",
        "a rope_type other than default or proportional",
    ),
    MASK,
];

/// The rotary parameters are those for full attention.
const GEMMA_FIELDS: &[Key] = keys! {
    let rope = "rope if rope_parameters else {'rope_type': 'proportional', 'partial_rotary_factor': 0.25, 'rope_theta': 1000000.0}";
    let rope_all = "rope";
    let rotated = "int(global_head_dim * (rope.partial_rotary_factor|0.25) / 2)";
    let frequencies = "[1.0] * rotated + [1e30] * (global_head_dim // 2 - rotated) if rope.rope_type == 'proportional' else null";
};

const GEMMA_KEYS: &[Key] = keys! {
    "attention.head_count_kv" U32 = "num_global_key_value_heads";
    "attention.key_length" U32 = "global_head_dim";
    "attention.value_length" U32 = "global_head_dim";
    "rope.dimension_count" U32 = "global_head_dim";
    "embedding_scale" F32 = "hidden_size ** 0.5";
    "attention.scale" F32 = "1.0";
    "hidden_activation" Str = "'gelu_pytorch_tanh'";
    "sample_from_anchor" Bool = "sample_from_anchor|true";
    "target_layers" I32 = "[n + 1 for n in required(dflash_config.target_layer_ids|target_layer_ids)]";
    "has_confidence_head" Bool = "@has_confidence_head";
};

const GEMMA_MASK: &[Key] = keys! {
    "tokenizer.ggml.mask_token_id" U32 = "dflash_config.mask_token_id|mask_token_id";
};

const SPARK_FIELDS: &[Key] = keys! {
    let dflash_config = "dflash_config ?? ({'mask_token_id': mask_token_id|null, 'target_layer_ids': target_layer_ids|null}
        if aux_hidden_state_layer_ids == null
        else {'mask_token_id': mask_token_id|null, 'target_layer_ids': [n - 1 for n in aux_hidden_state_layer_ids]})";
};

const FIELDS: &[Key] = keys! {
    let flash = "dflash_config ?? {}";
    let target_rope = "@target.rope_parameters or @target.rope_scaling or {}";
    let head = "head_dim ?? hidden_size // num_attention_heads";
};

const KEYS: &[Key] = keys! {
    "rope.dimension_count" U32? = "null if rope_all.partial_rotary_factor == null else int(head * rope_all.partial_rotary_factor)";
    "attention.value_scale" F32? = "flash.attention_value_scale";
    "block_size" U32 = "flash.block_size ?? block_size ?? 16";
    "conv_kernel_size" U32? = "flash.conv_kernel_size";
    "conv_group_size" U32? = "flash.conv_group_size";
    "selector_rank" U32? = "flash.selector_rank";
    "selector_top_k" U32? = "flash.selector_top_k";
    "logit_scale" F32? = "flash.output_multiplier ?? output_multiplier";
    let softcap = "flash.final_logit_softcapping ?? final_logit_softcapping ?? 0.0";
    "final_logit_softcapping" F32? = "softcap if softcap > 0.0 else null";
    "embedding_scale" F32? = "flash.input_embedding_scale ?? input_embedding_scale";
    let seen = "flash.target_layer_ids ?? target_layer_ids ?? []";
    "target_layers" I32? = "[n + 1 for n in seen]";
    let window = "flash.swa_window_size or sliding_window";
    let slides = "window and (use_sliding_window or flash.use_swa)";
    "attention.sliding_window" U32? = "window if slides else null";
    "attention.sliding_window_pattern" Bool? = "null if not slides else [true for i] if flash.use_swa
        else [t == 'sliding_attention' for t in layer_types ?? []]";
    "attention.causal" Bool? = "is_causal ?? flash.causal";
    "rope.dimension_sections" I32? = "null if target_rope.mrope_section == null else [head // 2, 0, 0, 0]";
};

const SPARK_KEYS: &[Key] = keys! {
    "sample_from_anchor" Bool = "sample_from_anchor
        ?? (@config.transformer_layer_config == null and @config.aux_hidden_state_layer_ids == null)";
    "has_confidence_head" Bool = "@has_confidence_head";
};

const MASK_TOKEN: &[Key] = keys! {
    "tokenizer.ggml.mask_token_id" U32? = "dflash_config.mask_token_id";
};

const MUSE_MASK: &[Key] = keys! {
    "tokenizer.ggml.mask_token_id" U32? = "mask_token_id";
};

const MUSE_KEYS: &[Key] = keys! {
    "block_size" U32 = "block_size";
    "target_layers" I32 = "[n + 1 for n in target_layer_ids]";
    let slides = "sliding_window and layer_types";
    "attention.sliding_window" U32? = "sliding_window if slides else null";
    "attention.sliding_window_pattern" Bool? = "[t == 'sliding_attention' for t in layer_types] if slides else null";
};

/// Drafts of which it is unknown whether they have a Markov head.
const MAYBE_MARKOV: When = when!("not set(the first dimension of markov_w1)");

/// Drafts with a selector of tokens.
const SELECTOR: When = when!("has_selector");

/// Blocks without hyper-connections.
const UNMIXED: When = when!("not hyper_connection.count");

/// Weights of the convolutions of a draft: two for each group of elements and position.
const DRAFT_CONVS: Dim = dim!("2 * conv_kernel_size * (embedding_length / conv_group_size)");

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"           [Embd Vocab] Optional Always <- "embed_tokens";
    "output_norm.weight"          [Embd]       Required Always <- "norm";
    "output.weight"               [Embd DraftVocab] Optional Always <- "lm_head";
    "fc.weight"                   ["embedding_length * the number of target_layers" Embd] Required Always <- "fc | main_proj";
    "fc.scale"                    ["1"]        Optional Always;
    "enc.output_norm.weight"      [Embd]       Required Always <- "hidden_norm | main_norm";
    "d2t"                         [DraftVocab] Optional Always;
    "markov_w1.weight"            [Any Vocab]  Optional Always <- "markov_head.markov_w1";
    "markov_w2.weight"            ["the first dimension of markov_w1" DraftVocab] Required "the first dimension of markov_w1";
    "markov_w2.weight"            []           Optional MAYBE_MARKOV <- "markov_head.markov_w2";
    "markov_w2.scale"             ["1"]        Optional "the first dimension of markov_w1";
    "conf_proj.weight"            ["embedding_length + the first dimension of markov_w1" "1"] Optional "the first dimension of markov_w1" + Optional;
    "conf_proj.weight"            [Any "1"]    Optional MAYBE_MARKOV + Optional <- "confidence_head.proj";
    "selector_predecessor.weight" ["selector_rank" Vocab] Required SELECTOR <- "candidate_selector.predecessor_codebook";
    "selector_successor.weight"   ["selector_rank" Vocab] Required SELECTOR <- "candidate_selector.successor_codebook";
    "selector_hidden.weight"      [Embd "selector_rank"] Required SELECTOR <- "candidate_selector.hidden_projection";
    "output_hc_fn.weight"         [HyperEmbd Hyper] Required Mixed <- "hc_head_fn";
    "output_hc_base.weight"       [Hyper]      Required Mixed <- "hc_head_base";
    "output_hc_scale.weight"      ["1"]        Required Mixed <- "hc_head_scale";
    "rope_freqs.weight"           [HalfHead]   Optional Always;
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"            [Embd]       Required UNMIXED <- "input_layernorm";
    "ffn_norm.weight"             [Embd]       Required UNMIXED <- "post_attention_layernorm";
    "post_attention_norm.weight"  [Embd]       Optional UNMIXED <- "attention_post_norm";
    "post_ffw_norm.weight"        [Embd]       Optional UNMIXED <- "post_feedforward_layernorm";
    "layer_output_scale.weight"   ["1"]        Optional UNMIXED <- "layer_scalar";
    "attn_q.weight"               [Embd Q]     Required UNMIXED <- "self_attn.q_proj";
    "attn_k.weight"               [Embd K]     Required UNMIXED <- "self_attn.k_proj";
    "attn_q.weight"               [Embd Q]     Required UNMIXED <- "self_attn.interleaved_q_proj" : "(h i two) e -> (h two i) e";
    "attn_k.weight"               [Embd K]     Required UNMIXED <- "self_attn.interleaved_k_proj" : "(kv i two) e -> (kv two i) e";
    "attn_v.weight"               [Embd V]     Optional UNMIXED <- "self_attn.v_proj";
    "attn_output.weight"          [Q Embd]     Required UNMIXED <- "self_attn.o_proj";
    "attn_q_norm.weight"          [HeadK]      Required UNMIXED <- "self_attn.q_norm";
    "attn_k_norm.weight"          [HeadK]      Required UNMIXED <- "self_attn.k_norm";
    "attn_q_norm.weight"          [HeadK]      Required UNMIXED <- "self_attn.interleaved_q_norm" : "(i two) -> (two i)";
    "attn_k_norm.weight"          [HeadK]      Required UNMIXED <- "self_attn.interleaved_k_norm" : "(i two) -> (two i)";
    "attn_sinks.weight"           [Heads]      Optional UNMIXED <- "self_attn.sinks | self_attn.attention_sink_bias";
    "attn_conv_base"              [Embd "conv_kernel_size" "2"] Required SELECTOR <- "attention_conv.base_kernel";
    "attn_conv_proj.weight"       [Embd DRAFT_CONVS] Required SELECTOR <- "attention_conv.kernel_projection";
    "ffn_conv_base"               [Embd "conv_kernel_size" "2"] Required SELECTOR <- "mlp_conv.base_kernel";
    "ffn_conv_proj.weight"        [Embd DRAFT_CONVS] Required SELECTOR <- "mlp_conv.kernel_projection";
};

const ROUTER: &[Row] = rows! {
    "exp_probs_b.bias"            [Experts]    Required Mixed <- "ffn.gate.bias";
};
