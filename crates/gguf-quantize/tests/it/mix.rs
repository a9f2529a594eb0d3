//! The type of each tensor, compared with llama.cpp's decisions.
//!
//! `data/quant-snapshots.txt` has the expected types of llama.cpp's own test for real models; `data/quant-vectors.txt` has the output of
//! `llama_model_quantize` for artificial models, for the rules that the former does not cover.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use gguf_format::keys::FileType;
use gguf_format::{GgmlType, Head, Str, Value};
use gguf_quantize::mix::{
    Decision, KEPT, Keep, Kept, MixOptions, ModelFacts, Pattern, RULES, Reason, Target, TensorFacts, TensorTypeRule,
    decide, parse_tensor_type, processing_order,
};

/// A model of a fixture: its facts and tensors.
#[derive(Default)]
struct Model {
    name: String,
    facts: ModelFacts,
    /// The tensors of each row, by row index and block.
    tensors: BTreeMap<(usize, u64), (String, [u64; 3])>,
    n_rows: usize,
    n_sections: usize,
    n_decisions: usize,
    /// The locations of the table rows that decided a type.
    rows: BTreeSet<String>,
    options: BTreeSet<&'static str>,
}

/// The part of a fixture for one file type.
struct Section {
    target: Target,
    options: MixOptions,
    types: Expected,
}

/// The expected type of each tensor.
enum Expected {
    Types {
        own: GgmlType,
        others: BTreeMap<(usize, u64), GgmlType>,
    },
    /// llama.cpp and this crate refuse the tensor with this name.
    Refused(String),
}

fn ranges(text: &str) -> impl Iterator<Item = RangeInclusive<u64>> + '_ {
    text.split(',').map(|part| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        from.parse().unwrap()..=to.parse().unwrap()
    })
}

fn ty(name: &str) -> GgmlType {
    GgmlType::from_name(name).unwrap_or_else(|| panic!("no type {name}"))
}

/// Reads a fixture and tests every section.
fn judge(fixture: &str) -> Vec<Model> {
    let mut models: Vec<Model> = Vec::new();
    let mut section: Option<Section> = None;
    for line in fixture.lines() {
        let mut words = line.split(' ');
        match words.next().unwrap() {
            "" | "#" => {}
            "model" => {
                if let (Some(section), Some(model)) = (section.take(), models.last_mut()) {
                    compare(model, &section);
                }
                let mut model = Model { name: words.next().unwrap().to_owned(), ..Model::default() };
                for (key, value) in words.map(|word| word.split_once('=').unwrap()) {
                    let facts = &mut model.facts;
                    match key {
                        "arch" => facts.architecture = value.to_owned(),
                        "n_layer" => facts.n_layer = value.parse().unwrap(),
                        "n_layer_nextn" => facts.n_layer_nextn = value.parse().unwrap(),
                        "n_head" => facts.n_head = value.parse().unwrap(),
                        "n_head_kv" => facts.n_head_kv = value.parse().unwrap(),
                        "n_expert" => facts.n_expert = value.parse().unwrap(),
                        other => panic!("{other}"),
                    }
                }
                models.push(model);
            }
            "tensor" => {
                let model = models.last_mut().unwrap();
                let (name, row) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
                let (rows, stack) = words.next().unwrap().split_once('x').unwrap();
                let shape = [row, rows.parse().unwrap(), stack.parse().unwrap()];
                let blocks = words.next().map_or(vec![0..=0], |w| ranges(w).collect());
                for block in blocks.into_iter().flatten() {
                    let tensor = (name.replace('*', &block.to_string()), shape);
                    assert!(model.tensors.insert((model.n_rows, block), tensor).is_none());
                }
                model.n_rows += 1;
            }
            "section" => {
                let model = models.last_mut().unwrap();
                if let Some(section) = section.take() {
                    compare(model, &section);
                }
                let target = Target::parse(words.next().unwrap()).unwrap();
                let result = words.next().unwrap();
                let types = match result.strip_prefix("refused:") {
                    Some(tensor) => Expected::Refused(tensor.to_owned()),
                    None => Expected::Types { own: ty(result), others: BTreeMap::new() },
                };
                let mut options = MixOptions::default();
                for word in words {
                    let (option, value) = word.split_once('=').unwrap_or((word, ""));
                    match option {
                        "imatrix" => options.has_imatrix = true,
                        "pure" => options.pure = true,
                        "leave-output-tensor" => options.leave_output_tensor = true,
                        "output-tensor-type" => options.output_tensor_type = Some(ty(value)),
                        "token-embedding-type" => options.token_embedding_type = Some(ty(value)),
                        "tensor-type" => options.tensor_types.push(TensorTypeRule::parse(value).unwrap()),
                        other => panic!("{other}"),
                    }
                }
                section = Some(Section { target, options, types });
            }
            rows => {
                let model = models.last().unwrap();
                let Some(Section { types: Expected::Types { others, .. }, .. }) = &mut section else {
                    panic!("{line}");
                };
                let ty = ty(words.next().unwrap());
                let blocks: Option<Vec<_>> = words.next().map(|w| ranges(w).collect());
                for row in ranges(rows).flatten().map(|row| row as usize) {
                    for &(_, block) in model.tensors.range((row, 0)..=(row, u64::MAX)).map(|(place, _)| place) {
                        if blocks.as_ref().is_none_or(|all| all.iter().any(|range| range.contains(&block))) {
                            assert!(others.insert((row, block), ty).is_none());
                        }
                    }
                }
            }
        }
    }
    if let (Some(section), Some(model)) = (section.take(), models.last_mut()) {
        compare(model, &section);
    }
    models
}

