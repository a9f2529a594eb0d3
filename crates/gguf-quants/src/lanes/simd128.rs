//! Four lanes in 128-bit values: WebAssembly compiled for `simd128`.
#![allow(unsafe_code, reason = "loads and stores through pointers")]

use super::{Floats, Ints, Lanes, Masks, Part, Width, halves_to_floats};
use crate::float::f16_to_f32_ggml;
use core::arch::wasm32::*;
use core::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

const N: usize = 4;

/// The proof that the module was compiled for `simd128`; there is no detection at run time.
#[derive(Debug, Clone, Copy)]
pub struct Simd128(());

impl Simd128 {
    /// The witness.
    #[inline]
    pub fn detect() -> Option<Simd128> {
        Some(Simd128(()))
    }
}

vectors! {
    F(v128): N;
    I(v128): N;
    /// All bits of a true lane are set.
    M(v128): N;
}

macro_rules! operators {
    ($($vector:ident $trait:ident $method:ident $intrinsic:ident;)*) => {$(
        impl $trait for $vector {
            type Output = $vector;
            #[inline(always)]
            fn $method(self, other: $vector) -> $vector {
                $vector($intrinsic(self.0, other.0))
            }
        }
    )*};
}

operators! {
    F Add add f32x4_add;
    F Sub sub f32x4_sub;
    F Mul mul f32x4_mul;
    F Div div f32x4_div;
    I Add add i32x4_add;
    I Sub sub i32x4_sub;
    I Mul mul i32x4_mul;
    I BitAnd bitand v128_and;
    I BitOr bitor v128_or;
    I BitXor bitxor v128_xor;
    M BitAnd bitand v128_and;
    M BitOr bitor v128_or;
}

impl Neg for F {
    type Output = F;
    #[inline(always)]
    fn neg(self) -> F {
        F(f32x4_neg(self.0))
    }
}

impl Not for M {
    type Output = M;
    #[inline(always)]
    fn not(self) -> M {
        M(v128_not(self.0))
    }
}

macro_rules! methods {
    ($($name:ident($($other:ident)?) -> $out:ident: $intrinsic:ident;)*) => {$(
        #[inline(always)]
        fn $name(self $(, $other: Self)?) -> $out {
            $out($intrinsic(self.0 $(, $other.0)?))
        }
    )*};
}

impl Floats for F {
    type I = I;
    type M = M;
    methods! {
        sqrt() -> F: f32x4_sqrt;
        abs() -> F: f32x4_abs;
        lt(other) -> M: f32x4_lt;
        le(other) -> M: f32x4_le;
        gt(other) -> M: f32x4_gt;
        ge(other) -> M: f32x4_ge;
        equal(other) -> M: f32x4_eq;
    }
    // `pmax(a, b)` is `if a < b { b } else { a }`, `pmin(a, b)` is `if b < a { b } else { a }`.
    #[inline(always)]
    fn max(self, other: F) -> F {
        F(f32x4_pmax(other.0, self.0))
    }
    #[inline(always)]
    fn min(self, other: F) -> F {
        F(f32x4_pmin(other.0, self.0))
    }
    #[inline(always)]
    fn trunc(self) -> I {
        // The conversion saturates, and gives zero for NaN: correct only below the range.
        let below = f32x4_lt(self.0, f32x4_splat(2147483648.0));
        I(v128_bitselect(i32x4_trunc_sat_f32x4(self.0), i32x4_splat(i32::MIN), below))
    }
    #[inline(always)]
    fn bits(self) -> I {
        I(self.0)
    }
    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        let to = &mut to[..N];
        // SAFETY: the slice has `N` elements.
        unsafe { v128_store(to.as_mut_ptr().cast(), self.0) }
    }
}

impl Ints for I {
    type F = F;
    type M = M;
    methods! {
        max(other) -> I: i32x4_max;
        min(other) -> I: i32x4_min;
        equal(other) -> M: i32x4_eq;
        gt(other) -> M: i32x4_gt;
        to_f() -> F: f32x4_convert_i32x4;
    }
    #[inline(always)]
    fn shl<const BY: i32>(self) -> I {
        I(i32x4_shl(self.0, BY as u32))
    }
    #[inline(always)]
    fn shr<const BY: i32>(self) -> I {
        I(u32x4_shr(self.0, BY as u32))
    }
    #[inline(always)]
    fn sar<const BY: i32>(self) -> I {
        I(i32x4_shr(self.0, BY as u32))
    }
    #[inline(always)]
    fn as_f(self) -> F {
        F(self.0)
    }
    #[inline(always)]
    fn store(self, to: &mut [i32]) {
        let to = &mut to[..N];
        // SAFETY: the slice has `N` elements.
        unsafe { v128_store(to.as_mut_ptr().cast(), self.0) }
    }
    #[inline(always)]
    fn store_u8(self, to: &mut [u8]) {
        let packed = i8x16_swizzle(self.0, i32x4_splat(0x0c08_0400));
        to[..N].copy_from_slice(&i32x4_extract_lane::<0>(packed).to_le_bytes());
    }
}

