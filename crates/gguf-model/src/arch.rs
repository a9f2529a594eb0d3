//! Tables of architectures, one file each: the tensors, their shapes as functions of the keys (`load_arch_tensors` in
//! llama.cpp's `src/models`), and the conversion of Hugging Face checkpoints (`conversion/` of llama.cpp).
//!
//! An [`Architecture`] lists all its tensors, so that missing and unexpected tensors are detected, and names the
//! source tensor of each in a checkpoint. A [`Checkpoint`] describes a set of model classes: their names, the
//! key-values and their derivation from `config.json`, and the kind of tokenizer. Tables hold no functions; `gguf-hf`
//! interprets them. For architectures without a table, [`COMMON`] lists tensors that have the same meaning everywhere;
//! they are checked if present.
//!
//! The table types share one file because an author of an architecture reads them together.

use gguf_format::Dims;
use gguf_format::keys::{self, KeyInfo};

use crate::hparams::Hparams;
pub use crate::stack::Stack;

/// Tensors, one row each, terminated by a semicolon:
///
/// ```text
/// "attn_q.weight" [Embd Q] UnlessFused Always + Optional <- "self_attn.q_proj" : ROPE;
/// ```
///
/// In order: the GGUF name without `blk.N.`; the dimensions, the contiguous one first; whether the tensor is required,
/// and in which models; after `+`, whether the bias is required; after `<-`, the names in a checkpoint
/// ([`Row::source`]); after `:`, the [pattern](Row::pattern); then the [functions](Map) of its values, each after a
/// comma, or after `=>` another [operation](RowOp).
macro_rules! rows {
    ($($name:literal [$($dim:ident)*] $need:ident $when:ident $(+ $bias:ident)?
       $(<- $source:literal $(: $pattern:expr)? $(, $map:expr)* $(=> $op:expr)?)?;)*) => {
        &[$(Row::new($name, &[$(Dim::$dim),*], Need::$need, When::$when)
            $(.with_bias(Need::$bias))?
            $(.from($source)$(.by($pattern))?.mapped(&[$($map),*])$(.made($op))?)?),*]
    };
}

/// Key-values, one row each, terminated by a semicolon: `"rope.freq_base" F32? = "rope_theta";`. In order: the key,
/// without the architecture's name, or in full if it has another prefix; the type, followed by `?` if the key is
/// omitted when the formula has no value; and the formula ([`Key::formula`]). `let x = "formula";` sets a field of the
/// configuration for the rows below, and `let @x` a fact, which no configuration can set.
macro_rules! keys {
    (@rows [$($done:expr,)*]) => { &[$($done),*] };
    (@rows [$($done:expr,)*] let $field:ident = $formula:expr; $($rest:tt)*) => {
        keys!(@rows [$($done,)* Key { key: stringify!($field), kind: Kind::Field, is_optional: true, formula: $formula },] $($rest)*)
    };
    (@rows [$($done:expr,)*] let @$fact:ident = $formula:expr; $($rest:tt)*) => {
        keys!(@rows [$($done,)* Key {
            key: concat!("@", stringify!($fact)), kind: Kind::Field, is_optional: true, formula: $formula,
        },] $($rest)*)
    };
    (@rows [$($done:expr,)*] $key:literal $kind:ident ? = $formula:expr; $($rest:tt)*) => {
        keys!(@rows [$($done,)* Key { key: $key, kind: Kind::$kind, is_optional: true, formula: $formula },] $($rest)*)
    };
    (@rows [$($done:expr,)*] $key:literal $kind:ident = $formula:expr; $($rest:tt)*) => {
        keys!(@rows [$($done,)* Key { key: $key, kind: Kind::$kind, is_optional: false, formula: $formula },] $($rest)*)
    };
    ($($tokens:tt)*) => { keys!(@rows [] $($tokens)*) };
}

mod afmoe;
mod apertus;
mod arcee;
mod arctic;
mod baichuan;
mod bailingmoe;
mod bailingmoe2;
mod bailingmoe3;
mod bert;
mod bitnet;
mod bloom;
mod chameleon;
mod chatglm;
mod codeshell;
mod cogvlm;
mod cohere2;
mod cohere2moe;
mod command_r;
mod dbrx;
mod deci;
mod deepseek;
mod deepseek2;
mod deepseek2ocr;
mod deepseek32;
mod deepseek4;
mod dflash;
mod dots1;
mod dots3note;
mod dream;
mod eagle3;
mod ernie4_5;
mod eurobert;
mod exaone;
mod exaone4;
mod exaone_moe;
mod falcon;
mod falcon_h1;
mod gemma;
mod gemma2;
mod gemma3;
mod gemma3n;
mod gemma4;
mod glm4;
mod glm4moe;
mod glm5_next;
mod gpt2;
mod gpt_oss;
mod gptj;
mod gptneox;
mod granite;
mod granite_hybrid;
mod granite_swa;
mod granite_switch;
mod grok;
pub(crate) mod groups;
mod grovemoe;
mod hrm_text;
mod hunyuan;
mod hunyuan_moe;
mod hy_v3;
mod hy_v4;
mod internlm2;
mod jais;
mod jais2;
mod jamba;
mod jina_bert;
mod kimi_k3;
mod kimi_linear;
mod laguna;
mod lfm2;
mod llada;
mod llada_moe;
mod llama;
mod llama4;
mod maincoder;
mod mamba;
mod mamba2;
mod maple;
mod mellum;
mod mimo2;
mod minicpm;
mod minicpm3;
mod minimax_01;
mod minimax_m2;
mod minimax_m3;
mod modern_bert;
mod mpt;
mod muse_glimmer;
mod nanbeige;
mod nemotron;
mod nemotron_h;
mod neo_bert;
mod nomic_bert;
mod olmo;
mod olmo2;
mod olmoe;
mod openelm;
mod orion;
mod pangu;
mod phi2;
mod phi3;
mod phimoe;
mod plamo;
mod plamo2;
mod plamo3;
mod plm;
mod qwen;
mod qwen2;
mod qwen2moe;
mod qwen3;
mod qwen3moe;
mod qwen3next;
mod qwen3vlmoe;
mod qwen4exp;
mod refact;
mod rwkv;
mod rwkv6;
mod rwkv7;
mod seed_oss;
mod smallthinker;
mod smollm3;
mod spark2_5;
mod stablelm;
mod starcoder;
mod starcoder2;
mod step35;
mod t5;
mod talkie;
mod towers;
mod unlisted;
mod unsupported;
mod wavtokenizer;
mod whisper;
mod xverse;

