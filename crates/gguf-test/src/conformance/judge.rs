//! A plain reader of whole files, written from the documents of the format alone.
//!
//! It shares no code with the tested crates. It names every rule that a file touches, with the bytes in question, and reports the values that
//! a reader must find. Where a document states no limit, it stops at numbers that no small file needs.

use std::collections::HashSet;

use crate::corpus::bytes::{ARRAY, BOOL, Draft, F32, F64, I8, I16, I32, I64, STRING, U8, U16, U32, U64};
use crate::corpus::tensors::TYPES;

/// Arrays nested deeper are not read: [`judge`] is recursive.
const DEEPEST: usize = 64;
/// Arrays nested deeper than this may be rejected.
const MUST_NEST: usize = 16;
/// Longer strings and lists are not kept.
const LONGEST: u64 = 1 << 16;

/// A rule that a file touches, and the bytes that do so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    pub rule: &'static str,
    pub at: u64,
    pub bytes: u64,
}

/// How a file is to be read, where its bytes do not say so.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// The layout of the draft.
    pub draft: Option<Draft>,
    /// Every string counts a trailing NUL.
    pub counted_nul: bool,
}

/// What the documents say of a file.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    pub touches: Vec<Touch>,
    /// The content, if the head has been read to its end.
    pub report: Option<Report>,
    /// Whether every string ends in NUL, and there is one.
    pub all_end_in_nul: bool,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub version: u32,
    pub big: bool,
    pub alignment: u64,
    /// The end of the last tensor info, or of the last pair.
    pub head_end: u64,
    /// The start of the tensor data, from the start of the file.
    pub data_at: u64,
    pub pairs: Vec<Pair>,
    pub tensors: Vec<Tensor>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    pub key: Vec<u8>,
    pub at: u64,
    pub bytes: u64,
    pub value: Value,
}

/// A value, with its type.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer, a number's bits or a bool, of this type.
    Number(u32, u64),
    Text(Vec<u8>),
    List(u32, Vec<Value>),
    /// A text or a list that is too long to be kept.
    Long(u32),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub name: Vec<u8>,
    pub at: u64,
    pub info_bytes: u64,
    pub shape: Vec<u64>,
    pub ty: u32,
    /// As stored in the file.
    pub offset: u64,
    /// The length of the data, if the size of the type is known.
    pub bytes: Option<u64>,
}

/// The width of a value, unless it is a string or an array.
pub fn width(ty: u32) -> Option<u64> {
    Some(match ty {
        U8 | I8 | BOOL => 1,
        U16 | I16 => 2,
        U32 | I32 | F32 => 4,
        U64 | I64 | F64 => 8,
        _ => return None,
    })
}

struct Walk<'a> {
    start: &'a [u8],
    /// Zeros follow `start` up to here.
    len: u64,
    at: u64,
    version: u32,
    big: bool,
    reading: Reading,
    touches: Vec<Touch>,
    n_strings: u64,
    n_ending_in_nul: u64,
}

/// The file cannot be read further.
struct Stop;

