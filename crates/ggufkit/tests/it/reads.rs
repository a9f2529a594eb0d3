//! The announced reads of a run are those that it makes.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ggufkit::hf::{self, Folder, FolderFile, OutType};
use ggufkit::{MemorySink, Plan, ReadAt, RunOptions};

type Log = Arc<Mutex<Vec<(PathBuf, Range<u64>)>>>;

/// A source that records its reads.
#[derive(Debug)]
struct Recording {
    name: PathBuf,
    bytes: Vec<u8>,
    log: Log,
}

impl ReadAt for Recording {
    fn size(&self) -> io::Result<u64> {
        self.bytes.size()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.log.lock().unwrap().push((self.name.clone(), offset..offset + buf.len() as u64));
        self.bytes.read_exact_at(offset, buf)
    }
}

/// Runs a plan with one thread; returns the number of its reads, which are those that it announced.
fn check(plan: &Plan, log: &Log) -> usize {
    log.lock().unwrap().clear();
    let announced: Vec<_> = plan.reads().map(|read| read.map(|read| (read.path, read.range)).unwrap()).collect();
    assert_eq!(*log.lock().unwrap(), [], "announcing reads nothing");
    plan.run_to(&mut MemorySink::new(), &RunOptions::default().threads(1.try_into().ok()), &()).unwrap();
    let made = log.lock().unwrap();
    assert_eq!(announced, *made);
    made.len()
}

/// The files of a folder, recorded.
#[derive(Debug)]
struct RecordedFolder {
    dir: PathBuf,
    log: Log,
}

impl Folder for RecordedFolder {
    fn path(&self) -> &Path {
        &self.dir
    }

    fn names(&self, within: &str) -> io::Result<Vec<String>> {
        self.dir.names(within)
    }

    fn open(&self, name: &str) -> Result<Option<FolderFile>, hf::FolderError> {
        let (name, log) = (self.dir.join(name), Arc::clone(&self.log));
        let file = std::fs::read(&name).ok().map(|bytes| Recording { name, bytes, log });
        Ok(file.map(FolderFile::from_source))
    }
}

#[test]
fn a_conversion_announces_its_reads() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/glossary");
    let log = Log::default();
    let folder = RecordedFolder { dir, log: Arc::clone(&log) };
    for ty in [OutType::F32, OutType::Q8_0, OutType::Lossless] {
        let conversion = hf::plan_folder(&folder, &hf::Options::default().ty(ty)).unwrap();
        assert!(check(&conversion.plan, &log) >= conversion.plan.tensors().len());
    }
}
