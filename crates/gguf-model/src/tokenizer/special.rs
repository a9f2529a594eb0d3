//! Tokens that are not text: what llama.cpp makes of the types in a file, and how it finds such tokens in a text.
//!
//! llama.cpp corrects the types of tokens whose texts it knows (`llama_vocab::impl::load` in `llama-vocab.cpp`). If several tokens have a text
//! that is known for one role, and the file has no key for that role, it takes the one that its hash table has first; here it is the one with the
//! lowest id.

use std::collections::{BTreeSet, HashMap};

use gguf_format::StringIndex;
use gguf_format::keys::TokenType;
use gguf_format::sort::CompactSort as _;

use super::{Role, Vocab};

/// A set of properties of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Attributes(u8);

impl Attributes {
    pub(super) const NORMAL: Attributes = Attributes(1);
    pub(super) const UNKNOWN: Attributes = Attributes(2);
    pub(super) const CONTROL: Attributes = Attributes(4);
    pub(super) const USER_DEFINED: Attributes = Attributes(8);
    pub(super) const BYTE: Attributes = Attributes(16);
    /// White space before it is part of the token.
    const STRIPS_LEFT: Attributes = Attributes(32);
    /// White space after it is part of the token.
    const STRIPS_RIGHT: Attributes = Attributes(64);

    const fn or(self, other: Attributes) -> Attributes {
        Attributes(self.0 | other.0)
    }

    pub(super) const fn any(self, of: Attributes) -> bool {
        self.0 & of.0 != 0
    }

    /// Whether it is matched in a text only on request, and not displayed otherwise.
    pub(super) fn is_hidden(self) -> bool {
        self.any(Attributes::CONTROL.or(Attributes::UNKNOWN))
    }

    /// Whether it is matched in a text before all else.
    fn is_matched(self) -> bool {
        self.is_hidden() || self.any(Attributes::USER_DEFINED)
    }
}

