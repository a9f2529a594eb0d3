//! Classes of language models that the reference converter knows and that are not converted here.

/// The name of each class in `config.json`, and why it is not converted. Names of classes that are converted do not count.
pub const NOT_CONVERTED: &[(&str, &str)] = &[
    ("BitNetForCausalLM", "weights are rounded to three values by the mean of each tensor, which is not supported"),
    ("BitnetForCausalLM", "weights are rounded to three values by the mean of each tensor, which is not supported"),
    ("DeepseekV4DSparkModel", "the draft is part of a DeepSeek 4 checkpoint, which is not supported"),
    ("DeepseekV4ForCausalLM", "compressed attention and experts chosen by token are not supported"),
    ("Gemma4DSparkModel", "no checkpoint has been compared with llama.cpp's converter"),
    (
        "KimiK3ForConditionalGeneration",
        "scores of attention residuals are products of two tensors, which is not supported",
    ),
    ("PocketTTSModel", "speech models of several networks are not supported"),
    ("Qwen3TTSForConditionalGeneration", "speech models of several networks are not supported"),
    ("Qwen4ExpForCausalLM", "embeddings of token sequences in several tensors are not supported"),
    ("Qwen4ExpForConditionalGeneration", "embeddings of token sequences in several tensors are not supported"),
    ("UltravoxModel", "llama.cpp's converter rejects it as well; convert its language model and its encoder"),
    ("WavTokenizerDec", "speech models of several networks are not supported"),
];
