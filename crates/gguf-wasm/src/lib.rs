//! The toolkit as a module for WebAssembly, for the web viewer in `web/`: numbers and bytes in, JSON out, and no algorithm.
//!
//! The functions of the module (`exports.rs`) have numbers as arguments. A text is written to the address that `input` returns; an answer is
//! read from `output`. The module imports one function, `read`, which reads bytes of a file of the page. An instance opens one model, and lives
//! as long as the page shows it, so that its memory is released as a whole.
//!
//! Without the feature `model`, the module is small and is all that the first screen needs. With it, it can also answer what needs the tables of all
//! architectures and tokenizers, decode weights, compare and edit models. The page loads both, one after the other. With the feature `encode`, it can
//! also encode weights; that module is loaded when it is asked for.
//!
//! [`Page`] has the answers. It is also compiled for other machines, for the tests.
#![deny(unsafe_code)]
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

#[cfg(feature = "model")]
mod compare;
#[cfg(feature = "encode")]
mod cost;
#[cfg(feature = "model")]
mod edit;
#[cfg(target_arch = "wasm32")]
#[allow(unsafe_code, reason = "functions without mangled names, and the imported one")]
mod exports;
#[cfg(feature = "model")]
mod model;
mod page;
#[cfg(feature = "model")]
mod weights;

#[cfg(feature = "model")]
pub use compare::{Comparison, Difference};
#[cfg(feature = "encode")]
pub use cost::{Cost, offers};
pub use page::{Offered, Page, TensorOrder};
#[cfg(feature = "model")]
pub use weights::{Map, Survey, Weights};
