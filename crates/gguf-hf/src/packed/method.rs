//! The quantization method of a checkpoint, read from its configuration, and the packed tensors it implies.

use serde_json::Value;

use super::blocks::Format;
use super::companion::{dims, expect, expect_shape, problem, scales};
use super::data::Data;
use super::found::{Form, FoundWeights, Problem, Replacement};
use super::groups::{Groups, Order, PackedRows, Ternary, Transposed};
use super::nvfp4::{self, Algorithms};
use super::ranks::Ranks;
use super::{bitsandbytes, deepseek4, image, mxfp4};
use crate::config::{Config, Error as ConfigError};
use crate::documents::Documents;
use crate::dtype::{Dtype, SourceTensor};
use crate::error::Error;
use crate::json::field;
use crate::model_plan::{OutType, PlanError};
use crate::number::{to_index, to_u32};

/// The key in `config.json`.
const FIELD: &str = "quantization_config";

/// Names of the supported methods, for messages.
const METHODS: &[&str] =
    &["awq", "bitnet", "bitsandbytes", "compressed-tensors", "fbgemm_fp8", "fp8", "gptq", "modelopt", "mxfp4"];

/// Supported formats of compressed-tensors.
const NVFP4_PACKED: &str = "nvfp4-pack-quantized";
const MXFP4_PACKED: &str = "mxfp4-pack-quantized";
const MIXED: &str = "mixed-precision";

/// `general.file_type` of files with experts in MXFP4.
const MOSTLY_MXFP4_MOE: u32 = 38;

/// The packing of a checkpoint's weights.
#[derive(Debug, Clone, Default)]
pub(crate) struct Method {
    /// The name; empty if the configuration names no method.
    pub(super) name: String,
    /// `quantization_config`.
    pub(super) config: Value,
    /// The `quant_algo` and `quantized_layers` fields, from `quantization_config` or ModelOpt's own file.
    pub(super) algorithms: Algorithms,
    pub(super) is_nvfp4: bool,
    /// The configuration of a model that stores queries, keys and values by rank; otherwise null.
    pub(super) by_ranks: Value,
}

impl Method {
    /// The method of image models, which have no configuration.
    pub(crate) fn image() -> Method {
        Method { name: image::NAME.to_owned(), ..Method::default() }
    }

    /// The method implied by the class of the checkpoint, if any.
    fn of_class(class: &str) -> Option<Method> {
        let is_deepseek4 = class.starts_with(deepseek4::CLASSES);
        is_deepseek4.then(|| Method { name: deepseek4::NAME.to_owned(), ..Method::default() })
    }

