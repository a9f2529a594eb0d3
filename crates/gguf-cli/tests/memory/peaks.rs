//! Runs the program as a child process, and asks the system how much memory it had at most.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use gguf_test::files::{folder, glossary, text};
use gguf_test::program::{gguf, path};

use crate::files;

gguf_test::tests! {
    [] a_worker_needs_its_part, every_command_is_run;
    [Asking("takes minutes")] every_file;
}

/// What every process may use beyond its input.
const BASE: u64 = 64 << 20;

/// How often the input fits in the rest.
const TIMES: u64 = 4;

/// Seconds of CPU time after which a command counts as hanging: ten times what the program may take, because this build is not optimized.
const SECONDS: u32 = 100;

/// The commands that read a file as a model.
const OF_MODEL: &[&str] = &[
    "show FILE",
    "show FILE --json",
    "show FILE --kv --tensors",
    "check FILE",
    "check FILE --json",
    "check FILE --data",
    "get FILE general.architecture",
    "get FILE tokenizer.ggml.tokens --json",
    "name FILE",
    "recipe show FILE",
    "recipe show FILE --rules --json",
    "recipe apply recipe FILE OUT --allow-requantize",
    "quantize FILE OUT COPY",
    "quantize FILE OUT Q4_K_M --report --json",
    "quantize FILE OUT Q4_0 --resume",
    "quantize FILE OUT --target-bpw 8",
    "quantize FILE Q8_0 --dry-run",
    "quantize FILE Q8_0 --dry-run --json",
    "quantize FILE OUT-{ftype} Q8_0 Q4_0",
    "quantize FILE OUT Q8_0 --plan-only OUT.json",
    "part FILE --index 0",
    "commit FILE --status",
    "convert FILE -o OUT --type Q8_0",
    "migrate FILE -o OUT --yes",
    "card FILE",
    "card FILE --json",
    "hash FILE",
    "hash FILE --all --json",
    "diff FILE FILE",
    "diff FILE model.gguf",
    "diff model.gguf FILE --json",
    "estimate FILE",
    "estimate FILE --json",
    "cat FILE 00000",
    "extract FILE * -o OUT.safetensors",
    "set FILE general.name=x --dry-run",
    "set FILE general.name=x -o OUT",
    "unset FILE general.architecture -o OUT --allow-invalid",
    "rename FILE general.architecture=general.title -o OUT --allow-invalid",
    "rename FILE 00000=new --tensors -o OUT",
    "edit FILE -o OUT",
    "split FILE OUT --max-tensors 1000",
    "split FILE OUT --max-tensors 8 --dry-run --json",
    "merge FILE -o OUT",
    "swap FILE OUT",
    "upgrade FILE OUT",
    "reorder FILE OUT --by size",
    "rm-tensor FILE OUT *0",
    "add-tensor FILE OUT new values.npy",
    "add-tensor model.gguf OUT new FILE",
    "graft FILE OUT --from model.gguf --keys * --tensors * --replace",
    "graft model.gguf OUT --from FILE --keys * --tensors * --replace",
    "repair FILE",
    "repair FILE --json -o OUT",
    "repair FILE --mend -o OUT",
    "repair FILE --from FILE --json",
    "export FILE -o OUT",
    "verify FILE --against checkpoint",
    "lora merge FILE model.gguf -o OUT",
    "lora merge model.gguf FILE -o OUT",
    "engine --llama FILE",
    "perplexity FILE recipe --llama .",
    "kld FILE model.gguf recipe --llama .",
    "kld model.gguf --base FILE --llama .",
    "run FILE prompt --llama .",
    "card model.gguf --no-hash --kld FILE",
    "sensitivity FILE recipe -o OUT --llama .",
    "quantize model.gguf OUT --target-bpw 4 --sensitivity FILE",
    "imatrix compute FILE recipe -o OUT.gguf --llama .",
    "imatrix show FILE",
    "imatrix check FILE model.gguf",
    "imatrix convert FILE OUT.dat",
    "imatrix merge FILE FILE -o OUT",
];

/// What a run used.
struct Used {
    /// The peak of resident memory in bytes.
    peak: u64,
    /// CPU time.
    seconds: f64,
}

/// Runs the program; returns what it used, or how it ended wrongly.
fn run(dir: &Path, args: &str) -> Result<Used, String> {
    let said = dir.join("said");
    let stderr = fs::File::create(&said).map_err(|e| e.to_string())?;
    let mut command = Command::new("sh");
    command.args(["-fc", "ulimit -t \"$1\"; exec \"$0\" $2"]).arg(path()).arg(SECONDS.to_string()).arg(args);
    command.current_dir(dir).env("VISUAL", "true").env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
    let child = command.spawn().map_err(|e| e.to_string())?;
    let (status, usage) = wait(child.id()).map_err(|e| e.to_string())?;
    let said = fs::read(&said).map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&said);
    let is_explained = said.lines().any(|line| line.starts_with("gguf: "));
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    match libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)) {
        Some(code @ 0..=2) if code < 2 || is_explained => {
            Ok(Used { peak: usage.ru_maxrss as u64 * 1024, seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime) })
        }
        _ => Err(format!("ended with status {status:#x}: {said:.300}")),
    }
}

/// Waits for a process; returns its status and what it used.
fn wait(id: u32) -> io::Result<(i32, libc::rusage)> {
    let mut status = 0;
    // SAFETY: all bytes of the structure may be zero.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call; nobody else waits for this child.
    match unsafe { libc::wait4(id as i32, &raw mut status, 0, &raw mut usage) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok((status, usage)),
    }
}

