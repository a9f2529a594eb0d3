//! The rules for tensor infos and for the places of the data.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use crate::check::head::c_str;
use crate::check::rules::*;
use crate::check::{At, Place, Report, counted, repeats};
use crate::cursor::Cursor;
use crate::file::Gguf;
use crate::header::Version;
use crate::header::align_up;
use crate::keys::GENERAL_ARCHITECTURE;
use crate::layout::max_tensor_name;
use crate::limits::{MAX_DIMS, MAX_TENSOR_NAME};
use crate::tensor::TensorInfoRef;
use crate::types::SizeError;
use crate::value::Str;

/// The maximum length of a tensor name in the specification; ggml's limit is one byte less.
const SPEC_TENSOR_NAME: usize = 64;

/// The structural rules for the infos.
pub(super) fn infos(gguf: &Gguf<'_>, report: &mut Report) {
    // Names of 64 bytes have a separate finding, because only ggml rejects them.
    let max = max_tensor_name(gguf.get(GENERAL_ARCHITECTURE)).max(SPEC_TENSOR_NAME);
    for t in gguf.tensors() {
        let n = t.name.as_bytes().len();
        if n > max {
            report.add(&TENSOR_NAME_LENGTH, &t, format_args!("the name has {n} bytes"));
        }
        if t.dims.len() > MAX_DIMS {
            report.add(&TENSOR_DIMS, &t, format_args!("{} dimensions", t.dims.len()));
        }
        if let Some((i, dim)) = t.dims.enumerate().find(|&(_, dim)| i64::try_from(dim).is_err()) {
            report.add(&TENSOR_SIZE, &t, format_args!("dimension {i} is {dim}"));
            continue;
        }
        match t.n_bytes() {
            Ok(_) => {}
            Err(SizeError::UnknownType(ty)) => {
                report.add(&TENSOR_TYPE_UNKNOWN, &t, format_args!("{ty} is not known"));
            }
            Err(e @ SizeError::PartialBlock { .. }) => report.add(&TENSOR_ROW, &t, format_args!("{}: {e}", t.ty)),
            Err(e @ SizeError::Overflow) => report.add(&TENSOR_SIZE, &t, format_args!("{e}")),
        }
        if t.ty.info().is_some_and(|ty| ty.removed) {
            report.add(&TENSOR_TYPE_REMOVED, &t, format_args!("type {} ({}) was removed from ggml", t.ty.0, t.ty));
        }
    }
    repeats(gguf.tensors().map(|t| (c_str(t.name), t.info_offset)), |r| {
        let at = At::Tensor(r.text, Some(r.again));
        report.add(&TENSOR_DUPLICATE, at, format_args!("already defined at byte {}", r.first));
    });
}

/// The places of the tensors' data.
pub(super) struct Extents<'g> {
    gguf: &'g Gguf<'g>,
    file_bytes: u64,
    /// `None` if the alignment is invalid; offsets are then relative to the end of the head, which is a lower bound.
    alignment: Option<u64>,
    /// Start of the data section; 0 in the draft, whose offsets are relative to the start of the file.
    base: u64,
    /// Start and end of each tensor with a known place, and the offset of its info; sorted.
    sorted: Vec<(u64, u64, u64)>,
}

