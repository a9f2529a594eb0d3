//! Replacing the start of a file in place: the result, and the state after an interruption at every step and every byte.

use std::cell::RefCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use gguf_io::Error;
use gguf_io::in_place::{EditLock, EditStep, finish, finish_with, journal_path, replace_start, space};
use gguf_io::{ModelFile, Output};

/// A file with a start to replace.
struct Case {
    dir: tempfile::TempDir,
    old: Vec<u8>,
    new: Vec<u8>,
    data: Vec<u8>,
}

impl Case {
    /// Starts that differ in the bytes `from..to`; `more` bytes are inserted for the new one.
    fn new(len: usize, from: usize, to: usize, more: usize) -> Case {
        let byte = |i: usize| (i * 7 + i / 251) as u8;
        let old: Vec<u8> = (0..len).map(byte).collect();
        let changed = (0..to - from + more).map(|i| byte(i) ^ 0x55);
        let new = old[..from].iter().copied().chain(changed).chain(old[to..].iter().copied()).collect();
        Case { dir: tempfile::tempdir().unwrap(), old, new, data: (0..9000).map(|i| byte(i) ^ 0xaa).collect() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("file")
    }

    fn before(&self) -> Vec<u8> {
        [self.old.as_slice(), &self.data].concat()
    }

    fn after(&self) -> Vec<u8> {
        [self.new.as_slice(), &self.data].concat()
    }

    fn write(&self) {
        fs::write(self.path(), self.before()).unwrap();
        let _ = fs::remove_file(journal_path(&self.path()));
    }

    fn run(&self, on: &dyn Fn(EditStep)) -> Result<(), Error> {
        replace_start(&self.path(), &self.old, &self.new, on)
    }

    fn assert(&self, expected: &[u8], why: &str) {
        assert!(fs::read(self.path()).unwrap() == expected, "{why}");
        assert!(!journal_path(&self.path()).exists(), "{why}: the journal is left");
    }
}

/// The cases supported by the file system of the test.
fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new(100, 0, 100, 0),
        Case::new(100, 40, 41, 0),
        Case::new(600_000, 3, 599_000, 0),
        Case::new(0, 0, 0, 0),
    ];
    let dir = tempfile::tempdir().unwrap();
    if space::can_insert(dir.path()) {
        let block = usize::try_from(space::block_bytes(dir.path()).unwrap()).unwrap();
        cases.extend([
            Case::new(100, 40, 50, block),
            Case::new(100, 100, 100, block),
            Case::new(3 * block, block + 7, block + 7, 2 * block),
            Case::new(3 * block + 1, 0, 5, block),
            Case::new(300_000, 4 * block, 299_999, 70 * block),
        ]);
    } else {
        println!("the file system inserts no bytes: that is not tested");
    }
    cases
}

#[test]
fn the_start_is_replaced_and_nothing_else() {
    for (i, case) in cases().iter().enumerate() {
        case.write();
        let steps = RefCell::new(Vec::new());
        case.run(&|step| steps.borrow_mut().push(step)).unwrap();
        case.assert(&case.after(), &format!("case {i}"));
        let mut steps = steps.into_inner();
        steps.dedup();
        let inserts = case.new.len() > case.old.len();
        let expected: Vec<EditStep> = [
            (EditStep::Opened, true),
            (EditStep::Noted, true),
            (EditStep::Durable, true),
            (EditStep::Inserted, inserts),
            (EditStep::Wrote, !case.new.is_empty()),
            (EditStep::Synced, true),
            (EditStep::Finished, true),
        ]
        .into_iter()
        .filter_map(|(step, is_taken)| is_taken.then_some(step))
        .collect();
        assert_eq!(steps, expected, "case {i}");
    }
}

/// The complete journal of a case.
fn journal_of(case: &Case) -> Vec<u8> {
    case.write();
    let journal = RefCell::new(Vec::new());
    let keep = |step| {
        if step == EditStep::Durable {
            *journal.borrow_mut() = fs::read(journal_path(&case.path())).unwrap();
        }
    };
    case.run(&keep).unwrap();
    journal.into_inner()
}

/// The file and the journal after a process ends at a step.
fn left_by(case: &Case, n: usize) -> Option<(EditStep, Vec<u8>, Option<Vec<u8>>)> {
    case.write();
    let (seen, left) = (RefCell::new(0), RefCell::new(None));
    case.run(&|step| {
        if *seen.borrow() == n {
            let journal = fs::read(journal_path(&case.path())).ok();
            *left.borrow_mut() = Some((step, fs::read(case.path()).unwrap(), journal));
        }
        *seen.borrow_mut() += 1;
    })
    .unwrap();
    left.into_inner()
}

