//! Signals and limits that end a conversion. `killed.rs` of `ggufkit` tests each step of a run.
#![cfg(unix)]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use gguf_test::files::{folder, glossary, names, text};
use gguf_test::program::{gguf, program};

use crate::deep::checkpoint;

/// Number of runs that receive a signal.
const ATTEMPTS: usize = 30;

/// The program, with default signal handling: a shell's background job ignores some signals, and children inherit that.
fn interruptible() -> Command {
    if cfg!(not(target_os = "linux")) {
        return program();
    }
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,TERM,HUP"]).arg(program().get_program());
    command
}

/// Whether the program was terminated by the signal it received, so that a shell's loop ends with it.
fn ended_by(signal: &str, status: ExitStatus) -> bool {
    let number = [("-HUP", 1), ("-INT", 2), ("-TERM", 15)].iter().find(|(name, _)| *name == signal).unwrap().1;
    status.signal() == Some(number)
}

fn start(from: &Path, out: &Path) -> Child {
    let mut command = interruptible();
    command.args(["convert", "--force", text(from), "-o", text(out)]);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn what_a_signal_interrupts_is_kept_when_asked() {
    let dir = folder();
    let from = checkpoint(dir.path());
    let place = dir.path().join("out");
    fs::create_dir(&place).unwrap();
    let out = place.join("model.gguf");
    let resume = |options: &[&str]| {
        let mut command = interruptible();
        command.args(["convert", "--resume", text(&from), "-o", text(&out)]).args(options);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut signals = ["-INT", "-TERM", "-HUP"].into_iter();
    let mut next = signals.next();
    // A signal after the last chunk has no effect, and the test tries another run.
    for _ in 0..ATTEMPTS {
        let Some(signal) = next else { break };
        let child = resume(&[]);
        let deadline = Instant::now() + Duration::from_secs(60);
        while names(&place).len() < 2 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        if !out.exists() {
            next = signals.next();
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(ended_by(signal, output.status), "{err}");
            let kept = format!("{0}.partial and {0}.journal\nhelp: repeat the command to continue\n", text(&out));
            assert!(err.ends_with(&format!("gguf: error: interrupted; finished work is kept in {kept}")), "{err}");
            assert_eq!(names(&place), ["model.gguf.journal", "model.gguf.partial"]);
            let other = resume(&["--name", "Another"]).wait_with_output().unwrap();
            let err = String::from_utf8_lossy(&other.stderr);
            assert_eq!(other.status.code(), Some(2), "{err}");
            assert!(err.contains("cannot be continued: the metadata differs; "), "{err}");
            assert!(resume(&[]).wait().unwrap().success());
        }
        assert_eq!(names(&place), ["model.gguf"]);
        gguf(["check", text(&out)]).exits(0);
        fs::remove_file(&out).unwrap();
    }
    assert_eq!(next, None, "no run was interrupted by it");
}

#[test]
fn an_interrupted_conversion_cleans_up() {
    let dir = folder();
    let from = checkpoint(dir.path());
    let place = dir.path().join("out");
    fs::create_dir(&place).unwrap();
    let out = place.join("model.gguf");
    let mut signals = ["-INT", "-TERM", "-HUP"].into_iter();
    let mut next = signals.next();
    for _ in 0..ATTEMPTS {
        let Some(signal) = next else { break };
        fs::write(&out, "the old file").unwrap();
        let child = start(&from, &out);
        // As soon as the temporary file exists.
        let deadline = Instant::now() + Duration::from_secs(60);
        while names(&place).len() < 2 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(names(&place), ["model.gguf"]);
        if fs::read(&out).unwrap() == b"the old file" {
            next = signals.next();
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(ended_by(signal, output.status), "{err}");
            assert!(err.ends_with("gguf: error: interrupted; no output was written\n"), "{err}");
        }
    }
    assert_eq!(next, None, "no run was interrupted by it");
}

#[test]
fn an_interrupted_check_says_so() {
    let dir = folder();
    let file = dir.path().join("large.gguf");
    // A sparse file: it takes long to read, and needs no disk space.
    let n = 4 << 30;
    let mut head = gguf_format::Head::default();
    head.tensors.push(gguf_format::TensorInfo::new("a", [n], gguf_format::GgmlType::F32));
    let bytes = head.encode().unwrap();
    fs::write(&file, &bytes).unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_len(bytes.len() as u64 + 4 * n).unwrap();
    for signal in ["-INT", "-TERM", "-HUP"] {
        let mut command = interruptible();
        command.args(["check", "--data", text(&file), text(&file)]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Signal handlers are installed before the files are opened.
        let is_open = || {
            let files = fs::read_dir(format!("/proc/{}/fd", child.id())).into_iter().flatten().flatten();
            files.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|to| to.ends_with("large.gguf"))
        };
        let deadline = Instant::now() + Duration::from_secs(if cfg!(target_os = "linux") { 60 } else { 1 });
        while !is_open() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert!(ended_by(signal, output.status), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "gguf: error: interrupted\n");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}

#[test]
fn a_file_that_may_not_be_so_large_is_an_error_and_leaves_nothing() {
    let dir = folder();
    let out = dir.path().join("out.gguf");
    for options in [&["-q"][..], &["--resume"]] {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -f 100; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_gguf"), "convert"]);
        let output = command.arg(glossary()).arg("-o").arg(&out).args(options).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains("out.gguf: cannot allocate space for the whole file: File too large"), "{err}");
        assert_eq!(names(dir.path()), [""; 0]);
    }
}
