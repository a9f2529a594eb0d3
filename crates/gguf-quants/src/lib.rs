//! ggml's number formats: the bytes of a tensor's rows to and from `f32`.
//!
//! Nothing here knows files, tensor names or threads: a caller brings rows of bytes and rows of floats. Every conversion
//! is written as the plain arithmetic of the reference, so the result is the same on every CPU.
#![forbid(unsafe_code)]

pub mod codec;
pub mod float;
