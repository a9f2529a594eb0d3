//! The corpus: small files in code, each with what reading and checking it must find.
//!
//! The classes are those of published holes in GGUF readers (counts and lengths that wrap, allocate or run past the end,
//! types used as an index, unchecked dimensions, alignments and offsets, nesting, truncation) and of the oddities that
//! real files have (old versions, both byte orders, the draft, counted NULs, other containers). A case's name begins with
//! its class.

pub mod accessors;
pub mod bytes;
mod dialects;
pub mod fields;
pub mod growth;
mod keys;
mod lengths;
pub mod other;
pub mod rewrite;
mod tensors;

/// A file, and the expected results.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    /// The file, or its first part.
    pub bytes: Vec<u8>,
    /// The length of the whole file.
    pub file_bytes: u64,
    pub reading: Reading,
    /// Codes of all findings that judging the structure gives, in alphabetical order.
    pub codes: Vec<&'static str>,
}

/// How reading ends when the length of the file is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    Sound,
    PastEnd,
    NotGguf,
    UnknownVersion,
    UnknownValueType,
    TooDeep,
    Alignment,
    DraftLength,
    DraftElements,
    DraftPadding,
}

/// Collects cases.
#[derive(Default)]
pub struct Corpus(Vec<Case>);

impl Corpus {
    /// A file that is given whole.
    pub fn add(&mut self, name: impl Into<String>, bytes: Vec<u8>, reading: Reading, codes: &[&'static str]) {
        let file_bytes = bytes.len() as u64;
        self.add_of(name, bytes, file_bytes, reading, codes);
    }

    /// The first part of a file of `file_bytes` bytes.
    pub fn add_of(
        &mut self,
        name: impl Into<String>,
        bytes: Vec<u8>,
        file_bytes: u64,
        reading: Reading,
        codes: &[&'static str],
    ) {
        let mut codes = codes.to_vec();
        codes.sort_unstable();
        codes.dedup();
        self.0.push(Case { name: name.into(), bytes, file_bytes, reading, codes });
    }

    /// A file without anything wrong.
    pub fn sound(&mut self, name: impl Into<String>, bytes: Vec<u8>) {
        self.add(name, bytes, Reading::Sound, &[]);
    }

    /// A file that can be read and has something wrong.
    pub fn reads(&mut self, name: impl Into<String>, bytes: Vec<u8>, codes: &[&'static str]) {
        self.add(name, bytes, Reading::Sound, codes);
    }

    /// A file whose head runs past its end.
    pub fn past_end(&mut self, name: impl Into<String>, bytes: Vec<u8>, codes: &[&'static str]) {
        self.add(name, bytes, Reading::PastEnd, codes);
    }
}

/// All cases.
pub fn all() -> Vec<Case> {
    let mut corpus = Corpus::default();
    other::cases(&mut corpus);
    lengths::cases(&mut corpus);
    keys::cases(&mut corpus);
    tensors::cases(&mut corpus);
    dialects::cases(&mut corpus);
    corpus.0
}
