//! Vocabularies in `tiktoken`'s format: a file with one token per line, as base64 bytes and rank. The special tokens and the pre-tokenizer are
//! defined in the model's code, which is not executed; both are known for published models by the name of the file (`_set_vocab_qwen` in
//! conversion/base.py, `HunYuanMoEModel.set_vocab` in conversion/hunyuan.py).
//!
//! Two tokens merge if their concatenated bytes are a token and no merge of a lower rank is possible. The list of merges follows from this rule.

use std::collections::{HashMap, HashSet};

use super::base64;
use super::files::Files;
use super::hf::MAX_VOCAB;
use super::keys::{PreSource, TokenizerOptions};
use super::sentencepiece::piece_type;
use super::vocab::{Special, TokenList, configured_tokens};
use crate::folder_error::FolderError;
use crate::number::to_u32;
use crate::problem::FileProblem;
use gguf_model::tokenizer::byte_char;

/// A published tokenizer.
struct Published {
    /// The file with the ranks.
    file: &'static str,
    /// Value of `tokenizer.ggml.pre`.
    pre: &'static str,
    /// Its special tokens, whose ids follow those of the ranks; then come [`N_EXTRA`] numbered tokens.
    special: &'static [&'static str],
}

const PUBLISHED: [Published; 2] = [
    // `tokenization_qwen.py` of Qwen/Qwen-7B.
    Published { file: "qwen.tiktoken", pre: "qwen2", special: &[END_OF_TEXT, "<|im_start|>", "<|im_end|>"] },
    // `tokenization_hy.py` of tencent/Hunyuan-A13B-Instruct.
    Published {
        file: "hy.tiktoken",
        pre: "hunyuan",
        special: &[END_OF_TEXT, "<|startoftext|>", "<|bos|>", "<|eos|>", "<|pad|>"],
    },
];

const END_OF_TEXT: &str = "<|endoftext|>";

/// The number of tokens `<|extra_0|>` and so on.
const N_EXTRA: usize = 205;

/// The maximum number of steps to find the merges: the sum of the squared token lengths. Vocabularies in use take some 10 million.
const MAX_STEPS: u64 = 1 << 28;

/// The maximum number of steps to list the pairs of parts that make a token. Llama 3 takes some 9 million.
const MAX_PAIR_STEPS: u64 = 1 << 26;

/// Reads the vocabulary; `None` without a file of a known name. With `has_defaults`, special tokens that the files do not name default to the
/// end-of-text token.
pub(crate) fn read(
    folder: &Files<'_>,
    vocab_size: Option<usize>,
    options: &TokenizerOptions,
    has_defaults: bool,
) -> Result<Option<TokenList>, FolderError> {
    for published in &PUBLISHED {
        let Some(bytes) = folder.dir.bytes(published.file)? else { continue };
        let ranks = Ranks::parse(folder, published.file, &bytes)?;
        return vocabulary(folder, published, &ranks, vocab_size, options, has_defaults).map(Some);
    }
    Ok(None)
}

fn vocabulary(
    folder: &Files<'_>,
    published: &Published,
    ranks: &Ranks,
    vocab_size: Option<usize>,
    options: &TokenizerOptions,
    has_defaults: bool,
) -> Result<TokenList, FolderError> {
    let extra = (0..N_EXTRA).map(|i| format!("<|extra_{i}|>"));
    let special = published.special.iter().map(|token| (*token).to_owned()).chain(extra);
    let mut list = tokens(folder, (published.file, published.pre), ranks, special, vocab_size, options)?;
    let merges = ranks.merges().ok_or_else(|| folder.invalid(published.file, FileProblem::LongTokens))?;
    let default = has_defaults.then(|| u32::try_from(ranks.tokens.len()).ok()).flatten();
    list.special = Special::Ranks { merges, default, end: None };
    Ok(list)
}

/// The number of Kimi's special tokens.
const N_KIMI: usize = 256;

