//! The vector vocabulary: all vector operations of the kernels, each defined by its scalar expression.
//!
//! A kernel is written once, over [`Lanes`], and handles [`Lanes::N`] blocks side by side, one per lane; each lane performs
//! the reference's operations in the reference's order, so every instruction set gives the same bits. Nothing here fuses
//! a multiplication with an addition, reorders a sum or adds across lanes.
//!
//! A value of a type that implements [`Lanes`] proves that the CPU has the instructions: it can only be created after a check
//! (`dispatch.rs`), and vectors can only be created with it. That is why the kernels are safe code.
//!
//! Kernels and the functions they call must be `#[inline(always)]`, and must not pass vectors through closures or through functions of the
//! standard library (`map`, `from_fn`): only code inlined into the entry of an instruction set is compiled for it.
//!
//! The scalar code to which a kernel leaves unusual blocks is `#[inline(never)]`. It has a single compiled form, so even its results for
//! several NaNs, which depend on the order of operands, are the same for all callers.

use core::fmt::Debug;
use core::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

#[macro_use]
mod table;

pub(crate) mod arrays;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
pub(crate) mod neon;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(crate) mod simd128;
#[cfg(target_arch = "x86_64")]
pub(crate) mod sse41;
#[cfg(test)]
mod tests;
pub(crate) mod twice;

/// The maximum number of lanes; buffers of one value per lane have this length.
pub const MAX_LANES: usize = 32;

/// One instruction set.
pub trait Lanes: Copy + Debug {
    /// Lanes of a vector; a power of two, at most [`MAX_LANES`].
    const N: usize;
    /// Whether two vectors in step hide the latency of dependent sums.
    const PAIRS_ARE_FASTER: bool = true;
    /// `N` single-precision numbers.
    type F: Floats<I = Self::I, M = Self::M>;
    /// `N` 32-bit integers, signed or unsigned depending on the operation.
    type I: Ints<F = Self::F, M = Self::M>;
    /// `N` truth values.
    type M: Masks<F = Self::F, I = Self::I>;
    /// A table of four numbers; see [`Lanes::lookup4`].
    type Table4: Copy;
    /// A table of eight numbers.
    type Table8: Copy;
    /// A table of sixteen numbers.
    type Table16: Copy;

    /// Eight lanes of this instruction set, or of one that every machine with it has: for parts that have work for eight.
    type Eight: Lanes;

    /// The witness for [`Lanes::Eight`].
    fn eight(self) -> Self::Eight;

    /// Runs a part of a kernel as a separate function, compiled for this instruction set. Kernels are entered this way, and large or shared
    /// parts are compiled once.
    fn call<P: Part<Self>>(self, part: P) -> P::Output;

    /// Runs a part that has work for eight lanes or more: with this instruction set if it has more than eight, with [`Lanes::Eight`] otherwise.
    #[inline(always)]
    fn call_wide<T, P: Part<Self, Output = T> + Part<Self::Eight, Output = T>>(self, part: P) -> T {
        if Self::N > 8 { self.call(part) } else { self.eight().call(part) }
    }

