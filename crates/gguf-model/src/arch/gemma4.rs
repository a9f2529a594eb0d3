//! Gemma 4: longer heads in blocks without a sliding window, blocks that share keys and values, per-block embeddings
//! in small models, experts beside the feed-forward part in one model.
//!
//! Rules: `load_arch_tensors` in `src/models/gemma4.cpp` of llama.cpp, `Gemma4Model`, `Gemma4UnifiedModel` and `Gemma4AssistantModel` in `conversion/gemma.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["gemma4"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        &[
            keys::ATTENTION_SLIDING_WINDOW_PATTERN,
            keys::ATTENTION_SLIDING_WINDOW,
            keys::EMBEDDING_LENGTH_PER_LAYER_INPUT,
            keys::ATTENTION_KEY_LENGTH_SWA,
            keys::ATTENTION_VALUE_LENGTH_SWA,
        ],
    ],
    optional: &[
        keys::ATTENTION_SHARED_KV_LAYERS,
        keys::EXPERT_FEED_FORWARD_LENGTH,
        keys::FINAL_LOGIT_SOFTCAPPING,
        keys::ROPE_FREQ_BASE_SWA,
    ],
    outside: &[OUTSIDE],
    block: &[BLOCK, EMBEDDINGS_OF_BLOCK, KEYS_AND_VALUES, EXPERTS_BESIDE],
    checkpoints: &[
        Checkpoint { classes: &["Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"], ..GEMMA4 },
        Checkpoint {
            classes: &["Gemma4UnifiedForConditionalGeneration"],
            keys: &[GENERIC, super::gemma3::KEYS, KEYS, SUPPRESSED],
            ..GEMMA4
        },
    ],
};

/// A draft of a few blocks that reuse the target model's keys and values.
pub(super) const ASSISTANT: Architecture = Architecture {
    names: &["gemma4-assistant"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        FEED_FORWARD_KEYS,
        &[
            keys::ATTENTION_SLIDING_WINDOW_PATTERN,
            keys::ATTENTION_SLIDING_WINDOW,
            keys::ATTENTION_KEY_LENGTH_SWA,
            keys::ATTENTION_VALUE_LENGTH_SWA,
        ],
    ],
    optional: &[keys::ATTENTION_SHARED_KV_LAYERS, keys::ROPE_FREQ_BASE_SWA],
    outside: &[OUTSIDE_OF_ASSISTANT],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Gemma4AssistantForCausalLM", "Gemma4UnifiedAssistantForCausalLM"],
        names: &TensorNames { skip: &[("*masked_embedding*", "")], ..*GEMMA4.names },
        refuse: &[
            NOT_PROPORTIONAL,
            ("backbone_hidden_size == hidden_size", "a target (backbone_hidden_size) of the same hidden_size"),
        ],
        keys: &[GENERIC, super::gemma3::KEYS, KEYS, BACKBONE],
        ..GEMMA4
    }],
};

/// The target model.
const BACKBONE: &[Key] = keys! {
    "embedding_length_out" U32 = "backbone_hidden_size";
    "nextn_predict_layers" U32 = "block_count";
};

/// Embeddings of all blocks.
const PER_LAYERS: Dim = dim!("embedding_length_per_layer_input * block_count");

/// Models with embeddings per block.
const WITH_PER_LAYER: When = when!("embedding_length_per_layer_input");

/// Elements of one head of a block, which depends on its window.
const LAYER_HEAD: Dim = dim!("attention.key_length_swa if attention.sliding_window_pattern else attention.key_length");

/// Elements of the queries of all heads of such a block.
const LAYER_Q: Dim = dim!(
    "attention.head_count * (attention.key_length_swa if attention.sliding_window_pattern else attention.key_length)"
);

/// Elements of the keys of all heads of such a block.
const LAYER_K: Dim = dim!(
    "attention.head_count_kv * (attention.key_length_swa if attention.sliding_window_pattern else attention.key_length)"
);

