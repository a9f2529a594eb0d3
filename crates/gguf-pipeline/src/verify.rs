//! Verification: whether a file has the data that a draft makes.
//!
//! [`compare`] encodes the planned values in the types of the file and compares bytes. [`explain`] decodes the file instead, and compares
//! values within [the bound of the type](bound). Both are runs of the pipeline with a sink that writes nothing: they use the same chunks, all
//! cores, and memory for a few chunks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use gguf_format::{GgmlType, Head};
use gguf_quants::codec::codec;

use crate::buffers::{no_codec, packed_bytes, resize, resize_values};
use crate::cast::decoder;
use crate::error::Error;
use crate::gguf::GgufSource;
use crate::options::RunOptions;
use crate::plan::{Draft, TensorPlan};
use crate::progress::Progress;
use crate::sink::{Kept, NewOutput, Piece, Sink};
use crate::source::Source;

pub mod bound;

use bound::Bound;

/// A planned tensor and the tensor of the file that should have its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The index in the draft.
    pub planned: usize,
    /// The index in the file.
    pub stored: usize,
}

/// The blocks of a tensor that were compared. A value of a plain type is a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Compared {
    /// Number of blocks that were compared.
    pub n_blocks: u64,
    /// Number of these that differ.
    pub n_different: u64,
    /// The offset of the first difference, in bytes from the start of the tensor's data.
    pub first: Option<u64>,
    /// The offset of the last block that differs.
    pub last: Option<u64>,
    /// Number of the blocks that differ whose values are all zero in the file.
    pub n_zero: u64,
    /// Whether all blocks were compared. A comparison ends once most blocks differ.
    pub is_whole: bool,
}

impl Compared {
    /// Whether all bytes are equal.
    pub fn is_equal(&self) -> bool {
        self.is_whole && self.n_different == 0
    }

    /// Whether most blocks are equal and some differ.
    pub fn is_altered(&self) -> bool {
        self.is_whole && self.n_different > 0 && !self.differs()
    }

    /// Whether most of the blocks so far differ.
    fn differs(&self) -> bool {
        self.n_different > self.n_blocks / 2
    }

    fn add(&mut self, more: Compared) {
        self.n_blocks = self.n_blocks.saturating_add(more.n_blocks);
        self.n_different = self.n_different.saturating_add(more.n_different);
        self.n_zero = self.n_zero.saturating_add(more.n_zero);
        self.first = [self.first, more.first].into_iter().flatten().min();
        self.last = self.last.max(more.last);
    }
}

/// The blocks of a tensor whose values were compared with the planned ones.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Explained {
    /// Number of blocks.
    pub n_blocks: u64,
    /// Number of these that the bound of the type does not explain.
    pub n_outside: u64,
    /// The offset of the first of them, in bytes from the start of the tensor's data.
    pub first: Option<u64>,
    /// The offset of the last of them.
    pub last: Option<u64>,
    /// Number of them whose values are all zero in the file.
    pub n_zero: u64,
    /// The largest [error of a block](bound::Bound::error), as a part of its bound.
    pub largest: f32,
}

impl Explained {
    fn add(&mut self, more: Explained) {
        self.n_blocks = self.n_blocks.saturating_add(more.n_blocks);
        self.n_outside = self.n_outside.saturating_add(more.n_outside);
        self.n_zero = self.n_zero.saturating_add(more.n_zero);
        self.first = [self.first, more.first].into_iter().flatten().min();
        self.last = self.last.max(more.last);
        self.largest = self.largest.max(more.largest);
    }
}

/// Compares the bytes of tensors of a file with those that a draft makes in the types of the file. The shapes of a pair must be equal. The
/// comparison of a tensor ends once most blocks differ.
///
/// # Errors
/// As for a run, and errors of the file.
pub fn compare(
    draft: &Draft,
    pairs: &[Pair],
    file: &GgufSource,
    options: &RunOptions,
    progress: &dyn Progress,
) -> Result<Vec<Compared>, Error> {
    compare_until(draft, pairs, Compared::differs, file, options, progress)
}