#[test]
fn an_interruption_at_any_step_leaves_the_old_start_or_the_new_one() {
    for (i, case) in cases().iter().enumerate() {
        for n in 0.. {
            let Some((step, file, journal)) = left_by(case, n) else { break };
            fs::write(case.path(), file).unwrap();
            if let Some(journal) = &journal {
                fs::write(journal_path(&case.path()), journal).unwrap();
            }
            let is_new = !matches!(step, EditStep::Opened | EditStep::Noted);
            let is_left = journal.is_some() && is_new && step != EditStep::Synced;
            let is_changed = case.old != case.new;
            // If everything is written, the only remaining step is to remove the journal.
            let had_work = finish(&case.path()).unwrap();
            assert!(!had_work || is_left && is_changed, "case {i}, {step:?}");
            let expected = if is_new { case.after() } else { case.before() };
            case.assert(&expected, &format!("case {i}, {step:?}"));
            assert!(!finish(&case.path()).unwrap());
        }
    }
}

#[test]
fn a_torn_journal_is_no_journal() {
    let case = Case::new(100, 40, 60, 0);
    let journal = journal_of(&case);
    for len in 0..journal.len() {
        case.write();
        fs::write(journal_path(&case.path()), &journal[..len]).unwrap();
        assert!(!finish(&case.path()).unwrap());
        case.assert(&case.before(), &format!("{len} bytes"));
    }
    // A journal with any flipped bit is rejected.
    for at in 0..journal.len() {
        case.write();
        let mut wrong = journal.clone();
        wrong[at] ^= 1 << (at % 8);
        fs::write(journal_path(&case.path()), wrong).unwrap();
        assert!(!finish(&case.path()).unwrap());
        // A file that does not begin like a journal is kept.
        if at < 16 {
            fs::remove_file(journal_path(&case.path())).unwrap();
        }
        case.assert(&case.before(), &format!("byte {at}"));
    }
}

#[test]
fn a_torn_write_is_finished() {
    let mut cases = vec![Case::new(100, 40, 60, 0)];
    let dir = tempfile::tempdir().unwrap();
    if space::can_insert(dir.path()) {
        let block = usize::try_from(space::block_bytes(dir.path()).unwrap()).unwrap();
        cases.push(Case::new(100, 40, 60, block));
    }
    for case in &cases {
        let journal = journal_of(case);
        let block = case.new.len() - case.old.len();
        let step = (block / 50).max(1);
        // After the insertion, `n` bytes of the new start were written.
        let inserted = [vec![0; block], case.before()].concat();
        for n in (0..=case.new.len()).step_by(step) {
            let torn = [&case.new[..n], &inserted[n..]].concat();
            fs::write(case.path(), &torn).unwrap();
            fs::write(journal_path(&case.path()), &journal).unwrap();
            finish(&case.path()).unwrap();
            case.assert(&case.after(), &format!("{n} of {} bytes", case.new.len()));
        }
    }
}

#[test]
fn finishing_can_be_interrupted_too() {
    for (i, case) in cases().iter().enumerate().filter(|(_, case)| case.old != case.new) {
        let journal = journal_of(case);
        for n in 0.. {
            case.write();
            fs::write(journal_path(&case.path()), &journal).unwrap();
            let (seen, left) = (RefCell::new(0), RefCell::new(None));
            finish_with(&case.path(), &|_| {
                if *seen.borrow() == n {
                    *left.borrow_mut() = Some(fs::read(case.path()).unwrap());
                }
                *seen.borrow_mut() += 1;
            })
            .unwrap();
            let Some(file) = left.into_inner() else { break };
            fs::write(case.path(), file).unwrap();
            fs::write(journal_path(&case.path()), &journal).unwrap();
            finish(&case.path()).unwrap();
            case.assert(&case.after(), &format!("case {i}, step {n}"));
        }
    }
}

#[test]
fn a_file_that_is_another_one_is_not_touched() {
    let case = Case::new(100, 40, 60, 0);
    let journal = journal_of(&case);
    let mut other_start = case.before();
    other_start[3] ^= 1;
    let longer = [case.before(), vec![0]].concat();
    for other in [other_start, longer, b"another file".to_vec(), Vec::new()] {
        fs::write(case.path(), &other).unwrap();
        fs::write(journal_path(&case.path()), &journal).unwrap();
        let error = finish(&case.path()).unwrap_err();
        assert!(matches!(&error, Error::OtherJournal { .. }), "{error}");
        assert!(error.to_string().contains("file.edit belongs to other contents"), "{error}");
        // An edit of the file does not begin either.
        let again = replace_start(&case.path(), &other[..1.min(other.len())], &[7][..1.min(other.len())], &|_| ());
        assert!(matches!(again, Err(Error::OtherJournal { .. })));
        assert_eq!(fs::read(case.path()).unwrap(), other);
        assert_eq!(fs::read(journal_path(&case.path())).unwrap(), journal);
    }
}

