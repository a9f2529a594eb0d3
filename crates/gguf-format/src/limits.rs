//! Limits of heads that are written. Heads that exceed them are read, and reported by checks.

/// The maximum length of a tensor name in ggml (`GGML_MAX_NAME` includes a NUL).
pub const MAX_TENSOR_NAME: usize = 63;

/// The maximum length of a tensor name in an image or video model, which ggml does not load: such models keep the names of the checkpoint,
/// and this is the limit of ComfyUI-GGUF's converter.
pub const MAX_IMAGE_TENSOR_NAME: usize = 127;

/// The maximum length of a key in the specification.
pub const MAX_KEY: usize = 65_535;

/// The maximum number of dimensions.
pub const MAX_DIMS: usize = 4;
