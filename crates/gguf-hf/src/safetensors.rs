//! The header of a safetensors file: its length in eight bytes, then JSON with the location of each tensor.
//!
//! Files are untrusted: the header length is limited before anything is read, duplicate keys are rejected (parsers differ in which one they
//! use), sizes are computed with overflow checks, and the tensors must cover the data exactly, without gaps, overlaps or trailing bytes.
//! The rules are those of the format's description (`README.md` of the safetensors repository).

use gguf_format::sort::CompactSort as _;
use std::fmt;

use crate::dtype::Dtype;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

/// The maximum header length, which the format also defines.
pub const MAX_HEADER: u64 = 100_000_000;

/// The maximum number of tensors in a file, and of entries in its metadata or in an index. The largest checkpoints have some hundred
/// thousand.
pub const MAX_TENSORS: usize = 1_000_000;

/// The maximum number of dimensions of a tensor, as in PyTorch.
pub const MAX_DIMS: usize = 64;

/// The size of the length field before the header.
pub const PREFIX: u64 = 8;

/// A tensor of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its number format.
    pub dtype: Dtype,
    /// Its dimensions; the last is contiguous.
    pub shape: Vec<u64>,
    /// The offset of its data from the start of the data section.
    pub offset: u64,
    /// The size of its data in bytes.
    pub bytes: u64,
}

/// Reads the header length from the first eight bytes of a file of `file_bytes` bytes.
///
/// # Errors
/// If the header cannot have that length; also if the file is of a kind often found in place of a checkpoint.
pub fn header_bytes(prefix: [u8; 8], file_bytes: u64) -> Result<u64, HeaderError> {
    let found = u64::from_le_bytes(prefix);
    let follow = file_bytes.saturating_sub(PREFIX);
    if prefix == *b"version " {
        Err(HeaderError::LfsPointer)
    } else if found > MAX_HEADER {
        Err(HeaderError::TooLong { found })
    } else if found > follow {
        Err(HeaderError::Truncated { found, follow })
    } else {
        Ok(found)
    }
}

