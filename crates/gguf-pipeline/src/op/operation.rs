//! What an operation is to a run.

use gguf_format::GgmlType;

use super::input::Input;
use crate::buffers::{packed_bytes, resize};
use crate::error::Error;
use crate::source::Source;
use crate::totals::Totals;

/// An operation that makes the values of a tensor.
pub(crate) trait Operation {
    /// The source tensors.
    fn inputs(&self) -> &[Input];

    /// The source tensors, to change them.
    fn inputs_mut(&mut self) -> &mut [Input];

    /// The type of the values before they are encoded.
    fn value_type(&self) -> GgmlType;

    /// The places at which chunks of the tensor may end.
    fn chunked_by(&self) -> ChunkedBy;

    /// Reads values in the order of the output, as [`value_type`](Operation::value_type).
    ///
    /// # Errors
    /// Errors of the source, and if a type cannot be decoded or memory is not available.
    fn read<'b>(&self, wanted: Wanted<'_>, buffers: &'b mut ReadBuffers) -> Result<&'b [u8], Error>;
}

/// The places at which chunks of a tensor may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkedBy {
    /// After any row, and between the parts of long rows.
    Rows,
    /// After any value.
    Values,
    /// After any value if it is copied or cast to another float type, otherwise after rows.
    ValuesUnlessEncoded,
}

/// The values of a tensor to read: whole blocks.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// The source of the data.
    pub(crate) source: &'a dyn Source,
    /// The name of the tensor.
    pub(crate) tensor: &'a [u8],
    /// The index of the tensor in the first plan of the run.
    pub(crate) index: usize,
    /// The number of values of the whole tensor.
    pub(crate) n_values: u64,
    /// The first value to read, in the order of the output.
    pub(crate) first: u64,
    /// The number of values to read.
    pub(crate) n_elements: u64,
    /// Facts about whole tensors.
    pub(crate) totals: &'a Totals<'a>,
}

impl Wanted<'_> {
    /// A request for `n_elements` values of the same tensor from `first` on.
    pub(crate) fn at(self, first: u64, n_elements: u64) -> Self {
        Wanted { first, n_elements, ..self }
    }

    /// Reads the same range of values of a source tensor.
    pub(crate) fn read_input(&self, input: &Input, raw: &mut Vec<u8>) -> Result<(), Error> {
        self.set_len(raw, input.ty)?;
        let offset = packed_bytes(input.ty, self.first, self.tensor)?;
        self.source.read_vec(input.index(), offset, raw)
    }

    /// Resizes a buffer to the values to read, in a type.
    pub(crate) fn set_len(&self, buffer: &mut Vec<u8>, ty: GgmlType) -> Result<(), Error> {
        resize(buffer, packed_bytes(ty, self.n_elements, self.tensor)?, self.tensor)
    }
}

/// Buffers that a thread reuses for each read.
#[derive(Default)]
pub(crate) struct ReadBuffers {
    /// In the order of the output.
    pub(crate) raw: Vec<u8>,
    /// In the order of the source.
    pub(crate) scratch: Vec<u8>,
    /// Computed values.
    pub(crate) mapped: Vec<u8>,
}
