//! `gguf recipe`: a model's types as rules, from which the same types result.

use std::fs;
use std::path::Path;

use gguf_format::Gguf;
use gguf_quantize::imatrix::{Entry, Format, Imatrix};
use gguf_quantize::mix::Target;
use gguf_test::files::{folder, glossary, text};
use gguf_test::program::gguf;

/// The example model, converted.
fn model(dir: &Path) -> std::path::PathBuf {
    let out = dir.join("model.gguf");
    gguf([Path::new("convert"), &glossary(), Path::new("-o"), &out, Path::new("-q")]).exits(0);
    out
}

/// Names and types of a model's tensors.
fn types(path: &Path) -> Vec<(Vec<u8>, u32)> {
    let bytes = fs::read(path).unwrap();
    let gguf = Gguf::parse(&bytes).unwrap();
    gguf.tensors().map(|t| (t.name.as_bytes().to_vec(), t.ty.0)).collect()
}

/// Weights that differ from column to column.
fn write_matrix(model: &Path, path: &Path) {
    let bytes = fs::read(model).unwrap();
    let gguf = Gguf::parse(&bytes).unwrap();
    let tensors = gguf.tensors().map(|t| t.to_owned()).filter(|t| t.shape.len() == 2);
    let entry = |columns: u64| Entry { sums: (0..columns).map(|i| (i % 97) as f32 + 0.5).collect(), counts: vec![8] };
    let matrix = Imatrix {
        format: Format::Gguf,
        entries: tensors.map(|t| (t.name, entry(t.shape[0]))).collect(),
        datasets: vec![b"numbers".to_vec()],
        chunk_count: 1,
        chunk_size: 512,
    };
    fs::write(path, matrix.write(Vec::new()).unwrap()).unwrap();
}

/// Debug builds test some file types.
#[test]
fn a_recipe_of_a_file_type_gives_the_same_bytes() {
    let dir = folder();
    let path = |name: &str| dir.path().join(name);
    let (model, matrix, recipe) = (model(dir.path()), path("matrix.gguf"), path("recipe"));
    let (one, two, three) = (path("one.gguf"), path("two.gguf"), path("three.gguf"));
    write_matrix(&model, &matrix);
    let all = Target::names().filter(|name| *name != "COPY");
    let quick = ["Q4_K_M", "F16", "Q2_0"];
    for ty in all.filter(|name| !cfg!(debug_assertions) || quick.contains(name)) {
        for matrix in [None, Some(text(&matrix))] {
            let options: Vec<&str> = matrix.map_or(vec![], |matrix| vec!["--imatrix", matrix]);
            let run = gguf([&["quantize", text(&model), text(&one), ty, "-fq"], options.as_slice()].concat());
            if run.code == 1 && run.err.contains("needs an importance matrix") {
                continue;
            }
            let shown = run.exits(0);
            assert_eq!(shown.err, "");
            let shown = gguf(["recipe", "show", text(&one)]).exits(0).silently();
            assert!(shown.out.lines().count() <= 2, "{ty}: {}", shown.out);
            fs::write(&recipe, &shown.out).unwrap();
            let apply = ["recipe", "apply", text(&recipe), text(&model), text(&two), "-fq"];
            gguf([&apply, options.as_slice()].concat()).exits(0).silently();
            // With rules, the file also names the recipe.
            match shown.out.lines().count() {
                1 => assert!(fs::read(&one).unwrap() == fs::read(&two).unwrap(), "{ty}: {}", shown.out),
                _ => drop(gguf(["diff", text(&one), text(&two)]).exits(1).prints(&["tensors: 29 the same"])),
            }

            // The rules alone give the same types, with any file type.
            if ["F32", "F16", "BF16"].contains(&ty) {
                continue;
            }
            fs::write(&recipe, gguf(["recipe", "show", text(&one), "--rules"]).exits(0).out).unwrap();
            let quantize = ["quantize", text(&model), text(&three), "Q8_0", "-fq", "--tensor-type-file", text(&recipe)];
            gguf([&quantize, options.as_slice()].concat()).exits(0).silently();
            assert_eq!(types(&one), types(&three), "{ty}");
        }
    }
}

#[test]
fn exceptions_are_shown_and_applied() {
    let dir = folder();
    let path = |name: &str| dir.path().join(name);
    let (model, one, recipe, two) = (model(dir.path()), path("one.gguf"), path("recipe"), path("two.gguf"));
    let options = ["--tensor-type", "blk.[02].ffn_down=q8_0", "--tensor-type", "attn_(k|q)=q5_K"];
    gguf([&["quantize", text(&model), text(&one), "Q4_K_S", "-q"], options.as_slice()].concat()).exits(0);
    let shown = gguf(["recipe", "show", text(&one)]).exits(0).silently();
    let expected = "Q4_K_S\n^blk\\.\\d+\\.(attn_k|attn_q)\\.weight$=q5_K\n^blk\\.[02]\\.ffn_down\\.weight$=q8_0\n";
    assert_eq!(shown.out, expected);
    let json = gguf(["recipe", "show", text(&one), "--json"]).exits(0).json();
    assert_eq!(json["file_type"], "Q4_K_S");
    assert_eq!(json["rules"][1]["type"], "q8_0");

    fs::write(&recipe, format!("# edited\n{}no_such_tensor=q8_0", shown.out)).unwrap();
    let apply = ["recipe", "apply", text(&recipe), text(&model), text(&two)];
    let run = gguf(apply).exits(0).says(&["no tensor matches the rule no_such_tensor=q8_0", "recipe: 29 tensors"]);
    assert_eq!(run.out.trim(), text(&two));
    gguf(["diff", text(&one), text(&two)]).exits(1).prints(&["ggufkit.mixture", "tensors: 29 the same"]);

    let plan = gguf([&apply[..4], &["--dry-run", "--type", "Q5_0"]].concat()).exits(0);
    plan.prints(&["recipe: 29 tensors", "q8_0", "rule number 2 for names"]);
}

#[test]
fn what_is_no_recipe_is_refused() {
    let dir = folder();
    let path = |name: &str| dir.path().join(name);
    let (model, recipe, out) = (model(dir.path()), path("recipe"), path("out.gguf"));
    for (words, options, code, said) in [
        ("ffn_down=q6_K", &[] as &[&str], 2, "does not start with a file type"),
        ("Q4_KM", &[], 2, "did you mean Q4_K_M?"),
        ("", &[], 2, "it is empty"),
        ("ffn_down=q6_K", &["--type", "BF16"], 2, "rules have no effect"),
        ("ffn_down=q6_K", &["--type", "COPY"], 2, "COPY keeps every type"),
        ("IQ2_XS", &[], 1, "needs an importance matrix"),
    ] {
        fs::write(&recipe, words).unwrap();
        let apply = ["recipe", "apply", text(&recipe), text(&model), text(&out)];
        gguf([&apply, options].concat()).exits(code).says(&[said]);
        assert!(!out.exists());
    }
    gguf(["recipe", "apply", "no-such-recipe", text(&model), text(&out)])
        .exits(2)
        .says(&["no-such-recipe: cannot open"]);
    gguf(["recipe", "show", text(&recipe)]).exits(1);
}
