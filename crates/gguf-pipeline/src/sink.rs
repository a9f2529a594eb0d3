//! Sinks: where a run writes its outputs.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use gguf_format::sort::CompactSort as _;

use crate::error::Error;
use crate::execute::{Part, Run};
use crate::plan::{Draft, FilePlan, TensorPlan};
use crate::progress::Progress;
use crate::source::Stored;

/// Where a run writes its outputs: files, memory, or a type of the caller, such as uploads to an object store.
///
/// A run calls [`create`](Sink::create) once with all its outputs, [`write_at`](Sink::write_at) from several threads at once and in no
/// particular order, [`flush`](Sink::flush), and [`commit`](Sink::commit). All outputs then exist. After an error, or if the run is cancelled,
/// it calls [`abort`](Sink::abort) instead: none of them does. Outputs are identified by their index in the list passed to `create`.
///
/// The other methods have defaults. They are for sinks that [keep](Sink::kept) work for a later run, or [copy](Sink::copy) data from files by
/// themselves.
///
/// ```
/// use std::sync::Mutex;
/// use gguf_pipeline::{Error, NewOutput, Progress, Sink};
///
/// /// Counts the bytes of a run, and keeps none.
/// #[derive(Default)]
/// struct Count(Mutex<u64>);
///
/// impl Sink for Count {
///     fn create(&mut self, outputs: &[NewOutput<'_>], _: &dyn Progress) -> Result<(), Error> {
///         for output in outputs {
///             *self.0.get_mut().unwrap() += output.head()?.len() as u64;
///         }
///         Ok(())
///     }
///     fn write_at(&self, _output: usize, _offset: u64, bytes: &[u8]) -> Result<(), Error> {
///         *self.0.lock().unwrap() += bytes.len() as u64;
///         Ok(())
///     }
///     fn commit(&mut self, _: &dyn Progress) -> Result<(), Error> {
///         Ok(())
///     }
///     fn abort(&mut self, why: Error) -> Error {
///         why
///     }
/// }
/// ```
pub trait Sink: Sync {
    /// Begins the outputs of a run, and writes the [head](NewOutput::head) of each at its start. The length of an output is
    /// [fixed](NewOutput::n_bytes); bytes that are never written are zero.
    ///
    /// # Errors
    /// If an output cannot be written. None of them is begun then, and no other method is called.
    fn create(&mut self, outputs: &[NewOutput<'_>], progress: &dyn Progress) -> Result<(), Error>;

    /// Writes all of `bytes` at `offset` of an output. Calls never overlap, neither each other nor the head.
    ///
    /// # Errors
    /// If the bytes cannot be written; [`Error::io`] makes an error of a custom sink.
    fn write_at(&self, output: usize, offset: u64, bytes: &[u8]) -> Result<(), Error>;

    /// Ensures that all written data is durable. By default, does nothing.
    ///
    /// # Errors
    /// If data is lost.
    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Completes all outputs, or none of them.
    ///
    /// # Errors
    /// If an output cannot be completed; [`abort`](Sink::abort) is called next.
    fn commit(&mut self, progress: &dyn Progress) -> Result<(), Error>;

    /// Discards the outputs; returns the error that the run reports, usually `why`.
    fn abort(&mut self, why: Error) -> Error;

    /// What an earlier run has left of a piece. `buffer` is memory to read it into. By default, nothing.
    ///
    /// # Errors
    /// If memory is not available.
    fn kept(&self, _piece: &Piece<'_>, _buffer: &mut Vec<u8>) -> Result<Kept, Error> {
        Ok(Kept::Nothing)
    }

    /// Whether an earlier run says that it has left a piece, which is not verified here: its data is not fetched ahead. By default, it
    /// does not.
    fn is_kept(&self, _piece: &Piece<'_>) -> bool {
        false
    }

    /// Notes that a piece is written, with the number of finite values that became infinite. By default, does nothing.
    ///
    /// # Errors
    /// If the note cannot be made.
    fn written(&self, _piece: &Piece<'_>, _bytes: &[u8], _overflows: u64) -> Result<(), Error> {
        Ok(())
    }

    /// Copies a piece from a file, where it has the bytes `range`; returns whether it did. By default, it does not: the run reads the bytes
    /// and writes them.
    ///
    /// # Errors
    /// If the bytes cannot be read or written.
    fn copy(&self, _piece: &Piece<'_>, _from: &Stored<'_>, _range: Range<u64>) -> Result<bool, Error> {
        Ok(false)
    }
}

/// What an earlier run has left of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kept {
    /// There was no earlier run of the output.
    Nothing,
    /// There was an earlier run, which has not written the piece.
    Missing,
    /// The piece is not what was written, and is written again.
    Damaged,
    /// The piece is what was written, and is not written again.
    Intact {
        /// The number of finite values that became infinite.
        overflows: u64,
    },
}

/// An output that a run is about to write.
#[derive(Clone, Copy)]
pub struct NewOutput<'a> {
    pub(crate) run: &'a Run<'a>,
    pub(crate) draft: &'a Draft,
    pub(crate) file: &'a FilePlan,
    /// Index of the plan.
    pub(crate) plan: usize,
    /// Index of the output.
    pub(crate) output: usize,
}

impl<'a> NewOutput<'a> {
    /// The length in bytes.
    pub fn n_bytes(&self) -> u64 {
        self.file.file_bytes()
    }

