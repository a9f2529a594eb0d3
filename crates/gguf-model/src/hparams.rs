//! Hyperparameters of a network, read from its keys.

use gguf_format::keys;
use gguf_format::{ArrayRef, FromValue, ValueRef};

use crate::stack::Stack;

/// The largest number of blocks that llama.cpp supports (`LLAMA_MAX_LAYERS` in `llama-hparams.h`).
pub const MAX_BLOCKS: u64 = 512;

/// The largest number of experts that llama.cpp supports (`LLAMA_MAX_EXPERTS` in `llama-hparams.h`).
pub const MAX_EXPERTS: u64 = 1024;

/// A number that is either the same in all blocks or listed per block.
#[non_exhaustive]
#[derive(Debug, Clone, Copy)]
pub enum PerBlock<'g> {
    /// One value for all blocks.
    Same(u64),
    /// A value for each block.
    Each(ArrayRef<'g>),
}

impl<'g> PerBlock<'g> {
    /// Creates it from a number or an array; `None` for any other value.
    pub fn new(value: ValueRef<'g>) -> Option<PerBlock<'g>> {
        match value {
            ValueRef::Array(a) => Some(PerBlock::Each(a)),
            value => value.get().ok().map(PerBlock::Same),
        }
    }

    /// The number for block `i`. Negative numbers of 32 bits are those without sign with the same bits, as in llama.cpp (`get_key_or_arr`).
    pub fn get(&self, i: u64) -> Option<u64> {
        match self {
            PerBlock::Same(n) => Some(*n),
            PerBlock::Each(a) => match a.get(i)? {
                ValueRef::Bool(flag) => Some(u64::from(flag)),
                ValueRef::I32(n) => Some(u64::from(n.cast_unsigned())),
                value => value.get().ok(),
            },
        }
    }

    /// Whether the number for block `i` is set and not 0.
    pub fn flag(&self, i: u64) -> bool {
        self.get(i).is_some_and(|n| n != 0)
    }

    /// The number, if it is the same in all blocks.
    pub fn same(&self) -> Option<u64> {
        match self {
            PerBlock::Same(n) => Some(*n),
            PerBlock::Each(_) => None,
        }
    }
}

/// Hyperparameters. Missing and invalid keys yield `None`.
///
/// ```
/// use gguf_format::{Gguf, Head, keys};
/// use gguf_model::Hparams;
///
/// let mut head = Head::default();
/// head.set("general.architecture", "llama");
/// head.set("llama.embedding_length", 4096u32);
/// head.set("llama.attention.head_count", 32u32);
/// let bytes = head.encode()?;
/// let gguf = Gguf::parse(&bytes)?;
/// let hparams = Hparams::new(|key| gguf.get(&keys::for_arch(key, "llama")));
/// // By default, the heads share the elements of a hidden state.
/// assert_eq!(hparams.head_k, Some(128));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Hparams<'g> {
    /// Number of blocks; in models with an encoder and a decoder, those of the encoder.
    pub blocks: Option<u64>,
    /// Number of blocks of the decoder, if any.
    pub decoder_blocks: Option<u64>,
    /// Number of ConvNeXt blocks.
    pub convnext_blocks: Option<u64>,
    /// Elements of a hidden state.
    pub embd: Option<u64>,
    /// Heads of queries.
    pub heads: Option<PerBlock<'g>>,
    /// Heads of keys and values.
    pub heads_kv: Option<PerBlock<'g>>,
    /// Width of the feed-forward part.
    pub ff: Option<PerBlock<'g>>,
    /// Elements of one head of keys.
    pub head_k: Option<u64>,
    /// Elements of one head of values.
    pub head_v: Option<u64>,
    /// Rotated elements of a head.
    pub rot: Option<u64>,
    /// Whether rotary frequencies have factors for long and short texts.
    pub stretched: bool,
    /// Number of experts.
    pub experts: u64,
    /// Number of experts used per token.
    pub experts_used: Option<PerBlock<'g>>,
    /// Experts per group; each group shares one additional expert.
    pub experts_per_group: Option<u64>,
    /// Width of the feed-forward part of the expert that a group shares.
    pub chunk_ff: Option<u64>,
    /// Width of the feed-forward part of the shared expert.
    pub shared_ff: Option<u64>,
    /// Width of the feed-forward part of an expert.
    pub expert_ff: Option<PerBlock<'g>>,
    /// Number of experts that all tokens use.
    pub shared_experts: u64,
    /// Number of leading blocks without experts.
    pub leading_dense: u64,
    /// Interval of blocks with experts, if not all blocks have experts; 0 if none have.
    pub expert_step: Option<u64>,
    /// Rank of the query projection in latent attention.
    pub q_lora: Option<u64>,
    /// Rank of the key and value projection in latent attention.
    pub kv_lora: Option<u64>,
    /// Positions.
    pub context: Option<u64>,
    /// Number of tokens: the length of the token list, or the value of the key for it.
    pub vocab: Option<u64>,
    /// Kernel size of the convolution before a state space.
    pub ssm_conv: Option<u64>,
    /// Width of a state space.
    pub ssm_inner: Option<u64>,
    /// State size per channel of a state space.
    pub ssm_state: Option<u64>,
    /// Rank of the time steps; heads in Mamba 2.
    pub ssm_rank: Option<u64>,
    /// Groups of heads that share input and output projections (B and C).
    pub ssm_groups: Option<u64>,
    /// Elements of a hidden state of the encoder, if it has separate keys.
    pub encoder_embd: Option<u64>,
    /// Positions of the encoder, if it has separate keys.
    pub encoder_context: Option<u64>,
    /// Elements of the output of the model, if they differ from `embd`.
    pub embd_out: Option<u64>,
    /// Number of labels of a classifier.
    pub classes: u64,
    /// Outputs of the first dense module after the pooling.
    pub dense_2_out: Option<u64>,
    /// Inputs of the last dense module after the pooling.
    pub dense_3_in: Option<u64>,
    /// Elements of an embedding per block.
    pub per_layer_embd: Option<u64>,
    /// Number of trailing blocks that use the keys and values of earlier blocks.
    pub shared_kv: u64,
    /// Elements of one head of keys in blocks with sliding-window attention.
    pub head_k_swa: Option<u64>,
    /// Elements of one head of values in blocks with sliding-window attention.
    pub head_v_swa: Option<u64>,
    /// Rank of the key and value projection in blocks with sliding-window attention.
    pub kv_lora_swa: Option<u64>,
    /// Elements of one head of keys of latent attention in blocks with sliding-window attention.
    pub head_k_mla_swa: Option<u64>,
    /// Elements of one head of values of latent attention in blocks with sliding-window attention.
    pub head_v_mla_swa: Option<u64>,
    /// Rank of the built-in adapters.
    pub adapter_rank: Option<u64>,
    /// Number of built-in adapters.
    pub adapters: Option<u64>,
    /// Elements of a hidden state of a draft's target.
    pub target_embd: Option<u64>,
    /// Number of blocks of the target that a draft reads.
    pub target_layers: Option<u64>,
    /// Width of the input features of an audio decoder.
    pub features: Option<u64>,
    /// Elements of a hidden state of PosNet.
    pub posnet_embd: Option<u64>,
    /// Elements of a hidden state of the ConvNeXt blocks.
    pub convnext_embd: Option<u64>,
    /// Mel frequency bins of an audio encoder.
    pub mels: Option<u64>,
    /// Token types.
    pub token_types: Option<u64>,
    /// Buckets of relative positions.
    pub buckets: Option<u64>,
    /// Width of a head of RWKV.
    pub wkv_head: Option<u64>,
    /// Rank of the token-shift projections of RWKV 6.
    pub time_mix: Option<u64>,
    /// Rank of the projection of time decay.
    pub time_decay: Option<u64>,
    /// Rank of the projection of the learning rate in context of RWKV 7.
    pub iclr: Option<u64>,
    /// Rank of the projection of the value residual of RWKV 7.
    pub value_mix: Option<u64>,
    /// Rank of the projection of the gate of RWKV 7.
    pub gate_lora: Option<u64>,
    /// Interval of blocks after which the weights of RWKV 6 are halved once more.
    pub rescale_every: Option<u64>,
    /// Length of the runs of blocks whose second block has experts, if not all blocks have experts.
    pub moe_every: Option<u64>,
    /// Number of trailing MTP blocks.
    pub mtp_blocks: u64,
    /// Elements of one head of keys of latent attention, before its projections are merged.
    pub head_k_mla: Option<u64>,
    /// Elements of one head of values of latent attention, before its projections are merged.
    pub head_v_mla: Option<u64>,
    /// Whether each block is recurrent, if a key lists it.
    pub recurrent: Option<PerBlock<'g>>,
    /// Interval of blocks with attention instead of a recurrent layer.
    pub attention_interval: Option<u64>,
    /// Kernel size of a short convolution.
    pub shortconv: Option<u64>,
    /// Heads of the indexer of sparse attention.
    pub indexer_heads: Option<u64>,
    /// Elements of the key of the indexer of sparse attention.
    pub indexer_key: Option<u64>,
    /// Whether each block has an indexer of its own, if a key lists it.
    pub indexers: Option<PerBlock<'g>>,
    /// Elements of a head of delta attention.
    pub kda_head: Option<u64>,
    /// Whether each block uses sliding-window attention, if a key lists it.
    pub windowed: Option<ArrayRef<'g>>,
    /// Number of blocks with weights, if blocks run several times.
    pub stacked: Option<u64>,
    /// Rank of the gates of hyper-connections.
    pub hyper_rank: Option<u64>,
    /// Blocks that add n-gram embeddings.
    pub ngram_blocks: Option<ArrayRef<'g>>,
    /// Kernel size of the convolution of n-gram embeddings.
    pub ngram_conv: Option<u64>,
    /// Number of parallel hidden states of hyper-connections.
    pub hyper: Option<u64>,
    /// Groups of heads with a low-rank output projection each.
    pub output_groups: Option<u64>,
    /// Rank of the output projection of a group of heads.
    pub output_lora: Option<u64>,
    /// Number of positions that the attention of each block compresses into one; 0 for none.
    pub compress_ratios: Option<ArrayRef<'g>>,
    /// Number of leading blocks that select experts by token id.
    pub hash_blocks: u64,
    /// Tokens of a draft, from the length of its list of token ids, if known.
    pub draft_vocab: Option<u64>,
    /// Rank of the Markov head of a draft, 0 for none, if known.
    pub markov_rank: Option<u64>,
    /// Width of the hidden state inside the experts of Nemotron-H, if it differs from `embd`.
    pub moe_latent: Option<u64>,
    /// Whether a draft has a selector of tokens, if known.
    pub has_selector: Option<bool>,
    /// Kernel size of the convolutions of a draft.
    pub draft_conv: Option<u64>,
    /// Elements that share weights of the convolutions of a draft.
    pub draft_conv_group: Option<u64>,
    /// Rank of the selector of a draft.
    pub selector_rank: Option<u64>,
    /// Whether a draft has a norm before the hidden states of its target are reduced.
    pub norms_before_fc: bool,
    /// Width of the hidden state inside the experts, if it differs from `embd`.
    pub expert_latent: Option<u64>,
}

