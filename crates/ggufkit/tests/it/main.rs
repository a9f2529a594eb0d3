//! The plain tests of this crate: one program, because linking takes longer than compiling most of them.

mod bounds;
mod errors;
mod examples;
mod killed;
mod library;
mod open;
mod reads;
mod report;
mod resume;
mod sink;
mod together;
