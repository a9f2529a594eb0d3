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

/// The number of values of a step: a multiple of all numbers of lanes.
const STEP: usize = 32;

/// Decoders of numbers of a size. Each is given in lanes, as the vector of the numbers at the start of some bytes, and for one number.
macro_rules! decode {
    ($($(#[$doc:meta])* $name:ident: $number:ty, |$lanes:ident, $bytes:ident| $vector:expr,
      |$x:ident| $value:expr;)*) => {$(
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

/// Encoders to numbers of a size. Each is given in lanes, storing a vector at the start of some bytes, and for one value.
macro_rules! encode {
    ($($(#[$doc:meta])* $name:ident: $number:ty, |$lanes:ident, $v:ident, $bytes:ident| $store:expr,
      |$x:ident| $value:expr;)*) => {$(
        $(#[$doc])*
        pub(super) fn $name(isa: Isa, rows: Rows<'_>, packed: &mut [u8]) -> Result<(), Refused> {
            const BYTES: usize = size_of::<$number>();
            struct Encode<'a>(&'a [f32], &'a mut [u8]);
            impl Kernel for Encode<'_> {
                type Output = ();

                fn plain(self) {
                    for ($x, bytes) in self.0.iter().zip(self.1.as_chunks_mut::<BYTES>().0) {
                        *bytes = $value.to_le_bytes();
                    }
                }

                #[inline(always)]
                fn run<L: Lanes>(self, $lanes: L) {
                    let (values, last) = self.0.as_chunks::<STEP>();
                    let (packed, last_packed) = self.1.as_chunks_mut::<{ STEP * BYTES }>();
                    for (values, packed) in values.iter().zip(packed) {
                        for i in (0..STEP).step_by(L::N) {
                            let ($v, $bytes) = ($lanes.load(&values[i..]), &mut packed[BYTES * i..]);
                            $store;
                        }
                    }
                    Encode(last, last_packed).plain();
                }
            }
            isa.run(Encode(rows.values(), packed));
            Ok(())
        }
    )*};
}

decode! {
    /// The values themselves.
    decode_f32: f32, |lanes, bytes| lanes.load_le32(bytes).as_f(), |x| x;
    /// Half-precision numbers; a NaN becomes quiet.
    decode_f16: u16, |lanes, bytes| lanes.load_half(bytes), |x| f16_to_f32_ggml(x);
    /// Upper halves of single-precision numbers.
    decode_bf16: u16, |lanes, bytes| lanes.load_le16(bytes).shl::<16>().as_f(), |x| bf16_to_f32(x);
    /// Small integers.
    decode_i8: i8, |lanes, bytes| lanes.load_i8(bytes).to_f(), |x| f32::from(x);
    /// Short integers.
    decode_i16: i16, |lanes, bytes| lanes.load_le16(bytes).shl::<16>().sar::<16>().to_f(), |x| f32::from(x);
    /// The nearest single-precision numbers.
    decode_i32: i32, |lanes, bytes| lanes.load_le32(bytes).to_f(), |x| x as f32;
}

encode! {
    /// The values themselves.
    encode_f32: f32, |lanes, v, bytes| lanes.store_le32(v.bits(), bytes), |x| x;
    /// The nearest half-precision numbers.
    encode_f16: u16, |lanes, v, bytes| lanes.store_half(v, bytes), |x| f32_to_f16_ggml(*x);
    /// The nearest bfloat16 numbers.
    encode_bf16: u16, |lanes, v, bytes| lanes.store_le16(to_bf16(lanes, v), bytes), |x| float::f32_to_bf16(*x);
}

/// The bits of [`f32_to_bf16`](float::f32_to_bf16) of each lane.
#[inline(always)]
fn to_bf16<L: Lanes>(lanes: L, x: L::F) -> L::I {
    let bits = x.bits();
    let rounded = bits + lanes.splat_i(0x7fff) + (bits.shr::<16>() & lanes.splat_i(1));
    let is_number = x.equal(x);
    is_number.select_i(rounded, bits | lanes.splat_i(0x40 << 16)).shr::<16>()
}

/// The single-precision numbers nearest to wide numbers, of which lanes have none: loops for compilers to vectorize.
macro_rules! decode_wide {
    ($($name:ident: $number:ty;)*) => {$(
        /// The nearest single-precision numbers.
        pub(super) fn $name(isa: Isa, packed: &[u8], values: &mut [f32]) {
            struct Decode<'a>(&'a [u8], &'a mut [f32]);

            impl Kernel for Decode<'_> {
                type Output = ();

                #[inline(always)]
                fn plain(self) {
                    for (value, bytes) in self.1.iter_mut().zip(self.0.as_chunks().0) {
                        *value = <$number>::from_le_bytes(*bytes) as f32;
                    }
                }

                #[inline(always)]
                fn run<L: Lanes>(self, _: L) {
                    self.plain();
                }
            }
            isa.run(Decode(packed, values));
        }
    )*};
}

decode_wide! {
    decode_f64: f64;
    decode_i64: i64;
}
