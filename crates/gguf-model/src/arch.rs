//! Architectures, one file each, as tables: which tensors each has and what shapes follow from its keys (`load_arch_tensors` of the
//! files in llama.cpp's `src/models`), and how a checkpoint of Hugging Face becomes one (`conversion/` of llama.cpp).
//!
//! An [`Architecture`] lists all its tensors, so that missing and unexpected ones are found, and for each the tensor of
//! the checkpoint that it is made of. A [`Checkpoint`] adds what is particular to classes of checkpoints: their names, the
//! key-values and how they follow from `config.json`, the kind of tokenizer. Tables hold no functions; `gguf-hf` interprets
//! them. For all architectures that are not listed there is a list of tensors that mean the same wherever they are ([`COMMON`]),
//! looked at if present.
//!
//! The types of a table are in one file, because an author of an architecture reads them together.

use gguf_format::Dims;
use gguf_format::keys::{self, KeyInfo};

use crate::hparams::Hparams;
pub use crate::stack::Stack;

/// Tensors, each a row that ends with a semicolon:
///
/// ```text
/// "attn_q.weight" [Embd Q] UnlessFused Always + Optional <- "self_attn.q_proj" : ROPE;
/// ```
///
/// The GGUF name, without `blk.N.`; its dimensions from the contiguous one on; whether it is needed, and in which models; with
/// `+`, whether there is a bias too; after `<-` the names in a checkpoint, as [`Row::source`] describes; after `:` the [pattern](Row::pattern); then
/// [functions](Map) of its values, each after a comma.
macro_rules! rows {
    ($($name:literal [$($dim:ident)*] $need:ident $when:ident $(+ $bias:ident)?
       $(<- $source:literal $(: $pattern:expr)? $(, $map:expr)*)?;)*) => {
        &[$(Row::new($name, &[$(Dim::$dim),*], Need::$need, When::$when)
            $(.with_bias(Need::$bias))?
            $(.from($source)$(.by($pattern))?.mapped(&[$($map),*]))?),*]
    };
}

