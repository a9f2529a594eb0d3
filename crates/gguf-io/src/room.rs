//! Room on disks.

use crate::{Error, Output};

/// Checks that the disks have room for all these files, given with the lengths that they will have. What a file occupies already
/// counts. Disks that do not tell, and systems other than Linux, pass.
///
/// # Errors
/// [`Error::NoRoom`] for the first disk that has not enough, and [`Error::Io`].
pub fn check_room<'a>(files: impl Iterator<Item = (&'a Output, u64)>) -> Result<(), Error> {
    linux::check(files)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};

    use crate::{Error, Output};

    /// What is to be written to a disk.
    struct Disk<'a> {
        first: &'a Output,
        needed: u64,
        free: u64,
    }

    pub(super) fn check<'a>(files: impl Iterator<Item = (&'a Output, u64)>) -> Result<(), Error> {
        let mut disks: BTreeMap<u64, Disk<'_>> = BTreeMap::new();
        for (output, bytes) in files {
            let there = output.file().metadata().map_err(output.io("look at"))?;
            let Ok(disk) = rustix::fs::fstatvfs(output.file()) else { continue };
            // File systems without blocks do not say how much they hold.
            if disk.f_blocks == 0 {
                continue;
            }
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let disk = disks.entry(there.dev()).or_insert(Disk { first: output, needed: 0, free });
            disk.needed = disk.needed.saturating_add(bytes.saturating_sub(there.blocks().saturating_mul(512)));
        }
        match disks.values().find(|disk| disk.needed > disk.free) {
            Some(&Disk { first, needed, free }) => {
                Err(Error::NoRoom { path: first.path().to_owned(), disk: mount_of(first.path()), needed, free })
            }
            None => Ok(()),
        }
    }

    /// Where the disk of a new file is mounted: the last folder on the way up that is on it.
    fn mount_of(path: &Path) -> PathBuf {
        let folder = crate::output::folder(path);
        let mut mount = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let device = |path: &Path| fs::metadata(path).map(|there| there.dev()).ok();
        let disk = device(&mount);
        while let Some(parent) = mount.parent().filter(|parent| device(parent) == disk) {
            mount = parent.to_owned();
        }
        mount
    }
}

#[cfg(not(target_os = "linux"))]
mod linux {
    pub(super) fn check<'a>(_: impl Iterator<Item = (&'a crate::Output, u64)>) -> Result<(), crate::Error> {
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_disk_are_added_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        let outputs = ["a", "b", "c"].map(|name| Output::create(path(name), false).unwrap());
        let disk = rustix::fs::fstatvfs(outputs[0].file()).unwrap();
        let free = disk.f_bavail * disk.f_frsize;
        let each = |bytes: u64| check_room(outputs.iter().map(move |output| (output, bytes)));
        each(free / 8).unwrap();
        match each(free / 2).unwrap_err() {
            Error::NoRoom { path: of, disk, needed, free } => {
                assert_eq!(of, path("a"));
                assert!(folder.path().canonicalize().unwrap().starts_with(disk));
                assert!(needed > free);
            }
            other => panic!("{other}"),
        }
        each(u64::MAX).unwrap_err();
    }
}