    /// Reads the method from the files of a folder.
    ///
    /// # Errors
    /// If fields have unexpected types or the method is unknown.
    pub(crate) fn of(files: &Documents<'_>, config: &Config) -> Result<Method, Error> {
        if let Some(method) = config.architecture().ok().and_then(Method::of_class) {
            return Ok(method);
        }
        let wrong = |source: PlanError| Error::Plan { path: files.path().to_owned(), source };
        let section = config.hparams().get(FIELD).cloned().unwrap_or_default();
        if !section.is_object() && !section.is_null() {
            return Err(wrong(ConfigError::invalid(FIELD, &section, "an object or null").into()));
        }
        let mut method = Method { config: section, ..Method::default() };
        if config.architecture().is_ok_and(|class| class.starts_with("MiMoV2")) {
            method.by_ranks = config.hparams().clone();
        }
        method.name = match field(&method.config, "quant_method") {
            Value::Null => String::new(),
            Value::String(name) => name.clone(),
            other => {
                return Err(wrong(ConfigError::invalid("quantization_config.quant_method", other, "a string").into()));
            }
        };
        let (mut algorithm, mut layers) =
            (field(&method.config, "quant_algo"), field(&method.config, "quantized_layers"));
        let (mut format, mut groups) = (field(&method.config, "format"), field(&method.config, "config_groups"));
        // ModelOpt describes its method in a separate file.
        let file = match is_filled(algorithm) && is_filled(layers) {
            true => None,
            false => files.json("hf_quant_config.json")?,
        };
        if let Some(file) = &file {
            if method.name.is_empty() {
                method.name = field(field(file, "producer"), "name").as_str().unwrap_or_default().to_lowercase();
            }
            let fields = [
                ("quant_algo", &mut algorithm),
                ("quantized_layers", &mut layers),
                ("format", &mut format),
                ("config_groups", &mut groups),
            ];
            for (name, field) in fields {
                *field = file["quantization"].get(name).unwrap_or(*field);
            }
        }
        let mut groups = groups.as_object().into_iter().flat_map(|groups| groups.values());
        let is_compressed = method.name == "compressed-tensors"
            && (format == NVFP4_PACKED
                || format == MIXED && groups.clone().count() > 0 && groups.all(|g| g["format"] == NVFP4_PACKED));
        let algorithms = Algorithms::new(algorithm, layers);
        let is_nvfp4 = is_compressed || algorithms.name_nvfp4();
        let algorithm = algorithm.as_str().map(str::to_owned);
        (method.algorithms, method.is_nvfp4) = (algorithms, is_nvfp4);
        if method.name.is_empty() && !method.config.is_null() {
            return Err(wrong(PlanError::Quantized { method: "unnamed".to_owned(), supported: METHODS }));
        }
        if !method.name.is_empty() && !METHODS.contains(&method.name.as_str()) {
            return Err(wrong(PlanError::Quantized { method: method.name, supported: METHODS }));
        }
        if let Some(algorithm) = algorithm.filter(|name| name.contains("FP4"))
            && !method.is_nvfp4
        {
            let method = format!("{} {algorithm}", method.name);
            return Err(wrong(PlanError::Quantized { method, supported: METHODS }));
        }
        Ok(method)
    }

    /// The `general.file_type` of an output that keeps packed weights, if matrices of other weights get that type. If the experts of a
    /// checkpoint in another format are in MXFP4, the reference uses the MXFP4 type regardless of the requested one.
    pub(crate) fn file_type(&self, asked: OutType) -> Option<u32> {
        match self.has_mxfp4_rows() || self.name == deepseek4::NAME {
            true => Some(MOSTLY_MXFP4_MOE),
            false => self.encoder_file_type(asked),
        }
    }

    /// The `general.file_type` of a file with the encoders of the checkpoint, to which the rules for experts do not apply (`ModelBase.prepare_metadata`).
    pub(crate) fn encoder_file_type(&self, asked: OutType) -> Option<u32> {
        const MOSTLY_NVFP4: u32 = 39;
        let is_float = !matches!(asked, OutType::Q8_0 | OutType::TQ1_0 | OutType::TQ2_0);
        match self.name.as_str() {
            _ if self.is_nvfp4 && is_float => Some(MOSTLY_NVFP4),
            "mxfp4" if is_float => Some(MOSTLY_MXFP4_MOE),
            _ => None,
        }
    }

    /// Whether matrices are stored by rows in MXFP4.
    fn has_mxfp4_rows(&self) -> bool {
        let is_packed = self.name == "compressed-tensors" && *field(&self.config, "format") == MXFP4_PACKED;
        is_packed || *field(&self.config, "store_dtype") == "mxfp4"
    }

    /// The quantization algorithms in the configuration.
    pub(super) fn algorithms(&self) -> Algorithms {
        self.algorithms.clone()
    }