/// Decides the types of the model and compares them with the section.
fn compare(model: &mut Model, section: &Section) {
    let mut tensors: Vec<_> = model.tensors.iter().collect();
    tensors.sort_by(|(_, (a, _)), (_, (b, _))| processing_order(a.as_bytes(), b.as_bytes()));
    let facts: Vec<_> = tensors
        .iter()
        .map(|(_, (name, shape))| TensorFacts { name: Str(name.as_bytes()), shape, ty: GgmlType::F32 })
        .collect();
    let decided = decide(&model.facts, &facts, section.target, &section.options);
    let at = format!("{} {} {:?}", model.name, section.target, section.options);
    model.n_sections += 1;
    match (&section.types, decided) {
        (Expected::Refused(tensor), Err(e)) => assert!(e.to_string().contains(tensor.as_str()), "{at}: {e}"),
        (Expected::Refused(tensor), Ok(_)) => panic!("{at}: {tensor} should be refused"),
        (Expected::Types { .. }, Err(e)) => panic!("{at}: {e}"),
        (Expected::Types { own, others }, Ok(decisions)) => {
            assert_eq!(decisions.len(), tensors.len());
            for ((place, (name, _)), decision) in tensors.iter().zip(&decisions) {
                let expected = others.get(place).unwrap_or(own);
                assert_eq!(decision.ty, *expected, "{at}: {name}: {}", decision.why);
                model.n_decisions += 1;
                match decision.why {
                    Reason::Rule(row) => model.rows.insert(row.index.to_string()),
                    Reason::Kept(Keep::Kind(kept)) => model.rows.insert((*kept).to_owned()),
                    Reason::Kept(Keep::LeaveOutput) => model.options.insert("--leave-output-tensor"),
                    Reason::TokenEmbeddingType => model.options.insert("--token-embedding-type"),
                    Reason::OutputTensorType => model.options.insert("--output-tensor-type"),
                    Reason::TensorType(1) => model.options.insert("--tensor-type"),
                    Reason::Pure => model.options.insert("--pure"),
                    Reason::Raised70B => model.options.insert("70B"),
                    _ => false,
                };
            }
        }
    }
}

