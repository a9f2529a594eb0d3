//! Text to token ids, and back.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use gguf_format::check::shown;
use gguf_format::{Str, StringIndex};

use super::error::EncoderError;
use super::merge::{Chain, NO_SYMBOL, Score};
use super::pre::{self, Cutter, PreTokenizer};
use super::special::{self, Attributes, Part, Specials};
use super::{Role, TokenizerKind, Vocab, split_merge};

/// How a text is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EncodeOptions {
    /// Whether the tokens that begin and end a text are added, as far as the model adds them.
    pub add_special: bool,
    /// Whether the texts of control tokens, such as `<|im_end|>`, become these tokens. Texts of users should be encoded without.
    pub parse_special: bool,
}

impl Default for EncodeOptions {
    /// Adds and parses special tokens.
    fn default() -> EncodeOptions {
        EncodeOptions { add_special: true, parse_special: true }
    }
}

impl EncodeOptions {
    /// The same options, adding special tokens or not.
    pub fn add_special(self, add_special: bool) -> EncodeOptions {
        EncodeOptions { add_special, ..self }
    }

    /// The same options, parsing special tokens or not.
    pub fn parse_special(self, parse_special: bool) -> EncodeOptions {
        EncodeOptions { parse_special, ..self }
    }
}

/// Encodes text to the token ids of a model, the same as llama.cpp's `llama_tokenize`, and decodes them.
///
/// Supported are byte pairs (`gpt2`) with every pre-tokenizer that llama.cpp knows, `gemma4`, and SentencePiece with scores (`llama`).
///
/// It differs from llama.cpp where that ends the process or leaves the choice to a hash table: a text that a SentencePiece vocabulary without
/// byte tokens lacks becomes the unknown token, and of several tokens known for one role the one with the lowest id has it. Decoding keeps
/// characters that stand for no byte; llama.cpp writes a note in their place.
#[derive(Debug, Clone)]
pub struct Encoder<'a> {
    texts: StringIndex<'a>,
    n_tokens: u32,
    /// The ids of tokens by text; of a byte-pair vocabulary, also the numbers of the other parts and results of merges.
    symbols: HashMap<Cow<'a, [u8]>, u32>,
    attributes: Vec<Attributes>,
    specials: Specials<'a>,
    model: Model,
    begin: Option<u32>,
    end: Option<u32>,
}

#[derive(Debug, Clone)]
enum Model {
    Pairs { pre: &'static PreTokenizer, cutter: Cutter, merges: Merges },
    Scores { scores: Vec<f32>, space_prefix: bool, unknown: u32 },
}

/// The mark of a space in vocabularies of SentencePiece.
const MARK: &str = "\u{2581}";

impl<'a> Encoder<'a> {
    /// The encoder of a vocabulary. It holds the ids of all texts in memory; the texts stay in the file's head.
    ///
    /// # Errors
    /// [`EncoderError`], for a kind of tokenizer or a pre-tokenizer that is not supported, missing merges, duplicate tokens, and a token
    /// that is to be added and does not exist.
    pub fn new(vocab: &Vocab<'a>) -> Result<Encoder<'a>, EncoderError> {
        let kind = vocab.kind();
        let mut symbols = symbols(vocab)?;
        let n_tokens = u32::try_from(symbols.len()).unwrap_or(u32::MAX);
        let pre = match kind {
            TokenizerKind::Bpe => Some(vocab.pre().unwrap_or_default()),
            TokenizerKind::Gemma4 => Some("gemma4"),
            TokenizerKind::SentencePiece => None,
            _ => return Err(EncoderError::Kind { model: vocab.model().to_owned() }),
        };
        let unknown_pre = |name: &str| EncoderError::Pre { name: name.to_owned() };
        let pre = pre.map(|name| pre::by_name(name).ok_or_else(|| unknown_pre(name))).transpose()?;
        let id = |text: &str| symbols.get(text.as_bytes()).copied().filter(|id| *id < n_tokens);
        let attributes = special::attributes(vocab, id);
        let (begin, end) = added(vocab, pre)?;
        let model = match pre {
            Some(pre) => {
                if !vocab.has_merges() && vocab.pre() != Some("kimi-k2") {
                    return Err(EncoderError::NoMerges);
                }
                Model::Pairs { pre, cutter: pre.compile(), merges: merges(vocab, &mut symbols) }
            }
            None => Model::Scores {
                scores: (0..n_tokens).map(|id| vocab.score(id).unwrap_or_default()).collect(),
                space_prefix: vocab.add_space_prefix().unwrap_or(true),
                unknown: vocab.special(Role::Unk).unwrap_or_default(),
            },
        };
        let texts = vocab.index_tokens();
        let specials = Specials::new(&texts, &attributes);
        Ok(Encoder { texts, n_tokens, symbols, attributes, specials, model, begin, end })
    }

    /// Encodes a text, with special tokens added and parsed.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.encode_with(text, &EncodeOptions::default())
    }

