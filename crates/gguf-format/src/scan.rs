//! Finds the end of a head in bytes that may still be arriving.
//!
//! [`HeadScan`] scans header, key-values and tensor infos once, keeps its position between calls, and allocates almost nothing: it stores
//! the dialect, the counts, and the ends of large values, so that indexing can skip them. It proves that all items that
//! [`Gguf`](crate::Gguf) returns later are inside the head.

use alloc::vec::Vec;

use crate::cursor::{Cursor, Need};
use crate::error::{Error, Field, Problem};
use crate::header::align_up;
use crate::header::{ByteOrder, DRAFT_ALIGNMENT, Dialect, DraftVersionReading, MAGIC, REVERSED_MAGIC, Version};
use crate::sniff::FileKind;
use crate::tensor::Dims;
use crate::types::n_elements;
use crate::value::{MAX_NESTING, Str, ValueType, read_array_header};

/// The minimum size of values with a stored end.
const LARGE: u64 = 4096;

/// The progress of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanState {
    /// The head is complete.
    Complete,
    /// The required length of the head to continue.
    Need(u64),
}

/// Limits for the parts of a head. A scan with limits rejects a part that claims more before it requests its bytes, so that a length alone
/// never causes reading or allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Number of tensors.
    pub tensors: u64,
    /// Number of key-value pairs.
    pub kvs: u64,
    /// Bytes of a key or a string.
    pub string_bytes: u64,
    /// Bytes of a tensor name.
    pub name_bytes: u64,
    /// Elements of an array.
    pub elements: u64,
    /// Levels of arrays: 1 rejects arrays of arrays.
    pub levels: usize,
    /// Dimensions of a tensor.
    pub dims: u32,
}

/// A resumable scan of a head: the scanned part is valid, and the scan can continue when more bytes are available.
///
/// ```
/// use gguf_format::{Gguf, Head, HeadScan, ScanState};
///
/// let mut head = Head::default();
/// head.set("general.architecture", "llama");
/// let file = head.encode()?;
///
/// let mut scan = HeadScan::new(Some(file.len() as u64));
/// assert!(matches!(scan.advance(&file[..30])?, ScanState::Need(bytes) if bytes > 30));
/// assert_eq!(scan.advance(&file)?, ScanState::Complete);
/// let gguf = Gguf::from_scan(&file, &scan)?;
/// assert_eq!(gguf.head_bytes(), scan.head_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct HeadScan {
    total: Option<u64>,
    keep_nuls: bool,
    limits: Option<Limits>,
    phase: Phase,
    pub(crate) dialect: Dialect,
    pub(crate) n_kv: u64,
    pub(crate) n_tensors: u64,
    /// Number of scanned key-value pairs and tensor infos.
    pub(crate) kvs_done: u64,
    pub(crate) tensors_done: u64,
    /// Start of the first tensor info, once known.
    pub(crate) infos_start: u64,
    /// End of the last scanned key-value pair.
    pub(crate) kvs_end: u64,
    /// Start of the key-value pair or tensor info being read.
    item: u64,
    /// The current position; the end of the head once complete.
    pos: u64,
    /// Inside an array: the start of its value, its stored length in a draft, and for each nesting level the element type and the number of
    /// remaining elements.
    value_start: u64,
    stated: Option<u64>,
    /// Whether an array of a draft determined the order of type and length.
    array_order_known: bool,
    nest: Vec<(ValueType, u64)>,
    pub(crate) large: Vec<Large>,
}

/// A large value: its start (after its type) and its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Large {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Magic,
    Counts,
    Kvs,
    Array,
    Padding,
    Infos,
    Complete,
}

/// Why a step stopped.
enum Stop {
    Need(Field, u64, Need),
    Error(Field, u64, Problem),
}

type Step = Result<(), Stop>;

/// Whether there is a key in the usual spelling here, or the number of missing bytes.
fn is_key(mut c: Cursor<'_>) -> Result<bool, Need> {
    let start = c;
    if c.len()? > 256 {
        return Ok(false);
    }
    let key = { start }.string()?;
    Ok(!key.is_empty() && key.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(b)))
}

