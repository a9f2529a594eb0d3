//! Rearrangement of elements between a source and an output: strided copies, executed range by range.
//!
//! Every operation that only moves elements (rename, transpose, permute, split, stack, concatenate, slice) is a list of [`Move`]s. A move
//! is inverted by swapping its two sides. A run produces the output range by range, and reads only the required parts of the sources, in
//! spans as long as the layout allows; so a tensor of any size is written in bounded memory, in any order, by any number of threads.

use gguf_quants::elements::{Loop, transpose};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// One loop of a [`Move`]: the number of steps, and their distance in elements on either side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// Number of steps.
    pub count: u64,
    /// Elements from one step to the next in the source.
    pub from: u64,
    /// Elements from one step to the next in the output.
    pub to: u64,
}

/// A strided copy of elements from one source tensor to the output.
///
/// Element `from + Σ iₖ·axes[k].from` of the source becomes element `to + Σ iₖ·axes[k].to` of the output, for all combinations of `iₖ <
/// axes[k].count`. Sorted by `to`, the axes must be nested: a step of one is at least as long as everything inside it.
///
/// ```
/// use gguf_pipeline::moves::{Axis, Move, gather};
///
/// // Transposes a matrix of 2 rows and 3 columns of bytes.
/// let axes = vec![Axis { count: 2, from: 3, to: 1 }, Axis { count: 3, from: 1, to: 2 }];
/// let transpose = Move { input: 0, from: 0, to: 0, axes };
/// let mut out = [0; 6];
/// gather(&[transpose], 1, 0, &mut out, &mut Vec::new(), |_, offset, buffer| {
///     let start = offset as usize;
///     buffer.copy_from_slice(&b"abcdef"[start..start + buffer.len()]);
///     Ok(())
/// })?;
/// assert_eq!(&out, b"adbecf");
/// # Ok::<(), gguf_pipeline::Error>(())
/// ```
///
/// In JSON it is a list of the fields, and an axis as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "MoveList", into = "MoveList")]
pub struct Move {
    /// The index of the source among the operation's inputs.
    pub input: usize,
    /// The first element read.
    pub from: u64,
    /// The first element written.
    pub to: u64,
    /// The loops, in any order.
    pub axes: Vec<Axis>,
}

/// The fields of a move, and of its axes.
type MoveList = (usize, u64, u64, Vec<(u64, u64, u64)>);

impl From<MoveList> for Move {
    fn from((input, from, to, axes): MoveList) -> Move {
        let axes = axes.into_iter().map(|(count, from, to)| Axis { count, from, to });
        Move { input, from, to, axes: axes.collect() }
    }
}

impl From<Move> for MoveList {
    fn from(item: Move) -> MoveList {
        let axes = item.axes.iter().map(|axis| (axis.count, axis.from, axis.to));
        (item.input, item.from, item.to, axes.collect())
    }
}

impl Move {
    /// Number of elements.
    pub fn n_elements(&self) -> u64 {
        self.axes.iter().map(|axis| axis.count).fold(1, u64::saturating_mul)
    }

    /// The same elements in the order of the source, in the same range of the output; `None` if they do not fill a range.
    pub(crate) fn in_source_order(&self) -> Option<Move> {
        let steps = self.axes.iter().map(|axis| axis.count.saturating_sub(1).saturating_mul(axis.to));
        let n_elements = self.n_elements();
        if steps.fold(1u64, u64::saturating_add) != n_elements {
            return None;
        }
        let mut axes = self.axes.clone();
        let mut outer_first: Vec<&mut Axis> = axes.iter_mut().filter(|axis| axis.count > 1).collect();
        outer_first.sort_by_key(|axis| std::cmp::Reverse(axis.from));
        let mut left = n_elements;
        for axis in outer_first {
            left = left.checked_div(axis.count)?;
            axis.to = left;
        }
        Some(Move { axes, ..self.clone() })
    }

    /// The inverse move, with source and destination swapped.
    pub fn inverse(&self, input: usize) -> Move {
        let axes = self.axes.iter().map(|axis| Axis { count: axis.count, from: axis.to, to: axis.from });
        Move { input, from: self.to, to: self.from, axes: axes.collect() }
    }
}

/// The maximum ratio of read to needed elements; beyond it, reading around gaps is cheaper.
const WASTE: u64 = 4;

/// The distance in bytes up to which elements are read together, regardless of the gaps: a separate read costs as much.
const NEAR: u64 = 2048;

/// The maximum number of bytes to read at once.
const MAX_READ: u64 = 16 << 20;

