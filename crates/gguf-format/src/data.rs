//! Searches tensor data for NaN and infinity, in plain floats and in block scales.

use core::fmt;

use crate::header::ByteOrder;
use crate::types::{BlockField, FieldKind, GgmlType, SizeError, TypeInfo};

/// The result of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DataScan {
    /// Number of scanned values.
    pub scanned: u64,
    /// Number of NaN values.
    pub nan: u64,
    /// Number of infinite values, of either sign.
    pub infinite: u64,
    /// The block of the first such number. A plain float is a block of one.
    pub first: Option<u64>,
}

impl DataScan {
    /// Whether every number is finite.
    pub fn is_clean(&self) -> bool {
        self.nan == 0 && self.infinite == 0
    }

    /// Adds the result of a scan of further blocks.
    pub fn add(&mut self, more: DataScan) {
        self.scanned += more.scanned;
        self.nan += more.nan;
        self.infinite += more.infinite;
        self.first = match (self.first, more.first) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

/// Bytes to test at once before anything in them is counted. A multiple of every width.
const PIECE: usize = 4096;

/// Scans whole blocks of a type; `first_block` is the index of the first one in its tensor. A tensor can be scanned in pieces. Types
/// without floats have no findings.
///
/// # Errors
/// [`NotScannable`] if the layout of the type's blocks is unknown, or the bytes are not a whole number of blocks.
pub fn scan_data(ty: GgmlType, order: ByteOrder, bytes: &[u8], first_block: u64) -> Result<DataScan, NotScannable> {
    let info = ty.info().ok_or(NotScannable::UnknownType(ty))?;
    if info.removed && info.fields.is_empty() {
        return Err(NotScannable::Interleaved(ty));
    }
    if !bytes.len().is_multiple_of(info.block_bytes as usize) {
        return Err(NotScannable::PartialBlock { bytes: bytes.len(), block_bytes: info.block_bytes });
    }
    let mut scan = DataScan::default();
    for field in info.fields {
        let mut found = DataScan::default();
        scan_field(info, field, order, bytes, &mut found);
        found.first = found.first.map(|block| block.saturating_add(first_block));
        scan.add(found);
    }
    Ok(scan)
}

/// The meaning of a number's bits.
enum Class {
    Finite,
    Infinite,
    Nan,
}

/// By exponent mask: all ones mean infinity if the fraction is zero, otherwise NaN.
fn classify(bits: u64, exponent: u64, fraction: u64) -> Class {
    match (bits & exponent == exponent, bits & fraction) {
        (false, _) => Class::Finite,
        (true, 0) => Class::Infinite,
        (true, _) => Class::Nan,
    }
}

macro_rules! plain {
    ($bytes:ident $order:ident $found:ident $ty:ident $width:literal $exponent:literal $fraction:literal) => {{
        let mut before = 0u64;
        for piece in $bytes.chunks(PIECE) {
            let (numbers, _) = piece.as_chunks::<$width>();
            // The largest exponent of the piece determines whether there is anything to count. A single branch for the piece, so that the
            // compiler vectorizes the rest.
            let largest = match $order {
                ByteOrder::Little => numbers.iter().fold(0, |m: $ty, n| m.max($ty::from_le_bytes(*n) & $exponent)),
                ByteOrder::Big => numbers.iter().fold(0, |m: $ty, n| m.max($ty::from_be_bytes(*n) & $exponent)),
            };
            if largest == $exponent {
                for (i, n) in numbers.iter().enumerate() {
                    let bits = match $order {
                        ByteOrder::Little => $ty::from_le_bytes(*n),
                        ByteOrder::Big => $ty::from_be_bytes(*n),
                    };
                    count(classify(bits.into(), $exponent, $fraction), before + i as u64, $found);
                }
            }
            before += numbers.len() as u64;
        }
        $found.scanned += before;
    }};
}

fn count(class: Class, block: u64, found: &mut DataScan) {
    match class {
        Class::Finite => return,
        Class::Infinite => found.infinite += 1,
        Class::Nan => found.nan += 1,
    }
    found.first.get_or_insert(block);
}

fn scan_field(info: &TypeInfo, field: &BlockField, order: ByteOrder, bytes: &[u8], found: &mut DataScan) {
    if info.block_bytes as usize == field.kind.width() {
        match field.kind {
            FieldKind::F16 => plain!(bytes order found u16 2 0x7c00 0x3ff),
            FieldKind::BF16 => plain!(bytes order found u16 2 0x7f80 0x7f),
            FieldKind::F32 => plain!(bytes order found u32 4 0x7f80_0000 0x7f_ffff),
            FieldKind::F64 => plain!(bytes order found u64 8 0x7ff0_0000_0000_0000 0xf_ffff_ffff_ffff),
            _ => {}
        }
        return;
    }
    let (start, width) = (usize::from(field.offset), field.kind.width());
    let end = start + width * usize::from(field.count);
    for (block, raw) in (0u64..).zip(bytes.chunks_exact(info.block_bytes as usize)) {
        let fields = raw.get(start..end).unwrap_or_default();
        match field.kind {
            FieldKind::F16 => each(fields, block, found, |n: [u8; 2]| classify(half(n, order), 0x7c00, 0x3ff)),
            FieldKind::F32 => each(fields, block, found, |n: [u8; 4]| {
                let bits = if order == ByteOrder::Little { u32::from_le_bytes(n) } else { u32::from_be_bytes(n) };
                classify(bits.into(), 0x7f80_0000, 0x7f_ffff)
            }),
            // Both small formats have no infinity and a single NaN: OCP MX specification, E8M0; NVFP4's UE4M3.
            FieldKind::E8M0 => each(fields, block, found, |[b]| if b == 255 { Class::Nan } else { Class::Finite }),
            FieldKind::UE4M3 => {
                each(fields, block, found, |[b]| if b & 127 == 127 { Class::Nan } else { Class::Finite });
            }
            FieldKind::SplitF16 => {
                // Word i holds bits 4i to 4i+3 of the scale in its top nibble (`iq1m_scale_t` in ggml-common.h).
                let words = fields.as_chunks::<2>().0.iter().enumerate();
                let bits = words.fold(0, |bits, (i, n)| bits | (half(*n, order) >> 12) << (4 * i));
                found.scanned += 1;
                count(classify(bits, 0x7c00, 0x3ff), block, found);
            }
            FieldKind::BF16 | FieldKind::F64 | FieldKind::U16 | FieldKind::U32 | FieldKind::U64 => return,
        }
    }
}

fn half(raw: [u8; 2], order: ByteOrder) -> u64 {
    u64::from(if order == ByteOrder::Little { u16::from_le_bytes(raw) } else { u16::from_be_bytes(raw) })
}

fn each<const N: usize>(fields: &[u8], block: u64, found: &mut DataScan, class: impl Fn([u8; N]) -> Class) {
    for number in fields.as_chunks::<N>().0 {
        found.scanned += 1;
        count(class(*number), block, found);
    }
}

/// Why tensor data cannot be scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotScannable {
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

impl fmt::Display for NotScannable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotScannable::UnknownType(ty) => write!(f, "{}", SizeError::UnknownType(*ty)),
            NotScannable::Interleaved(ty) => {
                write!(f, "the block layout of the removed type {ty} is not supported; convert the tensor first")
            }
            NotScannable::PartialBlock { bytes, block_bytes } => {
                write!(f, "{bytes} bytes are not a whole number of blocks of {block_bytes} bytes")
            }
        }
    }
}

