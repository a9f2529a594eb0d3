//! Packed weights: decodes tensors that a checkpoint stores with fewer bits than floats.
//!
//! [`Weights`] presents a checkpoint with its packed tensors replaced by plain ones: companion tensors (scales, zeros, indices) are
//! removed, and the architecture sees `X.weight` with its logical shape. Values are decoded in pieces when they are read; only MXFP4 and
//! NVFP4 are not decoded, because GGUF has the same blocks.
//!
//! The tensor order follows `dequant_model` in `conversion/base.py` of llama.cpp: repacked weights come first, weights that keep their name
//! keep their position, and weights with a new name come last.

use core::fmt;
use core::ops::Range;
use std::collections::HashMap;
use std::path::Path;

use gguf_pipeline::plan::TensorPlan;
use gguf_pipeline::{Error as PipelineError, FilePlace, Source, SourceRead, SourceVersion};
use gguf_quants::float;

use crate::checkpoint::TensorFiles;
use crate::dtype::SourceTensor;
use crate::error::Error;
use crate::formula::Fields;
use crate::model_plan::PlanError;
use crate::number::to_index;

mod bitsandbytes;
mod blocks;
mod companion;
mod data;
mod decode;
mod deepseek4;
mod found;
mod groups;
mod image;
mod method;
mod mxfp4;
mod nvfp4;
mod ranks;
mod scaled;
#[cfg(test)]
mod tests;

pub(crate) use image::scaled_by;
pub(crate) use method::Method;

use self::data::Data;
use self::found::{Form, FoundWeights, Problem, Replacement, TensorScales};

/// The maximum number of elements that are decoded at once.
const PIECE: u64 = 1 << 20;

/// The tensors of a checkpoint that are stored in one packed format.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unpacked {
    /// A short description of the format.
    pub format: String,
    /// The number of tensors.
    pub n_tensors: usize,
    /// Whether the blocks are copied unchanged rather than decoded.
    pub is_repacked: bool,
}

impl fmt::Display for Unpacked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unpacked { format, n_tensors, is_repacked } = self;
        let tensors = if *n_tensors == 1 { "tensor is" } else { "tensors are" };
        match is_repacked {
            true => write!(f, "{n_tensors} {tensors} repacked from {format} without loss"),
            false => write!(f, "{n_tensors} {tensors} decoded from {format}, which had rounded the original weights"),
        }
    }
}

/// The logical tensors of a checkpoint, open for reading.
#[derive(Debug)]
pub(crate) struct Weights {
    checkpoint: TensorFiles,
    tensors: Vec<SourceTensor>,
    forms: Vec<Form>,
    unpacked: Vec<Unpacked>,
    /// The scales of NVFP4 tensors, by name.
    scales: HashMap<String, TensorScales>,
    algorithms: nvfp4::Algorithms,
    /// A tensor whose data is replaced, and the new data.
    replaced: Option<(usize, Vec<u8>)>,
}

impl Weights {
    /// Replaces a tensor's data with other data of the same size.
    pub(crate) fn replace(&mut self, index: usize, data: Vec<u8>) {
        self.replaced = Some((index, data));
    }

    /// Finds the packed weights of a checkpoint. `dir` is its folder.
    ///
    /// # Errors
    /// [`Error::Plan`] if a companion of a packed weight is missing or has an invalid format, shape or value; any error from reading the
    /// data of a companion.
    pub(crate) fn open(dir: &Path, checkpoint: TensorFiles, method: &Method) -> Result<Weights, Error> {
        let mut found = FoundWeights::new(&checkpoint);
        let outcome = method.find(&mut found).and_then(|()| Ok(found.find_bare_floats()?));
        let FoundWeights { consumed, mut replaced, first, last, scales, .. } = found;
        outcome.map_err(|problem| match problem {
            Problem::Plan(source) => at(dir, &checkpoint, source),
            Problem::Read(source) => source.into(),
        })?;
        let (tensors, forms, unpacked, algorithms) = (Vec::new(), Vec::new(), Vec::new(), method.algorithms());
        let scales = scales.into_iter().collect();
        let mut weights = Weights { tensors, forms, unpacked, scales, algorithms, replaced: None, checkpoint };
        let stored: Vec<SourceTensor> = weights.checkpoint.tensors().to_vec();
        first.into_iter().for_each(|new| weights.add(new));
        for (index, tensor) in stored.into_iter().enumerate() {
            match replaced.remove(&index) {
                Some(new) => weights.add(new),
                None if consumed.contains(&index) => {}
                None => {
                    weights.tensors.push(tensor);
                    weights.forms.push(Form::Stored(index));
                }
            }
        }
        last.into_iter().for_each(|new| weights.add(new));
        Ok(weights)
    }

