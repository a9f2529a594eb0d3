//! The plain float formats: half precision, bfloat16, single and double, to and from `f32`.
//!
//! The rules are those of the reference converter, bit for bit:
//!
//! * **f32 → f16** rounds to the nearest, ties to even; larger numbers become infinity; subnormals are kept; a NaN keeps its sign and the
//!   upper ten bits of its payload, and stays a NaN if those are zero (numpy's `npy_floatbits_to_halfbits`, the implementation of
//!   `astype(float16)`).
//! * **f32 → bf16** rounds to the nearest, ties to even; the carry may overflow into the exponent and give infinity; a NaN is truncated to
//!   its upper 16 bits and made quiet (`ggml_compute_fp32_to_bf16` in `ggml-impl.h`, `BF16` in gguf-py's `quants.py`).
//! * **f16 → f32** and **bf16 → f32** are exact, including the payloads of NaNs.
//! * **f64 → f32** rounds to the nearest, ties to even.
//!
//! The conversions are integer arithmetic without branches, which compilers vectorize; they do not use the CPU's conversion instructions.
//! (Hardware conversions of half precision make signalling NaNs quiet; these do not.)
//!
//! Packed rows are little-endian bytes on every host.

/// Bits of +infinity in half precision.
const F16_INFINITY: u32 = 0x7c00;

/// The nearest half-precision number, as its bits.
#[inline]
pub const fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;

    // A NaN keeps the upper part of its payload; one that would lose all of it gets the lowest bit.
    let payload = (magnitude & 0x007f_ffff) >> 13;
    let nan = F16_INFINITY | payload | (payload == 0) as u32;

    // Adding one half aligns the last bit of a subnormal half with the last bit of the sum, so the addition rounds.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());

    // Rebiases the exponent, then adds just under half of the last kept bit, or exactly half where that bit is odd.
    let rounded = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + ((magnitude >> 13) & 1)) >> 13;

    let half = if magnitude > 0x7f80_0000 {
        nan
    } else if magnitude >= 0x4780_0000 {
        F16_INFINITY
    } else if magnitude < 0x3880_0000 {
        subnormal
    } else {
        rounded
    };
    (sign | half) as u16
}

/// The value of a half-precision number given as its bits; exact.
#[inline]
pub const fn f16_to_f32(half: u16) -> f32 {
    let sign = ((half & 0x8000) as u32) << 16;
    let magnitude = ((half & 0x7fff) as u32) << 13;
    let bits = if magnitude >= F16_INFINITY << 13 {
        magnitude + (224 << 23)
    } else if magnitude >= 0x0400 << 13 {
        magnitude + (112 << 23)
    } else {
        // The fraction under the exponent of 2^-14, minus the implicit one that came with it.
        (f32::from_bits(magnitude + (113 << 23)) - f32::from_bits(113 << 23)).to_bits()
    };
    f32::from_bits(sign | bits)
}

/// [`f32_to_f16`] as in ggml: every NaN becomes the one with the upper payload bit (`ggml_compute_fp32_to_fp16` in `ggml-impl.h`). All
/// scales in blocks are rounded this way.
#[inline]
pub const fn f32_to_f16_ggml(value: f32) -> u16 {
    if value.is_nan() { ((value.to_bits() >> 16) & 0x8000) as u16 | 0x7e00 } else { f32_to_f16(value) }
}

/// [`f16_to_f32`] as in ggml: NaNs become quiet (`ggml_compute_fp16_to_fp32` in `ggml-impl.h`).
#[inline]
pub const fn f16_to_f32_ggml(half: u16) -> f32 {
    let quiet = if half & 0x7fff > 0x7c00 { 0x0200 } else { 0 };
    f16_to_f32(half | quiet)
}

/// The nearest bfloat16 number, as its bits.
#[inline]
pub const fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let nan = (bits >> 16) | 0x40;
    (if bits & 0x7fff_ffff > 0x7f80_0000 { nan } else { rounded }) as u16
}

/// The value of a bfloat16 number given as its bits; exact.
#[inline]
pub const fn bf16_to_f32(half: u16) -> f32 {
    f32::from_bits((half as u32) << 16)
}

macro_rules! decode {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, |$x:ident: $ty:ident| $value:expr) => {
        $(#[$doc])*
        ///
        /// Converts as many values as fit both slices.
        pub fn $name(packed: &[u8], values: &mut [f32]) {
            let (words, _) = packed.as_chunks::<$bytes>();
            for (value, word) in values.iter_mut().zip(words) {
                let $x = $ty::from_le_bytes(*word);
                *value = $value;
            }
        }
    };
}

macro_rules! encode {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, |$x:ident| $word:expr) => {
        $(#[$doc])*
        ///
        /// Converts as many values as fit both slices.
        pub fn $name(values: &[f32], packed: &mut [u8]) {
            let (words, _) = packed.as_chunks_mut::<$bytes>();
            for (&$x, word) in values.iter().zip(words) {
                *word = $word.to_le_bytes();
            }
        }
    };
}

