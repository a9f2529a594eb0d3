//! Weights of DeepSeek 4: experts in MXFP4, and other matrices as 8-bit floats with a power-of-two scale per 128 × 128 block, each with its
//! scales in `X.scale` (`dequant_model` and `_write_mxfp4_expert_tensor` of `DeepseekV4Model` in `conversion/deepseek.py` of llama.cpp).

use super::found::{Form, FoundWeights, Replacement};
use super::mxfp4;
use crate::dtype::{Dtype, SourceTensor};
use crate::model_plan::PlanError;

/// Prefix of the model classes whose checkpoints have such weights, regardless of their configuration.
pub(super) const CLASSES: &str = "DeepseekV4";

/// The name of this method in [`Method`](super::Method); no configuration can contain it.
pub(super) const NAME: &str = " of DeepSeek 4";

/// Lengths of the blocks that share a scale.
const BLOCKS: [u64; 2] = [128, 128];

/// Finds the weights with scales.
pub(super) fn find(found: &mut FoundWeights<'_>) -> Result<(), PlanError> {
    for (scales, of_scales) in found.tensors() {
        let Some(base) = of_scales.name.strip_suffix(".scale") else { continue };
        let Some((index, weight)) = found.find(&format!("{base}.weight")) else { continue };
        if base.contains(".ffn.experts.") {
            mxfp4::add_rows(found, weight.name.clone(), (index, weight), (scales, of_scales))?;
        } else if ["F8_E4M3", "F8_E5M2"].contains(&weight.dtype.name) {
            // Powers of two may be stored as bytes.
            let dtype = Dtype::from_name("F8_E8M0").filter(|_| of_scales.dtype.name == "U8");
            let of_scales = SourceTensor { dtype: dtype.unwrap_or(of_scales.dtype), ..of_scales.clone() };
            found.scale((index, weight), Some((scales, &of_scales)), &BLOCKS, "")?;
            if let Some(Replacement { tensor, form: Form::Decoded(..), .. }) = found.replaced.get_mut(&index) {
                tensor.dtype = Dtype::SCALED_F8;
            }
        }
    }
    Ok(())
}
