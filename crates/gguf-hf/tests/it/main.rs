//! The plain tests of this crate: one program, because linking takes longer than compiling most of them.

mod adapter;
mod autoconfig;
mod convert;
mod counting;
mod export;
mod folder;
mod memory;
mod meta;
mod recipes;
mod torch;
mod tower;