    /// Finds the packed weights.
    pub(super) fn find(&self, found: &mut FoundWeights<'_>) -> Result<(), Problem> {
        if self.is_nvfp4 {
            let is_compressed = self.name == "compressed-tensors";
            nvfp4::find(found, is_compressed)?;
            if is_compressed {
                return Ok(());
            }
        }
        if *field(&self.config, "store_dtype") == "mxfp4" {
            match field(&self.config, "mxfp4_block_size") {
                Value::Null => {}
                size if size.as_u64() == Some(Format::MXFP4.len()) => {}
                size => return Err(ConfigError::invalid("quantization_config.mxfp4_block_size", size, "32").into()),
            }
            mxfp4::find_rows(found, ".weight")?;
        }
        match self.name.as_str() {
            "" => Ok(()),
            image::NAME => image::find(found),
            deepseek4::NAME => Ok(deepseek4::find(found)?),
            "fp8" | "fbgemm_fp8" => Ok(self.fp8(found)?),
            "modelopt" => Ok(modelopt(found)?),
            "mxfp4" => Ok(mxfp4::find(found)?),
            "bitnet" => Ok(bitnet(found)?),
            "bitsandbytes" => bitsandbytes::find(found),
            "gptq" => self.gptq(found),
            "awq" => Ok(self.awq(found)?),
            _ => self.compressed(found),
        }
    }

    /// A numeric field; `None` if it is missing, null or -1.
    fn number(&self, object: &Value, path: &str, name: &str) -> Result<Option<u64>, ConfigError> {
        match &object[name] {
            Value::Null => Ok(None),
            value if value.as_i64() == Some(-1) => Ok(None),
            value => match value.as_u64().filter(|n| (1..=u64::from(u32::MAX)).contains(n)) {
                Some(n) => Ok(Some(n)),
                None => Err(ConfigError::invalid(format!("{path}.{name}"), value, "a positive whole number")),
            },
        }
    }

    /// A list of block lengths.
    fn blocks(&self, object: &Value, path: &str, name: &str) -> Result<Vec<u64>, ConfigError> {
        let value = &object[name];
        let list = match value {
            Value::Null => return Ok(Vec::new()),
            Value::Array(list) => list.iter().map(|n| n.as_u64().filter(|n| *n > 0)).collect::<Option<Vec<_>>>(),
            Value::String(text) => text.split('x').map(|n| n.parse().ok().filter(|n| *n > 0)).collect(),
            _ => None,
        };
        let list = list.filter(|list| (1..=2).contains(&list.len()));
        list.ok_or_else(|| {
            ConfigError::invalid(format!("{path}.{name}"), value, "the lengths of blocks, such as [128, 128]")
        })
    }

    /// FP8 in the layouts of transformers and vLLM, under all names in use: `X_scale_inv`, `X.weight_scale`, and Mistral's `X.qscale_weight`.
    fn fp8(&self, found: &mut FoundWeights<'_>) -> Result<(), PlanError> {
        let blocks = self.blocks(&self.config, FIELD, "weight_block_size")?;
        for (index, tensor) in found.tensors() {
            if found.consumed.contains(&index) {
                continue;
            }
            let name = tensor.name.as_str();
            let weight = if let Some(weight) = name.strip_suffix("_scale_inv") {
                weight.to_owned()
            } else if let Some(weight) = name.strip_suffix(".weight_scale") {
                format!("{weight}.weight")
            } else if let Some(before) = name.strip_suffix("qscale_weight").filter(|before| before.ends_with('.')) {
                format!("{before}weight")
            } else {
                // Scales of activations and of the KV cache.
                const UNUSED: &[&str] = &[
                    ".activation_scale",
                    "_activation_scale",
                    ".qscale_act",
                    ".input_scale",
                    ".input_scale_ub",
                    ".output_scale",
                    ".k_scale",
                    ".v_scale",
                    ".kv_scale",
                ];
                if UNUSED.iter().any(|end| name.ends_with(end)) {
                    found.consumed.insert(index);
                }
                continue;
            };
            let weight = found.need(&weight, tensor)?;
            if let Some(sizes) = self.rows_by_ranks(name)? {
                let ranks = Ranks::new(weight, (index, tensor), sizes)?;
                let (format, form) = (format!("{} by ranks", weight.1.dtype), Form::Decoded(weight.0, Box::new(ranks)));
                let new = SourceTensor { dtype: Dtype::F32, ..weight.1.clone() };
                found.consumed.insert(index);
                found.replaced.insert(weight.0, Replacement { tensor: new, form, format });
                continue;
            }
            found.scale(weight, Some((index, tensor)), &blocks, "")?;
        }
        Ok(())
    }

