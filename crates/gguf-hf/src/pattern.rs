//! Patterns, which rearrange the elements of a checkpoint's tensor, as text in the tables of architectures.
//!
//! The notation follows einops, in PyTorch's order (the last axis is contiguous), with slices and concatenation:
//!
//! ```text
//! (h two d) ... -> (h d two) ...                      rows of each head: halves to neighbours
//! (kv g d) ... -> (kv g[:-2] d) ... + (kv g[-2] d) ... + (kv g[-1] d) ...
//! x i o -> x o i                                      a transposition of each expert
//! x (two[0] f) e -> x f e                             the first half of the rows of each expert
//! c 1 k -> c k                                        removes an axis of length 1
//! 1... e -> e                                         removes any number of them
//! ```
//!
//! A name denotes an axis, parentheses combine several axes in one dimension, `...` denotes all remaining dimensions, and `1...` denotes
//! all remaining dimensions, each of length 1. [`Sizes`] gives the lengths of known names; each dimension may contain one axis of unknown
//! length. `name[i]`, `name[a:b]` and so on select part of an axis, counting from the end if negative; on the left the selection applies to
//! the whole pattern, on the right to one part. Bounds may be sums of names, and names with a dot are fields of the configuration. Parts
//! joined by `+` are concatenated along the first dimension. An axis that occurs only on the right repeats the elements as many times as
//! its length. `each h:` before a pattern applies it to each of `h` equal parts of the first dimension. `&` joins patterns whose results
//! are concatenated along the first dimension. `(n: a b)` is a dimension whose first `n` elements are skipped.
//!
//! If a pattern does not fit a tensor's shape, the error describes the mismatch.

use core::fmt;
use std::collections::BTreeMap;

use gguf_pipeline::moves::{Axis, Move};

/// The lengths of named axes; `None` for a name without a known length.
pub(crate) type Sizes<'a> = dyn Fn(&str) -> Option<u64> + 'a;

/// Why a pattern does not fit a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// The tensor has another number of dimensions than the pattern. Holds the pattern's number.
    Dimensions(usize),
    /// The length of a dimension (counted from the outermost, from 0) is not divisible by its axes. Holds their product and the names.
    Length { dimension: usize, factor: u64, axes: String },
    /// A dimension contains more than one axis of unknown length. Holds the axes.
    Unknown(String),
    /// A slice is out of bounds.
    Slice(String),
    /// The concatenated parts have different inner dimensions.
    Parts,
    /// A syntax error in the pattern. Tests parse all patterns.
    Syntax(&'static str),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Dimensions(n) => write!(f, "expected {n} dimensions"),
            Mismatch::Length { dimension, factor, axes } => {
                write!(f, "expected a multiple of {factor} ({axes}) in dimension {dimension}, counted from 0")
            }
            Mismatch::Unknown(axes) => write!(f, "the configuration does not specify the length of {axes}"),
            Mismatch::Slice(axis) => write!(f, "the axis {axis} is too short"),
            Mismatch::Parts => f.write_str("the parts have different shapes"),
            Mismatch::Syntax(what) => write!(f, "the pattern is wrong: {what}"),
        }
    }
}

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pattern {
    /// The axis whose length is the number of equal parts to which the pattern is applied.
    each: Option<String>,
    clauses: Vec<Clause>,
}

/// One of several patterns whose results are concatenated.
#[derive(Debug, Clone, PartialEq)]
struct Clause {
    from: Vec<Dimension>,
    to: Vec<Vec<Dimension>>,
}

#[derive(Debug, Clone, PartialEq)]
enum Dimension {
    /// Axes, and the number of skipped elements before them.
    Axes(Vec<Part>, Option<Bound>),
    Rest,
    /// All remaining dimensions, each of length 1.
    Ones,
}

/// An axis, or a part of it.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    name: String,
    slice: Slice,
}

#[derive(Debug, Clone, PartialEq)]
enum Slice {
    Whole,
    At(Bound),
    Range(Option<Bound>, Option<Bound>),
}

/// A sum of numbers and names.
#[derive(Debug, Clone, PartialEq)]
struct Bound {
    number: i64,
    names: Vec<String>,
}

/// The result of applying a pattern to a shape.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Moved {
    /// The new shape, the outermost dimension first.
    pub(crate) shape: Vec<u64>,
    /// The moves from input 0 to a contiguous output of that shape.
    pub(crate) moves: Vec<Move>,
}

