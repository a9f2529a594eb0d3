//! Every operation of every instruction set against its scalar expression, over awkward numbers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::arrays::Arrays;
use super::twice::Twice;
use super::{Floats, Ints, Lanes, MAX_LANES, Masks};
use crate::dispatch::{Isa, Kernel};
use crate::float::f16_to_f32_ggml;

/// Runs a kernel with every instruction set of this machine, and with pairs of its vectors.
fn everywhere<K: Kernel<Output = ()> + Copy>(kernel: K) {
    for isa in Isa::available() {
        isa.run(kernel);
        isa.run(InPairs(kernel));
    }
    kernel.run(Twice(Arrays));
}

/// A kernel with pairs of vectors.
#[derive(Clone, Copy)]
struct InPairs<K>(K);

impl<K: Kernel> Kernel for InPairs<K> {
    type Output = K::Output;
    fn plain(self) -> K::Output {
        self.0.plain()
    }
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> K::Output {
        self.0.run(Twice(lanes))
    }
}

/// A kernel from a generic function of the lanes.
macro_rules! kernel {
    ($(#[$meta:meta])* $name:ident, |$lanes:ident: $type:ident| $body:block) => {
        $(#[$meta])*
        #[test]
        fn $name() {
            #[derive(Clone, Copy)]
            struct Run;
            impl Kernel for Run {
                type Output = ();
                fn plain(self) {
                    self.run(Arrays);
                }
                #[inline(always)]
                fn run<$type: Lanes>(self, $lanes: $type) $body
            }
            everywhere(Run);
        }
    };
}

/// Special floats and their neighbours, with both signs.
fn floats() -> Vec<f32> {
    let bits = |x: f32, by: i32| f32::from_bits((x.to_bits() as i32 + by) as u32);
    let two_to = |e: i32| 2f32.powi(e);
    let mut x =
        vec![0.0, 1.0, 0.5, 1.5, 2.5, 3.5, 0.1, 1.0 / 3.0, 12345.678, 65504.0, 12582912.0, 4194303.0, 4194303.5];
    for around in [0.5, 1.0, two_to(22), two_to(23), two_to(24), two_to(31), two_to(32), f32::MIN_POSITIVE] {
        x.extend([bits(around, -1), around, bits(around, 1)]);
    }
    // The smallest and largest denormal, one between them; the largest number and infinity.
    x.extend([f32::from_bits(1), f32::from_bits(0x007f_ffff), f32::from_bits(0x0012_3456), f32::MAX, f32::INFINITY]);
    x.extend([1e-30, 1e-20, 1e20, 1e30]);
    // NaNs, quiet and signalling, with different payloads.
    x.extend([0x7fc0_0000, 0x7fc1_2345, 0x7f80_0001, 0x7fbf_ffff].map(f32::from_bits));
    x.iter().flat_map(|&x| [x, -x]).collect()
}

/// Special integers and their neighbours.
fn integers() -> Vec<i32> {
    let mut x =
        vec![0x1234_5678, 0x7f80_ff01, -0x1234_5678, 16777217, -16777217, 33554433, 33554435, 255, 256, 257, 65535];
    for around in [0, 7, 16, 128, 1 << 22, 1 << 23, 1 << 24, 1 << 30, i32::MIN, i32::MAX] {
        for by in -3i32..=3 {
            x.push(by.wrapping_add(around));
            x.push(by.wrapping_sub(around));
        }
    }
    x
}

/// All pairs, in chunks that fill any vector.
fn pairs<T: Copy>(values: &[T]) -> Vec<([T; MAX_LANES], [T; MAX_LANES])> {
    let all: Vec<(T, T)> = values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b))).collect();
    let chunk = |c: &[(T, T)]| {
        // The last chunk is padded by repetition.
        let at = |i: usize| c[i % c.len()];
        (core::array::from_fn(|i| at(i).0), core::array::from_fn(|i| at(i).1))
    };
    all.chunks(MAX_LANES).map(chunk).collect()
}

/// Equal bits.
fn same_bits(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits()
}

/// Equal bits, or both NaN: IEEE does not define the payload.
fn same_number(a: f32, b: f32) -> bool {
    same_bits(a, b) || a.is_nan() && b.is_nan()
}

/// The elements of a vector.
macro_rules! lanes_of {
    ($type:ident, $vector:expr, $zero:expr) => {{
        let mut out = [$zero; MAX_LANES];
        $vector.store(&mut out);
        out
    }};
}

