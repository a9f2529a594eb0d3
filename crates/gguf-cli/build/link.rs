//! Options that make a program or library smaller when it is linked. Not every linker has them: each is used if a small program links and runs with it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether optimized files are made for this machine, with a linker that may have the options.
pub fn is_asked() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_gnu = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    is_gnu && is("PROFILE", "release") && env::var("HOST") == env::var("TARGET")
}

/// Those of these options, and of those for every kind of file, that the linker has.
pub fn options(others: Vec<String>) -> Vec<String> {
    let mut options = vec![
        // The tables have a hundred thousand pointers, and so megabytes of relocations. The C library must know packed ones, too.
        "-Wl,-z,pack-relative-relocs".to_string(),
        // Functions that compile to the same instructions are stored once.
        "-Wl,--icf=all".to_string(),
    ];
    options.extend(others);
    let mut used = Vec::new();
    for option in options {
        used.push(option);
        if !links_and_runs(&used) {
            used.pop();
        }
    }
    used
}

/// Whether an empty program can be linked with these options, by the linker that Cargo uses for this package, and runs.
fn links_and_runs(options: &[String]) -> bool {
    let (Some(rustc), Some(folder)) = (env::var_os("RUSTC"), env::var_os("OUT_DIR")) else { return false };
    let [source, program] = ["probe.rs", "probe"].map(|name| Path::new(&folder).join(name));
    if fs::write(&source, "fn main() {}").is_err() {
        return false;
    }
    let mut compile = Command::new(rustc);
    compile.arg("-Cpanic=abort").arg("-o").arg(&program).arg(source).stderr(Stdio::null());
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = OsString::from("-Clinker=");
        option.push(linker);
        compile.arg(option);
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    compile.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    compile.args(options.iter().map(|option| format!("-Clink-arg={option}")));
    let succeeds = |command: &mut Command| command.status().is_ok_and(|status| status.success());
    succeeds(&mut compile) && succeeds(&mut Command::new(program))
}
