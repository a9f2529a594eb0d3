//! Many machines: processes that make the parts of a plan, of which some are killed.

use std::fs;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(unix)]
use std::time::Duration;

use gguf_test::files::{folder, names, text};
#[cfg(unix)]
use gguf_test::program::program;
use gguf_test::program::{Run, gguf, words};

use crate::deep::checkpoint;

/// A model of some tens of MB.
fn model(dir: &Path) -> PathBuf {
    let out = dir.join("model.gguf");
    gguf(["convert", text(&checkpoint(dir)), "-o", text(&out), "-q"]).exits(0);
    out
}

fn run(line: &str) -> Run {
    gguf(words(line))
}

/// Makes the parts with several processes at once.
fn make_all(plan: &Path, n_workers: usize) {
    let n = n_parts(plan);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..n_workers {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= n {
                        break;
                    }
                    run(&format!("part {} --index {index} -j 1 -q", plan.display())).exits(0).silently();
                }
            });
        }
    });
}

fn n_parts(plan: &Path) -> usize {
    let status = run(&format!("commit {} --status --json", plan.display())).exits(0).json();
    status["n_parts"].as_u64().unwrap() as usize
}

#[test]
fn the_output_is_that_of_one_machine() {
    let dir = folder();
    let model = model(dir.path());
    let (one, many, plan) = (dir.path().join("one.gguf"), dir.path().join("many.gguf"), dir.path().join("plan.json"));
    for (ty, part, n_workers) in [("Q8_0", "5MiB", 3), ("Q4_K_M", "8388609", 2), ("F16", "256MiB", 1)] {
        run(&format!("quantize {} {} {ty} -qf", model.display(), one.display())).exits(0);
        let line = format!("quantize {} -o {} {ty} --plan-only", model.display(), many.display());
        let planned = run(&format!("{line} {} --part-size {part}", plan.display())).exits(0);
        assert_eq!(planned.out.trim(), text(&plan));
        assert!(planned.err.contains("make them with `gguf part"), "{}", planned.err);
        make_all(&plan, n_workers);
        assert!(!many.exists());
        let done = run(&format!("commit {}", plan.display())).exits(0);
        assert_eq!(done.out.trim(), many.canonicalize().unwrap().to_str().unwrap());
        assert!(fs::read(&one).unwrap() == fs::read(&many).unwrap(), "{ty}");
        for path in [&many, &plan] {
            fs::remove_file(path).unwrap();
        }
    }
    assert_eq!(names(dir.path()), ["model", "model.gguf", "one.gguf"]);
}

/// Shards, and a conversion in one pass.
#[test]
fn a_conversion_is_divided_as_well() {
    let dir = folder();
    let from = checkpoint(dir.path());
    let here = |name: &str| dir.path().join(name);
    let convert = |out: &str, more: &str| {
        let (from, out) = (from.display(), here(out));
        run(&format!("convert {from} -o {} --type Q8_0 --split-max-tensors 100 -q {more}", out.display())).exits(0)
    };
    let expected = convert("one.gguf", "").out;
    let plan = here("plan.json");
    convert("many.gguf", &format!("--plan-only {} --part-size 5MiB", plan.display()));
    assert!(n_parts(&plan) > 3);
    run(&format!("part {} --index 0..{} -q", plan.display(), n_parts(&plan))).exits(0);
    let written = run(&format!("commit {} -q", plan.display())).exits(0).silently().out;
    assert_eq!(written.lines().count(), 3);
    for (one, many) in expected.lines().zip(written.lines()) {
        assert!(fs::read(one).unwrap() == fs::read(many).unwrap(), "{many}");
    }
}

