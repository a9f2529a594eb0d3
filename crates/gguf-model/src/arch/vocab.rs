//! How the tokenizers of checkpoints are read.

/// The tokenizer of a class of checkpoints (the `set_vocab` functions of the reference).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vocab {
    /// The readers in the order tried: the first one whose files are there reads the tokenizer. Empty for a model without a tokenizer
    /// (`_set_vocab_none`).
    pub readers: &'static [Reader],
    /// What the function does besides.
    pub quirks: &'static [Quirk],
}

/// A reader of tokenizer files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// `tokenizer.json` with byte-level BPE (`_set_vocab_gpt2`).
    Bpe,
    /// As [`Bpe`](Reader::Bpe) for tokenizers of the class of GPT-2; no other reader is tried for them (`Phi3MiniModel.set_vocab`).
    Gpt2,
    /// `tokenizer.model`, a SentencePiece model (`_set_vocab_sentencepiece`).
    SentencePiece,
    /// `tokenizer.model` with the changes of other files.
    ChangedSentencePiece(Changes),
    /// A `tokenizer.json` whose BPE falls back to bytes, as a SentencePiece vocabulary (`_set_vocab_llama_hf`).
    ByteFallback,
    /// As [`ByteFallback`](Reader::ByteFallback), with its merges and with the tokens of channels and tools as text (`Gemma4Model.set_vocab`).
    Gemma4,
    /// The entries of a `tokenizer.json` as pieces without scores (`XverseModel.set_vocab`).
    Entries,
    /// A `tokenizer.model` with the ranks of byte sequences, as in Meta's folders since Llama 3; not beside a `tokenizer.json`, which then takes
    /// its place.
    Llama3,
    /// `tekken.json` (`_set_vocab_mistral`).
    Tekken {
        /// Whether this is Mistral's native layout: the file takes precedence over `tokenizer.json`, and the chat template is that of the
        /// folder, or a default for the version of the tokenizer.
        is_native: bool,
    },
    /// `tokenizer.json` with WordPiece, its tokens respelled for llama.cpp: U+2581 before the start of a word, instead of `##` before
    /// continuations; else `vocab.txt` (`BertModel.set_vocab`).
    WordPiece,
    /// As [`WordPiece`](Reader::WordPiece) or as [`Bpe`](Reader::Bpe), by the class in `tokenizer_config.json`; whole words if the
    /// pre-tokenizer is `Whitespace` (`JinaBertV2Model.set_vocab`).
    JinaBert,
    /// `sentencepiece.bpe.model` with Unigram, its ids realigned, else a `tokenizer.json` with Unigram (`BertModel._xlmroberta_set_vocab`).
    XlmRoberta,
    /// As [`XlmRoberta`](Reader::XlmRoberta), if the model in `tokenizer.json` is Unigram; with the mask token, which models with experts have
    /// (`NomicBertModel._is_tokenizer_xlmroberta`).
    NomicXlmRoberta,
    /// `tokenizer.model` or `spiece.model` with Unigram; a `tokenizer.model` with BPE as [`SentencePiece`](Reader::SentencePiece)
    /// (`T5Model.set_vocab`).
    T5,
    /// A `tiktoken` file, byte sequences with their ranks, as in Qwen 1 (`_set_vocab_qwen`).
    Tiktoken {
        /// Whether special tokens that the files do not name have defaults; not so in `HunYuanMoEModel.set_vocab`.
        has_defaults: bool,
    },
    /// `tiktoken.model` with the special tokens of `tokenizer_config.json`, as in Kimi K2 (`DeepseekV2Model.set_vocab`).
    Kimi {
        /// Whether `eos_token` of `tokenizer_config.json` overrides the id in `config.json` (`KimiLinearModel.set_vocab`).
        has_end: bool,
    },
    /// `rwkv_vocab_v20230424.txt`, with tokens as Python literals (`_set_vocab_rwkv_world`).
    RwkvWorld,
    /// `tokenizer.jsonl` (`_set_vocab_plamo`).
    Plamo {
        /// Whether the chat template is written (`Plamo3Model.set_vocab`).
        has_template: bool,
    },
}

/// The rules by which other files change a `tokenizer.model`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changes {
    /// The tokens of `tokenizer_config.json`, of which special ones are control tokens (`ArcticModel.set_vocab`).
    Arctic,
    /// The tokens of `tokenizer_config.json` and `tokenizer.json`, those of `added_tokens.json` behind all others; whether a text starts with a
    /// space (`InternLM2Model.set_vocab`).
    InternLm2,
    /// The tokens of `added_tokens.json`, `tokenizer_config.json` and `tokenizer.json` (`Phi3MiniModel.set_vocab`).
    Phi3,
}

/// What a `set_vocab` function does besides reading a tokenizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quirk {
    /// The text of added tokens is unchanged, and control tokens are those marked special (`get_vocab_base` of `DreamModel` and `LLaDAModel`).
    KeepsAddedTokens,
    /// The end-of-turn token is written, if the files name one (`RefactModel.set_vocab`).
    WritesEndOfTurn,
    /// The particulars of Llama's relatives: whether a text starts with a space, and tokens of Code Llama and Granite, which are known by the
    /// sizes of their vocabularies (`LlamaModel.set_vocab`).
    Llama,
    /// The end-of-turn token of a chat model ends a text, by `tokenizer.json`, else `tokenizer_config.json` (`InternLM2Model.set_vocab`).
    InternLm2,
    /// As [`InternLm2`](Quirk::InternLm2), by `tokenizer_config.json` alone; whether a text starts with a space (`InternLM3Model.set_vocab`).
    InternLm3,
}

impl Vocab {
    /// [`Reader::Bpe`].
    pub const BPE: Vocab = Vocab::read_by(&[Reader::Bpe]);
    /// [`Reader::Bpe`] with the added tokens as they are.
    pub const MARKED_BPE: Vocab = Vocab { readers: &[Reader::Bpe], quirks: &[Quirk::KeepsAddedTokens] };
    /// [`Reader::SentencePiece`].
    pub const SENTENCE_PIECE: Vocab = Vocab::read_by(&[Reader::SentencePiece]);
    /// `tokenizer.model`, else byte-level BPE.
    pub const SENTENCE_PIECE_OR_BPE: Vocab = Vocab::read_by(&[Reader::SentencePiece, Reader::Bpe]);
    /// Byte-level BPE, else `tokenizer.model`.
    pub const BPE_OR_SENTENCE_PIECE: Vocab = Vocab::read_by(&[Reader::Bpe, Reader::SentencePiece]);
    /// The tokenizers of Llama and its relatives (`LlamaModel.set_vocab`).
    pub const LLAMA: Vocab = Vocab {
        readers: &[
            Reader::Tekken { is_native: false },
            Reader::Llama3,
            Reader::SentencePiece,
            Reader::ByteFallback,
            Reader::Bpe,
        ],
        quirks: &[Quirk::Llama],
    };
    /// Byte-level BPE, else the ranks of Kimi, with the end of a text of `tokenizer_config.json`.
    pub const KIMI: Vocab = Vocab::read_by(&[Reader::Bpe, Reader::Kimi { has_end: true }]);
    /// [`Reader::RwkvWorld`].
    pub const RWKV_WORLD: Vocab = Vocab::read_by(&[Reader::RwkvWorld]);
    /// No tokenizer.
    pub const NONE: Vocab = Vocab::read_by(&[]);

    /// Readers without quirks.
    pub const fn read_by(readers: &'static [Reader]) -> Vocab {
        Vocab { readers, quirks: &[] }
    }

    /// Whether the quirk is one of this tokenizer.
    pub fn has(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }
}
