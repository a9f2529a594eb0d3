//! Recipes: the rules reproduce the types, and are as concise as handwritten ones.

use gguf_format::keys::FileType;
use gguf_format::{GgmlType, Str};
use gguf_quantize::mix::recipe::{Recipe, RecipeError, idle_rules};
use gguf_quantize::mix::{
    Decision, MixOptions, ModelFacts, Target, TensorFacts, decide, parse_tensor_type, processing_order,
};
use gguf_test::random::Random;

const BLOCK: &[(&str, [u64; 3])] = &[
    ("attn_norm", [1024, 1, 1]),
    ("attn_q", [1024, 1024, 1]),
    ("attn_k", [1024, 256, 1]),
    ("attn_v", [1024, 256, 1]),
    ("attn_output", [1024, 1024, 1]),
    ("ffn_gate_inp", [1024, 8, 1]),
    ("ffn_gate_exps", [1024, 512, 8]),
    ("ffn_up_exps", [1024, 512, 8]),
    ("ffn_down_exps", [512, 1024, 8]),
    // Rows that are not whole blocks of any K type.
    ("ffn_down_shexp", [96, 1024, 1]),
];

struct Model {
    facts: ModelFacts,
    tensors: Vec<(String, [u64; 3], GgmlType)>,
}

impl Model {
    fn new(n_layer: u64, tied: bool) -> Model {
        let facts = ModelFacts {
            architecture: "llama".to_owned(),
            n_layer,
            n_head: 16,
            n_head_kv: 8,
            n_expert: 8,
            ..ModelFacts::default()
        };
        let mut tensors = vec![("token_embd.weight".to_owned(), [1024, 32000, 1], GgmlType::F16)];
        if !tied {
            tensors.push(("output.weight".to_owned(), [1024, 32000, 1], GgmlType::F16));
        }
        for layer in 0..n_layer {
            let of = |&(name, shape): &(&str, [u64; 3])| (format!("blk.{layer}.{name}.weight"), shape, GgmlType::F16);
            tensors.extend(BLOCK.iter().map(of));
        }
        tensors.sort_by(|a, b| processing_order(a.0.as_bytes(), b.0.as_bytes()));
        Model { facts, tensors }
    }

    fn facts(&self) -> Vec<TensorFacts<'_>> {
        let tensors = self.tensors.iter();
        tensors.map(|(name, shape, ty)| TensorFacts { name: Str(name.as_bytes()), shape, ty: *ty }).collect()
    }

    fn decide(&self, target: Target, options: &MixOptions) -> Vec<Decision> {
        decide(&self.facts, &self.facts(), target, options).unwrap()
    }

    /// The same model with the decided types.
    fn with(&self, decisions: &[Decision]) -> Model {
        let types = decisions.iter().map(|decision| decision.ty);
        let tensors = self.tensors.iter().zip(types).map(|((name, shape, _), ty)| (name.clone(), *shape, ty));
        Model { facts: self.facts.clone(), tensors: tensors.collect() }
    }

    /// Asserts that a recipe produces the types of `quantized`, directly and after parsing its text.
    #[track_caller]
    fn assert_gives(&self, recipe: &Recipe, quantized: &Model) {
        assert_eq!(&Recipe::parse(&recipe.to_string()).unwrap().to_string(), &recipe.to_string());
        for file_type in recipe.file_type.map_or(vec![FileType(2), FileType(15), FileType(23)], |ty| vec![ty]) {
            for has_imatrix in [false, true] {
                let options = MixOptions { tensor_types: recipe.rules.clone(), has_imatrix, ..MixOptions::default() };
                let decisions = self.decide(Target::FileType(file_type), &options);
                for (decision, (name, _, ty)) in decisions.iter().zip(&quantized.tensors) {
                    assert_eq!(decision.ty, *ty, "{name}, {file_type}:\n{recipe}");
                }
                assert!(idle_rules(recipe.rules.len(), &decisions).is_empty(), "{recipe}");
            }
        }
    }
}