impl Walk<'_> {
    fn touch(&mut self, rule: &'static str, at: u64, bytes: u64) {
        // Ten thousand keys break a rule once.
        if self.touches.iter().filter(|t| t.rule == rule).count() < 4 {
            self.touches.push(Touch { rule, at, bytes });
        }
    }

    fn stop<T>(&mut self, rule: &'static str, at: u64, bytes: u64) -> Result<T, Stop> {
        self.touch(rule, at, bytes);
        Err(Stop)
    }

    fn left(&self) -> u64 {
        self.len - self.at
    }

    fn byte(&self, at: u64) -> u8 {
        usize::try_from(at).ok().and_then(|at| self.start.get(at)).copied().unwrap_or(0)
    }

    /// The next bytes; `rule` is broken if the file ends before.
    fn take(&mut self, n: u64, rule: &'static str) -> Result<Vec<u8>, Stop> {
        if n > self.left() {
            let at = self.at;
            return self.stop(rule, at, self.left());
        }
        let out = (self.at..self.at + n).map(|at| self.byte(at)).collect();
        self.at += n;
        Ok(out)
    }

    fn number(&mut self, width: u64, rule: &'static str) -> Result<u64, Stop> {
        let raw = self.take(width, rule)?;
        let digit = |n: u64, b: &u8| n << 8 | u64::from(*b);
        Ok(if self.big { raw.iter().fold(0, digit) } else { raw.iter().rev().fold(0, digit) })
    }

    fn u32(&mut self) -> Result<u32, Stop> {
        Ok(self.number(4, "sequence")? as u32)
    }

    /// A count, a length or a dimension.
    fn count(&mut self) -> Result<u64, Stop> {
        self.number(if self.version == 1 { 4 } else { 8 }, "sequence")
    }

    /// A string; too long ones are skipped.
    fn string(&mut self) -> Result<Option<Vec<u8>>, Stop> {
        let at = self.at;
        let len = self.count()?;
        if len > self.left() {
            return self.stop("string-length", at, self.at - at);
        }
        if len > 0 {
            self.n_ending_in_nul += u64::from(self.byte(self.at + len - 1) == 0);
        }
        self.n_strings += 1;
        if len > 1 << 21 {
            self.at += len;
            self.touch("large", at, len);
            return Ok(None);
        }
        let mut text = self.take(len, "string-length")?;
        if std::str::from_utf8(&text).is_err() {
            self.touch("utf-8", self.at - len, len);
        }
        if self.reading.counted_nul {
            text.pop();
        }
        Ok(Some(text))
    }

    fn value(&mut self, ty: u32, depth: usize) -> Result<Value, Stop> {
        match ty {
            STRING => Ok(match self.string()? {
                Some(text) if text.len() as u64 <= LONGEST => Value::Text(text),
                _ => Value::Long(STRING),
            }),
            ARRAY => self.array(depth + 1),
            _ => {
                let at = self.at;
                let n = self.number(width(ty).unwrap_or(0), "sequence")?;
                if ty == BOOL && n > 1 {
                    self.touch("bool", at, 1);
                }
                Ok(Value::Number(ty, n))
            }
        }
    }

    fn value_type(&mut self) -> Result<u32, Stop> {
        let at = self.at;
        match self.u32()? {
            ty if ty > F64 => self.stop("value-type", at, 4),
            ty => Ok(ty),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, Stop> {
        let at = self.at;
        if depth > MUST_NEST {
            self.touch("nesting-deep", at, 12);
        }
        if depth > DEEPEST {
            return Err(Stop);
        }
        let (ty, n) = match self.reading.draft {
            Some(Draft { type_first: false, .. }) => {
                let n = self.count()?;
                (self.value_type()?, n)
            }
            _ => (self.value_type()?, self.count()?),
        };
        // The least that an element needs.
        let least = width(ty).unwrap_or(if self.version == 1 { 4 } else { 8 });
        if n > self.left() / least {
            return self.stop("array-length", at, self.at - at);
        }
        if n > LONGEST && (width(ty).is_some() || ty == STRING) {
            self.touch("large", at, n * least);
            match width(ty) {
                Some(width) => self.at += n * width,
                None => {
                    for _ in 0..n {
                        self.string()?;
                    }
                }
            }
            return Ok(Value::Long(ARRAY));
        }
        let mut items = Vec::new();
        for _ in 0..n {
            items.push(self.value(ty, depth)?);
        }
        Ok(Value::List(ty, items))
    }

    fn key(&mut self) -> Result<Vec<u8>, Stop> {
        let at = self.at;
        let key = self.string()?.unwrap_or_default();
        let bytes = self.at - at;
        if key.is_empty() {
            self.touch("key-empty", at, bytes);
        }
        if key.len() > 65_535 {
            self.touch("key-length", at, bytes);
        }
        let is_snake =
            |part: &[u8]| !part.is_empty() && part.iter().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        if !key.is_ascii() {
            self.touch("key-ascii", at, bytes);
        } else if !key.is_empty() && !key.split(|b| *b == b'.').all(is_snake) {
            self.touch("key-spelling", at, bytes);
        }
        Ok(key)
    }

    fn pair(&mut self) -> Result<Pair, Stop> {
        let at = self.at;
        let key = self.key()?;
        let stated = self.reading.draft.map(|_| self.u32()).transpose()?;
        let ty = self.value_type()?;
        let value_at = self.at;
        let value = self.value(ty, 0)?;
        let len = self.at - value_at;
        if let (Some(stated), Some(draft)) = (stated, self.reading.draft) {
            let inner = match ty {
                _ if draft.inclusive => 0,
                STRING => 4,
                ARRAY => 8,
                _ => 0,
            };
            if u64::from(stated) + inner != len {
                return self.stop("draft-length", value_at - 8, 4);
            }
        }
        Ok(Pair { key, at, bytes: self.at - at, value })
    }

    fn tensor(&mut self) -> Result<Tensor, Stop> {
        let at = self.at;
        let name = self.string()?.unwrap_or_default();
        if name.len() > 64 {
            self.touch("name-length", at, self.at - at);
        }
        let dims_at = self.at;
        let n_dims = self.u32()?;
        if n_dims > 4 {
            self.touch("dimensions", dims_at, 4);
        }
        let mut shape = Vec::new();
        for _ in 0..n_dims {
            shape.push(self.count()?);
        }
        if self.reading.draft.is_some() {
            let stated = self.u32()?;
            if u128::from(stated) != shape.iter().fold(1u128, |n, d| n.saturating_mul((*d).into())) {
                return self.stop("draft-elements", self.at - 4, 4);
            }
        }
        let type_at = self.at;
        let ty = self.u32()?;
        match ty {
            16..=18 => self.touch("type-16-to-18", type_at, 4),
            4 | 5 => self.touch("type-removed", type_at, 4),
            _ if !is_listed(ty) => self.touch("type-unlisted", type_at, 4),
            _ => {}
        }
        let offset = self.number(8, "sequence")?;
        let bytes = self.size(&shape, ty, dims_at);
        Ok(Tensor { name, at, info_bytes: self.at - at, shape, ty, offset, bytes })
    }

    /// The length of a tensor's data.
    fn size(&mut self, shape: &[u64], ty: u32, at: u64) -> Option<u64> {
        let (_, len, bytes) = TYPES.into_iter().find(|(id, _, _)| *id == ty)?;
        let zero = shape.contains(&0);
        let field = 4 + 8 * shape.len() as u64;
        // Signed numbers of 64 bits hold every real size; a product that needs more is a trap, even if one factor is 0.
        let beyond = |n: Option<u128>| n.is_none_or(|n| n > i64::MAX as u128);
        let factors = shape.iter().filter(|d| **d > 0).try_fold(1u128, |n, d| n.checked_mul((*d).into()));
        if zero {
            if beyond(factors) {
                self.touch("size-empty", at, field);
            }
            return Some(0);
        }
        let row = shape.first().copied().unwrap_or(1);
        if row % len != 0 {
            self.touch("row", at, field);
            return None;
        }
        let size = factors.map(|n| n / u128::from(len)).and_then(|n| n.checked_mul(bytes.into()));
        if beyond(factors) || beyond(size) {
            self.touch("size", at, field);
            return None;
        }
        size.and_then(|n| u64::try_from(n).ok())
    }

    /// The value of `general.alignment`.
    fn alignment(&mut self, pairs: &[Pair]) -> Result<u64, Stop> {
        const KEY: &[u8] = b"general.alignment";
        if let Some(alias) = pairs.iter().find(|p| p.key != KEY && p.key.split(|b| *b == 0).next() == Some(KEY)) {
            self.touch("key-up-to-nul", alias.at, alias.bytes);
        }
        if self.reading.draft.is_some() {
            return Ok(64);
        }
        let Some(pair) = pairs.iter().find(|p| p.key == KEY) else { return Ok(32) };
        let n = match pair.value {
            Value::Number(U32 | U8 | U16 | U64, n) => n,
            Value::Number(I8, n) => n as u8 as i8 as u64,
            Value::Number(I16, n) => n as u16 as i16 as u64,
            Value::Number(I32, n) => n as u32 as i32 as u64,
            Value::Number(I64, n) => n,
            _ => return self.stop("alignment-type", pair.at, pair.bytes),
        };
        if n > u32::MAX.into() {
            return self.stop("alignment-type", pair.at, pair.bytes);
        }
        if !matches!(pair.value, Value::Number(U32, _)) {
            self.touch("alignment-integer", pair.at, pair.bytes);
        }
        if n == 0 {
            return self.stop("alignment-zero", pair.at, pair.bytes);
        }
        if n % 8 != 0 && !n.is_power_of_two() {
            return self.stop("alignment-value", pair.at, pair.bytes);
        }
        if n % 8 != 0 {
            self.touch("alignment-small", pair.at, pair.bytes);
        }
        Ok(n)
    }

    fn head(&mut self) -> Result<Report, Stop> {
        match &self.take(4.min(self.len), "magic")?[..] {
            b"GGUF" => {}
            b"FUGG" => self.touch("magic-reversed", 0, 4),
            magic => return self.stop("magic", 0, magic.len() as u64),
        }
        self.version = self.u32()?;
        if self.version.swap_bytes() <= 3 && self.version > 3 {
            self.version = self.version.swap_bytes();
            self.big = true;
            self.touch("big-endian", 4, 4);
        }
        match self.version {
            1 if self.reading.draft.is_some() => self.touch("draft", 4, 4),
            1 => self.touch("version-1", 4, 4),
            2 => self.touch("version-2", 4, 4),
            3 => {}
            _ => return self.stop("version", 4, 4),
        }
        let counts_at = self.at;
        let (n_tensors, n_pairs) = (self.count()?, self.count()?);
        // The least that a pair and a tensor need.
        let (pair, tensor) = if self.version == 1 { (4 + 4 + 1, 4 + 4 + 12) } else { (8 + 4 + 1, 8 + 4 + 12) };
        let width = (self.at - counts_at) / 2;
        let (pairs, tensors) = (u128::from(n_pairs) * pair, u128::from(n_tensors) * tensor);
        if pairs > self.left().into() {
            return self.stop("pair-count", counts_at + width, width);
        }
        if pairs + tensors > self.left().into() {
            return self.stop("tensor-count", counts_at, width);
        }
        let mut pairs: Vec<Pair> = Vec::new();
        let (mut seen, mut seen_in_c) = (HashSet::new(), HashSet::new());
        for _ in 0..n_pairs {
            let pair = self.pair()?;
            let in_c = pair.key.split(|b| *b == 0).next().unwrap_or_default().to_vec();
            let is_new_in_c = seen_in_c.insert(in_c);
            if !seen.insert(pair.key.clone()) {
                self.touch("key-duplicate", pair.at, pair.bytes);
            } else if !is_new_in_c {
                self.touch("key-up-to-nul", pair.at, pair.bytes);
            }
            pairs.push(pair);
        }
        let alignment = self.alignment(&pairs)?;
        if let Some(draft) = self.reading.draft {
            let mut to = self.at.next_multiple_of(64);
            if to == self.at && draft.full_padding {
                to += 64;
            }
            let at = self.at;
            let padding = self.take((to - at).min(self.left()), "sequence")?;
            if padding.iter().any(|b| *b != 0) {
                self.touch("draft-padding", at, to - at);
            }
        }
        let mut tensors: Vec<Tensor> = Vec::new();
        let (mut seen, mut seen_in_c) = (HashSet::new(), HashSet::new());
        for _ in 0..n_tensors {
            let tensor = self.tensor()?;
            let in_c = tensor.name.split(|b| *b == 0).next().unwrap_or_default().to_vec();
            let is_new_in_c = seen_in_c.insert(in_c);
            if !seen.insert(tensor.name.clone()) {
                self.touch("name-duplicate", tensor.at, tensor.info_bytes);
            } else if !is_new_in_c {
                self.touch("name-up-to-nul", tensor.at, tensor.info_bytes);
            }
            tensors.push(tensor);
        }
        let head = self.at;
        let data_at = head.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
        let report =
            Report { version: self.version, big: self.big, alignment, head_end: head, data_at, pairs, tensors };
        self.data(&report);
        Ok(report)
    }

    /// The places of the tensors.
    fn data(&mut self, report: &Report) {
        let head = report.head_end;
        let is_draft = self.reading.draft.is_some();
        let base = if is_draft { 0 } else { report.data_at };
        let mut extents = Vec::new();
        for tensor in &report.tensors {
            let field = tensor.at + tensor.info_bytes - 8;
            if tensor.offset % report.alignment != 0 {
                self.touch("offset-unaligned", field, 8);
            }
            let start = u128::from(base) + u128::from(tensor.offset);
            let end = start + u128::from(tensor.bytes.unwrap_or(0));
            if is_draft && start < head.into() {
                self.touch("data-in-head", field, 8);
            }
            if end > self.len.into() {
                match tensor.bytes {
                    // A tensor without data ends where it starts.
                    Some(0) if tensor.offset == 0 => self.touch("no-data-section", field, 8),
                    Some(0) => self.touch("empty-outside", field, 8),
                    // No document says where the data ends.
                    _ if start < self.len.into() && !is_listed(tensor.ty) => {}
                    _ => self.touch("data-outside", field, 8),
                }
            }
            if let Some(bytes @ 1..) = tensor.bytes {
                extents.push((tensor.offset, tensor.offset.saturating_add(bytes), field));
            }
        }
        extents.sort_unstable();
        let mut last: Option<(u64, u64)> = None;
        for (start, end, field) in extents {
            if let Some((from, to)) = last
                && start < to
            {
                self.touch(if (start, end) == (from, to) { "data-shared" } else { "data-overlap" }, field, 8);
            }
            last = Some(last.map_or((start, end), |(from, to)| if end > to { (start, end) } else { (from, to) }));
        }
        if !report.tensors.is_empty() && data_in(self, head, report.data_at.min(self.len)) {
            self.touch("padding", head, report.data_at - head);
        }
    }
}

/// Whether a document lists this tensor type as one that files may have.
fn is_listed(ty: u32) -> bool {
    matches!(ty, 0..=3 | 6..=30 | 34 | 35 | 39)
}

/// Whether a range has a byte other than 0.
fn data_in(walk: &Walk<'_>, from: u64, to: u64) -> bool {
    (from..to.min(walk.start.len() as u64)).any(|at| walk.byte(at) != 0)
}

/// Judges a file of `len` bytes that begins with `start`; zeros follow.
pub fn judge(start: &[u8], len: u64, reading: Reading) -> Judgement {
    let mut walk =
        Walk { start, len, at: 0, version: 0, big: false, reading, touches: vec![], n_strings: 0, n_ending_in_nul: 0 };
    let report = walk.head().ok();
    let all_end_in_nul = report.is_some() && walk.n_strings > 0 && walk.n_strings == walk.n_ending_in_nul;
    Judgement { touches: walk.touches, report, all_end_in_nul }
}
