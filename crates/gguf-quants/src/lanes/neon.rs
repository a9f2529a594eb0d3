//! Four lanes in 128-bit registers: NEON, on aarch64.
#![allow(unsafe_code, reason = "the intrinsics; every value here proves that the CPU has them")]

use super::{Floats, Ints, Lanes, Masks, Part, Width, halves_to_floats};
use crate::float::f16_to_f32_ggml;
use core::arch::aarch64::*;
use core::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

const N: usize = 4;

/// The proof that the CPU has NEON.
#[derive(Debug, Clone, Copy)]
pub struct Neon(());

impl Neon {
    /// The witness, if the CPU has the instructions.
    #[inline]
    pub fn detect() -> Option<Neon> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Neon(()))
    }
}

vectors! {
    F(float32x4_t): N;
    I(int32x4_t): N;
    /// All bits of a true lane are set.
    M(uint32x4_t): N;
}

// SAFETY (all intrinsics of this file): vectors and masks are created only by methods of `Neon` and of each other, and a `Neon` exists only
// if `detect` found the instructions. Loads and stores use slices cut to `N` elements first.
operators! {
    F Add add vaddq_f32;
    F Sub sub vsubq_f32;
    F Mul mul vmulq_f32;
    F Div div vdivq_f32;
    I Add add vaddq_s32;
    I Sub sub vsubq_s32;
    I Mul mul vmulq_s32;
    I BitAnd bitand vandq_s32;
    I BitOr bitor vorrq_s32;
    I BitXor bitxor veorq_s32;
    M BitAnd bitand vandq_u32;
    M BitOr bitor vorrq_u32;
}

impl Neg for F {
    type Output = F;
    #[inline(always)]
    fn neg(self) -> F {
        // SAFETY: see above.
        unsafe { F(vnegq_f32(self.0)) }
    }
}

impl Not for M {
    type Output = M;
    #[inline(always)]
    fn not(self) -> M {
        // SAFETY: see above.
        unsafe { M(vmvnq_u32(self.0)) }
    }
}

impl Floats for F {
    type I = I;
    type M = M;
    methods! {
        sqrt() -> F: vsqrtq_f32;
        abs() -> F: vabsq_f32;
        lt(other) -> M: vcltq_f32;
        le(other) -> M: vcleq_f32;
        gt(other) -> M: vcgtq_f32;
        ge(other) -> M: vcgeq_f32;
        equal(other) -> M: vceqq_f32;
        bits() -> I: vreinterpretq_s32_f32;
    }
    // The maximum and minimum of NEON differ for NaN, and for zeros of opposite signs.
    #[inline(always)]
    fn max(self, other: F) -> F {
        greater(self, other).select(self, other)
    }
    #[inline(always)]
    fn min(self, other: F) -> F {
        greater(other, self).select(self, other)
    }
    #[inline(always)]
    fn trunc(self) -> I {
        // The conversion saturates, and gives zero for NaN: correct only below the range.
        // SAFETY: see above.
        unsafe {
            let below = vcltq_f32(self.0, vdupq_n_f32(2147483648.0));
            I(vbslq_s32(below, vcvtq_s32_f32(self.0), vdupq_n_s32(i32::MIN)))
        }
    }
    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        let to = &mut to[..N];
        // SAFETY: see above.
        unsafe { vst1q_f32(to.as_mut_ptr(), self.0) }
    }
}

