//! Joins files that were divided into pieces of bytes, for an upload or by `split`.
//!
//! Unlike the shards of a model, the pieces are not GGUF files. They are found by their names:
//!
//! | name | pieces |
//! |---|---|
//! | `model.gguf.part1of3`, `model.gguf-part-1-of-3` | `1` to the number in the name |
//! | `model.gguf.part1`, `model.gguf.part01`, `model.gguf-split-a`, `model.gguf.partaa` | all consecutive ones |
//! | `model.gguf.001`, `model.gguf.aa` | all consecutive ones |
//!
//! Names without the number of pieces do not identify the last one: the head of the model, which contains the end of its last tensor,
//! determines whether pieces are missing.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use gguf_format::MAGIC;
use gguf_format::sort::CompactSort as _;
use gguf_io::{ModelFile, Output, ReadAt, open_regular};
use gguf_pipeline::{Event, Progress, workers};

use crate::error::{Error, PiecesProblem};

/// Bytes to copy at a time.
const PIECE: u64 = 16 << 20;

/// The maximum number of pieces of one file.
const MAX_PIECES: usize = 100_000;

/// Pieces that form a model.
#[derive(Debug)]
#[non_exhaustive]
pub struct Join {
    /// The pieces in order.
    pub pieces: Vec<PathBuf>,
    /// Bytes of all of them.
    pub file_bytes: u64,
    /// Number of tensors of the model.
    pub n_tensors: u64,
    files: Vec<(File, u64)>,
}

/// Whether a file is a piece, by its name.
pub fn is_piece(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| PieceName::parse(name).is_some())
}

/// Finds the pieces of a file: all those of a single given one, or the given ones, in order.
///
/// # Errors
/// [`Error::Pieces`]; also if a piece cannot be read, or if they do not form a GGUF file.
pub fn join(paths: &[PathBuf]) -> Result<Join, Error> {
    let pieces = match paths {
        [one] => siblings(one)?,
        several => in_order(several),
    };
    let first = pieces.first().cloned().unwrap_or_default();
    let bad = |path: &Path, problem| Error::Pieces { path: path.to_owned(), problem };
    let mut files = Vec::new();
    let mut file_bytes = 0u64;
    for (i, path) in pieces.iter().enumerate() {
        let io = |source| gguf_io::Error::Io { path: path.clone(), action: "open", source };
        let file = open_regular(path)?;
        let bytes = file.size().map_err(io)?;
        let mut magic = [0; 4];
        if i > 0 && file.read_exact_at(0, &mut magic).is_ok() && magic == MAGIC {
            return Err(bad(path, PiecesProblem::NotFirst));
        }
        file_bytes = file_bytes.saturating_add(bytes);
        files.push((file, bytes));
    }
    let source = Joined(
        files
            .iter()
            .map(|(file, bytes)| Ok((file.try_clone()?, *bytes)))
            .collect::<io::Result<_>>()
            .map_err(|source| gguf_io::Error::Io { path: first.clone(), action: "open", source })?,
    );
    let model = ModelFile::from_source(source, &first)?;
    for tensor in model.tensors() {
        match tensor.byte_range() {
            Err(gguf_io::Error::Tensor { problem: gguf_io::TensorProblem::Truncated { .. }, .. }) => {
                let ends = model.tensors().filter_map(|t| model.gguf().tensor_range(&t.info()).ok());
                let needed = ends.map(|range| range.end).max().unwrap_or(0);
                return Err(bad(&first, PiecesProblem::Short { found: file_bytes, needed }));
            }
            range => _ = range?,
        }
    }
    Ok(Join { n_tensors: model.gguf().n_tensors(), pieces, file_bytes, files })
}