/// Whether there are zeros up to the draft's alignment, or the number of missing bytes.
fn is_padding(mut c: Cursor<'_>) -> Result<bool, Need> {
    let pos = c.pos() as u64;
    let pad = align_up(pos, DRAFT_ALIGNMENT).unwrap_or(pos) - pos;
    Ok(c.take(pad)?.iter().all(|&b| b == 0))
}

/// Adds the field and its offset to a read that ran out of bytes.
trait At<T> {
    fn at(self, field: Field, offset: u64) -> Result<T, Stop>;
}

impl<T> At<T> for Result<T, Need> {
    fn at(self, field: Field, offset: u64) -> Result<T, Stop> {
        self.map_err(|need| Stop::Need(field, offset, need))
    }
}

impl HeadScan {
    /// Starts a scan. `total` is the length of the whole file, if known: impossible counts and lengths are then rejected before anything is
    /// read for them.
    pub fn new(total: Option<u64>) -> HeadScan {
        HeadScan {
            total,
            keep_nuls: false,
            limits: None,
            phase: Phase::Magic,
            dialect: Dialect::default(),
            n_kv: 0,
            n_tensors: 0,
            kvs_done: 0,
            tensors_done: 0,
            infos_start: 0,
            kvs_end: 0,
            item: 0,
            pos: 0,
            value_start: 0,
            stated: None,
            array_order_known: false,
            nest: Vec::new(),
            large: Vec::new(),
        }
    }

    /// The same scan, in which a trailing NUL is always part of a string, as in ggml's reader: counted terminators of August 2023 are not
    /// recognized.
    pub fn keep_nuls(mut self) -> HeadScan {
        self.keep_nuls = true;
        self
    }

    /// The same scan with limits. A part over its limit is [`Problem::OverLimit`]; strings, names and dimensions only if their bytes are
    /// not available yet.
    pub fn within(mut self, limits: Limits) -> HeadScan {
        self.limits = Some(limits);
        self
    }

    /// Continues as far as `head` reaches. `head` is the start of the file: each call gives the bytes of the previous one, followed by
    /// more.
    ///
    /// # Errors
    /// [`Error`] for a structure that is unreadable. [`Problem::Truncated`] is never among them; that is [`ScanState::Need`].
    pub fn advance(&mut self, head: &[u8]) -> Result<ScanState, Error> {
        loop {
            let step = match self.phase {
                Phase::Magic => self.magic(head),
                Phase::Counts => self.counts(head),
                Phase::Kvs => self.kv(head),
                Phase::Array => self.array(head),
                Phase::Padding => self.padding(head),
                Phase::Infos => self.tensor_info(head),
                Phase::Complete => return Ok(ScanState::Complete),
            };
            match step {
                Ok(()) => {}
                Err(Stop::Need(field, offset, Need(need))) => match self.total {
                    Some(len) if need > len => {
                        return Err(self.error(head, field, offset, Problem::PastEnd { need, len }));
                    }
                    _ => match self.over_limit(field, need.saturating_sub(offset)) {
                        Some(problem) => return Err(self.error(head, field, offset, problem)),
                        None => return Ok(ScanState::Need(need)),
                    },
                },
                Err(Stop::Error(field, offset, problem)) => return Err(self.error(head, field, offset, problem)),
            }
        }
    }

    /// Size of the head, once the scan is complete; before that, the size of the valid part.
    pub fn head_bytes(&self) -> u64 {
        self.pos
    }

    /// The length that the head has at least: what was scanned, and the lengths of the strings that are left of an array.
    pub fn least_bytes(&self) -> u64 {
        match *self.nest.as_slice() {
            [(ValueType::STRING, left)] => self.pos.saturating_add(left.saturating_mul(self.dialect.len_bytes())),
            _ => self.pos,
        }
    }

    /// The array that is being scanned: the start of its key-value pair, and the number of elements that are left if they are strings.
    pub(crate) fn open_array_at(&self) -> Option<(u64, u64)> {
        match self.nest.as_slice() {
            _ if self.phase != Phase::Array => None,
            [(ValueType::STRING, left)] => Some((self.item, *left)),
            _ => Some((self.item, 0)),
        }
    }