#[test]
fn what_cannot_be_is_an_error_and_changes_nothing() {
    let case = Case::new(100, 40, 60, 0);
    case.write();
    let path = case.path();
    let assert = |result: Result<(), Error>, part: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        case.assert(&case.before(), part);
    };
    assert(replace_start(&path, b"other", b"wrong", &|_| ()), "has changed since it was read");
    assert(replace_start(&path, &case.old, &case.old[..50], &|_| ()), "the new start is shorter");
    let longer = [case.old.as_slice(), &[0; 3]].concat();
    let problem = if cfg!(target_os = "linux") { "bytes are inserted in whole blocks" } else { "unsupported" };
    assert(replace_start(&path, &case.old, &longer, &|_| ()), problem);
    let missing = path.with_file_name("missing");
    assert(replace_start(&missing, b"", b"", &|_| ()), "cannot open");
    assert!(!journal_path(&missing).exists());
    // One process at a time.
    let locked = gguf_io::open_locked(&journal_path(&path)).unwrap();
    assert!(matches!(case.run(&|_| ()), Err(Error::Busy(_))));
    // The file is the old one as long as the journal is empty.
    assert!(!finish(&path).unwrap());
    drop(locked);
    finish(&path).unwrap();
    case.assert(&case.before(), "unlocked");
    // A user's file or directory with that name is not a journal, and is kept.
    let own = b"notes about an edit";
    fs::write(journal_path(&path), own).unwrap();
    assert!(!finish(&path).unwrap());
    let error = case.run(&|_| ()).unwrap_err().to_string();
    assert!(
        error.contains("file.edit: cannot be used as the journal of the edit: that file is not a journal"),
        "{error}"
    );
    assert_eq!(fs::read(journal_path(&path)).unwrap(), own);
    fs::remove_file(journal_path(&path)).unwrap();
    fs::create_dir(journal_path(&path)).unwrap();
    assert!(!finish(&path).unwrap());
    assert!(matches!(case.run(&|_| ()), Err(Error::NotAFile(_))));
    assert_eq!(fs::read(&path).unwrap(), case.before());
}

#[cfg(unix)]
#[test]
fn a_link_leads_to_the_journal() {
    let case = Case::new(100, 40, 60, 0);
    let journal = journal_of(&case);
    case.write();
    fs::write(journal_path(&case.path()), journal).unwrap();
    let link = case.dir.path().join("link");
    std::os::unix::fs::symlink("file", &link).unwrap();
    assert!(finish(&link).unwrap());
    case.assert(&case.after(), "through a link");
    // An edit through a link edits the file.
    replace_start(&link, &case.new, &case.old, &|_| ()).unwrap();
    case.assert(&case.before(), "through a link");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn opening_a_model_finishes_its_edit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");
    let head = |name: &str| {
        let mut head = gguf_format::Head::default();
        head.set("general.name", name);
        gguf_io::Writer::write(Vec::new(), &head, [[0u8; 0]; 0]).unwrap()
    };
    let (old, new) = (head("old"), head("new"));
    fs::write(&path, &old).unwrap();
    let state = RefCell::new(None);
    replace_start(&path, &old, &new, &|step| {
        if step == EditStep::Durable {
            *state.borrow_mut() = Some(fs::read(journal_path(&path)).unwrap());
        }
    })
    .unwrap();
    let journal = state.into_inner().unwrap();
    let interrupt = |path: &Path| {
        fs::write(path, &old).unwrap();
        fs::write(journal_path(path), &journal).unwrap();
    };
    interrupt(&path);
    let file = gguf_io::ModelFile::open(&path).unwrap();
    assert_eq!(file.gguf().get_as::<&str>("general.name"), Ok("new"));
    assert!(!journal_path(&path).exists());
    drop(file);
    // A file that replaces an interrupted one is not touched, and the old file's journal is removed.
    interrupt(&path);
    let output = gguf_io::Output::create(&path, true).unwrap();
    output.write_at(0, &head("third")).unwrap();
    output.commit().unwrap();
    assert!(!journal_path(&path).exists());
    assert_eq!(gguf_io::ModelFile::open(&path).unwrap().gguf().get_as::<&str>("general.name"), Ok("third"));
    drop(File::open(&path).unwrap());
}

/// A model without tensors, of a fixed length.
fn named(name: &str) -> Vec<u8> {
    let mut head = gguf_format::Head::default();
    head.set("general.name", format!("{name:8}"));
    gguf_io::Writer::write(Vec::new(), &head, [[0u8; 0]; 0]).unwrap()
}

fn name_of(path: &Path) -> String {
    ModelFile::open(path).unwrap().gguf().get_as::<&str>("general.name").unwrap().trim_end().to_owned()
}

