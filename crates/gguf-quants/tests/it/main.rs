//! The plain tests of this crate: one program, because linking takes longer than compiling most of them.

mod properties;
mod removed;
mod table;
mod vectors;
mod whole;
