//! Limits of plans.

/// The maximum number of tensors of a model. Models in use have some thousands.
pub const MAX_TENSORS: u64 = gguf_io::MODEL_LIMITS.tensors;

/// The maximum padding of a file with more padding than content. Every tensor is padded to a multiple of the alignment, a number in the
/// metadata: files in use have 32, up to a huge page of 2 MiB.
pub const MAX_PADDING: u64 = 256 << 20;
