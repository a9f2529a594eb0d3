//! Changes the byte order of tensor data.
//!
//! Only numbers wider than a byte are affected; the type table lists their places in a block.

use core::fmt;

use crate::types::{GgmlType, SizeError};

/// Reverses the byte order of every number in whole blocks of a type, in place. Applying it twice restores the original bytes.
///
/// # Errors
/// [`SwapError`] if the layout of the type's blocks is unknown, or the bytes are not a whole number of blocks. The bytes are then
/// unchanged.
pub fn swap_blocks(ty: GgmlType, bytes: &mut [u8]) -> Result<(), SwapError> {
    let info = ty.info().ok_or(SwapError::UnknownType(ty))?;
    // Repacked for one kind of CPU: the interleaving is not in the table.
    if info.removed && info.fields.is_empty() {
        return Err(SwapError::Interleaved(ty));
    }
    let block = info.block_bytes as usize;
    if !bytes.len().is_multiple_of(block) {
        return Err(SwapError::PartialBlock { bytes: bytes.len(), block_bytes: info.block_bytes });
    }
    for field in info.fields {
        let (start, width) = (usize::from(field.offset), field.kind.width());
        let end = start + width * usize::from(field.count);
        if width == 1 {
            continue;
        }
        if width == block {
            match width {
                2 => reverse_each::<2>(bytes),
                4 => reverse_each::<4>(bytes),
                _ => reverse_each::<8>(bytes),
            }
            continue;
        }
        for block in bytes.chunks_exact_mut(block) {
            for number in block.get_mut(start..end).unwrap_or_default().chunks_exact_mut(width) {
                number.reverse();
            }
        }
    }
    Ok(())
}

fn reverse_each<const N: usize>(bytes: &mut [u8]) {
    for number in bytes.as_chunks_mut::<N>().0 {
        number.reverse();
    }
}

/// Why the byte order of tensor data cannot be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SwapError {
    /// The type is not in the table.
    UnknownType(GgmlType),
    /// A removed type of interleaved blocks, whose layout is not in the table.
    Interleaved(GgmlType),
    /// The bytes are not a whole number of blocks.
    PartialBlock {
        /// Bytes given.
        bytes: usize,
        /// Bytes of one block.
        block_bytes: u32,
    },
}

impl fmt::Display for SwapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SwapError::UnknownType(ty) => write!(f, "{}", SizeError::UnknownType(*ty)),
            SwapError::Interleaved(ty) => {
                write!(f, "blocks of the removed type {ty} are interleaved; convert the tensor to another type first")
            }
            SwapError::PartialBlock { bytes, block_bytes } => {
                write!(f, "{bytes} bytes are not a whole number of blocks of {block_bytes} bytes")
            }
        }
    }
}

impl core::error::Error for SwapError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::TYPES;
    use std::vec::Vec;

    /// Two blocks of ascending bytes, starting at 1.
    fn blocks(bytes: u32) -> Vec<u8> {
        (0..bytes * 2).map(|i| (i + 1) as u8).collect()
    }

    #[test]
    fn numbers_are_reversed_and_the_rest_stays() {
        let cases: &[(GgmlType, &[usize])] = &[
            (GgmlType::F32, &[3, 2, 1, 0, 7, 6, 5, 4]),
            (GgmlType::BF16, &[1, 0, 3, 2]),
            (GgmlType::F64, &[7, 6, 5, 4, 3, 2, 1, 0, 15, 14]),
            (GgmlType::I8, &[0, 1]),
            (GgmlType::Q8_0, &[1, 0, 2, 3, 4]),
            (GgmlType::Q5_0, &[1, 0, 5, 4, 3, 2, 6, 7]),
            (GgmlType::IQ4_XS, &[1, 0, 3, 2, 4, 5]),
            (GgmlType::MXFP4, &[0, 1, 2, 3]),
        ];
        for (ty, order) in cases {
            let old = blocks(ty.info().unwrap().block_bytes);
            let mut new = old.clone();
            swap_blocks(*ty, &mut new).unwrap();
            for (i, &from) in order.iter().enumerate() {
                assert_eq!(new[i], old[from], "{ty} byte {i}");
            }
        }
    }

    #[test]
    fn twice_is_nothing() {
        for t in TYPES {
            let old = blocks(t.block_bytes);
            let mut new = old.clone();
            match swap_blocks(GgmlType(t.id), &mut new) {
                Ok(()) => {
                    let wide = t.fields.iter().any(|f| f.kind.width() > 1);
                    assert_eq!(new != old, wide, "{}", t.name);
                    swap_blocks(GgmlType(t.id), &mut new).unwrap();
                }
                Err(e) => assert_eq!(e, SwapError::Interleaved(GgmlType(t.id))),
            }
            assert_eq!(new, old, "{}", t.name);
        }
    }

    #[test]
    fn what_cannot_be_swapped_is_refused_and_left_alone() {
        let mut bytes = blocks(9);
        let cases = [
            (GgmlType(99), SwapError::UnknownType(GgmlType(99))),
            (GgmlType::Q4_0_4_4, SwapError::Interleaved(GgmlType::Q4_0_4_4)),
            (GgmlType::F32, SwapError::PartialBlock { bytes: 18, block_bytes: 4 }),
        ];
        for (ty, error) in cases {
            assert_eq!(swap_blocks(ty, &mut bytes), Err(error));
        }
        assert_eq!(bytes, blocks(9));
    }
}
