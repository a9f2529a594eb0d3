//! Tensor data as slices of numbers, without a copy: the feature `bytemuck`.

use core::fmt;
use core::mem::{align_of, size_of};

use crate::header::ByteOrder;
use crate::types::GgmlType;

/// Number types of plain tensor types. With the feature `half` also `half::f16` and `half::bf16`.
pub trait PlainElement: bytemuck::AnyBitPattern + sealed::Sealed {
    /// The tensor type of these numbers.
    const TYPE: GgmlType;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($ty:ty => $konst:ident),* $(,)?) => { $(
        impl sealed::Sealed for $ty {}
        impl PlainElement for $ty {
            const TYPE: GgmlType = GgmlType::$konst;
        }
    )* };
}
elements! { f32 => F32, f64 => F64, i8 => I8, i16 => I16, i32 => I32, i64 => I64 }
#[cfg(feature = "half")]
elements! { half::f16 => F16, half::bf16 => BF16 }

/// The data of a tensor as a slice of its elements.
///
/// `ty` and `order` are those of the tensor and of its file; the bytes are not copied. Tensor data of a mapped file is sufficiently
/// aligned, as long as `general.alignment` is not below the size of an element.
///
/// ```
/// use gguf_format::{ByteOrder, CastError, GgmlType, cast_elements};
///
/// let numbers = [1i32, -2];
/// let native = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
/// let bytes: &[u8] = bytemuck::cast_slice(&numbers);
/// assert_eq!(cast_elements::<i32>(GgmlType::I32, native, bytes)?, numbers);
/// assert!(cast_elements::<f32>(GgmlType::I32, native, bytes).is_err());
/// # Ok::<(), CastError>(())
/// ```
///
/// # Errors
/// [`CastError`] if the tensor has another type, its byte order is not this machine's, or the data is not aligned for `T` or not a whole
/// number of elements.
pub fn cast_elements<T: PlainElement>(ty: GgmlType, order: ByteOrder, bytes: &[u8]) -> Result<&[T], CastError> {
    if ty != T::TYPE {
        return Err(CastError::Type { asked: T::TYPE, found: ty });
    }
    let native = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
    if order != native && size_of::<T>() > 1 {
        return Err(CastError::ByteOrder(order));
    }
    bytemuck::try_cast_slice(bytes).map_err(|e| match e {
        bytemuck::PodCastError::TargetAlignmentGreaterAndInputNotAligned => {
            CastError::Unaligned { alignment: align_of::<T>() }
        }
        _ => CastError::PartialElement { bytes: bytes.len(), element_bytes: size_of::<T>() },
    })
}

/// Why tensor data is not a slice of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CastError {
    /// The tensor is of another type.
    Type {
        /// The type of tensors of the requested numbers.
        asked: GgmlType,
        /// The type of the tensor.
        found: GgmlType,
    },
    /// The data has this byte order, which is not the machine's.
    ByteOrder(ByteOrder),
    /// The data is not aligned for the number.
    Unaligned {
        /// The alignment of the number, in bytes.
        alignment: usize,
    },
    /// The bytes are not a whole number of elements.
    PartialElement {
        /// Number of bytes.
        bytes: usize,
        /// Bytes of an element.
        element_bytes: usize,
    },
}

impl fmt::Display for CastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CastError::Type { asked, found } => write!(f, "the tensor is of type {found}, not {asked}"),
            CastError::ByteOrder(order) => write!(f, "the data is {order}, which is not this machine's byte order"),
            CastError::Unaligned { alignment } => {
                write!(f, "the data does not start at a multiple of {alignment} bytes")
            }
            CastError::PartialElement { bytes, element_bytes } => {
                write!(f, "{bytes} bytes are not a whole number of elements of {element_bytes} bytes")
            }
        }
    }
}

impl core::error::Error for CastError {}
