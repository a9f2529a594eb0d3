//! Small file systems, in a mount namespace that ends with the command: one of a megabyte in memory, one of ext4 in a file, which can
//! insert blocks, one of Btrfs in a file, which can share data, and one of XFS, which can do both.

use std::path::Path;
use std::process::Command;

/// Ways to create a mount namespace: as root, or in a user namespace.
const WAYS: [&[&str]; 2] = [&["--mount"], &["--mount", "--map-root-user"]];

/// Mounts the file system in memory.
const MEMORY: &str = "mount -t tmpfs -o size=1m tmpfs \"$0\"";

/// Creates and mounts the one of ext4 in a file beside the directory.
const EXT4: &str = "truncate -s 16M \"$0.img\" && PATH=$PATH:/sbin:/usr/sbin mkfs.ext4 -q -m 0 -b 1024 \"$0.img\" && \
                    mount -o loop \"$0.img\" \"$0\"";

/// Creates and mounts the one of Btrfs.
const BTRFS: &str = "truncate -s 256M \"$0.img\" && PATH=$PATH:/sbin:/usr/sbin mkfs.btrfs -q \"$0.img\" >/dev/null && \
                     mount -o loop \"$0.img\" \"$0\"";

/// Creates and mounts the one of XFS; smaller ones do not exist.
const XFS: &str = "truncate -s 320M \"$0.img\" && PATH=$PATH:/sbin:/usr/sbin mkfs.xfs -q \"$0.img\" \
    && mount -o loop \"$0.img\" \"$0\"";

fn script_by(way: &[&str], mount: &str, at: &Path, script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(way).args(["sh", "-c", &format!("{mount} && {{\n{script}\n}}")]).arg(at);
    command
}

fn way(mount: &str) -> Option<&'static [&'static str]> {
    let dir = tempfile::tempdir().ok()?;
    let at = dir.path().join("mounted");
    std::fs::create_dir(&at).ok()?;
    let works = |way: &&[&str]| script_by(way, mount, &at, "true").output().is_ok_and(|output| output.status.success());
    WAYS.into_iter().find(works)
}

/// Whether the file system in memory is available.
pub fn is_possible() -> bool {
    way(MEMORY).is_some()
}

/// Whether the one of ext4 is available.
pub fn is_ext4_possible() -> bool {
    way(EXT4).is_some()
}

/// Whether the one of Btrfs is available.
pub fn is_btrfs_possible() -> bool {
    way(BTRFS).is_some()
}

/// Whether the one of XFS is available.
pub fn is_xfs_possible() -> bool {
    way(XFS).is_some()
}

/// A shell that runs a script with the file system in memory mounted at the directory `at`, which is `$0`. Additional arguments are `$1`
/// and so on.
pub fn script(at: &Path, script: &str) -> Command {
    script_by(way(MEMORY).expect("the right to mount"), MEMORY, at, script)
}

/// As [`script`], with the file system of ext4.
pub fn ext4_script(at: &Path, script: &str) -> Command {
    script_by(way(EXT4).expect("the right to mount, and mkfs.ext4"), EXT4, at, script)
}

/// As [`script`], with the file system of Btrfs.
pub fn btrfs_script(at: &Path, script: &str) -> Command {
    script_by(way(BTRFS).expect("the right to mount, and mkfs.btrfs"), BTRFS, at, script)
}

/// As [`script`], with the file system of XFS.
pub fn xfs_script(at: &Path, script: &str) -> Command {
    script_by(way(XFS).expect("the right to mount, and mkfs.xfs"), XFS, at, script)
}

/// Whether system calls of a program can be recorded.
pub fn can_trace() -> bool {
    let traced = Command::new("strace").args(["-f", "-qq", "-e", "trace=fsync", "true"]).output();
    traced.is_ok_and(|output| output.status.success())
}