/// Common imports of the files in this folder.
mod prelude {
    pub(super) use gguf_format::keys;

    pub(super) use super::groups::*;
    pub(super) use super::{Architecture, Checkpoint, Computed, Dim, Key, Kind, Map, Need, Row, RowOp, Vocab, When};
}

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

/// Whether a tensor is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Need {
    /// Must be present.
    Required,
    /// May be absent.
    Optional,
    /// Required, unless the fused matrix ([`Row::fused`]) of queries, keys and values, of keys and values of latent attention, of linear
    /// attention and its gate, or of gate and up of all experts, is present.
    UnlessFused,
}

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

/// A function of single values, applied to those of a row's source. Formulas are evaluated over the fields of the
/// configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Map {
    /// Adds a number.
    Add(f32),
    /// Multiplies by a number.
    Scale(f32),
    /// Multiplies by the value of a formula.
    ScaleBy(&'static str),
    /// Multiplies rows by the value of a formula, a list of `[rows, factor]` for consecutive rows. The list repeats
    /// until all rows are covered.
    ScaleRowsBy(&'static str),
    /// The negated exponential, -exp(x).
    NegExp,
    /// ln(1 + exp(x)), and x above 20 (`torch.nn.functional.softplus`).
    Softplus,
    /// Sets this number of rows, from the first on, to zero.
    ZeroRows(u64),
    /// Appends rows of zeros up to the number of rows that a formula gives.
    PadRowsTo(&'static str),
}

/// How the values of a row's tensor are made of the source's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RowOp {
    /// Functions of single values, applied in this order; with none, the values are those of the source.
    Map(&'static [Map]),
    /// The values of a formula instead of those of the source: one number for all, a list, or a list with one list
    /// per block.
    Values(&'static str),
    /// The values as 32-bit integers.
    Integers,
    /// The nearest of `-x`, 0 and `x`, where `x` is the mean absolute value of the tensor.
    RoundToMean,
    /// The sums of all elements along the outermost dimension, which is removed.
    SumParts,
    /// A batch normalization with running statistics, folded into a vector, given the number that is added to the
    /// variances. The operands are the weight and the variance for the factors, or the weight, the variance, the bias
    /// and the mean for the summands.
    BatchNorm(f32),
    /// A square grid of vectors, the rows of the tensor, resized with bilinear interpolation to the number of vectors
    /// along each side that a formula gives.
    ResizeGrid(&'static str),
}

/// A tensor, and its bias if it can have one. Several rows with the same name are alternatives.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The name, without `blk.N.`; in models with an encoder and a decoder, it includes `enc.blk.{}.` or
    /// `dec.blk.{}.`.
    pub name: &'static str,
    /// The dimensions, the contiguous one first; empty if unknown.
    pub shape: &'static [Dim],
    /// Whether it is required.
    pub need: Need,
    /// The models and blocks to which the row applies.
    pub when: When,
    /// Whether the bias is required; `None` if the tensor has no bias. The name of a bias ends in `.bias` instead of
    /// `.weight`. Its shape is that of the weight, without the first dimension if the weight is a matrix.
    pub bias: Option<Need>,
    /// The name in a checkpoint, without `.weight` or `.bias` and without the prefix of the block. Empty for tensors
    /// that conversion does not produce.
    ///
    /// `a | b` lists alternative spellings; a checkpoint has one of them. `{x}` stands for the number of an expert,
    /// `{h}` of a head, `{kv}` of a key-value head: these tensors are stacked along a new outermost dimension. `a + b`
    /// concatenates tensors along their outermost dimension; so does `{+n}`, which stands for the numbers of `n`
    /// parts. `a * b` multiplies tensors element-wise in single precision and yields a vector. `a, b` lists the operands
    /// of a function of several tensors ([`RowOp::BatchNorm`]). `{n}` stands for a number that the name of the output has,
    /// too, in place of its own `{n}`; such a row is optional.
    pub source: &'static str,
    /// The permutation of elements; empty for none. See the `pattern` module of `gguf-hf` for the notation.
    pub pattern: &'static str,
    /// How the values are made of the source's.
    pub op: RowOp,
}

impl Row {
    const fn new(name: &'static str, shape: &'static [Dim], need: Need, when: When) -> Row {
        Row { name, shape, need, when, bias: None, source: "", pattern: "", op: RowOp::Map(&[]) }
    }

    const fn with_bias(self, need: Need) -> Row {
        Row { bias: Some(need), ..self }
    }

    const fn from(self, source: &'static str) -> Row {
        Row { source, ..self }
    }

    const fn by(self, pattern: &'static str) -> Row {
        Row { pattern, ..self }
    }

    const fn mapped(self, maps: &'static [Map]) -> Row {
        self.made(RowOp::Map(maps))
    }

    const fn made(self, op: RowOp) -> Row {
        Row { op, ..self }
    }
}

/// A tensor of an architecture: the weight of a row, or its bias.
#[derive(Debug, Clone, Copy)]
pub struct Tensor {
    /// The row.
    pub row: &'static Row,
    /// Whether it is the row's bias.
    pub is_bias: bool,
}

/// The type of a key's value. A list has the type of its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An unsigned 32-bit integer; signed in lists, as the reference writes them.
    U32,
    /// A signed 32-bit integer.
    I32,
    /// An unsigned 64-bit integer.
    U64,
    /// A single-precision float.
    F32,
    /// True or false.
    Bool,
    /// Text.
    Str,
    /// No value: the row sets a field of the configuration.
    Field,
}

/// A key-value, and its derivation from the configuration of a checkpoint.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The key, without the name of the architecture, unless it begins with `general.`, `tokenizer.` or `diffusion.`; or the name of
    /// a field.
    pub key: &'static str,
    /// The type of its value.
    pub kind: Kind,
    /// Whether the key is omitted if the formula has no value; otherwise a missing value is an error.
    pub is_optional: bool,
    /// The value, as an expression over the fields of the configuration. See the `formula` module of `gguf-hf`.
    pub formula: &'static str,
}

/// The tokenizer files of a class of checkpoints, in the order tried (the `set_vocab` functions of the reference).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vocab {
    /// `tokenizer.json` with byte-level BPE (`_set_vocab_gpt2`).
    Bpe,
    /// As [`Bpe`](Vocab::Bpe), with the text of added tokens unchanged: control tokens are those marked special
    /// (`get_vocab_base` of `DreamModel` and `LLaDAModel`).
    MarkedBpe,
    /// `tokenizer.model`, else as [`Bpe`](Vocab::Bpe).
    SentencePieceOrBpe,
    /// `tokenizer.model`, else a `tokenizer.json` whose BPE falls back to bytes, else as [`Bpe`](Vocab::Bpe); and the particulars of
    /// Llama's relatives (`LlamaModel.set_vocab`).
    Llama,
    /// `tokenizer.model` (`_set_vocab_sentencepiece`).
    SentencePiece,
    /// A `tokenizer.json` whose BPE falls back to bytes (`_set_vocab_llama_hf`).
    LlamaHf,
    /// The entries of a `tokenizer.json` as pieces without scores (`XverseModel.set_vocab`).
    Pieces,
    /// `tokenizer.model` with the changes of `tokenizer_config.json`, whose special tokens are control tokens
    /// (`ArcticModel.set_vocab`).
    Arctic,
    /// `tokenizer.model` with the changes of `tokenizer_config.json` and `tokenizer.json`, and tokens for the space
    /// before a text and for the end of a turn (`InternLM2Model.set_vocab`).
    InternLm2,
    /// `tokenizer.model`; special tokens are those marked in `tokenizer_config.json` (`InternLM3Model.set_vocab`).
    InternLm3,
    /// `tokenizer.model` with the changes of `tokenizer_config.json` and `tokenizer.json`; as [`Bpe`](Vocab::Bpe) for
    /// the tokenizer of GPT-2 (`Phi3MiniModel.set_vocab`).
    Phi3,
    /// `tokenizer.json` with WordPiece, its tokens respelled for llama.cpp: U+2581 before the start of a word, instead
    /// of `##` before continuations (`BertModel.set_vocab`).
    WordPiece,
    /// As [`Bpe`](Vocab::Bpe) or as [`WordPiece`](Vocab::WordPiece), depending on `tokenizer_config.json`; whole words
    /// if the pre-tokenizer is `Whitespace` (`JinaBertV2Model.set_vocab`).
    BpeOrWordPiece,
    /// `sentencepiece.bpe.model` with Unigram, its ids realigned, else a `tokenizer.json` with Unigram
    /// (`BertModel._xlmroberta_set_vocab`).
    XlmRoberta,
    /// As [`XlmRoberta`](Vocab::XlmRoberta) or as [`WordPiece`](Vocab::WordPiece), by the model in `tokenizer.json`
    /// (`NomicBertModel._is_tokenizer_xlmroberta`).
    UnigramOrWordPiece,
    /// `tokenizer.model` or `spiece.model` with Unigram; as [`SentencePiece`](Vocab::SentencePiece) for a `tokenizer.model` with BPE
    /// (`T5Model.set_vocab`).
    T5,
    /// A `tiktoken` file, byte sequences with their ranks, as in Qwen 1 (`_set_vocab_qwen`).
    Tiktoken,
    /// As [`Tiktoken`](Vocab::Tiktoken), with the special tokens named in the files (`HunYuanMoEModel.set_vocab`).
    TiktokenWithoutDefaults,
    /// As [`Bpe`](Vocab::Bpe), else `tiktoken.model` with the special tokens of `tokenizer_config.json`, as in Kimi K2
    /// (`DeepseekV2Model.set_vocab`).
    BpeOrTiktoken,
    /// As [`BpeOrTiktoken`](Vocab::BpeOrTiktoken), but `eos_token` of `tokenizer_config.json` overrides the id in
    /// `config.json` (`KimiLinearModel.set_vocab`).
    BpeOrTiktokenWithEnd,
    /// `rwkv_vocab_v20230424.txt`, with tokens as Python literals (`_set_vocab_rwkv_world`).
    RwkvWorld,
    /// `tokenizer.jsonl` (`_set_vocab_plamo`).
    Plamo,
    /// As [`Plamo`](Vocab::Plamo), with the chat template (`Plamo3Model.set_vocab`).
    PlamoWithTemplate,
    /// A `tokenizer.json` whose BPE falls back to bytes, with its merges and with the tokens of channels and tools as text
    /// (`Gemma4Model.set_vocab`).
    Gemma4,
    /// As [`Bpe`](Vocab::Bpe), else `tokenizer.model`.
    BpeOrSentencePiece,
    /// As [`Bpe`](Vocab::Bpe), with the end-of-turn token if the files name one (`RefactModel.set_vocab`).
    BpeWithEndOfTurn,
    /// `tekken.json`, with the chat template in the folder, or a default for its version (`_set_vocab_mistral`).
    Mistral,
    /// No tokenizer (`_set_vocab_none`).
    None,
}

