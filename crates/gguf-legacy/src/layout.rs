//! The hyperparameters of each architecture, in the order of its files.

use std::fmt;
use std::ops::RangeInclusive;

use crate::container::Container;

/// An architecture of a legacy file.
///
/// ```
/// use gguf_legacy::Family;
///
/// let family = Family::from_name("replit").expect("a known architecture");
/// assert_eq!(family, Family::Replit);
/// assert_eq!(family.architecture(), "mpt"); // in GGUF
/// assert_eq!(Family::from_name("unknown"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it")]
pub enum Family {
    Llama,
    Bloom,
    Gpt2,
    /// The layout and the names of GPT-2.
    StarCoder,
    GptJ,
    /// GPT-NeoX, StableLM, RedPajama and Dolly 2.
    GptNeox,
    Mpt,
    /// MPT with a vocabulary of SentencePiece.
    Replit,
    Falcon,
    Bert,
    Rwkv,
    Whisper,
}

impl Family {
    /// Every architecture.
    pub const ALL: [Family; 12] = [
        Family::Llama,
        Family::Bloom,
        Family::Gpt2,
        Family::StarCoder,
        Family::GptJ,
        Family::GptNeox,
        Family::Mpt,
        Family::Replit,
        Family::Falcon,
        Family::Bert,
        Family::Rwkv,
        Family::Whisper,
    ];

    /// The name in messages and options: `llama`, `gptneox`.
    pub fn name(self) -> &'static str {
        match self {
            Family::Replit => "replit",
            family => family.architecture(),
        }
    }

    /// The value of `general.architecture`.
    pub fn architecture(self) -> &'static str {
        match self {
            Family::Llama => "llama",
            Family::Bloom => "bloom",
            Family::Gpt2 => "gpt2",
            Family::StarCoder => "starcoder",
            Family::GptJ => "gptj",
            Family::GptNeox => "gptneox",
            Family::Mpt | Family::Replit => "mpt",
            Family::Falcon => "falcon",
            Family::Bert => "bert",
            Family::Rwkv => "rwkv",
            Family::Whisper => "whisper",
        }
    }

    /// The architecture with that name.
    pub fn from_name(name: &str) -> Option<Family> {
        Family::ALL.into_iter().find(|family| family.name() == name)
    }

    /// Whether files of both are identical except for the tokens.
    pub(crate) fn shares_layout_with(self, other: Family) -> bool {
        let layout = |family| if family == Family::StarCoder { Family::Gpt2 } else { family };
        layout(self) == layout(other)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Hyperparameters: the names used by writers, and the valid numbers.
macro_rules! hparams {
    ($($(#[$doc:meta])* $variant:ident $name:literal $range:expr, $expected:literal;)*) => {
        /// A hyperparameter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Hparam { $($(#[$doc])* $variant,)* }

        impl Hparam {
            /// The name used by writers.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Hparam::$variant => $name,)* }
            }

            /// The valid numbers.
            pub(crate) fn range(self) -> RangeInclusive<u32> {
                match self { $(Hparam::$variant => $range,)* }
            }

            /// A description of the valid numbers.
            pub(crate) fn expected(self) -> &'static str {
                match self { $(Hparam::$variant => $expected,)* }
            }
        }
    };
}

hparams! {
    Vocab "n_vocab" 8..=1 << 22, "a number of tokens from 8 to 4194304";
    Ctx "n_ctx" 1..=1 << 24, "a context length from 1 to 16777216";
    Embd "n_embd" 1..=1 << 17, "a width from 1 to 131072";
    Mult "n_mult" 1..=1 << 17, "a number from 1 to 131072";
    Head "n_head" 1..=1 << 10, "a number of heads from 1 to 1024";
    HeadKv "n_head_kv" 1..=1 << 10, "a number of heads from 1 to 1024";
    Layer "n_layer" 1..=512, "a number of blocks from 1 to 512";
    Rot "n_rot" 1..=1 << 14, "a number of dimensions from 1 to 16384";
    Ff "n_intermediate" 1..=1 << 20, "a width from 1 to 1048576";
    /// The file type, plus a thousand times the version of the quantization.
    Ftype "ftype" 0..=2_999, "a file type, plus 1000 or 2000 for the version of the quantization";
    ParallelResidual "par_res" 0..=1, "0 or 1";
    FalconType "falcon_type" 7..=180, "7, 40 or 180";
    /// A float.
    AlibiBiasMax "alibi_bias_max" 0..=u32::MAX, "a number from 0 to 1024";
    /// A float.
    ClipQkv "clip_qkv" 0..=u32::MAX, "a number from 0 to 1000000";
    Merges "n_bpe_merges" 0..=1 << 22, "a number of merges from 0 to 4194304";
    AudioCtx "n_audio_ctx" 1..=1 << 20, "a context length from 1 to 1048576";
    AudioState "n_audio_state" 1..=1 << 17, "a width from 1 to 131072";
    AudioHead "n_audio_head" 1..=1 << 10, "a number of heads from 1 to 1024";
    AudioLayer "n_audio_layer" 1..=512, "a number of blocks from 1 to 512";
    TextCtx "n_text_ctx" 1..=1 << 20, "a context length from 1 to 1048576";
    TextState "n_text_state" 1..=1 << 17, "a width from 1 to 131072";
    TextHead "n_text_head" 1..=1 << 10, "a number of heads from 1 to 1024";
    TextLayer "n_text_layer" 1..=512, "a number of blocks from 1 to 512";
    Mels "n_mels" 1..=1 << 12, "a number of mel bands from 1 to 4096";
}

impl Hparam {
    /// For a float, its largest valid value.
    pub(crate) fn float(self) -> Option<f32> {
        match self {
            Hparam::AlibiBiasMax => Some(1024.0),
            Hparam::ClipQkv => Some(1e6),
            _ => None,
        }
    }
}

/// How tokens are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tokens {
    /// `n_vocab` tokens, with scores if the container has them.
    AsContainer,
    /// Preceded by a second `n_vocab`.
    Counted,
    /// With scores in any container.
    WithScores,
    /// After the mel filters, with a separate number of tokens.
    Whisper,
    None,
}

