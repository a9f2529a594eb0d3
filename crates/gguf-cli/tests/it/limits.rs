//! Every command on every hostile file, with half a gigabyte of address space and a time limit: an error or a result, but never an abort,
//! regardless of the file's claims.
#![cfg(target_os = "linux")]

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use gguf_test::checkpoint::write_small_files;
use gguf_test::files::{folder, glossary, text};
use gguf_test::{corpus, hostile, program, tensor_files, torch};

/// Address space in KiB.
const MEMORY: u32 = 512 << 10;

/// The timeout of a command; several tests may run at once. The slowest takes a tenth on an idle machine.
const TIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 600 } else { 180 });

/// Threads reserve address space, so their number is small.
const THREADS: usize = 2;

/// Runs the program with the arguments in each line of its input and says how each run ended: its code, and of what it said to standard error
/// the first line with a message, otherwise the first line. A shell for each run would take as long as most runs.
const SHELL: &str = r#"
set -f; ulimit -v "$1"
while read -r line; do
  "$0" $line </dev/null >/dev/null 2>"$2"
  code=$?; first=
  while read -r said; do
    case $said in *'gguf: '*) first=$said; break ;; esac
    first=${first:-$said}
  done <"$2"
  printf '%s %.300s\n' "$code" "$first"
done
"#;

/// A shell that runs the program in a folder with limits.
struct Runner<'a> {
    dir: &'a Path,
    /// Where the standard error of a run goes, in the folder.
    said: String,
    shell: Child,
    answers: Receiver<String>,
}

impl<'a> Runner<'a> {
    fn new(dir: &'a Path, number: usize) -> Runner<'a> {
        let said = format!("said-{number}");
        let mut shell = Command::new("sh")
            .args(["-c", SHELL])
            .arg(program::path())
            .arg(MEMORY.to_string())
            .arg(&said)
            .current_dir(dir)
            .env("RUST_BACKTRACE", "0")
            .env("VISUAL", "true")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let (send, answers) = mpsc::channel();
        let lines = BufReader::new(shell.stdout.take().unwrap()).split(b'\n').map_while(Result::ok);
        std::thread::spawn(move || {
            lines.map(|line| String::from_utf8_lossy(&line).into_owned()).try_for_each(|line| send.send(line))
        });
        Runner { dir, said, shell, answers }
    }

    /// Runs the program; returns an unexpected end.
    fn run(&mut self, args: &str) -> Result<(), String> {
        let stdin = self.shell.stdin.as_mut().unwrap();
        stdin.write_all(format!("{args}\n").as_bytes()).and_then(|()| stdin.flush()).map_err(|e| e.to_string())?;
        let Ok(answer) = self.answers.recv_timeout(TIME) else {
            let number = self.said.trim_start_matches("said-").parse().unwrap();
            *self = Runner::new(self.dir, number);
            return Err(format!("gguf {args}: still running after {TIME:?}"));
        };
        match answer.split_once(' ') {
            Some(("0" | "1", _)) => Ok(()),
            // An error of the command, which it explains.
            Some(("2", said)) if said.contains("gguf: ") => Ok(()),
            _ => Err(format!("gguf {args}: code {answer}")),
        }
    }
}

impl Drop for Runner<'_> {
    /// Ends the shell and what it runs.
    fn drop(&mut self) {
        let _ = Command::new("sh").args(["-c", &format!("kill -KILL -{}", self.shell.id())]).status();
        let _ = self.shell.wait();
        let _ = fs::remove_file(self.dir.join(&self.said));
    }
}

/// The folder of outputs, in that of the inputs.
const OUT: &str = "out";

/// Runs commands, some side by side; the outputs of those that write have distinct names.
fn run_all(dir: &Path, commands: Vec<String>) {
    let n = commands.len();
    let out = dir.join(OUT);
    fs::create_dir_all(&out).unwrap();
    let (queue, wrong) = (Mutex::new(VecDeque::from(commands)), Mutex::new(Vec::new()));
    let work = |number| {
        let mut runner = Runner::new(dir, number);
        loop {
            let Some(command) = queue.lock().unwrap().pop_front() else { return };
            if let Err(e) = runner.run(&command) {
                wrong.lock().unwrap().push(e);
            }
            // Outputs can be large. Those of one command begin with its name, which ends with an underscore.
            if let Some(name) = command.split(' ').find_map(|arg| arg.strip_prefix("out/")) {
                let stem = &name[..=name.find('_').unwrap()];
                for entry in fs::read_dir(&out).unwrap().map(|entry| entry.unwrap()) {
                    if entry.file_name().to_str().unwrap().starts_with(stem) {
                        let _ = fs::remove_file(entry.path());
                    }
                }
            }
        }
    };
    let work = &work;
    std::thread::scope(|scope| (0..THREADS).for_each(|number| _ = scope.spawn(move || work(number))));
    let wrong = wrong.into_inner().unwrap();
    wrong.iter().for_each(|e| println!("{e}"));
    assert!(wrong.is_empty(), "{} of {n} runs ended as they must not", wrong.len());
    println!("{n} runs");
}

