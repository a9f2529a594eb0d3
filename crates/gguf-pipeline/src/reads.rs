//! The reads of a run, for programs that fetch data ahead.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::chunk::{Chunk, Chunks, END, Lane, Place};
use crate::encode::read_squares;
use crate::error::Error;
use crate::op::ReadBuffers;
use crate::plan::{Draft, Op, Plan};
use crate::read::Readable;
use crate::source::{Source, SourceRead};
use crate::totals::Totals;

/// Fetches the data of a run before it is read; see [`RunOptions::read_ahead`](crate::RunOptions::read_ahead).
pub trait ReadAhead: Send + Sync + fmt::Debug {
    /// Calls `work` once, and meanwhile fetches the data of `reads`, which `work` makes in nearly that order.
    ///
    /// They are those of [`Plan::reads`](crate::Plan::reads), without those for work that an earlier run has finished. Other reads may
    /// occur, for example if that work is damaged.
    fn run(&self, reads: &mut (dyn Iterator<Item = SourceRead> + Send), work: &mut dyn FnMut());
}

impl Plan {
    /// The reads of a run without [`RunOptions::measure`](crate::RunOptions::measure), in the order in which one thread makes them. Several
    /// threads make them in nearly the same order, and [`run_all`](crate::run_all) of several plans may divide them in other places.
    /// Nothing is read here.
    ///
    /// Only reads that the source [knows](Source::reads) are listed: those of GGUF and of plain tensors of a checkpoint. Data that is
    /// decoded as it is read, such as packed weights of a checkpoint or legacy blocks, is left out.
    ///
    /// ```
    /// use gguf_pipeline::Draft;
    ///
    /// let plan = Draft::copy_of("../ggufkit/examples/tiny.gguf")?.lay_out()?;
    /// for read in plan.reads() {
    ///     let read = read?;
    ///     println!("{}: bytes {:?}", read.path.display(), read.range);
    /// }
    /// # assert_eq!(plan.reads().count(), plan.tensors().len());
    /// # Ok::<(), gguf_pipeline::Error>(())
    /// ```
    pub fn reads(&self) -> impl Iterator<Item = Result<SourceRead, Error>> + use<'_> {
        let lanes = [Lane::beside(&self.draft, &self.draft)];
        let places = (0, 0, 0)..END;
        Reads::new(Cow::Owned(lanes.into_iter().flatten().collect()), &self.draft, false, places, |_, _| true)
    }
}

/// The reads of chunks: executes them, chunk after chunk, on a source that only lists them.
pub(crate) struct Reads<'a, F> {
    lanes: Cow<'a, [Lane<'a>]>,
    whole_rows: bool,
    /// Whether a chunk is read.
    is_read: F,
    draft: Draft,
    asked: Arc<Asked>,
    /// The place of the next chunk; `None` after the last, and after an error.
    next: Option<Place>,
    end: Place,
    totals: Totals<'a>,
    buffers: ReadBuffers,
    found: VecDeque<SourceRead>,
}

impl<'a, F: FnMut(usize, &Chunk) -> bool> Reads<'a, F> {
    /// The reads of the chunks between two places for which `is_read` returns true; `draft` is that of the first lane.
    pub(crate) fn new(
        lanes: Cow<'a, [Lane<'a>]>,
        draft: &Draft,
        whole_rows: bool,
        places: Range<Place>,
        is_read: F,
    ) -> Reads<'a, F> {
        let asked = Arc::new(Asked::new(&draft.source));
        let draft = Draft { source: asked.clone(), ..draft.clone() };
        let (totals, buffers) = (Totals::new(&()), ReadBuffers::default());
        Reads {
            lanes,
            whole_rows,
            is_read,
            draft,
            asked,
            next: Some(places.start),
            end: places.end,
            totals,
            buffers,
            found: VecDeque::new(),
        }
    }

    /// Lists the reads of a chunk.
    fn add(&mut self, index: usize, chunk: &Chunk) -> Result<(), Error> {
        let Some(tensor) = self.draft.tensors.get(index) else { return Ok(()) };
        let from = Readable { index, draft: &self.draft, tensor, totals: &self.totals };
        if let Op::Copy(input) = &tensor.op {
            // Nothing depends on the bytes: they need no memory.
            let bytes = |n| input.ty.tensor_bytes([n]).map_err(|_| Error::NoCodec { tensor: tensor.shown() });
            let (first, end) = (chunk.first(), chunk.first() + chunk.n_elements());
            self.asked.add(input.index(), bytes(first)?..bytes(end)?);
        } else {
            from.read(chunk.first(), chunk.n_elements(), &mut self.buffers)?;
        }
        read_squares(from, chunk)?;
        self.found.append(&mut self.asked.reads.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }
}

impl<F: FnMut(usize, &Chunk) -> bool> Iterator for Reads<'_, F> {
    type Item = Result<SourceRead, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(read) = self.found.pop_front() {
                return Some(Ok(read));
            }
            let mut chunks = Chunks::between(&self.lanes, self.next.take()?, self.end, self.whole_rows);
            let (index, chunk) = chunks.next()?;
            let place = chunks.place();
            if !(self.is_read)(index, &chunk) {
                self.next = Some(place);
                continue;
            }
            match self.add(index, &chunk) {
                Ok(()) => self.next = Some(place),
                Err(e) => return Some(Err(e)),
            }
        }
    }
}

/// A source that lists the reads of another one, and provides zeros.
#[derive(Debug)]
pub(crate) struct Asked {
    source: Arc<dyn Source>,
    reads: Mutex<VecDeque<SourceRead>>,
}

impl Asked {
    pub(crate) fn new(source: &Arc<dyn Source>) -> Asked {
        Asked { source: Arc::clone(source), reads: Mutex::default() }
    }

    /// The reads, in order.
    pub(crate) fn into_reads(self) -> Vec<SourceRead> {
        self.reads.into_inner().unwrap_or_else(PoisonError::into_inner).into()
    }

    pub(crate) fn add(&self, index: usize, range: Range<u64>) {
        let reads = self.source.reads(index, range);
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).extend(reads);
    }
}

impl Source for Asked {
    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.add(index, offset..offset.saturating_add(buffer.len() as u64));
        buffer.fill(0);
        Ok(())
    }
}
