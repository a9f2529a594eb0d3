//! Comparisons with real programs and their files; see `gguf_test::harness`.

#[path = "../it/common.rs"]
mod common;
mod edit;
mod files;

gguf_test::main!(edit, files);
