//! Classes that the reference converter supports but this project does not.

/// Language models: the name of each class in `config.json`, and the reason. Classes in [`ARCHITECTURES`](super::ARCHITECTURES) take precedence.
pub const UNSUPPORTED: &[(&str, &str)] = &[
    ("PocketTTSModel", SPEECH),
    ("Qwen3TTSForConditionalGeneration", SPEECH),
    ("UltravoxModel", "llama.cpp's converter rejects it as well"),
];

/// Encoders of images and sound: the name of each class in `config.json`, and the reason. No table in [`TOWERS`](super::TOWERS) has them.
pub const UNSUPPORTED_ENCODERS: &[(&str, &str)] = &[
    ("Dots3NoteForCausalLM", DOTS),
    ("Dots3NoteForConditionalGeneration", DOTS),
    ("MiMoV2ForCausalLM", "part of its encoder of sound is a separate checkpoint"),
    ("PocketTTSModel", SPEECH),
    ("Qwen3TTSForConditionalGeneration", SPEECH),
];

const DOTS: &str = "its encoders of images and sound are not supported";

const SPEECH: &str = "speech models are not supported";
