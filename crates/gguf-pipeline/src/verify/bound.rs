//! The error that a quantization explains.
//!
//! A quantized value is one of a few levels, which the block determines. An encoder rounds to a near level, but chooses the levels itself:
//! it may weight errors, and stores scales rounded. So the file's own levels are taken as given, and the bound is derived from them.
//!
//! * Types with levels at (nearly) equal distances, of a scale and a minimum for each group of values: inside the range of the levels, an
//!   error is at most one step, the distance between two levels. Half a step is the rounding; the other half is the difference between the
//!   scale that the search rounded with and the scale that is stored. Beyond the range, a value becomes the last level. The searches of ggml
//!   extend the range by less than one step (the candidates of `make_qx_quants` and `make_qkx3_quants` scale the largest value to at most
//!   0.9 steps more than the last level; the level opposite to it is missing, which is one more), and then fit the scale by least
//!   squares: two steps. The scales of groups are themselves quantized, with an error of half their unit, times the number of the level:
//!   of groups with far smaller values than their block, this is most of the error. A sixteenth of the values of a block may have larger
//!   errors: an importance matrix may give them so little weight that the fit of the scale ignores them.
//! * All types, and those that store points of a grid, or signs, in which errors of single values have no bound: the squares of the errors
//!   are at most three quarters of the squares of the values. A scale fitted by least squares leaves less than all of them for any point,
//!   and the nearest points leave from a thirtieth (3 bits) to four tenths (1 bit). The values of another tensor leave more than all.
//! * Values that are computed by functions of a library, such as the exponentials of state-space models, are plain numbers. Libraries round them
//!   to one of the numbers next to the exact value, so two of them differ by a few units in the last place.
//!
//! A block that is within the bound may still be damaged: compare bytes for that.

use gguf_format::GgmlType;
use gguf_quants::codec::{Codec, CodecError, codec};
use gguf_quants::float::f16_to_f32;

/// The largest part of the squares of values that errors may have in a type without steps.
pub const PART_OF_SQUARES: f32 = 0.75;

/// The part of a block's values whose errors have no bound but that of the squares.
const UNWEIGHTED: usize = 16;

/// Units in the last place by which libraries differ: two for `exp`, and two for `log1p` of it.
const LAST_PLACES: f32 = 4.0;

/// Steps inside the range of the levels.
const INSIDE: f32 = 1.0;

/// Steps beyond the range of the levels.
const BEYOND: f32 = 2.0;

/// The bound of a type.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    codec: &'static Codec,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Steps(&'static Levels),
    Squares,
    /// The last place of a number, as a part of it.
    LastPlace(f32),
}

/// The levels of a type.
#[derive(Debug)]
struct Levels {
    ty: GgmlType,
    /// The bytes of a block with the numbers of levels: from, to.
    numbers: (usize, usize),
    /// The levels for numbers of only zero bits and of only one bits, and the lowest and the highest, in units of the scale.
    zeros: f32,
    ones: f32,
    lowest: f32,
    highest: f32,
    /// The largest distance between two levels.
    step: f32,
    /// The units of scales and of minimums of groups, as the offset of the half-precision number in the block.
    units: &'static [Unit],
}

/// A number by which the scales or minimums of groups are multiplied.
#[derive(Debug)]
struct Unit {
    offset: usize,
    /// The error of a value, in the unit: half of it, times the number of the level.
    error: f32,
}

macro_rules! levels {
    ($($ty:ident [$from:literal, $to:literal] $zeros:literal $ones:literal in $low:literal..$high:literal by $step:literal
        $(units $($offset:literal * $error:literal)*)?;)*) => {
        const LEVELS: &[Levels] = &[$(Levels {
            ty: GgmlType::$ty,
            numbers: ($from, $to),
            zeros: $zeros, ones: $ones, lowest: $low, highest: $high, step: $step,
            units: &[$($(Unit { offset: $offset, error: $error }),*)?],
        }),*];
    };
}

// The layouts of blocks are those of `ggml-common.h`; the levels are those of the decoders in `ggml-quants.c`.
levels! {
    Q4_0   [2, 18]   -8.0 7.0 in -8.0..7.0 by 1.0;
    Q4_1   [4, 20]   0.0 15.0 in 0.0..15.0 by 1.0;
    Q5_0   [2, 22]   -16.0 15.0 in -16.0..15.0 by 1.0;
    Q5_1   [4, 24]   0.0 31.0 in 0.0..31.0 by 1.0;
    Q8_0   [2, 34]   0.0 -1.0 in -128.0..127.0 by 1.0;
    Q2_K   [16, 80]  0.0 3.0 in 0.0..3.0 by 1.0 units 80 * 1.5 82 * 0.5;
    Q3_K   [0, 96]   -4.0 3.0 in -4.0..3.0 by 1.0 units 108 * 2.0;
    Q4_K   [16, 144] 0.0 15.0 in 0.0..15.0 by 1.0 units 0 * 7.5 2 * 0.5;
    Q5_K   [16, 176] 0.0 31.0 in 0.0..31.0 by 1.0 units 0 * 15.5 2 * 0.5;
    Q6_K   [0, 192]  -32.0 31.0 in -32.0..31.0 by 1.0 units 208 * 16.0;
    IQ4_NL [2, 18]   -127.0 113.0 in -127.0..113.0 by 24.0;
    IQ4_XS [8, 136]  -127.0 113.0 in -127.0..113.0 by 24.0 units 0 * 63.5;
    TQ1_0  [0, 52]   -1.0 1.0 in -1.0..1.0 by 1.0;
    TQ2_0  [0, 64]   -1.0 2.0 in -1.0..2.0 by 1.0;
    Q2_0   [2, 18]   -1.0 2.0 in -1.0..2.0 by 1.0;
    MXFP4  [1, 17]   0.0 -6.0 in -6.0..6.0 by 2.0;
    NVFP4  [4, 36]   0.0 -6.0 in -6.0..6.0 by 2.0;
}

