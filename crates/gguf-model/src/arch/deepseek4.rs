//! DeepSeek 4: attention to compressed positions, hyper-connections, experts with 4-bit float weights, selected by
//! token id in the first blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/deepseek4.cpp` of llama.cpp, `DeepseekV4Model` in
//! `conversion/deepseek.py`. Matrices keep the types of the checkpoint. MTP blocks are
//! omitted.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["deepseek4"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        &[
            keys::ATTENTION_Q_LORA_RANK,
            keys::ATTENTION_SLIDING_WINDOW,
            keys::EXPERT_FEED_FORWARD_LENGTH,
            keys::EXPERT_SHARED_COUNT,
            keys::EXPERT_WEIGHTS_SCALE,
            keys::EXPERT_WEIGHTS_NORM,
            keys::SWIGLU_CLAMP_EXP,
            keys::ATTENTION_INDEXER_HEAD_COUNT,
            keys::ATTENTION_INDEXER_KEY_LENGTH,
            keys::ATTENTION_INDEXER_TOP_K,
            keys::ATTENTION_OUTPUT_GROUP_COUNT,
            keys::ATTENTION_OUTPUT_LORA_RANK,
            keys::ATTENTION_COMPRESS_ROPE_FREQ_BASE,
            keys::HYPER_CONNECTION_COUNT,
            keys::HYPER_CONNECTION_SINKHORN_ITERATIONS,
            keys::HYPER_CONNECTION_EPSILON,
            keys::HASH_LAYER_COUNT,
            keys::ATTENTION_COMPRESS_RATIOS,
            keys::EXPERT_GATING_FUNC,
        ],
    ],
    optional: &[keys::SWIGLU_CLAMP_SHEXP],
    outside: &[OUTSIDE],
    block: &[BLOCK, COMPRESSOR, ROUTER, FEED_FORWARD, MTP],
    checkpoints: &[Checkpoint {
        classes: &["DeepseekV4ForCausalLM"],
        names: &TensorNames {
            skip: &[
                ("mtp.*", ""),
                ("aligner.*", ""),
                ("image_*", ""),
                ("layers.*.ffn.gate.bias", "[i < num_hash_layers for i]"),
            ],
            ..*DEEPSEEK4.names
        },
        separates_mtp: true,
        refuse: &[("@mtp == 'only'", "a file of only the MTP blocks")],
        keys: &[ROPE, GENERIC, KEYS, EMBEDDING_OUT],
        ..DEEPSEEK4
    }],
};

/// Defaults of models and drafts.
const DEEPSEEK4: Checkpoint = Checkpoint {
    early_keys: &[TEMPLATE],
    types: &StoredTypes { keeps_types: true, ..StoredTypes::ASKED },
    ..Checkpoint::TEXT
};

/// The draft in the blocks after the model's own, converted to a draft architecture (`DeepseekV4DSparkModel`).
pub(super) const DRAFT: Checkpoint = Checkpoint {
    classes: &["DeepseekV4DSparkModel"],
    is_draft: true,
    names: &TensorNames {
        skip: &[
            ("^layers.*", ""),
            ("^embed.*", ""),
            ("^head.*", ""),
            ("^norm.*", ""),
            ("^hc_head_*", ""),
            ("^aligner.*", ""),
            ("^image_*", ""),
            ("*.ffn.gate.bias_vl", ""),
            ("*.ffn.gate.tid2eid", ""),
        ],
        appended: &[
            ("mtp.{}.main_proj.", "main_proj."),
            ("mtp.{}.main_norm.", "main_norm."),
            ("mtp.{}.markov_head.", "markov_head."),
            ("mtp.{}.confidence_head.", "confidence_head."),
            ("mtp.{}.norm.", "norm."),
            ("mtp.{}.hc_head_", "hc_head_"),
            ("mtp.{}.", "layers.{0}."),
        ],
        ..*DEEPSEEK4.names
    },
    keys: &[DRAFT_FIELDS, ROPE, GENERIC, KEYS, DRAFT_KEYS],
    tokenizer: &Tokenizer { keys: &[DRAFT_TOKENIZER], ..*DEEPSEEK4.tokenizer },
    ..DEEPSEEK4
};

/// If the rotary parameters have no type, as in newer configurations, those of `rope_scaling` in the file are added.
const ROPE: &[Key] = keys! {
    let scaling = "@config.rope_scaling if rope.rope_type == null else null";
    let scaling = "null if scaling == null else merge({'rope_type': scaling.type|null}, scaling)";
    let rope = "rope if scaling == null else merge(rope, scaling)";
    let rope_all = "rope_all if scaling == null else merge(rope_all, scaling)";
};

