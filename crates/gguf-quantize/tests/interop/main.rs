//! Comparisons with real programs and their files; see `gguf_test::harness`.

mod imatrix;

gguf_test::main!(imatrix);