impl Masks for M {
    type F = F;
    type I = I;
    #[inline(always)]
    fn any(self) -> bool {
        v128_any_true(self.0)
    }
    #[inline(always)]
    fn to_bits(self) -> u32 {
        u32::from(i32x4_bitmask(self.0))
    }
    #[inline(always)]
    fn select(self, yes: F, no: F) -> F {
        F(v128_bitselect(yes.0, no.0, self.0))
    }
    #[inline(always)]
    fn select_i(self, yes: I, no: I) -> I {
        I(v128_bitselect(yes.0, no.0, self.0))
    }
}

/// The byte indexes of a table lookup: the four bytes of number `index & last`, in each lane.
#[inline(always)]
fn byte_indexes(index: I, last: i32) -> v128 {
    let number = v128_and(index.0, i32x4_splat(last));
    i32x4_add(i32x4_mul(number, i32x4_splat(0x0404_0404)), i32x4_splat(0x0302_0100))
}

/// The numbers with those bytes, of a table in several vectors: in all vectors but one, the byte indexes are out of range, which gives
/// zero.
#[inline(always)]
fn pick<const VECTORS: usize>(table: [F; VECTORS], bytes: v128) -> F {
    let mut found = i8x16_swizzle(table[0].0, bytes);
    for i in 1..VECTORS {
        found = v128_or(found, i8x16_swizzle(table[i].0, i8x16_sub(bytes, i8x16_splat(16 * i as i8))));
    }
    F(found)
}

/// The lanes in double precision, two by two.
#[inline(always)]
fn doubles(x: F) -> [v128; 2] {
    [f64x2_promote_low_f32x4(x.0), f64x2_promote_low_f32x4(i32x4_shuffle::<2, 3, 2, 3>(x.0, x.0))]
}

/// Adds four numbers in double precision to the first four sums.
#[inline(always)]
fn add(x: [v128; 2], sums: &mut [f64]) {
    let sums: *mut v128 = sums[..N].as_mut_ptr().cast();
    // SAFETY: the slice has four elements.
    unsafe {
        v128_store(sums, f64x2_add(v128_load(sums), x[0]));
        v128_store(sums.add(1), f64x2_add(v128_load(sums.add(1)), x[1]));
    }
}

impl Lanes for Simd128 {
    const N: usize = N;
    type F = F;
    type I = I;
    type M = M;
    type Table4 = F;
    type Table8 = [F; 2];
    type Table16 = [F; 4];
    type Eight = super::twice::Twice<Simd128>;

    #[inline(always)]
    fn eight(self) -> Self::Eight {
        super::twice::Twice(self)
    }

