//! The functions of the facade: outputs, errors and findings.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ggufkit::{
    ByteOrder, CheckOptions, Draft, Error, Event, GgmlType, Head, Model, ModelFile, Progress, Severity, TensorInfo,
    keys, pipeline,
};

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
    ggufkit::edit_metadata(&tiny, &big, |head| head.dialect = head.dialect.with_order(ByteOrder::Big)).unwrap();
    assert_eq!(fs::read(&big).unwrap()[..8], *b"GGUF\0\0\0\x03");

    let (model, original) = (Model::open(&big).unwrap(), Model::open(&tiny).unwrap());
    assert_eq!(model.gguf().dialect().order, ByteOrder::Big);
    assert_eq!(values(&model), values(&original));
    assert!(values(&model).concat().iter().any(|value| *value == -0.125));
    let blocks: u32 = model.gguf().get_for_arch(keys::BLOCK_COUNT).unwrap();
    assert_eq!(blocks, 1);
    assert!(ggufkit::check(&big).unwrap().is_sound());

    ggufkit::edit_metadata(&big, &back, |_| ()).unwrap();
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

    // In memory, the other shards cannot be found.
    let in_memory = |path: &Path| ModelFile::from_source(fs::read(path).unwrap(), path).unwrap();
    let model = Model::from_files(vec![in_memory(&first), in_memory(&second)]).unwrap();
    assert_eq!(values(&model), values(&whole));
    assert!(Model::from_source(fs::read(&first).unwrap(), "first").is_err());

    // Keys and tensors of other shards are not reported as missing.
    let alone = dir.path().join("tiny-00001-of-00002.gguf");
    fs::copy(&first, &alone).unwrap();
    let check = ggufkit::check(&alone).unwrap();
    let found: Vec<_> = check.findings().map(|(_, f)| (f.code, f.severity)).collect();
    assert!(found.contains(&("split.file", Severity::Error)), "{found:?}");
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
        assert!(message.contains("there.gguf") && message.contains("already exists"), "{message}");
    };
    refused(ggufkit::write(&there, &head, [[0; 8]]));
    refused(ggufkit::edit_metadata(&tiny, &there, |_| ()).map(drop));
    refused(ggufkit::quantize_file(&tiny, &there, "Q8_0").map(drop));
    assert_eq!(fs::read(&there).unwrap(), b"content");

    let failed = |result: Result<(), Error>, text: &str| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(text), "{message}");
    };
    failed(ggufkit::write(&out, &head, [[0; 7]]), "tensor a");
    failed(ggufkit::quantize_file(&tiny, &out, "Q4_K_N").map(drop), "did you mean Q4_K_S or Q4_K_M");
    failed(ggufkit::quantize_file(&q8, &out, "Q4_0").map(drop), "is already q8_0");
    failed(ggufkit::edit_metadata(&tiny, &out, |head| head.set("general.alignment", 3u32)).map(drop), "alignment");
    failed(ggufkit::convert(dir.path(), &out).map(drop), "config.json");
    failed(ggufkit::edit_metadata(&there, &out, |_| ()).map(drop), "there.gguf");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn warnings_come_with_what_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let written = ggufkit::quantize_file(example("tiny.gguf"), dir.path().join("out.gguf"), "Q4_K_M").unwrap();
    assert!(
        written.warnings.iter().any(|w| w.to_string().contains("whose blocks do not divide rows of 32")),
        "{:?}",
        written.warnings
    );
}

#[test]
fn a_draft_leaves_tensors_out() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.gguf");
    let mut draft = Draft::copy_of(example("tiny.gguf")).unwrap();
    draft.tensors.retain(|tensor| *tensor.name != *b"blk.0.ffn_up.weight");
    draft.lay_out().unwrap().run(&out, &Default::default(), &()).unwrap();
    assert_eq!(Model::open(&out).unwrap().tensors().count(), 11);
    let check = ggufkit::check(&out).unwrap();
    assert!(!check.is_sound() && check.is_safe());
    let found: Vec<_> = check.findings().map(|(_, f)| f.to_string()).collect();
    assert!(found.iter().any(|f| f.contains("blk.0.ffn_up.weight")), "{found:?}");
}

/// Writes a model of three tensors with NaN in the first and the last.
fn write_not_finite(path: &Path) {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.tensors = ["a", "b", "c"].map(|name| TensorInfo::new(name, [4], GgmlType::F32)).into();
    let data = [f32::NAN, 1.0, f32::NAN].map(|value| value.to_le_bytes().repeat(4));
    ggufkit::write(path, &head, data).unwrap();
}

#[test]
fn numbers_that_are_not_finite_are_findings_of_the_data_check() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    write_not_finite(&path);
    let of_data = |check: &ggufkit::Check| -> Vec<String> {
        let of_data = check.findings().filter(|(_, f)| f.code.starts_with("data."));
        of_data.map(|(_, f)| format!("{} {}", f.place, f.message.split(';').next().unwrap())).collect()
    };
    assert_eq!(of_data(&ggufkit::check(&path).unwrap()), [""; 0]);
    let (total, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let progress = |event: Event<'_>| match event {
        Event::Started { bytes, .. } => _ = total.fetch_add(bytes, Ordering::Relaxed),
        Event::Advanced { bytes } => _ = done.fetch_add(bytes, Ordering::Relaxed),
        _ => {}
    };
    let check = ggufkit::check_data(&path, &CheckOptions::default(), &progress).unwrap();
    assert_eq!(of_data(&check), ["tensor a 4 NaN of 4 values", "tensor c 4 NaN of 4 values"]);
    assert_eq!((total.into_inner(), done.into_inner()), (48, 48));

    // The shards of a model are scanned together; a file that is not safe to read is not scanned.
    let shard = example("tiny-00002-of-00002.gguf");
    let check = ggufkit::check_data(shard, &CheckOptions::default(), &()).unwrap();
    assert_eq!((check.files().len(), of_data(&check)), (2, vec![]));
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 40]).unwrap();
    let check = ggufkit::check_data(&path, &CheckOptions::default(), &()).unwrap();
    assert_eq!(of_data(&check), ["file the data was not read, because the file is not safe to read"]);
}

