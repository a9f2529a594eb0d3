//! Semantic checks of a file: keys, tensors, tokenizer and shards, compared with the architecture tables.
//!
//! [`gguf_format::check`] covers the format itself. Both return a [`Report`], so their findings can be combined. The
//! rules here work on headers that parse. False positives are worse than misses: a rule reports only what is certain.

use std::collections::BTreeSet;

use gguf_format::check::{At, Report, shown};
use gguf_format::keys::{self, KeyInfo};
use gguf_format::{FromValue, Gguf, KvRef, Str, TensorInfoRef, ValueRef};

mod files;
mod reads;
mod rules;
mod template;
mod tensor_names;
mod tensors;
mod tokenizer;
mod values;

pub use rules::RULES;

use crate::hparams::Hparams;
use rules::{ARCH_MISSING, ARCH_UNKNOWN, ARCH_UNSUPPORTED};

/// The input of the rules.
struct Model<'g> {
    /// The given shards, the first one first; an unsplit file is a single shard.
    shards: &'g [&'g Gguf<'g>],
    /// The shard with the keys of the model.
    first: &'g Gguf<'g>,
    /// `general.architecture` if it is a string, else empty.
    arch: &'g str,
    kind: FileRole,
    /// Whether all shards of the model are given.
    complete: bool,
    /// The known keys in the file, without duplicates.
    known: Vec<(&'static KeyInfo, KvRef<'g>)>,
    hparams: Hparams<'g>,
}

/// The kind of file, which determines its keys and tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileRole {
    Model,
    /// A vocabulary: a model without tensors.
    Vocab,
    Adapter,
    Imatrix,
    Projector,
    /// A single shard other than the first.
    Shard,
    Other,
}

/// Checks a model by the headers of its shards, the first one first. An unsplit file is a single shard; a lone shard
/// of a split model is checked as far as possible. `file_name` is the name of the first file, without folder, if its
/// name is to be checked.
///
/// Of duplicate keys, the first takes precedence.
///
/// ```
/// use gguf_format::check::Severity;
/// use gguf_format::{Gguf, Head};
///
/// let mut head = Head::default();
/// head.set("general.architecture", "llama");
/// let bytes = head.encode()?;
/// let report = gguf_model::check::model(&[&Gguf::parse(&bytes)?], None);
/// // There are no hyperparameters.
/// let finding = report.findings().find(|finding| finding.code == "key.missing").expect("no keys");
/// println!("{finding}; {}", finding.hint);
/// assert_eq!(finding.severity, Severity::Error);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn model(shards: &[&Gguf<'_>], file_name: Option<&str>) -> Report {
    let mut report = Report::new();
    let Some(&first) = shards.first() else { return report };
    let model = Model::new(shards, first);
    architecture(&model, &mut report);
    values::check(&model, &mut report);
    tensors::check(&model, &mut report);
    tokenizer::check(&model, &mut report);
    files::check(&model, file_name, &mut report);
    report
}

impl<'g> Model<'g> {
    fn new(shards: &'g [&'g Gguf<'g>], first: &'g Gguf<'g>) -> Model<'g> {
        let arch = first.get_as::<&str>(keys::GENERAL_ARCHITECTURE).unwrap_or_default();
        let n_shards = shard_count(first);
        let mut model = Model {
            shards,
            first,
            arch,
            kind: FileRole::Other,
            complete: n_shards <= 1 || n_shards == shards.len() as u64,
            known: Vec::new(),
            hparams: Hparams::default(),
        };
        // Keys of other architectures are unknown here.
        let mut rows = BTreeSet::new();
        for kv in first.kvs() {
            let row = kv.key.to_str().ok().and_then(|key| keys::lookup(key, Some(arch)));
            if let Some(row) = row
                && !row.pattern.contains("{id}")
                && rows.insert(row.pattern)
            {
                model.known.push((row, kv));
            }
        }
        model.kind = model.find_kind();
        // The keys of all dense modules have one pattern.
        let dense =
            |pattern: &str| first.get(&pattern.strip_prefix("{arch}.dense_").map(|_| keys::for_arch(pattern, arch))?);
        // Keys that llama.cpp does not read have no influence on the network.
        let is_loaded = model.kind == FileRole::Model && crate::arch::required_keys(arch).next().is_some();
        let is_read = |pattern: &str| !is_loaded || reads::has_effect(&model, pattern);
        let value = |pattern: &str| model.value(pattern).filter(|_| is_read(pattern));
        let hparams = Hparams::new(|pattern| value(pattern).or_else(|| dense(pattern)));
        model.hparams = hparams;
        model.read_tensors();
        model.set_defaults();
        model
    }

    fn find_kind(&self) -> FileRole {
        let n_tensors: u64 = self.shards.iter().map(|s| s.n_tensors()).sum();
        let no: u64 = self.get(keys::SPLIT_NO).unwrap_or(0);
        match self.get(keys::GENERAL_TYPE) {
            _ if self.arch == "clip" => FileRole::Projector,
            Some("adapter") => FileRole::Adapter,
            Some("imatrix") => FileRole::Imatrix,
            Some("mmproj") => FileRole::Projector,
            // An image model has no hyperparameter keys and no tokenizer.
            None | Some("model") if keys::is_image_architecture(self.arch) => FileRole::Other,
            None | Some("model") if no > 0 && self.arch.is_empty() => FileRole::Shard,
            None | Some("model") if n_tensors == 0 && self.complete => FileRole::Vocab,
            None | Some("model" | "vocab") => FileRole::Model,
            Some(_) => FileRole::Other,
        }
    }

    /// The key-value pair of a known key, by the key's pattern.
    fn kv(&self, pattern: &str) -> Option<&KvRef<'g>> {
        self.known.iter().find(|(row, _)| row.pattern == pattern).map(|(_, kv)| kv)
    }