/// A tensor that is computed from the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Computed {
    /// `rope_freqs.weight`, if the configuration selects rope scaling of type `llama3`.
    Llama3Freqs,
    /// As [`Llama3Freqs`](Computed::Llama3Freqs) for the `rotated` elements of a head, in double precision; 1 for the
    /// rest of the head.
    Llama3FreqsOfPart,
    /// A vector with this name and the values of a formula, unless they are `null`.
    Values(&'static str, &'static str),
    /// `rope_factors_long.weight` and `rope_factors_short.weight`, if the configuration has them.
    LongRopeFactors,
    /// A matrix with this name, and the sines and cosines of 1500 positions; a formula gives the length of its rows
    /// (`Qwen25AudioModel.generate_extra_tensors`).
    Sinusoids(&'static str, &'static str),
}

/// Classes of checkpoints that are converted to an architecture in the same way.
#[derive(Debug, Clone, Copy)]
pub struct Checkpoint {
    /// The classes: first entries of `architectures` in `config.json`.
    pub classes: &'static [&'static str],
    /// The condition for this entry, a formula; an empty one is always true. The first entry whose condition is true
    /// applies.
    pub when: &'static str,
    /// The name in `general.architecture`; if empty, the first name of the [`Architecture`].
    pub name: &'static str,
    /// Prefixes (roots) that are removed from tensor names.
    pub roots: &'static [&'static str],
    /// The prefix of tensors in blocks, after the root; `{}` is the number of the block. In models with an encoder and
    /// a decoder, the prefix of the encoder, then that of the decoder. For encoders of images and sound with a second
    /// run of blocks, further prefixes are those of that run; the field `further_blocks` is the number of its blocks.
    /// In files with encoders of images and of sound, the prefix for sound is the last one.
    pub layers: &'static [&'static str],
    /// Tensors to omit, each with a condition (empty: always). In names, `*` matches any characters. A pattern that
    /// begins with `^` matches the name in the checkpoint, including the root. If the formula yields a list, the
    /// element for the tensor's block is the condition.
    pub skip: &'static [(&'static str, &'static str)],
    /// Tensors to omit, which must be all zeros. In names, `*` matches any characters.
    pub zero: &'static [&'static str],
    /// Alternative names of one tensor that a checkpoint may contain several times. The first one found is used, the
    /// others are omitted.
    pub first_of: &'static [&'static str],
    /// Rows whose values are divided by 2 once for every `rescale_every_n_layers` blocks before theirs.
    pub rescaled: &'static [&'static str],
    /// Prefixes of tensors in blocks that are numbered after the model's own, with the usual prefix: `{}` is the
    /// number of the block, `{0}` its number among these blocks. Tensors without a number belong to the first of these
    /// blocks.
    pub appended: &'static [(&'static str, &'static str)],
    /// Whether tensors of blocks beyond the model's own are omitted.
    pub drops_further_blocks: bool,
    /// Whether the blocks that predict further tokens can be omitted, or written alone. The fact
    /// `@next_tokens` is then `left_out` or `only`.
    pub separates_next_tokens: bool,
    /// Whether llama.cpp does not load these blocks without the main blocks.
    pub keeps_main_blocks: bool,
    /// Additional tensor files, which come first: the path in the folder, the prefix of names, and its replacement.
    pub dense: &'static [(&'static str, &'static str, &'static str)],
    /// Whether dense layers after the pooling, which are modules of sentence-transformers, are written on request.
    pub dense_modules: bool,
    /// Unsupported configurations: a formula, and its description for the error.
    pub refuse: &'static [(&'static str, &'static str)],
    /// Small tensors whose values become facts: the name of the fact, and that of the tensor. If the name contains `{}`
    /// for the number of a block, the fact is a list with the values of each block. These tensors are not written unless
    /// a row names them.
    pub peeked: &'static [(&'static str, &'static str)],
    /// Whether the file `chat_template.jinja` takes precedence over the template in `tokenizer_config.json`.
    pub template_file_first: bool,
    /// Whether embedding rows beyond the tokens of the tokenizer are cut off.
    pub trims_embeddings: bool,
    /// Whether the fact `@zero_rows` lists the all-zero embeddings among the tokens added after the tokenizer's model.
    pub lists_zero_rows: bool,
    /// Whether this is a draft model. The fact `@target` is then the configuration of the target model, whose folder has
    /// the tokenizer.
    pub is_draft: bool,
    /// Whether the tokenizer is read according to the class of the target model.
    pub takes_tokenizer_class: bool,
    /// A tensor of integers that, each plus its index, are token ids of the target model; they become the fact
    /// `@token_ids`. Empty for none.
    pub ids: &'static str,
    /// Facts that are true if the checkpoint has a tensor with a matching name.
    pub present: &'static [(&'static str, &'static str)],
    /// Facts set to the row length of the first tensor with a matching name.
    pub row_lens: &'static [(&'static str, &'static str)],
    /// Facts set to the length of the outermost dimension of the first tensor with a matching name.
    pub row_counts: &'static [(&'static str, &'static str)],
    /// Prefixes, within a block, of tensors that belong to the whole model, with the usual prefix: `{}` is the number
    /// of the block.
    pub outside_blocks: &'static [(&'static str, &'static str)],
    /// Substrings of names to replace before anything else.
    pub rename: &'static [(&'static str, &'static str)],
    /// The tensors of an encoder, by their names in the checkpoint; all others are omitted. `*` matches any
    /// characters. Empty for language models.
    pub takes: &'static [&'static str],
    /// The prefix of hyperparameter keys, if it is not the name of the architecture. Rows of an audio encoder
    /// ([`Row::is_of_sound`]) have `clip.audio`.
    pub sizes: &'static str,
    /// Names whose number is an index into a list: the prefix before the number, and the formula of the list. The list
    /// element replaces the number.
    pub renumbered: &'static [(&'static str, &'static str)],
    /// Names to replace if the formula is true.
    pub rename_if: &'static [(&'static str, &'static str, &'static str)],
    /// Key-values written before those of the model's name and origin.
    pub early_keys: &'static [&'static [Key]],
    /// Key-values in file order. One that is set again keeps its place and takes the new value.
    pub keys: &'static [&'static [Key]],
    /// How the tokenizer is read.
    pub vocab: Vocab,
    /// Default special tokens, by kind and text, for kinds that the tokenizer's files do not set.
    pub special_tokens: &'static [(&'static str, &'static str)],
    /// Special tokens, by kind and text, whose keys follow those of the tokenizer.
    pub late_tokens: &'static [(&'static str, &'static str)],
    /// Key-values written before those of the tokenizer, which may override them.
    pub tokenizer_first: &'static [&'static [Key]],
    /// Key-values written after those of the tokenizer. Formulas may use `tokenizer_config` and `generation_config`,
    /// the JSON files with these names.
    pub tokenizer_keys: &'static [&'static [Key]],
    /// Tensors that are computed.
    pub computed: &'static [Computed],
    /// Whether `config.json` is used without the defaults of its class.
    pub is_raw: bool,
    /// Tensors that are always stored in single precision, by their GGUF names. `*` matches any characters.
    pub precise: &'static [&'static str],
    /// Tensors that are stored in half precision whatever the requested type, by their GGUF names. `*` matches any
    /// characters.
    pub half: &'static [&'static str],
    /// Tensors that are stored in half precision if that is the requested type, else in single precision, by their
    /// GGUF names. `*` matches any characters.
    pub convolutions: &'static [&'static str],
    /// Whether all matrices are stored in the requested type, including those that most architectures keep in single
    /// precision.
    pub forces_type: bool,
    /// Whether the requested type is ignored: matrices in single precision and bfloat16 keep their type, and 8-bit
    /// floats with scales become Q8_0.
    pub keeps_types: bool,
}