/// Cancels the work after a number of progress events.
struct StopAfter {
    events: u64,
    seen: AtomicU64,
}

impl Progress for StopAfter {
    fn event(&self, event: Event<'_>) {
        if let Event::Advanced { .. } = event {
            self.seen.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn is_cancelled(&self) -> bool {
        self.seen.load(Ordering::Relaxed) >= self.events
    }
}

#[test]
fn a_check_of_the_data_can_be_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    write_not_finite(&path);
    let options = CheckOptions::default().threads(NonZeroUsize::new(1));
    for events in [0, 1, 2] {
        let progress = StopAfter { events, seen: AtomicU64::new(0) };
        match ggufkit::check_data(&path, &options, &progress) {
            Err(Error::Pipeline(e)) if matches!(*e, pipeline::Error::Cancelled) => {}
            other => panic!("after {events}: {other:?}"),
        }
        assert_eq!(progress.seen.into_inner(), events);
    }
    // Before any file is opened.
    let progress = StopAfter { events: 0, seen: AtomicU64::new(0) };
    let result = ggufkit::check_data(dir.path().join("missing.gguf"), &options, &progress);
    assert!(matches!(result, Err(Error::Pipeline(_))), "{result:?}");
}

#[test]
fn a_check_of_the_structure_leaves_the_model_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (alone, outer) = (dir.path().join("tiny-00001-of-00002.gguf"), dir.path().join("outer"));
    fs::copy(example("tiny-00001-of-00002.gguf"), &alone).unwrap();
    let structure = CheckOptions::default().structure(true);
    assert_eq!(ggufkit::check_with(&alone, &structure).unwrap().findings().count(), 0);

    let inner = fs::read(example("tiny.gguf")).unwrap();
    fs::write(&outer, [vec![7; 64], inner].concat()).unwrap();
    assert!(!ggufkit::check_with(&outer, &structure).unwrap().is_safe());
    assert!(ggufkit::check_with(&outer, &structure.start(64)).unwrap().is_safe());
    assert!(ggufkit::check_with(&outer, &CheckOptions::default().start(64)).unwrap().is_sound());
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

#[test]
fn a_conversion_in_steps_is_the_program_of_its_steps() {
    use ggufkit::{Conversion, Warning, hf, io::ReadAt, quantize};
    use std::num::NonZeroU64;

    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let checkpoint = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/glossary");
    let lossless = hf::plan(&checkpoint, &hf::Options::default().ty(hf::OutType::Lossless)).unwrap();
    lossless.plan.run(path("lossless.gguf"), &Default::default(), &()).unwrap();
    ggufkit::quantize_file(path("lossless.gguf"), path("two.gguf"), "Q4_0").unwrap();

    let conversion = || Conversion::open(&checkpoint).unwrap().quantize("Q4_0").unwrap();
    let written = conversion().run(path("one.gguf"), &()).unwrap();
    assert_eq!(written.paths, [path("one.gguf")]);
    assert!(fs::read(path("one.gguf")).unwrap() == fs::read(path("two.gguf")).unwrap());

    // The last choice of a type applies; changes of keys are made at the end.
    let f32 = conversion().ty(hf::OutType::F32).set("general.name", "Two").remove("general.file_type");
    f32.run(path("f32.gguf"), &()).unwrap();
    let model = Model::open(path("f32.gguf")).unwrap();
    assert!(model.tensors().all(|tensor| tensor.ty() == GgmlType::F32));
    assert_eq!(model.gguf().get_as::<&str>("general.name"), Ok("Two"));
    assert!(!model.gguf().kvs().any(|kv| kv.key == "general.file_type"));

    // Shards are named after the output; a tensor that is too large is reported.
    let written = conversion().max_bytes(NonZeroU64::MIN).run(path("split.gguf"), &()).unwrap();
    let n_tensors = model.tensors().count();
    assert_eq!(written.paths.len(), n_tensors);
    let too_large = |warning: &&Warning| matches!(warning, Warning::TooLarge { .. });
    assert_eq!(written.warnings.iter().filter(too_large).count(), n_tensors);
    let shards = conversion().max_tensors(NonZeroU64::new(4).unwrap()).run(path("few.gguf"), &()).unwrap().paths;
    assert_eq!(shards.len(), n_tensors.div_ceil(4));

    assert!(matches!(Conversion::open(&checkpoint).unwrap().quantize("Q4"), Err(Error::FileType(_))));
    assert!(matches!(Conversion::open(path("none")), Err(Error::Convert(_))));
    let options = quantize::QuantizeOptions::default();
    let run = ggufkit::RunOptions::default().force(true);
    let again = Conversion::open(&checkpoint).unwrap().quantize_with("Q4_0", options, None).unwrap().run_options(run);
    again.run(path("one.gguf"), &()).unwrap();
    let size = fs::File::open(path("one.gguf")).unwrap().size().unwrap();
    assert_eq!(again.plan().unwrap().plan().file_bytes(), size);
}
