//! NVFP4 of ModelOpt and compressed-tensors: two values per byte, an 8-bit scale per 16 values, and one scale per tensor.
//!
//! GGUF stores the same blocks in a different order. The scale of the tensor and the scale of its activations become the separate tensors
//! `X.scale` and `X.input_scale`, unless they are 1 (`_generate_nvfp4_tensors` in `conversion/base.py` of llama.cpp).

use std::collections::HashMap;

use gguf_format::sort::CompactSort as _;
use gguf_format::{GgmlType, Value, keys};
use gguf_pipeline::plan::{Op, Reason, TensorPlan};
use serde_json::Value as Json;

use super::blocks::{Format, of_rows};
use super::companion::problem;
use super::found::{Form, FoundWeights, Problem, Replacement, TensorScales};
use crate::dtype::{Dtype, SourceTensor};
use crate::formula::Fields;

/// Names of the companion tensors of `X.weight`.
struct Names {
    /// Suffix of the packed weight's name.
    weight: &'static str,
    scale: &'static str,
    input: &'static str,
    /// Whether values are divided by the scales.
    is_inverse: bool,
}

const MODELOPT: Names = Names { weight: ".weight", scale: ".weight_scale_2", input: ".input_scale", is_inverse: false };
const COMPRESSED: Names =
    Names { weight: ".weight_packed", scale: ".weight_global_scale", input: ".input_global_scale", is_inverse: true };

/// Finds the NVFP4 weights of a checkpoint. Weights with other scales are left to the method.
pub(super) fn find(found: &mut FoundWeights<'_>, is_compressed: bool) -> Result<(), Problem> {
    let names = if is_compressed { COMPRESSED } else { MODELOPT };
    for (codes, tensor) in found.tensors() {
        if [".k_scale", ".v_scale"].iter().any(|end| tensor.name.ends_with(end)) {
            found.consumed.insert(codes);
        }
        let Some(base) = tensor.name.strip_suffix(names.weight) else { continue };
        let (scales, of_scales) = match found.find(&format!("{base}.weight_scale")) {
            Some(scales) => scales,
            None if is_compressed => found.need(&format!("{base}.weight_scale"), tensor)?,
            None => continue,
        };
        // 8-bit floats have scales per row or per tensor.
        if !is_compressed && tensor.dtype.name != "U8" {
            continue;
        }
        let (shape, blocks) = of_rows(Format::NVFP4, (codes, tensor), (scales, of_scales))?;
        let mut scale = |end: &str| {
            let value = found.single(&format!("{base}{end}"))?.unwrap_or(1.0);
            Ok::<_, Problem>(if names.is_inverse { 1.0 / value } else { value })
        };
        let scales_of_tensor = TensorScales { weight: scale(names.scale)?, input: scale(names.input)? };
        let name = format!("{base}.weight");
        if is_compressed && found.find(&name).is_some() {
            return Err(problem(tensor, format!("is present together with {name:?}, which replaces it")).into());
        }
        found.consumed.insert(scales);
        found.scales.push((name.clone(), scales_of_tensor));
        let tensor = SourceTensor { name, dtype: Dtype::NVFP4, shape };
        let new = Replacement { tensor, form: Form::Blocks(blocks), format: "NVFP4".to_owned() };
        found.replaced.insert(codes, new);
    }
    Ok(())
}

/// The algorithms in a configuration, for the whole checkpoint and for individual modules.
#[derive(Debug, Clone, Default)]
pub(super) struct Algorithms {
    pub(super) of_all: Option<String>,
    /// Algorithms by module name.
    pub(super) of_parts: HashMap<String, Option<String>>,
}

impl Algorithms {
    /// Reads `quant_algo` and `quantized_layers`.
    pub(super) fn new(of_all: &Json, layers: &Json) -> Algorithms {
        let text = |value: &Json| value.as_str().map(str::to_owned);
        let of_part = |(name, part): (&String, &Json)| {
            part.is_object().then(|| (name.clone(), text(part.get("quant_algo").unwrap_or(&Json::Null))))
        };
        let of_parts = layers.as_object().map(|parts| parts.iter().filter_map(of_part).collect()).unwrap_or_default();
        Algorithms { of_all: text(of_all), of_parts }
    }

    /// Whether the checkpoint may contain NVFP4 tensors.
    pub(super) fn name_nvfp4(&self) -> bool {
        let mut of_parts = self.of_parts.values().flatten();
        matches!(self.of_all.as_deref(), Some("NVFP4" | W4A16)) || of_parts.any(|name| name.ends_with("NVFP4"))
    }

