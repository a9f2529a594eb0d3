//! Losses of power, and kills at random moments: the name of an output refers to the old file or the new one, and a repeated command gives
//! the same bytes.
//!
//! For a loss of power, `strace` records everything that a run of the program writes. The record is replayed up to each operation. Names
//! change in their order, as in file systems with a journal, but data that was not synced may be lost, or only partly on the disk.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gguf_test::files::{folder, glossary, names, small, text};
use gguf_test::program::{gguf, path as program_path, program, words};
use gguf_test::random::Random;

gguf_test::tests! {
    [Strace] power_is_lost, missing_syncs_are_found, system_calls_fail;
    [Strace, Asking("takes minutes")] power_is_lost_often, system_calls_fail_often;
    [] programs_are_killed;
    [Asking("takes minutes")] programs_are_killed_often;
}

/// An operation that changes a directory or a file in it. Files are numbered.
#[derive(Debug, Clone)]
enum Op {
    Create(String, usize),
    Link(String, String),
    Rename(String, String),
    Unlink(String),
    Write(usize, u64, Vec<u8>),
    Truncate(usize, u64),
    /// Zeros in front of a byte, which move the rest of the file.
    Insert(usize, u64, u64),
    SyncFile(usize),
    SyncFolder,
}

/// The files of a directory: the name and the content of each.
type Files = BTreeMap<String, Vec<u8>>;

fn files(dir: &Path) -> Files {
    names(dir).into_iter().map(|name| (name.clone(), fs::read(dir.join(name)).unwrap())).collect()
}

fn restore(dir: &Path, to: &Files) {
    for name in names(dir) {
        fs::remove_file(dir.join(name)).unwrap();
    }
    for (name, content) in to {
        fs::write(dir.join(name), content).unwrap();
    }
}

const TRACED: &str = "openat,write,pwrite64,ftruncate,rename,renameat,renameat2,link,linkat,unlink,unlinkat,fsync,fdatasync,close,\
                      lseek,copy_file_range,fallocate,fcntl";

/// Runs a command in a directory with these files, and returns its operations there.
fn record(dir: &Path, before: &Files, args: &[String]) -> Vec<Op> {
    let log = dir.with_extension("strace");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-xx", "-s", "100000000", "-e", "signal=none", "-e", &format!("trace={TRACED}"), "-o"]);
    let output = command.arg(&log).arg(program_path()).args(args).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(&log).unwrap();
    fs::remove_file(&log).unwrap();
    let mut tracer = Tracer {
        dir,
        fds: HashMap::new(),
        numbers: before.keys().cloned().zip(0..).collect(),
        contents: before.values().cloned().collect(),
        ops: Vec::new(),
    };
    let mut begun: HashMap<&str, &str> = HashMap::new();
    for line in text.lines() {
        let (thread, call) = line.split_once(' ').unwrap();
        let call = call.trim_start();
        if let Some(start) = call.strip_suffix("<unfinished ...>") {
            begun.insert(thread, start);
        } else if let Some((_, end)) = call.split_once(" resumed>").filter(|_| call.starts_with("<...")) {
            let whole = format!("{}{end}", begun.remove(thread).unwrap());
            tracer.call(&whole);
        } else {
            tracer.call(call);
        }
    }
    tracer.ops
}

/// An open file.
#[derive(Clone)]
struct Open {
    number: Option<usize>,
    at: u64,
    appends: bool,
}

/// Interprets system calls.
struct Tracer<'a> {
    dir: &'a Path,
    fds: HashMap<u64, Open>,
    /// The numbers of the named files.
    numbers: HashMap<String, usize>,
    contents: Vec<Vec<u8>>,
    ops: Vec<Op>,
}

/// An argument of a system call: text in quotes, or other text.
fn arguments(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        rest = rest.trim_start_matches([',', ' ']);
        let end = match rest.strip_prefix('"') {
            Some(quoted) => quoted.find('"').unwrap() + 2,
            None => rest.find(',').unwrap_or(rest.len()),
        };
        all.push(rest[..end].trim_end().to_owned());
        rest = &rest[end..];
    }
    all
}

/// The bytes of a quoted argument in hexadecimal escapes.
fn unquoted(text: &str) -> Vec<u8> {
    let inner = text.trim_matches('"');
    inner.split("\\x").skip(1).map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect()
}

