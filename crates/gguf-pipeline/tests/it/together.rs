//! Several plans over one source: after any interruption, the files are those of separate runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gguf_format::GgmlType;
use gguf_pipeline::report::TensorReport;
use gguf_pipeline::{Draft, Error, Event, Importance, Plan, Progress, RunOptions, RunSummary, Source, Stored, run_all};
use gguf_test::files::{folder, names};

use crate::common::{Weights, matrices, threads, typed, weighted};

/// Types that need weights, types of 32 and of 256 values, and floats.
const TYPES: [GgmlType; 8] = [
    GgmlType::Q4_K,
    GgmlType::Q5_K,
    GgmlType::Q6_K,
    GgmlType::IQ3_XXS,
    GgmlType::IQ2_XXS,
    GgmlType::Q8_0,
    GgmlType::F32,
    GgmlType::IQ4_NL,
];

fn plan(draft: &Draft, ty: GgmlType) -> Plan {
    let weights = (0..256u16).map(|i| 0.5 + f32::from(i % 7)).collect();
    weighted(typed(draft.clone(), ty), Arc::new(Weights(weights))).lay_out().unwrap()
}

/// Plans of the types, with their outputs.
fn plans(draft: &Draft, dir: &Path, types: &[GgmlType]) -> Vec<(Plan, PathBuf)> {
    types.iter().map(|ty| (plan(draft, *ty), dir.join(ty.to_string()))).collect()
}

fn run(plans: &[(Plan, PathBuf)], options: &RunOptions, progress: &dyn Progress) -> Result<Vec<RunSummary>, Error> {
    let plans: Vec<(&Plan, &Path)> = plans.iter().map(|(plan, out)| (plan, out.as_path())).collect();
    run_all(&plans, options, progress)
}

/// Counts the bytes read.
#[derive(Debug)]
struct Counting {
    source: Arc<dyn Source>,
    bytes: AtomicU64,
}

impl Source for Counting {
    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.source.read(index, offset, buffer)
    }

    fn stored(&self, _: usize) -> Option<Stored<'_>> {
        None
    }
}

/// Counts the requests for weights: one for each piece that is encoded with them.
#[derive(Debug)]
struct Counted {
    matrix: Arc<dyn Importance>,
    asked: AtomicU64,
}

impl Importance for Counted {
    fn weights(&self, entry: &[u8], columns: std::ops::Range<u64>) -> Result<Option<Vec<f32>>, Error> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.matrix.weights(entry, columns)
    }
}

/// A tensor with the same type, weights and byte order in several outputs is encoded once.
#[test]
fn equal_tensors_are_encoded_once() {
    let dir = folder();
    let draft = Draft::copy_of(matrices(dir.path())).unwrap();
    let weights = || {
        let matrix = plan(&draft, GgmlType::Q6_K).into_draft().importance.unwrap();
        Arc::new(Counted { matrix, asked: AtomicU64::new(0) })
    };
    // Runs types together, each with the weights of the given number, optionally big-endian; returns the number of requests for weights.
    let asked = |types: &[(GgmlType, usize, bool)]| {
        let counting = [weights(), weights()];
        let plans: Vec<(Plan, PathBuf)> = types
            .iter()
            .enumerate()
            .map(|(i, &(ty, which, is_big))| {
                let mut draft = plan(&draft, ty).into_draft();
                draft.importance = Some(counting[which].clone());
                if is_big {
                    draft.head.dialect.order = gguf_format::ByteOrder::Big;
                }
                (draft.lay_out().unwrap(), dir.path().join(i.to_string()))
            })
            .collect();
        run(&plans, &threads(2).force(true), &()).unwrap();
        let asked = counting.iter().map(|weights| weights.asked.load(Ordering::Relaxed)).sum::<u64>();
        for (plan, out) in &plans {
            let own = dir.path().join("own");
            plan.run(&own, &threads(2).force(true), &()).unwrap();
            assert!(fs::read(own).unwrap() == fs::read(out).unwrap(), "{types:?}: {}", out.display());
        }
        asked
    };
    let once = asked(&[(GgmlType::Q6_K, 0, false)]);
    assert!(once > 0);
    assert_eq!(asked(&[(GgmlType::Q6_K, 0, false), (GgmlType::Q6_K, 0, false), (GgmlType::Q6_K, 0, false)]), once);
    assert_eq!(asked(&[(GgmlType::Q6_K, 0, false), (GgmlType::Q6_K, 1, false)]), 2 * once);
    assert_eq!(asked(&[(GgmlType::Q6_K, 0, false), (GgmlType::Q6_K, 0, true)]), 2 * once);
    // Plans share some of their tensors.
    let mut mixed = plan(&draft, GgmlType::Q6_K).into_draft();
    mixed.tensors.iter_mut().step_by(2).for_each(|tensor| tensor.ty = GgmlType::Q8_0);
    let weights = weights();
    let whole = Draft { importance: Some(weights.clone()), ..plan(&draft, GgmlType::Q6_K).into_draft() };
    let mixed = Draft { importance: Some(weights.clone()), ..mixed };
    let both = [whole, mixed].map(|draft| draft.lay_out().unwrap());
    let both: Vec<(Plan, PathBuf)> = both.into_iter().zip(["x", "y"].map(|name| dir.path().join(name))).collect();
    run(&both, &threads(2), &()).unwrap();
    assert_eq!(weights.asked.load(Ordering::Relaxed), once + once / 2);
}

