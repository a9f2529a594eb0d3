//! Models in several files: the names of shards, and the consistency of their keys.
//!
//! A shard is named `<prefix>-00002-of-00003.gguf`, numbered from 1 (`llama_split_path` in `llama.cpp`). Each has the keys [`SPLIT_NO`],
//! numbered from 0, [`SPLIT_COUNT`] and [`SPLIT_TENSORS_COUNT`], the number of tensors of all shards; only the first has the other keys of
//! the model. llama.cpp loads such a model from its first shard and derives the names of the others from it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::Gguf;
pub use crate::keys::{SPLIT_COUNT, SPLIT_NO, SPLIT_TENSORS_COUNT};

/// Extension of model files.
pub const EXTENSION: &str = ".gguf";

/// The maximum number of shards of a model: `split.count` has 16 bits.
pub const MAX_SHARDS: u32 = 65535;

/// The shard number and the number of shards, numbered from 1 as in file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardNumber {
    no: u32,
    count: u32,
}

impl ShardNumber {
    /// Shard `no` of `count`; `None` unless `no` is from 1 to `count` and `count` is at most [`MAX_SHARDS`].
    pub fn new(no: u32, count: u32) -> Option<ShardNumber> {
        (1 <= no && no <= count && count <= MAX_SHARDS).then_some(ShardNumber { no, count })
    }

    /// Number of the shard, from 1.
    pub fn no(self) -> u32 {
        self.no
    }

    /// Number of the shard as in `split.no`, from 0.
    pub fn index(self) -> u32 {
        self.no - 1
    }

    /// Number of shards.
    pub fn count(self) -> u32 {
        self.count
    }
}

/// As in file names: `00002-of-00003`.
impl fmt::Display for ShardNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:05}-of-{:05}", self.no, self.count)
    }
}

/// An invalid shard number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAShardNumber;

impl fmt::Display for NotAShardNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a shard number of the form 00001-of-00003")
    }
}

impl core::error::Error for NotAShardNumber {}

impl FromStr for ShardNumber {
    type Err = NotAShardNumber;

    fn from_str(text: &str) -> Result<ShardNumber, NotAShardNumber> {
        let number = |digits: &str| {
            let is_number = digits.len() == 5 && digits.bytes().all(|b| b.is_ascii_digit());
            digits.parse().ok().filter(|_| is_number)
        };
        text.split_once("-of-")
            .and_then(|(no, count)| ShardNumber::new(number(no)?, number(count)?))
            .ok_or(NotAShardNumber)
    }
}

/// The file name of a shard, with optional directories.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardName<'a> {
    /// The part before the number: `dir/model`.
    pub prefix: &'a str,
    /// The shard number and the number of shards.
    pub number: ShardNumber,
}

impl<'a> ShardName<'a> {
    /// Reads the name of a shard; `None` for any other name.
    pub fn parse(name: &'a str) -> Option<ShardName<'a>> {
        const NUMBER_BYTES: usize = "00001-of-00003".len();
        let stem = name.strip_suffix(EXTENSION)?;
        let at = stem.len().checked_sub(NUMBER_BYTES)?;
        let number = stem.get(at..)?.parse().ok()?;
        let prefix = stem.get(..at)?.strip_suffix('-').filter(|prefix| !prefix.is_empty())?;
        Some(ShardName { prefix, number })
    }

    /// The names of all shards of the model, in order.
    pub fn siblings(&self) -> impl Iterator<Item = String> + use<'a> {
        names(self.prefix, self.number.count)
    }
}

impl fmt::Display for ShardName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}{EXTENSION}", self.prefix, self.number)
    }
}

/// The names of `count` shards, in order; empty if there are more than [`MAX_SHARDS`].
pub fn names(prefix: &str, count: u32) -> impl Iterator<Item = String> {
    (1..=count)
        .filter_map(move |no| ShardNumber::new(no, count))
        .map(move |number| format!("{}", ShardName { prefix, number }))
}

/// The split keys of one file, if present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ShardKeys {
    /// Value of `split.no`.
    pub no: Option<u64>,
    /// Value of `split.count`.
    pub count: Option<u64>,
    /// Value of `split.tensors.count`.
    pub tensors_count: Option<u64>,
    /// Number of tensors in this file.
    pub n_tensors: u64,
}

impl ShardKeys {
    /// Reads the split keys of a head; integers of any type are accepted.
    pub fn of(gguf: &Gguf<'_>) -> ShardKeys {
        ShardKeys {
            no: gguf.get_as(SPLIT_NO).ok(),
            count: gguf.get_as(SPLIT_COUNT).ok(),
            tensors_count: gguf.get_as(SPLIT_TENSORS_COUNT).ok(),
            n_tensors: gguf.n_tensors(),
        }
    }
}

