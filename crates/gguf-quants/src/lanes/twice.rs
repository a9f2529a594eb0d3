//! Two vectors as one: a kernel over [`Twice`] processes two tiles in step, and each hides the other's latency.

use super::{Floats, Ints, Lanes, Masks, Part, Width};
use core::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

/// An instruction set with twice the lanes.
#[derive(Debug, Clone, Copy)]
pub struct Twice<L>(pub L);

#[derive(Debug, Clone, Copy)]
pub struct Pair<T>(T, T);

macro_rules! operators {
    ($($trait:ident $method:ident),*) => {$(
        impl<T: $trait<Output = T>> $trait for Pair<T> {
            type Output = Pair<T>;
            #[inline(always)]
            fn $method(self, other: Pair<T>) -> Pair<T> {
                Pair(self.0.$method(other.0), self.1.$method(other.1))
            }
        }
    )*};
}

operators!(Add add, Sub sub, Mul mul, Div div, BitAnd bitand, BitOr bitor, BitXor bitxor);

impl<T: Neg<Output = T>> Neg for Pair<T> {
    type Output = Pair<T>;
    #[inline(always)]
    fn neg(self) -> Pair<T> {
        Pair(-self.0, -self.1)
    }
}

impl<T: Not<Output = T>> Not for Pair<T> {
    type Output = Pair<T>;
    #[inline(always)]
    fn not(self) -> Pair<T> {
        Pair(!self.0, !self.1)
    }
}

macro_rules! forward {
    ($($name:ident($($other:ident)?) -> $out:ident;)*) => {$(
        #[inline(always)]
        fn $name(self $(, $other: Self)?) -> Pair<T::$out> {
            Pair(self.0.$name($($other.0)?), self.1.$name($($other.1)?))
        }
    )*};
}

macro_rules! forward_self {
    ($($name:ident($($other:ident)?);)*) => {$(
        #[inline(always)]
        fn $name(self $(, $other: Self)?) -> Self {
            Pair(self.0.$name($($other.0)?), self.1.$name($($other.1)?))
        }
    )*};
}

/// Splits a slice into the parts of the two vectors.
#[inline(always)]
fn halves<T>(to: &mut [T], n: usize) -> (&mut [T], &mut [T]) {
    to[..2 * n].split_at_mut(n)
}

impl<T: Width> Width for Pair<T> {
    const N: usize = 2 * T::N;
}

impl<T: Floats> Floats for Pair<T> {
    type I = Pair<T::I>;
    type M = Pair<T::M>;
    forward_self! { sqrt(); abs(); max(other); min(other); }
    forward! {
        lt(other) -> M; le(other) -> M; gt(other) -> M; ge(other) -> M;
        equal(other) -> M; trunc() -> I; bits() -> I;
    }
    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        let (a, b) = halves(to, T::N);
        self.0.store(a);
        self.1.store(b);
    }
}

impl<T: Ints> Ints for Pair<T> {
    type F = Pair<T::F>;
    type M = Pair<T::M>;
    #[inline(always)]
    fn shl<const BY: i32>(self) -> Self {
        Pair(self.0.shl::<BY>(), self.1.shl::<BY>())
    }
    #[inline(always)]
    fn shr<const BY: i32>(self) -> Self {
        Pair(self.0.shr::<BY>(), self.1.shr::<BY>())
    }
    #[inline(always)]
    fn sar<const BY: i32>(self) -> Self {
        Pair(self.0.sar::<BY>(), self.1.sar::<BY>())
    }
    forward_self! { max(other); min(other); }
    forward! { equal(other) -> M; gt(other) -> M; to_f() -> F; as_f() -> F; }
    #[inline(always)]
    fn store(self, to: &mut [i32]) {
        let (a, b) = halves(to, T::N);
        self.0.store(a);
        self.1.store(b);
    }
    #[inline(always)]
    fn store_u8(self, to: &mut [u8]) {
        let (a, b) = halves(to, T::N);
        self.0.store_u8(a);
        self.1.store_u8(b);
    }
}

impl<T: Masks> Masks for Pair<T> {
    type F = Pair<T::F>;
    type I = Pair<T::I>;
    #[inline(always)]
    fn any(self) -> bool {
        self.0.any() | self.1.any()
    }
    #[inline(always)]
    fn to_bits(self) -> u32 {
        self.0.to_bits() | self.1.to_bits() << T::N
    }
    #[inline(always)]
    fn select(self, yes: Self::F, no: Self::F) -> Self::F {
        Pair(self.0.select(yes.0, no.0), self.1.select(yes.1, no.1))
    }
    #[inline(always)]
    fn select_i(self, yes: Self::I, no: Self::I) -> Self::I {
        Pair(self.0.select_i(yes.0, no.0), self.1.select_i(yes.1, no.1))
    }
}

/// A part with pairs of vectors, called for single ones.
struct InStep<P>(P);

impl<L: Lanes, P: Part<Twice<L>>> Part<L> for InStep<P> {
    type Output = P::Output;
    #[inline(always)]
    fn run(self, lanes: L) -> P::Output {
        self.0.run(Twice(lanes))
    }
}

impl<L: Lanes> Lanes for Twice<L> {
    const N: usize = 2 * L::N;
    type F = Pair<L::F>;
    type I = Pair<L::I>;
    type M = Pair<L::M>;
    type Table4 = L::Table4;
    type Table8 = L::Table8;
    type Table16 = L::Table16;
    type Eight = L::Eight;

    #[inline(always)]
    fn eight(self) -> Self::Eight {
        self.0.eight()
    }

