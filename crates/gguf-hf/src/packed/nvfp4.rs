//! NVFP4 of ModelOpt and of compressed-tensors: two values in a byte, a scale of 8 bits for 16 of them, and one for the tensor.
//!
//! The blocks are GGUF's in another order. The scale of the tensor, and that of the activations it is multiplied with, become tensors of
//! their own, `X.scale` and `X.input_scale`, unless they are 1 (`_generate_nvfp4_tensors` in `conversion/base.py` of llama.cpp).

use std::collections::HashMap;

use gguf_format::{GgmlType, Value, keys};
use gguf_pipeline::plan::{Op, Reason, TensorPlan};
use serde_json::Value as Json;

use super::blocks::{Format, of_rows, single};
use super::{Form, Found, New, Problem, problem};
use crate::dtype::{Dtype, SourceTensor};
use crate::formula::Fields;

/// The scales of a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scales {
    weight: f32,
    input: f32,
}

/// Names of the companions of `X.weight`.
struct Names {
    /// The end of the packed weight's name.
    weight: &'static str,
    scale: &'static str,
    input: &'static str,
    /// Whether the scales divide.
    is_inverse: bool,
}

const MODELOPT: Names = Names { weight: ".weight", scale: ".weight_scale_2", input: ".input_scale", is_inverse: false };
const COMPRESSED: Names =
    Names { weight: ".weight_packed", scale: ".weight_global_scale", input: ".input_global_scale", is_inverse: true };

/// Finds the blocks of a checkpoint. Weights with other scales are left to the method.
pub(super) fn find(found: &mut Found<'_>, is_compressed: bool) -> Result<(), Problem> {
    let names = if is_compressed { COMPRESSED } else { MODELOPT };
    for (codes, tensor) in found.tensors() {
        if [".k_scale", ".v_scale"].iter().any(|end| tensor.name.ends_with(end)) {
            found.gone.insert(codes);
        }
        let Some(base) = tensor.name.strip_suffix(names.weight) else { continue };
        let (scales, of_scales) = match found.find(&format!("{base}.weight_scale")) {
            Some(scales) => scales,
            None if is_compressed => found.need(&format!("{base}.weight_scale"), tensor)?,
            None => continue,
        };
        // Floats of 8 bits have scales for rows or for the tensor.
        if !is_compressed && tensor.dtype.name != "U8" {
            continue;
        }
        let (shape, blocks) = of_rows(Format::NVFP4, (codes, tensor), (scales, of_scales))?;
        let mut scale = |end: &str| {
            let value = single(found, &format!("{base}{end}"))?.unwrap_or(1.0);
            Ok::<_, Problem>(if names.is_inverse { 1.0 / value } else { value })
        };
        let scales_of_tensor = Scales { weight: scale(names.scale)?, input: scale(names.input)? };
        let name = format!("{base}.weight");
        if is_compressed && found.find(&name).is_some() {
            return Err(problem(tensor, format!("stands beside {name:?}")).into());
        }
        found.gone.insert(scales);
        found.scales.push((name.clone(), scales_of_tensor));
        let tensor = SourceTensor { name, dtype: Dtype::NVFP4, shape };
        let new = New { tensor, form: Form::Blocks(blocks), format: "NVFP4".to_owned() };
        found.replaced.insert(codes, new);
    }
    Ok(())
}

/// The algorithms that a configuration names, for the whole checkpoint and for parts of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Algorithms {
    pub(super) of_all: Option<String>,
    /// By the names of modules.
    pub(super) of_parts: HashMap<String, Option<String>>,
}

impl Algorithms {
    /// Those of `quant_algo` and `quantized_layers`.
    pub(super) fn new(of_all: &Json, layers: &Json) -> Algorithms {
        let text = |value: &Json| value.as_str().map(str::to_owned);
        let of_part = |(name, part): (&String, &Json)| {
            part.is_object().then(|| (name.clone(), text(part.get("quant_algo").unwrap_or(&Json::Null))))
        };
        let of_parts = layers.as_object().map(|parts| parts.iter().filter_map(of_part).collect()).unwrap_or_default();
        Algorithms { of_all: text(of_all), of_parts }
    }

    /// Whether tensors may be in NVFP4.
    pub(super) fn name_nvfp4(&self) -> bool {
        let mut of_parts = self.of_parts.values().flatten();
        matches!(self.of_all.as_deref(), Some("NVFP4" | W4A16)) || of_parts.any(|name| name.ends_with("NVFP4"))
    }

    /// Whether a weight is multiplied with activations of 16 bits: the nearest module that is named decides.
    fn keeps_activations(&self, weight: &str) -> bool {
        let mut name = weight.strip_suffix(".weight").unwrap_or(weight);
        loop {
            if let Some(algorithm) = self.of_parts.get(name) {
                return algorithm.as_deref() == Some(W4A16);
            }
            match name.rsplit_once('.') {
                Some((outer, _)) => name = outer,
                None => return self.of_all.as_deref() == Some(W4A16),
            }
        }
    }
}

/// The algorithm that leaves activations as they are.
const W4A16: &str = "W4A16_NVFP4";