impl<'g> Extents<'g> {
    pub(super) fn new(gguf: &'g Gguf<'g>, file_bytes: u64, alignment: Option<u64>) -> Extents<'g> {
        let base = match (gguf.dialect().version, alignment) {
            (Version::Draft, _) => 0,
            (_, Some(_)) => gguf.data_offset(),
            (_, None) => gguf.head_bytes(),
        };
        let mut extents = Extents { gguf, file_bytes, alignment, base, sorted: Vec::new() };
        let places = gguf.tensors().filter_map(|t| {
            let range = extents.range(&t)?;
            Some((range.start, range.end, t.info_offset))
        });
        // Reserves space at once: growing would temporarily need three times as much.
        let mut sorted = Vec::with_capacity(gguf.tensors().len());
        sorted.extend(places);
        extents.sorted = sorted;
        extents.sorted.sort_unstable();
        extents
    }

    /// From the start of the file; `None` if the size is unknown or the end exceeds 64 bits.
    fn range(&self, t: &TensorInfoRef<'_>) -> Option<Range<u64>> {
        let start = self.base.checked_add(t.offset)?;
        Some(start..start.checked_add(t.n_bytes().ok()?)?)
    }

    /// The tensor whose info is at `info`.
    fn tensor(&self, info: u64) -> At<'_> {
        let mut c = Cursor::new(self.gguf.bytes(), usize::try_from(info).unwrap_or(usize::MAX), self.gguf.dialect());
        At::Tensor(Str::new(c.string().unwrap_or_default(), self.gguf.dialect()), Some(info))
    }

    fn name(&self, info: u64) -> String {
        Place::from(self.tensor(info)).to_string()
    }

    /// Offsets that are unaligned, outside of the file, or overlap. If the head is not `whole`, its end and thus the place of the data is
    /// unknown, and lower bounds are checked.
    pub(super) fn structure(&self, whole: bool, report: &mut Report) {
        if !whole && self.gguf.dialect().version != Version::Draft && self.gguf.n_tensors() == 0 {
            return;
        }
        let (mut hit, mut need) = (0u64, self.file_bytes);
        for t in self.gguf.tensors() {
            if let Some(alignment) = self.alignment
                && !t.offset.is_multiple_of(alignment)
            {
                report.add(
                    &OFFSET_UNALIGNED,
                    &t,
                    format_args!("the offset {} is not a multiple of {alignment}", t.offset),
                );
            }
            let Ok(bytes) = t.n_bytes() else {
                // For a tensor without a size at least the start must be in the file.
                if self.base.checked_add(t.offset).is_none_or(|start| start > self.file_bytes) {
                    report.add(
                        &TENSOR_BOUNDS,
                        &t,
                        format_args!("it starts at byte {} of the data, past the end of the file", t.offset),
                    );
                }
                continue;
            };
            let Some(range) = self.range(&t) else {
                hit += 1;
                let size = bytes;
                report.add(&TENSOR_BOUNDS, &t, format_args!("offset {} plus {size} bytes exceeds 64 bits", t.offset));
                continue;
            };
            if range.start < self.gguf.head_bytes() && bytes > 0 {
                let head = self.gguf.head_bytes();
                report.add(
                    &TENSOR_IN_HEAD,
                    &t,
                    format_args!("it starts at byte {}, but the head ends at byte {head}", range.start),
                );
            }
            // A tensor without elements needs no data, but a valid offset; ggml rejects a file that ends before its data starts.
            if range.end > self.file_bytes {
                hit += 1;
                need = need.max(range.end);
                let Range { start, end } = range;
                let file = self.file_bytes;
                report.add(
                    &TENSOR_BOUNDS,
                    &t,
                    format_args!("bytes {start} to {end}, but the file ends at byte {file}"),
                );
            }
        }
        if need > self.file_bytes {
            report.add(
                &FILE_TRUNCATED,
                At::Offset(self.file_bytes),
                format_args!(
                    "the file lacks {}{} of {need} bytes; {hit} of {} affected",
                    if whole { "" } else { "at least " },
                    need - self.file_bytes,
                    counted(self.gguf.n_tensors(), "tensor", " is", if hit == 1 { " is" } else { " are" })
                ),
            );
        }
        self.overlaps(report);
        if whole {
            self.shared(report);
        }
    }

    /// Tensors that share their data. A reader that copies each of them needs more memory than the size of the file.
    fn shared(&self, report: &mut Report) {
        for pair in self.sorted.windows(2) {
            if let [(s, e, i), (start, end, info)] = pair
                && (s, e) == (start, end)
                && s < e
            {
                let (at, other) = (self.tensor(*info), self.name(*i));
                report.add(&TENSOR_SHARED, at, format_args!("shares bytes {start} to {end} with {other}"));
            }
        }
    }

    fn overlaps(&self, report: &mut Report) {
        let mut widest: Option<(u64, u64, u64)> = None;
        for &(start, end, info) in &self.sorted {
            if start == end {
                continue;
            }
            let Some((s, e, i)) = widest.filter(|w| start < w.1) else {
                widest = Some((start, end, info));
                continue;
            };
            if (s, e) != (start, end) {
                let at = self.tensor(info);
                let other = self.name(i);
                report.add(
                    &TENSOR_OVERLAP,
                    at,
                    format_args!("bytes {start} to {end} overlap {other}, bytes {s} to {e}"),
                );
            }
            if end > e {
                widest = Some((start, end, info));
            }
        }
    }

    /// Gaps, order, and data after the last tensor. Only for a complete head.
    pub(super) fn style(&self, report: &mut Report) {
        let Some(alignment) = self.alignment else { return };
        let data = self.gguf.data_offset();
        let mut end_before = data;
        for &(start, end, info) in &self.sorted {
            let packed = align_up(end_before, alignment).unwrap_or(u64::MAX);
            if start > packed {
                let gap = start - packed;
                report.add(
                    &DATA_GAP,
                    self.tensor(info),
                    format_args!("{} to no tensor", counted(gap, "byte", " before it belongs", " before it belong")),
                );
            }
            end_before = end_before.max(end);
        }
        let mut last = 0;
        for t in self.gguf.tensors() {
            if t.offset < last {
                report.add(
                    &DATA_ORDER,
                    &t,
                    format_args!("its offset {} is below {last}, the offset of an earlier tensor", t.offset),
                );
            }
            last = last.max(t.offset);
        }
        let complete = self.sorted.len() as u64 == self.gguf.n_tensors();
        if !complete || self.file_bytes < end_before {
            return;
        }
        // Without tensors, padding of the head is optional.
        let packed = align_up(end_before, alignment).unwrap_or(u64::MAX);
        if self.file_bytes > packed {
            let extra = self.file_bytes - packed;
            report.add(
                &FILE_TRAILING,
                At::Offset(packed),
                format_args!("{} the last tensor", counted(extra, "byte", " follows", " follow")),
            );
        } else if self.file_bytes < packed && self.gguf.n_tensors() > 0 {
            let missing = packed - self.file_bytes;
            report.add(
                &FILE_TAIL,
                At::Offset(self.file_bytes),
                format_args!("{} missing", counted(missing, "byte", " of padding is", " of padding are")),
            );
        }
    }

    /// The first tensor that does not start at the end of the previous ones, and the expected offset.
    pub(super) fn first_not_packed(&self) -> Option<(TensorInfoRef<'_>, u64)> {
        let alignment = self.alignment?;
        let mut expected = if self.base == 0 { self.gguf.data_offset() } else { 0 };
        for t in self.gguf.tensors() {
            if t.offset != expected {
                return Some((t, expected));
            }
            expected = align_up(expected.checked_add(t.n_bytes().ok()?)?, alignment)?;
        }
        None
    }

    /// Whether the file ends before its data section starts, though there are tensors.
    pub(super) fn ends_before_data(&self) -> bool {
        self.gguf.n_tensors() > 0 && self.file_bytes < self.gguf.data_offset()
    }
}

