//! Comparisons with ggml's own `gguf.h`, on Unix because of C streams.

#[cfg(unix)]
mod calls;
#[cfg(unix)]
mod hostile;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    // The test of hostile files starts this program as a child process that may die by a signal.
    if hostile::is_child() {
        return hostile::child();
    }
    gguf_test::harness::run(&[("calls", calls::TESTS), ("hostile", hostile::TESTS)])
}

#[cfg(not(unix))]
fn main() {}