    /// `x` in every lane.
    fn splat(self, x: f32) -> Self::F;
    /// `x` in every lane.
    fn splat_i(self, x: i32) -> Self::I;
    /// Lane `i` is bit `i`.
    fn mask(self, bits: u32) -> Self::M;
    /// The first `N` elements of the slice; panics if there are fewer.
    fn load(self, from: &[f32]) -> Self::F;
    /// The first `N` elements of the slice; panics if there are fewer.
    fn load_i(self, from: &[i32]) -> Self::I;
    /// The first `N` elements of the slice, zero-extended.
    fn load_u8(self, from: &[u8]) -> Self::I;
    /// The first `N` elements of the slice, sign-extended.
    fn load_i8(self, from: &[u8]) -> Self::I;
    /// The first `N` elements of the slice, zero-extended.
    fn load_u16(self, from: &[u16]) -> Self::I;
    /// Lane `i` is the little-endian number at byte `2 i`, zero-extended; panics if there are fewer than `2 N` bytes.
    #[inline(always)]
    fn load_le16(self, from: &[u8]) -> Self::I {
        let from = &from.as_chunks::<2>().0[..Self::N];
        let mut words = [0; MAX_LANES];
        for i in 0..Self::N {
            words[i] = u16::from_le_bytes(from[i]);
        }
        self.load_u16(&words)
    }
    /// Lane `i` is the little-endian number at byte `4 i`; panics if there are fewer than `4 N` bytes.
    #[inline(always)]
    fn load_le32(self, from: &[u8]) -> Self::I {
        let from = &from.as_chunks::<4>().0[..Self::N];
        let mut words = [0; MAX_LANES];
        for i in 0..Self::N {
            words[i] = i32::from_le_bytes(from[i]);
        }
        self.load_i(&words)
    }
    /// Stores the low half of lane `i` at byte `2 i`, little-endian; panics if there are fewer than `2 N` bytes.
    #[inline(always)]
    fn store_le16(self, x: Self::I, to: &mut [u8]) {
        let to = &mut to.as_chunks_mut::<2>().0[..Self::N];
        let mut words = [0; MAX_LANES];
        x.store(&mut words);
        for i in 0..Self::N {
            to[i] = (words[i] as u16).to_le_bytes();
        }
    }
    /// Stores lane `i` at byte `4 i`, little-endian; panics if there are fewer than `4 N` bytes.
    #[inline(always)]
    fn store_le32(self, x: Self::I, to: &mut [u8]) {
        let to = &mut to.as_chunks_mut::<4>().0[..Self::N];
        let mut words = [0; MAX_LANES];
        x.store(&mut words);
        for i in 0..Self::N {
            to[i] = words[i].to_le_bytes();
        }
    }
    /// [`f16_to_f32_ggml`](crate::float::f16_to_f32_ggml) of one number.
    fn half(self, bits: u16) -> f32;
    /// [`Lanes::half`] in every lane; in a loop this is faster than a splat of the scalar, which adds a dependency.
    #[inline(always)]
    fn splat_half(self, bits: u16) -> Self::F {
        self.splat(self.half(bits))
    }
    /// Lane `i` is `f16_to_f32_ggml` of the little-endian half at byte `2 i`.
    fn load_half(self, from: &[u8]) -> Self::F;
    /// Stores [`f32_to_f16_ggml`](crate::float::f32_to_f16_ggml) of lane `i` at byte `2 i`, little-endian; panics if there are fewer than
    /// `2 N` bytes.
    #[inline(always)]
    fn store_half(self, x: Self::F, to: &mut [u8]) {
        self.store_le16(to_half(self, x), to);
    }
    /// Lane `i` is `table[min(index[i] as u32, table.len() - 1)]`; the table must not be empty.
    fn gather(self, table: &[f32], index: Self::I) -> Self::F;
    /// Lane `i` is `table[min(index[i] as u32, table.len() - 1)]`; the table must not be empty.
    fn gather_i(self, table: &[i32], index: Self::I) -> Self::I;
    /// Prepares [`Lanes::lookup4`].
    fn table4(self, values: &[f32; 4]) -> Self::Table4;
    /// Lane `i` is `values[index[i] & 3]`.
    fn lookup4(self, table: Self::Table4, index: Self::I) -> Self::F;
    /// Prepares [`Lanes::lookup8`].
    fn table8(self, values: &[f32; 8]) -> Self::Table8;
    /// Lane `i` is `values[index[i] & 7]`.
    fn lookup8(self, table: Self::Table8, index: Self::I) -> Self::F;
    /// Prepares [`Lanes::lookup16`].
    fn table16(self, values: &[f32; 16]) -> Self::Table16;
    /// Lane `i` is `values[index[i] & 15]`.
    fn lookup16(self, table: Self::Table16, index: Self::I) -> Self::F;

