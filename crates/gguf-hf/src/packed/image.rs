//! 8-bit floats in image models, as ComfyUI stores them: one scale per tensor, under one of two names.

use super::found::{FoundWeights, Problem};

/// Suffixes of scale names, which replace `weight` in the tensor name.
const SCALES: [&str; 2] = ["scale_weight", "weight_scale"];

/// The prefix of the tensor name for a scale: everything before `weight`.
pub(crate) fn scaled_by(name: &str) -> Option<&str> {
    SCALES.iter().find_map(|end| name.strip_suffix(end).filter(|name| name.ends_with('.')))
}

/// Suffixes of tensors that are irrelevant to weights: activation scales and format markers.
const UNUSED: [&str; 4] = [".scale_input", ".input_scale", ".comfy_quant", "scaled_fp8"];

/// The name of this method in [`Method`](super::Method); no configuration can contain it.
pub(super) const NAME: &str = " of images";

/// Finds the tensors with scales.
pub(super) fn find(found: &mut FoundWeights<'_>) -> Result<(), Problem> {
    for (index, tensor) in found.tensors() {
        if let Some(before) = scaled_by(&tensor.name) {
            let weight = found.need(&format!("{before}weight"), tensor)?;
            found.scale(weight, Some((index, tensor)), &[], "")?;
        } else if UNUSED.iter().any(|end| tensor.name.ends_with(end)) {
            found.consumed.insert(index);
        }
    }
    Ok(())
}