/// Neither a plan nor measured errors replace an input or the output, whatever the options.
#[test]
fn plans_and_measurements_replace_no_input() {
    let dir = folder();
    let model = model(dir.path());
    let here = |name: &str| dir.path().join(name);
    fs::create_dir(here("more")).unwrap();
    let [out, measured, template] = ["out.gguf", "measured.json", "template.jinja"].map(here);
    let samples = here("samples.json");
    fs::write(&template, "{{ messages }}").unwrap();
    let size = "--target-bpw 5 --candidates q4_K,q5_K";
    let quantize = |line: String| run(&format!("quantize {} {line} -q", model.display()));
    quantize(format!("{} {size} --measure 1 --plan-only {}", measured.display(), samples.display())).exits(0);
    run(&format!("part {} --index 0 -q", samples.display())).exits(0);
    run(&format!("commit {} -q", samples.display())).exits(0);
    // Not the path by which the file is found.
    let other = |path: &Path| format!("{}/more/../{}", dir.path().display(), path.file_name().unwrap().display());
    let before: Vec<_> = [&model, &measured, &template].map(|path| fs::read(path).unwrap()).into();
    let cases = [
        format!("{} Q8_0 --force --plan-only {}", out.display(), other(&model)),
        format!("{} {size} --force --measure 1 --plan-only {}", other(&model), samples.display()),
        format!("{} {size} --force --measure 1 --plan-only {}", out.display(), other(&model)),
        format!("{} {size} --force --measured {}", other(&measured), measured.display()),
        format!("{} {size} --force --measured {}", measured.display(), other(&measured)),
        format!("{} Q8_0 --force --chat-template-file {}", template.display(), other(&template)),
        format!(
            "{} Q8_0 --force --plan-only {} --chat-template-file {}",
            out.display(),
            template.display(),
            other(&template)
        ),
    ];
    for case in cases {
        quantize(case).exits(2).says(&["would overwrite an input file"]);
    }
    let same = format!("{} Q8_0 --plan-only {}", out.display(), out.display());
    quantize(same).exits(2).says(&["out.gguf: two outputs"]);
    let after: Vec<_> = [&model, &measured, &template].map(|path| fs::read(path).unwrap()).into();
    assert!(before == after);
    assert_eq!(names(dir.path()), ["measured.json", "model", "model.gguf", "more", "samples.json", "template.jinja"]);
}

/// Types by measured error in two phases: parts measure samples, and the second plan chooses among their results.
#[test]
fn samples_are_measured_in_parts() {
    let dir = folder();
    let model = model(dir.path());
    let here = |name: &str| dir.path().join(name).display().to_string();
    let [one, many, measured, samples, plan] =
        ["one.gguf", "many.gguf", "measured.json", "samples.json", "plan.json"].map(here);
    let size = "--target-bpw 6 --candidates q4_K,q5_K,q8_0 -q";
    let quantize = |line: String| run(&format!("quantize {} {line}", model.display()));
    quantize(format!("{one} {size}")).exits(0);
    quantize(format!("{measured} {size} --measure 3")).exits(2).says(&["--plan-only"]);
    quantize(format!("{measured} {size} --measure 0 --plan-only {samples}")).exits(2).says(&["from 1 to 10000"]);
    quantize(format!("{measured} {size} --measure 3 --plan-only {samples}")).exits(0);
    assert_eq!(n_parts(Path::new(&samples)), 3);
    run(&format!("commit {samples}")).exits(75).says(&["3 parts are not done: 0 to 2"]);
    for index in [2, 0, 2, 1] {
        run(&format!("part {samples} --index {index} -q")).exits(0).silently();
    }
    run(&format!("part {samples} --index 1")).exits(0).says(&["part 1 of 3: done before"]);
    for _ in 0..2 {
        let done = run(&format!("commit {samples} -q")).exits(0);
        assert!(done.out.trim().ends_with("measured.json"), "{}", done.out);
        run(&format!("part {samples} --index 0")).exits(0).says(&["done before"]);
    }
    // The choice reads no weights: they are gone.
    let bytes = fs::read(&model).unwrap();
    let time = fs::metadata(&model).unwrap().modified().unwrap();
    let set = |bytes: &[u8]| {
        fs::write(&model, bytes).unwrap();
        fs::File::options().write(true).open(&model).unwrap().set_modified(time).unwrap();
    };
    let mut zeros = bytes.clone();
    let n_weights = bytes.len() * 9 / 10;
    zeros[bytes.len() - n_weights..].fill(0);
    set(&zeros);
    quantize(format!("{many} {size} --measured {measured} --plan-only {plan}")).exits(0);
    set(&bytes);
    run(&format!("part {plan} --index 0..{} -q", n_parts(Path::new(&plan)))).exits(0);
    run(&format!("commit {plan} -q")).exits(0);
    assert!(fs::read(&one).unwrap() == fs::read(&many).unwrap());
    // Errors of another source.
    set(&bytes[..bytes.len() - 1]);
    fs::write(&model, [&bytes[..], &[0]].concat()).unwrap();
    let other = quantize(format!("{many} {size} --force --measured {measured} --plan-only {plan}")).exits(1);
    other.says(&["the errors were measured with another source"]);
}

