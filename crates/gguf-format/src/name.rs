//! The naming convention of model files:
//! `[<Sidecar>-]<BaseName>-<SizeLabel>[-<FineTune>]-<Version>[-<Encoding>][-<Type>][-<Shard>].gguf`.
//!
//! The rule is the regular expression of the current specification (`docs/gguf.md` of the ggml repository, "GGUF Naming Convention"), with
//! a mandatory base name and size label, as its text requires. Many files follow it only in part, so [`FileName::parse`] also reads those
//! as well as possible, and [`problems`] lists the deviations. A missing version is not one: most models have none, and llama.cpp's own
//! converter writes none.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;

use crate::keys::FileType;
pub use crate::shard::EXTENSION;
use crate::shard::ShardNumber;
use crate::types::GgmlType;

/// Prefixes of files that accompany a model: multimodal projectors and heads for multi-token prediction.
pub const SIDECARS: &[&str] = &["mmproj", "mtp"];

/// Types of files without a complete model.
pub const TYPES: &[&str] = &["LoRA", "vocab"];

/// The default version of a model.
pub const DEFAULT_VERSION: &str = "v1.0";

/// The parts of a file name. Missing parts are `None`; no part is an empty string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FileName<'a> {
    /// `mmproj` or `mtp`, for files that accompany a model.
    pub sidecar: Option<&'a str>,
    /// Family or architecture: `Llama-3`.
    pub base_name: Option<&'a str>,
    /// Number of parameters: `8B`, `8x7B`, `30B-A3B`; see [`SizeLabel`].
    pub size_label: Option<&'a str>,
    /// What the model was tuned for: `Instruct`.
    pub fine_tune: Option<&'a str>,
    /// Version of the model: `v1.0`.
    pub version: Option<&'a str>,
    /// Type of the weights: `Q4_K_M`.
    pub encoding: Option<&'a str>,
    /// `LoRA` or `vocab`.
    pub kind: Option<&'a str>,
    /// The shard number and the number of shards.
    pub shard: Option<ShardNumber>,
}

/// A deviation of a file name from the convention.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameProblem {
    /// The name does not end in `.gguf`.
    Extension,
    /// There is no base name before the size label.
    NoBaseName,
    /// There is no size label such as `7B`.
    NoSizeLabel,
    /// The encoding follows a dot instead of a dash.
    DotBeforeEncoding(String),
    /// The base name or the fine-tune has characters that the convention does not allow there.
    Letters(String),
    /// The base name or the fine-tune has dots in numbers, which the convention does not allow there but many names have: `Llama-3.1`.
    Dots(String),
    /// The shard does not have the form `00001-of-00003`, or its number exceeds the count.
    Shard(String),
    /// The parts are not in the order of the convention.
    Order,
}

impl fmt::Display for NameProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameProblem::Extension => f.write_str("the file name does not end in .gguf"),
            NameProblem::NoBaseName => f.write_str("the file name has no base name before the size, such as Llama-3"),
            NameProblem::NoSizeLabel => f.write_str("the file name has no size, such as 7B or 8x7B"),
            NameProblem::DotBeforeEncoding(encoding) => {
                write!(f, "the file name has a dot before the encoding {encoding}, expected a dash")
            }
            NameProblem::Letters(part) => {
                write!(f, "'{}' in the file name is not made of letters, digits and dashes", part.escape_debug())
            }
            NameProblem::Dots(part) => {
                write!(f, "'{part}' in the file name has a dot in a number, which the convention allows only in sizes and versions")
            }
            NameProblem::Shard(part) => {
                write!(f, "the shard {part} in the file name is not of the form 00001-of-00003, counted from 1")
            }
            NameProblem::Order => f.write_str(
                "the parts of the file name are not in the order base name, size, fine-tune, version, encoding, type, shard",
            ),
        }
    }
}

impl NameProblem {
    /// Whether the deviation is so common that the name needs no change.
    pub fn is_note(&self) -> bool {
        matches!(self, NameProblem::Dots(_))
    }
}

