//! Runs and times the program, like a user.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The result of a benchmark.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// The path of the program, one directory above the benchmarks.
///
/// # Errors
/// If it does not exist.
pub fn program() -> Outcome<PathBuf> {
    let me = std::env::current_exe()?;
    let found = me.ancestors().nth(2).map(|dir| dir.join("gguf")).filter(|program| program.exists());
    found.ok_or_else(|| "there is no program beside this one; cargo build --release -p gguf-cli makes it".into())
}

/// Runs a command without its output; returns the time, and the peak memory in KiB.
///
/// # Errors
/// If it cannot be run, or fails.
pub fn timed(mut command: Command) -> Outcome<(Duration, u64)> {
    let start = Instant::now();
    let mut child = command.stdout(Stdio::null()).spawn()?;
    let mut peak = 0;
    let status = loop {
        peak = peak.max(peak_kib(&child).unwrap_or(0));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let took = start.elapsed();
    if status.success() { Ok((took, peak)) } else { Err(format!("{command:?} fails").into()) }
}

/// The peak memory of a running process, as reported by Linux.
fn peak_kib(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok())
}

/// The median of several times.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
