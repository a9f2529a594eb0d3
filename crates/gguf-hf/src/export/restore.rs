//! The tensors of a planned folder, made of those of the file: the operations of the folder's conversion, inverted.

use std::collections::HashMap;
use std::sync::Arc;

use gguf_format::{GgmlType, Head, Version};
use gguf_pipeline::moves::Move;
use gguf_pipeline::plan::{Elementwise, Gather, Input, Inverse, Keep, Op, Reason, Rounding, Shape};
use gguf_pipeline::{Draft, GgufSource, OtherFile, Plan, Source, TensorPlan};

use super::files::Shard;
use super::problem::{ExportProblem, ExportWarning};
use super::sources::{FileTensor, NewTensor};
use super::values::Values;
use super::{Documents, Failed};
use crate::conversion::Conversion;
use crate::dtype::Dtype;
use crate::error::Error;

/// The tensors of a file.
pub(super) struct Stored {
    pub(super) source: Arc<GgufSource>,
    pub(super) tensors: Vec<FileTensor>,
    by_name: HashMap<String, usize>,
}

/// What a tensor of the file holds of a tensor of the checkpoint.
struct Restoring {
    /// The tensor of the file.
    index: usize,
    moves: Vec<Move>,
    maps: Vec<Elementwise>,
}

impl Stored {
    pub(super) fn new(source: GgufSource) -> Stored {
        let of = |tensor: gguf_io::Tensor<'_>| {
            let mut shape: Vec<u64> = tensor.shape().collect();
            shape.reverse();
            FileTensor { name: tensor.name().to_string(), shape, ty: tensor.ty() }
        };
        let tensors: Vec<FileTensor> = source.tensors().map(of).collect();
        let by_name = tensors.iter().enumerate().map(|(i, tensor)| (tensor.name.clone(), i)).collect();
        Stored { source: Arc::new(source), tensors, by_name }
    }

    /// The error of the export of this file.
    pub(super) fn error(&self, failed: Failed) -> Error {
        match failed {
            Failed::Problem(problem) => {
                Error::Export { path: self.source.model().path().to_owned(), problem: Box::new(problem) }
            }
            Failed::Pipeline(e) => Error::Pipeline(e),
        }
    }

    /// The tensor of a name.
    pub(super) fn get(&self, name: &str) -> Option<&FileTensor> {
        self.tensors.get(self.place(name)?)
    }

    /// The values of a small tensor in single precision.
    pub(super) fn values(&self, name: &str) -> Option<Vec<f32>> {
        let index = self.place(name)?;
        let tensor = self.source.tensor(index).filter(|tensor| tensor.ty() == GgmlType::F32)?;
        let n_bytes = tensor.n_bytes().ok().filter(|n| *n <= MAX_VALUES)?;
        let mut bytes = vec![0; usize::try_from(n_bytes).ok()?];
        self.source.read(index, 0, &mut bytes).ok()?;
        Some(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    /// The value of all elements of a small tensor in single precision; `None` if they differ.
    pub(super) fn constant(&self, name: &str) -> Option<f32> {
        let values = self.values(name)?;
        let (first, rest) = values.split_first()?;
        rest.iter().all(|value| value.to_bits() == first.to_bits()).then_some(*first)
    }

    /// The index of the tensor of a name.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The plan of a folder of which `conversion` is the conversion: its operations, inverted. Tensors that `is_computed` are not made of any
    /// of the folder. What is not restored exactly is added to `warnings`.
    pub(super) fn planned(
        &self,
        conversion: &Conversion,
        folder: Contents,
        is_computed: impl Fn(&str) -> bool,
        warnings: &mut Vec<ExportWarning>,
    ) -> Result<Plan, Failed> {
        let Contents { documents, groups, shards } = folder;
        let lengths: HashMap<&str, u64> =
            groups.iter().flatten().map(|(tensor, _)| (tensor.name.as_str(), tensor.shape.iter().product())).collect();
        let mut parts: HashMap<String, Vec<Restoring>> = HashMap::new();
        for made in conversion.plan.tensors() {
            let name = made.shown();
            let Some(index) = self.place(&name).filter(|_| !is_computed(&name)) else { continue };
            let names: Vec<&str> = made.op.inputs().iter().map(|input| &*input.name).collect();
            let length = |input: usize| names.get(input).and_then(|name| lengths.get(name)).copied().unwrap_or(0);
            let restored = match &made.op {
                // The first factor has the values of the product, and the others are ones.
                Op::Product(product) => {
                    product.inputs.first().and_then(|input| Op::Copy(input.clone()).restored(made.n_elements(), length))
                }
                // Those of a formula are not made of the source.
                Op::Computed(_) => continue,
                op => op.restored(made.n_elements(), length),
            };
            let Some(restored) = restored else {
                return Err(Failed::Problem(ExportProblem::NotInvertible { tensor: name }));
            };
            for (part, source) in restored.parts.into_iter().zip(&names) {
                let restoring = Restoring { index, moves: part.moves, maps: part.maps };
                parts.entry((*source).to_owned()).or_default().push(restoring);
            }
        }
        let mut planned = Vec::new();
        for (file, group) in (0..).zip(&groups) {
            for (tensor, dtype) in group {
                let own = parts.remove(&tensor.name).unwrap_or_default();
                let n_elements = tensor.shape.iter().product();
                let found = match tensor.is_one {
                    true => ones(n_elements),
                    false => self.operation(own, n_elements),
                };
                let (op, extent) = found
                    .ok_or_else(|| Failed::Problem(ExportProblem::NotInvertible { tensor: tensor.name.clone() }))?;
                if tensor.is_one {
                    warnings.push(ExportWarning::Factor { tensor: tensor.name.clone() });
                }
                match extent {
                    Inverse::Lost => warnings.push(ExportWarning::Lost { tensor: tensor.name.clone() }),
                    Inverse::Rounded => warnings.push(ExportWarning::Rounded { tensor: tensor.name.clone() }),
                    _ => {}
                }
                let mut shape = tensor.shape.clone();
                shape.reverse();
                let ty = dtype.ggml.unwrap_or(GgmlType::F32);
                let own = self.tensors.get(tensor.of).map(|own| own.ty);
                let reason = if own == Some(ty) { Reason::Kept(Keep::Copy) } else { Reason::Asked };
                let mut new = TensorPlan::new(tensor.name.as_bytes(), Shape::from(shape), ty, reason, op);
                new.file = file;
                // The type in the model, also if the operation reads decoded values.
                if let Some(own) = own.filter(|_| !tensor.is_one) {
                    new.origin_mut().from = own;
                }
                planned.push(new);
            }
        }
        let model = self.source.model();
        let draft = Draft {
            path: model.path().to_owned(),
            head: Head { dialect: gguf_format::Dialect::new(Version::V3), ..Head::default() },
            tensors: planned,
            inputs: model.files().iter().filter_map(|f| f.path().canonicalize().ok()).collect(),
            input_bytes: Some(model.file_bytes()),
            source: Arc::new(Values::new(Arc::clone(&self.source))),
            rounding: Rounding::Ggml,
            importance: None,
            is_split: false,
            is_vocab_only: false,
        };
        let tensor_files =
            shards.into_iter().map(|Shard { name, head, n_tensors, .. }| OtherFile { name, head, n_tensors });
        let documents = documents.into_iter().map(|(name, head)| OtherFile { name, head, n_tensors: 0 });
        draft.lay_out_as_files(tensor_files.chain(documents).collect()).map_err(Failed::Pipeline)
    }

    /// The operation that makes a tensor of `n_elements` from the tensors that hold it; `None` if no tensor holds it, or if two disagree.
    fn operation(&self, parts: Vec<Restoring>, n_elements: u64) -> Option<(Op, Inverse)> {
        let tensors = &self.tensors;
        let maps = parts.first()?.maps.clone();
        let (mut inputs, mut moves): (Vec<Input>, Vec<Move>) = Default::default();
        let mut left = n_elements;
        for part in parts {
            // The parts before have all elements of the tensor, and this one repeats them.
            if left == 0 {
                continue;
            }
            if part.maps != maps {
                return None;
            }
            let stored = tensors.get(part.index)?;
            let is_plain = !stored.ty.is_quantized();
            let (index, ty) = match is_plain {
                true => (part.index, stored.ty),
                false => (part.index + tensors.len(), GgmlType::F32),
            };
            let n: u64 = part.moves.iter().map(Move::n_elements).sum();
            left = left.saturating_sub(n);
            let number = inputs.len();
            moves.extend(part.moves.into_iter().map(|item| Move { input: number, ..item }));
            inputs.push(Input::new(index, &stored.name, ty));
        }
        let is_whole = |item: &Move| {
            item.from == 0
                && item.to == 0
                && item.n_elements() == n_elements
                && item.axes.iter().all(|axis| axis.from == axis.to)
        };
        let extent = match (left, maps.is_empty()) {
            (0, true) => Inverse::Exact,
            (0, false) => Inverse::Rounded,
            _ => Inverse::Lost,
        };
        let op = match (inputs.as_slice(), moves.as_slice()) {
            ([input], [only]) if maps.is_empty() && is_whole(only) => {
                // Blocks are decoded as they are encoded, without a copy between.
                let stored = input.index() % tensors.len().max(1);
                let tensor = tensors.get(stored)?;
                Op::Copy(Input::new(stored, &tensor.name, tensor.ty))
            }
            _ => Op::Gather(Box::new(Gather { inputs, moves, maps })),
        };
        Some((op, extent))
    }
}

/// The most bytes of values that are read to find fields of the configuration.
const MAX_VALUES: u64 = 1 << 20;

/// The longest vector of ones.
const MAX_ONES: u64 = 1 << 24;

/// The operation that makes a vector of ones.
fn ones(n_elements: u64) -> Option<(Op, Inverse)> {
    let n = usize::try_from(n_elements).ok().filter(|_| n_elements <= MAX_ONES)?;
    Some((Op::Computed(vec![1.0; n]), Inverse::Exact))
}

/// The contents of a folder: its small files, and its tensors with the files that hold them.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) documents: Documents,
    pub(super) groups: Vec<Vec<(NewTensor, Dtype)>>,
    pub(super) shards: Vec<Shard>,
}
