//! Full and read-only disks, losses of power, and kills. A program of its own, because its harness shows the tests that cannot be run as ignored.

mod crash;
mod edit;
mod outputs;
mod pairs;

gguf_test::main!(crash, edit, outputs, pairs);