    /// `sums[i] += x[i]`, in double precision; panics if there are fewer than `N` sums.
    #[inline(always)]
    fn add_doubles(self, x: Self::F, sums: &mut [f64]) {
        let sums = &mut sums[..Self::N];
        let mut lane = [0.0; MAX_LANES];
        x.store(&mut lane);
        for i in 0..Self::N {
            sums[i] += f64::from(lane[i]);
        }
    }
    /// `sums[i] += (x[i] - from)²`, in double precision; panics if there are fewer than `N` sums.
    #[inline(always)]
    fn add_squares(self, x: Self::F, from: f64, sums: &mut [f64]) {
        let sums = &mut sums[..Self::N];
        let mut lane = [0.0; MAX_LANES];
        x.store(&mut lane);
        for i in 0..Self::N {
            let distance = f64::from(lane[i]) - from;
            sums[i] += distance * distance;
        }
    }
    /// Element `i` is `(x[i] - from) * scale`, in double precision, or `last` if that is less, truncated; panics if there is room for fewer
    /// than `N`. Only for numbers from 0 to `i32::MAX`.
    #[inline(always)]
    fn places(self, x: Self::F, from: f64, scale: f64, last: f64, to: &mut [i32]) {
        let to = &mut to[..Self::N];
        let mut lane = [0.0; MAX_LANES];
        x.store(&mut lane);
        for i in 0..Self::N {
            let at = (f64::from(lane[i]) - from) * scale;
            to[i] = (if at < last { at } else { last }) as i32;
        }
    }

    /// Lane `i` is lane `i / 4 * 4 + (index[i] & 3)` of the table. This and the following methods process lanes in groups of eight; `N` must
    /// be a multiple of 8.
    #[inline(always)]
    fn pick4(self, table: Self::F, index: Self::I) -> Self::F {
        self.load(&pick::<Self>(table, index, 4))
    }
    /// Lane `i` is lane `index[i] & 7` of the table, whose groups of eight are equal.
    #[inline(always)]
    fn pick8(self, table: Self::F, index: Self::I) -> Self::F {
        self.load(&pick::<Self>(table, index, 8))
    }
    /// Lane `i` is lane `index[i] & 7` of the two, one after the other; `N` must be 4. Implements [`Lanes::pick8`] for pairs.
    #[inline(always)]
    fn pick_of_two(self, low: Self::F, high: Self::F, index: Self::I) -> Self::F {
        let (mut from, mut at, mut to) = ([0.0; MAX_LANES], [0; MAX_LANES], [0.0; MAX_LANES]);
        low.store(&mut from);
        high.store(&mut from[Self::N..]);
        index.store(&mut at);
        for i in 0..Self::N {
            to[i] = from[at[i] as usize & 7];
        }
        self.load(&to)
    }
    /// Lane `i` is the smallest, as signed, of the eight lanes from `i / 8 * 8`.
    #[inline(always)]
    fn least_of_eight(self, x: Self::I) -> Self::I {
        let mut lane = [0; MAX_LANES];
        x.store(&mut lane);
        for eight in lane[..Self::N].as_chunks_mut::<8>().0 {
            let mut least = eight[0];
            for &x in &eight[1..] {
                least = least.min(x);
            }
            *eight = [least; 8];
        }
        self.load_i(&lane)
    }

    /// Transposes the sub-blocks number `part`, of `PART` values, of rows of `LEN` as [`columns`](Lanes::columns) does, in a separate function:
    /// for kernels that transpose in several places and spend most of their time elsewhere.
    #[inline(always)]
    fn columns_apart<const LEN: usize, const PART: usize>(
        self,
        rows: &[&[f32; LEN]; MAX_LANES],
        part: usize,
    ) -> [Self::F; PART] {
        self.call(Columns { rows, part })
    }

    /// Transposes rows: element `j`, lane `i` is `rows[i][j]`. Uses the first `N` rows; panics if there are fewer.
    #[inline(always)]
    fn columns<const LEN: usize>(self, rows: &[&[f32; LEN]]) -> [Self::F; LEN] {
        let rows = &rows[..Self::N];
        let mut columns = [self.splat(0.0); LEN];
        let mut lane = [0.0; MAX_LANES];
        for j in 0..LEN {
            for i in 0..Self::N {
                lane[i] = rows[i][j];
            }
            columns[j] = self.load(&lane);
        }
        columns
    }
}

