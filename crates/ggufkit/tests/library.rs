//! The calls of the facade: what they write, refuse and find.

use std::fs;
use std::path::{Path, PathBuf};

use ggufkit::{ByteOrder, Draft, Error, GgmlType, Head, Model, ModelFile, Severity, TensorInfo, keys};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

fn values(model: &Model) -> Vec<Vec<f32>> {
    model.tensors().map(|tensor| tensor.to_f32().unwrap()).collect()
}

#[test]
fn a_big_endian_copy_has_the_same_content() {
    let dir = tempfile::tempdir().unwrap();
    let (big, back) = (dir.path().join("big.gguf"), dir.path().join("back.gguf"));
    let tiny = example("tiny.gguf");
    ggufkit::edit(&tiny, &big, |head| head.dialect = head.dialect.with_order(ByteOrder::Big)).unwrap();
    assert_eq!(fs::read(&big).unwrap()[..8], *b"GGUF\0\0\0\x03");

    let (model, original) = (Model::open(&big).unwrap(), Model::open(&tiny).unwrap());
    assert_eq!(model.gguf().dialect().order, ByteOrder::Big);
    assert_eq!(values(&model), values(&original));
    assert!(values(&model).concat().iter().any(|value| *value == -0.125));
    let blocks: u32 = model.gguf().get_for_arch(keys::BLOCK_COUNT).unwrap();
    assert_eq!(blocks, 1);
    assert!(ggufkit::check(&big).unwrap().is_sound());

    ggufkit::edit(&big, &back, |_| ()).unwrap();
    assert!(fs::read(&back).unwrap() == fs::read(&tiny).unwrap());
}

#[test]
fn shards_make_one_model() {
    let dir = tempfile::tempdir().unwrap();
    let merged = dir.path().join("merged.gguf");
    let (first, second) = (example("tiny-00001-of-00002.gguf"), example("tiny-00002-of-00002.gguf"));
    let whole = Model::open(example("tiny.gguf")).unwrap();
    assert_eq!(values(&Model::open(&second).unwrap()), values(&whole));
    assert_eq!(ggufkit::summary(&Model::open(&second).unwrap()).n_params, ggufkit::summary(&whole).n_params);

    let written = ggufkit::merge(&second, &merged).unwrap();
    assert_eq!(written.paths, [merged.as_path()]);
    assert!(fs::read(&merged).unwrap() == fs::read(example("tiny.gguf")).unwrap());

    // In memory there is nothing to find the others by.
    let in_memory = |path: &Path| ModelFile::from_reader(fs::read(path).unwrap(), path).unwrap();
    let model = Model::from_files(vec![in_memory(&first), in_memory(&second)]).unwrap();
    assert_eq!(values(&model), values(&whole));
    assert!(Model::from_reader(fs::read(&first).unwrap(), "first").is_err());

    // The keys and tensors of the others are not missed where a shard is.
    let alone = dir.path().join("tiny-00001-of-00002.gguf");
    fs::copy(&first, &alone).unwrap();
    let check = ggufkit::check(&alone).unwrap();
    let found: Vec<_> = check.findings().map(|(_, f)| (f.code, f.severity)).collect();
    assert!(found.contains(&("split.file", Severity::Warning)), "{found:?}");
    assert!(!found.iter().any(|(code, _)| *code == "tensor.missing"), "{found:?}");
}

#[test]
fn files_are_not_replaced_and_failures_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (there, out) = (dir.path().join("there.gguf"), dir.path().join("out.gguf"));
    let (tiny, q8) = (example("tiny.gguf"), dir.path().join("q8.gguf"));
    ggufkit::quantize_file(&tiny, &q8, "Q8_0").unwrap();
    fs::write(&there, "content").unwrap();
    let head = Head { tensors: vec![TensorInfo::new("a", [2], GgmlType::F32)], ..Head::default() };

    let refused = |result: Result<(), Error>| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains("there.gguf") && message.contains("exists already"), "{message}");
    };
    refused(ggufkit::write(&there, &head, [[0; 8]]));
    refused(ggufkit::edit(&tiny, &there, |_| ()).map(drop));
    refused(ggufkit::quantize_file(&tiny, &there, "Q8_0").map(drop));
    assert_eq!(fs::read(&there).unwrap(), b"content");

    let failed = |result: Result<(), Error>, text: &str| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(text), "{message}");
    };
    failed(ggufkit::write(&out, &head, [[0; 7]]), "tensor a");
    failed(ggufkit::quantize_file(&tiny, &out, "Q4_K_N").map(drop), "did you mean Q4_K_S or Q4_K_M");
    failed(ggufkit::quantize_file(&q8, &out, "Q4_0").map(drop), "is q8_0 already");
    failed(ggufkit::edit(&tiny, &out, |head| head.set("general.alignment", 3u32)).map(drop), "alignment");
    failed(ggufkit::convert(dir.path(), &out).map(drop), "config.json");
    failed(ggufkit::edit(&there, &out, |_| ()).map(drop), "there.gguf");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn warnings_come_with_what_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let written = ggufkit::quantize_file(example("tiny.gguf"), dir.path().join("out.gguf"), "Q4_K_M").unwrap();
    assert!(
        written.warnings.iter().any(|w| w.contains("whose blocks do not fit rows of 32")),
        "{:?}",
        written.warnings
    );
}

#[test]
fn a_draft_leaves_tensors_out() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.gguf");
    let mut draft = Draft::copy_of(example("tiny.gguf")).unwrap();
    draft.tensors.retain(|tensor| tensor.name != b"blk.0.ffn_up.weight");
    draft.lay_out().unwrap().run(&out, &Default::default(), &()).unwrap();
    assert_eq!(Model::open(&out).unwrap().tensors().count(), 11);
    let check = ggufkit::check(&out).unwrap();
    assert!(!check.is_sound() && check.is_safe());
    let found: Vec<_> = check.findings().map(|(_, f)| f.to_string()).collect();
    assert!(found.iter().any(|f| f.contains("blk.0.ffn_up.weight")), "{found:?}");
}

#[test]
fn models_are_shared_between_threads() {
    let model = Model::open(example("tiny.gguf")).unwrap();
    let names: Vec<String> = model.tensors().map(|tensor| tensor.name().to_string()).collect();
    let load = |name: &String| model.tensor(name).unwrap().to_f32().unwrap();
    let loaded: Vec<Vec<f32>> = std::thread::scope(|scope| {
        let threads: Vec<_> = names.iter().map(|name| scope.spawn(move || load(name))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(loaded, values(&model));
}