/// The fields at the start of a program's files.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) family: Family,
    pub(crate) hparams: &'static [Hparam],
    pub(crate) tokens: Tokens,
}

use Hparam::*;

/// The known layouts. Several may match the same bytes; names and shapes of tensors then decide.
///
/// Sources: `llama_model_load` of llama.cpp before August 2023, `*_model_load` of the examples of ggml, ggllm.cpp, bloomz.cpp, bert.cpp,
/// rwkv.cpp and whisper.cpp, and the crates of rustformers' `llm`.
pub(crate) const LAYOUTS: &[Layout] = &[
    Layout {
        family: Family::Llama,
        hparams: &[Vocab, Embd, Mult, Head, Layer, Rot, Ftype],
        tokens: Tokens::AsContainer,
    },
    Layout { family: Family::Bloom, hparams: &[Vocab, Embd, Mult, Head, Layer, Ftype], tokens: Tokens::AsContainer },
    Layout { family: Family::Gpt2, hparams: &[Vocab, Ctx, Embd, Head, Layer, Ftype], tokens: Tokens::Counted },
    Layout { family: Family::GptJ, hparams: &[Vocab, Ctx, Embd, Head, Layer, Rot, Ftype], tokens: Tokens::Counted },
    Layout {
        family: Family::GptNeox,
        hparams: &[Vocab, Ctx, Embd, Head, Layer, Rot, ParallelResidual, Ftype],
        tokens: Tokens::AsContainer,
    },
    // Until May 13, 2023.
    Layout {
        family: Family::GptNeox,
        hparams: &[Vocab, Ctx, Embd, Head, Layer, Rot, Ftype],
        tokens: Tokens::AsContainer,
    },
    Layout {
        family: Family::Mpt,
        hparams: &[Embd, Ctx, Head, Layer, Vocab, AlibiBiasMax, ClipQkv, Ftype],
        tokens: Tokens::AsContainer,
    },
    Layout { family: Family::Replit, hparams: &[Embd, Ctx, Head, Layer, Vocab, Ftype], tokens: Tokens::WithScores },
    Layout {
        family: Family::Falcon,
        hparams: &[Vocab, Embd, Head, HeadKv, Layer, FalconType, Ftype],
        tokens: Tokens::AsContainer,
    },
    // As written by rustformers' `llm`.
    Layout { family: Family::Falcon, hparams: &[Vocab, Embd, Head, HeadKv, Layer, Ftype], tokens: Tokens::AsContainer },
    Layout { family: Family::Bert, hparams: &[Vocab, Ctx, Embd, Ff, Head, Layer, Ftype], tokens: Tokens::AsContainer },
    Layout {
        family: Family::Whisper,
        hparams: &[
            Vocab, AudioCtx, AudioState, AudioHead, AudioLayer, TextCtx, TextState, TextHead, TextLayer, Mels, Ftype,
        ],
        tokens: Tokens::Whisper,
    },
];

