//! Names in the expressions of sizes and conditions: keys without the name of the architecture, numbers that other keys and tensors
//! determine, and properties of blocks.

use crate::hparams::{Hparams, PerBlock};

/// A name in an expression.
pub(super) struct Name {
    /// The name.
    pub(super) text: &'static str,
    /// The key that it is about, if there is one.
    pub(super) key: Option<&'static str>,
    /// The value in a block; `None` if it is unknown.
    pub(super) of: fn(&Hparams<'_>, u64) -> Option<u64>,
}

macro_rules! names {
    (keys: $($key:literal |$h:pat_param, $b:pat_param| $of:expr;)*
     numbers: $($number:literal, $number_key:expr, |$nh:pat_param, $nb:pat_param| $n:expr;)*
     properties: $($property:literal |$ph:pat_param, $pb:pat_param| $is:expr;)*) => {
        /// All names that expressions of sizes and conditions can use.
        pub(super) const NAMES: &[Name] = &[
            $(Name { text: $key, key: Some($key), of: |$h, $b| $of },)*
            $(Name { text: $number, key: $number_key, of: |$nh, $nb| $n },)*
            $(Name { text: $property, key: None, of: |$ph, $pb| $is },)*
        ];
    };
}

names! {
    keys:
    // Sizes of a hidden state, of blocks and of the vocabulary.
    "block_count" |h, _| h.blocks;
    "context_length" |h, _| h.context;
    "embedding_length" |h, _| h.embd;
    "embedding_length_out" |h, _| h.embd_out;
    "embedding_length_per_layer_input" |h, _| h.per_layer_embd;
    "feed_forward_length" |h, b| h.ff?.get(b);
    "features_length" |h, _| h.features;
    "posnet.embedding_length" |h, _| h.posnet_embd;
    "convnext.embedding_length" |h, _| h.convnext_embd;
    "encoder.embedding_length" |h, _| h.encoder_embd;
    "encoder.context_length" |h, _| h.encoder_context;
    "encoder.mels_count" |h, _| h.mels;
    "dense_2_feat_out" |h, _| h.dense_2_out;
    "dense_3_feat_in" |h, _| h.dense_3_in;
    "tokenizer.ggml.token_type_count" |h, _| h.token_types;

    // Attention.
    "attention.head_count" |h, b| h.heads?.get(b);
    "attention.head_count_kv" |h, b| h.heads_kv?.get(b);
    "attention.key_length" |h, _| h.head_k;
    "attention.key_length_swa" |h, _| h.head_k_swa;
    "attention.key_length_mla" |h, _| h.head_k_mla;
    "attention.key_length_mla_swa" |h, _| h.head_k_mla_swa;
    "attention.value_length" |h, _| h.head_v;
    "attention.value_length_swa" |h, _| h.head_v_swa;
    "attention.value_length_mla" |h, _| h.head_v_mla;
    "attention.value_length_mla_swa" |h, _| h.head_v_mla_swa;
    "attention.q_lora_rank" |h, _| h.q_lora;
    "attention.kv_lora_rank" |h, _| h.kv_lora;
    "attention.kv_lora_rank_swa" |h, _| h.kv_lora_swa;
    "attention.output_group_count" |h, _| h.output_groups;
    "attention.output_lora_rank" |h, _| h.output_lora;
    "attention.compress_ratios" |h, b| h.compress_ratio(b);
    "attention.indexer.head_count" |h, _| h.indexer_heads;
    "attention.indexer.key_length" |h, _| h.indexer_key;
    "attention.relative_buckets_count" |h, _| h.buckets;
    "attention.sliding_window_pattern" |h, b| h.windowed.map(|listed| u64::from(PerBlock::Each(listed).flag(b)));
    "rope.dimension_count" |h, _| h.rot;
    "kda.head_dim" |h, _| h.kda_head;

    // Experts.
    "expert_count" |h, _| Some(h.experts);
    "expert_used_count" |h, b| h.experts_used?.get(b);
    "expert_feed_forward_length" |h, b| h.expert_ff(b);
    "expert_shared_count" |h, _| Some(h.shared_experts);
    "expert_shared_feed_forward_length" |h, _| h.shared_ff;
    "expert_chunk_feed_forward_length" |h, _| h.chunk_ff;
    "expert_latent_length" |h, _| h.expert_latent;
    "experts_per_group" |h, _| h.experts_per_group;
    "hash_layer_count" |h, _| Some(h.hash_blocks);
    "moe_latent_size" |h, _| h.moe_latent;

    // Recurrent blocks and convolutions.
    "attention.decay_lora_rank" |h, _| h.time_decay;
    "attention.gate_lora_rank" |h, _| h.gate_lora;
    "attention.iclr_lora_rank" |h, _| h.iclr;
    "attention.value_residual_mix_lora_rank" |h, _| h.value_mix;
    "shortconv.l_cache" |h, _| h.shortconv;
    "ssm.conv_kernel" |h, _| h.ssm_conv;
    "ssm.group_count" |h, _| h.ssm_groups;
    "ssm.inner_size" |h, _| h.ssm_inner;
    "ssm.state_size" |h, _| h.ssm_state;
    "ssm.time_step_rank" |h, _| h.ssm_rank;
    "time_decay_extra_dim" |h, _| h.time_decay;
    "time_mix_extra_dim" |h, _| h.time_mix;
    "wkv.head_size" |h, _| h.wkv_head;

    // Hyper-connections, n-gram embeddings, and built-in adapters.
    "adapters.count" |h, _| h.adapters;
    "adapters.lora_rank" |h, _| h.adapter_rank;
    "hyper_connection.count" |h, _| h.hyper;
    "hyper_connection.low_rank" |h, _| h.hyper_rank;
    "ple.conv_kernel" |h, _| h.ngram_conv;

    // Drafts.
    "conv_group_size" |h, _| h.draft_conv_group;
    "conv_kernel_size" |h, _| h.draft_conv;
    "norm_before_fc" |h, _| Some(u64::from(h.norms_before_fc));
    "selector_rank" |h, _| h.selector_rank;
    "target_hidden_size" |h, _| h.target_embd;

    numbers:
    "the number of tokens", None, |h, _| h.vocab;
    "the number of classifier.output_labels", Some("classifier.output_labels"), |h, _| Some(h.classes);
    "any length", None, |_, _| None;
    "the number of ple.layers", Some("ple.layers"), |h, _| h.ngram_blocks.map(|list| list.len());
    "the first dimension of markov_w1", None, |h, _| h.markov_rank;
    "the length of d2t, or the number of tokens", None, |h, _| h.draft_vocab;
    "the number of target_layers", Some("target_layers"), |h, _| h.target_layers;

    properties:
    // Properties of a block.
    "block" |_, b| Some(b);
    "has_experts" |h, b| Some(u64::from(h.has_experts(b)));
    "has_indexer" |h, b| Some(u64::from(h.has_indexer(b)));
    "has_ngrams" |h, b| Some(u64::from(h.has_ngrams(b)));
    "has_own_keys" |h, b| Some(u64::from(h.has_own_keys(b)));
    "has_weights" |h, b| Some(u64::from(h.stacked.is_none_or(|n| b < n)));
    "is_lightning" |h, b| Some(u64::from(h.is_lightning(b)));
    "is_mtp" |h, b| Some(u64::from(h.is_mtp(b)));
    "is_recurrent" |h, b| Some(u64::from(h.is_recurrent(b)));
    "is_windowed" |h, b| Some(u64::from(h.is_windowed(b)));

    // Properties of a model.
    "has_selector" |h, _| Some(u64::from(h.has_selector.unwrap_or(h.draft_conv.is_some())));
    "is_stretched" |h, _| Some(u64::from(h.stretched));
}
