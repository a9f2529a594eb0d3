//! Opening a legacy file: its format and architecture are detected, and all of its parts are read up to the tensors' data.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gguf_format::FileKind;
use gguf_io::ReadAt;

use crate::block::{Encoding, Generation, are_plausible, blocks_of_planes, memory_len};
use crate::container::Container;
use crate::detect::{Recognition, Start, detect, family_of, start};
use crate::error::Error;
use crate::file::{Bytes, LegacyFile, Piece, Tensor};
use crate::layout::{Family, Hparam};
use crate::lora;
use crate::names::{Name, name};
use crate::walk::{Record, Walk};

impl LegacyFile {
    /// Opens a legacy file and all parts of the model that it belongs to. `family` is its architecture, if known.
    ///
    /// # Errors
    /// [`Error`], which names the file, the field and the offset.
    pub fn open(path: impl AsRef<Path>, family: Option<Family>) -> Result<LegacyFile, Error> {
        let path = first_part(path.as_ref());
        let bytes = open(&path)?;
        LegacyFile::from_source(&path, bytes, family, open)
    }

    /// Opens a legacy file from any source of bytes. `name` identifies it in messages; for a model in several parts, `part` opens the
    /// others by name.
    ///
    /// # Errors
    /// As [`open`](LegacyFile::open).
    pub fn from_source(
        name: &Path,
        bytes: Bytes,
        family: Option<Family>,
        part: impl Fn(&Path) -> Result<Bytes, Error>,
    ) -> Result<LegacyFile, Error> {
        let len = bytes.size().map_err(Error::io("read", name))?;
        let (container, from) = match start(&bytes, len).map_err(Error::io("read", name))? {
            Start::Container(container, from) => (container, from),
            Start::Session => return Err(Error::Session { path: name.to_owned() }),
            Start::Bad(source) => {
                return Err(Error::Malformed { path: name.to_owned(), container: None, family: None, source });
            }
            Start::Other => return Err(Error::NotLegacy { path: name.to_owned(), kind: kind(&bytes, len) }),
        };
        if container == Container::Ggla {
            return lora::open(name, bytes, len, from);
        }
        let mut detected = detect(&bytes, len, container, from, family).map_err(Error::io("read", name))?;
        if detected.best.len() != 1 {
            let none = detected.best.iter().all(|walk| walk.end.is_none());
            let problem = detected.best.first().and_then(|walk| walk.end.clone()).filter(|_| !none);
            return Err(match problem {
                Some(source) => {
                    Error::Malformed { path: name.to_owned(), container: Some(container), family: None, source }
                }
                None => Error::UnknownArchitecture { path: name.to_owned(), container, tensor: None },
            });
        }
        let Some(walk) = detected.best.pop() else {
            return Err(Error::UnknownArchitecture { path: name.to_owned(), container, tensor: None });
        };
        LegacyFile::of_walk(name, bytes, len, container, walk, family, part)
    }

