//! Eight lanes in 256-bit registers: AVX and AVX2.
#![allow(unsafe_code, reason = "the intrinsics; every value here proves that the CPU has them")]

use super::{Floats, Ints, Lanes, Masks, Part, Width};
use core::arch::x86_64::*;
use core::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

const N: usize = 8;

/// The proof that the CPU has AVX2.
#[derive(Debug, Clone, Copy)]
pub struct Avx2(());

impl Avx2 {
    /// The witness, if the CPU and the operating system support the registers.
    #[inline]
    pub fn detect() -> Option<Avx2> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c") && is_x86_feature_detected!("bmi2"))
            .then_some(Avx2(()))
    }

    /// The witness of a machine with AVX-512: its detection includes all of this.
    #[inline(always)]
    pub(super) fn of(_: super::avx512::Avx512) -> Avx2 {
        Avx2(())
    }
}

vectors! {
    F(__m256): N;
    I(__m256i): N;
    /// All bits of a true lane are set.
    M(__m256): N;
}

// SAFETY (all intrinsics of this file): vectors and masks are created only by methods of `Avx2` and of each other, and an `Avx2` exists
// only if `detect` found the instructions. Loads and stores use slices cut to `N` elements first.
operators! {
    F Add add _mm256_add_ps;
    F Sub sub _mm256_sub_ps;
    F Mul mul _mm256_mul_ps;
    F Div div _mm256_div_ps;
    I Add add _mm256_add_epi32;
    I Sub sub _mm256_sub_epi32;
    I Mul mul _mm256_mullo_epi32;
    I BitAnd bitand _mm256_and_si256;
    I BitOr bitor _mm256_or_si256;
    I BitXor bitxor _mm256_xor_si256;
    M BitAnd bitand _mm256_and_ps;
    M BitOr bitor _mm256_or_ps;
}

impl Neg for F {
    type Output = F;
    #[inline(always)]
    fn neg(self) -> F {
        // SAFETY: see above.
        unsafe { F(_mm256_xor_ps(self.0, _mm256_set1_ps(-0.0))) }
    }
}

impl Not for M {
    type Output = M;
    #[inline(always)]
    fn not(self) -> M {
        // SAFETY: see above.
        unsafe { M(_mm256_xor_ps(self.0, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))) }
    }
}

impl Floats for F {
    type I = I;
    type M = M;
    methods! {
        sqrt() -> F: _mm256_sqrt_ps;
        max(other) -> F: _mm256_max_ps;
        min(other) -> F: _mm256_min_ps;
        lt(other) -> M: _mm256_cmp_ps::<_CMP_LT_OQ>;
        le(other) -> M: _mm256_cmp_ps::<_CMP_LE_OQ>;
        gt(other) -> M: _mm256_cmp_ps::<_CMP_GT_OQ>;
        ge(other) -> M: _mm256_cmp_ps::<_CMP_GE_OQ>;
        equal(other) -> M: _mm256_cmp_ps::<_CMP_EQ_OQ>;
        trunc() -> I: _mm256_cvttps_epi32;
        bits() -> I: _mm256_castps_si256;
    }
    #[inline(always)]
    fn abs(self) -> F {
        // SAFETY: see above.
        unsafe { F(_mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0)) }
    }
    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        let to = &mut to[..N];
        // SAFETY: see above.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), self.0) }
    }
}