impl Tracer<'_> {
    /// The name of a file in the directory.
    fn name(&self, argument: &str) -> Option<String> {
        let path = PathBuf::from(String::from_utf8(unquoted(argument)).unwrap());
        let path = self.dir.join(path);
        (path.parent()?.canonicalize().ok()? == self.dir)
            .then(|| path.file_name().unwrap().to_str().unwrap().to_owned())
    }

    fn push(&mut self, op: Op) {
        match &op {
            Op::Create(name, number) => _ = self.numbers.insert(name.clone(), *number),
            Op::Link(from, to) => _ = self.numbers.insert(to.clone(), self.numbers[from]),
            Op::Rename(from, to) => {
                let number = self.numbers.remove(from).unwrap();
                self.numbers.insert(to.clone(), number);
            }
            Op::Unlink(name) => _ = self.numbers.remove(name),
            Op::Write(..) | Op::Truncate(..) | Op::Insert(..) => apply(&mut self.contents, &op),
            Op::SyncFile(_) | Op::SyncFolder => {}
        }
        self.ops.push(op);
    }

    fn file(&self, fd: &str) -> Option<(u64, Open)> {
        let fd = fd.parse().ok()?;
        Some((fd, self.fds.get(&fd)?.clone()))
    }

    fn write(&mut self, fd: &str, at: Option<u64>, bytes: Vec<u8>) {
        let Some((fd, open)) = self.file(fd) else { return };
        let Some(number) = open.number else { return };
        let end = self.contents[number].len() as u64;
        let start = at.unwrap_or(if open.appends { end } else { open.at });
        if at.is_none() {
            self.fds.get_mut(&fd).unwrap().at = start + bytes.len() as u64;
        }
        self.push(Op::Write(number, start, bytes));
    }

    fn call(&mut self, call: &str) {
        let Some((left, result)) = call.rsplit_once(" = ") else { return };
        let Ok(result) = result.split(' ').next().unwrap().parse::<u64>() else { return };
        let (what, arguments_text) = left.split_once('(').unwrap();
        let a = arguments(arguments_text.trim_end().strip_suffix(')').unwrap());
        let number = |text: &str| text.parse::<u64>().unwrap();
        match what {
            "openat" => {
                let path = self.dir.join(String::from_utf8(unquoted(&a[1])).unwrap());
                let name = self.name(&a[1]);
                let is_folder = path.canonicalize().is_ok_and(|path| path == self.dir) && !a[2].contains("O_TMPFILE");
                let known = name.as_ref().and_then(|name| self.numbers.get(name)).copied();
                let writes = a[2].contains("O_WRONLY") || a[2].contains("O_RDWR");
                let file = match (name, known) {
                    (_, Some(number)) => Some(number),
                    (Some(name), None) if a[2].contains("O_CREAT") => {
                        self.contents.push(Vec::new());
                        self.push(Op::Create(name, self.contents.len() - 1));
                        Some(self.contents.len() - 1)
                    }
                    _ => None,
                };
                if let (Some(file), true) = (file, writes && a[2].contains("O_TRUNC")) {
                    self.push(Op::Truncate(file, 0));
                }
                let file = if is_folder { Some(FOLDER) } else { file };
                self.fds.insert(result, Open { number: file, at: 0, appends: a[2].contains("O_APPEND") });
            }
            "write" => self.write(&a[0], None, unquoted(&a[1])[..result as usize].to_vec()),
            "pwrite64" => self.write(&a[0], Some(number(&a[3])), unquoted(&a[1])[..result as usize].to_vec()),
            "copy_file_range" => {
                let Some((_, Open { number: Some(from), .. })) = self.file(&a[0]) else { panic!("{call}") };
                let offset = |text: &str| number(text.trim_matches(['[', ']']));
                let start = offset(&a[1]) as usize;
                let bytes = self.contents[from][start..start + result as usize].to_vec();
                self.write(&a[2], Some(offset(&a[3])), bytes);
            }
            "ftruncate" => {
                if let Some((_, Open { number: Some(file), .. })) = self.file(&a[0]) {
                    self.push(Op::Truncate(file, number(&a[1])));
                }
            }
            "fallocate" if a[1] == "FALLOC_FL_INSERT_RANGE" => {
                if let Some((_, Open { number: Some(file), .. })) = self.file(&a[0]) {
                    self.push(Op::Insert(file, number(&a[2]), number(&a[3])));
                }
            }
            "fallocate" => panic!("not expected: {call}"),
            "fsync" | "fdatasync" => match self.file(&a[0]) {
                Some((_, Open { number: Some(FOLDER), .. })) => self.push(Op::SyncFolder),
                Some((_, Open { number: Some(file), .. })) => self.push(Op::SyncFile(file)),
                _ => {}
            },
            "close" => _ = self.fds.remove(&number(&a[0])),
            "fcntl" if a[1].starts_with("F_DUPFD") => {
                if let Some((_, open)) = self.file(&a[0]) {
                    self.fds.insert(result, open);
                }
            }
            "lseek" => {
                if let Some(open) = self.fds.get_mut(&number(&a[0])) {
                    open.at = result;
                }
            }
            "unlink" => self.named(&a[0], Op::Unlink),
            "unlinkat" => self.named(&a[1], Op::Unlink),
            "rename" | "link" => self.two(what, &a[0], &a[1]),
            "renameat" | "renameat2" | "linkat" => self.two(what, &a[1], &a[3]),
            _ => {}
        }
    }

    fn named(&mut self, name: &str, op: impl Fn(String) -> Op) {
        if let Some(name) = self.name(name) {
            self.push(op(name));
        }
    }

    fn two(&mut self, what: &str, from: &str, to: &str) {
        if let (Some(from), Some(to)) = (self.name(from), self.name(to)) {
            self.push(if what.starts_with("link") { Op::Link(from, to) } else { Op::Rename(from, to) });
        }
    }
}