/// Sub-block number `part`, of `PART` values, of each lane.
#[inline(always)]
pub(crate) fn part<'a, const LEN: usize, const PART: usize>(
    rows: &[&'a [f32; LEN]; MAX_LANES],
    part: usize,
) -> [&'a [f32; PART]; MAX_LANES] {
    let mut parts = [&rows[0].as_chunks::<PART>().0[part]; MAX_LANES];
    for lane in 0..MAX_LANES {
        parts[lane] = &rows[lane].as_chunks::<PART>().0[part];
    }
    parts
}

/// The transposition of sub-blocks.
struct Columns<'a, const LEN: usize, const PART: usize> {
    rows: &'a [&'a [f32; LEN]; MAX_LANES],
    part: usize,
}

impl<L: Lanes, const LEN: usize, const PART: usize> Part<L> for Columns<'_, LEN, PART> {
    type Output = [L::F; PART];

    #[inline(always)]
    fn run(self, lanes: L) -> Self::Output {
        lanes.columns(&part::<LEN, PART>(self.rows, self.part))
    }
}

/// [`f16_to_f32_ggml`](crate::float::f16_to_f32_ggml) of the half in each lane, for instruction sets without the conversion.
#[allow(dead_code, reason = "machines for which no instruction set is written here do not call it")]
#[inline(always)]
fn halves_to_floats<L: Lanes>(lanes: L, half: L::I) -> L::F {
    let infinity = lanes.splat_i(0x7c00 << 13);
    let sign = (half & lanes.splat_i(0x8000)).shl::<16>();
    let magnitude = (half & lanes.splat_i(0x7fff)).shl::<13>();
    let normal = magnitude + lanes.splat_i(112 << 23);
    // The fraction under the exponent of 2^-14, minus the implicit one that came with it.
    let two_to_minus_14 = lanes.splat_i(113 << 23);
    let subnormal = (magnitude + two_to_minus_14).as_f() - two_to_minus_14.as_f();
    let quiet = magnitude.gt(infinity).select_i(lanes.splat_i(1 << 22), lanes.splat_i(0));
    let special = (normal + lanes.splat_i(112 << 23)) | quiet;
    let finite = lanes.splat_i(0x0400 << 13).gt(magnitude).select_i(subnormal.bits(), normal);
    (infinity.gt(magnitude).select_i(finite, special) | sign).as_f()
}

/// Each lane picks from its group of `of` lanes, a power of two.
#[inline(always)]
fn pick<L: Lanes>(table: L::F, index: L::I, of: usize) -> [f32; MAX_LANES] {
    let (mut from, mut at, mut to) = ([0.0; MAX_LANES], [0; MAX_LANES], [0.0; MAX_LANES]);
    table.store(&mut from);
    index.store(&mut at);
    for i in 0..L::N {
        to[i] = from[(i & !(of - 1)) | (at[i] as usize & (of - 1))];
    }
    to
}

/// The bits of [`f32_to_f16_ggml`](crate::float::f32_to_f16_ggml) of each lane.
#[inline(always)]
pub(crate) fn to_half<L: Lanes>(lanes: L, x: L::F) -> L::I {
    let bits = x.bits();
    let sign = bits.shr::<16>() & lanes.splat_i(0x8000);
    let magnitude = bits & lanes.splat_i(0x7fff_ffff);
    // Adding a half aligns the last bit of a subnormal with the last bit of the sum, so the addition rounds.
    let half = lanes.splat(0.5);
    let subnormal = (magnitude.as_f() + half).bits() - half.bits();
    let odd = magnitude.shr::<13>() & lanes.splat_i(1);
    let normal = (magnitude + odd - lanes.splat_i((112 << 23) - 0xfff)).shr::<13>();
    let special = magnitude.gt(lanes.splat_i(0x7f80_0000)).select_i(lanes.splat_i(0x7e00), lanes.splat_i(0x7c00));
    let finite = lanes.splat_i(0x3880_0000).gt(magnitude).select_i(subnormal, normal);
    lanes.splat_i(0x4780_0000).gt(magnitude).select_i(finite, special) | sign
}

