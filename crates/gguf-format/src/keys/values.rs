//! The valid values of some keys: file types, token types, kinds of files, rope scalings, poolings, routers and tokenizers.

use core::fmt;

use crate::types::GgmlType;

/// A `general.file_type`: the type of most tensors of a file, with llama.cpp's numbers (`llama_ftype` in `llama.h`).
///
/// This numbering differs from that of tensor types, and from the `ftype` of files older than GGUF.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileType(pub u32);

/// A row of the table of file types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileTypeInfo {
    /// The number in the file.
    pub id: u32,
    /// Full name: `ALL_F32`, `MOSTLY_Q4_K_M`.
    pub name: &'static str,
    /// The type of most tensors of such a file.
    pub tensor_type: GgmlType,
    /// Whether llama.cpp no longer supports it.
    pub removed: bool,
}

impl FileTypeInfo {
    /// Name without `ALL_` or `MOSTLY_`, as in file names and commands: `Q4_K_M`.
    pub fn label(&self) -> &'static str {
        let name = self.name;
        name.strip_prefix("MOSTLY_").or_else(|| name.strip_prefix("ALL_")).unwrap_or(name)
    }
}

macro_rules! file_types {
    ($($id:literal $name:literal $ty:ident $status:ident)*) => {
        /// Every current or removed file type, in the order of the numbers.
        pub const FILE_TYPES: &[FileTypeInfo] = &[$(FileTypeInfo {
            id: $id, name: $name, tensor_type: GgmlType::$ty, removed: file_types!(@ $status),
        }),*];
    };
    (@ removed) => { true };
    (@ current) => { false };
}

file_types! {
    0  "ALL_F32"              F32        current
    1  "MOSTLY_F16"           F16        current
    2  "MOSTLY_Q4_0"          Q4_0       current
    3  "MOSTLY_Q4_1"          Q4_1       current
    4  "MOSTLY_Q4_1_SOME_F16" Q4_1       removed
    5  "MOSTLY_Q4_2"          Q4_2       removed
    6  "MOSTLY_Q4_3"          Q4_3       removed
    7  "MOSTLY_Q8_0"          Q8_0       current
    8  "MOSTLY_Q5_0"          Q5_0       current
    9  "MOSTLY_Q5_1"          Q5_1       current
    10 "MOSTLY_Q2_K"          Q2_K       current
    11 "MOSTLY_Q3_K_S"        Q3_K       current
    12 "MOSTLY_Q3_K_M"        Q3_K       current
    13 "MOSTLY_Q3_K_L"        Q3_K       current
    14 "MOSTLY_Q4_K_S"        Q4_K       current
    15 "MOSTLY_Q4_K_M"        Q4_K       current
    16 "MOSTLY_Q5_K_S"        Q5_K       current
    17 "MOSTLY_Q5_K_M"        Q5_K       current
    18 "MOSTLY_Q6_K"          Q6_K       current
    19 "MOSTLY_IQ2_XXS"       IQ2_XXS    current
    20 "MOSTLY_IQ2_XS"        IQ2_XS     current
    21 "MOSTLY_Q2_K_S"        Q2_K       current
    22 "MOSTLY_IQ3_XS"        IQ3_S      current
    23 "MOSTLY_IQ3_XXS"       IQ3_XXS    current
    24 "MOSTLY_IQ1_S"         IQ1_S      current
    25 "MOSTLY_IQ4_NL"        IQ4_NL     current
    26 "MOSTLY_IQ3_S"         IQ3_S      current
    27 "MOSTLY_IQ3_M"         IQ3_S      current
    28 "MOSTLY_IQ2_S"         IQ2_XS     current
    29 "MOSTLY_IQ2_M"         IQ2_S      current
    30 "MOSTLY_IQ4_XS"        IQ4_XS     current
    31 "MOSTLY_IQ1_M"         IQ1_M      current
    32 "MOSTLY_BF16"          BF16       current
    33 "MOSTLY_Q4_0_4_4"      Q4_0_4_4   removed
    34 "MOSTLY_Q4_0_4_8"      Q4_0_4_8   removed
    35 "MOSTLY_Q4_0_8_8"      Q4_0_8_8   removed
    36 "MOSTLY_TQ1_0"         TQ1_0      current
    37 "MOSTLY_TQ2_0"         TQ2_0      current
    38 "MOSTLY_MXFP4_MOE"     MXFP4      current
    39 "MOSTLY_NVFP4"         NVFP4      current
    40 "MOSTLY_Q1_0"          Q1_0       current
    41 "MOSTLY_Q2_0"          Q2_0       current
}

impl FileType {
    /// The bit of a file type that was guessed from the tensors instead of read from a file.
    pub const GUESSED: u32 = 1024;

