//! Sums of corresponding elements of equal parts of a tensor.

use gguf_format::GgmlType;
use serde::{Deserialize, Serialize};

use super::gather::Gather;
use super::input::Input;
use super::operation::{ChunkedBy, Operation, ReadBuffers, Wanted};
use crate::buffers::no_codec;
use crate::cast::{Cast, combine};
use crate::error::Error;

/// The sums of corresponding elements of equal parts, which are added in order in single precision; in half precision, the sums are
/// rounded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sum {
    /// All parts, one after the other. Their functions are not applied.
    pub parts: Gather,
    /// Number of parts.
    pub n_parts: u64,
}

impl Operation for Sum {
    fn inputs(&self) -> &[Input] {
        &self.parts.inputs
    }

    fn inputs_mut(&mut self) -> &mut [Input] {
        &mut self.parts.inputs
    }

    fn value_type(&self) -> GgmlType {
        match self.parts.source_type() {
            GgmlType::F16 => GgmlType::F16,
            _ => GgmlType::F32,
        }
    }

    fn chunked_by(&self) -> ChunkedBy {
        ChunkedBy::Rows
    }

    fn read<'b>(&self, wanted: Wanted<'_>, buffers: &'b mut ReadBuffers) -> Result<&'b [u8], Error> {
        wanted.set_len(&mut buffers.mapped, GgmlType::F32)?;
        for part in 0..self.n_parts {
            let first = part.saturating_mul(wanted.n_values).saturating_add(wanted.first);
            let from = self.parts.read_moved(wanted.at(first, wanted.n_elements), buffers)?;
            let ReadBuffers { raw, mapped, .. } = buffers;
            add(from, raw, part == 0, mapped).ok_or_else(|| no_codec(wanted.tensor))?;
        }
        let ReadBuffers { raw, mapped, .. } = buffers;
        if self.value_type() == GgmlType::F32 {
            return Ok(mapped);
        }
        let rounding = Cast::new(GgmlType::F32, self.value_type()).ok_or_else(|| no_codec(wanted.tensor))?;
        rounding.apply(mapped, raw);
        Ok(raw)
    }
}

/// Adds values of a plain type to sums of single precision. The first sum is that of zero and the value, as in torch, so that it is never
/// a negative zero.
///
/// `None` for types that are not plain.
fn add(ty: GgmlType, packed: &[u8], is_first: bool, sums: &mut [u8]) -> Option<()> {
    combine(ty, packed, sums, |sum, value| if is_first { 0.0 + value } else { sum + value })
}

#[cfg(test)]
mod tests {
    use gguf_quants::float;

    use super::*;
    use crate::cast::RUN;

    #[test]
    fn sums_are_in_single_precision_and_start_with_zero() {
        let n = RUN + 5;
        let (a, b): (Vec<f32>, Vec<f32>) = (0..n).map(|i| (i as f32 * 0.1 - 0.3, 7.0 - i as f32 * 0.3)).unzip();
        let (mut first, mut second, mut sums) = (vec![0; n * 4], vec![0; n * 2], vec![0xff; n * 4]);
        float::encode_f32(&a, &mut first);
        float::encode_f16(&b, &mut second);
        let mut rounded = vec![0f32; n];
        float::decode_f16(&second, &mut rounded);
        add(GgmlType::F32, &first, true, &mut sums).unwrap();
        add(GgmlType::F16, &second, false, &mut sums).unwrap();
        let mut found = vec![0f32; n];
        float::decode_f32(&sums, &mut found);
        assert_eq!(found, a.iter().zip(&rounded).map(|(a, b)| a + b).collect::<Vec<f32>>());
        let mut zero = [0xff; 4];
        add(GgmlType::F32, &(-0.0f32).to_le_bytes(), true, &mut zero).unwrap();
        assert_eq!(zero, [0; 4]);
        assert_eq!(add(GgmlType::Q4_0, &first, true, &mut sums), None);
    }
}