/// The number of the directory itself.
const FOLDER: usize = usize::MAX;

/// Changes the content of a file.
fn apply(contents: &mut [Vec<u8>], op: &Op) {
    match op {
        Op::Write(number, at, bytes) => {
            let (file, at) = (&mut contents[*number], *at as usize);
            if file.len() < at + bytes.len() {
                file.resize(at + bytes.len(), 0);
            }
            file[at..at + bytes.len()].copy_from_slice(bytes);
        }
        Op::Truncate(number, len) => contents[*number].resize(*len as usize, 0),
        Op::Insert(number, at, len) => {
            let at = (*at as usize).min(contents[*number].len());
            contents[*number].splice(at..at, vec![0; *len as usize]);
        }
        _ => {}
    }
}

/// The files after a loss of power that follows the first `n` operations.
fn after_loss(before: &Files, ops: &[Op], n: usize, random: &mut Random) -> Files {
    let ops = &ops[..n];
    let mut contents: Vec<Vec<u8>> = before.values().cloned().collect();
    let mut by_name: BTreeMap<String, usize> = before.keys().cloned().zip(0..).collect();
    let synced = |number: usize| ops.iter().rposition(|op| matches!(op, Op::SyncFile(n) if *n == number)).unwrap_or(0);
    // A new file has its name once it is synced.
    let is_durable = |i: usize| {
        let created = |number| matches!(&ops[i], Op::Create(_, n) if *n == number);
        ops[i..].iter().any(|op| matches!(op, Op::SyncFolder) || matches!(op, Op::SyncFile(n) if created(*n)))
    };
    let is_of_names = |op: &Op| matches!(op, Op::Create(..) | Op::Link(..) | Op::Rename(..) | Op::Unlink(_));
    let changes: Vec<usize> = (0..n).filter(|i| is_of_names(&ops[*i])).collect();
    let n_durable = changes.iter().rposition(|i| is_durable(*i)).map_or(0, |last| last + 1);
    let n_changes = n_durable + random.below(changes.len() - n_durable + 1);
    // Everything, nothing, or some of the data that was not synced.
    let mode = random.below(4);
    for (i, op) in ops.iter().enumerate() {
        match op {
            Op::Create(name, number) => {
                assert_eq!(contents.len(), *number);
                contents.push(Vec::new());
                if changes[..n_changes].contains(&i) {
                    by_name.insert(name.clone(), *number);
                }
            }
            _ if is_of_names(op) && !changes[..n_changes].contains(&i) => {}
            Op::Link(from, to) => _ = by_name.insert(to.clone(), by_name[from]),
            Op::Rename(from, to) => {
                let number = by_name.remove(from).unwrap();
                by_name.insert(to.clone(), number);
            }
            Op::Unlink(name) => _ = by_name.remove(name),
            Op::Write(number, at, bytes) if i > synced(*number) => {
                let lost = match mode {
                    0 => 0,
                    1 => 2,
                    _ => random.below(3),
                };
                match lost {
                    0 => apply(&mut contents, op),
                    // Some of the pages.
                    1 => {
                        for (j, page) in bytes.chunks(4096).enumerate().filter(|_| random.below(2) == 0) {
                            apply(&mut contents, &Op::Write(*number, at + j as u64 * 4096, page.to_vec()));
                        }
                    }
                    _ => {}
                }
            }
            Op::Truncate(number, _) | Op::Insert(number, ..)
                if i > synced(*number) && mode != 0 && random.below(2) == 0 => {}
            Op::Write(..) | Op::Truncate(..) | Op::Insert(..) => apply(&mut contents, op),
            Op::SyncFile(_) | Op::SyncFolder => {}
        }
    }
    by_name.into_iter().map(|(name, number)| (name, contents[number].clone())).collect()
}

