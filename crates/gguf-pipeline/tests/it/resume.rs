//! Resuming interrupted work: for any interruption and damage, the bytes are those of an uninterrupted run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use gguf_format::{GgmlType, Gguf, Head};
use gguf_io::Writer;
use gguf_pipeline::plan::Rounding;
use gguf_pipeline::{Draft, Error, Event, Overflow, Progress, ReadAhead, SourceRead, run_all};

use crate::common::{threads, typed, write_model};

/// Interrupts after a number of chunks; counts written and reused work.
#[derive(Default)]
struct Watch {
    until: Option<u64>,
    done: AtomicU64,
    kept_bytes: AtomicU64,
    damaged_bytes: AtomicU64,
    unusable: AtomicU64,
}

impl Progress for Watch {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Advanced { .. } => _ = self.done.fetch_add(1, Ordering::Relaxed),
            Event::Kept { bytes } => _ = self.kept_bytes.fetch_add(bytes, Ordering::Relaxed),
            Event::Damaged { bytes } => _ = self.damaged_bytes.fetch_add(bytes, Ordering::Relaxed),
            Event::Unusable => _ = self.unusable.fetch_add(1, Ordering::Relaxed),
            _ => {}
        }
    }

    fn is_cancelled(&self) -> bool {
        self.until.is_some_and(|until| self.done.load(Ordering::Relaxed) >= until)
    }
}

fn after(chunks: u64) -> Watch {
    Watch { until: Some(chunks), ..Watch::default() }
}

/// The number of chunks of [`model`]: the first tensor has two.
const CHUNKS: u64 = 6;

/// A model with a tensor of more than one chunk, and tensors with unaligned sizes.
fn model(dir: &Path) -> PathBuf {
    let shapes: [(&str, &[u64]); 5] = [
        ("output_norm.weight", &[1_100_000]),
        ("token_embd.weight", &[32, 70]),
        ("blk.0.attn_q.weight", &[32, 3]),
        ("blk.0.ffn_down.weight", &[64, 5]),
        ("blk.0.ffn_up.weight", &[32, 7]),
    ];
    let path = dir.join("in.gguf");
    write_model(&path, &shapes);
    path
}

/// A run with its options.
struct Job {
    ty: GgmlType,
    name: &'static str,
    keep_split: bool,
    threads: usize,
    force: bool,
    resume: bool,
}

fn options(ty: GgmlType, threads: usize) -> Job {
    Job { ty, threads, name: "", keep_split: false, force: false, resume: true }
}

fn quantize(input: &Path, out: &Path, job: &Job, progress: &dyn Progress) -> Result<(), Error> {
    let mut draft = typed(Draft::copy_of(input).unwrap(), job.ty);
    if !job.name.is_empty() {
        draft.head.set("general.name", job.name);
    }
    if job.keep_split {
        draft.is_split = true;
        draft.tensors.iter_mut().for_each(|tensor| tensor.file = tensor.place.file);
    }
    let run = threads(job.threads).force(job.force).resume(job.resume);
    draft.lay_out().unwrap().run(out, &run, progress).map(|_| ())
}

/// The model, the output, and the expected bytes.
struct Case {
    dir: tempfile::TempDir,
    input: PathBuf,
    out: PathBuf,
    expected: Vec<u8>,
}

impl Case {
    fn new() -> Case {
        let dir = tempfile::tempdir().unwrap();
        let input = model(dir.path());
        let out = dir.path().join("out.gguf");
        quantize(&input, &out, &Job { resume: false, ..options(GgmlType::Q8_0, 2) }, &()).unwrap();
        let expected = fs::read(&out).unwrap();
        fs::remove_file(&out).unwrap();
        Case { dir, input, out, expected }
    }

    fn partial(&self) -> PathBuf {
        self.dir.path().join("out.gguf.partial")
    }

    fn journal(&self) -> PathBuf {
        self.dir.path().join("out.gguf.journal")
    }

