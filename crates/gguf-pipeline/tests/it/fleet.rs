//! Work divided among machines: the outputs are those of one run, whatever the parts and their order, and faults are errors.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use gguf_format::{ByteOrder, GgmlType};
use gguf_io::ReadAt;
use gguf_pipeline::fleet::{
    FilesPlace, FleetError, FleetOptions, FleetPlan, Made, Manifest, Opener, Place, PlanProblem, Samples, SourceFile,
    part_bytes,
};
use gguf_pipeline::plan::Rounding;
use gguf_pipeline::report::{Report, TensorReport};
use gguf_pipeline::{Draft, Event, Importance, Plan, Progress, RunOptions};
use gguf_test::files::{folder, names};

use crate::common::{Weights, threads, typed, weighted, write_model};

fn open(path: &Path) -> io::Result<Arc<dyn ReadAt>> {
    Ok(Arc::new(fs::File::open(path)?))
}

fn places(plan: &FleetPlan) -> Vec<Box<dyn Place>> {
    plan.outputs().map(|out| Box::new(FilesPlace::new(out)) as Box<dyn Place>).collect()
}

fn begin(plan: &Plan, out: &Path, part: u64) -> FleetPlan {
    begin_with(plan, out, part, false)
}

fn begin_with(plan: &Plan, out: &Path, part: u64, report: bool) -> FleetPlan {
    let mut options = FleetOptions::default();
    (options.part_bytes, options.report) = (Some(part), report);
    let new = FleetPlan::divide(plan, &plan.output_paths(out), options).unwrap();
    let places = places(new.plan());
    let begun = new.begin(&places).unwrap();
    // Workers have the JSON only.
    FleetPlan::parse(&begun.to_json().unwrap()).unwrap()
}

fn make(plan: &FleetPlan, index: usize, importance: Option<Arc<dyn Importance>>) -> Result<Made, FleetError> {
    let worker = plan.worker(Arc::new(open), importance);
    worker.make(index, &places(plan), &threads(2), &())
}

/// Makes all parts with several workers at once, from the last to the first.
fn make_all(plan: &FleetPlan, n_workers: usize, importance: Option<&Arc<dyn Importance>>) {
    let left = AtomicUsize::new(plan.n_parts());
    std::thread::scope(|scope| {
        for _ in 0..n_workers {
            scope.spawn(|| {
                let worker = plan.worker(Arc::new(open), importance.cloned());
                let places = places(plan);
                while let Ok(before) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)) {
                    let made = worker.make(before - 1, &places, &threads(1), &()).unwrap();
                    assert_eq!(made, Made::Now);
                }
            });
        }
    });
}

fn weights() -> Arc<dyn Importance> {
    Arc::new(Weights((0..256u16).map(|i| 0.5 + f32::from(i % 7)).collect()))
}

/// Vectors, matrices, a stack, and rows that chunks divide differently.
fn model(dir: &Path) -> PathBuf {
    let path = dir.join("in.gguf");
    let shapes: [(&str, &[u64]); 5] = [
        ("output_norm.weight", &[250]),
        ("token_embd.weight", &[256, 300]),
        ("blk.0.ffn_up_exps.weight", &[512, 7, 3]),
        ("blk.0.attn_norm.weight", &[3]),
        ("blk.0.attn_q.weight", &[768, 11]),
    ];
    write_model(&path, &shapes);
    path
}

