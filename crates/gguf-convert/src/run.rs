//! The run: reads, converts and writes the tensors of a plan.
//!
//! Every offset of the output is known before the first byte. The tensors are cut into chunks of a few MiB, and each of a
//! number of threads takes the next chunk, reads it, converts it and writes it to its place. So the bytes are the same
//! for any number of threads, and memory is a few chunks per thread whatever the size of the model.
//!
//! Reading ahead and writing behind are left to the kernel and to the other threads: while one waits for the disk, another works.
//! Where the disk is all that counts (a model of 2.2 GB in F16 to Q8_0 on two threads), this is faster than `cp` and `sync` of the
//! input: 1.4 to 1.7 s beside 1.7 to 2.0 s with the input in memory, 2 to 5 s beside 3 to 11 s with it on a busy disk. A reader that
//! went ahead made no difference, and the wait at the end, for the data to reach the disk, is a fifth of the time.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use gguf_arch::plan::{Input, Op, PlannedTensor};
use gguf_format::{ByteOrder, GgmlType, Layout, n_elements, scan_data, swap_blocks};
use gguf_io::Output;
use gguf_quants::codec::{Codec, codec};
use gguf_quants::{Isa, Rows};

use crate::error::Error;
use crate::imatrix::ImatrixFile;
use crate::journal::{Finished, Journal};
use crate::ops::{Cast, interleave_halves};
use crate::progress::{Event, Progress};
use crate::report::{Errors, Written};
use crate::source::Source;

/// Bytes of source data that one chunk covers, about.
const CHUNK: u64 = 4 << 20;

/// The most threads that work at once, whatever is asked for: more gain nothing, and each takes a few chunks of memory.
pub(crate) const MAX_THREADS: usize = 256;

/// Values that are decoded and encoded at once, about: they stay in the second-level cache, and fill the lanes of the encoders.
const SPAN: usize = 1 << 16;

/// Whose rules hold where a value becomes one of another float type; they differ in what becomes of NaNs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// The reference converter's.
    Converter,
    /// ggml's. Types that hold blocks follow ggml in any case.
    Ggml,
}

/// The importance of the columns of some tensors. The weights stay in the file until a chunk needs them.
#[derive(Debug, Clone, Copy)]
pub struct Importance<'a> {
    /// The matrix.
    pub matrix: &'a ImatrixFile,
    /// The names of its entries, by the tensors' places in the plan.
    pub entries: &'a BTreeMap<usize, Vec<u8>>,
}

impl Importance<'_> {
    /// The weights of the columns of one matrix of a tensor; `None` where there are none.
    pub(crate) fn columns(&self, index: usize, matrix: u64, row_len: u64) -> Result<Option<Vec<f32>>, Error> {
        let Some(entry) = self.entries.get(&index) else { return Ok(None) };
        let first = matrix.saturating_mul(row_len);
        Ok(self.matrix.weights_of(entry, first..first.saturating_add(row_len))?)
    }
}

/// What is run: a plan, where its inputs come from and where its outputs go.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// The tensors to write.
    pub tensors: &'a [PlannedTensor],
    /// Where their data comes from.
    pub source: &'a dyn Source,
    /// How floats are rounded.
    pub rules: Rules,
    /// What encoders weigh errors by.
    pub importance: Option<Importance<'a>>,
    /// Byte order of the output.
    pub order: ByteOrder,
    /// Number of threads; `None` for as many as the machine has processors.
    pub threads: Option<NonZeroUsize>,
    /// Where the errors of what is written go, if they are asked for.
    pub errors: Option<&'a Errors>,
}

/// One of the files that a run writes, each with the tensors that follow those of the one before.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    /// The number of its first tensor.
    pub(crate) first: usize,
    /// Where its tensors land.
    pub(crate) layout: &'a Layout,
    /// The file.
    pub(crate) output: &'a Output,
    /// What is known of its chunks, if it can be resumed.
    pub(crate) journal: Option<&'a Journal>,
}