/// Tokens that fill gaps, by the role whose key the file may lack.
const FILLERS: [(Role, &[&str]); 6] = [
    (
        Role::FimPre,
        &[
            "<|fim_prefix|>",
            "<fim-prefix>",
            "<fim_prefix>",
            "<｜fim▁begin｜>",
            "<PRE>",
            "▁<PRE>",
            "<|code_prefix|>",
            "<|prefix|>",
        ],
    ),
    (
        Role::FimSuf,
        &[
            "<|fim_suffix|>",
            "<fim-suffix>",
            "<fim_suffix>",
            "<｜fim▁hole｜>",
            "<SUF>",
            "▁<SUF>",
            "<|code_suffix|>",
            "<|suffix|>",
        ],
    ),
    (
        Role::FimMid,
        &[
            "<|fim_middle|>",
            "<fim-middle>",
            "<fim_middle>",
            "<｜fim▁end｜>",
            "<MID>",
            "▁<MID>",
            "<|code_middle|>",
            "<|middle|>",
        ],
    ),
    (Role::FimPad, &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"]),
    (Role::FimRep, &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"]),
    (Role::FimSep, &["<|file_sep|>"]),
];

/// Tokens that end a generation.
const ENDS: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
];

/// Tokens that are always displayed.
const SHOWN: &[&str] = &["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"];

/// The attributes of all tokens.
pub(super) fn attributes(vocab: &Vocab<'_>, id: impl Fn(&str) -> Option<u32>) -> Vec<Attributes> {
    let of_type = |ty: Option<TokenType>| match ty {
        Some(TokenType::Normal) => Attributes::NORMAL,
        Some(TokenType::Unknown) => Attributes::UNKNOWN,
        Some(TokenType::Control) => Attributes::CONTROL,
        Some(TokenType::UserDefined) => Attributes::USER_DEFINED,
        Some(TokenType::Byte) => Attributes::BYTE,
        _ => Attributes::default(),
    };
    let mut all: Vec<Attributes> = (0u32..).take(vocab.len()).map(|id| of_type(vocab.token_type(id))).collect();
    let mut change = |id: Option<u32>, change: &dyn Fn(Attributes) -> Attributes| {
        if let Some(own) = id.and_then(|id| all.get_mut(id as usize)) {
            *own = change(*own);
        }
    };
    for (role, texts) in FILLERS {
        if vocab.special(role).is_none() {
            let first = texts.iter().filter_map(|text| id(text)).min();
            change(first, &|own| own.or(Attributes::CONTROL));
        }
    }
    for text in ENDS {
        change(id(text), &|own| own.or(Attributes::CONTROL));
    }
    for text in SHOWN {
        change(id(text), &|_| Attributes::USER_DEFINED);
    }
    let has = |text: &str| id(text).is_some();
    let (calls, flushes) = (has("<|call|>") || has("<|calls|>"), has("<|flush|>"));
    if calls && (has("<|return|>") || flushes) {
        change(id("<|end|>"), &|_| Attributes::USER_DEFINED);
    }
    if has("<|tool_response>") {
        change(id("</s>"), &|_| Attributes::NORMAL);
    }
    strip(vocab, id, &mut all);
    all
}

/// White space beside a token is part of it in models that llama.cpp recognizes by their names.
fn strip(vocab: &Vocab<'_>, id: impl Fn(&str) -> Option<u32>, all: &mut [Attributes]) {
    let name = vocab.name.to_ascii_lowercase();
    let pre = vocab.pre().unwrap_or_default();
    let any = |text: &str, parts: &[&str]| parts.iter().any(|part| text.contains(part));
    let mut add = |id: Option<u32>, attribute: Attributes| {
        if let Some(own) = id.and_then(|id| all.get_mut(id as usize)) {
            *own = own.or(attribute);
        }
    };
    if any(pre, &["jina-v2-de", "jina-v2-es", "jina-v2-code"])
        || any(vocab.architecture, &["nomic-bert-moe", "jina-bert-v3"])
    {
        add(id("<mask>"), Attributes::STRIPS_LEFT);
    } else if any(&name, &["phi-3", "phi3"]) {
        let kept = ["<unk>", "<s>", "<|endoftext|>"].map(&id);
        for (own, i) in all.iter_mut().zip(0..) {
            let is_stripped = (own.is_matched() || id("</s>") == Some(i)) && !kept.contains(&Some(i));
            if is_stripped {
                *own = own.or(Attributes::STRIPS_RIGHT);
            }
        }
    } else if any(&name, &["modern-bert"]) {
        add(id("[MASK]"), Attributes::STRIPS_LEFT);
    }
}

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'t> {
    Text(&'t str),
    Token(u32),
}

/// The tokens that are matched in a text before all else.
#[derive(Debug, Clone, Default)]
pub(super) struct Specials<'a> {
    /// Longest first, then by id.
    tokens: Vec<(u32, &'a str, Attributes)>,
    by_text: HashMap<&'a str, usize>,
    lengths: BTreeSet<usize>,
    /// By first byte, whether there is such a token.
    begins: Vec<bool>,
}

impl<'a> Specials<'a> {
    pub(super) fn new(texts: &StringIndex<'a>, attributes: &[Attributes]) -> Specials<'a> {
        let mut tokens = Vec::new();
        for ((text, own), id) in texts.iter().zip(attributes).zip(0..) {
            // A part of a character is in no text.
            if let Ok(text) = text.to_str()
                && !text.is_empty()
                && own.is_matched()
            {
                tokens.push((id, text, *own));
            }
        }
        tokens.compact_sort_by_key(|(_, text, _)| std::cmp::Reverse(text.len()));
        let mut begins = vec![false; 256];
        for (_, text, _) in &tokens {
            if let Some(place) = text.as_bytes().first().and_then(|b| begins.get_mut(usize::from(*b))) {
                *place = true;
            }
        }
        let by_text = tokens.iter().zip(0..).map(|((_, text, _), at)| (*text, at)).collect();
        let lengths = tokens.iter().map(|(_, text, _)| text.len()).collect();
        Specials { tokens, by_text, lengths, begins }
    }

    /// Cuts a text at the tokens: at the longest ones first, wherever they are. Control tokens only if `parse` is set.
    pub(super) fn cut<'t>(&self, text: &'t str, parse: bool) -> Vec<Part<'t>> {
        if text.is_empty() {
            return Vec::new();
        }
        let mut parts = vec![Part::Text(text)];
        for at in self.occurring(text) {
            let Some((id, token, attributes)) = self.tokens.get(at) else { continue };
            if attributes.is_hidden() && !parse {
                continue;
            }
            let before = std::mem::take(&mut parts);
            for part in before {
                match part {
                    Part::Text(text) => cut_at(text, *id, token, *attributes, &mut parts),
                    token => parts.push(token),
                }
            }
        }
        parts
    }

    /// The tokens that occur in a text.
    fn occurring(&self, text: &str) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        for (i, b) in text.bytes().enumerate() {
            if self.begins.get(usize::from(b)) != Some(&true) {
                continue;
            }
            let here = self.lengths.iter().filter_map(|len| text.get(i..i + len));
            found.extend(here.filter_map(|part| self.by_text.get(part)));
        }
        found
    }
}

/// Cuts a text at a token.
fn cut_at<'t>(mut text: &'t str, id: u32, token: &str, attributes: Attributes, parts: &mut Vec<Part<'t>>) {
    let is_space = |c: char| matches!(c, ' ' | '\t'..='\r');
    while let Some((mut before, mut after)) = text.split_once(token) {
        if attributes.any(Attributes::STRIPS_LEFT) {
            before = before.trim_end_matches(is_space);
        }
        if attributes.any(Attributes::STRIPS_RIGHT) {
            after = after.trim_start_matches(is_space);
        }
        if !before.is_empty() {
            parts.push(Part::Text(before));
        }
        parts.push(Part::Token(id));
        text = after;
    }
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
}