impl<'a> FileName<'a> {
    /// Parses a name without directory, as far as its parts can be distinguished. Never fails: in the worst case the base name is the whole
    /// name.
    pub fn parse(name: &'a str) -> FileName<'a> {
        FileName::parse_strict(name).unwrap_or_else(|| FileName::guess(name))
    }

    /// Parses a name that follows the convention; `None` for every other.
    pub fn parse_strict(name: &'a str) -> Option<FileName<'a>> {
        let stem = name.strip_suffix(EXTENSION)?;
        let without_sidecar = || match_stem(stem);
        let Some((sidecar, rest)) = split_sidecar(stem) else { return without_sidecar() };
        match match_stem(rest) {
            Some(parts) => Some(FileName { sidecar: Some(sidecar), ..parts }),
            None => without_sidecar(),
        }
    }

    /// Reads a name that does not follow the convention: parts are recognized by their form.
    fn guess(name: &'a str) -> FileName<'a> {
        let stem = strip_extension(name).unwrap_or(name);
        let mut parts = FileName::default();
        let mut rest = stem;
        if let Some((sidecar, after)) = split_sidecar(rest) {
            parts.sidecar = Some(sidecar);
            rest = after;
        }
        let (mut rest, shard) = split_shard(rest);
        parts.shard = shard.and_then(|text| text.parse().ok());
        for kind in TYPES {
            if let Some(before) = rest.strip_suffix(kind).and_then(|before| before.strip_suffix('-')) {
                parts.kind = Some(kind);
                rest = before;
            }
        }
        if let Some((before, encoding)) = split_encoding(rest) {
            parts.encoding = Some(encoding);
            rest = before;
        }
        if let Some((before, last)) = rest.rsplit_once('-').filter(|(_, last)| is_version(last)) {
            parts.version = Some(last);
            rest = before;
        }
        let size = pieces(rest).find(|piece| piece.start > 0 && is_size(piece.text));
        let Some(size) = size else {
            parts.base_name = present(rest);
            return parts;
        };
        let end = size.start + size.text.len();
        let end = match pieces(rest).find(|piece| piece.start == end + 1) {
            Some(next) if is_attribute(next.text) => next.start + next.text.len(),
            _ => end,
        };
        let mut base = rest.get(..size.start - 1).unwrap_or_default();
        if let (None, Some((before, last))) =
            (parts.version, base.rsplit_once('-').filter(|(_, last)| is_version(last)))
        {
            parts.version = Some(last);
            base = before;
        }
        parts.base_name = present(base);
        parts.size_label = rest.get(size.start..end).and_then(present);
        parts.fine_tune = rest.get(end + 1..).and_then(present);
        parts
    }

    /// Version of the model: `v1.0` by default.
    pub fn version(&self) -> &'a str {
        self.version.unwrap_or(DEFAULT_VERSION)
    }
}

/// Joins the parts and adds the extension.
impl fmt::Display for FileName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shard = self.shard.map(|shard| format!("{shard}"));
        let texts =
            [self.sidecar, self.base_name, self.size_label, self.fine_tune, self.version, self.encoding, self.kind];
        for (i, text) in texts.into_iter().chain([shard.as_deref()]).flatten().enumerate() {
            write!(f, "{}{text}", if i > 0 { "-" } else { "" })?;
        }
        f.write_str(EXTENSION)
    }
}

