//! Editing on a full or read-only disk: the file is unchanged, and no other files are left. Requires the permission to mount a small file
//! system, as root or in a user namespace; otherwise the tests are ignored.

use gguf_test::disk;
use gguf_test::files::{folder, glossary, small};
use gguf_test::program::path;

/// Fills the small disk and edits a file on it, in every way; lists the remaining files.
const FULL: &str = r#"
    set -u; gguf=$1; model=$2; cd "$0"
    cp "$model" m.gguf; cp "$model" same.gguf; cat /dev/zero >fill 2>/dev/null
    for value in Other "$(head -c 9000 /dev/zero | tr '\0' x)"; do
        "$gguf" set m.gguf general.name="$value"; echo "code $?, left: $(echo *)"
        cmp m.gguf same.gguf && echo same
    done
    "$gguf" set m.gguf general.name=Other --rewrite; echo "code $?, left: $(echo *)"
    "$gguf" set m.gguf general.name=Other --output out.gguf; echo "code $?, left: $(echo *)"
    cmp m.gguf same.gguf && echo same
"#;

/// The same on a read-only disk, including with a journal to complete.
const READ_ONLY: &str = r#"
    set -u; gguf=$1; model=$2; cd "$0"
    cp "$model" m.gguf; printf 'GGUF edit' >m.gguf.edit; cp "$model" n.gguf
    mount -o remount,ro "$0" && cd "$0"
    "$gguf" get n.gguf general.name; echo "code $?"
    "$gguf" set n.gguf general.name=Other; echo "code $?"
    "$gguf" get m.gguf general.name; echo "code $?"
"#;

fn a_full_disk_leaves_the_file_as_it_was() {
    let dir = folder();
    let model = folder();
    let model = small(model.path(), "m.gguf");
    let output = disk::script(dir.path(), FULL).arg(path()).arg(&model).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let left = "code 2, left: fill m.gguf same.gguf\n";
    assert_eq!(out, format!("{left}same\n{left}same\n{left}{left}same\n"), "{err}");
    let is_about_room =
        |line: &&str| line.contains("No space left on device") || line.contains("no space left on the disk at");
    assert_eq!(err.lines().filter(is_about_room).count(), 4, "{err}");
}

fn what_may_not_be_written_is_left_alone() {
    let dir = folder();
    let model = folder();
    let model = small(model.path(), "m.gguf");
    let output = disk::script(dir.path(), READ_ONLY).arg(path()).arg(&model).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // An incomplete journal does not prevent reading.
    assert_eq!(out, "Small\ncode 0\ncode 2\nSmall\ncode 0\n", "{err}");
    assert!(err.contains("Read-only file system"), "{err}");
}

/// Inserts bytes with less and less free space: the journal does not fit, then the new head does not, then everything fits.
const ALMOST_FULL: &str = r#"
    set -u; gguf=$1; cd "$0"
    "$gguf" set "$2" --output base.gguf -q >/dev/null
    value=$(head -c 60000 /dev/zero | tr '\0' x)
    for free in $(seq 40 20 260); do
        cp base.gguf m.gguf; rm -f fill; sync
        available=$(df -k --output=avail . | tail -n 1)
        head -c $(((available - free) * 1024)) /dev/zero >fill; sync
        "$gguf" set m.gguf general.name="$value" --in-place -q >/dev/null 2>error
        case $? in
            0) test "$("$gguf" get m.gguf general.name)" = "$value" && what=done || what=wrong ;;
            *) cmp -s m.gguf base.gguf && what="same: $(sed 's/.*m.gguf\(.*\): No space.*/\1/' error)" || what=changed ;;
        esac
        echo "$what$(ls | grep edit)"
    done
"#;

fn a_disk_that_fills_up_leaves_the_old_head_or_the_new_one() {
    let dir = folder();
    let at = dir.path().join("mounted");
    std::fs::create_dir(&at).unwrap();
    let model = folder();
    let model = small(model.path(), "m.gguf");
    let output = disk::ext4_script(&at, ALMOST_FULL).arg(path()).arg(&model).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let mut found: Vec<&str> = out.lines().collect();
    found.dedup();
    assert_eq!(found, ["same: .edit: cannot write", "same: : cannot edit in place", "done"], "{out}{err}");
}