    /// The exceeded limit of a field, if `bytes` of it from its start are needed to continue.
    fn over_limit(&self, field: Field, bytes: u64) -> Option<Problem> {
        let limits = self.limits?;
        let len_bytes = self.dialect.len_bytes();
        let over = |what, stated, limit| (stated > limit).then_some(Problem::OverLimit { what, stated, limit });
        match field {
            Field::Key(_) => over("bytes", bytes.saturating_sub(len_bytes), limits.string_bytes),
            // The number of elements was checked when the array was opened.
            Field::Value(_) if self.nest.last().is_some_and(|(elem, _)| elem.fixed_bytes().is_some()) => None,
            Field::Value(_) => over("bytes", bytes.saturating_sub(len_bytes), limits.string_bytes),
            Field::TensorName(_) => over("bytes", bytes.saturating_sub(len_bytes), limits.name_bytes),
            Field::TensorDims(_) => over("dimensions", bytes.saturating_sub(4) / len_bytes, limits.dims.into()),
            _ => None,
        }
    }

    /// The length of the whole file, if known.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// Ends a scan at the end of `head`, because the file ends there: resolves ambiguities that more bytes would decide.
    ///
    /// # Errors
    /// The problem of a file that ends there, if the scan is not complete.
    pub fn end(&mut self, head: &[u8]) -> Result<(), Error> {
        self.total = Some(head.len() as u64);
        match self.advance(head)? {
            ScanState::Complete => Ok(()),
            // With a known length, missing bytes are already an error.
            ScanState::Need(need) => Err(self.error(head, Field::Magic, 0, Problem::Truncated { need })),
        }
    }

    fn error(&self, head: &[u8], field: Field, offset: u64, problem: Problem) -> Error {
        Error { field, offset, name: self.name_of(head, field), problem }
    }

    /// The key or tensor name of a field that could not be read, truncated for messages.
    fn name_of(&self, head: &[u8], field: Field) -> Option<Vec<u8>> {
        let named = matches!(
            field,
            Field::ValueType(_)
                | Field::Value(_)
                | Field::TensorDims(_)
                | Field::TensorType(_)
                | Field::TensorOffset(_)
        );
        if !named {
            return None;
        }
        let raw = self.cursor_at(head, self.item).string().ok()?;
        let name = Str::new(raw, self.dialect).as_bytes();
        let mut shown = name.get(..name.len().min(80))?.to_vec();
        if shown.len() < name.len() {
            shown.extend_from_slice("…".as_bytes());
        }
        Some(shown)
    }

