//! Comparisons with ggml's own `gguf.h`, where C files are what they are on Unix.

#[cfg(unix)]
mod calls;
#[cfg(unix)]
mod hostile;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    // The test of hostile files starts this program again, as the process that may end by a signal.
    if hostile::is_child() {
        return hostile::child();
    }
    calls::main()
}

#[cfg(not(unix))]
fn main() {}