/// All deviations of a file name (without directory); empty if it follows the convention.
pub fn problems(name: &str) -> Vec<NameProblem> {
    let mut found = Vec::new();
    if FileName::parse_strict(name).is_some() {
        return found;
    }
    if !name.ends_with(EXTENSION) {
        found.push(NameProblem::Extension);
    }
    let parts = FileName::guess(name);
    let stem = strip_extension(name).unwrap_or(name);
    let (unsharded, shard) = split_shard(stem);
    if let Some(shard) = shard.filter(|_| parts.shard.is_none()) {
        found.push(NameProblem::Shard(shard.into()));
    }
    if parts.base_name.is_none() {
        found.push(NameProblem::NoBaseName);
    }
    if parts.size_label.is_none() {
        found.push(NameProblem::NoSizeLabel);
    }
    if let Some(encoding) = parts.encoding {
        let unkinded = parts.kind.map_or(unsharded, |kind| unsharded.trim_end_matches(kind).trim_end_matches('-'));
        if unkinded.strip_suffix(encoding).is_some_and(|before| before.ends_with('.')) {
            found.push(NameProblem::DotBeforeEncoding(encoding.into()));
        }
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || c.is_ascii_whitespace() || c == '-';
    for part in [parts.base_name, parts.fine_tune].into_iter().flatten() {
        if !without_dots(part).chars().all(allowed) {
            found.push(NameProblem::Letters(part.into()));
        } else if without_dots(part) != part {
            found.push(NameProblem::Dots(part.into()));
        }
    }
    if found.iter().all(NameProblem::is_note) && !is_ordered(name, &parts) {
        found.push(NameProblem::Order);
    }
    found
}

/// Whether a name has its parts in the order of the convention, and only a version and dots separate it from a name of the convention.
fn is_ordered(name: &str, parts: &FileName<'_>) -> bool {
    let base_name = parts.base_name.map(without_dots);
    let fine_tune = parts.fine_tune.map(without_dots);
    let version = Some(parts.version());
    let strict = FileName { base_name: base_name.as_deref(), fine_tune: fine_tune.as_deref(), version, ..*parts };
    format!("{parts}") == name && FileName::parse_strict(&format!("{strict}")).is_some()
}

/// A conventional name equivalent to `name`, completed with the size label of the metadata if the name has none. Dots in numbers are kept, and
/// no version is added. `None` if the file is of another kind, the size is unknown, or the parts cannot be put into a valid form.
pub fn suggestion(name: &str, size_label: Option<&str>) -> Option<String> {
    let stem = strip_extension(name)?;
    let parts = FileName::parse(name);
    let base_name = dashed(parts.base_name?);
    // Programs treat a name that starts with a dash as an option.
    let base_name = base_name.trim_start_matches('-');
    let fine_tune = parts.fine_tune.map(dashed);
    let shard = match split_shard(stem).1 {
        Some(text) => Some(
            text.split_once("-of-").and_then(|(no, count)| ShardNumber::new(no.parse().ok()?, count.parse().ok()?))?,
        ),
        None => None,
    };
    let suggestion = FileName {
        shard,
        base_name: present(base_name),
        fine_tune: fine_tune.as_deref().and_then(present),
        size_label: parts.size_label.or(size_label),
        ..parts
    };
    let name = format!("{suggestion}");
    problems(&name).iter().all(NameProblem::is_note).then_some(name)
}

/// The parts of a file name from the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct NameSource<'a> {
    /// `general.name`; used when there is no base name.
    pub name: Option<&'a str>,
    /// `general.basename`.
    pub base_name: Option<&'a str>,
    /// `general.size_label`.
    pub size_label: Option<&'a str>,
    /// `general.finetune`.
    pub fine_tune: Option<&'a str>,
    /// `general.version`.
    pub version: Option<&'a str>,
    /// Type of the weights, in any case: `q8_0`.
    pub encoding: Option<&'a str>,
    /// `LoRA` or `vocab`.
    pub kind: Option<&'a str>,
}