/// An axis of the source.
#[derive(Debug, Clone, Copy)]
struct SourceAxis {
    count: u64,
    stride: u64,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// [`Mismatch::Syntax`].
    pub(crate) fn parse(text: &str) -> Result<Pattern, Mismatch> {
        let clause = |text: &str| {
            let (from, to) = text.split_once("->").ok_or(Mismatch::Syntax("no arrow"))?;
            let to = parts(to).into_iter().map(side).collect::<Result<Vec<_>, _>>()?;
            Ok(Clause { from: side(from)?, to })
        };
        let (each, text) = match text.trim_start().strip_prefix("each ") {
            None => (None, text),
            Some(rest) => {
                let (name, rest) = rest.split_once(':').ok_or(Mismatch::Syntax("no colon behind each"))?;
                (Some(name.trim().to_owned()), rest)
            }
        };
        Ok(Pattern { each, clauses: text.split('&').map(clause).collect::<Result<_, _>>()? })
    }

    /// The moves for a tensor of the given shape (the outermost dimension first).
    ///
    /// # Errors
    /// [`Mismatch`].
    pub(crate) fn bind(&self, shape: &[u64], sizes: &Sizes<'_>) -> Result<Moved, Mismatch> {
        let mut bound = Moved { shape: Vec::new(), moves: Vec::new() };
        let Some(name) = &self.each else {
            for clause in &self.clauses {
                clause.bind(shape, sizes, &mut bound)?;
            }
            bound.moves.retain(|item| item.n_elements() > 0);
            return Ok(bound);
        };
        let count = length_of(name, sizes).ok_or_else(|| Mismatch::Unknown(name.clone()))?;
        let mut part = shape.to_vec();
        match part.first_mut() {
            Some(first) if count > 0 && *first % count == 0 => *first /= count,
            Some(_) => return Err(Mismatch::Length { dimension: 0, factor: count, axes: name.clone() }),
            None => return Err(Mismatch::Dimensions(1)),
        }
        for clause in &self.clauses {
            clause.bind(&part, sizes, &mut bound)?;
        }
        bound.moves.retain(|item| item.n_elements() > 0);
        let axis = Axis { count, from: part.iter().product(), to: bound.shape.iter().product() };
        for item in bound.moves.iter_mut().filter(|_| count != 1) {
            item.axes.insert(0, axis);
        }
        if let Some(first) = bound.shape.first_mut() {
            *first *= count;
        }
        Ok(bound)
    }
}

impl Pattern {
    /// The shape of a tensor that the pattern takes to `shape`, the smallest of several: the inverse of [`bind`](Pattern::bind). The flag says
    /// whether it is the only one.
    pub(crate) fn source_shape(&self, shape: &[u64], sizes: &Sizes<'_>) -> Option<(Vec<u64>, bool)> {
        let count = self.each.as_deref().map_or(Some(1), |name| length_of(name, sizes)).filter(|n| *n > 0)?;
        let mut own = shape.to_vec();
        if let (Some(first), true) = (own.first_mut(), self.each.is_some()) {
            *first = first.is_multiple_of(count).then(|| *first / count)?;
        }
        let scaled = |mut found: Vec<u64>| {
            if let (Some(first), true) = (found.first_mut(), self.each.is_some()) {
                *first *= count;
            }
            found
        };
        let fits = |found: &Vec<u64>| self.bind(found, sizes).is_ok_and(|moved| moved.shape == shape);
        let clause = match self.clauses.as_slice() {
            [clause] => clause,
            // Patterns whose results are concatenated take each element once.
            [clause, ..] => {
                let (mut found, _) = clause.solved(clause.to.first()?, &own, sizes)?;
                let inner: u64 = found.get(1..)?.iter().product();
                let total: u64 = shape.iter().product();
                *found.first_mut()? = total.is_multiple_of(inner.max(1)).then(|| total / inner.max(1))?;
                return Some(found).filter(fits).map(|found| (found, true));
            }
            [] => return None,
        };
        if let [side] = clause.to.as_slice()
            && let Some((found, is_only)) = clause.solved(side, &own, sizes)
            && let Some(found) = Some(scaled(found)).filter(fits)
        {
            return Some((found, is_only));
        }
        if let Some(found) = self.of_parts(clause, &own, sizes, &scaled, &fits) {
            return Some(found);
        }
        // Parts of equal lengths, each of which has all unknown axes.
        let n_parts = clause.to.len() as u64;
        let first = own.first_mut()?;
        *first = first.is_multiple_of(n_parts).then(|| *first / n_parts)?;
        let (found, is_only) = clause.solved(clause.to.first()?, &own, sizes)?;
        Some(scaled(found)).filter(fits).map(|found| (found, is_only))
    }

