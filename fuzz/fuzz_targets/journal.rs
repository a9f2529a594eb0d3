//! For any contents of a journal and a partial file, resumed work gives the bytes of uninterrupted work or an error. The first byte selects
//! whether the data is preceded by the valid first line of the journal, and the contents of the partial file.
#![no_main]

mod common;

use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::OnceLock;

use gguf_format::{GgmlType, Head, TensorInfo};
use gguf_io::Writer;
use gguf_pipeline::{Draft, Error, Event, Progress, RunOptions};
use libfuzzer_sys::fuzz_target;

/// A model to copy, and the files of an interrupted copy.
struct Job {
    input: PathBuf,
    out: PathBuf,
    expected: Vec<u8>,
    first_line: Vec<u8>,
    partial: Vec<u8>,
}

/// Cancels the work before its last chunk.
struct Stop;

impl Progress for Stop {
    fn event(&self, _: Event<'_>) {}

    fn is_cancelled(&self) -> bool {
        true
    }
}

impl Job {
    fn run(&self, progress: &dyn Progress) -> Result<(), Error> {
        let options = RunOptions::default().threads(NonZeroUsize::new(1)).resume(true);
        Draft::copy_of(&self.input).unwrap().lay_out()?.run(&self.out, &options, progress).map(|_| ())
    }

    fn side(&self, end: &str) -> PathBuf {
        PathBuf::from(format!("{}.{end}", self.out.display()))
    }

    fn new() -> Job {
        let (input, out) = (common::folder().join("in.gguf"), common::folder().join("out.gguf"));
        let mut head = Head::default();
        head.set("general.architecture", "llama");
        head.tensors = ["a", "b", "c"].map(|name| TensorInfo::new(name, [8], GgmlType::F32)).to_vec();
        let data = (0u8..3).map(|i| [i + 1; 32]);
        fs::write(&input, Writer::write(Vec::new(), &head, data).unwrap()).unwrap();
        let mut job = Job { input, out, expected: Vec::new(), first_line: Vec::new(), partial: Vec::new() };
        job.run(&()).unwrap();
        job.expected = fs::read(&job.out).unwrap();
        fs::remove_file(&job.out).unwrap();
        assert!(matches!(job.run(&Stop), Err(Error::Kept { .. })));
        let journal = fs::read(job.side("journal")).unwrap();
        let end = journal.iter().position(|&b| b == b'\n').unwrap();
        job.first_line = journal[..=end].to_vec();
        job.partial = fs::read(job.side("partial")).unwrap();
        job
    }
}

fuzz_target!(|data: &[u8]| {
    static JOB: OnceLock<Job> = OnceLock::new();
    let job = JOB.get_or_init(Job::new);
    let [how, data @ ..] = data else { return };
    for end in ["journal", "partial"] {
        let _ = fs::remove_file(job.side(end));
    }
    let _ = fs::remove_file(&job.out);
    let journal = match how & 3 {
        0 => data.to_vec(),
        // One byte of the first line is changed.
        1 => {
            let mut line = job.first_line.clone();
            let [at, to, rest @ ..] = data else { return };
            let at = usize::from(*at) % line.len();
            line[at] ^= to;
            [&line[..], rest].concat()
        }
        _ => [&job.first_line[..], data].concat(),
    };
    fs::write(job.side("journal"), journal).unwrap();
    match how >> 2 & 3 {
        0 => {}
        1 => fs::write(job.side("partial"), &job.partial).unwrap(),
        2 => fs::write(job.side("partial"), &job.expected).unwrap(),
        _ => fs::write(job.side("partial"), data).unwrap(),
    }
    match job.run(&()) {
        Ok(()) => {
            assert!(fs::read(&job.out).unwrap() == job.expected, "other bytes");
            assert!(!job.side("journal").exists() && !job.side("partial").exists());
        }
        Err(e) => assert!(matches!(e, Error::NotOurs { .. } | Error::OtherPlan { .. }), "{e}"),
    }
});
