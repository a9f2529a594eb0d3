//! The types that are not quantized: one number after the other, in floats of other sizes and in integers.
//!
//! F16 and BF16 are rounded as ggml rounds them (`ggml_fp32_to_fp16_row`, `ggml_fp32_to_bf16_row_ref` in `ggml.c`), which for a
//! NaN is not what the converter's rules say (see [`float`](crate::float)). F64 and the integers are only read; ggml does not convert
//! them, and here they become the nearest `f32`.

use super::Refused;
use crate::dispatch::{Isa, Kernel};
use crate::float::{bf16_to_f32, f16_to_f32_ggml, f32_to_bf16, f32_to_f16_ggml};
use crate::lanes::{Floats, Lanes};
use crate::rows::Rows;

macro_rules! decode {
    ($($(#[$doc:meta])* $name:ident: $number:ty, |$x:ident| $value:expr;)*) => {$(
        $(#[$doc])*
        pub(super) fn $name(isa: Isa, packed: &[u8], values: &mut [f32]) {
            struct Decode<'a>(&'a [u8], &'a mut [f32]);
            impl Kernel for Decode<'_> {
                type Output = ();
                #[inline(always)]
                fn run<L: Lanes>(self, _: L) {
                    for (value, bytes) in self.1.iter_mut().zip(self.0.as_chunks().0) {
                        let $x = <$number>::from_le_bytes(*bytes);
                        *value = $value;
                    }
                }
            }
            isa.run(Decode(packed, values));
        }
    )*};
}

decode! {
    /// The values themselves.
    decode_f32: f32, |x| x;
    /// Upper halves of single-precision numbers.
    decode_bf16: u16, |x| bf16_to_f32(x);
    /// The nearest single-precision numbers.
    decode_f64: f64, |x| x as f32;
    /// Small integers.
    decode_i8: i8, |x| f32::from(x);
    /// Short integers.
    decode_i16: i16, |x| f32::from(x);
    /// The nearest single-precision numbers.
    decode_i32: i32, |x| x as f32;
    /// The nearest single-precision numbers.
    decode_i64: i64, |x| x as f32;
}

/// Half-precision numbers; a NaN becomes quiet.
pub(super) fn decode_f16(isa: Isa, packed: &[u8], values: &mut [f32]) {
    struct Decode<'a>(&'a [u8], &'a mut [f32]);
    impl Kernel for Decode<'_> {
        type Output = ();
        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) {
            let (packed, last) = self.0.as_chunks::<64>();
            let (values, last_values) = self.1.as_chunks_mut::<32>();
            for (packed, values) in packed.iter().zip(values) {
                for i in (0..32).step_by(L::N) {
                    lanes.load_half(&packed[2 * i..]).store(&mut values[i..]);
                }
            }
            decode_f16_reference(last, last_values);
        }
    }
    match isa {
        Isa::Scalar => decode_f16_reference(packed, values),
        _ => isa.run(Decode(packed, values)),
    }
}

fn decode_f16_reference(packed: &[u8], values: &mut [f32]) {
    for (value, half) in values.iter_mut().zip(packed.as_chunks().0) {
        *value = f16_to_f32_ggml(u16::from_le_bytes(*half));
    }
}

macro_rules! encode {
    ($($(#[$doc:meta])* $name:ident: |$x:ident| $number:expr;)*) => {$(
        $(#[$doc])*
        pub(super) fn $name(isa: Isa, rows: Rows<'_>, packed: &mut [u8]) -> Result<(), Refused> {
            struct Encode<'a>(&'a [f32], &'a mut [u8]);
            impl Kernel for Encode<'_> {
                type Output = ();
                #[inline(always)]
                fn run<L: Lanes>(self, _: L) {
                    for (&$x, bytes) in self.0.iter().zip(self.1.as_chunks_mut().0) {
                        *bytes = $number.to_le_bytes();
                    }
                }
            }
            isa.run(Encode(rows.values(), packed));
            Ok(())
        }
    )*};
}

encode! {
    /// The values themselves.
    encode_f32: |x| x;
    /// The nearest bfloat16 numbers.
    encode_bf16: |x| f32_to_bf16(x);
}

/// The nearest half-precision numbers.
pub(super) fn encode_f16(isa: Isa, rows: Rows<'_>, packed: &mut [u8]) -> Result<(), Refused> {
    struct Encode<'a>(&'a [f32], &'a mut [u8]);
    impl Kernel for Encode<'_> {
        type Output = ();
        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) {
            let (values, last) = self.0.as_chunks::<32>();
            let (packed, last_packed) = self.1.as_chunks_mut::<64>();
            for (values, packed) in values.iter().zip(packed) {
                for i in (0..32).step_by(L::N) {
                    lanes.store_half(lanes.load(&values[i..]), &mut packed[2 * i..]);
                }
            }
            encode_f16_reference(last, last_packed);
        }
    }
    match isa {
        Isa::Scalar => encode_f16_reference(rows.values(), packed),
        _ => isa.run(Encode(rows.values(), packed)),
    }
    Ok(())
}

fn encode_f16_reference(values: &[f32], packed: &mut [u8]) {
    for (value, half) in values.iter().zip(packed.as_chunks_mut().0) {
        *half = f32_to_f16_ggml(*value).to_le_bytes();
    }
}