/// All blocks of a draft have plain sliding-window attention and select experts by score.
const DRAFT_FIELDS: &[Key] = keys! {
    let block_count = "@appended_blocks";
    let compress_ratios = "[0 for i]";
    let num_hash_layers = "0";
};

const DRAFT_KEYS: &[Key] = keys! {
    "block_size" U32 = "dspark_block_size";
    "target_layers" I32 = "[n + 1 for n in dspark_target_layer_ids]";
};

const DRAFT_TOKENIZER: &[Key] = keys! {
    "tokenizer.ggml.mask_token_id" U32 = "dspark_noise_token_id";
};

/// The chat template, unless the tokenizer files have one.
const TEMPLATE: &[Key] = keys! {
    "tokenizer.chat_template" Str = "template('deepseek-v4-0731' if '0731' in @folder else 'deepseek-v4')";
};

const KEYS: &[Key] = keys! {
    "rope.dimension_count" U32 = "qk_rope_head_dim";
    "attention.q_lora_rank" U32 = "q_lora_rank";
    "attention.sliding_window" U32 = "sliding_window";
    "expert_feed_forward_length" U32 = "moe_intermediate_size";
    "expert_shared_count" U32 = "n_shared_experts";
    "expert_weights_scale" F32 = "routed_scaling_factor";
    "expert_weights_norm" Bool = "norm_topk_prob";
    "swiglu_clamp_exp" F32 = "[swiglu_limit for i]";
    "swiglu_clamp_shexp" F32 = "[swiglu_limit for i]";
    "attention.indexer.head_count" U32 = "index_n_heads";
    "attention.indexer.key_length" U32 = "index_head_dim";
    "attention.indexer.top_k" U32 = "index_topk";
    "attention.output_group_count" U32 = "o_groups";
    "attention.output_lora_rank" U32 = "o_lora_rank";
    "attention.compress_ratios" U32 = "compress_ratios";
    "attention.compress_rope_freq_base" F32 = "compress_rope_theta";
    "hyper_connection.count" U32 = "hc_mult";
    "hyper_connection.sinkhorn_iterations" U32 = "hc_sinkhorn_iters";
    "hyper_connection.epsilon" F32 = "hc_eps";
    "hash_layer_count" U32 = "num_hash_layers";
};

const EMBEDDING_OUT: &[Key] = keys! {
    "embedding_length_out" U32 = "hidden_size * hc_mult";
};

/// Ranks of the output projections of all groups of heads, summed.
const GROUPS_LORA: Dim = dim!("attention.output_group_count * attention.output_lora_rank");

/// Elements of compressed keys; keys overlap, and are twice as long, in blocks with an indexer.
const COMPRESSED: Dim = dim!("attention.key_length * (2 if attention.compress_ratios == 4 else 1)");

/// Blocks whose attention compresses positions.
const COMPRESSED_BLOCKS: When = when!("attention.compress_ratios");

/// Blocks with an indexer that selects among compressed positions.
const INDEXED: When = when!("attention.compress_ratios == 4");

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"      [Embd Vocab]      Required Always <- "embed";
    "output_norm.weight"     [Embd]            Required Always <- "norm";
    "output.weight"          [Embd Vocab]      Required Always <- "head";
    "output_hc_fn.weight"    [HyperEmbd Hyper] Required Always <- "hc_head_fn";
    "output_hc_base.weight"  [Hyper]           Required Always <- "hc_head_base";
    "output_hc_scale.weight" ["1"]             Required Always <- "hc_head_scale";
};

/// Attention and hyper-connections.
pub(super) const BLOCK: &[Row] = rows! {
    "attn_norm.weight"       [Embd]               Required Mixed  <- "attn_norm";
    "attn_sinks.weight"      [Heads]              Required Mixed  <- "attn.attn_sink";
    "attn_q_a.weight"        [Embd QLora]         Required Mixed  <- "attn.wq_a";
    "attn_q_a_norm.weight"   [QLora]              Required Mixed  <- "attn.q_norm";
    "attn_q_b.weight"        [QLora Q]            Required Mixed  <- "attn.wq_b";
    "attn_kv.weight"         [Embd HeadK]         Required Mixed  <- "attn.wkv";
    "attn_kv_a_norm.weight"  [HeadK]              Required Mixed  <- "attn.kv_norm";
    "attn_output_a.weight"   ["attention.head_count * attention.key_length / attention.output_group_count" GROUPS_LORA]  Required Mixed  <- "attn.wo_a";
    "attn_output_b.weight"   [GROUPS_LORA Embd]    Required Mixed  <- "attn.wo_b";
    "hc_attn_fn.weight"      [HyperEmbd HyperMix] Required Mixed  <- "hc_attn_fn";
    "hc_attn_base.weight"    [HyperMix]           Required Mixed  <- "hc_attn_base";
    "hc_attn_scale.weight"   ["3"]              Required Mixed  <- "hc_attn_scale";
    "hc_ffn_fn.weight"       [HyperEmbd HyperMix] Required Mixed  <- "hc_ffn_fn";
    "hc_ffn_base.weight"     [HyperMix]           Required Mixed  <- "hc_ffn_base";
    "hc_ffn_scale.weight"    ["3"]              Required Mixed  <- "hc_ffn_scale";
};