    /// The row for this number, with or without the guessed bit; `None` for unknown ones.
    pub fn info(self) -> Option<&'static FileTypeInfo> {
        let id = self.0 & !FileType::GUESSED;
        FILE_TYPES.get(usize::try_from(id).ok()?)
    }

    /// Whether the guessed bit is set. Files do not have it: llama.cpp sets it for files without a file type.
    pub fn is_guessed(self) -> bool {
        self.0 & FileType::GUESSED != 0
    }

    /// The file type with that name, ignoring case, with or without `MOSTLY_` or `ALL_`. `Q3_K`, `Q4_K` and `Q5_K` are the medium ones, as
    /// in `llama-quantize`.
    pub fn from_name(name: &str) -> Option<FileType> {
        let name = match name {
            _ if name.eq_ignore_ascii_case("Q3_K") => "Q3_K_M",
            _ if name.eq_ignore_ascii_case("Q4_K") => "Q4_K_M",
            _ if name.eq_ignore_ascii_case("Q5_K") => "Q5_K_M",
            _ => name,
        };
        let row =
            FILE_TYPES.iter().find(|t| t.label().eq_ignore_ascii_case(name) || t.name.eq_ignore_ascii_case(name))?;
        Some(FileType(row.id))
    }
}

impl fmt::Display for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.info() {
            Some(info) => f.write_str(info.label())?,
            None => write!(f, "file type {}", self.0 & !FileType::GUESSED)?,
        }
        f.write_str(if self.is_guessed() { " (guessed)" } else { "" })
    }
}

impl fmt::Debug for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The kind of a token, in `tokenizer.ggml.token_type` (`llama_token_type` in `llama.h`, and the specification).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TokenType {
    /// A piece of text.
    Normal = 1,
    /// A replacement for text that is not in the vocabulary.
    Unknown = 2,
    /// Controls the model and is not displayed.
    Control = 3,
    /// Added by a user; matched before all else.
    UserDefined = 4,
    /// Never used.
    Unused = 5,
    /// A single byte.
    Byte = 6,
}

impl TokenType {
    /// The token type with that number.
    pub fn from_id(id: i64) -> Option<TokenType> {
        use TokenType::*;
        [Normal, Unknown, Control, UserDefined, Unused, Byte].into_iter().find(|&t| t as i64 == id)
    }
}

/// The values of `general.type` (`GGUFType` in `constants.py`).
pub const GENERAL_TYPES: &[&str] = &["model", "adapter", "imatrix", "mmproj"];

/// The values of `{arch}.rope.scaling.type` (`LLAMA_ROPE_SCALING_TYPES` in `llama-model.cpp`).
pub const ROPE_SCALING_TYPES: &[&str] = &["none", "linear", "yarn", "longrope"];

/// The values of `{arch}.pooling_type`, indexed by number (`llama_pooling_type` in `llama.h`): no pooling, the mean of all tokens, the
/// first, the last, and a rank.
pub const POOLING_TYPES: &[&str] = &["none", "mean", "cls", "last", "rank"];

/// The values of `{arch}.expert_gating_func`, indexed by number (`llama-hparams.h`).
pub const EXPERT_GATING_FUNCS: &[&str] = &["none", "softmax", "sigmoid", "softmax_weight", "sqrt_softplus"];

/// The values of `tokenizer.ggml.model` that llama.cpp loads (`llama_vocab::impl::load` in `llama-vocab.cpp`).
pub const TOKENIZER_MODELS: &[&str] =
    &["bert", "gemma4", "gpt2", "hybriddna", "llama", "no_vocab", "none", "plamo2", "rwkv", "t5", "test", "whitespace"];

/// A value of `tokenizer.ggml.model` that the specification defines but llama.cpp does not support.
pub const SPEC_TOKENIZER_MODELS: &[&str] = &["replit"];

/// The values of `tokenizer.ggml.pre` that llama.cpp supports, sorted (`llama_vocab::impl::load` in `llama-vocab.cpp`). For byte-pair
/// vocabularies it rejects all others.
pub const PRE_TOKENIZERS: &[&str] = super::arch::list! {
    "a.x-4.0" "afmoe" "bailingmoe" "bailingmoe2" "bloom" "chameleon" "chatglm-bpe" "codeshell" "cohere2moe"
    "command-r" "dbrx" "deepseek-coder" "deepseek-llm" "deepseek-r1-qwen" "deepseek-v3" "default" "exaone"
    "exaone-moe" "exaone4" "f2llmv2" "falcon" "falcon-h1" "falcon3" "gemma4" "gigachat" "glm4" "glm5" "gpt-2" "gpt-4o"
    "gpt3-finnish" "granite-docling" "granite-embed-multi-311m" "granite-embed-multi-97m" "grok-2" "hunyuan"
    "hunyuan-dense" "hy_v4" "jais" "jais-2" "jina-de" "jina-es" "jina-v1-en" "jina-v2-code" "jina-v2-de" "jina-v2-es"
    "jina-v5-nano" "joyai-llm" "kanana2" "kimi-k2" "kormo" "laguna" "lfm2" "llada-moe" "llama-bpe" "llama-v3" "llama3"
    "llama4" "megrez" "mellum" "mellum2" "midm-2.0" "minerva-7b" "minicpm5" "minimax-m2" "modern-bert" "mpt" "olmo"
    "phi-2" "pixtral" "poro-chat" "qwen2" "qwen35" "refact" "roberta-bpe" "sarvam-moe" "seed-coder" "smaug-bpe"
    "smollm" "solar-open" "spark2_5" "stablelm2" "starcoder" "superbpe" "talkie" "tekken" "tiny_aya" "trillion"
    "ufakzeka" "viking" "whitespace" "youtu"
};
