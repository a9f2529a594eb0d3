//! Free space on disks.

use std::path::{Path, PathBuf};

use crate::{Error, Output};

/// The free space of a disk, and how much of it files need.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskSpace {
    /// The first of the files.
    pub path: PathBuf,
    /// Where the disk is mounted.
    pub disk: PathBuf,
    /// Bytes that the files take.
    pub needed: u64,
    /// Bytes that are free.
    pub free: u64,
}

impl DiskSpace {
    /// Checks that the space suffices.
    ///
    /// # Errors
    /// [`Error::NoDiskSpace`].
    pub fn check(&self) -> Result<(), Error> {
        if self.needed <= self.free {
            return Ok(());
        }
        let DiskSpace { path, disk, needed, free } = self.clone();
        Err(Error::NoDiskSpace { path, disk, needed, free })
    }
}

/// The free space of the disks for new files of these lengths, one entry per disk. Directories that do not exist, disks that do not report
/// free space, and systems other than Linux, have no entry.
pub fn disk_space<'a>(files: impl Iterator<Item = (&'a Path, u64)>) -> Vec<DiskSpace> {
    linux::disk_space(files)
}

/// Checks that the disks have enough space for all these files, given with their final lengths. Space already allocated to a file is
/// included. Disks that do not report free space, and systems other than Linux, pass.
///
/// # Errors
/// [`Error::NoDiskSpace`] for the first disk with insufficient space, and [`Error::Io`].
pub fn check_disk_space<'a>(files: impl Iterator<Item = (&'a Output, u64)>) -> Result<(), Error> {
    linux::check(files)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};

    use super::DiskSpace;
    use crate::{Error, Output};

    /// The space needed by a file, or by all files on a disk.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(super) struct Need<T> {
        /// The file, or the first of several.
        pub(super) file: T,
        pub(super) needed: u64,
        /// Free space on the disk.
        pub(super) free: u64,
    }

    pub(super) fn check<'a>(files: impl Iterator<Item = (&'a Output, u64)>) -> Result<(), Error> {
        let mut needs = Vec::new();
        for (file, bytes) in files {
            let there = file.file().metadata().map_err(file.io("read its metadata"))?;
            let Some(free) = rustix::fs::fstatvfs(file.file()).ok().and_then(free) else { continue };
            let needed = bytes.saturating_sub(there.blocks().saturating_mul(512));
            needs.push((there.dev(), Need { file, needed, free }));
        }
        match shortage(needs) {
            Some(Need { file, needed, free }) => {
                Err(Error::NoDiskSpace { path: file.path().to_owned(), disk: mount_of(file.path()), needed, free })
            }
            None => Ok(()),
        }
    }

    pub(super) fn disk_space<'a>(files: impl Iterator<Item = (&'a Path, u64)>) -> Vec<DiskSpace> {
        let need = |(file, needed): (&'a Path, u64)| {
            let folder = nearest_folder(file);
            let free = free(rustix::fs::statvfs(folder).ok()?)?;
            Some((fs::metadata(folder).ok()?.dev(), Need { file, needed, free }))
        };
        let space = |Need { file, needed, free }: Need<&Path>| DiskSpace {
            path: file.to_owned(),
            disk: mount_of(file),
            needed,
            free,
        };
        by_disk(files.filter_map(need)).into_values().map(space).collect()
    }

    /// The folder of a file, or the nearest one above it that exists.
    fn nearest_folder(file: &Path) -> &Path {
        let mut folder = crate::disk::folder(file);
        while !folder.exists() {
            match crate::disk::folder(folder) {
                above if above == folder => break,
                above => folder = above,
            }
        }
        folder
    }

    /// The free bytes of a disk. File systems without blocks do not report their size.
    fn free(disk: rustix::fs::StatVfs) -> Option<u64> {
        (disk.f_blocks > 0).then(|| disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// The sum of the needs of the files on each disk, by the number of the disk.
    fn by_disk<T>(files: impl IntoIterator<Item = (u64, Need<T>)>) -> BTreeMap<u64, Need<T>> {
        let mut disks: BTreeMap<u64, Need<T>> = BTreeMap::new();
        for (disk, Need { file, needed, free }) in files {
            let all = disks.entry(disk).or_insert(Need { file, needed: 0, free });
            all.needed = all.needed.saturating_add(needed);
        }
        disks
    }

    /// The first disk, by its number, that has no room for all of its files.
    pub(super) fn shortage<T>(files: impl IntoIterator<Item = (u64, Need<T>)>) -> Option<Need<T>> {
        by_disk(files).into_values().find(|all| all.needed > all.free)
    }

    /// The mount point of the disk of a new file: the highest parent directory on the same disk.
    fn mount_of(path: &Path) -> PathBuf {
        let folder = nearest_folder(path);
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

    pub(super) fn disk_space<'a>(_: impl Iterator<Item = (&'a std::path::Path, u64)>) -> Vec<super::DiskSpace> {
        Vec::new()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn each_disk_needs_room_for_its_own_files() {
        use linux::{Need, shortage};
        // Disk number, bytes needed, bytes free; the first file without space, and the total need.
        type Files<'a> = &'a [(u64, u64, u64)];
        let cases: [(Files<'_>, Option<(usize, u64)>); 7] = [
            (&[], None),
            (&[(1, 60, 100), (2, 60, 100)], None),
            (&[(1, 60, 100), (1, 60, 100)], Some((0, 120))),
            (&[(1, 60, 100), (2, 50, 100), (2, 50, 100)], None),
            (&[(1, 60, 100), (2, 50, 100), (2, 51, 100)], Some((1, 101))),
            (&[(2, 101, 100), (1, 60, 1000)], Some((0, 101))),
            (&[(1, u64::MAX, 100), (1, 1, 100)], Some((0, u64::MAX))),
        ];
        for (files, expected) in cases {
            let need = |(file, &(disk, needed, free)): (usize, &(u64, u64, u64))| (disk, Need { file, needed, free });
            let found = shortage(files.iter().enumerate().map(need));
            assert_eq!(found.map(|need| (need.file, need.needed)), expected, "{files:?}");
        }
    }

    #[test]
    fn files_of_one_disk_are_added_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        let outputs = ["a", "b", "c"].map(|name| Output::create(path(name), false).unwrap());
        let disk = rustix::fs::fstatvfs(outputs[0].file()).unwrap();
        let free = disk.f_bavail * disk.f_frsize;
        let each = |bytes: u64| check_disk_space(outputs.iter().map(move |output| (output, bytes)));
        each(free / 8).unwrap();
        match each(free / 2).unwrap_err() {
            Error::NoDiskSpace { path: of, disk, needed, free } => {
                assert_eq!(of, path("a"));
                assert!(folder.path().canonicalize().unwrap().starts_with(disk));
                assert!(needed > free);
            }
            other => panic!("{other}"),
        }
        each(u64::MAX).unwrap_err();
    }

    #[test]
    fn room_is_that_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        // The folders of an output are made later.
        let (a, b, made) = (folder.path().join("a"), folder.path().join("b"), folder.path().join("made/for/c"));
        let found = disk_space([(a.as_path(), 3), (b.as_path(), u64::MAX - 16), (made.as_path(), 7)].into_iter());
        let [room] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((room.path.as_path(), room.needed), (a.as_path(), u64::MAX - 6));
        assert!(room.free > 0 && folder.path().canonicalize().unwrap().starts_with(&room.disk));
        assert!(matches!(room.check(), Err(Error::NoDiskSpace { .. })));
        DiskSpace { needed: room.free, ..room.clone() }.check().unwrap();
    }
}