/// The file of Kimi.
pub(super) const KIMI: &str = "tiktoken.model";

/// Reads `tiktoken.model` with the special tokens of `tokenizer_config.json`, as in `tokenization_kimi.py` of moonshotai/Kimi-K2-Instruct;
/// unnamed ids are reserved tokens. With `has_end`, `eos_token` is the end-of-text token. `None` without the file.
pub(crate) fn read_kimi(
    folder: &Files<'_>,
    vocab_size: Option<usize>,
    options: &TokenizerOptions,
    has_end: bool,
) -> Result<Option<TokenList>, FolderError> {
    let Some(bytes) = folder.dir.bytes(KIMI)? else { return Ok(None) };
    let ranks = Ranks::parse(folder, KIMI, &bytes)?;
    let first = ranks.tokens.len();
    let named = configured_tokens(folder, &mut Vec::new());
    let named: HashMap<u64, &str> = named.iter().filter_map(|(id, text, _)| Some((id.as_u64()?, *text))).collect();
    let end = vocab_size.map_or(first + N_KIMI, |size| size.min(first + N_KIMI));
    let special = (first..end).map(|id| match named.get(&(id as u64)) {
        Some(text) => (*text).to_owned(),
        None => format!("<|reserved_token_{id}|>"),
    });
    let mut list = tokens(folder, (KIMI, "kimi-k2"), &ranks, special, vocab_size, options)?;
    let merges = ranks.merges().ok_or_else(|| folder.invalid(KIMI, FileProblem::LongTokens))?;
    let end = match has_end {
        true => {
            let token = folder.tokenizer_config.get("eos_token");
            let text = token.and_then(|token| token.get("content").unwrap_or(token).as_str()).unwrap_or("[EOS]");
            let id = list.tokens.iter().skip(first).position(|token| token == text);
            id.and_then(|id| u32::try_from(first + id).ok())
        }
        false => None,
    };
    list.special = Special::Ranks { merges, default: None, end };
    Ok(Some(list))
}

/// The tokens of the ranks, followed by the special tokens. `pre` is the name of the pre-tokenizer for `file`.
fn tokens(
    folder: &Files<'_>,
    (file, pre): (&str, &str),
    ranks: &Ranks,
    special: impl Iterator<Item = String>,
    vocab_size: Option<usize>,
    options: &TokenizerOptions,
) -> Result<TokenList, FolderError> {
    let mut by_id: HashMap<usize, (String, i32)> = HashMap::with_capacity(ranks.tokens.len());
    for (token, rank) in &ranks.tokens {
        by_id.insert(*rank as usize, (shown(token), piece_type::NORMAL));
    }
    for (i, token) in special.enumerate() {
        by_id.insert(ranks.tokens.len() + i, (token, piece_type::CONTROL));
    }
    let max = by_id.keys().copied().max().unwrap_or(0);
    let size = vocab_size.unwrap_or(max + 1);
    if max >= size {
        let token = by_id.remove(&max).map(|(token, _)| token).unwrap_or_default();
        return Err(folder.invalid(file, FileProblem::TokenId { token, id: max, vocab_size: size }));
    }
    let mut list = TokenList::new("gpt2", size);
    for id in 0..size {
        let (token, kind) = by_id.remove(&id).unwrap_or_else(|| (format!("[PAD{id}]"), piece_type::UNUSED));
        list.tokens.push(token);
        list.types.push(kind);
    }
    (list.pre, list.source) = match &options.pre {
        Some(pre) => (pre.clone(), PreSource::Requested),
        None => (pre.to_owned(), PreSource::Definition { hash: None }),
    };
    Ok(list)
}

/// Whether a file starts like a file of ranks: with a base64 token and a number.
pub(crate) fn is_ranks(bytes: &[u8]) -> bool {
    let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    let mut words = line.trim_ascii().splitn(2, |b| *b == b' ');
    let (token, rank) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    base64::decode(token).is_some_and(|token| !token.is_empty())
        && !rank.is_empty()
        && rank.iter().all(u8::is_ascii_digit)
}