    /// The shape of the source of several parts, if only the length of one axis is unknown.
    fn of_parts(
        &self,
        clause: &Clause,
        own: &[u64],
        sizes: &Sizes<'_>,
        scaled: &dyn Fn(Vec<u64>) -> Vec<u64>,
        fits: &dyn Fn(&Vec<u64>) -> bool,
    ) -> Option<(Vec<u64>, bool)> {
        let shape = scaled(own.to_vec());
        // Parts of a dimension: its length is between that of the result and a multiple of it; longer ones give longer results.
        let (mut low, mut high) = (1, own.first().copied()?.saturating_mul(64).max(64));
        while low < high {
            let middle = low + (high - low) / 2;
            let found = clause.with_free(middle, own, sizes).map(scaled)?;
            match self.bind(&found, sizes) {
                Ok(moved) if moved.shape.first() >= shape.first() => high = middle,
                _ => low = middle + 1,
            }
        }
        let found = clause.with_free(low, own, sizes).map(scaled).filter(fits)?;
        let longer = clause.with_free(low + 1, own, sizes).map(scaled);
        let is_only = !longer.is_some_and(|longer| longer != found && fits(&longer));
        Some((found, is_only))
    }
}

impl Clause {
    /// The source's shape, from the lengths that the only part of the right side has in `shape`, and whether it is the only one.
    fn solved(&self, side: &[Dimension], shape: &[u64], sizes: &Sizes<'_>) -> Option<(Vec<u64>, bool)> {
        let n_own = side.iter().filter(|item| matches!(item, Dimension::Axes(..))).count();
        let n_rest = shape.len().checked_sub(n_own)?;
        let (mut lengths, mut rest, mut lens) = (BTreeMap::new(), Vec::new(), shape.iter().copied());
        let mut is_only = true;
        for item in side {
            match item {
                Dimension::Rest => rest.extend(lens.by_ref().take(n_rest)),
                Dimension::Ones => return None,
                Dimension::Axes(parts, _) => {
                    let length = lens.next()?;
                    let known = |part: &Part| part.known(sizes).or_else(|| (part.name == "1").then_some(1));
                    let factor = parts.iter().filter_map(known).fold(1, u64::saturating_mul).max(1);
                    for part in parts {
                        let n = known(part);
                        let is_open = length_of(&part.name, sizes).is_none() && part.slice != Slice::Whole;
                        if n.is_some() && is_open {
                            // Elements behind the selected ones are not known of.
                            is_only = false;
                            lengths.insert(part.name.clone(), part.end(sizes)?);
                        } else if n.is_none() {
                            lengths.insert(part.name.clone(), part.whole(length / factor, sizes)?);
                        }
                    }
                }
            }
        }
        // What the left side cuts off belongs to the source.
        for part in self.from.iter().flat_map(Dimension::parts).filter(|part| part.slice != Slice::Whole) {
            if !lengths.contains_key(&part.name) && length_of(&part.name, sizes).is_none() {
                // Only a part of the axis is taken, and the result does not have it.
                is_only = false;
                lengths.insert(part.name.clone(), part.end(sizes)?);
            } else if let Some(length) = lengths.get_mut(&part.name) {
                *length = match part.whole(*length, sizes) {
                    Some(length) => length,
                    None => {
                        is_only = false;
                        part.end(sizes)?
                    }
                };
            }
        }
        self.shape_of(&lengths, None, &rest, sizes).map(|shape| (shape, is_only))
    }

    /// The source's shape if the only axis of unknown length has the length `free`.
    fn with_free(&self, free: u64, shape: &[u64], sizes: &Sizes<'_>) -> Option<Vec<u64>> {
        let inner = self.to.first().and_then(|side| inner(side, shape, sizes));
        let (lengths, rest) = inner.unwrap_or((BTreeMap::new(), shape.get(1..)?.to_vec()));
        self.shape_of(&lengths, Some(free), &rest, sizes)
    }

    fn shape_of(
        &self,
        lengths: &BTreeMap<String, u64>,
        free: Option<u64>,
        rest: &[u64],
        sizes: &Sizes<'_>,
    ) -> Option<Vec<u64>> {
        let mut shape = Vec::new();
        for item in &self.from {
            match item {
                Dimension::Rest => shape.extend(rest),
                Dimension::Ones => {}
                Dimension::Axes(parts, left_out) => {
                    let length = |part: &Part| {
                        length_of(&part.name, sizes).or_else(|| lengths.get(&part.name).copied()).or(free)
                    };
                    let own = parts.iter().map(length).try_fold(1u64, |n, length| n.checked_mul(length?))?;
                    let more = left_out.as_ref().map_or(Some(0), |n| n.of(u64::MAX / 4, sizes))?;
                    shape.push(own.checked_add(more)?);
                }
            }
        }
        Some(shape)
    }