impl NameSource<'_> {
    /// The file name without sidecar, shard and extension, formed like in llama.cpp's converter (`naming_convention` in
    /// `gguf-py/gguf/utility.py`): spaces become dashes, in the base name slashes too; the encoding is in capitals.
    ///
    /// The result follows the convention only as far as the metadata does.
    pub fn stem(&self) -> String {
        let spaced = |text: &str| text.trim().replace(' ', "-");
        let base = self.base_name.or(self.name).map(|text| spaced(text).replace('/', "-"));
        let mut stem = base.unwrap_or_else(|| "ggml-model".into());
        let parts = [
            self.size_label.map(String::from),
            self.fine_tune.map(spaced),
            self.version.map(spaced),
            self.encoding.map(|text| spaced(text).to_uppercase()),
            self.kind.map(spaced),
        ];
        for part in parts.into_iter().flatten() {
            stem.push('-');
            stem.push_str(&part);
        }
        stem
    }
}

/// The size label of a model with this many parameters in total, or, with experts, in the shared parts plus one expert (`size_label` in
/// `gguf-py/gguf/utility.py`): `8.0B`, `8x7.2B`.
pub fn size_label(total: u64, shared: u64, per_expert: u64, experts: u64) -> String {
    if experts > 0 { format!("{experts}x{}", rounded(shared.saturating_add(per_expert))) } else { rounded(total) }
}

/// At least two digits and the scale. As in Python, the count is multiplied by an inexact power of ten, and halves are rounded to even, so
/// results agree to the last digit.
fn rounded(count: u64) -> String {
    let (scale, letter) = match count {
        1_000_000_000_001.. => (1e-12, 'T'),
        1_000_000_001.. => (1e-9, 'B'),
        1_000_001.. => (1e-6, 'M'),
        _ => (1e-3, 'K'),
    };
    let scaled = count as f64 * scale;
    let digits = format!("{scaled:.0}").trim_start_matches('0').len();
    format!("{scaled:.*}{letter}", 2usize.saturating_sub(digits))
}

/// The parts of a size label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SizeLabel<'a> {
    /// Number of experts, before the `x`.
    pub experts: Option<u64>,
    /// Number of parameters; in a mixture of experts, those of one expert and the shared ones.
    pub parameters: u64,
    /// Half of the value of the last digit: 7B stands for 7,000,000,000, plus or minus 500,000,000.
    pub tolerance: u64,
    /// A further attribute, such as `A3B`, its number and scale included.
    pub attribute: Option<&'a str>,
}

