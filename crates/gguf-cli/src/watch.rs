//! Looking after long work: its progress on the terminal, and an end when a signal asks for that.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use gguf_pipeline::{Event, Progress};
use signal_hook::{consts, flag};

use crate::ui::{ProgressLine, rate, size};

/// The signal that came last, 0 if none has come.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// Ends the program by the signal that interrupted its work, if one did, so that whoever started it sees that: a shell then ends its
/// loop, too. Whatever is to be said has to be said before.
pub fn end_by_signal() {
    if let Ok(signal @ 1..) = i32::try_from(SIGNAL.load(Ordering::Relaxed)) {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
}

/// Makes writing more than a file may have (`ulimit -f`) an error like others. Unless it is caught, the signal kills the process, which
/// then leaves what it has begun.
pub fn catch_file_size_signal() {
    // Without the handler, it is as it was.
    #[cfg(unix)]
    let _ = flag::register(consts::SIGXFSZ, Arc::default());
}

/// Draws the progress of a run, and ends it when a signal asks for that.
pub struct Watch {
    line: ProgressLine,
    interrupted: Arc<AtomicBool>,
    /// Bytes that an earlier run has left and that were done again.
    damaged: AtomicU64,
    /// Whether something else that it has left was of no use.
    unusable: AtomicBool,
}

impl Watch {
    /// Starts the clock, and catches the signals.
    pub fn new(quiet: bool) -> Watch {
        let interrupted = Arc::new(AtomicBool::new(false));
        let ending = [
            consts::SIGINT,
            consts::SIGTERM,
            #[cfg(unix)]
            consts::SIGHUP,
        ];
        for signal in ending.into_iter().filter(|&signal| !is_ignored(signal)) {
            // The second time the signal ends the process at once. Without these handlers, so does the first.
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

    /// Takes the line off the terminal.
    pub fn clear(&self) {
        self.line.clear();
    }

    /// Says what became of what an earlier run has left, if there is any.
    pub fn said_of_kept(&self) -> Option<String> {
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

    /// The rate for this many bytes, in brackets; empty if some of them were kept from an earlier run.
    pub fn rate(&self, bytes: u64) -> String {
        match self.line.kept() {
            0 => format!(" ({})", rate(bytes, self.elapsed())),
            _ => String::new(),
        }
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.line.elapsed()
    }
}

/// Whether whoever started the program wants it to go on in spite of a signal, as `nohup` does. Told on Linux only.
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
