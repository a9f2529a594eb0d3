//! The corpus: small generated files, each with the expected results of reading and checking.
//!
//! The classes are those of published vulnerabilities of GGUF readers (counts and lengths that wrap, allocate or exceed the file, types
//! used as an index, unchecked dimensions, alignments and offsets, nesting, truncation) and of peculiarities of real files (old versions,
//! both byte orders, the draft, counted NULs, other containers). A case's name begins with its class.

pub mod accessors;
pub mod bytes;
mod dialects;
pub mod fields;
pub mod growth;
mod keys;
mod lengths;
pub mod other;
pub mod rewrite;
pub mod tensors;

/// A file, and the expected results.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    /// The file, or its first part.
    pub bytes: Vec<u8>,
    /// The length of the whole file.
    pub file_bytes: u64,
    pub reading: Reading,
    /// The codes of all structural findings, in alphabetical order.
    pub codes: Vec<&'static str>,
}

/// The result of reading if the length of the file is known.
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
    /// A complete file.
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

    /// A file without findings.
    pub fn sound(&mut self, name: impl Into<String>, bytes: Vec<u8>) {
        self.add(name, bytes, Reading::Sound, &[]);
    }

    /// A readable file with findings.
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
