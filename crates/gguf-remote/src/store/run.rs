//! Operations of stores on our threads.

use std::cell::RefCell;
use std::future::Future;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use object_store::client::{HttpError, HttpErrorKind};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::Problem;
use crate::settings::Settings;

/// The threads that move data of stores.
const THREADS: usize = 2;

/// How often an operation asks whether it is cancelled.
const POLL: Duration = Duration::from_millis(100);

/// The longest time to remove an upload.
const REMOVAL: Duration = Duration::from_secs(60);

/// Why an operation failed: in the store, or with a problem of ours.
pub(super) enum Trouble {
    Store(object_store::Error),
    Problem(Problem),
}

impl From<object_store::Error> for Trouble {
    fn from(e: object_store::Error) -> Trouble {
        Trouble::Store(e)
    }
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Trouble {
        Trouble::Problem(problem)
    }
}

/// What the requests of one operation have met.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Failed requests.
    pub(super) failures: u32,
    /// The failure of the last request, and when it was.
    pub(super) last: Option<(Problem, Instant)>,
}

tokio::task_local! {
    /// What the requests of the current operation have met.
    pub(super) static SEEN: RefCell<Seen>;
}

/// The runtime of all clients.
pub(super) fn runtime() -> Result<&'static Runtime, Problem> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let start = || {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("object-store").enable_all();
        builder.build().map_err(|e| e.to_string())
    };
    let failed = |e: &String| Problem::Connection(format!("cannot start threads: {e}"));
    RUNTIME.get_or_init(start).as_ref().map_err(failed)
}

/// Waits for an operation. The error has the number of failed requests.
pub(super) fn run<T: Send>(
    settings: &Settings,
    operation: impl Future<Output = Result<T, Trouble>> + Send,
) -> Result<T, (Problem, u32)> {
    let runtime = runtime().map_err(|problem| (problem, 1))?;
    block_on(runtime, observed(settings, operation))
}

/// Waits for an operation that is not cancelled, because it removes what a cancelled one leaves. It has a limited time.
pub(super) fn finish(operation: impl Future<Output = Result<(), Trouble>> + Send) {
    if let Ok(runtime) = runtime() {
        // The timer needs the runtime.
        block_on(runtime, async { _ = tokio::time::timeout(REMOVAL, operation).await });
    }
}

fn block_on<T: Send>(runtime: &Runtime, future: impl Future<Output = T> + Send) -> T {
    match Handle::try_current() {
        Err(_) => runtime.block_on(future),
        // A thread of another runtime cannot wait for futures.
        Ok(_) => std::thread::scope(|scope| {
            let waiting = scope.spawn(|| runtime.block_on(future));
            waiting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }),
    }
}

/// The operation, with its problem in our terms; it ends early if it is cancelled.
pub(super) async fn observed<T>(
    settings: &Settings,
    operation: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, (Problem, u32)> {
    let cancelled = async {
        while !settings.observer.is_cancelled() {
            tokio::time::sleep(POLL).await;
        }
    };
    let observed = async {
        let done = tokio::select! {
            biased;
            () = cancelled => Err(Trouble::Problem(Problem::Cancelled)),
            done = operation => done,
        };
        done.map_err(|trouble| SEEN.with(|seen| problem(settings, trouble, &mut seen.borrow_mut())))
    };
    SEEN.scope(RefCell::default(), observed).await
}

/// What went wrong in an operation, and the number of failed requests.
fn problem(settings: &Settings, trouble: Trouble, seen: &mut Seen) -> (Problem, u32) {
    let attempts = seen.failures.max(1);
    let last = seen.last.take().map(|(problem, _)| problem);
    let e = match trouble {
        Trouble::Problem(problem) => return (problem, attempts),
        Trouble::Store(e) => e,
    };
    let text = match &last {
        Some(Problem::Status { text, .. }) => text.clone(),
        _ => None,
    };
    let problem = match &e {
        object_store::Error::NotFound { .. } => Problem::Status { status: 404, text },
        object_store::Error::Precondition { .. } => Problem::Status { status: 412, text },
        _ => match (last, connection(&e)) {
            (Some(last), _) => last,
            (None, Some(e)) => http(settings, e),
            (None, None) => Problem::Answer(settings.store_options.redacted(&cause(&e))),
        },
    };
    (problem, attempts)
}

/// The failed connection in an error.
fn connection(e: &object_store::Error) -> Option<&HttpError> {
    let mut e: &dyn std::error::Error = e;
    loop {
        match e.downcast_ref() {
            Some(found) => return Some(found),
            None => e = e.source()?,
        }
    }
}

/// What a failed connection means.
pub(super) fn http(settings: &Settings, e: &HttpError) -> Problem {
    match e.kind() {
        HttpErrorKind::Timeout => Problem::TimedOut(settings.read_timeout),
        _ => Problem::Connection(settings.store_options.redacted(&cause(e))),
    }
}

/// The text of the error at the end of the chain, which is the most specific one, and has no URL of a request.
fn cause(e: &dyn std::error::Error) -> String {
    let mut e = e;
    while let Some(source) = e.source() {
        e = source;
    }
    e.to_string()
}
