//! Findings: all problems of a file, where [`Gguf::parse`] stops at the first one.
//!
//! [`structure`] checks the rules required for reading a file safely; [`format`](fn@format) adds the other rules of the specification, and
//! restrictions of known readers. Both need only a head, and also check the valid part of a broken one. The meaning of the metadata is
//! checked by another crate, with the same types.
//!
//! ```
//! use gguf_format::check::{self, Severity};
//!
//! let mut head = gguf_format::Head::default();
//! head.set("General Name", "spelt like no other key");
//! let file = head.encode()?;
//!
//! let report = check::format(&file, file.len() as u64);
//! assert!(report.is_safe());
//! assert_eq!(report.worst(), Some(Severity::Warning));
//! let finding = report.findings().next().ok_or("a finding")?;
//! assert_eq!((finding.code, finding.place.name()), ("key.spelling", Some("General Name")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Each rule is a row of a table ([`RULES`]) and a few lines that apply it. Findings of one rule are kept up to a limit and counted beyond
//! it, so a report is small for every file.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::error::{Error, Problem};
use crate::file::{Gguf, KvRef};
use crate::scan::{HeadScan, ScanState};
use crate::tensor::TensorInfoRef;
use crate::value::Str;

mod head;
mod readers;
mod repeats;
mod rules;
mod tensors;

pub use repeats::{Repeat, hash, repeats};
pub use rules::RULES;
pub use tensors::padding;

/// The maximum number of findings of one rule to keep; further ones are counted.
pub const KEPT: u64 = 20;

/// The maximum number of bytes of a name or text in a finding.
const SHOWN: usize = 96;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// For information; no action needed.
    Note,
    /// Unusual or rejected by some readers; likely a mistake.
    Warning,
    /// Violates the specification, or unusable.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// One rule: a row of a table of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// The name of the rule in reports. It does not change with the wording.
    pub code: &'static str,
    /// The severity of a violation.
    pub severity: Severity,
    /// Whether the rule is required for reading the file safely.
    pub structural: bool,
    /// The expected value.
    pub expected: &'static str,
    /// The remedy for a violation.
    pub hint: &'static str,
    /// The source of the rule.
    pub source: &'static str,
}

impl Rule {
    /// A rule with its texts: the expected value, the hint, and the source of the rule. [`rules!`](crate::rules) makes
    /// tables of them.
    pub const fn new(code: &'static str, severity: Severity, structural: bool, texts: [&'static str; 3]) -> Rule {
        let [expected, hint, source] = texts;
        Rule { code, severity, structural, expected, hint, source }
    }
}

/// Declares a table of rules: a constant for each row, and the table of all.
///
/// ```
/// gguf_format::rules! {
///     /// The rules of an example.
///     pub RULES:
///     NAME_LENGTH "name.length" Error "a name has at most 9 bytes" "shorten it" "example, section 1";
/// }
/// assert_eq!(RULES[0].code, NAME_LENGTH.code);
/// ```
#[macro_export]
macro_rules! rules {
    ($(#[$doc:meta])* $vis:vis $table:ident: $($(#[$mark:ident])? $name:ident $code:literal $severity:ident
        $expected:literal $hint:literal $source:literal;)*) => {
        $(pub(crate) const $name: $crate::check::Rule = $crate::check::Rule::new(
            $code,
            $crate::check::Severity::$severity,
            $crate::rules!(@ $($mark)?),
            [$expected, $hint, $source],
        );)*
        $(#[$doc])*
        $vis const $table: &[$crate::check::Rule] = &[$($name),*];
    };
    (@ structural) => { true };
    (@) => { false };
}

/// The subject of a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// The file as a whole.
    File,
    /// A byte, counted from the start of the GGUF.
    Offset(u64),
    /// A key.
    Key {
        /// The key, cut to a printable length and safe to print.
        name: String,
        /// The offset of the pair; `None` for a missing key.
        offset: Option<u64>,
    },
    /// A tensor.
    Tensor {
        /// Its name, cut to a printable length and safe to print.
        name: String,
        /// The offset of its info; `None` for a missing tensor.
        offset: Option<u64>,
    },
}