/// As [`compare`], to the end of each tensor.
///
/// # Errors
/// As for a run, and errors of the file.
pub fn compare_all(
    draft: &Draft,
    pairs: &[Pair],
    file: &GgufSource,
    options: &RunOptions,
    progress: &dyn Progress,
) -> Result<Vec<Compared>, Error> {
    compare_until(draft, pairs, |_| false, file, options, progress)
}

fn compare_until(
    draft: &Draft,
    pairs: &[Pair],
    ends: impl Fn(&Compared) -> bool + Sync,
    file: &GgufSource,
    options: &RunOptions,
    progress: &dyn Progress,
) -> Result<Vec<Compared>, Error> {
    let ty = |pair: &Pair| file.tensor(pair.stored).map(|tensor| tensor.ty());
    let work = |work: &Work<'_>, piece: &Piece<'_>, bytes: &[u8], buffers: &mut Buffers| {
        let at = work.read(piece, buffers)?;
        let (n_blocks, block) = blocks(piece.tensor.ty, bytes);
        let mut found = Compared { n_blocks, ..Compared::default() };
        let Buffers { raw, values, .. } = buffers;
        let len = block_len(piece.tensor.ty);
        let span = blocks_of_span(len) * block;
        for (start, (planned, stored)) in (0..).step_by(span).zip(bytes.chunks(span).zip(raw.chunks(span))) {
            // A comparison of slices is far faster than one of their elements.
            if planned == stored {
                continue;
            }
            let first = planned.iter().zip(stored).position(|(a, b)| a != b).unwrap_or(0);
            found.first.get_or_insert(at.saturating_add((start + first) as u64));
            decode_span(piece, stored, values)?;
            for (number, (planned, stored)) in planned.chunks(block).zip(stored.chunks(block)).enumerate() {
                if planned != stored {
                    found.n_different += 1;
                    found.n_zero += u64::from(is_zero(values, number, len));
                    found.last = Some(at.saturating_add((start + number * block) as u64));
                }
            }
        }
        Ok(found)
    };
    let found = run(draft, pairs, ty, file, Comparison { work, add: Compared::add, ends }, options, progress)?;
    let whole = |(compared, is_whole): (Compared, bool)| Compared { is_whole, ..compared };
    Ok(found.into_iter().map(whole).collect())
}

/// Number of values that are decoded at once, which fit the first-level cache: a piece has megabytes of them.
const SPAN: usize = 4096;

/// Number of blocks that are decoded at once.
fn blocks_of_span(block_len: usize) -> usize {
    (SPAN / block_len.max(1)).max(1)
}

/// Number of values of a block.
fn block_len(ty: GgmlType) -> usize {
    ty.info().map_or(1, |info| info.block_len as usize).max(1)
}

/// Decodes blocks of a piece, if its type can be decoded.
fn decode_span(piece: &Piece<'_>, raw: &[u8], values: &mut Vec<f32>) -> Result<(), Error> {
    let ty = piece.tensor.ty;
    let Some(codec) = codec(ty) else {
        values.clear();
        return Ok(());
    };
    let n_values = blocks(ty, raw).0.saturating_mul(block_len(ty) as u64);
    resize_values(values, n_values, &piece.tensor.name)?;
    codec.decode(raw, values).map_err(|source| Error::Codec { tensor: piece.tensor.shown(), row: 0, source })
}

/// Whether a block of decoded values has only zeros.
fn is_zero(values: &[f32], block: usize, len: usize) -> bool {
    values.get(block * len..(block + 1) * len).is_some_and(|values| values.iter().all(|value| *value == 0.0))
}