    /// Appends the moves for a tensor of the given shape.
    fn bind(&self, shape: &[u64], sizes: &Sizes<'_>, bound: &mut Moved) -> Result<(), Mismatch> {
        let (mut axes, mut offset) = self.place(shape, sizes)?;
        // Slices on the left side apply to all parts.
        for part in self.from.iter().flat_map(Dimension::parts) {
            if let Some(placed) = axes.get_mut(&part.name) {
                let (first, count) = part.range(placed.count, sizes)?;
                offset += first * placed.stride;
                placed.count = count;
            }
        }
        let mut to = bound.moves.iter().map(Move::n_elements).sum();
        for side in &self.to {
            let (shape, mut item) = one(side, &axes, offset, sizes)?;
            item.to = to;
            to += item.n_elements();
            bound.moves.push(item);
            match bound.shape.as_mut_slice() {
                [] => bound.shape = shape,
                [first, rest @ ..] => match shape.split_first() {
                    Some((more, others)) if rest == others => *first += more,
                    _ => return Err(Mismatch::Parts),
                },
            }
        }
        Ok(())
    }

    /// The axes of the left side with their lengths and strides, and the offset of the first element.
    fn place(&self, shape: &[u64], sizes: &Sizes<'_>) -> Result<(BTreeMap<String, SourceAxis>, u64), Mismatch> {
        let n_own = self.from.iter().filter(|d| matches!(d, Dimension::Axes(..))).count();
        let has_rest = n_own < self.from.len();
        if shape.len() < n_own || (shape.len() > n_own && !has_rest) {
            return Err(Mismatch::Dimensions(n_own));
        }
        let n_rest = shape.len() - n_own;
        let mut axes = BTreeMap::new();
        let (mut dimension, mut offset) = (0, 0);
        let stride_after = |n: usize| shape.get(n..).unwrap_or_default().iter().product::<u64>();
        for item in &self.from {
            match item {
                Dimension::Rest => {
                    for i in 0..n_rest {
                        let count = shape.get(dimension).copied().unwrap_or(1);
                        axes.insert(format!("...{i}"), SourceAxis { count, stride: stride_after(dimension + 1) });
                        dimension += 1;
                    }
                }
                Dimension::Ones => {
                    for _ in 0..n_rest {
                        if shape.get(dimension) != Some(&1) {
                            return Err(Mismatch::Length { dimension, factor: 1, axes: "1".to_owned() });
                        }
                        dimension += 1;
                    }
                }
                Dimension::Axes(parts, left_out) => {
                    let mut length = shape.get(dimension).copied().unwrap_or(1);
                    if let Some(left_out) = left_out {
                        let n = left_out.of(length, sizes).ok_or_else(|| Mismatch::Slice("left out".to_owned()))?;
                        length -= n;
                        offset += n * stride_after(dimension + 1);
                    }
                    let known = |part: &Part| length_of(&part.name, sizes);
                    let factor = parts.iter().filter_map(known).fold(1, u64::saturating_mul);
                    let n_free = parts.iter().filter(|part| known(part).is_none()).count();
                    let names = || parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join(" × ");
                    let wrong = || Mismatch::Length { dimension, factor, axes: names() };
                    let free = match n_free {
                        0 if factor == length => 1,
                        1 if factor > 0 && length % factor == 0 => length / factor,
                        0 | 1 => return Err(wrong()),
                        _ => return Err(Mismatch::Unknown(names())),
                    };
                    let mut stride = stride_after(dimension + 1);
                    for part in parts.iter().rev() {
                        let count = known(part).unwrap_or(free);
                        axes.insert(part.name.clone(), SourceAxis { count, stride });
                        stride = stride.saturating_mul(count);
                    }
                    dimension += 1;
                }
            }
        }
        Ok((axes, offset))
    }
}

