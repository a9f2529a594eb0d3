//! Runs that end at any step, as after a loss of power or a kill: the outputs' names refer to the old files or the new ones, and repeating
//! the command gives the same bytes.
//!
//! Each test starts itself as a child process, whose run aborts at the n-th event. Every step is an event, from the open file without a
//! head to the final rename, so the result does not depend on timing.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use gguf_format::{GgmlType, Head, TensorInfo};
use gguf_hf::{Options, OutType};
use gguf_io::Writer;
use gguf_pipeline::{Draft, Error, Event, Progress, RunOptions};
use gguf_quantize::QuantizeOptions;
use gguf_quantize::mix::Target;
use gguf_test::checkpoint::{f32_data, write_llama};

/// The variable with the working directory of a child.
const FOLDER: &str = "GGUF_TEST_KILL_FOLDER";
/// The variable with the number of the event at which it aborts, and its number of threads.
const AT: &str = "GGUF_TEST_KILL_AT";

/// The steps of a run.
fn step(event: Event<'_>) -> &'static str {
    match event {
        Event::Opened { .. } => "opened",
        Event::Started { .. } => "started",
        Event::Tensor { .. } => "tensor",
        Event::Advanced { .. } => "advanced",
        Event::Kept { .. } => "kept",
        Event::Written => "written",
        Event::Synced => "synced",
        Event::Named { .. } => "named",
        Event::Finished => "finished",
        _ => "other",
    }
}

/// An operation in a directory.
struct Work {
    /// The name of the test, to start it as a child.
    test: &'static str,
    /// Creates the inputs.
    prepare: fn(&Path),
    /// Runs the operation with a number of threads; replaces existing output.
    run: fn(&Path, usize, &dyn Progress) -> Result<(), Error>,
    /// The outputs.
    outputs: &'static [&'static str],
    /// Whether completed work is kept.
    resumes: bool,
}

/// Runs as a child, or as the parent of all of them.
fn kill_at_every_step(work: &Work) {
    match std::env::var_os(FOLDER) {
        Some(folder) => work.be_killed(Path::new(&folder)),
        None => work.kill_at_every_step(),
    }
}

impl Work {
    fn be_killed(&self, folder: &Path) {
        let at = std::env::var(AT).unwrap();
        let (at, threads) = at.split_once(' ').unwrap();
        let (at, seen) = (at.parse::<usize>().unwrap(), AtomicUsize::new(0));
        let abort = |event: Event<'_>| {
            if seen.fetch_add(1, Ordering::SeqCst) == at {
                fs::write(folder.join("step"), step(event)).unwrap();
                std::process::abort();
            }
        };
        (self.run)(&folder.join("work"), threads.parse().unwrap(), &abort).unwrap();
    }

    /// The existing outputs.
    fn outputs(&self, folder: &Path) -> Vec<Option<Vec<u8>>> {
        self.outputs.iter().map(|name| fs::read(folder.join(name)).ok()).collect()
    }

    fn kill_at_every_step(&self) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("work");
        fs::create_dir(&folder).unwrap();
        (self.prepare)(&folder);
        let inputs = names(&folder);
        let n_chunks = AtomicUsize::new(0);
        let count = |event: Event<'_>| {
            if let Event::Advanced { .. } = event {
                n_chunks.fetch_add(1, Ordering::SeqCst);
            }
        };
        (self.run)(&folder, 1, &count).unwrap();
        let n_chunks = n_chunks.into_inner();
        let new = self.outputs(&folder);
        assert!(new.iter().all(Option::is_some));
        let all = names(&folder);

        for (threads, old) in [("1", None), ("1", Some(b"the old file".to_vec())), ("3", None)] {
            let mut steps = Vec::new();
            for at in 0.. {
                for name in names(&folder).iter().filter(|name| !inputs.contains(name)) {
                    fs::remove_file(folder.join(name)).unwrap();
                }
                if let Some(old) = &old {
                    self.outputs.iter().for_each(|name| fs::write(folder.join(name), old).unwrap());
                }
                let _ = fs::remove_file(dir.path().join("step"));
                let child = Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", self.test])
                    .env(FOLDER, dir.path())
                    .env(AT, format!("{at} {threads}"))
                    .output()
                    .unwrap();
                let found = self.outputs(&folder);
                let Ok(step) = fs::read_to_string(dir.path().join("step")) else {
                    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
                    assert!(found == new && names(&folder) == all);
                    break;
                };
                assert!(!child.status.success());
                // Files are renamed in order, and only when the data of all are on the disk.
                let n_new = found.iter().zip(&new).take_while(|(found, new)| found == new).count();
                assert!(
                    found[n_new..].iter().all(|found| *found == old),
                    "{step} {at}: neither the old file nor the new one"
                );
                let n_named = steps.iter().filter(|step| *step == "named").count();
                match step.as_str() {
                    "named" => assert_eq!(n_new, n_named + 1),
                    "finished" => assert!(found == new && names(&folder) == all),
                    _ => assert_eq!(n_new, 0, "{step}"),
                }
                let n_advanced = steps.iter().filter(|step| *step == "advanced").count();
                steps.push(step);

                // The same command resumes.
                let (kept, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
                let count = |event: Event<'_>| match event {
                    Event::Kept { .. } => _ = kept.fetch_add(1, Ordering::SeqCst),
                    Event::Advanced { .. } => _ = done.fetch_add(1, Ordering::SeqCst),
                    _ => {}
                };
                (self.run)(&folder, 2, &count).unwrap();
                assert!(self.outputs(&folder) == new, "{steps:?}");
                let (kept, done) = (kept.into_inner(), done.into_inner());
                if self.resumes && steps.last().is_some_and(|step| step != "finished") {
                    // With several threads, another run would interrupt other chunks.
                    if threads == "1" {
                        assert!(kept >= n_advanced, "{steps:?}: {kept} chunks were kept");
                    }
                    assert_eq!(kept + done, n_chunks);
                    assert_eq!(names(&folder), all, "{steps:?}: something is left");
                }
            }
            let n_named = steps.iter().filter(|step| *step == "named").count();
            assert_eq!(n_named, self.outputs.len());
            for step in ["opened", "started", "tensor", "advanced", "written", "synced", "finished"] {
                assert!(steps.iter().any(|s| s == step), "no kill at {step}");
            }
            println!("{} threads, {}: {}", threads, if old.is_some() { "old files" } else { "none" }, steps.join(" "));
        }
    }
}