/// Puts the tensors in NVFP4 before all others, each with its scales behind it, in the order of the reference. The result are key-values about them, by
/// name.
///
/// The tensors of experts come where the last of them is stored if the configuration has their number under one of the names that the
/// reference knows, otherwise behind all others in NVFP4.
pub(super) fn arrange(
    scales: &HashMap<String, Scales>,
    algorithms: &Algorithms,
    fields: &Fields,
    tensors: &mut Vec<TensorPlan>,
) -> Vec<(String, Value)> {
    let has_number = ["num_local_experts", "num_experts"]
        .iter()
        .find_map(|name| fields.fields.get(*name))
        .is_some_and(|n| n.as_u64().is_some_and(|n| n > 0));
    let (mut packed, mut others) = (Vec::new(), Vec::with_capacity(tensors.len()));
    for tensor in tensors.drain(..) {
        match &tensor.op {
            op if op.value_type() != GgmlType::NVFP4 => others.push(tensor),
            op => {
                let inputs = op.inputs();
                let places = inputs.iter().map(|input| input.index);
                let is_last = inputs.len() > 1 && !has_number;
                let place = if is_last { places.min() } else { places.max() };
                packed.push(((is_last, place), tensor));
            }
        }
    }
    packed.sort_by_key(|(place, _)| *place);
    let mut precise = Vec::new();
    for (_, tensor) in packed {
        let name = tensor.shown();
        let inputs = tensor.op.inputs();
        let found: Vec<Scales> = inputs.iter().filter_map(|input| scales.get(&input.name).copied()).collect();
        if let Some(first) = inputs.first() {
            let part = if inputs.len() > 1 { without_number(&first.name) } else { first.name.clone() };
            if algorithms.keeps_activations(&part) {
                precise.push(name.clone());
            }
        }
        tensors.push(tensor);
        let (weights, activations): (Vec<f32>, Vec<f32>) = found.iter().map(|s| (s.weight, s.input)).unzip();
        for (end, values) in [(".scale", weights), (".input_scale", activations)] {
            if !is_trivial(&values) {
                let (name, shape) = (name.replace(".weight", end), vec![values.len() as u64]);
                tensors.push(TensorPlan::new(name, shape, GgmlType::F32, Reason::Vector, Op::Computed(values)));
            }
        }
    }
    tensors.append(&mut others);
    precise.sort();
    if precise.is_empty() {
        return Vec::new();
    }
    let may_round = vec![false; precise.len()];
    vec![
        (keys::GENERAL_TENSOR_EXTRA_NAME.to_owned(), precise.into()),
        (keys::GENERAL_TENSOR_EXTRA_PREC_A4.to_owned(), may_round.into()),
    ]
}

/// Whether scales are 1, as closely as the reference looks: one (`_scale_is_trivial`), or those of experts (`numpy.allclose`).
fn is_trivial(scales: &[f32]) -> bool {
    match scales {
        [scale] => (f64::from(*scale) - 1.0).abs() < 1e-6,
        scales => scales.iter().all(|scale| (f64::from(*scale) - 1.0).abs() <= 1e-6 + 1e-5),
    }
}

/// The name of a tensor of one expert without the expert's number.
fn without_number(name: &str) -> String {
    let Some((before, rest)) = name.split_once(".experts.") else { return name.to_owned() };
    match rest.split_once('.') {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => format!("{before}.experts.{rest}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_nearest_module_that_is_named_decides() {
        let layers = json!({
            "model.layers.0.mlp": {"quant_algo": W4A16},
            "model.layers.0.mlp.up_proj": {"quant_algo": "NVFP4"},
            "model.layers.1": {"quant_algo": null},
            "model.layers.2": "NVFP4",
        });
        for (of_all, name, expected) in [
            ("NVFP4", "model.layers.0.mlp.down_proj.weight", true),
            ("NVFP4", "model.layers.0.mlp.up_proj.weight", false),
            (W4A16, "model.layers.1.mlp.up_proj.weight", false),
            (W4A16, "model.layers.2.mlp.up_proj.weight", true),
            ("NVFP4", "lm_head.weight", false),
        ] {
            let algorithms = Algorithms::new(&json!(of_all), &layers);
            assert_eq!(algorithms.keeps_activations(name), expected, "{of_all} {name}");
            assert!(algorithms.name_nvfp4());
        }
        assert!(!Algorithms::new(&json!("FP8"), &json!({"a": {"quant_algo": "FP8"}})).name_nvfp4());
    }

    #[test]
    fn scales_of_one_are_left_out() {
        for (scales, expected) in [
            (&[1.0f32][..], true),
            (&[1.000_001], true),
            (&[1.000_002], false),
            (&[f32::NAN], false),
            (&[1.0, 1.000_01], true),
            (&[1.0, 1.000_02], false),
            (&[1.0, f32::NAN], false),
        ] {
            assert_eq!(is_trivial(scales), expected, "{scales:?}");
        }
        assert_eq!(
            without_number("model.layers.0.mlp.experts.12.up_proj.weight"),
            "model.layers.0.mlp.experts.up_proj.weight"
        );
        assert_eq!(without_number("model.layers.0.mlp.up_proj.weight"), "model.layers.0.mlp.up_proj.weight");
    }
}
