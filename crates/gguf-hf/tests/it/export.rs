//! Exports of tiny models, and conversions of what they wrote.

use std::fs;
use std::path::Path;

use gguf_format::{GgmlType, Gguf, Head, TensorInfo};
use gguf_hf::export::{self, Export, ExportOptions, ExportProblem, ExportWarning};
use gguf_hf::{Error, Folder, MemoryFolder, Options, OutType, convert};
use gguf_pipeline::RunOptions;
use gguf_test::checkpoint::*;
use serde_json::json;

/// Converts a tiny Llama to `model.gguf` in a folder.
fn model(dir: &Path, ty: OutType) -> Vec<u8> {
    let from = dir.join("tiny");
    fs::create_dir(&from).unwrap();
    write_llama(&from);
    let out = dir.join("model.gguf");
    convert(&from, &out, &Options::default().ty(ty), &RunOptions::default(), &()).unwrap();
    fs::read(out).unwrap()
}

fn planned(dir: &Path, options: ExportOptions) -> Result<Export, Error> {
    export::plan(dir.join("model.gguf"), &options.folder("tiny"))
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn an_exported_model_converts_to_the_same_file() {
    for ty in [OutType::F32, OutType::F16, OutType::BF16] {
        let dir = tempfile::tempdir().unwrap();
        let file = model(dir.path(), ty);
        let out = dir.path().join("out/tiny");
        fs::create_dir(dir.path().join("out")).unwrap();
        let planned = planned(dir.path(), ExportOptions::default()).unwrap();
        assert_eq!(planned.warnings, []);
        assert_eq!((planned.class.as_str(), planned.architecture.as_str()), ("LlamaForCausalLM", "llama"));
        planned.run(&out, &RunOptions::default(), &()).unwrap();
        let again = dir.path().join("again.gguf");
        convert(&out, &again, &Options::default().ty(ty), &RunOptions::default(), &()).unwrap();
        assert!(fs::read(&again).unwrap() == file, "{ty:?}");
    }
}

#[test]
fn tensors_are_divided_among_files_with_an_index() {
    let dir = tempfile::tempdir().unwrap();
    let file = model(dir.path(), OutType::F32);
    let out = dir.path().join("tiny/sub");
    planned(dir.path(), ExportOptions::default().max_file_bytes(2000))
        .unwrap()
        .run(&out, &RunOptions::default(), &())
        .unwrap();
    let n = names(&out).iter().filter(|name| name.ends_with(".safetensors")).count();
    assert!(n > 2, "{:?}", names(&out));
    assert!(out.join("model.safetensors.index.json").is_file());
    let again = dir.path().join("again.gguf");
    let options = Options::default().ty(OutType::F32);
    convert(&out, &again, &options, &RunOptions::default(), &()).unwrap();
    assert!(fs::read(&again).unwrap() == file);
}

/// Tensors whose rows are permuted are decoded first, but the plan has the types of the model for them, too.
#[test]
fn a_plan_has_the_types_of_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/glossary");
    let (out, options) = (dir.path().join("model.gguf"), Options::default().ty(OutType::Q8_0));
    convert(&from, &out, &options, &RunOptions::default(), &()).unwrap();
    let plan = planned(dir.path(), ExportOptions::default()).unwrap().plan;
    let mut types: Vec<GgmlType> = plan.tensors().iter().map(|tensor| tensor.from).collect();
    types.sort();
    let file = Gguf::parse(fs::read(out).unwrap()).unwrap();
    let mut expected: Vec<GgmlType> = file.tensors().map(|tensor| tensor.ty).collect();
    expected.sort();
    assert_eq!(types, expected);
    assert!(types.contains(&GgmlType::Q8_0));
}

#[test]
fn other_files_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path(), OutType::F16);
    let export = planned(dir.path(), ExportOptions::default()).unwrap();
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("config.json"), "{}").unwrap();
    let error = export.run(&out, &RunOptions::default(), &()).unwrap_err();
    assert!(matches!(error, Error::Pipeline(_)), "{error}");
    assert_eq!(names(&out), ["config.json"]);
    assert_eq!(fs::read(out.join("config.json")).unwrap(), b"{}");
    // A tensor file of another model would be read as a part of this one.
    fs::write(out.join("model-00007-of-00009.safetensors"), "").unwrap();
    let error = export.run(&out, &RunOptions::default().force(true), &()).unwrap_err();
    assert!(error.to_string().contains("\"model-00007-of-00009.safetensors\""), "{error}");
    fs::remove_file(out.join("model-00007-of-00009.safetensors")).unwrap();
    export.run(&out, &RunOptions::default().force(true), &()).unwrap();
    assert_eq!(names(&out).len(), export.plan.files().len());
}

#[test]
fn what_cannot_be_exported_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let write = |head: &Head| {
        let data = head.tensors.iter().map(|tensor| vec![0u8; tensor.n_bytes().unwrap() as usize]);
        let bytes = gguf_io::Writer::write(Vec::new(), head, data).unwrap();
        fs::write(dir.path().join("model.gguf"), bytes).unwrap();
    };
    let problem = || match planned(dir.path(), ExportOptions::default()).unwrap_err() {
        Error::Export { problem, .. } => *problem,
        other => panic!("{other}"),
    };
    let mut head = Head::default();
    write(&head);
    assert_eq!(problem(), ExportProblem::NoArchitecture);
    head.set("general.architecture", "unheard-of");
    write(&head);
    assert_eq!(problem(), ExportProblem::Architecture { name: "unheard-of".to_owned() });
    head.set("general.architecture", "llama");
    head.tensors.push(TensorInfo::new("blk.0.surprise.weight", [4], GgmlType::F32));
    write(&head);
    let expected =
        ExportProblem::NoRow { tensor: "blk.0.surprise.weight".to_owned(), architecture: "llama".to_owned() };
    assert_eq!(problem(), expected);
    head.set("general.type", "imatrix");
    write(&head);
    assert_eq!(problem(), ExportProblem::Kind { kind: "imatrix".to_owned() });
}