/// Elements of the values of all heads of such a block.
const LAYER_V: Dim = dim!(
    "attention.head_count_kv * (attention.value_length_swa if attention.sliding_window_pattern else attention.value_length)"
);

const OUTSIDE_OF_ASSISTANT: &[Row] = rows! {
    "rope_freqs.weight"            [HalfHead]           Optional Always;
    "token_embd.weight"            [Embd Vocab] Required Always <- "embed_tokens" : "t[:@vocab.rows] e -> t e";
    "masked_embd_centroids.weight" []           Optional Always;
    "masked_embd_ordering"         []           Optional Always;
    "output_norm.weight"           [Embd]       Required Always <- "norm";
    "nextn.pre_projection.weight"  ["2 * (embedding_length_out or embedding_length)" Embd] Required Always <- "pre_projection";
    "nextn.post_projection.weight" [Embd EmbdOut] Required Always <- "post_projection";
};

const NOT_PROPORTIONAL: (&str, &str) =
    ("rope.rope_type != 'proportional'", "a rope_type of full attention other than proportional");

const GEMMA4: Checkpoint = Checkpoint {
    refuse: &[NOT_PROPORTIONAL],
    keys: &[GENERIC, super::gemma3::KEYS, KEYS],
    tokenizer: &Tokenizer {
        vocab: Vocab::read_by(&[Reader::Gemma4]),
        keys: &[TOKENIZER],
        trims_embeddings: true,
        ..Tokenizer::BPE
    },
    computed: &[Computed::Values(
        "rope_freqs.weight",
        "[1.0] * int(rope.partial_rotary_factor * global_head_dim / 2)
            + [1e30] * (global_head_dim // 2 - int(rope.partial_rotary_factor * global_head_dim / 2))",
    )],
    ..Checkpoint::TEXT
};

const SUPPRESSED: &[Key] = keys! {
    "tokenizer.ggml.suppress_tokens" I32? = "@generation_config.suppress_tokens";
};

const TOKENIZER: &[Key] = keys! {
    "tokenizer.ggml.add_space_prefix" Bool = "false";
    "tokenizer.ggml.add_bos_token" Bool = "true";
};

const KEYS: &[Key] = keys! {
    let is_windowed = "[t == 'sliding_attention' for t in layer_types]";
    "attention.shared_kv_layers" U32 = "num_kv_shared_layers";
    "embedding_length_per_layer_input" U32 = "hidden_size_per_layer_input or 0";
    "attention.sliding_window_pattern" Bool = "is_windowed";
    "attention.key_length" U32 = "global_head_dim";
    "attention.value_length" U32 = "global_head_dim";
    "attention.key_length_swa" U32 = "head_dim";
    "attention.value_length_swa" U32 = "head_dim";
    "expert_feed_forward_length" U32? = "expert_intermediate_size|moe_intermediate_size";
    "feed_forward_length" U32? = "[intermediate_size if i < block_count - num_kv_shared_layers else 2 * intermediate_size for i]
        if use_double_wide_mlp else null";
    "attention.head_count_kv" U32? = "null if num_global_key_value_heads == null or num_key_value_heads == null
        else [num_key_value_heads if w else num_global_key_value_heads for w in is_windowed]";
    "rope.dimension_count" U32 = "int(global_head_dim)";
    "rope.dimension_count_swa" U32 = "int(head_dim * (rope_all.partial_rotary_factor|1.0))";
};

const OUTSIDE: &[Row] = rows! {
    "rope_freqs.weight"           [HalfHead]           Optional Always;
    "token_embd.weight"           [Embd Vocab] Required Always <- "embed_tokens" : "t[:@vocab.rows] e -> t e";
    "per_layer_token_embd.weight" [PER_LAYERS Vocab] Required WITH_PER_LAYER <- "embed_tokens_per_layer";
    "per_layer_model_proj.weight" [Embd PER_LAYERS] Required WITH_PER_LAYER <- "per_layer_model_projection";
    "per_layer_proj_norm.weight"  [PerLayer]   Required WITH_PER_LAYER <- "per_layer_projection_norm";
    "output_norm.weight"          [Embd]       Required Always <- "norm";
    "output.weight"               [Embd Vocab] Optional Always <- "lm_head";
};

/// The length of heads depends on the block.
const BLOCK: &[Row] = rows! {
    "attn_norm.weight"            [Embd]       Required Always <- "input_layernorm";
    "attn_q.weight"               [Embd LAYER_Q] Required Always <- "self_attn.q_proj";
    "attn_output.weight"          [LAYER_Q Embd] Required Always <- "self_attn.o_proj";
    "attn_q_norm.weight"          [LAYER_HEAD]  Required Always <- "self_attn.q_norm";
    "post_attention_norm.weight"  [Embd]       Required Always <- "post_attention_layernorm";
    "ffn_norm.weight"             [Embd]       Required Always <- "pre_feedforward_layernorm";
    "post_ffw_norm.weight"        [Embd]       Required Always <- "post_feedforward_layernorm";
    "ffn_gate.weight"             [Embd Ff]    Required Always <- "mlp.gate_proj";
    "ffn_up.weight"               [Embd Ff]    Required Always <- "mlp.up_proj";
    "ffn_down.weight"             [Ff Embd]    Required Always <- "mlp.down_proj";
    "layer_output_scale.weight"   ["1"]        Optional Always <- "layer_scalar";
};

/// Embeddings per block, which drafts do not have.
const EMBEDDINGS_OF_BLOCK: &[Row] = rows! {
    "inp_gate.weight"             [Embd PerLayer] Required WITH_PER_LAYER <- "per_layer_input_gate";
    "proj.weight"                 [PerLayer Embd] Required WITH_PER_LAYER <- "per_layer_projection";
    "post_norm.weight"            [Embd]       Required WITH_PER_LAYER <- "post_per_layer_input_norm";
};

/// Blocks at the end use the keys and values of earlier blocks.
const KEYS_AND_VALUES: &[Row] = rows! {
    "attn_k.weight"               [Embd LAYER_K] Required "has_own_keys" <- "self_attn.k_proj";
    "attn_k.weight"               [Embd LAYER_K] Optional "not has_own_keys" <- "self_attn.k_proj";
    "attn_v.weight"               [Embd LAYER_V] Optional Always <- "self_attn.v_proj";
    "attn_k_norm.weight"          [LAYER_HEAD] Required "has_own_keys" <- "self_attn.k_norm";
    "attn_k_norm.weight"          [LAYER_HEAD] Optional "not has_own_keys" <- "self_attn.k_norm";
};

const EXPERTS_BESIDE: &[Row] = rows! {
    "ffn_gate_inp.weight"         [Embd Experts] Optional Always <- "router.proj";
    "ffn_gate_inp.scale"          [Embd]         Optional Always <- "router.scale";
    "ffn_down_exps.scale"         [Experts]      Optional Always <- "router.per_expert_scale";
    "ffn_gate_up_exps.weight"     [Embd TwiceExpertFf Experts] Optional Always <- "experts.gate_up_proj";
    "ffn_gate_exps.weight"        [Embd ExpertFf Experts] Optional Always;
    "ffn_up_exps.weight"          [Embd ExpertFf Experts] Optional Always;
    "ffn_down_exps.weight"        [ExpertFf Embd Experts] Optional Always <- "experts.down_proj";
    "pre_ffw_norm_2.weight"       [Embd]         Optional Always <- "pre_feedforward_layernorm_2";
    "post_ffw_norm_1.weight"      [Embd]         Optional Always <- "post_feedforward_layernorm_1";
    "post_ffw_norm_2.weight"      [Embd]         Optional Always <- "post_feedforward_layernorm_2";
};