    fn add(&mut self, Replacement { tensor, form, format }: Replacement) {
        match self.unpacked.iter_mut().find(|unpacked| unpacked.format == format) {
            Some(unpacked) => unpacked.n_tensors += 1,
            None => {
                let is_repacked = matches!(form, Form::Blocks(_));
                self.unpacked.push(Unpacked { format, n_tensors: 1, is_repacked });
            }
        }
        self.tensors.push(tensor);
        self.forms.push(form);
    }

    /// The tensors, in conversion order.
    pub(crate) fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    /// The indices of the tensors that are decoded from FP8 with scales.
    pub(crate) fn scaled_fp8(&self) -> Vec<usize> {
        self.fp8(true).collect()
    }

    /// The tensors that are decoded from FP8 without scales.
    pub(crate) fn bare_fp8(&self) -> Vec<String> {
        self.fp8(false).filter_map(|index| Some(self.tensors.get(index)?.name.clone())).collect()
    }

    /// The indices of the tensors that are decoded from FP8 with or without scales.
    fn fp8(&self, is_scaled: bool) -> impl Iterator<Item = usize> {
        let is_fp8 = move |form: &Form| match form {
            Form::Decoded(main, matrix) => {
                let stored = self.checkpoint.tensors().get(*main);
                matrix.is_scaled() == is_scaled && stored.is_some_and(|tensor| tensor.dtype.name.starts_with("F8_E"))
            }
            _ => false,
        };
        self.forms.iter().enumerate().filter(move |(_, form)| is_fp8(form)).map(|(index, _)| index)
    }

    /// The underlying checkpoint.
    pub(crate) fn checkpoint(&self) -> &TensorFiles {
        &self.checkpoint
    }

    /// The packed tensors, by format.
    pub(crate) fn unpacked(&self) -> &[Unpacked] {
        &self.unpacked
    }

    /// Completes a plan for these tensors: sets the order and adds the scales of NVFP4 tensors, and returns key-values about them.
    pub(crate) fn complete(&self, fields: &Fields, tensors: &mut Vec<TensorPlan>) -> Vec<(String, gguf_format::Value)> {
        mxfp4::arrange(&self.tensors, tensors);
        match self.scales.is_empty() {
            true => Vec::new(),
            false => nvfp4::arrange(&self.scales, &self.algorithms, fields, tensors),
        }
    }

    /// An error about one of the tensors, with the path of its file, or of the folder.
    pub(crate) fn error(&self, dir: &Path, source: PlanError) -> Error {
        let named = |tensor: &str| self.tensors.iter().position(|t| t.name == tensor);
        let main = match source.tensor().and_then(named).and_then(|index| self.forms.get(index)) {
            Some(Form::Decoded(main, _)) => Some(*main),
            Some(Form::Blocks(blocks)) => Some(blocks.main()),
            _ => None,
        };
        let file = main.and_then(|main| self.checkpoint.path_of(&self.checkpoint.tensors().get(main)?.name));
        match file.and_then(Path::file_name) {
            Some(file) => Error::Plan { path: dir.join(file), source },
            None => at(dir, &self.checkpoint, source),
        }
    }

    /// Whether all elements of a tensor are zero.
    pub(crate) fn is_zero(&self, index: usize) -> Result<bool, Error> {
        match self.forms.get(index) {
            Some(Form::Stored(index)) => self.checkpoint.is_zero(*index),
            // The architectures that need this have no packed checkpoints.
            _ => Ok(false),
        }
    }
}