/// Key-values, each a row that ends with a semicolon: `"rope.freq_base" F32? = "rope_theta";`. The key, without the name of
/// the architecture unless it has a prefix of its own; the type, with `?` if the key is left out where the formula has no value; and
/// the formula, as [`Key::formula`] describes. `let x = "formula";` sets a field of the configuration for the rows below.
macro_rules! keys {
    (@rows [$($done:expr,)*]) => { &[$($done),*] };
    (@rows [$($done:expr,)*] let $field:ident = $formula:expr; $($rest:tt)*) => {
        keys!(@rows [$($done,)* Key { key: stringify!($field), kind: Kind::Field, is_optional: true, formula: $formula },] $($rest)*)
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

/// What a file of this folder is written with.
mod prelude {
    pub(super) use gguf_format::keys;

    pub(super) use super::groups::*;
    pub(super) use super::{Architecture, Checkpoint, Computed, Dim, Key, Kind, Map, Need, Row, Vocab, When};
}

/// Dimensions: the meaning of each, the keys that determine it, and the formula.
macro_rules! dims {
    ($($(#[$doc:meta])* $dim:ident $keys:literal |$h:pat_param, $block:pat_param| $of:expr;)*) => {
        /// A dimension, by its meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Dim {
            $($(#[$doc])* $dim,)*
        }

        impl Dim {
            /// Every dimension.
            pub const ALL: &[Dim] = &[$(Dim::$dim),*];

            /// The name in tables.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Dim::$dim => stringify!($dim),)*
                }
            }

            /// The keys that it follows from, for messages.
            pub const fn keys(self) -> &'static str {
                match self {
                    $(Dim::$dim => $keys,)*
                }
            }

            /// The number, in block `block`; `None` when the keys do not say it.
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
    /// Width of the feed-forward part of all shared experts together.
    SharedExpertsFf "expert_feed_forward_length × expert_shared_count" |h, _| h.expert_ff?.checked_mul(h.shared_experts);
    /// Width of the feed-forward part of an expert.
    ExpertFf "expert_feed_forward_length or feed_forward_length" |h, b| h.expert_ff.or(h.ff?.get(b));
    /// Width of gate and up of an expert together.
    TwiceExpertFf "2 × expert_feed_forward_length or feed_forward_length" |h, b| h.expert_ff.or(h.ff?.get(b))?.checked_mul(2);
    /// Elements of the queries of all heads.
    Q "attention.head_count × attention.key_length" |h, b| h.q(b);
    /// Elements of the keys of all heads.
    K "attention.head_count_kv × attention.key_length" |h, b| h.k(b);
    /// Elements of the values of all heads.
    V "attention.head_count_kv × attention.value_length" |h, b| h.v(b);
    /// Queries, keys and values behind each other.
    Qkv "attention.head_count + 2 × attention.head_count_kv heads" |h, b| h.q(b)?.checked_add(h.k(b)?)?.checked_add(h.v(b)?);
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
    /// Elements of the state that queries are made of.
    QLora "attention.q_lora_rank" |h, _| h.q_lora;
    /// Elements of the state that keys and values are made of.
    KvLora "attention.kv_lora_rank" |h, _| h.kv_lora;
    /// As [`KvLora`](Dim::KvLora), and behind it the rotated elements that the keys of all heads share.
    KvLoraRot "attention.kv_lora_rank + rope.dimension_count" |h, _| h.kv_lora?.checked_add(h.rot?);
    /// Elements that are made of that state: for each head of queries what is not rotated of a key, and a value.
    LatentKv "attention.head_count × (attention.key_length - rope.dimension_count + attention.value_length)" |h, b| {
        h.heads?.get(b)?.checked_mul(h.head_k?.checked_sub(h.rot?)?.checked_add(h.head_v?)?)
    };
    /// Elements of a value for each head of queries.
    HeadsV "attention.head_count × attention.value_length" |h, b| h.heads?.get(b)?.checked_mul(h.head_v?);
    /// Kinds of tokens.
    TokenTypes "tokenizer.ggml.token_type_count" |h, _| h.token_types;
    /// Half of the width of the feed-forward part.
    HalfFf "half of feed_forward_length" |h, b| h.ff?.get(b).map(|n| n / 2);
    /// Elements that time steps are made of in PLaMo 2 (`load_arch_tensors` in `src/models/plamo2.cpp`).
    SsmDt "the larger of 64 and embedding_length / 16" |h, _| h.embd.map(|n| (n / 16).max(64));
    /// What time steps are made of, and input and output projections.
    SsmDtX "the larger of 64 and embedding_length / 16, and 2 × ssm.state_size"
        |h, b| Dim::SsmDt.of(h, b)?.checked_add(h.ssm_state?.checked_mul(2)?);
    /// Width of a head of RWKV.
    WkvHead "wkv.head_size" |h, _| h.wkv_head;
    /// Heads of RWKV.
    WkvHeads "embedding_length / wkv.head_size" |h, _| h.embd?.checked_div(h.wkv_head?);
    /// Elements of keys or values of RWKV with Qwen's heads: of as many heads as the key says, or of all.
    WkvKv "attention.head_count_kv × wkv.head_size" |h, b| match h.heads_kv?.get(b)? {
        0 => h.embd,
        n => n.checked_mul(h.wkv_head?),
    };
    /// Rank of the projections that mix in the token before.
    Mix "time_mix_extra_dim" |h, _| h.time_mix;
    /// Five of these projections.
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
    /// Classes of relative distances.
    Buckets "attention.relative_buckets_count" |h, _| h.buckets;
    /// Positions.
    Context "context_length" |h, _| h.context;
    /// Width of the feed-forward part of an expert, where those in use share that of the whole.
    UsedFf "expert_feed_forward_length or feed_forward_length / expert_used_count"
        |h, b| h.expert_ff.or_else(|| h.ff?.get(b)?.checked_div(h.experts_used?));
    /// Width of gate and up together of an expert that shares the width of the feed-forward part.
    TwiceUsedFf "2 × expert_feed_forward_length or feed_forward_length / expert_used_count"
        |h, b| h.expert_ff.or_else(|| h.ff?.get(b)?.checked_div(h.experts_used?))?.checked_mul(2);
    /// Width of the feed-forward part of the expert of a group of experts.
    ChunkFf "expert_chunk_feed_forward_length or attention.key_length" |h, _| h.chunk_ff.or(h.head_k);
    /// Groups of experts.
    ExpertGroups "expert_count / experts_per_group" |h, _| h.experts.checked_div(h.experts_per_group?);
    /// Gate and up of the feed-forward part in one.
    TwiceFf "2 × feed_forward_length" |h, b| h.ff?.get(b)?.checked_mul(2);
    /// Gate and up of the shared expert in one.
    TwiceSharedFf "2 × expert_shared_feed_forward_length" |h, _| h.shared_ff?.checked_mul(2);
    /// 1.
    One "1" |_, _| Some(1);
    /// Positions that the convolution before a state space sees.
    SsmConv "ssm.conv_kernel" |h, _| h.ssm_conv;
    /// Width of a state space.
    SsmInner "ssm.inner_size" |h, _| h.ssm_inner;
    /// Size of the state of each element of a state space.
    SsmState "ssm.state_size" |h, _| h.ssm_state;
    /// Rank of the time steps; heads in Mamba 2.
    SsmRank "ssm.time_step_rank" |h, _| h.ssm_rank;
    /// Groups of heads that share input and output projections.
    SsmGroups "ssm.group_count" |h, _| h.ssm_groups;
    /// Width of one group.
    SsmGroup "ssm.inner_size / ssm.group_count" |h, _| h.ssm_inner?.checked_div(h.ssm_groups?);
    /// A state space and its gate.
    SsmGated "2 × ssm.inner_size" |h, _| h.ssm_inner?.checked_mul(2);
    /// Time steps, input and output projections of Mamba 1.
    SsmX "ssm.time_step_rank + 2 × ssm.state_size" |h, _| h.ssm_rank?.checked_add(h.ssm_state?.checked_mul(2)?);
    /// What Mamba 2 convolves: the state space, and input and output projections of each group.
    SsmConvIn "ssm.inner_size + 2 × ssm.group_count × ssm.state_size" |h, _| h.ssm_conv_in();
    /// Elements of a hidden state of the encoder.
    EncoderEmbd "encoder.embedding_length" |h, _| h.encoder_embd;
    /// Positions of the encoder.
    EncoderContext "encoder.context_length" |h, _| h.encoder_context;
    /// Frequencies of the sound that the encoder reads.
    Mels "encoder.mels_count" |h, _| h.mels;
    /// 3.
    Three "3" |_, _| Some(3);
    /// The projection of the hidden state in Mamba 2: the gate, the input of the convolution, the time steps.
    SsmIn "2 × ssm.inner_size + 2 × ssm.group_count × ssm.state_size + ssm.time_step_rank"
        |h, _| h.ssm_inner?.checked_add(h.ssm_conv_in()?)?.checked_add(h.ssm_rank?);
    /// Elements of the queries of all heads, and as many of a gate.
    GatedQ "2 × attention.head_count × attention.key_length" |h, b| h.q(b)?.checked_mul(2);
    /// Queries with their gates, keys and values behind each other.
    GatedQkv "2 × attention.head_count × attention.key_length, and key-value heads" |h, b| h.q(b)?.checked_mul(2)?.checked_add(h.k(b)?)?.checked_add(h.v(b)?);
    /// Queries and keys of linear attention.
    SsmQk "2 × ssm.group_count × ssm.state_size" |h, _| h.ssm_groups?.checked_mul(h.ssm_state?)?.checked_mul(2);
    /// Two hidden states.
    TwiceEmbd "2 × embedding_length" |h, _| h.embd?.checked_mul(2);
    /// Two numbers for each head of a state space.
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
    /// Positions that a short convolution sees.
    ShortConv "shortconv.l_cache" |h, _| h.shortconv;
    /// A short convolution with its two gates.
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
    /// Elements of the state that experts work on.
    ExpertLatent "expert_latent_length or embedding_length" |h, _| h.expert_latent.or(h.embd);
    /// Experts that work on a token.
    ExpertsUsed "expert_used_count" |h, _| h.experts_used;
    /// Elements of the queries of a group of heads.
    GroupQ "attention.head_count × attention.key_length / attention.output_group_count"
        |h, b| h.q(b)?.checked_div(h.output_groups?);
    /// Elements of the states that the outputs of all groups of heads are projected to.
    GroupsLora "attention.output_group_count × attention.output_lora_rank"
        |h, _| h.output_groups?.checked_mul(h.output_lora?);
    /// Hidden states that blocks mix.
    Hyper "hyper_connection.count" |h, _| h.hyper;
    /// Elements of these hidden states.
    HyperEmbd "hyper_connection.count × embedding_length" |h, _| h.hyper?.checked_mul(h.embd?);
    /// Weights of a mixture of them: one before, one after, and one for each pair.
    HyperMix "(2 + hyper_connection.count) × hyper_connection.count" |h, _| h.hyper?.checked_mul(h.hyper?.checked_add(2)?);
    /// Rank of the gates of hyper-connections.
    HyperRank "hyper_connection.low_rank" |h, _| h.hyper_rank;
    /// Positions that the convolution of n-gram embeddings sees.
    NGramConv "ple.conv_kernel" |h, _| h.ngram_conv;
    /// Positions that attention compresses into one.
    Ratio "attention.compress_ratios" |h, b| h.compress_ratio(b);
    /// Elements of compressed keys, which overlap where an indexer selects among them.
    Compressed "attention.key_length, twice where attention.compress_ratios is 4"
        |h, b| h.head_k?.checked_mul(if h.is_compressed_with_indexer(b) { 2 } else { 1 });
    /// Elements of two keys of the indexer.
    TwiceIndexerKey "2 × attention.indexer.key_length" |h, _| h.indexer_key?.checked_mul(2);
}

impl Dim {
    /// The dimension of that name in tables.
    pub fn from_name(name: &str) -> Option<Dim> {
        Dim::ALL.iter().copied().find(|dim| dim.name() == name)
    }
}

/// Whether a tensor has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Need {
    /// It has to be there.
    Required,
    /// It may be there.
    Optional,
    /// Required, unless queries, keys and values, or gate and up of all experts, are in one matrix: that of [`Row::fused`].
    UnlessFused,
}

/// The models and blocks to which a row applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum When {
    /// All models.
    Always,
    /// Blocks without experts: all of a model without any, and those that `leading_dense_block_count` and
    /// `interleave_moe_layer_step` say.
    Dense,
    /// Blocks with experts.
    Experts,
    /// Blocks with experts, one of which is shared.
    SharedExpert,
    /// Blocks with experts, some of which are shared, by their number.
    SharedExperts,
    /// All blocks but the first.
    NotFirst,
    /// The first block.
    First,
    /// Blocks with attention, where others have recurrent layers in its place.
    Attention,
    /// Blocks with a recurrent layer, or a convolution, in place of attention.
    Recurrent,
    /// Models of RWKV with a gate.
    Gate,
    /// Models of RWKV without a gate.
    NoGate,
    /// Blocks that predict further tokens.
    NextTokens,
    /// All other blocks.
    Main,
    /// Blocks whose attention sees a sliding window.
    Windowed,
    /// All other blocks.
    Whole,
    /// Of models whose blocks run several times, those that have weights.
    Stacked,
    /// Models with n-gram embeddings.
    NGrams,
    /// Blocks that add n-gram embeddings.
    NGramBlock,
    /// Blocks whose attention compresses positions.
    Compressed,
    /// Blocks with an indexer that selects among compressed positions.
    Indexed,
    /// Blocks whose experts follow from the token.
    Hashed,
    /// All other blocks.
    Scored,
    /// Blocks that mix several hidden states.
    Mixed,
    /// All other blocks.
    Unmixed,
}

impl When {
    /// Whether a row with it applies to block `block` of a model of these sizes.
    pub fn holds(self, h: &Hparams<'_>, block: u64) -> bool {
        let has_experts = h.experts > 0 && block >= h.leading_dense && h.is_expert_step(block) && h.is_moe_layer(block);
        match self {
            When::Always => true,
            When::Dense => !has_experts,
            When::Experts => has_experts,
            When::SharedExpert => has_experts && h.shared_ff.is_some(),
            When::SharedExperts => has_experts && h.shared_experts > 0,
            When::NotFirst => block > 0,
            When::First => block == 0,
            When::Attention => !h.is_recurrent(block),
            When::Recurrent => h.is_recurrent(block),
            When::Gate => h.gate_lora != Some(0),
            When::NoGate => h.gate_lora == Some(0),
            When::NextTokens => h.is_nextn(block),
            When::Main => !h.is_nextn(block),
            When::Windowed => h.is_windowed(block),
            When::Whole => !h.is_windowed(block),
            When::Stacked => h.stacked.is_none_or(|n| block < n),
            When::NGrams => h.ngram_blocks.is_some_and(|list| list.len() > 0),
            When::NGramBlock => h.has_ngrams(block),
            When::Compressed => h.compress_ratio(block).is_some_and(|n| n > 0),
            When::Indexed => h.is_compressed_with_indexer(block),
            When::Hashed => block < h.hash_blocks,
            When::Scored => block >= h.hash_blocks,
            When::Mixed => h.hyper.is_some_and(|n| n > 0),
            When::Unmixed => h.hyper.is_none_or(|n| n == 0),
        }
    }
}

/// A function of single values, by the rules of the reference converter: it computes in single precision, and where the source is in
/// half precision every step is rounded to that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Map {
    /// Adds a number.
    Add(f32),
    /// Multiplies by a number.
    Scale(f32),
    /// The negated exponential function.
    NegExp,
    /// Multiplies those values by a number whose place in the output, modulo `period`, lies from `from` to before `to`.
    ScalePart {
        /// After how many values the parts come again.
        period: u64,
        /// The first place.
        from: u64,
        /// The place after the last.
        to: u64,
        /// The number.
        factor: f32,
    },
    /// Sets values to zero from that place in the output on.
    ZeroFrom(u64),
    /// Sets values to zero before that place in the output.
    ZeroBefore(u64),
    /// Rounds to the nearest of three values: minus a number, zero and the number.
    RoundToThree(f32),
    /// In tables and plans: as [`RoundToThree`](Map::RoundToThree), with the mean of the absolute values of the tensor, which the run determines.
    /// It follows all moves, and is the only function of its row.
    RoundToMean,
    /// In tables: sets the first rows to zero, as many.
    ZeroRows(u64),
    /// In tables: takes the values of a formula in place of those of the source: one number for all, a list, or a list with a list for each
    /// block.
    Values(&'static str),
    /// In tables: multiplies by the value of a formula over the fields of the configuration.
    ScaleBy(&'static str),
    /// In tables: multiplies rows by the value of a formula, a list of `[rows, number]` for rows that follow each other. The list
    /// begins again where it ends.
    ScaleRowsBy(&'static str),
    /// In tables: keeps whole numbers, in 32 bits. The only function of its row.
    Whole,
    /// In tables: appends rows of zeros until there are as many as the value of a formula.
    PadRowsTo(&'static str),
}

/// One tensor, with its bias if it may have one. Several rows with the same name are several ways to make it.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its name, without `blk.N.`; in models with an encoder and a decoder with `enc.blk.{}.` or `dec.blk.{}.`.
    pub name: &'static str,
    /// Its dimensions, the contiguous one first; empty when they are not known.
    pub shape: &'static [Dim],
    /// Whether it has to be there.
    pub need: Need,
    /// The models and blocks to which the row applies.
    pub when: When,
    /// Whether the bias has to be there; `None` where there is none. Its name ends in `.bias` in place of `.weight`, and it has
    /// the dimensions of a matrix but the first, or those of a vector.
    pub bias: Option<Need>,
    /// The name in a checkpoint, without `.weight` or `.bias`, and without the prefix of the block. Empty for tensors that
    /// conversion does not make.
    ///
    /// `a | b` are spellings of which a checkpoint has one. `{x}` stands for the number of an expert, `{h}` of a
    /// head, `{kv}` of a key-value head: the tensors are stacked, in a new outermost dimension. `a + b` are tensors that are
    /// concatenated along their outermost dimension, and so are those of `{+n}`, which stands for the numbers of `n` parts.
    /// `a * b` are multiplied element by element, in single precision, to a vector.
    pub source: &'static str,
    /// How elements change places; empty where they do not. See the `pattern` module of `gguf-hf` for the notation.
    pub pattern: &'static str,
    /// What is done to each value, in this order.
    pub maps: &'static [Map],
}

impl Row {
    const fn new(name: &'static str, shape: &'static [Dim], need: Need, when: When) -> Row {
        Row { name, shape, need, when, bias: None, source: "", pattern: "", maps: &[] }
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
        Row { maps, ..self }
    }
}

/// A tensor of an architecture: that of a row, or its bias.
#[derive(Debug, Clone, Copy)]
pub struct Tensor {
    /// The row.
    pub row: &'static Row,
    /// Whether it is the row's bias.
    pub is_bias: bool,
}

/// The types of the values that keys have. A list has the type of its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A whole number from 0 on, of 32 bits; in lists signed, as the reference writes them.
    U32,
    /// A whole number of 32 bits.
    I32,
    /// A whole number from 0 on, of 64 bits.
    U64,
    /// A number in single precision.
    F32,
    /// True or false.
    Bool,
    /// Text.
    Str,
    /// None: the row sets a field of the configuration.
    Field,
}

/// A key-value, and how it follows from the configuration of a checkpoint.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The key, without the name of the architecture, unless it begins with `general.`, `tokenizer.` or `diffusion.`; or the name of
    /// a field.
    pub key: &'static str,
    /// The type of its value.
    pub kind: Kind,
    /// Whether it is left out where the formula has no value; otherwise that is an error.
    pub is_optional: bool,
    /// The value, as an expression over the fields of the configuration. See the `formula` module of `gguf-hf`.
    pub formula: &'static str,
}

/// Which tokenizer files a class of checkpoints is read with, in this order (the `set_vocab` functions of the reference).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vocab {
    /// `tokenizer.json` with byte-level BPE (`_set_vocab_gpt2`).
    Bpe,
    /// As [`Bpe`](Vocab::Bpe), with added tokens as they are written: control tokens are those that are marked special
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
    /// `tokenizer.model`, changed as `tokenizer_config.json` says, whose special tokens are control tokens
    /// (`ArcticModel.set_vocab`).
    Arctic,
    /// `tokenizer.model`, changed as `tokenizer_config.json` and `tokenizer.json` say; with tokens for the space before a text and
    /// for the end of a turn (`InternLM2Model.set_vocab`).
    InternLm2,
    /// `tokenizer.model`; special tokens are those that `tokenizer_config.json` marks (`InternLM3Model.set_vocab`).
    InternLm3,
    /// `tokenizer.model`, changed as `tokenizer_config.json` and `tokenizer.json` say; as [`Bpe`](Vocab::Bpe) for the tokenizer of
    /// GPT-2 (`Phi3MiniModel.set_vocab`).
    Phi3,
    /// `tokenizer.json` with WordPiece, whose tokens become those of llama.cpp: with U+2581 before the start of a word instead of
    /// `##` before all else (`BertModel.set_vocab`).
    WordPiece,
    /// As [`Bpe`](Vocab::Bpe) or as [`WordPiece`](Vocab::WordPiece), as `tokenizer_config.json` says; words without pieces where
    /// the pre-tokenizer is `Whitespace` (`JinaBertV2Model.set_vocab`).
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
    /// A file of byte sequences with their ranks, of the kind that `tiktoken` reads, as Qwen 1 has it (`_set_vocab_qwen`).
    Tiktoken,
    /// As [`Tiktoken`](Vocab::Tiktoken), where the files name the special tokens (`HunYuanMoEModel.set_vocab`).
    TiktokenWithoutDefaults,
    /// As [`Bpe`](Vocab::Bpe), else `tiktoken.model` with the special tokens of `tokenizer_config.json`, as Kimi K2 has it
    /// (`DeepseekV2Model.set_vocab`).
    BpeOrTiktoken,
    /// As [`BpeOrTiktoken`](Vocab::BpeOrTiktoken), where `eos_token` of `tokenizer_config.json` overrides the id in `config.json`
    /// (`KimiLinearModel.set_vocab`).
    BpeOrTiktokenWithEnd,
    /// `rwkv_vocab_v20230424.txt`, with tokens as Python writes them (`_set_vocab_rwkv_world`).
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
    /// As [`Bpe`](Vocab::Bpe), with the token that ends a turn where the files name one (`RefactModel.set_vocab`).
    BpeWithEndOfTurn,
    /// `tekken.json`, with the chat template of the folder or one by the version (`_set_vocab_mistral`).
    Mistral,
    /// No tokenizer (`_set_vocab_none`).
    None,
}

/// A tensor that is computed from the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Computed {
    /// `rope_freqs.weight` of stretched rotary frequencies, where the configuration asks for the kind `llama3`.
    Llama3Freqs,
    /// As [`Llama3Freqs`](Computed::Llama3Freqs) for the rotated part of a head, `rotated` elements, computed in double precision; 1 for the
    /// rest of the head.
    Llama3FreqsOfPart,
    /// A vector of that name with the values of a formula, where these are not `null`.
    Values(&'static str, &'static str),
    /// `rope_factors_long.weight` and `rope_factors_short.weight`, where the configuration has them.
    LongRopeFactors,
}