/// Each file is equal to that of a separate run, and every byte of the source is read once.
#[test]
fn files_are_those_of_runs_of_their_own() {
    let dir = folder();
    let mut draft = Draft::copy_of(matrices(dir.path())).unwrap();
    let (own, together) = (dir.path().join("own"), dir.path().join("together"));
    fs::create_dir(&own).unwrap();
    for (plan, out) in plans(&draft, &own, &TYPES) {
        plan.run(out, &threads(2), &()).unwrap();
    }
    for n in [1, 3] {
        fs::create_dir(&together).unwrap();
        let counting = Arc::new(Counting { source: draft.source.clone(), bytes: AtomicU64::new(0) });
        let source = std::mem::replace(&mut draft.source, counting.clone());
        let summaries = run(&plans(&draft, &together, &TYPES), &threads(n).measure(n == 3), &()).unwrap();
        draft.source = source;
        for (ty, summary) in TYPES.iter().zip(&summaries) {
            assert!(
                fs::read(own.join(ty.to_string())).unwrap() == fs::read(together.join(ty.to_string())).unwrap(),
                "{ty}"
            );
            assert_eq!(summary.paths, [together.join(ty.to_string())]);
            assert_eq!(summary.report.is_some(), n == 3);
        }
        let all: u64 = draft.tensors.iter().map(|tensor| tensor.n_bytes()).sum();
        assert_eq!(counting.bytes.load(Ordering::Relaxed), all);
        fs::remove_dir_all(&together).unwrap();
    }
}

/// The errors of each plan are equal to those of a separate run.
#[test]
fn each_plan_has_its_report() {
    let dir = folder();
    let draft = Draft::copy_of(matrices(dir.path())).unwrap();
    let together = plans(&draft, dir.path(), &[GgmlType::Q4_K, GgmlType::Q8_0]);
    let summaries = run(&together, &threads(2).measure(true), &()).unwrap();
    for ((plan, out), summary) in together.iter().zip(summaries) {
        let own = plan.run(out, &threads(2).measure(true).force(true), &()).unwrap();
        let relative = |summary: &RunSummary| {
            let tensors = &summary.report.as_ref().unwrap().tensors;
            let of = |t: &TensorReport| plan.tensors().get(t.index).map(|plan| (plan.shown(), plan.ty)).unwrap();
            tensors.iter().map(|t| (of(t), t.error.figures().relative.to_bits())).collect::<Vec<_>>()
        };
        assert_eq!(relative(&own).len(), relative(&summary).len());
        for (((name, to), one), ((other, other_to), two)) in relative(&own).into_iter().zip(relative(&summary)) {
            assert_eq!((&name, to), (&other, other_to));
            // Sums of chunks depend on the order in which threads finish.
            let (one, two) = (f64::from_bits(one), f64::from_bits(two));
            assert!((one - two).abs() <= one * 1e-9, "{name}: {one} {two}");
        }
    }
}

/// Interrupts after a number of chunks; counts reused work.
struct Watch {
    left: AtomicU64,
    kept: AtomicU64,
}

impl Watch {
    fn after(chunks: u64) -> Watch {
        Watch { left: AtomicU64::new(chunks), kept: AtomicU64::new(0) }
    }
}

