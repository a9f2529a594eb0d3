//! The mixtures: a table of types by the tensor's place in the model.
//!
//! The rows encode `llama_tensor_get_type_impl` in `llama-quant.cpp`. The first matching row is used; a tensor without one gets the default
//! type of the file type.

use core::fmt;
use std::sync::LazyLock;

use gguf_format::GgmlType;
use gguf_format::keys::FileType;
use gguf_pipeline::plan::MixtureRow;

use super::keep::contains;

/// The category of a tensor, as far as it matters to the mixtures (`tensor_get_category` in `llama-quant.cpp`).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Category {
    /// `output.weight`.
    Output,
    /// `token_embd.weight` and `per_layer_token_embd.weight`.
    TokenEmbd,
    /// Queries, keys and values in one.
    AttnQkv,
    /// Keys and values of latent attention.
    AttnKvB,
    /// Values.
    AttnV,
    /// Keys.
    AttnK,
    /// Queries.
    AttnQ,
    /// The output of attention.
    AttnOutput,
    /// The up projection of the feed-forward part, including experts.
    FfnUp,
    /// The gate of the feed-forward part, including experts.
    FfnGate,
    /// The down projection of the feed-forward part, including experts.
    FfnDown,
    /// Everything else.
    Other,
}

/// Parts of names and their meaning; the first one that a name contains takes precedence.
const PARTS: &[(&str, Category)] = &[
    ("attn_qkv.weight", Category::AttnQkv),
    ("attn_kv_b.weight", Category::AttnKvB),
    ("attn_v.weight", Category::AttnV),
    ("attn_k.weight", Category::AttnK),
    ("attn_q.weight", Category::AttnQ),
    ("attn_output.weight", Category::AttnOutput),
    ("ffn_up", Category::FfnUp),
    ("ffn_gate", Category::FfnGate),
    ("ffn_down", Category::FfnDown),
];

impl Category {
    /// The category of a tensor, by its name.
    pub fn of(name: &[u8]) -> Category {
        match name {
            b"output.weight" => Category::Output,
            b"token_embd.weight" | b"per_layer_token_embd.weight" => Category::TokenEmbd,
            _ => PARTS.iter().find(|(part, _)| contains(name, part)).map_or(Category::Other, |(_, c)| *c),
        }
    }

    /// Whether it includes values, the most sensitive part of attention (`category_is_attn_v`).
    pub fn has_values(self) -> bool {
        matches!(self, Category::AttnV | Category::AttnQkv | Category::AttnKvB)
    }
}

/// The scope of a row. Unlike categories, scopes treat embeddings that are also the output as the output, and combine all tensors with
/// values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// Everywhere.
    Any,
    /// `output.weight`, or the token embeddings if the model has none.
    Output,
    /// Token embeddings that are not also the output.
    TokenEmbd,
    /// Tensors with values.
    Values,
    /// Keys.
    Keys,
    /// Queries.
    Queries,
    /// The output of attention.
    AttnOutput,
    /// The up projection.
    FfnUp,
    /// The gate.
    FfnGate,
    /// The down projection.
    FfnDown,
    /// Everything else.
    Other,
}

impl Scope {
    pub(super) fn of(category: Category, tied: bool) -> Scope {
        match category {
            Category::Output => Scope::Output,
            Category::TokenEmbd if tied => Scope::Output,
            Category::TokenEmbd => Scope::TokenEmbd,
            Category::AttnQkv | Category::AttnKvB | Category::AttnV => Scope::Values,
            Category::AttnK => Scope::Keys,
            Category::AttnQ => Scope::Queries,
            Category::AttnOutput => Scope::AttnOutput,
            Category::FfnUp => Scope::FfnUp,
            Category::FfnGate => Scope::FfnGate,
            Category::FfnDown => Scope::FfnDown,
            Category::Other => Scope::Other,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Scope::Any => "",
            Scope::Output => "output",
            Scope::TokenEmbd => "token embeddings",
            Scope::Values => "values",
            Scope::Keys => "keys",
            Scope::Queries => "queries",
            Scope::AttnOutput => "output of attention",
            Scope::FfnUp => "ffn_up",
            Scope::FfnGate => "ffn_gate",
            Scope::FfnDown => "ffn_down",
            Scope::Other => "others",
        }
    }
}

