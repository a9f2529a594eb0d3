//! libgguf: the C interface of ggml's `gguf.h`, implemented with this workspace's crates, to link instead of ggml or to preload
//! before it. `include/gguf.h` declares it, `include/gguf_x.h` declares additional functions, and `docs/c-library.md` describes its use.
//!
//! The functions of `gguf.h` keep ggml's names, signatures and meaning: ids, the order after setting and removing, the meaning of -1
//! and null, the reasons for rejecting a file. `struct ggml_tensor` and `ggml_context` belong to ggml: functions that take or create
//! them look up ggml's functions at run time, and fail with a message if the process has not loaded ggml.
//!
//! **Contracts.** Pointers from C are trusted as in `gguf.h`: a context was created by this library and not freed, and strings end
//! with a NUL. Null pointers and invalid ids are detected, and no panic unwinds into C.
//!
//! **Threads.** Contexts share no state. Several threads may read one context at the same time while none modifies it; values that are
//! decoded on first access are decoded once. Errors are stored per thread.
#![cfg(unix)]
#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(
    not(test),
    deny(
        clippy::cast_possible_truncation,
        clippy::indexing_slicing,
        clippy::print_stdout,
        clippy::too_many_lines,
        clippy::unwrap_used
    )
)]

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
