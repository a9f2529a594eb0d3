//! Products of the elements of several tensors.

use gguf_format::GgmlType;
use serde::{Deserialize, Serialize};

use super::input::Input;
use super::operation::{ChunkedBy, Operation, ReadBuffers, Wanted};
use crate::buffers::no_codec;
use crate::cast::combine;
use crate::error::Error;

/// The products of corresponding elements of source tensors, in single precision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Product {
    /// The source tensors, of plain types and equal length.
    pub inputs: Box<[Input]>,
}

impl Operation for Product {
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
        wanted.set_len(mapped, GgmlType::F32)?;
        for (number, input) in self.inputs.iter().enumerate() {
            wanted.read_input(input, raw)?;
            multiply(input.ty, raw, number == 0, mapped).ok_or_else(|| no_codec(wanted.tensor))?;
        }
        Ok(mapped)
    }
}

/// Multiplies products of single precision by values of a plain type; the first factor is the product itself.
///
/// `None` for types that are not plain.
fn multiply(ty: GgmlType, packed: &[u8], is_first: bool, products: &mut [u8]) -> Option<()> {
    combine(ty, packed, products, |product, factor| if is_first { factor } else { product * factor })
}

#[cfg(test)]
mod tests {
    use gguf_quants::float;

    use super::*;
    use crate::cast::RUN;

    #[test]
    fn products_are_of_all_factors_in_single_precision() {
        let n = RUN + 5;
        let (a, b): (Vec<f32>, Vec<f32>) = (0..n).map(|i| (i as f32 * 0.1 + 0.3, 7.0 - i as f32 * 0.25)).unzip();
        let (mut first, mut second, mut products) = (vec![0; n * 4], vec![0; n * 2], vec![0; n * 4]);
        float::encode_f32(&a, &mut first);
        float::encode_bf16(&b, &mut second);
        let mut rounded = vec![0f32; n];
        float::decode_bf16(&second, &mut rounded);
        multiply(GgmlType::F32, &first, true, &mut products).unwrap();
        multiply(GgmlType::BF16, &second, false, &mut products).unwrap();
        let mut found = vec![0f32; n];
        float::decode_f32(&products, &mut found);
        let expected: Vec<f32> = a.iter().zip(&rounded).map(|(a, b)| a * b).collect();
        assert_eq!(found, expected);
        assert_eq!(multiply(GgmlType::Q4_0, &first, true, &mut products), None);
    }
}
