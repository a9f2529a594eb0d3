//! Sixteen lanes in 512-bit registers: AVX-512 F, BW, DQ and VL.
#![allow(unsafe_code, reason = "the intrinsics; every value here proves that the CPU has them")]

use super::{Floats, Ints, Lanes, Masks, Part, Width};
use core::arch::x86_64::*;
use core::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

const N: usize = 16;

/// The proof that the CPU has AVX-512 F, BW, DQ and VL.
#[derive(Debug, Clone, Copy)]
pub struct Avx512(());

impl Avx512 {
    /// The witness, if the CPU and the operating system support the registers.
    #[inline]
    pub fn detect() -> Option<Avx512> {
        (is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("bmi2"))
        .then_some(Avx512(()))
    }
}

vectors! {
    F(__m512): N;
    I(__m512i): N;
    M(__mmask16): N;
}

// SAFETY (all intrinsics of this file): vectors and masks are created only by methods of `Avx512` and of each other, and an `Avx512` exists
// only if `detect` found the instructions. Loads and stores use slices cut to `N` elements first.
operators! {
    F Add add _mm512_add_ps;
    F Sub sub _mm512_sub_ps;
    F Mul mul _mm512_mul_ps;
    F Div div _mm512_div_ps;
    I Add add _mm512_add_epi32;
    I Sub sub _mm512_sub_epi32;
    I Mul mul _mm512_mullo_epi32;
    I BitAnd bitand _mm512_and_si512;
    I BitOr bitor _mm512_or_si512;
    I BitXor bitxor _mm512_xor_si512;
}

impl Neg for F {
    type Output = F;
    #[inline(always)]
    fn neg(self) -> F {
        // SAFETY: see above.
        unsafe { F(_mm512_xor_ps(self.0, _mm512_set1_ps(-0.0))) }
    }
}

impl BitAnd for M {
    type Output = M;
    #[inline(always)]
    fn bitand(self, other: M) -> M {
        M(self.0 & other.0)
    }
}

impl BitOr for M {
    type Output = M;
    #[inline(always)]
    fn bitor(self, other: M) -> M {
        M(self.0 | other.0)
    }
}

impl Not for M {
    type Output = M;
    #[inline(always)]
    fn not(self) -> M {
        M(!self.0)
    }
}

impl Floats for F {
    type I = I;
    type M = M;
    methods! {
        sqrt() -> F: _mm512_sqrt_ps;
        abs() -> F: _mm512_abs_ps;
        max(other) -> F: _mm512_max_ps;
        min(other) -> F: _mm512_min_ps;
        lt(other) -> M: _mm512_cmp_ps_mask::<_CMP_LT_OQ>;
        le(other) -> M: _mm512_cmp_ps_mask::<_CMP_LE_OQ>;
        gt(other) -> M: _mm512_cmp_ps_mask::<_CMP_GT_OQ>;
        ge(other) -> M: _mm512_cmp_ps_mask::<_CMP_GE_OQ>;
        equal(other) -> M: _mm512_cmp_ps_mask::<_CMP_EQ_OQ>;
        trunc() -> I: _mm512_cvttps_epi32;
        bits() -> I: _mm512_castps_si512;
    }
    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        let to = &mut to[..N];
        // SAFETY: see above.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), self.0) }
    }
}

impl Ints for I {
    type F = F;
    type M = M;
    // The intrinsics take the shift as `u32`, which stable Rust cannot compute from the parameter; a constant vector folds.
    #[inline(always)]
    fn shl<const BY: i32>(self) -> I {
        // SAFETY: see above.
        unsafe { I(_mm512_sllv_epi32(self.0, _mm512_set1_epi32(BY))) }
    }
    #[inline(always)]
    fn shr<const BY: i32>(self) -> I {
        // SAFETY: see above.
        unsafe { I(_mm512_srlv_epi32(self.0, _mm512_set1_epi32(BY))) }
    }
    #[inline(always)]
    fn sar<const BY: i32>(self) -> I {
        // SAFETY: see above.
        unsafe { I(_mm512_srav_epi32(self.0, _mm512_set1_epi32(BY))) }
    }
    methods! {
        max(other) -> I: _mm512_max_epi32;
        min(other) -> I: _mm512_min_epi32;
        equal(other) -> M: _mm512_cmpeq_epi32_mask;
        gt(other) -> M: _mm512_cmpgt_epi32_mask;
        to_f() -> F: _mm512_cvtepi32_ps;
        as_f() -> F: _mm512_castsi512_ps;
    }
    #[inline(always)]
    fn store(self, to: &mut [i32]) {
        let to = &mut to[..N];
        // SAFETY: see above.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), self.0) }
    }
    #[inline(always)]
    fn store_u8(self, to: &mut [u8]) {
        let to = &mut to[..N];
        // SAFETY: see above.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(self.0)) }
    }
}