/// A command that writes outputs.
struct Work {
    /// The arguments, separated by spaces.
    line: &'static str,
    prepare: fn(&Path),
    outputs: &'static [&'static str],
    /// Whether the old outputs are there at first.
    old: bool,
    /// Whether the command changes its input, so that it is not repeated.
    in_place: bool,
}

fn prepare_model(dir: &Path) {
    gguf(["convert", text(&glossary()), "-q", "-o", text(&dir.join("in.gguf"))]).exits(0);
}

fn prepare_small(dir: &Path) {
    small(dir, "in.gguf");
}

fn prepare_checkpoint(dir: &Path) {
    for name in names(&glossary()) {
        fs::copy(glossary().join(&name), dir.join(name)).unwrap();
    }
}

const SHARDS: &[&str] = &["out-00001-of-00003.gguf", "out-00002-of-00003.gguf", "out-00003-of-00003.gguf"];

const WORKS: &[Work] = &[
    Work {
        line: "set in.gguf general.name=Abcde -q",
        prepare: prepare_small,
        outputs: &["in.gguf"],
        old: true,
        in_place: true,
    },
    Work {
        line: "set in.gguf general.name=A -q",
        prepare: prepare_small,
        outputs: &["in.gguf"],
        old: true,
        in_place: true,
    },
    Work {
        line: "set in.gguf general.name=ALongerNameThatDoesNotFitIntoThePaddingOfTheHeadOfThisModelSoItHasToBeWrittenAnew -q",
        prepare: prepare_small,
        outputs: &["in.gguf"],
        old: true,
        in_place: true,
    },
    Work {
        line: "quantize in.gguf out.gguf Q8_0 -q -j 1",
        prepare: prepare_model,
        outputs: &["out.gguf"],
        old: false,
        in_place: false,
    },
    Work {
        line: "quantize in.gguf out.gguf Q4_K_M -q -j 2 --force",
        prepare: prepare_model,
        outputs: &["out.gguf"],
        old: true,
        in_place: false,
    },
    Work {
        line: "quantize in.gguf out.gguf Q8_0 -q -j 2 --resume",
        prepare: prepare_model,
        outputs: &["out.gguf"],
        old: false,
        in_place: false,
    },
    Work {
        line: "convert . -o out.gguf -q -j 2",
        prepare: prepare_checkpoint,
        outputs: &["out.gguf"],
        old: false,
        in_place: false,
    },
    Work {
        line: "convert . -o out.gguf -q -j 1 --resume --force",
        prepare: prepare_checkpoint,
        outputs: &["out.gguf"],
        old: true,
        in_place: false,
    },
    Work {
        line: "split in.gguf out --max-tensors 10 -q -j 2 --force",
        prepare: prepare_model,
        outputs: SHARDS,
        old: true,
        in_place: false,
    },
];

