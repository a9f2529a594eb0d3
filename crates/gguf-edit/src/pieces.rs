//! Divides tensor data into pieces of whole blocks.

use gguf_format::GgmlType;

/// Offsets and lengths of pieces of about `step` bytes of a tensor of `bytes` bytes. A tensor without data has one empty piece.
pub(crate) fn pieces(ty: GgmlType, bytes: u64, step: u64) -> impl Iterator<Item = (u64, u64)> + Clone {
    let block = ty.info().map_or(1, |info| u64::from(info.block_bytes).max(1));
    let step = (step / block).max(1) * block;
    (0..bytes.div_ceil(step).max(1)).map(move |n| (n * step, step.min(bytes - (n * step).min(bytes))))
}

/// Resizes a buffer, without aborting if memory is exhausted; the contents are unspecified.
pub(crate) fn resize<T: Clone + Default>(
    buffer: &mut Vec<T>,
    n: u64,
    what: impl Fn() -> String,
) -> Result<&mut [T], crate::Error> {
    let refused = || crate::Error::OutOfMemory { what: what(), bytes: n.saturating_mul(size_of::<T>() as u64) };
    let len = usize::try_from(n).map_err(|_| refused())?;
    if buffer.len() < len {
        buffer.try_reserve_exact(len - buffer.len()).map_err(|_| refused())?;
        buffer.resize(len, T::default());
    }
    Ok(buffer.get_mut(..len).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_blocks_and_all_there_is() {
        for (ty, bytes, step, expected) in [
            (GgmlType::F32, 40, 16, vec![(0, 16), (16, 16), (32, 8)]),
            (GgmlType::Q8_0, 34 * 3, 70, vec![(0, 68), (68, 34)]),
            (GgmlType::Q8_0, 34, 1, vec![(0, 34)]),
            (GgmlType(999), 5, 4, vec![(0, 4), (4, 1)]),
            (GgmlType::F32, 0, 16, vec![(0, 0)]),
        ] {
            assert_eq!(pieces(ty, bytes, step).collect::<Vec<_>>(), expected, "{ty} {bytes} {step}");
        }
    }
}
