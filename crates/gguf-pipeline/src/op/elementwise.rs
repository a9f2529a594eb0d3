//! Functions of single values, with the rounding of the reference converter.

use gguf_format::GgmlType;
use gguf_quants::float;
use serde::{Deserialize, Serialize};

use crate::cast::{RUN, rounded_to_half, transform};

/// A function of single values with the rounding of the reference converter: it computes in single precision, and rounds every step to half
/// precision if the source is in half precision. Indexes are those of values in the output tensor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Elementwise {
    /// Adds a number.
    Add(#[serde(with = "crate::fleet::bits")] f32),
    /// Multiplies by a number.
    Scale(#[serde(with = "crate::fleet::bits")] f32),
    /// The negated exponential, -exp(x).
    NegExp,
    /// ln(1 + exp(x)), and x above 20 (`torch.nn.functional.softplus`).
    Softplus,
    /// Multiplies the values whose index, modulo `period`, lies in `from..to`.
    ScalePart {
        /// The period, in values.
        period: u64,
        /// The first index.
        from: u64,
        /// The index after the last.
        to: u64,
        /// The factor.
        #[serde(with = "crate::fleet::bits")]
        factor: f32,
    },
    /// Sets values to zero from this index on.
    ZeroFrom(u64),
    /// Sets values to zero before this index.
    ZeroBefore(u64),
    /// The value that a function maps to the given one; see [`Elementwise::inverse`].
    Undo(Invertible),
    /// Divides the values that [`ScalePart`](Elementwise::ScalePart) multiplies.
    UndoPart {
        /// The period, in values.
        period: u64,
        /// The first index.
        from: u64,
        /// The index after the last.
        to: u64,
        /// The factor.
        #[serde(with = "crate::fleet::bits")]
        factor: f32,
    },
}

/// A function that [`Elementwise::Undo`] inverts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Invertible {
    /// [`Elementwise::Add`].
    Add(#[serde(with = "crate::fleet::bits")] f32),
    /// [`Elementwise::Scale`].
    Scale(#[serde(with = "crate::fleet::bits")] f32),
    /// [`Elementwise::NegExp`].
    NegExp,
    /// [`Elementwise::Softplus`].
    Softplus,
}

impl Elementwise {
    /// Applies the function to values, of which the first has the index `first`. `halves`: the values are of half precision.
    ///
    /// `None` for a period of 0.
    #[expect(clippy::cast_possible_truncation, reason = "results in double precision are rounded to single precision")]
    pub(super) fn apply(self, values: &mut [f32], first: u64, halves: bool) -> Option<()> {
        let indexed = values.iter_mut().zip(first..);
        match self {
            Elementwise::Add(addend) => {
                // PyTorch rounds the addend, too.
                let addend = if halves { rounded_to_half(addend) } else { addend };
                values.iter_mut().for_each(|v| *v += addend);
            }
            Elementwise::Scale(factor) => values.iter_mut().for_each(|v| *v *= factor),
            // The power in double precision, rounded, almost always equals the correctly rounded single-precision power.
            Elementwise::NegExp => values.iter_mut().for_each(|v| *v = -(f64::from(*v).exp() as f32)),
            Elementwise::Softplus => values.iter_mut().for_each(|v| *v = softplus(*v)),
            Elementwise::ScalePart { period, from, to, factor } => {
                for (v, index) in indexed {
                    if (from..to).contains(&index.checked_rem(period)?) {
                        *v *= factor;
                    }
                }
            }
            Elementwise::Undo(function) => values.iter_mut().for_each(|v| *v = function.undo(*v)),
            Elementwise::UndoPart { period, from, to, factor } => {
                for (v, index) in indexed {
                    if (from..to).contains(&index.checked_rem(period)?) {
                        *v = Invertible::Scale(factor).undo(*v);
                    }
                }
            }
            Elementwise::ZeroFrom(from) => indexed.filter(|(_, i)| *i >= from).for_each(|(v, _)| *v = 0.0),
            Elementwise::ZeroBefore(to) => indexed.filter(|(_, i)| *i < to).for_each(|(v, _)| *v = 0.0),
        }
        Some(())
    }
}

/// Applies functions to the values of a plain type, one after the other. `mapped` receives values of half precision if the source is in
/// half precision, otherwise of single precision. `first` is the index of the first value in the output.
///
/// `None` for types that are not plain, and for a period of 0.
pub(crate) fn apply_all(
    maps: &[Elementwise],
    ty: GgmlType,
    first: u64,
    packed: &[u8],
    mapped: &mut [u8],
) -> Option<()> {
    let halves = ty == GgmlType::F16;
    let mut rounded = [0; RUN * 2];
    transform(ty, first, packed, mapped, |values, first| {
        for map in maps {
            map.apply(values, first, halves)?;
            if halves {
                float::encode_f16(values, &mut rounded);
                float::decode_f16(&rounded, values);
            }
        }
        Some(())
    })
}

/// [`Elementwise::Softplus`] in double precision, rounded.
#[expect(clippy::cast_possible_truncation, reason = "the result is rounded to single precision")]
fn softplus(x: f32) -> f32 {
    const LINEAR_FROM: f32 = 20.0;
    if x > LINEAR_FROM { x } else { f64::from(x).exp().ln_1p() as f32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_scaled_by_their_place_in_the_output() {
        let values: Vec<f32> = (1..=8).map(|i| i as f32).collect();
        let packed: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let apply = |maps: &[Elementwise], first| {
            let mut out = vec![0; 32];
            apply_all(maps, GgmlType::F32, first, &packed, &mut out)?;
            Some(out.chunks_exact(4).map(|v| f32::from_le_bytes(v.try_into().unwrap())).collect::<Vec<_>>())
        };
        let part = Elementwise::ScalePart { period: 4, from: 1, to: 3, factor: -1.0 };
        assert_eq!(apply(&[part], 0), Some(vec![1.0, -2.0, -3.0, 4.0, 5.0, -6.0, -7.0, 8.0]));
        assert_eq!(apply(&[part], 6), Some(vec![-1.0, 2.0, 3.0, -4.0, -5.0, 6.0, 7.0, -8.0]));
        assert_eq!(apply(&[Elementwise::ZeroFrom(9)], 4), Some(vec![1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 0.0, 0.0]));
        assert_eq!(apply(&[Elementwise::ZeroBefore(6)], 4), Some(vec![0.0, 0.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]));
        assert_eq!(apply(&[Elementwise::ScalePart { period: 0, from: 0, to: 1, factor: 2.0 }], 0), None);
    }

    #[test]
    fn softplus_is_rounded_once_and_linear_for_large_values() {
        for (x, expected) in
            [(0.0, std::f32::consts::LN_2), (25.0, 25.0), (-1.0, 0.313_261_7), (-110.0, 0.0), (20.0, 20.0)]
        {
            assert_eq!(softplus(x), expected, "{x}");
        }
    }

    /// The values of PyTorch: the addend, too, is rounded to half precision.
    #[test]
    fn sums_of_halves_have_halves_as_addends() {
        let values = [1.0f32, 0.3, -0.2, 0.0];
        let mut halves = vec![0; 8];
        float::encode_f16(&values, &mut halves);
        let mut out = vec![0; 8];
        apply_all(&[Elementwise::Add(0.2)], GgmlType::F16, 0, &halves, &mut out).unwrap();
        let mut sums = [0f32; 4];
        float::decode_f16(&out, &mut sums);
        // 0.2 is 0.199951171875 in half precision.
        assert_eq!(sums, [1.2001953, 0.5, 0.0, 0.199_951_17]);
    }
}