/// Replays each command, with this number of losses after each operation, of which every n-th is followed by the same command.
fn lose_power(n_losses: u64, repeat_each: u64) {
    let (mut n_all, mut n_repeated) = (0, 0);
    for work in WORKS {
        let temporary = folder();
        let dir = temporary.path().canonicalize().unwrap().join("work");
        fs::create_dir(&dir).unwrap();
        (work.prepare)(&dir);
        if work.old && !work.in_place {
            work.outputs.iter().for_each(|name| fs::write(dir.join(name), "the old file").unwrap());
        }
        let before = files(&dir);
        let ops = record(&dir, &before, &words(work.line));
        let after = files(&dir);
        // The record is complete: replaying everything gives the files.
        let files_synced = (0..before.len() + ops.len()).map(Op::SyncFile);
        let synced: Vec<Op> = ops.iter().cloned().chain(files_synced).chain([Op::SyncFolder]).collect();
        let everything = after_loss(&before, &synced, synced.len(), &mut Random(0));
        assert!(everything == after, "{}: the record is not complete: {:?}", work.line, everything.keys());
        let mut random = Random(1);
        for n in 0..=ops.len() {
            for _ in 0..n_losses {
                let mut found = after_loss(&before, &ops, n, &mut random);
                let what = format!(
                    "{}: after {n} of {} operations, {:?}",
                    work.line,
                    ops.len(),
                    ops.get(n.wrapping_sub(1)).map(shown)
                );
                n_all += 1;
                if work.in_place {
                    // Opening the file finishes the edit.
                    restore(&dir, &found);
                    gguf_io::ModelFile::open(dir.join(work.outputs[0])).unwrap_or_else(|e| panic!("{what}: {e}"));
                    found = files(&dir);
                }
                for name in work.outputs {
                    let content = found.get(*name);
                    assert!(
                        content == before.get(*name) || content == after.get(*name),
                        "{what}: {name} is neither old nor new"
                    );
                }
                if !work.in_place && n_all % repeat_each == 0 {
                    n_repeated += 1;
                    restore(&dir, &found);
                    let mut args = words(work.line);
                    if !work.old {
                        args.push("--force".into());
                    }
                    let output = program().args(&args).current_dir(&dir).output().unwrap();
                    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
                    let again = files(&dir);
                    assert!(
                        work.outputs.iter().all(|name| again.get(*name) == after.get(*name)),
                        "{what}: other bytes"
                    );
                }
            }
        }
        println!("{}: {} operations", work.line, ops.len());
    }
    println!("{n_all} losses of power, {n_repeated} of them followed by the same command");
}

fn shown(op: &Op) -> String {
    match op {
        Op::Write(number, at, bytes) => format!("Write({number}, {at}, {} bytes)", bytes.len()),
        other => format!("{other:?}"),
    }
}

fn power_is_lost() {
    lose_power(1, 60);
}

fn power_is_lost_often() {
    lose_power(10, 100);
}

/// The replay finds files that a program without syncs would leave.
fn missing_syncs_are_found() {
    let temporary = folder();
    let dir = temporary.path().canonicalize().unwrap().join("work");
    fs::create_dir(&dir).unwrap();
    prepare_model(&dir);
    let before = files(&dir);
    let mut ops = record(&dir, &before, &words("quantize in.gguf out.gguf Q8_0 -q -j 1"));
    let after = files(&dir);
    let n = ops.len();
    ops.retain(|op| !matches!(op, Op::SyncFile(_) | Op::SyncFolder));
    assert!(ops.len() < n);
    let mut random = Random(2);
    let is_partial = |found: Files| found.contains_key("out.gguf") && found.get("out.gguf") != after.get("out.gguf");
    let found = (0..50).filter(|_| is_partial(after_loss(&before, &ops, ops.len(), &mut random))).count();
    assert!(found > 5, "{found}");
}

fn system_calls_fail() {
    fail_in_turn(&COMMANDS[..2], &["fsync", "rename", "renameat2"]);
}

fn system_calls_fail_often() {
    fail_in_turn(COMMANDS, &["fsync", "ftruncate", "rename", "renameat2", "linkat", "copy_file_range", "pwrite64"]);
}

/// Commands that write several outputs.
const COMMANDS: &[(&str, &[&str])] = &[
    ("split in.gguf out --max-tensors 10 -q -j 1", SHARDS),
    ("split in.gguf out --max-tensors 10 -q -j 1 --force", SHARDS),
    ("quantize in.gguf out-{ftype}.gguf Q8_0 COPY -q -j 1", &["out-q8_0.gguf", "out-bf16.gguf"]),
    ("quantize in.gguf out-{ftype}.gguf Q8_0 COPY -q -j 1 --force", &["out-q8_0.gguf", "out-bf16.gguf"]),
    ("man out", &["gguf.1", "gguf-add-tensor.1"]),
];

