//! Comparisons with ggml's own `gguf.h`, where C files are what they are on Unix.

#[cfg(unix)]
mod calls;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    calls::main()
}

#[cfg(not(unix))]
fn main() {}
