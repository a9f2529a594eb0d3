//! The execution of a run: reads, transforms and writes the tensors of a plan.
//!
//! Every offset of the output is known before the first byte is written. The tensors are divided into chunks of a few MiB; each thread
//! takes the next chunk, reads, converts and writes it. The output does not depend on the number of threads, and memory is a few chunks per
//! thread for models of any size. If several plans make the same tensors of one source, each chunk is read and decoded once, and encoded
//! for each plan.
//!
//! Reading ahead and writing behind are left to the kernel and to the other threads: while one waits for the disk, another works. When
//! limited by the disk (a model of 2.2 GB in F16 to Q8_0 on two threads), this is faster than `cp` and `sync` of the input: 1.4 to 1.7 s
//! versus 1.7 to 2.0 s with the input in memory, 2 to 5 s versus 3 to 11 s with the input on a busy disk. A separate reader made no
//! difference, and the final wait for the data to reach the disk takes a fifth of the time.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use gguf_format::{ByteOrder, GgmlType, scan_data, swap_blocks};
use gguf_quants::codec::{Codec, codec};
use gguf_quants::{RowSquares, Rows, float};

use crate::chunk::{Chunk, Chunks, Lane, goes_through_blocks, parts};
use crate::error::Error;
use crate::grid;
use crate::importance::Importance;
use crate::mean::MeanOfAbs;
use crate::moves;
use crate::ops::{Cast, add, apply_maps, decoder, floats, fold_batch_norm, multiply, narrow, width};
use crate::plan::{BatchNorm, Draft, FilePlan, Gather, Map, Op, Rounding, TensorPlan};
use crate::progress::{Event, Progress};
use crate::report::{Errors, compare_rows};
use crate::sink::{Kept, Piece, Sink};
use crate::workers;

/// Approximate number of values to decode and encode at once: they stay in the second-level cache, and fill the lanes of the encoders.
const SPAN: usize = 1 << 16;

/// A tensor with finite values that became infinite, because its new type has a smaller range.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overflow {
    /// The tensor's name in the output.
    pub tensor: String,
    /// Number of such values.
    pub values: u64,
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} values exceed the range of the type and became infinite", self.tensor, self.values)
    }
}

/// The plans of a run: one, or several that make the same tensors of the same source, in other types.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    /// The output of each plan; never empty.
    pub(crate) lanes: &'a [Lane<'a>],
    /// Number of threads.
    pub(crate) threads: Option<NonZeroUsize>,
    /// Collected errors of each plan's output; empty if not requested.
    pub(crate) errors: &'a [Errors],
}

/// The outputs of a run, and their sink.
#[derive(Clone, Copy)]
struct Outputs<'a> {
    /// The outputs of each plan.
    parts: &'a [Vec<Part<'a>>],
    sink: &'a dyn Sink,
}

/// A chunk, and the index of its tensor in the first plan.
#[derive(Clone, Copy)]
struct Item<'a> {
    index: usize,
    chunk: &'a Chunk,
}

/// A chunk to write to one of the outputs.
#[derive(Clone, Copy)]
struct Task<'a> {
    /// Index of the plan.
    plan: usize,
    draft: &'a Draft,
    /// Index of the tensor in the plan.
    number: usize,
    tensor: &'a TensorPlan,
    /// The chunk in the output.
    piece: Piece<'a>,
}

impl Task<'_> {
    /// The weights of its tensor's columns: their source, and the entry.
    fn importance(&self) -> Option<(&Arc<dyn Importance>, &[u8])> {
        self.draft.importance.as_ref().zip(self.tensor.entry())
    }

    /// Whether another task writes the same bytes. Both tensors have the same source values.
    fn is_same_as(&self, other: &Task<'_>) -> bool {
        let rules = |task: &Task<'_>| (task.tensor.ty, task.draft.rounding, task.draft.head.dialect.order);
        let has_same_weights = match (self.importance(), other.importance()) {
            (Some((from, entry)), Some((from_other, other))) => {
                std::ptr::addr_eq(Arc::as_ptr(from), Arc::as_ptr(from_other)) && entry == other
            }
            (None, None) => true,
            _ => false,
        };
        rules(self) == rules(other) && has_same_weights
    }
}

