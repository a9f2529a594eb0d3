//! The known metadata keys: their meaning, the types used by writers, and the architectures that require them.
//!
//! The table consists of the specification's keys, the 364 keys of llama.cpp's `gguf-py/gguf/constants.py`, the keys that only other
//! sources of llama.cpp know, and those of the draft that preceded the first release. The value types are those of llama.cpp's writers
//! (`gguf_writer.py`) and loaders.
//!
//! A key is a pattern: `{arch}` is a placeholder for the name of the architecture, `{id}`, `{name}` and `{dense}` for a number or a name.
//! [`lookup`] finds the row for a key of a file, [`nearest`] the key most similar to a misspelt one. Every row has a constant of the same
//! name: [`GENERAL_ALIGNMENT`] is `general.alignment`, [`CONTEXT_LENGTH`] is `{arch}.context_length`.

use alloc::string::{String, ToString};
use core::cmp::Ordering;
use core::fmt;

use crate::spelling::{MAX_EDITS, MAX_NEAREST, edits};
use crate::value::ValueType;

mod arch;
mod clip;
mod general;
mod model;
mod tokenizer;
mod values;

pub use arch::*;
pub use clip::*;
pub use general::*;
pub use model::*;
pub use tokenizer::*;
pub use values::*;

/// A row of the table of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyInfo {
    /// Name of the pattern's constant.
    pub name: &'static str,
    /// The key, with `{arch}` and other placeholders, if any.
    pub pattern: &'static str,
    /// The allowed types of the value; current writers use the first.
    pub kinds: &'static [KeyType],
    /// The unit of the number, such as `tokens` or `bytes`; empty if it has none.
    pub unit: &'static str,
    /// The section.
    pub section: Section,
    /// The origin of the key.
    pub origin: Origin,
    /// Pattern of the replacement for a renamed key.
    pub instead: Option<&'static str>,
    /// The meaning of the value, in one sentence.
    pub doc: &'static str,
}

/// The type of a value, down to the elements of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// A single value.
    Scalar(ValueType),
    /// An array of such elements.
    Array(ValueType),
}

/// The result of comparing a value's type with the types of its key; see [`KeyInfo::fit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// One of the types used by writers.
    Exact,
    /// Another width of the same kind of number, or flags as integers: usable, but rejected by strict readers.
    Convertible,
    /// Any other type.
    Wrong,
}

/// The section of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Section {
    /// The file and the whole model.
    General,
    /// Sources, base models and datasets.
    Lineage,
    /// Recommended sampling parameters.
    Sampling,
    /// Shards.
    Split,
    /// Low-rank adapters.
    Adapter,
    /// Importance matrices.
    Imatrix,
    /// Sizes and settings of the network.
    Model,
    /// Mixtures of experts.
    Experts,
    /// Attention.
    Attention,
    /// Rotary positions.
    Rope,
    /// State spaces, RWKV and convolutions.
    Recurrent,
    /// Keys of a single family of models.
    Special,
    /// Draft models and multi-token prediction.
    Speculative,
    /// Vocabulary, normalization and chat templates.
    Tokenizer,
    /// Ids of special tokens.
    SpecialToken,
    /// Multimodal projectors.
    Projector,
    /// Encoders of images.
    Vision,
    /// Encoders of audio.
    Audio,
    /// Encoders of generated audio.
    GenAudio,
}

/// The origin of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// llama.cpp's table of keys, `gguf-py/gguf/constants.py`.
    Constants,
    /// Other sources of llama.cpp, but not its table of keys.
    LlamaCpp,
    /// The specification, but not llama.cpp.
    Spec,
    /// Only the draft that preceded the first release.
    Draft,
}

