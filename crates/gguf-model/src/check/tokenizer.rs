//! The rules for vocabularies and chat templates.

use gguf_format::check::{At, Report, hash, repeats, shown};
use gguf_format::keys::{self, Section, TokenType};
use gguf_format::{ArrayRef, KvRef, Str, ValueRef};

use super::rules::*;
use super::template;
use super::{FileRole, Model};
use crate::tokenizer::{self, split_merge};

pub(super) fn check(model: &Model<'_>, report: &mut Report) {
    if !matches!(model.kind, FileRole::Model | FileRole::Vocab) {
        return;
    }
    // Without a tokenizer, llama.cpp does not read the tokens.
    let has_tokenizer = !matches!(model.get(keys::TOKENIZER_GGML_MODEL), Some("no_vocab" | "none"));
    if let Some(kv) = model.kv(keys::TOKENIZER_GGML_TOKENS).filter(|_| has_tokenizer)
        && let ValueRef::Array(tokens) = kv.value
        && tokens.strings().is_some()
    {
        vocabulary(model, kv, tokens, report);
    }
    pre_tokenizer(model, report);
    replacements(model, report);
    templates(model, report);
}

fn array<'g>(model: &Model<'g>, pattern: &str) -> Option<(KvRef<'g>, ArrayRef<'g>)> {
    let kv = model.kv(pattern)?;
    Some((*kv, kv.value.as_array()?))
}

fn vocabulary(model: &Model<'_>, kv: &KvRef<'_>, tokens: ArrayRef<'_>, report: &mut Report) {
    let n = tokens.len();
    if n == 0 {
        report.add(&TOKENIZER_EMPTY, kv, format_args!("there are no tokens"));
        return;
    }
    for pattern in [keys::TOKENIZER_GGML_SCORES, keys::TOKENIZER_GGML_TOKEN_TYPE] {
        if let Some((kv, a)) = array(model, pattern)
            && a.len() != n
        {
            let rule = if a.len() < n { &TOKENIZER_LENGTH } else { &TOKENIZER_EXCESS };
            report.add(rule, &kv, format_args!("{} elements for {n} tokens", a.len()));
        }
    }
    if let Some(kv) = model.kv(keys::VOCAB_SIZE)
        && let Ok(size) = kv.value.get::<u64>()
        && size != n
    {
        report.add(&TOKENIZER_VOCAB_SIZE, kv, format_args!("the size is {size}, but there are {n} tokens"));
    }
    let strings = || tokens.strings().into_iter().flatten();
    for (i, token) in strings().enumerate() {
        if token.to_str().is_err() {
            report.add(&TOKENIZER_UTF8, kv, format_args!("token {i} is not UTF-8: {}", shown(token)));
        }
    }
    // llama.cpp gives empty tokens a unique name, so they may repeat (`llama_vocab::impl::load`).
    repeats(strings().zip(0..).filter(|(token, _)| !token.as_bytes().is_empty()), |r| {
        let text = shown(r.text);
        report.add(&TOKENIZER_DUPLICATE, kv, format_args!("token {} duplicates token {}: {text}", r.again, r.first));
    });
    token_types(model, tokens, report);
    plamo2(model, tokens, report);
    scores(model, report);
    special_ids(model, n, report);
    phi3(model, tokens, report);
    merges(model, tokens, report);
}

fn token_types(model: &Model<'_>, tokens: ArrayRef<'_>, report: &mut Report) {
    let Some((kv, types)) = array(model, keys::TOKENIZER_GGML_TOKEN_TYPE) else { return };
    // llama.cpp takes the hexadecimal digits from the fourth character on, whatever the others are.
    let shortest = match model.get(keys::TOKENIZER_GGML_MODEL) {
        Some("bert") => usize::MAX,
        Some("rwkv" | "plamo2" | "none" | "no_vocab") => 0,
        _ => 3,
    };
    let mut texts = tokens.strings().into_iter().flatten();
    for (i, ty) in types.iter().enumerate() {
        let text = texts.next();
        let Some(ty) = ty.as_integer() else { continue };
        match i64::try_from(ty).ok().and_then(TokenType::from_id) {
            None => report.add(&TOKENIZER_TYPE, &kv, format_args!("token {i} is of type {ty}")),
            Some(TokenType::Byte) => {
                if let Some(text) = text.filter(|text| text.as_bytes().len() < shortest) {
                    report.add(&TOKENIZER_BYTE, &kv, format_args!("token {i}, a byte, is {}", shown(text)));
                }
            }
            Some(_) => {}
        }
    }
}

