//! Plain arrays: the definition of every operation, and the fallback for CPUs without vectors.

use super::{Floats, Ints, Lanes, Masks, Part, Width, trunc};
use crate::float::f16_to_f32_ggml;
use core::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

const N: usize = 8;

/// Eight lanes in plain arrays, for any CPU.
#[derive(Debug, Clone, Copy)]
pub struct Arrays;

impl Arrays {
    /// Whether kernels are compiled for plain arrays: on targets without vectors, in tests, and with the feature `arrays`. Elsewhere they
    /// would take a third of the compile time, for CPUs that are very rare.
    pub const COMPILED: bool = cfg!(any(
        test,
        feature = "arrays",
        not(any(
            target_arch = "x86_64",
            all(target_arch = "aarch64", target_endian = "little"),
            all(target_arch = "wasm32", target_feature = "simd128")
        ))
    ));
}

vectors! {
    F([f32; N]): N;
    I([i32; N]): N;
    M([bool; N]): N;
}

macro_rules! each {
    (|$i:ident| $value:expr) => {{
        let mut out = [Default::default(); N];
        for $i in 0..N {
            out[$i] = $value;
        }
        out
    }};
}

macro_rules! operators {
    ($($vector:ident $trait:ident $method:ident |$a:ident, $b:ident| $value:expr;)*) => {$(
        impl $trait for $vector {
            type Output = $vector;
            #[inline(always)]
            fn $method(self, other: $vector) -> $vector {
                $vector(each!(|i| { let ($a, $b) = (self.0[i], other.0[i]); $value }))
            }
        }
    )*};
}

operators! {
    F Add add |a, b| a + b;
    F Sub sub |a, b| a - b;
    F Mul mul |a, b| a * b;
    F Div div |a, b| a / b;
    I Add add |a, b| a.wrapping_add(b);
    I Sub sub |a, b| a.wrapping_sub(b);
    I Mul mul |a, b| a.wrapping_mul(b);
    I BitAnd bitand |a, b| a & b;
    I BitOr bitor |a, b| a | b;
    I BitXor bitxor |a, b| a ^ b;
    M BitAnd bitand |a, b| a & b;
    M BitOr bitor |a, b| a | b;
}

impl Neg for F {
    type Output = F;
    #[inline(always)]
    fn neg(self) -> F {
        F(each!(|i| -self.0[i]))
    }
}

impl Not for M {
    type Output = M;
    #[inline(always)]
    fn not(self) -> M {
        M(each!(|i| !self.0[i]))
    }
}

impl Floats for F {
    type I = I;
    type M = M;

    #[inline(always)]
    fn sqrt(self) -> F {
        F(each!(|i| self.0[i].sqrt()))
    }
    #[inline(always)]
    fn abs(self) -> F {
        F(each!(|i| self.0[i].abs()))
    }
    #[inline(always)]
    fn max(self, other: F) -> F {
        F(each!(|i| if self.0[i] > other.0[i] { self.0[i] } else { other.0[i] }))
    }
    #[inline(always)]
    fn min(self, other: F) -> F {
        F(each!(|i| if self.0[i] < other.0[i] { self.0[i] } else { other.0[i] }))
    }
    #[inline(always)]
    fn lt(self, other: F) -> M {
        M(each!(|i| self.0[i] < other.0[i]))
    }
    #[inline(always)]
    fn le(self, other: F) -> M {
        M(each!(|i| self.0[i] <= other.0[i]))
    }
    #[inline(always)]
    fn gt(self, other: F) -> M {
        M(each!(|i| self.0[i] > other.0[i]))
    }
    #[inline(always)]
    fn ge(self, other: F) -> M {
        M(each!(|i| self.0[i] >= other.0[i]))
    }
    #[inline(always)]
    fn equal(self, other: F) -> M {
        M(each!(|i| self.0[i] == other.0[i]))
    }
    #[inline(always)]
    fn trunc(self) -> I {
        I(each!(|i| trunc(self.0[i])))
    }
    #[inline(always)]
    fn bits(self) -> I {
        I(each!(|i| self.0[i].to_bits() as i32))
    }
    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        to[..N].copy_from_slice(&self.0);
    }
}

impl Ints for I {
    type F = F;
    type M = M;