/// Rows of the table: section, then for each key its sentence, constant, pattern, types, unit (`in`), origin unless it is llama.cpp's table
/// (`from`) and replacement (`=>`).
macro_rules! keys {
    ($table:ident $($section:ident { $(
        #[doc = $doc:literal]
        $name:ident = $pattern:literal: $($kind:tt)|+ $(in $unit:literal)? $(from $origin:ident)? $(=> $instead:literal)?;
    )* })*) => {
        $($(#[doc = concat!("`", $pattern, "`:", $doc)] pub const $name: &str = $pattern;)*)*
        pub(super) const $table: &[super::KeyInfo] = &[$($(super::KeyInfo {
            name: stringify!($name),
            pattern: $pattern,
            kinds: &[$(super::keys!(@kind $kind)),+],
            unit: concat!($($unit)?),
            section: super::Section::$section,
            origin: super::keys!(@origin $($origin)?),
            instead: super::keys!(@instead $($instead)?),
            doc: $doc.trim_ascii(),
        }),*),*];
    };
    (@kind [$ty:ident]) => { super::KeyType::Array(super::keys!(@type $ty)) };
    (@kind $ty:ident) => { super::KeyType::Scalar(super::keys!(@type $ty)) };
    (@type u8) => { crate::value::ValueType::U8 };
    (@type i8) => { crate::value::ValueType::I8 };
    (@type u16) => { crate::value::ValueType::U16 };
    (@type u32) => { crate::value::ValueType::U32 };
    (@type i32) => { crate::value::ValueType::I32 };
    (@type u64) => { crate::value::ValueType::U64 };
    (@type f32) => { crate::value::ValueType::F32 };
    (@type bool) => { crate::value::ValueType::BOOL };
    (@type string) => { crate::value::ValueType::STRING };
    (@origin) => { super::Origin::Constants };
    (@origin $origin:ident) => { super::Origin::$origin };
    (@instead) => { None };
    (@instead $key:literal) => { Some($key) };
}
use keys;

/// The prefix of network keys in the table.
const ARCH: &str = "{arch}.";

const TABLES: [&[KeyInfo]; 5] = [general::GENERAL, model::MODEL, tokenizer::TOKENIZER, clip::CLIP, general::NUMBERED];

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time, where an error ends the build")]
const N_KEYS: usize = {
    let (mut n, mut t) = (0, 0);
    while t < TABLES.len() {
        n += TABLES[t].len();
        t += 1;
    }
    n
};

/// Every known key, by section. Keys with a number or a name in the middle (`general.base_model.{id}.name`) come last.
pub static KEYS: &[KeyInfo] = &ALL;

static ALL: [KeyInfo; N_KEYS] = joined();

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time, where an error ends the build")]
const fn joined() -> [KeyInfo; N_KEYS] {
    let mut all = [general::GENERAL[0]; N_KEYS];
    let (mut n, mut t) = (0, 0);
    while t < TABLES.len() {
        let mut i = 0;
        while i < TABLES[t].len() {
            all[n] = TABLES[t][i];
            n += 1;
            i += 1;
        }
        t += 1;
    }
    all
}

/// Indexes into [`ALL`], sorted by the length of the pattern and then by its bytes.
static SORTED: [u16; N_KEYS] = sorted();

#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "evaluated at compile time; there are fewer than 65536 keys"
)]
const fn sorted() -> [u16; N_KEYS] {
    let all = joined();
    let mut order = [0; N_KEYS];
    let mut n = 0;
    while n < N_KEYS {
        let mut at = n;
        while at > 0 && is_before(all[n].pattern, all[order[at - 1] as usize].pattern) {
            order[at] = order[at - 1];
            at -= 1;
        }
        order[at] = n as u16;
        n += 1;
    }
    order
}

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time, where an error ends the build")]
const fn is_before(a: &str, b: &str) -> bool {
    if a.len() != b.len() {
        return a.len() < b.len();
    }
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return a[i] < b[i];
        }
        i += 1;
    }
    false
}

/// The row with the pattern `prefix` followed by `rest`.
fn find(prefix: &str, rest: &str) -> Option<&'static KeyInfo> {
    let at = SORTED.binary_search_by(|&i| {
        let Some(row) = ALL.get(usize::from(i)) else { return Ordering::Greater };
        let len = row.pattern.len().cmp(&prefix.len().saturating_add(rest.len()));
        len.then_with(|| row.pattern.bytes().cmp(prefix.bytes().chain(rest.bytes())))
    });
    ALL.get(usize::from(*SORTED.get(at.ok()?)?))
}

/// Every row of the table.
pub fn all() -> &'static [KeyInfo] {
    &ALL
}

/// The row of a pattern, for example of one of the constants.
pub fn info(pattern: &str) -> Option<&'static KeyInfo> {
    find("", pattern)
}

/// The expected type instead of `given` for a new value of a key: for a known key, one from its row in the table, unless the value is
/// convertible; for any other key whose `present` value is an array, that type. `None` if `given` is valid.
pub fn expected_instead(key: &str, arch: Option<&str>, given: KeyType, present: Option<KeyType>) -> Option<String> {
    match (lookup(key, arch), present) {
        (Some(row), _) if row.fit(given) == Fit::Wrong => Some(row.expected().to_string()),
        (None, Some(present @ KeyType::Array(_))) if present != given => Some(present.to_string()),
        _ => None,
    }
}

/// The row for a key in a file whose `general.architecture` is `arch`.
///
/// Without `arch`, keys of every known architecture are recognized; with it, keys of other architectures are not. Long keys take no longer,
/// and nothing is allocated.
pub fn lookup(key: &str, arch: Option<&str>) -> Option<&'static KeyInfo> {
    let (rest, of_arch) = match arch {
        Some(arch) => (key.strip_prefix(arch).and_then(|rest| rest.strip_prefix('.')), true),
        None => key.split_once('.').map_or((None, false), |(first, rest)| (Some(rest), is_architecture(first))),
    };
    let rest = rest.filter(|_| of_arch);
    let literal = |prefix, text: &str| find(prefix, text).filter(|_| !text.contains('{'));
    literal("", key).or_else(|| literal(ARCH, rest?)).or_else(|| {
        general::NUMBERED.iter().find(|row| match row.pattern.strip_prefix(ARCH) {
            Some(pattern) => rest.is_some_and(|rest| is_filled(pattern, rest)),
            None => is_filled(row.pattern, key),
        })
    })
}

