//! A read-only directory: every command that writes reports an error and changes nothing.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use gguf_test::files::{folder, small};
use gguf_test::program::path;

/// A user without any files.
const NOBODY: u32 = 65534;

/// Commands that write `out.gguf`, or change `m.gguf`.
const WRITING: &[&[&str]] = &[
    &["set", "m.gguf", "general.name=Other"],
    &["set", "m.gguf", "general.name=Other", "--rewrite"],
    &["set", "m.gguf", "general.name=Other", "--output", "out.gguf"],
    &["unset", "m.gguf", "general.name"],
    &["rename", "m.gguf", "general.name=general.title"],
    &["name", "m.gguf", "--rename"],
    &["split", "m.gguf", "out", "--max-tensors", "1"],
    &["swap", "m.gguf", "out.gguf"],
    &["reorder", "m.gguf", "out.gguf"],
    &["upgrade", "m.gguf", "out.gguf"],
    &["quantize", "m.gguf", "out.gguf", "Q8_0"],
    &["extract", "m.gguf", "token_embd.weight", "-o", "out.npy"],
];

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let is_data = |name: &str| name != "program";
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    named.filter(|(name, _)| is_data(name)).map(|(name, path)| (name, fs::read(path).unwrap())).collect()
}

#[test]
fn a_folder_that_may_not_be_written_is_left_alone() {
    let dir = folder();
    let is_root = fs::metadata(dir.path()).unwrap().uid() == 0;
    small(dir.path(), "m.gguf");
    let program = dir.path().join("program");
    fs::copy(path(), &program).unwrap();
    fs::set_permissions(dir.path().join("m.gguf"), Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o555)).unwrap();
    let before = contents(dir.path());
    for args in WRITING {
        let mut command = Command::new(&program);
        command.args(*args).current_dir(dir.path());
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {err}");
        assert!(err.contains("Permission denied"), "{args:?}: {err}");
        assert_eq!(contents(dir.path()), before, "{args:?}");
    }
    // Allows removing the directory.
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
}