/// The report of a commit is that of a run on one machine.
#[test]
fn reports_are_folded() {
    let dir = folder();
    let model = model(dir.path());
    let (one, many, plan) = (dir.path().join("one.gguf"), dir.path().join("many.gguf"), dir.path().join("plan.json"));
    let line = |out: &Path, more: &str| {
        run(&format!("quantize {} {} Q5_K_M -qf --report {more}", model.display(), out.display())).exits(0)
    };
    let expected = line(&one, "").out;
    let begin = || line(&many, &format!("--plan-only {} --part-size 5MiB", plan.display()));
    begin();
    make_all(&plan, 3);
    let found = run(&format!("commit {} -q", plan.display())).exits(0).out;
    let [expected, found] = [&expected, &found].map(|out| out.trim().rsplit_once('\n').unwrap().0.to_owned());
    assert!(expected.lines().count() > 100 && found == expected, "{found}");
    begin();
    make_all(&plan, 2);
    let found = run(&format!("commit {} -q --json", plan.display())).exits(0).json();
    let expected = line(&one, "--json").json();
    assert!(found["tensors"].as_array().unwrap().len() > 100);
    assert_eq!((&found["tensors"], &found["total"]), (&expected["tensors"], &expected["total"]));
}

/// A manifest that is missing, of another plan or no JSON stops the commit, which says which one it is.
#[test]
fn wrong_manifests_stop_a_commit() {
    let dir = folder();
    let model = model(dir.path());
    let (many, plan) = (dir.path().join("many.gguf"), dir.path().join("plan.json"));
    run(&format!(
        "quantize {} {} Q8_0 -q --plan-only {} --part-size 5MiB",
        model.display(),
        many.display(),
        plan.display()
    ))
    .exits(0);
    make_all(&plan, 2);
    let manifest = dir.path().join("many.gguf.parts/part-00002.json");
    let whole = fs::read_to_string(&manifest).unwrap();
    let commit = || run(&format!("commit {}", plan.display()));
    for (text, said) in [
        (whole.replacen("\"part\":2", "\"part\":3", 1), "the manifest of part 2 is invalid: part is 3; expected 2"),
        (whole.replacen("\"plan\":\"", "\"plan\":\"0", 1), "the manifest of part 2 is invalid: plan is 0"),
        ("{}".to_owned(), "the manifest of part 2 is invalid: missing field"),
    ] {
        assert_ne!(text, whole);
        fs::write(&manifest, text).unwrap();
        commit().exits(2).says(&[said]);
    }
    fs::remove_file(&manifest).unwrap();
    commit().exits(75).says(&["1 part is not done: 2"]);
    // Other bytes than those of the manifest.
    fs::write(&manifest, whole.replacen("\"xxh3\":\"", "\"xxh3\":\"0", 1)).unwrap();
    commit().exits(75).says(&["the data of these parts is not what was written: 2", "make them with `gguf part`"]);
    assert!(!many.exists());
    run(&format!("part {} --index 2 -q", plan.display())).exits(0);
    commit().exits(0);
}