/// Tasks that write the same bytes, which are computed once.
struct Group<'a> {
    first: Task<'a>,
    others: Vec<Task<'a>>,
}

impl<'a> Group<'a> {
    /// Groups tasks.
    fn all(tasks: impl IntoIterator<Item = Task<'a>>) -> Vec<Group<'a>> {
        let mut groups: Vec<Group<'a>> = Vec::new();
        for task in tasks {
            match groups.iter_mut().find(|group| group.first.is_same_as(&task)) {
                Some(group) => group.others.push(task),
                None => groups.push(Group { first: task, others: Vec::new() }),
            }
        }
        groups
    }

    fn tasks(&self) -> impl Iterator<Item = &Task<'a>> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

/// An output of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    /// The contents of the file.
    pub(crate) plan: &'a FilePlan,
    /// Index of the output in the sink.
    pub(crate) output: usize,
}

impl<'a> Run<'a> {
    /// Writes all tensor data to the outputs, one list for each plan; returns for each plan the tensors with values that became infinite, in
    /// order. Each chunk is read and decoded once for all plans. Chunks that the sink has kept are written again only if they are damaged.
    ///
    /// # Errors
    /// The first error of any thread; the others stop soon after.
    pub(crate) fn execute(
        &self,
        parts: &[Vec<Part<'_>>],
        sink: &dyn Sink,
        progress: &dyn Progress,
    ) -> Result<Vec<Vec<Overflow>>, Error> {
        let overflows = Mutex::new(BTreeMap::new());
        let known = Known::new(progress);
        let to = Outputs { parts, sink };
        let buffers = || Buffers { known: &known, input: Input::default(), values: Vec::new(), outs: Vec::new() };
        let add = |plan, index, values| {
            if values > 0 {
                *overflows.lock().unwrap_or_else(PoisonError::into_inner).entry((plan, index)).or_insert(0) += values;
            }
        };
        workers::for_each(self.threads, self.chunks(0), progress, buffers, |buffers, (index, chunk)| {
            self.finish(Item { index, chunk: &chunk }, to, buffers, progress, &add)
        })?;
        let mut named: Vec<Vec<Overflow>> = self.lanes.iter().map(|_| Vec::new()).collect();
        for ((plan, index), values) in overflows.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let tensor = self.lanes.get::<usize>(plan).and_then(|lane| lane.draft.tensors.get::<usize>(index));
            if let Some((named, tensor)) = named.get_mut(plan).zip(tensor) {
                named.push(Overflow { tensor: tensor.shown(), values });
            }
        }
        Ok(named)
    }

    pub(crate) fn chunks(&self, first: usize) -> Chunks<'a> {
        Chunks::from(self.lanes, first, !self.errors.is_empty())
    }