/// A condition of a row.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The architecture is this one.
    Arch(&'static str),
    /// The architecture is not this one.
    NotArch(&'static str),
    /// The name contains one of these.
    Named(&'static [&'static str]),
    /// The rows are not whole blocks of the file type's default type.
    PartialBlock,
    /// The tensor is a stack of matrices, as for experts.
    Stack,
    /// At least 4 query heads share a key-value head.
    SharedBy4,
    /// At least 4 query heads share a key-value head, or the model has at least 4 experts.
    SharedBy4OrExperts4,
    /// Exactly 8 experts.
    Experts8,
    /// Any number of experts except 8.
    NotExperts8,
    /// With an importance matrix.
    Imatrix,
    /// Without an importance matrix.
    NoImatrix,
    /// The block is in the first of this many equal parts of the model.
    First(u64),
    /// The tensor is in the first of this many equal parts of the tensors of its scope, which are counted, whatever the block in its name.
    FirstCounted(u64),
    /// The block is in neither the first nor the last eighth.
    Middle,
    /// The first or last eighth of the blocks, and every third between (`use_more_bits`).
    MoreBits,
    /// Fewer than this many tensors of this scope have been processed.
    Before(u64),
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            When::Arch(arch) => write!(f, "in {arch}"),
            When::NotArch(arch) => write!(f, "not in {arch}"),
            When::Named(_) => f.write_str("by name"),
            When::PartialBlock => f.write_str("rows are not whole blocks"),
            When::Stack => f.write_str("experts"),
            When::SharedBy4 => f.write_str("shared by 4 or more query heads"),
            When::SharedBy4OrExperts4 => f.write_str("shared by 4 or more query heads, or 4 or more experts"),
            When::Experts8 => f.write_str("8 experts"),
            When::NotExperts8 => f.write_str("not 8 experts"),
            When::Imatrix => f.write_str("importance matrix"),
            When::NoImatrix => f.write_str("no importance matrix"),
            When::First(8) | When::FirstCounted(8) => f.write_str("first eighth of the blocks"),
            When::First(n) | When::FirstCounted(n) => write!(f, "first of {n} parts of the blocks"),
            When::Middle => f.write_str("neither first nor last eighth of the blocks"),
            When::MoreBits => f.write_str("first or last eighth of the blocks, or every third"),
            When::Before(n) => write!(f, "first {n} blocks"),
        }
    }
}

/// A row of the table.
#[non_exhaustive]
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// The scope.
    pub scope: Scope,
    /// The file types, or empty for all.
    pub file_types: &'static [FileType],
    /// The conditions, all of which must hold.
    pub when: &'static [When],
    /// The type.
    pub ty: GgmlType,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scope.name())?;
        let mut before = if self.scope == Scope::Any { "" } else { ": " };
        for when in self.when {
            write!(f, "{before}{when}")?;
            before = ", ";
        }
        if self.scope == Scope::Any && self.when.is_empty() { f.write_str("everything else") } else { Ok(()) }
    }
}

/// The rows of [`RULES`], as reasons.
pub(super) static ROWS: LazyLock<Vec<MixtureRow>> = LazyLock::new(|| {
    RULES.iter().enumerate().map(|(index, rule)| MixtureRow { index, when: rule.to_string() }).collect()
});

/// The file types by name, for the table.
#[allow(non_upper_case_globals, reason = "llama.cpp's own spelling")]
pub(super) mod ft {
    use super::FileType;

    macro_rules! named {
        ($($name:ident $id:literal)*) => {
            $(pub(in super::super) const $name: FileType = FileType($id);)*
            #[cfg(test)]
            pub(super) const NAMED: &[(&str, FileType)] = &[$((stringify!($name), $name)),*];
        };
    }

