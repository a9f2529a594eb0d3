//! Every command over every hostile file, with half a gigabyte of address space and a limit on time: an error or a result, and never
//! an abort, whatever a file claims.
#![cfg(target_os = "linux")]

use std::collections::VecDeque;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use gguf_test::files::{folder, glossary, text};
use gguf_test::{corpus, hostile, program, torch};

/// Address space in KiB.
const MEMORY: u32 = 512 << 10;

/// What a command may take; several tests may run at once. The slowest takes a tenth on an idle machine.
const TIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 600 } else { 180 });

/// Threads reserve address space, so there are few.
const THREADS: usize = 2;

/// Runs the program in a folder with limits; says what is wrong with how it ended.
fn run(dir: &Path, args: &[&str]) -> Result<(), String> {
    let script = format!("ulimit -v {MEMORY}; exec \"$0\" \"$@\"");
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .arg(program::path())
        .args(args)
        .current_dir(dir)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let said = std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = stderr.read_to_end(&mut said);
        String::from_utf8_lossy(&said).chars().take(300).collect::<String>()
    });
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > TIME {
            child.kill().unwrap();
            child.wait().unwrap();
            return Err(format!("gguf {}: still running after {TIME:?}", args.join(" ")));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let said = said.join().unwrap();
    match status.code() {
        Some(0 | 1) => Ok(()),
        // An error of the command, which it explains.
        Some(2) if said.contains("gguf: ") => Ok(()),
        code => Err(format!("gguf {}: code {code:?}, {status}: {said}", args.join(" "))),
    }
}

/// Runs commands, some side by side; the outputs of those that write have names of their own.
fn run_all(dir: &Path, commands: Vec<Vec<String>>) {
    let n = commands.len();
    let (queue, wrong) = (Mutex::new(VecDeque::from(commands)), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let Some(command) = queue.lock().unwrap().pop_front() else { return };
            let args: Vec<&str> = command.iter().map(String::as_str).collect();
            if let Err(e) = run(dir, &args) {
                wrong.lock().unwrap().push(e);
            }
            // Outputs can be large.
            if let Some(out) = args.iter().find(|arg| arg.starts_with("out-")) {
                let _ = fs::remove_file(dir.join(out));
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| _ = scope.spawn(work)));
    let wrong = wrong.into_inner().unwrap();
    wrong.iter().for_each(|e| println!("{e}"));
    assert!(wrong.is_empty(), "{} of {n} runs ended as they must not", wrong.len());
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// The commands that read a file as a model; `out` is the name of what some of them write.
fn of_model(file: &str, out: &str) -> Vec<Vec<String>> {
    [
        format!("show {file}"),
        format!("show {file} --json"),
        format!("show {file} --kv --tensors"),
        format!("check {file}"),
        format!("check {file} --structure --json"),
        format!("check {file} --data"),
        format!("get {file} general.name"),
        format!("name {file}"),
        format!("recipe show {file}"),
        format!("recipe show {file} --rules --json"),
        format!("recipe apply recipe {file} {out}-1 --allow-requantize -j 2"),
        format!("quantize {file} {out}-2 COPY -j 2"),
        format!("quantize {file} {out}-3 Q4_K_M --allow-requantize -j 2 --report"),
        format!("quantize {file} {out}-4 Q4_0 --allow-requantize -j 2 --resume"),
        format!("quantize {file} {out}-5 --target-bpw 4 --allow-requantize -j 2"),
        format!("quantize {file} Q8_0 --dry-run --json"),
    ]
    .iter()
    .map(|line| words(line))
    .collect()
}

/// The commands that read a file as an importance matrix.
fn of_matrix(file: &str, out: &str) -> Vec<Vec<String>> {
    [
        format!("imatrix show {file}"),
        format!("imatrix show {file} --json"),
        format!("imatrix check {file}"),
        format!("imatrix check {file} model.gguf IQ2_XS"),
        format!("imatrix convert {file} {out}-6.dat"),
        format!("imatrix merge {file} {file} -o {out}-7.gguf"),
        format!("quantize model.gguf {out}-8 Q4_K_M --imatrix {file} -j 2"),
    ]
    .iter()
    .map(|line| words(line))
    .collect()
}

/// A folder with a sound model and a recipe.
fn prepared() -> tempfile::TempDir {
    let dir = folder();
    let out = dir.path().join("model.gguf");
    program::gguf(["convert", text(&glossary()), "-o", text(&out), "-q"]).exits(0);
    fs::write(dir.path().join("recipe"), "Q4_K_M\nattn_q=q8_0\n").unwrap();
    dir
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn files_that_claim_much() {
    let dir = prepared();
    let mut commands = Vec::new();
    for (i, name) in hostile::write(dir.path()).into_iter().enumerate() {
        let mut all = of_model(name, &format!("out-{i}"));
        // To look at all data of 256 GiB takes its time, sparse or not.
        if ["imatrix-sums.gguf", "imatrix-counts.gguf"].contains(&name) {
            all.retain(|command| !command.contains(&"--data".to_owned()));
        }
        commands.extend(all);
        commands.extend(of_matrix(name, &format!("out-{i}")));
    }
    run_all(dir.path(), commands);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn checkpoints_that_claim_much() {
    let dir = prepared();
    let sound: PathBuf = glossary();
    let mut commands = Vec::new();
    for (i, name) in hostile::write_checkpoints(dir.path(), &sound).into_iter().enumerate() {
        commands.push(words(&format!("convert {name} -o out-{i} -j 2")));
        commands.push(words(&format!("convert {name} --dry-run")));
    }
    run_all(dir.path(), commands);
}

/// Each hostile PyTorch file as that of a checkpoint: refused, and nothing is written.
#[test]
fn pytorch_files() {
    let dir = prepared();
    for name in ["config.json", "tokenizer.model", "tokenizer_config.json"] {
        fs::copy(glossary().join(name), dir.path().join(name)).unwrap();
    }
    let mut commands = Vec::new();
    for (i, case) in torch::hostile::all().iter().enumerate() {
        let name = format!("{i}.bin");
        fs::write(dir.path().join(&name), &case.bytes).unwrap();
        commands.push(words(&format!("convert {name} -o written-{i}.gguf -j 2")));
    }
    let files = || fs::read_dir(dir.path()).unwrap().count();
    let before = files();
    run_all(dir.path(), commands);
    assert_eq!(files(), before, "something was written");
}

/// The corpus of the format. Most of its files are refused in the same way by every command, so each is given to some.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn the_corpus() {
    let dir = prepared();
    let mut commands = Vec::new();
    for (i, case) in corpus::all().iter().enumerate() {
        let name = format!("{i}.gguf");
        fs::write(dir.path().join(&name), &case.bytes).unwrap();
        let out = format!("out-{i}");
        let all = [of_model(&name, &out), of_matrix(&name, &out)].concat();
        // Another fifth of the commands for each file; the one that copies for all.
        commands.extend(all.iter().skip(i % 5).step_by(5).cloned());
        commands.push(words(&format!("quantize {name} {out} COPY -j 2")));
    }
    run_all(dir.path(), commands);
}
