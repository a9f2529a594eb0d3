//! Granite 4 and Bamba: Mamba 2 in most blocks, attention in the others, with or without experts. Models with
//! attention in all blocks use the plain Granite architectures.
//!
//! Rules: `load_arch_tensors` in `src/models/granite-hybrid.cpp` of llama.cpp, `GraniteHybridModel` in `conversion/granite.py`, which reads
//! `config.json` without the defaults of its class.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["granitehybrid"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        &[
            keys::SSM_CONV_KERNEL,
            keys::SSM_INNER_SIZE,
            keys::SSM_STATE_SIZE,
            keys::SSM_TIME_STEP_RANK,
            keys::SSM_GROUP_COUNT,
        ],
    ],
    optional: &[
        keys::ATTENTION_SCALE,
        keys::EMBEDDING_SCALE,
        keys::EXPERT_SHARED_FEED_FORWARD_LENGTH,
        keys::LOGIT_SCALE,
        keys::RESIDUAL_SCALE,
    ],
    outside: &[OUTSIDE, ROPE_FREQS],
    block: &[NORMS_OF_TWO, HYBRID_ATTENTION, MAMBA, FFN],
    checkpoints: &[Checkpoint { classes: CLASSES, keys: HYBRID_KEYS, ..HYBRID }],
};

/// The classes, and the condition under which no block has a state space.
const CLASSES: &[&str] = &["GraniteMoeHybridForCausalLM", "BambaForCausalLM"];

/// The checkpoints of these classes that use the plain Granite architectures.
pub(super) const ONLY_ATTENTION: Checkpoint = Checkpoint {
    classes: CLASSES,
    when: "all([t == 'attention' for t in layer_types] if layer_types else [i in attn_layer_indices for i] if attn_layer_indices
        else [i % (attn_layer_period or 1) == attn_layer_offset for i]) and (num_experts_per_tok|num_experts_per_token|null) == null",
    keys: HYBRID_KEYS,
    ..HYBRID
 };

/// The checkpoints of these classes that use the plain Granite architecture with experts.
pub(super) const ONLY_ATTENTION_EXPERTS: Checkpoint = Checkpoint {
    when: "all([t == 'attention' for t in layer_types] if layer_types else [i in attn_layer_indices for i] if attn_layer_indices
        else [i % (attn_layer_period or 1) == attn_layer_offset for i])",
    name: "granitemoe",
    ..ONLY_ATTENTION
 };

const HYBRID: Checkpoint = Checkpoint {
    refuse: &[
        (
            "not layer_types and not attn_layer_indices and (attn_layer_offset == null or not attn_layer_period)",
            "a model without layer_types, attn_layer_indices, or attn_layer_period with attn_layer_offset",
        ),
        ("(hidden_act ?? 'silu') != 'silu'", "a hidden_act other than silu"),
        (
            "((expand|num_heads|mamba_expand|mamba_num_heads) * (mamba_head_dim|hidden_size|d_model)) % (d_head|mamba_d_head or 64) != 0",
            "a state space that is not a multiple of d_head or 64 elements",
        ),
    ],
    names: &TensorNames { skip: GRANITE_SKIP, ..TensorNames::TEXT },
    tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE_OR_BPE, ..Tokenizer::BPE },
    computed: &[Computed::Llama3Freqs],
    is_raw: true,
    ..Checkpoint::TEXT
};

const HYBRID_KEYS: &[&[Key]] = &[GRANITE_FIELDS, GENERIC, GRANITE_KEYS, GRANITE_SHARED, FIELDS, KEYS, PADDED];

const FIELDS: &[Key] = keys! {
    let is_attention = "[t == 'attention' for t in layer_types] if layer_types else [i in attn_layer_indices for i] if attn_layer_indices
        else [i % attn_layer_period == attn_layer_offset for i]";
    let inner = "(expand|num_heads|mamba_expand|mamba_num_heads) * (mamba_head_dim|hidden_size|d_model)";
    let has_rope = "all(is_attention) or architectures[0] == 'BambaForCausalLM'";
};

/// The key-values of state spaces; fields may begin with `mamba_`.
pub(super) const KEYS: &[Key] = keys! {
    "ssm.conv_kernel" U32 = "conv_kernel|d_conv|mamba_conv_kernel|mamba_d_conv";
    "ssm.state_size" U32 = "state_size|d_state|state_dim|ssm_state_size|mamba_state_size|mamba_d_state|mamba_state_dim|mamba_ssm_state_size";
    "ssm.group_count" U32 = "n_groups|num_groups|mamba_n_groups|mamba_num_groups";
    "ssm.inner_size" U32 = "inner";
    "ssm.time_step_rank" U32 = "n_heads|num_heads|mamba_n_heads|mamba_num_heads";
    "rope.dimension_count" U32? = "attn_rotary_emb or null";
    "attention.head_count_kv" U32 = "[required(num_key_value_heads|n_head_kv) if a else 0 for a in is_attention]";
    "rope.scaling.finetuned" Bool = "has_rope";
    "context_length" U32? = "null if has_rope else 2 ** 20";
};