/// Classes of checkpoints that become an architecture in the same way.
#[derive(Debug, Clone, Copy)]
pub struct Checkpoint {
    /// The classes: first entries of `architectures` in `config.json`.
    pub classes: &'static [&'static str],
    /// The condition under which checkpoints of the classes become that; an empty one holds. Of several in the list, the first whose
    /// condition holds counts.
    pub when: &'static str,
    /// The name in `general.architecture`; empty for the first of the architecture's.
    pub name: &'static str,
    /// What names of tensors may begin with, and is taken away.
    pub roots: &'static [&'static str],
    /// What the names of tensors in blocks begin with, after the root; `{}` is the number of the block. In models with an encoder
    /// and a decoder, that of the encoder and then that of the decoder.
    pub layers: &'static [&'static str],
    /// Tensors that are left out, with the formula that has to hold, or an empty one. In names, `*` stands for anything. A
    /// pattern that begins with `^` is one of the names in the checkpoint, with their root. Where the formula gives a list, the element of the
    /// tensor's block has to hold.
    pub skip: &'static [(&'static str, &'static str)],
    /// Tensors that are left out, and have to be zero throughout. In names, `*` stands for anything.
    pub zero: &'static [&'static str],
    /// Names of one tensor that a checkpoint may have several times. The first of them is taken, the others are left out.
    pub first_of: &'static [&'static str],
    /// Rows whose values are divided by 2 as often as `rescale_every_n_layers` goes into the number of the block.
    pub rescaled: &'static [&'static str],
    /// What the names of tensors begin with in blocks that are numbered from those of the model on, and the usual name: `{}` is the number,
    /// `{0}` the number among these blocks. Without a number, tensors belong to the first of these blocks.
    pub appended: &'static [(&'static str, &'static str)],
    /// Whether tensors of blocks beyond those of the model are left out.
    pub drops_further_blocks: bool,
    /// Whether there may be a file without the blocks that predict further tokens, or of only these. The field `next_tokens` is then
    /// `left_out` or `only`.
    pub separates_next_tokens: bool,
    /// Further files of tensors, which come first: the path in the folder, what names begin with, and what takes its place.
    pub dense: &'static [(&'static str, &'static str, &'static str)],
    /// Whether dense layers after the pooling, which are modules of sentence-transformers, are written on request.
    pub dense_modules: bool,
    /// What cannot be converted: a formula, and its name for the error.
    pub refuse: &'static [(&'static str, &'static str)],
    /// Small tensors whose values are fields of the configuration: the field, and the name of the tensor. With `{}` for the number
    /// of a block the field is a list with the values of each. They become no tensors unless a row names them.
    pub peeked: &'static [(&'static str, &'static str)],
    /// Whether the embeddings end with the tokens of the tokenizer.
    pub trims_embeddings: bool,
    /// Whether the field `zero_rows` lists the embeddings that are zero, of tokens behind those of the tokenizer's own model.
    pub lists_zero_rows: bool,
    /// Whether it is a draft for another model, whose configuration is the field `target` and whose folder has the tokenizer.
    pub is_draft: bool,
    /// Whether the tokenizer of that other model is read as its class says.
    pub takes_tokenizer_class: bool,
    /// The tensor whose whole numbers become tokens of the other model, each by adding its place; they are the field `token_ids`. Empty for
    /// none.
    pub ids: &'static str,
    /// Fields that say whether the checkpoint has a tensor with a name that matches.
    pub present: &'static [(&'static str, &'static str)],
    /// Fields that are the length of a row of the first tensor with a name that matches.
    pub row_lens: &'static [(&'static str, &'static str)],
    /// What the names of tensors in a block begin with that belong to the whole model, and the usual name: `{}` is the number of the block.
    pub outside_blocks: &'static [(&'static str, &'static str)],
    /// Parts of names that are replaced first.
    pub rename: &'static [(&'static str, &'static str)],
    /// Of a checkpoint with further encoders, the tensors that belong to them, by their names in the checkpoint; all others are left out.
    /// `*` stands for anything. Empty for language models.
    pub takes: &'static [&'static str],
    /// What the keys of sizes begin with, where that is not the name of the architecture.
    pub sizes: &'static str,
    /// Names whose number is a place in a list: what stands before the number, and the formula of the list. The element takes its place.
    pub renumbered: &'static [(&'static str, &'static str)],
    /// Names that are replaced by others where the formula holds.
    pub rename_if: &'static [(&'static str, &'static str, &'static str)],
    /// Key-values before those of the model's name and origin.
    pub early_keys: &'static [&'static [Key]],
    /// Key-values in file order. One that is set again keeps its place and takes the new value.
    pub keys: &'static [&'static [Key]],
    /// How the tokenizer is read.
    pub vocab: Vocab,
    /// Special tokens, by kind and text, that are set where the tokenizer's files set none of their kind.
    pub special_tokens: &'static [(&'static str, &'static str)],
    /// Special tokens, by kind and text, whose keys come behind those of the tokenizer.
    pub late_tokens: &'static [(&'static str, &'static str)],
    /// Key-values before those of the tokenizer, which may set them again.
    pub tokenizer_first: &'static [&'static [Key]],
    /// Key-values behind those of the tokenizer. Formulas may use `tokenizer_config` and `generation_config`, the files of that name.
    pub tokenizer_keys: &'static [&'static [Key]],
    /// Tensors that are computed.
    pub computed: &'static [Computed],
    /// Whether `config.json` is taken as it is, without the defaults of its class.
    pub is_raw: bool,
    /// Tensors that are always in single precision, by their names in GGUF. `*` matches any characters.
    pub precise: &'static [&'static str],
    /// Tensors that are in half precision for any type, by their GGUF names. `*` matches any characters.
    pub half: &'static [&'static str],
    /// Tensors that are in half precision where that is asked for, and otherwise in single precision, by their names in GGUF.
    /// `*` stands for anything.
    pub convolutions: &'static [&'static str],
    /// Whether all matrices have the type that is asked for, also those that most architectures keep in single precision.
    pub forces_type: bool,
    /// Whether matrices in single precision and in bfloat16 keep their type, and those in floats of eight bits with scales become Q8_0, whatever
    /// type is asked for.
    pub keeps_types: bool,
}

