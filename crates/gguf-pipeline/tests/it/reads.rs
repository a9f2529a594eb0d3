//! The announced reads of a run are those that it makes.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use gguf_format::{GgmlType, Head, TensorInfo};
use gguf_io::{Model, ReadAt, Writer};
use gguf_pipeline::{Draft, MemorySink, Plan};

use crate::common::{Weights, threads, typed, weighted};

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
    plan.run_to(&mut MemorySink::new(), &threads(1), &()).unwrap();
    let made = log.lock().unwrap();
    assert_eq!(announced, *made);
    made.len()
}

#[test]
fn a_run_announces_its_reads() {
    // A row of several parts, a matrix of several chunks, and a tensor that is copied.
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("llama.block_count", 1u32);
    head.tensors.push(TensorInfo::new("blk.0.ffn_down.weight", [3 << 20, 2], GgmlType::F16));
    head.tensors.push(TensorInfo::new("blk.0.ffn_up.weight", [4096, 700], GgmlType::F16));
    head.tensors.push(TensorInfo::new("output_norm.weight", [4096], GgmlType::F32));
    let data = head.tensors.iter().map(|tensor| vec![0u8; tensor.n_bytes().unwrap() as usize]);
    let bytes = Writer::write(Vec::new(), &head, data).unwrap();

    let log = Log::default();
    let open = || {
        let source = Recording { name: "model".into(), bytes: bytes.clone(), log: Arc::clone(&log) };
        Draft::copy_of(Model::from_source(source, "model").unwrap()).unwrap()
    };
    let mut counts = Vec::new();
    for ty in [GgmlType::F16, GgmlType::Q4_0, GgmlType::Q4_K, GgmlType::IQ4_XS, GgmlType::BF16] {
        counts.push(check(&typed(open(), ty).lay_out().unwrap(), &log));
    }
    assert_eq!(counts, [6, 9, 9, 9, 9]);

    // With weights, Q4_0 depends on whole rows, and reads those that are divided twice.
    let draft = weighted(typed(open(), GgmlType::Q4_0), Arc::new(Weights(vec![1.0])));
    assert_eq!(check(&draft.lay_out().unwrap(), &log), 9 + 2 * 3);
}