/// PLaMo 2 writes any text as bytes if need be: it needs a token for each, except that the token with id 0 does not count
/// (`llm_tokenizer_plamo2::build`).
fn plamo2(model: &Model<'_>, tokens: ArrayRef<'_>, report: &mut Report) {
    let Some(kv) = model.kv(keys::TOKENIZER_GGML_MODEL).filter(|kv| kv.value.as_str().is_some_and(|s| s == *"plamo2"))
    else {
        return;
    };
    let types = array(model, keys::TOKENIZER_GGML_TOKEN_TYPE).map(|(_, types)| types);
    let is_byte = |i: u64| {
        let ty = types.and_then(|types| types.get(i)?.as_integer());
        ty.is_some_and(|ty| i64::try_from(ty).ok().and_then(TokenType::from_id) == Some(TokenType::Byte))
    };
    let mut found = [false; 256];
    for (i, text) in (0..).zip(tokens.strings().into_iter().flatten()).skip(1) {
        if let Some(digits) = text.as_bytes().strip_prefix(b"<0x").and_then(|rest| rest.strip_suffix(b">"))
            && digits.len() == 2
            && let Some(byte) = str::from_utf8(digits).ok().and_then(|digits| usize::from_str_radix(digits, 16).ok())
            && is_byte(i)
            && let Some(found) = found.get_mut(byte)
        {
            *found = true;
        }
    }
    if let Some(byte) = found.iter().position(|found| !found) {
        report.add_with(
            &TOKENIZER_BYTE,
            kv,
            format_args!("PLaMo 2 has no token for the byte {byte}"),
            format!("a token <0x{byte:02X}> of the type for bytes, with an id above 0"),
            TOKENIZER_BYTE.hint,
        );
    }
}

fn scores(model: &Model<'_>, report: &mut Report) {
    let Some((kv, scores)) = array(model, keys::TOKENIZER_GGML_SCORES) else { return };
    for (i, score) in scores.iter().enumerate() {
        if let Ok(score) = score.get::<f64>()
            && score.is_nan()
        {
            report.add(&TOKENIZER_SCORE, &kv, format_args!("the score of token {i} is {score}"));
        }
    }
}

fn special_ids(model: &Model<'_>, n: u64, report: &mut Report) {
    let scalar =
        |row: &keys::KeyInfo| row.section == Section::SpecialToken || row.pattern == keys::DECODER_START_TOKEN_ID;
    for (row, kv) in model.known.iter().filter(|(row, _)| scalar(row)) {
        if let Some(id) = kv.value.as_integer()
            && (id < 0 || id >= i128::from(n))
        {
            // Writers use -1 for "no such token".
            let none = id == -1 || id == i128::from(u32::MAX);
            if !none {
                report.add(&TOKENIZER_ID, kv, format_args!("{} is {id}, but there are {n} tokens", row.pattern));
            }
        }
    }
}

/// Checks for the tokens that llama.cpp looks up in every vocabulary whose model is named like Phi 3.
fn phi3(model: &Model<'_>, tokens: ArrayRef<'_>, report: &mut Report) {
    let Some(kv) = model.kv(keys::GENERAL_NAME) else { return };
    let name = kv.value.as_str().map(|name| name.as_bytes().to_ascii_lowercase()).unwrap_or_default();
    let is_named = |words: &[&str], text: &[u8]| {
        words.iter().any(|word| text.windows(word.len()).any(|window| window == word.as_bytes()))
    };
    let pre = model.get::<&str>(keys::TOKENIZER_GGML_PRE).unwrap_or_default();
    // llama.cpp tests for these names before it tests for Phi-3.
    let is_other = is_named(&["jina-v2-de", "jina-v2-es", "jina-v2-code"], pre.as_bytes())
        || is_named(&["nomic-bert-moe", "jina-bert-v3"], model.arch.as_bytes());
    let has_tokens = !matches!(model.get(keys::TOKENIZER_GGML_MODEL), Some("none" | "no_vocab"));
    if !is_named(&["phi-3", "phi3"], &name) || is_other || !has_tokens {
        return;
    }
    for text in ["</s>", "<unk>", "<s>", "<|endoftext|>"] {
        if !tokens.strings().into_iter().flatten().any(|token| token == *text) {
            report.add(&TOKENIZER_PHI3, kv, format_args!("there is no token {text}"));
        }
    }
}

/// The sorted hashes of all tokens, with an index by leading bits: 8 bytes per token, and a lookup reads few of them.
struct Hashes {
    sorted: Vec<u64>,
    starts: Vec<u32>,
    shift: u32,
}

impl Hashes {
    fn new<'a>(texts: impl Iterator<Item = Str<'a>>) -> Option<Hashes> {
        let mut sorted: Vec<u64> = texts.map(hash).collect();
        sorted.sort_unstable();
        let n = u32::try_from(sorted.len()).ok()?;
        // About one bucket per two strings.
        let bits = n.checked_ilog2()?.max(1);
        let shift = 64 - bits;
        let mut starts = vec![0u32; (1usize << bits) + 1];
        for h in &sorted {
            *starts.get_mut(usize::try_from(h >> shift).ok()? + 1)? += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        Some(Hashes { sorted, starts, shift })
    }

    fn contains(&self, text: Str<'_>) -> bool {
        let h = hash(text);
        let Ok(bucket) = usize::try_from(h >> self.shift) else { return false };
        let range = self.starts.get(bucket).zip(self.starts.get(bucket + 1));
        range
            .and_then(|(from, to)| self.sorted.get(*from as usize..*to as usize))
            .is_some_and(|bucket| bucket.binary_search(&h).is_ok())
    }
}

