//! Sizes of tensors as functions of the keys. A size that several tables use has a name here; others are stated where they are used.

use super::expr::Expr;
use crate::hparams::Hparams;

/// A size that is stated by an expression, for tables: `dim!("2 * embedding_length")`; or one with a name, of [`Dim`] or a constant.
macro_rules! dim {
    ($size:literal) => {
        Dim::Of(const { &Expr::new($size) })
    };
    ($name:ident) => {{
        #[allow(unused_imports, reason = "a constant of another module is named by its path")]
        use Dim::*;
        $name
    }};
}

/// Sizes with names: the meaning of each, and the expression.
macro_rules! dims {
    ($($(#[$doc:meta])* $dim:ident $size:literal;)*) => {
        /// A size of a tensor along a dimension.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Dim {
            $($(#[$doc])* $dim,)*
            /// A size without a name.
            Of(&'static Expr),
        }

        impl Dim {
            /// Every size with a name.
            const NAMED: &[(&str, Dim)] = &[$((stringify!($dim), Dim::$dim)),*];

            /// The expression that gives the value.
            pub fn expr(self) -> &'static Expr {
                match self {
                    $(Dim::$dim => const { &Expr::new($size) },)*
                    Dim::Of(expr) => expr,
                }
            }
        }
    };
}

dims! {
    /// Elements of a hidden state.
    Embd "embedding_length";
    /// Tokens.
    Vocab "the number of tokens";
    /// Width of the feed-forward part.
    Ff "feed_forward_length";
    /// Width of the feed-forward part of the shared expert.
    SharedFf "expert_shared_feed_forward_length";
    /// Width of the feed-forward part of the shared expert, which is that of others unless a key sets it.
    SharedOrFf "expert_shared_feed_forward_length or feed_forward_length";
    /// Width of the feed-forward part of all shared experts together.
    SharedExpertsFf "expert_feed_forward_length * expert_shared_count";
    /// Width of the feed-forward part of all shared experts together, which has a key of its own or follows from their number.
    SharedOrExpertsFf "expert_shared_feed_forward_length or expert_feed_forward_length * expert_shared_count";
    /// Width of the feed-forward part of an expert.
    ExpertFf "expert_feed_forward_length or feed_forward_length";
    /// Combined width of the gate and up projections of an expert.
    TwiceExpertFf "2 * (expert_feed_forward_length or feed_forward_length)";
    /// Elements of the queries of all heads.
    Q "attention.head_count * attention.key_length";
    /// Elements of the keys of all heads.
    K "attention.head_count_kv * attention.key_length";
    /// Elements of the values of all heads.
    V "attention.head_count_kv * attention.value_length";
    /// Queries, keys and values, concatenated.
    Qkv "attention.head_count * attention.key_length + attention.head_count_kv * (attention.key_length + attention.value_length)";
    /// A hidden state, and keys and values as long as values.
    EmbdQkv "embedding_length + 2 * attention.head_count_kv * attention.value_length";
    /// Queries, and keys and values as long as keys.
    QkvOfKeys "(attention.head_count + 2 * attention.head_count_kv) * attention.key_length";
    /// Queries, keys and values, of as many heads each and all as long as keys.
    ThriceQ "3 * attention.head_count * attention.key_length";
    /// Queries of all heads, where rotation covers whole heads.
    QRot "attention.head_count * rope.dimension_count";
    /// Keys or values of all heads, where rotation covers whole heads.
    KRot "attention.head_count_kv * rope.dimension_count";
    /// Queries, keys and values, where rotation covers whole heads.
    QkvRot "(attention.head_count + 2 * attention.head_count_kv) * rope.dimension_count";
    /// Elements of the key of one head.
    HeadK "attention.key_length";
    /// Half of the elements of the key of one head.
    HalfHead "attention.key_length / 2";
    /// Half of the rotated elements of a head.
    HalfRot "rope.dimension_count / 2";
    /// Experts.
    Experts "expert_count";
    /// Heads of queries.
    Heads "attention.head_count";
    /// Heads of keys and values.
    HeadsKv "attention.head_count_kv";
    /// Rank of the query projection in latent attention.
    QLora "attention.q_lora_rank";
    /// Rank of the key and value projection in latent attention.
    KvLora "attention.kv_lora_rank";
    /// [`KvLora`](Dim::KvLora), followed by the rotated elements that the keys of all heads share.
    KvLoraRot "attention.kv_lora_rank + rope.dimension_count";
    /// Outputs of the key and value projection: for each query head, the unrotated elements of a key, and a value.
    LatentKv "attention.head_count * ((attention.key_length_mla or attention.key_length) - rope.dimension_count + (attention.value_length_mla or attention.value_length))";
    /// Elements of the values, counting one value head per query head.
    HeadsV "attention.head_count * attention.value_length";
    /// Token types.
    TokenTypes "tokenizer.ggml.token_type_count";
    /// Rank of the projection of time decay.
    Decay "time_decay_extra_dim or attention.decay_lora_rank";
    /// Positions.
    Context "context_length";
    /// Width of the feed-forward part of an expert; by default the used experts share the full width.
    UsedFf "expert_feed_forward_length or feed_forward_length / expert_used_count";
    /// Combined width of the gate and up projections of such an expert.
    TwiceUsedFf "2 * (expert_feed_forward_length or feed_forward_length / expert_used_count)";
    /// Fused gate and up projections of the feed-forward part.
    TwiceFf "2 * feed_forward_length";
    /// Kernel size of the convolution before a state space.
    SsmConv "ssm.conv_kernel";
    /// Width of a state space.
    SsmInner "ssm.inner_size";
    /// State size per channel of a state space.
    SsmState "ssm.state_size";
    /// Rank of the time steps; heads in Mamba 2.
    SsmRank "ssm.time_step_rank";
    /// Groups of heads that share input and output projections (B and C).
    SsmGroups "ssm.group_count";
    /// Width of one group.
    SsmGroup "ssm.inner_size / ssm.group_count";
    /// A state space and its gate, concatenated.
    SsmGated "2 * ssm.inner_size";
    /// Time steps, input and output projections of Mamba 1, concatenated.
    SsmX "ssm.time_step_rank + 2 * ssm.state_size";
    /// Input of the convolution of Mamba 2: the state space, and the input and output projections of each group.
    SsmConvIn "ssm.inner_size + 2 * ssm.group_count * ssm.state_size";
    /// Outputs of the input projection of Mamba 2: the gate, the input of the convolution, the time steps.
    SsmIn "2 * ssm.inner_size + 2 * ssm.group_count * ssm.state_size + ssm.time_step_rank";
    /// Queries and keys of linear attention.
    SsmQk "2 * ssm.group_count * ssm.state_size";
    /// Two hidden states.
    TwiceEmbd "2 * embedding_length";
    /// Elements of one head of the values of linear attention.
    SsmHeadV "ssm.inner_size / ssm.time_step_rank";
    /// Queries of all heads of latent attention.
    MlaQ "attention.head_count * (attention.key_length_mla or attention.key_length)";
    /// Values of all heads of latent attention.
    MlaV "attention.head_count * (attention.value_length_mla or attention.value_length)";
    /// Elements of the key of one head of latent attention that are not rotated.
    MlaNope "(attention.key_length_mla or attention.key_length) - rope.dimension_count";
    /// Elements of the value of one head of latent attention.
    MlaHeadV "attention.value_length_mla or attention.value_length";
    /// A short convolution with its two gates; queries, keys and values as wide as a hidden state.
    ThriceEmbd "3 * embedding_length";
    /// Heads of the indexer of sparse attention.
    IndexerHeads "attention.indexer.head_count";
    /// Elements of the key of the indexer of sparse attention.
    IndexerKey "attention.indexer.key_length";
    /// Elements of the queries of all heads of the indexer.
    IndexerQ "attention.indexer.head_count * attention.indexer.key_length";
    /// Elements of a head of delta attention.
    KdaHead "kda.head_dim";
    /// Elements of all heads of delta attention.
    KdaInner "attention.head_count * kda.head_dim";
    /// Parallel hidden states of hyper-connections.
    Hyper "hyper_connection.count";
    /// Elements of all parallel hidden states.
    HyperEmbd "hyper_connection.count * embedding_length";
    /// Mixing weights of hyper-connections: one per state before the block, one after it, and one per pair of states.
    HyperMix "(2 + hyper_connection.count) * hyper_connection.count";
    /// Any length.
    Any "any length";
    /// Elements of the output of the model.
    EmbdOut "embedding_length_out or embedding_length";
    /// Labels of a classifier, at least 1.
    Classes "max(the number of classifier.output_labels, 1)";
    /// Elements of an embedding per block.
    PerLayer "embedding_length_per_layer_input";
    /// Tokens of a draft, which may be fewer than those of its target.
    DraftVocab "the length of d2t, or the number of tokens";
}

impl Dim {
    /// Looks up a size by its name.
    pub fn from_name(name: &str) -> Option<Dim> {
        Dim::NAMED.iter().find(|(text, _)| *text == name).map(|(_, dim)| *dim)
    }

    /// The value in block `block`; `None` if the keys do not determine it.
    pub fn of(self, h: &Hparams<'_>, block: u64) -> Option<u64> {
        self.expr().of(h, block)
    }

    /// Whether it can be `n`. With `default`, a size that the keys do not determine has that value; without, it can be any.
    pub(super) fn can_be(self, n: u64, default: Option<u64>, h: &Hparams<'_>, block: u64) -> bool {
        let is = |value: Option<u64>| value.or(default) == Some(n);
        match self.expr().values(h, block) {
            _ if self == Dim::Any => true,
            (None, None) => default.is_none_or(|default| default == n),
            (value, alternative) => is(value) || alternative.is_some_and(is),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hparams::PerBlock;

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
    fn alternatives_and_unknown_sizes() {
        let h = Hparams { heads: Some(PerBlock::Same(4)), head_k: Some(16), ..Hparams::default() };
        let no_keys = Hparams::default();
        let either = dim!("attention.head_count, or attention.head_count * attention.key_length");
        let can_be = |dim: Dim, default, h: &Hparams<'_>| [0, 4, 64, 8].map(|n| dim.can_be(n, default, h, 0));
        for default in [None, Some(0)] {
            assert_eq!(can_be(either, default, &h), [false, true, true, false]);
            assert_eq!(can_be(Dim::Heads, default, &h), [false, true, false, false]);
            assert_eq!(can_be(Dim::Any, default, &h), [true; 4]);
        }
        assert_eq!(either.of(&h, 0), None);
        assert_eq!(can_be(Dim::Heads, None, &no_keys), [true; 4]);
        assert_eq!(can_be(Dim::Heads, Some(0), &no_keys), [true, false, false, false]);
        assert_eq!(can_be(either, None, &no_keys), [false; 4]);
        assert_eq!(can_be(either, Some(0), &no_keys), [true, false, false, false]);
        assert_eq!(either.expr().to_string(), "attention.head_count, or attention.head_count × attention.key_length");
    }
}
