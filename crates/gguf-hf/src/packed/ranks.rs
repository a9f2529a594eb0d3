//! Queries, keys and values of MiMo V2 in one matrix of 8-bit floats, in the layout of tensor-parallel ranks.
//!
//! The rows of a rank are contiguous: queries, keys, values. Blocks of 128 rows restart at each rank, so the last block of a rank may be
//! shorter. The decoded matrix has the queries of all ranks first, then all keys, then all values (`_tp_aware_qkv_dequant` in
//! `conversion/mimo.py` of llama.cpp).

use core::ops::Range;

use gguf_pipeline::Error;

use super::companion::{problem, scales};
use super::data::{Data, Number, Numbers};
use super::decode::Decode;
use crate::dtype::SourceTensor;
use crate::model_plan::PlanError;
use crate::number::to_index;

/// Rows and columns of a block.
const BLOCK: u64 = 128;

/// A matrix stored by rank.
#[derive(Debug)]
pub(super) struct Ranks {
    values: Numbers,
    scales: Numbers,
    columns: u64,
    /// Scales per row.
    row_scales: u64,
    n_ranks: u64,
    /// Query, key and value rows per rank; none is 0.
    parts: [u64; 3],
}

impl Ranks {
    /// Infers the number of ranks, 8 or 4, from the number of scales. `sizes` are the numbers of query, key and value rows.
    pub(super) fn new(
        weight: (usize, &SourceTensor),
        of_weight: (usize, &SourceTensor),
        sizes: [u64; 3],
    ) -> Result<Ranks, PlanError> {
        let ((index, tensor), (scale_index, of_scales)) = (weight, of_weight);
        let number = Number::of(tensor.dtype).filter(|number| matches!(number, Number::F8(_)));
        let Some(number) = number else {
            return Err(problem(tensor, format!("has the format {}, expected F8_E4M3 or F8_E5M2", tensor.dtype)));
        };
        let total = sizes.iter().try_fold(0u64, |sum, n| sum.checked_add(*n));
        let (rows, columns) = match tensor.shape[..] {
            [rows, columns] if Some(rows) == total => (rows, columns),
            _ => {
                let text = format!(
                    "has the shape {:?}, expected {} rows of queries, {} of keys and {} of values",
                    tensor.shape, sizes[0], sizes[1], sizes[2]
                );
                return Err(problem(tensor, text));
            }
        };
        let row_scales = columns.div_ceil(BLOCK);
        let has_scales = |n_ranks: &u64| {
            let is_whole = sizes.iter().all(|n| *n > 0 && n.is_multiple_of(*n_ranks));
            is_whole && of_scales.shape == [(rows / n_ranks).div_ceil(BLOCK) * n_ranks, row_scales]
        };
        let Some(n_ranks) = [8, 4].into_iter().find(has_scales) else {
            let text = format!(
                "has the shape {:?}, which is not that of scales for [{rows}, {columns}] in blocks of {BLOCK} × {BLOCK} of 4 or 8 ranks",
                of_scales.shape
            );
            return Err(problem(of_scales, text));
        };
        let (values, scales) = (Numbers { index, number }, scales(scale_index, of_scales)?);
        Ok(Ranks { values, scales, columns, row_scales, n_ranks, parts: sizes.map(|n| n / n_ranks) })
    }

    /// Maps a decoded row to its rank and its row within the rank.
    fn stored(&self, row: u64) -> (u64, u64) {
        let (mut first, mut first_of_rank) = (0, 0);
        for part in self.parts {
            let n = part * self.n_ranks;
            if row < first + n {
                return ((row - first) / part, first_of_rank + (row - first) % part);
            }
            (first, first_of_rank) = (first + n, first_of_rank + part);
        }
        (self.n_ranks, 0)
    }
}

impl Decode for Ranks {
    fn decode(&self, data: Data<'_>, rows: Range<u64>, columns: Range<u64>, out: &mut [f32]) -> Result<(), Error> {
        let rows_of_rank: u64 = self.parts.iter().sum();
        let width = usize::try_from(columns.end - columns.start).unwrap_or(usize::MAX).max(1);
        let (first, last) = (columns.start / BLOCK, columns.end.div_ceil(BLOCK));
        for (row, values) in rows.zip(out.chunks_exact_mut(width)) {
            let (rank, row) = self.stored(row);
            data.numbers_into(self.values, (rank * rows_of_rank + row) * self.columns + columns.start, values)?;
            let row_of_scales = rank * rows_of_rank.div_ceil(BLOCK) + row / BLOCK;
            let scales = data.numbers(self.scales, row_of_scales * self.row_scales + first, last - first)?;
            for (column, value) in columns.clone().zip(values) {
                *value *= scales.get(to_index(column / BLOCK - first)).copied().unwrap_or_default();
            }
        }
        Ok(())
    }
}