impl Progress for Watch {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Advanced { .. } => {
                let less = |left: u64| Some(left.saturating_sub(1));
                _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
            }
            Event::Kept { bytes } => _ = self.kept.fetch_add(bytes, Ordering::Relaxed),
            _ => {}
        }
    }

    fn is_cancelled(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

/// Interrupted work is resumed by the same run, by one with fewer outputs, and by one with more.
#[test]
fn interrupted_work_is_resumed() {
    let types = [GgmlType::Q4_K, GgmlType::IQ3_XXS, GgmlType::Q8_0];
    for resumed in [&types[..], &types[1..], &[GgmlType::Q8_0, GgmlType::Q6_K, GgmlType::Q4_K, GgmlType::IQ3_XXS]] {
        let dir = folder();
        let draft = Draft::copy_of(matrices(dir.path())).unwrap();
        let options = threads(2).resume(true);
        let stopped = run(&plans(&draft, dir.path(), &types), &options, &Watch::after(20)).unwrap_err();
        assert!(matches!(stopped, Error::Kept { n_others: 2, .. }), "{stopped}");
        let kept = types.iter().flat_map(|ty| [format!("{ty}.journal"), format!("{ty}.partial")]);
        let mut left: Vec<String> = kept.chain(["in.gguf".to_owned()]).collect();
        left.sort();
        assert_eq!(names(dir.path()), left);

        let watch = Watch::after(u64::MAX);
        run(&plans(&draft, dir.path(), resumed), &options, &watch).unwrap();
        assert!(watch.kept.load(Ordering::Relaxed) > 0);
        for (plan, out) in plans(&draft, dir.path(), resumed) {
            let own = out.with_extension("own");
            plan.run(&own, &threads(2), &()).unwrap();
            assert!(fs::read(out).unwrap() == fs::read(own).unwrap());
        }
    }
}

/// Missing folders are created on request. A failed run removes them again, unless it keeps work in them.
#[test]
fn folders_are_created_for_files() {
    let dir = folder();
    let draft = Draft::copy_of(matrices(dir.path())).unwrap();
    let types = [GgmlType::Q4_K, GgmlType::Q8_0];
    let (new, out) = (dir.path().join("new"), dir.path().join("new/for"));
    let options = threads(2).create_folders(true);
    let outputs = plans(&draft, &out, &types);
    run(&outputs, &threads(2), &()).unwrap_err();
    run(&outputs, &options, &Watch::after(10)).unwrap_err();
    assert!(!new.exists());
    run(&outputs, &options.clone().resume(true), &Watch::after(10)).unwrap_err();
    assert_eq!(names(&out).len(), 4);
    run(&outputs, &options.resume(true), &Watch::after(u64::MAX)).unwrap();
    assert_eq!(names(&out), ["q4_K", "q8_0"]);
}

/// A run that ended between renaming its files and removing its journals: it is recognised as complete.
#[test]
fn files_that_have_their_names_are_found() {
    let dir = folder();
    let draft = Draft::copy_of(matrices(dir.path())).unwrap();
    let types = [GgmlType::Q4_K, GgmlType::Q8_0];
    let options = threads(2).resume(true);
    run(&plans(&draft, dir.path(), &types), &options, &Watch::after(10)).unwrap_err();
    let journals = types.map(|ty| dir.path().join(format!("{ty}.journal")));
    // The journals of a complete run.
    let texts = {
        let saved = std::sync::Mutex::new(Vec::new());
        let save = |event: Event<'_>| {
            if event == Event::Synced {
                saved.lock().unwrap().extend(journals.iter().map(|journal| fs::read(journal).unwrap()));
            }
        };
        run(&plans(&draft, dir.path(), &types), &options, &save).unwrap();
        saved.into_inner().unwrap()
    };
    assert_eq!(names(dir.path()), ["in.gguf", "q4_K", "q8_0"]);
    // All journals exist, and then only that of the first, which is removed last.
    for n in [2, 1] {
        for (journal, text) in journals.iter().zip(&texts).take(n) {
            fs::write(journal, text).unwrap();
        }
        let watch = Watch::after(u64::MAX);
        run(&plans(&draft, dir.path(), &types), &options, &watch).unwrap();
        assert!(watch.kept.load(Ordering::Relaxed) > 0);
        assert_eq!(names(dir.path()), ["in.gguf", "q4_K", "q8_0"]);
    }
    // The first file's journal is invalid for a file of another run.
    fs::write(&journals[0], &texts[0]).unwrap();
    fs::rename(dir.path().join("q8_0"), dir.path().join("q6_K")).unwrap();
    let refused = run(&plans(&draft, dir.path(), &[GgmlType::Q4_K, GgmlType::Q6_K]), &options, &()).unwrap_err();
    assert!(refused.to_string().contains("already exists"), "{refused}");
}