impl core::error::Error for NotScannable {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swap::swap_blocks;
    use crate::types::TYPES;
    use std::vec;

    /// Three blocks of zeros, with `bits` of `width` bytes in the second one at `offset`.
    fn scan(ty: GgmlType, offset: usize, width: usize, bits: u64) -> DataScan {
        let block = ty.info().unwrap().block_bytes as usize;
        let mut bytes = vec![0; 3 * block];
        bytes[block + offset..][..width].copy_from_slice(&bits.to_le_bytes()[..width]);
        let little = scan_data(ty, ByteOrder::Little, &bytes, 100).unwrap();
        swap_blocks(ty, &mut bytes).unwrap();
        assert_eq!(scan_data(ty, ByteOrder::Big, &bytes, 100), Ok(little), "{ty}");
        little
    }

    #[test]
    fn numbers_that_are_not_finite() {
        // Type, offset in the block, width, bits, NaNs, infinities.
        let cases: &[(GgmlType, usize, usize, u64, u64, u64)] = &[
            (GgmlType::F32, 0, 4, 0x7f7f_ffff, 0, 0),
            (GgmlType::F32, 0, 4, 0x7f80_0000, 0, 1),
            (GgmlType::F32, 0, 4, 0xff80_0000, 0, 1),
            (GgmlType::F32, 0, 4, 0xffc0_0001, 1, 0),
            (GgmlType::F16, 0, 2, 0x7bff, 0, 0),
            (GgmlType::F16, 0, 2, 0xfc00, 0, 1),
            (GgmlType::F16, 0, 2, 0x7e00, 1, 0),
            (GgmlType::BF16, 0, 2, 0x7f7f, 0, 0),
            (GgmlType::BF16, 0, 2, 0xff80, 0, 1),
            (GgmlType::BF16, 0, 2, 0x7f81, 1, 0),
            (GgmlType::F64, 0, 8, 0x7fef_ffff_ffff_ffff, 0, 0),
            (GgmlType::F64, 0, 8, 0x7ff0_0000_0000_0000, 0, 1),
            (GgmlType::F64, 0, 8, 0x7ff0_0000_0000_0001, 1, 0),
            (GgmlType::Q4_0, 0, 2, 0x7c00, 0, 1),
            (GgmlType::Q4_0, 2, 2, 0x7c00, 0, 0),
            (GgmlType::Q4_1, 2, 2, 0x7c01, 1, 0),
            (GgmlType::Q4_K, 2, 2, 0xfc00, 0, 1),
            (GgmlType::Q6_K, 208, 2, 0x7c00, 0, 1),
            (GgmlType::Q8_K, 0, 4, 0x7f80_0000, 0, 1),
            (GgmlType::Q8_K, 260, 2, 0x7c00, 0, 0),
            (GgmlType::IQ1_M, 48, 8, 0x7000_c000_0000_0000, 0, 1),
            (GgmlType::IQ1_M, 48, 8, 0x7000_c000_0000_1000, 1, 0),
            (GgmlType::IQ1_M, 48, 8, 0x0fff_0fff_0fff_0fff, 0, 0),
            (GgmlType::MXFP4, 0, 1, 254, 0, 0),
            (GgmlType::MXFP4, 0, 1, 255, 1, 0),
            (GgmlType::NVFP4, 3, 1, 127, 1, 0),
            (GgmlType::NVFP4, 3, 1, 126, 0, 0),
            (GgmlType::I32, 0, 4, 0x7f80_0000, 0, 0),
        ];
        for &(ty, offset, width, bits, nan, infinite) in cases {
            let found = scan(ty, offset, width, bits);
            assert_eq!((found.nan, found.infinite), (nan, infinite), "{ty} {bits:x}");
            assert_eq!(found.first, (nan + infinite > 0).then_some(101), "{ty} {bits:x}");
            assert_eq!(found.is_clean(), nan + infinite == 0);
        }
    }

    #[test]
    fn far_into_the_data() {
        let mut bytes = vec![0u8; 40_000];
        bytes[30_002..30_004].copy_from_slice(&0x7c00u16.to_le_bytes());
        bytes[39_998..].copy_from_slice(&0x7c01u16.to_le_bytes());
        let found = scan_data(GgmlType::F16, ByteOrder::Little, &bytes, 0).unwrap();
        assert_eq!(found, DataScan { scanned: 20_000, nan: 1, infinite: 1, first: Some(15_001) });
    }

    #[test]
    fn every_type_is_scanned_or_refused() {
        for t in TYPES {
            let ty = GgmlType(t.id);
            match scan_data(ty, ByteOrder::Little, &vec![0; t.block_bytes as usize * 2], 0) {
                Ok(found) => assert!(found.is_clean(), "{ty}"),
                Err(e) => assert_eq!(e, NotScannable::Interleaved(ty)),
            }
        }
        assert!(matches!(scan_data(GgmlType(99), ByteOrder::Little, &[], 0), Err(NotScannable::UnknownType(_))));
        assert!(matches!(
            scan_data(GgmlType::F32, ByteOrder::Little, &[0; 5], 0),
            Err(NotScannable::PartialBlock { .. })
        ));
    }
}