/// Parses the header of a file whose data section has `data_bytes` bytes. The tensors are returned in name order.
///
/// ```
/// use gguf_hf::safetensors::{HeaderError, parse_header};
///
/// let json = br#"{"norm.weight":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}"#;
/// let entries = parse_header(json, 4)?;
/// assert_eq!((entries[0].name.as_str(), entries[0].bytes), ("norm.weight", 4));
/// // The tensors must cover the data exactly.
/// assert!(matches!(parse_header(json, 6), Err(HeaderError::Trailing { bytes: 2 })));
/// # Ok::<(), HeaderError>(())
/// ```
///
/// # Errors
/// [`HeaderError`]; see the variants.
pub fn parse_header(json: &[u8], data_bytes: u64) -> Result<Vec<Entry>, HeaderError> {
    if json.first() != Some(&b'{') {
        return Err(HeaderError::NotJson);
    }
    let Header(mut raw) = serde_json::from_slice(json).map_err(HeaderError::Json)?;
    raw.compact_sort_by_key(|(_, entry)| entry.data_offsets);
    let mut end_before = 0;
    let mut entries = Vec::with_capacity(raw.len());
    for (name, RawEntry { dtype, shape, data_offsets: (begin, end) }) in raw {
        let dtype = match dtype.0 {
            Ok(dtype) => dtype,
            Err(dtype) => return Err(HeaderError::UnknownDtype { tensor: name, dtype: dtype.into() }),
        };
        let bytes = dtype.tensor_bytes(&shape).filter(|b| begin.checked_add(*b) == Some(end));
        let Some(bytes) = bytes else {
            return Err(HeaderError::Size { tensor: name, dtype, shape, begin, end });
        };
        if begin != end_before {
            return Err(HeaderError::Cover { tensor: name, begin, end_before });
        }
        if end > data_bytes {
            return Err(HeaderError::OutOfFile { tensor: name, end, data_bytes });
        }
        end_before = end;
        entries.push(Entry { name, dtype, shape, offset: begin, bytes });
    }
    if end_before != data_bytes {
        return Err(HeaderError::Trailing { bytes: data_bytes - end_before });
    }
    entries.compact_sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

#[derive(Deserialize)]
struct RawEntry {
    dtype: KnownDtype,
    #[serde(deserialize_with = "crate::json::list::<MAX_DIMS, _, _>")]
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// A number format, or an unknown name.
struct KnownDtype(Result<Dtype, Box<str>>);

impl<'de> Deserialize<'de> for KnownDtype {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KnownDtype, D::Error> {
        let name = String::deserialize(deserializer)?;
        Ok(KnownDtype(Dtype::from_name(&name).ok_or_else(|| name.into())))
    }
}

/// The header's object: every key names a tensor, except for `__metadata__`.
struct Header(Vec<(String, RawEntry)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Header, D::Error> {
        struct HeaderVisitor;
        impl<'de> Visitor<'de> for HeaderVisitor {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a tensor under each name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let (mut has_metadata, mut entries) = (false, Vec::new());
                while let Some(name) = map.next_key::<String>()? {
                    if name == METADATA {
                        if std::mem::replace(&mut has_metadata, true) {
                            return Err(twice(&name));
                        }
                        map.next_value::<UniqueMap>()?;
                    } else {
                        refuse_more(entries.len())?;
                        entries.push((name, map.next_value()?));
                    }
                }
                refuse_duplicates(&entries)?;
                Ok(Header(entries))
            }
        }
        deserializer.deserialize_map(HeaderVisitor)
    }
}

/// The key of the header's object that is not a tensor name.
const METADATA: &str = "__metadata__";

fn twice<E: serde::de::Error>(name: &str) -> E {
    E::custom(format_args!("duplicate name {name:?}"))
}

fn refuse_more<E: serde::de::Error>(n: usize) -> Result<(), E> {
    if n < MAX_TENSORS { Ok(()) } else { Err(E::custom(format_args!("more than {MAX_TENSORS} names"))) }
}

fn refuse_duplicates<T, E: serde::de::Error>(pairs: &[(String, T)]) -> Result<(), E> {
    let mut names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair.first() == pair.last()) {
        Some(pair) => Err(twice(pair.first().copied().unwrap_or_default())),
        None => Ok(()),
    }
}

/// An object of strings without duplicate keys.
pub(super) struct UniqueMap(pub(super) Vec<(String, String)>);

impl<'de> Deserialize<'de> for UniqueMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UniqueMap, D::Error> {
        struct UniqueVisitor;
        impl<'de> Visitor<'de> for UniqueVisitor {
            type Value = UniqueMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a string under each name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UniqueMap, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry::<String, String>()? {
                    refuse_more(pairs.len())?;
                    pairs.push(pair);
                }
                refuse_duplicates(&pairs)?;
                Ok(UniqueMap(pairs))
            }
        }
        deserializer.deserialize_map(UniqueVisitor)
    }
}

