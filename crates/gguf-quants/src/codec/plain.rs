//! The types that are not quantized: sequences of floats of other sizes and of integers.
//!
//! F16 and BF16 are rounded as in ggml (`ggml_fp32_to_fp16_row`, `ggml_fp32_to_bf16_row_ref` in `ggml.c`), which treats NaNs differently
//! from the converter (see [`float`]). F64 and the integers are read-only; ggml does not convert them, and here they become the nearest
//! `f32`.

use super::block::Refused;
use crate::dispatch::{Isa, Kernel};
use crate::float::{self, bf16_to_f32, f16_to_f32_ggml, f32_to_f16_ggml};
use crate::lanes::{Floats, Lanes};
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

/// The values themselves.
pub(super) fn encode_f32(isa: Isa, rows: Rows<'_>, packed: &mut [u8]) -> Result<(), Refused> {
    stream!(isa, rows.values() => packed.as_chunks_mut().0, |x: f32, bytes: [u8; 4]| x.to_le_bytes());
    Ok(())
}

/// The nearest bfloat16 numbers.
pub(super) fn encode_bf16(isa: Isa, rows: Rows<'_>, packed: &mut [u8]) -> Result<(), Refused> {
    stream!(isa, rows.values() => packed.as_chunks_mut().0, |x: f32, bytes: [u8; 2]| float::f32_to_bf16(*x).to_le_bytes());
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
