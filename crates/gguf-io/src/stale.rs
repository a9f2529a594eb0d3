//! Temporary files, and the removal of those left by killed processes.
//!
//! A temporary file is locked while its process works on it. The lock ends with the process in any case, so an unlocked file is abandoned.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use crate::disk::folder;
use crate::lock::{is_still, open_present};

/// Number of random characters in the name of a temporary file: enough to avoid confusion with other files.
pub(crate) const RANDOM: usize = 12;

/// The suffix of temporary files.
pub(crate) const SUFFIX: &str = ".partial";

/// The maximum number of names to examine in a directory.
const MAX_NAMES: usize = 100_000;

/// Creates a temporary file and locks it.
///
/// # Errors
/// If the system cannot create the file; [`io::ErrorKind::AlreadyExists`] if another name is needed.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o666);
    let file = options.open(path)?;
    // A process that removes leftovers may have found the file first, and locks it until it has removed it. If files cannot be locked, no
    // process treats one as abandoned.
    let is_locked = file.lock().is_ok();
    match is_still(&file, path) || !is_locked {
        true => Ok(file),
        false => Err(io::ErrorKind::AlreadyExists.into()),
    }
}

/// The prefix of temporary names for a path: long enough to recognize the name, and short enough for file systems.
pub(crate) fn prefix(path: &Path) -> Option<String> {
    Some(format!(".{}.", path.file_name()?.to_string_lossy().chars().take(48).collect::<String>()))
}

/// Removes the temporary files for a path whose processes have ended. Failures are ignored.
pub(crate) fn remove(path: &Path) {
    let (Ok(names), Some(prefix)) = (fs::read_dir(folder(path)), prefix(path)) else { return };
    for entry in names.take(MAX_NAMES).flatten() {
        if entry.file_name().to_str().is_some_and(|name| is_temporary(name, &prefix)) {
            let path = entry.path();
            let Ok(file) = open_present(&path, OpenOptions::new().read(true)) else { continue };
            if file.try_lock().is_ok() && is_still(&file, &path) {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

/// Whether a name is that of a temporary file.
fn is_temporary(name: &str, prefix: &str) -> bool {
    let random = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(SUFFIX));
    random.is_some_and(|random| random.len() == RANDOM && random.bytes().all(|b| b.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Output;

    #[test]
    fn names_of_temporary_files() {
        for (name, is) in [
            (".m.gguf.abcdefABCDEF.partial", true),
            (".m.gguf.abcdef.partial", false),
            (".m.gguf.abcdefABCDE-.partial", false),
            (".m.gguf.partial", false),
            ("m.gguf.partial", false),
            (".m.gguf.abcdefABCDEF.partial.gguf", false),
            (".n.gguf.abcdefABCDEF.partial", false),
        ] {
            assert_eq!(is_temporary(name, ".m.gguf."), is, "{name}");
        }
    }

    #[test]
    fn only_what_nobody_works_on_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let names = || {
            let names = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = names.collect();
            names.sort();
            names
        };
        let out = dir.path().join("m.gguf");
        // A killed process leaves a file without a lock.
        fs::write(dir.path().join(".m.gguf.abcdefABCDEF.partial"), "left over").unwrap();
        let others = [".m.gguf.backup.partial", ".n.gguf.abcdefABCDEF.partial"];
        others.iter().for_each(|name| fs::write(dir.path().join(name), "another").unwrap());
        let first = Output::create(&out, false).unwrap();
        let mine = names().into_iter().find(|name| !others.contains(&name.as_str())).unwrap();
        assert_eq!(names().len(), 3, "{:?}", names());
        // A file in use is kept.
        let second = Output::create(&out, false).unwrap();
        assert!(names().contains(&mine) && names().len() == 4, "{:?}", names());
        first.commit().unwrap();
        drop(second);
        assert_eq!(names(), [others[0], others[1], "m.gguf"]);
    }

    /// Whoever looks for leftovers also finds files that others are about to lock.
    #[cfg(unix)]
    #[test]
    fn files_that_are_created_at_once_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("m.gguf");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (dir, out) = (dir.path(), &out);
                scope.spawn(move || {
                    for round in 0..5000 {
                        let path = dir.join(format!(".m.gguf.{thread:06}{round:06}.partial"));
                        let Ok(file) = create(&path) else { continue };
                        remove(out);
                        assert!(is_still(&file, &path));
                        fs::remove_file(&path).unwrap();
                    }
                });
            }
        });
    }
}