/// Compares each operation, as it acts on vectors, with its expression.
macro_rules! check {
    // Two floats to a float.
    (floats $lanes:ident $type:ident $($same:ident |$a:ident, $b:ident| $vector:expr,
     |$x:ident, $y:ident| $scalar:expr;)*) => {
        for (first, second) in pairs(&floats()) {
            let ($lanes, (v, w)) = ($lanes, ($lanes.load(&first), $lanes.load(&second)));
            $({
                let ($a, $b) = (v, w);
                let got = lanes_of!($type, $vector, 0.0f32);
                for i in 0..$type::N {
                    let ($x, $y) = (first[i], second[i]);
                    let expected: f32 = $scalar;
                    assert!($same(got[i], expected),
                        "{:?}: {} of {:e} ({:#010x}) and {:e} ({:#010x}): {:e} ({:#010x}), not {:e} ({:#010x})",
                        $lanes, stringify!($vector), $x, $x.to_bits(), $y, $y.to_bits(),
                        got[i], got[i].to_bits(), expected,
                        expected.to_bits());
                }
            })*
        }
    };
    // Two floats to a mask.
    (compare $lanes:ident $type:ident $($name:ident |$x:ident, $y:ident| $scalar:expr;)*) => {
        for (first, second) in pairs(&floats()) {
            $({
                let mask = $lanes.load(&first).$name($lanes.load(&second));
                for i in 0..$type::N {
                    let ($x, $y) = (first[i], second[i]);
                    let expected: bool = $scalar;
                    assert_eq!(
                        mask.to_bits() >> i & 1 != 0, expected,
                        "{:?}: {} of {:e} and {:e}", $lanes, stringify!($name), $x, $y
                    );
                }
            })*
        }
    };
    // Two integers to an integer.
    (integers $lanes:ident $type:ident $(|$a:ident, $b:ident| $vector:expr, |$x:ident, $y:ident| $scalar:expr;)*) => {
        for (first, second) in pairs(&integers()) {
            let (v, w) = ($lanes.load_i(&first), $lanes.load_i(&second));
            $({
                let ($a, $b) = (v, w);
                let got = lanes_of!($type, $vector, 0i32);
                for i in 0..$type::N {
                    let ($x, $y) = (first[i], second[i]);
                    let expected: i32 = $scalar;
                    assert_eq!(
                        got[i], expected,
                        "{:?}: {} of {:#010x} and {:#010x}", $lanes, stringify!($vector), $x, $y
                    );
                }
            })*
        }
    };
}

kernel!(arithmetic_of_floats, |lanes: L| {
    check! { floats lanes L
        same_number |a, b| a + b, |x, y| x + y;
        same_number |a, b| a - b, |x, y| x - y;
        same_number |a, b| a * b, |x, y| x * y;
        same_number |a, b| a / b, |x, y| x / y;
        // A multiplication and an addition are rounded separately.
        same_number |a, b| a * b + a, |x, y| x * y + x;
        same_number |a, b| a * b - b, |x, y| x * y - y;
        same_number |a, _b| a.sqrt(), |x, _y| x.sqrt();
        same_bits |a, b| a.max(b), |x, y| if x > y { x } else { y };
        same_bits |a, b| a.min(b), |x, y| if x < y { x } else { y };
        same_bits |a, _b| a.abs(), |x, _y| f32::from_bits(x.to_bits() & 0x7fff_ffff);
        same_bits |a, _b| -a, |x, _y| f32::from_bits(x.to_bits() ^ 0x8000_0000);
        same_bits |a, _b| a.bits().as_f(), |x, _y| x;
    }
});

kernel!(comparisons_of_floats, |lanes: L| {
    check! { compare lanes L
        lt |x, y| x < y;
        le |x, y| x <= y;
        gt |x, y| x > y;
        ge |x, y| x >= y;
        equal |x, y| x == y;
    }
});

kernel!(floats_to_integers, |lanes: L| {
    for (from, _) in pairs(&floats()) {
        let x = lanes.load(&from);
        let (cut, bits) = (lanes_of!(L, x.trunc(), 0), lanes_of!(L, x.bits(), 0));
        for i in 0..L::N {
            // The wider range does not saturate, and NaN becomes zero.
            let whole = from[i] as i64;
            let fits = !from[i].is_nan() && i32::try_from(whole).is_ok();
            let expected = if fits { whole as i32 } else { i32::MIN };
            assert_eq!(cut[i], expected, "{lanes:?}: {:e} cut", from[i]);
            assert_eq!(bits[i] as u32, from[i].to_bits(), "{lanes:?}");
        }
    }
});