    /// Runs with one thread until a number of chunks is finished.
    #[track_caller]
    fn interrupt(&self, chunks: u64) -> Watch {
        let watch = after(chunks);
        let result = quantize(&self.input, &self.out, &options(GgmlType::Q8_0, 1), &watch);
        let Err(Error::Kept { why, partial, journal, n_others: 0 }) = result else { panic!("{result:?}") };
        assert!(matches!(*why, Error::Cancelled));
        assert_eq!((partial, journal), (self.partial(), self.journal()));
        assert!(self.partial().exists() && self.journal().exists() && !self.out.exists());
        watch
    }

    /// Completes the work; returns the number of reused bytes.
    #[track_caller]
    fn resume(&self, threads: usize) -> u64 {
        let watch = Watch::default();
        quantize(&self.input, &self.out, &options(GgmlType::Q8_0, threads), &watch).unwrap();
        self.is_whole();
        watch.kept_bytes.into_inner()
    }

    #[track_caller]
    fn is_whole(&self) {
        assert!(fs::read(&self.out).unwrap() == self.expected);
        fs::remove_file(&self.out).unwrap();
        assert_eq!(fs::read_dir(self.dir.path()).unwrap().count(), 1, "something is left");
    }
}

/// Several runs share a recipe that only some of them use: each file can be continued without it.
#[test]
fn files_that_are_only_protected_do_not_tie_a_run() {
    let case = Case::new();
    let run = |protect: &[PathBuf], progress: &dyn Progress| {
        let draft = typed(Draft::copy_of(&case.input).unwrap(), GgmlType::Q8_0);
        draft.lay_out().unwrap().run(&case.out, &threads(1).resume(true).protect(protect.to_vec()), progress)
    };
    let recipe = case.dir.path().join("recipe");
    fs::write(&recipe, "Q8_0").unwrap();
    assert!(run(&[recipe.canonicalize().unwrap()], &after(2)).is_err());
    fs::remove_file(&recipe).unwrap();
    let watch = Watch::default();
    run(&[], &watch).unwrap();
    case.is_whole();
    assert!(watch.kept_bytes.into_inner() > 0);
}

#[test]
fn interrupted_anywhere_and_resumed_the_bytes_are_the_same() {
    let case = Case::new();
    for chunks in 0..CHUNKS {
        case.interrupt(chunks);
        let kept = case.resume(1 + chunks as usize % 3);
        assert_eq!(kept > 0, chunks > 0, "after {chunks}");
    }
    // One chunk per run; finished chunks are not repeated.
    for _ in 1..CHUNKS {
        assert_eq!(case.interrupt(1).done.into_inner(), 1);
    }
    let watch = Watch::default();
    quantize(&case.input, &case.out, &options(GgmlType::Q8_0, 2), &watch).unwrap();
    assert_eq!(watch.done.into_inner(), 1);
    case.is_whole();

    // Lines after a truncated line are used.
    case.interrupt(2);
    let journal = fs::File::options().write(true).open(case.journal()).unwrap();
    journal.set_len(journal.metadata().unwrap().len() - 5).unwrap();
    assert_eq!(case.interrupt(1).done.into_inner(), 1);
    let watch = Watch::default();
    quantize(&case.input, &case.out, &options(GgmlType::Q8_0, 1), &watch).unwrap();
    assert_eq!(watch.done.into_inner(), CHUNKS - 2);
    case.is_whole();
}