/// The lengths of the axes behind the first dimension of a side, and of the remaining dimensions.
fn inner(side: &[Dimension], shape: &[u64], sizes: &Sizes<'_>) -> Option<(BTreeMap<String, u64>, Vec<u64>)> {
    let n_own = side.iter().filter(|item| matches!(item, Dimension::Axes(..))).count();
    let n_rest = shape.len().checked_sub(n_own)?;
    let (mut lengths, mut rest, mut lens) = (BTreeMap::new(), Vec::new(), shape.iter().copied());
    for (i, item) in side.iter().enumerate() {
        match item {
            Dimension::Rest => rest.extend(lens.by_ref().take(n_rest)),
            Dimension::Ones => return None,
            Dimension::Axes(..) if i == 0 => drop(lens.next()?),
            Dimension::Axes(parts, _) => {
                let length = lens.next()?;
                let known = |part: &Part| part.known(sizes).or_else(|| (part.name == "1").then_some(1));
                let factor = parts.iter().filter_map(known).fold(1, u64::saturating_mul).max(1);
                for part in parts.iter().filter(|part| known(part).is_none()) {
                    lengths.insert(part.name.clone(), part.whole(length / factor, sizes)?);
                }
            }
        }
    }
    Some((lengths, rest))
}

/// A tensor that is not rearranged.
pub(crate) fn whole(shape: &[u64]) -> Moved {
    let n = shape.iter().product();
    let axes = vec![Axis { count: n, from: 1, to: 1 }];
    Moved { shape: shape.to_vec(), moves: vec![Move { input: 0, from: 0, to: 0, axes }] }
}

/// One part of the right side: its shape, and its move.
fn one(
    side: &[Dimension],
    axes: &BTreeMap<String, SourceAxis>,
    mut from: u64,
    sizes: &Sizes<'_>,
) -> Result<(Vec<u64>, Move), Mismatch> {
    let mut shape = Vec::new();
    let mut loops = Vec::new();
    for item in side {
        match item {
            Dimension::Rest => {
                for (_, placed) in axes.iter().filter(|(name, _)| name.starts_with("...")) {
                    shape.push(placed.count);
                    loops.push(Axis { count: placed.count, from: placed.stride, to: 0 });
                }
            }
            Dimension::Ones => return Err(Mismatch::Syntax("1... on the right side")),
            Dimension::Axes(parts, _) => {
                let mut length = 1;
                for part in parts {
                    // A `1` that is missing on the left side is a new dimension.
                    let placed = match axes.get(&part.name) {
                        Some(placed) => *placed,
                        None if part.name == "1" => SourceAxis { count: 1, stride: 0 },
                        // A new axis of known length repeats the elements.
                        None if sizes(&part.name).is_some() => {
                            SourceAxis { count: length_of(&part.name, sizes).unwrap_or(1), stride: 0 }
                        }
                        None => return Err(Mismatch::Syntax("an axis that the left side does not have")),
                    };
                    let (first, count) = part.range(placed.count, sizes)?;
                    from += first * placed.stride;
                    length *= count;
                    loops.push(Axis { count, from: placed.stride, to: 0 });
                }
                shape.push(length);
            }
        }
    }
    let mut stride = 1;
    for axis in loops.iter_mut().rev() {
        axis.to = stride;
        stride *= axis.count;
    }
    loops.retain(|axis| axis.count != 1);
    Ok((shape, Move { input: 0, from, to: 0, axes: loops }))
}

/// The length of a named axis: a number, `two`, `three`, or a length from `sizes`.
fn length_of(name: &str, sizes: &Sizes<'_>) -> Option<u64> {
    match name {
        "two" => Some(2),
        "three" => Some(3),
        name => name.parse().ok().or_else(|| sizes(name)),
    }
}

impl Dimension {
    fn parts(&self) -> &[Part] {
        match self {
            Dimension::Axes(parts, _) => parts,
            Dimension::Rest | Dimension::Ones => &[],
        }
    }
}

impl Part {
    /// The number of selected elements, if it does not depend on the rest of the axis.
    fn known(&self, sizes: &Sizes<'_>) -> Option<u64> {
        let whole = length_of(&self.name, sizes);
        match &self.slice {
            Slice::At(_) => Some(1),
            _ if whole.is_some() => self.range(whole?, sizes).ok().map(|(_, n)| n),
            Slice::Range(first, Some(end)) if end.number >= 0 => {
                let first = first.as_ref().map_or(Some(0), |first| first.of(u64::MAX / 4, sizes))?;
                end.of(u64::MAX / 4, sizes)?.checked_sub(first)
            }
            _ => None,
        }
    }

    /// The number of elements up to the end of the slice.
    fn end(&self, sizes: &Sizes<'_>) -> Option<u64> {
        const LONG: u64 = u64::MAX / 4;
        match &self.slice {
            Slice::At(at) if at.number >= 0 => at.of(LONG, sizes)?.checked_add(1),
            Slice::Range(_, Some(end)) if end.number >= 0 => end.of(LONG, sizes),
            _ => None,
        }
    }