decode!(
    /// A row of single-precision values.
    decode_f32, 4, |x: f32| x
);
decode!(
    /// A row of double-precision values, each rounded to the nearest single.
    decode_f64, 8, |x: f64| x as f32
);
decode!(
    /// A row of half-precision values.
    decode_f16, 2, |x: u16| f16_to_f32(x)
);
decode!(
    /// A row of bfloat16 values.
    decode_bf16, 2, |x: u16| bf16_to_f32(x)
);
encode!(
    /// Packs single-precision values.
    encode_f32, 4, |x| x
);
encode!(
    /// Packs values as half precision; see [`f32_to_f16`] for the rounding.
    encode_f16, 2, |x| f32_to_f16(x)
);
encode!(
    /// Packs values as bfloat16; see [`f32_to_bf16`] for the rounding.
    encode_bf16, 2, |x| f32_to_bf16(x)
);

/// The number of finite values that become infinite in half precision: those of magnitude 65520 and more.
pub fn count_f16_overflows(values: &[f32]) -> u64 {
    count_from(values, 65520.0f32.to_bits())
}

/// The number of finite values that become infinite in bfloat16: those that round up past its largest number.
pub fn count_bf16_overflows(values: &[f32]) -> u64 {
    count_from(values, 0x7f7f_8000)
}

