//! The number and size of allocations, for each file of the corpus and each operation: proportional to the size of the file, regardless of
//! its claims.
//!
//! A program of its own because of its counting allocator.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use gguf_edit::estimate::{Setup, estimate};
use gguf_edit::extract::{Format, Values};
use gguf_edit::repair::Diagnosis;
use gguf_edit::rewrite::{self, Order};
use gguf_edit::{Algorithm, DiffOptions, Edit, EditOptions, EditPlan, HashOptions, Limit, SplitOptions};
use gguf_format::keys::FileType;
use gguf_format::{Gguf, Str, TensorInfo};
use gguf_io::Model;
use gguf_pipeline::{Draft, Plan, RunOptions};
use gguf_quantize::QuantizeOptions;
use gguf_quantize::imatrix::{ImatrixFile, Merge, check};
use gguf_quantize::mix::recipe::Recipe;
use gguf_quantize::mix::{ModelFacts, Target, TensorFacts};
use gguf_test::{corpus, counting};
use ggufkit::CheckOptions;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// The maximum allocations per file, and per byte.
const ALLOCATIONS: (usize, usize) = (256, 8);
const BYTES: (usize, usize) = (256 << 10, 64);

/// A name, the bytes of buffers of fixed size, and the operation.
type Work = (&'static str, usize, fn(&Path));

/// The operations of the program's commands.
const WORK: &[Work] = &[
    ("check", 0, |path| {
        for options in [CheckOptions::default(), CheckOptions::default().structure(true)] {
            if let Ok(check) = ggufkit::check_with(path, &options) {
                check.files().iter().for_each(|(_, report)| _ = report.findings().count());
            }
        }
        let _ = ggufkit::check_data(path, &CheckOptions::default(), &());
    }),
    ("show, name", 0, |path| {
        let Ok(model) = Model::open(path) else { return };
        let heads: Vec<&Gguf<'_>> = model.files().iter().map(gguf_io::ModelFile::gguf).collect();
        let _ = gguf_model::summary::summary(&heads);
        let _ = gguf_model::naming::file_name("a-7B-v1.0.gguf", &heads);
    }),
    ("recipe show", 0, |path| {
        let Ok(model) = Model::open(path) else { return };
        let tensors: Vec<TensorInfo> = model.tensors().map(|t| t.info().to_owned()).collect();
        let facts: Vec<TensorFacts<'_>> =
            tensors.iter().map(|t| TensorFacts { name: Str(&t.name), shape: &t.shape, ty: t.ty }).collect();
        let of_model = ModelFacts::of(|key| model.gguf().get(key));
        let _ = Recipe::of(&of_model, &facts, Some(FileType(15)));
        let _ = Recipe::of_rules(&of_model, &facts);
    }),
    ("quantize", 0, |path| {
        for (target, out) in [("COPY", "copy"), ("Q8_0", "q8"), ("Q4_K_M", "q4")] {
            let out = path.with_file_name(out);
            let Ok(draft) = Draft::copy_of(path) else { return };
            let mut options = QuantizeOptions::default();
            options.allow_requantize = true;
            let Ok(planned) = gguf_quantize::plan(draft, None, &options, &Target::parse(target).unwrap()) else {
                continue;
            };
            let run = RunOptions::default().threads(THREADS).force(true).measure(true);
            let _ = planned.plan.run(&out, &run, &());
        }
    }),
    ("imatrix", 0, |path| {
        let Ok(matrix) = ImatrixFile::open(path) else { return };
        let _ = check(&matrix, &[]);
        matrix.entries().for_each(|entry| _ = matrix.statistics(entry.name));
        let mut merge = Merge::new(512).unwrap();
        if merge.add(&matrix).is_ok() {
            let _ = merge.finish().write(Vec::new());
        }
    }),
    ("hash, card", BLOCK, |path| {
        let Ok(model) = Model::open(path) else { return };
        let options = HashOptions::new([Algorithm::Sha256, Algorithm::Content]).threads(THREADS);
        let _ = gguf_edit::hash(model.files(), &options, &());
        let mut options = gguf_edit::card::CardOptions::default();
        (options.hash, options.threads) = (true, THREADS);
        let _ = gguf_edit::card::card([path], &options, &());
    }),
    ("diff", 0, |path| {
        let other = path.with_file_name("other.gguf");
        fs::hard_link(path, &other).unwrap();
        let _ = gguf_edit::diff(path, &other, &DiffOptions::default().threads(THREADS), &());
        fs::remove_file(other).unwrap();
    }),
    ("estimate", 0, |path| _ = estimate(path, &Setup::default())),
    ("cat, extract", 0, |path| {
        let Ok(names) = rewrite::names(path) else { return };
        if let Some(name) = names.first().and_then(|name| std::str::from_utf8(name).ok()) {
            let _ = gguf_edit::stats(path, name, 20, THREADS, &());
        }
        let all = gguf_edit::extract(path, &["*".into()], |_, _| true, Format::Safetensors, Values::AsStored);
        let _ = all.and_then(|all| all.run(&path.with_file_name("values"), true, THREADS, &()));
    }),
    ("set, unset, rename", 0, |path| {
        let edits = [
            Edit::Set { key: "general.name".into(), value: "New".into() },
            Edit::Unset { key: "general.architecture".into() },
            Edit::RenameKey { from: "general.name".into(), to: "general.title".into() },
        ];
        for edit in edits {
            if let Ok(plan) = EditPlan::new(path, &[edit], &EditOptions::default()) {
                let _ = plan.new_findings();
                let _ = plan.write_to(&path.with_file_name("edited"), true, &());
            }
        }
    }),
    ("swap", BLOCK, |path| write(rewrite::swap(path, None), path)),
    ("upgrade", BLOCK, |path| write(rewrite::upgrade(path).map(|(plan, _)| plan), path)),
    ("reorder", BLOCK, |path| write(rewrite::reorder(path, &Order::Sizes), path)),
    ("split", BLOCK, |path| {
        let limit = Limit::Tensors(std::num::NonZeroU64::MIN.saturating_add(99));
        write(gguf_edit::split(path, &SplitOptions::new(limit)).map(|split| split.plan), path);
    }),
    ("merge", BLOCK, |path| write(gguf_edit::merge(path).map(|merge| merge.plan), path)),
    ("repair", 0, |path| {
        let Ok(diagnosis) = Diagnosis::of(path) else { return };
        let _ = diagnosis.save(&path.with_file_name("saved"), true, &());
    }),
];

/// The block size of reading data.
const BLOCK: usize = 1 << 20;

fn write(plan: Result<Plan, gguf_edit::Error>, path: &Path) {
    let options = RunOptions::default().threads(THREADS).force(true);
    let _ = plan.map(|plan| plan.run(path.with_file_name("rewritten"), &options, &()));
}

const THREADS: Option<NonZeroUsize> = NonZeroUsize::new(1);

/// A single test: the counts are those of the whole process.
#[test]
fn allocations_follow_the_bytes_of_the_file() {
    // In memory if possible, because each output is synced.
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let path = dir.path().join("file.gguf");
    let (mut wrong, mut most) = (Vec::new(), (0, 0));
    // Initializes static tables.
    fs::write(&path, &corpus::all()[0].bytes).unwrap();
    WORK.iter().for_each(|(_, _, work)| work(&path));
    for case in corpus::all() {
        fs::write(&path, &case.bytes).unwrap();
        let n = case.bytes.len();
        for (name, buffers, work) in WORK {
            let (count, bytes) = counting::count(|| work(&path));
            let bytes = bytes.saturating_sub(*buffers);
            most = (most.0.max(count.saturating_sub(n * ALLOCATIONS.1)), most.1.max(bytes.saturating_sub(n * BYTES.1)));
            if count > ALLOCATIONS.0 + n * ALLOCATIONS.1 || bytes > BYTES.0 + n * BYTES.1 {
                wrong.push(format!("{name} of {} ({n} bytes): {count} allocations, {bytes} bytes at once", case.name));
            }
        }
    }
    wrong.iter().for_each(|line| println!("{line}"));
    println!("at most {} allocations and {} bytes beyond what is in proportion", most.0, most.1);
    assert!(wrong.is_empty(), "{} of the pairs of file and work", wrong.len());
}