#[test]
fn whatever_becomes_of_the_two_files_the_bytes_are_the_same() {
    let case = Case::new();
    case.interrupt(CHUNKS - 1);
    let (partial, journal) = (fs::read(case.partial()).unwrap(), fs::read(case.journal()).unwrap());
    let resumed = |partial: Option<&[u8]>, journal: &[u8]| {
        let _ = fs::remove_file(case.partial());
        if let Some(partial) = partial {
            fs::write(case.partial(), partial).unwrap();
        }
        fs::write(case.journal(), journal).unwrap();
        case.resume(2)
    };
    let all = resumed(Some(&partial), &journal);
    let with_first_line =
        |rest: &str| [&journal[..=journal.iter().position(|&b| b == b'\n').unwrap()], rest.as_bytes()].concat();

    // The journal is truncated, down to the start of its first line.
    let mut kept = all;
    for len in (20..journal.len()).rev().step_by(61) {
        let now = resumed(Some(&partial), &journal[..len]);
        assert!(now <= kept, "{len}");
        kept = now;
    }
    assert_eq!(kept, 0);
    // A line in the middle of the journal is truncated.
    assert!(resumed(Some(&partial), &with_first_line("1 0 3\n\0\0\0\n")) == 0);
    // A byte of the journal is changed. The names of files and the hashes of the plan are skipped.
    let records = with_first_line("").len();
    for at in (records..journal.len()).step_by(23) {
        let mut damaged = journal.clone();
        damaged[at] ^= 1;
        assert!(resumed(Some(&partial), &damaged) < all, "{at}");
    }
    // A byte of the data is changed: in every tensor, in the head, between tensors.
    let gguf = Gguf::parse(case.expected.as_slice()).unwrap();
    let ranges: Vec<_> = gguf.tensors().map(|t| gguf.tensor_range(&t).unwrap()).collect();
    let starts = ranges.iter().map(|range| range.start);
    let padding = ranges.iter().map(|range| range.end).filter(|&end| ranges.iter().all(|range| range.start != end));
    assert!(padding.clone().count() >= 3);
    let mut n_done_again = 0;
    for at in
        starts.chain(padding).map(|at| at as usize).chain([0, 30, gguf.data_offset() as usize - 1, partial.len() - 1])
    {
        let mut damaged = partial.clone();
        if let Some(byte) = damaged.get_mut(at) {
            *byte ^= 0x10;
        }
        n_done_again += u32::from(resumed(Some(&damaged), &journal) < all);
    }
    assert_eq!(n_done_again, 4, "a byte of a finished tensor was not noticed");
    // The data are too short, too long, or missing.
    assert!(resumed(Some(&partial[..partial.len() / 2]), &journal) < all);
    assert_eq!(resumed(Some(&[&partial[..], &[7; 1000]].concat()), &journal), all);
    assert_eq!(resumed(None, &journal), 0);
    // A recorded count of infinities is verified as well.
    let text = String::from_utf8(journal.clone()).unwrap();
    let counted = |line: &str| match line.rsplitn(3, ' ').collect::<Vec<_>>()[..] {
        [hash, "0", chunk] => format!("{chunk} 1 {hash}\n"),
        _ => format!("{line}\n"),
    };
    assert_eq!(resumed(Some(&partial), text.lines().map(counted).collect::<String>().as_bytes()), 0);
}

/// A changed byte in the first line is damage, not another plan, and the work starts over.
#[test]
fn a_damaged_first_line_is_told_as_damage() {
    let case = Case::new();
    case.interrupt(2);
    let (partial, journal) = (fs::read(case.partial()).unwrap(), fs::read(case.journal()).unwrap());
    let first_line = journal.iter().position(|&b| b == b'\n').unwrap();
    for at in (0..first_line).filter(|at| at % 7 == 0 || *at < 20) {
        let mut damaged = journal.clone();
        damaged[at] ^= 4;
        fs::write(case.partial(), &partial).unwrap();
        fs::write(case.journal(), &damaged).unwrap();
        let watch = Watch::default();
        quantize(&case.input, &case.out, &options(GgmlType::Q8_0, 2), &watch).unwrap_or_else(|e| panic!("{at}: {e}"));
        case.is_whole();
        let told = (watch.unusable.into_inner(), watch.kept_bytes.into_inner());
        assert_eq!(told, (1, 0), "byte {at}");
    }
}

