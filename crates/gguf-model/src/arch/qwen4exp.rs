//! Qwen 3.8 Flash Next: the linear attention of Qwen 3.5, hyper-connections instead of norms, sparse attention with an
//! indexer, and n-gram embeddings in one block.
//!
//! Rules: `load_arch_tensors` in `src/models/qwen4exp.cpp` of llama.cpp, `Qwen4ExpTextModel` in `conversion/qwen4exp.py`.

use super::prelude::*;
use super::qwen3next;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["qwen4exp"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        qwen3next::LINEAR_KEYS,
        &[
            keys::ROPE_DIMENSION_SECTIONS,
            keys::HYPER_CONNECTION_COUNT,
            keys::HYPER_CONNECTION_LOW_RANK,
            keys::ATTENTION_INDEXER_HEAD_COUNT,
            keys::ATTENTION_INDEXER_KEY_LENGTH,
            keys::ATTENTION_INDEXER_TOP_K,
        ],
    ],
    optional: &[
        keys::ATTENTION_COMPRESS_RATIOS,
        keys::ATTENTION_RECURRENT_LAYERS,
        keys::EXPERT_FEED_FORWARD_LENGTH,
        keys::EXPERT_SHARED_FEED_FORWARD_LENGTH,
        keys::PLE_LAYERS,
    ],
    outside: &[OUTSIDE],
    block: &[
        STREAMS,
        qwen3next::BLOCK,
        qwen3next::APART,
        INDEXER,
        NGRAMS,
        QWEN_EXPERTS,
        QWEN_GATE_UP_EXPERTS,
        QWEN_SHARED_EXPERT,
    ],
    checkpoints: &[Checkpoint {
        classes: &["Qwen4ExpForConditionalGeneration", "Qwen4ExpForCausalLM"],
        names: &TensorNames {
            skip: &[("mtp.*", "")],
            outside_blocks: &[("layers.{}.ple.ple_embedding.", "ple_embedding.")],
            ..TensorNames::TEXT
        },
        refuse: &[("len(ple_layer_ids ?? []) > 1", "n-gram embeddings in more than one block")],
        facts: &TensorFacts {
            row_lens: &[("ngram_row_len", "*.ngram_embedding.shard_0.weight")],
            peeked: &[
                ("ngram_multipliers", "ple_embedding.layer_multipliers"),
                ("ngram_offsets", "ple_embedding.ngram_heads_offsets"),
                ("ngram_sizes", "ple_embedding.ngram_heads_vocab_sizes"),
            ],
            ..TensorFacts::NONE
        },
        keys: &[GENERIC, EXPERT_WIDTHS, qwen3next::KEYS, qwen3next::SECTIONS, KEYS],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "hyper_connection.count" U32 = "hc_count";
    "hyper_connection.low_rank" U32 = "hc_lowrank";
    "attention.indexer.head_count" U32 = "indexer_n_heads";
    "attention.indexer.key_length" U32 = "indexer_head_dim";
    "attention.indexer.top_k" U32 = "indexer_budget";
    "attention.compress_ratios" U32
        = "[required(indexer_compress_ratio) if layer_types[i] == 'full_attention' else 0 for i]";
    let has_ngrams = "len(required(ple_layer_ids)) > 0";
    "ple.layers" U32 = "[i - 1 for i in ple_layer_ids]";
    "ple.ngram_size" U32? = "required(ngram_size) if has_ngrams else null";
    "ple.heads_per_ngram" U32? = "required(heads_per_ngram) if has_ngrams else null";
    "ple.conv_kernel" U32? = "required(ple_conv_kernel_size) if has_ngrams else null";
    "ple.eos_token_id" U32? = "null if not has_ngrams else eos_token_id[-1] if is_list(eos_token_id ?? 0)
        else required(eos_token_id)";
    "ple.image_token_id" U32? = "image_token_id if has_ngrams else null";
    "embedding_length_per_layer_input" U32? = "@ngram_row_len if has_ngrams else null";
    "ple.layer_multipliers" U64? = "required(@ngram_multipliers) if has_ngrams else null";
    "ple.head_offsets" U64? = "required(@ngram_offsets) if has_ngrams else null";
    "ple.head_vocab_sizes" U64? = "required(@ngram_sizes) if has_ngrams else null";
};

/// Rank of the gates of hyper-connections.
const HYPER_RANK: Dim = dim!("hyper_connection.low_rank");

/// Blocks that add n-gram embeddings.
const NGRAM_BLOCK: When = when!("has_ngrams");

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"           [Embd Vocab]              Required Always <- "embed_tokens";
    "output_hc_norm.weight"       [HyperEmbd]               Required Always <- "hyper_connection_mixer.hc_norm", Map::Add(1.0);
    "output_hc_down.weight"       [HyperEmbd HYPER_RANK]     Required Always <- "hyper_connection_mixer.input_mix_weight_down";
    "output_hc_up.weight"         [HYPER_RANK HyperEmbd]     Required Always <- "hyper_connection_mixer.input_mix_weight_up";
    "output.weight"               [Embd Vocab]              Optional Always <- "lm_head";
    "per_layer_token_embd.weight" [PerLayer Any]            Required "the number of ple.layers"
        <- "ple_embedding.ngram_embedding.shard_{+split_ngram_parts}";
};

