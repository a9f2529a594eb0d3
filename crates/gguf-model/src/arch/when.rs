//! Conditions of rows: the models and blocks that have a tensor. A condition that several tables use has a name here; others are stated where
//! they are used.

use super::expr::Expr;
use crate::hparams::Hparams;

/// A condition that is stated by an expression, for tables: `when!("block_count >= 64")`; or one with a name, of [`When`] or a constant.
macro_rules! when {
    ($condition:literal) => {
        When::If(const { &Expr::new($condition) })
    };
    ($name:ident) => {{
        #[allow(unused_imports, reason = "a constant of another module is named by its path")]
        use When::*;
        $name
    }};
}

/// Conditions with names: the meaning of each, and the expression.
macro_rules! whens {
    ($($(#[$doc:meta])* $when:ident $condition:literal;)*) => {
        /// The models and blocks to which a row applies.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum When {
            $($(#[$doc])* $when,)*
            /// A condition without a name.
            If(&'static Expr),
        }

        impl When {
            /// Whether the row applies to block `block` of a model with these hyperparameters.
            pub fn holds(self, h: &Hparams<'_>, block: u64) -> bool {
                let expr = match self {
                    $(When::$when => const { &Expr::new($condition) },)*
                    When::If(expr) => expr,
                };
                expr.holds(h, block)
            }
        }
    };
}

whens! {
    /// All models.
    Always "1";
    /// Blocks without experts: all blocks of a dense model, and those selected by `leading_dense_block_count` and
    /// `interleave_moe_layer_step`.
    Dense "not has_experts";
    /// Blocks with experts.
    Experts "has_experts";
    /// Blocks with a shared expert, if the key for its width is set.
    SharedExpert "has_experts and expert_shared_feed_forward_length";
    /// Blocks with shared experts, if the key for their number is set.
    SharedExperts "has_experts and expert_shared_count";
    /// The first block.
    First "block == 0";
    /// All blocks but the first.
    NotFirst "block >= 1";
    /// Blocks with attention, in models whose other blocks are recurrent.
    Attention "not is_recurrent";
    /// Blocks with a recurrent layer or a convolution instead of attention.
    Recurrent "is_recurrent";
    /// Blocks with attention, in models whose queries have a low-rank projection.
    AttentionQLora "attention.q_lora_rank and not is_recurrent";
    /// Blocks with attention, in models whose queries have no low-rank projection.
    AttentionNoQLora "not attention.q_lora_rank and not is_recurrent";
    /// MTP blocks.
    Mtp "is_mtp";
    /// Blocks with hyper-connections.
    Mixed "hyper_connection.count";
}
