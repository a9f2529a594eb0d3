//! The inverse of operations: the sources of a tensor, restored from its values.

use super::elementwise::{Elementwise, Invertible};
use super::{Inverse, Op};
use crate::cast::rounded_to_half;
use crate::moves::{Axis, Move};

/// The sources of an operation, as far as its tensor holds them.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Restored {
    /// What the tensor holds of each source, in the order of [`Op::inputs`].
    pub parts: Vec<RestoredPart>,
    /// The extent to which the sources are restored.
    pub extent: Inverse,
}

/// The elements of a source that a tensor holds.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct RestoredPart {
    /// The moves from the tensor, their input 0, to the source. They need not fill it: other tensors may hold the rest.
    pub moves: Vec<Move>,
    /// The functions that restore the values, in this order.
    pub maps: Vec<Elementwise>,
}

impl Op {
    /// The inverse of the operation, for a tensor of `n_elements` values and sources whose numbers of elements `source_len` gives by their
    /// place among the inputs. `None` if the values of the sources do not follow from those of the tensor, as for sums and products.
    ///
    /// ```
    /// use gguf_format::GgmlType;
    /// use gguf_pipeline::plan::{Elementwise, Gather, Input, Inverse, Op};
    /// use gguf_pipeline::moves::{Axis, Move};
    ///
    /// // A transposed matrix of 2 rows and 3 columns.
    /// let axes = vec![Axis { count: 2, from: 3, to: 1 }, Axis { count: 3, from: 1, to: 2 }];
    /// let moves = vec![Move { input: 0, from: 0, to: 0, axes }];
    /// let inputs = vec![Input::new(0, "matrix", GgmlType::F32)];
    /// let op = Op::Gather(Box::new(Gather { inputs, moves, maps: vec![Elementwise::Scale(2.0)] }));
    ///
    /// let restored = op.restored(6, |_| 6).expect("every element has a place");
    /// assert_eq!(restored.extent, Inverse::Rounded);
    /// assert_eq!(restored.parts[0].moves[0].axes[0], Axis { count: 2, from: 1, to: 3 });
    /// ```
    pub fn restored(&self, n_elements: u64, source_len: impl Fn(usize) -> u64) -> Option<Restored> {
        let gather = match self {
            Op::Copy(_) | Op::Narrow(_) => {
                let part = RestoredPart { moves: vec![whole(n_elements)], maps: Vec::new() };
                return Some(Restored { parts: vec![part], extent: Inverse::Exact });
            }
            Op::Gather(gather) => gather,
            // The values stand for those that were rounded.
            Op::RoundToMean(round) => &round.values,
            _ => return None,
        };
        let is_in_order = matches!(gather.moves.as_slice(), [only] if only.from == 0 && only.to == 0
            && only.axes.iter().all(|axis| axis.from == axis.to));
        let zero_from = gather.maps.iter().filter_map(|map| match map {
            Elementwise::ZeroFrom(from) => Some(*from),
            _ => None,
        });
        let zero_from = zero_from.min().unwrap_or(u64::MAX);
        let zero_before = gather.maps.iter().filter_map(|map| match map {
            Elementwise::ZeroBefore(to) => Some(*to),
            _ => None,
        });
        let zero_before = zero_before.max().unwrap_or(0);
        let end = |item: &Move| {
            let reaches = item.axes.iter().map(|axis| axis.count.saturating_sub(1).saturating_mul(axis.to));
            item.to.saturating_add(reaches.fold(1, u64::saturating_add))
        };
        let mut parts = vec![RestoredPart::default(); gather.inputs.len()];
        let mut left: Vec<u64> = (0..gather.inputs.len()).map(source_len).collect();
        let mut is_lost = matches!(self, Op::RoundToMean(_));
        for item in gather.moves.iter().filter(|item| item.to < zero_from && end(item) > zero_before) {
            is_lost |= item.to < zero_before;
            let mut inverse = item.inverse(0);
            // Of repeated elements, the first are taken.
            inverse.axes.retain(|axis| axis.to != 0 || axis.count == 0);
            let n = inverse.n_elements();
            parts.get_mut(item.input)?.moves.push(inverse);
            let left = left.get_mut(item.input)?;
            *left = left.saturating_sub(n);
        }
        let mut maps = Vec::new();
        for map in gather.maps.iter().rev() {
            match map.inverse() {
                Some(Elementwise::UndoPart { .. }) if !is_in_order => return None,
                Some(inverse) => maps.push(inverse),
                // Moves of which zeros replaced all values are left out.
                None => {}
            }
        }
        for part in &mut parts {
            part.maps.clone_from(&maps);
        }
        let extent = match (is_lost || left.iter().any(|n| *n > 0), maps.is_empty()) {
            (true, _) => Inverse::Lost,
            (false, true) => Inverse::Exact,
            (false, false) => Inverse::Rounded,
        };
        Some(Restored { parts, extent })
    }
}