    /// The pieces of an output, in order. `plan` is the index of its plan.
    pub(crate) fn pieces(self, plan: usize, part: Part<'a>) -> impl Iterator<Item = Result<Piece<'a>, Error>> {
        let lane = self.lanes.get(plan);
        let of_tensor = move |number| {
            let tensor = lane.and_then(|lane| Some((lane.index_of(number)?, lane.draft.tensors.get::<usize>(number)?)));
            let pieces = tensor.map(|(index, tensor)| {
                let chunks = self.chunks(index).take_while(move |(other, _)| *other == index);
                chunks.map(move |(_, chunk)| piece_of(number, tensor, &chunk, std::slice::from_ref(&part)))
            });
            pieces.into_iter().flatten()
        };
        part.plan.tensors().flat_map(of_tensor)
    }

    /// Ensures that a chunk is in the files of all plans; adds for each plan and tensor the number of values that became infinite.
    fn finish(
        &self,
        item: Item<'_>,
        to: Outputs<'_>,
        buffers: &mut Buffers<'_>,
        progress: &dyn Progress,
        add: &dyn Fn(usize, usize, u64),
    ) -> Result<(), Error> {
        let Item { index, chunk } = item;
        let mut tasks = Vec::new();
        // Resumed work may start in the middle of a tensor.
        let mut begins = chunk.first() == 0;
        for (plan, (lane, parts)) in self.lanes.iter().zip(to.parts).enumerate() {
            let Some((number, tensor)) = lane.tensor(index) else { continue };
            let piece = piece_of(number, tensor, chunk, parts)?;
            match to.sink.kept(&piece, buffers.out(0))? {
                Kept::Whole { overflows } => {
                    progress.event(Event::Kept { bytes: piece.n_bytes });
                    add(plan, number, overflows);
                    continue;
                }
                Kept::Damaged => {
                    begins = true;
                    progress.event(Event::Damaged { bytes: piece.n_bytes });
                }
                Kept::Missing => begins = true,
                Kept::Nothing => {}
            }
            tasks.push(Task { plan, draft: lane.draft, number, tensor, piece });
        }
        let Some(first) = tasks.first() else { return Ok(()) };
        if begins {
            progress.event(Event::Tensor { index, name: &String::from_utf8_lossy(&first.tensor.name) });
        }
        let mut converted = Vec::new();
        for task in tasks {
            match copy_stored(task, chunk, to.sink)? {
                true => progress.event(Event::Advanced { bytes: task.piece.n_bytes }),
                false => converted.push(task),
            }
        }
        self.convert(item, &Group::all(converted), to.sink, buffers, progress, add)
    }

    /// Reads one chunk, converts it for each group, and writes it for each task.
    fn convert(
        &self,
        item: Item<'_>,
        groups: &[Group<'_>],
        sink: &dyn Sink,
        buffers: &mut Buffers<'_>,
        progress: &dyn Progress,
        add: &dyn Fn(usize, usize, u64),
    ) -> Result<(), Error> {
        let chunk = item.chunk;
        let Some(Group { first, .. }) = groups.first() else { return Ok(()) };
        for (n, Group { first, .. }) in groups.iter().enumerate() {
            resize(buffers.out(n), first.piece.n_bytes, first.tensor)?;
        }
        let Buffers { known, input, values, outs } = buffers;
        let overflows = match &first.tensor.op {
            Op::Computed(computed) => {
                let from = usize::try_from(chunk.first()).unwrap_or(usize::MAX);
                let computed = computed.get(from..).unwrap_or_default();
                let n = usize::try_from(chunk.n_elements()).unwrap_or(usize::MAX);
                let raw: Vec<u8> = computed.iter().take(n).flat_map(|v| v.to_le_bytes()).collect();
                let cast =
                    |(group, out): (&Group<'_>, &mut Vec<u8>)| cast(GgmlType::F32, group.first.tensor, &raw, out);
                groups.iter().zip(outs.iter_mut()).map(cast).collect::<Result<Vec<u64>, Error>>()?
            }
            _ => {
                let (draft, tensor) = (first.draft, first.tensor);
                let source = read(item.index, draft, tensor, chunk.first(), chunk.n_elements(), known, input)?;
                self.write_values(item, groups, source, known, values, outs)?
            }
        };
        for ((group, out), overflows) in groups.iter().zip(outs.iter_mut()).zip(overflows) {
            let Task { draft, tensor, .. } = group.first;
            if draft.head.dialect.order == ByteOrder::Big {
                swap_blocks(tensor.ty, out).map_err(|_| no_codec(tensor))?;
            }
            for &Task { plan, number, piece, .. } in group.tasks() {
                sink.write_at(piece.output, piece.offset, out)?;
                add(plan, number, overflows);
                sink.written(&piece, out, overflows)?;
                progress.event(Event::Advanced { bytes: piece.n_bytes });
            }
        }
        Ok(())
    }

    /// Encodes the values of a chunk, in the type of the operation, for each group; returns for each the number of values that became
    /// infinite.
    fn write_values(
        &self,
        item: Item<'_>,
        groups: &[Group<'_>],
        source: &[u8],
        known: &Known<'_>,
        values: &mut Vec<f32>,
        outs: &mut [Vec<u8>],
    ) -> Result<Vec<u64>, Error> {
        let chunk = item.chunk;
        let mut overflows = Vec::new();
        let mut encodings = Vec::new();
        for (Group { first: task, .. }, out) in groups.iter().zip(outs.iter_mut()) {
            let Task { draft, tensor, .. } = *task;
            let from = tensor.op.value_type();
            let mut infinite = 0;
            if goes_through_blocks(draft.rounding, from, tensor) {
                encodings.push((task, out));
            } else if draft.rounding == Rounding::Ggml
                || tensor.ty.is_quantized()
                // Integers.
                || (from == tensor.ty && Cast::new(from, from).is_none())
            {
                out.copy_from_slice(source);
            } else {
                infinite = cast(from, tensor, source, out)?;
            }
            overflows.push(infinite);
        }
        encode(item, encodings, source, known, values)?;
        if self.errors.is_empty() {
            return Ok(overflows);
        }
        for (group, out) in groups.iter().zip(outs.iter()) {
            let Task { draft, tensor, .. } = group.first;
            let from = tensor.op.value_type();
            if from == tensor.ty {
                continue;
            }
            let weights = columns(draft, tensor, chunk)?;
            let first = (chunk.first_row, chunk.columns.start);
            let (original, written) = ((from, source), (tensor.ty, out.as_slice()));
            let error = compare_rows(&tensor.shown(), original, written, first, chunk.width(), weights.as_deref())?;
            for task in group.tasks() {
                if let Some(errors) = self.errors.get(task.plan) {
                    errors.add(task.number, task.tensor, &error);
                }
            }
        }
        Ok(overflows)
    }
}

/// Reads whole blocks of the tensor with that number, in the order of the output and as values of the type of its operation.
pub(crate) fn read<'b>(
    index: usize,
    draft: &Draft,
    tensor: &TensorPlan,
    first: u64,
    n_elements: u64,
    known: &Known<'_>,
    input: &'b mut Input,
) -> Result<&'b [u8], Error> {
    let Input { raw, scratch, mapped } = input;
    match &tensor.op {
        Op::Computed(_) => Err(no_codec(tensor)),
        Op::Copy(copied) => {
            resize(raw, packed_bytes(copied.ty, n_elements, tensor)?, tensor)?;
            draft.source.read(copied.index(), packed_bytes(copied.ty, first, tensor)?, raw)?;
            Ok(raw)
        }
        Op::Gather(gather) => {
            let from = moved(draft, tensor, gather, first, n_elements, raw, scratch)?;
            if gather.maps.is_empty() {
                return Ok(raw);
            }
            let resolve = |map: &Map| match map {
                Map::RoundToMean => Ok(Map::RoundToThree(mean_of_abs(index, draft, tensor, gather, known)?)),
                map => Ok(*map),
            };
            let maps = gather.maps.iter().map(resolve).collect::<Result<Vec<Map>, Error>>()?;
            resize(mapped, packed_bytes(tensor.op.value_type(), n_elements, tensor)?, tensor)?;
            apply_maps(&maps, from, first, raw, mapped).ok_or_else(|| no_codec(tensor))?;
            Ok(mapped)
        }
        Op::Product(inputs) => {
            resize(mapped, packed_bytes(GgmlType::F32, n_elements, tensor)?, tensor)?;
            for (number, input) in inputs.iter().enumerate() {
                resize(raw, packed_bytes(input.ty, n_elements, tensor)?, tensor)?;
                draft.source.read(input.index(), packed_bytes(input.ty, first, tensor)?, raw)?;
                multiply(input.ty, raw, number == 0, mapped).ok_or_else(|| no_codec(tensor))?;
            }
            Ok(mapped)
        }
        Op::Sum(sum) => {
            resize(mapped, packed_bytes(GgmlType::F32, n_elements, tensor)?, tensor)?;
            for part in 0..sum.n_parts {
                let first = part.saturating_mul(tensor.n_elements()).saturating_add(first);
                let from = moved(draft, tensor, &sum.parts, first, n_elements, raw, scratch)?;
                add(from, raw, part == 0, mapped).ok_or_else(|| no_codec(tensor))?;
            }
            if tensor.op.value_type() == GgmlType::F32 {
                return Ok(mapped);
            }
            let rounding = Cast::new(GgmlType::F32, tensor.op.value_type()).ok_or_else(|| no_codec(tensor))?;
            rounding.apply(mapped, raw);
            Ok(raw)
        }
        Op::Resize(grid) => {
            resize(mapped, packed_bytes(GgmlType::F32, n_elements, tensor)?, tensor)?;
            let ty = grid.input.ty;
            let decode = decoder(ty).ok_or_else(|| no_codec(tensor))?;
            grid::interpolate(grid, first, mapped, |from, values| {
                resize(raw, packed_bytes(ty, values.len() as u64, tensor)?, tensor)?;
                draft.source.read(grid.input.index(), packed_bytes(ty, from, tensor)?, raw)?;
                decode(raw, values);
                Ok(())
            })?;
            Ok(mapped)
        }
        Op::BatchNorm(norm) => {
            let BatchNorm { inputs, eps } = &**norm;
            let mut parts = Vec::with_capacity(inputs.len());
            for input in inputs {
                resize(raw, packed_bytes(input.ty, n_elements, tensor)?, tensor)?;
                draft.source.read(input.index(), packed_bytes(input.ty, first, tensor)?, raw)?;
                parts.push(floats(input.ty, raw).ok_or_else(|| no_codec(tensor))?);
            }
            resize(mapped, packed_bytes(GgmlType::F32, n_elements, tensor)?, tensor)?;
            let halves = inputs.iter().all(|input| input.ty == GgmlType::F16);
            fold_batch_norm(&parts, *eps, halves, mapped).ok_or_else(|| no_codec(tensor))?;
            Ok(mapped)
        }
        Op::Narrow(input) => {
            resize(raw, packed_bytes(input.ty, n_elements, tensor)?, tensor)?;
            draft.source.read(input.index(), packed_bytes(input.ty, first, tensor)?, raw)?;
            resize(mapped, packed_bytes(GgmlType::I32, n_elements, tensor)?, tensor)?;
            narrow(raw, mapped);
            Ok(mapped)
        }
    }
}

/// Gathers elements of a tensor in the order of the output; returns their type, [`Gather::source_type`].
fn moved(
    draft: &Draft,
    tensor: &TensorPlan,
    gather: &Gather,
    first: u64,
    n_elements: u64,
    raw: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
) -> Result<GgmlType, Error> {
    let from = gather.source_type();
    resize(raw, packed_bytes(from, n_elements, tensor)?, tensor)?;
    let mut packed = Vec::new();
    let read = |input: usize, offset, bytes: &mut [u8]| {
        let input = gather.inputs.get(input).ok_or_else(|| no_codec(tensor))?;
        if input.ty == from {
            return draft.source.read(input.index(), offset, bytes);
        }
        let cast = Cast::new(input.ty, from).ok_or_else(|| no_codec(tensor))?;
        let (own, gathered) = (width(input.ty), width(from).max(1));
        resize(&mut packed, (bytes.len() / gathered * own) as u64, tensor)?;
        draft.source.read(input.index(), offset / gathered as u64 * own as u64, &mut packed)?;
        cast.apply(&packed, bytes);
        Ok(())
    };
    // A block is moved whole.
    let block_len = from.info().map_or(1, |info| u64::from(info.block_len)).max(1);
    moves::gather(&gather.moves, width(from), first / block_len, raw, scratch, read)?;
    Ok(from)
}

/// The mean of the absolute values of a tensor, before functions are applied to them. The thread that needs it first reads the tensor;
/// others wait.
fn mean_of_abs(
    index: usize,
    draft: &Draft,
    tensor: &TensorPlan,
    gather: &Gather,
    known: &Known<'_>,
) -> Result<f32, Error> {
    let mut means = known.means.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = means.get(&index) {
        return Ok(*found);
    }
    let n = tensor.n_elements();
    let (mut input, mut values, mut mean) = (Input::default(), Vec::new(), MeanOfAbs::new(n));
    for piece in parts(n) {
        if known.progress.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let Input { raw, scratch, mapped } = &mut input;
        let n_elements = piece.end - piece.start;
        let from = moved(draft, tensor, gather, piece.start, n_elements, raw, scratch)?;
        resize(mapped, packed_bytes(GgmlType::F32, n_elements, tensor)?, tensor)?;
        let cast = Cast::new(from, GgmlType::F32).ok_or_else(|| no_codec(tensor))?;
        cast.apply(raw, mapped);
        resize_values(&mut values, usize::try_from(n_elements).unwrap_or(usize::MAX), tensor)?;
        float::decode_f32(mapped, &mut values);
        mean.add(&values);
    }
    let mean = mean.finish();
    means.insert(index, mean);
    Ok(mean)
}

/// The importance of the columns of a chunk.
fn columns(draft: &Draft, tensor: &TensorPlan, chunk: &Chunk) -> Result<Option<Vec<f32>>, Error> {
    let Some((entry, importance)) = tensor.entry().zip(draft.importance.as_ref()) else {
        return Ok(None);
    };
    let first = chunk.matrix.saturating_mul(chunk.row_len);
    let column = |column: u64| first.saturating_add(column);
    importance.weights(entry, column(chunk.columns.start)..column(chunk.columns.end))
}

fn cast(from: GgmlType, tensor: &TensorPlan, packed: &[u8], out: &mut [u8]) -> Result<u64, Error> {
    let cast = Cast::new(from, tensor.ty).ok_or_else(|| no_codec(tensor))?;
    Ok(cast.apply(packed, out))
}

/// The encoding of the chunk for a task.
struct Encoding<'a> {
    to: &'static Codec,
    weights: Option<Vec<f32>>,
    /// The squares of the row that contains the chunk.
    squares: Option<RowSquares>,
    /// The bytes of each span.
    spans: std::slice::ChunksMut<'a, u8>,
}

/// Decodes the rows of a chunk, several at a time, and encodes them for each task.
fn encode(
    item: Item<'_>,
    tasks: Vec<(&Task<'_>, &mut Vec<u8>)>,
    source: &[u8],
    known: &Known<'_>,
    values: &mut Vec<f32>,
) -> Result<(), Error> {
    let chunk = item.chunk;
    let Some(Task { draft, tensor, .. }) = tasks.first().map(|(task, _)| **task) else { return Ok(()) };
    let find = |ty| codec(ty).ok_or_else(|| no_codec(tensor));
    let from: &Codec = find(tensor.op.value_type())?;
    let width = usize::try_from(chunk.width()).map_err(|_| no_codec(tensor))?;
    // A part can be divided again between any blocks.
    let span = if chunk.is_part() { SPAN } else { (SPAN / width.max(1)).max(1) * width };
    let bytes = |codec: &Codec| codec.packed_bytes(span).filter(|&bytes| bytes > 0).ok_or_else(|| no_codec(tensor));
    let mut encodings = Vec::new();
    for (task, out) in tasks {
        let to = find(task.tensor.ty)?;
        let weights = columns(task.draft, task.tensor, chunk)?;
        let squares = match chunk.is_part() {
            true if to.looks_at_rows(weights.is_some()) => Some(row_squares(item, draft, tensor, known, from)?),
            true => Some(RowSquares::default()),
            false => None,
        };
        encodings.push(Encoding { to, weights, squares, spans: out.chunks_mut(bytes(to)?) });
    }
    let from_span = bytes(from)?;
    for (n, packed) in source.chunks(from_span).enumerate() {
        let n_values = (packed.len() as u64 * span as u64 / from_span as u64) as usize;
        let first = n * span;
        let row = chunk.first_row + (first / width) as u64;
        // llama.cpp validates its input and output in the same way (`ggml_validate_row_data`).
        let check = |ty, bytes: &[u8]| match scan_data(ty, ByteOrder::Little, bytes, 0) {
            Ok(scan) if scan.is_clean() => Ok(()),
            _ => Err(Error::NotFinite { tensor: tensor.shown(), row, ty }),
        };
        check(from.ty, packed)?;
        resize_values(values, n_values, tensor)?;
        let wrong = |source| Error::Codec { tensor: tensor.shown(), row, source };
        from.decode(packed, values).map_err(wrong)?;
        for Encoding { to, weights, squares, spans } in &mut encodings {
            let out = spans.next().ok_or_else(|| no_codec(tensor))?;
            let weights = weights.as_deref();
            let rows = match squares {
                None => Rows::new(values, width, weights),
                Some(squares) => {
                    Rows::part_of_row(values, weights.and_then(|w| w.get(first..first + n_values)), *squares)
                }
            };
            let rows = rows.map_err(|source| Error::Rows { tensor: tensor.shown(), source })?;
            to.encode(rows, out).map_err(wrong)?;
            check(to.ty, out)?;
        }
    }
    Ok(())
}

/// The squares of the whole row that contains a chunk. The first thread that needs them computes them; others wait.
fn row_squares(
    item: Item<'_>,
    draft: &Draft,
    tensor: &TensorPlan,
    known: &Known<'_>,
    from: &Codec,
) -> Result<RowSquares, Error> {
    let Item { index, chunk } = item;
    let mut squares = known.squares.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = squares.get(&(index, chunk.first_row)) {
        return Ok(*found);
    }
    let (mut input, mut values, mut sum) = (Input::default(), Vec::new(), RowSquares::default());
    for columns in parts(chunk.row_len) {
        if known.progress.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let first = chunk.first_row * chunk.row_len + columns.start;
        let n_elements = columns.end - columns.start;
        let packed = read(index, draft, tensor, first, n_elements, known, &mut input)?;
        resize_values(&mut values, usize::try_from(n_elements).unwrap_or(usize::MAX), tensor)?;
        let wrong = |source| Error::Codec { tensor: tensor.shown(), row: chunk.first_row, source };
        from.decode(packed, &mut values).map_err(wrong)?;
        sum.add(&values);
    }
    squares.insert((index, chunk.first_row), sum);
    Ok(sum)
}

/// Reads the row of a chunk as the encoding of the chunk does, if it is a part of the row and the type depends on whole rows.
pub(crate) fn squares_of(
    index: usize,
    chunk: &Chunk,
    draft: &Draft,
    tensor: &TensorPlan,
    known: &Known<'_>,
) -> Result<(), Error> {
    if !chunk.is_part() || !goes_through_blocks(draft.rounding, tensor.op.value_type(), tensor) {
        return Ok(());
    }
    let (from, to) = codec(tensor.op.value_type()).zip(codec(tensor.ty)).ok_or_else(|| no_codec(tensor))?;
    if to.looks_at_rows(columns(draft, tensor, chunk)?.is_some()) {
        row_squares(Item { index, chunk }, draft, tensor, known, from)?;
    }
    Ok(())
}

/// Bytes of whole blocks of values.
fn packed_bytes(ty: GgmlType, n_elements: u64, tensor: &TensorPlan) -> Result<u64, Error> {
    ty.tensor_bytes([n_elements]).map_err(|_| no_codec(tensor))
}

fn no_codec(tensor: &TensorPlan) -> Error {
    Error::NoCodec { tensor: tensor.shown() }
}

/// Resizes a buffer, without aborting if memory is exhausted.
pub(crate) fn resize(buffer: &mut Vec<u8>, bytes: u64, tensor: &TensorPlan) -> Result<(), Error> {
    let refused = || Error::OutOfMemory { tensor: tensor.shown(), bytes };
    let len = usize::try_from(bytes).map_err(|_| refused())?;
    buffer.try_reserve(len.saturating_sub(buffer.len())).map_err(|_| refused())?;
    buffer.resize(len, 0);
    Ok(())
}

/// Resizes a buffer of values.
fn resize_values(values: &mut Vec<f32>, len: usize, tensor: &TensorPlan) -> Result<(), Error> {
    let refused = |_| Error::OutOfMemory { tensor: tensor.shown(), bytes: (len as u64).saturating_mul(4) };
    values.try_reserve(len.saturating_sub(values.len())).map_err(refused)?;
    values.resize(len, 0.0);
    Ok(())
}

/// Buffers that a thread reuses for each chunk.
struct Buffers<'a> {
    known: &'a Known<'a>,
    input: Input,
    values: Vec<f32>,
    /// The output of each plan.
    outs: Vec<Vec<u8>>,
}

impl Buffers<'_> {
    /// The buffer with that index. There are at most as many as plans.
    fn out(&mut self, n: usize) -> &mut Vec<u8> {
        while self.outs.len() <= n {
            self.outs.push(Vec::new());
        }
        &mut self.outs[n]
    }
}

