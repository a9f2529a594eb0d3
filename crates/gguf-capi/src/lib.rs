//! libgguf: the C interface of ggml's `gguf.h` over this workspace's crates, to link instead of ggml's or to preload before
//! it. `include/gguf.h` declares it, `include/gguf_x.h` what is ours alone; `docs/c-library.md` says how to use it.
//!
//! The functions of `gguf.h` keep its names, signatures and meaning: ids, the order after setting and removing, what -1 and
//! null mean, what is refused. `struct ggml_tensor` and `ggml_context` are ggml's: functions that take or make them find
//! ggml's own functions at run time, and fail with a message where the process has no ggml.
//!
//! **Contracts.** Pointers from C are trusted as `gguf.h` asks for them: a context is one that was made here and not freed
//! yet, strings have their NUL. Null pointers and ids that are none are not trusted, and nothing unwinds into C.
//!
//! **Threads.** Contexts share nothing. One context may be read from several threads at once while none changes it; what is
//! decoded when it is first asked for is made once. Errors are kept per thread.
#![cfg(unix)]
#![deny(unsafe_op_in_unsafe_fn)]

mod api;
mod context;
mod failure;
mod ggml;
mod read;
mod source;
mod write;
mod x;

pub use api::*;
pub use context::Context;
pub use ggml::Tensor;
pub use source::{Callback, InitParams};
pub use x::*;
