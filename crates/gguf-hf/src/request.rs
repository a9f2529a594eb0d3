//! What is asked of a conversion: a checkpoint, the folders that belong to it, and the options.

use std::path::PathBuf;

use crate::documents::Documents;
use crate::folder::Folder;
use crate::location::Location;
use crate::options::Options;

/// A requested conversion.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The files of the checkpoint's folder.
    pub(crate) files: Documents<'a>,
    /// The single tensor file to read; `None` to read the folder's tensor files.
    pub(crate) file: Option<&'a str>,
    /// The model's name, if it differs from the folder's name.
    pub(crate) name: Option<&'a str>,
    /// The files of an adapter's base model, if its folder is given.
    pub(crate) base: Option<Documents<'a>>,
    /// The files of a draft model's target model, if its folder is given.
    pub(crate) target: Option<Documents<'a>>,
    /// The options.
    pub(crate) options: &'a Options,
}

impl<'a> Request<'a> {
    /// The conversion of the checkpoint at `location`.
    pub(crate) fn new(location: &Location<'a>, options: &'a Options) -> Request<'a> {
        let documents = |folder: &'a dyn Folder| Documents::new(folder);
        Request {
            files: documents(location.dir),
            file: location.file,
            name: location.name,
            base: options.base.as_deref().map(documents),
            target: options.target.as_deref().map(documents),
            options,
        }
    }

    /// The files of the tokenizer: a draft model takes that of its target model.
    pub(crate) fn tokenizer_files(&self) -> &Documents<'a> {
        self.target.as_ref().unwrap_or(&self.files)
    }

    /// The path for messages about the checkpoint: its file, or else its folder.
    pub(crate) fn path(&self) -> PathBuf {
        let dir = self.files.path();
        self.file.map_or_else(|| dir.to_owned(), |file| dir.join(file))
    }
}