impl<'a> SizeLabel<'a> {
    /// Parses a size label: `7B`, `0.5B`, `8x7B`, `30B-A3B`. The scale is one of `KMBTQ` in either case. `None` for every other text, and
    /// for numbers over 64 bits.
    pub fn parse(label: &'a str) -> Option<SizeLabel<'a>> {
        let (size, attribute) = label.split_once('-').map_or((label, None), |(size, rest)| (size, Some(rest)));
        if !is_size(size) || attribute.is_some_and(|attribute| !is_attribute(attribute)) {
            return None;
        }
        let (experts, number) = match size.split_once('x') {
            Some((experts, number)) if !number.is_empty() => (Some(experts.parse().ok()?), number),
            _ => (None, size),
        };
        let (parameters, tolerance) = scaled(number)?;
        Some(SizeLabel { experts, parameters, tolerance, attribute })
    }

    /// The range of parameters of the whole model: with experts, from those of a single one up to all of them without sharing.
    pub fn total(&self) -> RangeInclusive<u64> {
        let most = self.parameters.saturating_add(self.tolerance).saturating_mul(self.experts.unwrap_or(1));
        self.parameters.saturating_sub(self.tolerance)..=most
    }

    /// The number of active parameters per token, if the label has it: the number of an attribute like `A3B`.
    pub fn active(&self) -> Option<RangeInclusive<u64>> {
        let number = self.attribute?.strip_prefix(['A', 'a'])?;
        let (parameters, tolerance) = scaled(number)?;
        Some(parameters.saturating_sub(tolerance)..=parameters.saturating_add(tolerance))
    }
}

/// A decimal number with its scale: its value, and half of the value of its last digit.
fn scaled(text: &str) -> Option<(u64, u64)> {
    let letter = text.chars().last()?;
    let number = text.strip_suffix(letter)?;
    let exponent = match letter.to_ascii_uppercase() {
        'K' => 3,
        'M' => 6,
        'B' => 9,
        'T' => 12,
        'Q' => 15,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if !is_digits(whole) || !(fraction.is_empty() || is_digits(fraction)) {
        return None;
    }
    let unit = 10u64.pow(u32::try_from(fraction.len()).ok().and_then(|n| u32::checked_sub(exponent, n))?);
    let digits: u64 = format!("{whole}{fraction}").parse().ok()?;
    Some((digits.checked_mul(unit)?, unit / 2))
}

/// The regular expression from the base name on. It is unambiguous: a size label cannot be part of a base name, and the version is followed
/// by at most one encoding, one type and one shard.
fn match_stem(stem: &str) -> Option<FileName<'_>> {
    let (rest, shard) = split_shard(stem);
    let shard = shard.map(str::parse).transpose().ok()?;
    let (rest, kind) = match rest.rsplit_once('-') {
        Some((before, kind)) if TYPES.contains(&kind) => (before, Some(kind)),
        _ => (rest, None),
    };
    // The last piece is the version if it is valid; otherwise it is the encoding, and the previous one the version.
    let (before, last) = rest.rsplit_once('-')?;
    let by_version = is_version(last).then(|| match_front(before)).flatten();
    let (parts, version, encoding) = match by_version {
        Some(parts) => (parts, last, None),
        None => {
            let (front, version) = before.rsplit_once('-')?;
            let is_encoding = !last.is_empty()
                && last.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                && !TYPES.iter().any(|kind| last.starts_with(kind));
            (match_front(front).filter(|_| is_version(version) && is_encoding)?, version, Some(last))
        }
    };
    Some(FileName { version: Some(version), encoding, kind, shard, ..parts })
}

/// Base name, size label and fine-tune: everything before the version.
fn match_front(front: &str) -> Option<FileName<'_>> {
    let is_text = |text: &str, extra: &[u8]| {
        text.bytes().all(|b| b.is_ascii_alphanumeric() || b.is_ascii_whitespace() || extra.contains(&b))
    };
    let is_base = |piece: &Piece<'_>| {
        let starts_well = piece.start == 0 || !piece.text.starts_with(|c: char| c.is_ascii_digit());
        let is_number = piece.text.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_whitespace());
        is_text(piece.text, b"") && (starts_well || is_number)
    };
    let size = pieces(front).find(|piece| !is_base(piece)).filter(|piece| is_size(piece.text))?;
    let base_name = front.get(..size.start.checked_sub(1)?).and_then(present)?;
    let end = size.start + size.text.len();
    let with_fine_tune = |end: usize| {
        let fine_tune = front.get(end..)?.strip_prefix('-');
        let is_wrong = fine_tune.is_some_and(|text| text.is_empty() || !is_text(text, b"-"));
        let parts =
            FileName { base_name: Some(base_name), size_label: front.get(size.start..end), ..FileName::default() };
        (!is_wrong).then_some(FileName { fine_tune, ..parts })
    };
    let attribute = pieces(front).find(|piece| piece.start == end + 1 && is_attribute(piece.text));
    let with_attribute = attribute.and_then(|piece| with_fine_tune(piece.start + piece.text.len()));
    with_attribute.or_else(|| with_fine_tune(end))
}

/// A piece between dashes and its offset.
struct Piece<'a> {
    start: usize,
    text: &'a str,
}

fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut start = 0;
    text.split('-').map(move |text| {
        let piece = Piece { start, text };
        start += text.len() + 1;
        piece
    })
}

