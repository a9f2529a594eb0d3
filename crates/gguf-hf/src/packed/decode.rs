//! Decoding of packed matrices.

use core::fmt;
use core::ops::Range;

use gguf_pipeline::Error as PipelineError;

use super::data::Data;

/// A decoder for a packed matrix.
pub(super) trait Decode: Send + Sync + fmt::Debug {
    /// Decodes a rectangle in row-major order: whole rows, or part of one row. `out` has the matching length.
    fn decode(
        &self,
        data: Data<'_>,
        rows: Range<u64>,
        columns: Range<u64>,
        out: &mut [f32],
    ) -> Result<(), PipelineError>;

    /// Whether values are multiplied by scales.
    fn is_scaled(&self) -> bool {
        true
    }
}
