//! What explains the difference of a tensor: a part of it, another tensor, or another order.

use std::collections::HashMap;
use std::sync::Arc;

use gguf_format::GgmlType;
use gguf_pipeline::plan::{Draft, Op, Shape};
use gguf_pipeline::verify::bound::{PART_OF_SQUARES, part_of_squares};
use gguf_pipeline::verify::{Compared, Explained, Pair, compare_all};
use gguf_pipeline::{GgufSource, Progress, RunOptions, Source, Stage};
use gguf_quantize::imatrix::ImatrixFile;
use gguf_quants::codec::codec;

use super::{Cause, Difference, Encodings, State, VerifiedTensor};
use crate::Error;

/// A comparison of a file with a draft.
pub(super) struct Comparison<'a> {
    pub(super) draft: &'a Draft,
    pub(super) matrix: Option<Arc<ImatrixFile>>,
    pub(super) file: &'a GgufSource,
    pub(super) options: &'a RunOptions,
    pub(super) progress: &'a dyn Progress,
}

impl Comparison<'_> {
    /// Compares the data of pairs, with a draft that has the tensors of the plan.
    pub(super) fn compare_data(
        &self,
        draft: &Draft,
        pairs: &[(usize, Pair)],
        tensors: &mut [VerifiedTensor],
    ) -> Result<(), Error> {
        if pairs.is_empty() {
            return Ok(());
        }
        let encodings = Encodings::of(draft.clone(), self.matrix.clone())?;
        encodings.compare_data(self.file, pairs, tensors, self.options, self.progress)
    }

    /// The indexes of pairs that have the data of a draft; `pairs` have any indexes.
    fn equal(&self, draft: &Draft, pairs: &[(usize, Pair)]) -> Result<Vec<usize>, Error> {
        let ty = |pair: &Pair| self.file.tensor(pair.stored).map(|tensor| tensor.ty());
        let new = |(_, pair): &(usize, Pair)| VerifiedTensor::new(String::new(), ty(pair), State::Identical);
        let mut tensors: Vec<VerifiedTensor> = pairs.iter().map(new).collect();
        let numbered: Vec<(usize, Pair)> = pairs.iter().zip(0..).map(|((_, pair), i)| (i, *pair)).collect();
        self.compare_data(draft, &numbered, &mut tensors)?;
        let is_good = tensors.iter().map(|tensor| tensor.state.is_good());
        Ok(pairs.iter().zip(is_good).filter(|(_, good)| *good).map(|((i, _), _)| *i).collect())
    }

    /// Finds what explains the tensors whose data differs.
    pub(super) fn find_causes(&self, pairs: &[(usize, Pair)], tensors: &mut [VerifiedTensor]) -> Result<(), Error> {
        self.find_matrices(pairs, tensors)?;
        let is_open = |tensors: &[VerifiedTensor], i: usize| match tensors.get(i) {
            Some(VerifiedTensor { state: State::Different(Difference::Bytes(found)), cause: None, .. }) => {
                !found.is_altered()
            }
            Some(VerifiedTensor { state: State::Different(Difference::Errors(_)), cause: None, .. }) => true,
            _ => false,
        };
        let open: Vec<(usize, Pair)> = pairs.iter().filter(|(i, _)| is_open(tensors, *i)).copied().collect();
        let mut unarranged = self.draft.clone();
        let mut changed = Vec::new();
        for (i, pair) in &open {
            let Some(tensor) = unarranged.tensors.get_mut(pair.planned) else { continue };
            if let Op::Gather(gather) = &tensor.op
                && let Some(gather) = gather.in_source_order()
            {
                tensor.origin_mut().op = Op::Gather(Box::new(gather));
                changed.push((*i, *pair));
            }
        }
        for i in self.equal(&unarranged, &changed)? {
            tensors.get_mut(i).into_iter().for_each(|tensor| tensor.cause = Some(Cause::NotRearranged));
        }
        let open: Vec<(usize, Pair)> = open.into_iter().filter(|(i, _)| is_open(tensors, *i)).collect();
        let others = self.likely_others(&open)?;
        for i in self.equal(self.draft, &others)? {
            let other = others.iter().find(|(of, _)| *of == i);
            let other = other.and_then(|(_, pair)| self.draft.tensors.get(pair.planned));
            let cause = other.map(|other| Cause::Other(other.shown()));
            tensors.get_mut(i).into_iter().for_each(|tensor| tensor.cause.clone_from(&cause));
        }
        Ok(())
    }

    /// Finds the matrices of stacks that have all differences, and differences that are zeros.
    fn find_matrices(&self, pairs: &[(usize, Pair)], tensors: &mut [VerifiedTensor]) -> Result<(), Error> {
        let n_matrices = |pair: &Pair| {
            let shape = self.draft.tensors.get(pair.planned).map(|tensor| tensor.shape.without_ones());
            shape.and_then(|shape| shape.get(2..)?.iter().copied().reduce(u64::saturating_mul)).unwrap_or(1)
        };
        // A comparison ends early if the first matrices differ.
        let is_cut = |(i, pair): &&(usize, Pair)| match tensors.get(*i).map(|tensor| &tensor.state) {
            Some(State::Different(Difference::Bytes(found))) => !found.is_whole && n_matrices(pair) > 1,
            _ => false,
        };
        let cut: Vec<(usize, Pair)> = pairs.iter().filter(is_cut).copied().collect();
        let alone: Vec<Pair> = cut.iter().map(|(_, pair)| *pair).collect();
        let found = compare_all(self.draft, &alone, self.file, self.options, self.progress)?;
        for ((i, _), found) in cut.into_iter().zip(found) {
            tensors.get_mut(i).into_iter().for_each(|tensor| tensor.state = State::Different(Difference::Bytes(found)));
        }
        for (i, pair) in pairs {
            let (Some(tensor), Some(stored)) = (tensors.get_mut(*i), self.file.tensor(pair.stored)) else { continue };
            let (first, last, are_zero) = match &tensor.state {
                State::Different(Difference::Bytes(Compared {
                    first,
                    last,
                    n_different,
                    n_zero,
                    is_whole: true,
                    ..
                })) => (first, last, n_different == n_zero),
                State::Different(Difference::Errors(Explained { first, last, n_outside, n_zero, .. })) => {
                    (first, last, n_outside == n_zero)
                }
                _ => continue,
            };
            let n_matrices = n_matrices(pair);
            let bytes = stored.n_bytes()?.checked_div(n_matrices).filter(|bytes| *bytes > 0 && n_matrices > 1);
            let number = |at: &Option<u64>| at.zip(bytes).map(|(at, bytes)| at / bytes);
            tensor.cause = match (number(first), number(last)) {
                (Some(first), Some(last)) if last - first + 1 < n_matrices => {
                    Some(Cause::Matrices { first, last, are_zero })
                }
                _ => are_zero.then_some(Cause::Zeros),
            };
        }
        Ok(())
    }

    /// For each pair, the one with the planned tensor of the same shape that is most like the tensor of the file, by some of their values.
    fn likely_others(&self, pairs: &[(usize, Pair)]) -> Result<Vec<(usize, Pair)>, Error> {
        let mut values = self.draft.clone();
        for tensor in &mut values.tensors {
            tensor.ty = tensor.op.value_type();
        }
        let planned: Vec<(usize, Shape)> =
            values.tensors.iter().map(|tensor| plain(&tensor.shape)).enumerate().collect();
        let types: Vec<GgmlType> = values.tensors.iter().map(|tensor| tensor.ty).collect();
        let stage = Stage::new([values]);
        let mut samples: HashMap<usize, Vec<f32>> = HashMap::new();
        let mut found = Vec::new();
        for (i, pair) in pairs {
            let Some(stored) = self.file.tensor(pair.stored) else { continue };
            let shape = plain(&stored.shape().collect());
            let Some(own) = sample(self.file, pair.stored, stored.ty(), &shape)? else { continue };
            let mut nearest: Option<(f32, usize)> = None;
            for (other, of_other) in planned.iter().filter(|(other, of)| *other != pair.planned && *of == shape) {
                if !samples.contains_key(other) {
                    let ty = types.get(*other).copied().unwrap_or(GgmlType::F32);
                    samples.insert(*other, sample(&stage, *other, ty, of_other)?.unwrap_or_default());
                }
                let error = samples.get(other).map_or(f32::INFINITY, |values| part_of_squares(values, &own));
                if nearest.is_none_or(|(least, _)| error < least) {
                    nearest = Some((error, *other));
                }
            }
            let nearest = nearest.filter(|(error, _)| *error <= PART_OF_SQUARES);
            found.extend(nearest.map(|(_, planned)| (*i, Pair { planned, stored: pair.stored })));
        }
        Ok(found)
    }
}

/// A shape without dimensions of one.
fn plain(shape: &Shape) -> Shape {
    shape.without_ones().iter().copied().collect()
}

/// Number of values by which tensors are found.
const SAMPLE: u64 = 1024;

/// Some values from the middle of a tensor; `None` if its type cannot be decoded.
fn sample(source: &dyn Source, index: usize, ty: GgmlType, shape: &Shape) -> Result<Option<Vec<f32>>, Error> {
    let (Some(codec), Some(info)) = (codec(ty), ty.info()) else { return Ok(None) };
    let n_values = shape.iter().fold(1, |n: u64, dim| n.saturating_mul(*dim));
    let row = shape.first().copied().unwrap_or(1).max(1);
    let first = n_values / row / 2 * row;
    let n = SAMPLE.min(n_values - first);
    let bytes = |n: u64| n / u64::from(info.block_len).max(1) * u64::from(info.block_bytes);
    let (Ok(len), Ok(n_bytes)) = (usize::try_from(n), usize::try_from(bytes(n))) else { return Ok(None) };
    let (mut raw, mut values) = (vec![0; n_bytes], vec![0.0; len]);
    source.read(index, bytes(first), &mut raw)?;
    codec.decode(&raw, &mut values)?;
    Ok(Some(values))
}