#[test]
fn every_file_type_is_its_own_recipe() {
    for (n_layer, tied) in [(3, true), (11, false)] {
        let model = Model::new(n_layer, tied);
        for name in Target::names().filter(|name| !["COPY", "Q1_0"].contains(name)) {
            let target = Target::parse(name).unwrap();
            let Target::FileType(ty) = target else { continue };
            for has_imatrix in [false, true] {
                let options = MixOptions { has_imatrix, ..MixOptions::default() };
                let quantized = model.with(&model.decide(target, &options));
                let recipe = Recipe::of(&quantized.facts, &quantized.facts(), Some(ty)).unwrap();
                assert_eq!(recipe.file_type, Some(ty));
                // Some rules are only needed with an importance matrix.
                let other = MixOptions { has_imatrix: !has_imatrix, ..MixOptions::default() };
                let depends = model.decide(target, &options) != model.decide(target, &other);
                assert!(recipe.rules.is_empty() || depends, "{name}:\n{recipe}");
                assert!(recipe.rules.len() <= 4, "{name}:\n{recipe}");
                model.assert_gives(&recipe, &quantized);
                if !quantized.tensors.iter().all(|t| [GgmlType::F16, GgmlType::F32, GgmlType::BF16].contains(&t.2)) {
                    let rules = Recipe::of_rules(&quantized.facts, &quantized.facts()).unwrap();
                    assert!(rules.rules.len() <= 14, "{name}:\n{rules}");
                    model.assert_gives(&rules, &quantized);
                }
            }
        }
    }
}

/// Random types, for which blocks are counted differently than for the file type.
#[test]
fn any_types_are_given_again() {
    let types =
        ["q4_K", "q6_K", "q8_0", "iq4_nl", "f16", "q5_0", "iq3_s", "f32"].map(|ty| parse_tensor_type(ty).unwrap());
    let mut random = Random::new("types", 0);
    for round in 0..24 {
        let model = Model::new([1, 5, 9, 14][round % 4], round % 3 == 0);
        let says =
            [None, Some(FileType(15)), Some(FileType(12)), Some(FileType(1)), Some(FileType(1024 + 7))][round % 5];
        let n_types = 1 + round % types.len();
        let usual = Target::parse(["Q4_K_M", "Q3_K_M", "IQ2_M"][round % 3]).unwrap();
        let mut quantized =
            model.with(&model.decide(usual, &MixOptions { has_imatrix: true, ..MixOptions::default() }));
        let decided = model.decide(Target::FileType(FileType(7)), &MixOptions::default());
        for (decision, (_, shape, ty)) in decided.iter().zip(&mut quantized.tensors) {
            let other = types[random.below(n_types)];
            let fits = shape[0] % u64::from(other.info().unwrap().block_len) == 0;
            // Few in some rounds, most in others.
            if fits && !matches!(decision.why, gguf_quantize::mix::Reason::Kept(_)) && random.below(8) <= round % 8 {
                *ty = other;
            }
        }
        let recipe = Recipe::of(&quantized.facts, &quantized.facts(), says).unwrap();
        model.assert_gives(&recipe, &quantized);
        model.assert_gives(&Recipe::of_rules(&quantized.facts, &quantized.facts()).unwrap(), &quantized);
    }
}

#[test]
fn rules_are_short() {
    let mut model = Model::new(30, false);
    let decisions = model.decide(Target::parse("Q4_K_M").unwrap(), &MixOptions::default());
    model = model.with(&decisions);
    for (name, _, ty) in &mut model.tensors {
        let block = name.split('.').nth(1).unwrap().parse().unwrap_or(99);
        match name.rsplit('.').nth(1).unwrap() {
            "attn_k" | "attn_q" => *ty = GgmlType::Q5_K,
            "ffn_up_exps" | "ffn_gate_exps"
                if [0, 1, 2, 10, 15, 16, 29].contains(&block) || (20..30).contains(&block) =>
            {
                *ty = GgmlType::IQ4_XS;
            }
            "output" => *ty = GgmlType::Q8_0,
            _ => {}
        }
    }
    let recipe = Recipe::of(&model.facts, &model.facts(), Some(FileType(15))).unwrap();
    let expected = "\
Q4_K_M
^output\\.weight$=q8_0
^blk\\.\\d+\\.(attn_k|attn_q)\\.weight$=q5_K
^blk\\.([0-2]|1[056]|2\\d)\\.(ffn_gate_exps|ffn_up_exps)\\.weight$=iq4_xs
";
    assert_eq!(recipe.to_string(), expected);
    let rules = Recipe::of_rules(&model.facts, &model.facts()).unwrap().to_string();
    assert!(rules.ends_with("weight$=q4_K\n") || rules.ends_with("weight$=q5_K\n"), "{rules}");
}