impl Join {
    /// Checks the path of the output as [`run`](Join::run) does before its work.
    ///
    /// # Errors
    /// If the output would replace a piece, exists and may not be replaced, or its folder is missing.
    pub fn check_output(&self, out: &Path, force: bool) -> Result<(), Error> {
        let real = |path: &Path| path.canonicalize().ok();
        if real(out).is_some_and(|out| self.pieces.iter().any(|piece| real(piece).as_ref() == Some(&out))) {
            return Err(gguf_pipeline::Error::OverwritesInput { path: out.to_owned() }.into());
        }
        Ok(Output::may_write(out, force)?)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If the output would replace a piece or exists already, and errors of the system. No output is left then.
    pub fn run(
        &self,
        out: &Path,
        force: bool,
        threads: Option<NonZeroUsize>,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        self.check_output(out, force)?;
        let output = Output::create(out, force)?;
        progress.event(Event::Opened { path: out });
        output.set_len(self.file_bytes)?;
        progress.event(Event::Started { n_tensors: self.pieces.len(), bytes: self.file_bytes });
        workers::for_each(
            threads,
            self.ranges(),
            progress,
            || (),
            |(), (i, from, at, bytes)| {
                let Some(((file, _), path)) = self.files.get(i).zip(self.pieces.get(i)) else { return Ok(()) };
                if from == 0 {
                    progress.event(Event::Tensor { index: i, name: &path.to_string_lossy() });
                }
                output.copy_from(at, file, from..from.saturating_add(bytes))?;
                progress.event(Event::Advanced { bytes });
                Ok::<_, Error>(())
            },
        )?;
        progress.event(Event::Written);
        output.commit()?;
        progress.event(Event::Finished);
        Ok(())
    }

    /// Compares the output with the pieces.
    ///
    /// # Errors
    /// [`Error::NotVerified`], and errors of the system.
    pub fn verify(&self, out: &Path, threads: Option<NonZeroUsize>, progress: &dyn Progress) -> Result<(), Error> {
        let io = |source| gguf_io::Error::Io { path: out.to_owned(), action: "read back", source };
        let written = open_regular(out)?;
        let wrong = |what| Error::NotVerified { path: out.to_owned(), what };
        let found = written.size().map_err(io)?;
        if found != self.file_bytes {
            return Err(wrong(format!("it has {found} bytes, not {}", self.file_bytes)));
        }
        progress.event(Event::Started { n_tensors: self.pieces.len(), bytes: self.file_bytes });
        let buffers = <[Vec<u8>; 2]>::default;
        workers::for_each(threads, self.ranges(), progress, buffers, |[x, y], (i, from, at, bytes)| {
            let Some(((file, _), path)) = self.files.get(i).zip(self.pieces.get(i)) else { return Ok(()) };
            x.resize(usize::try_from(bytes).unwrap_or(0), 0);
            y.resize(x.len(), 0);
            let io = |source| gguf_io::Error::Io { path: path.clone(), action: "read", source };
            file.read_exact_at(from, x).map_err(io)?;
            let io = |source| gguf_io::Error::Io { path: out.to_owned(), action: "read back", source };
            written.read_exact_at(at, y).map_err(io)?;
            if x != y {
                return Err(wrong(format!("the bytes {at} to {} are not those of {}", at + bytes, path.display())));
            }
            progress.event(Event::Advanced { bytes });
            Ok(())
        })?;
        progress.event(Event::Finished);
        Ok(())
    }

    /// Parts of pieces: index of the piece, offset in it, offset in the whole, and bytes.
    fn ranges(&self) -> impl Iterator<Item = (usize, u64, u64, u64)> + Clone {
        let starts = self.files.iter().scan(0u64, |end, (_, bytes)| {
            let start = *end;
            *end = end.saturating_add(*bytes);
            Some((start, *bytes))
        });
        starts.enumerate().flat_map(|(i, (start, bytes))| {
            (0..bytes.div_ceil(PIECE)).map(move |n| {
                let from = n * PIECE;
                (i, from, start.saturating_add(from), PIECE.min(bytes - from))
            })
        })
    }
}

/// Concatenated files.
#[derive(Debug)]
struct Joined(Vec<(File, u64)>);

impl ReadAt for Joined {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.iter().map(|(_, bytes)| bytes).fold(0, |sum, bytes| sum.saturating_add(*bytes)))
    }

    fn read_exact_at(&self, mut offset: u64, mut buf: &mut [u8]) -> io::Result<()> {
        for (file, bytes) in &self.0 {
            if buf.is_empty() {
                break;
            }
            let Some(left) = bytes.checked_sub(offset).filter(|left| *left > 0) else {
                offset = offset.saturating_sub(*bytes);
                continue;
            };
            let n = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
            let (now, later) = std::mem::take(&mut buf).split_at_mut(n);
            file.read_exact_at(offset, now)?;
            (buf, offset) = (later, 0);
        }
        if buf.is_empty() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// The name of a piece: the part before its number, the number, and the part after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PieceName<'a> {
    before: &'a str,
    number: &'a str,
    /// The separator and the number of pieces.
    of: Option<(&'a str, usize)>,
}

impl<'a> PieceName<'a> {
    fn parse(name: &'a str) -> Option<PieceName<'a>> {
        let (rest, last) = token(name)?;
        // `1of3`, `1-of-3`
        let of = ["of", "-of-", "_of_", ".of."].into_iter().filter_map(|of| Some((rest.strip_suffix(of)?, of)));
        for (rest, of) in of {
            let (before, number) = token(rest)?;
            let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
            if is_number(number) && is_number(last) && is_marked(before) && !before.ends_with(".gguf.") {
                let at = before.len() + number.len();
                let of = name.get(at..at + of.len())?;
                return Some(PieceName { before, number, of: Some((of, last.parse().ok()?)) });
            }
        }
        let is_letters = last.bytes().all(|b| b.is_ascii_lowercase());
        // `.001`, `.aa`; a single letter or digit is ambiguous.
        let is_bare = rest.ends_with(".gguf.") && last.len() >= 2;
        let fits = last.len() <= if is_letters { 2 } else { 5 };
        (fits && (is_bare || is_marked(rest))).then_some(PieceName { before: rest, number: last, of: None })
    }

    /// The name of the piece with that index, relative to the first.
    fn nth(&self, n: usize) -> Option<String> {
        let width = self.number.len();
        let number = if self.number.bytes().all(|b| b.is_ascii_digit()) {
            let number = n.to_string();
            let is_padded = self.number.starts_with('0') && width > 1;
            if is_padded { format!("{n:0width$}") } else { number }
        } else {
            let mut left = n;
            let mut letters = vec![b'a'; width];
            for letter in letters.iter_mut().rev() {
                *letter = b'a' + u8::try_from(left % 26).ok()?;
                left /= 26;
            }
            if left > 0 {
                return None;
            }
            String::from_utf8(letters).ok()?
        };
        let of = self.of.map_or(String::new(), |(of, count)| {
            // The number of pieces has the same width as in this name.
            format!("{of}{count:0>digits$}", digits = self.count_width())
        });
        Some(format!("{}{number}{of}", self.before))
    }

    fn count_width(&self) -> usize {
        if self.number.starts_with('0') { self.number.len() } else { 0 }
    }
}

/// Digits or lower-case letters at the end of a name, and the part before them.
fn token(name: &str) -> Option<(&str, &str)> {
    let digits = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if digits.len() < name.len() {
        return Some(name.split_at(digits.len()));
    }
    // Letters must follow a separator, or the word that marks a piece.
    let letters = name.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let word = name.get(letters.len()..)?;
    let marked =
        MARKS.iter().find(|mark| word.len() > mark.len() && word.starts_with(**mark)).map_or(0, |mark| mark.len());
    let at = letters.len() + marked;
    (at < name.len()).then(|| name.split_at(at))
}

/// Words that mark pieces.
const MARKS: [&str; 2] = ["part", "split"];

/// Whether such a word is at the end, after a separator.
fn is_marked(before: &str) -> bool {
    let signs = ['.', '-', '_'];
    let word = before.strip_suffix(signs).unwrap_or(before);
    MARKS.iter().any(|mark| word.strip_suffix(mark).is_some_and(|rest| rest.ends_with(signs)))
}

/// All pieces of the file that one of them belongs to.
fn siblings(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let bad = |problem| Error::Pieces { path: path.to_owned(), problem };
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.and_then(PieceName::parse).ok_or_else(|| bad(PiecesProblem::Name))?;
    let at = |n: usize| Some(path.with_file_name(name.nth(n)?));
    let exists = |path: &PathBuf| path.exists();
    let is_digits = name.number.bytes().all(|b| b.is_ascii_digit());
    let first: usize = match at(0) {
        Some(zero) if !is_digits || (name.of.is_none() && exists(&zero)) => 0,
        _ => 1,
    };
    let mut pieces = Vec::new();
    if let Some((_, count)) = name.of {
        for n in 1..=count.min(MAX_PIECES) {
            let piece = at(n).ok_or_else(|| bad(PiecesProblem::Name))?;
            if !exists(&piece) {
                return Err(bad(PiecesProblem::Missing(piece)));
            }
            pieces.push(piece);
        }
        return Ok(pieces);
    }
    for n in first..first.saturating_add(MAX_PIECES) {
        match at(n).filter(exists) {
            Some(piece) => pieces.push(piece),
            None => break,
        }
    }
    if !pieces.iter().any(|piece| piece == path) {
        // There is a gap between the first pieces and this one.
        let missing = at(first.saturating_add(pieces.len())).ok_or_else(|| bad(PiecesProblem::Name))?;
        return Err(bad(PiecesProblem::Missing(missing)));
    }
    Ok(pieces)
}

/// The given pieces, sorted by number if all names follow the same pattern, otherwise in the given order.
fn in_order(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut numbered = Vec::new();
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(PieceName::parse);
        let Some(name) = name else { return paths.to_vec() };
        // At the same width, letters and digits sort by their bytes.
        numbered.push(((name.before.to_owned(), name.number.len(), name.number.to_owned()), path.clone()));
    }
    let same = numbered.windows(2).all(|pair| matches!(pair, [a, b] if a.0.0 == b.0.0));
    if !same {
        return paths.to_vec();
    }
    numbered.compact_sort_by(Ord::cmp);
    numbered.dedup_by(|a, b| a.0 == b.0);
    numbered.into_iter().map(|(_, path)| path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pieces() {
        /// The part before the number, the number, the number of pieces, and the name of number 2.
        type Parts = (&'static str, &'static str, Option<usize>, &'static str);
        let cases: &[(&str, Option<Parts>)] = &[
            ("m.gguf.part1of2", Some(("m.gguf.part", "1", Some(2), "m.gguf.part2of2"))),
            ("m.Q4_K_M.gguf.part03of12", Some(("m.Q4_K_M.gguf.part", "03", Some(12), "m.Q4_K_M.gguf.part02of12"))),
            ("m.gguf-part-1-of-2", Some(("m.gguf-part-", "1", Some(2), "m.gguf-part-2-of-2"))),
            ("m.gguf-split-a", Some(("m.gguf-split-", "a", None, "m.gguf-split-c"))),
            ("m.gguf.partaa", Some(("m.gguf.part", "aa", None, "m.gguf.partac"))),
            ("m.gguf.part_aa", Some(("m.gguf.part_", "aa", None, "m.gguf.part_ac"))),
            ("m.gguf.part1", Some(("m.gguf.part", "1", None, "m.gguf.part2"))),
            ("m.part00", Some(("m.part", "00", None, "m.part02"))),
            ("m.gguf.001", Some(("m.gguf.", "001", None, "m.gguf.002"))),
            ("m.gguf.ab", Some(("m.gguf.", "ab", None, "m.gguf.ac"))),
            ("m.gguf", None),
            ("model-7b", None),
            ("m-00001-of-00002.gguf", None),
            ("m-00001-of-00002", None),
            ("m.gguf.bak", None),
            ("m.gguf.partial", None),
            ("m.gguf.1", None),
            ("party", None),
            ("part1", None),
            ("", None),
        ];
        for &(text, expected) in cases {
            let name = PieceName::parse(text);
            let found = name.map(|n| (n.before, n.number, n.of.map(|of| of.1)));
            assert_eq!(found, expected.map(|(before, number, of, _)| (before, number, of)), "{text}");
            if let (Some(name), Some((.., second))) = (name, expected) {
                assert_eq!(name.nth(2).as_deref(), Some(second), "{text}");
            }
        }
    }

    #[test]
    fn letters_count_on() {
        let name = PieceName::parse("m.gguf.partaa").unwrap();
        assert_eq!(name.nth(26).as_deref(), Some("m.gguf.partba"));
        assert_eq!(name.nth(675).as_deref(), Some("m.gguf.partzz"));
        assert_eq!(name.nth(676), None);
    }
}
