//! An edit that is killed at any step: the next open of the file sees the old head or the new one, and the data is unchanged.
//!
//! Each test starts itself as a child process, whose edit aborts at the n-th event. Every step of the journal is an event, so the result
//! does not depend on timing.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use gguf_edit::{Edit, EditMethod, EditOptions, EditPlan};
use gguf_format::{GgmlType, Head, TensorInfo};
use gguf_io::in_place::{EditStep, journal_path, space};
use gguf_io::{ModelFile, Writer};
use gguf_pipeline::Event;

/// The variable with the working directory of a child.
const FOLDER: &str = "GGUF_TEST_EDIT_FOLDER";
/// The variable with the number of the event at which it aborts.
const AT: &str = "GGUF_TEST_EDIT_AT";

/// The steps of an edit.
fn step(event: Event<'_>) -> &'static str {
    match event {
        Event::Edited { step: EditStep::Opened } => "journal opened",
        Event::Edited { step: EditStep::Noted } => "noted",
        Event::Edited { step: EditStep::Durable } => "durable",
        Event::Edited { step: EditStep::Inserted } => "inserted",
        Event::Edited { step: EditStep::Wrote } => "wrote",
        Event::Edited { step: EditStep::Synced } => "head synced",
        Event::Edited { step: EditStep::Finished } => "journal removed",
        Event::Opened { .. } => "opened",
        Event::Started { .. } => "started",
        Event::Advanced { .. } => "advanced",
        Event::Written => "written",
        Event::Synced => "synced",
        Event::Named { .. } => "named",
        Event::Finished => "finished",
        _ => "other",
    }
}

/// An edit.
struct Work {
    /// The name of the test, to start it as a child.
    test: &'static str,
    /// The new name of the model: its length determines how the file is edited.
    name: String,
    options: EditOptions,
    /// The first step after which the edit is committed.
    new_from: &'static str,
    /// Steps that must occur.
    steps: &'static [&'static str],
}

fn write(path: &Path) {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("general.name", "Before");
    // More than is written at once.
    head.set("tokenizer.ggml.tokens", (0..50_000).map(|i| format!("token {i}")).collect::<Vec<String>>());
    head.tensors = vec![TensorInfo::new("output_norm.weight", [5000], GgmlType::F32)];
    let _ = fs::remove_file(journal_path(path));
    fs::write(path, Writer::write(Vec::new(), &head, [data()]).unwrap()).unwrap();
}

fn data() -> Vec<u8> {
    (0..20_000).map(|i: u32| (i * 31) as u8).collect()
}

impl Work {
    fn plan(&self, path: &Path) -> EditPlan {
        let edit = Edit::Set { key: "general.name".into(), value: self.name.as_str().into() };
        EditPlan::new(path, &[edit], &self.options).unwrap()
    }

    fn be_killed(&self, folder: &Path) {
        let at = std::env::var(AT).unwrap().parse::<usize>().unwrap();
        let seen = AtomicUsize::new(0);
        let abort = |event: Event<'_>| {
            if seen.fetch_add(1, Ordering::SeqCst) == at {
                fs::write(folder.join("step"), step(event)).unwrap();
                std::process::abort();
            }
        };
        self.plan(&folder.join("m.gguf")).run(&abort).unwrap();
    }

    /// Opens the file: returns the name of the model, and checks that the data is unchanged.
    fn look(&self, path: &Path) -> String {
        let file = ModelFile::open(path).unwrap();
        let gguf = file.gguf();
        let range = gguf.tensor_range(&gguf.tensor("output_norm.weight").unwrap()).unwrap();
        let mut there = vec![0; 20_000];
        file.read_at(range.start, &mut there).unwrap();
        assert!(there == data());
        assert_eq!(gguf.get_as::<Vec<&str>>("tokenizer.ggml.tokens").unwrap()[49_999], "token 49999");
        assert!(!journal_path(path).exists(), "the journal is left");
        gguf.get_as::<&str>("general.name").unwrap().to_owned()
    }

    fn kill_at_every_step(&self, way: fn(EditMethod) -> bool) {
        if let Some(folder) = std::env::var_os(FOLDER) {
            return self.be_killed(Path::new(&folder));
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.gguf");
        write(&path);
        let planned = self.plan(&path).method();
        assert!(way(planned), "{planned:?}");
        let mut steps: Vec<String> = Vec::new();
        let mut is_new = false;
        for at in 0.. {
            for entry in fs::read_dir(dir.path()).unwrap() {
                fs::remove_file(entry.unwrap().path()).unwrap();
            }
            write(&path);
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", self.test])
                .env(FOLDER, dir.path())
                .env(AT, at.to_string())
                .output()
                .unwrap();
            let step = fs::read_to_string(dir.path().join("step"));
            let name = self.look(&path);
            let Ok(step) = step else {
                assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
                assert_eq!(name, self.name);
                break;
            };
            assert!(!child.status.success());
            is_new |= step == self.new_from;
            assert_eq!(name, if is_new { self.name.as_str() } else { "Before" }, "{step} {at}");
            steps.push(step);
            // The same edit succeeds.
            self.plan(&path).run(&()).unwrap();
            assert_eq!(self.look(&path), self.name);
        }
        println!("{}: {}", self.test, steps.join(", "));
        for step in self.steps {
            assert!(steps.iter().any(|s| s == step), "no kill at {step}: {steps:?}");
        }
    }
}

const JOURNAL: &[&str] = &["journal opened", "noted", "durable", "wrote", "head synced", "journal removed"];

#[test]
fn in_the_room_that_is_there() {
    Work {
        test: "killed::in_the_room_that_is_there",
        // Shorter, so all tokens move.
        name: "A".into(),
        options: EditOptions::default().only_in_place(true),
        new_from: "durable",
        steps: JOURNAL,
    }
    .kill_at_every_step(|way| way == EditMethod::Reserved);
}

#[test]
fn with_bytes_inserted() {
    if !space::can_insert(&std::env::temp_dir().join("file")) {
        println!("the file system inserts no bytes: that is not tested");
        return;
    }
    Work {
        test: "killed::with_bytes_inserted",
        name: "A name that is longer than there is room for, so that bytes are inserted".into(),
        options: EditOptions::default().only_in_place(true),
        new_from: "durable",
        steps: &[JOURNAL, &["inserted"]].concat().leak()[..],
    }
    .kill_at_every_step(|way| matches!(way, EditMethod::Insert { .. }));
}

#[test]
fn with_a_new_file() {
    Work {
        test: "killed::with_a_new_file",
        name: "After".into(),
        options: EditOptions::default().rewrite(true),
        new_from: "named",
        steps: &["opened", "started", "advanced", "written", "synced", "named", "finished"],
    }
    .kill_at_every_step(|way| matches!(way, EditMethod::Copy { .. }));
}
