//! The plain tests of this crate: one program, because linking takes longer than compiling most of them.

mod files;
mod in_place;
#[cfg(feature = "quants")]
#[cfg(feature = "quants")]
mod sources;
mod tensor;
mod writer;
