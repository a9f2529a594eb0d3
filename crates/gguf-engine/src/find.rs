//! Where the library is looked for: the folder that the user names; otherwise where the system's loader looks, then the usual folders of
//! package managers. Never the current folder, nor that of a model.

use std::path::{Path, PathBuf};

use crate::{Error, ErrorKind};

/// The file name of the library.
pub const FILE: &str = match () {
    () if cfg!(windows) => "llama.dll",
    () if cfg!(target_os = "macos") => "libllama.dylib",
    () => "libllama.so",
};

/// Folders in which package managers put libraries that the loader may not know of.
const USUAL: &[&str] = match () {
    () if cfg!(windows) => &["C:\\Program Files\\llama.cpp"],
    () if cfg!(target_os = "macos") => &["/opt/homebrew/lib", "/usr/local/lib", "/opt/local/lib"],
    () => &[
        "/usr/local/lib",
        "/usr/local/lib64",
        "/usr/lib/llama.cpp",
        "/home/linuxbrew/.linuxbrew/lib",
        "/opt/llama.cpp/lib",
    ],
};

/// The subfolders that are searched in the folder that the user names: those of a build, and of an installation.
const INSIDE: &[&str] = &["", "lib", "lib64", "bin", "build/bin"];

/// The folders that a folder stands for.
pub fn folders_in(folder: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    INSIDE.iter().map(move |inner| if inner.is_empty() { folder.to_owned() } else { folder.join(inner) })
}

/// The library in a folder: by its plain name, or else the last one by name that has a version in its name.
pub fn in_folder(folder: &Path) -> Option<PathBuf> {
    let plain = folder.join(FILE);
    if plain.exists() {
        return Some(plain);
    }
    let (stem, extension) = FILE.rsplit_once('.')?;
    let is_version = |text: &str| {
        let text = text.strip_prefix(['.', 'v']).unwrap_or(text);
        let text = text.strip_prefix('v').unwrap_or(text);
        text.starts_with(|c: char| c.is_ascii_digit())
    };
    let is_library = |name: &str| {
        let after = name.strip_prefix(FILE).is_some_and(is_version);
        let between = name.strip_prefix(stem).and_then(|rest| rest.strip_suffix(extension));
        after || between.is_some_and(is_version)
    };
    let entries = std::fs::read_dir(folder).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let name = names.filter(|name| is_library(name)).max()?;
    Some(folder.join(name))
}

/// Opens the library of a folder, or the first that is found, and returns it with its path. `load` opens a file, or what the loader
/// finds for a name.
///
/// # Errors
/// If no library is found, or it cannot be opened.
pub fn open<L: Opened, E: std::fmt::Display>(
    folder: Option<&Path>,
    load: impl Fn(&Path) -> Result<L, E>,
) -> Result<(Vec<L>, PathBuf), Error> {
    let cannot = |path: &Path, e: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Library, format!("{}: the library cannot be opened: {e}", path.display()))
    };
    let open_at = |path: PathBuf| {
        let mut libraries = vec![load(&path).map_err(|e| cannot(&path, &e))?];
        // On Windows, the functions of ggml are found only in its own libraries.
        if cfg!(windows) {
            let beside = path.parent().unwrap_or(Path::new(""));
            libraries.extend(["ggml.dll", "ggml-base.dll"].iter().filter_map(|name| load(&beside.join(name)).ok()));
        }
        Ok((libraries, path))
    };
    if let Some(folder) = folder {
        let found = folders_in(folder).find_map(|folder| in_folder(&folder));
        return open_at(found.ok_or_else(|| {
            let message = format!("{}: there is no {FILE} in this folder", folder.display());
            Error::new(ErrorKind::NotFound, message)
        })?);
    }
    // Windows' loader would search the current folder.
    if !cfg!(windows)
        && let Ok(library) = load(Path::new(FILE))
    {
        let path = library.path().unwrap_or_else(|| PathBuf::from(FILE));
        return Ok((vec![library], path));
    }
    match USUAL.iter().find_map(|folder| in_folder(Path::new(folder))) {
        Some(path) => open_at(path),
        None => Err(Error::new(
            ErrorKind::NotFound,
            format!("there is no {FILE} where the system looks for libraries, nor in {}", USUAL.join(", ")),
        )),
    }
}

/// An open library.
pub trait Opened {
    /// Its file, if the system tells.
    fn path(&self) -> Option<PathBuf>;
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl Opened for libloading::Library {
    #[cfg(unix)]
    fn path(&self) -> Option<PathBuf> {
        use std::ffi::{CStr, OsStr, c_void};
        use std::os::unix::ffi::OsStrExt;
        // SAFETY: only the address of the symbol is used. The system fills the structure, whose texts live as long as the library.
        unsafe {
            let symbol = self.get::<*const c_void>(b"llama_backend_init\0").ok()?;
            let mut info = std::mem::zeroed::<libc::Dl_info>();
            let address = symbol.try_as_raw_ptr()?;
            if libc::dladdr(address, &raw mut info) == 0 || info.dli_fname.is_null() {
                return None;
            }
            let name = CStr::from_ptr(info.dli_fname);
            Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
        }
    }

    #[cfg(not(unix))]
    fn path(&self) -> Option<PathBuf> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A library that is only a name.
    #[derive(Debug)]
    struct Name(PathBuf);

    impl Opened for Name {
        fn path(&self) -> Option<PathBuf> {
            Some(self.0.clone())
        }
    }

    #[cfg(target_os = "linux")]
    fn load(path: &Path) -> Result<Name, String> {
        match path.is_absolute() {
            true => Ok(Name(path.to_owned())),
            false => Err("not found".to_owned()),
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_named_folder_is_searched_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let found = |folder: &Path| open(Some(folder), load).map(|(_, path)| path);
        let e = found(dir.path()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotFound);
        assert!(e.message().ends_with("there is no libllama.so in this folder"), "{e}");
        std::fs::create_dir(dir.path().join("lib")).unwrap();
        for (name, is_one) in [
            ("libllama-common.so", false),
            ("libllama.so.txt", false),
            ("libllama.v0.5.0.so", true),
            ("libllama.so.0", true),
            ("libllama.so", true),
        ] {
            let file = dir.path().join("lib").join(name);
            std::fs::write(&file, "").unwrap();
            assert_eq!(found(dir.path()).is_ok_and(|path| path == file), is_one, "{name}");
            if name != "libllama.so" {
                std::fs::remove_file(file).unwrap();
            }
        }
        // Another folder is not searched, not even the current one.
        assert!(found(&dir.path().join("lib/nothing")).is_err());
    }

    #[test]
    fn the_loader_comes_before_the_usual_folders() {
        let system = |path: &Path| Ok::<_, String>(Name(Path::new("/system").join(path)));
        let found = open(None, system).map(|(_, path)| path);
        assert!(cfg!(windows) || found.unwrap() == Path::new("/system").join(FILE));
    }
}
