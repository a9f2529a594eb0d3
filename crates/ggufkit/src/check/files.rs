//! Checks of files: all shards of a model, and heads that cannot be parsed.

use std::path::{Path, PathBuf};

use gguf_format::Problem;
use gguf_format::shard::ShardName;
use gguf_io::{ModelFile, open_regular};

use super::{Check, CheckOptions, CheckedFile, Heads, OpenFile, check_broken_head, checked, rules};
use crate::Error;

/// Checks the model that `path` belongs to, with all its shards: the format of each file, then the keys, tensors, tokenizer and shards of
/// the model. The file need not be readable as GGUF: the findings identify other formats, and the extent of the valid part.
///
/// Tensor data is not read; [`check_data`](crate::check_data) reads it too. [`check_with`] accepts options.
///
/// ```
/// let check = ggufkit::check("examples/tiny.gguf")?;
/// for (path, finding) in check.findings() {
///     println!("{}: {finding}; {}", path.display(), finding.hint);
/// }
/// assert!(check.is_sound());
/// # Ok::<(), ggufkit::Error>(())
/// ```
///
/// # Errors
/// If a file cannot be opened or read. Problems of its content are part of the result.
pub fn check(path: impl AsRef<Path>) -> Result<Check, Error> {
    check_with(path, &CheckOptions::default())
}

/// As [`check`](fn@crate::check), with options.
///
/// ```
/// use ggufkit::CheckOptions;
///
/// let check = ggufkit::check_with("examples/tiny.gguf", &CheckOptions::default().structure(true))?;
/// assert!(check.is_safe());
/// # Ok::<(), ggufkit::Error>(())
/// ```
///
/// # Errors
/// As for [`check`](fn@crate::check).
pub fn check_with(path: impl AsRef<Path>, options: &CheckOptions) -> Result<Check, Error> {
    Ok(Heads::check(path.as_ref(), options)?.finish(options))
}

impl<'m> Heads<'m> {
    /// Checks the heads of all shards of the model that `path` belongs to.
    pub(super) fn check(path: &Path, options: &CheckOptions) -> Result<Heads<'m>, Error> {
        let alone = options.structure || options.start > 0;
        let (paths, missing) = if alone { (vec![path.to_owned()], Vec::new()) } else { shards(path) };
        let files = paths.into_iter().map(|path| check_file(path, options)).collect::<Result<_, _>>()?;
        Ok(Heads { files, missing, is_stream: false })
    }
}

/// The existing shards and the missing ones.
fn shards(path: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let name = path.file_name().and_then(|name| ShardName::parse(name.to_str()?));
    let siblings = name.iter().flat_map(ShardName::siblings).map(|name| path.with_file_name(name));
    let (there, missing): (Vec<_>, Vec<_>) = siblings.partition(|path| path.exists());
    // A missing file is a separate error.
    if there.iter().any(|there| there == path) { (there, missing) } else { (vec![path.to_owned()], Vec::new()) }
}

/// Checks one file, and opens it if its head can be parsed.
fn check_file<'m>(path: PathBuf, options: &CheckOptions) -> Result<CheckedFile<'m>, Error> {
    let file = match ModelFile::open_at(&path, options.start) {
        Ok(file) => file,
        // A head over a limit is not damaged, but not read either.
        Err(gguf_io::Error::Head { source, .. }) if !matches!(source.problem, Problem::OverLimit { .. }) => {
            let report = match check_broken_head(&open_regular(&path)?, options.start, rules(options)) {
                Ok(report) => report,
                Err(source) => return Err(gguf_io::Error::Io { path, action: "read", source }.into()),
            };
            return Ok(CheckedFile { path, report, file: None });
        }
        Err(e) => return Err(e.into()),
    };
    Ok(checked(OpenFile::Own(file), options))
}
