//! Looking after long work: its progress on the terminal, and an end when a signal asks for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gguf_convert::{Event, Progress};
use signal_hook::{consts, flag};

use crate::ui::{ProgressLine, rate, size};

/// Draws the progress of a run, and ends it when a signal asks for that.
pub struct Watch {
    line: ProgressLine,
    interrupted: Arc<AtomicBool>,
}

impl Watch {
    /// Starts the clock, and catches the signals.
    pub fn new(quiet: bool) -> Watch {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [consts::SIGINT, consts::SIGTERM] {
            // The second time the signal ends the process at once. Without these handlers, so does the first.
            let _ = flag::register_conditional_default(signal, Arc::clone(&interrupted));
            let _ = flag::register(signal, Arc::clone(&interrupted));
        }
        Watch { line: ProgressLine::new(quiet), interrupted }
    }

    /// Takes the line off the terminal.
    pub fn clear(&self) {
        self.line.clear();
    }

    /// Says what was not done anew, if there is any.
    pub fn said_of_kept(&self) -> Option<String> {
        let kept = self.line.kept();
        (kept > 0).then(|| format!("resumed: {} of the tensor data were there and are right", size(kept)))
    }

    /// The rate at which so many bytes were done, in brackets; nothing when some of them were done before.
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

impl Progress for Watch {
    fn event(&self, event: Event<'_>) {
        self.line.event(event);
    }

    fn is_cancelled(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}
