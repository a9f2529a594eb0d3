//! Classes of language models that the reference converter supports and this one does not.

/// The name of each class in `config.json`, and the reason. Classes in [`ARCHITECTURES`](super::ARCHITECTURES) take precedence.
pub const UNSUPPORTED: &[(&str, &str)] = &[
    ("BitNetForCausalLM", "rounding of weights to three values is not supported"),
    ("BitnetForCausalLM", "rounding of weights to three values is not supported"),
    ("DeepseekV4DSparkModel", "DeepSeek 4 is not supported"),
    ("DeepseekV4ForCausalLM", "compressed attention and experts selected by token are not supported"),
    ("Gemma4DSparkModel", "not yet compared with llama.cpp's converter"),
    ("KimiK3ForConditionalGeneration", "products of two tensors are not supported"),
    ("PocketTTSModel", "speech models are not supported"),
    ("Qwen3TTSForConditionalGeneration", "speech models are not supported"),
    ("Qwen4ExpForCausalLM", "n-gram embeddings in several tensors are not supported"),
    ("Qwen4ExpForConditionalGeneration", "n-gram embeddings in several tensors are not supported"),
    ("UltravoxModel", "llama.cpp's converter rejects it as well"),
];