    /// Encodes a text.
    ///
    /// ```
    /// # let mut head = gguf_format::Head::default();
    /// # head.set("tokenizer.ggml.model", "gpt2");
    /// # head.set("tokenizer.ggml.pre", "gpt-2");
    /// # head.set("tokenizer.ggml.tokens", ["a", "b", "ab", "<", ">", "<a>"]);
    /// # head.set("tokenizer.ggml.token_type", [1, 1, 1, 1, 1, 3]);
    /// # head.set("tokenizer.ggml.merges", ["a b"]);
    /// # let bytes = head.encode()?;
    /// # let gguf = gguf_format::Gguf::parse(&bytes)?;
    /// use gguf_model::tokenizer::{EncodeOptions, Encoder, Vocab};
    ///
    /// let encoder = Encoder::new(&Vocab::new(&gguf)?)?;
    /// let user = EncodeOptions::default().parse_special(false);
    /// assert_eq!(encoder.encode("ab<a>"), [2, 5]);
    /// assert_eq!(encoder.encode_with("ab<a>", &user), [2, 3, 0, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn encode_with(&self, text: &str, options: &EncodeOptions) -> Vec<u32> {
        let mut ids = Vec::new();
        ids.extend(self.begin.filter(|_| options.add_special));
        let mut after_token = true;
        for part in self.specials.cut(text, options.parse_special) {
            match (part, &self.model) {
                (Part::Token(id), _) => ids.push(id),
                (Part::Text(text), Model::Pairs { pre, cutter, merges }) => {
                    self.encode_words(text, pre, cutter, merges, &mut ids);
                }
                (Part::Text(text), Model::Scores { scores, space_prefix, unknown }) => {
                    let prefix = if *space_prefix && after_token { MARK } else { "" };
                    let text = format!("{prefix}{}", text.replace(' ', MARK));
                    self.encode_by_scores(&text, scores, *unknown, &mut ids);
                }
            }
            after_token = matches!(part, Part::Token(_));
        }
        ids.extend(self.end.filter(|_| options.add_special));
        ids
    }

    /// The text of tokens as bytes, which need not be whole characters. Control tokens are written as their texts. This is not the inverse
    /// of encoding: tokens that encoding added, and a space before the text, are part of the result.
    pub fn decode(&self, ids: &[u32]) -> Vec<u8> {
        ids.iter().flat_map(|id| self.piece(*id).into_owned()).collect()
    }

