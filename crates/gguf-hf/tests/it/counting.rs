//! A folder in memory that counts how often its files are opened and how many bytes are read.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gguf_hf::{Folder, FolderError, FolderFile};
use gguf_io::ReadAt;

/// The counts of each file, by name: how often it was opened, and the number of bytes that were read.
type Counts = Arc<Mutex<BTreeMap<String, (usize, u64)>>>;

/// The folder.
#[derive(Debug, Clone)]
pub struct Counting {
    path: PathBuf,
    files: BTreeMap<String, Arc<[u8]>>,
    counts: Counts,
}

impl Counting {
    /// A folder with all files of one on the disk.
    pub fn of(dir: &Path) -> Counting {
        let mut files = BTreeMap::new();
        add(&mut files, dir, "");
        Counting { path: dir.to_owned(), files, counts: Counts::default() }
    }

    /// The files that were opened more than once, or of which more bytes were read than they have.
    pub fn repeated(&self) -> Vec<String> {
        let counts = self.counts.lock().unwrap();
        let len = |name: &str| self.files.get(name).map_or(0, |bytes| bytes.len() as u64);
        let is_repeated = |name: &str, (n_opened, n_bytes): (usize, u64)| n_opened > 1 || n_bytes > len(name);
        let repeated = counts.iter().filter(|(name, counts)| is_repeated(name, **counts));
        repeated.map(|(name, (n, bytes))| format!("{name}: opened {n} times, {bytes} of {} bytes", len(name))).collect()
    }

    /// The names of the files that were read.
    #[allow(dead_code, reason = "for one of the programs of tests")]
    pub fn read(&self) -> Vec<String> {
        let counts = self.counts.lock().unwrap();
        counts.iter().filter(|(_, (_, n_bytes))| *n_bytes > 0).map(|(name, _)| name.clone()).collect()
    }
}

fn add(files: &mut BTreeMap<String, Arc<[u8]>>, dir: &Path, prefix: &str) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        match entry.path().is_dir() {
            true => add(files, &entry.path(), &format!("{name}/")),
            false => drop(files.insert(name, fs::read(entry.path()).unwrap().into())),
        }
    }
}

impl Folder for Counting {
    fn path(&self) -> &Path {
        &self.path
    }

    fn names(&self, within: &str) -> io::Result<Vec<String>> {
        let prefix = if within.is_empty() { String::new() } else { format!("{within}/") };
        let inside = self.files.keys().filter_map(|name| name.strip_prefix(&prefix));
        Ok(inside.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    fn open(&self, name: &str) -> Result<Option<FolderFile>, FolderError> {
        self.counts.lock().unwrap().entry(name.to_owned()).or_default().0 += 1;
        let file = |bytes: &Arc<[u8]>| Counted {
            name: name.to_owned(),
            bytes: Arc::clone(bytes),
            counts: Arc::clone(&self.counts),
        };
        Ok(self.files.get(name).map(|bytes| FolderFile::from_source(file(bytes))))
    }
}

#[derive(Debug)]
struct Counted {
    name: String,
    bytes: Arc<[u8]>,
    counts: Counts,
}

impl ReadAt for Counted {
    fn size(&self) -> io::Result<u64> {
        self.bytes.size()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.counts.lock().unwrap().entry(self.name.clone()).or_default().1 += buf.len() as u64;
        self.bytes.read_exact_at(offset, buf)
    }
}
