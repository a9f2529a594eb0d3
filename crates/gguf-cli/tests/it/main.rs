//! The plain tests of this crate: one program, because linking takes longer than compiling most of them.

mod allocation;
mod budget;
mod commands;
mod compare;
#[path = "../deep.rs"]
mod deep;
mod direction;
mod docs;
mod edit;
mod fleet;
mod imatrix;
mod json;
mod killed;
mod kinds;
mod limits;
mod lora;
mod measurements;
mod messages;
mod migrate;
mod ollama;
mod options;
mod permissions;
mod pipes;
mod preflight;
mod publish;
mod quantize;
mod recipe;
mod repair;
mod rewrite;
mod shards;
mod terminal;
mod url;
mod verify;
