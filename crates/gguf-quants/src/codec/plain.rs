//! The types that are not quantized: sequences of floats of other sizes and of integers.
//!
//! F16 and BF16 are rounded as in ggml (`ggml_fp32_to_fp16_row`, `ggml_fp32_to_bf16_row_ref` in `ggml.c`), which treats NaNs differently
//! from the converter (see [`float`]). F64 and the integers are read-only; ggml does not convert them, and here they become the nearest
//! `f32`.

use super::block::Refused;
use crate::dispatch::{Isa, Kernel};
use crate::float::{self, bf16_to_f32, f16_to_f32_ggml, f32_to_f16_ggml};
use crate::lanes::{Floats, Ints, Lanes, Masks};
use crate::rows::Rows;

/// A loop over numbers, vectorized by the compiler for each instruction set.
macro_rules! stream {
    ($isa:expr, $from:expr => $to:expr, |$a:ident: $from_type:ty, $b:ident: $to_type:ty| $body:expr) => {{
        struct Stream<'a>(&'a [$from_type], &'a mut [$to_type]);
        impl Kernel for Stream<'_> {
            type Output = ();
            #[inline(always)]
            fn plain(self) {
                for ($a, $b) in self.0.iter().zip(self.1) {
                    *$b = $body;
                }
            }
            #[inline(always)]
            fn run<L: Lanes>(self, _: L) {
                self.plain();
            }
        }
        $isa.run(Stream($from, $to))
    }};
}

macro_rules! decode {
    ($($(#[$doc:meta])* $name:ident: $number:ty, |$x:ident| $value:expr;)*) => {$(
        $(#[$doc])*
        pub(super) fn $name(isa: Isa, packed: &[u8], values: &mut [f32]) {
            stream!(isa, packed.as_chunks().0 => values, |bytes: [u8; size_of::<$number>()], value: f32| {
                let $x = <$number>::from_le_bytes(*bytes);
                $value
            });
        }
    )*};
}

decode! {
    /// The nearest single-precision numbers.
    decode_f64: f64, |x| x as f32;
    /// The nearest single-precision numbers.
    decode_i64: i64, |x| x as f32;
}

/// The number of values of a step: a multiple of all numbers of lanes.
const STEP: usize = 32;

/// A decoder of numbers of a size: in lanes, given the vector of the numbers from a byte on, and for each of the last ones.
macro_rules! decode_in_lanes {
    ($($(#[$doc:meta])* $name:ident: $number:ty, |$lanes:ident, $bytes:ident| $vector:expr, |$x:ident| $value:expr;)*) => {$(
        $(#[$doc])*
        pub(super) fn $name(isa: Isa, packed: &[u8], values: &mut [f32]) {
            const BYTES: usize = size_of::<$number>();
            struct Decode<'a>(&'a [u8], &'a mut [f32]);
            impl Kernel for Decode<'_> {
                type Output = ();

                fn plain(self) {
                    for (value, bytes) in self.1.iter_mut().zip(self.0.as_chunks().0) {
                        let $x = <$number>::from_le_bytes(*bytes);
                        *value = $value;
                    }
                }

                #[inline(always)]
                fn run<L: Lanes>(self, $lanes: L) {
                    let (packed, last) = self.0.as_chunks::<{ STEP * BYTES }>();
                    let (values, last_values) = self.1.as_chunks_mut::<STEP>();
                    for (packed, values) in packed.iter().zip(values) {
                        for i in (0..STEP).step_by(L::N) {
                            let $bytes = &packed[BYTES * i..];
                            $vector.store(&mut values[i..]);
                        }
                    }
                    Decode(last, last_values).plain();
                }
            }
            isa.run(Decode(packed, values));
        }
    )*};
}

decode_in_lanes! {
    /// The values themselves.
    decode_f32: f32, |lanes, bytes| lanes.load_le32(bytes).as_f(), |x| x;
    /// Upper halves of single-precision numbers.
    decode_bf16: u16, |lanes, bytes| lanes.load_le16(bytes).shl::<16>().as_f(), |x| bf16_to_f32(x);
    /// Small integers.
    decode_i8: i8, |lanes, bytes| lanes.load_i8(bytes).to_f(), |x| f32::from(x);
    /// Short integers.
    decode_i16: i16, |lanes, bytes| lanes.load_le16(bytes).shl::<16>().sar::<16>().to_f(), |x| f32::from(x);
    /// The nearest single-precision numbers.
    decode_i32: i32, |lanes, bytes| lanes.load_le32(bytes).to_f(), |x| x as f32;
}

/// The values themselves.
pub(super) fn encode_f32(isa: Isa, rows: Rows<'_>, packed: &mut [u8]) -> Result<(), Refused> {
    struct Encode<'a>(&'a [f32], &'a mut [u8]);
    impl Kernel for Encode<'_> {
        type Output = ();

        fn plain(self) {
            for (value, bytes) in self.0.iter().zip(self.1.as_chunks_mut().0) {
                *bytes = value.to_le_bytes();
            }
        }

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) {
            let (values, last) = self.0.as_chunks::<STEP>();
            let (packed, last_packed) = self.1.as_chunks_mut::<{ 4 * STEP }>();
            for (values, packed) in values.iter().zip(packed) {
                for i in (0..STEP).step_by(L::N) {
                    lanes.store_le32(lanes.load(&values[i..]).bits(), &mut packed[4 * i..]);
                }
            }
            Encode(last, last_packed).plain();
        }
    }
    isa.run(Encode(rows.values(), packed));
    Ok(())
}

/// The nearest bfloat16 numbers.
pub(super) fn encode_bf16(isa: Isa, rows: Rows<'_>, packed: &mut [u8]) -> Result<(), Refused> {
    struct Encode<'a>(&'a [f32], &'a mut [u8]);
    impl Kernel for Encode<'_> {
        type Output = ();

        fn plain(self) {
            for (value, bytes) in self.0.iter().zip(self.1.as_chunks_mut().0) {
                *bytes = float::f32_to_bf16(*value).to_le_bytes();
            }
        }

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) {
            let (values, last) = self.0.as_chunks::<STEP>();
            let (packed, last_packed) = self.1.as_chunks_mut::<{ 2 * STEP }>();
            for (values, packed) in values.iter().zip(packed) {
                for i in (0..STEP).step_by(L::N) {
                    let bits = lanes.load(&values[i..]).bits();
                    let high = bits.shr::<16>();
                    let rounded = (bits + lanes.splat_i(0x7fff) + (high & lanes.splat_i(1))).shr::<16>();
                    let is_nan = (bits & lanes.splat_i(0x7fff_ffff)).gt(lanes.splat_i(0x7f80_0000));
                    lanes.store_le16(is_nan.select_i(high | lanes.splat_i(0x40), rounded), &mut packed[2 * i..]);
                }
            }
            Encode(last, last_packed).plain();
        }
    }
    isa.run(Encode(rows.values(), packed));
    Ok(())
}

