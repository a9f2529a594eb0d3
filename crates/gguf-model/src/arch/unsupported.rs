//! Classes of language models that the reference converter supports but this project does not.

/// The name of each class in `config.json`, and the reason. Classes in [`ARCHITECTURES`](super::ARCHITECTURES) take precedence.
pub const UNSUPPORTED: &[(&str, &str)] = &[
    ("PocketTTSModel", "speech models are not supported"),
    ("Qwen3TTSForConditionalGeneration", "speech models are not supported"),
    ("UltravoxModel", "llama.cpp's converter rejects it as well"),
];