/// The names in a directory; a killed run that cannot be resumed leaves a file with a temporary name.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Writes tensors, the first of two chunks, in `n` shards.
fn write_model(folder: &Path, n: u16) {
    let shapes: [(&str, &[u64]); 4] = [
        ("output_norm.weight", &[1_100_000]),
        ("token_embd.weight", &[32, 70]),
        ("blk.0.attn_q.weight", &[32, 3]),
        ("blk.0.ffn_up.weight", &[32, 7]),
    ];
    for no in 0..n {
        let mut head = Head::default();
        if no == 0 {
            head.set("general.architecture", "llama");
            head.set("llama.block_count", 1u32);
        }
        if n > 1 {
            head.set("split.no", no);
            head.set("split.count", n);
            head.set("split.tensors.count", shapes.len() as i32);
        }
        let of_shard = || shapes.iter().enumerate().filter(|(i, _)| i % usize::from(n) == usize::from(no));
        head.tensors = of_shard().map(|(_, (name, shape))| TensorInfo::new(*name, *shape, GgmlType::F32)).collect();
        let data = of_shard().map(|(i, (_, shape))| f32_data(i as u32, shape.iter().product()));
        let name = if n > 1 { format!("in-{:05}-of-{n:05}.gguf", no + 1) } else { "in.gguf".to_owned() };
        fs::write(folder.join(name), Writer::write(Vec::new(), &head, data).unwrap()).unwrap();
    }
}

fn run_options(threads: usize, resume: bool) -> RunOptions {
    RunOptions::default().threads(NonZeroUsize::new(threads)).resume(resume).force(true)
}

fn quantized(input: PathBuf, out: &Path, threads: usize, resume: bool, progress: &dyn Progress) -> Result<(), Error> {
    let mut options = QuantizeOptions::default();
    options.keep_split = input.to_string_lossy().contains("-of-");
    let draft = Draft::copy_of(&input)?;
    let plan = gguf_quantize::plan(draft, None, &options, &Target::parse("Q8_0").unwrap()).unwrap().plan;
    plan.run(out, &run_options(threads, resume), progress).map(|_| ())
}

#[test]
fn quantizing() {
    kill_at_every_step(&Work {
        test: "killed::quantizing",
        prepare: |folder| write_model(folder, 1),
        run: |folder, threads, progress| {
            quantized(folder.join("in.gguf"), &folder.join("out.gguf"), threads, false, progress)
        },
        outputs: &["out.gguf"],
        resumes: false,
    });
}

#[test]
fn quantizing_that_resumes() {
    kill_at_every_step(&Work {
        test: "killed::quantizing_that_resumes",
        prepare: |folder| write_model(folder, 1),
        run: |folder, threads, progress| {
            quantized(folder.join("in.gguf"), &folder.join("out.gguf"), threads, true, progress)
        },
        outputs: &["out.gguf"],
        resumes: true,
    });
}

#[test]
fn shards_that_resume() {
    kill_at_every_step(&Work {
        test: "killed::shards_that_resume",
        prepare: |folder| write_model(folder, 3),
        run: |folder, threads, progress| {
            quantized(folder.join("in-00001-of-00003.gguf"), &folder.join("out.gguf"), threads, true, progress)
        },
        outputs: &["out-00001-of-00003.gguf", "out-00002-of-00003.gguf", "out-00003-of-00003.gguf"],
        resumes: true,
    });
}

#[test]
fn converting_that_resumes() {
    kill_at_every_step(&Work {
        test: "killed::converting_that_resumes",
        prepare: write_llama,
        run: |folder, threads, progress| {
            let plan = gguf_hf::plan(folder, &Options::default().ty(OutType::F16)).unwrap().plan;
            plan.run(folder.join("out.gguf"), &run_options(threads, true), progress).map(|_| ())
        },
        outputs: &["out.gguf"],
        resumes: true,
    });
}