#[test]
fn what_was_kept_of_other_work_is_not_gone_on_with() {
    let case = Case::new();
    let refused = |input: &Path, options: &Job, texts: &[&str]| {
        let before = (fs::read(case.partial()).unwrap(), fs::read(case.journal()).unwrap());
        let error = quantize(input, &case.out, options, &()).unwrap_err();
        assert!(!error.is_bad_input());
        for text in texts.iter().chain(&["out.gguf.partial", "out.gguf.journal"]) {
            assert!(error.to_string().contains(text), "no {text:?} in {error}");
        }
        assert!(before == (fs::read(case.partial()).unwrap(), fs::read(case.journal()).unwrap()));
        assert!(!case.out.exists());
    };
    case.interrupt(2);
    refused(&case.input, &options(GgmlType::Q5_1, 1), &["the tensors of the output differ"]);
    let named = |name| Job { name, ..options(GgmlType::Q8_0, 1) };
    refused(&case.input, &named("x"), &["the metadata differs"]);
    let copy = case.dir.path().join("copy.gguf");
    fs::copy(&case.input, &copy).unwrap();
    refused(
        &copy,
        &options(GgmlType::Q8_0, 1),
        &["in.gguf, which this run does not read", "it does not read ", "copy.gguf, which this run reads"],
    );
    fs::remove_file(&copy).unwrap();
    let input = fs::File::options().append(true).open(&case.input).unwrap();
    let was = input.metadata().unwrap().modified().unwrap();
    input.set_modified(was + std::time::Duration::from_secs(1)).unwrap();
    refused(&case.input, &options(GgmlType::Q8_0, 1), &["in.gguf has changed since"]);
    input.set_modified(was).unwrap();
    // With permission to overwrite, the other work is replaced completely.
    let mut garbage = fs::read(case.partial()).unwrap();
    garbage.fill(0xaa);
    fs::write(case.partial(), &garbage).unwrap();
    quantize(&case.input, &case.out, &Job { force: true, ..options(GgmlType::Q5_1, 2) }, &()).unwrap();
    fs::remove_file(&case.out).unwrap();
    case.interrupt(2);
    fs::write(case.partial(), &garbage).unwrap();
    let again = Job { force: true, ..named("x") };
    assert!(quantize(&case.input, &case.out, &again, &after(1)).is_err());
    fs::remove_file(case.partial()).unwrap();
    fs::remove_file(case.journal()).unwrap();

    // Unrelated files with these names.
    for name in ["out.gguf.partial", "out.gguf.journal"] {
        let path = case.dir.path().join(name);
        fs::write(&path, "a letter").unwrap();
        let error = quantize(&case.input, &case.out, &options(GgmlType::Q8_0, 1), &()).unwrap_err();
        assert!(matches!(&error, Error::NotOurs { path: named } if *named == path), "{error:?}");
        assert_eq!(fs::read(&path).unwrap(), b"a letter");
        assert_eq!(fs::read_dir(case.dir.path()).unwrap().count(), 2);
        quantize(&case.input, &case.out, &Job { force: true, ..options(GgmlType::Q8_0, 1) }, &()).unwrap();
        case.is_whole();
    }
}

#[test]
fn one_process_at_a_time_resumes() {
    let case = Case::new();
    case.interrupt(3);
    let journal = fs::File::open(case.journal()).unwrap();
    journal.try_lock().unwrap();
    let error = quantize(&case.input, &case.out, &options(GgmlType::Q8_0, 1), &()).unwrap_err();
    assert!(matches!(&error, Error::Output(e) if matches!(**e, gguf_io::Error::Busy(_))), "{error:?}");
    drop(journal);
    assert!(case.resume(1) > 0);
}

#[test]
fn an_output_that_is_there_is_replaced_only_when_asked() {
    let case = Case::new();
    case.interrupt(3);
    fs::write(&case.out, "old").unwrap();
    let error = quantize(&case.input, &case.out, &options(GgmlType::Q8_0, 1), &()).unwrap_err();
    assert!(matches!(&error, Error::Output(e) if matches!(**e, gguf_io::Error::Exists(_))), "{error:?}");
    assert_eq!(fs::read(&case.out).unwrap(), b"old");
    let watch = Watch::default();
    quantize(&case.input, &case.out, &Job { force: true, ..options(GgmlType::Q8_0, 1) }, &watch).unwrap();
    assert!(watch.kept_bytes.into_inner() > 0);
    case.is_whole();
}