impl Ints for I {
    type F = F;
    type M = M;
    methods! {
        max(other) -> I: _mm256_max_epi32;
        min(other) -> I: _mm256_min_epi32;
        to_f() -> F: _mm256_cvtepi32_ps;
        as_f() -> F: _mm256_castsi256_ps;
    }
    #[inline(always)]
    fn shl<const BY: i32>(self) -> I {
        // SAFETY: see above.
        unsafe { I(_mm256_slli_epi32::<BY>(self.0)) }
    }
    #[inline(always)]
    fn shr<const BY: i32>(self) -> I {
        // SAFETY: see above.
        unsafe { I(_mm256_srli_epi32::<BY>(self.0)) }
    }
    #[inline(always)]
    fn sar<const BY: i32>(self) -> I {
        // SAFETY: see above.
        unsafe { I(_mm256_srai_epi32::<BY>(self.0)) }
    }
    #[inline(always)]
    fn equal(self, other: I) -> M {
        // SAFETY: see above.
        unsafe { M(_mm256_castsi256_ps(_mm256_cmpeq_epi32(self.0, other.0))) }
    }
    #[inline(always)]
    fn gt(self, other: I) -> M {
        // SAFETY: see above.
        unsafe { M(_mm256_castsi256_ps(_mm256_cmpgt_epi32(self.0, other.0))) }
    }
    #[inline(always)]
    fn store(self, to: &mut [i32]) {
        let to = &mut to[..N];
        // SAFETY: see above.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), self.0) }
    }
    #[inline(always)]
    fn store_u8(self, to: &mut [u8]) {
        let to = &mut to[..N];
        // SAFETY: see above; eight bytes are written.
        unsafe {
            // The lowest byte of each lane moves to the bottom of its half.
            let order = _mm256_set1_epi32(0x0c08_0400);
            let packed = _mm256_shuffle_epi8(self.0, order);
            let (low, high) = (_mm256_castsi256_si128(packed), _mm256_extracti128_si256::<1>(packed));
            _mm_storel_epi64(to.as_mut_ptr().cast(), _mm_unpacklo_epi32(low, high));
        }
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
        unsafe { _mm256_movemask_ps(self.0) as u32 }
    }
    #[inline(always)]
    fn select(self, yes: F, no: F) -> F {
        // SAFETY: see above.
        unsafe { F(_mm256_blendv_ps(no.0, yes.0, self.0)) }
    }
    #[inline(always)]
    fn select_i(self, yes: I, no: I) -> I {
        // SAFETY: see above.
        unsafe { I(_mm256_blendv_epi8(no.0, yes.0, _mm256_castps_si256(self.0))) }
    }
}

impl Avx2 {
    /// Indexes clamped to a table of that length.
    #[inline(always)]
    fn inside(self, index: I, len: usize) -> __m256i {
        assert!(len > 0);
        let last = (len - 1).min(i32::MAX as usize) as i32;
        // SAFETY: see above.
        unsafe { _mm256_min_epu32(index.0, _mm256_set1_epi32(last)) }
    }
}

impl Lanes for Avx2 {
    const N: usize = N;
    type F = F;
    type I = I;
    type M = M;
    type Table4 = F;
    type Table8 = F;
    type Table16 = [F; 2];
    type Eight = Avx2;

    #[inline(always)]
    fn eight(self) -> Self::Eight {
        self
    }

    call!(Avx2, "avx2,f16c,bmi2");