    #[allow(clippy::too_many_arguments, reason = "the properties found so far")]
    fn of_walk(
        path: &Path,
        bytes: Bytes,
        len: u64,
        container: Container,
        walk: Walk,
        asked: Option<Family>,
        part: impl Fn(&Path) -> Result<Bytes, Error>,
    ) -> Result<LegacyFile, Error> {
        let family = asked.unwrap_or_else(|| family_of(&walk));
        if let Some(source) = walk.conflict.or(walk.end) {
            // Only a file with tensors or a whole vocabulary has a certain architecture.
            let is_told = walk.has_vocabulary || walk.tokens.len() > 0;
            let family = Some(family).filter(|_| is_told);
            return Err(Error::Malformed { path: path.to_owned(), container: Some(container), family, source });
        }
        let first_unknown = walk.records.iter().find(|record| name(family, &record.name) == Name::Unknown);
        if let Some(record) = first_unknown {
            let none = walk.records.iter().all(|record| name(family, &record.name) == Name::Unknown);
            let (path, tensor) = (path.to_owned(), record.name.clone());
            return Err(match none {
                true => Error::UnknownArchitecture { path, container, tensor: Some(tensor) },
                false => Error::UnknownTensor { path, tensor, family },
            });
        }
        let mut file = LegacyFile {
            parts: vec![(path.to_owned(), bytes)],
            container,
            family,
            generation: walk.sizes.generation,
            is_generation_unsure: false,
            hparams: walk.hparams,
            tokens: walk.tokens,
            scores: walk.scores,
            merges: walk.merges,
            tensors: Vec::new(),
            file_bytes: len,
            lora: None,
            vocabulary: OnceLock::new(),
        };
        let n_parts = file.n_parts(&walk.records)?;
        let mut records = vec![walk.records];
        for i in 1..n_parts {
            let path_of_part = part_path(path, i);
            let missing = || Error::MissingPart { path: path.to_owned(), part: path_of_part.clone(), n_parts };
            let bytes = match part(&path_of_part) {
                Ok(bytes) => bytes,
                Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                    return Err(missing());
                }
                Err(e) => return Err(e),
            };
            let len = bytes.size().map_err(Error::io("read", &path_of_part))?;
            let of_part = file.walk_part(&path_of_part, &bytes, len, walk.layout, walk.sizes)?;
            file.file_bytes = file.file_bytes.saturating_add(len);
            file.compare(&path_of_part, &of_part, records.first().map_or(&[], Vec::as_slice))?;
            records.push(of_part.records);
            file.parts.push((path_of_part, bytes));
        }
        file.join(&records)?;
        file.find_planes()?;
        let is_told = matches!(container, Container::Ggml) && file.family == Family::Bert;
        file.is_generation_unsure = is_told
            && file.hparams.file_type().1 == 0
            && file.tensors.iter().any(|t| matches!(t.encoding, Encoding::Wide { .. } | Encoding::Pairs(_)));
        Ok(file)
    }

    /// The number of parts of the model: the ratio of its width to the columns of the embeddings (`llama_model_load` of March 2023 and
    /// `convert.py` derive it from the width alone, which is wrong for models in one file).
    fn n_parts(&self, records: &[Record]) -> Result<u64, Error> {
        let width = u64::from(self.hparams.int(Hparam::Embd));
        let embeddings = records.iter().find(|record| record.name == "tok_embeddings.weight");
        let row = match embeddings.filter(|_| self.family == Family::Llama).and_then(|record| record.shape.first()) {
            Some(&row) if row < width => row,
            _ => return Ok(1),
        };
        match width.checked_div(row) {
            Some(n) if width.is_multiple_of(row) && n <= 64 => Ok(n),
            _ => Err(Error::Shape {
                path: self.path().to_owned(),
                tensor: "tok_embeddings.weight".to_owned(),
                found: embeddings.map(|record| record.shape.clone()).unwrap_or_default(),
                expected: format!("{width} columns, or a part of them"),
            }),
        }
    }

    fn walk_part(
        &self,
        path: &Path,
        bytes: &Bytes,
        len: u64,
        layout: &'static crate::layout::Layout,
        sizes: crate::walk::Sizes,
    ) -> Result<Walk, Error> {
        let differs = |difference: String| Error::OtherPart { path: path.to_owned(), difference };
        let from = match start(bytes, len).map_err(Error::io("read", path))? {
            Start::Container(container, from) if container == self.container => from,
            Start::Container(container, _) => {
                return Err(differs(format!("it is a {container} file, the first is a {} file", self.container)));
            }
            _ => return Err(differs(format!("it is {}", kind(bytes, len)))),
        };
        let walk = Walk::new(bytes, len, self.container, from, layout, Some(sizes)).map_err(Error::io("read", path))?;
        match walk.end {
            Some(source) => Err(Error::Malformed {
                path: path.to_owned(),
                container: Some(self.container),
                family: Some(self.family),
                source,
            }),
            None => Ok(walk),
        }
    }

    /// Checks that a part has the same hyperparameters, vocabulary and tensors as the first.
    fn compare(&self, path: &Path, part: &Walk, first: &[Record]) -> Result<(), Error> {
        let differs = |difference: String| Err(Error::OtherPart { path: path.to_owned(), difference });
        if part.hparams != self.hparams {
            return differs("its hyperparameters differ".to_owned());
        }
        if part.tokens != self.tokens || part.scores != self.scores {
            return differs("its vocabulary differs".to_owned());
        }
        if part.records.len() != first.len() {
            return differs(format!("it has {} tensors, the first has {}", part.records.len(), first.len()));
        }
        for (a, b) in first.iter().zip(&part.records) {
            if a.name != b.name || a.shape != b.shape || a.encoding != b.encoding {
                return differs(format!("it has a tensor {:?} where the first has {:?}", b.name, a.name));
            }
        }
        Ok(())
    }

    /// Joins the tensors of all parts. Matrices that mix heads or neurons are split by columns, all others by rows; every part has whole
    /// vectors.
    fn join(&mut self, parts: &[Vec<Record>]) -> Result<(), Error> {
        let Some(first) = parts.first() else { return Ok(()) };
        let mut names = HashSet::new();
        for (i, record) in first.iter().enumerate() {
            let piece = |(part, records): (usize, &Vec<Record>)| {
                let offset = records.get(i)?.offset;
                let row_len = record.shape.first().copied().unwrap_or(1);
                Some(Piece { part, offset, row_len, n_rows: record.shape.iter().skip(1).product() })
            };
            let n_parts = if record.shape.len() < 2 { 1 } else { parts.len() };
            let pieces: Vec<Piece> = parts.iter().enumerate().take(n_parts).filter_map(piece).collect();
            let stem = record.name.strip_suffix(".weight").unwrap_or(&record.name);
            let are_columns = pieces.len() > 1
                && (stem == "tok_embeddings" || stem.ends_with("attention.wo") || stem.ends_with("feed_forward.w2"));
            let mut shape = record.shape.clone();
            if let Some(dim) = shape.get_mut(usize::from(!are_columns)).filter(|_| pieces.len() > 1) {
                *dim = dim.saturating_mul(pieces.len() as u64);
            }
            let Record { name, encoding, .. } = record.clone();
            if !names.insert(&record.name) {
                let expected = "a unique name: the file has two tensors of this name".to_owned();
                return Err(Error::Shape { path: self.path().to_owned(), tensor: name, found: shape, expected });
            }
            self.tensors.push(Tensor { name, shape, encoding, pieces, are_columns });
        }
        Ok(())
    }

    /// Determines whether rows of Q4_0 and Q4_1 are planar, as written by llama.cpp in March 2023, and always by bloomz.cpp: the scales are
    /// implausible as blocks and plausible as planes.
    fn find_planes(&mut self) -> Result<(), Error> {
        let may_be = self.container == Container::Ggml
            && self.generation == Generation::First
            && matches!(self.family, Family::Llama | Family::Bloom);
        if !may_be {
            return Ok(());
        }
        for ty in [gguf_format::GgmlType::Q4_0, gguf_format::GgmlType::Q4_1] {
            let wide = Encoding::Wide { ty, pairs: true };
            let (mut as_blocks, mut as_planes) = (true, true);
            let mut sample = None;
            for tensor in self.tensors.iter().filter(|t| t.encoding == wide).take(8) {
                let Some(piece) = tensor.pieces.first() else { continue };
                let (block_len, block_bytes) = wide.block();
                let mut row = Vec::new();
                let bytes = piece.row_len / block_len * block_bytes;
                // A row of the widest model is shorter than 1 MiB.
                if bytes > 16 << 20 {
                    continue;
                }
                row.resize(memory_len(bytes), 0);
                self.read(piece.part, piece.offset, &mut row)?;
                let mut blocks = vec![0; row.len()];
                blocks_of_planes(ty, &row, &mut blocks);
                as_blocks &= are_plausible(ty, &row);
                as_planes &= are_plausible(ty, &blocks);
                sample = Some(tensor.name.clone());
            }
            match (sample, as_blocks, as_planes) {
                (None, ..) | (_, true, _) => {}
                (Some(_), false, true) => {
                    for tensor in self.tensors.iter_mut().filter(|t| t.encoding == wide) {
                        tensor.encoding = Encoding::Planar(ty);
                    }
                }
                (Some(tensor), false, false) => {
                    return Err(Error::UnknownBlocks { path: self.path().to_owned(), tensor });
                }
            }
        }
        Ok(())
    }
}