/// Architectures that llama.cpp does not run; `mix/image.rs` tests their rows.
const IMAGE_MODELS: [&str; 12] =
    ["aura", "cosmos", "flux", "hidream", "hyvid", "ltxv", "lumina2", "qwen_image", "sd1", "sd3", "sdxl", "wan"];

#[test]
fn every_decision_of_llama_cpp() {
    let numbers = |models: &[Model]| {
        let n_sections: usize = models.iter().map(|m| m.n_sections).sum();
        (models.len(), n_sections, models.iter().map(|m| m.n_decisions).sum::<usize>())
    };
    let snapshots = judge(include_str!("../data/quant-snapshots.txt"));
    assert_eq!(numbers(&snapshots), (12, 396, 159_159));
    let vectors = judge(include_str!("../data/quant-vectors.txt"));
    assert_eq!(numbers(&vectors), (44, 1452, 285_193));

    // Every row of the tables decided a type, except those of models that llama.cpp does not run.
    let is_image = |kept: &&Kept| IMAGE_MODELS.contains(&kept.arch);
    let all = || snapshots.iter().chain(&vectors);
    let used: BTreeSet<&String> = all().flat_map(|m| &m.rows).collect();
    let rules = RULES.iter().enumerate().map(|(row, r)| (row.to_string(), format!("{r:?}")));
    let kept = KEPT.iter().filter(|kept| !is_image(kept)).map(|k| (k.why.to_owned(), format!("{k:?}")));
    let idle: Vec<_> = rules.chain(kept).filter(|(at, row)| !used.contains(at) && !row.contains("glm5-next")).collect();
    assert!(idle.is_empty(), "{idle:#?}");
    let options: BTreeSet<&str> = all().flat_map(|m| m.options.iter().copied()).collect();
    assert_eq!(options.len(), 6, "{options:?}");
}

fn llama(n_layer: u64) -> ModelFacts {
    ModelFacts { architecture: "llama".to_owned(), n_layer, n_head: 8, n_head_kv: 8, ..ModelFacts::default() }
}

fn decide_one(
    model: &ModelFacts,
    (name, shape, ty): (&str, &[u64], GgmlType),
    target: &str,
    options: &MixOptions,
) -> Result<Decision, String> {
    let tensor = TensorFacts { name: Str(name.as_bytes()), shape, ty };
    let mut decisions = decide(model, &[tensor], Target::parse(target).unwrap(), options).map_err(|e| e.to_string())?;
    Ok(decisions.pop().unwrap())
}

/// Derived from the source of `llama_tensor_get_type_impl` and `tensor_allows_quantization`, because no available build of llama.cpp
/// supports the architecture.
#[test]
fn glm5_next() {
    let model = ModelFacts { architecture: "glm5-next".to_owned(), ..llama(4) };
    let cases = [
        ("blk.0.attn_q_a.weight", 512, "IQ2_XS", GgmlType::Q8_0),
        ("blk.0.attn_q_b.weight", 512, "Q4_K_M", GgmlType::Q8_0),
        ("blk.0.attn_q_b.weight", 512, "MXFP4_MOE", GgmlType::Q8_0),
        ("blk.3.nextn.eh_proj.weight", 512, "Q4_0", GgmlType::Q8_0),
        ("blk.0.attn_q_a.weight", 48, "Q4_K_M", GgmlType::F16),
        ("blk.0.attn_q_a.weight", 512, "BF16", GgmlType::BF16),
        ("blk.0.attn_k_b.weight", 512, "Q4_0", GgmlType::F32),
        ("blk.0.hc_fn.weight", 512, "Q4_0", GgmlType::F32),
        ("blk.0.attn_output.weight", 512, "Q4_0", GgmlType::Q4_0),
    ];
    let none = MixOptions::default();
    for (name, row, target, expected) in cases {
        let decision = decide_one(&model, (name, &[row, 4], GgmlType::F32), target, &none).unwrap();
        assert_eq!(decision.ty, expected, "{name} {target}");
    }
    let pure = MixOptions { pure: true, ..MixOptions::default() };
    let tensor = ("blk.0.attn_q_a.weight", &[512, 4][..], GgmlType::F32);
    assert_eq!(decide_one(&model, tensor, "Q4_0", &pure).unwrap().ty, GgmlType::Q4_0);
    assert_eq!(decide_one(&llama(4), tensor, "Q4_0", &none).unwrap().ty, GgmlType::Q4_0);
}