/// Unusual but readable names and shapes.
pub(super) fn style(gguf: &Gguf<'_>, report: &mut Report) {
    let max = max_tensor_name(gguf.get(GENERAL_ARCHITECTURE));
    for t in gguf.tensors() {
        let name = t.name.as_bytes();
        if name.is_empty() {
            report.add(&TENSOR_NAME_EMPTY, &t, format_args!("tensor {} has an empty name", t.index));
        } else if let Some(at) = name.iter().position(|&b| b == 0) {
            report.add(&TENSOR_NAME_NUL, &t, format_args!("the name has a NUL at byte {at}"));
        } else if let Err(e) = t.name.to_str() {
            report.add(&TENSOR_NAME_UTF8, &t, format_args!("the name is not UTF-8 from byte {} on", e.valid_up_to()));
        }
        if name.len() == MAX_TENSOR_NAME + 1 && name.len() > max {
            report.add(&TENSOR_NAME_64, &t, format_args!("the name has {} bytes", name.len()));
        }
        if t.dims.len() == 0 {
            report.add(&TENSOR_SCALAR, &t, format_args!("no dimensions"));
        } else if t.dims.clone().any(|dim| dim == 0) {
            report.add(&TENSOR_EMPTY, &t, format_args!("a dimension is 0"));
        }
    }
}

/// Searches for non-zero padding: between the head and the data, and between tensors. `read` fills a buffer with the bytes of the file at
/// an offset and returns whether it succeeded; unreadable bytes are ignored.
pub fn padding(gguf: &Gguf<'_>, file_bytes: u64, mut read: impl FnMut(u64, &mut [u8]) -> bool) -> Report {
    const PIECE: usize = 4096;
    let mut report = Report::new();
    let extents = Extents::new(gguf, file_bytes, Some(gguf.alignment()));
    let mut buffer = [0; PIECE];
    let mut end_before = gguf.head_bytes();
    let ends = [(gguf.data_offset().max(end_before), 0)];
    let starts = extents.sorted.iter().map(|&(start, end, _)| (start, end));
    let tail = [(file_bytes, file_bytes)];
    for (start, end) in ends.into_iter().chain(starts).chain(tail) {
        // Larger gaps are reported by another rule.
        let stop = start.min(file_bytes).min(align_up(end_before, gguf.alignment()).unwrap_or(u64::MAX));
        while end_before < stop {
            let n = usize::try_from(stop - end_before).unwrap_or(PIECE).min(PIECE);
            let Some(piece) = buffer.get_mut(..n) else { break };
            if !read(end_before, piece) {
                break;
            }
            if let Some(i) = piece.iter().position(|&b| b != 0) {
                let at = end_before + i as u64;
                report.add(&DATA_PADDING, At::Offset(at), format_args!("the padding before byte {stop} is not zero"));
                break;
            }
            end_before += n as u64;
        }
        end_before = end_before.max(end).max(start.min(file_bytes));
    }
    report
}