kernel!(arithmetic_of_integers, |lanes: L| {
    check! { integers lanes L
        |a, b| a + b, |x, y| x.wrapping_add(y);
        |a, b| a - b, |x, y| x.wrapping_sub(y);
        |a, b| a * b, |x, y| x.wrapping_mul(y);
        |a, b| a & b, |x, y| x & y;
        |a, b| a | b, |x, y| x | y;
        |a, b| a ^ b, |x, y| x ^ y;
        |a, b| a.max(b), |x, y| x.max(y);
        |a, b| a.min(b), |x, y| x.min(y);
        |a, b| a.equal(b).select_i(a, b + a), |x, y| if x == y { x } else { y.wrapping_add(x) };
        |a, b| a.gt(b).select_i(a, b + b), |x, y| if x > y { x } else { y.wrapping_add(y) };
        |a, _b| a.shl::<0>(), |x, _y| x;
        |a, _b| a.shl::<1>(), |x, _y| x << 1;
        |a, _b| a.shl::<8>(), |x, _y| x << 8;
        |a, _b| a.shl::<31>(), |x, _y| x << 31;
        |a, _b| a.shr::<0>(), |x, _y| x;
        |a, _b| a.shr::<1>(), |x, _y| (x as u32 >> 1) as i32;
        |a, _b| a.shr::<13>(), |x, _y| (x as u32 >> 13) as i32;
        |a, _b| a.shr::<31>(), |x, _y| (x as u32 >> 31) as i32;
        |a, _b| a.sar::<0>(), |x, _y| x;
        |a, _b| a.sar::<1>(), |x, _y| x >> 1;
        |a, _b| a.sar::<13>(), |x, _y| x >> 13;
        |a, _b| a.sar::<31>(), |x, _y| x >> 31;
    }
});

kernel!(integers_to_floats, |lanes: L| {
    for (from, _) in pairs(&integers()) {
        let x = lanes.load_i(&from);
        let (nearest, cast) = (lanes_of!(L, x.to_f(), 0.0), lanes_of!(L, x.as_f(), 0.0));
        let mut bytes = [0xa5; MAX_LANES + 1];
        x.store_u8(&mut bytes);
        let mut words = [0xa5; 2 * MAX_LANES + 1];
        lanes.store_le16(x, &mut words);
        for i in 0..L::N {
            assert!(same_bits(nearest[i], from[i] as f32), "{lanes:?}: {}", from[i]);
            assert_eq!(cast[i].to_bits(), from[i] as u32, "{lanes:?}");
            assert_eq!(bytes[i], from[i] as u8, "{lanes:?}");
            assert_eq!(words[2 * i..2 * i + 2], (from[i] as u16).to_le_bytes(), "{lanes:?}");
        }
        assert!(words[2 * L::N..].iter().all(|&b| b == 0xa5), "{lanes:?}: words written past the lanes");
        assert!(bytes[L::N..].iter().all(|&b| b == 0xa5), "{lanes:?}: bytes written past the lanes");
    }
});

kernel!(masks, |lanes: L| {
    let all = u32::MAX >> (32 - L::N);
    let (f, g) = (lanes.load(&[1.5; MAX_LANES]), lanes.load(&[-2.5; MAX_LANES]));
    let (n, m) = (lanes.splat_i(0x0123_4567), lanes.splat_i(-2));
    let single = (0..32).map(|i| 1u32 << i);
    let mixed = [0, u32::MAX, 0x5555_5555, 0xaaaa_aaaa, 0xffff_0000, 0x0000_ffff, 0x9e37_79b9, 0x7fff_fffe];
    for bits in single.chain(mixed) {
        let mask = lanes.mask(bits);
        assert_eq!(mask.to_bits(), bits & all, "{lanes:?}");
        assert_eq!((!mask).to_bits(), !bits & all, "{lanes:?}");
        assert_eq!(mask.any(), bits & all != 0, "{lanes:?}");
        for other in mixed {
            assert_eq!((mask & lanes.mask(other)).to_bits(), bits & other & all, "{lanes:?}");
            assert_eq!((mask | lanes.mask(other)).to_bits(), (bits | other) & all, "{lanes:?}");
        }
        let (chosen, chosen_i) = (lanes_of!(L, mask.select(f, g), 0.0), lanes_of!(L, mask.select_i(n, m), 0));
        for i in 0..L::N {
            let yes = bits >> i & 1 != 0;
            assert_eq!(chosen[i], if yes { 1.5 } else { -2.5 }, "{lanes:?}");
            assert_eq!(chosen_i[i], if yes { 0x0123_4567 } else { -2 }, "{lanes:?}");
        }
    }
    // A selection keeps every bit, even of NaNs.
    check! { floats lanes L
        same_bits |a, b| a.lt(b).select(a, b), |x, y| if x < y { x } else { y };
        same_bits |a, b| (!a.equal(b)).select(b, a), |x, y| if x != y { y } else { x };
    }
});