/// Counts the finite values whose magnitude has at least these bits.
fn count_from(values: &[f32], first: u32) -> u64 {
    // Short runs are counted in 32 bits, which vectorises; runs of this length cannot overflow them.
    let run = |values: &[f32]| {
        values.iter().map(|v| u32::from((first..0x7f80_0000).contains(&(v.to_bits() & 0x7fff_ffff)))).sum::<u32>()
    };
    values.chunks(1 << 16).map(|c| u64::from(run(c))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of half-precision bits, by the definition of the format.
    fn f16_by_definition(half: u16) -> f64 {
        let (sign, exponent, fraction) = (half >> 15, i32::from((half >> 10) & 31), f64::from(half & 0x3ff));
        let magnitude = match exponent {
            0 => fraction * 2f64.powi(-24),
            31 if fraction == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            e => (1024.0 + fraction) * 2f64.powi(e - 25),
        };
        if sign == 1 { -magnitude } else { magnitude }
    }

    /// The nearest of a format's finite magnitudes (given in ascending order as value and bits), ties to the even bits; infinity from
    /// `limit` on.
    fn nearest(x: f32, magnitudes: &[(f64, u16)], limit: f64, infinity: u16) -> u16 {
        let sign = ((x.to_bits() >> 16) & 0x8000) as u16;
        let m = f64::from(x.abs());
        if m >= limit {
            return sign | infinity;
        }
        let above = magnitudes.partition_point(|&(v, _)| v < m).min(magnitudes.len() - 1);
        let (hi, lo) = (magnitudes[above], magnitudes[above.saturating_sub(1)]);
        let (dh, dl) = ((hi.0 - m).abs(), (m - lo.0).abs());
        let bits = if dh < dl || (dh == dl && hi.1 % 2 == 0) { hi.1 } else { lo.1 };
        sign | bits
    }

    #[test]
    fn every_half_decodes_to_its_definition_and_encodes_back() {
        for h in 0..=u16::MAX {
            let x = f16_to_f32(h);
            if f16_by_definition(h).is_nan() {
                assert_eq!(
                    x.to_bits(),
                    u32::from(h & 0x8000) << 16 | 0x7f80_0000 | u32::from(h & 0x3ff) << 13,
                    "{h:#06x}"
                );
            } else {
                assert_eq!(f64::from(x), f16_by_definition(h), "{h:#06x}");
                assert_eq!(x.is_sign_negative(), h >> 15 == 1);
            }
            assert_eq!(f32_to_f16(x), h);
        }
    }

    #[test]
    fn every_bfloat_decodes_to_its_definition_and_encodes_back() {
        for h in 0..=u16::MAX {
            let x = bf16_to_f32(h);
            assert_eq!(x.to_bits(), u32::from(h) << 16);
            let quiet = if x.is_nan() { h | 0x40 } else { h };
            assert_eq!(f32_to_bf16(x), quiet, "{h:#06x}");
        }
    }

    /// For each pair of neighbours: the midpoint, the floats just below and above it, and both ends with their neighbours.
    fn around(magnitudes: &[(f64, u16)]) -> Vec<f32> {
        let mut points = Vec::new();
        for pair in magnitudes.windows(2) {
            for m in [pair[0].0, (pair[0].0 + pair[1].0) / 2.0] {
                let bits = (m as f32).to_bits();
                points.extend([bits.saturating_sub(1), bits, bits + 1].map(f32::from_bits));
            }
        }
        points
    }

    #[test]
    fn rounding_to_half_is_to_the_nearest_even() {
        let magnitudes: Vec<_> = (0..0x7c00u16).map(|h| (f16_by_definition(h), h)).collect();
        let mut points = around(&magnitudes);
        points.extend([65503.996, 65504.0, 65519.996, 65520.0, 65536.0, f32::MAX, f32::INFINITY, f32::MIN_POSITIVE]);
        points.extend([f32::from_bits(1), 2f32.powi(-25), f32::from_bits(2f32.powi(-25).to_bits() + 1)]);
        for x in points.into_iter().flat_map(|x| [x, -x]) {
            assert_eq!(f32_to_f16(x), nearest(x, &magnitudes, 65520.0, 0x7c00), "{x:e} {:#010x}", x.to_bits());
        }
    }

    #[test]
    fn rounding_to_bfloat_is_to_the_nearest_even() {
        let magnitudes: Vec<_> = (0..0x7f80u16).map(|h| (f64::from(f32::from_bits(u32::from(h) << 16)), h)).collect();
        let limit = f64::from(f32::from_bits(0x7f7f_8000));
        let mut points = around(&magnitudes);
        points.extend(
            [0x7f7f_7fff, 0x7f7f_8000, 0x7f7f_ffff, 0x7f80_0000, 1, 0x7fff, 0x8000, 0x8001].map(f32::from_bits),
        );
        for x in points.into_iter().flat_map(|x| [x, -x]) {
            assert_eq!(f32_to_bf16(x), nearest(x, &magnitudes, limit, 0x7f80), "{x:e} {:#010x}", x.to_bits());
        }
    }

    #[test]
    fn nans_stay_nans() {
        // The results of numpy 2 and gguf-py.
        let cases: &[(u32, u16, u16)] = &[
            (0x7f80_0001, 0x7c01, 0x7fc0),
            (0x7f80_2000, 0x7c01, 0x7fc0),
            (0x7fc0_0000, 0x7e00, 0x7fc0),
            (0xff80_0001, 0xfc01, 0xffc0),
            (0x7fff_ffff, 0x7fff, 0x7fff),
            (0x7fa0_0000, 0x7d00, 0x7fe0),
        ];
        for &(bits, half, bfloat) in cases {
            assert_eq!(f32_to_f16(f32::from_bits(bits)), half, "{bits:#010x}");
            assert_eq!(f32_to_bf16(f32::from_bits(bits)), bfloat, "{bits:#010x}");
        }
    }

    #[test]
    fn rows_convert_element_by_element_and_stop_at_the_shorter_side() {
        let values = [1.0f32, -2.5, 70000.0, 1e-7, 3.402e38];
        let mut f16 = [0u8; 11];
        encode_f16(&values, &mut f16);
        assert_eq!(f16, [0x00, 0x3c, 0x00, 0xc1, 0x00, 0x7c, 0x02, 0x00, 0x00, 0x7c, 0]);
        let mut bf16 = [0u8; 4];
        encode_bf16(&values, &mut bf16);
        assert_eq!(bf16, [0x80, 0x3f, 0x20, 0xc0]);
        let mut back = [9.0f32; 6];
        decode_f16(&f16, &mut back);
        assert_eq!(back, [1.0, -2.5, f32::INFINITY, f16_to_f32(2), f32::INFINITY, 9.0]);
        decode_bf16(&bf16, &mut back);
        assert_eq!(back[..3], [1.0, -2.5, f32::INFINITY]);
        let mut f32s = [0u8; 20];
        encode_f32(&values, &mut f32s);
        decode_f32(&f32s, &mut back);
        assert_eq!(back[..5], values);
        decode_f64(&(1.0f64 + 2f64.powi(-24)).to_le_bytes(), &mut back);
        assert_eq!(back[0], 1.0);
    }

    #[test]
    fn overflows_are_the_finite_values_that_become_infinite() {
        let points = [0.0, 65504.0, 65519.996, 65520.0, -65520.0, 1e30, f32::MAX, -f32::MAX, f32::INFINITY, f32::NAN];
        let points = [&points[..], &[f32::from_bits(0x7f7f_7fff), f32::from_bits(0x7f7f_8000)]].concat();
        let expected = |to: fn(f32) -> u16, infinity| {
            points.iter().filter(|x| x.is_finite() && to(**x) & 0x7fff == infinity).count() as u64
        };
        assert_eq!(count_f16_overflows(&points), expected(f32_to_f16, 0x7c00));
        assert_eq!(count_bf16_overflows(&points), expected(f32_to_bf16, 0x7f80));
        assert_eq!(count_f16_overflows(&vec![1e30; (1 << 17) + 3]), (1 << 17) + 3);
    }
}