#[test]
fn copies_keep_every_type() {
    let none = MixOptions::default();
    let tensor = ("blk.0.attn_q.weight", &[512, 4][..], GgmlType(99));
    let decision = decide_one(&llama(4), tensor, "COPY", &none).unwrap();
    assert_eq!((decision.ty, decision.why.to_string().as_str()), (GgmlType(99), "kept: everything is copied"));
}

#[test]
fn what_llama_cpp_cannot_do() {
    let none = MixOptions::default();
    let matrix = |row| ("blk.0.ffn_up.weight", [row, 4], GgmlType::F16);
    let nvfp4 = |row| {
        let (name, shape, ty) = matrix(row);
        decide_one(&llama(4), (name, &shape, ty), "NVFP4", &none).unwrap()
    };
    assert_eq!(nvfp4(512).ty, GgmlType::NVFP4);
    assert_eq!((nvfp4(96).ty, nvfp4(96).instead_of), (GgmlType::IQ4_NL, Some(GgmlType::NVFP4)));
    assert_eq!(nvfp4(96).to_string(), "the file type; rows are not whole blocks of 64, as nvfp4 needs");
    assert_eq!(nvfp4(80).ty, GgmlType::F16);
    let output = decide_one(&llama(4), ("output.weight", &[512, 4], GgmlType::F16), "NVFP4", &none).unwrap();
    assert_eq!((output.ty, output.why.to_string().as_str()), (GgmlType::Q6_K, "output"));

    // Without a block number, if no row needs it.
    let experts = ModelFacts { n_expert: 4, ..llama(4) };
    let tensor = ("mtp.ffn_up.weight", &[512, 4][..], GgmlType::F16);
    assert_eq!(decide_one(&experts, tensor, "Q4_0", &none).unwrap().ty, GgmlType::Q4_0);
    let error = decide_one(&experts, tensor, "IQ3_XS", &none).unwrap_err();
    assert!(error.contains("mtp.ffn_up.weight") && error.contains("blk.0 to blk.3"), "{error}");

    // A type that does not fit, from an option that ignores shapes.
    let asked = MixOptions { token_embedding_type: Some(GgmlType::Q4_K), ..MixOptions::default() };
    let error = decide_one(&llama(4), ("token_embd.weight", &[96, 4], GgmlType::F16), "Q8_0", &asked).unwrap_err();
    assert_eq!(
        error,
        "the tensor token_embd.weight has rows of 96 elements, and q4_K, which was chosen for it, has blocks of 256; \
         choose a type whose blocks divide 96"
    );
    let asked = MixOptions { output_tensor_type: Some(GgmlType::Q4_K), ..MixOptions::default() };
    assert!(decide_one(&llama(4), ("output.weight", &[96, 4], GgmlType::F16), "Q8_0", &asked).is_err());
    // Embeddings that are also the output use the rows of the table, and fall back.
    let tied = decide_one(&llama(4), ("token_embd.weight", &[96, 4], GgmlType::F16), "Q8_0", &asked).unwrap();
    assert_eq!((tied.ty, tied.why), (GgmlType::Q5_0, Reason::OutputTensorType));

    let error = decide_one(&llama(4), ("x.weight", &[96, 4], GgmlType::F16), "Q1_0", &none).unwrap_err();
    assert!(error.contains("x.weight") && error.contains("128") && error.contains("choose another type"), "{error}");
}