/// A worker that was killed at any moment has done a part or not, and the next one makes it again.
#[cfg(unix)]
#[test]
fn killed_workers_and_commits_are_repeated() {
    let dir = folder();
    let model = model(dir.path());
    let (one, many, plan) = (dir.path().join("one.gguf"), dir.path().join("many.gguf"), dir.path().join("plan.json"));
    run(&format!("quantize {} {} Q5_K -q", model.display(), one.display())).exits(0);
    let line = format!("quantize {} {} Q5_K -q --plan-only", model.display(), many.display());
    run(&format!("{line} {} --part-size 5MiB", plan.display())).exits(0);
    let n = n_parts(&plan);
    let kill_after = |args: String, millis: u64| {
        let mut child = program().args(words(&args)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(millis));
        child.kill().unwrap();
        child.wait().unwrap().success()
    };
    for i in 0..20u64 {
        // Any moment of the first parts.
        kill_after(format!("part {} --index 0..{n} -j 1", plan.display()), 5 + i * i * 3);
        assert!(!many.exists());
    }
    run(&format!("part {} --index 0..{n}", plan.display())).exits(0);
    for i in 0..10 {
        kill_after(format!("commit {}", plan.display()), i * 7);
    }
    run(&format!("commit {}", plan.display())).exits(0);
    run(&format!("commit {}", plan.display())).exits(0);
    assert!(fs::read(&one).unwrap() == fs::read(&many).unwrap());
    assert_eq!(names(dir.path()), ["many.gguf", "model", "model.gguf", "one.gguf", "plan.json"]);
}

/// The path of a script of the examples.
#[cfg(unix)]
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/many-machines").join(name)
}

