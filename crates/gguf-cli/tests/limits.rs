//! Every command on every hostile file, with half a gigabyte of address space and a time limit: an error or a result, but never an abort,
//! regardless of the file's claims.
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

/// The timeout of a command; several tests may run at once. The slowest takes a tenth on an idle machine.
const TIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 600 } else { 180 });

/// Threads reserve address space, so their number is small.
const THREADS: usize = 2;

/// Runs the program in a directory with limits; returns an unexpected result.
fn run(dir: &Path, args: &[&str]) -> Result<(), String> {
    let script = format!("ulimit -v {MEMORY}; exec \"$0\" \"$@\"");
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .arg(program::path())
        .args(args)
        .current_dir(dir)
        .env("RUST_BACKTRACE", "0")
        .env("VISUAL", "true")
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
        // An explained error of the command.
        Some(2) if said.contains("gguf: ") => Ok(()),
        code => Err(format!("gguf {}: code {code:?}, {status}: {said}", args.join(" "))),
    }
}

/// Runs commands, some in parallel; each has a separate output.
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
            // Outputs can be large. Those of one command begin with its name, which ends with an underscore.
            if let Some(out) = args.iter().find(|arg| arg.starts_with("out-")) {
                let stem = &out[..=out.find('_').unwrap()];
                for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
                    if path.file_name().unwrap().to_str().unwrap().starts_with(stem) {
                        let _ = fs::remove_file(path);
                    }
                }
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

/// The commands that read a file as a model; `out` is the name of their outputs.
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
        format!("recipe apply recipe {file} {out}-1_ --allow-requantize -j 2"),
        format!("quantize {file} {out}-2_ COPY -j 2"),
        format!("quantize {file} {out}-3_ Q4_K_M --allow-requantize -j 2 --report"),
        format!("quantize {file} {out}-4_ Q4_0 --allow-requantize -j 2 --resume"),
        format!("quantize {file} {out}-5_ --target-bpw 4 --allow-requantize -j 2"),
        format!("quantize {file} Q8_0 --dry-run --json"),
        format!("quantize {file} --list"),
        format!("quantize {file} {out}-9_-{{ftype}} Q8_0 Q4_0 --allow-requantize -j 2"),
        format!("convert {file} -o {out}-10_ --type Q8_0 -j 2"),
        format!("migrate {file} -o {out}-11_ --yes"),
        format!("card {file} --json -j 2"),
        format!("card {file} --no-hash"),
        format!("hash {file} -j 2"),
        format!("diff {file} model.gguf -j 2"),
        format!("diff model.gguf {file} --json -j 2"),
        format!("estimate {file}"),
        format!("estimate {file} --ctx 4294967295 --json"),
        format!("cat {file} t -j 2"),
        format!("cat {file} token_embd.weight -j 2"),
        format!("extract {file} * -o {out}-12_.safetensors -j 2"),
        format!("set {file} general.name=x --dry-run"),
        format!("set {file} general.name=x -o {out}-13_"),
        format!("unset {file} general.architecture -o {out}-14_"),
        format!("rename {file} general.name=general.title -o {out}-15_"),
        format!("edit {file} -o {out}-16_"),
        format!("split {file} {out}-17_ --max-tensors 1000"),
        format!("split {file} {out}-18_ --max-file-size 1G --dry-run"),
        format!("merge {file} -o {out}-19_"),
        format!("swap {file} {out}-20_ -j 2"),
        format!("upgrade {file} {out}-21_ -j 2"),
        format!("reorder {file} {out}-22_ --by size -j 2"),
        format!("rm-tensor {file} {out}-23_ * -j 2"),
        format!("add-tensor {file} {out}-24_ new values.npy -j 2"),
        format!("add-tensor model.gguf {out}-25_ new {file} -j 2"),
        format!("graft {file} {out}-26_ --from model.gguf --keys * --replace -j 2"),
        format!("graft model.gguf {out}-27_ --from {file} --keys * --tensors * --replace -j 2"),
        format!("repair {file}"),
        format!("repair {file} --json -o {out}-28_"),
        format!("repair {file} --from model.gguf --dry-run"),
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
        format!("imatrix convert {file} {out}-6_.dat"),
        format!("imatrix merge {file} {file} -o {out}-7_.gguf"),
        format!("quantize model.gguf {out}-8_ Q4_K_M --imatrix {file} -j 2"),
    ]
    .iter()
    .map(|line| words(line))
    .collect()
}

/// A directory with a valid model and a recipe.
fn prepared() -> tempfile::TempDir {
    let dir = folder();
    let out = dir.path().join("model.gguf");
    program::gguf(["convert", text(&glossary()), "-o", text(&out), "-q"]).exits(0);
    fs::write(dir.path().join("recipe"), "Q4_K_M\nattn_q=q8_0\n").unwrap();
    let values = dir.path().join("values.npy");
    program::gguf(["extract", text(&out), "output_norm.weight", "-o", text(&values), "-q"]).exits(0);
    dir
}

/// Detects new commands that are not tested.
#[test]
fn every_command_is_run() {
    let help = program::gguf(["help"]).exits(0).out;
    let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names =
        listed.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
    let run: Vec<Vec<String>> = [of_model("f", "o"), of_matrix("f", "o")].concat();
    let of_no_file = ["completions", "man", "help"];
    let missing: Vec<&str> =
        names.filter(|name| !of_no_file.contains(name) && !run.iter().any(|command| command[0] == *name)).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn files_that_claim_much() {
    let dir = prepared();
    let mut commands = Vec::new();
    for (i, name) in hostile::write(dir.path()).into_iter().enumerate() {
        let mut all = of_model(name, &format!("out-{i}"));
        // Reading all data of 256 GiB takes too long, even if it is sparse.
        if ["imatrix-sums.gguf", "imatrix-counts.gguf"].contains(&name) {
            all.retain(|command| {
                let has = |word: &str| command.iter().any(|other| other == word);
                let reads_all = has("--data")
                    || has("hash")
                    || has("diff")
                    || has("card") && !has("--no-hash")
                    || has("repair") && (has("--from") || has("-o"));
                !reads_all
            });
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
        commands.push(words(&format!("convert {name} -o out-{i}_ -j 2")));
        commands.push(words(&format!("convert {name} --dry-run")));
    }
    run_all(dir.path(), commands);
}

/// Each hostile PyTorch file in a checkpoint: rejected, and nothing is written.
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

/// The corpus of the format. Every command rejects most of its files in the same way, so each file is tested with some of them.
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
        // Another fifth of the commands for each file; the copying command for all.
        commands.extend(all.iter().skip(i % 5).step_by(5).cloned());
        commands.push(words(&format!("quantize {name} {out}_ COPY -j 2")));
    }
    run_all(dir.path(), commands);
}
