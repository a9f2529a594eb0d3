//! What a conversion knows beside the configuration: its options, and facts about the tensors, the tokenizer and the other files of the folder.
//!
//! Formulas and patterns read a fact as `@name`. No field of a configuration has such a name, so a document can neither set a fact nor hide one.

use std::collections::BTreeMap;

use serde_json::Value;

macro_rules! facts {
    ($($(#[doc = $doc:literal])* $fact:ident $name:literal)*) => {
        /// A fact with a fixed name. The tables of architectures name further ones, which hold the sizes and values of tensors.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Fact { $($(#[doc = $doc])* $fact),* }

        impl Fact {
            /// All facts with fixed names.
            #[cfg(test)]
            pub(crate) const ALL: &[Fact] = &[$(Fact::$fact),*];

            /// The name in formulas, without the `@`.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Fact::$fact => $name),* }
            }
        }
    };
}

facts! {
    // Options.
    /// Whether a target model is given.
    HasTarget "has_target"
    /// Which blocks are written: `left_out` or `only` for the MTP blocks.
    Mtp "mtp"
    /// The number of the file type, `general.file_type`.
    FileType "file_type"

    // Files.
    /// The name of the folder.
    Folder "folder"
    /// `config.json` without defaults.
    Config "config"
    /// `generation_config.json`, of the folder of the tokenizer if the tokenizer has been read.
    GenerationConfig "generation_config"
    /// `tokenizer_config.json` of the folder of the tokenizer.
    TokenizerConfig "tokenizer_config"
    /// The settings of the preprocessors.
    Preprocessor "preprocessor"
    /// The configuration of the target model.
    Target "target"
    /// The pooling mode of a sentence encoder.
    SentencePooling "sentence_pooling"
    /// The configuration of the first dense layer after the pooling.
    Dense2 "dense_2"
    /// The configuration of the second dense layer after the pooling.
    Dense3 "dense_3"
    /// Whether the embedding of the mask token is in a file of its own.
    HasMaskEmbedding "has_mask_embedding"

    // The tokenizer.
    /// `tokenizer.ggml.model`.
    TokenizerModel "tokenizer_model"
    /// Whether the tokenizer has a chat template.
    HasChatTemplate "has_chat_template"
    /// The added tokens, by id.
    AddedTokens "added_tokens"
    /// The ids of the two answers of a reranker.
    Rerank "rerank"
    /// An object of the number of tokens, `tokens`, and of the rows of the embedding matrix that are written, `rows`.
    Vocab "vocab"

    // The tensors.
    /// The number of blocks after the main blocks.
    AppendedBlocks "appended_blocks"
    /// The number of blocks of a second encoder; set by tables.
    FurtherBlocks "further_blocks"
    /// The numbers of heads by which rows are permuted; set by tables.
    Permuted "permuted"
    /// The ids in the target model of the tokens of a draft model.
    TokenIds "token_ids"
    /// The width of a layer after the pooling.
    DenseRows "dense_rows"
    /// The rows of the embedding matrix that are zero.
    ZeroRows "zero_rows"
}

/// The facts of a conversion, as JSON values for formulas.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Facts(BTreeMap<String, Value>);

impl Facts {
    pub(crate) fn get(&self, fact: Fact) -> Option<&Value> {
        self.named(fact.name())
    }

    pub(crate) fn set(&mut self, fact: Fact, value: impl Into<Value>) {
        self.set_named(fact.name(), value);
    }

    /// The fact of the given name, without the `@`.
    pub(crate) fn named(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Sets the fact of a name from a table of an architecture.
    pub(crate) fn set_named(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }
}