impl<'g> Hparams<'g> {
    /// Reads the hyperparameters of known keys; `value` looks up a key by its pattern.
    pub fn new(value: impl Fn(&str) -> Option<ValueRef<'g>>) -> Hparams<'g> {
        let int = |key: &str| value(key).and_then(|v| u64::from_value(v).ok());
        let per_block = |key: &str| value(key).and_then(PerBlock::new);
        let depth = |patterns: &[&str]| patterns.iter().find_map(|key| int(key)).filter(|&n| n <= MAX_BLOCKS);
        let blocks = depth(&[keys::BLOCK_COUNT, keys::WHISPER_ENCODER_BLOCK_COUNT]);
        let embd = int(keys::EMBEDDING_LENGTH).or_else(|| int(keys::WHISPER_DECODER_EMBEDDING_LENGTH));
        let heads = per_block(keys::ATTENTION_HEAD_COUNT);
        // By default, the size of a head is `embd / heads` (`llama_model_base::load_hparams`).
        let share = || embd?.checked_div(heads?.get(0)?);
        let head_k = int(keys::ATTENTION_KEY_LENGTH).or_else(share);
        // One length without the other has no effect (`llama_hparams::is_mla`).
        let positive = |key| int(key).filter(|&n| n > 0);
        let mla = positive(keys::ATTENTION_KEY_LENGTH_MLA).zip(positive(keys::ATTENTION_VALUE_LENGTH_MLA));
        let head_v = int(keys::ATTENTION_VALUE_LENGTH).or_else(share);
        let tokens = value(keys::TOKENIZER_GGML_TOKENS).and_then(|v| v.as_array()).map(|a| a.len());
        Hparams {
            blocks,
            // Encoder and decoder have the same depth by default (`llama_model_t5::load_arch_hparams`).
            decoder_blocks: depth(&[keys::DECODER_BLOCK_COUNT, keys::WHISPER_DECODER_BLOCK_COUNT]).or(blocks),
            convnext_blocks: depth(&[keys::CONVNEXT_BLOCK_COUNT]),
            embd,
            heads,
            heads_kv: per_block(keys::ATTENTION_HEAD_COUNT_KV).or(heads),
            head_k,
            head_v,
            rot: int(keys::ROPE_DIMENSION_COUNT).or(head_k),
            stretched: value(keys::ROPE_SCALING_TYPE).and_then(|v| v.as_str()).is_some_and(|ty| ty == *"longrope"),
            experts: int(keys::EXPERT_COUNT).unwrap_or(0),
            chunk_ff: int(keys::EXPERT_CHUNK_FEED_FORWARD_LENGTH).filter(|&n| n > 0),
            shared_ff: int(keys::EXPERT_SHARED_FEED_FORWARD_LENGTH).filter(|&n| n > 0),
            shared_experts: int(keys::EXPERT_SHARED_COUNT).unwrap_or(0),
            leading_dense: int(keys::LEADING_DENSE_BLOCK_COUNT).unwrap_or(0),
            context: int(keys::CONTEXT_LENGTH).or_else(|| int(keys::WHISPER_DECODER_CONTEXT_LENGTH)),
            vocab: tokens.or_else(|| int(keys::VOCAB_SIZE)),
            embd_out: int(keys::EMBEDDING_LENGTH_OUT).filter(|&n| n > 0).or(embd),
            classes: value(keys::CLASSIFIER_OUTPUT_LABELS).and_then(|v| v.as_array()).map_or(0, |a| a.len()),
            shared_kv: int(keys::ATTENTION_SHARED_KV_LAYERS).unwrap_or(0),
            head_k_swa: int(keys::ATTENTION_KEY_LENGTH_SWA).or(head_k),
            head_v_swa: int(keys::ATTENTION_VALUE_LENGTH_SWA).or(head_v),
            target_layers: value(keys::TARGET_LAYERS).and_then(|v| v.as_array()).map(|a| a.len()),
            time_decay: int(keys::TIME_DECAY_EXTRA_DIM).or_else(|| int(keys::ATTENTION_DECAY_LORA_RANK)),
            mtp_blocks: int(keys::NEXTN_PREDICT_LAYERS).unwrap_or(0),
            head_k_mla: mla.map(|(head_k, _)| head_k),
            head_v_mla: mla.map(|(_, head_v)| head_v),
            recurrent: value(keys::ATTENTION_RECURRENT_LAYERS).and_then(PerBlock::new),
            indexers: value(keys::ATTENTION_INDEXER_TYPES).and_then(PerBlock::new),
            windowed: value(keys::ATTENTION_SLIDING_WINDOW_PATTERN).and_then(|v| v.as_array()),
            stacked: int(keys::HRM_LAYERS_PER_STACK).map(|n| n.saturating_mul(2)),
            ngram_blocks: value(keys::PLE_LAYERS).and_then(|v| v.as_array()),
            compress_ratios: value(keys::ATTENTION_COMPRESS_RATIOS).and_then(|v| v.as_array()),
            hash_blocks: int(keys::HASH_LAYER_COUNT).unwrap_or(0),
            moe_latent: int(keys::MOE_LATENT_SIZE).filter(|&n| n > 0),
            norms_before_fc: value(keys::NORM_BEFORE_FC).is_some_and(|v| v.get::<bool>().unwrap_or(false)),
            expert_latent: int(keys::EXPERT_LATENT_LENGTH).filter(|&n| n > 0),
            ..Hparams::of_single_keys(&int, &per_block)
        }
    }

    /// The hyperparameters that have a key of their own; all others have their defaults.
    fn of_single_keys(
        int: &dyn Fn(&str) -> Option<u64>,
        per_block: &dyn Fn(&str) -> Option<PerBlock<'g>>,
    ) -> Hparams<'g> {
        Hparams {
            ff: per_block(keys::FEED_FORWARD_LENGTH),
            experts_used: per_block(keys::EXPERT_USED_COUNT),
            experts_per_group: int(keys::EXPERTS_PER_GROUP),
            expert_ff: per_block(keys::EXPERT_FEED_FORWARD_LENGTH),
            expert_step: int(keys::INTERLEAVE_MOE_LAYER_STEP),
            q_lora: int(keys::ATTENTION_Q_LORA_RANK),
            kv_lora: int(keys::ATTENTION_KV_LORA_RANK),
            ssm_conv: int(keys::SSM_CONV_KERNEL),
            ssm_inner: int(keys::SSM_INNER_SIZE),
            ssm_state: int(keys::SSM_STATE_SIZE),
            ssm_rank: int(keys::SSM_TIME_STEP_RANK),
            ssm_groups: int(keys::SSM_GROUP_COUNT),
            encoder_embd: int(keys::WHISPER_ENCODER_EMBEDDING_LENGTH),
            encoder_context: int(keys::WHISPER_ENCODER_CONTEXT_LENGTH),
            dense_2_out: int("{arch}.dense_2_feat_out"),
            dense_3_in: int("{arch}.dense_3_feat_in"),
            per_layer_embd: int(keys::EMBEDDING_LENGTH_PER_LAYER_INPUT),
            kv_lora_swa: int(keys::ATTENTION_KV_LORA_RANK_SWA),
            head_k_mla_swa: int(keys::ATTENTION_KEY_LENGTH_MLA_SWA),
            head_v_mla_swa: int(keys::ATTENTION_VALUE_LENGTH_MLA_SWA),
            adapter_rank: int(keys::ADAPTERS_LORA_RANK),
            adapters: int(keys::ADAPTERS_COUNT),
            target_embd: int(keys::TARGET_HIDDEN_SIZE),
            features: int(keys::FEATURES_LENGTH),
            posnet_embd: int(keys::POSNET_EMBEDDING_LENGTH),
            convnext_embd: int(keys::CONVNEXT_EMBEDDING_LENGTH),
            mels: int(keys::WHISPER_ENCODER_MELS_COUNT),
            token_types: int(keys::TOKENIZER_GGML_TOKEN_TYPE_COUNT),
            buckets: int(keys::ATTENTION_RELATIVE_BUCKETS_COUNT),
            wkv_head: int(keys::WKV_HEAD_SIZE),
            time_mix: int(keys::TIME_MIX_EXTRA_DIM),
            iclr: int(keys::ATTENTION_ICLR_LORA_RANK),
            value_mix: int(keys::ATTENTION_VALUE_RESIDUAL_MIX_LORA_RANK),
            gate_lora: int(keys::ATTENTION_GATE_LORA_RANK),
            rescale_every: int(keys::RESCALE_EVERY_N_LAYERS),
            moe_every: int(keys::MOE_EVERY_N_LAYERS),
            attention_interval: int(keys::FULL_ATTENTION_INTERVAL),
            shortconv: int(keys::SHORTCONV_L_CACHE),
            indexer_heads: int(keys::ATTENTION_INDEXER_HEAD_COUNT),
            indexer_key: int(keys::ATTENTION_INDEXER_KEY_LENGTH),
            kda_head: int(keys::KDA_HEAD_DIM),
            hyper_rank: int(keys::HYPER_CONNECTION_LOW_RANK),
            ngram_conv: int(keys::PLE_CONV_KERNEL),
            hyper: int(keys::HYPER_CONNECTION_COUNT),
            output_groups: int(keys::ATTENTION_OUTPUT_GROUP_COUNT),
            output_lora: int(keys::ATTENTION_OUTPUT_LORA_RANK),
            draft_conv: int(keys::CONV_KERNEL_SIZE),
            draft_conv_group: int(keys::CONV_GROUP_SIZE),
            selector_rank: int(keys::SELECTOR_RANK),
            ..Hparams::default()
        }
    }

