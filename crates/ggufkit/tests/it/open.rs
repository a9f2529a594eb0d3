//! Open models in place of paths: the same results, without files.

use std::fs;
use std::path::{Path, PathBuf};

use ggufkit::edit::{DiffOptions, Limit, SplitOptions};
use ggufkit::{CheckOptions, Draft, HeadOf, Model, ModelFile, RunOptions};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

const TINY: [&str; 3] = ["tiny.gguf", "tiny-00001-of-00002.gguf", "tiny-00002-of-00002.gguf"];

fn in_memory(name: &str) -> Model {
    Model::from_source(fs::read(example(name)).unwrap(), name).unwrap()
}

fn findings(check: &ggufkit::Check) -> Vec<String> {
    check.findings().map(|(_, finding)| format!("{} {finding}", finding.code)).collect()
}

#[test]
fn a_model_in_memory_is_copied_split_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = fs::read(example("tiny.gguf")).unwrap();
    let out = dir.path().join("copy.gguf");
    Draft::copy_of(in_memory("tiny.gguf")).unwrap().lay_out().unwrap().run(&out, &RunOptions::default(), &()).unwrap();
    assert!(fs::read(&out).unwrap() == bytes);

    let options = SplitOptions::new(Limit::Tensors(3.try_into().unwrap()));
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    let ours = ggufkit::edit::split(in_memory("tiny.gguf"), &options)
        .unwrap()
        .plan
        .run(&ours, &RunOptions::default(), &())
        .unwrap();
    let theirs = ggufkit::edit::split(example("tiny.gguf"), &options)
        .unwrap()
        .plan
        .run(&theirs, &RunOptions::default(), &())
        .unwrap();
    assert!(ours.paths.len() > 1 && ours.paths.len() == theirs.paths.len());
    for (a, b) in ours.paths.iter().zip(&theirs.paths) {
        assert!(fs::read(a).unwrap() == fs::read(b).unwrap());
    }

    let diff =
        ggufkit::edit::diff(in_memory("tiny.gguf"), Model::open(&ours.paths[0]).unwrap(), &DiffOptions::default(), &());
    assert!(diff.unwrap().is_same());
}

#[test]
fn open_models_and_heads_have_the_findings_of_files() {
    let dir = tempfile::tempdir().unwrap();
    let damaged = dir.path().join("Damaged-8x7B-v1.0-Q4_0.gguf");
    ggufkit::edit_metadata(example("tiny.gguf"), &damaged, |head| {
        head.set("llama.block_count", 9u32);
        head.set("tokenizer.ggml.bos_token_id", 999_999u32);
    })
    .unwrap();
    for path in [example("tiny.gguf"), example("tiny-00002-of-00002.gguf"), damaged] {
        let options = CheckOptions::default();
        let of_path = ggufkit::check(&path).unwrap();
        let model = Model::open(&path).unwrap();
        assert_eq!(findings(&ggufkit::check_model(&model, &options)), findings(&of_path), "{}", path.display());
        let heads: Vec<(String, &ModelFile)> = model
            .files()
            .iter()
            .map(|file| (file.path().file_name().unwrap().to_str().unwrap().to_owned(), file))
            .collect();
        let heads: Vec<HeadOf<'_>> = heads
            .iter()
            .map(|(name, file)| HeadOf { name, bytes: file.gguf().bytes(), file_bytes: file.file_bytes() })
            .collect();
        assert_eq!(findings(&ggufkit::check_heads(&heads, &options)), findings(&of_path), "{}", path.display());
    }
    // A head that cannot be parsed.
    let bytes = fs::read(example(TINY[0])).unwrap();
    let cut = HeadOf { name: "cut.gguf", bytes: &bytes[..100], file_bytes: 100 };
    let path = dir.path().join("cut.gguf");
    fs::write(&path, &bytes[..100]).unwrap();
    let of_path = ggufkit::check(&path).unwrap();
    assert!(!of_path.is_sound());
    assert_eq!(findings(&ggufkit::check_heads(&[cut], &CheckOptions::default())), findings(&of_path));
}
