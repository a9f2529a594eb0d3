//! Checks of the tensors that belong to a packed weight: scales, zeros, indices.

use super::data::{Number, Numbers};
use crate::dtype::SourceTensor;
use crate::model_plan::PlanError;

/// An error about a packed tensor.
pub(super) fn problem(tensor: &SourceTensor, problem: String) -> PlanError {
    PlanError::Packed { tensor: tensor.name.clone(), problem }
}

/// Checks the format and shape of a companion.
pub(super) fn expect(tensor: &SourceTensor, dtype: &str, shape: &[u64]) -> Result<(), PlanError> {
    if tensor.dtype.name != dtype {
        return Err(problem(tensor, format!("has the format {}, expected {dtype}", tensor.dtype)));
    }
    expect_shape(tensor, shape)
}

pub(super) fn expect_shape(tensor: &SourceTensor, shape: &[u64]) -> Result<(), PlanError> {
    match tensor.shape == shape {
        true => Ok(()),
        false => Err(problem(tensor, format!("has the shape {:?}, expected {shape:?}", tensor.shape))),
    }
}

/// Reads a tensor as scales.
pub(super) fn scales(index: usize, tensor: &SourceTensor) -> Result<Numbers, PlanError> {
    match Number::of(tensor.dtype).filter(|number| number.is_of_scales()) {
        Some(number) => Ok(Numbers { index, number }),
        None => {
            let dtype = tensor.dtype;
            Err(problem(tensor, format!("has the format {dtype}, expected F32, F16, BF16 or F8_E8M0 for scales")))
        }
    }
}

/// `128 × 128`.
pub(super) fn dims(dims: &[u64]) -> String {
    dims.iter().map(u64::to_string).collect::<Vec<_>>().join(" × ")
}