impl Bound {
    /// The bound of a quantized type, or of values of a float type that a function of a library computes; `None` for other types.
    pub fn of(ty: GgmlType) -> Option<Bound> {
        let codec = codec(ty)?;
        let kind = match ty {
            GgmlType::F32 => Kind::LastPlace(f32::EPSILON),
            GgmlType::F16 => Kind::LastPlace(1.0 / 1024.0),
            GgmlType::BF16 => Kind::LastPlace(1.0 / 128.0),
            _ if !ty.is_quantized() => return None,
            _ => LEVELS.iter().find(|levels| levels.ty == ty).map_or(Kind::Squares, Kind::Steps),
        };
        Some(Bound { codec, kind })
    }

    /// The largest error of a block's values as a part of its bound: at most 1 if the quantization explains it. `packed` is the block,
    /// `values` are its values, and `planned` those that were encoded.
    ///
    /// # Errors
    /// If the block cannot be decoded.
    pub fn error(&self, planned: &[f32], values: &[f32], packed: &[u8]) -> Result<f32, CodecError> {
        let squares = || part_of_squares(planned, values) / PART_OF_SQUARES;
        match self.kind {
            Kind::Steps(levels) => Ok(squares().max(self.error_in_steps(levels, planned, values, packed)?)),
            Kind::Squares => Ok(squares()),
            Kind::LastPlace(unit) => Ok(error_in_last_places(unit, planned, values) / LAST_PLACES),
        }
    }

    /// The largest error as a part of its bound, apart from those of a sixteenth of the values.
    fn error_in_steps(
        &self,
        levels: &Levels,
        planned: &[f32],
        values: &[f32],
        packed: &[u8],
    ) -> Result<f32, CodecError> {
        // The levels of each value: of a block with the same scales, whose numbers are all the same.
        const LONGEST: usize = 256;
        let (mut block, [mut zeros, mut ones, mut parts]) = ([0u8; LONGEST], [[0f32; LONGEST]; 3]);
        let n = values.len();
        let (Some(block), Some(zeros), Some(ones), Some(parts)) =
            (block.get_mut(..packed.len()), zeros.get_mut(..n), ones.get_mut(..n), parts.get_mut(..n))
        else {
            return Ok(f32::INFINITY);
        };
        block.copy_from_slice(packed);
        for (bits, out) in [(0, &mut *zeros), (0xff, &mut *ones)] {
            if let Some(numbers) = block.get_mut(levels.numbers.0..levels.numbers.1) {
                numbers.fill(bits);
            }
            self.codec.decode(block, out)?;
        }
        let unit = |unit: &Unit| match packed.get(unit.offset..) {
            Some([low, high, ..]) => f16_to_f32(u16::from_le_bytes([*low, *high])).abs() * unit.error,
            _ => 0.0,
        };
        let rounded_scales: f32 = levels.units.iter().map(unit).sum();
        let levels_of = zeros.iter().zip(&*ones);
        for (part, ((planned, value), (zero, one))) in parts.iter_mut().zip(planned.iter().zip(values).zip(levels_of)) {
            let scale = (one - zero) / (levels.ones - levels.zeros);
            let level = |n: f32| zero + (n - levels.zeros) * scale;
            let (a, b) = (level(levels.lowest), level(levels.highest));
            let (low, high) = (a.min(b), a.max(b));
            let step = scale.abs() * levels.step;
            let (error, bound) = match (low..=high).contains(planned) {
                true => ((planned - value).abs(), INSIDE * step),
                // From the nearest end; no `clamp`, because levels may not be numbers.
                false => {
                    let end = planned.max(low).min(high);
                    ((planned - end).abs().max((value - end).abs()), BEYOND * step + rounded_scales)
                }
            };
            // NaN, of values or levels that are not finite, is the largest.
            *part = if error <= f32::EPSILON * planned.abs() { 0.0 } else { error / bound };
        }
        let Some(counted) = n.checked_sub(n / UNWEIGHTED + 1) else { return Ok(0.0) };
        let (_, largest, _) = parts.select_nth_unstable_by(counted, f32::total_cmp);
        Ok(if largest.is_nan() { f32::INFINITY } else { *largest })
    }
}

/// The largest error in units of the last place.
fn error_in_last_places(unit: f32, planned: &[f32], values: &[f32]) -> f32 {
    let error = |(x, y): (&f32, &f32)| match (x - y).abs() / (x.abs() * unit) {
        _ if x == y => 0.0,
        error if error.is_nan() => f32::INFINITY,
        error => error,
    };
    planned.iter().zip(values).map(error).fold(0.0, f32::max)
}

/// The squares of errors as a part of the squares of values.
pub fn part_of_squares(planned: &[f32], values: &[f32]) -> f32 {
    let squares: f32 = planned.iter().map(|x| x * x).sum();
    let errors: f32 = planned.iter().zip(values).map(|(x, y)| (x - y) * (x - y)).sum();
    match errors {
        0.0 => 0.0,
        errors if errors.is_finite() && squares > 0.0 => errors / squares,
        _ => f32::INFINITY,
    }
}