/// Compares the values of tensors of a file, of quantized types, with those that a draft makes, within the [bounds](bound) of the types. The
/// shapes of a pair must be equal.
///
/// # Errors
/// As for a run, and errors of the file.
pub fn explain(
    draft: &Draft,
    pairs: &[Pair],
    file: &GgufSource,
    options: &RunOptions,
    progress: &dyn Progress,
) -> Result<Vec<Explained>, Error> {
    let work = |work: &Work<'_>, piece: &Piece<'_>, bytes: &[u8], buffers: &mut Buffers| {
        let at = work.read(piece, buffers)?;
        let name = &piece.tensor.name;
        let ty = work.ty(piece.index).ok_or_else(|| no_codec(name))?;
        let (decoded, bound) = codec(ty).zip(Bound::of(ty)).ok_or_else(|| no_codec(name))?;
        let Buffers { raw, values, planned } = buffers;
        let floats = decoder(GgmlType::F32).ok_or_else(|| no_codec(name))?;
        let wrong = |source| Error::Codec { tensor: piece.tensor.shown(), row: 0, source };
        let (n_blocks, block) = blocks(ty, raw);
        let len = block_len(ty);
        let n_span = blocks_of_span(len);
        let mut found = Explained { n_blocks, ..Explained::default() };
        let spans = bytes.chunks(n_span * len * size_of::<f32>()).zip(raw.chunks(n_span * block));
        for (start, (bytes, raw)) in (0..).step_by(n_span * block).zip(spans) {
            let n_values = (bytes.len() / size_of::<f32>()) as u64;
            resize_values(values, n_values, name)?;
            resize_values(planned, n_values, name)?;
            floats(bytes, planned);
            decoded.decode(raw, values).map_err(wrong)?;
            let rows = planned.chunks(len).zip(values.chunks(len)).zip(raw.chunks(block));
            for (number, ((planned, values), packed)) in rows.enumerate() {
                let error = bound.error(planned, values, packed).map_err(wrong)?;
                found.largest = found.largest.max(error);
                if error > 1.0 {
                    let at = at.saturating_add((start + number * block) as u64);
                    found.n_outside += 1;
                    found.n_zero += u64::from(values.iter().all(|value| *value == 0.0));
                    found.first.get_or_insert(at);
                    found.last = Some(at);
                }
            }
        }
        Ok(found)
    };
    let single = |_: &Pair| Some(GgmlType::F32);
    let never = |_: &Explained| false;
    let found =
        run(draft, pairs, single, file, Comparison { work, add: Explained::add, ends: never }, options, progress);
    Ok(found?.into_iter().map(|(explained, _)| explained).collect())
}

/// Number of blocks of some bytes, and bytes of a block.
fn blocks(ty: GgmlType, bytes: &[u8]) -> (u64, usize) {
    let block = ty.info().map_or(1, |info| info.block_bytes as usize).max(1);
    ((bytes.len() / block) as u64, block)
}

/// How pieces are compared: the result of one, the sum of results, and whether a result ends the comparison of its tensor.
struct Comparison<W, A, E> {
    work: W,
    add: A,
    ends: E,
}

/// Runs a comparison of each pair, with the planned values in the type `ty`; returns its result, and whether it was not ended before.
fn run<T, W, A, E>(
    draft: &Draft,
    pairs: &[Pair],
    ty: impl Fn(&Pair) -> Option<GgmlType>,
    file: &GgufSource,
    how: Comparison<W, A, E>,
    options: &RunOptions,
    progress: &dyn Progress,
) -> Result<Vec<(T, bool)>, Error>
where
    T: Default + Copy + Send,
    W: Fn(&Work<'_>, &Piece<'_>, &[u8], &mut Buffers) -> Result<T, Error> + Sync,
    A: Fn(&mut T, T) + Sync,
    E: Fn(&T) -> bool + Sync,
{
    let planned = |pair: &Pair| {
        let mut tensor = draft.tensors.get(pair.planned)?.clone();
        (tensor.ty, tensor.file) = (ty(pair)?, 0);
        Some(tensor)
    };
    let tensors: Vec<TensorPlan> = pairs.iter().filter_map(planned).collect();
    if tensors.len() != pairs.len() || tensors.is_empty() {
        return Ok(pairs.iter().map(|_| (T::default(), false)).collect());
    }
    let one = Draft { head: Head::default(), tensors, is_split: false, is_vocab_only: false, ..draft.clone() };
    let found = pairs.iter().map(|_| Mutex::new((T::default(), true))).collect();
    let n_ended = AtomicU64::new(0);
    let mut sink = Comparing { work: Work { pairs, file }, how, found, n_ended, buffers: Mutex::default() };
    one.lay_out()?.run_to(&mut sink, options, progress)?;
    file.check_unchanged()?;
    Ok(sink.found.into_iter().map(|found| found.into_inner().unwrap_or_else(PoisonError::into_inner)).collect())
}

