//! NumPy's format for one array (`.npy`, versions 1 to 3): a magic, a length, a header in Python's notation, then the values.
//!
//! The rules are those of `numpy.lib.format`. NumPy's order of dimensions has the contiguous one last, GGUF's first.

use std::fs::File;
use std::path::{Path, PathBuf};

use gguf_format::{ByteOrder, GgmlType, swap_blocks};
use gguf_io::{ReadAt, open_regular};
use gguf_pipeline::Source;

use crate::error::Error;

/// The first bytes of a file.
const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// The maximum length of a header.
const MAX_HEADER: u64 = 1 << 16;

/// The alignment of the data.
const ALIGNMENT: usize = 64;

/// The types of both formats: NumPy's name without the byte order, and ggml's type.
const TYPES: &[(&str, GgmlType)] = &[
    ("f2", GgmlType::F16),
    ("f4", GgmlType::F32),
    ("f8", GgmlType::F64),
    ("i1", GgmlType::I8),
    ("i2", GgmlType::I16),
    ("i4", GgmlType::I32),
    ("i8", GgmlType::I64),
];

/// Whether the format supports a type.
pub(crate) fn holds(ty: GgmlType) -> bool {
    TYPES.iter().any(|(_, t)| *t == ty)
}

/// The header of an array, padded to align the data; `None` for a type that NumPy does not have.
pub(crate) fn header(ty: GgmlType, shape: &[u64]) -> Option<Vec<u8>> {
    let (name, _) = TYPES.iter().find(|(_, t)| *t == ty)?;
    let order = if ty == GgmlType::I8 { '|' } else { '<' };
    let dims: Vec<String> = shape.iter().rev().map(u64::to_string).collect();
    // A tuple of one element ends in a comma.
    let shape = if dims.len() == 1 { format!("({},)", dims.concat()) } else { format!("({})", dims.join(", ")) };
    let mut text = format!("{{'descr': '{order}{name}', 'fortran_order': False, 'shape': {shape}, }}");
    let before = MAGIC.len() + 4;
    let padded = (before + text.len() + 1).next_multiple_of(ALIGNMENT);
    text.extend(std::iter::repeat_n(' ', padded - before - text.len() - 1));
    text.push('\n');
    let mut header = MAGIC.to_vec();
    header.extend([1, 0]);
    // At most four dimensions of 20 digits.
    header.extend(u16::try_from(text.len()).ok()?.to_le_bytes());
    header.extend(text.as_bytes());
    Some(header)
}

/// An open file with one array.
#[non_exhaustive]
#[derive(Debug)]
pub struct NpyFile {
    /// The type.
    pub ty: GgmlType,
    /// Dimensions in GGUF's order, the contiguous one first.
    pub shape: Vec<u64>,
    path: PathBuf,
    file: File,
    start: u64,
    bytes: u64,
    order: ByteOrder,
}

impl NpyFile {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`Error::Array`] for an invalid or truncated file, or a type or order that tensors do not have; and errors of the system.
    pub fn open(path: &Path) -> Result<NpyFile, Error> {
        let io = |source| Error::from(gguf_io::Error::Io { path: path.to_owned(), action: "open", source });
        let file = open_regular(path)?;
        let file_bytes = file.size().map_err(io)?;
        let bad = |offset: u64, problem: String| Error::Array { path: path.to_owned(), offset, problem };
        let read = |offset: u64, buffer: &mut [u8]| {
            let len = buffer.len();
            let short = || {
                bad(
                    file_bytes,
                    format!("the file ends within its header, which extends to byte {}", offset + len as u64),
                )
            };
            file.read_exact_at(offset, buffer).map_err(|_| short())
        };
        let mut start = [0; 8];
        read(0, &mut start)?;
        let [magic @ .., major, _] = start;
        if &magic != MAGIC {
            return Err(bad(0, "not a NumPy file: the first bytes are not \\x93NUMPY".to_owned()));
        }
        let (at, len) = match major {
            1 => {
                let mut len = [0; 2];
                read(8, &mut len)?;
                (10, u64::from(u16::from_le_bytes(len)))
            }
            2 | 3 => {
                let mut len = [0; 4];
                read(8, &mut len)?;
                (12, u64::from(u32::from_le_bytes(len)))
            }
            other => return Err(bad(6, format!("unsupported format version {other}; expected 1 to 3"))),
        };
        if len > MAX_HEADER {
            return Err(bad(8, format!("a header of {len} bytes; at most {MAX_HEADER} are read")));
        }
        let mut header = vec![0; usize::try_from(len).unwrap_or(0)];
        read(at, &mut header)?;
        let header = String::from_utf8(header).map_err(|_| bad(at, "the header is not text".to_owned()))?;
        let parsed = parse(&header).map_err(|problem| bad(at, problem))?;
        let (start, ty) = (at + len, parsed.ty);
        let expected = ty.tensor_bytes(parsed.shape.iter().copied());
        let found = file_bytes.saturating_sub(start);
        match expected {
            Ok(bytes) if bytes == found => {
                let Header { ty, shape, order } = parsed;
                Ok(NpyFile { ty, shape, path: path.to_owned(), file, start, bytes, order })
            }
            Ok(bytes) => Err(bad(start, format!("{found} bytes of data; the header announces {bytes}"))),
            Err(e) => Err(bad(at, e.to_string())),
        }
    }
}