/// The number of Llama 3's special tokens.
const N_LLAMA3: usize = 256;

/// The vocabulary of Llama 3 from Meta's `tokenizer.model`, with the special tokens of transformers, which differ between Llama 3 and later
/// versions.
pub(crate) fn llama3(
    folder: &Files<'_>,
    bytes: &[u8],
    is_later: bool,
    vocab_size: Option<usize>,
    options: &TokenizerOptions,
) -> Result<TokenList, FolderError> {
    const FILE: &str = "tokenizer.model";
    // Special tokens with a meaning; all others are numbered reserved tokens.
    let named: &[(usize, &str)] = match is_later {
        false => &[],
        true => &[(4, "<|finetune_right_pad_id|>"), (8, "<|eom_id|>"), (10, "<|python_tag|>")],
    };
    const ALWAYS: [(usize, &str); 5] = [
        (0, "<|begin_of_text|>"),
        (1, "<|end_of_text|>"),
        (6, "<|start_header_id|>"),
        (7, "<|end_header_id|>"),
        (9, "<|eot_id|>"),
    ];
    let mut reserved = 0;
    let special = (0..N_LLAMA3).map(|i| match ALWAYS.iter().chain(named).find(|(at, _)| *at == i) {
        Some((_, token)) => (*token).to_owned(),
        None => {
            reserved += 1;
            format!("<|reserved_special_token_{}|>", reserved - 1)
        }
    });
    let ranks = Ranks::parse(folder, FILE, bytes)?;
    let mut list = tokens(folder, (FILE, "llama-bpe"), &ranks, special, vocab_size, options)?;
    let merges = ranks.all_merges().ok_or_else(|| folder.invalid(FILE, FileProblem::LongTokens))?;
    // Bounded by `MAX_VOCAB`.
    let begin = to_u32(ranks.tokens.len());
    list.special = Special::Pairs { merges, begin, end: begin + 1 };
    Ok(list)
}

/// Tokens and their ranks, in file order.
pub(super) struct Ranks {
    pub(super) tokens: Vec<(Vec<u8>, u32)>,
}

impl Ranks {
    fn parse(folder: &Files<'_>, file: &str, bytes: &[u8]) -> Result<Ranks, FolderError> {
        let mut tokens = Vec::new();
        for (i, line) in bytes.split(|b| *b == b'\n').enumerate() {
            let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            let entry = match (words.next(), words.next(), words.next()) {
                (None, ..) => continue,
                (Some(token), Some(rank), None) => {
                    let rank = std::str::from_utf8(rank).ok().and_then(|rank| rank.parse::<u32>().ok());
                    let rank = rank.filter(|rank| u64::from(*rank) < MAX_VOCAB);
                    base64::decode(token).filter(|token| !token.is_empty()).zip(rank)
                }
                _ => None,
            };
            let Some(entry) = entry else {
                let found = String::from_utf8_lossy(line).chars().take(60).collect();
                let expected = "a token in base64 and its rank";
                return Err(folder.invalid(file, FileProblem::Line { line: i + 1, found, expected }));
            };
            tokens.push(entry);
            if tokens.len() as u64 > MAX_VOCAB {
                let (found, max) = (bytes.split(|b| *b == b'\n').count(), MAX_VOCAB);
                return Err(folder.invalid(file, FileProblem::TooManyPieces { found, max }));
            }
        }
        // Special tokens have the ids after the ranks.
        let n = tokens.len();
        let invalid = |found| folder.invalid(file, FileProblem::Ranks { found, n });
        let (mut texts, mut ranks) = (HashSet::new(), HashSet::new());
        for (text, rank) in &tokens {
            if !texts.insert(text.as_slice()) || !ranks.insert(*rank) || *rank as usize >= n {
                return Err(invalid(format!("the token {} with rank {rank}", shown(text))));
            }
        }
        if tokens.is_empty() { Err(invalid("no token".to_owned())) } else { Ok(Ranks { tokens }) }
    }

