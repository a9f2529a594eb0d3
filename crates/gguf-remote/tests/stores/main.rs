//! Stores of other programs, which `.ci/servers` starts; see `gguf_test::harness`.

mod stores;

gguf_test::main!(stores);