    #[inline(never)]
    fn call<P: Part<Simd128>>(self, part: P) -> P::Output {
        part.run(self)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> F {
        F(f32x4_splat(x))
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> I {
        I(i32x4_splat(x))
    }
    #[inline(always)]
    fn mask(self, bits: u32) -> M {
        let lane = i32x4(1, 2, 4, 8);
        M(i32x4_eq(v128_and(i32x4_splat(bits as i32), lane), lane))
    }
    #[inline(always)]
    fn load(self, from: &[f32]) -> F {
        let from = &from[..N];
        // SAFETY: the slice has `N` elements.
        unsafe { F(v128_load(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn load_i(self, from: &[i32]) -> I {
        let from = &from[..N];
        // SAFETY: the slice has `N` elements.
        unsafe { I(v128_load(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8]) -> I {
        let word = i32::from_le_bytes(*from.first_chunk().expect("a byte for each lane"));
        I(u32x4_extend_low_u16x8(u16x8_extend_low_u8x16(i32x4_splat(word))))
    }
    #[inline(always)]
    fn load_i8(self, from: &[u8]) -> I {
        let word = i32::from_le_bytes(*from.first_chunk().expect("a byte for each lane"));
        I(i32x4_extend_low_i16x8(i16x8_extend_low_i8x16(i32x4_splat(word))))
    }
    #[inline(always)]
    fn load_u16(self, from: &[u16]) -> I {
        let from = &from[..N];
        // SAFETY: the slice has `N` elements, eight bytes.
        unsafe { I(u32x4_load_extend_u16x4(from.as_ptr())) }
    }
    #[inline(always)]
    fn half(self, bits: u16) -> f32 {
        f16_to_f32_ggml(bits)
    }
    #[inline(always)]
    fn load_half(self, from: &[u8]) -> F {
        let (halves, _) = from.as_chunks();
        let mut words = [0; N];
        for i in 0..N {
            words[i] = u16::from_le_bytes(halves[i]);
        }
        halves_to_floats(self, self.load_u16(&words))
    }
    #[inline(always)]
    fn add_doubles(self, x: F, sums: &mut [f64]) {
        add(doubles(x), sums);
    }
    #[inline(always)]
    fn add_squares(self, x: F, from: f64, sums: &mut [f64]) {
        let [low, high] = doubles(x);
        let (low, high) = (f64x2_sub(low, f64x2_splat(from)), f64x2_sub(high, f64x2_splat(from)));
        add([f64x2_mul(low, low), f64x2_mul(high, high)], sums);
    }
    #[inline(always)]
    fn places(self, x: F, from: f64, scale: f64, last: f64, to: &mut [i32]) {
        let mut places = [f64x2_splat(0.0); 2];
        for (half, wide) in doubles(x).into_iter().enumerate() {
            let at = f64x2_mul(f64x2_sub(wide, f64x2_splat(from)), f64x2_splat(scale));
            // `pmin(a, b)` is `if b < a { b } else { a }`. The low half of a whole number plus 2^52 is that number: engines have no faster
            // conversion to integers.
            let whole = f64x2_trunc(f64x2_pmin(f64x2_splat(last), at));
            places[half] = f64x2_add(whole, f64x2_splat((1u64 << 52) as f64));
        }
        I(i32x4_shuffle::<0, 2, 4, 6>(places[0], places[1])).store(to);
    }
    #[inline(always)]
    fn gather(self, table: &[f32], index: I) -> F {
        let (mut at, mut lane) = ([0; N], [0.0; N]);
        index.store(&mut at);
        for i in 0..N {
            lane[i] = table[(at[i] as u32 as usize).min(table.len() - 1)];
        }
        self.load(&lane)
    }
    #[inline(always)]
    fn gather_i(self, table: &[i32], index: I) -> I {
        let (mut at, mut lane) = ([0; N], [0; N]);
        index.store(&mut at);
        for i in 0..N {
            lane[i] = table[(at[i] as u32 as usize).min(table.len() - 1)];
        }
        self.load_i(&lane)
    }
    #[inline(always)]
    fn table4(self, values: &[f32; 4]) -> F {
        self.load(values)
    }
    #[inline(always)]
    fn lookup4(self, table: F, index: I) -> F {
        pick([table], byte_indexes(index, 3))
    }
    #[inline(always)]
    fn table8(self, values: &[f32; 8]) -> [F; 2] {
        [self.load(values), self.load(&values[4..])]
    }
    #[inline(always)]
    fn lookup8(self, table: [F; 2], index: I) -> F {
        pick(table, byte_indexes(index, 7))
    }
    #[inline(always)]
    fn table16(self, values: &[f32; 16]) -> [F; 4] {
        [self.load(values), self.load(&values[4..]), self.load(&values[8..]), self.load(&values[12..])]
    }
    #[inline(always)]
    fn lookup16(self, table: [F; 4], index: I) -> F {
        pick(table, byte_indexes(index, 15))
    }

    #[inline(always)]
    fn pick4(self, table: F, index: I) -> F {
        self.lookup4(table, index)
    }
    #[inline(always)]
    fn pick_of_two(self, low: F, high: F, index: I) -> F {
        self.lookup8([low, high], index)
    }

    #[inline(always)]
    fn columns<const LEN: usize>(self, rows: &[&[f32; LEN]]) -> [F; LEN] {
        const { assert!(LEN.is_multiple_of(N)) };
        let rows = &rows[..N];
        let mut columns = [self.splat(0.0); LEN];
        for from in (0..LEN).step_by(N) {
            let mut r = [self.splat(0.0); N];
            for i in 0..N {
                r[i] = self.load(&rows[i][from..]);
            }
            let square = transpose(r);
            columns[from..from + N].copy_from_slice(&square);
        }
        columns
    }
}

/// Transposes a square of four rows.
#[inline(always)]
fn transpose([r0, r1, r2, r3]: [F; 4]) -> [F; 4] {
    let (lo01, hi01) = (i32x4_shuffle::<0, 4, 1, 5>(r0.0, r1.0), i32x4_shuffle::<2, 6, 3, 7>(r0.0, r1.0));
    let (lo23, hi23) = (i32x4_shuffle::<0, 4, 1, 5>(r2.0, r3.0), i32x4_shuffle::<2, 6, 3, 7>(r2.0, r3.0));
    [
        F(i64x2_shuffle::<0, 2>(lo01, lo23)),
        F(i64x2_shuffle::<1, 3>(lo01, lo23)),
        F(i64x2_shuffle::<0, 2>(hi01, hi23)),
        F(i64x2_shuffle::<1, 3>(hi01, hi23)),
    ]
}
