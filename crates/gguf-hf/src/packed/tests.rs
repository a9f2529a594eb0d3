use std::fs;
use std::path::PathBuf;

use gguf_test::checkpoint::safetensors;
use serde_json::{Value as Json, json};

use super::data::{Number, Numbers};
use super::*;
use crate::config::Config;
use crate::documents::Documents;
use crate::dtype::Dtype;

/// A tensor to write: name, format and shape. Its data are zeros unless `data` contains others.
type Spec = (String, &'static str, Vec<u64>);

/// Size of a tensor in bytes.
fn n_bytes(dtype: &str, shape: &[u64]) -> usize {
    Dtype::from_name(dtype).unwrap().tensor_bytes(shape).unwrap() as usize
}

/// The data required by tensors with a given name.
fn data(name: &str, dtype: &str, shape: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0; n_bytes(dtype, shape)];
    let content: Vec<u8> = match name {
        "w.weight_shape" => [16u64, 64].iter().flat_map(|n| n.to_le_bytes()).collect(),
        "w.weight.quant_state.bitsandbytes__nf4" => STATE.to_vec(),
        _ => Vec::new(),
    };
    bytes.iter_mut().zip(content).for_each(|(to, from)| *to = from);
    bytes
}

const STATE: &[u8] =
    br#"{"blocksize": 64, "dtype": "bfloat16", "shape": [16, 64], "nested_blocksize": 8, "nested_offset": 0.5}"#;

/// Opens a checkpoint with these tensors; returns errors as text.
fn open(quantization: &Json, tensors: &[Spec]) -> Result<Vec<SourceTensor>, String> {
    let dir = tempfile::tempdir().unwrap();
    let list: Vec<_> = tensors.iter().map(|(n, d, s)| (n.as_str(), *d, s.as_slice(), data(n, d, s))).collect();
    fs::write(dir.path().join("model.safetensors"), safetensors(&list)).unwrap();
    open_in(dir.path(), quantization).map(|weights| weights.tensors().to_vec())
}

fn open_in(dir: &Path, quantization: &Json) -> Result<Weights, String> {
    let config = Config::raw(json!({ "architectures": ["X"], "quantization_config": quantization })).unwrap();
    let folder = dir.to_owned();
    let checkpoint = TensorFiles::open(&folder).map_err(|e| e.to_string())?;
    let method = Method::of(&Documents::new(&folder), &config).map_err(|e| e.to_string())?;
    Weights::open(dir, checkpoint, &method).map_err(|e| e.to_string())
}

/// Reads all values of a tensor in one piece and again in pieces of `at_once` values.
fn values(weights: &Weights, index: usize, at_once: usize) -> Vec<f32> {
    let n = weights.tensors()[index].shape.iter().product::<u64>() as usize;
    let decode = |bytes: &[u8]| {
        let mut values = vec![0.0; bytes.len() / 4];
        float::decode_f32(bytes, &mut values);
        values
    };
    let mut whole = vec![0; n * 4];
    weights.read(index, 0, &mut whole).unwrap();
    let mut pieces = vec![0; n * 4];
    for (i, piece) in pieces.chunks_mut(at_once * 4).enumerate() {
        weights.read(index, (i * at_once * 4) as u64, piece).unwrap();
    }
    assert_eq!(whole, pieces, "pieces of {at_once}");
    decode(&whole)
}