impl Checkpoint {
    /// Defaults that suit most checkpoints.
    pub(crate) const TEXT: Checkpoint = Checkpoint {
        classes: &[],
        when: "",
        name: "",
        roots: &["model."],
        layers: &["layers.{}."],
        skip: &[],
        zero: &[],
        first_of: &[],
        rescaled: &[],
        appended: &[],
        drops_further_blocks: false,
        separates_next_tokens: false,
        keeps_main_blocks: false,
        dense: &[],
        dense_modules: false,
        refuse: &[],
        peeked: &[],
        template_file_first: false,
        trims_embeddings: false,
        lists_zero_rows: false,
        is_draft: false,
        takes_tokenizer_class: false,
        ids: "",
        present: &[],
        row_lens: &[],
        row_counts: &[],
        outside_blocks: &[],
        rename: &[],
        takes: &[],
        sizes: "",
        renumbered: &[],
        rename_if: &[],
        early_keys: &[],
        keys: &[groups::GENERIC],
        vocab: Vocab::Bpe,
        special_tokens: &[],
        late_tokens: &[],
        tokenizer_first: &[],
        tokenizer_keys: &[],
        computed: &[],
        is_raw: false,
        precise: &[],
        half: &[],
        convolutions: &[],
        forces_type: false,
        keeps_types: false,
    };
}

