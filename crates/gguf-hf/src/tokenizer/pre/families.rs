//! Pre-tokenizers of known families: the steps in `tokenizer.json`, in the canonical form of [`super::canonical`].
//!
//! The definitions are from published `tokenizer.json` files. The patterns also occur in llama.cpp's src/llama-vocab.cpp (`llm_tokenizer_bpe`),
//! as comments if it adapts them.

/// A family of tokenizers with the same pre-tokenizer.
pub(super) struct Family {
    /// Value of `tokenizer.ggml.pre`.
    pub(super) name: &'static str,
    /// The name for a tokenizer with NFC normalization, if it differs. llama.cpp does not normalize and treats both names alike, but its
    /// converter writes this one.
    pub(super) nfc: &'static str,
    /// The name for a tokenizer that does not look up whole words before merging, if it differs.
    pub(super) merging: &'static str,
    /// The steps of the pre-tokenizer.
    pub(super) steps: &'static [&'static str],
}

const fn family(name: &'static str, steps: &'static [&'static str]) -> Family {
    Family { name, nfc: name, merging: name, steps }
}

/// The families; the first match takes precedence.
pub(super) const FAMILIES: [Family; 14] = [
    Family { merging: "smaug-bpe", ..family("llama-bpe", &[LLAMA3, "bytes"]) },
    family("qwen2", &[QWEN2, "bytes"]),
    family("qwen35", &[QWEN35, "bytes"]),
    Family { nfc: "olmo", ..family("gpt-2", &["bytes+gpt2"]) },
    Family { nfc: "command-r", ..family("starcoder", &["digits(one)", "bytes+gpt2"]) },
    family("falcon", &["punctuation(Contiguous)", "bytes+gpt2", "digits(run)", "split(/[0-9][0-9][0-9]/)"]),
    family("tekken", &[TEKKEN, "bytes"]),
    family("gpt-4o", &[GPT4O, "bytes"]),
    family(
        "deepseek-coder",
        &[r"split(/[\r\n]/)", r"split(/\s?\p{L}+/)", r"split(/\s?\p{P}+/)", CJK, "digits(one)", "bytes"],
    ),
    family(
        "deepseek-llm",
        &[r"split(/[\r\n]/)", DEEPSEEK_LETTERS, DEEPSEEK_PUNCTUATION, r"split(/\s+$/)", CJK, "digits(one)", "bytes"],
    ),
    family(
        "deepseek-v3",
        &[
            r"split(/\p{N}{1,3}/)",
            "split(/[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+/)",
            DEEPSEEK3,
            "bytes",
        ],
    ),
    family("seed-coder", &[SEED_CODER, "bytes"]),
    family("bailingmoe", &[BAILINGMOE, "bytes"]),
    family("exaone-moe", &[EXAONE_MOE, "bytes"]),
];

/// Names of pre-tokenizers without a definition of their own, each with the family whose definition it shares.
pub(super) const ALIASES: &[(&str, &str)] = &[
    ("chatglm-bpe", "llama-bpe"),
    ("codeshell", "starcoder"),
    ("dbrx", "smaug-bpe"),
    ("deepseek-r1-qwen", "qwen2"),
    ("default", "gpt-2"),
    ("exaone", "starcoder"),
    ("exaone4", "gpt-2"),
    ("falcon3", "llama-bpe"),
    ("gigachat", "gpt-2"),
    ("glm4", "llama-bpe"),
    ("granite-docling", "starcoder"),
    ("hunyuan", "qwen2"),
    ("jina-v2-code", "gpt-2"),
    ("jina-v2-de", "gpt-2"),
    ("jina-v2-es", "gpt-2"),
    ("llama-v3", "llama-bpe"),
    ("llama3", "llama-bpe"),
    ("llama4", "gpt-4o"),
    ("megrez", "qwen2"),
    ("minerva-7b", "starcoder"),
    ("mpt", "gpt-2"),
    ("phi-2", "gpt-2"),
    ("pixtral", "tekken"),
    ("refact", "starcoder"),
    ("roberta-bpe", "gpt-2"),
    ("smollm", "starcoder"),
    ("stablelm2", "qwen2"),
];

/// Names of tokenizers that normalize texts to NFC, besides those of families that are named for it.
pub(super) const NFC: &[&str] = &["mpt", "qwen2", "qwen35", "stablelm2"];

const LLAMA3: &str = r"split(/(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/)";
const QWEN2: &str = r"split(/(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/)";
const QWEN35: &str = r"split(/(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/)";
const TEKKEN: &str = r"split(/[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+/)";
const GPT4O: &str = r"split(/[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+/)";
const SEED_CODER: &str = r"split(/(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+/)";
const BAILINGMOE: &str = r"split(/'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+/)";
const EXAONE_MOE: &str = r"split(/(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+/)";
const DEEPSEEK3: &str = r##"split(/[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/)"##;
const CJK: &str = "split(/[\u{4e00}-\u{9fa5}\u{800}-\u{4e00}\u{ac00}-\u{d7ff}]+/)";
const DEEPSEEK_PUNCTUATION: &str =
    "split(/\\s?[!-/:-~\u{ff01}-\u{ff0f}\u{ff1a}-\u{ff5e}\u{2018}-\u{201f}\u{3000}-\u{3002}]+/)";
const DEEPSEEK_LETTERS: &str = "split(/\\s?[A-Za-z\u{b5}\u{c0}-\u{d6}\u{d8}-\u{f6}\u{f8}-\u{1ba}\u{1bc}-\u{1bf}\u{1c4}-\u{293}\u{295}-\u{2af}\
     \u{370}-\u{373}\u{376}\u{377}\u{37b}-\u{37d}\u{37f}\u{386}\u{388}-\u{38a}\u{38c}\u{38e}-\u{3a1}\
     \u{3a3}-\u{3f5}\u{3f7}-\u{481}\u{48a}-\u{52f}\u{531}-\u{556}\u{10a0}-\u{10c5}\u{13a0}-\u{13f5}\
     \u{13f8}-\u{13fd}\u{1c90}-\u{1cba}\u{1cbd}-\u{1cbf}\u{1d00}-\u{1d2b}\u{1d6b}-\u{1d77}\u{1d79}-\u{1d9a}\
     \u{1e00}-\u{1f15}\u{1f18}-\u{1f1d}\u{1f20}-\u{1f45}\u{1f48}-\u{1f4d}\u{1f50}-\u{1f57}\u{1f59}\u{1f5b}\
     \u{1f5d}\u{1f5f}-\u{1f7d}\u{1f80}-\u{1fb4}\u{1fb6}-\u{1fbc}\u{1fbe}\u{1fc2}-\u{1fc4}\u{1fc6}-\u{1fcc}\
     \u{1fd0}-\u{1fd3}\u{1fd6}-\u{1fdb}\u{1fe0}-\u{1fec}\u{1ff2}-\u{1ff4}\u{1ff6}-\u{1ffc}\u{2102}\u{2107}\
     \u{210a}-\u{2113}\u{2115}\u{2119}-\u{211d}\u{2124}\u{2126}\u{2128}\u{212a}-\u{212d}\u{212f}-\u{2134}\
     \u{2139}\u{213c}-\u{213f}\u{2145}-\u{2149}\u{214e}\u{2183}\u{2184}\u{2c00}-\u{2c7b}\u{2c7e}-\u{2ce4}\
     \u{2ceb}-\u{2cee}\u{2cf2}\u{2cf3}\u{a640}-\u{a66d}\u{a680}-\u{a69b}\u{a722}-\u{a76f}\u{a771}-\u{a787}\
     \u{a78b}-\u{a78e}\u{ab70}-\u{abbf}\u{fb00}-\u{fb06}\u{fb13}-\u{fb17}\u{ff21}-\u{ff3a}\u{ff41}-\u{ff5a}\
     \u{10400}-\u{1044f}\u{104b0}-\u{104d3}\u{104d8}-\u{104fb}\u{10c80}-\u{10cb2}\u{10cc0}-\u{10cf2}\
     \u{118a0}-\u{118df}\u{1e900}-\u{1e943}]+/)";