/// Outputs of the packages that define the formats; `tests/packed/record.py` describes how they were recorded.
#[test]
fn recorded_values_are_those_of_the_packages() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/packed");
    let bits = |config: Json, extra: Json| {
        let mut config = config;
        config.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        config
    };
    let awq = json!({"quant_method": "awq", "bits": 4, "version": "gemm"});
    let gptq = json!({"quant_method": "gptq", "bits": 3, "checkpoint_format": "gptq_v2"});
    let bnb = json!({"quant_method": "bitsandbytes"});
    let cases = [
        ("awq", bits(awq.clone(), json!({"group_size": 32}))),
        ("awq-one-group", bits(awq, json!({"group_size": -1}))),
        ("gptq3", bits(gptq.clone(), json!({"group_size": 32}))),
        ("gptq3-order", bits(gptq, json!({"group_size": 16}))),
        ("nf4", bnb.clone()),
        ("nf4-nested", bnb.clone()),
        ("nf4-stored-as-bf16", bnb.clone()),
        ("fp4", bnb.clone()),
        ("fp4-nested", bnb.clone()),
        ("int8", bnb),
    ];
    for (name, quantization) in cases {
        let dir = tempfile::tempdir().unwrap();
        fs::copy(folder.join(format!("{name}.safetensors")), dir.path().join("model.safetensors")).unwrap();
        let weights = open_in(dir.path(), &quantization).unwrap_or_else(|e| panic!("{name}: {e}"));
        let names: Vec<&str> = weights.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
        assert_eq!(names, ["decoded", "w.weight"], "{name}");
        let [expected, found] = weights.tensors() else { unreachable!() };
        assert_eq!(expected.shape, found.shape, "{name}");
        let numbers = Numbers { index: 0, number: Number::of(expected.dtype).unwrap() };
        let data = Data { checkpoint: weights.checkpoint(), tensor: expected };
        let recorded = data.numbers(numbers, 0, expected.shape.iter().product()).unwrap();
        for at_once in [1, 7, 64, 100] {
            let decoded = values(&weights, 1, at_once);
            let differ = recorded.iter().zip(&decoded).position(|(a, b)| a.to_bits() != b.to_bits());
            assert_eq!(differ.map(|i| (i, recorded[i], decoded[i])), None, "{name}");
        }
        assert!(recorded.iter().any(|v| *v != 0.0));
        assert_eq!(weights.unpacked().len(), 1, "{name}");
    }
}