/// The vocabulary is padded in models with state spaces.
const PADDED: &[Key] = keys! {
    let vocab_size = "vocab_size if all(is_attention) else (vocab_size + 7) // 8 * 8";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"     [Embd Vocab]         Required Always <- "embed_tokens";
    "output_norm.weight"    [Embd]               Required Always <- "norm | final_layernorm";
    "output.weight"         [Embd Vocab]         Optional Always <- "lm_head";
};

const NORMS_OF_TWO: &[Row] = rows! {
    "attn_norm.weight"      [Embd]               Required Always <- "input_layernorm";
    "ffn_norm.weight"       [Embd]               Required Always <- "post_attention_layernorm | pre_ff_layernorm";
};

const HYBRID_ATTENTION: &[Row] = rows! {
    "attn_qkv.weight"       [Embd Qkv]           Optional Attention + Optional;
    "attn_q.weight"         [Embd Q]             UnlessFused Attention + Optional <- "self_attn.q_proj" : ROPE_Q;
    "attn_k.weight"         [Embd K]             UnlessFused Attention + Optional <- "self_attn.k_proj" : ROPE_K;
    "attn_v.weight"         [Embd V]             UnlessFused Attention + Optional <- "self_attn.v_proj";
    "attn_output.weight"    [Q Embd]             Required Attention + Optional <- "self_attn.o_proj";
};

const MAMBA: &[Row] = rows! {
    "ssm_in.weight"         [Embd SsmIn]         Required Recurrent <- "mamba.in_proj";
    "ssm_conv1d.weight"     [SsmConv SsmConvIn]  Required Recurrent <- "mamba.conv1d" : "c 1 k -> c k";
    "ssm_conv1d.bias"       [SsmConvIn]          Optional Recurrent <- "mamba.conv1d.bias";
    "ssm_dt.bias"           [SsmRank]            Required Recurrent <- "mamba.dt_bias";
    "ssm_a"                 ["1" SsmRank]        Required Recurrent <- "mamba.A_log" : "r -> r 1", Map::NegExp;
    "ssm_d"                 ["1" SsmRank]        Required Recurrent <- "mamba.D" : "r -> r 1";
    "ssm_norm.weight"       [SsmGroup SsmGroups] Required Recurrent <- "mamba.norm" : "(SsmGroups i) -> SsmGroups i";
    "ssm_out.weight"        [SsmInner Embd]      Required Recurrent <- "mamba.out_proj";
};

const FFN: &[Row] = rows! {
    "ffn_gate.weight"       [Embd Ff]            Required Dense + Optional <- "mlp.gate_proj | feed_forward.gate_proj";
    "ffn_up.weight"         [Embd Ff]            Required Dense + Optional <- "mlp.up_proj | feed_forward.up_proj";
    "ffn_down.weight"       [Ff Embd]            Required Dense + Optional <- "mlp.down_proj | feed_forward.down_proj";
    "ffn_gate.weight"       [Embd Ff]            Required Dense <- "shared_mlp.input_linear" : "(two[0] f) e -> f e";
    "ffn_up.weight"         [Embd Ff]            Required Dense <- "shared_mlp.input_linear" : "(two[1] f) e -> f e";
    "ffn_down.weight"       [Ff Embd]            Required Dense <- "shared_mlp.output_linear";
    "ffn_gate_inp.weight"   [Embd Experts]       Required Experts <- "block_sparse_moe.router.layer";
    "ffn_gate_exps.weight"  [Embd Ff Experts]    Optional Experts <- "block_sparse_moe.input_linear" : "x (two[0] f) e -> x f e";
    "ffn_up_exps.weight"    [Embd Ff Experts]    Required Experts <- "block_sparse_moe.input_linear" : "x (two[1] f) e -> x f e";
    "ffn_down_exps.weight"  [Ff Embd Experts]    Required Experts <- "block_sparse_moe.output_linear";
    "ffn_gate_shexp.weight" [Embd SharedFf]      Required SharedExpert <- "shared_mlp.input_linear" : "(two[0] f) e -> f e";
    "ffn_up_shexp.weight"   [Embd SharedFf]      Required SharedExpert <- "shared_mlp.input_linear" : "(two[1] f) e -> f e";
    "ffn_down_shexp.weight" [SharedFf Embd]      Required SharedExpert <- "shared_mlp.output_linear";
};
