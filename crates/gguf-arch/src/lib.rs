//! What a model is: architectures, tensor roles and conversion plans as tables and pure functions.
//!
//! Nothing here opens a file or sees a weight. [`config`] gives typed access to a checkpoint's `config.json`, [`arch`] is
//! the list of architectures, [`role`] names what each tensor is for, and [`plan`] is the value that all deciding ends
//! in: which tensors and key-values a converted file holds, and how each tensor comes about. [`mix`] decides the type that
//! each tensor gets when a model is quantized. [`summary`] says in a few
//! numbers what a finished file is, [`check`] what is wrong with it, [`naming`] how it should be called.
#![forbid(unsafe_code)]

pub mod arch;
pub mod check;
pub mod config;
pub mod mix;
pub mod naming;
pub mod plan;
pub mod role;
pub mod summary;
