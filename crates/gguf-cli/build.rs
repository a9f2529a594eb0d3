//! Makes the program smaller when it is linked, with options that not every linker has: each is used if a small program links and runs with it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=no-unwind.ld");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_gnu = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if !is_gnu || !is("PROFILE", "release") || env::var("HOST") != env::var("TARGET") {
        return;
    }
    let mut options = vec![
        // The tables have a hundred thousand pointers, and so megabytes of relocations. The C library must know packed ones, too.
        "-Wl,-z,pack-relative-relocs".to_string(),
        // Functions that compile to the same instructions are stored once.
        "-Wl,--icf=all".to_string(),
    ];
    // Tables for unwinding, half a megabyte, are omitted where a panic aborts the program. Cargo does not tell whether it does (`CARGO_CFG_PANIC`
    // is that of the target); of all profiles, only `release` of this workspace has this level, and `python`, whose program
    // then cannot unwind either: a panic ends it.
    if is("OPT_LEVEL", "z") {
        let script = env::var("CARGO_MANIFEST_DIR").unwrap_or_default() + "/no-unwind.ld";
        options.push(format!("-Wl,-T,{script},--no-eh-frame-hdr"));
    }
    let mut used = Vec::new();
    for option in options {
        used.push(option);
        if !links_and_runs(&used) {
            used.pop();
        }
    }
    for option in used {
        println!("cargo:rustc-link-arg-bins={option}");
    }
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