    #[inline(always)]
    fn shl<const BY: i32>(self) -> I {
        I(each!(|i| self.0[i] << BY))
    }
    #[inline(always)]
    fn shr<const BY: i32>(self) -> I {
        I(each!(|i| (self.0[i] as u32 >> BY) as i32))
    }
    #[inline(always)]
    fn sar<const BY: i32>(self) -> I {
        I(each!(|i| self.0[i] >> BY))
    }
    #[inline(always)]
    fn max(self, other: I) -> I {
        I(each!(|i| self.0[i].max(other.0[i])))
    }
    #[inline(always)]
    fn min(self, other: I) -> I {
        I(each!(|i| self.0[i].min(other.0[i])))
    }
    #[inline(always)]
    fn equal(self, other: I) -> M {
        M(each!(|i| self.0[i] == other.0[i]))
    }
    #[inline(always)]
    fn gt(self, other: I) -> M {
        M(each!(|i| self.0[i] > other.0[i]))
    }
    #[inline(always)]
    fn to_f(self) -> F {
        F(each!(|i| self.0[i] as f32))
    }
    #[inline(always)]
    fn as_f(self) -> F {
        F(each!(|i| f32::from_bits(self.0[i] as u32)))
    }
    #[inline(always)]
    fn store(self, to: &mut [i32]) {
        to[..N].copy_from_slice(&self.0);
    }
    #[inline(always)]
    fn store_u8(self, to: &mut [u8]) {
        to[..N].copy_from_slice(&each!(|i| self.0[i] as u8));
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
        let mut bits = 0;
        for i in 0..N {
            bits |= u32::from(self.0[i]) << i;
        }
        bits
    }
    #[inline(always)]
    fn select(self, yes: F, no: F) -> F {
        F(each!(|i| if self.0[i] { yes.0[i] } else { no.0[i] }))
    }
    #[inline(always)]
    fn select_i(self, yes: I, no: I) -> I {
        I(each!(|i| if self.0[i] { yes.0[i] } else { no.0[i] }))
    }
}

impl Lanes for Arrays {
    const N: usize = N;
    const PAIRS_ARE_FASTER: bool = false;
    type F = F;
    type I = I;
    type M = M;
    type Table4 = [f32; 4];
    type Table8 = [f32; 8];
    type Table16 = [f32; 16];
    type Eight = Arrays;

    #[inline(always)]
    fn eight(self) -> Self::Eight {
        self
    }

    #[inline(never)]
    fn call<P: Part<Arrays>>(self, part: P) -> P::Output {
        part.run(self)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> F {
        F([x; N])
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> I {
        I([x; N])
    }
    #[inline(always)]
    fn mask(self, bits: u32) -> M {
        M(each!(|i| bits >> i & 1 != 0))
    }
    #[inline(always)]
    fn load(self, from: &[f32]) -> F {
        let from = &from[..N];
        F(each!(|i| from[i]))
    }
    #[inline(always)]
    fn load_i(self, from: &[i32]) -> I {
        let from = &from[..N];
        I(each!(|i| from[i]))
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8]) -> I {
        let from = &from[..N];
        I(each!(|i| i32::from(from[i])))
    }
    #[inline(always)]
    fn load_i8(self, from: &[u8]) -> I {
        let from = &from[..N];
        I(each!(|i| i32::from(from[i] as i8)))
    }
    #[inline(always)]
    fn load_u16(self, from: &[u16]) -> I {
        let from = &from[..N];
        I(each!(|i| i32::from(from[i])))
    }
    #[inline(always)]
    fn half(self, bits: u16) -> f32 {
        f16_to_f32_ggml(bits)
    }
    #[inline(always)]
    fn load_half(self, from: &[u8]) -> F {
        let from = &from.as_chunks().0[..N];
        F(each!(|i| f16_to_f32_ggml(u16::from_le_bytes(from[i]))))
    }
    #[inline(always)]
    fn gather(self, table: &[f32], index: I) -> F {
        F(each!(|i| table[(index.0[i] as u32 as usize).min(table.len() - 1)]))
    }
    #[inline(always)]
    fn gather_i(self, table: &[i32], index: I) -> I {
        I(each!(|i| table[(index.0[i] as u32 as usize).min(table.len() - 1)]))
    }
    #[inline(always)]
    fn table4(self, values: &[f32; 4]) -> [f32; 4] {
        *values
    }
    #[inline(always)]
    fn lookup4(self, table: [f32; 4], index: I) -> F {
        F(each!(|i| table[(index.0[i] & 3) as usize]))
    }
    #[inline(always)]
    fn table8(self, values: &[f32; 8]) -> [f32; 8] {
        *values
    }
    #[inline(always)]
    fn lookup8(self, table: [f32; 8], index: I) -> F {
        F(each!(|i| table[(index.0[i] & 7) as usize]))
    }
    #[inline(always)]
    fn table16(self, values: &[f32; 16]) -> [f32; 16] {
        *values
    }
    #[inline(always)]
    fn lookup16(self, table: [f32; 16], index: I) -> F {
        F(each!(|i| table[(index.0[i] & 15) as usize]))
    }
}