/// A tensor in which finite values became infinite, because its type has a smaller range than its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overflow {
    /// The tensor's name in the output.
    pub tensor: String,
    /// How many values.
    pub values: u64,
}

impl Run<'_> {
    /// Writes all tensor data into the files; says where values became infinite, in the order of the tensors. With a journal,
    /// chunks that it has are only read back, and done again if they are not what they were; the others are noted in it.
    ///
    /// # Errors
    /// The first error that any thread meets; the others stop soon after.
    pub(crate) fn execute(&self, parts: &[Part<'_>], progress: &dyn Progress) -> Result<Vec<Overflow>, Error> {
        let shared = Shared {
            chunks: Mutex::new(self.chunks()),
            parts,
            stop: AtomicBool::new(false),
            overflows: Mutex::new(BTreeMap::new()),
        };
        let pieces = self.chunks().take(MAX_THREADS).count();
        on_threads(self.threads, pieces, || self.work(&shared, progress))?;
        let overflows = shared.overflows.into_inner().unwrap_or_else(PoisonError::into_inner);
        let named = overflows
            .into_iter()
            .filter_map(|(index, values)| Some(Overflow { tensor: self.tensors.get(index)?.name.clone(), values }));
        Ok(named.collect())
    }

    /// Whether all of a file's data, `n_tensors` of the run, are there as its journal says.
    ///
    /// # Errors
    /// When there is no memory for a chunk.
    pub(crate) fn is_done(&self, part: Part<'_>, n_tensors: usize) -> Result<bool, Error> {
        let mut buffer = Vec::new();
        let chunks = Chunks { run: self, tensor: part.first, row: 0 };
        for (index, tensor, chunk) in chunks.take_while(|(index, ..)| index - part.first < n_tensors) {
            let place = Place::of(index, tensor, &chunk, std::slice::from_ref(&part))?;
            let Some(record) = place.record(index, &chunk) else { return Ok(false) };
            if !place.is_right(record, tensor, &mut buffer)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn chunks(&self) -> Chunks<'_> {
        Chunks { run: self, tensor: 0, row: 0 }
    }

    /// Works on chunks until there are no more or a thread has failed.
    fn work(&self, shared: &Shared<'_>, progress: &dyn Progress) -> Result<(), Error> {
        let mut buffers = Buffers::default();
        while !shared.stop.load(Ordering::Relaxed) {
            let next = shared.chunks.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((index, tensor, chunk)) = next else { break };
            let done = match progress.is_cancelled() {
                true => Err(Error::Cancelled),
                false => self.finish(index, tensor, &chunk, shared.parts, &mut buffers, progress),
            };
            match done {
                Ok(0) => {}
                Ok(values) => {
                    *shared.overflows.lock().unwrap_or_else(PoisonError::into_inner).entry(index).or_insert(0) +=
                        values;
                }
                Err(e) => {
                    shared.stop.store(true, Ordering::Relaxed);
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    /// Sees to it that a chunk is in its file; says how many values became infinite in it.
    fn finish(
        &self,
        index: usize,
        tensor: &PlannedTensor,
        chunk: &Chunk,
        parts: &[Part<'_>],
        buffers: &mut Buffers,
        progress: &dyn Progress,
    ) -> Result<u64, Error> {
        let place = Place::of(index, tensor, chunk, parts)?;
        let journal = place.part.journal;
        let of_part = index - place.part.first;
        let record = place.record(index, chunk);
        // All of a file that has its name was looked at before the run.
        if place.part.output.is_finished() {
            progress.event(Event::Kept { bytes: place.bytes });
            return Ok(record.map_or(0, |(finished, _)| finished.overflows));
        }
        if let Some(record) = record {
            if place.is_right(record, tensor, &mut buffers.out)? {
                progress.event(Event::Kept { bytes: place.bytes });
                return Ok(record.0.overflows);
            }
            progress.event(Event::Damaged { bytes: place.bytes });
        }
        // When work is resumed, it may go on in the middle of a tensor.
        if chunk.first_row == 0 || journal.is_some_and(Journal::is_resumed) {
            progress.event(Event::Tensor { index, name: &tensor.name });
        }
        let overflows = self.convert(index, tensor, chunk, place, buffers)?;
        if let Some(journal) = journal {
            let Chunk { first_row, n_rows, .. } = *chunk;
            journal.add(Finished { tensor: of_part, first_row, n_rows, overflows }, &buffers.out)?;
        }
        progress.event(Event::Advanced { bytes: place.bytes });
        Ok(overflows)
    }

    /// Reads, converts and writes one chunk; says how many values became infinite.
    fn convert(
        &self,
        index: usize,
        tensor: &PlannedTensor,
        chunk: &Chunk,
        place: Place<'_>,
        buffers: &mut Buffers,
    ) -> Result<u64, Error> {
        let Buffers { raw, moved, values, out } = buffers;
        resize(out, place.bytes, tensor)?;
        let mut overflows = 0;
        match &tensor.op {
            Op::Computed(computed) => {
                let from = usize::try_from(chunk.first_row).unwrap_or(usize::MAX);
                let computed = computed.get(from..).unwrap_or_default();
                let raw: Vec<u8> = computed.iter().take(chunk.n_rows as usize).flat_map(|v| v.to_le_bytes()).collect();
                overflows = self.cast(GgmlType::F32, tensor, &raw, out)?;
            }
            Op::Copy(input) | Op::PermuteRows { input, .. } => {
                let input_row = packed_bytes(input.ty, chunk.row_len, tensor)?;
                resize(raw, chunk.n_rows * input_row, tensor)?;
                let mut rest = raw.as_mut_slice();
                for &(row, n_rows) in &chunk.reads {
                    let (part, after) = rest.split_at_mut(rest.len().min((n_rows * input_row) as usize));
                    self.source.read(input.index, row * input_row, part)?;
                    rest = after;
                }
                let mut source: &[u8] = raw;
                if let Op::PermuteRows { .. } = tensor.op {
                    resize(moved, chunk.n_rows * input_row, tensor)?;
                    interleave_halves(raw, moved, chunk.group_rows as usize, input_row as usize);
                    source = moved;
                }
                if self.goes_through_blocks(input, tensor) {
                    self.encode(index, input, tensor, chunk, source, values, out)?;
                } else if self.rules == Rules::Ggml {
                    out.copy_from_slice(source);
                } else {
                    overflows = self.cast(input.ty, tensor, source, out)?;
                }
                if let Some(errors) = self.errors.filter(|_| input.ty != tensor.ty) {
                    let weights = self.columns(index, chunk)?;
                    let (first_row, row_len) = (chunk.first_row, chunk.row_len);
                    let (from, weights) = (input.ty, weights.as_deref());
                    errors.add(tensor, &Written { index, from, source, out, first_row, row_len, weights })?;
                }
            }
        }
        if self.order == ByteOrder::Big {
            swap_blocks(tensor.ty, out).map_err(|_| no_codec(tensor))?;
        }
        place.part.output.write_at(place.start, out)?;
        Ok(overflows)
    }

    /// Whether the values are decoded and encoded by ggml's rules; otherwise they are copied, or cast as the converter does.
    fn goes_through_blocks(&self, input: &Input, tensor: &PlannedTensor) -> bool {
        match self.rules {
            Rules::Converter => tensor.ty.is_quantized(),
            Rules::Ggml => input.ty != tensor.ty,
        }
    }

    /// The importance of the columns of a chunk.
    fn columns(&self, index: usize, chunk: &Chunk) -> Result<Option<Vec<f32>>, Error> {
        match self.importance {
            Some(importance) => importance.columns(index, chunk.matrix, chunk.row_len),
            None => Ok(None),
        }
    }

    fn cast(&self, from: GgmlType, tensor: &PlannedTensor, packed: &[u8], out: &mut [u8]) -> Result<u64, Error> {
        let cast = Cast::new(from, tensor.ty).ok_or_else(|| no_codec(tensor))?;
        Ok(cast.apply(packed, out))
    }

    /// Decodes the rows of a chunk and encodes them anew, some at a time.
    #[allow(clippy::too_many_arguments, reason = "what one chunk is made of")]
    fn encode(
        &self,
        index: usize,
        input: &Input,
        tensor: &PlannedTensor,
        chunk: &Chunk,
        source: &[u8],
        values: &mut Vec<f32>,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let find = |ty| codec(ty).ok_or_else(|| no_codec(tensor));
        let (from, to): (&Codec, &Codec) = (find(input.ty)?, find(tensor.ty)?);
        let isa = Isa::best();
        let row_len = usize::try_from(chunk.row_len).map_err(|_| no_codec(tensor))?;
        let weights = self.columns(index, chunk)?;
        let weights = weights.as_deref();
        let span = (SPAN / row_len.max(1)).max(1);
        let (from_span, to_span) = (
            span * packed_bytes(input.ty, chunk.row_len, tensor)? as usize,
            span * packed_bytes(tensor.ty, chunk.row_len, tensor)? as usize,
        );
        for (n, (packed, out)) in source.chunks(from_span).zip(out.chunks_mut(to_span)).enumerate() {
            let first_row = chunk.first_row + (n * span) as u64;
            // llama.cpp looks at what it reads and at what it has made in the same way (`ggml_validate_row_data`).
            let check = |ty, bytes: &[u8]| match scan_data(ty, ByteOrder::Little, bytes, 0) {
                Ok(scan) if scan.is_clean() => Ok(()),
                _ => Err(Error::NotFinite { tensor: tensor.name.clone(), row: first_row, ty }),
            };
            check(from.ty, packed)?;
            let n_values = packed.len() * span * row_len / from_span;
            values.resize(n_values, 0.0);
            let wrong = |source| Error::Codec { tensor: tensor.name.clone(), row: first_row, source };
            from.decode(isa, packed, values).map_err(wrong)?;
            let rows = Rows::new(values, row_len, weights)
                .map_err(|source| Error::Rows { tensor: tensor.name.clone(), source })?;
            to.encode(isa, rows, out).map_err(wrong)?;
            check(to.ty, out)?;
        }
        Ok(())
    }
}

/// Bytes of one row of values.
fn packed_bytes(ty: GgmlType, row_len: u64, tensor: &PlannedTensor) -> Result<u64, Error> {
    ty.tensor_bytes([row_len]).map_err(|_| no_codec(tensor))
}

/// Does the same work on a number of threads, `None` for as many as the machine has processors, and waits for all; gives
/// the first error. The work is what shares itself out, in so many pieces.
///
/// There are never more threads than pieces or than [`MAX_THREADS`], and fewer when the system gives no more.
pub(crate) fn on_threads<E: Send>(
    threads: Option<NonZeroUsize>,
    pieces: usize,
    work: impl Fn() -> Result<(), E> + Sync,
) -> Result<(), E> {
    let available = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let threads = threads.unwrap_or_else(available).get().min(pieces).min(MAX_THREADS);
    thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, &work).ok();
        let workers: Vec<_> = (1..threads).map_while(spawn).collect();
        let mut result = work();
        for worker in workers {
            match worker.join() {
                Ok(other) => result = result.and(other),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        result
    })
}

fn no_codec(tensor: &PlannedTensor) -> Error {
    Error::NoCodec { tensor: tensor.name.clone() }
}

/// Gives a buffer its length, asking politely for the memory.
fn resize(buffer: &mut Vec<u8>, bytes: u64, tensor: &PlannedTensor) -> Result<(), Error> {
    let refused = || Error::OutOfMemory { tensor: tensor.name.clone(), bytes };
    let len = usize::try_from(bytes).map_err(|_| refused())?;
    buffer.try_reserve(len.saturating_sub(buffer.len())).map_err(|_| refused())?;
    buffer.resize(len, 0);
    Ok(())
}

/// What one thread reuses from chunk to chunk.
#[derive(Default)]
struct Buffers {
    raw: Vec<u8>,
    moved: Vec<u8>,
    values: Vec<f32>,
    out: Vec<u8>,
}

struct Shared<'a> {
    chunks: Mutex<Chunks<'a>>,
    parts: &'a [Part<'a>],
    stop: AtomicBool,
    overflows: Mutex<BTreeMap<usize, u64>>,
}

/// A run of output rows, and the input rows it is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Chunk {
    /// First output row.
    first_row: u64,
    /// Number of rows.
    n_rows: u64,
    /// Elements of a row.
    row_len: u64,
    /// Input rows to read one after the other: the first, and how many.
    reads: Vec<(u64, u64)>,
    /// Rows of a group, when rows change places within groups.
    group_rows: u64,
    /// The number of the matrix that the rows belong to, in a tensor that is a stack of them.
    matrix: u64,
}

/// Where a chunk goes.
#[derive(Clone, Copy)]
struct Place<'a> {
    part: &'a Part<'a>,
    /// From the start of the file.
    start: u64,
    bytes: u64,
}

impl<'a> Place<'a> {
    fn of(index: usize, tensor: &PlannedTensor, chunk: &Chunk, parts: &'a [Part<'a>]) -> Result<Place<'a>, Error> {
        let row_bytes = packed_bytes(tensor.ty, chunk.row_len, tensor)?;
        let part = parts.iter().rfind(|part| part.first <= index);
        // Every tensor is in a part, whose layout has an offset for it.
        let start = part.and_then(|part| Some((part, part.layout.file_offset(index.checked_sub(part.first)?)?)));
        let (part, start) = start.ok_or_else(|| no_codec(tensor))?;
        Ok(Place { part, start: start + chunk.first_row * row_bytes, bytes: chunk.n_rows * row_bytes })
    }

    /// What the journal has of the chunk of the tensor with that number.
    fn record(&self, index: usize, chunk: &Chunk) -> Option<&'a (Finished, u128)> {
        self.part.journal?.finished(index - self.part.first, chunk.first_row, chunk.n_rows)
    }

    /// Whether the bytes there are those of the record. Those that cannot be read are not.
    fn is_right(&self, record: &(Finished, u128), tensor: &PlannedTensor, buffer: &mut Vec<u8>) -> Result<bool, Error> {
        resize(buffer, self.bytes, tensor)?;
        Ok(self.part.output.read_at(self.start, buffer).is_ok() && Journal::verify(record, buffer))
    }
}

