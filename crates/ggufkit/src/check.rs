//! All findings about a model, by the rules of all crates.

use std::borrow::Cow;
use std::io::{self, Read};
#[cfg(feature = "edit")]
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_format::check::{self, At, Finding, Report, Rule, Severity};
use gguf_format::shard::ShardName;
use gguf_format::{Gguf, HeadScan, Problem};
use gguf_io::{MODEL_LIMITS, Model, ModelFile, NoData, ReadAt, read_head_with, shown_path};

use crate::Error;

#[cfg(feature = "edit")]
mod data;
#[cfg(feature = "fs")]
mod files;

#[cfg(feature = "edit")]
pub use data::{check_data, check_data_by};
#[cfg(feature = "fs")]
pub use files::{check, check_with};

gguf_format::rules! {
    /// Rules about the data and the files of a model.
    RULES:
    DATA_FINITE "data.finite" Error
        "numbers that are finite" "the weights are damaged, or were converted to a type with too small a range"
        "llama-model-loader.cpp, check_tensors";
    DATA_HOLE "data.hole" Warning
        "weights without long runs of zero bytes" "parts of a download may be missing although its length is right: compare its hash with the published one, or fetch it again"
        "this program: at least 64 KiB that begin or end within a row";
    DATA_ZERO "data.zero" Warning
        "weights that are not all zero" "if the model is not meant to have this tensor, ignore it; otherwise compare the hash of the file with the published one"
        "this program: matrices of at least 4 KiB";
    DATA_ZERO_ROWS "data.zero_rows" Note
        "rows that are not zero" "padded vocabularies and unused experts have such rows"
        "this program: at least 64 KiB of whole rows";
    DATA_CONSTANT "data.constant" Note
        "weights that are not all equal" "if the model was not made so, compare the hash of the file with the published one"
        "this program: matrices of at least 4 KiB";
    DATA_NOT_SCANNED "data.not_scanned" Note
        "data that can be scanned" "fix the other findings first"
        "this program";
    SPLIT_FILE "split.file" Error
        "all shards of a model, side by side" "fetch the missing shards"
        "llama-model-loader.cpp: shards are looked for beside the first";
}

/// Options of a check.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CheckOptions {
    /// Applies only the rules required for reading a file safely. Other shards are ignored.
    pub structure: bool,
    /// Offset of the GGUF in the file, in bytes. Unless it is 0, other shards are ignored.
    pub start: u64,
    /// Number of threads that read tensor data; `None` for the parallelism of the machine. Feature `edit`.
    #[cfg(feature = "edit")]
    pub threads: Option<NonZeroUsize>,
}

impl CheckOptions {
    /// Sets whether only the rules required for reading a file safely are applied.
    pub fn structure(mut self, structure: bool) -> CheckOptions {
        self.structure = structure;
        self
    }

    /// Sets the offset of the GGUF in the file, in bytes.
    pub fn start(mut self, start: u64) -> CheckOptions {
        self.start = start;
        self
    }

    /// Sets the number of threads that read tensor data; `None` for the parallelism of the machine. Feature `edit`.
    #[cfg(feature = "edit")]
    pub fn threads(mut self, threads: Option<NonZeroUsize>) -> CheckOptions {
        self.threads = threads;
        self
    }
}

/// The findings about a model: the result of [`check`](fn@crate::check).
///
/// ```
/// use ggufkit::Severity;
///
/// let check = ggufkit::check("examples/tiny.gguf")?;
/// println!("{} warnings", check.count(Severity::Warning));
/// assert_eq!((check.files().len(), check.count(Severity::Error)), (1, 0));
/// # Ok::<(), ggufkit::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Check {
    files: Vec<(PathBuf, Report)>,
    model: Report,
}

impl Check {
    /// The tables of all rules that can have findings.
    pub const RULES: &[&[Rule]] = &[check::RULES, gguf_model::check::RULES, RULES];

    /// Whether there are no errors. Warnings are likely mistakes, or unsupported by some readers.
    pub fn is_sound(&self) -> bool {
        self.count(Severity::Error) == 0
    }