/// Runs a plan on one machine and divided, and compares the files.
fn compare(plan: &Plan, dir: &Path, part: u64, n_workers: usize, importance: Option<&Arc<dyn Importance>>) {
    let (one, many) = (dir.join("one.gguf"), dir.join("many.gguf"));
    let measure = n_workers == 2;
    let expected = plan.run(&one, &RunOptions::default().force(true).measure(measure), &()).unwrap();
    let divided = begin_with(plan, &many, part, measure);
    make_all(&divided, n_workers, importance);
    let found = divided.commit(&places(&divided), None, &()).unwrap();
    assert_eq!(found.overflows, expected.overflows, "parts of {part} bytes");
    // Also the figures are those of one machine, to the last bit.
    let figures = |report: Option<Report>| {
        let report = report?;
        let of = |tensor: &TensorReport| (tensor.index, tensor.error.figures(), tensor.error.weighted());
        let total = (report.total().figures(), report.total_weighted().weighted());
        Some((report.tensors.iter().map(of).collect::<Vec<_>>(), total))
    };
    assert_eq!(figures(found.report), figures(expected.report), "parts of {part} bytes");
    for (one, many) in expected.paths.iter().zip(plan.output_paths(&many)) {
        assert!(fs::read(one).unwrap() == fs::read(&many).unwrap(), "{}, parts of {part} bytes", many.display());
        fs::remove_file(many).unwrap();
    }
    assert!(names(dir).iter().all(|name| !name.contains(".part")), "{:?}", names(dir));
}

#[test]
fn the_bytes_are_those_of_one_machine() {
    let dir = folder();
    let draft = Draft::copy_of(model(dir.path())).unwrap();
    let types = [
        GgmlType::F16,
        GgmlType::F32,
        GgmlType::BF16,
        GgmlType::Q4_0,
        GgmlType::Q5_1,
        GgmlType::Q8_0,
        GgmlType::Q4_K,
        GgmlType::Q6_K,
        GgmlType::IQ4_NL,
        GgmlType::IQ2_XXS,
    ];
    for (i, ty) in types.into_iter().enumerate() {
        for importance in [None, Some(weights())] {
            let mut draft = typed(draft.clone(), ty);
            if let Some(importance) = &importance {
                draft = weighted(draft, Arc::clone(importance));
            } else if ty == GgmlType::IQ2_XXS {
                continue;
            }
            let plan = draft.lay_out().unwrap();
            for (part, n_workers) in [(997, 3), (4096, 2), (65_537, 16), (5 << 20, 1)] {
                // Small parts have a file each, so a few types take them.
                if part > 1000 || i % 3 == 0 {
                    compare(&plan, dir.path(), part, n_workers, importance.as_ref());
                }
            }
        }
    }
}

#[test]
fn shards_are_outputs_of_one_plan() {
    let dir = folder();
    let mut draft = typed(Draft::copy_of(model(dir.path())).unwrap(), GgmlType::Q4_K);
    for (i, tensor) in draft.tensors.iter_mut().enumerate() {
        tensor.file = i as u32 / 2;
    }
    let plan = draft.lay_out_as_shards().unwrap();
    assert_eq!(plan.files().len(), 3);
    for part in [1009, 8192, 1 << 20] {
        compare(&plan, dir.path(), part, 3, None);
    }
}

#[test]
fn byte_orders_are_kept() {
    let dir = folder();
    let mut draft = Draft::copy_of(model(dir.path())).unwrap();
    draft.head.dialect.order = ByteOrder::Big;
    let big = typed(draft, GgmlType::Q8_0).lay_out().unwrap();
    compare(&big, dir.path(), 4099, 2, None);
    let path = dir.path().join("big.gguf");
    big.run(&path, &RunOptions::default(), &()).unwrap();
    let back = Draft::copy_of(&path).unwrap();
    compare(&back.clone().lay_out().unwrap(), dir.path(), 4099, 2, None);
    compare(&typed(back, GgmlType::F32).lay_out().unwrap(), dir.path(), 4099, 2, None);
}

