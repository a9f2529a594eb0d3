//! Buffers for values of a tensor. Memory that is not available is an error, which names the tensor.

use gguf_format::{GgmlType, Str, check};

use crate::error::Error;

/// Bytes of whole blocks of values.
pub(crate) fn packed_bytes(ty: GgmlType, n_elements: u64, tensor: &[u8]) -> Result<u64, Error> {
    ty.tensor_bytes([n_elements]).map_err(|_| no_codec(tensor))
}

/// The error for a tensor whose type cannot be decoded or encoded.
pub(crate) fn no_codec(tensor: &[u8]) -> Error {
    Error::NoCodec { tensor: check::shown(Str(tensor)) }
}

/// Resizes a buffer, without aborting if memory is exhausted.
pub(crate) fn resize(buffer: &mut Vec<u8>, bytes: u64, tensor: &[u8]) -> Result<(), Error> {
    let refused = || Error::OutOfMemory { tensor: check::shown(Str(tensor)), bytes };
    let len = usize::try_from(bytes).map_err(|_| refused())?;
    buffer.try_reserve(len.saturating_sub(buffer.len())).map_err(|_| refused())?;
    buffer.resize(len, 0);
    Ok(())
}

/// Resizes a buffer of values.
pub(crate) fn resize_values(values: &mut Vec<f32>, n_values: u64, tensor: &[u8]) -> Result<(), Error> {
    let refused = || Error::OutOfMemory { tensor: check::shown(Str(tensor)), bytes: n_values.saturating_mul(4) };
    let len = usize::try_from(n_values).map_err(|_| refused())?;
    values.try_reserve(len.saturating_sub(values.len())).map_err(|_| refused())?;
    values.resize(len, 0.0);
    Ok(())
}
