//! The guards of llama.cpp's converter: configurations that it refuses are refused here, too.
//!
//! `guards.tsv` lists the guards, the statements of the converter that raise or assert, with what covers each. `refused.json` has the
//! configurations: a generated checkpoint, the fields to set (`null` removes one) in the object at a path, the content of other files, and a
//! part of our error.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gguf_hf::{Options, plan};
use gguf_test::cases::generate;
use gguf_test::parallel;
use gguf_test::peers::{self, Peers};
use serde_json::Value;

const GUARDS: &str = include_str!("../guards.tsv");

const REFUSED: &str = include_str!("../refused.json");

/// What covers guards that a line of `refused.json` makes fire.
const CASE: &str = "case";

/// The draft models' target.
const TARGET: &str = "qwen3-untied";

/// The minimum number of guards in the sources.
const MIN_GUARDS: usize = 500;

/// The columns of a line.
fn columns<const N: usize>(line: &str) -> [&str; N] {
    let columns: Vec<&str> = line.split('\t').collect();
    columns.try_into().unwrap_or_else(|_| panic!("not {N} columns: {line:?}"))
}

/// The lines of `guards.tsv`.
fn lines() -> Vec<[&'static str; 3]> {
    GUARDS.lines().filter(|line| !line.starts_with('#')).map(columns).collect()
}

/// Whether a text matches a pattern with `*` as wildcard.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            let mut starts = rest.char_indices().map(|(i, _)| i).chain([rest.len()]);
            starts.any(|i| matches(after, &rest[i..]))
        }),
    }
}

/// The index of the line that covers a guard.
fn line_of(lines: &[[&str; 3]], file: &str, text: &str) -> Option<usize> {
    lines.iter().position(|[of_file, of_text, _]| matches(of_file, file) && matches(of_text, text))
}

/// Runs the script with a command and operands.
fn ask(command: &str, operands: &[String]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guards_peer.py");
    let mut python: Command = Peers::get().python(&script);
    let output = python.arg(peers::peers().join("llama.cpp")).arg(command).args(operands).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The guards in the sources.
fn guards() -> BTreeSet<(String, String)> {
    let listed = ask("list", &[]);
    let guard = |line: &str| {
        let [file, text] = columns(line);
        (file.to_owned(), text.to_owned())
    };
    listed.lines().map(guard).collect()
}

fn every_guard_of_the_reference_is_listed() {
    let (lines, guards) = (lines(), guards());
    let found = guards.iter().map(|(file, text)| line_of(&lines, file, text));
    let missing: Vec<_> = guards.iter().zip(found.clone()).filter(|(_, line)| line.is_none()).collect();
    assert!(missing.is_empty(), "guards that no line of guards.tsv covers: {missing:#?}");
    let used: BTreeSet<usize> = found.flatten().collect();
    let stale: Vec<_> = (0..lines.len()).filter(|line| !used.contains(line)).map(|line| lines[line]).collect();
    assert!(stale.is_empty(), "lines of guards.tsv without a guard: {stale:#?}");
    assert!(guards.len() >= MIN_GUARDS, "only {} guards", guards.len());
}

/// Copies a checkpoint, with links to its files.
fn link(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let target = to.join(file.file_name());
        match file.file_type().unwrap().is_dir() {
            true => link(&file.path(), &target),
            false => fs::hard_link(file.path(), target).unwrap(),
        }
    }
}

/// Writes the changed configuration and files of a case in place of the linked ones.
fn configure(case: &Value, folder: &Path) {
    let file = folder.join("config.json");
    // Python writes infinity, which is not JSON, into fields that are not read.
    let text = fs::read_to_string(&file).unwrap().replace("Infinity", "1e308");
    let mut config: Value = serde_json::from_str(&text).unwrap();
    let path = case["at"].as_str().into_iter().flat_map(|path| path.split('.'));
    // Some generated configurations have the fields of the text model outside.
    let object = path.fold(&mut config, |object, name| match object.get(name) {
        Some(_) => &mut object[name],
        None => object,
    });
    let object = object.as_object_mut().unwrap();
    for (name, value) in case["set"].as_object().unwrap() {
        match value {
            Value::Null => object.remove(name),
            value => object.insert(name.clone(), value.clone()),
        };
    }
    let files = case["files"].as_object().into_iter().flatten();
    let files = files.map(|(name, content)| (folder.join(name), content)).chain([(file, &config)]);
    for (file, content) in files {
        fs::remove_file(&file).unwrap();
        fs::write(&file, content.to_string()).unwrap();
    }
}

fn configurations_that_the_reference_refuses_are_errors() {
    let cases: Vec<Value> = serde_json::from_str(REFUSED).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let bases = dir.path().join("bases");
    fs::create_dir(&bases).unwrap();
    let names: BTreeSet<&str> = cases.iter().map(|case| case["case"].as_str().unwrap()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    parallel::map(&names, |name| generate(name, &bases));

    let mut failures = Vec::new();
    let mut folders = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let base = case["case"].as_str().unwrap();
        let folder = dir.path().join(number.to_string());
        link(&bases.join(base), &folder);
        configure(case, &folder);
        let target: Option<PathBuf> = bases.join(TARGET).exists().then(|| bases.join(TARGET));
        let target = target.filter(|_| base.starts_with("dspark"));
        let expected = case["says"].as_str().unwrap();
        match plan(&folder, &Options::default().target(target.clone())) {
            Err(e) if e.to_string().contains(expected) => {}
            Err(e) => failures.push(format!("{case}: expected {expected:?}: {e}")),
            // Tensors that the architecture does not have are findings about the output, which refuse it.
            Ok(conversion)
                if conversion.n_errors > 0
                    && conversion.warnings.iter().any(|warning| warning.to_string().contains(expected)) => {}
            Ok(_) => failures.push(format!("{case}: converted")),
        }
        let target = target.map(|target| format!("={}", target.display())).unwrap_or_default();
        folders.push(format!("{}{target}", folder.display()));
    }

    let lines = lines();
    let mut fired = BTreeSet::new();
    let halves: Vec<&[String]> = folders.chunks(folders.len().div_ceil(2)).collect();
    let answers = parallel::map(&halves, |half| ask("run", half));
    let answers: Vec<&str> = answers.iter().flat_map(|answer| answer.lines()).collect();
    assert_eq!(answers.len(), cases.len());
    for (case, answer) in cases.iter().zip(answers) {
        let [_, file, text] = columns(answer);
        match line_of(&lines, file, text).map(|line| lines[line]) {
            Some([.., CASE]) => {
                fired.insert((file.to_owned(), text.to_owned()));
            }
            Some(line) => failures.push(format!("{case}: fires a guard that is listed otherwise: {line:?}")),
            None => failures.push(format!("{case}: no guard of the reference fires: {text}")),
        }
    }
    for (file, text) in guards() {
        let is_case = line_of(&lines, &file, &text).is_some_and(|line| lines[line][2] == CASE);
        if is_case && !fired.contains(&(file.clone(), text.clone())) {
            failures.push(format!("{file}: no case makes this guard fire: {text}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

gguf_test::tests! {
    [Peers] every_guard_of_the_reference_is_listed;
    [Shared, Peers, Torch] configurations_that_the_reference_refuses_are_errors;
}
