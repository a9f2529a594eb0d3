//! Variants of the generated checkpoints, converted by `gguf convert` and by llama.cpp's converter: the bytes, the refusals, and the answer of
//! `gguf check` compared with whether llama.cpp loads the result.
//!
//! `GGUF_FUZZ_SEED`, `GGUF_FUZZ_FIRST` and `GGUF_FUZZ_COUNT` choose the variants: a seed and an index reproduce one. `GGUF_FUZZ_LOG` names a
//! file for the results, one line of JSON for each variant.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_test::peers::{self, Peers};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn variants_have_the_results_of_the_reference() {
    let value = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let mut run = Peers::get().python(&file("tests/fuzz/peer.py"));
    run.arg(env!("CARGO_BIN_EXE_gguf")).arg(peers::folder(peers::SHARED).unwrap()).arg(peers::peers());
    run.arg(file("tests/fuzz/known.json"));
    run.args([value("GGUF_FUZZ_SEED", "1"), value("GGUF_FUZZ_FIRST", "0"), value("GGUF_FUZZ_COUNT", "60")]);
    run.args(std::env::var_os("GGUF_FUZZ_LOG"));
    let output = run.env("PYTHONHASHSEED", "0").output().expect("the peers' Python runs");
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
}

fn known_differences_are_rows_of_the_documentation() {
    let docs = fs::read_to_string(file("../../docs/conversion.md")).unwrap();
    let known: Vec<serde_json::Value> =
        serde_json::from_slice(&fs::read(file("tests/fuzz/known.json")).unwrap()).unwrap();
    for row in known {
        let case = row["case"].as_str().expect("each entry names its row");
        assert!(docs.contains(&format!("\n| {case} |")), "no row {case:?} in docs/conversion.md");
    }
}

gguf_test::tests! {
    [] known_differences_are_rows_of_the_documentation;
    [Shared, Peers, Torch] variants_have_the_results_of_the_reference;
}