    /// The text of one token; empty for ids that are not of a token, and tokens of no known type. A control token has its own text, as
    /// `llama_token_to_piece` gives it with `special`; see [`is_control`](Encoder::is_control).
    pub fn piece(&self, id: u32) -> Cow<'a, [u8]> {
        let (Some(text), Some(own)) = (self.texts.get(id as usize), self.attributes.get(id as usize)) else {
            return Cow::Borrowed(&[]);
        };
        let bytes = text.as_bytes();
        if own.is_hidden() || own.any(Attributes::USER_DEFINED) {
            Cow::Borrowed(bytes)
        } else if own.any(Attributes::NORMAL) {
            match &self.model {
                Model::Pairs { pre, .. } if !pre.marks => Cow::Owned(bytes_of(text)),
                _ => with_spaces(text),
            }
        } else if own.any(Attributes::BYTE) {
            let hex = bytes.get(3..5).and_then(|hex| std::str::from_utf8(hex).ok());
            Cow::Owned(vec![hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).unwrap_or(0)])
        } else {
            Cow::Borrowed(&[])
        }
    }

    /// Whether a token controls the model and is not displayed.
    pub fn is_control(&self, id: u32) -> bool {
        self.attributes.get(id as usize).is_some_and(|own| own.any(Attributes::CONTROL))
    }

    /// The id of the token with that text, as the file has it.
    pub fn token(&self, text: &[u8]) -> Option<u32> {
        self.symbols.get(text).copied().filter(|id| *id < self.n_tokens)
    }

    fn encode_words(&self, text: &str, pre: &PreTokenizer, cutter: &Cutter, merges: &Merges, ids: &mut Vec<u32>) {
        let text = if pre.marks { Cow::Owned(text.replace(' ', MARK)) } else { Cow::Borrowed(text) };
        let mut chain = Chain::new();
        let mut word = String::new();
        let mut rest = &*text;
        for len in cutter.cut(&text) {
            let Some((raw, after)) = rest.split_at_checked(len) else { break };
            rest = after;
            let word = if pre.marks {
                raw
            } else {
                word.clear();
                word.extend(raw.bytes().map(byte_char));
                &word
            };
            let is_whole = pre.whole_words || pre.is_gemma_4() && raw.bytes().all(|b| b == b'\n');
            if let Some(id) = self.token(word.as_bytes()).filter(|_| is_whole) {
                ids.push(id);
                continue;
            }
            for (at, c) in word.char_indices() {
                let end = at + c.len_utf8();
                let symbol = word.get(at..end).and_then(|c| self.symbols.get(c.as_bytes()));
                chain.push(symbol.copied().unwrap_or(NO_SYMBOL), at, end);
            }
            chain.merge(
                |left, right, _| merges.get(&(left, right)).map(|(rank, symbol)| (Reverse(*rank), *symbol)),
                |symbol, range| {
                    if symbol < self.n_tokens {
                        ids.push(symbol);
                    } else {
                        let bytes = word.as_bytes().get(range).unwrap_or_default();
                        ids.extend(
                            bytes
                                .iter()
                                .filter_map(|b| if pre.marks { self.byte_token(*b) } else { self.token(&[*b]) }),
                        );
                    }
                },
            );
        }
    }

    fn encode_by_scores(&self, text: &str, scores: &[f32], unknown: u32, ids: &mut Vec<u32>) {
        let mut chain = Chain::new();
        for (at, c) in text.char_indices() {
            let end = at + c.len_utf8();
            let symbol = text.get(at..end).and_then(|c| self.token(c.as_bytes()));
            chain.push(symbol.unwrap_or(NO_SYMBOL), at, end);
        }
        let bytes = |range| text.as_bytes().get(range).unwrap_or_default();
        chain.merge(
            |_, _, range| {
                let id = self.token(bytes(range))?;
                Some((Score(*scores.get(id as usize)?), id))
            },
            |symbol, range| match symbol {
                NO_SYMBOL => ids.extend(
                    bytes(range).iter().map(|b| self.byte_token(*b).or_else(|| self.token(&[*b])).unwrap_or(unknown)),
                ),
                id => ids.push(id),
            },
        );
    }

    /// The token of a byte in a vocabulary of characters.
    fn byte_token(&self, byte: u8) -> Option<u32> {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        let digit = |n: u8| HEX.get(usize::from(n)).copied().unwrap_or(b'0');
        self.token(&[b'<', b'0', b'x', digit(byte >> 4), digit(byte & 15), b'>'])
    }
}

/// The ids of all tokens by their texts. An empty text has the name that llama.cpp gives it.
fn symbols<'a>(vocab: &Vocab<'a>) -> Result<HashMap<Cow<'a, [u8]>, u32>, EncoderError> {
    let n = vocab.len() as u64 + 2 * vocab.merges().len() as u64;
    if n >= 1 << 31 {
        return Err(EncoderError::TooLarge);
    }
    let mut symbols = HashMap::with_capacity(vocab.len());
    for (text, id) in vocab.tokens().zip(0..) {
        let name = match text.as_bytes() {
            [] => Cow::Owned(format!("[EMPTY_{id}]").into_bytes()),
            bytes => Cow::Borrowed(bytes),
        };
        if let Some(first) = symbols.insert(name, id) {
            return Err(EncoderError::Duplicate { ids: [first, id], text: shown(text).to_string() });
        }
    }
    Ok(symbols)
}

/// Rank and result of merges, by their two parts.
type Merges = HashMap<(u32, u32), (u32, u32)>;