/// Distinct numbers for every entry of a table.
fn numbered<T, const LEN: usize>(number: impl FnMut(usize) -> T) -> [T; LEN] {
    core::array::from_fn(number)
}

kernel!(lookups, |lanes: L| {
    // Each byte of an entry differs from those of its neighbours.
    let entry = |i: usize| f32::from_bits(0x3f81_8283 + 0x0001_0409 * i as u32);
    let (four, eight, sixteen) = (numbered::<_, 4>(entry), numbered::<_, 8>(entry), numbered::<_, 16>(entry));
    let tables = (lanes.table4(&four), lanes.table8(&eight), lanes.table16(&sixteen));
    let mut indexes = integers();
    indexes.extend(-40..40);
    for (index, _) in pairs(&indexes) {
        let at = lanes.load_i(&index);
        let by4 = lanes_of!(L, lanes.lookup4(tables.0, at), 0.0);
        let by8 = lanes_of!(L, lanes.lookup8(tables.1, at), 0.0);
        let by16 = lanes_of!(L, lanes.lookup16(tables.2, at), 0.0);
        for i in 0..L::N {
            assert!(same_bits(by4[i], four[(index[i] & 3) as usize]), "{lanes:?}: of four at {}", index[i]);
            assert!(same_bits(by8[i], eight[(index[i] & 7) as usize]), "{lanes:?}: of eight at {}", index[i]);
            assert!(same_bits(by16[i], sixteen[(index[i] & 15) as usize]), "{lanes:?}: of sixteen at {}", index[i]);
        }
    }
});

kernel!(gathers_stay_inside_the_table, |lanes: L| {
    let mut indexes = integers();
    indexes.extend(-40..600);
    let (floats, integers): ([f32; 512], [i32; 512]) = (numbered(|i| i as f32), numbered(|i| i as i32 * 0x0101));
    for len in [1, 2, 255, 512] {
        for (index, _) in pairs(&indexes).iter().step_by(if len == 255 { 1 } else { 7 }) {
            let at = lanes.load_i(index);
            let got = lanes_of!(L, lanes.gather(&floats[..len], at), 0.0);
            let got_i = lanes_of!(L, lanes.gather_i(&integers[..len], at), 0);
            for i in 0..L::N {
                let expected = (index[i] as u32 as usize).min(len - 1);
                assert_eq!(got[i], floats[expected], "{lanes:?}: {} of {len}", index[i]);
                assert_eq!(got_i[i], integers[expected], "{lanes:?}: {} of {len}", index[i]);
            }
        }
    }
});

kernel!(loads_and_stores, |lanes: L| {
    // An offset of one, so that nothing is aligned.
    let floats: [f32; MAX_LANES + 1] = numbered(|i| f32::from_bits(0xff80_0001 + 0x0101 * i as u32));
    let integers: [i32; MAX_LANES + 1] = numbered(|i| i as i32 - 0x7fff_fff0);
    let bytes: [u8; MAX_LANES + 1] = numbered(|i| (i * 41) as u8 ^ 0x83);
    let words: [u16; MAX_LANES + 1] = numbered(|i| (i * 4129) as u16 ^ 0x8003);
    let mut out = [7.0; MAX_LANES + 2];
    lanes.load(&floats[1..]).store(&mut out[1..]);
    let mut out_i = [7; MAX_LANES + 2];
    lanes.load_i(&integers[1..]).store(&mut out_i[1..]);
    let unsigned = lanes_of!(L, lanes.load_u8(&bytes[1..]), 0);
    let signed = lanes_of!(L, lanes.load_i8(&bytes[1..]), 0);
    let wide = lanes_of!(L, lanes.load_u16(&words[1..]), 0);
    for i in 0..L::N {
        assert!(same_bits(out[1 + i], floats[1 + i]), "{lanes:?}");
        assert_eq!(out_i[1 + i], integers[1 + i], "{lanes:?}");
        assert_eq!(unsigned[i], i32::from(bytes[1 + i]), "{lanes:?}");
        assert_eq!(signed[i], i32::from(bytes[1 + i] as i8), "{lanes:?}");
        assert_eq!(wide[i], i32::from(words[1 + i]), "{lanes:?}");
    }
    assert_eq!(
        (out[0], out[L::N + 1], out_i[0], out_i[L::N + 1]),
        (7.0, 7.0, 7, 7),
        "{lanes:?}: written past the lanes"
    );
    let splat = (lanes_of!(L, lanes.splat(-0.0), 1.0), lanes_of!(L, lanes.splat_i(-9), 0));
    assert!(
        splat.0[..L::N].iter().all(|x| same_bits(*x, -0.0)) && splat.1[..L::N].iter().all(|&x| x == -9),
        "{lanes:?}"
    );
});