impl Checkpoint {
    /// What most have in common.
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
        dense: &[],
        dense_modules: false,
        refuse: &[],
        peeked: &[],
        trims_embeddings: false,
        lists_zero_rows: false,
        is_draft: false,
        takes_tokenizer_class: false,
        ids: "",
        present: &[],
        row_lens: &[],
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
    /// The names in `general.architecture` that mean it.
    pub names: &'static [&'static str],
    /// The keys without which llama.cpp does not load a model (`load_hparams` and `load_arch_hparams`), or cannot tell the shape of a
    /// tensor. Keys that only some models need, and those of `general` and `tokenizer`, are not listed.
    pub required: &'static [&'static [&'static str]],
    /// Tensors outside the blocks.
    pub outside: &'static [&'static [Row]],
    /// Tensors of each block.
    pub block: &'static [&'static [Row]],
    /// How checkpoints become it.
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
    /// Whether that is the tensor's name, without `blk.N.`.
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

    /// The tensor's name in that block, or outside the blocks.
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

    /// Whether it has to be there.
    pub fn need(&self) -> Need {
        if self.is_bias { self.row.bias.unwrap_or(Need::Optional) } else { self.row.need }
    }

    /// Whether a tensor has this one's shape. Dimensions of 1 at the end do not matter, and a dimension that the keys do not say is
    /// not compared.
    pub fn fits(&self, dims: Dims<'_>, h: &Hparams<'_>, block: u64) -> bool {
        let shape = self.shape();
        if shape.is_empty() {
            return true;
        }
        let same = shape.iter().enumerate().all(|(i, dim)| dim.of(h, block).is_none_or(|n| n == dims.dim(i)));
        same && dims.skip(shape.len()).all(|n| n == 1)
    }

    /// The shape that is asked for, as text; `?` for what the keys do not say.
    pub fn expected(&self, h: &Hparams<'_>, block: u64) -> String {
        let dims = self.shape().iter().map(|dim| dim.of(h, block).map_or_else(|| "?".to_owned(), |n| n.to_string()));
        format!("[{}]", dims.collect::<Vec<_>>().join(", "))
    }
}

