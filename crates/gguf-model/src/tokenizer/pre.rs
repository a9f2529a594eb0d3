//! The pre-tokenizers: how a text is cut into words before pairs are merged, by the names of `tokenizer.ggml.pre`.
//!
//! The steps are those of llama.cpp (`llm_tokenizer_bpe` in `llama-vocab.cpp`, `unicode.cpp`), which adapts the patterns of the models'
//! `tokenizer.json`. Each step cuts the pieces of the steps before it.

use super::pattern::{Memory, Pattern};

/// A step of a pre-tokenizer.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Cuts at the matches of a pattern.
    Cut(&'static str),
    /// Cuts runs of digits in threes from the right. A run whose length is not a multiple of three stays with the text before it.
    Threes,
    /// Cuts before each digit that a multiple of three ASCII digits begins with.
    Thousands,
    /// Cuts before white space at the end.
    LastSpace,
}

use Step::{Cut, LastSpace, Thousands, Threes};

/// A pre-tokenizer, and the properties of its vocabularies.
#[derive(Debug)]
pub(super) struct PreTokenizer {
    /// The values of `tokenizer.ggml.pre`.
    names: &'static [&'static str],
    steps: &'static [Step],
    /// Whether a word that is a token is not merged.
    pub(super) whole_words: bool,
    /// Whether `bos` is put before a text, if the file does not say.
    pub(super) add_bos: bool,
    /// Whether vocabularies without a key for `bos` have no such token.
    pub(super) no_bos: bool,
    /// Whether text is merged as characters with marks for spaces, not as bytes.
    pub(super) marks: bool,
}

const BYTES: PreTokenizer =
    PreTokenizer { names: &[], steps: &[], whole_words: false, add_bos: false, no_bos: false, marks: false };
const WHOLE: PreTokenizer = PreTokenizer { whole_words: true, ..BYTES };
const BEGUN: PreTokenizer = PreTokenizer { add_bos: true, ..BYTES };

/// English contractions.
macro_rules! contraction {
    () => {
        "(?:'[sStTmMdD]|'[rR][eE]|'[vV][eE]|'[lL][lL])"
    };
}

/// What follows words and digits in most patterns: other characters, and white space.
macro_rules! others {
    ($others:literal) => {
        concat!($others, r"|\s*[\r\n]+|\s+(?!\S)|\s+")
    };
}