/// Whether `key` is `pattern` with its placeholder filled in.
fn is_filled(pattern: &str, key: &str) -> bool {
    let Some((before, (placeholder, after))) =
        pattern.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    else {
        return pattern == key;
    };
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let Some(filler) = key.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)) else { return false };
    match placeholder {
        "id" => digits(filler),
        "dense" => filler.strip_prefix("dense_").is_some_and(digits),
        _ => !filler.is_empty() && filler.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'),
    }
}

/// The key of `arch` for a pattern: `llama.context_length` for [`CONTEXT_LENGTH`]. Returns the pattern for a name that is longer than any
/// key.
pub fn for_arch(pattern: &str, arch: &str) -> String {
    if arch.len() > crate::limits::MAX_KEY { pattern.into() } else { pattern.replace("{arch}", arch) }
}

/// The key with number `id` for a pattern: `general.base_model.0.name` for [`GENERAL_BASE_MODEL_NAME`].
pub fn for_id(pattern: &str, id: u32) -> String {
    let mut key = String::new();
    for (i, part) in pattern.split("{id}").enumerate() {
        if i > 0 {
            let _ = fmt::Write::write_fmt(&mut key, format_args!("{id}"));
        }
        key.push_str(part);
    }
    key
}

impl KeyInfo {
    /// The key for this architecture; the pattern, if it does not depend on one.
    pub fn for_arch(&self, arch: &str) -> String {
        for_arch(self.pattern, arch)
    }

    /// Whether the key begins with the name of the architecture.
    pub fn is_of_arch(&self) -> bool {
        self.pattern.starts_with(ARCH)
    }

    /// Compares a value's type, and its element type if it is an array, with the types of the key.
    pub fn fit(&self, found: KeyType) -> Fit {
        if self.kinds.contains(&found) {
            Fit::Exact
        } else if self.kinds.iter().any(|known| known.converts_from(found)) {
            Fit::Convertible
        } else {
            Fit::Wrong
        }
    }

    /// The types of the key as text: `u32 or array of i32`.
    pub fn expected(&self) -> impl fmt::Display + use<> {
        let kinds = self.kinds;
        Joined(kinds)
    }
}

struct Joined(&'static [KeyType]);

impl fmt::Display for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, kind) in self.0.iter().enumerate() {
            write!(f, "{}{kind}", if i > 0 { " or " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyType::Scalar(ty) => write!(f, "{ty}"),
            KeyType::Array(ty) => write!(f, "array of {ty}"),
        }
    }
}

impl KeyType {
    fn converts_from(self, found: KeyType) -> bool {
        match (self, found) {
            (KeyType::Scalar(known), KeyType::Scalar(found)) => sort_of(known) == sort_of(found),
            (KeyType::Array(known), KeyType::Array(found)) => {
                sort_of(known) == sort_of(found)
                    || matches!((sort_of(known), sort_of(found)), (Sort::Flag, Sort::Integer))
            }
            _ => false,
        }
    }
}

#[derive(PartialEq, Eq)]
enum Sort {
    Integer,
    Float,
    Flag,
    Other(ValueType),
}

fn sort_of(ty: ValueType) -> Sort {
    match ty {
        ValueType::F32 | ValueType::F64 => Sort::Float,
        ValueType::BOOL => Sort::Flag,
        ValueType::U8 | ValueType::U16 | ValueType::U32 | ValueType::U64 => Sort::Integer,
        ValueType::I8 | ValueType::I16 | ValueType::I32 | ValueType::I64 => Sort::Integer,
        other => Sort::Other(other),
    }
}

/// The most similar key for a misspelt one: the current key with the fewest letters to insert, remove, change or swap, at most one in five
/// and three in total. Case is ignored, and so is the name before the first dot in network keys. `None` for keys over 80 bytes; the work is
/// bounded.
pub fn nearest(key: &str) -> Option<&'static KeyInfo> {
    if key.len() > MAX_NEAREST {
        return None;
    }
    let rest = key.split_once('.').map(|(_, rest)| rest);
    let mut best = None;
    let mut fewest = MAX_EDITS + 1;
    for row in KEYS.iter().filter(|row| row.instead.is_none()) {
        let (pattern, text) = match row.pattern.strip_prefix(ARCH) {
            Some(pattern) => (pattern, rest),
            None => (row.pattern, Some(key)),
        };
        let allowed = u8::try_from(pattern.len() / 5).unwrap_or(MAX_EDITS).min(MAX_EDITS);
        let Some(edits) = text.and_then(|text| edits(pattern.as_bytes(), text.as_bytes())) else { continue };
        if edits <= allowed && edits < fewest {
            fewest = edits;
            best = Some(row);
        }
    }
    best
}

#[cfg(test)]
mod tests;