    fn cursor<'a>(&self, head: &'a [u8]) -> Cursor<'a> {
        self.cursor_at(head, self.pos)
    }

    fn cursor_at<'a>(&self, head: &'a [u8], pos: u64) -> Cursor<'a> {
        Cursor::new(head, usize::try_from(pos).unwrap_or(usize::MAX), self.dialect)
    }

    fn magic(&mut self, head: &[u8]) -> Step {
        let Some(magic) = head.first_chunk::<4>() else {
            return Err(match self.total {
                Some(total) if total <= head.len() as u64 => {
                    Stop::Error(Field::Magic, 0, Problem::NotGguf(FileKind::of(head)))
                }
                total => Stop::Need(Field::Magic, 0, Need(total.unwrap_or(4).min(4))),
            });
        };
        if *magic != MAGIC && *magic != REVERSED_MAGIC {
            // Enough for every kind, if the file has it.
            let want = self.total.map_or(9, |t| t.min(64));
            if (head.len() as u64) < want {
                return Err(Stop::Need(Field::Magic, 0, Need(want)));
            }
            return Err(Stop::Error(Field::Magic, 0, Problem::NotGguf(FileKind::of(head))));
        }
        let raw = Cursor::new(head, 4, Dialect::default()).u32().at(Field::Version, 4)?;
        let (version, order) = match (raw, raw.swap_bytes()) {
            (v @ 1..=3, _) => (v, ByteOrder::Little),
            (_, v @ 1..=3) => (v, ByteOrder::Big),
            _ => return Err(Stop::Error(Field::Version, 4, Problem::UnknownVersion(raw))),
        };
        self.dialect.version = match version {
            1 => Version::V1,
            2 => Version::V2,
            _ => Version::V3,
        };
        self.dialect.order = order;
        self.dialect.reversed_magic = *magic == REVERSED_MAGIC;
        self.pos = 8;
        self.phase = Phase::Counts;
        Ok(())
    }

    fn counts(&mut self, head: &[u8]) -> Step {
        let mut c = self.cursor(head);
        let n_tensors = c.len().at(Field::Counts, 8)?;
        let n_kv = c.len().at(Field::Counts, 8)?;
        let pos = c.pos() as u64;
        if self.dialect.version == Version::V1 && n_kv > 0 {
            self.detect_draft(head, pos, n_kv)?;
        }
        // Impossible counts are rejected here, before anything is reserved or scanned for them.
        let need = n_kv
            .saturating_mul(self.dialect.min_kv_bytes())
            .saturating_add(n_tensors.saturating_mul(self.dialect.min_tensor_bytes()))
            .saturating_add(pos);
        if self.total.is_some_and(|len| need > len) {
            return Err(Stop::Need(Field::Counts, 8, Need(need)));
        }
        if let Some(limits) = self.limits {
            let counts = [("tensors", n_tensors, limits.tensors), ("key-value pairs", n_kv, limits.kvs)];
            if let Some((what, stated, limit)) = counts.into_iter().find(|(_, stated, limit)| stated > limit) {
                return Err(Stop::Error(Field::Counts, 8, Problem::OverLimit { what, stated, limit }));
            }
        }
        (self.n_tensors, self.n_kv, self.pos, self.kvs_end) = (n_tensors, n_kv, pos, pos);
        self.phase = Phase::Kvs;
        Ok(())
    }

    /// Version 1 has two layouts. After a key the draft has the value's length and then its type, the release only the type. The first pair
    /// decides: it is a draft's if length and type match and the next pair, or the padding, follows at the end of a draft's value.
    /// Everything else is treated as released.
    fn detect_draft(&mut self, head: &[u8], pos: u64, n_kv: u64) -> Step {
        let mut c = self.cursor_at(head, pos);
        let field = Field::Key(0);
        c.string().at(field, pos)?;
        let at = c.pos() as u64;
        let first = c.u32().at(field, at)?;
        let Some(second) = self.if_there(c.u32()).at(field, at)? else { return Ok(()) };
        let second = ValueType(second);
        let mut draft = DraftVersionReading::default();
        let is_draft = if let Some(n) = second.fixed_bytes() {
            // `first` is a released value type as well; but a key only follows the actual end of the value.
            let released = match ValueType(first).fixed_bytes() {
                Some(m) => self.cursor_at(head, at + 4 + m),
                None => self.cursor_at(head, at + 8 + u64::from(second.0)),
            };
            let key_at = |c| self.if_there(is_key(c)).map(|key| key == Some(true)).at(field, at);
            u64::from(first) == n
                && n_kv > 1
                && !key_at(released)?
                && self.if_there(c.take(n)).at(field, at)?.is_some()
                && key_at(c)?
        } else if second == ValueType::STRING {
            // If released, the first pair is a number 8, or an array of strings, whose lengths contain zeros.
            let n = self.if_there(c.u32()).at(field, at)?.unwrap_or(u32::MAX);
            draft.value_len_is_inclusive = n.checked_add(4) == Some(first);
            if draft.value_len_is_inclusive || first == n {
                let after = self.if_there(c.take(n.into()).and_then(|text| {
                    let ends = if n_kv > 1 { is_key(c) } else { is_padding(c) };
                    ends.map(|ends| ends && !text.contains(&0))
                }));
                after.at(field, at)? == Some(true)
            } else {
                false
            }
        } else {
            second == ValueType::ARRAY && !ValueType(first).is_known()
        };
        if is_draft {
            self.dialect.version = Version::Draft;
            self.dialect.draft = draft;
        }
        Ok(())
    }

    /// `None` for offsets beyond the end of the file, if known.
    fn if_there<T>(&self, read: Result<T, Need>) -> Result<Option<T>, Need> {
        match read {
            Ok(v) => Ok(Some(v)),
            Err(Need(need)) if self.total.is_some_and(|total| need > total) => Ok(None),
            Err(need) => Err(need),
        }
    }

    /// Whether the first array of a draft stores the type before the length: the interpretation that matches the stored length.
    fn detect_array_order(&mut self, mut c: Cursor<'_>, at: u64) -> Step {
        let field = Field::Value(self.kvs_done);
        let (a, b) = (c.u32().at(field, at)?, c.u32().at(field, at)?);
        let stated = self.stated.unwrap_or(0);
        let inner = if self.dialect.draft.value_len_is_inclusive { 8 } else { 0 };
        let agrees = |elem: u32, len: u32| {
            let elem = ValueType(elem);
            let least = u64::from(len).saturating_mul(elem.min_bytes(self.dialect)).saturating_add(inner);
            elem.is_known() && if elem.fixed_bytes().is_some() { least == stated } else { least <= stated }
        };
        let (len_first, type_first) = (agrees(b, a), agrees(a, b));
        if len_first != type_first {
            self.dialect.draft.array_type_first = type_first;
            self.array_order_known = true;
        }
        Ok(())
    }

    fn kv(&mut self, head: &[u8]) -> Step {
        let i = self.kvs_done;
        if i == self.n_kv {
            self.infos_start = self.pos;
            self.phase = if self.dialect.is_draft() { Phase::Padding } else { Phase::Infos };
            return Ok(());
        }
        self.item = self.pos;
        let mut c = self.cursor(head);
        let key = c.string().at(Field::Key(i), self.item)?;
        if i == 0 {
            let may_count = !self.keep_nuls && self.dialect.version <= Version::V2;
            self.dialect.nul_strings = may_count && key.last() == Some(&0);
        }
        self.saw_string(key);
        let type_at = c.pos() as u64;
        self.stated = match self.dialect.version {
            Version::Draft => Some(c.u32().at(Field::ValueType(i), type_at)?.into()),
            _ => None,
        };
        let ty = ValueType(c.u32().at(Field::ValueType(i), type_at)?);
        if !ty.is_known() {
            return Err(Stop::Error(Field::ValueType(i), type_at, Problem::UnknownValueType(ty)));
        }
        self.value_start = c.pos() as u64;
        if let Some(n) = ty.fixed_bytes() {
            c.take(n).at(Field::Value(i), self.value_start)?;
        } else if ty == ValueType::STRING {
            let raw = c.string().at(Field::Value(i), self.value_start)?;
            self.saw_string(raw);
        } else {
            if self.dialect.is_draft() && !self.array_order_known {
                self.detect_array_order(c, self.value_start)?;
                c.dialect = self.dialect;
            }
            let frame = self.open_array(&mut c)?;
            self.nest.clear();
            self.nest.push(frame);
            self.pos = c.pos() as u64;
            self.phase = Phase::Array;
            return Ok(());
        }
        self.end_value(head, ty, c.pos() as u64)
    }

    /// A string without a trailing NUL proves that strings do not count one.
    #[inline]
    fn saw_string(&mut self, raw: &[u8]) {
        if self.dialect.nul_strings && raw.last() != Some(&0) {
            self.dialect.nul_strings = false;
        }
    }

    fn end_value(&mut self, head: &[u8], ty: ValueType, end: u64) -> Step {
        let start = self.value_start;
        if let Some(stated) = self.stated {
            let inner = match ty {
                _ if self.dialect.draft.value_len_is_inclusive => 0,
                ValueType::STRING => 4,
                ValueType::ARRAY => 8,
                _ => 0,
            };
            let actual = (end - start).saturating_sub(inner);
            if stated != actual {
                return Err(Stop::Error(Field::Value(self.kvs_done), start, Problem::DraftLength { stated, actual }));
            }
        }
        debug_assert!(end <= head.len() as u64);
        if end - start >= LARGE {
            self.large.push(Large { start, end });
        }
        self.pos = end;
        self.kvs_end = end;
        self.kvs_done += 1;
        self.phase = Phase::Kvs;
        Ok(())
    }

    /// Reads the type and length of an array and rejects an impossible length.
    fn open_array(&self, c: &mut Cursor<'_>) -> Result<(ValueType, u64), Stop> {
        let (field, at) = (Field::Value(self.kvs_done), c.pos() as u64);
        let (elem, len) = read_array_header(c).at(field, at)?;
        if !elem.is_known() {
            return Err(Stop::Error(field, at, Problem::UnknownValueType(elem)));
        }
        if let Some(limits) = self.limits {
            let over = |what, stated, limit| Err(Stop::Error(field, at, Problem::OverLimit { what, stated, limit }));
            if len > limits.elements {
                return over("elements", len, limits.elements);
            }
            if elem == ValueType::ARRAY && self.nest.len() + 1 >= limits.levels {
                return over("levels of arrays", self.nest.len() as u64 + 2, limits.levels as u64);
            }
        }
        let need = (c.pos() as u64).saturating_add(len.saturating_mul(elem.min_bytes(self.dialect)));
        if self.total.is_some_and(|total| need > total) {
            return Err(Stop::Need(field, at, Need(need)));
        }
        Ok((elem, len))
    }

    /// Scans array elements as far as the bytes reach, and keeps the position. Nesting is a list, not recursion.
    fn array(&mut self, head: &[u8]) -> Step {
        let field = Field::Value(self.kvs_done);
        let mut c = self.cursor(head);
        loop {
            self.pos = c.pos() as u64;
            let depth = self.nest.len();
            let Some(top) = self.nest.last_mut() else { break };
            let elem = top.0;
            if top.1 == 0 {
                self.nest.pop();
            } else if let Some(n) = elem.fixed_bytes() {
                c.take(top.1.saturating_mul(n)).at(field, self.pos)?;
                top.1 = 0;
            } else if elem == ValueType::STRING {
                if self.dialect.nul_strings {
                    let mut look = c;
                    let all = (0..top.1).map_while(|_| look.string().ok()).all(|raw| raw.last() == Some(&0));
                    self.dialect.nul_strings = all;
                }
                let (left, ran_out) = c.skip_strings(top.1);
                top.1 = left;
                self.pos = c.pos() as u64;
                if let Some(need) = ran_out {
                    return Err(Stop::Need(field, self.pos, need));
                }
            } else if depth == MAX_NESTING {
                return Err(Stop::Error(field, self.pos, Problem::TooDeep));
            } else {
                let frame = self.open_array(&mut c)?;
                if let Some(top) = self.nest.last_mut() {
                    top.1 -= 1;
                }
                self.nest.push(frame);
            }
        }
        self.end_value(head, ValueType::ARRAY, self.pos)
    }

    /// The draft pads between the key-values and the tensor infos; if they already end on the alignment, the draft allows no padding or a
    /// full unit, and only one of the two is followed by a name.
    fn padding(&mut self, head: &[u8]) -> Step {
        let end = self.pos;
        let aligned = align_up(end, DRAFT_ALIGNMENT).unwrap_or(u64::MAX);
        let mut start = aligned;
        if aligned == end && self.n_tensors > 0 {
            let mut c = self.cursor(head);
            let n = c.u32().at(Field::Padding, end)?;
            if n == 0 {
                start = end.saturating_add(DRAFT_ALIGNMENT);
                self.dialect.draft.full_padding = true;
            }
        }
        // Non-zero bytes would not be preserved.
        if self.cursor(head).take(start - end).at(Field::Padding, end)?.iter().any(|&b| b != 0) {
            return Err(Stop::Error(Field::Padding, end, Problem::DraftPadding));
        }
        (self.infos_start, self.pos) = (start, start);
        self.phase = Phase::Infos;
        Ok(())
    }

    fn tensor_info(&mut self, head: &[u8]) -> Step {
        let i = self.tensors_done;
        if i == self.n_tensors {
            self.phase = Phase::Complete;
            return Ok(());
        }
        self.item = self.pos;
        let mut c = self.cursor(head);
        let name = c.string().at(Field::TensorName(i), self.item)?;
        let dims_at = c.pos() as u64;
        let field = Field::TensorDims(i);
        let n_dims = c.u32().at(field, dims_at)?;
        let dims = c.take(u64::from(n_dims).saturating_mul(self.dialect.len_bytes())).at(field, dims_at)?;
        if self.dialect.is_draft() {
            let at = c.pos() as u64;
            let stated = u64::from(c.u32().at(field, at)?);
            if n_elements(Dims::new(dims, self.dialect)) != Some(stated) {
                return Err(Stop::Error(field, at, Problem::DraftElements { stated }));
            }
        }
        let type_at = c.pos() as u64;
        c.u32().at(Field::TensorType(i), type_at)?;
        let offset_at = c.pos() as u64;
        c.u64().at(Field::TensorOffset(i), offset_at)?;
        self.saw_string(name);
        self.pos = c.pos() as u64;
        self.tensors_done += 1;
        Ok(())
    }
}
