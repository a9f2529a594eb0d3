//! Progress of long work: a callable of Python, and Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use ggufkit::{Event, Progress};
use pyo3::prelude::*;

use crate::error::raise;

/// Time between two calls of the callable, and between two looks for signals.
const INTERVAL: Duration = Duration::from_millis(50);

/// Reports progress to a callable `(done, total, name)`: bytes of tensor data, and the tensor that is worked on.
struct Reporter {
    callable: Option<Py<PyAny>>,
    /// The thread that called, the only one on which Python handles signals.
    caller: ThreadId,
    state: Mutex<State>,
    is_cancelled: AtomicBool,
}

struct State {
    done: u64,
    total: u64,
    name: String,
    reported: Instant,
    looked: Instant,
    /// The exception that cancelled the work.
    error: Option<PyErr>,
}

impl Reporter {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self, error: PyErr) {
        self.lock().error.get_or_insert(error);
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    fn report(&self, always: bool) {
        let Some(callable) = &self.callable else { return };
        let (done, total, name) = {
            let mut state = self.lock();
            if !always && state.reported.elapsed() < INTERVAL {
                return;
            }
            state.reported = Instant::now();
            (state.done, state.total, state.name.clone())
        };
        let called = Python::attach(|py| callable.call1(py, (done, total, name)).map(drop));
        if let Err(error) = called {
            self.stop(error);
        }
    }
}

impl Progress for Reporter {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Started { bytes, .. } => {
                self.lock().total = bytes;
                self.report(true);
            }
            Event::Tensor { name, .. } => name.clone_into(&mut self.lock().name),
            Event::Advanced { bytes } | Event::Kept { bytes } => {
                let mut state = self.lock();
                state.done = state.done.saturating_add(bytes);
                drop(state);
                self.report(false);
            }
            Event::Written => self.report(true),
            _ => {}
        }
    }

    fn is_cancelled(&self) -> bool {
        if thread::current().id() == self.caller {
            let is_due = {
                let mut state = self.lock();
                let is_due = state.looked.elapsed() >= INTERVAL;
                if is_due {
                    state.looked = Instant::now();
                }
                is_due
            };
            if is_due && let Err(error) = Python::attach(|py| py.check_signals()) {
                self.stop(error);
            }
        }
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

/// Does work detached from the interpreter. An exception of the callable, or of a signal such as Ctrl-C, cancels it and is raised.
///
/// `progress` is None, True for a bar of tqdm, or a callable `(done, total, name)`.
pub fn run<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&dyn Progress) -> Result<T, ggufkit::Error> + Send,
) -> PyResult<T> {
    let bar = py.import("ggufkit._progress")?.call_method1("reporter", (progress,))?;
    let now = Instant::now();
    let reporter = Reporter {
        callable: (!bar.is_none()).then(|| bar.clone().unbind()),
        caller: thread::current().id(),
        state: Mutex::new(State { done: 0, total: 0, name: String::new(), reported: now, looked: now, error: None }),
        is_cancelled: AtomicBool::new(false),
    };
    let done = py.detach(|| work(&reporter));
    if bar.hasattr("close")? {
        bar.call_method0("close")?;
    }
    let error = reporter.state.into_inner().unwrap_or_else(PoisonError::into_inner).error;
    match (done, error) {
        (Ok(done), None) => Ok(done),
        (_, Some(error)) => Err(error),
        (Err(error), None) => Err(raise(error)),
    }
}