/// Repeating the run would fail in the same way, so nothing is kept.
#[test]
fn nothing_is_kept_for_an_input_at_fault() {
    let case = Case::new();
    let mut bytes = fs::read(&case.input).unwrap();
    let end = bytes.len();
    // Infinity in the last tensor.
    bytes[end - 34..end - 32].copy_from_slice(&0x7c00u16.to_le_bytes());
    fs::write(&case.input, &bytes).unwrap();
    let error = quantize(&case.input, &case.out, &options(GgmlType::Q8_0, 1), &()).unwrap_err();
    assert!(matches!(error, Error::NotFinite { .. }), "{error:?}");
    assert_eq!(fs::read_dir(case.dir.path()).unwrap().count(), 1);
}

/// Does all the work except for the rename: a file with the final name appears meanwhile. Leaves both files intact.
fn all_but_the_names(input: &Path, out: &Path, appears: &Path, options: &Job) {
    let appear = |event: Event<'_>| {
        if let Event::Advanced { .. } = event {
            fs::write(appears, "theirs").unwrap();
        }
    };
    let error = quantize(input, out, options, &appear).unwrap_err();
    let Error::Kept { why, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(&**why, Error::Output(e) if matches!(**e, gguf_io::Error::Exists(_))), "{error:?}");
    assert!(error.to_string().contains("has appeared during the run; "), "{error}");
    assert_eq!(fs::read(appears).unwrap(), b"theirs");
    fs::remove_file(appears).unwrap();
}

#[test]
fn an_output_that_has_its_name_but_its_journal_too_is_done_if_it_is_right() {
    let case = Case::new();
    all_but_the_names(&case.input, &case.out, &case.out, &options(GgmlType::Q8_0, 2));
    fs::rename(case.partial(), &case.out).unwrap();
    let journal = fs::read(case.journal()).unwrap();
    let ended = fs::metadata(&case.out).unwrap().modified().unwrap();
    for force in [false, true] {
        fs::write(case.journal(), &journal).unwrap();
        let watch = Watch::default();
        quantize(&case.input, &case.out, &Job { force, ..options(GgmlType::Q8_0, 2) }, &watch).unwrap();
        assert_eq!(watch.done.into_inner(), 0);
        assert!(watch.kept_bytes.into_inner() > 0 && !case.journal().exists());
        assert_eq!(fs::metadata(&case.out).unwrap().modified().unwrap(), ended);
        assert!(fs::read(&case.out).unwrap() == case.expected);
    }
    // If anything differs from the run's result, the file belongs to the user.
    let gguf = Gguf::parse(case.expected.as_slice()).unwrap();
    let end_of_tensor = gguf.tensors().map(|t| gguf.tensor_range(&t).unwrap().end).min().unwrap() as usize;
    let mut others = [20, end_of_tensor - 1, end_of_tensor, case.expected.len() - 1].map(|at| {
        let mut bytes = case.expected.clone();
        bytes[at] ^= 4;
        bytes
    });
    others[0].push(0);
    for other in others {
        fs::write(&case.out, &other).unwrap();
        fs::write(case.journal(), &journal).unwrap();
        let error = quantize(&case.input, &case.out, &options(GgmlType::Q8_0, 2), &()).unwrap_err();
        assert!(matches!(&error, Error::Output(e) if matches!(**e, gguf_io::Error::Exists(_))), "{error:?}");
        assert!(fs::read(&case.out).unwrap() == other && fs::read(case.journal()).unwrap() == journal);
        let watch = Watch::default();
        quantize(&case.input, &case.out, &Job { force: true, ..options(GgmlType::Q8_0, 2) }, &watch).unwrap();
        assert_eq!((watch.unusable.into_inner(), watch.done.into_inner()), (1, CHUNKS));
        case.is_whole();
    }
    fs::write(&case.out, &case.expected).unwrap();
    fs::write(case.journal(), &journal).unwrap();
    let error = quantize(&case.input, &case.out, &options(GgmlType::Q5_1, 2), &()).unwrap_err();
    assert!(matches!(&error, Error::Output(e) if matches!(**e, gguf_io::Error::Exists(_))), "{error:?}");
    assert!(fs::read(&case.out).unwrap() == case.expected);
}

