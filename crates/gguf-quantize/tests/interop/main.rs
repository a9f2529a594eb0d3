//! Comparisons with real programs and their files; see `gguf_test::harness`.

mod fleet;
mod imatrix;

gguf_test::main!(fleet, imatrix);