/// The parts of a plan of samples have results in place of bytes, which the commit gives back in order.
#[test]
fn samples_have_results() {
    let dir = folder();
    let plan = Draft::copy_of(model(dir.path())).unwrap().lay_out().unwrap();
    let out = dir.path().join("measured.json");
    let samples = |n_parts| {
        let tensors = [0, 2, 4].map(|index| (index, vec![GgmlType::Q4_K, GgmlType::Q6_K]));
        let mut options = FleetOptions::default();
        options.samples = Some(Samples::new(n_parts, tensors));
        let new = FleetPlan::divide(&plan, std::slice::from_ref(&out), options).unwrap();
        let places = places(new.plan());
        let json = new.begin(&places).unwrap().to_json().unwrap();
        (FleetPlan::parse(&json).unwrap(), json)
    };
    let (divided, json) = samples(2);
    let all = places(&divided);
    assert_eq!((divided.n_parts(), divided.file_bytes()), (2, 0));
    let of = |part| divided.samples(part).unwrap().into_iter().map(|(index, _)| index).collect::<Vec<_>>();
    assert_eq!([of(0), of(1)], [vec![0, 4], vec![2]]);
    let worker = divided.worker(Arc::new(open), None);
    let mut values = vec![0; 512];
    worker.draft().source.read(0, 0, &mut values[..8]).unwrap();
    assert_eq!(worker.put_results(1, &all, "second".into()).unwrap(), Made::Now);
    assert!(worker.is_done(1, &all).unwrap() && !worker.is_done(0, &all).unwrap());
    assert!(matches!(divided.results(&all), Err(FleetError::Missing { parts }) if parts == [0]));
    worker.put_results(0, &all, "first".into()).unwrap();
    let results = divided.results(&all).unwrap().unwrap();
    assert_eq!(results, ["first", "second"]);
    assert!(!out.exists());
    let json_of_results = format!(r#"{{"plan":"{}"}}"#, divided.hash()).into_bytes();
    for _ in 0..2 {
        if divided.results(&all).unwrap().is_some() {
            divided.commit_results(&all, Some(json_of_results.clone())).unwrap();
        }
        assert!(divided.status(&all).unwrap().is_complete && worker.is_done(0, &all).unwrap());
        assert!(divided.results(&all).unwrap().is_none());
        divided.commit_results(&all, None).unwrap();
        // A commit that has read the manifests when another one was faster.
        divided.commit_results(&all, Some(json_of_results.clone())).unwrap();
    }
    assert_eq!(names(dir.path()), ["in.gguf", "measured.json"]);
    let json = String::from_utf8(json).unwrap();
    for (from, to) in [("\"n_parts\":2", "\"n_parts\":0"), ("[[0,[\"q4_K\"", "[[9,[\"q4_K\"")] {
        assert!(json.contains(from), "{json}");
        let e = FleetPlan::parse(json.replacen(from, to, 1).as_bytes()).unwrap_err();
        assert!(e.to_string().contains("the samples are not those of the tensors"), "{e}");
    }
}

/// A value is counted once, also in the converter's rules, which cut between any values, and by a worker that has half of its bytes.
#[test]
fn values_that_become_infinite_are_counted_once() {
    let dir = folder();
    let path = dir.path().join("in.gguf");
    let mut head = gguf_format::Head::default();
    head.set("general.architecture", "llama");
    head.tensors =
        ["a.weight", "b.weight"].map(|name| gguf_format::TensorInfo::new(name, [64, 8], GgmlType::F32)).into();
    let data = [1e9f32; 512].iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    fs::write(&path, gguf_io::Writer::write(Vec::new(), &head, [&data, &data]).unwrap()).unwrap();
    let mut draft = typed(Draft::copy_of(&path).unwrap(), GgmlType::F16);
    draft.rounding = Rounding::Converter;
    let plan = draft.lay_out().unwrap();
    for part in [13, 64, 999] {
        compare(&plan, dir.path(), part, 2, None);
    }
}

/// A file that counts the bytes read.
#[derive(Debug)]
struct Counting(fs::File, Arc<AtomicU64>);

impl ReadAt for Counting {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.1.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.0.read_exact_at(offset, buffer)
    }
    fn as_file(&self) -> Option<&fs::File> {
        Some(&self.0)
    }
}

