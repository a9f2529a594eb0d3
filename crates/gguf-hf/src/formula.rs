//! Formulas, which define key-values in terms of the fields of `config.json`, as text in the tables of architectures.
//!
//! The notation and its semantics follow Python, the language of the reference converter: integers stay integers, `//` rounds down, `/`
//! does not round, `or` gives its first true operand.
//!
//! | notation | value |
//! |---|---|
//! | `hidden_size`, `attn_config.kv_n_heads` | a field, or a field of an inner object |
//! | `@mtp` | a fact that the conversion knows beside the configuration, see the module `facts` |
//! | `n_embd\|hidden_size\|768` | the first that is present, even if `null` |
//! | `head_dim ?? 64` | the first that is present and not `null` |
//! | `a or b`, `a and b`, `not a` | as in Python: zero, `null` and empty values are false |
//! | `a if c else b` | |
//! | `+ - * / // % **` | arithmetic |
//! | `== != < <= > >= in` | comparison; a missing field equals `null` |
//! | `list[i]`, `text[i]`, `object['name']`, `[1, 2]`, `{'softmax': 1}` | |
//! | `[layer_types[i] == 'full' for i]` | a list with one element for each block |
//! | `[2 * x for x in list]` | a list with one element for each element of another list |
//! | `len(x)`, `pad(list, n, x)` | a [function](gguf_model::formula::Function) |
//!
//! A missing field is an error in arithmetic. A formula that consists of a missing field has no value.
//!
//! Values are borrowed from the configuration where possible. The evaluation of a formula takes a limited number of steps.

mod error;
mod eval;
mod fields;
mod functions;
mod numbers;
mod parse;
mod steps;
mod syntax;
#[cfg(test)]
mod tests;
mod values;

use crate::facts::Fact;

pub(crate) use error::Error;
pub(crate) use fields::Fields;
pub(crate) use numbers::MINUS_INFINITY;
pub(crate) use syntax::{Formula, Op, shown};
pub(crate) use values::is_true;

/// Whether a formula reads a fact.
pub(crate) fn reads(formula: &str, fact: Fact) -> bool {
    let is_fact = |name: &String| name.split('.').next().and_then(|name| name.strip_prefix('@')) == Some(fact.name());
    Formula::parse(formula).is_ok_and(|formula| formula.names().iter().any(is_fact))
}