/// The input of a chunk.
#[derive(Default)]
pub(crate) struct Input {
    /// In the order of the output.
    raw: Vec<u8>,
    /// In the order of the source.
    scratch: Vec<u8>,
    /// The values after the mapping functions.
    mapped: Vec<u8>,
}

/// Facts about whole rows and tensors that their chunks share.
pub(crate) struct Known<'a> {
    /// The squares of rows that are encoded in parts, by tensor and row, for types that read whole rows.
    squares: Mutex<BTreeMap<(usize, u64), RowSquares>>,
    /// The means of the absolute values of tensors that are rounded to three values.
    means: Mutex<BTreeMap<usize, f32>>,
    progress: &'a dyn Progress,
}

impl<'a> Known<'a> {
    pub(crate) fn new(progress: &'a dyn Progress) -> Known<'a> {
        Known { squares: Mutex::default(), means: Mutex::default(), progress }
    }
}

/// A chunk of the tensor with that index as a piece of one of the outputs of its plan.
fn piece_of<'a>(index: usize, tensor: &'a TensorPlan, chunk: &Chunk, parts: &[Part<'_>]) -> Result<Piece<'a>, Error> {
    let (first, n_elements) = (chunk.first(), chunk.n_elements());
    let part = parts.iter().rfind(|part| part.plan.tensors().start <= index);
    // Every tensor is in a part, whose layout has an offset for it.
    let start = part.and_then(|part| Some((part, part.plan.start_of(index)?)));
    let (part, start) = start.ok_or_else(|| no_codec(tensor))?;
    Ok(Piece {
        output: part.output,
        offset: start + packed_bytes(tensor.ty, first, tensor)?,
        n_bytes: packed_bytes(tensor.ty, n_elements, tensor)?,
        tensor,
        index: index - part.plan.tensors().start,
        first,
        n_elements,
    })
}

/// Copies a chunk between files, if it needs no conversion and the sink can; returns whether it did.
fn copy_stored(task: Task<'_>, chunk: &Chunk, sink: &dyn Sink) -> Result<bool, Error> {
    let Task { draft, tensor, piece, .. } = task;
    let Some(input) = tensor.op.copied() else { return Ok(false) };
    let is_copy = draft.rounding == Rounding::Ggml && input.ty == tensor.ty;
    let stored = if is_copy { draft.source.stored(input.index()) } else { None };
    let order = draft.head.dialect.order;
    let Some(stored) = stored.filter(|s| s.file.gguf().dialect().order == order) else { return Ok(false) };
    let from = packed_bytes(input.ty, chunk.first(), tensor)?;
    let end = from.checked_add(piece.n_bytes).filter(|&end| end <= stored.bytes);
    let Some(end) = end else {
        return Err(Error::OutOfTensor { tensor: tensor.shown(), bytes: stored.bytes });
    };
    sink.copy(&piece, &stored, stored.start + from..stored.start + end)
}