    /// Numbers of query, key and value rows, for the scales of a matrix stored by rank. Multi-token prediction blocks use sliding-window
    /// attention.
    fn rows_by_ranks(&self, scales: &str) -> Result<Option<[u64; 3]>, ConfigError> {
        let Some(block) =
            scales.strip_suffix(".self_attn.qkv_proj.weight_scale_inv").filter(|_| !self.by_ranks.is_null())
        else {
            return Ok(None);
        };
        let number = block.strip_prefix("model.layers.").and_then(|number| number.parse::<usize>().ok());
        let has_window = number.is_none_or(|number| {
            self.by_ranks
                .get("hybrid_layer_pattern")
                .and_then(|blocks| blocks.get(number))
                .is_some_and(|kind| *kind == 1)
        });
        let number = |name: &str| {
            let value = field(&self.by_ranks, name);
            let found = value.as_u64().filter(|n| (1..1 << 20).contains(n));
            found.ok_or_else(|| ConfigError::invalid(name, value, "a positive whole number"))
        };
        let keys = number(if has_window { "swa_num_key_value_heads" } else { "num_key_value_heads" })?;
        let (queries, key, value) = (number("num_attention_heads")?, number("head_dim")?, number("v_head_dim")?);
        Ok(Some([queries * key, keys * key, keys * value]))
    }

    fn gptq(&self, found: &mut FoundWeights<'_>) -> Result<(), Problem> {
        let bits = match self.number(&self.config, FIELD, "bits")? {
            Some(bits @ (2 | 3 | 4 | 8)) => bits,
            _ => {
                let found = field(&self.config, "bits");
                return Err(ConfigError::invalid("quantization_config.bits", found, "2, 3, 4 or 8").into());
            }
        };
        let zero_offset = match field(&self.config, "checkpoint_format") {
            Value::Null => 1,
            value => match value.as_str() {
                Some("gptq") => 1,
                Some("gptq_v2") => 0,
                _ => {
                    let expected = "\"gptq\" or \"gptq_v2\"";
                    return Err(ConfigError::invalid("quantization_config.checkpoint_format", value, expected).into());
                }
            },
        };
        let group_size = self.number(&self.config, FIELD, "group_size")?;
        for (words, tensor) in found.tensors() {
            let Some(base) = tensor.name.strip_suffix(".qweight") else { continue };
            let [n_words, n_outputs] = matrix_of_words(tensor)?;
            let n_inputs = n_words.checked_mul(32).filter(|n| n % bits == 0).map(|n| n / bits);
            let Some(n_inputs) = n_inputs.filter(|_| n_outputs * bits % 32 == 0) else {
                let text = format!("has the shape {:?}, which is not whole words of {bits} bits", tensor.shape);
                return Err(problem(tensor, text).into());
            };
            let (at, of_scales) = found.need_scales(&format!("{base}.scales"), tensor)?;
            let n_groups = of_scales.shape.first().copied().unwrap_or(0);
            expect_shape(of_scales, &[n_groups, n_outputs])?;
            let zeros = found.need_words(&format!("{base}.qzeros"), tensor, &[n_groups, n_outputs * bits / 32])?;
            let groups = match found.find(&format!("{base}.g_idx")) {
                Some((index, listed)) => {
                    expect(listed, "I32", &[n_inputs])?;
                    check_groups(found, index, listed, n_groups)?;
                    found.consumed.insert(index);
                    Groups::Listed(index)
                }
                None => Groups::Of(group_len(of_scales, n_inputs, n_groups, group_size)?),
            };
            let order = Order::Gptq { zero_offset };
            found.consumed.extend([words, zeros, at.index]);
            let (bits, scales, is_rounded) = (to_u32(to_index(bits)), at, bits == 3);
            let matrix = Transposed { order, bits, words, zeros, scales, n_outputs, n_groups, groups, is_rounded };
            let format = format!("GPTQ, {bits} bits");
            found.push(format!("{base}.weight"), vec![n_outputs, n_inputs], words, matrix, format);
        }
        Ok(())
    }