/// A problem of a set of shards. Files are identified by their index in the checked list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardProblem {
    /// A file lacks a key that identifies its shard.
    MissingKey {
        /// Index of the file.
        file: usize,
        /// The key.
        key: &'static str,
    },
    /// A file is not the expected shard.
    WrongNumber {
        /// Index of the file, and the expected `split.no`.
        file: usize,
        /// The actual `split.no`.
        found: u64,
    },
    /// Two files have the same shard number.
    SameNumber {
        /// Indexes of the two files.
        files: [usize; 2],
        /// The `split.no` of both.
        no: u64,
    },
    /// The `split.count` of a file differs from the number of files.
    WrongCount {
        /// Index of the file.
        file: usize,
        /// Its `split.count`.
        found: u64,
        /// Number of files.
        files: u64,
    },
    /// The `split.tensors.count` of a file differs from that of the first.
    TensorsCountDiffers {
        /// Index of the file.
        file: usize,
        /// Its `split.tensors.count`.
        found: u64,
        /// The `split.tensors.count` of the first file that has one.
        expected: u64,
    },
    /// The total number of tensors differs from `split.tensors.count`.
    WrongTensorsCount {
        /// The `split.tensors.count` of the files.
        stated: u64,
        /// Actual number of tensors.
        found: u64,
    },
}

impl fmt::Display for ShardProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ShardProblem::MissingKey { file, key } => {
                write!(f, "shard {} has no key {key}", file.saturating_add(1))
            }
            ShardProblem::WrongNumber { file, found } => {
                write!(f, "shard {} has {SPLIT_NO} {found}, expected {file}", file.saturating_add(1))
            }
            ShardProblem::SameNumber { files: [a, b], no } => {
                write!(f, "shards {} and {} both have {SPLIT_NO} {no}", a.saturating_add(1), b.saturating_add(1))
            }
            ShardProblem::WrongCount { file, found, files } => {
                write!(f, "shard {} has {SPLIT_COUNT} {found}, but there are {files}", file.saturating_add(1))
            }
            ShardProblem::TensorsCountDiffers { file, found, expected } => write!(
                f,
                "shard {} has {SPLIT_TENSORS_COUNT} {found}, another one has {expected}",
                file.saturating_add(1)
            ),
            ShardProblem::WrongTensorsCount { stated, found } => {
                write!(f, "the shards hold {found} tensors, but {SPLIT_TENSORS_COUNT} is {stated}")
            }
        }
    }
}

