//! The run: reads, converts and writes the tensors of a plan.
//!
//! Every offset of the output is known before the first byte. The tensors are cut into chunks of a few MiB, and each of a
//! number of threads takes the next chunk, reads it, converts it and writes it to its place. So the bytes are the same
//! for any number of threads, and memory is a few chunks per thread whatever the size of the model.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use gguf_arch::plan::{Op, PlannedTensor};
use gguf_format::{ByteOrder, Layout, n_elements};
use gguf_io::Output;

use crate::error::Error;
use crate::ops::{Cast, interleave_halves, swap_bytes, width};
use crate::progress::{Event, Progress};
use crate::source::Checkpoint;

/// Bytes of source data that one chunk covers, about.
const CHUNK: u64 = 4 << 20;

/// The most threads that work at once, whatever is asked for: more gain nothing, and each takes a few chunks of memory.
pub(crate) const MAX_THREADS: usize = 256;

/// What is run: a plan, where its inputs come from and where its outputs go.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// The tensors to write.
    pub tensors: &'a [PlannedTensor],
    /// Where they land, in the same order.
    pub layout: &'a Layout,
    /// Where their data comes from.
    pub checkpoint: &'a Checkpoint,
    /// Byte order of the output.
    pub order: ByteOrder,
    /// Number of threads; `None` for as many as the machine has processors.
    pub threads: Option<NonZeroUsize>,
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
    /// Writes all tensor data into `output`; says where values became infinite, in the order of the tensors.
    ///
    /// # Errors
    /// The first error that any thread meets; the others stop soon after.
    pub fn execute(&self, output: &Output, progress: &dyn Progress) -> Result<Vec<Overflow>, Error> {
        let shared = Shared {
            chunks: Mutex::new(Chunks { tensors: self.tensors, tensor: 0, row: 0 }),
            stop: AtomicBool::new(false),
            overflows: Mutex::new(BTreeMap::new()),
        };
        let pieces = Chunks { tensors: self.tensors, tensor: 0, row: 0 }.take(MAX_THREADS).count();
        on_threads(self.threads, pieces, || self.work(&shared, output, progress))?;
        let overflows = shared.overflows.into_inner().unwrap_or_else(PoisonError::into_inner);
        let named = overflows
            .into_iter()
            .filter_map(|(index, values)| Some(Overflow { tensor: self.tensors.get(index)?.name.clone(), values }));
        Ok(named.collect())
    }

    /// Works on chunks until there are no more or a thread has failed.
    fn work(&self, shared: &Shared<'_>, output: &Output, progress: &dyn Progress) -> Result<(), Error> {
        let mut buffers = Buffers::default();
        while !shared.stop.load(Ordering::Relaxed) {
            let next = shared.chunks.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((index, tensor, chunk)) = next else { break };
            if chunk.first_row == 0 {
                progress.event(Event::Tensor { index, name: &tensor.name });
            }
            let converted = match progress.is_cancelled() {
                true => Err(Error::Cancelled),
                false => self.convert(index, tensor, &chunk, &mut buffers, output),
            };
            match converted {
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
            progress.event(Event::Advanced { bytes: buffers.out.len() as u64 });
        }
        Ok(())
    }

    /// Reads, converts and writes one chunk; says how many values became infinite.
    fn convert(
        &self,
        index: usize,
        tensor: &PlannedTensor,
        chunk: &Chunk,
        buffers: &mut Buffers,
        output: &Output,
    ) -> Result<u64, Error> {
        let out_width = width(tensor.ty) as u64;
        let n_values = chunk.n_rows * chunk.row_len;
        let overflows = match &tensor.op {
            Op::Computed(values) => {
                let from = usize::try_from(chunk.first_row).unwrap_or(usize::MAX);
                let values = values.get(from..).unwrap_or_default();
                let raw: Vec<u8> = values.iter().take(n_values as usize).flat_map(|v| v.to_le_bytes()).collect();
                let cast = Cast::new(gguf_format::GgmlType::F32, tensor.ty).ok_or_else(|| no_codec(tensor))?;
                resize(&mut buffers.out, n_values * out_width, tensor)?;
                cast.apply(&raw, &mut buffers.out)
            }
            Op::Copy(input) | Op::PermuteRows { input, .. } => {
                let cast = Cast::new(input.ty, tensor.ty).ok_or_else(|| no_codec(tensor))?;
                let row_bytes = chunk.row_len * width(input.ty) as u64;
                resize(&mut buffers.raw, chunk.n_rows * row_bytes, tensor)?;
                let mut rest = buffers.raw.as_mut_slice();
                for &(row, n_rows) in &chunk.reads {
                    let (part, after) = rest.split_at_mut(rest.len().min((n_rows * row_bytes) as usize));
                    self.checkpoint.read(input.index, row * row_bytes, part)?;
                    rest = after;
                }
                let mut source = &buffers.raw;
                if let Op::PermuteRows { .. } = tensor.op {
                    resize(&mut buffers.moved, chunk.n_rows * row_bytes, tensor)?;
                    interleave_halves(&buffers.raw, &mut buffers.moved, chunk.group_rows as usize, row_bytes as usize);
                    source = &buffers.moved;
                }
                resize(&mut buffers.out, n_values * out_width, tensor)?;
                cast.apply(source, &mut buffers.out)
            }
        };
        if self.order == ByteOrder::Big {
            swap_bytes(&mut buffers.out, out_width as usize);
        }
        // The layout has an offset for each of its tensors.
        let start = self.layout.file_offset(index).ok_or_else(|| no_codec(tensor))?;
        output.write_at(start + chunk.first_row * chunk.row_len * out_width, &buffers.out)?;
        Ok(overflows)
    }
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
    out: Vec<u8>,
}

struct Shared<'a> {
    chunks: Mutex<Chunks<'a>>,
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
}

/// Cuts the tensors into chunks, in order.
struct Chunks<'a> {
    tensors: &'a [PlannedTensor],
    tensor: usize,
    row: u64,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = (usize, &'a PlannedTensor, Chunk);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let index = self.tensor;
            let tensor = self.tensors.get(index)?;
            // Sizes were checked when the file was laid out.
            let n = n_elements(tensor.shape.iter().copied()).unwrap_or(0);
            let n_rows = match tensor.op {
                // Where rows stay in place, elements are rows of one: a chunk may end anywhere.
                Op::Copy(_) | Op::Computed(_) => n,
                Op::PermuteRows { .. } => tensor.shape.last().copied().unwrap_or(1),
            };
            if n == 0 || self.row >= n_rows {
                (self.tensor, self.row) = (index + 1, 0);
                continue;
            }
            let row_len = n / n_rows;
            let row_bytes = row_len * tensor.op.input().map_or(4, |input| width(input.ty) as u64);
            let rows_per_chunk = (CHUNK / row_bytes.max(1)).max(1);
            let chunk = match tensor.op {
                Op::Copy(_) | Op::Computed(_) => {
                    let n_rows = rows_per_chunk.min(n_rows - self.row);
                    Chunk { first_row: self.row, n_rows, row_len, reads: vec![(self.row, n_rows)], group_rows: 0 }
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
        return Chunk { first_row: row, n_rows, row_len, reads: vec![(row, n_rows)], group_rows };
    }
    let (group, pair) = (row - row % group_rows, row % group_rows / 2);
    let n_pairs = (rows_per_chunk / 2).max(1).min(group_rows / 2 - pair);
    let reads = vec![(group + pair, n_pairs), (group + group_rows / 2 + pair, n_pairs)];
    Chunk { first_row: row, n_rows: 2 * n_pairs, row_len, reads, group_rows: 2 * n_pairs }
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