/// Half-precision numbers; a NaN becomes quiet.
pub(super) fn decode_f16(isa: Isa, packed: &[u8], values: &mut [f32]) {
    struct Decode<'a>(&'a [u8], &'a mut [f32]);
    impl Kernel for Decode<'_> {
        type Output = ();

        fn plain(self) {
            for (value, half) in self.1.iter_mut().zip(self.0.as_chunks().0) {
                *value = f16_to_f32_ggml(u16::from_le_bytes(*half));
            }
        }

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) {
            let (packed, last) = self.0.as_chunks::<64>();
            let (values, last_values) = self.1.as_chunks_mut::<32>();
            for (packed, values) in packed.iter().zip(values) {
                for i in (0..32).step_by(L::N) {
                    lanes.load_half(&packed[2 * i..]).store(&mut values[i..]);
                }
            }
            Decode(last, last_values).plain();
        }
    }
    isa.run(Decode(packed, values));
}

/// The nearest half-precision numbers.
pub(super) fn encode_f16(isa: Isa, rows: Rows<'_>, packed: &mut [u8]) -> Result<(), Refused> {
    struct Encode<'a>(&'a [f32], &'a mut [u8]);
    impl Kernel for Encode<'_> {
        type Output = ();

        fn plain(self) {
            for (value, half) in self.0.iter().zip(self.1.as_chunks_mut().0) {
                *half = f32_to_f16_ggml(*value).to_le_bytes();
            }
        }

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) {
            let (values, last) = self.0.as_chunks::<32>();
            let (packed, last_packed) = self.1.as_chunks_mut::<64>();
            for (values, packed) in values.iter().zip(packed) {
                for i in (0..32).step_by(L::N) {
                    lanes.store_half(lanes.load(&values[i..]), &mut packed[2 * i..]);
                }
            }
            Encode(last, last_packed).plain();
        }
    }
    isa.run(Encode(rows.values(), packed));
    Ok(())
}
