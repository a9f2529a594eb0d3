//! Events of a run, for programs that display progress. Nothing is printed here.

use std::path::Path;

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Types are tried before the run.
    Measuring {
        /// Number of tensors.
        n_tensors: usize,
        /// Bytes of values that will be encoded, for all types together.
        bytes: u64,
    },
    /// The temporary file of an output is open; its head is not written yet, except by an interrupted run.
    Opened {
        /// The output.
        path: &'a Path,
    },
    /// The run begins. The heads are written.
    Started {
        /// Number of tensors.
        n_tensors: usize,
        /// Bytes of tensor data that will be written, for all plans that run together.
        bytes: u64,
    },
    /// Work on a tensor begins, or continues where an earlier run was interrupted. With several threads, the previous one may be
    /// unfinished.
    Tensor {
        /// The index of the tensor.
        index: usize,
        /// Its name in the output.
        name: &'a str,
    },
    /// More of the tensor data was written, or tried.
    Advanced {
        /// The additional bytes.
        bytes: u64,
    },
    /// More of the tensor data was found intact from an interrupted run.
    Kept {
        /// The additional bytes.
        bytes: u64,
    },
    /// Some work of an interrupted run does not match its hash and is redone.
    Damaged {
        /// The bytes of tensor data.
        bytes: u64,
    },
    /// The work of an interrupted run on a file is unusable, and the file is written again.
    Unusable,
    /// All data is written, and is synced next.
    Written,
    /// All data is synced, and the files are renamed next.
    Synced,
    /// An output has its final name.
    Named {
        /// The output.
        path: &'a Path,
    },
    /// All outputs have their final names, and the journals are removed.
    Finished,
    /// A step of an edit in place is done.
    Edited {
        /// The step.
        step: gguf_io::in_place::EditStep,
    },
}

/// The work was cancelled by [`Progress::is_cancelled`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

/// A receiver of events. They come from several threads at once, during the work: an implementation must be fast.
///
/// Closures with an explicit argument type are implementations: `|event: Event<'_>| …`. `()` ignores all events.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use gguf_pipeline::{Draft, Error, Event, MemorySink, Progress, RunOptions};
///
/// # let mut head = gguf_format::Head::default();
/// # head.tensors.push(gguf_format::TensorInfo::new("output.weight", [4], gguf_format::GgmlType::F32));
/// # let bytes = gguf_io::Writer::write(Vec::new(), &head, [[0u8; 16]])?;
/// # let model = gguf_io::Model::from_source(bytes, "model in memory")?;
/// # let plan = Draft::copy_of(model)?.lay_out()?;
/// let written = AtomicU64::new(0);
/// let count = |event: Event<'_>| {
///     if let Event::Advanced { bytes } = event {
///         written.fetch_add(bytes, Ordering::Relaxed);
///     }
/// };
/// plan.run_to(&mut MemorySink::new(), &RunOptions::default(), &count)?;
/// assert_eq!(written.into_inner(), 16);
///
/// /// Cancels the run at once.
/// struct Cancel;
///
/// impl Progress for Cancel {
///     fn event(&self, _: Event<'_>) {}
///     fn is_cancelled(&self) -> bool {
///         true
///     }
/// }
/// let result = plan.run_to(&mut MemorySink::new(), &RunOptions::default(), &Cancel);
/// assert!(matches!(result, Err(Error::Cancelled)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Progress: Sync {
    /// Receives an event.
    fn event(&self, event: Event<'_>);

    /// Whether to cancel the run; called between chunks. The run then fails with [`Error::Cancelled`](crate::Error::Cancelled) and leaves
    /// no output, or with [`Error::Kept`](crate::Error::Kept).
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