#[test]
fn an_input_with_the_name_of_a_side_file_is_left_alone() {
    let case = Case::new();
    let bytes = fs::read(&case.input).unwrap();
    for side in [case.partial(), case.journal()] {
        fs::rename(&case.input, &side).unwrap();
        for force in [false, true] {
            let error = quantize(&side, &case.out, &Job { force, ..options(GgmlType::Q8_0, 1) }, &()).unwrap_err();
            assert!(matches!(&error, Error::OverwritesInput { path } if *path == side), "{error:?}");
            assert!(fs::read(&side).unwrap() == bytes);
        }
        fs::rename(&side, &case.input).unwrap();
        assert_eq!(fs::read_dir(case.dir.path()).unwrap().count(), 1);
    }
}

#[test]
fn what_could_not_be_used_is_told() {
    let case = Case::new();
    let resume = |told: &dyn Fn(u64, u64) -> bool| {
        let watch = Watch::default();
        quantize(&case.input, &case.out, &options(GgmlType::Q8_0, 1), &watch).unwrap();
        let (damaged, unusable) = (watch.damaged_bytes.into_inner(), watch.unusable.into_inner());
        assert!(told(damaged, unusable), "{damaged} {unusable}");
        case.is_whole();
    };
    case.interrupt(2);
    resume(&|damaged, unusable| (damaged, unusable) == (0, 0));
    // The first line of the journal.
    case.interrupt(2);
    let mut journal = fs::read(case.journal()).unwrap();
    journal[30] = 0xff;
    fs::write(case.journal(), &journal).unwrap();
    resume(&|damaged, unusable| (damaged, unusable) == (0, 1));
    // The data, empty or missing.
    case.interrupt(2);
    fs::write(case.partial(), "").unwrap();
    resume(&|damaged, unusable| damaged > 0 && unusable == 0);
    case.interrupt(2);
    fs::remove_file(case.partial()).unwrap();
    resume(&|damaged, unusable| (damaged, unusable) == (0, 1));
    // An empty journal may belong to the user and must not be removed.
    case.interrupt(2);
    fs::write(case.journal(), "").unwrap();
    let error = quantize(&case.input, &case.out, &options(GgmlType::Q8_0, 1), &()).unwrap_err();
    assert!(matches!(error, Error::NotOurs { .. }), "{error:?}");
    assert!(case.journal().exists() && case.partial().exists());
}

/// A model in shards, one of them without tensors.
fn shards(dir: &Path) -> PathBuf {
    let bytes = fs::read(model(dir)).unwrap();
    let gguf = Gguf::parse(bytes.as_slice()).unwrap();
    let whole = Head::from_gguf(&gguf);
    let numbers = [2, 0, 2, 0, 2];
    for no in 0..3u16 {
        let mut head = Head { kvs: if no == 0 { whole.kvs.clone() } else { Vec::new() }, ..Head::default() };
        head.set("split.no", no);
        head.set("split.count", 3u16);
        head.set("split.tensors.count", 5i32);
        let of_shard = || gguf.tensors().zip(numbers).filter(|(_, number)| *number == no).map(|(t, _)| t);
        head.tensors = of_shard().map(|t| t.to_owned()).collect();
        let data = of_shard().map(|t| {
            let range = gguf.tensor_range(&t).unwrap();
            &bytes[range.start as usize..range.end as usize]
        });
        let path = dir.join(format!("in-0000{}-of-00003.gguf", no + 1));
        fs::write(path, Writer::write(Vec::new(), &head, data).unwrap()).unwrap();
    }
    fs::remove_file(dir.join("in.gguf")).unwrap();
    dir.join("in-00002-of-00003.gguf")
}