/// An error in a safetensors file.
#[derive(Debug)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are the numbers and names of the message")]
pub enum HeaderError {
    /// The file is shorter than the eight bytes of the length.
    TooShort { file_bytes: u64 },
    /// The file is a git-lfs pointer file.
    LfsPointer,
    /// The header exceeds the format's maximum length.
    TooLong { found: u64 },
    /// The header is longer than the file.
    Truncated { found: u64, follow: u64 },
    /// The header does not start with a JSON object.
    NotJson,
    /// The header is not JSON of the expected form.
    Json(serde_json::Error),
    /// A number format that safetensors does not define.
    UnknownDtype { tensor: String, dtype: String },
    /// The offsets contradict the number format and the shape.
    Size { tensor: String, dtype: Dtype, shape: Vec<u64>, begin: u64, end: u64 },
    /// There is a gap before a tensor, or it overlaps the previous one.
    Cover { tensor: String, begin: u64, end_before: u64 },
    /// A tensor extends beyond the end of the file.
    OutOfFile { tensor: String, end: u64, data_bytes: u64 },
    /// There are bytes after the last tensor.
    Trailing { bytes: u64 },
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderError::TooShort { file_bytes } => {
                write!(f, "not a safetensors file: {file_bytes} bytes, and the length of the head alone takes {PREFIX}")
            }
            HeaderError::LfsPointer => {
                f.write_str("a git-lfs pointer, not the file itself; fetch it with git lfs pull")
            }
            HeaderError::TooLong { found } => {
                write!(
                    f,
                    "not a safetensors file: its head would be {found} bytes long, at most {MAX_HEADER} are allowed"
                )
            }
            HeaderError::Truncated { found, follow } => {
                write!(
                    f,
                    "the head is {found} bytes long, but only {follow} follow; the file is truncated or not a safetensors file"
                )
            }
            HeaderError::NotJson => f.write_str("the head does not start with {, so this is not a safetensors file"),
            HeaderError::Json(e) => write!(f, "the head cannot be read: {e}"),
            HeaderError::UnknownDtype { tensor, dtype } => {
                write!(f, "the tensor {tensor:?} has the unknown format {dtype:?}")
            }
            HeaderError::Size { tensor, dtype, shape, begin, end } => {
                write!(f, "the tensor {tensor:?} of format {dtype} and shape {shape:?} ")?;
                match dtype.tensor_bytes(shape) {
                    Some(bytes) => write!(f, "takes {bytes} bytes, but its offsets are {begin} to {end}"),
                    None => f.write_str("has no size in whole bytes below 2^63"),
                }
            }
            HeaderError::Cover { tensor, begin, end_before } if begin > end_before => {
                write!(f, "the tensor {tensor:?} starts at {begin}, and nothing covers the bytes from {end_before} on")
            }
            HeaderError::Cover { tensor, begin, end_before } => {
                write!(f, "the tensor {tensor:?} starts at {begin}, inside the one before, which ends at {end_before}")
            }
            HeaderError::OutOfFile { tensor, end, data_bytes } => write!(
                f,
                "the tensor {tensor:?} ends at {end}, but the file has only {data_bytes} bytes of data; it is truncated; fetch it again"
            ),
            HeaderError::Trailing { bytes } => write!(f, "{bytes} bytes after the last tensor belong to no tensor"),
        }
    }
}