/// The merges of a vocabulary. Parts and results that are no tokens get numbers after those of tokens.
fn merges<'a>(vocab: &Vocab<'a>, symbols: &mut HashMap<Cow<'a, [u8]>, u32>) -> Merges {
    let mut merges = HashMap::with_capacity(vocab.merges().len());
    let mut merged = Vec::new();
    for (merge, rank) in vocab.merges().zip(0..) {
        let Some((left, right)) = split_merge(merge) else { continue };
        let mut number = |text: Cow<'a, [u8]>| {
            let next = u32::try_from(symbols.len()).unwrap_or(u32::MAX);
            *symbols.entry(text).or_insert(next)
        };
        let parts = (number(Cow::Borrowed(left.as_bytes())), number(Cow::Borrowed(right.as_bytes())));
        merged.clear();
        merged.extend_from_slice(left.as_bytes());
        merged.extend_from_slice(right.as_bytes());
        let result = match symbols.get(merged.as_slice()) {
            Some(number) => *number,
            None => {
                let next = u32::try_from(symbols.len()).unwrap_or(u32::MAX);
                symbols.insert(Cow::Owned(merged.clone()), next);
                next
            }
        };
        merges.entry(parts).or_insert((rank, result));
    }
    merges
}

/// The tokens that are put before and after each text.
fn added(vocab: &Vocab<'_>, pre: Option<&PreTokenizer>) -> Result<(Option<u32>, Option<u32>), EncoderError> {
    let default = |id: u32| Some(id).filter(|id| (*id as usize) < vocab.len());
    let (begin, end) = match vocab.kind() {
        TokenizerKind::Bpe => (default(11).filter(|_| !pre.is_some_and(|pre| pre.no_bos)), default(11)),
        TokenizerKind::SentencePiece => (default(1), default(2)),
        _ => (None, None),
    };
    let by_default = pre.is_none_or(|pre| pre.add_bos);
    let adds_bos = vocab.add_bos().unwrap_or(by_default) || pre.is_some_and(PreTokenizer::is_gemma_4);
    let token = |role: Role, default: Option<u32>, adds: bool, flag: Option<bool>, key: &str| {
        let id = vocab.special(role).or(default);
        match (adds, id) {
            (false, _) => Ok(None),
            (true, Some(id)) => Ok(Some(id)),
            (true, None) => {
                let name = vocab.pre().unwrap_or(vocab.model());
                let demanded_by = if flag == Some(true) { key.to_owned() } else { format!("the pre-tokenizer {name}") };
                Err(EncoderError::NoToken { key: role.key(), demanded_by })
            }
        }
    };
    use gguf_format::keys::{TOKENIZER_GGML_ADD_BOS_TOKEN, TOKENIZER_GGML_ADD_EOS_TOKEN};
    let adds_eos = vocab.add_eos().unwrap_or(false);
    Ok((
        token(Role::Bos, begin, adds_bos, vocab.add_bos(), TOKENIZER_GGML_ADD_BOS_TOKEN)?,
        token(Role::Eos, end, adds_eos, vocab.add_eos(), TOKENIZER_GGML_ADD_EOS_TOKEN)?,
    ))
}

/// The printable character for a byte in a byte-level vocabulary (`bytes_to_unicode` of GPT-2).
pub fn byte_char(byte: u8) -> char {
    let shifted = |n: u8| char::from_u32(0x100 + u32::from(n)).unwrap_or(char::REPLACEMENT_CHARACTER);
    match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
        0..=0x20 => shifted(byte),
        0x7f..=0xa0 => shifted(byte - 0x7f + 0x21),
        0xad => shifted(0x43),
    }
}

/// The byte for a printable character of a byte-level vocabulary.
pub fn char_byte(c: char) -> Option<u8> {
    match u32::from(c) {
        n @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => u8::try_from(n).ok(),
        n @ 0x100..=0x120 => u8::try_from(n - 0x100).ok(),
        n @ 0x121..=0x142 => u8::try_from(n - 0x121 + 0x7f).ok(),
        0x143 => Some(0xad),
        _ => None,
    }
}

/// The bytes that a text of a byte-level vocabulary stands for. Characters that stand for none are kept.
fn bytes_of(text: Str<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.as_bytes().len());
    for part in text.as_bytes().utf8_chunks() {
        for c in part.valid().chars() {
            match char_byte(c) {
                Some(byte) => bytes.push(byte),
                None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        bytes.extend_from_slice(part.invalid());
    }
    bytes
}

/// A text with spaces in place of their marks.
fn with_spaces(text: Str<'_>) -> Cow<'_, [u8]> {
    let bytes = text.as_bytes();
    match bytes.windows(MARK.len()).any(|part| part == MARK.as_bytes()) {
        true => Cow::Owned(match text.to_str() {
            Ok(text) => text.replace(MARK, " ").into_bytes(),
            Err(_) => bytes.to_vec(),
        }),
        false => Cow::Borrowed(bytes),
    }
}
