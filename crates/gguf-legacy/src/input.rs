//! Whatever can be migrated, opened.

use std::path::Path;

use gguf_format::Version;
use gguf_io::ModelFile;

use crate::draft;
use crate::error::Error;
use crate::file::{LegacyFile, first_part, open as open_bytes};
use crate::layout::Family;
use crate::upgrade::GgufUpgrade;

/// A model that is not what is written today.
#[derive(Debug)]
#[non_exhaustive]
pub enum Input {
    /// A file from before GGUF, or a draft of GGUF.
    Legacy(Box<LegacyFile>),
    /// A GGUF of an earlier version, in big-endian order, or with types that have been removed.
    Gguf(Box<GgufUpgrade>),
}

impl Input {
    /// Opens a file, and all parts or shards of the model that it belongs to. `family` is the architecture of a legacy file, if that is
    /// known; a GGUF says itself which it is.
    ///
    /// # Errors
    /// [`Error`], which names the file, the field and the offset; [`Error::UpToDate`] for a GGUF of today.
    pub fn open(path: impl AsRef<Path>, family: Option<Family>) -> Result<Input, Error> {
        let path = first_part(path.as_ref());
        let bytes = open_bytes(&path)?;
        let mut magic = [0; 4];
        let is_gguf = bytes.read_exact_at(0, &mut magic).is_ok() && (magic == *b"GGUF" || magic == *b"FUGG");
        if !is_gguf {
            let file = LegacyFile::from_source(&path, bytes, family, open_bytes)?;
            return Ok(Input::Legacy(Box::new(file)));
        }
        let file = ModelFile::open(&path).map_err(|e| Error::Pipeline(gguf_pipeline::Error::Input(Box::new(e))))?;
        let dialect = file.gguf().dialect();
        if dialect.version == Version::Draft {
            return Ok(Input::Legacy(Box::new(draft::open(&path, &file, bytes)?)));
        }
        drop(file);
        Ok(Input::Gguf(Box::new(GgufUpgrade::open(&path, dialect)?)))
    }
}