impl std::error::Error for HeaderError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            HeaderError::Json(e) => e.source(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = r#""a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#;

    #[test]
    fn tensors_come_in_the_order_of_their_names() {
        let json = r#"{"__metadata__":{"format":"pt"},"b.10":{"dtype":"BF16","shape":[1,3],"data_offsets":[8,14]},
            "b.2":{"dtype":"U8","shape":[],"data_offsets":[14,15]},"z":{"dtype":"F16","shape":[0],"data_offsets":[8,8]},
            "a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}   "#;
        let entries = parse_header(json.as_bytes(), 15).unwrap();
        let rows: Vec<_> = entries.iter().map(|e| (e.name.as_str(), e.dtype.name, e.offset, e.bytes)).collect();
        assert_eq!(rows, [("a", "F32", 0, 8), ("b.10", "BF16", 8, 6), ("b.2", "U8", 14, 1), ("z", "F16", 8, 0)]);
        assert_eq!(parse_header(b"{}", 0).unwrap(), []);
    }

    #[test]
    fn hostile_lengths() {
        let cases: &[(u64, u64, &str)] = &[
            (u64::MAX, 100, "18446744073709551615 bytes long, at most"),
            (MAX_HEADER + 1, u64::MAX, "at most 100000000"),
            (1 << 63, 1 << 20, "at most"),
            (93, 100, "93 bytes long, but only 92 follow"),
            (1, 8, "only 0 follow"),
            (u64::from_le_bytes(*b"version "), 130, "git lfs pull"),
        ];
        for (found, file_bytes, expected) in cases {
            let error = header_bytes(found.to_le_bytes(), *file_bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{found}: {error}");
        }
        assert_eq!(header_bytes(92u64.to_le_bytes(), 100).unwrap(), 92);
    }

    #[test]
    fn hostile_heads() {
        let b = |dtype: &str, shape: &str, offsets: &str| {
            format!(r#"{{{A},"b":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}}}"#)
        };
        let deep = format!(r#"{{"__metadata__":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        let cases: &[(String, u64, &str)] = &[
            (String::new(), 0, "does not start with {"),
            ("  {}".into(), 0, "does not start with {"),
            ("[1]".into(), 0, "does not start with {"),
            ("{".into(), 0, "cannot be read"),
            ("{} x".into(), 0, "trailing"),
            ("{}{}".into(), 0, "trailing"),
            ("{}".into(), 1, "1 bytes after the last tensor"),
            (format!("{{{A}}}"), 9, "1 bytes after the last tensor"),
            (format!("{{{A}}}"), 7, "has only 7 bytes of data"),
            (format!("{{{A},{A}}}"), 8, "duplicate name \"a\""),
            (r#"{"__metadata__":{},"__metadata__":{}}"#.into(), 0, "duplicate name \"__metadata__\""),
            (r#"{"__metadata__":{"x":"1","x":"2"}}"#.into(), 0, "duplicate name \"x\""),
            (r#"{"__metadata__":{"x":1}}"#.into(), 0, "expected a string"),
            (r#"{"__metadata__":null}"#.into(), 0, "object with a string"),
            (deep, 0, "cannot be read"),
            (r#"{"a":{"dtype":"F32","dtype":"F16","shape":[2],"data_offsets":[0,8]}}"#.into(), 8, "duplicate field"),
            (r#"{"a":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}}"#.into(), 8, "duplicate field"),
            (r#"{"a":{"shape":[2],"data_offsets":[0,8]}}"#.into(), 8, "missing field `dtype`"),
            (r#"{"a":{"dtype":"F32","data_offsets":[0,8]}}"#.into(), 8, "missing field `shape`"),
            (r#"{"a":{"dtype":"F32","shape":[2]}}"#.into(), 8, "missing field `data_offsets`"),
            (r#"{"a":null}"#.into(), 8, "cannot be read"),
            (b("\"F99\"", "[1]", "[8,12]"), 12, "unknown format \"F99\""),
            (b("\"f32\"", "[1]", "[8,12]"), 12, "unknown format"),
            (b("7", "[1]", "[8,12]"), 12, "cannot be read"),
            (b("\"F32\"", "[-1]", "[8,12]"), 12, "cannot be read"),
            (b("\"F32\"", "[1.0]", "[8,12]"), 12, "cannot be read"),
            (b("\"F32\"", "[18446744073709551616]", "[8,12]"), 12, "cannot be read"),
            (b("\"F32\"", "[1]", "[8,12,16]"), 12, "cannot be read"),
            (b("\"F32\"", "[1]", "[8]"), 12, "cannot be read"),
            (b("\"F32\"", "[1]", "[-8,12]"), 12, "cannot be read"),
            (b("\"F32\"", "[2]", "[8,12]"), 12, "takes 8 bytes, but its offsets are 8 to 12"),
            (b("\"F32\"", "[1]", "[12,8]"), 12, "offsets are 12 to 8"),
            (b("\"F32\"", "[0]", "[12,8]"), 12, "offsets are 12 to 8"),
            // A product that wraps to 0, and one that wraps to the size given by the offsets.
            (b("\"F32\"", "[4294967296,4294967296]", "[8,8]"), 8, "no size"),
            (b("\"F32\"", "[4611686018427387905,1]", "[8,12]"), 12, "no size"),
            (b("\"F32\"", "[4294967296,4294967296,0]", "[8,8]"), 8, "no size"),
            (b("\"F4\"", "[3]", "[8,9]"), 9, "no size in whole bytes"),
            (b("\"F32\"", "[1]", "[18446744073709551612,0]"), 12, "offsets are 18446744073709551612 to 0"),
            (b("\"F32\"", "[1]", "[9,13]"), 13, "nothing covers the bytes from 8 on"),
            (b("\"F32\"", "[1]", "[4,8]"), 8, "inside the one before, which ends at 8"),
            (b("\"F32\"", "[2]", "[0,8]"), 8, "inside the one before"),
            (b("\"F32\"", "[1]", "[8,12]"), 11, "has only 11 bytes of data"),
            ("{\"a\u{0}".into(), 0, "cannot be read"),
        ];
        for (json, data_bytes, expected) in cases {
            let error = parse_header(json.as_bytes(), *data_bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{:.100}: {error}", json);
        }
        assert!(parse_header(b"{\"\xff\":{}}", 0).is_err());
    }
}