/// Identifies a file; `None` if it is not a legacy file.
///
/// # Errors
/// If the file cannot be opened or read.
pub fn recognise(path: impl AsRef<Path>) -> Result<Option<Recognition>, Error> {
    let path = path.as_ref();
    let bytes = open(path)?;
    recognise_source(&bytes).map_err(Error::io("read", path))
}

/// Identifies a file by its bytes; `None` if they are not a legacy file.
///
/// ```
/// use gguf_legacy::{Container, recognise_source};
///
/// // The start of a file: magic and version, the hyperparameters of a Llama, and no tokens.
/// let head = [0x6767_6a74u32, 3, 32_000, 4096, 256, 32, 32, 128, 2];
/// let bytes: Vec<u8> = head.iter().flat_map(|number| number.to_le_bytes()).collect();
/// let found = recognise_source(&bytes)?.expect("a legacy file");
/// assert_eq!(found.container, Container::Ggjt(3));
/// assert!(found.problem.is_some_and(|problem| problem.is_truncated()));
/// assert!(recognise_source(&b"another file".as_slice())?.is_none());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Errors of the source.
pub fn recognise_source(bytes: &dyn ReadAt) -> std::io::Result<Option<Recognition>> {
    let len = bytes.size()?;
    Ok(match start(bytes, len)? {
        Start::Container(Container::Ggla, from) => Some(lora::recognise(bytes, len, from)?),
        Start::Container(container, from) => Some(detect(bytes, len, container, from, None)?.recognition()),
        Start::Session | Start::Other | Start::Bad(_) => None,
    })
}