/// A command of `sh`, which finds the program.
#[cfg(unix)]
fn sh(args: &[&str]) -> Command {
    let folder = program().get_program().to_owned();
    let folder = Path::new(&folder).parent().unwrap();
    let mut command = Command::new("sh");
    command.args(args).env("PATH", format!("{}:{}", folder.display(), std::env::var("PATH").unwrap()));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The commands of the jobs of Kubernetes, as plain processes with the variables that a cluster sets. Every third one is killed at first.
#[cfg(unix)]
#[test]
fn the_commands_of_kubernetes_make_the_output() {
    let dir = folder();
    let model = model(dir.path());
    let (one, many, plan) = (dir.path().join("one.gguf"), dir.path().join("many.gguf"), dir.path().join("plan.json"));
    run(&format!("quantize {} {} Q8_0 -q", model.display(), one.display())).exits(0);
    let line = format!("quantize {} {} Q8_0 -q --plan-only", model.display(), many.display());
    run(&format!("{line} {} --part-size 5MiB", plan.display())).exits(0);
    let manifest = fs::read_to_string(script("kubernetes.yaml")).unwrap();
    let commands: Vec<Vec<String>> = manifest
        .lines()
        .filter_map(|line| line.trim().strip_prefix("command: "))
        .map(|list| serde_json::from_str(list).unwrap())
        .collect();
    let [part, commit] = commands.as_slice() else { panic!("{commands:?}") };
    let start = |words: &[String], index: usize| {
        assert_eq!(words[..2], ["sh", "-c"]);
        let mut command = sh(&["-c", &words[2]]);
        command.env("PLAN", &plan).env("JOB_COMPLETION_INDEX", index.to_string()).spawn().unwrap()
    };
    assert_eq!(start(commit, 0).wait().unwrap().code(), Some(75));
    for index in 0..n_parts(&plan) {
        if index % 3 == 0 {
            let mut child = start(part, index);
            std::thread::sleep(Duration::from_millis(20 + 30 * index as u64));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(start(part, index).wait().unwrap().code(), Some(0));
    }
    assert_eq!(start(part, 999).wait().unwrap().code(), Some(2));
    assert_eq!(start(commit, 0).wait().unwrap().code(), Some(0));
    assert!(fs::read(&one).unwrap() == fs::read(&many).unwrap());
}

/// The script of Slurm, as plain processes with the variables that it sets.
#[cfg(unix)]
#[test]
fn the_script_of_slurm_makes_the_output() {
    let dir = folder();
    let model = model(dir.path());
    let (one, many, plan) = (dir.path().join("one.gguf"), dir.path().join("many.gguf"), dir.path().join("plan.json"));
    // A size in place of a type.
    run(&format!("quantize {} {} --target-bpw 6.5 -q", model.display(), one.display())).exits(0);
    let line = format!("quantize {} {} --target-bpw 6.5 -q --plan-only", model.display(), many.display());
    run(&format!("{line} {} --part-size 5MiB", plan.display())).exits(0);
    let slurm = |more: &[&str], task: usize| {
        let script = script("slurm.sh");
        let mut command = sh(&[&[text(&script), text(&plan)], more].concat());
        command.env("SLURM_ARRAY_TASK_ID", task.to_string()).env("STRIDE", "2");
        command.env("TRIES", "2").env("PAUSE", "0").status().unwrap().code()
    };
    assert_eq!(slurm(&["commit"], 0), Some(75));
    for task in 0..n_parts(&plan).div_ceil(2) {
        assert_eq!(slurm(&[], task), Some(0));
    }
    assert_eq!(slurm(&[], 999), Some(2));
    assert_eq!(slurm(&["commit"], 0), Some(0));
    assert!(fs::read(&one).unwrap() == fs::read(&many).unwrap());
}

/// 0 for done, 75 for trying again, 2 for what no repetition changes.
#[test]
fn exit_codes_say_whether_to_try_again() {
    let dir = folder();
    let model = model(dir.path());
    let (many, plan) = (dir.path().join("many.gguf"), dir.path().join("plan.json"));
    let line = format!("quantize {} {} Q8_0 --plan-only {}", model.display(), many.display(), plan.display());
    run(&format!("{line} --part-size 1MiB")).exits(2).says(&["expected at least 5MiB"]);
    run(&format!("{line} --part-size 5MiB --dry-run")).exits(2);
    run(&format!("{line} --part-size 5MiB")).exits(0);
    let again = run(&format!("{line} --force --part-size 5MiB")).exits(0);
    assert!(again.err.contains("parts of"), "{}", again.err);
    run(&line).exits(2);
    let plan_text = fs::read_to_string(&plan).unwrap();
    let part = |index: &str| run(&format!("part {} --index {index}", plan.display()));
    for index in ["x", "3..3", "-1", "0.."] {
        part(index).exits(2);
    }
    part("999").exits(2).says(&["there is no part 999"]);
    let made = run(&format!("part {} --index 0..1 --json -q", plan.display())).exits(0).json();
    assert_eq!((&made["parts"][0]["part"], &made["parts"][0]["made"]), (&0.into(), &true.into()));
    part("0").exits(0).says(&["done before"]);
    let status = run(&format!("commit {} --status", plan.display())).exits(0).out;
    assert!(status.contains("1 of ") && status.contains("not done: 1 to "), "{status}");
    let missing = run(&format!("commit {}", plan.display())).exits(75);
    assert!(missing.err.contains("parts are not done: 1 to ") && missing.err.contains("gguf part"), "{}", missing.err);

    // Another version of the program.
    fs::write(&plan, plan_text.replacen(env!("CARGO_PKG_VERSION"), "0.0.1", 1)).unwrap();
    part("1").exits(2).says(&["the plan was made by ggufkit 0.0.1", "run the same version"]);
    fs::write(&plan, "{}").unwrap();
    part("1").exits(2).says(&["plan.json: not a plan of this program"]);
    part("1").exits(2).says(&["missing field"]);
    fs::write(&plan, &plan_text).unwrap();
    // Another source.
    let file = fs::OpenOptions::new().append(true).open(&model).unwrap();
    file.set_len(file.metadata().unwrap().len() + 1).unwrap();
    part("1").exits(2).says(&["the file is not the one for which the plan was made: its length was", "abort the plan"]);
    run(&format!("commit {} --abort", plan.display())).exits(0).says(&["discarded"]);
    part("1").exits(2);
    assert_eq!(names(dir.path()), ["model", "model.gguf", "plan.json"]);
    run(&format!("part {} --index 0", dir.path().join("none").display())).exits(2);
}
