//! Batch normalizations with running statistics, folded into vectors.

use gguf_format::GgmlType;
use gguf_quants::float;
use serde::{Deserialize, Serialize};

use super::input::Input;
use super::operation::{ChunkedBy, Operation, ReadBuffers, Wanted};
use crate::buffers::no_codec;
use crate::cast::{floats, rounded_to_half};
use crate::error::Error;

/// A batch normalization with running statistics, folded into a vector: the weight divided by the square root of the sum of the variance
/// and `eps`, or, with a bias and a mean, the bias minus the product of the mean and that quotient. Each step is rounded to the type of
/// the sources if all are half precision, else to single precision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchNorm {
    /// The source tensors, of plain types and equal length: the weight and the variance, then the bias and the mean, if any.
    pub inputs: Vec<Input>,
    /// The number added to the variance.
    #[serde(with = "crate::fleet::bits")]
    pub eps: f32,
}

impl Operation for BatchNorm {
    fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    fn inputs_mut(&mut self) -> &mut [Input] {
        &mut self.inputs
    }

    fn value_type(&self) -> GgmlType {
        GgmlType::F32
    }

    fn chunked_by(&self) -> ChunkedBy {
        ChunkedBy::Values
    }

    fn read<'b>(&self, wanted: Wanted<'_>, buffers: &'b mut ReadBuffers) -> Result<&'b [u8], Error> {
        let ReadBuffers { raw, mapped, .. } = buffers;
        let mut parts = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            wanted.read_input(input, raw)?;
            parts.push(floats(input.ty, raw).ok_or_else(|| no_codec(wanted.tensor))?);
        }
        wanted.set_len(mapped, GgmlType::F32)?;
        let halves = self.inputs.iter().all(|input| input.ty == GgmlType::F16);
        fold_batch_norm(&parts, self.eps, halves, mapped).ok_or_else(|| no_codec(wanted.tensor))?;
        Ok(mapped)
    }
}

/// Folds a batch normalization, given the values of its sources, in the steps of the reference (`ConformerAudioModel.modify_tensors` in
/// `conversion/gemma.py`). `halves` rounds each step to half precision.
///
/// `None` if the number of sources is wrong.
fn fold_batch_norm(parts: &[Vec<f32>], eps: f32, halves: bool, out: &mut [u8]) -> Option<()> {
    let (weight, variance, shift) = match parts {
        [weight, variance] => (weight, variance, None),
        [weight, variance, bias, mean] => (weight, variance, Some(bias.iter().zip(mean))),
        _ => return None,
    };
    let rounded = |x: f32| if halves { rounded_to_half(x) } else { x };
    let factor = |(weight, variance): (&f32, &f32)| rounded(*weight / rounded(rounded(*variance + eps).sqrt()));
    let factors = weight.iter().zip(variance).map(factor);
    let values: Vec<f32> = match shift {
        None => factors.collect(),
        Some(shift) => {
            shift.zip(factors).map(|((bias, mean), factor)| rounded(*bias - rounded(*mean * factor))).collect()
        }
    };
    float::encode_f32(&values, out);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected bits are those of the same steps in PyTorch 2.11.
    #[test]
    fn batch_norms_are_folded_in_the_type_of_their_sources() {
        let parts = [[0.75f32, -1.3125], [0.375, 2.125], [0.0625, 0.4375], [-0.875, 0.34375]].map(|part| part.to_vec());
        let folded = |n: usize, halves| {
            let mut out = [0; 8];
            fold_batch_norm(&parts[..n], 1e-5, halves, &mut out)?;
            Some(out.as_chunks::<4>().0.iter().map(|bits| u32::from_le_bytes(*bits)).collect::<Vec<_>>())
        };
        assert_eq!(folded(2, false), Some(vec![0x3f9c_c3e7, 0xbf66_7e5a]));
        assert_eq!(folded(4, false), Some(vec![0x3f91_2b6a, 0x3f3f_3b6f]));
        assert_eq!(folded(2, true), Some(vec![0x3f9c_c000, 0xbf66_8000]));
        assert_eq!(folded(4, true), Some(vec![0x3f91_2000, 0x3f3f_4000]));
        assert_eq!(folded(3, false), None);
    }
}