/// A sink that compares pieces with those of a file.
struct Comparing<'a, T, W, A, E> {
    work: Work<'a>,
    how: Comparison<W, A, E>,
    /// The result of each pair, and whether its comparison has not ended early.
    found: Vec<Mutex<(T, bool)>>,
    /// Number of comparisons that have ended early.
    n_ended: AtomicU64,
    /// Buffers that no thread uses at the moment.
    buffers: Mutex<Vec<Buffers>>,
}

/// The data to compare with.
struct Work<'a> {
    pairs: &'a [Pair],
    file: &'a GgufSource,
}

#[derive(Default)]
struct Buffers {
    /// The bytes of the file.
    raw: Vec<u8>,
    /// The values that the file's bytes encode.
    values: Vec<f32>,
    planned: Vec<f32>,
}

impl Work<'_> {
    fn ty(&self, index: usize) -> Option<GgmlType> {
        Some(self.file.tensor(self.pairs.get(index)?.stored)?.ty())
    }

    /// Reads the bytes of a piece; returns their offset in the tensor.
    fn read(&self, piece: &Piece<'_>, buffers: &mut Buffers) -> Result<u64, Error> {
        let name = &piece.tensor.name;
        let (pair, ty) = self.pairs.get(piece.index).zip(self.ty(piece.index)).ok_or_else(|| no_codec(name))?;
        let at = packed_bytes(ty, piece.first, name)?;
        resize(&mut buffers.raw, packed_bytes(ty, piece.n_elements, name)?, name)?;
        self.file.read_vec(pair.stored, at, &mut buffers.raw)?;
        Ok(at)
    }
}

impl<T, W, A, E> Sink for Comparing<'_, T, W, A, E>
where
    T: Default + Copy + Send,
    W: Fn(&Work<'_>, &Piece<'_>, &[u8], &mut Buffers) -> Result<T, Error> + Sync,
    A: Fn(&mut T, T) + Sync,
    E: Fn(&T) -> bool + Sync,
{
    fn create(&mut self, _: &[NewOutput<'_>], _: &dyn Progress) -> Result<(), Error> {
        Ok(())
    }

    fn write_at(&self, _: usize, _: u64, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    fn commit(&mut self, _: &dyn Progress) -> Result<(), Error> {
        Ok(())
    }

    fn abort(&mut self, why: Error) -> Error {
        why
    }

    /// Pieces of a tensor whose comparison has ended are not made.
    fn kept(&self, piece: &Piece<'_>, _: &mut Vec<u8>) -> Result<Kept, Error> {
        let is_ended = self.n_ended.load(Ordering::Relaxed) > 0
            && self.found.get(piece.index).is_some_and(|found| !found.lock().unwrap_or_else(PoisonError::into_inner).1);
        Ok(if is_ended { Kept::Intact { overflows: 0 } } else { Kept::Nothing })
    }

    fn written(&self, piece: &Piece<'_>, bytes: &[u8], _: u64) -> Result<(), Error> {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        let part = (self.how.work)(&self.work, piece, bytes, &mut buffers)?;
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).push(buffers);
        let Some(found) = self.found.get(piece.index) else { return Ok(()) };
        let (sum, is_whole) = &mut *found.lock().unwrap_or_else(PoisonError::into_inner);
        (self.how.add)(sum, part);
        if *is_whole && (self.how.ends)(sum) {
            *is_whole = false;
            self.n_ended.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