    #[inline(always)]
    fn call<P: Part<Twice<L>>>(self, part: P) -> P::Output {
        self.0.call(InStep(part))
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        Pair(self.0.splat(x), self.0.splat(x))
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> Self::I {
        Pair(self.0.splat_i(x), self.0.splat_i(x))
    }
    #[inline(always)]
    fn mask(self, bits: u32) -> Self::M {
        Pair(self.0.mask(bits), self.0.mask(bits >> L::N))
    }
    #[inline(always)]
    fn load(self, from: &[f32]) -> Self::F {
        Pair(self.0.load(from), self.0.load(&from[L::N..]))
    }
    #[inline(always)]
    fn load_i(self, from: &[i32]) -> Self::I {
        Pair(self.0.load_i(from), self.0.load_i(&from[L::N..]))
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8]) -> Self::I {
        Pair(self.0.load_u8(from), self.0.load_u8(&from[L::N..]))
    }
    #[inline(always)]
    fn load_i8(self, from: &[u8]) -> Self::I {
        Pair(self.0.load_i8(from), self.0.load_i8(&from[L::N..]))
    }
    #[inline(always)]
    fn load_u16(self, from: &[u16]) -> Self::I {
        Pair(self.0.load_u16(from), self.0.load_u16(&from[L::N..]))
    }
    #[inline(always)]
    fn half(self, bits: u16) -> f32 {
        self.0.half(bits)
    }
    #[inline(always)]
    fn splat_half(self, bits: u16) -> Self::F {
        Pair(self.0.splat_half(bits), self.0.splat_half(bits))
    }
    #[inline(always)]
    fn load_half(self, from: &[u8]) -> Self::F {
        Pair(self.0.load_half(from), self.0.load_half(&from[2 * L::N..]))
    }
    #[inline(always)]
    fn store_half(self, x: Self::F, to: &mut [u8]) {
        let (a, b) = halves(to, 2 * L::N);
        self.0.store_half(x.0, a);
        self.0.store_half(x.1, b);
    }
    #[inline(always)]
    fn add_doubles(self, x: Self::F, sums: &mut [f64]) {
        let (a, b) = halves(sums, L::N);
        self.0.add_doubles(x.0, a);
        self.0.add_doubles(x.1, b);
    }
    #[inline(always)]
    fn add_squares(self, x: Self::F, from: f64, sums: &mut [f64]) {
        let (a, b) = halves(sums, L::N);
        self.0.add_squares(x.0, from, a);
        self.0.add_squares(x.1, from, b);
    }
    #[inline(always)]
    fn places(self, x: Self::F, from: f64, scale: f64, last: f64, to: &mut [i32]) {
        let (a, b) = halves(to, L::N);
        self.0.places(x.0, from, scale, last, a);
        self.0.places(x.1, from, scale, last, b);
    }
    #[inline(always)]
    fn gather(self, table: &[f32], index: Self::I) -> Self::F {
        Pair(self.0.gather(table, index.0), self.0.gather(table, index.1))
    }
    #[inline(always)]
    fn gather_i(self, table: &[i32], index: Self::I) -> Self::I {
        Pair(self.0.gather_i(table, index.0), self.0.gather_i(table, index.1))
    }
    #[inline(always)]
    fn table4(self, values: &[f32; 4]) -> Self::Table4 {
        self.0.table4(values)
    }
    #[inline(always)]
    fn lookup4(self, table: Self::Table4, index: Self::I) -> Self::F {
        Pair(self.0.lookup4(table, index.0), self.0.lookup4(table, index.1))
    }
    #[inline(always)]
    fn table8(self, values: &[f32; 8]) -> Self::Table8 {
        self.0.table8(values)
    }
    #[inline(always)]
    fn lookup8(self, table: Self::Table8, index: Self::I) -> Self::F {
        Pair(self.0.lookup8(table, index.0), self.0.lookup8(table, index.1))
    }
    #[inline(always)]
    fn table16(self, values: &[f32; 16]) -> Self::Table16 {
        self.0.table16(values)
    }
    #[inline(always)]
    fn lookup16(self, table: Self::Table16, index: Self::I) -> Self::F {
        Pair(self.0.lookup16(table, index.0), self.0.lookup16(table, index.1))
    }
    #[inline(always)]
    fn pick4(self, table: Self::F, index: Self::I) -> Self::F {
        Pair(self.0.pick4(table.0, index.0), self.0.pick4(table.1, index.1))
    }
    #[inline(always)]
    fn pick8(self, table: Self::F, index: Self::I) -> Self::F {
        if L::N < 8 {
            Pair(self.0.pick_of_two(table.0, table.1, index.0), self.0.pick_of_two(table.0, table.1, index.1))
        } else {
            Pair(self.0.pick8(table.0, index.0), self.0.pick8(table.1, index.1))
        }
    }
    #[inline(always)]
    fn least_of_eight(self, x: Self::I) -> Self::I {
        if L::N < 8 {
            let least = x.0.min(x.1);
            let mut lane = [0; super::MAX_LANES];
            least.store(&mut lane);
            let mut one = lane[0];
            for &x in &lane[1..L::N] {
                one = one.min(x);
            }
            self.splat_i(one)
        } else {
            Pair(self.0.least_of_eight(x.0), self.0.least_of_eight(x.1))
        }
    }
    #[inline(always)]
    fn columns<const LEN: usize>(self, rows: &[&[f32; LEN]]) -> [Self::F; LEN] {
        let (a, b) = (self.0.columns(rows), self.0.columns(&rows[L::N..]));
        let mut columns = [self.splat(0.0); LEN];
        for j in 0..LEN {
            columns[j] = Pair(a[j], b[j]);
        }
        columns
    }
}