/// A merge is two tokens separated by a space; tokens contain spaces only at the start.
fn merges(model: &Model<'_>, tokens: ArrayRef<'_>, report: &mut Report) {
    let Some((kv, merges)) = array(model, keys::TOKENIZER_GGML_MERGES) else { return };
    let (Some(strings), Some(merges)) = (tokens.strings(), merges.strings()) else { return };
    let Some(known) = Hashes::new(strings) else { return };
    for (i, merge) in merges.enumerate() {
        let Some((left, right)) = split_merge(merge) else {
            report.add(
                &TOKENIZER_MERGE,
                &kv,
                format_args!("merge {i} has no space between two tokens: {}", shown(merge)),
            );
            continue;
        };
        for part in [left, right] {
            if !known.contains(part) {
                let (part, merge) = (shown(part), shown(merge));
                report.add(
                    &TOKENIZER_MERGE,
                    &kv,
                    format_args!("merge {i} ({merge}) names {part}, which is not a token"),
                );
            }
        }
    }
}

/// Whether llama.cpp merges byte pairs after a pre-tokenizer.
pub(super) fn is_byte_pairs(model: &Model<'_>) -> bool {
    model.get(keys::TOKENIZER_GGML_MODEL).is_some_and(|name| tokenizer::TokenizerKind::from_name(name).is_byte_pairs())
}

fn pre_tokenizer(model: &Model<'_>, report: &mut Report) {
    if !is_byte_pairs(model) {
        return;
    }
    match model.kv(keys::TOKENIZER_GGML_PRE) {
        None => report.add(&TOKENIZER_PRE, At::no_key(keys::TOKENIZER_GGML_PRE), format_args!("the key is missing")),
        Some(kv) if kv.value.as_str().is_some_and(|text| text == *"") => {
            report.add(&TOKENIZER_PRE, kv, format_args!("the text is empty"));
        }
        Some(_) => {}
    }
}

/// Checks the replacements of characters before unigrams: the length of a trie in bytes, the trie, and texts (`llama_vocab::impl::load`).
fn replacements(model: &Model<'_>, report: &mut Report) {
    if model.get(keys::TOKENIZER_GGML_MODEL) != Some("t5") {
        return;
    }
    let Some((kv, bytes)) = array(model, keys::TOKENIZER_GGML_PRECOMPILED_CHARSMAP) else { return };
    let byte = |i| bytes.get(i).and_then(|byte| byte.as_integer()).map(|byte| (byte & 0xff) as u8);
    let length =
        byte(0).zip(byte(1)).zip(byte(2)).zip(byte(3)).map(|(((a, b), c), d)| u32::from_le_bytes([a, b, c, d]));
    if length.is_none_or(|n| u64::from(n) + 4 >= bytes.len()) {
        let expected = "the length of a trie in 4 bytes, the trie, and texts";
        let n = bytes.len();
        let message = format_args!("the array has {n} elements, which do not hold the trie");
        report.add_with(&VALUE_REJECTED, &kv, message, expected, VALUE_REJECTED.hint);
    }
}

/// Text that no chat template needs and that attacks on template renderers use.
const SUSPICIOUS: &[&str] = &[
    "__class__",
    "__mro__",
    "__subclasses__",
    "__globals__",
    "__builtins__",
    "__import__",
    "__init__",
    "__base__",
    "__getattribute__",
    "lipsum.",
    "cycler.",
];

fn templates(model: &Model<'_>, report: &mut Report) {
    let mut any = false;
    for kv in model.first.kvs() {
        let Ok(key) = kv.key.to_str() else { continue };
        if key != keys::TOKENIZER_CHAT_TEMPLATE && !key.starts_with("tokenizer.chat_template.") {
            continue;
        }
        any = true;
        let Some(text) = kv.value.as_str() else { continue };
        let text = text.to_string_lossy();
        if let Some(problem) = template::problem(&text) {
            report.add(&TEMPLATE_SYNTAX, &kv, format_args!("line {}: {}", problem.line, problem.text));
        }
        for word in SUSPICIOUS.iter().filter(|word| text.contains(**word)) {
            report.add(&TEMPLATE_SUSPICIOUS, &kv, format_args!("the template contains {word}"));
        }
    }
    if any || model.kind != FileRole::Model {
        return;
    }
    let says = |pattern: &str| {
        model.get::<&str>(pattern).is_some_and(|text| {
            let text = text.get(..text.len().min(200)).unwrap_or_default().to_ascii_lowercase();
            text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == "chat" || word == "instruct")
        })
    };
    if says(keys::GENERAL_FINETUNE) || says(keys::GENERAL_NAME) {
        let at = At::no_key(keys::TOKENIZER_CHAT_TEMPLATE);
        report.add(&TEMPLATE_MISSING, at, format_args!("the model is tuned for chat and has no template"));
    }
}
