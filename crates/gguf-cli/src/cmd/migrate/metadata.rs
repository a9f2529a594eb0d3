//! The options for metadata that legacy files lack.

use std::path::{Path, PathBuf};

use gguf_format::Value;
use gguf_hf::tokenizer::{self, TokenizerOptions};
use gguf_legacy::{Answers, Family, Generation, Input, Topic};
use gguf_model::arch;

use crate::failure::Failure;

/// Metadata that the file may lack.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Missing metadata")]
pub struct MetadataOptions {
    /// Accept all proposed values
    #[arg(short, long)]
    yes: bool,

    /// The original model's folder; metadata and tokenizer are taken from it unless an option sets them
    #[arg(long, value_name = "DIR")]
    config: Option<PathBuf>,

    /// A folder with the original tokenizer, which replaces the file's vocabulary
    #[arg(long, value_name = "DIR")]
    tokenizer: Option<PathBuf>,

    /// The architecture, if it cannot be detected: llama, gptneox, falcon, ...
    #[arg(long, value_name = "NAME", value_parser = family)]
    arch: Option<Family>,

    /// Context length in tokens
    #[arg(long, value_name = "N")]
    context_length: Option<u32>,

    /// Query heads per key head; an error if the tensor shapes differ
    #[arg(long, value_name = "N")]
    gqa: Option<u32>,

    /// Epsilon of the norms: 1e-6 for LLaMA, 1e-5 for Llama 2
    #[arg(long, value_name = "X", value_parser = parsed::<NormEpsilon>)]
    eps: Option<f32>,

    /// Base of the rotary frequencies: 10000; 1000000 for Code Llama
    #[arg(long, value_name = "X", value_parser = parsed::<RopeFreqBase>)]
    rope_freq_base: Option<f32>,

    /// Pooling of a sentence encoder: none, mean, cls or last
    #[arg(long, value_name = "KIND", value_parser = parsed::<Pooling>)]
    pooling: Option<u32>,

    /// Generation of quantized blocks, if it cannot be detected: first, second or present
    #[arg(long, value_name = "WHICH", value_parser = parsed::<BlockGeneration>)]
    block_generation: Option<Generation>,

    /// Replace tokens whose bytes are lost by placeholders
    #[arg(long)]
    without_lost_tokens: bool,

    /// The model's name; by default derived from the file name
    #[arg(long)]
    name: Option<String>,
}

fn family(text: &str) -> Result<Family, String> {
    Family::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = Family::ALL.iter().map(|family| family.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// An option whose text the library parses as an answer.
trait Answered {
    type Value;
    const TOPIC: Topic;
    fn of(answers: Answers) -> Option<Self::Value>;
}

macro_rules! answered {
    ($($name:ident $topic:ident $field:ident $ty:ty;)*) => { $(
        #[derive(Debug, Clone, Copy)]
        struct $name;

        impl Answered for $name {
            type Value = $ty;
            const TOPIC: Topic = Topic::$topic;
            fn of(answers: Answers) -> Option<$ty> {
                answers.$field
            }
        }
    )* };
}

answered! {
    NormEpsilon NormEpsilon norm_epsilon f32;
    RopeFreqBase RopeFreqBase rope_freq_base f32;
    Pooling Pooling pooling u32;
    BlockGeneration Generation generation Generation;
}

fn parsed<A: Answered>(text: &str) -> Result<A::Value, String> {
    let mut answers = Answers::default();
    answers.set(A::TOPIC, text).map_err(|e| e.to_string())?;
    A::of(answers).ok_or_else(|| "no answer".to_owned())
}

impl MetadataOptions {
    /// The architecture from the command line.
    pub fn family(&self) -> Option<Family> {
        self.arch
    }

    /// Collects the answers from the options and from the folders they name.
    ///
    /// # Errors
    /// If a folder cannot be read.
    pub fn read(&self, input: &Input) -> Result<Answers, Failure> {
        for dir in self.config.iter().chain(&self.tokenizer) {
            crate::cmd::expect_folder(dir, "expected the folder of the original model")?;
        }
        let mut answers = Answers::default();
        if let Some(n) = self.context_length {
            answers.set(Topic::ContextLength, &n.to_string())?;
        }
        answers.norm_epsilon = self.eps;
        answers.rope_freq_base = self.rope_freq_base;
        answers.heads_per_group = self.gqa;
        answers.generation = self.block_generation;
        answers.pooling = self.pooling;
        answers.without_lost_tokens = self.without_lost_tokens;
        answers.name = self.name.clone();
        answers.accept = self.yes;
        if let Some(dir) = &self.config {
            let options = gguf_hf::Options::default().vocab_only(true);
            let conversion = gguf_hf::plan(dir, &options)?;
            answers.reference = Some(key_values(conversion.plan.head()));
            answers.files.extend(files(dir));
        }
        if let (Some(dir), Input::Legacy(file)) = (&self.tokenizer, input) {
            answers.tokenizer = Some(read_tokenizer(dir, file.family(), file.vocab_size())?);
            answers.files.extend(files(dir));
        }
        Ok(answers)
    }
}

/// The key-values of a head whose keys are UTF-8.
fn key_values(head: &gguf_format::Head) -> Vec<(String, Value)> {
    let kv = |kv: &gguf_format::Kv| Some((String::from_utf8(kv.key.clone()).ok()?, kv.value.clone()));
    head.kvs.iter().filter_map(kv).collect()
}

/// The files in a folder.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect()
}

/// Reads the tokenizer in a folder with the vocabulary options of the architecture.
fn read_tokenizer(dir: &PathBuf, family: Family, vocab_size: u32) -> Result<Vec<(String, Value)>, Failure> {
    let checkpoint = arch::of(family.architecture()).and_then(|architecture| architecture.checkpoints.last());
    let mut options = TokenizerOptions::default();
    if let Some(checkpoint) = checkpoint {
        options.vocab = checkpoint.tokenizer.vocab;
        options.special_tokens = checkpoint.tokenizer.special_tokens;
    }
    // First with the tokenizer's own size: a smaller `vocab_size` would drop its last tokens.
    let of_size = |size: Option<u32>| {
        let config = serde_json::json!({ "vocab_size": size });
        tokenizer::key_values(dir, &config, &options).map_err(gguf_hf::Error::from)
    };
    let own = of_size(None)?.kvs;
    let n_tokens = own.iter().find(|(key, _)| key == "tokenizer.ggml.tokens").and_then(|(_, value)| {
        let array = value.as_ref().as_array()?;
        Some(array.len())
    });
    match n_tokens {
        Some(n) if n < u64::from(vocab_size) => Ok(of_size(Some(vocab_size))?.kvs),
        _ => Ok(own),
    }
}