/// A worker reads the rows that have bytes of its part, and nothing else.
#[test]
fn a_worker_reads_the_rows_of_its_part() {
    let dir = folder();
    let draft = typed(Draft::copy_of(model(dir.path())).unwrap(), GgmlType::Q4_K);
    let plan = draft.lay_out().unwrap();
    let out = dir.path().join("out.gguf");
    let divided = begin(&plan, &out, 10_007);
    let starts = plan.heads().unwrap().remove(0);
    for index in 0..divided.n_parts() {
        let read = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&read);
        let open = move |path: &Path| -> io::Result<Arc<dyn ReadAt>> {
            Ok(Arc::new(Counting(fs::File::open(path)?, Arc::clone(&counted))))
        };
        let opener: Arc<Opener> = Arc::new(open);
        divided.worker(opener, None).make(index, &places(&divided), &threads(2), &()).unwrap();
        let range = divided.part(index).unwrap().range;
        let mut needed = 0;
        for (tensor, place) in plan.tensors().iter().zip(starts.tensors()) {
            let start = starts.tensor_range(&place).unwrap().start;
            let (row, row_from) = (
                tensor.n_bytes() * tensor.shape[0] / tensor.n_elements(),
                match tensor.shape.len() {
                    1 => 4,
                    _ => 2 * tensor.shape[0],
                },
            );
            // A vector is copied value by value.
            let row = if tensor.shape.len() == 1 { 4 } else { row };
            let within = |at: u64| at.clamp(start, start + tensor.n_bytes()) - start;
            let (first, end) = (within(range.start), within(range.end));
            needed += if first < end { (end.div_ceil(row) - first / row) * row_from } else { 0 };
        }
        assert_eq!(read.load(Ordering::Relaxed), needed, "part {index}");
    }
}

#[test]
fn everything_may_happen_twice() {
    let dir = folder();
    let plan = typed(Draft::copy_of(model(dir.path())).unwrap(), GgmlType::Q8_0).lay_out().unwrap();
    let (one, out) = (dir.path().join("one.gguf"), dir.path().join("out.gguf"));
    plan.run(&one, &RunOptions::default(), &()).unwrap();
    let divided = begin(&plan, &out, 1 << 15);
    let all = places(&divided);
    let n = divided.n_parts();
    assert_eq!(n, 4);
    assert_eq!(make(&divided, 1, None).unwrap(), Made::Now);
    assert_eq!(make(&divided, 1, None).unwrap(), Made::Before);
    let status = divided.status(&all).unwrap();
    assert_eq!((status.n_parts, status.missing.len(), status.bytes), (4, 3, 1 << 15));
    assert!(!status.is_complete && !out.exists());

    match divided.commit(&all, None, &()) {
        Err(e @ FleetError::Missing { .. }) => {
            assert!(e.is_temporary());
            assert_eq!(e.to_string(), "3 parts are not done: 0, 2, 3");
        }
        other => panic!("{other:?}"),
    }
    // A worker that has died after its bytes, before its manifest, is as if it had not begun.
    for index in 0..n {
        make(&divided, index, None).unwrap();
    }
    fs::remove_file(dir.path().join("out.gguf.parts/part-00002.json")).unwrap();
    assert_eq!(make(&divided, 2, None).unwrap(), Made::Now);
    for _ in 0..2 {
        divided.commit(&all, None, &()).unwrap();
        assert!(fs::read(&one).unwrap() == fs::read(&out).unwrap());
        assert_eq!(make(&divided, 0, None).unwrap(), Made::Before);
        assert!(divided.status(&all).unwrap().is_complete);
    }
    assert!(matches!(divided.abort(&all), Err(FleetError::Complete { .. })));
    assert_eq!(names(dir.path()), ["in.gguf", "one.gguf", "out.gguf"]);
}