#[test]
fn types_that_cannot_be_made() {
    let asked = MixOptions { output_tensor_type: Some(GgmlType::Q8_K), ..MixOptions::default() };
    let tensor = ("x.weight", &[512, 4][..], GgmlType::F16);
    assert!(decide_one(&llama(4), tensor, "Q8_0", &asked).unwrap_err().contains("q8_K"));
    let facts = [TensorFacts { name: Str(b"x.weight"), shape: &[512, 4], ty: GgmlType::F16 }];
    for number in [4, 33, 42, 15 | FileType::GUESSED, u32::MAX] {
        let target = Target::FileType(FileType(number));
        assert!(decide(&llama(4), &facts, target, &MixOptions::default()).is_err(), "{number}");
        assert!(Target::parse(&number.to_string()).is_err(), "{number}");
    }
}

/// The cases of `tensor_requires_imatrix`, and tensors that already have their type.
#[test]
fn types_that_need_an_importance_matrix() {
    let none = MixOptions::default();
    let needs = |name, ty, target| decide_one(&llama(8), (name, &[512, 4], ty), target, &none).unwrap().needs_imatrix;
    for target in ["IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS", "Q2_K_S"] {
        assert!(needs("blk.0.ffn_gate.weight", GgmlType::F32, target), "{target}");
        assert!(!needs("output.weight", GgmlType::F32, target), "{target}");
    }
    for target in ["Q2_K", "IQ3_S", "IQ4_XS", "Q4_0", "TQ1_0", "Q1_0", "F16"] {
        assert!(!needs("blk.0.ffn_gate.weight", GgmlType::F32, target), "{target}");
    }
    assert!(!needs("blk.0.ffn_gate.weight", GgmlType::IQ2_XXS, "IQ2_XXS"));
    assert!(!needs("token_embd.weight", GgmlType::F32, "Q2_K_S"));
    assert!(!needs("blk.0.ffn_norm.weight", GgmlType::IQ2_XXS, "IQ2_XXS"));
}

#[test]
fn facts_of_a_file() {
    let mut head = Head::default();
    let facts = |head: &Head| ModelFacts::of(|key| head.get(key));
    assert_eq!(facts(&head), ModelFacts::default());
    head.set("general.architecture", "qwen2");
    head.set("qwen2.block_count", 80u32);
    head.set("qwen2.attention.head_count", Value::Array([64i32, 8].into_iter().collect()));
    assert_eq!(
        facts(&head),
        ModelFacts {
            architecture: "qwen2".to_owned(),
            n_layer: 80,
            n_head: 64,
            n_head_kv: 64,
            ..ModelFacts::default()
        }
    );
    head.set("qwen2.attention.head_count_kv", 8u64);
    head.set("qwen2.expert_count", 8u16);
    head.set("qwen2.nextn_predict_layers", 1u32);
    let all = facts(&head);
    assert_eq!((all.n_head_kv, all.n_expert, all.n_layer_nextn, all.is_70b()), (8, 8, 1, false));
    head.set("qwen2.block_count", "80");
    assert_eq!(facts(&head).n_layer, 0);

    for (arch, key, n_layer, n_expert) in
        [("nanbeige", "num_loops", 20, 1), ("graniteswitch", "x", 11, 1), ("hunyuan-dense", "x", 10, 0)]
    {
        let mut head = Head::default();
        head.set("general.architecture", arch);
        head.set(&format!("{arch}.block_count"), 10u32);
        head.set(&format!("{arch}.expert_count"), 1u32);
        head.set(&format!("{arch}.{key}"), 2u32);
        assert_eq!((facts(&head).n_layer, facts(&head).n_expert), (n_layer, n_expert), "{arch}");
    }
}