/// Cuts the tensors into chunks, in order.
struct Chunks<'a> {
    run: &'a Run<'a>,
    tensor: usize,
    row: u64,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = (usize, &'a PlannedTensor, Chunk);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let index = self.tensor;
            let tensor = self.run.tensors.get(index)?;
            // Sizes were checked when the file was laid out.
            let n = n_elements(tensor.shape.iter().copied()).unwrap_or(0);
            let row_of_shape = tensor.shape.first().copied().unwrap_or(1).max(1);
            let n_rows = match &tensor.op {
                // Where the order of values stays and each is on its own, values are rows of one: a chunk may end anywhere.
                // Errors are those of whole rows.
                Op::Copy(input)
                    if !self.run.goes_through_blocks(input, tensor)
                        && !input.ty.is_quantized()
                        && self.run.errors.is_none() =>
                {
                    n
                }
                Op::Copy(_) => n / row_of_shape,
                Op::Computed(_) => n,
                Op::PermuteRows { .. } => tensor.shape.last().copied().unwrap_or(1),
            };
            if n == 0 || self.row >= n_rows {
                (self.tensor, self.row) = (index + 1, 0);
                continue;
            }
            let row_len = n / n_rows;
            let row_bytes = tensor.op.input().map_or(4, |i| i.ty.tensor_bytes([row_len]).unwrap_or(row_len));
            let rows_per_chunk = (CHUNK / row_bytes.max(1)).max(1);
            let chunk = match tensor.op {
                Op::Copy(_) | Op::Computed(_) => {
                    let mut n_rows = rows_per_chunk.min(n_rows - self.row);
                    // Each matrix of a stack has weights of its own.
                    let height =
                        if row_len == row_of_shape { tensor.shape.get(1).copied().unwrap_or(1).max(1) } else { n };
                    if self.run.importance.is_some_and(|importance| importance.entries.contains_key(&index)) {
                        n_rows = n_rows.min(height - self.row % height);
                    }
                    let matrix = self.row / height;
                    Chunk {
                        first_row: self.row,
                        n_rows,
                        row_len,
                        reads: vec![(self.row, n_rows)],
                        group_rows: 0,
                        matrix,
                    }
                }
                Op::PermuteRows { heads, .. } => {
                    permuted_chunk(self.row, n_rows, n_rows / heads, row_len, rows_per_chunk)
                }
            };
            self.row += chunk.n_rows;
            return Some((index, tensor, chunk));
        }
    }
}

