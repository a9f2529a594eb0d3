//! The plain tests of this crate: one program, because linking takes longer than compiling most of them.

mod common;
mod diff;
mod edit;
mod hash;
mod join;
mod killed;
mod repair;
mod rewrite;
mod split;
