//! The roles of tensors, and the names derived from them.
//!
//! GGUF names a tensor by its role: `token_embd.weight`, `blk.3.attn_q.bias`. The names of roles are llama.cpp's
//! (`TENSOR_NAMES` in gguf-py's `constants.py`).

use core::fmt;

macro_rules! roles {
    ($($(#[$doc:meta])* $role:ident $name:literal)*) => {
        /// The role of a tensor in the network.
        #[non_exhaustive]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Role {
            $($(#[$doc])* $role,)*
        }
        impl Role {
            /// Every role.
            pub const ALL: &[Role] = &[$(Role::$role),*];

            /// The role's name without suffix; in per-block roles, `{}` stands for the number of the block.
            pub const fn template(self) -> &'static str {
                match self {
                    $(Role::$role => $name,)*
                }
            }
        }
    };
}

roles! {
    /// Token embeddings, one row per token.
    TokenEmbd "token_embd"
    /// Norm before the output matrix.
    OutputNorm "output_norm"
    /// Output matrix, one row per token. Absent if it is tied to the embeddings.
    Output "output"
    /// One divisor per pair of rotated elements, for models with stretched rotary frequencies.
    RopeFreqs "rope_freqs"
    /// Norm before the attention.
    AttnNorm "blk.{}.attn_norm"
    /// Queries.
    AttnQ "blk.{}.attn_q"
    /// Keys.
    AttnK "blk.{}.attn_k"
    /// Values.
    AttnV "blk.{}.attn_v"
    /// Output projection of the attention.
    AttnOutput "blk.{}.attn_output"
    /// Norm before the feed-forward part.
    FfnNorm "blk.{}.ffn_norm"
    /// Gate of the feed-forward part.
    FfnGate "blk.{}.ffn_gate"
    /// Up projection of the feed-forward part.
    FfnUp "blk.{}.ffn_up"
    /// Down projection of the feed-forward part.
    FfnDown "blk.{}.ffn_down"
}

impl Role {
    /// Whether each block of the network has a tensor of this role.
    pub fn is_per_block(self) -> bool {
        self.template().contains("{}")
    }
}

/// The parts of a tensor name: `blk.3.attn_q.bias` is the role [`Role::AttnQ`] in block 3 with the suffix `.bias`.
///
/// ```
/// use gguf_model::role::{Role, TensorName};
///
/// let name = TensorName::parse("blk.3.attn_q.bias").expect("a known name");
/// assert_eq!((name.role, name.block, name.suffix), (Role::AttnQ, Some(3), ".bias"));
/// assert_eq!(name.to_string(), "blk.3.attn_q.bias");
/// assert_eq!(TensorName::parse("blk.3.unknown.bias"), None);
/// ```
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorName<'a> {
    /// The role of the tensor.
    pub role: Role,
    /// The number of its block; `None` for tensors outside the blocks.
    pub block: Option<u32>,
    /// `.weight`, `.bias` or empty.
    pub suffix: &'a str,
}

impl<'a> TensorName<'a> {
    /// Parses a GGUF tensor name; `None` if no role has this name.
    pub fn parse(name: &'a str) -> Option<TensorName<'a>> {
        let (stem, suffix) = split_suffix(name);
        Role::ALL.iter().find_map(|&role| {
            let block = match_template(role.template(), stem)?;
            Some(TensorName { role, block, suffix })
        })
    }
}

impl fmt::Display for TensorName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.role.template().split_once("{}"), self.block) {
            (Some((before, after)), Some(block)) => write!(f, "{before}{block}{after}{}", self.suffix),
            _ => write!(f, "{}{}", self.role.template(), self.suffix),
        }
    }
}

/// Splits a tensor name into its stem and its suffix: `.weight`, `.bias`, or empty.
pub fn split_suffix(name: &str) -> (&str, &str) {
    let stem = name.strip_suffix(".weight").or_else(|| name.strip_suffix(".bias")).unwrap_or(name);
    (stem, name.get(stem.len()..).unwrap_or_default())
}

/// Matches a name against a template: `None` if it does not match, else the number at the template's `{}`, if any. The
/// number must be in canonical form, without sign or leading zeros.
///
/// ```
/// use gguf_model::role::match_template;
///
/// assert_eq!(match_template("blk.{}.attn_q", "blk.12.attn_q"), Some(Some(12)));
/// assert_eq!(match_template("output_norm", "output_norm"), Some(None));
/// assert_eq!(match_template("blk.{}.attn_q", "blk.012.attn_q"), None);
/// ```
pub fn match_template(template: &str, name: &str) -> Option<Option<u32>> {
    match template.split_once("{}") {
        None => (template == name).then_some(None),
        Some((before, after)) => {
            let digits = name.strip_prefix(before)?.strip_suffix(after)?;
            let plain = digits == "0" || (!digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()));
            if plain { digits.parse().ok().map(Some) } else { None }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_both_directions() {
        for &role in Role::ALL {
            for suffix in [".weight", ".bias", ""] {
                let name = TensorName { role, block: role.is_per_block().then_some(17), suffix };
                assert_eq!(TensorName::parse(&name.to_string()), Some(name), "{name}");
            }
        }
        assert_eq!(
            TensorName::parse("blk.3.attn_q.bias"),
            Some(TensorName { role: Role::AttnQ, block: Some(3), suffix: ".bias" })
        );
    }

    #[test]
    fn what_is_no_name() {
        for name in
            ["", "blk..attn_q.weight", "blk.+1.attn_q.weight", "blk.01.attn_q.weight", "blk.4294967296.attn_q.weight"]
        {
            assert_eq!(TensorName::parse(name), None, "{name}");
        }
        assert_eq!(TensorName::parse("blk.1.attn_qq.weight"), None);
        assert_eq!(TensorName::parse("token_embd.weight.weight"), None);
    }
}
