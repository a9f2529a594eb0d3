//! Floats of eight bits: the formats of FP8 checkpoints and of the scales of microscaling formats. Every value is exact in `f32`.
//!
//! The values are bit-identical to those of PyTorch's types of the same names (`torch/headeronly/util/Float8_*.h`), including NaNs.
//! Checkpoints use these formats; ggml has no tensor types for them.

use crate::float::f16_to_f32_ggml;

/// A format of eight bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Float8 {
    /// Four bits of exponent and three of fraction, no infinities (`float8_e4m3fn`).
    E4M3,
    /// Five bits of exponent and two of fraction: the upper half of half precision (`float8_e5m2`).
    E5M2,
    /// As [`E4M3`](Float8::E4M3) with another bias, and a single NaN in place of negative zero (`float8_e4m3fnuz`).
    E4M3Fnuz,
    /// As [`E5M2`](Float8::E5M2) with another bias, no infinities, and a single NaN in place of negative zero (`float8_e5m2fnuz`).
    E5M2Fnuz,
    /// Powers of two without a sign (`float8_e8m0fnu`).
    E8M0,
}

impl Float8 {
    /// The value of each byte.
    pub fn values(self) -> &'static [f32; 256] {
        match self {
            Float8::E4M3 => &E4M3,
            Float8::E5M2 => &E5M2,
            Float8::E4M3Fnuz => &E4M3_FNUZ,
            Float8::E5M2Fnuz => &E5M2_FNUZ,
            Float8::E8M0 => &E8M0,
        }
    }

    /// Decodes as many values as fit both slices.
    pub fn decode(self, packed: &[u8], values: &mut [f32]) {
        let table = self.values();
        for (value, &byte) in values.iter_mut().zip(packed) {
            // Every byte is a valid index of the table.
            *value = table.get(usize::from(byte)).copied().unwrap_or_default();
        }
    }
}

static E4M3: [f32; 256] = table(Float8::E4M3);
static E5M2: [f32; 256] = table(Float8::E5M2);
static E4M3_FNUZ: [f32; 256] = table(Float8::E4M3Fnuz);
static E5M2_FNUZ: [f32; 256] = table(Float8::E5M2Fnuz);
static E8M0: [f32; 256] = table(Float8::E8M0);

const fn table(format: Float8) -> [f32; 256] {
    let mut values = [0.0; 256];
    let mut byte = 0;
    while byte < 256 {
        values[byte] = value(format, byte as u8);
        byte += 1;
    }
    values
}

const fn value(format: Float8, byte: u8) -> f32 {
    match format {
        Float8::E4M3 if byte & 0x7f == 0x7f => f32::from_bits((byte as u32 & 0x80) << 24 | 0x7ff0_0000),
        Float8::E4M3 => number(byte, 3, 7),
        Float8::E5M2 => f16_to_f32_ggml((byte as u16) << 8),
        Float8::E4M3Fnuz | Float8::E5M2Fnuz if byte == 0x80 => f32::from_bits(0x7f80_0001),
        Float8::E4M3Fnuz => number(byte, 3, 8),
        Float8::E5M2Fnuz => number(byte, 2, 16),
        Float8::E8M0 => f32::from_bits(match byte {
            0 => 0x0040_0000,
            0xff => 0x7f80_0001,
            exponent => (exponent as u32) << 23,
        }),
    }
}

/// Decodes a finite number from its sign, its biased exponent, and the bits of its fraction.
const fn number(byte: u8, fraction_bits: u32, bias: u32) -> f32 {
    let sign = (byte as u32 & 0x80) << 24;
    let (exponent, fraction) = ((byte as u32 & 0x7f) >> fraction_bits, byte as u32 & ((1 << fraction_bits) - 1));
    let magnitude = if exponent == 0 {
        // The place of the last bit of the fraction, as a power of two; the product is exact.
        fraction as f32 * f32::from_bits((127 + 1 - bias - fraction_bits) << 23)
    } else {
        f32::from_bits((exponent + 127 - bias) << 23 | fraction << (23 - fraction_bits))
    };
    f32::from_bits(sign | magnitude.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CRC-32 of the little-endian bytes.
    fn crc(values: &[f32]) -> u32 {
        let step = |crc: u32, byte: u8| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
        };
        !values.iter().flat_map(|v| v.to_bits().to_le_bytes()).fold(!0, step)
    }

    #[test]
    fn all_values_are_those_of_pytorch() {
        // zlib.crc32(torch.arange(256, dtype=torch.uint8).view(TYPE).float().numpy().tobytes()) of PyTorch 2.11.
        for (format, expected) in [
            (Float8::E4M3, 0x3e17_8a35),
            (Float8::E5M2, 0xe3c4_833f),
            (Float8::E4M3Fnuz, 0x2750_7f94),
            (Float8::E5M2Fnuz, 0xdc48_d442),
            (Float8::E8M0, 0x395c_51da),
        ] {
            assert_eq!(crc(format.values()), expected, "{format:?}");
        }
    }

    #[test]
    fn a_few_values() {
        let decode = |format: Float8, bytes: &[u8]| {
            let mut values = vec![0.0; bytes.len()];
            format.decode(bytes, &mut values);
            values
        };
        assert_eq!(decode(Float8::E4M3, &[0, 1, 0x38, 0x7e, 0xfe]), [0.0, 2f32.powi(-9), 1.0, 448.0, -448.0]);
        assert_eq!(decode(Float8::E5M2, &[1, 0x3c, 0x7b, 0x7c]), [2f32.powi(-16), 1.0, 57344.0, f32::INFINITY]);
        assert_eq!(decode(Float8::E8M0, &[0, 127, 254]), [2f32.powi(-127), 1.0, 2f32.powi(127)]);
        assert!(decode(Float8::E4M3Fnuz, &[0x80]).iter().all(|v| v.is_nan()));
    }
}
