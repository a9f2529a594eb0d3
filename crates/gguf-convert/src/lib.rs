//! Checkpoints to GGUF: sources, tokenizers, metadata and the run that streams tensors.