impl Ints for I {
    type F = F;
    type M = M;
    methods! {
        max(other) -> I: vmaxq_s32;
        min(other) -> I: vminq_s32;
        equal(other) -> M: vceqq_s32;
        gt(other) -> M: vcgtq_s32;
        to_f() -> F: vcvtq_f32_s32;
        as_f() -> F: vreinterpretq_f32_s32;
    }
    // The immediate right shifts do not accept 0; left shifts by a vector do, and a constant vector folds.
    #[inline(always)]
    fn shl<const BY: i32>(self) -> I {
        // SAFETY: see above.
        unsafe { I(vshlq_s32(self.0, vdupq_n_s32(BY))) }
    }
    #[inline(always)]
    fn shr<const BY: i32>(self) -> I {
        // SAFETY: see above.
        unsafe { I(vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(self.0), vdupq_n_s32(-BY)))) }
    }
    #[inline(always)]
    fn sar<const BY: i32>(self) -> I {
        // SAFETY: see above.
        unsafe { I(vshlq_s32(self.0, vdupq_n_s32(-BY))) }
    }
    #[inline(always)]
    fn store(self, to: &mut [i32]) {
        let to = &mut to[..N];
        // SAFETY: see above.
        unsafe { vst1q_s32(to.as_mut_ptr(), self.0) }
    }
    #[inline(always)]
    fn store_u8(self, to: &mut [u8]) {
        // SAFETY: see above.
        let packed = unsafe {
            let halves = vmovn_u32(vreinterpretq_u32_s32(self.0));
            let bytes = vmovn_u16(vcombine_u16(halves, halves));
            vget_lane_u32::<0>(vreinterpret_u32_u8(bytes))
        };
        to[..N].copy_from_slice(&packed.to_le_bytes());
    }
}

impl Masks for M {
    type F = F;
    type I = I;
    #[inline(always)]
    fn any(self) -> bool {
        // SAFETY: see above.
        unsafe { vmaxvq_u32(self.0) != 0 }
    }
    #[inline(always)]
    fn to_bits(self) -> u32 {
        // SAFETY: see above; four numbers are read.
        unsafe { vaddvq_u32(vandq_u32(self.0, vld1q_u32([1, 2, 4, 8].as_ptr()))) }
    }
    #[inline(always)]
    fn select(self, yes: F, no: F) -> F {
        // SAFETY: see above.
        unsafe { F(vbslq_f32(self.0, yes.0, no.0)) }
    }
    #[inline(always)]
    fn select_i(self, yes: I, no: I) -> I {
        // SAFETY: see above.
        unsafe { I(vbslq_s32(self.0, yes.0, no.0)) }
    }
}