/// The chunk that starts at `row` of a tensor whose rows change places within groups of `group_rows`: as many whole groups
/// as fit, or some of the pairs of one group, whose two halves are then read from two places.
fn permuted_chunk(row: u64, n_rows: u64, group_rows: u64, row_len: u64, rows_per_chunk: u64) -> Chunk {
    if group_rows <= rows_per_chunk {
        let n_rows = (rows_per_chunk / group_rows * group_rows).min(n_rows - row);
        return Chunk { first_row: row, n_rows, row_len, reads: vec![(row, n_rows)], group_rows, matrix: 0 };
    }
    let (group, pair) = (row - row % group_rows, row % group_rows / 2);
    let n_pairs = (rows_per_chunk / 2).max(1).min(group_rows / 2 - pair);
    let reads = vec![(group + pair, n_pairs), (group + group_rows / 2 + pair, n_pairs)];
    Chunk { first_row: row, n_rows: 2 * n_pairs, row_len, reads, group_rows: 2 * n_pairs, matrix: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the size of a chunk, the output rows are those of the permutation of the whole.
    #[test]
    fn chunks_of_any_size_make_the_same_permutation() {
        for (groups, group_rows) in [(1u64, 2u64), (3, 8), (2, 6), (5, 4)] {
            let n_rows = groups * group_rows;
            let whole: Vec<u8> = (0..n_rows as u8).collect();
            let mut expected = vec![0; whole.len()];
            interleave_halves(&whole, &mut expected, group_rows as usize, 1);
            for rows_per_chunk in 1..=n_rows + 1 {
                let mut result = Vec::new();
                while (result.len() as u64) < n_rows {
                    let chunk = permuted_chunk(result.len() as u64, n_rows, group_rows, 1, rows_per_chunk);
                    assert!(chunk.n_rows <= rows_per_chunk.max(2), "{chunk:?}");
                    let read = |&(row, n): &(u64, u64)| whole[row as usize..(row + n) as usize].to_vec();
                    let raw: Vec<u8> = chunk.reads.iter().flat_map(read).collect();
                    let mut moved = vec![0; raw.len()];
                    interleave_halves(&raw, &mut moved, chunk.group_rows as usize, 1);
                    result.extend(moved);
                }
                assert_eq!(result, expected, "{groups} {group_rows} {rows_per_chunk}");
            }
        }
    }

    #[test]
    fn threads_are_as_many_as_there_is_work_for() {
        for (asked, pieces, expected) in [
            (1, 9, 1),
            (3, 9, 3),
            (100_000, 3, 3),
            (9, 0, 1),
            (100_000, 100_000, MAX_THREADS),
            (usize::MAX, usize::MAX, MAX_THREADS),
        ] {
            let n = Mutex::new(0);
            let work = || {
                *n.lock().unwrap() += 1;
                Ok::<_, ()>(())
            };
            on_threads(NonZeroUsize::new(asked), pieces, work).unwrap();
            assert_eq!(n.into_inner().unwrap(), expected, "{asked} for {pieces}");
        }
    }
}