/// A commit that was killed between any two of its steps is finished by the next one.
#[test]
fn a_commit_that_was_killed_is_finished() {
    let dir = folder();
    let mut draft = typed(Draft::copy_of(model(dir.path())).unwrap(), GgmlType::Q8_0);
    for (i, tensor) in draft.tensors.iter_mut().enumerate() {
        tensor.file = i as u32 / 3;
    }
    let plan = draft.lay_out_as_shards().unwrap();
    let (one, out) = (dir.path().join("one.gguf"), dir.path().join("out.gguf"));
    let expected = plan.run(&one, &RunOptions::default(), &()).unwrap().paths;
    let paths = plan.output_paths(&out);
    let divided = begin(&plan, &out, 1 << 15);
    make_all(&divided, 2, None);
    // The first shard has its name.
    fs::rename(gguf_io::Output::partial_path(&paths[0]), &paths[0]).unwrap();
    // The parts of the first shard are partly removed.
    let folder = PathBuf::from(format!("{}.parts", paths[0].display()));
    fs::remove_file(folder.join("part-00000.json")).unwrap();
    divided.commit(&places(&divided), None, &()).unwrap();
    for (one, many) in expected.iter().zip(&paths) {
        assert!(fs::read(one).unwrap() == fs::read(many).unwrap());
    }
    assert!(!folder.exists());
}

/// Another commit, which begins when this one has read the manifests, and is faster.
struct Faster<'a>(&'a FleetPlan, std::sync::Once);

impl Progress for Faster<'_> {
    fn event(&self, event: Event<'_>) {
        if let Event::Started { .. } = event {
            self.1.call_once(|| drop(self.0.commit(&places(self.0), None, &()).unwrap()));
        }
    }
}

#[test]
fn commits_may_run_at_once() {
    let dir = folder();
    let mut draft = typed(Draft::copy_of(model(dir.path())).unwrap(), GgmlType::Q8_0);
    for shards in [1, 3] {
        draft.tensors.iter_mut().enumerate().for_each(|(i, tensor)| tensor.file = i as u32 * shards / 5);
        let plan = draft.clone().lay_out_as_shards().unwrap();
        let out = dir.path().join("out.gguf");
        let divided = begin(&plan, &out, 1 << 15);
        make_all(&divided, 2, None);
        let done = divided.commit(&places(&divided), None, &Faster(&divided, std::sync::Once::new())).unwrap();
        assert_eq!(done.paths.len(), shards as usize);
        assert!(done.paths.iter().all(|path| path.exists()));
        assert!(names(dir.path()).iter().all(|name| !name.contains(".part")), "{:?}", names(dir.path()));
    }
}

#[test]
fn parts_that_are_damaged_are_made_again() {
    let dir = folder();
    let plan = typed(Draft::copy_of(model(dir.path())).unwrap(), GgmlType::Q8_0).lay_out().unwrap();
    let out = dir.path().join("out.gguf");
    let divided = begin(&plan, &out, 1 << 15);
    let all = places(&divided);
    make_all(&divided, 1, None);
    let partial = gguf_io::Output::partial_path(&out);
    let mut bytes = fs::read(&partial).unwrap();
    bytes[(1 << 15) + 7] ^= 1;
    fs::write(&partial, &bytes).unwrap();
    match divided.commit(&all, None, &()) {
        Err(e @ FleetError::StaleParts { .. }) => {
            assert!(e.is_temporary());
            assert_eq!(e.to_string(), "the data of these parts is not what was written: 1; they are to be made again");
        }
        other => panic!("{other:?}"),
    }
    assert!(!out.exists());
    assert_eq!(divided.status(&all).unwrap().missing, [1]);
    assert_eq!(make(&divided, 1, None).unwrap(), Made::Now);
    divided.commit(&all, None, &()).unwrap();
    bytes[(1 << 15) + 7] ^= 1;
    assert!(fs::read(&out).unwrap() == bytes);
}

fn message(result: Result<impl std::fmt::Debug, FleetError>) -> String {
    let e = result.unwrap_err();
    assert!(!e.is_temporary(), "{e}");
    e.to_string()
}

