//! Classes of which some files do not come back, for reasons that their tables do not show.

/// A class, its architecture, and what is lost.
pub(super) type Loss = (&'static str, &'static str, &'static str);

/// Heads, widths or kinds of blocks that depend on several fields at once.
const BLOCKS: &str = "the fields of its blocks cannot be derived";

/// Another token than that of the tokenizer.
const TOKENS: &str = "the conversion replaces the ids of special tokens";

/// The losses. A test compares them with the outcomes of all recorded checkpoints.
pub(super) const LOSSES: &[Loss] = &[
    ("DeciLMForCausalLM", "deci", BLOCKS),
    ("DeepseekV4ForCausalLM", "deepseek4", "experts in MXFP4 become BF16"),
    ("Dots3NoteForCausalLM", "dots3note", BLOCKS),
    ("Dots3NoteForConditionalGeneration", "dots3note", BLOCKS),
    ("Dots3NoteTextForCausalLM", "dots3note", BLOCKS),
    ("FalconH1ForCausalLM", "falcon-h1", "the lengths of the parts that multipliers scale cannot be derived"),
    ("HunYuanDenseV1ForCausalLM", "hunyuan-dense", "dynamic rotary scaling cannot be derived"),
    ("LlavaForConditionalGeneration", "clip", "a row of the token embeddings is in the file of the encoder (Pixtral)"),
    ("LlamaForCausalLM", "llama", "keys have another order if the tokenizer was in tokenizer.json"),
    ("MiMoV2FlashForCausalLM", "mimo2", BLOCKS),
    ("MiMoV2ForCausalLM", "mimo2", BLOCKS),
    ("NemotronHForCausalLM", "nemotron_h", BLOCKS),
    ("NemotronHForCausalLM", "nemotron_h_moe", BLOCKS),
    ("NemotronHPuzzleForCausalLM", "nemotron_h_moe", BLOCKS),
    ("NeoBERTForSequenceClassification", "neo-bert", "the names of classes cannot be derived"),
    ("OpenELMForCausalLM", "openelm", BLOCKS),
    ("Qwen3ASRForConditionalGeneration", "qwen3vl", TOKENS),
    ("Qwen3NextForCausalLM", "qwen3next", "a file of MTP blocks alone lacks the others"),
    ("Qwen3OmniMoeForConditionalGeneration", "qwen3vlmoe", TOKENS),
    ("RWKV6Qwen2ForCausalLM", "rwkv6qwen2", "shapes of low-rank matrices cannot be derived"),
    ("Step3p5ForCausalLM", "step35", BLOCKS),
    ("XLMRobertaModel", "bert", "the kinds of added tokens are lost"),
];