impl Place {
    /// The kind of subject: `file`, `offset`, `key` or `tensor`.
    pub fn kind(&self) -> &'static str {
        match self {
            Place::File => "file",
            Place::Offset(_) => "offset",
            Place::Key { .. } => "key",
            Place::Tensor { .. } => "tensor",
        }
    }

    /// The name of the key or tensor.
    pub fn name(&self) -> Option<&str> {
        match self {
            Place::File | Place::Offset(_) => None,
            Place::Key { name, .. } | Place::Tensor { name, .. } => Some(name),
        }
    }

    /// The byte offset, if the finding has one.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Place::File => None,
            Place::Offset(at) => Some(*at),
            Place::Key { offset, .. } | Place::Tensor { offset, .. } => *offset,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File => f.write_str("file"),
            Place::Offset(at) => write!(f, "byte {at}"),
            Place::Key { name, .. } => write!(f, "key {name}"),
            Place::Tensor { name, .. } => write!(f, "tensor {name}"),
        }
    }
}

/// The subject of a finding, before it is known whether the finding is kept.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum At<'a> {
    /// The file as a whole.
    File,
    /// A byte, counted from the start of the GGUF.
    Offset(u64),
    /// A key and the offset of its pair.
    Key(Str<'a>, Option<u64>),
    /// A tensor's name and the offset of its info.
    Tensor(Str<'a>, Option<u64>),
}

impl<'a> At<'a> {
    /// A missing key.
    pub fn no_key(key: &'a str) -> At<'a> {
        At::Key(Str(key.as_bytes()), None)
    }

    /// A missing tensor.
    pub fn no_tensor(name: &'a str) -> At<'a> {
        At::Tensor(Str(name.as_bytes()), None)
    }
}

impl<'a> From<&KvRef<'a>> for At<'a> {
    fn from(kv: &KvRef<'a>) -> At<'a> {
        At::Key(kv.key, Some(kv.offset))
    }
}

impl<'a> From<&TensorInfoRef<'a>> for At<'a> {
    fn from(t: &TensorInfoRef<'a>) -> At<'a> {
        At::Tensor(t.name, Some(t.info_offset))
    }
}

impl From<At<'_>> for Place {
    fn from(at: At<'_>) -> Place {
        match at {
            At::File => Place::File,
            At::Offset(at) => Place::Offset(at),
            At::Key(name, offset) => Place::Key { name: shown(name), offset },
            At::Tensor(name, offset) => Place::Tensor { name: shown(name), offset },
        }
    }
}

/// A text of the file for reports: truncated, with characters escaped that a terminal would interpret.
pub fn shown(text: Str<'_>) -> String {
    let bytes = text.as_bytes();
    if bytes.len() <= SHOWN {
        return text.to_string();
    }
    // A truncated character would be escaped as bytes.
    let mut cut = SHOWN;
    while cut > SHOWN - 4 && bytes.get(cut).is_some_and(|b| b & 0xc0 == 0x80) {
        cut -= 1;
    }
    format!("{}… ({} bytes)", Str(bytes.get(..cut).unwrap_or_default()), bytes.len())
}

/// A number for reports, with its digits in groups: `1,234,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number with a noun and, in some sentences, a verb: `1 byte follows`, `2 bytes follow`.
pub(crate) fn counted(n: u64, noun: &str, one: &'static str, many: &'static str) -> String {
    if n == 1 { format!("1 {noun}{one}") } else { format!("{n} {noun}s{many}") }
}

/// A problem found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The rule's code, such as `tensor.overlap`.
    pub code: &'static str,
    /// The severity.
    pub severity: Severity,
    /// Whether it makes reading the file unsafe.
    pub structural: bool,
    /// The subject.
    pub place: Place,
    /// The problem.
    pub message: String,
    /// The expected value.
    pub expected: Cow<'static, str>,
    /// The remedy.
    pub hint: Cow<'static, str>,
}

/// The severity, code, place and message, such as `error tensor.overlap: tensor "x": …`, without the hint.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}: {}", self.severity, self.code, self.place, self.message)
    }
}

/// All findings, in the order of the checks.
#[derive(Debug, Clone, Default)]
pub struct Report {
    findings: Vec<Finding>,
    counts: BTreeMap<&'static str, (u64, Rule)>,
}

impl Report {
    /// A report without findings.
    pub fn new() -> Report {
        Report::default()
    }