    fn value(&self, pattern: &str) -> Option<ValueRef<'g>> {
        self.kv(pattern).map(|kv| kv.value)
    }

    /// The value of a known key, if it is a `T`.
    fn get<T: FromValue<'g>>(&self, pattern: &str) -> Option<T> {
        self.value(pattern)?.get().ok()
    }

    /// The tensor with this name.
    fn tensor(&self, name: &str) -> Option<TensorInfoRef<'g>> {
        self.shards.iter().flat_map(|shard| shard.tensors()).find(|t| t.name == *name)
    }

    /// Sets the hyperparameters that llama.cpp derives from tensors.
    fn read_tensors(&mut self) {
        if matches!(self.arch, "dflash" | "eagle3") {
            let ids = self.tensor("d2t").map(|t| t.dims.dim(0));
            self.hparams.draft_vocab = ids.or(self.hparams.vocab);
            self.hparams.markov_rank = Some(self.tensor("markov_w1.weight").map_or(0, |t| t.dims.dim(0)));
            self.hparams.has_selector = Some(self.tensor("selector_hidden.weight").is_some());
        }
        let n_main = self.hparams.blocks.unwrap_or(0).saturating_sub(self.hparams.mtp_blocks);
        let next = format!("blk.{n_main}.nextn.eh_proj.weight");
        if self.arch == "deepseek4" && self.hparams.mtp_blocks > 0 && self.tensor(&next).is_none() {
            self.hparams.mtp_blocks = 0;
        }
    }

    /// Sets the hyperparameters that llama.cpp derives from other keys in single architectures (`load_arch_hparams` and
    /// `load_arch_tensors` in `src/models`).
    fn set_defaults(&mut self) {
        let h = &mut self.hparams;
        match self.arch {
            // Heads of values in linear attention have the length of its keys, whatever the inner size is.
            "qwen35" | "qwen35moe" | "qwen3next" | "qwen4exp" => {
                h.ssm_inner = h.ssm_state.zip(h.ssm_rank).and_then(|(head, heads)| head.checked_mul(heads));
                h.attention_interval = h.attention_interval.or(Some(4));
            }
            // Factors of rotary frequencies cover whole heads.
            "phimoe" => h.rot = h.embd.zip(h.heads.and_then(|heads| heads.get(0))).and_then(|(n, k)| n.checked_div(k)),
            // More blocks than there are mean that no block shares keys and values.
            "gemma4" if h.blocks.is_some_and(|n| n < h.shared_kv) => h.shared_kv = 0,
            // There is a shared expert in any case.
            "exaone-moe" => h.shared_experts = 1,
            "hy_v3" => h.shared_ff = h.shared_ff.or_else(|| h.expert_ff(0)),
            _ => {}
        }
    }

    /// Whether there is a block with this number that has linear attention.
    fn is_main_recurrent(&self, block: u64) -> bool {
        self.hparams.blocks.is_none_or(|n| block < n) && self.hparams.is_recurrent(block)
    }

    /// Whether the hyperparameter keys are required.
    fn is_network(&self) -> bool {
        self.kind == FileRole::Model
    }
}

/// `split.count`, by default 1. gguf-split sets it to 0 when it merges shards.
fn shard_count(first: &Gguf<'_>) -> u64 {
    first.get_as(keys::SPLIT_COUNT).unwrap_or(1)
}

fn architecture(model: &Model<'_>, report: &mut Report) {
    if matches!(model.kind, FileRole::Imatrix | FileRole::Shard) {
        return;
    }
    match model.first.kv(keys::GENERAL_ARCHITECTURE) {
        None => report.add(&ARCH_MISSING, At::no_key(keys::GENERAL_ARCHITECTURE), format_args!("the key is missing")),
        Some(kv) => match kv.value.get::<&str>() {
            Err(e) => report.add(&ARCH_MISSING, &kv, format_args!("the value {e}")),
            Ok("") => report.add(&ARCH_MISSING, &kv, format_args!("the text is empty")),
            // llama.cpp names gptj, and has no models of it.
            Ok(arch) if model.is_network() && (arch == "gptj" || keys::SPEC_ARCHITECTURES.contains(&arch)) => {
                report.add(&ARCH_UNSUPPORTED, &kv, format_args!("llama.cpp does not load {arch} models"));
            }
            Ok(arch) if crate::arch::is_known(arch) || keys::is_image_architecture(arch) => {}
            Ok(arch) => {
                let arch = shown(Str(arch.as_bytes()));
                report.add(&ARCH_UNKNOWN, &kv, format_args!("the architecture is {arch}"));
            }
        },
    }
}
