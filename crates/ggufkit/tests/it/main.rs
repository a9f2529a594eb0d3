//! The plain tests of this crate: one program, because linking takes longer than compiling most of them.

mod errors;
mod examples;
mod fleet;
mod killed;
mod library;
mod open;
mod reads;
mod report;
mod shared;
mod together;
