//! Four lanes in 128-bit registers: SSE4.1 and SSSE3.
#![allow(unsafe_code, reason = "the intrinsics; every value here proves that the CPU has them")]

use super::{Floats, Ints, Lanes, Masks, Part, Width, halves_to_floats};
use crate::float::f16_to_f32_ggml;
use core::arch::x86_64::*;
use core::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

const N: usize = 4;

/// The proof that the CPU has SSE4.1 and SSSE3.
#[derive(Debug, Clone, Copy)]
pub struct Sse41(());

impl Sse41 {
    /// The witness, if the CPU has the instructions.
    #[inline]
    pub fn detect() -> Option<Sse41> {
        (is_x86_feature_detected!("sse4.1") && is_x86_feature_detected!("ssse3")).then_some(Sse41(()))
    }
}

vectors! {
    F(__m128): N;
    I(__m128i): N;
    /// All bits of a true lane are set.
    M(__m128): N;
}

// SAFETY (all intrinsics of this file): vectors and masks are created only by methods of `Sse41` and of each other, and an `Sse41` exists
// only if `detect` found the instructions. Loads and stores use slices cut to `N` elements first.
operators! {
    F Add add _mm_add_ps;
    F Sub sub _mm_sub_ps;
    F Mul mul _mm_mul_ps;
    F Div div _mm_div_ps;
    I Add add _mm_add_epi32;
    I Sub sub _mm_sub_epi32;
    I Mul mul _mm_mullo_epi32;
    I BitAnd bitand _mm_and_si128;
    I BitOr bitor _mm_or_si128;
    I BitXor bitxor _mm_xor_si128;
    M BitAnd bitand _mm_and_ps;
    M BitOr bitor _mm_or_ps;
}

impl Neg for F {
    type Output = F;
    #[inline(always)]
    fn neg(self) -> F {
        // SAFETY: see above.
        unsafe { F(_mm_xor_ps(self.0, _mm_set1_ps(-0.0))) }
    }
}

impl Not for M {
    type Output = M;
    #[inline(always)]
    fn not(self) -> M {
        // SAFETY: see above.
        unsafe { M(_mm_xor_ps(self.0, _mm_castsi128_ps(_mm_set1_epi32(-1)))) }
    }
}

impl Floats for F {
    type I = I;
    type M = M;
    methods! {
        sqrt() -> F: _mm_sqrt_ps;
        max(other) -> F: _mm_max_ps;
        min(other) -> F: _mm_min_ps;
        lt(other) -> M: _mm_cmplt_ps;
        le(other) -> M: _mm_cmple_ps;
        gt(other) -> M: _mm_cmpgt_ps;
        ge(other) -> M: _mm_cmpge_ps;
        equal(other) -> M: _mm_cmpeq_ps;
        trunc() -> I: _mm_cvttps_epi32;
        bits() -> I: _mm_castps_si128;
    }
    #[inline(always)]
    fn abs(self) -> F {
        // SAFETY: see above.
        unsafe { F(_mm_andnot_ps(_mm_set1_ps(-0.0), self.0)) }
    }
    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        let to = &mut to[..N];
        // SAFETY: see above.
        unsafe { _mm_storeu_ps(to.as_mut_ptr(), self.0) }
    }
}

impl Ints for I {
    type F = F;
    type M = M;
    methods! {
        max(other) -> I: _mm_max_epi32;
        min(other) -> I: _mm_min_epi32;
        to_f() -> F: _mm_cvtepi32_ps;
        as_f() -> F: _mm_castsi128_ps;
    }
    #[inline(always)]
    fn shl<const BY: i32>(self) -> I {
        // SAFETY: see above.
        unsafe { I(_mm_slli_epi32::<BY>(self.0)) }
    }
    #[inline(always)]
    fn shr<const BY: i32>(self) -> I {
        // SAFETY: see above.
        unsafe { I(_mm_srli_epi32::<BY>(self.0)) }
    }
    #[inline(always)]
    fn sar<const BY: i32>(self) -> I {
        // SAFETY: see above.
        unsafe { I(_mm_srai_epi32::<BY>(self.0)) }
    }
    #[inline(always)]
    fn equal(self, other: I) -> M {
        // SAFETY: see above.
        unsafe { M(_mm_castsi128_ps(_mm_cmpeq_epi32(self.0, other.0))) }
    }
    #[inline(always)]
    fn gt(self, other: I) -> M {
        // SAFETY: see above.
        unsafe { M(_mm_castsi128_ps(_mm_cmpgt_epi32(self.0, other.0))) }
    }
    #[inline(always)]
    fn store(self, to: &mut [i32]) {
        let to = &mut to[..N];
        // SAFETY: see above.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), self.0) }
    }
    #[inline(always)]
    fn store_u8(self, to: &mut [u8]) {
        // SAFETY: see above.
        let packed = unsafe { _mm_cvtsi128_si32(_mm_shuffle_epi8(self.0, _mm_set1_epi32(0x0c08_0400))) };
        to[..N].copy_from_slice(&packed.to_le_bytes());
    }
}

impl Masks for M {
    type F = F;
    type I = I;
    #[inline(always)]
    fn any(self) -> bool {
        self.to_bits() != 0
    }
    #[inline(always)]
    fn to_bits(self) -> u32 {
        // SAFETY: see above.
        unsafe { _mm_movemask_ps(self.0) as u32 }
    }
    #[inline(always)]
    fn select(self, yes: F, no: F) -> F {
        // SAFETY: see above.
        unsafe { F(_mm_blendv_ps(no.0, yes.0, self.0)) }
    }
    #[inline(always)]
    fn select_i(self, yes: I, no: I) -> I {
        // SAFETY: see above.
        unsafe { I(_mm_blendv_epi8(no.0, yes.0, _mm_castps_si128(self.0))) }
    }
}

