//! The plain tests of this crate: one program, because linking takes longer than compiling most of them.

mod common;

mod fleet;
mod long_rows;
mod operations;
mod padding;
mod plan;
mod reads;
mod resume;
mod sink;
mod together;
