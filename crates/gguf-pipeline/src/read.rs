//! Reads the values of planned tensors.

use crate::error::Error;
use crate::op::{ReadBuffers, Wanted};
use crate::plan::{Draft, TensorPlan};
use crate::totals::Totals;

/// A tensor of a run, to be read.
#[derive(Clone, Copy)]
pub(crate) struct Readable<'a> {
    /// The index in the first plan of the run.
    pub(crate) index: usize,
    /// The draft that has the source.
    pub(crate) draft: &'a Draft,
    pub(crate) tensor: &'a TensorPlan,
    pub(crate) totals: &'a Totals<'a>,
}

impl Readable<'_> {
    /// Reads whole blocks, in the order of the output and as values of the type of the tensor's operation.
    ///
    /// # Errors
    /// Errors of the source, and if a type cannot be decoded or memory is not available.
    pub(crate) fn read<'b>(
        &self,
        first: u64,
        n_elements: u64,
        buffers: &'b mut ReadBuffers,
    ) -> Result<&'b [u8], Error> {
        let wanted = Wanted {
            source: &*self.draft.source,
            tensor: &self.tensor.name,
            index: self.index,
            n_values: self.tensor.n_elements(),
            first,
            n_elements,
            totals: self.totals,
        };
        self.tensor.op.operation().read(wanted, buffers)
    }
}