impl Masks for M {
    type F = F;
    type I = I;
    #[inline(always)]
    fn any(self) -> bool {
        self.0 != 0
    }
    #[inline(always)]
    fn to_bits(self) -> u32 {
        u32::from(self.0)
    }
    #[inline(always)]
    fn select(self, yes: F, no: F) -> F {
        // SAFETY: see above.
        unsafe { F(_mm512_mask_blend_ps(self.0, no.0, yes.0)) }
    }
    #[inline(always)]
    fn select_i(self, yes: I, no: I) -> I {
        // SAFETY: see above.
        unsafe { I(_mm512_mask_blend_epi32(self.0, no.0, yes.0)) }
    }
}

impl Avx512 {
    /// Indexes clamped to a table of that length.
    #[inline(always)]
    fn inside(self, index: I, len: usize) -> __m512i {
        assert!(len > 0);
        let last = (len - 1).min(i32::MAX as usize) as i32;
        // SAFETY: see above.
        unsafe { _mm512_min_epu32(index.0, _mm512_set1_epi32(last)) }
    }
}

impl Lanes for Avx512 {
    const N: usize = N;
    type F = F;
    type I = I;
    type M = M;
    type Table4 = F;
    type Table8 = F;
    type Table16 = F;
    type Eight = super::avx2::Avx2;

    #[inline(always)]
    fn eight(self) -> Self::Eight {
        super::avx2::Avx2::of(self)
    }

