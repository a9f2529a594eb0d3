//! Opening, mapping and atomically writing GGUF files.
