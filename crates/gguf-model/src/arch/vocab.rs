//! Kinds of tokenizers in checkpoints.

/// The tokenizer files of a class of checkpoints, in the order tried (the `set_vocab` functions of the reference).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vocab {
    /// `tokenizer.json` with byte-level BPE (`_set_vocab_gpt2`).
    Bpe,
    /// As [`Bpe`](Vocab::Bpe), with the text of added tokens unchanged: control tokens are those marked special
    /// (`get_vocab_base` of `DreamModel` and `LLaDAModel`).
    MarkedBpe,
    /// `tokenizer.model`, else as [`Bpe`](Vocab::Bpe).
    SentencePieceOrBpe,
    /// `tokenizer.model`, else a `tokenizer.json` whose BPE falls back to bytes, else as [`Bpe`](Vocab::Bpe); and the particulars of
    /// Llama's relatives (`LlamaModel.set_vocab`).
    Llama,
    /// `tokenizer.model` (`_set_vocab_sentencepiece`).
    SentencePiece,
    /// A `tokenizer.json` whose BPE falls back to bytes (`_set_vocab_llama_hf`).
    LlamaHf,
    /// The entries of a `tokenizer.json` as pieces without scores (`XverseModel.set_vocab`).
    Pieces,
    /// `tokenizer.model` with the changes of `tokenizer_config.json`, whose special tokens are control tokens
    /// (`ArcticModel.set_vocab`).
    Arctic,
    /// `tokenizer.model` with the changes of `tokenizer_config.json` and `tokenizer.json`, and tokens for the space
    /// before a text and for the end of a turn (`InternLM2Model.set_vocab`).
    InternLm2,
    /// `tokenizer.model`; special tokens are those marked in `tokenizer_config.json` (`InternLM3Model.set_vocab`).
    InternLm3,
    /// `tokenizer.model` with the changes of `tokenizer_config.json` and `tokenizer.json`; as [`Bpe`](Vocab::Bpe) for
    /// the tokenizer of GPT-2 (`Phi3MiniModel.set_vocab`).
    Phi3,
    /// `tokenizer.json` with WordPiece, its tokens respelled for llama.cpp: U+2581 before the start of a word, instead
    /// of `##` before continuations (`BertModel.set_vocab`).
    WordPiece,
    /// As [`Bpe`](Vocab::Bpe) or as [`WordPiece`](Vocab::WordPiece), depending on `tokenizer_config.json`; whole words
    /// if the pre-tokenizer is `Whitespace` (`JinaBertV2Model.set_vocab`).
    BpeOrWordPiece,
    /// `sentencepiece.bpe.model` with Unigram, its ids realigned, else a `tokenizer.json` with Unigram
    /// (`BertModel._xlmroberta_set_vocab`).
    XlmRoberta,
    /// As [`XlmRoberta`](Vocab::XlmRoberta) or as [`WordPiece`](Vocab::WordPiece), by the model in `tokenizer.json`
    /// (`NomicBertModel._is_tokenizer_xlmroberta`).
    UnigramOrWordPiece,
    /// `tokenizer.model` or `spiece.model` with Unigram; as [`SentencePiece`](Vocab::SentencePiece) for a `tokenizer.model` with BPE
    /// (`T5Model.set_vocab`).
    T5,
    /// A `tiktoken` file, byte sequences with their ranks, as in Qwen 1 (`_set_vocab_qwen`).
    Tiktoken,
    /// As [`Tiktoken`](Vocab::Tiktoken), with the special tokens named in the files (`HunYuanMoEModel.set_vocab`).
    TiktokenWithoutDefaults,
    /// As [`Bpe`](Vocab::Bpe), else `tiktoken.model` with the special tokens of `tokenizer_config.json`, as in Kimi K2
    /// (`DeepseekV2Model.set_vocab`).
    BpeOrTiktoken,
    /// As [`BpeOrTiktoken`](Vocab::BpeOrTiktoken), but `eos_token` of `tokenizer_config.json` overrides the id in
    /// `config.json` (`KimiLinearModel.set_vocab`).
    BpeOrTiktokenWithEnd,
    /// `rwkv_vocab_v20230424.txt`, with tokens as Python literals (`_set_vocab_rwkv_world`).
    RwkvWorld,
    /// `tokenizer.jsonl` (`_set_vocab_plamo`).
    Plamo,
    /// As [`Plamo`](Vocab::Plamo), with the chat template (`Plamo3Model.set_vocab`).
    PlamoWithTemplate,
    /// A `tokenizer.json` whose BPE falls back to bytes, with its merges and with the tokens of channels and tools as text
    /// (`Gemma4Model.set_vocab`).
    Gemma4,
    /// As [`Bpe`](Vocab::Bpe), else `tokenizer.model`.
    BpeOrSentencePiece,
    /// As [`Bpe`](Vocab::Bpe), with the end-of-turn token if the files name one (`RefactModel.set_vocab`).
    BpeWithEndOfTurn,
    /// `tekken.json`, with the chat template in the folder, or a default for its version (`_set_vocab_mistral`).
    Mistral,
    /// No tokenizer (`_set_vocab_none`).
    None,
}