/// Work with the vectors of one instruction set, for [`Lanes::call`].
pub trait Part<L: Lanes> {
    /// The result.
    type Output;
    /// Runs the part. Implementations are `#[inline(always)]`.
    fn run(self, lanes: L) -> Self::Output;
}

/// The result of x86's `cvttps2dq`: truncated towards zero; `i32::MIN` for NaN and for numbers out of range.
#[inline(always)]
pub(crate) fn trunc(x: f32) -> i32 {
    if (-2147483648.0..2147483648.0).contains(&x) { x as i32 } else { i32::MIN }
}

/// Vectors with a known length.
pub trait Width {
    /// Lanes.
    const N: usize;
}

/// `N` single-precision numbers. The operators and `sqrt` are the IEEE operations, rounded to the nearest even.
pub trait Floats:
    Width
    + Copy
    + Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The integers of the same instruction set.
    type I;
    /// The masks of the same instruction set.
    type M;

    /// The correctly rounded square root.
    fn sqrt(self) -> Self;
    /// The sign bit cleared.
    fn abs(self) -> Self;
    /// `if self > other { self } else { other }`: `other` when one of them is NaN, and for zeros of either sign.
    fn max(self, other: Self) -> Self;
    /// `if self < other { self } else { other }`.
    fn min(self, other: Self) -> Self;
    /// `self < other`; false for NaN.
    fn lt(self, other: Self) -> Self::M;
    /// `self <= other`; false for NaN.
    fn le(self, other: Self) -> Self::M;
    /// `self > other`; false for NaN.
    fn gt(self, other: Self) -> Self::M;
    /// `self >= other`; false for NaN.
    fn ge(self, other: Self) -> Self::M;
    /// `self == other`; false for NaN.
    fn equal(self, other: Self) -> Self::M;
    /// Truncated towards zero; `i32::MIN` for NaN and for numbers out of range (as x86's `cvttps2dq`).
    fn trunc(self) -> Self::I;
    /// The bits of the numbers.
    fn bits(self) -> Self::I;
    /// Writes the first `N` elements of the slice; panics if there are fewer.
    fn store(self, to: &mut [f32]);
}

/// `N` 32-bit integers. Addition, subtraction and multiplication wrap.
pub trait Ints:
    Width
    + Copy
    + Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
{
    /// The floats of the same instruction set.
    type F;
    /// The masks of the same instruction set.
    type M;

    /// `self << BY`, `BY` below 32.
    fn shl<const BY: i32>(self) -> Self;
    /// `(self as u32) >> BY`, `BY` below 32.
    fn shr<const BY: i32>(self) -> Self;
    /// `(self as i32) >> BY`, `BY` below 32.
    fn sar<const BY: i32>(self) -> Self;
    /// The larger value, as signed.
    fn max(self, other: Self) -> Self;
    /// The smaller value, as signed.
    fn min(self, other: Self) -> Self;
    /// `self == other`.
    fn equal(self, other: Self) -> Self::M;
    /// `self > other`, as signed.
    fn gt(self, other: Self) -> Self::M;
    /// The nearest float of the signed value.
    fn to_f(self) -> Self::F;
    /// The float with these bits.
    fn as_f(self) -> Self::F;
    /// Writes the first `N` elements of the slice; panics if there are fewer.
    fn store(self, to: &mut [i32]);
    /// Writes the lowest byte of each lane.
    fn store_u8(self, to: &mut [u8]);
}

/// `N` truth values.
pub trait Masks: Width + Copy + Debug + BitAnd<Output = Self> + BitOr<Output = Self> + Not<Output = Self> {
    /// The floats of the same instruction set.
    type F;
    /// The integers of the same instruction set.
    type I;

    /// Whether any lane is true.
    fn any(self) -> bool;
    /// Bit `i` is lane `i`.
    fn to_bits(self) -> u32;
    /// `if lane { yes } else { no }`.
    fn select(self, yes: Self::F, no: Self::F) -> Self::F;
    /// `if lane { yes } else { no }`.
    fn select_i(self, yes: Self::I, no: Self::I) -> Self::I;
}
