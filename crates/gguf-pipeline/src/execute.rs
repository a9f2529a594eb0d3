//! The execution of a run: reads, transforms and writes the tensors of a plan.
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
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use gguf_format::{ByteOrder, GgmlType, scan_data, swap_blocks};
use gguf_io::Output;
use gguf_quants::codec::{Codec, codec};
use gguf_quants::{RowSquares, Rows};

use crate::chunk::{Chunk, Chunks, goes_through_blocks, parts};
use crate::error::Error;
use crate::journal::{Finished, Journal};
use crate::moves;
use crate::ops::{Cast, apply_maps, width};
use crate::plan::{Draft, FilePlan, Gather, Op, Rounding, TensorPlan};
use crate::progress::{Event, Progress};
use crate::report::{Errors, Written};
use crate::workers;

/// Values that are decoded and encoded at once, about: they stay in the second-level cache, and fill the lanes of the encoders.
const SPAN: usize = 1 << 16;

/// A tensor in which finite values became infinite, because its type has a smaller range than its source.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overflow {
    /// The tensor's name in the output.
    pub tensor: String,
    /// How many values.
    pub values: u64,
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} values are beyond the range of the type and became infinite", self.tensor, self.values)
    }
}

/// A plan that is being run.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    /// The plan.
    pub(crate) draft: &'a Draft,
    /// Number of threads.
    pub(crate) threads: Option<NonZeroUsize>,
    /// Where the errors of what is written go, if they are asked for.
    pub(crate) errors: Option<&'a Errors>,
}

/// A chunk of a tensor, and the tensor's number in the plan.
#[derive(Clone, Copy)]
struct Item<'a> {
    index: usize,
    tensor: &'a TensorPlan,
    chunk: &'a Chunk,
}

/// One of the files that a run writes.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    /// What belongs into it.
    pub(crate) plan: &'a FilePlan,
    /// The file.
    pub(crate) output: &'a Output,
    /// What is known of its chunks, if it can be resumed.
    pub(crate) journal: Option<&'a Journal>,
}

