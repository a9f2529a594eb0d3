//! Comparisons with real programs and their files; see `gguf_test::harness`.

mod codecs;

gguf_test::main!(codecs);