#[test]
fn a_changed_source_is_an_error() {
    let dir = folder();
    let input = model(dir.path());
    let plan = typed(Draft::copy_of(&input).unwrap(), GgmlType::Q8_0).lay_out().unwrap();
    let divided = begin(&plan, &dir.path().join("out.gguf"), 1 << 15);
    let real = input.canonicalize().unwrap();
    let old = fs::metadata(&input).unwrap().modified().unwrap();
    let touched = old + std::time::Duration::from_secs(3);
    fs::File::options().write(true).open(&input).unwrap().set_modified(touched).unwrap();
    let found = message(make(&divided, 1, None));
    let start = format!(
        "{}: the file is not the one for which the plan was made: its time of the last change was ",
        real.display()
    );
    assert!(found.starts_with(&start), "{found}");
    fs::OpenOptions::new().append(true).open(&input).and_then(|file| file.set_len(5)).unwrap();
    let found = message(make(&divided, 1, None));
    assert!(found.contains("its length was ") && found.ends_with(" and is 5"), "{found}");
    fs::remove_file(&input).unwrap();
    assert!(message(make(&divided, 1, None)).contains("cannot open"));
    assert_eq!(divided.status(&places(&divided)).unwrap().missing.len(), divided.n_parts());
}

#[test]
fn manifests_of_other_plans_and_heads_are_errors() {
    let dir = folder();
    let plan = typed(Draft::copy_of(model(dir.path())).unwrap(), GgmlType::Q8_0).lay_out().unwrap();
    let out = dir.path().join("out.gguf");
    let divided = begin(&plan, &out, 1 << 15);
    make_all(&divided, 1, None);
    let path = dir.path().join("out.gguf.parts/part-00001.json");
    let whole = fs::read_to_string(&path).unwrap();
    let manifest: Manifest = serde_json::from_str(&whole).unwrap();
    let hash = manifest.plan.clone();
    for (from, to, what) in [
        (hash.as_str(), "0000", format!("plan is 0000; expected {hash}")),
        ("\"part\":1", "\"part\":2", "part is 2; expected 1".to_owned()),
        ("\"offset\":32768", "\"offset\":0", "offset is 0; expected 32768".to_owned()),
        ("\"bytes\":32768", "\"bytes\":5", "bytes is 5; expected 32768".to_owned()),
        ("{", "[", "expected".to_owned()),
    ] {
        assert!(whole.contains(from), "{whole}");
        fs::write(&path, whole.replacen(from, to, 1)).unwrap();
        for found in [message(divided.commit(&places(&divided), None, &())), message(make(&divided, 1, None))] {
            assert!(found.starts_with("the manifest of part 1 is invalid: ") && found.contains(&what), "{found}");
        }
    }
    fs::write(&path, &whole).unwrap();
    // The head of another output.
    let folder = dir.path().join("out.gguf.parts");
    fs::remove_file(folder.join("part-00000.json")).unwrap();
    fs::write(folder.join("head"), "other").unwrap();
    assert!(message(make(&divided, 0, None)).ends_with("the head beside the output is missing or damaged"));
    assert!(!out.exists());
}

#[test]
fn plans_of_other_versions_and_broken_ones_are_refused() {
    let dir = folder();
    let plan = typed(Draft::copy_of(model(dir.path())).unwrap(), GgmlType::Q8_0).lay_out().unwrap();
    let json = String::from_utf8(begin(&plan, &dir.path().join("out.gguf"), 1 << 15).to_json().unwrap()).unwrap();
    let parse = |json: &str| FleetPlan::parse(json.as_bytes());
    for (from, to) in [("ggufkit 0.1.0", "ggufkit 0.0.9"), ("\"gguf_plan\":1", "\"gguf_plan\":2")] {
        assert!(json.contains(from));
        let e = parse(&json.replacen(from, to, 1)).unwrap_err();
        assert!(matches!(e, FleetError::Plan(PlanProblem::Program { .. })), "{e}");
        assert!(e.to_string().contains("this is ggufkit 0.1.0"), "{e}");
    }
    for (from, to, what) in [
        ("\"part_bytes\":32768", "\"part_bytes\":0", "part_bytes is 0"),
        ("\"part_bytes\":32768", "\"part_bytes\":1", "has more than 10000 parts"),
        ("\"inputs\":[[0,", "\"inputs\":[[1,", "an input is in source 1, of 1 sources"),
        ("{\"copy\":[0,", "{\"copy\":[99,", "the tensor output_norm.weight has an input that is not listed"),
        ("\"start\":", "\"start\":99", "is outside of its place"),
        ("\"q8_0\"", "\"q8_1234\"", "unknown tensor type"),
        ("{", "", "not a plan of this program"),
    ] {
        assert!(json.contains(from), "{from} in {json}");
        let e = parse(&json.replacen(from, to, 1)).unwrap_err();
        assert!(e.to_string().contains(what), "{e}");
        assert!(!e.is_temporary());
    }
}