    call!(Avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c,bmi2");

    #[inline(always)]
    fn splat(self, x: f32) -> F {
        // SAFETY: see above.
        unsafe { F(_mm512_set1_ps(x)) }
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> I {
        // SAFETY: see above.
        unsafe { I(_mm512_set1_epi32(x)) }
    }
    #[inline(always)]
    fn mask(self, bits: u32) -> M {
        M(bits as u16)
    }
    #[inline(always)]
    fn load(self, from: &[f32]) -> F {
        let from = &from[..N];
        // SAFETY: see above.
        unsafe { F(_mm512_loadu_ps(from.as_ptr())) }
    }
    #[inline(always)]
    fn load_i(self, from: &[i32]) -> I {
        let from = &from[..N];
        // SAFETY: see above.
        unsafe { I(_mm512_loadu_si512(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8]) -> I {
        let from = &from[..N];
        // SAFETY: see above.
        unsafe { I(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.as_ptr().cast()))) }
    }
    #[inline(always)]
    fn load_i8(self, from: &[u8]) -> I {
        let from = &from[..N];
        // SAFETY: see above.
        unsafe { I(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.as_ptr().cast()))) }
    }
    #[inline(always)]
    fn load_u16(self, from: &[u16]) -> I {
        let from = &from[..N];
        // SAFETY: see above.
        unsafe { I(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.as_ptr().cast()))) }
    }
    #[inline(always)]
    fn half(self, bits: u16) -> f32 {
        // SAFETY: see above.
        unsafe { _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))) }
    }
    #[inline(always)]
    fn splat_half(self, bits: u16) -> F {
        // SAFETY: see above.
        unsafe { F(_mm512_cvtph_ps(_mm256_set1_epi16(bits as i16))) }
    }
    #[inline(always)]
    fn load_half(self, from: &[u8]) -> F {
        let from = &from[..2 * N];
        // SAFETY: see above.
        unsafe { F(_mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast()))) }
    }
    #[inline(always)]
    fn store_le16(self, x: I, to: &mut [u8]) {
        let to = &mut to[..2 * N];
        // SAFETY: see above; thirty-two bytes are written.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtepi32_epi16(x.0)) }
    }
    #[inline(always)]
    fn store_half(self, x: F, to: &mut [u8]) {
        let to = &mut to[..2 * N];
        // The conversion keeps the payload of a NaN, so NaNs are first replaced by the one without.
        let nan = (x.bits() & self.splat_i(i32::MIN)) | self.splat_i(0x7fc0_0000);
        let x = x.equal(x).select(x, nan.as_f());
        // SAFETY: see above.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x.0)) }
    }
    #[inline(always)]
    fn gather(self, table: &[f32], index: I) -> F {
        let index = self.inside(index, table.len());
        // SAFETY: see above; the indexes are inside the table.
        unsafe { F(_mm512_i32gather_ps::<4>(index, table.as_ptr())) }
    }
    #[inline(always)]
    fn gather_i(self, table: &[i32], index: I) -> I {
        let index = self.inside(index, table.len());
        // SAFETY: see above; the indexes are inside the table.
        unsafe { I(_mm512_i32gather_epi32::<4>(index, table.as_ptr())) }
    }
    #[inline(always)]
    fn table4(self, values: &[f32; 4]) -> F {
        // SAFETY: see above; four numbers are read.
        unsafe { F(_mm512_broadcast_f32x4(_mm_loadu_ps(values.as_ptr()))) }
    }
    #[inline(always)]
    fn lookup4(self, table: F, index: I) -> F {
        // SAFETY: see above.
        unsafe { F(_mm512_permutevar_ps(table.0, index.0)) }
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
            let two = _mm512_min_epi32(x.0, _mm512_shuffle_epi32::<0x4e>(x.0));
            let four = _mm512_min_epi32(two, _mm512_shuffle_epi32::<0xb1>(two));
            I(_mm512_min_epi32(four, _mm512_shuffle_i32x4::<0xb1>(four, four)))
        }
    }
    #[inline(always)]
    fn table8(self, values: &[f32; 8]) -> F {
        // SAFETY: see above; eight numbers are read.
        unsafe { F(_mm512_broadcast_f32x8(_mm256_loadu_ps(values.as_ptr()))) }
    }
    #[inline(always)]
    fn lookup8(self, table: F, index: I) -> F {
        // The table is repeated in the register, so the fourth bit of the index has no effect.
        // SAFETY: see above.
        unsafe { F(_mm512_permutexvar_ps(index.0, table.0)) }
    }
    #[inline(always)]
    fn table16(self, values: &[f32; 16]) -> F {
        self.load(values)
    }
    #[inline(always)]
    fn lookup16(self, table: F, index: I) -> F {
        // SAFETY: see above.
        unsafe { F(_mm512_permutexvar_ps(index.0, table.0)) }
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

/// Transposes a square of sixteen rows.
#[inline(always)]
fn transpose(r: [F; 16]) -> [F; 16] {
    // SAFETY: see above.
    unsafe {
        let zero = _mm512_setzero_ps();
        // Within each group of four rows and each quarter of a register: a square of four.
        let mut a = [zero; 16];
        for i in 0..4 {
            let [r0, r1, r2, r3] = [r[4 * i].0, r[4 * i + 1].0, r[4 * i + 2].0, r[4 * i + 3].0];
            let (lo01, hi01) = (_mm512_unpacklo_ps(r0, r1), _mm512_unpackhi_ps(r0, r1));
            let (lo23, hi23) = (_mm512_unpacklo_ps(r2, r3), _mm512_unpackhi_ps(r2, r3));
            a[4 * i] = _mm512_shuffle_ps::<0x44>(lo01, lo23);
            a[4 * i + 1] = _mm512_shuffle_ps::<0xee>(lo01, lo23);
            a[4 * i + 2] = _mm512_shuffle_ps::<0x44>(hi01, hi23);
            a[4 * i + 3] = _mm512_shuffle_ps::<0xee>(hi01, hi23);
        }
        // `a[4 g + c]` holds column `4 q + c` of the rows of group `g` in quarter `q`.
        let mut out = [F(zero); 16];
        for c in 0..4 {
            let [g0, g1, g2, g3] = [a[c], a[4 + c], a[8 + c], a[12 + c]];
            let (ev01, od01) = (_mm512_shuffle_f32x4::<0x88>(g0, g1), _mm512_shuffle_f32x4::<0xdd>(g0, g1));
            let (ev23, od23) = (_mm512_shuffle_f32x4::<0x88>(g2, g3), _mm512_shuffle_f32x4::<0xdd>(g2, g3));
            out[c] = F(_mm512_shuffle_f32x4::<0x88>(ev01, ev23));
            out[4 + c] = F(_mm512_shuffle_f32x4::<0x88>(od01, od23));
            out[8 + c] = F(_mm512_shuffle_f32x4::<0xdd>(ev01, ev23));
            out[12 + c] = F(_mm512_shuffle_f32x4::<0xdd>(od01, od23));
        }
        out
    }
}