#[test]
fn shards_are_resumed_and_appear_together() {
    let dir = tempfile::tempdir().unwrap();
    let input = shards(dir.path());
    let out = dir.path().join("out.gguf");
    let keep_split = |resume, threads| Job { keep_split: true, resume, ..options(GgmlType::Q8_0, threads) };
    let files = || {
        let names = ["out-00001-of-00003.gguf", "out-00002-of-00003.gguf", "out-00003-of-00003.gguf"];
        names.map(|name| fs::read(dir.path().join(name)).ok())
    };
    let remove = || {
        for path in fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()) {
            if path.file_name().unwrap().to_str().unwrap().starts_with("out-") {
                fs::remove_file(path).unwrap();
            }
        }
    };
    quantize(&input, &out, &keep_split(false, 2), &()).unwrap();
    let expected = files();
    assert!(expected.iter().all(Option::is_some));
    remove();
    for chunks in 0..CHUNKS {
        let result = quantize(&input, &out, &keep_split(true, 1), &after(chunks));
        assert!(matches!(&result, Err(Error::Kept { n_others: 2, .. })), "{result:?}");
        assert!(files().iter().all(Option::is_none));
        let watch = Watch::default();
        quantize(&input, &out, &keep_split(true, 2), &watch).unwrap();
        assert_eq!(watch.done.into_inner(), CHUNKS - chunks);
        assert!(files() == expected);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 6, "something is left");
        remove();
    }
    // Ended between the renames, or during the removal of journals, of which the first is removed last.
    let name = |no: usize| dir.path().join(format!("out-0000{no}-of-00003.gguf"));
    let side = |no: usize, ending: &str| dir.path().join(format!("out-0000{no}-of-00003.gguf.{ending}"));
    for (n_renamed, n_journals, force) in
        [(1, 3, false), (2, 3, false), (2, 3, true), (3, 3, false), (3, 2, false), (3, 1, false), (3, 1, true)]
    {
        all_but_the_names(&input, &out, &name(1), &keep_split(true, 2));
        (1..=n_renamed).for_each(|no| fs::rename(side(no, "partial"), name(no)).unwrap());
        (n_journals + 1..=3).for_each(|no| fs::remove_file(side(no, "journal")).unwrap());
        let watch = Watch::default();
        quantize(&input, &out, &Job { force, ..keep_split(true, 2) }, &watch).unwrap();
        assert_eq!(watch.done.into_inner(), 0, "{n_renamed} {n_journals}");
        assert!(files() == expected);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 6, "something is left");
        remove();
    }
    // A renamed file is damaged: nothing is written or lost.
    all_but_the_names(&input, &out, &name(1), &keep_split(true, 2));
    let mut other = expected[0].clone().unwrap();
    *other.last_mut().unwrap() ^= 1;
    fs::write(name(1), &other).unwrap();
    fs::remove_file(side(1, "partial")).unwrap();
    let error = quantize(&input, &out, &keep_split(true, 2), &()).unwrap_err();
    assert!(matches!(&error, Error::Output(e) if matches!(**e, gguf_io::Error::Exists(_))), "{error:?}");
    assert!(fs::read(name(1)).unwrap() == other);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3 + 6);
    remove();
    // A later file cannot be created.
    fs::write(side(2, "journal"), "foreign").unwrap();
    let error = quantize(&input, &out, &keep_split(true, 1), &()).unwrap_err();
    assert!(matches!(&error, Error::NotOurs { path } if *path == side(2, "journal")), "{error:?}");
    assert_eq!(fs::read(side(2, "journal")).unwrap(), b"foreign");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4, "something is left");
    remove();
    // One of the names exists.
    fs::write(dir.path().join("out-00003-of-00003.gguf"), "old").unwrap();
    for resume in [false, true] {
        let error = quantize(&input, &out, &keep_split(resume, 1), &()).unwrap_err();
        assert!(matches!(&error, Error::Output(e) if matches!(**e, gguf_io::Error::Exists(_))), "{error:?}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
    }
}