    /// The length of the axis, of which the slice selects `n` elements.
    fn whole(&self, n: u64, sizes: &Sizes<'_>) -> Option<u64> {
        match &self.slice {
            Slice::Whole => Some(n),
            Slice::At(_) => None,
            Slice::Range(first, end) => {
                let before = first.as_ref().map_or(Some(0), |first| first.of(u64::MAX / 4, sizes))?;
                let after = match end {
                    None => 0,
                    Some(end) if end.number < 0 => end.number.unsigned_abs(),
                    Some(_) => return None,
                };
                n.checked_add(before)?.checked_add(after)
            }
        }
    }

    /// The first element and the number of elements of the slice, for an axis of length `count`.
    fn range(&self, count: u64, sizes: &Sizes<'_>) -> Result<(u64, u64), Mismatch> {
        let short = || Mismatch::Slice(self.name.clone());
        let resolve = |bound: &Bound| bound.of(count, sizes).ok_or_else(short);
        match &self.slice {
            Slice::Whole => Ok((0, count)),
            Slice::At(at) => resolve(at).and_then(|at| if at < count { Ok((at, 1)) } else { Err(short()) }),
            Slice::Range(first, end) => {
                let first = first.as_ref().map_or(Ok(0), resolve)?;
                let end = end.as_ref().map_or(Ok(count), resolve)?;
                Ok((first, end.checked_sub(first).ok_or_else(short)?))
            }
        }
    }
}

impl Bound {
    /// The index in an axis of length `count`; `None` if it is out of bounds.
    fn of(&self, count: u64, sizes: &Sizes<'_>) -> Option<u64> {
        let mut n = self.number;
        for name in &self.names {
            n = n.checked_add(i64::try_from(length_of(name, sizes)?).ok()?)?;
        }
        let n = if n < 0 { n.checked_add(i64::try_from(count).ok()?)? } else { n };
        u64::try_from(n).ok().filter(|n| *n <= count)
    }
}

/// Splits the right side into parts. A `+` in brackets belongs to a bound.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    for (i, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            '+' if depth == 0 => {
                parts.push(text.get(start..i).unwrap_or_default());
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
}

fn side(text: &str) -> Result<Vec<Dimension>, Mismatch> {
    let mut dimensions = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("...") {
            dimensions.push(Dimension::Rest);
            rest = after.trim_start();
        } else if let Some(after) = rest.strip_prefix("1...") {
            dimensions.push(Dimension::Ones);
            rest = after.trim_start();
        } else if let Some(inner) = rest.strip_prefix('(') {
            let (inner, after) = inner.split_once(')').ok_or(Mismatch::Syntax("no closing parenthesis"))?;
            let (left_out, inner) = match inner.split_once(':').filter(|(before, _)| !before.contains('[')) {
                Some((n, inner)) => (bound(n)?, inner),
                None => (None, inner),
            };
            dimensions.push(Dimension::Axes(inner.split_whitespace().map(part).collect::<Result<_, _>>()?, left_out));
            rest = after.trim_start();
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            dimensions.push(Dimension::Axes(vec![part(word)?], None));
            rest = after.trim_start();
        }
    }
    if dimensions.is_empty() { Err(Mismatch::Syntax("an empty side")) } else { Ok(dimensions) }
}

fn part(word: &str) -> Result<Part, Mismatch> {
    let Some((name, slice)) = word.split_once('[') else {
        return Ok(Part { name: word.to_owned(), slice: Slice::Whole });
    };
    let slice = slice.strip_suffix(']').ok_or(Mismatch::Syntax("no closing bracket"))?;
    let slice = match slice.split_once(':') {
        None => Slice::At(bound(slice)?.ok_or(Mismatch::Syntax("empty brackets"))?),
        Some((first, end)) => Slice::Range(bound(first)?, bound(end)?),
    };
    Ok(Part { name: name.to_owned(), slice })
}

fn bound(text: &str) -> Result<Option<Bound>, Mismatch> {
    if text.is_empty() {
        return Ok(None);
    }
    let mut bound = Bound { number: 0, names: Vec::new() };
    for term in text.split('+') {
        match term.parse::<i64>() {
            Ok(n) => bound.number += n,
            Err(_) if term.starts_with(|c: char| c.is_ascii_alphabetic() || c == '@') => {
                bound.names.push(term.to_owned())
            }
            Err(_) => return Err(Mismatch::Syntax("a bound that is neither a number nor a name")),
        }
    }
    Ok(Some(bound))
}

/// The names of all axes.
#[cfg(test)]
pub(crate) fn names(pattern: &Pattern) -> Vec<String> {
    let from = pattern.clauses.iter().flat_map(|clause| &clause.from);
    from.flat_map(Dimension::parts).map(|part| part.name.clone()).chain(pattern.each.clone()).collect()
}