    #[inline(always)]
    fn splat(self, x: f32) -> F {
        // SAFETY: see above.
        unsafe { F(_mm256_set1_ps(x)) }
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> I {
        // SAFETY: see above.
        unsafe { I(_mm256_set1_epi32(x)) }
    }
    #[inline(always)]
    fn mask(self, bits: u32) -> M {
        // SAFETY: see above.
        unsafe {
            let lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let set = _mm256_and_si256(_mm256_set1_epi32(bits as i32), lane);
            M(_mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lane)))
        }
    }
    #[inline(always)]
    fn load(self, from: &[f32]) -> F {
        let from = &from[..N];
        // SAFETY: see above.
        unsafe { F(_mm256_loadu_ps(from.as_ptr())) }
    }
    #[inline(always)]
    fn load_i(self, from: &[i32]) -> I {
        let from = &from[..N];
        // SAFETY: see above.
        unsafe { I(_mm256_loadu_si256(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8]) -> I {
        let from = &from[..N];
        // SAFETY: see above; eight bytes are read.
        unsafe { I(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.as_ptr().cast()))) }
    }
    #[inline(always)]
    fn load_i8(self, from: &[u8]) -> I {
        let from = &from[..N];
        // SAFETY: see above; eight bytes are read.
        unsafe { I(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.as_ptr().cast()))) }
    }
    #[inline(always)]
    fn load_u16(self, from: &[u16]) -> I {
        let from = &from[..N];
        // SAFETY: see above.
        unsafe { I(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.as_ptr().cast()))) }
    }
    #[inline(always)]
    fn half(self, bits: u16) -> f32 {
        // SAFETY: see above.
        unsafe { _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))) }
    }
    #[inline(always)]
    fn splat_half(self, bits: u16) -> F {
        // SAFETY: see above.
        unsafe { F(_mm256_cvtph_ps(_mm_set1_epi16(bits as i16))) }
    }
    #[inline(always)]
    fn load_half(self, from: &[u8]) -> F {
        let from = &from[..2 * N];
        // SAFETY: see above.
        unsafe { F(_mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast()))) }
    }
    #[inline(always)]
    fn store_le16(self, x: I, to: &mut [u8]) {
        let to = &mut to[..2 * N];
        // SAFETY: see above; sixteen bytes are written.
        unsafe {
            // The lower half of each lane moves to the bottom of its half of the vector.
            let order = _mm256_set1_epi64x(0x0d0c_0908_0504_0100);
            let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_shuffle_epi8(x.0, order));
            _mm_storeu_si128(to.as_mut_ptr().cast(), _mm256_castsi256_si128(packed));
        }
    }
    #[inline(always)]
    fn store_half(self, x: F, to: &mut [u8]) {
        let to = &mut to[..2 * N];
        // The conversion keeps the payload of a NaN, so NaNs are first replaced by the one without.
        let nan = (x.bits() & self.splat_i(i32::MIN)) | self.splat_i(0x7fc0_0000);
        let x = x.equal(x).select(x, nan.as_f());
        // SAFETY: see above.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x.0)) }
    }
    #[inline(always)]
    fn gather(self, table: &[f32], index: I) -> F {
        let index = self.inside(index, table.len());
        // SAFETY: see above; the indexes are inside the table.
        unsafe { F(_mm256_i32gather_ps::<4>(table.as_ptr(), index)) }
    }
    #[inline(always)]
    fn gather_i(self, table: &[i32], index: I) -> I {
        let index = self.inside(index, table.len());
        // SAFETY: see above; the indexes are inside the table.
        unsafe { I(_mm256_i32gather_epi32::<4>(table.as_ptr(), index)) }
    }
    #[inline(always)]
    fn table4(self, values: &[f32; 4]) -> F {
        // SAFETY: see above; four numbers are read.
        unsafe { F(_mm256_broadcast_ps(&_mm_loadu_ps(values.as_ptr()))) }
    }
    #[inline(always)]
    fn lookup4(self, table: F, index: I) -> F {
        // SAFETY: see above.
        unsafe { F(_mm256_permutevar_ps(table.0, index.0)) }
    }
    #[inline(always)]
    fn table8(self, values: &[f32; 8]) -> F {
        self.load(values)
    }
    #[inline(always)]
    fn lookup8(self, table: F, index: I) -> F {
        // SAFETY: see above.
        unsafe { F(_mm256_permutevar8x32_ps(table.0, index.0)) }
    }
    #[inline(always)]
    fn table16(self, values: &[f32; 16]) -> [F; 2] {
        [self.load(values), self.load(&values[8..])]
    }
    #[inline(always)]
    fn lookup16(self, table: [F; 2], index: I) -> F {
        // SAFETY: see above.
        unsafe {
            let low = _mm256_permutevar8x32_ps(table[0].0, index.0);
            let high = _mm256_permutevar8x32_ps(table[1].0, index.0);
            // The fourth bit of the index becomes the sign, which controls the blend.
            F(_mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32::<28>(index.0))))
        }
    }

    #[inline(always)]
    fn pick4(self, table: F, index: I) -> F {
        self.lookup4(table, index)
    }
    #[inline(always)]
    fn pick8(self, table: F, index: I) -> F {
        self.lookup8(table, index)
    }
    #[inline(always)]
    fn least_of_eight(self, x: I) -> I {
        // SAFETY: see above.
        unsafe {
            let two = _mm256_min_epi32(x.0, _mm256_shuffle_epi32::<0x4e>(x.0));
            let four = _mm256_min_epi32(two, _mm256_shuffle_epi32::<0xb1>(two));
            I(_mm256_min_epi32(four, _mm256_permute4x64_epi64::<0x4e>(four)))
        }
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

/// Transposes a square of eight rows.
#[inline(always)]
fn transpose(r: [F; 8]) -> [F; 8] {
    // SAFETY: see above.
    unsafe {
        let zero = _mm256_setzero_ps();
        // Within each group of four rows and each half of a register: a square of four.
        let mut a = [zero; 8];
        for i in 0..2 {
            let [r0, r1, r2, r3] = [r[4 * i].0, r[4 * i + 1].0, r[4 * i + 2].0, r[4 * i + 3].0];
            let (lo01, hi01) = (_mm256_unpacklo_ps(r0, r1), _mm256_unpackhi_ps(r0, r1));
            let (lo23, hi23) = (_mm256_unpacklo_ps(r2, r3), _mm256_unpackhi_ps(r2, r3));
            a[4 * i] = _mm256_shuffle_ps::<0x44>(lo01, lo23);
            a[4 * i + 1] = _mm256_shuffle_ps::<0xee>(lo01, lo23);
            a[4 * i + 2] = _mm256_shuffle_ps::<0x44>(hi01, hi23);
            a[4 * i + 3] = _mm256_shuffle_ps::<0xee>(hi01, hi23);
        }
        let mut out = [F(zero); 8];
        for c in 0..4 {
            out[c] = F(_mm256_permute2f128_ps::<0x20>(a[c], a[4 + c]));
            out[4 + c] = F(_mm256_permute2f128_ps::<0x31>(a[c], a[4 + c]));
        }
        out
    }
}