    /// Whether a weight is multiplied with 16-bit activations: the innermost listed module decides.
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

/// The algorithm that does not quantize activations.
const W4A16: &str = "W4A16_NVFP4";

/// Moves the NVFP4 tensors before all others, each followed by its scales, in the reference's order. Returns key-values about them, by name.
///
/// Expert tensors are placed where the last expert is stored if the configuration has the number of experts under a name known to the reference,
/// otherwise after all other NVFP4 tensors.
pub(super) fn arrange(
    scales: &HashMap<String, TensorScales>,
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
                let places = inputs.iter().map(|input| input.index());
                let is_last = inputs.len() > 1 && !has_number;
                let place = if is_last { places.min() } else { places.max() };
                packed.push(((is_last, place), tensor));
            }
        }
    }
    packed.compact_sort_by_key(|(place, _)| *place);
    let mut precise = Vec::new();
    for (_, tensor) in packed {
        let name = tensor.shown();
        let inputs = tensor.op.inputs();
        let found: Vec<TensorScales> = inputs.iter().filter_map(|input| scales.get(&*input.name).copied()).collect();
        if let Some(first) = inputs.first() {
            let part = if inputs.len() > 1 { without_number(&first.name) } else { first.name.to_string() };
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
    precise.compact_sort_by(Ord::cmp);
    if precise.is_empty() {
        return Vec::new();
    }
    let may_round = vec![false; precise.len()];
    vec![
        (keys::GENERAL_TENSOR_EXTRA_NAME.to_owned(), precise.into()),
        (keys::GENERAL_TENSOR_EXTRA_PREC_A4.to_owned(), may_round.into()),
    ]
}

/// Whether scales are 1, with the reference's tolerance: a single scale (`_scale_is_trivial`) or the scales of experts (`numpy.allclose`).
fn is_trivial(scales: &[f32]) -> bool {
    match scales {
        [scale] => (f64::from(*scale) - 1.0).abs() < 1e-6,
        scales => scales.iter().all(|scale| (f64::from(*scale) - 1.0).abs() <= 1e-6 + 1e-5),
    }
}

/// The tensor name of an expert without the expert's index.
fn without_number(name: &str) -> String {
    let Some((before, rest)) = name.split_once(".experts.") else { return name.to_owned() };
    match rest.split_once('.') {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => format!("{before}.experts.{rest}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use gguf_pipeline::plan::{Gather, Input};
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

    /// Two experts and an NVFP4 matrix after a plain tensor. The experts are placed where the last of them is stored, or last if the
    /// configuration does not have their number under a name known to the reference.
    #[test]
    fn order_and_scales_are_those_of_the_reference() {
        let input = |index, name: &str| Input::new(index, name, GgmlType::NVFP4);
        let experts = [input(1, "l.mlp.experts.0.up_proj.weight"), input(4, "l.mlp.experts.1.up_proj.weight")];
        let tensor = |name: &str, op: Op| TensorPlan::new(name, vec![64, 1], op.value_type(), Reason::Asked, op);
        let plan = || {
            let plain = Input::new(0, "l.norm.weight", GgmlType::F32);
            vec![
                tensor("blk.0.attn_norm.weight", Op::Copy(plain)),
                tensor(
                    "blk.0.ffn_up_exps.weight",
                    Op::Gather(Box::new(Gather { inputs: experts.to_vec(), moves: Vec::new(), maps: Vec::new() })),
                ),
                tensor("blk.0.attn_q.weight", Op::Copy(input(3, "l.self_attn.q_proj.weight"))),
            ]
        };
        let scales = HashMap::from([
            ("l.mlp.experts.0.up_proj.weight".to_owned(), TensorScales { weight: 1.0, input: 1.0 }),
            ("l.mlp.experts.1.up_proj.weight".to_owned(), TensorScales { weight: 0.5, input: 1.0 }),
            ("l.self_attn.q_proj.weight".to_owned(), TensorScales { weight: 1.0, input: 0.25 }),
        ]);
        let algorithms = Algorithms::new(
            &json!("NVFP4"),
            &json!({"l.mlp.experts": {"quant_algo": W4A16}, "l.norm": {"quant_algo": W4A16}}),
        );
        for config in [json!({"num_experts": 2}), json!({"n_routed_experts": 2})] {
            let fields = Fields::of(config.as_object().unwrap().clone(), 1);
            let mut tensors = plan();
            let kvs = arrange(&scales, &algorithms, &fields, &mut tensors);
            let names: Vec<String> = tensors.iter().map(TensorPlan::shown).collect();
            let expected = [
                "blk.0.attn_q.weight",
                "blk.0.attn_q.input_scale",
                "blk.0.ffn_up_exps.weight",
                "blk.0.ffn_up_exps.scale",
                "blk.0.attn_norm.weight",
            ];
            assert_eq!(names, expected, "{config}");
            assert_eq!(tensors[1].op, Op::Computed(vec![0.25]));
            assert_eq!((&tensors[3].op, &*tensors[3].shape), (&Op::Computed(vec![1.0, 0.5]), &[2][..]));
            assert_eq!(kvs[0], (keys::GENERAL_TENSOR_EXTRA_NAME.to_owned(), vec!["blk.0.ffn_up_exps.weight"].into()));
            assert_eq!(kvs[1].1, vec![false].into());
        }
        // The last expert is stored before the matrix.
        let mut tensors = plan();
        tensors[2].origin_mut().op = Op::Copy(input(9, "l.self_attn.q_proj.weight"));
        let (mut known, mut unknown) = (tensors.clone(), tensors);
        let fields = |config: Json| Fields::of(config.as_object().unwrap().clone(), 1);
        arrange(&scales, &algorithms, &fields(json!({"num_local_experts": 2})), &mut known);
        arrange(&scales, &algorithms, &fields(json!({})), &mut unknown);
        assert_eq!(known[0].shown(), "blk.0.ffn_up_exps.weight");
        assert_eq!(unknown[0].shown(), "blk.0.attn_q.weight");
    }
}
