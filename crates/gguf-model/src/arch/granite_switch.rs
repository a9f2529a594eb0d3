//! Granite Switch: a dense Granite with several adapters; each token uses one. The first adapter is all zeros.
//!
//! Rules: `load_arch_tensors` in `src/models/granite-switch.cpp` of llama.cpp, `GraniteSwitchModel` in `conversion/granite.py`. The last of
//! the blocks in `config.json` is the switch, which has no weights.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["graniteswitch"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        FEED_FORWARD_KEYS,
        &[
            keys::LOGIT_SCALE,
            keys::ADAPTERS_COUNT,
            keys::ADAPTERS_LORA_RANK,
            keys::ADAPTERS_TOKEN_IDS_ACTIVATE,
            keys::ADAPTERS_TOKEN_IDS_SUBSTITUTE,
        ],
    ],
    optional: &[
        keys::ADAPTERS_ROUTER_GAIN,
        keys::ATTENTION_SCALE,
        keys::EMBEDDING_SCALE,
        keys::EXPERT_SHARED_FEED_FORWARD_LENGTH,
        keys::RESIDUAL_SCALE,
    ],
    outside: &[EMBEDDINGS],
    block: &[NORMS, BLOCK, ADAPTERS],
    checkpoints: &[Checkpoint {
        classes: &["GraniteSwitchForCausalLM"],
        names: &TensorNames {
            skip: &[
                ("switch.*", ""),
                ("*adapter_token_ids", ""),
                ("*control_to_substitute_lut", ""),
                ("lm_head.weight", ""),
            ],
            ..TensorNames::TEXT
        },
        keys: &[GRANITE_FIELDS, FIELDS, GENERIC, GRANITE_KEYS, GRANITE_SHARED, KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::LLAMA, ..Tokenizer::BPE },
        computed: &[Computed::Llama3Freqs],
        ..Checkpoint::TEXT
    }],
};

const FIELDS: &[Key] = keys! {
    let block_count = "num_hidden_layers - 1";
};

const KEYS: &[Key] = keys! {
    "expert_used_count" U32? = "null if num_local_experts else 0";
    "adapters.count" U32 = "num_adapters";
    "adapters.lora_rank" U32 = "max_lora_rank";
    "adapters.token_ids_activate" I32 = "adapter_token_ids";
    "adapters.token_ids_substitute" I32 = "adapter_substitute_token_ids";
    "adapters.router_gain" F32 = "control_token_gain|15.0";
};

/// Rank of the built-in adapters.
const ADAPTER_RANK: Dim = dim!("adapters.lora_rank");

/// Built-in adapters, and an empty one.
const ADAPTER_SLOTS: Dim = dim!("adapters.count + 1");

const BLOCK: &[Row] = rows! {
    "attn_qkv.weight"    [Embd QkvOfKeys] Required Always <- "self_attn.qkv_proj.base_layer" : QKV;
    "attn_output.weight" [Q Embd]    Required Always <- "self_attn.o_proj.base_layer";
    "ffn_gate.weight"    [Embd Ff]   Required Always <- "shared_mlp.input_linear.base_layer" : "(two[0] f) e -> f e";
    "ffn_up.weight"      [Embd Ff]   Required Always <- "shared_mlp.input_linear.base_layer" : "(two[1] f) e -> f e";
    "ffn_down.weight"    [Ff Embd]   Required Always <- "shared_mlp.output_linear.base_layer";
};

/// Makes rotated pairs adjacent in queries and keys.
const QKV: &str = "(g two HalfHead) ... -> (g[:h+kv] HalfHead two) ... + (g[h+kv:] two HalfHead) ...";

/// The adapters, preceded by an all-zero one.
const ADAPTERS: &[Row] = rows! {
    "attn_q.lora_a"      [Embd ADAPTER_RANK ADAPTER_SLOTS] Required Always <- "self_attn.qkv_proj.lora_A_slices.0" : PLAIN, Map::ZeroRows(1);
    "attn_k.lora_a"      [Embd ADAPTER_RANK ADAPTER_SLOTS] Required Always <- "self_attn.qkv_proj.lora_A_slices.1" : PLAIN, Map::ZeroRows(1);
    "attn_v.lora_a"      [Embd ADAPTER_RANK ADAPTER_SLOTS] Required Always <- "self_attn.qkv_proj.lora_A_slices.2" : PLAIN, Map::ZeroRows(1);
    "attn_q.lora_b"      [ADAPTER_RANK Q ADAPTER_SLOTS] Required Always <- "self_attn.qkv_proj.lora_B_slices.0" : QUERIES, Map::ZeroRows(1);
    "attn_k.lora_b"      [ADAPTER_RANK K ADAPTER_SLOTS] Required Always <- "self_attn.qkv_proj.lora_B_slices.1" : KEYS_OF, Map::ZeroRows(1);
    "attn_v.lora_b"      [ADAPTER_RANK K ADAPTER_SLOTS] Required Always <- "self_attn.qkv_proj.lora_B_slices.2" : PLAIN, Map::ZeroRows(1);
    "attn_output.lora_a" [Q ADAPTER_RANK ADAPTER_SLOTS] Required Always <- "self_attn.o_proj.lora_A" : PLAIN, Map::ZeroRows(1);
    "attn_output.lora_b" [ADAPTER_RANK Embd ADAPTER_SLOTS] Required Always <- "self_attn.o_proj.lora_B" : PLAIN, Map::ZeroRows(1);
    "ffn_gate.lora_a"    [Embd ADAPTER_RANK ADAPTER_SLOTS] Required Always <- "shared_mlp.input_linear.lora_A_slices.0" : PLAIN, Map::ZeroRows(1);
    "ffn_up.lora_a"      [Embd ADAPTER_RANK ADAPTER_SLOTS] Required Always <- "shared_mlp.input_linear.lora_A_slices.1" : PLAIN, Map::ZeroRows(1);
    "ffn_gate.lora_b"    [ADAPTER_RANK Ff ADAPTER_SLOTS] Required Always <- "shared_mlp.input_linear.lora_B_slices.0" : PLAIN, Map::ZeroRows(1);
    "ffn_up.lora_b"      [ADAPTER_RANK Ff ADAPTER_SLOTS] Required Always <- "shared_mlp.input_linear.lora_B_slices.1" : PLAIN, Map::ZeroRows(1);
    "ffn_down.lora_a"    [Ff ADAPTER_RANK ADAPTER_SLOTS] Required Always <- "shared_mlp.output_linear.lora_A" : PLAIN, Map::ZeroRows(1);
    "ffn_down.lora_b"    [ADAPTER_RANK Embd ADAPTER_SLOTS] Required Always <- "shared_mlp.output_linear.lora_B" : PLAIN, Map::ZeroRows(1);
};

/// Duplicates the first adapter as a placeholder for the all-zero one.
const PLAIN: &str = "n 1 r e -> n[:1] r e + n r e";

/// As [`PLAIN`], with rotated pairs of queries made adjacent.
const QUERIES: &str = "n 1 (h two i) r -> n[:1] (h two i) r + n (h i two) r";

/// As [`QUERIES`], for keys.
const KEYS_OF: &str = "n 1 (kv two i) r -> n[:1] (kv two i) r + n (kv i two) r";