#[test]
fn an_edit_excludes_others_but_not_readers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");
    fs::write(&path, named("old")).unwrap();
    let mut lock = EditLock::new(&path).unwrap();
    assert_eq!(lock.path(), path);
    assert!(matches!(EditLock::new(&path), Err(Error::Busy(busy)) if busy == path));
    let edit = replace_start(&path, &named("old"), &named("new"), &|_| ());
    assert!(matches!(edit, Err(Error::Busy(_))), "{edit:?}");
    assert_eq!(name_of(&path), "old");
    let model = ModelFile::open(&path).unwrap();
    lock.check(&model).unwrap();
    lock.replace_start(&named("old"), &named("new"), &|_| ()).unwrap();
    // The lock is kept, and the model is no longer the one that was read.
    assert!(matches!(lock.check(&model), Err(Error::Changed(_))));
    assert!(matches!(model.check_unchanged(), Err(Error::Changed(_))));
    assert!(matches!(EditLock::new(&path), Err(Error::Busy(_))));
    assert_eq!(name_of(&path), "new");
    // So it is after an edit that fails.
    assert!(matches!(lock.replace_start(&named("old"), &named("third"), &|_| ()), Err(Error::Changed(_))));
    assert!(matches!(EditLock::new(&path), Err(Error::Busy(_))));
    drop(lock);
    assert!(!journal_path(&path).exists());
    drop(EditLock::new(&path).unwrap());
    assert!(EditLock::new(path.with_file_name("missing")).is_err());
    assert!(!journal_path(&path.with_file_name("missing")).exists());
}

#[test]
fn a_reader_waits_for_an_edit_that_is_being_written() {
    let case = Case::new(100, 40, 60, 0);
    let journal = journal_of(&case);
    case.write();
    let locked = gguf_io::open_locked(&journal_path(&case.path())).unwrap();
    // The writer is killed after a while, and the reader completes its edit.
    let writer = std::thread::spawn(move || {
        std::io::Write::write_all(&mut &locked, &journal).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
    });
    while fs::metadata(journal_path(&case.path())).unwrap().len() == 0 {
        std::thread::yield_now();
    }
    assert!(finish(&case.path()).unwrap());
    writer.join().unwrap();
    case.assert(&case.after(), "after the writer");
}

#[cfg(unix)]
#[test]
fn a_file_that_another_program_puts_there_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");
    let replace = || {
        let other = dir.path().join("other");
        fs::write(&other, named("other")).unwrap();
        fs::rename(&other, &path).unwrap();
    };
    let assert = |result: Result<(), Error>, what: &str| {
        assert!(matches!(result, Err(Error::Changed(_))), "{what}: {result:?}");
        assert_eq!(name_of(&path), "other", "{what}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{what}");
    };
    // During an edit in place, at any step.
    for at in [EditStep::Opened, EditStep::Noted, EditStep::Durable, EditStep::Wrote, EditStep::Synced] {
        fs::write(&path, named("old")).unwrap();
        let edit = replace_start(&path, &named("old"), &named("new"), &|step| {
            if step == at {
                replace();
            }
        });
        assert(edit, &format!("{at:?}"));
    }
    // Before a new file gets the name.
    fs::remove_file(&path).unwrap();
    fs::write(&path, named("old")).unwrap();
    let lock = EditLock::new(&path).unwrap();
    let old = ModelFile::open(&path).unwrap();
    let output = || {
        let output = Output::create(&path, true).unwrap();
        output.write_at(0, &named("new")).unwrap();
        output
    };
    let (first, second) = (output(), output());
    replace();
    let committed = first.commit_over(old);
    drop(lock);
    assert!(matches!(committed, Err(Error::Changed(_))));
    assert_eq!(name_of(&path), "other");
    second.commit_over(ModelFile::open(&path).unwrap()).unwrap();
    assert_eq!(name_of(&path), "new");
    // A removed file stays removed.
    let (third, old) = (output(), ModelFile::open(&path).unwrap());
    fs::remove_file(&path).unwrap();
    assert!(matches!(third.commit_over(old), Err(Error::Changed(_))));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn an_output_leaves_the_lock_of_an_edit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");
    fs::write(&path, named("old")).unwrap();
    let lock = EditLock::new(&path).unwrap();
    let model = ModelFile::open(&path).unwrap();
    let output = Output::create(&path, true).unwrap();
    output.write_at(0, &named("other")).unwrap();
    let committed = output.commit();
    if cfg!(unix) {
        committed.unwrap();
        assert!(matches!(EditLock::new(&path), Err(Error::Busy(_))));
        assert!(matches!(lock.check(&model), Err(Error::Changed(_))));
    } else {
        assert!(matches!(committed, Err(Error::Busy(_))));
    }
}