/// The kind of a file that is not a legacy file.
fn kind(bytes: &dyn ReadAt, len: u64) -> FileKind {
    let mut first = vec![0; usize::try_from(len.min(512)).unwrap_or(0)];
    match bytes.read_exact_at(0, &mut first) {
        Ok(()) => FileKind::of(&first),
        Err(_) => FileKind::Unknown,
    }
}

pub(crate) fn open(path: &Path) -> Result<Bytes, Error> {
    match gguf_io::open_regular(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(gguf_io::Error::Io { source, .. }) => Err(Error::io("open", path)(source)),
        // No other error occurs.
        Err(_) => Err(Error::NotAFile { path: path.to_owned() }),
    }
}

/// The name of part `i`: the name of the first with a number appended.
fn part_path(first: &Path, i: u64) -> PathBuf {
    let mut path = first.as_os_str().to_owned();
    path.push(format!(".{i}"));
    path.into()
}

/// The first part of the model that a part belongs to, if it exists.
pub(crate) fn first_part(path: &Path) -> PathBuf {
    let is_number =
        |e: &std::ffi::OsStr| e.to_str().is_some_and(|e| !e.is_empty() && e.bytes().all(|b| b.is_ascii_digit()));
    match path.extension().is_some_and(is_number) {
        true if path.with_extension("").is_file() => path.with_extension(""),
        _ => path.to_owned(),
    }
}
