//! A file system of one megabyte, in a mount namespace that ends with the command.

use std::path::Path;
use std::process::Command;

/// Ways to a mount namespace: as root, and as a user who becomes root in a namespace of users.
const WAYS: [&[&str]; 2] = [&["--mount"], &["--mount", "--map-root-user"]];

fn script_by(way: &[&str], at: &Path, script: &str) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(way)
        .args(["sh", "-c", &format!("mount -t tmpfs -o size=1m tmpfs \"$0\" && {{\n{script}\n}}")])
        .arg(at);
    command
}

/// Whether such a file system is to be had here.
pub fn is_possible() -> bool {
    way().is_some()
}

fn way() -> Option<&'static [&'static str]> {
    let works = |way: &&[&str]| script_by(way, Path::new("/tmp"), "true").output().is_ok_and(|o| o.status.success());
    WAYS.into_iter().find(works)
}

/// A shell that runs a script with the file system at the folder `at`, which is `$0`. What arguments are added are `$1` and on.
pub fn script(at: &Path, script: &str) -> Command {
    script_by(way().expect("the right to mount"), at, script)
}
