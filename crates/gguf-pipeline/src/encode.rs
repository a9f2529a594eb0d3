//! Encodes the values of a chunk by ggml's rules, for one or more plans.

use gguf_format::{ByteOrder, scan_data};
use gguf_quants::codec::{Codec, codec};
use gguf_quants::{RowSquares, Rows};

use crate::buffers::{no_codec, resize_values};
use crate::chunk::{Chunk, goes_through_blocks};
use crate::error::Error;
use crate::op::ReadBuffers;
use crate::parts::parts;
use crate::plan::{Draft, TensorPlan};
use crate::read::Readable;

/// Approximate number of values to decode and encode at once: they stay in the second-level cache, and fill the lanes of the encoders.
const SPAN: usize = 1 << 16;

/// The importance of the columns of a chunk.
///
/// # Errors
/// Errors of the importance matrix.
pub(crate) fn columns(draft: &Draft, tensor: &TensorPlan, chunk: &Chunk) -> Result<Option<Vec<f32>>, Error> {
    let Some((entry, importance)) = tensor.entry().zip(draft.importance.as_ref()) else {
        return Ok(None);
    };
    let first = chunk.matrix.saturating_mul(chunk.row_len);
    let column = |column: u64| first.saturating_add(column);
    importance.weights(entry, column(chunk.columns.start)..column(chunk.columns.end))
}

/// A chunk to encode for one of the plans.
pub(crate) struct Target<'a> {
    pub(crate) draft: &'a Draft,
    pub(crate) tensor: &'a TensorPlan,
    /// The encoded chunk.
    pub(crate) out: &'a mut Vec<u8>,
}

/// The encoding of the chunk for a target.
struct Encoding<'a> {
    to: &'static Codec,
    weights: Option<Vec<f32>>,
    /// The squares of the row that contains the chunk.
    squares: Option<RowSquares>,
    /// The bytes of each span.
    spans: std::slice::ChunksMut<'a, u8>,
}

/// Decodes the rows of a chunk, several at a time, and encodes them for each target. `source` has the values of `from`.
///
/// # Errors
/// Values that are not finite, and those of the codecs, the source and the importance matrices.
pub(crate) fn encode(
    from: Readable<'_>,
    chunk: &Chunk,
    targets: Vec<Target<'_>>,
    source: &[u8],
    values: &mut Vec<f32>,
) -> Result<(), Error> {
    if targets.is_empty() {
        return Ok(());
    }
    let tensor = from.tensor;
    let refused = || no_codec(&tensor.name);
    let find = |ty| codec(ty).ok_or_else(refused);
    let decoder: &Codec = find(tensor.op.value_type())?;
    let width = usize::try_from(chunk.width()).map_err(|_| refused())?;
    let n_elements = usize::try_from(chunk.n_elements()).map_err(|_| refused())?;
    // A part can be divided again between any blocks.
    let span = if chunk.is_part() { SPAN } else { (SPAN / width.max(1)).max(1) * width };
    let bytes = |codec: &Codec| codec.packed_bytes(span).filter(|&bytes| bytes > 0).ok_or_else(refused);
    let mut encodings = Vec::new();
    for Target { draft, tensor, out } in targets {
        let to = find(tensor.ty)?;
        let weights = columns(draft, tensor, chunk)?;
        let squares = match chunk.is_part() {
            true if to.looks_at_rows(weights.is_some()) => Some(row_squares(from, chunk, decoder)?),
            true => Some(RowSquares::default()),
            false => None,
        };
        encodings.push(Encoding { to, weights, squares, spans: out.chunks_mut(bytes(to)?) });
    }
    let from_span = bytes(decoder)?;
    for (n, packed) in source.chunks(from_span).enumerate() {
        let first = n * span;
        let n_values = span.min(n_elements.saturating_sub(first));
        let row = chunk.first_row + (first / width) as u64;
        // llama.cpp validates its input and output in the same way (`ggml_validate_row_data`).
        let check = |ty, bytes: &[u8]| match scan_data(ty, ByteOrder::Little, bytes, 0) {
            Ok(scan) if scan.is_clean() => Ok(()),
            _ => Err(Error::NotFinite { tensor: tensor.shown(), row, ty }),
        };
        check(decoder.ty, packed)?;
        resize_values(values, n_values as u64, &tensor.name)?;
        let wrong = |source| Error::Codec { tensor: tensor.shown(), row, source };
        decoder.decode(packed, values).map_err(wrong)?;
        for Encoding { to, weights, squares, spans } in &mut encodings {
            let out = spans.next().ok_or_else(refused)?;
            let weights = weights.as_deref();
            let rows = match squares {
                None => Rows::new(values, width, weights),
                Some(squares) => {
                    Rows::part_of_row(values, weights.and_then(|w| w.get(first..first + n_values)), *squares)
                }
            };
            let rows = rows.map_err(|source| Error::Rows { tensor: tensor.shown(), source })?;
            to.encode(rows, out).map_err(wrong)?;
            check(to.ty, out)?;
        }
    }
    Ok(())
}

/// The squares of the whole row that contains a chunk.
fn row_squares(from: Readable<'_>, chunk: &Chunk, decoder: &Codec) -> Result<RowSquares, Error> {
    let Readable { index, tensor, totals, .. } = from;
    totals.squares(index, chunk.first_row, || {
        let (mut buffers, mut values, mut sum) = (ReadBuffers::default(), Vec::new(), RowSquares::default());
        for columns in parts(chunk.row_len) {
            totals.check_cancelled()?;
            let first = chunk.first_row.saturating_mul(chunk.row_len).saturating_add(columns.start);
            let n_elements = columns.end - columns.start;
            let packed = from.read(first, n_elements, &mut buffers)?;
            resize_values(&mut values, n_elements, &tensor.name)?;
            let wrong = |source| Error::Codec { tensor: tensor.shown(), row: chunk.first_row, source };
            decoder.decode(packed, &mut values).map_err(wrong)?;
            sum.add(&values);
        }
        Ok(sum)
    })
}

/// Reads the row of a chunk as the encoding of the chunk does, if it is a part of the row and the type depends on whole rows.
///
/// # Errors
/// Errors of the source and the importance matrix.
pub(crate) fn read_squares(from: Readable<'_>, chunk: &Chunk) -> Result<(), Error> {
    let Readable { draft, tensor, .. } = from;
    if !chunk.is_part() || !goes_through_blocks(draft.rounding, tensor.op.value_type(), tensor) {
        return Ok(());
    }
    let (decoder, to) = codec(tensor.op.value_type()).zip(codec(tensor.ty)).ok_or_else(|| no_codec(&tensor.name))?;
    if to.looks_at_rows(columns(draft, tensor, chunk)?.is_some()) {
        row_squares(from, chunk, decoder)?;
    }
    Ok(())
}
