//! Makes the released program smaller.

use std::env;

mod link;

fn main() {
    println!("cargo:rerun-if-changed=build");
    if !link::is_asked() {
        return;
    }
    // Tables for unwinding, half a megabyte, are omitted where a panic aborts the program. Cargo does not tell whether it does (`CARGO_CFG_PANIC`
    // is that of the target); of all profiles with which programs are installed, only `release` of this workspace has this level.
    let mut others = Vec::new();
    if env::var("OPT_LEVEL").is_ok_and(|level| level == "z") {
        let folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        others.push(format!("-Wl,-T,{folder}/build/no-unwind.ld,--no-eh-frame-hdr"));
    }
    for option in link::options(others) {
        println!("cargo:rustc-link-arg-bins={option}");
    }
}
