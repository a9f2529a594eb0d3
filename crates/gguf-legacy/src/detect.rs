//! Identification of a file by its bytes.
//!
//! Every layout is tried. Several layouts with equally many fields may reach the end of the file; then the names of tensors and the shapes
//! given by the hyperparameters decide. A truncated file is identified by the best match of its start.

use std::fmt;

use gguf_format::keys::FileType;
use gguf_io::ReadAt;

use crate::block::Generation;
use crate::container::{Container, Magic};
use crate::cursor::{Cursor, Stop};
use crate::layout::{Family, Hparam, layouts};
use crate::malformed::Malformed;
use crate::names::{Name, name};
use crate::walk::{Sizes, TokenTexts, Walk};

/// The identity of a legacy file, as far as its bytes determine it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recognition {
    /// The container.
    pub container: Container,
    /// The architectures that match its bytes: one, unless the file is truncated before its first tensor.
    pub families: Vec<Family>,
    /// The file type in its header.
    pub file_type: Option<FileType>,
    /// The number of tensors found.
    pub n_tensors: usize,
    /// The first problem of the file, if any.
    pub problem: Option<Malformed>,
}

impl fmt::Display for Recognition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.container {
            Container::Ggla => f.write_str("a LoRA adapter (GGLA version 1)")?,
            container => {
                write!(f, "a legacy model ({container}")?;
                if let Some((first, more)) = self.families.split_first() {
                    write!(f, ", {first}")?;
                    more.iter().try_for_each(|family| write!(f, " or {family}"))?;
                }
                if let Some(file_type) = self.file_type {
                    write!(f, ", {file_type}")?;
                }
                f.write_str(")")?;
            }
        }
        match &self.problem {
            Some(problem) if problem.is_truncated() => {
                write!(f, ", cut short after {} whole tensors", self.n_tensors)
            }
            Some(problem) => write!(f, ", damaged: {problem}"),
            None => Ok(()),
        }
    }
}

/// The best walks of a file; several if nothing decides between them.
pub(crate) struct Detected {
    pub(crate) container: Container,
    pub(crate) best: Vec<Walk>,
}

/// The meaning of the first bytes.
pub(crate) enum Start {
    Container(Container, u64),
    Session,
    Other,
    Bad(Malformed),
}

/// Reads magic and version.
pub(crate) fn start(source: &dyn ReadAt, len: u64) -> std::io::Result<Start> {
    let mut cursor = Cursor::new(source, len);
    Ok(match Container::read(&mut cursor) {
        Ok(Magic::Container(container)) => Start::Container(container, cursor.pos()),
        Ok(Magic::Session) => Start::Session,
        Ok(Magic::Other) => Start::Other,
        Err(Stop::Bad(e)) => Start::Bad(e),
        Err(Stop::Io(e)) => return Err(e),
    })
}

/// Tries every layout of a container on a file whose magic and version end at `start`.
///
/// # Errors
/// Errors of the source.
pub(crate) fn detect(
    source: &dyn ReadAt,
    len: u64,
    container: Container,
    start: u64,
    asked: Option<Family>,
) -> std::io::Result<Detected> {
    let mut best = attempt(source, len, container, start, asked, None)?;
    if !best.iter().any(|walk| walk.end.is_none()) {
        let generation = best.first().map_or(Generation::Present, |walk| walk.sizes.generation);
        let usual = Sizes { generation, small: false, early_q8: false };
        // Determined by sizes, because no field records it. Only unversioned files may have blocks of another generation.
        let may_differ = container == Container::Ggml;
        let others = [
            (true, Sizes { small: true, ..usual }),
            (true, Sizes { early_q8: true, ..usual }),
            (may_differ, Sizes { generation: Generation::Present, ..usual }),
            (may_differ, Sizes { generation: Generation::First, ..usual }),
        ];
        for (_, sizes) in others.into_iter().filter(|(may_be, sizes)| *may_be && *sizes != usual) {
            let other = attempt(source, len, container, start, asked, Some(sizes))?;
            if other.iter().any(|walk| walk.end.is_none() && shapes_fit(walk) && has_all_blocks(walk)) {
                best = other;
                break;
            }
        }
    }
    Ok(Detected { container, best })
}