    fn awq(&self, found: &mut FoundWeights<'_>) -> Result<(), PlanError> {
        let bits = ["bits", "w_bit"].into_iter().find(|name| !field(&self.config, name).is_null()).unwrap_or("bits");
        if self.number(&self.config, FIELD, bits)? != Some(4) {
            return Err(ConfigError::invalid(format!("{FIELD}.{bits}"), field(&self.config, bits), "4").into());
        }
        if let Value::String(version) = field(&self.config, "version")
            && !version.eq_ignore_ascii_case("gemm")
        {
            return Err(ConfigError::invalid(
                "quantization_config.version",
                field(&self.config, "version"),
                "\"gemm\"",
            )
            .into());
        }
        let name = if field(&self.config, "group_size").is_null() { "q_group_size" } else { "group_size" };
        let group_size = self.number(&self.config, FIELD, name)?;
        for (words, tensor) in found.tensors() {
            let Some(base) = tensor.name.strip_suffix(".qweight") else { continue };
            let [n_inputs, n_words] = matrix_of_words(tensor)?;
            let n_outputs = n_words * 8;
            let (at, of_scales) = found.need_scales(&format!("{base}.scales"), tensor)?;
            let n_groups = of_scales.shape.first().copied().unwrap_or(0);
            expect_shape(of_scales, &[n_groups, n_outputs])?;
            let zeros = found.need_words(&format!("{base}.qzeros"), tensor, &[n_groups, n_words])?;
            let groups = Groups::Of(group_len(of_scales, n_inputs, n_groups, group_size)?);
            found.consumed.extend([words, zeros, at.index]);
            let (order, bits, scales, is_rounded) = (Order::Awq, 4, at, true);
            let matrix = Transposed { order, bits, words, zeros, scales, n_outputs, n_groups, groups, is_rounded };
            let (name, shape) = (format!("{base}.weight"), vec![n_outputs, n_inputs]);
            found.push(name, shape, words, matrix, "AWQ, 4 bits".to_owned());
        }
        Ok(())
    }

    fn compressed(&self, found: &mut FoundWeights<'_>) -> Result<(), Problem> {
        let format = match field(&self.config, "format") {
            Value::String(format) => format.as_str(),
            other => return Err(ConfigError::invalid("quantization_config.format", other, "a string").into()),
        };
        if format == MXFP4_PACKED {
            return Ok(mxfp4::find_rows(found, ".weight_packed")?);
        }
        const GROUPS: &str = "quantization_config.config_groups";
        let groups = field(&self.config, "config_groups");
        let list = groups.as_object().filter(|groups| groups.len() == 1);
        let Some(weights) = list.and_then(|groups| groups.values().next()).map(|group| &group["weights"]) else {
            return Err(ConfigError::invalid(GROUPS, groups, "an object with one group").into());
        };
        const WEIGHTS: &str = "quantization_config.config_groups.weights";
        if !weights.is_object() {
            return Err(ConfigError::invalid(WEIGHTS, weights, "an object").into());
        }
        let group_size = self.number(weights, WEIGHTS, "group_size")?;
        match format {
            "float-quantized" | "int-quantized" | "naive-quantized" => {
                let mut blocks = self.blocks(weights, WEIGHTS, "block_structure")?;
                if let Some(len) = group_size {
                    blocks = vec![len];
                }
                for (index, tensor) in found.tensors() {
                    let Some(weight) = tensor.name.strip_suffix("_scale").filter(|name| name.ends_with(".weight"))
                    else {
                        const UNUSED: &[&str] = &[".input_scale", ".output_scale", ".k_scale", ".v_scale"];
                        if UNUSED.iter().any(|end| tensor.name.ends_with(end)) {
                            found.consumed.insert(index);
                        }
                        continue;
                    };
                    let weight = found.need(weight, tensor)?;
                    found.scale(weight, Some((index, tensor)), &blocks, " (compressed-tensors)")?;
                }
                Ok(())
            }
            "pack-quantized" => {
                let bits = self.number(weights, WEIGHTS, "num_bits")?.filter(|bits| *bits <= 8);
                let Some(bits) = bits else {
                    let found = &weights["num_bits"];
                    return Err(ConfigError::invalid(format!("{WEIGHTS}.num_bits"), found, "1 to 8").into());
                };
                if let Value::String(kind) = &weights["type"]
                    && kind != "int"
                {
                    return Err(ConfigError::invalid(format!("{WEIGHTS}.type"), &weights["type"], "\"int\"").into());
                }
                pack_quantized(found, bits, group_size)
            }
            other => {
                let method = format!("compressed-tensors {other}");
                Err(PlanError::Quantized { method, supported: METHODS }.into())
            }
        }
    }
}

