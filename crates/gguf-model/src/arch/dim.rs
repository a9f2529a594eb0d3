//! Sizes of tensors as functions of the keys: the meaning of each, the keys that determine it, and the formula.

use crate::hparams::Hparams;

/// Dimensions: the meaning of each, the keys that determine it, and the formula.
macro_rules! dims {
    ($($(#[$doc:meta])* $dim:ident $keys:literal |$h:pat_param, $block:pat_param| $of:expr;)*) => {
        /// A symbolic dimension.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Dim {
            $($(#[$doc])* $dim,)*
        }

        impl Dim {
            /// Every dimension.
            pub const ALL: &[Dim] = &[$(Dim::$dim),*];

            /// The name used in tables.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Dim::$dim => stringify!($dim),)*
                }
            }

            /// The keys that determine it, for messages.
            pub const fn keys(self) -> &'static str {
                match self {
                    $(Dim::$dim => $keys,)*
                }
            }

            /// The value in block `block`; `None` if the keys do not determine it.
            pub fn of(self, h: &Hparams<'_>, block: u64) -> Option<u64> {
                match self {
                    $(Dim::$dim => { let ($h, $block) = (h, block); $of })*
                }
            }
        }
    };
}

dims! {
    /// Elements of a hidden state.
    Embd "embedding_length" |h, _| h.embd;
    /// Tokens.
    Vocab "the number of tokens" |h, _| h.vocab;
    /// Width of the feed-forward part.
    Ff "feed_forward_length" |h, b| h.ff?.get(b);
    /// Width of the feed-forward part of the shared expert.
    SharedFf "expert_shared_feed_forward_length" |h, _| h.shared_ff;
    /// Width of the feed-forward part of the shared expert, which is that of others unless a key sets it.
    SharedOrFf "expert_shared_feed_forward_length or feed_forward_length"
        |h, b| h.shared_ff.filter(|n| *n > 0).or_else(|| h.ff?.get(b));
    /// Width of the feed-forward part of all shared experts together.
    SharedExpertsFf "expert_feed_forward_length × expert_shared_count" |h, b| h.expert_ff(b)?.checked_mul(h.shared_experts);
    /// As [`Dim::SharedExpertsFf`], where llama.cpp takes no shared experts for one.
    OneOrMoreExpertsFf "expert_feed_forward_length × expert_shared_count"
        |h, b| h.expert_ff(b)?.checked_mul(h.shared_experts.max(1));
    /// Width of the feed-forward part of all shared experts together, each with a width of its own.
    SharedEachFf "expert_shared_count × expert_shared_feed_forward_length or expert_feed_forward_length"
        |h, b| h.shared_ff.or_else(|| h.expert_ff(b))?.checked_mul(h.shared_experts);
    /// Width of the feed-forward part of all shared experts together, which has a key of its own or follows from their number.
    SharedOrExpertsFf "expert_shared_feed_forward_length, or expert_feed_forward_length × expert_shared_count"
        |h, b| h.shared_ff.filter(|n| *n > 0).or_else(|| h.expert_ff(b)?.checked_mul(h.shared_experts));
    /// Width of the feed-forward part of an expert.
    ExpertFf "expert_feed_forward_length or feed_forward_length" |h, b| h.expert_ff(b).or_else(|| h.ff?.get(b));
    /// Combined width of the gate and up projections of an expert.
    TwiceExpertFf "2 × expert_feed_forward_length or feed_forward_length" |h, b| h.expert_ff(b).or_else(|| h.ff?.get(b))?.checked_mul(2);
    /// Elements of the queries of all heads.
    Q "attention.head_count × attention.key_length" |h, b| h.q(b);
    /// Elements of the keys of all heads.
    K "attention.head_count_kv × attention.key_length" |h, b| h.k(b);
    /// Elements of the values of all heads.
    V "attention.head_count_kv × attention.value_length" |h, b| h.v(b);
    /// Queries, keys and values, concatenated.
    Qkv "attention.head_count + 2 × attention.head_count_kv heads" |h, b| h.q(b)?.checked_add(h.k(b)?)?.checked_add(h.v(b)?);
    /// A hidden state, and keys and values as long as values.
    EmbdQkv "embedding_length + 2 × attention.head_count_kv × attention.value_length"
        |h, b| h.embd?.checked_add(h.v(b)?.checked_mul(2)?);
    /// A hidden state, keys and values.
    EmbdKv "embedding_length + attention.head_count_kv × (attention.key_length + attention.value_length)"
        |h, b| h.embd?.checked_add(h.k(b)?)?.checked_add(h.v(b)?);
    /// Queries, and keys and values as long as values.
    QkvOfValues "attention.head_count × attention.key_length + 2 × attention.head_count_kv × attention.value_length"
        |h, b| h.q(b)?.checked_add(h.v(b)?.checked_mul(2)?);
    /// Queries, and keys and values as long as keys.
    QkvOfKeys "(attention.head_count + 2 × attention.head_count_kv) × attention.key_length"
        |h, b| h.q(b)?.checked_add(h.k(b)?.checked_mul(2)?);
    /// Queries, keys and values, of as many heads each and all as long as keys.
    ThriceQ "3 × attention.head_count × attention.key_length" |h, b| h.q(b)?.checked_mul(3);
    /// Queries of all heads, where rotation covers whole heads.
    QRot "attention.head_count × rope.dimension_count" |h, b| h.heads?.get(b)?.checked_mul(h.rot?);
    /// Keys or values of all heads, where rotation covers whole heads.
    KRot "attention.head_count_kv × rope.dimension_count" |h, b| h.heads_kv?.get(b)?.checked_mul(h.rot?);
    /// Queries, keys and values, where rotation covers whole heads.
    QkvRot "(attention.head_count + 2 × attention.head_count_kv) × rope.dimension_count"
        |h, b| Dim::QRot.of(h, b)?.checked_add(Dim::KRot.of(h, b)?.checked_mul(2)?);
    /// Elements of the key of one head.
    HeadK "attention.key_length" |h, _| h.head_k;
    /// Half of the elements of the key of one head.
    HalfHead "half of attention.key_length" |h, _| h.head_k.map(|n| n / 2);
    /// Half of the rotated elements of a head.
    HalfRot "half of rope.dimension_count" |h, _| h.rot.map(|n| n / 2);
    /// Experts.
    Experts "expert_count" |h, _| Some(h.experts);
    /// Heads of queries.
    Heads "attention.head_count" |h, b| h.heads?.get(b);
    /// Heads of keys and values.
    HeadsKv "attention.head_count_kv" |h, b| h.heads_kv?.get(b);
    /// Rank of the query projection in latent attention.
    QLora "attention.q_lora_rank" |h, _| h.q_lora;
    /// Rank of the key and value projection in latent attention.
    KvLora "attention.kv_lora_rank" |h, _| h.kv_lora;
    /// [`KvLora`](Dim::KvLora), followed by the rotated elements that the keys of all heads share.
    KvLoraRot "attention.kv_lora_rank + rope.dimension_count" |h, _| h.kv_lora?.checked_add(h.rot?);
    /// Outputs of the key and value projection: for each query head, the unrotated elements of a key, and a value.
    LatentKv "attention.head_count × (attention.key_length - rope.dimension_count + attention.value_length)" |h, b| {
        let values = h.head_v_mla.or(h.head_v)?;
        h.heads?.get(b)?.checked_mul(h.head_k_mla.or(h.head_k)?.checked_sub(h.rot?)?.checked_add(values)?)
    };
    /// Elements of the values, counting one value head per query head.
    HeadsV "attention.head_count × attention.value_length" |h, b| h.heads?.get(b)?.checked_mul(h.head_v?);
    /// Token types.
    TokenTypes "tokenizer.ggml.token_type_count" |h, _| h.token_types;
    /// Half of the width of the feed-forward part.
    HalfFf "half of feed_forward_length" |h, b| h.ff?.get(b).map(|n| n / 2);
    /// Rank of the time steps in PLaMo 2 (`load_arch_tensors` in `src/models/plamo2.cpp`).
    SsmDt "the larger of 64 and embedding_length / 16" |h, _| h.embd.map(|n| (n / 16).max(64));
    /// The time steps of PLaMo 2 before their projection, and the input and output projections (B and C).
    SsmDtX "the larger of 64 and embedding_length / 16, and 2 × ssm.state_size"
        |h, b| Dim::SsmDt.of(h, b)?.checked_add(h.ssm_state?.checked_mul(2)?);
    /// Width of a head of RWKV.
    WkvHead "wkv.head_size" |h, _| h.wkv_head;
    /// Heads of RWKV.
    WkvHeads "embedding_length / wkv.head_size" |h, _| h.embd?.checked_div(h.wkv_head?);
    /// Elements of keys or values of RWKV with Qwen's heads: `head_count_kv` heads, or all heads if that is 0.
    WkvKv "attention.head_count_kv × wkv.head_size" |h, b| match h.heads_kv?.get(b)? {
        0 => h.embd,
        n => n.checked_mul(h.wkv_head?),
    };
    /// Rank of the token-shift projections.
    Mix "time_mix_extra_dim" |h, _| h.time_mix;
    /// Five token-shift projections, concatenated.
    FiveMix "5 × time_mix_extra_dim" |h, _| h.time_mix?.checked_mul(5);
    /// Rank of the projection of time decay.
    Decay "time_decay_extra_dim or attention.decay_lora_rank" |h, _| h.time_decay;
    /// Rank of the projection of the learning rate in context.
    Iclr "attention.iclr_lora_rank" |h, _| h.iclr;
    /// Rank of the projection of the value residual.
    ValueMix "attention.value_residual_mix_lora_rank" |h, _| h.value_mix;
    /// Rank of the projection of the gate.
    GateLora "attention.gate_lora_rank" |h, _| h.gate_lora;
    /// 5.
    Five "5" |_, _| Some(5);
    /// 6.
    Six "6" |_, _| Some(6);
    /// Buckets of relative positions.
    Buckets "attention.relative_buckets_count" |h, _| h.buckets;
    /// Positions.
    Context "context_length" |h, _| h.context;
    /// Width of the feed-forward part of an expert; by default the used experts share the full width.
    UsedFf "expert_feed_forward_length or feed_forward_length / expert_used_count"
        |h, b| h.expert_ff(b).or_else(|| h.ff?.get(b)?.checked_div(h.experts_used?.get(b)?));
    /// Combined width of the gate and up projections of such an expert.
    TwiceUsedFf "2 × expert_feed_forward_length or feed_forward_length / expert_used_count"
        |h, b| h.expert_ff(b).or_else(|| h.ff?.get(b)?.checked_div(h.experts_used?.get(b)?))?.checked_mul(2);
    /// Width of the feed-forward part of the expert that a group shares.
    ChunkFf "expert_chunk_feed_forward_length or attention.key_length" |h, _| h.chunk_ff.or(h.head_k);
    /// Groups of experts.
    ExpertGroups "expert_count / experts_per_group" |h, _| h.experts.checked_div(h.experts_per_group?);
    /// Fused gate and up projections of the feed-forward part.
    TwiceFf "2 × feed_forward_length" |h, b| h.ff?.get(b)?.checked_mul(2);
    /// Fused gate and up projections of the shared expert.
    TwiceSharedFf "2 × expert_shared_feed_forward_length" |h, _| h.shared_ff?.checked_mul(2);
    /// 1.
    One "1" |_, _| Some(1);
    /// Kernel size of the convolution before a state space.
    SsmConv "ssm.conv_kernel" |h, _| h.ssm_conv;
    /// Width of a state space.
    SsmInner "ssm.inner_size" |h, _| h.ssm_inner;
    /// State size per channel of a state space.
    SsmState "ssm.state_size" |h, _| h.ssm_state;
    /// Rank of the time steps; heads in Mamba 2.
    SsmRank "ssm.time_step_rank" |h, _| h.ssm_rank;
    /// Groups of heads that share input and output projections (B and C).
    SsmGroups "ssm.group_count" |h, _| h.ssm_groups;
    /// Width of one group.
    SsmGroup "ssm.inner_size / ssm.group_count" |h, _| h.ssm_inner?.checked_div(h.ssm_groups?);
    /// A state space and its gate, concatenated.
    SsmGated "2 × ssm.inner_size" |h, _| h.ssm_inner?.checked_mul(2);
    /// Time steps, input and output projections of Mamba 1, concatenated.
    SsmX "ssm.time_step_rank + 2 × ssm.state_size" |h, _| h.ssm_rank?.checked_add(h.ssm_state?.checked_mul(2)?);
    /// Input of the convolution of Mamba 2: the state space, and the input and output projections of each group.
    SsmConvIn "ssm.inner_size + 2 × ssm.group_count × ssm.state_size" |h, _| h.ssm_conv_in();
    /// Queries, keys, values and gates of linear attention, concatenated.
    SsmGatedConvIn "2 × ssm.inner_size + 2 × ssm.group_count × ssm.state_size" |h, _| h.ssm_inner?.checked_add(h.ssm_conv_in()?);
    /// Elements of a hidden state of the encoder.
    EncoderEmbd "encoder.embedding_length" |h, _| h.encoder_embd;
    /// Positions of the encoder.
    EncoderContext "encoder.context_length" |h, _| h.encoder_context;
    /// Mel frequency bins of the audio encoder.
    Mels "encoder.mels_count" |h, _| h.mels;
    /// 3.
    Three "3" |_, _| Some(3);
    /// Outputs of the input projection of Mamba 2: the gate, the input of the convolution, the time steps.
    SsmIn "2 × ssm.inner_size + 2 × ssm.group_count × ssm.state_size + ssm.time_step_rank"
        |h, _| h.ssm_inner?.checked_add(h.ssm_conv_in()?)?.checked_add(h.ssm_rank?);
    /// Elements of the queries of all heads and of their gates.
    GatedQ "2 × attention.head_count × attention.key_length" |h, b| h.q(b)?.checked_mul(2);
    /// Queries with their gates, keys and values, concatenated.
    GatedQkv "2 × attention.head_count × attention.key_length, and key-value heads" |h, b| h.q(b)?.checked_mul(2)?.checked_add(h.k(b)?)?.checked_add(h.v(b)?);
    /// Queries and keys of linear attention.
    SsmQk "2 × ssm.group_count × ssm.state_size" |h, _| h.ssm_groups?.checked_mul(h.ssm_state?)?.checked_mul(2);
    /// Two hidden states.
    TwiceEmbd "2 × embedding_length" |h, _| h.embd?.checked_mul(2);
    /// Two values per head of a state space.
    TwiceSsmRank "2 × ssm.time_step_rank" |h, _| h.ssm_rank?.checked_mul(2);
    /// Elements of one head of the values of linear attention.
    SsmHeadV "ssm.inner_size / ssm.time_step_rank" |h, _| h.ssm_inner?.checked_div(h.ssm_rank?);
    /// Queries of all heads of latent attention.
    MlaQ "attention.head_count × attention.key_length_mla" |h, b| h.heads?.get(b)?.checked_mul(h.head_k_mla.or(h.head_k)?);
    /// Values of all heads of latent attention.
    MlaV "attention.head_count × attention.value_length_mla" |h, b| h.heads?.get(b)?.checked_mul(h.head_v_mla.or(h.head_v)?);
    /// Elements of the key of one head of latent attention that are not rotated.
    MlaNope "attention.key_length_mla - rope.dimension_count" |h, _| h.head_k_mla.or(h.head_k)?.checked_sub(h.rot?);
    /// Elements of the value of one head of latent attention.
    MlaHeadV "attention.value_length_mla" |h, _| h.head_v_mla.or(h.head_v);
    /// Kernel size of a short convolution.
    ShortConv "shortconv.l_cache" |h, _| h.shortconv;
    /// A short convolution with its two gates; queries, keys and values as wide as a hidden state.
    ThriceEmbd "3 × embedding_length" |h, _| h.embd?.checked_mul(3);
    /// Heads of the indexer of sparse attention.
    IndexerHeads "attention.indexer.head_count" |h, _| h.indexer_heads;
    /// Elements of the key of the indexer of sparse attention.
    IndexerKey "attention.indexer.key_length" |h, _| h.indexer_key;
    /// Elements of the queries of all heads of the indexer.
    IndexerQ "attention.indexer.head_count × attention.indexer.key_length"
        |h, _| h.indexer_heads?.checked_mul(h.indexer_key?);
    /// Elements of a head of delta attention.
    KdaHead "kda.head_dim" |h, _| h.kda_head;
    /// Elements of all heads of delta attention.
    KdaInner "attention.head_count × kda.head_dim" |h, b| h.heads?.get(b)?.checked_mul(h.kda_head?);
    /// Queries, keys and values of delta attention.
    ThriceKdaInner "3 × attention.head_count × kda.head_dim" |h, b| Dim::KdaInner.of(h, b)?.checked_mul(3);
    /// Width of the hidden state inside the experts.
    ExpertLatent "expert_latent_length or embedding_length" |h, _| h.expert_latent.or(h.embd);
    /// Experts used per token.
    ExpertsUsed "expert_used_count" |h, b| h.experts_used?.get(b);
    /// Elements of the queries of a group of heads.
    GroupQ "attention.head_count × attention.key_length / attention.output_group_count"
        |h, b| h.q(b)?.checked_div(h.output_groups?);
    /// Ranks of the output projections of all groups of heads, summed.
    GroupsLora "attention.output_group_count × attention.output_lora_rank"
        |h, _| h.output_groups?.checked_mul(h.output_lora?);
    /// Parallel hidden states of hyper-connections.
    Hyper "hyper_connection.count" |h, _| h.hyper;
    /// Elements of all parallel hidden states.
    HyperEmbd "hyper_connection.count × embedding_length" |h, _| h.hyper?.checked_mul(h.embd?);
    /// Mixing weights of hyper-connections: one per state before the block, one after it, and one per pair of states.
    HyperMix "(2 + hyper_connection.count) × hyper_connection.count" |h, _| h.hyper?.checked_mul(h.hyper?.checked_add(2)?);
    /// Rank of the gates of hyper-connections.
    HyperRank "hyper_connection.low_rank" |h, _| h.hyper_rank;
    /// Kernel size of the convolution of n-gram embeddings.
    NGramConv "ple.conv_kernel" |h, _| h.ngram_conv;
    /// Width of the input features of an audio decoder.
    Features "features_length" |h, _| h.features;
    /// Elements of a hidden state of PosNet.
    PosNet "posnet.embedding_length" |h, _| h.posnet_embd;
    /// Elements of a hidden state of the ConvNeXt blocks.
    ConvNext "convnext.embedding_length" |h, _| h.convnext_embd;
    /// 7.
    Seven "7" |_, _| Some(7);
    /// Any length.
    Any "any length" |_, _| None;
    /// Elements of the output of the model.
    EmbdOut "embedding_length_out or embedding_length" |h, _| h.embd_out;
    /// Two outputs of the model.
    TwiceEmbdOut "2 × embedding_length_out or embedding_length" |h, _| h.embd_out?.checked_mul(2);
    /// Labels of a classifier, at least 1.
    Classes "the number of classifier.output_labels" |h, _| Some(h.classes.max(1));
    /// Outputs of the first dense module after the pooling.
    Dense2Out "dense_2_feat_out" |h, _| h.dense_2_out;
    /// Inputs of the last dense module after the pooling.
    Dense3In "dense_3_feat_in" |h, _| h.dense_3_in;
    /// 2.
    Two "2" |_, _| Some(2);
    /// 4, the number of alternating updates of Gemma 3n (`n_altup` in `llama-hparams.h`).
    Four "4" |_, _| Some(4);
    /// 16.
    Sixteen "16" |_, _| Some(16);
    /// Rank of the augmented residual layers of Gemma 3n (`laurel_rank` in `llama-hparams.h`).
    Laurel "64" |_, _| Some(64);
    /// Elements of an embedding per block of Gemma 3n (`n_embd_altup` in `llama-hparams.h`).
    AltupEmbd "256" |_, _| Some(256);
    /// Embeddings of all blocks of Gemma 3n.
    AltupAll "256 × block_count" |h, _| h.blocks?.checked_mul(256);
    /// Elements of an embedding per block.
    PerLayer "embedding_length_per_layer_input" |h, _| h.per_layer_embd;
    /// Embeddings of all blocks.
    PerLayers "embedding_length_per_layer_input × block_count" |h, _| h.per_layer_embd?.checked_mul(h.blocks?);
    /// Elements of one head of a block, which depends on its window.
    LayerHead "attention.key_length, or attention.key_length_swa in blocks with a window" |h, b| h.layer_head(b);
    /// Elements of the queries of all heads of such a block.
    LayerQ "attention.head_count × attention.key_length, or attention.key_length_swa in blocks with a window"
        |h, b| h.heads?.get(b)?.checked_mul(h.layer_head(b)?);
    /// Elements of the keys of all heads of such a block.
    LayerK "attention.head_count_kv × attention.key_length, or attention.key_length_swa in blocks with a window"
        |h, b| h.heads_kv?.get(b)?.checked_mul(h.layer_head(b)?);
    /// Elements of the values of all heads, in models where the length of a head depends on the window of the block.
    LayerV "attention.head_count_kv × attention.value_length, or attention.value_length_swa in blocks with a window"
        |h, b| h.heads_kv?.get(b)?.checked_mul(h.layer_head_v(b)?);
    /// Rank of the key and value projection of a block, which depends on its window.
    LayerKvLora "attention.kv_lora_rank, or attention.kv_lora_rank_swa in blocks with a window"
        |h, b| if h.is_windowed(b) { h.kv_lora_swa } else { h.kv_lora };
    /// That rank and the rotated elements.
    LayerKvLoraRot "attention.kv_lora_rank, or attention.kv_lora_rank_swa in blocks with a window, + rope.dimension_count"
        |h, b| Dim::LayerKvLora.of(h, b)?.checked_add(h.rot?);
    /// Elements of the key of one head of latent attention in such a block that are not rotated.
    LayerMlaNope "attention.key_length_mla, or attention.key_length_mla_swa in blocks with a window, - rope.dimension_count"
        |h, b| if h.is_windowed(b) { h.head_k_mla_swa?.checked_sub(h.rot?) } else { Dim::MlaNope.of(h, b) };
    /// Queries of all heads of latent attention in such a block.
    LayerMlaQ "attention.head_count × attention.key_length_mla, or attention.key_length_mla_swa in blocks with a window"
        |h, b| if h.is_windowed(b) { h.heads?.get(b)?.checked_mul(h.head_k_mla_swa?) } else { Dim::MlaQ.of(h, b) };
    /// Elements of the value of one head of latent attention in such a block.
    LayerMlaHeadV "attention.value_length_mla, or attention.value_length_mla_swa in blocks with a window"
        |h, b| if h.is_windowed(b) { h.head_v_mla_swa } else { Dim::MlaHeadV.of(h, b) };
    /// Values of all heads of latent attention in such a block.
    LayerMlaV "attention.head_count × attention.value_length_mla, or attention.value_length_mla_swa in blocks with a window"
        |h, b| h.heads?.get(b)?.checked_mul(Dim::LayerMlaHeadV.of(h, b)?);
    /// Rotated elements of a head.
    Rot "rope.dimension_count" |h, _| h.rot;
    /// Rank of the built-in adapters.
    AdapterRank "adapters.lora_rank" |h, _| h.adapter_rank;
    /// Built-in adapters, and an empty one.
    AdapterSlots "adapters.count + 1" |h, _| h.adapters?.checked_add(1);
    /// Hidden states of the blocks of the target that a draft reads.
    TargetEmbd "target_hidden_size × the number of target_layers" |h, _| h.target_embd?.checked_mul(h.target_layers?);
    /// The same with the width of the draft.
    LayersEmbd "embedding_length × the number of target_layers" |h, _| h.embd?.checked_mul(h.target_layers?);
    /// Width of the feed-forward part, or with a gate twice as wide.
    FfOrTwice "feed_forward_length, or 2 × feed_forward_length" |_, _| None;
    /// Heads, or elements of all heads: the values of a gate.
    HeadsOrQ "attention.head_count, or attention.head_count × attention.key_length" |_, _| None;
    /// Tokens of a draft, which may be fewer than those of its target.
    DraftVocab "the length of d2t, or the number of tokens" |h, _| h.draft_vocab;
    /// Kernel size of the convolutions of a draft.
    DraftConv "conv_kernel_size" |h, _| h.draft_conv;
    /// Weights of the convolutions of a draft: two for each group of elements and position.
    DraftConvs "2 × conv_kernel_size × embedding_length / conv_group_size"
        |h, _| h.embd?.checked_div(h.draft_conv_group?)?.checked_mul(h.draft_conv?)?.checked_mul(2);
    /// Rank of the Markov head of a draft.
    MarkovRank "the first dimension of markov_w1" |h, _| h.markov_rank;
    /// A hidden state and the Markov head of a draft.
    EmbdMarkov "embedding_length + the first dimension of markov_w1" |h, _| h.embd?.checked_add(h.markov_rank?);
    /// Width of the hidden state inside the experts of Nemotron-H.
    MoeLatent "moe_latent_size or embedding_length" |h, _| h.moe_latent.or(h.embd);
    /// Rank of the selector of a draft.
    SelectorRank "selector_rank" |h, _| h.selector_rank;
    /// Two values per parallel hidden state of hyper-connections.
    TwiceHyper "2 × hyper_connection.count" |h, _| h.hyper?.checked_mul(2);
    /// Number of positions that attention compresses into one.
    Ratio "attention.compress_ratios" |h, b| h.compress_ratio(b);
    /// Elements of compressed keys; keys overlap, and are twice as long, in blocks with an indexer.
    Compressed "attention.key_length, twice where attention.compress_ratios is 4"
        |h, b| h.head_k?.checked_mul(if h.is_compressed_with_indexer(b) { 2 } else { 1 });
    /// Elements of two keys of the indexer.
    TwiceIndexerKey "2 × attention.indexer.key_length" |h, _| h.indexer_key?.checked_mul(2);
}

impl Dim {
    /// Looks up a dimension by its name in tables.
    pub fn from_name(name: &str) -> Option<Dim> {
        Dim::ALL.iter().copied().find(|dim| dim.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_state_spaces() {
        let h = Hparams {
            ssm_conv: Some(4),
            ssm_inner: Some(128),
            ssm_state: Some(16),
            ssm_rank: Some(8),
            ssm_groups: Some(2),
            ..Hparams::default()
        };
        let cases = [
            (Dim::SsmConv, 4),
            (Dim::SsmGroup, 64),
            (Dim::SsmGated, 256),
            (Dim::SsmX, 8 + 32),
            (Dim::SsmConvIn, 128 + 64),
            (Dim::SsmIn, 256 + 64 + 8),
        ];
        for (dim, expected) in cases {
            assert_eq!(dim.of(&h, 0), Some(expected), "{dim:?}");
            assert_eq!(dim.of(&Hparams::default(), 0), None, "{dim:?}");
        }
        assert_eq!(Dim::SsmGroup.of(&Hparams { ssm_groups: Some(0), ..h }, 0), None);
    }
}
