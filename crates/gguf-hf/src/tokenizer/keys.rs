//! The options of a tokenizer's conversion, and its result.

use gguf_format::Value;
use gguf_model::arch::Vocab;

use super::TokenizerWarning;

/// Tokenizer options.
#[derive(Debug, Clone)]
pub struct TokenizerOptions {
    /// The name of the pre-tokenizer, `tokenizer.ggml.pre`, for a BPE vocabulary; `None` to detect it.
    pub pre: Option<String>,
    /// The vocabulary files to read, and other behavior specific to the class of checkpoints.
    pub vocab: Vocab,
    /// Special tokens, by kind and text, for kinds that the files do not define.
    pub special_tokens: &'static [(&'static str, &'static str)],
    /// Whether a checkpoint in Mistral's native layout without a chat template gets a community template, based on its tokenizer version.
    pub community_template: bool,
    /// Whether the file `chat_template.jinja` takes precedence over the template in `tokenizer_config.json`.
    pub template_file_first: bool,
}

impl Default for TokenizerOptions {
    /// Detects the pre-tokenizer, and reads Llama's files.
    fn default() -> TokenizerOptions {
        TokenizerOptions {
            pre: None,
            vocab: Vocab::LLAMA,
            special_tokens: &[],
            community_template: true,
            template_file_first: false,
        }
    }
}

/// The tokenizer's key-values.
#[non_exhaustive]
#[derive(Debug)]
pub struct TokenizerKeys {
    /// The key-values, in output order.
    pub kvs: Vec<(String, Value)>,
    /// How the name of the pre-tokenizer was determined.
    pub pre: PreSource,
    /// Warnings about skipped or questionable parts of the tokenizer.
    pub warnings: Vec<TokenizerWarning>,
    /// The number of tokens, if it overrides the model's parameters.
    pub n_tokens: Option<u32>,
}

/// How the name of the pre-tokenizer was determined.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreSource {
    /// SentencePiece vocabularies have no pre-tokenizer.
    NotNeeded,
    /// The caller requested it.
    Requested,
    /// The hash of the check text's ids, as in llama.cpp's converter.
    Hash(String),
    /// The hash is unknown (or could not be computed), but the definition matches a known family.
    Definition {
        /// The hash, if it could be computed.
        hash: Option<String>,
    },
}
