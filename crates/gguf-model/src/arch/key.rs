//! Key-values of tables: name, type, and the formula of the value.

/// Key-values, one row each, terminated by a semicolon: `"rope.freq_base" F32? = "rope_theta";`. In order: the key,
/// without the architecture's name, or in full if it has another prefix; the type, followed by `?` if the key is
/// omitted when the formula has no value; and the formula ([`Key::formula`]). `let x = "formula";` sets a field of the
/// configuration for the rows below, and `let @x` a fact, which no configuration can set.
macro_rules! keys {
    (@rows [$($done:expr,)*]) => { &[$($done),*] };
    (@rows [$($done:expr,)*] let $field:ident = $formula:expr; $($rest:tt)*) => {
        keys!(@rows [$($done,)* Key {
            key: stringify!($field), kind: FormulaType::Field, is_optional: true, formula: $crate::formula::checked($formula),
        },] $($rest)*)
    };
    (@rows [$($done:expr,)*] let @$fact:ident = $formula:expr; $($rest:tt)*) => {
        keys!(@rows [$($done,)* Key {
            key: concat!("@", stringify!($fact)), kind: FormulaType::Field, is_optional: true, formula: $crate::formula::checked($formula),
        },] $($rest)*)
    };
    (@rows [$($done:expr,)*] $key:literal $kind:ident ? = $formula:expr; $($rest:tt)*) => {
        keys!(@rows [$($done,)* Key { key: $key, kind: FormulaType::$kind, is_optional: true, formula: $crate::formula::checked($formula) },] $($rest)*)
    };
    (@rows [$($done:expr,)*] $key:literal $kind:ident = $formula:expr; $($rest:tt)*) => {
        keys!(@rows [$($done,)* Key { key: $key, kind: FormulaType::$kind, is_optional: false, formula: $crate::formula::checked($formula) },] $($rest)*)
    };
    ($($tokens:tt)*) => { keys!(@rows [] $($tokens)*) };
}

/// The type of a key's value. A list has the type of its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormulaType {
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
    pub kind: FormulaType,
    /// Whether the key is omitted if the formula has no value; otherwise a missing value is an error.
    pub is_optional: bool,
    /// The value, as an expression over the fields of the configuration. See the `formula` module of `gguf-hf`.
    pub formula: &'static str,
}
