//! The progress line. On a terminal, it is redrawn in place; elsewhere, a plain line is printed every few seconds, so that
//! a log shows that work continues.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gguf_format::Str;
use gguf_pipeline::{Event, Progress};

use crate::open;

use super::{cut_end, duration, is_dumb, rate, size, width_of};

/// Time between updates on a terminal. Shorter runs show no progress.
const REDRAW: Duration = Duration::from_millis(100);

/// Time between lines in a log.
const LOG: Duration = Duration::from_secs(10);

/// Progress in bytes, shared by the worker threads.
#[derive(Debug)]
pub struct ProgressLine {
    state: Mutex<State>,
    /// Time between updates; `None` if nothing is shown.
    every: Option<Duration>,
    redraws: bool,
}

#[derive(Debug)]
struct State {
    start: Instant,
    /// Start of the period for the displayed rate.
    clock: Instant,
    last: Instant,
    done: u64,
    /// Bytes that an earlier run finished.
    kept: u64,
    total: u64,
    /// Bytes that arrived from the network, if inputs are remote.
    received: Option<u64>,
    what: String,
    /// The kind of work, if it must be named.
    doing: &'static str,
    is_drawn: bool,
}

impl ProgressLine {
    /// Creates a line that has not started. With `quiet`, nothing is shown.
    pub fn new(quiet: bool) -> ProgressLine {
        let redraws = io::stderr().is_terminal() && !is_dumb();
        let now = Instant::now();
        let state = State {
            start: now,
            clock: now,
            last: now,
            done: 0,
            kept: 0,
            total: 0,
            received: None,
            what: String::new(),
            doing: "",
            is_drawn: false,
        };
        let every = if redraws { REDRAW } else { LOG };
        ProgressLine { state: Mutex::new(state), every: (!quiet).then_some(every), redraws }
    }

    /// Starts the work. `doing` names the kind of work, or is empty.
    fn start(&self, total: u64, doing: &'static str) {
        let now = Instant::now();
        self.change(|s| {
            (s.start, s.clock, s.last) = (now, now, now);
            (s.done, s.total, s.doing) = (0, total, doing);
        });
    }

    /// Sets the current item. The text must be safe to print.
    fn set_item(&self, what: &str) {
        self.change(|s| what.clone_into(&mut s.what));
    }

    /// Adds finished bytes.
    fn advance(&self, bytes: u64) {
        self.change(|s| s.done = s.done.saturating_add(bytes));
    }

    /// Adds bytes that an earlier run finished, and restarts the clock, because verifying them must not affect the rate.
    fn keep(&self, bytes: u64) {
        self.change(|s| {
            s.done = s.done.saturating_add(bytes);
            s.kept = s.kept.saturating_add(bytes);
            s.clock = Instant::now();
            "verifying finished work".clone_into(&mut s.what);
        });
    }

    /// Bytes that an earlier run finished.
    pub fn kept(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).kept
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).start.elapsed()
    }

    /// Erases the line.
    pub fn clear(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.is_drawn) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        if self.every.is_none_or(|every| state.last.elapsed() < every) {
            return;
        }
        state.received = open::received();
        let line = text(&state, state.clock.elapsed());
        self.draw(&mut state, &line);
    }

    fn draw(&self, state: &mut State, line: &str) {
        state.last = Instant::now();
        if self.redraws {
            let width = width_of(terminal_size::terminal_size_of(io::stderr()));
            let _ = write!(io::stderr(), "\r\x1b[K{}", cut_end(line, width.saturating_sub(1)));
            state.is_drawn = true;
        } else {
            let _ = writeln!(io::stderr(), "gguf: {}", line.trim());
        }
    }

    /// Shows a line about other work than bytes, if it is time for one: `done` of `total` steps, and what is known so far.
    #[cfg(feature = "engine")]
    pub fn step(&self, done: usize, total: usize, what: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.every.is_none_or(|every| state.last.elapsed() < every) {
            return;
        }
        let left = match done {
            0 => String::new(),
            _ => {
                let seconds = state.start.elapsed().as_secs_f64() / done as f64 * total.saturating_sub(done) as f64;
                format!("  {} left", duration(Duration::try_from_secs_f64(seconds.round()).unwrap_or_default()))
            }
        };
        let line = format!("{:3} %  {done} of {total}{left}  {what}", done * 100 / total.max(1));
        self.draw(&mut state, &line);
    }
}

impl Progress for ProgressLine {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Started { bytes, .. } => self.start(bytes, ""),
            Event::Measuring { bytes, .. } => self.start(bytes, "measuring "),
            Event::Tensor { name, .. } => self.set_item(&Str(name.as_bytes()).to_string()),
            Event::Advanced { bytes } => self.advance(bytes),
            Event::Kept { bytes } => self.keep(bytes),
            _ => {}
        }
    }
}

/// Formats the line, as in ` 42 %  1.20 GB of 2.86 GB  512 MB/s  3.2 s left  blk.3.attn_q.weight`.
fn text(state: &State, elapsed: Duration) -> String {
    let percent = state.done.saturating_mul(100).checked_div(state.total).unwrap_or(100).min(100);
    let mut line = format!("{percent:3} %  {} of {}", size(state.done), size(state.total));
    let new = state.done.saturating_sub(state.kept);
    if let Some(received) = state.received {
        line += &format!("  {} received", size(received));
    }
    if state.done >= state.total {
        return format!("{line}  {}  finishing", rate(new, elapsed));
    }
    if new > 0 {
        let left = elapsed.as_secs_f64() * state.total.saturating_sub(state.done) as f64 / new as f64;
        let left = match left.round() {
            seconds @ ..10.0 => format!("{seconds} s"),
            seconds => duration(Duration::try_from_secs_f64(seconds).unwrap_or_default()),
        };
        line += &format!("  {}  {left} left", rate(new, elapsed));
    }
    if !state.what.is_empty() {
        line += "  ";
        line += state.doing;
        line += &state.what;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_rate_and_time_left() {
        let now = Instant::now();
        let (what, doing, is_drawn) = ("x".into(), "", false);
        let mut state = State {
            start: now,
            clock: now,
            last: now,
            done: 0,
            kept: 0,
            total: 400,
            received: None,
            what,
            doing,
            is_drawn,
        };
        assert_eq!(text(&state, Duration::from_secs(1)), "  0 %  0 B of 400 B  x");
        state.done = 100;
        assert_eq!(text(&state, Duration::from_secs(10)), " 25 %  100 B of 400 B  10 B/s  30 s left  x");
        state.kept = 80;
        assert_eq!(text(&state, Duration::from_secs(10)), " 25 %  100 B of 400 B  2 B/s  2 min 30 s left  x");
        (state.kept, state.received) = (0, Some(150));
        assert_eq!(
            text(&state, Duration::from_secs(10)),
            " 25 %  100 B of 400 B  150 B received  10 B/s  30 s left  x"
        );
        (state.done, state.received) = (400, None);
        assert_eq!(text(&state, Duration::from_secs(40)), "100 %  400 B of 400 B  10 B/s  finishing");
    }
}
