//! Classes of which some or all files do not come back, for reasons that their tables do not show.

use super::Fidelity::{self, Exact, Except, Lossy, None};

/// A class, its architecture, and how its checkpoints come back.
pub(super) type Loss = (&'static str, &'static str, Fidelity);

/// Heads, widths or kinds of blocks that depend on several fields at once.
const BLOCKS: Fidelity = None("the fields of its blocks cannot be derived");

/// Another token than that of the tokenizer.
const TOKENS: Fidelity = Except("tokenizers that begin texts with a token, whose id the conversion replaces");

const NGRAMS: Fidelity = None("the blocks and the sizes of its embeddings of n-grams cannot be derived");

/// The losses. A test compares them with the outcomes of all recorded checkpoints.
pub(super) const LOSSES: &[Loss] = &[
    ("BailingMoeV2ForCausalLM", "bailingmoe2", Exact),
    ("DeepseekV4ForCausalLM", "deepseek4", Lossy("experts in MXFP4 become BF16")),
    ("Dots3NoteForCausalLM", "dots3note", BLOCKS),
    ("Dots3NoteForConditionalGeneration", "dots3note", BLOCKS),
    ("Dots3NoteTextForCausalLM", "dots3note", BLOCKS),
    ("GraniteSwitchForCausalLM", "graniteswitch", None("rows of adapters are set to zero")),
    ("JAISLMHeadModel", "jais", Except("those with other slopes of biases (ALiBi) than the usual ones")),
    ("KimiK3ForConditionalGeneration", "kimi-k3", None("sizes of its tensors cannot be derived")),
    (
        "LlamaForCausalLM",
        "llama",
        Except(
            "those without a tokenizer.model whose tokenizer.json falls back to bytes: their keys get another order",
        ),
    ),
    (
        "LlavaForConditionalGeneration",
        "clip",
        None("the file of its encoder (Pixtral) has a row of the token embeddings"),
    ),
    ("MiMoV2FlashForCausalLM", "mimo2", Except("files without MTP blocks")),
    ("MiMoV2ForCausalLM", "mimo2", Except("files without MTP blocks")),
    ("Qwen3ASRForConditionalGeneration", "qwen3vl", TOKENS),
    ("Qwen3NextForCausalLM", "qwen3next", Except("files of MTP blocks alone")),
    ("Qwen3OmniMoeForConditionalGeneration", "qwen3vlmoe", TOKENS),
    ("Qwen4ExpForCausalLM", "qwen4exp", NGRAMS),
    ("Qwen4ExpForConditionalGeneration", "qwen4exp", NGRAMS),
    ("RWKV6Qwen2ForCausalLM", "rwkv6qwen2", None("the sizes of its low-rank matrices cannot be derived")),
    (
        "SarvamMoEForCausalLM",
        "bailingmoe2",
        Except("those whose biases of experts change when they are centered again"),
    ),
    (
        "modeling_sarvam_moe.SarvamMoEForCausalLM",
        "bailingmoe2",
        Except("those whose biases of experts change when they are centered again"),
    ),
];
