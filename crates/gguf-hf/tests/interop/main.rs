//! Comparisons with real programs and their files; see `gguf_test::harness`.

mod convert;
#[path = "../it/counting.rs"]
mod counting;
mod encoder;
mod export;
mod fleet;
mod guards;
mod made;
mod names;
mod tokens;

gguf_test::main!(convert, encoder, export, fleet, guards, made, names, tokens);