/// Fills `out` with the output's elements starting at number `first`. Elements that no move covers keep their value.
///
/// `width` is the size of an element in bytes, `read` reads bytes of an input from an offset, and `scratch` is memory that is reused
/// between calls.
///
/// # Errors
/// Errors of `read`.
pub fn gather(
    moves: &[Move],
    width: usize,
    first: u64,
    out: &mut [u8],
    scratch: &mut Vec<u8>,
    mut read: impl FnMut(usize, u64, &mut [u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let width = width.max(1);
    let end = first.saturating_add((out.len() / width) as u64);
    for item in moves {
        let mut axes: Vec<Axis> = item.axes.iter().copied().filter(|axis| axis.count != 1).collect();
        sort_axes(&mut axes, |axis| core::cmp::Reverse((axis.to, axis.from)));
        if item.to >= end || item.to.saturating_add(span(&axes, |axis| axis.to)) <= first {
            continue;
        }
        let mut boxes = Vec::new();
        // From here on, positions are relative to the range; those before it are negative.
        let to = i128::from(item.to) - i128::from(first);
        clip(&axes, to, i128::from(end - first), item.from, &mut Vec::new(), &mut boxes);
        for part in &boxes {
            part.copy(width, out, scratch, &mut |offset, bytes| read(item.input, offset, bytes))?;
        }
    }
    Ok(())
}

/// Sorts a few axes by insertion; stable. A sort of the standard library would add 4 KB for each type and key.
fn sort_axes<A, K: Ord>(axes: &mut [A], key: impl Fn(&A) -> K) {
    for end in 1..axes.len() {
        for at in (1..=end).rev() {
            match axes.get(at - 1..=at) {
                Some([before, axis]) if key(before) > key(axis) => axes.swap(at - 1, at),
                _ => break,
            }
        }
    }
}

/// The number of elements from the first to the last of the axes, both included.
fn span(axes: &[Axis], stride: impl Fn(&Axis) -> u64) -> u64 {
    axes.iter().map(|axis| axis.count.saturating_sub(1).saturating_mul(stride(axis))).fold(1, u64::saturating_add)
}

/// A position in a tensor; outside of every tensor if it cannot be represented.
fn position(number: i128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// A position in a buffer; outside of every buffer if it cannot be represented.
fn index(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}

/// Reads bytes of an input from an offset.
type ReadBytes<'a> = dyn FnMut(u64, &mut [u8]) -> Result<(), Error> + 'a;

/// The part of a move inside a range of the output.
#[derive(Debug)]
struct Part {
    from: u64,
    /// First element, from the start of the range.
    to: u64,
    axes: Vec<Axis>,
}

/// Clips a move, whose axes are sorted outermost first, to the elements `0..end` of the output: for each axis the full steps, and at most
/// one partial step on either side. `outer` is empty at first.
fn clip(axes: &[Axis], to: i128, end: i128, from: u64, outer: &mut Vec<Axis>, parts: &mut Vec<Part>) {
    let whole = i128::from(span(axes, |axis| axis.to));
    if to >= 0 && to + whole <= end {
        parts.push(Part { from, to: position(to), axes: outer.iter().chain(axes).copied().collect() });
        return;
    }
    let Some((axis, inner)) = axes.split_first() else { return };
    let (stride, length) = (i128::from(axis.to).max(1), i128::from(span(inner, |axis| axis.to)));
    let count = i128::from(axis.count);
    // The steps that overlap the range, and those inside it.
    let touching = ((-to - length).div_euclid(stride) + 1).clamp(0, count)
        ..(end - to + stride - 1).div_euclid(stride).clamp(0, count);
    let inside = (-to + stride - 1).div_euclid(stride).clamp(0, count)
        ..((end - to - length).div_euclid(stride) + 1).clamp(0, count);
    let mut step = touching.start;
    while step < touching.end {
        let (at, source) = (to + step * stride, from.saturating_add(position(step).saturating_mul(axis.from)));
        if inside.contains(&step) {
            let many = Axis { count: position(inside.end - step), ..*axis };
            parts.push(Part { from: source, to: position(at), axes: [&[many], inner].concat() });
            step = inside.end;
        } else {
            clip(inner, at, end, source, outer, parts);
            step += 1;
        }
    }
}

impl Part {
    /// Copies the part.
    fn copy(&self, width: usize, out: &mut [u8], scratch: &mut Vec<u8>, read: &mut ReadBytes<'_>) -> Result<(), Error> {
        let w = width as u64;
        let mut axes: Vec<Axis> = self.axes.iter().copied().filter(|axis| axis.count != 1).collect();
        if axes.iter().any(|axis| axis.count == 0) {
            return Ok(());
        }
        sort_axes(&mut axes, |axis| (axis.from, axis.to));
        merge(&mut axes);
        if let [] | [Axis { from: 1, to: 1, .. }] = axes.as_slice() {
            let n = axes.first().map_or(1, |axis| axis.count);
            let range = index(self.to.saturating_mul(w))..index(self.to.saturating_add(n).saturating_mul(w));
            return read(self.from.saturating_mul(w), out.get_mut(range).unwrap_or_default());
        }
        // Scattered elements are not read one by one, but together with the gaps: in pieces, if the gaps are large.
        if let Some((first, rest)) = axes.split_first()
            && first.from.saturating_mul(w) <= NEAR
            && first.count.saturating_mul(first.from).saturating_mul(w) > MAX_READ
        {
            let most = (MAX_READ / first.from.saturating_mul(w).max(1)).max(1);
            for step in (0..first.count).step_by(index(most)) {
                let piece = Axis { count: most.min(first.count - step), ..*first };
                let axes = [&[piece], rest].concat();
                let (from, to) = (advanced(self.from, step, first.from), advanced(self.to, step, first.to));
                Part { from, to, axes }.copy(width, out, scratch, read)?;
            }
            return Ok(());
        }
        // The extent of one read: the inner axes of the source, as long as most of the elements are needed.
        let (mut covered, mut wanted, mut n_inner) = (1u64, 1u64, 0);
        for axis in &axes {
            let longer = (axis.count - 1).saturating_mul(axis.from).saturating_add(covered);
            let more = wanted.saturating_mul(axis.count);
            let is_near = axis.from.saturating_mul(w) <= NEAR;
            if longer > more.saturating_mul(WASTE) && !is_near || n_inner > 0 && longer.saturating_mul(w) > MAX_READ {
                break;
            }
            (covered, wanted, n_inner) = (longer, more, n_inner + 1);
        }
        // The outer axes give one read per step; the results are contiguous.
        let outer = axes.split_off(n_inner);
        let mut inner = axes;
        let n_reads = outer.iter().map(|axis| axis.count).fold(1, u64::saturating_mul);
        let read_bytes = covered.saturating_mul(w);
        let per_batch = (MAX_READ / read_bytes).clamp(1, n_reads);
        let mut done = 0;
        while done < n_reads {
            // A batch is a run of steps of the innermost of the outer axes.
            let (first, rest) = match outer.split_first() {
                Some((first, rest)) => (*first, rest),
                None => (Axis { count: 1, from: 0, to: 0 }, &[][..]),
            };
            let step = done % first.count;
            let n = per_batch.min(first.count - step);
            let (mut from, mut to) = (advanced(self.from, step, first.from), advanced(self.to, step, first.to));
            let mut number = done / first.count;
            for axis in rest {
                (from, to) =
                    (advanced(from, number % axis.count, axis.from), advanced(to, number % axis.count, axis.to));
                number /= axis.count;
            }
            let bytes = index(n.saturating_mul(read_bytes));
            scratch.resize(bytes.max(scratch.len()), 0);
            let raw = scratch.get_mut(..bytes).unwrap_or_default();
            for (i, place) in (0..).zip(raw.chunks_exact_mut(index(read_bytes))) {
                read(advanced(from, i, first.from).saturating_mul(w), place)?;
            }
            if n > 1 || !outer.is_empty() {
                inner.push(Axis { count: n, from: covered, to: first.to });
            }
            scatter(&inner, width, raw, index(to.saturating_mul(w)), out);
            if n > 1 || !outer.is_empty() {
                inner.pop();
            }
            done += n;
        }
        Ok(())
    }
}

/// The position after some steps.
fn advanced(from: u64, steps: u64, stride: u64) -> u64 {
    from.saturating_add(steps.saturating_mul(stride))
}

/// Joins axes, innermost first, that are contiguous on both sides.
fn merge(axes: &mut Vec<Axis>) {
    let mut merged: Vec<Axis> = Vec::with_capacity(axes.len());
    for axis in axes.iter() {
        match merged.last_mut() {
            Some(last)
                if Some(axis.from) == last.from.checked_mul(last.count)
                    && Some(axis.to) == last.to.checked_mul(last.count) =>
            {
                last.count = last.count.saturating_mul(axis.count);
            }
            _ => merged.push(*axis),
        }
    }
    *axes = merged;
}

/// Copies elements of `raw` to `out`, starting at byte `to`.
fn scatter(axes: &[Axis], width: usize, raw: &[u8], to: usize, out: &mut [u8]) {
    let mut axes: Vec<Loop> = axes
        .iter()
        .filter(|axis| axis.count != 1)
        .map(|axis| {
            let stride = |elements: u64| index(elements).saturating_mul(width);
            Loop { count: index(axis.count), from: stride(axis.from), to: stride(axis.to) }
        })
        .collect();
    // Outermost first, by the order of the output.
    sort_axes(&mut axes, |axis| core::cmp::Reverse(axis.to));
    match width {
        1 => nest::<1>(&axes, raw, 0, out, to),
        2 => nest::<2>(&axes, raw, 0, out, to),
        4 => nest::<4>(&axes, raw, 0, out, to),
        8 => nest::<8>(&axes, raw, 0, out, to),
        // Blocks of MXFP4 and NVFP4.
        17 => nest::<17>(&axes, raw, 0, out, to),
        36 => nest::<36>(&axes, raw, 0, out, to),
        // Byte by byte.
        _ => {
            axes.push(Loop { count: width, from: 1, to: 1 });
            nest::<1>(&axes, raw, 0, out, to);
        }
    }
}

fn nest<const W: usize>(axes: &[Loop], raw: &[u8], from: usize, out: &mut [u8], to: usize) {
    match axes {
        [] => copy::<W>(raw, from, out, to, W),
        [run] if run.from == W && run.to == W => copy::<W>(raw, from, out, to, run.count * W),
        [run] => {
            for i in 0..run.count {
                copy::<W>(raw, from + i * run.from, out, to + i * run.to, W);
            }
        }
        // A transposition.
        [rows, run] if rows.from == W => transpose(W, *rows, *run, raw.get(from..).unwrap_or_default(), out, to),
        [axis, inner @ ..] => {
            for i in 0..axis.count {
                nest::<W>(inner, raw, from + i * axis.from, out, to + i * axis.to);
            }
        }
    }
}

fn copy<const W: usize>(raw: &[u8], from: usize, out: &mut [u8], to: usize, len: usize) {
    if let (Some(from), Some(to)) = (raw.get(from..from + len), out.get_mut(to..to + len)) {
        // A fixed length compiles to a load and a store.
        match (<&mut [u8; W]>::try_from(&mut *to), <&[u8; W]>::try_from(from)) {
            (Ok(to), Ok(from)) => *to = *from,
            _ => to.copy_from_slice(from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random numbers.
    fn random(state: &mut u64, below: u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below.max(1)
    }

    /// A move between two compact layouts of the same axes in different orders, with an offset and gaps in the source.
    fn shuffled(state: &mut u64) -> Move {
        let n_axes = 1 + random(state, 4) as usize;
        let counts: Vec<u64> = (0..n_axes).map(|_| 1 + random(state, 6)).collect();
        let mut order: Vec<usize> = (0..n_axes).collect();
        for i in (1..n_axes).rev() {
            order.swap(i, random(state, i as u64 + 1) as usize);
        }
        let mut axes: Vec<Axis> = counts.iter().map(|&count| Axis { count, from: 0, to: 0 }).collect();
        let gap = random(state, 3);
        let (mut to, mut from) = (1, 1);
        for i in (0..n_axes).rev() {
            axes[i].to = to;
            to *= axes[i].count;
        }
        for &i in order.iter().rev() {
            axes[i].from = from;
            from = from * axes[i].count + gap;
        }
        Move { input: 0, from: random(state, 5), to: random(state, 7), axes }
    }

    fn expected(item: &Move, source: &[u8], width: usize, out: &mut [u8]) {
        for number in 0..item.n_elements() {
            let (mut rest, mut from, mut to) = (number, item.from, item.to);
            for axis in &item.axes {
                (from, to) = (from + rest % axis.count * axis.from, to + rest % axis.count * axis.to);
                rest /= axis.count;
            }
            let (from, to) = (from as usize * width, to as usize * width);
            out[to..to + width].copy_from_slice(&source[from..from + width]);
        }
    }

    #[test]
    fn every_range_of_a_move_is_that_of_the_whole() {
        let mut state = 7;
        for round in 0..400 {
            let width = [1, 2, 4, 8, 17, 20, 36][round % 7];
            let item = shuffled(&mut state);
            let n_source = item.from + span(&item.axes, |axis| axis.from);
            let n_out = item.to + span(&item.axes, |axis| axis.to) + 2;
            let source: Vec<u8> = (0..n_source as usize * width).map(|i| (i * 31 + i / 256 * 7) as u8).collect();
            let mut whole = vec![0xee; n_out as usize * width];
            expected(&item, &source, width, &mut whole);
            for _ in 0..8 {
                let first = random(&mut state, n_out);
                let n = 1 + random(&mut state, n_out - first);
                let mut out = vec![0xee; n as usize * width];
                let read = |_, offset: u64, bytes: &mut [u8]| {
                    bytes.copy_from_slice(&source[offset as usize..offset as usize + bytes.len()]);
                    Ok(())
                };
                gather(std::slice::from_ref(&item), width, first, &mut out, &mut Vec::new(), read).unwrap();
                let range = first as usize * width..(first + n) as usize * width;
                assert_eq!(out, whole[range], "{item:?} from {first}, {n} elements of {width} bytes");
            }
        }
    }

    #[test]
    fn the_inverse_restores_what_was_moved() {
        let mut state = 3;
        for _ in 0..200 {
            let item = shuffled(&mut state);
            let n_source = (item.from + span(&item.axes, |axis| axis.from)) as usize;
            let n_out = (item.to + span(&item.axes, |axis| axis.to)) as usize;
            let mut marks = vec![0u8; n_out];
            let source: Vec<u8> = (0..n_source).map(|i| (i % 250) as u8 + 1).collect();
            expected(&item, &source, 1, &mut marks);
            let mut back = vec![0; n_source];
            expected(&item.inverse(0), &marks, 1, &mut back);
            // Every moved element is restored, the others are untouched.
            let moved = back.iter().filter(|b| **b != 0).count();
            assert_eq!(moved as u64, item.n_elements());
            assert!(back.iter().zip(&source).all(|(b, s)| *b == 0 || b == s));
        }
    }

    #[test]
    fn what_is_contiguous_is_read_at_once() {
        // The halves of the rows of three heads: read whole, regardless of the order.
        let axes = [(3, 8, 8), (2, 4, 1 << 1), (2, 2, 4), (2, 1, 1)];
        let axes = axes.map(|(count, from, to)| Axis { count, from, to }).to_vec();
        let mut reads = Vec::new();
        let read = |_, offset, bytes: &mut [u8]| {
            reads.push((offset, bytes.len()));
            Ok(())
        };
        let item = Move { input: 0, from: 0, to: 0, axes };
        gather(&[item], 2, 0, &mut [0; 48], &mut Vec::new(), read).unwrap();
        assert_eq!(reads, [(0, 48)]);
    }

    #[test]
    fn elements_that_lie_apart_are_not_read_one_by_one() {
        // A column of two million rows of 32 elements, more than the limit of one read.
        let n = 2_000_000;
        let item = Move { input: 0, from: 5, to: 0, axes: vec![Axis { count: n, from: 32, to: 1 }] };
        let mut n_reads = 0;
        let read = |_, offset: u64, bytes: &mut [u8]| {
            n_reads += 1;
            for (i, b) in bytes.iter_mut().enumerate() {
                *b = ((offset as usize + i) / 64) as u8;
            }
            Ok(())
        };
        let mut out = vec![0; 2 * n as usize];
        gather(&[item], 2, 0, &mut out, &mut Vec::new(), read).unwrap();
        assert!(out.chunks(2).enumerate().all(|(row, pair)| pair == [row as u8; 2]));
        assert!(n_reads < 20, "{n_reads} reads");
    }

    #[test]
    fn moves_from_outside_of_a_source_are_its_errors() {
        let refuse =
            |_: usize, offset: u64, _: &mut [u8]| Err(Error::OutOfTensor { tensor: "x".to_owned(), bytes: offset });
        let one = Axis { count: 4, from: 1, to: 1 };
        for (from, axes) in [
            (u64::MAX - 1, vec![one]),
            (u64::MAX / 2, vec![Axis { from: u64::MAX / 3, ..one }]),
            (7, vec![Axis { count: 2, from: u64::MAX, to: 2 }, Axis { count: 2, from: u64::MAX - 5, to: 1 }]),
        ] {
            let item = Move { input: 0, from, to: 0, axes };
            let found = gather(&[item], 4, 1, &mut [0; 8], &mut Vec::new(), refuse);
            assert!(matches!(found, Err(Error::OutOfTensor { .. })), "{found:?}");
        }
    }
}
