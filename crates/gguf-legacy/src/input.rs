//! An open file of any format that can be migrated.

use std::path::Path;
use std::sync::Arc;

use gguf_format::Version;
use gguf_io::{Model, ModelFile, ReadAt};

use crate::draft_version;
use crate::error::Error;
use crate::file::{Bytes, LegacyFile};
use crate::layout::Family;
use crate::open::{first_part, open as open_bytes};
use crate::upgrade::GgufUpgrade;

/// A model in a legacy format.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.gguf");
/// use gguf_format::{ByteOrder, Head};
/// use gguf_legacy::{Error, Input};
///
/// let mut head = Head::default();
/// std::fs::write(&path, head.encode()?)?;
/// assert!(matches!(Input::open(&path, None), Err(Error::UpToDate { .. })));
///
/// head.dialect.order = ByteOrder::Big;
/// std::fs::write(&path, head.encode()?)?;
/// let Input::Gguf(upgrade) = Input::open(&path, None)? else { panic!("it is a GGUF") };
/// assert!(upgrade.describe().contains("big-endian"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Input {
    /// A file from before GGUF, or a draft of GGUF.
    Legacy(Box<LegacyFile>),
    /// A GGUF of an earlier version, in big-endian order, or with types that have been removed.
    Gguf(Box<GgufUpgrade>),
}

impl Input {
    /// Opens a file, and all parts or shards of the model that it belongs to. `family` is the architecture of a legacy file, if known; a
    /// GGUF stores its architecture.
    ///
    /// # Errors
    /// [`Error`], which names the file, the field and the offset; [`Error::UpToDate`] for a current GGUF.
    pub fn open(path: impl AsRef<Path>, family: Option<Family>) -> Result<Input, Error> {
        let path = first_part(path.as_ref());
        // In the middle of an edit in place, a GGUF may not start with its magic.
        let opened = ModelFile::open(&path);
        let bytes = open_bytes(&path)?;
        if opened.is_err() && !is_gguf(&bytes) {
            let file = LegacyFile::from_source(&path, bytes, family, open_bytes)?;
            return Ok(Input::Legacy(Box::new(file)));
        }
        let file = opened.map_err(of_gguf)?;
        let dialect = file.gguf().dialect();
        if dialect.version == Version::Draft {
            return Ok(Input::Legacy(Box::new(draft_version::open(&path, &file, bytes)?)));
        }
        drop(file);
        Ok(Input::Gguf(Box::new(GgufUpgrade::open(&path, dialect)?)))
    }

    /// Opens a legacy file, or a draft of GGUF, from any source of bytes. `name` identifies it in messages; for a model in several parts,
    /// `part` opens the others by name.
    ///
    /// # Errors
    /// As [`open`](Input::open).
    pub fn from_source(
        name: &Path,
        bytes: Arc<dyn ReadAt>,
        family: Option<Family>,
        part: impl Fn(&Path) -> Result<Bytes, Error>,
    ) -> Result<Input, Error> {
        if !is_gguf(&bytes) {
            let file = LegacyFile::from_source(name, Box::new(bytes), family, part)?;
            return Ok(Input::Legacy(Box::new(file)));
        }
        let file = ModelFile::from_source(Arc::clone(&bytes), name).map_err(of_gguf)?;
        match file.gguf().dialect().version {
            Version::Draft => Ok(Input::Legacy(Box::new(draft_version::open(name, &file, Box::new(bytes))?))),
            _ => {
                let dialect = file.gguf().dialect();
                let model = Model::from_files(vec![file]).map_err(of_gguf)?;
                Ok(Input::Gguf(Box::new(GgufUpgrade::open(model, dialect)?)))
            }
        }
    }
}

/// Whether bytes begin with the magic of GGUF.
fn is_gguf(bytes: &dyn ReadAt) -> bool {
    let mut magic = [0; 4];
    bytes.read_exact_at(0, &mut magic).is_ok() && (magic == *b"GGUF" || magic == *b"FUGG")
}

fn of_gguf(e: gguf_io::Error) -> Error {
    Error::Pipeline(gguf_pipeline::Error::Input(Box::new(e)))
}
