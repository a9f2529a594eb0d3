//! Tensor types: a table with one row each, from which every size in the crate is derived.
//!
//! The ids, block lengths and block sizes are those of `ggml.h` (`enum ggml_type`) and the block structs of `ggml-common.h`. [`GgmlType`]
//! is an open set: an unknown id is preserved by reading, listing and copying, and displayed as `type 99`.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use crate::spelling::edits;

/// A tensor's element type, as its number in the file.
///
/// ```
/// use gguf_format::GgmlType;
///
/// let ty: GgmlType = "Q4_K".parse()?;
/// assert_eq!(ty, GgmlType::Q4_K);
/// assert_eq!(ty.to_string(), "q4_K");
/// assert_eq!(ty.tensor_bytes([4096, 2]), Ok(2 * 16 * 144));
///
/// let wrong = "q4k".parse::<GgmlType>().unwrap_err();
/// assert_eq!(wrong.nearest, Some(GgmlType::Q4_K));
/// assert_eq!(GgmlType(99).to_string(), "type 99");
/// # Ok::<(), gguf_format::UnknownTypeName>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GgmlType(pub u32);

/// A row of the table of tensor types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeInfo {
    /// The id in the file.
    pub id: u32,
    /// The name in ggml, as returned by `ggml_type_name`: `f32`, `q4_K`, `iq2_xxs`.
    pub name: &'static str,
    /// Elements in one block; rows are a whole number of blocks.
    pub block_len: u32,
    /// Bytes of one block. An element takes `8 * block_bytes / block_len` bits, a fraction for most quantized types.
    pub block_bytes: u32,
    /// Whether the type existed and the current ggml rejects it.
    pub removed: bool,
    /// The fields of a block that are wider than a byte or are scales: they are swapped when the byte order changes, and scanned for NaN.
    pub fields: &'static [BlockField],
}

impl TypeInfo {
    /// Whether a block contains quantized levels (as opposed to plain numbers).
    pub const fn is_quantized(&self) -> bool {
        self.block_len > 1
    }
}

/// A run of equal fields inside a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockField {
    /// The number format of each field.
    pub kind: FieldKind,
    /// Byte offset of the first field in the block.
    pub offset: u16,
    /// Number of consecutive fields.
    pub count: u16,
}

/// The number format of a block field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldKind {
    /// IEEE half precision.
    F16,
    /// bfloat16.
    BF16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// A 16-bit integer or bit field.
    U16,
    /// A 32-bit integer or bit field.
    U32,
    /// A 64-bit integer.
    U64,
    /// An 8-bit exponent (OCP microscaling E8M0); 255 is NaN.
    E8M0,
    /// An unsigned 8-bit float with 4 exponent bits (UE4M3); 127 is NaN.
    UE4M3,
    /// Four 16-bit words whose top nibbles together are one half-precision scale (IQ1_M).
    SplitF16,
}

impl FieldKind {
    /// Width in bytes of the unit that a change of byte order reverses.
    pub const fn width(self) -> usize {
        match self {
            FieldKind::E8M0 | FieldKind::UE4M3 => 1,
            FieldKind::F16 | FieldKind::BF16 | FieldKind::U16 | FieldKind::SplitF16 => 2,
            FieldKind::F32 | FieldKind::U32 => 4,
            FieldKind::F64 | FieldKind::U64 => 8,
        }
    }
}

macro_rules! types {
    ($($id:literal $konst:ident $name:literal $len:literal $bytes:literal $status:ident [$($kind:ident $off:literal * $n:literal),*])*) => {
        impl GgmlType {
            $(#[doc = concat!("`", $name, "`: blocks of ", $len, " elements in ", $bytes, " bytes.")]
            #[allow(non_upper_case_globals, reason = "ggml's own spelling")]
            pub const $konst: GgmlType = GgmlType($id);)*
        }
        /// Every type that ggml has or had, in the order of the ids.
        pub const TYPES: &[TypeInfo] = &[$(TypeInfo {
            id: $id, name: $name, block_len: $len, block_bytes: $bytes, removed: types!(@ $status),
            fields: &[$(BlockField { kind: FieldKind::$kind, offset: $off, count: $n }),*],
        }),*];
    };
    (@ removed) => { true };
    (@ current) => { false };
}