/// A valid checkpoint of each kind, and its tensors that are optional or may be longer.
fn sound() -> Vec<(&'static str, Json, Vec<Spec>, &'static [&'static str])> {
    let t = |name: &str, dtype, shape: &[u64]| (format!("w.{name}"), dtype, shape.to_vec());
    let gptq = |bits: u64| json!({"quant_method": "gptq", "bits": bits, "group_size": 32});
    let compressed = |format: &str, weights: Json| json!({"quant_method": "compressed-tensors", "format": format, "config_groups": {"group_0": {"weights": weights}}});
    vec![
        (
            "gptq 4",
            gptq(4),
            vec![
                t("qweight", "I32", &[8, 16]),
                t("qzeros", "I32", &[2, 2]),
                t("scales", "F16", &[2, 16]),
                t("g_idx", "I32", &[64]),
            ],
            &["w.g_idx"],
        ),
        (
            "gptq 3",
            gptq(3),
            vec![t("qweight", "I32", &[6, 32]), t("qzeros", "I32", &[2, 3]), t("scales", "BF16", &[2, 32])],
            &[],
        ),
        (
            "awq",
            json!({"quant_method": "awq", "bits": 4, "group_size": 32}),
            vec![t("qweight", "I32", &[64, 2]), t("qzeros", "I32", &[2, 2]), t("scales", "F16", &[2, 16])],
            &[],
        ),
        (
            "pack-quantized",
            compressed("pack-quantized", json!({"num_bits": 4, "group_size": 32, "type": "int"})),
            vec![
                t("weight_packed", "I32", &[16, 8]),
                t("weight_scale", "BF16", &[16, 2]),
                t("weight_shape", "I64", &[2]),
                t("weight_zero_point", "I32", &[2, 2]),
            ],
            &["w.weight_zero_point"],
        ),
        (
            "int-quantized",
            compressed("int-quantized", json!({"num_bits": 8, "strategy": "channel"})),
            vec![t("weight", "I8", &[16, 64]), t("weight_scale", "BF16", &[16, 1])],
            &["w.weight_scale"],
        ),
        (
            "fp8 in blocks",
            json!({"quant_method": "fp8", "weight_block_size": [8, 32]}),
            vec![t("weight", "F8_E4M3", &[16, 64]), t("weight_scale_inv", "F32", &[2, 2])],
            &["w.weight_scale_inv"],
        ),
        (
            "bitnet",
            json!({"quant_method": "bitnet"}),
            vec![t("weight", "U8", &[4, 64]), t("weight_scale", "BF16", &[1])],
            &["w.weight_scale"],
        ),
        (
            "mxfp4",
            json!({"quant_method": "mxfp4"}),
            vec![t("up_blocks", "U8", &[2, 16, 2, 16]), t("up_scales", "U8", &[2, 16, 2])],
            &[],
        ),
        (
            "mxfp4 in rows",
            compressed("mxfp4-pack-quantized", json!({"num_bits": 4, "group_size": 32, "type": "float"})),
            vec![t("weight_packed", "U8", &[16, 32]), t("weight_scale", "U8", &[16, 2])],
            &[],
        ),
        (
            "mxfp4 of MiMo",
            json!({"quant_method": "fp8", "store_dtype": "mxfp4", "weight_block_size": [128, 128]}),
            vec![t("weight", "U8", &[16, 32]), t("weight_scale", "U8", &[16, 2])],
            &["w.weight_scale"],
        ),
        (
            "nvfp4",
            json!({"quant_method": "modelopt", "quant_algo": "NVFP4"}),
            vec![
                t("input_scale", "F32", &[]),
                t("weight", "U8", &[16, 32]),
                t("weight_scale", "F8_E4M3", &[16, 4]),
                t("weight_scale_2", "F32", &[1]),
            ],
            &["w.input_scale", "w.weight", "w.weight_scale", "w.weight_scale_2"],
        ),
        (
            "nvfp4 (compressed-tensors)",
            compressed("nvfp4-pack-quantized", json!({"num_bits": 4, "group_size": 16, "type": "float"})),
            vec![
                t("input_global_scale", "F32", &[1]),
                t("weight_global_scale", "F32", &[1]),
                t("weight_packed", "U8", &[16, 32]),
                t("weight_scale", "F8_E4M3", &[16, 4]),
            ],
            &["w.input_global_scale", "w.weight_global_scale"],
        ),
        (
            "nf4",
            json!({"quant_method": "bitsandbytes"}),
            vec![
                t("weight", "U8", &[512, 1]),
                t("weight.absmax", "U8", &[16]),
                t("weight.nested_absmax", "F32", &[2]),
                t("weight.nested_quant_map", "F32", &[256]),
                t("weight.quant_map", "F32", &[16]),
                t("weight.quant_state.bitsandbytes__nf4", "U8", &[STATE.len() as u64]),
            ],
            &["w.weight.quant_state.bitsandbytes__nf4"],
        ),
        (
            "int8",
            json!({"quant_method": "bitsandbytes"}),
            vec![t("SCB", "F32", &[16]), t("weight", "I8", &[16, 64]), t("weight_format", "U8", &[])],
            &["w.SCB", "w.weight_format"],
        ),
    ]
}

#[test]
fn companions_that_are_missing_or_do_not_fit_are_named() {
    let mut n = 0;
    for (kind, config, tensors, optional) in sound() {
        let opened = open(&config, &tensors).unwrap_or_else(|e| panic!("{kind}: {e}"));
        assert_eq!(opened.len(), 1, "{kind}: {opened:?}");
        let mut refused = |what: String, tensors: &[Spec]| {
            n += 1;
            match open(&config, tensors) {
                Ok(opened) => panic!("{kind}, {what}: {opened:?}"),
                Err(text) => assert!(text.contains("model.safetensors: the tensor \"w."), "{kind}, {what}: {text}"),
            }
        };
        for (i, (name, dtype, shape)) in tensors.iter().enumerate() {
            let replaced = |dtype, shape: Vec<u64>| {
                let mut tensors = tensors.clone();
                tensors[i] = (name.clone(), dtype, shape);
                tensors
            };
            // Without the tensor that marks a weight as packed, the weight is not packed.
            let is_mark = ["w.qweight", "w.weight_packed", "w.up_blocks"].contains(&name.as_str());
            if !optional.contains(&name.as_str()) && !is_mark {
                let mut tensors = tensors.clone();
                tensors.remove(i);
                refused(format!("without {name}"), &tensors);
            }
            refused(format!("{name} of I16"), &replaced("I16", shape.clone()));
            // The two dimensions of block scales may extend beyond the three of a weight.
            if (kind, name.as_str()) != ("fp8 in blocks", "w.weight") {
                refused(format!("{name} with a dimension more"), &replaced(dtype, [&[3], shape.as_slice()].concat()));
            }
            for axis in 0..shape.len() {
                for len in [0, shape[axis].saturating_sub(1), shape[axis] + 1, shape[axis] * 3] {
                    let mut shape = shape.clone();
                    let is_same = std::mem::replace(&mut shape[axis], len) == len;
                    // Block scales may extend beyond the weight; a weight with a single scale may have any shape.
                    let fits = match (kind, name.as_str()) {
                        ("fp8 in blocks", "w.weight_scale_inv") => len > 1,
                        ("fp8 in blocks", "w.weight") => len.div_ceil([8, 32][axis]) <= 2,
                        ("int-quantized" | "int8", "w.weight") => axis == 1,
                        ("bitnet", "w.weight") => true,
                        _ => false,
                    };
                    if !is_same && !fits {
                        refused(format!("{name} of {shape:?}"), &replaced(dtype, shape));
                    }
                }
            }
        }
    }
    assert!(n > 120, "{n}");
}

#[test]
fn configurations_that_cannot_be_are_refused() {
    let base = sound();
    let of = |kind: &str| base.iter().find(|(name, ..)| *name == kind).unwrap().clone();
    let cases = [
        ("gptq 4", "/bits", json!(5), "quantization_config.bits is 5, expected 2, 3, 4 or 8"),
        ("gptq 4", "/bits", json!(null), "quantization_config.bits is null"),
        ("gptq 4", "/bits", json!("4"), "quantization_config.bits is \"4\""),
        ("gptq 4", "/bits", json!(8), "\"w.qzeros\" of packed weights has the shape [2, 2], expected [2, 4]"),
        ("gptq 4", "/checkpoint_format", json!("marlin"), "checkpoint_format is \"marlin\", expected \"gptq\""),
        ("gptq 3", "/group_size", json!(0), "group_size is 0, expected a positive whole number"),
        ("gptq 3", "/group_size", json!(24), "which is not that of groups of 24 among 64 inputs"),
        ("gptq 3", "/group_size", json!(4_294_967_296u64), "group_size is 4294967296"),
        ("gptq 3", "/group_size", json!(-2), "group_size is -2"),
        ("awq", "/bits", json!(8), "quantization_config.bits is 8, expected 4"),
        ("awq", "/version", json!("gemv"), "version is \"gemv\", expected \"gemm\""),
        ("awq", "/group_size", json!(16), "which is not that of groups of 16 among 64 inputs"),
        ("awq", "/quant_method", json!("hqq"), "the method \"hqq\", which is not supported; supported are awq, bitnet"),
        ("awq", "/quant_method", json!(7), "quantization_config.quant_method is 7, expected a string"),
        ("awq", "/quant_method", json!(null), "the method \"unnamed\""),
        ("int-quantized", "/format", json!("sparse-24"), "the method \"compressed-tensors sparse-24\""),
        ("int-quantized", "/format", json!(1), "quantization_config.format is 1"),
        ("int-quantized", "/config_groups", json!({}), "config_groups is {}, expected an object with one group"),
        ("int-quantized", "/config_groups/group_0", json!(3), "config_groups.weights is null, expected an object"),
        (
            "pack-quantized",
            "/config_groups/group_0/weights/num_bits",
            json!(9),
            "weights.num_bits is 9, expected 1 to 8",
        ),
        ("pack-quantized", "/config_groups/group_0/weights/num_bits", json!(3), "is not that of 3 bits for [16, 64]"),
        ("pack-quantized", "/config_groups/group_0/weights/type", json!("float"), "weights.type is \"float\""),
        ("pack-quantized", "/config_groups/group_0/weights/group_size", json!(48), "groups of 48 among 64 inputs"),
        ("fp8 in blocks", "/weight_block_size", json!([0, 32]), "weight_block_size is [0,32], expected the lengths"),
        ("fp8 in blocks", "/weight_block_size", json!([1, 2, 3]), "weight_block_size is [1,2,3]"),
        ("fp8 in blocks", "/weight_block_size", json!([8, 16]), "not that of scales for [16, 64] in blocks of 8 × 16"),
        ("fp8 in blocks", "/weight_block_size", json!(null), "which is not that of scales for [16, 64]"),
        ("mxfp4", "/quant_algo", json!("NVFP4_AWQ"), "the method \"mxfp4 NVFP4_AWQ\", which is not supported"),
        ("nvfp4", "/quant_algo", json!("NVFP4_AWQ"), "the method \"modelopt NVFP4_AWQ\", which is not supported"),
        (
            "nvfp4",
            "/quant_algo",
            json!("MIXED_PRECISION"),
            "\"w.weight\" of packed weights has the format U8, expected F8",
        ),
        ("nvfp4 (compressed-tensors)", "/format", json!("mixed-precision"), "\"compressed-tensors mixed-precision\""),
        ("mxfp4 of MiMo", "/mxfp4_block_size", json!(16), "mxfp4_block_size is 16, expected 32"),
    ];
    for (kind, field, value, expected) in cases {
        let (_, mut config, tensors, _) = of(kind);
        let (object, name) = field.rsplit_once('/').unwrap();
        config.pointer_mut(object).unwrap()[name] = value.clone();
        let text = open(&config, &tensors).expect_err(&format!("{kind}, {field} {value}"));
        assert!(text.contains(expected), "{kind}, {field} {value}: {text}");
    }
    assert!(open(&json!([1]), &of("awq").2).unwrap_err().contains("quantization_config is [1], expected an object"));
}

#[test]
fn values_that_cannot_be_are_refused_before_the_run() {
    let write = |config: &Json, tensors: &[(&str, &str, &[u64], Vec<u8>)]| {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("model.safetensors"), safetensors(tensors)).unwrap();
        open_in(dir.path(), config).map(|weights| weights.tensors().len())
    };
    let gptq = json!({"quant_method": "gptq", "bits": 4, "group_size": 32});
    for (at, group) in [(63usize, 2i32), (5, -1), (0, i32::MAX)] {
        let mut index = vec![0u8; 256];
        index[at * 4..at * 4 + 4].copy_from_slice(&group.to_le_bytes());
        let tensors: [(&str, &str, &[u64], Vec<u8>); 4] = [
            ("w.qweight", "I32", &[8, 16], vec![0; 512]),
            ("w.qzeros", "I32", &[2, 2], vec![0; 16]),
            ("w.scales", "F16", &[2, 16], vec![0; 64]),
            ("w.g_idx", "I32", &[64], index),
        ];
        let text = write(&gptq, &tensors).unwrap_err();
        let expected = format!("names the group {group} for input {at} (byte {}), and there are 2 groups", at * 4);
        assert!(text.contains(&expected), "{text}");
    }
    let bnb = json!({"quant_method": "bitsandbytes"});
    let cases: [(&str, &str); 8] = [
        ("{", "is not the JSON of a quantization state"),
        (r#"{"blocksize": 0, "dtype": "float16", "shape": [16, 64]}"#, "blocks of 0"),
        (r#"{"blocksize": 64, "dtype": "int8", "shape": [16, 64]}"#, "names the dtype \"int8\""),
        (r#"{"blocksize": 64, "dtype": "float16", "shape": [16, 65]}"#, "has 512 bytes, expected 520"),
        (r#"{"blocksize": 64, "dtype": "float16", "shape": [4294967296, 4294967296]}"#, "names the invalid shape"),
        (r#"{"blocksize": 64, "dtype": "float16", "shape": []}"#, "names the invalid shape"),
        (r#"{"blocksize": 64, "dtype": "float16", "shape": [16, -1]}"#, "is not the JSON"),
        (r#"{"blocksize": 64, "dtype": "float16", "shape": [16, 64], "nested_blocksize": 0}"#, "nested blocks of 0"),
    ];
    for (state, expected) in cases {
        let tensors: [(&str, &str, &[u64], Vec<u8>); 4] = [
            ("w.weight", "U8", &[512, 1], vec![0; 512]),
            ("w.weight.absmax", "F32", &[16], vec![0; 64]),
            ("w.weight.quant_map", "F32", &[16], vec![0; 64]),
            ("w.weight.quant_state.bitsandbytes__nf4", "U8", &[state.len() as u64], state.as_bytes().to_vec()),
        ];
        let text = write(&bnb, &tensors).unwrap_err();
        assert!(text.contains(expected), "{state}: {text}");
    }
    let compressed = json!({"quant_method": "compressed-tensors", "format": "pack-quantized",
        "config_groups": {"g": {"weights": {"num_bits": 4, "group_size": 32}}}});
    for shape in [[16u64, 65], [17, 64], [u64::MAX, 64], [16, 1 << 62]] {
        let tensors: [(&str, &str, &[u64], Vec<u8>); 3] = [
            ("w.weight_packed", "I32", &[16, 8], vec![0; 512]),
            ("w.weight_scale", "F32", &[16, 2], vec![0; 128]),
            ("w.weight_shape", "I64", &[2], shape.iter().flat_map(|n| n.to_le_bytes()).collect()),
        ];
        let text = write(&compressed, &tensors).unwrap_err();
        assert!(text.contains("the tensor \"w.weight_"), "{text}");
    }
}

#[test]
fn names_order_and_what_is_said() {
    let t = |name: &str, dtype, shape: &[u64]| (name.to_owned(), dtype, shape.to_vec());
    let tensors = [
        t("a.g_idx", "I32", &[32]),
        t("a.qweight", "I32", &[4, 8]),
        t("a.qzeros", "I32", &[1, 1]),
        t("a.scales", "F16", &[1, 8]),
        t("b.weight", "F8_E5M2", &[3]),
        t("c.weight", "F32", &[2, 2]),
    ];
    let gptq = json!({"quant_method": "gptq", "bits": 4, "group_size": 32});
    let names: Vec<String> = open(&gptq, &tensors).unwrap().into_iter().map(|t| t.name).collect();
    assert_eq!(names, ["b.weight", "c.weight", "a.weight"]);
    let description = |format: &str, n_tensors, is_repacked| {
        Unpacked { format: format.to_owned(), n_tensors, is_repacked }.to_string()
    };
    assert_eq!(
        description("AWQ, 4 bits", 7, false),
        "7 tensors are decoded from AWQ, 4 bits, which had rounded the original weights"
    );
    assert_eq!(description("MXFP4", 1, true), "1 tensor is repacked from MXFP4 without loss");
}

#[test]
fn blocks_have_their_scales_first_and_values_half_a_group_apart() {
    // Values 0 to 15, repeated.
    let codes: Vec<u8> = (0..64).map(|i| (i % 8 * 2) | (i % 8 * 2 + 1) << 4).collect();
    // Format in the configuration, format of the scales, output format, scales; then of the first block: size, scales and first code.
    let nvfp4 = ("nvfp4-pack-quantized", "F8_E4M3", "NVFP4", vec![0x81, 2, 3, 0xFF, 5, 6, 7, 8]);
    let mxfp4 = ("mxfp4-pack-quantized", "U8", "MXFP4", vec![0x81, 2, 3, 0xFF]);
    for ((packed, dtype, format, scales), n_bytes, first, code) in
        [(nvfp4, 36, &[1, 2, 3, 0x7F][..], 0x80), (mxfp4, 17, &[0x81], 0x00)]
    {
        let mut config = json!({"quant_method": "compressed-tensors", "format": packed});
        config["config_groups"] = json!({"g": {"weights": {"num_bits": 4}}});
        let dir = tempfile::tempdir().unwrap();
        let shape = [2, scales.len() as u64 / 2];
        let tensors: [(&str, &str, &[u64], Vec<u8>); 2] =
            [("w.weight_packed", "U8", &[2, 32], codes.clone()), ("w.weight_scale", dtype, &shape, scales)];
        fs::write(dir.path().join("model.safetensors"), safetensors(&tensors)).unwrap();
        let weights = open_in(dir.path(), &config).unwrap();
        assert_eq!(weights.tensors()[0].name, "w.weight");
        assert_eq!(weights.unpacked()[0].to_string(), format!("1 tensor is repacked from {format} without loss"));
        let n_blocks = 128 / ((n_bytes - first.len()) * 2);
        let mut whole = vec![0; n_blocks * n_bytes];
        weights.read(0, 0, &mut whole).unwrap();
        assert_eq!(&whole[..first.len()], first, "{format}");
        // Value `j` and the value half a group after it.
        let half = if format == "NVFP4" { 8 } else { 16 };
        let expected: Vec<u8> = (0..n_bytes - first.len())
            .map(|place| {
                let start = place / half * half * 2 + place % half;
                (start % 16) as u8 | (((start + half) % 16) as u8) << 4
            })
            .collect();
        assert_eq!(whole[first.len()..n_bytes], expected, "{format}");
        assert_eq!(expected[0], code, "{format}");
        for block in 0..n_blocks {
            let mut one = vec![0; n_bytes];
            weights.read(0, (block * n_bytes) as u64, &mut one).unwrap();
            assert_eq!(one, whole[block * n_bytes..][..n_bytes], "{format}, block {block}");
        }
        assert!(weights.read(0, 1, &mut vec![0; n_bytes]).is_err());
        assert!(weights.read(0, (n_blocks * n_bytes) as u64, &mut vec![0; n_bytes]).is_err());
    }
}

/// A matrix whose elements are row numbers, and scales that are block numbers, for four ranks.
#[test]
fn rows_of_ranks_come_together() {
    // A rank has 256 query rows, 32 key rows and 16 value rows, in blocks of 128, 128 and 48 rows.
    let rows = 4 * (256 + 32 + 16);
    let mut weight = vec![0x38u8; rows as usize * 2];
    weight[0] = 0x40;
    let scales: Vec<u8> = (1u8..=12).flat_map(|n| f32::from(n).to_le_bytes()).collect();
    let config = |heads: u64| {
        json!({
            "architectures": ["MiMoV2ForCausalLM"], "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
            "num_attention_heads": heads, "head_dim": 128, "v_head_dim": 64, "num_key_value_heads": 1, "hybrid_layer_pattern": [0],
        })
    };
    let open = |heads, scale_rows: u64| {
        let dir = tempfile::tempdir().unwrap();
        let tensors: [(&str, &str, &[u64], Vec<u8>); 2] = [
            ("model.layers.0.self_attn.qkv_proj.weight", "F8_E4M3", &[rows, 2], weight.clone()),
            (
                "model.layers.0.self_attn.qkv_proj.weight_scale_inv",
                "F32",
                &[scale_rows, 1],
                scales[..scale_rows as usize * 4].to_vec(),
            ),
        ];
        fs::write(dir.path().join("model.safetensors"), safetensors(&tensors)).unwrap();
        let config = Config::raw(config(heads)).unwrap();
        let folder = dir.path().to_owned();
        let checkpoint = TensorFiles::open(&folder).map_err(|e| e.to_string())?;
        let method = Method::of(&Documents::new(&folder), &config).map_err(|e| e.to_string())?;
        Weights::open(dir.path(), checkpoint, &method).map_err(|e| e.to_string()).map(|weights| values(&weights, 0, 3))
    };
    let found = open(8, 12).unwrap();
    assert_eq!(found[..2], [2.0, 1.0]);
    let by_row: Vec<f32> = found.chunks(2).map(|row| row[1]).collect();
    let expected: Vec<f32> = [
        [1.0, 4.0, 7.0, 10.0].map(|scale| [vec![scale; 128], vec![scale + 1.0; 128]].concat()).concat(),
        [3.0, 6.0, 9.0, 12.0].map(|scale| vec![scale; 32]).concat(),
        [3.0, 6.0, 9.0, 12.0].map(|scale| vec![scale; 16]).concat(),
    ]
    .concat();
    assert_eq!(by_row, expected);
    assert!(open(8, 10).unwrap_err().contains("which is not that of scales for [1216, 2]"));
    assert!(open(9, 12).unwrap_err().contains("expected 1152 rows of queries, 128 of keys and 64 of values"));
    assert!(open(0, 12).unwrap_err().contains("num_attention_heads is 0, expected a positive whole number"));
}