/// The move of all elements in their order.
fn whole(n: u64) -> Move {
    Move { input: 0, from: 0, to: 0, axes: vec![Axis { count: n, from: 1, to: 1 }] }
}

impl Elementwise {
    /// The function that restores the values; `None` if it is lost which they were.
    pub fn inverse(self) -> Option<Elementwise> {
        Some(match self {
            Elementwise::Add(addend) => Elementwise::Undo(Invertible::Add(addend)),
            Elementwise::Scale(factor) => Elementwise::Undo(Invertible::Scale(factor)),
            Elementwise::NegExp => Elementwise::Undo(Invertible::NegExp),
            Elementwise::Softplus => Elementwise::Undo(Invertible::Softplus),
            Elementwise::ScalePart { period, from, to, factor } => Elementwise::UndoPart { period, from, to, factor },
            Elementwise::Undo(Invertible::Add(addend)) => Elementwise::Add(addend),
            Elementwise::Undo(Invertible::Scale(factor)) => Elementwise::Scale(factor),
            Elementwise::Undo(Invertible::NegExp) => Elementwise::NegExp,
            Elementwise::Undo(Invertible::Softplus) => Elementwise::Softplus,
            Elementwise::UndoPart { period, from, to, factor } => Elementwise::ScalePart { period, from, to, factor },
            Elementwise::ZeroFrom(_) | Elementwise::ZeroBefore(_) => return None,
        })
    }
}

/// The number of neighbours on each side that are tried for a value.
const NEIGHBOURS: u32 = 4;

impl Invertible {
    /// The function that is inverted.
    fn function(self) -> Elementwise {
        match self {
            Invertible::Add(addend) => Elementwise::Add(addend),
            Invertible::Scale(factor) => Elementwise::Scale(factor),
            Invertible::NegExp => Elementwise::NegExp,
            Invertible::Softplus => Elementwise::Softplus,
        }
    }

    /// The value that the function maps to `value`, if there is one: the shortest of bfloat16, half and single precision; else the nearest.
    #[expect(clippy::cast_possible_truncation, reason = "results in double precision are rounded to single precision")]
    pub(super) fn undo(self, value: f32) -> f32 {
        let wide = f64::from(value);
        let guess = match self {
            Invertible::Add(addend) => (wide - f64::from(addend)) as f32,
            Invertible::Scale(factor) => (wide / f64::from(factor)) as f32,
            Invertible::NegExp => (-wide).ln() as f32,
            Invertible::Softplus if value > 20.0 => value,
            Invertible::Softplus => wide.exp_m1().ln() as f32,
        };
        if !guess.is_finite() {
            return guess;
        }
        let function = self.function();
        let is_right = |candidate: &f32| {
            let mut mapped = [*candidate];
            function.apply(&mut mapped, 0, false).is_some() && mapped == [value]
        };
        let near = |distance: u32| {
            let bits = guess.to_bits();
            [f32::from_bits(bits.wrapping_add(distance)), f32::from_bits(bits.wrapping_sub(distance))]
        };
        let short = [rounded_to_bf16(guess), rounded_to_half(guess), guess];
        let mut candidates = short.into_iter().chain((1..=NEIGHBOURS).flat_map(near));
        candidates.find(is_right).unwrap_or(guess)
    }
}

/// The nearest bfloat16, of two the even one.
fn rounded_to_bf16(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(bits.wrapping_add(0x7fff + (bits >> 16 & 1)) & 0xffff_0000)
}

#[cfg(test)]
mod tests {
    use gguf_format::GgmlType;

    use super::*;
    use crate::op::{Gather, Input};