/// The commands that read a file as a model; `out` is the name of what some of them write.
fn of_model(file: &str, out: &str) -> Vec<String> {
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
        format!("quantize {file} {out}-p_ Q8_0 --allow-requantize --plan-only {out}-p_.json"),
        format!("part {file} --index 0 -j 2"),
        format!("commit {file} --status"),
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
        format!("export {file} -o {out}-30_"),
        format!("verify {file} --against {} -j 2", text(&glossary())),
        format!("lora merge {file} {file} -o {out}-31_ -j 2"),
        format!("lora merge model.gguf {file} -o {out}-32_ -j 2"),
        // The folder has no libllama: what is checked before it is used.
        "engine --llama .".to_owned(),
        format!("perplexity {file} recipe --llama ."),
        format!("perplexity model.gguf {file} --llama ."),
        format!("kld {file} model.gguf recipe --llama ."),
        format!("kld model.gguf --base {file} --llama ."),
        format!("run {file} prompt --llama ."),
        format!("card model.gguf --no-hash --kld {file}"),
        format!("sensitivity {file} recipe -o {out}-35_ --llama ."),
        format!("quantize model.gguf {out}-36_ --target-bpw 4 --sensitivity {file} -j 2"),
        format!("imatrix compute {file} recipe -o {out}-33_.gguf --llama ."),
        format!("imatrix compute model.gguf recipe -o {out}-34_.gguf --continue {file} --llama ."),
    ]
    .into()
}

/// The commands that read a file as an importance matrix.
fn of_matrix(file: &str, out: &str) -> Vec<String> {
    [
        format!("imatrix show {file}"),
        format!("imatrix show {file} --json"),
        format!("imatrix check {file}"),
        format!("imatrix check {file} model.gguf IQ2_XS"),
        format!("imatrix convert {file} {out}-6_.dat"),
        format!("imatrix merge {file} {file} -o {out}-7_.gguf"),
        format!("quantize model.gguf {out}-8_ Q4_K_M --imatrix {file} -j 2"),
    ]
    .into()
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
    let run: Vec<String> = [of_model("f", "o"), of_matrix("f", "o")].concat();
    let of_no_file = ["completions", "man", "help"];
    let missing: Vec<&str> = names
        .filter(|name| {
            !of_no_file.contains(name) && !run.iter().any(|command| command.split(' ').next() == Some(*name))
        })
        .collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn files_that_claim_much() {
    let dir = prepared();
    let mut commands = Vec::new();
    for (i, name) in hostile::write(dir.path()).into_iter().enumerate() {
        let mut all = of_model(name, &format!("{OUT}/{i}"));
        // Reading all data of 256 GiB takes too long, sparse or not.
        if ["imatrix-sums.gguf", "imatrix-counts.gguf"].contains(&name) {
            all.retain(|command| {
                let has = |word: &str| command.split(' ').any(|other| other == word);
                let reads_all = has("--data")
                    || has("hash")
                    || has("diff")
                    || has("card") && !has("--no-hash")
                    || has("repair") && (has("--from") || has("-o"));
                !reads_all
            });
        }
        commands.extend(all);
        commands.extend(of_matrix(name, &format!("{OUT}/{i}")));
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
        commands.push(format!("convert {name} -o {OUT}/{i}_ -j 2"));
        commands.push(format!("convert {name} --dry-run"));
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
        commands.push(format!("convert {name} -o written-{i}.gguf -j 2"));
    }
    assert_nothing_is_written(dir.path(), commands);
}

/// Each hostile folder of safetensors: refused, and nothing is written.
#[test]
fn safetensors_folders() {
    let dir = prepared();
    let mut commands = Vec::new();
    for (i, case) in tensor_files::all().iter().enumerate() {
        let folder = dir.path().join(i.to_string());
        fs::create_dir(&folder).unwrap();
        write_small_files(&folder);
        for (name, bytes) in &case.files {
            fs::write(folder.join(name), bytes).unwrap();
        }
        commands.push(format!("convert {i} -o written-{i}.gguf -j 2"));
        commands.push(format!("convert {i} -o written-{i}.gguf --type Q8_0,f16 --dry-run --check-range --json -j 2"));
    }
    assert_nothing_is_written(dir.path(), commands);
}

/// Runs commands that must be refused before they write anything.
fn assert_nothing_is_written(dir: &Path, commands: Vec<String>) {
    let files = || {
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name != OUT).collect::<BTreeSet<_>>()
    };
    let before = files();
    run_all(dir, commands);
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
        let out = format!("{OUT}/{i}");
        let all = [of_model(&name, &out), of_matrix(&name, &out)].concat();
        // Another tenth of the commands for each file, so each command for hundreds of files; the one that copies for all.
        commands.extend(all.iter().skip(i % 10).step_by(10).cloned());
        commands.push(format!("quantize {name} {out}_ COPY -j 2"));
    }
    run_all(dir.path(), commands);
}
