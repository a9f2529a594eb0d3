//! A full disk: an error that leaves no output and keeps existing files. Requires the permission to mount a small file system, as root or
//! in a user namespace; otherwise the test is ignored.

use gguf_test::disk;
use gguf_test::files::{folder, glossary, names, text};
use gguf_test::program::{gguf, path};

/// Runs a conversion on the small disk, and lists the remaining files.
const CONVERT: &str = r#"
    set -u; gguf=$1; model=$2; cd "$0"
    convert() { "$gguf" convert "$model" -o out.gguf "$@"; echo "code $?, left: $(ls -A)"; }
    convert
    convert --resume
    echo old >out.gguf
    convert --force
    cat out.gguf
"#;

fn a_full_disk_is_an_error_and_leaves_nothing() {
    let dir = folder();
    let output = disk::script(dir.path(), CONVERT).arg(path()).arg(glossary()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(out, "code 2, left: \ncode 2, left: \ncode 2, left: out.gguf\nold\n", "{err}");
    let errors: Vec<&str> = err.lines().filter(|line| line.starts_with("gguf: error: ")).collect();
    assert_eq!(errors.len(), 3, "{err}");
    for line in errors {
        assert!(line.contains("out.gguf: no space left on the disk at "), "{err}");
        assert!(line.contains(" bytes needed, "), "{err}");
    }
}

/// Plans conversions on the small disk, to one type and to two that fit only one by one, and lists the remaining files.
const PLAN: &str = r#"
    set -u; gguf=$1; model=$2; cd "$0"
    plan() { "$gguf" convert "$model" "$@" >plan; echo "code $?, $(grep -c 'bytes needed' plan)"; rm plan; }
    plan -o out.gguf --dry-run
    plan -o out.gguf --dry-run --vocab-only
    plan -o out-{ftype}.gguf --dry-run --type f32,f16
    plan -o out.gguf --check-range
    ls -A
"#;

fn a_dry_run_on_a_full_disk_says_so() {
    let dir = folder();
    let output = disk::script(dir.path(), PLAN).arg(path()).arg(glossary()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(out, "code 2, 1\ncode 0, 1\ncode 2, 1\ncode 2, 0\n", "{err}");
    assert_eq!(err.matches(": no space left on the disk at ").count(), 3, "{err}");
}

/// Runs every command that writes a copy of a model on the small disk, and lists the remaining files.
const COPY: &str = r#"
    set -u; gguf=$1; model=$2; shard=$3; piece=$4; cd "$0"
    echo old >out.gguf; echo old >out.npy
    try() { "$gguf" "$@"; echo "$1: code $?, left: $(ls -A | tr '\n' ' ')"; }
    try split "$model" out --max-tensors 9
    try merge "$shard" -o out.gguf --force --delete-input
    try merge "$piece" -o out.gguf --force --delete-input
    try swap "$model" out.gguf --force
    try reorder "$model" out.gguf --force
    try rm-tensor "$model" out.gguf --force output_norm.weight
    try graft "$model" out.gguf --force --from "$model" --keys general.name
    try extract "$model" token_embd.weight -o out.npy --force
    cat out.gguf out.npy
"#;

fn copies_on_a_full_disk_are_errors_and_leave_everything() {
    let (dir, data) = (folder(), folder());
    let path_of = |name: &str| data.path().join(name);
    let (model, shards) = (path_of("model.gguf"), path_of("s"));
    gguf(["convert", text(&glossary()), "-o", text(&model), "-q"]).exits(0);
    gguf(["split", text(&model), text(&shards), "--max-tensors", "9", "-q"]).exits(0);
    let bytes = std::fs::read(&model).unwrap();
    for (i, piece) in bytes.chunks(bytes.len() / 2 + 1).enumerate() {
        std::fs::write(path_of(&format!("m.gguf.part{}of2", i + 1)), piece).unwrap();
    }
    let before = names(data.path());
    let mut command = disk::script(dir.path(), COPY);
    command.arg(path()).arg(&model).arg(path_of("s-00001-of-00004.gguf")).arg(path_of("m.gguf.part1of2"));
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let mut lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.split_off(lines.len() - 2), ["old", "old"], "{out}");
    assert_eq!(lines.len(), 8, "{out}");
    assert!(lines.iter().all(|line| line.ends_with(": code 2, left: out.gguf out.npy ")), "{out}\n{err}");
    assert_eq!(err.matches(": no space left on the disk at ").count(), 8, "{err}");
    assert_eq!(names(data.path()), before);
}

gguf_test::tests! {
    [SmallDisk] a_full_disk_is_an_error_and_leaves_nothing, a_dry_run_on_a_full_disk_says_so, copies_on_a_full_disk_are_errors_and_leave_everything;
}
