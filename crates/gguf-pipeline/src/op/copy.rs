//! The elements of a source tensor in their order: an [`Input`] is the operation.

use gguf_format::GgmlType;

use super::input::Input;
use super::operation::{ChunkedBy, Operation, ReadBuffers, Wanted};
use crate::error::Error;

impl Operation for Input {
    fn inputs(&self) -> &[Input] {
        std::slice::from_ref(self)
    }

    fn inputs_mut(&mut self) -> &mut [Input] {
        std::slice::from_mut(self)
    }

    fn value_type(&self) -> GgmlType {
        self.ty
    }

    fn chunked_by(&self) -> ChunkedBy {
        // Blocks are not divided.
        if self.ty.is_quantized() { ChunkedBy::Rows } else { ChunkedBy::ValuesUnlessEncoded }
    }

    fn read<'b>(&self, wanted: Wanted<'_>, buffers: &'b mut ReadBuffers) -> Result<&'b [u8], Error> {
        wanted.read_input(self, &mut buffers.raw)?;
        Ok(&buffers.raw)
    }
}
