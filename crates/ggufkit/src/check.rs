//! All findings about a model, whichever crate has the rule.

use std::borrow::Cow;
use std::fs::File;
use std::path::{Path, PathBuf};

use gguf_format::Gguf;
use gguf_format::check::{self, At, Finding, Report, Severity};
use gguf_format::shard::ShardName;
use gguf_io::{ModelFile, read_head};

use crate::Error;

gguf_format::rules! {
    /// Rules about the files of a model.
    RULES:
    SPLIT_FILE "split.file" Warning
        "all shards of a model, side by side" "fetch the missing shards"
        "llama-model-loader.cpp: shards are looked for beside the first";
}

/// What is wrong with a model: the result of [`check`](fn@crate::check).
#[derive(Debug, Clone)]
pub struct Check {
    files: Vec<(PathBuf, Report)>,
    model: Report,
}

impl Check {
    /// Whether there are no errors. Warnings are likely mistakes, or things that some readers refuse.
    pub fn is_sound(&self) -> bool {
        self.count(Severity::Error) == 0
    }

    /// Whether any reader can read the files safely: every length and offset in them is sound.
    pub fn is_safe(&self) -> bool {
        self.files.iter().all(|(_, report)| report.is_safe())
    }

    /// Number of findings of a severity.
    pub fn count(&self, severity: Severity) -> u64 {
        self.files.iter().map(|(_, report)| report).chain([&self.model]).map(|report| report.count(severity)).sum()
    }

    /// All findings, each with its file. Those about the model as a whole come last, with the first file.
    pub fn findings(&self) -> impl Iterator<Item = (&Path, Cow<'_, Finding>)> {
        let of_files = self.files.iter().map(|(path, report)| (path.as_path(), report));
        let of_model = self.files.first().map(|(path, _)| (path.as_path(), &self.model));
        of_files.chain(of_model).flat_map(|(path, report)| report.findings().map(move |finding| (path, finding)))
    }

    /// The files that were checked, in the order of their shards, and what the format's rules say about each.
    pub fn files(&self) -> &[(PathBuf, Report)] {
        &self.files
    }

    /// The findings about keys, tensors, tokenizer and shards of the model.
    pub fn model(&self) -> &Report {
        &self.model
    }
}

/// Checks the model that `path` belongs to, with all its shards: the format of each file, then the keys, tensors, tokenizer and
/// shards of the model. The file need not be readable as GGUF: the findings say what it is instead, and how far it is sound.
///
/// Tensor data is not read. [`scan_data`](gguf_format::scan_data) looks for NaN and infinity in it.
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
/// When a file cannot be opened or read. What is wrong with its content is in the result.
pub fn check(path: impl AsRef<Path>) -> Result<Check, Error> {
    let path = path.as_ref();
    let (paths, missing) = shards(path);
    let (mut files, mut opened) = (Vec::new(), Vec::new());
    for path in paths {
        let (report, file) = check_file(&path)?;
        files.push((path, report));
        opened.extend(file);
    }
    let mut model = Report::new();
    // Without one of the heads, what the others lack is not known.
    if opened.len() == files.len() {
        let heads: Vec<&Gguf<'_>> = opened.iter().map(ModelFile::gguf).collect();
        let name = files.first().and_then(|(path, _)| path.file_name()?.to_str());
        model = gguf_model::check::model(&heads, name);
    }
    for path in missing {
        model.add(&SPLIT_FILE, At::File, format_args!("there is no {}", path.display()));
    }
    Ok(Check { files, model })
}

/// The shards that are there, and those that are not.
fn shards(path: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let name = path.file_name().and_then(|name| ShardName::parse(name.to_str()?));
    let siblings = name.iter().flat_map(ShardName::siblings).map(|name| path.with_file_name(name));
    let (there, missing): (Vec<_>, Vec<_>) = siblings.partition(|path| path.exists());
    // A file that is not there is an error of its own.
    if there.iter().any(|there| there == path) { (there, missing) } else { (vec![path.to_owned()], Vec::new()) }
}

/// Judges one file; opens it as well, if its head can be read.
fn check_file(path: &Path) -> Result<(Report, Option<ModelFile>), Error> {
    match ModelFile::open(path) {
        Ok(file) => {
            let mut report = check::format(file.gguf().bytes(), file.file_bytes());
            let read = |at, buf: &mut [u8]| file.read_at(at, buf).is_ok();
            report.append(check::padding(file.gguf(), file.file_bytes(), read));
            Ok((report, Some(file)))
        }
        Err(gguf_io::Error::Head { .. }) => {
            let broken = || -> std::io::Result<Report> {
                let mut file = File::open(path)?;
                let file_bytes = file.metadata()?.len();
                Ok(check::format(read_head(&mut file, Some(file_bytes))?.bytes(), file_bytes))
            };
            let report =
                broken().map_err(|source| gguf_io::Error::Io { path: path.to_owned(), action: "read", source })?;
            Ok((report, None))
        }
        Err(e) => Err(e.into()),
    }
}
