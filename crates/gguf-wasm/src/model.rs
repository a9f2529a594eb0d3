//! What needs the tables of all architectures and tokenizers: findings, tokens and memory. The page loads it after the first screen.

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

use ggufkit::edit::estimate::{Memory, Setup, estimate};
use ggufkit::model::tokenizer::{Encoder, Role, Vocab};
use ggufkit::{CheckOptions, Finding, GgmlType, Severity, Str, ValueRef, check_by, io as gguf_io};
use serde_json::{Value, json};

use crate::page::{Offered, Page, check_length, has, number, shown, text_of};

/// The tokenizer of a model. Its head lives as long as the module, because an instance opens one model.
pub(crate) struct Tokens {
    vocab: Vocab<'static>,
    /// `None` if the toolkit does not know the tokenizer: tokens are then their texts.
    encoder: Option<Encoder<'static>>,
}

/// The tokenizer, once it is asked for.
pub(crate) type TokensOnce = OnceCell<Option<Tokens>>;

impl Page {
    /// The findings about the model with that name among offered files, as `gguf check` reports them.
    pub fn findings(offered: &[Offered], name: &str) -> Value {
        let open = |path: &Path| {
            let failed = |source| gguf_io::Error::Io { path: path.into(), action: "open", source };
            let found = offered.iter().find(|(name, _)| path == Path::new(name));
            let (_, source) = found.ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
            check_length(source).map_err(failed)?;
            Ok(Arc::clone(source))
        };
        match check_by(name, &open, &CheckOptions::default()) {
            Ok(check) => {
                let findings = check.findings().map(|(path, f)| finding(path, &f)).collect::<Vec<_>>();
                json!({
                    "errors": check.count(Severity::Error), "warnings": check.count(Severity::Warning),
                    "notes": check.count(Severity::Note), "safe": check.is_safe(), "findings": findings,
                })
            }
            Err(e) => json!({ "error": text_of(&e) }),
        }
    }

    /// The memory that llama.cpp needs for the model. `n_ctx` is 0 for the context of the training; more layers than the model has are all.
    pub fn estimate(&self, n_ctx: u64, type_k: GgmlType, type_v: GgmlType, flash: bool, n_gpu_layers: u64) -> Value {
        let mut setup = Setup::default();
        setup.n_ctx = Some(n_ctx).filter(|n| *n > 0);
        (setup.type_k, setup.type_v, setup.flash, setup.n_gpu_layers) = (type_k, type_v, flash, n_gpu_layers);
        let memory = |m: &Memory| {
            json!({
                "weights": number(m.weights), "kv_cache": number(m.cache), "states": number(m.state),
                "compute": number(m.compute), "output": number(m.output), "total": number(m.total()),
            })
        };
        let model = match self.heads() {
            Ok(model) => model,
            Err(message) => return json!({ "error": message }),
        };
        match estimate(model, &setup) {
            Ok(e) => json!({
                "n_ctx": number(e.n_ctx), "n_ctx_train": e.n_ctx_train.map(number), "n_layers": e.n_layers,
                "n_gpu_layers": e.n_gpu_layers, "host": memory(&e.cpu), "gpu": memory(&e.gpu), "assumptions": e.assumptions,
            }),
            Err(e) => json!({ "error": text_of(&e) }),
        }
    }
}

/// The tokenizer, of a page that lives as long as the module.
impl Page {
    fn vocabulary(&'static self) -> Option<&'static Tokens> {
        let read = || {
            let vocab = Vocab::new(self.first()?).ok()?;
            let encoder = Encoder::new(&vocab).ok();
            Some(Tokens { vocab, encoder })
        };
        self.tokens.get_or_init(read).as_ref()
    }

    /// What the tokenizer is, and its special tokens.
    pub fn tokenizer(&'static self) -> Value {
        let Some(gguf) = self.first() else { return json!({}) };
        let vocab = match Vocab::new(gguf) {
            Ok(vocab) => vocab,
            Err(e) => return json!({ "error": e.to_string() }),
        };
        let specials = Role::all().filter_map(|role| Some(json!({ "role": role.name(), "id": vocab.special(role)? })));
        json!({
            "model": vocab.model(), "pre": vocab.pre(), "n_tokens": vocab.len(), "n_merges": vocab.merges().count(),
            "special": specials.collect::<Vec<_>>(),
            "add_bos": vocab.add_bos(), "add_eos": vocab.add_eos(), "add_space_prefix": vocab.add_space_prefix(),
            "bytes_known": self.vocabulary().is_some_and(|tokens| tokens.encoder.is_some()),
        })
    }

    /// The ids of the tokens whose text, or whose bytes, contain `part`; those with that id, if it is a number; all if it is empty. `ty` limits them to
    /// a type of tokens.
    pub fn find_tokens(&'static self, part: &str, ty: Option<i32>) -> Vec<u32> {
        let Some(tokens) = self.vocabulary() else { return Vec::new() };
        let number = part.parse::<u32>().ok();
        let part = part.to_lowercase();
        let found = |(text, id): (Str<'_>, u32)| {
            let is_type = ty.is_none_or(|ty| tokens.vocab.token_type(id).is_some_and(|of| of as i32 == ty));
            let piece = || tokens.encoder.as_ref().is_some_and(|encoder| has(&encoder.piece(id), &part));
            let is_found = is_type && (part.is_empty() || number == Some(id) || has(text.as_bytes(), &part) || piece());
            is_found.then_some(id)
        };
        tokens.vocab.tokens().zip(0u32..).filter_map(found).collect()
    }

    /// The rows of tokens: id, text, bytes in hexadecimal if the tokenizer is known, type and score.
    pub fn tokens(&'static self, ids: &[u32]) -> Value {
        let Some(tokens) = self.vocabulary() else { return json!([]) };
        let mut texts = tokens.vocab.tokens().zip(0u32..).peekable();
        let mut rows = Vec::new();
        for id in ids {
            // Lists of tokens are in the order of their ids.
            let Some((text, _)) = texts.find(|(_, i)| i == id) else { break };
            let bytes = tokens.encoder.as_ref().map(|encoder| hex(&encoder.piece(*id)));
            rows.push(json!({
                "id": id, "text": shown(ValueRef::String(text)), "bytes": bytes,
                "type": tokens.vocab.token_type(*id).map(|ty| ty as u8),
                "score": tokens.vocab.score(*id).map(|score| format!("{score:?}")),
            }));
        }
        Value::Array(rows)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ")
}

fn finding(path: &Path, f: &Finding) -> Value {
    json!({
        "file": path.to_string_lossy(),
        "code": f.code, "severity": f.severity.to_string(), "structural": f.structural,
        "place": f.place.kind(), "name": f.place.name(), "offset": f.place.offset().map(number),
        "message": f.message, "expected": f.expected, "hint": f.hint,
    })
}