kernel!(halves, |lanes: L| {
    for from in (0..=u16::MAX).step_by(MAX_LANES) {
        let mut bytes = [0; 2 * MAX_LANES];
        for (i, half) in bytes.as_chunks_mut().0.iter_mut().enumerate() {
            *half = (from + i as u16).to_le_bytes();
        }
        let row = lanes_of!(L, lanes.load_half(&bytes), 0.0);
        for i in 0..L::N {
            let half = from + i as u16;
            let expected = f16_to_f32_ggml(half);
            assert!(same_bits(row[i], expected), "{lanes:?}: {half:#06x} in a row");
            assert!(same_bits(lanes.half(half), expected), "{lanes:?}: {half:#06x}");
            let splat = lanes_of!(L, lanes.splat_half(half), 0.0);
            assert!(splat[..L::N].iter().all(|&x| same_bits(x, expected)), "{lanes:?}: {half:#06x} in every lane");
        }
    }
});

kernel!(sums_and_places_in_double_precision, |lanes: L| {
    let finite: Vec<f32> = floats().into_iter().filter(|x| x.is_finite()).collect();
    for x in finite.chunks_exact(L::N) {
        let (mut sums, mut expected) = ([0.1; MAX_LANES], [0.1; MAX_LANES]);
        for from in [0.0, -0.3, 1e30] {
            lanes.add_squares(lanes.load(x), from, &mut sums);
            lanes.add_doubles(lanes.load(x), &mut sums);
            for lane in 0..L::N {
                expected[lane] += (f64::from(x[lane]) - from) * (f64::from(x[lane]) - from);
                expected[lane] += f64::from(x[lane]);
            }
        }
        assert_eq!(sums.map(f64::to_bits), expected.map(f64::to_bits), "{x:?}");
    }
    // Whole numbers, their neighbours, and what is above the last place.
    for n in [0i32, 1, 2, 255, 256, 1 << 20, i32::MAX - 1, i32::MAX] {
        for by in [-1, 0, 1] {
            let x = f32::from_bits((n as f32).to_bits().saturating_add_signed(by)).max(0.0);
            for (from, scale) in [(0.0, 1.0), (-0.3, 0.7), (0.0, 1e9)] {
                for last in [0, 255, i32::MAX] {
                    let mut places = [0; MAX_LANES];
                    lanes.places(lanes.splat(x), from, scale, f64::from(last), &mut places);
                    let at = ((f64::from(x) - from) * scale) as i32;
                    assert_eq!(places[..L::N], [at.min(last); MAX_LANES][..L::N], "({x} - {from}) * {scale} to {last}");
                }
            }
        }
    }
});

kernel!(rows_to_columns, |lanes: L| {
    transposed::<L, 16>(lanes);
    transposed::<L, 32>(lanes);
    transposed::<L, 256>(lanes);
});

#[inline(always)]
fn transposed<L: Lanes, const LEN: usize>(lanes: L) {
    let values: Vec<[f32; LEN]> = (0..MAX_LANES).map(|i| numbered(|j| (i * LEN + j) as f32)).collect();
    // Permuted, because rows need not be adjacent.
    let rows: [&[f32; LEN]; MAX_LANES] = numbered(|i| &values[i * 5 % MAX_LANES]);
    let columns = lanes.columns(&rows);
    for j in 0..LEN {
        let column = lanes_of!(L, columns[j], 0.0);
        for i in 0..L::N {
            assert_eq!(column[i], rows[i][j], "{lanes:?}: column {j} of {LEN}, lane {i}");
        }
    }
}

