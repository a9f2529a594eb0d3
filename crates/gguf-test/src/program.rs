//! Runs the built program `gguf`. Only the program's own tests have it built.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// The result of a run of the program.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Run {
    /// Asserts the exit code, and prints everything if it differs.
    #[track_caller]
    pub fn exits(self, code: i32) -> Run {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// Asserts that each text is in standard output.
    #[track_caller]
    pub fn prints(self, texts: &[&str]) -> Run {
        for text in texts {
            assert!(self.out.contains(text), "no {text:?} in stdout:\n{}", self.out);
        }
        self
    }

    /// Asserts that each text is in standard error.
    #[track_caller]
    pub fn says(self, texts: &[&str]) -> Run {
        for text in texts {
            assert!(self.err.contains(text), "no {text:?} in stderr:\n{}", self.err);
        }
        self
    }

    /// Asserts that standard error is empty.
    #[track_caller]
    pub fn silently(self) -> Run {
        assert_eq!(self.err, "");
        self
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap()
    }
}

/// The path of the built program, one directory above the tests.
pub fn path() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.ancestors().nth(2).unwrap().join(format!("gguf{}", std::env::consts::EXE_SUFFIX))
}

/// Variables of every run.
static VARIABLES: Mutex<Vec<(&str, String)>> = Mutex::new(Vec::new());

/// Sets variables for all runs of this test program.
pub fn set_for_all(variables: Vec<(&'static str, String)>) {
    *VARIABLES.lock().unwrap() = variables;
}

pub fn program() -> Command {
    let mut command = Command::new(path());
    command.stdin(Stdio::null()).env_remove("NO_COLOR");
    command.envs(VARIABLES.lock().unwrap().iter().map(|(name, value)| (name, value)));
    command
}

/// Runs the program.
pub fn gguf<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Run {
    let output = program().args(args).output().unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The arguments of a line, split at spaces.
pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}
