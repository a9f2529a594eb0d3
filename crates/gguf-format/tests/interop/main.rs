//! Comparisons with real programs and their files; see `gguf_test::harness`.

mod tables;

gguf_test::main!(tables);
