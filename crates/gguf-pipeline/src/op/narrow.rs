//! The lower halves of 64-bit integers.

use gguf_format::GgmlType;
use serde::{Deserialize, Serialize};

use super::input::Input;
use super::operation::{ChunkedBy, Operation, ReadBuffers, Wanted};
use crate::error::Error;

/// Integers of 64 bits, as those of 32 bits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Narrow {
    /// The source tensor, of type I64.
    pub input: Input,
}

impl Operation for Narrow {
    fn inputs(&self) -> &[Input] {
        std::slice::from_ref(&self.input)
    }

    fn inputs_mut(&mut self) -> &mut [Input] {
        std::slice::from_mut(&mut self.input)
    }

    fn value_type(&self) -> GgmlType {
        GgmlType::I32
    }

    fn chunked_by(&self) -> ChunkedBy {
        ChunkedBy::Values
    }

    fn read<'b>(&self, wanted: Wanted<'_>, buffers: &'b mut ReadBuffers) -> Result<&'b [u8], Error> {
        let ReadBuffers { raw, mapped, .. } = buffers;
        wanted.read_input(&self.input, raw)?;
        wanted.set_len(mapped, GgmlType::I32)?;
        narrow(raw, mapped);
        Ok(mapped)
    }
}

/// The lower halves of integers of 64 bits, which are the numbers where they fit 32 bits.
fn narrow(wide: &[u8], out: &mut [u8]) {
    let (wide, _) = wide.as_chunks::<8>();
    let (out, _) = out.as_chunks_mut::<4>();
    for (out, [a, b, c, d, ..]) in out.iter_mut().zip(wide) {
        *out = [*a, *b, *c, *d];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_numbers_are_the_lower_halves() {
        let wide: Vec<u8> = [5i64, -1, (1 << 32) + 7].iter().flat_map(|n| n.to_le_bytes()).collect();
        let mut out = [0; 12];
        narrow(&wide, &mut out);
        assert_eq!(out.as_chunks::<4>().0.iter().map(|n| i32::from_le_bytes(*n)).collect::<Vec<_>>(), [5, -1, 7]);
    }
}