/// Edits a file and copies it, and prints after each whether the free space decreased by the size of the data.
const SHARED: &str = r#"
    set -u; gguf=$1; cd "$0"
    used() { sync; df -k --output=used . | tail -n 1; }
    "$gguf" convert "$2" -o m.gguf -q >/dev/null; before=$(used)
    try() { "$gguf" set m.gguf "$@" -q >/dev/null || echo failed; now=$(used); test $((now - before)) -lt 1000 && echo shared || echo whole; before=$now; }
    try general.name="$(head -c 9000 /dev/zero | tr '\0' x)"
    try general.name=Copy --output copy.gguf
    try general.name=Whole --rewrite
    "$gguf" get m.gguf general.name
    "$gguf" get copy.gguf general.name
    "$gguf" check --data m.gguf copy.gguf -q || echo broken
"#;

fn edits_and_copies_share_the_data() {
    let dir = folder();
    let at = dir.path().join("mounted");
    std::fs::create_dir(&at).unwrap();
    let output = disk::btrfs_script(&at, SHARED).arg(path()).arg(glossary()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(out.lines().collect::<Vec<_>>(), ["shared", "shared", "whole", "Whole", "Copy"], "{err}");
}

/// Edits a copy that shares all data with the model, in every way: the model stays the same, and the data is still shared, except after the
/// last edit. The second argument is the way of an edit that needs space.
const REFLINKED: &str = r#"
    set -u; gguf=$1; cd "$0"
    used() { sync; df -k --output=used . | tail -n 1; }
    "$gguf" convert "$2" -o m.gguf -q >/dev/null
    cp --reflink=always m.gguf copy.gguf; cp --reflink=never m.gguf same.gguf; before=$(used)
    try() {
        way=$("$gguf" set copy.gguf "$@" -q --json | sed -n 's/.*"way": "\(.*\)".*/\1/p'); now=$(used)
        test $((now - before)) -lt 1000 && space=shared || space=whole
        cmp m.gguf same.gguf && "$gguf" check --data copy.gguf -q >/dev/null && echo "$way $space"; before=$now
    }
    try general.name=Glossarz
    try general.name="$(head -c 9000 /dev/zero | tr '\0' x)"
    try general.name=Short
    try general.name=Whole --rewrite
    # A repair writes into shared data.
    cp --reflink=always m.gguf damaged.gguf
    printf x | dd of=damaged.gguf bs=1 seek=3000000 conv=notrunc status=none
    cp --reflink=always damaged.gguf backup.gguf; cp --reflink=never damaged.gguf kept.gguf
    "$gguf" repair damaged.gguf --from m.gguf -q >/dev/null && cmp damaged.gguf m.gguf && cmp backup.gguf kept.gguf && cmp m.gguf same.gguf && echo repaired
"#;

fn reflinked(script: fn(&std::path::Path, &str) -> std::process::Command, way: &str) {
    let dir = folder();
    let at = dir.path().join("mounted");
    std::fs::create_dir(&at).unwrap();
    let output = script(&at, REFLINKED).arg(path()).arg(glossary()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let grown = format!("{way} shared");
    assert_eq!(
        out.lines().collect::<Vec<_>>(),
        ["room shared", &grown, "room shared", "copy whole", "repaired"],
        "{err}"
    );
}

fn edits_of_a_copy_on_btrfs_leave_the_model() {
    reflinked(disk::btrfs_script, "share");
}

fn edits_of_a_copy_on_xfs_leave_the_model() {
    reflinked(disk::xfs_script, "insert");
}

gguf_test::tests! {
    [SmallBtrfs] edits_and_copies_share_the_data,
        edits_of_a_copy_on_btrfs_leave_the_model;
    [SmallXfs] edits_of_a_copy_on_xfs_leave_the_model;
    [SmallDisk] a_full_disk_leaves_the_file_as_it_was,
        what_may_not_be_written_is_left_alone;
    [SmallExt4] a_disk_that_fills_up_leaves_the_old_head_or_the_new_one;
}