/// An architecture, or several with the same tensors.
#[derive(Debug, Clone, Copy)]
pub struct Architecture {
    /// Its names in `general.architecture`.
    pub names: &'static [&'static str],
    /// The keys that llama.cpp requires to load a model (`load_hparams` and `load_arch_hparams`) or to determine
    /// tensor shapes. Keys that only some models need, and `general` and `tokenizer` keys, are not listed.
    pub required: &'static [&'static [&'static str]],
    /// Tensors outside the blocks.
    pub outside: &'static [&'static [Row]],
    /// Tensors of each block.
    pub block: &'static [&'static [Row]],
    /// The checkpoints that are converted to it.
    pub checkpoints: &'static [Checkpoint],
}

impl Architecture {
    /// The tensors outside the blocks.
    pub fn outside(&self) -> impl Iterator<Item = Tensor> + use<> {
        tensors(self.outside)
    }

    /// The tensors of each block.
    pub fn block(&self) -> impl Iterator<Item = Tensor> + use<> {
        tensors(self.block)
    }
}

fn tensors(groups: &'static [&'static [Row]]) -> impl Iterator<Item = Tensor> {
    groups.iter().copied().flatten().flat_map(|row| {
        let bias = row.bias.map(|_| Tensor { row, is_bias: true });
        core::iter::once(Tensor { row, is_bias: false }).chain(bias)
    })
}

impl Tensor {
    /// Whether `name`, without `blk.N.`, is the tensor's name.
    pub fn is_named(&self, name: &str) -> bool {
        match self.is_bias {
            false => name == self.row.own_name(),
            true => name.strip_suffix(".bias") == Some(self.row.stem()) && name != self.row.own_name(),
        }
    }