    fn product(of: Option<PerBlock<'_>>, length: Option<u64>, block: u64) -> Option<u64> {
        of?.get(block)?.checked_mul(length?)
    }

    /// Whether block `block` has experts.
    pub fn has_experts(&self, block: u64) -> bool {
        self.experts > 0 && block >= self.leading_dense && self.is_expert_step(block) && self.is_moe_layer(block)
    }

    /// Whether `interleave_moe_layer_step` selects block `block` for experts.
    pub fn is_expert_step(&self, block: u64) -> bool {
        self.expert_step.is_none_or(|step| (block + 1).checked_rem(step) == Some(0))
    }

    /// Whether `moe_every_n_layers` selects block `block` for experts.
    pub fn is_moe_layer(&self, block: u64) -> bool {
        self.moe_every.is_none_or(|every| block.checked_rem(every) == Some(1))
    }

    /// Whether block `block` is one of the trailing MTP blocks.
    pub fn is_mtp(&self, block: u64) -> bool {
        self.blocks.is_some_and(|n| block >= n.saturating_sub(self.mtp_blocks))
    }

    /// Whether block `block` has a recurrent layer instead of attention: according to the list in a key, the interval
    /// of blocks with attention, or a key-value head count of 0.
    pub fn is_recurrent(&self, block: u64) -> bool {
        if self.is_mtp(block) {
            return false;
        }
        if let Some(listed) = self.recurrent {
            return listed.flag(block);
        }
        match self.attention_interval {
            Some(n) => (block + 1).checked_rem(n) != Some(0),
            None => self.heads_kv.and_then(|heads| heads.get(block)) == Some(0),
        }
    }