fn present(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn strip_extension(name: &str) -> Option<&str> {
    let at = name.len().checked_sub(EXTENSION.len())?;
    name.get(at..)?.eq_ignore_ascii_case(EXTENSION).then(|| name.get(..at)).flatten()
}

fn split_sidecar(stem: &str) -> Option<(&str, &str)> {
    stem.split_once('-').filter(|(first, _)| SIDECARS.contains(first))
}

/// The shard at the end, with numbers of any width: `1-of-3`.
fn split_shard(stem: &str) -> (&str, Option<&str>) {
    let mut dashes = stem.rmatch_indices('-').map(|(at, _)| at);
    let (Some(last), Some(middle)) = (dashes.next(), dashes.next()) else { return (stem, None) };
    let start = dashes.next();
    let is_shard = |text: &str| {
        text.split_once("-of-").is_some_and(|(no, count)| is_digits(no) && is_digits(count)) && last > middle
    };
    match start.and_then(|at| Some((stem.get(..at)?, stem.get(at + 1..)?))) {
        Some((before, shard)) if is_shard(shard) => (before, Some(shard)),
        _ => (stem, None),
    }
}

/// An encoding at the end, after a dash or a dot: the name of a type of files or tensors, or a similar name such as `Q4_K_XL`.
fn split_encoding(text: &str) -> Option<(&str, &str)> {
    let at = text.rfind(['-', '.'])?;
    let encoding = text.get(at + 1..)?;
    let family = encoding.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let family = encoding.get(..encoding.len() - family.len())?;
    let looks_so =
        ["Q", "IQ", "TQ", "F", "FP", "BF", "MXFP", "NVFP"].iter().any(|known| family.eq_ignore_ascii_case(known))
            && encoding.len() > family.len()
            && encoding.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let is_known = FileType::from_name(encoding).is_some() || GgmlType::from_name(encoding).is_some();
    (is_known || looks_so).then_some((text.get(..at)?, encoding))
}

/// Whether the character at a byte is a dot between two digits.
fn is_dot_of_number(text: &str, at: usize) -> bool {
    let digit = |at: Option<usize>| at.and_then(|at| text.as_bytes().get(at)).is_some_and(u8::is_ascii_digit);
    text.as_bytes().get(at) == Some(&b'.') && digit(at.checked_sub(1)) && digit(at.checked_add(1))
}

/// The text without dots in numbers.
fn without_dots(text: &str) -> Cow<'_, str> {
    if !text.contains('.') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.char_indices().filter(|(at, _)| !is_dot_of_number(text, *at)).map(|(_, c)| c).collect())
}

/// Replaces characters that the convention does not allow in a base name or a fine-tune by dashes, except for dots in numbers.
fn dashed(text: &str) -> Cow<'_, str> {
    let allowed =
        |(at, c): (usize, char)| c.is_ascii_alphanumeric() || matches!(c, '-' | ' ') || is_dot_of_number(text, at);
    if text.char_indices().all(allowed) {
        return Cow::Borrowed(text);
    }
    let dashes: String = text.char_indices().map(|(at, c)| if allowed((at, c)) { c } else { '-' }).collect();
    let words: Vec<&str> = dashes.split('-').filter(|word| !word.is_empty()).collect();
    Cow::Owned(words.join("-"))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// `(\d+\.)?\d+`
fn is_number(text: &str) -> bool {
    match text.split_once('.') {
        Some((whole, fraction)) => is_digits(whole) && is_digits(fraction),
        None => is_digits(text),
    }
}

/// `v\d+(\.\d+)*`
fn is_version(text: &str) -> bool {
    text.strip_prefix('v').is_some_and(|numbers| numbers.split('.').all(is_digits))
}

/// `(\d+x)?(\d+\.)?\d+[A-Za-z]`
fn is_size(text: &str) -> bool {
    let Some(number) = text.strip_suffix(|c: char| c.is_ascii_alphabetic()) else { return false };
    match number.split_once('x') {
        Some((experts, number)) => is_digits(experts) && is_number(number),
        None => is_number(number),
    }
}

/// `[A-Za-z]+(\d+\.)?\d+[A-Za-z]+`
fn is_attribute(text: &str) -> bool {
    let number = text.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let inner = number.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    number.len() < text.len() && inner.len() < number.len() && is_number(inner)
}

#[cfg(test)]
mod tests;