    /// The tensor's name, without `blk.N.`.
    pub fn name(&self) -> String {
        if self.is_bias { format!("{}.bias", self.row.stem()) } else { self.row.own_name().to_owned() }
    }

    /// The tensor's name in block `block`, or outside the blocks.
    pub fn name_in(&self, block: Option<u64>) -> String {
        match block {
            Some(block) => format!("{}{block}.{}", self.row.stack().prefix(), self.name()),
            None => self.name(),
        }
    }

    /// Its dimensions, the contiguous one first.
    pub fn shape(&self) -> &'static [Dim] {
        match self.row.shape {
            [_, rest @ ..] if self.is_bias && !rest.is_empty() => rest,
            shape => shape,
        }
    }

    /// Whether it is required.
    pub fn need(&self) -> Need {
        if self.is_bias { self.row.bias.unwrap_or(Need::Optional) } else { self.row.need }
    }

    /// Whether `dims` match the expected shape. Trailing dimensions of 1 are ignored, and so are dimensions that the
    /// keys do not determine.
    pub fn fits(&self, dims: Dims<'_>, h: &Hparams<'_>, block: u64) -> bool {
        self.fits_or(None, dims, h, block)
    }

    /// As [`fits`](Tensor::fits), but a dimension that the keys do not determine is 0, the default of llama.cpp's hyperparameters.
    pub fn fits_exactly(&self, dims: Dims<'_>, h: &Hparams<'_>, block: u64) -> bool {
        self.fits_or(Some(0), dims, h, block)
    }

    fn fits_or(&self, default: Option<u64>, dims: Dims<'_>, h: &Hparams<'_>, block: u64) -> bool {
        let shape = self.shape();
        if shape.is_empty() {
            return true;
        }
        let is_open = |dim: Dim| matches!(dim, Dim::Any | Dim::HeadsOrQ | Dim::FfOrTwice);
        let of = |dim: Dim| dim.of(h, block).or(default.filter(|_| !is_open(dim)));
        let same = shape.iter().enumerate().all(|(i, &dim)| match dim {
            Dim::HeadsOrQ => [Dim::Heads, Dim::Q].iter().any(|dim| of(*dim) == Some(dims.dim(i))),
            Dim::FfOrTwice => [Dim::Ff, Dim::TwiceFf].iter().any(|dim| of(*dim) == Some(dims.dim(i))),
            dim => of(dim).is_none_or(|n| n == dims.dim(i)),
        });
        same && dims.skip(shape.len()).all(|n| n == 1)
    }

    /// The expected shape as text, with `?` for dimensions that the keys do not determine.
    pub fn expected(&self, h: &Hparams<'_>, block: u64) -> String {
        let dims = self.shape().iter().map(|dim| dim.of(h, block).map_or_else(|| "?".to_owned(), |n| n.to_string()));
        format!("[{}]", dims.collect::<Vec<_>>().join(", "))
    }
}

impl Row {
    /// The name without the prefix of the block and without `.weight` or `.bias`.
    pub fn stem(&self) -> &'static str {
        let name = self.own_name();
        name.strip_suffix(".weight").or_else(|| name.strip_suffix(".bias")).unwrap_or(name)
    }

    /// The run of blocks that the tensor belongs to.
    pub fn stack(&self) -> Stack {
        self.place().0
    }

    /// The name without the prefix of the block.
    pub fn own_name(&self) -> &'static str {
        self.place().1
    }

    /// The matrix whose presence makes a row with [`Need::UnlessFused`] optional.
    pub fn fused(&self) -> &'static str {
        match self.stem() {
            "attn_k_b" | "attn_v_b" => FUSED_LATENT,
            "attn_qkv" | "attn_gate" => FUSED_LINEAR,
            stem if stem.starts_with("ffn_") => FUSED_EXPERTS,
            _ => FUSED,
        }
    }

    /// Whether the tensor belongs to an audio encoder or its projector, which have their own keys of sizes
    /// (`clip.audio`).
    pub fn is_of_sound(&self) -> bool {
        self.name.starts_with("a.") || self.name.starts_with("mm.a.")
    }

    fn place(&self) -> (Stack, &'static str) {
        let own = |stack: Stack| Some((stack, self.name.strip_prefix(stack.prefix())?.strip_prefix("{}.")?));
        const NAMED: [Stack; 9] = [
            Stack::Encoder,
            Stack::Decoder,
            Stack::ConvNext,
            Stack::Vision,
            Stack::DeepStack,
            Stack::Audio,
            Stack::Sam,
            Stack::ImageProjector,
            Stack::AudioProjector,
        ];
        NAMED.into_iter().find_map(own).unwrap_or((Stack::Only, self.name))
    }
}

/// Matrix of queries, keys and values.
pub const FUSED: &str = "attn_qkv.weight";

/// Matrix of keys and values of latent attention.
pub const FUSED_LATENT: &str = "attn_kv_b.weight";

/// Matrix of queries, keys, values and gates of linear attention.
pub const FUSED_LINEAR: &str = "ssm_in.weight";

/// Matrices of gate and up of all experts.
pub const FUSED_EXPERTS: &str = "ffn_gate_up_exps.weight";