#[test]
fn names_of_file_types() {
    let parse = |text: &str| Target::parse(text).map_err(|e| e.to_string());
    assert_eq!(parse("Q4_K"), Ok(Target::FileType(FileType(15))));
    assert_eq!(parse("iq2_xxs"), Ok(Target::FileType(FileType(19))));
    assert_eq!(parse("0"), Ok(Target::FileType(FileType(0))));
    assert_eq!(parse("copy"), Ok(Target::Copy));
    for name in Target::names() {
        assert!(parse(name).is_ok(), "{name}");
    }
    let cases = [
        ("q4_km", "unknown file type `q4_km`; did you mean Q4_K_M?"),
        ("Q4KM", "unknown file type `Q4KM`; did you mean Q4_K_M?"),
        ("iq4-xs", "unknown file type `iq4-xs`; did you mean IQ4_XS?"),
        ("q4_k_l", "unknown file type `q4_k_l`; did you mean Q3_K_L or Q4_K_S or Q4_K_M?"),
        ("mxfp4", "unknown file type `mxfp4`; did you mean MXFP4_MOE?"),
    ];
    for (text, error) in cases {
        assert_eq!(parse(text), Err(error.to_owned()));
    }
    let error = parse("4\u{1b}[31m").unwrap_err();
    assert!(
        error.starts_with("unknown file type `4\\u{1b}[31m`; expected one of F32, F16, ") && error.contains("COPY"),
        "{error}"
    );
    assert!(parse("").is_err() && parse(&"9".repeat(10_000)).unwrap_err().len() < 1000);
    assert_eq!(parse_tensor_type("q5_k"), Ok(GgmlType::Q5_K));
    assert!(parse_tensor_type("q4_0_4_4").is_err() && parse_tensor_type("i8").is_err());
    assert_eq!(parse_tensor_type("q6k").unwrap_err().to_string(), "unknown tensor type `q6k`; did you mean q6_K?");
}

#[test]
fn patterns_and_types() {
    let parse = |text: &str| TensorTypeRule::parse(text).map_err(|e| e.to_string());
    let rule = parse(r"BLK\.(?=1).*ffn_Down=Q6_k").unwrap();
    assert!(rule.ty == GgmlType::Q6_K && rule.pattern.finds(b"blk.12.ffn_down.weight"));
    for (text, error) in [
        ("attn_q", "missing type in `attn_q`; expected PATTERN=TYPE, as in ffn_down=q6_K"),
        ("attn_q=", "missing type in `attn_q=`; expected PATTERN=TYPE, as in ffn_down=q6_K"),
        ("=q6_K", "missing pattern in `=q6_K`; expected PATTERN=TYPE, as in ffn_down=q6_K"),
        ("a(=q6_K", "invalid pattern `a(` at byte 2: unmatched `(`"),
        ("a=q6", "unknown tensor type `q6`; did you mean q6_K?"),
    ] {
        assert_eq!(parse(text).unwrap_err(), error);
    }
    let list = TensorTypeRule::parse_list(" attn_v=q6_K\n\tffn=iq4_nl\r\n").unwrap();
    assert_eq!(list.iter().map(|r| r.ty).collect::<Vec<_>>(), [GgmlType::Q6_K, GgmlType::IQ4_NL]);
    assert!(TensorTypeRule::parse_list("attn_v=q6_K ffn").is_err());
}

