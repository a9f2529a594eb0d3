//! Comparisons with real programs and their files; see `gguf_test::harness`.

mod files;

gguf_test::main!(files);