types! {
    0  F32      "f32"      1   4   current [F32 0*1]
    1  F16      "f16"      1   2   current [F16 0*1]
    2  Q4_0     "q4_0"     32  18  current [F16 0*1]
    3  Q4_1     "q4_1"     32  20  current [F16 0*2]
    4  Q4_2     "q4_2"     16  10  removed [F16 0*1]
    5  Q4_3     "q4_3"     16  12  removed [F16 0*2]
    6  Q5_0     "q5_0"     32  22  current [F16 0*1, U32 2*1]
    7  Q5_1     "q5_1"     32  24  current [F16 0*2, U32 4*1]
    8  Q8_0     "q8_0"     32  34  current [F16 0*1]
    9  Q8_1     "q8_1"     32  36  current [F16 0*2]
    10 Q2_K     "q2_K"     256 84  current [F16 80*2]
    11 Q3_K     "q3_K"     256 110 current [F16 108*1]
    12 Q4_K     "q4_K"     256 144 current [F16 0*2]
    13 Q5_K     "q5_K"     256 176 current [F16 0*2]
    14 Q6_K     "q6_K"     256 210 current [F16 208*1]
    15 Q8_K     "q8_K"     256 292 current [F32 0*1, U16 260*16]
    16 IQ2_XXS  "iq2_xxs"  256 66  current [F16 0*1, U16 2*32]
    17 IQ2_XS   "iq2_xs"   256 74  current [F16 0*1, U16 2*32]
    18 IQ3_XXS  "iq3_xxs"  256 98  current [F16 0*1, U32 66*8]
    19 IQ1_S    "iq1_s"    256 50  current [F16 0*1, U16 34*8]
    20 IQ4_NL   "iq4_nl"   32  18  current [F16 0*1]
    21 IQ3_S    "iq3_s"    256 110 current [F16 0*1]
    22 IQ2_S    "iq2_s"    256 82  current [F16 0*1]
    23 IQ4_XS   "iq4_xs"   256 136 current [F16 0*1, U16 2*1]
    24 I8       "i8"       1   1   current []
    25 I16      "i16"      1   2   current [U16 0*1]
    26 I32      "i32"      1   4   current [U32 0*1]
    27 I64      "i64"      1   8   current [U64 0*1]
    28 F64      "f64"      1   8   current [F64 0*1]
    29 IQ1_M    "iq1_m"    256 56  current [SplitF16 48*4]
    30 BF16     "bf16"     1   2   current [BF16 0*1]
    31 Q4_0_4_4 "q4_0_4_4" 32  18  removed []
    32 Q4_0_4_8 "q4_0_4_8" 32  18  removed []
    33 Q4_0_8_8 "q4_0_8_8" 32  18  removed []
    34 TQ1_0    "tq1_0"    256 54  current [F16 52*1]
    35 TQ2_0    "tq2_0"    256 66  current [F16 64*1]
    36 IQ4_NL_4_4 "iq4_nl_4_4" 32 18 removed []
    37 IQ4_NL_4_8 "iq4_nl_4_8" 32 18 removed []
    38 IQ4_NL_8_8 "iq4_nl_8_8" 32 18 removed []
    39 MXFP4    "mxfp4"    32  17  current [E8M0 0*1]
    40 NVFP4    "nvfp4"    64  36  current [UE4M3 0*4]
    41 Q1_0     "q1_0"     128 18  current [F16 0*1]
    42 Q2_0     "q2_0"     64  18  current [F16 0*1]
}

impl GgmlType {
    /// The table's row for this id; `None` for an id that ggml never had.
    pub fn info(self) -> Option<&'static TypeInfo> {
        let row = TYPES.get(usize::try_from(self.0).ok()?)?;
        (row.id == self.0).then_some(row)
    }

    /// The type with that name, ignoring case.
    pub fn from_name(name: &str) -> Option<GgmlType> {
        TYPES.iter().find(|t| t.name.eq_ignore_ascii_case(name)).map(|t| GgmlType(t.id))
    }

    /// Whether a block of this type contains quantized levels; `false` for unknown ids.
    pub fn is_quantized(self) -> bool {
        self.info().is_some_and(TypeInfo::is_quantized)
    }

    /// Size of a tensor of this type and shape, without padding: the only size function of the crate.
    ///
    /// `shape[0]` is the contiguous dimension. A tensor without dimensions is a scalar.
    ///
    /// # Errors
    /// [`SizeError`] if the type is unknown, `shape[0]` is not a whole number of blocks, or the product exceeds the signed 64-bit range
    /// that ggml can address (`gguf_init_from_reader` in `gguf.cpp`).
    pub fn tensor_bytes(self, shape: impl IntoIterator<Item = u64>) -> Result<u64, SizeError> {
        let info = self.info().ok_or(SizeError::UnknownType(self))?;
        let mut shape = shape.into_iter();
        let row = shape.next().unwrap_or(1);
        if !row.is_multiple_of(u64::from(info.block_len)) {
            return Err(SizeError::PartialBlock { row, block_len: info.block_len });
        }
        let n = n_elements(core::iter::once(row).chain(shape)).ok_or(SizeError::Overflow)?;
        (n / u64::from(info.block_len))
            .checked_mul(u64::from(info.block_bytes))
            .filter(|&b| i64::try_from(b).is_ok())
            .ok_or(SizeError::Overflow)
    }
}