/// The byte indexes of a table lookup: the four bytes of number `index & 3`, in each lane.
#[inline(always)]
fn byte_indexes(index: I) -> __m128i {
    // SAFETY: see above.
    unsafe {
        let low = _mm_and_si128(index.0, _mm_set1_epi32(3));
        let lane = _mm_shuffle_epi8(low, _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));
        _mm_add_epi8(_mm_slli_epi32::<2>(lane), _mm_set1_epi32(0x0302_0100))
    }
}

/// The numbers with those bytes.
#[inline(always)]
fn pick(table: F, bytes: __m128i) -> __m128 {
    // SAFETY: see above.
    unsafe { _mm_castsi128_ps(_mm_shuffle_epi8(_mm_castps_si128(table.0), bytes)) }
}

/// A choice by one bit of the index, shifted into the sign, which controls the blend. `TO_SIGN` is 31 minus the bit.
#[inline(always)]
fn by_bit<const TO_SIGN: i32>(index: I, clear: __m128, set: __m128) -> __m128 {
    // SAFETY: see above.
    unsafe { _mm_blendv_ps(clear, set, _mm_castsi128_ps(_mm_slli_epi32::<TO_SIGN>(index.0))) }
}

impl Lanes for Sse41 {
    const N: usize = N;
    type F = F;
    type I = I;
    type M = M;
    type Table4 = F;
    type Table8 = [F; 2];
    type Table16 = [F; 4];
    type Eight = super::twice::Twice<Sse41>;

    #[inline(always)]
    fn eight(self) -> Self::Eight {
        super::twice::Twice(self)
    }

    call!(Sse41, "sse4.1,ssse3");

    #[inline(always)]
    fn splat(self, x: f32) -> F {
        // SAFETY: see above.
        unsafe { F(_mm_set1_ps(x)) }
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> I {
        // SAFETY: see above.
        unsafe { I(_mm_set1_epi32(x)) }
    }
    #[inline(always)]
    fn mask(self, bits: u32) -> M {
        // SAFETY: see above.
        unsafe {
            let lane = _mm_setr_epi32(1, 2, 4, 8);
            let set = _mm_and_si128(_mm_set1_epi32(bits as i32), lane);
            M(_mm_castsi128_ps(_mm_cmpeq_epi32(set, lane)))
        }
    }
    #[inline(always)]
    fn load(self, from: &[f32]) -> F {
        let from = &from[..N];
        // SAFETY: see above.
        unsafe { F(_mm_loadu_ps(from.as_ptr())) }
    }
    #[inline(always)]
    fn load_i(self, from: &[i32]) -> I {
        let from = &from[..N];
        // SAFETY: see above.
        unsafe { I(_mm_loadu_si128(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8]) -> I {
        let word = i32::from_le_bytes(*from.first_chunk().expect("a byte for each lane"));
        // SAFETY: see above.
        unsafe { I(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(word))) }
    }
    #[inline(always)]
    fn load_i8(self, from: &[u8]) -> I {
        let word = i32::from_le_bytes(*from.first_chunk().expect("a byte for each lane"));
        // SAFETY: see above.
        unsafe { I(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(word))) }
    }
    #[inline(always)]
    fn load_u16(self, from: &[u16]) -> I {
        let from = &from[..N];
        // SAFETY: see above; eight bytes are read.
        unsafe { I(_mm_cvtepu16_epi32(_mm_loadl_epi64(from.as_ptr().cast()))) }
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
    fn store_le16(self, x: I, to: &mut [u8]) {
        let to = &mut to[..2 * N];
        // SAFETY: see above; eight bytes are written.
        unsafe {
            let order = _mm_set1_epi64x(0x0d0c_0908_0504_0100);
            _mm_storel_epi64(to.as_mut_ptr().cast(), _mm_shuffle_epi8(x.0, order));
        }
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
        F(pick(table, byte_indexes(index)))
    }
    #[inline(always)]
    fn table8(self, values: &[f32; 8]) -> [F; 2] {
        [self.load(values), self.load(&values[4..])]
    }
    #[inline(always)]
    fn lookup8(self, table: [F; 2], index: I) -> F {
        let bytes = byte_indexes(index);
        F(by_bit::<29>(index, pick(table[0], bytes), pick(table[1], bytes)))
    }
    #[inline(always)]
    fn table16(self, values: &[f32; 16]) -> [F; 4] {
        [self.load(values), self.load(&values[4..]), self.load(&values[8..]), self.load(&values[12..])]
    }
    #[inline(always)]
    fn lookup16(self, table: [F; 4], index: I) -> F {
        let bytes = byte_indexes(index);
        let low = by_bit::<29>(index, pick(table[0], bytes), pick(table[1], bytes));
        let high = by_bit::<29>(index, pick(table[2], bytes), pick(table[3], bytes));
        F(by_bit::<28>(index, low, high))
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
    // SAFETY: see above.
    unsafe {
        let (lo01, hi01) = (_mm_unpacklo_ps(r0.0, r1.0), _mm_unpackhi_ps(r0.0, r1.0));
        let (lo23, hi23) = (_mm_unpacklo_ps(r2.0, r3.0), _mm_unpackhi_ps(r2.0, r3.0));
        [
            F(_mm_movelh_ps(lo01, lo23)),
            F(_mm_movehl_ps(lo23, lo01)),
            F(_mm_movelh_ps(hi01, hi23)),
            F(_mm_movehl_ps(hi23, hi01)),
        ]
    }
}
