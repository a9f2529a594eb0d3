//! Elements of source tensors, rearranged and mapped to other values.

use gguf_format::GgmlType;
use serde::{Deserialize, Serialize};

use super::elementwise::{Elementwise, apply_all};
use super::input::Input;
use super::operation::{ChunkedBy, Operation, ReadBuffers, Wanted};
use crate::buffers::{no_codec, resize};
use crate::cast::{Cast, width};
use crate::error::Error;
use crate::moves::{self, Move};

/// Elements of source tensors, rearranged for the output and mapped to other values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gather {
    /// The source tensors, at least one: of plain types, or all of one block type, whose blocks are the elements of moves.
    pub inputs: Vec<Input>,
    /// The rearrangement. The moves together fill the output.
    pub moves: Vec<Move>,
    /// The functions applied to each value, in this order.
    pub maps: Vec<Elementwise>,
}

/// The extent to which the sources can be restored from the output of an operation.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Inverse {
    /// Completely, to the bit: each element of the sources has a distinct place and its value.
    Exact,
    /// Completely, except for the rounding of computed values.
    Rounded,
    /// Incompletely: some elements of the sources are omitted.
    Lost,
}

impl Gather {
    /// The type of the moved elements: that of the sources, or single precision if sources have different types.
    pub fn source_type(&self) -> GgmlType {
        let mut types = self.inputs.iter().map(|input| input.ty);
        let first = types.next().unwrap_or(GgmlType::F32);
        if types.all(|ty| ty == first) { first } else { GgmlType::F32 }
    }

    /// The extent to which [`Move::inverse`] restores the sources. `n_elements` is the length of an input.
    pub fn inverse(&self, n_elements: impl Fn(&Input) -> u64) -> Inverse {
        let mut left: Vec<u64> = self.inputs.iter().map(n_elements).collect();
        for item in &self.moves {
            // Moves have disjoint sources, except if one repeats elements.
            if let Some(left) = left.get_mut(item.input) {
                *left = left.saturating_sub(item.n_elements());
            }
        }
        let repeats = self.moves.iter().flat_map(|item| &item.axes).any(|axis| axis.from == 0 && axis.count > 1);
        match (repeats || left.iter().any(|n| *n > 0), self.maps.is_empty()) {
            (true, _) => Inverse::Lost,
            (false, true) => Inverse::Exact,
            (false, false) => Inverse::Rounded,
        }
    }

    /// The same elements, each move's in the order of its source: the output of a program that omits the rearrangement. `None` if they are in
    /// that order already, or if a move does not fill a range of the output.
    pub fn in_source_order(&self) -> Option<Gather> {
        let moves = self.moves.iter().map(Move::in_source_order).collect::<Option<Vec<_>>>()?;
        (moves != self.moves).then(|| Gather { moves, ..self.clone() })
    }

    /// Reads values before functions are applied to them, in the order of the output, to `buffers.raw`; returns their type,
    /// [`source_type`](Gather::source_type).
    ///
    /// # Errors
    /// Errors of [`Operation::read`].
    pub(super) fn read_moved(&self, wanted: Wanted<'_>, buffers: &mut ReadBuffers) -> Result<GgmlType, Error> {
        let ReadBuffers { raw, scratch, .. } = buffers;
        let (from, tensor) = (self.source_type(), wanted.tensor);
        wanted.set_len(raw, from)?;
        let mut packed = Vec::new();
        let read = |input: usize, offset, bytes: &mut [u8]| {
            let input = self.inputs.get(input).ok_or_else(|| no_codec(tensor))?;
            if input.ty == from {
                return wanted.source.read(input.index(), offset, bytes);
            }
            let cast = Cast::new(input.ty, from).ok_or_else(|| no_codec(tensor))?;
            let (own, gathered) = (width(input.ty), width(from).max(1));
            resize(&mut packed, (bytes.len() / gathered * own) as u64, tensor)?;
            wanted.source.read(input.index(), offset / gathered as u64 * own as u64, &mut packed)?;
            cast.apply(&packed, bytes);
            Ok(())
        };
        // A block is moved whole.
        let block_len = from.info().map_or(1, |info| u64::from(info.block_len)).max(1);
        moves::gather(&self.moves, width(from), wanted.first / block_len, raw, scratch, read)?;
        Ok(from)
    }
}

impl Operation for Gather {
    fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    fn inputs_mut(&mut self) -> &mut [Input] {
        &mut self.inputs
    }

    fn value_type(&self) -> GgmlType {
        match self.source_type() {
            ty if self.maps.is_empty() || ty == GgmlType::F16 => ty,
            _ => GgmlType::F32,
        }
    }

    fn chunked_by(&self) -> ChunkedBy {
        ChunkedBy::Rows
    }

    fn read<'b>(&self, wanted: Wanted<'_>, buffers: &'b mut ReadBuffers) -> Result<&'b [u8], Error> {
        let from = self.read_moved(wanted, buffers)?;
        let ReadBuffers { raw, mapped, .. } = buffers;
        if self.maps.is_empty() {
            return Ok(raw);
        }
        wanted.set_len(mapped, self.value_type())?;
        apply_all(&self.maps, from, wanted.first, raw, mapped).ok_or_else(|| no_codec(wanted.tensor))?;
        Ok(mapped)
    }
}