fn pack_quantized(found: &mut FoundWeights<'_>, bits: u64, group_size: Option<u64>) -> Result<(), Problem> {
    let per_word = 32 / bits;
    for (words, tensor) in found.tensors() {
        let Some(base) = tensor.name.strip_suffix("_packed").filter(|name| name.ends_with(".weight")) else { continue };
        let [n_rows, row_words] = matrix_of_words(tensor)?;
        let (shape, of_shape) = found.need(&format!("{base}_shape"), tensor)?;
        let [rows, columns] = shape_of(found, shape, of_shape)?;
        if rows != n_rows || columns.div_ceil(per_word) != row_words {
            let text =
                format!("has the shape {:?}, which is not that of {bits} bits for [{rows}, {columns}]", tensor.shape);
            return Err(problem(tensor, text).into());
        }
        let (at, of_scales) = found.need_scales(&format!("{base}_scale"), tensor)?;
        let n_groups = of_scales.shape.get(1).copied().unwrap_or(1);
        if of_scales.shape != [rows, n_groups] && of_scales.shape != [rows] {
            expect_shape(of_scales, &[rows, n_groups])?;
        }
        let zeros = match found.find(&format!("{base}_zero_point")) {
            Some((index, zeros)) => {
                expect(zeros, "I32", &[rows.div_ceil(per_word), n_groups])?;
                Some(index)
            }
            None => None,
        };
        let groups = match found.find(&format!("{base}_g_idx")) {
            Some((index, listed)) => {
                expect(listed, "I32", &[columns])?;
                check_groups(found, index, listed, n_groups)?;
                found.consumed.insert(index);
                Groups::Listed(index)
            }
            None => Groups::Of(group_len(of_scales, columns, n_groups, group_size)?),
        };
        found.consumed.extend([words, shape, at.index]);
        found.consumed.extend(zeros);
        let matrix = PackedRows { bits: to_u32(to_index(bits)), words, row_words, zeros, scales: at, n_groups, groups };
        let format = format!("integers of {bits} bits (compressed-tensors)");
        found.push(base.to_owned(), vec![rows, columns], words, matrix, format);
    }
    Ok(())
}

/// FP8 of ModelOpt: one scale per tensor or per row.
fn modelopt(found: &mut FoundWeights<'_>) -> Result<(), PlanError> {
    for (index, tensor) in found.tensors() {
        if found.consumed.contains(&index) {
            continue;
        }
        if let Some(weight) = tensor.name.strip_suffix("_scale").filter(|name| name.ends_with(".weight")) {
            match found.find(weight) {
                Some(weight) => found.scale(weight, Some((index, tensor)), &[], "")?,
                None => _ = found.consumed.insert(index),
            }
        } else if [".input_scale", ".k_scale", ".v_scale"].iter().any(|end| tensor.name.ends_with(end)) {
            found.consumed.insert(index);
        }
    }
    Ok(())
}