/// Impossible runs write nothing.
#[test]
fn what_does_not_go_together_is_refused() {
    let dir = folder();
    let path = matrices(dir.path());
    let draft = Draft::copy_of(&path).unwrap();
    let two = |a: Plan, b: Plan, names: [&str; 2]| {
        let refused = run(&[(a, dir.path().join(names[0])), (b, dir.path().join(names[1]))], &threads(2), &());
        refused.unwrap_err()
    };
    let other = Draft::copy_of(&path).unwrap();
    assert!(matches!(two(plan(&draft, GgmlType::Q4_0), plan(&other, GgmlType::Q8_0), ["a", "b"]), Error::Apart { .. }));
    let mut fewer = draft.clone();
    fewer.tensors.pop();
    assert!(matches!(two(plan(&draft, GgmlType::Q4_0), fewer.lay_out().unwrap(), ["a", "b"]), Error::Apart { .. }));
    let same = two(plan(&draft, GgmlType::Q4_0), plan(&draft, GgmlType::Q8_0), ["a", "./a"]);
    assert!(matches!(same, Error::SameOutput { .. }), "{same}");
    let input = two(plan(&draft, GgmlType::Q4_0), plan(&draft, GgmlType::Q8_0), ["a", "in.gguf"]);
    assert!(matches!(input, Error::OverwritesInput { .. }), "{input}");
    assert_eq!(names(dir.path()), ["in.gguf"]);
    // An error in one plan is an error of all.
    fs::create_dir(dir.path().join("b")).unwrap();
    two(plan(&draft, GgmlType::Q4_0), plan(&draft, GgmlType::Q8_0), ["a", "b"]);
    assert_eq!(names(dir.path()), ["b", "in.gguf"]);
}

/// A model in three shards.
fn shards(input: &Path) -> Plan {
    let mut draft = Draft::copy_of(input).unwrap();
    draft.tensors.iter_mut().enumerate().for_each(|(i, tensor)| tensor.file = i as u32 / 4);
    draft.lay_out_as_shards().unwrap()
}

/// Splits a model into three shards, with a directory in the way of one of them when all data is on the disk.
fn blocked(dir: &Path, number: usize, old: bool, resume: bool) -> (Vec<PathBuf>, Error) {
    let plan = shards(&matrices(dir));
    let out = dir.join("out");
    let paths = plan.output_paths(&out);
    if old {
        paths.iter().for_each(|path| fs::write(path, "the old file").unwrap());
    }
    let block = |event: Event<'_>| {
        if let Event::Synced = event {
            let _ = fs::remove_file(&paths[number]);
            fs::create_dir(&paths[number]).unwrap();
            fs::write(paths[number].join("x"), "").unwrap();
        }
    };
    let error = plan.run(&out, &threads(2).force(old).resume(resume), &block).unwrap_err();
    (paths, error)
}

#[test]
fn no_file_keeps_its_name_if_another_cannot_get_one() {
    for number in 0..3 {
        for (old, resume) in [(false, false), (true, false), (false, true), (true, true)] {
            let dir = folder();
            let (paths, error) = blocked(dir.path(), number, old, resume);
            let what = format!("{number} {old} {resume}: {error}");
            for (i, path) in paths.iter().enumerate().filter(|(i, _)| *i != number) {
                match old {
                    true => assert_eq!(fs::read(path).unwrap(), b"the old file", "{i}: {what}"),
                    false => assert!(!path.exists(), "{i}: {what}"),
                }
            }
            let hidden = names(dir.path()).into_iter().filter(|name| name.starts_with('.')).count();
            assert_eq!(hidden, 0, "{what}");
            if !resume {
                continue;
            }
            // The same run continues, and all work is kept.
            assert!(matches!(error, Error::Kept { .. }), "{what}");
            fs::remove_dir_all(&paths[number]).unwrap();
            let plan = shards(&dir.path().join("in.gguf"));
            let done = AtomicU64::new(0);
            let count = |event: Event<'_>| {
                if let Event::Advanced { .. } = event {
                    done.fetch_add(1, Ordering::Relaxed);
                }
            };
            plan.run(dir.path().join("out"), &threads(2).force(old).resume(true), &count).unwrap();
            assert_eq!(done.into_inner(), 0, "{what}");
            let own = dir.path().join("own");
            for (path, own) in paths.iter().zip(plan.run(&own, &threads(2), &()).unwrap().paths) {
                assert!(fs::read(path).unwrap() == fs::read(own).unwrap(), "{what}");
            }
            assert!(names(dir.path()).iter().all(|name| name.ends_with(".gguf")), "{:?}", names(dir.path()));
        }
    }
}
