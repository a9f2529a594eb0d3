//! Bytes viewed as numbers.

use gguf_format::GgmlType;

/// A number type of tensor data in memory: see [`Tensor::as_slice`](crate::Tensor::as_slice).
///
/// `u8` views data of any type, as bytes; `u16` the bits of [`F16`](GgmlType::F16) and [`BF16`](GgmlType::BF16).
pub trait Plain: sealed::Sealed {
    /// Whether data of the tensor type consists of these numbers.
    fn holds(ty: GgmlType) -> bool;
}

mod sealed {
    /// Number types for which every bit pattern is valid.
    pub trait Sealed: Copy + 'static {}
}

macro_rules! plain {
    ($($ty:ty: $holds:expr;)*) => { $(
        impl sealed::Sealed for $ty {}
        impl Plain for $ty {
            fn holds(ty: GgmlType) -> bool {
                $holds(ty)
            }
        }
    )* };
}

plain! {
    u8: |_| true;
    u16: |ty| matches!(ty, GgmlType::F16 | GgmlType::BF16);
    i8: |ty| ty == GgmlType::I8;
    i16: |ty| ty == GgmlType::I16;
    i32: |ty| ty == GgmlType::I32;
    i64: |ty| ty == GgmlType::I64;
    f32: |ty| ty == GgmlType::F32;
    f64: |ty| ty == GgmlType::F64;
}

/// The bytes as numbers; `None` if they are misaligned or not a whole number of them.
#[allow(unsafe_code, reason = "the one place that views bytes as numbers")]
pub(crate) fn view<T: Plain>(bytes: &[u8]) -> Option<&[T]> {
    // SAFETY: every bit pattern is valid for `T`: the trait is sealed, and only integers and floats implement it.
    let (before, numbers, after) = unsafe { bytes.align_to::<T>() };
    (before.is_empty() && after.is_empty()).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_aligned_and_whole() {
        let mut room = [0u8; 40];
        let at = room.as_ptr().align_offset(8);
        room[at..at + 24].copy_from_slice(&[1u64, 2, 3].map(u64::to_ne_bytes).concat());
        assert_eq!(view::<i64>(&room[at..at + 24]), Some(&[1, 2, 3][..]));
        assert_eq!(view::<i64>(&room[at + 1..at + 25]), None);
        assert_eq!(view::<i64>(&room[at..at + 23]), None);
        assert_eq!(view::<u8>(&room[at + 1..at + 4]).map(<[u8]>::len), Some(3));
        assert_eq!(view::<f32>(&[]), Some(&[][..]));
    }
}