kernel!(lanes_in_fours_and_eights, |lanes: L| {
    let floats: [f32; MAX_LANES] = numbered(|i| 1.0 + i as f32);
    let table = lanes.load(&floats);
    let mut random = 1u32;
    for _ in 0..500 {
        let index: [i32; MAX_LANES] = numbered(|_| {
            random = random.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
            random as i32 >> (random >> 27)
        });
        let at = lanes.load_i(&index);
        let by4 = lanes_of!(L, lanes.pick4(table, at), 0.0);
        for i in 0..L::N {
            assert_eq!(by4[i], floats[i / 4 * 4 + (index[i] & 3) as usize], "{lanes:?}: of four at {}", index[i]);
        }
        if !L::N.is_multiple_of(8) {
            continue;
        }
        let eights = lanes.load(&numbered::<_, MAX_LANES>(|i| floats[i % 8]));
        let (by8, least) = (lanes_of!(L, lanes.pick8(eights, at), 0.0), lanes_of!(L, lanes.least_of_eight(at), 0));
        for i in 0..L::N {
            let eight = i / 8 * 8;
            assert_eq!(by8[i], floats[(index[i] & 7) as usize], "{lanes:?}: of eight at {}", index[i]);
            assert_eq!(Some(&least[i]), index[eight..eight + 8].iter().min(), "{lanes:?}: {index:?}");
        }
    }
});

/// Whether a function panics. The vectors are created inside.
fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

/// An access to a slice that is one element too short; each must panic.
#[derive(Debug, Clone, Copy)]
enum Short {
    Load,
    LoadI,
    LoadU8,
    LoadI8,
    LoadU16,
    LoadHalf,
    Store,
    StoreI,
    StoreU8,
    StoreLe16,
    Gather,
    GatherI,
    Columns,
    AddDoubles,
    AddSquares,
    Places,
}

#[cfg_attr(panic = "abort", ignore = "panics are caught")]
#[test]
fn short_slices_panic() {
    use Short::*;

    #[derive(Clone, Copy)]
    struct Run(Short, bool);
    impl Kernel for Run {
        type Output = ();
        fn plain(self) {
            self.run(Arrays);
        }
        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) {
            let n = if self.1 { L::N - 1 } else { L::N };
            match self.0 {
                Load => _ = lanes.load(&[0.0; MAX_LANES][..n]),
                LoadI => _ = lanes.load_i(&[0; MAX_LANES][..n]),
                LoadU8 => _ = lanes.load_u8(&[0; MAX_LANES][..n]),
                LoadI8 => _ = lanes.load_i8(&[0; MAX_LANES][..n]),
                LoadU16 => _ = lanes.load_u16(&[0; MAX_LANES][..n]),
                LoadHalf => _ = lanes.load_half(&[0; 2 * MAX_LANES][..2 * n]),
                Store => lanes.splat(0.0).store(&mut [0.0; MAX_LANES][..n]),
                StoreI => lanes.splat_i(0).store(&mut [0; MAX_LANES][..n]),
                StoreU8 => lanes.splat_i(0).store_u8(&mut [0; MAX_LANES][..n]),
                StoreLe16 => lanes.store_le16(lanes.splat_i(0), &mut [0; 2 * MAX_LANES][..2 * n]),
                Gather => _ = lanes.gather(&[0.0; MAX_LANES][..n / L::N], lanes.splat_i(0)),
                GatherI => _ = lanes.gather_i(&[0; MAX_LANES][..n / L::N], lanes.splat_i(0)),
                Columns => _ = lanes.columns(&[&[0.0; 32]; MAX_LANES][..n]),
                AddDoubles => lanes.add_doubles(lanes.splat(0.0), &mut [0.0; MAX_LANES][..n]),
                AddSquares => lanes.add_squares(lanes.splat(0.0), 0.0, &mut [0.0; MAX_LANES][..n]),
                Places => lanes.places(lanes.splat(0.0), 0.0, 1.0, 1.0, &mut [0; MAX_LANES][..n]),
            }
        }
    }
    for access in [
        Load, LoadI, LoadU8, LoadI8, LoadU16, LoadHalf, Store, StoreI, StoreU8, StoreLe16, Gather, GatherI, Columns,
        AddDoubles, AddSquares, Places,
    ] {
        everywhere(Run(access, false));
        for isa in Isa::available() {
            assert!(panics(|| isa.run(Run(access, true))), "{isa}: {access:?}");
            assert!(panics(|| isa.run(InPairs(Run(access, true)))), "{isa}, twice: {access:?}");
        }
        assert!(panics(|| Run(access, true).run(Twice(Arrays))), "arrays, twice: {access:?}");
    }
}