fn attempt(
    source: &dyn ReadAt,
    len: u64,
    container: Container,
    start: u64,
    asked: Option<Family>,
    sizes: Option<Sizes>,
) -> std::io::Result<Vec<Walk>> {
    let mut best: Vec<Walk> = Vec::new();
    let mut most = None;
    for layout in layouts(container) {
        if asked.is_some_and(|asked| !asked.shares_layout_with(layout.family)) {
            continue;
        }
        let walk = Walk::new(source, len, container, start, layout, sizes)?;
        let sense = Some(sense(&walk));
        if sense > most {
            (best, most) = (Vec::new(), sense);
        }
        if sense == most {
            best.push(walk);
        }
    }
    Ok(best)
}

/// The score of a walk; higher is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sense {
    has_known_tensors: bool,
    has_no_conflict: bool,
    is_complete: bool,
    is_truncated: bool,
    shapes_fit: bool,
    n_known: usize,
    n_tokens: usize,
    has_vocabulary: bool,
    n_hparams: usize,
}

fn sense(walk: &Walk) -> Sense {
    let family = walk.layout.family;
    let n_known = walk.records.iter().filter(|record| name(family, &record.name) != Name::Unknown).count();
    Sense {
        has_known_tensors: n_known > 0,
        has_no_conflict: walk.conflict.is_none(),
        is_complete: walk.end.is_none() && !walk.records.is_empty(),
        is_truncated: walk.end.as_ref().is_none_or(Malformed::is_truncated),
        shapes_fit: shapes_fit(walk),
        n_known,
        has_vocabulary: walk.has_vocabulary,
        // Layouts that read the vocabulary at the same offset differ only in the bytes before it.
        n_tokens: walk.tokens.iter().filter(|token| !token.is_empty()).count(),
        n_hparams: if walk.tokens.len() == 0 { walk.hparams.0.len() } else { 0 },
    }
}

/// Whether every block has tensors, so that the end of the file is the end of the model.
fn has_all_blocks(walk: &Walk) -> bool {
    let n_blocks = u64::from(walk.hparams.int(Hparam::Layer).max(walk.hparams.int(Hparam::TextLayer)));
    let mut last = walk.records.iter().filter_map(|record| match name(walk.layout.family, &record.name) {
        Name::Output(named) => named.block,
        _ => None,
    });
    last.any(|block| block + 1 == n_blocks)
}

/// Whether the embeddings and the number of blocks match the hyperparameters, as far as they are present.
fn shapes_fit(walk: &Walk) -> bool {
    let width = match walk.layout.family {
        Family::Whisper => Hparam::TextState,
        _ => Hparam::Embd,
    };
    let (width, vocab) = (u64::from(walk.hparams.int(width)), u64::from(walk.hparams.int(Hparam::Vocab)));
    walk.records.iter().all(|record| match name(walk.layout.family, &record.name) {
        // Parts of a model contain some of its columns.
        Name::Output(named) if named.stem == "token_embd" => {
            let row = record.shape.first().copied().unwrap_or(1);
            width.is_multiple_of(row.max(1)) && record.shape.get(1) == Some(&vocab)
        }
        Name::Output(named) => {
            let n_blocks = walk.hparams.int(Hparam::Layer).max(walk.hparams.int(Hparam::AudioLayer));
            let n_blocks = n_blocks.max(walk.hparams.int(Hparam::TextLayer));
            named.block.is_none_or(|block| block < u64::from(n_blocks))
        }
        _ => true,
    })
}

/// GPT-2, or StarCoder, which has the same layout, distinguished by the fill-in-the-middle tokens.
pub(crate) fn family_of(walk: &Walk) -> Family {
    let is_marker = |token: &[u8]| token == b"<fim_prefix>" || token == b"<fim-prefix>";
    match walk.layout.family {
        Family::Gpt2 if has_token(&walk.tokens, is_marker) => Family::StarCoder,
        family => family,
    }
}

fn has_token(tokens: &TokenTexts, is_it: impl Fn(&[u8]) -> bool) -> bool {
    tokens.iter().any(is_it)
}

impl Detected {
    /// The identity of the file.
    pub(crate) fn recognition(&self) -> Recognition {
        let mut families: Vec<Family> = self.best.iter().map(family_of).collect();
        families.dedup();
        let best = self.best.first();
        // A file that ends before its hyperparameters do is unidentified.
        let is_told = best.is_some_and(|walk| walk.hparams.0.len() == walk.layout.hparams.len());
        if !is_told {
            families.clear();
        }
        let file_type =
            best.filter(|_| is_told && families.len() == 1).map(|walk| FileType(walk.hparams.file_type().0));
        Recognition {
            container: self.container,
            families,
            file_type,
            n_tensors: best.map_or(0, |walk| walk.records.len()),
            problem: best.and_then(|walk| walk.conflict.clone().or_else(|| walk.end.clone())),
        }
    }
}