#[test]
fn counts_of_infinities_are_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in.gguf"), dir.path().join("out.gguf"));
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    let info = |i| gguf_format::TensorInfo::new(format!("blk.{i}.attn_q.weight"), [32, 4], GgmlType::F32);
    head.tensors = (0..5).map(info).collect();
    // Some tensors have a value that half precision cannot hold.
    let data = (0..5u8).map(|i| {
        let mut values = vec![1f32; 128];
        values[7] = if i % 2 == 0 { 1e6 } else { 2.0 };
        values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>()
    });
    fs::write(&input, Writer::write(Vec::new(), &head, data).unwrap()).unwrap();
    let convert = |resume, progress: &dyn Progress| {
        let mut draft = typed(Draft::copy_of(&input).unwrap(), GgmlType::F16);
        draft.rounding = Rounding::Converter;
        let summary = draft.lay_out().unwrap().run(&out, &threads(1).resume(resume), progress)?;
        Ok::<Vec<Overflow>, Error>(summary.overflows)
    };
    let whole = convert(false, &()).unwrap();
    let expected = fs::read(&out).unwrap();
    fs::remove_file(&out).unwrap();
    assert_eq!(whole.iter().map(|overflow| overflow.values).collect::<Vec<_>>(), [1, 1, 1]);
    for chunks in 0..5 {
        let interrupted = convert(true, &after(chunks));
        assert!(matches!(interrupted, Err(Error::Kept { .. })), "{interrupted:?}");
        let watch = Watch::default();
        assert_eq!(convert(true, &watch).unwrap(), whole);
        assert_eq!(watch.done.into_inner(), 5 - chunks);
        assert!(fs::read(&out).unwrap() == expected);
        fs::remove_file(&out).unwrap();
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// Notes the reads that are to be fetched ahead.
#[derive(Debug, Default)]
struct Noted(Mutex<Vec<SourceRead>>);

impl ReadAhead for Noted {
    fn run(&self, reads: &mut (dyn Iterator<Item = SourceRead> + Send), work: &mut dyn FnMut()) {
        self.0.lock().unwrap().extend(reads);
        work();
    }
}

/// Fetches nothing, and does not call the work.
#[derive(Debug)]
struct Idle;

impl ReadAhead for Idle {
    fn run(&self, _: &mut (dyn Iterator<Item = SourceRead> + Send), _: &mut dyn FnMut()) {}
}

#[test]
fn data_of_kept_work_is_not_fetched_ahead() {
    let dir = tempfile::tempdir().unwrap();
    let input = model(dir.path());
    let draft = Draft::copy_of(&input).unwrap();
    let plans = [GgmlType::Q8_0, GgmlType::Q4_0].map(|ty| typed(draft.clone(), ty).lay_out().unwrap());
    let all: Vec<SourceRead> = plans[0].reads().map(Result::unwrap).collect();
    assert_eq!(all.len() as u64, CHUNKS);
    for several in [false, true] {
        for done in 0..=CHUNKS {
            let outs = [0, 1].map(|plan| dir.path().join(format!("{several}-{done}-{plan}.gguf")));
            let plans = plans.iter().zip(outs.iter().map(PathBuf::as_path)).take(1 + usize::from(several));
            let plans: Vec<_> = plans.collect();
            let noted = Arc::new(Noted::default());
            let options = threads(1).resume(true).read_ahead(Some(Arc::clone(&noted) as _));
            let reads = |watch: &Watch| {
                let _ = run_all(&plans, &options, watch);
                std::mem::take(&mut *noted.0.lock().unwrap())
            };
            let until = done * plans.len() as u64;
            assert_eq!(reads(&after(until)), all);
            let left = if done == CHUNKS { &[] } else { all.get(done as usize..).unwrap() };
            assert_eq!(reads(&Watch::default()), left, "{several}, {done} done");
            assert!(outs[0].exists());
        }
    }
    let out = dir.path().join("idle.gguf");
    let options = threads(1).read_ahead(Some(Arc::new(Idle)));
    plans[0].run(&out, &options, &()).unwrap();
    assert_eq!(fs::read(out).unwrap(), fs::read(dir.path().join("false-3-0.gguf")).unwrap());
}