/// An error about a tensor, with the path of its file.
fn at(dir: &Path, checkpoint: &TensorFiles, source: PlanError) -> Error {
    let file = source.tensor().and_then(|tensor| checkpoint.path_of(tensor)).and_then(Path::file_name);
    Error::Plan { path: file.map_or(dir.to_owned(), |file| dir.join(file)), source }
}

impl Source for Weights {
    fn versions(&self) -> Vec<SourceVersion> {
        self.checkpoint.versions()
    }

    fn place(&self, index: usize) -> Option<FilePlace> {
        let is_replaced = self.replaced.as_ref().is_some_and(|(replaced, _)| *replaced == index);
        match self.forms.get(index) {
            Some(Form::Stored(index)) if !is_replaced => self.checkpoint.place(*index),
            _ => None,
        }
    }

    /// Packed weights are left out.
    fn reads(&self, index: usize, range: Range<u64>) -> Vec<SourceRead> {
        let is_replaced = self.replaced.as_ref().is_some_and(|(replaced, _)| *replaced == index);
        match self.forms.get(index) {
            Some(Form::Stored(index)) if !is_replaced => self.checkpoint.reads(*index, range),
            _ => Vec::new(),
        }
    }

    fn read_vec(&self, index: usize, offset: u64, buffer: &mut Vec<u8>) -> Result<(), PipelineError> {
        let is_replaced = self.replaced.as_ref().is_some_and(|(replaced, _)| *replaced == index);
        match self.forms.get(index) {
            Some(Form::Stored(index)) if !is_replaced => self.checkpoint.read_vec(*index, offset, buffer),
            _ => self.read(index, offset, buffer),
        }
    }

    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), PipelineError> {
        let (Some(form), Some(tensor)) = (self.forms.get(index), self.tensors.get(index)) else {
            return Err(PipelineError::OutOfTensor { tensor: format!("number {index}"), bytes: 0 });
        };
        if let Some((_, data)) = self.replaced.as_ref().filter(|(replaced, _)| *replaced == index) {
            let from = usize::try_from(offset).ok();
            let found = from.and_then(|from| data.get(from..from.checked_add(buffer.len())?));
            let beyond = || PipelineError::OutOfTensor { tensor: tensor.name.clone(), bytes: data.len() as u64 };
            buffer.copy_from_slice(found.ok_or_else(beyond)?);
            return Ok(());
        }
        let data = Data { checkpoint: &self.checkpoint, tensor };
        let matrix = match form {
            Form::Stored(index) => return self.checkpoint.read(*index, offset, buffer),
            Form::Blocks(blocks) => return blocks.read(data, offset, buffer),
            Form::Decoded(_, matrix) => matrix,
        };
        let columns = tensor.shape.last().copied().unwrap_or(1).max(1);
        let n: u64 = tensor.shape.iter().product();
        let wanted = buffer.len() as u64;
        if !offset.is_multiple_of(4)
            || !wanted.is_multiple_of(4)
            || offset.checked_add(wanted).is_none_or(|end| end > n.saturating_mul(4))
        {
            return Err(PipelineError::OutOfTensor { tensor: tensor.name.clone(), bytes: n.saturating_mul(4) });
        }
        let (mut first, mut rest) = (offset / 4, buffer);
        let mut values = data.buffer(PIECE.min(wanted / 4), 0f32)?;
        while !rest.is_empty() {
            let left = rest.len() as u64 / 4;
            let (row, column) = (first / columns, first % columns);
            let is_whole = column == 0 && left >= columns && columns <= PIECE;
            let (n_rows, width) = match is_whole {
                true => ((left / columns).min(PIECE / columns), columns),
                false => (1, left.min(columns - column).min(PIECE)),
            };
            let n = to_index(n_rows * width);
            let (now, later) = std::mem::take(&mut rest).split_at_mut(n * 4);
            let values = values.get_mut(..n).unwrap_or_default();
            matrix.decode(data, row..row + n_rows, column..column + width, values)?;
            float::encode_f32(values, now);
            (first, rest) = (first + n as u64, later);
        }
        Ok(())
    }
}
