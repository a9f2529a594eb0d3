//! Conversion of whole tensors in one call.

use core::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::codec::{CodecError, codec};
use crate::rows::Rows;
use gguf_format::GgmlType;

/// The number of values that justifies another thread.
const VALUES_FOR_A_THREAD: usize = 1 << 14;
/// Parts per thread, so that slower threads process fewer.
const PARTS_OF_A_THREAD: usize = 8;

/// Decodes whole blocks: see [`Codec::decode`](crate::Codec::decode).
///
/// ```
/// use gguf_format::GgmlType;
///
/// // One block of 32 values: a scale of 0.5 in half precision, and levels of 4 bits; level 8 is zero.
/// let mut block = [0x88; 18];
/// block[..2].copy_from_slice(&[0x00, 0x38]);
/// block[2] = 0xf7;
/// let values = gguf_quants::dequantize(GgmlType::Q4_0, &block)?;
/// assert_eq!((values.len(), values[0], values[1], values[16]), (32, -0.5, 0.0, 3.5));
/// # Ok::<(), gguf_quants::CodecError>(())
/// ```
///
/// # Errors
/// [`CodecError::NoCodec`] for a type without a codec, [`CodecError::Size`] for bytes that are not whole blocks.
pub fn dequantize(ty: GgmlType, packed: &[u8]) -> Result<Vec<f32>, CodecError> {
    let (codec, info) = codec(ty).zip(ty.info()).ok_or(CodecError::NoCodec(ty))?;
    let (block_len, block_bytes) = (info.block_len as usize, info.block_bytes as usize);
    let whole = packed.len() / block_bytes;
    if packed.len() != whole * block_bytes {
        return Err(CodecError::Size { ty, needed: whole * block_bytes, given: packed.len() });
    }
    let mut values = vec![0.0; whole * block_len];
    codec.decode(packed, &mut values)?;
    Ok(values)
}

/// Decodes whole blocks into `values`, on several threads: by default, those of the parallelism of the machine. Small tensors use fewer.
///
/// ```
/// use gguf_format::GgmlType;
///
/// let mut values = [0.0; 2];
/// gguf_quants::dequantize_into(GgmlType::BF16, &[0x80, 0x3f, 0x00, 0xc0], &mut values, None)?;
/// assert_eq!(values, [1.0, -2.0]);
/// # Ok::<(), gguf_quants::CodecError>(())
/// ```
///
/// # Errors
/// [`CodecError::NoCodec`] for a type without a codec, [`CodecError::Size`] if `packed` is not the blocks of as many values.
pub fn dequantize_into(
    ty: GgmlType,
    packed: &[u8],
    values: &mut [f32],
    threads: Option<NonZeroUsize>,
) -> Result<(), CodecError> {
    let (codec, info) = codec(ty).zip(ty.info()).ok_or(CodecError::NoCodec(ty))?;
    let n_blocks = values.len() / info.block_len as usize;
    let threads = threads_for(values.len(), n_blocks, threads);
    // The blocks of all values, or the error that says which there would have to be.
    if threads < 2 || codec.packed_bytes(values.len()) != Some(packed.len()) {
        return codec.decode(packed, values);
    }
    let part = n_blocks.div_ceil(PARTS_OF_A_THREAD * threads);
    let parts = packed.chunks(part * info.block_bytes as usize).zip(values.chunks_mut(part * info.block_len as usize));
    on_threads(threads, parts, |(packed, values)| codec.decode(packed, values)).map_err(|(_, error)| error)
}

/// Encodes rows of `row_len` values each: see [`Codec::encode`](crate::Codec::encode).
///
/// `weights` is an importance matrix: one number for each column. `threads` is the number of threads, by default the parallelism of the
/// machine; small tensors use fewer. The bytes do not depend on it.
///
/// ```
/// use gguf_format::GgmlType;
///
/// let row: Vec<f32> = (0..256).map(|i| i as f32 - 128.0).collect();
/// let packed = gguf_quants::quantize(GgmlType::Q4_K, &row, 256, None, None)?;
/// assert_eq!(packed.len(), 144);
///
/// // Some types need an importance matrix.
/// let error = gguf_quants::quantize(GgmlType::IQ2_XS, &row, 256, None, None).unwrap_err();
/// assert_eq!(error.to_string(), "iq2_xs needs an importance matrix");
/// # Ok::<(), gguf_quants::CodecError>(())
/// ```
///
/// # Errors
/// [`CodecError::NoCodec`] for a type without a codec, and the errors of [`Codec::encode`](crate::Codec::encode) and [`Rows::new`].
pub fn quantize(
    ty: GgmlType,
    values: &[f32],
    row_len: usize,
    weights: Option<&[f32]>,
    threads: Option<NonZeroUsize>,
) -> Result<Vec<u8>, CodecError> {
    let codec = codec(ty).ok_or(CodecError::NoCodec(ty))?;
    let rows = Rows::new(values, row_len, weights)?;
    let partial = CodecError::PartialBlock { ty, row_len };
    let row_bytes = codec.packed_bytes(row_len).ok_or(partial)?;
    let mut packed = vec![0; codec.packed_bytes(values.len()).ok_or(partial)?];
    let n_rows = values.len().checked_div(row_len).unwrap_or(0);
    let threads = threads_for(values.len(), n_rows, threads);
    if threads < 2 {
        codec.encode(rows, &mut packed)?;
        return Ok(packed);
    }

    let part_rows = n_rows.div_ceil(PARTS_OF_A_THREAD * threads);
    let parts = values.chunks(part_rows * row_len).zip(packed.chunks_mut(part_rows * row_bytes));
    let done =
        on_threads(threads, parts, |(values, packed)| codec.encode(Rows::new(values, row_len, weights)?, packed));
    match done {
        Ok(()) => Ok(packed),
        Err((part, CodecError::Refused { ty, block })) => {
            let blocks_in_row = ty.info().map_or(0, |t| row_len / t.block_len as usize);
            Err(CodecError::Refused { ty, block: part * part_rows * blocks_in_row + block })
        }
        Err((_, error)) => Err(error),
    }
}

/// The number of threads for values in that many rows or blocks, which are not divided.
fn threads_for(n_values: usize, n_rows: usize, threads: Option<NonZeroUsize>) -> usize {
    let threads = threads.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    threads.min(n_rows).min(n_values / VALUES_FOR_A_THREAD)
}

/// Calls `work` for each part on several threads; the error is that of the first part that has one, with its index.
fn on_threads<T>(
    threads: usize,
    parts: impl Iterator<Item = T> + Send,
    work: impl Fn(T) -> Result<(), CodecError> + Sync,
) -> Result<(), (usize, CodecError)> {
    let first_error = Mutex::new(None);
    let parts = Mutex::new(parts.enumerate());
    let work = || {
        loop {
            let next = parts.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((part, item)) = next else { return };
            if let Err(error) = work(item) {
                let mut first = first_error.lock().unwrap_or_else(PoisonError::into_inner);
                if first.is_none_or(|(other, _)| part < other) {
                    *first = Some((part, error));
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // If no thread can be started, this one does the work.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    first_error.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}
