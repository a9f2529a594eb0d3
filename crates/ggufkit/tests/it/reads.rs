//! The announced reads of a run are those that it makes.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ggufkit::hf::{self, Folder, FolderFile, OutType};
use ggufkit::pipeline::{self, Importance};
use ggufkit::quantize::{self, mix::Target};
use ggufkit::{Draft, GgmlType, Head, MemorySink, Model, Plan, ReadAt, RunOptions, TensorInfo};

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

#[test]
fn a_quantization_announces_its_reads() {
    // A row of several parts, a matrix of several chunks, and a tensor that is copied.
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("llama.block_count", 1u32);
    head.tensors.push(TensorInfo::new("blk.0.ffn_down.weight", [3 << 20, 2], GgmlType::F16));
    head.tensors.push(TensorInfo::new("blk.0.ffn_up.weight", [4096, 700], GgmlType::F16));
    head.tensors.push(TensorInfo::new("output_norm.weight", [4096], GgmlType::F32));
    let data = head.tensors.iter().map(|tensor| vec![0u8; tensor.n_bytes().unwrap() as usize]);
    let bytes = ggufkit::Writer::write(Vec::new(), &head, data).unwrap();

    let log = Log::default();
    let open = || {
        let source = Recording { name: "model".into(), bytes: bytes.clone(), log: Arc::clone(&log) };
        Draft::copy_of_model(Model::from_source(source, "model").unwrap()).unwrap()
    };
    let mut counts = Vec::new();
    for ty in ["COPY", "Q4_0", "Q4_K_M", "IQ4_XS", "BF16"] {
        let planned = quantize::plan(open(), None, &Default::default(), &Target::parse(ty).unwrap()).unwrap();
        counts.push(check(&planned.plan, &log));
    }
    assert_eq!(counts, [6, 9, 9, 9, 9]);

    // With weights, Q4_0 depends on whole rows, and reads those that are divided twice.
    let planned = quantize::plan(open(), None, &Default::default(), &Target::parse("Q4_0").unwrap()).unwrap();
    let mut draft = planned.plan.into_draft();
    draft.importance = Some(Arc::new(Ones));
    draft
        .tensors
        .iter_mut()
        .for_each(|tensor| tensor.importance = Some(Box::new(pipeline::plan::Entry((*b"ones").into()))));
    assert_eq!(check(&draft.lay_out().unwrap(), &log), 9 + 2 * 3);
}

/// Equal weights.
#[derive(Debug)]
struct Ones;

impl Importance for Ones {
    fn weights(&self, _: &[u8], columns: Range<u64>) -> Result<Option<Vec<f32>>, pipeline::Error> {
        Ok(Some(columns.map(|_| 1.0).collect()))
    }
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