/// The architectures with complete tables. A new architecture needs a file and a line here.
#[rustfmt::skip]
pub static ARCHITECTURES: &[Architecture] = &[
    afmoe::ARCHITECTURE,
    apertus::ARCHITECTURE,
    arcee::ARCHITECTURE,
    arctic::ARCHITECTURE,
    baichuan::ARCHITECTURE,
    bailingmoe2::ARCHITECTURE,
    bailingmoe3::ARCHITECTURE,
    bailingmoe::ARCHITECTURE,
    bert::ARCHITECTURE,
    bitnet::ARCHITECTURE,
    bloom::ARCHITECTURE,
    chameleon::ARCHITECTURE,
    chatglm::ARCHITECTURE,
    codeshell::ARCHITECTURE,
    cogvlm::ARCHITECTURE,
    cohere2::ARCHITECTURE,
    cohere2moe::ARCHITECTURE,
    command_r::ARCHITECTURE,
    dbrx::ARCHITECTURE,
    deci::ARCHITECTURE,
    deepseek2::ARCHITECTURE,
    deepseek2ocr::ARCHITECTURE,
    deepseek32::ARCHITECTURE,
    deepseek32::GLM,
    deepseek4::ARCHITECTURE,
    deepseek::ARCHITECTURE,
    dflash::ARCHITECTURE,
    dots1::ARCHITECTURE,
    dots3note::ARCHITECTURE,
    dream::ARCHITECTURE,
    eagle3::ARCHITECTURE,
    ernie4_5::ARCHITECTURE,
    ernie4_5::WITH_EXPERTS,
    eurobert::ARCHITECTURE,
    exaone4::ARCHITECTURE,
    exaone::ARCHITECTURE,
    exaone_moe::ARCHITECTURE,
    falcon::ARCHITECTURE,
    falcon_h1::ARCHITECTURE,
    gemma2::ARCHITECTURE,
    gemma3::ARCHITECTURE,
    gemma3::EMBEDDING,
    gemma3n::ARCHITECTURE,
    gemma4::ARCHITECTURE,
    gemma4::ASSISTANT,
    gemma::ARCHITECTURE,
    glm4::ARCHITECTURE,
    glm4moe::ARCHITECTURE,
    glm5_next::ARCHITECTURE,
    gpt2::ARCHITECTURE,
    gpt_oss::ARCHITECTURE,
    gptj::ARCHITECTURE,
    gptneox::ARCHITECTURE,
    granite::ARCHITECTURE,
    granite_hybrid::ARCHITECTURE,
    granite_swa::ARCHITECTURE,
    granite_switch::ARCHITECTURE,
    grok::ARCHITECTURE,
    grovemoe::ARCHITECTURE,
    hrm_text::ARCHITECTURE,
    hunyuan::ARCHITECTURE,
    hunyuan_moe::ARCHITECTURE,
    hy_v3::ARCHITECTURE,
    hy_v4::ARCHITECTURE,
    internlm2::ARCHITECTURE,
    jais2::ARCHITECTURE,
    jais::ARCHITECTURE,
    jamba::ARCHITECTURE,
    jina_bert::V2,
    kimi_k3::ARCHITECTURE,
    kimi_linear::ARCHITECTURE,
    laguna::ARCHITECTURE,
    lfm2::ARCHITECTURE,
    lfm2::WITH_EXPERTS,
    llada::ARCHITECTURE,
    llada_moe::ARCHITECTURE,
    llama4::ARCHITECTURE,
    llama::ARCHITECTURE,
    llama::MISTRAL3,
    maincoder::ARCHITECTURE,
    mamba2::ARCHITECTURE,
    mamba::ARCHITECTURE,
    maple::ARCHITECTURE,
    mellum::ARCHITECTURE,
    mimo2::ARCHITECTURE,
    minicpm3::ARCHITECTURE,
    minicpm::ARCHITECTURE,
    minimax_01::ARCHITECTURE,
    minimax_m2::ARCHITECTURE,
    minimax_m3::ARCHITECTURE,
    modern_bert::ARCHITECTURE,
    mpt::ARCHITECTURE,
    muse_glimmer::ARCHITECTURE,
    nanbeige::ARCHITECTURE,
    nemotron::ARCHITECTURE,
    nemotron_h::ARCHITECTURE,
    neo_bert::ARCHITECTURE,
    nomic_bert::ARCHITECTURE,
    nomic_bert::WITH_EXPERTS,
    olmo2::ARCHITECTURE,
    olmo::ARCHITECTURE,
    olmoe::ARCHITECTURE,
    openelm::ARCHITECTURE,
    orion::ARCHITECTURE,
    pangu::ARCHITECTURE,
    phi2::ARCHITECTURE,
    phi3::ARCHITECTURE,
    phimoe::ARCHITECTURE,
    plamo2::ARCHITECTURE,
    plamo3::ARCHITECTURE,
    plamo::ARCHITECTURE,
    plm::ARCHITECTURE,
    qwen2::ARCHITECTURE,
    qwen2::WITH_VISION,
    qwen2moe::ARCHITECTURE,
    qwen3::ARCHITECTURE,
    qwen3::WITH_VISION,
    qwen3moe::ARCHITECTURE,
    qwen3next::ARCHITECTURE,
    qwen3next::QWEN35,
    qwen3next::QWEN35_MOE,
    qwen3vlmoe::ARCHITECTURE,
    qwen4exp::ARCHITECTURE,
    qwen::ARCHITECTURE,
    refact::ARCHITECTURE,
    rwkv6::ARCHITECTURE,
    rwkv6::WITH_QWEN,
    rwkv7::ARCHITECTURE,
    rwkv7::WITH_QWEN,
    rwkv::ARCHITECTURE,
    seed_oss::ARCHITECTURE,
    smallthinker::ARCHITECTURE,
    smollm3::ARCHITECTURE,
    spark2_5::ARCHITECTURE,
    stablelm::ARCHITECTURE,
    starcoder2::ARCHITECTURE,
    starcoder::ARCHITECTURE,
    step35::ARCHITECTURE,
    t5::ARCHITECTURE,
    t5::ENCODER,
    talkie::ARCHITECTURE,
    wavtokenizer::ARCHITECTURE,
    whisper::ARCHITECTURE,
    xverse::ARCHITECTURE,
];