#[test]
fn a_value_that_no_configuration_gives_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let file = model(dir.path(), OutType::F16);
    let gguf = Gguf::parse(file).unwrap();
    let mut head = Head::from_gguf(&gguf);
    head.set("llama.rope.dimension_count", 3u32);
    let data: Vec<Vec<u8>> = gguf.tensors().map(|tensor| vec![0; tensor.n_bytes().unwrap() as usize]).collect();
    let bytes = gguf_io::Writer::write(Vec::new(), &head, data).unwrap();
    fs::write(dir.path().join("model.gguf"), bytes).unwrap();
    let warnings = planned(dir.path(), ExportOptions::default()).unwrap().warnings;
    let is_about = |warning: &ExportWarning| warning.to_string().contains("llama.rope.dimension_count");
    assert!(warnings.iter().any(is_about), "{warnings:?}");
}

/// The base model is a GGUF file or its checkpoint; the folder of either names the modules.
#[test]
fn an_adapter_comes_back_as_a_folder_of_peft() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path(), OutType::F16);
    let (adapter, tiny) = (dir.path().join("lora"), dir.path().join("tiny"));
    fs::create_dir(&adapter).unwrap();
    let tensor = |module: &str, ending: &str, shape: [u64; 2]| {
        (format!("base_model.model.model.layers.0.{module}.{ending}.weight"), shape)
    };
    // The rows of queries are permuted.
    let tensors = [
        tensor("mlp.up_proj", "lora_A", [4, HIDDEN]),
        tensor("mlp.up_proj", "lora_B", [WIDE, 4]),
        tensor("self_attn.q_proj", "lora_A", [2, HIDDEN]),
        tensor("self_attn.q_proj", "lora_B", [HIDDEN, 2]),
    ];
    let tensors: Vec<Tensor<'_>> = (0..)
        .zip(&tensors)
        .map(|(i, (name, shape))| (name.as_str(), "F32", shape.as_slice(), f32_data(i, shape.iter().product())))
        .collect();
    fs::write(adapter.join("adapter_model.safetensors"), safetensors(&tensors)).unwrap();
    fs::write(adapter.join("adapter_config.json"), r#"{"lora_alpha": 12, "r": 4, "rank_pattern": {"q_proj": 2}}"#)
        .unwrap();
    let (file, again) = (dir.path().join("lora.gguf"), dir.path().join("again.gguf"));
    let options = || Options::default().base(Some(tiny.clone()));
    convert(&adapter, &file, &options(), &RunOptions::default(), &()).unwrap();

    let options_of = |base: Box<dyn Folder>| ExportOptions::default().folder("lora").base(Some(base));
    let of_file = export::folder(dir.path().join("model.gguf"), &ExportOptions::default()).unwrap();
    for (i, base) in [of_file, Box::new(tiny.clone())].into_iter().enumerate() {
        let out = dir.path().join(format!("out{i}/lora"));
        let export = export::plan(&file, &options_of(base)).unwrap();
        assert_eq!((export.class.as_str(), export.warnings.as_slice()), ("LoRA", &[][..]));
        export.run(&out, &RunOptions::default(), &()).unwrap();
        let settings: serde_json::Value =
            serde_json::from_slice(&fs::read(out.join("adapter_config.json")).unwrap()).unwrap();
        let found = ["peft_type", "r", "lora_alpha", "target_modules", "fan_in_fan_out"].map(|field| &settings[field]);
        let expected = [
            json!("LORA"),
            json!(4),
            json!(12.0),
            json!(["model.layers.0.mlp.up_proj", "model.layers.0.self_attn.q_proj"]),
            json!(false),
        ];
        assert_eq!(found, expected.each_ref(), "{settings}");
        convert(&out, &again, &options(), &RunOptions::default().force(true), &()).unwrap();
        assert!(fs::read(&again).unwrap() == fs::read(&file).unwrap(), "{i}");
    }

    let problem = |file: &Path, options: ExportOptions| match export::plan(file, &options).unwrap_err() {
        Error::Export { problem, .. } => *problem,
        other => panic!("{other}"),
    };
    assert_eq!(problem(&file, ExportOptions::default()), ExportProblem::NoBase);
    let base = || options_of(Box::new(tiny.clone()));
    assert_eq!(problem(&dir.path().join("model.gguf"), base()), ExportProblem::NotAnAdapter);
    let empty = || options_of(Box::new(MemoryFolder::new("empty")));
    assert!(matches!(problem(&file, empty()), ExportProblem::Base { .. }));
    let mut head = Head::from_gguf(&Gguf::parse(fs::read(&file).unwrap()).unwrap());
    head.tensors[0].name = "blk.7.ffn_up.weight.lora_a".into();
    let data = head.tensors.iter().map(|tensor| vec![0u8; tensor.n_bytes().unwrap() as usize]);
    fs::write(&again, gguf_io::Writer::write(Vec::new(), &head, data).unwrap()).unwrap();
    let tensor = "blk.7.ffn_up.weight.lora_a".to_owned();
    assert_eq!(problem(&again, base()), ExportProblem::NotInBase { tensor });
}
