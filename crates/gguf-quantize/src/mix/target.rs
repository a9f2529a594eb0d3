//! Targets: file types by name or number, and tensor types by name.

use core::fmt;

use gguf_format::GgmlType;
use gguf_format::keys::{FILE_TYPES, FileType};

/// The target of a quantization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A copy of every tensor (`COPY`).
    Copy,
    /// A file type.
    FileType(FileType),
}

/// Short aliases of names (`QUANT_OPTIONS` in `tools/quantize/quantize.cpp`).
pub const ALIASES: &[(&str, &str)] = &[("Q3_K", "Q3_K_M"), ("Q4_K", "Q4_K_M"), ("Q5_K", "Q5_K_M")];

impl Target {
    /// Parses the name of a file type, in any case, or its number, or `COPY`, like `llama-quantize` (`try_parse_ftype` in
    /// `tools/quantize/quantize.cpp`), and `NVFP4`.
    ///
    /// ```
    /// use gguf_quantize::mix::Target;
    /// assert_eq!(Target::parse("q4_k").unwrap(), Target::parse("15").unwrap());
    /// let error = Target::parse("q4_km").unwrap_err();
    /// assert_eq!(error.to_string(), "unknown file type `q4_km`; did you mean Q4_K_M?");
    /// ```
    ///
    /// # Errors
    /// If no target has the name; the error lists similar ones.
    pub fn parse(text: &str) -> Result<Target, UnknownName> {
        if text.eq_ignore_ascii_case("COPY") {
            return Ok(Target::Copy);
        }
        let named = FileType::from_name(text).or_else(|| text.parse().ok().map(FileType));
        match named.filter(|&ty| is_target(ty)) {
            Some(ty) => Ok(Target::FileType(ty)),
            None => Err(UnknownName::new("file type", text, Target::names())),
        }
    }

    /// Every name, `COPY` last, after the aliases.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let types = FILE_TYPES.iter().filter(|row| !row.removed).map(|row| row.label());
        types.chain(ALIASES.iter().map(|(alias, _)| *alias)).chain(["COPY"])
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Copy => f.pad("COPY"),
            Target::FileType(ty) => fmt::Display::fmt(ty, f),
        }
    }
}

/// Whether a file type is a valid target: known, not removed and not a guess.
pub(super) fn is_target(ty: FileType) -> bool {
    !ty.is_guessed() && ty.info().is_some_and(|row| !row.removed)
}

/// Whether a tensor type is a valid target (the cases of `ggml_quantize_chunk` in `ggml.c`): floats and all quantized types except those
/// that only store activations.
pub fn is_tensor_target(ty: GgmlType) -> bool {
    let Some(row) = ty.info() else { return false };
    let activations = [GgmlType::Q8_1, GgmlType::Q8_K];
    let floats = [GgmlType::F32, GgmlType::F16, GgmlType::BF16];
    !row.removed && (floats.contains(&ty) || (row.is_quantized() && !activations.contains(&ty)))
}

/// Parses the name of a tensor type that is a valid target, in any case (`parse_ggml_type` in `tools/quantize/quantize.cpp`).
///
/// # Errors
/// If no valid target has the name; the error lists similar ones.
pub fn parse_tensor_type(text: &str) -> Result<GgmlType, UnknownName> {
    match GgmlType::from_name(text).filter(|&ty| is_tensor_target(ty)) {
        Some(ty) => Ok(ty),
        None => {
            let rows = gguf_format::TYPES.iter().filter(|row| is_tensor_target(GgmlType(row.id)));
            Err(UnknownName::new("tensor type", text, rows.map(|row| row.name)))
        }
    }
}

/// An unknown name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownName {
    /// The kind of name: `file type`, `tensor type`.
    pub what: &'static str,
    /// The name.
    pub name: String,
    /// Similar names, at most three.
    pub near: Vec<&'static str>,
    /// All names, if none is similar.
    pub all: Vec<&'static str>,
}

/// The maximum number of bytes of an unknown name to compare and repeat.
const SHOWN: usize = 64;

impl UnknownName {
    pub(super) fn new(what: &'static str, name: &str, names: impl Iterator<Item = &'static str>) -> UnknownName {
        let name: String = name.chars().take(SHOWN).collect();
        let (all, asked) = (names.collect::<Vec<_>>(), letters(&name));
        let how_far = |other: &str| {
            let other = letters(other);
            // The name may be a prefix.
            let begins = asked.len() >= 4 && other.starts_with(&asked);
            distance(&asked, &other).min(if begins { 1 } else { usize::MAX })
        };
        let mut near: Vec<(usize, &str)> = all.iter().map(|n| (how_far(n), *n)).collect();
        let best = near.iter().map(|(d, _)| *d).min().unwrap_or(0);
        let is_alike = best
            <= match asked.len() {
                0 | 1 => 0,
                2..=4 => 1,
                _ => 2,
            };
        near.retain(|(d, _)| *d == best && is_alike);
        near.truncate(3);
        let near: Vec<_> = near.into_iter().map(|(_, n)| n).collect();
        UnknownName { what, name, all: if near.is_empty() { all } else { Vec::new() }, near }
    }
}

/// The significant part of a name: letters and digits, ignoring case.
fn letters(name: &str) -> Vec<u8> {
    name.bytes().filter(u8::is_ascii_alphanumeric).map(|b| b.to_ascii_uppercase()).collect()
}

/// The edit distance: the number of letters to change, add or remove.
#[expect(clippy::indexing_slicing, reason = "the row has one element more than `b`")]
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut before = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let changed = before + usize::from(x != y);
            before = row[j + 1];
            row[j + 1] = changed.min(before + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} `{}`; ", self.what, self.name.escape_debug())?;
        match self.near.as_slice() {
            [] => write!(f, "expected one of {}", self.all.join(", ")),
            near => write!(f, "did you mean {}?", near.join(" or ")),
        }
    }
}

impl core::error::Error for UnknownName {}
