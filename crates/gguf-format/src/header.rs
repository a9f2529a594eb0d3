//! The header of a file, which determines version, byte order and widths.

use core::fmt;

/// The four bytes every GGUF file starts with, in both byte orders.
pub const MAGIC: [u8; 4] = *b"GGUF";

/// The magic in reverse, from writers that stored it as a big-endian number. Accepted, but only written to copy a file.
/// written by choice.
pub const REVERSED_MAGIC: [u8; 4] = *b"FUGG";

/// The default alignment (`GGUF_DEFAULT_ALIGNMENT` in `gguf.h`).
pub const DEFAULT_ALIGNMENT: u64 = 32;

/// The fixed alignment of the draft of version 1.
pub const DRAFT_ALIGNMENT: u64 = 64;

/// The key that sets another alignment.
pub const ALIGNMENT_KEY: &str = "general.alignment";

/// `pos` rounded up to a multiple of `alignment`; `None` if it exceeds 64 bits or the alignment is 0.
pub fn align_up(pos: u64, alignment: u64) -> Option<u64> {
    match pos.checked_rem(alignment)? {
        0 => Some(pos),
        rest => pos.checked_add(alignment - rest),
    }
}

/// Order of the bytes in every number of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ByteOrder {
    /// Least significant byte first; the usual one.
    #[default]
    Little,
    /// Most significant byte first, for big-endian hosts (version 3 made it official).
    Big,
}

impl fmt::Display for ByteOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ByteOrder::Little => "little-endian",
            ByteOrder::Big => "big-endian",
        })
    }
}

/// The format version. The draft and the released version 1 share the number 1 and are distinguished by their layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Version {
    /// The draft of version 1 of mid 2023: values carry their length, arrays are length then type, tensor offsets are
    /// absolute, the alignment is 64.
    Draft,
    /// Version 1 as released in August 2023: lengths, counts and dimensions are 32 bits wide.
    V1,
    /// Lengths, counts and dimensions are 64 bits wide.
    V2,
    /// As version 2, and big-endian files are allowed.
    #[default]
    V3,
}

impl Version {
    /// The number in the file.
    pub const fn number(self) -> u32 {
        match self {
            Version::Draft | Version::V1 => 1,
            Version::V2 => 2,
            Version::V3 => 3,
        }
    }

    /// Whether counts, lengths and dimensions are 64 bits wide (32 before version 2).
    pub const fn is_wide(self) -> bool {
        matches!(self, Version::V2 | Version::V3)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Version::Draft => f.write_str("1 (draft)"),
            v => write!(f, "{}", v.number()),
        }
    }
}

/// The properties of a file's encoding, independent of its content. Heads with the same dialect encode values to the same bytes; reading
/// and writing with the same dialect is lossless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct Dialect {
    /// Format version.
    pub version: Version,
    /// Byte order of every number.
    pub order: ByteOrder,
    /// Whether every string counts a trailing NUL, like ggml's writer from 2023-08-21 to 2023-08-27.
    pub nul_strings: bool,
    /// Whether the magic is reversed.
    pub reversed_magic: bool,
    /// Choices that the draft leaves open; all `false` for released versions.
    pub draft: DraftVersionReading,
}

/// The choices that the draft leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DraftVersionReading {
    /// Whether `value_len` includes the length fields inside strings and arrays.
    pub value_len_is_inclusive: bool,
    /// Whether arrays store the type before the length, as in the released versions.
    pub array_type_first: bool,
    /// Whether a header that ends on the alignment is followed by a full unit of padding.
    pub full_padding: bool,
}

impl Dialect {
    /// A little-endian file of the given version.
    pub const fn new(version: Version) -> Dialect {
        Dialect {
            version,
            order: ByteOrder::Little,
            nul_strings: false,
            reversed_magic: false,
            draft: DraftVersionReading { value_len_is_inclusive: false, array_type_first: false, full_padding: false },
        }
    }

    /// The same dialect in the given byte order.
    pub const fn with_order(mut self, order: ByteOrder) -> Dialect {
        self.order = order;
        self
    }

    /// Bytes of a count or a length: 8, or 4 before version 2.
    pub const fn len_bytes(self) -> u64 {
        if self.version.is_wide() { 8 } else { 4 }
    }

    pub(crate) const fn is_draft(self) -> bool {
        matches!(self.version, Version::Draft)
    }

    pub(crate) const fn array_type_first(self) -> bool {
        !self.is_draft() || self.draft.array_type_first
    }

    /// Bytes from the start of the file to the first key.
    pub(crate) const fn header_bytes(self) -> u64 {
        8 + 2 * self.len_bytes()
    }

    /// The minimum size of a key-value pair: an empty key, a type and one byte.
    pub(crate) const fn min_kv_bytes(self) -> u64 {
        self.len_bytes() + 4 + 1 + if self.is_draft() { 4 } else { 0 }
    }

    /// The minimum size of a tensor info: an empty name and no dimensions.
    pub(crate) const fn min_tensor_bytes(self) -> u64 {
        self.len_bytes() + 4 + 4 + 8 + if self.is_draft() { 4 } else { 0 }
    }
}
