//! Values computed by the plan, which need no source: a list of them is the operation.

use gguf_format::GgmlType;
use gguf_quants::float;

use super::input::Input;
use super::operation::{ChunkedBy, Operation, ReadBuffers, Wanted};
use crate::buffers::no_codec;
use crate::error::Error;

impl Operation for Vec<f32> {
    fn inputs(&self) -> &[Input] {
        &[]
    }

    fn inputs_mut(&mut self) -> &mut [Input] {
        &mut []
    }

    fn value_type(&self) -> GgmlType {
        GgmlType::F32
    }

    fn chunked_by(&self) -> ChunkedBy {
        ChunkedBy::Values
    }

    fn read<'b>(&self, wanted: Wanted<'_>, buffers: &'b mut ReadBuffers) -> Result<&'b [u8], Error> {
        let range = usize::try_from(wanted.first).ok().zip(usize::try_from(wanted.n_elements).ok());
        let values = range.and_then(|(first, n)| self.get(first..first.checked_add(n)?));
        wanted.set_len(&mut buffers.raw, GgmlType::F32)?;
        float::encode_f32(values.ok_or_else(|| no_codec(wanted.tensor))?, &mut buffers.raw);
        Ok(&buffers.raw)
    }
}