/// A shape that fits a pattern for the given axis lengths; unnamed dimensions become one dimension of length `rest`.
#[cfg(test)]
pub(crate) fn shape_for(pattern: &Pattern, sizes: &Sizes<'_>, rest: u64) -> Option<Vec<u64>> {
    let dimension = |item: &Dimension| match item {
        Dimension::Rest => Some(rest),
        Dimension::Ones => Some(1),
        Dimension::Axes(parts, left_out) => {
            let length: Option<u64> = parts.iter().map(|part| length_of(&part.name, sizes)).product();
            let more = left_out.as_ref().map_or(Some(0), |left_out| left_out.of(u64::MAX / 4, sizes));
            Some(length? + more?)
        }
    };
    // The last of several patterns skips the elements that the others select.
    let mut shape: Vec<u64> = pattern.clauses.last()?.from.iter().map(dimension).collect::<Option<_>>()?;
    if let (Some(name), Some(first)) = (&pattern.each, shape.first_mut()) {
        *first *= length_of(name, sizes)?;
    }
    Some(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(name: &str) -> Option<u64> {
        Some(match name {
            "h" => 3,
            "kv" => 2,
            "d" => 4,
            "q" => 5,
            _ => return None,
        })
    }

    /// The source element indices, in output order.
    fn moved(pattern: &str, shape: &[u64]) -> Result<(Vec<u64>, Vec<u64>), Mismatch> {
        let bound = Pattern::parse(pattern)?.bind(shape, &sizes)?;
        let mut out = vec![u64::MAX; bound.shape.iter().product::<u64>() as usize];
        for item in &bound.moves {
            for number in 0..item.n_elements() {
                let (mut rest, mut from, mut to) = (number, item.from, item.to);
                for axis in &item.axes {
                    (from, to) = (from + rest % axis.count * axis.from, to + rest % axis.count * axis.to);
                    rest /= axis.count;
                }
                assert_eq!(std::mem::replace(&mut out[to as usize], from), u64::MAX, "{pattern}: written twice");
            }
        }
        assert!(!out.contains(&u64::MAX), "{pattern}: not all is written");
        Ok((bound.shape, out))
    }

    #[test]
    fn the_shape_of_the_source_follows_from_that_of_the_result() {
        for (pattern, shape) in [
            ("a b -> b a", &[2, 3][..]),
            ("(h two i) ... -> (h i two) ...", &[12, 5]),
            ("c 1 k -> c k", &[7, 1, 4]),
            ("a -> a 1", &[2]),
            ("p[q:] e -> p e", &[9, 2]),
            ("x (two[0] f) e -> x f e", &[2, 6, 5]),
            ("(h s[:d]) e -> h e s", &[21, 2]),
            ("(h s[d:]) e -> h s e", &[21, 2]),
            ("(kv g d) ... -> (kv g[:-2] d) ... + (kv g[-2] d) ... + (kv g[-1] d) ...", &[40, 3]),
            ("(a three d) ... -> (three a d) ...", &[24, 2]),
            ("e (5 r) -> (5[3] r) e + (5[1] r) e + (5[2] r) e + (5[0] r) e + (5[4] r) e", &[7, 15]),
            ("5 r e -> 5[3] e r + 5[1] e r + 5[2] e r + 5[0] e r + 5[4] e r", &[5, 3, 7]),
            ("n 1 (h two i) r -> n[:1] (h two i) r + n (h i two) r", &[2, 1, 12, 5]),
            ("r[:kv] 1 k -> r k & (kv: two b) 1 k -> (b two) k", &[6, 1, 4]),
        ] {
            let parsed = Pattern::parse(pattern).unwrap();
            let moved = parsed.bind(shape, &sizes).unwrap();
            // Lengths that a slice hides are not determined: 3 heads of 4 are the least.
            let expected = if pattern.contains("[:d]") { (vec![12, 2], false) } else { (shape.to_vec(), true) };
            assert_eq!(parsed.source_shape(&moved.shape, &sizes), Some(expected), "{pattern}");
        }
        // Rows that are not taken may be there.
        for (pattern, shape, least) in [
            ("r[0] (two i) -> kv (i two)", &[3, 4][..], &[1, 4][..]),
            ("(kv g) -> (kv g[:d]) + (kv g[d:q])", &[14], &[10]),
        ] {
            let parsed = Pattern::parse(pattern).unwrap();
            let moved = parsed.bind(shape, &sizes).unwrap();
            assert_eq!(parsed.source_shape(&moved.shape, &sizes), Some((least.to_vec(), false)), "{pattern}");
        }
    }

    #[test]
    fn patterns_move_as_in_einops() {
        /// A pattern, a shape, the new shape, and the element order.
        type Case = (&'static str, &'static [u64], &'static [u64], &'static [u64]);
        let cases: &[Case] = &[
            ("a b -> b a", &[2, 3], &[3, 2], &[0, 3, 1, 4, 2, 5]),
            ("(a two) -> (two a)", &[6], &[6], &[0, 2, 4, 1, 3, 5]),
            ("(h two i) -> (h i two)", &[12], &[12], &[0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11]),
            ("(a two) ... -> (two a) ...", &[4, 2], &[4, 2], &[0, 1, 4, 5, 2, 3, 6, 7]),
            ("a 1 k -> a k", &[2, 1, 2], &[2, 2], &[0, 1, 2, 3]),
            ("a -> a 1", &[2], &[2, 1], &[0, 1]),
            ("1... a -> 1 a", &[1, 1, 2], &[1, 2], &[0, 1]),
            ("1... a -> a", &[2], &[2], &[0, 1]),
            ("n 1... a -> a n", &[2, 1, 2], &[2, 2], &[0, 2, 1, 3]),
            ("a (3 r) -> (3[2] r) a + (3[0] r) a + (3[1] r) a", &[2, 3], &[3, 2], &[2, 5, 0, 3, 1, 4]),
            ("x (two[1] f) -> x f", &[2, 4], &[2, 2], &[2, 3, 6, 7]),
            ("(g d) -> g d", &[8], &[2, 4], &[0, 1, 2, 3, 4, 5, 6, 7]),
            ("r[:q] ... -> r ...", &[7, 1], &[5, 1], &[0, 1, 2, 3, 4]),
            ("r -> r[q:] + r[:q]", &[7], &[7], &[5, 6, 0, 1, 2, 3, 4]),
            ("r -> r[q+1:]", &[7], &[1], &[6]),
            ("(kv g) -> (kv g[:-1]) + (kv g[-1])", &[6], &[6], &[0, 1, 3, 4, 2, 5]),
            ("x i o -> x o i", &[1, 2, 2], &[1, 2, 2], &[0, 2, 1, 3]),
            (
                "each kv: (i two) -> (i[:2] two[0]) + (i[:2] two[1]) + (i[2:] two)",
                &[12],
                &[12],
                &[0, 2, 1, 3, 4, 5, 6, 8, 7, 9, 10, 11],
            ),
            ("each kv: (i two) -> (i[:0] two[0]) + (i two)", &[4], &[4], &[0, 1, 2, 3]),
            ("r[0] (two i) -> kv (i two)", &[3, 4], &[2, 4], &[0, 2, 1, 3, 0, 2, 1, 3]),
            ("r[:q] -> r & (q: a two) -> (two a)", &[9], &[9], &[0, 1, 2, 3, 4, 5, 7, 6, 8]),
            (
                "r[:kv] ... -> r ... & (kv: two b) ... -> (b two) ...",
                &[6, 2],
                &[6, 2],
                &[0, 1, 2, 3, 4, 5, 8, 9, 6, 7, 10, 11],
            ),
        ];
        for (pattern, shape, new, order) in cases {
            assert_eq!(moved(pattern, shape), Ok((new.to_vec(), order.to_vec())), "{pattern}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let cases: &[(&str, &[u64], &str)] = &[
            ("a b -> b a", &[2], "expected 2 dimensions"),
            ("a b -> b a", &[2, 3, 4], "expected 2 dimensions"),
            ("(h d) ... -> (d h) ...", &[13, 2], "a multiple of 12 (h × d) in dimension 0"),
            ("e (h x) -> e (x h)", &[2, 8], "a multiple of 3 (h × x) in dimension 1"),
            ("r[9:] -> r", &[7], "the axis r is too short"),
            ("(a b) -> (b a)", &[6], "does not specify the length of a × b"),
            ("a -> b", &[6], "an axis that the left side does not have"),
            ("a b", &[6, 1], "no arrow"),
            ("1... a -> a", &[2, 3], "a multiple of 1 (1) in dimension 0"),
            ("a -> 1... a", &[2], "1... on the right side"),
            ("(a -> a", &[6], "no closing parenthesis"),
        ];
        for (pattern, shape, expected) in cases {
            let found = moved(pattern, shape).unwrap_err().to_string();
            assert!(found.contains(expected), "{pattern}: {found}");
        }
    }
}