pub use unsupported::{UNSUPPORTED, UNSUPPORTED_ENCODERS};

/// The image and audio encoders, which are written to separate files beside the language model.
pub use towers::TOWERS;

/// Outside the blocks, in every architecture but [`ODD`] ones.
pub const COMMON_OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Optional Always;
    "output_norm.weight" [Embd]       Optional Always;
    "output.weight"      [Embd Vocab] Optional Always;
};

/// In blocks, in every architecture but [`ODD`] ones.
pub const COMMON: &[Row] = rows! {
    "attn_norm.weight"   [Embd]       Optional Always;
    "ffn_norm.weight"    [Embd]       Optional Always;
};

/// Architectures that use these names for tensors of other shapes: several models in one file, codecs, and heads on
/// top of another model.
pub const ODD: &[&str] = &[
    "cogvlm",
    "dflash",
    "eagle3",
    "gemma4-assistant",
    "hrm_text",
    "kimi-k3",
    "openelm",
    "pockettts",
    "qwen3tts",
    "talkie",
    "wavtokenizer-dec",
];

/// The architecture with this name; `None` if it has no table.
///
/// ```
/// let llama = gguf_model::arch::of("llama").expect("a known architecture");
/// let names: Vec<String> = llama.block().map(|tensor| tensor.name_in(Some(0))).collect();
/// assert!(names.iter().any(|name| name == "blk.0.attn_q.weight"));
/// assert!(gguf_model::arch::of("unknown").is_none());
/// ```
pub fn of(name: &str) -> Option<&'static Architecture> {
    ARCHITECTURES.iter().find(|architecture| architecture.names.contains(&name))
}

/// The keys that llama.cpp requires of this architecture, except `general` and `tokenizer` keys; empty for
/// architectures that it does not load.
///
/// ```
/// let mut keys = gguf_model::arch::required_keys("llama");
/// assert!(keys.any(|info| info.pattern == gguf_format::keys::BLOCK_COUNT));
/// ```
pub fn required_keys(name: &str) -> impl Iterator<Item = &'static KeyInfo> {
    let listed = of(name).map(|architecture| architecture.required);
    let keys = listed.unwrap_or_else(|| unlisted::required(name));
    keys.iter().copied().flatten().filter_map(|key| keys::info(key))
}

/// The architectures for checkpoints of a class, in the order in which their conditions are evaluated.
pub fn all_of_class(class: &str) -> impl Iterator<Item = (&'static Architecture, &'static Checkpoint)> {
    let all = ARCHITECTURES.iter().flat_map(|arch| arch.checkpoints.iter().map(move |checkpoint| (arch, checkpoint)));
    let found = all.filter(|(_, checkpoint)| checkpoint.classes.contains(&class));
    // The entry without a condition is the fallback.
    let (some, rest): (Vec<_>, Vec<_>) = found.partition(|(_, checkpoint)| !checkpoint.when.is_empty());
    some.into_iter().chain(rest)
}

/// The image and audio encoders in checkpoints of a class, in the order in which their conditions are evaluated.
pub fn towers_of_class(class: &str) -> impl Iterator<Item = (&'static Architecture, &'static Checkpoint)> {
    let all = TOWERS.iter().flat_map(|arch| arch.checkpoints.iter().map(move |checkpoint| (arch, checkpoint)));
    all.filter(move |(_, checkpoint)| checkpoint.classes.contains(&class))
}

/// The architecture for checkpoints of a class; the first one if it depends on their configuration.
///
/// ```
/// let (architecture, checkpoint) = gguf_model::arch::of_class("Qwen2ForCausalLM").expect("a known class");
/// assert_eq!(checkpoint.architecture(architecture), "qwen2");
/// ```
pub fn of_class(class: &str) -> Option<(&'static Architecture, &'static Checkpoint)> {
    all_of_class(class).next()
}

impl Checkpoint {
    /// The name in `general.architecture`.
    pub fn architecture(&self, of: &Architecture) -> &'static str {
        match self.name {
            "" => of.names.first().copied().unwrap_or_default(),
            name => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fit_a_word_of_bits() {
        for family in ARCHITECTURES {
            assert!(family.block().count() <= 128 && family.outside().count() <= 128, "{:?}", family.names);
        }
        assert!(ODD.is_sorted());
    }

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

    #[test]
    fn architectures_that_llama_cpp_loads_have_required_keys() {
        let required = |name: &str| required_keys(name).map(|row| row.pattern).collect::<Vec<_>>();
        for name in keys::ARCHITECTURES {
            let found = required(name);
            assert_eq!(found.is_empty(), ["clip", "gptj"].contains(name), "{name}");
            assert!(found.iter().all(|key| found.iter().filter(|k| *k == key).count() == 1), "{name} {found:?}");
            println!("{name} {}", found.join(","));
        }
        for architecture in ARCHITECTURES {
            let keys = architecture.required.iter().copied().flatten();
            assert!(keys.clone().all(|key| keys::info(key).is_some()), "{:?}", architecture.names);
        }
        let llama = [
            keys::CONTEXT_LENGTH,
            keys::EMBEDDING_LENGTH,
            keys::BLOCK_COUNT,
            keys::ATTENTION_HEAD_COUNT,
            keys::ATTENTION_LAYER_NORM_RMS_EPSILON,
            keys::FEED_FORWARD_LENGTH,
        ];
        assert_eq!(required("llama"), llama);
        assert!(required("unheard").is_empty());
    }
}