/// Each system call of these kinds fails in turn: afterwards there are all outputs, or none.
fn fail_in_turn(commands: &[(&str, &[&str])], calls: &[&str]) {
    let mut n_failed = 0;
    for (line, outputs) in commands.iter().copied() {
        let temporary = folder();
        let dir = temporary.path().canonicalize().unwrap();
        prepare_model(&dir);
        let of_outputs = || if line == "man out" { dir.join("out") } else { dir.clone() };
        let has_old = line.ends_with("--force");
        let reset = || {
            let _ = fs::remove_dir_all(dir.join("out"));
            for name in names(&dir).iter().filter(|name| *name != "in.gguf") {
                fs::remove_file(dir.join(name)).unwrap();
            }
            if has_old {
                outputs.iter().for_each(|name| fs::write(dir.join(name), "the old file").unwrap());
            }
        };
        for call in calls {
            for when in 1..=20 {
                reset();
                let mut command = Command::new("strace");
                command.args(["-f", "-qq", "-e", "signal=none", "-e", &format!("trace={call}"), "-e"]);
                command.arg(format!("inject={call}:error=EIO:when={when}")).arg("-o").arg(dir.with_extension("log"));
                let output = command.arg(program_path()).args(words(line)).current_dir(&dir).output().unwrap();
                let log = fs::read_to_string(dir.with_extension("log")).unwrap();
                fs::remove_file(dir.with_extension("log")).unwrap();
                if !log.contains("INJECTED") {
                    break;
                }
                n_failed += 1;
                let there = if of_outputs().is_dir() { names(&of_outputs()) } else { Vec::new() };
                let is_new = |name: &&str| {
                    let content = fs::read(of_outputs().join(name));
                    content.is_ok_and(|content| content != b"the old file")
                };
                let n_new = outputs.iter().filter(|name| is_new(name)).count();
                let what = format!("{line}: {call} {when}: {there:?}: {}", String::from_utf8_lossy(&output.stderr));
                assert_eq!(n_new, if output.status.success() { outputs.len() } else { 0 }, "{what}");
                assert!(there.iter().all(|name| !name.starts_with('.')), "{what}");
                let has_outputs = outputs.iter().all(|name| there.iter().any(|there| there == name));
                assert!(!has_old || has_outputs, "{what}");
            }
        }
    }
    println!("{n_failed} system calls failed");
}

/// Kills a command at random moments; after each kill, runs it to its end.
fn kill(line: &str, outputs: &[&str], prepare: fn(&Path), n: u64) -> String {
    let temporary = folder();
    let dir = temporary.path().join("work");
    fs::create_dir(&dir).unwrap();
    prepare(&dir);
    let inputs = files(&dir);
    let start = || {
        let mut command = program();
        command.args(words(line)).current_dir(&dir).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let begun = Instant::now();
    assert!(start().wait_with_output().unwrap().status.success());
    let takes = begun.elapsed().max(Duration::from_millis(20));
    let new = files(&dir);
    let mut random = Random(n);
    let (mut n_killed, mut n_absent) = (0, 0);
    for i in 0..n {
        let old = i % 2 == 1;
        restore(&dir, &inputs);
        if old {
            outputs.iter().for_each(|name| fs::write(dir.join(name), "the old file").unwrap());
        }
        // Up to three kills before the run that succeeds.
        for _ in 0..=random.below(3) {
            let mut child = start();
            std::thread::sleep(takes.mul_f64(random.below(1100) as f64 / 1000.0));
            let was_running = child.try_wait().unwrap().is_none();
            let _ = child.kill();
            child.wait().unwrap();
            n_killed += u64::from(was_running);
            let found = files(&dir);
            for name in outputs {
                let content = found.get(*name).map(Vec::as_slice);
                let is_old = content == old.then_some(&b"the old file"[..]);
                assert!(is_old || content == new.get(*name).map(Vec::as_slice), "{line}: {name} is partial");
                n_absent += u64::from(is_old);
            }
        }
        let output = start().wait_with_output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        let mut found = files(&dir);
        if cfg!(windows) {
            // The lock of an old file, which a kill while it is replaced leaves for the next edit.
            found.retain(|name, content| !(name.ends_with(".edit") && content.is_empty()));
        }
        assert!(found == new, "{line}: {:?}", names(&dir));
    }
    format!("{line}: {n_killed} kills in {n} rounds, {n_absent} times without the new file")
}

fn kill_all(n: u64) {
    for (line, prepare) in [
        ("quantize in.gguf out.gguf Q4_K_M -q --force", prepare_model as fn(&Path)),
        ("quantize in.gguf out.gguf Q4_K_M -q --force --resume", prepare_model),
        ("convert . -o out.gguf -q --force", prepare_checkpoint),
        ("convert . -o out.gguf -q --force --resume", prepare_checkpoint),
    ] {
        println!("{}", kill(line, &["out.gguf"], prepare, n));
    }
}

fn programs_are_killed() {
    kill_all(3);
}

fn programs_are_killed_often() {
    kill_all(300);
}
