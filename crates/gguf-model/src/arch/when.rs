//! Conditions of rows: the models and blocks that have a tensor.

use crate::hparams::Hparams;

/// The models and blocks to which a row applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum When {
    /// All models.
    Always,
    /// Blocks without experts: all blocks of a dense model, and those selected by `leading_dense_block_count` and
    /// `interleave_moe_layer_step`.
    Dense,
    /// Blocks with experts.
    Experts,
    /// Blocks with experts of a width of their own.
    LatentExperts,
    /// Blocks with a shared expert, if the key for its width is set.
    SharedExpert,
    /// Blocks with shared experts, if the key for their number is set.
    SharedExperts,
    /// All blocks but the first.
    NotFirst,
    /// The first block.
    First,
    /// Blocks with attention, in models whose other blocks are recurrent.
    Attention,
    /// Blocks with a recurrent layer or a convolution instead of attention.
    Recurrent,
    /// Models whose queries have a low-rank projection.
    QLora,
    /// Models whose queries have no low-rank projection.
    NoQLora,
    /// As [`QLora`](When::QLora), in blocks with attention.
    AttentionQLora,
    /// As [`NoQLora`](When::NoQLora), in blocks with attention.
    AttentionNoQLora,
    /// Models whose keys and values of latent attention have lengths of their own.
    Mla,
    /// All other models with latent attention.
    NoMla,
    /// Blocks with lightning attention: by default, seven of eight.
    Lightning,
    /// All other blocks.
    NotLightning,
    /// Drafts with a norm before the hidden states of the target are reduced.
    NormBeforeFc,
    /// Drafts with a selector of tokens.
    Selector,
    /// Drafts with a Markov head.
    Markov,
    /// Drafts of which it is unknown whether they have a Markov head.
    MaybeMarkov,
    /// Blocks of a state space: neither heads of keys nor a feed-forward part.
    Space,
    /// Blocks of heads without a feed-forward part, and blocks that predict further tokens.
    Heads,
    /// Blocks of a feed-forward part with experts, and blocks that predict further tokens.
    FfExperts,
    /// Blocks of a feed-forward part without experts.
    FfDense,
    /// Models of RWKV with a gate.
    Gate,
    /// Models of RWKV without a gate.
    NoGate,
    /// Models whose rotary frequencies have factors for long and short texts.
    Stretched,
    /// All other models.
    Unstretched,
    /// Blocks that predict further tokens.
    NextTokens,
    /// All other blocks.
    Main,
    /// Blocks with sliding-window attention.
    Windowed,
    /// All other blocks.
    Whole,
    /// Blocks with heads of keys and values.
    HasKeys,
    /// Blocks with heads of queries only, whose attention is one matrix.
    Linear,
    /// Blocks with a feed-forward part.
    HasFf,
    /// Blocks with an indexer of their own, according to the list in a key.
    OwnIndexer,
    /// Blocks with keys and values of their own.
    OwnKeys,
    /// All other blocks, which use those of an earlier block.
    OthersKeys,
    /// Blocks with weights, in models whose blocks run several times.
    Stacked,
    /// Models with n-gram embeddings.
    NGrams,
    /// Blocks that add n-gram embeddings.
    NGramBlock,
    /// Blocks whose attention compresses positions.
    Compressed,
    /// Blocks with an indexer that selects among compressed positions.
    Indexed,
    /// Blocks that select experts by token id.
    Hashed,
    /// All other blocks.
    Scored,
    /// Models with embeddings per block.
    PerLayer,
    /// Models of 64 blocks or more.
    Deep,
    /// Blocks with hyper-connections.
    Mixed,
    /// All other blocks.
    Unmixed,
}

impl When {
    /// Whether the row applies to block `block` of a model with these hyperparameters.
    pub fn holds(self, h: &Hparams<'_>, block: u64) -> bool {
        let has_experts = h.experts > 0 && block >= h.leading_dense && h.is_expert_step(block) && h.is_moe_layer(block);
        match self {
            When::Always => true,
            When::Dense => !has_experts,
            When::Experts => has_experts,
            When::LatentExperts => has_experts && h.expert_latent.is_some(),
            When::SharedExpert => has_experts && h.shared_ff.is_some(),
            When::SharedExperts => has_experts && h.shared_experts > 0,
            When::NotFirst => block > 0,
            When::First => block == 0,
            When::Attention => !h.is_recurrent(block),
            When::Recurrent => h.is_recurrent(block),
            When::QLora => h.q_lora.is_some_and(|n| n > 0),
            When::NoQLora => !When::QLora.holds(h, block),
            When::AttentionQLora => When::QLora.holds(h, block) && When::Attention.holds(h, block),
            When::AttentionNoQLora => When::NoQLora.holds(h, block) && When::Attention.holds(h, block),
            When::Mla => h.head_k_mla.is_some(),
            When::NoMla => h.head_k_mla.is_none(),
            When::Lightning => h.is_lightning(block),
            When::NotLightning => !h.is_lightning(block),
            When::NormBeforeFc => h.norms_before_fc,
            When::Selector => h.has_selector.unwrap_or(h.draft_conv.is_some()),
            When::Markov => h.markov_rank.is_some_and(|n| n > 0),
            When::MaybeMarkov => h.markov_rank.is_none(),
            When::Space => !h.is_nextn(block) && h.n_heads_kv(block) == 0 && !When::HasFf.holds(h, block),
            When::Heads => h.is_nextn(block) || (h.n_heads_kv(block) > 0 && !When::HasFf.holds(h, block)),
            When::FfExperts => h.is_nextn(block) || (When::HasFf.holds(h, block) && h.experts > 0),
            When::FfDense => !h.is_nextn(block) && When::HasFf.holds(h, block) && h.experts == 0,
            When::Gate => h.gate_lora != Some(0),
            When::NoGate => h.gate_lora == Some(0),
            When::Stretched => h.stretched,
            When::Unstretched => !h.stretched,
            When::NextTokens => h.is_nextn(block),
            When::Main => !h.is_nextn(block),
            When::Windowed => h.is_windowed(block),
            When::Whole => !h.is_windowed(block),
            When::HasKeys => h.n_heads_kv(block) > 0,
            When::Linear => {
                h.n_heads_kv(block) == 0 && h.heads.and_then(|heads| heads.get(block)).is_some_and(|n| n > 0)
            }
            When::HasFf => h.ff.and_then(|ff| ff.get(block)).is_some_and(|n| n > 0),
            When::OwnIndexer => h.has_indexer(block),
            When::OwnKeys => h.has_own_keys(block),
            When::OthersKeys => !h.has_own_keys(block),
            When::Stacked => h.stacked.is_none_or(|n| block < n),
            When::NGrams => h.ngram_blocks.is_some_and(|list| list.len() > 0),
            When::NGramBlock => h.has_ngrams(block),
            When::Compressed => h.compress_ratio(block).is_some_and(|n| n > 0),
            When::Indexed => h.is_compressed_with_indexer(block),
            When::Hashed => block < h.hash_blocks,
            When::Scored => block >= h.hash_blocks,
            When::PerLayer => h.per_layer_embd.is_some_and(|n| n > 0),
            When::Deep => h.blocks.is_some_and(|n| n >= 64),
            When::Mixed => h.hyper.is_some_and(|n| n > 0),
            When::Unmixed => h.hyper.is_none_or(|n| n == 0),
        }
    }
}
