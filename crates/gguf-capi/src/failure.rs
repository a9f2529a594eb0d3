//! Reports errors: on stderr like ggml's functions, and as the calling thread's last error.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The offset of failures without one.
pub const NO_OFFSET: u64 = u64::MAX;

/// The reason of a failed function.
#[derive(Debug)]
pub struct Failure {
    pub text: String,
    /// Offset of the invalid byte, from the start of the GGUF.
    pub offset: Option<u64>,
}

impl Failure {
    pub fn new(text: impl Into<String>) -> Failure {
        Failure { text: text.into(), offset: None }
    }

    pub fn at(offset: u64, text: impl fmt::Display) -> Failure {
        Failure { text: format!("byte {offset}: {text}"), offset: Some(offset) }
    }
}

impl From<gguf_format::Error> for Failure {
    fn from(e: gguf_format::Error) -> Failure {
        Failure { text: e.to_string(), offset: Some(e.offset) }
    }
}

impl From<gguf_format::LayoutError> for Failure {
    fn from(e: gguf_format::LayoutError) -> Failure {
        Failure::new(e.to_string())
    }
}

impl From<gguf_io::Error> for Failure {
    fn from(e: gguf_io::Error) -> Failure {
        let offset = match &e {
            gguf_io::Error::Head { source, .. } => Some(source.offset),
            _ => None,
        };
        Failure { text: e.to_string(), offset }
    }
}

impl From<std::io::Error> for Failure {
    fn from(e: std::io::Error) -> Failure {
        Failure::new(e.to_string())
    }
}

thread_local! {
    static LAST: RefCell<(CString, Option<u64>)> = RefCell::default();
}

/// Stores a failure as the last error of this thread.
pub fn keep(function: &str, failure: &Failure) {
    let text = format!("{function}: {}", failure.text).replace('\0', "\\0");
    let kept = (CString::new(text).unwrap_or_default(), failure.offset);
    // A thread that is ending no longer has a last error.
    let _ = LAST.try_with(|last| last.replace(kept));
}

/// Stores a failure and prints it to stderr, like ggml's functions.
pub fn report(function: &str, failure: &Failure) {
    keep(function, failure);
    let _ = writeln!(std::io::stderr(), "{function}: {}", failure.text);
}

/// The last error of this thread; empty if there was none.
pub fn last() -> (*const c_char, u64) {
    LAST.try_with(|last| {
        let last = last.borrow();
        (last.0.as_ptr(), last.1.unwrap_or(NO_OFFSET))
    })
    .unwrap_or((c"".as_ptr(), NO_OFFSET))
}

/// Runs the body of a C function without unwinding into C: a panic is reported, and `otherwise` returned.
pub fn guard<T>(function: &str, otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        report(function, &Failure::new("internal error"));
        otherwise
    })
}

/// As [`guard`], for a body that can fail: the failure is reported, and `otherwise` returned.
pub fn reported<T>(function: &str, otherwise: T, body: impl FnOnce() -> Result<T, Failure>) -> T {
    match guard(function, None, || Some(body())) {
        Some(Ok(value)) => value,
        Some(Err(failure)) => {
            report(function, &failure);
            otherwise
        }
        None => otherwise,
    }
}

/// As [`reported`], for functions that ggml does not have: the failure is stored, and nothing is printed.
pub fn kept<T>(function: &str, otherwise: T, body: impl FnOnce() -> Result<T, Failure>) -> T {
    match guard(function, None, || Some(body())) {
        Some(Ok(value)) => value,
        Some(Err(failure)) => {
            keep(function, &failure);
            otherwise
        }
        None => otherwise,
    }
}