impl Source for NpyFile {
    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), gguf_pipeline::Error> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.bytes && index == 0);
        if end.is_none() {
            let tensor = self.path.display().to_string();
            return Err(gguf_pipeline::Error::OutOfTensor { tensor, bytes: self.bytes });
        }
        let io = |source| gguf_pipeline::Error::io("read", &self.path, source);
        self.file.read_exact_at(self.start + offset, buffer).map_err(io)?;
        if self.order == ByteOrder::Big {
            let no_codec = |_| gguf_pipeline::Error::NoCodec { tensor: self.path.display().to_string() };
            swap_blocks(self.ty, buffer).map_err(no_codec)?;
        }
        Ok(())
    }
}

struct Header {
    ty: GgmlType,
    shape: Vec<u64>,
    order: ByteOrder,
}

/// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`: the keys in any order, each once.
fn parse(text: &str) -> Result<Header, String> {
    let not = |what: &str| format!("the header has no {what}: {}", gguf_format::Str(text.trim_end().as_bytes()));
    let body = text.trim().strip_prefix('{').and_then(|t| t.strip_suffix('}')).ok_or_else(|| not("braces"))?;
    let value = |key: &str| {
        let quoted = [format!("'{key}'"), format!("\"{key}\"")];
        let at = quoted.iter().find_map(|key| Some((body.find(key.as_str())?, key.len())));
        let (at, len) = at.ok_or_else(|| not(key))?;
        let rest = body.get(at + len..).unwrap_or_default().trim_start();
        rest.strip_prefix(':').map(str::trim_start).ok_or_else(|| not(key))
    };
    let descr = value("descr")?;
    let quote = descr
        .chars()
        .next()
        .filter(|c| ['\'', '"'].contains(c))
        .ok_or("structured arrays are not supported; save plain numbers")?;
    let descr = descr.get(1..).and_then(|rest| rest.split(quote).next()).unwrap_or_default();
    let (order, name) = match descr.as_bytes().first() {
        Some(b'>') => (ByteOrder::Big, descr.get(1..)),
        Some(b'<' | b'|' | b'=') => (ByteOrder::Little, descr.get(1..)),
        _ => (ByteOrder::Little, Some(descr)),
    };
    let found = TYPES.iter().find(|(n, _)| Some(*n) == name);
    let (_, ty) = found.ok_or_else(|| {
        let names: Vec<&str> = TYPES.iter().map(|(name, _)| *name).collect();
        format!("values of type {}; tensors have {}", gguf_format::Str(descr.as_bytes()), names.join(", "))
    })?;
    let shape = value("shape")?;
    let shape = shape.strip_prefix('(').and_then(|rest| rest.split(')').next()).ok_or_else(|| not("shape"))?;
    let dims = shape.split(',').map(str::trim).filter(|dim| !dim.is_empty());
    let mut shape = Vec::new();
    for dim in dims {
        shape.push(dim.trim_end_matches('L').parse::<u64>().map_err(|_| not("shape of whole numbers"))?);
    }
    if shape.len() > gguf_format::MAX_DIMS {
        return Err(format!("{} dimensions; a tensor has at most {}", shape.len(), gguf_format::MAX_DIMS));
    }
    let is_fortran = match value("fortran_order")? {
        v if v.starts_with("False") => false,
        v if v.starts_with("True") => true,
        _ => return Err(not("fortran_order")),
    };
    if is_fortran && shape.len() > 1 {
        return Err("Fortran order is not supported; save numpy.ascontiguousarray(array)".to_owned());
    }
    shape.reverse();
    Ok(Header { ty: *ty, shape, order })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_and_written() {
        type Parsed = (GgmlType, &'static [u64], ByteOrder);
        let cases: &[(&str, Option<Parsed>)] = &[
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n",
                Some((GgmlType::F32, &[4, 3], ByteOrder::Little)),
            ),
            ("{'shape': (7,), 'descr': '>f2', 'fortran_order': True}", Some((GgmlType::F16, &[7], ByteOrder::Big))),
            ("{'descr': '|i1', 'fortran_order': False, 'shape': ()}", Some((GgmlType::I8, &[], ByteOrder::Little))),
            (
                "{\"descr\": \"<i8\", \"fortran_order\": False, \"shape\": (2L, 1L)}",
                Some((GgmlType::I64, &[1, 2], ByteOrder::Little)),
            ),
            ("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4)}", None),
            ("{'descr': '<u4', 'fortran_order': False, 'shape': (3, 4)}", None),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", None),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}", None),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1)}", None),
            ("{'descr': '<f4', 'fortran_order': False}", None),
            ("{'descr': '<f4', 'shape': (3,)}", None),
            ("", None),
            ("{}", None),
        ];
        for (text, expected) in cases {
            let found = parse(text);
            match (found, expected) {
                (Ok(h), Some((ty, shape, order))) => {
                    assert_eq!((h.ty, h.shape.as_slice(), h.order), (*ty, *shape, *order))
                }
                (Err(_), None) => {}
                (found, _) => panic!("{text}: {:?}", found.map(|h| h.shape)),
            }
        }
        for (ty, shape) in [
            (GgmlType::F32, vec![5u64, 3]),
            (GgmlType::I8, vec![9]),
            (GgmlType::F64, vec![]),
            (GgmlType::F16, vec![u64::MAX; 4]),
        ] {
            let bytes = header(ty, &shape).unwrap();
            assert_eq!(bytes.len() % ALIGNMENT, 0);
            assert_eq!(usize::from(u16::from_le_bytes([bytes[8], bytes[9]])), bytes.len() - 10);
            let read = parse(std::str::from_utf8(&bytes[10..]).unwrap()).unwrap();
            assert_eq!((read.ty, read.shape), (ty, shape));
        }
        assert!(header(GgmlType::BF16, &[1]).is_none());
    }
}