/// The number of elements of a shape; `None` if it exceeds the signed 64-bit range. It is zero if any dimension is, but the other
/// dimensions must still be in range: strides are computed from them, and the order does not matter.
pub fn n_elements(shape: impl IntoIterator<Item = u64>) -> Option<u64> {
    let (mut n, mut is_empty) = (1u64, false);
    for d in shape {
        is_empty |= d == 0;
        n = n.checked_mul(d.max(1)).filter(|&n| i64::try_from(n).is_ok())?;
    }
    Some(if is_empty { 0 } else { n })
}

/// Why a tensor has no valid size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SizeError {
    /// The type is not in the table.
    UnknownType(GgmlType),
    /// The contiguous dimension is not a multiple of the type's block length.
    PartialBlock {
        /// The contiguous dimension.
        row: u64,
        /// The block length.
        block_len: u32,
    },
    /// The number of elements or of bytes exceeds a signed 64-bit integer.
    Overflow,
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeError::UnknownType(t) => write!(f, "{t} has no known size"),
            SizeError::PartialBlock { row, block_len } => {
                write!(f, "a row of {row} elements is not a whole number of blocks of {block_len}")
            }
            SizeError::Overflow => f.write_str("the size does not fit 63 bits"),
        }
    }
}

impl core::error::Error for SizeError {}

/// An unknown name of a tensor type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownTypeName {
    /// The name.
    pub name: String,
    /// The type with the most similar name, if any.
    pub nearest: Option<GgmlType>,
}

impl fmt::Display for UnknownTypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a tensor type", self.name)?;
        self.nearest.map_or(Ok(()), |nearest| write!(f, "; the nearest is {nearest}"))
    }
}

impl core::error::Error for UnknownTypeName {}

/// Parses ggml's name of a type, ignoring case.
impl FromStr for GgmlType {
    type Err = UnknownTypeName;

    fn from_str(name: &str) -> Result<GgmlType, UnknownTypeName> {
        GgmlType::from_name(name).ok_or_else(|| {
            // One letter in three may differ, and current types come first.
            let distance = |t: &TypeInfo| Some((edits(t.name.as_bytes(), name.as_bytes())?, t.removed));
            let close = TYPES.iter().filter_map(|t| Some((distance(t)?, t)));
            let close = close.filter(|((edits, _), t)| usize::from(*edits) * 3 <= t.name.len().min(name.len()));
            let nearest = close.min_by_key(|(distance, _)| *distance).map(|(_, t)| GgmlType(t.id));
            UnknownTypeName { name: name.into(), nearest }
        })
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.info() {
            Some(t) => f.pad(t.name),
            None => write!(f, "type {}", self.0),
        }
    }
}

impl fmt::Debug for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_table_is_dense_and_its_fields_lie_inside_the_block() {
        for (i, t) in TYPES.iter().enumerate() {
            assert_eq!(t.id as usize, i);
            for f in t.fields {
                let end = usize::from(f.offset) + usize::from(f.count) * f.kind.width();
                assert!(end <= t.block_bytes as usize, "{} {f:?}", t.name);
            }
        }
        assert_eq!(TYPES.len(), 43);
    }

    #[test]
    fn sizes() {
        assert_eq!(GgmlType::F32.tensor_bytes([]), Ok(4));
        assert_eq!(GgmlType::Q4_K.tensor_bytes([512, 3]), Ok(6 * 144));
        assert_eq!(GgmlType::Q4_K.tensor_bytes([0, 3]), Ok(0));
        assert_eq!(GgmlType::Q4_0.tensor_bytes([33]), Err(SizeError::PartialBlock { row: 33, block_len: 32 }));
        assert_eq!(GgmlType(99).tensor_bytes([1]), Err(SizeError::UnknownType(GgmlType(99))));
        assert_eq!(GgmlType::F32.tensor_bytes([1 << 62]), Err(SizeError::Overflow));
        assert_eq!(GgmlType::I8.tensor_bytes([1 << 32, 1 << 31]), Err(SizeError::Overflow));
        assert_eq!(GgmlType::I8.tensor_bytes([i64::MAX as u64]), Ok(i64::MAX as u64));
    }

    #[test]
    fn names_in_both_directions() {
        for t in TYPES {
            assert_eq!(GgmlType::from_name(t.name), Some(GgmlType(t.id)));
        }
        assert_eq!(GgmlType::from_name("Q4_K"), Some(GgmlType::Q4_K));
        let nearest = |name: &str| name.parse::<GgmlType>().unwrap_err().nearest;
        assert_eq!(nearest("Q4_KM"), Some(GgmlType::Q4_K));
        assert_eq!(nearest("fp16"), Some(GgmlType::F16));
        assert_eq!(nearest("iq2_xx"), Some(GgmlType::IQ2_XXS));
        assert_eq!(nearest("safetensors"), None);
        assert_eq!(nearest(""), None);
        assert_eq!(
            "q4k".parse::<GgmlType>().unwrap_err().to_string(),
            "\"q4k\" is not a tensor type; the nearest is q4_K"
        );
        assert_eq!(alloc::format!("{} {}", GgmlType(99), GgmlType(u32::MAX)), "type 99 type 4294967295");
    }
}
