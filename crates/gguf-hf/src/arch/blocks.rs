//! Moves of whole blocks of a quantized type: the block is the element.

use gguf_format::GgmlType;
use gguf_pipeline::moves::{Axis, Move};

use crate::dtype::{Dtype, SourceTensor};
use crate::model_plan::PlanError;
use crate::pattern::Moved;

/// Values per block; 1 for types without blocks.
pub(super) fn len(ty: GgmlType) -> u64 {
    ty.info().map_or(1, |info| u64::from(info.block_len)).max(1)
}

/// The number of blocks, or of values, in a tensor.
pub(super) fn n_units(source: &SourceTensor, ty: GgmlType) -> u64 {
    source.shape.iter().product::<u64>() / len(ty)
}

/// The moves of a tensor in units of blocks. `bind` gives the moves for a shape. `None` if the moves would split blocks.
pub(super) fn moved(
    source: &SourceTensor,
    bind: impl Fn(&[u64]) -> Result<Moved, PlanError>,
) -> Result<Option<Moved>, PlanError> {
    match source.dtype {
        Dtype::MXFP4_TRANSPOSED => moved_transposed(source, bind),
        dtype => Ok(in_blocks(bind(&source.shape)?, dtype.ggml.map_or(1, len))),
    }
}

/// Converts moves of values to moves of blocks of `len` values.
fn in_blocks(mut moved: Moved, len: u64) -> Option<Moved> {
    let whole = |n: u64| n.is_multiple_of(len).then_some(n / len);
    let row = moved.shape.last_mut()?;
    *row = whole(*row)?;
    for item in &mut moved.moves {
        (item.from, item.to) = (whole(item.from)?, whole(item.to)?);
        for axis in item.axes.iter_mut().filter(|axis| axis.count != 1) {
            match axis {
                Axis { count, from: 1, to: 1 } => *count = whole(*count)?,
                Axis { from, to, .. } => (*from, *to) = (whole(*from)?, whole(*to)?),
            }
        }
        item.axes.retain(|axis| axis.count != 1 || (axis.from, axis.to) == (1, 1));
    }
    Some(moved)
}

/// The moves in units of blocks of a transposed matrix ([`Dtype::MXFP4_TRANSPOSED`]), whose second-to-last dimension is split into blocks.
fn moved_transposed(
    source: &SourceTensor,
    bind: impl Fn(&[u64]) -> Result<Moved, PlanError>,
) -> Result<Option<Moved>, PlanError> {
    let [outer @ .., columns, rows] = &source.shape[..] else { return Ok(None) };
    let len = source.dtype.ggml.map_or(1, len);
    if columns % len != 0 || source.shape.contains(&0) {
        return Ok(None);
    }
    let n_blocks = columns / len;
    let mut moved = bind(&[outer, &[n_blocks, *rows]].concat())?;
    // Maps a position in the transposed matrices to the position of the stored block.
    let matrix = n_blocks * rows;
    let stored = |place: u64| {
        let (outer, inner) = (place / matrix, place % matrix);
        outer * matrix + inner % rows * n_blocks + inner / rows
    };
    let axis = |axis: Axis| Axis { from: stored(axis.from), ..axis };
    let of = |item: Move| Move { from: stored(item.from), axes: item.axes.into_iter().map(axis).collect(), ..item };
    moved.moves = moved.moves.into_iter().map(of).collect();
    // The blocks of a row must be contiguous in the output.
    let is_whole = |item: &Move| {
        n_blocks == 1 || item.axes.iter().any(|axis| axis.from == 1 && axis.to == 1 && axis.count == n_blocks)
    };
    let is_kept = moved.shape.last() == Some(&n_blocks) && moved.moves.iter().all(is_whole);
    Ok(is_kept.then_some(moved))
}
