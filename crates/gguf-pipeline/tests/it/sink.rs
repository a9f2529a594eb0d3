//! Runs to sinks that are not files.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use gguf_format::GgmlType;
use gguf_pipeline::{
    Draft, Error, Event, Kept, MemorySink, NewOutput, Piece, Plan, Progress, Sink, Stored, run_all, run_all_to,
};
use gguf_test::files::folder;

use crate::common::{matrices, threads, typed};

/// A copy, a copy in the other byte order, a quantized model, and one of two shards.
fn plans() -> Vec<Plan> {
    let dir = folder();
    let draft = Draft::copy_of(matrices(dir.path())).unwrap();
    let mut big = draft.clone();
    big.head.dialect.order = gguf_format::ByteOrder::Big;
    let mut shards = draft.clone();
    shards.is_split = true;
    let half = shards.tensors.len() / 2;
    shards.tensors.iter_mut().skip(half).for_each(|tensor| tensor.file = 1);
    let q8 = typed(draft.clone(), GgmlType::Q8_0).lay_out().unwrap();
    vec![draft.lay_out().unwrap(), big.lay_out().unwrap(), q8, shards.lay_out_as_shards().unwrap()]
}

#[test]
fn memory_holds_what_files_do() {
    let dir = folder();
    for n in [1, 3] {
        let plans = plans();
        let outs: Vec<_> = (0..plans.len()).map(|i| dir.path().join(format!("{n}-{i}"))).collect();
        let files: Vec<(&Plan, &Path)> = plans.iter().zip(&outs).map(|(plan, out)| (plan, out.as_path())).collect();
        let written = run_all(&files, &threads(n), &()).unwrap();
        let expected: Vec<Vec<u8>> =
            written.iter().flat_map(|summary| &summary.paths).map(|path| fs::read(path).unwrap()).collect();
        assert_eq!(expected.len(), 5);

        let mut sink = MemorySink::new();
        let all: Vec<&Plan> = plans.iter().collect();
        let summaries = run_all_to(&all, &mut sink, &threads(n).measure(true), &()).unwrap();
        assert!(summaries.iter().all(|summary| summary.paths.is_empty() && summary.report.is_some()));
        assert!(sink.into_outputs() == expected);

        let mut sink = MemorySink::new();
        plans[2].run_to(&mut sink, &threads(n), &()).unwrap();
        assert!(sink.into_outputs() == expected[2..3]);
    }
}

#[test]
fn unfinished_outputs_in_memory_are_none() {
    struct Stop(AtomicUsize);
    impl Progress for Stop {
        fn event(&self, event: Event<'_>) {
            if let Event::Advanced { .. } = event {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        fn is_cancelled(&self) -> bool {
            self.0.load(Ordering::Relaxed) == 0
        }
    }
    let plan = &plans()[0];
    let mut sink = MemorySink::new();
    let result = plan.run_to(&mut sink, &threads(1), &Stop(AtomicUsize::new(2)));
    assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
    assert!(sink.into_outputs().is_empty());
    // A sink can be used again.
    let mut sink = MemorySink::new();
    plan.run_to(&mut sink, &threads(1), &Stop(AtomicUsize::new(1))).unwrap_err();
    plan.run_to(&mut sink, &threads(1), &()).unwrap();
    assert_eq!(sink.into_outputs().len(), 1);
    assert!(MemorySink::new().into_outputs().is_empty());
}

/// The calls of a run, of which one fails.
#[derive(Default)]
struct Calls {
    fails: &'static str,
    seen: Mutex<Vec<String>>,
    kept: Option<Kept>,
    copies: bool,
}

impl Calls {
    fn call(&self, name: &'static str) -> Result<(), Error> {
        let mut seen = self.seen.lock().unwrap();
        if seen.last().is_none_or(|last| last != name) {
            seen.push(name.to_owned());
        }
        match name == self.fails {
            true => Err(Error::io(name, Path::new("nowhere"), io::ErrorKind::Other.into())),
            false => Ok(()),
        }
    }
}

impl Sink for Calls {
    fn create(&mut self, outputs: &[NewOutput<'_>], _: &dyn Progress) -> Result<(), Error> {
        let [output] = outputs else { panic!("{outputs:?}") };
        assert!(output.head().unwrap().len() as u64 <= output.n_bytes() && output.plan() == 0);
        assert!(!output.tensors().is_empty());
        self.call("create")
    }

    fn write_at(&self, output: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        assert!(output == 0 && offset > 0 && !bytes.is_empty());
        self.call("write")
    }

    fn flush(&self) -> Result<(), Error> {
        self.call("flush")
    }

    fn commit(&mut self, _: &dyn Progress) -> Result<(), Error> {
        self.call("commit")
    }

    fn abort(&mut self, why: Error) -> Error {
        self.call("abort").unwrap();
        Error::io("abort", Path::new("nowhere"), io::Error::other(why.to_string()))
    }

    fn kept(&self, piece: &Piece<'_>, _: &mut Vec<u8>) -> Result<Kept, Error> {
        assert!(piece.n_bytes <= piece.tensor.n_bytes() && piece.first + piece.n_elements <= piece.tensor.n_elements());
        Ok(self.kept.unwrap_or(Kept::Nothing))
    }

    fn copy(&self, piece: &Piece<'_>, from: &Stored<'_>, range: Range<u64>) -> Result<bool, Error> {
        assert_eq!(range.end - range.start, piece.n_bytes);
        assert!(range.end <= from.start + from.bytes);
        if self.copies {
            self.call("copy")?;
        }
        Ok(self.copies)
    }
}

#[test]
fn the_calls_of_a_run() {
    let plan = &plans()[0];
    let calls = |mut sink: Calls| {
        let result = plan.run_to(&mut sink, &threads(1), &());
        let said = result.err().map(|e| e.to_string());
        (sink.seen.into_inner().unwrap().join(" "), said)
    };
    let of = |fails| calls(Calls { fails, ..Calls::default() });
    assert_eq!(of(""), ("create write flush commit".to_owned(), None));
    let expected = |seen: &str, fails: &str| {
        let said = format!("nowhere: cannot {fails}: other error");
        let said = if seen.ends_with("abort") { format!("nowhere: cannot abort: {said}") } else { said };
        (seen.to_owned(), Some(said))
    };
    for (fails, seen) in [
        ("create", "create"),
        ("write", "create write abort"),
        ("flush", "create write flush abort"),
        ("commit", "create write flush commit abort"),
    ] {
        assert_eq!(of(fails), expected(seen, fails));
    }
    let whole = Calls { kept: Some(Kept::Intact { overflows: 3 }), ..Calls::default() };
    assert_eq!(calls(whole).0, "create flush commit");
    let copied = Calls { copies: true, ..Calls::default() };
    assert_eq!(calls(copied).0, "create copy flush commit");
    for kept in [Kept::Missing, Kept::Damaged] {
        assert_eq!(calls(Calls { kept: Some(kept), ..Calls::default() }).0, "create write flush commit");
    }
    let mut sink = Calls { kept: Some(Kept::Intact { overflows: 3 }), ..Calls::default() };
    let summary = plan.run_to(&mut sink, &threads(1), &()).unwrap();
    assert_eq!(summary.overflows.len(), plan.tensors().len());
    assert!(summary.overflows.iter().all(|overflow| overflow.values == 3));
}
