//! Finds impossible offsets of tensors, and the places that the other tensors leave.
//!
//! Offsets that may be right are never changed: the data of a file may be stored in another order than the names in its head.

use std::collections::BTreeSet;

use gguf_format::sort::CompactSort as _;
use gguf_format::{Gguf, align_up};

/// Whether the offsets of tensors are possible.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Offsets {
    /// All offsets are possible.
    Possible,
    /// These tensors have another offset: their indices, and the only offsets with which all tensors fill the file.
    Determined(Vec<(usize, u64)>),
    /// Some offsets of these tensors are impossible, and the right ones cannot be determined: none fit, or several do.
    Unknown(BTreeSet<usize>),
}

/// A tensor's data, as offsets from the start of the data.
#[derive(Debug, Clone, Copy)]
struct Extent {
    index: usize,
    start: u64,
    len: u64,
    /// The length with padding.
    padded: u64,
}

impl Extent {
    /// The end; the largest number if it is beyond any file.
    fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }
}

/// Examines the offsets of a file of that length.
pub(super) fn of(gguf: &Gguf<'_>, file_bytes: u64) -> Offsets {
    let alignment = gguf.alignment().max(1);
    let data_bytes = file_bytes.saturating_sub(gguf.data_offset());
    let (mut possible, mut wrong, mut total) = (Vec::new(), Vec::new(), Some(0u64));
    for (index, tensor) in gguf.tensors().enumerate() {
        let n = tensor.n_bytes().ok();
        let padded = n.and_then(|n| align_up(n, alignment));
        total = total.zip(padded).and_then(|(total, padded)| total.checked_add(padded));
        let (n, padded) = (n.unwrap_or(0), padded.unwrap_or(0));
        let extent = Extent { index, start: tensor.offset, len: n, padded };
        match tensor.offset % alignment == 0 {
            true => possible.push(extent),
            false => wrong.push(extent),
        }
    }
    possible.compact_sort_by_key(|extent| (extent.start, extent.end()));
    // Only in a file without gaps does the length determine anything.
    let fits = data_bytes > 0 && total.is_some_and(|total| align_up(data_bytes, alignment) == Some(total));
    if !fits {
        let unknown: BTreeSet<usize> =
            wrong.iter().map(|extent| extent.index).chain(overlaps(&possible, |a, b| !is_shared(a, b))).collect();
        return if unknown.is_empty() { Offsets::Possible } else { Offsets::Unknown(unknown) };
    }
    // The end of the last tensor may be missing.
    let end = total.unwrap_or(data_bytes);
    wrong.extend(possible.extract_if(.., |extent| extent.end() > end));
    let overlapping = overlaps(&possible, |_, _| true);
    if wrong.is_empty() && overlapping.is_empty() {
        return Offsets::Possible;
    }
    // Of the first two tensors that overlap, one is elsewhere.
    let pair = possible.windows(2).position(|pair| matches!(pair, [a, b] if a.end() > b.start));
    let choices = pair.map_or_else(|| vec![None], |at| vec![Some(at), Some(at + 1)]);
    let solutions = choices.into_iter().filter_map(|moved| {
        let mut kept = possible.clone();
        let moved = moved.map(|at| kept.remove(at));
        solve(&kept, wrong.iter().copied().chain(moved).collect(), end)
    });
    match solutions.collect::<Vec<_>>().as_slice() {
        [one] => Offsets::Determined(one.clone()),
        _ => Offsets::Unknown(wrong.iter().map(|extent| extent.index).chain(overlapping).collect()),
    }
}

/// Whether two tensors share all their data, as tied weights may.
fn is_shared(a: &Extent, b: &Extent) -> bool {
    (a.start, a.len) == (b.start, b.len)
}

/// The tensors that overlap one with a smaller offset, and those, if `counts`.
fn overlaps(sorted: &[Extent], counts: impl Fn(&Extent, &Extent) -> bool) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut longest: Option<&Extent> = None;
    for extent in sorted {
        if let Some(before) = longest.filter(|before| before.end() > extent.start && extent.len > 0)
            && counts(before, extent)
        {
            found.extend([before.index, extent.index]);
        }
        if longest.is_none_or(|before| before.end() <= extent.end()) {
            longest = Some(extent);
        }
    }
    found
}

/// The offsets of the moved tensors, if each gap between the others is the place of exactly one of them.
fn solve(kept: &[Extent], mut moved: Vec<Extent>, end: u64) -> Option<Vec<(usize, u64)>> {
    let mut gaps = Vec::new();
    let mut at = 0;
    for extent in kept {
        match extent.start.checked_sub(at)? {
            0 => {}
            gap => gaps.push((gap, at)),
        }
        at = extent.start.checked_add(extent.padded)?;
    }
    match end.checked_sub(at)? {
        0 => {}
        gap => gaps.push((gap, at)),
    }
    gaps.compact_sort_by_key(|gap| *gap);
    moved.compact_sort_by_key(|extent| (extent.padded, extent.index));
    let is_unique = moved.windows(2).all(|pair| matches!(pair, [a, b] if a.padded < b.padded));
    let fits = gaps.len() == moved.len() && gaps.iter().zip(&moved).all(|((gap, _), extent)| *gap == extent.padded);
    let mut places: Vec<(usize, u64)> = moved.iter().zip(&gaps).map(|(extent, (_, at))| (extent.index, *at)).collect();
    places.compact_sort_by_key(|place| *place);
    (is_unique && fits).then_some(places)
}