    /// The first bytes, which no [`Sink::write_at`] repeats. They are encoded on demand.
    ///
    /// # Errors
    /// [`Error::Layout`].
    pub fn head(&self) -> Result<Cow<'a, [u8]>, Error> {
        self.draft.head_of(self.file)
    }

    /// The index of the plan in the list of the run. The outputs of a plan are in the order of [`Plan::files`](crate::Plan::files).
    pub fn plan(&self) -> usize {
        self.plan
    }

    /// The tensors in the output, in order.
    pub fn tensors(&self) -> &'a [TensorPlan] {
        self.draft.tensors.get(self.file.tensors()).unwrap_or_default()
    }

    /// The gaps between the head, the tensors and the end, in order. They are zero, and the only bytes that are neither in the head nor
    /// written.
    pub fn padding(&self) -> Vec<Range<u64>> {
        let starts = self.file.tensors().filter_map(|index| self.file.start_of(index));
        let tensors = starts.zip(self.tensors()).map(|(start, tensor)| start..start.saturating_add(tensor.n_bytes()));
        // A layout that was given may have another order.
        let mut taken: Vec<Range<u64>> = tensors.chain(std::iter::once(self.n_bytes()..self.n_bytes())).collect();
        taken.compact_sort_by_key(|range| range.start);
        let mut end = self.file.head_bytes();
        let gap = |range: Range<u64>| {
            let gap = end..range.start;
            end = range.end.max(end);
            (gap.start < gap.end).then_some(gap)
        };
        taken.into_iter().filter_map(gap).collect()
    }

    /// The pieces in which the run writes the tensors, in order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Result<Piece<'a>, Error>> {
        self.run.pieces(self.plan, Part { plan: self.file, output: self.output })
    }
}

impl fmt::Debug for NewOutput<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("NewOutput");
        shown.field("n_bytes", &self.n_bytes()).field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// Consecutive elements of a tensor in an output, which a run writes at once.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Piece<'a> {
    /// Index of the output.
    pub output: usize,
    /// The place in the output.
    pub offset: u64,
    /// Number of bytes.
    pub n_bytes: u64,
    /// The tensor.
    pub tensor: &'a TensorPlan,
    /// Index of the tensor in the output.
    pub index: usize,
    /// The first element.
    pub first: u64,
    /// Number of elements.
    pub n_elements: u64,
}

/// Outputs in memory.
///
/// ```
/// use gguf_io::Model;
/// use gguf_pipeline::{Draft, MemorySink, RunOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let bytes = gguf_io::Writer::write(Vec::new(), &gguf_format::Head::default(), [[0u8; 0]; 0])?;
/// let model = Model::from_source(bytes, "model in memory")?;
/// let mut draft = Draft::copy_of(model)?;
/// draft.head.set("general.name", "A copy");
/// let mut sink = MemorySink::new();
/// draft.lay_out()?.run_to(&mut sink, &RunOptions::default(), &())?;
///
/// let copy = sink.into_outputs().remove(0);
/// let copy = Model::from_source(copy, "copy in memory")?;
/// assert_eq!(copy.gguf().get_as::<&str>("general.name")?, "A copy");
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct MemorySink {
    outputs: Vec<Mutex<Vec<u8>>>,
    is_complete: bool,
}

impl MemorySink {
    /// A sink for one run.
    pub fn new() -> MemorySink {
        MemorySink::default()
    }

    /// The outputs of a complete run, in the order of the plans and their files; nothing of any other.
    pub fn into_outputs(self) -> Vec<Vec<u8>> {
        let outputs = self.outputs.into_iter().filter(|_| self.is_complete);
        outputs.map(|output| output.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
    }
}

impl Sink for MemorySink {
    fn create(&mut self, outputs: &[NewOutput<'_>], _: &dyn Progress) -> Result<(), Error> {
        (self.outputs, self.is_complete) = (Vec::new(), false);
        let mut begun = Vec::new();
        for output in outputs {
            let refused = || {
                let problem = format!("no memory for an output of {} bytes", output.n_bytes());
                Error::io("write", &output.draft.path, io::Error::new(io::ErrorKind::OutOfMemory, problem))
            };
            let len = usize::try_from(output.n_bytes()).map_err(|_| refused())?;
            let mut bytes: Vec<u8> = Vec::new();
            bytes.try_reserve_exact(len).map_err(|_| refused())?;
            bytes.extend_from_slice(&output.head()?);
            bytes.resize(len, 0);
            begun.push(Mutex::new(bytes));
        }
        self.outputs = begun;
        Ok(())
    }

    fn write_at(&self, output: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let place = |all: &mut Vec<u8>| {
            let start = usize::try_from(offset).ok()?;
            all.get_mut(start..start.checked_add(bytes.len())?)?.copy_from_slice(bytes);
            Some(())
        };
        let output = self.outputs.get(output);
        let is_written = output.and_then(|all| place(&mut all.lock().unwrap_or_else(PoisonError::into_inner)));
        is_written.ok_or_else(|| Error::io("write", Path::new("memory"), io::ErrorKind::InvalidInput.into()))
    }

    fn commit(&mut self, _: &dyn Progress) -> Result<(), Error> {
        self.is_complete = true;
        Ok(())
    }

    fn abort(&mut self, why: Error) -> Error {
        (self.outputs, self.is_complete) = (Vec::new(), false);
        why
    }
}