/// Where `a` is greater, as an instruction that is opaque to the compiler. LLVM turns a comparison and selection into NEON's own minimum if
/// the second operand is the constant zero: `x < 0.0 ? x : 0.0` is 0.0 for a negative zero, `fminnm` gives the negative one.
#[inline(always)]
fn greater(a: F, b: F) -> M {
    let mask: uint32x4_t;
    // SAFETY: see above; registers only, no flags, and no effect but the result.
    unsafe {
        core::arch::asm!(
            "fcmgt {mask:v}.4s, {a:v}.4s, {b:v}.4s",
            mask = lateout(vreg) mask,
            a = in(vreg) a.0,
            b = in(vreg) b.0,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    M(mask)
}

/// The byte indexes of a table lookup: the four bytes of number `index & last`, in each lane.
#[inline(always)]
fn byte_indexes(index: I, last: i32) -> uint8x16_t {
    // SAFETY: see above.
    unsafe {
        let number = vandq_s32(index.0, vdupq_n_s32(last));
        vreinterpretq_u8_s32(vmlaq_s32(vdupq_n_s32(0x0302_0100), number, vdupq_n_s32(0x0404_0404)))
    }
}

/// The bytes of the numbers.
#[inline(always)]
fn bytes(x: F) -> uint8x16_t {
    // SAFETY: see above.
    unsafe { vreinterpretq_u8_f32(x.0) }
}

impl Lanes for Neon {
    const N: usize = N;
    type F = F;
    type I = I;
    type M = M;
    type Table4 = F;
    type Table8 = [F; 2];
    type Table16 = [F; 4];
    type Eight = super::twice::Twice<Neon>;

    #[inline(always)]
    fn eight(self) -> Self::Eight {
        super::twice::Twice(self)
    }

    call!(Neon, "neon");

    #[inline(always)]
    fn splat(self, x: f32) -> F {
        // SAFETY: see above.
        unsafe { F(vdupq_n_f32(x)) }
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> I {
        // SAFETY: see above.
        unsafe { I(vdupq_n_s32(x)) }
    }
    #[inline(always)]
    fn mask(self, bits: u32) -> M {
        // SAFETY: see above; four numbers are read.
        unsafe { M(vtstq_u32(vdupq_n_u32(bits), vld1q_u32([1, 2, 4, 8].as_ptr()))) }
    }
    #[inline(always)]
    fn load(self, from: &[f32]) -> F {
        let from = &from[..N];
        // SAFETY: see above.
        unsafe { F(vld1q_f32(from.as_ptr())) }
    }
    #[inline(always)]
    fn load_i(self, from: &[i32]) -> I {
        let from = &from[..N];
        // SAFETY: see above.
        unsafe { I(vld1q_s32(from.as_ptr())) }
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8]) -> I {
        let word = u32::from_le_bytes(*from.first_chunk().expect("a byte for each lane"));
        // SAFETY: see above.
        unsafe {
            let bytes = vreinterpret_u8_u32(vdup_n_u32(word));
            I(vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes)))))
        }
    }
    #[inline(always)]
    fn load_i8(self, from: &[u8]) -> I {
        let word = u32::from_le_bytes(*from.first_chunk().expect("a byte for each lane"));
        // SAFETY: see above.
        unsafe {
            let bytes = vreinterpret_s8_u32(vdup_n_u32(word));
            I(vmovl_s16(vget_low_s16(vmovl_s8(bytes))))
        }
    }
    #[inline(always)]
    fn load_u16(self, from: &[u16]) -> I {
        let from = &from[..N];
        // SAFETY: see above.
        unsafe { I(vreinterpretq_s32_u32(vmovl_u16(vld1_u16(from.as_ptr())))) }
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
        // SAFETY: see above.
        unsafe { F(vreinterpretq_f32_u8(vqtbl1q_u8(bytes(table), byte_indexes(index, 3)))) }
    }
    #[inline(always)]
    fn table8(self, values: &[f32; 8]) -> [F; 2] {
        [self.load(values), self.load(&values[4..])]
    }
    #[inline(always)]
    fn lookup8(self, table: [F; 2], index: I) -> F {
        // SAFETY: see above.
        unsafe {
            let table = uint8x16x2_t(bytes(table[0]), bytes(table[1]));
            F(vreinterpretq_f32_u8(vqtbl2q_u8(table, byte_indexes(index, 7))))
        }
    }
    #[inline(always)]
    fn table16(self, values: &[f32; 16]) -> [F; 4] {
        [self.load(values), self.load(&values[4..]), self.load(&values[8..]), self.load(&values[12..])]
    }
    #[inline(always)]
    fn lookup16(self, table: [F; 4], index: I) -> F {
        // SAFETY: see above.
        unsafe {
            let table = uint8x16x4_t(bytes(table[0]), bytes(table[1]), bytes(table[2]), bytes(table[3]));
            F(vreinterpretq_f32_u8(vqtbl4q_u8(table, byte_indexes(index, 15))))
        }
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
        // Even and odd columns of two rows each, then pairs of them put side by side.
        let pair = |x: float32x4_t| vreinterpretq_f64_f32(x);
        let (even01, odd01) = (pair(vtrn1q_f32(r0.0, r1.0)), pair(vtrn2q_f32(r0.0, r1.0)));
        let (even23, odd23) = (pair(vtrn1q_f32(r2.0, r3.0)), pair(vtrn2q_f32(r2.0, r3.0)));
        [
            F(vreinterpretq_f32_f64(vtrn1q_f64(even01, even23))),
            F(vreinterpretq_f32_f64(vtrn1q_f64(odd01, odd23))),
            F(vreinterpretq_f32_f64(vtrn2q_f64(even01, even23))),
            F(vreinterpretq_f32_f64(vtrn2q_f64(odd01, odd23))),
        ]
    }
}