#[test]
fn recipes_are_read() {
    let recipe =
        Recipe::parse("# for small machines\nq4_k_m  # the base\n\n ffn_down=q6_K attn=Q5_K\n#x=y\nweight$=q8_0")
            .unwrap();
    assert_eq!(recipe.file_type, Some(FileType(15)));
    assert_eq!(recipe.to_string(), "Q4_K_M\nffn_down=q6_K\nattn=q5_K\nweight$=q8_0\n");
    assert_eq!(Recipe::parse("F16").unwrap().to_string(), "F16\n");
    for (text, said) in [
        ("", "it is empty"),
        ("# nothing", "it is empty"),
        ("Q4_KM", "did you mean Q4_K_M?"),
        ("ffn=q4_0\n\n Q4_0", "line 3: missing type in `Q4_0`"),
        ("Q4_0 Q4_1", "missing type in `Q4_1`"),
        ("Q4_0 ffn=q9_0", "unknown tensor type `q9_0`"),
        ("Q4_0 (=q4_0", "`(`"),
        ("F16 ffn=q8_0", "rules have no effect with the file type F16"),
        ("copy ffn=q8_0", "COPY keeps every type"),
    ] {
        let error = Recipe::parse(text).unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn what_has_no_recipe_is_said() {
    let mut model = Model::new(1, true);
    model.tensors[0].2 = GgmlType(4);
    assert!(matches!(Recipe::of(&model.facts, &model.facts(), None), Err(RecipeError::Type { .. })));
    // Rules do not match capital letters.
    let mut model = Model::new(1, true);
    for (name, ty) in [("extra.weight", GgmlType::Q4_0), ("Extra.weight", GgmlType::Q8_0)] {
        model.tensors.insert(0, (name.to_owned(), [1024, 1024, 1], ty));
    }
    let alike = Recipe::of(&model.facts, &model.facts(), None).map(|recipe| recipe.to_string());
    model.tensors.remove(0);
    assert!(Recipe::of(&model.facts, &model.facts(), None).is_ok());
    assert!(matches!(alike, Err(RecipeError::Alike { .. })), "{alike:?}");
}

/// Many names or numbers need several rules: the length of a pattern is bounded.
#[test]
fn rules_are_as_long_as_patterns_may_be() {
    let types = [GgmlType::Q4_K, GgmlType::Q8_0, GgmlType::Q5_K];
    for name in [|i: usize| format!("n{}x.weight", i * 7919), |i: usize| format!("blk.{i}.attn_q.weight")] {
        let facts = ModelFacts { architecture: "llama".to_owned(), ..ModelFacts::default() };
        let mut tensors: Vec<_> = (0..3000).map(|i| (name(i), [256, 2, 1], types[i % 3])).collect();
        tensors.sort_by(|a, b| processing_order(a.0.as_bytes(), b.0.as_bytes()));
        let model = Model { facts, tensors };
        for recipe in [
            Recipe::of(&model.facts, &model.facts(), None).unwrap(),
            Recipe::of_rules(&model.facts, &model.facts()).unwrap(),
        ] {
            assert!(recipe.rules.len() > 1, "{} rules", recipe.rules.len());
            assert_eq!(Recipe::parse(&recipe.to_string()).unwrap(), recipe);
            let options = MixOptions { tensor_types: recipe.rules.clone(), ..MixOptions::default() };
            let ty = recipe.file_type.unwrap_or(FileType(7));
            let decisions = model.decide(Target::FileType(ty), &options);
            assert!(decisions.iter().zip(&model.tensors).all(|(decision, (_, _, ty))| decision.ty == *ty));
        }
    }
}

#[test]
fn rules_that_take_too_long_are_refused() {
    let facts = ModelFacts { architecture: "llama".to_owned(), ..ModelFacts::default() };
    let tensors = (0..20_000).map(|i| (format!("blk.{i}.attn_q.weight"), [256, 2, 1], GgmlType::F16)).collect();
    let model = Model { facts, tensors };
    let rules = |n: usize| -> Vec<_> {
        let rule = "a{1000}=q8_0";
        Recipe::parse(&vec![rule; n].join("\n")).unwrap().rules
    };
    let decided = |n: usize| {
        let options = MixOptions { tensor_types: rules(n), ..MixOptions::default() };
        decide(&model.facts, &model.facts(), Target::parse("Q4_0").unwrap(), &options)
    };
    assert!(decided(1).is_ok());
    let error = decided(2000).unwrap_err();
    assert_eq!(error, gguf_quantize::mix::MixError::Work { n_rules: 2000, n_tensors: 20_000 });
    assert!(error.to_string().contains("exceed 8589934592"), "{error}");
}