    /// Adds a finding of a rule. Beyond [`KEPT`] of one rule it is only counted, and the message is not formatted.
    pub fn add<'a>(&mut self, rule: &Rule, at: impl Into<At<'a>>, message: fmt::Arguments<'_>) {
        self.add_with(rule, at, message, Cow::Borrowed(rule.expected), Cow::Borrowed(rule.hint));
    }

    /// As [`add`](Report::add), with its own expectation and hint.
    pub fn add_with<'a>(
        &mut self,
        rule: &Rule,
        at: impl Into<At<'a>>,
        message: fmt::Arguments<'_>,
        expected: impl Into<Cow<'static, str>>,
        hint: impl Into<Cow<'static, str>>,
    ) {
        let count = &mut self.counts.entry(rule.code).or_insert((0, *rule)).0;
        *count += 1;
        if *count <= KEPT {
            self.findings.push(Finding {
                code: rule.code,
                severity: rule.severity,
                structural: rule.structural,
                place: at.into().into(),
                message: message.to_string(),
                expected: expected.into(),
                hint: hint.into(),
            });
        }
    }

    /// Appends the findings of another report.
    pub fn append(&mut self, other: Report) {
        for finding in other.findings {
            let kept = self.counts.get(finding.code).map_or(0, |c| c.0.min(KEPT));
            let already = self.findings.iter().filter(|f| f.code == finding.code).count() as u64;
            if kept.max(already) < KEPT {
                self.findings.push(finding);
            }
        }
        for (code, (n, rule)) in other.counts {
            self.counts.entry(code).or_insert((0, rule)).0 += n;
        }
    }

    /// The findings, with a summary at the end for each rule with more than are kept.
    pub fn findings(&self) -> impl Iterator<Item = Cow<'_, Finding>> {
        let more = self.counts.values().filter(|(n, _)| *n > KEPT).map(|(n, rule)| {
            Cow::Owned(Finding {
                code: rule.code,
                severity: rule.severity,
                structural: rule.structural,
                place: Place::File,
                message: format!("and {} more of this kind", n - KEPT),
                expected: Cow::Borrowed(rule.expected),
                hint: Cow::Borrowed(rule.hint),
            })
        });
        self.findings.iter().map(Cow::Borrowed).chain(more)
    }

    /// The number of findings of a severity, including those that were only counted.
    pub fn count(&self, severity: Severity) -> u64 {
        self.counts.values().filter(|(_, rule)| rule.severity == severity).map(|(n, _)| n).sum()
    }

    /// The number of findings of a rule.
    pub fn count_of(&self, code: &str) -> u64 {
        self.counts.get(code).map_or(0, |c| c.0)
    }

    /// The codes of all rules that have findings, in alphabetical order.
    pub fn codes(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.counts.keys().copied()
    }

    /// Whether there are no findings.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The highest severity among the findings.
    pub fn worst(&self) -> Option<Severity> {
        self.counts.values().map(|(_, rule)| rule.severity).max()
    }

    /// Whether any reader can read the file safely: there are no structural errors.
    pub fn is_safe(&self) -> bool {
        !self.counts.values().any(|(_, rule)| rule.structural && rule.severity == Severity::Error)
    }
}

/// Checks only the rules required for reading the file safely: every finding is a structural error, or the warning that tensors share their
/// data.
///
/// `head` is the start of the file, at least as far as [`HeadScan`] reads it, or the whole file. `file_bytes` is the length of the file.
pub fn structure(head: &[u8], file_bytes: u64) -> Report {
    check(head, file_bytes, false)
}

/// Checks all rules of the format: those of [`structure`], and deviations from the specification's style or restrictions of known readers.
/// For the padding between tensors see [`padding`].
pub fn format(head: &[u8], file_bytes: u64) -> Report {
    check(head, file_bytes, true)
}

fn check(head: &[u8], file_bytes: u64, all: bool) -> Report {
    let mut report = Report::new();
    let head = head.get(..usize::try_from(file_bytes).unwrap_or(usize::MAX)).unwrap_or(head);
    let mut scan = HeadScan::new(Some(file_bytes));
    let stopped = scan.advance(head);
    let whole = match &stopped {
        Ok(ScanState::Complete) => true,
        Ok(ScanState::Need(need)) => {
            let given = head.len();
            report.add(
                &rules::INPUT_SHORT,
                At::Offset(given as u64),
                format_args!("the first {given} bytes of the file were given; the head needs at least {need}"),
            );
            false
        }
        Err(error) => {
            head::fatal(error, head, &scan, &mut report);
            false
        }
    };
    if matches!(stopped, Err(Error { problem: Problem::NotGguf(_) | Problem::UnknownVersion(_), .. })) {
        return report;
    }
    let gguf = Gguf::partial(head, &scan);
    let alignment = head::keys(&gguf, &mut report);
    tensors::infos(&gguf, &mut report);
    let extents = tensors::Extents::new(&gguf, file_bytes, alignment);
    extents.structure(whole, &mut report);
    if all {
        head::style(&gguf, &mut report);
        tensors::style(&gguf, &mut report);
        if whole {
            extents.style(&mut report);
        }
        readers::refusals(&gguf, &extents, whole, &mut report);
    }
    report
}
