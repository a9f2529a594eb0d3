//! `gguf quantize` with a size instead of a file type, and its report.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_test::files::{folder, glossary, text};
use gguf_test::program::gguf;

/// The example model, converted.
fn model(dir: &Path) -> PathBuf {
    let out = dir.join("model.gguf");
    gguf([Path::new("convert"), &glossary(), Path::new("-o"), &out, Path::new("-q")]).exits(0);
    out
}

/// Types that are fast to try even without optimisation.
const QUICK: &str = "q4_0,q5_0,q8_0";

#[test]
fn types_are_chosen_for_a_size() {
    let dir = folder();
    let (model, out) = (model(dir.path()), dir.path().join("out.gguf"));
    let (model, out) = (text(&model), text(&out));
    let run = gguf(["quantize", model, out, "--target-size", "2.05MiB", "--candidates", QUICK]).exits(0);
    assert_eq!(run.out.trim(), out);
    run.says(&["within 2,149,580 bytes: 29 tensors, 2.89 M weights, 5.82 MB to 2."]);
    let bytes = fs::metadata(out).unwrap().len();
    assert!(bytes <= 2_149_580 && bytes > 2_100_000, "{bytes}");
    gguf(["check", out]).exits(0);
    gguf(["get", out, "general.file_type"]).exits(0);

    let spaced = QUICK.replace(',', ", ");
    let shown = ["quantize", model, "--target-bpw", "5.95", "--candidates", &spaced, "--dry-run"];
    gguf(shown).exits(0).prints(&[
        "budget: relative error",
        "kept: not a matrix",
        "within 5.95 bits per weight: 29 tensors",
    ]);
    let plan = gguf([&shown[..], &["--json"]].concat()).exits(0).json();
    let (n_weights, n_bytes) = (plan["n_weights"].as_u64().unwrap(), plan["tensor_bytes"].as_u64().unwrap());
    assert!(n_bytes as f64 * 8.0 <= 5.95 * n_weights as f64);
    let tensors = plan["tensors"].as_array().unwrap();
    let of = |name: &str| tensors.iter().find(|t| t["name"] == name).unwrap();
    assert_eq!(of("output_norm.weight").get("relative_error"), None);
    let error = of("blk.0.attn_v.weight")["relative_error"].as_f64().unwrap();
    assert!(error > 0.001 && error < 0.2, "{error}");
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let dir = folder();
    let model = model(dir.path());
    let (model, out) = (text(&model), dir.path().join("out.gguf"));
    let out = text(&out);
    let cases: &[(&[&str], &[&str])] = &[
        (
            &[model, out, "--target-size", "1MB", "--candidates", "q4_0"],
            &["the smallest file", "bytes, but the budget is 1,000,000 bytes"],
        ),
        (&[model, out, "--target-bpw", "2", "--candidates", "q4_0"], &["has 4.5", "the budget is 2 bits per weight"]),
        (&[model, out, "Q4_K_M", "--target-size", "2MB"], &["omit the type"]),
        (&[model, "Q4_K_M", "--target-size", "2MB"], &["omit the type"]),
        (&[model, "--target-size", "2MB"], &["expected an output file"]),
        (&[model, out, "--target-size", "2 apples"], &["expected a size such as 4.2GiB"]),
        (&[model, out, "--target-size", "-1"], &["expected a size such as 4.2GiB"]),
        (&[model, out, "--target-bpw", "-1"], &["above 0 and at most 64"]),
        (&[model, out, "--target-bpw", "99"], &["above 0 and at most 64"]),
        (
            &[model, out, "--target-size", "1MB", "--tensor-type", ".=q8_0", "--token-embedding-type", "q8_0"],
            &["has 3,", "the types of all tensors are fixed", "use a larger budget"],
        ),
        (&[model, out, "--target-size", "2MB", "--target-bpw", "3"], &["cannot be used with"]),
        (&[model, out, "--target-bpw", "3", "--pure"], &["cannot be used with"]),
        (&[model, out, "Q4_K_M", "--candidates", "q4_K"], &["--target-size"]),
        (&[model, out, "--target-bpw", "3", "--candidates", "q9"], &["unknown tensor type"]),
        (&[model], &["required"]),
    ];
    for (args, texts) in cases {
        gguf([&["quantize"], *args].concat()).exits(2).says(texts);
        assert!(!Path::new(out).exists(), "{args:?}");
    }
}

#[test]
fn the_report_is_a_table_or_json() {
    let dir = folder();
    let (model, out) = (model(dir.path()), dir.path().join("out.gguf"));
    let (model, out) = (text(&model), text(&out));
    let run = gguf(["quantize", model, out, "Q8_0", "--report", "-q"]).exits(0).silently();
    run.prints(&["RELATIVE", "0.539 %", "22 tensors changed, 2.88 M weights, 8.50 bits each: RMSE", "worst: blk."]);
    let run = gguf(["quantize", model, out, "Q8_0", "--report", "--json", "-q", "-f"]).exits(0).silently();
    let report = run.json();
    assert_eq!(report["files"][0]["path"], out);
    let tensors = report["tensors"].as_array().unwrap();
    assert_eq!((tensors.len(), &tensors[0]["name"]), (22, &"token_embd.weight".into()));
    for t in tensors.iter().chain([&report["total"]]) {
        let (relative, cosine) = (t["relative"].as_f64().unwrap(), t["cosine"].as_f64().unwrap());
        assert!(relative > 0.004 && relative < 0.006 && cosine > 0.9999, "{t}");
        assert!(t["weighted"].is_null());
    }
    // Without output, nothing can be measured.
    gguf(["quantize", model, "Q8_0", "--report", "--dry-run"]).exits(2).says(&["cannot be used with"]);
    gguf(["quantize", model, out, "COPY", "--report", "-q", "-f"])
        .exits(0)
        .prints(&["no tensor changed its type", out]);
}
