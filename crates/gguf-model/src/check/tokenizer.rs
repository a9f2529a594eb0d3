//! The rules for vocabularies and chat templates.

use gguf_format::check::{At, Report, hash, repeats, shown};
use gguf_format::keys::{self, Section, TokenType};
use gguf_format::{ArrayRef, KvRef, Str, ValueRef};

use super::rules::*;
use super::{Kind, Model};

pub(super) fn check(model: &Model<'_>, report: &mut Report) {
    if !matches!(model.kind, Kind::Model | Kind::Vocab) {
        return;
    }
    if let Some(kv) = model.kv(keys::TOKENIZER_GGML_TOKENS)
        && let ValueRef::Array(tokens) = kv.value
        && tokens.strings().is_some()
    {
        vocabulary(model, kv, tokens, report);
    }
    pre_tokenizer(model, report);
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
            report.add(&TOKENIZER_LENGTH, &kv, format_args!("{} elements for {n} tokens", a.len()));
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
    token_types(model, report);
    scores(model, report);
    special_ids(model, n, report);
    merges(model, tokens, report);
}

fn token_types(model: &Model<'_>, report: &mut Report) {
    let Some((kv, types)) = array(model, keys::TOKENIZER_GGML_TOKEN_TYPE) else { return };
    for (i, ty) in types.iter().enumerate() {
        if let Some(ty) = ty.as_integer()
            && i64::try_from(ty).ok().and_then(TokenType::from_id).is_none()
        {
            report.add(&TOKENIZER_TYPE, &kv, format_args!("token {i} is of type {ty}"));
        }
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
            *starts.get_mut((h >> shift) as usize + 1)? += 1;
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
        let bucket = (h >> self.shift) as usize;
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
        let bytes = merge.as_bytes();
        let space = bytes.iter().skip(1).position(|&b| b == b' ').map(|at| at + 1);
        let Some((left, right)) = space.and_then(|at| Some((bytes.get(..at)?, bytes.get(at + 1..)?))) else {
            report.add(
                &TOKENIZER_MERGE,
                &kv,
                format_args!("merge {i} has no space between two tokens: {}", shown(merge)),
            );
            continue;
        };
        for part in [left, right] {
            if !known.contains(Str(part)) {
                let (part, merge) = (shown(Str(part)), shown(merge));
                report.add(
                    &TOKENIZER_MERGE,
                    &kv,
                    format_args!("merge {i} ({merge}) names {part}, which is not a token"),
                );
            }
        }
    }
}

fn pre_tokenizer(model: &Model<'_>, report: &mut Report) {
    let byte_pairs = model.get(keys::TOKENIZER_GGML_MODEL) == Some("gpt2");
    if byte_pairs && model.value(keys::TOKENIZER_GGML_PRE).is_none() {
        report.add(&TOKENIZER_PRE, At::no_key(keys::TOKENIZER_GGML_PRE), format_args!("the key is missing"));
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
        for word in SUSPICIOUS.iter().filter(|word| text.contains(**word)) {
            report.add(&TEMPLATE_SUSPICIOUS, &kv, format_args!("the template contains {word}"));
        }
    }
    if any || model.kind != Kind::Model {
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