    /// Whether any reader can read the files safely: every length and offset in them is valid.
    pub fn is_safe(&self) -> bool {
        self.files.iter().all(|(_, report)| report.is_safe())
    }

    /// Number of findings of a severity.
    pub fn count(&self, severity: Severity) -> u64 {
        self.files.iter().map(|(_, report)| report).chain([&self.model]).map(|report| report.count(severity)).sum()
    }

    /// All findings, each with its file. Findings about the whole model come last, with the first file.
    pub fn findings(&self) -> impl Iterator<Item = (&Path, Cow<'_, Finding>)> {
        let of_files = self.files.iter().map(|(path, report)| (path.as_path(), report));
        let of_model = self.files.first().map(|(path, _)| (path.as_path(), &self.model));
        of_files.chain(of_model).flat_map(|(path, report)| report.findings().map(move |finding| (path, finding)))
    }

    /// The checked files, in the order of their shards, with the findings about the format and the data of each.
    pub fn files(&self) -> &[(PathBuf, Report)] {
        &self.files
    }

    /// The findings about keys, tensors, tokenizer and shards of the model.
    pub fn model(&self) -> &Report {
        &self.model
    }
}

/// As [`check_with`], for an open model: in memory, mapped, or in a source of the caller.
///
/// ```
/// use ggufkit::{CheckOptions, Model, check_model};
///
/// let model = Model::open("examples/tiny.gguf")?;
/// assert!(check_model(&model, &CheckOptions::default()).is_sound());
/// # Ok::<(), ggufkit::Error>(())
/// ```
pub fn check_model(model: &Model, options: &CheckOptions) -> Check {
    let file = |file| checked(OpenFile::Of(file), options);
    Heads { files: model.files().iter().map(file).collect(), missing: Vec::new(), is_stream: false }.finish(options)
}

/// The head of a file without its data, for [`check_heads`].
#[derive(Debug, Clone, Copy)]
pub struct HeadOf<'a> {
    /// The name of the file, to which naming conventions apply.
    pub name: &'a str,
    /// The start of the file, with the whole head. More bytes are allowed.
    pub bytes: &'a [u8],
    /// The length of the file.
    pub file_bytes: u64,
}

/// As [`check_with`], for the heads of all files of a model, in the order of its shards: for files that are elsewhere, or do not exist yet.
/// Padding is not checked, as it needs the data.
///
/// ```
/// use ggufkit::{CheckOptions, HeadOf, check_heads};
///
/// let file = std::fs::read("examples/tiny.gguf").unwrap();
/// let head = HeadOf { name: "tiny.gguf", bytes: &file[..2080], file_bytes: file.len() as u64 };
/// assert!(check_heads(&[head], &CheckOptions::default()).is_sound());
/// ```
pub fn check_heads(heads: &[HeadOf<'_>], options: &CheckOptions) -> Check {
    let rules = rules(options);
    let file = |head: &HeadOf<'_>| {
        let path = PathBuf::from(head.name);
        let gguf = Gguf::parse_within(head.bytes, Some(head.file_bytes)).map(Gguf::into_owned);
        let file = gguf.ok().and_then(|gguf| ModelFile::from_head(gguf, NoData(head.file_bytes), &path).ok());
        CheckedFile { path, report: rules(head.bytes, head.file_bytes), file: file.map(OpenFile::Own) }
    };
    Heads { files: heads.iter().map(file).collect(), missing: Vec::new(), is_stream: false }.finish(options)
}

/// Opens a file of a model by its path, for [`check_by`].
pub type OpenSource<'a> = &'a dyn Fn(&Path) -> Result<Arc<dyn ReadAt>, gguf_io::Error>;

