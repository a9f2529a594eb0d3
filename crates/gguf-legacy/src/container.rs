//! The containers, identified by their first bytes.
//!
//! A magic is a 32-bit number whose bytes are a name, reversed in the file. All numbers are little-endian: no published files of big-endian
//! machines are known.

use std::fmt;

use crate::cursor::{Cursor, Stop};
use crate::malformed::{Field, Malformed};

/// The container of a legacy file, with its version if it has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Container {
    /// GGML: no version, no scores, no padding. llama.cpp until March 2023, the examples of ggml until 2024.
    Ggml,
    /// GGMF version 1: tokens have scores. llama.cpp in March 2023.
    Ggmf,
    /// GGJT, versions 1 to 3: data is aligned to 32 bytes. llama.cpp from April to August 2023.
    Ggjt(u32),
    /// GGCC version 10: GGJT with the merges of the tokenizer. ggllm.cpp from July to October 2023.
    Ggcc,
    /// rwkv.cpp, versions 100 and 101: the magic of GGMF, no vocabulary.
    Rwkv(u32),
    /// GGLA version 1: a LoRA adapter of llama.cpp.
    Ggla,
    /// The draft of GGUF version 1, which was never released.
    GgufDraft,
    /// GGUF of this version.
    Gguf(u32),
}

const GGML: u32 = 0x6767_6d6c;
const GGMF: u32 = 0x6767_6d66;
const GGJT: u32 = 0x6767_6a74;
const GGCC: u32 = 0x6767_6363;
const GGLA: u32 = 0x6767_6c61;
/// The saved state of a chat, not a model.
const GGSN: u32 = 0x6767_736e;

/// The kind of a file with one of the magics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Magic {
    Container(Container),
    Session,
    Other,
}

impl Container {
    /// Reads magic and version.
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Magic, Stop> {
        if cursor.len() < 4 {
            return Ok(Magic::Other);
        }
        let magic = cursor.u32(&Field::Magic)?;
        let mut version = |known: &[u32], expected| {
            let at = cursor.pos();
            let found = cursor.u32(&Field::Version)?;
            match known.contains(&found) {
                true => Ok(found),
                false => Err(Stop::Bad(Malformed::number(Field::Version, at, found, expected))),
            }
        };
        Ok(Magic::Container(match magic {
            GGML => Container::Ggml,
            GGMF => match version(&[1, 100, 101], "1, or 100 or 101 of rwkv.cpp")? {
                1 => Container::Ggmf,
                version => Container::Rwkv(version),
            },
            GGJT => Container::Ggjt(version(&[1, 2, 3], "1, 2 or 3")?),
            GGCC => {
                version(&[10], "10")?;
                Container::Ggcc
            }
            GGLA => {
                version(&[1], "1")?;
                Container::Ggla
            }
            GGSN => return Ok(Magic::Session),
            _ => return Ok(Magic::Other),
        }))
    }

    /// Whether each token is followed by a score.
    pub(crate) fn has_scores(self) -> bool {
        matches!(self, Container::Ggmf | Container::Ggjt(_) | Container::Ggcc)
    }

    /// Whether data is aligned to 32 bytes.
    pub(crate) fn is_aligned(self) -> bool {
        matches!(self, Container::Ggjt(_) | Container::Ggcc | Container::Ggla)
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Container::Ggml => f.write_str("GGML"),
            Container::Ggmf => f.write_str("GGMF version 1"),
            Container::Ggjt(version) => write!(f, "GGJT version {version}"),
            Container::Ggcc => f.write_str("GGCC version 10"),
            Container::Rwkv(version) => write!(f, "rwkv.cpp version {version}"),
            Container::Ggla => f.write_str("GGLA version 1"),
            Container::GgufDraft => f.write_str("draft of GGUF version 1"),
            Container::Gguf(version) => write!(f, "GGUF version {version}"),
        }
    }
}