/// No file content causes a panic.
#[test]
fn hostile_models() {
    let long = "blk.".to_owned() + &"9".repeat(300) + ".ffn_down.weight";
    let names = [
        "",
        "blk.",
        "blk.-1.ffn_down",
        &long,
        "blk.1.ffn_down.weight",
        "\u{fffd}weight",
        "output.weight",
        "token_embd.weight",
    ];
    let shapes: [&[u64]; 7] = [
        &[],
        &[0],
        &[0, 0, 0, 0],
        &[u64::MAX, u64::MAX, u64::MAX, u64::MAX],
        &[1, 2],
        &[256, 2, 3, 4, 5, 6],
        &[7, 0, 2],
    ];
    let tensors: Vec<_> = names
        .iter()
        .flat_map(|name| shapes.map(|shape| TensorFacts { name: Str(name.as_bytes()), shape, ty: GgmlType(u32::MAX) }))
        .collect();
    for n in [0, 1, 8, u64::MAX] {
        let model =
            ModelFacts { n_layer: n, n_layer_nextn: n / 2, n_head: n, n_head_kv: n / 8, n_expert: n, ..llama(0) };
        for name in Target::names() {
            let target = Target::parse(name).unwrap();
            let _ = decide(&model, &tensors, target, &MixOptions::default());
            for tensor in &tensors {
                if let Ok(decisions) = decide(&model, &[*tensor], target, &MixOptions::default()) {
                    let block = decisions[0].ty.info().map_or(1, |i| u64::from(i.block_len));
                    assert!(tensor.shape.first().unwrap_or(&1).is_multiple_of(block));
                }
            }
        }
    }
    let long = vec![b'a'; 2000];
    let tensor = TensorFacts { name: Str(&long), shape: &[], ty: GgmlType::F32 };
    assert!(decide(&llama(1), &[tensor], Target::parse("Q8_0").unwrap(), &MixOptions::default()).is_err());
}

#[test]
fn the_order_of_processing() {
    let mut names =
        ["token_embd.weight", "blk.10.a", "blk.9.b", "blk.9.a", "output.weight", "dec.blk.2.a", "blk.x", "blk.0.z"];
    names.sort_by(|a, b| processing_order(a.as_bytes(), b.as_bytes()));
    let expected =
        ["blk.x", "dec.blk.2.a", "output.weight", "token_embd.weight", "blk.0.z", "blk.9.a", "blk.9.b", "blk.10.a"];
    assert_eq!(names, expected);
}

/// Results of GNU's `std::regex_search` for random patterns; see the head of the file.
#[test]
fn patterns_as_std_regex_finds_them() {
    let mut lines = include_str!("../data/patterns.txt").lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let (mut n_found, mut n_wrong) = (0, 0);
    for line in lines {
        let (expected, pattern) = line.split_once('\t').unwrap();
        let found = Pattern::new(pattern)
            .map(|p| names.iter().map(|name| if p.finds(name.as_bytes()) { '1' } else { '0' }).collect::<String>());
        match found {
            Ok(found) => assert_eq!(found, expected, "{pattern}"),
            Err(e) => assert_eq!("wrong", expected, "{e}"),
        }
        n_wrong += usize::from(expected == "wrong");
        n_found += usize::from(expected.contains('1'));
    }
    assert!(n_found > 150 && n_wrong > 50, "{n_found} {n_wrong}");
}

#[test]
fn patterns_that_are_costly_or_strange() {
    let name = "blk.10.ffn_up_exps.weight".repeat(30);
    for pattern in ["(a*)*q", "((a|b)*(c|.*)*)*x{40}z", "(?=(?=(?!(?=.*q).*r).*).*).*z", "(.*.*.*)*=", "^(.*)+$z"] {
        assert!(!Pattern::new(pattern).unwrap().finds(name.as_bytes()), "{pattern}");
    }
    let deep = "(".repeat(10_000);
    for pattern in
        [deep.as_str(), "((a{99}){99}){99}", "a{1001}", r"(a)\1", r"\", "[", "a{", r"\u1234", "[z-a]", "(?i)a"]
    {
        assert!(Pattern::new(pattern).is_err(), "{pattern}");
    }
    assert!(Pattern::new("").unwrap().finds(b"") && Pattern::new("a|").unwrap().finds(b"x"));
    // Lower case, except for classes.
    assert!(Pattern::new(r"FFN_[A-D]OWN\.\D").unwrap().finds(b"ffn_down.weight"));
    assert!(!Pattern::new(r"blk\.\D").unwrap().finds(b"blk.1.x"));
}