    /// Whether block `block` has lightning attention: according to the list in a key, or the interval of blocks with full attention, by
    /// default 8 (`load_arch_hparams` in `src/models/minimax-01.cpp`).
    pub fn is_lightning(&self, block: u64) -> bool {
        let interval = self.attention_interval.or(Some(8));
        Hparams { attention_interval: interval, ..*self }.is_recurrent(block)
    }

    /// Whether block `block` uses sliding-window attention, according to the list in a key. MTP blocks
    /// do.
    pub fn is_windowed(&self, block: u64) -> bool {
        self.is_mtp(block) || self.windowed.is_some_and(|listed| PerBlock::Each(listed).flag(block))
    }

    /// Elements of one head of keys of block `block`, which depends on its window.
    pub fn layer_head(&self, block: u64) -> Option<u64> {
        if PerBlock::Each(self.windowed?).flag(block) { self.head_k_swa } else { self.head_k }
    }

    /// Elements of one head of values of block `block`, which depends on its window.
    pub fn layer_head_v(&self, block: u64) -> Option<u64> {
        if PerBlock::Each(self.windowed?).flag(block) { self.head_v_swa } else { self.head_v }
    }

    /// Number of key and value heads of block `block`; 0 for a block without attention.
    pub fn n_heads_kv(&self, block: u64) -> u64 {
        self.heads_kv.and_then(|heads| heads.get(block)).unwrap_or(0)
    }

