//! An open legacy file: all of its parts and their content.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gguf_io::ReadAt;

use crate::block::{Encoding, Generation};
use crate::container::Container;
use crate::error::Error;
use crate::layout::{Family, Hparam, Hparams};
use crate::names::{Name, name};
use crate::vocab::{Vocabulary, key_values};
use crate::walk::TokenTexts;

/// A source of bytes.
pub type Bytes = Box<dyn ReadAt>;

/// A legacy model, open for reading.
#[derive(Debug)]
pub struct LegacyFile {
    pub(crate) parts: Vec<(PathBuf, Bytes)>,
    pub(crate) container: Container,
    pub(crate) family: Family,
    pub(crate) generation: Generation,
    /// Whether neither the file nor its sizes determine the generation of its blocks.
    pub(crate) is_generation_unsure: bool,
    pub(crate) hparams: Hparams,
    pub(crate) tokens: TokenTexts,
    pub(crate) scores: Vec<f32>,
    pub(crate) merges: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) file_bytes: u64,
    /// Rank and alpha of a LoRA adapter.
    pub(crate) lora: Option<(u32, u32)>,
    /// The migrated vocabulary, computed on first use.
    pub(crate) vocabulary: OnceLock<Vocabulary>,
}

/// A tensor, with all parts joined.
#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    /// The first dimension is the contiguous one.
    pub(crate) shape: Vec<u64>,
    pub(crate) encoding: Encoding,
    /// The pieces of each part, as rows below each other or columns side by side.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) are_columns: bool,
}

/// A part's piece of a tensor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) part: usize,
    pub(crate) offset: u64,
    pub(crate) row_len: u64,
    pub(crate) n_rows: u64,
}

impl LegacyFile {
    /// The migrated vocabulary.
    pub(crate) fn vocabulary(&self) -> &Vocabulary {
        self.vocabulary.get_or_init(|| key_values(self))
    }

    /// Reads bytes of a part.
    pub(crate) fn read(&self, part: usize, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let Some((path, bytes)) = self.parts.get(part) else { return Ok(()) };
        bytes.read_exact_at(offset, buffer).map_err(Error::io("read", path))
    }

    /// The path of the file, or of the first of several parts.
    pub fn path(&self) -> &Path {
        self.parts.first().map_or(Path::new(""), |(path, _)| path)
    }

    /// The paths of all parts.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().map(|(path, _)| path.as_path())
    }

    /// The container.
    pub fn container(&self) -> Container {
        self.container
    }

    /// The architecture.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The generation of the quantized blocks.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Whether the file is a LoRA adapter.
    pub fn is_adapter(&self) -> bool {
        self.lora.is_some()
    }

    /// Total size of all parts.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Number of tokens in the file's vocabulary.
    pub fn n_tokens(&self) -> usize {
        self.tokens.len()
    }

    /// Rows of the embeddings: the tokens of the model, possibly more than the file lists.
    pub(crate) fn n_embeddings(&self) -> usize {
        let is_it = |tensor: &&Tensor| match name(self.family, &tensor.name) {
            Name::Output(named) => named.stem == "token_embd",
            _ => false,
        };
        let rows = self.tensors.iter().find(is_it).and_then(|tensor| tensor.shape.get(1).copied());
        rows.and_then(|rows| usize::try_from(rows).ok()).unwrap_or(0)
    }

    /// Number of tokens of the model, possibly more than the file lists.
    pub fn vocab_size(&self) -> u32 {
        self.hparams.int(Hparam::Vocab)
    }
}