fn bitnet(found: &mut FoundWeights<'_>) -> Result<(), PlanError> {
    for (index, tensor) in found.tensors() {
        let Some(weight) = tensor.name.strip_suffix("_scale").filter(|name| name.ends_with(".weight")) else {
            continue;
        };
        let (bytes, weight) = found.need(weight, tensor)?;
        let scale = scales(index, tensor)?;
        if tensor.shape.iter().product::<u64>() != 1 {
            return Err(problem(tensor, format!("has the shape {:?}, expected one scale", tensor.shape)));
        }
        let [n_rows, columns] = weight.shape[..] else {
            return Err(problem(weight, format!("has the shape {:?}, expected two dimensions", weight.shape)));
        };
        let rows = n_rows.checked_mul(4).filter(|_| weight.dtype.name == "U8");
        let Some(rows) = rows else {
            return Err(problem(weight, format!("has the format {}, expected U8", weight.dtype)));
        };
        found.consumed.insert(index);
        let new = SourceTensor { dtype: Dtype::F32, shape: vec![rows, columns], ..weight.clone() };
        let form = Form::Decoded(bytes, Box::new(Ternary { bytes, n_rows, columns, scale }));
        found.replaced.insert(bytes, Replacement { tensor: new, form, format: "ternary values (BitNet)".to_owned() });
    }
    Ok(())
}

/// Whether a field is set to a non-empty value.
fn is_filled(field: &Value) -> bool {
    match field {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

/// The two dimensions of a tensor of words.
fn matrix_of_words(tensor: &SourceTensor) -> Result<[u64; 2], PlanError> {
    if tensor.dtype.name != "I32" {
        return Err(problem(tensor, format!("has the format {}, expected I32", tensor.dtype)));
    }
    match tensor.shape[..] {
        // Bounds the dimensions so that element counts cannot overflow.
        [rows, columns] if rows.max(columns) < 1 << 40 && rows.checked_mul(columns).is_some_and(|n| n < 1 << 48) => {
            Ok([rows, columns])
        }
        _ => Err(problem(tensor, format!("has the shape {:?}, expected two dimensions of at least 1", tensor.shape))),
    }
}

/// The length of the groups, which fill a row in order.
fn group_len(scales: &SourceTensor, n: u64, n_groups: u64, configured: Option<u64>) -> Result<u64, PlanError> {
    let len = configured.unwrap_or(n).min(n).max(1);
    match n.div_ceil(len) == n_groups && n.is_multiple_of(len) {
        true => Ok(len),
        false => Err(problem(
            scales,
            format!("has the shape {}, which is not that of groups of {len} among {n} inputs", dims(&scales.shape)),
        )),
    }
}

/// Checks that the group index of every input exists.
fn check_groups(found: &FoundWeights<'_>, index: usize, listed: &SourceTensor, n_groups: u64) -> Result<(), Problem> {
    const AT_ONCE: usize = 1 << 16;
    let n = listed.shape.first().copied().unwrap_or(0);
    let data = Data { checkpoint: found.checkpoint, tensor: listed };
    for first in (0..n).step_by(AT_ONCE) {
        let words = data.words(index, 1, first..n.min(first + AT_ONCE as u64), 0..1)?;
        if let Some(place) = words.iter().position(|word| u64::from(*word) >= n_groups) {
            let (group, at) = (words.get(place).map_or(0, |word| *word as i32), first + place as u64);
            let text =
                format!("names the group {group} for input {at} (byte {}), and there are {n_groups} groups", at * 4);
            return Err(problem(listed, text).into());
        }
    }
    Ok(())
}

/// Reads a shape stored in a small tensor.
fn shape_of(found: &FoundWeights<'_>, index: usize, tensor: &SourceTensor) -> Result<[u64; 2], Problem> {
    let width = match (tensor.dtype.name, &tensor.shape[..]) {
        ("I64", [2]) => 8,
        ("I32", [2]) => 4,
        _ => {
            let text =
                format!("has the format {} and the shape {:?}, expected I64 and [2]", tensor.dtype, tensor.shape);
            return Err(problem(tensor, text).into());
        }
    };
    let bytes = Data { checkpoint: found.checkpoint, tensor }.bytes(index, 0, 2 * width)?;
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let (rows, columns) = bytes.split_at(to_index(width));
    let shape = [number(rows), number(columns)];
    match shape.iter().all(|n| *n < 1 << 40) {
        true => Ok(shape),
        false => Err(problem(tensor, format!("holds the shape {shape:?}, which is too large")).into()),
    }
}
