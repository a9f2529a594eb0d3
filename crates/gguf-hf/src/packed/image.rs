//! Floats of eight bits in image models, as ComfyUI stores them: one scale for a tensor, under one of two names.

use super::{Found, Problem};
use crate::packed::method::Method;

/// What the names of scales end in, after the name of the tensor less `weight`.
const SCALES: [&str; 2] = ["scale_weight", "weight_scale"];

/// The beginning of the name of the tensor that a scale is of: all before `weight`.
pub(crate) fn scaled_by(name: &str) -> Option<&str> {
    SCALES.iter().find_map(|end| name.strip_suffix(end).filter(|name| name.ends_with('.')))
}

/// What the names of tensors end in that say nothing about weights: scales of activations, and marks of the format.
const UNUSED: [&str; 4] = [".scale_input", ".input_scale", ".comfy_quant", "scaled_fp8"];

impl Method {
    /// The method of an image model, which has no configuration.
    pub(crate) fn image() -> Method {
        Method { name: NAME.to_owned(), ..Method::default() }
    }
}

/// The name under which [`Method`] knows it; no configuration can have it.
pub(super) const NAME: &str = " of images";

/// Finds the tensors with scales.
pub(super) fn find(found: &mut Found<'_>) -> Result<(), Problem> {
    for (index, tensor) in found.tensors() {
        if let Some(before) = scaled_by(&tensor.name) {
            let weight = found.need(&format!("{before}weight"), tensor)?;
            found.scale(weight, Some((index, tensor)), &[], "")?;
        } else if UNUSED.iter().any(|end| tensor.name.ends_with(end)) {
            found.gone.insert(index);
        }
    }
    Ok(())
}