/// Runs every command on a file.
fn run_all(name: &str, write: fn(&Path) -> io::Result<()>) {
    let dir = folder();
    let dir = dir.path();
    let model = dir.join("model.gguf");
    gguf(["convert", text(&glossary()), "-o", text(&model), "-q"]).exits(0);
    gguf(["extract", text(&model), "output_norm.weight", "-o", text(&dir.join("values.npy")), "-q"]).exits(0);
    fs::write(dir.join("recipe"), "Q4_K_M\nattn_q=q8_0\n").unwrap();
    std::os::unix::fs::symlink(glossary(), dir.join("checkpoint")).unwrap();
    write(&dir.join("FILE")).unwrap();
    let len = fs::metadata(dir.join("FILE")).unwrap().len();
    assert!(len <= 20_000_000, "{len}");
    let bound = BASE + TIMES * len;
    let chosen = std::env::var("GGUF_COMMAND").unwrap_or_default();
    let mut wrong = 0;
    for args in OF_MODEL.iter().filter(|args| args.starts_with(&chosen)) {
        let line = match run(dir, args) {
            Ok(used) => {
                let mark = if used.peak <= bound { "" } else { " TOO MUCH" };
                wrong += usize::from(used.peak > bound);
                let [peak, bound] = [used.peak, bound].map(|n| n >> 20);
                format!("{peak:>5} of {bound} MiB, {:>4.1} s: gguf {args}{mark}", used.seconds)
            }
            Err(e) => {
                wrong += 1;
                format!("gguf {args}: {e}")
            }
        };
        println!("{name}: {line}");
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name());
            match name.to_string_lossy().starts_with("OUT") {
                true if path.is_dir() => fs::remove_dir_all(path).unwrap(),
                true => fs::remove_file(path).unwrap(),
                false => {}
            }
        }
    }
    assert_eq!(wrong, 0, "{name}: commands that need too much, or end wrongly");
}

/// Writes a file.
type Write = fn(&Path) -> io::Result<()>;

/// The files, each maximal in one dimension.
const FILES: &[(&str, Write)] = &[
    ("tensors", files::tensors),
    ("shared", files::shared),
    ("blocks", files::blocks),
    ("keys", files::keys),
    ("texts", files::texts),
    ("strings", files::strings),
    ("vocabulary", files::vocabulary),
    ("merges", files::merges),
    ("nested", files::nested),
    ("numbers", files::numbers),
    ("text", files::text),
    ("template", files::template),
];

/// Every command on every file; `GGUF_FILE` and `GGUF_COMMAND` select some of them.
fn every_file() {
    let chosen = std::env::var("GGUF_FILE").unwrap_or_default();
    FILES.iter().filter(|(name, _)| name.contains(&chosen)).for_each(|(name, write)| run_all(name, *write));
}

/// A worker needs its part and 256 MiB, whatever the model: one of 8 GiB, which is a hole.
fn a_worker_needs_its_part() {
    const ROWS: u64 = 1 << 20;
    let dir = folder();
    let path = dir.path().join("model.gguf");
    let mut head = gguf_format::Head::default();
    head.set("general.architecture", "llama");
    head.set("llama.block_count", 1u32);
    let names = ["token_embd.weight", "blk.0.attn_q.weight"];
    head.tensors =
        names.map(|name| gguf_format::TensorInfo::new(name, [2048, ROWS], gguf_format::GgmlType::F16)).into();
    let layout = head.layout().unwrap();
    fs::write(&path, layout.head()).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(layout.file_bytes()).unwrap();
    for (part, index) in [(5 << 20, 3), (64 << 20, 17), (256 << 20, 8)] {
        let plan = format!("quantize model.gguf out.gguf Q8_0 -qf --plan-only plan.json --part-size {part}");
        let planned = run(dir.path(), &plan).unwrap();
        assert!(planned.peak <= 64 << 20, "planning takes {} MiB", planned.peak >> 20);
        let made = run(dir.path(), &format!("part plan.json --index {index} -q -j 4")).unwrap();
        let bound = part + (256 << 20);
        println!("a part of {} MiB: {} of {} MiB", part >> 20, made.peak >> 20, bound >> 20);
        assert!(made.peak <= bound, "a part of {part} bytes takes {} bytes", made.peak);
    }
    gguf(["commit", text(&dir.path().join("plan.json")), "--abort", "-q"]).exits(0);
}

/// Detects new commands that are not tested.
fn every_command_is_run() {
    let of_no_file = ["completions", "man", "help"];
    let names = |command: &[&str]| -> Vec<String> {
        let help = gguf(command.iter().chain(&["--help"])).exits(0).out;
        let listed = help.split("Commands:\n").nth(1).map_or("", |listed| listed.split("\n\n").next().unwrap());
        let names = listed.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        names.filter(|name| !name.is_empty() && !of_no_file.contains(name)).map(str::to_owned).collect()
    };
    for name in names(&[]) {
        let inner = names(&[&name]);
        let full = inner.iter().map(|inner| format!("{name} {inner} "));
        for command in full.chain(inner.is_empty().then(|| format!("{name} "))) {
            assert!(OF_MODEL.iter().any(|args| args.starts_with(&command)), "gguf {command}is not run");
        }
    }
}