const COMPRESSOR: &[Row] = rows! {
    "attn_compressor_kv.weight"      [Embd COMPRESSED]       Required COMPRESSED_BLOCKS <- "attn.compressor.wkv";
    "attn_compressor_gate.weight"    [Embd COMPRESSED]       Required COMPRESSED_BLOCKS <- "attn.compressor.wgate";
    "attn_compressor_ape.weight"     [COMPRESSED "attention.compress_ratios"]      Required COMPRESSED_BLOCKS <- "attn.compressor.ape";
    "attn_compressor_norm.weight"    [HeadK]                 Required COMPRESSED_BLOCKS <- "attn.compressor.norm";
    "indexer.proj.weight"            [Embd IndexerHeads]     Required INDEXED <- "attn.indexer.weights_proj";
    "indexer.attn_q_b.weight"        [QLora IndexerQ]        Required INDEXED <- "attn.indexer.wq_b";
    "indexer_compressor_kv.weight"   [Embd "2 * attention.indexer.key_length"]  Required INDEXED <- "attn.indexer.compressor.wkv";
    "indexer_compressor_gate.weight" [Embd "2 * attention.indexer.key_length"]  Required INDEXED <- "attn.indexer.compressor.wgate";
    "indexer_compressor_ape.weight"  ["2 * attention.indexer.key_length" "attention.compress_ratios"] Required INDEXED <- "attn.indexer.compressor.ape";
    "indexer_compressor_norm.weight" [IndexerKey]            Required INDEXED <- "attn.indexer.compressor.norm";
};

const ROUTER: &[Row] = rows! {
    "ffn_gate_tid2eid.weight" ["expert_used_count" Vocab] Required "block < hash_layer_count" <- "ffn.gate.tid2eid" => RowOp::Integers;
    "exp_probs_b.bias"        [Experts]           Required "block >= hash_layer_count" <- "ffn.gate.bias";
    "exp_probs_b_vl.bias"     [Experts]           Optional Always <- "ffn.gate.bias_vl";
};

pub(super) const FEED_FORWARD: &[Row] = rows! {
    "ffn_norm.weight"        [Embd]                  Required Mixed  <- "ffn_norm";
    "ffn_gate_inp.weight"    [Embd Experts]          Required Mixed  <- "ffn.gate";
    "ffn_gate_exps.weight"   [Embd ExpertFf Experts] Required Mixed  <- "ffn.experts.{x}.w1";
    "ffn_down_exps.weight"   [ExpertFf Embd Experts] Required Mixed  <- "ffn.experts.{x}.w2";
    "ffn_up_exps.weight"     [Embd ExpertFf Experts] Required Mixed  <- "ffn.experts.{x}.w3";
    "ffn_gate_shexp.weight"  [Embd SharedExpertsFf]  Required Mixed  <- "ffn.shared_experts.w1";
    "ffn_down_shexp.weight"  [SharedExpertsFf Embd]  Required Mixed  <- "ffn.shared_experts.w2";
    "ffn_up_shexp.weight"    [Embd SharedExpertsFf]  Required Mixed  <- "ffn.shared_experts.w3";
};

const MTP: &[Row] = rows! {
    "nextn.eh_proj.weight"          [TwiceEmbd Embd] Optional Mtp <- "nextn.eh_proj";
    "nextn.enorm.weight"            [Embd]           Optional Mtp <- "nextn.enorm";
    "nextn.hnorm.weight"            [Embd]           Optional Mtp <- "nextn.hnorm";
    "nextn.embed_tokens.weight"     [Embd Vocab]     Optional Mtp <- "nextn.embed_tokens";
    "nextn.shared_head_head.weight" [Embd Vocab]     Optional Mtp <- "nextn.shared_head_head";
    "nextn.shared_head_norm.weight" [Embd]           Optional Mtp <- "nextn.shared_head_norm";
};