    /// Whether block `block` has an indexer of its own, according to the list in a key. MTP blocks have none.
    pub fn has_indexer(&self, block: u64) -> bool {
        !self.is_mtp(block) && self.indexers.is_some_and(|listed| listed.flag(block))
    }

    /// Whether block `block` has keys and values of its own.
    pub fn has_own_keys(&self, block: u64) -> bool {
        self.blocks.is_none_or(|n| block < n.saturating_sub(self.shared_kv))
    }

    /// Whether block `block` adds n-gram embeddings, according to the list in a key.
    pub fn has_ngrams(&self, block: u64) -> bool {
        self.ngram_blocks.is_some_and(|listed| listed.iter().any(|v| v.get::<u64>().is_ok_and(|n| n == block)))
    }

    /// Number of positions that the attention of block `block` compresses into one; 0 for none.
    pub fn compress_ratio(&self, block: u64) -> Option<u64> {
        self.compress_ratios?.get(block)?.get().ok()
    }

    /// Whether an indexer selects among the compressed positions of block `block` (`load_arch_tensors` in `src/models/deepseek4.cpp`).
    pub fn is_compressed_with_indexer(&self, block: u64) -> bool {
        self.compress_ratio(block) == Some(4)
    }

    /// Width of a state space plus the input and output projections of each group.
    pub fn ssm_conv_in(&self) -> Option<u64> {
        let projections = self.ssm_groups?.checked_mul(self.ssm_state?)?.checked_mul(2)?;
        self.ssm_inner?.checked_add(projections)
    }