impl Run<'_> {
    /// Writes all tensor data into the files; says where values became infinite, in the order of the tensors. With a journal,
    /// chunks that it has are only read back, and done again if they are not what they were; the others are noted in it.
    ///
    /// # Errors
    /// The first error that any thread meets; the others stop soon after.
    pub(crate) fn execute(&self, parts: &[Part<'_>], progress: &dyn Progress) -> Result<Vec<Overflow>, Error> {
        let overflows = Mutex::new(BTreeMap::new());
        let squares = Squares { known: Mutex::default(), progress };
        let buffers = || Buffers { squares: &squares, input: Input::default(), values: Vec::new(), out: Vec::new() };
        let chunks = Chunks::from(self.draft, 0, self.errors.is_some());
        workers::for_each(self.threads, chunks, progress, buffers, |buffers, (index, tensor, chunk)| {
            match self.finish(index, tensor, &chunk, parts, buffers, progress)? {
                0 => {}
                values => *overflows.lock().unwrap_or_else(PoisonError::into_inner).entry(index).or_insert(0) += values,
            }
            Ok::<_, Error>(())
        })?;
        let overflows = overflows.into_inner().unwrap_or_else(PoisonError::into_inner);
        let named =
            |(index, values)| Some(Overflow { tensor: self.draft.tensors.get::<usize>(index)?.shown(), values });
        Ok(overflows.into_iter().filter_map(named).collect())
    }

    /// Whether all of a file's data are there as its journal says.
    ///
    /// # Errors
    /// When there is no memory for a chunk.
    pub(crate) fn is_done(&self, part: Part<'_>) -> Result<bool, Error> {
        let mut buffer = Vec::new();
        let tensors = part.plan.tensors();
        let chunks = Chunks::from(self.draft, tensors.start, self.errors.is_some());
        for (index, tensor, chunk) in chunks.take_while(|(index, ..)| *index < tensors.end) {
            let place = Place::of(index, tensor, &chunk, std::slice::from_ref(&part))?;
            let Some(record) = place.record(index, &chunk) else { return Ok(false) };
            if !place.is_right(record, tensor, &mut buffer)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sees to it that a chunk is in its file; says how many values became infinite in it.
    fn finish(
        &self,
        index: usize,
        tensor: &TensorPlan,
        chunk: &Chunk,
        parts: &[Part<'_>],
        buffers: &mut Buffers<'_>,
        progress: &dyn Progress,
    ) -> Result<u64, Error> {
        let place = Place::of(index, tensor, chunk, parts)?;
        let journal = place.part.journal;
        let of_part = index - place.part.plan.tensors().start;
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
        if chunk.first() == 0 || journal.is_some_and(Journal::is_resumed) {
            progress.event(Event::Tensor { index, name: &String::from_utf8_lossy(&tensor.name) });
        }
        let overflows = self.convert(index, tensor, chunk, place, buffers)?;
        if let Some(journal) = journal {
            let (first, n_elements) = (chunk.first(), chunk.n_elements());
            journal.add(Finished { tensor: of_part, first, n_elements, overflows }, &buffers.out)?;
        }
        progress.event(Event::Advanced { bytes: place.bytes });
        Ok(overflows)
    }

    /// Reads, converts and writes one chunk; says how many values became infinite.
    fn convert(
        &self,
        index: usize,
        tensor: &TensorPlan,
        chunk: &Chunk,
        place: Place<'_>,
        buffers: &mut Buffers<'_>,
    ) -> Result<u64, Error> {
        if self.copy_stored(tensor, chunk, place)? {
            return Ok(0);
        }
        let Buffers { squares, input, values, out } = buffers;
        resize(out, place.bytes, tensor)?;
        let overflows = match &tensor.op {
            Op::Computed(computed) => {
                let from = usize::try_from(chunk.first()).unwrap_or(usize::MAX);
                let computed = computed.get(from..).unwrap_or_default();
                let n = usize::try_from(chunk.n_elements()).unwrap_or(usize::MAX);
                let raw: Vec<u8> = computed.iter().take(n).flat_map(|v| v.to_le_bytes()).collect();
                self.cast(GgmlType::F32, tensor, &raw, out)?
            }
            Op::Copy(_) | Op::Gather(_) => {
                let source = self.read(tensor, chunk.first(), chunk.n_elements(), input)?;
                self.write_values(Item { index, tensor, chunk }, source, squares, values, out)?
            }
        };
        if self.draft.head.dialect.order == ByteOrder::Big {
            swap_blocks(tensor.ty, out).map_err(|_| no_codec(tensor))?;
        }
        place.part.output.write_at(place.start, out)?;
        Ok(overflows)
    }

    /// Copies a chunk from file to file, if that is all that is done to it; says whether it did. A journal needs to see the bytes.
    fn copy_stored(&self, tensor: &TensorPlan, chunk: &Chunk, place: Place<'_>) -> Result<bool, Error> {
        let Some(input) = tensor.op.copied() else { return Ok(false) };
        let is_copy = self.draft.rounding == Rounding::Ggml && input.ty == tensor.ty && place.part.journal.is_none();
        let stored = if is_copy { self.draft.source.stored(input.index) } else { None };
        let order = self.draft.head.dialect.order;
        let Some(stored) = stored.filter(|s| s.file.gguf().dialect().order == order) else { return Ok(false) };
        let from = packed_bytes(input.ty, chunk.first(), tensor)?;
        let end = from.checked_add(place.bytes).filter(|&end| end <= stored.bytes);
        let Some(end) = end else {
            return Err(Error::OutOfTensor { tensor: tensor.shown(), bytes: stored.bytes });
        };
        let output = place.part.output;
        let copied = stored.file.copy_to(stored.start + from..stored.start + end, output, place.start);
        copied.map_err(|e| if e.path() == output.path() { e.into() } else { Error::input(e) })?;
        Ok(true)
    }

    /// Reads elements of a tensor, in the order of the output and as values of the type of its operation. They are whole blocks.
    fn read<'b>(
        &self,
        tensor: &TensorPlan,
        first: u64,
        n_elements: u64,
        input: &'b mut Input,
    ) -> Result<&'b [u8], Error> {
        let Input { raw, scratch, mapped } = input;
        match &tensor.op {
            Op::Computed(_) => Err(no_codec(tensor)),
            Op::Copy(copied) => {
                resize(raw, packed_bytes(copied.ty, n_elements, tensor)?, tensor)?;
                self.draft.source.read(copied.index, packed_bytes(copied.ty, first, tensor)?, raw)?;
                Ok(raw)
            }
            Op::Gather(Gather { inputs, moves, maps }) => {
                let from = inputs.first().map_or(GgmlType::F32, |input| input.ty);
                resize(raw, packed_bytes(from, n_elements, tensor)?, tensor)?;
                let read = |input: usize, offset, bytes: &mut [u8]| {
                    let input = inputs.get(input).ok_or_else(|| no_codec(tensor))?;
                    self.draft.source.read(input.index, offset, bytes)
                };
                // A block is moved whole.
                let block_len = from.info().map_or(1, |info| u64::from(info.block_len)).max(1);
                moves::gather(moves, width(from), first / block_len, raw, scratch, read)?;
                if maps.is_empty() {
                    return Ok(raw);
                }
                resize(mapped, packed_bytes(tensor.op.value_type(), n_elements, tensor)?, tensor)?;
                apply_maps(maps, from, first, raw, mapped).ok_or_else(|| no_codec(tensor))?;
                Ok(mapped)
            }
        }
    }

    /// Makes the bytes of a chunk from its values, whose type is that of the operation; says how many values became infinite.
    fn write_values(
        &self,
        item: Item<'_>,
        source: &[u8],
        squares: &Squares<'_>,
        values: &mut Vec<f32>,
        out: &mut [u8],
    ) -> Result<u64, Error> {
        let Item { index, tensor, chunk } = item;
        let from = tensor.op.value_type();
        let mut overflows = 0;
        if goes_through_blocks(self.draft.rounding, from, tensor) {
            self.encode(item, source, squares, values, out)?;
        } else if self.draft.rounding == Rounding::Ggml || tensor.ty.is_quantized() {
            out.copy_from_slice(source);
        } else {
            overflows = self.cast(from, tensor, source, out)?;
        }
        if let Some(errors) = self.errors.filter(|_| from != tensor.ty) {
            let weights = self.columns(tensor, chunk)?;
            let (first_row, first_column, row_len) = (chunk.first_row, chunk.columns.start, chunk.width());
            let weights = weights.as_deref();
            errors.add(tensor, &Written { index, from, source, out, first_row, first_column, row_len, weights })?;
        }
        Ok(overflows)
    }

    /// The importance of the columns of a chunk.
    fn columns(&self, tensor: &TensorPlan, chunk: &Chunk) -> Result<Option<Vec<f32>>, Error> {
        let Some((entry, importance)) = tensor.importance.as_ref().zip(self.draft.importance.as_ref()) else {
            return Ok(None);
        };
        let first = chunk.matrix.saturating_mul(chunk.row_len);
        let column = |column: u64| first.saturating_add(column);
        importance.weights(entry, column(chunk.columns.start)..column(chunk.columns.end))
    }

    fn cast(&self, from: GgmlType, tensor: &TensorPlan, packed: &[u8], out: &mut [u8]) -> Result<u64, Error> {
        let cast = Cast::new(from, tensor.ty).ok_or_else(|| no_codec(tensor))?;
        Ok(cast.apply(packed, out))
    }

    /// Decodes the rows of a chunk and encodes them anew, some at a time.
    fn encode(
        &self,
        item: Item<'_>,
        source: &[u8],
        squares: &Squares<'_>,
        values: &mut Vec<f32>,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let Item { tensor, chunk, .. } = item;
        let find = |ty| codec(ty).ok_or_else(|| no_codec(tensor));
        let (from, to): (&Codec, &Codec) = (find(tensor.op.value_type())?, find(tensor.ty)?);
        let weights = self.columns(tensor, chunk)?;
        let weights = weights.as_deref();
        let width = usize::try_from(chunk.width()).map_err(|_| no_codec(tensor))?;
        let row_squares = match chunk.is_part() {
            true if to.looks_at_rows(weights.is_some()) => Some(self.row_squares(item, squares, from)?),
            true => Some(RowSquares::default()),
            false => None,
        };
        // A part can be cut again between any blocks.
        let span = if chunk.is_part() { SPAN } else { (SPAN / width.max(1)).max(1) * width };
        let bytes = |codec: &Codec| codec.packed_bytes(span).filter(|&bytes| bytes > 0).ok_or_else(|| no_codec(tensor));
        let (from_span, to_span) = (bytes(from)?, bytes(to)?);
        for (n, (packed, out)) in source.chunks(from_span).zip(out.chunks_mut(to_span)).enumerate() {
            let n_values = (packed.len() as u64 * span as u64 / from_span as u64) as usize;
            let first = n * span;
            let row = chunk.first_row + (first / width) as u64;
            // llama.cpp looks at what it reads and at what it has made in the same way (`ggml_validate_row_data`).
            let check = |ty, bytes: &[u8]| match scan_data(ty, ByteOrder::Little, bytes, 0) {
                Ok(scan) if scan.is_clean() => Ok(()),
                _ => Err(Error::NotFinite { tensor: tensor.shown(), row, ty }),
            };
            check(from.ty, packed)?;
            resize_values(values, n_values, tensor)?;
            let wrong = |source| Error::Codec { tensor: tensor.shown(), row, source };
            from.decode(packed, values).map_err(wrong)?;
            let rows = match row_squares {
                None => Rows::new(values, width, weights),
                Some(squares) => {
                    Rows::part_of_row(values, weights.and_then(|w| w.get(first..first + n_values)), squares)
                }
            };
            let rows = rows.map_err(|source| Error::Rows { tensor: tensor.shown(), source })?;
            to.encode(rows, out).map_err(wrong)?;
            check(to.ty, out)?;
        }
        Ok(())
    }

    /// The squares of the whole row that a chunk is a part of. They are added up by the thread that needs them first; others wait.
    fn row_squares(&self, item: Item<'_>, squares: &Squares<'_>, from: &Codec) -> Result<RowSquares, Error> {
        let Item { index, tensor, chunk } = item;
        let mut known = squares.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&(index, chunk.first_row)) {
            return Ok(*found);
        }
        let (mut input, mut values, mut sum) = (Input::default(), Vec::new(), RowSquares::default());
        for columns in parts(chunk.row_len) {
            if squares.progress.is_cancelled() {
                return Err(Error::Cancelled);
            }
            let first = chunk.first_row * chunk.row_len + columns.start;
            let n_elements = columns.end - columns.start;
            let packed = self.read(tensor, first, n_elements, &mut input)?;
            resize_values(&mut values, usize::try_from(n_elements).unwrap_or(usize::MAX), tensor)?;
            let wrong = |source| Error::Codec { tensor: tensor.shown(), row: chunk.first_row, source };
            from.decode(packed, &mut values).map_err(wrong)?;
            sum.add(&values);
        }
        known.insert((index, chunk.first_row), sum);
        Ok(sum)
    }
}

