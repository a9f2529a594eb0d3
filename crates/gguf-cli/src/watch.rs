//! Supervision of long-running work: progress on the terminal, and cancellation by signals.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use gguf_pipeline::{Event, Progress};
use signal_hook::{consts, flag};

use crate::ui::{ProgressLine, rate, size};

/// The last signal received; 0 if none.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// Whether a signal has interrupted the work.
#[cfg(feature = "http")]
pub fn is_interrupted() -> bool {
    SIGNAL.load(Ordering::Relaxed) != 0
}

/// If a signal interrupted the work, ends the program by that signal, so that the parent process sees it; a shell, for example, then
/// ends its loop. All output must be written before.
pub fn end_by_signal() {
    if let Ok(signal @ 1..) = i32::try_from(SIGNAL.load(Ordering::Relaxed)) {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
}

/// Turns exceeding the file size limit (`ulimit -f`) into an ordinary write error. By default, SIGXFSZ kills the process and leaves
/// unfinished files.
pub fn catch_file_size_signal() {
    // If the handler cannot be registered, the default behaviour remains.
    #[cfg(unix)]
    let _ = flag::register(consts::SIGXFSZ, Arc::default());
}

/// Shows the progress of a run, and cancels it if a signal is received.
pub struct Watch {
    line: ProgressLine,
    interrupted: Arc<AtomicBool>,
    /// Bytes of an earlier run that were damaged and are redone.
    damaged: AtomicU64,
    /// Whether other kept work of an earlier run was unusable.
    unusable: AtomicBool,
}

impl Watch {
    /// Starts the clock and registers the signal handlers.
    pub fn new(quiet: bool) -> Watch {
        let interrupted = Arc::new(AtomicBool::new(false));
        let ending = [
            consts::SIGINT,
            consts::SIGTERM,
            #[cfg(unix)]
            consts::SIGHUP,
        ];
        for signal in ending.into_iter().filter(|&signal| !is_ignored(signal)) {
            // A second signal ends the process at once. If these handlers cannot be registered, the first one does.
            let _ = flag::register_conditional_default(signal, Arc::clone(&interrupted));
            let _ = flag::register(signal, Arc::clone(&interrupted));
            let _ = flag::register_usize(signal, Arc::clone(&SIGNAL), signal.unsigned_abs() as usize);
        }
        Watch {
            line: ProgressLine::new(quiet),
            interrupted,
            damaged: AtomicU64::new(0),
            unusable: AtomicBool::new(false),
        }
    }

    /// Erases the progress line.
    pub fn clear(&self) {
        self.line.clear();
    }

    /// Describes the result of resuming an earlier run, if any work was kept.
    pub fn resume_note(&self) -> Option<String> {
        let (kept, damaged) = (self.line.kept(), self.damaged.load(Ordering::Relaxed));
        let unusable = self.unusable.load(Ordering::Relaxed);
        match (kept, damaged) {
            (0, 0) if !unusable => None,
            (0, _) => Some(
                "the kept work of an earlier run is damaged or incomplete and was discarded; started over".to_owned(),
            ),
            (_, 0) if unusable => Some(format!(
                "resumed: {} of tensor data verified and reused; other kept work is damaged or incomplete and was discarded",
                size(kept)
            )),
            (_, 0) => Some(format!("resumed: {} of tensor data verified and reused", size(kept))),
            _ => Some(format!(
                "resumed: {} of tensor data verified and reused; {} did not match and were redone",
                size(kept),
                size(damaged)
            )),
        }
    }

    /// The rate for a number of bytes, in parentheses; empty if an earlier run finished some of them.
    pub fn rate(&self, bytes: u64) -> String {
        match self.line.kept() {
            0 => format!(" ({})", rate(bytes, self.elapsed())),
            _ => String::new(),
        }
    }

    /// Shows progress in steps instead of bytes: see [`ProgressLine::step`].
    #[cfg(feature = "engine")]
    pub fn step(&self, done: usize, total: usize, what: &str) {
        self.line.step(done, total, what);
    }

    /// What a signal sets.
    #[cfg(feature = "engine")]
    pub fn interrupted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.interrupted)
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.line.elapsed()
    }
}

/// Whether the parent process has set a signal to be ignored, as `nohup` does. Detected only on Linux.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

impl Progress for Watch {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Damaged { bytes } => _ = self.damaged.fetch_add(bytes, Ordering::Relaxed),
            Event::Unusable => self.unusable.store(true, Ordering::Relaxed),
            event => self.line.event(event),
        }
    }

    fn is_cancelled(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}