impl Row {
    /// The name without that of the block, and without `.weight` or `.bias`.
    pub fn stem(&self) -> &'static str {
        let name = self.own_name();
        name.strip_suffix(".weight").or_else(|| name.strip_suffix(".bias")).unwrap_or(name)
    }

    /// The run of blocks that it belongs to, if it belongs to one.
    pub fn stack(&self) -> Stack {
        self.place().0
    }

    /// The name without that of the block.
    pub fn own_name(&self) -> &'static str {
        self.place().1
    }

    /// The matrix whose presence makes the row optional where its need is [`Need::UnlessFused`].
    pub fn fused(&self) -> &'static str {
        if self.own_name().starts_with("ffn_") { FUSED_EXPERTS } else { FUSED }
    }

    fn place(&self) -> (Stack, &'static str) {
        let own = |stack: Stack| Some((stack, self.name.strip_prefix(stack.prefix())?.strip_prefix("{}.")?));
        const NAMED: [Stack; 6] =
            [Stack::Encoder, Stack::Decoder, Stack::ConvNext, Stack::Vision, Stack::DeepStack, Stack::Audio];
        NAMED.into_iter().find_map(own).unwrap_or((Stack::Only, self.name))
    }
}

/// Matrix of queries, keys and values.
pub const FUSED: &str = "attn_qkv.weight";