    /// Number of blocks in a run.
    pub fn blocks_of(&self, stack: Stack) -> Option<u64> {
        match stack {
            Stack::Only | Stack::Encoder | Stack::Vision | Stack::DeepStack | Stack::Audio => self.blocks,
            Stack::Decoder => self.decoder_blocks,
            Stack::ConvNext => self.convnext_blocks,
            Stack::Sam | Stack::ImageProjector | Stack::AudioProjector => None,
        }
    }

    /// Width of the feed-forward part of an expert in block `block`, unless it is 0.
    pub fn expert_ff(&self, block: u64) -> Option<u64> {
        self.expert_ff?.get(block).filter(|&n| n > 0)
    }

    /// Rows of the query matrix of a block.
    pub fn q(&self, block: u64) -> Option<u64> {
        Self::product(self.heads, self.head_k, block)
    }

    /// Rows of the key matrix of a block.
    pub fn k(&self, block: u64) -> Option<u64> {
        Self::product(self.heads_kv, self.head_k, block)
    }

    /// Rows of the value matrix of a block.
    pub fn v(&self, block: u64) -> Option<u64> {
        Self::product(self.heads_kv, self.head_v, block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experts_in_every_nth_block() {
        let of = |expert_step| Hparams { expert_step, ..Hparams::default() };
        let blocks = |step| (0..6).filter(|&block| of(step).is_expert_step(block)).collect::<Vec<_>>();
        assert_eq!(blocks(None), [0, 1, 2, 3, 4, 5]);
        assert_eq!(blocks(Some(2)), [1, 3, 5]);
        assert_eq!(blocks(Some(1)), [0, 1, 2, 3, 4, 5]);
        assert!(blocks(Some(0)).is_empty());
    }
}
