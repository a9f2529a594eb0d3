//! The memory of every command on the most expensive files of up to 20 MB: at most 64 MiB and four times the bytes of the input.
//!
//! A program of its own, because a child process starts with the peak of its parent, and other tests need much memory.

#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod peaks;

#[cfg(target_os = "linux")]
gguf_test::main!(peaks);

#[cfg(not(target_os = "linux"))]
fn main() {}