/// As [`check_with`], for files that are elsewhere, such as on a server: `open` opens `path`, and the other shards beside it. A shard is
/// missing if opening it is an [`Io`](gguf_io::Error::Io) error of the kind [`NotFound`](io::ErrorKind::NotFound).
///
/// ```
/// use std::io::ErrorKind;
/// use std::path::Path;
/// use std::sync::Arc;
/// use ggufkit::{CheckOptions, ReadAt, check_by};
///
/// // A server, for example.
/// let files = [("a-00001-of-00002.gguf", include_bytes!("../examples/tiny-00001-of-00002.gguf"))];
/// let open = |path: &Path| match files.iter().find(|(name, _)| path == Path::new(name)) {
///     Some((_, bytes)) => Ok(Arc::new(bytes.to_vec()) as Arc<dyn ReadAt>),
///     None => Err(gguf_io::Error::Io { path: path.into(), action: "open", source: ErrorKind::NotFound.into() }),
/// };
/// let check = check_by("a-00001-of-00002.gguf", &open, &CheckOptions::default())?;
/// assert!(check.findings().any(|(_, finding)| finding.code == "split.file"));
/// # Ok::<(), ggufkit::Error>(())
/// ```
///
/// # Errors
/// If a file cannot be opened or read. Problems of its content are part of the result.
pub fn check_by(path: impl AsRef<Path>, open: OpenSource<'_>, options: &CheckOptions) -> Result<Check, Error> {
    Ok(Heads::check_by(path.as_ref(), open, options)?.finish(options))
}

/// As [`check_with`], for a stream that is read to its end: its head is kept, and the bytes of its data are only counted. `name`
/// identifies it in the result. Other shards, the padding and the file name are not checked.
///
/// ```
/// let mut stream = &b"GGUF\x03\0\0\0"[..];
/// let check = ggufkit::check_stream(&mut stream, "upload", &ggufkit::CheckOptions::default())?;
/// assert!(!check.is_safe());
/// # Ok::<(), ggufkit::Error>(())
/// ```
///
/// # Errors
/// If the stream cannot be read.
pub fn check_stream(reader: &mut impl Read, name: impl Into<PathBuf>, options: &CheckOptions) -> Result<Check, Error> {
    let path = name.into();
    let failed = |path: PathBuf| move |source| gguf_io::Error::Io { path, action: "read", source };
    let scan = HeadScan::new(None).within(MODEL_LIMITS);
    let mut reader = Counted { reader, bytes: 0 };
    let head = read_head_with(&mut reader, scan, |_, _| Ok::<_, io::Error>(())).map_err(failed(path.clone()))?;
    io::copy(&mut reader, &mut io::sink()).map_err(failed(path.clone()))?;
    let report = rules(options)(head.bytes(), reader.bytes);
    let file = match head.error {
        Some(_) => None,
        None => ModelFile::from_source(head.bytes().to_vec(), path.clone()).ok().map(OpenFile::Own),
    };
    Ok(Heads { files: vec![CheckedFile { path, report, file }], missing: Vec::new(), is_stream: true }.finish(options))
}

/// A stream that counts its bytes.
struct Counted<'r, R> {
    reader: &'r mut R,
    bytes: u64,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.reader.read(buf)?;
        self.bytes = self.bytes.saturating_add(n as u64);
        Ok(n)
    }
}

/// The files with checked heads.
struct Heads<'m> {
    files: Vec<CheckedFile<'m>>,
    /// Missing shards.
    missing: Vec<PathBuf>,
    /// Whether it is a stream, which has no file name.
    is_stream: bool,
}

struct CheckedFile<'m> {
    path: PathBuf,
    report: Report,
    /// `None` if the head cannot be parsed.
    file: Option<OpenFile<'m>>,
}

/// An open file, of the check or of the caller.
enum OpenFile<'m> {
    Own(ModelFile),
    Of(&'m ModelFile),
}

impl Deref for OpenFile<'_> {
    type Target = ModelFile;

    fn deref(&self) -> &ModelFile {
        match self {
            OpenFile::Own(file) => file,
            OpenFile::Of(file) => file,
        }
    }
}