/// Hyper-connections before the attention and before the experts: a norm of all streams, a low-rank gate, and the
/// share of the result that each stream receives.
const STREAMS: &[Row] = rows! {
    "hc_attn_norm.weight"         [HyperEmbd]               Required Always <- "attn_hyper_connection.hc_norm", Map::Add(1.0);
    "hc_attn_down.weight"         [HyperEmbd HYPER_RANK]     Required Always <- "attn_hyper_connection.input_mix_weight_down";
    "hc_attn_up.weight"           [HYPER_RANK HyperEmbd]     Required Always <- "attn_hyper_connection.input_mix_weight_up";
    "hc_attn_inject.weight"       [HyperEmbd Hyper]         Required Always <- "attn_hyper_connection.block_inject_weight";
    "hc_ffn_norm.weight"          [HyperEmbd]               Required Always <- "mlp_hyper_connection.hc_norm", Map::Add(1.0);
    "hc_ffn_down.weight"          [HyperEmbd HYPER_RANK]     Required Always <- "mlp_hyper_connection.input_mix_weight_down";
    "hc_ffn_up.weight"            [HYPER_RANK HyperEmbd]     Required Always <- "mlp_hyper_connection.input_mix_weight_up";
    "hc_ffn_inject.weight"        [HyperEmbd Hyper]         Required Always <- "mlp_hyper_connection.block_inject_weight";
};

/// The indexer's queries and keys are fused.
const INDEXER: &[Row] = rows! {
    "indexer.q_proj.weight"       [Embd IndexerQ]           Required Attention <- "self_attn.indexer.index_qk_proj" : "r[:IndexerQ] ... -> r ...";
    "indexer.k_proj.weight"       [Embd IndexerKey]         Required Attention <- "self_attn.indexer.index_qk_proj" : "r[IndexerQ:] ... -> r ...";
    "indexer.q_norm.weight"       [IndexerKey]              Required Attention <- "self_attn.indexer.q_layernorm", Map::Add(1.0);
    "indexer.k_norm.weight"       [IndexerKey]              Required Attention <- "self_attn.indexer.k_layernorm", Map::Add(1.0);
};

/// The layers that mix in n-gram embeddings.
const NGRAMS: &[Row] = rows! {
    "ple_key.weight"              [Embd HyperEmbd]          Required NGRAM_BLOCK <- "ple.key_proj";
    "ple_value.weight"            [Embd Embd]               Required NGRAM_BLOCK <- "ple.value_proj";
    "ple_norm_key.weight"         [HyperEmbd]               Required NGRAM_BLOCK <- "ple.norm_key", Map::Add(1.0);
    "ple_norm_query.weight"       [HyperEmbd]               Required NGRAM_BLOCK <- "ple.norm_query", Map::Add(1.0);
    "ple_norm_conv.weight"        [HyperEmbd]               Required NGRAM_BLOCK <- "ple.norm_conv", Map::Add(1.0);
    "ple_conv1d.weight"           ["ple.conv_kernel" HyperEmbd]     Required NGRAM_BLOCK <- "ple.conv1d" : "c 1 k -> c k";
};
