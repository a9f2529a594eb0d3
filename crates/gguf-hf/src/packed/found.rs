//! The packed weights of a checkpoint, and the tensors that replace them.

use std::collections::{HashMap, HashSet};

use gguf_pipeline::Error as PipelineError;

use super::blocks;
use super::companion::{self, dims, expect, problem, scales};
use super::data::{Data, Number, Numbers};
use super::decode::Decode;
use super::scaled::{Scale, Scaled};
use crate::checkpoint::TensorFiles;
use crate::dtype::{Dtype, SourceTensor};
use crate::model_plan::PlanError;

/// The source of a tensor's data.
#[derive(Debug)]
pub(super) enum Form {
    /// Stored, with its index.
    Stored(usize),
    /// Decoded; the index is that of the packed weight.
    Decoded(usize, Box<dyn Decode>),
    /// Repacked blocks.
    Blocks(blocks::Blocks),
}

/// The scales of an NVFP4 tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TensorScales {
    pub(super) weight: f32,
    pub(super) input: f32,
}

/// The reason why packed weights cannot be read.
#[derive(Debug)]
pub(super) enum Problem {
    Plan(PlanError),
    Read(PipelineError),
}

impl From<PlanError> for Problem {
    fn from(e: PlanError) -> Problem {
        Problem::Plan(e)
    }
}

impl From<crate::config::Error> for Problem {
    fn from(e: crate::config::Error) -> Problem {
        Problem::Plan(e.into())
    }
}

impl From<PipelineError> for Problem {
    fn from(e: PipelineError) -> Problem {
        Problem::Read(e)
    }
}

/// A tensor that replaces packed ones.
#[derive(Debug)]
pub(super) struct Replacement {
    pub(super) tensor: SourceTensor,
    pub(super) form: Form,
    pub(super) format: String,
}

/// The packed weights found so far.
#[derive(Debug)]
pub(super) struct FoundWeights<'a> {
    pub(super) checkpoint: &'a TensorFiles,
    by_name: HashMap<&'a str, usize>,
    /// Stored tensors that are companions of others or unused.
    pub(super) consumed: HashSet<usize>,
    /// Weights that keep their position, by the index of the stored tensor.
    pub(super) replaced: HashMap<usize, Replacement>,
    pub(super) first: Vec<Replacement>,
    pub(super) last: Vec<Replacement>,
    /// The scales of NVFP4 tensors, by their new names.
    pub(super) scales: Vec<(String, TensorScales)>,
}

impl<'a> FoundWeights<'a> {
    pub(super) fn new(checkpoint: &'a TensorFiles) -> FoundWeights<'a> {
        let by_name = checkpoint.tensors().iter().enumerate().map(|(i, t)| (t.name.as_str(), i)).collect();
        let (consumed, replaced) = (HashSet::new(), HashMap::new());
        FoundWeights {
            checkpoint,
            by_name,
            consumed,
            replaced,
            first: Vec::new(),
            last: Vec::new(),
            scales: Vec::new(),
        }
    }

    pub(super) fn tensors(&self) -> impl Iterator<Item = (usize, &'a SourceTensor)> + use<'a> {
        self.checkpoint.tensors().iter().enumerate()
    }

    pub(super) fn find(&self, name: &str) -> Option<(usize, &'a SourceTensor)> {
        let index = *self.by_name.get(name)?;
        Some((index, self.checkpoint.tensors().get(index)?))
    }

    /// A required companion tensor; `of` is the tensor that needs it.
    pub(super) fn need(&self, name: &str, of: &SourceTensor) -> Result<(usize, &'a SourceTensor), PlanError> {
        self.find(name).ok_or_else(|| problem(of, format!("needs the tensor {name:?}, which is missing")))
    }

    /// A required companion tensor with scales.
    pub(super) fn need_scales(&self, name: &str, of: &SourceTensor) -> Result<(Numbers, &'a SourceTensor), PlanError> {
        let (index, tensor) = self.need(name, of)?;
        Ok((scales(index, tensor)?, tensor))
    }

    /// A required companion tensor of 32-bit words with the given shape.
    pub(super) fn need_words(&self, name: &str, of: &SourceTensor, shape: &[u64]) -> Result<usize, PlanError> {
        let (index, tensor) = self.need(name, of)?;
        expect(tensor, "I32", shape)?;
        Ok(index)
    }

    /// The single value of a companion tensor, as `f32`; `None` if the tensor does not exist.
    pub(super) fn single(&mut self, name: &str) -> Result<Option<f32>, Problem> {
        let Some((index, tensor)) = self.find(name) else { return Ok(None) };
        let at = scales(index, tensor)?;
        if tensor.shape.iter().product::<u64>() != 1 {
            return Err(problem(tensor, format!("has the shape {:?}, expected one scale", tensor.shape)).into());
        }
        self.consumed.insert(index);
        let values = Data { checkpoint: self.checkpoint, tensor }.numbers(at, 0, 1)?;
        Ok(values.first().copied())
    }

    /// Replaces the stored tensor by its numbers multiplied by scales. `blocks` are the block lengths along the last dimensions.
    pub(super) fn scale(
        &mut self,
        weight: (usize, &SourceTensor),
        scales: Option<(usize, &SourceTensor)>,
        blocks: &[u64],
        of: &'static str,
    ) -> Result<(), PlanError> {
        let (index, weight) = weight;
        let Some(number) = Number::of(weight.dtype) else {
            let dtype = weight.dtype;
            return Err(problem(weight, format!("has the format {dtype}, expected F8_E4M3, F8_E5M2, I8 or a float")));
        };
        let scale = match scales {
            Some((index, tensor)) => {
                let at = companion::scales(index, tensor)?;
                self.consumed.insert(index);
                Some(Scale::new(at, &weight.shape, &tensor.shape, blocks).map_err(|text| problem(tensor, text))?)
            }
            None => None,
        };
        let shown = match weight.dtype.name {
            "I8" => "INT8",
            name => name,
        };
        let format = match &scale {
            Some(_) if blocks.is_empty() => format!("{shown} with scales{of}"),
            Some(_) => format!("{shown} with scales for blocks of {}{of}", dims(blocks)),
            None => format!("{shown} without scales"),
        };
        let columns = weight.shape.last().copied().unwrap_or(1);
        let form =
            Form::Decoded(index, Box::new(Scaled { values: Numbers { index, number }, scale, columns, factor: None }));
        let tensor = SourceTensor { dtype: Dtype::F32, ..weight.clone() };
        match self.replaced.insert(index, Replacement { tensor, form, format }) {
            None => Ok(()),
            Some(_) => Err(problem(weight, "has scales under two names".to_owned())),
        }
    }

    /// FP8 values without scales are decoded to their own values.
    pub(super) fn find_bare_floats(&mut self) -> Result<(), PlanError> {
        for (index, tensor) in self.tensors() {
            let is_float = tensor.dtype.name.starts_with("F8_E4M3") || tensor.dtype.name.starts_with("F8_E5M2");
            if is_float && !self.consumed.contains(&index) && !self.replaced.contains_key(&index) {
                self.scale((index, tensor), None, &[], "")?;
            }
        }
        Ok(())
    }

    /// Appends a decoded tensor after all others. `packed` is the index of the packed weight.
    pub(super) fn push(
        &mut self,
        name: String,
        shape: Vec<u64>,
        packed: usize,
        matrix: impl Decode + 'static,
        format: String,
    ) {
        let tensor = SourceTensor { name, dtype: Dtype::F32, shape };
        self.last.push(Replacement { tensor, form: Form::Decoded(packed, Box::new(matrix)), format });
    }
}