/// The layout of ggllm.cpp's container.
pub(crate) const GGCC: Layout = Layout {
    family: Family::Falcon,
    hparams: &[Vocab, Embd, Head, HeadKv, Layer, FalconType, Ftype, Merges],
    tokens: Tokens::AsContainer,
};

/// The layout of rwkv.cpp's container.
pub(crate) const RWKV: Layout =
    Layout { family: Family::Rwkv, hparams: &[Vocab, Embd, Layer, Ftype], tokens: Tokens::None };

/// The possible layouts of files in a container.
pub(crate) fn layouts(container: Container) -> &'static [Layout] {
    const GGCC_ONLY: &[Layout] = &[GGCC];
    const RWKV_ONLY: &[Layout] = &[RWKV];
    match container {
        Container::Ggcc => GGCC_ONLY,
        Container::Rwkv(_) => RWKV_ONLY,
        Container::Ggla | Container::GgufDraft | Container::Gguf(_) => &[],
        _ => LAYOUTS,
    }
}

/// The hyperparameters of a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Hparams(pub(crate) Vec<(Hparam, u32)>);

impl Hparams {
    /// The number, if the file has it.
    pub(crate) fn get(&self, hparam: Hparam) -> Option<u32> {
        self.0.iter().find(|(name, _)| *name == hparam).map(|(_, value)| *value)
    }

    /// The number, or 0 if the file does not have it.
    pub(crate) fn int(&self, hparam: Hparam) -> u32 {
        self.get(hparam).unwrap_or(0)
    }

    pub(crate) fn float(&self, hparam: Hparam) -> Option<f32> {
        self.get(hparam).map(f32::from_bits)
    }

    /// The file type, and the version of the quantization (`GGML_QNT_VERSION_FACTOR` in `ggml.h`).
    pub(crate) fn file_type(&self) -> (u32, u32) {
        let ftype = self.int(Ftype);
        (ftype % 1000, ftype / 1000)
    }

    /// The first hyperparameter that contradicts the others, and why; `None` if they are consistent.
    pub(crate) fn conflict(&self, family: Family) -> Option<(Hparam, &'static str)> {
        let divides = |n: Hparam, by: Hparam| self.int(n).is_multiple_of(self.int(by).max(1));
        if family == Family::Whisper {
            if !divides(AudioState, AudioHead) {
                return Some((AudioHead, "a divisor of n_audio_state"));
            }
            return (!divides(TextState, TextHead)).then_some((TextHead, "a divisor of n_text_state"));
        }
        if family == Family::Rwkv {
            return None;
        }
        if !divides(Embd, Head) {
            return Some((Head, "a divisor of n_embd"));
        }
        let head = self.int(Embd) / self.int(Head).max(1);
        match family {
            Family::Llama if self.int(Rot) != head => Some((Rot, "n_embd / n_head")),
            Family::Bloom if self.int(Mult) != 1 => Some((Mult, "1")),
            Family::GptJ | Family::GptNeox if self.int(Rot) > head || !self.int(Rot).is_multiple_of(2) => {
                Some((Rot, "an even number, at most n_embd / n_head"))
            }
            Family::Falcon if !divides(Head, HeadKv) => Some((HeadKv, "a divisor of n_head")),
            Family::Falcon if !matches!(self.get(FalconType), None | Some(7 | 40 | 180)) => {
                Some((FalconType, "7, 40 or 180"))
            }
            _ => None,
        }
    }
}