#[test]
fn outputs_that_exist_or_are_begun_stay() {
    let dir = folder();
    let plan = Draft::copy_of(model(dir.path())).unwrap().lay_out().unwrap();
    let out = dir.path().join("out.gguf");
    let again = |replace| {
        let mut options = FleetOptions::default();
        options.replace = replace;
        let new = FleetPlan::divide(&plan, std::slice::from_ref(&out), options).unwrap();
        let places = places(new.plan());
        new.begin(&places)
    };
    let first = begin(&plan, &out, 1 << 16);
    make(&first, 1, None).unwrap();
    assert!(message(again(false)).contains("so another run or another plan writes this output"));
    assert_eq!(first.status(&places(&first)).unwrap().missing.len(), first.n_parts() - 1);
    let second = again(true).unwrap();
    // The parts of the first plan are gone, and its workers do not write to the new file.
    let found = message(make(&first, 2, None));
    assert!(found.ends_with("completed since; part 2 was not written"), "{found}");
    assert_eq!(second.status(&places(&second)).unwrap().missing.len(), second.n_parts());
    second.abort(&places(&second)).unwrap();
    assert!(message(make(&second, 0, None)).ends_with("completed since; part 0 was not written"));
    assert!(message(make(&first, 2, None)).ends_with("completed since; part 2 was not written"));
    assert_eq!(names(dir.path()), ["in.gguf"]);

    fs::write(&out, "mine").unwrap();
    assert!(again(false).is_err());
    let third = again(true).unwrap();
    assert_eq!(fs::read(&out).unwrap(), b"mine");
    make_all(&third, 1, None);
    third.commit(&places(&third), None, &()).unwrap();
    assert!(fs::read(&out).unwrap() == fs::read(dir.path().join("in.gguf")).unwrap());
    assert!(matches!(make(&third, 99, None), Err(FleetError::NoPart { index: 99, .. })));
}

/// Data that is decoded as it is read has no place in a file.
#[test]
fn sources_without_places_are_refused() {
    #[derive(Debug)]
    struct Elsewhere;
    impl gguf_pipeline::Source for Elsewhere {
        fn read(&self, _: usize, _: u64, _: &mut [u8]) -> Result<(), gguf_pipeline::Error> {
            Ok(())
        }
    }
    let dir = folder();
    let mut draft = Draft::copy_of(model(dir.path())).unwrap();
    draft.source = Arc::new(Elsewhere);
    let plan = draft.lay_out().unwrap();
    let found = FleetPlan::divide(&plan, &[dir.path().join("out.gguf")], FleetOptions::default());
    assert!(matches!(&found, Err(FleetError::Source { tensor }) if tensor == "output_norm.weight"), "{found:?}");
}

#[test]
fn lengths_of_parts_follow_the_output() {
    assert_eq!(part_bytes(0), 64 << 20);
    assert_eq!(part_bytes(100_000_000_000), 64 << 20);
    assert_eq!(part_bytes(100_000_000_001), 256 << 20);
    let huge = 40_000_000_000_000u64;
    assert!(huge.div_ceil(part_bytes(huge)) <= 10_000 && part_bytes(huge).is_multiple_of(1 << 20));
    let file = SourceFile { path: "a".into(), bytes: 1, version: None, modified: None };
    assert_eq!(serde_json::to_string(&file).unwrap(), r#"{"path":"a","bytes":1}"#);
}