/// Bytes of a number of values, which are whole blocks.
fn packed_bytes(ty: GgmlType, n_elements: u64, tensor: &TensorPlan) -> Result<u64, Error> {
    ty.tensor_bytes([n_elements]).map_err(|_| no_codec(tensor))
}

fn no_codec(tensor: &TensorPlan) -> Error {
    Error::NoCodec { tensor: tensor.shown() }
}

/// Gives a buffer its length, asking politely for the memory.
fn resize(buffer: &mut Vec<u8>, bytes: u64, tensor: &TensorPlan) -> Result<(), Error> {
    let refused = || Error::OutOfMemory { tensor: tensor.shown(), bytes };
    let len = usize::try_from(bytes).map_err(|_| refused())?;
    buffer.try_reserve(len.saturating_sub(buffer.len())).map_err(|_| refused())?;
    buffer.resize(len, 0);
    Ok(())
}

/// Gives a buffer of values its length.
fn resize_values(values: &mut Vec<f32>, len: usize, tensor: &TensorPlan) -> Result<(), Error> {
    let refused = |_| Error::OutOfMemory { tensor: tensor.shown(), bytes: (len as u64).saturating_mul(4) };
    values.try_reserve(len.saturating_sub(values.len())).map_err(refused)?;
    values.resize(len, 0.0);
    Ok(())
}

