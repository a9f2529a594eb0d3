//! The plain tests of this crate: one program, because linking takes longer than compiling most of them.

mod budget;
mod imatrix;
mod mix;
mod plan;
mod recipe;
