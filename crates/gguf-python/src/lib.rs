//! The Python module `ggufkit`, by PyO3: Python objects in and out, and no algorithm of its own.
//!
//! This crate is `ggufkit._native`; the package around it is in `python/ggufkit`. All classes are immutable from Python, or lock their state, so that
//! threads can share them with and without the GIL. Long work runs detached from the interpreter.
#![deny(unsafe_code)]
#![deny(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::too_many_lines,
    clippy::unwrap_used
)]

use pyo3::prelude::*;

mod arrays;
mod check;
mod codec;
mod dropin;
mod edit;
mod error;
mod metadata;
mod model;
mod plan;
mod progress;
mod remote;
mod tensor;
mod value;
mod verify;
mod writer;

/// The part of `ggufkit` that is written in Rust.
#[pymodule]
mod _native {
    use super::*;
    #[pymodule_export]
    use crate::check::{Check, Finding, check};
    #[pymodule_export]
    use crate::codec::{dequantize, quantize, tensor_types};
    #[pymodule_export]
    use crate::dropin::dropin;
    #[pymodule_export]
    use crate::edit::Edit;
    #[pymodule_export]
    use crate::metadata::{Array, Metadata};
    #[pymodule_export]
    use crate::model::{Model, open};
    #[pymodule_export]
    use crate::plan::{Plan, export, merge_lora, plan};
    #[pymodule_export]
    use crate::tensor::{Tensor, tensor_of};
    #[pymodule_export]
    use crate::verify::{Verification, VerifiedTensor, verify};
    #[pymodule_export]
    use crate::writer::Writer;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
