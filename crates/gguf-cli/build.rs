//! Makes the program smaller when it is linked.
//!
//! Its tables have a hundred thousand pointers, and so megabytes of relocations, which are packed. glibc loads packed relocations since version
//! 2.36; a program is built for this version or newer ones if the machine has it. Tables for unwinding, half a megabyte, are omitted from
//! the profile `release`, where a panic aborts the program; a linker other than that of the toolchain may not know how.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=no-unwind.ld");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_gnu = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if !is_gnu || env::var("HOST") != env::var("TARGET") {
        return;
    }
    if glibc().is_some_and(|version| version >= (2, 36)) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    let is_other_linker = env::var_os("RUSTC_LINKER").is_some()
        || env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("link"));
    // Cargo does not tell whether a panic aborts (`CARGO_CFG_PANIC` is that of the target); of all profiles, only `release` has this level.
    if is("OPT_LEVEL", "z") && !is_other_linker {
        let script = env::var("CARGO_MANIFEST_DIR").unwrap_or_default() + "/no-unwind.ld";
        println!("cargo:rustc-link-arg-bins=-Wl,-T,{script},--no-eh-frame-hdr");
    }
}

/// The version of this machine's glibc.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let (major, minor) = std::str::from_utf8(&output.stdout).ok()?.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