const GPT_2: Step = Cut(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+");
const DIGIT: Step = Cut(r"\p{N}");
const DIGITS_3: Step = Cut(r"\p{N}{1,3}");
const LINES: Step = Cut(r"[^\n]+|[\n]+");
const LLAMA_3: Step =
    Cut(concat!(contraction!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|", others!(r" ?[^\s\p{L}\p{N}]+[\r\n]*")));
const QWEN_2: Step =
    Cut(concat!(contraction!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|", others!(r" ?[^\s\p{L}\p{N}]+[\r\n]*")));
/// Words of letters and marks after at most one other character, and punctuation.
const MARKED_WORDS: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"##,
    others!(r" ?[\p{P}\p{S}]+[\r\n]*")
);
const IDEOGRAPHS: Step = Cut("[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+");
const IDEOGRAPHS_AND_HANGUL: Step = Cut("[\u{4e00}-\u{9fa5}\u{800}-\u{4e00}\u{ac00}-\u{d7ff}]+");
const LINE_ENDS: Step = Cut(r"[\r\n]");
const SENTENCES: Step = Cut(" ?[^(\\s|.,!?\u{2026}\u{3002}\u{ff0c}\u{3001}\u{964}\u{6d4}\u{60c})]+");

/// The letters of scripts with two cases, after at most one space.
const CASED_LETTERS: Step = Cut(
    "\\s?[A-Za-z\u{b5}\u{c0}-\u{d6}\u{d8}-\u{f6}\u{f8}-\u{1ba}\u{1bc}-\u{1bf}\u{1c4}-\u{293}\u{295}-\u{2af}\u{370}-\u{373}\u{376}\
    \u{377}\u{37b}-\u{37d}\u{37f}\u{386}\u{388}-\u{38a}\u{38c}\u{38e}-\u{3a1}\u{3a3}-\u{3f5}\u{3f7}-\u{481}\u{48a}-\u{52f}\
    \u{531}-\u{556}\u{10a0}-\u{10c5}\u{13a0}-\u{13f5}\u{13f8}-\u{13fd}\u{1c90}-\u{1cba}\u{1cbd}-\u{1cbf}\u{1d00}-\u{1d2b}\
    \u{1d6b}-\u{1d77}\u{1d79}-\u{1d9a}\u{1e00}-\u{1f15}\u{1f18}-\u{1f1d}\u{1f20}-\u{1f45}\u{1f48}-\u{1f4d}\u{1f50}-\u{1f57}\
    \u{1f59}\u{1f5b}\u{1f5d}\u{1f5f}-\u{1f7d}\u{1f80}-\u{1fb4}\u{1fb6}-\u{1fbc}\u{1fbe}\u{1fc2}-\u{1fc4}\u{1fc6}-\u{1fcc}\
    \u{1fd0}-\u{1fd3}\u{1fd6}-\u{1fdb}\u{1fe0}-\u{1fec}\u{1ff2}-\u{1ff4}\u{1ff6}-\u{1ffc}\u{2102}\u{2107}\u{210a}-\u{2113}\
    \u{2115}\u{2119}-\u{211d}\u{2124}\u{2126}\u{2128}\u{212a}-\u{212d}\u{212f}-\u{2134}\u{2139}\u{213c}-\u{213f}\u{2145}-\
    \u{2149}\u{214e}\u{2183}\u{2184}\u{2c00}-\u{2c7b}\u{2c7e}-\u{2ce4}\u{2ceb}-\u{2cee}\u{2cf2}\u{2cf3}\u{a640}-\u{a66d}\
    \u{a680}-\u{a69b}\u{a722}-\u{a76f}\u{a771}-\u{a787}\u{a78b}-\u{a78e}\u{ab70}-\u{abbf}\u{fb00}-\u{fb06}\u{fb13}-\u{fb17}\
    \u{ff21}-\u{ff3a}\u{ff41}-\u{ff5a}\u{10400}-\u{1044f}\u{104b0}-\u{104d3}\u{104d8}-\u{104fb}\u{10c80}-\u{10cb2}\u{10cc0}-\
    \u{10cf2}\u{118a0}-\u{118df}\u{1e900}-\u{1e943}]+",
);
const WIDE_PUNCTUATION: Step = Cut("\\s?[!-/:-~\u{ff01}-\u{ff0f}\u{ff1a}-\u{ff5e}\u{2018}-\u{201f}\u{3000}-\u{3002}]+");

/// The pre-tokenizer of a vocabulary that names none.
const DEFAULT: PreTokenizer = PreTokenizer {
    names: &["default"],
    steps: &[Cut(r"[\p{P}\$\+<=>\^~\|]+"), GPT_2, Cut(r"\p{N}+"), Cut("[0-9][0-9][0-9]")],
    ..BYTES
};

/// Words of letters that begin with upper-case ASCII letters or end with lower-case ones, and a contraction at their end.
macro_rules! cased_words {
    ($letter:literal, $end:expr) => {
        concat!(
            r"[^\r\n\p{L}\p{N}]?[",
            $letter,
            r"--a-z]*[",
            $letter,
            r"--A-Z]+",
            $end,
            r"|[^\r\n\p{L}\p{N}]?[",
            $letter,
            r"--a-z]+[",
            $letter,
            r"--A-Z]*",
            $end,
            r"|"
        )
    };
}

/// The reference makes no difference between letters of upper and lower case here.
macro_rules! marked_words {
    () => {
        concat!(r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+", contraction!(), "?|")
    };
}

#[rustfmt::skip]
static TABLE: &[PreTokenizer] = &[
    DEFAULT,
    PreTokenizer {
        names: &["llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"],
        steps: &[LLAMA_3], add_bos: true, ..WHOLE
    },
    PreTokenizer { names: &["dbrx", "smaug-bpe"], steps: &[LLAMA_3], ..BYTES },
    PreTokenizer { names: &["chatglm-bpe"], steps: &[LLAMA_3], no_bos: true, ..BYTES },
    PreTokenizer { names: &["glm4", "glm5"], steps: &[LLAMA_3], no_bos: true, ..WHOLE },
    PreTokenizer {
        names: &["jais-2"],
        steps: &[Cut(concat!(
            contraction!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)",
            r"|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}"
        ))],
        ..BYTES
    },
    PreTokenizer {
        names: &["minicpm5"],
        steps: &[DIGITS_3, Cut(concat!(
            contraction!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+|", others!(r" ?[^\s\p{L}\p{N}]+[\r\n]*")
        ))],
        ..WHOLE
    },
    PreTokenizer {
        names: &["deepseek-llm"],
        steps: &[LINE_ENDS, CASED_LETTERS, WIDE_PUNCTUATION, LastSpace, IDEOGRAPHS_AND_HANGUL, Cut(r"\p{N}+")],
        ..BYTES
    },
    PreTokenizer {
        names: &["deepseek-coder"],
        steps: &[LINE_ENDS, Cut(r"\s?\p{L}+"), Cut(r"\s?\p{P}+"), IDEOGRAPHS_AND_HANGUL, DIGIT],
        ..BYTES
    },
    PreTokenizer {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
        steps: &[DIGITS_3, IDEOGRAPHS, Cut(MARKED_WORDS)],
        ..BYTES
    },
    PreTokenizer {
        names: &["spark2_5"],
        steps: &[DIGITS_3, IDEOGRAPHS, Cut(concat!(
            r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
            r"| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"
        )), DIGIT],
        ..BYTES
    },
    PreTokenizer {
        names: &["youtu"],
        steps: &[
            Cut("[\u{ac00}-\u{d7a3}\u{3131}-\u{318e}]+|[\u{ff01}\u{2026}\u{201c}\u{201d}\u{2018}\u{2019}\u{2014}\u{ff1a}\u{ff1b}\u{ff0c}\u{3001}-\u{303f}\u{fe30}-\u{fe4f}]+|[\u{3105}-\u{312f}]+|[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+"),
            Cut(concat!(marked_words!(), r"\p{N}|", others!(r" ?[^\s\p{L}\p{N}]+[\r\n/]*"))),
        ],
        ..WHOLE
    },
    PreTokenizer {
        names: &["falcon"],
        steps: &[Cut(r"[\p{P}\$\+<=>\^~\|`]+"), GPT_2, Cut("[0-9][0-9][0-9]")],
        ..BYTES
    },
    PreTokenizer {
        names: &["starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"],
        steps: &[DIGIT, GPT_2],
        ..BYTES
    },
    PreTokenizer {
        names: &[
            "gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum", "modern-bert",
            "jina-v1-en", "jina-v2-code", "roberta-bpe", "exaone4", "mpt", "olmo", "jais", "trillion", "granite-docling",
        ],
        steps: &[GPT_2],
        ..BYTES
    },
    PreTokenizer {
        names: &[
            "qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "megrez", "hunyuan", "solar-open", "grok-2",
        ],
        steps: &[QWEN_2],
        ..BYTES
    },
    PreTokenizer {
        names: &["qwen35"],
        steps: &[Cut(concat!(
            contraction!(), r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|", others!(r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*")
        ))],
        ..BYTES
    },
    PreTokenizer {
        names: &["ufakzeka"],
        steps: &[Cut(concat!(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|", others!(r" ?[^\s\p{L}\p{N}]+[\r\n]*")))],
        ..BYTES
    },
    PreTokenizer {
        names: &["bailingmoe", "bailingmoe2", "llada-moe"],
        steps: &[Cut(concat!(
            contraction!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
        ))],
        ..BYTES
    },
    PreTokenizer {
        names: &["seed-coder"],
        steps: &[Cut(concat!(
            contraction!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|", others!(r" ?[^\s\p{L}\p{N}\r\n]+")
        ))],
        ..BYTES
    },
    PreTokenizer { names: &["laguna"], steps: &[LINES, QWEN_2], ..BYTES },
    PreTokenizer {
        names: &["exaone-moe"],
        steps: &[Cut(concat!(
            contraction!(), r"|[^\r\n\p{L}\p{N}]?\p{L}\p{M}*(?: ?\p{L}\p{M}*)*|\p{N}",
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
        ))],
        ..BYTES
    },
    PreTokenizer { names: &["poro-chat", "bloom", "gpt3-finnish"], steps: &[SENTENCES], ..BYTES },
    PreTokenizer { names: &["viking"], steps: &[SENTENCES, DIGIT], ..BYTES },
    PreTokenizer {
        names: &["tekken"],
        steps: &[Cut(concat!(cased_words!(r"\p{L}", ""), r"\p{N}|", others!(r" ?[^\s\p{L}\p{N}]+[\r\n/]*")))],
        add_bos: true, ..WHOLE
    },
    PreTokenizer {
        names: &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"],
        steps: &[Cut(concat!(
            cased_words!(r"\p{L}", concat!(contraction!(), "?")), r"\p{N}{1,3}|", others!(r" ?[^\s\p{L}\p{N}]+[\r\n/]*")
        ))],
        ..BYTES
    },
    PreTokenizer {
        names: &["granite-embed-multi-97m"],
        steps: &[Cut(concat!(
            cased_words!(r"\p{L}\p{M}", concat!(contraction!(), "?")), r"\p{N}{1,3}|", others!(r" ?[^\s\p{L}\p{N}]+[\r\n/]*")
        ))],
        ..WHOLE
    },
    PreTokenizer {
        names: &["tiny_aya", "cohere2moe"],
        steps: &[Threes, Cut(concat!(marked_words!(), r"\p{N}{1,3}|", others!(r" ?[^\s\p{L}\p{N}]+[\r\n/]*")))],
        ..BYTES
    },
    PreTokenizer {
        names: &["chameleon"],
        steps: &[
            Cut("<sentinel:[0-9]+>"), Cut("IMGIMG[A-I]{1,4}Z"), Cut(r"[\t\n]|    |  "), DIGIT, Cut(r"[\p{P}!-/:-@\[-`{-~]"), GPT_2,
        ],
        ..BEGUN
    },
    PreTokenizer {
        names: &["kimi-k2"],
        steps: &[Cut(concat!(
            r"\p{Han}+|[^\r\n\p{L}\p{N}]?[\p{L}--\p{Han}]+", contraction!(), r"?|\p{N}{1,3}|",
            others!(r" ?[^\s\p{L}\p{N}]+[\r\n]*")
        ))],
        ..BYTES
    },
    PreTokenizer { names: &["superbpe"], steps: &[Cut(r"\p{N}+"), Thousands], ..BYTES },
    PreTokenizer {
        names: &["afmoe"],
        steps: &[
            Threes,
            Cut(
                "[\u{4e00}-\u{9fff}\u{3400}-\u{4dbf}\u{8c48}-\u{faff}\u{3040}-\u{309f}\u{30a0}-\u{30ff}\u{ff65}-\
                \u{ff9f}\u{2f00}-\u{2fdf}\u{e40}-\u{e7f}\u{e80}-\u{eff}\u{1780}-\u{17ff}\u{1000}-\u{109f}\u{aa60}-\
                \u{aa7f}\u{a9e0}-\u{a9ff}\u{ac00}-\u{d7af}\u{1100}-\u{11ff}]+",
            ),
            Cut(MARKED_WORDS),
        ],
        ..BYTES
    },
    PreTokenizer { names: &["gemma4", "granite-embed-multi-311m"], steps: &[LINES], marks: true, add_bos: true, ..BYTES },
    PreTokenizer { names: &["sarvam-moe"], steps: &[LINES], marks: true, ..BYTES },
];

/// The pre-tokenizer with that name; without a name, that of llama.cpp.
pub(super) fn by_name(name: &str) -> Option<&'static PreTokenizer> {
    match name {
        "" => TABLE.first(),
        name => TABLE.iter().find(|pre| pre.names.contains(&name)),
    }
}

impl PreTokenizer {
    /// Whether this is that of Gemma 4, which always begins texts with a token.
    pub(super) fn is_gemma_4(&self) -> bool {
        self.marks && self.add_bos
    }

    /// Compiles the steps.
    pub(super) fn compile(&self) -> Cutter {
        let compile = |step: &Step| match step {
            Cut(pattern) => Compiled::Pattern(Pattern::new(pattern)),
            step => Compiled::Step(*step),
        };
        Cutter { steps: self.steps.iter().map(compile).collect() }
    }
}

/// The compiled steps of a pre-tokenizer.
#[derive(Debug, Clone)]
pub(super) struct Cutter {
    steps: Vec<Compiled>,
}

#[derive(Debug, Clone)]
enum Compiled {
    Pattern(Pattern),
    Step(Step),
}

impl Cutter {
    /// Cuts a text into words: their lengths, in order.
    pub(super) fn cut(&self, text: &str) -> Vec<usize> {
        let mut memory = Memory::default();
        let mut words = vec![text.len()];
        for step in &self.steps {
            let mut next = Vec::with_capacity(words.len());
            let mut rest = text;
            for len in words {
                let Some((word, after)) = rest.split_at_checked(len) else { break };
                rest = after;
                match step {
                    Compiled::Pattern(pattern) => pattern.cut(word, &mut memory, |len| next.push(len)),
                    Compiled::Step(step) => step.cut(word, |len| next.push(len)),
                }
            }
            words = next;
        }
        words
    }
}

impl Step {
    /// Splits a text by a step that is not a pattern.
    fn cut(self, text: &str, mut piece: impl FnMut(usize)) {
        let mut done = 0;
        let mut cut_at = |at: usize| {
            if at > done {
                piece(at - done);
                done = at;
            }
        };
        match self {
            Cut(_) => {}
            Threes => {
                let is_digit = |c: char| super::unicode::category(c) == super::unicode::Category::Number;
                let mut chars = text.char_indices().peekable();
                while let Some((start, c)) = chars.next() {
                    if !is_digit(c) {
                        continue;
                    }
                    let mut ends = vec![start + c.len_utf8()];
                    while let Some((at, c)) = chars.next_if(|(_, c)| is_digit(*c)) {
                        ends.push(at + c.len_utf8());
                    }
                    let first = ends.len() % 3;
                    ends.iter().skip((first + 2) % 3).step_by(3).for_each(|end| cut_at(*end));
                }
            }
            Thousands => {
                let bytes = text.as_bytes();
                let mut at = 0;
                while at < bytes.len() {
                    let n = bytes.iter().skip(at).take_while(|b| b.is_ascii_digit()).count();
                    (at + n % 3..at + n).step_by(3).for_each(&mut cut_at);
                    at += n.max(1);
                }
            }
            LastSpace => cut_at(text.trim_end().len()),
        }
        cut_at(text.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gguf_format::keys::PRE_TOKENIZERS;

    #[test]
    fn all_names_of_llama_cpp_but_one_are_known() {
        // The words of `whitespace` are not cut by a pre-tokenizer.
        let unknown: Vec<&&str> = PRE_TOKENIZERS.iter().filter(|name| by_name(name).is_none()).collect();
        assert_eq!(unknown, [&"whitespace"]);
        let mut own: Vec<&str> = TABLE.iter().flat_map(|pre| pre.names).copied().collect();
        own.sort_unstable();
        let before = own.len();
        own.dedup();
        assert_eq!((own.len(), own.iter().all(|name| PRE_TOKENIZERS.contains(name))), (before, true));
    }

    #[test]
    fn words() {
        let cases: &[(&str, &str, &[&str])] = &[
            ("gpt-2", "It's  12 o'clock\n\n", &["It", "'s", " ", " 12", " o", "'", "clock", "\n\n"]),
            ("llama3", "I'LL pay 12345€!\n x", &["I", "'LL", " pay", " ", "123", "45", "€!\n", " x"]),
            ("qwen2", "a12", &["a", "1", "2"]),
            ("afmoe", "ab12345", &["ab", "12", "345"]),
            ("superbpe", "12345a", &["12", "345", "a"]),
            ("deepseek-llm", "Ab, 漢字12 ", &["Ab", ",", " ", "漢字", "12", " "]),
            ("tekken", "HELLOworld XYz", &["HELLOworld", " XYz"]),
            ("gemma4", "a b\n\nc", &["a b", "\n\n", "c"]),
        ];
        for (name, text, expected) in cases {
            let mut rest = *text;
            let words: Vec<&str> = by_name(name)
                .unwrap()
                .compile()
                .cut(text)
                .into_iter()
                .map(|len| {
                    let (word, after) = rest.split_at(len);
                    rest = after;
                    word
                })
                .collect();
            assert_eq!(words, *expected, "{name}");
        }
    }
}