/// Matrices of gate and up of all experts.
pub const FUSED_EXPERTS: &str = "ffn_gate_up_exps.weight";

/// The architectures whose tensors are listed here, whole. Adding one is a file and a line.
#[rustfmt::skip]
pub const ARCHITECTURES: &[Architecture] = &[
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

pub use unsupported::UNSUPPORTED;

/// The encoders of images and sound, which become files of their own beside that of the language model.
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

/// Architectures whose tensors have such names and other shapes: parts of several models in one file, codecs, and heads
/// that sit on another model.
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

/// The architecture of that name; `None` for those whose tensors are not listed.
pub fn of(name: &str) -> Option<&'static Architecture> {
    ARCHITECTURES.iter().find(|architecture| architecture.names.contains(&name))
}

/// The keys without which llama.cpp does not load a model of that architecture, `general` and `tokenizer` keys apart; nothing for
/// architectures that it does not load.
pub fn required_keys(name: &str) -> impl Iterator<Item = &'static KeyInfo> {
    let listed = of(name).map(|architecture| architecture.required);
    let keys = listed.unwrap_or_else(|| unlisted::required(name));
    keys.iter().copied().flatten().filter_map(|key| keys::info(key))
}

/// The architectures that checkpoints of a class become, in the order in which their conditions count.
pub fn all_of_class(class: &str) -> impl Iterator<Item = (&'static Architecture, &'static Checkpoint)> {
    let all = ARCHITECTURES.iter().flat_map(|arch| arch.checkpoints.iter().map(move |checkpoint| (arch, checkpoint)));
    let found = all.filter(|(_, checkpoint)| checkpoint.classes.contains(&class));
    // The one without a condition is for all that no condition fits.
    let (some, rest): (Vec<_>, Vec<_>) = found.partition(|(_, checkpoint)| !checkpoint.when.is_empty());
    some.into_iter().chain(rest)
}

/// The encoders of images and sound that checkpoints of a class have, in the order in which their conditions count.
pub fn towers_of_class(class: &str) -> impl Iterator<Item = (&'static Architecture, &'static Checkpoint)> {
    let all = TOWERS.iter().flat_map(|arch| arch.checkpoints.iter().map(move |checkpoint| (arch, checkpoint)));
    all.filter(move |(_, checkpoint)| checkpoint.classes.contains(&class))
}

/// The architecture that checkpoints of a class become; the first, where that depends on their configuration.
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