/// What one thread reuses from chunk to chunk.
struct Buffers<'a> {
    squares: &'a Squares<'a>,
    input: Input,
    values: Vec<f32>,
    out: Vec<u8>,
}

/// What was read of a chunk.
#[derive(Default)]
struct Input {
    /// In the order of the output.
    raw: Vec<u8>,
    /// In the order of the source.
    scratch: Vec<u8>,
    /// Values that functions were applied to.
    mapped: Vec<u8>,
}

/// The squares of rows that are encoded in parts, by tensor and row, for types that look at whole rows.
struct Squares<'a> {
    known: Mutex<BTreeMap<(usize, u64), RowSquares>>,
    progress: &'a dyn Progress,
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
    fn of(index: usize, tensor: &TensorPlan, chunk: &Chunk, parts: &'a [Part<'a>]) -> Result<Place<'a>, Error> {
        let (first, bytes) =
            (packed_bytes(tensor.ty, chunk.first(), tensor)?, packed_bytes(tensor.ty, chunk.n_elements(), tensor)?);
        let part = parts.iter().rfind(|part| part.plan.tensors().start <= index);
        // Every tensor is in a part, whose layout has an offset for it.
        let start = part.and_then(|part| Some((part, part.plan.start_of(index)?)));
        let (part, start) = start.ok_or_else(|| no_codec(tensor))?;
        Ok(Place { part, start: start + first, bytes })
    }

    /// What the journal has of the chunk of the tensor with that number.
    fn record(&self, index: usize, chunk: &Chunk) -> Option<&'a (Finished, u128)> {
        self.part.journal?.finished(index - self.part.plan.tensors().start, chunk.first(), chunk.n_elements())
    }

    /// Whether the bytes there are those of the record. Those that cannot be read are not.
    fn is_right(&self, record: &(Finished, u128), tensor: &TensorPlan, buffer: &mut Vec<u8>) -> Result<bool, Error> {
        resize(buffer, self.bytes, tensor)?;
        Ok(self.part.output.read_at(self.start, buffer).is_ok() && Journal::verify(record, buffer))
    }
}
