//! Values rounded to three, with a level that depends on all values of the tensor.

use gguf_format::GgmlType;
use gguf_quants::float;
use serde::{Deserialize, Serialize};

use super::gather::Gather;
use super::input::Input;
use super::mean::MeanOfAbs;
use super::operation::{ChunkedBy, Operation, ReadBuffers, Wanted};
use crate::buffers::{no_codec, resize_values};
use crate::cast::{Cast, transform};
use crate::error::Error;
use crate::parts::parts;

/// Values rounded to the nearest of `-x`, 0 and `x`, where `x` is the mean absolute value of the tensor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundToMean {
    /// The values. Their functions are not applied.
    pub values: Gather,
}

impl Operation for RoundToMean {
    fn inputs(&self) -> &[Input] {
        &self.values.inputs
    }

    fn inputs_mut(&mut self) -> &mut [Input] {
        &mut self.values.inputs
    }

    fn value_type(&self) -> GgmlType {
        match self.values.source_type() {
            GgmlType::F16 => GgmlType::F16,
            _ => GgmlType::F32,
        }
    }

    fn chunked_by(&self) -> ChunkedBy {
        ChunkedBy::Rows
    }

    fn read<'b>(&self, wanted: Wanted<'_>, buffers: &'b mut ReadBuffers) -> Result<&'b [u8], Error> {
        let from = self.values.read_moved(wanted, buffers)?;
        let mean = wanted.totals.mean(wanted.index, || self.mean_of_abs(wanted))?;
        let ReadBuffers { raw, mapped, .. } = buffers;
        wanted.set_len(mapped, self.value_type())?;
        round_to_three(mean, from, raw, mapped).ok_or_else(|| no_codec(wanted.tensor))?;
        Ok(mapped)
    }
}

impl RoundToMean {
    /// The mean of the absolute values of the whole tensor.
    fn mean_of_abs(&self, wanted: Wanted<'_>) -> Result<f32, Error> {
        let (mut buffers, mut values, mut mean) = (ReadBuffers::default(), Vec::new(), MeanOfAbs::new(wanted.n_values));
        for piece in parts(wanted.n_values) {
            wanted.totals.check_cancelled()?;
            let wanted = wanted.at(piece.start, piece.end - piece.start);
            let from = self.values.read_moved(wanted, &mut buffers)?;
            let ReadBuffers { raw, mapped, .. } = &mut buffers;
            wanted.set_len(mapped, GgmlType::F32)?;
            let cast = Cast::new(from, GgmlType::F32).ok_or_else(|| no_codec(wanted.tensor))?;
            cast.apply(raw, mapped);
            resize_values(&mut values, wanted.n_elements, wanted.tensor)?;
            float::decode_f32(mapped, &mut values);
            mean.add(&values);
        }
        Ok(mean.finish())
    }
}

/// Rounds the values of a plain type to three, in the steps of the reference, which divides by the reciprocal (`BitnetModel.weight_quant` in
/// `conversion/bitnet.py`). `out` receives values of half precision if the source is in half precision, otherwise of single precision.
///
/// `None` for types that are not plain.
fn round_to_three(level: f32, ty: GgmlType, packed: &[u8], out: &mut [u8]) -> Option<()> {
    const SMALLEST: f32 = 1e-5;
    let inverse = 1.0 / if level < SMALLEST { SMALLEST } else { level };
    transform(ty, 0, packed, out, |values, _| {
        values.iter_mut().for_each(|v| *v = (*v * inverse).round_ties_even().clamp(-1.0, 1.0) / inverse);
        Some(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected bits are those of the same steps in PyTorch 2.11.
    #[test]
    fn values_are_rounded_to_three() {
        const P: u32 = 0x3d8f_5c29;
        const N: u32 = 0xbd8f_5c29;
        const Z: u32 = 0x8000_0000;
        let values = [0.07f32, -0.07, 0.02, -0.02, 0.035, 0.0351, -3.0];
        let packed: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        for (level, expected) in [
            (0.07, [P, N, 0, Z, 0, P, N]),
            (0.3, [0, Z, 0, Z, 0, 0, 0xbe99_999a]),
            // Levels have a minimum.
            (1e-7, [0x3727_c5ac, 0xb727_c5ac, 0x3727_c5ac, 0xb727_c5ac, 0x3727_c5ac, 0x3727_c5ac, 0xb727_c5ac]),
        ] {
            let mut out = vec![0; packed.len()];
            round_to_three(level, GgmlType::F32, &packed, &mut out).unwrap();
            let expected: Vec<u8> = expected.iter().flat_map(|bits| bits.to_le_bytes()).collect();
            assert_eq!(out, expected, "{level}");
        }
        let mut halves = vec![0; packed.len() / 2];
        float::encode_f16(&values, &mut halves);
        let mut out = vec![0; halves.len()];
        round_to_three(0.07, GgmlType::F16, &halves, &mut out).unwrap();
        let expected: Vec<u8> =
            [11387u16, 44155, 0, 32768, 11387, 11387, 44155].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(out, expected);
        assert_eq!(round_to_three(0.07, GgmlType::Q4_0, &packed, &mut out), None);
    }
}