    named! {
        Q4_0 2 Q8_0 7 Q5_0 8 Q2_K 10 Q3_K_S 11 Q3_K_M 12 Q3_K_L 13 Q4_K_S 14 Q4_K_M 15 Q5_K_M 17
        IQ2_XXS 19 IQ2_XS 20 Q2_K_S 21 IQ3_XS 22 IQ3_XXS 23 IQ1_S 24 IQ4_NL 25 IQ3_S 26 IQ3_M 27 IQ2_S 28 IQ2_M 29
        IQ4_XS 30 IQ1_M 31 TQ1_0 36 TQ2_0 37 MXFP4_MOE 38 Q2_0 41
    }
}

macro_rules! rules {
    ($table:ident $(#[$doc:meta])*: $($scope:ident [$($ft:ident)*] [$($when:expr),*] $ty:ident;)*) => {
        $(#[$doc])*
        pub static $table: &[Rule] = &[$(Rule {
            scope: Scope::$scope, file_types: &[$(ft::$ft),*], when: &[$($when),*], ty: GgmlType::$ty,
        }),*];
    };
}

use When::*;

rules! {
    RULES
    /// The rows, in order: the first matching one is used.
    ///
    /// Rows of low-bit types (IQ1, IQ2) precede those for all file types.
    :
    Any        [] [Arch("glm5-next"), Named(&["attn_q_a", "attn_q_b", "nextn.eh_proj"])] Q8_0;

    // The output, or embeddings that are also the output.
    Output     [MXFP4_MOE] [] Q8_0;
    Output     [] [Arch("falcon")] Q8_0;
    Output     [] [PartialBlock] Q8_0;
    Output     [IQ2_XXS IQ2_XS IQ3_XXS IQ1_S IQ2_S IQ2_M IQ1_M] [] Q5_K;
    Output     [Q8_0] [] Q8_0;
    Output     [] [] Q6_K;

    // Experts in MXFP4, everything else in Q8_0. Other matrices of bailingmoe3 are stacked too.
    Any        [MXFP4_MOE] [Stack, NotArch("bailingmoe3")] MXFP4;
    FfnUp      [MXFP4_MOE] [Stack] MXFP4;
    FfnGate    [MXFP4_MOE] [Stack] MXFP4;
    FfnDown    [MXFP4_MOE] [Stack] MXFP4;
    Any        [MXFP4_MOE] [] Q8_0;

    TokenEmbd  [IQ2_XXS IQ2_XS IQ1_S IQ1_M] [] Q2_K;
    TokenEmbd  [IQ2_S IQ2_M IQ3_XXS] [] IQ3_S;
    TokenEmbd  [TQ1_0 TQ2_0 Q2_0] [] Q4_K;

    Values     [IQ2_XXS IQ2_XS IQ1_S IQ2_S IQ2_M IQ1_M] [SharedBy4OrExperts4] Q4_K;
    Values     [IQ2_S IQ2_M] [] IQ3_S;
    Values     [IQ2_XXS IQ2_XS IQ1_S IQ1_M] [] Q2_K;
    Keys       [IQ2_XXS IQ2_XS IQ1_S IQ2_S IQ2_M IQ1_M] [Experts8] Q4_K;
    FfnDown    [IQ2_S IQ2_M] [FirstCounted(8)] IQ3_S;
    FfnDown    [IQ2_XXS IQ2_XS IQ1_S IQ1_M] [FirstCounted(8)] Q2_K;
    AttnOutput [IQ2_XXS IQ2_XS IQ1_S IQ2_S IQ2_M IQ1_M] [Experts8] Q5_K;
    AttnOutput [IQ1_S IQ1_M] [] IQ2_XXS;
    AttnOutput [IQ2_S IQ2_M] [] IQ3_S;

    Values     [] [Experts8] Q8_0;
    Values     [Q2_K Q2_K_S IQ3_XXS IQ3_XS IQ3_S] [SharedBy4] Q4_K;
    Values     [Q2_K] [] Q3_K;
    Values     [IQ3_XXS] [NoImatrix] IQ3_S;
    Values     [IQ3_M] [] Q4_K;
    Values     [Q3_K_M] [Before(2)] Q5_K;
    Values     [Q3_K_M] [] Q4_K;
    Values     [Q3_K_L] [] Q5_K;
    Values     [IQ4_NL IQ4_XS] [SharedBy4] Q5_K;
    Values     [Q4_K_M Q5_K_M] [MoreBits] Q6_K;
    Values     [Q4_K_S] [Before(4)] Q5_K;

    Keys       [] [Experts8] Q8_0;
    Keys       [IQ3_XS] [] IQ3_XXS;
    Keys       [IQ3_XXS] [] IQ2_S;
    Queries    [IQ3_XS] [] IQ3_XXS;
    Queries    [IQ3_XXS] [] IQ2_S;

    FfnDown    [Q2_K] [] Q3_K;
    FfnDown    [Q2_K_S] [First(8)] Q4_K;
    FfnDown    [IQ3_XXS] [NoImatrix, First(8)] Q4_K;
    FfnDown    [IQ3_XXS] [NoImatrix] Q3_K;
    FfnDown    [Q3_K_M] [First(16)] Q5_K;
    FfnDown    [Q3_K_M] [NotArch("falcon")] Q4_K;
    FfnDown    [Q3_K_M] [MoreBits] Q4_K;
    FfnDown    [IQ3_M] [First(8)] Q4_K;
    FfnDown    [IQ3_M] [Experts8, MoreBits] Q4_K;
    FfnDown    [Q3_K_L] [Arch("falcon")] Q4_K;
    FfnDown    [Q3_K_L] [] Q5_K;
    FfnDown    [Q4_K_M] [Arch("falcon"), First(16)] Q6_K;
    FfnDown    [Q4_K_M] [Arch("falcon"), MoreBits] Q5_K;
    FfnDown    [Q4_K_M] [NotArch("falcon"), MoreBits] Q6_K;
    FfnDown    [IQ4_NL IQ4_XS] [NoImatrix, First(8)] Q5_K;
    FfnDown    [Q5_K_M] [MoreBits] Q6_K;
    FfnDown    [Q4_K_S] [NotArch("falcon"), First(8)] Q5_K;
    FfnDown    [Q4_0] [Imatrix, First(8)] Q4_1;
    FfnDown    [Q5_0] [Imatrix, First(8)] Q5_1;

    AttnOutput [Q2_K IQ3_XS IQ3_XXS Q3_K_S Q3_K_M IQ4_NL Q4_K_S Q4_K_M IQ3_S IQ3_M IQ4_XS]
               [NotArch("falcon"), Experts8] Q5_K;
    AttnOutput [Q2_K] [NotArch("falcon"), NotExperts8] Q3_K;
    AttnOutput [IQ3_XXS] [NotArch("falcon"), NotExperts8] IQ3_S;
    AttnOutput [Q3_K_M IQ3_M] [NotArch("falcon"), NotExperts8] Q4_K;
    AttnOutput [Q3_K_L] [NotArch("falcon"), NotExperts8] Q5_K;
    AttnOutput [Q3_K_L] [Arch("falcon")] Q4_K;

    FfnGate    [IQ3_XS] [Middle] IQ3_XXS;
    FfnUp      [IQ3_XS] [Middle] IQ3_XXS;
}

/// The file types with separate rows before all others, in which blocks are counted instead of read from names.
pub(super) const LOW: &[FileType] = &[ft::IQ2_XXS, ft::IQ2_XS, ft::IQ1_S, ft::IQ2_S, ft::IQ2_M, ft::IQ1_M];

/// The file type whose `Q2_K` needs an importance matrix.
pub(super) const Q2_K_S: FileType = ft::Q2_K_S;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_in_the_table_are_those_of_the_numbers() {
        for (name, ty) in ft::NAMED {
            assert_eq!(ty.info().map(|row| row.label()), Some(*name));
        }
    }

    #[test]
    fn a_row_says_when_it_applies() {
        let row = RULES.iter().find(|r| r.scope == Scope::FfnDown && r.file_types == [ft::Q4_0]).unwrap();
        assert_eq!(row.to_string(), "ffn_down: importance matrix, first eighth of the blocks");
        let all: Vec<_> = RULES.iter().map(Rule::to_string).collect();
        assert!(all.iter().all(|text| !text.is_empty() && !text.ends_with(' ')), "{all:?}");
    }
}
