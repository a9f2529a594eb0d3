//! What happens during a run, told to whoever wants to show it. Nothing is printed here.

use std::path::Path;

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Types are tried before the run.
    Measuring {
        /// Number of tensors.
        n_tensors: usize,
        /// Bytes of values that will be encoded, all types counted.
        bytes: u64,
    },
    /// The temporary file of an output is open; its head is not written yet, unless an interrupted run has left it.
    Opened {
        /// The output.
        path: &'a Path,
    },
    /// The run begins. The heads are written.
    Started {
        /// Number of tensors.
        n_tensors: usize,
        /// Bytes of tensor data that will be written.
        bytes: u64,
    },
    /// Work on a tensor begins, or goes on where an earlier run was interrupted. With several threads, the one before may not be finished yet.
    Tensor {
        /// Its number, from 0.
        index: usize,
        /// Its name in the output.
        name: &'a str,
    },
    /// More of the tensor data was written, or tried.
    Advanced {
        /// How much more.
        bytes: u64,
    },
    /// More of the tensor data was found as an interrupted run has left it, and is right.
    Kept {
        /// How much more.
        bytes: u64,
    },
    /// Some kept work of an interrupted run does not match its hash and is redone.
    Damaged {
        /// How much of the tensor data.
        bytes: u64,
    },
    /// What an interrupted run has left of a file cannot be used, and all of the file is done again.
    Unusable,
    /// All data is written and is made durable next.
    Written,
    /// All data is durable, and the files get their names next.
    Synced,
    /// An output has its name.
    Named {
        /// The output.
        path: &'a Path,
    },
    /// All outputs have their names, and the journals are gone.
    Finished,
    /// An edit in place has come so far.
    Edited {
        /// How far.
        step: gguf_io::in_place::EditStep,
    },
}

/// The work was ended by [`Progress::is_cancelled`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

/// Takes events. They come from several threads at once, in between the work: an implementation is quick.
///
/// Closures that name the type of their argument are implementations: `|event: Event<'_>| …`. `()` is the one that shows nothing.
pub trait Progress: Sync {
    /// Something happened.
    fn event(&self, event: Event<'_>);

    /// Whether the run is to end before its time; asked between chunks. It then fails with
    /// [`Error::Cancelled`](crate::Error::Cancelled) and leaves no output, or with [`Error::Kept`](crate::Error::Kept).
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl Progress for () {
    fn event(&self, _: Event<'_>) {}
}

impl<F: Fn(Event<'_>) + Sync> Progress for F {
    fn event(&self, event: Event<'_>) {
        self(event);
    }
}