    fn gather(moves: Vec<Move>, maps: Vec<Elementwise>) -> Op {
        Op::Gather(Box::new(Gather { inputs: vec![Input::new(0, "x", GgmlType::F32)], moves, maps }))
    }

    #[test]
    fn functions_are_undone_to_the_bit() {
        let functions = [Invertible::Add(1.0), Invertible::Scale(0.3), Invertible::NegExp, Invertible::Softplus];
        for function in functions {
            for i in 1..2000u16 {
                // A bfloat16 between 2^-9 and 4, of either sign.
                let bits = (0x3b00 + i % 0x0580) | if i % 2 == 0 { 0x8000 } else { 0 };
                let x = f32::from_bits(u32::from(bits) << 16);
                let mut y = [x];
                function.function().apply(&mut y, 0, false).unwrap();
                assert_eq!(function.undo(y[0]).to_bits(), x.to_bits(), "{function:?} of {x}");
            }
        }
    }

    #[test]
    fn a_value_without_a_source_gets_the_nearest() {
        assert_eq!(Invertible::NegExp.undo(0.0), f32::NEG_INFINITY);
        assert!(Invertible::NegExp.undo(1.0).is_nan());
        assert!((Invertible::Scale(3.0).undo(1.0) - 1.0 / 3.0).abs() < 1e-7);
    }

    #[test]
    fn what_is_missing_or_repeated_is_known() {
        let half = Move { input: 0, from: 2, to: 0, axes: vec![Axis { count: 2, from: 1, to: 1 }] };
        let restored = gather(vec![half.clone()], Vec::new()).restored(2, |_| 4).unwrap();
        assert_eq!((restored.extent, restored.parts[0].moves[0].to), (Inverse::Lost, 2));
        let repeated = Move { axes: vec![Axis { count: 3, from: 0, to: 2 }, half.axes[0]], ..half };
        let restored = gather(vec![repeated], Vec::new()).restored(6, |_| 2).unwrap();
        assert_eq!((restored.extent, restored.parts[0].moves[0].n_elements()), (Inverse::Exact, 2));
    }

    #[test]
    fn appended_zeros_are_left_out() {
        let own = whole(4);
        let zeros = Move { input: 0, from: 0, to: 4, axes: vec![Axis { count: 2, from: 0, to: 1 }] };
        let op = gather(vec![own.clone(), zeros], vec![Elementwise::ZeroFrom(4)]);
        let restored = op.restored(6, |_| 4).unwrap();
        assert_eq!((restored.extent, restored.parts[0].moves.as_slice()), (Inverse::Exact, &[own][..]));
    }

    #[test]
    fn a_part_that_zeros_replace_is_left_out() {
        // The first row is repeated before the whole, and becomes zero.
        let first = Move { input: 0, from: 0, to: 0, axes: vec![Axis { count: 2, from: 1, to: 1 }] };
        let all = Move { input: 0, from: 0, to: 2, axes: vec![Axis { count: 4, from: 1, to: 1 }] };
        let moves = vec![first, all.clone()];
        let restored = gather(moves.clone(), vec![Elementwise::ZeroBefore(2)]).restored(6, |_| 4).unwrap();
        assert_eq!((restored.extent, restored.parts[0].moves.as_slice()), (Inverse::Exact, &[all.inverse(0)][..]));
        // Zeros in place of values of the second part are a loss.
        let restored = gather(moves, vec![Elementwise::ZeroBefore(3)]).restored(6, |_| 4).unwrap();
        assert_eq!(restored.extent, Inverse::Lost);
    }

    #[test]
    fn parts_are_undone_where_elements_keep_their_places() {
        let part = Elementwise::ScalePart { period: 4, from: 0, to: 2, factor: 3.0 };
        assert!(gather(vec![whole(4)], vec![part]).restored(4, |_| 4).is_some());
        let axes = vec![Axis { count: 2, from: 2, to: 1 }, Axis { count: 2, from: 1, to: 2 }];
        let transposed = Move { input: 0, from: 0, to: 0, axes };
        assert_eq!(gather(vec![transposed], vec![part]).restored(4, |_| 4), None);
        assert_eq!(Op::Computed(vec![1.0]).restored(1, |_| 0), None);
    }
}