/// All problems of the shards of a model, given in the order of their names. The keys are optional in a single file, and may have a
/// `split.count` of 0, as left by merging with `gguf-split`.
pub fn problems(files: &[ShardKeys]) -> Vec<ShardProblem> {
    let mut found = Vec::new();
    let n_files = files.len() as u64;
    let is_single = n_files == 1 && files.iter().all(|keys| keys.count.is_none_or(|count| count <= 1));
    if !is_single {
        let mut seen = BTreeMap::new();
        for (file, keys) in files.iter().enumerate() {
            match keys.no {
                None => found.push(ShardProblem::MissingKey { file, key: SPLIT_NO }),
                Some(no) => {
                    let earlier = *seen.entry(no).or_insert(file);
                    if earlier != file {
                        found.push(ShardProblem::SameNumber { files: [earlier, file], no });
                    } else if no != file as u64 {
                        found.push(ShardProblem::WrongNumber { file, found: no });
                    }
                }
            }
            match keys.count {
                // gguf-py and gguf-split write it into every shard; llama.cpp reads that of the first.
                None => found.push(ShardProblem::MissingKey { file, key: SPLIT_COUNT }),
                Some(count) if count != n_files => {
                    found.push(ShardProblem::WrongCount { file, found: count, files: n_files });
                }
                Some(_) => {}
            }
            if keys.tensors_count.is_none() {
                found.push(ShardProblem::MissingKey { file, key: SPLIT_TENSORS_COUNT });
            }
        }
    }
    if let Some(stated) = files.iter().find_map(|keys| keys.tensors_count) {
        for (file, keys) in files.iter().enumerate() {
            match keys.tensors_count {
                Some(count) if count != stated => {
                    found.push(ShardProblem::TensorsCountDiffers { file, found: count, expected: stated });
                }
                _ => {}
            }
        }
        let n_tensors = files.iter().fold(0u64, |sum, keys| sum.saturating_add(keys.n_tensors));
        if n_tensors != stated {
            found.push(ShardProblem::WrongTensorsCount { stated, found: n_tensors });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shard_numbers() {
        let cases: &[(&str, Option<(u32, u32)>)] = &[
            ("00001-of-00003", Some((1, 3))),
            ("00003-of-00003", Some((3, 3))),
            ("65535-of-65535", Some((65535, 65535))),
            ("00000-of-00003", None),
            ("00004-of-00003", None),
            ("00001-of-65536", None),
            ("1-of-3", None),
            ("000001-of-00003", None),
            ("00001-of-0000３", None),
            ("+0001-of-00003", None),
            ("00001-of-00003-of-00004", None),
            ("00001", None),
            ("", None),
        ];
        for &(text, numbers) in cases {
            let number = text.parse::<ShardNumber>().ok();
            assert_eq!(number.map(|n| (n.no(), n.count())), numbers, "{text}");
            assert!(number.is_none_or(|n| format!("{n}") == text && n.index() + 1 == n.no()));
        }
    }

    #[test]
    fn shard_names() {
        let cases: &[(&str, Option<&str>)] = &[
            ("model-00002-of-00003.gguf", Some("model")),
            ("/dir/Grok-100B-v1.0-Q4_0-00003-of-00009.gguf", Some("/dir/Grok-100B-v1.0-Q4_0")),
            ("é-00002-of-00003.gguf", Some("é")),
            ("a-00001-of-00002-00001-of-00001.gguf", Some("a-00001-of-00002")),
            ("-00002-of-00003.gguf", None),
            ("00002-of-00003.gguf", None),
            ("model00002-of-00003.gguf", None),
            ("model-00002-of-00003.GGUF", None),
            ("model-00002-of-00003", None),
            ("model-2-of-3.gguf", None),
            ("model-éé02-of-00003.gguf", None),
            ("model.gguf", None),
            (".gguf", None),
            ("", None),
        ];
        for &(name, prefix) in cases {
            let shard = ShardName::parse(name);
            assert_eq!(shard.map(|shard| shard.prefix), prefix, "{name}");
            assert!(shard.is_none_or(|shard| format!("{shard}") == name));
        }
        let shard = ShardName::parse("d/m-00002-of-00003.gguf").unwrap();
        let siblings: Vec<_> = shard.siblings().collect();
        assert_eq!(siblings, ["d/m-00001-of-00003.gguf", "d/m-00002-of-00003.gguf", "d/m-00003-of-00003.gguf"]);
        assert_eq!(names("m", 0).count(), 0);
        assert_eq!(names("m", MAX_SHARDS).last().as_deref(), Some("m-65535-of-65535.gguf"));
    }

    #[test]
    fn shards_must_agree() {
        use ShardProblem::*;
        let shard = |no: u64, count: u64, tensors_count: u64, n_tensors: u64| ShardKeys {
            no: Some(no),
            count: Some(count),
            tensors_count: Some(tensors_count),
            n_tensors,
        };
        let none = ShardKeys { n_tensors: 4, ..ShardKeys::default() };
        let cases: &[(&[ShardKeys], &[ShardProblem])] = &[
            (&[], &[]),
            (&[none], &[]),
            (&[shard(0, 1, 4, 4)], &[]),
            (&[shard(0, 0, 4, 4)], &[]),
            (&[shard(0, 2, 5, 3), shard(1, 2, 5, 2)], &[]),
            (&[shard(0, 2, 5, 0), shard(1, 2, 5, 5)], &[]),
            (&[shard(0, 0, 4, 3)], &[WrongTensorsCount { stated: 4, found: 3 }]),
            (&[shard(0, 3, 4, 4)], &[WrongCount { file: 0, found: 3, files: 1 }]),
            (
                &[shard(1, 2, 5, 3), shard(0, 2, 5, 2)],
                &[WrongNumber { file: 0, found: 1 }, WrongNumber { file: 1, found: 0 }],
            ),
            (&[shard(0, 2, 5, 3), shard(0, 2, 5, 2)], &[SameNumber { files: [0, 1], no: 0 }]),
            (
                &[shard(0, 2, 5, 3), none],
                &[
                    MissingKey { file: 1, key: SPLIT_NO },
                    MissingKey { file: 1, key: SPLIT_COUNT },
                    MissingKey { file: 1, key: SPLIT_TENSORS_COUNT },
                    WrongTensorsCount { stated: 5, found: 7 },
                ],
            ),
            (
                &[shard(0, 2, 5, 3), shard(1, 3, 6, 2)],
                &[WrongCount { file: 1, found: 3, files: 2 }, TensorsCountDiffers { file: 1, found: 6, expected: 5 }],
            ),
            (
                &[shard(u64::MAX, 2, u64::MAX, u64::MAX), shard(1, 2, u64::MAX, 1)],
                &[WrongNumber { file: 0, found: u64::MAX }],
            ),
        ];
        for (files, expected) in cases {
            assert_eq!(problems(files), *expected, "{files:?}");
        }
        let text = format!("{}", WrongNumber { file: 1, found: 4 });
        assert_eq!(text, "shard 2 has split.no 4, expected 1");
    }
}