impl<'m> Heads<'m> {
    /// Checks the heads of all shards of the model that `path` belongs to, in sources that `open` opens.
    fn check_by(path: &Path, open: OpenSource<'_>, options: &CheckOptions) -> Result<Heads<'m>, Error> {
        let alone = options.structure || options.start > 0;
        let name = path.file_name().and_then(|name| ShardName::parse(name.to_str()?)).filter(|_| !alone);
        let mut siblings: Vec<PathBuf> =
            name.iter().flat_map(ShardName::siblings).map(|name| path.with_file_name(name)).collect();
        // A path in another spelling, such as with `./`, is not among them.
        if !siblings.iter().any(|sibling| sibling == path) {
            siblings = vec![path.to_owned()];
        }
        let (mut files, mut missing) = (Vec::new(), Vec::new());
        for sibling in siblings {
            match open(&sibling) {
                Ok(source) => files.push(check_source(sibling, source, options)?),
                Err(gguf_io::Error::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && sibling != path =>
                {
                    missing.push(sibling);
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(Heads { files, missing, is_stream: false })
    }

    /// Checks the model that consists of the files.
    fn finish(self, options: &CheckOptions) -> Check {
        let mut model = Report::new();
        if !options.structure {
            let heads: Vec<&Gguf<'_>> = self.files.iter().filter_map(|f| Some(f.file.as_ref()?.gguf())).collect();
            // A head that is missing or cannot be parsed may contain the items that the others lack.
            if heads.len() == self.files.len() && self.missing.is_empty() {
                let name = self.files.first().filter(|_| !self.is_stream).and_then(|f| chosen_name(&f.path));
                model = gguf_model::check::model(&heads, name);
            }
        }
        for path in &self.missing {
            model.add(&SPLIT_FILE, At::File, format_args!("there is no {}", shown_path(path)));
        }
        Check { files: self.files.into_iter().map(|f| (f.path, f.report)).collect(), model }
    }
}

/// The name of a file, unless it is a digest, to which no naming convention applies.
fn chosen_name(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    let digest = name.strip_prefix("sha256").and_then(|rest| rest.strip_prefix(['-', ':']));
    let is_digest = digest.is_some_and(|d| d.len() == 64 && d.bytes().all(|b| b.is_ascii_hexdigit()));
    (!is_digest).then_some(name)
}

/// The rules for the bytes of a head and the length of its file.
fn rules(options: &CheckOptions) -> fn(&[u8], u64) -> Report {
    if options.structure { check::structure } else { check::format }
}

/// Checks one file, and opens it if its head can be parsed.
fn check_source<'m>(path: PathBuf, source: Arc<dyn ReadAt>, options: &CheckOptions) -> Result<CheckedFile<'m>, Error> {
    match ModelFile::from_source_at(Arc::clone(&source), options.start, &path) {
        Ok(file) => Ok(checked(OpenFile::Own(file), options)),
        // A head over a limit is not damaged, but not read either.
        Err(gguf_io::Error::Head { source: e, .. }) if !matches!(e.problem, Problem::OverLimit { .. }) => {
            match check_broken_head(&*source, options.start, rules(options)) {
                Ok(report) => Ok(CheckedFile { path, report, file: None }),
                Err(source) => Err(gguf_io::Error::Io { path, action: "read", source }.into()),
            }
        }
        Err(e) => Err(e.into()),
    }
}

/// Checks a head that cannot be parsed, up to its first error.
fn check_broken_head(source: &dyn ReadAt, start: u64, rules: fn(&[u8], u64) -> Report) -> io::Result<Report> {
    let file_bytes = source.size()?.saturating_sub(start);
    let scan = HeadScan::new(Some(file_bytes)).within(MODEL_LIMITS);
    let head = read_head_with(&mut source.stream(start)?, scan, |_, _| Ok::<_, io::Error>(()))?;
    Ok(rules(head.bytes(), file_bytes))
}

/// Checks an open file.
fn checked<'m>(file: OpenFile<'m>, options: &CheckOptions) -> CheckedFile<'m> {
    let mut report = rules(options)(file.gguf().bytes(), file.file_bytes());
    if !options.structure {
        let read = |at, buf: &mut [u8]| file.read_at(at, buf).is_ok();
        report.append(check::padding(file.gguf(), file.file_bytes(), read));
    }
    CheckedFile { path: file.path().to_owned(), report, file: Some(file) }
}