    /// All pairs of tokens whose concatenation is a token, ordered by the resulting token, then by their own ranks; `None` if there are too many
    /// (`TikTokenConverter.extract_vocab_merges_from_model` of transformers).
    pub(super) fn all_merges(&self) -> Option<Vec<String>> {
        let steps = self.tokens.iter().map(|(token, _)| (token.len() as u64).saturating_pow(2));
        if steps.fold(0, u64::saturating_add) > MAX_PAIR_STEPS {
            return None;
        }
        let ranks: HashMap<&[u8], u32> = self.tokens.iter().map(|(token, rank)| (token.as_slice(), *rank)).collect();
        let mut pairs = Vec::new();
        for (token, rank) in &self.tokens {
            for middle in 1..token.len() {
                let (left, right) = token.split_at(middle);
                if let (Some(a), Some(b)) = (ranks.get(left), ranks.get(right)) {
                    pairs.push((*rank, *a, *b, left, right));
                }
            }
        }
        pairs.sort_by_key(|(rank, a, b, ..)| (*rank, *a, *b));
        Some(pairs.into_iter().map(|(.., left, right)| format!("{} {}", shown(left), shown(right))).collect())
    }

    /// The merges, ordered by the resulting token; `None` if the search would take too long.
    fn merges(&self) -> Option<Vec<String>> {
        let steps = self.tokens.iter().map(|(token, _)| (token.len() as u64).saturating_pow(2));
        if steps.fold(0, u64::saturating_add) > MAX_STEPS {
            return None;
        }
        let ranks: HashMap<&[u8], u32> = self.tokens.iter().map(|(token, rank)| (token.as_slice(), *rank)).collect();
        let mut merges = Vec::new();
        for (token, rank) in self.tokens.iter().filter(|(token, _)| token.len() > 1) {
            // The starts of the parts, and the end of the last.
            let mut bounds: Vec<usize> = (0..=token.len()).collect();
            loop {
                let pairs = bounds.windows(3).enumerate().filter_map(|(i, bounds)| {
                    let &[start, _, end] = bounds else { return None };
                    Some((*ranks.get(token.get(start..end)?)?, i))
                });
                match pairs.min() {
                    Some((lowest, i)) if lowest < *rank => bounds.remove(i + 1),
                    _ => break,
                };
            }
            if let &[start, middle, end] = bounds.as_slice() {
                let part = |range| token.get(range).map(shown).unwrap_or_default();
                merges.push(format!("{} {}", part(start..middle), part(middle..end)));
            }
        }
        Some(merges)
    }
}

/// Formats bytes as the printable characters of a byte-level vocabulary.
pub(super) fn shown(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|b| byte_char(*b)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(tokens: &[(&str, u32)]) -> Ranks {
        Ranks { tokens: tokens.iter().map(|(token, rank)| (token.as_bytes().to_vec(), *rank)).collect() }
    }

    #[test]
    fn merges_follow_from_ranks() {
        // Expected: `QwenModel.bpe` of llama.cpp's converter.
        let found =
            ranks(&[("a", 0), ("b", 1), ("c", 2), (" ", 3), ("bc", 4), ("ab", 5), ("abc", 6), ("abcab", 7), (" a", 8)]);
        assert_eq!(found.merges().unwrap(), ["b c", "a b", "a bc", "abc ab", "Ġ a"]);
        // Bytes that are not tokens merge all the same; three parts are not a merge.
        assert_eq!(ranks(&[("xy", 0), ("xyzz", 1)]).merges().unwrap(), ["x y"]);
        assert_eq!(ranks(&[(&"x".repeat(20_000), 0)]).merges(), None);
    }
}
